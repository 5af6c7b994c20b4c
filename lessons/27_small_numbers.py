# %% [markdown]
# # 27 Small numbers
#
# A weight in float32 takes four bytes. Generating a token reads every weight once (with experts, those of the chosen
# ones). So a model with weights of fewer bits is not only smaller but also faster where memory bandwidth is the limit.
# How few bits are enough, and what goes wrong with fewer?
#
# In this lesson you will round to bfloat16 and float8 by hand, find the updates that bfloat16 loses, store weights as
# integers of 4 bits, see what one large row does to them, train through a rounding, and fine-tune a model whose weights
# are stored in 4 bits.
#
# A **floating-point number** is ± 1.f · 2^e. The drawing shows how many bits each format has for the exponent e and for
# the fraction f. Exponent bits buy range; fraction bits buy precision. **Integers** have no exponent. A group of them
# shares one number, the scale.

# %% Four floating-point formats, and integers with a scale
import copy
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source
from numpy_transformer.layers.quantization import dequantize_groups, pack_int4, quantize_groups

lesson.start(__name__)
drawing("small_numbers")
rng = np.random.default_rng(27)

# %% [markdown]
# ## 1. Rounding to a few bits
#
# With m fraction bits, the numbers between 2^e and 2^(e+1) are the multiples of 2^(e-m). To round x, divide it by this
# step, round to an integer, and multiply. A tie, which lies exactly halfway, goes to the *even* integer: always
# rounding up would make sums grow. The exponent has a smallest value. Below it the step stays the same (*subnormal*
# numbers), so that numbers reach 0 gradually.
#
# float8 E4M3 (Micikevicius et al. 2022) has 4 exponent bits and m = 3 fraction bits. The stored exponent is e + 7, with
# e from -6 to 8; a stored 0 marks the subnormal numbers. The largest number is 448. Only 254 of the 256 bytes are
# numbers, so we can decode all of them and search for the nearest one. (E5M2 has more range and less precision. The
# paper uses it for gradients.)

# %% Five lines, compared with all bytes of float8 E4M3
def round_e4m3(x, to_integer=np.rint):      # np.rint rounds ties to the even integer
    _, e = np.frexp(x)                      # |x| is in [2^(e-1), 2^e)
    e = np.maximum(e - 1, -6)
    step = 2.0 ** (e - 3)
    return np.clip(to_integer(x / step) * step, -448, 448)


def decode(byte):
    sign, e, f = byte >> 7, byte >> 3 & 15, Fraction(byte & 7, 8)
    return (-1) ** sign * (f * Fraction(2) ** -6 if e == 0 else (1 + f) * Fraction(2) ** (e - 7))


numbers = np.array(sorted({float(decode(byte)) for byte in range(256) if byte & 127 != 127}))      # 127 means NaN
print("  the smallest above 0:", *numbers[numbers > 0][:4], " the largest:", *numbers[-3:])
x = np.concatenate([rng.standard_normal(2000) * 2.0 ** rng.integers(-12, 10, 2000), numbers])
nearest = numbers[abs(x[:, None] - numbers).argmin(1)]
ties = (numbers[:-1] + numbers[1:]) / 2
claim("five lines find the nearest of all numbers of the format", np.array_equal(round_e4m3(x), nearest))
claim("nt.round_to agrees, including ties",
      [np.array_equal(nt.round_to(values, "float8_e4m3"), round_e4m3(values)) for values in (x, ties)])
half_up = round_e4m3(ties, lambda x: np.floor(x + 0.5))
claim("control: rounding halves up instead moves the ties upward on average",
      [half_up.mean() - ties.mean() > 1, abs(round_e4m3(ties).mean() - ties.mean()) < 1e-12])
predict("E4M3 has three fraction bits. What is the distance between its numbers from 16 to 32?", 2,
        why="16 = 2^4, so the step is 2^(4-3).")

# %% [markdown]
# ## 2. Where bfloat16 loses an update
#
# bfloat16 has float32's exponents and m = 7. A weight w with 2^e ≤ |w| < 2^(e+1) has neighbors at the distance
# 2^(e-7). (At |w| = 2^e, the one toward 0 is half as far: exercise 2.) An update of less than half of the distance is
# rounded away. As 2^e ≤ |w| < 2 · 2^e,
#
#     |update| < 2^-9 |w|        is always lost
#     |update| > 2^-8 |w|        is never lost
#
# In between, it depends on w. A million such updates in a row also change nothing. So training keeps **master weights**
# in float32. They collect the small updates, and a copy of them, rounded to bfloat16, is used in forward and backward
# (how dW passes the rounding: section 5). In float16 and float8, small *gradients* also become 0. The loss is then
# multiplied by a large number before backward, and the gradients are divided by it before the step.
#
# The model below sorts six letters. It learns the reverse order with a small learning rate. As it was sure of the old
# order, its loss begins far above that of a uniform guess, log 8 = 2.08, and is still above it after 150 steps.

# %% A bound, and a training run
w = nt.round_to(rng.uniform(0.01, 1, 10000), "bfloat16")
for factor, kept in ((0.99 * 2.0 ** -9, 0), (1.01 * 2.0 ** -8, 1)):
    changed = np.mean(nt.round_to(w + factor * w, "bfloat16") != w)
    claim(f"an update of {factor:.5f} w is {'kept' if kept else 'lost'} by every weight", changed == kept)
LETTERS, N, SEPARATOR = 8, 6, 8


def batch(seed, reverse, count=64):
    """(inputs, targets): words, a separator, and the sorted words; only the sorted letters count as targets."""
    words = np.random.default_rng(seed).integers(0, LETTERS, (count, N))
    answers = np.sort(words, axis=1)[:, ::-1] if reverse else np.sort(words, axis=1)
    ids = np.concatenate([words, np.full((count, 1), SEPARATOR), answers], axis=1)
    targets = ids[:, 1:].copy()
    targets[:, :N] = -1
    return ids[:, :-1], targets


def train(model, reverse, lr, steps=150, after_step=lambda model: None):
    optimizer, criterion = nt.Adam(model.parameters(), lr), nt.CrossEntropyLoss(ignore_id=-1)
    for n in range(steps):
        optimizer.lr = lr * min(1, (n + 1) / 10, 2 * (steps - n) / steps)           # rises, is constant, falls
        inputs, targets = batch([steps, n], reverse)
        model.zero_grad()
        criterion(model(inputs), targets)
        model.backward(criterion.backward())
        nt.clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        after_step(model)
    return model


def loss(model, reverse=False):             # of 500 new words
    inputs, targets = batch(99, reverse, 500)
    return nt.CrossEntropyLoss(ignore_id=-1)(copy.deepcopy(model).eval()(inputs), targets)


def bfloat16(W):
    return nt.round_to(W, "bfloat16")


def round_linears(model):                   # what nt.add_rounding rounds
    for _, part in model.named_modules():
        if isinstance(part, nt.Linear):
            part.weight.data = bfloat16(part.weight.data)


base = train(nt.CausalLanguageModel(LETTERS + 1, 32, 4, 2, max_len=2 * N, rng=0), False, 0.005, 400)
at_first, in_float32 = loss(base, True), loss(train(copy.deepcopy(base), True, 1e-4), True)
masters = loss(train(nt.add_rounding(copy.deepcopy(base), bfloat16), True, 1e-4), True)
no_masters = loss(train(copy.deepcopy(base), True, 1e-4, after_step=round_linears), True)
print(f"  loss {at_first:.2f} before; in float32 {in_float32:.2f}, in bfloat16 with masters {masters:.2f}, "
      f"without {no_masters:.2f}")
claim("the loss falls, but not to that of a uniform guess", at_first - 2 > in_float32 > np.log(LETTERS),
      f"which is {np.log(LETTERS):.2f}")
claim("with float32 masters, bfloat16 learns as well as float32", abs(masters - in_float32) < 0.1)
claim("control: without masters it learns much less", no_masters > in_float32 + 1)

# %% [markdown]
# ## 3. Integers with a scale
#
# Take a group of g weights of one column of W, which are multiplied by neighboring input features. Let a be the largest
# absolute value in it, and n = 7 for 4 bits, or 127 for 8 bits:
#
#     code = round(n w / a)                   an integer from -n to n
#     w ≈ code · a / n                        off by at most a / (2 n)
#
# Two codes of 4 bits share a byte. Each group adds one scale a, here in float32. A scale may depend on the output
# feature and on the group of input features. One for each pair of input and output feature would be one per weight.

# %% Quantize, pack, and count
def quantize(W, bits, group):
    n = 2 ** (bits - 1) - 1
    groups = W.reshape(-1, group, W.shape[1])                       # (d_in / g, g, d_out)
    a = abs(groups).max(1, keepdims=True)
    return np.rint(n * groups / a), a, n


W = base.decoder.blocks[0].feed_forward.up.weight.data              # (32, 128)
codes, a, n = quantize(W, 4, 8)
show(weights=W[:8, 0], codes=codes[0, :, 0].astype(int))
rounded = (codes * a / n).reshape(W.shape)
claim("no weight moves by more than a / (2 n)", abs(W.reshape(codes.shape) - codes * a / n) <= a / (2 * n) * (1 + 1e-5))
layer = nt.QuantizedLinear(nt.Linear(32, 128, bias=False), bits=4, group=8)
layer.weight.data = W
claim("nt.QuantizedLinear computes with these weights", np.allclose(layer.weight.data, rounded, rtol=1e-5, atol=0))
packed = pack_int4(layer.weight.codes)
claim("two codes share a byte", packed[0] == (codes[0, 0, 0] + 8) + 16 * (codes[0, 0, 1] + 8))
predict("W has 32 · 128 weights. How many bytes do 4-bit codes and float32 scales of groups of 8 take together?",
        32 * 128 // 2 + 4 * 4 * 128, why="2,048 bytes of codes, and 4 · 128 groups with 4 bytes each.")
claim("so much memory is taken", layer.weight.nbytes == 4096,
      f"{8 * layer.weight.nbytes // W.size} bits per weight: small groups are not free; 16,384 bytes in float32")


def integers(bits, group=None):             # a rounding; None: one scale per column
    return lambda W: dequantize_groups(*quantize_groups(W, bits, group), bits)


def one_scale(bits):                        # a single scale for the whole matrix
    return lambda W: integers(bits)(W.reshape(-1, 1)).reshape(W.shape)


def bits_per_weight(bits, group):           # with a scale of 32 bits for each group
    shapes = [part.weight.data.shape for _, part in base.named_modules() if isinstance(part, nt.Linear)]
    return bits + 32 * sum(d_in * d_out / (group or d_in) for d_in, d_out in shapes) / sum(map(np.prod, shapes))


SCHEMES = {"bfloat16": (bfloat16, 16), "float8 E4M3": (lambda W: nt.round_to(W, "float8_e4m3"), 8)}
for bits, group in ((8, None), (4, 16), (4, None), (3, None), (2, None)):
    scales = f"groups of {group}" if group else "column"
    SCHEMES[f"int{bits}, {scales}"] = integers(bits, group), bits_per_weight(bits, group)
losses = {name: loss(nt.add_rounding(copy.deepcopy(base), rounding)) for name, (rounding, _) in SCHEMES.items()}
print(f"  float32             32.0 bits per weight, loss {loss(base):.4f}")
for name, (_, bits) in SCHEMES.items():
    print(f"  {name:18}  {bits:4.1f} bits per weight, loss {losses[name]:.4f}")
claim("8 bits or more change the loss by less than 20%, and 4 bits do not double it",
      [abs(losses[name] / loss(base) - 1) < (0.2 if bits > 7 else 1) for name, (_, bits) in [*SCHEMES.items()][:5]])
claim("with 2 bits (codes -1, 0 and 1), it breaks down", losses["int2, column"] > 0.2)
by_layer = {}
for name, part in base.named_modules():
    if isinstance(part, nt.Linear):
        by_layer[name.removeprefix("decoder.blocks.")] = loss(nt.add_rounding(copy.deepcopy(base), integers(2), name))
worst = max(by_layer, key=by_layer.get)
claim("layers differ: 2 bits in one layer alone cost ten times as much in the worst as in the best",
      max(by_layer.values()) - loss(base) > 10 * (min(by_layer.values()) - loss(base)), f"the worst is {worst}")

# %% [markdown]
# ## 4. One large row
#
# Large language models have a few features that are many times as large as the others, in all layers and most tokens
# (Dettmers et al. 2022). They make trouble when activations are rounded. Our model has none. We plant the counterpart
# in the weights, without changing what the model computes: γ and β of feature 5 of each norm are divided by 32, and row
# 5 of the matrices after it is multiplied by 32.
#
# Row 5 has an entry in *every* column. So it inflates the scale of the matrix and also that of every column, and most
# other weights become 0. With groups of g input features, it spoils only the g - 1 neighbors in its group.

# %% Plant it, and compare scales
planted = copy.deepcopy(base)
for block in planted.decoder.blocks:
    attention, up = block.attention, block.feed_forward.up
    for norm, readers in ((block.norm1, (attention.query, attention.key, attention.value)), (block.norm2, (up,))):
        norm.gamma.data[5] /= 32
        norm.beta.data[5] /= 32
        for reader in readers:
            reader.weight.data[5] *= 32
claim("the model computes what it did, as 32 is a power of 2", loss(planted) == loss(base))
W = planted.decoder.blocks[0].feed_forward.up.weight.data
SCALES = {"one scale": one_scale(4), "one per column": integers(4), "groups of 8": integers(4, 8)}
picture = Figure(figsize=(11, 3.6), layout="constrained")
zeros, planted_loss = {}, {}
for axes, (name, rounding) in zip(picture.subplots(1, 3, sharey=True), SCALES.items()):
    planted_loss[name] = loss(nt.add_rounding(copy.deepcopy(planted), rounding))
    zeros[name] = np.mean(rounding(W) == 0)
    image = axes.imshow(abs(rounding(W) - W), cmap="Blues", vmin=0, vmax=0.3, aspect="auto", interpolation="nearest")
    axes.set(title=f"{name}: loss {planted_loss[name]:.2f},\n{zeros[name]:.0%} of the weights are 0",
             xlabel="output feature", ylabel="input feature" if name == "one scale" else "")
picture.colorbar(image, extend="max", label="error of the weight")
figure("outlier", picture)
claim("with one scale or one per column, most weights become 0",
      [zeros["one scale"] > 0.7, zeros["one per column"] > 0.5])
claim("the losses are in this order: groups of 8, one per column, one scale",
      [planted_loss["groups of 8"] < 0.5 * planted_loss["one per column"], planted_loss["groups of 8"] < 1,
       planted_loss["one per column"] < planted_loss["one scale"]])
claim("8 bits suffice even so, with a scale per column: the loss changes by less than 20%",
      abs(loss(nt.add_rounding(copy.deepcopy(planted), integers(8))) / loss(base) - 1) < 0.2)

# %% [markdown]
# ## 5. Training through a rounding
#
# Can a model learn to live with 2 bits? Let R be the rounding, and y = x R(W). For a fixed scale, each entry of R is a
# staircase, so R' is 0 almost everywhere: dW = R'(W) * (xᵀ dy) = 0, and W would not move. (Our scale follows the
# largest weight of a column, which alone would get a gradient.) The **straight-through estimator** (Bengio et al. 2013)
# replaces R' by 1:
#
#     y = x R(W)
#     dx = dy R(W)ᵀ                           exact
#     dW = xᵀ dy                              the gradient of R(W), passed on to W
#
# W stays in float32, as in section 2: its updates add up until a code changes. (If R clips weights to a fixed range,
# those outside it should get no gradient, or they drift away. With our scale, nothing is clipped.)
#
# This is not the derivative of the loss, and `gradcheck` must say so.

# %% The estimator, and 150 steps with weights -a, 0 and a
show_source(nt.StraightThroughLinear.forward, nt.StraightThroughLinear.backward)
layer = nt.StraightThroughLinear(nt.Linear(6, 3, bias=False, rng=1).astype(np.float64), integers(2))
x, dy = rng.standard_normal((5, 6)), rng.standard_normal((5, 3))
rounded = integers(2)(layer.weight.data)
claim("nt.StraightThroughLinear computes this y, dx and dW",
      [np.allclose(layer(x), x @ rounded), np.allclose(layer.backward(dy), dy @ rounded.T),
       np.allclose(layer.weight.grad, x.T @ dy)])
wrong = {row.tensor for row in nt.gradcheck(layer, x).rows if not row.ok}
claim("control: gradcheck rejects dW, and only dW", wrong == {"weight"})
with_2_bits = losses["int2, column"]
through = train(nt.add_rounding(copy.deepcopy(base), integers(2)), False, 0.001)
afterwards = nt.add_rounding(train(copy.deepcopy(base), False, 0.001), integers(2))
print(f"  loss with 2 bits: {with_2_bits:.3f}; trained through the rounding: {loss(through):.3f}; "
      f"trained in float32 and then rounded: {loss(afterwards):.3f}")
claim("straight-through training removes most of the damage", loss(through) < 0.1 * with_2_bits)
claim("control: the same steps without rounding do not", loss(afterwards) > 0.5 * with_2_bits)

# %% [markdown]
# ## 6. QLoRA
#
# Integers cannot take small steps, so a quantized model is frozen. Its output is still differentiable in x: dx = dy Ŵᵀ
# is exact, with the rounded weights Ŵ. That is all that LoRA (lesson 21) needs. **QLoRA** (Dettmers et al. 2023) trains
# A and B in float on top of a 4-bit base:
#
#     y = x Ŵ + b + s (x A) B
#
# The paper's 4-bit numbers are not evenly spaced as ours are: the 16 values of NormalFloat lie more densely near 0,
# where normally distributed weights are. It also rounds the scales.

# %% Reverse sorting, learned on a base of 4 bits
layer = nt.QuantizedLinear(nt.Linear(16, 6, rng=1), bits=4, group=8)
claim("gradcheck agrees with the dx of nt.QuantizedLinear", nt.gradcheck(layer, rng.standard_normal((3, 16))).ok)
EVERY_LINEAR = ("query", "key", "value", "attention.output", "up", "down")


def codes_of(model):
    return [parameter.codes for parameter in model.parameters() if hasattr(parameter, "codes")]


models = {"float32": copy.deepcopy(base), "int4": nt.quantize(copy.deepcopy(base), bits=4, group=16)}
kept = codes_of(models["int4"])
before, after = {}, {}
for name, model in models.items():
    nt.add_lora(model, rank=4, targets=EVERY_LINEAR, rng=1)
    before[name] = loss(model, True)
    after[name] = loss(train(model, True, 0.01), True)
    print(f"  LoRA on {name:7} {nt.stored_bytes(model):8,} bytes, loss {before[name]:.2f}, later {after[name]:.2f}")
claim("LoRA learns the task on a base of 4 bits", [before["int4"] > 3, after["int4"] < 0.6])
claim("no code of the base has changed", list(map(np.array_equal, codes_of(models["int4"]), kept)))
claim("it takes less than half of the bytes",
      nt.stored_bytes(models["int4"]) < 0.5 * nt.stored_bytes(models["float32"]))
predict("How many GB do 7 billion codes of 4 bits, in groups of 64 with float32 scales, take (one decimal)?",
        round(7 * (4 + 32 / 64) / 8, 1), why="These are 4 + 32/64 = 4.5 bits per weight. In float32 they take 28 GB.")
picture = Figure(figsize=(11, 4.2), layout="constrained")
left, right = picture.subplots(1, 2)
left.barh([f"{name} ({bits:.1f} bits)" for name, (_, bits) in SCHEMES.items()], losses.values())
left.barh("int2, trained in section 5", loss(through), color="C1")
left.set(xlabel="loss with all Linears rounded", title="How many bits are enough")
right.barh(list(by_layer), by_layer.values())
right.set(xlabel="loss with 2 bits in this Linear alone", title="Which Linears need more bits")
for axes in (left, right):
    axes.axvline(loss(base), color="0.3", linestyle=":", label="float32")
    axes.set(xscale="log", xlim=(loss(base) / 2, None))
    axes.invert_yaxis()
left.legend(loc="upper right"), right.legend(loc="lower right")
figure("bits", picture)

# %% [markdown]
# What this small task does not show: how much 4 bits cost a language model, whose loss is not near 0, and any gain in
# speed, since NumPy computes with float32 in every case.
#
# ## Exercises
#
# 1. Round 0.3, 17, 19 and 500 to E4M3 by hand. What is the smallest x that becomes 448?
# 2. A weight is 1.0 in bfloat16. Which updates are lost if they are added, and which if they are subtracted? Why are
#    these different?
# 3. Someone quantizes a column of zeros and gets NaN. Where does it come from, and which code is right?
# 4. In section 4, divide γ and β by 32 *after* quantizing the weights, and then multiply row 5 of the dequantized
#    weights. What do you expect for each kind of scale?
# 5. With LoRA's update merged into a 4-bit weight, one gets round(Ŵ + s A B). When does this lose what was learned?
#    Compare the size of s A B with the step a / 7 in section 6. What does `nt.merge_lora` say?
#
# With a checker (`numpy-transformer exercise start my-exercises 27`): 27.1, 27.2, 27.3.
