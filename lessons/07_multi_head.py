# %% [markdown]
# # 07 Multi-head attention
#
# Each row of a softmax is one set of weights, so a single attention gives each token one weighted mean of all values.
# That is often too little: a verb that looks for its subject and for its object needs two means. Multi-head attention
# runs H small attentions side by side, each on its own slice of the features, and mixes their results. It has exactly
# as many parameters as one large attention.
#
# The slices are a view of the same array, made by a reshape and a swap of two axes. If you forget the swap, the code
# still runs, but every head works on mixed-up tokens. After this lesson you will be able to write split, merge and
# their backward pass by hand, detect that mistake with a measurement, and explain how the three attentions of a
# Transformer differ. Lesson 05 explains a single attention, and lesson 06 explains masks. About 15 minutes.

# %% Imports, and a measure of error
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict, show
from numpy_transformer.layers.heads import merge_heads, split_heads

lesson.start(__name__)
rng = np.random.default_rng(7)


def relative_error(a, b):                   # the distance between a and b, divided by the norm of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. One softmax gives one mean
#
# The output of head h for token t is the sum over s of P_ts (x_s W_V^h). This equals (sum over s of P_ts x_s) W_V^h:
# first a mean of the inputs, then a matrix that sees only this mean.
#
# Take the sentence "cat saw dog", and let the verb look for its subject and for its object. With one head it finds
# both, each with weight 1/2, and returns the mean of "cat" and "dog". The sentence "dog saw cat" gives the same mean,
# so the verb can no longer know who saw whom. Two heads have two softmaxes, and return two means: one holds the
# subject, the other the object. ("With a single attention head, averaging inhibits this", Vaswani et al. 2017,
# section 3.2.2.) Both layers below have the **same four matrices**. Only H differs.

# %% The same matrices, with one head and with two
SUBJECT, OBJECT, VERB, CAT, DOG, SAW = np.eye(6)        # features: the role of a word in the sentence, and the word
cat_saw_dog = np.array([SUBJECT + CAT, VERB + SAW, OBJECT + DOG])
dog_saw_cat = np.array([SUBJECT + DOG, VERB + SAW, OBJECT + CAT])
verb_outputs = {}                                       # for each number of heads: for "dog saw cat", "cat saw dog"
predict("one softmax, and the verb looks for subject and object: its weights on [cat, saw, dog]?", [0.5, 0, 0.5],
        why="Subject and object fit the query equally well, and the weights sum to 1, so each gets one half. The verb "
            "itself does not fit.")
for H in (1, 2):
    layer = nt.SelfAttention(6, H, bias=False).astype("f8").eval()
    layer.query.weight.data = np.outer(VERB, [90, 0, 0, 90, 0, 0])      # the verb asks in feature 0 and in feature 3
    layer.key.weight.data = np.outer(SUBJECT, [1, 0, 0, 0, 0, 0]) + np.outer(OBJECT, [0, 0, 0, 1, 0, 0])
    layer.value.weight.data = np.outer(CAT, [0, 1, 0, 0, 1, 0]) + np.outer(DOG, [0, 0, 1, 0, 0, 1])
    layer.output.weight.data = np.eye(6)
    verb_outputs[H] = layer(dog_saw_cat)[1], layer(cat_saw_dog)[1]
    print(f"  verb, H = {H}: weights {layer.weights[:, 1].round(2).tolist()}")
    print(f"               output  {verb_outputs[H][1].round(2)}")
claim("one head: the verb's output is the same for both sentences", np.allclose(*verb_outputs[1]))
claim("two heads: the output holds the subject first, then the object",
      np.allclose(verb_outputs[2], [[0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 1]]))

# %% [markdown]
# ## 2. The split is a view
#
# The queries of all heads are computed at once: q = x W_Q + b_Q has shape (B, T, D). Head h owns the features h d to
# (h + 1) d - 1, with d = D / H. (With D = 8 and H = 2, head 0 owns the features 0 to 3 and head 1 the features 4 to
# 7.) These features come from the same columns of W_Q, which we call W_Q^h. Attention needs one matrix for each head:
#
#     split    (B, T, D)
#              reshape             ->  (B, T, H, d)
#              swap axes 1 and 2   ->  (B, H, T, d)
#
#     merge    (B, H, T, d)
#              swap axes 1 and 2   ->  (B, T, H, d)
#              reshape             ->  (B, T, D)
#
# The reshape cuts the last axis and leaves the others as they are. The swap only changes the order of the axes, and
# NumPy does this without moving a number: each axis has a stride, which says how far to move in the array for one step
# along this axis, and the strides change their places. So a split copies nothing.
#
# **Without the swap**, x.reshape(B, H, T, d) has the right shape and contains the right numbers, but in the wrong
# places. The array is stored token by token. With T = 6 and H = 2, head 0 therefore gets the tokens 0 to 2, each cut
# into two rows, and head 1 gets the tokens 3 to 5. Tokens in different heads never meet. The matching wrong merge,
# reshape(B, T, D), puts every number back in its place, so a round-trip test passes. What reveals the mistake is the
# X-ray of lesson 06, which shows the inputs that influence each output.

# %% The split with and without the swap, and which tokens its attention connects
B, T, D, H = 2, 6, 8, 2
d = D // H
x = rng.standard_normal((B, T, D))


class NoSwap(nt.SelfAttention):
    def forward(self, x):
        q, k, v = (projection(x).reshape(H, T, d) for projection in (self.query, self.key, self.value))
        return self.output(self.attention(q, k, v).reshape(T, D))


heads = split_heads(x, H)
heads_no_swap = x.reshape(B, H, T, d)
predict("x has shape (2, 6, 8): what shape do its 2 heads have together?", (2, 2, 6, 4),
        why="(B, T, D) becomes (B, H, T, D / H). Each of the 2 heads has all 6 tokens, with 4 of the 8 features.")
claim("with swap: head h has the features h d to (h + 1) d - 1 of every token",
      np.array_equal(heads, [[x[b, :, h * d:(h + 1) * d] for h in range(H)] for b in range(B)]))
claim("with swap: the heads are a view of x, not a copy", np.shares_memory(heads, x))
claim("with swap: merge is the inverse of split", np.array_equal(merge_heads(heads), x))
claim("no swap: the same shape and the same numbers",
      heads_no_swap.shape == heads.shape and set(heads_no_swap.flat) == set(heads.flat))
claim("no swap: the round trip passes", np.array_equal(heads_no_swap.reshape(B, T, D), x))
claim("no swap: head 0 has only the tokens 0 to 2, each cut into two rows", np.array_equal(
    heads_no_swap[:, 0], [[x[b, t, h * d:(h + 1) * d] for t in range(3) for h in range(H)] for b in range(B)]))
reach, reach_no_swap = (nt.influence(kind(D, H, rng=7), x[0]) for kind in (nt.SelfAttention, NoSwap))
claim("with swap: every input token influences every output token", reach > 0)
claim("no swap: input token 0 influences only the output tokens 0 to 2",
      np.array_equal(reach_no_swap[:, 0] > 0, [1, 1, 1, 0, 0, 0]))

# %% A picture of both splits
def pieces(a):                              # the whole array, its heads, and its heads without the swap
    return a, *split_heads(a, H), *a.reshape(H, T, d)


picture = Figure(figsize=(12.5, 6.6), layout="constrained")
axes = picture.subplot_mosaic([["x", *"abcd"], ["x", *"rrww"]])
titles = "x", "with swap: head 0", "with swap: head 1", "no swap: head 0", "no swap: head 1"
token_numbers, feature_numbers = np.indices((T, D))
for key, title, token, feature in zip("xabcd", titles, pieces(token_numbers), pieces(feature_numbers)):
    axes[key].imshow(token, "viridis", vmin=0, vmax=T, aspect="auto")
    for row in range(T):
        label = f"token {token[row, 0]}: {feature[row, 0]}-{feature[row, -1]}"
        axes[key].text(token[0].size / 2 - 0.5, row, label, ha="center", va="center",
                       color="white" if token[row, 0] < 3 else "black")
    axes[key].set(title=title, xticks=[], yticks=range(T), ylabel="row" if key in "xa" else "")
for key, title, xray in (("r", "with swap", reach), ("w", "no swap", reach_no_swap)):
    axes[key].imshow(xray, "Blues", vmin=0, aspect="auto")
    for t, s in np.argwhere(xray == 0):
        axes[key].text(s, t, "0", ha="center", va="center")
    axes[key].set(title=f"{title}: influence of inputs on outputs", xlabel="input token",
                  ylabel="output token", xticks=range(T), yticks=range(T))
picture.suptitle("Top: what each row holds. Bottom: darker is a larger derivative, 0 is exactly 0.")
figure("heads", picture)

# %% [markdown]
# ## 3. H attentions and a sum
#
# The paper describes the last step as "concatenate the heads, then multiply by W_O". Call the rows h d to
# (h + 1) d - 1 of W_O the matrix W_O^h. Then this step is a sum over the heads:
#
#     head_h = Attention(query W_Q^h + b_Q^h,
#                        key W_K^h + b_K^h,
#                        value W_V^h + b_V^h)
#     y = concat(head_0, head_1, ...) W_O + b_O
#       = b_O + sum over h of head_h W_O^h
#
# Each head adds its own contribution to the output, and W_O^h decides into which features it goes. Whatever H is, the
# four matrices stay D x D, so the layer has 4 D² + 4 D parameters: 624 for D = 12. (In lesson 16, heads share keys
# and values.) Below, keys and values come from S other tokens.

# %% One head after the other, with slices instead of a reshape
B, T, S, D, H = 2, 5, 7, 12, 3
d = D // H
layer = nt.MultiHeadAttention(D, H, rng=7).astype("f8")
for parameter in layer.parameters():
    parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(D)
query, dy = rng.standard_normal((2, B, T, D))
key, value = rng.standard_normal((2, B, S, D))
LINEARS = "query", "key", "value", "output"
W = {name: getattr(layer, name).weight.data for name in LINEARS}
b = {name: getattr(layer, name).bias.data for name in LINEARS}
slices = [slice(h * d, (h + 1) * d) for h in range(H)]  # the features of each head
with nt.record(layer) as tape:
    y = layer(query, key, value)
    gradients = layer.backward(dy)
y_loops = np.zeros((B, T, D)) + b["output"]
for n in range(B):
    for head in slices:
        q, k, v = (z[n] @ W[name][:, head] + b[name][head] for z, name in zip((query, key, value), W))
        for t in range(T):
            e = [math.exp(sum(q[t] * k[s]) / math.sqrt(d)) for s in range(S)]
            y_loops[n, t] += sum(e[s] / sum(e) * v[s] for s in range(S)) @ W["output"][head]
show(y=y, weights=layer.weights)
claim("y = b_O + sum of head_h W_O^h", relative_error(y, y_loops) < 1e-14)
counts = [nt.MultiHeadAttention(D, num_heads).num_parameters() for num_heads in (1, 2, 3, 4, 6, 12)]
claim("4 D² + 4 D parameters for 1, 2, 3, 4, 6 and 12 heads", np.array(counts) == 4 * D * D + 4 * D, f"{counts[0]}")

# %% [markdown]
# ## 4. Backward
#
# We are given dy, and go from the last line of forward to its first.
#
# **y = b_O + sum over h of head_h W_O^h.** A head contributes to y through its own rows of W_O:
#
#     dhead_h = dy (W_O^h)ᵀ
#     dW_O^h  = sum over b and t of head_htᵀ dy_t
#
# So a single product, dy W_Oᵀ, gives the gradients of all heads. It is split in the same way as forward split q.
#
# **head_h = Attention(q_h, k_h, v_h).** The heads do not depend on each other, so the rules of lesson 05 give dq_h,
# dk_h and dv_h for each head.
#
# **q_h = query W_Q^h + b_Q^h.** The same query goes into every head, so its gradient is a sum over the heads:
#
#     dquery = sum over h of dq_h (W_Q^h)ᵀ
#     dW_Q^h = sum over b and t of query_tᵀ dq_ht
#
# The same holds for key and value. To compute the sum over h at once, merge the dq_h and multiply by W_Qᵀ.
#
# **Self-attention** uses one x as query, key and value. It appears three times, so dx = dquery + dkey + dvalue.
# **Cross-attention** takes its queries from x, and its keys and values from the output of the encoder, which is called
# the memory. So dx = dquery, and dmemory = dkey + dvalue. If you leave out one of these terms, the result still has
# the right shape, so only a check of the values can find the mistake.

# %% Each line of backward, head by head
dheads = tape["attention"].dy               # (B, H, T, d)
dprojections = tape["attention"].gradients  # dq, dk, dv of all heads
merged = tape["output"].inputs[0]           # (B, T, D), the concatenated heads
claim("dhead_h = dy (W_O^h)ᵀ",
      relative_error(dheads, [[dy[n] @ W["output"][head].T for head in slices] for n in range(B)]) < 1e-14)
dW_output = [sum(np.outer(merged[n, t, head], dy[n, t]) for n in range(B) for t in range(T)) for head in slices]
claim("dW_O^h = sum of headᵀ dy", relative_error(layer.output.weight.grad, np.vstack(dW_output)) < 1e-14)
single = nt.ScaledDotProductAttention()
q, k, v = tape["attention"].inputs[:3]
errors = []
for n, h in np.ndindex(B, H):
    single(q[n, h], k[n, h], v[n, h])
    errors += [relative_error(dprojections[i][n, h], dz) for i, dz in enumerate(single.backward(dheads[n, h]))]
claim("the backward of each head is that of one attention by itself", np.array(errors) < 1e-14)
for name, x, dz, dx in zip(W, (query, key, value), dprojections, gradients):
    dW = [sum(np.outer(row, dz[n, h, t]) for n in range(B) for t, row in enumerate(x[n])) for h in range(H)]
    dx_loops = [sum(dz[n, h] @ W[name][:, slices[h]].T for h in range(H)) for n in range(B)]
    claim(f"d{name}, and the gradient of the {name} weight, are these sums",
          relative_error(getattr(layer, name).weight.grad, np.hstack(dW)) < 1e-14
          and relative_error(dx, dx_loops) < 1e-14)
claim("central differences agree, for every input and parameter", nt.gradcheck(layer, query, key, value).ok)

# %% Self-attention and cross-attention: every term is needed
x, memory = query, key                      # from here on, x is a sequence and memory another one
attend, cross = (kind(D, H).astype("f8").load_state_dict(layer.state_dict())        # with the same weights
                 for kind in (nt.SelfAttention, nt.CrossAttention))
attend(x)
dx = attend.backward(dy)
layer(x, x, x)
terms = dict(zip(("dquery", "dkey", "dvalue"), layer.backward(dy)))
claim("self-attention: dx = dquery + dkey + dvalue", relative_error(dx, sum(terms.values())) < 1e-14)
for names in (("dquery",), ("dkey",), ("dvalue",), ("dquery", "dkey"), ("dquery", "dvalue"), ("dkey", "dvalue")):
    incomplete = sum(terms[name] for name in names)
    error = relative_error(incomplete, dx)
    cosine = np.sum(incomplete * dx) / np.linalg.norm(incomplete) / np.linalg.norm(dx)
    claim(f"{' + '.join(names)} is not enough", error > 0.1, f"relative error {error:.0%}, cosine {cosine:.2f}")
cross(x, memory)
dx, dmemory = cross.backward(dy)
layer(x, memory, memory)
dquery, dkey, dvalue = layer.backward(dy)
claim("cross-attention: dx = dquery, dmemory = dkey + dvalue",
      relative_error(dx, dquery) < 1e-14 and relative_error(dmemory, dkey + dvalue) < 1e-14)
claim("central differences agree with both", nt.gradcheck(attend, x).ok and nt.gradcheck(cross, x, memory).ok)

# %% [markdown]
# `numpy-transformer explore --lesson 07` shows both heads of a trained layer in your browser, with their weights and
# the gradients of these. The model reads "the cats near the dog" and has to predict "sleep", the verb of the cats,
# and not "barks". Which head of the token "dog" looks for the animal that decides, and what does the other head
# attend to?
#
# ## 5. The three attentions of a Transformer
#
# The Transformer of 2017 uses multi-head attention in three places (Vaswani et al., section 3.2.3). The component is
# always the same. What differs is where the queries come from, where the keys and values come from, and which keys the
# mask hides (`<pad>` is the padding of the sequence that the keys come from):
#
#     attention      query   key, value  weights  hidden keys
#     encoder self   source  source      S x S    <pad>
#     decoder self   target  target      T x T    later, <pad>
#     cross          target  memory      T x S    <pad>
#
# Below, a small EncoderDecoder with one block on each side learns to spell words backwards. We then record its forward
# pass for one word, and draw the attention weights that it used. At each position the decoder has read its input token
# and must predict the next letter. For that, cross-attention can look up the position of this next letter in the
# source, and so move from the end of the source to its beginning.

# %% A small model is trained, and its forward pass is recorded
letters = ["<pad>", "<s>", "</s>", *"abcdefghij"]
STEPS, TEST_WORDS = 400, 300
sources = np.zeros((STEPS * 32 + TEST_WORDS, 6), int)
targets = np.zeros((STEPS * 32 + TEST_WORDS, 8), int)
for row, n in enumerate(rng.integers(3, 7, len(sources))):          # words of 3 to 6 letters; targets have <s> and </s>
    sources[row, :n] = rng.integers(3, 13, n)
    targets[row, :n + 2] = [1, *sources[row, :n][::-1], 2]
model = nt.EncoderDecoder(13, 13, d_model=24, num_heads=2, num_layers=1, d_ff=48, dropout=0, max_len=20, rng=7)
optimizer = nt.Adam(model.parameters(), 0.005)
criterion = nt.CrossEntropyLoss(ignore_id=0)
for batch in (slice(32 * step, 32 * step + 32) for step in range(STEPS)):
    model.zero_grad()
    criterion(model(sources[batch], targets[batch, :-1]), targets[batch, 1:])
    model.backward(criterion.backward())
    optimizer.step()
answers = targets[-TEST_WORDS:, 1:]
logits = model.eval()(sources[-TEST_WORDS:], targets[-TEST_WORDS:, :-1])
accuracy = (logits.argmax(-1) == answers)[answers > 0].mean()
claim("the model predicts most of the next tokens of 300 held-out words", accuracy > 0.85, f"{accuracy:.0%}")
source, target = (np.array([letters.index(c) for c in text.split()])
                  for text in ("c h a i f <pad>", "<s> f i a h"))                            # S = 6, T = 5
with nt.record(model) as tape:
    model(source[None], target[None])
PANELS = (                                  # module, title, whose tokens the queries and the keys are
    ("encoder.blocks.0.attention", "encoder self-attention", ("source", source), ("source", source)),
    ("decoder.blocks.0.attention", "decoder self-attention", ("decoder input", target), ("decoder input", target)),
    ("decoder.blocks.0.cross_attention", "cross-attention", ("decoder input", target), ("source", source)))
picture = Figure(figsize=(13, 4.8), layout="constrained")
recorded = []                               # of each attention: the weights, then the inputs of query, key and value
for axes, (name, title, (query_side, query_ids), (key_side, key_ids)) in zip(picture.subplots(1, 3), PANELS):
    weights = tape[f"{name}.attention.softmax"].output[0]           # (H, queries, keys)
    recorded.append([weights, *(tape[f"{name}.{linear}"].inputs[0] for linear in ("query", "key", "value"))])
    axes.imshow(weights.mean(0), "Blues", vmin=0, vmax=1.2)
    for (t, s), number in np.ndenumerate(weights.mean(0)):
        axes.text(s, t, "<1" if 0 < number < 0.005 else f"{100 * number:.0f}", ha="center", va="center",
                  color="white" if number > 0.6 else "black")
    axes.set_xticks(range(len(key_ids)), [letters[i] for i in key_ids])
    axes.set_yticks(range(len(query_ids)), [letters[i] for i in query_ids])
    axes.set(title=title, xlabel=f"key token ({key_side})", ylabel=f"query token ({query_side})")
picture.suptitle("Attention weights in percent, averaged over both heads (0 means exactly 0)")
figure("three_attentions", picture)
(enc, *enc_inputs), (dec, *dec_inputs), (both, *cross_inputs) = recorded
claim("self-attention: query, key and value are computed from one x",
      [np.array_equal(inputs[0], z) for inputs in (enc_inputs, dec_inputs) for z in inputs])
claim("cross-attention: key and value are computed from the encoder's output, the query is not",
      [np.array_equal(z, tape["encoder"].output) for z in cross_inputs] == [False, True, True])
claim("the weights are S x S, T x T and T x S in each of the two heads",
      (enc.shape, dec.shape, both.shape) == ((2, 6, 6), (2, 5, 5), (2, 5, 6)))
claim("no position of the decoder attends to a later token", np.triu(dec, 1) == 0)
claim("no query attends to <pad>", [(weights[..., 5] == 0).all() for weights in (enc, both)])
reads = both.mean(0).argmax(-1) == [4, 3, 2, 1, 0]
claim("in most rows, cross-attention, averaged over both heads, reads the source from its end to its beginning",
      reads.sum() >= 3, f"in {reads.sum()} of 5")

# %% [markdown]
# ## Exercises
#
# 1. One head has weights 0.7 and 0.3 on subject and object. Now "cat saw dog" and "dog saw cat" give different outputs.
#    Find two other pairs of vectors that this head cannot distinguish.
# 2. Predict: D = 8, H = 4, T = 6, no swap. Which outputs does token 0 influence? Check your answer with nt.influence.
# 3. A layer reshapes without the swap, both in forward and in backward. What does gradcheck report, and why?
# 4. Find the bug: a mask of shape (B, T, S) is added to scores of shape (B, H, T, S). When does this run, and which
#    scores does it hide?
# 5. Write split and merge with a loop over the heads and np.concatenate. Which of the two has to copy?
# 6. Why is the gradient of the memory a sum of 12 terms in a decoder with 6 blocks?
#
# With a checker (`numpy-transformer exercise check 07.1` and so on): 07.1, 07.2, 07.3, 07.4, 07.5, 07.6, 07.7.
