# %% [markdown]
# # 01 Softmax and cross-entropy
#
# For each place in a text a model gives V numbers, the logits z: one score for each token that could come next.
# Softmax turns them into probabilities. Cross-entropy turns the probability of the right token into the loss, the
# number that training lowers. Both are one line long, and both fail if the formula is typed as it stands: a
# logit of 1000 becomes NaN, and a model that is sure and wrong is never corrected. Afterwards you can write both so
# that they hold, derive their gradients, and say what a loss of 4.2 means. About 15 minutes.

# %% Four rows of five logits
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(1)
N, V, words = 4, 5, ["mat", "sofa", "roof", "moon", "of"]       # "the cat sat on the ..."
z = np.concatenate([[[1.6, 1.0, 0.6, -0.2, -0.6]], 2 * rng.standard_normal((N - 1, V))])
softmax, log_softmax = nt.Softmax(), nt.LogSoftmax()
p = softmax(z)
show(z=z, p=p)


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def plain(z):                               # the formula as it stands
    return np.exp(z) / np.exp(z).sum(-1, keepdims=True)


# %% [markdown]
# ## 1. Softmax
#
# exp makes every logit positive, the division makes each row sum to 1:
#
#     p_i = exp(z_i) / (exp(z_1) + ... + exp(z_V))
#
# In a ratio of two of them the sum cancels, p_i / p_j = exp(z_i - z_j): only differences of logits count.

# %% The formula, and what it depends on
claim("p_i = exp(z_i) / sum of exp(z_j), in each row", apart(
    p, [[math.exp(row[i]) / sum(math.exp(row[j]) for j in range(V)) for i in range(V)] for row in z]) < 1e-14)
claim("p_i / p_j = exp(z_i - z_j)", apart(p[:, 1] / p[:, 3], np.exp(z[:, 1] - z[:, 3])) < 1e-13)
claim("a number added to a row changes nothing", apart(softmax(z + [[3.0], [-1.0], [7.0], [30.0]]), p) < 1e-13)

# %% [markdown]
# ## 2. exp overflows
#
# exp(89) exceeds the largest float32, exp(710) the largest float64: the result is inf, and inf / inf is NaN, not a
# number. Since only differences count, subtract the maximum m of the row first:
#
#     p_i = exp(z_i - m) / sum over j of exp(z_j - m)
#
# The factor exp(-m) stands above and below, and cancels. Now the largest term is exp(0) = 1, the sum lies between 1
# and V, and a term too small for a float becomes 0, which is nothing beside the 1. It must be the maximum of each row:
# with one for the whole array, all terms of a low row become 0, and 0 / 0 is NaN as well.

# %% The limits, measured, and three ways to subtract
with np.errstate(all="ignore"):             # NumPy warns of each overflow, and here we want them
    for kind in (np.float32, np.float64):
        limit = np.log(np.finfo(kind).max)
        claim(f"{kind.__name__}: exp overflows at {limit:.1f}",
              np.isfinite(np.exp(kind(limit - 0.01))) and np.isinf(np.exp(kind(limit + 0.01))))
    rows = np.array([[1000.0, 999.0, 997.0], [-1000.0, -1001.0, -1003.0]])
    claim("nothing subtracted: inf / inf in the first row, 0 / 0 in the second", np.isnan(plain(rows)))
    claim("one maximum for both: still 0 / 0 in the second", np.isnan(plain(rows - rows.max())[1]))
claim("nt.Softmax: both rows are as [0, -1, -3]", apart(softmax(rows), plain([[0, -1, -3]] * 2)) < 1e-14)

# %% [markdown]
# ## 3. The logarithm of a softmax
#
# The loss needs log p. Here log is the natural logarithm: the loss counts in **nats**, of which log(2) = 0.69 are a
# bit. The formula gives log p without p. With lse, the logarithm of the sum of exp,
#
#     log p_i = z_i - lse(z),     lse(z) = log(sum over j of exp(z_j)) = m + log(sum over j of exp(z_j - m))
#
# lse is a soft maximum, from m to m + log(V), since the sum in its last form lies between 1 and V.
#
# To compute p first and then its logarithm is not the same: a float32 below 7e-46 is 0, and log(0) is -inf. The usual
# repair, log(p + 1e-9), hides that. The loss stops at 20.7, and its slope fades. With two tokens, p the probability of
# the right one and z its logit, dp/dz = p (1 - p) (section 4), so -log(p + 1e-9) has the slope -p (1 - p) / (p + 1e-9)
# instead of p - 1. Where a model is sure and wrong, nothing tells it so.

# %% Two tokens, the right one g below the other, in float32
gaps = np.linspace(0, 150, 301, dtype=np.float32)
pairs = np.stack([np.zeros_like(gaps), -gaps], axis=-1)
right = softmax(pairs)[:, 1]
with np.errstate(divide="ignore"):
    losses = {"-log_softmax(z)": -log_softmax(pairs)[:, 1], "-log(softmax(z))": -np.log(right),
              "-log(softmax(z) + 1e-9)": -np.log(right + np.float32(1e-9))}
exact, naive, repaired = losses.values()
faded = -right * (1 - right) / (right + np.float32(1e-9))
claim("-log_softmax(z) = log(1 + exp(g)) for every g", apart(exact, np.logaddexp(0, gaps.astype(np.float64))) < 1e-6)
start = gaps[np.isinf(naive)].min()
claim(f"-log(softmax(z)) is inf from g = {start:g} on", np.isinf(naive[gaps >= start]) & (80 < start < 110))
claim("-log(softmax(z) + 1e-9) stays below 20.8, and at g = 30 its slope is nearly 0",
      repaired.max() < 20.8 and abs(faded[60]) < 1e-3, f"{faded[60]:.0e}, it should be -1")
lse = z - log_softmax(z)
claim("log_softmax(z) = z - lse(z)", apart(lse, [[math.log(sum(map(math.exp, row)))] * V for row in z]) < 1e-14)

picture = Figure(figsize=(12, 4.2), layout="constrained")
for axes, curves, title in zip(picture.subplots(1, 2), (losses.values(), (right - 1, right * np.nan, faded)),
                               ("the loss (nats)", "its slope in the right logit")):
    for name, curve, style, width in zip(losses, curves, ("C0-", "C1--", "C2-."), (6, 2.5, 2.5)):
        axes.plot(gaps, np.where(np.isfinite(curve), curve, np.nan), style, linewidth=width, label=name)
    axes.set(xlabel="g: the right logit lies g below the other", title=title)
    axes.grid(alpha=0.3)
picture.axes[0].plot(start, start, "C1X", markersize=13, label="inf from here on")
picture.axes[0].legend()
figure("logarithm", picture)

# %% [markdown]
# ## 4. The Jacobian
#
# Each p_i depends on each z_j of its row: V · V slopes, the Jacobian J_ij = dp_i/dz_j. Write p_i = e_i / E with
# e_i = exp(z_i) and E for the sum. z_j occurs in E with slope e_j, and in e_i only if i = j. By the quotient rule,
#
#     J_ij = ([i = j] e_i E - e_i e_j) / E² = p_i ([i = j] - p_j),           [i = j] is 1 if i = j and else 0
#
# A logit raises its own probability and lowers all others. The rows of J sum to 0, since nothing changes if all
# logits rise together; the columns do, since the sum of p stays 1.

# %% The Jacobian of the first row
J = np.zeros((V, V))
for i, one in enumerate(np.eye(V)):         # told that L = p_i, backward answers with row i
    softmax(z[0])
    J[i] = softmax.backward(one)
claim("J_ij = p_i ([i = j] - p_j)", apart(J, [[a * ((i == j) - b) for j, b in enumerate(p[0])]
                                              for i, a in enumerate(p[0])]) < 1e-14)
claim("its rows and its columns sum to 0, and it is symmetric",
      np.abs([J.sum(0), J.sum(1)]).max() < 1e-14 and apart(J, J.T) < 1e-14)
picture = Figure(figsize=(7, 5.2), layout="constrained")
axes, limit = picture.subplots(), np.abs(J).max()
image = axes.imshow(J, "RdBu_r", vmin=-limit, vmax=limit)
for (i, j), number in np.ndenumerate(J):
    axes.text(j, i, f"{number:.3f}", ha="center", va="center", color="white" if abs(number) > 0.6 * limit else "black")
axes.set_xticks(range(V), [f"{word}\n{logit:.1f}" for word, logit in zip(words, z[0])])
axes.set_yticks(range(V), [f"{word}  {share:.2f}" for word, share in zip(words, p[0])])
axes.set(xlabel="token j, its logit", ylabel="token i, its probability", title="J_ij = dp_i/dz_j")
picture.colorbar(image, ax=axes, label="slope")
figure("jacobian", picture)

# %% [markdown]
# ## 5. Backward, without the matrix
#
# Backward is told dp, the gradient of p. The influences of z_j on all p_i add up:
#
#     dz_j = sum over i of dp_i p_i ([i = j] - p_j) = p_j (dp_j - sum over i of p_i dp_i)
#
# The sum on the right is one number for the whole row: some 4 V operations in all, where J alone has V² numbers. In
# words: a logit raises L if its dp is above the mean of dp, weighted by p. In d_i = log p_i = z_i - lse(z) the slope of
# lse in z_j is p_j, so log_softmax has dz_j = dd_j - p_j (sum over i of dd_i).

# %% One sum instead of a matrix
dp = rng.standard_normal((N, V))
softmax(z)
dz = softmax.backward(dp)
predict("how many numbers has J for a vocabulary of 50,000 tokens?", 50_000 ** 2)
claim("dz_j = p_j (dp_j - sum of p_i dp_i)", apart(
    dz, [[a[j] * (b[j] - sum(a[i] * b[i] for i in range(V))) for j in range(V)] for a, b in zip(p, dp)]) < 1e-14)
claim("it is dp J", apart(dz[0], dp[0] @ J) < 1e-14)
claim("its rows sum to 0; those of p (1 - p) dp, the diagonal of J alone, do not",
      np.abs(dz.sum(-1)).max() < 1e-14 and np.abs((p * (1 - p) * dp).sum(-1)).min() > 0.01)
log_softmax(z)
claim("log_softmax: dz_j = dd_j - p_j (sum of dd_i)", apart(
    log_softmax.backward(dp), [[b[j] - a[j] * sum(b) for j in range(V)] for a, b in zip(p, dp)]) < 1e-14)
claim("finite differences and the complex step (lesson 02) agree with both",
      [nt.gradcheck(layer, z).ok for layer in (softmax, log_softmax)])

# %% [markdown]
# ## 6. Cross-entropy
#
# Let y be the right token of a row. Then L = -(1/N) sum over the N rows of log p_y, which is 0 if each p_y is 1. Of a
# row only p_y occurs in it, with slope -1 / (N p_y). So dp_i = -[i = y] / (N p_y), the sum of p_i dp_i is -1/N, and by
# section 5
#
#     dz_j = p_j (-[j = y] / (N p_y) + 1/N) = (p_j - [j = y]) / N
#
# The division by p has gone: what the model says minus what is true. No entry exceeds 1/N, however wrong the
# model is, and each row sums to 0. `nt.CrossEntropyLoss` takes logits and does both lines at once, by section 3.

# %% Both lines, and the short cut
criterion, y = nt.CrossEntropyLoss(), np.array([3, 0, 3, 1])
L, truth = criterion(z, y), np.eye(V)[y]
dz = criterion.backward()
claim("L = -(1/N) sum of log p_y", apart(L, -sum(math.log(p[n, y[n]]) for n in range(N)) / N) < 1e-14, f"{L:.3f}")
claim("dz = (p - truth) / N", apart(dz, (p - truth) / N) < 1e-14)
softmax(z)
claim("softmax's backward of dp = -[i = y] / (N p_y) agrees", apart(softmax.backward(-truth / p / N), dz) < 1e-14)
claim("finite differences and the complex step agree", nt.gradcheck(criterion, z, y).ok)
claim("1000 off: the loss is 1000, the slope -1",
      criterion(np.array([[0.0, -1000.0]]), [1]) == 1000 and criterion.backward()[0, 1] == -1)

# %% [markdown]
# ## 7. The mean over which tokens?
#
# B sequences of T tokens are B T rows. Short sequences are filled up with padding, whose targets must not count:
# `ignore_id` names them, and N is the number of targets that do count. Divided by B instead, sequences twice as long
# would push twice as hard; divided by B T, padding would dilute the loss.

# %% Three sequences, two of them padded
logits, targets = rng.standard_normal((3, 6, V)), rng.integers(0, V, (3, 6))
targets[0, 4:], targets[2, 1:] = -1, -1
criterion, counted = nt.CrossEntropyLoss(ignore_id=-1), targets != -1
L, chosen, truth = criterion(logits, targets), plain(logits)[counted], np.eye(V)[targets[counted]]
dz = criterion.backward()
claim("L is the mean over the targets that count", apart(
    L, -sum(math.log(a[b]) for a, b in zip(chosen, targets[counted])) / 11) < 1e-14, f"{criterion.count} of 18")
claim("their gradients are (p - truth) / 11, the others exactly 0",
      apart(dz[counted], (chosen - truth) / 11) < 1e-14 and np.all(dz[~counted] == 0))

# %% [markdown]
# ## 8. Label smoothing
#
# L falls as long as the right logit rises above the others; it has no lowest point. Label smoothing (Szegedy et al.
# 2016, section 7; Vaswani et al. 2017, section 5.4, with ε = 0.1) gives a part of the truth to all tokens alike:
#
#     q_i = (1 - ε) [i = y] + ε / V,     L = -(1/N) sum over the rows and i of q_i log p_i,     dz = (p - q) / N
#
# by the same steps, since q sums to 1 too. The gradient is 0 where p = q. There L is the entropy of q,
# H(q) = -(sum over i of q_i log q_i), and no p gives less: a loss that stops above 0 may have reached its goal.

# %% Its gradient and its lowest point
smooth, q = nt.CrossEntropyLoss(label_smoothing=0.1), 0.9 * np.eye(V)[y] + 0.1 / V
claim("L = -(1/N) sum of q log p", apart(
    smooth(z, y), -sum(q[n, i] * math.log(p[n, i]) for n in range(N) for i in range(V)) / N) < 1e-14)
claim("dz = (p - q) / N", apart(smooth.backward(), (p - q) / N) < 1e-14)
lowest = smooth(np.log(q), y)
claim("where p = q the gradient is 0 and L is H(q)", np.abs(smooth.backward()).max() < 1e-15
      and apart(lowest, -sum(part * math.log(part) for part in q[0])) < 1e-14, f"{lowest:.3f}")
claim("  and elsewhere L is higher", [smooth(np.log(q) + size * rng.standard_normal((N, V)), y) > lowest
                                      for size in (0.01, 0.1, 1, 10) for _ in range(50)])
picture, gaps = Figure(figsize=(8, 4.4), layout="constrained"), np.linspace(-2, 14, 201)
axes = picture.subplots()
for epsilon, style in ((0.0, "C0-"), (0.1, "C1--"), (0.3, "C2-.")):
    curve = [nt.CrossEntropyLoss(epsilon)(gap * np.eye(1, V), [0]) for gap in gaps]
    axes.plot(gaps, curve, style, linewidth=2.5, label=f"ε = {epsilon:g}")
    if epsilon:
        goal = math.log((1 - epsilon + epsilon / V) / (epsilon / V))            # log q_y - log q_j
        axes.plot(goal, np.interp(goal, gaps, curve), style[:2] + "o", markersize=10)
axes.set(xlabel="right logit above the four others, which are equal", ylabel="loss (nats)", ylim=(0, 3.5),
         title="Smoothing sets a finite goal (dots: p = q)")
axes.grid(alpha=0.3)
axes.legend()
figure("label_smoothing", picture)

# %% [markdown]
# ## 9. Reading a loss
#
# A model that knows nothing gives each token 1/V and has the loss log(V). A new model should begin near that; far
# above, it is sure of wrong things. **Perplexity**, exp(L), says it in tokens: with a loss of 4.2 a model is as unsure
# as among 67 equally likely ones.
#
# A model that writes draws from softmax(z / τ) with a **temperature** τ. Near 0 the likeliest token gets all, far
# above 1 all become alike. Their order never changes; the entropy H(p) rises from 0 to log(V).

# %% An untrained model, perplexity, temperature
predict("the loss of a model that knows nothing of 100 tokens, to one decimal?", f"{math.log(100):.1f}")
model, ids = nt.CausalLanguageModel(100, 16, num_heads=2, num_layers=2, max_len=8, rng=1), rng.integers(0, 100, (50, 9))
L = criterion(model(ids[:, :-1]), ids[:, 1:])
claim("an untrained language model begins there", abs(L - math.log(100)) < 0.1, f"{L:.2f}")
halves = np.log([[0.5, 0.5] + [1e-9] * 6, [1 / 8] * 8])         # one of two, then one of eight
claim("one of 2, then one of 8: perplexity 4, exp of the mean loss (5 would be the mean of 2 and 8)",
      np.isclose(np.exp(criterion(halves, [0, 0])), 4))
TAUS = np.geomspace(0.05, 50, 61)
heated = softmax(z[0] / TAUS[:, None])
entropy = -(heated * np.log(heated + 1e-300)).sum(-1)
claim("the entropy rises with τ, from 0 to log(V)", np.all(np.diff(entropy) > 0)
      and entropy[0] < 0.01 and math.log(V) - entropy[-1] < 0.01)
claim("the order of the tokens stays", heated.argsort(-1) == z[0].argsort())

# %% [markdown]
# ## Exercises
#
# 1. Softmax could subtract the mean of a row instead of its maximum. Find two logits for which that fails.
# 2. For V = 2, write p_1 as a function of z_1 - z_2. What is J?
# 3. Predict: a trained model's logits are multiplied by 10. What happens to its accuracy, and to its loss?
# 4. A bug to find: `p[:, y] -= 1; dz = p / N`, with p (N, V) and y (N,). What does it do, and for which N is it right?
# 5. Write LogSoftmax.backward in one line from what forward remembers, its output y = log p.
# 6. What is H(q) for ε = 0.1 and V = 37,000? A run with smoothing stops at 1.6: how far is it from its goal?
#
# With a checker (`numpy-transformer exercise check NN`): 01.1, 01.2, 01.3, 01.4, 01.5, 01.6, 01.7.
