"""Relations of whole numbers and booleans: sequences that are cut or too long, numbers off by one, one direction."""

import numpy as np


def sequence(pairs):
    """A sequence that is cut, or has extra entries, at its beginning or its end."""
    if pairs[0].kind not in "i" or not all(p.wrong.ndim == p.right.ndim == 1 for p in pairs):
        return ""
    for words, fits in ENDS:
        found = [fits(p.wrong, p.right) for p in pairs]
        if all(found):
            least, most = min(found), max(found)
            count = str(most) if most == least else f"{least} to {most}"
            count += " entry" if count == "1" else " entries"
            return words.format(count=count, what=known_entries(pairs, found))
    return ""


def cut_end(w, r):
    return len(r) - len(w) if len(w) < len(r) and np.array_equal(w, r[:len(w)]) else 0


def cut_start(w, r):
    return len(r) - len(w) if len(w) < len(r) and np.array_equal(w, r[len(r) - len(w):]) else 0


ENDS = (
    ("is the correct sequence, but lacks {count} at its end", cut_end),
    ("is the correct sequence, but lacks {count} at its beginning", cut_start),
    ("is the correct sequence, followed by {count} too many{what}", lambda w, r: cut_end(r, w)),
    ("is the correct sequence, with {count} too many in front of it{what}", lambda w, r: cut_start(r, w)),
)


def known_entries(pairs, counts):
    """Says that the extra entries are an argument such as eos, if they are in every case."""
    for name in pairs[0].scalars:
        for extra in (lambda p, n: p.wrong[:n], lambda p, n: p.wrong[len(p.wrong) - n:]):
            if all((extra(p, n) == p.scalars.get(name)).all() for p, n in zip(pairs, counts)):
                return f": {name}"
    return ""


def moved(pairs):
    """A sequence that begins one entry too early or too late: bos kept and the end cut, or the reverse."""
    if pairs[0].kind != "i" or not all(p.wrong.ndim == 1 and p.same_shape and p.right.size > 1 for p in pairs):
        return ""
    if all(np.array_equal(p.wrong[1:], p.right[:-1]) for p in pairs):
        return "is the correct sequence moved by one place: one more entry in front, and the last one is lost"
    if all(np.array_equal(p.wrong[:-1], p.right[1:]) for p in pairs):
        return "is the correct sequence moved by one place: the first entry is lost, and there is one more at the end"
    return ""


def off_by_one(pairs):
    """Whole numbers of which some are too large or too small by one."""
    if pairs[0].kind != "i" or not all(p.same_shape and p.right.size for p in pairs):
        return ""
    differences = np.concatenate([np.ravel(p.wrong - p.right) for p in pairs])
    values = set(differences.tolist())
    large = max(np.ptp(p.right) for p in pairs) > 3
    if large and len(differences) > 5 and values <= {0, 1}:
        return "is too large by 1 wherever it is wrong"
    if large and len(differences) > 5 and values <= {0, -1}:
        return "is too small by 1 wherever it is wrong"
    return ""


def one_sided(pairs):
    """Booleans that are wrong in one direction only."""
    if pairs[0].kind != "b" or not all(p.same_shape and p.right.size > 1 for p in pairs):
        return ""
    wrong = np.concatenate([p.wrong[p.bad] for p in pairs])
    if len(wrong) > 2 and wrong.all():
        return "has wrong entries in one direction only: all of them are True and should be False"
    if len(wrong) > 2 and not wrong.any():
        return "has wrong entries in one direction only: all of them are False and should be True"
    return ""


def same_beginning(pairs):
    """Texts that are correct up to a place and then differ."""
    if pairs[0].kind != "i" or not all(p.wrong.ndim == p.right.ndim == 1 and p.right.size for p in pairs):
        return ""
    if any(p.right.size < 3 or not p.wrong.size for p in pairs):
        return ""
    first = [first_difference(p.wrong, p.right) for p in pairs]
    if min(first) > 0 and all(n < min(p.wrong.size, p.right.size) for n, p in zip(first, pairs)):
        if len(set(first)) == 1:
            return f"is correct up to entry {first[0] - 1} and wrong from entry {first[0]} on (counted from 0)"
    return ""


def first_difference(w, r):
    n = min(len(w), len(r))
    different = np.flatnonzero(w[:n] != r[:n])
    return int(different[0]) if different.size else n
