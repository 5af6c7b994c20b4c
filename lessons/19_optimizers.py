# %% [markdown]
# # 19 Optimizers
#
# Lesson 02b built gradient descent, momentum and Adam. They are only a part of what makes training work. The recipe of
# a Transformer also says how the weights are drawn at the start, how the learning rate rises and falls, how weights
# decay, what happens to a gradient that is far too large, and how a batch is processed that does not fit into memory.
# This lesson takes these points one by one, and in the end puts them together in a single training step.
#
# First a look back at the narrow valley, to see how far a step may go.

# %% Imports, and the path of a parameter
import copy
import math

import numpy as np

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, drawing, figure, lesson, predict

lesson.start(__name__)
rng = np.random.default_rng(19)
CURVATURE = np.array([1.0, 25.0])           # L(w) = (1 w_0² + 25 w_1²) / 2
START = np.array([-8.0, 1.6])


def valley(w):
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
# ## 1. Stability
#
# In a direction with curvature λ, gradient descent multiplies w by 1 - lr λ, so it is stable only for lr < 2 / λ_max.
# Let κ = λ_max / λ_min be the condition number, here 25. The best lr still multiplies the distance to the minimum only
# by (κ - 1) / (κ + 1) per step, which is 24/26 = 0.92. With the best lr and the best μ, momentum tends to
# (sqrt(κ) - 1) / (sqrt(κ) + 1), which is 4/6 = 0.67 (Polyak 1964).
#
# Adam divides by the size of the gradients. If all gradients are multiplied by c, then m̂ and sqrt(v̂) are too, and c
# cancels. So if a loss is summed instead of averaged, Adam trains as before, and hides the mistake. Only
# eps limits this: the first step for a gradient g is lr |g| / (|g| + eps), which is half of lr if |g| = eps.

# %% The limit, the best rates, and what Adam does not see
just_below, just_above = (abs(walk(nt.SGD, [valley] * 300, lr=factor * 2 / 25)[-1, 1] / START[1])
                          for factor in (0.99, 1.01))
claim("with lr 1% below 2 / λ_max, w_1 shrinks; with lr 1% above, it grows", just_below < 0.01 and just_above > 100)
lengths = np.linalg.norm(walk(nt.SGD, [valley] * 200, lr=(2 / 6) ** 2, momentum=(4 / 6) ** 2)[1:], axis=1)
claim("with the best lr and μ, the distance shrinks by about 4/6 per step",
      abs((lengths[160] / lengths[60]) ** 0.01 - 4 / 6) < 0.02, f"{(lengths[160] / lengths[60]) ** 0.01:.2f}")
gradients = rng.standard_normal((8, 3))
for optimizer, factor in ((nt.Adam, 1), (nt.SGD, 100)):
    plain, times_100 = (walk(optimizer, gradients * c, np.zeros(3), lr=0.01) for c in (1, 100))
    claim(f"with gradients 100 times as large, {optimizer.__name__} takes steps {factor} times as long",
          relative_difference(times_100, factor * plain) < 1e-4)
predict("eps = 1e-8 and lr = 1. How long is Adam's first step for the gradient 1e-8?", 0.5,
        why="|g| / (|g| + eps) = 1e-8 / 2e-8.")
sizes = np.array([1e-10, 1e-8, 1e-6])
first = -walk(nt.Adam, [sizes], np.zeros(3), lr=1.0)[1]
claim("near eps, the first step is lr |g| / (|g| + eps)", np.allclose(first, sizes / (sizes + 1e-8)),
      ", ".join(f"{step:.3f} for {size:g}" for step, size in zip(first, sizes)))

# %% [markdown]
# ## 2. Initial weights
#
# Before the first step the weights are random numbers. A Linear adds up d_in products, so if its inputs have variance 1
# and its weights variance s², its outputs have variance d_in s². In backward, dx has the variance d_out s² times that
# of dy. Xavier initialization (Glorot and Bengio 2010) takes s² = 2 / (d_in + d_out) as a compromise. A uniform
# distribution in ±sqrt(6 / (d_in + d_out)) has this variance. In a plain stack of layers the size matters a lot: half
# the weights in each of 20 Linears make the output smaller by 2²⁰, about a million.
#
# A Transformer is less sensitive, because its norms bring the features back to one scale. But the size of the weights
# still decides about the first steps. The argument `init` of our models names four published choices. In the model
# below, with D = 32, the embedding table E has these standard deviations:
#
#     "xavier"   0.18      matrices as above, E drawn from N(0, 1/D)
#     "gpt2"     0.18      matrices N(0, 0.02²), those that end a branch smaller; E as "xavier"
#     "keras"    0.03      smaller matrices in attention, and E uniform in ±0.05
#     "bert"     0.018     everything N(0, 0.02²), truncated at two standard deviations
#
# The task: 800 words have hidden values, and a text of 12 words is positive if their values sum to more than 0.

# %% A plain stack, and the first 100 steps of a classifier
x = rng.standard_normal((50, 64))
y, halved = x, x
for _ in range(20):
    W = nt.Linear(64, 64, rng=rng).astype(np.float64).weight.data
    y, halved = y @ W, halved @ (W / 2)
claim("Xavier's weights have the variance 2 / (d_in + d_out)", abs(W.var() * 64 - 1) < 0.1)
claim("after 20 Linears with Xavier's weights, the features still have a size near 1", 0.1 < y.std() < 10)
claim("with half the weights they are smaller by 2²⁰", np.allclose(halved * 2 ** 20, y, rtol=1e-12))
values = rng.standard_normal(800)
frequency = 1 / (np.arange(800) + 20)       # a few frequent words and many rare ones
batches = 1 + rng.choice(800, (100, 32, 12), p=frequency / frequency.sum())
labels = (values[batches - 1].sum(-1) > 0).astype(float)
criterion = nt.BinaryCrossEntropyLoss()
start, largest, change = {}, {}, {}
for init in ("xavier", "gpt2", "keras", "bert"):
    model = nt.SequenceClassifier(801, 32, 2, 1, 64, hidden=32, max_len=12, dropout=0.0, init=init, rng=0)
    optimizer = nt.Adam(model.parameters(), lr=0.001)
    E = model.embedding.weight
    before = E.data.copy()
    losses = []
    for batch, label in zip(batches, labels):
        model.zero_grad()
        losses.append(criterion(model(batch), label))
        model.backward(criterion.backward())
        optimizer.step()
    moved = E.data - before
    start[init] = losses[0]
    largest[init] = abs(moved).max()
    change[init] = np.median(np.linalg.norm(moved[1:], axis=1) / np.linalg.norm(before[1:], axis=1))
    print(f"  {init:<7} std of E {before[1:].std():.3f}, first loss {start[init]:.3f}, largest change of an entry "
          f"{largest[init]:.3f}, median relative change of a row {change[init]:.2f}")
claim("matrices of size 0.02 begin within 0.01 of log 2", [abs(start[init] - math.log(2)) < 0.01
                                                           for init in ("gpt2", "bert")])
claim("the largest change of an entry is about the same in all tables",
      max(largest.values()) < 3 * min(largest.values()))
claim("the same steps change a row of E at least 3 times as much, relative to its size, with the small tables",
      min(change["keras"], change["bert"]) > 3 * max(change["xavier"], change["gpt2"]))

# %% [markdown]
# Two things held for all seeds that we tried. With small matrices the logits hardly depend on the input, so the first
# loss is log 2, that of a guess. And the relative change differs, because the length of an Adam step depends on lr and
# not on the size of the weight. So a row of a small table is soon made of what was learned, while a row of a large
# table stays mostly random. The learning rate and the size of the initial weights belong together, and to reproduce a
# result you need both.
#
# ## 3. Schedules
#
# Adam's first step has nearly full length for every entry, although its direction comes from a single batch. So
# training starts with a small learning rate, the **warm-up**. The paper (Vaswani et al. 2017, equation 3) uses
#
#     lr(n) = d_model^-0.5 min(n^-0.5, n warmup^-1.5)
#
# Up to step n = warmup the second expression is the smaller one, and lr grows by the same amount each step. After it,
# lr falls as 1 / sqrt(n). Near a minimum Adam's steps do not shrink by themselves, so lr has to fall. A cosine schedule
# (Loshchilov and Hutter 2017) falls to a small rate at a step that must be known in advance.

# %% Learning rates
def noam(n, D, warmup):
    return D ** -0.5 * min(n ** -0.5, n * warmup ** -1.5)


def cosine(n, lr, min_lr, warmup, steps):
    if n <= warmup:
        return lr * n / warmup
    return min_lr + (lr - min_lr) * (1 + math.cos(math.pi * (n - warmup) / (steps - warmup))) / 2


predict("Warm-up 4000. At which step does lr come down to half of its peak?", 16000,
        why="It falls as 1 / sqrt(n), so to halve it, n must be four times 4000.")
optimizer = nt.Adam([nt.Parameter(np.zeros(2))])
steps = range(1, 20_001)
for name, schedule, rate in (
        ("Noam", nt.NoamSchedule(optimizer, d_model=512, warmup=4000), lambda n: noam(n, 512, 4000)),
        ("cosine", nt.CosineSchedule(optimizer, lr=7e-4, min_lr=7e-5, warmup=4000, steps=20_000),
         lambda n: cosine(n, 7e-4, 7e-5, 4000, 20_000))):
    rates = []
    for _ in steps:
        schedule.step()                     # once per training step, before optimizer.step()
        rates.append(optimizer.lr)
    claim(f"{name}: the schedule sets the rate of the formula in every step",
          np.allclose(rates, [rate(n) for n in steps]))
claim("the peak of Noam's schedule is (512 · 4000)^-0.5, and step 16,000 has half of it",
      np.allclose([noam(4000, 512, 4000), noam(16_000, 512, 4000)], [2_048_000 ** -0.5, 2_048_000 ** -0.5 / 2]))
figure("schedules", views.schedules({"Noam: d_model 512, warm-up 4000": [noam(n, 512, 4000) for n in steps],
                                     "cosine: warm-up 4000, 20,000 steps": rates}))

# %% [markdown]
# ## 4. Weight decay
#
# Weights that are not needed should become small. L2 regularization adds wd w to the gradient. With SGD this is the
# same as multiplying w by 1 - lr wd. With Adam it is not, because wd w is divided by sqrt(v̂) like everything else: a
# weight with large gradients hardly decays, and one without other gradients first moves by lr, however small wd is.
# **AdamW** (Loshchilov and Hutter 2019) keeps the decay out of the gradient:
#
#     w = (1 - lr wd) w,   then Adam's step
#
# The factor lr follows PyTorch. Algorithm 2 of the paper multiplies wd only by the factor of the schedule. Usually
# matrices decay, but not biases and the gains of norms.

# %% Decay as a separate step, and inside the gradient
def adamw(w, gradients, lr, wd, beta1=0.9, beta2=0.999, eps=1e-8):
    m = v = np.zeros(w.shape)
    path = [w]
    for t, g in enumerate(gradients, start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        w = (1 - lr * wd) * w               # the only new line
        w = w - lr * m / (1 - beta1 ** t) / (np.sqrt(v / (1 - beta2 ** t)) + eps)
        path.append(w)
    return np.array(path)


ones = np.ones(3)
claim("nt.AdamW takes the same path", relative_difference(
    walk(nt.AdamW, gradients, ones, lr=0.01, weight_decay=0.1), adamw(ones, gradients, 0.01, 0.1)) < 1e-12)
first = [walk(nt.Adam, [lambda w: wd * w], ones, lr=0.01)[1, 0] for wd in (1e-3, 0.1)]
claim("with the decay inside the gradient, Adam's first step is lr for every wd", np.allclose(first, 0.99, rtol=1e-4))
layer = nt.Linear(3, 4, rng=1)
layer.bias.data = 1
W = layer.weight.data.copy()
nt.AdamW(layer.parameters(), lr=0.1, weight_decay=0.1, decay=lambda parameter: parameter.data.ndim >= 2).step()
claim("`decay` chooses which parameters decay: here the matrix does, and the bias does not",
      np.all(layer.bias.data == 1) and np.allclose(layer.weight.data, 0.99 * W))

# %% [markdown]
# ## 5. Clipping and accumulation
#
# A single unusual batch can have a gradient many times as long as usual. **Clipping** by the global norm (Pascanu,
# Mikolov and Bengio 2013) takes the norm of all gradients together, as if they were one vector. If it is above the
# limit, all are multiplied by limit / norm, so the direction stays the same. If two tensors have the norms 3 and 4, the
# global norm is 5, and with the limit 1 both are multiplied by 0.2. A limit for each tensor would change the direction.
#
# **Accumulation** processes a batch that is too large in parts, one after another, and adds up the gradients. The loss
# is a mean over the N targets that count (padding does not), so part k has to be weighted by its n_k targets:
#
#     gradient of the batch = (sum of n_k times the gradient of part k) / N
#
# `criterion.backward(n_k)` gives n_k times the gradient, since backward takes the gradient of the criterion's output.
#
# The function below is a whole training step in the order in which everything has to happen. `nt.Trainer` does the
# same. One published program calls `schedule.step()` once per tensor, so that its learning rate peaks far too early.

# %% A training step with everything in it
drawing("accumulation")
PAD, V = 0, 9
ids = rng.integers(1, V, (6, 8))
ids[np.arange(8) >= np.array([8, 8, 7, 3, 3, 2])[:, None]] = PAD
model = nt.CausalLanguageModel(V, 12, 2, 1, max_len=8, rng=1).astype(np.float64)
twin = copy.deepcopy(model)
criterion = nt.CrossEntropyLoss(ignore_id=PAD)


def accumulate(parts):
    """Leaves the gradient of the mean over all targets of the parts in the parameters. Returns the counts."""
    model.zero_grad()
    counts = []
    for part in parts:
        criterion(model(part[:, :-1]), part[:, 1:])
        model.backward(criterion.backward(criterion.count))
        counts.append(criterion.count)
    for parameter in model.parameters():
        parameter.grad = parameter.grad / sum(counts)
    return counts


def clip(limit):
    norm = math.sqrt(sum((parameter.grad ** 2).sum() for parameter in model.parameters()))
    for parameter in model.parameters():
        parameter.grad = parameter.grad * min(1, limit / norm)
    return norm


def gradient():
    return np.concatenate([parameter.grad.ravel() for parameter in model.parameters()])


accumulate([ids])
whole = gradient()
parts = [ids[0:2], ids[2:4], ids[4:6]]
counts = accumulate(parts)
claim("three parts, weighted by their targets, give the gradient of the whole batch",
      relative_difference(gradient(), whole) < 1e-12, f"{' + '.join(map(str, counts))} = {sum(counts)} targets")
norm = clip(0.1)
claim("after clipping, the norm is the limit and the direction is the same",
      np.allclose(gradient(), 0.1 * whole / norm))
accumulate([ids])
claim("nt.clip_grad_norm does the same, and returns the norm before clipping",
      math.isclose(nt.clip_grad_norm(model.parameters(), 0.1), norm) and np.allclose(gradient(), 0.1 * whole / norm))
options = {"eps": 1e-6, "weight_decay": 0.1}
optimizer = nt.AdamW(model.parameters(), **options)
schedule = nt.NoamSchedule(optimizer, d_model=512, warmup=3)
for _ in range(5):
    accumulate(parts)
    clip(0.1)
    schedule.step()
    optimizer.step()
optimizer = nt.AdamW(twin.parameters(), **options)
schedule = nt.NoamSchedule(optimizer, d_model=512, warmup=3)
trainer = nt.Trainer(twin, criterion, optimizer, schedule, clip=0.1, accumulate=3, workers=1)
trainer.fit(lambda n: (parts[n % 3][:, :-1], parts[n % 3][:, 1:]), steps=5)
by_hand, by_trainer = (np.concatenate([p.data.ravel() for p in m.parameters()]) for m in (model, twin))
claim("nt.Trainer takes the same five steps", relative_difference(by_trainer, by_hand) < 1e-6)

# %% [markdown]
# ## Exercises
#
# 1. With momentum μ, what is the largest lr for which w_1 shrinks in the valley? Search with `walk`, and then guess a
#    formula.
# 2. Rotate the valley by 45 degrees. Which of the paths of gradient descent, momentum and Adam rotate with it, which do
#    not, and why?
# 3. Find the bug: `v = beta2 * v + (1 - beta1) * g ** 2`. What is the first step, and why does gradcheck pass?
# 4. Suppose every step is clipped to a tenth of the gradient's length. How does this change SGD, and how does it change
#    Adam?
# 5. Write accumulation for two batches that each call `criterion.backward()` without a count. When is the result right?
#
# With a checker (`numpy-transformer exercise start my-exercises 19`): 19.1, 19.2, 19.3, 19.4.
