# %% [markdown]
# # 13 The encoder-decoder of 2017
#
# The first Transformer was built to translate. An encoder reads the source sentence and turns it into the memory, one
# vector for each token. A decoder writes the target token by token, and each of its blocks reads the memory by
# cross-attention (Vaswani et al. 2017, section 3). The Annotated Transformer (Rush 2018) implements the paper line by
# line. This lesson follows its parts: clones, sublayer connections, the two masks, the generator, label smoothing, the
# warm-up, and greedy decoding. It adds what that text leaves to a framework, the backward through the memory, and
# trains a model that writes words backwards.
#
# After the lesson you will be able to say which path each gradient takes from the loss to the source embedding, read
# both masks, and choose between greedy decoding and beam search. Read lessons 05 (attention) and 12 (the decoder)
# first. About 15 minutes.

# %% An encoder with three blocks, and two helper functions
import copy
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data, views
from numpy_transformer.course import claim, figure, lesson, predict

lesson.start(__name__)
rng = np.random.default_rng(13)
D, H, F = 8, 2, 12                          # features, heads, features inside the feed-forward layer


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def randomize(module):                      # no γ stays 1, no bias 0; eval() switches dropout off, so results repeat
    for parameter in module.astype(np.float64).eval(remember=True).parameters():
        parameter.data = (parameter.data == 1) + rng.standard_normal(parameter.data.shape) / math.sqrt(D)
    return module


encoder = randomize(nt.Encoder(3, D, H, F))
x = rng.standard_normal((2, 5, D))

# %% [markdown]
# ## 1. Clones
#
# A stack has N layers of the same kind, and each layer has its own weights. In Python, `[layer] * 3` is a trap, because
# it makes a list that contains **one** layer three times. No error is raised. The model is smaller than intended, and
# applies the same layer three times (Lan et al. 2020 do this on purpose). Its backward is right nevertheless: each use
# saves its own values on a stack, and the gradients of the three uses add up in the one set of weights. So a gradient
# check cannot find this mistake, but the number of parameters reveals it.
#
# The Annotated Transformer copies the layer N times. The copies are independent, but they start with equal weights.
# There this does no harm, since each matrix is drawn again afterwards. `nt.make_model` does the same.

# %% One layer listed three times, and three layers
shared = copy.deepcopy(encoder)
shared.blocks = [shared.blocks[0]] * 3
in_block = shared.blocks[0].num_parameters()
predict(f"a block has {in_block} parameters and the final norm {2 * D}: how many has an encoder with `[block] * 3`?",
        in_block + 2 * D,
        why="The list contains the same block three times, so its parameters exist once. Only the final norm is "
            "added.")
claim("three blocks have three times the parameters of one", encoder.num_parameters() == 3 * in_block + 2 * D)
claim("one block listed three times has the parameters of one", shared.num_parameters() == in_block + 2 * D,
      f"{in_block + 2 * D}")
claim("and its backward is right", nt.gradcheck(copy.deepcopy(shared), x).ok)
cloned = copy.deepcopy(shared)
cloned.blocks = [copy.deepcopy(cloned.blocks[0]) for _ in range(3)]
dy = rng.standard_normal(x.shape)
claim("three copies give the same output", relative_error(cloned(x), shared(x)) < 1e-13)
claim("and the same dx", relative_error(cloned.backward(dy), shared.backward(dy)) < 1e-13)
gradients = [[parameter.grad for parameter in block.parameters()] for block in cloned.blocks]
claim("the gradient of the shared block is the sum over its three uses",
      [np.allclose(p.grad, sum(uses)) for p, *uses in zip(shared.blocks[0].parameters(), *gradients)])
first, second = (block.attention.query.weight.data for block in nt.make_model(9, 9, 2, D, F, H, rng=1).encoder.blocks)
claim("make_model draws each matrix separately, within Xavier's bounds",
      relative_error(first, second) > 0.5 and 0.9 < np.abs([first, second]).max() / math.sqrt(6 / (D + D)) <= 1)

# %% [markdown]
# ## 2. The sublayer connection
#
# In the Annotated Transformer, each sublayer f (attention or feed-forward) is wrapped in the same way, in a pre-norm
# residual connection:
#
#     y = x + dropout(f(norm(x)))
#     dx = dy
#          + norm.backward(f.backward(dropout.backward(dy)))
#
# Lesson 10 derives this backward, and compares this order with the paper's own, norm(x + dropout(f(x))).

# %% A block consists of two such connections
class Connection(nt.Module):
    def __init__(self, f, norm):
        self.f = f
        self.norm = norm
        self.dropout = nt.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.f(self.norm(x)))

    def backward(self, dy):
        return dy + self.norm.backward(self.f.backward(self.dropout.backward(dy)))


block = encoder.blocks[0]
first = Connection(block.attention, block.norm1).eval(remember=True)
second = Connection(block.feed_forward, block.norm2).eval(remember=True)
claim("the forward of EncoderBlock is two connections", relative_error(block(x), second(first(x))) < 1e-13)
dx = first.backward(second.backward(dy))    # these forward passes came last, so their backward passes come first
claim("its backward is their backward, the second one first", relative_error(block.backward(dy), dx) < 1e-13)
claim("gradient checks confirm both", nt.gradcheck(first, x).ok and nt.gradcheck(second, x).ok)

# %% [markdown]
# ## 3. Shapes and masks
#
# The source has S tokens, and the target has T. The token BOS marks the beginning of a sentence, and EOS its end. The
# input of the decoder is the target shifted by one: it reads BOS, y_1, y_2, ... and has to predict y_1, y_2, ..., EOS.
# The sentences of a batch are padded with PAD to the same length. This requires two masks (lesson 06), where True means
# "may attend":
#
# * The **source mask** (B, 1, 1, S) hides PAD. It is used in the encoder's self-attention and in cross-attention.
# * The **target mask** (B, 1, T, T) hides PAD, and every token that comes after the query's own position (causal).

# %% A small model, and the shapes in it
B, S, T, V, L = 2, 6, 4, 11, 2
PAD, BOS, EOS = data.PAD, data.BOS, data.EOS
model = randomize(nt.EncoderDecoder(9, V, D, H, L, F, max_len=20))
source = np.array([[BOS, 5, 3, 7, 3, EOS], [BOS, 8, 4, EOS, PAD, PAD]])
target = np.array([[BOS, 4, 9, 6], [BOS, 7, 10, PAD]])              # the decoder's input
answers = np.array([[4, 9, 6, EOS], [7, 10, EOS, PAD]])             # what it has to predict
criterion = nt.CrossEntropyLoss(ignore_id=PAD)
predict("B, H, T, S = 2, 2, 4, 6: what shape do the cross-attention weights have?", (B, H, T, S),
        why="Each of the T target tokens is a query, and each of the S source tokens a key. Every sentence and every "
            "head has such a T x S matrix.")
with nt.record(model) as tape:
    loss = criterion(model(source, target), answers)
    model.backward(criterion.backward())
for name in ("source_embedding", "encoder", "target_embedding", "decoder.blocks.0.attention.attention.softmax",
             "decoder.blocks.0.cross_attention.attention.softmax", "decoder", "output"):
    print(f"  {name:<52}{tape[name].inputs[0].shape} -> {tape[name].output.shape}")
self_weights = tape["decoder.blocks.1.attention.attention.softmax"].output
cross_weights = tape["decoder.blocks.1.cross_attention.attention.softmax"].output
claim("cross-attention weights are (B, H, T, S)", cross_weights.shape == (B, H, T, S))
claim("no query attends to PAD in the source", cross_weights[1, :, :, 4:] == 0)
claim("in the target, no query attends to PAD or to a later token", [
    self_weights[b, :, t, s] == 0
    for b in range(B) for t in range(T) for s in range(T) if s > t or target[b, s] == PAD])
logits = model(source, target)
longer = np.concatenate([source, np.full((B, 3), PAD)], 1)
claim("adding PAD to the source leaves the logits unchanged", relative_error(model(longer, target), logits) < 1e-13)
changed = target.copy()
changed[0, 2] = 5
claim("changing target token 2 leaves logits 0 and 1 unchanged",
      relative_error(model(source, changed)[0, :2], logits[0, :2]) < 1e-13)
changed = source.copy()
changed[0, 4] = 6
claim("changing a source token changes all logits", np.abs(model(changed, target) - logits)[0].max(-1) > 1e-3)

# %% [markdown]
# ## 4. Backward through the memory
#
# The encoder's output m, the memory, influences the loss in only one way: as keys and values of cross-attention. Each
# of the L decoder blocks uses the same m, and uses it twice. A variable that appears in several places receives the sum
# of the gradients from these places:
#
#     dm = sum over the blocks of (dm as keys + dm as values)
#
# This dm is the only gradient that the encoder receives. Where the source is PAD, the row of m is hidden, and its
# gradient is zero.

# %% The parts of dm, and a check of the whole model by finite differences
dm = tape["encoder"].dy
from_blocks = [tape[f"decoder.blocks.{i}.cross_attention"].gradients[1] for i in range(L)]
as_keys, as_values = (tape[f"decoder.blocks.0.cross_attention.{role}"].gradients[0] for role in ("key", "value"))
claim("one block: dm = dm as keys + dm as values", relative_error(from_blocks[0], as_keys + as_values) < 1e-13)
claim("the encoder receives the sum over the blocks", relative_error(dm, sum(from_blocks)) < 1e-13)
claim("it is zero where the source is PAD", np.array_equal(dm[source == PAD], np.zeros((2, D))))
claim("without block 0 it would be wrong", relative_error(from_blocks[1], dm) > 0.1)
report = nt.gradcheck(model, source, target, directions=2)          # along two random directions in each array
claim("finite differences and the complex step confirm all gradients", report.ok, f"{len(report.rows)} arrays")

# %% [markdown]
# `numpy-transformer explore --lesson 13` opens dm of a small translator in your browser, and on the map the arrow
# from the decoder back to the encoder. Which word of the source receives the largest gradient? In the chosen entry,
# which of the two uses of the memory contributes more?
#
# ## 5. Generator, label smoothing, warm-up
#
# The Annotated Transformer ends in a **generator**, log_softmax(linear(x)), and its loss takes log-probabilities. Here,
# a model returns the logits z = linear(x), and log-softmax is part of the loss. Both give the same loss and the same
# gradients. They do so even if our loss is given log-probabilities, because log-softmax does not change them: their
# exponentials already sum to 1.
#
# **Label smoothing** (section 5.4 of the paper, with ε = 0.1; lesson 01 derives it) replaces the target, which is 1 for
# the right token, by q = (1 - ε) onehot + ε / V. With V = 10, q is 0.91 for the right token and 0.01 for each other
# token. Then dz = (p - q) / N, and the loss cannot fall below the entropy of q. So compare a training loss with this
# entropy, and not with 0.
#
# **Warm-up** (the paper's equation 3; lesson 19): the learning rate at step n is
#
#     D^(-1/2) min(n^(-1/2), n warmup^(-3/2))
#
# This is a straight line that rises, and then a curve that falls like 1 / sqrt(n). They meet at n = warmup, where the
# learning rate has its maximum 1 / sqrt(D warmup): 0.0007 for D = 512 and warmup = 4000, the paper's values. A longer
# warm-up has a lower maximum. After their maxima, all curves are the same.

# %% Log-probabilities, smoothed targets, and learning rates
N = B * T
epsilon = 0.1
answers = rng.integers(0, V, (B, T))
log_softmax = nt.LogSoftmax()
plain = nt.CrossEntropyLoss()
smoothed = nt.CrossEntropyLoss(label_smoothing=epsilon)
log_p = log_softmax(logits)
claim("the generator's probabilities sum to 1", np.allclose(np.exp(log_p).sum(-1), 1))
loss = plain(logits, answers)
dz = plain.backward()
claim("the loss of logits is the mean of -log p at the targets",
      abs(loss + np.mean([log_p[b, t, answers[b, t]] for b, t in np.ndindex(B, T)])) < 1e-13)
claim("the loss of log-probabilities is the same", abs(plain(log_p, answers) - loss) < 1e-13)
claim("and so is dz, computed by the backward of log-softmax",
      relative_error(log_softmax.backward(plain.backward()), dz) < 1e-13)
q = np.array([[[epsilon / V + (1 - epsilon) * (v == answers[b, t]) for v in range(V)] for t in range(T)]
              for b in range(B)])
claim("label smoothing: L = -sum of q log p / N", abs(smoothed(logits, answers) + np.sum(q * log_p) / N) < 1e-13)
claim("label smoothing: dz = (p - q) / N", relative_error(smoothed.backward(), (np.exp(log_p) - q) / N) < 1e-13)
optimizer = nt.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
steps = range(1, 20001)
rates = {}
for warmup in (2000, 4000, 8000):
    schedule = nt.NoamSchedule(optimizer, d_model=512, warmup=warmup)
    rates[warmup] = [schedule.rate(n) for n in steps]
claim("the maximum is at n = warmup, and is 1 / sqrt(D warmup)", [
    np.argmax(curve) + 1 == warmup and abs(max(curve) * math.sqrt(512 * warmup) - 1) < 1e-12
    for warmup, curve in rates.items()])
claim("lr(n) = D^(-1/2) min(n^(-1/2), n warmup^(-3/2))", [
    np.isclose(rate * math.sqrt(512), min(n ** -0.5, n * 4000 ** -1.5), rtol=1e-12)
    for n, rate in zip(steps, rates[4000])])
figure("recipe", views.schedules({f"warm-up {warmup}, D = 512": curve for warmup, curve in rates.items()}))

# %% [markdown]
# ## 6. Training, greedy decoding and beam search
#
# The task is to write words of three to eight letters backwards. The recipe is a small version of the paper's: betas
# 0.9 and 0.98, the warm-up above, and label smoothing 0.1. It differs from the paper in that the model is pre-norm, and
# uses weight decay and gradient clipping, but no dropout. We interrupt the training half-way, to see how well decoding
# works with a model that still makes mistakes.
#
# To write a word, the decoder starts from BOS alone. **Greedy decoding** appends the most likely token until EOS, and
# never revises a choice. **Beam search** keeps the `beam` best unfinished targets at each step, and compares whole
# targets by log P. Since each token lowers log P, this favors short targets. So log P is divided by
# lp = ((5 + length) / 6)^α (Wu et al. 2016, equation 14). For example, a target of 3 tokens with α = 0.6 has
# lp = (8 / 6)^0.6 = 1.19.
#
# In most cases, beam search finds a target that is at least as probable as that of greedy decoding, but not always: the
# beginning of the greedy target may have dropped out of the beam.

# %% Words written backwards
def decode(max_len=10, **options):
    """The best target for each source, and its log P."""
    best = nt.beam_search(model.eval(), source, BOS, EOS, max_len, **options)
    return [ids for (ids, _), in best], np.array([score for (_, score), in best])


def share_right(targets):
    """The share of targets that are the reversed word."""
    return np.mean([data.unframe(target_tokenizer, ids) == word for ids, (_, word) in zip(targets, test_pairs)])


task = data.GENERATED_PAIRS["reverse"](13)
training_pairs = [pair for pair in task.training if len(pair[0]) <= 8]
test_pairs = [pair for pair in task.test if len(pair[0]) <= 8][:200]
source_tokenizer, target_tokenizer = task.tokenizers()
batches = data.Pairs(training_pairs[:20000], source_tokenizer, target_tokenizer, batch_size=64, seed=13, pool=4)
source = data.pad([data.frame(source_tokenizer, word) for word, _ in test_pairs])
V = target_tokenizer.vocab_size + 3         # the letters, PAD, BOS and EOS
model = nt.make_model(source_tokenizer.vocab_size + 3, V, N=1, d_model=64, d_ff=256, h=4, dropout=0.0, max_len=12,
                      rng=13)
optimizer = nt.AdamW(model.parameters(), betas=(0.9, 0.98), eps=1e-9, weight_decay=0.5, decay=lambda p: p.data.ndim > 1)
trainer = nt.Trainer(model, nt.CrossEntropyLoss(epsilon, ignore_id=PAD), optimizer,
                     nt.NoamSchedule(optimizer, d_model=64, warmup=100, factor=0.16), clip=1.0, workers=1)
right = {}
for steps in (240, 480):
    trainer.fit(batches, steps=240)
    greedy = nt.greedy_decode(model.eval(), source, BOS, EOS, max_len=10)
    greedy_ids, greedy_score = decode(beam=1, length_penalty=0)
    beam_ids, beam_score = decode(beam=4, length_penalty=0)
    claim(f"{steps} steps: a beam of 1 is greedy decoding",
          [list(row[:len(ids)]) == ids for row, ids in zip(greedy, greedy_ids)])
    right[steps] = share_right(greedy_ids)
    higher, lower = np.mean(beam_score > greedy_score + 1e-6), np.mean(beam_score < greedy_score - 1e-6)
    print(f"    right: greedy {right[steps]:.1%}, beam of 4 {share_right(beam_ids):.1%}; "
          f"log P of the beam's target: higher in {higher:.1%}, lower in {lower:.1%}")
    if steps == 240:
        claim("the beam finds a target of higher log P more often than one of lower log P", higher > lower)
q = np.where(np.arange(V) == 0, 1 - epsilon + epsilon / V, epsilon / V)
entropy = -np.sum(q * np.log(q))
training_loss = np.mean([row["loss"] for row in trainer.history[-20:]])
claim("the model reverses words that it has never seen", right[480] > 0.85, f"{right[480]:.1%} are right")
claim("the smoothed loss is near the entropy of q", entropy < training_loss < entropy + 0.1,
      f"{training_loss:.3f} and {entropy:.3f}")

# %% [markdown]
# Once the model is good, beam search can gain little on this task. To see a case in which greedy decoding must fail, we
# build a "model" by hand. It is a table of the next token's probability. In it, "the" looks better than "a" as a first
# word, but what follows "a" is nearly certain: P(the cat) = 0.6 · 0.4 = 0.24, but P(a cow) = 0.4 · 0.9 = 0.36.

# %% A table for which greedy decoding fails, and one that shows the length penalty
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

    def search(self, **options):
        (ids, score), = nt.beam_search(self, [[1]], BOS, EOS, max_len=4, cached=False, **options)[0]
        return " ".join(self.words[i] for i in ids), score


table = Table(start={"the": 0.6, "a": 0.4}, the={"cat": 0.4, "dog": 0.3, "hen": 0.3}, a={"cow": 0.9, "hen": 0.1})
for beam, expected, p in ((1, "the cat EOS", 0.6 * 0.4), (2, "a cow EOS", 0.4 * 0.9)):
    text, score = table.search(beam=beam, length_penalty=0)
    claim(f"a beam of {beam} finds {expected}", text == expected and abs(math.exp(score) - p) < 1e-6, f"P = {p:.2f}")
table = Table(start={"EOS": 0.3, "very": 0.7}, very={"good": 0.4, "bad": 0.3, "dry": 0.3})
for alpha, expected, best in ((0, "EOS", math.log(0.3)), (0.6, "very good EOS", math.log(0.28) / (8 / 6) ** 0.6)):
    text, score = table.search(beam=2, length_penalty=alpha)
    claim(f"α = {alpha}: the best target is {expected}", text == expected and abs(score - best) < 1e-6,
          f"score {score:.2f}")

# %% [markdown]
# ## 7. What the decoder attends to
#
# Let a word have n letters. To write letter t of the reversed word, counted from 0, the decoder needs letter n - 1 - t
# of the source. The source starts with BOS, so this letter is at position n - t. For "stop", the first letter to write
# is p, at position 4.
#
# Nothing in the model says so. It has to learn this from the training pairs. In the picture below, each row is a query:
# the decoder's input token at that position. The row of BOS writes the first letter, and should attend to the last
# letter of the source. The row of p writes the next letter, and should attend to o. So the weights should lie on a
# diagonal from the upper right to the lower left. (Lesson 12 explains what an attention weight does not tell.)

# %% The cross-attention weights
with nt.record(model) as tape:
    (ids, decoder_input), next_ids = data.Pairs(test_pairs, source_tokenizer, target_tokenizer, 200, 13).batches()[0]
    model(ids, decoder_input)
weights = tape["decoder.blocks.0.cross_attention.attention.softmax"].output.mean(1)         # over the heads
n = (ids > EOS).sum(1)[:, None]             # the letters of each word
t = np.arange(decoder_input.shape[1])
is_letter = next_ids > EOS
on_diagonal = np.mean((weights.argmax(-1) == n - t)[is_letter])
claim("in most rows the largest weight is on the letter that has to be written", on_diagonal > 0.6,
      f"{on_diagonal:.1%} of {is_letter.sum()} letters")
picture = Figure(figsize=(12, 4.8), layout="constrained")
for axes, word in zip(picture.subplots(1, 2), ("reversal", "stop")):
    source_ids = data.frame(source_tokenizer, word)
    target_ids = data.frame(target_tokenizer, word[::-1])
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
# 1. A model made with `[block] * 6` learns worse than expected. Name two checks that find the mistake, and one that
#    cannot find it.
# 2. Someone computes the values of cross-attention from the decoder's x, and the keys from the memory. Which two
#    lengths must be equal for this to run? What can a query then see that the causal mask should have hidden?
# 3. A generator returns softmax(z), and the loss takes its logarithm. For which logits does this fail, and why does
#    log-softmax not fail?
# 4. In section 4, the last decoder block is left out of the sum. Predict which parameters get wrong gradients.
# 5. Write a Table for which a beam of 2 fails and a beam of 3 does not.
# 6. Training without the causal mask: what happens to the loss, and what does greedy decoding write afterwards?
#
# With a checker (`numpy-transformer exercise check 13.1` and so on): 13.1, 13.2, 13.3, 13.4, 13.5, 13.6.
