# %% [markdown]
# # 08 Normalization
#
# Every attention layer and every feed-forward layer of a Transformer comes with a normalization layer. LayerNorm takes
# one token, shifts its features to mean 0, scales them to variance 1, and then lets two learned vectors γ and β choose
# another scale and another mean. So the next layer receives inputs of a known size, whatever happened before.
#
# The backward of LayerNorm fits into one line, and that line is often wrong in code written by hand, because x
# influences y in three ways: directly, through the mean, and through the variance. After this lesson you will be able
# to derive the line, to say what each of its terms is for, and to distinguish LayerNorm, RMSNorm and BatchNorm.

# %% Four tokens, three of which differ only in their level and scale
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source, slopes

lesson.start(__name__)
x = np.array([[0.0, 6, 6, 8],
              [100, 106, 106, 108],         # token 0 plus 100
              [0, 60, 60, 80],              # token 0 times 10
              [9, 1, 3, 3]])
T, D = x.shape                              # tokens, features
gamma = np.array([2.0, 1, 0.5, 3])
beta = np.array([0.0, 1, 0, -1])
eps = 1e-5


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def mean(a):                                # of each token, over its features
    return a.mean(-1, keepdims=True)


# %% [markdown]
# ## 1. Forward
#
# LayerNorm (Ba, Kiros and Hinton 2016, equations 3 and 4) treats each token by itself. It computes the mean μ of the
# token's D features, the centered features c = x - μ, and their variance σ², the mean of c². Multiplying c by
# r = 1 / sqrt(σ² + eps) gives x̂, which has mean 0 and a variance of almost 1. The small number eps keeps r finite
# where the variance is 0. Finally y = γ x̂ + β, with the same γ and β for all tokens.
#
# Token 0 has the mean 5, so c = (-5, 1, 1, 3). Its variance is (25 + 1 + 1 + 9) / 4 = 9, so r = 1/3 and
# x̂ = (-1.67, 0.33, 0.33, 1).

# %% LayerNorm in six lines
predict("tokens 0, 1 and 2 are (0, 6, 6, 8), the same plus 100, and the same times 10: how many different rows do they "
        "give in x̂, apart from eps?", 1,
        why="Subtracting the mean removes the 100, and dividing by the standard deviation removes the factor 10.")
mu = x.mean(-1, keepdims=True)
c = x - mu
var = (c * c).mean(-1, keepdims=True)
r = 1 / np.sqrt(var + eps)
x_hat = c * r
y = gamma * x_hat + beta
show(mu=mu, var=var, x_hat=x_hat, y=y)
claim("token 0 plus 100 has the x̂ of token 0", relative_error(x_hat[1], x_hat[0]) < 1e-14)
claim("token 0 times 10 has it too, apart from eps", 1e-9 < relative_error(x_hat[2], x_hat[0]) < 1e-6)
claim("x̂ has mean 0 and variance σ² / (σ² + eps)",
      [abs(mean(x_hat)) < 1e-14, np.isclose(mean(x_hat ** 2), var / (var + eps), rtol=1e-14)])

# %% [markdown]
# ## 2. Backward
#
# Suppose that dy is (0, 0, 0, 1) for the tokens 0 to 2, as if L were the sum of their features 3, and some other vector
# for token 3. We go from the last line of forward to the first, and ask in each line where each variable appears.
#
# * γ_i and β_i appear in feature i of every token, so their gradients are sums over the tokens.
# * r appears in every x̂_i of its token, with derivative c_i, so dr is a sum over the features.
# * r = (σ² + eps)^(-1/2) has the derivative -r³ / 2 with respect to σ².
# * c_i appears twice: in x̂_i with derivative r, and in the mean of c² with derivative 2 c_i / D. Both contributions
#   are added.
# * μ appears in every c_i with derivative -1.
# * x_i appears twice as well: in c_i with derivative 1, and in μ with derivative 1 / D.

# %% Each line of backward under its line of forward
dy = np.array([[0.0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [1, -2, 3, 1]])
# y = gamma * x_hat + beta
dgamma = (dy * x_hat).sum(0)
dbeta = dy.sum(0)
dx_hat = dy * gamma
# x_hat = c * r
dr = (dx_hat * c).sum(-1, keepdims=True)
dc = dx_hat * r
# r = 1 / np.sqrt(var + eps)
dvar = dr * -r ** 3 / 2
# var = (c * c).mean(-1, keepdims=True)
dc = dc + dvar * 2 * c / D
# c = x - mu
dmu = -dc.sum(-1, keepdims=True)
dx = dc
# mu = x.mean(-1, keepdims=True)
dx = dx + dmu / D
show(dgamma=dgamma, dx=dx)
claim("tokens 0 and 1 have the same dx, and token 2 has a tenth of it, apart from eps",
      [np.allclose(dx[1], dx[0], rtol=1e-12), np.allclose(10 * dx[2], dx[0], rtol=1e-5)])

# %% [markdown]
# The lines from dr to dx can be written as one. With g = γ dy, dr is D mean(g c), so the variance adds
# -r³ c mean(g c) = -r x̂ mean(g x̂) to dc. Because c has mean 0, the mean of dc is r mean(g), and dμ / D subtracts it:
#
#     dx = r (g - mean(g) - x̂ mean(g x̂))
#
# The package uses this form. In its source below, `mean` is a mean over the features, `mean_of_products(a, b)` is the
# mean of a b over the features, and `sum_over_rows` is a sum over all tokens.

# %% The package's class computes the same
def layer_norm(x, gamma, beta):             # forward in two lines
    c = x - mean(x)
    return gamma * c / np.sqrt(mean(c * c) + eps) + beta


show_source(nt.LayerNorm.forward, nt.LayerNorm.backward)
norm = nt.LayerNorm(D).astype(np.float64)
norm.gamma.data, norm.beta.data = gamma, beta
claim("nt.LayerNorm returns this y", relative_error(norm(x), y) < 1e-14)
claim("and this dx, dγ and dβ", [relative_error(norm.backward(dy), dx) < 1e-14,
                                 relative_error(norm.gamma.grad, dgamma) < 1e-14,
                                 relative_error(norm.beta.grad, dbeta) < 1e-14])
rng = np.random.default_rng(8)
tokens, dtokens = rng.standard_normal((2, 5, 7))                    # five random tokens, and a random upstream gradient
random_gamma, random_beta = rng.standard_normal((2, 7))
norm = nt.LayerNorm(7).astype(np.float64)
norm.gamma.data, norm.beta.data = random_gamma, random_beta
norm(tokens)
claim("the complex step agrees for random numbers", [
    relative_error(norm.backward(dtokens), slopes(
        lambda x: np.sum(dtokens * layer_norm(x, random_gamma, random_beta)), tokens)) < 1e-12,
    relative_error(norm.gamma.grad, slopes(
        lambda gamma: np.sum(dtokens * layer_norm(tokens, gamma, random_beta)), random_gamma)) < 1e-12])

# %% [markdown]
# ## 3. Three paths
#
# The three terms of dx are the three paths from x to L. For token 0, g = (0, 0, 0, 3) and r = 1/3:
#
#     direct                 r g              =  (0, 0, 0, 1)
#     through the mean      -r mean(g)        = -(0.25, 0.25, 0.25, 0.25)
#     through the variance  -r x̂ mean(g x̂)    =  (0.42, -0.08, -0.08, -0.25)
#     dx                                      =  (0.17, -0.33, -0.33, 0.5)
#
# Raising x_3 raises its own output. It also raises μ, which lowers every output. And it raises σ², since x_3 lies above
# the mean, which moves every x̂ toward 0. Code that treats μ or σ² as a constant forgets one of these paths.
#
# Adding a number to all features does not change y. So L has derivative 0 in that direction, and dx sums to 0. Scaling
# c leaves y unchanged, apart from eps, so the derivative along x̂ is almost 0. The two corrections remove from g
# exactly what points in these two directions.

# %% Each path, and what is wrong without it
g = gamma * dy
direct = r * g
by_mean = -r * mean(g) * np.ones(D)
by_variance = -r * x_hat * mean(g * x_hat)
claim("the three paths add up to dx", relative_error(direct + by_mean + by_variance, dx) < 1e-14)
for name, terms, loss in (
        ("if μ and σ² were constant, dx would be the direct term", direct, lambda x: np.sum(g * (x - mu) * r)),
        ("if σ² were constant, it would be direct + mean", direct + by_mean, lambda x: np.sum(g * (x - mean(x)) * r)),
        ("if μ were constant, it would be direct + variance", direct + by_variance, lambda x: np.sum(
            g * (x - mu) / np.sqrt(mean((x - mu) ** 2) + eps)))):
    error = relative_error(terms, dx)
    claim(name, relative_error(terms, slopes(loss, x)) < 1e-12 and error > 0.3, f"wrong by {error:.2f}")
claim("the right dx of each token sums to 0, and dx x̂ sums to almost 0",
      [abs(dx.sum(-1)) < 1e-14, abs((dx * x_hat).sum(-1)) < 1e-5])
picture = Figure(figsize=(10, 4), layout="constrained")
axes = picture.subplots()
for n, (label, term, color, hatch) in enumerate((
        ("direct", direct, "C0", ""), ("through the mean", by_mean, "C1", "//"),
        ("through the variance", by_variance, "C2", ".."), ("dx, the sum of all three", dx, "0.2", ""))):
    axes.bar(np.arange(D) + 0.2 * n - 0.3, term[0], 0.19, color=color, hatch=hatch, edgecolor="white", label=label)
axes.axhline(0, color="black", linewidth=0.8)
axes.set(xlabel="feature i of token 0", xticks=range(D), ylabel="contribution to dx_i",
         title="dx of LayerNorm is a sum over three paths")
axes.legend(loc="upper left")
figure("paths", picture)

# %% [markdown]
# `numpy-transformer explore --lesson 08` opens one entry of such a dx in a trained model, in your browser, with the
# three terms apart. Its row sums to 0 too.
#
# A common mistake takes γ out of the two means: dx = γ r (dy - mean(dy) - x̂ mean(dy x̂)). At the start of training all
# γ_i are 1, so a gradient check of a freshly created network does not find it.

# %% The mistake grows with the spread of γ
predict("what is the relative error of that dx if all γ_i are 1?", 0,
        why="A γ that is the same for all features can be taken out of a mean, so both formulas agree.")
errors = {}
tokens_hat = layer_norm(tokens, 1, 0)
for spread in (0, 0.01, 0.1):
    norm.gamma.data = 1 + spread * random_gamma
    norm(tokens)
    wrong_dx = norm.gamma.data / np.sqrt(tokens.var(-1, keepdims=True) + eps) * (
        dtokens - mean(dtokens) - tokens_hat * mean(dtokens * tokens_hat))
    errors[spread] = relative_error(wrong_dx, norm.backward(dtokens))
claim("exact at γ = 1", errors[0] < 1e-14)
claim("the error grows in proportion to how far γ is from 1",
      np.isclose(errors[0.1] / errors[0.01], 10, rtol=0.2), f"{errors[0.01]:.4f} at 0.01, {errors[0.1]:.4f} at 0.1")

# %% [markdown]
# ## 4. RMSNorm
#
# RMSNorm (Zhang and Sennrich 2019) leaves out the mean and β: y = γ x̂ with x̂ = x / sqrt(mean of x² + eps). It is
# LayerNorm with μ = 0 and c = x, so in its dx the path through the mean is gone.

# %% RMSNorm, forward and backward
ms = (x * x).mean(-1, keepdims=True)
r = 1 / np.sqrt(ms + 1e-6)
x_hat = x * r
y = gamma * x_hat
# y = gamma * x_hat
dgamma = (dy * x_hat).sum(0)
g = dy * gamma
# x_hat = x * r,  r = 1 / np.sqrt(ms + 1e-6),  ms = (x * x).mean(-1, keepdims=True)
dx = r * (g - x_hat * mean(g * x_hat))
show_source(nt.RMSNorm.forward, nt.RMSNorm.backward)
rms = nt.RMSNorm(D).astype(np.float64)
rms.gamma.data = gamma
claim("nt.RMSNorm returns this y, dx and dγ", [relative_error(rms(x), y) < 1e-14,
                                               relative_error(rms.backward(dy), dx) < 1e-14,
                                               relative_error(rms.gamma.grad, dgamma) < 1e-14])
numeric = slopes(lambda x: np.sum(dy * gamma * x / np.sqrt(mean(x * x) + 1e-6)), x)
claim("the complex step agrees with dx", relative_error(dx, numeric) < 1e-12)
claim("token 0 times 10 has the y of token 0, but token 0 plus 100 has another one",
      relative_error(y[2], y[0]) < 1e-6 and relative_error(y[1], y[0]) > 0.1)

# %% [markdown]
# ## 5. n or n - 1, and where eps stands
#
# Two of the study notes on which this course is based (000 and 004) compute the standard deviation with `torch.std`,
# which divides by n - 1, and then divide c by std + eps. The paper divides by n, and so does `torch.nn.LayerNorm`, with
# eps inside the root. At D = 8, the notes' outputs are 6.5% smaller: the factor is sqrt(7 / 8). Training can
# compensate for that by a larger γ, but trained weights must be used with the form they were trained with.
#
# The place of eps matters for tokens that are almost constant. Inside the root, r is at most 1 / sqrt(eps) = 316.
# Outside, the factor can reach 1 / eps = 100000, and the derivative of std at a constant token is 0 / 0.

# %% The two forms, measured
unit = rng.standard_normal((1000, 8))                               # D = 8
plain = layer_norm(unit, 1, 0)
notes = (unit - mean(unit)) / (unit.std(-1, ddof=1, keepdims=True) + eps)           # ddof=1: n - 1
ratio = np.linalg.norm(notes) / np.linalg.norm(plain)
claim("the notes' outputs are 6.5% smaller at D = 8", abs(1 - ratio - 0.065) < 0.0005, f"sqrt(7 / 8) = {ratio:.3f}")
flat = 0.001 * plain                                                # standard deviation 0.001
claim("a token of standard deviation 0.001 gets 0.30 with eps inside the root, 0.99 with eps outside", np.allclose(
    [layer_norm(flat, 1, 0).std(-1), (flat / (0.001 + eps)).std(-1)], [[0.302], [0.990]], atol=1e-3))
claim("a constant token becomes β", layer_norm(np.full((1, D), 3.0), gamma, beta) == beta)

# %% [markdown]
# ## 6. BatchNorm: another axis
#
# BatchNorm (Ioffe and Szegedy 2015) applies the formula along the other direction: it takes the mean and the variance
# of one feature over all tokens of the batch. So the output for a token depends on everything else in the batch, on
# padding tokens too. A trained model may have to process a single text, and BatchNorm then uses a mean and a variance
# collected during training, which is a different function. The class below is the training form.

# %% One number changes: which outputs change with it?
class BatchNorm(nt.Module):                 # without γ and β
    def forward(self, x):
        return (x - x.mean((0, 1))) / np.sqrt(x.var((0, 1)) + eps)


words = ["the", "cat", "sat", "down", "dogs", "ran", "home", "<pad>"]          # two sentences of four tokens
batch = rng.standard_normal((2, 4, 7))
moved = batch.copy()
moved[0, 1, 2] += 1                         # feature 2 of "cat"
predict("we change one of 8 x 7 numbers: how many outputs of LayerNorm, and of BatchNorm, change?", "7 and 8",
        why="LayerNorm's mean and variance belong to one token, so all 7 features of this token change. BatchNorm's "
            "belong to one feature, so this feature changes in all 8 tokens.")
drawing("normalized_axes")
picture = Figure(figsize=(10, 4.6), layout="constrained")
for axes, f, expected in zip(picture.subplots(1, 2), (nt.LayerNorm(7), BatchNorm()), ((1, 7), (8, 1))):
    name = type(f).__name__
    change = abs(f(moved) - f(batch)).reshape(8, 7)
    tokens, features = np.count_nonzero(change.any(1)), np.count_nonzero(change.any(0))
    claim(f"{name}: the outputs of {tokens} token(s) change, in {features} feature(s)", (tokens, features) == expected)
    image = axes.imshow(np.ma.masked_equal(change, 0), "viridis", LogNorm(1e-3, 1), aspect="auto")
    axes.plot(2, 1, "wo", markersize=9, markeredgecolor="black")
    axes.axhline(3.5, color="black", linestyle=":")
    axes.set(xticks=range(7), yticks=range(8), yticklabels=words, xlabel="feature", title=name)
picture.colorbar(image, ax=picture.axes, label="absolute change of the output\n(white: no change)", pad=0.02)
picture.suptitle('Feature 2 of "cat" (circle) is increased by 1: which outputs change?')
figure("moved", picture)
claim("BatchNorm maps a batch of a single token to 0, whatever the token is", BatchNorm()(batch[:1, :1]) == 0)

# %% [markdown]
# ## Exercises
#
# 1. A token has D = 2 features. Which values can x̂ have, and what is dx, both apart from eps?
# 2. Predict dx of a LayerNorm with γ = 1 if all entries of dy are equal. Then predict it for token 0 with the γ of this
#    lesson.
# 3. Write the backward of the BatchNorm above. Which means are taken over another axis?
# 4. Find the bug: `(x - x.mean(-1)) / np.sqrt(x.var(-1) + eps)`. For which shapes does it run, and what does it
#    compute?
# 5. A model was trained with n and is run with n - 1. Which learned parameter can compensate, apart from eps, and how?
# 6. μ appears in σ² as well: σ² = mean of (x_i - μ)². Why is there no fourth path, from μ through σ²?
#
# With a checker (`numpy-transformer exercise start my-exercises 08`): 08.1, 08.2, 08.3, 08.4.
