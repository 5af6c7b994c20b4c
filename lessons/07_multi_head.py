# %% [markdown]
# # 07 Multi-head attention
#
# A softmax row is one set of weights, so one attention gives each token one mean of all values. A verb that needs its
# subject and its object wants two. Multi-head attention runs H small attentions side by side, each on its own slice of
# the features, and mixes their results. It has as many parameters as one large attention.
#
# The slices are a view of the same numbers, made by a reshape and a swap of two axes. Forget the swap, and everything
# still runs, on mixed-up tokens. Afterwards you can write split, merge and backward by hand, find that mistake by a
# measurement, and tell the three attentions of a Transformer apart. Lesson 05 explains one attention, lesson 06 masks.
# About 15 minutes.

# %% Imports
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.classroom import claim, figure, lesson, predict, show
from numpy_transformer.layers.multi_head import merge_heads, split_heads

lesson.start(__name__)
rng = np.random.default_rng(7)


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. One softmax, one mean
#
# Head h tells token t the sum over s of P_ts (x_s W_V^h). That is (sum over s of P_ts x_s) W_V^h: a mean of the inputs,
# then a matrix, which sees the mean alone. In "cat saw dog" let the verb look for its subject and for its object. With
# one head it finds both, each with weight 1/2, and the mean of cat and dog is also that of "dog saw cat": who saw whom
# is lost. Two heads have two softmaxes, and give two means. ("With a single attention head, averaging inhibits this",
# Vaswani et al. 2017, section 3.2.2.) Both layers below have the **same four matrices**; only H differs.

# %% The same matrices with one head and with two
SUBJECT, OBJECT, VERB, CAT, DOG, SAW = np.eye(6)                    # features: what a word does, and which it is
cat_saw_dog = np.array([SUBJECT + CAT, VERB + SAW, OBJECT + DOG])
dog_saw_cat = np.array([SUBJECT + DOG, VERB + SAW, OBJECT + CAT])
said = {}
predict("the verb looks for subject and object in one softmax: its weights on [cat, saw, dog]?", [0.5, 0, 0.5])
for H in (1, 2):
    layer = nt.SelfAttention(6, H, bias=False).astype("f8").eval()
    layer.query.weight.data = np.outer(VERB, [90, 0, 0, 90, 0, 0])  # the verb asks in feature 0 and in feature 3
    layer.key.weight.data = np.outer(SUBJECT, [1, 0, 0, 0, 0, 0]) + np.outer(OBJECT, [0, 0, 0, 1, 0, 0])
    layer.value.weight.data = np.outer(CAT, [0, 1, 0, 0, 1, 0]) + np.outer(DOG, [0, 0, 1, 0, 0, 1])
    layer.output.weight.data = np.eye(6)
    said[H] = layer(dog_saw_cat)[1], layer(cat_saw_dog)[1]
    print(f"  H = {H}: weights of the verb {layer.weights[:, 1].round(2).tolist()}, it is told {said[H][1].round(2)}")
claim("one head: both sentences tell the verb the same", np.allclose(*said[1]))
claim("two heads: subject first, then object", np.allclose(said[2], [[0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 1]]))

# %% [markdown]
# ## 2. The split is a view
#
# The queries of all heads are computed at once, q = x W_Q + b_Q, of shape (B, T, D). Head h owns the features h d to
# (h + 1) d - 1, with d = D / H; they come from W_Q^h, the same columns of W_Q. Attention wants a matrix for each head:
#
#     split    (B, T, D)  --reshape-->  (B, T, H, d)  --swap axes 1 and 2-->  (B, H, T, d)
#     merge    (B, H, T, d)  --swap axes 1 and 2-->  (B, T, H, d)  --reshape-->  (B, T, D)
#
# The reshape cuts the last axis and touches no other. The swap changes how far NumPy steps along each axis: a split
# copies nothing.
#
# **Without the swap**, x.reshape(B, H, T, d) has the right shape and the right numbers, in the wrong places. Memory
# goes token by token: with T = 6 and H = 2, head 0 gets all features of the tokens 0 to 2, in two rows each, and head 1
# the tokens 3 to 5. They never meet. A wrong merge, reshape(B, T, D), puts all numbers back, so a test by a round trip
# passes. The X-ray of lesson 06 shows the mistake: which input reaches which output.

# %% Both splits, and what their attention can reach
B, T, D, H = 2, 6, 8, 2
d, x = D // H, rng.standard_normal((B, T, D))


class NoSwap(nt.SelfAttention):
    def forward(self, x):
        q, k, v = (part(x).reshape(H, T, d) for part in (self.query, self.key, self.value))
        return self.output(self.attention(q, k, v).reshape(T, D))


heads, wrong = split_heads(x, H), x.reshape(B, H, T, d)
predict("shape of the heads of x, (2, 6, 8), with 2 heads?", (2, 2, 6, 4))
claim("right: head h has the features h d to (h + 1) d - 1 of every token",
      np.array_equal(heads, [[x[b, :, h * d:(h + 1) * d] for h in range(H)] for b in range(B)]))
claim("right: the heads share the memory of x", np.shares_memory(heads, x))
claim("right: merge is the inverse of split", np.array_equal(merge_heads(heads), x))
claim("wrong: the same shape, the same numbers", wrong.shape == heads.shape and set(wrong.flat) == set(heads.flat))
claim("wrong: a round trip passes", np.array_equal(wrong.reshape(B, T, D), x))
claim("wrong: head 0 has tokens 0 to 2, in two rows each",
      np.array_equal(wrong[:, 0], [[x[b, t, h * d:(h + 1) * d] for t in range(3) for h in range(H)] for b in range(B)]))
reach, reach_wrong = (nt.influence(kind(D, H, rng=7), x[0]) for kind in (nt.SelfAttention, NoSwap))
claim("right: every token reaches every output", reach > 0)
claim("wrong: token 0 reaches outputs 0 to 2 only", np.array_equal(reach_wrong[:, 0] > 0, [1, 1, 1, 0, 0, 0]))
picture = Figure(figsize=(12.5, 6.6), layout="constrained")
axes = picture.subplot_mosaic([["x", *"abcd"], ["x", *"rrww"]])
(tokens, features), pieces = np.indices((T, D)), lambda z: (z, *split_heads(z, H), *z.reshape(H, T, d))
for key, title, token, feature in zip("xabcd", ("x", "right: head 0", "right: head 1", "no swap: head 0",
                                                "no swap: head 1"), pieces(tokens), pieces(features)):
    axes[key].imshow(token, "viridis", vmin=0, vmax=T, aspect="auto")
    for row in range(T):
        axes[key].text(token[0].size / 2 - 0.5, row, f"{token[row, 0]}: {feature[row, 0]}-{feature[row, -1]}",
                       ha="center", va="center", color="white" if token[row, 0] < 3 else "black")
    axes[key].set(title=title, xticks=[], yticks=range(T), ylabel="row" if key in "xa" else "")
for key, title, xray in (("r", "right", reach), ("w", "no swap", reach_wrong)):
    axes[key].imshow(xray, "Blues", vmin=0, aspect="auto")
    for t, s in np.argwhere(xray == 0):
        axes[key].text(s, t, "0", ha="center", va="center")
    axes[key].set(title=f"{title}: what reaches what", xlabel="input token", ylabel="output token", xticks=range(T),
                  yticks=range(T))
picture.suptitle('Rows of x and of the heads: "token: its features". Below, darker: a larger derivative (0: exactly 0)')
figure("heads", picture)

# %% [markdown]
# ## 3. H attentions, and a sum
#
# With W_O^h for the rows h d to (h + 1) d - 1 of W_O, "concatenate the heads, then multiply by W_O" is a sum:
#
#     head_h = Attention(query W_Q^h + b_Q^h, key W_K^h + b_K^h, value W_V^h + b_V^h)
#     y = concat(head_0, head_1, ...) W_O + b_O = b_O + sum over h of head_h W_O^h
#
# Each head adds its own contribution to the output, and W_O^h decides where. However D is cut, the four matrices
# stay D x D: 4 D² + 4 D parameters for every H. (Heads may share keys and values: lesson 16.) Below, key and value come
# from S other tokens.

# %% One head after the other, with slices and no reshape
B, T, S, D, H = 2, 5, 7, 12, 3
d, layer = D // H, nt.MultiHeadAttention(D, H, rng=7).astype("f8")
for parameter in layer.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(D)
query, dy, key, value = *rng.standard_normal((2, B, T, D)), *rng.standard_normal((2, B, S, D))
W, b = ({name: getattr(getattr(layer, name), kind).data for name in ("query", "key", "value", "output")}
        for kind in ("weight", "bias"))
slices = [slice(h * d, (h + 1) * d) for h in range(H)]
with nt.record(layer) as tape:
    y, gradients = layer(query, key, value), layer.backward(dy)
y_loops = np.zeros((B, T, D)) + b["output"]
for n in range(B):
    for part in slices:
        q, k, v = (z[n] @ W[name][:, part] + b[name][part] for z, name in zip((query, key, value), W))
        for t in range(T):
            e = [math.exp(sum(q[t] * k[s]) / math.sqrt(d)) for s in range(S)]
            y_loops[n, t] += sum(e[s] / sum(e) * v[s] for s in range(S)) @ W["output"][part]
show(y=y, weights=layer.weights)
claim("y = b_O + sum of head_h W_O^h", apart(y, y_loops) < 1e-14)
counts = [nt.MultiHeadAttention(D, heads).num_parameters() for heads in (1, 2, 3, 4, 6, 12)]
claim("4 D² + 4 D parameters for 1, 2, 3, 4, 6 and 12 heads", np.array(counts) == 4 * D * D + 4 * D, f"{counts[0]}")

# %% [markdown]
# ## 4. Backward
#
# From the last line of forward to its first, with dy given:
#
# **y = b_O + sum over h of head_h W_O^h.** A head enters y through its own rows of W_O:
#
#     dhead_h = dy (W_O^h)ᵀ          dW_O^h = sum over b and t of head_htᵀ dy_t
#
# So dy W_Oᵀ is computed at once, and split as forward split q.
#
# **head_h = Attention(q_h, k_h, v_h).** Heads know nothing of each other: lesson 05 gives dq_h, dk_h and dv_h.
#
# **q_h = query W_Q^h + b_Q^h.** The query goes into every head:
#
#     dquery = sum over h of dq_h (W_Q^h)ᵀ          dW_Q^h = sum over b and t of query_tᵀ dq_ht
#
# and so do key and value. That sum over h is the merge, followed by one product with W_Qᵀ.
#
# **Self-attention** has one x for query, key and value. It occurs three times, so dx = dquery + dkey + dvalue.
# **Cross-attention** has queries from x, keys and values from a memory: dx = dquery, dmemory = dkey + dvalue. Whoever
# keeps one of three gets an array of the right shape.

# %% Each line for each head, and what is missing when a part is dropped
(dheads, dparts), merged, R = (tape["attention"].dy, tape["attention"].gradients), tape["output"].inputs[0], range(B)
claim("dhead_h = dy (W_O^h)ᵀ", apart(dheads, [[dy[n] @ W["output"][part].T for part in slices] for n in R]) < 1e-14)
claim("dW_O^h = sum of headᵀ dy", apart(layer.output.weight.grad, np.vstack([
    sum(np.outer(merged[n, t, part], dy[n, t]) for n in R for t in range(T)) for part in slices])) < 1e-14)
single, (q, k, v) = nt.ScaledDotProductAttention(), tape["attention"].inputs[:3]
alone = [[(single(q[n, h], k[n, h], v[n, h]), single.backward(dheads[n, h]))[1] for h in range(H)] for n in R]
claim("each head is an attention of its own",
      [apart(dparts[i][n, h], alone[n][h][i]) < 1e-14 for i in range(3) for n in R for h in range(H)])
for name, x, dz, dx in zip(W, (query, key, value), dparts, gradients):
    dW = [sum(np.outer(row, dz[n, h, t]) for n in R for t, row in enumerate(x[n])) for h in range(H)]
    claim(f"d{name} and its weight's gradient", apart(getattr(layer, name).weight.grad, np.hstack(dW)) < 1e-14
          and apart(dx, [sum(dz[n, h] @ W[name][:, slices[h]].T for h in range(H)) for n in R]) < 1e-14)
claim("central differences agree, for every input and parameter", nt.gradcheck(layer, query, key, value).ok)
x, memory = query, key                      # now self-attention and cross-attention, with the same weights
attend, cross = (kind(D, H).astype("f8").load_state_dict(layer.state_dict())
                 for kind in (nt.SelfAttention, nt.CrossAttention))
_, dx = attend(x), attend.backward(dy)
_, gradients = layer(x, x, x), layer.backward(dy)
parts = dict(zip(("dquery", "dkey", "dvalue"), gradients))
claim("self-attention: dx = dquery + dkey + dvalue", apart(dx, sum(parts.values())) < 1e-14)
for names in (("dquery",), ("dkey",), ("dvalue",), ("dquery", "dkey"), ("dquery", "dvalue"), ("dkey", "dvalue")):
    some = sum(parts[name] for name in names)
    off, cosine = apart(some, dx), np.sum(some * dx) / np.linalg.norm(some) / np.linalg.norm(dx)
    claim(f"{' + '.join(names)} is not enough", off > 0.1, f"off by {off:.0%}, cosine {cosine:.2f}")
_, (dx, dmemory) = cross(x, memory), cross.backward(dy)
_, (dquery, dkey, dvalue) = layer(x, memory, memory), layer.backward(dy)
claim("cross-attention: dx = dquery, dmemory = dkey + dvalue",
      apart(dx, dquery) < 1e-14 and apart(dmemory, dkey + dvalue) < 1e-14)
claim("central differences agree with both", nt.gradcheck(attend, x).ok and nt.gradcheck(cross, x, memory).ok)

# %% [markdown]
# ## 5. The three attentions of a Transformer
#
# The Transformer of 2017 uses multi-head attention in three places (Vaswani et al., section 3.2.3). It is one
# component; what differs is who asks, who answers and what is hidden:
#
#     attention                  query from    key and value from      weights    hidden
#     encoder self-attention     source        source                  S x S      <pad> of the source
#     decoder self-attention     target        target                  T x T      later tokens, <pad> of the target
#     cross-attention            target        the encoder's output    T x S      <pad> of the source
#
# A small EncoderDecoder, one block on each side, learns to spell words backwards. The weights in the picture are those
# that it used for one word, recorded in its forward. To write a letter, cross-attention looks for its place in the
# source, from the end to the beginning.

# %% A small model, trained, and recorded
letters, STEPS = ["<pad>", "<s>", "</s>", *"abcdefghij"], 400
sources, targets = np.zeros((STEPS * 32 + 300, 6), int), np.zeros((STEPS * 32 + 300, 8), int)
for row, n in enumerate(rng.integers(3, 7, len(sources))):          # words of 3 to 6 letters, each with <s> and </s>
    sources[row, :n] = rng.integers(3, 13, n)
    targets[row, :n + 2] = [1, *sources[row, :n][::-1], 2]
model = nt.EncoderDecoder(13, 13, d_model=24, num_heads=2, num_layers=1, d_ff=48, dropout=0, max_len=20, rng=7)
optimizer, criterion = nt.Adam(model.parameters(), 0.005), nt.CrossEntropyLoss(ignore_id=0)
for batch in (slice(32 * step, 32 * step + 32) for step in range(STEPS)):
    model.zero_grad()
    criterion(model(sources[batch], targets[batch, :-1]), targets[batch, 1:])
    model.backward(criterion.backward())
    optimizer.step()
answers, logits = targets[-300:, 1:], model.eval()(sources[-300:], targets[-300:, :-1])
right = (logits.argmax(-1) == answers)[answers > 0].mean()
claim("of 300 more words it knows nearly every next letter", right > 0.95, f"{right:.0%}")
source, target = (np.array([letters.index(c) for c in text.split()])
                  for text in ("c h a i f <pad>", "<s> f i a h"))                            # S = 6, T = 5
with nt.record(model) as tape:
    model(source[None], target[None])
picture, uses = Figure(figsize=(13, 4.6), layout="constrained"), []
for axes, place, title, asks, answers in zip(picture.subplots(1, 3), (
        "encoder.blocks.0.attention", "decoder.blocks.0.attention", "decoder.blocks.0.cross_attention"),
        ("encoder self-attention", "decoder self-attention", "cross-attention"),
        (source, target, target), (source, target, source)):
    weights = tape[f"{place}.attention.softmax"].output[0]          # of two heads
    uses.append([weights, *(tape[f"{place}.{part}"].inputs[0] for part in ("query", "key", "value"))])
    axes.imshow(weights.mean(0), "Blues", vmin=0, vmax=1.2)
    for (t, s), number in np.ndenumerate(weights.mean(0)):
        axes.text(s, t, "<1" if 0 < number < 0.005 else f"{100 * number:.0f}", ha="center", va="center",
                  color="white" if number > 0.6 else "black")
    axes.set_xticks(range(len(answers)), [letters[i] for i in answers])
    axes.set_yticks(range(len(asks)), [letters[i] for i in asks])
    axes.set(title=title, xlabel="key", ylabel="query")
picture.suptitle("Weights in percent, the mean of both heads (0: exactly 0)")
figure("three_attentions", picture)
(enc, *from_enc), (dec, *from_dec), (both, *from_both) = uses
claim("self-attention: query, key and value are made of one x",
      [np.array_equal(x[0], z) for x in (from_enc, from_dec) for z in x])
claim("cross-attention: key and value are made of the encoder's output, the query is not",
      [np.array_equal(z, tape["encoder"].output) for z in from_both] == [False, True, True])
claim("the shapes are S x S, T x T and T x S, for two heads", (enc.shape, dec.shape, both.shape) == (
    (2, 6, 6), (2, 5, 5), (2, 5, 6)))
claim("the decoder sees no later token", np.triu(dec, 1) == 0)
claim("nobody sees <pad>", [(weights[..., 5] == 0).all() for weights in (enc, both)])
claim("cross-attention, the mean of both heads, reads from the end", both.mean(0).argmax(-1) == [4, 3, 2, 1, 0])

# %% [markdown]
# ## Exercises
#
# 1. One head has the weights 0.7 and 0.3 on subject and object. Now it tells "cat saw dog" from "dog saw cat". Find two
#    other pairs of vectors that it cannot tell apart.
# 2. Predict: D = 8, H = 4, T = 6, no swap. Which outputs does token 0 reach? Check it with nt.influence.
# 3. A backward reshapes without a swap, as its forward does. What does gradcheck say, and why?
# 4. Find the bug: a mask of shape (B, T, S) is added to scores (B, H, T, S). When does it run, and what does it hide?
# 5. Write split and merge with a loop over heads and np.concatenate. Which of the two copies?
# 6. Why has the memory of a decoder with 6 blocks a gradient of 12 terms?
#
# With a checker (`numpy-transformer exercise check NN`): 07.1, 07.2, 07.3, 07.4, 07.5, 07.6, 07.7.
