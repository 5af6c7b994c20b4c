# %% [markdown]
# # 06 Masks
#
# A mask is one bit for each query and each key: may this token look at that one? It is the shortest part of a
# Transformer and the one with the most silent mistakes. A wrong mask raises no error. The model runs and trains, and
# its loss may even look too good, because the answer has leaked into the question.
#
# Here the masks that every model needs are built, a dozen mistakes are measured, and one test finds most of them in any
# model: move one token, and see what else moves. Afterwards you can build a mask, say what a wrong one does, and check
# that a model does not see the future. Lesson 05 explains attention. About 15 minutes.

# %% Two sentences in one batch, the second one padded
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(6)
B, H, T, d = 2, 3, 5, 4                     # sequences, heads, tokens, features of a head
sentences = [["the", "cat", "saw", "the", "dog"], ["the", "dog", "slept", "<pad>", "<pad>"]]
ids = np.array([[5, 3, 8, 5, 4], [5, 4, 7, 0, 0]])                  # 0 is <pad>
q, k, v, dy = rng.standard_normal((4, B, H, T, d))
attention = nt.ScaledDotProductAttention()


def apart(a, b):                            # their largest difference
    return np.abs(a - np.asarray(b)).max()


@np.errstate(invalid="ignore")              # NaN without a warning: below it is what we look for
def plain_softmax(S):                       # without any care for a row that is all hidden
    e = np.exp(S - S.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# %% [markdown]
# ## 1. One convention
#
# A mask here is boolean, **True = may attend**. Its axes are those of the scores, (batch, heads, queries, keys), and an
# axis of size 1 means "the same for all of them":
#
#     causal    (1, 1, T, T)     query t may attend to key s if s <= t: a token does not see what comes after it
#     padding   (B, 1, 1, S)     key s of sequence b may be attended to if it is a real token, by every query
#     combined  (B, 1, T, S)     what both allow: causal & padding
#
# The causal mask is also called the look-ahead mask (Vaswani et al. 2017, section 3.2.3). The padding mask acts on
# keys: the outputs of padded queries are computed as well, and nobody uses them.

# %% The masks, written out
causal, padding = nt.causal_mask(T), nt.padding_mask(ids)
both = nt.combine_masks(causal, padding)
predict("shapes (1, 1, 5, 5) and (2, 1, 1, 5), combined with & ?", both.shape)
show(causal=causal[0, 0], padding=padding[:, 0, 0], combined_of_sentence_1=both[1, 0])
claim("causal: s <= t", np.array_equal(causal, [[[[s <= t for s in range(T)] for t in range(T)]]]))
real = np.array(sentences) != "<pad>"
claim("padding: the key is not <pad>", np.array_equal(padding, [[[real[0]]], [[real[1]]]]))
claim("combined: both", np.array_equal(both, [[[[s <= t and r[s] for s in range(T)] for t in range(T)]] for r in real]))
figure("masks", views.mask_pictures({"causal": causal[0, 0], "padding, sentence 1": np.tile(padding[1, 0], (T, 1)),
                                     "combined, sentence 1": both[1, 0]}))

# %% [markdown]
# Two things are refused. **Any other dtype**: in a mask of 0 and 1, the 1 may mean "look" or "hide"; in one of 0 and
# -inf, to be added to the scores, the 0 means "look". Code that guesses will guess wrong one day (section 5).
# **Three axes**: NumPy aligns shapes from the right, so a mask (B, T, S) against scores (B, H, T, S) lays its batch
# axis on the heads. With as many heads as sequences that fits, and is wrong.

# %% What is refused, and why
for name, mask in (("floats", padding.astype(float)), ("three axes", both[:, 0])):
    try:
        message = f"taken as it is, {attention.eval()(q, k, v, mask).shape}"
    except (TypeError, ValueError) as error:
        message = str(error)
    claim(f"{name} are refused", "True = may attend" in message or "mask[:, None]" in message, message)
fits = np.broadcast_to(both[:, 0], (B, 2, T, T))                    # with 2 heads NumPy would take it
claim("NumPy gives head h the mask of sequence h, in every sequence", [fits[:, h] == both[h, 0] for h in range(2)])

# %% [markdown]
# ## 2. What a right mask does
#
# A hidden score is set to -inf before softmax, and exp(-inf) is 0. With M_t for the keys that query t may see,
#
#     P_ts = exp(S_ts) / (sum over j in M_t of exp(S_tj))   for s in M_t,        P_ts = 0 for all others
#
# Backward: a hidden S_ts occurs nowhere on the right, so its gradient is exactly 0. The rule of lesson 05 says the
# same: dS_ts = P_ts (dP_ts - sum over j of P_tj dP_tj) has the factor P_ts = 0. If no query sees the key s, then
# dk_s = 0, a sum over dS_ts, and dv_s = sum over t of P_ts dy_t = 0 too.

# %% Forward, backward, and the test: move one token
with nt.record(attention.train()) as tape:
    y, (dq, dk, dv) = attention(q, k, v, both), attention.backward(dy)
S, P, dS = q @ k.mT / math.sqrt(d), attention.weights, tape["softmax"].gradients[0]
hidden = np.broadcast_to(~both, P.shape)
claim("each row is a softmax over the keys that it may see", apart(P, [[[[
    both[b, 0, t, s] * math.exp(S[b, h, t, s]) / sum(math.exp(S[b, h, t, j]) for j in range(T) if both[b, 0, t, j])
    for s in range(T)] for t in range(T)] for h in range(H)] for b in range(B)]) < 1e-13)
claim("a hidden key has weight 0, exactly", P[hidden] == 0)
claim("a hidden score has gradient 0, exactly", dS[hidden] == 0)
claim("the keys and values of <pad> have gradient 0, exactly", (dk[1, :, 3:] == 0) & (dv[1, :, 3:] == 0))
claim("central differences agree with backward", nt.gradcheck(nt.ScaledDotProductAttention(), q, k, v, both).ok)
layer = nt.AttentionMask()                  # the same step as a component of its own
layer(S, both)
claim("its dS is dy where the mask is True, and 0 elsewhere", np.array_equal(layer.backward(P + 1), (P + 1) * both))
alone = attention.eval()(*(z[1, :, :3] for z in (q, k, v)), nt.causal_mask(3))
claim("the short sentence has the outputs that it has alone, without padding", apart(y[1, :, :3], alone) < 1e-13)
y, moved = attention(q, k, v, causal), np.zeros((T, T), bool)
for s in range(T):
    others = (np.where(np.arange(T)[:, None] == s, z + 1, z) for z in (q, k, v))
    moved[:, s] = (attention(*others, causal) != y).any((0, 1, 3))
claim("another token s moves the outputs from s on, and not a bit of the earlier ones", moved == causal[0, 0])

# %% [markdown]
# ## 3. A query that may see nothing
#
# Let a sentence be padded on the left, as batches often are when they generate, and let the mask be causal. Query 0 is
# a <pad>: it may see itself only, and nobody may see a <pad>. Nothing is left, and softmax divides 0 by 0. NaN then
# enters every sum that this row is part of, hidden or not, since 0 times NaN is NaN. A mean over nothing has to be
# defined: here weights and output are 0. They depend on no query, key or value, so the gradients are 0 as well.

# %% Left padding: the first row is all hidden
left, attention = ["<pad>", "the", "cat", "saw"], attention.train()
mask = nt.combine_masks(nt.causal_mask(4), nt.padding_mask(np.array([0, 5, 3, 8])))[0, 0]
S, (q1, k1, v1, dy) = 2 * rng.standard_normal((4, 4)), rng.standard_normal((4, 4, d))
plain = plain_softmax(np.where(mask, S, -np.inf))
claim("a plain softmax makes this row NaN, and no other", np.isnan(plain).all(1) == [True, False, False, False])
y, (dq, dk, dv) = attention(q1, k1, v1, mask), attention.backward(dy)
claim("here its weights, its output and dq are 0", np.array([attention.weights[0], y[0], dq[0]]) == 0)
dy[0] += 100
attention(q1, k1, v1, mask)
claim("dy of this row reaches no gradient", np.array_equal(attention.backward(dy), [dq, dk, dv]))

# %% [markdown]
# ## 4. Hiding without -inf
#
# Five other ways on the same scores, with m = 1 for visible and 0 for hidden:
#
# * `S * m` makes the score 0, not the weight. A hidden key keeps the weight exp(0) / Z, Z being the sum of its row.
# * `S + (m - 1) * 10` divides exp(S) by exp(10), about 22000: a leak, too small for a careless test.
# * `S + (m - 1) * 1e9` is exact in every row with a visible key, since exp(-1e9) is 0. In the row without one all
#   scores move alike, and softmax cancels what they have in common. In float64, with 16 digits, S keeps 7 digits behind
#   the point next to 1e9, so the **unmasked** weights come back. In float32 the numbers near 1e9 are 64 apart: S is
#   swallowed, and the row becomes uniform.
# * `S + (1 - m) * -inf` computes 0 times -inf for the visible scores. That is NaN.

# %% The weights of six ways
predict("-1e9 is added to all four scores of a row, in float32. Its weights?", [0.25, 0.25, 0.25, 0.25])
m, m32 = mask.astype(np.float64), mask.astype(np.float32)
ways = {"-inf; an empty row is 0": nt.Softmax()(nt.AttentionMask()(S, mask)),
        "S * m": plain_softmax(S * m),
        "S + (m - 1) * 10": plain_softmax(S + (m - 1) * 10),
        "S + (m - 1) * 1e9, float64": plain_softmax(S + (m - 1) * 1e9),
        "S + (m - 1) * 1e9, float32": plain_softmax(S.astype(np.float32) + (m32 - 1) * np.float32(1e9))}
with np.errstate(invalid="ignore"):
    ways["S + (1 - m) * -inf"] = plain_softmax(S + (1 - m) * -np.inf)
right, times, ten, double, single, nan = ways.values()
claim("-inf: the plain softmax, and 0 in the empty row", apart(right, np.where(np.isnan(plain), 0, plain)) < 1e-14)
claim("S * m: a hidden key keeps exp(0) / Z", abs(times[2, 3] - 1 / (2 + np.exp(S[2, 1:3]).sum())) < 1e-14)
leak = (ten * ~mask)[1:].sum(1)
claim("-10: a little weight on hidden keys", (0 < leak) & (leak < 1e-2), ", ".join(f"{x:.0e}" for x in leak))
claim("-1e9: exact where a key is visible", np.array_equal(double[1:], plain[1:]))
claim("-1e9, float64: the empty row has its unmasked weights", apart(double[0], plain_softmax(S)[0]) < 1e-6)
claim("-1e9, float32: the empty row is uniform", single[0] == 0.25)
claim("0 times -inf: nothing but NaN", np.isnan(nan))
picture = Figure(figsize=(11, 7.6), layout="constrained")
picture.suptitle("Weights in percent (0: exactly 0). Framed: 0 instead of not 0, or the reverse")
for axes, (name, P) in zip(picture.subplots(2, 3, sharex=True, sharey=True).flat, ways.items()):
    axes.imshow(P, "Blues", vmin=0, vmax=1.2)
    for (t, s), number in np.ndenumerate(P):
        text = "NaN" if np.isnan(number) else "<1" if 0 < number < 0.005 else f"{100 * number:.0f}"
        axes.text(s, t, text, ha="center", va="center", color="white" if number > 0.6 else "black")
        if np.isnan(number) or (number == 0) != (right[t, s] == 0):
            axes.plot(s, t, "C1s", markersize=32, fillstyle="none", markeredgewidth=2.5)
    axes.set_xticks(range(4), left, rotation=30)
    axes.set_yticks(range(4), left)
    axes.set_title(name)
picture.supxlabel("key")
picture.supylabel("query")
figure("hiding", picture)

# %% [markdown]
# ## 5. The right numbers in the wrong place
#
# **Padding on the query axis**, (B, 1, S, 1): real queries still see every <pad>. **One mask for the batch**, that of
# its first sequence: right for that one alone. **Inverted**: a mask is built to be added, 0 = visible, -inf = hidden,
# and the attention that gets it hides where the mask == 0. So it hides the past and the token itself:
#
#     P_ts = exp(S_ts) / (sum over j > t of exp(S_tj))   for s > t,        0 for s <= t
#
# The last row has nothing left: 0 / 0 = NaN. In a second block all other queries see that token: all is NaN.

# %% Three mistakes in numbers
attention, other = attention.eval(), np.where((ids == 0)[:, None, :, None], 7.0, v)         # other values at <pad>
for name, mask in (("right", padding), ("on the query axis", padding.mT), ("one for the batch", padding[:1])):
    y, weight = attention(q, k, v, mask)[1, :, :3], attention.weights[1, :, :3, 3:].sum(-1).mean()
    moved, good = apart(attention(q, k, other, mask)[1, :, :3], y), name == "right"
    claim(f"{name}: words {'ignore' if good else 'look at'} <pad>", (weight == moved == 0) == good,
          f"with weight {weight:.2f}; another value there moves outputs by {moved:.2f}")
predict("inverted: which of the tokens 0 to 4 does query 3 see?", 4)
x, S = v[0, 0], v[0, 0] @ v[0, 0].T / math.sqrt(d)                  # the simplest attention: query = key = value = x
additive = np.where(causal[0, 0], 0, -np.inf)
P = plain_softmax(np.where(additive == 0, -np.inf, S))
show(P=P)
claim("each row is a softmax over the later tokens", apart(P[:4], [[(s > t) * math.exp(S[t, s]) / sum(
    math.exp(S[t, j]) for j in range(t + 1, T)) for s in range(T)] for t in range(4)]) < 1e-14)
y = P @ x                                   # one block, and a second one on top
y2 = plain_softmax(np.where(additive == 0, -np.inf, y @ y.T / math.sqrt(d))) @ y
claim("output 3 is x_4, the next token, and nothing else", np.array_equal(y[3], x[4]))
claim("one block makes the last row NaN, two make all rows NaN", np.isnan(y).any(1).sum() == 1 and np.isnan(y2).all())
claim("an attention that guards empty rows shows no NaN, and the same leak",
      np.allclose(attention(x, x, x, ~causal), np.vstack([y[:4], np.zeros(d)]), rtol=1e-13, atol=0))

# %% [markdown]
# ## 6. A leak looks like success
#
# NaN is the lucky case. With -1e9 or a guarded softmax the inverted mask runs, and query t sees token t + 1, the very
# token that it is trained to predict. Below, two language models train on tokens drawn at random from 8, the second one
# with the inverted mask. There is nothing to learn: without a leak no model can expect a loss below log 8 = 2.08.
#
# At every place but the last the answer is in view, and the loss goes to 0. The last place has no later token to look
# at, and it is the one that generates text. The mean over the 8 places goes to log 8 / 8 = 0.26; the text is noise.

# %% Two language models on noise
picture = Figure(figsize=(8.5, 4.6), layout="constrained")
axes, places = picture.subplots(), {}
for name, style in (("causal", "C0o-"), ("inverted", "C1s--")):
    model = nt.CausalLanguageModel(8, d_model=16, num_heads=2, num_layers=1, max_len=8, rng=6)
    if name == "inverted":                  # mask_and_positions is where the model makes its mask
        model.mask_and_positions = lambda ids, mask, cache: (~nt.causal_mask(ids.shape[-1]), None)
    optimizer, criterion, noise = nt.Adam(model.parameters(), 0.01), nt.CrossEntropyLoss(), np.random.default_rng(6)
    for _ in range(150):
        tokens = noise.integers(0, 8, (32, 9))                      # 8 inputs, and the token after each of them
        model.zero_grad()
        criterion(model(tokens[:, :-1]), tokens[:, 1:])
        model.backward(criterion.backward())
        optimizer.step()
    tokens = noise.integers(0, 8, (1000, 9))                        # new ones
    logits = model.eval()(tokens[:, :-1])
    places[name] = [criterion(logits[:, t], tokens[:, t + 1]) for t in range(8)]
    print(f"  {name}: loss at each place", *(f"{loss:.2f}" for loss in places[name]))
    axes.plot(places[name], style, label=f"{name} mask")
claim("the causal model has learned nothing, as it must", abs(np.mean(places["causal"]) - math.log(8)) < 0.03)
claim("the inverted one knows every token that it has seen, and its mean loss looks splendid",
      np.max(places["inverted"][:7]) < 0.1, f"{np.mean(places['inverted']):.2f}, not {np.mean(places['causal']):.2f}")
claim("at the last place it knows nothing", places["inverted"][7] > math.log(8) - 0.03)
axes.axhline(math.log(8), color="0.4", linestyle=":", label="log 8: the best without a leak")
axes.set(xlabel="place", ylabel="loss on new random tokens", title="A leak helps where the answer is in view")
axes.legend(loc="center left", bbox_to_anchor=(0.05, 0.6))
axes.annotate("this place generates", (7, 2.05), (4, 1), arrowprops={"arrowstyle": "->"})
figure("leak", picture)

# %% [markdown]
# ## 7. The X-ray
#
# Whatever a mask looks like in the code, the model can be asked: move input s a little, and measure how far output t
# moves. `nt.influence` does it for all pairs, by forwards alone; where no way leads from s to t the number is
# exactly 0. Here an encoder and a decoder of two blocks each, and one cross-attention:
#
# * Encoder: every word reaches every output. A <pad> reaches its own output alone, by the residual.
# * Causal decoder: the lower triangle. A token s that t sees has itself seen some r one block earlier, but r <= s and
#   s <= t give r <= t. One token too many in each of two blocks makes two too many.
# * Cross-attention, from a target to a source: every word of the source, no <pad>. A causal mask is wrong there,
#   since the first word of a translation may need the last word of the source.

# %% Encoder, decoder and cross-attention, each with a right and a wrong mask
encoder, decoder = nt.Encoder(2, 12, 3, 24, rng=6), nt.Decoder(2, 12, 3, 24, rng=7)         # two blocks each
cross, (x, start) = nt.CrossAttention(12, 3, rng=8), rng.standard_normal((2, T, 12))
pad = padding[1:]
xrays = {"encoder": nt.influence(encoder, x, pad), "decoder": nt.influence(decoder, x, causal),
         "cross-attention": nt.influence(cross, start, x, pad, argument=1),
         "wrong: <pad> as query": nt.influence(encoder, x, pad.mT),
         "wrong: one too many": nt.influence(decoder, x, np.tri(T, T, 1, dtype=bool)),
         "wrong: causal": nt.influence(cross, start, x, causal, argument=1)}
word, same = real[1], np.eye(T, dtype=bool)
for (title, xray), expected in zip(xrays.items(), (
        word | same, np.tri(T), [word] * T, word[:, None] | same, np.tri(T, T, 2), np.tri(T))):
    claim(f"{title}: not 0 where expected, exactly 0 elsewhere", (xray > 0) == expected)
outputs = dict(zip(xrays, 2 * [sentences[1], sentences[1], ["<s>", "le", "chien", "a", "dormi"]]))
figure("xray", views.xray(xrays, outputs, sentences[1]))

# %% [markdown]
# ## Exercises
#
# 1. A decoder pads on the right and uses the causal mask alone. Which outputs are wrong? Does the loss notice?
# 2. Predict: which rows of the weights change if a causal mask also hides the diagonal, and into what?
# 3. Write `window_mask(T, w)`: query t sees the last w tokens, itself included. How far back does output t reach after
#    L blocks? Check it with nt.influence.
# 4. A test of padding puts another value at a <pad> and finds the same outputs, with a batch of one sequence. Which
#    mistake of section 5 can it not find?
# 5. A colleague's language model reports a loss of 0.3, where others have 3. Which test takes one minute?
#
# With a checker (`numpy-transformer exercise check NN`): 06.1, 06.2, 06.3, 06.4, 06.5.
