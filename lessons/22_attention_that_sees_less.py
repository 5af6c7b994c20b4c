# %% [markdown]
# # 22 Attention that sees less
#
# Every query of the 2017 Transformer sees every key, so T tokens cost T² scores, and a model that writes keeps all keys
# and values. Much of what has changed since then sees less:
#
#     windows (Beltagy et al. 2020)             the w tokens up to the query
#     blocks (Child et al. 2019)                chosen blocks of keys
#     kept first tokens (Xiao et al. 2024)      a window, and the first tokens
#     linear (Katharopoulos et al. 2020)        one sum over all keys
#
# After this lesson you will be able to write each of them, count what it saves, and say what it loses.

# %% Queries, keys and values for sections 1, 2 and 6
import copy

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source
from numpy_transformer.data import CharTokenizer, TextWindows, builtin_text
from numpy_transformer.layers.attention import with_score_changes
from numpy_transformer.layers.sinks import add_sinks

lesson.start(__name__)
rng = np.random.default_rng(22)
T, d, e, b = 12, 4, 3, 3                       # tokens, features of a key and a value, tokens of a block
q, k = rng.standard_normal((2, 1, 2, T, d))                         # one text, two heads
v, dy = rng.standard_normal((2, 1, 2, T, e))
t, s = np.arange(T)[:, None], np.arange(T)                          # position of a query, position of a key


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def outputs(attention, mask=None):          # y, dq, dk, dv
    return [attention(q, k, v, mask), *attention.backward(dy)]


def close(found, expected, bound=1e-12):
    return [relative_error(a, b) <= bound for a, b in zip(found, expected)]


# %% [markdown]
# ## 1. A window
#
# In a window of w, query t sees the keys t - w + 1 to t: itself and w - 1 tokens before it. A hidden score is -inf, so
# its weight and its gradient are exactly 0, as with every mask (lesson 06).
#
# One layer looks back w - 1 tokens. The tokens that it reads have looked back themselves, so N layers reach N (w - 1)
# tokens back.

# %% A window of w tokens, and what three layers reach
drawing("sees_less")
plain, causal = nt.ScaledDotProductAttention(), s <= t


def windowed(w):
    return with_score_changes(nt.ScaledDotProductAttention(), nt.SlidingWindow(w))


show_source(nt.SlidingWindow.forward, nt.SlidingWindow.backward, nt.SlidingWindow.near)
for w in (2, 5, 11, T):
    exact = outputs(plain, causal & (t - s < w))                    # for w = 12, full attention
    claim(f"a window of {w} shows exactly t - s < {w}, bit for bit", close(outputs(windowed(w), causal), exact, 0))
predict("4 layers with a window of 5: how many tokens back does an output depend on?", 16,
        why="Each layer looks 5 - 1 = 4 tokens back, and 4 layers 4 · 4 = 16.")
for layers in (1, 2, 3):
    model = nt.CausalLanguageModel(9, 8, 2, layers, rng=layers, attention=lambda sizes, rng: windowed(4))
    reach = nt.influence(model, rng.integers(0, 9, (1, T)), of="decoder")
    claim(f"N = {layers}: a window of 4 reaches {3 * layers} tokens back, and no further",
          np.array_equal(reach > 0, causal & (t - s <= 3 * layers)))

# %% [markdown]
# ## 2. Blocks, and what they cost
#
# A mask that hides a score does not save its computation. Matrix products are fast for whole blocks, so one divides
# the text into blocks of b tokens. A boolean **layout** names the blocks of keys that each block of queries sees. Only
# these scores are computed. Inside a block, the causal mask still hides later keys. In backward, a key that several
# blocks have seen gets the sum of their gradients.
#
# The cost is counted in multiply-adds: each score takes d in q kᵀ and each weight e in P v, here 64 each. The table
# counts a kernel that skips hidden keys; `SlidingWindow` computes all T² scores.

# %% Blocks of three tokens: the first one, the query's own one and the one before
layout = np.array([[i == j or j == 0 or i - j == 1 for j in range(T // b)] for i in range(T // b)])
y, dq, dk, dv = (np.zeros_like(array) for array in (v, q, k, v))
for i in range(T // b):
    rows = slice(i * b, (i + 1) * b)
    keys = np.flatnonzero(layout[i].repeat(b))                      # the keys of the blocks that block i sees
    y[..., rows, :] = plain(q[..., rows, :], k[..., keys, :], v[..., keys, :], causal[rows, keys])
    dq[..., rows, :], dk_seen, dv_seen = plain.backward(dy[..., rows, :])
    dk[..., keys, :] += dk_seen
    dv[..., keys, :] += dv_seen
show_source(nt.BlockSparseAttention.forward, nt.BlockSparseAttention.backward)
blocks = nt.BlockSparseAttention(layout, b)
claim("nt.BlockSparseAttention returns this y, dq, dk and dv", close(outputs(blocks, causal), (y, dq, dk, dv)))
claim("it is attention with the layout, expanded to tokens, as a mask",
      close(outputs(blocks, causal), outputs(plain, causal & layout.repeat(b, 0).repeat(b, 1))))
computed = sum((rows.stop - rows.start) * keys.size for rows, keys in blocks.blocks(T, T))
claim("it computes the scores of 9 blocks of 3 · 3, and no others", computed == layout.sum() * b * b == 81)
sees = np.arange(4096) + 1                                          # query t has t + 1 keys that are not later
counts = {"all keys": sees, "a window of 512": np.minimum(sees, 512), "up to 3 blocks of 64":
          np.minimum(-(-sees // 64), 3) * 64, "linear attention (section 6)": np.full(4096, 64 + 1)}
for (name, count), more in zip(counts.items(), (16, 5, 4, 4)):
    costs = 128 * count[:1024].sum(), 128 * count.sum()             # d + e = 128 multiply-adds for each score
    claim(f"{name}: 4 times the tokens take about {more} times the multiply-adds", round(costs[1] / costs[0]) == more,
          f"{costs[0]:.1e} for 1,024 tokens, {costs[1]:.1e} for 4,096")

# %% [markdown]
# ## 3. A learned sink
#
# The weights of a softmax sum to 1, even if a head finds nothing. Trained models then put them on the first token, an
# **attention sink**. gpt-oss (OpenAI 2025) gives each head h a sink instead, a learned score s_h without key and value:
#
#     p_j = exp(x_j) / (exp(s_h) + Σ exp(x_i))
#
# This is a softmax over one more score, whose value is a row of zeros, so its dp is 0. With p_s the sink's own weight,
# softmax's backward dx = p (dp - Σ dp_j p_j) gives
#
#     ds_h = -p_s Σ dp_j p_j,     summed over all queries, because they share s_h

# %% Softmax over one more column
x, dp, sink = rng.standard_normal((2, T, T)), rng.standard_normal((2, T, T)), rng.standard_normal(2)
p = nt.Softmax()(np.concatenate([x, np.broadcast_to(sink[:, None, None], (2, T, 1))], -1))  # the sink's weight is last
dot = (dp * p[..., :-1]).sum(-1, keepdims=True)                     # the sink's dp is 0
dx = p[..., :-1] * (dp - dot)
dsink = -(p[..., -1:] * dot).sum((1, 2))
softmax = nt.SinkSoftmax(2).astype(np.float64)
softmax.sinks.data = sink
found = softmax(x), softmax.backward(dp), softmax.sinks.grad
claim("nt.SinkSoftmax returns these weights, dx and ds", close(found, (p[..., :-1], dx, dsink)))
claim("finite differences and the complex step confirm it", nt.gradcheck(softmax, x).ok)

# %% [markdown]
# ## 4. A stream without its beginning
#
# A stream never ends, so its first tokens have to leave the cache at some point. For each letter, the model says
# whether it occurred among the four before it. For a new one, its heads find nothing to match. We train three models
# on 32 tokens: with a start token, with learned sinks, and with neither. Each then reads 256 tokens: with all keys,
# with a window of 10, and with one that keeps the first token (`nt.SinkWindow`).
#
# Positions are a learned bias for each distance up to 7. All longer ones share one, so the kept token may be far away.

# %% Three models, three ways to read
LETTERS, START, NEAR = 12, 12, 4


def stream(rng, count, length, start):      # letters, after a start token or not; whether each is among the last four
    ids = np.full((count, length), START)
    for t in range(start, length):
        again = ids[np.arange(count), np.maximum(t - rng.integers(1, NEAR + 1, count), 0)]
        repeats = (rng.random(count) < 0.4) & (again != START)
        ids[:, t] = np.where(repeats, again, rng.integers(0, LETTERS, count))
    seen = [(ids[:, max(0, t - NEAR):t] == ids[:, t, None]).any(1) for t in range(length)]
    return ids, np.stack(seen, 1).astype(int)


def train(model, batch, steps):
    optimizer, criterion = nt.Adam(model.parameters(), 0.01, betas=(0.9, 0.98)), nt.CrossEntropyLoss()
    for step in range(steps):
        ids, targets = batch(step)
        model.zero_grad()
        criterion(model(ids), targets)
        model.backward(criterion.backward())
        nt.clip_grad_norm(model.parameters(), 1.0)
        optimizer.lr = 0.01 * min(1, (step + 1) / 30, 2 * (steps - step) / steps)    # rises, is constant, falls
        optimizer.step()
    return model.eval()


def each_loss(model, ids, targets, window):
    model = copy.deepcopy(model)
    with_score_changes(model.decoder.blocks[0].attention.attention, window)
    return -np.take_along_axis(nt.LogSoftmax().eval()(model(ids)), targets[..., None], -1)[..., 0]


READINGS = {"all keys": nt.SlidingWindow(256), "window of 10": nt.SlidingWindow(10),
            "window of 10 and the first token": nt.SinkWindow(10, 1)}
picture = Figure(figsize=(8, 4.5), layout="constrained")
axes, late = picture.subplots(), {}
for kind, start, attention in (("start token", 1, "plain"), ("learned sinks", 0, lambda sizes, rng: add_sinks(
        nt.ScaledDotProductAttention(), sizes.num_heads)), ("neither", 0, "plain")):
    model = nt.CausalLanguageModel(LETTERS + 1, 32, 2, 1, max_len=256, rng=1, init="xavier", attention=attention,
                                   positions=nt.RelativePositionBias(2, 12, 8, causal=True, rng=1))
    ids, targets = stream(np.random.default_rng(1), 32 * 600, 32, start)
    train(model, lambda step: (ids[32 * step:32 * step + 32], targets[32 * step:32 * step + 32]), 600)
    ids, seen = stream(np.random.default_rng(2), 64, 256, start)
    losses = np.stack([each_loss(model, ids, seen, window) for window in READINGS.values()])
    late[kind] = losses[..., 32:].mean((1, 2))
    print(f"  {kind:14}", *(f"{name}: {loss:.4f}  " for name, loss in zip(READINGS, late[kind])))
    if start:
        axes.plot(np.exp(losses.mean(1)).T, label=list(READINGS))
        model(ids[:, :32])
        weight = model.decoder.blocks[0].attention.attention.weights[..., 8:, 0].mean(1)        # on the start token
        given = [weight[seen[:, 8:32] == old].mean() for old in (0, 1)]
        wrong = [np.mean(losses[1, :, 32:][seen[:, 32:] == old] > np.log(2)) for old in (0, 1)]     # less than half
(everything, lost, kept), learned, neither = late.values()
claim("with a start token, the window breaks the model, and the kept token repairs it",
      [lost > 0.2, lost > 3 * kept, kept < 0.15, kept < everything], f"loss {lost:.2f} and {kept:.2f}")
claim("the start token gets more weight for new letters", given[0] > 1.1 * given[1], "{:.2f}, {:.2f}".format(*given))
claim("once it is gone, new letters pass for old ones", [wrong[0] > 0.1, wrong[0] > 2 * wrong[1]],
      f"wrong are {wrong[0]:.1%} of the new ones, and {wrong[1]:.1%} of the old ones")
claim("without a start token, the window does no harm", [b < min(a + 0.05, 0.1) for a, b, _ in (learned, neither)])
axes.axvline(10, color="0.6", linestyle=":")
axes.set(xlabel="position", ylabel="perplexity", title="With a start token: it leaves the window at position 10")
picture.legend(loc="outside lower center", ncols=3)
figure("stream", picture)

# %% [markdown]
# If a letter is new, the heads of the first model give more weight to the start token. Once it is gone, this weight
# goes to letters, and new letters are taken for old. Reading all keys is worse than keeping one: the model
# was trained with 32.
#
# Two things did not reproduce. Xiao et al. 2024 find that *any* first token becomes a sink. Our third model, without a
# start token, does not break, so the second proves nothing for learned sinks. And on text, small models with the
# default initial weights lose almost nothing (exercise 3).
#
# ## 5. Distances that were never seen
#
# A window also limits the distances that positions express. ALiBi (Press et al. 2022) reaches further without one: it
# lowers a score by the distance times a slope m_h, 1/4, 1/16, 1/64 and 1/256 for four heads. A distance that never
# occurred in training continues the same line. Rotary positions (lesson 16) turn by angles that the model has never
# seen.

# %% Trained on 32 characters, read with 256
tokenizer, rise = CharTokenizer(builtin_text()), {}
windows = TextWindows(tokenizer.encode(builtin_text()), 32, batch_size=16, seed=1)
long = np.asarray(windows.held_out)[np.arange(0, len(windows.held_out) - 257, 257)[:, None] + np.arange(257)]
claim("the bias is -m_h (t - s)", close(nt.ALiBi(4)(T, T), -0.25 ** np.arange(1, 5)[:, None, None] * abs(t - s)))
for positions in ("alibi", "rotary"):
    model = nt.CausalLanguageModel(tokenizer.vocab_size, 32, 4, 1, max_len=256, rng=1, positions=positions)
    train(model, lambda step: (windows.batch(step)[0][0], windows.batch(step)[1]), 200)
    losses = each_loss(model, long[:, :-1], long[:, 1:], nt.SlidingWindow(256))
    rise[positions] = losses[:, 128:].mean() - losses[:, 16:32].mean()
claim("from position 128 on, ALiBi has lost less than 0.1, and rotary positions more than 0.3",
      [rise["alibi"] < 0.1, rise["rotary"] > 0.3], f"{rise['alibi']:+.3f} and {rise['rotary']:+.3f}")

# %% [markdown]
# ## 6. Linear attention
#
# Replace exp(q · k / sqrt(d)) by φ(q) · φ(k) with φ(x) = elu(x) + 1, which is x + 1 for x > 0 and exp(x) otherwise.
# Then the weighted mean
#
#     y_t = Σ (φ(q_t) · φ(k_j)) v_j / Σ φ(q_t) · φ(k_j),     j = 0 to t
#
# has φ(q_t) in every term. Taken out of both sums, it leaves what does not depend on the query: a **state** U_t = Σ
# φ(k_j)ᵀ v'_j with v' = (v, 1). It has d (e + 1) numbers, however long the text is, and takes the place of the cache.
# In u_t = φ(q_t) U_t, the last entry is the denominator z_t, and the others are the numerator:
#
#     y_t = u_t[:e] / z_t,     du_t = (dy_t, -dy_t · y_t) / z_t
#
# **Backward** runs in reverse. All queries from t on use U_t, so its gradient R_t is a running sum, too:
#
#     R_t = R_(t+1) + φ(q_t)ᵀ du_t,     dφ(k_t) = v'_t R_tᵀ,     dv'_t = φ(k_t) R_t,     dφ(q_t) = du_t U_tᵀ
#
# Finally dq_t = φ'(q_t) dφ(q_t), and likewise dk_t.

# %% Two forms of the same attention, forward and backward
def phi(x):                                 # and its derivative
    return np.where(x > 0, x + 1, np.exp(x)), np.where(x > 0, 1, np.exp(x))


(fq, q_slope), (fk, k_slope), v1 = phi(q), phi(k), np.concatenate([v, np.ones((1, 2, T, 1))], -1)
A = fq @ fk.mT * causal
kernel = A / A.sum(-1, keepdims=True) @ v
state, u = np.zeros((1, 2, d, e + 1)), np.zeros((1, 2, T, e + 1))
for n in range(T):
    state = state + fk[..., n, :, None] * v1[..., n, None, :]
    u[..., n, :] = (fq[..., n, None, :] @ state)[..., 0, :]
y = u[..., :-1] / u[..., -1:]
du = np.concatenate([dy, -(dy * y).sum(-1, keepdims=True)], -1) / u[..., -1:]       # y = u[..., :-1] / u[..., -1:]
R, dfq, dfk, dv1 = np.zeros_like(state), np.zeros_like(q), np.zeros_like(k), np.zeros_like(v1)
for n in reversed(range(T)):
    dfq[..., n, :] = (du[..., n, None, :] @ state.mT)[..., 0, :]
    R = R + fq[..., n, :, None] * du[..., n, None, :]
    dfk[..., n, :] = (v1[..., n, None, :] @ R.mT)[..., 0, :]
    dv1[..., n, :] = (fk[..., n, None, :] @ R)[..., 0, :]
    state = state - fk[..., n, :, None] * v1[..., n, None, :]       # the state before token n
claim("the sum over keys and the running state agree", relative_error(y, kernel) < 1e-12)
gradients = dfq * q_slope, dfk * k_slope, dv1[..., :-1]
for attention, mask in ((nt.LinearAttention(), causal), (nt.RecurrentLinearAttention(), None)):
    claim(f"{type(attention).__name__}: the same y, dq, dk and dv", close(outputs(attention, mask), (y, *gradients)))
claim("without the mask it sees the future, and without the division it is no mean",
      [relative_error(nt.LinearAttention()(q, k, v), y) > 0.1, relative_error(u[..., :-1], y) > 0.1])

# %% [markdown]
# ## 7. What a state cannot hold
#
# Each token stores a key and a value, and is asked for the value of its own key. There are n pairs; guessing recalls
# 1/16. A linear state is a sum: a value comes back unmixed only if the φ(k) are orthogonal. φ is positive, so at
# best they nearly are, and more than d not even that. Softmax needs no orthogonality: exp of large scores singles out
# the best key.

# %% Recall of n pairs, softmax against linear
KEYS, VALUES, COUNTS = 64, 16, (2, 4, 8, 16, 32, 48)


class Recall(nt.Module):
    def __init__(self, attention, d):
        self.query, self.key = (nt.Embedding(KEYS, d, rng=seed) for seed in (1, 2))
        self.value, self.output = nt.Embedding(VALUES, 16, rng=3), nt.Linear(16, VALUES, rng=4)
        self.attention = attention

    def forward(self, pairs):               # (keys, values)
        return self.output(self.attention(self.query(pairs[0]), self.key(pairs[0]), self.value(pairs[1])))

    def backward(self, dy):
        gradients = self.attention.backward(self.output.backward(dy))
        for part, gradient in zip((self.query, self.key, self.value), gradients):
            part.backward(gradient)


def pairs(seed, n, count=16):
    rng = np.random.default_rng(seed)
    keys, values = rng.random((count, KEYS)).argsort(1)[:, :n], rng.integers(0, VALUES, (count, n))
    return (keys, values), values


picture = Figure(figsize=(8, 4.5), layout="constrained")
axes, right = picture.subplots(), {}
for kind, width in ((nt.ScaledDotProductAttention, 8), (nt.LinearAttention, 8), (nt.LinearAttention, 16)):
    model = train(Recall(kind(), width), lambda step: pairs(step, 2 + step % 47), 600)
    tests = [pairs(1000 + n, n, 200) for n in COUNTS]
    right[kind, width] = np.array([np.mean(model(given).argmax(-1) == wanted) for given, wanted in tests])
    axes.plot(COUNTS, right[kind, width], "o-", label=f"{kind.__name__}, d = {width}")
    print(f"  {kind.__name__:25} d = {width:2}", *(f"{share:4.0%}" for share in right[kind, width]))
softmax, narrow, wide = right.values()
claim("with d = 8, softmax attention recalls 48 pairs, and linear attention a few; with d = 16, more",
      [min(softmax) > 0.98, narrow[0] > 0.9, narrow[3] < 0.8, narrow[5] < 0.5, np.all(wide[2:] > narrow[2:])])
axes.set(xlabel="number of pairs", ylabel="share of values recalled", title="A state of fixed size holds few pairs")
axes.legend()
figure("recall", picture)

# %% [markdown]
# ## 8. A long prompt in parts
#
# Reading a prompt of T tokens at once takes T² scores per head. Each **chunk** of C queries attends to the keys in the
# cache and to its own, at most T keys, so no call computes more than C T scores.

# %% Prefill at once and in chunks of 16
model = nt.CausalLanguageModel(9, 8, 2, 2, max_len=64, rng=1).astype(np.float64).eval()
ids = rng.integers(0, 9, (1, 64))
at_once, in_chunks, chunks, scores = nt.KeyValueCache(), nt.KeyValueCache(), [], []
logits = model(ids, cache=at_once)
for start in range(0, 64, 16):
    chunks.append(model(ids[:, start:start + 16], cache=in_chunks))
    scores.append(model.decoder.blocks[0].attention.attention.weights[0, 0].size)
claim("the logits are the same", relative_error(np.concatenate(chunks, 1), logits) < 1e-12)
caches = ([kept.array for kept in cache.arrays.values()] for cache in (in_chunks, at_once))
claim("and so are all keys and values in the caches", close(*caches))
predict("64 tokens, in chunks of 16: how many scores per head does the largest call compute? At once, it is 4,096.",
        max(scores), why="The last 16 queries see 64 keys: 16 · 64 = 1,024.")

# %% [markdown]
# `numpy-transformer explore --lesson 22` opens a sink's gradient in a trained model.
#
# ## Exercises
#
# 1. T = 6 and a window of 3, causal. How many scores are not hidden? Which input tokens does output 5 depend on after
#    two layers? How many keys per head does its cache need?
# 2. Two scores are 0 and 0, and the sink is ln 2. What are the weights? For dp = (1, 3), what are dx and ds?
# 3. Train the models of section 5 with two layers, a start token in front of each window of text and the positions
#    `nt.RelativePositionBias(4, 16, 24, causal=True)`, once with `init="gpt2"` (the default), once with `"xavier"`.
#    Read 300 characters with a window of 24 in both blocks, with and without the start token. How large is the effect?
# 4. Causal linear attention with d = 1, φ(k) = 2, 1, 1, φ(q) = 1, 1, 3 and v = 3, 0, 6. What are the states and the
#    outputs? Why does φ(q) make no difference?
# 5. A layer has 32 heads and 16-bit numbers, and the prompt has 100,000 tokens. How much memory do its scores
#    need at once, and in chunks of 512?
#
# With a checker (`numpy-transformer exercise start my-exercises 22`): 22.1, 22.2, 22.3.
