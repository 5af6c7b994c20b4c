# %% [markdown]
# # 21 Low-rank adaptation
#
# Someone has trained a large model, and you want it to do something else. **Full fine-tuning** continues training with
# all weights. It needs a gradient and two means of Adam for each weight, and it ends with a second model that is as
# large as the first. **LoRA**, low-rank adaptation (Hu et al. 2021), freezes all weights and learns a small correction
# to some of them, the product of two thin matrices A and B. (These are the paper's letters. In this lesson, A does not
# stand for scores.)
#
# You will write its forward and backward, choose its start, its rank and its learning rate, and count what it saves. At
# the end, a model that sorts letters learns to sort them in the reverse order.
#
# In the drawing, W keeps what the pretrained layer knows. Each column of A reads something from x, and the row of B
# with the same number says where to write it.

# %% A pretrained layer with four inputs and three outputs, and a correction of rank 2
import copy
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source, slopes
from numpy_transformer.module import unfilled

lesson.start(__name__)
drawing("low_rank")
x = np.array([[1.0, 0, 2, 0], [0, 1, 1, 3]])                        # two tokens
W = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])        # d_in = 4, d_out = 3
b = np.array([0.0, 1, 0])
A = np.array([[1.0, 0], [0, 1], [1, 0], [0, -1]])                   # column 0 reads x_0 + x_2, column 1 reads x_1 - x_3
B = np.array([[0.0, 0, 2], [1, 0, 0]])                              # row 0 writes to y_2, row 1 writes to y_0
s = 0.5


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. Forward and backward
#
# Let W be the weight of a Linear, with d_in rows and d_out columns. LoRA keeps W and b as they are and adds the
# product of A (d_in, r) and B (r, d_out):
#
#     h = x A
#     y = x W + b + s h B
#
# The factor s is a constant, usually written as s = α / r. With d_in = d_out = 768 and r = 8, W has 589,824 numbers,
# and A and B together have 12,288.
#
# Token 0 is (1, 0, 2, 0), so h = (3, 0), and s h B adds 0.5 · 3 · 2 = 3 to its output 2.
#
# In backward, h B and x A are products like x W in lesson 02. W is frozen, so dW is not computed. x appears twice, in
# x W and in x A, and both contributions to dx are added.

# %% Each line of backward under its line of forward
h = x @ A
y = x @ W + b + s * h @ B
dy = np.array([[1.0, 1, 1], [0, -1, 2]])
# y = x @ W + b + s * h @ B
dx = dy @ W.T
dB = s * h.T @ dy
dh = s * dy @ B.T
# h = x @ A
dA = x.T @ dh
dx = dx + dh @ A.T
show(y=y, dA=dA, dB=dB, dx=dx)
claim("forward is a Linear with the weight W + s A B", relative_error(y, x @ (W + s * A @ B) + b) < 1e-14)
for name, gradient, array, loss in [
        ("dA", dA, A, lambda A: np.sum(dy * (x @ W + b + s * (x @ A) @ B))),
        ("dB", dB, B, lambda B: np.sum(dy * (x @ W + b + s * (x @ A) @ B))),
        ("dx", dx, x, lambda x: np.sum(dy * (x @ W + b + s * (x @ A) @ B)))]:
    claim(f"{name} agrees with the complex step", relative_error(gradient, slopes(loss, array)) < 1e-13)

# %% The package's class computes the same
show_source(nt.LoRALinear.forward, nt.LoRALinear.backward)
layer = nt.LoRALinear(nt.Linear(4, 3).astype(np.float64), rank=2, alpha=1)      # s = alpha / rank
for parameter, value in zip((layer.weight, layer.bias, layer.A, layer.B), (W, b, A, B)):
    parameter.data = value
claim("nt.LoRALinear returns this y and dx",
      [relative_error(layer(x), y) < 1e-15, relative_error(layer.backward(dy), dx) < 1e-15])
claim("and has this dA and dB", [relative_error(layer.A.grad, dA) < 1e-15, relative_error(layer.B.grad, dB) < 1e-15])
claim("W and b are frozen: they have no gradient, and no memory for one",
      not any(parameter.has_grad for parameter in (layer.weight, layer.bias)))
predict("A feed-forward layer of GPT-2 has d_in = 768 and d_out = 3072. How many numbers do A and B have for r = 8?",
        768 * 8 + 8 * 3072, why="A has 768 · 8 entries, and B has 8 · 3072. W has 2,359,296.")

# %% [markdown]
# ## 2. The start: A is random, and B is zero
#
# A pretrained model should not get worse before it learns. With B = 0 the correction s A B is 0, so the first output is
# that of the pretrained model, bit for bit. But then dh = s dy Bᵀ is 0, and so is dA. Only B can move in the first
# step. As soon as B is not 0, A moves too.
#
# Why not A = 0 *and* B = 0? Then h = 0, and dB = s hᵀ dy is 0 as well. No optimizer that follows the gradient can leave
# this point. If both were random, the output would be changed before the first step.

# %% Three ways to start
for name, start_A, start_B in (("A random, B zero", A, 0 * B), ("A zero, B random", 0 * A, B),
                               ("A and B zero", 0 * A, 0 * B)):
    dA = x.T @ (s * dy @ start_B.T)
    dB = s * (x @ start_A).T @ dy
    print(f"  {name:16}  largest entry of dA {abs(dA).max():g}, of dB {abs(dB).max():g}")
    claim("the gradient of a factor is 0 exactly if the other factor is 0",
          [dA.any() == start_B.any(), dB.any() == start_A.any()])
model = nt.CausalLanguageModel(11, 32, 4, 2, max_len=8, rng=3)
ids = np.random.default_rng(21).integers(0, 11, (5, 8))
before = model(ids)
nt.add_lora(model.forget(), rank=4, targets=("query", "value"), rng=1)
claim("right after nt.add_lora, a model computes what it did before, bit for bit", np.array_equal(model(ids), before))

# %% [markdown]
# ## 3. What the rank limits
#
# The product of a (d_in, r) and an (r, d_out) matrix has at most r linearly independent rows: its **rank** is at most
# r. How much is lost? Suppose that the best change of W would be some matrix C. Every matrix is a sum of matrices of
# rank 1, whose sizes are its **singular values** σ1 ≥ σ2 ≥ ... The matrix of rank r that is closest to C keeps the r
# largest terms (Eckart and Young 1936). Its squared distance from C is the sum of the squares of the singular values
# that were dropped.
#
# In the next cell, the loss is half the squared distance between A B and C, and gradient descent finds the best matrix.
# LoRA therefore works well if the change that a task needs has a few large singular values and many small ones.

# %% Gradient descent finds the best matrix of rank r
predict("The singular values of C are 4, 3, 2, 1, 0.5 and 0.25. What is the squared distance that rank 3 leaves?",
        1 + 0.25 + 0.0625, why="Rank 3 keeps 4, 3 and 2. The squares of the others are 1, 0.25 and 0.0625.")
SIGMA = np.array([4, 3, 2, 1, 0.5, 0.25])
rng = np.random.default_rng(21)
left, right = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
C = left @ np.diag(SIGMA) @ right
for r in range(1, 6):
    first, second = rng.uniform(-1, 1, (6, r)) / math.sqrt(6), np.zeros((r, 6))
    for _ in range(2000):
        difference = first @ second - C     # dy, where x is the identity
        first, second = first - 0.05 * difference @ second.T, second - 0.05 * first.T @ difference
    best = math.sqrt(np.sum(SIGMA[r:] ** 2))
    claim(f"rank {r}: the distance from C is that of Eckart and Young",
          math.isclose(np.linalg.norm(first @ second - C), best, rel_tol=1e-3), f"{best:.3f}")

# %% [markdown]
# ## 4. Why LoRA needs a larger learning rate
#
# Adam divides each gradient by its size, so in the first step every entry of B moves by the learning rate lr. With full
# fine-tuning, every entry of W would move by lr. The entries of A are uniform in ±1/sqrt(d_in), as in the published
# code, so their variance is 1 / (3 d_in). An entry of s A B is a sum of r terms ± s lr a with these entries a, and its
# standard deviation is
#
#     s lr sqrt(r / (3 d_in))                 full fine-tuning: lr
#
# For d_in = 768 and r = 8 the factor is 1/17. With the rate of full fine-tuning, LoRA therefore hardly moves, so its
# rate has to be several times as large. The learning rate, s and r have to be chosen together: in the first steps, 2 s
# has the effect of 2 lr.

# %% The first step, measured
for d_in, r, s in ((32, 4, 1.0), (768, 8, 1.0), (768, 8, 2.0)):
    layer = nt.LoRALinear(nt.Linear(d_in, 64, rng=1).astype(np.float64), r, alpha=s * r, rng=1)
    layer(rng.standard_normal((100, d_in)))
    layer.backward(rng.standard_normal((100, 64)))
    nt.Adam(layer.parameters(), lr=0.001).step()
    moved = np.std(s * layer.A.data @ layer.B.data) / 0.001
    formula = s * math.sqrt(r / (3 * d_in))
    claim(f"d_in = {d_in}, r = {r}, s = {s:g}: the weight moves by s sqrt(r / (3 d_in)) lr",
          math.isclose(moved, formula, rel_tol=0.1), f"{moved:.3f} lr, by the formula {formula:.3f} lr")

# %% [markdown]
# ## 5. What LoRA saves
#
# In float32, full fine-tuning with Adam takes 16 bytes for each weight: the weight, its gradient, and the means m and
# v. A frozen weight takes 4 bytes. Only A and B take 16. So LoRA divides this memory by almost 4, however small A and B
# are. The *file* of a fine-tuned model shrinks much more: it contains A and B alone.
#
# What LoRA does not save: forward is as expensive as before. Backward still has to carry dx through every frozen layer
# down to the lowest A and B, and most activations are still kept for it.

# %% GPT-2, counted without storing it
with unfilled():                            # parameters have shapes, but no memory
    gpt2 = nt.CausalLanguageModel(50257, 768, 12, 12, max_len=1024)
weights = gpt2.num_parameters()
nt.add_lora(gpt2, rank=8, targets=("query", "value"))
trained = gpt2.num_parameters(trained=True)
claim("rank 8 on queries and values trains 0.24% of GPT-2", round(100 * trained / weights, 2) == 0.24,
      f"{trained:,} of {weights:,}")
in_full, with_lora = 16 * weights, 4 * weights + 16 * trained
claim("16 bytes for each weight become 4, and A and B hardly count", 3.9 < in_full / with_lora < 4,
      f"{in_full / 1e6:,.0f} MB, with LoRA {with_lora / 1e6:,.0f} MB")
predict("A fine-tuned GPT-2 in float32 has 498 MB. How many MB do the 294,912 numbers of A and B need (one decimal)?",
        round(4 * trained / 1e6, 1), why="Each of them has 4 bytes.")

# %% [markdown]
# ## 6. A model that sorts learns to sort in reverse
#
# The base model reads six letters and a separator, and writes the letters in alphabetical order. A second task asks
# for the reverse order. We fine-tune it with four learning rates, with all weights and with LoRA of rank 4 in all
# Linears of the blocks. Every run has 150 steps with the same batches.

# %% The base model, and fine-tuning with four rates
LETTERS, N, SEPARATOR = 8, 6, 8
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
    """Trains with Adam, and returns the mean loss of the last 20 steps."""
    optimizer, criterion = nt.Adam(model.parameters(), lr), nt.CrossEntropyLoss(ignore_id=-1)
    losses = []
    for n in range(steps):
        optimizer.lr = lr * min(1, (n + 1) / 10)                    # a short warm-up
        inputs, targets = batch([stream, n], reverse)
        model.zero_grad()
        losses.append(criterion(model(inputs), targets))
        model.backward(criterion.backward())
        nt.clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
    return np.mean(losses[-20:])


def right_letters(model, reverse):          # the share of letters that it predicts right, on 500 new words
    inputs, targets = batch(99, reverse, 500)
    return np.mean((model.eval()(inputs).argmax(-1) == targets)[:, N:])


base = nt.CausalLanguageModel(LETTERS + 1, 32, 4, 2, max_len=2 * N, rng=0)
train(base, False, 0.003, 400, stream=0)
claim("the base model sorts, but not in reverse", [right_letters(base, False) > 0.95, right_letters(base, True) < 0.25],
      f"{right_letters(base, False):.1%} and {right_letters(base, True):.1%} of the letters")
RATES = [1e-3, 3e-3, 1e-2, 3e-2]
results, models = {"all weights": [], "LoRA": []}, {}
for lr in RATES:
    for name, losses in results.items():
        tuned = copy.deepcopy(base).train()
        if name == "LoRA":
            nt.add_lora(tuned, rank=4, targets=EVERY_LINEAR, rng=1)
        losses.append(train(tuned, True, lr, 150, stream=1))
        models[name, lr] = tuned
    print(f"  lr {lr:<6g} loss with all weights {results['all weights'][-1]:.3f}, with LoRA {results['LoRA'][-1]:.3f}")
claim("with lr 0.001, all weights learn well and LoRA has learned little",
      [results["all weights"][0] < 0.3, results["LoRA"][0] > 3 * results["all weights"][0], results["LoRA"][0] > 1])
tuned = models["LoRA", RATES[int(np.argmin(results["LoRA"]))]]
claim("with a larger rate, LoRA sorts in reverse", right_letters(tuned, True) > 0.85,
      f"{right_letters(tuned, True):.1%} of the letters; it trains {tuned.num_parameters(trained=True):,} numbers of "
      f"{tuned.num_parameters():,}")
picture = Figure(figsize=(8, 4.5), layout="constrained")
axes = picture.subplots()
for name, losses in results.items():
    axes.plot(RATES, losses, "o-", label=name)
axes.axhline(math.log(LETTERS), color="0.6", linestyle=":", label="guessing a letter")
axes.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="mean loss of the last 20 of 150 steps",
         title="LoRA needs a larger learning rate")
axes.legend()
figure("rates", picture)

# %% [markdown]
# ## 7. One base model, many tasks
#
# The base model has not changed by a bit, and the new task is in A and B. For use, s A B can be **merged** into W
# once: then forward costs no more than before. W + s A B is rounded, so subtracting s A B again would not give exactly
# W. `merge` therefore keeps W, and `unmerge` puts it back. A server can hold one base model and a small file of A and B
# for each task.

# %% Merge and unmerge
frozen = {name: parameter.data for name, parameter in tuned.named_parameters() if parameter.frozen}
claim("training has not changed any frozen weight by a bit",
      all(np.array_equal(frozen[name], array) for name, array in base.state_dict().items()))
layers = [part for _, part in tuned.named_modules() if isinstance(part, nt.LoRALinear)]
inputs, _ = batch(5, True)
apart = tuned(inputs)
for layer in layers:
    layer.merge()
claim("merged, the model computes the same up to rounding", relative_error(tuned(inputs), apart) < 1e-5)
for layer in layers:
    layer.unmerge()
claim("unmerge restores every bit of W", all(np.array_equal(frozen[name], array)
                                             for name, array in base.state_dict().items()))

# %% [markdown]
# The command `numpy-transformer train classifier --pretrained FILE --lora 8` does all of this.
#
# ## Exercises
#
# 1. A Linear has d_in = 4, d_out = 3, rank 1, s = 0.5 and B = (1, 0, 2). For one row x = (1, 0, 2, 0) and dy = (1, 1,
#    1), what is dA? Which rows of A cannot move, whatever dy is?
# 2. Someone initializes A and B with zeros and reports that the loss does not change, "so the learning rate must be
#    too small". What do you answer? What would happen with weight decay, and with a random B?
# 3. You double the rank and keep α. What happens to s, and to the first step of Adam (section 4)?
# 4. GPT-2's Linears have biases. How many numbers would you train, and how many bytes would you save, if you froze
#    all weights and trained the biases alone? What can such a model not learn in a layer?
# 5. In section 6, use `targets=("query", "value")` with rank 1, 4 and 16. Does a higher rank, or do more layers help?
#
# With a checker (`numpy-transformer exercise start my-exercises 21`): 21.1, 21.2, 21.3.
