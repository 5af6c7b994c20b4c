"""What the words alone tell about the class of a text: a baseline for models with attention."""

import numpy as np

PENALTIES = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
TOLERANCE = 1e-6                        # largest entry of the gradient, divided by the texts, that counts as zero


class BagOfWords:
    """Logistic regression on the set of words of a text; neither their order nor how often they stand there counts.

        logits of text i = sum of weight[w] over its different words w, and weight[vocab_size], the bias
        objective        = - sum_i log softmax(logits of i)[label i] + l2/2 sum of all weight², the bias's too

    The objective is strictly convex: there is one minimum, whatever the texts are, and Newton's method finds it, the
    same in every run.

    Parameters:
        weight : (vocab_size + 1, num_classes) float array, such as `train` finds
        l2 : float or None, the penalty it was found with

    Source: Nocedal and Wright 2006, algorithm 7.1 (Newton's method with conjugate gradients); sets of words: Pang, Lee
    and Vaithyanathan 2002, section 5.
    """

    def __init__(self, weight, l2=None):
        self.weight, self.l2 = weight, l2

    @classmethod
    def train(cls, rows, labels, vocab_size, num_classes, l2=1.0):
        """The best weights for rows, a list of int arrays of ids, and labels, an int for each.

        Raises ValueError for no rows, an id or label outside its range, fewer than 2 classes, or l2 not above 0.
        """
        if not 0 < l2 < np.inf or num_classes < 2:
            raise ValueError(f"l2 = {l2} must be above 0 and finite, so that the weights are finite, and num_classes = "
                             f"{num_classes} at least 2; l2 = 1.0 is usual")
        texts, words = word_sets(rows, vocab_size)
        targets = np.eye(num_classes)[check_labels(rows, labels, num_classes)]
        return cls(minimum(texts, words, targets, np.zeros((vocab_size + 1, num_classes)), l2), l2)

    @classmethod
    def choose(cls, rows, labels, held_out, vocab_size, num_classes, penalties=PENALTIES):
        """The model whose penalty l2 gives the lowest loss on held_out, a pair (rows, labels).

        The penalties are tried from the largest down until the loss rises; each search for a minimum starts at that of
        the penalty before.
        """
        penalties = sorted(penalties, reverse=True)
        best = cls.train(rows, labels, vocab_size, num_classes, penalties[0])
        lowest = best.loss(*held_out)
        texts, words = word_sets(rows, vocab_size)
        targets = np.eye(num_classes)[np.asarray(labels)]
        for l2 in penalties[1:]:
            model = cls(minimum(texts, words, targets, best.weight, l2), l2)
            if (loss := model.loss(*held_out)) > lowest:
                break
            best, lowest = model, loss
        return best

    def predict(self, rows):
        """The likeliest class of each text, the first among equals."""
        return self.logits(rows).argmax(1)

    def logits(self, rows):
        texts, words = word_sets(rows, len(self.weight) - 1)
        return spread(texts, words, self.weight, len(rows))

    def accuracy(self, rows, labels):
        """The share of the texts, 0 to 1, whose class is found."""
        return float(np.mean(self.predict(rows) == check_labels(rows, labels, self.weight.shape[1])))

    def loss(self, rows, labels):
        """The mean cross-entropy of the texts."""
        labels, z = check_labels(rows, labels, self.weight.shape[1]), self.logits(rows)
        z -= z.max(1, keepdims=True)
        return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), labels]))


def word_sets(rows, vocab_size):
    """(texts, words), one entry for each different word of each text, the bias being a word of every text."""
    if not len(rows):
        raise ValueError("0 texts have no classes to tell; pass at least 1")
    for i, row in enumerate(rows, 1):
        if len(row) and np.asarray(row).dtype.kind not in "iu":
            raise ValueError(f"text {i:,} holds {np.asarray(row).dtype}, but must be whole numbers; encode the texts "
                             "with a tokenizer")
    ids = np.concatenate([np.asarray(row, np.int64) for row in rows])
    if len(ids) and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError(f"the ids of the texts go from {ids.min()} to {ids.max()}, but must be at least 0 and below "
                         f"vocab_size = {vocab_size}; pass the vocab_size of their tokenizer")
    texts = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    texts, ids = np.append(texts, np.arange(len(rows))), np.append(ids, np.full(len(rows), vocab_size))
    pairs = np.sort(texts * (vocab_size + 1) + ids)         # then every pair once; np.unique takes ten times as long
    return np.divmod(pairs[np.append(True, pairs[1:] != pairs[:-1])], vocab_size + 1)


def spread(to, source, values, count):
    """(count, K): row n is the sum of values[s] over the pairs (n, s) of `to` and `source`."""
    return np.stack([np.bincount(to, column[source], count) for column in values.T], 1)


def check_labels(rows, labels, num_classes):
    labels = np.asarray(labels)
    if labels.shape != (len(rows),) or not len(rows):
        raise ValueError(f"{len(rows):,} texts and labels of shape {labels.shape} must be equally many, and at least "
                         "1; give one label for each text")
    if labels.dtype.kind not in "iu" or not 0 <= labels.min() <= labels.max() < num_classes:
        raise ValueError(f"the labels, {labels.dtype} from {min(labels)} to {max(labels)}, must be whole numbers of at "
                         f"least 0 and below num_classes = {num_classes}; number the classes from 0")
    return labels


def minimum(texts, words, targets, weight, l2):
    """The weights (num_words, K) that minimize the objective, searched from `weight`; targets (N, K) are one-hot."""
    def forward(weight):
        logits = spread(texts, words, weight, len(targets))
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(1, keepdims=True)
        return p / total, np.log(total).sum() - (logits * targets).sum() + l2 / 2 * (weight * weight).sum()

    def backward(dlogits, weight):
        return spread(words, texts, dlogits, len(weight)) + l2 * weight

    def hessian(v):                                     # times v
        u = spread(texts, words, v, len(targets))
        return backward(p * (u - (p * u).sum(1, keepdims=True)), v)

    p, value = forward(weight)
    while abs(gradient := backward(p - targets, weight)).max() > TOLERANCE * len(targets):
        diagonal = backward(p * (1 - p), np.ones_like(weight))
        step = solve(hessian, -gradient, diagonal)
        slope = (step * gradient).sum()                 # below 0: the Hessian is positive definite
        while (new := forward(weight + step))[1] > value + 1e-4 * slope:
            step, slope = step / 2, slope / 2
            if -slope < 1e-15 * value:                  # too small to tell from rounding: this is the minimum
                return weight
        weight, (p, value) = weight + step, new
    return weight


def solve(hessian, b, diagonal):
    """About x with hessian(x) = b, by conjugate gradients; the smaller b, the closer."""
    x, residual = np.zeros_like(b), b
    direction = z = residual / diagonal
    square = (residual * z).sum()
    enough = square * min(0.0625, abs(b).max() / 100)
    for _ in range(b.size):                             # exact arithmetic needs no more
        if square <= enough:
            break
        image = hessian(direction)
        rate = square / (direction * image).sum()
        x, residual = x + rate * direction, residual - rate * image
        z = residual / diagonal
        square, last = (residual * z).sum(), square
        direction = z + square / last * direction
    return x
