"""Mixtures of experts in the explorer: who gets which tokens, idle experts, and losses that components add."""

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.explorer.batched_nudges import NotIndependent, RepeatedStep
from numpy_transformer.explorer.document import make_step

IDS = np.array([[3, 1, 4, 1]])
PLACE = "decoder.blocks.0.feed_forward"


@pytest.fixture(scope="module")
def step():
    """A step in which all tokens choose the experts 0 and 2, in this order; the loss has two parts."""
    model = nt.CausalLanguageModel(9, 8, 2, 1, 12, max_len=8, rng=0)
    router = nt.Router(8, 4, 2, bias=True, rng=1)
    router.linear.bias.data = [9, -9, 6, -6]
    model.decoder.blocks[0].feed_forward = nt.MixtureOfExperts(nt.BalancedRouter(router, 0.5),
                                                               [nt.SwiGLU(8, 6, rng=n) for n in range(4)])
    return make_step(model, IDS, np.roll(IDS, -1), nt.CrossEntropyLoss())


def test_experts_with_tokens_are_groups_and_others_have_gradients_of_0(step):
    assert [name for name in step.groups if name.startswith(f"{PLACE}.experts")] == [f"{PLACE}.experts.0", f"{PLACE}.experts.2"]
    for e in range(4):
        weight = step.values[f"{PLACE}.experts.{e}.up.weight"]
        assert bool(weight.consumers) == bool(np.any(weight.gradient)) == (e in (0, 2))
    assert step.values[f"{PLACE}:tokens2"].array.tolist() == [0, 1, 2, 3]
    assert not any(op.kind == "own code" for op in step.ops.values())


def test_the_loss_of_the_step_contains_the_balancing_loss(step):
    model = step.recording.model
    plain = step.recording.criterion(model(IDS), np.roll(IDS, -1))
    own = step.values[f"{PLACE}.router.balancing_loss:y"]
    assert own.gradient == 1 and own.array > 0.4                # E f P is about 2, and at least 1, as f and P have one order
    assert step.loss == pytest.approx(plain + own.array, rel=1e-14) and step.graph.loss.id == "total_loss:y"
    assert step.document()["loss"] == step.loss


def test_a_nudge_of_the_router_moves_both_losses(step):
    """The bias of an expert that no token chooses has a gradient through the balancing loss alone."""
    bias = step.values[f"{PLACE}.router.router.linear.bias"]
    numeric = [(step.loss_with(bias.id, (e,), 1e-5) - step.loss_with(bias.id, (e,), -1e-5)) / 2e-5 for e in range(4)]
    np.testing.assert_allclose(numeric, bias.gradient, rtol=1e-6, atol=1e-10)
    assert bias.gradient[1] < 0 and bias.gradient[3] < 0


def test_tokens_are_rows_for_the_router(step):
    logits = step.values[f"{PLACE}.router.router.linear:y"]
    assert logits.array.shape == (4, 4) and [axis["name"] for axis in logits.axes] == ["token", "expert"]


def test_copies_of_a_step_are_not_computed_at_once_where_their_tokens_are_rows():
    """A router and an expert see the tokens of all copies as one array, which has no axis for the copies."""
    model = nt.CausalLanguageModel(9, 8, 2, 1, 12, max_len=8, rng=0)
    model.decoder.blocks[0].feed_forward = nt.MixtureOfExperts(nt.Router(8, 2, 2, rng=1), [nt.SwiGLU(8, 6, rng=n) for n in range(2)])
    step = make_step(model, IDS, np.roll(IDS, -1), nt.CrossEntropyLoss())
    for name in (f"{PLACE}.router.linear.weight", f"{PLACE}.experts.1.up.weight"):
        with pytest.raises(NotIndependent):
            RepeatedStep(step).losses(step.values[name], np.array([0, 1]), np.array([1e-3, 1e-3]))
