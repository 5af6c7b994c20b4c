# %% [markdown]
# # 01 Softmax and cross-entropy
#
# At each position of a text, a language model gives V numbers, the **logits** z: one score for each token that could
# come next. Softmax turns these scores into probabilities. Cross-entropy turns the probability of the right token into
# the loss, which training lowers.
#
# Both formulas fail if they are typed in as they stand. You will be able to write them so that they work for every
# input, to derive their gradients, and to say what a loss of 4.2 means.
#
# ## 1. From scores to probabilities
#
# Softmax has to turn any V numbers into V probabilities. exp makes every logit positive, and dividing by the sum makes
# the sum 1:
#
#     p_i = exp(z_i) / (exp(z_1) + ... + exp(z_V))
#
# The ratio of two probabilities does not contain the sum, since p_i / p_j = exp(z_i - z_j). So only differences between
# logits matter: adding a constant to all of them changes nothing.

# %% Five words that could follow "the cat sat on the"
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source

lesson.start(__name__)
words = ["mat", "sofa", "roof", "moon", "of"]
z = np.array([1.6, 1.0, 0.6, -0.2, -0.6])


def naive_softmax(z):
    """The formula as it stands, applied to each row of z."""
    e = np.exp(z)
    return e / e.sum(-1, keepdims=True)


def relative_error(a, b):
    """The norm, or length, of a - b, divided by that of b."""
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


p = naive_softmax(z)
print("  token  logit  exp(logit)  probability")
for word, logit, probability in zip(words, z, p):
    print(f"  {word:5}  {logit:5.1f}  {math.exp(logit):10.3f}  {probability:11.3f}")
claim("the probabilities sum to 1", abs(p.sum() - 1) < 1e-14)
claim("adding 30 to all logits does not change them", relative_error(naive_softmax(z + 30), p) < 1e-13)

# %% [markdown]
# ## 2. exp overflows
#
# exp(710) is larger than the largest float64, and exp(89) is larger than the largest float32. The result is inf, and
# inf / inf is NaN, "not a number". Since only differences matter, we may subtract the largest logit of the row first.
# Now the largest term is exp(0) = 1, and a term that is too small for a float becomes 0, which makes no difference. It
# has to be the maximum of each row. With one maximum for the whole array, all terms of a low row become 0, and 0 / 0 is
# NaN as well.

# %% A softmax that works for every row
def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


rows = np.array([[1000.0, 999.0, 997.0], [-1000.0, -1001.0, -1003.0]])
expected = naive_softmax(np.array([[0.0, -1.0, -3.0]] * 2))
predict("do the logits 1000, 999, 997 and -1000, -1001, -1003 have the same probabilities?", "yes",
        why="The second three are the first three minus 2000, and a constant does not matter.")
with np.errstate(all="ignore"):             # NumPy warns of every overflow, and here we cause them on purpose
    claim("without subtraction, row 0 is inf / inf and row 1 is 0 / 0: all NaN", np.isnan(naive_softmax(rows)))
    claim("with one maximum for both rows, row 1 is still 0 / 0", np.isnan(naive_softmax(rows - rows.max())[1]))
claim("with the maximum of each row, both rows are right", relative_error(softmax(rows), expected) < 1e-14)
claim("so are those of nt.Softmax", relative_error(nt.Softmax()(rows), expected) < 1e-14)

# %% [markdown]
# ## 3. The loss
#
# The loss of one position is -log p of the right token, the **target**. It is 0 if the target has the probability 1,
# and it grows without limit as this probability goes to 0. The logarithm is the natural one, and the unit of the loss
# is called **nat**. The loss L of T positions is the mean of their losses.
#
# The formula of softmax gives log p directly. Let lse (log-sum-exp) be the logarithm of the sum of exp. Then
#
#     log p_i = z_i - lse(z)
#     lse(z)  = max(z) + log(sum over j of exp(z_j - max(z)))
#
# Computing p first and then its logarithm is not the same with floats. In float32 a probability below 7e-46 is rounded
# to 0, and log(0) is -inf. The usual fix, log(p + 1e-9), only hides this, because the loss can then never exceed
# -log(1e-9) = 20.7. Where its curve is flat, a model that is confident and wrong gets no signal to change.

# %% The loss from the logits, and two ways that fail
def log_softmax(z):
    shifted = z - z.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def cross_entropy(z, targets):
    log_p = log_softmax(z)
    return -log_p[np.arange(len(z)), targets].mean()        # of row t, the entry in column targets[t]


gaps = np.linspace(0, 150, 301, dtype=np.float32)
two_tokens = np.stack([np.zeros_like(gaps), -gaps], axis=-1)            # the logit of the right one is lower by the gap
p_right = softmax(two_tokens)[:, 1]
with np.errstate(divide="ignore"):
    losses = {"-log_softmax(z)": -log_softmax(two_tokens)[:, 1], "-log(softmax(z))": -np.log(p_right),
              "-log(softmax(z) + 1e-9)": -np.log(p_right + np.float32(1e-9))}
exact, naive, clipped = losses.values()
first_inf = gaps[np.isinf(naive)].min()
claim("-log_softmax(z) = log(1 + exp(gap))",
      relative_error(exact, np.logaddexp(0, gaps.astype(np.float64))) < 1e-6)
claim("-log(softmax(z)) becomes inf", 80 < first_inf < 110, f"from a gap of {first_inf:g} on")
claim("-log(softmax(z) + 1e-9) stays below 20.8, and is flat from a gap of 30 on",
      clipped.max() < 20.8 and np.ptp(clipped[gaps >= 30]) < 0.001)
picture = Figure(figsize=(8, 4.5), layout="constrained")
axes = picture.subplots()
for name, style, width in zip(losses, ("C0-", "C1--", "C2-."), (6, 2.5, 2.5)):
    axes.plot(gaps, np.where(np.isfinite(losses[name]), losses[name], np.nan), style, linewidth=width, label=name)
axes.plot(first_inf, first_inf, "C1X", markersize=13, label="inf from here on")
axes.set(xlabel="gap: logit of the other token minus logit of the right one", ylabel="loss (nats)")
axes.legend()
axes.grid(alpha=0.3)
figure("logarithm", picture)

# %% [markdown]
# ## 4. The gradient: move one logit
#
# How does the loss change if one logit grows a little? Suppose that the text continues with "moon". We raise each logit
# by h = 1e-6 in turn, and divide the change of the loss by h.

# %% Five derivatives, measured one by one
def moved(loss, z, h=1e-6):
    """The change of loss(z) divided by h, for each entry of z that grows by h alone."""
    changes = np.zeros(z.shape)
    for at in np.ndindex(z.shape):
        changed = z.copy()
        changed[at] += h
        changes[at] = (loss(changed) - loss(z)) / h
    return changes


target = words.index("moon")
one_hot = np.eye(len(words))[target]
measured = moved(lambda z: cross_entropy(z[None], [target]), z)
predict('the target is "moon": for how many of the five logits does the loss grow if the logit grows?', 4,
        why="Each other token takes probability away from the target. Only the target's own logit lowers the loss.")
print("  token  measured      p")
for word, slope, probability in zip(words, measured, p):
    print(f"  {word:5}  {slope:8.3f}  {probability:5.3f}")
claim("the measured derivatives are p, minus 1 for the target", relative_error(measured, p - one_hot) < 1e-5)

# %% [markdown]
# The formula follows from L = lse(z) - z_target. From a table of formulas, the derivative of exp(a) is exp(a), and that
# of log(s) is 1/s. So that of lse with respect to z_j is exp(z_j) / (sum of all exp) = p_j. The target's logit appears
# once more, with the derivative -1. Let **one-hot** be the row with a 1 at the target and a 0 elsewhere. Then
#
#     dz = p - one-hot
#
# This is the prediction minus the truth. A step against it raises the logit of "moon" and lowers all others. The loss
# of T positions is a mean, so each row is divided by T.

# %% The same for several positions
rng = np.random.default_rng(1)
T, V = 4, len(words)
z4 = 2 * rng.standard_normal((T, V))
targets = np.array([3, 0, 3, 1])


def cross_entropy_backward(z, targets):
    dz = softmax(z)
    dz[np.arange(len(z)), targets] -= 1
    return dz / len(z)


dz = cross_entropy_backward(z4, targets)
drawing("softmax_and_loss")
claim("dz = (p - one-hot) / T", relative_error(moved(lambda z: cross_entropy(z, targets), z4), dz) < 1e-5)
claim("each row of dz sums to 0", np.abs(dz.sum(-1)).max() < 1e-14)

# %% [markdown]
# ## 5. The loss of the package
#
# `nt.CrossEntropyLoss` is the same code with two options. The method `losses` returns the loss of every row and p. In
# backward, `recall` returns what forward saved, and `dy`, which is 1 here, multiplies the gradient.
#
# **`ignore_id`.** Short texts of a batch are filled up with padding, whose targets must not count. They get the
# gradient 0, and the number of the other targets takes the place of T.
#
# **`label_smoothing`.** The loss keeps falling as the target's logit rises, so training can push the logits apart
# without end. Label smoothing (Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4, with ε = 0.1) takes
# the fraction ε of the target's 1 and gives it to all V tokens equally. This distribution replaces one-hot. The
# gradient is 0 where p equals it, so the loss now has a minimum.

# %% nt.CrossEntropyLoss equals what we built
show_source(nt.CrossEntropyLoss.losses, nt.CrossEntropyLoss.backward)
criterion = nt.CrossEntropyLoss()
claim("forward is equal", relative_error(criterion(z4, targets), cross_entropy(z4, targets)) < 1e-14)
claim("backward is equal", relative_error(criterion.backward(), dz) < 1e-14)
padded = nt.CrossEntropyLoss(ignore_id=-1)
claim("with two targets ignored, the loss is that of the other two", relative_error(
    padded(z4, np.array([3, 0, -1, -1])), cross_entropy(z4[:2], targets[:2])) < 1e-14)
claim("and the gradient is theirs, and 0 elsewhere", relative_error(
    padded.backward(), [*cross_entropy_backward(z4[:2], targets[:2]), np.zeros(V), np.zeros(V)]) < 1e-14)
smooth = nt.CrossEntropyLoss(label_smoothing=0.1)
soft = 0.9 * np.eye(V)[targets] + 0.1 / V                   # 0.92 for the target, 0.02 for each other token
claim("label smoothing: L is the mean of -(sum of soft log p)",
      relative_error(smooth(z4, targets), -(soft * log_softmax(z4)).sum(-1).mean()) < 1e-14)
claim("label smoothing: dz = (p - soft) / T", relative_error(smooth.backward(), (softmax(z4) - soft) / T) < 1e-14)

# %% [markdown]
# ## 6. Softmax alone, backward
#
# Attention uses a softmax without a loss (lesson 05), so softmax needs a backward of its own. It is given dp, the
# gradient of p. From the last forward line to the first, we ask where each variable appears:
#
# * p = e / s. e_i appears in p_i with derivative 1 / s. The sum s appears in every p_i, with derivative -e_i / s²,
#   since that of 1/s is -1/s².
# * s is the sum of e, so each e_i also receives ds.
# * e = exp(z - max), whose derivative is e itself. The maximum has no effect on p, so it needs no gradient.
#
# Together:
#
#     dz_j = p_j (dp_j - sum over i of p_i dp_i)
#
# Raising a logit raises L if its dp is above the mean of dp, weighted by p. `nt.Softmax` calls its input x and its
# output y. Its `exp_and_sum` returns our e and s.

# %% Softmax, forward and backward
e = np.exp(z4 - z4.max(-1, keepdims=True))
s = e.sum(-1, keepdims=True)
p4 = e / s

dp = rng.standard_normal((T, V))
de = dp / s                                 # p = e / s
ds = -(dp * e / s ** 2).sum(-1, keepdims=True)
de = de + ds                                # s = e.sum(-1)
dz = de * e                                 # e = exp(z4 - max)
show_source(nt.Softmax.forward, nt.Softmax.backward)
layer = nt.Softmax()
claim("nt.Softmax: forward is equal", relative_error(layer(z4), p4) < 1e-14)
claim("nt.Softmax: backward is equal", relative_error(layer.backward(dp), dz) < 1e-14)
claim("moving each logit agrees", relative_error(moved(lambda z: np.sum(dp * softmax(z)), z4), dz) < 1e-5)
layer(z4)
claim("given dp = -one-hot / (p T), it returns the gradient of the loss", relative_error(
    layer.backward(-np.eye(V)[targets] / p4 / T), cross_entropy_backward(z4, targets)) < 1e-14)

# %% [markdown]
# ## 7. Reading a loss
#
# A model that knows nothing gives each token the probability 1/V and has the loss log(V). A new model should start near
# this value. **Perplexity**, exp(L), expresses a loss as a number of tokens. A loss of 4.2 is a perplexity of 67, the
# uncertainty of a choice among 67 equally likely tokens.
#
# To write, a model draws each token with the probabilities softmax(z / τ), where τ is the **temperature**. With τ near
# 0, the most likely token gets nearly all the probability. With a large τ, all tokens become nearly equally likely.

# %% No knowledge, and three temperatures
predict("what is the loss of a model that knows nothing of 100 tokens, to one decimal?", f"{math.log(100):.1f}",
        why="It gives each token the probability 1/100, and -log(1/100) = log(100), with the natural logarithm.")
claim("equal logits have the loss log(V)", np.isclose(criterion(np.zeros((3, 100)), [5, 0, 99]), math.log(100)))
cold, warm, hot = (softmax(z / temperature) for temperature in (0.05, 1, 50))
show(cold=cold, warm=warm, hot=hot)
claim("τ = 0.05 chooses the most likely token, τ = 50 hardly distinguishes them", cold[0] > 0.99 and np.ptp(hot) < 0.01)

# %% [markdown]
# ## 8. The Jacobian
#
# Each p_i depends on every z_j, which makes V · V derivatives, the **Jacobian** J:
#
#     J_ij = dp_i/dz_j = p_i ([i = j] - p_j)
#
# where [i = j] is 1 if i = j and 0 otherwise. Section 6 returns dp J without building J. (In the fraction dp_i/dz_j,
# dp_i is no gradient of L.)

# %% The Jacobian of the first five words
J = p[:, None] * (np.eye(V) - p)
predict("how many numbers does J have for a vocabulary of 50,000 tokens?", 50_000 ** 2,
        why="It has one for each pair (i, j), which is 20 GB in float64 for a single row of logits.")
claim("J holds the derivative of each p_i, measured by moving the logits",
      relative_error([moved(lambda z: softmax(z)[i], z) for i in range(V)], J) < 1e-5)
layer(z)
claim("backward returns dp J", relative_error(layer.backward(dp[0]), dp[0] @ J) < 1e-13)
picture = Figure(figsize=(7, 5.2), layout="constrained")
axes = picture.subplots()
limit = np.abs(J).max()
image = axes.imshow(J, "RdBu_r", vmin=-limit, vmax=limit)
for (i, j), number in np.ndenumerate(J):
    axes.text(j, i, f"{number:.3f}", ha="center", va="center", color="white" if abs(number) > 0.6 * limit else "black")
axes.set_xticks(range(V), [f"{word}\n{logit:.1f}" for word, logit in zip(words, z)])
axes.set_yticks(range(V), [f"{word}  {probability:.2f}" for word, probability in zip(words, p)])
axes.set(xlabel="token j and its logit", ylabel="token i and its probability", title="Jacobian J_ij = dp_i/dz_j")
picture.colorbar(image, ax=axes, label="derivative")
figure("jacobian", picture)

# %% [markdown]
# ## Exercises
#
# 1. Softmax could subtract the mean of a row instead of its maximum. Find two logits for which that fails.
# 2. For V = 2, write p_1 as a function of z_1 - z_2. What is J?
# 3. Predict: the logits of a trained model are multiplied by 10. What happens to its accuracy, and to its loss?
# 4. Find the bug: `p[:, targets] -= 1; dz = p / T`, with p of shape (T, V) and targets of shape (T,). What does it do,
#    and for which T is it right?
# 5. Write the backward of log_softmax in one line, given only its output, log p.
# 6. What is the smallest possible loss with label smoothing for ε = 0.1 and V = 37,000? A run stops at 1.6. How far is
#    that from the minimum?
#
# With a checker (`numpy-transformer exercise start my-exercises 01`): 01.1, 01.2, 01.3, 01.4, 01.5, 01.6, 01.7.
