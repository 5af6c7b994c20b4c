# === [SMB-1] softmax_backward uses only the diagonal of the Jacobian, dp * p * (1 - p), without the effect of z_i on
#     the other p_j: return dp * p * (1 - p).
def softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    e = np.exp(z)
    return e / np.sum(e, axis=-1, keepdims=True)


def softmax_backward(p, dp):
    # derivative of softmax is p (1 - p), then the chain rule
    return dp * p * (1 - p)


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        V = logits.shape[-1]
        rows = logits.reshape(-1, V)
        t = np.asarray(targets).reshape(-1)
        keep = np.arange(len(t)) if self.ignore_id is None else np.flatnonzero(t != self.ignore_id)
        eps = self.label_smoothing
        z = rows[keep] - rows[keep].max(axis=1, keepdims=True)
        lse = np.log(np.exp(z).sum(axis=1, keepdims=True))
        logp = z - lse
        picked = logp[np.arange(len(keep)), t[keep]]
        loss = -((1 - eps) * picked.sum() + eps / V * logp.sum()) / len(keep)
        self.remember(logits.shape, logp, keep, t[keep])
        return loss

    def backward(self):
        shape, logp, keep, t = self.recall()
        V = shape[-1]
        d = np.exp(logp) - self.label_smoothing / V
        d[np.arange(len(keep)), t] -= 1 - self.label_smoothing
        out = np.zeros((int(np.prod(shape[:-1])), V), dtype=logp.dtype)
        out[keep] = d / len(keep)
        return out.reshape(shape)


# === [CE-11a] CrossEntropyLoss.backward divides by the number of all targets and not by the number of the counted
#     ones, N, as forward does: / mask.size.
def softmax(z):
    shifted = z - z.max(-1, keepdims=True)
    exps = np.exp(shifted)
    return exps / exps.sum(-1, keepdims=True)


def softmax_backward(p, dp):
    row = np.einsum("...v,...v->...", p, dp)[..., None]
    return p * (dp - row)


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        V = logits.shape[-1]
        if self.ignore_id is None:
            mask = np.ones(np.shape(targets), dtype=bool)
        else:
            mask = np.asarray(targets) != self.ignore_id
        m = logits.max(axis=-1, keepdims=True)
        logp = logits - m - np.log(np.sum(np.exp(logits - m), axis=-1, keepdims=True))
        classes = np.where(mask, targets, 0)
        onehot = (np.arange(V) == classes[..., None]).astype(logits.dtype)
        q = (1 - self.label_smoothing) * onehot + self.label_smoothing / V
        each = -np.sum(q * logp, axis=-1)
        self.remember(logp, q, mask)
        return np.sum(np.where(mask, each, 0)) / int(mask.sum())

    def backward(self):
        logp, q, mask = self.recall()
        dlogits = (np.exp(logp) - q) / mask.size
        return np.where(mask[..., None], dlogits, 0)


# === [CE-12a] _smooth, used by CrossEntropyLoss.forward, spreads the label smoothing over the other V - 1 classes
#     only: 1 - e at the target and e / (V - 1) elsewhere; forward and backward agree: q = np.full((n, V), eps / max(V
#     - 1, 1), dtype=dtype).
def _smooth(targets, V, eps, dtype):
    """The wanted distribution of each row, (n, V)."""
    n = len(targets)
    q = np.full((n, V), eps / max(V - 1, 1), dtype=dtype)
    q[np.arange(n), targets] = 1 - eps
    return q


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    return np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)


def softmax_backward(p, dp):
    # a = exp(z), s = sum of a, p = a / s ; everything divided by s already
    s = (dp * p).sum(axis=-1, keepdims=True)
    return dp * p - p * s


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        V = logits.shape[-1]
        z = logits.reshape(-1, V)
        t = np.reshape(targets, -1)
        counts = np.full(t.shape, True) if self.ignore_id is None else (t != self.ignore_id)
        z = z[counts]
        q = _smooth(t[counts], V, self.label_smoothing, logits.dtype)
        z = z - z.max(axis=1)[:, None]
        logp = z - np.log(np.exp(z).sum(axis=1))[:, None]
        self.remember(logp, q, counts, logits.shape)
        return -(q * logp).sum() / len(q)

    def backward(self):
        logp, q, counts, shape = self.recall()
        grad = np.zeros((len(counts), shape[-1]), logp.dtype)
        grad[counts] = (np.exp(logp) - q) / len(q)
        return grad.reshape(shape)


# === [-] CrossEntropyLoss.forward uses ignored targets as indices, which raises an IndexError when ignore_id is no
#     class, such as 100: onehot = eye[targets].
def softmax(z):
    top = np.amax(z, axis=-1, keepdims=True)
    a = np.exp(z - top)
    s = a.sum(axis=-1, keepdims=True)
    return a / s


def softmax_backward(p, dp):
    return p * (dp - np.sum(dp * p, axis=-1, keepdims=True))


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        targets = np.asarray(targets)
        V = logits.shape[-1]
        eye = np.eye(V, dtype=logits.dtype)
        onehot = eye[targets]
        q = (1 - self.label_smoothing) * onehot + self.label_smoothing / V
        z = logits - logits.max(axis=-1, keepdims=True)
        logp = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
        losses = -(q * logp).sum(axis=-1)
        if self.ignore_id is not None:
            use = targets != self.ignore_id
        else:
            use = np.ones_like(targets, dtype=bool)
        n = int(use.sum())
        self.remember(np.exp(logp), q, use, n)
        return losses[use].sum() / n

    def backward(self):
        p, q, use, n = self.recall()
        d = (p - q) / n
        d[~use] = 0
        return d


# === [CE-18] CrossEntropyLoss.forward: the e / V part of the loss is averaged over all rows, ignored ones too (only
#     the onehot part is restricted to the counted rows): loss wrong (gradient right) when label_smoothing > 0 and at
#     least one target is ignored.
def softmax(z):
    top = z.max(axis=-1)[..., None]
    weights = np.exp(z - top)
    total = weights.sum(axis=-1)[..., None]
    return weights / total


def softmax_backward(p, dp):
    return p * dp - p * np.sum(p * dp, axis=-1, keepdims=True)


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        n_classes = logits.shape[-1]
        flat = logits.reshape(-1, n_classes)
        flat_targets = targets.reshape(-1)
        if self.ignore_id is not None:
            rows = np.nonzero(flat_targets != self.ignore_id)[0]
        else:
            rows = np.arange(len(flat_targets))
        correct = flat_targets[rows]

        biggest = flat.max(axis=1, keepdims=True)
        log_p = flat - biggest - np.log(np.exp(flat - biggest).sum(axis=1, keepdims=True))

        eps = self.label_smoothing
        hard = -log_p[rows, correct].mean()                 # the onehot part of q
        uniform = -log_p.mean()                             # the part with e / V
        self.remember(np.exp(log_p), rows, correct, logits.shape)
        return (1 - eps) * hard + eps * uniform

    def backward(self):
        p, rows, correct, shape = self.recall()
        eps = self.label_smoothing
        grad = np.zeros_like(p)
        grad[rows] = p[rows] - eps / p.shape[1]
        grad[rows, correct] -= 1 - eps
        grad /= len(rows)
        return grad.reshape(shape)


# === [-] CrossEntropyLoss.forward: z = logits.reshape(...) is a view of the caller's array, and z -= max subtracts
#     the row maximum in place: the logits argument is changed (loss and gradient are right).
def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def softmax_backward(p, dp):
    dot = (dp * p).sum(-1, keepdims=True)
    return (dp - dot) * p


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        shape = logits.shape
        z = logits.reshape(-1, shape[-1])
        z -= z.max(axis=1, keepdims=True)                   # no overflow in exp
        y = targets.ravel()
        mask = np.ones(len(y), dtype=bool) if self.ignore_id is None else (y != self.ignore_id)
        N = int(mask.sum())
        log_z = np.log(np.exp(z).sum(axis=1, keepdims=True))
        logp = z - log_z
        q = np.full_like(logp, self.label_smoothing / shape[-1])
        q[mask, y[mask]] += 1 - self.label_smoothing
        q[~mask] = 0
        self.remember(shape, np.exp(logp), q, mask, N)
        return -(q * logp).sum() / N

    def backward(self):
        shape, p, q, mask, N = self.recall()
        dz = p - q
        dz[~mask] = 0
        return (dz / N).reshape(shape)


# === [SMF-2] CrossEntropyLoss.forward subtracts the maximum of the whole array and not of each row, so a row far
#     below another one gives log(0) = -infinity (loss inf or nan); softmax and backward use the maximum of each row
#     (shifted = logits - logits.max())
def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(p, dp):
    # a = exp(z), s = sum(a), p = a / s, in units of s = 1
    ds = -(dp * p).sum(axis=-1, keepdims=True)
    da = dp + ds
    return da * p


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        shifted = logits - logits.max()
        a = np.exp(shifted)
        log_sum = np.log(a.sum(axis=-1, keepdims=True))
        log_p = shifted - log_sum
        counted = np.ones_like(targets, dtype=bool)
        if self.ignore_id is not None:
            counted = targets != self.ignore_id
        classes = np.where(counted, targets, 0)
        N = int(np.sum(counted))
        at_target = np.take_along_axis(log_p, classes[..., np.newaxis], axis=-1)[..., 0]
        each = (1 - self.label_smoothing) * at_target + self.label_smoothing * log_p.mean(axis=-1)
        self.remember(softmax(logits), classes, counted, N)
        return -np.where(counted, each, 0).sum() / each.dtype.type(N)

    def backward(self):
        p, classes, counted, N = self.recall()
        V = p.shape[-1]
        q = np.full_like(p, self.label_smoothing / V)
        np.put_along_axis(q, classes[..., np.newaxis], 1 - self.label_smoothing + self.label_smoothing / V, axis=-1)
        return np.where(counted[..., np.newaxis], p - q, 0) / N


# === [place] CrossEntropyLoss.forward, lines 48-49, returns the KL divergence q (log q - log p) of KLDivLoss instead
#     of the cross-entropy, so with label smoothing the loss is too small by the entropy of q (gradients right; page
#     example differs).
def log_softmax(z):
    shifted = z - np.max(z, axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def softmax(z):
    return np.exp(log_softmax(z))


def softmax_backward(p, dp):
    # dz_j = sum_i dp_i * p_i * (delta_ij - p_j)
    weighted = p * dp
    return weighted - p * weighted.sum(-1, keepdims=True)


class CrossEntropyLoss(Module):
    def true_dist(self, keep, targets, like):
        """Like the smoothing in the annotated Transformer: fill, then scatter the confidence."""
        V = like.shape[-1]
        q = np.full_like(like, self.label_smoothing / V)
        where = np.where(keep, targets, 0)[..., None]
        np.put_along_axis(q, where, 1.0 - self.label_smoothing + self.label_smoothing / V, axis=-1)
        q[~keep] = 0
        return q

    def forward(self, logits, targets):
        targets = np.asarray(targets)
        if self.ignore_id is None:
            keep = np.full(targets.shape, True)
        else:
            keep = np.asarray(targets != self.ignore_id)
        count = int(np.count_nonzero(keep))
        q = self.true_dist(keep, targets, logits)
        logp = log_softmax(logits)
        # the criterion: q (log q - log p), and 0 log 0 = 0
        log_q = np.log(np.where(q > 0, q, 1).astype(logits.dtype))
        kl = (q * (log_q - logp)).sum(-1)
        self.remember(logp, q, keep, count)
        return kl.sum() / logits.dtype.type(count)

    def backward(self):
        logp, q, keep, count = self.recall()
        grad = np.exp(logp) - q
        grad = grad * keep[..., None]
        return grad / count


# === [-] softmax_backward, builds the Jacobian with np.eye(V), a float64 array, so float32 p and dp give a float64
#     dz.
def softmax(z):
    counts = np.exp(z - z.max(-1, keepdims=True))
    return counts / counts.sum(-1, keepdims=True)


def softmax_backward(p, dp):
    # the Jacobian of softmax: J_ij = p_i (1 if i == j else 0) - p_i p_j, one matrix for each row
    V = p.shape[-1]
    J = p[..., :, None] * np.eye(V) - p[..., :, None] * p[..., None, :]
    return (J @ dp[..., :, None])[..., 0]


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        V = logits.shape[-1]
        flat = logits.reshape(-1, V)
        yb = np.asarray(targets).reshape(-1)
        if self.ignore_id is None:
            rows = np.arange(len(yb))
        else:
            rows = np.flatnonzero(yb != self.ignore_id)
        n = len(rows)
        x, y = flat[rows], yb[rows]
        x = x - x.max(1, keepdims=True)
        logprobs = x - np.log(np.exp(x).sum(1, keepdims=True))
        e = self.label_smoothing
        nll = -logprobs[np.arange(n), y].mean()
        smooth = -logprobs.mean()
        self.remember(np.exp(logprobs), y, rows, logits.shape)
        return (1 - e) * nll + e * smooth

    def backward(self):
        probs, y, rows, shape = self.recall()
        n, V = probs.shape
        e = self.label_smoothing
        d = probs - e / V
        d[np.arange(n), y] -= 1 - e
        out = np.zeros((int(np.prod(shape[:-1])), V), dtype=probs.dtype)
        out[rows] = d / n
        return out.reshape(shape)


# === [-] CrossEntropyLoss.forward, makes ignored targets safe only with np.maximum(targets, 0), so an ignore_id of V
#     or more (such as 999) is used as an index in line 38 and raises IndexError.
def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    a = np.exp(z)
    s = a.sum(axis=-1, keepdims=True)
    return a / s


def softmax_backward(p, dp):
    dot = np.einsum("...v,...v->...", p, dp)
    return p * (dp - dot[..., None])


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        eps, V = self.label_smoothing, logits.shape[-1]
        targets = np.asarray(targets)
        mask = np.ones_like(targets, dtype=bool) if self.ignore_id is None else np.not_equal(targets, self.ignore_id)
        N = int(mask.sum())

        m = logits.max(axis=-1, keepdims=True)
        lse = np.log(np.exp(logits - m).sum(axis=-1, keepdims=True))
        logp = logits - m - lse

        # the padding id (-1 or -100) is no class, so gather something harmless there
        index = np.maximum(targets, 0)
        picked = np.take_along_axis(logp, index[..., None], axis=-1)[..., 0]
        per_token = -((1 - eps) * picked + eps * logp.mean(axis=-1))
        per_token = np.where(mask, per_token, 0).astype(logits.dtype)

        self.remember(logp, index, mask, N)
        return per_token.sum() / logits.dtype.type(N)

    def backward(self):
        logp, index, mask, N = self.recall()
        eps, V = self.label_smoothing, logp.shape[-1]
        d = np.exp(logp) - eps / V
        hot = np.take_along_axis(d, index[..., None], axis=-1) - (1 - eps)
        np.put_along_axis(d, index[..., None], hot, axis=-1)
        d[np.logical_not(mask)] = 0
        return d / N


# === [CE-12i] CrossEntropyLoss.backward subtracts only (1 - e) onehot and forgets the e / V of q in every class, so
#     dlogits is too large by e / (V N) whenever label_smoothing is not 0; the loss itself is right.
def softmax(z):
    e = np.exp(z - np.amax(z, -1, keepdims=True))
    return e / np.add.reduce(e, -1, keepdims=True)


def softmax_backward(p, dp):
    # da = dp / s - sum(dp * a) / s**2, dz = a * da, with a / s = p
    return p * dp - p * np.sum(p * dp, axis=-1, keepdims=True)


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        eps = self.label_smoothing
        m = np.max(logits, axis=-1, keepdims=True)
        logp = logits - m - np.log(np.sum(np.exp(logits - m), axis=-1, keepdims=True))

        if self.ignore_id is None:
            keep = np.ones(np.shape(targets), dtype=bool)
        else:
            keep = np.asarray(targets) != self.ignore_id
        n = int(np.count_nonzero(keep))

        index = np.where(keep, targets, 0)[..., None]
        correct = np.take_along_axis(logp, index, axis=-1)[..., 0]
        # q = (1 - e) onehot + e / V, so the loss of a row has two parts
        row = -(1 - eps) * correct - eps * logp.mean(axis=-1)
        self.remember(np.exp(logp), index, keep, n)
        return np.where(keep, row, 0).sum() / n

    def backward(self):
        p, index, keep, n = self.recall()
        d = p.copy()
        at_target = np.take_along_axis(p, index, axis=-1)
        np.put_along_axis(d, index, at_target - (1 - self.label_smoothing), axis=-1)
        d[~keep] = 0
        return d / n


# === [place] softmax_backward sums without keepdims, so it is right only for one row (V,): other shapes raise a
#     broadcast error, and a square (n, n) gives wrong numbers silently.
def softmax(z):
    z = z - z.max(-1, keepdims=True)
    return np.exp(z) / np.exp(z).sum(-1, keepdims=True)


def softmax_backward(p, dp):
    total = (p * dp).sum(-1)            # what s gets, times s
    return p * (dp - total)


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        V = logits.shape[-1]
        z = logits.reshape(-1, V)
        z = z - z.max(-1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
        t = np.asarray(targets).reshape(-1)
        counts = [True] * len(t) if self.ignore_id is None else [int(i) != self.ignore_id for i in t]
        q = np.zeros_like(log_p)
        for row in range(len(t)):
            if counts[row]:
                q[row] = self.label_smoothing / V
                q[row, t[row]] += 1 - self.label_smoothing
        N = sum(counts)
        self.remember(log_p, q, N, logits.shape)
        return -(q * log_p).sum() / N

    def backward(self):
        log_p, q, N, shape = self.recall()
        dz = np.zeros_like(q)
        used = q.any(axis=-1)
        dz[used] = (np.exp(log_p[used]) - q[used]) / N
        return dz.reshape(shape)


# === [CE-19] The mask of the ignored targets is applied to the one-hot vector before smoothing and not to q (lines
#     38-39), so with label smoothing every ignored row still adds its e/V terms to the loss in forward (line 41);
#     backward masks correctly.
def _logsumexp(z):
    m = z.max(-1, keepdims=True)
    return m, np.log(np.exp(z - m).sum(-1, keepdims=True))


def softmax(z):
    """softmax over the last axis."""
    m, lse = _logsumexp(z)
    return np.exp((z - m) - lse)


def softmax_backward(p, dp):
    """dz = p * (dp - <p, dp>), row by row."""
    return p * (dp - np.einsum("...v,...v->...", p, dp)[..., None])


class CrossEntropyLoss(Module):
    def forward(self, logits, targets):
        V, e = logits.shape[-1], self.label_smoothing
        targets = np.asarray(targets)
        valid = np.ones(targets.shape, bool) if self.ignore_id is None else np.asarray(targets != self.ignore_id)
        n = int(valid.sum())
        m, lse = _logsumexp(logits)
        logp = (logits - m) - lse
        onehot = (targets[..., None] == np.arange(V)) & valid[..., None]
        q = ((1 - e) * onehot + e / V).astype(logits.dtype)
        self.remember(np.exp(logp), q, valid, n)
        return -(q * logp).sum() / n

    def backward(self):
        p, q, valid, n = self.recall()
        return (p - q) * valid[..., None] / n
