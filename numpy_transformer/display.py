"""How a module is shown: as a tree of its parts, as a table of its parameters, and as HTML in a notebook."""

from typing import Any

import numpy as np

from .tree import is_frozen, is_module, is_parameter, items_of, named_parts


class Displayed:
    """What `print`, notebooks and `summary` show of a module. A class changes what it says of itself in `extra_repr`."""

    def summary(self) -> str:
        """Returns a table of all parameters, one a line: name, shape and count, and at the end the total."""
        rows = [(name, str(p.data.shape), f"{p.data.size:,}") for name, p in self.named_parameters()]
        rows.append((f"total of {type(self).__name__}", "", f"{self.num_parameters():,}"))
        if any(map(is_frozen, self.parameters())):
            rows.append(("not frozen", "", f"{self.num_parameters(trained=True):,}"))
        name_width, shape_width, count_width = (max(map(len, column)) for column in zip(*rows))
        return "\n".join(f"{name:<{name_width}}  {shape:<{shape_width}}  {count:>{count_width}}"
                         for name, shape, count in rows)

    def __repr__(self) -> str:
        """Returns the tree of parts, one a line: name, class and settings. Equal blocks of a stack share a line."""
        return "\n".join([headline(self), *lines_below(self)])

    def _repr_html_(self) -> str:
        """Returns the tree of parts that a notebook shows, with the shapes and counts of their parameters."""
        from . import markup

        names = {id(part): name for name, part in named_parts(self)}
        return markup.tree(*branch("", self, names))

    def extra_repr(self) -> str:
        """Returns what repr shows between the parentheses: by default public numbers, booleans and short strings."""
        shown = []
        for name, value in vars(self).items():
            simple = isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= 20)
            if simple and not name.startswith("_") and name not in ("training", "remembering"):
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


def title(part: Any) -> str:
    """Returns the class of a part with its settings in parentheses."""
    return f"{type(part).__name__}({own_settings(part)})"


def own_settings(part: Any) -> str:
    """Returns what a part says of itself: nothing before its constructor has made everything that it tells."""
    try:
        return part.extra_repr() if isinstance(part, Displayed) else ""
    except AttributeError:
        return ""


def headline(part: Any) -> str:
    """Returns the first line of repr: the class with its settings and, if other parts lie inside, its parameters."""
    settings = [own_settings(part)]
    if any(is_module(item) and item is not part for _, item in items_of(part)):
        settings.append(f"{count_of(part):,} parameters")
    return f"{type(part).__name__}({', '.join(filter(None, settings))})"


def lines_below(part: Any, above: tuple[Any, ...] = ()) -> list[str]:
    """Returns the lines of the modules below a part. Neighbors in a list that look the same are shown once.

    Parameters: above : the parts around this one, which are not shown again inside it
    """
    runs: list[list[Any]] = []                              # [name, number of the last one, its lines, how often]
    for name, item in items_of(part):
        if is_module(item) and not any(item is other for other in (*above, part)):
            shown = [title(item), *lines_below(item, (*above, part))]
            stem, _, number = name.rpartition(".")
            if runs and stem and runs[-1][0].startswith(f"{stem}.") and runs[-1][2] == shown:
                runs[-1][1:] = number, shown, runs[-1][3] + 1
            else:
                runs.append([name, number, shown, 1])
    lines = []
    for name, last, (first, *others), count in runs:
        label = f"{name}: {first}" if count == 1 else f"{name}-{last}: {count} x {first}"
        lines += [f"  {line}" for line in (label, *others)]
    return lines


def branch(name: str, part: Any, names: dict[int, str], label: str = "") -> tuple[str, str, list, list]:
    """Returns (title, note, rows of its own parameters, branches) of a part; `names` has the first names."""
    text = label + title(part)
    if names[id(part)] != name:
        return text, f"the same as {names[id(part)]}", [], []
    own = [(key, item) for key, item in items_of(part) if is_parameter(item)]
    rows = [[key, str(np.shape(item.data)), count_or_name(f"{name}.{key}" if name else key, item, names)]
            for key, item in own]
    branches = [branch(f"{name}.{key}" if name else key, item, names, f"{key}: ")
                for key, item in items_of(part) if is_module(item)]
    count = count_of(part)
    return text, f"{count:,} parameters" if count else "", rows, branches


def count_of(part: Any) -> int:
    """Returns the number of parameters of a part: single numbers, each counted once."""
    return sum(np.size(item.data) for _, item in named_parts(part) if is_parameter(item))


def count_or_name(name: str, parameter: Any, names: dict[int, str]) -> str:
    """Returns the number of entries of a parameter, or says where it has been counted already."""
    first = names.get(id(parameter), name)
    return f"{np.size(parameter.data):,}" if first == name else f"the same as {first}"
