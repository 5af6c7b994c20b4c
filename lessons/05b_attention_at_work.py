# %% [markdown]
# # 05b Attention at work
#
# In lesson 05 we chose the queries and keys by hand, and did not say why we divide the scores by sqrt(d). This lesson
# has two experiments. The first shows what goes wrong without the division. The second trains a small model on
# sentences in which the last word depends on an earlier one, and looks inside: does attention find the earlier word by
# itself? By the end you will be able to explain the division, to read the weights of a trained model, and to test
# whether the model needs what it attends to.

# %% Imports, and the two functions of lesson 05 that we need
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict

lesson.start(__name__)
rng = np.random.default_rng(5)


def softmax(A):
    exponentials = np.exp(A - A.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def softmax_backward(P, dP):
    return P * (dP - (P * dP).sum(-1, keepdims=True))


# %% [markdown]
# ## 1. Why sqrt(d)?
#
# Suppose that the entries of a query and of a key are independent random numbers with mean 0 and variance 1. This is a
# simple picture of the start of training. Their dot product is a sum of d products. Each product has mean 0 and
# variance 1, and the variances of independent numbers add up. So the dot product has mean 0 and variance d (Vaswani et
# al. 2017, section 3.2.1, footnote 4). Its typical size is the square root of the variance, sqrt(d), which is 23 for
# d = 512.
#
# The authors suspect that such large scores push softmax to where its gradient is extremely small. We can see why from
# its backward, dA = P (dP - weighted mean of dP). If one key has nearly all of the weight, the weighted mean is nearly
# the dP of this key, so its dA is nearly 0. All other keys have P near 0, so their dA is nearly 0 too. Nothing tells
# the model that it should look elsewhere.
#
# Dividing by sqrt(d) makes the variance 1 for every d. In the drawing of attention, the division stands in the box
# before the scores A. The cell below measures both ways, for 400 queries with 16 keys each. Its last column says how
# much of the gradient passes through softmax: the norm of a row of dA divided by the norm of the same row of dP, as the
# median over all queries.

# %% 400 queries with 16 keys each, for growing d
drawing("attention")
WIDTHS = (2, 8, 32, 128, 512)
predict("d = 64, and the scores are divided by sqrt(d): what is their variance?", 1,
        why="The dot products have variance 64. Dividing a number by 8 divides its variance by 8 · 8 = 64.")
rows = {"divided": [], "not divided": []}
print(" " * 22 + "variance  largest weight  gradient")
for d in WIDTHS:
    q, k = rng.standard_normal((400, 1, d)), rng.standard_normal((400, 16, d))
    dP = rng.standard_normal((400, 16))
    dots = (q * k).sum(-1)
    for name, A in (("divided", dots / math.sqrt(d)), ("not divided", dots)):
        P = softmax(A)
        passed = np.linalg.norm(softmax_backward(P, dP), axis=-1) / np.linalg.norm(dP, axis=-1)
        rows[name].append((A.var(), P.max(-1).mean(), np.median(passed)))
        print("  d = {:<3}  {:<11}  {:8.2f}  {:14.2f}  {:8.1g}".format(d, name, *rows[name][-1]))
divided, undivided = np.array(rows["divided"]).T, np.array(rows["not divided"]).T
claim("without the division, the variance of the scores is d", np.allclose(undivided[0] / WIDTHS, 1, atol=0.15))
claim("with it, the variance is 1", np.allclose(divided[0], 1, atol=0.15))
claim("with it, the largest of 16 weights is nearly the same for all d", np.ptp(divided[1]) < 0.08)
claim("without it, at d = 512, one key takes over 90% of the weight", undivided[1, -1] > 0.9 > 0.3 > divided[1, -1])
claim("without it, at d = 512, softmax passes less than 1/100 of the gradient that it passes with it",
      undivided[2, -1] < divided[2, -1] / 100)
picture = Figure(figsize=(12, 4), layout="constrained")
titles = ("variance of the scores", "largest of 16 weights", "fraction of the gradient\npassing through softmax")
for axes, row, title in zip(picture.subplots(1, 3), range(3), titles):
    axes.plot(WIDTHS, undivided[row], "C1s--", label="not divided")
    axes.plot(WIDTHS, divided[row], "C0o-", label="divided by sqrt(d)")
    axes.set_xscale("log", base=2)
    axes.set(xticks=WIDTHS, xticklabels=WIDTHS, xlabel="width d of queries and keys", ylabel=title,
             yscale="linear" if row == 1 else "log")
picture.axes[0].legend()
figure("scaling", picture)

# %% [markdown]
# ## 2. A task that needs attention
#
# Each sentence has an animal and a thing, in either order, and ends with the sound of the animal:
#
#     the dog slept near the ball and it barked
#     near the ball slept the dog and it barked
#
# The model reads all words but the last and must predict the sound at the word "it". The word "it" is the same in every
# sentence, so the token "it" cannot know the answer by itself. It has to get the animal from an earlier position, and
# the position does not tell which word is the animal, because a thing can be there instead.
#
# The model is a `CausalLanguageModel`: embeddings and positions, a block with attention, and an output layer (lesson 12
# puts it together). Its attention has two heads. A head is one attention as in lesson 05, with matrices of its own that
# compute q, k and v (lesson 07). In the only block, every head reads the embedding of each word with its position. So
# the animal is known only at its own position, and a head has to look there, with the exception of one animal at most.
# The loss counts only the last word: all other targets are 0, the token that the loss ignores.

# %% The sentences and the training, with three seeds
SOUNDS = {"cat": "meowed", "dog": "barked", "cow": "mooed", "bird": "sang", "frog": "croaked", "lion": "roared"}
ANIMALS = list(SOUNDS)
THINGS = ["bread", "ball", "stone", "house", "tree", "door"]
VERBS = ["sat", "stood", "stopped", "slept"]
words = ["<ignored>", "the", "near", "and", "it", *ANIMALS, *SOUNDS.values(), *THINGS, *VERBS]


def ids_of(text):
    return [words.index(word) for word in text.split()]


def draw_sentences(rng, count):
    """Returns the ids of sentences (count, 9), and an array (count, 8) that is True at the animals."""
    texts = []
    for _ in range(count):
        animal, thing, verb = (rng.choice(kind) for kind in (ANIMALS, THINGS, VERBS))
        start = f"the {animal} {verb} near the {thing}"
        if rng.integers(2):
            start = f"near the {thing} {verb} the {animal}"
        texts.append(ids_of(f"{start} and it {SOUNDS[animal]}"))
    ids = np.array(texts)
    return ids, np.isin(ids[:, :-1], ids_of(" ".join(ANIMALS)))


def train(seed, steps=300):
    """Returns a trained model, and the mean weight that "it" gives to the animal at each step in each head."""
    rng = np.random.default_rng(seed)
    model = nt.CausalLanguageModel(len(words), d_model=16, num_heads=2, num_layers=1, d_ff=32, max_len=8,
                                   init="xavier", rng=rng)
    optimizer = nt.Adam(model.parameters(), 0.01)
    criterion = nt.CrossEntropyLoss(ignore_id=0)
    on_animal = []
    for _ in range(steps):
        ids, is_animal = draw_sentences(rng, 32)
        targets = np.zeros((32, 8), int)
        targets[:, -1] = ids[:, -1]
        model.zero_grad()
        criterion(model(ids[:, :-1]), targets)
        model.backward(criterion.backward())
        optimizer.step()
        on_animal.append(weights_of_it(model)[is_animal].mean(0))
    return model.eval(), np.array(on_animal)


def weights_of_it(model):
    """Returns the weights (B, 8, heads) that the last token "it" gave to each token in the latest forward."""
    return model.decoder.blocks[0].attention.weights[:, :, -1].swapaxes(1, 2)


models, curves = zip(*(train(seed) for seed in (1, 2, 3)))

# %% [markdown]
# We never told the model that "it" refers to the animal. Does it look there? We average the weights of "it" over 600
# new sentences. With equal weights, each of the 8 tokens would get 1/8. A head that has learned to find the animal
# gives it much more, in both orders of the sentence. The lines for single animals show that the two heads may share
# the work: an animal that one head ignores can be found by the other.

# %% The head in which "it" finds the animal
predict('a head looks for the animal; does it give the thing about as much weight?', "no",
        why="The thing is a noun, too, and it stands in the same places, but it says nothing about the sound.")
ids, is_animal = draw_sentences(rng, 600)
inputs, sounds = ids[:, :-1], ids[:, -1]
is_thing = np.isin(inputs, ids_of(" ".join(THINGS)))
heads = []                                  # of each model: the head with the largest weight on the animal
for model, seed in zip(models, (1, 2, 3)):
    accuracy = (model(inputs)[:, -1].argmax(-1) == sounds).mean()
    weights = weights_of_it(model)
    animal, thing = weights[is_animal].mean(0), weights[is_thing].mean(0)
    heads.append(animal.argmax())
    print(f"  seed {seed}: {accuracy:.0%} right; weights of the two heads on the animal {np.round(animal, 2)}, on the "
          f"thing {np.round(thing, 2)}")
    for name in ANIMALS:
        found = is_animal & (inputs == words.index(name))
        print(f"    {name:<5}", "  ".join(f"{100 * weight:3.0f}%" for weight in weights[found].mean(0)))
    claim(f"seed {seed}: the model predicts the sound", accuracy > 0.95)
    claim(f"seed {seed}: in one head, the animal has over twice the equal weight and over twice that of the thing",
          animal.max() > 2 / 8 and animal.max() > 2 * thing[heads[-1]])

# %% The weights of two sentences, and how they came about
picture = Figure(figsize=(14, 4.6), layout="constrained")
left, right = picture.subplots(1, 2, width_ratios=(1.5, 1))
sentences = ["the dog slept near the ball and it", "near the ball slept the dog and it"]
models[0](np.array([ids_of(text) for text in sentences]))
for row, (text, weights) in enumerate(zip(sentences, weights_of_it(models[0])[:, :, heads[0]])):
    left.imshow(weights[None], "Blues", vmin=0, vmax=1.2, extent=(-0.5, 7.5, row + 0.35, row - 0.35))
    for s, (word, weight) in enumerate(zip(text.split(), weights)):
        left.text(s, row, f"{word}\n{100 * weight:.0f}%", ha="center", va="center", fontsize=13,
                  color="white" if weight > 0.7 else "black")
left.set(xlim=(-0.5, 7.5), ylim=(1.5, -0.5), xticks=[], yticks=[], aspect="auto",
         title='weights of the last word, "it", after training (seed 1)')
for curve, head, seed in zip(curves, heads, (1, 2, 3)):
    right.plot(np.arange(5, 300, 10), curve[:, head].reshape(30, 10).mean(1), label=f"seed {seed}")
right.axhline(1 / 8, color="0.4", linestyle=":", label="equal weights")
right.set(xlabel="training step", ylabel='weight of "it" on the animal', ylim=(0, 1),
          title="the same head in training, for each seed")
right.legend(loc="lower right", bbox_to_anchor=(1, 0.15))
figure("trained_head", picture)

# %% [markdown]
# ## 3. Does the model need what it attends to?
#
# A large weight shows where a head looks. It does not prove that the model uses what it finds there. So we intervene:
# we hide the animal, so that no token can attend to it, and see what becomes of the answer.
#
# The last test goes back to lesson 05. A bias of the keys adds the same number to all scores of a row, so its gradient
# is zero, whatever the loss is. This must hold in a trained model, too.

# %% Hiding the animal; the bias of the keys
one_frame = np.array([ids_of(f"the {animal} slept near the ball and it") for animal in ANIMALS])
visible = ~np.isin(one_frame, ids_of(" ".join(ANIMALS)))           # True = may be attended to
predict("the six animals cannot be seen: how many different sounds does the model predict for the six sentences?", 1,
        why='What the token "it" can see is now the same in all six sentences.')
for model, seed in zip(models, (1, 2, 3)):
    seen, hidden = model(one_frame)[:, -1], model(one_frame, visible)[:, -1]
    claim(f"seed {seed}: six animals, six sounds", [words[i] for i in seen.argmax(-1)] == list(SOUNDS.values()))
    claim(f"seed {seed}: without seeing the animal, one answer for all six", np.ptp(hidden, axis=0).max() < 1e-4)
    attention = model.train().decoder.blocks[0].attention
    criterion = nt.CrossEntropyLoss()
    model.zero_grad()
    criterion(model(inputs), np.repeat(sounds[:, None], 8, 1))      # another loss: every position predicts the sound
    model.backward(criterion.backward())
    claim(f"seed {seed}: the key bias has gradient zero up to rounding, the query bias has not",
          np.linalg.norm(attention.key.bias.grad) < 1e-4 * np.linalg.norm(attention.query.bias.grad))

# %% [markdown]
# ## Exercises
#
# 1. What would the weights look like for large d if the scores were divided by d instead of sqrt(d)?
# 2. In training, queries and keys need not keep the variance 1. How can a model with the division by sqrt(d) still give
#    one key nearly all of the weight?
# 3. A head has weight 0.9 on the token "the". Why does this not show that the model uses "the"? Which experiment would?
# 4. With two blocks instead of one, "it" may give the animal hardly any weight in the second block and still be right.
#    How?
# 5. Suppose that an animal gets hardly any weight in either head, and its sound is predicted all the same. How can a
#    model do that for one of the six animals, but not for two?
#
# With a checker (`numpy-transformer exercise start my-exercises 05.3`): 05.3.
