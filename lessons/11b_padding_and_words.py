# %% [markdown]
# # 11b Padding, and which words decide
#
# The classifier of lesson 11 is trained, and now you examine it. Three questions come up with every model of this kind.
# What happens if padding is not hidden? Why can the loss rise while the accuracy does not fall? And which words of a
# text decided the answer?
#
# The first cell trains two models on the reviews of lesson 11: one on all of them, the other on 200 only. `nt.Adam` and
# the training loop are those of earlier lessons.

# %% Two models: one has seen all training reviews, the other only 200
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.course import claim, drawing, figure, lesson, predict

lesson.start(__name__)
drawing("padding")
rng = np.random.default_rng(11)
generated = data.reviews(seed=1)
training, validation, test = (
    [(text.replace(",", "").split(), label) for text, label in part if len(text.split()) <= 12]
    for part in (generated.training, generated.validation, generated.test))
words = ["PAD", *sorted({word for text, _ in training for word in text})]
word_ids = {word: i for i, word in enumerate(words)}


def encode(text):
    return np.array([word_ids[word] for word in text])


def batch(examples):
    """Returns the padded ids of reviews, (B, T), and their classes."""
    return data.pad([encode(text) for text, _ in examples]), np.array([label for _, label in examples])


def accuracy(z, labels):                    # the share of logits on the right side of 0
    return np.mean((z > 0) == labels)


def train(examples, steps, every):
    """Returns a trained model, and, after each `every` steps, (step, training loss, validation loss, accuracy)."""
    rng = np.random.default_rng(1)
    model = nt.SequenceClassifier(len(words), 64, 4, 2, d_ff=128, max_len=64, dropout=0.0, rng=rng)
    model.embedding.weight.data = rng.uniform(-0.05, 0.05, model.embedding.weight.data.shape)
    criterion, optimizer = nt.BinaryCrossEntropyLoss(), nt.Adam(model.parameters(), lr=0.001)
    ids, labels = batch(validation)
    history = []
    for step in range(1, steps + 1):
        chosen = batch([examples[i] for i in rng.choice(len(examples), 64, replace=False)])
        model.zero_grad()
        loss = criterion(model(chosen[0]), chosen[1])
        model.backward(criterion.backward())
        optimizer.lr = 0.001 * min(1, 2 - 2 * step / (steps + 1))           # constant, and to 0 in the second half
        optimizer.step()
        if step % every == 0:
            z = model.eval()(ids)
            history.append((step, loss, criterion.eval()(z, labels), accuracy(z, labels)))
            model.train(), criterion.train()
    return model.eval(), np.array(history)


model, history = train(training, 1_200, 100)
memorizing, memorizing_history = train([training[i] for i in rng.permutation(len(training))[:200]], 400, 20)
test_ids, test_labels = batch(test)
right = accuracy(model(test_ids), test_labels)
claim("the first model classifies the test reviews", right > 0.9, f"{right:.1%}")

# %% [markdown]
# ## 1. Padding in attention and in the mean
#
# The texts of a batch are filled up with padding to the same length. If no mask hides it, padding enters the result in
# two ways. Here is a text of three words with one feature each, and two padding tokens of value 0. Suppose that a query
# gives the score 2 to the first word and 0 to all other tokens:
#
#     scores                  2     0     0     0     0
#     values                  1     4    -2     0     0
#     weights, masked         0.79  0.11  0.11  0     0         output 1.00
#     weights, not masked     0.65  0.09  0.09  0.09  0.09      output 0.82
#     mean, masked            (1 + 4 - 2) / 3 = 1
#     mean, not masked        (1 + 4 - 2 + 0 + 0) / 5 = 0.6
#
# Softmax gives some weight to padding, and that weight is missing at the words. The mean divides by 5 instead of 3. So
# the result depends on the amount of padding, and thereby on the longest text in the batch.
#
# In backward each of the five tokens receives dy / 5, padding as much as a word, and the row of PAD in the embedding
# table is trained. Note 001 has no mask. It pads all texts to 200 tokens, so its amount of padding depends only on the
# text. `mask_padding=False` reproduces this.

# %% The example, and the same text with and without padding
scores, values = np.array([2.0, 0, 0, 0, 0]), np.array([1.0, 4, -2, 0, 0])
for name, length in (("masked", 3), ("not masked", 5)):
    P = np.exp(scores[:length]) / np.exp(scores[:length]).sum()
    print(f"  {name:<11} weights {P.round(2)}, output {P @ values[:length]:.2f}, mean {values[:length].mean():.1f}")
hidden = nt.SequenceClassifier(len(words), 8, 2, 2, d_ff=12, dropout=0.0, rng=1).astype(np.float64).eval(remember=True)
visible = nt.SequenceClassifier(len(words), 8, 2, 2, d_ff=12, dropout=0.0, rng=1, mask_padding=False)
visible.astype(np.float64).eval(remember=True).load_state_dict(hidden.state_dict())
text = encode("a dull plot".split())
padded = np.pad(text, (0, 4))
change = abs(hidden(padded[None]) - hidden(text[None]))[0]
claim("padding hidden: the logit stays when four padding tokens are added", change < 1e-13)
change = abs(visible(padded[None]) - visible(text[None]))[0]
claim("padding not hidden: the logit changes", change > 1e-6, f"by {change:.4f}")
predict("padding not hidden, 3 words and 4 padding tokens: what part of dy does the mean pass to each word?", "1/7",
        why="The mean is over all 7 tokens, so each receives dy / 7, and 4/7 of dy goes to padding.")
for classifier, name in ((hidden, "hidden"), (visible, "not hidden")):
    classifier.forget()                     # drop what the forward passes above saved; no backward followed them
    classifier(padded[None])
    classifier.backward(np.ones(1))
    largest = abs(classifier.embedding.weight.grad[0]).max()
    print(f"  padding {name:<10}: largest gradient in the row of PAD {largest:.4f}")
claim("padding hidden: the row of PAD has gradient exactly 0", hidden.embedding.weight.grad[0] == 0)
claim("padding not hidden: it has a gradient", abs(visible.embedding.weight.grad[0]).max() > 1e-6)

# %% [markdown]
# ## 2. The trained model sees padding
#
# The model was trained with padding hidden from both. Now we let padding into attention, into the mean, or into both,
# and add more and more of it to test reviews, which have some already, as they are padded to 12 tokens.
# `nt.TextEncoder` is the part of the classifier below the mean.

# %% Padding in attention, in the mean, in both
def logits_with_masks(ids, attention_mask, mean_mask):
    """Returns the trained model's logits, with one mask for attention and another one for the mean."""
    y = nt.MaskedMean().eval()(nt.TextEncoder.forward(model, ids, attention_mask), mean_mask)
    return model.output(model.activation(model.hidden(y)))[..., 0]


sample_ids, sample_labels = test_ids[:300], test_labels[:300]
z = model(sample_ids)
COUNTS = 0, 2, 5, 10, 20, 40
SEEN_BY = {"neither": (False, False), "the mean": (False, True), "attention": (True, False), "both": (True, True)}
logits = {name: [] for name in SEEN_BY}
for count in COUNTS:
    padded = np.pad(sample_ids, ((0, 0), (0, count)))
    for name, (in_attention, in_mean) in SEEN_BY.items():
        logits[name].append(logits_with_masks(padded, (padded > 0) | in_attention, (padded > 0) | in_mean))
claim("hidden from both: no logit changes, however much padding there is", [
    np.allclose(z, changed, atol=1e-4) for changed in logits["neither"]])
by_mean, by_attention = (abs(logits[name][-1] - z).mean() for name in ("the mean", "attention"))
claim("attention to padding changes the logits more than padding in the mean", by_attention > by_mean,
      f"by {by_attention:.2f} and {by_mean:.2f} with 40 padding tokens")
picture = Figure(figsize=(12, 4.2), layout="constrained")
left, right = picture.subplots(1, 2)
print("  accuracy with " + ", ".join(map(str, COUNTS)) + " padding tokens, seen by")
for (name, columns), style in zip(logits.items(), ("C0o-", "C2^--", "C1s-", "C3v:")):
    scores = [accuracy(column, sample_labels) for column in columns]
    print(f"    {name:<10}" + "".join(f"{score:8.1%}" for score in scores))
    left.plot(COUNTS, [abs(column - z).mean() for column in columns], style, label=name)
    right.plot(COUNTS, scores, style)
left.set(xlabel="padding tokens added to each review", ylabel="mean change of the logit")
right.set(xlabel="padding tokens added to each review", ylabel="accuracy", ylim=(0.3, 1.02))
left.legend(title="padding is seen by")
figure("seen", picture)

# %% [markdown]
# Attention changes more here. Padding takes weight away from the words in both blocks. In the mean it does less harm,
# because a padding token has attended to the words, too, so its vector resembles theirs. A model that is trained with
# visible padding of one fixed length, like the note's, can adapt to it. A text padded to another length is then new to
# it.
#
# ## 3. Accuracy is not the loss
#
# Accuracy asks on which side of 0 a logit lies. The loss also asks how far from 0 it is. If all logits are divided by
# 10, no answer changes, but the loss does. If z = 0 for all texts, the loss is log 2 = 0.693, which is the loss of a
# model without information. A wrong answer with a large |z| costs a little more than |z|, so there is no upper bound.
#
# The second model has seen only 200 reviews. It memorizes them: its training loss goes to almost 0. On the validation
# set its accuracy stays far below that of the first model, while its logits grow. So its wrong answers become more and
# more expensive, and the validation loss rises above log 2. Early stopping (lesson 11) watches the loss for this
# reason.

# %% The same answers with another loss, and a model that memorizes
z = model(test_ids)
criterion = nt.BinaryCrossEntropyLoss().eval()
for factor in (1, 0.1, 0):
    print(f"  logits times {factor}: loss {criterion(factor * z, test_labels):.3f}")
claim("a tenth of the logits has the same accuracy, and a different loss",
      accuracy(0.1 * z, test_labels) == accuracy(z, test_labels)
      and abs(criterion(0.1 * z, test_labels) - criterion(z, test_labels)) > 0.05)
predict("the loss if all logits are 0, with two decimals?", 0.69, why="Both classes have probability 1/2, and "
        "-log(1/2) = log 2 = 0.69.")
claim("with all logits 0 the loss is log 2", abs(criterion(0 * z, test_labels) - np.log(2)) < 1e-6)
_, training_loss, validation_loss, validation_accuracy = memorizing_history[-1]
claim("the second model knows its 200 reviews", training_loss < 0.1, f"training loss {training_loss:.3f}")
claim("its validation loss is above log 2, that of the first model below", validation_loss > np.log(2) > history[-1, 2],
      f"{validation_loss:.2f} and {history[-1, 2]:.2f}")
claim("its accuracy is lower", validation_accuracy < history[-1, 3] - 0.1, f"{validation_accuracy:.0%}")
picture = Figure(figsize=(12, 4.2), layout="constrained")
left, right = picture.subplots(1, 2)
for rows, name, color in ((history, "all reviews", "C0"), (memorizing_history, "200 reviews", "C1")):
    left.plot(rows[:, 0], rows[:, 2], color=color, label=f"validation, {name}")
    left.plot(rows[:, 0], rows[:, 1], color=color, linestyle=":", label=f"training, {name}")
    right.plot(rows[:, 0], rows[:, 3], color=color)
left.axhline(np.log(2), color="0.6", linewidth=1)
left.set(xlabel="step", ylabel="loss (gray: log 2)")
right.set(xlabel="step", ylabel="accuracy on the validation set", ylim=(0.4, 1.02))
left.legend()
figure("learning", picture)

# %% [markdown]
# ## 4. Which words decided?
#
# It is tempting to read the answer from the attention weights. But a weight only says how much of a value is taken. It
# does not say what the value contains (after one block the vector of a word contains parts of other words), nor whether
# it speaks for or against the answer, as no weight is negative. Jain and Wallace 2019 ("Attention is not Explanation")
# found weights that correlate weakly with other measures. Wiegreffe and Pinter 2019 ("Attention is not not
# Explanation") objected to parts of their test. So we measure two things directly.
#
# * **Removal**: by how much does z fall if the word is hidden as if it were padding?
# * **Gradient times input**: by how much would z change if the word's vector e = sqrt(D) E[id] were made longer? If z
#   is regarded as a function of s e, the chain rule gives dz/ds at s = 1 as the sum over i of e_i dz/de_i. One backward
#   pass from dz = 1 gives it for all words at once.

# %% Removal, gradient times input, and attention weights
exact = nt.SequenceClassifier(len(words), 64, 4, 2, d_ff=128, max_len=64, dropout=0.0).astype(np.float64)
exact.load_state_dict({name: array.astype(np.float64) for name, array in model.state_dict().items()})


def effects(ids):
    """Returns z, and for each word what z loses without it, gradient times input, and its mean attention weight."""
    with nt.record(exact.eval(remember=True)) as tape:
        z = exact(ids[None])
        exact.backward(np.ones(1))
    weights = exact.encoder.blocks[-1].attention.attention.weights[0].mean((0, 1))      # over heads and queries
    product = (tape["embedding"].output * tape["embedding"].dy)[0].sum(-1)
    without = exact.eval()(np.tile(ids, (len(ids), 1)), ~np.eye(len(ids), dtype=bool))  # row t hides word t
    return z[0], z - without, product, weights


ids = encode("the film is not bad but the cast is dull".split())
z, removal, product, weights = effects(ids)
E, row = exact.embedding.weight.data, word_ids["dull"]
ends = []
for s in (1 + 1e-6, 1 - 1e-6):              # "dull" occurs once, so its row of E is its vector, apart from sqrt(D)
    E[row] *= s
    ends.append(exact(ids[None])[0])
    E[row] /= s
slope = (ends[0] - ends[1]) / 2e-6
claim("gradient times input is dz/ds at s = 1", np.isclose(product[9], slope, rtol=1e-4, atol=1e-6), f"{slope:.4f}")
measured = [(row[row > 0], *effects(row[row > 0])) for row in sample_ids[:200]]
size = np.mean([abs(z) for _, z, *_ in measured])
things = set("cast film finale hero plot score script story style villain".split())
change = {True: [], False: []}
for ids, _, removal_of_words, *_ in measured:
    for i, fall in zip(ids, removal_of_words):
        change[words[i] in things].append(abs(fall) / size)
claim("removing a thing, such as the plot, changes z little compared with other words",
      np.mean(change[True]) < np.mean(change[False]) / 2,
      f"by {np.mean(change[True]):.2f} and {np.mean(change[False]):.2f} of the mean |z|")
all_removal, all_product, all_weights = (np.concatenate([row[i] for row in measured]) for i in (2, 3, 4))
by_gradient = np.corrcoef(all_product, all_removal)[0, 1]
by_weight = np.corrcoef(all_weights, abs(all_removal))[0, 1]
print(f"  correlation of the weight with the size of the removal: {by_weight:.2f}")
claim("gradient times input and removal are not the same measure", by_gradient < 0.6, f"correlation {by_gradient:.2f}")
claim("no weight is negative, but the removals have both signs",
      (all_weights >= 0).all() and 0.2 < np.mean(all_removal < 0) < 0.8, f"{np.mean(all_removal < 0):.0%} are negative")
picture = Figure(figsize=(13, 6.4), layout="constrained")
for axes, text in zip(picture.subplots(2, 2).flat, (
        "the film is not bad but the cast is dull", "the cast is dull but the film is not bad",
        "although the cast is dull the film is not bad", "the cast is dull although the film is not bad")):
    z, removal, product, weights = effects(encode(text.split()))
    places = np.arange(len(removal))
    measures = {"removal": removal, "gradient times input": product, "attention": weights}
    for n, (label, values) in enumerate(measures.items()):
        axes.bar(places + 0.27 * (n - 1), values / abs(values).max(), 0.27, color=f"C{n}", label=label)
    axes.axhline(0, color="0.4", linewidth=1)
    axes.set_xticks(places, text.split(), rotation=35, ha="right", rotation_mode="anchor")
    axes.set(title=f"logit z = {z:.1f}", ylim=(-1.05, 1.05))
picture.axes[0].legend(loc="lower left", fontsize=9)
picture.supylabel("each measure divided by its largest value")
figure("words", picture)

# %% [markdown]
# The four texts contain the same two clauses. In the picture, look for words whose three bars disagree. The weights may
# well be large at words that matter, as the printed correlation shows, but they do not say for which answer a word
# speaks. Gradient times input may have the opposite sign of the removal. This is no error of backward: a gradient
# describes exactly the effect of a small change, and hiding a word is a large one.
#
# So to find out what a word contributes, change the word. But this measure has a limit too. A text with a hidden word
# does not belong to the language, and the model has never been trained on such texts. And if either of two words is
# enough for the answer, removing one of them changes nothing.
#
# ## Exercises
#
# 1. In the example of section 1, let the number of padding tokens grow without limit. Which values do the unmasked
#    output and the unmasked mean approach?
# 2. A batch contains one text of 200 tokens and 63 texts of 10. What share of the tokens is padding? What changes if
#    texts of similar length are put into the same batch?
# 3. A model has 100% accuracy on a test set, and a loss of 0.6. Is this possible? And 50% with a loss of 0.6?
# 4. Multiply all word vectors by s = 0.05, 0.15, ..., 0.95, take the mean of the ten gradients, multiply it by the
#    input and sum over the words. Which difference does this approximate (Sundararajan et al. 2017)?
