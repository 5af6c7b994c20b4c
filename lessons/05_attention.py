# %% [markdown]
# # 05 Attention, forward and backward
#
# Attention lets every token collect from other tokens what it needs. Each token has three vectors: a query q
# (what it looks for), a key k (what it can be found by) and a value v (what it hands over). In one line (Vaswani et
# al. 2017, equation 1),
#
#     y = P v,     P = softmax(q kᵀ / sqrt(d))
#
# Row t of P holds the weights with which token t takes a mean of all values. Below, T = 5 tokens have queries
# and keys of d = 4 numbers and values of e = 3. Every step is computed a second time in plain loops, first
# forward, then backward in the reverse order. Lesson 02 explains gradients and the complex step. About 15 minutes.
#
# `with nt.record(attention) as tape:` writes down what goes in and out of each component, and the gradients that come
# back; the component itself knows nothing of it. What attention's softmax is given are the scores, and what it
# returns are the weights.

# %% Five tokens, an attention, and a tape of what passes through it
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.classroom import claim, figure, lesson, predict, show, slopes

lesson.start(__name__)


def apart(a, b):                            # their largest difference
    return np.abs(a - np.asarray(b)).max()


rng = np.random.default_rng(5)
words = ["the", "cat", "saw", "the", "dog"]
T, d, e = 5, 4, 3
q, k, v = rng.standard_normal((T, d)), rng.standard_normal((T, d)), rng.standard_normal((T, e))
attention = nt.ScaledDotProductAttention()
with nt.record(attention) as tape:
    y = attention(q, k, v)
S, P = tape["softmax"].inputs[0], tape["softmax"].output
show(q=q, k=k, v=v)

# %% [markdown]
# ## 1. Forward
#
# * The score S_ts = (sum over c of q_tc k_sc) / sqrt(d) says how well the query of token t fits the key of s.
# * The weight P_ts = exp(S_ts) / (sum over j of exp(S_tj)) is positive, and each row sums to 1.
# * The output y_t = sum over s of P_ts v_s is a weighted mean of the values.
#
# The weights do not depend on v. So for given weights attention is linear in the values: it mixes tokens, and can
# neither bend nor amplify what they hand over. That is why a feed-forward layer follows it (lesson 09).

# %% Scores, weights, outputs
S_loops = [[sum(q[t, c] * k[s, c] for c in range(d)) / math.sqrt(d) for s in range(T)] for t in range(T)]
claim("scores: S_ts = q_t · k_s / sqrt(d)", apart(S, S_loops) < 1e-13)
P_loops = [[math.exp(S[t, s]) / sum(math.exp(S[t, j]) for j in range(T)) for s in range(T)] for t in range(T)]
claim("weights: P_ts = exp(S_ts) / sum of exp(S_tj)", apart(P, P_loops) < 1e-13)
y_loops = [[sum(P[t, s] * v[s, c] for s in range(T)) for c in range(e)] for t in range(T)]
claim("outputs: y_t = sum of P_ts v_s", apart(y, y_loops) < 1e-13)
show(S=S, P=P, y=y)
predict("does y double if all values double?", "yes")
u = rng.standard_normal((T, e))
claim("attention is linear in the values: A(2 v - 3 u) = 2 A(v) - 3 A(u)",
      apart(attention(q, k, 2 * v - 3 * u), 2 * y - 3 * attention(q, k, u)) < 1e-13)
predict("and if all queries double?", "no")
claim("it is not linear in the queries, because of softmax", apart(attention(2 * q, k, v), 2 * y) > 0.1)
claim("feature by feature, each output lies between the smallest and the largest value",
      (v.min(0) <= y).all() and (y <= v.max(0)).all())

# %% [markdown]
# ## 2. Why sqrt(d)?
#
# If the entries of q and k are independent with mean 0 and variance 1, then q · k is a sum of d products, each
# with variance 1: its variance is d, its typical size sqrt(d) (section 3.2.1 of the paper, footnote 4). With d = 512
# that is 23, and softmax would give nearly all the weight to the key with the largest score. There its slope vanishes,
# since P (1 - P) is near 0 for P near 0 and for P near 1, and training gets hardly any signal. Division by sqrt(d)
# makes the variance 1, and the weights look much the same for every d. The last number below says how much of the
# gradient passes: the length of a row of dL/dscores over that of dL/dweights (section 4), the median of all queries.

# %% The experiment: 400 queries, each with 16 keys, for growing d
WIDTHS, rows, large = (2, 8, 32, 128, 512), {"divided": [], "not divided": []}, nt.ScaledDotProductAttention()
for width in WIDTHS:
    queries, keys = rng.standard_normal((400, 1, width)), rng.standard_normal((400, 16, width))
    values, dy = rng.standard_normal((400, 16, 3)), rng.standard_normal((400, 1, 3))
    for name, factor in (("divided", 1), ("not divided", math.sqrt(width))):        # the factor undoes the division
        with nt.record(large) as tape:
            large(queries * factor, keys, values)
            large.backward(dy)
        softmax = tape["softmax"]
        p, dscores = softmax.output, softmax.gradients[0]
        kept = np.linalg.norm(dscores, axis=-1) / np.linalg.norm(softmax.dy, axis=-1)
        rows[name].append((softmax.inputs[0].var(), p.max(-1).mean(), np.median(kept)))
        print("  d = {:<3} {:<11}  variance {:6.2f}  largest weight {:.2f}  gradient kept {:.1g}"
              .format(width, name, *rows[name][-1]))
divided, undivided = (np.array(rows[name]).T for name in ("divided", "not divided"))
claim("not divided, the variance of the scores is d", np.allclose(undivided[0] / WIDTHS, 1, atol=0.1))
claim("divided, it is 1", np.allclose(divided[0], 1, atol=0.1))
claim("divided, the largest of 16 weights is nearly the same for all d", np.ptp(divided[1]) < 0.06)
claim("not divided, at d = 512 one key takes nearly all the weight", undivided[1, -1] > 0.9 > 0.3 > divided[1, -1])
claim("and softmax lets almost no gradient through", undivided[2, -1] < divided[2, -1] / 100)

# %% The experiment as a picture
picture = Figure(figsize=(12, 4), layout="constrained")
for axes, row, title in zip(picture.subplots(1, 3), range(3), (
        "variance of the scores", "largest of 16 weights", "part of the gradient that\nsoftmax lets through")):
    axes.plot(WIDTHS, undivided[row], "C1s--", label="not divided")
    axes.plot(WIDTHS, divided[row], "C0o-", label="divided by sqrt(d)")
    axes.set_xscale("log", base=2)
    axes.set(xticks=WIDTHS, xticklabels=WIDTHS, xlabel="d", ylabel=title, yscale="linear" if row == 1 else "log")
picture.axes[0].legend()
figure("scaling", picture)

# %% [markdown]
# ## 3. The causal mask
#
# A model that predicts the next token must not see it. The mask is boolean, True = may attend: token t sees
# tokens 0 to t. A hidden score becomes -inf before softmax, and exp(-inf) is exactly 0.

# %% The same attention with a mask
mask = nt.causal_mask(T)
with nt.record(attention) as tape:
    y = attention(q, k, v, mask)
P = tape["softmax"].output
show(mask=mask, P=P)
P_loops = [[math.exp(S_loops[t][s]) / sum(math.exp(S_loops[t][j]) for j in range(t + 1)) if s <= t else 0
            for s in range(T)] for t in range(T)]
claim("the weights are a softmax over the tokens 0 to t", apart(P, P_loops) < 1e-13)
claim("a hidden token has weight 0, exactly", P[~np.tri(T, dtype=bool)] == 0)
claim("token 0 sees only itself, so its output is its value", np.array_equal(y[0], v[0]))
k_new, v_new = k.copy(), v.copy()
k_new[3], v_new[3] = k[3] + 1, v[3] - 10
y_new = attention(q, k_new, v_new, mask)
claim("another token 3 leaves outputs 0 to 2 as they are, to the last bit", np.array_equal(y_new[:3], y[:3]))
claim("and moves outputs 3 and 4", np.abs(y_new - y)[3:].max(-1) > 0.1)

# %% [markdown]
# ## 4. Backward
#
# Given dy, the gradient of y, walk through forward from its last line to its first. At each line, ask where a
# letter occurs and with which slope.
#
# **y_tc = sum over s of P_ts v_sc.** v_sc occurs in the output of every token t, with slope P_ts:
#
#     dv_sc = sum over t of P_ts dy_tc        dv = Pᵀ dy
#
# P_ts occurs in every feature c of output t, with slope v_sc:
#
#     dP_ts = sum over c of dy_tc v_sc        dP = dy vᵀ
#
# **P = softmax(S).** S_ts raises its own weight and lowers all others of its row: the slope of P_tj in S_ts
# is P_tj ((1 if j = s else 0) - P_ts). Sum over j:
#
#     dS_ts = P_ts (dP_ts - sum over j of P_tj dP_tj)
#
# In words: raising a score raises L if its dP exceeds the weighted mean of dP in its row.
#
# **S_ts = (sum over c of q_tc k_sc) / sqrt(d).** q_tc occurs in the scores of row t with slope k_sc / sqrt(d),
# k_sc in the scores of column s with slope q_tc / sqrt(d):
#
#     dq = dS k / sqrt(d)                     dk = dSᵀ q / sqrt(d)

# %% Each line of it, in loops and by the complex step
def softmax_of(S):                          # over the tokens 0 to t, with a sum that lets complex numbers pass
    return np.tri(T) * np.exp(S) / (np.tri(T) * np.exp(S)).sum(-1, keepdims=True)


attention.forget()                          # the forwards above were not answered
dy, S = rng.standard_normal((T, e)), np.array(S_loops)          # L is the sum of dy * y
with nt.record(attention) as tape:
    attention(q, k, v, mask)
    dq, dk, dv = attention.backward(dy)
dP, dS, R = tape["softmax"].dy, tape["softmax"].gradients[0], range(T)
dv_loops = [[sum(P[t, s] * dy[t, c] for t in R) for c in range(e)] for s in R]
dP_loops = [[sum(dy[t, c] * v[s, c] for c in range(e)) for s in R] for t in R]
dS_loops = [[P[t, s] * (dP[t, s] - sum(P[t, j] * dP[t, j] for j in R)) for s in R] for t in R]
dq_loops = [[sum(dS[t, s] * k[s, c] for s in R) / math.sqrt(d) for c in range(d)] for t in R]
dk_loops = [[sum(dS[t, s] * q[t, c] for t in R) / math.sqrt(d) for c in range(d)] for s in R]
for name, gradient, loops, loss, x in (
        ("dv = Pᵀ dy", dv, dv_loops, lambda v: np.sum(dy * (P @ v)), v),
        ("dP = dy vᵀ", dP, dP_loops, lambda P: np.sum(dy * (P @ v)), P),
        ("dS = P * (dP - row sums of P * dP)", dS, dS_loops, lambda S: np.sum(dy * (softmax_of(S) @ v)), S),
        ("dq = dS k / sqrt(d)", dq, dq_loops, lambda q: np.sum(dy * (softmax_of(q @ k.T / math.sqrt(d)) @ v)), q),
        ("dk = dSᵀ q / sqrt(d)", dk, dk_loops, lambda k: np.sum(dy * (softmax_of(q @ k.T / math.sqrt(d)) @ v)), k)):
    distance = max(apart(gradient, loops), apart(gradient, slopes(loss, x)))
    claim(name, distance < 1e-13, f"off by {distance:.0e}")
claim("each row of dS sums to 0", apart(dS.sum(-1), 0) < 1e-14)
claim("a hidden score has gradient 0, exactly", dS[~np.tri(T, dtype=bool)] == 0)

# %% [markdown]
# If all scores of a row rise together, softmax gives the same weights: that is why a row of dS sums to 0. A bias b
# of the keys does just that: q_t · (k_s + b) = q_t · k_s + q_t · b raises row t of the scores by one number. So its
# gradient is zero, whatever the loss is. A bias of the queries adds b · k_s, another number for each key.

# %% The bias of the keys
layer, x = nt.SelfAttention(6, 2, rng=rng).astype(np.float64), rng.standard_normal((T, 6))
for parameter in layer.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape)
y, dy = layer(x, mask), rng.standard_normal((T, 6))
layer.backward(dy)
claim("the key bias has gradient 0, but for rounding", apart(layer.key.bias.grad, 0) < 1e-13)
claim("the query bias has another", apart(layer.query.bias.grad, 0) > 0.01)
layer.key.bias.data = rng.standard_normal(6)
claim("another key bias gives the same output", apart(layer.eval()(x, mask), y) < 1e-13)

# %% Weights, and the two gradients of backward
picture = Figure(figsize=(13, 4.2), layout="constrained")
for axes, array, title in zip(picture.subplots(1, 3), (P, dP, dS), ("weights P", "dL/dweights: dP", "dL/dscores: dS")):
    limit = np.abs(array).max()
    image = axes.imshow(array, "RdBu_r", vmin=-limit, vmax=limit) if array is not P else axes.imshow(P, "Blues")
    for (t, s), number in np.ndenumerate(array):
        axes.text(s, t, f"{round(number, 2) + 0:.2f}" if number else "0", ha="center", va="center", fontsize=11,
                  color="white" if abs(number) > 0.6 * limit else "black")
    axes.set(xticks=range(T), xticklabels=words, yticks=range(T), yticklabels=words, title=title)
    axes.set(xlabel="key", ylabel="query")
    picture.colorbar(image, ax=axes, shrink=0.78)
picture.suptitle("Attention with a causal mask, forward and backward (0: exactly 0)")
figure("backward", picture)

# %% [markdown]
# dP is not zero for hidden keys: their values would change the loss if they had weight. Softmax multiplies by
# the weight, which is 0, so nothing of that reaches the scores.
#
# ## Exercises
#
# 1. What would the weights look like for large d if the scores were divided by d instead of sqrt(d)?
# 2. Two keys of a row have equal dP. Can their dS differ? When is a whole row of dS zero?
# 3. Token 0 sees only itself. Why is the gradient of its query zero, whatever dy is?
# 4. Someone hides scores by adding -10 instead of setting -inf. Which claims of section 3 fail?
# 5. Someone writes dv = P dy. For which P is that the same? Which shapes make NumPy refuse it?
#
# With a checker (`numpy-transformer exercise check NN`): 05.1, 05.2, 05.3.
