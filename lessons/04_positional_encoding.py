# %% [markdown]
# # 04 Positional encoding
#
# "The cat saw the dog" and "the dog saw the cat" consist of the same words; they differ only in the order of the words.
# Attention compares every token with every other token and takes weighted means. Nothing in it depends on which token
# came first.
#
# The Transformer of 2017 therefore adds to each embedding a vector that depends only on the position: PE(0) to the
# first token, PE(1) to the second, and so on. By the end of this lesson you will be able to compute these vectors, to
# say what attention can read from them, and to say what happens at positions that never occurred in training. The
# lesson takes about 10 minutes.

# %% Imports, and a self-attention with random weights and biases
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(4)
T, D = 5, 12                                # tokens, features of each token
attention = nt.SelfAttention(D, num_heads=3, rng=rng).astype(np.float64).eval()
for parameter in attention.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(D)
x = rng.standard_normal((T, D))             # the embeddings of five tokens, without positions
order = np.array([3, 0, 4, 2, 1])


def max_difference(a, b):
    """The largest absolute difference between the entries of two arrays."""
    return np.abs(a - np.asarray(b)).max()


# %% [markdown]
# ## 1. Attention is blind to order
#
# If you shuffle the tokens, the outputs are shuffled in the same way, and nothing else changes. Each token gets the
# same output as before, wherever it stands. Later layers cannot restore the order. Norms and feed-forward layers
# process each output separately, and a mean over all outputs does not depend on their order either.

# %% Shuffling the inputs shuffles the outputs and changes nothing else
y, y_shuffled = attention(x), attention(x[order])
show(y=y, y_shuffled=y_shuffled)
claim("attention(x[order]) = attention(x)[order]", max_difference(y_shuffled, y[order]) < 1e-13)
claim("the mean over the tokens is the same for both orders", max_difference(y_shuffled.mean(0), y.mean(0)) < 1e-13)
repeated = x.copy()
repeated[3] = repeated[1]
y_repeated = attention(repeated)
claim("a word that occurs twice gets the same output twice", max_difference(y_repeated[3], y_repeated[1]) < 1e-13)
other = x.copy()
other[0] += 1
claim("yet an output does depend on the other tokens", max_difference(attention(other)[4], y[4]) > 0.01)

# %% [markdown]
# ## 2. The table
#
# Each position needs a vector of its own, and the vectors should follow a rule, so that a model can compare positions.
# The features are taken in pairs. Pair i (i = 0, 1, 2, ...) consists of a sine and a cosine of the position t:
#
#     PE[t, 2i]     = sin(t / 10000^(2i / D))
#     PE[t, 2i + 1] = cos(t / 10000^(2i / D))
#
# The angle of pair 0 grows by one radian per token, so PE[1, 0] = sin(1) = 0.84. If D is large, the angle of the last
# pair grows by little more than 1/10000 radian per token. Be careful with the exponent: it is the number of the even
# feature, 2i, over D, and both features of a pair use the same one.
#
# The layer computes the table once and keeps it in `table`. There are no parameters to learn. If D is odd, the last
# sine has no cosine.

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
    claim(f"the table for D = {d_model} agrees with the formula",
          max_difference(layer.table, by_loops(60, d_model)) < 1e-12)
pe = nt.SinusoidalPositionalEncoding(D, max_len=100).astype(np.float64)
claim("forward adds row t to token t, for every sequence of the batch",
      max_difference(pe(np.stack([x, 2 * x])), [x + by_loops(T, D), 2 * x + by_loops(T, D)]) < 1e-13)
claim("with offset=7 the first token is at position 7",
      max_difference(pe(x, offset=7), x + by_loops(7 + T, D)[7:]) < 1e-13)

# %% [markdown]
# ## 3. Pictures
#
# In the first heatmap, each row is one position and each column is one feature (dimension). The features on the left
# change from token to token. The further to the right, the more slowly they change. The second heatmap shows more
# positions and has its axes swapped, as many texts draw it. Each feature is now a horizontal line, and you can see the
# waves. The third picture shows single columns of the table, and the sines of single rows. The last one shows a table
# with half as many features: it has every second wave.

# %% The table as heatmaps and as waves
D_LARGE = 128
table = nt.SinusoidalPositionalEncoding(D_LARGE).astype(np.float64).table
show(table=table)
figure("heatmap", views.positional_heatmap(table[:50]))
figure("heatmap_transposed", views.positional_heatmap(table[:100], transposed=True))
figure("waves", views.positional_waves(table[:50], dimensions=(0, 16, 32), positions=(0, 10, 49)))
narrow = nt.SinusoidalPositionalEncoding(64, max_len=50).astype(np.float64).table
figure("heatmap_64", views.positional_heatmap(narrow))
claim("D = 64 has every second wave of D = 128", max_difference(narrow[:, 0::2], table[:50, 0::4]) < 1e-12)

# %% [markdown]
# ## 4. Hands of a clock
#
# In each pair sin² + cos² = 1, so the pair is a point on a circle, like the tip of a clock hand. Pair i turns by
# w_i = 1 / 10000^(2i / D) radians per token. It returns to its starting point after 2π / w_i tokens, which is its
# wavelength. From pair to pair the wavelengths grow by the same factor, from 2π to almost 10000 · 2π.
#
# The fast hands distinguish neighboring tokens, and the slow ones distinguish the beginning of a text from its end.
# Together they point differently at every position, just as the hands of a clock do for hours, minutes and seconds.

# %% Circles and wavelengths
sine, cosine = table[:, 0::2], table[:, 1::2]
claim("sin² + cos² = 1 in every pair at every position", max_difference(sine ** 2 + cosine ** 2, 1) < 1e-12)
claim("so every PE(t) has the length sqrt(D / 2)",
      max_difference(np.linalg.norm(table, axis=1), math.sqrt(D_LARGE / 2)) < 1e-12)
for i in (0, 8, 16):
    crossings = np.count_nonzero(np.diff(sine[1:, i] > 0))          # the sine changes its sign twice in every wave
    counted, formula = 2 * len(table) / crossings, 2 * math.pi * 10000 ** (2 * i / D_LARGE)
    claim(f"pair {i}: the wavelength counted in the table is 2π · 10000^(2i / D)",
          abs(counted / formula - 1) < 0.02, f"{counted:.2f} and {formula:.2f}")
distances = np.linalg.norm(table[:200, None] - table[None, :200], axis=-1)
claim("no two of the first 200 positions have the same vector", distances[~np.eye(200, dtype=bool)].min() > 0.5)

# %% [markdown]
# ## 5. A shift is a rotation
#
# Over k tokens the hand of pair i turns by the angle k w_i, wherever it starts. By the addition theorems,
#
#     sin((t + k) w) =  cos(k w) sin(t w) + sin(k w) cos(t w)
#     cos((t + k) w) = -sin(k w) sin(t w) + cos(k w) cos(t w)
#
# The four coefficients depend on k but not on t. So there is one matrix M_k, with a 2 x 2 rotation for each pair along
# its diagonal, that turns PE(t) into PE(t + k) at **every** t. This is why the formula uses pairs. A weight matrix can
# learn to be such an M_k, and then "three tokens back" means the same at the beginning of a text and at its end.
#
# For the same reason the dot product of two positions depends only on their distance:
#
#     PE(t) · PE(s) = sum over i of (sin(t w_i) sin(s w_i)
#                                    + cos(t w_i) cos(s w_i))
#                   = sum over i of cos((t - s) w_i)

# %% One matrix for every position, one curve for every distance
def shift(k):
    """The matrix M_k, which turns PE(t) into PE(t + k)."""
    M = np.zeros((D_LARGE, D_LARGE))
    for i in range(D_LARGE // 2):
        angle = k / 10000 ** (2 * i / D_LARGE)
        M[2 * i:2 * i + 2, 2 * i:2 * i + 2] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    return M


for k in (1, 3, 40):
    claim(f"M_{k} PE(t) = PE(t + {k}) for all t", max_difference(table[:-k] @ shift(k).T, table[k:]) < 1e-10)
queries, keys = table[10:90] @ shift(-3).T, table[:100]
claim("with the weight matrix M_-3, a query fits best the key three tokens back",
      (queries @ keys.T).argmax(1) == np.arange(10, 90) - 3)
dots = table[:100] @ table[:100].T
curve = np.array([sum(math.cos(k / 10000 ** (2 * i / D_LARGE)) for i in range(D_LARGE // 2)) for k in range(100)])
claim("PE(t) · PE(s) = sum of cos((t - s) w_i), for all t and s",
      max_difference(dots, [[curve[abs(t - s)] for s in range(100)] for t in range(100)]) < 1e-10)
claim("the dot product is D / 2 at distance 0, and smaller elsewhere", max_difference(dots.diagonal(), D_LARGE / 2)
      < 1e-10 and dots[~np.eye(100, dtype=bool)].max() < D_LARGE / 2 - 1)

# %% The dot products
picture = Figure(figsize=(10, 4.2), layout="constrained")
left, right = picture.subplots(1, 2)
image = left.imshow(dots, cmap="viridis")
left.set(xlabel="position s", ylabel="position t", title="PE(t) · PE(s) is constant along diagonals")
picture.colorbar(image, ax=left, label="dot product")
for t, style in ((0, "C0-"), (50, "C1--")):
    right.plot(np.arange(100) - t, dots[t], style, label=f"row t = {t}", linewidth=2)
right.set(xlabel="distance s - t (tokens)", ylabel="dot product", title="Two of its rows, over the distance")
right.grid(alpha=0.3)
right.legend()
figure("dot_products", picture)

# %% [markdown]
# The curve is symmetric: the distances +3 and -3 have the same dot product. To prefer the token before over the token
# after, attention needs the weight matrices of its queries and keys, which can learn an M_k.
#
# ## 6. Backward
#
# Forward is y_td = x_td + PE[t, d]. The table is constant, so y_td has derivative 1 with respect to x_td and derivative
# 0 with respect to everything else. Hence dx = dy: the gradient passes through unchanged. The layer has no parameters.

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
claim("dx = dy, and central differences agree", max_difference(dx, dy) == 0 and max_difference(dx, numeric) < 1e-8)
claim("the layer has no trainable parameters", pe.num_parameters() == 0)

# %% [markdown]
# ## 7. With positions, attention sees the order
#
# With positions added, a word that moves to another place is a different input. The sizes have to match, however. An
# embedding drawn from N(0, 1/D) has length about 1, while PE(t) has length sqrt(D / 2), which is 8 for D = 128. The
# positions would drown out the words if the embedding were not first multiplied by sqrt(D), which is 11.3 (lesson 03).

# %% Order matters, and positions do not drown out the words
y, y_shuffled = attention(pe(x)), attention(pe(x[order]))
difference = max_difference(y_shuffled, y[order])
claim("attention now distinguishes the two orders", difference > 0.05,
      f"outputs differ by {difference:.2f}; without positions by less than 1e-13")
y_repeated = attention(pe(repeated))
claim("a word that occurs twice now gets two different outputs", max_difference(y_repeated[3], y_repeated[1]) > 0.05)
plain, scaled = (nt.Embedding(1000, D_LARGE, scale=scale, rng=5).astype(np.float64) for scale in (False, True))
ids = rng.integers(0, 1000, 50)
lengths = [np.linalg.norm(rows, axis=1).mean() for rows in (plain(ids), scaled(ids), table[:50])]
claim("the mean lengths of embeddings, scaled embeddings and positions are 1, 11.3 and 8",
      np.allclose(lengths, [1, 11.3, 8], rtol=0.03), ", ".join(f"{length:.2f}" for length in lengths))

# %% [markdown]
# ## 8. Learned positions, and texts longer than in training
#
# GPT and BERT learn the table instead: y_td = x_td + W[t, d]. Each entry W[t, d] appears once in every sequence of the
# batch, at position t, with derivative 1. So
#
#     dW[t] = sum over the sequences of dy_t        dx = dy
#
# Rows beyond the longest training sequence get no gradient. They keep their random initial values, and beyond max_len
# there is no row at all. The sinusoid, in contrast, has a vector for every t.
#
# But this does not mean that a model understands every position. Suppose it has only seen T positions. A hand whose
# wavelength is longer than T has not completed a turn, so beyond T it points in directions that never occurred in
# training. Only the fast hands repeat what is known. Rotary positions have the same problem (lesson 16).

# %% The gradient of a learned table, and hands in new directions
learned = nt.LearnedPositionalEmbedding(9, D, rng=8).astype(np.float64)
batch = np.stack([x, 2 * x, -x])
dy = rng.standard_normal((3, T, D))
claim("learned: y_td = x_td + W[t, d]", max_difference(learned(batch), batch + learned.weight.data[:T]) < 1e-13)
dx = learned.backward(dy)
claim("dx = dy, and dW[t] is the sum of dy_t over the batch",
      max_difference(dx, dy) == 0 and max_difference(learned.weight.grad[:T], sum(dy)) < 1e-13)
predict(f"what is the gradient of row 7 if no sequence is longer than {T}?", "0",
        why=f"W[7] is added to the token at position 7. Sequences of {T} tokens have no such token, so no output "
            "contains W[7].")
claim("rows beyond the longest sequence have gradient exactly 0", learned.weight.grad[T:] == 0)
try:
    message = f"its output has shape {learned(np.zeros((10, D))).shape}"
except ValueError as error:
    message = str(error)
claim("beyond max_len there is no row", "longer than max_len" in message, message)
trained = 50                                                # the model has seen positions 0 to 49
hands = np.stack([table[:, 0::2], table[:, 1::2]], -1)      # (position, pair, point on the circle)
nearest = np.array([np.linalg.norm(hands[:trained, i] - hands[199, i], axis=-1).min() for i in range(D_LARGE // 2)])
wavelengths = 2 * math.pi * 10000 ** (np.arange(0, D_LARGE, 2) / D_LARGE)
claim("after training on 50 positions, position 199: fast hands point where they have pointed before",
      nearest[wavelengths < trained].max() < 0.13)
claim("but some slow hands point where they never did", nearest[wavelengths > 4 * trained].max() > 0.5)
claim("the dot products follow the same curve, since they depend only on the distance",
      max_difference((table[trained:-7] * table[trained + 7:]).sum(1), curve[7]) < 1e-10)

# %% [markdown]
# ## Exercises
#
# 1. With a causal mask, token t sees only tokens 0 to t. Is attention without positions then still blind to order?
# 2. Positions 0 and 44 are nearly equal in pair 0, since 44 is close to 7 · 2π. Which pairs distinguish them?
# 3. Why do the sine and the cosine of a pair share one wavelength? What would be lost with sines only?
# 4. Find the bug: `angle = t / 10000 ** (feature / d_model)` in by_loops. Which claims of sections 4 and 5 would fail?
# 5. Rotary embeddings rotate queries and keys by M_t and add nothing. What does their dot product depend on?
#
# With a checker (`numpy-transformer exercise check 04.1` and so on): 04.1, 04.2, 04.3.
