# %% [markdown]
# # 12 A decoder that writes
#
# A language model answers one question: given a text so far, which token comes next? Whoever can answer it can
# write: draw a token, append it, ask again. GPT-2 is a stack of decoder blocks trained on nothing but this
# question (Radford et al. 2019). This lesson shows why one forward asks it T times, what backward does from the
# loss down to the embedding, what a small model learns in 300 steps, how one draws from it, and what a key-value
# cache saves. At the end two models read "the cat sat on the mat because it was tired", and their attention weights
# are put to the test.
#
# Afterwards you can train a language model, say where its gradients come from, choose how it samples, and say what an
# attention weight tells. Lesson 05 explains attention and the causal mask. About 15 minutes.

# %% A text as numbers, and a batch of it
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.classroom import claim, figure, lesson, predict, show
from numpy_transformer.decoding.sampling import next_token_probabilities

lesson.start(__name__)
text = data.builtin_text()                  # the language reference that every Python carries
tokens = data.CharTokenizer(text)           # one id for each distinct character
windows = data.TextWindows(tokens.encode(text), length=64, batch_size=8, seed=12)
(x,), y = windows.batch(0)
show(x=x, y=y)
print("  inputs ", repr(tokens.decode(x[0])))
print("  targets", repr(tokens.decode(y[0])))
claim("the targets are the inputs, one character later", np.array_equal(x[:, 1:], y[:, :-1]))

# %% [markdown]
# ## 1. One forward, T predictions
#
# The logits at place t must foretell token t + 1, and the causal mask lets place t see the tokens 0 to t only. So row t
# of one forward is what a forward over these tokens alone says at its end. One forward makes T predictions, each from
# the true tokens before it, never from the model's own guesses (teacher forcing). Made one by one, they would push
# 1 + 2 + ... + T = T (T + 1) / 2 rows of tokens through the blocks instead of T. Without the mask they would be
# worthless: place t could look up token t + 1.
#
# The small model of this check has random parameters, in float64, where equalities hold to rounding.

# %% T predictions at once, and one by one
def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(12)
B, T, V, D = 3, 7, 11, 12                   # sequences, tokens, vocabulary, features
small = nt.CausalLanguageModel(V, D, num_heads=3, num_layers=2, max_len=T, rng=rng).astype(np.float64)
for parameter in small.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(D) + (parameter.data == 1)
small.eval(remember=True)
ids, criterion = rng.integers(0, V, (B, T + 1)), nt.CrossEntropyLoss()
x, y = ids[:, :-1], ids[:, 1:]
predict("A batch has B = 3 sequences of T = 7 tokens. How many predictions does its loss average?", B * T)
logits = small(x)
alone = [small(x[:, :t + 1])[:, -1] for t in range(T)]
claim("row t of one forward is the end of a forward over t + 1 tokens, for all t",
      [apart(logits[:, t], alone[t]) < 1e-13 for t in range(T)])
claim("its loss is the mean of their T losses",
      abs(criterion(logits, y) - np.mean([criterion(alone[t], y[:, t]) for t in range(T)])) < 1e-13)
small.forget(), criterion.forget()          # none of these forwards is answered

# %% [markdown]
# ## 2. Backward of the whole model
#
# Forward in five lines, E being the embedding and W the table of positions:
#
#     a = E[ids]
#     b = a + W[0 to T - 1]
#     h = decoder(b)                blocks and a last norm: lessons 05 to 10
#     z = h Eᵀ                      the output shares the matrix of the embedding
#     loss = mean over N = B T targets of -log p_y,     p = softmax(z)
#
# Backward walks up these lines, and earlier lessons have the rule of each. **The loss**: dz = (p - 1 at the target) / N
# (lesson 01). **z = h Eᵀ**: dh = dz E, and E receives dzᵀ h, in every row, since each token of the vocabulary is a
# candidate at each place (lesson 03). **The decoder** turns dh into db.
#
# **b = a + W.** W_t occurs at place t of every sequence: dW_t = sum over the batch of db at t, and da = db.
#
# **a = E[ids].** E_v occurs wherever the id is v: row v receives the sum of da over those places. It is added to what
# the output has left there: a shared matrix collects the gradients of all its uses.

# %% The lines that meet in E and W, in loops; and the whole, by differences
with nt.record(small) as tape:
    criterion(small(x), y)
    small.backward(criterion.backward())
dz, h, db = tape["output"].dy, tape["output"].inputs[0], tape["decoder"].gradients[0]
dW, dE, places = small.positions.weight.grad, small.embedding.weight.grad, list(np.ndindex(B, T))
claim("dW_t = sum of db over the batch", apart(dW, [sum(db[:, t]) for t in range(T)]) < 1e-13)
from_output = np.array([sum(dz[at][v] * h[at] for at in places) for v in range(V)])
from_input = np.array([sum((db[at] for at in places if x[at] == v), np.zeros(D)) for v in range(V)])
claim("dE = what the output leaves + what the embedding leaves", apart(dE, from_output + from_input) < 1e-13)
claim("neither can be left out", min(apart(dE, from_output), apart(dE, from_input)) > 0.1)
report = nt.gradcheck(small, x, directions=2)               # two random directions in each array; dz is random, too
claim("finite differences and the complex step confirm all gradients", report.ok, f"{len(report.rows)} arrays")
small.eval()

# %% [markdown]
# ## 3. Training
#
# A loss needs something to be compared with. Three yardsticks, in nats per character: **log V**, if all V
# characters are equally likely (a fresh model is near it, since its logits are near 0); **single characters**, by
# their frequencies in the training text; **pairs**, the frequencies of each character behind the one before it.
# Model and yardsticks are measured on text that nobody has counted or trained on. A model that passes the third one
# uses more than the last character.
#
# This one tells places apart by turning queries and keys (rotary positions, lesson 16). With a learned table it reaches
# the pairs in 300 steps, but hardly passes them. AdamW, the cosine and clipping are explained in lesson 19.

# %% Three hundred steps
def train(model, criterion, batch, steps, lr, **options):
    optimizer = nt.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.5, decay=lambda p: p.data.ndim > 1)
    schedule = nt.CosineSchedule(optimizer, lr, lr / 20, warmup=steps // 10, steps=steps)
    trainer = nt.Trainer(model, criterion, optimizer, schedule, clip=1.0, workers=1)
    trainer.fit(batch, steps, **options)
    model.eval()
    return trainer.history


V, STEPS, held_out = tokens.vocab_size, 300, windows.validation()[:2]
seen, following = (np.concatenate(part) for part in zip(*((x, y) for (x,), y in held_out)))
single = (np.bincount(windows.train, minlength=V) + 1) / (len(windows.train) + V)   # no count is 0
pairs = np.tile(single, (V, 1))             # one count to begin with, spread as the single characters are
np.add.at(pairs, (windows.train[:-1], windows.train[1:]), 1)
pairs /= pairs.sum(1, keepdims=True)
yardsticks = {"log V": math.log(V), "single characters": -np.log(single[following]).mean(),
              "pairs": -np.log(pairs[seen, following]).mean()}
model = nt.CausalLanguageModel(V, d_model=64, num_heads=4, num_layers=2, d_ff=128, max_len=64, activation="relu",
                               positions="rotary", rng=12)
tested = {0: nt.CrossEntropyLoss().eval()(model.eval()(seen), following)}
history = train(model, nt.CrossEntropyLoss(), windows.batch, STEPS, 5e-3, validation=held_out, every=50)
tested |= {row["step"]: row["validation"] for row in history if "validation" in row}
print("  " + ", ".join(f"{name} {value:.2f}" for name, value in yardsticks.items()))
claim("before training the loss is near log V", abs(tested[0] - math.log(V)) < 0.4, f"{tested[0]:.2f}")
claim("after it the model has passed the pairs", tested[STEPS] < yardsticks["pairs"] - 0.1, f"{tested[STEPS]:.2f}")
picture = Figure(figsize=(9, 4.8), layout="constrained")
axes = picture.subplots()
axes.plot([row["loss"] for row in history], color="C0", alpha=0.4, linewidth=1, label="training, batch by batch")
axes.plot(*zip(*tested.items()), "C1o-", linewidth=2, label="other text")
for (name, value), style in zip(yardsticks.items(), ("-.", "--", ":")):
    axes.axhline(value, color="0.25", linestyle=style)
    axes.text(STEPS, value + 0.04, name, ha="right")
axes.set(xlabel="step", ylabel="loss (nats per character)", ylim=(None, math.log(V) + 0.4),
         title="Better than counting pairs")
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.85))
figure("learning", picture)

# %% [markdown]
# ## 4. Choosing the next token
#
# The model gives a probability to each token. What is done with them is a choice of its own. **Greedy** takes the
# likeliest. **Temperature** τ draws from softmax(z / τ): since p_i / p_j = exp((z_i - z_j) / τ), each ratio is raised
# to the power 1 / τ, and for τ towards 0 the likeliest takes all. **Top-k** draws among the k likeliest (Fan, Lewis and
# Dauphin 2018), **top-p** among the fewest likeliest that have probability p together (Holtzman et al. 2020): few
# where the model is sure, many where it is not. The ratios of those that stay are kept.

# %% Distributions behind a prompt, and texts
prompt = tokens.encode("the name of the c")
z = model(prompt)[-1].astype(np.float64)
p, half, cold = (next_token_probabilities(z, temperature=t) for t in (1, 0.5, 1e-6))
top_k, top_p = next_token_probabilities(z, top_k=5), next_token_probabilities(z, top_p=0.8)
ranked, kept = np.argsort(-z, kind="stable"), np.sort(p[top_p > 0])
first, second = ranked[:2]
claim("temperature 1 is softmax(z)", apart(p, np.exp(z) / np.exp(z).sum()) < 1e-12)
claim("temperature 0.5 squares the ratios", abs((half[first] / half[second]) / (p[first] / p[second]) ** 2 - 1) < 1e-9)
claim("temperature 0.000001 is nearly greedy, 0 is", cold[first] > 0.9 and next_token_probabilities(z, 0)[first] == 1)
claim("top_k=5 leaves five, the likeliest", set(np.flatnonzero(top_k)) == set(ranked[:5]))
claim("top_p=0.8 leaves the likeliest, the fewest that have 0.8", kept.sum() >= 0.8 > kept[1:].sum()
      and set(np.flatnonzero(top_p)) == set(ranked[:len(kept)]), f"{len(kept)} of {V}")
claim("both keep ratios", [abs(q[first] / q[second] * p[second] / p[first] - 1) < 1e-9 for q in (top_k, top_p)])
drawn = np.array(nt.generate(model, [prompt] * 1000, 1, rng=12))[:, -1]
share, spread = np.mean(drawn == first), math.sqrt(p[first] * (1 - p[first]) / 1000)
claim("in 1000 draws the likeliest has its share", abs(share - p[first]) < 4 * spread, f"{share:.2f}, p {p[first]:.2f}")
print("  next character  " + "".join(f"{tokens.characters[i]!r:>7}" for i in ranked[:8]))
for title, q, options in (("temperature 1", p, {}), ("temperature 0.5", half, {"temperature": 0.5}),
                          ("top-k 5", top_k, {"top_k": 5}), ("top-p 0.8", top_p, {"top_p": 0.8}),
                          ("greedy", next_token_probabilities(z, 0), {"temperature": 0})):
    print(f"  {title:<16}" + "".join(f"{number:7.3f}" for number in q[ranked[:8]]))
    print(f"    writes {tokens.decode(nt.generate(model, prompt, 80, rng=12, **options))!r}")

# %% [markdown]
# ## 5. The key-value cache
#
# A loop that writes T tokens reads the whole text again for each. Most of that has been computed before: token t sees
# the tokens 0 to t only, so whatever is appended leaves its keys and values as they are. Keep them, and a new token
# costs one row: its query against all kept keys. For T tokens the blocks see T rows instead of T (T + 1) / 2. The price
# is memory: for each token D numbers of keys and D of values in each block. Training has nothing to save here, as one
# forward makes all T predictions.

# %% The same numbers, less work, some memory
predict("T = 7 tokens are written. How many rows pass each block, with a cache and without?", "7 and 28")
cache, work = nt.KeyValueCache(), {}
for name in ("cached", "again"):
    with nt.record(small) as tape:
        ends = [small(x[:, t:t + 1], cache=cache) if name == "cached" else small(x[:, :t + 1]) for t in range(T)]
    work[name] = sum(call.inputs[0].shape[1] for call in tape.calls if call.name == "decoder.blocks.0")
    claim(f"{name}: logits as in one forward", apart(np.stack([z[:, -1] for z in ends], 1), small(x)) < 1e-13)
claim("rows in a block: T, or T (T + 1) / 2", work == {"cached": T, "again": T * (T + 1) // 2}, str(work))
held = sum(kept.array.size for pair in cache.layers.values() for kept in pair)
claim("the cache holds 2 D numbers for each token and block", held == B * T * len(small.decoder.blocks) * 2 * D)
claim("the trained model writes the same text with it and without",
      nt.generate(model, prompt, 40, rng=3) == nt.generate(model, prompt, 40, rng=3, cached=False))

# %% [markdown]
# ## 6. What does "it" attend to?
#
# "The cat sat on the mat because it was tired": it is often said that in such a sentence the attention from "it" to
# "cat" grows. Can that be seen? A character model of 300 steps knows no cats. So here is a small language of such
# sentences: three kinds of nouns, each with adjectives of its own. Two nouns of different kinds stand in a sentence,
# "it" is one of them, the adjective tells which, and the last word has to name it:
#
#     the cat sat on the mat because it was tired : the cat
#     the cat sat on the mat because it was soft : the mat
#
# Two models, alike but for the seed of their first weights, learn to foretell the adjective and the last word. A
# quarter of the pairs of nouns, cat and mat among them, is kept for the test.
#
# One thing is certain beforehand. The row of "it" is computed from the words up to "it", and what the adjective says is
# read two words later. So in a decoder this row is the same for both sentences and cannot hold the answer. In an
# encoder it could: the heads that look from "its" at what it refers to in Vaswani et al. 2017 (figure 4) belong to one.
#
# What counts for the answer can be measured without weights: replace one word by the others of its sort, and see
# which share of the probability of the last word moves to other words, on average.

# %% Two readers, what they say, and from which words
nouns = [line.split() for line in ("cat dog horse cow fox hen goat sheep", "mat rug bed coat towel sofa quilt shawl",
                                   "car bus bike truck train van cart tram")]
adjectives = [line.split() for line in ("tired hungry sleepy", "soft warm clean", "fast loud broken")]
words = sorted({*sum(nouns + adjectives, []), *"the sat on stood near because it was :".split()})
texts = {kept: [f"the {nouns[a][i]} {verb} the {nouns[b][j]} because it was {adjective} : the {noun}".split()
                for a, b, i, j in np.ndindex(3, 3, 8, 8) if a != b and ((i + j) % 4 == 0) == kept
                for noun, kind in ((nouns[a][i], a), (nouns[b][j], b)) for adjective in adjectives[kind]
                for verb in ("sat on", "stood near")] for kept in (False, True)}
learn, unseen = (np.array([[words.index(word) for word in text] for text in texts[kept]]) for kept in texts)
counted = np.isin(np.arange(1, 13), (9, 12))                # targets that count: the adjective, the last word


def draw(step):
    batch = learn[np.random.default_rng([12, step]).integers(len(learn), size=32)]
    return (batch[:, :-1],), np.where(counted, batch[:, 1:], -1)


def read(reader, text):                     # probabilities of the next word, and the weights of all heads
    p = nt.Softmax().eval()(reader(np.array([words.index(word) for word in text])).astype(np.float64))
    return p, np.concatenate([block.attention.weights for block in reader.decoder.blocks])


def effect(reader, text, place):            # nan for a word of no sort, such as "the"
    others = [word for sort in nouns + adjectives if text[place] in sort for word in sort if word != text[place]]
    before = read(reader, text)[0][-1]
    new = [read(reader, [*text[:place], word, *text[place + 1:]])[0][-1] for word in others]
    return np.mean([np.abs(p - before).sum() / 2 for p in new]) if others else np.nan


tired, soft = (f"the cat sat on the mat because it was {adjective} : the".split() for adjective in ("tired", "soft"))
(cat, mat, it, adj, end), readers = (1, 5, 7, 9, 11), {}
for seed in (7, 1):
    reader = nt.CausalLanguageModel(len(words), 32, num_heads=2, num_layers=2, max_len=12, positions="sinusoidal",
                                    scale_embedding=True, rng=seed)
    train(reader, nt.CrossEntropyLoss(ignore_id=-1), draw, 800, 1e-2)
    readers[seed], right = reader, np.mean(reader(unseen[:, :-1])[:, -1].argmax(-1) == unseen[:, -1])
    claim(f"seed {seed}: the last word is right for pairs of nouns it has never seen", right > 0.8, f"{right:.1%}")
    weights, weights_soft = (read(reader, text)[1] for text in (tired, soft))
    claim("the row of \"it\" is the same for both", np.allclose(weights[:, it], weights_soft[:, it], atol=1e-6))
    for place in (it, adj, end):
        to_cat, to_mat = weights[:, place, [cat, mat]].max(0)
        print(f"    tired, largest weight from {tired[place]!r}: to cat {to_cat:.2f}, to mat {to_mat:.2f}")
    for text, answer, other in ((tired, cat, mat), (soft, mat, cat)):
        moved, still = effect(reader, text, answer), effect(reader, text, other)
        claim(f"{text[adj]}: it names the {text[answer]}", words[read(reader, text)[0][end].argmax()] == text[answer])
        claim(f"replacing the {text[answer]} changes that, replacing the {text[other]} does not",
              moved > 0.6 > 0.4 > still, f"effects {moved:.2f} and {still:.2f}")

# %% All weights of one reader, and the last row of both
names = [f"block {head // 2}, head {head % 2}" for head in range(4)]
picture = Figure(figsize=(13, 4.6), layout="constrained")
for axes, name, weights in zip(picture.subplots(1, 4, sharey=True), names, read(readers[7], tired)[1]):
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(12), tired, rotation=90)
    axes.set(yticks=range(12), yticklabels=tired, title=name, xlabel="key")
picture.axes[0].set_ylabel("query")
picture.suptitle("All weights of seed 7")
picture.colorbar(image, ax=picture.axes, label="weight")
figure("sentence", picture)
picture = Figure(figsize=(13, 5.4), layout="constrained")
shown = [(seed, text) for seed in readers for text in (tired, soft)]
for axes, (seed, text) in zip(picture.subplots(2, 2, sharey=True).flat, shown):
    p, weights = read(readers[seed], text)
    effects = [effect(readers[seed], text, place) for place in range(12)]
    image = axes.imshow([*weights[:, end], effects], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for place in np.flatnonzero(np.isnan(effects)):
        axes.text(place, 4, "–", ha="center", va="center", color="0.5")
    axes.axhline(3.5, color="C1", linewidth=3)
    axes.set_xticks(range(12), text, rotation=35, ha="right", rotation_mode="anchor")
    axes.set(yticks=range(5), yticklabels=[*names, "effect of the word"],
             title=f"seed {seed}, {text[adj]}: the answer is {words[p[end].argmax()]}")
picture.colorbar(image, ax=picture.axes, label="weight, or effect")
figure("weights_and_effects", picture)

# %% [markdown]
# The second picture has, above the line, the weights with which the last word looks back, and below it the effect of
# each word on the answer (a dash: there is no other word of its sort). The noun that is meant has all the effect; an
# adjective has none, since the others of its sort say the same of the noun. In this both seeds agree. In the weights
# they do not.
#
# Here seed 7 gives the picture one hopes for: in block 1 both heads of the last word look at the cat if it is tired,
# at the mat if it is soft. With seed 1, one head looks at the cat in both sentences: where the mat is soft, the cat
# has nearly all the weight of this head and nearly no effect. And "it"? With both seeds its largest weight on the mat
# is above that on the cat, in both sentences, and so also where the cat is tired. Of the seeds 1 to 8, three preferred
# the cat. The claims held for all eight; on another machine the weights may come out in yet another way.
#
# What may be concluded from a weight, then? That this head takes so much of the value vector of that place. Not what
# the vector holds: behind block 0 each place is a mixture of words. Nor whether it matters for the output: for that,
# change the input and look at the output (Jain and Wallace 2019 study this question).
#
# ## Exercises
#
# 1. By mistake the targets are the inputs themselves, not shifted. What becomes of the loss, and what is learned?
# 2. Write the loop that draws ten tokens at temperature 0.7, with NumPy and `model(ids)` alone.
# 3. The output gets a matrix of its own instead of Eᵀ. Which rows of dE are zero after one batch, and why?
# 4. The likeliest token has p = 0.6. How many tokens does top_p = 0.5 leave? Which other settings give the same texts?
# 5. A cache works, but each new token is given position 0. Which claim of section 5 fails, and which token is right?
# 6. Rewrite the sentence of section 6 so that a decoder's row of "it" can know the answer.
#
# With a checker (`numpy-transformer exercise check NN`): 12.1, 12.2.
