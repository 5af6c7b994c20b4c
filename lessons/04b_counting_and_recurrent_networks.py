# %% [markdown]
# # 04b From counting to a recurrent cell
#
# A **language model** reads the beginning of a text and gives each possible next token a probability. Before we build
# such a model from attention, this lesson and the next one build its predecessors. Here we first count which characters
# follow which, and then let a **recurrent cell** read the text, a network that carries a state from token to token. You
# will write the backward of the cell, called backward through time, and see why its gradients fade.
#
# All models learn from the same text and are judged by the same loss on the same characters, so we can put them in one
# table. The text is the language reference that comes with Python, in lower case and without line breaks. One token is
# one character (lesson 02c). The first nine tenths are for training, and the rest is held out.

# %% The text, and its characters as numbers
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict
from numpy_transformer.data import CharTokenizer, builtin_text

lesson.start(__name__)
text = " ".join(builtin_text().lower().split())
tokenizer = CharTokenizer(text)
ids = np.array(tokenizer.encode(text))
V = tokenizer.vocab_size
train, held_out = np.split(ids, [len(ids) * 9 // 10])
held_out = held_out[:16 * (len(held_out) // 16) + 1]            # so that the windows of section 5 fit
print(f"  {len(ids):,} characters, {V} different ones; the held-out text begins with")
print(f"  {tokenizer.decode(held_out[:70])}")

# %% [markdown]
# ## 1. Counting
#
# An **n-gram model** predicts a token from the n - 1 tokens before it, the context. In "the cat sat on the mat", each
# of the three "a" is followed by "t". So a 2-gram model says that the probability of "t" after "a" is 3/3. In general,
#
#     P(c | context) = count(context, c) / count(context)
#
# What has never been counted has probability 0, and if it occurs, the loss -log(0) is infinite. So the counts are
# **smoothed**: each context gets k further observations, distributed as the model with the next shorter context
# predicts (MacKay and Peto 1995). Below the shortest context, all V tokens are equally likely.
#
#     P_n(c | context) = (count(context, c) + k P_(n-1)(c | shorter context)) / (count(context) + k)

# %% n-grams, on the small sentence and on the text
def contexts(ids, m):
    """The number of the m tokens before each token, from the m-th token on: a base-V number with m digits."""
    return sum(ids[j:len(ids) - m + j] * V ** (m - 1 - j) for j in range(m)) + np.zeros(len(ids) - m, int)


def ngram(ids, n, k=5):
    """The probabilities (V^(n - 1), V) of the next token, one row for each context."""
    P = np.full((1, V), 1 / V)
    for m in range(n):                                          # contexts of m tokens
        count = np.zeros((V ** m, V))
        np.add.at(count, (contexts(ids, m), ids[m:]), 1)
        shorter = P[np.arange(V ** m) % len(P)]                 # the row of the context without its first token
        P = (count + k * shorter) / (count.sum(-1, keepdims=True) + k)
    return P


sentence = np.array(tokenizer.encode("the cat sat on the mat"))
a, t = tokenizer.encode("at")
predict('what is P("t" after "a") in this sentence with k = 0?', "1",
        why='All three "a" are followed by "t", so it is 3/3.')
P_t = (5 + 5 / V) / (22 + 5)                                    # the 1-gram: five of the 22 characters are "t"
claim('with k = 5 it is (3 + 5 P("t")) / (3 + 5)', np.isclose(ngram(sentence, 2)[a, t], (3 + 5 * P_t) / 8),
      f"{ngram(sentence, 2)[a, t]:.3f}")
bits = {}
for n in (1, 2, 3):
    P = ngram(train, n)
    claim(f"{n}-gram: the probabilities of each context sum to 1", np.allclose(P.sum(-1), 1))
    predicted = P[contexts(held_out, n - 1), held_out[n - 1:]]
    bits[f"{n}-gram"] = -np.log2(predicted[18 - n:]).mean()     # the characters from number 17 on, for every model
    print(f"  {n}-gram: {bits[f'{n}-gram']:.2f} bits per character")
claim("a longer context is better, up to n = 3", bits["1-gram"] > bits["2-gram"] + 0.5 > bits["3-gram"] + 1)

# %% [markdown]
# The loss is the cross-entropy of lesson 01 with the logarithm to base 2, so it is measured in bits: nats divided by
# log(2). A model that knows nothing has log2(V) bits, and a model that always gives the right character the probability
# 1/2 has 1 bit.
#
# Why not simply increase n? There are V^(n - 1) contexts, and most long contexts never occur in the training text.
# Counts of "the cat sat" also say nothing about "the dog sat", although the two resemble each other.

# %% How many strings of the held-out text have never been seen?
train_text, held_text = tokenizer.decode(train), tokenizer.decode(held_out)
new = []
for n in range(1, 9):
    known = {train_text[i:i + n] for i in range(len(train_text) - n + 1)}
    new.append(np.mean([held_text[i:i + n] not in known for i in range(len(held_text) - n + 1)]))
    print(f"  strings of {n} characters: {new[-1]:6.1%} are new")
claim("the longer the strings, the more of them are new", np.all(np.diff(new) >= 0) and new[7] > 5 * new[2])

# %% [markdown]
# ## 2. A cell with a state
#
# A recurrent cell (Elman 1990) does not store contexts. It keeps a **state** h of D numbers, and each token changes it:
#
#     h_t = tanh(h_(t-1) W + x_t U + b)
#
# The same W, U and b are used at every step. Whatever the network knows about the text so far, it knows from h.
#
# For example, let x_t be 1 at "(", -1 at ")" and 0 elsewhere, and let the two units of the state not depend on each
# other. Unit 0 doubles its old value, and tanh holds it near 1 or -1. Unit 1 halves its old value.

# %% Two units read a text with brackets
drawing("recurrent_cell")
brackets = "x(abcdefg)z"
x = np.array([[{"(": 1.0, ")": -1.0}.get(c, 0.0)] for c in brackets])       # (T, 1)
W = np.array([[2.0, 0.0], [0.0, 0.5]])
U = np.array([[3.0, 1.0]])
b = np.zeros(2)
h = [np.zeros(2)]                                               # the state before the first token
for t in range(len(x)):
    a = h[t] @ W + x[t] @ U + b
    h.append(np.tanh(a))
y = np.stack(h[1:])                                             # (T, 2)
for c, state in zip(brackets, y):
    print(f"  {c}  {state[0]:6.2f} {state[1]:6.2f}")
claim("unit 0 is positive exactly inside the brackets", (y[:, 0] > 0) == [c in "(abcdefg" for c in brackets])
claim("at the g, unit 1 has almost forgotten the bracket", 0 < y[8, 1] < 0.01 < 0.9 < y[8, 0])

# %% [markdown]
# A 3-gram model cannot do what unit 0 does, because two characters after the bracket it no longer sees it.
#
# ## 3. Backward through time
#
# Read forward from its last line to its first, and ask where each variable appears. h_t appears in **two** places: it
# is the output of step t, and an input of step t + 1. So its gradient is the sum of dy_t and of what comes back from
# step t + 1. W, U and b appear in every step, so their gradients are sums over all steps. This is backpropagation as
# always, applied to a network that has one layer per token (Werbos 1990 calls it backpropagation through time).
#
# As the loss we take the sum of the state at the "g", so dy is 1 there and 0 elsewhere.

# %% Each line of backward under its line of forward
predict("which gradient fades faster on the way back: that of unit 0, which remembers, or of unit 1?", "0",
        why="The factor of unit 0 is 2 (1 - h²), with h near 1, so it is near 0. That of unit 1 is near 1/2.")
dy = np.zeros_like(y)
dy[8] = 1
dx, da = np.zeros_like(x), np.zeros_like(y)
dW, dU, db = np.zeros_like(W), np.zeros_like(U), np.zeros_like(b)
dh = np.zeros(2)                                                # nothing comes back from after the last step
for t in reversed(range(len(x))):
    # y[t] = h[t + 1]
    dh = dh + dy[t]
    # h[t + 1] = tanh(a)
    da[t] = dh * (1 - h[t + 1] ** 2)
    # a = h[t] @ W + x[t] @ U + b
    dh = da[t] @ W.T
    dx[t] = da[t] @ U.T
    dW += np.outer(h[t], da[t])
    dU += np.outer(x[t], da[t])
    db += da[t]
for c, row in zip(brackets, da):
    print(f"  {c}  {row[0]:9.6f} {row[1]:9.6f}")
factor = da[4:8] / da[5:9]                                      # from one step to the one before
claim("unit 1: each step back multiplies the gradient by about 1/2", np.abs(factor[:, 1] - 0.5).max() < 0.02)
claim("unit 0: each step back multiplies it by less than 1/5", factor[:, 0] < 0.2)
claim("later tokens have no gradient", da[9:] == 0)

# %% [markdown]
# Unit 0 remembers the bracket perfectly, and yet its gradient fades faster than that of the forgetful unit 1. tanh
# holds the value by being flat: 1 - h² is small there. A small change of the input is corrected, so it has no effect
# later. Bengio et al. (1994) showed that this is a general dilemma: a state that holds a value reliably has a gradient
# that vanishes with the distance.
#
# ## 4. The cell as a module
#
# The module does the same for a batch. The sums over the steps become matrix products after the loop.

# %% The page
class RecurrentCell(nt.Module):
    """h_t = tanh(h_(t-1) W + x_t U + b), from h = 0 on; x (B, T, D_in) -> states (B, T, D)."""

    def __init__(self, D_in, D, rng):
        self.W = nt.Parameter(rng.standard_normal((D, D)).astype(np.float32) / math.sqrt(D))
        self.U = nt.Parameter(rng.standard_normal((D_in, D)).astype(np.float32) / math.sqrt(D_in))
        self.b = nt.Parameter(np.zeros(D, np.float32))

    def forward(self, x):
        h = [np.zeros((len(x), len(self.W.data)), x.dtype)]
        for t in range(x.shape[1]):
            h.append(np.tanh(h[t] @ self.W.data + x[:, t] @ self.U.data + self.b.data))
        self.remember(x, h)
        return np.stack(h[1:], axis=1)

    def backward(self, dy):
        x, h = self.recall()
        da, dh = np.empty_like(dy), 0
        for t in reversed(range(x.shape[1])):
            dh = dh + dy[:, t]
            da[:, t] = dh * (1 - h[t + 1] ** 2)
            dh = da[:, t] @ self.W.data.T
        rows = da.reshape(-1, da.shape[-1])
        self.W.grad += np.stack(h[:-1], axis=1).reshape(rows.shape).T @ rows
        self.U.grad += x.reshape(len(rows), -1).T @ rows
        self.b.grad += rows.sum(0)
        return da @ self.U.data.T


cell = RecurrentCell(1, 2, np.random.default_rng(0)).astype(np.float64)
cell.W.data, cell.U.data = W, U
claim("forward and all gradients of the module equal ours", [
    np.allclose(ours, its[0] if its.ndim == 3 else its, rtol=1e-14, atol=1e-15) for ours, its in (
        (y, cell(x[None])), (dx, cell.backward(dy[None])), (dW, cell.W.grad), (dU, cell.U.grad), (db, cell.b.grad))])
rng = np.random.default_rng(1)
claim("gradcheck agrees, with random weights and inputs",
      nt.gradcheck(RecurrentCell(3, 4, rng).astype(np.float64), rng.standard_normal((2, 5, 3))).ok)

# %% [markdown]
# ## 5. Training it on the text
#
# The language model has an embedding (lesson 03), the cell, and a Linear that turns each state into V logits. It trains
# on windows of 32 characters, and each character of a window is predicted from those before it.
#
# For the table it reads held-out windows of 32 characters, and only the second half counts. So it has read more than 16
# characters before each prediction, and every character from number 17 on counts once, as for the n-grams.

# %% A recurrent language model
class RecurrentModel(nt.Module):
    def __init__(self, D, rng):
        self.embedding = nt.Embedding(V, D, rng=rng)
        self.cell = RecurrentCell(D, D, rng)
        self.output = nt.Linear(D, V, rng=rng)

    def forward(self, ids):
        return self.output(self.cell(self.embedding(ids)))

    def backward(self, dy):
        self.embedding.backward(self.cell.backward(self.output.backward(dy)))


def windows(ids, starts, T):
    """Inputs and targets (B, T): T characters from each start, and the same shifted by one."""
    rows = ids[starts[:, None] + np.arange(T + 1)]
    return rows[:, :-1], rows[:, 1:]


def held_out_bits(model):
    inputs, targets = windows(held_out, np.arange(0, len(held_out) - 32, 16), 32)
    return nt.CrossEntropyLoss().eval()(model.eval()(inputs)[:, 16:], targets[:, 16:]) / math.log(2)


model = RecurrentModel(128, np.random.default_rng(2))
bits["recurrent cell, untrained"] = held_out_bits(model)
before = RecurrentModel(128, np.random.default_rng(2)).cell     # the same initial weights, for section 6
model.train()
criterion = nt.CrossEntropyLoss()
optimizer = nt.Adam(model.parameters(), lr=0.005)
rng = np.random.default_rng(3)
for step in range(800):
    optimizer.lr = 0.005 * (1 - 0.9 * step / 800)               # smaller steps towards the end
    inputs, targets = windows(train, rng.integers(0, len(train) - 32, 32), 32)
    model.zero_grad()
    criterion(model(inputs), targets)
    model.backward(criterion.backward())
    optimizer.step()
bits["recurrent cell"] = held_out_bits(model)
for name, loss in bits.items():
    print(f"  {name:<26} {loss:.2f} bits per character")
claim("before training, the cell knows nothing", bits["recurrent cell, untrained"] > math.log2(V) - 0.1)
claim("after training, it is better than the 3-gram by over 0.2 bits", bits["recurrent cell"] < bits["3-gram"] - 0.2)

# %% [markdown]
# ## 6. The gradient over distance
#
# How much does a state depend on a character k steps earlier? We send a random gradient into the last state of many
# windows, and measure how long dx is k steps before. Each step back multiplies by 1 - h², which is at most 1, and by
# Wᵀ. If the largest singular value of W (the largest factor by which W lengthens a vector) is below 1, the gradient
# must therefore shrink at each step. If it is larger, the gradient may shrink or grow (Pascanu et al. 2013).

# %% Backward from the last state, before and after training
curves = {}
inputs, _ = windows(held_out, np.arange(0, 6400, 64), 64)
dy = np.zeros((len(inputs), 64, 128), np.float32)
dy[:, -1] = np.random.default_rng(4).standard_normal((len(inputs), 128))
for name, cell in (("at initialization", before), ("after training", model.cell)):
    cell.eval(remember=True)
    cell(model.embedding.eval()(inputs))
    curves[name] = np.linalg.norm(cell.backward(dy), axis=-1).mean(0)[::-1]         # index k: k steps before the last
    singular = np.linalg.svd(cell.W.data, compute_uv=False)[0]
    claim(f"{name}: the gradient 30 steps before is less than 1/10 of that at the last step", curves[name][30] <
          curves[name][0] / 10, f"1/{curves[name][0] / curves[name][30]:.0f}; largest singular value {singular:.1f}")
picture = Figure(figsize=(8, 4.2), layout="constrained")
axes = picture.subplots()
for (name, curve), style in zip(curves.items(), ("C1--", "C0-")):
    axes.semilogy(curve / curve[0], style, label=name, linewidth=2)
axes.set(xlabel="characters before the last state", ylabel="length of dx, relative", title="The gradient fades")
axes.grid(alpha=0.3)
axes.legend()
figure("fading", picture)

# %% [markdown]
# So training hardly tells the cell what to keep over long distances. LSTM cells (Hochreiter and Schmidhuber 1997) add
# gates that slow the fading down. But all that the network knows must still pass through the state, step by step. The
# next step in history lets the network look back at all of its states.
#
# ## Exercises
#
# 1. A 4-gram model needs V³ rows of V numbers. How many bytes is this in float64? How could you store only what occurs?
# 2. What does the smoothed formula give for a context that never occurred in the training text? And for k = 0?
# 3. Change unit 0 of section 2 so that it is positive exactly *outside* the brackets, also before the first one.
# 4. Someone forgets `dh +` in backward and writes `dh = dy[:, t]`. For which dy is the result still right? Would
#    gradcheck notice?
# 5. Why can the states of one sequence not be computed at the same time, while the n-gram probabilities can?
