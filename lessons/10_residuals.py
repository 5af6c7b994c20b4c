# %% [markdown]
# # 10 Residuals, pre-norm and post-norm
#
# In which order do the residual and the norm come? Learners ask this again and again, since the paper's text and the
# best known code for it give different answers. Both train, yet they are not the same network. This lesson takes the
# residual connection apart, forward and backward, measures what each order does to the gradient at depths up to 24,
# and trains both with and without warm-up. Afterwards you can write the backward of either block, and say what the
# skip path carries. Lesson 08 explains LayerNorm. About 15 minutes.

# %% Imports, and components with random parameters
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.classroom import claim, figure, lesson, predict, slopes

lesson.start(__name__)
rng = np.random.default_rng(10)
D, F = 6, 10                                # features of a token, hidden features of a feed-forward layer
x, dy = rng.standard_normal((2, 5, D)), rng.standard_normal((2, 5, D))         # L is the sum of dy * y


def shaken(module):                         # in float64, and with every parameter random: no γ is 1, no bias 0
    for parameter in module.astype(np.float64).parameters():
        parameter.data = rng.standard_normal(parameter.data.shape) / D ** 0.5
    return module


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def cosine(a, b):
    return np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b)


# %% [markdown]
# ## 1. One residual
#
# y = x + f(x) (He et al. 2015). x occurs twice: in the skip with slope 1, and inside f. Where a letter occurs twice,
# the gradients of both places are added:
#
#     dx = dy + f.backward(dy)
#
# The slope of the skip is 1, and a slope is multiplied by dy. So the skip brings dy, and not the number 1.

# %% The right dx, and four that are not
predict("y = x + f(x), and f.backward returns zeros: what is dx?", "dy")
f = shaken(nt.FeedForward(D, F))
y = x + f(x)
branch = f.backward(dy)
f.eval()                                    # what follows only asks for values
true = slopes(lambda x: np.sum(dy * (x + f(x))), x)
claim("dx = dy + f.backward(dy)", apart(dy + branch, true) < 1e-13)
for wrong, name in ((branch, "f.backward(dy)         the skip is forgotten"),
                    (dy, "dy                     the branch is forgotten"),
                    (1 + branch, "1 + f.backward(dy)     the slope is not multiplied by dy"),
                    (2 * dy + branch, "2 dy + f.backward(dy)  the skip is added twice")):
    claim(f"wrong: {name}", apart(wrong, true) > 0.2,
          f"error {apart(wrong, true):.2f}, cosine {cosine(wrong, true):.2f}")

# %% [markdown]
# ## 2. The two orders
#
#     post-norm    x = norm(x + f(x))       the paper's text, section 3.1: LayerNorm(x + Sublayer(x))
#     pre-norm     x = x + f(norm(x))       the annotated Transformer's code, GPT-2, and most models since
#
# A block has two such lines, one with attention and one with the feed-forward layer. Written with a name for each
# value, and backward from the last line to the first (f.b stands for f.backward):
#
#     pre-norm      a = x + attention(norm1(x))            da = dy + norm2.b(feed_forward.b(dy))
#                   y = a + feed_forward(norm2(a))         dx = da + norm1.b(attention.b(da))
#
#     post-norm     u = x + attention(x)                   dw = norm2.b(dy)
#                   a = norm1(u)                           da = dw + feed_forward.b(dw)
#                   w = a + feed_forward(a)                du = norm1.b(da)
#                   y = norm2(w)                           dx = du + attention.b(du)

# %% Each of these lines as a claim
pre, post = (shaken(nt.EncoderBlock(D, 2, F, dropout=0.0, norm=norm)) for norm in ("pre", "post"))
with nt.record(pre) as tape, nt.record(post) as tape_post:         # what each part returns on the way back
    y_pre, dx_pre = pre(x), pre.backward(dy)
    y_post, dx_post = post(x), post.backward(dy)
pre.eval(), post.eval()
a = x + pre.attention(pre.norm1(x))
claim("pre-norm:  y = a + feed_forward(norm2(a))", apart(y_pre, a + pre.feed_forward(pre.norm2(a))) < 1e-14)
a_post = post.norm1(x + post.attention(x))
w = a_post + post.feed_forward(a_post)
claim("post-norm: y = norm2(w)", apart(y_post, post.norm2(w)) < 1e-14)
norm1, norm2 = (tape[name].gradients[0] for name in ("norm1", "norm2"))
dw, feed_forward, du, attention = (tape_post[name].gradients[0] for name in (
    "norm2", "feed_forward", "norm1", "attention"))
for name, line, loss, letter in (
        ("pre-norm:  da = dy + norm2.b(feed_forward.b(dy))", dy + norm2,
         lambda a: np.sum(dy * (a + pre.feed_forward(pre.norm2(a)))), a),
        ("pre-norm:  dx = da + norm1.b(attention.b(da))", dy + norm2 + norm1, lambda x: np.sum(dy * pre(x)), x),
        ("post-norm: dw = norm2.b(dy)", dw, lambda w: np.sum(dy * post.norm2(w)), w),
        ("post-norm: da = dw + feed_forward.b(dw)", dw + feed_forward,
         lambda a: np.sum(dy * post.norm2(a + post.feed_forward(a))), a_post),
        ("post-norm: dx = du + attention.b(du)", du + attention, lambda x: np.sum(dy * post(x)), x)):
    claim(name, apart(line, slopes(loss, letter)) < 1e-12)
true, true_post = (slopes(lambda x: np.sum(dy * block(x)), x) for block in (pre, post))
claim("nt.EncoderBlock returns these dx", [apart(dx_pre, true) < 1e-12, apart(dx_post, true_post) < 1e-12])

# %% [markdown]
# Layers that are right can be wired wrongly, and a check of each layer does not notice. Lesson 18 has a published
# example: the skip led through the norm, norm.b(dy + f.b(dy)).
#
# ## 3. The gradient at every block
#
# Now the stack. The task: six random digits, and for each place the digit on its left (for the first place the last
# one). The model: embedding, positions, an encoder with D = 32, a Linear. Nothing is trained yet: matrices are uniform
# in ±sqrt(6 / (rows + columns)) (Glorot and Bengio 2010), embeddings N(0, 1), biases 0. The third network is the
# pre-norm one without its skips, x = f(norm(x)).

# %% A block without skips, and a model
class WithoutSkip(nt.EncoderBlock):
    def forward(self, x, mask=None):
        return self.feed_forward(self.norm2(self.attention(self.norm1(x), mask)))

    def backward(self, dx):
        return self.norm1.backward(self.attention.backward(self.norm2.backward(self.feed_forward.backward(dx))))


class Reader(nt.Module):                    # digits (B, T) -> logits (B, T, 10)
    def __init__(self, depth, kind, rng):
        rng = np.random.default_rng(rng)
        self.embedding = nt.Embedding(10, 32, scale=True, rng=rng)
        self.positions = nt.SinusoidalPositionalEncoding(32, 6)
        self.encoder = nt.Encoder(depth, 32, 4, 64, 0.0, "post" if kind == "post-norm" else "pre", rng=rng)
        for block in self.encoder.blocks if kind == "no residual" else ():
            block.__class__ = WithoutSkip
        self.output = nt.Linear(32, 10, rng=rng)

    def forward(self, digits):
        return self.output(self.encoder(self.positions(self.embedding(digits))))

    def backward(self, dlogits):
        dx = self.positions.backward(self.encoder.backward(self.output.backward(dlogits)))
        self.embedding.backward(dx)


# %% Gradients at every block, before any training
STYLES = {"pre-norm": "C0o-", "post-norm": "C1s--", "no residual": "C2^:"}
DEPTHS, criterion, digits = (2, 6, 12, 24), nt.CrossEntropyLoss(), rng.integers(0, 10, (32, 6))
values, gradients, skips, last = {}, {}, {}, {}             # before the first block, and behind each
picture = Figure(figsize=(13, 4.6), layout="constrained")
for axes, (kind, style) in zip(picture.subplots(1, 3, sharey=True), STYLES.items()):
    for depth, colour in zip(DEPTHS, ("0.75", "0.6", "0.4", style[:2])):
        run, model = (kind, depth), Reader(depth, kind, rng=10).astype(np.float64)
        with nt.record(model.encoder) as tape:
            criterion(model(digits), np.roll(digits, 1, axis=1))
            model.backward(criterion.backward())
        blocks = [tape[f"blocks.{i}"] for i in range(depth)]
        values[run] = [blocks[0].inputs[0], *(call.output for call in blocks)]
        gradients[run] = [blocks[0].gradients[0], *(call.dy for call in blocks)]
        last[run] = np.linalg.norm(model.encoder.blocks[-1].feed_forward.down.weight.grad)
        skips[run] = gradients[run][-1:]    # what comes down the skips alone, past every attention and feed-forward
        for i in reversed(range(depth)):
            g = skips[run][0]
            for name in ("norm2", "norm1") if kind == "post-norm" else ():      # these stand in the way
                tape[f"blocks.{i}.{name}"].module(*tape[f"blocks.{i}.{name}"].inputs)
                g = tape[f"blocks.{i}.{name}"].module.backward(g)
            skips[run].insert(0, g)
        end, lines = np.linalg.norm(tape[""].dy), {"color": colour, "marker": style[2], "markersize": 4}
        axes.semilogy([np.linalg.norm(g) / end for g in gradients[run]], label=f"{depth} blocks", **lines)
    if kind == "pre-norm":
        deep = tape                         # of 24 blocks, for sections 3 and 4
    if kind != "no residual":
        axes.semilogy([np.linalg.norm(g) / end for g in skips[run]], "k--", label="24, skips alone")
    axes.set(title=kind, xlabel="blocks passed", ylim=(3e-6, 10))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
picture.axes[0].set_ylabel("norm of the gradient\n(1: at the output of the stack)")
figure("gradients", picture)

# %% [markdown]
# The norms alone raise no alarm: none of the curves vanishes or explodes. The dashed lines tell the orders apart.
# Unroll the pre-norm stack, x_L = x_0 + branch + branch + ...: x_0 stands in x_L with slope 1, however deep it is. Its
# gradient is that of x_L plus one term for each branch. In post-norm the skips of a block pass two norms, and each norm
# divides by the deviation of x + f(x), above 1 on average: what the skips bring shrinks geometrically.

# %% What comes down the skips
terms = [deep[f"blocks.{i}.{name}"].gradients[0] for i in range(24) for name in ("norm1", "norm2")]
claim("pre-norm: gradient at the input = gradient at the top + 48 terms, one for each branch",
      apart(gradients["pre-norm", 24][-1] + sum(terms), gradients["pre-norm", 24][0]) < 1e-12)
kept = [np.linalg.norm(skips["post-norm", L][0]) / np.linalg.norm(skips["post-norm", L][-1]) for L in DEPTHS]
claim("post-norm: per block, the skips alone keep between a half and three quarters of it",
      [0.5 < share ** (1 / L) < 0.75 for share, L in zip(kept, DEPTHS)],
      ", ".join(f"{L} blocks {share:.0e}" for share, L in zip(kept, DEPTHS)))

# %% [markdown]
# ## 4. The values at every block
#
# In pre-norm each branch adds to the stream x and nobody divides it: its variance grows with depth, and a late branch
# changes it little. That is why a pre-norm stack ends in a norm. It brings the scale back to 1 and, backward, divides
# the gradient by the same number: in the picture above it begins at 0.2.
#
# The right picture below shows how much of the values still differs from token to token. Attention gives each token a
# weighted mean of all. Without a skip these means replace the tokens, and means of means are soon equal, but for
# rounding (Dong, Cordonnier and Loukas 2021). In post-norm each norm shrinks what is a token's own, while the common
# part is added anew. In pre-norm nothing divides it; it becomes a smaller part only as the stream grows.

# %% The stream
def own(x):                                 # the part that differs from token to token, relative to the whole
    return np.linalg.norm(x - x.mean(-2, keepdims=True)) / np.linalg.norm(x)


picture = Figure(figsize=(12, 4.4), layout="constrained")
left, right = picture.subplots(1, 2)
for kind, style in STYLES.items():
    left.plot([x.std() for x in values[kind, 24]], style, markersize=5, label=kind)
    right.semilogy([own(x) for x in values[kind, 24]], style, markersize=5, label=kind)
left.set(xlabel="blocks passed", ylabel="deviation of the values", title="Pre-norm: the stream grows")
right.set(xlabel="blocks passed", ylabel="part that differs between tokens", title="No residual: tokens become equal")
left.legend()
right.legend()
figure("stream", picture)
full = values["pre-norm", 24][24].var()
claim("pre-norm: the variance grows more than tenfold in 24 blocks", full > 10 * values["pre-norm", 24][0].var(),
      f"from {values['pre-norm', 24][0].var():.1f} to {full:.0f}")
divided = np.linalg.norm(deep[""].dy) / np.linalg.norm(gradients["pre-norm", 24][-1])
claim("the final norm makes it 1, and divides the gradient by about the deviation",
      [np.isclose(deep[""].output.var(), 1, rtol=1e-3), np.isclose(divided, full ** 0.5, rtol=0.2)],
      f"by {divided:.1f}, the deviation is {full ** 0.5:.1f}")
parts = [own(values[kind, 24][-1]) for kind in STYLES]
claim("what differs between tokens after 24 blocks: above 0.1, below 0.01, and rounding",
      parts[0] > 0.1 > 0.01 > parts[1] > 1e-6 > 1e-13 > parts[2], ", ".join(f"{part:.0e}" for part in parts))
claim("dW of the last of 24 feed-forward layers is at least twice as large in post-norm as in pre-norm",
      last["post-norm", 24] > 2 * last["pre-norm", 24], f"{last['post-norm', 24]:.2f} and {last['pre-norm', 24]:.2f}")

# %% [markdown]
# The last claim has a theory behind it. Xiong et al. (2020, theorem 1) bound the gradient of the last feed-forward
# layer by a number that does not depend on the depth L in post-norm, and that falls like 1 / sqrt(L) in pre-norm. They
# conclude that post-norm needs small steps at first, a warm-up, and that pre-norm does not.
#
# ## 5. Training, with and without warm-up
#
# Twelve blocks, Adam, learning rate 0.005, 220 steps of 32 new sequences. With warm-up the rate rises linearly in the
# first 100 steps. Two losses to compare with: log 10, of a model that knows nothing, and that of a model that knows
# which digits occur, but not where.

# %% Five runs
def train(kind, warmup, steps):
    model, draw, losses = Reader(12, kind, rng=0), np.random.default_rng(0), []
    optimizer = nt.Adam(model.parameters(), lr=0.005)
    schedule = nt.ConstantSchedule(optimizer, lr=0.005, warmup=warmup)
    for _ in range(steps):
        digits = draw.integers(0, 10, (32, 6))
        model.zero_grad()
        losses.append(criterion(model(digits), np.roll(digits, 1, axis=1)))
        model.backward(criterion.backward())
        schedule.step()
        optimizer.step()
    return np.array(losses)


counts = np.array([np.bincount(row, minlength=10) for row in rng.integers(0, 10, (5000, 6))]) / 6
nothing, which = np.log(10), -np.sum(counts * np.log(np.maximum(counts, 1e-9))) / len(counts)
picture, end = Figure(figsize=(10, 4.8), layout="constrained"), {}
axes = picture.subplots()
for kind, warmup, steps in (("pre-norm", 0, 220), ("pre-norm", 100, 220), ("post-norm", 0, 220),
                            ("post-norm", 100, 220), ("no residual", 0, 110)):
    losses = train(kind, warmup, steps)
    end[kind, warmup] = losses[-20:].mean()
    print(f"  {kind:<12} warm-up {warmup:3}   mean loss of the last 20 steps {end[kind, warmup]:.2f}")
    axes.plot(np.arange(10, steps + 1), np.convolve(losses, np.ones(10) / 10, "valid"), markevery=(warmup // 10, 20),
              color=STYLES[kind][:2], marker=STYLES[kind][2], linestyle="-:"[warmup > 0],
              label=kind + ", warm-up" * (warmup > 0))
for loss, label in ((nothing, "knows nothing: log 10"), (which, "knows which digits, not where")):
    axes.axhline(loss, color="0.6", linewidth=1)
    axes.text(219, loss + 0.07, label, ha="right", color="0.3", fontsize=11)
axes.set(xlabel="step", ylabel="loss (mean of 10 steps)", title="12 blocks, Adam, the same learning rate")
axes.legend(loc="lower left")
figure("training", picture)
claim("pre-norm learns the task, with and without warm-up", max(end["pre-norm", 0], end["pre-norm", 100]) < 0.5)
claim("post-norm without warm-up stays where it knows nothing", abs(end["post-norm", 0] - nothing) < 0.1)
claim("so does the network without residuals", abs(end["no residual", 0] - nothing) < 0.1)
claim("post-norm with warm-up learns, but more slowly", which < end["post-norm", 100] < 2)

# %% [markdown]
# Two other seeds gave the same order. But this is one task, one depth and one rate: at a rate of 0.001 post-norm learns
# without warm-up, too, if slowly; after 400 steps its loss is 1.6. The Transformer of 2017 was post-norm, with six
# blocks on each side and a warm-up.
#
# ## Exercises
#
# 1. Why are the gradients of skip and branch added, and not averaged? Answer with the chain rule of lesson 02.
# 2. Predict: a branch ends in a Linear whose weight and bias are 0. What are y, dx, and dW of that Linear?
# 3. Write the backward of x = norm_b(x + f(norm_a(x))), a norm before and a norm after.
# 4. Find the bug: `x += f(x)` in place gives the right y, and dx. What has f remembered, and what is wrong?
# 5. A pre-norm stack of 24 blocks loses its final norm. By which factor does the gradient at its top change?
# 6. Adam's first step is the same for a gradient 1000 times as large. What does that mean for the reason given above?
#
# With a checker (`numpy-transformer exercise check NN`): 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7.
