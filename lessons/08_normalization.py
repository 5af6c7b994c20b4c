# %% [markdown]
# # 08 Normalization
#
# Each attention and each feed-forward layer of a Transformer has a norm. It takes one token, shifts its features to
# mean 0, stretches them to variance 1, and lets two learned vectors γ and β choose another scale and shift. Its
# backward fits into one line, which is often wrong in code written by hand: x acts on y directly, through the mean,
# and through the variance, and two of these three paths are easily forgotten. Afterwards you can derive that line,
# say what each term is for, and tell LayerNorm, RMSNorm and BatchNorm apart by what an output depends on. Lesson 02
# explains gradients and the complex step. About 15 minutes.

# %% Five tokens, and a LayerNorm whose γ is not 1
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.classroom import claim, figure, lesson, predict, show, slopes

lesson.start(__name__)
rng, T, D = np.random.default_rng(8), 5, 7                  # T tokens with D features each
norm = nt.LayerNorm(D).astype(np.float64)
norm.gamma.data, norm.beta.data = rng.uniform(0.5, 2, D), rng.standard_normal(D)
gamma, beta, eps = norm.gamma.data, norm.beta.data, norm.eps
x, dy = 2 + 3 * rng.standard_normal((T, D)), rng.standard_normal((T, D))       # L is the sum of dy * y
y = norm(x)
show(x=x, y=y, gamma=gamma)


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def mean(a):                                # of each token, over its features
    return a.mean(-1, keepdims=True)


# %% [markdown]
# ## 1. Forward
#
# For each token, with means over its D features (Ba, Kiros and Hinton 2016, equations 3 and 4):
#
#     m = mean of x_i               the mean
#     c = x - m                     centred
#     v = mean of c_i²              the variance: the sum is divided by D
#     s = 1 / sqrt(v + eps)         one over the standard deviation; eps = 1e-5 keeps it finite where v is 0
#     x̂ = c s                       mean 0, variance v / (v + eps): almost 1
#     y = γ x̂ + β                   γ and β have D entries each, the same for all tokens

# %% The formula in plain loops
m = np.array([[sum(x[t]) / D] for t in range(T)])
c = x - m
v = np.array([[sum(c[t, i] ** 2 for i in range(D)) / D] for t in range(T)])
s = 1 / np.sqrt(v + eps)
x_hat = c * s
claim("y_ti = γ_i x̂_ti + β_i",
      apart(y, [[gamma[i] * x_hat[t, i] + beta[i] for i in range(D)] for t in range(T)]) < 1e-14)
claim("x̂ has mean 0 and variance v / (v + eps)",
      [abs(mean(x_hat)).max() < 1e-14, np.allclose(mean(x_hat ** 2), v / (v + eps), rtol=1e-14)])
claim("7 more in all features of a token: the same y", apart(norm(x + 7), y) < 1e-13)
claim("7 times all features: the same y but for eps", 1e-9 < apart(norm(7 * x), y) < 1e-5)

# %% [markdown]
# ## 2. Backward
#
# Go from the last line of forward to its first. **y = γ x̂ + β.** Entry i of γ and of β occurs in feature i of every
# token, so the tokens' contributions are added:
#
#     dγ_i = sum over t of dy_ti x̂_ti        dβ_i = sum over t of dy_ti        dx̂ = γ dy, called g
#
# **x̂ = c s.** s occurs in every x̂_i, with slope c_i. c_i occurs in x̂_i with slope s, and again in v:
#
#     ds = sum over i of g_i c_i
#
# **s = (v + eps)^(-1/2)** has slope -s³ / 2 in v, and **v = mean of c_i²** has slope 2 c_i / D in c_i:
#
#     dv = -s³ ds / 2                        dc = s g + dv 2 c / D = s (g - x̂ mean(g x̂))
#
# **c = x - m, m = mean of x_i.** m occurs in every c_i with slope -1, x_i in c_i with slope 1 and in m with slope
# 1 / D. The mean of dc is s mean(g), since x̂ has mean 0:
#
#     dm = -(sum of dc_i)                    dx = dc + dm / D = s (g - mean(g) - x̂ mean(g x̂))

# %% Each line of it, by the complex step
def from_c(c):                              # L, computed from the centred x
    return np.sum(dy * (gamma * c / np.sqrt(mean(c * c) + eps) + beta))


g = gamma * dy
ds = (g * c).sum(-1, keepdims=True)
dv = -s ** 3 * ds / 2
dc = s * g + dv * 2 * c / D
dx = s * (g - mean(g) - x_hat * mean(g * x_hat))
for name, line, loss, letter in (
        ("g = γ dy", g, lambda x_hat: np.sum(dy * (gamma * x_hat + beta)), x_hat),
        ("ds = sum of g c", ds, lambda s: np.sum(dy * (gamma * c * s + beta)), s),
        ("dv = -s³ ds / 2", dv, lambda v: np.sum(dy * (gamma * c / np.sqrt(v + eps) + beta)), v),
        ("dc = s g + dv 2 c / D", dc, from_c, c),
        ("dm = -(sum of dc)", -dc.sum(-1, keepdims=True), lambda m: from_c(x - m), m),
        ("dx = s (g - mean(g) - x̂ mean(g x̂))", dx, lambda x: from_c(x - mean(x)), x)):
    claim(name, apart(line, slopes(loss, letter)) < 1e-13)
norm.forget()                               # the forwards above were not answered
norm(x)
claim("nt.LayerNorm returns this dx", apart(norm.backward(dy), dx) < 1e-14)
claim("and adds dγ, the sum of dy x̂ over the tokens, and dβ, that of dy", [
    apart(norm.gamma.grad, sum(dy[t] * x_hat[t] for t in range(T))) < 1e-14, apart(norm.beta.grad, sum(dy)) < 1e-14])

# %% [markdown]
# ## 3. Three paths
#
# The three terms of dx are the three ways from x to L:
#
#     direct                      s g               x_i stands in its own x̂_i
#     through the mean           -s mean(g)         a larger x_i raises m, which lowers every x̂
#     through the deviation      -s x̂ mean(g x̂)     an x_i further from m raises v, which shrinks every x̂
#
# A path can be closed: hold m, or s, or both, as constants. What then remains is the dx of somebody who forgot
# that path; it is compared with the right one by relative error and cosine.
#
# The two corrections have a meaning. Section 1 says: to add a number to all features does not change y, so L has
# slope 0 in that direction, and the dx_i must sum to 0. To stretch c does not change y but for eps, so the slope
# along x̂ is almost 0. The corrections take from g what points along these two directions, and nothing else.

# %% Hold m or s, and the path through it is closed
direct, by_mean, by_deviation = s * g, -s * mean(g) + 0 * x, -s * x_hat * mean(g * x_hat)
for name, terms, loss in (("m and s held:  direct", direct, lambda x: np.sum(g * (x - m) * s)),
                          ("s held:  direct + mean", direct + by_mean, lambda x: np.sum(g * (x - mean(x)) * s)),
                          ("m held:  direct + deviation", direct + by_deviation, lambda x: from_c(x - m))):
    error, cosine = apart(terms, dx), np.sum(terms * dx) / np.linalg.norm(terms) / np.linalg.norm(dx)
    claim(name, apart(terms, slopes(loss, x)) < 1e-13 and error > 0.3, f"error {error:.2f}, cosine {cosine:.2f}")
claim("the right dx sums to 0 over the features of each token", abs(dx.sum(-1)) < 1e-13)
claim("and so does dx x̂, but for s (sum of g x̂) eps / (v + eps)", np.allclose(
    (dx * x_hat).sum(-1), (s * D * mean(g * x_hat) * eps / (v + eps))[:, 0], rtol=1e-8, atol=1e-15))

# %% The three paths of one token
picture = Figure(figsize=(11, 4.2), layout="constrained")
axes = picture.subplots()
for n, (label, term) in enumerate({"direct": direct, "through the mean": by_mean,
                                   "through the deviation": by_deviation, "the sum: dx": dx}.items()):
    axes.bar(np.arange(D) + 0.2 * n - 0.3, term[0], 0.19, color=("C0", "C1", "C2", "0.2")[n],
             hatch=("", "//", "..", "")[n], edgecolor="white", label=label)
axes.axhline(0, color="black", linewidth=0.8)
axes.set(xlabel="feature i of token 0", xticks=range(D), ylabel="contribution to dx_i",
         title="dx of LayerNorm is a sum over three paths")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure("paths", picture)

# %% [markdown]
# ## 4. γ = 1 hides mistakes
#
# A mistake that has been published (lesson 18) is to pull γ out of the two means: dx = γ s (dy - mean(dy) - x̂ mean(dy
# x̂)). That is right if all γ_i are equal, and at the start of training all are 1. A check of a new network passes.

# %% The error grows with the spread of γ
predict("the relative error of that dx where all γ_i are 1?", 0)
errors, z, twin = {}, rng.standard_normal(D), nt.LayerNorm(D).astype(np.float64)
for spread in (0, 0.01, 0.1, 0.5):
    twin.gamma.data = 1 + spread * z
    twin(x)
    errors[spread] = apart(twin.gamma.data * s * (dy - mean(dy) - x_hat * mean(dy * x_hat)), twin.backward(dy))
claim("exact at γ = 1", errors[0] < 1e-14)
claim("wrong in proportion to the spread, γ = 1 + spread z", np.isclose(errors[0.1] / errors[0.01], 10, rtol=0.2),
      ", ".join(f"{spread}: {errors[spread]:.3f}" for spread in (0.01, 0.1, 0.5)))

# %% [markdown]
# ## 5. RMSNorm
#
# RMSNorm leaves out the mean and β: y = γ x̂, x̂ = x / sqrt(mean of x_i² + eps) (Zhang and Sennrich 2019). It is
# LayerNorm with m = 0 and c = x. The same walk gives dx = s (g - x̂ mean(g x̂)): the path through the mean is gone.

# %% RMSNorm: forward, backward, what it does not see
rms = nt.RMSNorm(D).astype(np.float64)
rms.gamma.data = gamma
y, r = rms(x), np.array([(sum(a * a for a in x[t]) / D + rms.eps) ** 0.5 for t in range(T)])[:, None]
claim("y_ti = γ_i x_ti / r_t, r_t the root of the mean square + eps", apart(y, gamma * x / r) < 1e-14)
dx_rms, numeric = rms.backward(dy), slopes(lambda x: np.sum(g * x / np.sqrt(mean(x * x) + rms.eps)), x)
claim("dx = s (g - x̂ mean(g x̂)), as the complex step measures it", apart(dx_rms, numeric) < 1e-13)
claim("dγ = the sum of dy x̂ over the tokens", apart(rms.gamma.grad, (dy * x / r).sum(0)) < 1e-14)
claim("dx x̂ sums to almost 0, but dx does not",
      [abs((dx_rms * x / r).sum(-1)).max() < 1e-6, abs(dx_rms.sum(-1)).min() > 0.01])
claim("7 times all features: the same y but for eps", apart(rms.eval()(7 * x), y) < 1e-6)
claim("7 more in all features: another y", apart(rms(x + 7), y) > 0.1)
twin.gamma.data, twin.eps = gamma, rms.eps
claim("of centred tokens RMSNorm and LayerNorm make the same", apart(rms(c), twin.eval()(c)) < 1e-14)

# %% [markdown]
# ## 6. Where eps stands, and n or n - 1
#
# Two other forms are in use: std + eps instead of sqrt(v + eps), and n - 1 instead of n, which is what `torch.std`
# does unless told otherwise, and `np.std` does not. Both are compared with nt.LayerNorm here.

# %% Three forms, measured
plain = nt.LayerNorm(D).astype(np.float64).eval()           # as it comes: γ = 1, β = 0
unit = rng.standard_normal((1000, D))       # tokens whose deviation is about 1
unit -= mean(unit)
std, ratio = np.sqrt(mean(unit ** 2)), ((D - 1) / D) ** 0.5
off = apart(unit / (std + eps), plain(unit))
claim("eps outside the root: y is off by millionths", 1e-6 < off < 1e-5, f"{off:.0e} at eps = 1e-5")
claim("n - 1: y is smaller by sqrt((D - 1) / D), but for eps", apart(
    unit / unit.std(-1, ddof=1, keepdims=True), ratio * plain(unit)) < 1e-4, f"{ratio:.3f} for D = {D}")
flat = 0.001 * unit / std                   # tokens that are almost constant
claim("a deviation of 0.001 becomes 0.30 with eps inside, 0.99 outside",
      np.allclose([plain(flat).std(-1), (flat / (0.001 + eps)).std(-1)], [[0.302], [0.990]], atol=1e-3))
claim("a constant token becomes 0; without eps it would be 0 / 0", plain(0 * x + 3) == 0)
norm(0 * x + 3)
claim("its gradient is (g - mean(g)) / sqrt(eps)", apart(norm.backward(dy), (g - mean(g)) / np.sqrt(eps)) < 1e-13,
      f"1 / sqrt(eps) = {eps ** -0.5:.0f}")

# %% [markdown]
# So the place of eps matters for tokens that are almost constant. Inside the root eps takes over below a deviation
# of sqrt(eps) = 0.003, and s is at most 316. Outside, eps takes over only below eps itself, the factor is up to
# 1 / eps = 100000, and the slope of std at a constant token is 0 / 0.
#
# ## 7. BatchNorm: another axis
#
# BatchNorm (Ioffe and Szegedy 2015) uses the formula in the other direction: mean and variance of one feature over
# all tokens of the batch. So a token's output depends on whatever else is in the batch. In use there may be no batch;
# then it takes mean and variance collected in training, and is another function than the one below, that of training.

# %% One number is moved: which outputs change?
class BatchNorm(nt.Module):                 # without γ and β
    def forward(self, x):
        return (x - x.mean((0, 1))) / np.sqrt(x.var((0, 1)) + 1e-5)


words = ["the", "cat", "sat", "down", "dogs", "ran", "home", "<pad>"]          # two sentences of four tokens
batch = rng.standard_normal((2, 4, D))
moved = batch.copy()
moved[0, 1, 2] += 1                         # feature 2 of "cat"
predict("one of 8 x 7 numbers is moved: how many outputs of LayerNorm, and of BatchNorm, change?", "7 and 8")
picture = Figure(figsize=(13, 4.6), layout="constrained")
for axes, f in zip(picture.subplots(1, 3), (plain, rms, BatchNorm())):
    name = type(f).__name__
    change = abs(f(moved) - f(batch)).reshape(8, D)
    tokens, features = np.count_nonzero(change.any(1)), np.count_nonzero(change.any(0))
    claim(f"{name}: outputs of {tokens} token(s) change, in {features} feature(s)",
          (tokens, features) == ((8, 1) if name == "BatchNorm" else (1, D)))
    image = axes.imshow(np.ma.masked_equal(change, 0), "viridis", LogNorm(1e-3, 1), aspect="auto")
    axes.plot(2, 1, "wo", markersize=9, markeredgecolor="black")
    axes.axhline(3.5, color="black", linestyle=":")
    axes.set(xticks=range(D), yticks=range(8), yticklabels=words, xlabel="feature", title=name)
picture.colorbar(image, ax=picture.axes, label="change of the output\n(white: none)", pad=0.02)
picture.suptitle('Feature 2 of "cat" (circle) is moved by 1: which outputs change?')
figure("moved", picture)

# %% What that means for a Transformer
neighbour, later = batch.copy(), batch.copy()
neighbour[1], later[0, 3] = rng.standard_normal((4, D)), 9
padded = np.concatenate([batch, np.zeros((2, 3, D))], axis=1)
for name, new in (("another neighbour in the batch", neighbour), ("another last token in its own sentence", later),
                  ("three pads behind both sentences", padded)):
    by_layer, by_batch = (abs(f(new)[0, 0] - f(batch)[0, 0]).max() for f in (plain, BatchNorm()))
    claim(f'"the", with {name}: LayerNorm leaves it, BatchNorm moves it', by_layer < 1e-14 < 0.05 < by_batch,
          f"by {by_batch:.2f}")
claim("BatchNorm makes 0 of a batch of one token, whatever it is", BatchNorm()(batch[:1, :1]) == 0)

# %% [markdown]
# ## Exercises
#
# 1. A token has D = 2 features. Which values can x̂ have, and what is dx, both but for eps?
# 2. Predict dx of a LayerNorm with γ = 1 if all dy are equal. Then predict it with the γ of this lesson.
# 3. Write the backward of the BatchNorm above. Which means change their axis?
# 4. Find the bug: `(x - x.mean(-1)) / np.sqrt(x.var(-1) + eps)`. For which shapes does it run, and what does it do?
# 5. A model was trained with n and is run with n - 1. Which learned parameter can undo that, but for eps, and how?
# 6. m occurs in v, too: v = mean of (x_i - m)². Why is there no fourth path, from m through v?
#
# With a checker (`numpy-transformer exercise check NN`): 08.1, 08.2, 08.3, 08.4.
