# %% [markdown]
# # 02 Backward by hand
#
# A network is a chain of functions that ends in one number, the loss L. To train it, we need to know for every number
# in the network: if it grew a little, how much would L change? **Backward** is the procedure that computes these
# derivatives. Lesson 00b shows it on a graph of single numbers; here the numbers are arrays. The derivatives of L with
# respect to all entries of an array form the gradient of that array.
#
# The gradient of `x` is written `dx` and has the shape of x. A layer knows nothing about L. It is given `dy`, the
# gradient of its output. It returns `dx`, the gradient of its input, and adds the gradients of its parameters to their
# `.grad`. All of this rests on the chain rule: if x_i influences several y_j, these influences add up,
#
#     dL/dx_i = sum over j of (dL/dy_j) (dy_j/dx_i)
#
# For example, let x influence y_1 = 2 x and y_2 = 5 x, and let dy = (3, 1). Then dx = 3 · 2 + 1 · 5 = 11.
#
# This lesson derives the backward of one layer line by line and then checks it numerically. By the end you will be able
# to do both for a layer of your own. It takes about 15 minutes.

# %% A Linear with random weights, and a loss with a known dy
import numpy as np

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.course import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(2)
N, D, F = 5, 4, 3                           # rows, inputs, outputs: all different, so that a wrong transpose shows
linear = nt.Linear(D, F, rng=rng).astype(np.float64)
linear.bias.data = rng.standard_normal(F)
W, b = linear.weight.data, linear.bias.data
x, dy = rng.standard_normal((N, D)), rng.standard_normal((N, F))
y = linear(x)                               # our loss L is the sum of dy * y, so the gradient of y is dy
show(x=x, W=W, b=b, y=y, dy=dy)


def relative_error(a, b):
    """The norm of a - b, divided by the norm of b."""
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


claim("forward: y_nf = b_f + sum over d of x_nd W_df", relative_error(
    y, [[b[f] + sum(x[n, d] * W[d, f] for d in range(D)) for f in range(F)] for n in range(N)]) < 1e-14)

# %% [markdown]
# ## 1. The gradients of a Linear
#
# Look at the forward line, y_nf = b_f + sum over d of x_nd W_df, and ask where each variable appears in it.
#
# x_nd appears in every output f of row n, with derivative W_df:
#
#     dx_nd = sum over f of dy_nf W_df        dx = dy Wᵀ
#
# W_df appears in output f of every row n, with derivative x_nd:
#
#     dW_df = sum over n of x_nd dy_nf        dW = xᵀ dy
#
# b_f appears in output f of every row n, with derivative 1:
#
#     db_f = sum over n of dy_nf
#
# The formula of dW contains x, but backward is only given dy. So forward saves x (`remember`), and backward takes it
# out again (`recall`).

# %% Each line of the derivation as a claim
dx = linear.backward(dy)
dx_loops = [[sum(dy[n, f] * W[d, f] for f in range(F)) for d in range(D)] for n in range(N)]
dW_loops = [[sum(x[n, d] * dy[n, f] for n in range(N)) for f in range(F)] for d in range(D)]
db_loops = [sum(dy[:, f]) for f in range(F)]
claim("dx = dy Wᵀ", relative_error(dx, dx_loops) < 1e-14)
claim("dW = xᵀ dy", relative_error(linear.weight.grad, dW_loops) < 1e-14)
claim("db = the sum of dy over the rows", relative_error(linear.bias.grad, db_loops) < 1e-14)

# %% [markdown]
# The same sum in a model that was trained on sentences: `numpy-transformer explore --lesson 02` opens the largest
# entry of one dW in your browser, spelled out with its numbers, one product for each token. Which token contributes
# most, and why does the last one contribute nothing?
#
# ## 2. Checking against the function itself
#
# Derivations can be wrong, so we need a check that does not depend on them. The function itself provides one: change
# one entry by a small step h, and measure how much L changes. Taylor's formula gives three ways to do it:
#
#     f(x + h) = f(x) + h f'(x) + h² f''(x) / 2
#                + h³ f'''(x) / 6 + ...
#
#     forward difference   (f(x + h) - f(x)) / h
#                          = f'(x) + h f''(x) / 2 + ...
#     central difference   (f(x + h) - f(x - h)) / (2 h)
#                          = f'(x) + h² f'''(x) / 6 + ...
#     complex step         imaginary part of f(x + i h) / h
#                          = f'(x) - h² f'''(x) / 6 + ...
#
# Try it with f(x) = x³ at x = 2, where f'(x) = 12. With h = 0.1 the forward difference gives 12.61, the central
# difference 12.01, and the complex step 11.99.
#
# The complex step changes x by i h, where i² = -1. The value f(x) stays in the real part of the result, and h f'(x)
# appears in its imaginary part.
#
# These methods need one or two forward passes for every entry. A single backward pass gives all entries at the cost of
# about two forward passes. So we train with backward, and use the numerical methods only to check it. The next cell
# checks a chain of three layers: up, ReLU, down. Its backward calls the layers in the reverse order.

# %% Central differences confirm a chain of three layers
DERIVATIVES = {"forward": lambda L, h: (L(h) - L(0)) / h,
               "central": lambda L, h: (L(h) - L(-h)) / (2 * h),
               "complex": lambda L, h: L(1j * h).imag / h}


def measure(method, loss, x, h):
    """Return dL/dx, measured entry by entry. loss() reads the array x, one entry of which is changed and restored."""
    def changed(step):
        original = x[at]
        x[at] = original + step
        value = loss()
        x[at] = original
        return value

    gradient = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        gradient[at] = DERIVATIVES[method](changed, h)
    return gradient


up, relu, down = linear, nt.ReLU(), nt.Linear(F, 6, rng=rng).astype(np.float64)
up.zero_grad()
u = up(x)
dz = rng.standard_normal(down(relu(u)).shape)
da = down.backward(dz)
du = relu.backward(da)
dx = up.backward(du)
claim("ReLU passes the gradient where its input was positive, and stops it elsewhere",
      np.array_equal(du, [[da[n, f] if u[n, f] > 0 else 0 for f in range(F)] for n in range(N)]))
for layer in (up, relu, down):
    layer.eval()                            # in eval mode forward saves nothing, because no backward will follow
for name, array, gradient in (("dx", x, dx), ("dW of up", W, up.weight.grad), ("db of up", b, up.bias.grad)):
    error = relative_error(gradient, measure("central", lambda: np.sum(dz * down(relu(up(x)))), array, 1e-5))
    claim(f"{name} agrees with central differences", error < 1e-8, f"relative error {error:.0e}")

# %% [markdown]
# ## 3. Which step?
#
# How small should h be? We measure one gradient with four methods and many steps. The network is a smooth one, with a
# GELU and a cross-entropy loss. A piecewise linear network would not be suitable, because even a large h measures its
# derivative exactly.

# %% One gradient, four methods, many steps
model = nt.FeedForward(D, 6, "gelu", rng=3).astype("f8")
criterion = nt.CrossEntropyLoss()
targets = [3, 0, 2, 2, 1]
criterion(model(x), targets)
model.backward(criterion.backward())
criterion.eval()
errors_at = {}                              # errors_at[name][5] is the error at h = 1e-5
curves = {}
for name, dtype, powers in (("complex, float64", "c16", np.array([*range(17), 100, 200.0])),
                            ("central, float64", "f8", np.arange(0, 13.5, 0.5)),
                            ("central, float32", "f4", np.arange(0, 6.5, 0.5)),
                            ("forward, float64", "f8", np.arange(0, 13.5, 0.5))):
    network = nt.FeedForward(D, 6, "gelu", rng=3).astype(dtype).eval()
    inputs = x.astype(dtype)
    method = name.split(",")[0]
    steps = 10 ** -powers
    errors = [relative_error(measure(method, lambda: criterion(network(inputs), targets), network.up.weight.data, step),
                             model.up.weight.grad) for step in steps]
    errors_at[name] = dict(zip(powers, errors))
    curves[name] = steps, errors
    print(f"  {name}: smallest error {min(errors):.1e} at h = 1e-{powers[np.argmin(errors)]:g}")
picture = views.step_sizes(curves, mark=1e-5)
picture.axes[0].set(xlim=(1e-17, 4), title="Differences have a best step; the complex step needs none")
figure("step_size", picture)

# %% [markdown]
# The error of a difference has the shape of a U. On the right arm h is too large: the error consists of the Taylor
# terms that were left out, and these fall with h (forward) or h² (central). On the left arm h is too small: L is
# rounded by about eps, the precision of the float type, and division by h turns this into an error of eps / h.
#
# The minimum of the central U lies where the two errors are equal, h² = eps / h, so at h = eps^(1/3). In float64 eps is
# 2.2e-16 and the best step 6e-6; in float32 eps is 1.2e-7 and the best step 5e-3. This is why we use h = 1e-5, and why
# gradients are checked in float64 even if training runs in float32.
#
# The complex step has no left arm. Nothing is subtracted, so no digits are lost, however small h is.

# %% What the picture shows, as claims
exact, central, _, forward = errors_at.values()
claim("a ten times smaller h makes the forward error ten times smaller", 7 < forward[1] / forward[2] < 14)
claim("a ten times smaller h makes the central error a hundred times smaller", 70 < central[1] / central[2] < 140)
claim("the best central step in float64 is near 1e-5", 4 <= min(central, key=central.get) <= 6)
claim("central differences with h = 1e-5 agree with backward to nine digits", central[5] < 1e-9)
claim("the complex step agrees to 14 digits with h = 1e-10, 1e-100 and 1e-200",
      [exact[n] < 1e-14 for n in (10, 100, 200)])

# %% [markdown]
# ## 4. Where each method fails
#
# ReLU has a kink at 0. If x lies closer to the kink than h, the two points of a central difference lie on different
# sides, and the result mixes both derivatives. A smaller h removes this error. It would not remove the error of a wrong
# backward, so the two can be told apart.
#
# The complex step leaves the real part unchanged and never crosses a kink. But it needs a forward that works with
# complex numbers. `np.abs(z)` returns the length of z, a real number, and `x.var()` uses it. Both give the derivative 0
# **without a warning**.
#
# So use both methods. Differences work with any code, the complex step gives all digits, and where they disagree, you
# have found one of these traps.

# %% A kink, and zeros without a warning
predict("ReLU at x = 3e-6: which derivative does the central difference with h = 1e-5 measure?", 0.65,
        why="The two points are x + h = 1.3e-5, where ReLU is 1.3e-5, and x - h = -0.7e-5, where ReLU is 0. Their "
            "difference divided by 2 h is 1.3 / 2.")
near = np.array([3e-6])
z = rng.standard_normal(7).astype(complex)
measured = [DERIVATIVES[method](lambda step: relu(near + step)[0], h) for method, h in
            (("central", 1e-5), ("central", 1e-6), ("complex", 1e-100))]
claim("ReLU at 3e-6: h = 1e-5 measures 0.65; h = 1e-6 and the complex step measure 1",
      np.allclose(measured, [0.65, 1, 1]))
zeros = [measure("complex", lambda: f(z), z, 1e-100) for f in (np.var, lambda z: np.abs(z).sum())]
claim("for x.var() and np.abs(x) the complex step measures zeros", not np.any(zeros))
written_out = measure("complex", lambda: ((z - z.mean()) ** 2).mean(), z, 1e-100)
claim("for a variance that is written out, it measures 2 (x - mean) / n",
      relative_error(written_out, 2 * (z - z.mean()).real / 7) < 1e-14)

# %% [markdown]
# ## 5. gradcheck
#
# `nt.gradcheck(layer, *inputs)` runs both checks for every input and every parameter of a layer, with random parameters
# and a random dy.
#
# Why random? Take a LayerNorm (lesson 08): y = gamma x_hat with x_hat = (x - mean) / σ, where mean and σ are those of
# each row. The wrong one below forgets that σ depends on x. With gamma = 1 and dy = 1, a common choice in tests, its dx
# is zero. The true dx is zero as well, so the test passes. Random numbers reveal the mistake. The columns of the report
# are relative errors.

# %% A right LayerNorm, a wrong one, and a single wrong entry
class NoVariance(nt.LayerNorm):
    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        self.gamma.grad += (dy * x_hat).sum(0)
        g = dy * self.gamma.data
        return (g - g.mean(-1, keepdims=True)) * inverse_std        # the term "- x_hat * mean(g x_hat)" is missing


class OneEntry(nt.Linear):
    def backward(self, dy):
        dx = super().backward(dy)
        dx[1, 2] *= 1.01
        return dx


norm = NoVariance(D, bias=False).astype("f8")
right, wrong, entry = (nt.gradcheck(layer, x) for layer in (nt.LayerNorm(D, bias=False), norm, OneEntry(D, F)))
print(right, wrong, entry, sep="\n")
claim("the right LayerNorm passes", right.ok)
claim("the wrong one fails, in dx only", [row.ok for row in wrong.rows] == [False, True])
claim("a single entry that is wrong by one percent is found and named", not entry.ok and entry.rows[0].index == (1, 2))
norm(x)
dx = norm.backward(np.ones_like(x))
numeric = measure("central", lambda: norm.eval()(x).sum(), x, 1e-5)
claim("with gamma = 1 and dy = 1 the wrong one looks right: backward and differences both give 0",
      np.allclose([dx, numeric], 0, atol=1e-9))

# %% [markdown]
# ## 6. Saved values form a stack
#
# A layer may be used twice in one forward pass. Then it has saved two inputs, and the first backward call belongs to
# its last forward call: last in, first out. This is why the saved values are kept on a stack. If there were room for
# only one, both backward calls would see the last input, and the result would be wrong without an error message.

# %% One Linear, used twice
shared = nt.Linear(D, D, rng=4).astype(np.float64)
relu = nt.ReLU()
dy = rng.standard_normal((N, D))
a = relu(shared(x))
y = shared(a)
dh = relu.backward(shared.backward(dy))
shared.backward(dh)
numeric = measure("central", lambda: np.sum(dy * shared.eval()(relu.eval()(shared(x)))), shared.weight.data, 1e-5)
claim("dW is the sum over both uses, aᵀ dy + xᵀ dh", relative_error(shared.weight.grad, a.T @ dy + x.T @ dh) < 1e-14)
claim("central differences agree", relative_error(shared.weight.grad, numeric) < 1e-8)
claim("with room for one input only, dW would be aᵀ dy + aᵀ dh, which is wrong",
      relative_error(a.T @ dy + a.T @ dh, numeric) > 0.1)

# %% [markdown]
# ## Exercises
#
# 1. A Linear is applied to x of shape (B, T, D). Over which axes does db sum, and why over those?
# 2. The backward of a residual connection, y = x + f(x), is written as `1 + f.backward(dy)`. For which dy does a check
#    miss the mistake?
# 3. Let L = 1000 + f(x), where f is of size 1. Which arm of the U moves, and where does the best step go?
# 4. If a layer could save only one input, dx in section 6 would still be right. Why?
# 5. forward computes `scores / 8` instead of `scores / sqrt(8)`, and backward matches it. What does gradcheck say?
#
# With a checker (`numpy-transformer exercise check 02.1` and so on): 02.1, 02.2, 02.3.
