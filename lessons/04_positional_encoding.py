# %% [markdown]
# # 04 Positional encoding
#
# "The cat saw the dog" and "the dog saw the cat" have the same words, and differ in their order alone.
# Attention compares every token with every other token and takes weighted means; nothing in it knows which
# token came first. The Transformer of 2017 therefore adds to each embedding a vector that depends on the
# position only: PE(0) to the first token, PE(1) to the second, and so on. Afterwards you can write these vectors,
# say what attention can read from them, and what happens beyond the positions of training. About 10 minutes.

# %% Imports, and a self-attention with random weights and biases
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(4)
T, D = 5, 12                                # tokens, features of each
attention = nt.SelfAttention(D, num_heads=3, rng=rng).astype(np.float64).eval()
for parameter in attention.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(D)
x = rng.standard_normal((T, D))             # the embeddings of five tokens, without positions
order = np.array([3, 0, 4, 2, 1])


def apart(a, b):
    """The largest difference of two arrays."""
    return np.abs(a - np.asarray(b)).max()


# %% [markdown]
# ## 1. Attention is blind to order
#
# Shuffle the tokens, and the outputs are shuffled in the same way. Each token gets the same output as before,
# wherever it stands. What is then done with the outputs token by token (norms, feed-forward layers) or over
# all of them (a mean) cannot bring the order back.

# %% Shuffling the inputs shuffles the outputs, and does nothing else
y, y_shuffled = attention(x), attention(x[order])
show(y=y, y_shuffled=y_shuffled)
claim("attention(x[order]) = attention(x)[order]", apart(y_shuffled, y[order]) < 1e-13)
claim("the mean over the tokens is the same for both orders", apart(y_shuffled.mean(0), y.mean(0)) < 1e-13)
twins = x.copy()
twins[3] = twins[1]
claim("a word that occurs twice gets the same output twice", apart(attention(twins)[3], attention(twins)[1]) < 1e-13)
other = x.copy()
other[0] += 1
claim("yet an output does depend on the other tokens", apart(attention(other)[4], y[4]) > 0.01)

# %% [markdown]
# ## 2. The table
#
# The features are taken in pairs. Pair i (i = 0, 1, 2, ...) is a sine and a cosine of the position t,
#
#     PE[t, 2i]     = sin(t / 10000^(2i / D))
#     PE[t, 2i + 1] = cos(t / 10000^(2i / D))
#
# Pair 0 turns by one radian a token, the last pair, for a large D, by little more than 1/10000. Mind the exponent: it
# is the feature number 2i over D, and both members of a pair share it. The layer computes the table once and keeps
# it in `table`; there is nothing to learn. An odd D ends in a sine without its cosine.

# %% The formula in plain loops
def by_loops(length, d_model):
    table = np.zeros((length, d_model))
    for t in range(length):
        for feature in range(d_model):
            angle = t / 10000 ** (2 * (feature // 2) / d_model)
            table[t, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table


small = nt.SinusoidalPositionalEncoding(6, max_len=4).astype(np.float64)
show(table=small.table)
for d_model in (6, 7, 128):
    layer = nt.SinusoidalPositionalEncoding(d_model, max_len=60).astype(np.float64)
    claim(f"the table for D = {d_model} is the formula", apart(layer.table, by_loops(60, d_model)) < 1e-12)
pe = nt.SinusoidalPositionalEncoding(D, max_len=100).astype(np.float64)
claim("forward adds row t to token t, for every sequence of the batch",
      apart(pe(np.stack([x, 2 * x])), [x + by_loops(T, D), 2 * x + by_loops(T, D)]) < 1e-13)
claim("with offset=7 the first token is number 7", apart(pe(x, offset=7), x + by_loops(7 + T, D)[7:]) < 1e-13)

# %% [markdown]
# ## 3. Pictures
#
# One row of the heatmap is one position, one column is one feature (dimension). On the left the features change
# from token to token, to the right they change ever more slowly. The second picture shows more positions, turned by 90
# degrees as many texts draw it: each feature is now a horizontal line, and the stripes are the waves. The
# third one shows single columns, and the sines of single rows. A table half as wide has every second wave.

# %% The table as a heatmap, turned, and as waves
D_LARGE = 128
table = nt.SinusoidalPositionalEncoding(D_LARGE).astype(np.float64).table
show(table=table)
figure("heatmap", views.positional_heatmap(table[:50]))
figure("heatmap_transposed", views.positional_heatmap(table[:100], transposed=True))
figure("waves", views.positional_waves(table[:50], dimensions=(0, 16, 32), positions=(0, 10, 49)))
narrow = nt.SinusoidalPositionalEncoding(64, max_len=50).astype(np.float64).table
figure("heatmap_64", views.positional_heatmap(narrow))
claim("D = 64 has every second wave of D = 128", apart(narrow[:, 0::2], table[:50, 0::4]) < 1e-12)

# %% [markdown]
# ## 4. Hands of a clock
#
# In each pair sin² + cos² = 1: the pair is a point on a circle, like the tip of a hand. Pair i turns by
# w_i = 1 / 10000^(2i / D) radians a token, so it comes round after 2π / w_i tokens, its wavelength. The
# wavelengths grow by the same factor from pair to pair, from 2π to almost 10000 · 2π. The fast hands tell
# neighbours apart, the slow ones tell the beginning of a text from its end. Together they are different at
# every position, as hours, minutes and seconds are.

# %% Circles and wavelengths
sine, cosine = table[:, 0::2], table[:, 1::2]
claim("sin² + cos² = 1 in every pair at every position", apart(sine ** 2 + cosine ** 2, 1) < 1e-12)
claim("so every PE(t) has the length sqrt(D / 2)", apart(np.linalg.norm(table, axis=1), math.sqrt(D_LARGE / 2)) < 1e-12)
for i in (0, 8, 16):
    crossings = np.count_nonzero(np.diff(sine[1:, i] > 0))          # two in every wave
    counted, formula = 2 * len(table) / crossings, 2 * math.pi * 10000 ** (2 * i / D_LARGE)
    claim(f"pair {i}: the wavelength counted in the table is 2π · 10000^(2i / D)",
          abs(counted / formula - 1) < 0.02, f"{counted:.2f} and {formula:.2f}")
distances = np.linalg.norm(table[:200, None] - table[None, :200], axis=-1)
claim("no two of the first 200 positions are alike", distances[~np.eye(200, dtype=bool)].min() > 0.5)

# %% [markdown]
# ## 5. A shift is a rotation
#
# k tokens later the hand of pair i has turned by the angle k w_i. By the addition theorems,
#
#     sin((t + k) w) =  cos(k w) sin(t w) + sin(k w) cos(t w)
#     cos((t + k) w) = -sin(k w) sin(t w) + cos(k w) cos(t w)
#
# The four coefficients depend on k and not on t. So one matrix M_k, with a 2 x 2 rotation for each pair along
# its diagonal, leads from PE(t) to PE(t + k) at **every** t. A weight matrix can learn to be such an M_k, and
# "three tokens back" then means the same at the beginning of a text and at its end.
#
# For the same reason the dot product of two positions depends on their distance alone:
#
#     PE(t) · PE(s) = sum over i of sin(t w_i) sin(s w_i) + cos(t w_i) cos(s w_i) = sum over i of cos((t - s) w_i)

# %% One matrix for every position, one curve for every distance
def shift(k):
    M = np.zeros((D_LARGE, D_LARGE))
    for i in range(D_LARGE // 2):
        angle = k / 10000 ** (2 * i / D_LARGE)
        M[2 * i:2 * i + 2, 2 * i:2 * i + 2] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    return M


for k in (1, 3, 40):
    claim(f"M_{k} PE(t) = PE(t + {k}) for all t", apart(table[:-k] @ shift(k).T, table[k:]) < 1e-10)
looking = table[10:90] @ shift(-3).T @ table[:100].T                # M_-3 PE(t) · PE(s): a query and its keys
claim("with M_-3 as its weight, a query matches the key three tokens back", looking.argmax(1) == np.arange(10, 90) - 3)
dots = table[:100] @ table[:100].T
curve = np.array([sum(math.cos(k / 10000 ** (2 * i / D_LARGE)) for i in range(D_LARGE // 2)) for k in range(100)])
claim("PE(t) · PE(s) = sum of cos((t - s) w_i), for all t and s",
      apart(dots, [[curve[abs(t - s)] for s in range(100)] for t in range(100)]) < 1e-10)
claim("it is D / 2 at distance 0, and less elsewhere",
      apart(dots.diagonal(), D_LARGE / 2) < 1e-10 and dots[~np.eye(100, dtype=bool)].max() < D_LARGE / 2 - 1)

# %% The dot products
picture = Figure(figsize=(10, 4.2), layout="constrained")
left, right = picture.subplots(1, 2)
image = left.imshow(dots, cmap="viridis")
left.set(xlabel="position s", ylabel="position t", title="PE(t) · PE(s): the same along each diagonal")
picture.colorbar(image, ax=left, label="dot product")
for t, style in ((0, "C0-"), (50, "C1--")):
    right.plot(np.arange(100) - t, dots[t], style, label=f"t = {t}", linewidth=2)
right.set(xlabel="distance s - t", ylabel="dot product", title="Two rows of it, over the distance")
right.grid(alpha=0.3)
right.legend()
figure("dot_products", picture)

# %% [markdown]
# The curve is even: distance +3 and -3 have the same dot product. To prefer the token before over the token
# after, attention uses the matrices of its queries and keys, which can hold an M_k.
#
# ## 6. Backward
#
# y_td = x_td + PE[t, d]. The table is constant, so y_td has slope 1 in x_td and slope 0 in everything else:
# dx = dy. The gradient passes unchanged, and the layer has no parameters.

# %% The identity, confirmed by differences
dy = rng.standard_normal((T, D))
pe(x)
dx = pe.backward(dy)
pe.eval()
numeric = np.zeros((T, D))
for index in np.ndindex(T, D):
    step = np.zeros((T, D))
    step[index] = 1e-5
    numeric[index] = np.sum(dy * (pe(x + step) - pe(x - step))) / 2e-5
claim("dx = dy, as central differences measure it", apart(dx, dy) == 0 and apart(dx, numeric) < 1e-8)
claim("there is nothing to learn", pe.num_parameters() == 0)

# %% [markdown]
# ## 7. The blindness is gone
#
# With positions, a word that moves to another place is another input. One point of size: an embedding drawn from
# N(0, 1/D) has length about 1, while PE(t) has length sqrt(D / 2), which is 8 for D = 128. The positions would drown
# the words, if the embedding were not multiplied by sqrt(D) first (lesson 03).

# %% Order matters, and words are not drowned
y, y_shuffled = attention(pe(x)), attention(pe(x[order]))
claim("attention now tells the two orders apart", apart(y_shuffled, y[order]) > 0.05,
      f"outputs differ by {apart(y_shuffled, y[order]):.2f}, before by less than 1e-13")
claim("and a word that occurs twice gets two outputs", apart(attention(pe(twins))[3], attention(pe(twins))[1]) > 0.05)
plain, scaled = (nt.Embedding(1000, D_LARGE, scale=scale, rng=5).astype(np.float64) for scale in (False, True))
ids = rng.integers(0, 1000, 50)
lengths = [np.linalg.norm(rows, axis=1).mean() for rows in (plain(ids), scaled(ids), table[:50])]
claim("lengths: embedding, scaled embedding, positions", np.allclose(lengths, [1, 11.3, 8], rtol=0.03),
      ", ".join(f"{length:.2f}" for length in lengths))

# %% [markdown]
# ## 8. Learned positions, and lengths beyond training
#
# GPT and BERT learn the table: y_td = x_td + W[t, d]. W[t, d] occurs once in every sequence of the batch, at place t,
# with slope 1. So
#
#     dW[t] = sum over the sequences of dy_t        dx = dy
#
# Rows beyond the longest training sequence get no gradient: they stay what chance made them, and beyond max_len there
# is no row at all. The sinusoid has a row for every t. But a model that has only seen T positions does not know all
# of them: a hand whose wavelength is longer than T has not come round once, so beyond T it points where it
# never did in training. Fast hands only repeat what is known. Rotary positions (lesson 16) meet the same question.

# %% The gradient of a learned table, and hands in new places
learned = nt.LearnedPositionalEmbedding(9, D, rng=8).astype(np.float64)
batch, dy = np.stack([x, 2 * x, -x]), rng.standard_normal((3, T, D))
claim("learned: y_td = x_td + W[t, d]", apart(learned(batch), batch + learned.weight.data[:T]) < 1e-13)
dx = learned.backward(dy)
claim("dx = dy, and dW[t] = the sum of dy_t over the batch",
      apart(dx, dy) == 0 and apart(learned.weight.grad[:T], sum(dy)) < 1e-13)
predict(f"gradient of row 7 if no sequence is longer than {T}?", "0")
claim("rows beyond the longest sequence get no gradient, exactly", learned.weight.grad[T:] == 0)
try:
    message = f"its output has shape {learned(np.zeros((10, D))).shape}"
except ValueError as error:
    message = str(error)
claim("beyond max_len there is no row", "longer than max_len" in message, message)
trained = 50
hands = np.stack([table[:, 0::2], table[:, 1::2]], -1)      # (position, pair, point on the circle)
nearest = np.array([np.linalg.norm(hands[:trained, i] - hands[199, i], axis=-1).min() for i in range(D_LARGE // 2)])
wavelengths = 2 * math.pi * 10000 ** (np.arange(0, D_LARGE, 2) / D_LARGE)
claim("position 199 after training on 50: hands that come round in 50 positions point where they have been",
      nearest[wavelengths < trained].max() < 0.13)
claim("some slower hands point where they never did", nearest[wavelengths > 4 * trained].max() > 0.5)
claim("the dot products go on as before: they depend on the distance alone",
      apart((table[trained:-7] * table[trained + 7:]).sum(1), curve[7]) < 1e-10)

# %% [markdown]
# ## Exercises
#
# 1. With a causal mask token t sees tokens 0 to t only. Is attention without positions then still blind to order?
# 2. Positions 0 and 44 are nearly equal in pair 0, since 44 is close to 7 · 2π. Which pairs tell them apart?
# 3. Why do the sine and the cosine of a pair share one wavelength? What would be lost with sines only?
# 4. Find the bug: `angle = t / 10000 ** (feature / d_model)` in by_loops. Which claims of sections 4 and 5 would fail?
# 5. Rotary embeddings turn queries and keys by M_t and add nothing. What does their dot product depend on?
#
# With a checker (`numpy-transformer exercise check NN`): 04.1, 04.2, 04.3.
