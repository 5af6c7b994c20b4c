# %% [markdown]
# # 00 Why attention
#
# One translator reads a long sentence, closes the book, and writes from memory. Another may look at the sentence
# again before each word. The first must carry all of it in the head; the second only has to find the right place.
# The first networks that translated worked like the first translator. In 2014 came the second way, attention, and in
# 2017 a network of little else, the Transformer (Vaswani et al., "Attention Is All You Need"). Here two kinds of
# network that differ in this one point learn the same task, and we measure what it costs to close the book. Afterwards
# you can say what attention is for, name the parts of a Transformer, and count its parameters. About 15 minutes, no
# calculus. Each line that begins with ✓ is a claim that has just been checked; a false one would stop the script.

# %% The task: copy a string of digits
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)
BEGIN = 10                                  # the tokens: the digits are 0 to 9, and 10 begins a target


def task(digits):
    """(source, target), wanted: the digits, the digits moved by one place, and what to write: the digits again."""
    begin = np.full((len(digits), 1), BEGIN)
    return (digits, np.concatenate([begin, digits[:, :-1]], axis=1)), digits


rng = np.random.default_rng(0)
(source, target), wanted = task(rng.integers(0, 10, (2, 5)))
show(source=source, target=target, wanted=wanted)

# %% [markdown]
# ## 1. One vector for everything
#
# A **token** is one element of a sequence: in a text a word or a part of one, here a digit. Both kinds of network have
# two halves. The **encoder** turns each source token into a vector of D numbers; these vectors are the **memory**. The
# **decoder** writes: at place t it has seen the target up to token t, looks into the memory, and gives each possible
# next token a score, a logit. Our digits are random, so those already written tell nothing about the next one. What
# the decoder knows of it must come out of the memory.
#
# The older networks (Cho et al. 2014; Sutskever et al. 2014) were recurrent: they read token by token and handed over
# their last state, **one** vector for any sentence. To measure this point and no other, we keep all the rest of a
# Transformer, and squeeze its memory e_1, ..., e_S into the mean, c = (e_1 + ... + e_S) / S. Training also needs the
# way back, `backward`: each e_s gets 1 / S of the correction that c gets. Lesson 02 explains such lines; until then
# `nt.gradcheck` confirms them, by moving each number a little.

# %% The same network twice, with and without the squeeze
class OneVector(nt.Encoder):
    """An encoder that hands over the mean of its vectors, and nothing else."""

    def forward(self, x, mask=None):
        self.remember(x.shape[-2])
        return super().forward(x, mask).mean(axis=-2, keepdims=True)

    def backward(self, dc):
        S = self.recall()
        return super().backward(dc.repeat(S, axis=-2) / S)


def network(D, squeeze):
    model = nt.EncoderDecoder(10, 11, D, num_heads=2, num_layers=1, d_ff=2 * D, dropout=0.0, pad_id=None, rng=0)
    if squeeze:                             # from the same first weights
        model.encoder = OneVector(1, D, 2, 2 * D, dropout=0.0).load_state_dict(model.encoder.state_dict())
    return model


free, squeezed = (network(8, squeeze).astype(np.float64) for squeeze in (False, True))
x = rng.standard_normal((5, 8))
claim("the squeeze is the mean over the tokens", np.allclose(squeezed.encoder(x)[0], sum(free.encoder(x)) / 5))
claim("its way back is right", nt.gradcheck(OneVector(1, 4, 2, 6, dropout=0.0), x[:, :4]).ok)
claim("both have the same number of parameters", free.num_parameters() == squeezed.num_parameters())
predict("shape of the memory of 2 strings of 5 digits with one vector, D = 8?", (2, 1, 8))
claim("attention keeps a vector for each of 500 tokens, the squeeze keeps one",
      [model.encode(source.repeat(100, axis=1)).shape[1] == length for model, length in ((free, 500), (squeezed, 1))])

# %% [markdown]
# ## 2. What attention does instead
#
# The decoder looks into the memory by **attention**: place t gives every source token s a weight P_ts. The weights
# of a place are positive, their sum is 1, and what it takes is the weighted mean of vectors v_s, each made of e_s:
#
#     y_t = P_t1 v_1 + ... + P_tS v_S
#
# A weight says how well what place t looks for (its query) fits what token s offers (its key), so each place takes
# a mixture of its own; lesson 05 derives it. Our networks do so twice side by side, in two heads (lesson 07). With one
# vector there is one weight, and it must be 1: wherever the decoder looks, it finds the same.

# %% Weights and mixtures, before any training
for title, model in (("attention", free), ("one vector", squeezed)):
    with nt.record(model) as tape:
        model(source, target)
    look = tape["decoder.blocks.0.cross_attention.attention"]
    P, v, y = look.module.weights, look.inputs[2], look.output
    claim(f"{title}: the weights of a place sum to 1", P.min() > 0 and np.allclose(P.sum(-1), 1),
          f"strings, heads, places, tokens: {P.shape}")
    claim(f"{title}: y_t = P_t1 v_1 + ... + P_tS v_S",
          np.allclose(y, sum(P[..., s:s + 1] * v[..., s:s + 1, :] for s in range(P.shape[-1]))))
    spread = np.ptp(y, axis=-2).max()
    claim("  so the places take " + ("different mixtures" if model is free else "all the same"),
          spread > 0.01 if model is free else spread < 1e-12)
seen = nt.influence(free, source[:1], target[:1], of="decoder")
claim("place t does not see the target after token t", seen[np.triu_indices(5, 1)] == 0)

# %% [markdown]
# ## 3. How much can one vector hold?
#
# There are 10ⁿ strings of n digits. To tell them apart takes n log2(10) = 3.32 n bits. D numbers of b bits have at
# most 2^(D b) values, so they cannot hold more than D b / 3.32 digits. This limit is hard, but it is high.

# %% Fifteen digits in one number
predict("how many digits can 16 numbers of 32 bits hold at most?", math.floor(16 * 32 / math.log2(10)))
back = f"{float('271828182845904'):.0f}"
claim("one float64 (53 bits for the digits) holds any 15 digits",
      15 * math.log2(10) < 53 and back == "271828182845904", f"271828182845904 comes back as {back}")

# %% [markdown]
# But training must find out how to pack and unpack the digits, and of that the count says nothing. So we measure how
# many bits **come through**. If the decoder gives the right digit the probability p, then -log2(p) bits are still
# missing: none if it is sure and right, 3.32 if it guesses among ten. Their mean is the cross-entropy loss of lesson
# 01, divided by log(2). The others came through the memory:
#
#     bits of a string that came through = n (log2(10) - loss / log(2))
#
# On average the memory holds at least so many bits of the string (by the chain rule of information; a better decoder
# might read more). Four networks learn from strings of 1 to 16 digits, drawn anew at each step.

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
    """For each length: the part of the strings that have no mistake, and the bits that came through."""
    rows, criterion = [], nt.CrossEntropyLoss().eval()
    for n in LENGTHS:
        inputs, wanted = task(np.random.default_rng([4, n]).integers(0, 10, (400, n)))
        logits = model(*inputs)
        bits = n * (math.log2(10) - criterion(logits, wanted) / math.log(2))
        rows.append(((logits.argmax(-1) == wanted).all(-1).mean(), bits))
    return np.array(rows).T


LENGTHS = np.arange(1, 17)
PLANS = {"attention, D = 16": (16, False, 400), "one vector, D = 16": (16, True, 400),
         "one vector, D = 16, 3 times as long": (16, True, 1200), "one vector, D = 48": (48, True, 400)}
models = {title: train(*plan) for title, plan in PLANS.items()}
results = {title: measure(model) for title, model in models.items()}

# %% The four networks in one picture
picture = Figure(figsize=(13, 4.4), layout="constrained")
panels = picture.subplots(1, 2)
for axes, row, top, title in zip(panels, range(2), (1.05, 56), (
        "part of the strings without a mistake", "bits of a string that came through")):
    for (name, result), style in zip(results.items(), ("C0o-", "C1s--", "C1^:", "C2D-.")):
        axes.plot(LENGTHS, result[row], style, label=name, linewidth=2, markersize=6)
    axes.set(title=title, xlabel="digits in the string", xticks=LENGTHS[3::4], xlim=(0, 16.7), ylim=(-0.03 * top, top))
    axes.grid(alpha=0.3)
panels[1].plot(LENGTHS, LENGTHS * math.log2(10), color="0.75", linewidth=7, zorder=0, label="all: 3.32 bits a digit")
picture.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=5, columnspacing=1)
figure("bottleneck", picture)

attention, *squeezes = results.values()
claim("with attention, over 95% of the strings of every length are copied without a mistake", attention[0] > 0.95)
claim("  and over 97% of their bits come through", attention[1] > 0.97 * LENGTHS * math.log2(10))
claim("with one vector, most strings of two digits are, but hardly any of sixteen",
      [exact[1] > 0.8 and exact[15] < 0.02 for exact, _ in squeezes])
walls = [np.interp(-0.5, -exact, LENGTHS) for exact, _ in squeezes]         # where half of the strings have a mistake
claim("  three times the training, or the width, moves the wall by less than two digits", max(walls) < walls[0] + 2,
      f"half of the strings fail at {', '.join(f'{wall:.1f}' for wall in walls)} digits")
claim("  and the bits stop growing", [bits.max() < 28 for _, bits in squeezes],
      f"at {', '.join(f'{bits.max():.0f}' for _, bits in squeezes)} of up to 53")

# %% [markdown]
# The vector of D = 16 is not short of bits: it has 512, and some 13 came through. With attention the memory grows with
# the string, and up to 16 digits there is no wall. For this reason Bahdanau et al. (2014) brought attention into
# translation.
#
# ## 4. Who looks where?
#
# An X-ray: move the vector with which source token s enters the encoder a little, and see how far the logits of place
# t move for it. The ratio is the influence of s on t, the size of a derivative. `nt.influence` measures it for all
# s and t.

# %% An X-ray of two trained networks
text, rays = "314159265358", {}
inputs, digits = task(np.array([[int(digit) for digit in text]]))
for title in ("attention, D = 16", "one vector, D = 16"):
    rays[title] = nt.influence(models[title], *inputs, of="encoder", directions=8)
    copy = nt.greedy_decode(models[title], digits, bos=BEGIN, eos=BEGIN, max_len=len(text))
    print(f"  {title:<18}  {text} is copied as {''.join(map(str, copy[0]))}")
figure("xray", views.xray(rays, outputs=text, inputs=text))
first, second = (ray.argmax(1) for ray in rays.values())
claim("with attention, what moves most places t most is source token t", (first == np.arange(len(text))).mean() > 0.7)
claim("with one vector, the same few source tokens move all places most", len(set(second)) <= 3)

# %% [markdown]
# With attention the places have found their digits; nobody told the network where to look. With one vector all rows
# are alike, since every place sees the source through the same vector.
#
# ## 5. The length of the path
#
# A recurrent network, h_t = tanh(h_{t-1} A + x_t B), has another weakness: what token s says reaches h_t in t - s
# further steps, each of which multiplies by A and bends by tanh. Self-attention, where the tokens of one sequence
# look at each other, needs one step for any distance. For T tokens of D features, in orders of size (paper, table 1):
#
#     one layer           longest path     steps that wait for each other     multiplications
#     recurrent           T                T                                  T D²
#     self-attention      1                1                                  T² D
#
# The last column is the price: twice the tokens, four times the pairs.

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
rays = {name: sum(nt.influence(make(), rng.standard_normal((T, D)), directions=8) for _ in range(5)) / 5
        for name, make in kinds.items()}                                        # the mean of five networks
curves = {name: [np.diagonal(ray, -distance).mean() for distance in range(1, T)] for name, ray in rays.items()}
claim("recurrent: a state knows nothing of later tokens", rays["recurrent"][np.triu_indices(T, 1)] == 0)
claim("self-attention: every token moves every output", rays["self-attention"] > 0)
fading, level = (curve[0] / curve[19] for curve in curves.values())
claim("recurrent: hardly anything arrives over 20 tokens", fading > 50, f"1/{fading:.0f} of what arrives over one")
claim("self-attention: the distance does not matter", 1 / 3 < level < 3, f"{1 / level:.1f} of what arrives over one")
picture = Figure(figsize=(8, 4.2), layout="constrained")
axes = picture.subplots()
for (name, curve), style in zip(curves.items(), ("C1s--", "C0o-")):
    axes.semilogy(range(1, T), curve, style, label=name)
axes.set(xlabel="distance t - s (tokens)", ylabel="influence", title="What token s still means to output t")
axes.grid(alpha=0.3)
axes.legend()
figure("paths", picture)

# %% [markdown]
# The recurrent influence falls by about the same factor at each step. (A larger A can make it grow instead; the gates
# of an LSTM slow the decay, but the path is as long.) Training sends its corrections back along the same paths.
#
# ## 6. The Transformer
#
# The Transformer uses attention wherever tokens have to meet, in three places (section 3.2.3 of the paper): the source
# looks at itself, the target looks at what is already written of it, and the target looks at the memory. In between,
# each token passes a small network of its own, the feed-forward layer. A sum around each part keeps what was there
# before, norms keep the sizes alike, positions tell the tokens where they stand.
#
# Where are the parameters? A Linear from m to n features has m n weights and n biases, a norm has a factor and a
# shift for each feature. With D = d_model, F = d_ff and N blocks in each half:
#
# * an attention has four Linears from D to D:           A = 4 (D² + D)
# * a feed-forward layer goes from D to F and back:      W = 2 D F + F + D
# * an encoder block A + W + 2 norms, a decoder block 2 A + W + 3 norms, in all 3 A + 2 W + 10 D
# * a row of D for each source and each target token, a Linear from D to the target tokens, a last norm in each half
#
# The paper's form has no last norms, and one matrix of V D numbers serves all three ends.

# %% The architecture, drawn from a model's own modules, and the formula
figure("architecture", views.architecture(nt.make_model(11, 11, N=2, d_model=16, d_ff=32, h=2)))


def in_blocks(N, D, F):
    return N * (3 * 4 * (D ** 2 + D) + 2 * (2 * D * F + F + D) + 10 * D)


model, paper = nt.make_model(40, 30, 3, 24, 50, 4), nt.make_model(30, 30, 3, 24, 50, 4, norm="post", tie_weights=True)
count = in_blocks(3, 24, 50) + 40 * 24 + 30 * 24 + (24 * 30 + 30) + 2 * 2 * 24
claim("the formula counts the parameters, in both forms", count == model.num_parameters()
      and in_blocks(3, 24, 50) + 30 * 24 == paper.num_parameters(), f"{count:,} and {paper.num_parameters():,}")
base = in_blocks(6, 512, 2048) + 37_000 * 512
claim("the base model of 2017: N = 6, D = 512, F = 2048, about 37,000 tokens", 62e6 < base < 68e6,
      f"{base / 1e6:.0f} million; the paper's table 3 says 65")

# %% [markdown]
# ## Exercises
#
# 1. What shape have the weights of the cross-attention for 3 strings, 7 source tokens, 5 target tokens and 4 heads?
# 2. Squeeze to the last vector instead of the mean. Who gets the correction? Let gradcheck judge. Does the wall move?
# 3. Predict, then measure: attention has learned from up to 16 digits. What does it make of 24?
# 4. Someone forgets to move the target: target = digits. Now all copy perfectly. Why? Which claim would notice it?
# 5. Which part of the base model's parameters is in the attentions, which in the feed-forward layers?
# 6. A recording has 60,000 tokens. Which column of the table in section 5 is the trouble now?
