# %% [markdown]
# # 14b Tags and sentence vectors
#
# A masked language model (lesson 14) is rarely wanted for its guesses. It is trained because what it learns from plain
# text is useful for other tasks. In this lesson you use one model in two ways. Its weights initialize a tagger, which
# finds names in a text and then needs only a few labeled sentences. And the mean of its outputs is a vector for a whole
# sentence, with which you can search for similar sentences.
#
# You also learn how tags are scored, because a model that finds no name at all can have most of its tags right.

# %% Plain text, labeled text, and a masked language model
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source

lesson.start(__name__)
drawing("tags_and_vectors")
rng = np.random.default_rng(14)
names = {"person": "Ann Bob Eve Jim Kim Max".split(), "place": "Bern Graz Lima Nice Oslo York".split()}
adjectives = {"person": ["angry", "busy", "tired"], "place": ["quiet", "rainy", "sunny"]}
family_names = ["Hill", "Reed"]
content = {*sum([*names.values(), *adjectives.values()], []), *family_names}
words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *sorted(content), "New", "and", "near", "today", "was", "were", "."]
PAD, CLS, SEP, MASK = range(4)
V, T = len(words), 14
criterion = nt.CrossEntropyLoss(ignore_id=-1)


def sentence(rng, which=slice(None)):
    """Draws a sentence with some of the names, and returns its words and their tags."""
    def entity(kind):
        name = [str(rng.choice(names[kind][which]))]
        if rng.random() < 0.3:
            name = [*name, str(rng.choice(family_names))] if kind == "person" else ["New", *name]
        return [(word, f"{'I' if n else 'B'}-{kind}") for n, word in enumerate(name)]

    kind = str(rng.choice(list(names)))
    verb = str(rng.choice(["was", "were"]))
    pairs = [*[("today", "O")] * int(rng.integers(2)), *entity(kind)]
    if verb == "were":
        pairs += [("and", "O"), *entity(kind)]
    pairs += [("near", "O"), *entity("place"), (verb, "O"), (str(rng.choice(adjectives[kind])), "O"), (".", "O")]
    return [word for word, _ in pairs], [tag for _, tag in pairs]


def encode(texts):
    return np.array([[CLS, *map(words.index, text), SEP] + [PAD] * (T - 2 - len(text)) for text in texts])


def train(model, batch, steps, lr):
    optimizer = nt.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(1, steps + 1):
        inputs, targets = batch(np.random.default_rng([14, step]))
        optimizer.lr = lr * min(10 * step / steps, 1, 2 * (1 - (step - 1) / steps))
        model.train().zero_grad()
        loss = criterion(model(*inputs), targets)
        model.backward(criterion.backward())
        optimizer.step()
    return loss


def masked(rng):
    corrupted, positions, targets = data.corrupt(training_ids[rng.integers(len(training_ids), size=64)], rng, V)
    return (corrupted, None, None, positions), targets


training_ids = encode([sentence(rng)[0] for _ in range(3000)])
sizes = dict(d_model=32, num_heads=2, num_layers=2, d_ff=64, max_len=T, dropout=0.0, activation="gelu",
             positions="learned", num_segments=2, scale_embedding=False, embedding_norm=True)
model = nt.MaskedLanguageModel(V, **sizes, rng=14)
loss = train(model, masked, 800, 7e-3)
model.eval()
claim("the masked model predicts better than the frequencies of the words do",
      loss < -sum(p * np.log(p) for p in np.bincount(training_ids[training_ids > MASK]) / (training_ids > MASK).sum()
                  if p), f"loss {loss:.2f}")

# %% [markdown]
# ## 1. Tags, and how they are scored
#
# To find the names in a text, a model gives each word a tag. In the BIO scheme, B-person begins the name of a person,
# I-person continues it, and O marks the words outside of names. What counts in the end are whole names, with the right
# boundaries and the right type. (An older scheme, IOB1, writes B only where two names of the same type touch. One rule
# reads both: I-x also begins a name if the word before it is not of type x.)
#
# Most words are O, so the share of right tags is misleadingly high. If a model finds F names, of which R are right, and
# the text has W names, then
#
#     precision P = R / F,     recall C = R / W,     F1 = 2 / (1 / P + 1 / C) = 2 R / (F + W)
#
# F1 is the harmonic mean of the two. It is high only if both are.

# %% Twenty words with two wrong tags
def spans(tags):
    """Returns the names as a set of (start, stop, type)."""
    found, start = set(), None
    for t, tag in enumerate([*tags, "O"]):
        kind = tag[2:]
        if start is not None and (tag[0] != "I" or kind != tags[start][2:]):    # the name ends before this word
            found.add((start, t, tags[start][2:]))
            start = None
        if tag != "O" and start is None:
            start = t
    return found


def score(right, found):
    return 2 * len(right & found) / (len(found) + len(right))


text = "today Kim Reed and Max are busy in York , but it was rainy and cold near New Bern .".split()
right = ["O", "B-person", "I-person", "O", "B-person", *["O"] * 3, "B-place", *["O"] * 8, "B-place", "I-place", "O"]
wrong = right.copy()
wrong[2] = "O"                              # Reed is missed
wrong[8] = "B-person"                       # York becomes a person
print("  " + " ".join(f"{word}/{tag}" if tag != "O" else word for word, tag in zip(text, wrong)))
predict("18 of the 20 tags are right. What is F1?", 0.5,
        why="Both wrong tags lie in names. So only 2 of the 4 names are right, Max and New Bern: precision and recall "
            "are both 1/2.")
claim("the names are read with their boundaries", spans(right) == {
    (1, 3, "person"), (4, 5, "person"), (8, 9, "place"), (17, 19, "place")})
scored = data.entity_scores([right], [wrong])
claim("90% of the tags are right, and F1 is 0.5",
      scored.accuracy == 0.9 and scored.all.f1 == score(spans(right), spans(wrong)) == 0.5)
only_O = data.entity_scores([right], [["O"] * 20])
claim("with O for every word, 70% of the tags are right, and F1 is 0", only_O.accuracy == 0.7 and only_O.all.f1 == 0)
iob1 = ["I-person", "I-person", "B-person", "O", "I-place"]
claim("data.spans reads both schemes in the same way",
      [set(data.spans(tags)) == spans(tags) for tags in (right, wrong, iob1)] + [len(spans(iob1)) == 3])

# %% [markdown]
# ## 2. Transfer
#
# A tagger is the same encoder with a different output: one Linear layer gives each token a logit for each tag (Devlin
# et al. 2019, section 5.3). Backward sends its dx into every real token, where the masked model had a few chosen ones.
#
# To **transfer** weights means to copy each array whose name and shape both models share. The output layer is new and
# keeps its random weights. Then all weights are trained on, which is called fine-tuning.
#
# There are only sixty labeled sentences, and they contain only every second first name and city: Ann, Eve, Kim, Bern,
# Lima, Oslo. The test sentences contain only the others. So the labels teach nothing about Bob or York. But the masked
# model has read these names in plain text, and has learned where they stand and which adjectives go with them.

# %% The same training steps from two initializations
tags = ["O", "B-person", "I-person", "B-place", "I-place"]
labeled = [sentence(rng, slice(0, None, 2)) for _ in range(60)]
test = [sentence(rng, slice(1, None, 2)) for _ in range(200)]
labeled_ids, test_ids = encode([text for text, _ in labeled]), encode([text for text, _ in test])
targets = np.full(labeled_ids.shape, -1)
for row, (_, right) in zip(targets, labeled):
    row[1:1 + len(right)] = [tags.index(tag) for tag in right]


def f1(tagger):
    best = tagger.eval()(test_ids).argmax(-1)
    found = [[tags[i] for i in row[1:1 + len(text)]] for row, (text, _) in zip(best, test)]
    return data.entity_scores([right for _, right in test], found).all.f1


show_source(nt.TokenClassifier.forward, nt.TokenClassifier.backward)
scratch, tagger, same = (nt.TokenClassifier(V, num_classes=len(tags), **sizes, rng=14) for _ in range(3))
state = model.state_dict()
new = []
for name, parameter in tagger.named_parameters():
    if name in state and state[name].shape == parameter.data.shape:
        parameter.data = state[name]
    else:
        new.append(name)
result = nt.carry_over(same, state)
print(f"  {len(result.carried)} arrays carried over\n  new: {result.new}\n  left out: {result.left_out}")
claim("nt.carry_over copies the same arrays", [result.new == new, *(
    np.array_equal(a.data, b.data) for a, b in zip(tagger.parameters(), same.parameters()))])
predict("Is the output layer's bias among the new arrays?", "yes",
        why="The masked model's bias has one entry for each word and another name. The tagger's has one for each tag.")
for candidate in (tagger, scratch):
    train(candidate, lambda rng: ((labeled_ids,), targets), 60, 3e-3)
carried_over, from_scratch = f1(tagger), f1(scratch)
claim("the transferred model finds most names that occur in no label, and the model from scratch far fewer",
      carried_over > 0.5 and carried_over > from_scratch + 0.2, f"F1 {carried_over:.2f} and {from_scratch:.2f}")

# %% [markdown]
# Why does fine-tuning not destroy what the model knows about York? The row of York in E is only used when York is in
# the text, and no labeled sentence contains York. So its gradient is 0 in every step, Adam's m and v stay 0, and the
# row does not move. (One nonzero gradient would be enough to move it for many steps, because m fades slowly.) The
# weights of the blocks have moved, but the row of York is more similar to the rows of other places than to those of
# people, and the blocks have learned which tags go with the rows of places.

# %% Which rows of E have moved
moved = (tagger.embedding.weight.data != model.embedding.weight.data).any(-1)
claim("the row of Oslo has moved and the row of York has not",
      moved[words.index("Oslo")] and not moved[words.index("York")])
E = model.embedding.weight.data
York = E[words.index("York")]
similar = {kind: np.mean([E[i] @ York / np.linalg.norm(E[i]) / np.linalg.norm(York)
                          for i in map(words.index, names[kind]) if words[i] != "York"]) for kind in names}
claim("York's row is more similar to the rows of other places than to those of people",
      similar["place"] > similar["person"], f"mean cosines {similar['place']:.2f} and {similar['person']:.2f}")

# %% [markdown]
# ## 3. A vector for a sentence
#
# The mean of the encoder's outputs over the real tokens is a vector v for a whole text (Reimers and Gurevych 2019,
# section 3). How similar two texts are is measured by the cosine of the angle between their vectors:
#
#     cos(a, b) = sum of a_i b_i / (|a| |b|)
#
# If all vectors are first divided by their lengths, one matrix product gives the cosines of all pairs.
#
# Could we use the output at [CLS] instead? BERT trains this output to tell whether text B follows text A, a task that
# later models dropped (Liu et al. 2019). Here no target was ever at [CLS], so nothing has trained it to stand for the
# sentence.
#
# Shared words alone would make two sentences similar. For a harder test, each sentence searches for its nearest
# neighbor only among the sentences that share no name and no adjective with it. What they can still share are "was",
# "near", "and" and the like.

# %% Means, cosines, nearest neighbors
texts = [sentence(rng)[0] for _ in range(200)]
ids = encode(texts)
with nt.record(model) as tape:              # keeps the outputs of every component
    embedded = model.embed(ids)
h = tape["encoder"].output
real = (ids != PAD)[..., None]
v = (h * real).sum(1) / real.sum(1)
units = v / np.linalg.norm(v, axis=1, keepdims=True)
cosine = units @ units.T
claim("model.embed returns these means", np.allclose(embedded, v, rtol=1e-4, atol=1e-5))
claim("the first sentence alone, without padding, gets the same vector",
      np.allclose(model.embed(ids[:1, :len(texts[0]) + 2]), v[0], rtol=1e-4, atol=1e-5))
claim("the cosine of a sentence with itself is 1", np.allclose(np.diag(cosine), 1, atol=1e-5))
shares_nothing = np.array([[content.isdisjoint({*a} & {*b}) for b in texts] for a in texts])
nearest = np.where(shares_nothing, cosine, -2).argmax(1)
persons = np.array([text[-2] in adjectives["person"] for text in texts])
plural = np.array(["were" in text for text in texts])
same_kind = np.mean(persons == persons[nearest])
claim("for most sentences, the nearest sentence that shares no name or adjective is about the same kind of thing",
      same_kind > 0.75, f"{same_kind:.0%}")
for b in range(3):
    print(f"  {' '.join(texts[b]):<44} {' '.join(texts[nearest[b]]):<44} {cosine[b, nearest[b]]:.2f}")
of_one_kind = persons[:, None] == persons
inside, outside = cosine[of_one_kind].mean(), cosine[~of_one_kind].mean()
claim("sentences about the same kind of thing are more similar than others", inside > outside + 0.1,
      f"mean cosines {inside:.2f} and {outside:.2f}")
first = np.array([texts.index(text) == b for b, text in enumerate(texts)])       # no sentence twice
shown = [b for kind in (True, False) for number in (False, True)
         for b in np.flatnonzero((persons == kind) & (plural == number) & first)[:3]]
picture = Figure(figsize=(11.8, 6), layout="constrained")
axes = picture.subplots()
image = axes.imshow(cosine[np.ix_(shown, shown)], cmap="viridis")
axes.set_yticks(range(12), [f"{' '.join(texts[b][:-1])}  {i + 1}" for i, b in enumerate(shown)], fontsize=12)
axes.set_xticks(range(12), range(1, 13))
axes.set(xlabel="sentence, numbered as the rows", title="Cosine similarity of twelve sentence vectors")
picture.colorbar(image, label="cosine")
figure("sentence_vectors", picture)

# %% [markdown]
# The two large blocks on the diagonal of the picture are the sentences about people and about places. No label has told
# the model about these kinds. It learned them because they help to fill in words.
#
# The commands `numpy-transformer embed`, `similar` and `train tagger --pretrained` do all of this with a file that
# `numpy-transformer train mlm` has written.
#
# ## Exercises
#
# 1. Write a list of right tags with two names and a list of predicted tags, so that 80% of the tags are right and F1
#    is 0, although each name is found with only one wrong boundary.
# 2. A tagger finds only one name in the twenty words of section 1, Max. What are precision, recall and F1?
# 3. Suppose the mean is also taken over padding tokens. Which sentences become more similar, and why?
# 4. Which row of G does not move in this fine-tuning? Which rows of PE would not move with T = 20?
#
# With a checker (`numpy-transformer exercise start my-exercises 14`): 14.3, 14.4.
