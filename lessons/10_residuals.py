# %% [markdown]
# # 10 Residuals, pre-norm and post-norm
#
# Does the norm come before a sublayer or after it? Learners often ask this, because the text of the 2017 paper and the
# best known code for it give different answers. Both versions can be trained, but they are not the same network.
#
# This lesson derives the backward of a residual connection, measures what each order does to the gradient in stacks of
# up to 24 blocks, and trains both with and without warm-up. After it you will be able to write the backward of either
# block, and to say what the skip connection carries. Lesson 08 explains LayerNorm. About 15 minutes.

# %% Imports, and components with random parameters
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict, slopes

lesson.start(__name__)
rng = np.random.default_rng(10)
D, F = 6, 10                                # features of a token, hidden features of a feed-forward layer
x = rng.standard_normal((2, 5, D))
dy = rng.standard_normal((2, 5, D))         # the loss L is the sum of dy * y


def randomized(module):                     # in float64, with every parameter random: no γ is 1, and no bias is 0
    for parameter in module.astype(np.float64).parameters():
        parameter.data = rng.standard_normal(parameter.data.shape) / D ** 0.5
    return module


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def cosine(a, b):
    return np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b)


# %% [markdown]
# ## 1. One residual connection
#
# A residual connection adds the input of a layer to its output: y = x + f(x) (He et al. 2015). The first x is called
# the skip connection, and f(x) the branch. So x appears twice, in the skip with derivative 1 and inside f. Where a
# variable appears twice, the gradients from both places are added:
#
#     dx = dy + f.backward(dy)
#
# A small example: with f(x) = 3 x and dy = 0.5, the branch gives 3 · 0.5 = 1.5, and dx = 0.5 + 1.5 = 2. The derivative
# of the skip is 1, and a derivative is multiplied by dy, so the skip contributes dy. A common mistake is to add the
# number 1 instead.

# %% The right dx, and four wrong ones
predict("y = x + f(x), and f.backward returns zeros: what is dx?", "dy",
        why="The skip has derivative 1, so it passes dy on unchanged, and the branch adds zeros to it.")
f = randomized(nt.FeedForward(D, F))
y = x + f(x)
branch = f.backward(dy)
f.eval()                                    # from here on we only need values
true = slopes(lambda x: np.sum(dy * (x + f(x))), x)
claim("dx = dy + f.backward(dy)", relative_error(dy + branch, true) < 1e-13)
for wrong, name in ((branch, "f.backward(dy)         the skip is forgotten"),
                    (dy, "dy                     the branch is forgotten"),
                    (1 + branch, "1 + f.backward(dy)     the derivative 1 is not multiplied by dy"),
                    (2 * dy + branch, "2 dy + f.backward(dy)  the skip is added twice")):
    claim(f"wrong: {name}", relative_error(wrong, true) > 0.2,
          f"relative error {relative_error(wrong, true):.2f}, cosine {cosine(wrong, true):.2f}")

# %% [markdown]
# `numpy-transformer explore --lesson 10` shows such a sum in a trained model, in your browser: two gradients meet,
# the one that came past the feed-forward layer and the one that came through it. Click on the first one. What has the
# residual connection done to it?
#
# ## 2. The two orders
#
#     post-norm    x = norm(x + f(x))
#     pre-norm     x = x + f(norm(x))
#
# Post-norm is the paper's text, section 3.1: LayerNorm(x + Sublayer(x)). Pre-norm is the code of the Annotated
# Transformer, GPT-2, and most models since.
#
# A block has two such lines, one with attention and one with the feed-forward layer. Below, each intermediate value has
# a name. Read forward from top to bottom, and backward from the last line of forward to its first (f.b stands for
# f.backward):
#
#     pre-norm     a = x + attention(norm1(x))
#                  y = a + feed_forward(norm2(a))
#     backward     da = dy + norm2.b(feed_forward.b(dy))
#                  dx = da + norm1.b(attention.b(da))
#
#     post-norm    u = x + attention(x)
#                  a = norm1(u)
#                  w = a + feed_forward(a)
#                  y = norm2(w)
#     backward     dw = norm2.b(dy)
#                  da = dw + feed_forward.b(dw)
#                  du = norm1.b(da)
#                  dx = du + attention.b(du)

# %% Each of these lines as a claim
pre, post = (randomized(nt.EncoderBlock(D, 2, F, dropout=0.0, norm=norm)) for norm in ("pre", "post"))
with nt.record(pre) as tape, nt.record(post) as tape_post:
    y_pre = pre(x)
    dx_pre = pre.backward(dy)
    y_post = post(x)
    dx_post = post.backward(dy)
pre.eval()
post.eval()
a = x + pre.attention(pre.norm1(x))
claim("pre-norm:  y = a + feed_forward(norm2(a))", relative_error(y_pre, a + pre.feed_forward(pre.norm2(a))) < 1e-14)
a_post = post.norm1(x + post.attention(x))
w = a_post + post.feed_forward(a_post)
claim("post-norm: y = norm2(w)", relative_error(y_post, post.norm2(w)) < 1e-14)
norm1, norm2 = (tape[name].gradients[0] for name in ("norm1", "norm2"))         # what their backward returned
dw, feed_forward, du, attention = (tape_post[name].gradients[0] for name in (
    "norm2", "feed_forward", "norm1", "attention"))
for name, gradient, loss, variable in (
        ("pre-norm:  da = dy + norm2.b(feed_forward.b(dy))", dy + norm2,
         lambda a: np.sum(dy * (a + pre.feed_forward(pre.norm2(a)))), a),
        ("pre-norm:  dx = da + norm1.b(attention.b(da))", dy + norm2 + norm1, lambda x: np.sum(dy * pre(x)), x),
        ("post-norm: dw = norm2.b(dy)", dw, lambda w: np.sum(dy * post.norm2(w)), w),
        ("post-norm: da = dw + feed_forward.b(dw)", dw + feed_forward,
         lambda a: np.sum(dy * post.norm2(a + post.feed_forward(a))), a_post),
        ("post-norm: dx = du + attention.b(du)", du + attention, lambda x: np.sum(dy * post(x)), x)):
    claim(name, relative_error(gradient, slopes(loss, variable)) < 1e-12)
true, true_post = (slopes(lambda x: np.sum(dy * block(x)), x) for block in (pre, post))
claim("nt.EncoderBlock returns these dx",
      [relative_error(dx_pre, true) < 1e-12, relative_error(dx_post, true_post) < 1e-12])

# %% [markdown]
# Correct layers can be connected incorrectly, and a check of each single layer does not notice. Lesson 18 has an
# example from published code, in which the skip goes through the norm as well: norm.b(dy + f.b(dy)).
#
# ## 3. The gradient at every block
#
# Now we stack blocks. The task is a simple one: given six random digits, predict for each position the digit on its
# left (for the first position, the last digit). The model consists of an embedding, positions, an encoder with D = 32,
# and a Linear.
#
# In this section nothing has been trained. Matrices are uniform in ±sqrt(6 / (rows + columns)) (Glorot and Bengio
# 2010), embeddings are N(0, 1), and biases are 0. We compare three networks: pre-norm, post-norm, and the pre-norm
# network without its skip connections, x = f(norm(x)).

# %% A block without skip connections, and a model
class WithoutSkip(nt.EncoderBlock):
    def forward(self, x, mask=None):        # the same arguments as EncoderBlock
        return self.feed_forward(self.norm2(self.attention(self.norm1(x), mask)))

    def backward(self, dx):
        return self.norm1.backward(self.attention.backward(self.norm2.backward(self.feed_forward.backward(dx))))


class LeftNeighbor(nt.Module):              # digits (B, T) -> logits (B, T, 10)
    def __init__(self, depth, kind, rng):
        rng = np.random.default_rng(rng)
        self.embedding = nt.Embedding(10, 32, scale=True, rng=rng)
        self.positions = nt.SinusoidalPositionalEncoding(32, 6)
        norm = "post" if kind == "post-norm" else "pre"
        block = WithoutSkip if kind == "no residual" else nt.EncoderBlock
        blocks = [block(32, 4, 64, dropout=0.0, norm=norm, rng=rng) for _ in range(depth)]
        self.encoder = nt.Stack(blocks, nt.LayerNorm(32) if norm == "pre" else None)
        self.output = nt.Linear(32, 10, rng=rng)

    def forward(self, digits):
        return self.output(self.encoder(self.positions(self.embedding(digits))))

    def backward(self, dlogits):
        dx = self.positions.backward(self.encoder.backward(self.output.backward(dlogits)))
        self.embedding.backward(dx)


# %% Gradients at every block, before any training
def through_skips(tape, gradient, kind, depth):
    """What of the gradient at the top passes down the skips alone, at the input of each block and at the top."""
    gradients = [gradient]
    for i in reversed(range(depth)):
        if kind == "post-norm":             # in post-norm the skips pass through both norms
            for name in ("norm2", "norm1"):
                call = tape[f"blocks.{i}.{name}"]
                call.module(*call.inputs)
                gradient = call.module.backward(gradient)
        gradients.insert(0, gradient)
    return gradients


STYLES = {"pre-norm": "C0o-", "post-norm": "C1s--", "no residual": "C2^:"}
DEPTHS = 2, 6, 12, 24
criterion = nt.CrossEntropyLoss()
digits = rng.integers(0, 10, (32, 6))
values, gradients, skips = {}, {}, {}       # by kind and depth: at the input of the stack, and after each block
last = {}                                   # the gradient norm of one matrix in the last block
picture = Figure(figsize=(13, 4.6), layout="constrained")
for axes, (kind, style) in zip(picture.subplots(1, 3, sharey=True), STYLES.items()):
    for depth, color in zip(DEPTHS, ("0.75", "0.6", "0.4", style[:2])):
        model = LeftNeighbor(depth, kind, rng=10).astype(np.float64)
        with nt.record(model.encoder) as tape:
            criterion(model(digits), np.roll(digits, 1, axis=1))
            model.backward(criterion.backward())
        run = kind, depth
        blocks = [tape[f"blocks.{i}"] for i in range(depth)]
        values[run] = [blocks[0].inputs[0], *(call.output for call in blocks)]
        gradients[run] = [blocks[0].gradients[0], *(call.dy for call in blocks)]
        last[run] = np.linalg.norm(model.encoder.blocks[-1].feed_forward.down.weight.grad)
        skips[run] = through_skips(tape, gradients[run][-1], kind, depth)
        at_output = np.linalg.norm(tape[""].dy)
        axes.semilogy([np.linalg.norm(g) / at_output for g in gradients[run]], label=f"{depth} blocks", color=color,
                      marker=style[2], markersize=4)
    if kind == "pre-norm":
        deep = tape                         # the recording of 24 blocks, for this section and the next
    if kind != "no residual":
        axes.semilogy([np.linalg.norm(g) / at_output for g in skips[run]], "k--", label="24 blocks, skips only")
    axes.set(title=kind, xlabel="blocks applied (0: input)", ylim=(3e-6, 10))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
picture.axes[0].set_ylabel("norm of the gradient\n(1: at the output of the stack)")
figure("gradients", picture)

# %% [markdown]
# Backward runs through these panels from right to left. The solid curves raise no alarm: no gradient vanishes or
# explodes. What distinguishes the two orders are the dashed curves, which show the part of the gradient that passes
# through the skip connections only.
#
# To see why, unroll the pre-norm stack: x_L = x_0 + branch + branch + ... So x_0 appears in x_L with derivative 1,
# however deep the stack is. The gradient of x_0 is the gradient of x_L plus one term for each branch.
#
# In post-norm, the skip connections of a block pass through two norms. Each norm divides by the standard deviation of
# x + f(x), which is above 1 on average. So the part of the gradient that comes through the skips shrinks geometrically.

# %% What passes through the skip connections
terms = [deep[f"blocks.{i}.{name}"].gradients[0] for i in range(24) for name in ("norm1", "norm2")]
claim("pre-norm: gradient at the input = gradient after the last block + 48 terms, one for each branch",
      relative_error(gradients["pre-norm", 24][-1] + sum(terms), gradients["pre-norm", 24][0]) < 1e-12)
kept = [np.linalg.norm(skips["post-norm", L][0]) / np.linalg.norm(skips["post-norm", L][-1]) for L in DEPTHS]
claim("post-norm: on average, the skips of a block keep between one half and three quarters of the gradient's norm",
      [0.5 < share ** (1 / L) < 0.75 for share, L in zip(kept, DEPTHS)],
      "of the whole stack: " + ", ".join(f"{L} blocks {share:.0e}" for share, L in zip(kept, DEPTHS)))

# %% [markdown]
# ## 4. The values at every block
#
# In pre-norm, each branch adds to the residual stream x, and nothing divides x. So the variance of x grows with depth,
# and a late branch changes x only a little. This is why a pre-norm stack ends in a norm. The final norm divides the
# values by their standard deviation, and in backward it divides the gradient by the same number. That is why the
# pre-norm curve of 24 blocks in the picture above ends at 0.2 on the right, and not at 1.
#
# The right panel below shows how much of the values still differs from token to token. Attention gives each token a
# weighted mean of all tokens. Without skip connections these means replace the tokens, and means of means soon become
# equal, up to rounding (Dong, Cordonnier and Loukas 2021). In post-norm, each norm shrinks what differs between tokens,
# while each branch adds more of what they share. In pre-norm nothing shrinks the difference. It only becomes a smaller
# part of a stream that grows.

# %% The residual stream
def token_difference(x):                    # how large the part that differs from token to token is, relative to x
    return np.linalg.norm(x - x.mean(-2, keepdims=True)) / np.linalg.norm(x)


picture = Figure(figsize=(12, 4.4), layout="constrained")
left, right = picture.subplots(1, 2)
for kind, style in STYLES.items():
    left.plot([x.std() for x in values[kind, 24]], style, markersize=5, label=kind)
    right.semilogy([token_difference(x) for x in values[kind, 24]], style, markersize=5, label=kind)
left.set(xlabel="blocks applied (0: input)", ylabel="standard deviation", title="Pre-norm: the residual stream grows")
right.set(xlabel="blocks applied (0: input)", ylabel="part that differs\nbetween tokens",
          title="No residual: all tokens become equal")
left.legend()
right.legend()
figure("stream", picture)
before, after = (values["pre-norm", 24][i].var() for i in (0, 24))
claim("pre-norm: the variance grows more than tenfold in 24 blocks", after > 10 * before,
      f"from {before:.1f} to {after:.0f}")
divided = np.linalg.norm(deep[""].dy) / np.linalg.norm(gradients["pre-norm", 24][-1])
claim("the final norm makes it 1, and divides the gradient by about the standard deviation",
      [np.isclose(deep[""].output.var(), 1, rtol=1e-3), np.isclose(divided, after ** 0.5, rtol=0.2)],
      f"by {divided:.1f}, the standard deviation is {after ** 0.5:.1f}")
parts = [token_difference(values[kind, 24][-1]) for kind in STYLES]
claim("the part that differs between tokens after 24 blocks: above 0.1 in pre-norm, below 0.01 in post-norm, "
      "only rounding without residuals", parts[0] > 0.1 > 0.01 > parts[1] > 1e-6 > 1e-13 > parts[2],
      ", ".join(f"{part:.0e}" for part in parts))
claim("dW of the last of 24 feed-forward layers is at least twice as large in post-norm as in pre-norm",
      last["post-norm", 24] > 2 * last["pre-norm", 24], f"{last['post-norm', 24]:.2f} and {last['pre-norm', 24]:.2f}")

# %% [markdown]
# There is a theory about the last claim. Xiong et al. (2020, theorem 1) give a bound for the gradient of the last
# feed-forward layer. In post-norm this bound does not depend on the depth L; in pre-norm it falls like 1 / sqrt(L).
# They conclude that post-norm needs small steps at the beginning, that is, a warm-up, and that pre-norm does not.
#
# ## 5. Training, with and without warm-up
#
# We train 12 blocks with Adam and a learning rate of 0.005 for 220 steps, each on 32 new sequences. With warm-up, the
# learning rate rises linearly during the first 100 steps. The five runs take 15 to 40 seconds. Two losses help to
# read the curves. The first is log 10, the loss of a model that considers all digits equally likely. The second is the
# loss of a model that knows which digits occur in the sequence, but not where.

# %% Five training runs
def train(kind, warmup, steps):
    model = LeftNeighbor(12, kind, rng=0)
    batches = np.random.default_rng(0)
    optimizer = nt.Adam(model.parameters(), lr=0.005)
    schedule = nt.ConstantSchedule(optimizer, lr=0.005, warmup=warmup)
    losses = []
    for _ in range(steps):
        digits = batches.integers(0, 10, (32, 6))
        model.zero_grad()
        losses.append(criterion(model(digits), np.roll(digits, 1, axis=1)))
        model.backward(criterion.backward())
        schedule.step()
        optimizer.step()
    return np.array(losses)


shares = np.array([np.bincount(row, minlength=10) for row in rng.integers(0, 10, (5000, 6), np.intp)]) / 6
uniform_loss = np.log(10)
digits_loss = -np.sum(shares * np.log(np.maximum(shares, 1e-9))) / len(shares)      # knows the digits of each sequence
final_loss = {}
picture = Figure(figsize=(10, 4.8), layout="constrained")
axes = picture.subplots()
print("  mean loss of the last 20 steps")
for kind, warmup, steps in (("pre-norm", 0, 220), ("pre-norm", 100, 220), ("post-norm", 0, 220),
                            ("post-norm", 100, 220), ("no residual", 0, 110)):
    losses = train(kind, warmup, steps)
    final_loss[kind, warmup] = losses[-20:].mean()
    print(f"  {kind:<12}  warm-up {warmup:3}   {final_loss[kind, warmup]:.2f}")
    label, line = (f"{kind}, warm-up", ":") if warmup else (kind, "-")
    axes.plot(np.arange(10, steps + 1), np.convolve(losses, np.ones(10) / 10, "valid"), markevery=(warmup // 10, 20),
              color=STYLES[kind][:2], marker=STYLES[kind][2], linestyle=line, label=label)
for loss, label in ((uniform_loss, "all digits equally likely: log 10"),
                    (digits_loss, "knows which digits occur, but not where")):
    axes.axhline(loss, color="0.6", linewidth=1)
    axes.text(219, loss + 0.07, label, ha="right", color="0.3", fontsize=11)
axes.set(xlabel="step", ylabel="loss (mean of 10 steps)", title="12 blocks trained with the same learning rate")
axes.legend(loc="lower left")
figure("training", picture)
claim("pre-norm learns the task without warm-up", final_loss["pre-norm", 0] < 0.5)
claim("with warm-up, pre-norm is ahead of post-norm", final_loss["pre-norm", 100] < final_loss["post-norm", 100] - 0.2)
claim("post-norm without warm-up stays near log 10", abs(final_loss["post-norm", 0] - uniform_loss) < 0.1)
claim("so does the network without residuals", abs(final_loss["no residual", 0] - uniform_loss) < 0.1)
claim("post-norm with warm-up learns, but more slowly", digits_loss < final_loss["post-norm", 100] < uniform_loss - 0.2)

# %% [markdown]
# The claims held for five seeds and the kernels of three processors. (With warm-up, one of the five seeds left pre-norm
# at a loss of 1.4 after 220 steps.) Still, this is one task, one depth and one learning rate. At a learning rate of
# 0.001, post-norm learns without warm-up too, if slowly: after 400 steps, its loss was 1.6 for each of five seeds. The
# Transformer of 2017 was a post-norm network with six blocks on each side, and it was trained with a warm-up.
#
# ## Exercises
#
# 1. Why are the gradients of skip and branch added, and not averaged? Answer with the chain rule of lesson 02.
# 2. Predict: a branch ends in a Linear whose weight and bias are 0. What are y, dx, and the dW of that Linear?
# 3. Write the backward of x = norm_b(x + f(norm_a(x))), with one norm before f and one after the sum.
# 4. Find the bug: `x += f(x)` works in place, and gives the right y and the right dx. What has f saved for its
#    backward, and which result is wrong?
# 5. We remove the final norm of a pre-norm stack of 24 blocks. By which factor does the gradient at its top change?
# 6. Adam's first step is the same for a gradient 1000 times as large. What does this mean for the reason that
#    Xiong et al. give?
#
# With a checker (`numpy-transformer exercise check 10.1` and so on): 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7.
