"""What is written in the test at the end of each part of the course; questions_of_parts.py has the questions."""

import math
from types import SimpleNamespace

import numpy as np

from ...layers import (CrossEntropyLoss, LayerNorm, Linear, RMSNorm, RotaryEmbedding, ScaledDotProductAttention, SelfAttention,
                       SinkWindow, SlidingWindow, SoftCap, Tanh, causal_mask)
from ...layers.attention import with_score_changes
from ...layers.sinks import add_sinks
from .definition import Exercise, Mistake
from .shared import loaded


def two_layer_gradients(x, W1, b1, W2, b2, targets):
    rows = np.arange(len(x))
    h = np.tanh(x @ W1 + b1)
    z = h @ W2 + b2
    z = z - z.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    loss = -log_p[rows, targets].mean()
    dz = np.exp(log_p)
    dz[rows, targets] -= 1
    dz = dz / len(x)
    dW2, db2 = h.T @ dz, dz.sum(0)
    da = dz @ W2.T * (1 - h ** 2)
    dW1, db1 = x.T @ da, da.sum(0)
    return loss, da @ W1.T, dW1, db1, dW2, db2


def draw_network(rng, n, N=None):
    N = N or n.T
    x, W1, b1, W2, b2 = (rng.standard_normal(shape) for shape in ((N, n.D), (n.D, n.F), n.F, (n.F, n.V), n.V))
    return x, W1 / math.sqrt(n.D), b1, W2 / math.sqrt(n.F), b2, rng.integers(0, n.V, N)


def special_networks(rng):
    x, W1, b1, W2, b2, targets = draw_network(rng, SimpleNamespace(D=4, F=3, V=5), 6)
    return [("logits_thousands", (x, W1, b1, 3000 * W2, 1000 * b2, targets)),
            ("same_class", (x, W1, b1, W2, b2, np.full(6, 2))),
            ("all_sizes_equal", draw_network(rng, SimpleNamespace(D=4, F=4, V=4), 4))]


def by_layers(x, W1, b1, W2, b2, targets):
    first, tanh, second = layers = Linear(*W1.shape), Tanh(), Linear(*W2.shape)
    loaded(first, {"weight": W1, "bias": b1})
    loaded(second, {"weight": W2, "bias": b2})
    criterion = CrossEntropyLoss()
    z = x
    for layer in layers:
        z = layer(z)
    loss, dx = criterion(z, targets), criterion.backward()
    for layer in reversed(layers):
        dx = layer.backward(dx)
    return loss, dx, first.weight.grad, first.bias.grad, second.weight.grad, second.bias.grad


def decoder_sublayer(x, W_q, W_k, W_v, W_o, H, gamma, beta):
    def split(z):
        return z.reshape(*z.shape[:-1], H, -1).swapaxes(-2, -3)

    T = x.shape[-2]
    centered = x - x.mean(-1, keepdims=True)
    n = gamma * centered / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + beta
    q, k, v = split(n @ W_q), split(n @ W_k), split(n @ W_v)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    heads = p @ v
    return x + heads.swapaxes(-2, -3).reshape(x.shape) @ W_o


def draw_sublayer(rng, n):
    x, weights = rng.standard_normal((*n.lead, n.D)), rng.standard_normal((4, n.D, n.D)) / math.sqrt(n.D)
    return x, *weights, n.H, rng.uniform(0.5, 2, n.D), rng.standard_normal(n.D)


def special_sublayers(rng):
    one_head = draw_sublayer(rng, SimpleNamespace(lead=(2, 4), D=6, H=1))
    x, W_q, W_k, *others = draw_sublayer(rng, SimpleNamespace(lead=(2, 5), D=8, H=2))
    return [("one_head", one_head), ("scores_thousands", (x, 100 * W_q, 100 * W_k, *others))]


def by_attention(x, W_q, W_k, W_v, W_o, H, gamma, beta):
    norm = loaded(LayerNorm(len(gamma)), {"gamma": gamma, "beta": beta})
    attention = loaded(SelfAttention(len(W_q), H, bias=False), {
        "query.weight": W_q, "key.weight": W_k, "value.weight": W_v, "output.weight": W_o})
    return x + attention(norm(x), causal_mask(x.shape[-2]))


def next_token_loss(logits, ids, pad):
    targets = ids[..., 1:]
    counted = targets != pad
    z, y = logits[..., :-1, :][counted], targets[counted]
    rows = np.arange(len(y))
    z = z - z.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    dz = np.exp(log_p)
    dz[rows, y] -= 1
    dlogits = np.zeros_like(logits)
    dlogits[..., :-1, :][counted] = dz / len(y)
    return -log_p[rows, y].mean(), dlogits


def draw_texts(rng, n):
    """Draws texts of different lengths, the first of them without padding; only the padding has the id pad."""
    *batch, T = n.lead
    pad = int(rng.integers(1, n.V))
    ids = (pad + rng.integers(1, n.V, (*batch, T))) % n.V
    length = rng.integers(2, T, (*batch, 1)) if batch else np.array([T - 2])
    if batch:
        length[0], length[1] = T, 2
    ids[np.arange(T) >= length] = pad
    return rng.standard_normal((*batch, T, n.V)), ids, pad


def special_texts(rng):
    logits, ids, pad = draw_texts(rng, SimpleNamespace(lead=(3, 6), V=5))
    other = np.where(ids == pad, 0, np.where(ids == 0, pad, ids))
    return [("logits_thousands", (1000 * logits, ids, pad)), ("padding_is_0", (logits, other, 0)),
            ("no_padding", (logits, (pad + rng.integers(1, 5, (3, 6))) % 5, pad)),
            ("one_token", (logits, np.where(np.arange(6) * [[0], [1], [0]] > 0, pad, (ids + (ids == pad)) % 5), pad))]


def by_loss(logits, ids, pad):
    criterion = CrossEntropyLoss(ignore_id=pad)
    loss = criterion(logits[..., :-1, :], ids[..., 1:])
    return loss, np.concatenate([criterion.backward(), 0 * logits[..., -1:, :]], -2)


def rotary_grouped_scores(q, k, positions, base):
    d = q.shape[-1]
    angles = positions[:, None] / base ** (np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)

    def rotate(x):
        a, b = x[..., 0::2], x[..., 1::2]
        y = np.empty_like(x)
        y[..., 0::2] = a * cos - b * sin
        y[..., 1::2] = a * sin + b * cos
        return y

    copies = q.shape[-3] // k.shape[-3]
    q, k = rotate(q), rotate(k).repeat(copies, -3)
    return q @ k.mT / math.sqrt(d)


def draw_heads(rng, n):
    """Draws three query heads for each key head, and positions with gaps, as they are after padding on the left."""
    *batch, T = n.lead
    d = n.d // 2 * 2
    q, k = rng.standard_normal((*batch, 3 * n.H, T, d)), rng.standard_normal((*batch, n.H, T, d))
    return q, k, np.sort(rng.choice(60, T, replace=False)), round(float(rng.uniform(300, 3000)), 1)


def special_heads(rng):
    q, k, positions, base = draw_heads(rng, SimpleNamespace(lead=(2, 5), H=2, d=6))
    return [("as_many_key_heads", (q[:, :2], k, positions, base)), ("one_key_head", (q, k[:, :1], positions, base)),
            ("base_10000", (q, k, 100 * positions, 10000.0)), ("positions_fall", (q, k, positions[::-1].copy(), base))]


def by_rotary(q, k, positions, base):
    q, k = (RotaryEmbedding(x.shape[-1], base).astype(np.float64)(x, positions=positions) for x in (q, k))
    return ScaledDotProductAttention().score(q, k)


def capped_window_attention(q, k, v, gamma_q, gamma_k, cap, window, kept, sinks):
    T, S, d = q.shape[-2], k.shape[-2], q.shape[-1]
    q = gamma_q * q / np.sqrt((q * q).mean(-1, keepdims=True) + 1e-6)
    k = gamma_k * k / np.sqrt((k * k).mean(-1, keepdims=True) + 1e-6)
    scores = cap * np.tanh(q @ k.mT / math.sqrt(d) / cap)
    query, key = np.arange(S - T, S)[:, None], np.arange(S)
    visible = (key <= query) & ((query - key < window) | (key < kept))
    scores = np.where(visible, scores, -np.inf)
    sink = sinks[:, None, None]
    top = np.maximum(scores.max(-1, keepdims=True), sink)
    shares = np.exp(scores - top)
    shares = shares / (shares.sum(-1, keepdims=True) + np.exp(sink - top))
    return shares @ v


def draw_window_arrays(rng, lead, H, T, S, d, e):
    """Draws all arguments but the window. The cap is about as large as the scores, and so are the sinks, which stay so."""
    q, k, v = (rng.standard_normal((*lead, H, *shape)) for shape in ((T, d), (S, d), (S, e)))
    gammas = rng.uniform(0.5, 2, d), rng.uniform(0.5, 2, d)
    return q, k, v, *gammas, round(float(rng.uniform(1.2, 3)), 2), rng.uniform(-2, 2, H)


def draw_window(rng, n):
    """Draws a window and first tokens of which some keys are hidden; the T queries are the last of at least T tokens."""
    S = n.S if n.S >= n.T else n.S + n.T
    *arrays, sinks = draw_window_arrays(rng, n.lead[:-1], n.H, n.T, S, n.d, n.V - n.d)
    window = int(rng.integers(2, 4))
    return *arrays, window, int(rng.integers(2, 6 - window)), sinks


def special_windows(rng):
    def arguments(window, kept, T=4, S=7, H=2):
        *arrays, sinks = draw_window_arrays(rng, (), H, T, S, 6, 3)
        return *arrays, window, kept, sinks

    q, *others = arguments(2, 1)
    zeros = q * (np.arange(len(q[0])) != 1)[:, None]
    *arrays, gamma_q, gamma_k, _, window, kept, sinks = arguments(3, 2, 7)
    return [("one_query", arguments(3, 2, 1, 9)), ("none_kept", arguments(3, 0)), ("itself", arguments(1, 2)),
            ("all_in_view", arguments(9, 1)), ("all_new", arguments(2, 3, 7)), ("one_head", arguments(3, 1, H=1)),
            ("zero_query", (zeros, *others)),
            ("beyond_the_cap", (*arrays, 70 * gamma_q, 70 * gamma_k, 800.0, window, kept, sinks)),
            ("sinks_thousands", (*arguments(2, 1, H=4)[:-1], np.array([1000.0, -1000.0, 0.5, 4e-6])))]


def by_components(q, k, v, gamma_q, gamma_k, cap, window, kept, sinks):
    T, S = q.shape[-2], k.shape[-2]
    norm_q, norm_k = (loaded(RMSNorm(len(gamma)), {"gamma": gamma}) for gamma in (gamma_q, gamma_k))
    near = SinkWindow(window, kept) if kept else SlidingWindow(window)
    attention = add_sinks(with_score_changes(ScaledDotProductAttention(), SoftCap(cap), near), len(sinks))
    loaded(attention, {"softmax.sinks": sinks})
    return attention(norm_q(q), norm_k(k), v, causal_mask(T, S - T))


CAUSAL = "np.where(np.tri(T, dtype=bool), scores, -np.inf)"
NORM = "n = gamma * centered / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + beta"
Q_MEAN, K_MEAN = "(q * q).mean(-1, keepdims=True)", "(k * k).mean(-1, keepdims=True)"
CAP = "cap * np.tanh(q @ k.mT / math.sqrt(d) / cap)"
SEEN = "(key <= query) & ((query - key < window) | (key < kept))"
SUM = "return x + heads.swapaxes(-2, -3).reshape(x.shape) @ W_o"


EXERCISES = [
    Exercise(
        "02.4", minutes=25, lines=13, size_letters="DFV", powers=({"x": 1, "b1": 1},),
        solution=two_layer_gradients, reference=by_layers, inputs=draw_network, edges=special_networks,
        outputs=("loss", "dx", "dW1", "db1", "dW2", "db2"),
        mistakes=(
            Mistake("CE-1", {"dz / len(x)": "dz"}),
            Mistake("CE-1b", {".mean()": ".sum()"}),
            Mistake("CE-3a", {"dz / len(x)": "dz / dz.shape[-1]"}),
            Mistake("CE-4", {"dz = np.exp(log_p)\n    dz[rows, targets] -= 1":
                             "dz = -np.exp(log_p)\n    dz[rows, targets] += 1"}),
            Mistake("CE-5", {"dz[rows, targets]": "dz[:, targets]"}),
            Mistake("CE-10b", {"log_p[rows": "np.log(np.exp(log_p))[rows"}),
            Mistake("SMF-1", {"    z = z - z.max(-1, keepdims=True)\n": ""}),
            Mistake("SMF-2", {"z.max(-1, keepdims=True)": "z.max()"}),
            Mistake("NET-1a", {" * (1 - h ** 2)": ""}),
            Mistake("NET-1b", {"(1 - h ** 2)": "(1 - np.tanh(h) ** 2)"}),
            Mistake("NET-1e", {"(1 - h ** 2)": "(1 - (x @ W1 + b1) ** 2)"}),
            Mistake("NET-1c", {"(1 - h ** 2)": "h * (1 - h)"}),
            Mistake("NET-1d", {"da @ W1.T": "dz @ W2.T @ W1.T"}),
            Mistake("NET-2", {"h.T @ dz": "x.T @ dz"}),
            Mistake("NET-3", {"    dz[rows, targets] -= 1\n": ""}),
            Mistake("LIN-1", {"h.T @ dz": "dz.T @ h", "x.T @ da": "da.T @ x"}),
            Mistake("LIN-2", {"da @ W1.T": "da @ W1", "dz @ W2.T": "dz @ W2"}),
            Mistake("LIN-4c", {"dz.sum(0)": "dz.mean(0)", "da.sum(0)": "da.mean(0)"}),
            Mistake("LIN-10", {
                "loss, da @ W1.T, dW1, db1, dW2, db2": "loss, dW1, db1, dW2, db2, da @ W1.T"}),
        ),
        must_be_zero={"sum_db2": lambda inputs, outputs: outputs[5].sum()},
        alternatives={
            "cosh": {"(1 - h ** 2)": "(1 / np.cosh(x @ W1 + b1) ** 2)"},
            "softmax": {"np.exp(log_p)": "np.exp(z) / np.exp(z).sum(-1, keepdims=True)"},
            "one-hot rows": {"    dz[rows, targets] -= 1\n    dz = dz / len(x)":
                             "    dz = (dz - np.eye(len(b2), dtype=dz.dtype)[targets]) / len(x)"}}),
    Exercise(
        "10.8", minutes=25, lines=13, size_letters="TdD",
        number_sizes=("tiny", "mixed"), powers=({"x": 3, "beta": 3}, {"W_q": 3, "W_k": -3, "W_v": 3, "W_o": 3}, {"beta": -6}),
        solution=decoder_sublayer, reference=by_attention, inputs=draw_sublayer, edges=special_sublayers,
        mistakes=(
            Mistake("RES-1", {"return x + heads": "return heads"}),
            Mistake("RES-5e", {"return x + heads": "return n + heads"}),
            Mistake("RES-5b", {NORM: "n = x", SUM: (
                "y = x + heads.swapaxes(-2, -3).reshape(x.shape) @ W_o\n    centered = y - y.mean(-1, keepdims=True)\n"
                "    return gamma * centered / np.sqrt(y.var(-1, keepdims=True) + 1e-5) + beta")}),
            Mistake("RES-19", {NORM: "n = x"}),
            Mistake("LN-16f", {"x.mean(-1, keepdims=True)": "x.mean(-2, keepdims=True)",
                               "x.var(-1, keepdims=True)": "x.var(-2, keepdims=True)"}),
            Mistake("LN-17c", {"gamma * centered": "centered", "1e-5) + beta": "1e-5)"}),
            Mistake("ATF-1", {" / math.sqrt(q.shape[-1])": ""}),
            Mistake("ATF-2", {"math.sqrt(q.shape[-1])": "math.sqrt(x.shape[-1])"}),
            Mistake("ATF-2b", {"math.sqrt(q.shape[-1])": "q.shape[-1]"}),
            Mistake("ATF-4", {"scores.max(-1, keepdims=True)": "scores.max(-2, keepdims=True)",
                              "p.sum(-1, keepdims=True)": "p.sum(-2, keepdims=True)"}),
            Mistake("ATF-5a", {"q @ k.mT": "k @ q.mT"}),
            Mistake("MSK-1", {CAUSAL: "scores"}),
            Mistake("MSK-2", {CAUSAL: "scores", "heads = p @ v": "heads = np.tri(T, dtype=bool) * p @ v"}),
            Mistake("MSK-4", {"np.tri(T, dtype=bool)": "np.tri(T, dtype=bool).T"}),
            Mistake("MSK-5", {"np.tri(T, dtype=bool)": "np.tri(T, k=-1, dtype=bool)"}),
            Mistake("MSK-6", {"np.tri(T, dtype=bool)": "np.tri(T, k=1, dtype=bool)"}),
            Mistake("MSK-7", {"-np.inf": "0.0"}),
            Mistake("HD-1", {".reshape(*z.shape[:-1], H, -1).swapaxes(-2, -3)": ".reshape(*z.shape[:-2], H, T, -1)"}),
            Mistake("HD-3", {"heads.swapaxes(-2, -3).reshape": "heads.reshape"}),
            Mistake("SUB-1", {"split(n @ W_v)": "split(x @ W_v)"}),
            Mistake("SUB-2", {" @ W_o": ""}),
        ),
        alternatives={
            "-1e30": {"-np.inf": "-1e30"},
            "scaled queries": {"q @ k.mT / math.sqrt(q.shape[-1])": "(q / math.sqrt(q.shape[-1])) @ k.mT"},
            "a loop over heads": {
                "heads = p @ v": "heads = np.stack([p[..., i, :, :] @ v[..., i, :, :] for i in range(H)], -3)"}}),
    Exercise(
        "15.3", minutes=20, lines=11,
        solution=next_token_loss, reference=by_loss, inputs=draw_texts, edges=special_texts,
        outputs=("loss", "dlogits"),
        must_be_zero={"rows_dlogits_sum": lambda inputs, outputs: outputs[1].sum(-1),
                      "last_row": lambda inputs, outputs: outputs[1][..., -1, :]},
        mistakes=(
            Mistake("NTL-1a", {
                "ids[..., 1:]": "ids", "z, y = logits[..., :-1, :]": "z, y = logits",
                "dlogits[..., :-1, :][counted] =": "dlogits[counted] ="}),
            Mistake("NTL-1b", {
                "ids[..., 1:]": "ids[..., :-1]", "z, y = logits[..., :-1, :]": "z, y = logits[..., 1:, :]",
                "dlogits[..., :-1, :][counted] =": "dlogits[..., 1:, :][counted] ="}),
            Mistake("NTL-1c", {
                "ids[..., 1:]": "np.roll(ids, -1, -1)", "z, y = logits[..., :-1, :]": "z, y = logits",
                "dlogits[..., :-1, :][counted] =": "dlogits[counted] ="}),
            Mistake("NTL-2", {"targets != pad": "ids[..., :-1] != pad"}),
            Mistake("NTL-3", {"dlogits[..., :-1, :][counted] =": "dlogits[..., 1:, :][counted] ="}),
            Mistake("NTL-4", {
                "dz / len(y)": "dz / per_text[:, None] / texts",
                "-log_p[rows, y].mean()": "-(log_p[rows, y] / per_text).sum() / texts",
                "    rows = np.arange(len(y))\n":
                    "    rows = np.arange(len(y))\n    per_text = np.broadcast_to(counted.sum(-1, keepdims=True), "
                    "counted.shape)[counted].astype(z.dtype)\n    texts = int(counted.any(-1).sum())\n"}),
            Mistake("NTL-5", {
                "dlogits = np.zeros_like(logits)\n    dlogits[..., :-1, :][counted] = dz / len(y)":
                    "e = np.exp(logits - logits.max(-1, keepdims=True))\n"
                    "    e = e / e.sum(-1, keepdims=True)\n"
                    "    e -= np.arange(e.shape[-1]) == np.roll(ids, -1, -1)[..., None]\n"
                    "    e[..., -1, :] = 0\n    dlogits = e / len(y)"}),
            Mistake("CE-1", {"dz / len(y)": "dz"}),
            Mistake("CE-1b", {".mean()": ".sum()"}),
            Mistake("CE-4", {"dz / len(y)": "-dz / len(y)"}),
            Mistake("CE-5", {"dz[rows, y]": "dz[:, y]"}),
            Mistake("CE-10b", {"-log_p[rows": "-np.log(np.exp(log_p))[rows"}),
            Mistake("CE-11a", {"dz / len(y)": "dz / targets.size",
                               "-log_p[rows, y].mean()": "-log_p[rows, y].sum() / targets.size"}),
            Mistake("CE-11b", {"targets != pad": "np.ones(targets.shape, bool)"}),
            Mistake("MSK-15", {"targets != pad": "targets != 0"}),
            Mistake("NET-3", {"    dz[rows, y] -= 1\n": ""}),
            Mistake("SMF-1", {"    z = z - z.max(-1, keepdims=True)\n": ""}),
        ),
        alternatives={
            "a mask as a factor": {
                "logits[..., :-1, :][counted], targets[counted]": "logits[..., :-1, :].reshape(-1, logits.shape[-1]), "
                                                                  "targets.reshape(-1)",
                "dlogits[..., :-1, :][counted] = dz / len(y)":
                    "dz = dz * counted.reshape(-1, 1) / int(counted.sum())\n"
                    "    dlogits[..., :-1, :] = dz.reshape(*targets.shape, -1)",
                "-log_p[rows, y].mean()": "-(log_p[rows, y] * counted.reshape(-1)).sum() / int(counted.sum())"}}),
    Exercise(
        "21.2", minutes=20, lines=13, size_letters="Td",
        solution=rotary_grouped_scores, reference=by_rotary, inputs=draw_heads, edges=special_heads, outputs=("scores",),
        mistakes=(
            Mistake("ROP-1a", {
                "x[..., 0::2], x[..., 1::2]": "x[..., :d // 2], x[..., d // 2:]",
                "y[..., 0::2]": "y[..., :d // 2]",
                "y[..., 1::2]": "y[..., d // 2:]"}),
            Mistake("ROP-2", {"cos - b": "cos + b", "a * sin + b": "-a * sin + b"}),
            Mistake("ROP-3a", {"cos - b": "cos + b"}),
            Mistake("ROP-3c", {"np.empty_like(x)": "x"}),
            Mistake("ROP-5b", {"np.arange(0, d, 2) / d": "np.arange(d // 2) / d"}),
            Mistake("ROP-5c", {"np.arange(0, d, 2) / d": "2 * np.arange(0, d, 2) / d"}),
            Mistake("RGS-1a", {"rotate(k).repeat": "k.repeat"}),
            Mistake("RGS-1b", {"q, k = rotate(q), rotate": "q, k = q, rotate"}),
            Mistake("RGS-1c", {"q, k = rotate(q), rotate(k)": "q = rotate(q)\n    sin = -sin\n    k = rotate(k)"}),
            Mistake("RGS-2", {"positions[:, None]": "np.arange(len(positions))[:, None]"}),
            Mistake("RGS-3", {"base **": "10000 **"}),
            Mistake("RGS-4a", {"rotate(k).repeat(copies, -3)": "np.concatenate([rotate(k)] * copies, -3)"}),
            Mistake("RGS-4b", {"rotate(k).repeat(copies, -3)": "rotate(k)[..., :1, :, :]"}),
            Mistake("RGS-5", {"math.sqrt(d)": "math.sqrt(d // 2)"}),
            Mistake("ATF-1", {" / math.sqrt(d)": ""}),
            Mistake("ATF-2b", {"math.sqrt(d)": "d"}),
            Mistake("ATF-5a", {"q @ k.mT": "k @ q.mT"}),
        ),
        alternatives={
            "complex numbers": {
                "        a, b = x[..., 0::2], x[..., 1::2]\n":
                    "        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)\n",
                "a * cos - b * sin": "turned.real", "a * sin + b * cos": "turned.imag"},
            "groups as an axis": {
                "rotate(k).repeat(copies, -3)\n    return q @ k.mT / math.sqrt(d)":
                    "rotate(k)\n    q = q.reshape(*k.shape[:-2], copies, *q.shape[-2:])\n"
                    "    scores = q @ k[..., None, :, :].mT / math.sqrt(d)\n"
                    "    return scores.reshape(*k.shape[:-3], -1, *scores.shape[-2:])"}}),
    Exercise(
        "28.3", minutes=25, lines=13, size_letters="TSd",
        solution=capped_window_attention, reference=by_components, inputs=draw_window, edges=special_windows,
        mistakes=(
            Mistake("QKN-1", {Q_MEAN: "(q * q).mean((-3, -1), keepdims=True)",
                              K_MEAN: "(k * k).mean((-3, -1), keepdims=True)"}),
            Mistake("QKN-2", {"gamma_q * q": "q", "gamma_k * k": "k"}),
            Mistake("QKN-3", {Q_MEAN: "(q * q).sum(-1, keepdims=True)", K_MEAN: "(k * k).sum(-1, keepdims=True)"}),
            Mistake("QKN-4", {"gamma_k * k / np.sqrt((k * k).mean(-1, keepdims=True) + 1e-6)": "gamma_k * k"}),
            Mistake("ATF-1", {" / math.sqrt(d)": ""}),
            Mistake("ATF-2b", {"math.sqrt(d)": "d"}),
            Mistake("CWA-1a", {CAP: "q @ k.mT / math.sqrt(d)"}),
            Mistake("CWA-1b", {CAP: "np.clip(q @ k.mT / math.sqrt(d), -cap, cap)"}),
            Mistake("CWA-1c", {"cap * np.tanh": "np.tanh"}),
            Mistake("CWA-1d", {"math.sqrt(d) / cap)": "math.sqrt(d))"}),
            Mistake("CWA-2a", {CAP: "q @ k.mT / math.sqrt(d)",
                               "np.where(visible, scores, -np.inf)": "cap * np.tanh(np.where(visible, scores, -np.inf) / cap)"}),
            Mistake("CWA-2b", {CAP: "cap * np.tanh(q @ k.mT / cap) / math.sqrt(d)"}),
            Mistake("WIN-1", {"query - key < window": "query - key <= window"}),
            Mistake("WIN-2", {"query - key < window": "query - key < window - 1"}),
            Mistake("WIN-3", {"np.arange(S - T, S)": "np.arange(T)"}),
            Mistake("WIN-4", {"(key <= query) & ": ""}),
            Mistake("CWA-3a", {" | (key < kept)": ""}),
            Mistake("CWA-3b", {SEEN: "((key <= query) & (query - key < window)) | (key < kept)"}),
            Mistake("CWA-3c", {"key < kept": "key <= kept"}),
            Mistake("CWA-3d", {"query - key < window": "query - key < window - kept"}),
            Mistake("CWA-4a", {" + np.exp(sink - top)": ""}),
            Mistake("CWA-4b", {"np.exp(sink - top)": "sink"}),
            Mistake("CWA-4c", {"np.exp(sink - top)": "np.exp(sink)"}),
            Mistake("CWA-4d", {"sinks[:, None, None]": "sinks[:1, None, None]"}),
            Mistake("CWA-4e", {"sinks[:, None, None]": "cap * np.tanh(sinks[:, None, None] / cap)"}),
            Mistake("CWA-4f", {"sinks[:, None, None]": "np.zeros_like(sinks[:, None, None])"}),
            Mistake("ATF-4", {"scores.max(-1, keepdims=True)": "scores.max(-2, keepdims=True)",
                              "shares.sum(-1, keepdims=True)": "shares.sum(-2, keepdims=True)"}),
            Mistake("SMF-1", {"np.maximum(scores.max(-1, keepdims=True), sink)": "0 * sink"}),
        ),
        alternatives={
            "one product of gammas": {"gamma_q * q": "gamma_q * gamma_k * q", "gamma_k * k": "k"},
            "two triangles": {
                "query, key = np.arange(S - T, S)[:, None], np.arange(S)": "older = np.tri(T, S, S - T - window, dtype=bool)",
                SEEN: "np.tri(T, S, S - T, dtype=bool) & (~older | (np.arange(S) < kept))"},
            "the sink as one more score": {
                "top = np.maximum(scores.max(-1, keepdims=True), sink)":
                    "scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:-1], 1))], -1)",
                "shares = np.exp(scores - top)": "shares = np.exp(scores - scores.max(-1, keepdims=True))",
                "shares / (shares.sum(-1, keepdims=True) + np.exp(sink - top))": "shares / shares.sum(-1, keepdims=True)",
                "shares @ v": "shares[..., :-1] @ v"},
            "a factor for hidden keys": {
                "np.where(visible, scores, -np.inf)": "np.where(visible, scores, -1e30)"}}),
]
