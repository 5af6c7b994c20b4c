"""The PyTorch side of the benchmark: the same model, the same steps, the same protocol. Needs PyTorch."""

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

NAMES = (("source_embedding", "source.embedding"), ("target_embedding", "target.embedding"),
         ("cross_attention", "cross"), ("feed_forward.", ""), ("norm1", "norms.0"), ("norm2", "norms.1"),
         ("norm3", "norms.2"), ("gamma", "weight"), ("beta", "bias"))


def in_torch(config, arrays):
    """Our arrays under PyTorch's names and in its shapes: matrices are transposed, q, k and v of one sequence joined."""
    found = {}
    for name, x in arrays.items():
        rank = next((i for i, part in enumerate(("query", "key", "value")) if part in name), None)
        if rank is not None:
            cross = "cross_attention" in name
            name = name.replace(("query", "key", "value")[rank], f"project.{int(cross and rank > 0)}")
        for ours, theirs in NAMES:
            name = name.replace(ours, theirs)
        if config.kind == "classifier":
            name = f"embedded.{name}" if name.startswith("embedding") else name.removeprefix("encoder.")
        x = x if "embedding" in name or "positions" in name else x.T
        found[name] = np.concatenate([found[name], x]) if name in found else x
    return found


def drawn(module, dtype=np.float64):
    """Its parameters anew, none of them zero or one, as the biases and norms would be."""
    rng = np.random.default_rng(1)
    for parameter in module.astype(dtype).parameters():
        parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(len(parameter.data))
    return module


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture
def torch(dtype):
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_default_dtype(getattr(torch, dtype))
    yield torch
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(threads)


float64 = pytest.mark.parametrize("dtype", ["float64"])


def twins(torch, config, dtype="float64"):
    """Our model and PyTorch's, with the same weights."""
    from numpy_transformer.bench import torch_baseline

    ours, theirs = drawn(config.model(), dtype), torch_baseline.MODELS[config.kind](config)
    load(torch, config, ours, theirs)
    return ours, theirs


def load(torch, config, ours, theirs):
    state, named = in_torch(config, ours.state_dict()), dict(theirs.named_parameters())
    assert {name: x.shape for name, x in state.items()} == {name: tuple(p.shape) for name, p in named.items()}
    with torch.no_grad():
        for name, p in named.items():
            p.copy_(torch.from_numpy(state[name]))


def same(ours, theirs, tolerance, name=""):
    ours, theirs = np.asarray(ours), theirs.detach().numpy()
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, name
    scale = max(np.abs(theirs).max(), 1e-3)
    assert np.abs(ours - theirs).max() <= tolerance * scale, f"{name}: {np.abs(ours - theirs).max() / scale:.1e}"


@every_config
def test_pytorch_computes_our_logits_loss_and_gradients(torch, config, dtype):
    config, tolerance = replace(config, dropout=0.0), {"float32": 1e-4, "float64": 1e-10}[dtype]
    ours, theirs = twins(torch, config, dtype)
    assert ours.num_parameters() == sum(p.numel() for p in theirs.parameters())
    (inputs, targets), criterion = config.batch_of_ids(), config.criterion()
    logits, their_logits = ours(*inputs), theirs(*map(torch.from_numpy, inputs))
    same(logits, their_logits, tolerance, "logits")
    loss = torch.nn.functional.cross_entropy(their_logits.flatten(0, -2), torch.from_numpy(targets).flatten())
    same(criterion(logits, targets), loss, tolerance, "loss")
    ours.backward(criterion.backward())
    loss.backward()
    gradients = in_torch(config, {name: p.grad for name, p in ours.named_parameters()})
    for name, p in theirs.named_parameters():
        same(gradients[name], p.grad, tolerance, name)


@float64
@every_config
def test_whole_steps_of_both_sides_lead_to_the_same_weights(torch, config, monkeypatch):
    """Zeroing, loss, clipping, AdamW and its decay, as the two timed functions do them, dropout apart."""
    from numpy_transformer.bench import torch_baseline

    config, seen = replace(config, dropout=0.0), {}
    monkeypatch.setattr(Config, "model", lambda self, make=Config.model: drawn(make(self)))
    trainer, batch = measure.trainer_of(config, 1)
    theirs = torch_baseline.MODELS[config.kind](config)
    load(torch, config, trainer.model, theirs)
    monkeypatch.setitem(torch_baseline.MODELS, config.kind, lambda _: theirs)

    def spy(place, name):
        function = getattr(place, name)

        def wrapper(*arguments, **named):
            seen[name] = arguments, function(*arguments, **named)
            return seen[name][1]

        monkeypatch.setattr(place, name, wrapper)

    spy(torch.optim, "AdamW")
    spy(torch.nn.utils, "clip_grad_norm_")
    start = trainer.model.state_dict()
    steps = torch_baseline.timed_training(config)
    for _ in range(4):
        assert len(steps(1)) == 1
        norm = trainer.step([batch])["norm"]
        arguments, their_norm = seen["clip_grad_norm_"]
        assert arguments[1] == trainer.clip == 1.0 and norm == pytest.approx(their_norm.item(), rel=1e-6)
    state = in_torch(config, trainer.model.state_dict())
    for name, p in theirs.named_parameters():
        assert np.abs(in_torch(config, start)[name] - state[name]).max() > 1e-4
        np.testing.assert_allclose(state[name], p.detach().numpy(), rtol=0, atol=1e-7, err_msg=name)

    ours, (group,) = trainer.optimizer, seen["AdamW"][1].param_groups
    assert type(ours) is nt.AdamW and not group["amsgrad"] and not group["maximize"]
    assert (ours.lr, ours.betas, ours.eps, ours.weight_decay) == tuple(
        group[name] for name in ("lr", "betas", "eps", "weight_decay"))
    assert len(ours.decay) == len(ours.parameters) == len(trainer.model.parameters())
    assert len(group["params"]) == len(list(theirs.parameters()))


@float64
@every_config
def test_both_sides_drop_at_the_same_places(torch, config, monkeypatch):
    """The shapes that each side drops from, in whatever order, with the same probability."""
    from numpy_transformer.bench import torch_baseline

    config, ours, theirs = replace(config, dropout=0.1), Counter(), Counter()
    inputs, _ = config.batch_of_ids()

    def drop(self, x, forward=nt.Dropout.forward):
        ours[x.shape, self.p] += self.p > 0
        return forward(self, x)

    def attend(q, k, v, dropout_p, function=torch_baseline.functional.scaled_dot_product_attention, **named):
        theirs[(*q.shape[:-1], k.shape[-2]), dropout_p] += 1
        return function(q, k, v, dropout_p=dropout_p, **named)

    monkeypatch.setattr(nt.Dropout, "forward", drop)
    monkeypatch.setattr(torch_baseline.functional, "scaled_dot_product_attention", attend)
    config.model()(*inputs)
    model = torch_baseline.MODELS[config.kind](config)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.register_forward_hook(lambda module, x, y: theirs.update([(tuple(x[0].shape), module.p)]))
    model(*map(torch.from_numpy, inputs))
    assert +ours == +theirs and theirs.total() >= 1 + 4 * config.layers


def test_both_sides_use_the_same_gelu():
    pytest.importorskip("torch")
    from numpy_transformer.bench import torch_models

    config = SMALL["tiny"]
    ours, theirs = config.model().decoder.blocks[0].feed_forward.activation, torch_models.TorchLanguageModel(config).decoder
    assert ours.approximate == theirs.blocks[0].activation.approximate == "tanh"


@float64
def test_pytorch_decodes_with_a_cache_as_we_do(torch):
    from numpy_transformer.bench import torch_baseline, torch_models

    ours, theirs = twins(torch, SMALL["nanogpt-cpu"])
    ids, cache, their_cache = np.array([[1, 7, 3, 2, 5]]), nt.KeyValueCache(), torch_models.Cache(5)
    ours.eval()
    for part in (ids[:, :3], ids[:, 3:4], ids[:, 4:]):
        same(ours(part, cache=cache), theirs(torch.from_numpy(part), their_cache), 1e-10)
    assert len(torch_baseline.timed_decoding(replace(SMALL["nanogpt-cpu"], max_len=8))(3)) == 3


def test_the_pytorch_process_answers_each_line(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    from numpy_transformer.bench import torch_baseline

    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setitem(torch_baseline.CONFIGS, "tiny", SMALL["tiny"])
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n3\n"))
    torch_baseline.main("tiny", "1")
    number, *answers = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(threads) == {1} and number == 1 and [len(times) for times in answers] == [2, 3]
