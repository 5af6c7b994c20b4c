# %% [markdown]
# # 26 Optimizers after Adam
#
# Adam treats a matrix of weights as a list of numbers. This lesson presents three newer ideas. **Muon** (Jordan et al.
# 2024) looks at the matrix as a whole. **WSD** (Hu et al. 2024) is a schedule that need not know when training ends.
# **muP** (Yang et al. 2022) says how initial weights and learning rates depend on the width, so that the best rate of
# a small model is that of a large one. You will derive and write all three, and measure what they bring and cost.

# %% A language of eight letters, in which each letter depends on the two before it
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict

lesson.start(__name__)
SEED, V, T = 26, 8, 16
rng = np.random.default_rng(SEED)
NEXT = np.exp(2.5 * rng.standard_normal((V, V, V))).cumsum(-1)
NEXT = NEXT / NEXT[..., -1:]                # cumulative probabilities of the next letter


def batch(seed, count=16):                  # (inputs, targets): texts of T letters, and the letters that follow
    rng = np.random.default_rng([SEED, seed])
    ids = rng.integers(0, V, (count, T + 1))
    for t in range(2, T + 1):
        ids[:, t] = (rng.random((count, 1)) > NEXT[ids[:, t - 2], ids[:, t - 1]]).sum(-1).clip(0, V - 1)
    return ids[:, :-1], ids[:, 1:]


def model_of(width, layers=1, seed=SEED):
    return nt.CausalLanguageModel(V, width, 4, layers, max_len=T, init="xavier", rng=seed)


def gradients(model, inputs, targets):      # computes the gradients of a batch; returns the loss
    criterion = nt.CrossEntropyLoss()
    model.zero_grad()
    loss = criterion(model(inputs), targets)
    model.backward(criterion.backward())
    return float(loss)


def rms(array):
    return np.sqrt(np.mean(array ** 2))


# %% [markdown]
# ## 1. What a step does to a matrix
#
# Every matrix is a product G = U Σ Vᵀ. The columns of U and V have length 1 and are orthogonal, and Σ is diagonal with
# the **singular values** σ1 ≥ σ2 ≥ ... ≥ 0. A row x that is multiplied by G is split into the directions in U, each
# part is multiplied by its σ, and written in the direction in V with the same number.
#
# A few directions dominate a gradient, and so a step of gradient descent. Adam's step is more even, but its singular
# values still differ a lot.
#
# Muon takes U Vᵀ instead: all singular values are 1. Suppose a step -A may change no vector x by more than the length
# of x: |x A| ≤ |x|. To first order, it lowers the loss by sum G*A = sum σi (uiᵀ A vi), with the columns ui of U and vi
# of V. Each bracket is at most 1, and for A = U Vᵀ all are 1, so U Vᵀ lowers it most.

# %% Singular values of the gradient in step 1, and of Adam's and Muon's step 10
model = model_of(64)
gradients(model, *batch(0))
weight = model.decoder.blocks[0].feed_forward.down.weight
G = weight.grad.astype(np.float64)
U, sigma, Vt = np.linalg.svd(G, full_matrices=False)
spread = {"gradient": sigma[0] / np.median(sigma)}
for name, make in (("Adam", lambda model: nt.Adam(model.parameters(), 0.001)), ("Muon", nt.muon_with_adamw)):
    model = model_of(64)
    optimizer, weight = make(model), model.decoder.blocks[0].feed_forward.down.weight
    for n in range(10):
        gradients(model, *batch(n))
        before = weight.data.copy()
        optimizer.step()
    values = np.linalg.svd(weight.data - before, compute_uv=False)
    spread[name] = values[0] / np.median(values)
claim("the largest singular value of the gradient and of Adam's step is over 5 times the median, of Muon's below 2.5",
      [spread["gradient"] > 5, spread["Adam"] > 5, spread["Muon"] < 2.5],
      ", ".join(f"{name} {ratio:.1f}" for name, ratio in spread.items()))
others = [A / np.linalg.norm(A, 2) for A in (G, np.sign(G), *rng.standard_normal((100, *G.shape)))]
claim("to first order, U Vᵀ lowers the loss by the sum of the singular values, and 102 other steps lower it less",
      [math.isclose(np.sum(G * (U @ Vt)), sigma.sum()), max(np.sum(G * A) for A in others) < sigma.sum()])

# %% [markdown]
# ## 2. Newton-Schulz
#
# A singular value decomposition in every step is slow, but a polynomial is enough. Since UᵀU = VᵀV = 1,
#
#     X Xᵀ X = U Σ Vᵀ V Σ Uᵀ U Σ Vᵀ = U Σ³ Vᵀ
#
# So every **odd** power keeps U and V, and changes each singular value by itself:
#
#     a X + b (X Xᵀ) X + c (X Xᵀ)² X = U (a Σ + b Σ³ + c Σ⁵) Vᵀ
#
# An even power cannot do this: X Xᵀ = U Σ² Uᵀ has lost V. Divide G by its norm, the root of the sum of all squared
# singular values, so that none exceeds 1, and apply the polynomial five times. The coefficients 3.4445, -4.7750 and
# 2.0315 let small values grow quickly. They do not converge to 1: those above 0.0016 of the norm end between 0.68 and
# 1.21, which is good enough in practice. Smaller ones stay small: in this G more than half.

# %% Five lines, and what they do to singular values
drawing("orthogonal_step")
a, b, c = 3.4445, -4.7750, 2.0315


def iterate(X):
    for _ in range(5):
        XXt = X @ X.T
        X = a * X + (b * XXt + c * XXt @ XXt) @ X
    return X


def orthogonalize(G):
    return iterate(G / np.linalg.norm(G))


def in_scalars(s):
    for _ in range(5):
        s = a * s + b * s ** 3 + c * s ** 5
    return s


X = orthogonalize(G)
claim("U and V stay, and the polynomial is applied to each singular value",
      np.allclose(X, U * in_scalars(sigma / np.linalg.norm(sigma)) @ Vt, atol=1e-11))
claim("the package's function returns the same", np.allclose(X, nt.training.muon.orthogonalize(G), atol=1e-11))
ends = in_scalars(np.geomspace(0.0016, 1, 100_000))
claim("every value from 0.0016 of the norm on ends between 0.68 and 1.21", 0.68 < ends.min() and ends.max() < 1.21)
claim("more than half of those of G end below 0.68; of those of Muon's step (divided by its rate), more than a quarter",
      [np.median(np.linalg.svd(X, compute_uv=False)) < 0.68, np.quantile(values / 0.02, 0.25) < 0.68])
predict("A singular value is 0.0001 times the norm. How large is it after five iterations (three decimals)?",
        round(in_scalars(1e-4), 3), why="Its powers hardly count, so each iteration multiplies it by 3.4445.")
claim("a control: if the largest singular value is 1.3, it explodes", np.abs(iterate(1.3 * G / sigma[0])).max() > 1e6)

# %% [markdown]
# ## 3. Muon
#
# Muon keeps a momentum, looks one step ahead (Nesterov) and makes the result orthogonal:
#
#     v = μ v + g
#     w = w - lr sqrt(max(1, d_out / d_in)) orthogonalize(g + μ v)
#
# Muon is made for the matrices inside the blocks. A row of an embedding
# belongs to a single token, and gains and biases are no matrices, so these keep AdamW.
#
# **Cost.** For a D × D matrix, an iteration has three products of 2 D³ operations, so five have 30 D³. Forward and
# backward of n tokens have 6 n D². Muon therefore adds 5 D / n of that.

# %% Three steps, and the cost
# The root is the scale of the published code.
w, velocity, muon = G.T, 0, nt.Muon([nt.Parameter(G.T)], lr=0.02)           # (64, 256)
for g in rng.standard_normal((3, *w.shape)):
    velocity = 0.95 * velocity + g
    w = w - 0.02 * math.sqrt(max(1, 256 / 64)) * orthogonalize(g + 0.95 * velocity)
    muon.parameters[0].grad = g
    muon.step()
claim("nt.Muon takes the same steps", np.allclose(w, muon.parameters[0].data, atol=1e-12))
taken = [len(optimizer.parameters) for optimizer in nt.muon_with_adamw(model_of(64, 2)).optimizers]
claim("with two blocks, Muon takes six matrices of each, and AdamW the other 24 parameters", taken == [12, 24])
predict("A 64 x 64 matrix, and a batch of 16 texts of 16 tokens: by how many percent do its operations grow?", 125,
        why="5 · 64 / 256 = 1.25. With D = 768 and the 524,288 tokens of a large batch it is 0.7%.")
# A block has four such matrices, and two with the shape (64, 256), whose products have (8 + 2 + 8) 64³ operations.
print(f"  in a block, the operations of the matrices grow by {5 * (4 * 6 + 2 * 18) * 64 / (6 * 12 * 256):.0%}")

# %% [markdown]
# ## 4. Muon and WSD, measured
#
# We train a model of two blocks with several rates. The cosine schedule of lesson 19 falls from the
# first step on, so its whole course depends on the number of steps. **WSD** stands for warm-up, stable, decay: the
# rate stays constant, and falls to almost 0 over the last fifth. So you can train on without deciding when to stop,
# and start the decay from any checkpoint.

# %% The same model with two optimizers and two schedules
STEPS = 150


def train(name, lr, steps=STEPS, schedule="cosine"):
    # trains a model with two blocks; returns its loss on new texts, and the training losses
    model = model_of(64, layers=2)
    optimizer = nt.AdamW(model.parameters(), lr, (0.9, 0.95), weight_decay=0.0)
    if name == "Muon":
        optimizer = nt.muon_with_adamw(model, lr, adam_lr=2 ** -7)
    make, more = (nt.WSDSchedule, {"decay": 30}) if schedule == "WSD" else (nt.CosineSchedule, {})
    schedule = make(optimizer, lr=lr, min_lr=lr / 20, warmup=10, steps=steps, **more)
    losses = []
    for n in range(steps):
        losses.append(gradients(model, *batch(n)))
        schedule.step()
        optimizer.step()
    inputs, targets = batch(10_000, 200)
    return float(nt.CrossEntropyLoss()(model.eval()(inputs), targets)), losses


RATES = {"AdamW": [2 ** -8, 2 ** -7, 2 ** -6], "Muon": [2 ** -7, 2 ** -6, 2 ** -5, 2 ** -4]}
runs = {f"{name}, {steps} steps, {schedule}": [train(name, lr, steps, schedule) for lr in RATES[name]]
        for name, steps, schedule in (("AdamW", STEPS, "cosine"), ("AdamW", 240, "cosine"), ("AdamW", STEPS, "WSD"),
                                      ("Muon", STEPS, "cosine"), ("Muon", STEPS, "WSD"))}
best = {name: min(results)[0] for name, results in runs.items()}
print("  best losses: ", "; ".join(f"{name} {loss:.3f}" for name, loss in best.items()))
claim("after 150 steps, Muon's best loss is lower than AdamW's, with either schedule",
      [best[f"Muon, 150 steps, {kind}"] < best[f"AdamW, 150 steps, {kind}"] - 0.03 for kind in ("cosine", "WSD")])
claim("with the cosine schedule, AdamW reaches in 240 steps what Muon reaches in 150, to within 0.04",
      best["AdamW, 240 steps, cosine"] < best["Muon, 150 steps, cosine"] + 0.04)
claim("with either optimizer, WSD ends lower than the cosine schedule, each at its best rate",
      [best[f"{name}, 150 steps, WSD"] < best[f"{name}, 150 steps, cosine"] for name in RATES])
short, long = runs["AdamW, 150 steps, WSD"][1][1], train("AdamW", 2 ** -7, 180, "WSD")[1]
claim("a WSD run of 180 steps has the same first 120 steps, bit for bit", short[:120] == long[:120])
axes = Figure(figsize=(8, 4.5), layout="constrained").subplots()
for name, results in runs.items():
    style, losses = "o-" if "Muon" in name else "s--", [loss for loss, _ in results]
    axes.semilogx(RATES[name.split(",")[0]], losses, style, base=2, label=name)
axes.set(xlabel="learning rate", ylabel="loss on new texts", title="Several rates for each optimizer and schedule")
axes.legend(fontsize=9)
figure("muon", axes.figure)

# %% [markdown]
# For the same number of steps, Muon's loss is lower. For the same operations it is not: AdamW reaches in 240 steps
# about what Muon reaches in 150, and a step of Muon has twice the operations, because a batch of 256 tokens is so
# small. That Muon saves time in large models, as is said, cannot be seen here. At its best rate, WSD was better than
# cosine, but in runs this short, a high rate for longer helps anyway. These claims held on each of five seeds. At
# AdamW's highest rate, WSD was mostly worse.
#
# ## 5. How a step depends on the width
#
# An entry of y = x W is a sum of d_in products. At the start the weights are random, and signs cancel: the sum grows as
# sqrt(d_in), so the variance 1/d_in keeps y at one size. A step of Adam does *not* cancel. It moves the weight
# between x_i and y_j by lr against the gradient x_i dy_j, whose sign for one token is that of x_i times that of dy_j.
# So all d_in products change y_j in the same direction. With one rate for all widths, a wide model is changed more by
# each step. This gives (Yang et al. 2022, table 8, for Adam; D is the width of the model, d that of a head):
#
#                         variance of weights     learning rate     factor
#     hidden matrices     1/d_in                  1/d_in
#     tables              1                       1
#     output              1                       1                 1/D
#     attention                                                     q·k/d
#
# A token reads a single row of a table, so there is no sum. The output is tied to this table, and sums D features that
# have moved together, as q·k sums d. Biases and gains keep the rate. All of this is relative to a small base model,
# here of width 32, whose own settings do not change.

# %% One step of Adam for Linears of several widths, and muP in a few lines
moved = {}
for D in (64, 128, 256, 512):
    layer, (x, dy) = nt.Linear(D, D, rng=1).astype(np.float64), rng.standard_normal((2, 1, D))
    y = layer(x)
    layer.backward(dy)
    nt.Adam([layer.weight], lr=0.001).step()
    moved[D] = rms(layer(x) - y) / (0.001 * np.abs(x).sum())
predict("A Linear is 4 times as wide, with the same rate. How many times as far does Adam move its outputs?", 4,
        why="Every output is a sum over the inputs, and all of its terms move in the same direction.")
claim("the outputs move by the learning rate times the sum of |x_i|", np.allclose(list(moved.values()), 1, rtol=1e-4))


def mup(model, base):
    # sets initial weights and factors as in the table; returns {name: factor of the learning rate}
    small, rates = dict(base.named_parameters()), {}
    for name, parameter in model.named_parameters():
        wider = parameter.data.shape[0] / small[name].data.shape[0]         # d_in, compared with that of the base
        hidden = "blocks" in name and parameter.data.ndim == 2
        if parameter.data.ndim == 2:
            size = rms(parameter.data) * math.sqrt(wider if hidden else 1)
            parameter.data = parameter.data * rms(small[name].data) / size
        rates[name] = 1 / wider if hidden else 1
    D, D_0 = (one.embedding.weight.data.shape[1] for one in (model, base))
    model.output.factor = D_0 / D
    for block in model.decoder.blocks:      # four heads
        block.attention.attention = nt.RescaledAttention(math.sqrt(D_0 / 4) / (D / 4))
    return rates


base, mine, theirs = model_of(32, seed=1), model_of(128), nt.apply_mup(model_of(128), model_of(32, seed=1))
rates = mup(mine, base)
claim("nt.apply_mup sets the same weights and factors", np.allclose(mine(batch(0)[0]), theirs(batch(0)[0]), atol=1e-5))
factors = {id(p): factor for factor, group in nt.mup_groups(theirs, base).items() for p in group}
claim("nt.mup_groups has the same rates", all(rates[name] == factors[id(p)] for name, p in theirs.named_parameters()))

# %% [markdown]
# ## 6. The coordinate check
#
# Take three steps with models of several widths, and measure how far queries and logits have moved. With
# muP, it must not grow with the width. (It may shrink in the first steps: exercise 5.) This **coordinate check** is to
# muP what a gradient check is to backward.
#
# As a control, we forget the factor of the output.

# %% Widths from 32 to 512
# In a published implementation, this check raised the suspicion of a bug (EleutherAI/gpt-neox, issue 956).
def prepared(kind, width, lr):              # a model and its optimizer
    model = model_of(width)
    if kind == "standard":
        return model, nt.Adam(model.parameters(), lr)
    base = model_of(32, seed=1)
    nt.apply_mup(model, base)
    if "without" in kind:
        model.output.factor = 1.0
    return model, nt.CombinedOptimizer([nt.Adam(group, lr * f) for f, group in nt.mup_groups(model, base).items()])


def coordinates(model):                     # queries of the first block, and logits, for eight texts
    ids = batch(20_000, 8)[0]
    block = model.eval().decoder.blocks[0]
    queries = block.attention.query(block.norm1(model.positions(model.embedding(ids))))
    return np.array([queries[..., :V], model.train()(ids)])     # eight features of the queries, and eight logits


changes = {"standard": [], "muP": [], "muP without the output factor": []}
for kind, moves in changes.items():
    for width in (32, 64, 128, 256, 512):
        model, optimizer = prepared(kind, width, 2 ** -7)
        start = coordinates(model)
        for n in range(3):
            gradients(model, *batch(n))
            optimizer.step()
        moves.append(np.abs(coordinates(model) - start).mean((1, 2, 3)))
    print(f"  {kind:30}  queries", *(f"{q:.2f}" for q, _ in moves), "  logits", *(f"{z:.2f}" for _, z in moves))
growth = {kind: moves[-1] / moves[0] for kind, moves in changes.items()}
claim("standard: with width 512 both move at least 3 times as far as with width 32", min(growth["standard"]) > 3)
claim("muP: between 0.25 and 1.5 times as far", 0.25 < min(growth["muP"]) and max(growth["muP"]) < 1.5)
claim("the control fails: its logits move at least 3 times as far", growth["muP without the output factor"][1] > 3)

# %% [markdown]
# ## 7. The best learning rate
#
# Now train each model for 80 steps, with five rates.

# %% Loss over the learning rate
RATES, SIZES = [2.0 ** -k for k in (13, 11, 9, 7, 5)], (32, 128, 256)
picture = Figure(figsize=(10, 4.2), layout="constrained")
optimum, loss_of = {}, {}
for axes, kind in zip(picture.subplots(1, 2, sharey=True), ("standard", "muP")):
    for width in SIZES:
        for lr in RATES:
            (model, optimizer), losses = prepared(kind, width, lr), []
            for n in range(80):
                optimizer.lr = lr * min(1, (n + 1) / 5)
                losses.append(gradients(model, *batch(n)))
                optimizer.step()
            loss_of[kind, width, lr] = np.mean(losses[-10:])
        axes.plot(RATES, [loss_of[kind, width, lr] for lr in RATES], "o-", label=f"width {width}")
        optimum[kind, width] = min(RATES, key=lambda lr: loss_of[kind, width, lr])
    axes.set(xscale="log", xlabel="learning rate", ylabel="mean loss of the last 10 of 80 steps", title=kind)
    axes.legend()
    print(f"  {kind:8}  best rate", ", ".join(f"{optimum[kind, width]:.5f} (width {width})" for width in SIZES))
figure("rates", picture)
claim("standard: the best rate falls at least to a quarter from width 32 to 256",
      optimum["standard", 256] <= optimum["standard", 32] / 4)
claim("muP: the best rate is the same to within a factor of 4", len({optimum["muP", width] for width in SIZES}) == 1)
lr = optimum["muP", 32]
claim("with that rate, width 256 is better with muP than without, and better than width 32",
      loss_of["muP", 256, lr] < min(loss_of["standard", 256, lr], loss_of["muP", 32, lr]) - 0.05)

# %% [markdown]
# So you search for the rate with the small model, and train the large one once. But the number of layers, the batch and
# the length of training may still move the best rate.
#
# ## Exercises
#
# 1. What are the singular values of the first Muon step for a gradient of rank 1, u vᵀ? What does the step look like?
# 2. Someone writes `b * (X.T @ X) @ X` for square matrices. What is this in terms of U, Σ and V? Which claim finds the
#    mistake?
# 3. A run has 1,000 steps, and WSD decays over the last 100. At which step must you save a checkpoint to get a model of
#    500 steps with a decay of 100, too? Why does the cosine schedule not allow this?
# 4. For an untied output, table 3 of the paper has the variance 1/D², the rate 1/D and no factor.
#    Why is this, for Adam, the same as the variance 1, the rate 1 and the factor 1/D?
# 5. Plot the coordinate check for 30 steps instead of 3. What do the logits of muP do?
#
# With a checker (`numpy-transformer exercise start my-exercises 26`): 26.1, 26.2, 26.3.
