"""Comparing sentences by the cosine similarity of their vectors."""

import numpy as np

from ...checks.gradcheck import cosine
from .definition import Exercise, Mistake


def nearest_sentences(vectors, others):
    left = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    right = others / np.linalg.norm(others, axis=1, keepdims=True)
    similarity = left @ right.T
    nearest = similarity.argmax(1)
    return similarity, nearest


def draw_sentences(rng, N, M, D):
    """Draws vectors of different lengths around a common mean, two of which have nearly opposite directions."""
    vectors, others = 0.3 + rng.standard_normal((N, D)), 0.3 + rng.standard_normal((M, D))
    others[0] = -vectors[0] + 0.3 * others[0]
    return vectors * 10 ** rng.uniform(-6, 1, (N, 1)), others * 10 ** rng.uniform(-6, 1, (M, 1))


def by_cosine(vectors, others):
    similarity = np.array([[cosine(a, b) for b in others] for a in vectors])
    return similarity, np.array([max(range(len(others)), key=row.__getitem__) for row in similarity])


LEFT, RIGHT = "np.linalg.norm(vectors, axis=1, keepdims=True)", "np.linalg.norm(others, axis=1, keepdims=True)"


EXERCISES = [
    Exercise(
        "14.3", minutes=10, lines=5,
        number_sizes=("large",),
        solution=nearest_sentences, reference=by_cosine, inputs=lambda rng, n: draw_sentences(rng, n.S, n.T, n.D),
        edges=lambda rng: [("n_m_d", draw_sentences(rng, 6, 6, 6)), ("m_1", draw_sentences(rng, 4, 1, 3))],
        outputs=("similarity", "nearest"), mistakes=(
            Mistake("COS-1", {
                "vectors / np.linalg.norm(vectors, axis=1, keepdims=True)": "vectors",
                "others / np.linalg.norm(others, axis=1, keepdims=True)": "others"}),
            Mistake("COS-2", {"others / np.linalg.norm(others, axis=1, keepdims=True)": "others"}),
            Mistake("COS-3", {"vectors / np.linalg.norm(vectors, axis=1, keepdims=True)": "vectors"}),
            Mistake("COS-4", {
                "vectors / np.linalg.norm(vectors, axis=1, keepdims=True)":
                    "vectors / (vectors ** 2).sum(1, keepdims=True)",
                "others / np.linalg.norm(others, axis=1, keepdims=True)":
                    "others / (others ** 2).sum(1, keepdims=True)"}),
            Mistake("COS-5", {
                "vectors / np.linalg.norm(vectors, axis=1, keepdims=True)": "vectors / np.linalg.norm(vectors)",
                "others / np.linalg.norm(others, axis=1, keepdims=True)": "others / np.linalg.norm(others)"}),
            Mistake("COS-5b", {
                "vectors / np.linalg.norm(vectors, axis=1, keepdims=True)": "vectors / np.linalg.norm(vectors)"}),
            Mistake("COS-5c", {
                "others / np.linalg.norm(others, axis=1, keepdims=True)": "others / np.linalg.norm(others)"}),
            Mistake("COS-6", {
                "np.linalg.norm(vectors, axis=1, keepdims=True)": "np.linalg.norm(vectors, axis=0, keepdims=True)",
                "np.linalg.norm(others, axis=1, keepdims=True)": "np.linalg.norm(others, axis=0, keepdims=True)"}),
            Mistake("COS-7", {"similarity.argmax(1)": "similarity.argmin(1)"}),
            Mistake("COS-8", {"similarity.argmax(1)": "similarity.argmax(0)"}),
            Mistake("COS-10", {
                "np.linalg.norm(vectors, axis=1, keepdims=True)": "np.abs(vectors).sum(1, keepdims=True)",
                "np.linalg.norm(others, axis=1, keepdims=True)": "np.abs(others).sum(1, keepdims=True)"}),
            Mistake("COS-11", {"left @ right.T": "-np.linalg.norm(vectors[:, None] - others, axis=-1)"}),
            Mistake("COS-11b", {
                "left @ right.T": "np.linalg.norm(vectors[:, None] - others, axis=-1)",
                "argmax": "argmin"}),
            Mistake("COS-11c", {"left @ right.T": "((vectors[:, None] - others) ** 2).sum(-1)", "argmax": "argmin"}),
            Mistake("COS-31", {
                "vectors / np": "(vectors - vectors.mean(0)) / np",
                "others / np": "(others - others.mean(0)) / np",
                "norm(vectors, axis": "norm(vectors - vectors.mean(0), axis",
                "norm(others, axis": "norm(others - others.mean(0), axis"}),
            Mistake("COS-12", {
                "vectors / np": "(vectors - vectors.mean(1, keepdims=True)) / np",
                "others / np": "(others - others.mean(1, keepdims=True)) / np",
                "norm(vectors, axis": "norm(vectors - vectors.mean(1, keepdims=True), axis",
                "norm(others, axis": "norm(others - others.mean(1, keepdims=True), axis"}),
            Mistake("COS-13", {"similarity.argmax(1)": "np.abs(similarity).argmax(1)"}),
            Mistake("COS-14", {"similarity.argmax(1)": "similarity.max(1)"}),
            Mistake("COS-15", {"similarity.argmax(1)": "similarity.argmax()"}),
            Mistake("COS-17", {
                "    left = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)":
                    "    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)\n    left = vectors"}),
            Mistake("COS-33", {
                "similarity.argmax(1)": "np.linalg.norm(vectors[:, None] - others, axis=-1).argmin(1)"}),
            Mistake("COS-34", {"similarity.argmax(1)": "(vectors @ others.T).argmax(1)"}),
            Mistake("COS-27", {"similarity.argmax(1)": "others[similarity.argmax(1)]"}),
        ),
        must_be_zero={"cosine_between_1": lambda inputs, outputs: np.maximum(abs(outputs[0]) - 1, 0)},
        alternatives={"divided afterwards": {
            f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others",
            "left @ right.T": "left @ right.T / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)"},
            "einsum": {"left @ right.T": "np.einsum('nd,md->nm', left, right)"}}),
]
