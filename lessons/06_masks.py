# %% [markdown]
# # 06 Masks
#
# A mask is one bit for each query and each key: may this token look at that one? It is the shortest part of a
# Transformer, and the part with the most silent mistakes. A wrong mask raises no error. The model runs and trains, and
# its loss may even look too good, because the answer has leaked into the input.
#
# In this lesson we build the masks that every model needs, and measure what a dozen mistakes do. We also use one test
# that finds most of them in any model: change one token, and see which outputs change. By the end you will be able to
# build a mask, to say what a wrong one does, and to check that a model does not see the future. Lesson 05 explains
# attention. The lesson takes about 15 minutes.

# %% Two sentences in one batch, the second one padded
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(6)
B, H, T, d = 2, 3, 5, 4                     # sequences, heads, tokens, features of a head
sentences = [["the", "cat", "saw", "the", "dog"], ["the", "dog", "slept", "<pad>", "<pad>"]]
ids = np.array([[5, 3, 8, 5, 4], [5, 4, 7, 0, 0]])                  # 0 is the padding token <pad>
q, k, v, dy = rng.standard_normal((4, B, H, T, d))
attention = nt.ScaledDotProductAttention()


def max_difference(a, b):
    """The largest absolute difference between the entries of two arrays."""
    return np.abs(a - np.asarray(b)).max()


@np.errstate(invalid="ignore")              # no warning for NaN, because NaN is what we look for below
def plain_softmax(S):
    """Softmax that does not protect rows in which every score is hidden."""
    e = np.exp(S - S.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# %% [markdown]
# ## 1. One convention
#
# In this package a mask is boolean, and **True = may attend**. Its axes are those of the scores, (batch, heads,
# queries, keys). An axis of size 1 means "the same for all":
#
#     causal    (1, 1, T, T)   True if s <= t
#     padding   (B, 1, 1, S)   True if key s is a real token
#     combined  (B, 1, T, S)   causal & padding
#
# The causal mask lets no token see the tokens after it. It is also called look-ahead mask (Vaswani et al. 2017, section
# 3.2.3). The padding mask hides keys only, those of each sequence b from all its queries. The outputs at padding tokens
# are computed as well, and then ignored.

# %% The masks, written out
causal, padding = nt.causal_mask(T), nt.padding_mask(ids)
both = nt.combine_masks(causal, padding)
predict("what is the shape of masks of shape (1, 1, 5, 5) and (2, 1, 1, 5), combined with & ?", both.shape,
        why="An axis of size 1 is repeated to the size of the other mask: sequences 2, heads 1, queries 5, keys 5.")
show(causal=causal[0, 0], padding=padding[:, 0, 0], combined_of_sentence_1=both[1, 0])
claim("causal: s <= t", np.array_equal(causal, [[[[s <= t for s in range(T)] for t in range(T)]]]))
token_mask = np.array(sentences) != "<pad>"                         # True for the real tokens
claim("padding: the key is not <pad>", np.array_equal(padding, [[[token_mask[0]]], [[token_mask[1]]]]))
claim("combined: both conditions hold", np.array_equal(
    both, [[[[s <= t and real[s] for s in range(T)] for t in range(T)]] for real in token_mask]))
figure("masks", views.mask_pictures({"causal": causal[0, 0], "padding, sentence 1": np.tile(padding[1, 0], (T, 1)),
                                     "combined, sentence 1": both[1, 0]}))

# %% [markdown]
# Two kinds of masks are refused with an error.
#
# * **Any dtype other than bool.** In a mask of 0 and 1, the 1 may mean "look" or "hide". In a mask of 0 and -inf, which
#   is meant to be added to the scores, the 0 means "look". Code that guesses will one day guess wrong (section 5).
# * **Three axes.** NumPy aligns shapes from the right. If a mask (B, T, S) meets scores (B, H, T, S), its batch axis is
#   matched with the heads. If there are as many heads as sequences, the shapes fit and the result is wrong.

# %% What is refused, and why
for name, mask in (("floats", padding.astype(float)), ("three axes", both[:, 0])):
    try:
        message = f"accepted, with an output of shape {attention.eval()(q, k, v, mask).shape}"
    except (TypeError, ValueError) as error:
        message = str(error)
    claim(f"{name} are refused", "True = may attend" in message or "mask[:, None]" in message, message)
fits = np.broadcast_to(both[:, 0], (B, 2, T, T))                    # with 2 heads, NumPy would accept it
claim("NumPy would give head h the mask of sequence h, in every sequence", [fits[:, h] == both[h, 0] for h in range(2)])

# %% [markdown]
# ## 2. What a right mask does
#
# A hidden score is set to -inf before softmax, and exp(-inf) is 0. Let M_t be the set of keys that query t may see:
#
#     P_ts = exp(S_ts) / (sum over j in M_t of exp(S_tj))
#            for s in M_t, and 0 for all others
#
# For example, let a query have the scores 2, 1 and 3, and let the third key be hidden. The exponentials of the other
# two are 7.39 and 2.72, so the weights are 0.73, 0.27 and 0.
#
# Backward: a hidden S_ts does not appear on the right side, so its gradient is exactly 0. The rule of lesson 05 agrees:
# dS_ts = P_ts (dP_ts - sum over j of P_tj dP_tj) has the factor P_ts = 0. If no query sees key s, then dk_s, a sum over
# dS_ts, is 0, and so is dv_s = sum over t of P_ts dy_t.
#
# Even a visible score can have gradient 0. `numpy-transformer explore --lesson 06` opens a small causal model in your
# browser, at the gradient of token 0's query, which is exactly 0. Follow its terms by clicking on them: which factor
# is 0, and why? The last token's query has gradient 0 for another reason. Which one?

# %% Forward, backward, and the test: change one token
with nt.record(attention.train()) as tape:
    y = attention(q, k, v, both)
    dq, dk, dv = attention.backward(dy)
S = q @ k.mT / math.sqrt(d)
P = attention.weights
dS = tape["softmax"].gradients[0]
hidden = np.broadcast_to(~both, P.shape)
claim("each row is a softmax over the keys that it may see", max_difference(P, [[[[
    both[b, 0, t, s] * math.exp(S[b, h, t, s]) / sum(math.exp(S[b, h, t, j]) for j in range(T) if both[b, 0, t, j])
    for s in range(T)] for t in range(T)] for h in range(H)] for b in range(B)]) < 1e-13)
claim("a hidden key has weight exactly 0", P[hidden] == 0)
claim("a hidden score has gradient exactly 0", dS[hidden] == 0)
claim("the keys and values of <pad> have gradient exactly 0", (dk[1, :, 3:] == 0) & (dv[1, :, 3:] == 0))
claim("central differences agree with backward", nt.gradcheck(nt.ScaledDotProductAttention(), q, k, v, both).ok)
layer = nt.AttentionMask()                  # the masking step as a component of its own
layer(S, both)
claim("its dS is dy where the mask is True, and 0 elsewhere", np.array_equal(layer.backward(P + 1), (P + 1) * both))
without_padding = [z[1, :, :3] for z in (q, k, v)]
alone = attention.eval()(*without_padding, nt.causal_mask(3))
claim("the padded sentence has the same outputs as without padding", max_difference(y[1, :, :3], alone) < 1e-13)
y = attention(q, k, v, causal)
changed = np.zeros((T, T), bool)            # changed[t, s]: does output t change if token s changes?
for s in range(T):
    new_q, new_k, new_v = (np.where(np.arange(T)[:, None] == s, z + 1, z) for z in (q, k, v))
    changed[:, s] = (attention(new_q, new_k, new_v, causal) != y).any((0, 1, 3))
claim("changing token s changes the outputs from s on, and not one bit of the earlier ones", changed == causal[0, 0])

# %% [markdown]
# ## 3. A query that may see nothing
#
# Suppose a sentence is padded on the left, as batches often are when a model generates text, and the mask is causal.
# Query 0 is a `<pad>`. It may see only itself, but no query may see a `<pad>`. So all its keys are hidden, and softmax
# divides 0 by 0.
#
# The resulting NaN spreads to every sum that includes this row, even with weight 0, since 0 times NaN is NaN. We
# therefore have to define the mean of nothing: here the weights and the output of such a query are 0. They depend on no
# query, key or value, so the gradients are 0 as well.

# %% Left padding: in the first row every key is hidden
left = ["<pad>", "the", "cat", "saw"]
attention.train()
mask = nt.combine_masks(nt.causal_mask(4), nt.padding_mask(np.array([0, 5, 3, 8])))[0, 0]
S = 2 * rng.standard_normal((4, 4))
q1, k1, v1, dy = rng.standard_normal((4, 4, d))
plain = plain_softmax(np.where(mask, S, -np.inf))
claim("a plain softmax makes this row NaN, and no other", np.isnan(plain).all(1) == [True, False, False, False])
y = attention(q1, k1, v1, mask)
dq, dk, dv = attention.backward(dy)
claim("ours gives it weights, an output and a dq of 0", np.array([attention.weights[0], y[0], dq[0]]) == 0)
dy[0] += 100
attention(q1, k1, v1, mask)
claim("changing dy of this row changes no gradient", np.array_equal(attention.backward(dy), [dq, dk, dv]))

# %% [markdown]
# ## 4. Hiding without -inf
#
# Here are four other ways to hide scores, where m = 1 means visible and m = 0 means hidden.
#
# * `S * m` makes the score 0, but not the weight. A hidden key keeps the weight exp(0) / Z, where Z is the sum of its
#   row. In the example of section 2, the scores become 2, 1 and 0, and the hidden key keeps 1 / 11.11 = 9% of the
#   weight.
# * `S + (m - 1) * 10` divides exp(S) by exp(10), about 22,000. The weight that remains is a leak, and it is too small
#   for a careless test to notice.
# * `S + (m - 1) * 1e9` is exact in every row with a visible key, since exp(-1e9) is 0. In a row without one, however,
#   all scores are shifted by the same number, and softmax cancels the shift. In float64, which has 16 digits, S keeps 7
#   digits after the decimal point next to 1e9, so the **unmasked** weights come back. In float32 neighboring numbers
#   near 1e9 are 64 apart. S disappears in the rounding, and the row becomes uniform.
# * `S + (1 - m) * -inf` computes 0 times -inf for the visible scores, which is NaN.

# %% The weights of six ways
predict("in float32, -1e9 is added to all four scores of a row; what are its weights?", [0.25, 0.25, 0.25, 0.25],
        why="Near 1e9 the numbers of float32 are 64 apart, so each score becomes exactly -1e9, and four equal scores "
            "have equal weights.")
m, m32 = mask.astype(np.float64), mask.astype(np.float32)
ways = {"-inf, and 0 in an empty row": nt.Softmax()(nt.AttentionMask()(S, mask)),
        "S * m": plain_softmax(S * m),
        "S + (m - 1) * 10": plain_softmax(S + (m - 1) * 10),
        "S + (m - 1) * 1e9, float64": plain_softmax(S + (m - 1) * 1e9),
        "S + (m - 1) * 1e9, float32": plain_softmax(S.astype(np.float32) + (m32 - 1) * np.float32(1e9))}
with np.errstate(invalid="ignore"):
    ways["S + (1 - m) * -inf"] = plain_softmax(S + (1 - m) * -np.inf)
right, times, ten, double, single, nan = ways.values()
claim("-inf: the plain softmax, and 0 in the row without a visible key",
      max_difference(right, np.where(np.isnan(plain), 0, plain)) < 1e-14)
claim("S * m: a hidden key keeps exp(0) / Z", abs(times[2, 3] - 1 / (2 + np.exp(S[2, 1:3]).sum())) < 1e-14)
leak = (ten * ~mask)[1:].sum(1)
claim("-10: hidden keys keep a little weight", (0 < leak) & (leak < 1e-2), ", ".join(f"{x:.0e}" for x in leak))
claim("-1e9: exact where a key is visible", np.array_equal(double[1:], plain[1:]))
claim("-1e9 in float64: the empty row has its unmasked weights",
      max_difference(double[0], plain_softmax(S)[0]) < 1e-6)
claim("-1e9 in float32: the empty row is uniform", single[0] == 0.25)
claim("0 times -inf: all weights are NaN", np.isnan(nan))


def percent(weight):
    if np.isnan(weight):
        return "NaN"
    if 0 < weight < 0.005:
        return "<1"
    return f"{100 * weight:.0f}"


picture = Figure(figsize=(11, 7.6), layout="constrained")
picture.suptitle("Weights in percent (0 means exactly 0)\n"
                 "Orange frame: a hidden key has some weight, or the weight is NaN", fontsize=14)
for axes, (name, P) in zip(picture.subplots(2, 3, sharex=True, sharey=True).flat, ways.items()):
    axes.imshow(P, "Blues", vmin=0, vmax=1.2)
    for (t, s), weight in np.ndenumerate(P):
        axes.text(s, t, percent(weight), ha="center", va="center", color="white" if weight > 0.6 else "black")
        if np.isnan(weight) or (weight == 0) != (right[t, s] == 0):
            axes.plot(s, t, "C1s", markersize=32, fillstyle="none", markeredgewidth=2.5)
    axes.set_xticks(range(4), left, rotation=30)
    axes.set_yticks(range(4), left)
    axes.set_title(name)
picture.supxlabel("key token")
picture.supylabel("query token")
figure("hiding", picture)

# %% [markdown]
# ## 5. The right numbers in the wrong place
#
# **Padding on the query axis**, (B, 1, S, 1): real tokens still see every `<pad>`.
#
# **One mask for the whole batch**, that of its first sequence: it is right only for that sequence.
#
# **Inverted**: someone builds a mask that is meant to be added to the scores, 0 = visible and -inf = hidden. The
# attention that receives it hides the keys where mask == 0. So it hides the past and the token itself, and shows the
# future:
#
#     P_ts = exp(S_ts) / (sum over j > t of exp(S_tj))
#            for s > t, and 0 for s <= t
#
# In the last row every key is hidden, and 0 / 0 = NaN. In a second block all other queries see that token, so all
# outputs are NaN.

# %% Three mistakes in numbers
attention.eval()
v_changed = np.where((ids == 0)[:, None, :, None], 7.0, v)          # other values at the padding tokens
for name, mask in (("right", padding), ("on the query axis", padding.mT), ("one for the batch", padding[:1])):
    y = attention(q, k, v, mask)[1, :, :3]
    weight = attention.weights[1, :, :3, 3:].sum(-1).mean()
    change = max_difference(attention(q, k, v_changed, mask)[1, :, :3], y)
    detail = f"its mean weight is {weight:.2f}; changing its values changes the outputs by {change:.2f}"
    if name == "right":
        claim(f"{name}: real tokens ignore <pad>", weight == change == 0, detail)
    else:
        claim(f"{name}: real tokens attend to <pad>", not weight == change == 0, detail)
predict("inverted mask: which of the tokens 0 to 4 does query 3 see?", 4,
        why="The causal mask lets query 3 see the tokens 0 to 3. Inverted, it lets it see exactly the others: only "
            "token 4, the one to be predicted.")
x = v[0, 0]                                 # the simplest attention: query = key = value = x
S = x @ x.T / math.sqrt(d)
additive = np.where(causal[0, 0], 0, -np.inf)
P = plain_softmax(np.where(additive == 0, -np.inf, S))
show(P=P)
claim("each row is a softmax over the later tokens", max_difference(P[:4], [[(s > t) * math.exp(S[t, s]) / sum(
    math.exp(S[t, j]) for j in range(t + 1, T)) for s in range(T)] for t in range(4)]) < 1e-14)
y = P @ x                                   # the output of one block, and of a second block that reads it
y2 = plain_softmax(np.where(additive == 0, -np.inf, y @ y.T / math.sqrt(d))) @ y
claim("output 3 is exactly x_4, the next token", np.array_equal(y[3], x[4]))
claim("one block makes the last row NaN, two make all rows NaN", np.isnan(y).any(1).sum() == 1 and np.isnan(y2).all())
claim("an attention that protects empty rows shows no NaN, but it has the same leak",
      np.allclose(attention(x, x, x, ~causal), np.vstack([y[:4], np.zeros(d)]), rtol=1e-13, atol=0))

# %% [markdown]
# ## 6. A leak looks like success
#
# NaN is the fortunate case, because you notice it. With -1e9 or a protected softmax, the inverted mask runs without an
# error, and query t sees token t + 1, the very token that it is trained to predict.
#
# Below, two language models train on random tokens drawn from 8, the second one with the inverted mask. There is
# nothing to learn: without a leak, no model can expect a loss below log 8 = 2.08. With the leak, every position but the
# last sees its answer, and the loss there falls to 0. The last position has no later token to look at, and it is the
# one that generates text. The mean over the 8 positions falls to log 8 / 8 = 0.26, but the generated text is noise.

# %% Two language models on noise
picture = Figure(figsize=(8.5, 4.6), layout="constrained")
axes = picture.subplots()
losses = {}
print("  loss at each position")
for name, style in (("causal", "C0o-"), ("inverted", "C1s--")):
    model = nt.CausalLanguageModel(8, d_model=16, num_heads=2, num_layers=1, max_len=8, rng=6)
    if name == "inverted":                  # mask_and_positions is where the model makes its mask
        model.mask_and_positions = lambda ids, mask, cache: (~nt.causal_mask(ids.shape[-1]), None)
    optimizer = nt.Adam(model.parameters(), 0.01)
    criterion = nt.CrossEntropyLoss()
    noise = np.random.default_rng(6)
    for _ in range(150):
        tokens = noise.integers(0, 8, (32, 9))                      # 8 inputs, and the token after each of them
        model.zero_grad()
        criterion(model(tokens[:, :-1]), tokens[:, 1:])
        model.backward(criterion.backward())
        optimizer.step()
    tokens = noise.integers(0, 8, (1000, 9))                        # new tokens, not used in training
    logits = model.eval()(tokens[:, :-1])
    losses[name] = [criterion(logits[:, t], tokens[:, t + 1]) for t in range(8)]
    print(f"  {name:<8}", *(f"{loss:.2f}" for loss in losses[name]))
    axes.plot(losses[name], style, label=f"{name} mask")
claim("the causal model has learned nothing, as expected", abs(np.mean(losses["causal"]) - math.log(8)) < 0.03)
claim("the inverted one predicts every token that it can see, and its mean loss looks excellent",
      np.max(losses["inverted"][:7]) < 0.1, f"{np.mean(losses['inverted']):.2f}, not {np.mean(losses['causal']):.2f}")
claim("at the last position it has learned nothing", losses["inverted"][7] > math.log(8) - 0.03)
axes.axhline(math.log(8), color="0.4", linestyle=":", label="log 8, the lowest expected loss without a leak")
axes.set(xlabel="position", ylabel="loss on new random tokens (nats)",
         title="The leak helps where the answer is visible")
axes.legend(loc="center left", bbox_to_anchor=(0.05, 0.6))
axes.annotate("this position generates text", (7, 2.05), (3.6, 0.9), arrowprops={"arrowstyle": "->"})
figure("leak", picture)

# %% [markdown]
# ## 7. The X-ray
#
# Whatever a mask looks like in the code, we can test the finished model: change input s a little, and measure how much
# output t changes. `nt.influence` does this for all pairs, and uses only forward passes. Where no path leads from s to
# t, the number is exactly 0. Below are an encoder and a decoder of two blocks each, and one cross-attention.
#
# * Encoder: every real token influences every output. A `<pad>` influences only its own output, through the residual
#   connection.
# * Causal decoder: the lower triangle. A token s that t sees has itself seen tokens r in the block before, but r <= s
#   and s <= t imply r <= t. If each of two blocks sees one token too many, the decoder sees two too many.
# * Cross-attention, from a target to a source: every real token of the source, and no `<pad>`. A causal mask would be
#   wrong here, since the first word of a translation may depend on the last word of the source.

# %% Encoder, decoder and cross-attention, each with a right and a wrong mask
encoder, decoder = nt.Encoder(2, 12, 3, 24, rng=6), nt.Decoder(2, 12, 3, 24, rng=7)         # two blocks each
cross = nt.CrossAttention(12, 3, rng=8)
x, start = rng.standard_normal((2, T, 12))
pad = padding[1:]
xrays = {"encoder": nt.influence(encoder, x, pad), "decoder": nt.influence(decoder, x, causal),
         "cross-attention": nt.influence(cross, start, x, pad, argument=1),
         "wrong: padding on the query axis": nt.influence(encoder, x, pad.mT),
         "wrong: sees one token too many": nt.influence(decoder, x, np.tri(T, T, 1, dtype=bool)),
         "wrong: causal cross-attention": nt.influence(cross, start, x, causal, argument=1)}
real = token_mask[1]
itself = np.eye(T, dtype=bool)
expected = (real | itself, np.tri(T), [real] * T, real[:, None] | itself, np.tri(T, T, 2), np.tri(T))
for (title, xray), reached in zip(xrays.items(), expected):
    claim(f"{title}: nonzero where expected, exactly 0 elsewhere", (xray > 0) == reached)
target = ["<s>", "le", "chien", "a", "dormi"]
outputs = dict(zip(xrays, 2 * [sentences[1], sentences[1], target]))
picture = views.xray(xrays, outputs, sentences[1])
picture.supxlabel("input token s", fontsize=12)
picture.supylabel("output at token t", fontsize=12)
figure("xray", picture)

# %% [markdown]
# ## Exercises
#
# 1. A decoder pads on the right and uses only the causal mask. Which outputs are wrong? Does the loss notice?
# 2. Predict: which rows of the weights change if a causal mask also hides the diagonal, and what do they become?
# 3. Write `window_mask(T, w)`: query t sees the last w tokens, itself included. How far back does output t reach after
#    L blocks? Check your answer with nt.influence.
# 4. A test of padding changes the values at a `<pad>` and finds the same outputs, with a batch of one sequence. Which
#    mistake of section 5 can it not find?
# 5. A colleague's language model reports a loss of 0.3, where others have 3. Which test takes one minute?
#
# With a checker (`numpy-transformer exercise check 06.1` and so on): 06.1, 06.2, 06.3, 06.4, 06.5.
