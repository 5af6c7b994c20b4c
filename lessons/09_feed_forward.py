# %% [markdown]
# # 09 Feed-forward
#
# Attention moves information from token to token. The feed-forward layer then processes each token by itself: it
# widens the vector, applies a nonlinear function to each entry, and narrows the vector again. It holds two thirds of
# the weights of an encoder block, and it contains the nonlinearity that no stack of matrices can replace.
#
# After this lesson you will be able to derive the backward of this layer with ReLU, GELU or SwiGLU, and to say what
# each of these functions is good at.

# %% A feed-forward layer whose weights are chosen by hand
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source

lesson.start(__name__)
x = np.array([[3.0, 1], [1, 3], [2, 2], [-4, -2]])                  # four tokens with two features, x0 and x1
T, D = x.shape
W1 = np.array([[1.0, -1, 1],                                        # hidden units: x0 - x1, x1 - x0, x0 + x1 + 10
               [-1, 1, 1]])
b1 = np.array([0.0, 0, 10])
W2 = np.array([[1.0, 0.5],                                          # the first two add up to |x0 - x1|
               [1, 0.5],
               [0, 0.5]])
b2 = np.array([0.0, -5])


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. Up, activation, down
#
# The layer multiplies a token by a matrix W1, sets negative entries to 0, and multiplies by a second matrix W2 (Vaswani
# et al. 2017, equation 2):
#
#     u = x W1 + b1      up: D features become F hidden units
#     a = max(0, u)      activation: ReLU, the rectified linear unit
#     y = a W2 + b2      down: back to D features
#
# The weights above are chosen such that the layer computes two functions of the features x0 and x1. Its first output is
# |x0 - x1| = max(0, x0 - x1) + max(0, x1 - x0). The second is the larger of both, (|x0 - x1| + x0 + x1) / 2. The 10
# keeps the third unit positive for all tokens here, and the -5 removes it again.

# %% Forward, and why the activation is needed
predict("the token is (-4, -2): what are |x0 - x1| and the larger of both numbers?", (2, -2),
        why="The distance between -4 and -2 is 2, and -2 is the larger number.")
u = x @ W1 + b1
a = np.maximum(u, 0)
y = a @ W2 + b2
show(u=u, a=a, y=y)
drawing("feed_forward")
claim("the layer computes |x0 - x1| and the larger of both", np.array_equal(y, np.c_[abs(x[:, 0] - x[:, 1]), x.max(1)]))
claim("without the activation, both layers together are one Linear: x (W1 W2) + (b1 W2 + b2)",
      relative_error(u @ W2 + b2, x @ (W1 @ W2) + (b1 @ W2 + b2)) < 1e-14)

# %% [markdown]
# The last claim shows why the activation is needed: without it, a stack of a hundred such layers would be a single
# Linear. Attention is no substitute, because it mixes tokens, and for given weights it is linear in the values
# (lesson 05). The feed-forward layer does the opposite. Each row of y depends only on the same row of x
# ("position-wise", section 3.3 of the paper).
#
# The paper chooses F = 4 D. Then W1 and W2 hold 8 D² weights together, and the four matrices of attention hold 4 D².
#
# ## 2. Backward
#
# Up and down are Linears, whose backward lesson 02 derived. The activation passes the gradient on where u > 0, and
# multiplies it by 0 elsewhere. This is decided by u, which forward has seen, and not by the sign of da. At u = 0 the
# function has a corner and no derivative. Any slope from 0 to 1 would be acceptable there, and we use 0.
#
# Let L be the sum of the second outputs, so dy is (0, 1) for every token. Increasing the larger of two numbers by a
# little increases their maximum by the same amount, and the smaller one has no effect.

# %% Each line of backward under its line of forward
predict("L is the sum of the maxima: what is dx of the token (3, 1)?", (1, 0),
        why="The maximum is the first number, 3. It changes with the first number and not with the second.")
dy = np.array([[0.0, 1]] * 4)
# y = a @ W2 + b2
da = dy @ W2.T
dW2 = a.T @ dy
db2 = dy.sum(0)
# a = np.maximum(u, 0)
du = da * (u > 0)
# u = x @ W1 + b1
dx = du @ W1.T
dW1 = x.T @ du
db1 = du.sum(0)
show(du=du, dx=dx)
claim("the gradient goes to the larger of both features, and to both in equal parts where they are equal",
      np.array_equal(dx, [[1, 0], [0, 1], [0.5, 0.5], [0, 1]]))

# %% The package's class computes the same
show_source(nt.FeedForward.forward, nt.FeedForward.backward, nt.ReLU.forward, nt.ReLU.backward)
layer = nt.FeedForward(D, 3).astype(np.float64)
for parameter, value in zip(layer.parameters(), (W1, b1, W2, b2)):
    parameter.data = value
claim("nt.FeedForward returns this y and this dx",
      np.array_equal(layer(x), y) and np.array_equal(layer.backward(dy), dx))
claim("and these gradients of its weights and biases", [
    np.array_equal(parameter.grad, built) for parameter, built in zip(layer.parameters(), (dW1, db1, dW2, db2))])
rng = np.random.default_rng(9)
layer = nt.FeedForward(4, 6, rng=rng).astype(np.float64)
for parameter in layer.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape)
tokens, dtokens = rng.standard_normal((2, 5, 4))
V1, c1, V2, c2 = (parameter.data for parameter in layer.parameters())
loops = [[c2[c] + sum(max(0, c1[f] + tokens[t] @ V1[:, f]) * V2[f, c] for f in range(6)) for c in range(4)]
         for t in range(5)]
claim("plain loops agree for random weights", relative_error(layer(tokens), loops) < 1e-14)
other = tokens.copy()
other[0] += 1
claim("changing token 0 changes no other token's output", np.array_equal(layer(other)[1:], layer(tokens)[1:]))
layer.forget()                              # the forward passes above had no backward pass
claim("finite differences and the complex step confirm dx and the gradient of every parameter",
      nt.gradcheck(layer, tokens).ok)

# %% [markdown]
# ## 3. How large should the first weights be?
#
# `nt.FeedForward` draws its initial weights from the range ±sqrt(6 / (rows + columns)), which is called Xavier
# initialization (Glorot and Bengio 2010). One of the study notes on which this course is based draws `randn * 0.1`,
# whatever the width. With F = 4 D and inputs of variance 1, Xavier's outputs have a standard deviation of about 0.57
# for every D. With `randn * 0.1` it grows in proportion to D: about 0.23 for D = 16, the width in that note, and 7.2
# for D = 512.

# %% Both initializations, at two widths
for width, expected in ((16, 0.226), (512, 7.24)):
    wide = rng.standard_normal((300, width))
    spread = {"Xavier": [], "randn * 0.1": []}
    for _ in range(20 if width == 16 else 1):                       # a narrow layer varies more from draw to draw
        xavier = nt.FeedForward(width, 4 * width, rng=rng).eval()
        first, second = 0.1 * rng.standard_normal((2, width, 4 * width))
        spread["Xavier"].append(xavier(wide).std())
        spread["randn * 0.1"].append((np.maximum(wide @ first, 0) @ second.T).std())
    average = {name: np.mean(values) for name, values in spread.items()}
    claim(f"the standard deviation of y for D = {width}: near 0.57 with Xavier, near {expected:.2g} with randn * 0.1",
          [abs(average["Xavier"] / 0.566 - 1) < 0.1, abs(average["randn * 0.1"] / expected - 1) < 0.1])

# %% [markdown]
# ## 4. GELU and SiLU
#
# Suppose that the u of one unit is negative for every token. Under ReLU its a and its du are then 0, so all its weights
# have gradient 0. Such a unit is called **dead**, and only other inputs can bring it back. GELU has a nonzero slope
# nearly everywhere there. Where ReLU multiplies u by 0 or 1, GELU multiplies it by Φ(u), the probability that a
# standard normal number is below u (Hendrycks and Gimpel 2016, section 2). For example, Φ(1) = 0.841, so GELU(1) =
# 0.841.
#
# The derivative of Φ is the density φ(u) = exp(-u²/2) / sqrt(2π). Since u appears twice in u Φ(u), as the factor and
# inside Φ, the slope of GELU has two terms. SiLU (Elfwing et al. 2017) has the same form with the sigmoid
# σ(u) = 1 / (1 + exp(-u)) instead of Φ, and the derivative of σ is σ (1 - σ).
#
# GPT-2 uses an approximation of GELU by tanh, which is `activation="gelu_tanh"` here. PyTorch's `GELU()` is the exact
# form, "gelu" here. These are two different functions, so always say which one you use.

# %% Values and slopes, built and compared
erf = np.vectorize(math.erf)                # the error function of Python, for arrays
u = np.linspace(-4, 4, 161)
Phi = (1 + erf(u / math.sqrt(2))) / 2
phi = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
sigma = 1 / (1 + np.exp(-u))
BUILT = {"ReLU": (np.maximum(u, 0), u > 0, nt.ReLU()),              # value a, slope da/du, the package's class
         "GELU": (u * Phi, Phi + u * phi, nt.GELU()),
         "SiLU": (u * sigma, sigma + u * sigma * (1 - sigma), nt.SiLU())}
for name, (value, slope, activation) in BUILT.items():
    claim(f"{name}: nt.{name} returns this value, and its backward multiplies dy by this slope",
          [np.allclose(activation(u), value, rtol=1e-12, atol=1e-15),
           np.allclose(activation.backward(0 * u + 3), 3 * slope, rtol=1e-12, atol=1e-15)])
tanh_form = u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u ** 3))) / 2
difference = abs(tanh_form - u * Phi).max()
claim("the tanh form is nt.GELU('tanh'), and differs from GELU by up to 4.7e-4",
      np.allclose(nt.GELU("tanh")(u), tanh_form, rtol=1e-12, atol=1e-15) and 4.6e-4 < difference < 4.8e-4)
for kind in ("relu", "gelu"):
    dead = nt.FeedForward(4, 6, kind, rng=9).astype(np.float64)
    dead.up.bias.data[2] = -6               # makes u of unit 2 negative for all tokens
    dead(tokens)
    dead.backward(dtokens)
    largest = abs(dead.up.weight.grad[:, 2]).max()
    claim(f"{kind}: the largest gradient of a unit whose u is negative for all tokens is {largest:.0g}",
          np.all(dead.up.eval()(tokens)[:, 2] < 0) and (largest == 0) == (kind == "relu"))
picture = Figure(figsize=(10, 4), layout="constrained")
left, right = picture.subplots(1, 2)
for (name, (value, slope, _)), style in zip(BUILT.items(), ("C0-", "C1--", "C2-.")):
    left.plot(u, value, style, lw=2, label=name)
    right.plot(u, slope, style, lw=2)
for axes, title in ((left, "value a"), (right, "slope da/du")):
    axes.set(xlabel="u", title=title)
    axes.grid(alpha=0.3)
left.legend()
figure("activations", picture)

# %% [markdown]
# ## 5. SwiGLU: a product of two projections of x
#
# LLaMA's feed-forward layer has three matrices and no bias (Shazeer 2020, equation 6):
#
#     gate = x Wg    a = silu(gate)    u = x Wu    h = a * u    y = h Wd
#
# One projection of x goes through SiLU, and the result a multiplies a second projection u entry by entry. It works as a
# gate: where a is near 0, nothing of u passes. In backward, h is a product, so the gradient of each factor is dh times
# the other factor. And x appears in two lines, so dx is a sum of two terms.
#
# Two units of a SwiGLU multiply any two numbers, because σ(x0) + σ(-x0) = 1, so that silu(x0) - silu(-x0) = x0. The
# weights below use this to compute the product of x0 and x1.

# %% SwiGLU, forward and backward
Wg = np.array([[1.0, -1], [0, 0]])          # the gates see x0 and -x0
Wu = np.array([[0.0, 0], [1, -1]])          # what they multiply is x1 and -x1
Wd = np.array([[1.0, 0], [1, 0]])
gate = x @ Wg
sigma = 1 / (1 + np.exp(-gate))
a = gate * sigma
u = x @ Wu
h = a * u
y = h @ Wd
claim("the first output is x0 x1", np.allclose(y[:, 0], x[:, 0] * x[:, 1], rtol=1e-14))
dy = np.array([[1.0, 0]] * 4)               # L is the sum of the products
# y = h @ Wd
dh = dy @ Wd.T
dWd = h.T @ dy
# h = a * u
da = dh * u
du = dh * a
# u = x @ Wu
dx = du @ Wu.T
dWu = x.T @ du
# a = gate * sigma
dgate = da * (sigma + gate * sigma * (1 - sigma))
# gate = x @ Wg
dx = dx + dgate @ Wg.T
dWg = x.T @ dgate
claim("the gradient of the product x0 x1 is (x1, x0)", np.allclose(dx, x[:, ::-1], rtol=1e-14))
show_source(nt.SwiGLU.forward, nt.SwiGLU.backward)
gated = nt.SwiGLU(D, 2).astype(np.float64)
for parameter, value in zip((gated.gate.weight, gated.up.weight, gated.down.weight), (Wg, Wu, Wd)):
    parameter.data = value
claim("nt.SwiGLU returns this y and this dx", relative_error(gated(x), y) < 1e-14
      and relative_error(gated.backward(dy), dx) < 1e-14)
claim("and these gradients of its weights", [relative_error(linear.weight.grad, built) < 1e-14 for linear, built in (
    (gated.gate, dWg), (gated.up, dWu), (gated.down, dWd))])
claim("gradcheck confirms all gradients for random weights",
      nt.gradcheck(nt.SwiGLU(4, 6, rng=rng).astype(np.float64), tokens).ok)
predict("a SwiGLU has as many weights as FeedForward(384, 1536, bias=False): how many hidden units has it?", 1024,
        why="Three matrices share the weights of two: 3 · 384 · F = 2 · 384 · 1536, so F = 2/3 · 1536.")
claim("2/3 of 1536", nt.SwiGLU(384, 1024).num_parameters() == nt.FeedForward(384, 1536, bias=False).num_parameters())

# %% [markdown]
# ## 6. What can each layer learn?
#
# Each layer now learns |x0 - x1| or x0 x1 from 400 random points. All have 42 trainable parameters: 8 hidden units, or
# 5 for SwiGLU, here with biases. The error is measured on a fine grid, in percent of the standard deviation of the
# function, so always answering with the mean would give 100%. Each layer is trained from five random initializations,
# and the picture shows the one with the median error.

# %% Four layers learn two functions
FUNCTIONS = {"x0 x1": lambda p: p[:, 0] * p[:, 1], "|x0 - x1|": lambda p: abs(p[:, 0] - p[:, 1])}
side = np.linspace(-2, 2, 61)
points = rng.uniform(-2, 2, (400, 2)).astype(np.float32)
mesh = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(np.float32)


def fit(name, function, seed):
    """Trains for 600 steps, both outputs on the same function. Returns (error in percent, values on the grid)."""
    layer = nt.SwiGLU(2, 5, bias=True, rng=seed) if name == "SwiGLU" else nt.FeedForward(
        2, 8, "gelu" if name == "GELU" else "relu", rng=seed)
    if name == "two Linears":
        layer.activation = nt.Dropout(0)    # returns its input unchanged: no nonlinearity
    assert layer.num_parameters() == 42
    wanted = np.c_[function(points), function(points)]
    optimizer = nt.Adam(layer.parameters(), lr=0.03)
    for _ in range(600):
        layer.zero_grad()
        layer.backward((layer(points) - wanted) / len(points))          # the gradient of the mean squared error
        optimizer.step()
    values = layer.eval()(mesh)[:, 0]
    true = function(mesh)
    return 100 * np.sqrt(np.mean((values - true) ** 2)) / true.std(), values


median = {}                                 # the median error, by function and layer
picture = Figure(figsize=(13, 5.6), layout="constrained")
for row, (title, function) in zip(picture.subplots(2, 5, sharex=True, sharey=True), FUNCTIONS.items()):
    panels = [(title, function(mesh))]
    for name in ("two Linears", "ReLU", "GELU", "SwiGLU"):
        fits = sorted((fit(name, function, seed) for seed in range(5)), key=lambda fit: fit[0])
        median[title, name], values = fits[2]
        panels.append((f"{name}: {median[title, name]:.1f}%", values))
        print(f"  {title:<9}  {name:<11}  median error {median[title, name]:5.1f}%")
    for axes, (name, values) in zip(row, panels):
        image = axes.contourf(side, side, values.reshape(61, 61), np.linspace(panels[0][1].min(), 4, 17), extend="both")
        axes.set(title=name, xlabel="x0", ylabel="x1", aspect="equal")
        axes.label_outer()
    picture.colorbar(image, ax=row, shrink=0.9, label="output")
picture.suptitle("Two functions (left), and what four layers with 42 parameters learn of them (with their error)")
figure("fits", picture)
claim("two Linears learn neither function", [median[title, "two Linears"] > 99 for title in FUNCTIONS])
claim("the smooth x0 x1: SwiGLU is better than ReLU", 2 * median["x0 x1", "SwiGLU"] < median["x0 x1", "ReLU"])
claim("the crease of |x0 - x1|: ReLU is better than SwiGLU",
      2 * median["|x0 - x1|", "ReLU"] < median["|x0 - x1|", "SwiGLU"])

# %% [markdown]
# A ReLU layer consists of flat pieces that meet in creases, which its picture of x0 x1 shows. SwiGLU has no creases,
# which its picture of |x0 - x1| shows. Such small problems cannot tell which layer is best for language. Shazeer (2020,
# section 3) compared them on language at equal cost, and SwiGLU reached a lower loss than ReLU and GELU. He offers no
# explanation (section 4).
#
# ## Exercises
#
# 1. Someone leaves out silu: y = (gate * u) Wd. Is the layer still nonlinear? Which functions of x can it compute?
# 2. Why does `randn * 0.1` give outputs that grow in proportion to D if F = 4 D? Compute the variance after each of the
#    three lines of forward.
# 3. Write a layer with a = max(0, u)² and its backward, and check it with `nt.gradcheck`. What is its slope at u = 0?
# 4. Find the bug, if there is one: `du = da * (a > 0)`. Answer for ReLU and for GELU.
# 5. In a SwiGLU block with F = 4 D, what share of the matrices' weights is in the feed-forward layer?
# 6. The XOR of x0 and x1 is 1 if exactly one of them is 1, and 0 otherwise. Write down two ReLU units that compute it.
#
# With a checker (`numpy-transformer exercise start my-exercises 09`): 09.1, 09.2, 09.3, 09.4, 09.5, 09.6, 09.7.
