"""One-edit variants of a program: other parentheses are among them, and the program is whole again afterwards."""

import ast

import pytest

from numpy_transformer.course.sandbox.inside.edits import edits


@pytest.mark.parametrize("wrong, right, kind", [
    ("p * d - t", "p * (d - t)", "grouping"), ("a / (b * d)", "a / b * d", "grouping"), ("a - b - d + t", "a - b - d * t", "operator")])
def test_missing_parentheses_and_a_sum_for_a_product_are_one_edit(wrong, right, kind):
    tree = ast.parse(f"def f(a, b, d, p, t):\n    return {wrong}\n")
    before = ast.dump(tree)
    wanted = ast.unparse(ast.parse(f"def f(a, b, d, p, t):\n    return {right}\n"))
    found = [edit.kind for edit in edits(tree, "f", insertions=True) if ast.unparse(tree) == wanted]
    assert found == [kind] and ast.dump(tree) == before
