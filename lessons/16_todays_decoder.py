# %% [markdown]
# # 16 Today's decoder
#
# GPT-2 (2019) and LLaMA (2023) follow the same plan: an embedding, blocks of causal attention and feed-forward layers,
# each in a residual connection with a norm before it, a final norm, and an output layer. Only a few parts have changed
# since GPT-2, and each of them takes a few lines of code:
#
#     part            GPT-2                LLaMA and later
#     positions       a vector is added    q and k are rotated
#     norm            LayerNorm            RMSNorm (lesson 08)
#     feed-forward    GELU, width 4 D      SwiGLU, width 8/3 D (lesson 09)
#     heads of k, v   as many as of q      often fewer
#     biases          everywhere           few or none
#
# This lesson builds the two parts that are new, rotary positions and grouped queries. After it you will be able to
# derive their backward, to say what they save, and to read an ablation, an experiment that exchanges one part at a
# time. Sources: Su et al. 2021 (rotary positions), Ainslie et al. 2023 (grouped queries), Touvron et al. 2023 (LLaMA,
# section 2.2).

# %% The same query and key at four positions
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source
from numpy_transformer.data import CharTokenizer, TextWindows, builtin_text
from numpy_transformer.layers.attention import repeat_heads, sum_over_groups

lesson.start(__name__)
rng = np.random.default_rng(16)


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


q = k = np.array([[1.0, 0]] * 4)            # four equal tokens: one pair of features, the arrow (1, 0)
angle = np.arange(4)[:, None] * math.pi / 6                         # 0, 30, 60 and 90 degrees

# %% [markdown]
# ## 1. Rotation instead of addition
#
# A query at position m and a key at position n meet in a dot product. Their score should depend on what the two tokens
# are and on the distance m - n, but not on where in the text they stand. Adding a position vector does not achieve
# this; a rotation does. Take two features as an arrow (a, b) in the plane. Rotated by the angle α, it becomes
#
#     (a cos α - b sin α,  a sin α + b cos α)
#
# Let the arrow at position t be rotated by t times 30 degrees. Four equal tokens then have four different arrows. The
# dot product of two arrows of length 1 is the cosine of the angle between them, so the score of q at position m and k
# at position n is cos(30° (m - n)). Moving both by the same number of positions rotates both by the same angle, and the
# angle between them remains.

# %% Four equal tokens get scores that depend on their distance only
def rotate(x, cos, sin):
    """Rotates the pairs (x_0, x_1), (x_2, x_3), ... of each row."""
    a, b = x[..., 0::2], x[..., 1::2]
    y = np.empty_like(x)
    y[..., 0::2] = a * cos - b * sin
    y[..., 1::2] = a * sin + b * cos
    return y


predict("two equal tokens, three positions apart: what is their score?", 0,
        why="Three times 30 degrees is a right angle, and the dot product of orthogonal arrows is 0.")
cos, sin = np.cos(angle), np.sin(angle)
A = rotate(q, cos, sin) @ rotate(k, cos, sin).T                     # the scores
show(rotated_q=rotate(q, cos, sin), A=A)
drawing("rotary")
claim("the score of positions m and n is cos(30° (m - n))",
      [abs(A[m, n] - math.cos(math.radians(30 * (m - n)))) < 1e-15 for m in range(4) for n in range(4)])

# %% [markdown]
# A head has d features, that is, d/2 pairs. Pair i is rotated by t θ_i with θ_i = 10000^(-2i/d), the frequencies of the
# sinusoidal positions of lesson 04: the first pairs turn quickly and tell neighbors apart, and the last ones turn
# slowly and measure long distances. For d = 4 the angles per position are 1 and 0.01 radians.
#
# **Backward.** Each feature appears twice. From the last two lines of `rotate`,
#
#     da =  cos dy_a + sin dy_b
#     db = -sin dy_a + cos dy_b
#
# which is a rotation of the pair (dy_a, dy_b) by minus the angle: the gradient is rotated back. No parameter is
# learned.
#
# A second view uses complex numbers. If a pair is written as a + ib, rotating it by α multiplies it by exp(iα), and
# backward multiplies by exp(-iα). This is how LLaMA's published code does it.

# %% Rotary positions for d = 4, forward and backward
T, d = 6, 4
x = rng.standard_normal((T, d))
dy = rng.standard_normal((T, d))
t = np.arange(T)[:, None]
theta = 10000.0 ** (-2 * np.arange(d // 2) / d)
cos, sin = np.cos(t * theta), np.sin(t * theta)                     # (T, d/2)
a, b = x[:, 0::2], x[:, 1::2]
y = np.empty((T, d))
y[:, 0::2] = a * cos - b * sin
y[:, 1::2] = a * sin + b * cos
# y[:, 1::2] = a * sin + b * cos
da = dy[:, 1::2] * sin
db = dy[:, 1::2] * cos
# y[:, 0::2] = a * cos - b * sin
da = da + dy[:, 0::2] * cos
db = db - dy[:, 0::2] * sin
# a, b = x[:, 0::2], x[:, 1::2]
dx = np.empty((T, d))
dx[:, 0::2], dx[:, 1::2] = da, db
claim("backward rotates by minus the angle", relative_error(dx, rotate(dy, cos, -sin)) < 1e-15)
rotated = (a + 1j * b) * np.exp(1j * t * theta)
claim("complex numbers give the same y", relative_error(rotated, y[:, 0::2] + 1j * y[:, 1::2]) < 1e-15)
show_source(nt.RotaryEmbedding.forward, nt.RotaryEmbedding.backward, nt.RotaryEmbedding.rotate)
rope = nt.RotaryEmbedding(d).astype(np.float64)
claim("nt.RotaryEmbedding returns this y and this dx",
      relative_error(rope(x), y) < 1e-15 and relative_error(rope.backward(dy), dx) < 1e-15)
claim("finite differences and the complex step confirm it", nt.gradcheck(rope, x).ok)

# %% [markdown]
# ## 2. Three conventions
#
# **Which features form a pair.** The paper pairs neighbors, (0, 1), (2, 3), and so on. Other code pairs feature i with
# feature i + d/2. Weights trained with one pairing silently fail with the other. Yet the two are the same up to the
# order of the features in each head, and a dot product does not depend on that order.
#
# **What is rotated: q and k, but never v.** A rotated v would carry the position of its token into the output.
#
# **Where the text begins.** With a cache of keys and values (lesson 12b), each new token arrives alone, at position
# `offset`. The keys in the cache are already rotated, each by its own position, which does not change when the text
# grows.

# %% The two pairings, an attention with rotated q and k, and a continued text
half_split = nt.RotaryEmbedding(d, interleaved=False).astype(np.float64).eval()
rope.eval()
order = [0, 2, 1, 3]
claim("half-split pairs give different numbers", relative_error(half_split(x), y) > 0.1)
claim("they give the same numbers if the features are reordered", np.array_equal(half_split(x[:, order]), y[:, order]))
attention = nt.SelfAttention(d, 1, rotary=rope, rng=rng).astype(np.float64).eval()
q, k, v = attention.query(x), attention.key(x), attention.value(x)
P = nt.Softmax()(rope(q) @ rope(k).T / math.sqrt(d))
claim("nt.SelfAttention rotates q and k, and leaves v as it is",
      relative_error(attention(x), attention.output(P @ v)) < 1e-14)
claim("if the text begins at position 1000, all scores remain",
      relative_error(rope(q, offset=1000) @ rope(k, offset=1000).T, rope(q) @ rope(k).T) < 1e-11)
claim("offset=4 continues a text at position 4", np.array_equal(rope(x[4:], offset=4), y[4:]))

# %% [markdown]
# ## 3. Grouped queries
#
# While a model generates text, it keeps the keys and values of all earlier tokens. With N layers, G heads of keys and
# values, and d features per head, these are 2 N G d numbers per token. For N = 80, G = 64 and d = 128 that makes 1.3
# million numbers per token. To save memory, the H query heads share G < H heads of keys and values: each group of H/G
# neighboring query heads uses the same one. The cache and the matrices of keys and values shrink to G/H of their size,
# and the queries keep all H heads.
#
# In forward, each head of k and v is repeated H/G times. It is used H/G times, so in backward its gradient is the sum
# of H/G gradients. Everything between is attention as in lesson 05. The package does these two steps in the functions
# `repeat_heads` and `sum_over_groups`, which are shown below.

# %% Six query heads share two heads of keys and values
drawing("grouped_queries")
predict("H = 6 query heads, G = 2 heads of keys, both counted from 0: which head of keys does query head 4 use?", 1,
        why="Heads 0, 1 and 2 share the first head of keys, and heads 3, 4 and 5 the second one, head 1.")
H, G, S = 6, 2, 7
q, dy = rng.standard_normal((2, H, 5, d))
k, v = rng.standard_normal((2, G, S, d))
k_all = k.repeat(H // G, axis=0)            # (G, S, d) -> (H, S, d): heads 0 0 0 1 1 1
v_all = v.repeat(H // G, axis=0)
A = q @ k_all.mT / math.sqrt(d)
P = np.exp(A) / np.exp(A).sum(-1, keepdims=True)
y = P @ v_all
# y = P @ v_all
dP = dy @ v_all.mT
dv_all = P.mT @ dy
# P = np.exp(A) / np.exp(A).sum(-1, keepdims=True)
dA = P * (dP - (P * dP).sum(-1, keepdims=True))
# A = q @ k_all.mT / math.sqrt(d)
dq = dA @ k_all / math.sqrt(d)
dk_all = dA.mT @ q / math.sqrt(d)
# v_all = v.repeat(H // G, axis=0)
dv = dv_all.reshape(G, H // G, S, d).sum(1)
# k_all = k.repeat(H // G, axis=0)
dk = dk_all.reshape(G, H // G, S, d).sum(1)
show_source(repeat_heads, sum_over_groups)
attention = nt.ScaledDotProductAttention()
claim("nt.ScaledDotProductAttention returns this y", relative_error(attention(q, k, v), y) < 1e-14)
claim("and this dq, dk and dv",
      [relative_error(theirs, ours) < 1e-14 for theirs, ours in zip(attention.backward(dy), (dq, dk, dv))])
claim("finite differences and the complex step confirm it", nt.gradcheck(attention, q, k, v).ok)
claim("for G = H/2, attention has 3 D² weights instead of 4 D²",
      nt.SelfAttention(24, 4, 2, bias=False).num_parameters() == 3 * 24 ** 2)
predict("64 heads of k and v need 1.31 million numbers per token. How many million do 8 heads need (two decimals)?",
        0.16, why="The cache is proportional to the number of heads of k and v: 1.31 million · 8 / 64 = 0.16 million.")

# %% [markdown]
# ## 4. One model, six switches
#
# `nt.CausalLanguageModel` has one switch for each part of the table above, and a sixth, `tie_weights`. GPT-2's output
# matrix is its embedding matrix, as in the Transformer of 2017, so this matrix gets two gradients, one from the input
# and one from the output. LLaMA has two separate matrices.

# %% A small LLaMA: its parameters, its gradients, its cache
model = nt.CausalLanguageModel(11, 24, 4, 3, d_ff=64, max_len=16, positions="rotary", norm_layer="rms", bias=False,
                               activation="swiglu", num_kv_heads=2, tie_weights=False, rng=1).astype(np.float64)
ids = rng.integers(0, 11, (2, 10))
cache = nt.KeyValueCache()
claim("every parameter is a weight or a gamma: there is no bias and no beta",
      [name.endswith(("weight", "gamma")) for name, _ in model.named_parameters()])
claim("gradcheck confirms all gradients along random directions", nt.gradcheck(model, ids, directions=2).ok)
logits = model.eval()(ids)
one_by_one = [model(ids[:, t:t + 1], cache=cache)[:, 0] for t in range(10)]
claim("token by token with a cache, the model computes the same logits",
      relative_error(np.stack(one_by_one, 1), logits) < 1e-12)
cached = sum(kept.array.size for kept in cache.arrays.values())
claim("the cache holds 2 N G d numbers per token", cached == ids.size * 2 * 3 * 2 * 6, "72; with G = H it would be 144")

# %% [markdown]
# ## 5. An ablation
#
# Six small models with one block and D = 32 learn the same text, Python's language reference, character by character.
# One model has GPT-2's parts, four models each exchange one of these parts, and the last model exchanges all four. We
# train each of them three times with different initial weights and different windows, for 200 steps of 16 windows of 32
# characters. Then the model with GPT-2's parts and the one with rotary positions read windows of 128 characters, four
# times as long as in training.

# %% Three runs of each model
WINDOW, LONG_WINDOW = 32, 128
text = builtin_text()
tokenizer = CharTokenizer(text)
windows = [TextWindows(tokenizer.encode(text), WINDOW, batch_size=16, seed=seed) for seed in (1, 2, 3)]
PARTS = {"GPT-2's parts": {},
         "rotary": {"positions": "rotary"},
         "RMSNorm": {"norm_layer": "rms"},
         "SwiGLU": {"activation": "swiglu", "d_ff": 85},
         "H/2 heads of k, v": {"num_kv_heads": 2}}
PARTS["all four"] = {switch: value for parts in PARTS.values() for switch, value in parts.items()}
criterion = nt.CrossEntropyLoss()


def train(windows, parts):
    model = nt.CausalLanguageModel(tokenizer.vocab_size, 32, 4, 1, max_len=LONG_WINDOW, rng=windows.seed, **parts)
    optimizer = nt.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98))
    for step in range(200):
        (ids,), targets = windows.batch(step)
        model.zero_grad()
        criterion(model(ids), targets)
        model.backward(criterion.backward())
        optimizer.lr = 0.01 * min(1, (step + 1) / 30, (200 - step) / 100)           # rises, is constant, falls
        optimizer.step()
    return model.eval()


def loss_by_position(model, length):
    """The mean validation loss at each position of a window of this length."""
    held_out = windows[0].held_out
    ids = held_out[np.arange(0, len(held_out) - LONG_WINDOW, 2 * LONG_WINDOW)[:, None] + np.arange(length + 1)]
    log_p = nt.LogSoftmax().eval()(model(ids[:, :-1]))
    return -np.take_along_axis(log_p, ids[:, 1:, None], -1).mean((0, 2))


models = {name: [train(run_windows, parts) for run_windows in windows] for name, parts in PARTS.items()}
losses = {name: np.array([loss_by_position(model, WINDOW).mean() for model in runs]) for name, runs in models.items()}
in_long_windows = {name: np.mean([loss_by_position(model, LONG_WINDOW) for model in models[name]], 0)
                   for name in ("GPT-2's parts", "rotary")}
for name, runs in losses.items():
    print(f"  {name:17}  {models[name][0].num_parameters():6,} parameters, loss", *(f"{loss:.2f}" for loss in runs))
gpt, rotary, *others = losses.values()
change = losses["SwiGLU"].mean() - gpt.mean()
print(f"  SwiGLU changes the mean loss by {change:+.2f}; the runs with GPT-2's parts range over {np.ptp(gpt):.2f}")
claim("rotary positions lower the mean loss by more than 0.1", rotary.mean() < gpt.mean() - 0.1)
claim("no other single part lowers the mean loss as much", [rotary.mean() < runs.mean() for runs in others[:3]])
for model in models["GPT-2's parts"]:
    model.positions.weight.data[:WINDOW] = model.positions.weight.data[rng.permutation(WINDOW)]
shuffled = np.mean([loss_by_position(model, WINDOW).mean() for model in models["GPT-2's parts"]])
claim("shuffling the trained rows of the position table changes the mean loss by less than 0.1",
      abs(shuffled - gpt.mean()) < 0.1, f"{gpt.mean():.2f} before, {shuffled:.2f} after")
rise = {name: by_position[64:].mean() - by_position[:WINDOW].mean() for name, by_position in in_long_windows.items()}
claim("in windows longer than in training, the loss with rotary positions rises", rise["rotary"] > 0.1,
      ", ".join(f"{name} {value:+.2f}" for name, value in rise.items()))
picture = Figure(figsize=(13, 4.8), layout="constrained")
left, right = picture.subplots(1, 2, width_ratios=(1.2, 1))
for row, runs in enumerate(losses.values()):
    left.plot(runs, [row] * 3, "C0o", alpha=0.6, markersize=9, label="one run" if row == 0 else None)
    left.plot(runs.mean(), row, "k|", markersize=20, markeredgewidth=3, label="mean of 3 runs" if row == 0 else None)
left.axvspan(gpt.min(), gpt.max(), color="0.92", label="range of GPT-2's parts")
left.set(yticks=range(6), yticklabels=PARTS, ylim=(5.5, -0.5), xlabel="validation loss (nats per character)",
         title="One part exchanged at a time")
for (name, by_position), style in zip(in_long_windows.items(), ("C1s--", "C0o-")):
    right.plot(np.arange(4, LONG_WINDOW, 8), by_position.reshape(-1, 8).mean(1), style, label=name)
right.axvline(WINDOW, color="0.4", linestyle=":", label="end of the training windows")
right.set(xlabel="position in the window (characters)", ylabel="validation loss (nats per character)",
          title="Windows longer than in training (mean of 3 runs)")
left.legend(loc="center left")
right.legend(loc="lower right")
figure("ablation", picture)

# %% [markdown]
# Models with rotary positions learn faster here. The rows of a learned table start as noise, so the model first has to
# discover that position 7 lies next to position 8. After 200 steps it has hardly done so, or else shuffling the rows
# would cost more. The rotary model can read longer windows, but its loss rises there, because distances beyond 31 give
# angles that it has never seen in training.
#
# The other differences are less certain. Compare what SwiGLU changes in your three runs with the range of the runs that
# have the same parts. Three runs of a small model cannot establish such a difference, and they say nothing about a
# large model.
#
# ## Exercises
#
# 1. Someone caches the keys before they are rotated, and rotates all of them at each step. Is this right or wrong? What
#    does it cost?
# 2. Someone rotates q by t θ and k by -t θ. On what does the score depend then?
# 3. Write `to_halves(W, H)`, which reorders the columns of the query matrix of a model that pairs neighbors, so that
#    the matrix works in a model that pairs halves. Which other matrices have to be reordered, and which must not be?
# 4. Which attention mask would keep the rotary model's loss low in windows of 128? Predict its curve, and then draw it.
#    (In a model of one block, a window of 32 that ends at the position in question gives the same output.)
# 5. G = 1 is called multi-query attention. How many weights do its four matrices have? How large is its cache?
#
# With a checker (`numpy-transformer exercise start my-exercises 16`): 16.1, 16.2, 16.3, 16.4.
