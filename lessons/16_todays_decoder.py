# %% [markdown]
# # 16 Today's decoder
#
# GPT-2 (2019) and LLaMA (2023) have the same plan: an embedding, blocks of causal attention and feed-forward
# layers, each in a residual with a norm before it, a last norm, and an output. What changed are parts, each a few
# lines long:
#
#     part                 GPT-2                          LLaMA, and models after it
#     positions            a learned vector, added        queries and keys are turned (RoPE)
#     norm                 LayerNorm                      RMSNorm: no mean, no beta
#     feed-forward         GELU, width 4 D                SwiGLU: three matrices of width 8/3 D
#     heads of k and v     as many as of q                often fewer (grouped queries)
#     biases               in every layer and norm        none, or few
#
# Afterwards you can derive these parts with their backward, say what each of them saves, and read an ablation, an
# experiment that exchanges one part at a time. Sources: Su et al. 2021 (RoPE), Zhang and Sennrich 2019 (RMSNorm),
# Shazeer 2020 (SwiGLU), Ainslie et al. 2023 (grouped queries), Touvron et al. 2023 (LLaMA, section 2.2). 15 minutes.

# %% Imports, and a query and a key that will stand at many places
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.classroom import claim, figure, lesson, predict
from numpy_transformer.data import CharTokenizer, TextWindows, builtin_text

lesson.start(__name__)


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(16)
T, d = 40, 6
rope = nt.RotaryEmbedding(d).astype(np.float64)
q, k, x, dy = (rng.standard_normal(shape) for shape in (d, d, (T, d), (T, d)))

# %% [markdown]
# ## 1. Turned, not added
#
# A query at place m and a key at place n meet in a dot product. It should depend on what both tokens are and on the
# distance m - n, not on where in the text they stand. RoPE takes the d features of a head in pairs and turns
# pair i at place t by the angle t θ_i, where θ_i = 10000^(-2i / d), the frequencies of lesson 04:
#
#     (a, b)  ->  (a cos(t θ_i) - b sin(t θ_i),  a sin(t θ_i) + b cos(t θ_i))
#
# As a complex number, a + ib is multiplied by exp(i t θ_i); no length changes. Call the matrix of all pairs R_t. Then
# the score is (R_m q) · (R_n k) = qᵀ R_mᵀ R_n k, and R_mᵀ turns back by m. By the addition theorems the block of one
# pair in R_mᵀ R_n has the entries
#
#     cos mθ cos nθ + sin mθ sin nθ = cos((n - m)θ)        sin mθ cos nθ - cos mθ sin nθ = -sin((n - m)θ)
#
# on the diagonal and right of it. So R_mᵀ R_n = R_(n-m): the score knows q, k and their distance, nothing else.
#
# **Backward.** y_t = R_t x_t is linear in x_t, so dx_t = R_tᵀ dy_t: the gradient is turned by the same angle, back.

# %% Each line of it
def R(t):                                   # the matrix that the layer applies at place t
    return rope(np.eye(d), positions=np.full(d, t)).T


def as_complex(x):
    return x[:, 0::2] + 1j * x[:, 1::2]


y = rope(x)
dx = rope.backward(dy)
rope.eval()
turns = [[np.exp(1j * t * 10000 ** (-2 * i / d)) for i in range(d // 2)] for t in range(T)]
claim("pair i at place t is multiplied by exp(i t θ_i)", apart(as_complex(y), as_complex(x) * turns) < 1e-13)
claim("no pair changes its length", apart(abs(as_complex(y)), abs(as_complex(x))) < 1e-14)
claim("R_mᵀ R_n = R_(n-m)", [apart(R(m).T @ R(n), R(n - m)) < 1e-13 for n in range(9) for m in range(n)])
claim("dx_t = R_tᵀ dy_t", apart(dx, [R(t).T @ dy[t] for t in range(T)]) < 1e-13)
claim("gradcheck agrees", nt.gradcheck(rope, x).ok)
predict("q at 7 and k at 5 have some score. Is that of q at 27 and k at 25 larger, smaller or the same?", "the same")
scores = rope(np.tile(q, (T, 1))) @ rope(np.tile(k, (T, 1))).T              # one q at each place m, one k at each n
claim("each of the 79 distances has one score", [np.ptp(np.diagonal(scores, n)) < 1e-13 for n in range(1 - T, T)])
added = (q + x) @ (k + x).T                 # x in the place of a learned table of positions
claim("added vectors obey no such law", [np.ptp(np.diagonal(added, n)) > 1 for n in range(-9, 10)])

# %% One pair as a hand of a clock, and all scores
picture, circle = Figure(figsize=(13, 4), layout="constrained"), np.exp(1j * np.linspace(0, 2 * math.pi, 99))
*clocks, right = picture.subplots(1, 4, width_ratios=(1, 1, 1, 1.4))
for axes, (m, n) in zip(clocks, ((2, 0), (5, 3), (22, 20))):
    for vector, name, place, colour in ((q, "q", m, "C0"), (k, "k", n, "C1")):
        tip = as_complex(rope(vector[None], offset=place))[0, 0]
        axes.plot(abs(tip) * circle.real, abs(tip) * circle.imag, color="0.85")
        axes.annotate("", (tip.real, tip.imag), (0, 0), arrowprops={"width": 3, "headwidth": 11, "color": colour})
        label = 1.25 * abs(as_complex(q[None])).item(0) * tip / abs(tip)
        axes.text(label.real, label.imag, f"{name} at {place}", color=colour, ha="center", va="center")
    axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal")
    axes.set_axis_off()
clocks[1].set_title("Pair 0 of q and k: at distance 2 the same angle, wherever they stand")
picture.colorbar(right.imshow(scores, "RdBu_r", vmin=-2.5, vmax=2.5, aspect="auto"), ax=right, label="score q · k")
right.set(xlabel="k at place n", ylabel="q at place m", title="One score a diagonal")
figure("rotary", picture)

# %% [markdown]
# ## 2. Three agreements
#
# **Which features are a pair.** The paper pairs neighbours, (0, 1), (2, 3), ...; others pair feature i with i + d/2.
# The numbers differ, and weights trained with one pairing fail silently with the other. Yet one is the other with the
# features of each head in another order, and a dot product knows no order.
#
# **What is turned: q and k, never v.** A turned v would carry the place of its token into the output.
#
# **Where the text begins.** A model that writes keeps the keys and values of earlier tokens in a cache (section 4); a
# new token then comes alone, at place `offset`. The keys in the cache are already turned, each by its own place, which
# stays the same while the text grows.

# %% Pairings, a shifted text, a continued text
halves, order = nt.RotaryEmbedding(d, interleaved=False).astype(np.float64).eval(), [0, 2, 4, 1, 3, 5]
claim("half-split pairs give other numbers", apart(halves(x), y) > 0.1)
claim("the same ones where the features are reordered", apart(halves(x[:, order]), y[:, order]) < 1e-14)
claim("and the same scores", apart(halves(x[:, order]) @ halves(dy[:, order]).T, y @ rope(dy).T) < 1e-13)
claim("offset=30 continues a text", np.array_equal(rope(x[30:], offset=30), y[30:]))
attention = nt.SelfAttention(4 * d, 4, num_kv_heads=2, rotary=rope, rng=rng).astype(np.float64).eval()
tokens = rng.standard_normal((9, 4 * d))
with nt.record(attention) as tape:
    outputs = attention(tokens)
turned, (q_seen, k_seen, v_seen, _) = tape.of(nt.RotaryEmbedding), tape["attention"].inputs
claim("attention gets q and k turned", [np.array_equal(a.output, b) for a, b in zip(turned, (q_seen, k_seen))])
claim("and v as it was", np.array_equal(v_seen.swapaxes(0, 1).reshape(9, -1), tape["value"].output))
claim("from place 1000: the same outputs", apart(attention(tokens, positions=np.arange(1000, 1009)), outputs) < 1e-11)

# %% [markdown]
# ## 3. RMSNorm and SwiGLU
#
# **RMSNorm** divides by the root of the mean square and subtracts no mean: y = γ x / sqrt(mean(x²) + eps). Its
# backward is LayerNorm's (lesson 08) without the path through the mean.
#
# **SwiGLU** (lesson 09) has two matrices in the place of one: y = down(h), h = a * u, a = silu(gate(x)), u = up(x). The
# product rule gives da = dh * u and du = dh * a, and dx is the sum of both ways. Three matrices of the old width would
# have half as many weights again, so the width is 2/3 of 4 D: 3 D (8/3 D) = 2 D (4 D) weights, as before.

# %% Each against its formula and by differences
norm, swiglu = nt.RMSNorm(d).astype("f8").eval(), nt.SwiGLU(d, 16, rng=rng).astype("f8").eval()
gamma, gate, up, down = (parameter.data for parameter in norm.parameters() + swiglu.parameters())
gamma *= rng.standard_normal(d)
by_row = [[g * c / math.sqrt(row @ row / d + 1e-6) for g, c in zip(gamma, row)] for row in x]
claim("RMSNorm is its formula", apart(norm(x), by_row) < 1e-14)
claim("SwiGLU is its formula", apart(swiglu(x), (x @ gate / (1 + np.exp(-x @ gate)) * (x @ up)) @ down) < 1e-13)
claim("gradcheck agrees with both", nt.gradcheck(norm, x).ok and nt.gradcheck(swiglu, x).ok)
claim("16 is 2/3 of 4 d: three matrices, 2 d (4 d) weights", swiglu.num_parameters() == 2 * d * 4 * d)

# %% [markdown]
# ## 4. Grouped queries
#
# While a model writes, it keeps the keys and values of all earlier tokens: 2 L G d numbers a token, for L layers with G
# heads of k and v. With L = 80, G = 64, d = 128 these are 1.3 million. So the H query heads share G < H heads of k and
# v, H/G neighbours the same one. The cache and the matrices of k and v shrink to G/H of their size; the queries keep
# H heads.
#
# The output is that of k and v repeated H/G times. What is used H/G times gets the sum of H/G gradients.

# %% Six query heads, two heads of keys and values
H, G, S = 6, 2, 7
q, k, v, dy = (rng.standard_normal((heads, rows, d)) for heads, rows in ((H, 5), (G, S), (G, S), (H, 5)))
grouped, repeated = nt.ScaledDotProductAttention(), nt.ScaledDotProductAttention()
y, y_repeated = grouped(q, k, v), repeated(q, k.repeat(H // G, 0), v.repeat(H // G, 0))
claim("query head h uses head h // (H/G) of k and v", apart(y, y_repeated) < 1e-14)
(_, *shared), (_, *single) = grouped.backward(dy), repeated.backward(dy)
claim("dk and dv are sums over each group", [apart(a, b.reshape(G, H // G, S, d).sum(1)) < 1e-14
                                             for a, b in zip(shared, single)])
claim("gradcheck agrees", nt.gradcheck(grouped, q, k, v).ok)
claim("for G = H/2, 3 D² weights, not 4 D²", nt.SelfAttention(24, 4, 2, bias=False).num_parameters() == 3 * 24 ** 2)
predict("64 heads of k and v: 1.3 million numbers a token. 8 heads: how many thousand?", "164")

# %% [markdown]
# ## 5. One model, six switches
#
# `nt.CausalLanguageModel` has a switch for each part. The sixth is `tie_weights`: GPT-2's output matrix is its
# embedding, as in 2017, and gets two gradients, one from either end. LLaMA has two matrices.

# %% A small LLaMA: its parameters, all gradients at once, its cache
model = nt.CausalLanguageModel(11, 24, 4, 3, d_ff=64, max_len=16, positions="rotary", norm_layer="rms", bias=False,
                               activation="swiglu", num_kv_heads=2, tie_weights=False, rng=1).astype(np.float64)
ids, cache = rng.integers(0, 11, (2, 10)), nt.KeyValueCache()
claim("no bias, no beta", [name.endswith(("weight", "gamma")) for name, _ in model.named_parameters()])
claim("gradcheck agrees along random directions", nt.gradcheck(model, ids, directions=2).ok)
logits = model.eval()(ids)
one_by_one = [model(ids[:, t:t + 1], cache=cache)[:, 0] for t in range(10)]
claim("token by token with a cache: the same logits", apart(np.stack(one_by_one, 1), logits) < 1e-12)
kept = sum(array.size for layer in cache.layers for array in cache.get(layer))
claim("the cache holds 2 L G d numbers a token", kept == ids.size * 2 * 3 * 2 * 6, "72, with G = H 144")

# %% [markdown]
# ## 6. An ablation
#
# Models of one block and D = 32 learn the same text, Python's language reference, character by character: with GPT-2's
# parts, with one part exchanged at a time, with all four. Each is trained three times (lesson 19 explains the
# optimizer and its schedule), for 300 steps of 8 windows of 32 characters, from other weights and with other windows
# each time. Then two of the six read windows of 128 characters.

# %% Three runs of each of six models
WINDOW, LONG, text = 32, 128, builtin_text()
tokenizer = CharTokenizer(text)
windows = [TextWindows(tokenizer.encode(text), WINDOW, batch_size=8, seed=seed) for seed in (1, 2, 3)]
PARTS = {"GPT-2's parts": {}, "rotary": {"positions": "rotary"}, "RMSNorm": {"norm_layer": "rms"},
         "SwiGLU": {"activation": "swiglu", "d_ff": 85}, "H/2 heads of k, v": {"num_kv_heads": 2}}
PARTS["all four"] = {switch: value for parts in PARTS.values() for switch, value in parts.items()}


def train(windows, parts):
    model = nt.CausalLanguageModel(tokenizer.vocab_size, 32, 4, 1, max_len=LONG, rng=windows.seed, **parts)
    optimizer = nt.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.98), weight_decay=0.1)
    schedule = nt.CosineSchedule(optimizer, lr=1e-2, min_lr=5e-4, warmup=30, steps=300)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, schedule, clip=1.0, workers=1)
    for step in range(300):
        trainer.step([windows.batch(step)])
    return model.eval()


def loss_by_place(model, length):           # of held-out windows: a mean for each place in them
    held_out = windows[0].held_out
    ids = held_out[np.arange(0, len(held_out) - LONG, 2 * LONG)[:, None] + np.arange(length + 1)]
    log_p = nt.LogSoftmax().eval()(model(ids[:, :-1]))
    return -np.take_along_axis(log_p, ids[:, 1:, None], -1).mean((0, 2))


models = {name: [train(batches, parts) for batches in windows] for name, parts in PARTS.items()}
losses = {name: np.array([loss_by_place(model, WINDOW).mean() for model in runs]) for name, runs in models.items()}
by_place = {name: np.mean([loss_by_place(model, LONG) for model in models[name]], 0) for name in list(PARTS)[:2]}
for name, runs in losses.items():
    print(f"  {name:17}  {models[name][0].num_parameters():6,} parameters, loss", *(f"{loss:.2f}" for loss in runs))
gpt, rotary, *others = losses.values()
claim("rotary positions lower the mean loss by more than 0.1", rotary.mean() < gpt.mean() - 0.1)
claim("no other part alone gains as much", [rotary.mean() < runs.mean() for runs in others[:3]])
claim("a learned table: no gradient beyond place 31", models["GPT-2's parts"][0].positions.weight.grad[WINDOW:] == 0)
for model in models["GPT-2's parts"]:
    model.positions.weight.data[:WINDOW] = model.positions.weight.data[rng.permutation(WINDOW)]
shuffled = np.mean([loss_by_place(model, WINDOW).mean() for model in models["GPT-2's parts"]])
claim("its trained rows shuffled: the loss changes by less than 0.1", abs(shuffled - gpt.mean()) < 0.1,
      f"{gpt.mean():.2f} and {shuffled:.2f}")
claim("rotary reads on, and its loss rises", by_place["rotary"][64:].mean() > by_place["rotary"][:WINDOW].mean() + 0.1)
picture = Figure(figsize=(13, 4.6), layout="constrained")
left, right = picture.subplots(1, 2, width_ratios=(1.2, 1))
for row, runs in enumerate(losses.values()):
    left.plot(runs, [row] * 3, "C0o", alpha=0.6, markersize=9, label="one run" if row == 0 else None)
    left.plot(runs.mean(), row, "k|", markersize=20, markeredgewidth=3, label="mean of three" if row == 0 else None)
left.axvspan(gpt.min(), gpt.max(), color="0.92", label="GPT-2's range")
left.set(yticks=range(6), yticklabels=PARTS, ylim=(5.5, -0.5), xlabel="validation loss (nats per character)",
         title="One part exchanged at a time")
for (name, places), style in zip(by_place.items(), ("C1s--", "C0o-")):
    right.plot(np.arange(4, LONG, 8), places.reshape(-1, 8).mean(1), style, label=name)
right.axvline(WINDOW, color="0.4", linestyle=":", label="end of the training windows")
right.set(xlabel="place in the window (character)", ylabel="validation loss (nats per character)",
          title="Windows longer than in training: means of three")
left.legend(loc="center left")
right.legend(loc="lower right")
figure("ablation", picture)

# %% [markdown]
# Rotary positions learn faster here. The rows of a learned table begin as noise: that place 7 lies beside place 8 has
# to be found out. So far it was hardly found out at all, or shuffled rows would cost more; the rows beyond 31 are noise
# still, and cost little too. The rotary model reads on, but distances beyond 31 are angles that it never saw.
#
# The rest is less clear. On the text of Python 3.11, SwiGLU's lead over GPT-2's parts was 0.11 in these three runs,
# 0.03 in the same three in float64, and 0.04 in eight (seeds 1 to 8), where the runs with GPT-2's parts had a standard
# deviation of 0.09. Three runs of a small model cannot show such differences, and say nothing of a large one.
#
# ## Exercises
#
# 1. Someone caches the keys before they are turned, and turns all of them at each step. Right or wrong? At what cost?
# 2. Someone turns q by t θ and k by -t θ. On what does the score depend then? Which claims of section 1 fail?
# 3. Write `to_halves(W, H)`, which reorders the columns of the query matrix of a model with neighbours as pairs so that
#    it serves a model with halves as pairs. Which other matrices have to be reordered, and which must not?
# 4. Which attention mask would keep the rotary model's loss low in windows of 128? Predict its curve, then draw it. (In
#    a model of one block, a window of 32 that ends at the place in question gives the same output.)
# 5. G = 1 is called multi-query attention. How many weights do its four matrices have? How large is its cache?
#
# With a checker (`numpy-transformer exercise check NN`): 16.1, 16.2, 16.3, 16.4.
