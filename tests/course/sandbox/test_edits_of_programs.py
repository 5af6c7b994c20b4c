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


def test_a_parameter_that_a_method_reads_may_be_a_missing_factor():
    source = "class C:\n    def backward(self, dy):\n        self.beta.grad += dy.sum(0)\n        return dy * self.gamma.data + {}\n"
    tree, wanted = ast.parse(source.format("dy")), ast.unparse(ast.parse(source.format("dy * self.gamma.data")))
    found = [(edit.kind, edit.before) for edit in edits(tree, "C", insertions=True) if ast.unparse(tree) == wanted]
    assert found == [("factor", "dy")]
    afters = {edit.after for edit in edits(tree, "C", insertions=True) if edit.kind == "factor"}
    assert not any("* dy.sum" in after or "* self.gamma)" in after for after in afters)         # no methods, no parts of a name
