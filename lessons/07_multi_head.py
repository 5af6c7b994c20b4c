# %% [markdown]
# # 07 Multi-head attention
#
# Each row of a softmax is one set of weights, so a single attention gives each token one weighted mean of all values.
# That is often too little: a verb that looks for its subject and for its object needs two means. Multi-head attention
# runs H small attentions, the heads, side by side and mixes their results.
#
# Every head reads the whole vector x of each token. What is divided among the heads are the queries, keys and values:
# each head has its own slice of q, k and v. After this lesson you will be able to write this with all its matrices,
# forward and backward, to notice a missing transpose, and to explain how the three attentions of a Transformer differ.

# %% Imports, and the attention of lesson 05
import math

import numpy as np

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, lesson, predict, show, show_source

lesson.start(__name__)
rng = np.random.default_rng(7)


def softmax(A):
    exponentials = np.exp(A - A.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def attend(q, k, v):
    return softmax(q @ k.mT / math.sqrt(q.shape[-1])) @ v


def relative_error(a, b):
    """The distance between a and b, divided by the norm of b."""
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


# %% [markdown]
# ## 1. One softmax gives one mean
#
# Take "cat saw dog". The vector of each word is the sum of two features, its role and the word: "cat" is SUBJECT + CAT.
# The verb needs to know who saw whom. With one head, it has to look for subject and object at once, and gets one mean.
# With two heads, one can look for the subject and the other for the object, and the verb gets two answers. According to
# the paper, a single head cannot do this, because it averages (Vaswani et al. 2017, section 3.2.2).

# %% The verb with one head, and with two
SUBJECT, VERB, OBJECT, CAT, SAW, DOG = np.eye(6)
cat_saw_dog = np.array([SUBJECT + CAT, VERB + SAW, OBJECT + DOG])
dog_saw_cat = np.array([SUBJECT + DOG, VERB + SAW, OBJECT + CAT])


def output_of_verb(x, looks_for):
    q = x @ np.outer(VERB, looks_for)                   # only the verb asks
    k = x @ np.stack([SUBJECT, OBJECT], axis=1)         # words are found by their role
    v = x @ np.stack([CAT, DOG], axis=1)                # they hand over which word they are
    return attend(q, k, v)[1].round(3)


predict('one head, which looks for subject and object: what are its weights on "cat", "saw" and "dog"?', [0.5, 0, 0.5],
        why="Subject and object fit the query equally well, and the weights sum to 1, so each gets one half. The verb "
            "itself does not fit.")
for name, x in (("cat saw dog", cat_saw_dog), ("dog saw cat", dog_saw_cat)):
    print(f"  {name}: one head gets (cat, dog) = {output_of_verb(x, [50, 50])}; "
          f"two heads get {output_of_verb(x, [50, 0])} and {output_of_verb(x, [0, 50])}")
claim("one head: the same output for both sentences",
      np.array_equal(output_of_verb(cat_saw_dog, [50, 50]), output_of_verb(dog_saw_cat, [50, 50])))
claim("two heads: the subject first, then the object", [
    np.array_equal(output_of_verb(x, [50, 0]), subject) and np.array_equal(output_of_verb(x, [0, 50]), subject[::-1])
    for x, subject in ((cat_saw_dog, [1, 0]), (dog_saw_cat, [0, 1]))])
claim("no other values help, because the mean of subject and object is the same vector in both sentences",
      np.array_equal(cat_saw_dog[[0, 2]].mean(0), dog_saw_cat[[0, 2]].mean(0)))

# %% [markdown]
# The last claim holds only because role and word are separate features that are added. If there were a feature "cat as
# the subject", the mean would still contain it, and one head could tell the sentences apart.
#
# ## 2. Split and merge
#
# One matrix computes the queries of all heads: q = x W_Q + b_Q, of shape (B, T, D). Head h owns the features h d to
# (h + 1) d - 1 of it, where d = D / H. They come from the same columns of W_Q, and so from all features of x. NumPy
# can compute all heads at once if the heads have an axis of their own, before the tokens:
#
#     split    (B, T, D)     reshape ->  (B, T, H, d)   swap axes ->  (B, H, T, d)
#     merge    (B, H, T, d)  swap axes ->  (B, T, H, d)  reshape ->  (B, T, D)
#
# What if you reshape to (B, H, T, d) directly? The shape is right, and so are the numbers, but not their places. Below,
# feature i of token t is the number 10 t + i, so that you can see where each number goes.

# %% The right split, and the wrong one
def split_heads(z, H):
    B, T, D = z.shape
    return z.reshape(B, T, H, D // H).swapaxes(1, 2)


def merge_heads(z):
    B, H, T, d = z.shape
    return z.swapaxes(1, 2).reshape(B, T, H * d)


drawing("head_shapes")
B, T, D, H = 1, 4, 4, 2
z = (10 * np.arange(T)[:, None] + np.arange(D))[None]
predict("z has shape (2, 6, 8): what shape do its 4 heads have together?", (2, 4, 6, 2),
        why="(B, T, D) becomes (B, H, T, D / H). Each of the 4 heads has all 6 tokens, with 2 of the 8 features.")
right, wrong = split_heads(z, H), z.reshape(B, H, T, D // H)
show(z=z[0], head_0=right[0, 0], head_1=right[0, 1], wrong_head_0=wrong[0, 0], wrong_head_1=wrong[0, 1])
claim("right: head h has the features h d to (h + 1) d - 1 of every token",
      [np.array_equal(right[:, h], z[:, :, 2 * h:2 * h + 2]) for h in range(H)])
claim("right: merge is the inverse of split", np.array_equal(merge_heads(right), z))
claim("wrong: head 0 has only the tokens 0 and 1, each cut into two rows", wrong[0, 0].ravel() == z[0, :2].ravel())
claim("wrong: the round trip back to z passes all the same", np.array_equal(wrong.reshape(B, T, D), z))


class WrongSplit(nt.SelfAttention):
    def forward(self, x):
        T, D = x.shape
        q, k, v = (linear(x).reshape(H, T, D // H) for linear in (self.query, self.key, self.value))
        return self.output(self.attention(q, k, v).reshape(T, D))


x = rng.standard_normal((T, 8))
claim("right: every input token influences every output token", nt.influence(nt.SelfAttention(8, H, rng=7), x) > 0)
claim("wrong: tokens 0 and 1 never meet tokens 2 and 3",
      (nt.influence(WrongSplit(8, H, rng=7), x) > 0) == np.kron(np.eye(2), np.ones((2, 2))))

# %% [markdown]
# ## 3. Forward
#
# Now the whole layer. In the general form, the queries come from one array, and keys and values from others:
#
#     head_h = Attention(query W_Q^h + b_Q^h,  key W_K^h + b_K^h,  value W_V^h + b_V^h)
#     y      = concat(head_0, head_1, ...) W_O + b_O
#
# Here concat puts the heads side by side again. Call W_O^h the rows h d to (h + 1) d - 1 of W_O. Then concat(...) W_O
# is the sum over h of head_h W_O^h: each head adds its own contribution to the output, and W_O^h decides into which
# features it goes. Whatever H is, the four matrices are D x D, so the layer has 4 D² + 4 D parameters.

# %% Multi-head attention in eight lines
B, T, S, D, H = 2, 5, 7, 12, 3
d = D // H
query = rng.standard_normal((B, T, D))
key, value = rng.standard_normal((2, B, S, D))
W_Q, W_K, W_V, W_O = rng.standard_normal((4, D, D)) / math.sqrt(D)
b_Q, b_K, b_V, b_O = rng.standard_normal((4, D))

q = split_heads(query @ W_Q + b_Q, H)
k = split_heads(key @ W_K + b_K, H)
v = split_heads(value @ W_V + b_V, H)
A = q @ k.mT / math.sqrt(d)
P = softmax(A)
heads = P @ v
merged = merge_heads(heads)
y = merged @ W_O + b_O
show(q=q, P=P, heads=heads, y=y)
y_loops = np.zeros((B, T, D)) + b_O
for n in range(B):
    for own in (slice(h * d, (h + 1) * d) for h in range(H)):       # the features of one head
        q_h, k_h, v_h = (x[n] @ W[:, own] + b[own] for x, W, b in
                         ((query, W_Q, b_Q), (key, W_K, b_K), (value, W_V, b_V)))
        y_loops[n] += attend(q_h, k_h, v_h) @ W_O[own]
claim("y = b_O + sum over h of head_h W_O^h", relative_error(y, y_loops) < 1e-14)
counts = [nt.MultiHeadAttention(D, number).num_parameters() for number in (1, 2, 3, 4, 6, 12)]
claim("4 D² + 4 D parameters for every number of heads", np.array(counts) == 4 * D * D + 4 * D, f"{counts[0]}")

# %% [markdown]
# ## 4. Backward
#
# We read forward from its last line to its first. Only three steps are new:
#
# * Split and merge only move numbers. So the backward of a merge is a split, and that of a split is a merge.
# * The heads do not depend on each other, so the lines of lesson 05 work for all of them at once, with `.mT`, which
#   transposes the last two axes.
# * The same query goes into every head, so its gradient is a sum over the heads. The product with W_Qᵀ computes this
#   sum, because its inner dimension runs over the features of all heads.

# %% Each group of lines under its line of forward
def linear_backward(x, W, dz):                          # of z = x @ W + b, as in lesson 02
    rows_x, rows_dz = x.reshape(-1, x.shape[-1]), dz.reshape(-1, dz.shape[-1])
    return dz @ W.T, rows_x.T @ rows_dz, rows_dz.sum(0)


dy = rng.standard_normal((B, T, D))
#   y = merged @ W_O + b_O
dmerged, dW_O, db_O = linear_backward(merged, W_O, dy)
#   merged = merge_heads(heads)
dheads = split_heads(dmerged, H)
#   heads = P @ v
dv = P.mT @ dheads
dP = dheads @ v.mT
#   P = softmax(A)
dA = P * (dP - (P * dP).sum(-1, keepdims=True))
#   A = q @ k.mT / math.sqrt(d)
dq = dA @ k / math.sqrt(d)
dk = dA.mT @ q / math.sqrt(d)
#   v, k and q = split_heads(... @ W + b, H)
dvalue, dW_V, db_V = linear_backward(value, W_V, merge_heads(dv))
dkey, dW_K, db_K = linear_backward(key, W_K, merge_heads(dk))
dquery, dW_Q, db_Q = linear_backward(query, W_Q, merge_heads(dq))

# %% [markdown]
# `nt.MultiHeadAttention` does the same. Its four `Linear`s are called query, key, value and output, and its `attention`
# is the component of lesson 05. `num_kv_heads` and `rotary` belong to later models (lesson 16) and are not used here.

# %% The class of the package has the same output and the same gradients
show_source(nt.MultiHeadAttention.forward, nt.MultiHeadAttention.backward)
layer = nt.MultiHeadAttention(D, H).astype(np.float64)
OURS = {"query": (W_Q, b_Q, dW_Q, db_Q), "key": (W_K, b_K, dW_K, db_K), "value": (W_V, b_V, dW_V, db_V),
        "output": (W_O, b_O, dW_O, db_O)}
for name, (W, b, _, _) in OURS.items():
    getattr(layer, name).weight.data = W
    getattr(layer, name).bias.data = b
claim("the output is our y", relative_error(layer(query, key, value), y) < 3e-15)
for name, theirs, ours in zip(("dquery", "dkey", "dvalue"), layer.backward(dy), (dquery, dkey, dvalue)):
    claim(f"{name} is the same array up to rounding", relative_error(theirs, ours) < 3e-15)
for name, (_, _, dW, db) in OURS.items():
    scale = np.linalg.norm(dW)                          # the gradient of the key bias is 0 up to rounding (lesson 05)
    claim(f"the gradients of the {name} weight and bias", [
        np.linalg.norm(getattr(layer, name).weight.grad - dW) < 3e-15 * scale,
        np.linalg.norm(getattr(layer, name).bias.grad - db) < 3e-15 * scale])
claim("central differences agree, for every input and parameter", nt.gradcheck(layer, query, key, value).ok)

# %% [markdown]
# ## 5. The three attentions of a Transformer
#
# **Self-attention** uses one x as query, key and value. x appears three times, so dx = dquery + dkey + dvalue.
# **Cross-attention** takes its queries from x, and its keys and values from the output of an encoder, the memory. So
# dx = dquery, and dmemory = dkey + dvalue. If you forget one of these terms, the result still has the right shape.
#
# The Transformer of 2017 uses multi-head attention in three places (section 3.2.3):
#
#     attention      query   key, value  weights  hidden keys
#     encoder self   source  source      S x S    padding
#     decoder self   target  target      T x T    later ones, padding
#     cross          target  memory      T x S    padding of the source

# %% Three places, one component
drawing("three_attentions")
show_source(nt.SelfAttention, nt.CrossAttention)
target, memory = query, key                             # T = 5 tokens of the target, S = 7 of the source
attend_self, cross = (kind(D, H).astype(np.float64).load_state_dict(layer.state_dict())         # the same weights
                      for kind in (nt.SelfAttention, nt.CrossAttention))
attend_self.eval()(memory, np.arange(S) < np.array([[5], [7]])[:, None, None])      # source 0 has two padding tokens
claim("encoder self-attention: S x S weights, and no source token attends to padding", [
    attend_self.weights.shape == (B, H, S, S), (attend_self.weights[0, :, :, 5:] == 0).all()])
attend_self.train()(target, nt.causal_mask(T))
claim("decoder self-attention: T x T weights, and no target token attends to a later one", [
    attend_self.weights.shape == (B, H, T, T), (np.triu(attend_self.weights, 1) == 0).all()])
dx = attend_self.backward(dy)
layer(target, target, target, nt.causal_mask(T))
terms = layer.backward(dy)
predict("the weights of cross-attention, for B = 2, H = 3, T = 5 and S = 7: what shape do they have?", (B, H, T, S),
        why="Each head of each sequence has one row for each query, a target token, and one column for each key, a "
            "source token.")
cross(target, memory)
claim("cross-attention: T x S weights in every head", cross.weights.shape == (B, H, T, S))
claim("self-attention: dx is the sum of all three terms", relative_error(dx, sum(terms)) < 1e-14)
claim("no two of them are enough", [relative_error(dx - term, dx) > 0.1 for term in terms])
dx, dmemory = cross.backward(dy)
layer(target, memory, memory)
dquery, dkey, dvalue = layer.backward(dy)
claim("cross-attention: dx = dquery, dmemory = dkey + dvalue",
      [relative_error(dx, dquery) < 1e-14, relative_error(dmemory, dkey + dvalue) < 1e-14])

# %% [markdown]
# `numpy-transformer explore --lesson 07` shows both heads of a trained layer in your browser, with their weights and
# the gradients of these. The model reads "the cats near the dog" and has to predict "sleep", the verb of the cats,
# and not "barks". Which head of the token "dog" looks for the animal that decides, and what does the other head
# attend to?
#
# ## Exercises
#
# 1. One head has weights 0.7 and 0.3 on subject and object. Now "cat saw dog" and "dog saw cat" give different outputs.
#    Find two other pairs of vectors that this head cannot distinguish.
# 2. Predict: D = 8, H = 4, T = 6, the wrong split. Which outputs does token 0 influence? Check with nt.influence.
# 3. A layer splits wrongly, both in forward and in backward. What does gradcheck report, and why?
# 4. Find the bug: a mask of shape (B, T, S) is added to scores of shape (B, H, T, S). When does this run, and which
#    scores does it hide?
# 5. Write split and merge with a loop over the heads and np.concatenate. Which of the two has to copy?
# 6. Why is the gradient of the memory a sum of 12 terms in a decoder with 6 blocks?
#
# With a checker (`numpy-transformer exercise start my-exercises 07`): 07.1, 07.2, 07.3, 07.4, 07.5, 07.6, 07.7.
