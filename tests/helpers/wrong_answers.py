"""Wrong answers as students write them, with a comment at the line that is wrong (or at each line that may be named)."""

import re

from numpy_transformer.course.exercises import choose

MARK = "# here"
ANSWERS = '''
=== 01.1 the maximum of the columns, in a step of its own
def softmax(z):
    largest = z.max(axis=0)                     # here
    e = np.exp(z - largest)                     # here
    total = e.sum(axis=-1, keepdims=True)
    return e / total
=== 01.1 the square of the exponentials is summed
def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    norm = (e ** 2).sum(-1, keepdims=True)      # here
    return e / norm                             # here
=== 01.2 the sum is weighted twice
def softmax_backward(p, dp):
    weighted = p * dp
    total = (p * weighted).sum(-1, keepdims=True)       # here
    return p * (dp - total)
=== 01.2 p is missing in the second term
def softmax_backward(p, dp):
    first = p * dp
    second = first.sum(-1, keepdims=True)
    dz = first - second                         # here
    return dz
=== 01.2 the Jacobian of one row, but the outer product is added
def softmax_backward(p, dp):
    dz = np.zeros_like(dp)
    rows, grads, out = (a.reshape(-1, p.shape[-1]) for a in (p, dp, dz))
    for i in range(len(rows)):
        jacobian = np.diag(rows[i]) + np.outer(rows[i], rows[i])        # here
        out[i] = jacobian @ grads[i]
    return out.reshape(p.shape)
=== 01.2 the parentheses are missing, so p weights only the first term
def softmax_backward(p, dp):
    total = (p * dp).sum(-1, keepdims=True)
    grad = p * dp - total                       # here
    return grad
=== 01.4 smoothing is spread over the other classes as well as the correct one, but not subtracted
def cross_entropy_backward(logits, targets, smoothing, ignore_id):
    V = logits.shape[-1]
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    q = np.eye(V)[np.where(targets == ignore_id, 0, targets)] + smoothing / V   # here
    counted = targets != ignore_id
    dlogits = (p - q) * counted[..., None] / int(counted.sum())
    return dlogits.astype(logits.dtype)
=== 01.4 the mean over the classes as well
def cross_entropy_backward(logits, targets, smoothing, ignore_id):
    V = logits.shape[-1]
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    q = (1 - smoothing) * np.eye(V)[np.where(targets == ignore_id, 0, targets)] + smoothing / V
    keep = (targets != ignore_id)[..., None]
    n = int(keep.sum()) * 2                     # here
    return ((p - q) * keep / n).astype(logits.dtype)
=== 02.1 the bias gradient of the first axis only
def linear_backward(x, weight, dy):
    n = x.shape[-1]
    dx = dy @ weight.T
    flat = x.reshape(-1, n)
    dflat = dy.reshape(-1, dy.shape[-1])
    dweight = flat.T @ dflat
    dbias = dflat.sum(1)                        # here
    return dx, dweight, dbias
=== 02.1 reshaped in the wrong order before the product
def linear_backward(x, weight, dy):
    dx = dy @ weight.T
    flat = x.reshape(x.shape[-1], -1)           # here
    dflat = dy.reshape(-1, dy.shape[-1])
    dweight = flat @ dflat                      # here
    return dx, dweight, dflat.sum(0)
=== 03.1 the padding row keeps its gradient when its id is 0
def embedding_backward(ids, dy, vocab_size, pad_id):
    D = dy.shape[-1]
    dtable = np.zeros((vocab_size, D), dy.dtype)
    np.add.at(dtable, ids, dy * math.sqrt(D))
    if pad_id:                                  # here
        dtable[pad_id] = 0
    return dtable
=== 03.1 scaled by the size of the vocabulary
def embedding_backward(ids, dy, vocab_size, pad_id):
    D = dy.shape[-1]
    scaled = dy * math.sqrt(vocab_size)         # here
    dtable = np.zeros((vocab_size, D), dy.dtype)
    np.add.at(dtable, ids, scaled)
    if pad_id is not None:
        dtable[pad_id] = 0
    return dtable
=== 04.1 the angle is multiplied by the position plus one
def sinusoidal_positions(T, D):
    t = np.arange(1, T + 1)[:, None]            # here
    i = np.arange(D) // 2
    angle = t / 10000 ** (2 * i / D)
    table = np.where(np.arange(D) % 2 == 0, np.sin(angle), np.cos(angle))
    return table
=== 05.1 scaled by the size of the values
def attention(q, k, v):
    d = v.shape[-1]                             # here
    s = np.einsum("...td,...sd->...ts", q, k)
    s = s / math.sqrt(d)                        # here
    w = softmax(s)
    return np.einsum("...ts,...se->...te", w, v), w
=== 05.1 softmax of the transposed scores
def attention(q, k, v):
    s = q @ np.swapaxes(k, -1, -2)
    s = s / math.sqrt(k.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    w = e / e.sum(-2, keepdims=True)            # here
    return w @ v, w
=== 05.2 dropout is divided out instead of multiplied
def attention_backward(q, k, v, p, m, dy):
    w = p * m
    dv = w.mT @ dy
    dw = dy @ v.mT
    dp = dw / np.where(m > 0, m, 1)             # here
    ds = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
    dq = ds @ k
    dk = ds.mT @ q
    return dq, dk, dv
=== 05.2 the scale of the values
def attention_backward(q, k, v, p, m, dy):
    dv = np.swapaxes(p * m, -1, -2) @ dy
    dp = (dy @ np.swapaxes(v, -1, -2)) * m
    ds = softmax_backward(p, dp)
    scale = 1 / np.sqrt(k.shape[-2])            # here
    dq = ds @ k * scale                         # here
    dk = np.swapaxes(ds, -1, -2) @ q * scale
    return dq, dk, dv
=== 05.2 own softmax backward with a mean
def attention_backward(q, k, v, p, m, dy):
    dv = (p * m).mT @ dy
    dp = dy @ v.mT * m
    inner = np.mean(p * dp, axis=-1, keepdims=True)     # here
    ds = p * (dp - inner)
    ds = ds / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, dv
=== 05.2 the first key of every query
def attention_backward(q, k, v, p, m, dy):
    dv = (p * m).mT @ dy
    dp = dy @ v.mT * m
    ds = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
    dq = ds[..., :1] * k[..., :1, :]            # here
    dk = ds.mT @ q
    return dq, dk, dv
=== 06.3 hidden keys get a score of zero
def masked_softmax(scores, mask):
    hidden = np.where(mask, scores, 0.0)        # here
    e = np.exp(hidden - hidden.max(-1, keepdims=True))
    e = e * mask
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)
=== 06.3 the sum runs over all keys
def masked_softmax(scores, mask):
    s = np.where(mask, scores, -np.inf)
    top = s.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    e = np.exp(s - top)
    total = np.exp(scores - top).sum(-1, keepdims=True)         # here
    return e / np.where(total > 0, total, 1)
=== 07.1 the axes of tokens and heads are exchanged by reshape
def split_heads(x, num_heads):
    *lead, T, D = x.shape
    d = D // num_heads
    parts = x.reshape(*lead, T, d, num_heads)   # here
    heads = np.moveaxis(parts, -1, -3)
    return heads
=== 07.3 dx without the weights' transposes
def multi_head_backward(x, w_q, w_k, w_v, dq, dk, dv):
    a = merge_heads(dq)
    b = merge_heads(dk)
    c = merge_heads(dv)
    dx = a @ w_q.T + b @ w_k.T + c @ w_v        # here
    flat = x.reshape(-1, x.shape[-1]).T
    D = x.shape[-1]
    return dx, flat @ a.reshape(-1, D), flat @ b.reshape(-1, D), flat @ c.reshape(-1, D)
=== 08.1 the variance is not taken from the mean of the row
def layer_norm(x, gamma, beta, eps):
    mean = x.mean(-1, keepdims=True)
    centered = x - mean
    var = (x ** 2).mean(-1, keepdims=True)      # here
    return gamma * centered / np.sqrt(var + eps) + beta
=== 08.1 eps is squared
def layer_norm(x, gamma, beta, eps):
    mu = np.mean(x, axis=-1, keepdims=True)
    s = np.std(x, axis=-1, keepdims=True)
    x_hat = (x - mu) / np.sqrt(s ** 2 + eps ** 2)       # here
    return gamma * x_hat + beta
=== 08.2 the second term is a sum, not a mean
def layer_norm_backward(x, gamma, eps, dy):
    mu = x.mean(-1, keepdims=True)
    s = np.sqrt(x.var(-1, keepdims=True) + eps)
    h = (x - mu) / s
    g = dy * gamma
    a = g.mean(-1, keepdims=True)
    b = (g * h).sum(-1, keepdims=True)          # here
    dx = (g - a - h * b) / s
    axes = tuple(range(x.ndim - 1))
    return dx, (dy * h).sum(axes), dy.sum(axes)
=== 08.2 the last two terms are added where they are multiplied
def layer_norm_backward(x, gamma, eps, dy):
    inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    x_hat = (x - x.mean(-1, keepdims=True)) * inverse
    g = gamma * dy
    first = g.mean(-1, keepdims=True)
    second = (g * x_hat).mean(-1, keepdims=True)
    dx = inverse * (g - first - x_hat + second)         # here
    axes = tuple(range(x.ndim - 1))
    return dx, (dy * x_hat).sum(axes), dy.sum(axes)
=== 08.2 the standard deviation is forgotten in one term
def layer_norm_backward(x, gamma, eps, dy):
    mu = x.mean(-1, keepdims=True)
    c = x - mu
    var = (c ** 2).mean(-1, keepdims=True)
    inv = 1 / np.sqrt(var + eps)
    dh = dy * gamma
    dvar = (dh * c).sum(-1, keepdims=True) * -0.5 * inv         # here
    dmu = -(dh * inv).sum(-1, keepdims=True)
    D = x.shape[-1]
    dx = dh * inv + dvar * 2 * c / D + dmu / D  # here
    rows = dy.reshape(-1, D)
    return dx, (rows * (c * inv).reshape(-1, D)).sum(0), rows.sum(0)
=== 09.5 the derivative of the sigmoid is taken at the wrong place
def swiglu_backward(x, Wg, Wu, Wd, dy):
    g, u = x @ Wg, x @ Wu
    sig = 1 / (1 + np.exp(-g))
    s = g * sig
    dh = dy @ Wd.T
    du = dh * s
    ds = dh * u
    dg = ds * (sig + g * sig * (1 - g))         # here
    dx = dg @ Wg.T + du @ Wu.T
    flat = rows(x)
    return dx, flat.T @ rows(dg), flat.T @ rows(du), rows(s * u).T @ rows(dy)
=== 09.5 the gate is used where the product is needed
def swiglu_backward(x, Wg, Wu, Wd, dy):
    gate = x @ Wg
    up = x @ Wu
    sigma = 1 / (1 + np.exp(-gate))
    act = gate * sigma
    hidden = act * up
    dhidden = dy @ Wd.T
    dgate = dhidden * up * (sigma + act * (1 - sigma))
    dup = dhidden * act
    dx = dgate @ Wg.T + dup @ Wu.T
    dWd = rows(act).T @ rows(dy)                # here
    return dx, rows(x).T @ rows(dgate), rows(x).T @ rows(dup), dWd
=== 11.2 the mean counts all tokens
def masked_mean_backward(token_mask, dy):
    count = np.maximum(token_mask.shape[-1], 1)         # here
    share = dy / np.asarray(count).astype(dy.dtype)     # here
    dx = token_mask[..., None] * share[..., None, :]
    return dx
=== 12.1 the most likely token of the first row
def greedy_decode(model, bos, eos, max_len):
    ids = [bos]
    for _ in range(max_len):
        logits = model(ids)
        best = int(np.argmax(logits[0]))        # here
        ids.append(best)
        if best == eos:
            break
    return np.array(ids[1:])
=== 12.1 one token too few
def greedy_decode(model, bos, eos, max_len):
    ids = [bos]
    while len(ids) < max_len:                   # here
        ids.append(int(model(ids)[-1].argmax()))
        if ids[-1] == eos:
            break
    return np.array(ids[1:], int)
=== 16.1 the mean is subtracted in the root alone
def rms_norm(x, gamma, eps):
    c = x - x.mean(-1, keepdims=True)           # here
    ms = (c ** 2).mean(-1, keepdims=True)       # here
    return gamma * x / np.sqrt(ms + eps)
=== 16.2 the correction is not divided by the root again
def rms_norm_backward(x, gamma, eps, dy):
    r = np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    g = gamma * dy
    inner = (g * x).mean(-1, keepdims=True)
    dx = g / r - x * inner / r ** 2             # here
    dgamma = (dy * x / r).reshape(-1, x.shape[-1]).sum(0)
    return dx, dgamma
=== 16.3 the angle uses the number of all pairs
def rotary(x, offset):
    T, d = x.shape[-2:]
    t = np.arange(T) + offset
    i = np.arange(d // 2)
    theta = t[:, None] / 10000 ** (i / d)       # here
    cos, sin = np.cos(theta).astype(x.dtype), np.sin(theta).astype(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    y = np.empty_like(x)
    y[..., 0::2] = a * cos - b * sin
    y[..., 1::2] = a * sin + b * cos
    return y
=== 16.3 the new a is used for the new b
def rotary(x, offset):
    y = x.copy()
    half = x.shape[-1] // 2
    angle = (offset + np.arange(x.shape[-2]))[:, None] / 10000 ** (np.arange(half) / half)
    c, s = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    y[..., ::2] = y[..., ::2] * c - y[..., 1::2] * s
    y[..., 1::2] = y[..., ::2] * s + y[..., 1::2] * c   # here
    return y
=== 19.1 the second moment is corrected with the first weight
def adam_step(w, g, m, v, t, lr, beta1, beta2, eps):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta1 ** t)                # here
    w = w - lr * m_hat / (np.sqrt(v_hat) + eps)
    return w, m, v
=== 19.1 the mean of the gradient is not weighted
def adam_step(w, g, m, v, t, lr, beta1, beta2, eps):
    m_new = beta1 * m + g                       # here
    v_new = beta2 * v + (1 - beta2) * np.square(g)
    m_hat = m_new / (1 - beta1 ** t)
    v_hat = v_new / (1 - beta2 ** t)
    step = lr * m_hat / (np.sqrt(v_hat) + eps)
    return w - step, m_new, v_new
'''


def wrong_answers():
    """Returns a list of (number, description, source of the file, set of the numbers of the marked lines)."""
    found = []
    for number, words, code in re.findall(r"(?ms)^=== (\S+) ([^\n]*)\n(.*?)(?=^=== |\Z)", ANSWERS):
        source = choose(number).header + code
        found.append((number, words, source, {i for i, line in enumerate(source.splitlines(), 1) if MARK in line}))
    return found
