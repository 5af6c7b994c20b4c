# %% [markdown]
# # 14 BERT: masked words, tags, sentence vectors
#
# A decoder reads from left to right. But to tag a name, or to compare two sentences, a model should see the words on
# both sides of each word at once. BERT is an encoder that learns to do so from plain text: some words of each sentence
# are hidden, and the model has to fill them in (Devlin et al. 2019). What it learns this way is useful for other
# tasks. Its weights can initialize a tagger that then needs only a few dozen labeled sentences, and the mean of its
# outputs is a vector that represents a whole sentence.
#
# After this lesson you will be able to explain why the words must be hidden, corrupt a text as BERT does, follow the
# gradient from a few masked positions back to every token, carry weights over to another model, and score tags.
# Lessons 06 (masks) and 12 (language models) come first. About 15 minutes.

# %% A small language
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data, views
from numpy_transformer.course import claim, figure, lesson, predict

lesson.start(__name__)
names = {"person": "Ann Bob Eve Jim Kim Max".split(), "place": "Bern Graz Lima Nice Oslo York".split()}
adjectives = {"person": ["angry", "busy", "tired"], "place": ["quiet", "rainy", "sunny"]}
family_names = ["Hill", "Reed"]
kinds = list(names)
ordinary_words = {*names["person"], *names["place"], *adjectives["person"], *adjectives["place"], *family_names,
                  "New", "and", "near", "today", "was", "were", "yesterday", "."}
words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *sorted(ordinary_words)]
PAD, CLS, SEP, MASK = range(4)              # the same ids that data.corrupt uses
IGNORE = -1                                 # the target of a position that the loss does not count
V = len(words)
T = 14


def sentence(rng, half=None):
    """Draws a sentence: its words and their tags. half = 0 or 1 restricts it to every second name."""
    def pick(options):
        return options[rng.integers(len(options))]

    def plain(text):
        return text.split(), ["O"] * len(text.split())

    def entity(kind):
        allowed = names[kind] if half is None else names[kind][half::2]
        name = [pick(allowed)]
        if rng.random() < 0.3:
            name = [*name, pick(family_names)] if kind == "person" else ["New", *name]
        return name, [f"B-{kind}"] + [f"I-{kind}"] * (len(name) - 1)

    kind = pick(kinds)
    verb = pick(["was", "were"])
    parts = [plain(pick(["", "", "today", "yesterday"])), entity(kind)]
    second = entity(kind)                   # drawn in either case
    if verb == "were":
        parts += [plain("and"), second]
    parts += [plain("near"), entity("place"), plain(f"{verb} {pick(adjectives[kind])} .")]
    text = [word for part, _ in parts for word in part]
    tags = [tag for _, part in parts for tag in part]
    return text, tags


def encode(*texts):
    """The ids of [CLS] text [SEP], one row for each text, padded to T."""
    rows = [[CLS, *(words.index(word) for word in text), SEP] for text in texts]
    return np.array([row + [PAD] * (T - len(row)) for row in rows])


def relative_difference(a, b):
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(14)
training_texts = [sentence(rng)[0] for _ in range(4000)]
known = set(map(tuple, training_texts))
unseen_texts = [text for text in (sentence(rng)[0] for _ in range(1000)) if tuple(text) not in known][:200]
for text in unseen_texts[:4]:
    print("  " + " ".join(text))
print(f"  The vocabulary has {V} words, of which 4 are special tokens.")

# %% [markdown]
# ## 1. Seeing both sides
#
# In this language, "and" requires "were", people can be tired, and places can be rainy. So the last words of a sentence
# depend on words that stand much earlier. And to guess whether a sentence begins with a person or a place, a model has
# to look at its end. An encoder has no causal mask, so it looks in both directions.
#
# But then it cannot be trained the way a decoder is. Row t of a decoder predicts token t + 1, which it does not see.
# Row t of an encoder sees token t + 1, and it sees token t as well. Whichever of the two is the target, the model can
# see the answer.
#
# Could we simply stop each token from attending to itself? Suppose the queries come from the positions alone, there is
# no residual connection, and the mask hides the diagonal. With one layer this works. With two layers, row t attends to
# row s, and in the layer before, row s has attended to token t: each word sees itself through the others (Devlin et
# al., section 3.1). The simplest safe place to hide a word is the input. If the input says [MASK] at its position, no
# row can look it up.

# %% Which output depends on which input
class HidesItself(nt.Module):
    """Attention layers in which no token is a key of its own row."""

    def __init__(self, count):
        self.layers = [nt.MultiHeadAttention(12, 3, rng=rng) for _ in range(count)]

    def forward(self, x):
        positions = nt.SinusoidalPositionalEncoding(12).table[:len(x)]
        for layer in self.layers:
            x = layer(positions, x, x, ~np.eye(len(x), dtype=bool))
        return x


text = "Kim and Max near Oslo [MASK] tired .".split()
n = len(text) + 2
ids = encode(text)[0, :n]
vectors = rng.standard_normal((n, 12))
causal = nt.CausalLanguageModel(V, 12, num_heads=3, num_layers=2, max_len=T, rng=14)
bert = nt.MaskedLanguageModel(V, 12, num_heads=3, num_layers=2, max_len=T, rng=14)
influences = {"causal model": nt.influence(causal, ids, of="decoder", directions=4),
              "BERT": nt.influence(bert, ids, of="encoder", directions=4),
              "self masked, 1 layer": nt.influence(HidesItself(1), vectors, directions=4),
              "self masked, 2 layers": nt.influence(HidesItself(2), vectors, directions=4)}
of_causal, of_bert, one_layer, two_layers = influences.values()
predict(f"The text has {n} tokens. On how many does output 3 depend in the causal model, and on how many in BERT?",
        f"4 and {n}",
        why="Because of the causal mask, output 3 sees the tokens 0, 1, 2 and 3. BERT has no such mask, so it sees "
            "all of them.")
claim("causal model: output t depends on tokens 0 to t and on no others", (of_causal > 0) == np.tri(n, dtype=bool))
claim("BERT: every output depends on every token", of_bert > 0)
claim("1 layer with a masked diagonal: each output depends on every token but its own",
      (one_layer > 0) == ~np.eye(n, dtype=bool))
claim("2 layers with a masked diagonal: each output depends on its own token again", two_layers > 0)
tokens = [words[i] for i in ids]
figure("what_follows_what", views.xray(influences, tokens, tokens))

# %% [markdown]
# What would an encoder learn if nothing were hidden? It would learn to copy. The model below is trained to predict at
# each position the token that stands there. Its loss falls to nearly 0, yet it cannot guess a word that is missing.

# %% A model that learns to copy
def train(model, batch, steps, lr, measure=None):
    """Trains, and measures ten times on the way: {step: what measure() returned}; without measure, the loss."""
    optimizer = nt.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.05, decay=lambda p: p.data.ndim > 1)
    schedule = nt.CosineSchedule(optimizer, lr, lr / 20, warmup=steps // 10, steps=steps)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(ignore_id=IGNORE), optimizer, schedule, clip=1.0, workers=1)
    measured = {0: measure()} if measure else {}
    for _ in range(10):
        trainer.fit(batch, steps // 10)
        measured[trainer.steps] = measure() if measure else trainer.history[-1]["loss"]
    return measured


def draw(step):
    return training_ids[np.random.default_rng([14, step]).integers(len(training_texts), size=64)]


def copying(step):
    ids = draw(step)
    return (ids,), np.where(ids == PAD, IGNORE, ids)


def best_guess(model, ids, positions):
    """The most probable word at each of these positions."""
    return model.eval()(ids, positions=positions).argmax(-1)


def hide(ids, positions):
    """A copy of ids with [MASK] at these positions."""
    ids = ids.copy()
    np.put_along_axis(ids, positions, MASK, 1)
    return ids


training_ids = encode(*training_texts)
unseen_ids = encode(*unseen_texts)
verb_positions = np.array([[len(text) - 2] for text in unseen_texts])           # [CLS] is at position 0
verbs = np.take_along_axis(unseen_ids, verb_positions, 1)
sizes = dict(d_model=32, num_heads=2, num_layers=2, d_ff=64, max_len=T, dropout=0.0, norm="pre", positions="rotary",
             activation="gelu", num_segments=2)
copier = nt.MaskedLanguageModel(V, **sizes, rng=14)
last_loss = train(copier, copying, 80, 7e-3)[80]
right_in_view = np.mean(best_guess(copier, unseen_ids, verb_positions) == verbs)
right_hidden = np.mean(best_guess(copier, hide(unseen_ids, verb_positions), verb_positions) == verbs)
claim("with nothing hidden, the loss is nearly 0 after 80 steps", last_loss < 0.1, f"{last_loss:.4f}")
claim("the copier names every verb that it sees, but it is no better than a coin at a hidden verb",
      right_in_view > 0.99 and right_hidden < 0.6, f"{right_in_view:.0%}, {right_hidden:.0%}")

# %% [markdown]
# ## 2. What is hidden
#
# BERT chooses 15 % of the tokens of a text and has to predict these. Of the chosen tokens, 80 % are replaced by
# [MASK], 10 % are replaced by a random word of the vocabulary, and 10 % are left as they are.
#
# Why not replace all of them by [MASK]? The texts of a later task contain no [MASK]. Because of the other 20 %, the
# model is also asked about words that it can see, and it does not know whether such a word w is the right one. How
# far should it trust w? Let q be the probability that the rest of the sentence gives to w, and M the number of words
# from which a replacement is drawn. Among all chosen positions, w is in view in two cases, with these probabilities:
#
#     w is the right word and was left in place      0.1 q
#     w was drawn as a replacement                   0.1 / M
#         and is right by chance in                  0.1 q / M
#
#     P(w is right | w is seen)
#         = (0.1 q + 0.1 q / M) / (0.1 q + 0.1 / M)
#         = q (1 + 1 / M) / (q + 1 / M)
#
# This is 1 for q = 1 and 0 for q = 0. For q = 1 / M it is about 1/2: with M = 28 words, exactly 29/56 = 0.518. So the
# best answer weighs the word itself against its neighbors.

# %% The shares, counted
predict("A text has 20 ordinary words. How many of them are chosen?", 3,
        why="15 % of 20 are 3. [CLS] and [SEP] are not among the words that can be chosen.")
M = V - 4
random_ids = rng.integers(4, V, (20000, 22))        # any word can stand anywhere: q = 1 / M
random_ids[:, 0] = CLS
random_ids[:, -1] = SEP
corrupted, positions, targets = data.corrupt(random_ids, rng, V)
seen = np.take_along_axis(corrupted, positions, 1)
claim("15 % of the words of each text are chosen", positions.shape == (20000, 3) and np.all(np.diff(positions) > 0))
claim("[CLS] and [SEP] are never chosen", (positions > 0) & (positions < 21))
claim("the targets are the original words", np.array_equal(targets, np.take_along_axis(random_ids, positions, 1)))
not_chosen = np.ones(random_ids.shape, bool)
np.put_along_axis(not_chosen, positions, False, 1)
claim("all other tokens are unchanged", np.array_equal(corrupted[not_chosen], random_ids[not_chosen]))
for name, cases, p in (("[MASK]", seen == MASK, 0.8),
                       ("the same word", seen == targets, 0.1 + 0.1 / M),
                       ("another word", (seen != MASK) & (seen != targets), 0.1 - 0.1 / M)):
    four_standard_errors = 4 * math.sqrt(p * (1 - p) / seen.size)
    claim(f"{name} stands at a share {p:.3f} of the chosen positions", abs(cases.mean() - p) < four_standard_errors,
          f"counted {cases.mean():.3f}")
in_view = seen != MASK
share_right = np.mean((seen == targets)[in_view])
q = 1 / M
claim("of the chosen words that are in view, q (1 + 1/M) / (q + 1/M) are right",
      abs(share_right - q * (1 + 1 / M) / (q + 1 / M)) < 4 * 0.5 / math.sqrt(np.sum(in_view)),
      f"counted {share_right:.3f}")

# %% [markdown]
# ## 3. Forward and backward
#
# BERT reads one text or two, [CLS] A [SEP] B [SEP], and a segment embedding tells the model to which of the two texts
# a token belongs. Let E be the embedding matrix, W the position embeddings, G the segment embeddings, and D the number
# of features. Then
#
#     b = √D E[ids] + W[0 to T - 1] + G[segments]
#     h = encoder(b)
#     x = h[positions]            the chosen rows, (B, K, D)
#     u = norm(gelu(x A + c))     what BERT calls "transform"
#     z = u Eᵀ + bias             E is the embedding matrix
#     loss = mean over the N targets of -log p_y
#
# Selecting the rows before the output layer avoids most of the logits. A text of 512 tokens and BERT's vocabulary of
# 30,522 words would give 15.6 million logits. For 15 % of the positions, there are only 2.4 million. The result is the
# same, since each of the last three lines treats every row separately.
#
# Backward goes through these lines from the last to the first. **z:** dbias is the sum of dz over all rows, du = dz E,
# and E receives dzᵀ u. **Selection:** each row of dx is added to the row of h that it was taken from, and all other
# rows of dh are exactly 0. **The encoder** turns dh into db. There attention spreads the gradient: each chosen row has
# attended to every real token, so every real token gets a gradient. **b:** dW_t is the sum of db at position t, dG_s
# is the sum of db over the tokens of segment s, and E_v receives √D times the sum of db over the positions whose id
# is v.
#
# The next cell checks this with a small model in float64 that has random parameters. Its batch has two padded rows, a
# pair of texts and a single text. The second row has fewer chosen positions than the first, so it is filled up with
# position 0 and an ignored target.

# %% Each gradient in loops and by finite differences
D = 12
chosen = np.array([[2, 6, 11], [4, 0, 0]])
rows = encode("Kim was tired . [SEP] Oslo near Bern was rainy .".split(), "Max Reed near New York was busy .".split())
segments = np.array([[0] * 6 + [1] * 8, [0] * T])
small = nt.MaskedLanguageModel(V, D, num_heads=3, num_layers=2, max_len=T, rng=rng).astype(np.float64)
for parameter in small.parameters():        # random values, around 1 where a norm multiplies by them
    parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(D) + (parameter.data == 1)
small.eval(remember=True)
criterion = nt.CrossEntropyLoss(ignore_id=IGNORE)
answers = np.take_along_axis(rows, chosen, 1)
answers[1, 1:] = IGNORE
ids = hide(rows, chosen[:, :1])
with nt.record(small) as tape:
    criterion(small(ids, None, segments, chosen), answers)
    dz = criterion.backward()
    small.backward(dz)
grads = {name: parameter.grad.copy() for name, parameter in small.named_parameters()}
dh = tape["encoder"].dy
db, = tape["encoder"].gradients
u = tape["output"].inputs[0]
has_target = np.zeros(rows.shape, bool)
has_target[0, chosen[0]] = True
has_target[1, 4] = True
predict("4 of the 28 rows of h have a target. How many rows of dh are not 0?", 4,
        why="Only the chosen rows enter the loss, so only they receive a gradient. The other tokens influence the loss "
            "through the encoder's attention, which shows in db and not in dh.")
claim("dh is exactly 0 in every row without a target, at [CLS] too", (dh != 0).any(-1) == has_target)
claim("yet db is nonzero at every real token, and 0 at padding tokens", (db != 0).any(-1) == (rows != PAD))
every_position = list(np.ndindex(rows.shape))
dG = [sum(db[i] for i in every_position if segments[i] == s) for s in (0, 1)]
claim("dG_s is the sum of db over segment s", relative_difference(grads["segments.weight"], dG) < 1e-13)
from_output = np.array([sum(dz[k][v] * u[k] for k in np.ndindex(chosen.shape)) for v in range(V)])
from_input = np.array([math.sqrt(D) * sum((db[i] for i in every_position if ids[i] == v), np.zeros(D))
                       for v in range(V)])
claim("dE is the sum of a gradient from the output and a gradient from the input",
      relative_difference(grads["embedding.weight"], from_output + from_input) < 1e-13)
claim("the output gives a gradient even to words that do not occur in these texts",
      [from_output[v].any() and not from_input[v].any() for v in set(range(V)) - set(ids.flat)])
report = nt.gradcheck(small, ids, None, segments, chosen, directions=2)
claim("finite differences and the complex step confirm all gradients", report.ok, f"{len(report.rows)} arrays")

# %% Selecting rows before or after the output layer
small.eval(remember=True).zero_grad()
z = small(ids, None, segments)              # the logits of all rows
criterion(z, np.where(has_target, rows, IGNORE))
small.backward(criterion.backward())
selected_later = np.take_along_axis(z, chosen[..., None], 1)
claim("computing all logits and then selecting gives the same logits",
      relative_difference(selected_later, small.eval()(ids, None, segments, chosen)) < 1e-13)
claim("and the same gradients", [np.abs(parameter.grad - grads[name]).max() < 1e-13 * max(
    1, np.abs(grads[name]).max()) for name, parameter in small.named_parameters()],
      f"{z.size} logits instead of {dz.size}")

# %% [markdown]
# ## 4. Training, against a baseline of neighbors
#
# Now the words are hidden as in section 2. As a baseline, we count pairs of neighboring words in the training texts.
# From the word before the gap and the word after it, the baseline guesses the word w with the largest
#
#     P(w | word before) P(word after | w)
#
# In this language, the baseline has to fail for the verb. The verb stands between a place and an adjective, and both of
# them can go with "was" as well as with "were". Only "and", several words earlier, makes the difference. The baseline
# has to fail for the adjective, too. The adjective depends on the first name, but its neighbors are only a verb and the
# full stop.
#
# BERT itself has learned positions and post-norm blocks, and with these it learns this language as well, though one of
# five seeds needed more steps. We use rotary positions (lesson 16) and pre-norm here, since for all five seeds they
# gave the better tagger in section 6.

# %% Training
def masked(step):
    corrupted, positions, targets = data.corrupt(draw(step), np.random.default_rng([14, step, 1]), V)
    return (corrupted, None, None, positions), targets


def scores(guess):
    """How often guess(ids, positions) is right when one word of each sentence is hidden: verbs, then adjectives."""
    guessed_verbs = guess(hide(unseen_ids, verb_positions), verb_positions)
    adjective_positions = verb_positions + 1
    guessed_adjectives = guess(hide(unseen_ids, adjective_positions), adjective_positions)[:, 0]
    return {"was or were": np.mean(guessed_verbs == verbs),
            "kind of adjective": np.mean([words[w] in adjectives[kind]
                                          for w, kind in zip(guessed_adjectives, unseen_kinds)])}


unseen_kinds = ["person" if text[-2] in adjectives["person"] else "place" for text in unseen_texts]
bigrams = data.Bigrams(training_ids[training_ids > MASK] - 4, V)
baseline = scores(lambda ids, positions: bigrams.guess(ids, positions, both=True))
model = nt.MaskedLanguageModel(V, **sizes, rng=14)
curve = train(model, masked, 350, 7e-3, lambda: scores(lambda ids, positions: best_guess(model, ids, positions)))
for name, share in baseline.items():
    claim(f"{name}: the baseline is no better than a coin, and the model is right almost always",
          share < 0.6 < 0.9 < curve[350][name], f"{share:.0%} and {curve[350][name]:.0%}")
picture = Figure(figsize=(9, 4.8), layout="constrained")
axes = picture.subplots()
for (name, share), color, marker, line in zip(baseline.items(), ("C0", "C1"), "os", ("--", ":")):
    axes.plot(list(curve), [100 * row[name] for row in curve.values()], color + marker + "-", label=f"{name}: BERT")
    axes.axhline(100 * share, color=color, linestyle=line, label=f"{name}: baseline of neighbors")
axes.set(xlabel="training step", ylabel="hidden words guessed correctly (%)", ylim=(-3, 103),
         title="BERT uses distant words that the neighbor baseline cannot see")
axes.legend(loc="lower right")
figure("masked_words", picture)

# %% [markdown]
# Section 2 says what the 20 % of the chosen words without [MASK] should teach: to doubt a word that does not fit its
# sentence, and to believe one that does. To test both, we now hide nothing. First we replace the verb by a word that
# is not a verb, which has q = 0. Then we ask about the first name of a person. There are six such names and the rest
# of the sentence does not tell which one it is, so q = 1/6. But the name itself is in view, and the model should
# believe it with probability q (1 + 1 / M) / (q + 1 / M) = 0.85, with M = 28.
#
# After 350 steps the model does doubt wrong words. That is the easy half, because it does not believe right words
# either: it treats a name in view almost like a hidden one and answers from the rest of the sentence. Only 0.15 times
# 0.1, or 1.5 %, of all tokens teach it to believe what it sees, so it learns this slowly. With 1,500 steps, the
# probability of a name in view was 0.22, 0.38 and 0.51 for three seeds.

# %% Words in view
misfits = [i for i in range(4, V) if words[i] not in ("was", "were")]
wrong_words = rng.choice(misfits, verb_positions.shape)
with_wrong_words = unseen_ids.copy()
np.put_along_axis(with_wrong_words, verb_positions, wrong_words, 1)
corrected = np.mean(best_guess(model, with_wrong_words, verb_positions) == verbs)
repeated = np.mean(best_guess(copier, with_wrong_words, verb_positions) == wrong_words)
claim("the model corrects a word that cannot be right, though the word is in view", corrected > 0.7, f"{corrected:.0%}")
claim("the model that learned to copy repeats the wrong word", repeated > 0.9, f"{repeated:.0%}")
persons = np.array(unseen_kinds) == "person"
name_positions = np.array([[1 + (text[0] in ("today", "yesterday"))] for text in unseen_texts])[persons]
right_names = np.take_along_axis(unseen_ids[persons], name_positions, 1)


def belief_in_name(ids):
    """The mean probability that the model gives to the right name."""
    p = nt.Softmax().eval()(model(ids, positions=name_positions))[:, 0]
    return np.take_along_axis(p, right_names, 1).mean()


belief = belief_in_name(unseen_ids[persons])
belief_when_hidden = belief_in_name(hide(unseen_ids[persons], name_positions))
claim("the probability of a name in view is still far below 0.85", belief < 0.65,
      f"{belief:.2f}, and {belief_when_hidden:.2f} for a hidden name")
for text in ("Kim near Oslo was [MASK] .", "Oslo near Bern was [MASK] .", "Kim and [MASK] near Oslo were busy ."):
    position = np.array([[text.split().index("[MASK]") + 1]])
    p = nt.Softmax().eval()(model(encode(text.split()), positions=position).astype(np.float64))[0, 0]
    print(f"  {text:<40}" + ", ".join(f"{words[i]} {p[i]:.2f}" for i in np.argsort(-p)[:6]))

# %% [markdown]
# ## 5. Tags, and how they are scored
#
# To find the names in a text, a model gives each word a tag. In the BIO scheme, B-person begins the name of a person,
# I-person continues it, and O marks the words outside of names. The older IOB1 scheme writes B only where two names of
# the same type touch, and I everywhere else. One rule reads both schemes: **I-x also begins a name if the word before
# it is not of type x.**
#
# Most words are O, so tag accuracy is misleadingly high. What counts are whole names, with the right boundaries and
# the right type. If a model finds F names, of which R are right, and the text has W names,
#
#     precision P = R / F,     recall = R / W
#     F1 = 2 / (1 / P + W / R) = 2 R / (F + W)

# %% Twenty words with two wrong tags
def score_by_hand(right, found):
    """Precision, recall and F1 of two sets of names."""
    both = len(right & found)
    return both / len(found), both / len(right), 2 * both / (len(found) + len(right))


words20 = "today Kim Reed and Max are busy in York , but it was rainy and cold near New Bern .".split()
right = ["O", "B-person", "I-person", "O", "B-person", *["O"] * 3, "B-place", *["O"] * 8, "B-place", "I-place", "O"]
wrong = right.copy()
wrong[2] = "O"                              # Reed is missed
wrong[8] = "B-person"                       # York becomes a person
names_right = {(1, 3, "person"), (4, 5, "person"), (8, 9, "place"), (17, 19, "place")}
names_wrong = {(1, 2, "person"), (4, 5, "person"), (8, 9, "person"), (17, 19, "place")}
print("  " + " ".join(f"{word}/{tag}" if tag != "O" else word for word, tag in zip(words20, wrong)))
claim("data.spans reads each name as (start, end, type)",
      set(data.spans(right)) == names_right and set(data.spans(wrong)) == names_wrong)
predict("18 of the 20 tags are right. What is F1?", 0.5,
        why="Both wrong tags lie in names. So only 2 of the 4 names are right, Max and New Bern: precision and recall "
            "are both 1/2.")
scored = data.entity_scores([right], [wrong])
claim("tag accuracy is 90 %, and F1 is 0.5",
      scored.accuracy == 0.9 and scored.all.f1 == 0.5 == score_by_hand(names_right, names_wrong)[2])
only_O = data.entity_scores([right], [["O"] * 20])
claim("O for every word: tag accuracy is 70 %, and F1 is 0", only_O.accuracy == 0.7 and only_O.all.f1 == 0)
only_max = data.entity_scores([right], [["O"] * 4 + right[4:5] + ["O"] * 15]).all
claim("Max alone: precision 1, recall 1/4, F1 2/5", np.allclose(
    (only_max.precision, only_max.recall, only_max.f1), score_by_hand(names_right, {(4, 5, "person")})))
iob1 = ["I-person", "I-person", "B-person", "O", "I-place"]
bio = ["B-person", "I-person", "B-person", "O", "B-place"]
claim("IOB1 and BIO describe the same three names", data.spans(iob1) == data.spans(bio) == [
    (0, 2, "person"), (2, 3, "person"), (4, 5, "place")])
claim("a reader that looks only for B tags finds one of the three names in IOB1",
      sum(tag[0] == "B" for tag in iob1) == 1 < len(data.spans(iob1)))

# %% [markdown]
# ## 6. Fine-tuning
#
# A tagger is the same encoder with a different output layer: for each token, one logit per tag. `nt.carry_over` copies
# every array whose name and shape both models share, and it reports which arrays are new and which were left out.
#
# There are only sixty labeled sentences, and they contain only every second name: Ann, Eve, Kim, Bern, Lima, Oslo. The
# test sentences contain only the other names. So the labels teach nothing about Bob or York. But the masked model has
# read these names in plain text and has learned where they can stand and which adjectives go with them. Adam does not
# move a row of E whose gradient is 0, so these names keep the vectors that they had after reading the plain text. (In
# seven runs, with five seeds and the kernels of three processors, F1 was between 0.74 and 1.00 with the weights carried
# over, and between 0.00 and 0.32 from scratch.)

# %% The same training steps from two initializations
tags = ["O", "B-person", "I-person", "B-place", "I-place"]
labeled = [sentence(np.random.default_rng([14, 0, i]), half=0) for i in range(60)]
test = [sentence(np.random.default_rng([14, 1, i]), half=1) for i in range(200)]
targets = np.full((len(labeled), T), IGNORE)
for row, (_, right) in zip(targets, labeled):
    row[1:1 + len(right)] = [tags.index(tag) for tag in right]


def f1(tagger):
    best = tagger.eval()(encode(*(text for text, _ in test))).argmax(-1)
    found = [[tags[i] for i in row[1:1 + len(text)]] for row, (text, _) in zip(best, test)]
    return data.entity_scores([right for _, right in test], found).all.f1


reached = {}
batch = (encode(*(text for text, _ in labeled)),), targets
for name in ("carried over", "from scratch"):
    tagger = nt.TokenClassifier(V, num_classes=len(tags), **sizes, rng=14)
    if name == "carried over":
        result = nt.carry_over(tagger, model.state_dict())
        print(f"  {len(result.carried)} arrays carried over\n  new: {result.new}\n  left out: {result.left_out}")
        claim("the values of the whole encoder are carried over", [np.array_equal(own.data, model.state_dict()[path])
              for path, own in tagger.named_parameters() if not path.startswith("output.")])
    trainer = nt.Trainer(tagger, nt.CrossEntropyLoss(ignore_id=IGNORE), nt.Adam(tagger.parameters(), 2e-3), workers=1)
    trainer.fit([batch] * 40, 40)
    reached[name] = f1(tagger)
    print(f"    {name}: loss {trainer.history[-1]['loss']:.3f}, F1 {reached[name]:.2f}")
    if name == "carried over":
        moved = (tagger.embedding.weight.data != model.embedding.weight.data).any(-1)
        claim("the vector of York has not moved, and the vector of Oslo has",
              not moved[words.index("York")] and moved[words.index("Oslo")])
claim("40 steps later, the carried-over model finds most names that occur in no label; from scratch, it finds few",
      reached["carried over"] > 0.5 and reached["carried over"] > reached["from scratch"] + 0.3,
      "F1 {:.2f} and {:.2f}".format(*reached.values()))

# %% [markdown]
# ## 7. A vector for a sentence
#
# The mean of the encoder's outputs over the real tokens is a vector v that represents a whole text (Reimers and
# Gurevych 2019, section 3). The similarity of two texts is measured by the cosine of the angle between their vectors:
#
#     cos(a, b) = sum of a_i b_i / (|a| |b|)
#
# Could we use the output at [CLS] instead? BERT trains this output to tell whether text B follows text A, a task that
# later models dropped (Liu et al. 2019). In this lesson no target was ever at [CLS], so nothing has trained it to
# represent the sentence.
#
# Shared words alone would make two sentences similar. For a harder test, each of the 200 sentences searches for its
# nearest neighbor only among the sentences that share no name and no adjective with it. The words that they can still
# share are "was", "near", "and" and the like.

# %% Means, cosines, nearest neighbors
with nt.record(model) as tape:
    embedded = model.embed(unseen_ids)
h = tape["encoder"].output
token_mask = unseen_ids != PAD
lengths = token_mask.sum(1)
means = [sum(h[b, t] for t in range(T) if token_mask[b, t]) / lengths[b] for b in range(len(h))]
claim("the vector is the mean over the real tokens", relative_difference(embedded, means) < 1e-6)
claim("a sentence alone, without padding, gives the same vector", [relative_difference(
    model.embed(unseen_ids[b, :lengths[b]]), embedded[b]) < 1e-5 for b in range(20)])
units = embedded / np.linalg.norm(embedded, axis=1, keepdims=True)
cosine = units @ units.T


def cosine_by_hand(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


claim("one matmul of vectors of length 1 gives the cosines of all pairs",
      [abs(cosine[a, b] - cosine_by_hand(embedded[a], embedded[b])) < 1e-5 for a, b in ((0, 1), (2, 9), (5, 5))])
content_words = {*names["person"], *names["place"], *adjectives["person"], *adjectives["place"], *family_names}
content = [set(text) & content_words for text in unseen_texts]
nearest = np.where([[a.isdisjoint(b) for b in content] for a in content], cosine, -2).argmax(1)
same_kind = np.mean(persons == persons[nearest])
claim("for most sentences, the nearest sentence that shares no name or adjective is about the same kind of thing",
      same_kind > 0.8, f"{same_kind:.0%}")
for b in range(3):
    print(f"  {' '.join(unseen_texts[b]):<44} {' '.join(unseen_texts[nearest[b]]):<44} {cosine[b, nearest[b]]:.2f}")
plural = (unseen_ids == words.index("were")).any(1)
of_one_kind, of_one_number = persons[:, None] == persons, plural[:, None] == plural
in_small_blocks, in_large_blocks, outside = (cosine[pairs].mean() for pairs in (
    of_one_kind & of_one_number & ~np.eye(len(cosine), dtype=bool), of_one_kind & ~of_one_number, ~of_one_kind))
claim("sentences about the same kind of thing are more similar than others, most of all if both have the same verb",
      in_small_blocks > in_large_blocks > outside + 0.1,
      f"mean cosines {in_small_blocks:.2f}, {in_large_blocks:.2f} and {outside:.2f}")
shown = [b for kind in (True, False) for number in (False, True)
         for b in np.flatnonzero((persons == kind) & (plural == number))[:3]]
picture = Figure(figsize=(11.8, 6), layout="constrained")
axes = picture.subplots()
image = axes.imshow(cosine[np.ix_(shown, shown)], cmap="viridis")
axes.set_yticks(range(12), [f"{' '.join(unseen_texts[b][:-1])}  {i + 1}" for i, b in enumerate(shown)], fontsize=12)
axes.set_xticks(range(12), range(1, 13))
axes.set(xlabel="sentence, numbered as the rows", title="Cosine similarity of twelve sentence vectors")
picture.colorbar(image, label="cosine")
figure("sentence_vectors", picture)

# %% [markdown]
# The two large blocks on the diagonal are the sentences about people and about places. Within each block, the
# sentences with "was" and with "were" form two smaller blocks. No label has told the model about these kinds: it
# learned them because they help to fill in words.
#
# To train the full-size model on a text of your own, run `numpy-transformer train mlm --data your.txt`. The file that
# it writes serves `numpy-transformer fill`, `embed`, `similar` and `train tagger --pretrained`.
#
# ## Exercises
#
# 1. Suppose every chosen word becomes [MASK] and none is left in place. Which claim of section 4 do you expect to
#    fail, and why?
# 2. BERT chooses 15 % of the tokens. What is gained and what is lost with 50 %, and what with one word in each text?
# 3. By mistake, two chosen positions of a row are equal, and each has a target. What is dh at this position, and what
#    would dh[positions] = dx compute instead?
# 4. Suppose the output has no bias. Which words does the model guess worse at the beginning of training?
# 5. Write a list of right tags with two names and a list of predicted tags, so that tag accuracy is 80 % and F1 is 0,
#    although each name is found with only one wrong boundary.
# 6. Suppose the mean is also taken over padding tokens. Which sentences become more similar, and why?
#
# With a checker (`numpy-transformer exercise check 14.1` and so on): 14.1, 14.2, 14.3, 14.4, 14.5.
