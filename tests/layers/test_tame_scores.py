"""Z-loss, gates, soft caps and norms of queries and keys: what is special about them besides their contract."""

import math

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.layers.attention import with_score_changes
from numpy_transformer.layers.gated_attention import gate_heads
from numpy_transformer.layers.normed_linear import norm_queries_and_keys


def test_z_loss_sees_a_shift_of_the_logits_and_cross_entropy_does_not():
    rng = np.random.default_rng(0)
    z, targets = rng.standard_normal((6, 5)), rng.integers(0, 5, 6)
    log_z = np.log(np.exp(z).sum(-1))
    inner = nt.CrossEntropyLoss()
    plain = inner(z, targets)
    for shift in (-3.0, 0.0, 700.0):
        wanted = plain + 0.2 * ((log_z + shift) ** 2).mean()
        assert math.isclose(nt.ZLoss(inner, 0.2)(z + shift, targets), wanted, rel_tol=1e-12)


def test_ignored_targets_have_no_z_loss_and_no_gradient():
    rng = np.random.default_rng(1)
    z, targets = rng.standard_normal((6, 5)), np.array([0, 3, 0, 1, 2, 0])
    criterion, counted = nt.ZLoss(nt.CrossEntropyLoss(ignore_id=0), 0.2), targets != 0
    loss = criterion(z, targets)
    dz = criterion.backward()
    assert criterion.count == 3 and criterion.ignore_id == 0
    alone = nt.ZLoss(nt.CrossEntropyLoss(), 0.2)
    assert math.isclose(loss, alone(z[counted], targets[counted]), rel_tol=1e-14)
    np.testing.assert_allclose(dz[counted], alone.backward(), rtol=1e-13)
    assert not dz[~counted].any()


@pytest.mark.parametrize("coefficient, error", [(-0.1, ValueError), (math.nan, ValueError), ("0.1", TypeError)])
def test_a_coefficient_that_is_none_is_refused(coefficient, error):
    with pytest.raises(error, match="coefficient"):
        nt.ZLoss(nt.CrossEntropyLoss(), coefficient)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_trainer_takes_a_z_loss_and_batches_without_targets(workers):
    """A micro-batch whose targets are all ignored contributes nothing, as with the loss inside."""
    def trained(criterion):
        model = nt.CausalLanguageModel(5, 8, 2, 1, max_len=4, rng=0)
        ids = np.random.default_rng(2).integers(1, 5, (4, 4))
        targets = np.where(np.arange(4)[:, None] < 2, 0, ids)               # the first two rows have none
        trainer = nt.Trainer(model, criterion, nt.SGD(model.parameters(), 0.5), workers=workers, accumulate=2)
        trainer.fit(lambda step: (ids, targets), 3)
        return model.state_dict()

    plain, same = (trained(criterion) for criterion in (nt.CrossEntropyLoss(ignore_id=0),
                                                        nt.ZLoss(nt.CrossEntropyLoss(ignore_id=0), 0.0)))
    other = trained(nt.ZLoss(nt.CrossEntropyLoss(ignore_id=0), 0.5))
    for name, array in plain.items():
        np.testing.assert_allclose(same[name], array, rtol=1e-6, atol=1e-8)
    assert any(not np.allclose(other[name], array, atol=1e-4) for name, array in plain.items())


def test_a_cap_changes_small_scores_by_no_more_than_its_bound():
    x = np.concatenate([-np.logspace(-3, 2, 60), np.logspace(-3, 2, 60)])
    y = nt.SoftCap(50.0)(x)
    assert (abs(x - y) <= abs(x) ** 3 / 7500 + 1e-15).all() and (abs(y) < abs(x)).all() and (abs(y) < 50).all()


@pytest.mark.parametrize("per_head", [True, False])
def test_only_norms_of_each_head_bound_the_scores_of_each_head(per_head):
    attention = nt.SelfAttention(12, 3, bias=False, rng=0)
    attention.query.weight.data[:, :4] *= 1000                              # the first head
    attention.key.weight.data[:, :4] *= 1000
    seen = []

    class Watch(nt.Module):
        def forward(self, scores):
            seen.append(abs(scores).max())
            return scores

    with_score_changes(attention.attention, Watch())
    norms = [nt.PerHead(nt.RMSNorm(4)) if per_head else nt.RMSNorm(12) for _ in range(2)]
    norm_queries_and_keys(attention, *norms).eval()(np.random.default_rng(0).standard_normal((2, 5, 12), np.float32))
    assert (seen[0] <= 2 + 1e-5) == per_head


def test_gates_of_zero_halve_the_heads_and_the_weights_stay():
    plain = nt.SelfAttention(12, 4, 2, rotary=nt.RotaryEmbedding(4), bias=False, d_head=4, rng=0)
    x = np.random.default_rng(1).standard_normal((2, 5, 12), np.float32)
    wanted = plain.eval()(x)
    gated = gate_heads(plain, rng=2).eval()
    assert gated.gate.weight.data.shape == (12, 16) and gated.num_parameters() == 12 * (16 + 8 + 8) + 16 * 12 + 12 * 16
    gated.gate.weight.data = 0
    np.testing.assert_allclose(gated(x), wanted / 2, rtol=1e-5, atol=1e-6)
    assert gated.weights is plain.weights and gated.weights.shape == (2, 4, 5, 5)


@pytest.mark.parametrize("width", [1, 4])
def test_a_gate_of_another_width_than_the_heads_is_refused(width):
    gated = gate_heads(nt.SelfAttention(8, 2, rng=0))
    gated.gate = nt.Linear(8, width, rng=1)
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    with pytest.raises(ValueError, match=rf"GatedSelfAttention: the gates \(2, 3, {width}\) do not fit .* with d_out = 8"):
        gated(x)
