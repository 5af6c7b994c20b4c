"""The benchmark: both sides do the same work, the floor is what it says, the command; and guards against slow spots."""

import copy
import importlib.util
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import refused, run

import numpy_transformer as nt
from numpy_transformer.bench import decoding, floor, growth, measure
from numpy_transformer.bench.configs import CONFIGS, Config
from numpy_transformer.checks.samples import SAMPLES
from numpy_transformer.training.process import keep_freed_memory

TORCH = importlib.util.find_spec("torch") is not None
SMALL = {name: replace(config, layers=min(config.layers, 2), heads=2, d_model=8, length=5, batch=3, vocab=11)
         for name, config in CONFIGS.items()}
every_config = pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)


def test_the_configurations_are_those_of_the_issue():
    """layers, heads, d, d_ff, T, B, V, dropout."""
    found = {c.name: (c.layers, c.heads, c.d_model, c.d_ff, c.length, c.batch, c.vocab, c.dropout)
             for c in CONFIGS.values()}
    assert found == {"tiny": (2, 4, 64, 256, 32, 8, 65, 0), "nanogpt-cpu": (4, 4, 128, 512, 64, 12, 65, 0),
                     "mid": (6, 6, 384, 1536, 128, 16, 65, 0), "seq2seq": (2, 4, 128, 512, 32, 16, 1000, 0.1),
                     "classifier": (2, 4, 64, 256, 200, 64, 10_000, 0.1)}
    kinds = [nt.CausalLanguageModel] * 3 + [nt.EncoderDecoder, nt.SequenceClassifier]
    assert [type(c.model()) for c in SMALL.values()] == kinds
    for config in SMALL.values():
        inputs, targets = config.batch_of_ids()
        assert len(inputs) == 1 + (config.kind == "seq2seq") and {x.shape for x in inputs} == {(3, 5)}
        assert targets.shape == ((3,) if config.kind == "classifier" else (3, 5))


# the rival is the same model

NAMES = (("source_embedding", "source.embedding"), ("target_embedding", "target.embedding"),
         ("cross_attention", "cross"), ("feed_forward.", ""), ("norm1", "norms.0"), ("norm2", "norms.1"),
         ("norm3", "norms.2"), ("gamma", "weight"), ("beta", "bias"))


def in_torch(config, arrays):
    """Arrays by our names, under the rival's, in its shapes: matrices turned, q, k and v of one sequence in one."""
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
    """Our model and the rival's, with the same weights."""
    from numpy_transformer.bench import rival

    ours, theirs = drawn(config.model(), dtype), rival.MODELS[config.kind](config)
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
def test_the_rival_computes_our_logits_loss_and_gradients(torch, config, dtype):
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
    from numpy_transformer.bench import rival

    config, seen = replace(config, dropout=0.0), {}
    monkeypatch.setattr(Config, "model", lambda self, make=Config.model: drawn(make(self)))
    trainer, batch = measure.trainer_of(config, 1)
    theirs = rival.MODELS[config.kind](config)
    load(torch, config, trainer.model, theirs)
    monkeypatch.setitem(rival.MODELS, config.kind, lambda _: theirs)

    def spy(place, name):
        function = getattr(place, name)

        def wrapper(*arguments, **named):
            seen[name] = arguments, function(*arguments, **named)
            return seen[name][1]

        monkeypatch.setattr(place, name, wrapper)

    spy(torch.optim, "AdamW")
    spy(torch.nn.utils, "clip_grad_norm_")
    start = trainer.model.state_dict()
    steps = rival.stepper(config)
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
    from numpy_transformer.bench import rival

    config, ours, theirs = replace(config, dropout=0.1), Counter(), Counter()
    inputs, _ = config.batch_of_ids()

    def drop(self, x, forward=nt.Dropout.forward):
        ours[x.shape, self.p] += self.p > 0
        return forward(self, x)

    def attend(q, k, v, dropout_p, function=rival.functional.scaled_dot_product_attention, **named):
        theirs[(*q.shape[:-1], k.shape[-2]), dropout_p] += 1
        return function(q, k, v, dropout_p=dropout_p, **named)

    monkeypatch.setattr(nt.Dropout, "forward", drop)
    monkeypatch.setattr(rival.functional, "scaled_dot_product_attention", attend)
    config.model()(*inputs)
    model = rival.MODELS[config.kind](config)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.register_forward_hook(lambda module, x, y: theirs.update([(tuple(x[0].shape), module.p)]))
    model(*map(torch.from_numpy, inputs))
    assert +ours == +theirs and theirs.total() >= 1 + 4 * config.layers


def test_both_sides_use_the_same_gelu():
    pytest.importorskip("torch")
    from numpy_transformer.bench import rival

    config = SMALL["tiny"]
    ours, theirs = config.model().decoder.blocks[0].feed_forward.activation, rival.LanguageModel(config).decoder
    assert ours.approximate == theirs.blocks[0].activation.approximate == "tanh"


@float64
def test_the_rival_writes_with_a_cache_as_we_do(torch):
    from numpy_transformer.bench import rival

    ours, theirs = twins(torch, SMALL["nanogpt-cpu"])
    ids, cache, their_cache = np.array([[1, 7, 3, 2, 5]]), nt.KeyValueCache(), rival.Cache(5)
    ours.eval()
    for part in (ids[:, :3], ids[:, 3:4], ids[:, 4:]):
        same(ours(part, cache=cache), theirs(torch.from_numpy(part), their_cache), 1e-10)
    assert len(rival.writer(4)(3)) == 3


# the floor

class Recorded(np.ndarray):
    """An array whose ufuncs are written down: (ufunc, method, arrays in, arrays out, whether `out` was given)."""

    calls = []

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **named):
        plain = [x.view(np.ndarray) if isinstance(x, Recorded) else x for x in inputs]
        if out is not None:
            named["out"] = tuple(x.view(np.ndarray) if isinstance(x, Recorded) else x for x in out)
        found = getattr(ufunc, method)(*plain, **named)
        if found is None:                       # at
            Recorded.calls.append((ufunc, method, plain, [], True))
            return None
        several = found if isinstance(found, tuple) else (found,)
        Recorded.calls.append((ufunc, method, plain, several, out is not None))
        several = out or tuple(x.view(Recorded) if isinstance(x, np.ndarray) else x for x in several)
        return several if isinstance(found, tuple) else several[0]

    def dot(self, *_, **__):
        raise AssertionError("ndarray.dot: on 3-D arrays it is no batched matmul, and slow")


@pytest.fixture
def record():
    """A function that does one forward, loss and backward; every ufunc call that the weights took part in."""
    def record(model, inputs, targets, criterion):
        Recorded.calls = []
        for p in model.parameters():
            p.move(p.data.view(Recorded), p.grad.view(Recorded))
        model(*inputs)                          # tables and caches that are made once
        model.forget()
        Recorded.calls = []
        loss = criterion(model(*inputs), targets)
        held = [x for _, module in model.named_modules() for values in vars(module).get("_saved", [])
                for x in values if isinstance(x, np.ndarray)]
        model.backward(criterion.backward())
        return Recorded.calls, held, loss

    yield record
    Recorded.calls = []


def product(a, b):
    """(matrices, k, {m, n}) of a @ b. What comes to vectors are sums of rows."""
    m, k, n = a.shape[-2] if a.ndim > 1 else 1, a.shape[-1], b.shape[-1] if b.ndim > 1 else 1
    return math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])), k, *sorted((m, n))


def flops(products):
    return sum(2 * count * k * m * n for count, k, m, n in products)


@every_config
def test_the_floor_holds_exactly_the_matmuls_of_a_step(config, record):
    config = replace(config, d_model=12, length=7)
    calls, _, _ = record(config.model(), *config.batch_of_ids(), config.criterion())
    real = [product(*inputs) for ufunc, _, inputs, *_ in calls if ufunc is np.matmul]
    real = Counter(found for found in real if 1 not in found[2:])
    alone = Counter(product(a, b) for a, b, _ in floor.matmuls(config, config.batch))
    assert real == alone and flops(real.elements()) == flops(alone.elements()) > 10_000


@every_config
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_parts_of_the_floor_are_the_whole_batch(config, threads, monkeypatch):
    config, made = replace(config, batch=7), []

    def spy(config, batch, matmuls=floor.matmuls):
        made.append((batch, matmuls(config, batch)))
        return made[-1][1]

    monkeypatch.setattr(floor, "matmuls", spy)
    both = floor.floors(config, threads)
    (batch, whole), *parts = made if threads > 1 else made * 2      # one thread splits nothing
    assert batch == config.batch == sum(batch for batch, _ in parts) and len(parts) == threads
    work, *split = [flops(product(a, b) for a, b, _ in operations) for _, operations in [(batch, whole), *parts]]
    assert work == sum(split)
    for function, operations in zip(both, (whole, [same for _, part in parts for same in part])):
        for _, _, out in operations:
            out[...] = np.nan
        function()
        for a, b, out in operations:
            np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)
            assert out.dtype == np.float32


# the command

KEYS = {"config", "ours_ms", "torch_ms", "floor_ms", "ratio_torch", "ratio_floor", "threads"}


@pytest.fixture
def small(monkeypatch):
    """The command with small models and short turns."""
    monkeypatch.setattr("numpy_transformer.cli.bench.CONFIGS", SMALL)
    monkeypatch.setattr("numpy_transformer.cli.bench.measure", partial(measure.measure, turn=0.001))


@pytest.fixture
def children(monkeypatch):
    """Every child process that the benchmark starts; in the end none may be left, alive or as a zombie."""
    found = []
    monkeypatch.setattr(subprocess, "Popen", lambda *given, popen=subprocess.Popen, **named: found.append(
        popen(*given, **named)) or found[-1])
    yield found
    assert found and all(child.returncode is not None for child in found)
    assert all(pipe.closed for child in found for pipe in (child.stdin, child.stdout))


def check_row(row, config):
    assert KEYS <= set(row) and row["config"] == config.name
    assert row["ours_ms"] > 0 and row["floor_ms"] > 0 and row["ratio_floor"] == row["ours_ms"] / row["floor_ms"]
    assert row["tokens_per_second"] == pytest.approx(1e3 * config.batch * config.length / row["ours_ms"])
    low, high = row["ours_quartiles_ms"]
    assert low <= row["ours_ms"] <= high
    assert row["parameters"] == config.model().num_parameters()
    assert row["peak_mb"] > 4 * 4 * row["parameters"] / 1e6         # weights, gradients and the two states of AdamW
    assert sum(row["shares"].values()) == pytest.approx(1) and min(row["shares"].values()) > 0
    assert {"Linear", "AdamW", "CrossEntropyLoss", "the loop"} <= set(row["shares"])
    assert list(row["shares"].values()) == sorted(row["shares"].values(), reverse=True)


def test_rows_of_all_configurations(capsys, small, tmp_path):
    code, out, err = run(capsys, "bench", "--rounds", 2, "--threads", 2, "--json", tmp_path / "rows.json")
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert code == 0 and [row["config"] for row in rows] == list(CONFIGS)
    for row, config in zip(rows, SMALL.values()):
        check_row(row, config)
        assert row["threads"] == 2 and row["torch_ms"] is row["ratio_torch"] is row["torch_quartiles_ms"] is None
        assert f"\n{config.name}: {row['parameters']:,} parameters" in out
        assert f"ours / floor {row['ratio_floor']:.2f}" in out
    assert "torch" not in out and "bench: 10/10" in err


def test_rows_on_standard_output_beside_torch(capsys, monkeypatch, request):
    """With the real child process and so the real configuration tiny."""
    pytest.importorskip("torch")
    request.getfixturevalue("children")
    monkeypatch.setattr("numpy_transformer.cli.bench.measure", partial(measure.measure, turn=0.001))
    code, out, err = run(capsys, "bench", "--config", "tiny", "--vs", "torch", "--rounds", 1, "--threads", 1,
                         "--json", "-")
    (row,) = json.loads(out)
    check_row(row, CONFIGS["tiny"])
    assert code == 0 and row["torch_ms"] > 0 and row["ratio_torch"] == row["ours_ms"] / row["torch_ms"]
    assert row["workers"] == 1 and f"ours / torch {row['ratio_torch']:.2f}" in err


def test_turns_are_taken_side_by_side(monkeypatch):
    """D C B A A B C D: as many rounds as asked for, behind the three steps that warm each side up."""
    turns = []

    class Side:
        size = 1

        def __init__(self, command):
            turns.append(command)
            self.name = "mpi" if command[0] == "mpiexec" else "torch"

        def times(self, count):
            turns.append(self.name)
            return [1.0] * count

        def close(self):
            turns.append("closed")

    def timer(step, timer=measure.timer):
        if isinstance(step, str):
            return lambda count: turns.append(step) or [1.0] * count
        return lambda count: turns.append("ours") or timer(step)(count)

    monkeypatch.setattr(measure, "Contestant", Side)
    monkeypatch.setattr(measure, "best_threads", lambda *_: 2)
    monkeypatch.setattr(measure, "find_mpiexec", lambda: "mpiexec")
    monkeypatch.setattr(measure, "timer", timer)
    monkeypatch.setattr(measure, "floors", lambda *_: ("blas", "split"))
    row = measure.measure(SMALL["tiny"], 2, rival=True, turn=0.001, rounds=3, ranks=5)
    torch, mpi, *turns = turns
    assert torch == [sys.executable, "-m", "numpy_transformer.bench.rival", "tiny", "2"]
    assert mpi == ["mpiexec", "-n", "5", sys.executable, "-m", "numpy_transformer.bench.mpi_steps", "tiny"]
    order = ["ours", "blas", "split", "torch", "mpi"]
    assert turns == order + order[::-1] + order + order[::-1] + ["closed"] * 2
    assert row["torch_ms"] == row["floor_ms"] == row["mpi_ms"] == 1 and row["threads"] == 2 and row["ranks"] == 5
    assert row["ratio_mpi"] == 1 / row["ours_ms"]


def test_decoding_rows(capsys, monkeypatch):
    class Quick:
        size = 1

        def __init__(self, module, name, threads):
            assert module == "rival" and name in ("decoding-4", "decoding-8") and threads == 1

        def times(self, count):
            return [0.5] * count

        def close(self):
            pass

    monkeypatch.setattr("numpy_transformer.cli.bench.LENGTHS", (4, 8))
    monkeypatch.setattr(decoding, "python_process", Quick)
    arguments = ["bench", "--decoding", "--tokens", 2, "--rounds", 1, "--threads", 1, "--json", "-"]
    code, out, err = run(capsys, *arguments)
    rows = json.loads(out)
    assert code == 0 and [row["length"] for row in rows] == [4, 8] and "torch" not in err
    assert all(row["cached_ms"] > 0 and row["uncached_ms"] > 0 for row in rows)
    assert all(row["torch_ms"] is row["rate_over_torch"] is None for row in rows)
    assert "linear growth would be 2 times" in err
    if TORCH:
        _, out, err = run(capsys, *arguments, "--vs", "torch")
        assert all(row["rate_over_torch"] == 0.5 / row["cached_ms"] for row in json.loads(out))
        assert "our rate / its" in err


def test_tokens_that_are_timed_are_those_of_the_whole_text(monkeypatch):
    """Each round goes on from the same text: the cache that is copied for it is used, and the prompt's is not."""
    seen = []

    def timer(step, timer=measure.timer):
        def several(count):
            return timer(lambda: seen.append(step()))(count)
        return several

    monkeypatch.setattr(decoding, "timer", timer)
    decoding.measure_decoding(6, 2, 1, rounds=2)
    model, ids = decoding.decoding_model(8), np.random.default_rng(0).integers(0, 65, 8)
    whole = model(ids)
    for n, logits in enumerate(seen[-6:]):      # three rounds of two tokens
        np.testing.assert_allclose(logits[-1], whole[6 + n % 2], atol=1e-5)


def test_growth_rows_and_picture(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("numpy_transformer.cli.bench.GROWN_LENGTHS", (4, 8, 16))
    monkeypatch.setattr("numpy_transformer.cli.bench.WIDTHS", (8, 16, 32))
    code, out, err = run(capsys, "bench", "--growth", "--figures", tmp_path / "figures", "--json", tmp_path / "g.json")
    rows = json.loads((tmp_path / "g.json").read_text())
    assert code == 0 and "bench: 9/9" in err and out.count("log-log slope of the larger half") == 3
    assert [(row["over"], row["attention"], row["T"], row["d_model"]) for row in rows] == [
        *(("T", kind, T, growth.WIDTH) for kind in ("plain", "flash") for T in (4, 8, 16)),
        *(("d_model", "plain", growth.LENGTH, d) for d in (8, 16, 32))]
    assert all(row["step_ms"] > 0 and row["peak_mb"] > 0 for row in rows)
    assert (tmp_path / "figures" / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_slopes_of_a_power_law_are_its_exponent():
    rows = [{"T": n, "step_ms": (3 if n > 4 else 90) * n ** 1.5, "peak_mb": 7 / n} for n in (1, 2, 4, 8, 16, 32, 64)]
    assert growth.slope(rows, "T", "step_ms") == pytest.approx(1.5, abs=1e-12)      # of the larger half
    assert growth.slope(rows, "T", "peak_mb") == pytest.approx(-1, abs=1e-12)


@pytest.mark.parametrize("options, match", [
    (["--config", "huge"], "'huge'"), (["--config", "tiny", "huge"], "nanogpt-cpu"),
    (["--threads", "0"], "'0' is not a whole number of at least 1"), (["--rounds", "0"], "--rounds"),
    (["--tokens", "-1"], "--tokens"), (["--vs", "jax"], "torch"), (["--decoding", "--growth"], "not allowed with"),
    (["--growth", "--mpi"], "--mpi would have no effect with --growth"), (["--mpi", "1"], "'1' is not a whole number of at least 2"),
    (["--mpi", "1000"], "--mpi 1000 is more than the"),
    (["--growth", "--vs", "torch"], "--vs would have no effect with --growth; leave it out"),
    (["--growth", "--threads", "1"], "--threads would have no effect with --growth"),
    (["--decoding", "--config", "tiny"], "--config would have no effect with --decoding; leave it out"),
    (["--tokens", "3"], "--tokens would have no effect here; leave it out, or add --decoding"),
    (["--figures", "x"], "or add --growth"), (["--threads", "1000"], "--threads 1000 is more than the")])
def test_bad_input_is_one_line(capsys, options, match):
    assert match in refused(capsys, "bench", *options)


def test_without_mpi_the_command_says_so(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'numpy-transformer[mpi]'" in refused(capsys, "bench", "--mpi")


@pytest.mark.parametrize("mode", [[], ["--decoding"]])
def test_without_torch_the_command_says_so(capsys, monkeypatch, mode):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "PyTorch is not installed here; pip install torch" in refused(capsys, "bench", *mode, "--vs", "torch")


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_timed(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("numpy_transformer.cli.bench.measure", None)
    assert "rows.json" in refused(capsys, "bench", "--json", tmp_path / "missing" / "rows.json")
    assert str(tmp_path) in refused(capsys, "bench", "--json", tmp_path)


# the child process

@pytest.fixture
def broken(monkeypatch):
    """The child process ends at once."""
    monkeypatch.setattr(measure, "__package__", "numpy_transformer.nowhere")


def test_a_process_that_cannot_start_is_one_line_and_leaves_no_zombie(capsys, broken, children, small, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    line = refused(capsys, "bench", "--config", "tiny", "--vs", "torch")
    assert "the process of PyTorch or of MPI has ended" in line and "leave out --vs torch" in line


def test_a_process_that_ends_between_two_turns_is_an_error_too(children):
    contestant = measure.Contestant([sys.executable, "-c", "print(3, flush=True); input()"])
    assert contestant.size == 3
    children[0].stdin.write("\n")
    children[0].stdin.flush()
    children[0].wait()                          # its pipe is broken before it is asked
    with pytest.raises(OSError, match="the process of PyTorch or of MPI has ended"):
        contestant.times(1)
    contestant.close()


def test_ctrl_c_ends_both_processes_without_a_traceback(tmp_path):
    """As a terminal sends it: to everything that the command started in its own group."""
    pytest.importorskip("torch")
    command = subprocess.Popen([sys.executable, "-m", "numpy_transformer", "bench", "--config", "tiny", "--vs", "torch",
                                "--rounds", "1000000"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        if not children.exists():
            pytest.skip("no /proc that shows the child")
        while not (child := children.read_text().split()) and command.poll() is None:
            time.sleep(0.01)
        while "libtorch" not in Path(f"/proc/{child[0]}/maps").read_text():     # it would print a traceback by now
            time.sleep(0.01)
        os.killpg(command.pid, signal.SIGINT)
        out, err = command.communicate(timeout=60)
    finally:
        command.kill()
        command.communicate()
    assert command.returncode == 130 and err == "\nnumpy-transformer bench: interrupted\n"
    assert out.count("\n") == 1                             # the heading
    assert len(child) == 1 and not Path(f"/proc/{child[0]}").exists()


def test_the_rival_may_use_its_threads(monkeypatch):
    """Whatever this process was told to use; the two sides get the same number."""
    seen = {}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(subprocess, "Popen", lambda command, **named: seen.update(named, command=command))
    monkeypatch.setattr(measure.Contestant, "read", lambda self: 1)
    measure.python_process("rival", "tiny", 7)
    assert seen["command"][-2:] == ["tiny", "7"]
    assert seen["start_new_session"]            # a Ctrl-C in the terminal is ours to answer
    assert not {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(seen["env"])


def test_the_rival_answers_each_line(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    from numpy_transformer.bench import rival

    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setitem(rival.CONFIGS, "tiny", SMALL["tiny"])
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n3\n"))
    rival.main("tiny", "1")
    number, *answers = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(threads) == {1} and number == 1 and [len(times) for times in answers] == [2, 3]


@pytest.mark.parametrize("better", [1, 2])
def test_the_number_of_threads_is_the_one_with_which_it_is_faster(better):
    threads = [0]

    def run(count):                             # milliseconds; the first is warming up, and now and then one is slow
        return [50.0] + [1.0 if threads[-1] == better else 1.5] * (count - 2) + [9.0]

    assert measure.best_threads(run, threads.append, 2, seconds=0.01) == better and set(threads) == {0, 1, 2}



# guards against slow spots

B, T, D, V = 4, 6, 8, 11


def language_model(layers=2, length=T, dropout=0.1, **options):
    return nt.CausalLanguageModel(V, D, 2, layers, max_len=length, dropout=dropout, rng=0, **options)


def config_model(name):
    return lambda layers=2, length=T: replace(SMALL[name], layers=layers, length=length, dropout=0.1).model()


KINDS = {**{name: partial(language_model, activation=name) for name in ("relu", "gelu", "gelu_tanh", "swiglu")},
         "flash": partial(language_model, dropout=0.0, activation="relu", attention="flash"),
         "llama": partial(language_model, activation="swiglu", norm_layer="rms", positions="rotary", num_kv_heads=1),
         "seq2seq": config_model("seq2seq"), "classifier": config_model("classifier")}
every_kind = pytest.mark.parametrize("kind", KINDS)


def ids_for(kind, batch=B, length=T):
    sizes = replace(SMALL[kind if kind in SMALL else "tiny"], batch=batch, length=length)
    return sizes.batch_of_ids()


@every_kind
def test_no_float64_in_a_step_of_float32(kind, record):
    """In what any ufunc takes or gives, what is remembered, and the gradients; the optimizer by itself."""
    model = KINDS[kind]()
    calls, held, loss = record(model, *ids_for(kind), nt.CrossEntropyLoss())
    assert loss.dtype == np.float32 and len(calls) > 100 and held
    for ufunc, method, inputs, outputs, _ in calls:
        dtypes = {x.dtype for x in (*inputs, *outputs) if isinstance(x, np.ndarray) and x.ndim}
        assert np.float64 not in dtypes, f"{ufunc.__name__} {method} of {[np.shape(x) for x in inputs]}"
    assert {x.dtype for x in held if x.dtype.kind == "f"} == {np.dtype(np.float32)}
    assert {p.grad.dtype for p in model.parameters()} == {np.dtype(np.float32)}
    model = KINDS[kind]()
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), nt.AdamW(model.parameters()), clip=1e-3, workers=1)
    trainer.step([ids_for(kind)])
    Recorded.calls = []
    trainer.optimizer.update(*[x.view(Recorded) for x in next(trainer.optimizer.buffers[0].blocks())])
    assert len(Recorded.calls) > 10 and {x.dtype for call in Recorded.calls for x in (*call[2], *call[3])
                                         if isinstance(x, np.ndarray)} == {np.dtype(np.float32)}


@every_kind
def test_slow_functions_are_not_called(kind, record, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("slower than a matmul, or than sorted sums")

    for name in ("dot", "einsum", "tensordot", "inner", "vectorize", "apply_along_axis"):
        monkeypatch.setattr(np, name, refuse)
    calls, *_ = record(KINDS[kind](), *ids_for(kind), nt.CrossEntropyLoss())
    assert not [ufunc for ufunc, method, *_ in calls if method == "at"]
    wide = [ufunc.__name__ for ufunc, method, inputs, *_ in calls
            if method == "reduce" and ufunc is np.add and np.size(inputs[0]) >= B * T * D and inputs[0].ndim > 2]
    assert len(wide) <= 1 + (kind == "classifier"), wide        # learned positions, over the batch; others are matmuls


# One more block costs so many ufunc calls, forward and backward, that make an array as large as its input or larger.
# Matmuls do not count, nor what is computed in place. A number that rises is one more pass over memory in every block
# of every step: lower it where you can, raise it only for a reason.
PASSES = {"relu": 23, "gelu": 26, "gelu_tanh": 30, "swiglu": 29, "flash": 20, "llama": 29, "classifier": 23,
          "seq2seq": 59}                        # an encoder block and a decoder block


@every_kind
def test_large_arrays_that_a_block_makes(kind, record):
    def made(layers):
        calls, *_ = record(KINDS[kind](layers), *ids_for(kind), nt.CrossEntropyLoss())
        return sum(not given and any(isinstance(x, np.ndarray) and x.size >= B * T * D for x in outputs)
                   for ufunc, _, _, outputs, given in calls if ufunc is not np.matmul)

    assert made(3) - made(2) <= PASSES[kind]


def work_of_a_step(kind, batch=B, length=T):
    """Lines of Python that a second step goes through, each turn of a loop anew, and functions that it calls."""
    model = KINDS[kind](length=length)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), nt.AdamW(model.parameters()), clip=1e-3, workers=1)
    ids, work = ids_for(kind, batch, length), Counter()
    trainer.step([ids])

    def trace(frame, event, argument):
        work[event] += 1
        return trace

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(lambda frame, event, argument: work.update([event]) if event == "c_call" else None)
    try:
        trainer.step([ids])
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return work


@every_kind
def test_no_loop_over_the_batch_or_the_text(kind):
    """Blocks of GELU, flash attention and AdamW are loops, but these sizes lie within one block."""
    work = work_of_a_step(kind)
    assert work["line"] > 500 and work["c_call"] > 50
    assert work_of_a_step(kind, batch=4 * B) == work == work_of_a_step(kind, length=4 * T)


# results

@pytest.mark.parametrize("kept", [False, True], ids=["plain", "freed memory kept"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_result_stays_as_it_was_handed_out(sample, kept):
    """Outputs, gradients of inputs and weights of two calls, while four more follow with other numbers."""
    if kept:
        keep_freed_memory()
    module, _ = sample.make()
    module.train()

    def results(seed):
        inputs = sample.make(seed)[1]
        y = module(*inputs)
        dy = np.random.default_rng(seed).standard_normal(np.shape(y)).astype(np.float32)
        dx = module.backward(float(dy) if sample.loss else dy)
        weights = [part.weights for _, part in module.named_modules() if getattr(part, "weights", None) is not None]
        return [x for x in (y, *(dx if isinstance(dx, tuple) else (dx,)), *weights) if x is not None]

    first, second = results(0), results(1)
    before = copy.deepcopy((first, second))
    for seed in range(2, 6):
        results(seed)
        module.eval()(*sample.make(seed)[1])
        module.train()
    for now, then in zip((*first, *second), (*before[0], *before[1])):
        np.testing.assert_array_equal(now, then)
    assert not any(np.shares_memory(a, b) for a, b in zip(first, second) if np.ndim(a))
