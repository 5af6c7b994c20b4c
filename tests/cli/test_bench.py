"""The command bench: its rows, pictures and errors, and the processes that it starts."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from helpers.commands import refused, run
from helpers.small_configs import SMALL

from numpy_transformer.bench import decoding, measure, scaling as growth
from numpy_transformer.bench.configs import CONFIGS
from numpy_transformer.bench.other_libraries import RIVALS
from numpy_transformer.cli import bench

TORCH = importlib.util.find_spec("torch") is not None
KEYS = {"config", "ours_ms", "floor_ms", "ratio_floor", "threads", "processor", "kernels", "variables", "gflops"}


@pytest.fixture
def small(monkeypatch):
    """The command with small models and short turns."""
    monkeypatch.setattr("numpy_transformer.cli.bench.CONFIGS", SMALL)
    monkeypatch.setattr("numpy_transformer.cli.bench.measure_config", partial(measure.measure_config, turn=0.001))
    monkeypatch.setattr("numpy_transformer.cli.bench.matmul_speeds",
                        lambda rivals, threads: {"NumPy": {1: 187.4, threads: 377.2}})


@pytest.fixture
def children(monkeypatch):
    """Every child process that the benchmark starts. None may be left at the end, neither alive nor as a zombie."""
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


@pytest.mark.slow
def test_rows_of_all_configurations(capsys, small, tmp_path):
    code, out, err = run(capsys, "bench", "--rounds", 2, "--threads", 2, "--json", tmp_path / "rows.json")
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert code == 0 and [row["config"] for row in rows] == list(SMALL)
    for row, config in zip(rows, SMALL.values()):
        check_row(row, config)
        assert row["threads"] == 2 and row["rivals"] == [] and row["gflops"] == {"NumPy": {"1": 187.4, "2": 377.2}}
        assert f"\n{config.name}: {row['parameters']:,} parameters" in out
        assert f"ours / matmuls {row['ratio_floor']:.2f}" in out
    assert "torch" not in out and "bench: 10/10" in err
    assert "matmul (2,048, 384) @ (384, 1,536): NumPy 187 on 1 thread, 377 on 2 threads" in " ".join(out.split())


@pytest.mark.slow
def test_rows_on_standard_output_beside_torch(capsys, monkeypatch, request):
    """With the real child process and so the real configuration tiny."""
    pytest.importorskip("torch")
    request.getfixturevalue("children")
    monkeypatch.setattr("numpy_transformer.cli.bench.measure_config", partial(measure.measure_config, turn=0.001))
    code, out, err = run(capsys, "bench", "--config", "tiny", "--vs", "torch", "--rounds", 1, "--threads", 1,
                         "--json", "-")
    (row,) = json.loads(out)
    check_row(row, CONFIGS["tiny"])
    assert code == 0 and row["torch_ms"] > 0 and row["ratio_torch"] == row["ours_ms"] / row["torch_ms"]
    assert row["workers"] == 1 and f"ours / torch {row['ratio_torch']:.2f}" in err
    assert set(row["gflops"]) == {"NumPy", "PyTorch"} and all(found["1"] > 0 for found in row["gflops"].values())
    assert row["ratio_best"] == row["ratio_torch"] and err.split()[-3:] == [
        "tiny", f"{row['ratio_torch']:.2f}", f"{row['ratio_torch']:.2f}", f"{row['ratio_floor']:.2f}"][-3:]


@pytest.mark.slow
@pytest.mark.parametrize("rival", ["compile", "jax"])
def test_the_other_rivals_run(capsys, monkeypatch, rival):
    if RIVALS[rival].missing():
        pytest.skip(RIVALS[rival].missing())
    monkeypatch.setattr("numpy_transformer.cli.bench.measure_config", partial(measure.measure_config, turn=0.001))
    code, out, err = run(capsys, "bench", "--config", "tiny", "--vs", rival, "--rounds", 1, "--threads", 1, "--json", "-")
    (row,) = json.loads(out)
    check_row(row, CONFIGS["tiny"])
    assert code == 0 and row[f"ratio_{rival}"] == row["ours_ms"] / row[f"{rival}_ms"] == row["ratio_best"] > 0


@pytest.mark.slow
def test_decoding_rows(capsys, monkeypatch):
    class Quick:
        size = 1

        def __init__(self, module, name, threads):
            assert module == "torch_baseline" and name in ("decoding-4", "decoding-8") and threads == 1

        def times(self, count):
            return [0.5] * count

        def close(self):
            pass

    monkeypatch.setattr("numpy_transformer.cli.bench.LENGTHS", (4, 8))
    monkeypatch.setattr(decoding, "best_process", Quick)
    arguments = ["bench", "--decoding", "--tokens", 2, "--rounds", 1, "--threads", 1, "--json", "-"]
    code, out, err = run(capsys, *arguments)
    rows = json.loads(out)
    assert code == 0 and [row["length"] for row in rows] == [4, 8] and "torch" not in err
    assert all(row["cached_ms"] > 0 and row["uncached_ms"] > 0 for row in rows)
    assert all(row["torch_ms"] is row["rate_over_torch"] is None for row in rows)
    assert "linear growth would be 2 times" in " ".join(err.split())
    if TORCH:
        _, out, err = run(capsys, *arguments, "--vs", "torch")
        assert all(row["rate_over_torch"] == 0.5 / row["cached_ms"] for row in json.loads(out))
        assert "our rate / torch" in err


@pytest.mark.slow
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


def test_results_fit_the_terminal_and_count_in_the_singular(monkeypatch):
    row = {"config": "nanogpt-cpu", "parameters": 804_096, "tokens_per_second": 12_345.6, "peak_mb": 48.1, "workers": 1,
           "blas_threads": 1, "torch_threads": 1, "ranks": 2, "ours_ms": 293.891, "floor_ms": 197.96, "torch_ms": 283.38,
           "rivals": ["torch"], "mpi_ms": 250.0, "ours_quartiles_ms": [288.641, 299.14], "torch_quartiles_ms": [227.29, 339.48],
           "ratio_floor": 1.4846, "ratio_torch": 1.0371, "ratio_mpi": 0.8507,
           "shares": {"Linear": 0.69, "ScaledDotProductAttention": 0.17, "LayerNorm": 0.13, "Dropout": 0.01}}
    for width in ("60", "100"):
        monkeypatch.setenv("COLUMNS", width)
        text = bench.description(row)
        assert max(map(len, text.splitlines())) <= int(width) and "1 threads" not in text and "Dropout" not in text
        words = " ".join(text.split())
        assert "ours 293.89 ms (288.64 to 299.14), 1 BLAS thread matmuls 197.96 ms" in words
        assert "1 thread; ours / torch 1.04" in words and "on 2 ranks; MPI / ours 0.85" in words
    assert "2 workers with 1 BLAS thread each" in bench.description(row | {"workers": 2})


def test_the_ratios_of_all_models_are_one_table():
    row = {"config": "tiny", "rivals": ["torch", "jax"], "ratio_torch": 0.71, "ratio_jax": 1.02, "ratio_best": 1.02,
           "ratio_floor": 3.38}
    headings, *lines = bench.ratios([row, row | {"config": "mid", "ratio_jax": 0.431}]).splitlines()
    assert headings.split() == "ours / torch jax best of them matmuls alone".split()
    assert [line.split() for line in lines] == [["tiny", "0.71", "1.02", "1.02", "3.38"],
                                                ["mid", "0.71", "0.43", "1.02", "3.38"]]


@pytest.mark.parametrize("variables", [{}, {"OPENBLAS_CORETYPE": "Haswell"},
                                       {"OPENBLAS_CORETYPE": "Zen", "OPENBLAS_L2_SIZE": "512"}])
def test_variables_that_slow_numpy_down_are_named_and_the_remedy_too(capsys, monkeypatch, variables):
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(bench.MODES, "growth", lambda arguments, out: [{"T": 1}])
    code, out, err = run(capsys, "bench", "--growth", "--json", "-")
    (row,), words = json.loads(out), " ".join(err.split())
    assert code == 0 and row["T"] == 1 and row["variables"] == variables
    assert row["kernels"] in words and row["processor"] in words
    assert ("Warning" in words) == bool(variables)
    assert all(f"{name}={value}" in words for name, value in variables.items())
    assert ("`env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE numpy-transformer bench`" in words) == bool(variables)


def test_a_table_that_is_too_wide_repeats_its_first_column(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    headings, rows = ["length", *"abcdefg"], [["64", *["x" * 10] * 7], ["1024", *["y" * 10] * 7]]
    whole = bench.aligned_table(headings[:5], [row[:5] for row in rows]).splitlines()
    assert len(whole) == 3 and [len(line) for line in whole] == [56] * 3
    first, second = bench.aligned_table(headings, rows).split("\n\n")
    assert first.splitlines() == whole
    assert [line.split()[0] for line in second.splitlines()] == ["length", "64", "1024"]
    assert [line.split()[1:] for line in second.splitlines()] == [["e", "f", "g"], ["x" * 10] * 3, ["y" * 10] * 3]


@pytest.mark.parametrize("options, match", [
    (["--config", "huge"], "'huge'"), (["--config", "tiny", "huge"], "nanogpt-cpu"),
    (["--threads", "0"], "'0' is not a whole number of at least 1"), (["--rounds", "0"], "--rounds"),
    (["--tokens", "-1"], "--tokens"), (["--vs", "tensorflow"], "jax"), (["--decoding", "--growth"], "not allowed with"),
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


@pytest.mark.parametrize("installed, options, match", [
    ((), ["--vs", "torch"], "--vs torch: torch is not installed here; pip install torch, or leave torch out"),
    ((), ["--decoding", "--vs", "torch"], "--vs torch: torch is not installed here"),
    (("torch", "jax"), ["--vs", "torch", "jax"], "--vs jax: optax is not installed here; pip install optax, or leave jax out"),
    (("torch",), ["--vs", "jax"], "--vs jax: jax and optax are not installed here; pip install jax optax"),
    (("torch",), ["--vs", "compile"], "--vs compile: the compiler g++ is not installed here; install it, or leave compile out"),
    (("jax", "optax"), ["--decoding", "--vs", "jax"], "--vs jax would have no effect with --decoding; leave jax out"),
    (("jax", "optax"), ["--config", "tiny", "minilm", "--vs", "jax"], "--vs jax would have no effect on minilm; leave jax out")])
def test_rivals_that_are_missing_or_without_effect_are_refused(capsys, monkeypatch, installed, options, match):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name in installed or None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert match in refused(capsys, "bench", *options)


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_timed(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("numpy_transformer.cli.bench.measure_config", None)
    assert "rows.json" in refused(capsys, "bench", "--json", tmp_path / "missing" / "rows.json")
    assert str(tmp_path) in refused(capsys, "bench", "--json", tmp_path)


@pytest.fixture
def broken(monkeypatch):
    """The child process ends at once."""
    monkeypatch.setattr(measure, "__package__", "numpy_transformer.nowhere")


@pytest.mark.slow
def test_a_process_that_cannot_start_is_one_line_and_leaves_no_zombie(capsys, broken, children, small, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    line = refused(capsys, "bench", "--config", "tiny", "--vs", "torch")
    assert "a child process of the benchmark has ended" in line and "leave out --vs or --mpi" in line


def test_a_process_that_ends_between_two_turns_is_an_error_too(children):
    process = measure.BenchmarkProcess([sys.executable, "-c", "print(3, flush=True); input()"])
    assert process.size == 3
    children[0].stdin.write("\n")
    children[0].stdin.flush()
    children[0].wait()                          # its pipe is broken before it is asked
    with pytest.raises(OSError, match="a child process of the benchmark has ended"):
        process.times(1)
    process.close()


@pytest.mark.slow
def test_ctrl_c_ends_both_processes_without_a_traceback(tmp_path):
    """As a terminal sends it: to everything that the command started in its own group."""
    pytest.importorskip("torch")
    seen = set()                                # the children so far; those that have ended have no maps

    def has_torch(child):
        maps = Path(f"/proc/{child}/maps")
        with contextlib.suppress(OSError):
            return "libtorch" in maps.read_text()

    command = subprocess.Popen([sys.executable, "-m", "numpy_transformer", "bench", "--config", "tiny", "--vs", "torch",
                                "--rounds", "1000000"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        if not children.exists():
            pytest.skip("no /proc that shows the child")
        while not any(map(has_torch, seen)) and command.poll() is None:     # it would print a traceback by now
            time.sleep(0.01)
            seen.update(children.read_text().split())
        os.killpg(command.pid, signal.SIGINT)
        out, err = command.communicate(timeout=60)
    finally:
        command.kill()
        command.communicate()
    assert command.returncode == 130 and err == "\nnumpy-transformer bench: interrupted\n"
    assert "tiny" not in out and seen and not any(Path(f"/proc/{child}").exists() for child in seen)


@pytest.mark.slow
def test_explorer_measures_pages(capsys, monkeypatch, tmp_path):
    from numpy_transformer.explorer import measure as explorer

    monkeypatch.setattr(explorer, "MODELS", ("decoder",))
    monkeypatch.setattr(explorer, "find_browser", lambda: (None, "there is none"))
    monkeypatch.setattr("numpy_transformer.explorer.session.LARGEST_PROOF", 0)
    monkeypatch.setattr("numpy_transformer.explorer.session.possibilities", lambda example: {"can": {}, "bugs": []})
    path = tmp_path / "rows.json"
    code, out, _ = run(capsys, "bench", "--explorer", "--rounds", 2, "--json", path)
    (row,) = json.loads(path.read_text())
    assert code == 0 and "was not measured: there is none." in " ".join(out.split())
    assert row["page_bytes"] > row["document_bytes"] > 100_000 and row["recompute_ms"] > 0 and row["ready_ms"] is None
    assert f"{row['parameters']:,}" in out and f"{row['page_bytes'] / 1e6:.2f}" in out and row["processor"] in " ".join(out.split())
    larger = CONFIGS[explorer.LARGER]
    assert explorer.make_session(larger.name).base.values["input:ids"].array.shape == (1, larger.length)
    assert "--config would have no effect with --explorer" in refused(capsys, "bench", "--explorer", "--config", "tiny")
