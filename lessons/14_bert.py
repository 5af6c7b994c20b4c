# %% [markdown]
# # 14 BERT: masked words
#
# A decoder reads from left to right. But to find the names in a text, or to compare two sentences, a model should see
# the words on both sides of each word at once. BERT is an encoder that learns this from plain text: some words of each
# text are hidden, and the model has to fill them in (Devlin et al. 2019).
#
# In this lesson you find out why the words have to be hidden, hide them as BERT does, build the model's input and
# output with their backward, and train a small model. You need masks (lesson 06), the encoder (lesson 11) and tied
# weights (lesson 03). The drawing shows the whole method.

# %% A small language
import copy

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data, views
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source

lesson.start(__name__)
drawing("masked_words")
rng = np.random.default_rng(14)
names = {"person": "Ann Bob Eve Jim Kim Max".split(), "place": "Bern Graz Lima Nice Oslo York".split()}
adjectives = {"person": ["angry", "busy", "tired"], "place": ["quiet", "rainy", "sunny"]}
others = ["and", "near", "today", "was", "were", "yesterday", "."]
words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *sum([*names.values(), *adjectives.values()], []), *others]
PAD, CLS, SEP, MASK = range(4)
V, T = len(words), 14


def sentence():                             # returns the words of a sentence, and what it is about
    kind = str(rng.choice(list(names)))
    verb = rng.choice(["was", "were"])
    second = f"and {rng.choice(names[kind])}" if verb == "were" else ""
    return (f"{rng.choice(['', 'today', 'yesterday'])} {rng.choice(names[kind])} {second} near "
            f"{rng.choice(names['place'])} {verb} {rng.choice(adjectives[kind])} .").split(), kind


def encode(texts):                          # one row of T ids for each text
    return np.array([[CLS, *map(words.index, text), SEP] + [PAD] * (T - 2 - len(text)) for text in texts])


training_texts = [sentence()[0] for _ in range(3000)]
known = set(map(tuple, training_texts))
drawn = [sentence() for _ in range(500)]
unseen_texts, unseen_kinds = zip(*[(text, kind) for text, kind in drawn if tuple(text) not in known][:200])
training_ids, unseen_ids = encode(training_texts), encode(unseen_texts)
for text in unseen_texts[:4]:
    print("  " + " ".join(text))

# %% [markdown]
# ## 1. Seeing both sides
#
# In this language "and" requires "were", people can be tired, and places can be rainy. So the last words of a sentence
# depend on words that stand much earlier, and its first name depends on the last words. An encoder can use all of this,
# because it has no causal mask.
#
# But for the same reason it cannot be trained as a decoder is. Row t of a decoder predicts token t + 1, which it does
# not see. Row t of an encoder sees token t + 1, and it sees token t as well. Whichever of the two is the target, the
# model can see the answer.
#
# Could we simply stop each token from attending to itself? Suppose the queries come from the positions alone, there is
# no residual connection, and the mask hides the diagonal. With one layer this works. With two layers, row t attends to
# row s, and in the layer before, row s has attended to token t. So each word sees itself through the others (Devlin et
# al., section 3.1). The safe place to hide a word is the input.

# %% Which output depends on which input
class HidesItself(nt.Module):               # attention layers in which no token is a key of its own row
    def __init__(self, count):
        self.layers = [nt.MultiHeadAttention(12, 3, rng=rng) for _ in range(count)]

    def forward(self, x):
        positions = nt.SinusoidalPositionalEncoding(12).table[:len(x)]
        for layer in self.layers:
            x = layer(positions, x, x, ~np.eye(len(x), dtype=bool))
        return x


text = "[CLS] Kim and Max near Oslo [MASK] tired . [SEP]".split()
n = len(text)
ids = np.array([words.index(word) for word in text])
vectors = rng.standard_normal((n, 12))
causal = nt.CausalLanguageModel(V, 12, num_heads=3, num_layers=2, max_len=T, rng=14)
bert = nt.MaskedLanguageModel(V, 12, num_heads=3, num_layers=2, max_len=T, rng=14)
influences = {"causal model": nt.influence(causal, ids, of="decoder"),          # derivatives, as in lesson 06
              "BERT": nt.influence(bert, ids, of="encoder"),
              "self masked, 1 layer": nt.influence(HidesItself(1), vectors),
              "self masked, 2 layers": nt.influence(HidesItself(2), vectors)}
of_causal, of_bert, one_layer, two_layers = (influence > 0 for influence in influences.values())
predict(f"The text has {n} tokens. On how many does output 3 depend in the causal model, and on how many in BERT?",
        f"4 and {n}",
        why="Because of the causal mask, output 3 sees the tokens 0, 1, 2 and 3. BERT has no such mask, so it sees "
            "all of them.")
claim("causal model: output t depends on tokens 0 to t and on no others", of_causal == np.tri(n, dtype=bool))
claim("BERT: every output depends on every token", of_bert)
claim("1 layer with a masked diagonal: each output depends on every token but its own",
      one_layer == ~np.eye(n, dtype=bool))
claim("2 layers with a masked diagonal: each output depends on its own token again", two_layers)
figure("what_follows_what", views.xray(influences, text, text))

# %% [markdown]
# ## 2. What is hidden
#
# BERT chooses 15% of the tokens of a text and has to predict these. Of the chosen tokens, 80% are replaced by [MASK],
# 10% by a random word, and 10% are left as they are.
#
# Why not replace all of them by [MASK]? The texts of a later task contain no [MASK], and a model that has only been
# asked about [MASK] has not learned anything about the other positions. Because of the 20%, it is also asked about
# words in view, some of which are wrong. How far should it trust such a word w? Let q be the probability that the rest
# of the sentence gives to w, and M the number of words that can replace another. Of all chosen tokens, a share 0.1 q
# shows w because it was left in place, and a share 0.1 / M because w was drawn, which is right by chance in 0.1 q / M:
#
#     P(w is right | w is seen) = (0.1 q + 0.1 q / M) / (0.1 q + 0.1 / M) = q (1 + 1 / M) / (q + 1 / M)
#
# This is 1 for q = 1 and 0 for q = 0. So the best answer weighs the word itself against its neighbors.

# %% BERT's corruption
def corrupt(ids, rng):
    ordinary = ids > MASK                                           # [CLS], [SEP] and [PAD] are never chosen
    count = np.maximum(1, np.rint(0.15 * ordinary.sum(1)))          # how many words of each text to choose
    rank = np.where(ordinary, rng.random(ids.shape), 2).argsort(1).argsort(1)       # a random order of the words
    chosen = rank < count[:, None]
    u = rng.random(ids.shape)
    random_words = rng.integers(4, V, ids.shape)
    corrupted = np.where(chosen & (u < 0.8), MASK, ids)             # 80%: [MASK]
    corrupted = np.where(chosen & (u >= 0.9), random_words, corrupted)              # 10%: a random word
    return corrupted, chosen                                        # the rest: left in place


predict("A text has 20 ordinary words. How many of them are chosen?", 3,
        why="15% of 20 are 3. [CLS] and [SEP] are not among the words that can be chosen.")
M = V - 4
random_ids = rng.integers(4, V, (20000, 22))                        # any word can stand anywhere: q = 1 / M
random_ids[:, 0], random_ids[:, -1] = CLS, SEP
corrupted, chosen = corrupt(random_ids, np.random.default_rng(1))
claim("3 of 20 words are chosen in each text, and all other tokens are unchanged",
      [np.all(chosen.sum(1) == 3), np.all((corrupted == random_ids)[~chosen])])
seen, right = corrupted[chosen], random_ids[chosen]
for name, cases, p in (("[MASK]", seen == MASK, 0.8), ("the same word", seen == right, 0.1 + 0.1 / M),
                       ("another word", (seen != MASK) & (seen != right), 0.1 - 0.1 / M)):
    claim(f"{name} stands at a share {p:.3f} of the chosen positions",
          abs(cases.mean() - p) < 4 * np.sqrt(p * (1 - p) / seen.size), f"counted {cases.mean():.3f}")
q, in_view = 1 / M, seen != MASK
claim("of the chosen words in view, a share q (1 + 1 / M) / (q + 1 / M) is right",
      abs((seen == right)[in_view].mean() - q * (1 + 1 / M) / (q + 1 / M)) < 2 / np.sqrt(in_view.sum()))
theirs, positions, targets = data.corrupt(random_ids, np.random.default_rng(1), V)
claim("data.corrupt draws the same, and returns the chosen positions and the words that were there",
      [np.array_equal(theirs, corrupted), np.array_equal(positions.ravel(), np.nonzero(chosen)[1]),
       np.array_equal(targets.ravel(), right)])

# %% [markdown]
# ## 3. The model, forward and backward
#
# BERT's input is one text, [CLS] A [SEP], or two, [CLS] A [SEP] B [SEP]. For each token it adds three vectors: the row
# of E for the token, the row of PE for the position, and the row of G for the segment, which says to which of the two
# texts the token belongs. Then comes a LayerNorm. There is no factor sqrt(D) as in lesson 03. (BERT's tokens are pieces
# of words, as in lesson 02c. Ours are whole words.)
#
# The encoder has post-norm blocks. Only the K chosen rows of its output h are needed: they pass a Linear layer, GELU
# and a LayerNorm, and the output matrix is E again.
#
# In backward, three lines are worth a look. Each row of dx is **added** to the row of dh that belongs to its position,
# so that a position chosen twice gets both gradients. All other rows of dh are 0. And E is used twice, so two gradients
# are added.

# %% Each line of backward under its line of forward
D = 12
pair = "[CLS] Kim was tired . [SEP] Oslo near Bern was rainy . [SEP] [PAD]".split()
single = "[CLS] Max and Eve near York were busy . [SEP] [PAD] [PAD] [PAD] [PAD]".split()
full = np.array([[words.index(word) for word in row] for row in (pair, single)])
segments = np.array([[0] * 6 + [1] * 8, [0] * T])
positions = np.array([[3, 9], [6, 0]])                              # tired, was; were, and one filled up
targets = np.array([[full[0, 3], full[0, 9]], [full[1, 6], -1]])    # -1: ignored
ids = full.copy()
ids[0, [3, 9]] = ids[1, 6] = MASK
package = nt.MaskedLanguageModel(V, D, num_heads=3, num_layers=2, max_len=T, scale_embedding=False,
                                 embedding_norm=True, rng=14).astype(np.float64).eval(remember=True)
for parameter in package.parameters():                              # random, so that no γ stays 1 and no bias 0
    parameter.data = (parameter.data == 1) + rng.standard_normal(parameter.data.shape) / np.sqrt(D)
E, PE, G, W, b, c = (package.state_dict()[name] for name in (
    "embedding.weight", "positions.weight", "segments.weight", "transform.weight", "transform.bias", "bias"))
built = copy.deepcopy(package)              # we use four of its parts, which earlier lessons have built
norm_in, encoder, gelu, norm_out = built.embedding_norm, built.encoder, built.activation, built.norm
criterion = nt.CrossEntropyLoss(ignore_id=-1)
rows = np.arange(2)[:, None]
# forward
x0 = norm_in(E[ids] + PE[:T] + G[segments])
h = encoder(x0, nt.padding_mask(ids, PAD))
x = h[rows, positions]
a = gelu(x @ W + b)
u = norm_out(a)
z = u @ E.T + c
criterion(z, targets)
# backward, from the last line to the first
dz = criterion.backward()
# z = u @ E.T + c
du = dz @ E
dE = dz.reshape(-1, V).T @ u.reshape(-1, D)
# u = norm_out(a), a = gelu(x @ W + b)
dx = gelu.backward(norm_out.backward(du)) @ W.T
# x = h[rows, positions]
dh = np.zeros_like(h)
np.add.at(dh, (rows, positions), dx)
# x0 = norm_in(E[ids] + PE[:T] + G[segments])
dsum = norm_in.backward(encoder.backward(dh))
np.add.at(dE, ids, dsum)
dPE, dG = dsum.sum(0), np.zeros_like(G)
np.add.at(dG, segments, dsum)
predict("3 of the 28 tokens have a target. How many rows of dh are not 0?", 3,
        why="Only the chosen rows enter the loss. The other tokens influence the loss through the encoder's attention, "
            "which shows in dsum and not in dh.")
claim("dh is nonzero in exactly 3 rows, and dsum in the row of every real token",
      [(dh != 0).any(-1).sum() == 3, np.array_equal((dsum != 0).any(-1), ids != PAD)])

# %% The package's class computes the same
show_source(nt.MaskedLanguageModel.forward, nt.MaskedLanguageModel.backward, nt.MaskedLanguageModel.scatter)
claim("nt.MaskedLanguageModel returns these logits",
      np.allclose(package(ids, None, segments, positions), z, rtol=1e-13, atol=1e-13))
package.backward(dz)
claim("and computes these gradients of E, PE and G", [
    np.allclose(module.weight.grad, mine, rtol=1e-12, atol=1e-14)
    for module, mine in ((package.embedding, dE), (package.positions, dPE), (package.segments, dG))])
claim("finite differences and the complex step confirm all gradients",
      nt.gradcheck(package, ids, None, segments, positions, directions=2).ok)

# %% [markdown]
# Selecting rows before the output layer saves most of the logits. For a text of 512 tokens and BERT's vocabulary of
# 30,522 pieces, all rows would give 15.6 million logits, and 15% of them 2.3 million.
#
# ## 4. Training
#
# We train one model as in section 2, and another one, the copier, with nothing hidden: at each position it predicts the
# token that stands there. A baseline counts pairs of neighbors in the training texts and guesses the word w with the
# largest P(w | word before) P(word after | w). It has to fail for the verb, which stands between a place and an
# adjective, since only "and", several words earlier, decides between "was" and "were". It has to fail for the adjective
# as well, which depends on the first name.

# %% A masked model, a copier and a baseline of neighbors
def masked(ids, rng):
    corrupted, positions, targets = data.corrupt(ids, rng, V)
    return (corrupted, None, None, positions), targets


def copying(ids, rng):
    return (ids,), np.where(ids == PAD, -1, ids)


def train(batch, steps, measure=lambda model: None):
    model = nt.MaskedLanguageModel(V, 32, 2, 2, 64, T, dropout=0.0, scale_embedding=False, embedding_norm=True, rng=14)
    optimizer, measured = nt.Adam(model.parameters(), betas=(0.9, 0.98)), {0: measure(model)}
    for step in range(1, steps + 1):
        rng = np.random.default_rng([14, step])
        inputs, targets = batch(training_ids[rng.integers(len(training_ids), size=64)], rng)
        optimizer.lr = 7e-3 * min(step / 50, 1, 2 * (1 - (step - 1) / steps))       # up for 50 steps, down at the end
        model.train().zero_grad()
        criterion(model(*inputs), targets)
        model.backward(criterion.backward())
        optimizer.step()
        if step % 80 == 0:
            measured[step] = measure(model)
    return model.eval(), measured


def hidden(positions):
    ids = unseen_ids.copy()
    np.put_along_axis(ids, positions, MASK, 1)
    return ids


def scores(guess):                          # how often guess(ids, positions) is right when one word of each is hidden
    of_adjectives = [words[w] in adjectives[kind] for w, kind in zip(
        guess(hidden(verb_positions + 1), verb_positions + 1)[:, 0], unseen_kinds)]
    return {"was or were": np.mean(guess(hidden(verb_positions), verb_positions) == verbs),
            "kind of adjective": np.mean(of_adjectives)}


def best_guess(model):
    return lambda ids, positions: model.eval()(ids, positions=positions).argmax(-1)


verb_positions = np.array([[len(text) - 2] for text in unseen_texts])           # [CLS] is at position 0
verbs = np.take_along_axis(unseen_ids, verb_positions, 1)
bigrams = data.Bigrams(training_ids[training_ids > MASK] - 4, V)
baseline = scores(lambda ids, positions: bigrams.guess(ids, positions, both=True))
copier, _ = train(copying, 100)
model, curve = train(masked, 800, lambda model: scores(best_guess(model)))
claim("the copier names every verb that it sees, but at a hidden verb it is no better than a coin",
      [(best_guess(copier)(unseen_ids, verb_positions) == verbs).mean() > 0.99,
       scores(best_guess(copier))["was or were"] < 0.65])
for name, share in baseline.items():
    claim(f"{name}: the baseline is no better than a coin, and the masked model is right almost always",
          share < 0.65 < 0.9 < curve[800][name], f"{share:.0%} and {curve[800][name]:.0%}")
axes = (picture := Figure(figsize=(9, 4.8), layout="constrained")).subplots()
for (name, share), style, line in zip(baseline.items(), ("C0o-", "C1s-"), ("--", ":")):
    axes.plot(list(curve), [100 * row[name] for row in curve.values()], style, label=f"{name}: BERT")
    axes.axhline(100 * share, color=style[:2], linestyle=line, label=f"{name}: baseline of neighbors")
axes.set(xlabel="training step", ylabel="hidden words guessed correctly (%)", ylim=(-3, 103),
         title="BERT uses distant words that the neighbor baseline cannot see")
axes.legend(loc="lower right")
figure("learning", picture)

# %% [markdown]
# Section 2 says what the words in view are good for: the model should doubt a word that does not fit its sentence. To
# test this, we hide nothing and replace the verb of each sentence by a word that is no verb.

# %% A wrong word in view
no_verbs = [i for i in range(4, V) if words[i] not in ("was", "were")]
wrong = unseen_ids.copy()
np.put_along_axis(wrong, verb_positions, rng.choice(no_verbs, verb_positions.shape), 1)
corrected = (best_guess(model)(wrong, verb_positions) == verbs).mean()
repeated = (best_guess(copier)(wrong, verb_positions) == np.take_along_axis(wrong, verb_positions, 1)).mean()
claim("the masked model corrects most of these words, though they are in view", corrected > 0.7, f"{corrected:.0%}")
claim("the copier repeats them", repeated > 0.9, f"{repeated:.0%}")
for text in ("Kim near Oslo was [MASK] .", "Oslo near Bern was [MASK] .", "Kim and [MASK] near Oslo were busy ."):
    position = np.array([[text.split().index("[MASK]") + 1]])
    p = nt.Softmax().eval()(model(encode([text.split()]), positions=position))[0, 0]
    print(f"  {text:<40}" + ", ".join(f"{words[i]} {p[i]:.2f}" for i in np.argsort(-p)[:4]))

# %% [markdown]
# To train a larger model on a text of your own, run `numpy-transformer train mlm --data your.txt`, and then
# `numpy-transformer fill` to let it fill gaps.
#
# ## Exercises
#
# 1. Suppose every chosen word becomes [MASK] and none is left in place. Which claim of section 4 do you expect to fail,
#    and why?
# 2. BERT chooses 15% of the tokens. What is gained and what is lost with 50%, and what with one word in each text?
# 3. By mistake, two chosen positions of a row are equal, and each has a target. What is dh at this position, and what
#    would dh[rows, positions] = dx compute instead?
# 4. Suppose the output has no bias c. Which words does the model guess worse at the beginning of training?
#
# With a checker (`numpy-transformer exercise start my-exercises 14`): 14.1, 14.2, 14.5.
