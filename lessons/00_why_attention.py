# %% [markdown]
# # 00 Why attention
#
# Two translators are given the same long sentence. The first reads it once, closes the book, and writes the whole
# translation from memory. The second keeps the book open and looks at the sentence again before writing each word.
#
# The early neural networks that translated whole sentences worked like the first translator: they packed the sentence
# into a single list of numbers (Sutskever et al. 2014). Attention opened the book (Bahdanau et al. 2015). In 2017 came
# a network that is built around it, the **Transformer** (Vaswani et al., "Attention Is All You Need").
#
# This lesson needs Python, but no calculus and nothing about neural networks. Each line that begins with ✓ is a claim
# that has just been checked. If a claim were false, the lesson would stop there with an error.
#
# ## 1. Tokens and vectors
#
# A **token** is one element of a sequence. In a text it is a word or a piece of a word. A network computes with
# numbers, so each token gets a **vector**, a list of numbers that are called features. Below, "Anna" is (1, 0, 0, 0),
# a person. In a trained network the vectors are longer, and training finds them.

# %% Four tokens, and a vector for each
import numpy as np

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show

lesson.start(__name__)
tokens = ["Anna", "lost", "her", "key"]
#              person  action  thing  pronoun
x = np.array([[1.0,    0.0,    0.0,   0.0],         # Anna
              [0.0,    1.0,    0.0,   0.0],         # lost
              [0.0,    0.0,    0.0,   1.0],         # her
              [0.0,    0.0,    1.0,   0.0]])        # key
show(x=x)
claim("each of the 4 tokens has a vector of 4 features", x.shape == (len(tokens), 4))

# %% [markdown]
# Such a vector describes a token on its own. Who "her" refers to depends on the other tokens. **Attention** brings
# information from one token to another.
#
# ## 2. A library
#
# You go to a library with a question: what is a winter day in the mountains like? Each book has an entry in the
# catalog, and three steps lead to an answer:
#
# 1. Compare the question with each entry. This gives each book a score that says how well it fits.
# 2. Turn the scores into weights, which are positive and sum to 1.
# 3. Take the mean of what the books say, in which each book counts as much as its weight.
#
# Question and entries are vectors with the features winter, mountains and sea. Their **dot product** says how well they
# fit: multiply the two vectors entry by entry, and add up the products. The question (1, 0.5, 0) and the entry of the
# first book, (2, 2, 0), have the dot product 1 · 2 + 0.5 · 2 + 0 · 0 = 3.
#
# The second step takes the exponential exp(score) and divides by the sum of all exponentials. exp(x) is 2.718 to the
# power of x. It is always positive: exp(0) = 1, exp(1) = 2.718, exp(-1) = 1 / 2.718, and the more negative x is, the
# closer exp(x) is to 0. The scores 3, 1 and 0 have the exponentials 20.1, 2.7 and 1.0. Their sum is 23.8, so the first
# weight is 20.1 / 23.8 = 0.84. This is called softmax, and lesson 01 says why it is a good choice.

# %% A question, three catalog entries, three books
#                   winter  mountains  sea
question = np.array([1.0,   0.5,       0.0])
catalog = np.array([[2.0,   2.0,       0.0],        # "Skiing in January"
                    [0.0,   2.0,       0.0],        # "Summer hikes in the Alps"
                    [0.0,   0.0,       2.0]])       # "A week at the beach"
#                  degrees  hours of sunshine
books = np.array([[-5.0,    3.0],
                  [12.0,    8.0],
                  [25.0,    10.0]])
scores = np.array([sum(question * entry) for entry in catalog])                 # three dot products
weights = np.exp(scores) / sum(np.exp(scores))
answer = sum(weight * book for weight, book in zip(weights, books))
show(scores=scores, weights=weights, answer=answer)
claim("the scores are 3, 1 and 0", scores == [3, 1, 0])
claim("the weights are positive and sum to 1", [weights.min() > 0, np.isclose(weights.sum(), 1)])
claim("the answer is close to what the first book says", abs(answer - books[0]) < [4, 2],
      f"{answer[0]:.1f} degrees and {answer[1]:.1f} hours of sunshine")
predict("Another question has the dot product 0 with every entry. Which weight, with two decimals, has each book?",
        0.33, why="exp(0) = 1, so the three exponentials are equal, and each of them is a third of their sum.")

# %% [markdown]
# This is attention. The question is called the **query** q, the catalog entries are the **keys** k, and the contents of
# the books are the **values** v. Attention does not pick one book. It takes a mean of all, with weights that can be
# very unequal. If a score changes a little, the answer changes a little, and training depends on that.
#
# ## 3. A sentence is its own library
#
# In **self-attention** each token asks a question of its own, and looks for the answer in the same sentence. In our
# example a token is cataloged under its own features, and passes on its own features: k = v = x. Its query says what
# it looks for. A verb looks for a person and a thing, a pronoun for a person, and a thing for an action. A person looks
# for nothing here.
#
# A table W has a row of wishes for each feature. The matrix product `x @ W` multiplies each row of W by the token's
# feature of the same number, and adds up these rows. "her" has a 1 in the feature pronoun and 0 elsewhere, so its query
# is the row of the pronouns, (3, 0, 0, 0).
#
# Matrix products do all three steps at once. In `k.T` the rows of k are columns, and entry (t, s) of `q @ k.T` is the
# dot product of query t and key s. With a row of weights for each token in a table P, row t of `P @ v` is the mean of
# all values with the weights of token t. The whole of attention is three lines. (In practice the scores are first
# divided by the square root of the number of features: lesson 05b.)

# %% Each token looks things up in its own sentence
drawing("library")                                              # query, keys and values of another library
#              person action thing pronoun: what is looked for by
W = np.array([[0.0,   0.0,   0.0,  0.0],            # a person
              [3.0,   0.0,   3.0,  0.0],            # an action
              [0.0,   3.0,   0.0,  0.0],            # a thing
              [3.0,   0.0,   0.0,  0.0]])           # a pronoun
q, k, v = x @ W, x, x
predict('Which token does "her" find? (Anna, lost, her or key)', "Anna",
        why="The query of a pronoun is (3, 0, 0, 0). Its dot product with the key of Anna, (1, 0, 0, 0), is 3, and "
            "with all other keys it is 0.")
A = q @ k.T                                                     # scores
P = np.exp(A) / np.exp(A).sum(axis=1, keepdims=True)            # weights
y = P @ v                                                       # outputs
print(" " * 8 + "".join(f"{token:>8}" for token in tokens))
for token, row in zip(tokens, P):
    print(f"  {token:<6}" + "".join(f"{weight:8.2f}" for weight in row))
her = tokens.index("her")
claim("each row of weights sums to 1", np.allclose(P.sum(axis=1), 1))
claim('"her" gives Anna the weight exp(3) / (exp(3) + 3)', np.isclose(P[her, 0], np.exp(3) / (np.exp(3) + 3)),
      f"{P[her, 0]:.2f}")
claim('so the output of "her" has its largest feature at person', y[her].argmax() == 0, f"{y[her].round(2)}")
claim('"lost" divides most of its weight equally between Anna and key',
      [P[1, 0] > 0.45, np.isclose(P[1, 0], P[1, 3])])
claim("loops over the tokens compute the same outputs", np.allclose(y, [
    sum(np.exp(q[t] @ k[s]) * v[s] for s in range(4)) / sum(np.exp(q[t] @ k[s]) for s in range(4)) for t in range(4)]))
attention = nt.ScaledDotProductAttention()                      # divides the scores by 2, the square root of 4
claim("the package's attention computes the same, if the queries are doubled beforehand",
      np.allclose(attention(2 * q, k, v), y))

# %% [markdown]
# So the output of "her" says that it stands for a person.
#
# A Transformer computes keys and values with such tables too. The numbers in them are **parameters**, often called
# weights too: they start as random numbers, and training changes them until the tokens ask useful questions.
#
# A model that writes text must not read tokens that come later, because it has not written them yet. A **mask** sets
# their scores to minus infinity, and the exponential of that is exactly 0.

# %% The same with a mask: each token sees itself and those before it
later = np.triu(np.ones((4, 4), bool), 1)                       # True above the diagonal: token s is later than t
A = np.where(later, -np.inf, q @ k.T)
P = np.exp(A) / np.exp(A).sum(axis=1, keepdims=True)
predict("What weight does Anna, the first token, now give itself?", 1,
        why="All other tokens come later, so their weights are 0, and the weights sum to 1.")
show(P=P)
claim("later tokens have weight exactly 0, and the rows still sum to 1",
      [(P[later] == 0).all(), np.allclose(P.sum(axis=1), 1)])
claim("the package's mask hides the same tokens", np.allclose(attention(2 * q, k, v, nt.causal_mask(4)), P @ v))

# %% [markdown]
# ## 4. The Transformer of 2017
#
# You need not understand this list and its drawings yet. The list is a map of the course: each of its words comes back
# in the lesson that is named beside it.
#
# The Transformer translates. Its **encoder** reads the source sentence, and its **decoder** writes the translation, one
# token at a time. Both are stacks of N equal blocks:
#
# * An **embedding** table turns each token into a vector of D numbers (lesson 03), to which a **positional encoding**
#   is added, because attention alone does not notice the order of the tokens (lesson 04).
# * Each block has **self-attention** (lesson 05), masked in the decoder (lesson 06).
# * Each decoder block has **cross-attention**: the queries come from the translation, the keys and values from the
#   encoder. This is the open book of the second translator.
# * Each block has a **feed-forward** layer, which processes each token on its own (lesson 09).
# * The input of each of these parts is added to its output (lesson 10), and **normalization** keeps the features at a
#   common scale (lesson 08).
# * The output layer gives each possible next token a score, and softmax makes probabilities of them (lesson 01).

# %% The parts, as a drawing and from a model
drawing("encoder_and_decoder")
# The same, drawn from the parts of a tiny model. The numbers in it count parameters.
figure("architecture", views.architecture(nt.transformer_2017(11, N=2, d_model=16, d_ff=32, h=2)))

# %% [markdown]
# ## What this course does
#
# You first learn how a network is trained (00b to 02b). Then you build the parts (02c to 10), put them together into
# models that classify, write, translate and answer (11 to 15b), and see what has changed since (16 to 21).
#
# ## Exercises
#
# 1. Change the question of the library to (0, 0, 1). Compute the three weights by hand, then with the code. (The key
#    `i` of --step opens Python with the variables of the lesson.)
# 2. What happens to the weights if a question is multiplied by 10, and what if it is divided by 10?
# 3. "her key lost Anna" has the same four tokens. Which output does "her" receive without a mask? Which part of a
#    Transformer tells the two sentences apart?
# 4. How many dot products does self-attention need for T tokens, and how many times as many for 50 T tokens?
