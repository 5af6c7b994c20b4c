# %% [markdown]
# # 02b From gradient descent to Adam
#
# Backward says in which direction each parameter should move. An **optimizer** decides how far. Plain gradient descent
# has been enough so far, but from the next lessons on, small models are trained by **Adam** (Kingma and Ba 2015). This
# lesson leads from one to the other in two steps: momentum, which remembers earlier gradients, and Adam, which gives
# each parameter a step size of its own. Each of them is a loop of a few lines, and you will compare it with the
# package's `nt.SGD` and `nt.Adam`. At the end stands the training loop that all further lessons use.
#
# Our first loss has only two parameters, so that its valley can be drawn:
#
#     L(w) = (w_0² + 25 w_1²) / 2          dw = (w_0, 25 w_1)
#
# The valley is 25 times as steep across, along w_1, as it is along its floor, w_0. Its minimum is at (0, 0).

# %% A narrow valley, and gradient descent
import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source

lesson.start(__name__)
STEEPNESS = np.array([1.0, 25.0])
START = np.array([-8.0, 1.6])


def valley(w, t):
    """The gradient of L at w. (It is the same in every step t.)"""
    return STEEPNESS * w


def gradient_descent(gradient, w, lr, steps):
    """The parameters before the first step and after each step."""
    path = [w]
    for t in range(1, steps + 1):
        dw = gradient(w, t)
        w = w - lr * dw
        path.append(w)
    return np.array(path)


def by_package(optimizer, gradient, w, steps, **options):
    """The same path, taken by an optimizer of the package."""
    parameter = nt.Parameter(w)
    optimizer = optimizer([parameter], **options)
    path = [w]
    for t in range(1, steps + 1):
        parameter.grad = gradient(parameter.data, t)
        optimizer.step()
        path.append(parameter.data.copy())
    return np.array(path)


small = gradient_descent(valley, START, 0.02, 40)
show(first_steps=small[:4])
claim("nt.SGD takes the same path", np.array_equal(small, by_package(nt.SGD, valley, START, 40, lr=0.02)))

# %% [markdown]
# ## 1. How large should the learning rate be?
#
# Start at (-8, 1.6) with lr = 0.02. The gradient is (-8, 40), so the first step leads to (-8 + 0.16, 1.6 - 0.8) =
# (-7.84, 0.8). The next one leads to (-7.68, 0.4). Across the valley the distance is halved in each step. Along the
# valley it shrinks by only 2 percent, so after 40 steps nearly half of it is left.
#
# Why? In a direction with steepness λ the gradient is λ w, so each step multiplies w by a fixed factor:
#
#     w - lr λ w = (1 - lr λ) w
#
# A larger lr helps along the valley, where λ = 1. Across it, where λ = 25, the factor becomes negative at lr = 0.04,
# and w_1 jumps from one side to the other. Above lr = 2 / 25 = 0.08 the factor is below -1, and w_1 grows without
# limit. **The steepest direction limits the learning rate, and the flattest direction then needs many steps.**

# %% Too small, good, too large
predict("lr = 0.1. By which factor is w_1 multiplied in each step?", -1.5, why="1 - lr λ = 1 - 0.1 · 25 = -1.5.")
good = gradient_descent(valley, START, 2 / 26, 40)
too_large = gradient_descent(valley, START, 0.1, 40)
for name, path in (("lr = 0.02 ", small), ("lr = 2/26 ", good), ("lr = 0.1  ", too_large)):
    print(f"  {name}  after 40 steps w is ({path[-1, 0]:9.3g}, {path[-1, 1]:9.3g})")
claim("with lr = 0.02, w_0 shrinks by 2% in each step", np.allclose(small[1:, 0] / small[:-1, 0], 0.98))
claim("with lr = 2/26, both directions shrink by the factor 24/26", np.allclose(abs(good[1:] / good[:-1]), 24 / 26))
claim("with lr = 0.1, w_1 grows to more than a million times its start", abs(too_large[-1, 1]) > 1e6 * START[1])

# %% [markdown]
# ## 2. Momentum
#
# Across the valley the gradients change their sign from step to step. Along the valley they always point the same way.
# **Momentum** (Polyak 1964) uses this. It keeps a velocity, which starts at 0, and moves along the velocity:
#
#     velocity = μ velocity + dw
#     w = w - lr velocity
#
# Written out, the velocity is dw_t + μ dw_(t-1) + μ² dw_(t-2) + ..., a **sum** of all gradients in which older ones
# count less. It is not a mean: with the same gradient in every step, it grows to 1 + μ + μ² + ... = 1 / (1 - μ) times
# this gradient. So gradients that agree make the steps longer, and gradients of opposite sign cancel.

# %% The velocity
def momentum(gradient, w, lr, mu, steps):
    velocity = np.zeros(w.shape)
    path = [w]
    for t in range(1, steps + 1):
        dw = gradient(w, t)
        velocity = mu * velocity + dw
        w = w - lr * velocity
        path.append(w)
    return np.array(path)


predict("μ = 0.9, and the gradient is 1 in every step. Which value does the velocity approach?", 10,
        why="1 + 0.9 + 0.81 + ... = 1 / (1 - 0.9).")
with_momentum = momentum(valley, START, 0.02, 0.8, 40)
claim("nt.SGD with momentum takes the same path",
      np.array_equal(with_momentum, by_package(nt.SGD, valley, START, 40, lr=0.02, momentum=0.8)))
steps = -np.diff(momentum(lambda w, t: np.ones(1), np.zeros(1), 1.0, 0.9, 200)[:, 0])
claim("under a constant gradient the step grows from 1 lr to 10 lr", np.allclose([steps[0], steps[-1]], [1, 10]))
claim("in the valley, momentum ends over 10 times as close to the minimum as gradient descent with the same lr",
      10 * np.linalg.norm(with_momentum[-1]) < np.linalg.norm(small[-1]))

# %% [markdown]
# ## 3. Adam
#
# A network has millions of directions, and their steepness is unknown. Adam measures the size of the gradients of each
# entry of each parameter separately, and divides by it. For this it keeps two running **means**:
#
#     m = β1 m + (1 - β1) dw           mean of the gradients, β1 = 0.9
#     v = β2 v + (1 - β2) dw²          mean of their squares, β2 = 0.999
#
# Each new gradient has the weight 1 - β1 here. In the velocity above it had the weight 1, which makes the difference
# between a mean and a sum.
#
# Both start at 0, so at first they are too small. After one step, m = 0.1 dw and v = 0.001 dw². After t steps the
# weights in m sum to 1 - β1ᵗ instead of 1, so dividing by 1 - β1ᵗ makes it a mean again. This is the **bias
# correction**, and v gets one too. The step follows, where eps = 1e-8 avoids a division by 0:
#
#     m̂ = m / (1 - β1ᵗ)
#     v̂ = v / (1 - β2ᵗ)
#     w = w - lr m̂ / (sqrt(v̂) + eps)
#
# In the first step m̂ = dw and v̂ = dw², so every entry moves by lr, against the sign of its gradient and however small
# the gradient is (unless it is as small as eps). The drawing writes g for dw, and u for the velocity.

# %% Two means, two corrections, one step
drawing("optimizer_step")


def adam(gradient, w, lr, steps, beta1=0.9, beta2=0.999, eps=1e-8):
    m = v = np.zeros(w.shape)
    path = [w]
    for t in range(1, steps + 1):
        dw = gradient(w, t)
        m = beta1 * m + (1 - beta1) * dw
        v = beta2 * v + (1 - beta2) * dw ** 2
        m_hat = m / (1 - beta1 ** t)
        v_hat = v / (1 - beta2 ** t)
        w = w - lr * m_hat / (np.sqrt(v_hat) + eps)
        path.append(w)
    return np.array(path)


predict("lr = 0.01. How far does Adam move an entry in the first step if its gradient is 0.00003?", 0.01,
        why="m̂ / sqrt(v̂) = 0.00003 / 0.00003 = 1, so the entry moves by lr.")
with_adam = adam(valley, START, 0.5, 40)
claim("nt.Adam takes the same path", np.allclose(with_adam, by_package(nt.Adam, valley, START, 40, lr=0.5), atol=1e-12))
show_source(nt.Adam.update)
gradients = np.array([3e-5, -2.0, 5e4])
first = by_package(nt.Adam, lambda w, t: gradients, np.zeros(3), 1, lr=0.01)[1]
claim("the first step is -lr sign(dw)", np.allclose(first, -0.01 * np.sign(gradients), rtol=1e-3), f"{first.round(5)}")
picture = Figure(figsize=(12, 4), layout="constrained")
x, y = np.meshgrid(np.linspace(-9, 3.5, 200), np.linspace(-2.2, 2.2, 100))
paths = {"gradient descent, lr 2/26": good, "momentum 0.8, lr 0.02": with_momentum, "Adam, lr 0.5": with_adam}
for axes, (name, path), style in zip(picture.subplots(1, 3, sharey=True), paths.items(), ("C1s-", "C2^-", "C0o-")):
    axes.contour(x, y, (x ** 2 + 25 * y ** 2) / 2, [0.5, 5, 15, 32, 60], colors="0.75")
    axes.plot(*path.T, style, markersize=4, linewidth=1.2)
    axes.plot(0, 0, "k+", markersize=12)
    axes.set(xlim=(-9, 3.5), ylim=(-2.2, 2.2), xlabel="w_0 (steepness 1)", title=name)
picture.axes[0].set_ylabel("w_1 (steepness 25)")
picture.suptitle("40 steps in the valley (+: the minimum)")
figure("paths", picture)

# %% [markdown]
# The package computes the same in another order, with arrays that it reuses. Adam's first step goes diagonally, because
# it is equally long in both directions. Near the minimum its steps do not shrink with the gradient, so one usually
# lowers lr during training (lesson 19).
#
# ## 4. Rare gradients
#
# "About lr for every entry" is true of the first step, and as long as the gradients stay similar. It is not true of an
# entry whose gradients are mostly 0, such as the numbers of a rare word. Suppose that the first gradient other than 0
# arrives in step 300. The correction of m has no effect by then, so m̂ = 0.1 dw. But v̂ = 0.001 dw² / (1 - 0.999³⁰⁰) =
# 0.00386 dw², so the step is 0.1 / sqrt(0.00386) = 1.6 lr. The later this gradient arrives, the closer the step is to
# 0.1 / sqrt(0.001) = 3.2 lr (Kingma and Ba, section 2.1, name this as the most severe case of sparsity).
#
# In the following steps the gradient is 0 again, but m is not. So the entry moves on, for dozens of steps. Only an
# entry whose gradient was always 0 stays where it is.

# %% A single gradient at step 300
lonely = by_package(nt.Adam, lambda w, t: np.array([1.0, 0.0]) * (t == 300), np.zeros(2), 400, lr=1.0)
moved = -np.diff(lonely[:, 0])
claim("before step 300 the entry does not move", moved[:299] == 0)
claim("in step 300 it moves by 1.6 lr", round(moved[299], 1) == 1.6, f"{moved[299]:.3f} lr")
claim("30 steps later it has moved by over 15 lr", moved[299:330].sum() > 15, f"{moved[299:330].sum():.1f} lr")
claim("an entry whose gradient was always 0 has not moved", lonely[:, 1] == 0)

# %% [markdown]
# ## 5. The training loop
#
# A model is trained by the same five lines, whatever it is. Ours predicts the next letter of a text from the present
# one. The input is a row with a 1 at the place of the present letter, so `nt.Linear` without a bias returns one row of
# its table: the logits of all letters that may follow. The best possible loss is known here: it is reached if the
# probabilities are the relative frequencies with which each letter follows each other one.
#
# `nt.Trainer` runs these five lines with a progress bar. `fit` takes a list of batches and the number of steps.

# %% Five lines, and the same in one
text = "the cat sat on the mat. the dog sat on the log. the cat and the dog ran to the log and sat on the mat. "
letters = sorted(set(text))
ids = np.array([letters.index(letter) for letter in text])
inputs, targets = np.eye(len(letters))[ids[:-1]], ids[1:]
counts = np.zeros((len(letters), len(letters)))
np.add.at(counts, (ids[:-1], targets), 1)
frequencies = counts / counts.sum(axis=1, keepdims=True)
best = -np.log(frequencies[ids[:-1], targets]).mean()


def new_model():
    return nt.Linear(len(letters), len(letters), bias=False, rng=0).astype(np.float64)


def train(optimizer, steps=100, **options):
    model, criterion = new_model(), nt.CrossEntropyLoss()
    optimizer = optimizer(model.parameters(), **options)
    losses = []
    for _ in range(steps):
        model.zero_grad()
        logits = model(inputs)
        losses.append(criterion(logits, targets))
        model.backward(criterion.backward())
        optimizer.step()
    return model, losses


runs = {"SGD, lr 1": train(nt.SGD, lr=1.0), "SGD, lr 1, momentum 0.9": train(nt.SGD, lr=1.0, momentum=0.9),
        "Adam, lr 0.1": train(nt.Adam, lr=0.1)}
picture = Figure(figsize=(8, 4.2), layout="constrained")
axes = picture.subplots()
for (name, (_, losses)), style in zip(runs.items(), ("C1--", "C2-.", "C0-")):
    axes.plot(range(1, 101), losses, style, linewidth=2, label=name)
    print(f"  {name:<24}  loss of step 100: {losses[-1]:.3f}")
axes.axhline(best, color="0.5", linestyle=":", label="the best possible loss")
axes.set(xlabel="step", ylabel="loss", title="The same model with three optimizers", ylim=(0, None))
axes.legend()
figure("losses", picture)
by_adam, losses = runs["Adam, lr 0.1"]
claim("no run can fall below the best possible loss", [min(run[1]) > best for run in runs.values()], f"{best:.3f}")
claim("Adam comes within 0.1 of it in 100 steps", losses[-1] < best + 0.1)
model = new_model()
trainer = nt.Trainer(model, nt.CrossEntropyLoss(), nt.Adam(model.parameters(), lr=0.1), workers=1)
trainer.fit([(inputs, targets)], steps=100)
claim("nt.Trainer ends with the same weights", np.allclose(model.weight.data, by_adam.weight.data, rtol=1e-9))
rare = letters.index("c")                   # "c" occurs twice, and is always followed by "a"
claim('after "c", the trained model expects "a"', by_adam.weight.data[rare].argmax() == letters.index("a"))

# %% [markdown]
# ## Exercises
#
# 1. Compute two steps of gradient descent by hand, from (-8, 1.6) with lr = 0.04. What is special about w_1?
# 2. Which lr makes momentum with μ = 0.9 as fast as gradient descent with lr = 0.1, if the gradient is always the same?
# 3. Adam's first gradient of an entry was 1, and the second is 0. How far does the second step move the entry? And if
#    the second gradient is -1?
# 4. All gradients are multiplied by 100, by mistake. How do the paths of gradient descent and of Adam change?
# 5. Someone leaves out `model.zero_grad()`. What does `.grad` then contain? To which optimizer of this lesson, and with
#    which μ, is plain gradient descent with this mistake equal?
#
# With a checker (`numpy-transformer exercise start my-exercises test1`, a test of part 1 of the course): 02.4, 02.5.
