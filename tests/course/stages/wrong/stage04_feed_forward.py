# === [GEL-4a] GELU.backward takes C for the derivative of u and forgets that of the cubic term, 3 CUBIC x^2; line 26:
#     second = x * (1 - t ** 2) * C / 2.
class GELU(Module):
    def forward(self, x):
        u = C * (x + CUBIC * x ** 3)
        self.remember(x, u)
        return x * (1 + np.tanh(u)) / 2

    def backward(self, dy):
        x, u = self.recall()
        t = np.tanh(u)
        first = (1 + t) / 2
        second = x * (1 - t ** 2) * C / 2
        return dy * (first + second)


class FeedForward(Module):
    def forward(self, x):
        h = self.up(x)
        a = self.activation(h)
        return self.down(a)

    def backward(self, dy):
        da = self.down.backward(dy)
        dh = self.activation.backward(da)
        return self.up.backward(dh)


# === [place] FeedForward.forward calls self.up a second time to keep the hidden units, which leaves another entry on
#     its stack: after two uses the second backward of up gets the wrong x: self.hidden = self.up(x).
class GELU(Module):
    def forward(self, x):
        t = np.tanh(C * (x + CUBIC * x ** 3))
        self.remember(x, t)
        return 0.5 * x * (1 + t)

    def backward(self, dy):
        x, t = self.recall()
        du = C * (1 + 3 * CUBIC * x ** 2)
        return dy * 0.5 * ((1 + t) + x * (1 - t ** 2) * du)


class FeedForward(Module):
    def forward(self, x):
        self.hidden = self.up(x)                 # to look at
        return self.down(self.activation(self.up(x)))

    def backward(self, dy):
        for part in (self.down, self.activation, self.up):
            dy = part.backward(dy)
        return dy


# === [-] _tanh_u uses np.sqrt(2 / np.pi), a NumPy float64, instead of C, so float32 becomes float64 in GELU.forward
#     and backward: K = np.sqrt(2 / np.pi).
K = np.sqrt(2 / np.pi)


def _tanh_u(x):
    return np.tanh(K * (x + CUBIC * x * x * x))


class GELU(Module):
    def forward(self, x):
        self.remember(x)
        return x * (1 + _tanh_u(x)) / 2

    def backward(self, dy):
        x = self.recall()
        t = _tanh_u(x)
        slope = (1 + t) / 2 + x / 2 * (1 - t * t) * K * (1 + 3 * CUBIC * x * x)
        return slope * dy


# === [-] GELU.forward multiplies x in place after it has remembered it: it changes the argument, and backward finds y
#     in the place of x: x *= gate.
class GELU(Module):
    def forward(self, x):
        gate = (1 + np.tanh(C * (x + CUBIC * x ** 3))) / 2
        self.remember(x, gate)
        x *= gate
        return x

    def backward(self, dy):
        x, gate = self.recall()
        tanh = 2 * gate - 1
        dgate = (1 - tanh ** 2) / 2 * C * (1 + 3 * CUBIC * x ** 2)
        return dy * gate + dy * x * dgate


class FeedForward(Module):
    def forward(self, x):
        hidden = self.up(x)
        hidden = self.activation(hidden)
        return self.down(hidden)

    def backward(self, dy):
        dhidden = self.down.backward(dy)
        dhidden = self.activation.backward(dhidden)
        return self.up.backward(dhidden)


# === [GEL-9b] GELU.backward: dy multiplies only the first term of the derivative, not x (1 - tanh^2) du / 2: right
#     only for dy = 1 (or saturated x).
class GELU(Module):
    def forward(self, x):
        u = C * (x + CUBIC * x ** 3)
        self.remember(x)
        return 0.5 * x * (1 + np.tanh(u))

    def backward(self, dy):
        x = self.recall()
        u = C * (x + CUBIC * x ** 3)
        tanh = np.tanh(u)
        du = C * (1 + 3 * CUBIC * x ** 2)
        return 0.5 * dy * (1 + tanh) + 0.5 * x * (1 - tanh ** 2) * du


class FeedForward(Module):
    def forward(self, x):
        hidden = self.up(x)
        hidden = self.activation(hidden)
        return self.down(hidden)

    def backward(self, dy):
        for part in (self.down, self.activation, self.up):
            dy = part.backward(dy)
        return dy


# === [-] GELU.backward: multiplies dy in place and returns that same array: the caller's dy is changed (values
#     right).
class GELU(Module):
    def forward(self, x):
        squared = x * x
        tanh = np.tanh(C * x * (1 + CUBIC * squared))
        half = (1 + tanh) / 2
        slope = half + x * (1 - tanh * tanh) * C * (1 + 3 * CUBIC * squared) / 2
        self.remember(slope)
        return x * half

    def backward(self, dy):
        dy *= self.recall()
        return dy


class FeedForward(Module):
    def backward(self, dy):
        d = self.down.backward(dy)
        d = self.activation.backward(d)
        d = self.up.backward(d)
        return d


# === [place] tanh (used in GELU.forward): own tanh from exp(u) and exp(-u) overflows: inf / inf = nan for |u| > 709
#     in float64 (|x| about 27) or > 88 in float32 (|x| about 13.4); right for usual sizes.
def tanh(u):
    a, b = np.exp(u), np.exp(-u)
    return (a - b) / (a + b)


class GELU(Module):
    def forward(self, x):
        t = tanh(C * (x + CUBIC * x ** 3))
        self.remember(x, t)
        return x * (1 + t) / 2

    def backward(self, dy):
        x, t = self.recall()
        first = (1 + t) / 2
        second = x / 2 * (1 - t ** 2) * (C + 3 * C * CUBIC * x ** 2)
        return dy * (first + second)


class FeedForward(Module):
    def forward(self, x):
        h = self.up.forward(x)
        g = self.activation.forward(h)
        return self.down.forward(g)

    def backward(self, dy):
        dg = self.down.backward(dy)
        dh = self.activation.backward(dg)
        return self.up.backward(dh)


# === [place] GELU.backward: C does not multiply the cubic part of the derivative of u, C + 3 CUBIC x^2 instead of C
#     (1 + 3 CUBIC x^2) (du = C + 3 * CUBIC * x ** 2)
class GELU(Module):
    def forward(self, x):
        u = C * (x + CUBIC * x ** 3)
        self.remember(x, np.tanh(u))
        return 0.5 * x * (1 + np.tanh(u))

    def backward(self, dy):
        x, tanh = self.recall()
        du = C + 3 * CUBIC * x ** 2
        slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh ** 2) * du
        return dy * slope


class FeedForward(Module):
    def forward(self, x):
        hidden = self.up(x)
        hidden = self.activation(hidden)
        return self.down(hidden)

    def backward(self, dy):
        d = self.down.backward(dy)
        d = self.activation.backward(d)
        return self.up.backward(d)


# === [LARGE-1] tanh, line 16 (used in GELU.forward), is computed as (exp(2u)-1)/(exp(2u)+1), which gives NaN for
#     large positive x (from about 10.5 in float32, 21.5 in float64; page example passes).
def tanh(u):
    e = np.exp(2 * u)
    return (e - 1) / (e + 1)


class GELU(Module):
    def forward(self, x):
        t = tanh(C * (x + CUBIC * x * x * x))
        self.remember(x, t)
        return x * (1 + t) / 2

    def backward(self, dy):
        x, t = self.recall()
        dt = dy * x / 2
        du = dt * (1 - t * t)
        dx = dy * (1 + t) / 2
        return dx + du * (C + 3 * C * CUBIC * x * x)


class FeedForward(Module):
    def forward(self, x):
        hidden = self.up(x)
        hidden = self.activation(hidden)
        return self.down(hidden)

    def backward(self, dy):
        dhidden = self.down.backward(dy)
        dhidden = self.activation.backward(dhidden)
        return self.up.backward(dhidden)


# === [GEL-2] GELU.backward, lines 26-28, returns the derivative of the exact GELU (Phi(x) + x phi(x) with erf) while
#     forward uses the tanh form; off by up to about 1e-3 (shows in the page example's gradients).
erf = np.vectorize(math.erf, otypes=[np.float64])


class GELU(Module):
    def forward(self, x):
        self.remember(x)
        cdf = (1 + np.tanh(C * (x + CUBIC * np.power(x, 3)))) / 2      # the approximation of Phi(x)
        return x * cdf

    def backward(self, dy):
        x = self.recall()
        # y = x Phi(x), so y' = Phi(x) + x phi(x), with phi the density of the normal distribution
        cdf = (1 + erf(x / math.sqrt(2)).astype(x.dtype)) / 2
        pdf = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return dy * (cdf + x * pdf)


class FeedForward(Module):
    def backward(self, dy):
        dz = self.down.backward(dy)
        dz = self.activation.backward(dz)
        dx = self.up.backward(dz)
        return dx


# === [attributes] GELU.forward keeps x and tanh(u) in attributes (`self.x = x`, `self.t = np.tanh(u)`) instead of
#     remember/recall, so with two uses before the first backward the earlier use gets the values of the later one.
#     (Line 20.)
class GELU(Module):
    def forward(self, x):
        u = C * (x + CUBIC * x * x * x)
        # save for backward
        self.x = x
        self.t = np.tanh(u)
        return 0.5 * x * (1 + self.t)

    def backward(self, dy):
        x = self.x
        t = self.t
        first = 0.5 * (1 + t)
        dtanh = 1 - t * t
        du = C * (1 + CUBIC * 3 * x * x)
        second = 0.5 * x * dtanh * du
        return dy * first + dy * second


class FeedForward(Module):
    def forward(self, x):
        for layer in (self.up, self.activation, self.down):
            x = layer(x)
        return x

    def backward(self, dy):
        for layer in (self.down, self.activation, self.up):
            dy = layer.backward(dy)
        return dy


# === [attributes] FeedForward keeps the shape of x in the attribute self.shape, which a second use before the first
#     backward overwrites, so the gradient of the earlier use gets the shape of the later one (or the reshape fails):
#     lines `self.shape = x.shape` in forward and `drows.reshape(self.shape)` in backward.
class GELU(Module):
    def forward(self, x):
        u = C * (x + CUBIC * x * x * x)
        tanh_u = np.tanh(u)
        self.remember(x, tanh_u)
        return 0.5 * x * (1 + tanh_u)

    def backward(self, dy):
        x, tanh_u = self.recall()
        # f = x / 2, g = 1 + tanh(u):  f' g + f g'
        dtanh = (1 - tanh_u ** 2) * C * (1 + 3 * CUBIC * x * x)
        return dy * (0.5 * (1 + tanh_u) + 0.5 * x * dtanh)


class FeedForward(Module):
    def forward(self, x):
        self.shape = x.shape
        rows = x.reshape(-1, x.shape[-1])
        for part in (self.up, self.activation, self.down):
            rows = part(rows)
        return rows.reshape(self.shape)

    def backward(self, dy):
        drows = dy.reshape(-1, dy.shape[-1])
        for part in (self.down, self.activation, self.up):
            drows = part.backward(drows)
        return drows.reshape(self.shape)
