"""Comparing sentences by the cosine similarity of their vectors."""

import numpy as np

from ...checks.gradcheck import cosine
from .definition import Exercise, Mistake


def nearest_sentences(vectors, others):
    """Compares sentences by the cosine similarity of their vectors, a·b / (|a| |b|).

    vectors: (N, D), one vector per sentence.
    others: (M, D), the vectors of the sentences to compare with. No vector is 0.
    Return similarity: (N, M), the cosine of each of the N vectors with each of the M others (1 = the same direction,
    -1 = the opposite direction); and nearest: (N,) integers, the index of the most similar other for each vector.
    """
    left = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    right = others / np.linalg.norm(others, axis=1, keepdims=True)
    similarity = left @ right.T
    nearest = similarity.argmax(1)
    return similarity, nearest


def draw_sentences(rng, N, M, D):
    """Draws vectors of different lengths around a common mean, two of which have nearly opposite directions."""
    vectors, others = 0.3 + rng.standard_normal((N, D)), 0.3 + rng.standard_normal((M, D))
    others[0] = -vectors[0] + 0.3 * others[0]
    return vectors * rng.uniform(0.2, 3, (N, 1)), others * rng.uniform(0.2, 3, (M, 1))


def by_cosine(vectors, others):
    similarity = np.array([[cosine(a, b) for b in others] for a in vectors])
    return similarity, np.array([max(range(len(others)), key=row.__getitem__) for row in similarity])


LEFT, RIGHT = "np.linalg.norm(vectors, axis=1, keepdims=True)", "np.linalg.norm(others, axis=1, keepdims=True)"
COSINE = (
    Mistake("COS-1", {f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others"},
            "You return the dot products, which grow with the lengths of the vectors. Divide by both lengths."),
    Mistake("COS-2", {f"others / {RIGHT}": "others"},
            "You do not divide by the lengths of the others, so longer vectors seem more similar."),
    Mistake("COS-3", {f"vectors / {LEFT}": "vectors"},
            "You do not divide by the lengths of the vectors. Your nearest sentences are right, because this length is "
            "the same for a whole row, but the cosines are not."),
    Mistake("COS-4", {f"vectors / {LEFT}": "vectors / (vectors ** 2).sum(1, keepdims=True)",
                      f"others / {RIGHT}": "others / (others ** 2).sum(1, keepdims=True)"},
            "You divide by the squared lengths. The square root is missing."),
    Mistake("COS-4b", {LEFT: "np.sqrt((vectors ** 2).mean(1, keepdims=True))",
                       RIGHT: "np.sqrt((others ** 2).mean(1, keepdims=True))"},
            "You divide by the root of the mean of the squares. The length is the root of their sum."),
    Mistake("COS-5", {f"vectors / {LEFT}": "vectors / np.linalg.norm(vectors)",
                      f"others / {RIGHT}": "others / np.linalg.norm(others)"},
            "You divide by one norm of the whole array. Each vector has its own length, a norm over its features."),
    Mistake("COS-6", {LEFT: "np.linalg.norm(vectors, axis=0, keepdims=True)",
                      RIGHT: "np.linalg.norm(others, axis=0, keepdims=True)"},
            "Your norms are taken over the sentences. They scale each feature, but do not give the vectors length 1."),
    Mistake("COS-7", {"similarity.argmax(1)": "similarity.argmin(1)"},
            "You return the least similar sentence. A cosine of 1 means the same direction, so look for the maximum."),
    Mistake("COS-8", {"similarity.argmax(1)": "similarity.argmax(0)"},
            "You look for the nearest vector of each other sentence. The exercise asks for the nearest other sentence "
            "of each vector, which is found along a row."),
    Mistake("COS-9", {"left @ right.T": "right @ left.T", "similarity.argmax(1)": "similarity.argmax(0)"},
            "Your similarity is transposed. Its rows are the vectors, its columns the others."),
    Mistake("COS-10", {LEFT: "np.abs(vectors).sum(1, keepdims=True)", RIGHT: "np.abs(others).sum(1, keepdims=True)"},
            "You divide by the sum of absolute values. The length is the square root of the sum of squares."),
    Mistake("COS-11", {"left @ right.T": "-np.linalg.norm(vectors[:, None] - others, axis=-1)"},
            "You return negative distances. The cosine depends on the directions only, not on the lengths."),
    Mistake("COS-11b", {"left @ right.T": "np.linalg.norm(vectors[:, None] - others, axis=-1)", "argmax": "argmin"},
            "You return distances. The cosine depends on the directions only, not on the lengths."),
    Mistake("COS-11c", {"left @ right.T": "((vectors[:, None] - others) ** 2).sum(-1)", "argmax": "argmin"},
            "You return squared distances. The cosine depends on the directions only, not on the lengths."),
    Mistake("COS-29", {f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others", "left @ right.T":
                       "left @ right.T\n    similarity /= np.linalg.norm(similarity, axis=1, keepdims=True)"},
            "You divide the rows of dot products by their norm. Each dot product is divided by the lengths of its own "
            "two vectors."),
    Mistake("COS-30", {f"others / {RIGHT}": f"others * {RIGHT}"},
            "You multiply by the lengths of the others. In a / b * c, only b divides; write a / (b * c)."),
    Mistake("COS-31", {"vectors / np": "(vectors - vectors.mean(0)) / np",
                       "others / np": "(others - others.mean(0)) / np",
                       "norm(vectors, axis": "norm(vectors - vectors.mean(0), axis",
                       "norm(others, axis": "norm(others - others.mean(0), axis"},
            "You subtract the mean of all sentences first. The cosine uses the vectors as they are."),
    Mistake("COS-12", {"vectors / np": "(vectors - vectors.mean(1, keepdims=True)) / np",
                       "others / np": "(others - others.mean(1, keepdims=True)) / np",
                       "norm(vectors, axis": "norm(vectors - vectors.mean(1, keepdims=True), axis",
                       "norm(others, axis": "norm(others - others.mean(1, keepdims=True), axis"},
            "You subtract the mean of each vector first, which gives the correlation. The cosine uses the vectors as "
            "they are."),
    Mistake("COS-13", {"similarity.argmax(1)": "np.abs(similarity).argmax(1)"},
            "You compare absolute values, so vectors with opposite directions count as similar."),
    Mistake("COS-14", {"similarity.argmax(1)": "similarity.max(1)"},
            "You return the largest cosine. The exercise asks for the index of the sentence that has it."),
    Mistake("COS-15", {"similarity.argmax(1)": "similarity.argmax()"},
            "You look for one maximum in the whole array. Find the nearest sentence in each row."),
    Mistake("COS-16", {"similarity, nearest\n": "nearest, similarity\n"},
            "You return the two arrays in the wrong order. The similarities come first."),
    Mistake("COS-17", {f"    left = vectors / {LEFT}": f"    vectors /= {LEFT}\n    left = vectors"},
            "vectors /= ... writes into the caller's array. vectors / ... makes a new one."),
    Mistake("COS-18", {LEFT: LEFT.replace(", keepdims=True", ""), RIGHT: RIGHT.replace(", keepdims=True", "")},
            "keepdims=True is missing. The lengths then have shape (N,), and broadcasting pairs them with the features "
            "instead of the sentences."),
    Mistake("COS-19", {"left @ right.T": "left @ right"},
            "The rows of both arrays are sentences. To multiply each row of one with each row of the other, transpose "
            "the second."),
    Mistake("COS-20", {"similarity.argmax(1)": "np.linalg.norm(vectors[:, None] - others, axis=-1).argmin(1)"},
            "Your similarities are right, but nearest is the sentence at the smallest distance. It must be the one "
            "with the largest cosine."),
    Mistake("COS-21", {"similarity.argmax(1)": "(vectors @ others.T).argmax(1)"},
            "Your similarities are right, but nearest is the sentence with the largest dot product, which favors long "
            "vectors. It must be the one with the largest cosine."),
    Mistake("COS-22", {"left @ right.T": "1 - left @ right.T", "argmax": "argmin"},
            "You return the cosine distance, 1 minus the cosine. The exercise asks for the cosine itself."),
    Mistake("COS-23", {"left @ right.T": "np.arccos(np.clip(left @ right.T, -1, 1))", "argmax": "argmin"},
            "You return the angles. The exercise asks for their cosines."),
    Mistake("COS-24", {"left @ right.T": "np.abs(left @ right.T)"},
            "You take the absolute value of the cosines. A cosine of -1 means the opposite direction, and stays "
            "negative."),
    Mistake("COS-25", {"similarity.argmax(1)": "similarity.argsort(1)[:, -2]"},
            "You skip the most similar sentence. That is right if a sentence is compared with itself too, but here the "
            "others are other sentences."),
    Mistake("COS-26", {"similarity.argmax(1)": "np.argsort(-similarity, 1)"},
            "You return all others in order of similarity. The exercise asks for the nearest one only."),
    Mistake("COS-27", {"similarity.argmax(1)": "others[similarity.argmax(1)]"},
            "You return the vectors of the nearest sentences. The exercise asks for their indices."),
    Mistake("COS-28", {f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others", "left @ right.T":
                       "left @ right.T / (np.linalg.norm(left, axis=1)[:, None] + np.linalg.norm(right, axis=1))"},
            "You divide by the sum of the two lengths. Divide by their product."),
)

EXERCISES = [
    Exercise(
        "14.3", "The nearest sentence", minutes=10, lines=5,
        solution=nearest_sentences, reference=by_cosine, inputs=lambda rng, n: draw_sentences(rng, n.S, n.T, n.D),
        edges=lambda rng: [("N = M = D", draw_sentences(rng, 6, 6, 6)), ("M = 1", draw_sentences(rng, 4, 1, 3))],
        outputs=("similarity", "nearest"), mistakes=COSINE,
        invariants=(("a cosine must be between -1 and 1",
                     lambda inputs, outputs: np.maximum(abs(outputs[0]) - 1, 0)),),
        hints=("What is the dot product of two vectors of length 1?",
               "It is their cosine. So divide each row by its length first; one matrix product then gives all pairs.",
               "vectors / np.linalg.norm(vectors, axis=1, keepdims=True), and the same for the others; left @ right.T; "
               "argmax along each row."),
        alternatives={"divided afterwards": {
            f"vectors / {LEFT}": "vectors", f"others / {RIGHT}": "others",
            "left @ right.T": "left @ right.T / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)"},
            "einsum": {"left @ right.T": "np.einsum('nd,md->nm', left, right)"}}),
]
