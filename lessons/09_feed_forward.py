# %% [markdown]
# # 09 Feed-forward
#
# Attention moves information from token to token. The feed-forward layer then processes each token by itself: it
# widens the vector, applies a nonlinear function to each entry, and narrows the vector again. It holds two thirds of
# the weights of an encoder block, and it contains the nonlinearity that no stack of matrices can replace.
#
# This lesson shows why the nonlinearity is needed, derives the backward of ReLU, GELU and SwiGLU, measures which wrong
# derivatives a gradient check can detect, and compares the three on two small functions. After it you will be able to
# derive the backward of such a layer, and to tell a wrong formula from rounding. Lesson 02 explains gradients and the
# complex step. About 15 minutes.

# %% Five tokens, a layer with random weights and biases, and its formula in loops
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(9)
T, D, F = 5, 4, 6                           # tokens, features, hidden units
x, dy = rng.standard_normal((2, T, D))      # the loss L is the sum of dy * y
layer = nt.FeedForward(D, F, "relu", rng=rng).astype(np.float64)
layer.up.bias.data = rng.standard_normal(F)
layer.down.bias.data = rng.standard_normal(D)
W1, b1, W2, b2 = (parameter.data for parameter in layer.parameters())
y = layer(x)
y_loops = [[b2[c] + sum(max(0, b1[f] + x[t] @ W1[:, f]) * W2[f, c] for f in range(F)) for c in range(D)]
           for t in range(T)]
claim("forward: y = max(0, x W1 + b1) W2 + b2", relative_error(y, y_loops) < 1e-14)

# %% [markdown]
# ## 1. Why a nonlinearity, and why for each token separately
#
# Without the max, the layer would be (x W1 + b1) W2 + b2 = x (W1 W2) + (b1 W2 + b2). That is a single Linear, and a
# stack of a hundred such layers would be a single Linear too. Attention is no substitute: it mixes tokens, and for
# given weights it is linear in the values (lesson 05). The feed-forward layer does the opposite. It applies a
# nonlinear function to the features of each token, and mixes no tokens ("position-wise", Vaswani et al. 2017, section
# 3.3). Below, `nt.influence` measures how strongly input token s affects output token t.
#
# The paper chooses d_ff = 4 d_model. Then W1 and W2 hold 8 D² weights together, and the four matrices of attention
# hold 4 D².

# %% Two Linears, the influence of tokens, and the share of the weights
up, down = layer.up.eval(), layer.down.eval()
claim("two Linears are one: x (W1 W2) + (b1 W2 + b2)",
      relative_error(down(up(x)), x @ (W1 @ W2) + (b1 @ W2 + b2)) < 1e-14)
layer.eval()
w = rng.standard_normal((T, D))             # in a linear layer, adding x has the same effect everywhere: at w and at 0
claim("the layer is not linear", relative_error(layer(x + w) - layer(w), layer(x) - layer(0 * x)) > 0.1)
reach = {"self-attention": nt.influence(nt.SelfAttention(D, 2, rng=9), x), "feed-forward": nt.influence(layer, x)}
figure("influence", views.xray(reach))
claim("in self-attention every input token affects every output token", reach["self-attention"] > 0)
claim("in the feed-forward layer each token affects only its own output",
      np.array_equal(reach["feed-forward"] > 0, np.eye(T)))
predict("d_ff = 4 d_model: what share of the weights in a block's matrices is in the feed-forward layer?", "2/3",
        why="W1 and W2 have D · 4 D weights each, 8 D² together. The four D x D matrices of attention have 4 D².")
sizes = {name: p.data.size for name, p in nt.EncoderBlock(512, 8, 2048, rng=9).named_parameters() if p.data.ndim == 2}
feed_forward_size = sum(size for name, size in sizes.items() if name.startswith("feed_forward"))
total = sum(sizes.values())
claim("two thirds: 8 D² of 12 D²", 3 * feed_forward_size == 2 * total, f"{feed_forward_size:,} of {total:,}")

# %% [markdown]
# ## 2. Backward of the ReLU layer
#
# Forward has three lines: u = x W1 + b1, a = max(0, u), y = a W2 + b2. Backward goes from the last to the first:
#
# y = a W2 + b2 is a Linear:
#
#     da = dy W2ᵀ    dW2 = aᵀ dy    db2 = sum over t of dy_t
#
# a_tf = max(0, u_tf) has slope 1 where u_tf > 0 and slope 0 where u_tf < 0:
#
#     du_tf = da_tf if u_tf > 0, else 0
#
# u = x W1 + b1 is a Linear again:
#
#     dx = du W1ᵀ    dW1 = xᵀ du    db1 = sum over t of du_t
#
# For u = (2, -1) and da = (-3, 5) this gives du = (-3, 0). Whether a gradient passes is decided by u, which forward has
# seen, and not by the sign of da. At u = 0 the function has a corner and therefore no derivative. Any number from 0 to
# 1 would be acceptable there, and the layer uses 0.

# %% Each line of backward, and all of them together
layer.train()
with nt.record(layer) as tape:
    layer(x)
    dx = layer.backward(dy)
u = tape["up"].output
da = tape["activation"].dy
du = tape["activation"].gradients[0]
show(u=u, da=da, du=du + 0)                 # + 0 turns -0 into 0
claim("da = dy W2ᵀ", relative_error(da, [[dy[t] @ W2[f] for f in range(F)] for t in range(T)]) < 1e-14)
du_loops = [[da[t, f] if u[t, f] > 0 else 0 for f in range(F)] for t in range(T)]
claim("du is da where u > 0, and 0 elsewhere", np.array_equal(du, du_loops))
claim("a mask from the sign of da would be a different mask", np.any((da > 0) != (u > 0)))
claim("dx = du W1ᵀ", relative_error(dx, [[du[t] @ W1[d] for d in range(D)] for t in range(T)]) < 1e-14)
claim("dW1 = xᵀ du", relative_error(layer.up.weight.grad, sum(np.outer(x[t], du[t]) for t in range(T))) < 1e-14)
report = nt.gradcheck(layer, x)
print(report)
claim("finite differences and the complex step confirm dx and the gradient of every parameter", report.ok)

# %% [markdown]
# ## 3. GELU and SiLU
#
# Suppose that the u of one unit is negative for every token. Under ReLU its a and its du are then 0, so all its weights
# have gradient 0. Such a unit is called **dead**, and only other inputs can bring it back. GELU has a nonzero slope
# there. Where ReLU multiplies u by 0 or 1, GELU multiplies it by Φ(u), the probability that a standard normal number is
# below u (Hendrycks and Gimpel 2016, section 2). For example, Φ(1) = 0.841, so GELU(1) = 0.841.
#
# The derivative of Φ is the density φ(u) = exp(-u²/2) / sqrt(2π). Since u appears twice in u Φ(u), once as the factor
# and once inside Φ, the slope of GELU has two terms.
#
#     exact   a  = u Φ(u),  Φ(u) = (1 + erf(u / sqrt 2)) / 2
#             a' = Φ(u) + u φ(u)
#
#     tanh    a  = u (1 + t) / 2
#             t  = tanh(c (u + 0.044715 u³)),  c = sqrt(2/π)
#             a' = (1 + t) / 2
#                  + u (1 - t²) c (1 + 3 · 0.044715 u²) / 2
#
#     SiLU    a  = u σ(u),  σ(u) = 1 / (1 + exp(-u))
#             a' = σ + u σ (1 - σ)
#
# GPT-2 uses the tanh form, which is `activation="gelu_tanh"` here. `torch.nn.GELU()` is the exact form, "gelu" here.
# These are two different functions, so always say which one you use. SiLU (Elfwing et al. 2017) is a third function of
# the same shape.

# %% Values and slopes in loops, and a dead unit
grid = np.linspace(-4, 4, 161)


def value_and_slope(activation):
    return activation(grid), activation.backward(np.ones_like(grid))


def by_formula(u, c=math.sqrt(2 / math.pi)):
    """The value and the slope of each activation at the number u."""
    Phi = (1 + math.erf(u / math.sqrt(2))) / 2
    phi = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    t = math.tanh(c * (u + 0.044715 * u ** 3))
    sigma = 1 / (1 + math.exp(-u))
    return {"ReLU": (max(0, u), float(u > 0)),
            "GELU": (u * Phi, Phi + u * phi),
            "GELU, tanh": (u * (1 + t) / 2, (1 + t) / 2 + u * (1 - t * t) * c * (1 + 3 * 0.044715 * u * u) / 2),
            "SiLU": (u * sigma, sigma + u * sigma * (1 - sigma))}


ACTIVATIONS = {"ReLU": nt.ReLU(), "GELU": nt.GELU(), "GELU, tanh": nt.GELU("tanh"), "SiLU": nt.SiLU()}
curves = {name: value_and_slope(activation) for name, activation in ACTIVATIONS.items()}
for name, (value, slope) in curves.items():
    claim(f"{name}: value and slope agree with the formulas; the slope at 0 is {slope[80]:g}",
          np.allclose((value, slope), np.transpose([by_formula(u)[name] for u in grid]), rtol=1e-12, atol=1e-15))
exact, slope = curves["GELU"]
tanh, slope_tanh = curves["GELU, tanh"]
difference = np.abs(exact - tanh)
claim("the two forms of GELU differ by up to 4.7e-4", 4.6e-4 < difference.max() < 4.8e-4,
      f"{difference.max():.2e} at |u| = {abs(grid[difference.argmax()]):.2f}")
claim("the slope of GELU exceeds 1 and reaches 1.13 at u = sqrt 2", abs(slope.max() - 1.129) < 0.001)
for kind in ("relu", "gelu"):
    dead = nt.FeedForward(D, F, kind, rng=9).astype(np.float64)
    dead.up.bias.data[2] = -4               # makes u of unit 2 negative for all tokens
    with nt.record(dead) as tape:
        dead(x)
        dead.backward(dy)
    largest = np.abs([*dead.up.weight.grad[:, 2], *dead.down.weight.grad[2]]).max()
    claim(f"{kind}: u of unit 2 is negative for all tokens, and the largest gradient of its weights is {largest:.1g}",
          np.all(tape["up"].output[:, 2] < 0) and (largest == 0) == (kind == "relu"))
picture = Figure(figsize=(13, 4.2), layout="constrained")
left, middle, right = picture.subplots(1, 3)
for name, style in (("ReLU", "C0-"), ("GELU", "C1--"), ("SiLU", "C2-.")):
    left.plot(grid, curves[name][0], style, lw=2, label=name)
    middle.plot(grid, curves[name][1], style, lw=2, label=name)
right.plot(grid, 1e4 * (exact - tanh), "C1-", lw=2)
for axes, title in zip(picture.axes, ("value a", "slope da/du", "10⁴ (GELU exact - GELU tanh)")):
    axes.set(xlabel="u", title=title)
    axes.grid(alpha=0.3)
left.legend()
figure("activations", picture)

# %% [markdown]
# ## 4. Which wrong slopes does a gradient check detect?
#
# Consider two mistakes in the backward of the exact GELU. In the first, the second term u φ(u) is forgotten. In the
# second, the slope is that of the tanh form. Below, each is compared with central differences of forward, as a function
# of the step h (lesson 02).
#
# The curve of a right formula is a V on these logarithmic axes: as h shrinks, the error falls like h², until rounding
# takes over and it rises again. The curve of a wrong formula has a floor: below some h, the error stays where it is.
# The floor of the second mistake is low, and a tolerance of 1e-3 would accept it. So do not only ask how large an error
# is. Ask also whether it falls with h.

# %% A right slope, a wrong one, and one that is nearly right
u = rng.standard_normal(300)
steps = 10.0 ** -np.arange(0, 11)
gelu = nt.GELU()
gelu(u)
slopes_of_u = {"u φ(u) forgotten": [(1 + math.erf(value / math.sqrt(2))) / 2 for value in u],
               "slope of the tanh form": [by_formula(value)["GELU, tanh"][1] for value in u],
               "right": gelu.backward(np.ones_like(u))}
gelu.eval()
errors = {name: np.array([relative_error(slope, (gelu(u + h) - gelu(u - h)) / (2 * h)) for h in steps])
          for name, slope in slopes_of_u.items()}
forgotten, tanh_slope, right = errors.values()              # [5] is the error at h = 1e-5
claim("right: the error falls below 1e-9", right[5] < 1e-9)
claim("second term forgotten: the error stays above 0.1", forgotten > 0.1, f"{forgotten[5]:.2g} at h = 1e-5")
claim("slope of the tanh form: between 1e-4 and 1e-3 for every h from 1e-2 to 1e-10",
      (1e-4 < tanh_slope[2:]) & (tanh_slope[2:] < 1e-3), f"{tanh_slope[5]:.2g} at h = 1e-5")
figure("wrong_slopes", views.step_sizes({name: (steps, errors[name]) for name in errors}, mark=1e-5))

# %% [markdown]
# ## 5. SwiGLU: a product of two projections of x
#
# LLaMA's feed-forward layer has three matrices and no bias (Shazeer 2020, equation 6). One projection of x goes through
# SiLU, and the result multiplies a second projection entry by entry. It works as a gate: where s is near 0, nothing of
# u passes.
#
#     g = x Wg    s = silu(g)    u = x Wu
#     m = s * u   y = m Wd
#
# Backward goes from the last line to the first. m is a product, so the derivative with respect to each factor is the
# other factor. x appears in two lines, so dx is a sum of two terms:
#
#     dm = dy Wdᵀ            du = dm * s    ds = dm * u
#     dg = ds * silu'(g)     dx = dg Wgᵀ + du Wuᵀ
#
# With G hidden units the three matrices hold 3 D G weights. The two matrices of an ordinary layer hold 2 D F, so the
# costs are equal if G = 2 F / 3 (Shazeer 2020, section 2).

# %% Each line of backward
gated = nt.SwiGLU(D, F, rng=9).astype(np.float64)
with nt.record(gated) as tape:
    gated(x)
    dx = gated.backward(dy)
Wg, Wu, Wd = (parameter.data for parameter in gated.parameters())
g = x @ Wg
s, u, m = tape["activation"].output, tape["up"].output, tape["down"].inputs[0]
dm = dy @ Wd.T
du, ds, dg = tape["up"].dy, tape["activation"].dy, tape["gate"].dy
silu, silu_slope = np.moveaxis([[by_formula(number)["SiLU"] for number in row] for row in g], -1, 0)
claim("m = silu(x Wg) * (x Wu)", relative_error(m, silu * (x @ Wu)) < 1e-14)
claim("du = dm * s and ds = dm * u", max(relative_error(du, dm * s), relative_error(ds, dm * u)) < 1e-14)
claim("dg = ds * silu'(g)", relative_error(dg, ds * silu_slope) < 1e-14)
claim("dx = dg Wgᵀ + du Wuᵀ", relative_error(dx, dg @ Wg.T + du @ Wu.T) < 1e-14)
claim("finite differences and the complex step confirm dx and the gradient of every parameter",
      nt.gradcheck(gated, x).ok)
predict("a SwiGLU has as many weights as FeedForward(384, 1536, bias=False): how many hidden units has it?", 1024,
        why="Three matrices share the weights of two: 3 · 384 · G = 2 · 384 · 1536, so G = 2/3 · 1536.")
claim("2/3 of 1536", nt.SwiGLU(384, 1024).num_parameters() == nt.FeedForward(384, 1536, bias=False).num_parameters())

# %% [markdown]
# ## 6. What a nonlinearity can do
#
# Two ReLU units compute |a - b| = max(0, a - b) + max(0, b - a), a function with a crease along a = b. Two units of a
# SwiGLU multiply any two numbers, because silu(a) - silu(-a) = a (σ(a) + σ(-a)) = a. Can each layer learn both
# functions, and can two Linears without a nonlinearity?
#
# Each layer is trained on 400 random points, and each has 42 trainable parameters: 8 hidden units, or 5 for SwiGLU. The
# error is measured on a fine grid, in percent of the function's standard deviation, so always answering with the mean
# would give 100 %. Each layer is trained from five random initializations, and the picture shows the one with the
# median error.

# %% Weights chosen by hand, then 40 small training runs
crease = nt.FeedForward(2, 2).astype(np.float64).eval()
crease.up.weight.data = [[1.0, -1], [-1, 1]]
crease.down.weight.data = [[1.0, 0], [1, 0]]
product = nt.SwiGLU(2, 2).astype(np.float64).eval()
product.gate.weight.data = [[1.0, -1], [0, 0]]
product.up.weight.data = [[0.0, 0], [1, -1]]
product.down.weight.data = [[1.0, 0], [1, 0]]
pairs = rng.standard_normal((2, 50))
a, b = pairs
claim("two ReLU units compute |a - b|", relative_error(crease(pairs.T)[:, 0], np.abs(a - b)) < 1e-14)
claim("two SwiGLU units compute a b", relative_error(product(pairs.T)[:, 0], a * b) < 1e-14)
FUNCTIONS = {"a b": lambda p: p[:, 0] * p[:, 1], "|a - b|": lambda p: np.abs(p[:, 0] - p[:, 1])}
side = np.linspace(-2, 2, 61)
points = rng.uniform(-2, 2, (400, 2)).astype(np.float32)
mesh = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(np.float32)


def make(name, seed):
    if name == "SwiGLU":
        return nt.SwiGLU(2, 5, bias=True, rng=seed)
    layer = nt.FeedForward(2, 8, "gelu" if name == "GELU" else "relu", rng=seed)
    if name == "two Linears":
        layer.activation = nt.Dropout(0)    # returns its input unchanged: no nonlinearity
    return layer


def fit(name, function, seed):
    """Trains for 600 steps, both outputs on the same function. Returns (error in percent, values on the grid)."""
    layer = make(name, seed)
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
print("  errors of the five runs, in percent")
for row, (title, function) in zip(picture.subplots(2, 5, sharex=True, sharey=True), FUNCTIONS.items()):
    panels = [(title, function(mesh))]
    levels = np.linspace(function(mesh).min(), 4, 17)
    for name in ("two Linears", "ReLU", "GELU", "SwiGLU"):
        fits = sorted((fit(name, function, seed) for seed in range(5)), key=lambda fit: fit[0])
        median[title, name], values = fits[2]
        panels.append((f"{name}: {fits[2][0]:.1f} %", values))
        print(f"  {title:<7}  {name:<11}  " + " ".join(f"{error:5.1f}" for error, _ in fits))
    for axes, (name, values) in zip(row, panels):
        image = axes.contourf(side, side, values.reshape(61, 61), levels, extend="both")
        axes.set(title=name, xlabel="a", ylabel="b", aspect="equal")
        axes.label_outer()
    picture.colorbar(image, ax=row, shrink=0.9, ticks=levels[::4], label="output")
picture.suptitle("Two functions (left), and what four layers with 42 parameters learn of them (with their error)")
figure("fits", picture)
claim("all four layers have 42 parameters", [make(name, 0).num_parameters() == 42 for _, name in median])
claim("two Linears learn neither function", [median[title, "two Linears"] > 99 for title in FUNCTIONS])
claim("the smooth a b: SwiGLU is better than GELU, and GELU better than ReLU",
      2 * median["a b", "SwiGLU"] < median["a b", "GELU"] < median["a b", "ReLU"])
claim("the crease of |a - b|: ReLU is better than GELU, and GELU better than SwiGLU",
      2 * median["|a - b|", "ReLU"] < median["|a - b|", "GELU"] < median["|a - b|", "SwiGLU"])

# %% [markdown]
# A ReLU layer consists of flat pieces that meet in creases, which its picture of a b shows. SwiGLU has no creases,
# which its picture of |a - b| shows. So for each of these layers there is a small problem on which it wins, and such
# problems cannot tell which layer is best for language. Shazeer (2020, section 3) compared them on language at equal
# cost, and SwiGLU reached a lower loss than ReLU and GELU. He offers no explanation (section 4).
#
# ## Exercises
#
# 1. Someone leaves out silu: y = (g * u) Wd. Is the layer still nonlinear? Which functions of x can it compute?
# 2. Predict the floor of section 4 if all |u| are below 0.1. Then measure it.
# 3. Write a layer with a = max(0, u)² and its backward, and check it with `nt.gradcheck`. What is its slope at u = 0?
# 4. Find the bug, if there is one: `du = da * (a > 0)`. Answer for ReLU and for GELU.
# 5. In a SwiGLU block with d_ff = 4 d_model, what share of the matrices' weights is in the feed-forward layer?
# 6. The XOR of a and b is 1 if exactly one of them is 1, and 0 otherwise. Write down two ReLU units that compute it.
#
# With a checker (`numpy-transformer exercise check 09.1` and so on): 09.1, 09.2, 09.3, 09.4, 09.5, 09.6, 09.7.
