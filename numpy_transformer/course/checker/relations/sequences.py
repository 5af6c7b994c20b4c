"""Relations of whole numbers and booleans: sequences that are cut or too long, numbers off by one, one direction."""

import numpy as np

from ....texts import Message


def sequence(pairs):
    """A sequence that is cut, or has extra entries, at its beginning or its end."""
    if pairs[0].kind not in "i" or not all(p.wrong.ndim == p.right.ndim == 1 for p in pairs):
        return None
    for key, fits in ENDS.items():
        counts = [fits(p.wrong, p.right) for p in pairs]
        if all(counts):
            least, most = min(counts), max(counts)
            entries = Message("relations.entries.exactly", n=most)
            if least < most:
                entries = Message("relations.entries.between", least=least, most=most)
            argument = known_entries(pairs, counts) if key.startswith("extra") else ""
            if argument:
                return Message(f"relations.sequence.{key}_known", entries=entries, argument=argument)
            return Message(f"relations.sequence.{key}", entries=entries)
    return None


def cut_end(w, r):
    return len(r) - len(w) if len(w) < len(r) and np.array_equal(w, r[:len(w)]) else 0


def cut_start(w, r):
    return len(r) - len(w) if len(w) < len(r) and np.array_equal(w, r[len(r) - len(w):]) else 0


ENDS = {"lacks_end": cut_end, "lacks_beginning": cut_start, "extra_end": lambda w, r: cut_end(r, w),
        "extra_beginning": lambda w, r: cut_start(r, w)}


def known_entries(pairs, counts):
    """Returns the argument, such as eos, that the extra entries are in every case, or ""."""
    for name in pairs[0].scalars:
        for extra in (lambda p, n: p.wrong[:n], lambda p, n: p.wrong[len(p.wrong) - n:]):
            if all((extra(p, n) == p.scalars.get(name)).all() for p, n in zip(pairs, counts)):
                return name
    return ""


def moved(pairs):
    """A sequence that begins one entry too early or too late: bos kept and the end cut, or the reverse."""
    if pairs[0].kind != "i" or not all(p.wrong.ndim == 1 and p.same_shape and p.right.size > 1 for p in pairs):
        return None
    if all(np.array_equal(p.wrong[1:], p.right[:-1]) for p in pairs):
        return Message("relations.sequence.later")
    if all(np.array_equal(p.wrong[:-1], p.right[1:]) for p in pairs):
        return Message("relations.sequence.earlier")
    return None


def off_by_one(pairs):
    """Whole numbers of which some are too large or too small by one."""
    if pairs[0].kind != "i" or not all(p.same_shape and p.right.size for p in pairs):
        return None
    differences = np.concatenate([np.ravel(p.wrong - p.right) for p in pairs])
    values = set(differences.tolist())
    large = max(np.ptp(p.right) for p in pairs) > 3 and np.count_nonzero(differences) > 3
    if large and len(differences) > 5 and values <= {0, 1}:
        return Message("relations.sequence.too_large")
    if large and len(differences) > 5 and values <= {0, -1}:
        return Message("relations.sequence.too_small")
    return None


def one_sided(pairs):
    """Booleans that are wrong in one direction only."""
    if pairs[0].kind != "b" or not all(p.same_shape and p.right.size > 1 for p in pairs):
        return None
    wrong = np.concatenate([p.wrong[p.bad] for p in pairs])
    if len(wrong) > 2 and wrong.all():
        return Message("relations.sequence.all_true")
    if len(wrong) > 2 and not wrong.any():
        return Message("relations.sequence.all_false")
    return None


def same_beginning(pairs):
    """Texts that are correct up to a place and then differ."""
    if pairs[0].kind != "i" or not all(p.wrong.ndim == p.right.ndim == 1 and p.right.size for p in pairs):
        return None
    if any(p.right.size < 3 or not p.wrong.size for p in pairs):
        return None
    first = [first_difference(p.wrong, p.right) for p in pairs]
    if min(first) > 0 and all(n < min(p.wrong.size, p.right.size) for n, p in zip(first, pairs)):
        if len(set(first)) == 1:
            return Message("relations.sequence.correct_up_to", last=first[0] - 1, first=first[0])
    return None


def first_difference(w, r):
    n = min(len(w), len(r))
    different = np.flatnonzero(w[:n] != r[:n])
    return int(different[0]) if different.size else n
