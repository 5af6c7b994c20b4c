# %% [markdown]
# # 11 An encoder that classifies
#
# Does a film review recommend the film or not? In this lesson you build a model that reads a whole review and answers
# with one number. It is the model of note 001 of the course, which the note writes in Keras. Here each of its layers is
# a few lines of forward and of backward, and every part has been built in an earlier lesson: embeddings (03), positions
# (04), attention (05), heads (07), norms (08), feed-forward layers (09) and blocks (10). Two things are new: the mean
# that makes one vector of a text, and the loss of a single logit.
#
# The drawing shows the whole. Its last layer has one output, and a sigmoid makes a probability of it. A softmax over
# two outputs computes the same function (closing question 4).
#
# At the end the model learns generated reviews in a few seconds, and you compare its figures on real ones.

# %% Three reviews become ids
import math

import numpy as np

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.course import claim, drawing, lesson, predict, show, show_source, slopes

lesson.start(__name__)
rng = np.random.default_rng(11)
drawing("classifier")
reviews = [("the film is not bad at all", 1), ("a dull plot", 0), ("great cast dull film", 0)]
words = sorted({word for text, _ in reviews for word in text.split()})
word_ids = {word: i for i, word in enumerate(words, 1)}                     # 0 is PAD, the padding token
rows = [[word_ids[word] for word in text.split()] for text, _ in reviews]
T = max(map(len, rows))
ids = np.array([row + [0] * (T - len(row)) for row in rows])
labels = np.array([label for _, label in reviews])
show(ids=ids, labels=labels)
B, V, D, H, F = len(ids), len(words) + 1, 8, 2, 12
real = ids != 0                             # False at padding
mask = nt.padding_mask(ids)                 # (B, 1, 1, T): which tokens may be attended to (lesson 06)


def relative_error(a, b):
    """Returns the largest difference between two arrays, divided by the largest number in b."""
    return np.abs(a - b).max() / np.abs(b).max()


def in_float64(module):
    """Returns the module with random parameters in float64, so that no γ is 1 and no bias is 0."""
    for parameter in module.astype(np.float64).parameters():
        parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(D)
    return module


# %% [markdown]
# ## 1. Words with their positions
#
# The note's function `get_positional_encoding` computes the table PE of lesson 04, and its layer `PositionalEmbedding`
# adds it to the embeddings:
#
#     x = sqrt(D) E[ids] + PE
#
# The numbers in PE lie between -1 and 1. The factor sqrt(D) makes the embeddings comparable to them in size. PE has no
# parameters, so in backward dx goes to E alone. Each occurrence of a word adds sqrt(D) dx to its row.

# %% PositionalEmbedding, forward and backward
def get_positional_encoding(T, D):
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    PE = np.zeros((T, D))
    PE[:, 0::2] = np.sin(angles)
    PE[:, 1::2] = np.cos(angles)
    return PE


embedding = in_float64(nt.Embedding(V, D, scale=True))
positions = nt.SinusoidalPositionalEncoding(D, max_len=20).astype(np.float64)
E = embedding.weight.data
x = math.sqrt(D) * E[ids] + get_positional_encoding(T, D)
dx = rng.standard_normal(x.shape)
dE = np.zeros(E.shape)
np.add.at(dE, ids, math.sqrt(D) * dx)       # x = sqrt(D) E[ids] + PE; a word that occurs twice receives two terms
claim("forward is that of nt.Embedding and nt.SinusoidalPositionalEncoding",
      relative_error(positions(embedding(ids)), x) < 1e-15)
embedding.backward(positions.backward(dx))
claim("and so is dE", relative_error(embedding.weight.grad, dE) < 1e-15)


# %% [markdown]
# ## 2. The encoder block
#
# The note's `TransformerEncoderBlock` is post-norm: it normalizes after each residual sum (lesson 10). Its norms use
# eps = 1e-6, and dropout acts on the attention weights and on the output of each sublayer. No causal mask is needed,
# because the model predicts no word of the text. A later word may change the meaning of an earlier one, as in "great,
# said no one", so every word attends to all.
#
# Read forward from top to bottom, and backward from bottom to top.

# %% TransformerEncoderBlock
class TransformerEncoderBlock(nt.Module):
    def __init__(self, D, H, F, p, rng):
        self.norm1 = nt.LayerNorm(D, eps=1e-6)
        self.attention = nt.SelfAttention(D, H, dropout=p, rng=rng)
        self.norm2 = nt.LayerNorm(D, eps=1e-6)
        self.feed_forward = nt.FeedForward(D, F, activation="relu", rng=rng)
        self.dropout = nt.Dropout(p, rng)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        x = self.norm2(x + self.dropout(self.feed_forward(x)))
        return x

    def backward(self, dx):
        dx = self.norm2.backward(dx)
        dx = dx + self.feed_forward.backward(self.dropout.backward(dx))
        dx = self.norm1.backward(dx)
        dx = dx + self.attention.backward(self.dropout.backward(dx))
        return dx


block = in_float64(TransformerEncoderBlock(D, H, F, 0.0, rng))
library = nt.EncoderBlock(D, H, F, dropout=0.0, norm="post", eps=1e-6).astype(np.float64)
library.load_state_dict(block.state_dict())
h = block(x, mask)
claim("it is nt.EncoderBlock with norm='post'", np.array_equal(h, library(x, mask)))
dh = rng.standard_normal(h.shape)
claim("also backward", np.array_equal(block.backward(dh), library.backward(dh)))
claim("the shape stays (B, T, D)", h.shape == x.shape == (B, T, D), f"{h.shape}")

# %% [markdown]
# ## 3. One vector for a text
#
# The blocks return a vector h_t for every token. Keras's `GlobalAveragePooling1D` replaces them by their mean. We leave
# padding out of this mean. Let r_t be 1 at a real token and 0 at padding, and n the sum of all r_t:
#
#     y = (sum over t of r_t h_t) / n         dy / dh_t = r_t / n, so  dh_t = r_t dy / n
#
# Every real token receives the same gradient, and padding receives exactly 0. Below the blocks the gradients differ
# from word to word, because attention passes them on differently.

# %% The masked mean, forward and backward
n = real.sum(1)[:, None]
y = np.where(real[..., None], h, 0).sum(1) / n
dy = rng.standard_normal(y.shape)
dh = real[..., None] * (dy / n)[:, None]    # y = sum of r_t h_t / n
predict("the review 'a dull plot' is padded to 7 tokens and receives dy = (6, 3): what does each of its words receive?",
        (2, 1), why="There are three real tokens, so each receives dy / 3. The number of padding tokens has no effect.")
show_source(nt.MaskedMean.forward, nt.MaskedMean.backward)
pool = nt.MaskedMean()
claim("nt.MaskedMean has the same forward", relative_error(pool(h, real), y) < 1e-15)
claim("and the same backward", relative_error(pool.backward(dy), dh) < 1e-15)
pool(h, real)
claim("padding receives exactly 0", pool.backward(dy)[~real] == 0)
complex_step = slopes(lambda h: np.sum(dy * (np.where(real[..., None], h, 0).sum(1) / n)), h)
claim("the complex step confirms dh", relative_error(dh, complex_step) < 1e-14)

# %% [markdown]
# ## 4. The loss of one logit
#
# Two more layers turn the mean into one number z, the logit. The note ends in a sigmoid, p = σ(z) = 1 / (1 + exp(-z)),
# which is the model's probability that the class is c = 1, "positive". Its loss is the binary cross-entropy
#
#     L = -c log p - (1 - c) log(1 - p)
#
# From -log(1 - p) = log(1 + exp(z)) and -log p = log(1 + exp(z)) - z follows a form without p, and its derivative:
#
#     L = log(1 + exp(z)) - c z
#     dz = exp(z) / (1 + exp(z)) - c = σ(z) - c
#
# In floating point neither form is safe. At z = 40, p is rounded to 1 and log(1 - p) is -inf. At z = 1000, exp(z)
# overflows. A safe form takes the larger term out of the logarithm:
#
#     log(1 + exp(z)) = max(z, 0) + log(1 + exp(-|z|))
#
# This is why the models here return logits, and the sigmoid is a part of the loss.

# %% Three forms of the loss, and backward
def loss_of_p(z, c):
    p = 1 / (1 + np.exp(-z))
    return -c * np.log(p) - (1 - c) * np.log(1 - p)


def loss_of_exp(z, c):
    return np.log(1 + np.exp(z)) - c * z


def safe_loss(z, c):
    return np.maximum(z, 0) + np.log1p(np.exp(-abs(z))) - c * z            # log1p(x) is log(1 + x), exact for small x


predict("z = 0: is the loss the same for both classes?", "yes",
        why="With z = 0 the model gives both classes the probability 1/2, and the loss is log 2 for either.")
z, c = np.array([-40, -1.5, 0.0, 2.0, 40, 1000]), np.array([0, 1, 1, 1, 0, 0])
forms = loss_of_p, loss_of_exp, safe_loss
with np.errstate(all="ignore"):             # no warnings of divisions by 0 and overflow
    losses = [form(z, c) for form in forms]
for form, values in zip(forms, losses):
    print(f"  {form.__name__:<12}" + "".join(f"{value:11.4g}" for value in values))
claim("at z = 40, the form with p is infinite, at z = 1000 that with exp(z)", np.isinf([losses[0][4], losses[1][5]]))
claim("the safe form is right there", np.allclose(losses[2][4:], [40, 1000]))
claim("at the three logits near 0, all agree", np.allclose([losses[0][1:4], losses[1][1:4]], losses[2][1:4]))
z, c = z[:5], c[:5]
dz = (1 / (1 + np.exp(-z)) - c) / len(z)    # L is the mean over the texts of log(1 + exp(z)) - c z
show_source(nt.BinaryCrossEntropyLoss.backward)
criterion = nt.BinaryCrossEntropyLoss()
claim("nt.BinaryCrossEntropyLoss computes the mean of the safe form",
      relative_error(criterion(z, c), safe_loss(z, c).mean()) < 1e-15)
claim("and this dz", relative_error(criterion.backward(), dz) < 1e-15)
claim("the complex step confirms dz", relative_error(dz, slopes(lambda z: loss_of_exp(z, c).mean(), z)) < 1e-14)


# %% [markdown]
# ## 5. The whole model
#
# The note's `TransformerEncoder` puts it together: words with positions, dropout, N blocks, the mean, a Dense layer
# with ReLU (Keras's name for a Linear), dropout, and a last Dense layer. Backward is its forward read from bottom to
# top.
#
# The claims compare it with `nt.SequenceClassifier`, and count the note's parameters for its 10,000 words. For IMDB the
# note adds one id for padding, which is one more row of 64 numbers.

# %% TransformerEncoder, compared with nt.SequenceClassifier
class TransformerEncoder(nt.Module):
    def __init__(self, V, D, H, F, N, hidden=64, max_len=200, p=0.1, rng=None):
        rng = np.random.default_rng(rng)
        self.embedding = nt.Embedding(V, D, scale=True, rng=rng)
        self.positions = nt.SinusoidalPositionalEncoding(D, max_len)
        self.blocks = [TransformerEncoderBlock(D, H, F, p, rng) for _ in range(N)]
        self.pool = nt.MaskedMean()
        self.hidden, self.relu = nt.Linear(D, hidden, rng=rng), nt.ReLU()
        self.output = nt.Linear(hidden, 1, rng=rng)
        self.dropout = nt.Dropout(p, rng)

    def forward(self, ids):
        x = self.dropout(self.positions(self.embedding(ids)))
        for block in self.blocks:
            x = block(x, nt.padding_mask(ids))
        y = self.pool(x, ids != 0)                                          # (B, D)
        return self.output(self.dropout(self.relu(self.hidden(y))))[:, 0]   # (B,)

    def backward(self, dz):
        dy = self.output.backward(dz[:, None])
        dx = self.pool.backward(self.hidden.backward(self.relu.backward(self.dropout.backward(dy))))
        for block in reversed(self.blocks):
            dx = block.backward(dx)
        self.embedding.backward(self.positions.backward(self.dropout.backward(dx)))


small = in_float64(TransformerEncoder(V, D, H, F, 2, hidden=5, p=0.0))
library = nt.SequenceClassifier(V, D, H, 2, d_ff=F, hidden=5, max_len=200, dropout=0.0).astype(np.float64)
library.load_state_dict({name.replace("blocks", "encoder.blocks"): array for name, array in small.state_dict().items()})
claim("both compute the same logits", relative_error(small(ids), library(ids)) < 1e-14)
dz = np.array([1.0, -2.0, 0.5])
small.backward(dz)
library.backward(dz)
claim("and the same gradients of all parameters", [
    relative_error(own.grad, other.grad) < 1e-13 for own, other in zip(small.parameters(), library.parameters())
    if not np.allclose(other.grad, 0, atol=1e-14)])                         # the key biases: 0 but for rounding
report = nt.gradcheck(small, ids, directions=2)                             # in two random directions of each array
claim("finite differences and the complex step confirm them", report.ok, f"{len(report.rows)} arrays")
predict("the note has 10,000 words and D = 64: how many of its 744,193 parameters are in E?", 640_000,
        why="E has 10,000 rows of 64 numbers. The blocks do not grow with the vocabulary.")
for model in (TransformerEncoder(10_000, 64, 4, 256, 2), nt.SequenceClassifier(10_000, 64, 4, 2, d_ff=256)):
    claim(f"{type(model).__name__} has the note's 744,193 parameters", model.num_parameters() == 744_193)

# %% [markdown]
# ## 6. Training
#
# `data.reviews` generates reviews in which counting words is of no use to a linear model: "although the plot is dull,
# the cast is great" and "although the cast is great, the plot is dull" have the same words and different classes. We
# take those of at most 12 words, without their commas. Each clause of a test review occurs in the training set, but no
# pair of its clauses.
#
# As in the note, a tenth of the training set serves for validation, and training stops early. When the validation loss
# has not improved for three epochs (the note waits for two), the weights of the best epoch are restored. Keras draws
# the entries of E between -0.05 and 0.05, and so do we, because the model then learns faster (lesson 19 compares
# initial weights). The learning rate is higher than in the note, and there is no dropout.

# %% A model is trained on generated reviews
generated = data.reviews(seed=1)
training, test = ([(text.replace(",", "").split(), label) for text, label in part if len(text.split()) <= 12]
                  for part in (generated.training, generated.test))
word_ids = {word: i for i, word in enumerate(sorted({word for text, _ in training for word in text}), 1)}


def batch(examples):
    """The padded ids of reviews, (B, T), and their classes."""
    return data.pad([np.array([word_ids[word] for word in text]) for text, _ in examples]), np.array(
        [label for _, label in examples])


def loss_and_accuracy(model, examples):
    ids, labels = batch(examples)
    z = model.eval()(ids)
    model.train()
    return nt.BinaryCrossEntropyLoss().eval()(z, labels), np.mean((z > 0) == labels)


training = [training[i] for i in rng.permutation(len(training))]
validation, training = training[:len(training) // 10], training[len(training) // 10:]
for name, part in (("training", training), ("validation", validation), ("test", test)):
    ids, labels = batch(part)
    print(f"  {name:<10}  ids {ids.shape}  positive {labels.sum():,}, negative {(labels == 0).sum():,}")
ids, labels = batch(training)
bag = data.BagOfWords.train([row[row > 0] for row in ids], labels.tolist(), len(word_ids) + 1, 2)     # a linear model
rows, labels = zip(*[([word_ids[word] for word in text], label) for text, label in test])
share = bag.accuracy(rows, labels)
claim("word counts are of no use to a linear model", share < 0.6, f"{share:.1%} of the test set")
model = TransformerEncoder(len(word_ids) + 1, 64, 4, 128, 2, p=0.0, rng=1)
model.embedding.weight.data = rng.uniform(-0.05, 0.05, model.embedding.weight.data.shape)
criterion, optimizer = nt.BinaryCrossEntropyLoss(), nt.Adam(model.parameters(), lr=0.001)
best, waited = math.inf, 0
for epoch in range(12):
    order = rng.permutation(len(training))
    for start in range(0, len(order), 64):
        ids, labels = batch([training[i] for i in order[start:start + 64]])
        model.zero_grad()
        criterion(model(ids), labels)
        model.backward(criterion.backward())
        optimizer.step()
    validation_loss, accuracy = loss_and_accuracy(model, validation)
    print(f"  epoch {epoch + 1:2}   validation loss {validation_loss:.3f}   accuracy {accuracy:.1%}")
    waited += 1
    if validation_loss < best:
        best, waited, weights = validation_loss, 0, model.state_dict()
    if waited == 3:
        break
model.load_state_dict(weights)
claim("the best weights are back", abs(loss_and_accuracy(model, validation)[0] - best) < 1e-6)
_, accuracy = loss_and_accuracy(model, test)
claim("the model classifies reviews whose pairs of clauses it has never seen", accuracy > 0.9, f"{accuracy:.1%}")

# %% [markdown]
# ## 7. The note's experiment
#
# The note trains this model on 25,000 film reviews (IMDB, Maas et al. 2011). With the data, which you have to download
# yourself, the command is
#
#     numpy-transformer train classifier --config note-001 --data aclImdb --curves imdb.png
#
# It has the note's sizes, 5 epochs, batches of 64, Adam with learning rate 0.0001, dropout 0.1 and patience 2. The
# texts have no punctuation and are cut after 200 tokens. As in the note, padding is not masked (lesson 11b).
#
# We measured these accuracies with that command on an AMD EPYC, with the seeds 1, 2 and 3. They are not for the
# published test half, which has other films: we held out 5,000 reviews of the training half as a test set. A tenth of
# the other 20,000 was the validation set.
#
#     this model                          87.1, 86.4, 86.3%
#     the same recipe in PyTorch          86.6, 87.0, 86.9%
#     bag of words, logistic regression   86.2, 85.9, 86.1%
#
# In real reviews, word counts carry nearly all the information that this model finds: a linear model that only counts
# words is about half a point behind. Compare every classifier of texts with such a baseline.
#
# ## Exercises
#
# 1. Replace the mean by the first row of h. Write forward and backward. Which rows of dh are 0, and why does the row of
#    every word in E still receive a gradient?
# 2. Replace the mean by the maximum over the tokens, taken for each feature. Which tokens receive a gradient? Which
#    value must the rows of padding tokens have before the maximum is taken?
# 3. A model ends in the sigmoid, and its loss clips p to the range from 1e-7 to 1 - 1e-7. What is the largest possible
#    loss? Which gradient does a text receive if the model is confident and wrong about it?
# 4. A model returns two logits, z0 and z1, followed by softmax and cross-entropy. Show that it is the model of this
#    lesson with z = z1 - z0. Which gradients do z0 and z1 receive?
# 5. Train the model of section 6 without positions. Predict the loss that it converges to.
#
# With a checker (`numpy-transformer exercise start my-exercises 11`): 11.1, 11.2, 11.3, 11.4, 11.5, 11.6.
