# %% [markdown]
# # 05 Attention, forward and backward
#
# Attention lets every token collect information from other tokens. Each token has three vectors: a query q, which says
# what the token looks for; a key k, by which other tokens find it; and a value v, which it passes on. In one line
# (Vaswani et al. 2017, equation 1),
#
#     y = P v,     P = softmax(q kᵀ / sqrt(d))
#
# Row t of P holds the weights with which token t takes a mean of all values. Below, T = 5 tokens have queries and keys
# of d = 4 numbers, and values of e = 3 numbers. We compute every step a second time in plain loops, first forward, and
# then backward in the reverse order. Lesson 02 explains gradients and the complex step. The lesson takes about
# 15 minutes.
#
# The steps happen inside one component. To see them, `with nt.record(attention) as tape:` records the inputs and
# outputs of each component inside it, and the gradients that come back. The component itself is not changed by this.
# Attention contains a softmax, whose input is the matrix of scores S and whose output is the matrix of weights P.

# %% Five tokens, an attention, and a tape that records its steps
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict, show, slopes

lesson.start(__name__)


def max_difference(a, b):
    """The largest absolute difference between the entries of two arrays."""
    return np.abs(a - np.asarray(b)).max()


rng = np.random.default_rng(5)
words = ["the", "cat", "saw", "the", "dog"]
T, d, e = 5, 4, 3                           # tokens, width of queries and keys, width of values
q, k, v = rng.standard_normal((T, d)), rng.standard_normal((T, d)), rng.standard_normal((T, e))
attention = nt.ScaledDotProductAttention()
with nt.record(attention) as tape:
    y = attention(q, k, v)
S, P = tape["softmax"].inputs[0], tape["softmax"].output
show(q=q, k=k, v=v)

# %% [markdown]
# ## 1. Forward
#
# * The score S_ts = (sum over c of q_tc k_sc) / sqrt(d) says how well the query of token t fits the key of token s.
# * The weight P_ts = exp(S_ts) / (sum over j of exp(S_tj)) is positive, and each row of weights sums to 1.
# * The output y_t = sum over s of P_ts v_s is a weighted mean of the values.
#
# The weights do not depend on v. For given weights, attention is therefore linear in the values. It mixes the values of
# different tokens, but it cannot amplify them or apply a nonlinear function to them. That is why a feed-forward layer
# follows it (lesson 09).

# %% Scores, weights, outputs
S_loops = [[sum(q[t, c] * k[s, c] for c in range(d)) / math.sqrt(d) for s in range(T)] for t in range(T)]
claim("scores: S_ts = q_t · k_s / sqrt(d)", max_difference(S, S_loops) < 1e-13)
P_loops = [[math.exp(S[t, s]) / sum(math.exp(S[t, j]) for j in range(T)) for s in range(T)] for t in range(T)]
claim("weights: P_ts = exp(S_ts) / sum of exp(S_tj)", max_difference(P, P_loops) < 1e-13)
y_loops = [[sum(P[t, s] * v[s, c] for s in range(T)) for c in range(e)] for t in range(T)]
claim("outputs: y_t = sum of P_ts v_s", max_difference(y, y_loops) < 1e-13)
show(S=S, P=P, y=y)
predict("if all values double, does y double?", "yes",
        why="The weights come from q and k alone, so they stay the same, and each output is a sum of weight times "
            "value.")
u = rng.standard_normal((T, e))
claim("attention is linear in the values: A(2 v - 3 u) = 2 A(v) - 3 A(u)",
      max_difference(attention(q, k, 2 * v - 3 * u), 2 * y - 3 * attention(q, k, u)) < 1e-13)
predict("if all queries double, does y double?", "no",
        why="Doubled queries double the scores, and softmax turns these into other weights. But the outputs remain "
            "means of the same values, so they cannot become twice as large.")
claim("attention is not linear in the queries, because of softmax", max_difference(attention(2 * q, k, v), 2 * y) > 0.1)
claim("in each feature, every output lies between the smallest and the largest value",
      (v.min(0) <= y).all() and (y <= v.max(0)).all())

# %% [markdown]
# ## 2. Why sqrt(d)?
#
# If the entries of q and k are independent with mean 0 and variance 1, then q · k is a sum of d products, each with
# variance 1. So its variance is d, and its typical size sqrt(d) (section 3.2.1 of the paper, footnote 4). For d = 512
# the typical size is 23.
#
# With scores of this size, softmax gives nearly all the weight to the key with the largest score. There the derivative
# of softmax vanishes, because P (1 - P) is near 0 both for P near 0 and for P near 1, and training gets hardly any
# signal. Dividing by sqrt(d) makes the variance 1, so the weights look much the same for every d.
#
# The last column printed below says how much of the gradient passes through softmax: the norm of a row of dL/dscores,
# divided by the norm of the same row of dL/dweights (section 4). It is the median over all queries.

# %% The experiment: 400 queries, each with 16 keys, for growing d
WIDTHS = (2, 8, 32, 128, 512)
rows = {"divided": [], "not divided": []}
large = nt.ScaledDotProductAttention()
print(" " * 22 + "variance  largest weight  gradient")
for width in WIDTHS:
    queries, keys = rng.standard_normal((400, 1, width)), rng.standard_normal((400, 16, width))
    values, dy = rng.standard_normal((400, 16, 3)), rng.standard_normal((400, 1, 3))
    for name, factor in (("divided", 1), ("not divided", math.sqrt(width))):        # the factor undoes the division
        with nt.record(large) as tape:
            large(queries * factor, keys, values)
            large.backward(dy)
        softmax = tape["softmax"]
        p, dscores = softmax.output, softmax.gradients[0]
        passed = np.linalg.norm(dscores, axis=-1) / np.linalg.norm(softmax.dy, axis=-1)
        rows[name].append((softmax.inputs[0].var(), p.max(-1).mean(), np.median(passed)))
        print("  d = {:<3}  {:<11}  {:8.2f}  {:14.2f}  {:8.1g}".format(width, name, *rows[name][-1]))
divided, undivided = (np.array(rows[name]).T for name in ("divided", "not divided"))
claim("without the division, the variance of the scores is d", np.allclose(undivided[0] / WIDTHS, 1, atol=0.1))
claim("with it, the variance is 1", np.allclose(divided[0], 1, atol=0.1))
claim("with it, the largest of 16 weights is nearly the same for all d", np.ptp(divided[1]) < 0.06)
claim("without it, at d = 512, one key takes over 90% of the weight", undivided[1, -1] > 0.9 > 0.3 > divided[1, -1])
claim("without it, softmax passes less than 1/100 of the gradient that it passes with it",
      undivided[2, -1] < divided[2, -1] / 100)

# %% The experiment as a picture
picture = Figure(figsize=(12, 4), layout="constrained")
titles = ("variance of the scores", "largest of 16 weights", "fraction of the gradient\npassing through softmax")
for axes, row, title in zip(picture.subplots(1, 3), range(3), titles):
    axes.plot(WIDTHS, undivided[row], "C1s--", label="not divided")
    axes.plot(WIDTHS, divided[row], "C0o-", label="divided by sqrt(d)")
    axes.set_xscale("log", base=2)
    axes.set(xticks=WIDTHS, xticklabels=WIDTHS, xlabel="width d of queries and keys", ylabel=title,
             yscale="linear" if row == 1 else "log")
picture.axes[0].legend()
figure("scaling", picture)

# %% [markdown]
# ## 3. The causal mask
#
# A model that is to predict the next token must not see it. The mask is a boolean array in which True means "may
# attend", and in a causal mask token t may attend to tokens 0 to t. A hidden score is set to -inf before softmax, and
# exp(-inf) is exactly 0.
#
# For example, token 1, "cat", sees two tokens. Its two scores are -0.13 and 0.83. Their exponentials are 0.88 and 2.30,
# with the sum 3.18, so its weights are 0.28 and 0.72.

# %% The same attention with a mask
mask = nt.causal_mask(T)
with nt.record(attention) as tape:
    y = attention(q, k, v, mask)
P = tape["softmax"].output
show(mask=mask, P=P)
P_loops = [[math.exp(S_loops[t][s]) / sum(math.exp(S_loops[t][j]) for j in range(t + 1)) if s <= t else 0
            for s in range(T)] for t in range(T)]
claim("the weights of token t are a softmax over the tokens 0 to t", max_difference(P, P_loops) < 1e-13)
claim("a hidden token has weight exactly 0", P[~np.tri(T, dtype=bool)] == 0)
claim("token 0 sees only itself, so its output is its value", np.array_equal(y[0], v[0]))
k_new, v_new = k.copy(), v.copy()
k_new[3] = k[3] + 1
v_new[3] = v[3] - 10
y_new = attention(q, k_new, v_new, mask)
claim("changing token 3 leaves outputs 0 to 2 unchanged, to the last bit", np.array_equal(y_new[:3], y[:3]))
claim("and it changes outputs 3 and 4", np.abs(y_new - y)[3:].max(-1) > 0.1)

# %% [markdown]
# ## 4. Backward
#
# We are given dy, the gradient of y. We go through forward from its last line to its first, and ask at each line where
# each variable appears and with which derivative.
#
# **y_tc = sum over s of P_ts v_sc.** v_sc appears in the output of every token t, with derivative P_ts:
#
#     dv_sc = sum over t of P_ts dy_tc        dv = Pᵀ dy
#
# P_ts appears in every feature c of output t, with derivative v_sc:
#
#     dP_ts = sum over c of dy_tc v_sc        dP = dy vᵀ
#
# **P = softmax(S).** S_ts raises its own weight and lowers all other weights of its row. The derivative of P_tj with
# respect to S_ts is P_tj ((1 if j = s else 0) - P_ts), as in lesson 01. The sum over j gives
#
#     dS_ts = P_ts (dP_ts - sum over j of P_tj dP_tj)
#
# In words: raising a score raises L if its dP is above the weighted mean of dP in its row. The row of "cat" below has
# the weights 0.277 and 0.723 and the gradients dP = -1.329 and 2.101. Their weighted mean is
# 0.277 (-1.329) + 0.723 (2.101) = 1.151, so dS is 0.277 (-1.329 - 1.151) = -0.687 and 0.723 (2.101 - 1.151) = 0.687.
#
# **S_ts = (sum over c of q_tc k_sc) / sqrt(d).** q_tc appears in the scores of row t with derivative k_sc / sqrt(d),
# and k_sc in the scores of column s with derivative q_tc / sqrt(d):
#
#     dq = dS k / sqrt(d)
#     dk = dSᵀ q / sqrt(d)

# %% Each line of the derivation, in loops and by the complex step
def causal_softmax(S):
    """Softmax over the tokens 0 to t, written so that it works with complex numbers."""
    visible = np.tri(T) * np.exp(S)
    return visible / visible.sum(-1, keepdims=True)


attention.forget()                          # drop what the forward passes above saved; no backward followed them
dy = rng.standard_normal((T, e))            # our loss L is the sum of dy * y
S = np.array(S_loops)
with nt.record(attention) as tape:
    attention(q, k, v, mask)
    dq, dk, dv = attention.backward(dy)
dP = tape["softmax"].dy
dS = tape["softmax"].gradients[0]
R = range(T)
dv_loops = [[sum(P[t, s] * dy[t, c] for t in R) for c in range(e)] for s in R]
dP_loops = [[sum(dy[t, c] * v[s, c] for c in range(e)) for s in R] for t in R]
dS_loops = [[P[t, s] * (dP[t, s] - sum(P[t, j] * dP[t, j] for j in R)) for s in R] for t in R]
dq_loops = [[sum(dS[t, s] * k[s, c] for s in R) / math.sqrt(d) for c in range(d)] for t in R]
dk_loops = [[sum(dS[t, s] * q[t, c] for t in R) / math.sqrt(d) for c in range(d)] for s in R]
for name, gradient, loops, loss, x in (
        ("dv = Pᵀ dy", dv, dv_loops, lambda v: np.sum(dy * (P @ v)), v),
        ("dP = dy vᵀ", dP, dP_loops, lambda P: np.sum(dy * (P @ v)), P),
        ("dS = P * (dP - row sums of P * dP)", dS, dS_loops, lambda S: np.sum(dy * (causal_softmax(S) @ v)), S),
        ("dq = dS k / sqrt(d)", dq, dq_loops, lambda q: np.sum(dy * (causal_softmax(q @ k.T / math.sqrt(d)) @ v)), q),
        ("dk = dSᵀ q / sqrt(d)", dk, dk_loops, lambda k: np.sum(dy * (causal_softmax(q @ k.T / math.sqrt(d)) @ v)), k)):
    difference = max(max_difference(gradient, loops), max_difference(gradient, slopes(loss, x)))
    claim(name, difference < 1e-13, f"largest difference {difference:.0e}")
claim("each row of dS sums to 0, and so does each column of dk",
      max_difference(dS.sum(1), 0) < 1e-14 and max_difference(dk.sum(0), 0) < 1e-14)
claim("a hidden score has gradient exactly 0", dS[~np.tri(T, dtype=bool)] == 0)
show(dq=dq, dk=dk, dv=dv)

# %% One entry of dS, with its numbers
t, s = 1, 0                                 # the row of the query "cat", and in it the key "the"
weighted_mean = sum(P[t, j] * dP[t, j] for j in R)
entry = P[t, s] * (dP[t, s] - weighted_mean)
terms = " + ".join(f"{P[t, j]:.3f} · {dP[t, j]:.3f}" for j in range(t + 1))
print(f'  the row of the query "{words[t]}" (t = {t})')
print("    weights P       ", "  ".join(f"{weight:6.3f}" for weight in P[t]))
print("    gradients dP    ", "  ".join(f"{gradient:6.3f}" for gradient in dP[t]))
print(f"    weighted mean    {terms} = {weighted_mean:.3f}")
print(f"    dS[{t}, {s}]         {P[t, s]:.3f} · ({dP[t, s]:.3f} - {weighted_mean:.3f}) = {entry:.3f}")
claim(f"backward returned this dS[{t}, {s}]", abs(dS[t, s] - entry) < 1e-14)

# %% [markdown]
# Why does each row of dS sum to 0? If all scores of a row rise together, softmax gives the same weights, so the loss
# does not change.
#
# A bias b of the keys does just that. Since q_t · (k_s + b) = q_t · k_s + q_t · b, it raises all scores of row t by the
# same number. So its gradient is zero, whatever the loss is. It is the sum of the rows of dk, and the columns of the dk
# above do sum to 0. (The tiny mean that is printed for dk is rounding.) A bias b of the queries adds b · k_s,
# which is a different number for each key, and its gradient is not zero.

# %% The bias of the keys
layer = nt.SelfAttention(6, 2, rng=rng).astype(np.float64)
x = rng.standard_normal((T, 6))
for parameter in layer.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape)
y = layer(x, mask)
dy = rng.standard_normal((T, 6))
layer.backward(dy)
claim("the key bias has gradient zero, up to rounding", max_difference(layer.key.bias.grad, 0) < 1e-13)
claim("the query bias has a nonzero gradient", max_difference(layer.query.bias.grad, 0) > 0.01)
layer.key.bias.data = rng.standard_normal(6)
claim("with another key bias the output is the same", max_difference(layer.eval()(x, mask), y) < 1e-13)

# %% Weights, and the two gradients of backward
picture = Figure(figsize=(13, 4.2), layout="constrained")
for axes, array, title in zip(picture.subplots(1, 3), (P, dP, dS),
                              ("weights P", "their gradients dP", "gradients of the scores, dS")):
    limit = np.abs(array).max()
    if array is P:
        image = axes.imshow(P, "Blues")
    else:
        image = axes.imshow(array, "RdBu_r", vmin=-limit, vmax=limit)
    for (t, s), number in np.ndenumerate(array):
        axes.text(s, t, f"{round(number, 2) + 0:.2f}" if number else "0", ha="center", va="center", fontsize=11,
                  color="white" if abs(number) > 0.6 * limit else "black")
    axes.set(xticks=range(T), xticklabels=words, yticks=range(T), yticklabels=words, title=title)
    axes.set(xlabel="key token", ylabel="query token")
    picture.colorbar(image, ax=axes, shrink=0.78)
picture.suptitle("Attention with a causal mask, forward and backward (entries shown as 0 are exactly 0)")
figure("backward", picture)

# %% [markdown]
# dP is not zero for hidden keys, because their values would change the loss if they had any weight. But softmax's
# backward multiplies by the weight, which is 0, so none of this reaches the scores.
#
# To follow one dS through a trained model, run `numpy-transformer explore --lesson 05`. It opens an entry of a head's
# dS in your browser, at the softmax, which calls S, P, dP and dS by its own names x, y, dy and dx. The entry's dP is
# negative, but its dS is positive. Which other entry of its row is the reason?
#
# ## Exercises
#
# 1. What would the weights look like for large d if the scores were divided by d instead of sqrt(d)?
# 2. Two keys of a row have equal dP. Can their dS differ? When is a whole row of dS zero?
# 3. Token 0 sees only itself. Why is the gradient of its query zero, whatever dy is?
# 4. Someone hides scores by adding -10 instead of setting them to -inf. Which claims of section 3 fail?
# 5. Someone writes dv = P dy. For which P is that the same? For which shapes does NumPy raise an error?
#
# With a checker (`numpy-transformer exercise check 05.1` and so on): 05.1, 05.2, 05.3.
