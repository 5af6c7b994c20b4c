"""The parts whose cost the benchmark measures: each changes what the model computes, and nothing else does."""

import numpy as np
import pytest

from numpy_transformer.bench import parts

IDS = np.random.default_rng(0).integers(0, parts.VOCAB, (1, parts.T))


def test_the_plain_model_is_the_same_twice():
    np.testing.assert_array_equal(parts.PARTS["nothing changed"]()(IDS), parts.plain()(IDS))


@pytest.mark.parametrize("name", [name for name in parts.PARTS if name not in ("nothing changed", "capped scores")])
def test_each_part_changes_the_logits(name):
    logits = parts.PARTS[name]().eval()(IDS)
    assert np.isfinite(logits).all() and logits.shape == (1, parts.T, parts.VOCAB)
    assert abs(logits - parts.plain().eval()(IDS)).max() > 1e-3 * abs(logits).max()


def test_a_row_has_the_ratio_of_times_measured_in_turns(monkeypatch):
    times = {"part": [3.0, 9.0, 9.0], "plain": [2.0, 3.0, 3.0]}
    monkeypatch.setattr(parts, "in_turns", lambda candidates, turn, rounds, advance: {name: times[name] for name in candidates})
    monkeypatch.setattr(parts, "timer", lambda step: step)
    row = parts.measure_part("capped scores", rounds=3)
    assert row["ratio"] == 3.0 and row["part_ms"] == 9.0 and row["plain_ms"] == 3.0 and row["parameters"] > 10_000
