# %% [markdown]
# # 04c Attention over a recurrent network's states
#
# A recurrent cell must carry everything that it has read in one state (lesson 04b). Attention was invented to remove
# this limit: Bahdanau et al. (2015) kept **all** states of the network that reads, and let the network that writes look
# at them again before each word. In this lesson you will build their attention forward and backward, train it on a task
# on which a single state fails, and compare counting, the recurrent cell and attention on one text.
#
# Here the words query, key and value get their first meaning: the **query** is the state of the network that writes,
# and the states of the network that reads are both **keys** (to be compared with the query) and **values** (to be
# averaged). In the Transformer, all three are computed from the vectors of tokens (lesson 05).

# %% The cell of lesson 04b, with a start state as its second input
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict
from numpy_transformer.data import CharTokenizer, builtin_text

lesson.start(__name__)


def matrix(rng, *shape):
    return nt.Parameter(rng.standard_normal(shape).astype(np.float32) / shape[0] ** 0.5)


class RecurrentCell(nt.Module):
    """h_t = tanh(h_(t-1) W + x_t U + b) from h_0 = start on; x (B, T, D), start (B, D) -> states (B, T, D)."""

    def __init__(self, D, rng):
        self.W, self.U = matrix(rng, D, D), matrix(rng, D, D)
        self.b = nt.Parameter(np.zeros(D, np.float32))

    def forward(self, x, start):
        h = [start]
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
        self.W.grad += (np.stack(h[:-1], axis=1).mT @ da).sum(0)
        self.U.grad += (x.mT @ da).sum(0)
        self.b.grad += da.sum((0, 1))
        return da @ self.U.data.T, dh


# %% [markdown]
# ## 1. One context vector
#
# The early neural translators (Cho et al. 2014; Sutskever et al. 2014) consist of two recurrent networks. The
# **encoder** reads the source and ends in the states h_1, ..., h_S. The last state h_S is the **context vector**: all
# that is handed on. The **decoder** starts from it, reads the target up to token t, and predicts the next token.
#
# The context vector has the same size for 3 words and for 30. This is the bottleneck.
#
# ## 2. Attention over the states
#
# The decoder's state q_t is compared with each encoder state h_s. A small network computes the score A_ts, a softmax
# turns the scores of a row into weights, and the weighted mean of the states is the context c_t of step t:
#
#     A_ts = vᵀ tanh(q_t W + h_s U)            P = softmax(A)            c_t = sum over s of P_ts h_s
#
# In the paper these are section 3.1, equations 5 and 6, with the score in appendix A.1.2. Since q_t W and h_s U are
# added, this is called **additive** attention.
#
# For example, let each encoder state hold its position, a digit of the source and a constant 1, and let the query be
# the position to be read. The two units of the network compute tanh(4 (s - t) + 2) and tanh(4 (s - t) - 2). Their
# difference is large only if s = t, and v = (3, -3) turns it into the score.

# %% Five states with chosen numbers: forward
drawing("attention_over_states")
h = np.array([[0, 3, 1], [1, 1, 1], [2, 4, 1], [3, 1, 1], [4, 5, 1]], float)           # (S, D): position, digit, 1
q = np.array([[0], [1], [2], [3], [4]], float)                                         # (T, 1): the position to read
W, U, v = np.array([[-4., -4.]]), np.array([[4., 4.], [0., 0.], [2., -2.]]), np.array([3., -3.])
z = (q @ W)[:, None] + (h @ U)[None]                            # (T, S, d)
u = np.tanh(z)
A = u @ v                                                       # (T, S)
e = np.exp(A - A.max(-1, keepdims=True))
P = e / e.sum(-1, keepdims=True)
c = P @ h                                                       # (T, D)
print("  weights P\n    " + str(P.round(3)).replace("\n", "\n    "))
claim("each query finds the state of its own position", P.diagonal() > 0.95)
claim("so the contexts contain the digits 3 1 4 1 5", c[:, 1].round() == h[:, 1], f"rounded from {c[:, 1].round(2)}")
predict("would the query 2.5 read a mixture of two digits?", "yes",
        why="The positions 2 and 3 are equally far from 2.5, so they get equal weights.")

# %% [markdown]
# Backward goes from the last line to the first. h appears in two places, as value in the last line and as key in the
# first, so dh is a sum. In the first line q_t is also used for every s, and h_s for every t, which gives the sums over
# one axis of dz. (For softmax see lesson 01.) As the loss, let us take minus the digit that step 2 reads: L = -c[2, 1].

# %% Backward: each line under its line of forward
dc = np.zeros_like(c)
dc[2, 1] = -1
# c = P @ h
dP = dc @ h.T
dh = P.T @ dc
# P = softmax(A)
dA = P * (dP - (P * dP).sum(-1, keepdims=True))
# A = u @ v
du = dA[..., None] * v
dv = (dA[..., None] * u).sum((0, 1))
# u = np.tanh(z)
dz = du * (1 - u ** 2)
# z = (q @ W)[:, None] + (h @ U)[None]
dqW, dhU = dz.sum(1), dz.sum(0)
dq, dW = dqW @ W.T, q.T @ dqW
dh, dU = dh + dhU @ U.T, h.T @ dhU
claim("only higher scores of the digits 4 and 5 would lower L", (dA[2] < 0) == [0, 0, 1, 0, 1], str(dA[2].round(3)))


# %% The page
class AdditiveAttention(nt.Module):
    """q (B, T, D), h (B, S, D) -> contexts (B, T, D); mask (T, S): True where step t may look at state s."""

    def __init__(self, D, d, rng):
        self.W, self.U, self.v = matrix(rng, D, d), matrix(rng, D, d), matrix(rng, d)

    def forward(self, q, h, mask=True):
        u = np.tanh((q @ self.W.data)[:, :, None] + (h @ self.U.data)[:, None])        # (B, T, S, d)
        A = np.where(mask, u @ self.v.data, -np.inf)                                   # exp(-inf) = 0
        e = np.exp(A - A.max(-1, keepdims=True))
        self.weights = P = e / e.sum(-1, keepdims=True)
        self.remember(q, h, u, P)
        return P @ h

    def backward(self, dc):
        q, h, u, P = self.recall()
        dP, dh = dc @ h.mT, P.mT @ dc
        dA = P * (dP - (P * dP).sum(-1, keepdims=True))
        self.v.grad += np.tensordot(dA, u, 3)
        dz = dA[..., None] * self.v.data * (1 - u ** 2)
        dqW, dhU = dz.sum(2), dz.sum(1)
        self.W.grad += (q.mT @ dqW).sum(0)
        self.U.grad += (h.mT @ dhU).sum(0)
        return dqW @ self.W.data.T, dh + dhU @ self.U.data.T


rng = np.random.default_rng(1)
attention = AdditiveAttention(3, 2, rng).astype(np.float64)
attention.W, attention.U, attention.v = nt.Parameter(W), nt.Parameter(U), nt.Parameter(v)
its = [attention(q[None], h[None])[0], *(gradient[0] for gradient in attention.backward(dc[None])),
       attention.W.grad, attention.U.grad, attention.v.grad]
claim("forward and all gradients of the module equal ours",
      [np.allclose(a, b, rtol=1e-13, atol=1e-15) for a, b in zip(its, (c, dq, dh, dW, dU, dv), strict=True)])
x = rng.standard_normal((2, 5, 4))
cell, attention = RecurrentCell(4, rng).astype(np.float64), AdditiveAttention(4, 3, rng).astype(np.float64)
claim("gradcheck agrees for both modules, with random weights and inputs",
      [nt.gradcheck(cell, x, x[:, 0]).ok, nt.gradcheck(attention, x[:, :3], x).ok])

# %% [markdown]
# ## 3. Copying digits
#
# The task is to write the digits of the source again. Random digits say nothing about each other, so everything must
# come from the encoder. The first network attends to all states. The second may only attend to h_S, which then has the
# weight 1, so every c_t is h_S. Otherwise the two are the same: the decoder starts from h_S, and the logits are
# computed from tanh([q_t, c_t] M + m), as in Luong et al. (2015, equation 5). (Bahdanau et al. read the source in both
# directions, use the decoder's previous state as query, and let c_t enter its next state.) The third network has one
# context vector and writes the digits in reverse order. Its first digit is the one that was read last.

# %% Three networks learn to copy
class Readout(nt.Module):
    def __init__(self, D, V, rng):
        self.mix, self.tanh, self.output = nt.Linear(2 * D, D, rng=rng), nt.Tanh(), nt.Linear(D, V, rng=rng)

    def forward(self, q, c):
        return self.output(self.tanh(self.mix(np.concatenate([q, c], axis=-1))))

    def backward(self, dy):
        return np.split(self.mix.backward(self.tanh.backward(self.output.backward(dy))), 2, axis=-1)


class Translator(nt.Module):
    def __init__(self, D, one_vector, rng):
        self.source, self.target = nt.Embedding(11, D, rng=rng), nt.Embedding(11, D, rng=rng)
        self.encoder, self.decoder = RecurrentCell(D, rng), RecurrentCell(D, rng)
        self.attention, self.readout = AdditiveAttention(D, 16, rng), Readout(D, 10, rng)
        self.first = -1 if one_vector else 0                    # attention sees the states from this one on

    def forward(self, source, target):
        x = self.source(source)
        h = self.encoder(x, np.zeros_like(x[:, 0]))
        q = self.decoder(self.target(target), h[:, -1])
        self.remember(h.shape)
        return self.readout(q, self.attention(q, h[:, self.first:]))

    def backward(self, dy):
        dq, dc = self.readout.backward(dy)
        dh = np.zeros(self.recall(), dy.dtype)
        dq_attention, dh[:, self.first:] = self.attention.backward(dc)
        dx, dstart = self.decoder.backward(dq + dq_attention)
        self.target.backward(dx)
        dh[:, -1] += dstart                                     # h_S is the decoder's start state, too
        self.source.backward(self.encoder.backward(dh)[0])


def train(model, batch, steps):
    optimizer, criterion = nt.Adam(model.train().parameters()), nt.CrossEntropyLoss()
    for step in range(steps):
        optimizer.lr = 0.005 * (1 - 0.9 * step / steps)
        inputs, targets = batch(np.random.default_rng([3, step]))
        model.zero_grad()
        criterion(model(*inputs), targets)
        model.backward(criterion.backward())
        optimizer.step()
    return model.eval()


def digits(rng, n, count, reverse):
    source = rng.integers(0, 10, (count, n))
    answers = source[:, ::-1] if reverse else source
    return (source, np.pad(answers[:, :-1], ((0, 0), (1, 0)), constant_values=10)), answers        # 10: the beginning


def exact(model, n, reverse):
    inputs, answers = digits(np.random.default_rng([4, n]), n, 400, reverse)
    return (model(*inputs).argmax(-1) == answers).all(-1).mean()


networks, copies = {}, {}
predict("can one context vector hold longer strings if they are to be written in reverse order?", "yes",
        why="The digit to write first was read last, so it is still fresh in the state, and it needs only one step.")
for name, one_vector, reverse in (("attention", 0, 0), ("one vector", 1, 0), ("one vector, reversed", 1, 1)):
    networks[name] = model = train(Translator(32, one_vector, np.random.default_rng(6)),
                                   lambda rng: digits(rng, rng.integers(1, 13), 64, reverse), 1000)
    copies[name] = [exact(model, n, reverse) for n in range(1, 13)]
    print(f"  {name:<21}" + " ".join(f"{share:4.0%}" for share in copies[name]))
claim("attention: over 80% of the strings of 12 digits are copied without an error", copies["attention"][11] > 0.8)
claim("one vector: under 10% of the strings of 8 digits and more", max(copies["one vector"][7:]) < 0.1)
claim("one vector: longer strings in reverse order", copies["one vector, reversed"][5] > copies["one vector"][5] + 0.3)

# %% The alignment
source = np.array([[int(digit) for digit in "314159265358"]])
translator = networks["attention"]
translator(source, np.pad(source[:, :-1], ((0, 0), (1, 0)), constant_values=10))
P = translator.attention.weights[0]
picture = Figure(figsize=(11, 4.4), layout="constrained")
left, right = picture.subplots(1, 2, width_ratios=(1, 1.4))
left.imshow(P, "Blues", vmin=0)
left.set(xticks=range(12), xticklabels=source[0], yticks=range(12), yticklabels=source[0], title="attention weights P")
left.set(xlabel="source (keys, values)", ylabel="digit to write (queries)")
for (name, shares), style in zip(copies.items(), ("C0o-", "C1s--", "C2^:")):
    right.plot(range(1, 13), shares, style, label=name)
right.set(xlabel="digits in the string", ylabel="fraction copied without an error", xticks=range(1, 13))
right.legend()
figure("copies", picture)
claim("most steps look most at their own digit or at a neighbor", (abs(P.argmax(1) - np.arange(12)) <= 1).mean() > 0.7)

# %% [markdown]
# The training data do not say where to look. The network found the alignment because it lowers the loss. Sutskever et
# al. (2014, section 3.3) reversed the source for the same reason as our third network: each source word at the
# beginning then has a shorter way to its translation.
#
# ## 4. One text, one table
#
# Now back to the text of lesson 04b, with the same loss on the same characters. A recurrent language model gets
# attention over its own states: the query is h_t, and the keys and values are h_1, ..., h_t. The mask hides the later
# states, which have read what is to be predicted. For comparison, a mask that shows each step only its own state makes
# c_t = h_t: the same network without attention. As a look ahead, the table also has a Transformer of this package with
# about as many parameters, which has no recurrent cell at all.

# %% A recurrent language model with attention, and the 3-gram model of lesson 04b
class RecurrentModel(nt.Module):
    def __init__(self, D, look_back, rng):
        self.embedding, self.cell = nt.Embedding(V, D, rng=rng), RecurrentCell(D, rng)
        self.attention, self.readout = AdditiveAttention(D, 8, rng), Readout(D, V, rng)
        self.see = np.tri if look_back else np.eye              # which states step t may look at

    def forward(self, ids):
        x = self.embedding(ids)
        h = self.cell(x, np.zeros_like(x[:, 0]))
        return self.readout(h, self.attention(h, h, self.see(h.shape[1], dtype=bool)))

    def backward(self, dy):
        dh, dc = self.readout.backward(dy)
        dh = dh + sum(self.attention.backward(dc))              # h is query, key and value
        self.embedding.backward(self.cell.backward(dh)[0])


text = " ".join(builtin_text().lower().split())
tokenizer = CharTokenizer(text)
V = tokenizer.vocab_size
train_ids, held_out = np.split(np.array(tokenizer.encode(text)), [len(text) * 9 // 10])
held_out = held_out[:16 * (len(held_out) // 16) + 1]
P = np.full(V, 1 / V)
for n in (1, 2, 3):                             # count n-grams, and smooth with P, the model of the (n - 1)-grams
    count = np.zeros((V,) * n)
    np.add.at(count, tuple(train_ids[j:len(train_ids) - n + 1 + j] for j in range(n)), 1)
    P = (count + 5 * P) / (count.sum(-1, keepdims=True) + 5)
bits = {"3-gram": -np.log2(P[held_out[15:-2], held_out[16:-1], held_out[17:]]).mean()}


# %% One table of losses on one text
def windows(ids, starts):
    rows = ids[starts[:, None] + np.arange(33)]
    return (rows[:, :-1],), rows[:, 1:]


models = {"recurrent cell": RecurrentModel(96, False, np.random.default_rng(7)),
          "with attention": RecurrentModel(96, True, np.random.default_rng(7)),
          "Transformer": nt.CausalLanguageModel(V, 44, num_heads=4, num_layers=2, max_len=32, init="xavier", rng=7)}
for name, model in models.items():
    train(model, lambda rng: windows(train_ids, rng.integers(0, len(train_ids) - 32, 32)), 800)
    inputs, targets = windows(held_out, np.arange(0, len(held_out) - 32, 16))
    bits[name] = nt.CrossEntropyLoss().eval()(model(*inputs)[:, 16:], targets[:, 16:]) / np.log(2)
for name, loss in bits.items():
    print(f"  {name:<15} {loss:.2f} bits per character")
sizes = [model.num_parameters() for model in models.values()]
claim("the three networks have about the same number of parameters", max(sizes) < 1.05 * min(sizes))
claim("each of them is better than the 3-gram by over 0.15 bits", max([*bits.values()][1:]) < bits["3-gram"] - 0.15)
claim("attention changes the loss by less than 0.1 bits", abs(bits["with attention"] - bits["recurrent cell"]) < 0.1)
claim("the Transformer is not ahead by 0.1 bits either", bits["Transformer"] > bits["recurrent cell"] - 0.1)

# %% [markdown]
# On this text attention makes hardly any difference, whereas it decided the task with the digits. The next character
# depends mostly on the last few characters, and these are still present in the state. Daniluk et al. (2017) found the
# same with larger models: the attention of their language models mainly used the five most recent outputs. Attention
# helps where something far back has to be found again.
#
# The Transformer does not win this small race of 800 short steps, either. Its advantage is another one. The states of a
# recurrent cell must be computed one after another, and what a token says reaches a state k tokens later through k
# steps, in which its gradient fades (lesson 04b, section 6). If tokens attend to each other directly, without a cell,
# all positions are computed at once, every distance is one step, and much larger models can be trained on much longer
# texts. Vaswani et al. (2017) kept the attention and left the recurrent network out.
#
# ## Exercises
#
# 1. What is the gradient of W, U and v in a network whose encoder has a single state? Why?
# 2. The scores of attention are v · tanh(q_t W + h_s U). How many tanh must be computed for T queries and S states, and
#    how many multiplications does q_t · h_s need instead? Which of the two can be done by one matrix product?
# 3. Someone writes `dh = P.T @ dc` and forgets the second part, `dhU @ U.T`. Which claims fail? Which parameters of the
#    translator still get the right gradient?
# 4. In section 4 the mask is left out, so each step attends to all 32 states. What happens to the loss in training? Why
#    can this model not write a text?
# 5. Predict, then measure: the translator with attention has learned from strings of up to 12 digits. How well does it
#    copy 20 digits?
