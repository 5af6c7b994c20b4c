# %% [markdown]
# # 04 Positional encoding
#
# "The cat saw the dog" and "the dog saw the cat" consist of the same words. Only their order says who saw whom.
# Attention (lesson 00) compares every token with every other token and takes weighted means. Nothing in this depends on
# which token came first.
#
# The Transformer of 2017 therefore adds to each embedding a vector that depends only on the position: row t of a table
# PE is added to token t. In this lesson you will build this table, see what attention can read from it, and write the
# backward of a table that is learned.

# %% Five words with chosen embeddings
import math
from collections import Counter

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source, slopes
from numpy_transformer.layers.positions import sinusoid

lesson.start(__name__)
#             animal  meows  barks  action  article  plural
E = {"the": [0.,     0.,    0.,    0.,     1.,      0.],
     "cat": [2.,     2.,    0.,    0.,     0.,      0.],
     "saw": [0.,     0.,    0.,    2.,     0.,      0.],
     "dog": [2.,     0.,    2.,    0.,     0.,      0.]}
x_cat = np.array([E[word] for word in "the cat saw the dog".split()])
x_dog = np.array([E[word] for word in "the dog saw the cat".split()])
T, D = x_cat.shape


def attention(x):
    """Each token takes a mean of all tokens, with larger weights for those that it resembles."""
    A = x @ x.T / math.sqrt(x.shape[-1])
    P = np.exp(A) / np.exp(A).sum(-1, keepdims=True)
    return P @ x


def max_difference(a, b):
    """The largest absolute difference between the entries of two arrays."""
    return np.abs(a - np.asarray(b)).max()


# %% [markdown]
# ## 1. Without positions, a sentence is a bag of words
#
# Each word gets the same output in both sentences, wherever it stands. Later layers cannot restore the order, since the
# other layers of a Transformer process each token separately, and a mean over all outputs does not depend on the order.
#
# In Korean, particles say who did what: 고양이가 쥐를 봤다 and 쥐를 고양이가 봤다 both mean "the cat saw the mouse", because 가 marks
# the subject 고양이 (cat) and 를 the object 쥐 (mouse). So here the bag of words is enough, as long as a particle and its
# noun are one token. If the tokenizer separates them, the bag no longer says which noun has which particle.

# %% The same words in another order
y_cat, y_dog = attention(x_cat), attention(x_dog)
claim('"saw" gets the same output in both sentences', max_difference(y_cat[2], y_dog[2]) < 1e-14)
claim('so does "cat", at position 1 or at position 4', max_difference(y_cat[1], y_dog[4]) < 1e-14)
claim("the mean over the tokens is the same for both sentences", max_difference(y_cat.mean(0), y_dog.mean(0)) < 1e-14)
layer = nt.SelfAttention(D, num_heads=2, rng=4).astype(np.float64).eval()
claim("the same holds for the attention of the package, with random weights",
      max_difference(layer(x_cat)[[2, 1]], layer(x_dog)[[2, 4]]) < 1e-14)
predict('has "고양이를 쥐가" (the mouse as subject) the same bag of words as "고양이가 쥐를"?', "no",
        why="The words are 고양이를 and 쥐가 instead of 고양이가 and 쥐를. The particles have changed places, and they are "
            "parts of the words.")
claim("whole words: the bags differ", Counter("고양이를 쥐가".split()) != Counter("고양이가 쥐를".split()))
claim("particles as tokens of their own: the bags are equal",
      Counter("고양이 를 쥐 가".split()) == Counter("고양이 가 쥐 를".split()))

# %% [markdown]
# ## 2. The sinusoidal table
#
# Each position needs a vector of its own, and the vectors should follow a rule, so that a model can compare positions.
# The features are taken in pairs. Pair i = 0, 1, 2, ... consists of a sine and a cosine (section 3.5 of the paper):
#
#     PE[t, 2i]     = sin(t / 10000^(2i / D))
#     PE[t, 2i + 1] = cos(t / 10000^(2i / D))
#
# The exponent is 2i / D for both features of a pair. The angle of pair 0 grows by one radian per token. If D is large,
# the angle of the last pair grows by little more than 1/10000 radian per token.

# %% The table in three lines, and the layer
predict("what is row 0 of the table for D = 6?", (0, 1, 0, 1, 0, 1),
        why="At position 0 every angle is 0, and sin(0) = 0, cos(0) = 1.")
i = np.arange(D // 2)
angles = np.arange(T)[:, None] / 10000 ** (2 * i / D)                                   # (T, D / 2)
PE = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(T, D)                  # (T, D)
show(angles=angles, PE=PE)
show_source(sinusoid, nt.SinusoidalPositionalEncoding.forward)
encode = nt.SinusoidalPositionalEncoding(D, max_len=60).astype(np.float64)
claim("the table of nt.SinusoidalPositionalEncoding has the same rows", max_difference(encode.table[:T], PE) < 1e-15)
claim("forward adds row t to token t, in every sequence of a batch",
      max_difference(encode(np.stack([x_cat, x_dog])), [x_cat + PE, x_dog + PE]) < 1e-15)
claim("the table agrees with math.sin and math.cos, also for an odd D, which ends with a sine", [
    max_difference(sinusoid(60, d_model), [[(math.cos if f % 2 else math.sin)(t / 10000 ** ((f - f % 2) / d_model))
                                            for f in range(d_model)] for t in range(60)]) < 1e-13
    for d_model in (6, 7, 128)])
drawing("embedding_plus_position")

# %% [markdown]
# In the layer, `table_rows` selects the first T rows, and dropout (lesson 02) may be applied to the sum.
#
# With positions, a word that moves to another place is a different input, and attention gives it a different output.

# %% Now the order matters
y_cat, y_dog = attention(x_cat + PE), attention(x_dog + PE)
difference = max_difference(y_cat[2], y_dog[2])
claim('"saw" gets different outputs in the two sentences', difference > 0.05, f"they differ by {difference:.2f}")
claim('and so do the two "the" of one sentence', max_difference(y_cat[0], y_cat[3]) > 0.05)

# %% [markdown]
# ## 3. Pictures of the table
#
# In the heatmap, each row is one position and each column is one feature (dimension). The features on the left change
# from token to token. The further to the right, the more slowly they change. The second picture shows single columns of
# the table on its left, and single rows on its right.

# %% The table as a heatmap and as waves
D_LARGE = 64
table = sinusoid(1000, D_LARGE)
figure("heatmap", views.positional_heatmap(table[:50]))
figure("waves", views.positional_waves(table[:100], dimensions=(0, 2, 4, 8, 16), positions=(0, 10, 50, 99)))

# %% [markdown]
# ## 4. Hands of a clock
#
# In each pair sin² + cos² = 1, so a pair is a point on a circle, like the tip of a clock hand. Pair i turns by w_i = 1
# / 10000^(2i / D) radians per token and is back at its starting point after 2π / w_i tokens, its wavelength. From pair
# to pair the wavelengths grow by the same factor, from 2π to almost 10000 · 2π.
#
# The fast hands distinguish neighboring tokens, and the slow ones distinguish the beginning of a text from its end.
# Together they point differently at every position, just as the hands of a clock do at every time of the day.

# %% Circles and wavelengths
sine, cosine = table[:, 0::2], table[:, 1::2]
claim("sin² + cos² = 1 in every pair, so every PE[t] has length sqrt(D / 2)",
      max_difference(np.linalg.norm(table, axis=1), math.sqrt(D_LARGE / 2)) < 1e-12)
w = 1 / 10000 ** (np.arange(0, D_LARGE, 2) / D_LARGE)
for pair in (0, 4, 8):
    crossings = np.count_nonzero(np.diff(sine[1:, pair] > 0))       # a sine changes its sign twice in every wave
    counted = 2 * len(table) / crossings
    claim(f"pair {pair}: the wavelength counted in the table is 2π / w_{pair}",
          abs(counted * w[pair] / (2 * math.pi) - 1) < 0.03, f"{counted:.1f} and {2 * math.pi / w[pair]:.1f}")
distances = np.linalg.norm(table[:, None] - table[None, :], axis=-1)
claim("no two of 1,000 positions have the same vector", distances[~np.eye(1000, dtype=bool)].min() > 0.5)

# %% [markdown]
# ## 5. A shift is a rotation
#
# Over k tokens the hand of pair i turns by the angle k w_i, wherever it starts. By the addition theorems,
#
#     sin((t + k) w) =  cos(k w) sin(t w) + sin(k w) cos(t w)
#     cos((t + k) w) = -sin(k w) sin(t w) + cos(k w) cos(t w)
#
# The four coefficients depend on k but not on t. So one matrix M_k, with a 2 x 2 rotation for each pair along its
# diagonal, turns PE[t] into PE[t + k] at **every** t. This is why the formula uses pairs. A weight matrix can learn to
# be such an M_k, and then "one token back" means the same at the beginning of a text and at its end. (Rotary positions,
# in lesson 16, make these rotations a part of attention.)
#
# For the same reason, the dot product PE[t] · PE[s] is the sum of cos((t - s) w_i) over all pairs, so it depends only
# on the distance between the two positions.

# %% One matrix for every position
def shift(k, D):
    """The matrix M_k, which turns PE[t] into PE[t + k]."""
    M = np.zeros((D, D))
    for i in range(D // 2):
        angle = k / 10000 ** (2 * i / D)
        M[2 * i:2 * i + 2, 2 * i:2 * i + 2] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    return M


for k in (1, 3, 40):
    claim(f"M_{k} PE[t] = PE[t + {k}] for all t", max_difference(table[:-k] @ shift(k, D_LARGE).T, table[k:]) < 1e-10)
query = shift(-1, D) @ PE[2]                    # the query of "saw" looks one token back
for sentence in ("the cat saw the dog", "the dog saw the cat"):
    words = sentence.split()
    found = words[(PE @ query).argmax()]        # the position whose vector has the largest dot product with the query
    print(f"  {sentence}: one token before saw is {found}")
    claim("the query M_-1 PE[2] finds the token before the verb", found == words[1])
claim("M_-1 does this at every position of the large table",
      (table[1:] @ shift(-1, D_LARGE).T @ table.T).argmax(1) == np.arange(999))

# %% One curve for every distance
dots = table[:100] @ table[:100].T
curve = np.cos(np.arange(100)[:, None] * w).sum(1)
claim("PE[t] · PE[s] = sum of cos((t - s) w_i), for all t and s",
      max_difference(dots, [[curve[abs(t - s)] for s in range(100)] for t in range(100)]) < 1e-10)
claim("it is D / 2 at distance 0, and smaller elsewhere", abs(curve[0] - D_LARGE / 2) < 1e-12 and
      curve[1:].max() < D_LARGE / 2 - 0.5)
picture = Figure(figsize=(10, 4.2), layout="constrained")
left, right = picture.subplots(1, 2)
picture.colorbar(left.imshow(dots, cmap="viridis"), ax=left, label="dot product")
left.set(xlabel="position s", ylabel="position t", title="PE[t] · PE[s] is constant along diagonals")
for t, style in ((0, "C0-"), (50, "C1--")):
    right.plot(np.arange(100) - t, dots[t], style, label=f"row t = {t}", linewidth=2)
right.set(xlabel="distance s - t (tokens)", ylabel="dot product", title="Two of its rows, over the distance")
right.grid(alpha=0.3)
right.legend()
figure("dot_products", picture)

# %% [markdown]
# The curve is symmetric: distances +3 and -3 have the same dot product. To prefer the token before over the token
# after, attention needs weight matrices for its queries and keys, such as M_-1 above.
#
# ## 6. The sizes have to match
#
# An embedding drawn from N(0, 1/D) has a length of about 1, while PE[t] has the length sqrt(D / 2). For D = 512 this is
# 16, and the positions would drown out the words. So the embedding is first multiplied by sqrt(D) (lesson 03).

# %% The lengths of words and positions for D = 512
ids = np.arange(50)
plain, scaled = (nt.Embedding(50, 512, scale=scale, rng=5)(ids) for scale in (False, True))
lengths = [np.linalg.norm(rows, axis=1).mean() for rows in (plain, scaled, sinusoid(50, 512))]
claim("the lengths of embeddings, scaled embeddings and positions are about 1, sqrt(512) and 16",
      np.allclose(lengths, [1, math.sqrt(512), 16], rtol=0.03), ", ".join(f"{length:.1f}" for length in lengths))

# %% [markdown]
# ## 7. Backward, and a table that is learned
#
# Forward is y = x + PE. If PE is constant, each y[t, c] has derivative 1 with respect to x[t, c], so dx = dy.
#
# GPT and BERT learn the table: each entry of PE is a parameter. PE[t, c] is added to token t of **every** sequence of
# the batch, with derivative 1, so its gradient is a sum over the batch. A row that no sequence reaches has gradient 0.

# %% The learned table: forward and backward
PE = 0.1 * np.random.default_rng(8).standard_normal((9, D))     # max_len = 9 positions
x = np.stack([x_cat, x_dog])                                    # B = 2 sequences of T = 5 tokens
y = x + PE[:T]
dy = np.random.default_rng(9).standard_normal(y.shape)          # a made-up upstream gradient
# y = x + PE[:T]
dx = dy
dPE = np.zeros_like(PE)
dPE[:T] += dy.sum(axis=0)

show_source(nt.LearnedPositionalEmbedding.forward, nt.LearnedPositionalEmbedding.backward)
learned = nt.LearnedPositionalEmbedding(9, D).astype(np.float64)
learned.weight.data = PE
claim("the layer's forward and both gradients are equal to ours, to the last bit", [
    np.array_equal(learned(x), y), np.array_equal(learned.backward(dy), dx), np.array_equal(learned.weight.grad, dPE)])
claim("the complex step agrees, for PE and for x", [
    max_difference(slopes(lambda table: np.sum(dy * (x + table[:T])), PE), dPE) < 1e-13,
    max_difference(slopes(lambda inputs: np.sum(dy * (inputs + PE[:T])), x), dx) < 1e-13])
encode(x)
claim("the sinusoidal layer returns dx = dy as well, and has nothing to learn",
      np.array_equal(encode.backward(dy), dy) and encode.num_parameters() == 0)
predict(f"what is the gradient of row 7 if no sequence is longer than {T}?", "0",
        why=f"Row 7 is added to the token at position 7. Sequences of {T} tokens have no such token.")
claim("rows beyond the longest sequence have gradient exactly 0", learned.weight.grad[T:] == 0)

# %% [markdown]
# The branch with `np.add.at` handles positions that are not consecutive, as `np.add.at` does for ids in lesson 03.
#
# ## 8. Texts longer than in training
#
# A learned table has no row beyond max_len, and rows that training never reached keep their random initial values. The
# sinusoid has a vector for every t. But this does not mean that a model understands every position: a hand whose
# wavelength is much longer than the training texts points, beyond them, in directions that never occurred in training.

# %% Position 199 after training on positions 0 to 49
try:
    message = f"its output has shape {learned(np.zeros((10, D))).shape}"
except ValueError as error:
    message = str(error)
claim("beyond max_len a learned table has no row", "longer than max_len" in message, message)
hands = np.stack([sine, cosine], -1)                            # (position, pair, point on the circle)
nearest = np.linalg.norm(hands[:50] - hands[199], axis=-1).min(axis=0)      # for each pair
wavelengths = 2 * math.pi / w
claim("the fast hands point where they have pointed before", nearest[wavelengths < 50].max() < 0.13)
claim("some slow hands point where they never did", nearest[wavelengths > 200].max() > 0.5)

# %% [markdown]
# ## Exercises
#
# 1. With a causal mask, token t sees only tokens 0 to t. Is attention without positions then still blind to order?
# 2. Positions 0 and 44 are nearly equal in pair 0, since 44 is close to 7 · 2π. Which pairs distinguish them for D =
#    64?
# 3. Why do the sine and the cosine of a pair share one wavelength? What would be lost with sines only?
# 4. Find the bug: `angle = t / 10000 ** (feature / D)`, for feature = 0, 1, ..., D - 1. Which claims of sections 4 and
#    5 would fail if the table were computed in this way?
# 5. Someone concatenates x and PE instead of adding them, and then applies a Linear. Which Linear on the concatenation
#    gives the same result as a Linear on the sum?
#
# With a checker (`numpy-transformer exercise start my-exercises 04`): 04.1, 04.2, 04.3.
