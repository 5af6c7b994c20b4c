# %% [markdown]
# # 15 Every task as text
#
# A classifier has one output per class, a tagger has one output per tag, and a translator writes text. T5, the
# "Text-to-Text Transfer Transformer" (Raffel et al. 2020), treats all of these tasks alike: the input is a text, the
# output is a text, and the first words of the input, the prefix, say which task is meant. So there is one
# encoder-decoder, one vocabulary and one loss. Only the metrics and the way of decoding differ: T5 measures
# translations by BLEU and answers to questions by exact match (section 3.1.5), and writes long texts with beam search
# (section 3.7).
#
# In this lesson you write four tasks in this form, find out what the prefix does forward and backward, train one small
# model for all four, and look at how its attention depends on the prefix. The model is the encoder-decoder of lesson
# 13.

# %% Four tasks in one form
import itertools
from collections import Counter

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source

lesson.start(__name__)
drawing("text_to_text")
rng = np.random.default_rng(15)
PAD, BOS, EOS = 0, 1, 2
LETTERS = "abcdefgh"
TASKS = {"copy": lambda word: word,
         "reverse": lambda word: word[::-1],
         "sort": lambda word: "".join(sorted(word)),
         "first": lambda word: word[0]}
tokens = ["[PAD]", "[BOS]", "[EOS]", *(f"{name}: " for name in TASKS), *LETTERS]    # a prefix is one token
V = len(tokens)
prefixes = {name: tokens.index(f"{name}: ") for name in TASKS}


def pairs(words, names=TASKS):
    """Returns (source tokens, target tokens) of each word under each of these tasks."""
    return [([f"{name}: ", *word], [*TASKS[name](word)]) for word in words for name in names]


def pad(rows):
    """Returns the ids of BOS row EOS, padded to the length of the longest row."""
    rows = [[BOS, *map(tokens.index, row), EOS] for row in rows]
    return np.array([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows])


texts = pairs(["badge"])
for source, target in texts:
    print(f"  {''.join(source)!r} -> {''.join(target)!r}")
show(source=pad([source for source, _ in texts]))

# %% [markdown]
# ## 1. One form for every task
#
# Copying, reversing and sorting turn one text into another. The fourth task, finding the first letter, is a
# classification. An encoder with eight outputs could do it (lesson 11). Here the model writes the class instead: one
# token and EOS. It has to learn that only eight answers make sense. T5 even writes numbers as text: a similarity
# between 1 and 5 is rounded to the nearest 0.2 and becomes "3.8" (section 2.4 of the paper).
#
# The advantage is that a new task needs data and a prefix, but no new layer and no new loss. The price is that an
# answer is written token by token, where a classifier needs a single forward pass.
#
# ## 2. Shifted targets
#
# During training the decoder reads the right answer, shifted by one position, and predicts the next token at each
# position. This is called teacher forcing:
#
#     target             BOS  b    a    d    EOS
#     decoder reads      BOS  b    a    d
#     decoder predicts   b    a    d    EOS
#
# By the chain rule of probability, log P(y) = sum over t of log P(y_t | y_0 .. y_(t-1), source), with one term per
# token, EOS included. Thanks to the causal mask, one forward pass computes all of these terms. The loss is the mean of
# -log P over all n target tokens of the batch, without PAD, and its gradient is dz = (p - onehot) / n.
#
# When the trained model is used, the decoder reads its own tokens. As long as these are right, they are the tokens that
# teacher forcing feeds in. So greedy decoding writes the right answer **if and only if**, under teacher forcing, the
# right token is the most probable one at every position.

# %% The shift, and the loss token by token
def batch(texts):
    source, target = pad([source for source, _ in texts]), pad([target for _, target in texts])
    return (source, target[:, :-1]), target[:, 1:]      # what the decoder reads, and what it has to predict


(source, target_in), target_out = batch(texts)
show(target_in=target_in, target_out=target_out)
predict("The four answers have 5, 5, 5 and 1 letters. Over how many tokens does the loss average?", 20,
        why="Each answer ends with EOS, which has to be predicted as well: 16 letters and 4 EOS.")
criterion = nt.CrossEntropyLoss(ignore_id=PAD)
D = 12
model = nt.EncoderDecoder(V, V, D, num_heads=2, num_layers=1, d_ff=16, max_len=20, rng=rng).astype(np.float64)
model.eval(remember=True)
for parameter in model.parameters():        # random values, so that no γ is 1 and no bias is 0
    parameter.data = (parameter.data == 1) + rng.standard_normal(parameter.data.shape) / np.sqrt(D)
with nt.record(model) as tape:              # keeps the inputs, outputs and gradients of every component
    loss = criterion(model(source, target_in), target_out)
    model.backward(criterion.backward())
z, dz, dx = tape["output"].output, tape["output"].dy, tape["source_embedding"].dy
dE = model.source_embedding.weight.grad.copy()
p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
real = target_out != PAD
log_p = np.log(np.take_along_axis(p, target_out[..., None], -1)[..., 0])
claim("the loss is the sum of -log P(answer), divided by 20", np.isclose(loss, -log_p[real].sum() / 20, rtol=1e-13))
claim("dz is (p - onehot) / 20, and 0 where the target is PAD",
      np.allclose(dz, (p - np.eye(V)[target_out]) * real[..., None] / 20, rtol=1e-11, atol=1e-15))
one_by_one = [np.log(nt.Softmax().eval()(model.eval()(source[:1], target_in[:1, :t + 1]))[0, -1, y])
              for t, y in enumerate(target_out[0])]
claim("one forward pass per token gives the same P(answer)", np.isclose(sum(one_by_one), log_p[0].sum(), rtol=1e-12))

# %% [markdown]
# ## 3. What the prefix does
#
# **Forward.** The prefix is one token of the source. The encoder has no causal mask, so every row of the memory depends
# on it, and through cross-attention every logit does.
#
# **Backward.** The embedding of a prefix is a row of E. Row v receives the sum of the gradients of all positions whose
# id is v, times sqrt(D) (lesson 03). A prefix stands at position 1 of the sources of its own task and nowhere else, so
# its row learns from its own task only, and its gradient is exactly 0 if the batch has no such source. (Section 4 ties
# E to the output layer, which sends a gradient to every row.) All other parameters are shared: the row of the letter a
# receives a gradient from every task.
#
# **Without a prefix**, the model cannot know which of the four answers is wanted. Suppose a word has k different
# answers with frequencies f_1 .. f_k. The best that a model can do is to learn these frequencies, and then its loss is
# -(sum of f log f) for each answer, however long it trains. And it can be right only as often as the most frequent
# answer.

# %% The row of a prefix, and what no model can do without it
changed = source.copy()
changed[:, 1] = prefixes["sort"]
with nt.record(model.eval()) as tape:
    model(changed, target_in)
with nt.record(model) as other:
    model(source, target_in)
differs = (tape["encoder"].output != other["encoder"].output).any(-1)
letters_only = source > max(prefixes.values())
claim("another prefix changes the memory at every letter, except where the prefix was \"sort: \" already",
      np.array_equal(differs[letters_only], np.repeat([True, True, False, True], 5)))
for name, i in prefixes.items():
    own = dx[list(TASKS).index(name), 1]    # position 1 of the source of this task
    claim(f"the row of \"{name}: \" receives sqrt(D) dx of its own source only",
          np.allclose(dE[i], np.sqrt(D) * own, rtol=1e-12, atol=1e-15))
a = tokens.index("a")
from_tasks = [np.sqrt(D) * dx[b, source[b] == a].sum(0) for b in range(4)]
claim("the row of a receives the sum over all four tasks, none of which is 0",
      np.allclose(dE[a], sum(from_tasks), rtol=1e-12, atol=1e-15) and all(part.any() for part in from_tasks))
model.eval(remember=True).zero_grad()
(source, target_in), target_out = batch(pairs(["badge"], ["copy"]))
criterion(model(source, target_in), target_out)
model.backward(criterion.backward())
claim("a batch without \"sort: \" gives its row a gradient of exactly 0",
      model.source_embedding.weight.grad[prefixes["sort"]] == 0)
words = ["".join(word) for n in (3, 4, 5) for word in itertools.product(LETTERS, repeat=n)]
words = [words[i] for i in rng.permutation(len(words))]
test_words, training_words = words[:200], words[200:12000]
counts = [Counter("".join(target) for _, target in pairs([word])) for word in test_words]
predict("What exact match can the best model without a prefix reach for \"badge\", in percent?", 25,
        why="The four tasks give four different answers, and the model can write only one of them.")
best_without = np.mean([max(count.values()) / 4 for count in counts])
lowest_loss = -sum(n * np.log(n / 4) for count in counts for n in count.values()) / sum(
    len(target) + 1 for _, target in pairs(test_words))             # per token
print(f"  Without a prefix, exact match on the held-out words is at most {best_without:.1%}.")

# %% [markdown]
# ## 4. One model for four tasks
#
# Each batch has 64 pairs, drawn from all tasks. 200 words with all of their tasks are held out. As in T5, one matrix
# serves as source embedding, target embedding and output. The package's `data.Pairs` makes batches as `batch` above
# does, and `nt.greedy_decode` writes the answers (lesson 13b).

# %% Training
show_source(data.Pairs.assemble)
tokenizer = data.MixedTokenizer(tokens[3:])
text_pairs = [("".join(source), "".join(target)) for source, target in pairs(["badge", "fed"])]
inputs, targets = data.Pairs(text_pairs, tokenizer, tokenizer, 8, seed=15).assemble(np.arange(8))
mine, mine_out = batch(pairs(["badge", "fed"]))
claim("data.Pairs makes the same batch",
      [np.array_equal(a, b) for a, b in zip([*inputs, targets], [*mine, mine_out])])
STEPS = 600
training_pairs, held_out = pairs(training_words), batch(pairs(test_words))
model = nt.make_model(V, V, N=1, d_model=48, d_ff=96, h=4, dropout=0.0, max_len=12, tie_weights=True, rng=15)
optimizer = nt.Adam(model.parameters(), betas=(0.9, 0.98))
for step in range(1, STEPS + 1):
    inputs, targets = batch([training_pairs[i] for i in rng.integers(len(training_pairs), size=64)])
    optimizer.lr = 6e-3 * min(step / 60, 1, 1.5 * (1 - (step - 1) / STEPS))     # up for 60 steps, down from a third on
    model.zero_grad()
    criterion(model(*inputs), targets)
    model.backward(criterion.backward())
    optimizer.step()
logits = model.eval()(*held_out[0])
right = ((logits.argmax(-1) == held_out[1]) | (held_out[1] == PAD)).all(1).reshape(200, 4)
for name, share in zip(TASKS, right.mean(0)):
    claim(f"{name}: exact match on held-out words is above 80%", share > 0.8, f"{share:.1%}")
held_out_loss = criterion(logits, held_out[1])
claim("the loss is far below the lowest one without a prefix", held_out_loss < lowest_loss / 3,
      f"{held_out_loss:.3f}, without a prefix at least {lowest_loss:.3f}")
written = nt.greedy_decode(model, held_out[0][0], BOS, EOS, max_len=8)
same = [[*row[row > EOS]] == [*answer[answer > EOS]] for row, answer in zip(written, held_out[1])]
claim("greedy decoding is right exactly where all tokens are right under teacher forcing",
      np.array_equal(same, right.ravel()))

# %% [markdown]
# ## 5. The same word under different prefixes
#
# Which source tokens does an answer depend on? An attention weight tells where a head looks, but not whether the answer
# needs what it finds there (lesson 05b). So we replace one source token by every other letter, or the prefix by every
# other prefix, and measure how much probability moves to other tokens at each position of the answer, on average.
#
# Under "copy: ", letter t of the answer requires letter t of the word, and under "reverse: " letter n - 1 - t. So we
# expect a falling and a rising diagonal, although nothing in the model prescribes them.

# %% The effect of each source token
def effects(name, word):
    (source, target_in), _ = batch(pairs([word], [name]))
    p = nt.Softmax().eval()(model(source, target_in))
    result = np.zeros((target_in.shape[1], source.shape[1] - 2))    # BOS and EOS are not replaced
    for s in range(1, source.shape[1] - 1):
        others = [i for i in (prefixes.values() if s == 1 else range(7, V)) if i != source[0, s]]
        replaced = np.repeat(source, len(others), 0)
        replaced[:, s] = others
        new_p = nt.Softmax().eval()(model(replaced, np.repeat(target_in, len(others), 0)))
        result[:, s - 1] = abs(new_p - p).sum(-1).mean(0) / 2
    return result


for name, step in (("copy", 1), ("reverse", -1)):
    needed = [np.diag(effects(name, word)[:-1, 1:][:, ::step]).mean() for word in test_words[:20]]
    claim(f"{name}: each letter of the answer depends on the letter that it requires", np.mean(needed) > 0.7,
          f"effect {np.mean(needed):.2f}")
picture = Figure(figsize=(14, 4.4), layout="constrained")
panels = picture.subplots(1, 4)
for axes, name in zip(panels, TASKS):
    answer = TASKS[name]("badge")
    image = axes.imshow(effects(name, "badge"), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(6), [f"{name}:", *"badge"], rotation=90)
    labels = [f"{now} → {then}" for now, then in zip(["BOS", *answer], [*answer, "EOS"])]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_title(f"{name}: badge")
panels[0].set_ylabel("decoder reads → has to predict")
picture.supxlabel("replaced source token")
picture.colorbar(image, ax=panels, label="effect on the prediction")
figure("two_prefixes", picture)

# %% [markdown]
# Each answer depends on the prefix and on the letters of its task. Under "sort: " a row has one strong letter and some
# weaker ones, because another letter in the word may push this one to another position.
#
# T5 was trained on plain text first, and this training has the same form. In span corruption (sections 3.1.4 and
# 3.3.4), pieces of the text are removed and each is replaced by a token of its own: from "one encoder reads the source"
# the model reads "one <X> the source" and writes "<X> encoder reads <Y>".
#
# `numpy-transformer train text2text` trains a larger model that also reads dates and summarizes texts.
#
# ## Exercises
#
# 1. Put three tasks into this form: whether a sentence is grammatical, whether review A is kinder than review B, and
#    which words of a text are names. What are source and target? Which outputs would not be valid answers?
# 2. By mistake, target_in and target_out are the same. What happens to the loss, and what to greedy decoding?
# 3. Suppose a model is trained with the prefixes "sort: " and "reverse: " only, and is then asked to "copy: ". What do
#    you expect it to write, and why?
# 4. Suppose the targets of span corruption were written without <X> and <Y>. Find two texts that give the same input
#    and target.
#
# With a checker (`numpy-transformer exercise start my-exercises 15`): 15.1.
