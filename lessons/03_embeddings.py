# %% [markdown]
# # 03 Embeddings and weight tying
#
# A text is a list of whole numbers, the ids of its words; a network calculates with vectors. Between them stands a
# table E: the word with id i becomes row i. Forward could not be simpler. Backward has two traps. A word that occurs
# three times has one row, so its gradient is a sum of three parts, and the NumPy line that looks right keeps one of
# them. And many models use the table again, to score the next word: then its gradient comes from both ends. Afterwards
# you can write both backwards, and measure what is missing. Lesson 02 explains the complex step. About 15 minutes.

# %% A vocabulary, a sentence, and its lookup
import copy
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(3)
VOCABULARY, words = ["<pad>", "the", "cat", "saw", "dog", "ran", "bird"], ["the", "cat", "saw", "the", "dog"]
V, D, T = len(VOCABULARY), 4, len(words)
ids = np.array([VOCABULARY.index(word) for word in words])
embedding = nt.Embedding(V, D, rng=rng).astype(np.float64)
E, y = embedding.weight.data, embedding(ids)
show(ids=ids, E=E, y=y)
claim("row t of y is row ids[t] of E", np.array_equal(y, [E[i] for i in ids]))

# %% [markdown]
# ## 1. A lookup is a matmul, its backward a scatter-add
#
# Write each id as a row of zeros with a single one in column ids[t], a **one-hot** row, and call the matrix of these
# rows O, of shape (T, V). Then y = O E, since of the sum over i of O_ti E_ic only the term i = ids[t] is not zero.
# Nobody computes it like that, as nearly all products are with zero. But it tells what backward has to be: an
# embedding is a Linear without bias and with input O, so its gradient is dE = Oᵀ dy. Without the matrix: E_ic occurs
# in feature c of **every** token t whose id is i, each time with slope 1, and the influences add up,
#
#     dE_ic = sum over all t with ids[t] = i of dy_tc
#
# Each dy_t is added to the row of its word: a **scatter-add**. A word that did not occur has gradient 0. The ids are
# whole numbers, which cannot move by a little: they have no gradient. The dy below has one decimal, so add it by eye.

# %% The derivation as claims
def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def slopes(model, name, loss):
    """The gradient of loss(model) in a parameter by the complex step, on a copy that remembers nothing."""
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
dx, dE = embedding.backward(dy), embedding.weight.grad.copy()
loops = [[sum(dy[t, c] for t in range(T) if ids[t] == i) for c in range(D)] for i in range(V)]
predict(f"how many of the {V} rows of dE are not zero?", 4)
show(dy=dy, dE=dE)
claim("y = O E", np.array_equal(y, O @ E))
claim("dE_ic is the sum of dy_tc over the tokens with id i", apart(dE, loops) < 1e-15)
claim("dE = Oᵀ dy", apart(dE, O.T @ dy) < 1e-15)
claim("the complex step agrees", apart(dE, slopes(embedding, "weight", lambda twin: np.sum(dy * twin(ids)))) < 1e-15)
claim("four rows are not zero, and ids have no gradient", np.count_nonzero(dE.any(1)) == 4 and dx is None)

# %% [markdown]
# ## 2. The line that looks right
#
# `dE[ids] += dy` is no scatter-add. NumPy copies the rows `dE[ids]` out, adds dy to the copies, and writes them
# back. Where an id occurs twice, both copies come from the same old row, and the second write covers the first. There
# is no error, and where all ids differ the result is right. Right always are `np.add.at(dE, ids, dy)`, which adds one
# row after the other; Oᵀ dy; and what `nt.Embedding` does: sort the tokens by id, so that equal ids stand side by
# side, and sum each run of them with `np.add.reduceat`. Then each row is written once.

# %% Small numbers first, then the sentence
lost, kept = np.zeros(4), np.zeros(4)
lost[[1, 3, 1]] += [10, 20, 300]
np.add.at(kept, [1, 3, 1], [10, 20, 300])
claim("+= keeps the last of two, np.add.at adds them", lost[1] == 300 and kept[1] == 310, f"{lost} and {kept}")
wrong, right, the = np.zeros((V, D)), np.zeros((V, D)), VOCABULARY.index("the")
wrong[ids] += dy
np.add.at(right, ids, dy)
claim('with += the row of "the" holds dy of its last place only', np.array_equal(wrong[the], dy[3]))
claim("np.add.at is the scatter-add", apart(right, dE) < 1e-15)


def draw(picture, digits, *panels):         # heatmaps with numbers: (title, array, names of the rows, of the columns)
    limit = max(np.abs(array).max() for _, array, *_ in panels)
    widths = [len(columns) for *_, columns in panels]
    for axes, (title, array, rows, columns) in zip(picture.subplots(1, len(panels), width_ratios=widths), panels):
        image = axes.imshow(array, "RdBu_r", vmin=-limit, vmax=limit)
        for i, j in np.argwhere(array):
            axes.text(j, i, f"{array[i, j].round(digits) + 0:.{digits}f}", ha="center", va="center", fontsize=11,
                      color="white" if abs(array[i, j]) > 0.65 * limit else "black")
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set(xlabel="token" if columns is words else "feature", title=title)
    picture.colorbar(image, ax=picture.axes, shrink=0.7, label="value")


picture, features = Figure(figsize=(13, 4.5), layout="constrained"), range(D)
draw(picture, 1, ("Oᵀ: which row gets what", O.T, VOCABULARY, words), ("dy", dy, words, features),
     ("dE = Oᵀ dy", dE, VOCABULARY, features), ("wrong: dE[ids] += dy", wrong, VOCABULARY, features))
for axes in picture.axes[2:4]:
    axes.plot([-0.5, D - 0.5, D - 0.5, -0.5, -0.5], the + np.array([-0.5, -0.5, 0.5, 0.5, -0.5]), "k", lw=3)
figure("scatter_add", picture)

# %% [markdown]
# ## 3. The factor sqrt(D), and the padding row
#
# The paper multiplies embeddings by sqrt(d_model) (Vaswani et al. 2017, section 3.4) and gives no reason. Lengths give
# one. A row drawn from N(0, 1/D) has length about 1, a sinusoidal position sqrt(D / 2) (lesson 04): 16 for D = 512. The
# sum would be nearly all position. Then why not draw longer rows? Because the same table will score words (section
# 4): if the D numbers of a vector h are independent with variance 1, then h · E_i has the variance |E_i|², and rows
# of length 1 give scores of size 1. So the rows stay short, and the factor stands at the input. It is a part of
# forward, so it is a part of the slope, and dE_ic is sqrt(D) times its sum: scale forward means scale backward.
#
# The short sequences of a batch are filled up with an id that is no word. With `pad_id` its embedding is zero, whatever
# its row holds. A constant has slope 0, so the row has gradient 0. Attention and loss need a mask of their own.

# %% The size of scores; then factor and padding in one batch
table, h = nt.Embedding(500, 512, rng=4).weight.data, rng.standard_normal((300, 512))
claim("D = 512: scores h · E_i have size 1", abs((h @ table.T).std() - 1) < 0.02)
scaled, batch = nt.Embedding(V, D, scale=True, pad_id=0).astype(np.float64), np.array([[1, 2, 1], [1, 0, 0]])
scaled.weight.data, dy = E, rng.standard_normal((2, 3, D))
y, zero = scaled(batch), np.zeros(D)
scaled.backward(dy)
claim("forward: sqrt(D) times the row, zeros for the padding",
      np.array_equal(y / math.sqrt(D), [E[[1, 2, 1]], [E[1], zero, zero]]))
claim("backward: sqrt(D) times the sum over the whole batch, zeros for the padding",
      apart(scaled.weight.grad[:3] / math.sqrt(D), [zero, dy[0, 0] + dy[0, 2] + dy[1, 0], dy[0, 1]]) < 1e-15)

# %% [markdown]
# ## 4. The same table at the output
#
# A model ends in one number for each word, its **logit**: the larger, the more probable. Let the logit of word v be
# the dot product of a vector h_t with row v:
#
#     z_tv = sum over c of h_tc E_vc              z = h Eᵀ
#
# * h_tc occurs in every logit of token t, with slope E_vc:     dh = dz E
# * E_vc occurs in logit v of every token t, with slope h_tc:   dE = dzᵀ h
#
# If E is also the table of the embedding, this is **weight tying** (Press and Wolf 2017; Inan et al. 2017). E then
# stands at two places of forward, and its gradient is a sum of two parts, dE = dzᵀ h + sqrt(D) Oᵀ dy, with dy the
# gradient of the embedding's output. The model below predicts the next word from the current one. It hands the
# Parameter itself to `nt.Unembedding`; both layers add into the same `.grad`, and the sum comes by itself.
#
# Each part can be measured alone: give the output a table of its own with the same numbers, and the complex step moves
# one use and leaves the other. The cosine compares a part with the whole: 1 is the same direction, 0 a right angle.

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


tied, criterion, current, following = NextWord(V, D, rng).astype("f8"), nt.CrossEntropyLoss(), ids[:-1], ids[1:]
loss = lambda model: criterion(model(current), following)
with nt.record(tied) as tape:
    loss(tied)
    tied.backward(criterion.backward())
(h,), z, dz, (dh,) = (getattr(tape["output"], name) for name in ("inputs", "output", "dy", "gradients"))
E, dE, R = tied.embedding.weight.data.copy(), tied.embedding.weight.grad.copy(), range(T - 1)
claim("z_tv = h_t · E_v", apart(z, [[sum(h[t] * E[v]) for v in range(V)] for t in R]) < 1e-14)
claim("dh = dz E", apart(dh, [[sum(dz[t] * E[:, c]) for c in range(D)] for t in R]) < 1e-14)
output_part, input_part = np.array([[sum(dz[:, v] * h[:, c]) for c in range(D)] for v in range(V)]), np.zeros((V, D))
np.add.at(input_part, current, math.sqrt(D) * tape["embedding"].dy)
claim("dE is the sum of the two parts", apart(dE, output_part + input_part) < 1e-14)
claim("the complex step agrees", apart(dE, slopes(tied, "embedding.weight", loss)) < 1e-14)

# %% Each part by itself
untied = copy.deepcopy(tied)
untied.output = nt.Unembedding(nt.Parameter(E))             # a copy: two tables
for name, part in (("embedding.weight", input_part), ("output.weight", output_part)):
    claim(f"moving {name} alone measures its part", apart(part, slopes(untied, name, loss)) < 1e-14)
cosines = [np.sum(part * dE) / np.linalg.norm(part) / np.linalg.norm(dE) for part in (input_part, output_part)]
claim("neither part alone has the direction of dE", [0 < cosine < 0.9 for cosine in cosines],
      "cosines {:.2f} and {:.2f}".format(*cosines))
absent = [i for i in range(V) if i not in current]
claim("words that did not occur: gradient 0 in the first part alone, since every word got a logit",
      not input_part[absent].any() and np.all(np.abs(dE[absent]).max(1) > 0.001))
picture = Figure(figsize=(11.5, 4.6), layout="constrained")
draw(picture, 2, (f"scatter-add: sqrt(D) Oᵀ dy\ncosine {cosines[0]:.2f}", input_part, VOCABULARY, features),
     (f"dzᵀ h\ncosine {cosines[1]:.2f}", output_part, VOCABULARY, features),
     ("their sum\ndE of the tied table", dE, VOCABULARY, features))
figure("tied_gradient", picture)

# %% [markdown]
# ## 5. Tied is more than equal
#
# Two equal tables get different gradients and come apart in the first step. One Parameter cannot: it counts once, and
# is updated once even if an optimizer is handed it twice. The reverse occurs too, one layer with two forwards: a
# translator may embed source and target with the same `Embedding`. It remembers both lists of ids, and backward
# meets the target first: last in, first out. A single slot would give both gradients to the words of the target.

# %% Counted once, updated once, remembered twice
predict(f"how many numbers does the tied model learn (V = {V}, D = {D})?", V * D + D * D + D)
claim("the table once, and the Linear", tied.num_parameters() == V * D + D * D + D == untied.num_parameters() - V * D)
nt.SGD([*tied.parameters(), tied.output.weight], lr=0.5).step()
claim("E was handed over twice and updated once: E - lr dE",
      apart(tied.embedding.weight.data, E - 0.5 * dE) < 1e-14)
shared, source, target = nt.Embedding(V, D).astype("f8"), np.array([1, 2, 3, 5]), np.array([6, 6, 4, 1])
d_source, d_target = rng.standard_normal((2, 4, D))
shared(source)
shared(target)
shared.backward(d_target)
shared.backward(d_source)
both = [sum([*d_source[source == i], *d_target[target == i]], np.zeros(D)) for i in range(V)]
claim("source and target: each gradient goes to its own words", apart(shared.weight.grad, both) < 1e-15)

# %% [markdown]
# ## 6. What the rows learn
#
# "You shall know a word by the company it keeps" (Firth 1957). Nobody tells the table what a word means. But if the
# same words tend to stand before and after two words, the loss asks the same of the rows of the two, and they draw
# together. Bengio et al. (2003, section 1.1) expected this of the table in their language model. Below a text is drawn
# from a grammar with five kinds of words: the kind decides which kind comes next, and within a kind all words are
# equally likely. The model sees ids only. In the mean over new texts no model has a lower loss than the entropy of
# the grammar, the surprise of one who knows its rules.

# %% A grammar, a text of 6000 words, 300 steps
KINDS = ["the a every".split(), "small red old quick".split(), "cat dog bird fox".split(),
         "sees hears likes follows".split(), [".", "!", "?"]]
NEXT = np.array([[0, 0.4, 0.6, 0, 0], [0, 0.2, 0.8, 0, 0], [0, 0, 0, 0.6, 0.4], [0.7, 0, 0, 0, 0.3], [1, 0, 0, 0, 0]])
names, kinds, text = sum(KINDS, []), np.repeat(range(5), [len(kind) for kind in KINDS]), [0]
likely = NEXT[kinds][:, kinds] / np.bincount(kinds)[kinds]              # p(next word | word)
for _ in range(6000):
    text.append(rng.choice(len(names), p=likely[text[-1]]))
print("  " + " ".join(names[i] for i in text[:18]))
text, same, itself = np.array(text), kinds[:, None] == kinds, np.eye(len(names), dtype=bool)
entropy = -np.mean(np.sum(likely * np.log(likely + (likely == 0)), axis=1)[text[:-1]])
model = NextWord(len(names), 6, rng=7)
optimizer, table = nt.Adam(model.parameters(), lr=0.03), model.embedding.weight.data
before = table.copy()
for _ in range(300):
    model.zero_grad()
    loss = criterion(model(text[:-1]), text[1:])
    model.backward(criterion.backward())
    optimizer.step()
claim("the loss comes down to the entropy of the grammar", abs(loss - entropy) < 0.02, f"{loss:.2f} and {entropy:.2f}")
picture = Figure(figsize=(13, 6.3), layout="constrained")
for axes, rows, title in zip(picture.subplots(1, 2), (before, table), ("before training", "after 300 steps")):
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    image = axes.imshow(cosines, "RdBu_r", vmin=-1, vmax=1)
    axes.set_xticks(range(18), names, rotation=90)
    axes.set_yticks(range(18), names)
    for edge in np.flatnonzero(np.diff(kinds)) + 0.5:
        axes.plot([edge, edge, np.nan, -0.5, 17.5], [-0.5, 17.5, np.nan, edge, edge], "k", lw=0.8)
    within, between = cosines[same & ~itself].mean(), cosines[~same].mean()
    axes.set_title(f"{title}\nmean cosine within a kind {within:.2f}, between kinds {between:.2f}")
picture.colorbar(image, ax=picture.axes, label="cosine of two rows", shrink=0.8)
figure("similarity", picture)
claim("after training, rows of one kind have cosines near 1, others not", within > 0.8 and between < 0)
claim("the nearest row of each word is one of its own kind", kinds[(cosines - 2 * itself).argmax(1)] == kinds)

# %% [markdown]
# ## Exercises
#
# 1. With dy = 1 everywhere, what does row i of dE say about the text? What does it say after `dE[ids] += dy`?
# 2. Plain SGD moves a row by -lr dE. By how much does that move y, with the factor sqrt(D) and without?
# 3. In section 4 "bird" is neither input nor target. Why is its row of dE not zero, and which way does a step move it?
# 4. Find the bug: `model.output = nt.Unembedding(copy.deepcopy(model.embedding.weight))`. Does the loss still fall?
# 5. Write `Unembedding.backward` in plain loops for dz of shape (B, T, V). Over which axes does dE sum?
# 6. In the last picture verbs lie close to the marks . ! ? too. Which entries of NEXT explain that?
#
# With a checker (`numpy-transformer exercise check NN`): 03.1, 03.2, 03.3.
