"""Comparing sentences by the cosine of their vectors."""

import numpy as np

from ...checks.gradcheck import cosine
from ..exercise import Exercise, Mistake


def nearest_sentences(vectors, others):
    """How similar sentences are, by the cosine of the angle between their vectors, a b / (|a| |b|).

    vectors: (N, D), a vector for each sentence.  others: (M, D), those of the sentences to compare with. No vector
    is 0.
    Return similarity: (N, M), the cosine of each of the N with each of the M, and nearest: (N,) integers, for each of
    the N which of the M, counted from 0, is most similar to it (cosine 1 = the same direction, -1 = the opposite one).
    """
    left = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    right = others / np.linalg.norm(others, axis=1, keepdims=True)
    similarity = left @ right.T
    nearest = similarity.argmax(1)
    return similarity, nearest


def draw_sentences(rng, N, M, D):
    """Vectors of different lengths, about a common mean, some of them opposite to each other."""
    vectors, others = 0.3 + rng.standard_normal((N, D)), 0.3 + rng.standard_normal((M, D))
    others[0] = -vectors[0] + 0.3 * others[0]
    return vectors * rng.uniform(0.2, 3, (N, 1)), others * rng.uniform(0.2, 3, (M, 1))


def by_cosine(vectors, others):
    similarity = np.array([[cosine(a, b) for b in others] for a in vectors])
    return similarity, np.array([max(range(len(others)), key=row.__getitem__) for row in similarity])


LEFT, RIGHT = "np.linalg.norm(vectors, axis=1, keepdims=True)", "np.linalg.norm(others, axis=1, keepdims=True)"
COSINE = (
    Mistake("COS-1", {f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others"},
            "That is the plain product, which grows with the lengths of the vectors. Divide by both."),
    Mistake("COS-2", {f"others / {RIGHT}": "others"},
            "The lengths of the others are missing: a longer one counts for more."),
    Mistake("COS-3", {f"vectors / {LEFT}": "vectors"},
            "The lengths of the vectors are missing. The nearest ones are right, since a row has one such length; the "
            "cosines are not."),
    Mistake("COS-4", {f"vectors / {LEFT}": "vectors / (vectors ** 2).sum(1, keepdims=True)",
                      f"others / {RIGHT}": "others / (others ** 2).sum(1, keepdims=True)"},
            "They are divided by the squares of their lengths: the root is missing."),
    Mistake("COS-5", {f"vectors / {LEFT}": "vectors / np.linalg.norm(vectors)",
                      f"others / {RIGHT}": "others / np.linalg.norm(others)"},
            "One length for the whole array. Each vector has its own: a norm along the features."),
    Mistake("COS-6", {LEFT: "np.linalg.norm(vectors, axis=0, keepdims=True)",
                      RIGHT: "np.linalg.norm(others, axis=0, keepdims=True)"},
            "The norms go along the sentences: each feature is scaled, and the vectors do not get length 1."),
    Mistake("COS-7", {"similarity.argmax(1)": "similarity.argmin(1)"},
            "That is the farthest: a cosine of 1 is the same direction, so the largest is wanted."),
    Mistake("COS-8", {"similarity.argmax(1)": "similarity.argmax(0)"},
            "That is the nearest vector of each of the others. Asked is the nearest other of each vector: along the "
            "row."),
    Mistake("COS-9", {"left @ right.T": "right @ left.T", "similarity.argmax(1)": "similarity.argmax(0)"},
            "similarity comes out transposed: rows are the vectors, columns the others."),
    Mistake("COS-10", {LEFT: "np.abs(vectors).sum(1, keepdims=True)", RIGHT: "np.abs(others).sum(1, keepdims=True)"},
            "They are divided by the sums of their absolute entries. The length is the root of the sum of squares."),
    Mistake("COS-11", {"left @ right.T": "-np.linalg.norm(vectors[:, None] - others, axis=-1)"},
            "That is the distance, with a minus. The cosine asks for the direction alone."),
    Mistake("COS-12", {"vectors / np": "(vectors - vectors.mean(1, keepdims=True)) / np",
                       "others / np": "(others - others.mean(1, keepdims=True)) / np",
                       "norm(vectors, axis": "norm(vectors - vectors.mean(1, keepdims=True), axis",
                       "norm(others, axis": "norm(others - others.mean(1, keepdims=True), axis"},
            "The mean of each vector is subtracted first: that is the correlation. The cosine takes them as they are."),
    Mistake("COS-13", {"similarity.argmax(1)": "np.abs(similarity).argmax(1)"},
            "The nearest is sought among absolute values: then the opposite counts as near."),
    Mistake("COS-14", {"similarity.argmax(1)": "similarity.max(1)"},
            "That is the largest cosine. Asked is the number of the sentence that has it."),
    Mistake("COS-15", {"similarity.argmax(1)": "similarity.argmax()"},
            "One number for the whole array: the nearest is sought in each row."),
    Mistake("COS-16", {"similarity, nearest\n": "nearest, similarity\n"},
            "They come back in the other order: the similarities first."),
    Mistake("COS-17", {f"    left = vectors / {LEFT}": f"    vectors /= {LEFT}\n    left = vectors"},
            "vectors /= ... writes into the caller's array: vectors / ... makes a new one."),
)

EXERCISES = [
    Exercise(
        "14.3", "The nearest sentence", minutes=10, lines=5,
        solution=nearest_sentences, reference=by_cosine, inputs=lambda rng, n: draw_sentences(rng, n.S, n.T, n.D),
        edges=lambda rng: [("N = M = D", draw_sentences(rng, 6, 6, 6)), ("one other", draw_sentences(rng, 4, 1, 3))],
        outputs=("similarity", "nearest"), mistakes=COSINE,
        invariants=(("a cosine lies between -1 and 1",
                     lambda inputs, outputs: np.maximum(abs(outputs[0]) - 1, 0)),),
        hints=("What is the product of two vectors of length 1?",
               "The cosine. So make each row one of length 1 first; then one matmul gives all pairs.",
               "vectors / np.linalg.norm(vectors, axis=1, keepdims=True), the others likewise, left @ right.T, and "
               "argmax along each row."),
        alternatives={"divided afterwards": {
            f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others",
            "left @ right.T": "left @ right.T / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)"},
            "einsum": {"left @ right.T": "np.einsum('nd,md->nm', left, right)"}}),
]
