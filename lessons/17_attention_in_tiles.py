# %% [markdown]
# # 17 Attention in tiles
#
# Each head of attention makes an array of T x S weights, and backward needs it again. For a text of 8192 tokens
# that is 67 million numbers in every head of every layer. Yet nobody asks for the weights: what is wanted is y, one
# row for each token. This lesson computes y and all gradients in tiles, small rectangles of that array, of
# which only one is there at a time. The obstacle is softmax, which has to see a whole row before it can give the
# first weight. It is overcome exactly: nothing is approximated, and the result is that of plain attention.
#
# Afterwards you can compute a softmax in one pass over its row, derive a backward that needs no stored weights,
# and say what tiles save and what they cost. Lesson 05 has plain attention. Sources: Milakov and Gimelshein 2018
# (algorithm 3, softmax in one pass); Dao et al. 2022, FlashAttention (algorithms 1 and 4). About 15 minutes.

# %% Two heads of plain attention, and what went through their softmax
import math
import tracemalloc

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.classroom import claim, figure, lesson, predict

lesson.start(__name__)


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(17)
H, T, S, d, e = 2, 10, 23, 6, 4             # heads, queries, keys, numbers in a query or key, in a value
q, k, v, dy = (rng.standard_normal((H, *shape)) for shape in ((T, d), (S, d), (S, e), (T, e)))
plain = nt.ScaledDotProductAttention()
with nt.record(plain) as tape:
    y = plain(q, k, v)
    dq, dk, dv = plain.backward(dy)
softmax = tape["softmax"]
scores, P, dP, dS = softmax.inputs[0], softmax.output, softmax.dy, softmax.gradients[0]
plain.eval()                                # from here on it serves to compare
claim("scores, P, dP and dS have T x S numbers in each head", [x.size == H * T * S for x in (scores, P, dP, dS)])
predict("a text becomes 4 times as long: how many times as large are P, and q?", "16 and 4")

# %% [markdown]
# ## 1. Softmax in one pass
#
# A query with the scores s_1, s_2, ... has the output y = (sum of exp(s_i) v_i) / (sum of exp(s_i)). Both
# sums could be collected key by key. But exp overflows beyond 709 in float64, beyond 88 in float32. So softmax
# subtracts the maximum of the row, and that is known only at the end of the row.
#
# The way out is to subtract the largest score **so far**. After j keys, let
#
#     m_j = max(s_1, ..., s_j)        l_j = sum over i <= j of exp(s_i - m_j)
#                                     u_j = sum over i <= j of exp(s_i - m_j) v_i
#
# The next score makes the maximum m_(j+1) = max(m_j, s_(j+1)), and each old term of the sums changes by one factor,
# exp(s_i - m_(j+1)) = exp(s_i - m_j) exp(m_j - m_(j+1)), the same for all i. So the old sums are **rescaled**:
#
#     l_(j+1) = l_j exp(m_j - m_(j+1)) + exp(s_(j+1) - m_(j+1))
#     u_(j+1) = u_j exp(m_j - m_(j+1)) + exp(s_(j+1) - m_(j+1)) v_(j+1)
#
# What the letters mean holds before the step and after it: an invariant. It begins with m = -inf, l = 0, u = 0
# and ends with y = u / l, in which exp(-m) cancels. Instead of one key, a tile of n keys may come at a time.

# %% The invariant, tile by tile, and its picture
s, values, n = 2 * rng.standard_normal(24), rng.standard_normal((24, e)), 6
predict("the maximum rises from 2 to 5: what is l multiplied by?", "exp(-3)")
m, l, u, tops = -math.inf, 0.0, np.zeros(e), []
for j in range(0, len(s), n):
    higher = max(m, s[j:j + n].max())
    p, factor = np.exp(s[j:j + n] - higher), math.exp(m - higher)           # exp(-inf) = 0 in the first tile
    l, u, m = l * factor + p.sum(), u * factor + p @ values[j:j + n], higher
    tops.append(m)
    terms = [math.exp(x - m) for x in s[:j + n]]
    claim(f"after {j + n:2} keys m, l and u are what their definitions say",
          m == max(s[:j + n]) and apart(l, sum(terms)) < 1e-14
          and apart(u, [sum(a * c for a, c in zip(terms, column)) for column in values.T]) < 1e-14,
          f"m = {m:.2f}, the old l times {factor:.2f}, l = {l:.2f}")
claim("u / l is y = softmax(s) @ v", apart(u / l, nt.Softmax()(s) @ values) < 1e-14)
picture = Figure(figsize=(12, 4.4), layout="constrained")
left, right = picture.subplots(1, 2)
for i, (top, colour, hatch) in enumerate(zip(tops, ("C0", "C1", "C2", "C4"), ("", "//", "..", "xx"))):
    looks, keys = {"color": colour, "hatch": hatch, "edgecolor": "white"}, slice(i * n, i * n + n)
    left.bar(range(24)[keys], s[keys], label=f"tile {i + 1}", **looks)
    left.plot([i * n - 0.5, i * n + n - 0.5], [top, top], "k-", linewidth=3, label="m" if i == 3 else None)
    for now in range(i, 4):                 # this tile's part of l, with the m of now; older tiles lie below it
        part, older = (np.exp(s[terms] - tops[now]).sum() for terms in (keys, slice(0, i * n)))
        right.bar(now + 1, part, bottom=older, **looks)
left.set(xlabel="key", ylabel="score", title="Four tiles, and the largest score so far", ylim=(None, 1.6 * m))
right.set(xticks=range(1, 5), xlabel="after tile", ylabel="the sum l", title="Where m rises, older parts of l shrink")
left.legend(loc="upper left", ncols=3)
figure("one_pass", picture)

# %% [markdown]
# ## 2. Tiles of queries and keys
#
# Each query has m, l and u of its own. A tile is now `rows` queries times `keys` keys, and the two loops below are the
# whole forward pass. (Algorithm 1 of the paper has them the other way round.) `nt.FlashAttention(block_size)` takes
# `block_size` keys at a time, serves all heads at once, and takes masks. Equal means up to rounding here: the terms
# are rescaled, and summed in another order.

# %% The forward pass in two loops
def tiled(q, k, v, rows, keys):
    y = np.empty((len(q), v.shape[1]))
    for t in range(0, len(q), rows):
        m, l, u = -math.inf, 0.0, 0.0
        for j in range(0, len(k), keys):
            s = q[t:t + rows] @ k[j:j + keys].T / math.sqrt(q.shape[1])
            higher = np.maximum(m, s.max(-1, keepdims=True))
            p, factor = np.exp(s - higher), np.exp(m - higher)
            l, u, m = l * factor + p.sum(-1, keepdims=True), u * factor + p @ v[j:j + keys], higher
        y[t:t + rows] = u / l
    return y


for rows, keys in ((1, 1), (4, 5), (3, 100)):
    y_tiled = [tiled(*head, rows, keys) for head in zip(q, k, v)]
    claim(f"tiles of {rows} x {keys} give plain attention's y", apart(y_tiled, y) < 1e-14)
for keys in (1, 5, 64):
    claim(f"so does nt.FlashAttention(block_size={keys})", apart(nt.FlashAttention(keys).eval()(q, k, v), y) < 1e-14)
mask = (rng.random((T, S)) < 0.5) & (np.arange(T)[:, None] != 3)           # query 3 may attend to nothing
y_masked, y_high = (nt.FlashAttention(5).eval()(*inputs) for inputs in ((q, k, v, mask), (1e4 * q, k, v)))
claim("with a mask too", apart(y_masked, plain(q, k, v, mask)) < 1e-14)
claim("a query that may attend to nothing gets zeros, not NaN", y_masked[:, 3] == 0)
claim("scores of many thousands do no harm", apart(y_high, plain(1e4 * q, k, v)) < 1e-9)

# %% [markdown]
# ## 3. Causal tiles
#
# In causal attention token t sees the tokens 0 to t. A tile whose keys all come after its last query has nothing
# to give: it is skipped, and its scores are never computed. A tile whose keys all come before its first query needs
# no mask; only those on the diagonal do. With N tiles a side, N (N + 1) / 2 of N² are computed.

# %% Counting the tiles that are computed
class Listed(nt.FlashAttention):            # writes down the place of each tile, and how many of its scores it hides
    def blocks(self, q, k, mask):
        self.tiles = []
        for rows, keys, s in super().blocks(q, k, mask):
            self.tiles.append((rows[1].start, keys[1].start, np.isneginf(s).sum()))
            yield rows, keys, s


N, n = 8, 64                                # tiles a side, tokens a side of each
causal, diagonal = Listed(n, causal=True).eval(), nt.causal_mask(N * n)
long_q, long_k, long_v = rng.standard_normal((3, 16, N * n, 8))     # 16 heads
y_causal = causal(long_q, long_k, long_v)
claim("causal tiles give plain attention's y", apart(y_causal, plain(long_q, long_k, long_v, diagonal)) < 1e-14)
claim("N (N + 1) / 2 tiles are computed", len(causal.tiles) == N * (N + 1) / 2, f"{len(causal.tiles)} of {N * N}")
claim("those on the diagonal hide scores, the others none", [(t == j) == (hidden > 0) for t, j, hidden in causal.tiles])
long_k[:, n:], long_v[:, n:] = np.nan, np.nan
claim("skipped tiles are not read: NaN from token 64 on does not reach the queries before it",
      np.array_equal(causal(long_q, long_k, long_v)[:, :n], y_causal[:, :n]))
claim("plain attention reads them: the weight 0 times NaN is NaN", np.isnan(plain(long_q, long_k, long_v, diagonal)))

# %% [markdown]
# ## 4. Backward without stored weights
#
# Lesson 05 derived dv = Pᵀ dy, dP = dy vᵀ, dS_tj = P_tj (dP_tj - D_t) with D_t = sum over j of P_tj dP_tj, and
# dq = dS k / sqrt(d), dk = dSᵀ q / sqrt(d). Two questions are open in tiles.
#
# **Where does P come from?** It is computed again. Forward remembers two numbers for each query, m_t and l_t:
#
#     P_tj = exp(s_tj - m_t) / l_t
#
# **How can D_t be known before the whole row is?** Write dP_tj = sum over c of dy_tc v_jc, and change the order
# of the sums:
#
#     D_t = sum over j of P_tj (sum over c of dy_tc v_jc) = sum over c of dy_tc (sum over j of P_tj v_jc)
#         = sum over c of dy_tc y_tc
#
# That needs only dy and y. Now each tile adds its part: to dv and dk of its keys, which are sums over the
# queries, and to dq of its queries, a sum over the keys.

# %% Each line of it, the loop, and the whole against plain attention and differences
m = scores.max(-1, keepdims=True)
l = np.exp(scores - m).sum(-1, keepdims=True)
D = (dy * y).sum(-1, keepdims=True)
claim("P_tj = exp(s_tj - m_t) / l_t", apart(np.exp(scores - m) / l, P) < 1e-14)
claim("D_t, the sum of P_tj dP_tj, is the sum of dy_tc y_tc", apart(D, (P * dP).sum(-1, keepdims=True)) < 1e-13)
claim("dS_tj = P_tj (dP_tj - D_t)", apart(P * (dP - D), dS) < 1e-13)
sums = dq_sum, dk_sum, dv_sum = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
for keys in (np.s_[:, j:j + 5] for j in range(0, S, 5)):            # all queries, five keys
    p = np.exp(q @ k[keys].mT / math.sqrt(d) - m) / l
    ds = p * (dy @ v[keys].mT - D)
    dv_sum[keys] += p.mT @ dy
    dk_sum[keys] += ds.mT @ q / math.sqrt(d)
    dq_sum += ds @ k[keys] / math.sqrt(d)
claim("the sums over the tiles are plain attention's dq, dk and dv",
      [apart(a, b) < 1e-13 for a, b in zip(sums, (dq, dk, dv))])
forward, inputs, dlong = causal.tiles, rng.standard_normal((3, 16, N * n, 8)), rng.standard_normal((16, N * n, 8))
causal.train()(*inputs)
plain.train()(*inputs, diagonal)
pairs = zip(causal.backward(dlong), plain.backward(dlong))
claim("those of nt.FlashAttention too, here in causal tiles", [apart(a, b) < 1e-13 for a, b in pairs])
claim("its backward computes the same tiles as its forward", causal.tiles == forward)
claim("gradcheck agrees, here with two query heads for each key head", nt.gradcheck(
    nt.FlashAttention(5, causal=True), rng.standard_normal((4, 7, d)), k[:, :9], v[:, :9]).ok)

# %% [markdown]
# ## 5. The memory, measured
#
# One head, causal, d = e = 64, float64. Python's tracemalloc sees each byte that NumPy asks for; the peak is the most
# there was at one time between the first line of forward and the last of backward. q, k, v, dy and the mask were there
# before and do not count. Plain attention's peak lies in softmax's backward, where P, dP and dS meet.

# %% The peak at five lengths
def peak(attention, T, mask=None):
    q, k, v, dy = rng.standard_normal((4, 1, T, 64))
    tracemalloc.start()
    attention(q, k, v, mask)
    attention.backward(dy)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(most / 1e6, 2)             # in MB; the last bytes are those of Python's own objects


LENGTHS = np.array([128, 256, 512, 1024, 2048])
whole = np.array([peak(nt.ScaledDotProductAttention(), T, nt.causal_mask(T)) for T in LENGTHS])
tiles = np.array([peak(nt.FlashAttention(32, causal=True), T) for T in LENGTHS])
claim("plain: three arrays of T x T and four of T x d", np.allclose(
    whole, (3 * LENGTHS ** 2 + 4 * LENGTHS * 64) * 8 / 1e6, rtol=0.05), f"{whole[-1]:.1f} MB at T = 2048")
claim("tiles: twice the length takes twice the memory", abs(tiles[1:] / tiles[:-1] - 2) < 0.1, f"{tiles[-1]:.1f} MB")
picture = Figure(figsize=(13, 4.8), layout="constrained")
left, right = picture.subplots(1, 2, width_ratios=(1, 1.4))
kinds = np.zeros((N, N))
for t, j, hidden in forward:
    kinds[t // n, j // n] = 1 if hidden else 2
left.imshow(kinds, "Blues", vmax=3, extent=(0, N * n, N * n, 0))
left.set(xticks=range(0, N * n + 1, 2 * n), yticks=range(0, N * n + 1, 2 * n), xlabel="keys", ylabel="queries",
         title=f"Causal tiles: {len(forward)} of {N * N} are computed")
for x, y, text in ((330, 130, "skipped"), (100, 400, "no mask"), (256, 256, "with a mask")):
    left.text(x, y, text, size=14, ha="center", va="center", rotation=-45 if x == y else 0)
for peaks, power, colour, marker, name in ((whole, 2, "C1", "s", "plain"), (tiles, 1, "C0", "o", "tiles of 32 keys")):
    right.loglog(LENGTHS, peaks, colour + marker + "-", label=name)
    right.loglog(LENGTHS, peaks[-1] * (LENGTHS / 2048) ** power, colour + ":", linewidth=3, label=f"slope {power}")
right.minorticks_off()
right.set(xlabel="length T of the text (tokens)", ylabel="peak of forward and backward (MB)", xticks=LENGTHS,
          xticklabels=LENGTHS, yticks=[1, 3, 10, 30, 100], yticklabels=[1, 3, 10, 30, 100],
          title="One head: twice the text takes 4 times or 2 times the memory")
right.legend()
figure("memory", picture)

# %% [markdown]
# ## 6. What it costs
#
# A matrix product of attention takes T S d multiplications. Plain attention has six: q kᵀ and P v forward; dv, dP,
# dq and dk backward. In tiles q kᵀ comes twice: 7 T S d, a sixth more, and twice the exponentials. Causal tiles skip
# 28 of the 64 tiles above, which plain attention computes and then hides: 7 · 36 / 64 = 3.9 T S d.
#
# On a GPU tiles save time above all: one program takes a tile through all steps in the fast memory of the chip, and
# no T x S array travels to the main memory and back (theorem 2 of the paper counts it). NumPy makes a pass over its
# arrays for every step. Here tiles save memory, and a small one can stay in the processor's cache between passes.
#
# ## Exercises
#
# 1. Why is l at least 1 after the first tile, and at most the number of keys so far? What does that say of overflow?
# 2. Someone rescales u and forgets l. Find scores for which y is right all the same, and scores for which it is not.
# 3. Write a function that takes (m, l, u) of the keys 0 to 11 and (m, l, u) of the keys 12 to 23 and returns those of
#    all 24. Check it with section 1. Which tiles could then be worked on at the same time?
# 4. Forward remembers m and l. Show that one number for each query is enough, m + log(l).
# 5. Each token sees itself and the 127 before it. How many of the 64 x 64 tiles are computed for T = 512? And for 5120?
#
# With a checker (`numpy-transformer exercise check NN`): 17.1.
