# %% [markdown]
# # 13b Greedy decoding, beam search and BLEU
#
# An encoder-decoder gives a probability to every next token. To get a target out of it, somebody has to choose tokens,
# one after another. This is called decoding. In this lesson a small model learns to write words backwards, and you
# build two ways of decoding: greedy decoding, which always takes the most likely token, and beam search, which keeps
# several beginnings. You will see a case in which greedy decoding must fail, and score translations with BLEU, the
# number that the 2017 paper reports.

# %% Learning to write words backwards
import math
from collections import Counter

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source
from numpy_transformer.decoding.bleu import corpus_bleu         # compared with ours in section 4

lesson.start(__name__)
PAD, BOS, EOS = data.PAD, data.BOS, data.EOS            # 0, 1 and 2; the letters follow
task = data.GENERATED_PAIRS["reverse"](13)              # pairs such as ("stop", "pots")
training_pairs = [pair for pair in task.training if len(pair[0]) <= 8]
test_pairs = [pair for pair in task.test if len(pair[0]) <= 8][:200]
letters, _ = task.tokenizers()                          # a token is a letter
batches = data.Pairs(training_pairs[:20000], letters, letters, batch_size=64, seed=13, pool=4)
V = letters.vocab_size + 3
model = nt.make_model(V, V, N=1, d_model=64, d_ff=256, h=4, dropout=0.0, max_len=12, rng=13)
criterion = nt.CrossEntropyLoss(ignore_id=PAD)
optimizer = nt.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
schedule = nt.NoamSchedule(optimizer, d_model=64, warmup=100, factor=0.16)      # rises, then falls: lesson 19
trainer = nt.Trainer(model, criterion, optimizer, schedule, clip=1.0, workers=1)                # clip: lesson 19
trainer.fit(batches, steps=480)
model.eval()
(sources, decoder_inputs), answers = data.Pairs(test_pairs, letters, letters, 200, 13).batches()[0]
claim("the loss on new words has fallen below a quarter of log(V)",
      criterion(model(sources, decoder_inputs), answers) < math.log(V) / 4)

# %% [markdown]
# ## 1. Greedy decoding
#
# The decoder starts with BOS alone. Its last row of logits belongs to the next token. Greedy decoding appends the
# token with the largest logit, and goes on until EOS. It never revises a choice.
#
# A model in The Annotated Transformer ends in a **generator**, which returns log-probabilities, log_softmax(linear(x)).
# Here a model returns the logits, and log_softmax is applied where probabilities are needed. Softmax keeps the order of
# the logits, so greedy decoding does not need it.

# %% Greedy decoding in six lines
def greedy(source, max_len=10):
    memory = model.encode(source)
    target = [BOS]
    while target[-1] != EOS and len(target) <= max_len:
        logits = model.decode(np.array([target]), memory, source)
        target.append(int(logits[0, -1].argmax()))
    return target[1:]


def as_text(ids):
    return data.unframe(letters, ids)       # without BOS and EOS


source = data.frame(letters, "stop")[None]
print(f'  "stop" is written as "{as_text(greedy(source))}"')
rows = nt.greedy_decode(model, sources, BOS, EOS, max_len=10)       # fills what follows EOS with EOS
claim("nt.greedy_decode writes the same for the first 40 words",
      [list(row[:len(ids)]) == ids for row, ids in zip(rows, (greedy(one[one != PAD][None]) for one in sources[:40]))])
written = [as_text(row) for row in rows]
references = [word[::-1] for word in map(as_text, sources)]
right = np.mean([text == reference for text, reference in zip(written, references)])
claim("most new words are written backwards without an error", right > 0.6, f"{right:.1%} of {len(written)}")

# %% [markdown]
# ## 2. Beam search
#
# The most probable target is the one with the largest product of probabilities, and so with the largest sum of their
# logarithms. Taking the best token at each step need not lead to it. We show this with a "model" that is only a table
# of probabilities. In it "the" looks better than "a" as a first word, but what follows "a" is nearly certain:
#
#     P(the cat) = 0.6 · 0.4 = 0.24        P(a cow) = 0.4 · 0.9 = 0.36
#
# **Beam search** keeps the `beam` best unfinished targets. At each step it extends each of them by every token, and
# keeps the best extensions. One that ends in EOS is finished. The drawing shows it with a beam of 2.

# %% A table of probabilities, and beam search in fourteen lines
class Table:
    """A model that looks up {next word: probability} by the words written so far. Unknown beginnings end with EOS."""

    def __init__(self, **rows):
        self.words = ["PAD", "BOS", "EOS", *sorted({word for row in rows.values() for word in row} - {"EOS"})]
        self.rows = rows

    def encode(self, source):
        return source

    def decode(self, target, memory, source):
        rows = [self.rows.get("_".join(self.words[i] for i in ids[1:]) or "start", {"EOS": 1}) for ids in target]
        return np.log([[[row.get(word, 1e-9) for word in self.words]] for row in rows])


def log_softmax(logits):
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def beam_search(model, source, beam, alpha=0.0, max_len=10):
    """Return the best target and its score, log P / ((5 + length) / 6)^alpha."""
    memory = model.encode(source)
    alive, finished = [([BOS], 0.0)], []
    for length in range(1, max_len + 1):
        extended = []
        for ids, log_p in alive:
            new = log_softmax(model.decode(np.array([ids]), memory, source)[0, -1].astype(float))
            extended += [([*ids, token], log_p + new[token]) for token in range(len(new))]
        extended.sort(key=lambda target: -target[1])
        penalty = ((5 + length) / 6) ** alpha
        finished += [(ids[1:], log_p / penalty) for ids, log_p in extended[:beam] if ids[-1] == EOS]
        alive = [target for target in extended if target[0][-1] != EOS][:beam]
        if len(finished) >= beam:
            break
    return max(finished, key=lambda target: target[1])


drawing("beam_search")
table = Table(start={"the": 0.6, "a": 0.4}, the={"cat": 0.4, "dog": 0.3, "hen": 0.3}, a={"cow": 0.9, "hen": 0.1})
predict("P(the cat) = 0.24 and P(a cow) = 0.36: which first word does greedy decoding choose, the or a?", "the",
        why="Greedy decoding compares 0.6 and 0.4 and does not look further.")
for beam, expected, p in ((1, "the cat EOS", 0.6 * 0.4), (2, "a cow EOS", 0.4 * 0.9)):
    ids, score = beam_search(table, [[BOS]], beam)
    text = " ".join(table.words[i] for i in ids)
    claim(f"a beam of {beam} finds {expected}", text == expected and abs(math.exp(score) - p) < 1e-6, f"P = {p:.2f}")
for word in ("reversal", "stop", "lesson"):
    one = data.frame(letters, word)[None]
    ours = beam_search(model, one, beam=4)
    (theirs, score), = nt.beam_search(model, one, BOS, EOS, max_len=10, beam=4, length_penalty=0.0)[0]
    claim(f"nt.beam_search finds the same for {word}", ours[0] == theirs and abs(ours[1] - score) < 1e-4)

# %% [markdown]
# Beam search usually finds a target that is at least as probable as the greedy one, but not always, because the
# beginning of the greedy target may drop out of the beam. A beam of 1 is greedy decoding.
#
# ## 3. The length penalty
#
# Each further token lowers log P, so comparing targets by log P favors short ones. Wu et al. (2016, equation 14) divide
# log P by lp = ((5 + length) / 6)^α. The 2017 paper uses a beam of 4 and α = 0.6 (section 6.1).

# %% A table in which the empty target wins, until length is paid for
predict("a target of 3 tokens, α = 1: by which number is log P divided?", round(8 / 6, 2),
        why="(5 + 3) / 6 = 1.33.")
table = Table(start={"EOS": 0.3, "very": 0.7}, very={"good": 0.4, "bad": 0.3, "dry": 0.3})
for alpha, expected, best in ((0, "EOS", math.log(0.3)), (0.6, "very good EOS", math.log(0.28) / (8 / 6) ** 0.6)):
    ids, score = beam_search(table, [[BOS]], beam=2, alpha=alpha)
    text = " ".join(table.words[i] for i in ids)
    claim(f"α = {alpha}: the best target is {expected}", text == expected and abs(score - best) < 1e-6,
          f"score {score:.2f}")

# %% [markdown]
# ## 4. BLEU
#
# Of a translation one can rarely say that it is right or wrong. BLEU (Papineni et al. 2002) compares it with a
# reference. p_n is the share of its n-grams (n words in a row) that occur in the reference, each counted at most as
# often as it occurs there. BLEU is the geometric mean of p_1 to p_4, times a penalty for translations that are shorter
# than their references:
#
#     BLEU = 100 exp(min(0, 1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4)
#
# where c and r are the numbers of words in all translations and in all references. Without the limit, a translation
# that only repeats "the" would have nothing but matching words.

# %% BLEU in ten lines
def bleu(translations, references):
    log_precision = 0.0
    for n in range(1, 5):
        matched = total = 0
        for translation, reference in zip(translations, references):
            ours, theirs = (Counter(zip(*(text.split()[i:] for i in range(n)))) for text in (translation, reference))
            matched += sum((ours & theirs).values())        # & takes the smaller count of each n-gram
            total += sum(ours.values())
        log_precision += math.log(matched / total) / 4
    c, r = (sum(len(text.split()) for text in texts) for texts in (translations, references))
    return 100 * math.exp(min(0, 1 - r / c) + log_precision)


reference = ["the small cat sat on the old mat"]
for translation in ("the small cat sat on the old mat", "the small cat sat on the mat",
                    "the small cat sat on a very old mat"):
    print(f"  {bleu([translation], reference):6.1f}  {translation}")
    claim("the package computes the same BLEU",
          abs(corpus_bleu([translation], reference) - bleu([translation], reference)) < 1e-9)
show_source(corpus_bleu)

# %% [markdown]
# ## 5. What the decoder attends to
#
# To write letter t of a reversed word of n letters, counted from 0, the decoder needs letter n - 1 - t of the source.
# Nothing in the model says so. In the picture each row is a query: the decoder's input token at that position. The row
# of BOS writes the first letter, so it should attend to the last letter of the source. The weights should lie on a
# diagonal from the upper right to the lower left.

# %% The cross-attention weights
model(sources, decoder_inputs)
weights = model.decoder.blocks[0].cross_attention.weights.mean(1)       # over the heads
first = int(sources[0, 0] == BOS)           # the position of a word's first letter in the source
n = (sources > EOS).sum(1)[:, None]         # the letters of each word
t = np.arange(decoder_inputs.shape[1])
on_diagonal = np.mean((weights.argmax(-1) == first + n - 1 - t)[answers > EOS])
claim("in most rows the largest weight is on the letter that has to be written", on_diagonal > 0.6,
      f"{on_diagonal:.1%} of {np.sum(answers > EOS)} letters")
picture = Figure(figsize=(12, 4.8), layout="constrained")
for axes, word in zip(picture.subplots(1, 2), ("reversal", "stop")):
    source_ids, target_ids = data.frame(letters, word), data.frame(letters, word[::-1])
    model(source_ids[None], target_ids[None, :-1])
    image = axes.imshow(model.decoder.blocks[0].cross_attention.weights[0].mean(0), cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(word) + 2), ["BOS", *word, "EOS"])
    axes.set_yticks(range(len(word) + 1), ["BOS", *word[::-1]])
    axes.set(xlabel="key token (source)", ylabel="query token (decoder input)", title=f'"{word}"')
picture.suptitle("Cross-attention weights, averaged over the four heads")
picture.colorbar(image, ax=picture.axes, label="attention weight")
figure("cross_attention", picture)

# %% [markdown]
# ## Exercises
#
# 1. Write a Table for which a beam of 2 fails and a beam of 3 does not.
# 2. A beam as wide as the number of all targets finds the most probable one. Why is this not what one does?
# 3. Why does BLEU count an n-gram at most as often as the reference has it? What would "the the the the" get without?
# 4. Someone trains without the causal mask. What happens to the loss, and what does greedy decoding write afterwards?
