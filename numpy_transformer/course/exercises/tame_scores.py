"""What keeps scores and logits small: norms of queries and keys, soft caps, gates and z-loss."""

import math

import numpy as np

from ...layers import CrossEntropyLoss, Identity, Linear, ScaledDotProductAttention
from ...layers.gated_attention import GatedSelfAttention
from ...layers.heads import split_heads
from ...layers.normalization import RMSNorm
from ...layers.normed_linear import PerHead
from ...layers.soft_cap import SoftCap
from ...layers.z_loss import ZLoss
from .definition import Exercise, Mistake


def normed_scores(q, k, gamma_q, gamma_k):
    d = gamma_q.shape[-1]
    q = q.reshape(*q.shape[:-1], -1, d).swapaxes(-2, -3)
    k = k.reshape(*k.shape[:-1], -1, d).swapaxes(-2, -3)
    q = gamma_q * q / np.sqrt((q * q).mean(-1, keepdims=True) + 1e-6)
    k = gamma_k * k / np.sqrt((k * k).mean(-1, keepdims=True) + 1e-6)
    return q @ k.mT / math.sqrt(d)


def draw_queries(rng, n):
    gammas = rng.uniform(0.5, 2, n.d), rng.uniform(0.5, 2, n.d)
    lead = n.lead[:-1]
    return rng.standard_normal((*lead, n.T, n.H * n.d)), rng.standard_normal((*lead, n.S, n.H * n.d)), *gammas


def special_queries(rng):
    def arrays(T, S, H, d, size=1.0):
        return size * rng.standard_normal((T, H * d)), rng.standard_normal((S, H * d)), rng.uniform(0.5, 2, d), rng.uniform(0.5, 2, d)

    return [("one_head", arrays(3, 4, 1, 5)), ("as_many", arrays(3, 3, 3, 3)), ("long_queries", arrays(2, 3, 2, 4, 100.0))]


def by_norms(q, k, gamma_q, gamma_k):
    heads = []
    for x, gamma in ((q, gamma_q), (k, gamma_k)):
        norm = PerHead(RMSNorm(len(gamma))).astype(np.float64)
        norm.norm.gamma.data = gamma
        heads.append(split_heads(norm(x), x.shape[-1] // len(gamma)))
    return ScaledDotProductAttention().score(*heads)


def soft_cap_backward(dy, x, c):
    y = c * np.tanh(x / c)
    return dy * (1 - (y / c) ** 2)


def draw_cap(rng, n):
    """Draws x that is never scaled, as normal numbers are: if all of it were far beyond the cap, dx would be rounding errors."""
    c = round(float(rng.uniform(1.2, 3)), 2)
    return rng.standard_normal((*n.lead, n.T)), rng.uniform(-4, 4, (*n.lead, n.T)), c


def special_caps(rng):
    return [("far_beyond", (rng.standard_normal((4, 6)), rng.uniform(-45, 45, (4, 6)), 3.0))]


def by_cap(dy, x, c):
    cap = SoftCap(c)
    cap(x)
    return cap.backward(dy)


def gate_backward(dy, h, z):
    g = 1 / (1 + np.exp(-z))
    dh = dy * g
    dz = dy * h * g * (1 - g)
    return dh, dz


def draw_gate(rng, n):
    return tuple(rng.standard_normal((*n.lead, n.T, n.D)) for _ in range(2)) + (rng.uniform(-4, 4, (*n.lead, n.T, n.D)),)


def special_gates(rng):
    return [("open_closed", (rng.standard_normal((3, 8)), rng.standard_normal((3, 8)), rng.uniform(-22, 22, (3, 8))))]


class Given(Identity):
    """A component that returns what it was built with, and keeps the gradient that it gets."""

    def __init__(self, y):
        self.y = y

    def forward(self, x, mask=None):
        super().forward(x)
        return self.y

    def backward(self, dy):
        self.dy = super().backward(dy)
        return dy


def by_gates(dy, h, z):
    heads, gate = Given(h), Given(z)
    layer = GatedSelfAttention(heads, gate, Identity())
    layer(h)
    layer.backward(dy)
    return heads.dy, gate.dy


def z_loss_backward(logits, targets, c):
    top = logits.max(-1, keepdims=True)
    p = np.exp(logits - top)
    total = p.sum(-1, keepdims=True)
    p = p / total
    log_z = top + np.log(total)
    dlogits = p + 2 * c * log_z * p
    dlogits[np.arange(len(targets)), targets] -= 1
    return dlogits / len(targets)


def draw_logits(rng, n):
    N = n.B * n.T
    return rng.standard_normal((N, n.V)), rng.integers(0, n.V, N), round(float(rng.uniform(0.1, 0.5)), 3)


def special_logits(rng):
    return [("large_logits", (1000 + rng.standard_normal((4, 5)), rng.integers(0, 5, 4), 0.25)),
            ("one_target", (rng.standard_normal((1, 6)), np.array([4]), 0.25))]


def by_z_loss(logits, targets, c):
    criterion = ZLoss(CrossEntropyLoss(), c)
    criterion(logits, targets)
    return criterion.backward()


Q_MEAN, K_MEAN = "(q * q).mean(-1, keepdims=True)", "(k * k).mean(-1, keepdims=True)"
EXERCISES = [
    Exercise(
        "24.1", minutes=15, lines=6, size_letters="THd",
        solution=normed_scores, reference=by_norms, inputs=draw_queries, edges=special_queries, outputs=("scores",),
        mistakes=(
            Mistake("QKN-1", {Q_MEAN: "(q * q).mean((-3, -1), keepdims=True)", K_MEAN: "(k * k).mean((-3, -1), keepdims=True)"}),
            Mistake("QKN-2", {"gamma_q * q": "q", "gamma_k * k": "k"}),
            Mistake("QKN-3", {Q_MEAN: "(q * q).sum(-1, keepdims=True)", K_MEAN: "(k * k).sum(-1, keepdims=True)"}),
            Mistake("QKN-4", {"gamma_k * k / np.sqrt((k * k).mean(-1, keepdims=True) + 1e-6)": "gamma_k * k"}),
            Mistake("QKN-5", {"math.sqrt(d)": "math.sqrt(q.shape[-3] * d)"}),
            Mistake("QKN-6", {"reshape(*q.shape[:-1], -1, d).swapaxes(-2, -3)": "reshape(*q.shape[:-2], -1, q.shape[-2], d)",
                              "reshape(*k.shape[:-1], -1, d).swapaxes(-2, -3)": "reshape(*k.shape[:-2], -1, k.shape[-2], d)"}),
        ),
        alternatives={
            "one product of gammas": {"gamma_q * q": "gamma_q * gamma_k * q", "gamma_k * k": "k"},
            "einsum": {"q @ k.mT": 'np.einsum("...td,...sd->...ts", q, k)'}}),
    Exercise(
        "24.2", minutes=10, lines=2, size_letters="T",
        solution=soft_cap_backward, reference=by_cap, inputs=draw_cap, edges=special_caps, outputs=("dx",),
        mistakes=(
            Mistake("CAP-1", {"dy * (1 - (y / c) ** 2)": "dy * 1"}),
            Mistake("CAP-2", {"(y / c) ** 2": "y ** 2"}),
            Mistake("CAP-3", {"dy * (1 - (y / c) ** 2)": "dy * (1 - (y / c) ** 2) / c"}),
            Mistake("CAP-4", {"dy * (1 - (y / c) ** 2)": "c * dy * (1 - (y / c) ** 2)"}),
            Mistake("CAP-5", {"dy * (1 - (y / c) ** 2)": "dy * (np.abs(x) < c)"}),
            Mistake("CAP-6", {"(y / c) ** 2": "(x / c) ** 2"}),
        ),
        alternatives={
            "tanh": {"c * np.tanh(x / c)": "np.tanh(x / c)", "(y / c) ** 2": "y * y"},
            "product": {"1 - (y / c) ** 2": "(c - y) * (c + y) / c ** 2"}}),
    Exercise(
        "24.3", minutes=10, lines=4, size_letters="TD",
        solution=gate_backward, reference=by_gates, inputs=draw_gate, edges=special_gates, outputs=("dh", "dz"),
        mistakes=(
            Mistake("GAT-1", {"dy * h * g * (1 - g)": "dy * g * (1 - g)"}),
            Mistake("GAT-2", {"dh = dy * g": "dh = dy * 1"}),
            Mistake("GAT-3", {"dy * h * g * (1 - g)": "dy * h"}),
            Mistake("GAT-4", {"dy * h * g * (1 - g)": "dy * h * z * (1 - z)"}),
            Mistake("GAT-5", {"dy * h * g * (1 - g)": "dh * h * g * (1 - g)"}),
        ),
        alternatives={"tanh": {"1 / (1 + np.exp(-z))": "(1 + np.tanh(z / 2)) / 2"}}),
    Exercise(
        "24.4", minutes=20, lines=8, size_letters="V",
        solution=z_loss_backward, reference=by_z_loss, inputs=draw_logits, edges=special_logits, outputs=("dlogits",),
        mistakes=(
            Mistake("ZLS-1", {"2 * c * log_z": "c * log_z"}),
            Mistake("ZLS-2", {"top + np.log(total)": "np.log(total)"}),
            Mistake("ZLS-3", {"2 * c * log_z * p": "2 * c * p"}),
            Mistake("ZLS-4", {"2 * c * log_z * p": "2 * c * log_z"}),
            Mistake("ZLS-5", {"dlogits / len(targets)": "dlogits"}),
            Mistake("ZLS-6", {"2 * c * log_z * p": "0 * p"}),
        ),
        alternatives={
            "one factor": {"p + 2 * c * log_z * p": "p * (1 + 2 * c * log_z)"},
            "one-hot": {"dlogits[np.arange(len(targets)), targets] -= 1": "dlogits -= np.eye(logits.shape[1])[targets]"}}),
]
