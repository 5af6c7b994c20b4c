"""Cross-entropy with label smoothing and ignored targets: the loss."""

import numpy as np

from ...layers import CrossEntropyLoss
from .definition import Exercise, Mistake


def cross_entropy(logits, targets, smoothing, ignore_id):
    counted = targets != ignore_id
    z, y = logits[counted], targets[counted]
    z = z - z.max(-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    right = logp[np.arange(len(y)), y]
    losses = -(1 - smoothing) * right - smoothing * logp.mean(-1)
    return losses.mean()


def tokens(rng, n):
    """Padding is class 0 and occurs anywhere. Every sequence has a token that counts, and classes repeat."""
    targets = np.where(rng.random(n.lead) < 0.3, 0, rng.integers(1, n.V, n.lead))
    targets[..., 1], targets[..., -1] = 0, n.V - 1
    return rng.standard_normal((*n.lead, n.V)), targets, round(float(rng.uniform(0.1, 0.4)), 3), 0


def edge_cases(rng):
    """Padding that is not one of the classes, no smoothing, and logits of any size."""
    ordinary, y = rng.standard_normal((5, 6)), np.array([3, 0, -1, 3, 4])
    z = ordinary.copy()
    z[np.arange(5), y] += np.array([2, -69, 0, 1, -60])
    far = z - 1000 * (np.arange(6) == y[:, None])
    inner = np.array([3, 0, 5, 3, 4])           # on both sides of the ignored class
    near = z + 3000 * (np.arange(6) == inner[:, None])
    apart = np.array([[0], [-1000], [0], [2000], [-3000]]) + 720 * np.eye(5, 6)
    padded = np.array([[3, -1, 0], [-1, 3, 3]])
    return [("correct_token_p", (z, y, 0.0, -1)),
            ("correct_logits_1000", (far, y, 0.0, -1)),
            ("rows_far_apart_them", (ordinary + apart, y, 0.2, -1)),
            ("padding_class_4", (near, inner, 0.2, 4)),
            ("padding_1_not", (rng.standard_normal((2, 3, 5)), padded, 0.3, -1)),
            ("padding_100_not", (rng.standard_normal((2, 3, 5)), np.where(padded < 0, 100, padded), 0.3, 100))]


def by_loss(logits, targets, smoothing, ignore_id):
    return CrossEntropyLoss(smoothing, ignore_id)(logits, targets)


TOTAL = "np.exp(z).sum(-1, keepdims=True)"


EXERCISES = [
    Exercise(
        "01.3", minutes=20, lines=7,
        solution=cross_entropy, reference=by_loss, inputs=tokens, edges=edge_cases, further_edges=("padding_100_not",),
        outputs=("loss",),
        mistakes=(
            Mistake("CE-1", {"losses.mean()": "losses.sum()"}),
            Mistake("CE-2", {"losses.mean()": "losses.sum() / len(targets)"}),
            Mistake("CE-3a", {"losses.mean()": "losses.sum() / z.shape[-1]"}),
            Mistake("CE-3b", {"losses.mean()": "losses.mean() / z.shape[-1]"}),
            Mistake("CE-4", {"losses.mean()": "-losses.mean()"}),
            Mistake("CE-5", {"logp[np.arange(len(y)), y]": "logp[:, y].mean(-1)"}),
            Mistake("CE-8", {
                "z - z.max(-1, keepdims=True)":
                    "np.exp(z - z.max(-1, keepdims=True)) / np.exp(z - z.max(-1, keepdims=True)).sum(-1, "
                    "keepdims=True)"}),
            Mistake("CE-9a", {
                "z - np.log(np.exp(z).sum(-1, keepdims=True))":
                    "np.log2(np.exp(z) / np.exp(z).sum(-1, keepdims=True))"}),
            Mistake("CE-9b", {
                "z - np.log(np.exp(z).sum(-1, keepdims=True))":
                    "np.log10(np.exp(z) / np.exp(z).sum(-1, keepdims=True))"}),
            Mistake("CE-9c", {"np.log(": "np.log2("}),
            Mistake("CE-10a", {
                "z - np.log(np.exp(z).sum(-1, keepdims=True))":
                    "np.log(np.exp(z) / np.exp(z).sum(-1, keepdims=True) + 1e-9)"}),
            Mistake("CE-10b", {
                "z - np.log(np.exp(z).sum(-1, keepdims=True))":
                    "np.log(np.exp(z) / np.exp(z).sum(-1, keepdims=True))"}),
            Mistake("CE-11a", {"losses.mean()": "losses.sum() / targets.size"}),
            Mistake("CE-11b", {"targets != ignore_id": "np.ones(targets.shape, bool)"}),
            Mistake("CE-12a", {"logp.mean(-1)": "(logp.sum(-1) - right) / (z.shape[-1] - 1)"}),
            Mistake("CE-12b", {"(1 - smoothing) * right": "right"}),
            Mistake("CE-12c", {"logp.mean(": "logp.sum("}),
            Mistake("CE-12d", {"(1 - smoothing) * right - smoothing * logp.mean(-1)": "right"}),
            Mistake("CE-12f", {" - smoothing * logp.mean(-1)": ""}),
            Mistake("SMF-1", {" - z.max(-1, keepdims=True)": ""}),
            Mistake("SMF-2", {"z.max(-1, keepdims=True)": "z.max()"}),
            Mistake("SMF-3", {
                "z - z.max(-1, keepdims=True)": "z - z.max(0)",
                "np.exp(z).sum(-1, keepdims=True)": "np.exp(z).sum(0)"}),
            Mistake("CE-10c", {
                "z - np.log(np.exp(z).sum(-1, keepdims=True))":
                    "np.log(np.exp(z) / np.exp(z).sum(-1, keepdims=True))",
                "smoothing * logp.mean(-1)": "np.nan_to_num(smoothing * logp.mean(-1), nan=0, neginf=-np.inf)"}),
            Mistake("CE-10d", {
                "z - np.log(np.exp(z).sum(-1, keepdims=True))":
                    "np.log(np.exp(z) / np.exp(z).sum(-1, keepdims=True) + 1e-12)"}, twin="CE-10e"),
            Mistake("CE-10e", {
                "z - np.log(np.exp(z).sum(-1, keepdims=True))":
                    "np.log(np.clip(np.exp(z) / np.exp(z).sum(-1, keepdims=True), 1e-12, 1))"}, twin="CE-10d"),
            Mistake("CE-11e", {"targets != ignore_id": "targets >= 0"}),
            Mistake("CE-18", {"losses = -(1 - smoothing) * right - smoothing * logp.mean(-1)\n    return losses.mean()":
                              "every = logits - logits.max(-1, keepdims=True)\n"
                              "    every = every - np.log(np.exp(every).sum(-1, keepdims=True))\n"
                              "    return -(1 - smoothing) * right.mean() - smoothing * every.mean()"}),
            Mistake("CE-19", {"losses = -(1 - smoothing) * right - smoothing * logp.mean(-1)\n    return losses.mean()":
                              "every = logits - logits.max(-1, keepdims=True)\n"
                              "    every = every - np.log(np.exp(every).sum(-1, keepdims=True))\n"
                              "    return -(1 - smoothing) * right.mean() - smoothing * every.mean(-1).sum() / len(y)"}),
            Mistake("CE-17", {
                "logits[counted], targets[counted]": "logits, targets",
                "losses.mean()": "losses[counted].mean()"}),
        ),
        alternatives={
            "with logaddexp": {f"z - np.log({TOTAL})": "z - np.logaddexp.reduce(z, -1, keepdims=True)"},
            "with the whole q": {
                "right = logp[np.arange(len(y)), y]":
                "q = np.full_like(logp, smoothing / z.shape[-1])\n    q[np.arange(len(y)), y] += 1 - smoothing",
                "-(1 - smoothing) * right - smoothing * logp.mean(-1)": "-(q * logp).sum(-1)"}}),
]
