"""Bag-of-words baseline for text classifiers."""

import numpy as np

from .plurals import counted

PENALTIES = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
TOLERANCE = 1e-6                        # the search ends when no entry of the gradient, per text, is larger


class BagOfWords:
    """Logistic regression on the set of words of a text, regardless of their order and frequency.

        logits of text i = sum of weight[w] over its distinct words w, plus weight[vocab_size], the bias
        objective        = - sum_i log softmax(logits of i)[label i] + l2/2 sum of weight², which includes the bias

    The objective is strictly convex, so it has a single minimum for any texts. Newton's method finds the same minimum
    in every run.

    Parameters:
        weight : float array (vocab_size + 1, num_classes), as `train` finds it
        l2 : float or None, the penalty of the training

    Source: Nocedal and Wright 2006, algorithm 7.1 (Newton's method with conjugate gradients); sets of words: Pang, Lee
    and Vaithyanathan 2002, section 5.
    """

    def __init__(self, weight, l2=None):
        self.weight = weight
        self.l2 = l2

    def __repr__(self):
        return f"BagOfWords(vocab_size={len(self.weight) - 1}, num_classes={self.weight.shape[1]}, l2={self.l2})"

    @classmethod
    def train(cls, rows, labels, vocab_size, num_classes, l2=1.0):
        """Returns the model that minimizes the objective.

        Parameters:
            rows : list of N int arrays, the texts as ids
            labels : N ints, 0 to num_classes - 1
            vocab_size : int
            num_classes : int, at least 2
            l2 : float above 0, the penalty

        Raises:
            ValueError for no rows, an id or label outside its range, fewer than 2 classes, or l2 not above 0.
        """
        if not 0 < l2 < np.inf or num_classes < 2:
            raise ValueError(f"l2 = {l2} must be above 0 and finite, so that the weights are finite, and num_classes = "
                             f"{num_classes} must be at least 2; l2 = 1.0 is usual")
        texts, words = word_sets(rows, vocab_size)
        targets = np.eye(num_classes)[check_labels(rows, labels, num_classes)]
        return cls(minimize(texts, words, targets, np.zeros((vocab_size + 1, num_classes)), l2), l2)

    @classmethod
    def choose(cls, rows, labels, held_out, vocab_size, num_classes, penalties=PENALTIES):
        """Returns the model whose penalty gives the lowest loss on the validation set.

        The penalties are tried in decreasing order until the validation loss rises. Each search for the minimum starts
        from the weights of the previous penalty.

        Parameters:
            rows, labels, vocab_size, num_classes : as for `train`
            held_out : (rows, labels) of the validation set
            penalties : values of l2 to try
        """
        penalties = sorted(penalties, reverse=True)
        best = cls.train(rows, labels, vocab_size, num_classes, penalties[0])
        lowest = best.loss(*held_out)
        texts, words = word_sets(rows, vocab_size)
        targets = np.eye(num_classes)[np.asarray(labels)]
        for l2 in penalties[1:]:
            model = cls(minimize(texts, words, targets, best.weight, l2), l2)
            loss = model.loss(*held_out)
            if loss > lowest:
                break
            best, lowest = model, loss
        return best

    def predict(self, rows):
        """Returns the class of each text with the largest logit, the first one in a tie."""
        return self.logits(rows).argmax(1)

    def logits(self, rows):
        """Returns the logits of each text, (N, num_classes)."""
        texts, words = word_sets(rows, len(self.weight) - 1)
        return spread(texts, words, self.weight, len(rows))

    def accuracy(self, rows, labels):
        """Returns the share of the texts, 0 to 1, that are classified correctly."""
        return float(np.mean(self.predict(rows) == check_labels(rows, labels, self.weight.shape[1])))

    def loss(self, rows, labels):
        """Returns the mean cross-entropy of the texts, in nats."""
        labels = check_labels(rows, labels, self.weight.shape[1])
        z = self.logits(rows)
        z -= z.max(1, keepdims=True)
        return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), labels]))


def word_sets(rows, vocab_size):
    """Returns (texts, words) with one entry for each distinct word of each text; the bias is a word of every text."""
    if not len(rows):
        raise ValueError("there are no texts to classify; pass at least 1")
    for i, row in enumerate(rows, 1):
        if len(row) and np.asarray(row).dtype.kind not in "iu":
            raise ValueError(f"text {i:,} has dtype {np.asarray(row).dtype}, but ids are whole numbers; encode the "
                             "texts with a tokenizer")
    ids = np.concatenate([np.asarray(row, np.int64) for row in rows])
    if len(ids) and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError(f"the ids of the texts range from {ids.min()} to {ids.max()}, but must be at least 0 and "
                         f"below vocab_size = {vocab_size}; pass the vocab_size of their tokenizer")
    texts = np.repeat(np.arange(len(rows), dtype=np.int64), [len(row) for row in rows])
    texts = np.append(texts, np.arange(len(rows)))
    ids = np.append(ids, np.full(len(rows), vocab_size))
    pairs = np.sort(texts * (vocab_size + 1) + ids)         # np.unique would take ten times as long
    texts, words = np.divmod(pairs[np.append(True, pairs[1:] != pairs[:-1])], vocab_size + 1)
    return texts.astype(np.intp), words.astype(np.intp)


def spread(to, source, values, count):
    """Returns (count, K), where row n is the sum of values[s] over the pairs (n, s) of `to` and `source`."""
    return np.stack([np.bincount(to, column[source], count) for column in values.T], 1)


def check_labels(rows, labels, num_classes):
    labels = np.asarray(labels)
    if labels.shape != (len(rows),) or not len(rows):
        raise ValueError(f"there are {counted(len(rows), 'text')} but labels of shape {labels.shape}; give at least 1 "
                         "text and one label for each")
    is_whole = labels.dtype.kind in "iu"
    if not is_whole or not 0 <= labels.min() <= labels.max() < num_classes:
        raise ValueError(f"the labels, {labels.dtype} from {min(labels)} to {max(labels)}, must be whole numbers of at "
                         f"least 0 and below num_classes = {num_classes}; number the classes from 0")
    return labels


def minimize(texts, words, targets, weight, l2):
    """Returns the weights (num_words, K) with the lowest objective, searched from `weight`; targets (N, K) are one-hot."""
    def forward(weight):
        logits = spread(texts, words, weight, len(targets))
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(1, keepdims=True)
        return p / total, np.log(total).sum() - (logits * targets).sum() + l2 / 2 * (weight * weight).sum()

    def backward(dlogits, weight):
        return spread(words, texts, dlogits, len(weight)) + l2 * weight

    def hessian_times(v):
        u = spread(texts, words, v, len(targets))
        return backward(p * (u - (p * u).sum(1, keepdims=True)), v)

    p, value = forward(weight)
    gradient = backward(p - targets, weight)
    while abs(gradient).max() > TOLERANCE * len(targets):
        diagonal = backward(p * (1 - p), np.ones_like(weight))
        step = conjugate_gradients(hessian_times, -gradient, diagonal)
        slope = (step * gradient).sum()                 # negative, because the Hessian is positive definite
        new_p, new_value = forward(weight + step)
        while new_value > value + 1e-4 * slope:         # backtracking line search
            step, slope = step / 2, slope / 2
            if -slope < 1e-15 * value:                  # the rest is rounding error: this is the minimum
                return weight
            new_p, new_value = forward(weight + step)
        weight = weight + step
        p, value = new_p, new_value
        gradient = backward(p - targets, weight)
    return weight


def conjugate_gradients(hessian_times, b, diagonal):
    """Solves H x = b approximately, preconditioned by the diagonal of H; more precisely for smaller b."""
    x = np.zeros_like(b)
    residual = b
    direction = z = residual / diagonal
    square = (residual * z).sum()
    target = square * min(0.0625, abs(b).max() / 100)
    for _ in range(b.size):                             # exact arithmetic needs at most this many steps
        if square <= target:
            break
        image = hessian_times(direction)
        rate = square / (direction * image).sum()
        x = x + rate * direction
        residual = residual - rate * image
        z = residual / diagonal
        last_square = square
        square = (residual * z).sum()
        direction = z + square / last_square * direction
    return x
