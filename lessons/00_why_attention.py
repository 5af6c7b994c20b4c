# %% [markdown]
# # 00 Why attention
#
# Two translators are given the same long sentence. The first reads it once, closes the book, and writes the whole
# translation without looking again. The second may look at the sentence before writing each word. The first translator
# has to keep everything in mind; the second only has to find the right place.
#
# The first neural networks that translated worked like the first translator. In 2014 attention made the second way
# possible (Bahdanau et al.), and in 2017 came a network that consists of little else, the Transformer (Vaswani et al.,
# "Attention Is All You Need"). In this lesson two kinds of network that differ only in this one point learn the same
# task, and we measure what it costs to close the book. By the end you will be able to say what attention is for, name
# the parts of a Transformer, and count its parameters.
#
# The lesson takes about 15 minutes and needs no calculus. Each printed line that begins with ✓ is a claim that has just
# been checked. If a claim were false, the lesson would stop there with an error.

# %% The task: copy a string of digits
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)
BEGIN = 10                                  # tokens 0 to 9 are the digits; token 10 marks the beginning of a target


def task(digits):
    """Return (source, target), answers: the digits, the digits shifted by one position, and the digits to write."""
    begin = np.full((len(digits), 1), BEGIN)
    target = np.concatenate([begin, digits[:, :-1]], axis=1)
    return (digits, target), digits


rng = np.random.default_rng(0)
(source, target), answers = task(rng.integers(0, 10, (2, 5)))
show(source=source, target=target, answers=answers)

# %% [markdown]
# ## 1. One vector for the whole sentence
#
# A **token** is one element of a sequence. In a text it is a word or a part of a word; here it is a digit. Both kinds
# of network have two halves. The **encoder** turns each source token into a vector of D numbers, and these vectors
# together are the **memory**. The **decoder** writes the output. At position t it has read the target up to token t, it
# uses the memory, and it gives every possible next token a score, called a logit. In the example above, the decoder has
# read 10 8 6 at position 2 and should give the digit 5 the highest score.
#
# Our digits are random, so the digits already written say nothing about the next one. Whatever the decoder knows about
# the next digit must have come from the memory.
#
# The older networks (Cho et al. 2014; Sutskever et al. 2014) were recurrent: they read the sentence token by token and
# passed on only their last state, **one** vector for a sentence of any length. We want to measure the effect of this
# one point and of nothing else. So we keep everything else as it is in a Transformer, and replace its memory
# e_1, ..., e_S by the mean of these vectors, c = (e_1 + ... + e_S) / S.
#
# Training also needs the reverse direction, `backward`: each e_s receives 1 / S of the correction that c receives.
# Forward keeps the number S for it (`remember`), and backward takes it out again (`recall`). Lesson 02 explains how
# such lines are derived. Until then `nt.gradcheck` verifies them, by changing each number a little and measuring what
# happens.

# %% The same network twice, with the full memory and with one vector
class OneVector(nt.Encoder):
    """An encoder that outputs only the mean of its vectors."""

    def forward(self, x, mask=None):
        self.remember(x.shape[-2])
        return super().forward(x, mask).mean(axis=-2, keepdims=True)

    def backward(self, dc):
        S = self.recall()
        return super().backward(dc.repeat(S, axis=-2) / S)


def network(D, squeeze):
    model = nt.EncoderDecoder(10, 11, D, num_heads=2, num_layers=1, d_ff=2 * D, dropout=0.0, pad_id=None, rng=0)
    if squeeze:                             # the squeezed network starts from the same initial weights
        model.encoder = OneVector(1, D, 2, 2 * D, dropout=0.0).load_state_dict(model.encoder.state_dict())
    return model


full = network(8, squeeze=False).astype(np.float64)
squeezed = network(8, squeeze=True).astype(np.float64)
x = rng.standard_normal((5, 8))
claim("the squeezed encoder outputs the mean of the vectors",
      np.allclose(squeezed.encoder(x)[0], sum(full.encoder(x)) / 5))
claim("its backward is right", nt.gradcheck(OneVector(1, 4, 2, 6, dropout=0.0), x[:, :4]).ok)
claim("both networks have the same number of parameters", full.num_parameters() == squeezed.num_parameters())
predict("what is the shape of the memory of 2 strings of 5 digits with one vector, if D = 8?", (2, 1, 8),
        why="The axes are strings, tokens and features. The mean over the 5 tokens leaves a token axis of size 1, "
            "however many tokens there are.")
long_source = source.repeat(100, axis=1)
claim("for 500 tokens the full memory has 500 vectors, the squeezed one has one",
      [full.encode(long_source).shape[1] == 500, squeezed.encode(long_source).shape[1] == 1])

# %% [markdown]
# ## 2. What attention does instead
#
# The decoder reads the memory by **attention**. At position t it gives every source token s a weight P_ts. The weights
# of one position are positive and sum to 1. The position receives a weighted mean of vectors v_s, where each v_s is
# computed from e_s:
#
#     y_t = P_t1 v_1 + ... + P_tS v_S
#
# If position t gives the weight 0.9 to the first of two source tokens, it receives 0.9 v_1 + 0.1 v_2. A weight says how
# well what position t looks for (its query) matches what token s offers (its key), so each position gets its own
# mixture. Lesson 05 derives all of this. Our networks do it twice in parallel, in two heads (lesson 07). When the
# memory is a single vector, there is only one weight, and it must be 1: wherever the decoder looks, it finds the same.

# %% Weights and mixtures, before any training
for title, model in (("attention", full), ("one vector", squeezed)):
    with nt.record(model) as tape:
        model(source, target)
    call = tape["decoder.blocks.0.cross_attention.attention"]
    P, v, y = call.module.weights, call.inputs[2], call.output
    claim(f"{title}: the weights of each position are positive and sum to 1",
          P.min() > 0 and np.allclose(P.sum(-1), 1), f"the axes are strings, heads, positions, tokens: {P.shape}")
    claim(f"{title}: y_t = P_t1 v_1 + ... + P_tS v_S",
          np.allclose(y, sum(P[..., s:s + 1] * v[..., s:s + 1, :] for s in range(P.shape[-1]))))
    spread = np.ptp(y, axis=-2).max()       # how much y differs between the positions
    if model is full:
        claim(f"{title}: the positions receive different mixtures", spread > 0.01)
    else:
        claim(f"{title}: all positions receive the same", spread < 1e-12)
seen = nt.influence(full, source[:1], target[:1], of="decoder")
claim("position t cannot see target tokens after token t", seen[np.triu_indices(5, 1)] == 0)

# %% [markdown]
# ## 3. How much can one vector hold?
#
# There are 10ⁿ strings of n digits, and telling them apart takes n log2(10) = 3.32 n bits. D numbers of b bits can take
# at most 2^(D b) different values, so they cannot hold more than D b / 3.32 digits. No network can exceed this limit,
# but the limit is high.

# %% Fifteen digits in one number
predict("how many digits can 16 numbers of 32 bits hold at most?", math.floor(16 * 32 / math.log2(10)),
        why="16 numbers have 16 · 32 = 512 bits. A digit needs 3.32 of them, and 512 / 3.32 = 154.1.")
restored = f"{float('271828182845904'):.0f}"
claim("one float64, which has 53 bits for its digits, holds any 15 decimal digits",
      15 * math.log2(10) < 53 and restored == "271828182845904", f"271828182845904 is restored as {restored}")

# %% [markdown]
# Training, however, has to find out how to pack the digits and how to unpack them, and counting bits says nothing about
# that. So we measure how many bits actually **get through** from the encoder to the decoder.
#
# If the decoder gives the right digit the probability p, then -log2(p) bits of information about it are still missing.
# With p = 1 nothing is missing. A guess among ten digits, p = 0.1, lacks all 3.32 bits. With p = 0.5 one bit is
# missing, so 2.32 bits got through. The mean of the missing bits is the cross-entropy loss of lesson 01, divided by
# log(2). The other bits of a string came through the memory:
#
#     bits that got through = n (log2(10) - loss / log(2))
#
# The memory holds at least this many bits of the string on average, by the chain rule of information. It may hold more,
# which a better decoder could read. Four networks now learn from strings of 1 to 16 digits, with new strings in each
# step. This takes 10 to 30 seconds, and the progress is shown.

# %% Training four networks
def train(D, squeeze, steps):
    model = network(D, squeeze)
    optimizer = nt.Adam(model.parameters())
    schedule = nt.CosineSchedule(optimizer, lr=0.01, min_lr=0.0005, warmup=50, steps=steps)

    def batch(n):
        rng = np.random.default_rng([3, n])
        return task(rng.integers(0, 10, (64, rng.integers(1, 17))))

    nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, schedule, clip=1.0, workers=1).fit(batch, steps)
    return model.eval()


def measure(model):
    """Return, for each length, the fraction of strings copied without an error, and the bits that got through."""
    rows = []
    criterion = nt.CrossEntropyLoss().eval()
    for n in LENGTHS:
        inputs, answers = task(np.random.default_rng([4, n]).integers(0, 10, (400, n)))
        logits = model(*inputs)
        correct = (logits.argmax(-1) == answers).all(-1)
        bits = n * (math.log2(10) - criterion(logits, answers) / math.log(2))
        rows.append((correct.mean(), bits))
    return np.array(rows).T


LENGTHS = np.arange(1, 17)
PLANS = {"attention, D = 16": (16, False, 400), "one vector, D = 16": (16, True, 400),
         "one vector, D = 16, 3 times the steps": (16, True, 1200), "one vector, D = 48": (48, True, 400)}
models = {title: train(*plan) for title, plan in PLANS.items()}
results = {title: measure(model) for title, model in models.items()}

# %% The four networks in one picture
picture = Figure(figsize=(13, 4.4), layout="constrained")
panels = picture.subplots(1, 2)
titles = ("strings copied without an error", "information that reached the decoder")
labels = ("fraction of the strings", "bits per string")
for row, (axes, top) in enumerate(zip(panels, (1.05, 56))):
    for (name, result), style in zip(results.items(), ("C0o-", "C1s--", "C1^:", "C2D-.")):
        axes.plot(LENGTHS, result[row], style, label=name, linewidth=2, markersize=6)
    axes.set(title=titles[row], xlabel="digits in the string", ylabel=labels[row], xticks=LENGTHS[3::4],
             xlim=(0, 16.7), ylim=(-0.03 * top, top))
    axes.grid(alpha=0.3)
panels[1].plot(LENGTHS, LENGTHS * math.log2(10), color="0.75", linewidth=7, zorder=0, label="all: 3.32 bits per digit")
picture.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=5, columnspacing=1)
figure("bottleneck", picture)

attention, *squeezes = results.values()
claim("with attention, over 95% of the strings of every length are copied without an error", attention[0] > 0.95)
claim("with attention, over 97% of their bits get through", attention[1] > 0.97 * LENGTHS * math.log2(10))
claim("with one vector, over 80% of the strings of 2 digits are copied, but under 2% of those of 16",
      [exact[1] > 0.8 and exact[15] < 0.02 for exact, _ in squeezes])
# The length at which half of the strings have an error. Both are negated because np.interp needs increasing values.
half = [np.interp(-0.5, -exact, LENGTHS) for exact, _ in squeezes]
claim("three times the steps, or three times the width, gains less than three digits",
      max(half) < half[0] + 3, f"half of the strings fail at {', '.join(f'{n:.1f}' for n in half)} digits")
claim("with one vector, the number of bits that get through stops growing", [bits.max() < 28 for _, bits in squeezes],
      f"at {', '.join(f'{bits.max():.0f}' for _, bits in squeezes)} of up to 53")

# %% [markdown]
# The vector of D = 16 numbers does not lack space: it has 512 bits, and fewer than 28 got through. With attention the
# memory grows with the string, and up to 16 digits we see no limit. This is why Bahdanau et al. (2014) introduced
# attention into translation.
#
# ## 4. Which token influences which output?
#
# We can look inside the trained networks as with an X-ray. Change the vector with which source token s enters the
# encoder by a small amount, and measure how much the logits of position t change. The ratio of the two is the influence
# of s on t; it is the size of a derivative. `nt.influence` measures it for all s and t.

# %% An X-ray of two trained networks
text = "314159265358"
influences = {}
inputs, digits = task(np.array([[int(digit) for digit in text]]))
for title in ("attention, D = 16", "one vector, D = 16"):
    influences[title] = nt.influence(models[title], *inputs, of="encoder", directions=8)
    copy = nt.greedy_decode(models[title], digits, bos=BEGIN, eos=BEGIN, max_len=len(text))
    print(f"  {title:<18}  {text} is copied as {''.join(map(str, copy[0]))}")
picture = views.xray(influences, outputs=text, inputs=text)
picture.supxlabel("source token s", fontsize=12)
picture.supylabel("output position t (the digit to write)", fontsize=12)
figure("xray", picture)
first, second = (influence.argmax(1) for influence in influences.values())
claim("with attention, source token t has the largest influence on over 70% of the positions t",
      (first == np.arange(len(text))).mean() > 0.7)
claim("with one vector, at most three source tokens dominate all positions", len(set(second)) <= 3)

# %% [markdown]
# With attention, the positions have found their digits, although training never told the network where to look. With
# one vector all rows look alike, because every position sees the source through the same vector.
#
# ## 5. The length of the path
#
# A recurrent network, h_t = tanh(h_{t-1} A + x_t B), has another weakness. What token s says reaches h_t only after
# t - s further steps, and each of them multiplies by A and applies tanh. In self-attention, where the tokens of one
# sequence look at each other, any distance is covered in one step. For one layer with T tokens of D features, these are
# the orders of magnitude (table 1 of the paper). The steps are those that have to wait for each other:
#
#     layer            longest path   steps   multiplications
#     recurrent        T              T       T D²
#     self-attention   1              1       T² D
#
# The last column is the price of attention: twice as many tokens make four times as many pairs.

# %% Influence over distance, in layers with random weights
class Recurrent(nt.Module):
    def __init__(self, D, rng):
        self.A, self.B = rng.standard_normal((2, D, D)) / math.sqrt(D)

    def forward(self, x):
        states = [np.zeros(x.shape[-1])]
        for token in x:
            states.append(np.tanh(states[-1] @ self.A + token @ self.B))
        return np.stack(states[1:])


T, D = 24, 16
kinds = {"recurrent": lambda: Recurrent(D, rng), "self-attention": lambda: nt.SelfAttention(D, num_heads=2, rng=rng)}
influences = {name: sum(nt.influence(make(), rng.standard_normal((T, D)), directions=8) for _ in range(5)) / 5
              for name, make in kinds.items()}                                  # the mean of five networks
curves = {name: [np.diagonal(influence, -distance).mean() for distance in range(1, T)]
          for name, influence in influences.items()}
claim("recurrent: later tokens have no influence on a state", influences["recurrent"][np.triu_indices(T, 1)] == 0)
claim("self-attention: every token influences every output", influences["self-attention"] > 0)
fading, level = (curve[0] / curve[19] for curve in curves.values())
claim("recurrent: over 20 tokens, less than 1/50 of the influence over one token is left", fading > 50,
      f"1/{fading:.0f}")
claim("self-attention: the influence over 20 tokens is about that over one token", 1 / 3 < level < 3,
      f"{1 / level:.1f} of it")
picture = Figure(figsize=(8, 4.2), layout="constrained")
axes = picture.subplots()
for (name, curve), style in zip(curves.items(), ("C1s--", "C0o-")):
    axes.semilogy(range(1, T), curve, style, label=name)
axes.set(xlabel="distance t - s (tokens)", ylabel="influence", title="Influence of token s on output t")
axes.grid(alpha=0.3)
axes.legend()
figure("paths", picture)

# %% [markdown]
# In the recurrent network the influence falls by about the same factor with each step. (With a larger A it can grow
# instead. The gates of an LSTM slow the decay down, but its path is just as long.) This matters for learning, because
# training sends its corrections back along the same paths.
#
# ## 6. The Transformer
#
# The Transformer uses attention wherever tokens have to exchange information. It does so in three places (section 3.2.3
# of the paper): the source tokens attend to each other, each target token attends to the target tokens before it and to
# itself, and the target tokens attend to the memory. Between these, a small network called the feed-forward layer
# processes each token separately. Around each of these parts, a residual connection adds the part's input to its
# output, normalization keeps the features in one range, and positional encodings tell the network where each token
# stands.
#
# Where are the parameters? A Linear from m to n features has m n weights and n biases. A norm has one factor and one
# shift for each feature, so 2 D numbers. With D = d_model, F = d_ff and N blocks in each half:
#
# * an attention has four Linears from D to D:           A = 4 (D² + D)
# * a feed-forward layer goes from D to F and back:      W = 2 D F + F + D
# * an encoder block has A + W + 2 norms, a decoder block 2 A + W + 3 norms: together 3 A + 2 W + 10 D
# * each source token and each target token has a row of D numbers in an embedding table, a Linear leads from D to the
#   target tokens, and each half ends in a norm
#
# For example, D = 512 gives A = 4 (512² + 512) = 1,050,624 parameters for one attention. The model of the paper itself
# has no final norms, and one matrix of V D numbers serves as both embedding tables and as the output Linear, which then
# has no bias (lesson 03).

# %% The architecture, drawn from a model's own modules, and the formula
figure("architecture", views.architecture(nt.make_model(11, 11, N=2, d_model=16, d_ff=32, h=2)))


def in_blocks(N, D, F):
    """The number of parameters in N encoder blocks and N decoder blocks."""
    attention = 4 * (D ** 2 + D)
    feed_forward = 2 * D * F + F + D
    return N * (3 * attention + 2 * feed_forward + 10 * D)


model = nt.make_model(40, 30, 3, 24, 50, 4)
paper = nt.make_model(30, 30, 3, 24, 50, 4, norm="post", tie_weights=True)
count = in_blocks(3, 24, 50) + 40 * 24 + 30 * 24 + (24 * 30 + 30) + 2 * 2 * 24
claim("the formula gives the number of parameters of both forms", count == model.num_parameters()
      and in_blocks(3, 24, 50) + 30 * 24 == paper.num_parameters(), f"{count:,} and {paper.num_parameters():,}")
base = in_blocks(6, 512, 2048) + 37_000 * 512
claim("the base model of 2017 (N = 6, D = 512, F = 2048, about 37,000 tokens) has 62 to 68 million", 62e6 < base < 68e6,
      f"{base / 1e6:.0f} million; table 3 of the paper says 65 million")

# %% [markdown]
# ## Exercises
#
# 1. What is the shape of the cross-attention's weights for 3 strings, 7 source tokens, 5 target tokens and 4 heads?
# 2. Squeeze the memory to its last vector instead of the mean. Which vector receives the correction in backward? Verify
#    your backward with gradcheck. Does the limit on the number of digits change?
# 3. Predict, then measure: the network with attention has learned from strings of up to 16 digits. How well does it
#    copy 24 digits?
# 4. Someone forgets to shift the target: target = digits. Now all networks copy perfectly. Why? Which claim would
#    notice the mistake?
# 5. What fraction of the base model's parameters is in the attentions, and what fraction in the feed-forward layers?
# 6. An audio recording has 60,000 tokens. Which column of the table in section 5 is the problem now?
