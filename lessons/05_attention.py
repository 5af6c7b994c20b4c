# %% [markdown]
# # 05 Attention, forward and backward
#
# "The cat ate bread because it was hungry." To understand "it", you look back at the earlier words and pick the one
# that it stands for. Attention lets every token of a sentence look at the others in this way. Each token has three
# vectors:
#
# * the **query** q says what the token is looking for,
# * the **key** k says what the token can be found by,
# * the **value** v is what the token hands over when it is found.
#
# Think of the library of lesson 00. You come with a question, such as "which animal is meant?" (the query). You compare
# it with every entry of the catalog (the keys). Then you read the books (the values), most of all those whose entries
# fit. In one line (Vaswani et al. 2017, equation 1):
#
#     y = P v,     P = softmax(q kᵀ / sqrt(d))
#
# In a trained model, three learned matrices compute q, k and v from the vector of each token (lesson 07). Here we
# choose them by hand, so that you can see why every number comes out as it does.

# %% A sentence whose queries, keys and values we choose
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source, slopes

lesson.start(__name__)
#              looks for                    is found as                  hands over
#              noun, animal, verb, pronoun  noun, animal, verb, pronoun  alive, edible, action
TABLE = [
    ("the",     [4, 0, 0, 0],               [0, 0, 0, 0],                [0, 0, 0]),
    ("cat",     [0, 0, 4, 0],               [1, 1, 0, 0],                [1, 0, 0]),
    ("ate",     [4, 0, 0, 0],               [0, 0, 1, 0],                [0, 0, 1]),
    ("bread",   [0, 0, 4, 0],               [1, 0, 0, 0],                [0, 1, 0]),
    ("because", [0, 0, 4, 0],               [0, 0, 0, 0],                [0, 0, 0]),
    ("it",      [2, 4, 0, 0],               [0, 0, 0, 1],                [0, 0, 0]),
    ("was",     [0, 0, 0, 6],               [0, 0, 1, 0],                [0, 0, 0]),
    ("hungry",  [0, 4, 0, 0],               [0, 0, 0, 0],                [1, 0, 0])]
words, *vectors = zip(*TABLE)
q, k, v = np.array(vectors[0], float), np.array(vectors[1], float), np.array(vectors[2], float)
T, d = q.shape                              # 8 tokens; queries and keys have d = 4 features
CAT, BREAD, IT, HUNGRY = (words.index(word) for word in ("cat", "bread", "it", "hungry"))

# %% [markdown]
# ## 1. By hand, for three tokens
#
# "It" looks for a noun, and above all for an animal: its query is (2, 4, 0, 0). The key of "cat", a noun and an animal,
# is (1, 1, 0, 0). Their dot product, 2 · 1 + 4 · 1 + 0 · 0 + 0 · 0 = 6, is large, because the query asks for what
# the key has.
#
# We divide it by sqrt(d) = sqrt(4) = 2 (lesson 05b shows why) and get the **score** 3. Softmax (lesson 01) turns the
# scores into **weights**, which are positive and sum to 1. The **output** is the weighted mean of the values. To have
# few numbers, we let "it" look at only three tokens for now: "cat", "bread" and itself.

# %% Dot products, exponentials, weights, output
predict('the key of "bread" is (1, 0, 0, 0); what is its dot product with the query (2, 4, 0, 0) of "it"?', 2,
        why="2 · 1 + 4 · 0 + 0 · 0 + 0 · 0 = 2: bread is a noun, but it is not the animal that the query asks for.")
three = CAT, BREAD, IT
dots = [sum(q[IT, i] * k[s, i] for i in range(d)) for s in three]
exponentials = [math.exp(dot / math.sqrt(d)) for dot in dots]
total = sum(exponentials)
weights = [exponential / total for exponential in exponentials]
output = [sum(weight * v[s, i] for weight, s in zip(weights, three)) for i in range(3)]
for s, dot, exponential, weight in zip(three, dots, exponentials, weights):
    products = " + ".join(f"{q[IT, i]:.0f} · {k[s, i]:.0f}" for i in range(d))
    print(f"  {words[s]:<6} q · k = {products} = {dot:.0f}   score {dot:.0f} / 2 = {dot / 2:.0f}")
    print(f"         exp({dot / 2:.0f}) = {exponential:.3f}   weight {exponential:.3f} / {total:.3f} = {weight:.3f}")
print("  output", " + ".join(f"{weight:.3f} · {v[s].astype(int)}" for weight, s in zip(weights, three)),
      "=", np.round(output, 3))
claim('"it" gives most of its weight to "cat"', weights[0] > 0.8)
claim('so the output says "alive", as the value of "cat" does', output[0] > 0.8 and max(output[1:]) < 0.2)

# %% [markdown]
# ## 2. Three lines of NumPy
#
# For all 8 tokens at once, the same three steps are three lines. A_ts is the score of query t with key s. Softmax turns
# it into a weight P_ts, and y_t is the mean of all values with the weights of row t. (Our scores are small, so exp
# cannot overflow, and we need not subtract the maximum as in lesson 01.)

# %% Attention for all tokens
A = q @ k.T / math.sqrt(d)                                  # scores
P = np.exp(A) / np.exp(A).sum(-1, keepdims=True)            # weights, the softmax of each row
y = P @ v                                                   # outputs
print("weights in percent" + "".join(f"{word:>9}" for word in words))
for word, row in zip(words, P):
    print(f"  {word:<16}" + "".join(f"{100 * weight:9.0f}" for weight in row))
claim("every row of weights sums to 1", abs(P.sum(-1) - 1) < 1e-14)
claim('"it" attends most to "cat", and "was" to "it"', (P.argmax(-1)[[IT, IT + 1]] == [CAT, IT]))
predict("if all values double, does y double?", "yes",
        why="The weights come from q and k alone, so they stay the same, and each output is a sum of weight times "
            "value.")
u = v[::-1]                                 # other values
claim("for given weights, attention is linear in the values",
      np.allclose(P @ (2 * v + 3 * u), 2 * y + 3 * P @ u, rtol=1e-14))
claim("in each feature, every output lies between the smallest and the largest value",
      (v.min(0) <= y) & (y <= v.max(0)))

# %% [markdown]
# So attention mixes the values of different tokens, but applies no nonlinear function to them. That is why a
# feed-forward layer follows it (lesson 09).
#
# ## 3. The causal mask
#
# A model that predicts the next token must not see it. In a **causal mask**, token t may attend to the tokens 0 to t
# only; True means "may attend". A hidden score becomes -inf before softmax. As exp(-inf) is 0, its weight is exactly 0.
# This adds one line. The function below has all four.

# %% The same attention with a mask
def attend(q, k, v, mask):
    A = q @ k.T / math.sqrt(q.shape[-1])
    A = np.where(mask, A, -np.inf)                          # the new line
    P = np.exp(A) / np.exp(A).sum(-1, keepdims=True)
    return P @ v, P


drawing("attention")
mask = np.tri(T, dtype=bool)                                # True on the diagonal and below it
y, P = attend(q, k, v, mask)
predict('how many of its 8 weights are not 0 in the row of "it", which is token 5?', 6,
        why="Token 5 sees the tokens 0 to 5. These are six tokens, itself included.")
claim("a hidden key has weight exactly 0", P[~mask] == 0)
claim("token 0 sees only itself, so its output is its own value", np.array_equal(y[0], v[0]))
k_new, v_new = k.copy(), v.copy()
k_new[HUNGRY] = 9
v_new[HUNGRY] = 9
y_new, _ = attend(q, k_new, v_new, mask)
claim("another last token changes the last output and no other one", (y_new != y).any(-1) == (np.arange(T) == T - 1))

# %% [markdown]
# ## 4. Backward
#
# The layers above send dy, the gradient of the loss L with respect to y. Suppose that L falls if the output of "it"
# becomes more alive and less edible. Then dy is (-1, 1, 0) in the row of "it". Suppose also that L falls if the output
# of "hungry" becomes more alive. We go through forward from its last line to its first, and ask where each variable
# appears.
#
# **y = P v.** Value v_s appears in the output of every token t with the factor P_ts, so dv_s = sum over t of P_ts dy_t.
# Weight P_ts appears in output t with the factor v_s, so dP_ts = dy_t · v_s.
#
# **P = softmax(A).** A score raises its own weight and lowers the other weights of its row. Lesson 01 derived
#
#     dA_ts = P_ts (dP_ts - sum over j of P_tj dP_tj)
#
# The mask needs no line of its own, because a hidden score has P_ts = 0.
#
# **A = q kᵀ / sqrt(d).** Query q_t appears in A_ts with the factor k_s / sqrt(d), and key k_s with q_t / sqrt(d).

# %% Seven lines, each group under its line of forward
dy = np.zeros((T, 3))
dy[IT] = -1, 1, 0
dy[HUNGRY] = -1, 0, 0
#   y = P @ v
dv = P.T @ dy
dP = dy @ v.T
#   P = softmax(A)
mean = (P * dP).sum(-1, keepdims=True)
dA = P * (dP - mean)
#   A = q @ k.T / math.sqrt(d)
dproducts = dA / math.sqrt(d)
dq = dproducts @ k
dk = dproducts.T @ q
drawing("attention_backward")
show(dv=dv, dq_it=dq[IT], dk_cat=dk[CAT])

# %% One row of dA with its numbers
print(f'  the row of "it", whose weighted mean of dP is {mean[IT, 0]:.3f}')
for s in range(IT + 1):
    print(f"    {words[s]:<8} P = {P[IT, s]:.3f}   dP = {dP[IT, s]:6.3f}   dA = {P[IT, s]:.3f} · ({dP[IT, s]:6.3f} + "
          f"{-mean[IT, 0]:.3f}) = {dA[IT, s]:6.3f}")
claim('descent makes "it" look more for an animal, and "cat" easier to find as one',
      [dq[IT].argmin() == 1, dk[CAT].argmin() == 1, dq[IT, 1] < 0, dk[CAT, 1] < 0])
y_step, P_step = attend(q - 0.5 * dq, k - 0.5 * dk, v, mask)
claim('a step of gradient descent on q and k gives "cat" more weight, and "bread" less',
      [P_step[IT, CAT] > P[IT, CAT], P_step[IT, BREAD] < P[IT, BREAD]],
      f"{P[IT, CAT]:.2f} becomes {P_step[IT, CAT]:.2f}, and {P[IT, BREAD]:.2f} becomes {P_step[IT, BREAD]:.2f}")

# %% [markdown]
# In words: raising a score raises L if its dP is above the weighted mean of dP in its row, and lowers L if it is below.
# "It" gives "cat" the weight 0.749 and "bread" 0.101. Their dP are -1 and 1, and all other visible dP are 0, so the
# weighted mean is 0.749 (-1) + 0.101 (1) = -0.648. For "cat", dA is 0.749 (-1 + 0.648) = -0.264, and for "bread" it is
# 0.101 (1 + 0.648) = 0.167. "Ate" has dP = 0, and yet its dA is 0.024, because more weight for "ate" would mostly be
# taken from "cat". A step against dq and dk raises the score of "cat": attention learns where to look.
#
# The hidden "hungry" has dP = -1, because its value would lower L if it had any weight. But its weight is 0, so its
# score gets the gradient 0.

# %% Row sums, and the bias of the keys
predict("the same vector b, a bias, is added to every key: does y change?", "no",
        why="The bias adds q_t · b to all scores of row t, and softmax does not see what is added to a whole row.")
b = np.array([1.0, -2, 0.5, 3])
claim("adding b to all keys leaves y unchanged", np.allclose(attend(q, k + b, v, mask)[0], y, rtol=0, atol=1e-14))
claim("each row of dA sums to 0", abs(dA.sum(-1)) < 1e-14)
claim("the gradient of a key bias, the sum of the rows of dk (lesson 02), is 0", abs(dk.sum(0)) < 1e-14)
claim("the gradient of a query bias, the sum of the rows of dq, is not 0", abs(dq.sum(0)).max() > 0.01)

# %% [markdown]
# **Why does each row of dA sum to 0?** If all scores of a row rise by the same number, softmax gives the same weights,
# so the loss does not change. A bias b of the keys, one vector that is added to every key, does just that. Since
# q_t · (k_s + b) = q_t · k_s + q_t · b, it raises all scores of row t by the same number. So its gradient is zero,
# whatever the loss is. A bias b of the queries adds b · k_s, which is a different number for each key, and its
# gradient is not zero.

# %% Weights, and the two gradients of backward
picture = Figure(figsize=(13, 5.1), layout="constrained")
for axes, array, title in zip(picture.subplots(1, 3), (P, dP, dA), ("weights P", "gradients dP", "gradients dA")):
    limit = np.abs(array).max()
    axes.imshow(array, "RdBu_r", vmin=-limit, vmax=limit)
    for (t, s), number in np.ndenumerate(array):
        axes.text(s, t, f"{round(number, 2) + 0:.2f}" if number else "0", ha="center", va="center", fontsize=10,
                  color="white" if abs(number) > 0.6 * limit else "black")
    axes.set_xticks(range(T), words, rotation=40, fontsize=12)
    axes.set_yticks(range(T), words, fontsize=12)
    axes.set_title(title, fontsize=14)
picture.suptitle("Attention with a causal mask: query tokens in rows, key tokens in columns\n", fontsize=15)
figure("backward", picture)

# %% [markdown]
# ## 5. The class of the package
#
# `nt.ScaledDotProductAttention` does the same for whole batches: `k.mT` transposes the last two axes. It divides q
# instead of the scores, because q has fewer entries. Its weights can go through dropout (lesson 02), which is off here.
# `score_changes`, `repeat_heads` and `sum_over_groups` serve variants of attention (lesson 16) and do nothing here.

# %% Its source, and the same numbers
Attention = nt.ScaledDotProductAttention
show_source(Attention.forward, Attention.backward, Attention.score, Attention.score_backward, Attention.average,
            Attention.average_backward)
attention = Attention()


def relative_error(a, b):
    """The distance between a and b, divided by the norm of b."""
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


claim("its output is our y", relative_error(attention(q, k, v, mask), y) < 1e-15)
claim("its gradients are our dq, dk and dv",
      [relative_error(theirs, ours) < 1e-15 for theirs, ours in zip(attention.backward(dy), (dq, dk, dv))])

# %% [markdown]
# ## 6. The check
#
# Our example has many zeros, and mistakes can hide behind zeros. So we draw random numbers, compute forward in plain
# loops, and compute every gradient by the complex step of lesson 02.

# %% Plain loops, and the complex step
rng = np.random.default_rng(5)
T, S, d, e = 4, 6, 3, 2                     # queries, keys, width of queries and keys, width of values
q, k, v, dy = (rng.standard_normal(shape) for shape in ((T, d), (S, d), (S, e), (T, e)))
mask = np.tri(T, S, S - T, dtype=bool)
y = attention(q, k, v, mask)
dq, dk, dv = attention.backward(dy)
y_loops = []
for t in range(T):
    seen = [s for s in range(S) if mask[t, s]]
    exponentials = [math.exp(sum(q[t, i] * k[s, i] for i in range(d)) / math.sqrt(d)) for s in seen]
    y_loops.append([sum(a * v[s, i] for a, s in zip(exponentials, seen)) / sum(exponentials) for i in range(e)])
claim("forward agrees with plain loops", relative_error(y, y_loops) < 1e-14)
claim("dq agrees with the complex step", relative_error(
    dq, slopes(lambda q: (dy * attend(q, k, v, mask)[0]).sum(), q)) < 1e-13)
claim("dk agrees with the complex step", relative_error(
    dk, slopes(lambda k: (dy * attend(q, k, v, mask)[0]).sum(), k)) < 1e-13)
claim("dv agrees with the complex step", relative_error(
    dv, slopes(lambda v: (dy * attend(q, k, v, mask)[0]).sum(), v)) < 1e-13)

# %% [markdown]
# To follow one dA through a trained model, run `numpy-transformer explore --lesson 05`. It opens an entry of a head's
# dA in your browser, at the softmax, which calls A, P, dP and dA by its own names x, y, dy and dx. The entry's dP is
# negative, but its dA is positive. Which other entry of its row is the reason?
#
# ## Exercises
#
# 1. The query of "it" becomes (4, 8, 0, 0). What happens to its weights? And if it becomes (0, 0, 0, 0)?
# 2. Two keys of a row have equal dP. Can their dA differ? When is a whole row of dA zero?
# 3. Token 0 sees only itself. Why is the gradient of its query zero, whatever dy is?
# 4. Someone hides scores by adding -10 instead of setting them to -inf. Which claims of section 3 fail?
# 5. Someone writes dv = P dy. For which P is that the same? For which shapes does NumPy raise an error?
#
# With a checker (`numpy-transformer exercise start my-exercises 05`): 05.1, 05.2.
