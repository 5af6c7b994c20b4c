# %% [markdown]
# # 01 Softmax and cross-entropy
#
# At each position of a text, a model gives V numbers, the logits z: one score for each token that could come next.
# Softmax turns these scores into probabilities. Cross-entropy turns the probability of the right token into the loss,
# the number that training lowers.
#
# Both formulas are one line long, and both fail if they are typed in as they stand. A logit of 1000 becomes NaN, and a
# model that is confident and wrong never gets corrected. By the end of this lesson you will be able to write both
# functions so that they work for every input, to derive their gradients, and to say what a loss of 4.2 means. The
# lesson takes about 15 minutes.

# %% Four rows of five logits
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(1)
N, V = 4, 5                                 # rows (positions), tokens in the vocabulary
words = ["mat", "sofa", "roof", "moon", "of"]                   # row 0 continues "the cat sat on the ..."
z = np.concatenate([[[1.6, 1.0, 0.6, -0.2, -0.6]], 2 * rng.standard_normal((N - 1, V))])
softmax, log_softmax = nt.Softmax(), nt.LogSoftmax()
p = softmax(z)
show(z=z, p=p)


def relative_error(a, b):
    """The norm of a - b, divided by the norm of b."""
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def naive_softmax(z):
    """The formula as it stands, without any protection against overflow."""
    return np.exp(z) / np.exp(z).sum(-1, keepdims=True)


# %% [markdown]
# ## 1. Softmax
#
# Softmax has to turn any V numbers into V probabilities. exp makes every logit positive, and dividing by the sum makes
# each row sum to 1:
#
#     p_i = exp(z_i) / (exp(z_1) + ... + exp(z_V))
#
# For the logits 2, 1 and 0 the exponentials are 7.39, 2.72 and 1. Their sum is 11.11, so the probabilities are 0.67,
# 0.24 and 0.09. The ratio of two probabilities does not contain the sum, p_i / p_j = exp(z_i - z_j). Only differences
# between logits matter: the logits 102, 101 and 100 give the same three probabilities.

# %% The formula, and what it depends on
claim("p_i = exp(z_i) / sum of exp(z_j), in each row", relative_error(
    p, [[math.exp(row[i]) / sum(math.exp(row[j]) for j in range(V)) for i in range(V)] for row in z]) < 1e-14)
claim("p_i / p_j = exp(z_i - z_j)", relative_error(p[:, 1] / p[:, 3], np.exp(z[:, 1] - z[:, 3])) < 1e-13)
claim("adding a constant to a row does not change its probabilities",
      relative_error(softmax(z + [[3.0], [-1.0], [7.0], [30.0]]), p) < 1e-13)

# %% [markdown]
# ## 2. exp overflows
#
# exp(89) is larger than the largest float32, and exp(710) is larger than the largest float64. The result is inf, and
# inf / inf is NaN, "not a number". Only differences matter, so the remedy is to subtract the maximum m of the row
# first:
#
#     p_i = exp(z_i - m) / sum over j of exp(z_j - m)
#
# This multiplies numerator and denominator by exp(-m), which cancels. Now the largest term is exp(0) = 1, and the sum
# lies between 1 and V. A term that is too small for a float becomes 0, which makes no difference next to the 1.
#
# It has to be the maximum of each row. With one maximum for the whole array, all terms of a low row become 0, and 0 / 0
# is NaN as well.

# %% The limits, measured, and three ways to subtract
with np.errstate(all="ignore"):             # NumPy warns of every overflow, and here we cause them on purpose
    for kind in (np.float32, np.float64):
        limit = np.log(np.finfo(kind).max)
        claim(f"{kind.__name__}: exp overflows at {limit:.1f}",
              np.isfinite(np.exp(kind(limit - 0.01))) and np.isinf(np.exp(kind(limit + 0.01))))
    rows = np.array([[1000.0, 999.0, 997.0], [-1000.0, -1001.0, -1003.0]])
    claim("without subtraction, row 0 is inf / inf and row 1 is 0 / 0: all NaN", np.isnan(naive_softmax(rows)))
    claim("with one maximum for both rows, row 1 is still 0 / 0", np.isnan(naive_softmax(rows - rows.max())[1]))
claim("nt.Softmax gives both rows the probabilities of the logits 0, -1, -3",
      relative_error(softmax(rows), naive_softmax([[0, -1, -3]] * 2)) < 1e-14)

# %% [markdown]
# ## 3. The logarithm of a softmax
#
# The loss needs log p. Here log is the natural logarithm, so the loss is measured in **nats**; one bit is log(2) = 0.69
# nats. The formula of softmax gives log p directly, without computing p. Let lse (log-sum-exp) be the logarithm of the
# sum of exp. Then
#
#     log p_i = z_i - lse(z)
#     lse(z)  = log(sum over j of exp(z_j))
#             = m + log(sum over j of exp(z_j - m))
#
# lse is a smooth version of the maximum. It lies between m and m + log(V), because the last sum lies between 1 and V.
#
# Computing p first and then its logarithm is not the same. In float32 a probability below 7e-46 is rounded to 0, and
# log(0) is -inf. The usual fix, log(p + 1e-9), only hides the problem: the loss never exceeds -log(1e-9) = 20.7, and
# its derivative fades away. Take two tokens, with p the probability of the right one and z its logit. Then
# dp/dz = p (1 - p) (section 4), so -log(p + 1e-9) has the derivative -p (1 - p) / (p + 1e-9), where it should be p - 1.
# For p = 1e-12 that is -0.001 instead of -1. Where the model is confident and wrong, it gets no signal to change.

# %% Two tokens, the right one g below the other, in float32
gaps = np.linspace(0, 150, 301, dtype=np.float32)
pairs = np.stack([np.zeros_like(gaps), -gaps], axis=-1)
p_right = softmax(pairs)[:, 1]
with np.errstate(divide="ignore"):
    losses = {"-log_softmax(z)": -log_softmax(pairs)[:, 1], "-log(softmax(z))": -np.log(p_right),
              "-log(softmax(z) + 1e-9)": -np.log(p_right + np.float32(1e-9))}
exact, naive, clipped = losses.values()
exact_slope = p_right - 1
clipped_slope = -p_right * (1 - p_right) / (p_right + np.float32(1e-9))
claim("-log_softmax(z) = log(1 + exp(g)) for every g",
      relative_error(exact, np.logaddexp(0, gaps.astype(np.float64))) < 1e-6)
first_inf = gaps[np.isinf(naive)].min()
claim(f"-log(softmax(z)) is inf from g = {first_inf:g} on",
      np.isinf(naive[gaps >= first_inf]) & (80 < first_inf < 110))
claim("-log(softmax(z) + 1e-9) stays below 20.8, and at g = 30 its derivative is nearly 0",
      clipped.max() < 20.8 and abs(clipped_slope[60]) < 1e-3, f"{clipped_slope[60]:.0e}; it should be -1")
lse = z - log_softmax(z)
claim("log_softmax(z) = z - lse(z)",
      relative_error(lse, [[math.log(sum(map(math.exp, row)))] * V for row in z]) < 1e-14)

picture = Figure(figsize=(12, 4.2), layout="constrained")
left, right = picture.subplots(1, 2)
for name, style, width in zip(losses, ("C0-", "C1--", "C2-."), (6, 2.5, 2.5)):
    left.plot(gaps, np.where(np.isfinite(losses[name]), losses[name], np.nan), style, linewidth=width, label=name)
left.plot(first_inf, first_inf, "C1X", markersize=13, label="inf from here on")
left.legend()
right.plot(gaps, exact_slope, "C0-", linewidth=6)
right.plot(gaps, clipped_slope, "C2-.", linewidth=2.5)
for axes, title in ((left, "loss"), (right, "derivative with respect to the right logit")):
    axes.set(xlabel="gap g: logit of the other token minus logit of the right one", title=title)
    axes.grid(alpha=0.3)
left.set(ylabel="nats")
figure("logarithm", picture)

# %% [markdown]
# ## 4. The Jacobian
#
# Each p_i depends on every z_j of its row. This makes V · V derivatives, the Jacobian J_ij = dp_i/dz_j. Write
# p_i = e_i / E with e_i = exp(z_i), where E is the sum of all e_j. The logit z_j appears in E, whose derivative is e_j,
# and it appears in e_i only if i = j. Let [i = j] be 1 if i = j and 0 otherwise. Then the quotient rule gives
#
#     J_ij = ([i = j] e_i E - e_i e_j) / E²
#          = p_i ([i = j] - p_j)
#
# For the words of row 0, "mat" has p = 0.456, so its diagonal entry is 0.456 (1 - 0.456) = 0.248. "sofa" has p = 0.250,
# so raising its logit changes p of "mat" at the rate -0.456 · 0.250 = -0.114.
#
# A logit raises its own probability and lowers all others. Each row of J sums to 0, because nothing changes if all
# logits rise together. Each column sums to 0 too, because the sum of p stays 1.

# %% The Jacobian of the first row
J = np.zeros((V, V))
for i, one_hot in enumerate(np.eye(V)):     # if L = p_i, then dp is one-hot, and backward returns row i of J
    softmax(z[0])
    J[i] = softmax.backward(one_hot)
claim("J_ij = p_i ([i = j] - p_j)", relative_error(
    J, [[p[0, i] * ((i == j) - p[0, j]) for j in range(V)] for i in range(V)]) < 1e-14)
claim("J is symmetric, and its rows and columns sum to 0",
      np.abs([J.sum(0), J.sum(1)]).max() < 1e-14 and relative_error(J, J.T) < 1e-14)
picture = Figure(figsize=(7, 5.2), layout="constrained")
axes = picture.subplots()
limit = np.abs(J).max()
image = axes.imshow(J, "RdBu_r", vmin=-limit, vmax=limit)
for (i, j), number in np.ndenumerate(J):
    axes.text(j, i, f"{number:.3f}", ha="center", va="center", color="white" if abs(number) > 0.6 * limit else "black")
axes.set_xticks(range(V), [f"{word}\n{logit:.1f}" for word, logit in zip(words, z[0])])
axes.set_yticks(range(V), [f"{word}  {probability:.2f}" for word, probability in zip(words, p[0])])
axes.set(xlabel="token j and its logit", ylabel="token i and its probability", title="Jacobian J_ij = dp_i/dz_j")
picture.colorbar(image, ax=axes, label="derivative")
figure("jacobian", picture)

# %% [markdown]
# ## 5. Backward, without the matrix
#
# Backward is given dp, the gradient of the loss with respect to p. Each z_j influences the loss through all p_i of its
# row, and these influences add up:
#
#     dz_j = sum over i of dp_i p_i ([i = j] - p_j)
#          = p_j (dp_j - sum over i of p_i dp_i)
#
# The sum on the right is the same number for the whole row. So backward takes about 4 V operations, while J alone has
# V² numbers. In words: raising a logit raises L if its dp is above the mean of dp, weighted by p.
#
# The logarithm is simpler. Let d_i = log p_i = z_i - lse(z), and let dd_i be its gradient. The derivative of lse with
# respect to z_j is p_j, so log_softmax has dz_j = dd_j - p_j (sum over i of dd_i).

# %% One sum instead of a matrix
dp = rng.standard_normal((N, V))
softmax(z)
dz = softmax.backward(dp)
predict("how many numbers does J have for a vocabulary of 50,000 tokens?", 50_000 ** 2,
        why="J has one entry for each pair (i, j), so V · V for a single row of logits: 20 GB in float64. Backward "
            "never forms it.")
claim("dz_j = p_j (dp_j - sum of p_i dp_i)", relative_error(
    dz, [[a[j] * (b[j] - sum(a[i] * b[i] for i in range(V))) for j in range(V)] for a, b in zip(p, dp)]) < 1e-14)
claim("row 0 of dz equals dp J", relative_error(dz[0], dp[0] @ J) < 1e-14)
claim("rows of dz sum to 0; rows of p (1 - p) dp, which uses only the diagonal of J, do not",
      np.abs(dz.sum(-1)).max() < 1e-14 and np.abs((p * (1 - p) * dp).sum(-1)).min() > 0.01)
log_softmax(z)
claim("log_softmax: dz_j = dd_j - p_j (sum of dd_i)", relative_error(
    log_softmax.backward(dp), [[b[j] - a[j] * sum(b) for j in range(V)] for a, b in zip(p, dp)]) < 1e-14)
claim("finite differences and the complex step (lesson 02) agree with both backwards",
      [nt.gradcheck(layer, z).ok for layer in (softmax, log_softmax)])

# %% [markdown]
# ## 6. Cross-entropy
#
# Let y be the right token of a row. The loss is L = -(1/N) times the sum of log p_y over the N rows. It is 0 if every
# p_y is 1. Of each row, only p_y appears in L, with the derivative -1 / (N p_y). So dp_i = -[i = y] / (N p_y), the sum
# of p_i dp_i is -1/N, and section 5 gives
#
#     dz_j = p_j (-[j = y] / (N p_y) + 1/N)
#          = (p_j - [j = y]) / N
#
# The division by p has canceled. What remains is the prediction minus the truth, divided by N. If the right word in row
# 0 is "moon", with p = 0.075, then N dz is 0.46, 0.25, 0.17, -0.92 and 0.05: training raises the logit of "moon" and
# lowers all others. No entry exceeds 1/N in size, however wrong the model is, and each row sums to 0.
#
# `nt.CrossEntropyLoss` takes logits and computes both steps at once, with the log-sum-exp of section 3.

# %% The two steps, and the short formula
criterion = nt.CrossEntropyLoss()
y = np.array([3, 0, 3, 1])
L = criterion(z, y)
truth = np.eye(V)[y]
dz = criterion.backward()
claim("L = -(1/N) sum of log p_y",
      relative_error(L, -sum(math.log(p[n, y[n]]) for n in range(N)) / N) < 1e-14, f"{L:.3f}")
claim("dz = (p - truth) / N", relative_error(dz, (p - truth) / N) < 1e-14)
softmax(z)
claim("softmax's backward, given dp = -[i = y] / (N p_y), agrees",
      relative_error(softmax.backward(-truth / p / N), dz) < 1e-14)
claim("finite differences and the complex step agree", nt.gradcheck(criterion, z, y).ok)
claim("if the right logit is 1000 too low, the loss is 1000 and its derivative -1",
      criterion(np.array([[0.0, -1000.0]]), [1]) == 1000 and criterion.backward()[0, 1] == -1)

# %% [markdown]
# ## 7. The mean over which tokens?
#
# B sequences of T tokens give B T rows. Short sequences are filled up with padding tokens, whose targets must not
# count. `ignore_id` says which target to ignore, and N becomes the number of targets that count.
#
# Dividing by something else changes the training. If the loss were divided by B, sequences twice as long would get
# twice the gradient. If it were divided by B T, padding would dilute the loss.

# %% Three sequences, two of them padded
logits, targets = rng.standard_normal((3, 6, V)), rng.integers(0, V, (3, 6))
targets[0, 4:] = -1
targets[2, 1:] = -1
criterion = nt.CrossEntropyLoss(ignore_id=-1)
counted = targets != -1
L = criterion(logits, targets)
p_counted = naive_softmax(logits)[counted]
truth = np.eye(V)[targets[counted]]
dz = criterion.backward()
claim("L is the mean over the targets that count", relative_error(
    L, -sum(math.log(a[b]) for a, b in zip(p_counted, targets[counted])) / 11) < 1e-14, f"{criterion.count} of 18")
claim("the gradients are (p - truth) / 11 where the target counts, and exactly 0 elsewhere",
      relative_error(dz[counted], (p_counted - truth) / 11) < 1e-14 and np.all(dz[~counted] == 0))

# %% [markdown]
# ## 8. Label smoothing
#
# L keeps falling as the right logit rises above the others. It has no minimum, so training can push the logits apart
# without end. Label smoothing (Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4, with ε = 0.1) gives
# the fraction ε of the target probability to all tokens equally. The target of a row is then no longer a single token
# but a distribution q. The gradient follows by the same steps as before, because q sums to 1 too:
#
#     q_i = (1 - ε) [i = y] + ε / V
#     L   = -(1/N) sum over the rows and i of q_i log p_i
#     dz  = (p - q) / N
#
# With ε = 0.1 and V = 5, the right token has q = 0.92 and each other token has q = 0.02. The gradient is 0 where p = q.
# There L is the entropy of q, H(q) = -(sum over i of q_i log q_i), and no other p gives a lower loss. So a smoothed
# loss that stops above 0 may have reached its minimum.

# %% Its gradient and its minimum
smooth = nt.CrossEntropyLoss(label_smoothing=0.1)
q = 0.9 * np.eye(V)[y] + 0.1 / V
claim("L = -(1/N) sum of q log p", relative_error(
    smooth(z, y), -sum(q[n, i] * math.log(p[n, i]) for n in range(N) for i in range(V)) / N) < 1e-14)
claim("dz = (p - q) / N", relative_error(smooth.backward(), (p - q) / N) < 1e-14)
lowest = smooth(np.log(q), y)
claim("where p = q the gradient is 0 and L is H(q)", np.abs(smooth.backward()).max() < 1e-15
      and relative_error(lowest, -sum(part * math.log(part) for part in q[0])) < 1e-14, f"{lowest:.3f}")
claim("at 200 other points L is higher", [smooth(np.log(q) + size * rng.standard_normal((N, V)), y) > lowest
                                          for size in (0.01, 0.1, 1, 10) for _ in range(50)])
picture = Figure(figsize=(8, 4.4), layout="constrained")
axes = picture.subplots()
gaps = np.linspace(-2, 14, 201)
for epsilon, style in ((0.0, "C0-"), (0.1, "C1--"), (0.3, "C2-.")):
    curve = [nt.CrossEntropyLoss(epsilon)(gap * np.eye(1, V), [0]) for gap in gaps]
    axes.plot(gaps, curve, style, linewidth=2.5, label=f"ε = {epsilon:g}")
    if epsilon:
        best_gap = math.log((1 - epsilon + epsilon / V) / (epsilon / V))        # log q_y - log q_j
        axes.plot(best_gap, np.interp(best_gap, gaps, curve), style[:2] + "o", markersize=10)
axes.set(xlabel="right logit minus the four other logits, which are equal", ylabel="loss (nats)", ylim=(0, 3.5),
         title="Label smoothing gives the loss a minimum (dots: p = q)")
axes.grid(alpha=0.3)
axes.legend()
figure("label_smoothing", picture)

# %% [markdown]
# ## 9. Reading a loss
#
# A model that knows nothing gives each token the probability 1/V and has the loss log(V). A new model should start near
# this value. If it starts far above, it is confident about wrong tokens.
#
# **Perplexity**, exp(L), expresses the loss as a number of tokens. A loss of 4.2 is a perplexity of exp(4.2) = 67: the
# model is as uncertain as if it had to choose among 67 equally likely tokens.
#
# A model that generates text draws from softmax(z / τ) with a **temperature** τ. With τ near 0, the likeliest token
# gets nearly all the probability. With τ far above 1, all tokens become equally likely. The order of the tokens never
# changes, and the entropy H(p) rises from 0 to log(V).

# %% An untrained model, perplexity, temperature
predict("what is the loss of a model that knows nothing of 100 tokens, to one decimal?", f"{math.log(100):.1f}",
        why="It gives each token the probability 1/100, and -log(1/100) = log(100), with the natural logarithm.")
model = nt.CausalLanguageModel(100, 16, num_heads=2, num_layers=2, max_len=8, rng=1)
ids = rng.integers(0, 100, (50, 9))
L = criterion(model(ids[:, :-1]), ids[:, 1:])
claim("an untrained language model starts there", abs(L - math.log(100)) < 0.1, f"{L:.2f}")
two_guesses = np.log([[0.5, 0.5] + [1e-9] * 6, [1 / 8] * 8])    # logits of a guess among 2, and of a guess among 8
claim("a guess among 2 and one among 8 have perplexity 4, the exp of the mean loss (the mean of 2 and 8 would be 5)",
      np.isclose(np.exp(criterion(two_guesses, [0, 0])), 4))
TEMPERATURES = np.geomspace(0.05, 50, 61)
heated = softmax(z[0] / TEMPERATURES[:, None])
entropy = -(heated * np.log(heated + 1e-300)).sum(-1)
claim("the entropy rises with τ, from 0 to log(V)", np.all(np.diff(entropy) > 0)
      and entropy[0] < 0.01 and math.log(V) - entropy[-1] < 0.01)
claim("the order of the tokens does not change with τ", heated.argsort(-1) == z[0].argsort())

# %% [markdown]
# ## Exercises
#
# 1. Softmax could subtract the mean of a row instead of its maximum. Find two logits for which that fails.
# 2. For V = 2, write p_1 as a function of z_1 - z_2. What is J?
# 3. Predict: the logits of a trained model are multiplied by 10. What happens to its accuracy, and to its loss?
# 4. Find the bug: `p[:, y] -= 1; dz = p / N`, with p of shape (N, V) and y of shape (N,). What does it do, and for
#    which N is it right?
# 5. Write LogSoftmax.backward in one line, given only the value that forward saves, its output y = log p.
# 6. What is H(q) for ε = 0.1 and V = 37,000? A training run with label smoothing stops at 1.6. How far is it from the
#    minimum?
#
# With a checker (`numpy-transformer exercise check 01.1` and so on): 01.1, 01.2, 01.3, 01.4, 01.5, 01.6, 01.7.
