# === [ATB-1b] Attention.forward scales q before the product, and backward returns the gradient of the scaled query
#     without the factor 1 / sqrt(d): dq = dscores @ k.
def causal_mask(T):
    t = np.arange(T)
    return t[:, None] >= t[None, :]


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        q = q / math.sqrt(q.shape[-1])
        scores = q @ k.mT
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        self.weights = softmax(scores)
        self.remember(q, k, v, self.weights)
        return self.weights @ v

    def backward(self, dy):
        q, k, v, w = self.recall()
        dv = w.mT @ dy
        dw = dy @ v.mT
        dscores = softmax_backward(w, dw)
        dq = dscores @ k
        dk = dscores.mT @ q
        return dq, dk, dv


# === [-] Attention.forward indexes the scores with the mask, which raises an IndexError for masks with axes of size 1
#     (such as (B, 1, S) for padding) because it does not broadcast; masks of (T, S), (S,) or the full shape work;
#     line 27: scores[..., ~mask] = -np.inf.
class Attention(Module):
    def forward(self, q, k, v, mask=None):
        d = q.shape[-1]
        scores = np.einsum("...td,...sd->...ts", q, k) / math.sqrt(d)
        if mask is not None:
            scores[..., ~mask] = -np.inf
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        q, k, v, p = self.recall()
        dp = np.einsum("...te,...se->...ts", dy, v)
        dv = np.einsum("...ts,...te->...se", p, dy)
        dA = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
        dq = np.einsum("...ts,...sd->...td", dA, k)
        dk = np.einsum("...ts,...td->...sd", dA, q)
        return dq, dk, dv


# === [MSK-7 or MSK-7b] Attention.forward multiplies the scores by the mask, so hidden scores become 0 instead of
#     -infinity (and backward multiplies by it too): scores = scores * mask.
def causal_mask(T):
    mask = np.zeros((T, T), dtype=bool)
    for t in range(T):
        mask[t, : t + 1] = True
    return mask


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores * mask
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p, mask)
        return p @ v

    def backward(self, dy):
        q, k, v, p, mask = self.recall()
        dv = np.swapaxes(p, -1, -2) @ dy
        dp = dy @ np.swapaxes(v, -1, -2)
        ds = softmax_backward(p, dp)
        if mask is not None:
            ds = ds * mask
        ds = ds / math.sqrt(q.shape[-1])
        return ds @ k, np.swapaxes(ds, -1, -2) @ q, dv


# === [-] Attention.forward and backward take the width of the values, e, for d in the scale 1 / sqrt(d), which is
#     right only if d = e: scale = 1 / math.sqrt(v.shape[-1]).
def causal_mask(T):
    return np.tril(np.ones((T, T))) == 1


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(v.shape[-1])
        A = q @ k.mT * scale
        if mask is not None:
            A = np.where(mask, A, -math.inf)
        p = self.weights = softmax(A)
        self.remember(p, q, k, v, scale)
        return p @ v

    def backward(self, dy):
        p, q, k, v, scale = self.recall()
        dA = softmax_backward(p, dy @ v.mT) * scale
        return dA @ k, dA.mT @ q, p.mT @ dy


# === [-] Attention.forward: boolean indexing needs a mask of exactly (T, S): masks that have to be
#     broadcast, such as (1, S), (S,), (B, 1, 1, S) or (B, H, T, S), raise IndexError.
def causal_mask(T):
    return ~np.triu(np.ones((T, T), dtype=bool), k=1)


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(k.shape[-1])
        A = np.einsum("...td,...sd->...ts", q, k) * scale
        if mask is not None:
            A[..., ~mask] = -np.inf
        p = softmax(A)
        self.weights = p
        self.remember(q, k, v, p, scale)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        q, k, v, p, scale = self.recall()
        dp = np.einsum("...te,...se->...ts", dy, v)
        dA = softmax_backward(p, dp) * scale
        dq = np.einsum("...ts,...sd->...td", dA, k)
        dk = np.einsum("...ts,...td->...sd", dA, q)
        dv = np.einsum("...ts,...te->...se", p, dy)
        return dq, dk, dv


# === [-] Attention.forward: the additive mask (bool array times Python float) is float64, so with a mask
#     float32 inputs give float64 y, weights and dq, dk, dv; values are right.
def causal_mask(T):
    mask = np.zeros((T, T), dtype=bool)
    for t in range(T):
        mask[t, :t + 1] = True
    return mask


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        d = q.shape[-1]
        scores = q @ k.mT / math.sqrt(d)
        if mask is not None:
            scores = scores + ~mask * -1e30                 # exp makes it 0
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p)
        return p @ v

    def backward(self, dy):
        q, k, v, p = self.recall()
        d = q.shape[-1]
        dv = p.mT @ dy
        dscores = softmax_backward(p, dy @ v.mT)
        dscores = dscores / math.sqrt(d)
        return dscores @ k, dscores.mT @ q, dv


# === [ATB-1c] Attention.backward: the factor 1 / sqrt(d) is missing in dk (dq has it) (dk =
#     np.einsum("...ts,...td->...sd", dscores, q))
def causal_mask(T):
    rows, columns = np.indices((T, T))
    return columns <= rows


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(q.shape[-1])
        scores = np.einsum("...td,...sd->...ts", q, k) * scale
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p, scale)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        q, k, v, p, scale = self.recall()
        dv = np.einsum("...ts,...te->...se", p, dy)
        dp = np.einsum("...te,...se->...ts", dy, v)
        dscores = softmax_backward(p, dp)
        dq = np.einsum("...ts,...sd->...td", dscores, k) * scale
        dk = np.einsum("...ts,...td->...sd", dscores, q)
        return dq, dk, dv


# === [-] Attention.forward divides by the root of the size of v, e, instead of that of q, d (backward agrees with
#     it); right if e = d (d = v.shape[-1])
class Attention(Module):
    def forward(self, q, k, v, mask=None):
        d = v.shape[-1]
        A = (q @ k.mT) / math.sqrt(d)
        if mask is not None:
            A = np.where(mask, A, -math.inf)
        self.weights = softmax(A)
        self.remember(q, k, v, self.weights, d)
        return self.weights @ v

    def backward(self, dy):
        q, k, v, weights, d = self.recall()
        dweights = dy @ v.mT
        dv = weights.mT @ dy
        dA = softmax_backward(weights, dweights) / math.sqrt(d)
        dq = dA @ k
        dk = dA.mT @ q
        return dq, dk, dv


# === [-] Attention.forward indexes the scores with the mask, which works only for masks of exactly (T, S) or of the
#     full shape: a mask with axes of size 1 or with fewer axes, such as (B, 1, 1, S), raises IndexError (line 27:
#     scores[..., ~mask] = -np.inf)
def causal_mask(T):
    t = np.arange(T)
    return t[:, None] >= t[None, :]


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores[..., ~mask] = -np.inf
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p)
        return p @ v

    def backward(self, dy):
        q, k, v, p = self.recall()
        root = math.sqrt(q.shape[-1])
        dv = np.swapaxes(p, -1, -2) @ dy
        dscores = softmax_backward(p, dy @ np.swapaxes(v, -1, -2))
        return dscores @ k / root, np.swapaxes(dscores, -1, -2) @ q / root, dv


# === [ATT-3] Attention.backward, line 33 (with lines 21-26), recomputes the weights with self.mask, the mask of the
#     latest forward, so with two uses before backward and other masks or shapes the gradients are wrong or it raises
#     an error.
def causal_mask(T):
    pos = np.arange(T)
    return pos[:, None] >= pos[None, :]


class Attention(Module):
    def attend(self, q, k):
        wei = q @ np.swapaxes(k, -2, -1) * q.shape[-1] ** -0.5
        if self.mask is not None:
            wei = np.where(self.mask, wei, -np.inf)
        return softmax(wei)

    def forward(self, q, k, v, mask=None):
        self.mask = mask
        self.weights = self.attend(q, k)
        self.remember(q, k, v)
        return self.weights @ v

    def backward(self, dy):
        q, k, v = self.recall()
        p = self.attend(q, k)
        dv = np.swapaxes(p, -2, -1) @ dy
        dp = dy @ np.swapaxes(v, -2, -1)
        dwei = softmax_backward(p, dp) * q.shape[-1] ** -0.5
        dq = dwei @ k
        dk = np.swapaxes(dwei, -2, -1) @ q
        return dq, dk, dv
