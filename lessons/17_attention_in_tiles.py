# %% [markdown]
# # 17 Attention in tiles
#
# Each head of attention computes an array of T x S weights, and backward needs this array again. For a text of 8192
# tokens, this is 67 million numbers in every head of every layer. Yet nothing outside of attention uses the weights:
# the result is y, with one row for each token. This lesson computes y and all gradients in tiles, small rectangles of
# that array, and holds only one tile at a time. The obstacle is softmax, which needs a whole row of scores before it
# can give the first weight. It can be overcome without any approximation: the result equals that of plain attention up
# to rounding. Sources: Milakov and Gimelshein 2018 (algorithm 3: maximum and sum in one pass); Dao et
# al. 2022, FlashAttention (algorithms 1 and 4).
#
# In the example, three tokens of the text "the dog saw cats and it" look for other tokens. "It" looks for nouns, most
# of all for a plural.

# %% Three queries and six keys
import math
import tracemalloc

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source

lesson.start(__name__)
#                                              noun, verb, plural, pronoun: what each key is
k = np.array([[0.0, 0, 0, 0],                # the
              [1, 0, 0, 0],                  # dog
              [0, 1, 0, 0],                  # saw
              [1, 0, 1, 0],                  # cats
              [0, 0, 0, 0],                  # and
              [0, 0, 0, 1]])                 # it
q = np.array([[8.0, 0, -2, 0],               # saw: looks for its subject, rather not a plural
              [4, 0, 0, 0],                  # and: looks for nouns
              [6, 2, 2, 4]])                 # it
v = np.array([[0.0, 0], [1, 1], [0, 0], [1, 2], [0, 0], [0, 1]])   # animal or not, how many
(T, d), S = q.shape, len(k)
A = q @ k.T / math.sqrt(d)                   # plain attention, to compare with
P = np.exp(A) / np.exp(A).sum(-1, keepdims=True)
y = P @ v


def relative_error(a, b):                    # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


claim('the scores of "it" are 0, 3, 1, 4, 0 and 2', A[2] == [0, 3, 1, 4, 0, 2])
predict("A text becomes 4 times as long. How many times as large is P, and how many times as large is q?", "16 and 4",
        why="P has one number for each pair of a query and a key, so it grows as T². q has one row for each token.")

# %% [markdown]
# ## 1. Softmax in one pass
#
# A query with the scores A_1, A_2, ... has the output y = (sum of exp(A_s) v_s) / (sum of exp(A_s)). We could add up
# both sums key by key, but exp overflows above 709 in float64 and above 88 in float32. That is why softmax subtracts
# the maximum of the row, and this maximum is known only at the end of the row.
#
# The solution is to subtract the largest score **so far**, which we call top. After some of the keys, let
#
#     total = sum over these keys of exp(A_s - top)
#     u     = sum over these keys of exp(A_s - top) v_s
#
# If the next scores raise the maximum to new_top, each old term has to change by the same factor, because
# exp(A_s - new_top) = exp(A_s - top) exp(top - new_top). So it is enough to **rescale** the old sums by
# exp(top - new_top), and then to add the new terms. The loop starts with top = -inf, total = 0 and u = 0, and ends with
# y = u / total, in which exp(-top) cancels. Each step may take one key, or a tile of several keys.
#
# The drawing follows the scores of "it" in tiles of two keys. When the maximum rises from 3 to 4, the sum 1.05 is
# multiplied by exp(-1), which gives 0.39.

# %% The row of "it", tile by tile
drawing("tiles")
predict("The maximum rises from 2 to 5. By what factor is the total multiplied (two decimals)?", 0.05,
        why="Old terms are exp(A - 2) and should be exp(A - 5). The quotient is exp(2 - 5) = 0.05.")
top, total, u = -math.inf, 0.0, np.zeros(2)
for j in range(0, S, 2):
    scores = A[2, j:j + 2]
    new_top = max(top, scores.max())
    factor = math.exp(top - new_top)         # exp(-inf) = 0 in the first tile
    p = np.exp(scores - new_top)
    total = total * factor + p.sum()
    u = u * factor + p @ v[j:j + 2]
    top = new_top
    terms = np.exp(A[2, :j + 2] - top)
    claim(f"after {j + 2} keys, total and u satisfy their definitions",
          [relative_error(total, terms.sum()) < 1e-14, relative_error(u, terms @ v[:j + 2]) < 1e-14],
          f"top {top:g}, factor {factor:.2f}, total {total:.2f}")
claim('u / total is the output of "it"', relative_error(u / total, y[2]) < 1e-14)
show(y_it=u / total)

# %% [markdown]
# ## 2. Forward in tiles
#
# Each query has its own top, total and u. A tile now consists of some queries and some keys, and the two loops below
# are the whole forward pass. Besides y, it returns top and total, two numbers for each query, which backward will need.

# %% Two loops over queries and keys
def forward(q, k, v, rows, keys):            # rows x keys is the size of a tile
    y, tops, totals = np.empty((len(q), v.shape[1])), np.empty((len(q), 1)), np.empty((len(q), 1))
    for t in range(0, len(q), rows):
        tile = np.s_[t:t + rows]
        top, total, u = -math.inf, 0.0, 0.0
        for j in range(0, len(k), keys):
            scores = q[tile] @ k[j:j + keys].T / math.sqrt(q.shape[1])
            new_top = np.maximum(top, scores.max(-1, keepdims=True))
            factor = np.exp(top - new_top)
            p = np.exp(scores - new_top)
            total = total * factor + p.sum(-1, keepdims=True)
            u = u * factor + p @ v[j:j + keys]
            top = new_top
        y[tile], tops[tile], totals[tile] = u / total, top, total
    return y, tops, totals


for rows, keys in ((1, 1), (2, 2), (3, 5)):
    claim(f"tiles of {rows} x {keys} give the y of plain attention",
          relative_error(forward(q, k, v, rows, keys)[0], y) < 1e-14)
claim("scores of many thousands do not overflow", np.isfinite(forward(1e4 * q, k, v, 2, 2)[0]))

# %% [markdown]
# ## 3. Backward without stored weights
#
# Lesson 05 derived dv = Pᵀ dy, dP = dy vᵀ, dA_ts = P_ts (dP_ts - mean_t), where mean_t is the sum over s of P_ts dP_ts,
# and dq = dA k / sqrt(d), dk = dAᵀ q / sqrt(d). In tiles, two questions remain.
#
# **Where does P come from?** It is computed again: P_ts = exp(A_ts - top_t) / total_t.
#
# **How can we know mean_t before the whole row is computed?** We insert dP_ts = sum over c of dy_tc v_sc, and change
# the order of the sums:
#
#     mean_t = sum over s of P_ts (sum over c of dy_tc v_sc)
#            = sum over c of dy_tc (sum over s of P_ts v_sc)
#            = sum over c of dy_tc y_tc
#
# This needs only dy and y. Now each tile can add its part: to dv and dk of its keys, which are sums over the queries,
# and to dq of its queries, which is a sum over the keys.

# %% Each line of backward in tiles, under its line of forward
dy = np.array([[1.0, -1], [0.5, 2], [1, 3]])
y, top, total = forward(q, k, v, 2, 2)
mean = (dy * y).sum(-1, keepdims=True)
dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
for j in range(0, S, 2):
    keys = np.s_[j:j + 2]
    P_tile = np.exp(q @ k[keys].T / math.sqrt(d) - top) / total
    # y = P @ v
    dv[keys] += P_tile.T @ dy
    dP_tile = dy @ v[keys].T
    # P = softmax(A)
    dA_tile = P_tile * (dP_tile - mean)
    # A = q @ k.T / math.sqrt(d)
    dq += dA_tile @ k[keys] / math.sqrt(d)
    dk[keys] += dA_tile.T @ q / math.sqrt(d)
claim("mean_t, the sum of P_ts dP_ts, equals the sum of dy_tc y_tc",
      relative_error(mean, (P * (dy @ v.T)).sum(-1, keepdims=True)) < 1e-14)
plain = nt.ScaledDotProductAttention()
plain(q[None], k[None], v[None])             # an axis in front for the heads
claim("dq, dk and dv equal those of plain attention",
      [relative_error(a, b[0]) < 1e-14 for a, b in zip((dq, dk, dv), plain.backward(dy[None]))])

# %% [markdown]
# ## 4. The package's class
#
# `nt.FlashAttention(block_size)` takes block_size keys at a time, and all heads at once. Four things differ. `group`
# divides q by sqrt(d). `blocks` yields the tiles: which queries, which keys, and their scores, with -inf where the mask
# hides a key. A column of ones beside v makes the last column of u the total. And backward divides dy by the total
# instead of dividing each tile.

# %% Its source, and the same numbers
show_source(nt.FlashAttention.forward, nt.FlashAttention.backward)
flash = nt.FlashAttention(2)
claim("nt.FlashAttention returns this y", relative_error(flash(q[None], k[None], v[None])[0], y) < 1e-14)
claim("and this dq, dk and dv",
      [relative_error(b[0], a) < 1e-14 for a, b in zip((dq, dk, dv), flash.backward(dy[None]))])
rng = np.random.default_rng(17)
heads = [rng.standard_normal((2, *shape)) for shape in ((10, 6), (23, 6), (23, 4))]       # random q, k, v of two heads
mask = (rng.random((10, 23)) < 0.5) & (np.arange(10)[:, None] != 3)          # query 3 may attend to nothing
masked = nt.FlashAttention(5)(*heads, mask)
claim("it gives the y of plain attention with a mask, too", relative_error(masked, plain(*heads, mask)) < 1e-14)
claim("a query that may attend to nothing gets zeros, not NaN", masked[:, 3] == 0)
claim("finite differences and the complex step confirm its gradients", nt.gradcheck(
    nt.FlashAttention(5), *heads, mask, directions=2).ok)
plain.forget()

# %% [markdown]
# ## 5. Causal tiles
#
# In causal attention, token t sees tokens 0 to t. A tile whose keys all come after its last query contributes nothing,
# so it is skipped and its scores are never computed. A tile whose keys all come before its first query needs no mask.
# Only the tiles on the diagonal need one. With n tiles per side, n (n + 1) / 2 of the n² tiles are computed.

# %% Counting the tiles that are computed
class CountingAttention(nt.FlashAttention):
    """Records where each tile starts, and how many of its scores are hidden."""

    def blocks(self, q, k, mask):
        self.tiles = []
        for rows, keys, scores in super().blocks(q, k, mask):
            self.tiles.append((rows[1].start, keys[1].start, np.isneginf(scores).sum()))
            yield rows, keys, scores


n, size = 8, 64                              # tiles per side, and queries, and keys, in a tile
causal = CountingAttention(size, causal=True)
causal_mask = nt.causal_mask(n * size)
long_q, long_k, long_v, long_dy = rng.standard_normal((4, 16, n * size, 8))        # 16 heads
y_causal = causal(long_q, long_k, long_v)
y_plain = plain(long_q, long_k, long_v, causal_mask)
tiles = causal.tiles
claim("causal tiles give the y of plain attention", relative_error(y_causal, y_plain) < 1e-14)
claim("and its gradients", [relative_error(a, b) < 1e-13
                            for a, b in zip(causal.backward(long_dy), plain.backward(long_dy))])
claim("n (n + 1) / 2 tiles are computed", len(tiles) == n * (n + 1) / 2, f"{len(tiles)} of {n * n}")
claim("backward computes the same tiles", causal.tiles == tiles)
claim("the tiles on the diagonal hide scores, and the others hide none",
      [(t == j) == (hidden > 0) for t, j, hidden in tiles])

# %% [markdown]
# ## 6. Peak memory, measured
#
# We measure one causal head with d = 64 in float64. Python's tracemalloc counts every byte that NumPy allocates. The
# peak is the largest number of bytes in use at any time between the start of forward and the end of backward, without
# the inputs. Plain attention reaches its peak at the end of backward, where the T x T arrays P, dP and dA exist at the
# same time, and five arrays of T x d: the scaled q, dv, dk, and dq before and after its division by sqrt(d).

# %% The peak at five lengths
def peak(attention, T, mask=None):
    """The peak memory of one forward and backward pass, in MB."""
    q, k, v, dy = rng.standard_normal((4, 1, T, 64))
    tracemalloc.start()
    attention(q, k, v, mask)
    attention.backward(dy)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(peak_bytes / 1e6, 2)        # rounded, since Python's own objects differ by a few bytes


LENGTHS = np.array([128, 256, 512, 1024, 2048])
plain_peaks = np.array([peak(nt.ScaledDotProductAttention(), T, nt.causal_mask(T)) for T in LENGTHS])
tiled_peaks = np.array([peak(nt.FlashAttention(32, causal=True), T) for T in LENGTHS])
claim("plain attention needs three arrays of T x T and five of T x d", np.allclose(
    plain_peaks, (3 * LENGTHS ** 2 + 5 * LENGTHS * 64) * 8 / 1e6, rtol=0.05), f"{plain_peaks[-1]:.1f} MB at T = 2048")
claim("in tiles, twice the length needs twice the memory", abs(tiled_peaks[1:] / tiled_peaks[:-1] - 2) < 0.1,
      f"{tiled_peaks[-1]:.1f} MB at T = 2048")
picture = Figure(figsize=(8, 4.8), layout="constrained")
axes = picture.subplots()
for peaks, power, color, marker, name, growth in (
        (plain_peaks, 2, "C1", "s", "plain attention", "proportional to T²"),
        (tiled_peaks, 1, "C0", "o", "tiles of 32 keys", "proportional to T")):
    axes.loglog(LENGTHS, peaks, color + marker + "-", label=name)
    axes.loglog(LENGTHS, peaks[-1] * (LENGTHS / 2048) ** power, color + ":", linewidth=3, label=growth)
axes.minorticks_off()
axes.set(xlabel="length T of the text (tokens)", ylabel="peak memory (MB)", xticks=LENGTHS,
         xticklabels=LENGTHS, yticks=[1, 3, 10, 30, 100], yticklabels=[1, 3, 10, 30, 100],
         title="Peak memory of forward and backward of one head")
axes.legend()
figure("memory", picture)

# %% [markdown]
# ## 7. What tiles cost, and what they save
#
# Each matrix product of attention takes T S d multiplications. Plain attention has six of them: q kᵀ and P v in
# forward; dv, dP, dq and dk in backward. In tiles, q kᵀ is computed twice, which makes 7 T S d, and the exponentials
# are computed twice as well. On the other hand, causal tiles skip 28 of the 64 tiles above, which plain attention
# computes and then hides. This leaves 7 · 36 / 64 = 3.9 T S d.
#
# **Memory.** Besides the inputs and the output, forward has to keep only top and total, so the additional memory is
# proportional to T instead of T² (theorem 1 of the paper).
#
# **Time.** On a GPU, tiles save time as well. One program takes a tile through all steps in the small, fast memory on
# the chip, and no T x S array travels to the large, slow memory and back (theorem 2 counts these transfers). NumPy
# makes a separate pass over its arrays for every step, but a small tile can stay in the processor's cache.
#
# ## Exercises
#
# 1. Why is total at least 1 after the first tile, and at most the number of keys so far? What does this say about
#    overflow?
# 2. Someone rescales u and forgets to rescale total. Find scores for which y is right all the same, and scores for
#    which it is wrong.
# 3. Write a function that takes (top, total, u) of the keys 0 to 2 and (top, total, u) of the keys 3 to 5 and returns
#    those of all six keys. Check it with section 1. Which tiles could then be computed at the same time?
# 4. Forward saves top and total. Show that a single number for each query is enough, top + log(total).
# 5. Each token sees itself and the 127 tokens before it. How many of the tiles of 64 x 64 are computed for T = 512? And
#    for T = 5120?
#
# With a checker (`numpy-transformer exercise start my-exercises 17`): 17.1.
