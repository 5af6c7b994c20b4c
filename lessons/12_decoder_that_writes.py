# %% [markdown]
# # 12 A decoder that writes
#
# A language model answers one question: given the beginning of a text, which token comes next? A model that can answer
# it can also write: draw a token from its answer, append the token to the text, and ask again. GPT-2 is a stack of
# decoder blocks that was trained on nothing but this question (Radford et al. 2019).
#
# This lesson shows why one forward pass answers the question T times, what backward does between the loss and the
# embedding, what a small model learns in 300 steps, how to sample from it, and what a key-value cache saves. At the end
# two models read "the cat sat on the mat because it was tired", and we test what their attention weights mean.
#
# After the lesson you will be able to train a language model, say where its gradients come from, choose how it samples,
# and say what an attention weight tells you. Lesson 05 explains attention and the causal mask. About 15 minutes.

# %% A text as token ids, and a batch of it
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data
from numpy_transformer.course import claim, figure, lesson, predict, show
from numpy_transformer.decoding.sampling import next_token_probabilities

lesson.start(__name__)
text = data.builtin_text()                  # the language reference that comes with every Python
tokens = data.CharTokenizer(text)           # one id for each distinct character
windows = data.TextWindows(tokens.encode(text), length=64, batch_size=8, seed=12)
(x,), y = windows.batch(0)
show(x=x, y=y)
print("  inputs ", repr(tokens.decode(x[0])))
print("  targets", repr(tokens.decode(y[0])))
claim("the targets are the inputs, shifted by one character", np.array_equal(x[:, 1:], y[:, :-1]))

# %% [markdown]
# ## 1. One forward pass, T predictions
#
# The logits at position t must predict token t + 1, and the causal mask lets position t see only the tokens 0 to t. So
# row t of one forward pass is what the last row would be if the model had been given only these tokens. One forward
# pass makes T predictions, each from the true tokens before it, and never from the model's own guesses. This is called
# teacher forcing.
#
# If we made the predictions one by one, 1 + 2 + ... + T = T (T + 1) / 2 rows of tokens would pass through the blocks,
# instead of T. For T = 4 that is 10 instead of 4. Without the causal mask the T predictions would be worthless, because
# position t could look up token t + 1.
#
# The small model in this check has random parameters, in float64, so that equal results agree up to rounding.

# %% T predictions at once, and one by one
def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


rng = np.random.default_rng(12)
B, T, V, D = 3, 7, 11, 12                   # sequences, tokens, vocabulary, features
small = nt.CausalLanguageModel(V, D, num_heads=3, num_layers=2, max_len=T, rng=rng).astype(np.float64)
for parameter in small.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(D) + (parameter.data == 1)
small.eval(remember=True)
ids = rng.integers(0, V, (B, T + 1))
x, y = ids[:, :-1], ids[:, 1:]
criterion = nt.CrossEntropyLoss()
predict("a batch has B = 3 sequences of T = 7 tokens: how many predictions does its loss average?", B * T,
        why="Every position of every sequence predicts its next token, so there are B T = 3 · 7 predictions.")
logits = small(x)
one_by_one = [small(x[:, :t + 1])[:, -1] for t in range(T)]
claim("row t of one forward pass is the last row of a forward pass over t + 1 tokens, for all t",
      [relative_error(logits[:, t], one_by_one[t]) < 1e-13 for t in range(T)])
claim("its loss is the mean of their T losses",
      abs(criterion(logits, y) - np.mean([criterion(one_by_one[t], y[:, t]) for t in range(T)])) < 1e-13)
small.forget()                              # these forward passes had no backward pass
criterion.forget()

# %% [markdown]
# ## 2. Backward of the whole model
#
# Forward has six lines. E is the embedding matrix, and W the table of positions:
#
#     a = E[ids]
#     b = a + W[0 to T - 1]
#     h = decoder(b)              lessons 05 to 10
#     z = h Eᵀ                    output and embedding share E
#     p = softmax(z)
#     loss = mean over N = B T targets of -log p_y
#
# Backward goes through these lines from the last to the first, and earlier lessons derived the rule of each. **The
# loss**: dz = (p - 1 at the target) / N (lesson 01). **z = h Eᵀ**: dh = dz E, and E receives dzᵀ h. This contribution
# reaches every row of E, because every token of the vocabulary is a candidate at every position (lesson 03). **The
# decoder** turns dh into db.
#
# **b = a + W.** W_t appears at position t of every sequence, so dW_t is the sum over the batch of db at position t. And
# da = db.
#
# **a = E[ids].** E_v appears wherever the id is v, so row v receives the sum of da over those positions. This is added
# to what row v has received from the output: a shared matrix collects the gradients of all its uses.

# %% The gradients of E and W in loops, and all gradients by finite differences
with nt.record(small) as tape:
    criterion(small(x), y)
    small.backward(criterion.backward())
dz, h, db = tape["output"].dy, tape["output"].inputs[0], tape["decoder"].gradients[0]
dW, dE = small.positions.weight.grad, small.embedding.weight.grad
batch_positions = list(np.ndindex(B, T))    # (sequence, position)
claim("dW_t = sum of db over the batch", relative_error(dW, [sum(db[:, t]) for t in range(T)]) < 1e-13)
from_output = np.array([sum(dz[at][v] * h[at] for at in batch_positions) for v in range(V)])
from_input = np.array([sum((db[at] for at in batch_positions if x[at] == v), np.zeros(D)) for v in range(V)])
claim("dE = contribution of the output + contribution of the embedding",
      relative_error(dE, from_output + from_input) < 1e-13)
claim("dE is wrong if either of them is left out",
      min(relative_error(dE, from_output), relative_error(dE, from_input)) > 0.1)
report = nt.gradcheck(small, x, directions=2)               # along two random directions in each array
claim("finite differences and the complex step confirm all gradients", report.ok, f"{len(report.rows)} arrays")
small.eval()

# %% [markdown]
# ## 3. Training
#
# Is a loss of 2.3 good or bad? To judge it, we need baselines. Here are three, all in nats per character:
#
# * **Uniform**: if all V characters are equally likely, the loss is log V. The logits of a fresh model are near 0, so
#   its loss is near log V.
# * **Unigrams** predict each character with its frequency in the training text.
# * **Bigrams** predict each character with its frequency after the character before it.
#
# The losses of model and baselines are measured on a validation text that was used neither for counting nor for
# training. A model with a lower loss than the bigrams uses more of the text than the last character.
#
# This model represents positions by rotating queries and keys (rotary positions, lesson 16). With a learned table of
# positions, 300 steps are hardly enough to get below the loss of the bigrams. Lesson 19 explains AdamW, the cosine
# schedule and gradient clipping.

# %% Three hundred training steps
def train(model, criterion, batch, steps, lr, **options):
    optimizer = nt.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.5, decay=lambda p: p.data.ndim > 1)
    schedule = nt.CosineSchedule(optimizer, lr, lr / 20, warmup=steps // 10, steps=steps)
    trainer = nt.Trainer(model, criterion, optimizer, schedule, clip=1.0, workers=1)
    trainer.fit(batch, steps, **options)
    model.eval()
    return trainer.history


V = tokens.vocab_size
validation = windows.validation()[:2]
previous = np.concatenate([x for (x,), _ in validation])            # each character, and the one that follows it
following = np.concatenate([y for _, y in validation])
unigrams = (np.bincount(windows.train, minlength=V) + 1) / (len(windows.train) + V)         # + 1: no count is 0
bigrams = np.tile(unigrams, (V, 1))         # each row starts with a total count of 1, distributed like the unigrams
np.add.at(bigrams, (windows.train[:-1], windows.train[1:]), 1)
bigrams /= bigrams.sum(1, keepdims=True)
baselines = {"uniform: log V": math.log(V), "unigrams": -np.log(unigrams[following]).mean(),
             "bigrams": -np.log(bigrams[previous, following]).mean()}
model = nt.CausalLanguageModel(V, d_model=64, num_heads=4, num_layers=2, d_ff=128, max_len=64, activation="relu",
                               positions="rotary", rng=12)
STEPS = 300
validation_loss = {0: nt.CrossEntropyLoss().eval()(model.eval()(previous), following)}      # by step
history = train(model, nt.CrossEntropyLoss(), windows.batch, STEPS, 5e-3, validation=validation, every=50)
validation_loss |= {row["step"]: row["validation"] for row in history if "validation" in row}
print("  " + ", ".join(f"{name} {value:.2f}" for name, value in baselines.items()))
claim("before training the loss is near log V", abs(validation_loss[0] - math.log(V)) < 0.4,
      f"{validation_loss[0]:.2f}")
claim("after training it is lower than that of the bigrams", validation_loss[STEPS] < baselines["bigrams"] - 0.1,
      f"{validation_loss[STEPS]:.2f}")
picture = Figure(figsize=(9, 4.8), layout="constrained")
axes = picture.subplots()
axes.plot([row["loss"] for row in history], color="C0", alpha=0.4, linewidth=1, label="training loss of each batch")
axes.plot(*zip(*validation_loss.items()), "C1o-", linewidth=2, label="validation loss")
for (name, value), style in zip(baselines.items(), ("-.", "--", ":")):
    axes.axhline(value, color="0.25", linestyle=style)
    axes.text(STEPS, value + 0.04, name, ha="right")
axes.set(xlabel="step", ylabel="loss (nats per character)", ylim=(None, math.log(V) + 0.4),
         title="The model becomes better than the bigram baseline")
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.85))
figure("learning", picture)

# %% [markdown]
# ## 4. Choosing the next token
#
# The model gives each token a probability. How to choose a token from these probabilities is a separate decision:
#
# * **Greedy** decoding takes the most likely token.
# * **Temperature** τ draws from softmax(z / τ). Since p_i / p_j = exp((z_i - z_j) / τ), each ratio of two probabilities
#   is raised to the power 1 / τ. If one token is 3 times as likely as another, it is 9 times as likely at τ = 0.5. As τ
#   approaches 0, the most likely token gets all of the probability.
# * **Top-k** draws among the k most likely tokens (Fan, Lewis and Dauphin 2018).
# * **Top-p** draws among the smallest set of most likely tokens whose probabilities add up to at least p (Holtzman et
#   al. 2020). With probabilities 0.5, 0.3, 0.1 and 0.1, p = 0.8 keeps two tokens. The set is small where the model is
#   confident, and large where it is not.
#
# Top-k and top-p keep the ratios between the remaining tokens.

# %% Distributions after a prompt, and sampled texts
prompt = tokens.encode("the name of the c")
z = model(prompt)[-1].astype(np.float64)
p, half, cold = (next_token_probabilities(z, temperature=t) for t in (1, 0.5, 1e-6))
top_k = next_token_probabilities(z, top_k=5)
top_p = next_token_probabilities(z, top_p=0.8)
ranked = np.argsort(-z, kind="stable")      # the ids, most likely first
kept = np.sort(p[top_p > 0])
first, second = ranked[:2]
claim("temperature 1 is softmax(z)", relative_error(p, np.exp(z) / np.exp(z).sum()) < 1e-12)
claim("temperature 0.5 squares the ratios", abs((half[first] / half[second]) / (p[first] / p[second]) ** 2 - 1) < 1e-9)
claim("temperature 0.000001 is nearly greedy, and temperature 0 is greedy",
      cold[first] > 0.9 and next_token_probabilities(z, 0)[first] == 1)
claim("top_k=5 keeps the five most likely tokens", set(np.flatnonzero(top_k)) == set(ranked[:5]))
claim("top_p=0.8 keeps the fewest most likely tokens that have probability 0.8 together",
      kept.sum() >= 0.8 > kept[1:].sum() and set(np.flatnonzero(top_p)) == set(ranked[:len(kept)]),
      f"{len(kept)} of {V}")
claim("both keep the ratios", [abs(q[first] / q[second] * p[second] / p[first] - 1) < 1e-9 for q in (top_k, top_p)])
drawn = np.array(nt.generate(model, [prompt] * 1000, 1, rng=12))[:, -1]
share = np.mean(drawn == first)
deviation = math.sqrt(p[first] * (1 - p[first]) / 1000)             # the standard deviation of this share
claim("in 1000 draws, the most likely token appears as often as its probability says",
      abs(share - p[first]) < 4 * deviation, f"{share:.2f} of the draws, probability {p[first]:.2f}")
print("  next character  " + "".join(f"{tokens.characters[i]!r:>7}" for i in ranked[:8]))
for title, q, options in (("temperature 1", p, {}), ("temperature 0.5", half, {"temperature": 0.5}),
                          ("top-k 5", top_k, {"top_k": 5}), ("top-p 0.8", top_p, {"top_p": 0.8}),
                          ("greedy", next_token_probabilities(z, 0), {"temperature": 0})):
    print(f"  {title:<16}" + "".join(f"{number:7.3f}" for number in q[ranked[:8]]))
    print(f"    writes {tokens.decode(nt.generate(model, prompt, 80, rng=12, **options))!r}")

# %% [markdown]
# ## 5. The key-value cache
#
# The loop that writes T tokens passes the whole text through the model for each new token. Most of this has been
# computed before: token t sees only the tokens 0 to t, so its keys and values stay the same whatever is appended. If we
# keep them, a new token costs a single row, whose query attends to all the keys we have kept. For T tokens, T rows pass
# through the blocks instead of T (T + 1) / 2.
#
# The price is space. For each token, the cache holds D numbers of keys and D numbers of values in each block. In
# training there is nothing to save, because one forward pass makes all T predictions.

# %% The same logits from less work
predict("the model writes T = 7 tokens: how many rows pass through each block, with a cache and without?", "7 and 28",
        why="With a cache, each token passes once. Without it, token t needs a pass over t rows, and 1 + 2 + ... + 7 "
            "= 28.")
cache = nt.KeyValueCache()
rows_in_block = {}
for name in ("with a cache", "without"):
    with nt.record(small) as tape:
        if name == "with a cache":
            steps = [small(x[:, t:t + 1], cache=cache) for t in range(T)]
        else:
            steps = [small(x[:, :t + 1]) for t in range(T)]
    rows_in_block[name] = sum(call.inputs[0].shape[1] for call in tape.calls if call.name == "decoder.blocks.0.norm1")
    claim(f"{name}: the same logits as in one forward pass",
          relative_error(np.stack([logits[:, -1] for logits in steps], 1), small(x)) < 1e-13)
claim("rows in a block: T with a cache, T (T + 1) / 2 without",
      rows_in_block == {"with a cache": T, "without": T * (T + 1) // 2}, str(rows_in_block))
cached_numbers = sum(kept.array.size for kept in cache.arrays.values())
claim("the cache holds 2 D numbers for each token and block",
      cached_numbers == B * T * len(small.decoder.blocks) * 2 * D)
claim("the trained model writes the same text with a cache and without",
      nt.generate(model, prompt, 40, rng=3) == nt.generate(model, prompt, 40, rng=3, cached=False))

# %% [markdown]
# ## 6. What does "it" attend to?
#
# In "the cat sat on the mat because it was tired", it is often said, the attention from "it" to "cat" is high. Can we
# see this? A character model trained for 300 steps has no notion of cats. So here is a small language of such
# sentences. It has three kinds of nouns, and each kind has adjectives of its own. A sentence contains two nouns of
# different kinds. "it" refers to one of them, the adjective tells to which one, and the last word has to name it:
#
#     the cat sat on the mat because it was tired : the cat
#     the cat sat on the mat because it was soft : the mat
#
# Two models, which differ only in the seed of their initial weights, learn to predict the adjective and the last word.
# A quarter of the pairs of nouns is held out for the test, cat and mat among them.
#
# One thing is certain beforehand. A decoder computes the row of "it" from the words up to "it", and it reads the
# adjective two words later. So this row is the same for both sentences, and cannot contain the answer. In an encoder it
# could: the heads in figure 4 of Vaswani et al. 2017, which attend from "its" to what it refers to, belong to an
# encoder.
#
# The attention weights are not needed to measure which word matters for the answer. We replace one word by each of the
# other words of its kind, and measure how much of the probability of the last word moves to other words, on average. We
# call this the effect of the word: 0 means that the prediction stays the same, 1 that it changes completely.

# %% Two models, their answers, and the words that these depend on
nouns = [line.split() for line in ("cat dog horse cow fox hen goat sheep", "mat rug bed coat towel sofa quilt shawl",
                                   "car bus bike truck train van cart tram")]
adjectives = [line.split() for line in ("tired hungry sleepy", "soft warm clean", "fast loud broken")]
words = sorted({*sum(nouns + adjectives, []), *"the sat on stood near because it was :".split()})


def make_sentences(held_out):
    """The ids of all sentences whose pair of nouns is held out, or of all others."""
    sentences = []
    for a, b, i, j in np.ndindex(3, 3, 8, 8):               # noun i of kind a, noun j of kind b
        if a == b or ((i + j) % 4 == 0) != held_out:
            continue
        for noun, kind in ((nouns[a][i], a), (nouns[b][j], b)):
            for adjective in adjectives[kind]:
                for verb in ("sat on", "stood near"):
                    clause = f"the {nouns[a][i]} {verb} the {nouns[b][j]}"
                    sentences.append(f"{clause} because it was {adjective} : the {noun}")
    return np.array([[words.index(word) for word in sentence.split()] for sentence in sentences])


training_ids, held_out_ids = make_sentences(held_out=False), make_sentences(held_out=True)
in_loss = np.isin(np.arange(1, 13), (9, 12))                # only the adjective and the last word count as targets


def draw_batch(step):
    batch = training_ids[np.random.default_rng([12, step]).integers(len(training_ids), size=32)]
    return (batch[:, :-1],), np.where(in_loss, batch[:, 1:], -1)


def read(model, text):                      # probabilities of the next word, and the attention weights of all heads
    p = nt.Softmax().eval()(model(np.array([words.index(word) for word in text])).astype(np.float64))
    return p, np.concatenate([block.attention.weights for block in model.decoder.blocks])


def effect(model, text, position):          # nan for a word that has no kind, such as "the"
    kind = [kind for kind in nouns + adjectives if text[position] in kind]
    if not kind:
        return np.nan
    before = read(model, text)[0][-1]
    moved = []                              # the share of the probability that moves to other words
    for word in kind[0]:
        if word != text[position]:
            after = read(model, [*text[:position], word, *text[position + 1:]])[0][-1]
            moved.append(np.abs(after - before).sum() / 2)
    return np.mean(moved)


def mean_effects(model):
    """The mean effects of the noun that is the answer, of the other noun and of the adjective in held-out sentences."""
    effects = []
    for ids in held_out_ids[::20]:
        *text, noun = (words[i] for i in ids)
        answer, other = (CAT, MAT) if text[CAT] == noun else (MAT, CAT)
        effects.append([effect(model, text, position) for position in (answer, other, ADJECTIVE)])
    return np.mean(effects, 0)


tired, soft = (f"the cat sat on the mat because it was {adjective} : the".split() for adjective in ("tired", "soft"))
CAT, MAT, IT, ADJECTIVE, LAST = 1, 5, 7, 9, 11              # positions, the same in all sentences
models = {}
misled = 0                                  # sentences in which a head attends mostly to a noun without effect
for seed in (7, 1):
    reader = nt.CausalLanguageModel(len(words), 32, num_heads=2, num_layers=2, max_len=12, positions="sinusoidal",
                                    scale_embedding=True, rng=seed)
    train(reader, nt.CrossEntropyLoss(ignore_id=-1), draw_batch, 800, 1e-2)
    models[seed] = reader
    accuracy = np.mean(reader(held_out_ids[:, :-1])[:, -1].argmax(-1) == held_out_ids[:, -1])
    claim(f"seed {seed}: the model names the right noun for held-out pairs of nouns", accuracy > 0.8, f"{accuracy:.1%}")
    of_answer, of_other, of_adjective = mean_effects(reader)
    claim("replacing the noun that is the answer changes it, replacing the other noun or the adjective does not",
          of_answer > 0.6 > 0.4 > max(of_other, of_adjective),
          f"mean effects {of_answer:.2f}, {of_other:.2f} and {of_adjective:.2f}")
    weights, weights_soft = (read(reader, text)[1] for text in (tired, soft))
    claim("the row of \"it\" is the same for both sentences",
          np.allclose(weights[:, IT], weights_soft[:, IT], atol=1e-6))
    to_cat, to_mat = weights[:, IT, [CAT, MAT]].max(0)
    print(f"    largest weight of any head from \"it\": to cat {to_cat:.2f}, to mat {to_mat:.2f}")
    for text in (tired, soft):
        p, weights = read(reader, text)
        largest = weights[:, LAST, [CAT, MAT]].max(0)
        effects = np.array([effect(reader, text, position) for position in (CAT, MAT)])
        print(f"    {text[ADJECTIVE]}: the answer is {words[p[LAST].argmax()]}; effect of cat {effects[0]:.2f}, of mat "
              f"{effects[1]:.2f}; largest weight from the last token to cat {largest[0]:.2f}, to mat {largest[1]:.2f}")
        misled += np.any((effects < 0.2) & (largest > 0.5))
print(f"  in {misled} of 4 cases, a head of the last token gives a noun without effect more than half of its weight")

# %% All attention weights of one model, and the last row of both
names = [f"block {head // 2}, head {head % 2}" for head in range(4)]
picture = Figure(figsize=(13, 4.6), layout="constrained")
for axes, name, weights in zip(picture.subplots(1, 4, sharey=True), names, read(models[7], tired)[1]):
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(12), tired, rotation=90)
    axes.set(yticks=range(12), yticklabels=tired, title=name, xlabel="key token")
picture.axes[0].set_ylabel("query token")
picture.suptitle("Attention weights of every head of the model with seed 7")
picture.colorbar(image, ax=picture.axes, label="attention weight")
figure("sentence", picture)
picture = Figure(figsize=(13, 5.8), layout="constrained")
shown = [(seed, text) for seed in models for text in (tired, soft)]
for axes, (seed, text) in zip(picture.subplots(2, 2, sharey=True).flat, shown):
    p, weights = read(models[seed], text)
    effects = [effect(models[seed], text, position) for position in range(12)]
    image = axes.imshow([*weights[:, LAST], effects], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for position in np.flatnonzero(np.isnan(effects)):
        axes.text(position, 4, "–", ha="center", va="center", color="0.5")
    axes.axhline(3.5, color="C1", linewidth=3)
    axes.set_xticks(range(12), text, rotation=35, ha="right", rotation_mode="anchor")
    axes.set(yticks=range(5), yticklabels=[*names, "effect of the word"],
             title=f"seed {seed}, {text[ADJECTIVE]}: the answer is {words[p[LAST].argmax()]}")
picture.suptitle("Attention weights from the last token, and (below the line) the effect of each word on the answer")
picture.colorbar(image, ax=picture.axes, label="attention weight, or effect")
figure("weights_and_effects", picture)

# %% [markdown]
# In the second picture, the four rows above the line are the attention weights of the last token. The row below the
# line is the effect of each word on the answer (a dash: there is no other word of its kind). In most sentences, the
# noun that the answer names has nearly all the effect. An adjective has none, since the other adjectives of its kind
# point to the same noun. So the two models agree about the effects. About the weights they need not agree.
#
# One would hope that the last token attends to the cat if it is tired, and to the mat if it is soft. Look for heads
# that do, and for heads that attend to the same noun in both sentences: in one of the two, their noun has no effect on
# the answer. How many there are depends on the seed, and even on the processor, because it decides how the matrix
# products of the training are rounded. We trained with the seeds 1 to 8 and the kernels of three processors (Haswell,
# Sandybridge and SkylakeX in OpenBLAS). With each, three or four of the eight models had a head that gave more than
# half of its weight to a noun without effect, in one sentence at least. Your two models are counted above.
#
# And "it"? Its row is the same for both sentences. So whichever noun has the larger weight, it is the wrong one in one
# of them. Of the eight models, three or four preferred the cat with each processor's kernels. The claims above held for
# all of them.
#
# So what does an attention weight tell you? It tells how much of the value vector at that position enters the output of
# this head. It does not tell what this vector contains: after block 0, each position holds a mixture of words. And it
# does not tell whether the position matters for the output. To find that out, change the input and look at the output
# (Jain and Wallace 2019 study this question).
#
# ## Exercises
#
# 1. By mistake, the targets are the inputs themselves, without the shift. What happens to the loss, and what does the
#    model learn?
# 2. Write the loop that draws ten tokens at temperature 0.7, using only NumPy and `model(ids)`.
# 3. The output gets its own matrix instead of Eᵀ. Which rows of dE are zero after one batch, and why?
# 4. The most likely token has p = 0.6. How many tokens does top_p = 0.5 keep? Which other settings give the same texts?
# 5. A cache works, except that each new token is given position 0. Which claim of section 5 fails, and which token is
#    still right?
# 6. Rewrite the sentence of section 6 so that a decoder's row of "it" can contain the answer.
#
# With a checker (`numpy-transformer exercise check 12.1` and so on): 12.1, 12.2.
