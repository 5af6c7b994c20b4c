"""The parts of a model, found by walking attributes and lists."""

from collections.abc import Iterator
from typing import Any

from .parameter import Parameter


def named_parts(root: Any) -> list[tuple[str, Any]]:
    """Returns a list of (dotted name, part) for root and for each module and parameter below it, each once.

    Attributes and lists are visited in the order in which they were set. Any object with `forward` and `backward`
    counts as a module, and any object with `.data` and `.grad` as a parameter, so classes that do not use this package
    work too. Attributes whose names begin with an underscore are skipped.
    """
    parts = []
    seen = set()

    def walk(name, part):
        if isinstance(part, (list, tuple)):
            for index, item in enumerate(part):
                walk(f"{name}.{index}" if name else str(index), item)
        elif id(part) not in seen and (is_parameter(part) or is_module(part)):
            seen.add(id(part))
            parts.append((name, part))
            if not is_parameter(part):
                for key, value in vars(part).items():
                    if not key.startswith("_"):
                        walk(f"{name}.{key}" if name else key, value)

    walk("", root)
    return parts


def parts_with_loss(root: Any) -> list[Any]:
    """Returns the modules below root that add the gradient of a loss of their own in backward, their `auxiliary_loss`."""
    return [part for _, part in named_parts(root) if is_module(part) and hasattr(part, "auxiliary_loss")]


def is_module(part: Any) -> bool:
    """Returns True for a Module, and for any other object that has the methods forward and backward."""
    if isinstance(part, type) or not hasattr(part, "__dict__"):
        return False
    return callable(getattr(part, "forward", None)) and callable(getattr(part, "backward", None))


def is_frozen(parameter: Any) -> bool:
    """Returns True for a parameter that training leaves as it is; parameters of other classes are never frozen."""
    return getattr(parameter, "frozen", False)


def is_parameter(part: Any) -> bool:
    """Returns True for a Parameter, and for any other object that has .data and .grad."""
    if isinstance(part, Parameter):
        return True
    if isinstance(part, type) or is_module(part):
        return False
    return hasattr(part, "grad") and hasattr(part, "data")


def items_of(part: Any) -> Iterator[tuple[str, Any]]:
    """Yields (name, item) of the modules and parameters directly below a part, those in lists as "blocks.0"."""
    def flat(name, value):
        if isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                yield from flat(f"{name}.{index}", item)
        elif is_parameter(value) or is_module(value):
            yield name, value

    for key, value in vars(part).items():
        if not key.startswith("_"):
            yield from flat(key, value)
