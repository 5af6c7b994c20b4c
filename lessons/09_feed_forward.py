# %% [markdown]
# # 09 Feed-forward
#
# Attention carries vectors from token to token. What a token then makes of them is the work of the feed-forward
# layer: widen, bend, narrow, each token alone. It holds two thirds of the weights of an encoder block, and the bend
# that no stack of matrices can replace. This lesson shows why, derives backward for ReLU, GELU and SwiGLU, measures
# which wrong derivative a gradient check sees, and lets the three compete. Afterwards you can derive the backward of
# such a layer, and tell a wrong formula from rounding. Lesson 02 explains gradients and the complex step.
# About 15 minutes.

# %% Five tokens, a layer with random weights and biases, and its formula in loops
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(9)
T, D, F = 5, 4, 6                           # tokens, features, hidden units
x, dy = rng.standard_normal((2, T, D))      # L is the sum of dy * y
layer = nt.FeedForward(D, F, "relu", rng=rng).astype(np.float64)
layer.up.bias.data, layer.down.bias.data = rng.standard_normal(F), rng.standard_normal(D)
W1, b1, W2, b2 = (parameter.data for parameter in layer.parameters())
y = layer(x)
claim("forward: y = max(0, x W1 + b1) W2 + b2",
      apart(y, [[b2[c] + sum(max(0, b1[f] + x[t] @ W1[:, f]) * W2[f, c] for f in range(F)) for c in range(D)]
                for t in range(T)]) < 1e-14)

# %% [markdown]
# ## 1. Why a bend, and why for each token alone
#
# Without the max the layer would be (x W1 + b1) W2 + b2 = x (W1 W2) + (b1 W2 + b2): a single Linear, and so would
# be a stack of a hundred. Attention does not replace the bend: it mixes tokens, and for given weights it is linear in
# the values (lesson 05). The feed-forward layer is the opposite (Vaswani et al. 2017, section 3.3, "position-wise"): it
# bends features, and mixes no tokens. `nt.influence` measures how much input s moves output t.
#
# The paper takes d_ff = 4 d_model. Then W1 and W2 hold 8 D² weights, the four matrices of attention 4 D².

# %% Two Linears, influence, and the share of the weights
up, down = layer.up.eval(), layer.down.eval()
claim("two Linears are one: x (W1 W2) + (b1 W2 + b2)", apart(down(up(x)), x @ (W1 @ W2) + (b1 @ W2 + b2)) < 1e-14)
layer.eval()
w = rng.standard_normal((T, D))             # a linear layer would answer a step x with the same step everywhere
claim("the layer is not linear", apart(layer(x + w) - layer(w), layer(x) - layer(0 * x)) > 0.1)
reach = {"self-attention": nt.influence(nt.SelfAttention(D, 2, rng=9), x), "feed-forward": nt.influence(layer, x)}
figure("influence", views.xray(reach))
claim("in attention every token moves every token", reach["self-attention"] > 0)
claim("in the feed-forward layer it moves itself alone", np.array_equal(reach["feed-forward"] > 0, np.eye(T)))
predict("which part of a block's matrices is feed-forward, with d_ff = 4 d_model?", "2/3")
sizes = {name: p.data.size for name, p in nt.EncoderBlock(512, 8, 2048, rng=9).named_parameters() if p.data.ndim == 2}
inside = sum(size for name, size in sizes.items() if name.startswith("feed_forward"))
claim("two thirds: 8 D² of 12 D²", 3 * inside == 2 * sum(sizes.values()), f"{inside:,} of {sum(sizes.values()):,}")

# %% [markdown]
# ## 2. Backward of the ReLU layer
#
# Three lines of forward, u = x W1 + b1, a = max(0, u), y = a W2 + b2, from the last to the first:
#
# * y = a W2 + b2 is a Linear:     da = dy W2ᵀ,   dW2 = aᵀ dy,   db2 = sum of dy over the tokens
# * a_tf = max(0, u_tf) has slope 1 where u_tf > 0 and 0 where u_tf < 0:     du_tf = da_tf if u_tf > 0, else 0
# * u = x W1 + b1 is a Linear:     dx = du W1ᵀ,   dW1 = xᵀ du,   db1 = sum of du over the tokens
#
# The mask comes from u, which forward saw, and not from the sign of da. At u = 0 there is a corner and no slope; any
# number from 0 to 1 would do, and the layer takes 0.

# %% Line by line, and all of it at once
layer.train()
with nt.record(layer) as tape:
    layer(x)
    dx = layer.backward(dy)
u, da, du = tape["up"].output, tape["activation"].dy, tape["activation"].gradients[0]
show(u=u, da=da, du=du + 0)                 # + 0 makes -0 a 0
claim("da = dy W2ᵀ", apart(da, [[dy[t] @ W2[f] for f in range(F)] for t in range(T)]) < 1e-14)
du_loops = [[da[t, f] if u[t, f] > 0 else 0 for f in range(F)] for t in range(T)]
claim("du is da where u > 0, and 0 elsewhere", np.array_equal(du, du_loops))
claim("a mask from the sign of da would be another", np.any((da > 0) != (u > 0)))
claim("dx = du W1ᵀ", apart(dx, [[du[t] @ W1[d] for d in range(D)] for t in range(T)]) < 1e-14)
claim("dW1 = xᵀ du", apart(layer.up.weight.grad, sum(np.outer(x[t], du[t]) for t in range(T))) < 1e-14)
report = nt.gradcheck(layer, x)
print(report)
claim("differences and the complex step confirm dx and every parameter", report.ok)

# %% [markdown]
# ## 3. GELU and SiLU
#
# A unit whose u is negative for every token is **dead** under ReLU: its a and its du are 0, so all its weights have
# gradient 0, and only other inputs can wake it. GELU has a slope there. ReLU multiplies u by 0 or 1; GELU multiplies
# it by Φ(u), the probability that a standard normal number is below u (Hendrycks and Gimpel 2016, section 2). The
# slope of Φ is the density φ(u) = exp(-u²/2) / sqrt(2π). As u stands before Φ and in it, the slope has two terms.
#
#     exact:  a = u Φ(u),  Φ(u) = (1 + erf(u / sqrt 2)) / 2                       a' = Φ(u) + u φ(u)
#     tanh:   a = u (1 + t) / 2,  t = tanh(c (u + 0.044715 u³)),  c = sqrt(2/π)
#             a' = (1 + t) / 2 + u (1 - t²) c (1 + 3 · 0.044715 u²) / 2
#     SiLU:   a = u σ(u),  σ(u) = 1 / (1 + exp(-u))                               a' = σ + u σ (1 - σ)
#
# GPT-2 uses the tanh form (here `activation="gelu_tanh"`), `torch.nn.GELU()` is the exact one ("gelu"): two functions,
# so say which. SiLU (Elfwing et al. 2017) is a third of the same shape.

# %% Values and slopes in loops, and a dead unit
grid = np.linspace(-4, 4, 161)


def value_and_slope(activation):
    return activation(grid), activation.backward(np.ones_like(grid))


def by_formula(u, c=math.sqrt(2 / math.pi)):    # (value, slope) of each
    Phi, phi = (1 + math.erf(u / math.sqrt(2))) / 2, math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    t, sigma = math.tanh(c * (u + 0.044715 * u ** 3)), 1 / (1 + math.exp(-u))
    return {"ReLU": (max(0, u), float(u > 0)), "GELU": (u * Phi, Phi + u * phi),
            "GELU, tanh": (u * (1 + t) / 2, (1 + t) / 2 + u * (1 - t * t) * c * (1 + 3 * 0.044715 * u * u) / 2),
            "SiLU": (u * sigma, sigma + u * sigma * (1 - sigma))}


ACTIVATIONS = {"ReLU": nt.ReLU(), "GELU": nt.GELU(), "GELU, tanh": nt.GELU("tanh"), "SiLU": nt.SiLU()}
curves = {name: value_and_slope(activation) for name, activation in ACTIVATIONS.items()}
for name, (value, slope) in curves.items():
    claim(f"{name}: value and slope are the formulas; the slope at 0 is {slope[80]:g}",
          np.allclose((value, slope), np.transpose([by_formula(u)[name] for u in grid]), rtol=1e-12, atol=1e-15))
(exact, slope), (tanh, slope_tanh) = curves["GELU"], curves["GELU, tanh"]
claim("the two forms of GELU differ by up to 4.7e-4", 4.6e-4 < np.abs(exact - tanh).max() < 4.8e-4,
      f"{np.abs(exact - tanh).max():.2e} at |u| = {abs(grid[np.abs(exact - tanh).argmax()]):.2f}")
claim("the slope of GELU rises above 1, to 1.13 at sqrt 2", abs(slope.max() - 1.129) < 0.001)
for kind in ("relu", "gelu"):
    sleeper = nt.FeedForward(D, F, kind, rng=9).astype(np.float64)
    sleeper.up.bias.data[2] = -4
    with nt.record(sleeper) as tape:
        sleeper(x)
        sleeper.backward(dy)
    largest = np.abs([*sleeper.up.weight.grad[:, 2], *sleeper.down.weight.grad[2]]).max()
    claim(f"{kind}: where u of unit 2 is negative for all tokens, the largest gradient of its weights is {largest:.1g}",
          np.all(tape["up"].output[:, 2] < 0) and (largest == 0) == (kind == "relu"))
picture = Figure(figsize=(13, 4.2), layout="constrained")
left, middle, right = picture.subplots(1, 3)
for name, style in (("ReLU", "C0-"), ("GELU", "C1--"), ("SiLU", "C2-.")):
    left.plot(grid, curves[name][0], style, lw=2, label=name)
    middle.plot(grid, curves[name][1], style, lw=2, label=name)
right.plot(grid, 1e4 * (exact - tanh), "C1-", lw=2)
for axes, title in zip(picture.axes, ("a", "slope da/du", "10⁴ (GELU exact - GELU tanh)")):
    axes.set(xlabel="u", title=title)
    axes.grid(alpha=0.3)
left.legend()
figure("activations", picture)

# %% [markdown]
# ## 4. Which wrong slope does a gradient check see?
#
# Two mistakes in the backward of the exact GELU: the second term u φ(u) is forgotten, or the slope is that of the tanh
# form. Below each is compared with central differences of forward, over the step h (lesson 02). A right formula draws
# a U: down with h² until rounding takes over. A wrong one has a floor: below some h its error stays, whatever h is.
# The floor of the second mistake is low, and a tolerance of 1e-3 lets it pass. So ask not only how large an error is,
# but also whether it falls with h.

# %% Right, wrong, and nearly right
u, steps, errors = rng.standard_normal(300), 10.0 ** -np.arange(0, 11), {}
backwards = {"u φ(u) forgotten": [(1 + math.erf(value / math.sqrt(2))) / 2 for value in u],
             "slope of the tanh form": [by_formula(value)["GELU, tanh"][1] for value in u]}
gelu = nt.GELU()
gelu(u)
backwards["right"] = gelu.backward(np.ones_like(u))
gelu.eval()
for name, slope in backwards.items():
    errors[name] = np.array([apart(slope, (gelu(u + h) - gelu(u - h)) / (2 * h)) for h in steps])
forgotten, other, right = errors.values()                   # [5] is the error at h = 1e-5
claim("right: the error falls below 1e-9", right[5] < 1e-9)
claim("second term forgotten: it stays above 0.1", forgotten > 0.1, f"{forgotten[5]:.2g} at h = 1e-5")
claim("the other form: between 1e-4 and 1e-3 for every h from 1e-2 to 1e-10", (1e-4 < other[2:]) & (other[2:] < 1e-3),
      f"{other[5]:.2g} at h = 1e-5")
figure("wrong_slopes", views.step_sizes({name: (steps, errors[name]) for name in errors}, mark=1e-5))

# %% [markdown]
# ## 5. SwiGLU: a product of two views of x
#
# LLaMA's layer has three matrices and no bias (Shazeer 2020, equation 6). One view of x is bent and gates the other:
#
#     g = x Wg,   s = silu(g),   u = x Wu,   m = s * u,   y = m Wd
#
# Backward, from the last line to the first. m is a product, so each factor is the slope in the other one; x stands in
# two lines, so dx is a sum of two terms:
#
#     dm = dy Wdᵀ        du = dm * s        ds = dm * u        dg = ds * silu'(g)        dx = dg Wgᵀ + du Wuᵀ
#
# Three matrices of D G weights cost as much as two of D F if G = 2 F / 3 (Shazeer 2020, section 2).

# %% Line by line
gated = nt.SwiGLU(D, F, rng=9).astype(np.float64)
with nt.record(gated) as tape:
    gated(x)
    dx = gated.backward(dy)
Wg, Wu, Wd = (parameter.data for parameter in gated.parameters())
g, s, u, m, dm = x @ Wg, tape["silu"].output, tape["up"].output, tape["down"].inputs[0], dy @ Wd.T
du, ds, dg = tape["up"].dy, tape["silu"].dy, tape["gate"].dy
silu, silu_slope = np.moveaxis([[by_formula(number)["SiLU"] for number in row] for row in g], -1, 0)
claim("m = silu(x Wg) * (x Wu)", apart(m, silu * (x @ Wu)) < 1e-14)
claim("du = dm * s and ds = dm * u", max(apart(du, dm * s), apart(ds, dm * u)) < 1e-14)
claim("dg = ds * silu'(g)", apart(dg, ds * silu_slope) < 1e-14)
claim("dx = dg Wgᵀ + du Wuᵀ", apart(dx, dg @ Wg.T + du @ Wu.T) < 1e-14)
claim("differences and the complex step confirm dx and every parameter", nt.gradcheck(gated, x).ok)
predict("SwiGLU with as many weights as FeedForward(384, 1536, bias=False): how many hidden units?", 1024)
claim("2/3 of 1536", nt.SwiGLU(384, 1024).num_parameters() == nt.FeedForward(384, 1536, bias=False).num_parameters())

# %% [markdown]
# ## 6. What a bend is good for
#
# Two ReLU units compute |a - b| = max(0, a - b) + max(0, b - a), a crease. Two units of a SwiGLU multiply any two
# numbers, since silu(a) - silu(-a) = a (σ(a) + σ(-a)) = a. Can each learn both, and can two Linears? Each gets 400
# random points and has 42 numbers to learn: 8 hidden units, or 5 for SwiGLU. The error is taken on a fine grid, in
# percent of the function's standard deviation. Each is trained from five starts; the picture shows the middle one.

# %% Weights by hand, then 40 small trainings
crease, times = nt.FeedForward(2, 2).astype(np.float64).eval(), nt.SwiGLU(2, 2).astype(np.float64).eval()
crease.up.weight.data, crease.down.weight.data = [[1.0, -1], [-1, 1]], [[1.0, 0], [1, 0]]
times.gate.weight.data, times.up.weight.data = [[1.0, -1], [0, 0]], [[0.0, 0], [1, -1]]
times.down.weight.data = [[1.0, 0], [1, 0]]
a, b = pairs = rng.standard_normal((2, 50))
claim("two ReLU units compute |a - b|", apart(crease(pairs.T)[:, 0], np.abs(a - b)) < 1e-14)
claim("two SwiGLU units multiply", apart(times(pairs.T)[:, 0], a * b) < 1e-14)
FUNCTIONS = {"a b": lambda p: p[:, 0] * p[:, 1], "|a - b|": lambda p: np.abs(p[:, 0] - p[:, 1])}
side, points = np.linspace(-2, 2, 61), rng.uniform(-2, 2, (400, 2)).astype(np.float32)
mesh = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(np.float32)


def make(name, seed):
    if name == "SwiGLU":
        return nt.SwiGLU(2, 5, bias=True, rng=seed)
    layer = nt.FeedForward(2, 8, "gelu" if name == "GELU" else "relu", rng=seed)
    if name == "two Linears":
        layer.activation = nt.Dropout(0)    # passes everything on: no bend
    return layer


def fit(name, function, seed):
    """(error in percent, values on the grid) after 600 steps; both outputs learn the function."""
    layer, wanted = make(name, seed), np.c_[function(points), function(points)]
    optimizer = nt.Adam(layer.parameters(), lr=0.03)
    for _ in range(600):
        layer.zero_grad()
        layer.backward((layer(points) - wanted) / len(points))          # the gradient of the mean squared error
        optimizer.step()
    values, true = layer.eval()(mesh)[:, 0], function(mesh)
    return 100 * np.sqrt(np.mean((values - true) ** 2)) / true.std(), values


picture, median = Figure(figsize=(13, 5.6), layout="constrained"), {}
for row, (title, function) in zip(picture.subplots(2, 5, sharex=True, sharey=True), FUNCTIONS.items()):
    panels, levels = [(title, function(mesh))], np.linspace(function(mesh).min(), 4, 17)
    for name in ("two Linears", "ReLU", "GELU", "SwiGLU"):
        fits = sorted((fit(name, function, seed) for seed in range(5)), key=lambda fit: fit[0])
        median[title, name], values = fits[2]
        panels.append((f"{name}: {fits[2][0]:.1f} %", values))
        print(f"  {title:<7}  {name:<11}  errors " + " ".join(f"{error:6.1f}" for error, _ in fits) + " %")
    for axes, (name, values) in zip(row, panels):
        image = axes.contourf(side, side, values.reshape(61, 61), levels, extend="both")
        axes.set(title=name, xlabel="a", ylabel="b", aspect="equal")
        axes.label_outer()
    picture.colorbar(image, ax=row, shrink=0.9, ticks=levels[::4], label="output")
picture.suptitle("Two functions, and what four layers with 42 parameters make of them (error in percent)")
figure("fits", picture)
claim("all have 42 numbers", [make(name, 0).num_parameters() == 42 for _, name in median])
claim("two Linears learn nothing of either", [median[title, "two Linears"] > 99 for title in FUNCTIONS])
claim("the smooth product: SwiGLU before GELU before ReLU",
      2 * median["a b", "SwiGLU"] < median["a b", "GELU"] < median["a b", "ReLU"])
claim("the crease: ReLU before GELU before SwiGLU",
      2 * median["|a - b|", "ReLU"] < median["|a - b|", "GELU"] < median["|a - b|", "SwiGLU"])

# %% [markdown]
# A ReLU layer is made of flat pieces with creases between them, as its picture of a b shows. SwiGLU has no creases,
# as its picture of |a - b| shows. So a toy can be found for every winner, and none tells which layer is best for
# language. Shazeer (2020, section 3) compared them on language at equal cost: SwiGLU had less loss than ReLU and GELU.
# He offers no explanation (section 4).
#
# ## Exercises
#
# 1. Someone leaves out silu: y = (g * u) Wd. Does the layer still bend? Which functions of x can it compute?
# 2. Predict the floor of section 4 if all |u| are below 0.1. Then measure it.
# 3. Write a layer with a = max(0, u)² and its backward, and check it with `nt.gradcheck`. What is its slope at u = 0?
# 4. Find the bug, if there is one: `du = da * (a > 0)`. Answer for ReLU and for GELU.
# 5. With d_ff = 4 d_model a SwiGLU block has which share of its matrices in the feed-forward layer?
# 6. XOR of a and b is 1 if exactly one of them is 1, else 0. Write down two ReLU units that compute it.
#
# With a checker (`numpy-transformer exercise check NN`): 09.1, 09.2, 09.3, 09.4, 09.5, 09.6, 09.7.
