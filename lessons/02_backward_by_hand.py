# %% [markdown]
# # 02 Backward by hand
#
# A network is a chain of layers that ends in one number, the loss L. This lesson derives the backward of two layers,
# line by line, and then checks it numerically.
#
# The gradient of x is written dx and has the shape of x. A layer knows nothing about L. It is given dy, the gradient of
# its output, and it returns dx. This rests on the chain rule: if x_i influences several y_j, these influences add up,
#
#     dL/dx_i = sum over j of (dL/dy_j) (dy_j/dx_i)
#
# ## 1. A Linear
#
# A Linear computes y = x W + b. Let the B = 4 rows of x be shopping baskets with D = 3 kinds of fruit, and let W hold
# the price and the weight of one fruit of each kind. Then y holds F = 2 numbers for each basket, its price and its
# weight. The bias b is the bag.
#
# The loss L is what the four customers pay: the price, of which the last one pays half, and 1, 3, 0 and 2 per kilo for
# delivery. So L is the sum of dy * y with the dy below.

# %% Four baskets, and what they cost
import numpy as np

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, drawing, figure, lesson, predict, show, show_source, slopes

lesson.start(__name__)
x = np.array([[2.0, 0, 1], [0, 3, 1], [1, 1, 0], [4, 0, 0]])            # apples, pears, melons of each basket
W = np.array([[0.5, 0.2], [0.8, 0.3], [3.0, 1.5]])                      # price and weight of each fruit
b = np.array([0.1, 0.05])                                               # price and weight of the bag
dy = np.array([[1.0, 1], [1, 3], [1, 0], [0.5, 2]])                     # what is paid for each unit of price and weight
B, D = x.shape
F = len(b)


def relative_error(a, b):
    """The norm of a - b, divided by the norm of b."""
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


u = x @ W
y = u + b
show(y=y)
print(f"  L = {np.sum(dy * y):.2f}")

# %% [markdown]
# Backward goes through the two lines from the last to the first, and asks where each variable appears.
#
# **y = u + b.** u_nf appears in y_nf only, with derivative 1, so du = dy. b_f appears in output f of every row n:
#
#     db_f = sum over n of dy_nf
#
# **u = x W.** In u_nf = sum over d of x_nd W_df, x_nd appears for every f, with derivative W_df, and W_df appears for
# every n, with derivative x_nd:
#
#     dx_nd = sum over f of du_nf W_df        dx = du Wᵀ
#     dW_df = sum over n of x_nd du_nf        dW = xᵀ du
#
# For example, one more apple in basket 0 costs 1 · 0.5 for the apple and 1 · 0.2 for delivery, so dx_00 = 0.7.

# %% Backward, built and then taken from the package
du = dy                                     # y = u + b
db = dy.sum(0)
dx = du @ W.T                               # u = x @ W
dW = x.T @ du
predict("by how much does L grow if the price of an apple grows by 1?", 5,
        why="It is dW_00 = 2 · 1 + 0 · 1 + 1 · 1 + 4 · 0.5: each basket's apples times what its customer pays.")
show(dx=dx, dW=dW, db=db)
drawing("linear_backward")
show_source(nt.Linear.forward, nt.Linear.backward)
linear = nt.Linear(D, F).astype(np.float64)
linear.weight.data, linear.bias.data = W, b
claim("nt.Linear: forward is equal", relative_error(linear(x), y) < 1e-15)
claim("nt.Linear: dx is equal", relative_error(linear.backward(dy), dx) < 1e-15)
claim("nt.Linear: dW and db are equal",
      relative_error(linear.weight.grad, dW) < 1e-15 and relative_error(linear.bias.grad, db) < 1e-15)
claim("the sums of the derivation give the same dx",
      relative_error(dx, [[sum(dy[n, f] * W[d, f] for f in range(F)) for d in range(D)] for n in range(B)]) < 1e-15)
claim("the sums of the derivation give the same dW",
      relative_error(dW, [[sum(x[n, d] * dy[n, f] for n in range(B)) for f in range(F)] for d in range(D)]) < 1e-15)

# %% [markdown]
# dW contains x, but backward is only given dy. So forward saves x (`remember`), and backward takes it out again
# (`recall`). Gradients of parameters are added to `.grad`. `rows` turns an array of any shape into a list of rows, and
# `sum_over_rows` is our `sum(0)`.
#
# `numpy-transformer explore --lesson 02` opens the same sum in a model that was trained on sentences: the largest entry
# of one dW, one product for each token.
#
# ## 2. Dropout
#
# In training, dropout sets each number to 0 with probability p, so that the next layer cannot rely on any single one
# (Srivastava et al. 2014). After training, nothing is dropped. A number that is kept with probability 1 - p has only
# the mean (1 - p) x in training. Dividing by 1 - p restores the mean (section 10 of the paper):
#
#     y = x * mask / (1 - p)
#
# The mask holds ones and zeros. Each y_i is x_i times a number that does not depend on x, so
#
#     dx = dy * mask / (1 - p)
#
# A number that was dropped had no influence on L, so its gradient is 0. That is why backward needs the mask of its own
# forward.

# %% Dropout, forward and backward
rng = np.random.default_rng(2)
p = 0.25
a = np.array([3.0, -1, 2, 5, 4, -2, 1, 6])
dc = np.array([1.0, 2, -1, 1, 3, 1, -2, 1])                 # the gradient of the output c
mask = rng.random(a.shape) >= p
c = a * mask / (1 - p)                      # x is called a here, and y is called c
da = dc * mask / (1 - p)
show(mask=mask, c=c, da=da)
many = a * (rng.random((100_000, len(a))) >= p) / (1 - p)
claim("the mean over 100,000 masks is the input", np.abs(many.mean(0) - a).max() < 0.1)
show_source(nt.Dropout.forward, nt.Dropout.backward)        # draw returns mask / (1 - p)
layer = nt.Dropout(p, rng=3)
c = layer(a)
kept = c != 0                                               # the mask that it has drawn
claim("it has dropped some numbers and kept others", kept.any() and not kept.all())
claim("nt.Dropout: forward is equal", relative_error(c, a * kept / (1 - p)) < 1e-15)
claim("nt.Dropout: backward is equal", relative_error(layer.backward(dc), dc * kept / (1 - p)) < 1e-15)
claim("after eval() it returns its input", np.array_equal(layer.eval()(a), a))

# %% [markdown]
# ## 3. Three checks
#
# Derivations can be wrong, so we check them against the function itself. Change one number by a small step h, and
# measure how much the function changes. There are three ways, whose errors follow from Taylor's formula:
#
#                                            error
#     forward   (f(x + h) - f(x)) / h        h f''(x) / 2
#     central   (f(x + h) - f(x - h)) / 2h   h² f'''(x) / 6
#     complex   imag(f(x + ih)) / h          -h² f'''(x) / 6
#
# The complex step (Squire and Trapp 1998) adds ih, where i² = -1. The value f(x) stays in the real part of the result,
# and h f'(x) appears in the imaginary part. `slopes` does this for every entry of an array. It needs one forward pass
# for each entry, so we train with backward and only check with `slopes`.

# %% The complex step checks both layers
show_source(slopes)
for name, gradient, loss, point in (("dx", dx, lambda x: np.sum(dy * (x @ W + b)), x),
                                    ("dW", dW, lambda W: np.sum(dy * (x @ W + b)), W),
                                    ("db", db, lambda b: np.sum(dy * (x @ W + b)), b),
                                    ("dropout", da, lambda a: np.sum(dc * a * mask / (1 - p)), a)):
    claim(f"{name} agrees with the complex step", relative_error(gradient, slopes(loss, point)) < 1e-14)
claim("with another mask, the gradient of dropout is wrong",
      relative_error(dc * kept / (1 - p), slopes(lambda a: np.sum(dc * a * mask / (1 - p)), a)) > 0.1)

# %% [markdown]
# ## 4. Which step?
#
# How small should h be? We measure one gradient with many steps: the dW of a Linear that is followed by tanh and the
# cross-entropy of lesson 01.

# %% One gradient, four methods, many steps
DERIVATIVES = {"forward": lambda L, h: (L(h) - L(0)) / h,
               "central": lambda L, h: (L(h) - L(-h)) / (2 * h),
               "complex": lambda L, h: L(1j * h).imag / h}
one_hot = np.eye(F)[[0, 1, 1, 0]]


def chain_loss(x, W, b):
    z = np.tanh(x @ W + b)
    return np.mean(np.log(np.exp(z).sum(-1)) - (z * one_hot).sum(-1))


def measure(method, h, dtype):
    """dL/dW of the chain, entry by entry, computed with numbers of a dtype."""
    gradient = np.zeros(W.shape)
    for at in np.ndindex(W.shape):
        step = np.zeros(W.shape, dtype)
        step[at] = 1
        gradient[at] = DERIVATIVES[method](
            lambda change: chain_loss(x.astype(dtype), W.astype(dtype) + dtype(change) * step, b.astype(dtype)), h)
    return gradient


z = np.tanh(x @ W + b)
dz = (np.exp(z) / np.exp(z).sum(-1, keepdims=True) - one_hot) / B       # cross-entropy
dW_chain = x.T @ (dz * (1 - z ** 2))                                    # tanh, then the Linear
errors_at, curves = {}, {}                  # errors_at[name][5] is the error at h = 1e-5
for name, dtype, powers in (("complex, float64", np.complex128, np.array([*range(17), 100, 200, 320])),
                            ("central, float64", np.float64, np.arange(0, 13.5, 0.5)),
                            ("central, float32", np.float32, np.arange(0, 6.5, 0.5)),
                            ("forward, float64", np.float64, np.arange(0, 13.5, 0.5))):
    errors = [relative_error(measure(name.split(",")[0], float(f"1e-{n}") if n > 16 else 10.0 ** -n, dtype), dW_chain)
              for n in powers]
    errors_at[name] = dict(zip(powers, errors))
    curves[name] = 10.0 ** -powers.astype(float), errors
    print(f"  {name}: smallest error {min(errors):.0e}")
picture = views.step_sizes(curves, mark=1e-5)
picture.axes[0].set(xlim=(1e-17, 4), title="Differences have a best step")
figure("step_size", picture)
exact, central, _, forward = errors_at.values()
claim("a ten times smaller h makes the forward error ten times smaller", 7 < forward[2] / forward[3] < 14)
claim("a ten times smaller h makes the central error a hundred times smaller", 70 < central[2] / central[3] < 140)
claim("the best central step in float64 is near 1e-5", 4 <= min(central, key=central.get) <= 6)
claim("the complex step agrees to 13 digits with h = 1e-10, 1e-100 and 1e-200",
      [exact[n] < 1e-13 for n in (10, 100, 200)])
claim("with h = 1e-320 it is wrong in the eighth digit or earlier", exact[320] > 1e-8, f"error {exact[320]:.0e}")

# %% [markdown]
# The error of a difference has the shape of a U. On the right, h is too large, and we see the errors listed above. On
# the left, h is too small: L is rounded by about eps, the precision of the float type, and the division by h turns this
# into an error of about eps / h.
#
# The central error is thus a h² + b / h, with b near eps. Its derivative 2 a h - b / h² is 0 at h = (b / 2a)^(1/3),
# where the second part is twice the first. If a is near 1, this is near eps^(1/3), which is 6e-6 in float64 and 5e-3 in
# float32. So we use h = 1e-5, and check gradients in float64.
#
# The complex step subtracts nothing, so it loses no digits as h shrinks, as long as h is a normal float. Floats below
# 2.2e-308 are **subnormal**: the smaller they are, the fewer digits they have.
#
# ## 5. Where each method fails
#
# ReLU is max(0, x), which has a kink at 0. If x lies closer to the kink than h, the two points of a central difference
# lie on different sides, and the result mixes both derivatives. A smaller h removes this error.
#
# The complex step never crosses a kink, but it needs a forward that works with complex numbers. `np.abs(z)` returns the
# length of z, a real number, and `z.var()` uses it. Both give the derivative 0 **without a warning**. So use both
# methods, and look closer where they disagree.

# %% A kink, and zeros without a warning
predict("ReLU at x = 3e-6: which derivative does the central difference with h = 1e-5 measure?", 0.65,
        why="The two points are x + h = 1.3e-5, where ReLU is 1.3e-5, and x - h = -0.7e-5, where ReLU is 0. Their "
            "difference divided by 2 h is 1.3 / 2.")
wide, narrow = (DERIVATIVES["central"](lambda step: max(0, 3e-6 + step), h) for h in (1e-5, 1e-6))
claim("h = 1e-5 measures 0.65, h = 1e-6 measures 1", np.allclose([wide, narrow], [0.65, 1]))
claim("for a.var() and np.abs(a) the complex step measures zeros",
      not np.any([slopes(np.var, a), slopes(lambda a: np.abs(a).sum(), a)]))
claim("for a variance that is written out, it measures 2 (a - mean) / n",
      relative_error(slopes(lambda a: ((a - a.mean()) ** 2).mean(), a), 2 * (a - a.mean()) / len(a)) < 1e-14)

# %% [markdown]
# ## 6. gradcheck
#
# `nt.gradcheck(layer, *inputs)` compares backward with both methods, for every input and every parameter, with random
# parameters and a random dy. Why random? The wrong Linear below forgets to transpose W. A test in which W is the
# identity matrix cannot see that.

# %% Two mistakes
class NoTranspose(nt.Linear):
    def backward(self, dy):
        super().backward(dy)
        return dy @ self.weight.data


class OneEntry(nt.Linear):
    def backward(self, dy):
        dx = super().backward(dy)
        dx[1, 2] *= 1.01
        return dx


layer = NoTranspose(D, D).astype(np.float64)
layer.weight.data = np.eye(D)
layer(x)
claim("with W = identity, the wrong dx is right", np.array_equal(layer.backward(x), x @ np.eye(D).T))
right, wrong, entry = (nt.gradcheck(layer, x) for layer in (nt.Linear(D, F), layer, OneEntry(D, F)))
print(right, wrong, entry, sep="\n")
claim("gradcheck accepts nt.Linear", right.ok)
claim("it rejects the missing transpose, in dx only", [row.ok for row in wrong.rows] == [False, True, True])
claim("it names a single entry that is wrong by one percent", not entry.ok and entry.rows[0].index == (1, 2))

# %% [markdown]
# ## 7. Saved values form a stack
#
# A layer may be used twice in one forward pass. Then it has saved two inputs, and the first backward call belongs to
# its last forward call: last in, first out. With room for only one input, dW would be wrong without an error message.

# %% One Linear, used twice
W_shared = rng.standard_normal((D, D))
shared = nt.Linear(D, D, bias=False).astype(np.float64)
shared.weight.data = W_shared
dz = rng.standard_normal((B, D))
h = np.tanh(shared(x))
shared(h)
dh = shared.backward(dz)
shared.backward(dh * (1 - h ** 2))
numeric = slopes(lambda W: np.sum(dz * (np.tanh(x @ W) @ W)), W_shared)
claim("dW is the sum over both uses", relative_error(shared.weight.grad, numeric) < 1e-13)
claim("with room for one input only, dW would be wrong",
      relative_error(h.T @ dz + h.T @ (dh * (1 - h ** 2)), numeric) > 0.01)

# %% [markdown]
# ## Exercises
#
# 1. A Linear is applied to x of shape (B, T, D). Over which axes does db sum, and why over those?
# 2. The backward of a residual connection, y = x + f(x), is written as `1 + f.backward(dy)`. For which dy does a check
#    miss the mistake?
# 3. Let L = 1000 + f(x), where f is of size 1. Which arm of the U moves, and where does the best step go?
# 4. If a layer could save only one input, dx in section 7 would still be right. Why?
# 5. forward computes `scores / 8` instead of `scores / sqrt(8)`, and backward matches it. What does gradcheck say?
#
# With a checker (`numpy-transformer exercise start my-exercises 02`): 02.1, 02.2, 02.3.
