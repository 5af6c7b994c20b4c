# %% [markdown]
# # 03 Embeddings and weight tying
#
# A text is a list of integers, the ids of its words, but a network computes with vectors. A table E translates between
# the two: the word with id i becomes row i of E. This forward pass could hardly be simpler.
#
# Backward has two traps. A word that occurs three times uses one row three times, so the gradient of that row is a sum
# of three parts, and the NumPy line that looks right keeps only one of them. Also, many models use the same table again
# at the output, to score the next word, and then its gradient comes from both ends.
#
# By the end of this lesson you will be able to write both backward passes, and to measure which part is missing from a
# wrong one. Lesson 02 explains the complex step. The lesson takes about 15 minutes.

# %% A vocabulary, a sentence, and its lookup
import copy
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(3)
VOCABULARY = ["<pad>", "the", "cat", "saw", "dog", "ran", "bird"]
words = ["the", "cat", "saw", "the", "dog"]
V, T = len(VOCABULARY), len(words)
D = 4                                       # features of an embedding
ids = np.array([VOCABULARY.index(word) for word in words])
embedding = nt.Embedding(V, D, rng=rng).astype(np.float64)
E = embedding.weight.data
y = embedding(ids)
show(ids=ids, E=E, y=y)
claim("row t of y is row ids[t] of E", np.array_equal(y, [E[i] for i in ids]))

# %% [markdown]
# ## 1. A lookup is a matrix product, its backward a scatter-add
#
# How do we find the gradient of a lookup? We write it as something whose gradient we know. Write each id as a
# **one-hot** row: all zeros, except for a one in column ids[t]. Let O, of shape (T, V), be the matrix of these rows.
# Then y = O E, because in the sum over i of O_ti E_ic only the term with i = ids[t] is not zero. No one computes a
# lookup like this, as nearly all the products are with zero. But it shows what backward must be: an embedding is a
# Linear without bias whose input is O, so lesson 02 gives dE = Oᵀ dy.
#
# Now the same without the matrix. E_ic appears in feature c of **every** token t whose id is i, each time with
# derivative 1, and these influences add up:
#
#     dE_ic = sum over all t with ids[t] = i of dy_tc
#
# Each dy_t is added to the row of its word. This is called a **scatter-add**. A word that does not occur has
# gradient 0. The ids themselves have no gradient, because an integer cannot change by a small amount.
#
# The numbers of dy below have one decimal, so you can add them yourself. For example, "the" stands at positions 0 and
# 3, where the first feature of dy is -0.2 and 0.3. So the first feature of its row of dE is 0.1.

# %% The derivation as claims
def relative_error(a, b):
    """The norm of a - b, divided by the norm of b."""
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def complex_step(model, name, loss):
    """The gradient of loss(model) with respect to the parameter called name, measured on a copy of the model."""
    twin = copy.deepcopy(model).astype(np.complex128).eval()
    array = dict(twin.named_parameters())[name].data
    gradient = np.zeros(array.shape)
    for at in np.ndindex(array.shape):
        array[at] += 1e-100j
        gradient[at] = loss(twin).imag / 1e-100
        array[at] = array[at].real
    return gradient


O = np.array([[1.0 if i == ids[t] else 0.0 for i in range(V)] for t in range(T)])
dy = rng.standard_normal((T, D)).round(1)
dx = embedding.backward(dy)
dE = embedding.weight.grad.copy()
dE_loops = [[sum(dy[t, c] for t in range(T) if ids[t] == i) for c in range(D)] for i in range(V)]
dE_measured = complex_step(embedding, "weight", lambda twin: np.sum(dy * twin(ids)))
predict(f"how many of the {V} rows of dE are not zero?", 4,
        why='The sentence has five tokens but only four different words: both "the" use the same row. Words that do '
            "not occur have gradient 0.")
show(dy=dy, dE=dE)
claim("y = O E", np.array_equal(y, O @ E))
claim("dE_ic is the sum of dy_tc over the tokens with id i", relative_error(dE, dE_loops) < 1e-15)
claim("dE = Oᵀ dy", relative_error(dE, O.T @ dy) < 1e-15)
claim("the complex step agrees", relative_error(dE, dE_measured) < 1e-15)
claim("four rows are not zero, and the ids have no gradient", np.count_nonzero(dE.any(1)) == 4 and dx is None)

# %% [markdown]
# ## 2. The line that looks right
#
# `dE[ids] += dy` is not a scatter-add. NumPy first copies the rows `dE[ids]`, then adds dy to the copies, and finally
# writes them back. If an id occurs twice, both copies come from the same old row, and the second write overwrites the
# first. There is no error message, and if all ids differ the result is even right.
#
# Three ways are always right: `np.add.at(dE, ids, dy)`, which adds one row after the other; Oᵀ dy; and what
# `nt.Embedding` does. It sorts the tokens by id, so that equal ids are neighbors, and sums each run of equal ids with
# `np.add.reduceat`. Then each row is written only once.

# %% Small numbers first, then the sentence
lost, kept = np.zeros(4), np.zeros(4)
lost[[1, 3, 1]] += [10, 20, 300]
np.add.at(kept, [1, 3, 1], [10, 20, 300])
claim("where an index occurs twice, += keeps the last number, and np.add.at adds both",
      lost[1] == 300 and kept[1] == 310, f"{lost} and {kept}")
wrong = np.zeros((V, D))
right = np.zeros((V, D))
the = VOCABULARY.index("the")
wrong[ids] += dy
np.add.at(right, ids, dy)
claim('with +=, the row of "the" holds only dy of its last position', np.array_equal(wrong[the], dy[3]))
claim("np.add.at is the scatter-add", relative_error(right, dE) < 1e-15)


def heatmaps(picture, digits, *panels):
    """Draw arrays side by side, with their numbers; a panel is (title, array, names of rows, names of columns)."""
    limit = max(np.abs(array).max() for _, array, *_ in panels)
    widths = [len(columns) for *_, columns in panels]
    for axes, (title, array, rows, columns) in zip(picture.subplots(1, len(panels), width_ratios=widths), panels):
        image = axes.imshow(array, "RdBu_r", vmin=-limit, vmax=limit)
        for i, j in np.argwhere(array):
            axes.text(j, i, f"{array[i, j].round(digits) + 0:.{digits}f}", ha="center", va="center", fontsize=11,
                      color="white" if abs(array[i, j]) > 0.65 * limit else "black")
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set(xlabel="token" if columns is words else "feature", ylabel="token" if rows is words else "word",
                 title=title)
    picture.colorbar(image, ax=picture.axes, shrink=0.7, label="value")


picture = Figure(figsize=(14, 4.5), layout="constrained")
features = range(D)
heatmaps(picture, 1, ("Oᵀ: one column per token", O.T, VOCABULARY, words), ("dy", dy, words, features),
         ("right: dE = Oᵀ dy", dE, VOCABULARY, features), ("wrong: dE[ids] += dy", wrong, VOCABULARY, features))
for axes in picture.axes[2:4]:              # a frame around the row of "the"
    axes.plot([-0.5, D - 0.5, D - 0.5, -0.5, -0.5], the + np.array([-0.5, -0.5, 0.5, 0.5, -0.5]), "k", lw=3)
figure("scatter_add", picture)

# %% [markdown]
# ## 3. The factor sqrt(D), and the padding row
#
# The paper multiplies embeddings by sqrt(d_model) (Vaswani et al. 2017, section 3.4) and does not say why. Comparing
# lengths gives a reason. A row drawn from N(0, 1/D) has length about 1. The sinusoidal position that is added to it has
# length sqrt(D / 2) (lesson 04), which is 16 for D = 512. Without the factor, the sum would be almost only position.
# With it, the embedding has length 22.6.
#
# Why not draw longer rows from the start? Because the same table will also score words (section 4). If the D numbers of
# a vector h are independent with variance 1, then h · E_i has variance |E_i|², so rows of length 1 give scores of
# size 1. The rows therefore stay short, and the factor is applied at the input. It is a part of forward, so it is a
# part of the derivative as well: dE_ic is sqrt(D) times the sum of section 1.
#
# The short sequences of a batch are filled up with an id that stands for no word, the padding token. `pad_id` makes its
# embedding zero, whatever its row contains. A constant has derivative 0, so this row has gradient 0. Attention and loss
# each need a mask of their own (lessons 06 and 01).

# %% The size of scores; then factor and padding in one batch
table = nt.Embedding(500, 512, rng=4).weight.data
h = rng.standard_normal((300, 512))
claim("D = 512: the scores h · E_i have standard deviation 1", abs((h @ table.T).std() - 1) < 0.02)
scaled = nt.Embedding(V, D, scale=True, pad_id=0).astype(np.float64)
batch = np.array([[1, 2, 1], [1, 0, 0]])
scaled.weight.data = E
dy = rng.standard_normal((2, 3, D))
y = scaled(batch)
zero = np.zeros(D)
scaled.backward(dy)
claim("forward: sqrt(D) times the row, and zeros for padding",
      np.array_equal(y / math.sqrt(D), [E[[1, 2, 1]], [E[1], zero, zero]]))
claim("backward: sqrt(D) times the sum over the whole batch, and zeros for padding", relative_error(
    scaled.weight.grad[:3] / math.sqrt(D), [zero, dy[0, 0] + dy[0, 2] + dy[1, 0], dy[0, 1]]) < 1e-15)

# %% [markdown]
# ## 4. The same table at the output
#
# A model ends in one number for each word of the vocabulary, the **logit** of that word. The larger it is, the more
# probable is the word. Let the logit of word v be the dot product of a vector h_t with row v:
#
#     z_tv = sum over c of h_tc E_vc          z = h Eᵀ
#
# h_tc appears in every logit of token t, with derivative E_vc, and E_vc appears in logit v of every token t, with
# derivative h_tc:
#
#     dh_tc = sum over v of dz_tv E_vc        dh = dz E
#     dE_vc = sum over t of dz_tv h_tc        dE = dzᵀ h
#
# If E is also the table of the embedding, this is called **weight tying** (Press and Wolf 2017; Inan et al. 2017). Then
# forward uses E in two places, and its gradient is the sum of two parts, dE = dzᵀ h + sqrt(D) Oᵀ dy, where dy is the
# gradient of the embedding's output. The model below predicts the next word from the current one. It passes the
# Parameter object itself to `nt.Unembedding`. Both layers then add to the same `.grad`, and no further code is needed
# to compute the sum.
#
# Each part can also be measured separately. Give the output a table of its own with the same numbers. The complex step
# then changes one use of the table and leaves the other unchanged. The cosine compares the direction of a part with the
# direction of the whole: 1 means the same direction, 0 a right angle.

# %% A model with one table at both ends
class NextWord(nt.Module):
    def __init__(self, vocab_size, d_model, rng=None):
        self.embedding = nt.Embedding(vocab_size, d_model, scale=True, rng=rng)
        self.linear = nt.Linear(d_model, d_model, rng=rng)
        self.output = nt.Unembedding(self.embedding.weight)             # the same object, not a copy

    def forward(self, ids):
        return self.output(self.linear(self.embedding(ids)))

    def backward(self, dlogits):
        self.embedding.backward(self.linear.backward(self.output.backward(dlogits)))


def loss_of(model):
    return criterion(model(current), following)


tied = NextWord(V, D, rng).astype("f8")
criterion = nt.CrossEntropyLoss()
current, following = ids[:-1], ids[1:]
with nt.record(tied) as tape:
    loss_of(tied)
    tied.backward(criterion.backward())
output = tape["output"]
h, z, dz, dh = output.inputs[0], output.output, output.dy, output.gradients[0]
E = tied.embedding.weight.data.copy()
dE = tied.embedding.weight.grad.copy()
R = range(T - 1)
claim("z_tv = h_t · E_v", relative_error(z, [[sum(h[t] * E[v]) for v in range(V)] for t in R]) < 1e-14)
claim("dh = dz E", relative_error(dh, [[sum(dz[t] * E[:, c]) for c in range(D)] for t in R]) < 1e-14)
output_part = np.array([[sum(dz[:, v] * h[:, c]) for c in range(D)] for v in range(V)])
input_part = np.zeros((V, D))
np.add.at(input_part, current, math.sqrt(D) * tape["embedding"].dy)
claim("dE is the sum of the two parts", relative_error(dE, output_part + input_part) < 1e-14)
claim("the complex step agrees", relative_error(dE, complex_step(tied, "embedding.weight", loss_of)) < 1e-14)

# %% Each part separately
untied = copy.deepcopy(tied)
untied.output = nt.Unembedding(nt.Parameter(E))             # a copy, so that there are two tables
for name, part in (("embedding.weight", input_part), ("output.weight", output_part)):
    claim(f"changing only {name} measures its part",
          relative_error(part, complex_step(untied, name, loss_of)) < 1e-14)
cosines = [np.sum(part * dE) / np.linalg.norm(part) / np.linalg.norm(dE) for part in (input_part, output_part)]
claim("neither part has the direction of dE", [0 < cosine < 0.9 for cosine in cosines],
      "cosines {:.2f} and {:.2f}".format(*cosines))
absent = [i for i in range(V) if i not in current]
claim("words that are not in the input have gradient 0 in the input part only, since every word got a logit",
      not input_part[absent].any() and np.all(np.abs(dE[absent]).max(1) > 0.001))
picture = Figure(figsize=(12, 4.6), layout="constrained")
titles = (f"input part: sqrt(D) Oᵀ dy\ncosine with dE {cosines[0]:.2f}",
          f"output part: dzᵀ h\ncosine with dE {cosines[1]:.2f}",
          "their sum\ndE of the tied table")
heatmaps(picture, 2, *((title, array, VOCABULARY, features)
                       for title, array in zip(titles, (input_part, output_part, dE))))
figure("tied_gradient", picture)

# %% [markdown]
# ## 5. Tied means one parameter, not two equal ones
#
# Two equal tables get different gradients, so they differ after the first step. A single Parameter avoids this. It
# counts once, and it is updated once, even if an optimizer receives it twice.
#
# The reverse case occurs as well: one layer with two forward calls. A translation model may embed source and target
# with the same `Embedding`. The layer then saves both lists of ids, and backward takes the target's first: last in,
# first out. With room for only one list, both gradients would go to the words of the target.

# %% Counted once, updated once, saved twice
predict(f"how many trainable parameters does the tied model have (V = {V}, D = {D})?", V * D + D * D + D,
        why="The shared table has 7 · 4 = 28 numbers and is counted once. The Linear between its two uses has 16 "
            "weights and 4 biases.")
claim("the tied model counts the table once, and the Linear",
      tied.num_parameters() == V * D + D * D + D == untied.num_parameters() - V * D)
nt.SGD([*tied.parameters(), tied.output.weight], lr=0.5).step()
claim("the optimizer received E twice and updated it once, to E - lr dE",
      relative_error(tied.embedding.weight.data, E - 0.5 * dE) < 1e-14)
shared = nt.Embedding(V, D).astype("f8")
source = np.array([1, 2, 3, 5])
target = np.array([6, 6, 4, 1])
d_source, d_target = rng.standard_normal((2, 4, D))
shared(source)
shared(target)
shared.backward(d_target)
shared.backward(d_source)
both = [sum([*d_source[source == i], *d_target[target == i]], np.zeros(D)) for i in range(V)]
claim("source and target: each gradient goes to its own words", relative_error(shared.weight.grad, both) < 1e-15)

# %% [markdown]
# ## 6. What the rows learn
#
# "You shall know a word by the company it keeps" (Firth 1957). No one tells the table what a word means. But if two
# words tend to have the same neighbors, the loss makes the same demands on their rows, and the two rows become similar.
# Bengio et al. (2003, section 1.1) expected this of the table in their language model.
#
# The text below is drawn from a grammar with five kinds of words. The kind of a word determines which kind may come
# next, and all words of a kind are equally likely. The model sees only ids. Averaged over new texts, no model can have
# a lower loss than the entropy of the grammar, the loss of a model that knows its rules exactly.

# %% A grammar, a text of 6000 words, 300 steps
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
same_kind = kinds[:, None] == kinds
same_word = np.eye(len(names), dtype=bool)
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
claim("the loss falls to the entropy of the grammar", abs(loss - entropy) < 0.02, f"{loss:.2f} and {entropy:.2f}")
picture = Figure(figsize=(13, 6.3), layout="constrained")
for axes, rows, title in zip(picture.subplots(1, 2), (before, table), ("before training", "after 300 steps")):
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    image = axes.imshow(cosines, "RdBu_r", vmin=-1, vmax=1)
    axes.set_xticks(range(18), names, rotation=90)
    axes.set_yticks(range(18), names)
    for edge in np.flatnonzero(np.diff(kinds)) + 0.5:       # lines between the kinds
        axes.plot([edge, edge, np.nan, -0.5, 17.5], [-0.5, 17.5, np.nan, edge, edge], "k", lw=0.8)
    within, between = cosines[same_kind & ~same_word].mean(), cosines[~same_kind].mean()
    axes.set_title(f"{title}\nmean cosine within a kind {within:.2f}, between kinds {between:.2f}")
picture.colorbar(image, ax=picture.axes, label="cosine between the rows of two words", shrink=0.8)
figure("similarity", picture)
claim("after training, rows of the same kind have a mean cosine above 0.8, others a negative one",
      within > 0.8 and between < 0)
neighbors = kinds[(cosines - 2 * same_word).argmax(1)]      # the kind of the word whose row is most similar
claim("for most words, the most similar row belongs to a word of the same kind", np.mean(neighbors == kinds) > 0.7,
      f"{np.sum(neighbors == kinds)} of {len(kinds)}")

# %% [markdown]
# ## Exercises
#
# 1. With dy = 1 everywhere, what does row i of dE say about the text? What does it say after `dE[ids] += dy`?
# 2. Plain SGD changes a row by -lr dE. By how much does that change y, with the factor sqrt(D) and without it?
# 3. In section 4 "bird" is neither input nor target. Why is its row of dE not zero, and in which direction does a step
#    move it?
# 4. Find the bug: `model.output = nt.Unembedding(copy.deepcopy(model.embedding.weight))`. Does the loss still fall?
# 5. Write `Unembedding.backward` in plain loops for dz of shape (B, T, V). Over which axes does dE sum?
# 6. In the last picture the verbs are also similar to the punctuation marks. Which entries of NEXT explain that?
#
# With a checker (`numpy-transformer exercise check 03.1` and so on): 03.1, 03.2, 03.3.
