"""The parts whose cost the benchmark measures: each changes what the model computes, and nothing else does."""

import numpy as np
import pytest

from numpy_transformer.bench import parts
from numpy_transformer.layers import SoftCap

IDS = np.random.default_rng(0).integers(0, parts.VOCAB, (1, parts.T))
LEARN_OTHERWISE = "z-loss", "Muon for the matrices", "two tokens predicted, one block more"


def test_the_plain_model_is_the_same_twice():
    (model, step), (_, plain_step) = parts.PARTS["nothing changed"](), parts.step_of(plain := parts.plain())
    step()
    plain_step()
    np.testing.assert_array_equal(model.eval()(IDS), plain.eval()(IDS))


@pytest.mark.parametrize("name", sorted(set(parts.PARTS) - {"nothing changed", "capped scores", *LEARN_OTHERWISE}))
def test_each_part_changes_the_logits(name):
    logits = parts.PARTS[name]()[0].eval()(IDS)
    assert np.isfinite(logits).all() and logits.shape == (1, parts.T, parts.VOCAB)
    assert abs(logits - parts.plain().eval()(IDS)).max() > 1e-4 * abs(logits).max()


def test_scores_are_capped_in_each_block():
    model, _ = parts.PARTS["capped scores"]()
    assert sum(isinstance(module, SoftCap) for _, module in model.named_modules()) == parts.LAYERS


@pytest.mark.parametrize("name", LEARN_OTHERWISE)
def test_some_change_what_is_learned(name):
    (model, step), (plain, plain_step) = parts.PARTS[name](), parts.PARTS["nothing changed"]()
    logits, expected = model.eval()(IDS), plain.eval()(IDS)
    assert logits.shape[-3:] == ((2, *expected.shape[1:]) if "two" in name else expected.shape)
    np.testing.assert_allclose(logits[:, 0] if "two" in name else logits, expected, rtol=1e-4, atol=1e-5)
    for module, train in ((model, step), (plain, plain_step)):
        module.train()
        train()
    after, same = model.state_dict(), plain.state_dict()
    assert any(not np.array_equal(after[key], value) for key, value in same.items() if key in after)


def test_a_row_has_the_ratio_of_times_measured_in_turns(monkeypatch):
    times = {"part": [3.0, 9.0, 9.0], "plain": [2.0, 3.0, 3.0]}
    monkeypatch.setattr(parts, "in_turns", lambda candidates, turn, rounds, advance: {name: times[name] for name in candidates})
    monkeypatch.setattr(parts, "timer", lambda step: step)
    row = parts.measure_part("capped scores", rounds=3)
    assert row["ratio"] == 3.0 and row["part_ms"] == 9.0 and row["plain_ms"] == 3.0 and row["parameters"] > 10_000
