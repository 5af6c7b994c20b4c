# %% [markdown]
# # 00c From scalars to arrays
#
# The class `Value` of lesson 00b finds the gradients of any expression, one number at a time. For the millions of
# numbers of a network, that would be far too slow. NumPy computes with whole arrays instead. This lesson has the same
# network twice: with scalars, and with arrays, whose backward is written by hand, as in every layer of this package.
#
# The cell below repeats `Value` in short form. The three functions under it lead from arrays of numbers to arrays of
# values and back.

# %% Values, as in lesson 00b
import math
import time

import numpy as np
from matplotlib.figure import Figure

import numpy_transformer as nt
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source

lesson.start(__name__)


class Value:
    """A number that knows its sources, and its derivative with respect to each of them."""

    def __init__(self, number, sources=(), slopes=()):
        self.number, self.sources, self.slopes, self.grad = number, sources, slopes, 0.0

    def __add__(self, other):
        return Value(self.number + other.number, (self, other), (1.0, 1.0))

    def __mul__(self, other):
        return Value(self.number * other.number, (self, other), (other.number, self.number))

    def tanh(self):
        y = math.tanh(self.number)
        return Value(y, (self,), (1 - y * y,))

    def visit(self, ordered, seen):
        """Appends the values on which this one depends to `ordered`, each after its sources, and then this one."""
        if self not in seen:
            seen.add(self)
            for source in self.sources:
                source.visit(ordered, seen)
            ordered.append(self)

    def backward(self):
        self.grad = 1.0
        ordered = []
        self.visit(ordered, set())
        for value in reversed(ordered):
            for source, slope in zip(value.sources, value.slopes):
                source.grad += value.grad * slope


def values(array):
    """A Value for each number, in an array of the same shape."""
    return np.vectorize(Value, otypes=[object])(array)              # calls Value for each number


def grads(values):
    return np.vectorize(lambda value: value.grad)(values)


def relative_error(a, b):
    """The norm of a - b (the root of the sum of all squares), divided by the norm of b."""
    return np.linalg.norm(a - b) / np.linalg.norm(b)


#             apples  pears  cherries
x = np.array([[2.0,   1.0,   0.5],                  # one order of shopper 0
              [1.0,   0.0,   2.0]])                 # one order of shopper 1
#             shop 0  shop 1
W = np.array([[3.0,   2.0],                         # price of apples
              [4.0,   5.0],                         # of pears
              [8.0,   9.0]])                        # of cherries
b = np.array([1.0, 2.5])                            # delivery
dy = np.array([[1.0, 3.0],                          # orders of shopper 0 in each shop
               [2.0, 1.0]])                         # orders of shopper 1

# %% [markdown]
# ## 1. The gradient of an array
#
# Two shoppers buy three kinds of fruit in two shops. The array x has the kilograms of one order, with a row for each
# shopper. W has the price of each kind in each shop, and b the delivery fee of each shop. In shop 0 an order of shopper
# 0 costs y_00 = 1 + 2 · 3 + 1 · 4 + 0.5 · 8 = 15, which is the fee b_0 plus row 0 of x times column 0 of W. The matrix
# product gives all four bills at once: y = x @ W + b. A layer that computes this is called **Linear**.
#
# (The numbers stand above.) Shopper 0 orders once in shop 0, so the total L of all orders contains
# 1 · y_00, and if this bill rises by h, L rises by 1 h. In general L = the sum of orders_nf y_nf over the shoppers n
# and the shops f. So the derivative of L with respect to y_nf is the number of orders, and we call this array dy.
#
# The **gradient of an array** is an array of the same shape. Each of its entries is the derivative of L with respect to
# the entry in the same place. dW, for example, says for each price how much the total rises if this price rises by 1.
#
# The graph of values has an arrow for each use of a value, and backward adds up what comes along the arrows. So we
# ask how often each entry is used:
#
# * The fee b_f is used in the bills of both shoppers: NumPy repeats it for each row (**broadcasting**). So db_f is a
#   sum over the rows, the number of orders in shop f.
# * The price W_kf, which is W[k, f], is used in both rows, multiplied by x_nk. So dW_kf is the sum over n of
#   x_nk dy_nf, the kilograms of kind k that shop f sells.
# * The amount x_nk is used in both shops. So dx_nk is the sum over f of dy_nf W_kf, the cost of one more kilogram in
#   each order of shopper n.
#
# For example, dW_01 = 2 · 3 + 1 · 1 = 7, which is column 0 of x times column 1 of dy. A matrix product multiplies rows
# by columns, so x has to be transposed, its columns made rows: dW = x.T @ dy. As in lesson 00b, what was used several
# times receives a sum.

# %% Forward and backward in four lines, and the graph that they replace
drawing("scalars_and_arrays")


def linear(x, W, b):
    """The outputs of a Linear in plain loops, for numbers and for values."""
    y = np.empty((len(x), len(b)), dtype=object)
    for n, f in np.ndindex(y.shape):
        y[n, f] = b[f]
        for k in range(len(W)):
            y[n, f] = y[n, f] + x[n, k] * W[k, f]
    return y


predict("Shop 0 raises its fee b_0 by 1. By how much does the total L rise?", 3,
        why="The fee is paid once for each order in this shop: one of shopper 0 and two of shopper 1.")
y = x @ W + b                               # forward
db = dy.sum(axis=0)                         # b was added to every row
dW = x.T @ dy                               # W multiplied every row of x
dx = dy @ W.T                               # each x_nk was multiplied by row k of W
show(y=y, db=db, dW=dW, dx=dx)
scalars = values(x), values(W), values(b)
L = sum((linear(*scalars) * values(dy)).ravel(), Value(0.0))
L.backward()
claim("the graph of scalars has the same total", L.number == (dy * y).sum(), f"{L.number}")
for name, array, gradient, graph in zip(("dx", "dW", "db"), (x, W, b), (dx, dW, db), scalars):
    claim(f"{name} has the shape of its array, and equals the gradients of the graph",
          gradient.shape == array.shape and relative_error(gradient, grads(graph)) < 1e-15)

# %% [markdown]
# ## 2. A network, twice
#
# Now two Linears with a tanh between them learn whether a point lies inside a circle. There are 100 points in the
# plane, and the target is 1 inside and -1 outside. Between the Linears there are 8 features. The loss is the mean of
# the squared errors.
#
# The first version works with scalars. It makes a value for every number in every step. The second has five lines
# forward. Its backward is read from the last of these lines to the first, and each line stands under the forward line
# to which it belongs. tanh treats each entry separately, so its backward does that too, with the product `*` in place
# of `@`. Training is plain gradient descent: each parameter moves by -lr times its gradient.

# %% The scalar version and the array version
def with_scalars(points, target, W1, b1, W2, b2):
    """The loss and the gradients of the four parameters."""
    parameters = [values(parameter) for parameter in (W1, b1, W2, b2)]
    h = np.vectorize(Value.tanh)(linear(values(points), *parameters[:2]))
    r = linear(h, *parameters[2:]) + values(-target)
    loss = sum((r * r).ravel(), Value(0.0)) * Value(1 / len(points))
    loss.backward()
    return loss.number, [grads(parameter) for parameter in parameters]


def with_arrays(points, target, W1, b1, W2, b2):
    """The same without a graph."""
    u = points @ W1 + b1
    h = np.tanh(u)
    y = h @ W2 + b2
    r = y - target
    loss = (r * r).mean()
    # loss = (r * r).mean(): r appears twice, and the mean divides by the number of entries
    dr = 2 * r / r.size
    # r = y - target
    dy = dr
    # y = h @ W2 + b2
    db2 = dy.sum(axis=0)
    dW2 = h.T @ dy
    dh = dy @ W2.T
    # h = np.tanh(u)
    du = dh * (1 - h * h)
    # u = points @ W1 + b1
    db1 = du.sum(axis=0)
    dW1 = points.T @ du
    return loss, [dW1, db1, dW2, db2]


rng = np.random.default_rng(0)
points = rng.uniform(-1, 1, (100, 2))
target = np.where((points ** 2).sum(axis=1, keepdims=True) < 0.5, 1.0, -1.0)
start = [rng.standard_normal(shape) for shape in ((2, 8), 8)] + [rng.standard_normal((8, 1)) / 3, np.zeros(1)]
predict("What is the shape of dW1?", (2, 8), why="It has the shape of W1: 2 coordinates and 8 features.")


def train(version, steps, lr=0.1):
    """The losses, the gradients of each step, and the shortest time of a step."""
    parameters = [parameter.copy() for parameter in start]
    losses, gradients, seconds = [], [], []
    for _ in range(steps):
        began = time.perf_counter()
        loss, step_gradients = version(points, target, *parameters)
        seconds.append(time.perf_counter() - began)
        for parameter, gradient in zip(parameters, step_gradients):
            parameter -= lr * gradient
        losses.append(loss)
        gradients.append(np.concatenate([gradient.ravel() for gradient in step_gradients]))
    return np.array(losses), np.array(gradients), min(seconds)


slow_losses, slow_gradients, slow = train(with_scalars, 20)
fast_losses, fast_gradients, fast = train(with_arrays, 20)
claim("in each of 20 steps both versions have the same loss", relative_error(slow_losses, fast_losses) < 1e-12)
claim("and the same gradient of each of the 33 parameters", slow_gradients.shape == (20, 33) and max(
    relative_error(a, b) for a, b in zip(slow_gradients, fast_gradients)) < 1e-12)
# The factor, slow / fast, varies from run to run, so it is rounded down to a power of ten, and to 100 if it is larger.
print(f"  The array version is more than {10 ** min(2, math.floor(math.log10(slow / fast)))} times as fast.")
losses = train(with_arrays, 2000)[0]
claim("the loss falls", losses[-1] < losses[0] / 2, f"from {losses[0]:.2f} to {losses[-1]:.2f} in 2,000 steps")

# %% The losses of both versions
picture = Figure(figsize=(8, 4.2), layout="constrained")
axes = picture.subplots()
axes.semilogx(range(1, 2001), losses, "C0-", linewidth=2, label="arrays, 2,000 steps")
axes.semilogx(range(1, 21), slow_losses, "C1o", markersize=6, label="scalars, 20 steps")
axes.set(xlabel="step", ylabel="loss", title="The same network with scalars and with arrays")
axes.grid(alpha=0.3)
axes.legend()
figure("losses", picture)

# %% [markdown]
# The array version does the same arithmetic in a few long loops inside NumPy. Its price is that you have to find
# backward yourself. Lesson 02 shows how to derive and check it.
#
# ## 3. A layer: forward and backward in one class
#
# Real networks have many Linears, so we write the lines once and put them into a class. The source printed below is the
# package's `nt.Linear`. `rows(x)` is x as a matrix, whatever axes x has before its last one, and `sum_over_rows` is the
# sum over the rows of such a matrix. Four things in it replace the graph:
#
# * **remember and recall.** Backward needs x, so forward saves it with `remember`, and backward takes it out with
#   `recall`. The saved values form a stack: recall takes out what was saved last. So a layer can be used twice in one
#   forward pass, because backward visits the uses in the reverse order.
# * **The order.** There is no list of values. You call the backwards in the reverse order of the forwards.
# * **`+=`.** A layer adds to the `.grad` of its parameters, as a value does, because it may have been used twice.
# * **zero_grad.** For the same reason, the gradients of the previous step have to be cleared before the next one.
#
# The gradient of x is not stored. Backward returns it, and the layer before takes it as its dy.

# %% The package's Linear, and a tanh of our own
show_source(nt.Linear.forward, nt.Linear.backward)           # layer(x) calls layer.forward(x)


class Tanh(nt.Module):
    def forward(self, x):
        y = np.tanh(x)
        self.remember(y)
        return y

    def backward(self, dy):
        y = self.recall()
        return dy * (1 - y * y)


up, tanh, down = nt.Linear(2, 8).astype(np.float64), Tanh(), nt.Linear(8, 1).astype(np.float64)
up.weight.data, up.bias.data, down.weight.data, down.bias.data = start
y = down(tanh(up(points)))                          # forward from the first layer to the last
dy = 2 * (y - target) / y.size
up.backward(tanh.backward(down.backward(dy)))       # backward from the last to the first
grad = np.concatenate([p.grad.ravel() for p in (up.weight, up.bias, down.weight, down.bias)])
claim("the layers give the gradients of the graph", relative_error(grad, slow_gradients[0]) < 1e-12)
once = up.weight.grad.copy()
predict("We run forward and backward again without zero_grad. By which factor does up.weight.grad grow?", 2,
        why="Backward adds the same gradient once more to the one that is already there. (In exercise 3 of 00b "
            "the graph gave 7, because it also kept the gradients in the middle. A layer keeps only its parameters'.)")
down(tanh(up(points)))
up.backward(tanh.backward(down.backward(dy)))
claim("without zero_grad the gradient has doubled", relative_error(up.weight.grad, 2 * once) < 1e-14)

# %% [markdown]
# **Used twice.** In y = f(f(x)), the same Linear is used two times, and so it saves two inputs. The first backward
# takes out the input of the second use. The gradients of both uses end up in the same `.grad`.
#
# Where an **array** is used twice, no layer adds up for you. In y = x + f(x), the gradient dy reaches x directly and a
# second time through f, so you write dx = dy + f.backward(dy).

# %% A layer that is used twice, and an array that is used twice
f = nt.Linear(3, 3, rng=1).astype(np.float64)
x, dy = rng.standard_normal((2, 4, 3))


def gradients_of_graph(compute):
    """dx and dW for L = the sum of dy y, where y is computed from values."""
    X, W, b = values(x), values(f.weight.data), values(f.bias.data)
    sum((compute(X, W, b) * values(dy)).ravel(), Value(0.0)).backward()
    return grads(X), grads(W)


f(f(x))
dx = f.backward(f.backward(dy))
dX, dW = gradients_of_graph(lambda x, W, b: linear(linear(x, W, b), W, b))
claim("y = f(f(x)): dx is right, and so is dW, the sum of both uses",
      relative_error(dx, dX) < 1e-13 and relative_error(f.weight.grad, dW) < 1e-13)
f(x)
dx = dy + f.backward(dy)
dX, dW = gradients_of_graph(lambda x, W, b: x + linear(x, W, b))
claim("y = x + f(x): dx = dy + f.backward(dy)", relative_error(dx, dX) < 1e-13)
claim("without the first dy, it would be wrong", relative_error(dx - dy, dX) > 0.1)

# %% [markdown]
# **Not used at all.** In lesson 00 a mask gave later tokens the weight 0. The output of the first token, y[0] = the sum
# of P[0, s] v[s] over all tokens s, then stays the same whatever the value of a later token is. So if L depends on y[0]
# alone, it does not react to v[1] and v[2], and their gradients are 0. Backward says the same: v[s] gets P[0, s] dy[0],
# here 0 dy[0]. This is why a mask makes gradients exactly zero. The same holds for its key: the mask replaces its
# score, whatever that was. But y[2] sees v[2], so a loss that uses y[2] gives v[2] a gradient.

# %% A mask makes a gradient zero
later = np.triu(np.ones((3, 3), bool), 1)           # True where token s is later than token t


def weights(scores):
    A = np.exp(np.where(later, -np.inf, scores))
    return A / A.sum(axis=1, keepdims=True)


scores, v = rng.standard_normal((3, 3)), rng.standard_normal((3, 2))
P = weights(scores)
other_scores, other_v = scores.copy(), v.copy()
other_scores[:, 2], other_v[2] = 100.0, 100.0       # as if token 2 had another key and another value
claim("another key and value of token 2 leave the output of token 0 as it is",
      (weights(other_scores) @ other_v)[0] == (P @ v)[0])
dy = np.zeros((3, 2))
dy[0] = 1.0                                         # L is the sum of the numbers in y_0
dv = P.T @ dy
show(P=P, dv=dv)
claim("so the gradients of the values of tokens 1 and 2 are exactly 0", dv[1:] == 0)
dy[2] = 1.0                                         # L depends on y_2 as well, and token 2 sees itself
dv_with_y2 = P.T @ dy
show(dv_with_y2=dv_with_y2)
claim("from y_2, the value of token 2 does receive a gradient", dv_with_y2[2] == P[2, 2])

# %% [markdown]
# ## Exercises
#
# 1. In section 1, shopper 0 begins to order 2 more times in shop 1. Which entries of db, dW and dx change, and by how
#    much?
# 2. x has the shape (4, 3), and y = 5 x + c, where c has the shape (3,). Write backward: dx and dc.
# 3. Someone writes `db = dy.mean(axis=0)`. By which factor is db wrong? Would it be right if the loss were a mean over
#    the rows?
# 4. A Linear has 512 rows, 512 inputs and 2,048 outputs. How many products and how many sums has its graph? How many
#    numbers does the layer save?
# 5. Call `f.backward(dy)` twice after a single forward. What happens? What would the graph of 00b do?
