"""BLEU and exact match: worked examples, invariances, and sacrebleu as a second opinion."""

import math
import random

import pytest

from numpy_transformer.decoding.bleu import corpus_bleu, exact_match, tokenize


def close(expected):
    return pytest.approx(expected, rel=1e-12)


def random_pairs(rng, pieces, count):
    """Hypotheses, and references that differ from them in a few replaced, dropped or added pieces."""
    hypotheses, references = [], []
    for _ in range(count):
        one = rng.choices(pieces, k=rng.choice([0, 3, 8, 25]))
        other = list(one)
        for _ in range(rng.randrange(4)):
            start = rng.randrange(len(other) + 1)
            other[start:start + rng.randrange(3)] = rng.choices(pieces, k=rng.randrange(3))
        one, other = rng.sample([one, other], 2)
        hypotheses.append("".join(one))
        references.append("".join(other))
    return hypotheses, references


WORDS = ["a ", "b ", "c ", "d ", "e ", "f "]


@pytest.mark.parametrize("hypothesis, reference, brevity, precisions", [
    # the, cat, on, the, mat of 6; the cat, on the, the mat of 5; on the mat of 4; none of 3: half a match
    ("the cat sat on the mat", "the cat is on the mat", 1, [5 / 6, 3 / 5, 1 / 4, 1 / (2 * 3)]),
    # clipped: 7 the, but the reference has 2; then three zeros in a row: 1/2, 1/4 and 1/8 of a match
    ("the the the the the the the", "the cat is on the mat", 1, [2 / 7, 1 / (2 * 6), 1 / (4 * 5), 1 / (8 * 4)]),
    # clipped the other way: 1 the, though the reference has 2; 4 words against 6
    ("the cat is on", "the cat is on the mat", math.exp(1 - 6 / 4), [1, 1, 1, 1]),
    # one word more than the reference: no brevity penalty, but lower precisions
    ("a b c d e", "a b c d", 1, [4 / 5, 3 / 4, 2 / 3, 1 / 2]),
    # every word but no pair, and 5 words against 6
    ("e d c b a", "a b c d e e", math.exp(1 - 6 / 5), [1, 1 / (2 * 4), 1 / (4 * 3), 1 / (8 * 2)]),
])
def test_one_pair_worked_out_by_hand(hypothesis, reference, brevity, precisions):
    assert corpus_bleu([hypothesis], [reference]) == close(100 * brevity * math.prod(precisions) ** (1 / 4))


def test_a_corpus_worked_out_by_hand_is_not_the_mean_of_its_sentences():
    hypotheses, references = ["a b c d", "g h i j k l"], ["a b c d e f", "g h i j"]
    # 4 + 4 of 4 + 6 words match, 3 + 3 of 3 + 5 pairs, 2 + 2 of 2 + 4, 1 + 1 of 1 + 3; 10 words against 10: BP = 1
    expected = 100 * (8 / 10 * 6 / 8 * 4 / 6 * 2 / 4) ** (1 / 4)
    assert expected == close(66.87403049764221) and corpus_bleu(hypotheses, references) == close(expected)
    first, second = 100 * math.exp(1 - 6 / 4), 100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** (1 / 4)
    assert corpus_bleu(hypotheses[:1], references[:1]) == close(first)
    assert corpus_bleu(hypotheses[1:], references[1:]) == close(second)
    assert abs(expected - (first + second) / 2) > 10


def test_an_ngram_is_matched_in_its_own_reference_and_within_its_own_text():
    # 1 of 8 words, x, is in its own reference; b c and f g would be pairs across the boundary between two texts
    hypotheses, references = ["a x c d", "e f g h"], ["x e f g h", "a c d"]
    assert corpus_bleu(hypotheses, references) == close(
        100 * (1 / 8 * 1 / (2 * 6) * 1 / (4 * 4) * 1 / (8 * 2)) ** (1 / 4))


def test_texts_under_4_words_count_only_in_a_longer_corpus():
    assert corpus_bleu(["a b c"], ["a b c"]) == 0.0
    assert corpus_bleu(["a b c"] * 9, ["a b c"] * 9) == 0.0
    # with 5 words more: 7 of 8 words match, 5 of 6 pairs, 3 of 4 triples, 1 of 2 quadruples
    assert corpus_bleu(["a b c", "d e f g h"], ["a b c", "d e f g i"]) == close(
        100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** (1 / 4))


@pytest.mark.parametrize("hypothesis, reference", [
    ("", "a b c d e"), ("", ""), (" \n", "a b c d"), ("a b c d e", ""), ("a b c d e", "f g h i j"), ("a", "a"),
    ("A B C D E", "a b c d e"),                                     # case counts
])
def test_no_match_or_no_4_gram_gives_0(hypothesis, reference):
    assert corpus_bleu([hypothesis], [reference]) == 0.0


def test_an_empty_hypothesis_counts_the_words_of_its_reference():
    assert corpus_bleu(["a b c d", ""], ["a b c d", "e f"]) == close(100 * math.exp(1 - 6 / 4))
    assert corpus_bleu(["a b c d", ""], ["a b c d", "e " * 4000]) == 0.0          # exp(-1000) is 0 in float64


@pytest.mark.parametrize("seed", range(5))
def test_invariances(seed):
    rng = random.Random(seed)
    hypotheses, references = random_pairs(rng, WORDS, 12)
    score = corpus_bleu(hypotheses, references)
    assert 20 < score < 100 and corpus_bleu(references, references) == close(100)
    pairs = list(zip(hypotheses, references))
    rng.shuffle(pairs)
    assert corpus_bleu(*zip(*pairs)) == close(score)                # the order of the pairs
    assert corpus_bleu(hypotheses * 3, references * 3) == close(score)
    names = str.maketrans("abcdef", "éß日fab")
    renamed = [[text.translate(names) for text in texts] for texts in (hypotheses, references)]
    assert corpus_bleu(*renamed) == close(score)                    # only equality of words counts
    assert corpus_bleu([f"  {text}\t\n" for text in hypotheses], references) == close(score)
    assert corpus_bleu(hypotheses, [text.replace(" ", "\u3000 ") for text in references]) == close(score)
    assert corpus_bleu(hypotheses + ["x y z x y"], references + ["u v w u v"]) < score


@pytest.mark.parametrize("text, words", [
    ("", ""),
    (" two  words\t", "two words"),
    ("one\ntwo\u00a0three\u3000four", "one two three four"),        # any whitespace, including non-ASCII
    ("Ab aB", "Ab aB"),                                             # case is kept
    ("a!b\"c#d$e%f&g", "a ! b \" c # d $ e % f & g"),               # ASCII symbols stand alone ...
    ("a(b)c*d+e/f:g;h<i=j>k?l@m", "a ( b ) c * d + e / f : g ; h < i = j > k ? l @ m"),
    ("a[b\\c]d^e_f`g{h|i}j~k", "a [ b \\ c ] d ^ e _ f ` g { h | i } j ~ k"),
    ("??", "? ?"),
    ("don't 'so' it's", "don't 'so' it's"),                         # ... but an apostrophe does not,
    ("well-known -x a-1 -", "well-known -x a-1 -"),                 # nor a hyphen,
    ("9-to-5 1990-2000", "9 - to-5 1990 - 2000"),                   # unless it follows a digit
    ("1,000.5 3.14", "1,000.5 3.14"),                               # . and , between two digits stay
    ("a.b,c", "a . b , c"),
    ("5.a a.5 5. .5", "5 . a a . 5 5 . . 5"),                       # one digit is not enough
    (",5", ", 5"),
    ("5,", "5 ,"),
    ("wait... 1..2", "wait . . . 1 . . 2"),
    ("1...2", "1 . . .2"),                                          # 13a's own: matches of a rule do not overlap
    ("(1.5)", "( 1.5 )"),
    ("1.-2", "1 . -2"),
    ("٣.٤ ٣.5 5.٣ ٣-a", "٣ . ٤ ٣ . 5 5 . ٣ ٣-a"),                   # digits are 0 to 9 only
    ("«é» — “x”… 日本。", "«é» — “x”… 日本。"),                       # beyond ASCII nothing is split
    ("&quot;a&quot; &lt;b&gt; c&amp;d", "\" a \" < b > c & d"),     # entities
    ("&amp;lt; &amp;quot;", "< & quot ;"),                          # in the order quot, amp, lt, gt
    ("&#39; &apos;", "& # 39 ; & apos ;"),                          # no others
    ("a <skipped> b<skipped>c", "a bc"),
    ("hyphen-\nated", "hyphenated"),                                # a word broken over two lines is joined
    ("a-<skipped>\nb", "ab"),
    ("a-\r\nb", "a- b"),
    ("a-\n \t", "a-"),                                              # trailing whitespace is removed first
])
def test_words_are_those_of_13a(text, words):
    assert tokenize(text) == words.split(" ") * bool(words)


def test_both_sides_are_split_into_words():
    assert corpus_bleu(["He said: &quot;yes&quot;."], ["He said : \" yes \" ."]) == close(100)
    assert corpus_bleu(["He said : \" yes \" ."], ["He said: &quot;yes&quot;."]) == close(100)


def test_exact_match_counts_equal_texts():
    assert exact_match(["a", "b ", "C", ""], ["a", "b", "c", ""]) == 0.5
    assert exact_match(["a"], ["a"]) == 1 and exact_match(["a"], ["b"]) == 0


@pytest.mark.parametrize("score", [corpus_bleu, exact_match])
@pytest.mark.parametrize("hypotheses, references, error, match", [
    (["a", "b", "c"], ["a", "b"], ValueError, "3 hypotheses and 2 references .* one reference for each"),
    (["a"], [], ValueError, "1 hypotheses and 0 references"),
    ([], [], ValueError, "0 hypotheses and 0 references .* at least 1"),
    ("a b", ["a b"], TypeError, "hypotheses = 'a b' must be a list of strings"),
    (["a b"], [["a b"]], TypeError, r"references = \[\['a b'\]\] must be a list of strings"),
    (["a", None], ["a", "b"], TypeError, "hypotheses = .*None"),
])
def test_lists_that_do_not_fit_are_refused(score, hypotheses, references, error, match):
    with pytest.raises(error, match=match):
        score(hypotheses, references)


NASTY = [*WORDS * 3, "the ", "The ", "don't ", "9-to-5 ", "1,000.5 ", "3.14", ".", ",", "-", "'", "...", "7", "0",
         " ", "  ", "\t", "\n", "-\n", "\r\n", "\x85", "\x1c", "\u00a0", "\u3000", "\u2028", "\u200b", "\ufeff", "\0",
         "é", "e\u0301", "日本", "٣", "½", "—", "…", "“", "😀", "\ud800", "&", ";", "&quot;", "&amp;", "&lt;", "&gt;",
         "&amp;lt;", "&#39;", "<skipped>", "<", "[", "]", "\\", "^", "_", "`", "{", "|", "}", "~", "$", "%", "(", ")",
         "/", "@", "#", "!", "?"]


def test_equals_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    rng = random.Random(0)
    scores = []
    for n in range(400):
        pairs = random_pairs(rng, NASTY if n % 2 else WORDS + [".", ", ", "1"], rng.choice([1, 1, 2, 5]))
        scores.append(corpus_bleu(*pairs))
        assert scores[-1] == pytest.approx(sacrebleu.corpus_bleu(pairs[0], [pairs[1]]).score, abs=1e-9)
    assert sum(0 < score < 99 for score in scores) > 200
