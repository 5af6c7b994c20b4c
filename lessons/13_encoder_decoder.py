# %% [markdown]
# # 13 The encoder-decoder of 2017
#
# The first Transformer was built to translate (Vaswani et al. 2017, section 3). An encoder reads the source sentence
# and turns it into the memory, one vector for each token. A decoder writes the target token by token, and each of its
# blocks reads the memory by cross-attention.
#
# You know all of its parts from lessons 03 to 10. In this lesson you put them together, in about fifty lines and in the
# order in which the paper describes them, write the backward of the whole model, and train it to copy numbers. In
# the end you compare the paper's order of sublayer and norm (post-norm) with the one that the best known
# implementation, The Annotated Transformer (Rush 2018), has chosen (pre-norm).
#
# The drawing shows the model as in figure 1 of the paper. Follow one source token upward through the encoder, along the
# arrow into each decoder block, and up to the probabilities.

# %% The whole model in one drawing, and sizes for a small one
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show_source

lesson.start(__name__)
rng = np.random.default_rng(13)
V, D, H, F, N = 11, 8, 2, 12, 2             # tokens, features, heads, features inside feed-forward, blocks
PAD, BOS, EOS = 0, 1, 2                     # the marks for padding, the beginning and the end of a sentence
drawing("encoder_and_decoder")

# %% [markdown]
# ## 1. Around each sublayer: add and norm
#
# Each block consists of sublayers: attention, feed-forward, and in the decoder cross-attention between them. The paper
# wraps every sublayer f in the same way (section 5.4 puts dropout on its output):
#
#     y = norm(x + dropout(f(x)))
#
# x goes two ways, along the residual path and through f, so backward adds what comes back from both. Cross-attention
# has a second input, the memory, whose gradient is passed on as it is.

# %% The connection, an encoder block and a decoder block
class AddAndNorm(nt.Module):
    def __init__(self, f, dropout):
        self.f = f
        self.norm = nt.LayerNorm(D)
        self.dropout = nt.Dropout(dropout, rng)

    def forward(self, x, *more):            # more: the mask, or the memory and its mask
        return self.norm(x + self.dropout(self.f(x, *more)))

    def backward(self, dy):
        dx = self.norm.backward(dy)
        from_f = self.f.backward(self.dropout.backward(dx))
        if isinstance(from_f, tuple):       # cross-attention returns dx and dmemory
            return dx + from_f[0], from_f[1]
        return dx + from_f


class EncoderLayer(nt.Module):
    def __init__(self, dropout):
        self.attention = AddAndNorm(nt.SelfAttention(D, H, rng=rng), dropout)
        self.feed_forward = AddAndNorm(nt.FeedForward(D, F, rng=rng), dropout)

    def forward(self, x, mask):
        return self.feed_forward(self.attention(x, mask))

    def backward(self, dy):
        return self.attention.backward(self.feed_forward.backward(dy))


class DecoderLayer(nt.Module):
    def __init__(self, dropout):
        self.attention = AddAndNorm(nt.SelfAttention(D, H, rng=rng), dropout)
        self.cross_attention = AddAndNorm(nt.CrossAttention(D, H, rng=rng), dropout)
        self.feed_forward = AddAndNorm(nt.FeedForward(D, F, rng=rng), dropout)

    def forward(self, x, memory, mask, memory_mask):
        x = self.attention(x, mask)
        x = self.cross_attention(x, memory, memory_mask)
        return self.feed_forward(x)

    def backward(self, dy):
        dx = self.feed_forward.backward(dy)
        dx, dmemory = self.cross_attention.backward(dx)
        return self.attention.backward(dx), dmemory


one = EncoderLayer(dropout=0.0)
predict(f"a block has {one.num_parameters()} parameters: how many has a stack made with [block] * 6?",
        one.num_parameters(),
        why="The list contains the same block six times, so its parameters exist once.")
claim("six blocks of their own have six times as many",
      sum(EncoderLayer(0.0).num_parameters() for _ in range(6)) == 6 * one.num_parameters())

# %% [markdown]
# `[block] * 6` raises no error, and even its backward is right: the gradients of six uses add up in one set of weights.
# But it is a smaller model than intended. This is why The Annotated Transformer has a function `clones`, which makes
# deep copies.
#
# ## 2. The model
#
# One matrix E serves as the source embedding, the target embedding and the output layer (section 3.4 of the paper,
# lesson 03). There are two masks (lesson 06), in which True means "may be seen":
#
# * the source mask hides PAD in the source. The encoder's self-attention uses it, and so does cross-attention.
# * the target mask hides PAD in the target, and all tokens after the one that asks.
#
# Backward reads forward from bottom to top. Two things are new. Each decoder block reads the same memory, so their
# gradients are **added** before they go down into the encoder. And E is used three times, so it receives three
# gradients: from the output layer, from the target embedding and from the source embedding.

# %% The Transformer, forward and backward
class Transformer(nt.Module):
    def __init__(self, vocab_size, dropout=0.1):
        self.embedding = nt.Embedding(vocab_size, D, scale=True, rng=rng)
        self.positions = nt.SinusoidalPositionalEncoding(D, dropout=dropout, rng=rng)
        self.encoder = [EncoderLayer(dropout) for _ in range(N)]
        self.decoder = [DecoderLayer(dropout) for _ in range(N)]
        self.output = nt.Unembedding(self.embedding.weight)

    def forward(self, source, target):
        source_mask = nt.padding_mask(source, PAD)
        target_mask = nt.combine_masks(nt.causal_mask(target.shape[-1]), nt.padding_mask(target, PAD))
        memory = self.positions(self.embedding(source))
        for layer in self.encoder:
            memory = layer(memory, source_mask)
        x = self.positions(self.embedding(target))
        for layer in self.decoder:
            x = layer(x, memory, target_mask, source_mask)
        return self.output(x)

    def backward(self, dlogits):
        dx = self.output.backward(dlogits)
        dmemory = 0
        for layer in reversed(self.decoder):
            dx, from_layer = layer.backward(dx)
            dmemory = dmemory + from_layer
        self.embedding.backward(self.positions.backward(dx))
        for layer in reversed(self.encoder):
            dmemory = layer.backward(dmemory)
        self.embedding.backward(self.positions.backward(dmemory))


def randomize(module):                      # no γ stays 1 and no bias 0, so that a mistake in them would show
    for parameter in module.astype(np.float64).eval(remember=True).parameters():
        parameter.data = (parameter.data == 1) + rng.standard_normal(parameter.data.shape) / np.sqrt(D)
    return module


built = randomize(Transformer(V))
source = np.array([[5, 3, 7, 3, EOS], [8, 4, EOS, PAD, PAD]])
target = np.array([[BOS, 4, 9, 6], [BOS, 7, 10, PAD]])              # what the decoder reads
answers = np.array([[4, 9, 6, EOS], [7, 10, EOS, PAD]])             # what it has to predict
criterion = nt.CrossEntropyLoss(ignore_id=PAD)
predict("S, T = 5, 4 and there are 2 sentences: what is the shape of the weights in a head of cross-attention?",
        (2, 4, 5), why="Each target token is a query, and each source token a key, in each of the two sentences.")
criterion(built(source, target), answers)
built.backward(criterion.backward())
claim("finite differences and the complex step confirm every gradient",
      nt.gradcheck(built, source, target, directions=2).ok)

# %% [markdown]
# ## 3. The package's model
#
# `nt.transformer_2017` returns this model: an `nt.EncoderDecoder` with post-norm, without final norms, and with one
# matrix E. Its parameters have other names, so we copy them one by one and compare the logits and all gradients.

# %% The same numbers
def name_in_package(name):
    """Return what "decoder.0.attention.norm.gamma" is called there: "decoder.blocks.0.norm1.gamma"."""
    side, *rest = name.split(".")
    if side == "embedding":
        return "target_embedding.weight"
    block, sublayer, part, *last = rest
    order = ["attention", "feed_forward"] if side == "encoder" else ["attention", "cross_attention", "feed_forward"]
    return ".".join([side, "blocks", block, sublayer if part == "f" else f"norm{order.index(sublayer) + 1}", *last])


package = nt.transformer_2017(V, N, D, F, H, rng=0).astype(np.float64).eval(remember=True)
theirs = dict(package.named_parameters())
for name, parameter in built.named_parameters():
    theirs[name_in_package(name)].data = parameter.data
built.zero_grad()
criterion(built(source, target), answers)
built.backward(criterion.backward())
with nt.record(package) as tape:            # keeps the inputs, outputs and gradients of every component
    logits = package(source, target)
    criterion(logits, answers)
    package.backward(criterion.backward())
claim("the package's model has the same number of parameters", package.num_parameters() == built.num_parameters(),
      f"{built.num_parameters():,}")
claim("it gives the same logits", np.allclose(logits, built(source, target), rtol=1e-13, atol=1e-13))
claim("and the same gradient of every parameter", [
    np.allclose(parameter.grad, theirs[name_in_package(name)].grad, rtol=1e-12, atol=1e-14)
    for name, parameter in built.named_parameters()])
show_source(nt.EncoderDecoder.backward)

# %% [markdown]
# ## 4. Where the parameters are
#
# A Linear from m to n features has m n weights and n biases. An attention has four Linears from D to D, a feed-forward
# layer goes from D to F features and back, and a norm has 2 numbers for each feature. E has a row of D numbers for each
# of V tokens.

# %% Counting them
def count(V, N, D, F):
    attention = 4 * (D ** 2 + D)
    feed_forward = 2 * D * F + F + D
    norm = 2 * D
    encoder_block = attention + feed_forward + 2 * norm
    decoder_block = 2 * attention + feed_forward + 3 * norm
    return N * (encoder_block + decoder_block) + V * D


predict("how many parameters has one attention with D = 4?", 80, why="Four Linears with 4 · 4 + 4 = 20 numbers each.")
claim("the formula counts the parameters of our model", count(V, N, D, F) == built.num_parameters())
base = count(37_000, 6, 512, 2048)
claim("the base model of the paper (N = 6, D = 512, F = 2048, about 37,000 tokens) has 62 to 68 million",
      62e6 < base < 68e6, f"{base / 1e6:.1f} million; table 3 of the paper says 65 million")

# %% [markdown]
# ## 5. Backward through the memory
#
# The memory influences the loss only through cross-attention. Each of the N decoder blocks uses the same memory, and
# uses it twice: for its keys and for its values. Where the source is PAD, the row of the memory is hidden, and so its
# gradient is zero.

# %% The parts of dmemory
dmemory = tape["encoder"].dy
from_blocks = [tape[f"decoder.blocks.{i}.cross_attention"].gradients[1] for i in range(N)]
as_keys, as_values = (tape[f"decoder.blocks.0.cross_attention.{role}"].gradients[0] for role in ("key", "value"))
claim("one block: dmemory as keys + dmemory as values", np.allclose(from_blocks[0], as_keys + as_values, atol=1e-14))
claim("the encoder receives the sum over the blocks", np.allclose(dmemory, sum(from_blocks), atol=1e-14))
claim("it is zero where the source is PAD", dmemory[source == PAD] == 0)
longer = np.concatenate([source, np.full((2, 3), PAD)], axis=1)
claim("more PAD in the source leaves the logits unchanged", np.allclose(package(longer, target), logits, atol=1e-13))
changed = target.copy()
changed[0, 2] = 5
claim("changing target token 2 leaves the logits of tokens 0 and 1 unchanged",
      np.allclose(package(source, changed)[0, :2], logits[0, :2], atol=1e-13))

# %% [markdown]
# `numpy-transformer explore --lesson 13` opens dmemory of a small translator in your browser, and on the map the arrow
# from the decoder back to the encoder. Which word of the source receives the largest gradient? In the chosen entry,
# which of the two uses of the memory contributes more?
#
# ## 6. A first task: copying
#
# The first example of The Annotated Transformer copies random numbers. The decoder has to find, for each position, the
# source token at the same position, and nothing in the model says so. We train four models of the package with four
# blocks on each side: post-norm as in the paper and pre-norm as in The Annotated Transformer, each with warm-up, in
# which the learning rate rises from 0 during the first 100 steps, and without.
#
# Lesson 10 gives a reason for expecting a difference. In post-norm every gradient on its way down passes a norm after
# each sublayer. In pre-norm it has a path without any norm. Xiong et al. (2020) found that post-norm needs the warm-up.

# %% Training four models to copy
def batch(step):
    digits = np.random.default_rng([13, step]).integers(3, V, (32, 8))
    start = np.full((32, 1), BOS)
    return (digits, np.concatenate([start, digits[:, :-1]], axis=1)), digits


def train(norm, warmup, steps=300, lr=0.01):
    model = nt.make_model(V, V, N=4, d_model=32, d_ff=64, h=4, dropout=0.0, norm=norm, tie_weights=True, rng=0)
    optimizer = nt.Adam(model.parameters(), lr, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(1, steps + 1):
        optimizer.lr = lr * min(1, step / warmup)
        inputs, digits = batch(step)
        model.zero_grad()
        losses.append(criterion(model(*inputs), digits))
        model.backward(criterion.backward())
        optimizer.step()
    return losses, model.eval()


runs = {(norm, warmup): train(norm, warmup) for norm in ("post", "pre") for warmup in (1, 100)}
curves = {key: losses for key, (losses, _) in runs.items()}
last = {key: np.mean(losses[-20:]) for key, losses in curves.items()}
for (norm, warmup), loss in last.items():
    print(f"  {norm + '-norm':9}  {'with' if warmup > 1 else 'without':7} warm-up: loss at the end {loss:.2f}")
claim("pre-norm learns to copy with and without warm-up: its loss falls below a quarter of log(8), the loss of a guess",
      max(last["pre", 1], last["pre", 100]) < np.log(8) / 4)
claim("at this depth and learning rate, post-norm learns more slowly, with and without warm-up",
      [last["post", warmup] > 2 * last["pre", warmup] for warmup in (1, 100)])
claim("and warm-up helps it", last["post", 100] < last["post", 1] - 0.2)
_, digits = batch(0)                        # a batch that no training has seen
copies = nt.greedy_decode(runs["pre", 100][1], digits, bos=BOS, eos=EOS, max_len=8)
right = (copies == digits).all(-1)
claim("the pre-norm model copies most new sequences of eight digits without an error", right.mean() > 0.5,
      f"{right.mean():.0%}")
picture = Figure(figsize=(9, 4.4), layout="constrained")
axes = picture.subplots()
styles = {("post", 1): "C1:", ("post", 100): "C1-", ("pre", 1): "C0:", ("pre", 100): "C0-"}
for (norm, warmup), losses in curves.items():
    smooth = np.convolve(losses, np.ones(10) / 10, "valid")
    name = f"{norm}-norm, {'warm-up' if warmup > 1 else 'no warm-up'}"
    axes.plot(np.arange(10, 301), smooth, styles[norm, warmup], label=name)
axes.axhline(np.log(8), color="0.6", linewidth=1, label="guessing among eight digits")
axes.set(xlabel="step", ylabel="loss (mean of 10 steps)", title="Learning to copy with four blocks on each side")
axes.legend()
figure("post_and_pre", picture)

# %% [markdown]
# This is one task at one depth and one rate. The 2017 paper trained a post-norm model of six blocks with great success,
# with 4,000 steps of warm-up and a much lower rate (equation 3). But most models of today normalize before the
# sublayer.
#
# ## Exercises
#
# 1. A model made with `[block] * 6` learns worse than expected. Name two checks that find the mistake, and one that
#    cannot find it.
# 2. Someone computes the values of cross-attention from the decoder's x, and the keys from the memory. Which two
#    lengths must be equal for this to run? What can a query then see that the causal mask should have hidden?
# 3. A generator returns softmax(z), and the loss takes its logarithm. For which logits does this fail, and why does
#    log-softmax not fail?
# 4. In section 2, the last decoder layer is left out of the sum. Predict which parameters get wrong gradients.
# 5. What fraction of the base model's parameters is in the attentions, and what fraction in the feed-forward layers?
# 6. E receives three gradients. Which rows does each of them reach: from the output layer, from the target, from the
#    source?
#
# With a checker (`numpy-transformer exercise start my-exercises 13`): 13.1, 13.2, 13.3, 13.4, 13.5, 13.6.
