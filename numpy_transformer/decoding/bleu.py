"""Scores of finished translations against references: corpus BLEU and exact match."""

import math
import re
import string
from collections import Counter

ORDER = 4                                       # the longest n-grams that count
REWRITES = (("<skipped>", ""), ("-\n", ""), ("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
SYMBOLS = re.escape("".join(c for c in string.punctuation if c not in "'-,."))
SPLITS = (                                      # applied in this order: later rules see the spaces of earlier ones
    (f"([{SYMBOLS}])", r" \1 "),
    ("([^0-9])([.,])", r"\1 \2 "),
    ("([.,])([^0-9])", r" \1 \2"),
    ("([0-9])(-)", r"\1 \2 "),
)


def tokenize(text):
    """Returns the words of a text as mteval-v13a splits it.

    Punctuation becomes a word of its own, except for apostrophes, periods and commas between digits, and most hyphens.
    """
    text = text.rstrip()
    for old, new in REWRITES:
        text = text.replace(old, new)
    text = f" {text} "                          # gives a period at either end a neighbor that is not a digit
    for pattern, spaced in SPLITS:
        text = re.sub(pattern, spaced, text)
    return text.split()


def count_ngrams(words, n):
    """Returns a Counter of the n-grams."""
    return Counter(zip(*(words[i:] for i in range(n))))


def smoothed_precisions(matched, total):
    """Returns p_n = matched_n / total_n; the k-th n without a match gets p_n = 1 / (2^k total_n) instead."""
    precisions, credit = [], 1.0
    for m, t in zip(matched, total):
        credit = credit if m else credit / 2
        precisions.append((m or credit) / t)
    return precisions


def check_pairs(hypotheses, references):
    for name, texts in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{name} = {texts!r:.60} must be a list of strings; give each text as one string in it")
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses and {len(references)} references must have equal lengths; "
                         "give one reference for each hypothesis")
    if not len(hypotheses):
        raise ValueError("0 hypotheses and 0 references have no score; give at least 1 of each")


def corpus_bleu(hypotheses, references):
    """Returns corpus BLEU, from 0 to 100, of a list of texts against a list with one reference for each.

        BLEU = 100 BP exp(1/4 sum_n log p_n),  n = 1 to 4
        p_n  = matched n-grams of the hypotheses / all n-grams of the hypotheses
        BP   = 1 if c > r, else exp(1 - r/c),  where c and r count the words of all hypotheses and all references

    An n-gram is matched at most as often as it occurs in the reference. Counts are summed over the corpus before the
    division, so this is not a mean over sentences. BLEU is 0 if no word matches or no hypothesis has a 4-gram.

    Source: Papineni et al. 2002, sections 2.1.1 and 2.3; words as in NIST's mteval-v13a; zero counts as in Chen and
    Cherry 2014, smoothing 3. Equals the default of sacrebleu (Post 2018).
    """
    check_pairs(hypotheses, references)
    c = 0
    r = 0
    matched = [0] * ORDER
    total = [0] * ORDER
    for hypothesis, reference in zip(map(tokenize, hypotheses), map(tokenize, references)):
        c += len(hypothesis)
        r += len(reference)
        for n in range(1, ORDER + 1):
            ngrams = count_ngrams(hypothesis, n)
            matched[n - 1] += sum((ngrams & count_ngrams(reference, n)).values())
            total[n - 1] += sum(ngrams.values())
    if matched[0] == 0 or total[-1] == 0:
        return 0.0
    brevity = math.exp(min(0.0, 1 - r / c))
    return 100 * brevity * math.exp(sum(map(math.log, smoothed_precisions(matched, total))) / ORDER)


def exact_match(hypotheses, references):
    """Returns the fraction, from 0 to 1, of hypotheses that equal their reference in every character."""
    check_pairs(hypotheses, references)
    return sum(h == r for h, r in zip(hypotheses, references)) / len(hypotheses)
