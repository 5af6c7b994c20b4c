# %% [markdown]
# # 16 Today's decoder
#
# GPT-2 (2019) and LLaMA (2023) follow the same plan: an embedding, blocks of causal attention and feed-forward layers,
# each in a residual connection with a norm before it, a final norm, and an output layer. Only a few parts have changed
# since GPT-2, and each of them takes a few lines of code:
#
#     part            GPT-2                LLaMA and later
#     positions       a vector is added    q and k are rotated
#     norm            LayerNorm            RMSNorm
#     feed-forward    GELU, width 4 D      SwiGLU, width 8/3 D
#     heads of k, v   as many as of q      often fewer
#     biases          everywhere           few or none
#
# After this lesson you will be able to derive these parts and their backward, say what each of them saves, and read an
# ablation, an experiment that exchanges one part at a time. Sources: Su et al. 2021 (RoPE), Zhang and Sennrich 2019
# (RMSNorm), Shazeer 2020 (SwiGLU), Ainslie et al. 2023 (grouped queries), Touvron et al. 2023 (LLaMA, section 2.2).
# About 15 minutes.

# %% Imports, a rotary embedding, and a query and a key to place at many positions
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict
from numpy_transformer.data import CharTokenizer, TextWindows, builtin_text

lesson.start(__name__)


def relative_difference(a, b):
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(16)
T, d = 40, 6
rope = nt.RotaryEmbedding(d).astype(np.float64)
q, k = rng.standard_normal(d), rng.standard_normal(d)
x, dy = rng.standard_normal((T, d)), rng.standard_normal((T, d))

# %% [markdown]
# ## 1. Rotation instead of addition
#
# A query at position m and a key at position n meet in a dot product. Their score should depend on what the two tokens
# are and on the distance m - n, but not on where in the text they stand. Adding a position vector does not achieve
# this; a rotation does. RoPE groups the d features of a head into pairs and rotates pair i at position t by the angle
# t θ_i. The frequencies θ_i = 10000^(-2i / d) are those of lesson 04; for d = 6 they are 1, 0.046 and 0.0022 radians
# per position. A pair (a, b) becomes
#
#     (a, b)  ->  (a cos(t θ_i) - b sin(t θ_i),
#                  a sin(t θ_i) + b cos(t θ_i))
#
# In complex numbers, a + ib is multiplied by exp(i t θ_i), which changes no length. Let R_t be the matrix that rotates
# all pairs at position t. Then the score is (R_m q) · (R_n k) = qᵀ R_mᵀ R_n k, where R_mᵀ rotates backward by m. By the
# addition theorems, the block of one pair in R_mᵀ R_n has the entries
#
#     cos mθ cos nθ + sin mθ sin nθ =  cos((n - m)θ)
#     sin mθ cos nθ - cos mθ sin nθ = -sin((n - m)θ)
#
# on the diagonal and to the right of it. So R_mᵀ R_n = R_(n-m): the score depends on q, on k and on their distance,
# and on nothing else.
#
# **Backward.** y_t = R_t x_t is linear in x_t, so dx_t = R_tᵀ dy_t: the gradient is rotated back by the same angle.

# %% Each line of the derivation
def R(t):
    """The matrix that the layer applies at position t."""
    return rope(np.eye(d), positions=np.full(d, t)).T


def as_complex(x):
    return x[:, 0::2] + 1j * x[:, 1::2]


y = rope(x)
dx = rope.backward(dy)
rope.eval()
rotations = [[np.exp(1j * t * 10000 ** (-2 * i / d)) for i in range(d // 2)] for t in range(T)]
claim("pair i at position t is multiplied by exp(i t θ_i)",
      relative_difference(as_complex(y), as_complex(x) * rotations) < 1e-13)
claim("no pair changes its length", relative_difference(abs(as_complex(y)), abs(as_complex(x))) < 1e-14)
claim("R_mᵀ R_n = R_(n-m)", [relative_difference(R(m).T @ R(n), R(n - m)) < 1e-13 for n in range(9) for m in range(n)])
claim("dx_t = R_tᵀ dy_t", relative_difference(dx, [R(t).T @ dy[t] for t in range(T)]) < 1e-13)
claim("gradcheck confirms the backward pass", nt.gradcheck(rope, x).ok)
predict("q at position 7 and k at position 5 have some score. If q moves to 27 and k to 25, is their score larger, "
        "smaller or the same?", "the same",
        why="The distance is 2 in both cases, and the score depends on q, k and the distance only.")
scores = rope(np.tile(q, (T, 1))) @ rope(np.tile(k, (T, 1))).T              # row m: q at position m; column n: k at n
claim("for each of the 79 distances there is one score",
      [np.ptp(np.diagonal(scores, n)) < 1e-13 for n in range(1 - T, T)])
added = (q + x) @ (k + x).T                 # x serves as a learned table of positions
claim("with added position vectors, scores at the same distance differ",
      [np.ptp(np.diagonal(added, n)) > 1 for n in range(-9, 10)])

# %% One pair as the hand of a clock, and the scores of all positions
picture = Figure(figsize=(13.4, 4), layout="constrained")
circle = np.exp(1j * np.linspace(0, 2 * math.pi, 99))
*clocks, right = picture.subplots(1, 4, width_ratios=(1, 1, 1, 1.4))
for axes, (m, n) in zip(clocks, ((2, 0), (5, 3), (22, 20))):
    for vector, name, position, color in ((q, "q", m, "C0"), (k, "k", n, "C1")):
        tip = as_complex(rope(vector[None], offset=position))[0, 0]
        axes.plot(abs(tip) * circle.real, abs(tip) * circle.imag, color="0.85")
        axes.annotate("", (tip.real, tip.imag), (0, 0), arrowprops={"width": 3, "headwidth": 11, "color": color})
        label = 1.25 * abs(as_complex(q[None])).item(0) * tip / abs(tip)
        axes.text(label.real, label.imag, f"{name} at {position}", color=color, ha="center", va="center")
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal")
    axes.set_axis_off()
clocks[1].set_title("Pair 0 of q and k, always at distance 2: the angle between them stays the same")
picture.colorbar(right.imshow(scores, "RdBu_r", vmin=-2.5, vmax=2.5, aspect="auto"), ax=right, label="score q · k")
right.set(xlabel="position n of the key", ylabel="position m of the query", title="One score for each distance")
figure("rotary", picture)

# %% [markdown]
# ## 2. Three conventions
#
# **Which features form a pair.** The paper pairs neighbors, (0, 1), (2, 3), and so on. Other implementations pair
# feature i with feature i + d/2. The two give different numbers, and weights trained with one pairing fail silently
# with the other. Yet the two are the same up to the order of the features in each head, and a dot product does not
# depend on that order.
#
# **What is rotated: q and k, but never v.** A rotated v would carry the position of its token into the output.
#
# **Where the text begins.** A model that generates text keeps the keys and values of earlier tokens in a cache (section
# 4). Each new token then arrives alone, at position `offset`. The keys in the cache are already rotated, each by its
# own position, which does not change when the text grows.

# %% The two pairings, a continued text, and a shifted text
half_split = nt.RotaryEmbedding(d, interleaved=False).astype(np.float64).eval()
order = [0, 2, 4, 1, 3, 5]
claim("half-split pairs give different numbers", relative_difference(half_split(x), y) > 0.1)
claim("they give the same numbers if the features are reordered",
      relative_difference(half_split(x[:, order]), y[:, order]) < 1e-14)
claim("and so the same scores",
      relative_difference(half_split(x[:, order]) @ half_split(dy[:, order]).T, y @ rope(dy).T) < 1e-13)
claim("offset=30 continues a text at position 30", np.array_equal(rope(x[30:], offset=30), y[30:]))
attention = nt.SelfAttention(4 * d, 4, num_kv_heads=2, rotary=rope, rng=rng).astype(np.float64).eval()
tokens = rng.standard_normal((9, 4 * d))
with nt.record(attention) as tape:
    outputs = attention(tokens)
rotated_q, rotated_k = tape.of(nt.RotaryEmbedding)
q_seen, k_seen, v_seen, _ = tape["attention"].inputs
claim("attention receives q and k rotated",
      np.array_equal(rotated_q.output, q_seen) and np.array_equal(rotated_k.output, k_seen))
claim("and v unchanged", np.array_equal(v_seen.swapaxes(0, 1).reshape(9, -1), tape["value"].output))
with nt.token_positions(np.arange(1000, 1009)):
    outputs_from_1000 = attention(tokens)
claim("a text that starts at position 1000 has the same outputs",
      relative_difference(outputs_from_1000, outputs) < 1e-11)

# %% [markdown]
# ## 3. RMSNorm and SwiGLU
#
# **RMSNorm** divides by the root of the mean square and does not subtract the mean: y = γ x / sqrt(mean(x²) + eps). Its
# backward is that of LayerNorm (lesson 08) without the path through the mean.
#
# **SwiGLU** (lesson 09) replaces the first matrix of the feed-forward layer by two: y = down(h), h = a * u,
# a = silu(gate(x)), u = up(x). The product rule gives da = dh * u and du = dh * a, and dx is the sum of the gradients
# that come back through gate and up. With the old width 4 D, three matrices would have half as many weights again as
# two. So the width becomes 2/3 of 4 D, and the number of weights stays the same: 3 D (8/3 D) = 2 D (4 D).

# %% Each part against its formula and against numerical gradients
norm = nt.RMSNorm(d).astype(np.float64).eval()
swiglu = nt.SwiGLU(d, 16, rng=rng).astype(np.float64).eval()
norm.gamma.data = rng.standard_normal(d)
gate, up, down = swiglu.gate.weight.data, swiglu.up.weight.data, swiglu.down.weight.data
by_row = [[g * c / math.sqrt(row @ row / d + 1e-6) for g, c in zip(norm.gamma.data, row)] for row in x]
claim("RMSNorm equals its formula", relative_difference(norm(x), by_row) < 1e-14)
claim("SwiGLU equals its formula",
      relative_difference(swiglu(x), (x @ gate / (1 + np.exp(-x @ gate)) * (x @ up)) @ down) < 1e-13)
claim("gradcheck confirms both backward passes", nt.gradcheck(norm, x).ok and nt.gradcheck(swiglu, x).ok)
claim("the width 16 is 2/3 of 4 d, and three matrices have 2 d (4 d) weights",
      swiglu.num_parameters() == 2 * d * 4 * d)

# %% [markdown]
# ## 4. Grouped queries
#
# While a model generates text, it keeps the keys and values of all earlier tokens. With L layers and G heads of keys
# and values, these are 2 L G d numbers per token. For L = 80, G = 64 and d = 128 that makes 1.3 million numbers per
# token. To save memory, the H query heads share G < H heads of keys and values: each group of H/G neighboring query
# heads uses the same one. The cache and the matrices of keys and values shrink to G/H of their size, and the queries
# keep all H heads.
#
# The output is the same as if k and v were repeated H/G times. And because each head of k and v is used H/G times, its
# gradient is the sum of H/G gradients.

# %% Six query heads share two heads of keys and values
H, G, S = 6, 2, 7
q, k, v, dy = (rng.standard_normal((heads, rows, d)) for heads, rows in ((H, 5), (G, S), (G, S), (H, 5)))
grouped, repeated = nt.ScaledDotProductAttention(), nt.ScaledDotProductAttention()
y = grouped(q, k, v)
y_repeated = repeated(q, k.repeat(H // G, 0), v.repeat(H // G, 0))
claim("query head h uses head h // (H/G) of k and v", relative_difference(y, y_repeated) < 1e-14)
_, dk, dv = grouped.backward(dy)
_, dk_repeated, dv_repeated = repeated.backward(dy)
claim("dk and dv are sums over each group",
      [relative_difference(one, many.reshape(G, H // G, S, d).sum(1)) < 1e-14
       for one, many in ((dk, dk_repeated), (dv, dv_repeated))])
claim("gradcheck confirms the backward pass", nt.gradcheck(grouped, q, k, v).ok)
claim("for G = H/2, attention has 3 D² weights instead of 4 D²",
      nt.SelfAttention(24, 4, 2, bias=False).num_parameters() == 3 * 24 ** 2)
predict("64 heads of k and v need 1.3 million numbers per token. How many thousand do 8 heads need?", "164",
        why="The cache is proportional to the number of heads of k and v, so it shrinks by 8 / 64: 1.31 million / 8 = "
            "164 thousand.")

# %% [markdown]
# ## 5. One model, six switches
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
      relative_difference(np.stack(one_by_one, 1), logits) < 1e-12)
cached = sum(kept.array.size for kept in cache.arrays.values())
claim("the cache holds 2 L G d numbers per token", cached == ids.size * 2 * 3 * 2 * 6, "72; with G = H it would be 144")

# %% [markdown]
# ## 6. An ablation
#
# Six small models with one block and D = 32 learn the same text, Python's language reference, character by character.
# One model has GPT-2's parts, four models each exchange one of these parts, and the last model exchanges all four. We
# train each of them three times with different initial weights and different windows, for 300 steps of 8 windows of 32
# characters (lesson 19 explains the optimizer and its schedule). Then two of the six models read windows of 128
# characters, four times as long as in training.

# %% Three runs of each of six models
WINDOW, LONG_WINDOW = 32, 128
text = builtin_text()
tokenizer = CharTokenizer(text)
windows = [TextWindows(tokenizer.encode(text), WINDOW, batch_size=8, seed=seed) for seed in (1, 2, 3)]
PARTS = {"GPT-2's parts": {},
         "rotary": {"positions": "rotary"},
         "RMSNorm": {"norm_layer": "rms"},
         "SwiGLU": {"activation": "swiglu", "d_ff": 85},
         "H/2 heads of k, v": {"num_kv_heads": 2}}
PARTS["all four"] = {switch: value for parts in PARTS.values() for switch, value in parts.items()}


def train(windows, parts):
    model = nt.CausalLanguageModel(tokenizer.vocab_size, 32, 4, 1, max_len=LONG_WINDOW, rng=windows.seed, **parts)
    optimizer = nt.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.98), weight_decay=0.1)
    schedule = nt.CosineSchedule(optimizer, lr=1e-2, min_lr=5e-4, warmup=30, steps=300)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, schedule, clip=1.0, workers=1)
    for step in range(300):
        trainer.step([windows.batch(step)])
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
swiglu = losses["SwiGLU"]
print(f"  SwiGLU lowers the mean loss by {gpt.mean() - swiglu.mean():.2f}; the runs with GPT-2's parts range over "
      f"{np.ptp(gpt):.2f}")
claim("rotary positions lower the mean loss by more than 0.1", rotary.mean() < gpt.mean() - 0.1)
claim("no other single part lowers the mean loss as much", [rotary.mean() < runs.mean() for runs in others[:3]])
claim("in a learned position table, the rows from 32 on never get a gradient",
      models["GPT-2's parts"][0].positions.weight.grad[WINDOW:] == 0)
for model in models["GPT-2's parts"]:
    model.positions.weight.data[:WINDOW] = model.positions.weight.data[rng.permutation(WINDOW)]
shuffled = np.mean([loss_by_position(model, WINDOW).mean() for model in models["GPT-2's parts"]])
claim("shuffling the trained rows of the table changes the mean loss by less than 0.1",
      abs(shuffled - gpt.mean()) < 0.1, f"{gpt.mean():.2f} before, {shuffled:.2f} after")
rise = {name: by_position[64:].mean() - by_position[:WINDOW].mean() for name, by_position in in_long_windows.items()}
claim("in windows longer than in training, the loss with rotary positions rises, and more than that with a table",
      rise["rotary"] > 0.1 and rise["rotary"] > 2 * rise["GPT-2's parts"],
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
# discover that position 7 lies next to position 8. After 300 steps it has hardly done so, or else shuffling the rows
# would cost more. The rows from 32 on are still noise, and they cost little as well. The rotary model can read longer
# windows, but its loss rises there, because distances beyond 31 give angles that it has never seen in training.
#
# The other differences are less certain. Compare what SwiGLU gains in your three runs with the range of the runs that
# have the same parts. With one of three other seeds, SwiGLU gained nothing, and the kernels of another processor alone
# changed the mean loss of three runs by up to 0.06. Three runs of a small model cannot establish such a difference, and
# they say nothing about a large model.
#
# ## Exercises
#
# 1. Someone caches the keys before they are rotated, and rotates all of them at each step. Is this right or wrong? What
#    does it cost?
# 2. Someone rotates q by t θ and k by -t θ. On what does the score depend then? Which claims of section 1 fail?
# 3. Write `to_halves(W, H)`, which reorders the columns of the query matrix of a model that pairs neighbors, so that
#    the matrix works in a model that pairs halves. Which other matrices have to be reordered, and which must not be?
# 4. Which attention mask would keep the rotary model's loss low in windows of 128? Predict its curve, and then draw it.
#    (In a model of one block, a window of 32 that ends at the position in question gives the same output.)
# 5. G = 1 is called multi-query attention. How many weights do its four matrices have? How large is its cache?
#
# With a checker (`numpy-transformer exercise check 16.1` and so on): 16.1, 16.2, 16.3, 16.4.
