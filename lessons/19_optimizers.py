# %% [markdown]
# # 19 Optimizers
#
# Backward says which way is down. It does not say how far to go. The Transformer of 2017 left that to Adam, with a
# learning rate that first rises and then falls, and most models since do much the same. This lesson takes the
# optimizer apart: why plain descent is slow in a stretched valley, what Adam's lines do, why the size of its first
# step is known in advance, and what a schedule, a weight decay, a clipped gradient and a split batch change.
# Afterwards you can check an optimizer against known values, and find the usual mistakes in one. About 15 minutes.

# %% Imports, and a parameter that walks
import copy
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.classroom import claim, figure, lesson, predict

lesson.start(__name__)
rng = np.random.default_rng(19)
CURVATURE, START = np.array([1.0, 25.0]), np.array([-8.0, 1.6])     # L(w) = (1 w0² + 25 w1²) / 2


def bowl(w):
    return CURVATURE * w                    # its gradient


def walk(optimizer, gradients, start=START, **options):
    """The places of a parameter. gradients: for each step an array, or a function of the place."""
    parameter, path = nt.Parameter(start), [start]
    optimizer = optimizer([parameter], **options)
    for gradient in gradients:
        parameter.grad = gradient(parameter.data) if callable(gradient) else gradient
        optimizer.step()
        path.append(parameter.data.copy())
    return np.array(path)


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. Descent in a stretched bowl
#
# Gradient descent is w = w - lr dw. Near a minimum a loss looks like a bowl, with a curvature λ in each direction.
# There dw = λ w, so a step multiplies w by 1 - lr λ. That shrinks w only while |1 - lr λ| < 1:
#
#     lr < 2 / λ   in every direction, so   lr < 2 / λ_max
#
# The steepest direction sets the limit, and the flattest one then creeps. With κ = λ_max / λ_min, the condition
# number, the best lr is 2 / (λ_max + λ_min), and even that only multiplies by (κ - 1) / (κ + 1) per step.
#
# **Momentum** keeps a velocity: v = μ v + dw, w = w - lr v. Along the flat direction the gradients agree and add up
# to 1 / (1 - μ) of one; across it they change their sign and cancel. With the best lr and μ the factor per step
# tends to (sqrt(κ) - 1) / (sqrt(κ) + 1): sqrt(κ) takes the place of κ (Polyak 1964).

# %% The limit, the best rate, and momentum
low, high = CURVATURE
ends = [abs(walk(nt.SGD, [bowl] * 300, lr=part * 2 / high)[-1, 1] / START[1]) for part in (0.99, 1.01)]
claim("lr a hundredth below 2 / λ_max: w shrinks; a hundredth above: it grows", ends[0] < 0.01 and ends[1] > 100)
slow = walk(nt.SGD, [bowl] * 40, lr=2 / (high + low))
claim("the best lr: both shrink by (κ - 1) / (κ + 1) per step", np.allclose(abs(slow[1:] / slow[:-1]), 24 / 26))
quick, (w, v), loops = walk(nt.SGD, [bowl] * 40, lr=0.02, momentum=0.8), (START, 0), [START]
for _ in range(40):
    v = 0.8 * v + CURVATURE * w
    w = w - 0.02 * v
    loops.append(w)
claim("with momentum: the formula, step by step", apart(quick, loops) < 1e-12)

# %% [markdown]
# ## 2. Adam, line by line
#
# A network has not two directions but millions, and their curvatures are unknown. Adam (Kingma and Ba 2015) gives each
# number a step size of its own, from two running means of its gradient g:
#
#     m = β1 m + (1 - β1) g           the mean of g:  a direction
#     v = β2 v + (1 - β2) g²          the mean of g²: a size
#     m̂ = m / (1 - β1ᵗ),   v̂ = v / (1 - β2ᵗ)          t = 1, 2, 3, ... counts the steps
#     w = w - lr m̂ / (sqrt(v̂) + eps)
#
# **Why the third line?** m starts at 0. Written out, m_t = (1 - β1) (g_t + β1 g_(t-1) + ... + β1^(t-1) g_1), and the
# weights (1 - β1)(1 + β1 + ... + β1^(t-1)) sum to 1 - β1ᵗ, not to 1. So if all g have the same mean,
#
#     E[m_t] = (1 - β1ᵗ) E[g],   likewise   E[v_t] = (1 - β2ᵗ) E[g²]
#
# and the division takes that out. The first step is then -lr g / (|g| + eps): about lr, whatever the size of g.

# %% Adam against a scalar reference, and the bias of its means
def adam(gradients, lr=0.01, beta1=0.9, beta2=0.999, eps=1e-8, correct_m=True, correct_v=True):
    """The places of a single number that starts at 0."""
    w, m, v, places = 0.0, 0.0, 0.0, [0.0]
    for t, g in enumerate(gradients, start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        m_hat = m / (1 - beta1 ** t) if correct_m else m
        v_hat = v / (1 - beta2 ** t) if correct_v else v
        w -= lr * m_hat / (math.sqrt(v_hat) + eps)
        places.append(w)
    return places


gradients = rng.standard_normal((8, 3)) * [1, 30, 1e-3] + [0, 20, 0]        # eight steps of three numbers
for options in ({}, {"betas": (0.9, 0.98), "eps": 1e-9}, {"betas": (0.5, 0.7), "eps": 0.1}):
    path = walk(nt.Adam, gradients, np.zeros(3), lr=0.01, **options)
    (beta1, beta2), eps = options.get("betas", (0.9, 0.999)), options.get("eps", 1e-8)
    scalar = np.transpose([adam(column, 0.01, beta1, beta2, eps) for column in gradients.T])
    claim(f"nt.Adam is the reference, with betas {beta1}, {beta2} and eps {eps:g}", apart(path, scalar) < 1e-13)
noisy = nt.Parameter(np.zeros(100_000))                     # 100,000 numbers whose gradients have mean 0.7, variance 1
optimizer = nt.Adam([noisy])
for t in range(1, 11):
    noisy.grad = 0.7 + rng.standard_normal(noisy.data.shape)
    optimizer.step()
    if t in (1, 3, 10):
        m, v = optimizer.m[0].mean(), optimizer.v[0].mean()
        claim(f"t = {t:2}: E[m] = (1 - β1ᵗ) E[g], E[v] = (1 - β2ᵗ) E[g²]", np.allclose(
            [m, v], [0.7 * (1 - 0.9 ** t), 1.49 * (1 - 0.999 ** t)], rtol=0.02), f"m {m:.3f}, v {v:.4f}")
predict("lr = 0.01. How long is Adam's first step for the gradient 0.00003?", 0.01)
sizes = np.array([3e-5, -2.0, 5e4])
first = walk(nt.Adam, [sizes], np.zeros(3), lr=0.01)[1]
claim("the first step is -lr sign(g)", np.allclose(first, -0.01 * np.sign(sizes), rtol=1e-3), str(first.round(5)))

# %% [markdown]
# **Mistakes in the third line** show in the first step, for every gradient. Without both divisions it is
# (1 - β1) / sqrt(1 - β2) = 0.1 / 0.0316 = 3.162 lr. With only m̂ it is 1 / sqrt(1 - β2) = 31.6 lr, with only v̂
# 1 - β1 = 0.1 lr. Under a constant gradient, step t without both is (1 - β1ᵗ) / sqrt(1 - β2ᵗ) lr. The steps grow at
# first, since v warms up more slowly than m, and need thousands of steps to come down.

# %% Steps under a constant gradient
cases = {"both": (True, True), "neither": (False, False), "only m": (True, False), "only v": (False, True)}
curves = {name: -np.diff(adam([0.3] * 5000, 1.0, correct_m=m, correct_v=v)) for name, (m, v) in cases.items()}
claim("with both, every step is lr", np.allclose(curves["both"], 1))
claim("first steps: 3.162 lr with neither, 31.6 lr with only m, 0.1 lr with only v",
      np.allclose([curves[name][0] for name in ("neither", "only m", "only v")], [10 ** 0.5, 1000 ** 0.5, 0.1]))
t, neither = np.arange(1, 5001), curves["neither"]
claim("with neither, step t is (1 - β1ᵗ) / sqrt(1 - β2ᵗ) lr", np.allclose(
    neither, (1 - 0.9 ** t) / np.sqrt(1 - 0.999 ** t)), f"largest {neither.max():.2f} lr, at t = {t[neither.argmax()]}")
spots = [0, 1, 2, 3, 5, 8, 13, 22, 38, 65, 110, 190, 320, 550, 950, 1600, 2800, 4800]
figure("bias_correction", views.step_sizes({f"{name} divided: first {curve[0]:.3g} lr": (t[spots], curve[spots])
                                            for name, curve in curves.items()}, "step t", "length of step t / lr"))

# %% [markdown]
# ## 3. What Adam does not see
#
# If all gradients are multiplied by c, so are m̂ and sqrt(v̂), and c cancels. SGD takes steps c times as long. A loss
# that is summed over equally large batches instead of averaged trains as before, and so does one whose gradient is
# divided by their size twice: Adam hides such mistakes.
#
# **eps** ends that. The first step is lr |g| / (|g| + eps): half of lr for |g| = eps, and small for |g| far below.
#
# In the bowl, Adam's first step goes along the diagonal, whatever the curvatures are. It has a price: near the
# minimum the steps do not shrink as the gradient does. The learning rate has to fall instead (section 5).

# %% Scale, eps, and three paths
plain, times100 = (walk(nt.Adam, gradients * c, np.zeros(3), lr=0.01, eps=1e-12) for c in (1, 100))
claim("gradients times 100: Adam takes the same steps", apart(times100, plain) < 1e-6)
plain, times100 = (walk(nt.SGD, gradients * c, np.zeros(3), lr=0.01) for c in (1, 100))
claim("SGD takes steps 100 times as long", apart(times100, 100 * plain) < 1e-12)
sizes = np.array([1e-10, 1e-8, 1e-6])
first = walk(nt.Adam, [sizes], np.zeros(3), lr=1.0)[1]
claim("near eps = 1e-8 the first step is lr |g| / (|g| + eps)", np.allclose(-first, sizes / (sizes + 1e-8)),
      ", ".join(f"{-step:.3f} for {size:g}" for step, size in zip(first, sizes)))
adaptive = walk(nt.Adam, [bowl] * 40, lr=0.5)
paths = {"gradient descent, lr 2 / 26": slow, "momentum 0.8, lr 0.02": quick, "Adam, lr 0.5": adaptive}
claim("Adam's first step in the bowl is (lr, -lr), though the gradients are -8 and 40",
      np.allclose(adaptive[1] - START, [0.5, -0.5]))
picture = Figure(figsize=(12, 4), layout="constrained")
x, y = np.meshgrid(np.linspace(-9, 3.5, 200), np.linspace(-2.2, 2.2, 100))
for axes, (name, path), style in zip(picture.subplots(1, 3, sharey=True), paths.items(), ("C1s-", "C2^-", "C0o-")):
    axes.contour(x, y, (x ** 2 + 25 * y ** 2) / 2, [0.5, 5, 15, 32, 60], colors="0.75")
    axes.plot(*path.T, style, markersize=4, linewidth=1.2)
    axes.plot(0, 0, "k+", markersize=12)
    axes.set(xlim=(-9, 3.5), ylim=(-2.2, 2.2), xlabel="w0, curvature 1", title=name)
picture.axes[0].set_ylabel("w1, curvature 25")
picture.suptitle("40 steps in the stretched bowl")
figure("paths", picture)

# %% [markdown]
# ## 4. Weight decay
#
# L2 regularisation adds wd w to the gradient. Under SGD that is the same as w = (1 - lr wd) w beside the step. Under
# Adam it is not: wd w passes through the division by sqrt(v̂). A number with large gradients then hardly decays, and
# one without gradients moves by lr, however small wd is. AdamW (Loshchilov and Hutter 2019) takes the decay out of
# the gradient: w = (1 - lr wd) w, then Adam's step. (The factor lr is PyTorch's; algorithm 2 of the paper has only the
# schedule's.) Usually matrices decay; biases and the gains of norms do not.

# %% Decay beside the step, and inside the gradient
ones, still = np.ones(2), np.zeros(2)
decayed = walk(nt.AdamW, [still] * 10, ones, lr=0.01, weight_decay=0.1)
claim("AdamW without gradients: w = (1 - lr wd)ᵗ", np.allclose(decayed[:, 0], 0.999 ** np.arange(11)))
inside = [walk(nt.Adam, [lambda w: wd * w], ones, lr=0.01)[1, 0] for wd in (1e-3, 0.1)]
claim("inside the gradient: the first step is lr for every wd", np.allclose(inside, 0.99, rtol=1e-4))
layer = nt.Linear(3, 4, rng=1)
layer.bias.data = 1
nt.AdamW(layer.parameters(), lr=0.1, weight_decay=0.1, decay=lambda parameter: parameter.data.ndim >= 2).step()
claim("decay= chooses: the matrix decays, the bias does not", np.all(layer.bias.data == 1)
      and np.allclose(layer.weight.data, 0.99 * nt.Linear(3, 4, rng=1).weight.data))

# %% [markdown]
# ## 5. Schedules
#
# Since Adam's first step is lr for every number, however little is known of its gradient, the rate begins small. The
# paper (Vaswani et al. 2017, equation 3) takes
#
#     lr(n) = d_model^-0.5 min(n^-0.5, n warmup^-1.5)
#
# Both arms meet at n = warmup: up to there lr grows by the same amount every step, to (d_model warmup)^-0.5, then it
# falls as 1 / sqrt(n). A cosine (Loshchilov and Hutter 2017) needs to know the last step. `schedule.step()` is called
# once per training step, before `optimizer.step()`; once per tensor, as in one published program, and the peak comes
# far too early.

# %% Rates
optimizer, n = nt.Adam([nt.Parameter(np.zeros(2))]), np.arange(1, 20_001)
noam, rates = nt.NoamSchedule(optimizer, d_model=512, warmup=4000), []
claim("the first rate holds before the first call", math.isclose(optimizer.lr, 512 ** -0.5 * 4000 ** -1.5))
for _ in n:
    noam.step()
    rates.append(optimizer.lr)
rates = np.array(rates)                     # rates[n - 1] is that of step n
claim("Noam: the formula, call by call", np.allclose(rates, 512 ** -0.5 * np.minimum(n ** -0.5, n * 4000 ** -1.5)))
claim("the peak is at n = warmup, (512 · 4000)^-0.5", n[rates.argmax()] == 4000
      and math.isclose(rates.max(), 2_048_000 ** -0.5), f"{rates.max():.2e}")
claim("at four times the warm-up it is half of that", math.isclose(rates[16_000 - 1], rates.max() / 2))
cosine = nt.CosineSchedule(optimizer, lr=7e-4, min_lr=7e-5, warmup=4000, steps=20_000)
claim("cosine: peak, middle, end", np.allclose([cosine.rate(k) for k in (4000, 12_000, 20_000)], [7e-4, 38.5e-5, 7e-5]))
figure("schedules", views.schedules({"Noam, d_model 512, warm-up 4000": rates,
                                     "cosine, warm-up 4000, 20,000 steps": [cosine.rate(k) for k in n]}))

# %% [markdown]
# ## 6. Clipping
#
# A single odd batch can have a gradient many times as long as usual. Clipping by the global norm (Pascanu, Mikolov
# and Bengio 2013) takes the length of all gradients together, as of one vector. If it is above the limit, all are
# multiplied by limit / length: the direction stays. With a limit for each tensor, the long ones are cut and the short
# ones are not: the direction turns.

# %% One norm, or one for each tensor
parameters = [nt.Parameter(np.zeros(shape)) for shape in ((4, 3), 5, (2, 7))]
gradients = [size * rng.standard_normal(p.data.shape) for size, p in zip((8, 0.1, 1), parameters)]


def clipped(limit, together):
    """All gradients as one vector, and the norms that clip_grad_norm returns."""
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    norms = [nt.clip_grad_norm(group, limit) for group in ([parameters] if together else [[p] for p in parameters])]
    return np.concatenate([parameter.grad.ravel() for parameter in parameters]), norms


def cosine_of(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


whole = np.concatenate([gradient.ravel() for gradient in gradients])
together, norms = clipped(1.0, True)
claim("it returns the norm before", math.isclose(norms[0], math.sqrt(sum(whole ** 2))), f"{norms[0]:.1f}")
claim("afterwards the norm is the limit, the direction the same", np.allclose(together, whole / np.linalg.norm(whole)))
claim("below the limit nothing changes", np.array_equal(clipped(100.0, True)[0], whole))
turned = cosine_of(clipped(1.0, False)[0], whole)
claim("a limit for each tensor turns the direction", turned < 0.9, f"cosine {turned:.2f}")

# %% [markdown]
# ## 7. One batch in parts
#
# The loss is a mean over the N targets that count (padding does not). Cut into parts with n_k targets each, the batch
# has the gradient (sum over k of n_k times the gradient of part k) / N. Accumulation runs the parts one after another,
# data-parallel workers run them on replicas of the model; the sum is the same. To average the parts' means is wrong
# as soon as their counts differ: each target of a short part then weighs more. `criterion.backward(n_k)` gives n_k
# times the gradient, since backward takes the gradient of its output.

# %% A batch of 6 sequences with padding: whole, in three parts, on two replicas
PAD, V = 0, 9
ids = rng.integers(1, V, (6, 8))
ids[np.arange(8) >= np.array([8, 8, 7, 3, 3, 2])[:, None]] = PAD
model = nt.CausalLanguageModel(V, 12, 2, 1, max_len=8, rng=1).astype(np.float64)


def gradient(model, ids, summed=False):
    """Of the mean, or of the sum, over the targets that count; and their number."""
    criterion = nt.CrossEntropyLoss(ignore_id=PAD)
    model.zero_grad()
    criterion(model(ids[:, :-1]), ids[:, 1:])
    model.backward(criterion.backward(criterion.count if summed else 1.0))
    return np.concatenate([p.grad.ravel() for p in model.parameters()]), criterion.count


whole, N = gradient(model, ids)
parts = [gradient(model, ids[rows], summed=True) for rows in (slice(0, 2), slice(2, 4), slice(4, 6))]
claim("three parts: the sums, added, divided by all targets", apart(sum(g for g, _ in parts) / N, whole) < 1e-12,
      f"{' + '.join(str(n) for _, n in parts)} = {N} targets")
means = sum(g / n for g, n in parts) / 3
claim("the average of the three means is another gradient", apart(means, whole) > 0.05,
      f"relative error {apart(means, whole):.2f}, cosine {cosine_of(means, whole):.2f}")
claim("the batch twice: the same mean", apart(gradient(model, np.concatenate([ids, ids]))[0], whole) < 1e-12)
for title, batches, options in (("accumulate=3", [ids[0:2], ids[2:4], ids[4:6]], {"accumulate": 3, "workers": 1}),
                                ("workers=2", [ids], {"workers": 2})):
    trained = copy.deepcopy(model)
    trainer = nt.Trainer(trained, nt.CrossEntropyLoss(ignore_id=PAD), nt.SGD(trained.parameters(), lr=1.0), **options)
    row = trainer.step([(part[:, :-1], part[:, 1:]) for part in batches])
    moved = np.concatenate([(p.data - q.data).ravel() for p, q in zip(model.parameters(), trained.parameters())])
    claim(f"nt.Trainer with {title} steps along the whole batch's gradient", apart(moved, whole) < 1e-10
          and row["tokens"] == N and math.isclose(row["norm"], np.linalg.norm(whole)))

# %% [markdown]
# ## Exercises
#
# 1. With momentum μ, which lr is the largest that shrinks the steep direction? Search with `walk`, guess a formula.
# 2. Predict the second step of Adam if the first gradient was 1 and the second is 0. And if the second is -1?
# 3. Rotate the bowl by 45 degrees. Which of the three paths turns with it, which does not, and why?
# 4. Find the bug: `v = beta2 * v + (1 - beta1) * g ** 2`. What is its first step, and why does gradcheck pass?
# 5. Every step is clipped, to a tenth of its length. How does that change SGD, and how Adam?
# 6. Write accumulation for two batches where each calls `criterion.backward()` without a count. When is it right?
#
# With a checker (`numpy-transformer exercise check NN`): 19.1, 19.2, 19.3, 19.4.
