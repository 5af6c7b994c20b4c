"""The bag-of-words baseline, compared with dense Newton steps and with scikit-learn."""

import numpy as np
import pytest

from numpy_transformer.data.baselines import PENALTIES, BagOfWords


def texts(seed, count=40, vocab_size=7, num_classes=2):
    """Random texts, some of them empty and most with repeated words, and labels that partly depend on the words."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, vocab_size, rng.integers(0, 12)) for _ in range(count)]
    labels = [int(len(set(row.tolist()) & {0, 3}) + rng.integers(2)) % num_classes for row in rows]
    return rows, labels


def dense(rows, vocab_size):
    """1 where a text contains a word, and a last column of ones."""
    x = np.zeros((len(rows), vocab_size + 1))
    for line, row in zip(x, rows):
        for word in row:
            line[word] = 1
    x[:, -1] = 1
    return x


def objective(weight, x, labels, l2):
    value = l2 / 2 * sum(w * w for w in weight.ravel())
    for line, label in zip(x @ weight, labels):
        value += np.log(sum(np.exp(line))) - line[label]
    return value


def dense_newton(x, labels, num_classes, l2):
    """Finds the minimum with Newton steps on the full Hessian, built entry by entry."""
    n, k = x.shape[1], num_classes
    weight = np.zeros((n, k))
    for _ in range(30):
        p = np.exp(x @ weight)
        p /= p.sum(1, keepdims=True)
        gradient = x.T @ (p - np.eye(k)[labels]) + l2 * weight
        hessian = l2 * np.eye(n * k)
        for line, probability in zip(x, p):
            hessian += np.kron(np.outer(line, line), np.diag(probability) - np.outer(probability, probability))
        weight = weight - np.linalg.solve(hessian, gradient.ravel()).reshape(n, k)
    return weight


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("l2", [0.3, 1.0, 20.0])
def test_the_gradient_of_the_documented_objective_is_zero(num_classes, l2):
    rows, labels = texts(1, num_classes=num_classes)
    weight, x = BagOfWords.train(rows, labels, 7, num_classes, l2).weight, dense(rows, 7)
    assert weight.shape == (8, num_classes) and abs(weight).max() > 0.01
    for place in np.ndindex(weight.shape):
        move = np.zeros_like(weight)
        move[place] = 1e-4
        slope = (objective(weight + move, x, labels, l2) - objective(weight - move, x, labels, l2)) / 2e-4
        assert abs(slope) < 1e-4


@pytest.mark.parametrize("num_classes, l2", [(2, 1.0), (2, 0.05), (3, 1.0), (4, 5.0)])
def test_weights_and_classes_are_those_of_dense_newton_steps(num_classes, l2):
    rows, labels = texts(2, num_classes=num_classes)
    model, x = BagOfWords.train(rows, labels, 7, num_classes, l2), dense(rows, 7)
    expected = dense_newton(x, labels, num_classes, l2)
    np.testing.assert_allclose(model.weight, expected, atol=1e-4 / l2)
    others, _ = texts(3)
    found = [max(range(num_classes), key=lambda k: line[k]) for line in dense(others, 7) @ expected]
    assert model.predict(others).tolist() == found
    assert model.accuracy(rows, labels) == np.mean(model.predict(rows) == labels)


def test_two_texts_solved_by_hand():
    # word 0 is negative, word 1 positive; by symmetry the weights are [[w, -w], [-w, w]] and no bias, and the slope of
    # 2 log(1 + exp(-2w)) + 4 w²/2 l2 is zero where w = sigmoid(-2w) / l2; for l2 = sigmoid(-2) that is w = 1
    l2 = 1 / (1 + np.exp(2))
    model = BagOfWords.train([[0], [1]], [0, 1], 2, 2, l2)
    np.testing.assert_allclose(model.weight, [[1, -1], [-1, 1], [0, 0]], atol=1e-4)


def test_order_and_repetition_of_words_do_not_count():
    rows, labels = texts(4)
    shuffled = [np.random.default_rng(5).permutation(np.repeat(row, 3)) for row in rows]
    one, other = BagOfWords.train(rows, labels, 7, 2), BagOfWords.train(shuffled, labels, 7, 2)
    np.testing.assert_array_equal(one.weight, other.weight)
    np.testing.assert_array_equal(one.predict(rows), one.predict(shuffled))


def test_training_is_deterministic_and_leaves_its_arguments_unchanged():
    rows, labels = texts(6, num_classes=3)
    before = [row.copy() for row in rows]
    first, second = [BagOfWords.train(rows, labels, 7, 3).weight for _ in range(2)]
    np.testing.assert_array_equal(first, second)
    assert all(np.array_equal(row, old) for row, old in zip(rows, before))


def test_empty_texts_get_the_most_frequent_class_and_unseen_words_have_zero_weights():
    model = BagOfWords.train([[], [], [], [0], [0]], [2, 2, 1, 0, 0], 4, 3)
    assert model.predict([[], [3], [0, 0]]).tolist() == [2, 2, 0]
    assert not model.weight[1:4].any() and model.weight[4].argmax() == 2


@pytest.mark.parametrize("labels", [[0, 1] * 20, [1] * 40])         # separable; a class without a text
@pytest.mark.parametrize("l2", [1.0, 1e-6])
def test_weights_of_separable_texts_are_finite(labels, l2):
    rows = [[label, 2 + i % 3] for i, label in enumerate(labels)]
    model = BagOfWords.train(rows, labels, 5, 2, l2)
    assert np.isfinite(model.weight).all() and model.accuracy(rows, labels) == 1


def test_training_converges_with_a_word_in_every_text_and_words_in_a_single_text():
    rng = np.random.default_rng(7)
    rows = [[0, 1 + i, *rng.integers(300, 320, 30)] for i in range(300)]
    labels = rng.integers(2, size=300)
    weight, x = BagOfWords.train(rows, labels, 320, 2, 0.01).weight, dense(rows, 320)
    p = np.exp(x @ weight)
    p /= p.sum(1, keepdims=True)
    assert abs(x.T @ (p - np.eye(2)[labels]) + 0.01 * weight).max() <= 1e-6 * 300 * 1.001


@pytest.mark.parametrize("rows, labels, sizes, match", [
    ([], [], (3, 2), "there are no texts to classify; pass at least 1"),
    ([[0], [3]], [0, 1], (3, 2), "range from 0 to 3, but must be .* below vocab_size = 3"),
    ([[0], [-1]], [0, 1], (3, 2), "range from -1 to 0, but must be at least 0"),
    ([[0], [1]], [0], (3, 2), r"there are 2 texts but labels of shape \(1,\); give .* one label for each"),
    ([[0], [1]], [0, 2], (3, 2), "from 0 to 2, must be whole numbers .* below num_classes = 2"),
    ([[0], [1]], [0, -1], (3, 2), "from -1 to 0, must be whole numbers"),
    ([[0], [1]], [0.0, 1.0], (3, 2), "the labels, float64 from 0.0 to 1.0, must be whole numbers"),
    ([[0], [1]], ["neg", "pos"], (3, 2), "must be whole numbers .* number the classes from 0"),
    ([[0.5], [1]], [0, 1], (3, 2), "text 1 has dtype float64, but .* encode"),
    ([["dull"], [1]], [0, 1], (3, 2), "text 1 has dtype <U4, but .* encode"),
    ([[0], [1]], [0, 1], (3, 1), "num_classes = 1 must be at least 2"),
    ([[0], [1]], [0, 1], (3, 2, 0.0), "l2 = 0.0 must be above 0"),
    ([[0], [1]], [0, 1], (3, 2, float("nan")), "l2 = nan must be above 0"),
    ([[0], [1]], [0, 1], (3, 2, float("inf")), "l2 = inf must be above 0"),
])
def test_bad_training_data_raises_an_error_that_describes_it(rows, labels, sizes, match):
    with pytest.raises(ValueError, match=match):
        BagOfWords.train(rows, labels, *sizes)


def test_a_trained_model_refuses_bad_texts_and_labels():
    model = BagOfWords.train([[0], [1]], [0, 1], 2, 2)
    with pytest.raises(ValueError, match="below vocab_size = 2"):
        model.predict([[2]])
    with pytest.raises(ValueError, match="no texts to classify"):
        model.predict([])
    with pytest.raises(ValueError, match="below num_classes = 2"):
        model.accuracy([[0]], [2])


def noisy_texts(seed, count):
    """Texts of 30 words of which few matter, so that a small penalty learns the noise."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, 300, 30) for _ in range(count)]
    return rows, [int((row < 15).sum() - (row > 284).sum() + rng.standard_normal() > 0) for row in rows]


def test_repr():
    model = BagOfWords.train([[0], [1]], [0, 1], 5, 2, l2=0.5)
    assert repr(model) == "BagOfWords(vocab_size=5, num_classes=2, l2=0.5)"


def test_the_penalty_is_chosen_on_the_held_out_texts():
    known, held_out = noisy_texts(1, 200), noisy_texts(2, 300)
    chosen = BagOfWords.choose(*known, held_out, 300, 2)
    losses = {l2: BagOfWords.train(*known, 300, 2, l2).loss(*held_out) for l2 in PENALTIES}
    assert chosen.l2 == min(losses, key=losses.get) and 1 < chosen.l2 < 1000
    assert chosen.loss(*held_out) == pytest.approx(losses[chosen.l2], abs=1e-6)
    assert chosen.accuracy(*held_out) > BagOfWords.train(*known, 300, 2, 0.1).accuracy(*held_out) + 0.03


def test_a_chosen_model_is_the_minimum_of_its_objective():
    """A search that starts at the minimum of another penalty still ends at a zero gradient."""
    known, held_out = texts(3), texts(4, count=30)
    for penalties in ([50.0, 2.0], [0.3, 20.0, 2.0]):
        chosen = BagOfWords.choose(*known, held_out, 7, 2, penalties)
        x, y = dense(known[0], 7), np.eye(2)[known[1]]
        p = np.exp(x @ chosen.weight)
        p /= p.sum(1, keepdims=True)
        assert abs(x.T @ (p - y) + chosen.l2 * chosen.weight).max() <= 1e-6 * len(y)


def test_the_loss_is_the_mean_cross_entropy():
    known, others = texts(3, num_classes=3), texts(4, count=30, num_classes=3)
    model = BagOfWords.train(*known, 7, 3)
    p = np.exp(dense(others[0], 7) @ model.weight)
    right = [line[label] / line.sum() for line, label in zip(p, others[1])]
    assert model.loss(*others) == pytest.approx(-np.mean(np.log(right)))


def test_a_small_penalty_is_chosen_only_if_confident_predictions_are_correct():
    known, wrong = ([[0], [1]] * 5, [0, 1] * 5), ([[0], [1], [0]], [0, 1, 1])
    assert BagOfWords.choose(*known, known, 2, 2, [0.1, 1.0, 10.0]).l2 == 0.1
    assert BagOfWords.choose(*known, wrong, 2, 2, [0.001, 1.0, 10.0]).l2 == 10.0


def test_scikit_learn_finds_the_same_penalty_and_the_same_classes():
    """One weight w = w1 - w0 instead of two: l2/2 (w0² + w1²) = l2/4 w², so scikit-learn's C is 2 / l2.

    scikit-learn leaves its intercept free; a column of ones with penalty stands in for it.
    """
    linear, metrics = pytest.importorskip("sklearn.linear_model"), pytest.importorskip("sklearn.metrics")
    known, held_out = noisy_texts(5, 200), noisy_texts(6, 300)
    x, unseen = dense(known[0], 300), dense(held_out[0], 300)
    models = {l2: linear.LogisticRegression(C=2 / l2, fit_intercept=False, tol=1e-8, max_iter=10_000).fit(x, known[1])
              for l2 in PENALTIES}
    losses = {l2: metrics.log_loss(held_out[1], model.predict_proba(unseen)) for l2, model in models.items()}
    chosen = BagOfWords.choose(*known, held_out, 300, 2)
    assert chosen.l2 == min(losses, key=losses.get)
    assert chosen.loss(*held_out) == pytest.approx(losses[chosen.l2], abs=1e-5)
    assert np.array_equal(chosen.predict(held_out[0]), models[chosen.l2].predict(unseen))
