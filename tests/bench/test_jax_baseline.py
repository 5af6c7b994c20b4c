"""The JAX side of the benchmark: the same model, the same steps, the same protocol. Needs JAX and optax."""

import io
import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from helpers.small_configs import SMALL, every_config

import numpy_transformer as nt
from numpy_transformer.bench import measure
from numpy_transformer.bench.configs import Config


@pytest.fixture
def jax():
    pytest.importorskip("optax")
    return pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def drawn(monkeypatch):
    """The parameters of our models are drawn anew, none of them zero or one, as the biases and norms would be."""
    def model(self, make=Config.model):
        made, rng = make(self), np.random.default_rng(1)
        for parameter in made.parameters():
            parameter.data = (rng.standard_normal(parameter.data.shape) / math.sqrt(len(parameter.data))).astype(np.float32)
        return made

    monkeypatch.setattr(Config, "model", model)


@pytest.mark.slow
@every_config
def test_jax_computes_our_loss_and_gradients(jax, config):
    from numpy_transformer.bench import jax_models

    config = replace(config, dropout=0.0)
    model, (inputs, targets), criterion = config.model(), config.batch_of_ids(), config.criterion()
    loss = criterion(model(*inputs), targets)
    model.backward(criterion.backward())
    ours = jax_models.fused_projections({name: p.grad for name, p in model.named_parameters()})
    their_loss, theirs = jax.value_and_grad(lambda weights: jax_models.loss_of(config, weights, None, inputs, targets))(
        jax_models.fused_projections(model.state_dict()))
    assert their_loss.dtype == np.float32 and float(their_loss) == pytest.approx(float(loss), rel=1e-6)
    assert set(ours) == set(theirs)
    for name, gradient in ours.items():
        scale = max(np.abs(gradient).max(), 1e-3)
        np.testing.assert_allclose(theirs[name] / scale, gradient / scale, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.slow
@every_config
def test_whole_steps_of_both_sides_lead_to_the_same_weights(jax, config, monkeypatch):
    """Loss, clipping, AdamW and its decay, in float64, dropout apart."""
    from numpy_transformer.bench import jax_baseline, jax_models

    def larger(self, make=Config.model):
        model = make(self).astype(np.float64)
        for parameter in model.parameters():
            parameter.data *= 2                 # so that the gradients are clipped
        return model

    config = replace(config, dropout=0.0)
    monkeypatch.setattr(Config, "model", larger)
    with jax.enable_x64(True):
        trainer, batch = measure.trainer_of(config, 1)
        step, state = jax_baseline.compiled_step(config)
        start = trainer.model.state_dict()
        for _ in range(4):
            row = trainer.step([batch])
            state, loss = step(state)
            assert loss.item() == pytest.approx(row["loss"], rel=1e-5) and row["norm"] > 1
        theirs = {name: np.asarray(x) for name, x in state[0].items()}
    ours, start = jax_models.fused_projections(trainer.model.state_dict()), jax_models.fused_projections(start)
    assert set(ours) == set(theirs)
    for name, x in ours.items():
        assert np.abs(x - start[name]).max() > 1e-4
        np.testing.assert_allclose(theirs[name], x, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.slow
@every_config
def test_both_sides_drop_at_the_same_places(jax, config, monkeypatch):
    """How many entries each side drops from, in whatever order and shape, with the same probability."""
    from numpy_transformer.bench import jax_models

    config, ours, theirs = replace(config, dropout=0.1), Counter(), Counter()
    inputs, targets = config.batch_of_ids()

    def drop(self, x, forward=nt.Dropout.forward):
        ours[x.size, self.p] += self.p > 0
        return forward(self, x)

    def draw(key, p, shape, bernoulli=jax.random.bernoulli):
        theirs[math.prod(shape), round(1 - p, 6)] += 1
        return bernoulli(key, p, shape)

    monkeypatch.setattr(nt.Dropout, "forward", drop)
    monkeypatch.setattr(jax.random, "bernoulli", draw)
    model = config.model()
    model(*inputs)
    jax.eval_shape(lambda: jax_models.loss_of(config, jax_models.fused_projections(model.state_dict()), jax.random.key(0),
                                              inputs, targets))
    assert +ours == +theirs and theirs.total() >= 1 + 4 * config.layers


@pytest.mark.slow
def test_dropout_of_jax_keeps_the_mean(jax):
    from numpy_transformer.bench import jax_models

    model = jax_models.Model(replace(SMALL["seq2seq"], dropout=0.25), {}, jax.random.key(0))
    first, second = np.ones((2, 10_000), np.float32), np.asarray(model.dropout(np.ones((2, 10_000), np.float32)))
    assert set(second.ravel()) == {0, np.float32(4 / 3)} and second.mean() == pytest.approx(first.mean(), abs=0.02)
    assert (np.asarray(model.dropout(first)) != second).any()       # another key for each call


@pytest.mark.slow
def test_the_jax_process_answers_each_line(jax, monkeypatch, capsys):
    from numpy_transformer.bench import jax_baseline

    chosen = []
    monkeypatch.setattr(jax_baseline.os, "sched_getaffinity", lambda process: {3, 1, 2}, raising=False)
    monkeypatch.setattr(jax_baseline.os, "sched_setaffinity", lambda process, cores: chosen.append(cores), raising=False)
    monkeypatch.setitem(jax_baseline.CONFIGS, "seq2seq", SMALL["seq2seq"])
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n3\n"))
    jax_baseline.main("seq2seq", "2")
    number, *answers = map(json.loads, capsys.readouterr().out.splitlines())
    assert chosen == [[1, 2]] and number == 2 and [len(times) for times in answers] == [2, 3]
