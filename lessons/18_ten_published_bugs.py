# %% [markdown]
# # 18 Ten published bugs
#
# Eleven published NumPy programs with a hand-written backward were checked against finite differences. Ten of them had
# a wrong gradient, a wrong connection, or a test that could not fail. Several had been trained, and their losses had
# fallen. This lesson takes ten mistakes of these kinds, plants each of them in a small correct model, and trains the
# correct and the wrong model side by side. Does the loss show the mistake, and which test finds it?
#
# The drawing shows the checks of this course. `nt.gradcheck` is the second of them (lesson 02). Some of the mistakes
# pass it.

# %% Imports, a way to plant a mistake, and two kinds of claims about a gradient check
from functools import partial

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views, zoo
from numpy_transformer.course import claim, drawing, figure, lesson, predict

lesson.start(__name__)
rng = np.random.default_rng(18)
B, T, D, H, F, V = 3, 5, 6, 2, 10, 8        # all different, so that no wrong shape fits by chance
x = rng.standard_normal((B, T, D))
ids = rng.integers(0, V, (B, T))
mask = nt.causal_mask(T)
wrong_classes = {}                          # {mistake: the class that contains it}
evidence = {}                               # {mistake: two lines that say how it is found}
found_by_gradcheck = set()


# Turns every component of the parent class of `wrong` into a `wrong`: its weights stay, its methods change.
def plant(wrong, model):
    found = [module for _, module in model.named_modules() if isinstance(module, wrong.__base__)]
    assert found or issubclass(wrong, nt.Adam), f"the model has no {wrong.__base__.__name__}"
    for module in found:
        module.__class__ = wrong
    return model


def passes(what, module, *inputs, **options):
    claim(f"gradient check passes: {what}", nt.gradcheck(module, *inputs, directions=2, **options).ok)


def fails(mistake, wrong, model, *inputs):
    """Claims that the gradient check passes without the mistake and fails with it; returns the rows of its report."""
    passes(f"the correct model for '{mistake}'", model, *inputs)
    report = nt.gradcheck(plant(wrong, model), *inputs, directions=2)
    worst = max(report.rows, key=lambda row: row.central)
    wrong_classes[mistake] = wrong
    evidence[mistake] = [f"relative error {worst.central:.2f}", f"cosine {worst.cosine:.2f}"]
    found_by_gradcheck.add(mistake)
    claim(f"gradient check FAILS: {mistake}; {worst.tensor} is worst", not report.ok, ", ".join(evidence[mistake]))
    return {row.tensor: row for row in report.rows}


attention = partial(nt.SelfAttention, D, H, rng=1)
block = partial(nt.DecoderBlock, D, H, F, rng=1)
language_model = partial(nt.CausalLanguageModel, V, 24, H, 1, d_ff=48, max_len=12, rng=1)
drawing("checks")

# %% [markdown]
# ## 1. Correct parts, wrong connections
#
# **The residual goes through the norm.** In a pre-norm block y = x + f(norm(x)), the gradient of the skip path goes
# around the norm: dx = dy + norm'(f'(dy)), where ' stands for backward. The mistake is norm'(dy + f'(dy)), which sends
# it through the norm. Every layer is correct, so the tests of the layers pass.
#
# **A tied weight gets one of its two gradients.** The embedding matrix is also the output matrix, so its gradient is a
# sum of two. Here the gradient of the output is missing.
#
# **One slot for two calls.** One dropout module serves both sublayers of a block and keeps its mask in an attribute.
# The second forward pass overwrites the mask of the first. Alone, this layer is correct.
#
# **Rule:** check blocks and whole models, all parameters, and with dropout on.

# %% Three wrong connections
class ThroughTheNorm(nt.Block):
    def backward(self, dx):
        dx = self.norm2.backward(dx + self.feed_forward.backward(self.dropout.backward(dx)))
        return self.norm1.backward(dx + self.attention.backward(self.dropout.backward(dx)))


class InputPartOnly(nt.Unembedding):
    def backward(self, dy):
        self.recall()                       # x; missing here: dyᵀ x has to be added to the gradient of the weight
        return dy @ self.weight.data


class OneSlot(nt.Dropout):
    def forward(self, x):
        self._scale = self.draw(x) if self.training and self.p else 1.0
        return x * self._scale

    def backward(self, dy):
        return dy * self._scale


fails("residual through the norm", ThroughTheNorm, block(dropout=0.0), x, mask)
fails("tied weight, one gradient", InputPartOnly, language_model(), ids)
passes("a dropout with one slot, alone", OneSlot(0.3, rng=1), x)
fails("dropout with one slot", OneSlot, block(dropout=0.3), x, mask)

# %% [markdown]
# ## 2. Correct where it was tested
#
# **γ outside the sums.** With g = γ dy, LayerNorm has dx = (g - mean(g) - x̂ mean(g x̂)) / σ. The mistake is
# γ (dy - mean(dy) - x̂ mean(dy x̂)) / σ. It is correct as long as all γ are equal, and every model starts with γ = 1.
#
# **Softmax divided by the batch size.** Its gradient is divided by B, as if softmax contained a mean over the batch.
# With B = 1 this is correct. With B = 3, queries and keys get a third of their gradient, and values get all of it. Adam
# takes the same step for a third of a gradient. Only dx, the sum of the three, has a wrong direction.
#
# **Repeated ids.** `grad[ids] += dy` reads all rows, adds, and writes them back, so if a token occurs several times,
# only its last occurrence counts (lesson 03). With distinct ids, the line is correct.
#
# **Rule:** check with random parameters (γ not 1), with B above 1, and with repeated ids. Judge by relative errors,
# since any absolute tolerance accepts a wrong gradient if its values are small enough.

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


class LastOccurrenceOnly(nt.Embedding):
    def backward(self, dy):
        self.weight.grad[self.recall()] += dy


passes("γ outside the sums, with γ = 1 as at the start of training", GammaOutside(D), x, randomize=False)
fails("γ outside the sums", GammaOutside, nt.LayerNorm(D), x)
passes("softmax divided by B, with B = 1", plant(DividedByBatch, attention()), x[:1], mask)
rows = fails("softmax divided by B", DividedByBatch, attention(), x, mask)
query = rows["query.weight"]
claim("with B = 3, the query gets a third of its gradient, and the value gets all of it",
      [np.isclose(query.backward * 3, query.numeric, rtol=1e-9), rows["value.weight"].ok])
passes("repeated ids dropped, with distinct ids", LastOccurrenceOnly(V, D), np.array([[3, 1], [0, 6]]))
fails("repeated ids dropped", LastOccurrenceOnly, nt.Embedding(V, D, rng=1), ids)

# %% [markdown]
# ## 3. Forward and backward wrong together
#
# A gradient check asks whether backward is the derivative of forward. It cannot tell whether forward computes what was
# intended.
#
# **Heads without the transpose.** To split heads means `reshape(B, T, H, d)`, and then to swap the axes T and H. A
# plain `reshape(B, H, T, d)` gives an array of the same shape, but with two heads it puts the first half of the tokens
# into head 0 and the second half into head 1. Merging the heads undoes it, so a test that splits and merges passes. But
# neither half of the text can see the other.
#
# **A mask misread.** The mask contains 0 (may attend) and -inf, but the code computes `scores + (1 - mask) * -1e9`,
# which expects 1 and 0. So -1e9 is added to the scores that should stay as they are. Softmax ignores a number that is
# added to a whole row, but near 1e9 the numbers of float32 are 64 apart, and all scores between -32 and 32 become
# equal. In float64 the scores keep about seven decimals, and a gradient check sees an error that looks like noise.
#
# **Cross-attention miswired.** Queries and keys come from the encoder, values come from the decoder, and no causal mask
# applies. So each output receives the decoder's inputs from all positions, including those that it has to predict.
#
# **Rule:** change one input and see which outputs change. Compare forward with a second source, in the dtype that is
# used for training.

# %% Three forward passes that do not compute what was intended
# Turns correctly split heads into what reshape(B, H, T, d) alone would have given.
def scrambled(x):
    return x.swapaxes(1, 2).reshape(x.shape)


def unscrambled(y):
    return y.reshape(y.swapaxes(1, 2).shape).swapaxes(1, 2)


class NotTransposed(nt.ScaledDotProductAttention):
    def forward(self, q, k, v, mask=None):
        return unscrambled(super().forward(scrambled(q), scrambled(k), scrambled(v), mask))

    def backward(self, dy):
        return tuple(unscrambled(gradient) for gradient in super().backward(scrambled(dy)))


class MisreadMask(nt.ScaledDotProductAttention):
    def forward(self, q, k, v, mask=None):
        mask = np.where(mask, 0, -np.inf).astype(np.float32)                        # here 0 means: may attend
        scores = self.score(q, k) + (1 - mask) * np.float32(-1e9)                   # and here 1 means: may attend
        self.weights = self.softmax(scores)
        return self.average(self.dropout(self.weights), v)


class ValuesFromDecoder(nt.CrossAttention):
    def forward(self, x, memory, mask=None, cache=None):
        return nt.MultiHeadAttention.forward(self, memory, memory, x, mask)

    def backward(self, dy):
        dquery, dkey, dvalue = nt.MultiHeadAttention.backward(self, dy)
        return dvalue, dquery + dkey


predict("Two heads are split without the transpose. How many of the 6 outputs depend on token 0?", 3,
        why="Head 0 gets the first half of the tokens. So outputs 0, 1 and 2 see token 0, and the others do not.")
causal = nt.causal_mask(6)
x6, memory = rng.standard_normal((2, 1, 6, D))
decoder = partial(block, cross_attention=True)
influences = {title: nt.influence(model, x6, *others) for title, model, *others in (
    ("self-attention, correct", attention(), causal),
    ("self-attention, heads not transposed", plant(NotTransposed, attention()), causal),
    ("decoder block, correct", decoder(), memory, causal),
    ("decoder block, miswired cross-attention", plant(ValuesFromDecoder, decoder()), memory, causal))}
# [t, s]: does output t depend on token s?
correct_attention, two_halves, correct_block, leak = (influence > 0 for influence in influences.values())
claim("correct: output t depends on tokens 0 to t and on no others",
      np.array_equal([correct_attention, correct_block], [causal[0, 0]] * 2))
passes("heads not transposed", plant(NotTransposed, attention()), x, mask)
claim("yet only outputs 0, 1 and 2 depend on token 0", np.flatnonzero(two_halves[:, 0]).tolist() == [0, 1, 2])
wrong_classes["heads not transposed"] = NotTransposed
evidence["heads not transposed"] = ["gradient check passes", "3 of 6 outputs see token 0"]

correct, misread = nt.ScaledDotProductAttention(), MisreadMask()
for layer in (correct, misread):
    layer(*np.random.default_rng(3).standard_normal((3, 1, 1, T, 4), np.float32), mask)
correct_weights, misread_weights = correct.weights[0, 0], misread.weights[0, 0]
claim("in float32, the misread mask makes all weights of row t equal to 1 / (t + 1), whatever the scores are",
      np.allclose(misread_weights, np.tri(T) / np.arange(1, T + 1)[:, None]) and np.ptp(correct_weights[-1]) > 0.1)
row = nt.gradcheck(plant(MisreadMask, attention()), x, mask, directions=2).rows[1]
claim(f"in float64, {row.tensor} has an error that looks like noise", row.cosine > 0.9999 and 1e-6 < row.central < 1e-2)
wrong_classes["mask misread"] = MisreadMask
evidence["mask misread"] = ["float64: like noise", "float32: equal weights"]

passes("cross-attention miswired", plant(ValuesFromDecoder, decoder()), x, x[::-1].copy(), mask)
claim("yet every output depends on every token, later tokens included", leak)
wrong_classes["cross-attention miswired"] = ValuesFromDecoder
evidence["cross-attention miswired"] = ["gradient check passes", "outputs see the future"]
figure("which_follows_which", views.xray(influences))

# %% [markdown]
# ## 4. Outside the model
#
# **One β for both moments.** Adam computes m = β1 m + (1 - β1) g, and then v = β2 v + (1 - β2) g². The mistake uses
# 1 - β1 in both lines. With β1 = 0.9 and β2 = 0.999, v becomes 0.1 / 0.001 = 100 times too large. Adam divides by the
# square root of v, so each step becomes 10 times too small. No gradient is wrong.
#
# **Rule:** test against known values. Adam's first step is lr times the sign of the gradient.

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
    claim(f"the first step of {kind.__name__} is {size} lr", np.allclose(parameter.data, [-size, size, -size]))
wrong_classes["Adam, one β for both"] = OneBeta
evidence["Adam, one β for both"] = ["no gradient is wrong", "first step 0.1 lr, not lr"]

# %% [markdown]
# ## 5. Ten training runs
#
# Each text has twelve letters from an alphabet of eight. In the first half, every second letter on average is the
# successor of the letter before it, and the others are random. The second half repeats the first, except that one
# letter in ten is replaced by a random one. So we know the lowest loss that a model can reach: the entropy of the text.
# For the mistake in cross-attention, an encoder reads the first half and a decoder writes the second half. All runs
# start from the same weights. Every text is seen only once, so the training loss is the loss on new texts.

# %% Training
# Batch number n: 32 texts of 12 letters, as the inputs and targets of this model.
def batch(n, model):
    rng = np.random.default_rng([18, n])
    first = rng.integers(V, size=(32, 6))
    for t in range(1, 6):
        first[:, t] = np.where(rng.random(32) < 0.5, (first[:, t - 1] + 1) % V, first[:, t])
    second = np.where(rng.random((32, 6)) < 0.1, rng.integers(V, size=(32, 6)), first)
    if isinstance(model, nt.EncoderDecoder):        # the decoder reads its targets shifted by one position
        return (first, np.hstack([np.full((32, 1), V), second[:, :-1]])), second
    text = np.hstack([first, second])
    return text[:, :-1], text[:, 1:]


# The loss of each of 250 training steps.
def train(model, optimizer=nt.Adam):
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), optimizer(model.parameters(), lr=0.01), workers=1)
    return [trainer.step([batch(n, model)])["loss"] for n in range(250)]


translator = partial(nt.EncoderDecoder, V + 1, V + 1, 24, H, 1, 48, 0.0, 12, pad_id=None, tie_weights=True, rng=1)
special_models = {OneSlot: partial(language_model, dropout=0.1), ValuesFromDecoder: translator}
predict("Ten models with a mistake are trained. How many of their losses fall by a fifth or more?", 10,
        why="A partly wrong gradient usually still points downhill, and a wrong forward learns with what it has.")
correct_losses = {}                         # {model: losses}, because most mistakes share one correct run
runs = {}                                   # {mistake: (the losses without it, the losses with it)}
for mistake, wrong in wrong_classes.items():
    make_model = special_models.get(wrong, language_model)
    if make_model not in correct_losses:
        correct_losses[make_model] = train(make_model())
    optimizer = OneBeta if wrong is OneBeta else nt.Adam
    runs[mistake] = correct_losses[make_model], train(plant(wrong, make_model()), optimizer)
final_losses = {mistake: np.array(pair)[:, -40:].mean(1) for mistake, pair in runs.items()}
for mistake, (good, bad) in final_losses.items():
    print(f"  {mistake:<26} loss {bad:.2f}, without the mistake {good:.2f}   ({', '.join(evidence[mistake])})")

# %% [markdown]
# ## 6. What the losses show
#
# All ten losses fall, and at least half of them end where the correct run ends: a gradient need not be correct to point
# downhill. One curve is too good to be true: no model can get below the entropy unless it has seen the answer. The
# miswired cross-attention reads the answer from its inputs. When this model has to generate text, there is no answer to
# read.

# %% Claims about the losses
# The entropy of a letter that is the expected one in this share of cases, and else a random one.
def entropy(share):
    p = (1 - share) / V + share * np.eye(V)[0]
    return -(p * np.log(p)).sum()


claim("every loss falls by a fifth or more", [runs[name][1][0] * 0.8 > bad for name, (_, bad) in final_losses.items()])
claim("at least half of them end within 0.05 of the run without the mistake",
      sum(abs(bad - good) < 0.05 for good, bad in final_losses.values()) >= 5)
entropy_of_text = (5 * entropy(0.5) + 6 * entropy(0.9)) / 11
entropy_of_second_half = entropy(0.9)
good, bad = final_losses["cross-attention miswired"]
claim("the correct language model ends near the entropy, and the correct encoder-decoder does not get below it",
      abs(final_losses["mask misread"][0] - entropy_of_text) < 0.1 and good > entropy_of_second_half - 0.05,
      f"{entropy_of_text:.2f} for the text, {entropy_of_second_half:.2f} for its second half")
claim("the miswired model ends far below it", bad < entropy_of_second_half - 0.15, f"{bad:.2f}")
published = sum(bool(bug.seen) for bug in zoo.BUGS.values())
print(f"  The package has a collection of {len(zoo.BUGS)} such bugs; {published} of them were found in published code.")

# %% The ten curves
picture = Figure(figsize=(12, 5.2), layout="constrained")
for axes, (mistake, (good, bad)) in zip(picture.subplots(2, 5, sharex=True, sharey=True).flat, runs.items()):
    line = "C1-" if mistake in found_by_gradcheck else "C0-"
    for losses, style, width in ((bad, line, 2.5), (good, "k:", 1.5)):
        axes.plot(np.arange(5, 250, 10), np.reshape(losses, (25, 10)).mean(1), style, linewidth=width)
    axes.set_title(mistake, fontsize=11.5)
    axes.text(125, 2.95, "\n".join(evidence[mistake]), ha="center", va="center", fontsize=11)
    axes.set(ylim=(0, 3.4), xlim=(0, 250), xticks=(0, 100, 200), yticks=range(3))
picture.axes[8].axhline(entropy_of_second_half, color="0.5", linewidth=1)
picture.supxlabel("training step")
picture.supylabel("loss (nats per letter)")
picture.suptitle("Solid: with the mistake (orange: a gradient check finds it; blue: only another check does). "
                 "Dotted: without it. Gray: entropy.", fontsize=13)
figure("ten_curves", picture)

# %% [markdown]
# ## Exercises
#
# 1. The backward of a residual is written as `1 + f.backward(dy)`, because "the derivative of x is 1". For which dy is
#    this correct? The loss is a mean over 352 letters: what does the 1 do to the parameters of the layers below? Train
#    it.
# 2. The gradient of cross-entropy is divided by the number of targets twice. Predict its cosine and its relative error.
#    Does it change how Adam trains, or SGD? Why is the softmax of section 2 a worse case?
# 3. Write a dropout that multiplies by 1 / (1 - p) in eval mode, too. Why does no gradient check find it? What does?
# 4. The step counter of a warm-up is raised once per parameter tensor instead of once per step. Which check finds it?
# 5. A test compares dx with finite differences for a new layer, with B = 1, no repeated ids and no dropout. Which of
#    the ten mistakes pass it?
# 6. Let both encoder-decoders generate text letter by letter from their own letters, with any letter in the positions
#    that are not yet generated. How many letters does each of them copy correctly?
#
# `numpy-transformer zoo` lists the collection, and `zoo NAME` plants one bug, runs all checks on it and trains it.
