# %% [markdown]
# # 19 Optimizers
#
# Backward tells us in which direction the loss falls. It does not tell us how far to go. The Transformer of 2017 left
# that to Adam, with a learning rate that first rises and then falls, and most models since do much the same. This
# lesson takes the optimizer apart: why plain gradient descent is slow in a stretched valley, what each line of Adam
# does, why the size of its first step is known in advance, and what schedules, weight decay, gradient clipping and
# gradient accumulation change.
#
# After this lesson you will be able to check an optimizer against known values, and to find the usual mistakes in one.
# About 15 minutes.

# %% Imports, and the path of a parameter
import copy
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, figure, lesson, predict

lesson.start(__name__)
rng = np.random.default_rng(19)
CURVATURE = np.array([1.0, 25.0])           # L(w) = (1 w0² + 25 w1²) / 2
START = np.array([-8.0, 1.6])


def bowl(w):
    """The gradient of L at w."""
    return CURVATURE * w


def walk(optimizer, gradients, start=START, **options):
    """The values of a parameter from its start to its last step.

    gradients has one entry for each step: an array, or a function that computes the gradient from the parameter.
    """
    parameter = nt.Parameter(start)
    path = [start]
    optimizer = optimizer([parameter], **options)
    for gradient in gradients:
        parameter.grad = gradient(parameter.data) if callable(gradient) else gradient
        optimizer.step()
        path.append(parameter.data.copy())
    return np.array(path)


def relative_difference(a, b):
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. Gradient descent in a stretched bowl
#
# Gradient descent computes w = w - lr dw. Near a minimum, a loss looks like a bowl with a curvature λ in each
# direction. There dw = λ w, so a step multiplies w by 1 - lr λ. This makes w smaller only if |1 - lr λ| < 1:
#
#     lr < 2 / λ   in every direction, so   lr < 2 / λ_max
#
# The steepest direction limits the learning rate, and with that rate the flattest direction makes little progress. Let
# κ = λ_max / λ_min be the condition number. The best lr is 2 / (λ_max + λ_min), and even that lr multiplies w only by
# (κ - 1) / (κ + 1) per step. In the bowl below, κ = 25 and the factor is 24/26 = 0.92.
#
# **Momentum** keeps a velocity: v = μ v + dw, w = w - lr v. Along the flat direction, the gradients agree and add up to
# 1 / (1 - μ) times a single one. Across it, they change sign and cancel. With the best lr and μ, the factor per step
# tends to (sqrt(κ) - 1) / (sqrt(κ) + 1), so sqrt(κ) takes the place of κ (Polyak 1964). For κ = 25 this is 4/6 = 0.67.

# %% The limit, the best rate, and momentum
low, high = CURVATURE
just_below, just_above = (abs(walk(nt.SGD, [bowl] * 300, lr=factor * 2 / high)[-1, 1] / START[1])
                          for factor in (0.99, 1.01))
claim("with lr 1 % below 2 / λ_max, w shrinks; with lr 1 % above, it grows", just_below < 0.01 and just_above > 100)
descent = walk(nt.SGD, [bowl] * 40, lr=2 / (high + low))
claim("with the best lr, both directions shrink by the factor (κ - 1) / (κ + 1) per step",
      np.allclose(abs(descent[1:] / descent[:-1]), 24 / 26))
momentum = walk(nt.SGD, [bowl] * 40, lr=0.02, momentum=0.8)
w, v = START, 0
by_formula = [START]
for _ in range(40):
    v = 0.8 * v + CURVATURE * w
    w = w - 0.02 * v
    by_formula.append(w)
claim("momentum follows its formula, step by step", relative_difference(momentum, by_formula) < 1e-12)

# %% [markdown]
# ## 2. Adam, line by line
#
# A network has millions of directions instead of two, and their curvatures are unknown. Adam (Kingma and Ba 2015) gives
# each number of a parameter its own step size. It computes this step size from two running means of the number's
# gradient g:
#
#     m = β1 m + (1 - β1) g      mean of g:  a direction
#     v = β2 v + (1 - β2) g²     mean of g²: a size
#     m̂ = m / (1 - β1ᵗ)          bias correction;
#     v̂ = v / (1 - β2ᵗ)          t counts the steps from 1
#     w = w - lr m̂ / (sqrt(v̂) + eps)
#
# **Why the bias correction?** m starts at 0. Written out, m_t = (1 - β1) (g_t + β1 g_(t-1) + ... + β1^(t-1) g_1). The
# weights (1 - β1)(1 + β1 + ... + β1^(t-1)) sum to 1 - β1ᵗ, not to 1. So if all g have the same mean,
#
#     E[m_t] = (1 - β1ᵗ) E[g]
#     E[v_t] = (1 - β2ᵗ) E[g²]
#
# and the divisions remove these factors. The first step is then -lr g / (|g| + eps), which is about lr for any size of
# g. For example, β1 = 0.9 and g = 2 give m = 0.2 after the first step, and m̂ = 0.2 / 0.1 = 2.

# %% Adam against a scalar reference, and the bias of its means
def adam(gradients, lr=0.01, beta1=0.9, beta2=0.999, eps=1e-8, correct_m=True, correct_v=True):
    """The values of a single number that starts at 0."""
    w, m, v = 0.0, 0.0, 0.0
    path = [w]
    for t, g in enumerate(gradients, start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        m_hat = m / (1 - beta1 ** t) if correct_m else m
        v_hat = v / (1 - beta2 ** t) if correct_v else v
        w -= lr * m_hat / (math.sqrt(v_hat) + eps)
        path.append(w)
    return path


gradients = rng.standard_normal((8, 3)) * [1, 30, 1e-3] + [0, 20, 0]        # eight steps of three numbers
for options in ({}, {"betas": (0.9, 0.98), "eps": 1e-9}, {"betas": (0.5, 0.7), "eps": 0.1}):
    path = walk(nt.Adam, gradients, np.zeros(3), lr=0.01, **options)
    beta1, beta2 = options.get("betas", (0.9, 0.999))
    eps = options.get("eps", 1e-8)
    reference = np.transpose([adam(column, 0.01, beta1, beta2, eps) for column in gradients.T])
    claim(f"nt.Adam agrees with the reference for betas {beta1}, {beta2} and eps {eps:g}",
          relative_difference(path, reference) < 1e-13)
noisy = nt.Parameter(np.zeros(100_000))                     # 100,000 numbers whose gradients have mean 0.7, variance 1
optimizer = nt.Adam([noisy])
for t in range(1, 11):
    noisy.grad = 0.7 + rng.standard_normal(noisy.data.shape)
    optimizer.step()
    if t in (1, 3, 10):
        m, v = optimizer.m[0].mean(), optimizer.v[0].mean()
        claim(f"t = {t:2}: E[m] = (1 - β1ᵗ) E[g] and E[v] = (1 - β2ᵗ) E[g²]", np.allclose(
            [m, v], [0.7 * (1 - 0.9 ** t), 1.49 * (1 - 0.999 ** t)], rtol=0.02), f"m {m:.3f}, v {v:.4f}")
predict("lr = 0.01. How long is Adam's first step for the gradient 0.00003?", 0.01,
        why="After the bias correction, m̂ = g and sqrt(v̂) = |g|. So the first step is lr times the sign of g, "
            "whatever the size of g is.")
sizes = np.array([3e-5, -2.0, 5e4])
first = walk(nt.Adam, [sizes], np.zeros(3), lr=0.01)[1]
claim("the first step is -lr sign(g)", np.allclose(first, -0.01 * np.sign(sizes), rtol=1e-3), str(first.round(5)))

# %% [markdown]
# **Mistakes in the bias correction** show in the first step, whatever the gradient is. Without both divisions, the
# first step is (1 - β1) / sqrt(1 - β2) = 0.1 / 0.0316 = 3.162 lr. With only m corrected it is 1 / sqrt(1 - β2) = 31.6
# lr, and with only v corrected it is 1 - β1 = 0.1 lr. Under a constant gradient, step t without both divisions is
# (1 - β1ᵗ) / sqrt(1 - β2ᵗ) lr. These steps grow at first, because v warms up more slowly than m, and they need
# thousands of steps to come back to lr.

# %% Steps under a constant gradient
cases = {"both": (True, True), "neither": (False, False), "only m": (True, False), "only v": (False, True)}
curves = {name: -np.diff(adam([0.3] * 5000, 1.0, correct_m=m, correct_v=v)) for name, (m, v) in cases.items()}
claim("with both corrected, every step is lr", np.allclose(curves["both"], 1))
claim("the first step is 3.162 lr with neither corrected, 31.6 lr with only m, 0.1 lr with only v",
      np.allclose([curves[name][0] for name in ("neither", "only m", "only v")], [10 ** 0.5, 1000 ** 0.5, 0.1]))
t = np.arange(1, 5001)
neither = curves["neither"]
claim("with neither corrected, step t is (1 - β1ᵗ) / sqrt(1 - β2ᵗ) lr", np.allclose(
    neither, (1 - 0.9 ** t) / np.sqrt(1 - 0.999 ** t)), f"largest {neither.max():.2f} lr, at t = {t[neither.argmax()]}")
spots = [0, 1, 2, 3, 5, 8, 13, 22, 38, 65, 110, 190, 320, 550, 950, 1600, 2800, 4800]
figure("bias_correction", views.step_sizes({f"{name} corrected: first step {curve[0]:.3g} lr": (t[spots], curve[spots])
                                            for name, curve in curves.items()}, "step t", "length of step t / lr"))

# %% [markdown]
# ## 3. What Adam does not see
#
# If all gradients are multiplied by c, then m̂ and sqrt(v̂) are multiplied by c as well, and c cancels. SGD, in
# contrast, takes steps that are c times as long. So if a loss is summed over equally large batches instead of averaged,
# or if its gradient is divided by the batch size twice, Adam trains as before. Adam hides such mistakes.
#
# **eps** limits this. The first step is lr |g| / (|g| + eps): it is half of lr if |g| = eps, and small if |g| is far
# below eps.
#
# In the bowl, Adam's first step goes along the diagonal, whatever the curvatures are. This has a price: near the
# minimum, the steps do not shrink as the gradient does. The learning rate has to fall instead (section 5).

# %% Scale, eps, and three paths
unscaled, times_100 = (walk(nt.Adam, gradients * c, np.zeros(3), lr=0.01, eps=1e-12) for c in (1, 100))
claim("with gradients 100 times as large, Adam takes the same steps", relative_difference(times_100, unscaled) < 1e-6)
unscaled, times_100 = (walk(nt.SGD, gradients * c, np.zeros(3), lr=0.01) for c in (1, 100))
claim("SGD takes steps 100 times as long", relative_difference(times_100, 100 * unscaled) < 1e-12)
sizes = np.array([1e-10, 1e-8, 1e-6])
first = walk(nt.Adam, [sizes], np.zeros(3), lr=1.0)[1]
claim("near eps = 1e-8, the first step is lr |g| / (|g| + eps)", np.allclose(-first, sizes / (sizes + 1e-8)),
      ", ".join(f"{-step:.3f} for {size:g}" for step, size in zip(first, sizes)))
adaptive = walk(nt.Adam, [bowl] * 40, lr=0.5)
claim("Adam's first step in the bowl is (lr, -lr), though the gradients are -8 and 40",
      np.allclose(adaptive[1] - START, [0.5, -0.5]))
paths = {"gradient descent, lr 2 / 26": descent, "momentum 0.8, lr 0.02": momentum, "Adam, lr 0.5": adaptive}
picture = Figure(figsize=(12, 4), layout="constrained")
x, y = np.meshgrid(np.linspace(-9, 3.5, 200), np.linspace(-2.2, 2.2, 100))
for axes, (name, path), style in zip(picture.subplots(1, 3, sharey=True), paths.items(), ("C1s-", "C2^-", "C0o-")):
    axes.contour(x, y, (x ** 2 + 25 * y ** 2) / 2, [0.5, 5, 15, 32, 60], colors="0.75")
    axes.plot(*path.T, style, markersize=4, linewidth=1.2)
    axes.plot(0, 0, "k+", markersize=12)
    axes.set(xlim=(-9, 3.5), ylim=(-2.2, 2.2), xlabel="w0 (curvature 1)", title=name)
picture.axes[0].set_ylabel("w1 (curvature 25)")
picture.suptitle("40 steps in the stretched bowl (+: the minimum)")
figure("paths", picture)

# %% [markdown]
# ## 4. Weight decay
#
# L2 regularization adds wd w to the gradient. With SGD, this is the same as an additional step w = (1 - lr wd) w. With
# Adam it is not, since wd w passes through the division by sqrt(v̂). Then a weight with large gradients hardly decays,
# and a weight without gradients moves by lr, however small wd is. AdamW (Loshchilov and Hutter 2019) keeps the decay
# out of the gradient: it first computes w = (1 - lr wd) w, and then takes Adam's step. (The factor lr follows PyTorch;
# algorithm 2 of the paper multiplies wd only by the factor of the schedule.) Usually the decay applies to matrices, but
# not to biases or to the gains of norms.

# %% Decay as a separate step, and inside the gradient
ones = np.ones(2)
no_gradient = np.zeros(2)
decayed = walk(nt.AdamW, [no_gradient] * 10, ones, lr=0.01, weight_decay=0.1)
claim("AdamW without gradients gives w = (1 - lr wd)ᵗ", np.allclose(decayed[:, 0], 0.999 ** np.arange(11)))
first_values = [walk(nt.Adam, [lambda w: wd * w], ones, lr=0.01)[1, 0] for wd in (1e-3, 0.1)]
claim("with the decay inside the gradient, Adam's first step is lr for every wd",
      np.allclose(first_values, 0.99, rtol=1e-4))
layer = nt.Linear(3, 4, rng=1)
layer.bias.data = 1
nt.AdamW(layer.parameters(), lr=0.1, weight_decay=0.1, decay=lambda parameter: parameter.data.ndim >= 2).step()
claim("`decay` chooses which parameters decay: here the matrix does, and the bias does not",
      np.all(layer.bias.data == 1)
      and np.allclose(layer.weight.data, 0.99 * nt.Linear(3, 4, rng=1).weight.data))

# %% [markdown]
# ## 5. Schedules
#
# Adam's first step has the length lr for every number, however little is known about its gradient. So training starts
# with a small learning rate. The paper (Vaswani et al. 2017, equation 3) uses
#
#     lr(n) = d_model^-0.5 min(n^-0.5, n warmup^-1.5)
#
# The two expressions are equal at n = warmup. Up to this step, lr grows by the same amount each step until it reaches
# (d_model warmup)^-0.5. After it, lr falls as 1 / sqrt(n). A cosine schedule (Loshchilov and Hutter 2017) has to know
# the number of steps in advance. `schedule.step()` is called once per training step, before `optimizer.step()`. One
# published program calls it once per tensor, and its learning rate reaches the peak far too early.

# %% Learning rates
optimizer = nt.Adam([nt.Parameter(np.zeros(2))])
n = np.arange(1, 20_001)
noam = nt.NoamSchedule(optimizer, d_model=512, warmup=4000)
claim("the optimizer has the rate of step 1 before the first call",
      math.isclose(optimizer.lr, 512 ** -0.5 * 4000 ** -1.5))
rates = []
for _ in n:
    noam.step()
    rates.append(optimizer.lr)
rates = np.array(rates)                     # rates[n - 1] is the rate of step n
claim("the Noam schedule follows the formula at every call",
      np.allclose(rates, 512 ** -0.5 * np.minimum(n ** -0.5, n * 4000 ** -1.5)))
claim("the peak is (512 · 4000)^-0.5, at n = warmup", n[rates.argmax()] == 4000
      and math.isclose(rates.max(), 2_048_000 ** -0.5), f"{rates.max():.2e}")
claim("at four times the warm-up, the rate is half of the peak", math.isclose(rates[16_000 - 1], rates.max() / 2))
cosine = nt.CosineSchedule(optimizer, lr=7e-4, min_lr=7e-5, warmup=4000, steps=20_000)
claim("the cosine schedule has its peak, middle and end where they are expected",
      np.allclose([cosine.rate(k) for k in (4000, 12_000, 20_000)], [7e-4, 38.5e-5, 7e-5]))
figure("schedules", views.schedules({"Noam: d_model 512, warm-up 4000": rates,
                                     "cosine: warm-up 4000, 20,000 steps": [cosine.rate(k) for k in n]}))

# %% [markdown]
# ## 6. Gradient clipping
#
# A single unusual batch can have a gradient many times as long as usual. Clipping by the global norm (Pascanu, Mikolov
# and Bengio 2013) computes the norm of all gradients together, as if they were one vector. If this norm is above the
# limit, all gradients are multiplied by limit / norm, so the direction stays the same. For example, two tensors with
# the norms 3 and 4 have the global norm 5, and with the limit 1 both are multiplied by 0.2. If each tensor had its own
# limit, only the long gradients would be cut, here both to the norm 1, and the direction would change.

# %% One global norm, or one norm for each tensor
parameters = [nt.Parameter(np.zeros(shape)) for shape in ((4, 3), 5, (2, 7))]
gradients = [size * rng.standard_normal(p.data.shape) for size, p in zip((8, 0.1, 1), parameters)]


def clipped(limit, together):
    """All gradients as one vector after clipping, and the norms that clip_grad_norm returns."""
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    groups = [parameters] if together else [[parameter] for parameter in parameters]
    norms = [nt.clip_grad_norm(group, limit) for group in groups]
    return np.concatenate([parameter.grad.ravel() for parameter in parameters]), norms


def cosine_similarity(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


whole = np.concatenate([gradient.ravel() for gradient in gradients])
after, norms = clipped(1.0, together=True)
claim("clip_grad_norm returns the norm before clipping", math.isclose(norms[0], math.sqrt(sum(whole ** 2))),
      f"{norms[0]:.1f}")
claim("after clipping, the norm is the limit and the direction is the same",
      np.allclose(after, whole / np.linalg.norm(whole)))
claim("a norm below the limit leaves the gradients unchanged", np.array_equal(clipped(100.0, together=True)[0], whole))
similarity = cosine_similarity(clipped(1.0, together=False)[0], whole)
claim("a limit for each tensor changes the direction", similarity < 0.9, f"cosine {similarity:.2f}")

# %% [markdown]
# ## 7. Gradient accumulation
#
# A batch that is too large for one forward pass can be processed in parts. The loss is a mean over the N targets that
# count (padding tokens do not), so the parts have to be weighted by their numbers of targets n_k:
#
#     gradient of the batch
#         = (sum of n_k times the gradient of part k) / N
#
# Lesson 20 derives this formula in its section 1, with a worked number, and shows why the plain mean of the parts'
# gradients is wrong. In code, `criterion.backward(n_k)` gives n_k times the gradient, since backward takes the gradient
# of the criterion's output. Accumulation processes the parts one after another. Data-parallel workers process them at
# the same time, on replicas of the model. The sum is the same.

# %% A batch of 6 sequences with padding: in three parts, and on two replicas
PAD, V = 0, 9
ids = rng.integers(1, V, (6, 8))
ids[np.arange(8) >= np.array([8, 8, 7, 3, 3, 2])[:, None]] = PAD
model = nt.CausalLanguageModel(V, 12, 2, 1, max_len=8, rng=1).astype(np.float64)


def gradient(model, ids, summed=False):
    """The gradient of the mean, or of the sum, over the targets that count; and the number of these targets."""
    criterion = nt.CrossEntropyLoss(ignore_id=PAD)
    model.zero_grad()
    criterion(model(ids[:, :-1]), ids[:, 1:])
    model.backward(criterion.backward(criterion.count if summed else 1.0))
    return np.concatenate([p.grad.ravel() for p in model.parameters()]), criterion.count


whole, N = gradient(model, ids)
parts = [gradient(model, ids[rows], summed=True) for rows in (slice(0, 2), slice(2, 4), slice(4, 6))]
claim("the summed gradients of three parts, divided by N, are the gradient of the whole batch",
      relative_difference(sum(g for g, _ in parts) / N, whole) < 1e-12,
      f"{' + '.join(str(n_k) for _, n_k in parts)} = {N} targets")
claim("a batch that contains every sequence twice has the same gradient",
      relative_difference(gradient(model, np.concatenate([ids, ids]))[0], whole) < 1e-12)
for title, batches, options in (("accumulate=3", [ids[0:2], ids[2:4], ids[4:6]], {"accumulate": 3, "workers": 1}),
                                ("workers=2", [ids], {"workers": 2})):
    trained = copy.deepcopy(model)
    trainer = nt.Trainer(trained, nt.CrossEntropyLoss(ignore_id=PAD), nt.SGD(trained.parameters(), lr=1.0), **options)
    row = trainer.step([(part[:, :-1], part[:, 1:]) for part in batches])
    moved = np.concatenate([(p.data - q.data).ravel() for p, q in zip(model.parameters(), trained.parameters())])
    claim(f"nt.Trainer with {title} takes a step along the gradient of the whole batch",
          relative_difference(moved, whole) < 1e-10
          and row["tokens"] == N and math.isclose(row["norm"], np.linalg.norm(whole)))

# %% [markdown]
# ## Exercises
#
# 1. With momentum μ, what is the largest lr for which the steep direction shrinks? Search with `walk`, and then guess a
#    formula.
# 2. Adam's first gradient was 1, and the second is 0. Predict the second step. What is it if the second gradient is -1?
# 3. Rotate the bowl by 45 degrees. Which of the three paths rotates with it, which does not, and why?
# 4. Find the bug: `v = beta2 * v + (1 - beta1) * g ** 2`. What is the first step, and why does gradcheck pass?
# 5. Suppose every step is clipped to a tenth of its length. How does this change SGD, and how does it change Adam?
# 6. Write accumulation for two batches that each call `criterion.backward()` without a count. When is the result right?
#
# With a checker (`numpy-transformer exercise check 19.1` and so on): 19.1, 19.2, 19.3, 19.4.
