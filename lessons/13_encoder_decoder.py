# %% [markdown]
# # 13 The encoder-decoder of 2017
#
# The first Transformer was built to translate. An encoder reads the source sentence and turns it into a memory, one
# vector for each token. A decoder writes the target token by token, and each of its blocks looks into that memory by
# cross-attention (Vaswani et al. 2017, section 3). The annotated Transformer (Rush 2018) puts the paper into code line
# by line. This lesson follows its parts: clones, sublayer connections, the two masks, the generator, label smoothing,
# the warm-up, greedy decoding. It adds what that text leaves to a framework, the backward through the memory, and
# trains a model that writes words backwards.
#
# Afterwards you can say which path each gradient takes from the loss to the source embedding, read both masks, and
# choose between greedy and beam search. Lessons 05 (attention) and 12 (the decoder) come first. About 15 minutes.

# %% An encoder of three blocks, and tools
import copy
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import data, views
from numpy_transformer.classroom import claim, figure, lesson, predict

lesson.start(__name__)
rng = np.random.default_rng(13)
D, H, F = 8, 2, 12                          # features, heads, width of the feed-forward layer


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


def randomise(module):                      # no gamma stays 1, no bias 0; no dropout, so that equalities can be seen
    for parameter in module.astype(np.float64).eval(remember=True).parameters():
        parameter.data = (parameter.data == 1) + rng.standard_normal(parameter.data.shape) / math.sqrt(D)
    return module


encoder = randomise(nt.Encoder(3, D, H, F))
x = rng.standard_normal((2, 5, D))

# %% [markdown]
# ## 1. Clones
#
# A stack has N layers of the same kind, each with weights of its own. In Python `[layer] * 3` is a trap: a list that
# names **one** layer three times. Nothing fails. The model is smaller, and learns one layer that is applied three
# times (Lan et al. 2020 do so on purpose). Its backward is right all the same: each use remembers its input on a
# stack, and the gradients of the three uses add up in the one set of weights. A gradient check cannot find the
# mistake, the number of parameters shows it.
#
# The annotated version copies the layer N times. Copies are independent, but equal at the start. There it does no
# harm, since each matrix is drawn anew afterwards; `nt.make_model` does that too.

# %% One layer with three names, and three layers
shared = copy.deepcopy(encoder)
shared.blocks = [shared.blocks[0]] * 3
apiece = shared.blocks[0].num_parameters()
predict(f"A block has {apiece} parameters, the norm {2 * D}. How many has `[block] * 3` with it?", apiece + 2 * D)
claim("three blocks have three times the parameters of one", encoder.num_parameters() == 3 * apiece + 2 * D)
claim("one block with three names has those of one", shared.num_parameters() == apiece + 2 * D, f"{apiece + 2 * D}")
claim("and its backward is right", nt.gradcheck(copy.deepcopy(shared), x).ok)
cloned = copy.deepcopy(shared)
cloned.blocks = [copy.deepcopy(cloned.blocks[0]) for _ in range(3)]
dy = rng.standard_normal(x.shape)
claim("copies give the same output", apart(cloned(x), shared(x)) < 1e-13)
claim("and the same dx", apart(cloned.backward(dy), shared.backward(dy)) < 1e-13)
grads = [[parameter.grad for parameter in block.parameters()] for block in cloned.blocks]
claim("the gradient of the shared block is the sum over its three uses",
      [np.allclose(p.grad, sum(uses)) for p, *uses in zip(shared.blocks[0].parameters(), *grads)])
first, second = (block.attention.query.weight.data for block in nt.make_model(9, 9, 2, D, F, H, rng=1).encoder.blocks)
claim("make_model draws each matrix anew, in Xavier's bounds",
      apart(first, second) > 0.5 and 0.9 < np.abs([first, second]).max() / math.sqrt(6 / (D + D)) <= 1)

# %% [markdown]
# ## 2. The sublayer connection
#
# In the annotated version each sublayer f, attention or feed-forward, is wrapped in the same way, a pre-norm residual:
#
#     y = x + dropout(f(norm(x))),        dx = dy + norm.backward(f.backward(dropout.backward(dy)))
#
# Lesson 10 derives the backward, and compares with the paper's own order, norm(x + dropout(f(x))).

# %% A block is two connections
class Connection(nt.Module):
    def __init__(self, f, norm):
        self.f, self.norm, self.dropout = f, norm, nt.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.f(self.norm(x)))

    def backward(self, dy):
        return dy + self.norm.backward(self.f.backward(self.dropout.backward(dy)))


block = encoder.blocks[0]
one = Connection(block.attention, block.norm1).eval(remember=True)
two = Connection(block.feed_forward, block.norm2).eval(remember=True)
claim("EncoderBlock is two connections", apart(block(x), two(one(x))) < 1e-13)
dx = one.backward(two.backward(dy))         # these forwards came last, so their backwards come first
claim("its backward is theirs, the second one first", apart(block.backward(dy), dx) < 1e-13)
claim("and confirmed by differences", nt.gradcheck(one, x).ok and nt.gradcheck(two, x).ok)

# %% [markdown]
# ## 3. Shapes and masks
#
# The source has S tokens, the target T. BOS marks the beginning of a sentence, EOS its end. The decoder is given the
# target shifted by one: it reads BOS, y_1, y_2, ... and has to say y_1, y_2, ..., EOS. Sentences of a batch are filled
# up with PAD. Hence two masks (lesson 06), True = may attend:
#
# * **source mask** (B, 1, 1, S): no PAD. It serves the encoder's self-attention and the decoder's cross-attention.
# * **target mask** (B, 1, T, T): no PAD, and nothing later than oneself (causal).

# %% One model, every shape
B, S, T, V, L = 2, 6, 4, 11, 2
PAD, BOS, EOS = data.PAD, data.BOS, data.EOS
model = randomise(nt.EncoderDecoder(9, V, D, H, L, F, max_len=20))
source = np.array([[BOS, 5, 3, 7, 3, EOS], [BOS, 8, 4, EOS, PAD, PAD]])
target, wanted = np.array([[BOS, 4, 9, 6], [BOS, 7, 10, PAD]]), np.array([[4, 9, 6, EOS], [7, 10, EOS, PAD]])
criterion = nt.CrossEntropyLoss(ignore_id=PAD)
predict("Shape of the cross-attention weights, for B, H, T, S = 2, 2, 4, 6?", (B, H, T, S))
with nt.record(model) as tape:
    loss = criterion(model(source, target), wanted)
    model.backward(criterion.backward())
for name in ("source_embedding", "encoder", "target_embedding", "decoder.blocks.0.attention.attention.softmax",
             "decoder.blocks.0.cross_attention.attention.softmax", "decoder", "output"):
    print(f"  {name:<52}{tape[name].inputs[0].shape} -> {tape[name].output.shape}")
own, cross = (tape[f"decoder.blocks.1.{name}.attention.softmax"].output for name in ("attention", "cross_attention"))
claim("cross-attention weights are (B, H, T, S)", cross.shape == (B, H, T, S))
claim("no query looks at PAD in the source", cross[1, :, :, 4:] == 0)
claim("in the target none looks at PAD or ahead",
      [own[b, :, t, s] == 0 for b in range(B) for t in range(T) for s in range(T) if s > t or target[b, s] == PAD])
logits = model(source, target)
longer = np.concatenate([source, np.full((B, 3), PAD)], 1)
claim("more PAD changes nothing", apart(model(longer, target), logits) < 1e-13)
other = target.copy()
other[0, 2] = 5
claim("another target token 2 leaves logits 0 and 1 alone", apart(model(source, other)[0, :2], logits[0, :2]) < 1e-13)
other = source.copy()
other[0, 4] = 6
claim("another source token moves all of them", np.abs(model(other, target) - logits)[0].max(-1) > 1e-3)

# %% [markdown]
# ## 4. Backward through the memory
#
# The encoder's output m, the memory, enters the loss in one way only: as keys and values of the cross-attentions. Each
# of the L decoder blocks uses the same m, in both roles. By the rule for a letter that occurs several times,
#
#     dm = sum over the blocks of (dm as keys + dm as values)
#
# and dm is all that the encoder ever hears of the loss. Row s of m is hidden where the source is PAD: no gradient.

# %% Its parts, and the whole by differences
dm = tape["encoder"].dy
parts = [tape[f"decoder.blocks.{i}.cross_attention"].gradients[1] for i in range(L)]
roles = [tape[f"decoder.blocks.0.cross_attention.{role}"].gradients[0] for role in ("key", "value")]
claim("one block: dm = dm as keys + dm as values", apart(parts[0], sum(roles)) < 1e-13)
claim("the encoder receives the sum over the blocks", apart(dm, sum(parts)) < 1e-13)
claim("where the source is PAD it is zero", np.array_equal(dm[source == PAD], np.zeros((2, D))))
claim("without the first block it would be another", apart(parts[1], dm) > 0.1)
report = nt.gradcheck(model, source, target, directions=2)  # two random directions in each array
claim("finite differences and the complex step confirm all gradients", report.ok, f"{len(report.rows)} arrays")

# %% [markdown]
# ## 5. Generator, label smoothing, warm-up
#
# The annotated model ends in a **generator**, log_softmax(linear(x)), and its loss takes log-probabilities. Here a
# model returns the logits z = linear(x), and the loss takes the logarithm. It comes to the same, since log-softmax of
# log-probabilities changes nothing: their exponentials sum to 1 already.
#
# **Label smoothing** (section 5.4 of the paper, with ε = 0.1; lesson 01 derives it) replaces the target, 1 for the
# right token, by q = (1 - ε) onehot + ε / V. Then dz = (p - q) / N, and the loss cannot fall below the entropy of q: a
# training loss has to be compared with that, not with 0.
#
# **Warm-up** (the paper's equation 3; lesson 19): at step n the learning rate is
#
#     D^(-1/2) min(n^(-1/2), n warmup^(-3/2)),
#
# a straight line up, then a curve that falls as 1 / sqrt(n). They meet at n = warmup, where the rate is highest:
# 1 / sqrt(D warmup). A longer warm-up has a lower peak, and what follows the peaks is one curve.

# %% Log-probabilities, a target of q, and learning rates
N, eps, wanted = B * T, 0.1, rng.integers(0, V, (B, T))
log_softmax, plain, smooth = nt.LogSoftmax(), nt.CrossEntropyLoss(), nt.CrossEntropyLoss(label_smoothing=eps)
log_p = log_softmax(logits)
claim("the generator's probabilities sum to 1", np.allclose(np.exp(log_p).sum(-1), 1))
loss, dz = plain(logits, wanted), plain.backward()
claim("loss of logits = mean of -log p at the targets",
      abs(loss + np.mean([log_p[b, t, wanted[b, t]] for b, t in np.ndindex(B, T)])) < 1e-13)
claim("of log-probabilities it is the same", abs(plain(log_p, wanted) - loss) < 1e-13)
claim("and so is dz, through log-softmax", apart(log_softmax.backward(plain.backward()), dz) < 1e-13)
q = np.array([[[eps / V + (1 - eps) * (v == wanted[b, t]) for v in range(V)] for t in range(T)] for b in range(B)])
claim("smoothed: L = -sum of q log p / N", abs(smooth(logits, wanted) + np.sum(q * log_p) / N) < 1e-13)
claim("smoothed: dz = (p - q) / N", apart(smooth.backward(), (np.exp(log_p) - q) / N) < 1e-13)
optimizer, steps = nt.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9), range(1, 20001)
rates = {}
for warmup in (2000, 4000, 8000):
    schedule = nt.NoamSchedule(optimizer, d_model=512, warmup=warmup)
    rates[warmup] = [schedule.rate(n) for n in steps]
claim("highest at n = warmup, 1 / sqrt(D warmup)", [np.argmax(curve) + 1 == warmup and abs(
    max(curve) * math.sqrt(512 * warmup) - 1) < 1e-12 for warmup, curve in rates.items()])
claim("lr(n) = D^(-1/2) min(n^(-1/2), n warmup^(-3/2))", [np.isclose(
    rate * math.sqrt(512), min(n ** -0.5, n * 4000 ** -1.5), rtol=1e-12) for n, rate in zip(steps, rates[4000])])
figure("recipe", views.schedules({f"warm-up {warmup}, D = 512": curve for warmup, curve in rates.items()}))

# %% [markdown]
# ## 6. Training, greedy decoding and beam search
#
# The task: words of three to eight letters, to be written backwards. The recipe is the paper's, made small: betas 0.9
# and 0.98, the warm-up above, label smoothing 0.1; but pre-norm, with weight decay and clipping, without dropout.
# Training stops once half-way, to see how decoding fares with a model that still makes mistakes.
#
# Writing begins from BOS alone. **Greedy decoding** appends the likeliest token until EOS: each choice is final.
# **Beam search** keeps the `beam` best unfinished targets, and compares whole targets by log P. Since log P falls with
# each token, that favours short ones; so it is divided by lp = ((5 + length) / 6)^α (Wu et al. 2016, equation 14).
# Mostly that finds a target at least as probable as greedy decoding's, but not always: the beginning of that one may
# have fallen out of the beam.

# %% Words backwards
def decode(max_len=10, **options):
    best = nt.beam_search(model.eval(), source, BOS, EOS, max_len, **options)
    return [ids for (ids, _), in best], np.array([score for (_, score), in best])


task = data.GENERATED_PAIRS["reverse"](13)
known, unseen = ([pair for pair in pairs if len(pair[0]) <= 8] for pairs in (task.training, task.test))
readers, unseen = task.tokenizers(), unseen[:200]
batches = data.Pairs(known[:20000], *readers, batch_size=64, seed=13, pool=4)
source = data.pad([data.frame(readers[0], word) for word, _ in unseen])
V = readers[1].vocab_size + 3               # the letters, PAD, BOS and EOS
model = nt.make_model(readers[0].vocab_size + 3, V, N=1, d_model=64, d_ff=256, h=4, dropout=0.0, max_len=12, rng=13)
optimizer = nt.AdamW(model.parameters(), betas=(0.9, 0.98), eps=1e-9, weight_decay=0.5, decay=lambda p: p.data.ndim > 1)
trainer = nt.Trainer(model, nt.CrossEntropyLoss(eps, ignore_id=PAD), optimizer,
                     nt.NoamSchedule(optimizer, d_model=64, warmup=100, factor=0.16), clip=1.0, workers=1)
right = {}
for steps in (240, 480):
    trainer.fit(batches, steps=240)
    greedy = nt.greedy_decode(model.eval(), source, BOS, EOS, max_len=10)
    alone, beams = decode(beam=1, length_penalty=0), decode(beam=4, length_penalty=0)
    claim(f"{steps} steps: a beam of 1 is greedy decoding",
          [list(row[:len(ids)]) == ids for row, ids in zip(greedy, alone[0])])
    right[steps] = [np.mean([data.unframe(readers[1], ids) == word for ids, (_, word) in zip(found[0], unseen)])
                    for found in (alone, beams)]
    print("    right: greedy {:.1%}, beam of 4 {:.1%}".format(*right[steps]), end="; ")
    better, worse = np.mean(beams[1] > alone[1] + 1e-6), np.mean(beams[1] < alone[1] - 1e-6)
    print(f"log P: by the beam {better:.1%} higher, {worse:.1%} lower")
    if steps == 240:
        claim("the beam finds targets of higher log P more often than of lower", better > worse)
q = np.where(np.arange(V) == 0, 1 - eps + eps / V, eps / V)
floor, reached = -np.sum(q * np.log(q)), np.mean([row["loss"] for row in trainer.history[-20:]])
claim("words it has never seen are written backwards", right[480][0] > 0.85, f"{right[480][0]:.1%}")
claim("the smoothed loss is near the entropy of q", floor < reached < floor + 0.1, f"{reached:.3f} and {floor:.3f}")

# %% [markdown]
# Once the model is good, the beam has little left to win here. Where greedy decoding must fail can be built by hand:
# a "model" that is a table of the next token's probability. "the" looks better than "a" at first, but what follows "a"
# is nearly certain.

# %% A table in which greedy is wrong, and one for the length penalty
class Table:
    def __init__(self, **rows):             # behind what was written: {next: probability}; elsewhere EOS is sure
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
for beam, found, p in ((1, "the cat EOS", 0.6 * 0.4), (2, "a cow EOS", 0.4 * 0.9)):
    text, score = table.search(beam=beam, length_penalty=0)
    claim(f"a beam of {beam} finds {found}", text == found and abs(math.exp(score) - p) < 1e-6, f"P = {p:.2f}")
table = Table(start={"EOS": 0.3, "very": 0.7}, very={"good": 0.4, "bad": 0.3, "dry": 0.3})
for alpha, found, logarithm in ((0, "EOS", math.log(0.3)), (0.6, "very good EOS", math.log(0.28) / (8 / 6) ** 0.6)):
    text, score = table.search(beam=2, length_penalty=alpha)
    claim(f"α = {alpha}: the best is {found}", text == found and abs(score - logarithm) < 1e-6, f"score {score:.2f}")

# %% [markdown]
# ## 7. What the decoder looks at
#
# To write letter t of the reversed word, counted from 0, the decoder needs letter n - 1 - t of the source. It stands
# behind BOS, at place n - t. Nobody told the decoder so. In a picture of the cross-attention weights, one query a row,
# these places lie on a diagonal from the upper right to the lower left. (What a weight does not tell: lesson 12.)

# %% The map of cross-attention
with nt.record(model) as tape:
    (ids, framed), following = data.Pairs(unseen, *readers, 200, 13).batches()[0]
    model(ids, framed)
weights = tape["decoder.blocks.0.cross_attention.attention.softmax"].output.mean(1)         # over the heads
n, place = (ids > EOS).sum(1)[:, None], np.arange(framed.shape[1])
letters = following > EOS
met = np.mean((weights.argmax(-1) == n - place)[letters])
claim("the largest weight lies on the letter to be written, mostly", met > 0.6, f"{met:.1%} of {letters.sum()} letters")
picture = Figure(figsize=(12, 4.6), layout="constrained")
for axes, word in zip(picture.subplots(1, 2), ("reversal", "stop")):
    tokens = [data.frame(reader, text) for reader, text in zip(readers, (word, word[::-1]))]
    model(tokens[0][None], tokens[1][None, :-1])
    image = axes.imshow(model.decoder.blocks[0].cross_attention.weights[0].mean(0), cmap="Blues", vmin=0, vmax=1)
    axes.set(xticks=range(len(word) + 2), xticklabels=["BOS", *word, "EOS"], xlabel="source", ylabel="next target",
             yticks=range(len(word) + 1), yticklabels=[*word[::-1], "EOS"], title=f"{word}: mean of the four heads")
picture.colorbar(image, ax=picture.axes, label="weight")
figure("cross_attention", picture)

# %% [markdown]
# ## Exercises
#
# 1. A model made with `[block] * 6` learns worse than expected. Name two checks that find the mistake, and one that
#    cannot.
# 2. Someone takes the values of cross-attention from the decoder's x, and the keys from the memory. Which two lengths
#    must be equal for that to run, and what can a query then see that the causal mask should have hidden?
# 3. A generator returns softmax(z), and the loss takes its logarithm. For which logits does that go wrong, and why does
#    log-softmax not?
# 4. In section 4 the last decoder block is left out of the sum. Predict which parameters get wrong gradients.
# 5. Write a Table in which a beam of 2 fails and a beam of 3 does not.
# 6. The causal mask is left out in training. What becomes of the loss, and what does greedy decoding write?
#
# With a checker (`numpy-transformer exercise check NN`): 13.1, 13.2, 13.3, 13.4, 13.5, 13.6.
