"""The bugs of the zoo that belong to a stage: published mistakes in what the student writes there."""

import functools

from ... import zoo
from ..checker.comparison import matches
from ..exercises.observation import observe
from .package import with_bug

STAGE_OF = {"Softmax": 1, "CrossEntropyLoss": 1, "Linear": 2, "Embedding": 2, "LayerNorm": 3, "GELU": 4,
            "ScaledDotProductAttention": 5, "MultiHeadAttention": 6, "SelfAttention": 6, "CrossAttention": 6, "Block": 7,
            "Unembedding": 8, "LearnedPositionalEmbedding": 8, "Adam": 9, "AdamW": 9, "NoamSchedule": 9,
            "CausalLanguageModel": 10}          # class that has the bug: the stage in which students write it


def bugs_of(stage):
    """Returns the bugs of the zoo in what students write in this stage."""
    return [bug for bug in zoo.bugs() if STAGE_OF.get(bug.target.__name__) == stage]


def observations(answer_key, bug):
    """Returns what a bug of the zoo does in the main cases of a part, or None if it cannot occur there or changes nothing."""
    part = answer_key.exercise
    if part.drives is None and part.name not in ("softmax", "softmax_backward"):
        return None
    try:
        target = with_bug(part, bug)
        observed = [observe(part, target, case) for case in answer_key.main_cases]
    except (KeyError, TypeError):               # the part has nothing of what the bug is in
        return None
    if all(one.error for one in observed) or matches(observed, answer_key.expected):
        return None
    return observed


@functools.cache
def shown_by(stage, keys):
    """Returns {bug: (number of a part, its observations)} of the bugs that the cases of these answer keys show.

    Parameters:
        keys : tuple of the AnswerKeys of the stage's parts
    """
    shown = {}
    for bug in bugs_of(stage):
        for i, key in enumerate(keys):
            observed = observations(key, bug)
            if observed is not None:
                shown.setdefault(bug, (i, observed))
    return shown


def named(stage, keys, i, answers):
    """Returns the bugs of the zoo that give these answers to part i in every case."""
    return [bug for bug in bugs_of(stage)
            if (observed := observations(keys[i], bug)) is not None and matches(observed, answers)]
