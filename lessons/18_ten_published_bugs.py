# %% [markdown]
# # 18 Ten published bugs
#
# Eleven NumPy programs with a hand-written backward, found in public, were checked with differences. Ten had a wrong
# gradient, a wrong connection, or a test that could not fail. Several had been trained, and their losses had fallen.
# This lesson takes ten mistakes of that kind, plants each in a small model that is right, and trains both side by
# side. Of each it asks: does the loss tell, which test passes nevertheless, and which one fails? Afterwards you can
# write checks that find such mistakes, and know which of them no gradient check can see. Lesson 02 explains gradient
# checks. About 15 minutes.

# %% Imports, a way to plant a mistake, and the two outcomes of a gradient check
import math
from functools import partial

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.classroom import claim, figure, lesson, predict

lesson.start(__name__)
rng = np.random.default_rng(18)
B, T, D, H, F, V = 3, 5, 6, 2, 10, 8        # all different, so that no wrong shape fits by chance
x, ids, mask = rng.standard_normal((B, T, D)), rng.integers(0, V, (B, T)), nt.causal_mask(T)
found = {}                                  # mistake: (its class, and in two lines what finds it)


def plant(wrong, model):
    """Every component of the parent class of `wrong` becomes a `wrong`: the weights stay, the methods change."""
    for _, module in model.named_modules():
        if type(module) is wrong.__base__:
            module.__class__ = wrong
    return model


def passes(what, module, *inputs, **options):
    claim(f"passes: {what}", nt.gradcheck(module, *inputs, directions=2, **options).ok)


def fails(mistake, wrong, model, *inputs):
    """Without the mistake the gradient check passes, with it it fails; the rows of its report."""
    passes(f"the same without '{mistake}'", model, *inputs)
    report = nt.gradcheck(plant(wrong, model), *inputs, directions=2)
    worst = max(report.rows, key=lambda row: row.central)
    found[mistake] = wrong, f"relative error {worst.central:.2f}", f"cosine {worst.cosine:.2f}"
    claim(f"FAILS: {mistake}, worst in {worst.tensor}", not report.ok, ", ".join(found[mistake][1:]))
    return {row.tensor: row for row in report.rows}


attention = partial(nt.SelfAttention, D, H, rng=1)
block = partial(nt.DecoderBlock, D, H, F, rng=1)
language_model = partial(nt.CausalLanguageModel, V, 24, H, 1, d_ff=48, max_len=12, rng=1)

# %% [markdown]
# ## 1. Right parts, wrong connections
#
# **The residual goes through the norm.** In a pre-norm block y = x + f(norm(x)), the path of x itself goes
# around the norm: dx = dy + norm'(f'(dy)), where ' stands for backward. Written as norm'(dy + f'(dy)), it goes
# through it. All layers are right, so their tests pass. The loss falls, since the output layer and the last
# feed-forward, which backward reaches before the mistake, learn as they should.
#
# **A tied weight gets one gradient of two.** The embedding is the output matrix too, so its gradient is a sum of
# two. The program computed both, but the optimizer saw only that of the input.
#
# **One slot for two uses.** One dropout serves both sublayers of a block and keeps its mask in an attribute. The
# second forward overwrites the first mask. Alone the layer is right, and with p = 0 the block is right too.
#
# **Rule:** check blocks and whole models, every parameter, with dropout on and its generator set back.

# %% Three wrong connections
class ThroughTheNorm(nt.DecoderBlock):
    def backward(self, dx):
        dx = self.norm2.backward(dx + self.feed_forward.backward(self.dropout.backward(dx)))
        return self.norm1.backward(dx + self.attention.backward(self.dropout.backward(dx)))


class InputPartOnly(nt.Unembedding):
    def backward(self, dy):
        self.recall()                       # x; and dyᵀ x should be added to the gradient of the weight
        return dy @ self.weight.data


class OneSlot(nt.Dropout):
    def forward(self, x):
        self._scale = self.draw(x) if self.training and self.p else 1.0
        return x * self._scale

    def backward(self, dy):
        return dy * self._scale


rows = fails("residual through the norm", ThroughTheNorm, block(dropout=0.0), x, mask)
last = [row.ok for name, row in rows.items() if name.startswith("feed_forward.")]
claim("the last feed-forward is right, both matrices and biases", sum(last) == len(last) == 4)
rows = fails("tied weight, one gradient", InputPartOnly, language_model(), ids)
claim("all other parameters of the model are right", sum(not row.ok for row in rows.values()) == 1)
passes("a dropout with one slot, alone", OneSlot(0.3, rng=1), x)
passes("the block that shares it, p = 0", plant(OneSlot, block(dropout=0.0)), x, mask)
fails("dropout with one slot", OneSlot, block(dropout=0.3), x, mask)

# %% [markdown]
# ## 2. Right where it was tested
#
# **γ outside the sums.** With g = γ dy, LayerNorm has dx = (g - mean(g) - x̂ mean(g x̂)) / σ. Written as
# γ (dy - mean(dy) - x̂ mean(dy x̂)) / σ it is right while all γ are equal, and every model begins with γ = 1.
#
# **Softmax divided by the batch.** Its gradient is divided by B, as if there were a mean. With B = 1 that is right.
# With B = 3, queries and keys get a third of their gradient, values all of it. Adam takes the same step for
# a third (lesson 19); only in dx, where the three are added, is the direction wrong.
#
# **Repeated ids.** `grad[ids] += dy` reads, adds and writes: of all places of a token, the last one stays. With
# distinct ids it is right. `np.add.at(grad, ids, dy)` adds them all.
#
# **Rule:** random parameters (γ not 1), B above 1, ids that repeat; relative errors, tensor by tensor (a gradient
# that is small everywhere is right within any absolute tolerance).

# %% Three layers that pass the wrong test
class GammaOutside(nt.LayerNorm):
    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        self.gamma.grad += (dy * x_hat).sum((0, 1))
        self.beta.grad += dy.sum((0, 1))
        dx = dy - dy.mean(-1, keepdims=True) - x_hat * (dy * x_hat).mean(-1, keepdims=True)
        return self.gamma.data * dx * inverse_std


class DividedByBatch(nt.Softmax):
    def backward(self, dy):
        return super().backward(dy) / len(dy)


class LastPlaceOnly(nt.Embedding):
    def backward(self, dy):
        self.weight.grad[self.recall()] += dy


passes("γ outside the sums, γ = 1 as at the start", GammaOutside(D), x, randomize=False)
fails("γ outside the sums", GammaOutside, nt.LayerNorm(D), x)
passes("softmax divided by B, B = 1", plant(DividedByBatch, attention()), x[:1], mask)
rows = fails("softmax divided by B", DividedByBatch, attention(), x, mask)
query = rows["query.weight"]
claim("B = 3: the query gets a third, the value is right",
      math.isclose(query.backward * 3, query.numeric, rel_tol=1e-9) and rows["value.weight"].ok)
passes("repeated ids dropped, distinct ids", LastPlaceOnly(V, D), np.array([[3, 1], [0, 6]]))
fails("repeated ids dropped", LastPlaceOnly, nt.Embedding(V, D, rng=1), ids)

# %% [markdown]
# ## 3. Forward and backward wrong together
#
# A gradient check asks whether backward is the derivative of forward. It does not know which forward was meant.
#
# **Heads without the transpose.** To split heads is `reshape(B, T, H, d)`, then T and H change places. A plain
# `reshape(B, H, T, d)` has the same shape, but with two heads it puts the first half of the tokens into head 0 and the
# second half into head 1. The merge undoes it, so a test of split and merge passes. But no half sees the other.
#
# **A mask misread.** A mask of 0 (may attend) and -inf meets `scores + (1 - mask) * -1e9`, which wants 1 and 0. The
# scores that count get -1e9 as well. Softmax ignores what a row shares, but near 1e9 the numbers of float32 lie 64
# apart: all scores between -32 and 32 become equal. In float64 they keep seven decimals, and a check sees noise.
#
# **Cross-attention miswired.** Queries and keys come from the encoder, values from the decoder, and no mask stands
# there: each output gets the decoder's inputs of all places, also of those that it is to predict.
#
# **Rule:** move one input and see which outputs follow; compare forward with a second source, in the dtype of training.

# %% Three forwards that nobody meant
def scrambled(x):                           # rightly split heads -> what reshape(B, H, T, d) alone makes
    return x.swapaxes(1, 2).reshape(x.shape)


def restored(y):
    return y.reshape(y.swapaxes(1, 2).shape).swapaxes(1, 2)


class NotTransposed(nt.ScaledDotProductAttention):
    def forward(self, q, k, v, mask=None):
        return restored(super().forward(scrambled(q), scrambled(k), scrambled(v), mask))

    def backward(self, dy):
        return tuple(restored(gradient) for gradient in super().backward(scrambled(dy)))


class Misread(nt.ScaledDotProductAttention):
    def forward(self, q, k, v, mask=None):
        mask = np.where(mask, 0, -np.inf).astype(np.float32)                        # 0: may attend
        q = q / math.sqrt(q.shape[-1])
        self.weights = self.softmax(q @ k.mT + (1 - mask) * np.float32(-1e9))       # takes it as 1: may attend
        p = self.dropout(self.weights)
        self.remember(q, k, v, p)
        return p @ v


class ValuesFromDecoder(nt.CrossAttention):
    def forward(self, x, memory, mask=None, cache=None):
        return nt.MultiHeadAttention.forward(self, memory, memory, x, mask)

    def backward(self, dy):
        dquery, dkey, dvalue = nt.MultiHeadAttention.backward(self, dy)
        return dvalue, dquery + dkey


predict("Two heads, split without the transpose: how many of 6 outputs follow token 0?", 3)
causal, (x6, memory) = nt.causal_mask(6), rng.standard_normal((2, 1, 6, D))
decoder = partial(block, cross_attention=True)
rays = {title: nt.influence(model, x6, *others) for title, model, *others in (
    ("self-attention, right", attention(), causal),
    ("self-attention, heads not transposed", plant(NotTransposed, attention()), causal),
    ("decoder block, right", decoder(), memory, causal),
    ("decoder block, miswired cross-attention", plant(ValuesFromDecoder, decoder()), memory, causal))}
right, halves, right_block, leak = (ray > 0 for ray in rays.values())       # [t, s]: does output t move with token s?
claim("right: output t follows the tokens 0 to t, no other", np.array_equal([right, right_block], [causal[0, 0]] * 2))
passes("heads not transposed", plant(NotTransposed, attention()), x, mask)
claim("yet token 0 moves the outputs 0, 1, 2 alone", np.flatnonzero(halves[:, 0]).tolist() == [0, 1, 2])
found["heads not transposed"] = NotTransposed, "gradient check passes", "token 0 moves 3 of 6"
right, misread = nt.ScaledDotProductAttention(), Misread()
for layer in (right, misread):
    layer(*np.random.default_rng(3).standard_normal((3, 1, 1, T, 4), np.float32), mask)
right, misread = right.weights[0, 0], misread.weights[0, 0]
claim("float32: misread, the weights are 1 / (t + 1), whatever the scores are", np.allclose(
    misread, np.tri(T) / np.arange(1, T + 1)[:, None]) and np.ptp(right[-1]) > 0.1,
    "not " + " ".join(f"{w:.2f}" for w in right[-1]))
row = nt.gradcheck(plant(Misread, attention()), x, mask, directions=2).rows[1]
claim(f"float64: {row.tensor} has cosine 1, and an error like noise", row.cosine > 0.9999 and 1e-6 < row.central < 1e-2)
found["mask misread"] = Misread, "float64: like noise", "float32: a plain mean"
passes("cross-attention miswired", plant(ValuesFromDecoder, decoder()), x, x[::-1].copy(), mask)
claim("yet every output follows every token, the later ones too", leak)
found["cross-attention miswired"] = ValuesFromDecoder, "gradient check passes", "outputs see the future"
figure("which_follows_which", views.xray(rays))

# %% [markdown]
# ## 4. Beside the model
#
# **One β for both.** Adam's m = β1 m + (1 - β1) g is followed by v = β2 v + (1 - β1) g². With 1 - β1 for 1 - β2,
# v is 100 times too large and each step 10 times too small, as if the learning rate were. No gradient is wrong.
#
# **Rule:** use known values. Adam's first step is lr times the sign of the gradient.

# %% The first step
class OneBeta(nt.Adam):
    def update(self, w, g, m, v):
        beta1, beta2 = self.betas
        m[:] = beta1 * m + (1 - beta1) * g
        v[:] = beta2 * v + (1 - beta1) * g * g
        w -= self.lr * m / (1 - beta1 ** self.t) / (np.sqrt(v / (1 - beta2 ** self.t)) + self.eps)


for kind, size in ((nt.Adam, 1), (OneBeta, 0.1)):
    parameter = nt.Parameter(np.zeros(3))
    parameter.grad = np.array([3.0, -0.02, 500])
    kind([parameter], lr=1.0).step()
    claim(f"{kind.__name__}: the first step is {size} lr", np.allclose(parameter.data, [-size, size, -size]))
found["Adam, one β for both"] = OneBeta, "no gradient is wrong", "first step 0.1 lr, not lr"

# %% [markdown]
# ## 5. Ten training runs
#
# A text has twelve letters out of eight. In its first half a letter is followed by its successor in every second case,
# else by any. The second half repeats the first, one letter in ten replaced by chance. So the best loss that
# a model can reach is known: the entropy of the text. The language model has one block. For cross-attention, an
# encoder reads the first half and a decoder writes the second. All begin with the same weights and see the same
# texts, each text once: the training loss is that of new texts.

# %% Training
def batch(n, model):
    """Number n: 32 texts of 12 letters, as inputs and targets of this model."""
    rng = np.random.default_rng([18, n])
    first = rng.integers(V, size=(32, 6))
    for t in range(1, 6):
        first[:, t] = np.where(rng.random(32) < 0.5, (first[:, t - 1] + 1) % V, first[:, t])
    second = np.where(rng.random((32, 6)) < 0.1, rng.integers(V, size=(32, 6)), first)
    if isinstance(model, nt.EncoderDecoder):        # the decoder is given its targets one place later
        return (first, np.hstack([np.full((32, 1), V), second[:, :-1]])), second
    text = np.hstack([first, second])
    return text[:, :-1], text[:, 1:]


def train(model, optimizer=nt.Adam):
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), optimizer(model.parameters(), lr=0.01), workers=1)
    return [trainer.step([batch(n, model)])["loss"] for n in range(250)]


translator = partial(nt.EncoderDecoder, V + 1, V + 1, 24, H, 1, 48, 0.0, 12, pad_id=None, tie_weights=True, rng=1)
makers = {OneSlot: partial(language_model, dropout=0.1), ValuesFromDecoder: translator}
predict("Ten wrong models are trained: how many losses fall by a fifth or more?", 10)
right, runs = {}, {}                        # runs: the losses without the mistake and with it
for mistake, (wrong, *_) in found.items():
    make = makers.get(wrong, language_model)
    right[make] = right.get(make) or train(make())
    runs[mistake] = right[make], train(plant(wrong, make()), wrong if wrong is OneBeta else nt.Adam)
ends = {mistake: np.array(pair)[:, -40:].mean(1) for mistake, pair in runs.items()}
for mistake, (good, bad) in ends.items():
    print(f"  {mistake:<26} {bad:.2f}, without it {good:.2f}   {', '.join(found[mistake][1:])}")

# %% [markdown]
# ## 6. What the losses say
#
# All ten fall, and most end where the right run ends: a gradient need not be right to lead downwards. The misread
# mask is overcome by the optimizer, which makes the scores so large that steps of 64 tell them apart. And one curve
# is too good: no model that has not seen the answer gets below the entropy. The miswired cross-attention reads the
# answer from its inputs; when it has to write by itself, there is none to read.

# %% The claims about it
def entropy(sure):                          # of a letter that is the expected one for sure, else any
    p = (1 - sure) / V + sure * np.eye(V)[0]
    return -(p * np.log(p)).sum()


claim("every loss falls by a fifth or more", [runs[name][1][0] * 0.8 > bad for name, (_, bad) in ends.items()])
claim("at least half of them end within 0.05 of the run without the mistake",
      sum(abs(bad - good) < 0.05 for good, bad in ends.values()) >= 5)
floor, floor2 = (5 * entropy(0.5) + 6 * entropy(0.9)) / 11, entropy(0.9)
good, bad = ends["cross-attention miswired"]
claim("right models end near the entropy", abs(ends["mask misread"][0] - floor) < 0.1 and abs(good - floor2) < 0.15,
      f"{floor:.2f} for the text, {floor2:.2f} for its second half")
claim("the miswired one ends far below it", bad < floor2 - 0.15, f"{bad:.2f}")

# %% The ten curves
picture = Figure(figsize=(12, 5), layout="constrained")
for axes, (mistake, (good, bad)) in zip(picture.subplots(2, 5, sharex=True, sharey=True).flat, runs.items()):
    colour = "C1-" if found[mistake][1].startswith("relative") else "C0-"
    for losses, style, width in ((bad, colour, 2.5), (good, "k:", 1.5)):
        axes.plot(np.arange(5, 250, 10), np.reshape(losses, (25, 10)).mean(1), style, linewidth=width)
    axes.set_title(mistake, fontsize=11.5)
    axes.text(125, 2.95, "\n".join(found[mistake][1:]), ha="center", va="center", fontsize=11)
    axes.set(ylim=(0, 3.4), xlim=(0, 250), xticks=(0, 100, 200), yticks=range(3))
picture.axes[8].axhline(floor2, color="0.5", linewidth=1)
picture.axes[8].text(8, floor2 - 0.08, "entropy", va="top", fontsize=11, color="0.35")
picture.supxlabel("step")
picture.supylabel("loss (nats per letter)")
picture.suptitle("Dotted: without the mistake. Orange: the gradient check finds it. Blue: another check does.",
                 fontsize=13)
figure("ten_curves", picture)

# %% [markdown]
# ## Exercises
#
# 1. A residual's backward is written `1 + f.backward(dy)`, since "the derivative of x is 1". For which dy is that
#    right? The loss is a mean over 352 letters: what does the 1 do to the parameters below? Train it.
# 2. Cross-entropy's gradient is divided by the number of targets twice. Predict its cosine and relative error. Does
#    Adam train differently, does SGD? What makes the softmax of section 2 a worse case?
# 3. Write a dropout that multiplies by 1 / (1 - p) in eval too. Why does no gradient check find it? What does?
# 4. A warm-up's counter is raised once for each parameter tensor instead of each step. Which check finds it?
# 5. A test compares dx with differences: a new layer, B = 1, no repeated ids, no dropout. Which of the ten pass it?
# 6. Keep both encoder-decoders, and let them write letter by letter, from their own letters. The miswired one needs six
#    letters at a time: fill the places not yet written with any. How many does each copy rightly?
#
# `numpy-transformer zoo` lists sixty-six such bugs; `zoo NAME` plants one, runs all checks on it and trains it.
