# %% [markdown]
# # 22 Attention that sees less
#
# Every query of the Transformer of 2017 sees every key, so T tokens cost T² scores, and a model that writes keeps all
# keys and values. Much of what has changed since then is about seeing less:
#
#     windows (Beltagy et al. 2020)             the w tokens up to the query
#     blocks (Child et al. 2019)                chosen blocks of keys
#     kept first tokens (Xiao et al. 2024)      a window, and the beginning of the text
#     linear (Katharopoulos et al. 2020)        one sum over all keys
#
# After this lesson you will be able to write each of them, to count what it saves, and to say what it loses.

# %% The same four queries, keys and values in all sections
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
T, d, e = 12, 4, 3
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
# its weight and its gradient are exactly 0, as with every mask (lesson 06). Nothing else changes.
#
# One layer looks back w - 1 tokens. The tokens that it reads have looked back themselves, so L layers reach L (w - 1)
# tokens back.

# %% A window of w tokens, and what three layers reach
drawing("sees_less")
causal = s <= t
plain = nt.ScaledDotProductAttention()
whole = outputs(plain, causal)


def windowed(w):
    return with_score_changes(nt.ScaledDotProductAttention(), nt.SlidingWindow(w))


show_source(nt.SlidingWindow.forward, nt.SlidingWindow.backward, nt.SlidingWindow.near)
claim("for 12 tokens, a window of 12 is full attention, bit for bit", close(outputs(windowed(T), causal), whole, 0))
claim("a window of 11 is not", not all(close(outputs(windowed(T - 1), causal), whole)))
for w in (2, 5, 11):
    claim(f"{w} tokens: t - s < {w}", close(outputs(windowed(w), causal), outputs(plain, causal & (t - s < w)), 0))
predict("4 layers with a window of 5: how many tokens back does an output depend on?", 16,
        why="Each layer looks 5 - 1 = 4 tokens back, and 4 layers 4 · 4 = 16.")
for layers in (1, 2, 3):
    model = nt.CausalLanguageModel(9, 8, 2, layers, rng=layers, attention=lambda sizes, rng: windowed(4))
    reach = nt.influence(model, rng.integers(0, 9, (1, T)), of="decoder")
    claim(f"L = {layers}: a window of 4 reaches {3 * layers} tokens back, and no further",
          np.array_equal(reach > 0, causal & (t - s <= 3 * layers)))

# %% [markdown]
# ## 2. Blocks, and what they cost
#
# A mask that hides a score does not save its computation. Matrix products are fast for whole blocks, so one divides
# the text into blocks of b tokens, and a boolean **layout** names the blocks of keys that each block of queries sees.
# Only these scores are computed. Inside a block, the causal mask still hides later keys.
#
# In backward, each block of queries is an attention of its own. A key that several blocks have seen gets the sum of
# their gradients.
#
# The cost is counted in multiply-adds: each score takes d in q kᵀ and each weight e in P v.

# %% Blocks of three tokens: the first one, the own one and the one before
b = 3
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
length, width = np.array([1024, 4096]), 64
keys_of_all = {"all keys": length * length, "a window of 512": length * 512,
               "3 blocks of sqrt(T)": 3 * length ** 1.5, "linear attention (section 6)": length * (width + 1)}
for (name, keys), growth in zip(keys_of_all.items(), (16, 4, 8, 4)):
    claim(f"{name}: 4 times the length takes {growth} times the multiply-adds", keys[1] == growth * keys[0],
          f"{2 * width * keys[0]:.1e} for 1,024 tokens, {2 * width * keys[1]:.1e} for 4,096")

# %% [markdown]
# ## 3. A sink of one's own
#
# The weights of a softmax sum to 1. A head that finds nothing has to put its weight somewhere. Trained models put it
# on the first token, an **attention sink**. gpt-oss gives each head h a sink instead, a learned score s_h without key
# and value:
#
#     p_j = exp(x_j) / (exp(s_h) + Σ exp(x_i))
#
# This is a softmax over one more score, whose value is a row of zeros. For this score dp = 0, and softmax's backward dx
# = p (dp - Σ dp_j p_j) gives
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
claim("nt.SinkSoftmax returns these weights, dx and ds",
      close((softmax(x), softmax.backward(dp), softmax.sinks.grad), (p[..., :-1], dx, dsink)))
claim("finite differences and the complex step confirm it", nt.gradcheck(softmax, x).ok)

# %% [markdown]
# ## 4. A stream without its beginning
#
# A stream of letters never ends, so its first tokens have to leave the cache some day. The model below says for each
# of 12 letters whether it is among the four before it. For a new letter, its two heads find nothing to match. Three
# models are trained on 32 tokens and then read 256: with all keys, with a window of 12, and with a window that keeps
# the first token (`nt.SinkWindow`).
#
# Positions are a learned bias for each distance up to 8, equal for all longer ones, so the kept token may be any
# distance away.

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


def loss_by_position(model, ids, targets, window):
    model = copy.deepcopy(model)
    with_score_changes(model.decoder.blocks[0].attention.attention, window)
    log_p = nt.LogSoftmax().eval()(model(ids))
    return -np.take_along_axis(log_p, targets[..., None], -1).mean((0, 2))


def sinks(sizes, rng):
    return add_sinks(nt.ScaledDotProductAttention(), sizes.num_heads)


READINGS = nt.SlidingWindow(256), nt.SlidingWindow(12), nt.SinkWindow(12, 1)
picture = Figure(figsize=(8, 4.5), layout="constrained")
axes, late = picture.subplots(), {}
for kind, start, attention in (("start token", 1, "plain"), ("learned sinks", 0, sinks), ("neither", 0, "plain")):
    model = nt.CausalLanguageModel(LETTERS + 1, 32, 2, 1, max_len=256, rng=1, init="xavier", attention=attention,
                                   positions=nt.RelativePositionBias(2, 12, 8, causal=True, rng=1))
    ids, targets = stream(np.random.default_rng(1), 32 * 600, 32, start)
    train(model, lambda step: (ids[32 * step:32 * step + 32], targets[32 * step:32 * step + 32]), 600)
    long_stream = stream(np.random.default_rng(2), 64, 256, start)
    losses = [loss_by_position(model, *long_stream, window) for window in READINGS]
    late[kind] = [loss[32:].mean() for loss in losses]
    print(f"  {kind:14}", *(f"{window}: {loss:.3f}  " for window, loss in zip(READINGS, late[kind])))
    if start:
        axes.plot(np.exp(losses).T, label=[str(window) for window in READINGS])
(everything, lost, kept), learned, neither = late.values()
claim("with a start token, the window breaks the model, and the kept token repairs it",
      [lost > 0.2, lost > 3 * kept, kept < 0.15, kept < everything], f"loss {lost:.2f} and {kept:.2f}")
claim("without a start token, the window does no harm, with learned sinks and without them",
      [losses[1] < losses[0] + 0.05 for losses in (learned, neither)])
axes.axvline(12, color="0.6", linestyle=":")
axes.set(xlabel="position", ylabel="perplexity", title="The start token leaves the window at position 12")
picture.legend(loc="outside lower center", ncols=2)
figure("stream", picture)

# %% [markdown]
# If a letter is new, the heads of the first model give part of their weight to the start token. As soon as it is gone,
# this weight goes to ordinary letters, and the model takes new letters for old ones. A learned sink cannot leave the
# cache. All keys are worse than the window with the kept token: the model was never trained with so many.
#
# Two things did not reproduce. Xiao et al. 2024 find that *any* first token becomes a sink. Our third model had no
# start token, and found a way that needs none: it does not break. And on text, small models lose less (exercise 3).
#
# ## 5. Distances that were never seen
#
# A window also limits the distances that positions have to express. ALiBi reaches further without one: it lowers a
# score by m_h times the distance, with a slope m_h for each head, 1/4, 1/16, 1/64 and 1/256 for four heads. A distance
# that never occurred in training continues the same line. Rotary positions (lesson 16) turn by angles that the model
# has never seen.

# %% Trained on 32 characters, read with 256
tokenizer = CharTokenizer(builtin_text())
windows = TextWindows(tokenizer.encode(builtin_text()), 32, batch_size=16, seed=1)
long = np.asarray(windows.held_out)[np.arange(0, len(windows.held_out) - 257, 257)[:, None] + np.arange(257)]
claim("the bias is -m_h (t - s)", close(nt.ALiBi(4)(T, T), -0.25 ** np.arange(1, 5)[:, None, None] * abs(t - s)))
rise = {}
for positions in ("alibi", "rotary"):
    model = nt.CausalLanguageModel(tokenizer.vocab_size, 32, 4, 1, max_len=256, rng=1, positions=positions)
    train(model, lambda step: (windows.batch(step)[0][0], windows.batch(step)[1]), 200)
    losses = loss_by_position(model, long[:, :-1], long[:, 1:], nt.SlidingWindow(256))
    rise[positions] = losses[128:].mean() - losses[16:32].mean()
claim("from position 128 on, ALiBi has lost little, and rotary positions several times as much",
      [rise["alibi"] < 0.15, rise["rotary"] > 2 * rise["alibi"]], f"{rise['alibi']:+.2f} and {rise['rotary']:+.2f}")

# %% [markdown]
# ## 6. Linear attention
#
# Replace exp(q · k / sqrt(d)) by φ(q) · φ(k) with φ(x) = elu(x) + 1, which is x + 1 for x > 0 and exp(x) otherwise.
# Then the weighted mean
#
#     y_t = Σ (φ(q_t) · φ(k_j)) v_j / Σ φ(q_t) · φ(k_j),     j = 0 to t
#
# has φ(q_t) in every term, and it can be taken out of both sums. What remains does not depend on the query: a
# **state** U_t = Σ φ(k_j)ᵀ v'_j, to which each token adds one term. Here v' = (v, 1), so the last column sums up the
# denominator. The state has d (e + 1) numbers, however long the text is. It takes the place of the cache.
#
# **Backward** runs in reverse. U_t is used by all queries from t on, so its gradient R_t is a running sum, too:
#
#     R_t = R_(t+1) + φ(q_t)ᵀ du_t,     dφ(k_t) = v'_t R_tᵀ,     dv'_t = φ(k_t) R_t,     dφ(q_t) = du_t U_tᵀ

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
# Now each token stores a pair of a key and a value, and is asked for the value of its own key. There are n pairs.
# Softmax attention keeps all n keys. The state of linear attention is a sum, and its φ(k) are vectors of d numbers:
# more than d of them are never independent, so values mix.

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
# A server reads a prompt of T tokens before it writes. All at once, this takes T² scores per head. In **chunks** of C
# tokens, each chunk attends to the cache and to itself, with C times as many scores as the cache has keys. At no time
# there are more than C T, and the result is the same.

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
predict("64 tokens, in chunks of 16: how many scores per head has the largest call? At once there are 4,096.",
        max(scores), why="The last 16 queries see 64 keys: 16 · 64 = 1,024.")

# %% [markdown]
# `numpy-transformer explore --lesson 22` opens a sink's gradient in a trained model.
#
# ## Exercises
#
# 1. T = 6 and a window of 3, causal. How many scores are not hidden? Which input tokens does output 5 depend on after
#    two layers? How large must a cache be that serves this window?
# 2. Two scores are 0 and 0, and the sink is ln 2. What are the weights? For dp = (1, 3), what are dx and ds?
# 3. Train the models of section 5 on text with a start token in front of each window, learned relative positions and
#    two layers, and read 300 characters with a window of 24, with and without the start token. How large is the effect?
# 4. Linear attention with d = 1, φ(k) = 2, 1, 1, φ(q) = 1, 1, 3 and v = 3, 0, 6. What are the states and the outputs?
#    Why does φ(q) make no difference here?
# 5. A layer has 32 heads and 16-bit numbers, and the prompt has 100,000 tokens. How much memory do the scores of a
#    layer need at once, and in chunks of 512?
#
# With a checker (`numpy-transformer exercise start my-exercises 22`): 22.1, 22.2, 22.3.
