"""How the benchmark takes turns, chooses threads, counts tokens and reads slopes."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.small_configs import SMALL

import numpy_transformer as nt
from numpy_transformer.bench import decoding, measure, scaling as growth
from numpy_transformer.bench.configs import CONFIGS


def test_the_configurations_have_the_sizes_of_the_published_results():
    """Layers, heads, d, d_ff, T, B, V and dropout: with other sizes, the tables of results would no longer compare."""
    found = {c.name: (c.layers, c.heads, c.d_model, c.d_ff, c.length, c.batch, c.vocab, c.dropout)
             for c in CONFIGS.values()}
    assert found == {"tiny": (2, 4, 64, 256, 32, 8, 65, 0), "nanogpt-cpu": (4, 4, 128, 512, 64, 12, 65, 0),
                     "mid": (6, 6, 384, 1536, 128, 16, 65, 0), "seq2seq": (2, 4, 128, 512, 32, 16, 1000, 0.1),
                     "classifier": (2, 4, 64, 256, 200, 64, 10_000, 0.1),
                     "minilm": (6, 12, 384, 1536, 24, 32, 30_522, 0), "gpt2-small": (12, 12, 768, 3072, 128, 4, 50_257, 0)}


def test_each_configuration_makes_its_model_and_batch():
    kinds = [nt.CausalLanguageModel] * 3 + [nt.EncoderDecoder, nt.SequenceClassifier]
    assert [type(config.model()) for config in SMALL.values()] == kinds
    for config in SMALL.values():
        inputs, targets = config.batch_of_ids()
        assert len(inputs) == 1 + (config.kind == "seq2seq") and {x.shape for x in inputs} == {(3, 5)}
        assert targets.shape == ((3,) if config.kind == "classifier" else (3, 5))


def test_turns_are_taken_side_by_side(monkeypatch):
    """D C B A A B C D: the given number of rounds, after three steps that warm each side up."""
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

    def best_process(module, name, threads, turn):
        return Side([module, name, threads, turn])

    def timer(step, timer=measure.timer):
        if isinstance(step, str):
            return lambda count: turns.append(step) or [1.0] * count
        return lambda count: turns.append("ours") or timer(step)(count)

    monkeypatch.setattr(measure, "BenchmarkProcess", Side)
    monkeypatch.setattr(measure, "best_process", best_process)
    monkeypatch.setattr(measure, "best_threads", lambda *_: 2)
    monkeypatch.setattr(measure, "find_mpiexec", lambda: "mpiexec")
    monkeypatch.setattr(measure, "timer", timer)
    monkeypatch.setattr(measure, "matmul_baselines", lambda *_: ("blas", "split"))
    row = measure.measure_config(SMALL["tiny"], 2, ["torch"], turn=0.001, rounds=3, ranks=5)
    torch, mpi, *turns = turns
    assert torch == ["torch_baseline", "tiny", 2, 0.001]
    assert mpi == ["mpiexec", "-n", "5", sys.executable, "-m", "numpy_transformer.bench.mpi_steps", "tiny"]
    order = ["ours", "blas", "split", "torch", "mpi"]
    assert turns == order + order[::-1] + order + order[::-1] + ["closed"] * 2
    assert row["torch_ms"] == row["floor_ms"] == row["mpi_ms"] == 1 and row["threads"] == 2 and row["ranks"] == 5
    assert row["ratio_mpi"] == 1 / row["ours_ms"]


def test_the_best_rival_is_the_fastest(monkeypatch):
    class Side:
        def __init__(self, module, *_):
            milliseconds = {"torch_baseline": 9.0, "compile_baseline": 3.0, "jax_baseline": 4.0}[module]
            self.size, self.times = 1, lambda count: [milliseconds] * count

        def close(self):
            pass

    monkeypatch.setattr(measure, "best_process", Side)
    monkeypatch.setattr(measure, "REST", 0)
    row = measure.measure_config(SMALL["tiny"], 1, ["torch", "compile", "jax"], turn=0.001, rounds=1)
    assert [row[f"{name}_ms"] for name in row["rivals"]] == [9, 3, 4]
    assert row["ratio_best"] == row["ratio_compile"] == row["ours_ms"] / 3


@pytest.mark.parametrize("better", [1, 2])
def test_a_rival_gets_its_better_number_of_threads_and_the_other_process_ends(monkeypatch, better):
    open_sides = []

    class Side:
        def __init__(self, module, name, threads):
            self.size = threads
            open_sides.append(self)

        def times(self, count):
            if broken:
                raise OSError("it has ended")
            return [1.0 if self.size == better else 1.5] * (count - 1) + [9.0]

        def close(self):
            open_sides.remove(self)

    monkeypatch.setattr(measure, "python_process", Side)
    broken = False
    assert measure.best_process("jax_baseline", "tiny", 2, 0.01).size == better
    assert [side.size for side in open_sides] == [better]
    broken, open_sides = True, []
    with pytest.raises(OSError, match="it has ended"):
        measure.best_process("jax_baseline", "tiny", 2, 0.01)
    assert open_sides == []


@pytest.mark.slow
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


def test_the_first_step_of_each_turn_does_not_count():
    """It finds the caches full of another candidate's data."""
    def run(count):
        return [100.0] + [1.0] * (count - 1)

    times = measure.in_turns({"ours": run, "theirs": run}, 0.003, 4, lambda: None)
    assert times == {"ours": [1.0] * 12, "theirs": [1.0] * 12}      # 4 turns of 3 ms each


def test_a_slope_is_that_of_the_larger_half():
    rows = [{"T": n, "step_ms": n if n <= 8 else n ** 2 / 8} for n in (1, 2, 4, 8, 16, 32, 64)]
    assert growth.slope(rows, "T", "step_ms") == pytest.approx(2, abs=1e-12)
    assert growth.slope(rows[2:4], "T", "step_ms") == pytest.approx(1, abs=1e-12)       # at least two points


def test_slopes_of_a_power_law_are_its_exponent():
    rows = [{"T": n, "step_ms": (3 if n > 4 else 90) * n ** 1.5, "peak_mb": 7 / n} for n in (1, 2, 4, 8, 16, 32, 64)]
    assert growth.slope(rows, "T", "step_ms") == pytest.approx(1.5, abs=1e-12)      # of the larger half
    assert growth.slope(rows, "T", "peak_mb") == pytest.approx(-1, abs=1e-12)


def test_pytorch_may_use_its_threads(monkeypatch):
    """Whatever the environment sets for this process, both sides get the same number of threads."""
    seen = {}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(subprocess, "Popen", lambda command, **named: seen.update(named, command=command))
    monkeypatch.setattr(measure.BenchmarkProcess, "read", lambda self: 1)
    measure.python_process("torch_baseline", "tiny", 7)
    assert seen["command"][-2:] == ["tiny", "7"]
    assert seen["start_new_session"]            # a Ctrl-C in the terminal is ours to answer
    assert not {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(seen["env"])


@pytest.mark.parametrize("seconds", [0.01, 0.001])         # in 1 ms, two steps are timed after the first
@pytest.mark.parametrize("better", [1, 2])
def test_the_number_of_threads_is_the_one_with_which_it_is_faster(better, seconds):
    threads = [0]

    def run(count):                             # milliseconds; the first is warming up, and now and then one is slow
        return [50.0] + [1.0 if threads[-1] == better else 1.5] * (count - 2) + [9.0]

    assert measure.best_threads(run, threads.append, 2, seconds) == better and set(threads) == {0, 1, 2}
