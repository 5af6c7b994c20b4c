# %% [markdown]
# # 03 Embeddings and weight tying
#
# A text is a list of token ids, but a network computes with vectors. A table E translates between the two: the token
# with id i becomes row i of E, its **embedding**. In this lesson, every word is a token.
#
# Backward has two traps. A word that occurs twice uses its row twice, and the NumPy line that looks right keeps only
# one of the two gradients. Also, many models use the same table again at the output, to score the next word, and then
# its gradient comes from both ends. You will write both backward passes, and measure which part is missing from a wrong
# one.
#
# ## 1. A lookup is a matrix product
#
# The table below has V = 7 rows, one for each word, and D = 4 columns, the features. Forward picks a row for each of
# the T = 5 tokens: y = E[ids].
#
# Write each id as a **one-hot** row: all zeros, except for a one in column ids[t]. Let O, of shape (T, V), be the
# matrix of these rows. Then y = O E, because in the sum over i of O_ti E_ic only the term with i = ids[t] is not zero.
# No one computes a lookup like this, as nearly all the products are zero. But it tells us what backward must be,
# because an embedding is a Linear without bias whose input is O.

# %% A vocabulary, a sentence, and its lookup
import copy
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source, slopes

lesson.start(__name__)
VOCABULARY = ["<pad>", "the", "cat", "saw", "dog", "ran", "bird"]
E = np.array([[0.0, 0.0, 0.0, 0.0],         # the features: noun, verb, article, size; training would find its own
              [0.0, 0.0, 1.0, 0.0],
              [1.0, 0.0, 0.0, 0.4],
              [0.0, 1.0, 0.0, 0.0],
              [1.0, 0.1, 0.0, 0.7],
              [0.0, 0.9, 0.0, 0.1],
              [0.9, 0.0, 0.0, 0.1]])
V, D = E.shape
words = ["the", "cat", "saw", "the", "dog"]
T = len(words)
ids = np.array([VOCABULARY.index(word) for word in words])
y = E[ids]
show(ids=ids, y=y)
drawing("lookup")                           # section 4 explains its last row
O = np.eye(V)[ids]
claim("y = O E", np.array_equal(y, O @ E))

# %% [markdown]
# ## 2. Its backward is a scatter-add
#
# Lesson 02 gives dE = Oᵀ dy for the Linear. Without the matrix: E_ic appears in feature c of **every** token t whose id
# is i, each time with derivative 1, and these influences add up:
#
#     dE_ic = sum over all t with ids[t] = i of dy_tc
#
# Each dy_t is added to the row of its word. This is called a **scatter-add**. The row of a word that does not occur is
# zero. The ids themselves have no gradient, because an integer cannot change by a small amount.
#
# The line `dE[ids] += dy` is not a scatter-add. NumPy first copies the rows `dE[ids]`, then adds dy to the copies, and
# finally writes them back. If an id occurs twice, both copies come from the same old row, and the second write
# overwrites the first. There is no error message. `np.add.at(dE, ids, dy)` adds one row after the other, and
# `nt.Embedding` uses it. Its `factor` and `pad_id` follow in section 3.

# %% Four ways to write it, of which one is wrong
dy = np.array([[-0.2, 0.1, 0.5, 0.0], [0.3, -0.4, 0.0, 0.2], [0.0, 0.6, -0.1, 0.1], [0.3, 0.2, 0.4, -0.3],
               [-0.5, 0.0, 0.2, 0.7]])
predict(f"how many of the {V} rows of dE are not zero?", 4,
        why='The sentence has five tokens but only four different words: both "the" use the same row. Words that do '
            "not occur have gradient 0.")
dE = np.zeros((V, D))
for t in range(T):                          # y[t] = E[ids[t]]
    dE[ids[t]] += dy[t]
with_add_at, wrong = np.zeros((V, D)), np.zeros((V, D))
np.add.at(with_add_at, ids, dy)
wrong[ids] += dy
show(dE=dE)
show_source(nt.Embedding.forward, nt.Embedding.backward)
embedding = nt.Embedding(V, D).astype(np.float64)
embedding.weight.data = E
claim("nt.Embedding: forward is equal", np.array_equal(embedding(ids), y))
claim("nt.Embedding: backward is equal, and returns no gradient for the ids",
      embedding.backward(dy) is None and np.array_equal(embedding.weight.grad, dE))
claim("four rows are not zero", np.count_nonzero(dE.any(1)) == 4)
claim("np.add.at, Oᵀ dy and the complex step agree",
      [np.allclose(other, dE, rtol=0, atol=1e-15)
       for other in (with_add_at, O.T @ dy, slopes(lambda E: np.sum(dy * E[ids]), E))])
the = VOCABULARY.index("the")
claim('with +=, the row of "the" holds only dy of its last position', np.array_equal(wrong[the], dy[3]))
picture = Figure(figsize=(14, 4.5), layout="constrained")
panels = [("Oᵀ: one column per token", O.T, VOCABULARY, words), ("dy", dy, words, range(D)),
          ("right: dE = Oᵀ dy", dE, VOCABULARY, range(D)), ("wrong: dE[ids] += dy", wrong, VOCABULARY, range(D))]
for axes, (title, array, rows, columns) in zip(picture.subplots(1, 4, width_ratios=[T, D, D, D]), panels):
    axes.imshow(array, "RdBu_r", vmin=-1, vmax=1)
    for i, j in np.argwhere(array):
        axes.text(j, i, f"{array[i, j]:.1f}", ha="center", va="center", color="white" if array[i, j] > 0.8 else "black")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="token" if columns is words else "feature", title=title)
for axes in picture.axes[2:]:               # a frame around the row of "the"
    axes.plot([-0.5, D - 0.5, D - 0.5, -0.5, -0.5], the + np.array([-0.5, -0.5, 0.5, 0.5, -0.5]), "k", lw=3)
figure("scatter_add", picture)

# %% [markdown]
# ## 3. The factor sqrt(D), and the padding row
#
# The paper multiplies embeddings by sqrt(d_model) (Vaswani et al. 2017, section 3.4) and does not say why. Comparing
# lengths gives a reason. A row drawn from N(0, 1/D), normal numbers with mean 0 and variance 1/D, has length about 1.
# The sinusoidal position that is added to it has length sqrt(D / 2) (lesson 04), which is 16 for D = 512. Without the
# factor, the sum would be almost only position. With it, the embedding has length 22.6.
#
# Why not draw longer rows from the start? Because the same table will also score words (section 4). If the D numbers of
# a vector h are independent with variance 1, then h · E_i has variance |E_i|², so rows of length 1 give scores
# near 1 in size. The rows stay short, and the factor is applied at the input. It is a part of forward, so it multiplies
# the gradient as well.
#
# The short sequences of a batch are filled up with the id of `<pad>`, which stands for no word. `pad_id` makes its
# embedding zero, whatever its row contains. A constant has derivative 0, so this row has gradient 0.

# %% The size of scores; then factor and padding in one batch
rng = np.random.default_rng(3)
table = nt.Embedding(500, 512, rng=rng).weight.data
h = rng.standard_normal((300, 512))
claim("D = 512: the scores h · E_i have standard deviation 1", abs((h @ table.T).std() - 1) < 0.05)
scaled = nt.Embedding(V, D, scale=True, pad_id=0).astype(np.float64)
scaled.weight.data = E + 1                  # so that the row of <pad> is not zero
y = scaled(np.array([[1, 2, 1], [1, 0, 0]]))
dy = rng.standard_normal((2, 3, D))
scaled.backward(dy)
zero = np.zeros(D)
claim("forward: sqrt(D) times the row, and zeros for padding",
      np.allclose(y, [math.sqrt(D) * (E[[1, 2, 1]] + 1), [math.sqrt(D) * (E[1] + 1), zero, zero]], rtol=1e-15))
claim("backward: sqrt(D) times the sum over the whole batch, and zeros for padding", np.allclose(
    scaled.weight.grad[:3] / math.sqrt(D), [zero, dy[0, 0] + dy[0, 2] + dy[1, 0], dy[0, 1]], rtol=0, atol=1e-14))

# %% [markdown]
# ## 4. The same table at the output
#
# A model ends in one logit for each word. Let the logit of word v be the dot product of a vector h_t with row v, so
# z = h Eᵀ. h_tc appears in every logit of token t, with derivative E_vc, and E_vc appears in logit v of every token,
# with derivative h_tc:
#
#     dh_tc = sum over v of dz_tv E_vc        dh = dz E
#     dE_vc = sum over t of dz_tv h_tc        dE = dzᵀ h
#
# If E is also the table of the embedding, this is called **weight tying** (Press and Wolf 2017; Inan et al. 2017).
# Forward then uses E in two places, and its gradient is the sum of two parts.
#
# The model below predicts the next word from the current one: it looks up x, applies a Linear, and scores all words.

# %% Forward and backward of a tied model
current, following = ids[:-1], ids[1:]
E = rng.standard_normal((V, D)) / math.sqrt(D)
W = rng.standard_normal((D, D)) / math.sqrt(D)
x = math.sqrt(D) * E[current]
h = x @ W
z = h @ E.T

p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
dz = (p - np.eye(V)[following]) / len(z)    # the cross-entropy of lesson 01
output_part = dz.T @ h                      # z = h @ E.T
dh = dz @ E
dx = dh @ W.T                               # h = x @ W
input_part = np.zeros((V, D))               # x = sqrt(D) * E[current]
np.add.at(input_part, current, math.sqrt(D) * dx)
dE = output_part + input_part


def loss_of(E_input, E_output):
    """The loss of the model as a function of the table at its input and the table at its output."""
    z = math.sqrt(D) * E_input[current] @ W @ E_output.T
    return np.mean(np.log(np.exp(z).sum(-1)) - z[range(len(z)), following])


for name, gradient, loss in (("both uses", dE, lambda changed: loss_of(changed, changed)),
                             ("the input only", input_part, lambda changed: loss_of(changed, E)),
                             ("the output only", output_part, lambda changed: loss_of(E, changed))):
    claim(f"the complex step agrees if it changes {name}", np.allclose(gradient, slopes(loss, E), rtol=0, atol=1e-14))
absent = [i for i in range(V) if i not in current]
claim("words that are not in the input get a gradient from the output only, since every word has a logit",
      not input_part[absent].any() and np.abs(dE[absent]).max(1) > 0.001)

# %% [markdown]
# In the package, the model passes the Parameter of the embedding to `nt.Unembedding`: the object itself, not a copy.
# Both layers then add to the same `.grad`, and no further code is needed to compute the sum. (`factor` is 1 here, and
# `add_product(a, b, c)` is `a += b @ c`.)
#
# Two equal tables instead of one would get different gradients, so they would differ after the first step. A single
# Parameter counts once, and it is updated once, even if an optimizer receives it twice.

# %% The model of the package
class NextWord(nt.Module):
    def __init__(self, vocab_size, d_model, rng=None):
        self.embedding = nt.Embedding(vocab_size, d_model, scale=True, rng=rng)
        self.linear = nt.Linear(d_model, d_model, bias=False, rng=rng)
        self.output = nt.Unembedding(self.embedding.weight)             # the same object, not a copy

    def forward(self, ids):
        return self.output(self.linear(self.embedding(ids)))

    def backward(self, dlogits):
        self.embedding.backward(self.linear.backward(self.output.backward(dlogits)))


show_source(nt.Unembedding.forward, nt.Unembedding.backward)
tied = NextWord(V, D, rng).astype(np.float64)
tied.embedding.weight.data, tied.linear.weight.data = E, W
criterion = nt.CrossEntropyLoss()
loss = criterion(tied(current), following)
tied.backward(criterion.backward())
claim("the loss is equal", np.isclose(loss, loss_of(E, E), rtol=1e-14))
claim("dE is equal", np.allclose(tied.embedding.weight.grad, dE, rtol=0, atol=1e-15))
predict(f"how many trainable parameters does the tied model have (V = {V}, D = {D})?", V * D + D * D,
        why="The shared table has 7 · 4 = 28 numbers and is counted once. The Linear between its two uses has 16.")
untied = copy.deepcopy(tied)
untied.output = nt.Unembedding(nt.Parameter(E))
claim("a table of its own at the output adds V D parameters",
      tied.num_parameters() == V * D + D * D == untied.num_parameters() - V * D)
nt.SGD([*tied.parameters(), tied.output.weight], lr=0.5).step()
claim("the optimizer received E twice and updated it once, to E - lr dE",
      np.allclose(tied.embedding.weight.data, E - 0.5 * dE, rtol=0, atol=1e-14))

# %% [markdown]
# ## 5. What the rows learn
#
# "You shall know a word by the company it keeps" (Firth 1957). No one tells the table what a word means. But if two
# words tend to have the same neighbors, the loss makes the same demands on their rows, and the two rows become similar.
# Bengio et al. (2003, section 1.1) expected this of the table in their language model.
#
# The text below is drawn from a grammar with five kinds of words. The kind of a word determines which kind may come
# next, and all words of a kind are equally likely. The model sees only ids. On average, no model can have a lower loss
# than the entropy of the grammar, the loss of a model that knows its rules exactly.

# %% A grammar, a text of 6000 words, 300 steps of Adam
KINDS = ["the a every".split(), "small red old quick".split(), "cat dog bird fox".split(),
         "sees hears likes follows".split(), [".", "!", "?"]]
NEXT = np.array([[0, 0.4, 0.6, 0, 0],       # p(next kind | kind): articles, adjectives, nouns, verbs, punctuation
                 [0, 0.2, 0.8, 0, 0],
                 [0, 0, 0, 0.6, 0.4],
                 [0.7, 0, 0, 0, 0.3],
                 [1, 0, 0, 0, 0]])
names = sum(KINDS, [])
kinds = np.repeat(range(5), [len(kind) for kind in KINDS])
likely = NEXT[kinds][:, kinds] / np.bincount(kinds)[kinds]              # p(next word | word)
text = [0]
for _ in range(6000):
    text.append(rng.choice(len(names), p=likely[text[-1]]))
print("  " + " ".join(names[i] for i in text[:12]))
text = np.array(text)
entropy = -np.mean(np.sum(likely * np.log(likely + (likely == 0)), axis=1)[text[:-1]])
model = NextWord(len(names), 6, rng=7)
optimizer = nt.Adam(model.parameters(), lr=0.03)
table = model.embedding.weight.data
before = table.copy()
for _ in range(300):
    model.zero_grad()
    loss = criterion(model(text[:-1]), text[1:])
    model.backward(criterion.backward())
    optimizer.step()
claim("the loss falls to the entropy of the grammar, up to what can be memorized of this text",
      abs(loss - entropy) < 0.03, f"{loss:.2f} and {entropy:.2f}")
same_kind = (kinds[:, None] == kinds) & ~np.eye(len(names), dtype=bool)
picture = Figure(figsize=(13, 6.3), layout="constrained")
for axes, rows, title in zip(picture.subplots(1, 2), (before, table), ("before training", "after 300 steps")):
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    image = axes.imshow(cosines, "RdBu_r", vmin=-1, vmax=1)
    axes.set_xticks(range(18), names, rotation=90)
    axes.set_yticks(range(18), names)
    for edge in np.flatnonzero(np.diff(kinds)) + 0.5:       # lines between the kinds
        axes.plot([edge, edge, np.nan, -0.5, 17.5], [-0.5, 17.5, np.nan, edge, edge], "k", lw=0.8)
    within, between = cosines[same_kind].mean(), cosines[kinds[:, None] != kinds].mean()
    axes.set_title(f"{title}\nmean cosine within a kind {within:.2f}, between kinds {between:.2f}")
picture.colorbar(image, ax=picture.axes, label="cosine between the rows of two words", shrink=0.8)
figure("similarity", picture)
claim("after training, rows of the same kind have a mean cosine above 0.6, others one below 0.2",
      within > 0.6 and between < 0.2)

# %% [markdown]
# ## Exercises
#
# 1. With dy = 1 everywhere, what does row i of dE say about the text? What does it say after `dE[ids] += dy`?
# 2. Plain SGD changes a row by -lr dE. By how much does that change y, with the factor sqrt(D) and without it?
# 3. In section 4 "bird" is neither input nor target. Why is its row of dE not zero, and what does a step against it do?
# 4. Find the bug: `model.output = nt.Unembedding(copy.deepcopy(model.embedding.weight))`. Does the loss still fall?
# 5. Write `Unembedding.backward` in plain loops for dz of shape (B, T, V). Over which axes does dE sum?
# 6. In the last picture the verbs are also similar to the punctuation marks. Which entries of NEXT explain that?
#
# With a checker (`numpy-transformer exercise start my-exercises 03`): 03.1, 03.2, 03.3.
