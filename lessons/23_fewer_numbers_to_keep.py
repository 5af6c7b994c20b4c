# %% [markdown]
# # 23 Fewer numbers to keep
#
# A model that writes keeps the keys and values of all earlier tokens in a cache (lesson 12b). For long texts this cache
# may need more memory than the weights, and every new token has to read all of it. To keep fewer numbers, several heads
# can share their keys and values (lesson 16). Or those of *all* heads are computed from one narrow vector, and only
# that vector is kept: **latent attention** (DeepSeek-AI 2024, DeepSeek-V2).
#
# You will derive why keys and values need never be computed, see why rotary positions are in the way, write both
# backward passes, and compare kinds of attention with caches of equal size.

# %% A small helper
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source
from numpy_transformer.data import CharTokenizer, TextWindows, builtin_text

lesson.start(__name__)
rng = np.random.default_rng(23)


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. What is kept for each token
#
# With H query heads of width d, a layer keeps this many numbers for each token:
#
#     multi-head attention        2 H d        a key and a value for each head
#     grouped queries             2 G d        for each of G groups of heads
#     multi-query attention       2 d          one key and one value (Shazeer 2019)
#     latent attention            m + r        one latent vector c of width m, one rotary key of width r (section 3)
#
# (m is not Adam's mean here.) The next cell takes the published sizes of four models, with 2 bytes for each number.
# DeepSeek-V3 has 128 heads, with keys of width 192 and values of width 128.

# %% Bytes for each token, from the published sizes
MODELS = {                                  # layers, and numbers for each token and layer
    "Llama 2 7B, multi-head": (32, 2 * 32 * 128),
    "Llama 3 8B, 8 groups": (32, 2 * 8 * 128),
    "Falcon 7B, multi-query": (32, 2 * 64),
    "DeepSeek-V3, latent": (61, 512 + 64),
    "DeepSeek-V3, if multi-head": (61, 128 * (192 + 128))}
predict("Llama 3 8B has 32 layers and 8 heads of keys of width 128. How many bytes does it keep for a token?",
        2 * 8 * 128 * 32 * 2, why="2 for keys and values, 8 heads of width 128, 32 layers, 2 bytes for each number.")
kept = {name: layers * numbers * 2 for name, (layers, numbers) in MODELS.items()}
for name, count in kept.items():
    print(f"  {name:28}{count:>10,} bytes for a token, {count * 100_000 / 1e9:6.1f} GB for 100,000 tokens")
claim("the latent vectors of DeepSeek-V3 take 1/71 of the memory of its keys and values",
      round(kept["DeepSeek-V3, if multi-head"] / kept["DeepSeek-V3, latent"]) == 71)
picture = Figure(figsize=(8, 3.2), layout="constrained")
axes = picture.subplots()
axes.barh(list(kept), [count / 1024 for count in kept.values()])
axes.set(xscale="log", xlim=(1, None), xlabel="KiB for each token", title="What real models keep")
axes.invert_yaxis()
figure("kept", picture)

# %% [markdown]
# ## 2. Keys that are never computed
#
# Let c = x W_down be the latent vector of a token. (A norm follows in real models.) Each head has its own matrices
# W_K (m, n) and W_V (m, e), where n is the width of a key and e that of a value:
#
#     k = c W_K        v = c W_V        A = q kᵀ        y = P v
#
# Keeping c saves memory, but each new token would need the keys and values of all earlier tokens again. Two lines of
# algebra avoid this:
#
#     A = q (c W_K)ᵀ = (q W_Kᵀ) cᵀ
#     y = P (c W_V)  = (P c) W_V
#
# W_K moves from the many keys to the one query, and W_V from the many values to the one output: both are **absorbed**.
# All heads then attend to c itself, as in multi-query attention with the key c and the value c.

# %% The scores and the outputs of three heads, both ways
H, S, m, n, r, e = 3, 7, 8, 5, 4, 6
c = rng.standard_normal((S, m))
q = rng.standard_normal((H, S, n))
W_K, W_V = rng.standard_normal((H, m, n)) / 3, rng.standard_normal((H, m, e)) / 3
scores = q @ (c @ W_K).mT
claim("q kᵀ = (q W_Kᵀ) cᵀ for every head", relative_error(q @ W_K.mT @ c.T, scores) < 1e-14)
P = nt.Softmax()(scores / math.sqrt(n))
claim("P v = (P c) W_V for every head", relative_error(P @ c @ W_V, P @ (c @ W_V)) < 1e-14)

# %% [markdown]
# ## 3. Rotary positions are in the way
#
# Rotary positions multiply the query at position t by a rotation R_t, and the key at position s by R_s. (Rows are
# multiplied from the right.) Then
#
#     A = q R_t (c W_K R_s)ᵀ = q R_t R_sᵀ W_Kᵀ cᵀ = (q R_{t-s} W_Kᵀ) cᵀ
#
# The rotation stands between q and W_Kᵀ, and differs for each pair of positions, so no absorbed query serves all
# keys. Rotating the absorbed query and c instead gives another function, because the order of matrices matters.
#
# The solution is to keep positions apart. Each head has a second query q^R of width r, and there is a second key
# k^R = x W_R that does *not* come from c. Only these are rotated. k^R has to be kept, so one serves all heads:
#
#     A = q kᵀ + q^R (k^R)ᵀ

# %% The control: a rotation after the absorption
drawing("latent_attention")
rope_n, rope_m, rope_r = (nt.RotaryEmbedding(width).astype(np.float64).eval() for width in (4, m, r))
q4, W4 = q[..., :4], W_K[..., :4]           # an even width, which can be rotated
rotated = rope_n(q4) @ rope_n(c @ W4).mT
control = rope_m(q4 @ W4.mT) @ rope_m(c).T
error = relative_error(control, rotated)
claim("control: with the absorbed queries and c rotated instead, the scores are wrong", error > 0.3, f"by {error:.0%}")
q_R, k_R = rope_r(rng.standard_normal((H, S, r))), rope_r(rng.standard_normal((S, r)))
joined = np.concatenate([q, q_R], -1) @ np.concatenate([c @ W_K, np.broadcast_to(k_R, (H, S, r))], -1).mT
claim("with a rotary key apart, absorption is exact", relative_error(q @ W_K.mT @ c.T + q_R @ k_R.T, joined) < 1e-14)

# %% [markdown]
# ## 4. Forward and backward, both ways
#
# Each backward names the forward line that it differentiates. All heads use k^R, so its gradient is a sum over the
# heads. In the first form, c is used by the keys and the values of all heads; in the second, c *is* their key and their
# value. Both forms divide by sqrt(n + r), the width of the original queries, although the vectors of the second form
# have m + r features.
#
# `product` is @, and counts the multiplications for section 6.

# %% Keys and values of each head, and the absorbed form
MULTIPLIED = []


def product(a, b):
    y = a @ b
    MULTIPLIED.append(y.size * a.shape[-1])
    return y


def weights(A):
    P = np.exp(A - A.max(-1, keepdims=True))
    return P / P.sum(-1, keepdims=True)


def with_keys(q, q_R, c, k_R, W_K, W_V):
    k, v = product(c, W_K), product(c, W_V)
    P = weights((product(q, k.mT) + product(q_R, k_R.T)) / math.sqrt(n + r))
    return k, v, P, product(P, v)


def with_keys_backward(dy, q, q_R, c, k_R, W_K, W_V, k, v, P):
    # y = P v
    dP, dv = dy @ v.mT, P.mT @ dy
    dA = P * (dP - (P * dP).sum(-1, keepdims=True)) / math.sqrt(n + r)
    # A = q kᵀ + q_R k_Rᵀ
    dq, dk = dA @ k, dA.mT @ q
    dq_R, dk_R = dA @ k_R, (dA.mT @ q_R).sum(0)
    # k, v = c W_K, c W_V
    dc = (dk @ W_K.mT + dv @ W_V.mT).sum(0)
    return dq, dq_R, dc, dk_R, c.T @ dk, c.T @ dv


def absorbed(q, q_R, c, k_R, W_K, W_V):
    a = product(q, W_K.mT)
    P = weights((product(a, c.T) + product(q_R, k_R.T)) / math.sqrt(n + r))
    mean = product(P, c)
    return a, mean, P, product(mean, W_V)


def absorbed_backward(dy, q, q_R, c, k_R, W_K, W_V, a, mean, P):
    # y = mean W_V
    dmean, dW_V = dy @ W_V.mT, mean.mT @ dy
    # mean = P c
    dP, dc = dmean @ c.T, (P.mT @ dmean).sum(0)
    dA = P * (dP - (P * dP).sum(-1, keepdims=True)) / math.sqrt(n + r)
    # A = a cᵀ + q_R k_Rᵀ
    da, dc = dA @ c, dc + (dA.mT @ a).sum(0)
    dq_R, dk_R = dA @ k_R, (dA.mT @ q_R).sum(0)
    # a = q W_Kᵀ
    return da @ W_K, dq_R, dc, dk_R, da.mT @ q, dW_V


inputs, dy = (q, q_R, c, k_R, W_K, W_V), rng.standard_normal((H, S, e))
*between, y = with_keys(*inputs)
*absorbed_between, absorbed_y = absorbed(*inputs)
claim("both forms return the same y", relative_error(absorbed_y, y) < 1e-12)
gradients = with_keys_backward(dy, *inputs, *between)
for name, ours, theirs in zip("dq dq_R dc dk_R dW_K dW_V".split(), absorbed_backward(dy, *inputs, *absorbed_between),
                              gradients):
    claim(f"and the same {name}", relative_error(ours, theirs) < 1e-12)

# %% The package's classes
show_source(nt.LatentAttention.attend, nt.LatentAttention.attend_backward)
show_source(nt.AbsorbedLatentAttention.attend, nt.AbsorbedLatentAttention.attend_backward)
for form in (nt.LatentAttention, nt.AbsorbedLatentAttention):
    layer = form(12, H, m, n, r, e).astype(np.float64)
    layer.up.weight.data = np.concatenate([W_K, W_V], -1).swapaxes(0, 1).reshape(m, -1)     # W_up: heads side by side
    layer.norm.gamma.data = rng.uniform(0.5, 2, m)
    claim(f"nt.{form.__name__} returns this y",
          relative_error(layer.attend(np.concatenate([q, q_R], -1), c, k_R[None], None), y) < 1e-12)
    dq, dc, dk_shared = layer.attend_backward(dy)
    dW_up, dW = layer.up.weight.grad.reshape(m, H, -1), np.concatenate(gradients[4:], -1)
    claim("and this dq, dc, dk_R and dW_up",
          [relative_error(dq, np.concatenate(gradients[:2], -1)) < 1e-12, relative_error(dc, gradients[2]) < 1e-12,
           relative_error(dk_shared[0], gradients[3]) < 1e-12, relative_error(dW_up.swapaxes(0, 1), dW) < 1e-12])
    claim("finite differences and the complex step confirm the whole layer",
          nt.gradcheck(layer, rng.standard_normal((2, 5, 12)), nt.causal_mask(5)).ok)

# %% [markdown]
# ## 5. Four caches, measured
#
# Four language models with two blocks and four heads read the same text, at once and token by token. The last two have
# the same weights: one computes keys and values, and the cache keeps those of all heads; the other one is absorbed.

# %% The bytes in the cache of a model
text = builtin_text()
tokenizer = CharTokenizer(text)
D, HEADS, BLOCKS, WIDTH = 32, 4, 2, 8
KINDS = {                                   # name: (numbers for each token and layer, the attention of a block)
    "4 heads": (64, lambda rng: grouped(4, rng)), "2 groups": (32, lambda rng: grouped(2, rng)),
    "latent, 24 + 8": (32, lambda rng: latent(24, 8, rng)), "one key head": (16, lambda rng: grouped(1, rng)),
    "latent, 8 + 8": (16, lambda rng: latent(8, 8, rng)), "latent, 12 + 4": (16, lambda rng: latent(12, 4, rng))}


def grouped(heads, rng):
    return nt.SelfAttention(D, HEADS, heads, bias=False, rotary=nt.RotaryEmbedding(WIDTH), rng=rng)


def latent(m, r, rng, form=nt.LatentAttention):
    return form(D, HEADS, m, WIDTH, r, rotary=nt.RotaryEmbedding(r), rng=rng)


def language_model(attention, seed, d_ff=85):
    rng = np.random.default_rng(seed)
    blocks = [nt.Block(attention(rng), nt.SwiGLU(D, d_ff, rng=rng), nt.RMSNorm(D), nt.RMSNorm(D))
              for _ in range(BLOCKS)]
    return nt.LanguageModel(nt.Embedding(tokenizer.vocab_size, D, rng=rng), nt.Stack(blocks, nt.RMSNorm(D)),
                            nt.Linear(D, tokenizer.vocab_size, False, rng), max_len=64)


ids, all_logits = np.array([tokenizer.encode(text[:40])]), []
for name, numbers, attention in (("one key head", 16, KINDS["one key head"][1]), ("2 groups", 32, KINDS["2 groups"][1]),
                                 ("latent, with keys", 4 * (16 + 8), KINDS["latent, 8 + 8"][1]),
                                 ("latent, absorbed", 16, lambda rng: latent(8, 8, rng, nt.AbsorbedLatentAttention))):
    model, cache = language_model(attention, 1).astype(np.float64).eval(), nt.KeyValueCache()
    one_by_one = np.concatenate([model(ids[:, t:t + 1], cache=cache) for t in range(ids.size)], 1)
    size = sum(kept.array.nbytes for kept in cache.arrays.values())
    all_logits.append(one_by_one)
    claim(f"{name}: token by token the logits are the same, and the cache has 8 bytes for each of {numbers} numbers",
          [relative_error(one_by_one, model(ids)) < 1e-12, size == ids.size * BLOCKS * numbers * 8], f"{size:,} bytes")
claim("both latent models return the same logits", relative_error(all_logits[3], all_logits[2]) < 1e-12)

# %% [markdown]
# ## 6. What absorption costs
#
# Count the multiplications of a layer for T new of S tokens, where c is kept, without the projections that both forms
# share. Computing all keys and values takes S H m (n + e), and attention to them T S H (n + r + e). The absorbed form
# takes T H m (n + e) for queries and outputs, and T S H (2 m + r) for attention.
#
# - **A long prompt**, T = S: the first terms are equal, and attention to c is more expensive, because c is wider.
# - **One new token**, T = 1: the first term shrinks to 1/S.
#
# So the same weights are used in both ways: with keys for training and for the prompt, absorbed for each new token.
#
# Keeping all keys and values would need even less: for the sizes of DeepSeek-V3, 0.18 billion instead of 0.59. But it
# reads 71 times as many numbers, which takes most of the time. Absorption saves memory, not arithmetic.

# %% Counted in the functions of section 4, and for the sizes of DeepSeek-V3
predict("n = 128, r = 64, e = 128, m = 512. By what factor does attention to c need more multiplications (1 decimal)?",
        round((2 * 512 + 64) / (128 + 64 + 128), 1), why="2 m + r = 1088, and n + r + e = 320.")


def multiplications(T, S, H, m, n, r, e):
    one, attended = H * m * (n + e), T * S * H * (n + r + e)            # one: the keys and values of one token
    return S * one + attended, T * one + T * S * H * (2 * m + r), T * one + attended


for T in (S, 1):
    counted = []
    for function in (with_keys, absorbed):
        MULTIPLIED.clear()
        function(q[:, -T:], q_R[:, -T:], c, k_R, W_K, W_V)
        counted.append(sum(MULTIPLIED))
    claim(f"{T} new of {S} tokens: the formulas count what the functions multiply",
          tuple(counted) == multiplications(T, S, H, m, n, r, e)[:2], f"{counted[0]} with keys, {counted[1]} absorbed")
costs = []
for T in (4096, 1):
    costs.append(multiplications(T, 4096, 128, 512, 128, 64, 128))
    print(f"  {T:4} new of 4096 tokens: {costs[-1][0] / 1e9:.2f} billion multiplications with keys,",
          f"{costs[-1][1] / 1e9:.2f} absorbed, {costs[-1][2] / 1e9:.2f} with all keys and values kept")
claim("a prompt is cheaper with keys", costs[0][0] < costs[0][1])
claim("with keys computed again, a new token takes more than 50 times as much", costs[1][0] > 50 * costs[1][1])
claim("but keeping all of them takes less than a third of the absorbed form", 3 * costs[1][2] < costs[1][1])

# %% [markdown]
# ## 7. Which is better, at equal bytes?
#
# Models like those of section 5 learn Python's language reference, character by character, in 200 steps, each with
# five different seeds. Runs with the same seed read the same windows, so their losses are compared in pairs. A
# difference counts if its mean is at least twice its standard error, the sample standard deviation of the five
# differences over sqrt(5).
#
# At equal bytes, latent attention still has wider queries and more weights. As a control, a model with one key head
# gets wider feed-forward layers, until it has as many weights as the smaller latent model.

# %% Seven kinds of attention
def train(attention, seed, d_ff, steps=200):
    windows = TextWindows(tokenizer.encode(text), 32, batch_size=16, seed=seed)
    model, criterion = language_model(attention, seed, d_ff), nt.CrossEntropyLoss()
    optimizer = nt.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98))
    for step in range(steps):
        (ids,), targets = windows.batch(step)
        model.zero_grad()
        criterion(model(ids), targets)
        model.backward(criterion.backward())
        optimizer.lr = 0.01 * min(1, (step + 1) / 30, (steps - step) / 100)         # rises, is constant, falls
        optimizer.step()
    held_out = windows.held_out[np.arange(0, len(windows.held_out) - 32, 32)[:, None] + np.arange(33)]
    return nt.CrossEntropyLoss().eval()(model.eval()(held_out[:, :-1]), held_out[:, 1:]), model.num_parameters()


losses = {}
RUNS = {**KINDS, "one key head, wider": (16, KINDS["one key head"][1])}
for name, (numbers, attention) in RUNS.items():
    runs = [train(attention, seed, 101 if "wider" in name else 85) for seed in range(1, 6)]
    losses[name] = np.array([loss for loss, _ in runs])
    print(f"  {name:20}{numbers:3} numbers, {runs[0][1]:6,} weights, loss", *(f"{loss:.2f}" for loss in losses[name]))


def compared(name, other):                  # the mean of the paired differences, and its standard error
    differences = losses[name] - losses[other]
    mean, error = differences.mean(), differences.std(ddof=1) / math.sqrt(5)
    print(f"  {name} minus {other}: {mean:+.3f} ± {error:.3f}")
    return mean, error


mean, error = compared("2 groups", "4 heads")
claim("fewer heads of keys cost something", mean > 2 * error)
mean, error = compared("latent, 8 + 8", "one key head")
claim("at 16 numbers, latent attention has a lower loss than one key head", mean < -3 * error)
mean, error = compared("latent, 8 + 8", "one key head, wider")
claim("and than one key head with as many weights", mean < -3 * error)
mean, error = compared("latent, 12 + 4", "latent, 8 + 8")
claim("with a rotary key of half the width, the loss is higher", mean > 3 * error)
mean, error = compared("latent, 12 + 4", "one key head")
claim("which is no better than with one key head", mean > -2 * error)
mean, error = compared("latent, 24 + 8", "latent, 8 + 8")
claim("with a latent vector of 24 numbers instead of 8, the loss is higher, too", mean > 2 * error)
mean, error = compared("latent, 24 + 8", "2 groups")
claim("between the two models with 32 numbers, no difference counts", abs(mean) < 2 * error)
means, errors = np.array([compared(name, "4 heads") for name in ("latent, 24 + 8", "latent, 8 + 8")]).T
claim("no latent model is better than four heads by a difference that counts", np.all(means > -2 * errors))
picture = Figure(figsize=(8, 4.2), layout="constrained")
axes = picture.subplots()
for place, (name, runs) in enumerate(losses.items()):
    axes.plot(runs, [place] * 5, "o", alpha=0.6)
    axes.plot(runs.mean(), place, "k|", markersize=18)
axes.set_yticks(range(len(losses)), [f"{name} ({numbers})" for name, (numbers, _) in RUNS.items()])
axes.set(xlabel="validation loss of five seeds, and their mean",
         title="Kinds of attention, with the numbers kept (latent: absorbed)")
axes.invert_yaxis()
figure("losses", picture)

# %% [markdown]
# At 16 numbers, 8 + 8 is clearly better than one key head, and the number of weights alone is not the reason. But
# 12 + 4 has lost this advantage: how the numbers are divided matters as much as the kind of attention. More latent
# numbers did not help: 24 + 8 is worse than 8 + 8, and no better than 2 groups. DeepSeek-V2 reports that latent
# attention was better than *multi-head* attention. That did not reproduce here.
#
# `numpy-transformer explore --lesson 23` shows where the heads' gradients of the rotary key meet.
#
# ## Exercises
#
# 1. Llama 3 8B has 16 GB of weights at 2 bytes each. After how many tokens does its cache need as much? And for Llama
#    2 7B with 14 GB?
# 2. In the absorbed form, W_K could be multiplied into W_Q once and for all: q W_Kᵀ = x (W_Q W_Kᵀ). How many weights
#    would a head have then, for d_model = 7168, n = 128 and m = 512? Why keep them apart?
# 3. Someone divides the absorbed scores by sqrt(m + r). What changes in a model that was trained with keys, and
#    in one that is trained in this way?
# 4. How many numbers would DeepSeek-V3 keep for each token and layer if each of its 128 heads had a rotary key
#    of its own?
# 5. In section 7, train 4 + 12 and 14 + 2, which keep 16 numbers, too. What do you conclude?
#
# With a checker (`numpy-transformer exercise start my-exercises 23`): 23.1, 23.2, 23.3.
