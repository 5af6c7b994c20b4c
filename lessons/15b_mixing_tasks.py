# %% [markdown]
# # 15b Mixing tasks
#
# In lesson 15, one model learned four tasks from batches that contained all of them. That is a choice. How much does
# each task count in a mixed batch? How often should each one be drawn if one has a million examples and another a
# thousand? What happens if the tasks are trained one after the other? And how do you measure whether an answer is
# right?
#
# In this lesson you derive the weight of a task in the gradient, compute shares with a temperature, watch a model
# forget, measure whether two tasks pull its weights in the same direction, and relate exact match to the share of right
# tokens.

# %% Four tasks on words of eight different letters
import itertools

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict

lesson.start(__name__)
drawing("accumulation")
rng = np.random.default_rng(15)
PAD, BOS, EOS = 0, 1, 2
LETTERS = "abcdefgh"
TASKS = {"copy": lambda word: word,
         "reverse": lambda word: word[::-1],
         "sort": lambda word: "".join(sorted(word)),
         "first": lambda word: word[0]}
tokens = ["[PAD]", "[BOS]", "[EOS]", *(f"{name}: " for name in TASKS), *LETTERS]
V = len(tokens)
criterion = nt.CrossEntropyLoss(ignore_id=PAD)


def pad(rows):
    rows = [[BOS, *map(tokens.index, row), EOS] for row in rows]
    return np.array([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows])


def batch(words, names):
    """Returns each word under each of these tasks: ((source, what the decoder reads), what it has to predict)."""
    source = pad([[f"{name}: ", *word] for word in words for name in names])
    target = pad([TASKS[name](word) for word in words for name in names])
    return (source, target[:, :-1]), target[:, 1:]


def gradient(model, words, names):
    """Returns the gradients of all parameters in one vector, and the number of tokens that the loss has counted."""
    inputs, targets = batch(words, names)
    model.zero_grad()
    criterion(model(*inputs), targets)
    model.backward(criterion.backward())
    return np.concatenate([parameter.grad.ravel() for parameter in model.parameters()]), criterion.count


def distance(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


words = ["".join(word) for n in (3, 4, 5) for word in itertools.product(LETTERS, repeat=n)]
words = [words[i] for i in rng.permutation(len(words))]
test_words, training_words = words[:200], words[200:12000]

# %% [markdown]
# ## 1. The weight of a task
#
# Let task m have n_m target tokens in the batch, let n be the sum of all n_m, and let L_m be the mean loss over the
# tokens of task m. The loss is the mean over all n tokens, so
#
#     L      = sum over m of (n_m / n) L_m
#     grad L = sum over m of (n_m / n) grad L_m
#
# The gradient of a mixed batch is the **token-weighted mean** of the tasks' gradients. So a task counts more if it has
# more examples in the batch, and also if its answers are longer. The tokens of the sources do not count, and neither
# does PAD. The drawing shows the same law for a batch that is cut into parts: each part contributes by its size.
#
# If the tasks take turns instead, one task per batch, then each step uses the mean over one task's own tokens, and all
# tasks count equally, however long their answers are.

# %% The gradient of a mixed batch
predict("A batch holds 8 words of five letters, each under \"first: \" and under \"reverse: \". "
        "What is the weight of \"first\"?", 0.25,
        why="With EOS, an answer of \"first\" has 2 tokens and one of \"reverse\" has 6. So \"first\" has 16 of the "
            "64 target tokens.")
model = nt.make_model(V, V, N=1, d_model=12, d_ff=16, h=2, dropout=0.0, max_len=12, tie_weights=True, rng=15)
model.astype(np.float64)
eight = [word for word in training_words if len(word) == 5][:8]
mixed, N = gradient(model, eight, ["first", "reverse"])
of_first, n_first = gradient(model, eight, ["first"])
of_reverse, n_reverse = gradient(model, eight, ["reverse"])
claim("\"first\" has 16 of the 64 target tokens", (n_first, n_reverse, N) == (16, 48, 64))
claim("the gradient of the batch is the token-weighted mean",
      distance(mixed, n_first / N * of_first + n_reverse / N * of_reverse) < 1e-12)
claim("it is not the plain mean, which alternating batches have",
      distance(mixed, (of_first + of_reverse) / 2) > 0.05, f"{distance(mixed, (of_first + of_reverse) / 2):.0%} away")
tripled, _ = gradient(model, eight, ["first", "first", "first", "reverse"])
claim("with three times as many examples, \"first\" has a weight of one half",
      distance(tripled, (of_first + of_reverse) / 2) < 1e-12)

# %% [markdown]
# ## 2. How often to draw each task
#
# Let task m have e_m examples. T5 compares three rules (Raffel et al. 2020, section 3.5.2):
#
# * **Proportional**: r_m = e_m / (sum of all e). A large task crowds out the small ones, which a limit K prevents:
#   min(e_m, K) takes the place of e_m.
# * **Equal**: all r_m are the same. The examples of a small task are then repeated so often that the model memorizes
#   them.
# * **Temperature** τ, in between: r_m^(1/τ), divided by their sum. τ = 1 is proportional, and a large τ gives nearly
#   equal shares.
#
# The temperature works as in lesson 12: the ratio of two shares is raised to the power 1 / τ, which is the same as
# softmax(log(e) / τ).

# %% The shares, computed
def shares(sizes, temperature=1.0, limit=np.inf):
    r = np.minimum(sizes, limit) ** (1 / temperature)
    return r / r.sum()


predict("Two tasks have 1,000,000 and 10,000 examples, and τ = 2. How many times as often is the large task drawn?", 10,
        why="The sizes are in the ratio 100 to 1. With τ = 2, the ratio is raised to the power 1/2, and sqrt(100) is "
            "10.")
claim("at τ = 2, the ratio of two shares is the square root of the ratio of the sizes",
      np.isclose(np.divide(*shares(np.array([1e6, 1e4]), 2)), 10, rtol=1e-12))
sizes = np.array([1_000_000, 50_000, 1_000.0])
claim("τ = 2 is softmax(log(e) / 2)", np.allclose(shares(sizes, 2), nt.Softmax().eval()(np.log(sizes) / 2), rtol=1e-13))
claim("a limit as small as the smallest task, or a very high τ, gives equal shares",
      [np.allclose(shares(sizes, limit=1_000), 1 / 3), np.allclose(shares(sizes, 1e9), 1 / 3)])
temperatures = np.geomspace(1, 30, 60)
curves = np.array([shares(sizes, temperature) for temperature in temperatures])
picture = Figure(figsize=(11, 4.4), layout="constrained")
left, right = picture.subplots(1, 2)
for axes, lines in ((left, curves), (right, 1_000_000 * curves / sizes)):
    for size, line, style in zip(sizes, lines.T, ("C0-", "C1--", "C2-.")):
        axes.plot(temperatures, line, style, linewidth=2, label=f"task with {size:,.0f} examples")
    axes.set(xscale="log", xlabel="temperature τ")
    axes.set_xticks([1, 2, 5, 10, 20], [1, 2, 5, 10, 20])
    axes.minorticks_off()
left.set(ylim=(0, 1), ylabel="share", title="Share of each task in the mixture")
left.legend()
right.set(yscale="log", ylabel="times", title="How often one example is seen in a million draws")
figure("mixing", picture)

# %% [markdown]
# ## 3. One after the other: forgetting
#
# Now we train the model of lesson 15 on "copy: " alone, and then on "reverse: " alone. The prefixes differ, so the
# model could keep both answers apart. But while it learns to reverse, no example tells it what "copy: " means, and the
# weights that copied are shared. We train three models for the same number of steps: one task after the other, the two
# tasks in turns, and both tasks in each batch.
#
# The measure is **exact match**: the share of answers that are right from the first token to the last.

# %% Three orders of the same two tasks
STEPS, BOTH = 600, ["copy", "reverse"]
held_out = {name: batch(test_words, [name]) for name in BOTH}


def right_tokens(model, name):
    inputs, targets = held_out[name]
    right = (model.eval()(*inputs).argmax(-1) == targets) | (targets == PAD)
    model.train()
    return right


def train(names_at, steps=STEPS):
    """Trains with the tasks names_at(step), and returns the model and its exact match of each task every 40 steps."""
    model = nt.make_model(V, V, N=1, d_model=48, d_ff=96, h=4, dropout=0.0, max_len=12, tie_weights=True, rng=15)
    optimizer = nt.Adam(model.parameters(), betas=(0.9, 0.98))
    measured, shares_of_tokens = {}, []
    for step in range(1, steps + 1):
        rng, names = np.random.default_rng([15, step]), names_at(step)
        chosen = [training_words[i] for i in rng.integers(len(training_words), size=64 // len(names))]
        optimizer.lr = 4e-3 * min(step / 60, 1, 3 * (1 - (step - 1) / STEPS))         # down in the last third
        gradient(model, chosen, names)
        optimizer.step()
        if step % 40 == 0:
            measured[step] = [right_tokens(model, name).all(1).mean() for name in BOTH]
            five = right_tokens(model, "copy")[[len(word) == 5 for word in test_words]]
            shares_of_tokens.append((five.mean(), five.all(1).mean()))      # answers of six tokens, EOS included
    return model, measured, shares_of_tokens


predict("Which task is forgotten if \"copy: \" is trained first and \"reverse: \" second?", "copy",
        why="In the second half nothing keeps the shared weights as copying needs them.")
runs = {"one after the other": train(lambda step: BOTH[:1] if step <= STEPS // 2 else BOTH[1:]),
        "in turns": train(lambda step: [BOTH[step % 2]]),
        "mixed batches": train(lambda step: BOTH)}
for name, (_, measured, _) in runs.items():
    print(f"  {name:19}  " + ",  ".join(f"{task} {share:.0%}" for task, share in zip(BOTH, measured[STEPS])))
after_first, after_both = (runs["one after the other"][1][step] for step in (280, STEPS))
claim("the first task is learned, and forgotten when the second is", after_first[0] > 0.8 and after_both[0] < 0.3)
claim("the second task is learned", after_both[1] > 0.8)
claim("in turns and in mixed batches, both are learned",
      [min(runs[name][1][STEPS]) > 0.8 for name in ("in turns", "mixed batches")])
picture = Figure(figsize=(13, 4), layout="constrained")
for axes, (name, (_, measured, _)) in zip(picture.subplots(1, 3, sharey=True), runs.items()):
    for task, line, style in zip(BOTH, zip(*measured.values()), ("C0o-", "C1s--")):
        axes.plot(list(measured), line, style, label=task)
    axes.set(title=name, xlabel="training step", ylim=(-0.03, 1.03))
picture.axes[0].set_ylabel("exact match (held-out words)")
picture.axes[0].legend()
figure("forgetting", picture)

# %% [markdown]
# ## 4. Interference
#
# Why does the first task suffer? A step of plain gradient descent for task 2 moves the weights by -lr g_2, and the loss
# of task 1 then changes, to first order, by -lr g_1 · g_2. So the cosine of the two gradients tells what a small step
# for one task does to the other. Where it is positive, both get better.
#
# After task 1 has been learned, g_1 is almost 0, and with it the first-order change. But the weights now lie at the
# bottom of a valley of L_1, and any step that leads out of it raises L_1. Then the tasks **interfere**. In the next
# cell, one step of length 0.3 is made in the direction of -g_2, before training and after learning to copy.

# %% What a step for one task does to the other
def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


eta = 1e-6
inputs, targets = batch(eight, ["first"])
before = criterion(model(*inputs), targets)
gradient(model, eight, ["reverse"])
for parameter in model.parameters():
    parameter.data = parameter.data - eta * parameter.grad
change = criterion(model(*inputs), targets) - before
claim("a small step for \"reverse: \" changes the loss of \"first: \" by -η g_1 · g_2",
      np.isclose(change, -eta * of_first @ of_reverse, rtol=1e-3))
cosines, copy_loss, sample = {}, {}, training_words[:200]
inputs, targets = batch(sample, ["copy"])
for name, steps in (("before training", 0), ("after learning to copy", 200)):
    state, _, _ = train(lambda step: BOTH[:1], steps)
    g_copy, g_reverse = (gradient(state, sample, [task])[0] for task in BOTH)       # the last one stays in .grad
    cosines[name] = cosine(g_copy, g_reverse)
    before = criterion(state(*inputs), targets)
    for parameter in state.parameters():
        parameter.data = parameter.data - 0.3 / np.linalg.norm(g_reverse) * parameter.grad
    copy_loss[name] = before, criterion(state(*inputs), targets)
    print("  {}: the loss of \"copy: \" goes from {:.2f} to {:.2f}".format(name, *copy_loss[name]))
claim("before training the two gradients agree, since both answers consist of letters",
      cosines["before training"] > 0.5, f"cosine {cosines['before training']:.2f}")
claim("and the step for \"reverse: \" improves \"copy: \"", np.diff(copy_loss["before training"]) < 0)
claim("after learning to copy, the same step makes \"copy: \" worse",
      np.diff(copy_loss["after learning to copy"]) > 0.1)

# %% [markdown]
# In a mixed batch, both gradients are part of each step, so the model finds weights with which the prefix decides. That
# no task is forgotten does not mean that mixing is always best: a small model may not have room for all tasks, and then
# each task is learned worse than alone.
#
# ## 5. What exact match measures
#
# Exact match is strict. If each token is right with probability p, independently of the others, then an answer of n
# tokens is right with probability p^n. Errors need not be independent. If several occur together in the same answer,
# more answers are right than p^n, and if they are spread out, fewer are. Whatever the dependence,
#
#     1 - n (1 - p) <= exact match <= p
#
# because a wrong answer has at least one wrong token, and at most n of them. We check this for the answers of six
# tokens (five letters and EOS) under "copy: ", at each measurement of section 3.

# %% Right tokens and right answers
predict("Each token is right with probability 0.99, independently of the others. "
        "What share of the answers of 12 tokens is right?", 0.886,
        why="An answer is right only if all 12 tokens are, and 0.99 to the power 12 is 0.886.")
independent = (rng.random((100_000, 12)) < 0.99).all(1).mean()
claim("counted for independent errors", abs(independent - 0.99 ** 12) < 0.005, f"{independent:.3f}")
points = [point for _, _, shares_of_tokens in runs.values() for point in shares_of_tokens]
claim("1 - 6 (1 - p) <= exact match <= p at every measurement of three runs",
      [1 - 6 * (1 - p) - 1e-9 <= share <= p for p, share in points], f"{len(points)} measurements")
axes = (picture := Figure(figsize=(6.4, 4.4), layout="constrained")).subplots()
grid = np.linspace(0, 1, 100)
axes.plot(grid, grid ** 6, "0.3", linestyle="--", label="independent errors: p⁶")
axes.fill_between(grid, np.maximum(0, 1 - 6 * (1 - grid)), grid, color="C0", alpha=0.15, label="possible")
axes.plot(*zip(*points), "C3o", label="measured")
axes.set(xlabel="share p of right tokens", ylabel="exact match", title="Answers of six tokens")
axes.legend(loc="upper left")
figure("exact_match", picture)

# %% [markdown]
# Exact match suits tasks with one right answer. A translation can be right in many ways, and a summary even more so. T5
# therefore uses other metrics for these tasks, as lesson 15 says.
#
# ## Exercises
#
# 1. Each batch contains one task only, and the four tasks take turns. Which weights do the tasks then have over four
#    steps? Which weights do they have in mixed batches of words of five letters?
# 2. Suppose "first: " is drawn nine times as often as each of the other three tasks. What is its weight in the gradient
#    for words of four letters?
# 3. Task A has 900 examples and task B has 100. Which shares do they have with the limit K = 300, and which with τ = 2?
# 4. An answer has two tokens, and each is right with probability 0.9. Describe errors with which exact match is 0.9,
#    and errors with which it is 0.8.
# 5. How could the second half of the first run be changed so that "copy: " is not forgotten, although almost all of the
#    examples are of "reverse: "?
#
# With a checker (`numpy-transformer exercise start my-exercises 15`): 15.2, 15.3, 15.4.
