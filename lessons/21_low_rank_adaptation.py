# %% [markdown]
# # 21 Low-rank adaptation
#
# Someone has trained a large model, and you want it to do something else. **Full fine-tuning** continues training
# with all weights. It needs a gradient and two means of Adam for each weight, and it ends with a second model that is
# as large as the first. **LoRA**, low-rank adaptation (Hu et al. 2021), freezes all weights and learns a small
# correction to some of them, the product of two thin matrices. This lesson derives its forward and backward, shows
# why one of the two matrices starts at zero, what the rank limits, why LoRA needs a larger learning rate, and how
# much memory it saves. At the end, a model that sorts letters learns to sort them in the reverse order, with and
# without LoRA.
#
# After this lesson you will be able to write the backward of LoRA, choose its rank and its learning rate, and say
# what it saves and what it does not. Lessons 02 and 19 come first. About 15 minutes.

# %% A linear layer with a low-rank update
import copy
import itertools
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict, show, slopes
from numpy_transformer.module import unfilled

lesson.start(__name__)
rng = np.random.default_rng(21)


def relative_difference(a, b):
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def lora_layer(d_in, d_out, rank, alpha=None, seed=1):
    """A LoRALinear around a new Linear, in float64."""
    return nt.LoRALinear(nt.Linear(d_in, d_out, rng=seed).astype(np.float64), rank, alpha, rng=seed)


# %% [markdown]
# ## 1. Forward and backward
#
# Let W be the weight of a Linear, with d_in rows and d_out columns. LoRA keeps W and b as they are and adds the
# product of A (d_in, r) and B (r, d_out), where the rank r is small:
#
#     y = x W + b + s (x A) B,   s = α / r
#
# The factor s is a constant. For x with N rows, x A has only N r entries, and A B is never computed. With d_in =
# d_out = 768 and r = 8, W has 589,824 numbers, and A and B together have 12,288.
#
# **Backward.** Write M = W + s A B, so that y = x M + b. Lesson 02 derived dM = xᵀ dy and dx = dy Mᵀ. The two factors
# of a product A B get their gradients like the two factors of x M: dA = (gradient of the product) Bᵀ, and dB = Aᵀ
# (gradient of the product). The gradient of A B is s dM. Hence
#
#     dA = s dM Bᵀ = s xᵀ (dy Bᵀ)
#     dB = s Aᵀ dM = s (x A)ᵀ dy
#     dx = dy Mᵀ   = dy Wᵀ + s (dy Bᵀ) Aᵀ
#
# W is frozen, so dW is not needed. On the right, the parentheses are moved so that every product but dy Wᵀ has a thin
# factor: dM itself has the size of W, and computing it would cost as much as in full fine-tuning. x A is known from
# forward, and dy Bᵀ serves both dA and dx.
#
# **A worked number.** d_in = d_out = r = 1, x = 3, W = 2, A = 0.5, B = 4, s = 2: y = 3 · 2 + 2 · (3 · 0.5) · 4 = 18.
# With dy = 1: dA = 2 · 3 · 4 = 24, dB = 2 · 1.5 = 3, and dx = 2 + 2 · 4 · 0.5 = 6. Indeed 18 = 6 x.

# %% The formulas against nt.LoRALinear and the complex step
one = lora_layer(1, 1, 1, alpha=2)
for parameter, value in zip((one.weight, one.bias, one.A, one.B), (2, 0, 0.5, 4)):
    parameter.data = value
y = one(np.array([[3.0]]))
dx = one.backward(np.ones((1, 1)))
claim("the worked number: y = 18, dA = 24, dB = 3, dx = 6",
      [y.item(), one.A.grad.item(), one.B.grad.item(), dx.item()] == [18, 24, 3, 6])

layer = lora_layer(6, 5, rank=2, alpha=6)
layer.B.data = rng.standard_normal((2, 5))
W, b, A, B, s = layer.weight.data, layer.bias.data, layer.A.data, layer.B.data, layer.scale
x, dy = rng.standard_normal((4, 6)), rng.standard_normal((4, 5))
y = layer(x)
dx = layer.backward(dy)
claim("forward is x (W + s A B) + b", relative_difference(y, x @ (W + s * A @ B) + b) < 1e-14, f"s = {s:g}")
dM = x.T @ dy
claim("dA = s dM Bᵀ and dB = s Aᵀ dM, in whatever order the products are computed",
      relative_difference(layer.A.grad, s * dM @ B.T) < 1e-14
      and relative_difference(layer.B.grad, s * A.T @ dM) < 1e-14)
for name, array, gradient, loss in [
        ("dA", A, layer.A.grad, lambda A: np.sum(dy * (x @ W + b + s * (x @ A) @ B))),
        ("dB", B, layer.B.grad, lambda B: np.sum(dy * (x @ W + b + s * (x @ A) @ B))),
        ("dx", x, dx, lambda x: np.sum(dy * (x @ W + b + s * (x @ A) @ B)))]:
    claim(f"{name} agrees with the complex step", relative_difference(gradient, slopes(loss, array)) < 1e-13)
claim("W and b are frozen: they have no gradient, and no memory for one",
      not any(parameter.has_grad for parameter in (layer.weight, layer.bias)))
predict("A feed-forward layer of GPT-2 has d_in = 768 and d_out = 3072. How many numbers do A and B have for r = 8?",
        768 * 8 + 8 * 3072, why="A has 768 · 8 entries, and B has 8 · 3072. W has 2,359,296.")


def products(N, d_in, d_out, r):
    """Multiplications in backward: (all of a Linear, all of LoRA, LoRA if dM were computed)."""
    dense = N * d_in * d_out
    thin = N * r * (d_in + d_out)
    return 2 * dense, dense + 2 * thin, 2 * dense + 2 * r * d_in * d_out


full, lora, careless = products(4 * 128, 768, 768, 8)
claim("at GPT-2's width, LoRA's backward needs about half of the multiplications, because dW is missing",
      lora < 0.55 * full, f"{lora / full:.2f}")
claim("if dM were computed first, it would need more than full fine-tuning", careless > full, f"{careless / full:.2f}")

# %% [markdown]
# ## 2. The start: A is random, and B is zero
#
# A pretrained model should not get worse before it learns. With B = 0 the update s A B is 0, so the first output is
# that of the pretrained model, bit for bit. But then dA = s xᵀ (dy Bᵀ) = 0: only B can move in the first step. As
# soon as B is not 0, A moves too.
#
# Why not A = 0 *and* B = 0? Then dB = s (x A)ᵀ dy is 0 as well. Both gradients are zero, and they stay zero forever:
# this is a saddle point, which no optimizer that follows the gradient can leave. One of the two factors has to be
# random. If both were random, the output would be changed before the first step.

# %% Four ways to start
model = nt.CausalLanguageModel(11, 32, 4, 2, max_len=8, rng=3)
ids = rng.integers(0, 11, (5, 8))
targets = np.roll(ids, -1, axis=1)
before = model(ids)
model.forget()
nt.add_lora(model, rank=4, targets=("query", "value"), rng=1)
claim("with B = 0, the model computes what it did before, bit for bit", np.array_equal(model(ids), before))
model.forget()


def first_steps(random_A, random_B, steps=5):
    """Starts a copy of the model; returns (output changed, |dA|, |dB| in the first step, A B after some steps)."""
    twin = copy.deepcopy(model)
    layers = [part for _, part in twin.named_modules() if isinstance(part, nt.LoRALinear)]
    for n, part in enumerate(layers):
        part.A.data = np.random.default_rng(n).uniform(-1, 1, part.A.data.shape) / math.sqrt(32) if random_A else 0
        part.B.data = np.random.default_rng(n + 99).uniform(-1, 1, part.B.data.shape) / 2 if random_B else 0
    changed = not np.array_equal(twin.eval()(ids), before)
    twin.train()
    optimizer, criterion, sizes = nt.Adam(twin.parameters(), lr=0.01), nt.CrossEntropyLoss(), []
    for _ in range(steps):
        twin.zero_grad()
        criterion(twin(ids), targets)
        twin.backward(criterion.backward())
        sizes.append([max(np.abs(getattr(part, name).grad).max() for part in layers) for name in "AB"])
        optimizer.step()
    return changed, *sizes[0], max(np.abs(part.A.data @ part.B.data).max() for part in layers)


starts = {choice: first_steps(*choice) for choice in itertools.product((True, False), repeat=2)}
for (random_A, random_B), (changed, dA, dB, AB) in starts.items():
    print(f"    A {'random' if random_A else 'zero  '}  B {'random' if random_B else 'zero  '}   the output is "
          f"{'changed' if changed else 'the same'};  largest dA {dA:.1e}, dB {dB:.1e};  A B after 5 steps: {AB:.1e}")
changed, dA, dB, AB = starts[True, False]
claim("A random, B zero: the output is the same, dA is exactly 0 and dB is not",
      not changed and dA == 0 < dB and AB > 0)
claim("A and B zero: no gradient, and after five steps of Adam still no update", starts[False, False][1:] == (0, 0, 0))
claim("A and B random: the output is changed before training", starts[True, True][0])
claim("A zero, B random would do as well: the output is the same, and dA is not 0",
      not starts[False, True][0] and starts[False, True][1] > 0 == starts[False, True][2])

# %% [markdown]
# ## 3. What the rank limits
#
# The product of a (d_in, r) and an (r, d_out) matrix has at most r linearly independent rows: its **rank** is at most
# r. However long you train, W changes only in r directions. How much is lost? Suppose that the best change of W would
# be some matrix D. Eckart and Young (1936) answer which matrix of rank r is closest to D: keep the r largest of its
# singular values σ1 ≥ σ2 ≥ ... and drop the others. The squared distance is then the sum of the squares of those that
# were dropped.
#
# In the next cell, x is the identity matrix, so y is the matrix W + s A B itself, and the loss is half its squared
# distance from W + D. Gradient descent knows nothing of singular values, and finds the best matrix all the same. LoRA
# therefore works well if the change that a task needs has a few large singular values and many small ones.

# %% Gradient descent finds the best matrix of rank r
SIGMA = np.array([4, 3, 2, 1, 0.5, 0.25])
U, V = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
D = U @ np.diag(SIGMA) @ V
distances = []
for r in range(1, 6):
    layer = lora_layer(6, 6, r)
    layer.bias.data = 0
    goal = layer.weight.data + D
    optimizer = nt.SGD(layer.parameters(), lr=0.05, momentum=0.8)
    for _ in range(800):
        layer.zero_grad()
        layer.backward(layer(np.eye(6)) - goal)
        optimizer.step()
    update = layer.scale * layer.A.data @ layer.B.data
    distances.append(np.linalg.norm(update - D))
    best = math.sqrt(np.sum(SIGMA[r:] ** 2))
    claim(f"rank {r}: the update has rank {r}, and its distance from D is that of Eckart and Young",
          np.linalg.matrix_rank(update) == r and math.isclose(distances[-1], best, rel_tol=1e-3), f"{best:.3f}")
predict("The singular values of D are 4, 3, 2, 1, 0.5 and 0.25. What is the squared distance that rank 3 leaves?",
        1 + 0.25 + 0.0625, why="Rank 3 keeps 4, 3 and 2. The squares of the others are 1, 0.25 and 0.0625.")

# %% [markdown]
# ## 4. Why LoRA needs a larger learning rate
#
# With B = 0, the first step of gradient descent makes B = -lr dB = -lr s Aᵀ dM. So the weight M = W + s A B moves by
#
#     ΔM = s A B = -lr s² (A Aᵀ) dM           full fine-tuning: ΔM = -lr dM
#
# The entries of A are uniform in ±1/sqrt(d_in), as in the published code, so their variance is 1 / (3 d_in). On
# average, A Aᵀ is r / (3 d_in) times the identity: M moves along -dM only s² r / (3 d_in) times as far as with full
# fine-tuning. For d_in = 768, r = 8 and s = 1 this is 1/288.
#
# Adam divides each gradient by its size, so every entry of B moves by lr, and every entry of M would move by lr with
# full fine-tuning. An entry of s A B is then a sum of r terms ± s lr a, whose standard deviation is
#
#     s lr sqrt(r / (3 d_in))                 full fine-tuning: lr
#
# For d_in = 768 and r = 8 this is a factor of 1/17; for d_in = 32 and r = 4, it is 1/5. With the rate of full
# fine-tuning, LoRA therefore hardly moves, and section 6 will show that it looks as if it did not work. Its rate has
# to be several times as large. The learning rate, s and r have to be chosen together: in the first steps of Adam, 2 s
# has the effect of 2 lr.

# %% The first step of M, measured
def first_move(optimizer, d_in, r, lora, s=1.0):
    """Root mean square of the entries of ΔM in the first step with lr = 1, and of dM."""
    if lora:
        layer = lora_layer(d_in, 64, r, alpha=s * r)
    else:
        layer = nt.Linear(d_in, 64, rng=1).astype(np.float64)
    data = np.random.default_rng(2)
    x, dy = data.standard_normal((100, d_in)), data.standard_normal((100, 64))
    layer(x)
    layer.backward(dy)
    before = layer.weight.data.copy()
    optimizer(layer.parameters(), lr=1.0).step()
    moved = layer.scale * layer.A.data @ layer.B.data if lora else layer.weight.data - before
    return moved, x.T @ dy


for d_in, r, s in ((32, 4, 1.0), (768, 8, 1.0), (768, 8, 2.0)):
    moved, dM = first_move(nt.SGD, d_in, r, True, s)
    along = -np.sum(moved * dM) / np.sum(dM * dM)               # how far it moves along -dM
    wanted = s ** 2 * r / (3 * d_in)
    claim(f"SGD, d_in = {d_in}, r = {r}, s = {s:g}: M moves s² r / (3 d_in) times as far along -dM",
          math.isclose(along, wanted, rel_tol=0.2), f"{along:.4f}, by the formula {wanted:.4f}")
    moved, _ = first_move(nt.Adam, d_in, r, True, s)
    whole, _ = first_move(nt.Adam, d_in, r, False)
    ratio, wanted = np.std(moved) / np.std(whole), s * math.sqrt(r / (3 * d_in))
    claim(f"Adam, d_in = {d_in}, r = {r}, s = {s:g}: its entries move s sqrt(r / (3 d_in)) times as far",
          math.isclose(ratio, wanted, rel_tol=0.1), f"{ratio:.3f}, by the formula {wanted:.3f}")

# %% [markdown]
# ## 5. What LoRA saves
#
# In float32, full fine-tuning with Adam takes 16 bytes for each weight: the weight, its gradient, and the means m and
# v. A frozen weight takes 4 bytes, because it has no gradient, no m and no v. Only A and B take 16. So LoRA divides
# the memory by almost 4, however small A and B are; to save more, one would have to store W in fewer than 4 bytes.
# The *file* of a fine-tuned model shrinks much more: it contains A and B alone.
#
# What LoRA does not save: forward is as expensive as before. Backward still has to carry dx through every frozen
# layer down to the lowest A and B. And most activations are still kept for backward: attention, normalization and
# activation functions need them. Only a frozen Linear does not, because dx = dy Wᵀ does not contain x. (A LoRALinear
# needs x again, for dA.)

# %% GPT-2, counted without storing it; and a small model, measured
with unfilled():                            # shapes without memory
    gpt2 = nt.CausalLanguageModel(50257, 768, 12, 12, max_len=1024)
weights = gpt2.num_parameters()
nt.add_lora(gpt2, rank=8, targets=("query", "value"))
trained = gpt2.num_parameters(trained=True)
claim("rank 8 on queries and values trains 0.24 % of GPT-2", weights == 124_439_808 and trained == 24 * 2 * 768 * 8,
      f"{trained:,} of {weights:,}")
in_full, with_lora = 16 * weights, 4 * weights + 16 * trained
claim("16 bytes for each weight become 4, and A and B hardly count", 3.9 < in_full / with_lora < 4,
      f"{in_full / 1e6:,.0f} MB, with LoRA {with_lora / 1e6:,.0f} MB")
predict("A fine-tuned GPT-2 in float32 has 498 MB. How many MB does the file of A and B need (0.29 million numbers)?",
        round(4 * trained / 1e6, 1), why="294,912 numbers of 4 bytes.")


def bytes_in_use(model):
    """Bytes of all weights, gradients and means of Adam after a step, and of what a forward saves for backward."""
    optimizer, criterion = nt.Adam(model.parameters(), lr=0.001), nt.CrossEntropyLoss()
    criterion(model(ids), targets)
    saved = {id(value): value.nbytes for _, part in model.named_modules()
             for values in part.__dict__.get("_saved", ()) for value in values if isinstance(value, np.ndarray)}
    model.backward(criterion.backward())
    optimizer.step()
    arrays = [parameter.data for parameter in model.parameters()]
    arrays += [parameter.grad for parameter in model.parameters() if parameter.has_grad]
    arrays += optimizer.m + optimizer.v
    return sum(array.nbytes for array in arrays), sum(saved.values())


small = nt.CausalLanguageModel(11, 32, 4, 2, max_len=8, rng=3)
count = small.num_parameters()
state, saved = bytes_in_use(small)
adapted = nt.add_lora(nt.CausalLanguageModel(11, 32, 4, 2, max_len=8, rng=3), rank=2, rng=1)
lora_count = adapted.num_parameters(trained=True)
lora_state, lora_saved = bytes_in_use(adapted)
claim("the arrays of a small model have just these sizes: 16 bytes a weight, or 4 and 16",
      state == 16 * count and lora_state == 4 * count + 16 * lora_count, f"{state:,} and {lora_state:,} bytes")
claim("forward saves fewer activations, but still more than a quarter of them", 0.25 < lora_saved / saved < 1,
      f"{lora_saved / saved:.2f}")

# %% [markdown]
# ## 6. A model that sorts learns to sort in reverse
#
# The base model reads six letters and a separator, and writes the letters in alphabetical order. A second task asks
# for the reverse order. Attention has to look for other letters, while what the model knows about letters and
# positions stays useful. At first, the base model answers the new task confidently and wrongly, so its loss is far
# above log 8 = 2.08, the loss of guessing. We fine-tune it with six learning rates, with all weights and with LoRA of
# rank 4 in all Linears of the blocks. Every run has 150 steps with the same batches.

# %% The base model
LETTERS, N, SEPARATOR, STEPS = 8, 6, 8, 150
EVERY_LINEAR = ("query", "key", "value", "attention.output", "up", "down")


def batch(seed, reverse, count=64):
    """(inputs, targets): words, a separator, and the sorted words; only the sorted letters count as targets."""
    words = np.random.default_rng(seed).integers(0, LETTERS, (count, N))
    answers = np.sort(words, axis=1)[:, ::-1] if reverse else np.sort(words, axis=1)
    ids = np.concatenate([words, np.full((count, 1), SEPARATOR), answers], axis=1)
    targets = ids[:, 1:].copy()
    targets[:, :N] = -1
    return ids[:, :-1], targets


def train(model, reverse, lr, steps, stream):
    """Trains with AdamW, and returns the mean loss of the last 20 steps."""
    optimizer, criterion = nt.AdamW(model.parameters(), lr, weight_decay=0.0), nt.CrossEntropyLoss(ignore_id=-1)
    schedule = nt.ConstantSchedule(optimizer, lr, warmup=10)
    losses = []
    for n in range(steps):
        inputs, targets = batch([stream, n], reverse)
        model.zero_grad()
        losses.append(criterion(model(inputs), targets))
        model.backward(criterion.backward())
        nt.clip_grad_norm(model.parameters(), 1.0)
        schedule.step()
        optimizer.step()
    return np.mean(losses[-20:])


def right_letters(model, reverse):
    """The share of letters that the model predicts right, on 500 new words."""
    inputs, targets = batch(99, reverse, 500)
    answers = model.eval()(inputs).argmax(-1)
    model.train()
    return np.mean((answers == targets)[:, N:])


base = nt.CausalLanguageModel(LETTERS + 1, 32, 4, 2, max_len=2 * N, rng=0)
loss = train(base, False, 0.003, 400, stream=0)
claim("the base model sorts", right_letters(base, False) > 0.95,
      f"{right_letters(base, False):.1%} of the letters, loss {loss:.3f}")
inputs, targets = batch(7, True, 500)
loss = nt.CrossEntropyLoss(ignore_id=-1)(base(inputs), targets)
base.forget()
claim("it does not sort in reverse, and its loss is far above that of guessing",
      right_letters(base, True) < 0.25 and loss > 2 * math.log(LETTERS), f"{right_letters(base, True):.1%}, {loss:.2f}")

# %% Fine-tuning with six rates (about 20 seconds)
RATES = [3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
results = {"all weights": [], "LoRA": []}
models = {}
for lr in RATES:
    for name, losses in results.items():
        tuned = copy.deepcopy(base)
        if name == "LoRA":
            nt.add_lora(tuned, rank=4, targets=EVERY_LINEAR, rng=1)
        losses.append(train(tuned, True, lr, STEPS, stream=1))
        models[name, lr] = tuned
    print(f"    lr {lr:<6g}  loss with all weights {results['all weights'][-1]:.3f}, "
          f"with LoRA {results['LoRA'][-1]:.3f}")
best = {name: RATES[int(np.argmin(losses))] for name, losses in results.items()}
tuned = models["LoRA", best["LoRA"]]
whole = models["all weights", best["all weights"]]
whole_loss, lora_loss = (np.array(losses) / min(losses) for losses in results.values())         # relative to the best
claim("lr 0.003 is large enough for all weights, and too small for LoRA",
      whole_loss[RATES.index(3e-3)] < 1.5 < lora_loss[RATES.index(3e-3)],
      f"{whole_loss[RATES.index(3e-3)]:.1f} and {lora_loss[RATES.index(3e-3)]:.1f} times the loss of the best rate")
same_rate = results["LoRA"][RATES.index(1e-3)]
claim("with lr 0.001, all weights learn well and LoRA has learned little",
      same_rate > 3 * results["all weights"][RATES.index(1e-3)] and same_rate > 0.5, f"loss {same_rate:.2f}")
claim("with its own rate, LoRA sorts in reverse", right_letters(tuned, True) > 0.85,
      f"{right_letters(tuned, True):.1%} of the letters with {tuned.num_parameters(trained=True):,} trained numbers; "
      f"{right_letters(whole, True):.1%} with all {base.num_parameters():,}")
picture = Figure(figsize=(8, 4.5), layout="constrained")
axes = picture.subplots()
for name, losses in results.items():
    axes.plot(RATES, losses, "o-", label=name)
axes.axhline(math.log(LETTERS), color="0.6", linestyle=":", label="guessing a letter")
axes.set(xscale="log", yscale="log", xlabel="learning rate", ylabel=f"loss after {STEPS} steps",
         title="LoRA needs a larger learning rate")
axes.legend()
figure("rates", picture)

# %% [markdown]
# ## 7. One base model, many tasks
#
# The base model has not changed by a bit, and the new task is in A and B. For use, s A B can be **merged** into W
# once: then forward costs no more than before. To go back, it is not enough to subtract s A B again: W + s A B was
# rounded, so the difference is not exactly W. `merge` therefore keeps W, and `unmerge` puts it back. A server can
# hold one base model and a small file of A and B for each task.

# %% Merge, unmerge, and the ranks of the two updates
frozen = {name: parameter.data for name, parameter in tuned.named_parameters() if parameter.frozen}
claim("training has not changed any frozen weight by a bit",
      all(np.array_equal(frozen[name], array) for name, array in base.state_dict().items()))
layers = [part for _, part in tuned.named_modules() if isinstance(part, nt.LoRALinear)]
inputs, _ = batch(5, True)
tuned.eval()
apart = tuned(inputs)
rounding = 0
for layer in layers:
    W = layer.weight.data.copy()
    layer.merge()
    rounding = max(rounding, np.abs(layer.weight.data - layer.scale * (layer.A.data @ layer.B.data) - W).max())
claim("merged, the model computes the same up to rounding", relative_difference(tuned(inputs), apart) < 1e-5)
claim("subtracting s A B again would not restore W exactly", rounding > 0, f"difference up to {rounding:.0e}")
for layer in layers:
    layer.unmerge()
claim("unmerge restores every bit", np.array_equal(tuned(inputs), apart)
      and all(np.array_equal(frozen[name], array) for name, array in base.state_dict().items()))


def singular_values(update):
    return np.linalg.svd(update, compute_uv=False)


name = "decoder.blocks.0.attention.query"
query = dict(tuned.named_modules())[name]
state = whole.state_dict()
updates = {"all weights": singular_values(state[f"{name}.weight"] - base.state_dict()[f"{name}.weight"]),
           "LoRA, rank 4": singular_values(query.scale * query.A.data @ query.B.data)}
share = np.sum(updates["all weights"][:4] ** 2) / np.sum(updates["all weights"] ** 2)
claim("LoRA's update has rank 4; in that of full fine-tuning, all 32 singular values are above 0",
      np.sum(updates["LoRA, rank 4"] > 1e-5 * updates["LoRA, rank 4"][0]) == 4
      and np.all(updates["all weights"] > 1e-5 * updates["all weights"][0]))
claim("but the four largest have most of its squared size", share > 0.5, f"{share:.0%}")
picture = Figure(figsize=(8, 4.5), layout="constrained")
axes = picture.subplots()
for label, values in updates.items():
    axes.semilogy(np.arange(1, 33), np.maximum(values, 1e-9), "o-", label=label)
axes.set(xlabel="number of the singular value", ylabel="singular value", ylim=(1e-4, None),
         title="The update of a query weight")
axes.legend()
figure("singular_values", picture)
nt.merge_lora(tuned)
claim("nt.merge_lora gives an ordinary model, with the parameters of the base model",
      list(tuned.state_dict()) == list(base.state_dict()) and relative_difference(tuned(inputs), apart) < 1e-5)

# %% [markdown]
# In the package, `nt.add_lora(model, rank, targets)` freezes a model and adds the updates, and `trained=("output",)`
# also trains a new head in full. Optimizers, clipping and the checkpoints of a `Trainer` see the trained parameters
# alone. `numpy-transformer train classifier --pretrained FILE --lora 8` does all of this from the command line.
#
# ## Exercises
#
# 1. A Linear has d_in = 4, d_out = 3, rank 1, s = 0.5 and B = (1, 0, 2). For one row x = (1, 0, 2, 0) and dy = (1, 1,
#    1), what is dA? Which rows of A cannot move, whatever dy is?
# 2. Someone initializes A and B with zeros and reports that the loss does not change, "so the learning rate must be
#    too small". What do you answer? What would happen with weight decay, and with a random B?
# 3. You double the rank and keep α. What happens to s, to the first step of SGD, and to that of Adam (section 4)?
# 4. GPT-2's Linears have biases. How many numbers would you train, and how many bytes would you save, if you froze
#    all weights and trained the biases alone? What can such a model not learn in a layer?
# 5. In section 6, use `targets=("query", "value")` with rank 1, 4 and 16. Which losses do you get with the best rate
#    of each? Does a higher rank, or do more layers help?
# 6. A colleague freezes the embedding of a model whose output layer is tied to it, and wonders why the loss of a new
#    word falls so slowly. Why?
#
# With a checker (`numpy-transformer exercise check 21.1`): 21.1.
