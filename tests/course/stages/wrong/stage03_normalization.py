# === [LN-15a] LayerNorm.forward adds eps outside the root, to the standard deviation, and backward treats it as 1 /
#     r: s = np.sqrt(np.mean(c ** 2, axis=-1, keepdims=True)) + self.eps.
class LayerNorm(Module):
    def forward(self, x):
        c = x - np.mean(x, axis=-1, keepdims=True)
        s = np.sqrt(np.mean(c ** 2, axis=-1, keepdims=True)) + self.eps
        normed = c / s
        self.remember(normed, s)
        return normed * self.gamma.data + self.beta.data

    def backward(self, dy):
        normed, s = self.recall()
        D = dy.shape[-1]
        flat = dy.reshape(-1, D)
        self.gamma.grad += np.sum(flat * normed.reshape(-1, D), axis=0)
        self.beta.grad += np.sum(flat, axis=0)
        dn = dy * self.gamma.data
        return (dn - np.mean(dn, axis=-1, keepdims=True) - normed * np.mean(dn * normed, axis=-1, keepdims=True)) / s


# === [LN-6b] LayerNorm.backward forgets the factor 2 of the derivative of c * c in the way through the variance; line
#     36: dc = dxhat * r + dvar * c / D.
class LayerNorm(Module):
    def forward(self, x):
        mu = x.mean(-1, keepdims=True)
        c = x - mu
        var = (c * c).mean(-1, keepdims=True)
        r = 1 / np.sqrt(var + self.eps)
        self.remember(c, r)
        return self.gamma.data * (c * r) + self.beta.data

    def backward(self, dy):
        c, r = self.recall()
        D = c.shape[-1]
        lead = tuple(range(c.ndim - 1))
        self.gamma.grad += np.sum(dy * c * r, axis=lead)
        self.beta.grad += np.sum(dy, axis=lead)
        dxhat = dy * self.gamma.data
        dr = np.sum(dxhat * c, axis=-1, keepdims=True)
        dvar = dr * (-r ** 3 / 2)
        dc = dxhat * r + dvar * c / D
        dmu = -dc.sum(-1, keepdims=True)
        return dc + dmu / D


# === [LN-12b] LayerNorm.backward sums the gradients of gamma and beta over the first axis only, which is wrong for a
#     single row (a number is added to all features) and fails for more than two axes: self.beta.grad +=
#     dy.sum(axis=0) and the line before.
class LayerNorm(Module):
    def forward(self, x):
        mean = x.mean(axis=-1, keepdims=True)
        std = np.sqrt(x.var(axis=-1, keepdims=True) + self.eps)
        xhat = (x - mean) / std
        self.remember(xhat, std)
        return self.gamma.data * xhat + self.beta.data

    def backward(self, dy):
        xhat, std = self.recall()
        self.gamma.grad += (dy * xhat).sum(axis=0)
        self.beta.grad += dy.sum(axis=0)
        g = self.gamma.data * dy
        mean_g = g.mean(axis=-1, keepdims=True)
        mean_gx = (g * xhat).mean(axis=-1, keepdims=True)
        return (g - mean_g - xhat * mean_gx) / std


# === [LN-4f] LayerNorm.backward multiplies dy by gamma in place and so changes the caller's array: dy *=
#     self.gamma.data.
class LayerNorm(Module):
    def forward(self, x):
        D = x.shape[-1]
        c = x - x.sum(axis=-1, keepdims=True) / D
        r = ((c * c).sum(axis=-1, keepdims=True) / D + self.eps) ** -0.5
        xh = c * r
        self.remember(xh, r)
        return xh * self.gamma.data + self.beta.data

    def backward(self, dy):
        xh, r = self.recall()
        D = dy.shape[-1]
        self.gamma.grad += (dy * xh).reshape(-1, D).sum(axis=0)
        self.beta.grad += dy.reshape(-1, D).sum(axis=0)
        dy *= self.gamma.data
        a = dy.sum(axis=-1, keepdims=True)
        b = (dy * xh).sum(axis=-1, keepdims=True)
        return r / D * (D * dy - a - xh * b)


# === [LN-21] LayerNorm.backward: dy is replaced by dy * gamma before the parameter gradients, so gamma.grad and
#     beta.grad both contain an extra factor gamma (dx is right; right for gamma = 1).
class LayerNorm(Module):
    def forward(self, x):
        c = x - x.mean(-1, keepdims=True)
        var = (c * c).mean(-1, keepdims=True)
        r = (var + self.eps) ** -0.5
        self.remember(c, r)
        return self.gamma.data * (c * r) + self.beta.data

    def backward(self, dy):
        c, r = self.recall()
        D = c.shape[-1]
        dy = dy * self.gamma.data                           # through the last line, y = gamma xhat + beta
        self.gamma.grad += (dy * c * r).reshape(-1, D).sum(0)
        self.beta.grad += dy.reshape(-1, D).sum(0)
        # xhat = c r
        dc = dy * r
        dr = (dy * c).sum(-1, keepdims=True)
        # r = (var + eps)^(-1/2), var = mean(c c)
        dvar = dr * (-0.5) * r ** 3
        dc = dc + dvar * 2 * c / D
        # c = x - mean(x)
        dmu = -dc.sum(-1, keepdims=True)
        return dc + dmu / D


# === [-] sum_rows (used in LayerNorm.backward): always sums axis 0 at least once: for a single row x (D,) the
#     features themselves are summed to a scalar that is broadcast into all entries of gamma.grad and beta.grad.
def sum_rows(a):
    """Sums over the rows, along all leading axes."""
    a = a.sum(axis=0)
    while a.ndim > 1:
        a = a.sum(axis=0)
    return a


class LayerNorm(Module):
    def forward(self, x):
        mean = x.mean(axis=-1, keepdims=True)
        inverse = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + self.eps)
        normalized = (x - mean) * inverse
        self.remember(normalized, inverse)
        return normalized * self.gamma.data + self.beta.data

    def backward(self, dy):
        normalized, inverse = self.recall()
        self.gamma.grad += sum_rows(dy * normalized)
        self.beta.grad += sum_rows(dy)
        g = dy * self.gamma.data
        n = g.shape[-1]
        total = g.sum(axis=-1, keepdims=True)
        along = (g * normalized).sum(axis=-1, keepdims=True)
        return inverse / n * (n * g - total - normalized * along)


# === [LN-4b] LayerNorm.backward multiplies by gamma after the two means instead of before them (right only if all
#     gamma are equal) (return self.gamma.data * r * (dy - m1 - xhat * m2))
class LayerNorm(Module):
    def forward(self, x):
        mu = x.mean(-1, keepdims=True)
        var = ((x - mu) * (x - mu)).mean(-1, keepdims=True)
        r = 1 / np.sqrt(var + self.eps)
        xhat = (x - mu) * r
        self.remember(xhat, r)
        return self.gamma.data * xhat + self.beta.data

    def backward(self, dy):
        xhat, r = self.recall()
        self.gamma.grad += np.einsum("nd,nd->d", dy.reshape(-1, dy.shape[-1]), xhat.reshape(-1, dy.shape[-1]))
        self.beta.grad += np.einsum("nd->d", dy.reshape(-1, dy.shape[-1]))
        m1 = dy.mean(-1, keepdims=True)
        m2 = (dy * xhat).mean(-1, keepdims=True)
        return self.gamma.data * r * (dy - m1 - xhat * m2)


# === [LN-15b] LayerNorm.forward and backward, lines 19 and 24, divide by std + eps (eps outside the root), with
#     gradients consistent with that; about 1e-6 to 1e-4 off at eps 1e-5 and variance near 1, large for larger eps or
#     small variance.
class LayerNorm(Module):
    def forward(self, x):
        mean = x.mean(-1, keepdims=True)
        std = x.std(-1, keepdims=True)
        self.remember(x - mean, std)
        return self.gamma.data * (x - mean) / (std + self.eps) + self.beta.data

    def backward(self, dy):
        c, std = self.recall()
        D = c.shape[-1]
        inv = 1 / (std + self.eps)
        xhat = c * inv
        lead = tuple(range(dy.ndim - 1))
        self.gamma.grad += (dy * xhat).sum(axis=lead)
        self.beta.grad += dy.sum(axis=lead)

        dxhat = dy * self.gamma.data
        dinv = (dxhat * c).sum(-1, keepdims=True)
        dstd = -dinv * inv * inv
        safe = np.where(std > 0, std, 1).astype(std.dtype)      # d std / d c = c / (D std)
        dc = dxhat * inv + dstd * c / (D * safe)
        return dc - dc.mean(-1, keepdims=True)


# === [-] LayerNorm.backward, sums over (0, 1) for three axes and over 0 otherwise: with one axis the gamma and beta
#     gradients become the sum over the features, with four axes it raises ValueError.
class LayerNorm(Module):
    def forward(self, x):
        mu = np.mean(x, axis=-1, keepdims=True)
        var = np.var(x, axis=-1, keepdims=True)
        sigma = np.sqrt(var + self.eps)
        norm = (x - mu) / sigma
        self.remember(norm, sigma)
        return norm * self.gamma.data + self.beta.data

    def backward(self, dy):
        norm, sigma = self.recall()
        # sum over batch and time, (B, T, C) -> (C,), or over the rows of (N, C)
        axes = (0, 1) if dy.ndim == 3 else 0
        self.gamma.grad += np.sum(dy * norm, axis=axes)
        self.beta.grad += np.sum(dy, axis=axes)

        dnorm = dy * self.gamma.data
        n = dy.shape[-1]
        total = n * dnorm
        total = total - dnorm.sum(-1, keepdims=True)
        total = total - norm * (dnorm * norm).sum(-1, keepdims=True)
        return total / (n * sigma)


# === [variance-as-a-difference] LayerNorm.forward, computes the variance as mean(x*x) - mean(x)**2, which loses all
#     digits when the mean is large against the deviation (float32 at mean 1000: 3 percent off; float64 only from
#     means of about 1e5; page example passes).
def avg(a):
    return a.mean(axis=-1, keepdims=True)


class LayerNorm(Module):
    def forward(self, x):
        mu = avg(x)
        var = avg(x * x) - mu * mu              # one pass over the data, as in the fused kernels
        r = (var + self.eps) ** -0.5
        xhat = (x - mu) * r
        self.remember(xhat, r)
        return self.gamma.data * xhat + self.beta.data

    def backward(self, dy):
        xhat, r = self.recall()
        width = xhat.shape[-1]
        self.gamma.grad += np.einsum("nd,nd->d", dy.reshape(-1, width), xhat.reshape(-1, width))
        self.beta.grad += np.einsum("nd->d", dy.reshape(-1, width))
        g = self.gamma.data * dy
        return (g - avg(g) - xhat * avg(g * xhat)) * r


# === [-] LayerNorm.backward takes the sum of dc over the whole array instead of each row's for the gradient of mu, so
#     dx is wrong as soon as there is more than one row.
class LayerNorm(Module):
    def forward(self, x):
        D = x.shape[-1]
        mu = x.mean(axis=-1, keepdims=True)
        c = x - mu
        var = (c * c).mean(axis=-1, keepdims=True)
        r = (var + self.eps) ** -0.5
        xhat = c * r
        self.remember(c, r, xhat, D)
        return xhat * self.gamma.data + self.beta.data

    def backward(self, dy):
        c, r, xhat, D = self.recall()

        # y = gamma * xhat + beta
        self.gamma.grad += (dy * xhat).reshape(-1, D).sum(axis=0)
        self.beta.grad += dy.reshape(-1, D).sum(axis=0)
        dxhat = dy * self.gamma.data

        # xhat = c * r
        dc = dxhat * r
        dr = np.sum(dxhat * c, axis=-1, keepdims=True)

        # r = (var + eps) ** (-1/2)
        dvar = dr * -0.5 * r ** 3

        # var = mean(c * c)
        dc = dc + dvar * 2 * c / D

        # c = x - mu: the mean gets minus the sum
        dmu = -float(np.sum(dc))

        # mu = mean(x)
        return dc + dmu / D


# === [place] LayerNorm.backward: recomputes the standard deviation without eps, whereas forward has eps; gradients of
#     x and gamma wrong for large eps or rows of small variance (NaN for a constant row), about 1e-5 relative at
#     eps=1e-5 and variance 1
class LayerNorm(Module):
    def forward(self, x):
        centered = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(centered ** 2, axis=-1, keepdims=True)
        self.remember(centered)
        return self.gamma.data * centered / np.sqrt(variance + self.eps) + self.beta.data

    def backward(self, dy):
        c = self.recall()
        sigma = c.std(axis=-1, keepdims=True)
        hat = c / sigma
        axes = tuple(range(dy.ndim - 1))
        self.gamma.grad += np.sum(dy * hat, axis=axes)
        self.beta.grad += np.sum(dy, axis=axes)

        g = dy * self.gamma.data
        mean_g = g.mean(axis=-1, keepdims=True)
        mean_gh = (g * hat).mean(axis=-1, keepdims=True)
        return (g - mean_g - hat * mean_gh) / sigma


# === [place] LayerNorm.backward: recovers xhat from y by dividing by gamma (the current one); NaN in dx and
#     gamma.grad if an entry of gamma is 0 (allowed); right otherwise
class LayerNorm(Module):
    def forward(self, x):
        mu = np.mean(x, axis=-1, keepdims=True)
        r = 1 / np.sqrt(np.var(x, axis=-1, keepdims=True) + self.eps)
        y = self.gamma.data * (x - mu) * r + self.beta.data
        self.remember(y, r)
        return y

    def backward(self, dy):
        y, r = self.recall()
        gamma, beta = self.gamma.data, self.beta.data
        xhat = (y - beta) / gamma                   # solve the last line for xhat, this saves an array
        n = y.shape[-1]
        self.beta.grad += dy.reshape(-1, n).sum(0)
        self.gamma.grad += (dy * xhat).reshape(-1, n).sum(0)
        dxhat = dy * gamma
        dr = (dxhat * xhat / r).sum(-1, keepdims=True)
        dvar = dr * (-(r ** 3) / 2)
        dc = dxhat * r + dvar * 2 * (xhat / r) / n
        return dc - dc.sum(-1, keepdims=True) / n


# === [-] LayerNorm.backward: Jacobian from np.eye and np.ones, which are float64, so dx is float64 for float32 input;
#     the values are right
class LayerNorm(Module):
    def forward(self, x):
        mu = x.mean(axis=-1, keepdims=True)
        c = x - mu
        r = ((c * c).mean(axis=-1, keepdims=True) + self.eps) ** -0.5
        xhat = c * r
        self.remember(xhat, r)
        return xhat * self.gamma.data + self.beta.data

    def backward(self, dy):
        xhat, r = self.recall()
        D = xhat.shape[-1]
        flat_hat, flat_dy = xhat.reshape(-1, D), dy.reshape(-1, D)
        for h, g in zip(flat_hat, flat_dy):
            self.gamma.grad += h * g
            self.beta.grad += g
        # the Jacobian matrix of xhat is r (1 - 11^T / D - xhat xhat^T / D), and it is symmetric
        one = np.eye(D) - np.ones((D, D)) / D
        J = r[..., None] * (one - xhat[..., :, None] * xhat[..., None, :] / D)
        return np.einsum("...ij,...j->...i", J, dy * self.gamma.data)


# === [place] LayerNorm.backward forgets to sum dr over the features: r is one number per row, but `dr = dx_hat * c`
#     keeps shape (..., D), and broadcasting hides it in the following lines. (Line 42.)
class LayerNorm(Module):
    def forward(self, x):
        # the six lines of the page
        mu = np.mean(x, axis=-1, keepdims=True)
        c = x - mu
        var = np.mean(c * c, axis=-1, keepdims=True)
        r = 1 / np.sqrt(var + self.eps)
        x_hat = c * r
        y = self.gamma.data * x_hat + self.beta.data
        self.remember(c, r)
        return y

    def backward(self, dy):
        c, r = self.recall()
        D = c.shape[-1]
        x_hat = c * r

        # line 6: y = gamma * x_hat + beta
        self.gamma.grad += (dy * x_hat).reshape(-1, D).sum(axis=0)
        self.beta.grad += dy.reshape(-1, D).sum(axis=0)
        dx_hat = dy * self.gamma.data

        # line 5: x_hat = c r
        dc = dx_hat * r
        dr = dx_hat * c

        # line 4: r = (var + eps)^(-1/2)
        dvar = dr * (-r ** 3 / 2)

        # line 3: var = mean(c * c)
        dc = dc + dvar * 2 * c / D

        # line 2: c = x - mu
        dx = dc
        dmu = -np.sum(dc, axis=-1, keepdims=True)

        # line 1: mu = mean(x)
        dx = dx + dmu / D
        return dx


# === [place] In the last line of backward, the mean for the variance is taken of dy * z, which was at hand from
#     gamma's gradient, instead of dy * gamma * z; with gamma = 1 this makes no difference, with another gamma dx is
#     wrong.
def row_mean(a):
    return np.mean(a, axis=-1, keepdims=True)


class LayerNorm(Module):
    def forward(self, x):
        dev = x - row_mean(x)
        sigma = np.sqrt(row_mean(dev * dev) + self.eps)
        z = dev / sigma                                 # standardized
        self.remember(z, sigma)
        return z * self.gamma.data + self.beta.data

    def backward(self, dy):
        z, sigma = self.recall()
        over_rows = tuple(range(dy.ndim - 1))

        dy_z = dy * z
        self.gamma.grad += dy_z.sum(axis=over_rows)
        self.beta.grad += dy.sum(axis=over_rows)

        # dx = (dz - mean(dz) - z * mean(dz z)) / sigma
        dz = dy * self.gamma.data
        return (dz - row_mean(dz) - z * row_mean(dy_z)) / sigma


# === [LN-5c] LayerNorm.backward is copied from the step-by-step batchnorm backward: the means are divided by N =
#     number of rows (N from line 33, used in dsq = dvar / N and dx2 = dmu / N) instead of the number of features D.
class LayerNorm(Module):
    def forward(self, x):
        # same steps as the computational graph of batchnorm, only along the last axis
        mu = np.mean(x, axis=-1, keepdims=True)
        xmu = x - mu
        sq = xmu ** 2
        var = np.mean(sq, axis=-1, keepdims=True)
        sqrtvar = np.sqrt(var + self.eps)
        ivar = 1.0 / sqrtvar
        xhat = xmu * ivar
        self.remember(xhat, xmu, ivar, sqrtvar)
        return self.gamma.data * xhat + self.beta.data

    def backward(self, dout):
        xhat, xmu, ivar, sqrtvar = self.recall()
        shape = dout.shape
        dout = dout.reshape(-1, shape[-1])
        xhat, xmu = xhat.reshape(dout.shape), xmu.reshape(dout.shape)
        ivar, sqrtvar = ivar.reshape(-1, 1), sqrtvar.reshape(-1, 1)
        N, D = dout.shape

        self.beta.grad += np.sum(dout, axis=0)
        self.gamma.grad += np.sum(dout * xhat, axis=0)
        dxhat = dout * self.gamma.data

        # xhat = xmu * ivar
        divar = np.sum(dxhat * xmu, axis=1, keepdims=True)
        dxmu1 = dxhat * ivar
        # ivar = 1 / sqrtvar
        dsqrtvar = -1.0 / (sqrtvar ** 2) * divar
        # sqrtvar = sqrt(var + eps)
        dvar = 0.5 / sqrtvar * dsqrtvar
        # var = mean(sq)
        dsq = dvar / N
        # sq = xmu ** 2
        dxmu2 = 2 * xmu * dsq
        # xmu = x - mu
        dx1 = dxmu1 + dxmu2
        dmu = -np.sum(dx1, axis=1, keepdims=True)
        # mu = mean(x)
        dx2 = dmu / N
        return (dx1 + dx2).reshape(shape)


# === [place] forward keeps the bare variance, and backward divides by sqrt(var) without eps, although forward divided
#     by sqrt(var + eps) (wrong for small variances or a larger eps, NaN for a constant row): line `sigma =
#     np.sqrt(var)`.
class LayerNorm(Module):
    def forward(self, x):
        mu = np.mean(x, axis=-1, keepdims=True)
        c = x - mu
        var = np.mean(np.square(c), axis=-1, keepdims=True)
        x_hat = c / np.sqrt(var + self.eps)
        self.remember(x_hat, var)
        return self.gamma.data * x_hat + self.beta.data

    def backward(self, dy):
        x_hat, var = self.recall()
        leading = tuple(range(dy.ndim - 1))
        self.beta.grad += np.sum(dy, axis=leading)
        self.gamma.grad += np.sum(dy * x_hat, axis=leading)

        # x_hat_i = c_i / sigma
        #   d x_hat_i / d x_j = (delta_ij - 1/D - x_hat_i x_hat_j / D) / sigma
        # contracted with dx_hat_i = gamma_i dy_i:
        dx_hat = self.gamma.data * dy
        sigma = np.sqrt(var)
        first = np.mean(dx_hat, axis=-1, keepdims=True)
        second = np.mean(dx_hat * x_hat, axis=-1, keepdims=True)
        return (dx_hat - first - second * x_hat) / sigma
