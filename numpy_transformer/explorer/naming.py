"""Titles and labels of what the graph consists of."""

import re

from ..texts import texts_of

STACKS = ("encoder", "decoder")
SEPARATORS = re.compile(r"(, | [+×] )")
ITEM = re.compile(r"((?:.*\.)?)(?:score_changes|parts)\.\d+")     # of an attention, of a Sequential
PART = re.compile(r"(.*?)((?: \d+)?(?: \(\d+\))?)")         # "block", " 0 (2)"


def spoken(title):
    """Returns a title or label in the chosen language. What has no name there, such as a parameter, stays as it is.

    Titles are made of the names of components: "block 0, norm1: y". What follows a colon is the name of an array.
    """
    parts, colon, array = title.partition(": ")
    return "".join(map(spoken_part, SEPARATORS.split(parts))) + colon + array


def spoken_part(part):
    name, number = PART.fullmatch(part).groups()
    return texts_of("explorer/step")["part"].get(name, name) + number


def title_of(graph, name):
    """Returns a title for a dotted name: "decoder.blocks.0.norm1.gamma" -> "block 0, norm1, gamma"."""
    name = name.replace(":", ".")
    change = ITEM.match(name)
    if change and (module := dict(graph.recording.model.named_modules()).get(change[0])):
        name = change[1] + spaced_class(module).replace(" ", "_") + name[change.end():]
    both = all(hasattr(graph.recording.model, stack) for stack in STACKS)
    words = [word for word in words_of(name) if both or word not in STACKS or word == name]
    return joined_words(words)


def joined_words(words):
    """Returns the words with commas, without a repetition such as "cross attention, attention"."""
    kept = []
    for word in filter(None, words):
        if not (kept and kept[-1].endswith(word)):
            kept.append(word)
    return ", ".join(kept)


def words_of(name):
    """"decoder.blocks.0.feed_forward" -> ["decoder", "block 0", "feed forward"]."""
    name = re.sub(r"(\w+?)s?\.(\d+)(?=\.|@|$)", r"\1 \2", name)
    name = re.sub(r"@(\d+)", r" (\1)", name)
    return name.replace("_", " ").split(".")


def label_of(name, module):
    """Returns the last word of a dotted name; what stands in a list has no name, so its class serves."""
    return spaced_class(module) if ITEM.fullmatch(name) else words_of(name)[-1]


def spaced_class(module):
    """PositionBias -> "position bias"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(module).__name__).lower()


def label_of_computation(computation):
    signs = {"add": "+", "multiply": "×"}
    return signs.get(computation.kind, computation.name.replace("_", " "))


def title_of_computation(graph, op, computation, labels):
    """Returns "block 0, x + attention" or "block 0, attention, query, split heads".

    Parameters: labels : {slot: label of the component that made this input, or ""}
    """
    if computation.kind in ("add", "multiply"):
        operands = [words_of(value.id)[-1] if value.kind == "parameter" else labels[slot] or "x"
                    for slot, value in computation.inputs.items()]
        words = [f" {op.label} ".join(operands)]
    else:
        words = [*filter(None, labels.values()), op.label] if computation.kind == "reshape" else [op.label]
    return joined_words([*title_of(graph, op.parent).split(", "), *words])
