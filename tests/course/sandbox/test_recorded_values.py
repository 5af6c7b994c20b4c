"""What runs beside a student's program: its expressions, fingerprints of their values, and the limit of memory."""

import ast
import sys
import textwrap

import numpy as np
import pytest

from numpy_transformer.course.sandbox.inside import fingerprints, instrumenting, limits, tracing
from numpy_transformer.course.sandbox.inside.fingerprints import fingerprint


def test_a_node_knows_what_feeds_it():
    source = textwrap.dedent("""
        def f(x, y):
            a = x * 2
            b = a.shape[0] * y
            for row in x:
                a = a + row
            c, d = a * b, -y
            c[0] += d
            return c, b
        """)
    tracer = tracing.Tracer(ast.parse(source), source)
    node = {found.text: i for i, found in enumerate(tracer.nodes)}
    assert node["x * 2"] in tracer.nodes[node["a + row"]].feeds
    assert node["a + row"] in tracer.nodes[node["a * b"]].feeds
    assert not {node["x * 2"], node["a + row"]} & tracer.nodes[node["a.shape[0] * y"]].feeds
    assert tracer.nodes[node["c[0] += d"]].feeds >= {node["a * b"], node["-y"]}
    assert tracer.roots("f", [], []) == [[9, [node["c[0] += d"]]], [9, [node["a.shape[0] * y"]]]]
    names = {instrumenting.SEEN: fingerprints.Recorder(), "np": np}
    exec(compile(instrumenting.instrumented(tracer), "f", "exec"), names)
    x, y = np.arange(6.0).reshape(3, 2), np.ones(2)
    c, b = names["f"](x, y)
    expected = (x * 2 + x[0] + x[1] + x[2]) * 3
    expected[0] -= 1
    assert np.allclose(c, expected) and np.allclose(b, 3)


def test_fingerprints_are_linear_and_know_the_shape():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((3, 4))
    one, two = np.array(fingerprint(y)), np.array(fingerprint(2 * y))
    sums = fingerprints.PROJECTED
    assert np.allclose(two[sums:], 2 * one[sums:])
    assert fingerprint(y.T)[2:4] == [4, 3] and not np.allclose(fingerprint(y.T)[sums:], one[sums:])
    assert fingerprint("text") is None and fingerprint([y, y]) is None
    assert fingerprint([1, 2.0])[:3] == [fingerprints.KINDS.index("f"), 1, 2]


def test_memory_counts_as_limited_only_where_the_system_enforces_it(monkeypatch):
    """Where `are_enforced` is False, no edit is tried."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 20, 1 << 20))
    assert limits.are_enforced() == (sys.platform == "linux")
    monkeypatch.setattr(limits.sys, "platform", "darwin")
    assert not limits.are_enforced()
    monkeypatch.undo()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert not limits.are_enforced()
