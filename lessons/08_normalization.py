# %% [markdown]
# # 08 Normalization
#
# Every attention layer and every feed-forward layer of a Transformer comes with a normalization layer. LayerNorm takes
# one token, shifts its features to mean 0, scales them to variance 1, and then lets two learned vectors γ and β choose
# another scale and another mean.
#
# Its backward fits into one line, and that line is often wrong in code written by hand. The reason is that x
# influences y in three ways: directly, through the mean, and through the variance. Two of these three paths are easily
# forgotten. After this lesson you will be able to derive the line, say what each of its terms is for, and distinguish
# LayerNorm, RMSNorm and BatchNorm by what an output depends on. Lesson 02 explains gradients and the complex step.
# About 15 minutes.

# %% Five tokens, and a LayerNorm whose γ is not 1
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict, show, slopes

lesson.start(__name__)
rng = np.random.default_rng(8)
T, D = 5, 7                                 # T tokens with D features each
norm = nt.LayerNorm(D).astype(np.float64)
norm.gamma.data = rng.uniform(0.5, 2, D)
norm.beta.data = rng.standard_normal(D)
gamma, beta, eps = norm.gamma.data, norm.beta.data, norm.eps
x = 2 + 3 * rng.standard_normal((T, D))
dy = rng.standard_normal((T, D))            # the loss L is the sum of dy * y
y = norm(x)
show(x=x, y=y, gamma=gamma)


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def mean(a):                                # of each token, over its features
    return a.mean(-1, keepdims=True)


# %% [markdown]
# ## 1. Forward
#
# For each token, with means over its D features (Ba, Kiros and Hinton 2016, equations 3 and 4):
#
#     m = mean of x_i         the mean
#     c = x - m               the centered features
#     v = mean of c_i²        the variance
#     s = 1 / sqrt(v + eps)   one over the standard deviation
#     x̂ = c s                 normalized: mean 0
#     y = γ x̂ + β             with another scale and mean
#
# The variance divides the sum by D. eps = 1e-5 keeps s finite where v is 0. The variance of x̂ is v / (v + eps), which
# is almost 1. γ and β have D entries each, the same for all tokens.
#
# A token with the features 1, 2, 6 has m = 3, c = (-2, -1, 3), v = (4 + 1 + 9) / 3 = 4.67, s = 0.463 and
# x̂ = (-0.93, -0.46, 1.39).
#
# The last two claims below show what LayerNorm removes. Adding the same number to all features of a token leaves y
# unchanged. Multiplying all of them by the same positive number leaves y unchanged too, apart from the effect of eps.

# %% The formula in plain loops
m = np.array([[sum(x[t]) / D] for t in range(T)])
c = x - m
v = np.array([[sum(c[t, i] ** 2 for i in range(D)) / D] for t in range(T)])
s = 1 / np.sqrt(v + eps)
x_hat = c * s
claim("y_ti = γ_i x̂_ti + β_i",
      relative_error(y, [[gamma[i] * x_hat[t, i] + beta[i] for i in range(D)] for t in range(T)]) < 1e-14)
claim("x̂ has mean 0 and variance v / (v + eps)",
      [abs(mean(x_hat)).max() < 1e-14, np.allclose(mean(x_hat ** 2), v / (v + eps), rtol=1e-14)])
claim("adding 7 to all features of a token leaves y unchanged", relative_error(norm(x + 7), y) < 1e-13)
claim("multiplying all features by 7 leaves y unchanged, apart from eps", 1e-9 < relative_error(norm(7 * x), y) < 1e-5)

# %% [markdown]
# ## 2. Backward
#
# We go from the last line of forward to its first, and ask in each line where each variable appears.
#
# **y = γ x̂ + β.** Entry i of γ and of β appears in feature i of every token, so the contributions of all tokens are
# added:
#
#     dγ_i = sum over t of dy_ti x̂_ti
#     dβ_i = sum over t of dy_ti
#     dx̂   = γ dy, which we call g
#
# **x̂ = c s.** The same s appears in every x̂_i, with derivative c_i, so ds is a sum. Each c_i appears in x̂_i with
# derivative s. It appears a second time in v, which comes next.
#
#     ds = sum over i of g_i c_i
#
# **s = (v + eps)^(-1/2)** has derivative -s³ / 2 with respect to v, and **v = mean of c_i²** has derivative 2 c_i / D
# with respect to c_i. Adding both paths from c gives
#
#     dv = -s³ ds / 2
#     dc = s g + dv 2 c / D = s (g - x̂ mean(g x̂))
#
# **c = x - m, m = mean of x_i.** m appears in every c_i with derivative -1. x_i appears in c_i with derivative 1, and
# in m with derivative 1 / D. The mean of dc is s mean(g), because x̂ has mean 0:
#
#     dm = -(sum of dc_i)
#     dx = dc + dm / D = s (g - mean(g) - x̂ mean(g x̂))

# %% Each line is compared with the complex step
def loss_from_c(c):                         # L as a function of the centered features
    return np.sum(dy * (gamma * c / np.sqrt(mean(c * c) + eps) + beta))


g = gamma * dy
ds = (g * c).sum(-1, keepdims=True)
dv = -s ** 3 * ds / 2
dc = s * g + dv * 2 * c / D
dm = -dc.sum(-1, keepdims=True)
dx = s * (g - mean(g) - x_hat * mean(g * x_hat))
for name, gradient, loss, variable in (
        ("g = γ dy", g, lambda x_hat: np.sum(dy * (gamma * x_hat + beta)), x_hat),
        ("ds = sum of g c", ds, lambda s: np.sum(dy * (gamma * c * s + beta)), s),
        ("dv = -s³ ds / 2", dv, lambda v: np.sum(dy * (gamma * c / np.sqrt(v + eps) + beta)), v),
        ("dc = s g + dv 2 c / D", dc, loss_from_c, c),
        ("dm = -(sum of dc)", dm, lambda m: loss_from_c(x - m), m),
        ("dx = s (g - mean(g) - x̂ mean(g x̂))", dx, lambda x: loss_from_c(x - mean(x)), x)):
    claim(name, relative_error(gradient, slopes(loss, variable)) < 1e-13)
norm.forget()                               # the forward passes above had no backward pass
norm(x)
claim("nt.LayerNorm returns this dx", relative_error(norm.backward(dy), dx) < 1e-14)
claim("its dγ is the sum of dy x̂ over the tokens, and its dβ the sum of dy", [
    relative_error(norm.gamma.grad, sum(dy[t] * x_hat[t] for t in range(T))) < 1e-14,
    relative_error(norm.beta.grad, sum(dy)) < 1e-14])

# %% [markdown]
# ## 3. Three paths
#
# The three terms of dx are the three paths from x to L:
#
#     direct                   s g
#     through the mean        -s mean(g)
#     through the deviation   -s x̂ mean(g x̂)
#
# x_i appears in its own x̂_i. A larger x_i also raises m, which lowers every x̂. And an x_i further from m raises v,
# which shrinks every x̂.
#
# To see one path alone, we can close the others: hold m constant, or s, or both. What remains is the dx of an
# implementation that forgot the closed paths. The cell below compares it with the right dx, by the relative error and
# by the cosine of the angle between them.
#
# The two corrections have a meaning. According to section 1, adding a number to all features does not change y. So L
# has derivative 0 in that direction, and the dx_i must sum to 0. Scaling c leaves y unchanged, apart from eps, so the
# derivative along x̂ is almost 0. The corrections remove from g exactly what points in these two directions.

# %% Holding m or s constant closes the path through it
direct = s * g
by_mean = -s * mean(g) + 0 * x              # + 0 * x repeats the number for each feature
by_deviation = -s * x_hat * mean(g * x_hat)
for name, terms, loss in (
        ("m and s held constant: only the direct path", direct, lambda x: np.sum(g * (x - m) * s)),
        ("s held constant: direct path + mean", direct + by_mean, lambda x: np.sum(g * (x - mean(x)) * s)),
        ("m held constant: direct path + deviation", direct + by_deviation, lambda x: loss_from_c(x - m))):
    error = relative_error(terms, dx)
    cosine = np.sum(terms * dx) / np.linalg.norm(terms) / np.linalg.norm(dx)
    claim(name, relative_error(terms, slopes(loss, x)) < 1e-13 and error > 0.3,
          f"relative error {error:.2f}, cosine {cosine:.2f}")
claim("the right dx sums to 0 over the features of each token", abs(dx.sum(-1)) < 1e-13)
claim("dx x̂ sums to s (sum of g x̂) eps / (v + eps), which is almost 0", np.allclose(
    (dx * x_hat).sum(-1), (s * D * mean(g * x_hat) * eps / (v + eps))[:, 0], rtol=1e-8, atol=1e-15))

# %% The three paths of one token
picture = Figure(figsize=(11, 4.2), layout="constrained")
axes = picture.subplots()
BARS = ("direct", direct, "C0", ""), ("through the mean", by_mean, "C1", "//"), (
    "through the deviation", by_deviation, "C2", ".."), ("dx, the sum of all three", dx, "0.2", "")
for n, (label, term, color, hatch) in enumerate(BARS):
    axes.bar(np.arange(D) + 0.2 * n - 0.3, term[0], 0.19, color=color, hatch=hatch, edgecolor="white", label=label)
axes.axhline(0, color="black", linewidth=0.8)
axes.set(xlabel="feature i of token 0", xticks=range(D), ylabel="contribution to dx_i",
         title="dx of LayerNorm is a sum over three paths")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure("paths", picture)

# %% [markdown]
# `numpy-transformer explore --lesson 08` opens one entry of such a dx in a trained pre-norm model, in your browser,
# with the three terms apart. Its row sums to 0. The heatmap above it shows the gradient of the same token with the
# part of the residual connection added. Why do the rows of this one sum to 0 as well?
#
# ## 4. γ = 1 hides mistakes
#
# One mistake that has appeared in published code (lesson 18) is to take γ out of the two means:
# dx = γ s (dy - mean(dy) - x̂ mean(dy x̂)). This is right if all γ_i are equal, and at the start of training all of
# them are 1. So a gradient check of a freshly created network does not find the mistake, and the gradient becomes
# wrong only as γ is trained.

# %% The error grows with the spread of γ
predict("the relative error of that dx if all γ_i are 1?", 0,
        why="A γ that is the same for all features can be taken out of a mean, so both formulas agree.")
errors = {}
z = rng.standard_normal(D)
layer = nt.LayerNorm(D).astype(np.float64)
for spread in (0, 0.01, 0.1, 0.5):
    layer.gamma.data = 1 + spread * z
    layer(x)
    wrong_dx = layer.gamma.data * s * (dy - mean(dy) - x_hat * mean(dy * x_hat))
    errors[spread] = relative_error(wrong_dx, layer.backward(dy))
claim("exact at γ = 1", errors[0] < 1e-14)
claim("with γ = 1 + spread z the error grows in proportion to the spread",
      np.isclose(errors[0.1] / errors[0.01], 10, rtol=0.2),
      ", ".join(f"{spread}: {errors[spread]:.3f}" for spread in (0.01, 0.1, 0.5)))

# %% [markdown]
# ## 5. RMSNorm
#
# RMSNorm leaves out the mean and β: y = γ x̂ with x̂ = x / sqrt(mean of x_i² + eps) (Zhang and Sennrich 2019). It is
# LayerNorm with m = 0 and c = x. The same derivation gives dx = s (g - x̂ mean(g x̂)): the path through the mean is
# gone.

# %% RMSNorm: forward, backward, and what it removes
rms = nt.RMSNorm(D).astype(np.float64)
rms.gamma.data = gamma
y = rms(x)
r = np.array([(sum(a * a for a in x[t]) / D + rms.eps) ** 0.5 for t in range(T)])[:, None]
claim("y_ti = γ_i x_ti / r_t, where r_t is sqrt(mean square of the features + eps)",
      relative_error(y, gamma * x / r) < 1e-14)
dx_rms = rms.backward(dy)
numeric = slopes(lambda x: np.sum(g * x / np.sqrt(mean(x * x) + rms.eps)), x)
claim("dx = s (g - x̂ mean(g x̂)) agrees with the complex step", relative_error(dx_rms, numeric) < 1e-13)
claim("dγ is the sum of dy x̂ over the tokens", relative_error(rms.gamma.grad, (dy * x / r).sum(0)) < 1e-14)
claim("dx x̂ sums to almost 0, but dx does not",
      [abs((dx_rms * x / r).sum(-1)).max() < 1e-6, abs(dx_rms.sum(-1)).min() > 0.01])
claim("multiplying all features by 7 leaves y unchanged, apart from eps", relative_error(rms.eval()(7 * x), y) < 1e-6)
claim("adding 7 to all features changes y", relative_error(rms(x + 7), y) > 0.1)
layer.gamma.data = gamma
layer.eps = rms.eps
claim("on centered tokens RMSNorm and LayerNorm agree", relative_error(rms(c), layer.eval()(c)) < 1e-14)

# %% [markdown]
# ## 6. Two details: where eps stands, and n or n - 1
#
# Two other forms of LayerNorm are in use. One divides by std + eps instead of sqrt(v + eps). The other computes the
# variance with n - 1 instead of n: `torch.std` does so by default, `np.std` does not. The cell below compares both
# forms with nt.LayerNorm.

# %% Three forms, measured
plain = nt.LayerNorm(D).astype(np.float64).eval()       # with the initial values γ = 1 and β = 0
unit = rng.standard_normal((1000, D))                   # tokens whose standard deviation is about 1
unit -= mean(unit)
std = np.sqrt(mean(unit ** 2))
ratio = ((D - 1) / D) ** 0.5
error = relative_error(unit / (std + eps), plain(unit))
claim("eps outside the root: y changes by a few millionths", 1e-6 < error < 1e-5, f"{error:.0e} at eps = 1e-5")
claim("n - 1: y is smaller by the factor sqrt((D - 1) / D), apart from eps", relative_error(
    unit / unit.std(-1, ddof=1, keepdims=True), ratio * plain(unit)) < 1e-4, f"{ratio:.3f} for D = {D}")
flat = 0.001 * unit / std                               # tokens that are almost constant
claim("a standard deviation of 0.001 becomes 0.30 with eps inside the root, 0.99 with eps outside",
      np.allclose([plain(flat).std(-1), (flat / (0.001 + eps)).std(-1)], [[0.302], [0.990]], atol=1e-3))
claim("a constant token becomes 0; without eps it would be 0 / 0", plain(0 * x + 3) == 0)
norm(0 * x + 3)
claim("its gradient is (g - mean(g)) / sqrt(eps)",
      relative_error(norm.backward(dy), (g - mean(g)) / np.sqrt(eps)) < 1e-13, f"1 / sqrt(eps) = {eps ** -0.5:.0f}")

# %% [markdown]
# So the place of eps matters for tokens that are almost constant. Inside the root, eps dominates where the standard
# deviation is below sqrt(eps) = 0.003, and s is at most 316. Outside the root, eps dominates only where the standard
# deviation is below eps itself, the factor can reach 1 / eps = 100000, and the derivative of std at a constant token
# is 0 / 0.
#
# ## 7. BatchNorm: another axis
#
# BatchNorm (Ioffe and Szegedy 2015) applies the formula along the other direction: it takes the mean and the variance
# of one feature over all tokens of the batch. So the output for a token depends on everything else in the batch. When
# the trained model is used, there may be no batch. BatchNorm then uses a mean and a variance collected during
# training, and so computes a different function. The class below implements the training form.

# %% One number changes: which outputs change with it?
class BatchNorm(nt.Module):                 # without γ and β
    def forward(self, x):
        return (x - x.mean((0, 1))) / np.sqrt(x.var((0, 1)) + 1e-5)


words = ["the", "cat", "sat", "down", "dogs", "ran", "home", "<pad>"]          # two sentences of four tokens
batch = rng.standard_normal((2, 4, D))
moved = batch.copy()
moved[0, 1, 2] += 1                         # feature 2 of "cat"
predict("we change one of 8 x 7 numbers: how many outputs of LayerNorm, and of BatchNorm, change?", "7 and 8",
        why="LayerNorm's mean and variance belong to one token, so all 7 features of this token change. BatchNorm's "
            "belong to one feature, so this feature changes in all 8 tokens.")
picture = Figure(figsize=(13, 4.6), layout="constrained")
for axes, f in zip(picture.subplots(1, 3), (plain, rms, BatchNorm())):
    name = type(f).__name__
    change = abs(f(moved) - f(batch)).reshape(8, D)
    tokens = np.count_nonzero(change.any(1))
    features = np.count_nonzero(change.any(0))
    expected = (8, 1) if name == "BatchNorm" else (1, D)
    claim(f"{name}: the outputs of {tokens} token(s) change, in {features} feature(s)", (tokens, features) == expected)
    image = axes.imshow(np.ma.masked_equal(change, 0), "viridis", LogNorm(1e-3, 1), aspect="auto")
    axes.plot(2, 1, "wo", markersize=9, markeredgecolor="black")
    axes.axhline(3.5, color="black", linestyle=":")
    axes.set(xticks=range(D), yticks=range(8), yticklabels=words, xlabel="feature", title=name)
picture.axes[0].set_ylabel("token")
picture.colorbar(image, ax=picture.axes, label="absolute change of the output\n(white: no change)", pad=0.02)
picture.suptitle('Feature 2 of "cat" (circle) is increased by 1: which outputs change?')
figure("moved", picture)

# %% What this means for a Transformer
other_sentence = batch.copy()
other_sentence[1] = rng.standard_normal((4, D))
other_last_token = batch.copy()
other_last_token[0, 3] = 9
padded = np.concatenate([batch, np.zeros((2, 3, D))], axis=1)
for name, new in (("another second sentence in the batch", other_sentence),
                  ("another last token in its own sentence", other_last_token),
                  ("three padding tokens after both sentences", padded)):
    by_layer, by_batch = (abs(f(new)[0, 0] - f(batch)[0, 0]).max() for f in (plain, BatchNorm()))
    claim(f'"the", with {name}: unchanged by LayerNorm, changed by BatchNorm', by_layer < 1e-14 < 0.05 < by_batch,
          f"by {by_batch:.2f}")
claim("BatchNorm maps a batch of a single token to 0, whatever the token is", BatchNorm()(batch[:1, :1]) == 0)

# %% [markdown]
# ## Exercises
#
# 1. A token has D = 2 features. Which values can x̂ have, and what is dx, both apart from eps?
# 2. Predict dx of a LayerNorm with γ = 1 if all entries of dy are equal. Then predict it with the γ of this lesson.
# 3. Write the backward of the BatchNorm above. Which means are taken over another axis?
# 4. Find the bug: `(x - x.mean(-1)) / np.sqrt(x.var(-1) + eps)`. For which shapes does it run, and what does it
#    compute?
# 5. A model was trained with n and is run with n - 1. Which learned parameter can compensate, apart from eps, and how?
# 6. m appears in v as well: v = mean of (x_i - m)². Why is there no fourth path, from m through v?
#
# With a checker (`numpy-transformer exercise check 08.1` and so on): 08.1, 08.2, 08.3, 08.4.
