"""The parts whose cost the benchmark measures: each changes what the model computes, and nothing else does."""

import numpy as np
import pytest

from numpy_transformer.bench import parts
from numpy_transformer.layers import SoftCap

IDS = np.random.default_rng(0).integers(0, parts.VOCAB, (1, parts.T))
LEARN_OTHERWISE = {                         # what changes the training alone, with the part that computes the same
    "z-loss": "nothing changed", "Muon for the matrices": "nothing changed",
    "two tokens predicted, one block more": "nothing changed",
    "the same, with a balancing loss": "4 experts of half the width, 2 used"}
ELSEWHERE = {"nothing changed", "capped scores", *LEARN_OTHERWISE}


def test_the_plain_model_is_the_same_twice():
    (model, step), (_, plain_step) = parts.PARTS["nothing changed"](), parts.step_of(plain := parts.plain())
    step()
    plain_step()
    np.testing.assert_array_equal(model.eval()(IDS), plain.eval()(IDS))


def logits_of(name):
    return parts.PARTS[name]()[0].eval()(IDS)


@pytest.mark.parametrize("name", [name for name in parts.PARTS if name not in ELSEWHERE])
def test_each_part_changes_the_logits(name):
    logits, smallest = logits_of(name), 1e-4 if "bfloat16" in name else 1e-3
    assert np.isfinite(logits).all() and logits.shape == (1, parts.T, parts.VOCAB)
    assert abs(logits - parts.plain().eval()(IDS)).max() > smallest * abs(logits).max()


def test_similar_parts_differ():
    window, kept = "sliding window of T / 4", "window, 2 tokens kept"
    assert not np.allclose(logits_of(window), logits_of(kept), rtol=0.01)
    np.testing.assert_allclose(logits_of("latent attention"), logits_of("latent attention, absorbed"), rtol=1e-3, atol=1e-4)


def test_lora_alone_learns():
    model, step = parts.PARTS["LoRA on weights of 4 bits"]()
    before = model.state_dict()
    step()
    after = model.state_dict()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert len(changed) == 8 * parts.LAYERS and all(".attention." in name and name[-2:] in (".A", ".B") for name in changed)


def test_both_heads_learn():
    model, step = parts.PARTS["two tokens predicted, one block more"]()
    step()
    assert [all(parameter.grad.any() for parameter in head.parameters()) for head in model.decoder.heads] == [True, True]
    first, second = ([parameter.grad for parameter in head.parameters()] for head in model.decoder.heads)
    assert not any(np.allclose(a, b, rtol=0.1) for a, b in zip(first, second, strict=True))     # they have other targets


def test_scores_are_capped_in_each_block():
    model, _ = parts.PARTS["capped scores"]()
    assert sum(isinstance(module, SoftCap) for _, module in model.named_modules()) == parts.LAYERS


@pytest.mark.parametrize("name, other", LEARN_OTHERWISE.items())
def test_some_change_what_is_learned(name, other):
    (model, step), (same, same_step) = parts.PARTS[name](), parts.PARTS[other]()
    logits, expected = model.eval()(IDS), same.eval()(IDS)
    assert logits.shape == ((1, 2, *expected.shape[1:]) if "two" in name else expected.shape)
    np.testing.assert_allclose(logits[:, 0] if "two" in name else logits, expected, rtol=1e-4, atol=1e-5)
    for module, train in ((model, step), (same, same_step)):
        module.train()
        train()
    after, others = model.state_dict(), same.state_dict()
    assert any(not np.array_equal(after[key], value) for key, value in others.items() if key in after)


def test_a_row_has_the_ratio_of_times_measured_in_turns(monkeypatch):
    times = {"part": [3.0, 9.0, 9.0], "plain": [2.0, 3.0, 3.0]}
    monkeypatch.setattr(parts, "in_turns", lambda candidates, turn, rounds, advance: {name: times[name] for name in candidates})
    monkeypatch.setattr(parts, "timer", lambda step: step)
    row = parts.measure_part("capped scores", rounds=3)
    assert row["ratio"] == 3.0 and row["part_ms"] == 9.0 and row["plain_ms"] == 3.0 and row["parameters"] > 10_000
