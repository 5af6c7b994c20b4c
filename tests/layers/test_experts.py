"""Mixtures of experts: what is special about routers, dispatch and balance."""

import copy
import math

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.layers.balancing import balance_of, tokens_per_expert
from numpy_transformer.models.initialization import initialize

D, E, K, N = 6, 5, 2, 11


def mixture(router=None, shared=None, seed=0):
    router = router or nt.Router(D, E, K, rng=seed)
    return nt.MixtureOfExperts(router, [nt.SwiGLU(D, 7, rng=seed + n) for n in range(E)], shared).astype(np.float64)


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


class Classifier(nt.Module):
    """A mixture and an output layer, with a loss that can be differentiated by hand."""

    def __init__(self, layer):
        self.layer = layer
        self.output = nt.Linear(D, 3, rng=9).astype(np.float64)
        self.criterion = nt.CrossEntropyLoss()

    def loss(self, x, labels):
        return self.criterion(self.output(x + self.layer(x)), labels)

    def gradients(self, x, labels):
        self.forget()
        self.zero_grad()
        self.loss(x, labels)
        self.layer.backward(self.output.backward(self.criterion.backward()))
        return {name: parameter.grad.copy() for name, parameter in self.named_parameters()}


def test_gradients_are_those_of_the_loss_and_the_balancing_loss_together():
    balanced = nt.BalancedRouter(nt.Router(D, E, K, rng=0), 0.7)
    model, x, labels = Classifier(mixture(balanced)), numbers(N, D), np.arange(N) % 3
    gradients = model.gradients(x, labels)
    model.eval()
    for name, parameter in model.named_parameters():
        numeric = np.empty(parameter.data.shape)
        for i in np.ndindex(numeric.shape):
            values = []
            for step in (1e-6, -1e-6):
                parameter.data[i] += step
                values.append(model.loss(x, labels) + balanced.auxiliary_loss)
                parameter.data[i] -= step
            numeric[i] = (values[0] - values[1]) / 2e-6
        error = np.linalg.norm(gradients[name] - numeric) / max(np.linalg.norm(numeric), 1e-6)
        assert error < 1e-6, name


def test_the_balancing_loss_changes_only_the_router():
    plain, balanced = (Classifier(mixture(router)) for router in (
        nt.Router(D, E, K, rng=0), nt.BalancedRouter(nt.Router(D, E, K, rng=0), 0.7)))
    x, labels = numbers(N, D), np.arange(N) % 3
    one, other = plain.gradients(x, labels), balanced.gradients(x, labels)
    changed = [name for name in one if not np.allclose(one[name], other[name.replace("router.", "router.router.")], atol=1e-12)]
    assert changed == ["layer.router.linear.weight"]


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_the_loss_is_the_coefficient_if_all_experts_are_used_equally(factor):
    """The logits are large, so P is f: the loss is coefficient E sum f², which is smallest for equal f."""
    router = nt.Router(4, 4, 1).astype(np.float64)
    router.linear.weight.data = 50 * np.eye(4)
    balanced = nt.BalancedRouter(router, factor)
    balanced(np.eye(4))
    assert math.isclose(balanced.auxiliary_loss, factor, rel_tol=1e-9)
    balanced(np.eye(4)[[0, 0, 0, 0]])
    assert math.isclose(balanced.auxiliary_loss, 4 * factor, rel_tol=1e-9)
    balanced(np.eye(4)[[0, 0, 1, 2]])
    assert math.isclose(balanced.auxiliary_loss, 4 * factor * (1 / 4 + 1 / 16 + 1 / 16), rel_tol=1e-9)


class ForgetsItsLoss(nt.BalancedRouter):
    """It reports a loss whose gradient it does not add."""

    def backward(self, dg):
        self.recall()
        self.softmax.recall()
        self.router.linear.recall()
        return self.router.backward(dg)


def test_gradcheck_finds_a_loss_without_its_gradient():
    router = nt.Router(D, E, K, rng=0)
    assert nt.gradcheck(nt.BalancedRouter(router, 0.5), numbers(N, D)).ok
    report = nt.gradcheck(ForgetsItsLoss(router, 0.5), numbers(N, D))
    assert [row.tensor for row in report.rows if not row.ok] == ["x", "router.linear.weight"]
    assert nt.gradcheck(ForgetsItsLoss(router, 0.0), numbers(N, D)).ok


def test_an_expert_without_tokens_has_a_gradient_of_exactly_0():
    layer = mixture()
    x = numbers(40, D)
    idle = x[(layer.router.eval()(x) == 0)[:, 3]]
    layer.train()
    layer.zero_grad()
    layer(idle)
    layer.backward(numbers(*idle.shape, seed=2))
    assert tokens_per_expert(layer.router)[3] == 0 and len(idle) > 5
    used = [any(parameter.grad.any() for parameter in expert.parameters()) for expert in layer.experts]
    assert used == [True, True, True, False, True]


def test_no_token_is_dropped_if_all_choose_the_same_experts():
    layer = mixture()
    layer.router.linear.weight.data = np.zeros((D, E))          # equal logits: experts 0 and 1 are chosen
    x = numbers(N, D)
    wanted = (layer.experts[0].eval()(x) + layer.experts[1].eval()(x)) / 2
    np.testing.assert_allclose(layer.eval()(x), wanted, rtol=1e-13)
    assert tokens_per_expert(layer.router).tolist() == [N, N, 0, 0, 0]


def test_the_array_that_a_shared_expert_returns_is_not_changed():
    """Softmax remembers its output, so adding the experts' outputs to this array would change its gradient."""
    layer = mixture(shared=nt.Softmax())
    assert nt.gradcheck(layer, numbers(N, D), directions=3).ok


def test_routers_of_other_kinds_can_be_balanced():
    for router in (nt.SoftmaxRouter(D, E, 1, rng=0), nt.SigmoidRouter(D, E, K, 2.0, rng=0)):
        assert nt.gradcheck(mixture(nt.BalancedRouter(router, 0.3)), numbers(3, 4, D), directions=3).ok


# --- balance without a loss

def test_the_correction_rises_for_idle_experts_and_falls_for_busy_ones():
    router = nt.SigmoidRouter(D, 4, 2, rng=0)
    balancing = nt.BiasBalancing(nt.MixtureOfExperts(router, [nt.SwiGLU(D, 3) for _ in range(4)]), 0.25)
    router.chosen = np.array([[0, 1], [0, 1], [0, 2], [0, 3]])  # counts 4, 2, 1, 1; the mean is 2
    balancing.step()
    assert router.correction.data.tolist() == [-0.25, 0, 0.25, 0.25]
    balancing.step()
    assert router.correction.data.tolist() == [-0.5, 0, 0.5, 0.5]


def test_steps_of_the_correction_balance_a_router_that_does_not_learn():
    router = nt.SigmoidRouter(D, 8, 2, rng=3)
    balancing, x = nt.BiasBalancing(router, 0.01), np.float32(numbers(500, D) + 2)
    gates = router.eval()(x)
    before = balance_of(tokens_per_expert(router))
    for _ in range(200):
        router(x)
        balancing.step()
    assert before < 0.8 and balance_of(tokens_per_expert(router)) > 0.97
    assert not np.array_equal(router(x), gates) and router.correction.frozen


def test_gates_do_not_contain_the_correction():
    """It is raised so much for two experts that all tokens choose these; their gates are those of their scores."""
    router = nt.SigmoidRouter(D, 4, 2, 1.5, rng=0).astype(np.float64)
    router.correction.data = [0, 5, 0, 5]
    x = numbers(N, D)
    s = 1 / (1 + np.exp(-x @ router.linear.weight.data))[:, [1, 3]]
    np.testing.assert_allclose(router.eval()(x)[:, [1, 3]], 1.5 * s / s.sum(-1, keepdims=True), rtol=1e-13)


def test_what_cannot_be_balanced_is_named():
    with pytest.raises(ValueError, match="contains no SigmoidRouter"):
        nt.BiasBalancing(mixture())
    with pytest.raises(ValueError, match="has chosen no experts yet"):
        nt.BiasBalancing(nt.SigmoidRouter(D, E, K)).step()
    with pytest.raises(ValueError, match="at least 2 experts"):
        balance_of([7])
    with pytest.raises(ValueError, match="at least 2 experts"):
        balance_of([0, 0])
    with pytest.raises(TypeError, match="coefficient must be a number"):
        nt.BalancedRouter(nt.Router(D, E, K), None)


@pytest.mark.parametrize("counts, balance", [
    ([3, 3, 3, 3], 1), ([9, 0, 0, 0], 0), ([4, 0, 4, 0], 0.5), ([2, 1, 1], (0.5 * math.log(2) + 0.5 * math.log(4)) / math.log(3))])
def test_balance_is_the_entropy_of_the_shares(counts, balance):
    assert math.isclose(balance_of(counts), balance, abs_tol=1e-15)


# --- with the rest of the package

@pytest.mark.parametrize("workers, accumulate", [(1, 2), (2, 1)])
def test_a_step_of_several_parts_has_the_weighted_mean_of_their_balancing_losses(workers, accumulate):
    """The gradients are those of sum of n_i (loss_i + balancing loss_i) / sum of n_i, where part i counts n_i targets."""
    balanced = nt.BalancedRouter(nt.Router(8, 4, 2, rng=0), 5.0)
    model = nt.CausalLanguageModel(11, 8, 2, 1, max_len=6, rng=0)
    model.decoder.blocks[0].feed_forward = nt.MixtureOfExperts(balanced, [nt.SwiGLU(8, 5, rng=n) for n in range(4)])
    model.astype(np.float64)
    rng = np.random.default_rng(1)
    texts, targets = rng.integers(1, 11, (4, 6)), rng.integers(1, 11, (4, 6))
    targets[0, 1:] = 0                                      # ignored
    parts = [((texts[rows],), targets[rows]) for rows in (slice(0, 2), slice(2, 4))]
    wanted, criterion = 0, nt.CrossEntropyLoss(ignore_id=0)
    for (ids,), labels in parts:
        model.zero_grad()
        criterion(model(ids), labels)
        model.backward(criterion.backward())
        wanted += criterion.count / np.count_nonzero(targets) * balanced.router.linear.weight.grad
    before = balanced.router.linear.weight.data.copy()
    trainer = nt.Trainer(model, criterion, nt.SGD(model.parameters(), 0.1), accumulate=accumulate, workers=workers)
    trainer.step(parts if accumulate == 2 else [((texts,), targets)])
    np.testing.assert_allclose((before - balanced.router.linear.weight.data) / 0.1, wanted, rtol=1e-9, atol=1e-12)
    assert balanced.loss_scale == 1


def test_corrections_that_change_reach_all_workers():
    """Two workers choose the experts that one worker chooses, also after steps of BiasBalancing."""
    def weights(workers):
        model = nt.CausalLanguageModel(11, 8, 2, 1, max_len=6, rng=0)
        router = nt.SigmoidRouter(8, 4, 2, rng=0)
        model.decoder.blocks[0].feed_forward = nt.MixtureOfExperts(router, [nt.SwiGLU(8, 5, rng=n) for n in range(4)])
        trainer = nt.Trainer(model.astype(np.float64), nt.CrossEntropyLoss(), nt.SGD(model.parameters(), 0.1), workers=workers)
        for step in range(3):
            ids = np.random.default_rng(step).integers(1, 11, (4, 6))
            trainer.step([((ids,), ids)])
            router.correction.data += np.array([0.5, -0.5, 0, 0])
        return router.linear.weight.data

    np.testing.assert_allclose(weights(2), weights(1), rtol=1e-9, atol=1e-12)


def test_a_model_with_experts_can_be_adapted_and_merged():
    model = nt.CausalLanguageModel(11, D, 2, 2, max_len=8, rng=0)
    for block in model.decoder.blocks:
        block.feed_forward = mixture().astype(np.float32)
    ids = np.arange(16).reshape(2, 8) % 11
    before = copy.deepcopy(model).eval()(ids)
    nt.add_lora(model, 2, targets=("down", "router"), rng=1)
    np.testing.assert_array_equal(model.eval()(ids), before)
    trained = [name for name, _ in model.named_parameters(trained=True)]
    assert len(trained) == 2 * 2 * (E + 1) and "decoder.blocks.1.feed_forward.experts.4.down.B" in trained
    assert nt.gradcheck(model, ids, directions=1).ok
    model.decoder.blocks[0].feed_forward.experts[0].down.B.data += 1
    changed = model.eval()(ids)
    np.testing.assert_allclose(nt.merge_lora(model)(ids), changed, rtol=1e-4, atol=1e-6)


def test_gpt2_divides_what_experts_add_to_the_residual_stream():
    """An expert's output stands for that of the layer, so the number of experts does not count."""
    model = nt.CausalLanguageModel(11, 40, 2, 3, max_len=8, rng=0)
    for block in model.decoder.blocks:
        block.feed_forward = nt.MixtureOfExperts(nt.Router(40, 4, 2), [nt.SwiGLU(40, 60) for _ in range(4)], nt.SwiGLU(40, 60))
    initialize(model, "gpt2", np.random.default_rng(1))
    layer = model.decoder.blocks[1].feed_forward
    for expert in [*layer.experts, layer.shared]:
        assert abs(expert.down.weight.data.std() * math.sqrt(6) / 0.02 - 1) < 0.05
        assert abs(expert.up.weight.data.std() / 0.02 - 1) < 0.05


def test_logits_far_from_0_give_finite_gates():
    """In float32, exp(-z) overflows for z below -88, and exp(z) is 0 below -104."""
    router = nt.SigmoidRouter(2, 3, 2)
    router.linear.weight.data = np.array([[-100, -100.5, 90], [-200, -300, -400]])
    with np.errstate(all="raise", under="ignore"):
        g = router(np.float32([[1, 0], [0.5, 0], [0, 1], [-1, 0]]))
    assert np.isfinite(g).all() and np.isfinite(router.backward(np.ones_like(g))).all()
    np.testing.assert_allclose(g[2], [0, 0, 0])
    np.testing.assert_allclose(g[3], [0.5, 0.5, 0])
    s = np.exp([-100.0, -100.5])
    far = nt.SigmoidRouter(1, 2, 2).astype(np.float64)
    far.linear.weight.data = np.array([[-100, -100.5]])
    np.testing.assert_allclose(far(np.ones((1, 1)))[0], s / s.sum(), rtol=1e-12)


def test_a_clamped_gate_far_from_0_is_finite():
    layer = nt.ClampedSwiGLU(2, 3, rng=0)
    with np.errstate(all="raise", under="ignore"):
        y = layer(np.float32([[3e4, -2e4], [-3e4, 5e4]]))
        assert np.isfinite(y).all() and np.isfinite(layer.backward(y)).all()
