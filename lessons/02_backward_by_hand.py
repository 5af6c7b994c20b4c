# %% [markdown]
# # 02 Backward by hand
#
# A network is a chain of functions that ends in one number, the loss L. Training asks of every number in the
# network: if it grew a little, how much would L change? That is a derivative. The derivatives of L in all
# entries of an array are its gradient, and **backward** is the procedure that computes the gradients.
#
# The gradient of `x` is written `dx` and has the shape of x. A layer does not know L. It is told `dy`, the
# gradient of its output, returns `dx`, the gradient of its input, and adds the gradients of its parameters to
# their `.grad`. Behind it is the chain rule: where x_i has an influence on several y_j, the influences add up,
# dL/dx_i = sum over j of (dL/dy_j) times (slope of y_j in x_i). This lesson derives one layer line by line, then
# lets numbers decide about it. Afterwards you can do both for a layer of your own. About 15 minutes.

# %% A Linear with random weights, and a loss with a known dy
import numpy as np

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.classroom import claim, figure, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(2)
N, D, F = 5, 4, 3                           # rows, inputs, outputs: all different, so that a transpose shows
linear = nt.Linear(D, F, rng=rng).astype(np.float64)
linear.bias.data = rng.standard_normal(F)
W, b = linear.weight.data, linear.bias.data
x, dy = rng.standard_normal((N, D)), rng.standard_normal((N, F))
y = linear(x)                               # L is the sum of dy * y, so the gradient of y is dy
show(x=x, W=W, b=b, y=y, dy=dy)


def apart(a, b):                            # their distance, relative to the size of b
    return np.linalg.norm(a - np.asarray(b)) / np.linalg.norm(b)


claim("forward: y_nf = b_f + sum over d of x_nd W_df",
      apart(y, [[b[f] + sum(x[n, d] * W[d, f] for d in range(D)) for f in range(F)] for n in range(N)]) < 1e-14)

# %% [markdown]
# ## 1. The gradients of a Linear
#
# Look at the forward line, y_nf = b_f + sum over d of x_nd W_df, and ask where each letter occurs in it:
#
# * x_nd occurs in every output f of row n, with slope W_df:   dx_nd = sum over f of dy_nf W_df,   dx = dy Wᵀ
# * W_df occurs in output f of every row n, with slope x_nd:   dW_df = sum over n of x_nd dy_nf,   dW = xᵀ dy
# * b_f occurs in output f of every row n, with slope 1:       db_f = sum over n of dy_nf
#
# dW needs x, which only forward has seen. So forward **remembers** x and backward **recalls** it.

# %% Each line of the derivation as a claim
dx = linear.backward(dy)
dx_loops = [[sum(dy[n, f] * W[d, f] for f in range(F)) for d in range(D)] for n in range(N)]
dW_loops = [[sum(x[n, d] * dy[n, f] for n in range(N)) for f in range(F)] for d in range(D)]
claim("dx = dy Wᵀ", apart(dx, dx_loops) < 1e-14)
claim("dW = xᵀ dy", apart(linear.weight.grad, dW_loops) < 1e-14)
claim("db = the sum of dy over the rows", apart(linear.bias.grad, [sum(dy[:, f]) for f in range(F)]) < 1e-14)

# %% [markdown]
# ## 2. Asking the function itself
#
# Derivations can be wrong. The function can be asked directly: move one entry by a small step h and see how
# much L moves. Taylor's formula, f(x + h) = f(x) + h f'(x) + h² f''(x) / 2 + h³ f'''(x) / 6 + ..., gives
#
#     forward difference:   (f(x + h) - f(x)) / h            = f'(x) + h f''(x) / 2 + ...
#     central difference:   (f(x + h) - f(x - h)) / (2 h)    = f'(x) + h² f'''(x) / 6 + ...
#     complex step:         imaginary part of f(x + i h) / h = f'(x) - h² f'''(x) / 6 + ...
#
# The third one moves x by i h, with i² = -1: f(x) stays in the real part, f'(x) arrives in the imaginary part.
# Each entry costs one or two forwards, while one backward gives all entries for the price of about two. So
# these serve to check. Below they check a chain up, ReLU, down, whose backward is its forward upside down.

# %% Central differences confirm a chain of three layers
SLOPES = {"forward": lambda L, h: (L(h) - L(0)) / h,
          "central": lambda L, h: (L(h) - L(-h)) / (2 * h),
          "complex": lambda L, h: L(1j * h).imag / h}


def measure(way, loss, x, h):
    """dL/dx, entry by entry. loss() reads the array x, of which one entry is moved and put back."""
    def moved(step):
        start = x[at]
        x[at] = start + step
        value = loss()
        x[at] = start
        return value

    gradient = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        gradient[at] = SLOPES[way](moved, h)
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
for part in (up, relu, down):
    part.eval()                             # in eval, forward remembers nothing: no backward will ask
for name, array, gradient in (("dx", x, dx), ("dW of up", W, up.weight.grad), ("db of up", b, up.bias.grad)):
    distance = apart(gradient, measure("central", lambda: np.sum(dz * down(relu(up(x)))), array, 1e-5))
    claim(f"{name} agrees with central differences", distance < 1e-8, f"they differ by {distance:.0e}")

# %% [markdown]
# ## 3. Which step?
#
# The network here bends smoothly (GELU) and ends in a cross-entropy loss; of straight pieces even a large h
# would measure the slope exactly. One gradient is measured in four ways, over many steps.

# %% One gradient, four ways, many steps
model, criterion, targets = nt.FeedForward(D, 6, "gelu", rng=3).astype("f8"), nt.CrossEntropyLoss(), [3, 0, 2, 2, 1]
criterion(model(x), targets)
model.backward(criterion.backward())
criterion.eval()
curves, drawn = {}, {}
for name, kind, powers in (("complex, float64", "c16", np.array([*range(17), 100, 200.0])),
                           ("central, float64", "f8", np.arange(0, 13.5, 0.5)),
                           ("central, float32", "f4", np.arange(0, 6.5, 0.5)),
                           ("forward, float64", "f8", np.arange(0, 13.5, 0.5))):
    network, inputs = nt.FeedForward(D, 6, "gelu", rng=3).astype(kind).eval(), x.astype(kind)
    errors = [apart(measure(name[:7], lambda: criterion(network(inputs), targets), network.up.weight.data, step),
                    model.up.weight.grad) for step in 10 ** -powers]
    curves[name] = dict(zip(powers, errors))                # curves[name][5] is the error at h = 1e-5
    drawn[name] = 10 ** -powers, errors
    print(f"  {name}: least error {min(errors):.1e} at h = 1e-{powers[np.argmin(errors)]:g}")
picture = views.step_sizes(drawn, mark=1e-5)
picture.axes[0].set(xlim=(1e-17, 4), title="Differences have a best step, the complex step needs none")
figure("step_size", picture)

# %% [markdown]
# Differences make a U. On its right arm h is too large: the Taylor terms that were left out fall with h
# (forward) or h² (central). On its left arm h is too small: L is rounded by about eps, and the division makes
# that eps / h. The bottom of the central U lies where h² = eps / h, at h = eps^(1/3): 6e-6 in float64, 5e-3 in
# float32. Hence h = 1e-5, and gradients are checked in float64 even where training runs in float32.
#
# The complex step has no left arm: nothing is subtracted, so no digit is lost however small h is.

# %% What the picture shows, as claims
exact, central, _, forward = curves.values()
claim("a tenth of h leaves a tenth of the forward error", 7 < forward[1] / forward[2] < 14)
claim("a tenth of h leaves a hundredth of the central error", 70 < central[1] / central[2] < 140)
claim("the best central step in float64 is near 1e-5", 4 <= min(central, key=central.get) <= 6)
claim("central differences at 1e-5 confirm backward to nine digits", central[5] < 1e-9)
claim("the complex step confirms it to 14 digits at 1e-10, 1e-100, 1e-200", [exact[n] < 1e-14 for n in (10, 100, 200)])

# %% [markdown]
# ## 4. Where each of them fails
#
# ReLU has a kink at 0. An x that lies closer to it than h is measured across the corner, and the result mixes
# both slopes. A smaller h cures that; it would not cure a wrong backward. The complex step leaves the real
# part where it is and crosses no kink, but it needs a forward that lets complex numbers pass. `np.abs(z)` is
# the length of z, a real number, and `x.var()` uses it: both give the derivative 0 **without a warning**. So keep
# both: differences work on any code, the complex step gives all digits, and a disagreement shows a trap.

# %% A kink, and a silent zero
predict("ReLU at 3e-6: which slope does the central difference with h = 1e-5 measure?", 0.65)
near, z = np.array([3e-6]), rng.standard_normal(7).astype(complex)
slopes = [SLOPES[way](lambda step: relu(near + step)[0], h) for way, h in
          (("central", 1e-5), ("central", 1e-6), ("complex", 1e-100))]
claim("ReLU at 3e-6: h = 1e-5 measures 0.65, h = 1e-6 and the complex step 1", np.allclose(slopes, [0.65, 1, 1]))
silent = [measure("complex", lambda: f(z), z, 1e-100) for f in (np.var, lambda z: np.abs(z).sum())]
claim("through x.var() and np.abs(x) it measures zeros", not np.any(silent))
written = measure("complex", lambda: ((z - z.mean()) ** 2).mean(), z, 1e-100)
claim("written out, the variance has slope 2 (x - mean) / n", apart(written, 2 * (z - z.mean()).real / 7) < 1e-14)

# %% [markdown]
# ## 5. gradcheck
#
# `nt.gradcheck(layer, *inputs)` does all this for every input and parameter of a layer, with random parameters and
# dy. Why random? A LayerNorm (lesson 08) gives y = gamma x_hat, with x_hat = (x - mean) / σ over each row. The one
# below forgets that σ depends on x. With gamma = 1 and dy = 1, a usual choice, its dx is zero, and so is the true
# one. The columns of the report are relative errors.

# %% A right LayerNorm, a wrong one, and one wrong entry
class NoVariance(nt.LayerNorm):
    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        self.gamma.grad += (dy * x_hat).sum(0)
        g = dy * self.gamma.data
        return (g - g.mean(-1, keepdims=True)) * inverse_std        # "- x_hat * mean(g x_hat)" is missing


class OneEntry(nt.Linear):
    def backward(self, dy):
        dx = super().backward(dy)
        dx[1, 2] *= 1.01
        return dx


norm = NoVariance(D, bias=False).astype("f8")
right, wrong, entry = (nt.gradcheck(layer, x) for layer in (nt.LayerNorm(D, bias=False), norm, OneEntry(D, F)))
print(right, wrong, entry, sep="\n")
claim("the right LayerNorm passes", right.ok)
claim("the wrong one fails, and in x alone", [row.ok for row in wrong.rows] == [False, True])
claim("an entry that is wrong by a hundredth is named", not entry.ok and entry.rows[0].index == (1, 2))
norm(x)
dx, numeric = norm.backward(np.ones_like(x)), measure("central", lambda: norm.eval()(x).sum(), x, 1e-5)
claim("with gamma = 1 and dy = 1 the wrong one looks right: 0 and 0", np.allclose([dx, numeric], 0, atol=1e-9))

# %% [markdown]
# ## 6. Memory is a stack
#
# A layer may be used twice in one forward. Then it remembers two inputs, and the first backward it gets belongs
# to its last forward: last in, first out. With a single slot both backwards would see the last input.

# %% One Linear, used twice
shared, relu, dy = nt.Linear(D, D, rng=4).astype(np.float64), nt.ReLU(), rng.standard_normal((N, D))
a = relu(shared(x))
y = shared(a)
dh = relu.backward(shared.backward(dy))
shared.backward(dh)
numeric = measure("central", lambda: np.sum(dy * shared.eval()(relu.eval()(shared(x)))), shared.weight.data, 1e-5)
claim("dW is the sum over both uses, aᵀ dy + xᵀ dh", apart(shared.weight.grad, a.T @ dy + x.T @ dh) < 1e-14)
claim("central differences agree", apart(shared.weight.grad, numeric) < 1e-8)
claim("a single slot, aᵀ dy + aᵀ dh, would be wrong", apart(a.T @ dy + a.T @ dh, numeric) > 0.1)

# %% [markdown]
# ## Exercises
#
# 1. A Linear is applied to x of shape (B, T, D). Over which axes does db sum, and why over those?
# 2. The backward of a residual, y = x + f(x), is written `1 + f.backward(dy)`. With which dy does a check miss it?
# 3. L = 1000 + f(x), with f of size 1. Which arm of the U moves, and where does the best step go?
# 4. With a single slot, dx in section 6 would still be right. Why?
# 5. forward computes `scores / 8` instead of `scores / sqrt(8)`, and backward matches it. What does gradcheck say?
#
# With a checker (`numpy-transformer exercise check NN`): 02.1, 02.2, 02.3.
