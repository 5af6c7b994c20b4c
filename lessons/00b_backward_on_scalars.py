# %% [markdown]
# # 00b Backward on scalars
#
# You know the chain rule: if y depends on u, and u on x, then dy/dx = (dy/du) (du/dx). You have never met **backward**,
# the procedure by which every neural network gets its gradients. This lesson starts with one neuron and a pencil. Then
# fifty lines of Python do the same for any expression. The last sections go from numbers to arrays, and explain why the
# layers of this package contain a few matrix products instead of a graph.
#
# After the lesson you will be able to compute all derivatives of an expression by hand in one pass from the end to the
# start, write a program that does it, and say what forward has to save and where gradients are added. It takes about
# 15 minutes.

# %% One neuron, line by line
import math
from collections import Counter

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, figure, lesson, predict

lesson.start(__name__)
x1, x2 = 2.0, -1.0                          # inputs
w1, w2 = 0.4, 0.6                           # weights
b = 0.3                                     # bias
target = 1.0
p1 = w1 * x1
p2 = w2 * x2
s = p1 + p2
u = s + b
y = math.tanh(u)
r = y - target
L = r * r
print(f"  p1 = {p1:.2f}, p2 = {p2:.2f}, s = {s:.2f}, u = {u:.2f}")
print(f"  y = {y:.3f}, r = {r:.3f}, L = {L:.3f}")

# %% [markdown]
# ## 1. With a pencil
#
# The neuron has two inputs x1 and x2, the weights w1 and w2, and a bias b. It should return the target 1. The loss L
# says how far it is from that. Which of the numbers should change, and in which direction? For each of them we need
# dL/d(number), its **gradient**. We write du for dL/du, because it is always L that is differentiated.
#
# The cell above computes L in seven lines, from p1 to L. Each of them is a single operation with known derivatives:
#
#     c = a + b         dc/da = 1         dc/db = 1
#     c = a b           dc/da = b         dc/db = a
#     c = tanh(a)       dc/da = 1 - c²
#
# Start at the end, where dL = 1, and go through the lines in reverse order. A line that computed c from a and b knows
# dc by now. It gives a the product dc (dc/da), and it gives b the product dc (dc/db):
#
#     L = r r          dr = dL r + dL r = 2 r = -1.076
#     r = y - target   dy = dr                = -1.076
#     y = tanh(u)      du = dy (1 - y²)       = -0.846
#     u = s + b        ds = db = du           = -0.846
#     s = p1 + p2      dp1 = dp2 = ds         = -0.846
#     p2 = w2 x2       dw2 = dp2 x2           =  0.846
#                      dx2 = dp2 w2           = -0.508
#     p1 = w1 x1       dw1 = dp1 x1           = -1.692
#                      dx1 = dp1 w1           = -0.338
#
# In the first line r appears twice, so it receives two products. "+" gives the same number to both sides, and a product
# gives each factor the other factor times its own gradient.
#
# That is all of backward. Each line was visited once, and one pass gave the gradients of all numbers. A step against
# the gradients makes the loss smaller: w1 and b grow, w2 shrinks.

# %% The same lines in Python, and what they predict
predict("L = r r, and r = -0.5. What is dr?", -1,
        why="r is both factors of the product. As the first factor it receives dL r = -0.5, and the same again as the "
            "second, so the sum is 2 r.")
dL = 1.0
dr = dL * r + dL * r
dy = dr
du = dy * (1 - y * y)
db = ds = du
dp1 = dp2 = ds
dw2 = dp2 * x2
dx2 = dp2 * w2
dw1 = dp1 * x1
dx1 = dp1 * w1
by_pencil = dict(x1=dx1, x2=dx2, w1=dw1, w2=dw2, b=db)
for name, gradient in by_pencil.items():
    print(f"  d{name} = {gradient:.3f}")


def neuron(x1, x2, w1, w2, b, target=1.0):
    """The loss of the neuron, for real and for complex numbers."""
    r = np.tanh(w1 * x1 + w2 * x2 + b) - target
    return r * r


lr = 0.1                                    # the learning rate: how far to go against the gradient
after = neuron(x1, x2, w1 - lr * dw1, w2 - lr * dw2, b - lr * db)
claim("a step against the gradients lowers the loss", after < L, f"from {L:.3f} to {after:.3f}")

# %% [markdown]
# ## 2. In fifty lines
#
# To leave this work to a program, each number must know how it was computed. A `Value` holds a number, its gradient,
# the values it was computed from (its **sources**), and for each source the derivative with respect to it (its
# **slope**). `+`, `*` and `tanh` make new values, and write down sources and slopes while they compute. So the
# expression is computed as usual, and the values form a graph.
#
# backward walks through this graph from the loss to the inputs. There are two rules:
#
# * **Gradients add up.** A value that was used twice receives a product from each use, so it is `+=` and not `=`.
# * **A value waits for all its uses.** It may pass its gradient on only when the gradient is complete. So no value may
#   come before one that was computed from it. Such an order is called topological. Here `order` puts every value after
#   its sources, and backward takes this list from its end.

# %% Values that know how they were computed
class Value:
    """A number that remembers how it was computed, so that backward can find the gradients."""

    def __init__(self, number, sources=(), slopes=(), name=""):
        self.number = number
        self.grad = 0.0                     # dL/d(this number), after backward
        self.sources = sources              # the values that it was computed from
        self.slopes = slopes                # its derivative with respect to each of them
        self.name = name

    def __add__(self, other):
        return Value(self.number + other.number, (self, other), (1.0, 1.0), "+")

    def __mul__(self, other):
        return Value(self.number * other.number, (self, other), (other.number, self.number), "×")

    def tanh(self):
        y = np.tanh(self.number)
        return Value(y, (self,), (1 - y * y,), "tanh")

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


def graph(x1, x2, w1, w2, b, target=1.0):
    """The neuron as a graph: its inputs by name, and its loss."""
    inputs = {name: Value(number, name=name) for name, number in
              dict(x1=x1, x2=x2, w1=w1, w2=w2, b=b, minus_target=-target).items()}
    u = inputs["w1"] * inputs["x1"] + inputs["w2"] * inputs["x2"] + inputs["b"]
    r = u.tanh() + inputs["minus_target"]
    return inputs, r * r


inputs, loss = graph(x1, x2, w1, w2, b)
loss.backward()
claim("the graph has 6 inputs and 7 results", [len(inputs), len(loss.order())] == [6, 13])
claim("its backward gives what the pencil gave",
      [abs(inputs[name].grad - gradient) < 1e-15 for name, gradient in by_pencil.items()])

# %% [markdown]
# Is it right? The expression itself can tell, without any rule about derivatives. Change one number by a small h and
# see how much L changes: (L(x + h) - L(x - h)) / (2 h) is close to the derivative. The same can be done with a step in
# the imaginary direction, which is exact to the last digit. Lesson 02 explains both, and where they fail.

# %% Each gradient, measured in two ways
numbers = dict(x1=x1, x2=x2, w1=w1, w2=w2, b=b)
h = 1e-5
for name, number in numbers.items():
    central = (neuron(**{**numbers, name: number + h}) - neuron(**{**numbers, name: number - h})) / (2 * h)
    complex_step = neuron(**{**numbers, name: number + 1e-100j}).imag / 1e-100
    claim(f"d{name}: a small step of h and an imaginary step agree",
          abs(inputs[name].grad - central) < 1e-9 and abs(inputs[name].grad - complex_step) < 1e-14,
          f"{inputs[name].grad:.4f}")

# %% The graph, with its values and gradients
PLACES = [(0, 4), (0, 3), (1, 3.5), (0, 2), (0, 1), (1, 1.5), (2, 2.5), (2, 0.5), (3, 1.5), (4, 1.5), (4, 0.5), (5, 1),
          (6, 1)]                           # one for each value, in topological order
drawn = loss.order()
results = iter(("p1", "p2", "s", "u", "y", "r", "L"))
picture = Figure(figsize=(13, 6), layout="constrained")
axes = picture.subplots()
for value, (column, row) in zip(drawn, PLACES):
    name = f"{next(results)}: {value.name}" if value.sources else value.name.replace("minus_target", "-target")
    axes.text(column, row, f"{name}\n{value.number:.3f}", ha="center", va="bottom", color="C0", zorder=3)
    axes.text(column, row, f"{value.grad:.3f}", ha="center", va="top", color="C2", zorder=3)
    axes.plot(column, row + 0.1, "s", markersize=62, color="white", markeredgecolor="0.6", zorder=2)
    for n, source in enumerate(value.sources):
        twice = 0.12 * (2 * n - 1) if value.sources.count(source) == 2 else 0       # two parallel arrows
        start_column, start_row = PLACES[drawn.index(source)]
        axes.annotate("", (column - 0.3, row + 0.1 + twice), (start_column + 0.3, start_row + 0.1 + twice),
                      arrowprops=dict(arrowstyle="->", color="0.4"))
axes.set(xlim=(-0.6, 6.6), ylim=(-0.2, 4.7), title="Forward computes the values (blue) from left to right, "
         "backward the gradients (green) from right to left")
axes.axis("off")
figure("graph", picture)

# %% [markdown]
# ## 3. What happens without the two rules
#
# Both mistakes are easy to make, and neither raises an error. With `=` in place of `+=`, the second product of r
# overwrites the first, so dr is r instead of 2 r, and all gradients computed from it are half as large.
#
# The order shows in an expression in which a value is used at two different distances from the end. Let a = x x and
# L = a + tanh(a). A walk that goes from the end to the sources, level by level, reaches a directly, and passes its
# gradient on to x before the product from tanh(a) has arrived. That product never gets to x.

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


predict("With = in place of +=, by which factor is dw1 wrong?", 0.5,
        why="Only one of the two equal products of r is kept. All other gradients are computed from dr, by products, "
            "so the factor 1/2 reaches all of them.")
inputs, loss = graph(x1, x2, w1, w2, b)
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
# ## 4. From numbers to arrays
#
# A neural network is such an expression, only larger. Take the layer that every model here is built of, the Linear. It
# has N rows of D inputs each, and computes F outputs for each row:
#
#     y_nf = b_f + x_n1 W_1f + ... + x_nD W_Df
#
# As a graph of scalars it has one value for each entry of x, W and b, and for each output D products and D sums. With
# N = 8, D = 16 and F = 12, these are 332 inputs and 3,072 results. Now look at how often each input is used:
#
# * x_nd is used in all F outputs of its row, so dx_nd is a sum of F products, dy_nf W_df.
# * W_df is used in all N rows, so dW_df is a sum of N products, dy_nf x_nd.
# * b_f is used in all N rows too, and "+" passes dy_nf on, so db_f is the sum of dy_nf over n.
#
# The graph adds these products up one by one. But a sum of products over one index is a matrix product. We know
# the shape of the graph beforehand, so we can write down what its backward adds up, and need no graph:
#
#     dx = dy Wᵀ            dW = xᵀ dy            db = sum of the rows of dy
#
# Lesson 02 derives these formulas once more, from the forward line alone. 6,144 visits, one for each arrow of the
# graph, have become two matrix products and a sum.

# %% One Linear, as a graph and as a layer
N, D, F = 8, 16, 12
rng = np.random.default_rng(0)
linear = nt.Linear(D, F, rng=rng).astype(np.float64)
linear.bias.data = rng.standard_normal(F)
X, dY = rng.standard_normal((N, D)), rng.standard_normal((N, F))


def values(array):
    """A Value for each entry of an array, in an array of the same shape."""
    return np.array([Value(number) for number in array.ravel()], dtype=object).reshape(array.shape)


def linear_graph(x, W, b):
    """The outputs of a Linear, as an array of Values: a loop over scalars."""
    y = np.empty((len(x), len(b)), dtype=object)
    for n, f in np.ndindex(y.shape):
        y[n, f] = b[f]
        for d in range(len(W)):
            y[n, f] = y[n, f] + x[n, d] * W[d, f]
    return y


def weighted_sum(y, dy):
    """The loss sum of dy * y, whose gradient with respect to y is dy."""
    total = Value(0.0)
    for value, weight in zip(y.ravel(), dy.ravel()):
        total = total + value * Value(weight)
    return total


def grads(values):
    return np.array([value.grad for value in values.ravel()]).reshape(values.shape)


def relative_error(a, b):
    """The norm of a - b, divided by the norm of b."""
    return np.linalg.norm(a - b) / np.linalg.norm(b)


x, W, b = values(X), values(linear.weight.data), values(linear.bias.data)
y = linear_graph(x, W, b)
nodes = {value for output in y.ravel() for value in output.order()}
predict("N, D, F = 8, 16, 12. How many products does the graph of the layer have?", N * D * F,
        why="Each of the N F outputs has D products, one for each input of its row.")
claim("the graph has N D + D F + F inputs and 2 N D F results",
      len(nodes) == N * D + D * F + F + 2 * N * D * F, f"{len(nodes):,} values")
uses = Counter(source for value in nodes for source in value.sources)
claim("each x_nd is used F times, each W_df N times, and each b_f N times",
      [{uses[value] for value in array.ravel()} == {times} for array, times in ((x, F), (W, N), (b, N))])
weighted_sum(y, dY).backward()
claim("forward: the layer computes the values of the graph",
      relative_error(linear(X), np.array([value.number for value in y.ravel()]).reshape(N, F)) < 1e-14)
dX = linear.backward(dY)
for name, array, gradient in (("dx", x, dX), ("dW", W, linear.weight.grad), ("db", b, linear.bias.grad)):
    claim(f"{name}: three lines of the layer give what the graph gives", relative_error(gradient, grads(array)) < 1e-13)
claim("dx_nd is the sum over all outputs of its row",
      abs(dX[3, 5] - sum(dY[3, f] * linear.weight.data[5, f] for f in range(F))) < 1e-14, f"dx_35 = {dX[3, 5]:.4f}")

# %% [markdown]
# Both do the same arithmetic. But in the graph each product and each sum is an object of its own, made and visited by
# Python: 3,404 of them for this small layer. Measured on one core, forward and backward of the graph took about 6
# milliseconds and those of the layer 20 microseconds, a three-hundredth. With 512 tokens and the 512 and 2,048 features
# of the first Transformer, it would be more than a billion objects.
#
# ## 5. What a layer keeps
#
# Whatever the graph does, the layers of this package do as well, with arrays:
#
# * **Slopes.** A value keeps a slope for each source. A layer keeps only the arrays from which backward can compute the
#   products: forward of a Linear saves x with `remember(x)`, and backward takes it out with `recall()`. That is N D
#   numbers, instead of 4 N D F slopes.
# * **Order.** There is no list of values. You know in which order forward called the layers, and you call their
#   backwards in the reverse order. The saved arrays of a layer form a stack: `recall` returns those that were saved
#   last, and removes them. So a layer may be used twice, as a value may.
# * **Addition.** The graph adds up all gradients by itself. A layer adds the gradients of its own parameters to their
#   `.grad`, and returns dx. Where an **array** was used twice, you have to write the `+`. In y = x + f(x), x is used by
#   the sum and by f, so dx = dy + f.backward(dy).
#
# PyTorch and JAX record a graph whose values are arrays, and so find order and additions for you. Here you write them
# yourself, line by line, so that you can see them.

# %% What forward saves, an array that is used twice, and a layer that is used twice
linear(X)
claim("forward of a Linear has saved x, and nothing else", np.array_equal(linear.recall(), X),
      f"{X.size} numbers; the graph has {sum(len(value.slopes) for value in nodes):,} slopes")
predict("y = x + f(x), with dy = 3 and a Linear f of one feature with W = 2. What is dx?", 9,
        why="x receives dy = 3 from the sum, and dy W = 6 through f.")

D = 4
f = nt.Linear(D, D, rng=rng).astype(np.float64)
X, dY = rng.standard_normal((2, 3, D))


def as_graph():
    """x, W and b of f as Values."""
    return values(X), values(f.weight.data), values(f.bias.data)


x, W, b = as_graph()
weighted_sum(x + linear_graph(x, W, b), dY).backward()
f(X)
dX = dY + f.backward(dY)
claim("y = x + f(x): dx = dy + f.backward(dy)", relative_error(dX, grads(x)) < 1e-13)
claim("without the +, dx is wrong", relative_error(dX - dY, grads(x)) > 0.1)
f.zero_grad()
x, W, b = as_graph()
weighted_sum(linear_graph(linear_graph(x, W, b), W, b), dY).backward()
f(f(X))
dX = f.backward(f.backward(dY))
claim("y = f(f(x)): two backwards of the same layer take out what its two forwards saved, the last one first",
      relative_error(dX, grads(x)) < 1e-13)
claim("and the gradients of both uses have been added to the .grad of W and b",
      relative_error(f.weight.grad, grads(W)) < 1e-13 and relative_error(f.bias.grad, grads(b)) < 1e-13)

# %% [markdown]
# ## Exercises
#
# 1. Draw the graph of L = x x x, computed as (x x) x, and go through it backward for x = 2. How many products does x
#    receive, and what is their sum?
# 2. Give `Value` a method `exp`. What is its slope, and which number that is there already can it use?
# 3. Call `loss.backward()` twice for the neuron of section 2, without setting the gradients to 0 in between. Is dw1
#    twice as large? Why (not)? What does a layer of this package do?
# 4. The target is an input of the graph as well. What is its gradient, and what does its sign say?
# 5. A Linear has 512 rows, 512 inputs and 2,048 outputs. How many values has its graph? How many numbers does the layer
#    save?
#
# The exercises with a checker begin with lesson 01.
