"""Ends the loops of known mistakes that never end when they are combined."""

import ast

MOST_STEPS = 2000                               # of all loops of a known mistake in one case


class Steps:
    """Counts the steps of all loops, and raises an error when there are too many."""

    def __init__(self):
        self.left = MOST_STEPS

    def count(self):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError(f"a loop takes more than {MOST_STEPS} steps")


def with_counted_loops(source):
    """Returns a source whose loops call count_step at each step, as a syntax tree; one without loops as it is."""
    if "for " not in source and "while " not in source:
        return source
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)):
            node.body.insert(0, ast.parse("count_step()").body[0])
        elif isinstance(node, ast.comprehension):
            node.ifs.insert(0, ast.parse("count_step() is None", mode="eval").body)
    return ast.fix_missing_locations(tree)
