# %% [markdown]
# # 00b Backward on scalars
#
# In lesson 00 we chose the numbers in the table W, so that "her" finds "Anna". A real network has millions of such
# numbers, and training finds them. They start at random, a **loss** measures how wrong the result is, and each number
# is changed a little so that the loss becomes smaller. For this we have to know how the loss reacts to every single
# number. **Backward** finds all these answers in one pass, and every neural network of this course is trained with it.
#
# This lesson assumes nothing about derivatives. You first go through a network of a single neuron with a pencil. Then a
# program of fifty lines does the same for any expression. (A scalar is a single number, not a list or a table.)
#
# A neuron multiplies its inputs by weights, which are learned numbers here, and adds another one, the bias. The
# function tanh squeezes the sum between -1 and 1: tanh(0) = 0, tanh(1) = 0.76, tanh(3) = 0.995.
#
#     y = tanh(w1 x1 + w2 x2 + b)

# %% One neuron
import math

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict

lesson.start(__name__)
x1, x2 = 1.0, -2.0                          # inputs
w1, w2 = 0.5, 0.3                           # weights
b = 0.4                                     # bias
target = 1.0


def neuron(x1, x2, w1, w2, b):
    """The output, between -1 and 1."""
    return math.tanh(w1 * x1 + w2 * x2 + b)


def loss_of(x1, x2, w1, w2, b):
    """How far the output is from the target, squared."""
    return (neuron(x1, x2, w1, w2, b) - target) ** 2


print(f"  output {neuron(x1, x2, w1, w2, b):.3f}, target {target}, loss {loss_of(x1, x2, w1, w2, b):.3f}")

# %% [markdown]
# ## 1. What a derivative is
#
# How does y react to w2? Increase w2 by a small h, and divide the change of y by h. As h becomes smaller, this ratio
# approaches a fixed number, the **derivative** of y with respect to w2, written dy/dw2. Here it is about -1.83. So if
# w2 grows by 0.001, y falls by about 0.00183.
#
# Four derivatives are all that we need. The first three follow from what happens if one number grows by h:
#
#     c = a + b      c grows by h               dc/da = 1     dc/db = 1
#     c = a - b      c falls by h if b grows    dc/da = 1     dc/db = -1
#     c = a b        (a + h) b = a b + h b      dc/da = b     dc/db = a
#     c = tanh(a)    from a table               dc/da = 1 - c²
#
# **The chain rule.** In our neuron w2 acts on y in two stages. Let u be the sum inside tanh. If w2 grows by h, then u
# changes by x2 h, which is -2 h. If u changes by a small amount, y changes by about 1 - y² = 0.915 times this amount.
# So y changes by 0.915 · (-2 h), and dy/dw2 = -1.83. Along a path, derivatives are multiplied.

# %% The ratio approaches a number
y = neuron(x1, x2, w1, w2, b)
for h in (1, 0.1, 0.01, 0.001):
    print(f"  h = {h:<6} change of y / h = {(neuron(x1, x2, w1, w2 + h, b) - y) / h:.4f}")
by_chain_rule = (1 - y * y) * x2
for a in (0.0, 1.0, 3.0):                   # the entry of the table
    ratio = (math.tanh(a + 1e-6) - math.tanh(a)) / 1e-6
    claim(f"tanh at {a:g}: the ratio approaches 1 - tanh²", abs(ratio - (1 - math.tanh(a) ** 2)) < 1e-5, f"{ratio:.4f}")
claim("the chain rule gives the number that the ratio approaches",
      abs((neuron(x1, x2, w1, w2 + 1e-6, b) - y) / 1e-6 - by_chain_rule) < 1e-5, f"{by_chain_rule:.4f}")
predict("c = a b with a = 3 and b = 5. What is dc/da?", 5, why="If a grows by h, then a b grows by h b = 5 h.")

# %% [markdown]
# ## 2. With a pencil
#
# The neuron should return the target 1. The loss is L = r r with r = y - target. For every number we need dL/d(number),
# which is called its **gradient**. We write du for dL/du, since it is always the change of L that we ask for. So dy is
# dL/dy from here on.
#
# Forward computes L in seven lines. Backward starts at the end with dL = 1, because L grows by h if L grows by h, and
# goes through the lines in reverse order. A line that computed c from a and b knows dc by now. The gradient
# of a is dc times the derivative of c with respect to a, and that of b is found in the same way:
#
#     L = r r          dr = dL r + dL r = 2 r = -1.417
#     r = y - target   dy = dr                = -1.417
#     y = tanh(u)      du = dy (1 - y²)       = -1.297
#     u = s + b        ds = db = du           = -1.297
#     s = p1 + p2      dp1 = dp2 = ds         = -1.297
#     p2 = w2 x2       dw2 = dp2 x2           =  2.594
#                      dx2 = dp2 w2           = -0.389
#     p1 = w1 x1       dw1 = dp1 x1           = -1.297
#                      dx1 = dp1 w1           = -0.649
#
# r appears twice in its line. If it grows, both factors grow, and the two changes of L come together: so r receives two
# products, and they are added. A sum gives its own gradient to both sides. In a product p = a b, the factor a gets dp
# b, and the factor b gets dp a.
#
# That is all of backward. The signs of the gradients say what to do: a larger w1 or b makes the loss smaller, and so
# does a smaller w2. **Gradient descent** moves each of these three numbers against its gradient, by a small factor lr,
# the **learning rate**, times the gradient.

# %% The same lines in Python
drawing("graph_of_scalars")
p1 = w1 * x1                                # forward
p2 = w2 * x2
s = p1 + p2
u = s + b
y = math.tanh(u)
r = y - target
L = r * r
predict("L = r r, and r = -0.5. What is dr?", -1,
        why="r is both factors of the product. As the first factor it receives dL r = -0.5, and the same again as the "
            "second, so the sum is 2 r.")
dL = 1.0                                    # backward: the lines from the last to the first
dr = dL * r + dL * r
dy = dr
du = dy * (1 - y * y)
db = ds = du
dp1 = dp2 = ds
dw2 = dp2 * x2
dx2 = dp2 * w2
dw1 = dp1 * x1
dx1 = dp1 * w1
numbers = dict(x1=x1, x2=x2, w1=w1, w2=w2, b=b)
by_pencil = dict(x1=dx1, x2=dx2, w1=dw1, w2=dw2, b=db)
h = 1e-6
for name, gradient in by_pencil.items():
    # the loss of the same numbers, but with this one a little larger, and a little smaller
    up, down = (loss_of(**{**numbers, name: numbers[name] + step}) for step in (h, -h))
    claim(f"d{name} is the change of L divided by the change of {name}", abs((up - down) / (2 * h) - gradient) < 1e-8,
          f"{gradient:.3f}")
lr = 0.1
after = loss_of(x1, x2, w1 - lr * dw1, w2 - lr * dw2, b - lr * db)
claim("a step against the gradients lowers the loss", after < L, f"from {L:.3f} to {after:.3f}")

# %% [markdown]
# ## 3. In fifty lines
#
# To leave this work to a program, each number must know how it was computed. A `Value` holds a number, its gradient,
# the values it was computed from (its **sources**), and for each source the derivative with respect to it (its
# **slope**). `+`, `*` and `tanh` make new values, and write down sources and slopes. So the expression is computed as
# usual, and the values form a graph.
#
# Backward walks through this graph from the loss to the inputs. There are two rules:
#
# * **Gradients add up.** A value that was used twice receives a product from each use, so it is `+=` and not `=`.
# * **A value waits for all its uses.** It may pass its gradient on only when the gradient is complete. So the method
#   `order` puts every value after its sources, and backward takes this list from its end. Such an order is called
#   topological.

# %% Values that know how they were computed
class Value:
    """A number that remembers how it was computed, so that backward can find the gradients."""

    def __init__(self, number, sources=(), slopes=()):
        self.number = number
        self.grad = 0.0                     # dL/d(this number), after backward
        self.sources = sources              # the values that it was computed from
        self.slopes = slopes                # its derivative with respect to each of them

    def __add__(self, other):               # Python calls this for a + b
        return Value(self.number + other.number, (self, other), (1.0, 1.0))

    def __mul__(self, other):               # and this for a * b
        return Value(self.number * other.number, (self, other), (other.number, self.number))

    def tanh(self):
        y = math.tanh(self.number)
        return Value(y, (self,), (1 - y * y,))

    def order(self):
        """Returns all values that this one depends on, and itself, each after its sources."""
        ordered = []
        seen = set()

        def visit(value):
            if value not in seen:
                seen.add(value)
                for source in value.sources:
                    visit(source)
                ordered.append(value)

        visit(self)
        return ordered

    def backward(self):
        """Adds dL/d(number) to the grad of every value, where L is this one."""
        self.grad = 1.0
        for value in reversed(self.order()):
            for source, slope in zip(value.sources, value.slopes):
                source.grad += value.grad * slope


def graph(x1, x2, w1, w2, b):
    """The neuron as a graph: its inputs by name, and its loss."""
    inputs = {name: Value(number) for name, number in dict(x1=x1, x2=x2, w1=w1, w2=w2, b=b).items()}
    u = inputs["w1"] * inputs["x1"] + inputs["w2"] * inputs["x2"] + inputs["b"]
    r = u.tanh() + Value(-target)
    return inputs, r * r


inputs, loss = graph(**numbers)
loss.backward()
claim("the graph has 6 inputs (with the target) and 7 results", len(loss.order()) == 13)
claim("its backward gives what the pencil gave",
      [abs(inputs[name].grad - gradient) < 1e-15 for name, gradient in by_pencil.items()])

# %% Training: forward, backward, step, and again
trained = dict(numbers)
losses = []
for _ in range(50):
    inputs, loss = graph(**trained)
    losses.append(loss.number)
    loss.backward()
    for name in ("w1", "w2", "b"):
        trained[name] -= lr * inputs[name].grad
claim("50 steps of gradient descent bring the output close to the target", neuron(**trained) > 0.9,
      f"from {neuron(**numbers):.3f} to {neuron(**trained):.3f}")
claim("the loss fell in every step", np.diff(losses) < 0)
picture = Figure(figsize=(8, 3.8), layout="constrained")
axes = picture.subplots()
axes.plot(range(1, 51), losses, "C0o-", markersize=4)
axes.set(xlabel="step", ylabel="loss", title="Gradient descent on one neuron", ylim=(0, None))
axes.grid(alpha=0.3)
figure("training", picture)

# %% [markdown]
# ## 4. What happens without the two rules
#
# Both mistakes are easy to make, and neither raises an error. With `=` in place of `+=`, the second product of r
# overwrites the first, so dr is r instead of 2 r, and all gradients computed from it are half as large.
#
# The order shows in an expression in which a value is used at two different distances from the end. Let a = x x and
# L = a + tanh(a). A walk from the end to the sources, level by level, reaches a directly, and passes its gradient on to
# x before the product from tanh(a) has arrived. That product never gets to x.

# %% Overwriting, and passing on too early
def backward_level_by_level(loss):
    """A wrong backward: a value passes its gradient on as soon as it is reached for the first time."""
    loss.grad = 1.0
    waiting = [loss]
    seen = {loss}
    for value in waiting:                   # the list grows while it is read
        for source, slope in zip(value.sources, value.slopes):
            source.grad += value.grad * slope
            if source not in seen:
                seen.add(source)
                waiting.append(source)


def two_distances(number):
    x = Value(number)
    a = x * x
    return x, a + a.tanh()


predict("With = in place of +=, dw1 is the right number times what?", 0.5,
        why="Only one of the two equal products of r is kept. All other gradients are computed from dr, by products, "
            "so the factor 1/2 reaches all of them.")
inputs, loss = graph(**numbers)
loss.grad = 1.0
for value in reversed(loss.order()):
    for source, slope in zip(value.sources, value.slopes):
        source.grad = value.grad * slope
claim("with = the gradients are half as large",
      [abs(inputs[name].grad - gradient / 2) < 1e-15 for name, gradient in by_pencil.items()])
x, loss = two_distances(0.5)
loss.backward()
early, early_loss = two_distances(0.5)
backward_level_by_level(early_loss)
claim("L = x² + tanh(x²) at x = 0.5: backward gives 2 x (1 + 1 - tanh²(x²))",
      abs(x.grad - (2 - math.tanh(0.25) ** 2)) < 1e-15, f"{x.grad:.3f}")
claim("level by level, the part that goes through tanh is lost", early.grad == 1.0, f"{early.grad:.3f}")

# %% [markdown]
# ## 5. A layer does the same
#
# The package has no graph. Its layers have a method `forward`, and a method `backward` that takes the gradient of the
# output and returns the gradient of the input. Your neuron without its tanh is an `nt.Linear` with two inputs and one
# output. The next lesson explains its code, which handles many neurons and many inputs at once.

# %% The neuron as a layer
linear = nt.Linear(2, 1).astype(np.float64)
linear.weight.data = np.array([[w1], [w2]])
linear.bias.data = np.array([b])
claim("forward gives u", abs(linear(np.array([x1, x2]))[0] - u) < 1e-15)
dx = linear.backward(np.array([du]))
claim("backward returns dx1 and dx2", np.allclose(dx, [dx1, dx2], rtol=1e-14))
claim("and has added dw1, dw2 and db to the layer's gradients",
      [np.allclose(linear.weight.grad[:, 0], [dw1, dw2], rtol=1e-14), np.allclose(linear.bias.grad, db, rtol=1e-14)])

# %% [markdown]
# ## Exercises
#
# 1. Draw the graph of L = x x x, computed as (x x) x, and go through it backward for x = 2. How many products does x
#    receive, and what is their sum?
# 2. Give `Value` a method `exp`. The derivative of exp(a) is exp(a). Which number that is there already can it use?
# 3. Call `loss.backward()` twice for the neuron of section 3, without setting the gradients to 0 in between. Is dw1
#    twice as large? Why (not)?
# 4. The target is an input of the graph as well. What is its gradient, and what does its sign say?
# 5. Set the target to 0.5 and train with lr = 10. What happens in the first step, and why does nothing happen after it?
