# %% [markdown]
# # 17 Attention in tiles
#
# Each head of attention computes an array of T x S weights, and backward needs this array again. For a text of 8192
# tokens, this is 67 million numbers in every head of every layer. Yet nothing outside of attention uses the weights:
# the result is y, with one row for each token. This lesson computes y and all gradients in tiles, small rectangles of
# that array, and holds only one tile at a time. The obstacle is softmax, which needs a whole row of scores before it
# can give the first weight. This obstacle can be overcome without any approximation: the result equals that of plain
# attention up to rounding.
#
# After this lesson you will be able to compute a softmax in one pass over its row, derive a backward that needs no
# stored weights, and say what tiles save and what they cost. Lesson 05 explains plain attention. Sources: Milakov and
# Gimelshein 2018 (algorithm 3, softmax in one pass); Dao et al. 2022, FlashAttention (algorithms 1 and 4).
# About 15 minutes.

# %% Two heads of plain attention, and what passes through their softmax
import math
import tracemalloc

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict

lesson.start(__name__)


def relative_difference(a, b):
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(17)
H, T, S = 2, 10, 23                         # heads, queries, keys
d, e = 6, 4                                 # features of a query or key, features of a value
q, k, v, dy = (rng.standard_normal((H, *shape)) for shape in ((T, d), (S, d), (S, e), (T, e)))
plain = nt.ScaledDotProductAttention()
with nt.record(plain) as tape:
    y = plain(q, k, v)
    dq, dk, dv = plain.backward(dy)
softmax = tape["softmax"]
scores, P = softmax.inputs[0], softmax.output
dP, dS = softmax.dy, softmax.gradients[0]
plain.eval()                                # from here on, it only gives values to compare with
claim("scores, P, dP and dS have T x S numbers in each head", [x.size == H * T * S for x in (scores, P, dP, dS)])
predict("A text becomes 4 times as long. How many times as large is P, and how many times as large is q?", "16 and 4",
        why="P has one number for each pair of a query and a key, so it grows as T². q has one row for each token.")

# %% [markdown]
# ## 1. Softmax in one pass
#
# A query with the scores s_1, s_2, ... has the output y = (sum of exp(s_i) v_i) / (sum of exp(s_i)). We could add up
# both sums key by key, but exp overflows above 709 in float64 and above 88 in float32. That is why softmax subtracts
# the maximum of the row, and this maximum is known only at the end of the row.
#
# The solution is to subtract the largest score **so far**. After j keys, let
#
#     m_j = max(s_1, ..., s_j)
#     l_j = sum over i <= j of exp(s_i - m_j)
#     u_j = sum over i <= j of exp(s_i - m_j) v_i
#
# With the next score, the maximum becomes m_(j+1) = max(m_j, s_(j+1)). Each old term of the sums changes by the same
# factor, since exp(s_i - m_(j+1)) = exp(s_i - m_j) exp(m_j - m_(j+1)). So it is enough to **rescale** the old sums:
#
#     l_(j+1) = l_j exp(m_j - m_(j+1))
#               + exp(s_(j+1) - m_(j+1))
#     u_(j+1) = u_j exp(m_j - m_(j+1))
#               + exp(s_(j+1) - m_(j+1)) v_(j+1)
#
# For example, after the score 1 we have m = 1 and l = 1. If the next score is 3, then m becomes 3 and l becomes
# exp(-2) + 1 = 1.135. The definitions of m, l and u hold before each step and after it, so they are an invariant of the
# loop. It starts with m = -inf, l = 0 and u = 0, and ends with y = u / l, in which exp(-m) cancels. A step may also
# take a tile of n keys instead of a single key.

# %% The invariant, tile by tile
s = 2 * rng.standard_normal(24)
values = rng.standard_normal((24, e))
n = 6                                       # keys in a tile
predict("The maximum rises from 2 to 5. By what factor is l multiplied?", "exp(-3)",
        why="Old terms are exp(s - 2) and should be exp(s - 5). The quotient is exp(2 - 5).")
m = -math.inf
l = 0.0
u = np.zeros(e)
maxima = []
for j in range(0, len(s), n):
    new_m = max(m, s[j:j + n].max())
    factor = math.exp(m - new_m)            # exp(-inf) = 0 in the first tile
    p = np.exp(s[j:j + n] - new_m)
    l = l * factor + p.sum()
    u = u * factor + p @ values[j:j + n]
    m = new_m
    maxima.append(m)
    terms = [math.exp(x - m) for x in s[:j + n]]
    u_by_definition = [sum(a * c for a, c in zip(terms, column)) for column in values.T]
    claim(f"after {j + n:2} keys, m, l and u satisfy their definitions",
          m == max(s[:j + n]) and relative_difference(l, sum(terms)) < 1e-14
          and relative_difference(u, u_by_definition) < 1e-14,
          f"m = {m:.2f}, the old l is multiplied by {factor:.2f}, l = {l:.2f}")
claim("u / l is y = softmax(s) @ v", relative_difference(u / l, nt.Softmax()(s) @ values) < 1e-14)

# %% The invariant as a picture
picture = Figure(figsize=(12.4, 4.6), layout="constrained")
left, right = picture.subplots(1, 2)
for i, (maximum, color, hatch) in enumerate(zip(maxima, ("C0", "C1", "C2", "C4"), ("", "//", "..", "xx"))):
    style = {"color": color, "hatch": hatch, "edgecolor": "white"}
    keys = slice(i * n, i * n + n)
    left.bar(range(24)[keys], s[keys], label=f"tile {i + 1}", **style)
    left.plot([i * n - 0.5, i * n + n - 0.5], [maximum, maximum], "k-", linewidth=3, label="m" if i == 3 else None)
    for now in range(i, 4):                 # the part of l that comes from this tile, rescaled to the m of tile `now`
        part = np.exp(s[keys] - maxima[now]).sum()
        older = np.exp(s[:i * n] - maxima[now]).sum()
        right.bar(now + 1, part, bottom=older, **style)
left.set(xlabel="key", ylabel="score", title="Four tiles of scores and their maximum m so far", ylim=(None, 1.6 * m))
right.set(xticks=range(1, 5), xlabel="number of tiles read", ylabel="sum l, split by tile",
          title="When m rises, the older parts of l shrink")
left.legend(loc="upper left", ncols=3)
figure("one_pass", picture)

# %% [markdown]
# ## 2. Tiles of queries and keys
#
# Each query has its own m, l and u. A tile now consists of `rows` queries and `keys` keys, and the two loops below are
# the whole forward pass. (Algorithm 1 of the paper nests them the other way around.) `nt.FlashAttention(block_size)`
# takes `block_size` keys at a time, computes all heads at once, and supports masks. Its results are equal to those of
# plain attention up to rounding, because the terms are rescaled and added in a different order.

# %% The forward pass in two loops
def tiled(q, k, v, rows, keys):
    y = np.empty((len(q), v.shape[1]))
    for t in range(0, len(q), rows):
        m, l, u = -math.inf, 0.0, 0.0
        for j in range(0, len(k), keys):
            s = q[t:t + rows] @ k[j:j + keys].T / math.sqrt(q.shape[1])
            new_m = np.maximum(m, s.max(-1, keepdims=True))
            factor = np.exp(m - new_m)
            p = np.exp(s - new_m)
            l = l * factor + p.sum(-1, keepdims=True)
            u = u * factor + p @ v[j:j + keys]
            m = new_m
        y[t:t + rows] = u / l
    return y


for rows, keys in ((1, 1), (4, 5), (3, 100)):
    y_tiled = [tiled(*head, rows, keys) for head in zip(q, k, v)]
    claim(f"tiles of {rows} x {keys} give the y of plain attention", relative_difference(y_tiled, y) < 1e-14)
for keys in (1, 5, 64):
    y_flash = nt.FlashAttention(keys).eval()(q, k, v)
    claim(f"so does nt.FlashAttention(block_size={keys})", relative_difference(y_flash, y) < 1e-14)
mask = (rng.random((T, S)) < 0.5) & (np.arange(T)[:, None] != 3)           # query 3 may attend to nothing
y_masked = nt.FlashAttention(5).eval()(q, k, v, mask)
y_large_scores = nt.FlashAttention(5).eval()(1e4 * q, k, v)
claim("it does so with a mask, too", relative_difference(y_masked, plain(q, k, v, mask)) < 1e-14)
claim("a query that may attend to nothing gets zeros, not NaN", y_masked[:, 3] == 0)
claim("scores of many thousands do not overflow", relative_difference(y_large_scores, plain(1e4 * q, k, v)) < 1e-9)

# %% [markdown]
# ## 3. Causal tiles
#
# In causal attention, token t sees tokens 0 to t. A tile whose keys all come after its last query contributes nothing,
# so it is skipped and its scores are never computed. A tile whose keys all come before its first query needs no mask.
# Only the tiles on the diagonal need one. With N tiles per side, N (N + 1) / 2 of the N² tiles are computed. For N = 8,
# these are 36 of 64 tiles.

# %% Counting the tiles that are computed
class CountingAttention(nt.FlashAttention):
    """Records where each tile starts, and how many of its scores are hidden."""

    def blocks(self, q, k, mask):
        self.tiles = []
        for rows, keys, s in super().blocks(q, k, mask):
            self.tiles.append((rows[1].start, keys[1].start, np.isneginf(s).sum()))
            yield rows, keys, s


N = 8                                       # tiles per side
n = 64                                      # queries, and keys, in a tile
causal = CountingAttention(n, causal=True).eval()
causal_mask = nt.causal_mask(N * n)
long_q, long_k, long_v = rng.standard_normal((3, 16, N * n, 8))     # 16 heads
y_causal = causal(long_q, long_k, long_v)
claim("causal tiles give the y of plain attention",
      relative_difference(y_causal, plain(long_q, long_k, long_v, causal_mask)) < 1e-14)
claim("N (N + 1) / 2 tiles are computed", len(causal.tiles) == N * (N + 1) / 2, f"{len(causal.tiles)} of {N * N}")
claim("the tiles on the diagonal hide scores, and the others hide none",
      [(t == j) == (hidden > 0) for t, j, hidden in causal.tiles])
long_k[:, n:] = np.nan
long_v[:, n:] = np.nan
claim("skipped tiles are not read: NaN in keys and values from token 64 on does not reach the queries before it",
      np.array_equal(causal(long_q, long_k, long_v)[:, :n], y_causal[:, :n]))
claim("plain attention does read them, and the weight 0 times NaN is NaN",
      np.isnan(plain(long_q, long_k, long_v, causal_mask)))

# %% [markdown]
# ## 4. Backward without stored weights
#
# Lesson 05 derived dv = Pᵀ dy, dP = dy vᵀ, dS_tj = P_tj (dP_tj - D_t) with D_t = sum over j of P_tj dP_tj, and
# dq = dS k / sqrt(d), dk = dSᵀ q / sqrt(d). In tiles, two questions remain.
#
# **Where does P come from?** It is computed again. For this, forward saves two numbers for each query, m_t and l_t:
#
#     P_tj = exp(s_tj - m_t) / l_t
#
# **How can we know D_t before the whole row is computed?** We insert dP_tj = sum over c of dy_tc v_jc and change the
# order of the sums:
#
#     D_t = sum over j of P_tj (sum over c of dy_tc v_jc)
#         = sum over c of dy_tc (sum over j of P_tj v_jc)
#         = sum over c of dy_tc y_tc
#
# This needs only dy and y. Now each tile can add its part: to dv and dk of its keys, which are sums over the queries,
# and to dq of its queries, which is a sum over the keys.

# %% Each line of the derivation, then the whole backward pass
m = scores.max(-1, keepdims=True)
l = np.exp(scores - m).sum(-1, keepdims=True)
D = (dy * y).sum(-1, keepdims=True)
claim("P_tj = exp(s_tj - m_t) / l_t", relative_difference(np.exp(scores - m) / l, P) < 1e-14)
claim("D_t, the sum of P_tj dP_tj, equals the sum of dy_tc y_tc",
      relative_difference(D, (P * dP).sum(-1, keepdims=True)) < 1e-13)
claim("dS_tj = P_tj (dP_tj - D_t)", relative_difference(P * (dP - D), dS) < 1e-13)
dq_sum, dk_sum, dv_sum = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
for j in range(0, S, 5):                    # tiles of all queries and five keys
    keys = np.s_[:, j:j + 5]
    p = np.exp(q @ k[keys].mT / math.sqrt(d) - m) / l
    ds = p * (dy @ v[keys].mT - D)
    dv_sum[keys] += p.mT @ dy
    dk_sum[keys] += ds.mT @ q / math.sqrt(d)
    dq_sum += ds @ k[keys] / math.sqrt(d)
claim("the sums over the tiles equal plain attention's dq, dk and dv",
      [relative_difference(a, b) < 1e-13 for a, b in ((dq_sum, dq), (dk_sum, dk), (dv_sum, dv))])
forward_tiles = causal.tiles
inputs = rng.standard_normal((3, 16, N * n, 8))
long_dy = rng.standard_normal((16, N * n, 8))
causal.train()(*inputs)
plain.train()(*inputs, causal_mask)
pairs = zip(causal.backward(long_dy), plain.backward(long_dy))
claim("so do the gradients of nt.FlashAttention, here with causal tiles",
      [relative_difference(a, b) < 1e-13 for a, b in pairs])
claim("its backward computes the same tiles as its forward", causal.tiles == forward_tiles)
claim("gradcheck confirms the backward pass, here with two query heads for each key head", nt.gradcheck(
    nt.FlashAttention(5, causal=True), rng.standard_normal((4, 7, d)), k[:, :9], v[:, :9]).ok)

# %% [markdown]
# ## 5. Peak memory, measured
#
# We measure one causal head with d = e = 64 in float64. Python's tracemalloc counts every byte that NumPy allocates.
# The peak is the largest number of bytes in use at any time between the start of forward and the end of backward. The
# arrays q, k, v, dy and the mask exist before and do not count. Plain attention reaches its peak at the end
# of backward, where the T x T arrays P, dP and dS exist at the same time. With them exist five arrays of T x d: the
# scaled q, dv, dk, and dq before and after its division by sqrt(d).

# %% The peak at five lengths
def peak(attention, T, mask=None):
    """The peak memory of one forward and backward pass, in MB."""
    q, k, v, dy = rng.standard_normal((4, 1, T, 64))
    tracemalloc.start()
    attention(q, k, v, mask)
    attention.backward(dy)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(peak_bytes / 1e6, 2)       # rounded, since Python's own objects differ by a few bytes


LENGTHS = np.array([128, 256, 512, 1024, 2048])
plain_peaks = np.array([peak(nt.ScaledDotProductAttention(), T, nt.causal_mask(T)) for T in LENGTHS])
tiled_peaks = np.array([peak(nt.FlashAttention(32, causal=True), T) for T in LENGTHS])
claim("plain attention needs three arrays of T x T and five of T x d", np.allclose(
    plain_peaks, (3 * LENGTHS ** 2 + 5 * LENGTHS * 64) * 8 / 1e6, rtol=0.05), f"{plain_peaks[-1]:.1f} MB at T = 2048")
claim("in tiles, twice the length needs twice the memory", abs(tiled_peaks[1:] / tiled_peaks[:-1] - 2) < 0.1,
      f"{tiled_peaks[-1]:.1f} MB at T = 2048")
picture = Figure(figsize=(13, 4.8), layout="constrained")
left, right = picture.subplots(1, 2, width_ratios=(1, 1.4))
kinds = np.zeros((N, N))
for t, j, hidden in forward_tiles:
    kinds[t // n, j // n] = 1 if hidden else 2
left.imshow(kinds, "Blues", vmax=3, extent=(0, N * n, N * n, 0))
left.set(xticks=range(0, N * n + 1, 2 * n), yticks=range(0, N * n + 1, 2 * n), xlabel="key", ylabel="query",
         title=f"Causal tiles: {len(forward_tiles)} of {N * N} are computed")
for x, y, text, angle in ((330, 130, "skipped", 0), (130, 400, "computed\nwithout a mask", 0),
                          (256, 256, "computed with a mask", -45)):
    left.text(x, y, text, size=14, ha="center", va="center", rotation=angle)
for peaks, power, color, marker, name, growth in (
        (plain_peaks, 2, "C1", "s", "plain attention", "proportional to T²"),
        (tiled_peaks, 1, "C0", "o", "tiles of 32 keys", "proportional to T")):
    right.loglog(LENGTHS, peaks, color + marker + "-", label=name)
    right.loglog(LENGTHS, peaks[-1] * (LENGTHS / 2048) ** power, color + ":", linewidth=3, label=growth)
right.minorticks_off()
right.set(xlabel="length T of the text (tokens)", ylabel="peak memory (MB)", xticks=LENGTHS,
          xticklabels=LENGTHS, yticks=[1, 3, 10, 30, 100], yticklabels=[1, 3, 10, 30, 100],
          title="Peak memory of forward and backward of one head")
right.legend()
figure("memory", picture)

# %% [markdown]
# ## 6. What it costs
#
# Each matrix product of attention takes T S d multiplications. Plain attention has six of them: q kᵀ and P v in
# forward; dv, dP, dq and dk in backward. In tiles, q kᵀ is computed twice, which makes 7 T S d, one sixth more, and the
# exponentials are computed twice as well. On the other hand, causal tiles skip 28 of the 64 tiles above, which plain
# attention computes and then hides: 7 · 36 / 64 = 3.9, so 3.9 T S d.
#
# On a GPU, tiles mainly save time. One program takes a tile through all steps in the fast on-chip memory, and no T x S
# array travels to the main memory and back (theorem 2 of the paper counts these transfers). NumPy makes a separate
# pass over its arrays for every step. Here tiles mainly save memory, and a small tile can stay in the processor's cache
# between two passes.
#
# ## Exercises
#
# 1. Why is l at least 1 after the first tile, and at most the number of keys so far? What does this say about overflow?
# 2. Someone rescales u and forgets to rescale l. Find scores for which y is right all the same, and scores for which it
#    is wrong.
# 3. Write a function that takes (m, l, u) of the keys 0 to 11 and (m, l, u) of the keys 12 to 23 and returns (m, l, u)
#    of all 24 keys. Check it with section 1. Which tiles could then be computed at the same time?
# 4. Forward saves m and l. Show that a single number for each query is enough, m + log(l).
# 5. Each token sees itself and the 127 tokens before it. How many of the tiles of 64 x 64 are computed for T = 512? And
#    for T = 5120?
#
# With a checker (`numpy-transformer exercise check 17.1`): 17.1.
