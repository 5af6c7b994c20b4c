"""Other steps that the page sets beside its own: without a head, after a step of SGD, with a bug, with the other place of the norms.

A live page asks for them by their edits. A saved page of a small model contains what is different in them, so that its stories can be read offline.
"""

from urllib.parse import urlencode

import numpy as np

from ..models.stacks import Stack
from .possibilities import LARGEST_TRIED, title_of
from .wording import sentence

RATES = (0.3, 0.1, 0.03, 0.01, 0.001)           # the step takes the largest one that lowers the loss
CLEAR = 0.02                                    # share of the loss by which it must fall
SAME = 1e-12                                    # relative difference of losses that are the same


def comparisons(session):
    """Returns a list of {"name", "title", "edits"}: "head", "step", "bug" and "norm", as far as this model has them.

    They are found once, and kept with the example. For a large model, and for one that cannot be changed, nothing is sought; then
    the list has only what `find_comparison` was asked for.
    """
    example = session.example
    if "comparisons" not in vars(example):
        is_sought = session.can_edit and example.model.num_parameters() <= LARGEST_TRIED
        found = [find(session) for find in FINDERS.values()] if is_sought else []
        example.comparisons = [one for one in found if one is not None]
    return example.comparisons


def find_comparison(session, what):
    """Returns the comparison with a name: a key of FINDERS, another model for the same text, or a bug of the zoo that fits.

    Raises: ValueError with the possible names.
    """
    if not session.can_edit:
        raise ValueError(sentence("step.comparison.none"))
    known = {one["name"]: one for one in comparisons(session)}
    possible = session.possibilities()
    for kind in ("model", "bug"):
        for one in possible["can"].get("models", []) if kind == "model" else possible["bugs"]:
            known.setdefault(one["name"], entry(one["name"], one["title"], {"kind": kind, "name": one["name"]}))
    find = {**FINDERS, "norm": other_norm}.get(what)
    found = known.get(what) or (find and find(session))
    if found is None:
        names = [*FINDERS, *(one["name"] for one in possible["can"].get("models", [])), sentence("step.comparison.any_bug")]
        raise ValueError(sentence("step.comparison.unknown", what=what, names=", ".join(names)))
    if found not in session.example.comparisons:
        session.example.comparisons.append(found)               # the page finds it by its name
    return found


def address_of(comparison):
    """Returns what stands after the # in the address of a page that shows both steps side by side."""
    return urlencode({"compare": comparison["name"], "view": "hands-on", "two": "1"})


def entry(name, title, *edits):
    return {"name": name, "title": title, "edits": list(edits)}


def head(session):
    """Without the head that looks at another token, and whose target becomes less likely without it.

    It is the head with the largest product of a weight, of a query on a key that is neither its own token nor the first one,
    and the rise of the loss at that query when the head is switched off.
    """
    before = session.base.arrays.get("losses")
    best, largest = None, 0.0
    for attention in session.base.shown["attention"]:
        weights = session.base.arrays[attention["weights"]]
        group = attention["group"].removesuffix(".attention")
        titles = [part["title"] for part in session.possibilities()["can"].get("heads", []) if part["group"] == group]
        for number in range(weights.shape[1] if titles and before is not None else 0):
            edit = {"kind": "off", "what": "head", "group": group, "head": number}
            looks = np.triu(np.ones(weights.shape[-2:]), 1) + np.eye(*weights.shape[-2:]) == 0
            looks[:, 0] = False
            if before.shape == weights.shape[::2]:          # a loss for each query
                after = session.edited("trial", [edit])[0].arrays["losses"]
                rise = np.nan_to_num(after - before).clip(0)
                size = float(((weights[:, number] * looks).max(-1) * rise).max())
                if size > largest:
                    largest, best = size, entry("head", sentence("step.comparison.head", head=number, title=titles[0]), edit)
    return best


def step(session):
    """After one step of SGD, with a learning rate at which the loss falls."""
    for lr in RATES:
        edit = {"kind": "step", "optimizer": "sgd", "lr": lr}
        try:
            loss = session.edited("trial", [edit])[0].loss
        except ValueError:                      # it is not finite any more
            continue
        if loss < session.base.loss * (1 - CLEAR) or lr == RATES[-1]:
            return entry("step", sentence("step.comparison.step"), edit)
    return None


def bug(session):
    """With the bug of the largest wrong gradients among those that leave the loss as it was."""
    loss = session.base.loss
    hidden = [one for one in session.possibilities()["bugs"] if abs(one.get("change", np.inf)) <= SAME * abs(loss)]
    if not hidden:
        return None
    worst = max(hidden, key=lambda one: one["gradients"] if np.isfinite(one["gradients"]) else 0.0)
    return entry("bug", sentence("step.comparison.bug"), {"kind": "bug", "name": worst["name"]})


def norm(session):
    """With the norms at the other place, if there are several blocks whose gradients can be compared."""
    stacks = [part for _, part in session.example.model.named_modules() if isinstance(part, Stack)]
    return other_norm(session) if any(len(stack.blocks) > 1 for stack in stacks) else None


def other_norm(session):
    """Returns the comparison with the norms of all blocks at the other place, or None."""
    models = session.possibilities()["can"].get("models", [])
    found = next((one for one in models if one["name"].endswith("-norm")), None)
    return found and entry("norm", found["title"], {"kind": "model", "name": found["name"]})


FINDERS = {"head": head, "step": step, "bug": bug, "norm": norm}


def differences(base, document):
    """Returns what a document has that its base has not: other entries, the arrays that differ, and `without`, the refs that it lacks."""
    arrays = {ref: array for ref, array in document["arrays"].items() if array != base["arrays"].get(ref)}
    other = {key: value for key, value in document.items() if key != "arrays" and value != base.get(key)}
    return {**other, "arrays": arrays, "without": [ref for ref in base["arrays"] if ref not in document["arrays"]]}
