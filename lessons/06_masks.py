# %% [markdown]
# # 06 Masks
#
# A mask says for each query and each key: may this token look at that one? It is a short part of a Transformer, and
# mistakes in it are silent. With a wrong mask the model runs and trains, and its loss may even look too good, because
# the answer has leaked into the input. After this lesson you will be able to build the two masks that every model
# needs, to say what a wrong one does, and to test whether a model sees the future.

# %% Two sentences in one batch, the second one padded
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source

lesson.start(__name__)
rng = np.random.default_rng(6)
sentences = [["the", "cat", "saw", "the", "dog"], ["the", "dog", "slept", "<pad>", "<pad>"]]
ids = np.array([[5, 3, 8, 5, 4], [5, 4, 7, 0, 0]])                  # 0 is the padding token <pad>
B, T = ids.shape
drawing("masks")

# %% [markdown]
# ## 1. Two masks, built by hand
#
# In this package a mask is a boolean array, and **True = may attend**.
#
# The **causal mask** lets no token see a later one: query t may see key s if s <= t. The paper describes this masking
# without giving it a name (Vaswani et al. 2017, section 3.2.3). "Causal mask" and "look-ahead mask" are names that came
# later.
#
# The **padding mask** hides the tokens that only fill a short sentence up to the length of the batch. It hides them as
# keys, from all queries. The outputs at padding tokens are computed as well, and then ignored.
#
# The axes of a mask are those of the scores: batch, heads (lesson 07), queries and keys. An axis of size 1 means "the
# same for all":
#
#     causal    (1, 1, T, T)   s <= t
#     padding   (B, 1, 1, S)   key s is a real token

# %% Causal, padding, both
positions = np.arange(T)
causal = (positions[None, :] <= positions[:, None])[None, None]     # keys along a row, queries down a column
padding = (ids != 0)[:, None, None, :]
predict("what is the shape of masks of shape (1, 1, 5, 5) and (2, 1, 1, 5), combined with & ?", (2, 1, 5, 5),
        why="An axis of size 1 is repeated to the size of the other mask: sequences 2, heads 1, queries 5, keys 5.")
both = causal & padding
show(causal=causal[0, 0].astype(int), padding=padding[:, 0, 0].astype(int), both_of_sentence_1=both[1, 0].astype(int))
claim("the package's masks are the same arrays", [
    np.array_equal(nt.causal_mask(T), causal), np.array_equal(nt.padding_mask(ids), padding),
    np.array_equal(nt.combine_masks(nt.causal_mask(T), nt.padding_mask(ids)), both)])
show_source(nt.causal_mask, nt.padding_mask)
for title, mask in (("numbers instead of True and False", causal.astype(float)), ("three axes", both[:, 0])):
    try:
        nt.ScaledDotProductAttention()(*rng.standard_normal((3, B, B, T, 4)), mask)
        refused = False
    except (TypeError, ValueError) as error:
        refused = "True = may attend" in str(error) or "mask[:, None]" in str(error)
    claim(f"attention refuses a mask with {title}", refused)

# %% [markdown]
# Why are these two refused? In a mask of numbers, 0 can mean "hide", but it can also mean "add 0", and so "look"
# (section 4). And NumPy would match the batch axis of a mask (B, T, S) with the heads of the scores (B, H, T, S). If
# there are as many heads as sequences, this runs, and the result is wrong.
#
# ## 2. What a mask does, forward and backward
#
# A hidden score is set to -inf before softmax, and exp(-inf) is 0. For example, let a query have the scores 2, 1 and 3,
# and let the third key be hidden. The exponentials of the other two are 7.39 and 2.72, so the weights are 0.73, 0.27
# and 0.
#
# **Backward.** A hidden score does not appear in the weights of its row, so its gradient is exactly 0. The formula of
# lesson 05 agrees, because dA_ts = P_ts (dP_ts - weighted mean of row t) has the factor P_ts = 0. If no query sees key
# s, then its column of dA is 0, and so are dk_s and dv_s.
#
# To see where an output comes from, we give the token at position s the value 10 s. A mean cannot be larger than the
# largest of its values: if output t is above 10 t, then token t has seen the future.

# %% Forward and backward with both masks
q, k = rng.standard_normal((2, B, 1, T, 4))
v = np.tile(10.0 * positions[:, None], (B, 1, 1, 1))                # the value at position s is 10 s
dy = rng.standard_normal((B, 1, T, 1))
A = np.where(both, q @ k.mT / math.sqrt(4), -np.inf)
P = np.exp(A) / np.exp(A).sum(-1, keepdims=True)
y = P @ v
dP = dy @ v.mT
dA = P * (dP - (P * dP).sum(-1, keepdims=True))
dk = dA.mT @ q / math.sqrt(4)
show(P_of_sentence_1=P[1, 0], y_of_sentence_1=y[1, 0, :, 0])
claim("a hidden key has weight exactly 0, and a hidden score has gradient exactly 0", [
    (P[~both] == 0).all(), (dA[~both] == 0).all()])
claim("no output is above 10 t", y[..., 0] <= 10 * positions + 1e-12)
claim("the padding tokens of sentence 1 get no gradient at all", [
    (dk[1, 0, 3:] == 0).all(), ((P.mT @ dy)[1, 0, 3:] == 0).all()])
attention = nt.ScaledDotProductAttention()
claim("the package's attention has the same output", np.allclose(attention(q, k, v, both), y, rtol=1e-13))
_, package_dk, package_dv = attention.backward(dy)
claim("and the same gradients of keys and values",
      [np.allclose(package_dk, dk, rtol=0, atol=1e-13), np.allclose(package_dv, P.mT @ dy, rtol=0, atol=1e-13)])
alone = nt.ScaledDotProductAttention().eval()(*(z[1, :, :3] for z in (q, k, v)), nt.causal_mask(3))
claim("the padded sentence has the same outputs as without padding", np.allclose(y[1, :, :3], alone, rtol=1e-13))

# %% [markdown]
# Even a visible score can have gradient 0. `numpy-transformer explore --lesson 06` opens a small causal model in your
# browser, at the gradient of token 0's query, which is exactly 0. Click on its terms: which factor is 0, and why? The
# last token's query has gradient 0 for another reason. Which one?
#
# ## 3. A query that may see nothing, and -1e9
#
# Suppose a sentence is padded on the left, and the mask is causal as well. Query 0 is a `<pad>`. It may see only
# itself, but no query may see a `<pad>`. So all its keys are hidden, and softmax divides 0 by 0. The resulting NaN
# spreads to every sum that it enters, even with weight 0. In this package, the weights, the output and the gradients of
# such a query are therefore defined as 0.
#
# Other code does not use -inf. It adds -1e9 to a hidden score, or only -10, or it multiplies the score by 0. What do
# the weights look like then, in a row without a visible key, and in a row with one?

# %% The weights of six ways, for "<pad> the cat saw"
def plain_softmax(A):
    with np.errstate(invalid="ignore"):                             # no warning for 0 / 0, which we look for
        exponentials = np.exp(A - A.max(-1, keepdims=True))
        return exponentials / exponentials.sum(-1, keepdims=True)


left = (causal[..., :4, :4] & nt.padding_mask(np.array([0, 5, 3, 8])))[0, 0]
A = np.array([[1.0, 2, 0, 1], [2, 1, 3, 0], [0, 2, 1, 3], [3, 1, 0, 2]])
predict("in float32, -1e9 is added to all four scores of a row: what is each of its weights?", 0.25,
        why="Near 1e9 the numbers of float32 are 64 apart, so each score becomes exactly -1e9, and four equal scores "
            "have equal weights.")
with np.errstate(invalid="ignore"):
    ways = {"-inf": plain_softmax(np.where(left, A, -np.inf)),
            "-inf, package": nt.Softmax()(np.where(left, A, -np.inf)),
            "-1e9, float64": plain_softmax(A + np.where(left, 0, -1e9)),
            "-1e9, float32": plain_softmax(A.astype("f4") + np.where(left, 0, -1e9).astype("f4")),
            "add -10": plain_softmax(A + np.where(left, 0, -10)),
            "times 0": plain_softmax(A * left)}
print(" " * 17 + "row 0, which may see nothing        row 3, which may not see key 0")
for name, P in ways.items():
    print(f"  {name:<15}" + "      ".join(" ".join(f"{weight:7.4f}" for weight in P[t]) for t in (0, 3)))
plain, package, double, single, ten, times = ways.values()
claim("-inf: row 0 is NaN, and no other row; the package makes it 0",
      [np.isnan(plain).all(1).tolist() == [True, False, False, False], (package[0] == 0).all()])
y = attention(q[0, 0, :4], k[0, 0, :4], v[0, 0, :4], left)
dq, _, _ = attention.backward(dy[0, 0, :4])
claim("in the package, output 0 and the gradient of query 0 are exactly 0", [(y[0] == 0).all(), (dq[0] == 0).all()])
claim("-1e9: exact in rows with a visible key", [np.array_equal(double[1:], plain[1:]), (single[3, 0] == 0)])
claim("-1e9 in row 0: unmasked weights in float64, equal weights in float32",
      [np.allclose(double[0], plain_softmax(A)[0], atol=1e-6), (single[0] == 0.25).all()])
claim("adding -10 and multiplying by 0 leave weight on hidden keys", [ten[3, 0] > 0, times[3, 0] > 0.01])

# %% [markdown]
# If the row has a visible key, -1e9 is exact, because exp(-1e9) is 0. If it has none, adding -1e9 shifts all its scores
# by the same number, and softmax cancels the shift: the **unmasked** weights come back. In float32, neighboring numbers
# near 1e9 are 64 apart, so all scores of the row become -1e9, and all weights become equal.
#
# Adding -10 is a leak in every row, because it only divides exp(A) by exp(10), about 22,000. Multiplying by 0 is worse:
# the score becomes 0, and exp(0) is 1.
#
# ## 4. The inverted mask
#
# One of the study notes on which this course is based builds its causal mask as an array to be **added** to the
# scores: 0 = visible, -inf = hidden. Its attention, however, calls `masked_fill(mask == 0, -inf)`, which is meant for
# masks of 1 and 0, and hides the keys at the zeros. Each of the two functions is right by itself. What do they do
# together?

# %% The two functions of the note, in NumPy
def note_causal_mask(T):
    return np.where(np.triu(np.ones((T, T)), 1) == 1, -np.inf, 0)   # -inf above the diagonal


def note_weights(A, mask):
    return plain_softmax(np.where(mask == 0, -np.inf, A))           # masked_fill(mask == 0, -inf)


predict("with this mask, which of the tokens 0 to 3 does query 2 see?", 3,
        why="The causal mask lets query 2 see the tokens 0 to 2. Inverted, it lets it see exactly the others: only "
            "token 3, the one to be predicted.")
P = note_weights(A, note_causal_mask(4))
show(mask=note_causal_mask(4), P=P)
claim("it hides the past and the token itself", P[:3][np.tri(3, 4, dtype=bool)] == 0)
claim("with values 10 s, the outputs 0 to 2 show that the future was seen", P[:3] @ (10.0 * np.arange(4)) > [0, 10, 20])
claim("the last row is NaN", np.isnan(P[3]))
claim("adding the mask, as it was meant, gives the right weights",
      np.array_equal(plain_softmax(A + note_causal_mask(4)), plain_softmax(np.where(causal[0, 0, :4, :4], A, -np.inf))))

# %% [markdown]
# Together they hide the past and the token itself, and show the future. The NaN of the last row is fortunate, because
# you notice it. With -1e9, or with a softmax that protects empty rows, the model runs, and query t sees the very token
# that it is trained to predict.
#
# Below, two language models train on random tokens, drawn from 8. There is nothing to learn: without a leak, no model
# can expect a loss below log 8 = 2.08. With the inverted mask, every position but the last sees its answer, and the
# mean loss falls to log 8 / 8 = 0.26. The last position, which generates text, has nothing to look at.

# %% A leak looks like success
picture = Figure(figsize=(8.5, 4.6), layout="constrained")
axes = picture.subplots()
losses = {}
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
    print(f"  loss at each position, {name:<8}", *(f"{loss:.2f}" for loss in losses[name]))
    axes.plot(losses[name], style, label=f"{name} mask")
claim("the causal model has learned nothing, as expected", abs(np.mean(losses["causal"]) - math.log(8)) < 0.03)
claim("the inverted one predicts every token that it can see, and learns nothing at the last position",
      [max(losses["inverted"][:7]) < 0.1, losses["inverted"][7] > math.log(8) - 0.03])
axes.axhline(math.log(8), color="0.4", linestyle=":", label="log 8, the lowest expected loss without a leak")
axes.set(xlabel="position", ylabel="loss on new random tokens (nats)",
         title="The leak helps where the answer is visible")
axes.legend(loc="center left", bbox_to_anchor=(0.05, 0.6))
axes.annotate("this position generates text", (7, 2.05), (3.4, 0.8), arrowprops={"arrowstyle": "->"})
figure("leak", picture)

# %% [markdown]
# ## 5. The test: change one token
#
# Whatever a mask looks like in the code, we can test the finished model: change input s a little, and measure how much
# output t changes. `nt.influence` does this for all pairs, with forward passes only. Where no path leads from s to t,
# the result is exactly 0. We test an encoder and a decoder, which are stacks of two blocks with attention (lesson 10),
# on "the dog slept" with its padding. In the encoder, a `<pad>` may influence its own output, because each block adds
# its input to its output. In the decoder, everything above the diagonal must be 0.

# %% Which inputs influence which outputs?
encoder, decoder = nt.Encoder(2, 12, 3, 24, rng=6), nt.Decoder(2, 12, 3, 24, rng=7)         # two blocks each
x = rng.standard_normal((T, 12))
pad = padding[1:]
xrays = {"encoder, padding mask": nt.influence(encoder, x, pad),
         "decoder, causal mask": nt.influence(decoder, x, causal),
         "wrong: padding on the query axis": nt.influence(encoder, x, pad.mT),
         "wrong: each block sees one token too many": nt.influence(decoder, x, np.tri(T, T, 1, dtype=bool))}
real, itself = pad[0, 0], np.eye(T, dtype=bool)
expected = real | itself, np.tri(T), real.T | itself, np.tri(T, T, 2)
for (title, xray), reached in zip(xrays.items(), expected):
    claim(f"{title}: nonzero where expected, exactly 0 elsewhere", (xray > 0) == reached)
picture = views.xray(xrays, dict.fromkeys(xrays, sentences[1]), sentences[1])
picture.supxlabel("input token s", fontsize=12)
picture.supylabel("output at token t", fontsize=12)
figure("xray", picture)

# %% [markdown]
# ## Exercises
#
# 1. A decoder pads on the right and uses only the causal mask. Which outputs are wrong? Does the loss notice?
# 2. Predict: which rows of the weights change if a causal mask also hides the diagonal, and what do they become?
# 3. Write `window_mask(T, w)`: query t sees the last w tokens, itself included. How far back does output t reach after
#    N blocks? Check your answer with nt.influence.
# 4. A test with a single sequence changes the values at a `<pad>` and finds the same outputs. Which mistake can it not
#    find: padding on the query axis, or the mask of the first sequence used for the whole batch?
# 5. A colleague's language model reports a loss of 0.3, where others have 3. Which test takes one minute?
#
# With a checker (`numpy-transformer exercise start my-exercises 06`): 06.1, 06.2, 06.3, 06.4, 06.5.
