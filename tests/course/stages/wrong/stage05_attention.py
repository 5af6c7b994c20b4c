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


# === [place] Attention.forward and backward take the width of the values, e, for d in the scale 1 / sqrt(d), which is
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


# === [-] Attention.forward: boolean indexing needs a mask of exactly (T, S): masks that have to be broadcast, such as
#     (1, S), (S,), (B, 1, 1, S) or (B, H, T, S), raise IndexError.
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


# === [-] Attention.forward: the additive mask (bool array times Python float) is float64, so with a mask float32
#     inputs give float64 y, weights and dq, dk, dv; values are right.
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


# === [place] Attention.forward divides by the root of the size of v, e, instead of that of q, d (backward agrees with
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


# === [place] After flattening the leading axes, a mask such as (B, 1, T, S) is spread over the N = B H matrices with
#     np.tile (`M = np.tile(M, (N // len(M), 1, 1))`), which gives the order b0 b1 b0 b1 instead of b0 b0 b1 b1
#     (np.repeat), so the matrices of a batch get masks of other texts. (Line 44.)
def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    mask = np.zeros((T, T), dtype=bool)
    for t in range(T):
        mask[t, :t + 1] = True
    return mask


def stack_matrices(x):
    """(..., a, b) -> (N, a, b), all leading axes become one"""
    return x.reshape(-1, x.shape[-2], x.shape[-1])


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        lead = q.shape[:-2]
        T, d = q.shape[-2:]
        S, e = v.shape[-2:]
        Q, K, V = stack_matrices(q), stack_matrices(k), stack_matrices(v)
        N = len(Q)

        A = Q @ K.transpose(0, 2, 1) / math.sqrt(d)         # (N, T, S)
        if mask is not None:
            if mask.ndim == 1:
                mask = mask.reshape(1, -1)
            M = stack_matrices(mask)
            # one mask for each of the N matrices
            M = np.tile(M, (N // len(M), 1, 1))
            A = np.where(M, A, -np.inf)
        P = softmax(A)
        Y = P @ V

        self.weights = P.reshape(*lead, T, S)
        self.remember(Q, K, V, P, lead)
        return Y.reshape(*lead, T, e)

    def backward(self, dy):
        Q, K, V, P, lead = self.recall()
        d = Q.shape[-1]
        dY = stack_matrices(dy)

        dQ = np.empty_like(Q)
        dK = np.empty_like(K)
        dV = np.empty_like(V)
        for n in range(len(Q)):
            # Y = P V
            dV[n] = P[n].T @ dY[n]
            dP = dY[n] @ V[n].T
            # P = softmax(A)
            dA = softmax_backward(P[n], dP)
            # A = Q K^T / sqrt(d)
            dQ[n] = dA @ K[n] / math.sqrt(d)
            dK[n] = dA.T @ Q[n] / math.sqrt(d)

        return (dQ.reshape(*lead, *Q.shape[1:]), dK.reshape(*lead, *K.shape[1:]), dV.reshape(*lead, *V.shape[1:]))


# === [place] backward computes the weights anew from q and k (line 34, as with jax.checkpoint) but forgets the mask,
#     which was not remembered (line 29), so with a mask all three gradients are wrong.
def causal_mask(T):
    """Boolean (T, T): query t sees key s iff s <= t."""
    i = np.arange(T)
    return i[:, None] >= i[None, :]


def _scores(q, k):
    return np.einsum("...td,...sd->...ts", q, k) / math.sqrt(q.shape[-1])


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        s = _scores(q, k)
        if mask is not None:
            s = np.where(mask, s, -np.inf)
        self.weights = softmax(s)
        self.remember(q, k, v)
        return self.weights @ v

    def backward(self, dy):
        q, k, v = self.recall()
        w = softmax(_scores(q, k))
        dv = np.einsum("...ts,...te->...se", w, dy)
        ds = softmax_backward(w, np.einsum("...te,...se->...ts", dy, v)) / math.sqrt(q.shape[-1])
        dq = np.einsum("...ts,...sd->...td", ds, k)
        dk = np.einsum("...ts,...td->...sd", ds, q)
        return dq, dk, dv


# === [attributes] backward takes the weights from the attribute (`p = self.weights`) and not from the stack, so if
#     the layer was used twice before the first backward, the second backward works with the weights of the wrong use.
def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    t = np.arange(T)[:, None]
    s = np.arange(T)[None, :]
    return s <= t


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        d = q.shape[-1]
        A = np.einsum("...ti,...si->...ts", q, k) / math.sqrt(d)
        if mask is not None:
            A = np.where(mask, A, -np.inf)
        self.weights = softmax(A)
        self.remember(q, k, v)
        return np.einsum("...ts,...se->...te", self.weights, v)

    def backward(self, dy):
        q, k, v = self.recall()
        p = self.weights
        dv = np.einsum("...ts,...te->...se", p, dy)
        dp = np.einsum("...te,...se->...ts", dy, v)
        dA = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
        dq = np.einsum("...ts,...si->...ti", dA, k)
        dk = np.einsum("...ts,...ti->...si", dA, q)
        return dq, dk, dv


# === [place] The mask is not kept: backward computes the weights again from q, k and the log-sum of forward, but
#     without hiding scores, so hidden keys get weights above 0 and gradients: line `p = np.exp(scores_of(q, k) -
#     lse)`.
from stage01_loss import softmax


def causal_mask(T):
    return np.tril(np.ones((T, T), dtype=bool))


def scores_of(q, k):
    """A_ts = sum_i q_ti k_si / sqrt(d)"""
    return (q @ np.swapaxes(k, -1, -2)) / math.sqrt(q.shape[-1])


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        A = scores_of(q, k)
        if mask is not None:
            A = np.where(mask, A, -np.inf)
        top = A.max(axis=-1, keepdims=True)
        lse = top + np.log(np.exp(A - top).sum(axis=-1, keepdims=True))
        self.weights = softmax(A)
        y = self.weights @ v
        self.remember(q, k, v, y, lse)
        return y

    def backward(self, dy):
        q, k, v, y, lse = self.recall()
        p = np.exp(scores_of(q, k) - lse)
        dv = np.swapaxes(p, -1, -2) @ dy
        dp = dy @ np.swapaxes(v, -1, -2)
        dA = p * (dp - (dy * y).sum(axis=-1, keepdims=True))
        dA = dA / math.sqrt(q.shape[-1])
        dq = dA @ k
        dk = np.swapaxes(dA, -1, -2) @ q
        return dq, dk, dv
