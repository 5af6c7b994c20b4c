# %% [markdown]
# # 10 Residuals, pre-norm and post-norm
#
# The parts of a Transformer block are known by now: attention, a feed-forward layer and norms. This lesson puts them
# together. Each part is placed in a residual connection, which adds the part's input to its output. The norm comes
# either after this sum (post-norm, as in the text of the 2017 paper) or before the part (pre-norm, as in the best known
# code for it). Both can be trained, but they are not the same network.
#
# After this lesson you will be able to write both kinds of block with their backward, to explain what the residual
# connections carry, and to say what goes wrong without residuals, without norms, and without warm-up.

# %% The parts of a block, with random parameters
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source, slopes

lesson.start(__name__)
rng = np.random.default_rng(10)
D, F = 6, 10
norm1, attention = nt.LayerNorm(D), nt.SelfAttention(D, 2)
norm2, feed_forward = nt.LayerNorm(D), nt.FeedForward(D, F)
parts = norm1, attention, norm2, feed_forward
for part in parts:                          # no γ is 1, and no bias is 0
    for parameter in part.astype(np.float64).parameters():
        parameter.data = rng.standard_normal(parameter.data.shape) / D ** 0.5
x = rng.standard_normal((2, 5, D))
dy = rng.standard_normal((2, 5, D))         # the loss L is the sum of dy * y


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - b) / np.linalg.norm(b)


# %% [markdown]
# ## 1. One residual connection
#
# A residual connection adds the input of a layer to its output: y = x + f(x) (He et al. 2015). The first x is called
# the skip connection, and f(x) the branch. So x appears twice, in the skip with derivative 1 and inside f. Where a
# variable appears twice, the gradients from both places are added:
#
#     dx = dy + f.backward(dy)
#
# With f(x) = 3 x and dy = 0.5, the branch gives 3 · 0.5 = 1.5, and dx = 0.5 + 1.5 = 2. The derivative of the skip is 1,
# and a derivative is multiplied by dy, so the skip contributes dy. A common mistake is to add the number 1 instead.

# %% The right dx, and three wrong ones
predict("y = x + f(x), and f.backward returns zeros: what is dx?", "dy",
        why="The skip has derivative 1, so it passes dy on unchanged, and the branch adds zeros to it.")
y = x + feed_forward(x)
branch = feed_forward.backward(dy)
true = slopes(lambda x: np.sum(dy * (x + feed_forward(x))), x)
feed_forward.forget()                       # the calls by slopes had no backward pass
feed_forward.zero_grad()                    # the next sections begin with gradients of 0
claim("dx = dy + f.backward(dy)", relative_error(dy + branch, true) < 1e-13)
for wrong, name in ((branch, "f.backward(dy)       the skip is forgotten"),
                    (dy, "dy                   the branch is forgotten"),
                    (1 + branch, "1 + f.backward(dy)   the derivative 1 is not multiplied by dy")):
    claim(f"wrong: {name}", relative_error(wrong, true) > 0.2, f"relative error {relative_error(wrong, true):.2f}")

# %% [markdown]
# `numpy-transformer explore --lesson 10` shows such a sum in a trained model, in your browser: two gradients meet,
# the one that came past the feed-forward layer and the one that came through it. Click on the first one. What has the
# residual connection done to it?
#
# ## 2. A block, in both orders
#
#     pre-norm     x = x + f(norm(x))
#     post-norm    x = norm(x + f(x))
#
# Post-norm is the paper's text, section 3.1: LayerNorm(x + Sublayer(x)). Pre-norm is the code of the Annotated
# Transformer, GPT-2, and most models since. A block has two such lines, the first with attention and the second with
# the feed-forward layer.

# %% Pre-norm, forward and backward
a = x + attention(norm1(x))
y = a + feed_forward(norm2(a))
# y = a + feed_forward(norm2(a))
da = dy + norm2.backward(feed_forward.backward(dy))
# a = x + attention(norm1(x))
dx = da + norm1.backward(attention.backward(da))


def take_gradients():                       # of all parameters, and clears them
    gradients = [parameter.grad.copy() for part in parts for parameter in part.parameters()]
    for part in parts:
        part.zero_grad()
    return gradients


built = {"pre": (y, dx, take_gradients())}

# %% Post-norm, forward and backward
u = x + attention(x)
a = norm1(u)
w = a + feed_forward(a)
y = norm2(w)
# y = norm2(w)
dw = norm2.backward(dy)
# w = a + feed_forward(a)
da = dw + feed_forward.backward(dw)
# a = norm1(u)
du = norm1.backward(da)
# u = x + attention(x)
dx = du + attention.backward(du)
built["post"] = y, dx, take_gradients()

# %% The package's block computes the same
show_source(nt.EncoderBlock.forward, nt.EncoderBlock.backward)
for norm, (y, dx, gradients) in built.items():
    block = nt.EncoderBlock(D, 2, F, dropout=0.0, norm=norm)
    block.norm1, block.attention, block.norm2, block.feed_forward = parts
    claim(f"{norm}-norm: nt.EncoderBlock returns this y and this dx, to the last bit",
          np.array_equal(block(x), y) and np.array_equal(block.backward(dy), dx))
    claim("and the same gradient for each parameter", list(map(np.array_equal, take_gradients(), gradients)))
    claim("the complex step agrees with dx", relative_error(dx, slopes(lambda x: np.sum(dy * block(x)), x)) < 1e-12)
    block.forget()
drawing("residual_stream")
drawing("residual_stream_backward")

# %% [markdown]
# ## 3. The residual stream
#
# The vector of a token that runs along the skip connections, from block to block, is called the residual stream. In
# pre-norm, each branch reads it through a norm and adds its result to it. With x_0 at the input of N blocks,
#
#     x_N = x_0 + branch + branch + ...     (2 N branches)
#
# So x_0 appears in x_N with derivative 1, however deep the stack is. In backward, the gradient of x_N arrives at x_0
# unchanged, plus one term for each branch. In post-norm, the skips of a block pass through two norms. Each divides by
# the standard deviation of x + f(x), which is above 1 on average here, so what passes through the skips alone becomes
# smaller with every block.
#
# Below are 12 untrained blocks in a model for a simple task: given six random digits, predict for each position the
# digit on its left (for the first position, the last digit). Besides pre-norm and post-norm, the model has one version
# without residual connections and one without any norm.

# %% A model of 12 blocks, in four versions
class NoResidual(nt.EncoderBlock):
    def forward(self, x):
        return self.feed_forward(self.norm2(self.attention(self.norm1(x))))

    def backward(self, dy):
        return self.norm1.backward(self.attention.backward(self.norm2.backward(self.feed_forward.backward(dy))))


class NoNorm(nt.EncoderBlock):
    def forward(self, x):
        a = x + self.attention(x)
        return a + self.feed_forward(a)

    def backward(self, dy):
        da = dy + self.feed_forward.backward(dy)
        return da + self.attention.backward(da)


class LeftNeighbor(nt.Module):              # digits (B, T) -> logits (B, T, 10)
    def __init__(self, kind, rng, depth=12):
        rng = np.random.default_rng(rng)
        self.embedding = nt.Embedding(10, 32, scale=True, rng=rng)
        self.positions = nt.SinusoidalPositionalEncoding(32, 6)
        block = {"no residual": NoResidual, "no norm": NoNorm}.get(kind, nt.EncoderBlock)
        norm = "post" if kind == "post-norm" else "pre"
        self.blocks = [block(32, 4, 64, dropout=0.0, norm=norm, rng=rng) for _ in range(depth)]
        self.norm = nt.Dropout(0.0)         # changes nothing
        if kind in ("pre-norm", "no residual"):
            self.norm = nt.LayerNorm(32)
        self.output = nt.Linear(32, 10, rng=rng)

    def forward(self, digits):
        self.values = [self.positions(self.embedding(digits))]              # at the input, and after each block
        for block in self.blocks:
            self.values.append(block(self.values[-1]))
        return self.output(self.norm(self.values[-1]))

    def backward(self, dlogits):
        self.gradients = [self.norm.backward(self.output.backward(dlogits))]            # at the same places
        for block in reversed(self.blocks):
            self.gradients.insert(0, block.backward(self.gradients[0]))
        self.embedding.backward(self.positions.backward(self.gradients[0]))


# %% Values and gradients at every block, before any training
predict("a pre-norm stack of 12 blocks: the gradient at its input is a sum of how many terms?", 25,
        why="Each block has two branches, so 24 terms come through branches, and one through the skips alone.")
STYLES = {"pre-norm": "C0o-", "post-norm": "C1s-", "no residual": "C2^:", "no norm": "C3v-."}
criterion = nt.CrossEntropyLoss()
digits = rng.integers(0, 10, (32, 6))
picture = Figure(figsize=(12, 4.6), layout="constrained")
left, right = picture.subplots(1, 2)
growth = {}                                 # of the values from input to output, of the gradients from output to input
for kind, style in STYLES.items():
    model = LeftNeighbor(kind, rng=10).astype(np.float64)
    criterion(model(digits), np.roll(digits, 1, axis=1))
    model.backward(criterion.backward())
    sizes = [values.std() for values in model.values]
    norms = [np.linalg.norm(gradient) for gradient in model.gradients]
    growth[kind] = sizes[-1] / sizes[0], norms[0] / norms[-1]
    left.semilogy(sizes, style, label=kind)
    right.semilogy(norms, style, label=kind)
    if kind == "post-norm":                 # the same, but backward through the skips alone
        model(digits)
        skips = [model.gradients[-1]]
        for block in reversed(model.blocks):
            skips.insert(0, block.norm1.backward(block.norm2.backward(skips[0])))
        right.semilogy([np.linalg.norm(gradient) for gradient in skips], "k--", label="post-norm, skips only")
left.set(xlabel="blocks applied (0: input)", ylabel="standard deviation", title="Forward: values")
right.set(xlabel="blocks applied (0: input)", ylabel="norm of the gradient", title="Backward: gradients")
left.legend()
right.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure("gradients", picture)
kept = np.linalg.norm(skips[0]) / np.linalg.norm(skips[-1])
claim("post-norm: on average, the skips of a block keep between one half and three quarters of the gradient's norm",
      0.5 < kept ** (1 / 12) < 0.75, f"of the whole stack: {kept:.0e}")
claim("with norms, values and gradients grow less than tenfold",
      [max(growth[kind]) < 10 for kind in ("pre-norm", "post-norm")])
claim("without any norm, values grow more than twentyfold and gradients more than a thousandfold",
      growth["no norm"][0] > 20 and growth["no norm"][1] > 1000)

# %% [markdown]
# With norms, a branch adds a vector of about the same size in each block, however large the stream is, and the stream
# grows slowly. Without them, the output of a branch grows with its input, so each block multiplies the stream by a
# factor, and the gradient too. One of the study notes on which this course is based says that LayerNorm prevents
# exploding gradients. This is what it means.
#
# A pre-norm stack ends in one more norm, because nothing has normalized its sum.
#
# ## 4. The identity is easy to learn
#
# A layer that should change nothing has to compute y = x. With a residual connection this needs only a branch that
# returns 0. Without one, the matrices and the nonlinearity between them have to reproduce x. He et al. (2015, section
# 3.1) give this as the reason for residual connections. Below, eight feed-forward layers learn y = x from random
# vectors.

# %% A block whose branches are zero, and two stacks that learn the identity
predict("both branches of a block return 0: is y = x in post-norm too?", "no",
        why="In post-norm x still passes through both norms, which change it.")
for norm in ("pre", "post"):
    zero = nt.EncoderBlock(D, 2, F, dropout=0.0, norm=norm).astype(np.float64)
    for linear in (zero.attention.output, zero.feed_forward.down):
        linear.weight.data, linear.bias.data = 0, 0
    same = np.array_equal(zero(x), x), np.array_equal(zero.backward(dy), dy)
    claim(f"{norm}-norm with zero branches: y = x and dx = dy {'hold' if norm == 'pre' else 'do not hold'}",
          same == ((True, True) if norm == "pre" else (False, False)))


def learn_identity(residual):
    draw = np.random.default_rng(1)
    layers = [nt.FeedForward(16, 64, rng=draw) for _ in range(8)]
    optimizer = nt.Adam([parameter for layer in layers for parameter in layer.parameters()], lr=0.003)
    errors = []
    for _ in range(200):
        wanted = y = draw.standard_normal((64, 16)).astype(np.float32)
        for layer in layers:
            y = residual * y + layer(y)                     # residual is 1 or 0
        errors.append(np.mean((y - wanted) ** 2))
        dy = 2 * (y - wanted) / y.size
        for layer in reversed(layers):
            layer.zero_grad()
            dy = residual * dy + layer.backward(dy)
        optimizer.step()
    return errors


with_residual, plain = learn_identity(1), learn_identity(0)
print(f"  mean squared error after 200 steps: {with_residual[-1]:.3f} with residuals, {plain[-1]:.3f} without")
claim("with residual connections the error is less than a third of that without",
      with_residual[-1] < plain[-1] / 3)

# %% [markdown]
# ## 5. Training, and warm-up
#
# Now the 12 blocks learn the digit on the left, with Adam and a learning rate of 0.005, each step on 32 new sequences.
# Post-norm is trained a second time with warm-up: the learning rate rises linearly during the first 50 steps. A model
# that considers all digits equally likely has the loss log 10.

# %% Five training runs
def train(kind, warmup, steps=180):
    model = LeftNeighbor(kind, rng=0)
    batches = np.random.default_rng(0)
    optimizer = nt.Adam(model.parameters(), lr=0.005)
    losses = []
    for step in range(steps):
        digits = batches.integers(0, 10, (32, 6))
        model.zero_grad()
        losses.append(criterion(model(digits), np.roll(digits, 1, axis=1)))
        model.backward(criterion.backward())
        optimizer.lr = 0.005 * min(1, (step + 1) / warmup)
        optimizer.step()
    return np.array(losses)


final = {}
picture = Figure(figsize=(10, 4.8), layout="constrained")
axes = picture.subplots()
for kind, warmup in (("pre-norm", 1), ("post-norm", 1), ("post-norm", 50), ("no residual", 1), ("no norm", 1)):
    losses = train(kind, warmup)
    final[kind, warmup] = losses[-20:].mean()
    name = f"{kind}, warm-up" if warmup > 1 else kind
    print(f"  {name:<19}  mean loss of the last 20 steps: {final[kind, warmup]:.2f}")
    axes.plot(np.arange(10, 181), np.convolve(losses, np.ones(10) / 10, "valid"), STYLES[kind], markevery=20,
                  markerfacecolor="white" if warmup > 1 else None, label=name)
axes.axhline(np.log(10), color="0.6", linewidth=1, label="log 10")
axes.set_yscale("symlog", linthresh=3, linscale=4)                  # linear from 0 to 3, logarithmic above
axes.set(ylim=(0, 1e6), yticks=[0, 0.5, 1, 1.5, 2, 2.5, 10, 100, 1e4], xlabel="step", ylabel="loss (mean of 10 steps)",
         title="12 blocks trained with the same learning rate")
axes.set_yticklabels(["0", "0.5", "1", "1.5", "2", "2.5", "10", "100", "10,000"])
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure("training", picture)
claim("pre-norm learns the task best, without warm-up", final["pre-norm", 1] < final["post-norm", 50] - 0.3)
claim("post-norm begins to learn with warm-up, and has learned nothing without it",
      [final["post-norm", 50] < final["post-norm", 1] - 0.1, final["post-norm", 1] > np.log(10) - 0.1])
claim("without residual connections the loss stays near log 10", abs(final["no residual", 1] - np.log(10)) < 0.1)
claim("without any norm it is far above log 10", final["no norm", 1] > 10 * np.log(10))

# %% [markdown]
# Another study note says that residual connections with LayerNorm make training converge faster, and here they do.
# Xiong et al. (2020, theorem 1) explain the warm-up by a bound for the gradient of the last feed-forward layer at the
# start. In post-norm it does not depend on the number of blocks N, and in pre-norm it falls like 1 / sqrt(N). They
# conclude that post-norm needs small steps at the beginning. Still, this is one task, one depth and one learning rate.
# The Transformer of 2017 was a post-norm network with six blocks on each side, and it was trained with a warm-up.
#
# ## Exercises
#
# 1. Why are the gradients of skip and branch added, and not averaged? Answer with the chain rule.
# 2. Predict: a branch ends in a Linear whose weight and bias are 0. What are y, dx, and the dW of that Linear?
# 3. Write the backward of x = norm_b(x + f(norm_a(x))), with one norm before f and one after the sum.
# 4. Find the bug: `x += f(x)` works in place, and gives the right y and the right dx. What has f saved for its
#    backward, and which result is wrong?
# 5. Train the pre-norm model, then remove one of its blocks: once a late one, and once block 0. Predict what happens to
#    the loss. Why would a network without residual connections react differently?
# 6. Adam's first step is the same for a gradient 1000 times as large. What does this mean for the reason that
#    Xiong et al. give?
#
# With a checker (`numpy-transformer exercise start my-exercises 10`): 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7, 10.8,
# 10.9.
