"""Training with MPI: the ranks compute what one process computes, and an error on one of them stops all."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from helpers.commands import python

from numpy_transformer.training.checkpoint import read_checkpoint

pytestmark = pytest.mark.slow               # each test starts mpiexec
CASES = Path(__file__).with_name("mpi_cases.py")
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
TRAIN = ("train", "lm", "--d-model", "16", "--num-heads", "2", "--num-layers", "1", "--d-ff", "16", "--warmup", "1",
         "--batch-size", "8", "--context", "16", "--dropout", "0.1", "--validate-every", "10", "--workers", "1")


@pytest.fixture(scope="module")
def mpiexec():
    """The mpiexec of the environment that runs the tests, or else any."""
    pytest.importorskip("mpi4py")
    own = Path(sys.executable).with_name("mpiexec")
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("there is no mpiexec")
    return found


def start(mpiexec, ranks, *words, folder):
    """The finished process. A rank that waits forever fails the test after a minute."""
    return subprocess.run([mpiexec, "-n", str(ranks), sys.executable, *map(str, words)], cwd=folder, text=True,
                          capture_output=True, timeout=60, env=os.environ | {"PYTHONPATH": PATHS})


def run(mpiexec, ranks, case, folder):
    """What each rank saw. Only the first one prints, and its progress is shown once."""
    folder.mkdir(exist_ok=True)
    done = start(mpiexec, ranks, CASES, case, folder, folder=folder)
    assert done.returncode == 0, done.stderr
    lines = [line.split("/")[0] for line in done.stderr.splitlines() if line.startswith("train: ")]
    assert len(lines) == len(set(lines))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def assert_close(ours, wanted, tolerance):
    """Weights and losses, relative to the norm of each array and to each loss."""
    assert [row["step"] for row in ours["history"]] == [row["step"] for row in wanted["history"]]
    for row, other in zip(ours["history"], wanted["history"]):
        assert row["tokens"] == other["tokens"] and row.keys() == other.keys()
        for name in ("loss", "norm", "validation"):
            assert row.get(name, 0) == pytest.approx(other.get(name, 0), rel=tolerance)
    for name, array in wanted["weights"].items():
        if not name.endswith("key.bias"):       # its gradient is rounding error, which Adam turns into steps
            difference = np.linalg.norm(np.subtract(ours["weights"][name], array))
            assert difference <= tolerance * np.linalg.norm(array), name


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["ignored", "pairs", "lora"])
def test_any_number_of_ranks_computes_what_one_process_computes(mpiexec, ranks, kind, tmp_path):
    from mpi_cases import train

    wanted = json.loads(json.dumps(train(kind, None)))
    for seen in run(mpiexec, ranks, f"train {kind} 1", tmp_path):
        assert_close(seen, wanted, 1e-12)


@pytest.mark.parametrize("ranks, workers", [(2, 1), (3, 1), (2, 2)])
def test_ranks_draw_like_the_workers_of_one_process_and_each_run_gives_the_same_bits(mpiexec, ranks, workers, tmp_path):
    from mpi_cases import train

    seen = run(mpiexec, ranks, f"train dropout {workers}", tmp_path)
    assert all(rank == seen[0] for rank in seen)
    assert seen == run(mpiexec, ranks, f"train dropout {workers}", tmp_path)
    assert_close(seen[0], json.loads(json.dumps(train("dropout", None, workers=ranks * workers))), 1e-12)
    other = train("dropout", None, workers=1)
    assert abs(other["history"][-1]["loss"] - seen[0]["history"][-1]["loss"]) > 1e-6


@pytest.mark.parametrize("case", ["error_in_batches", "error_in_forward", "error_in_validation", "error_after_step"])
def test_an_error_on_one_rank_stops_all(mpiexec, case, tmp_path):
    seen = run(mpiexec, 3, case, tmp_path)
    assert seen[1] == {"error": "FloatingPointError", "text": "only here"}
    for rank in (0, 2):
        assert seen[rank] == {"error": "RankError",
                              "text": "all ranks stop, since rank 1 raised FloatingPointError: only here"}


def test_a_checkpoint_that_cannot_be_saved_stops_all_ranks(mpiexec, tmp_path):
    seen = run(mpiexec, 2, "error_in_save", tmp_path)
    assert [rank["error"] for rank in seen] == ["FileNotFoundError", "RankError"] or \
        [rank["error"] for rank in seen] == ["OSError", "RankError"]
    assert "cannot save" in seen[0]["text"] and "cannot save" in seen[1]["text"]


def test_a_loss_that_is_nan_on_one_rank_stops_all_with_the_same_step(mpiexec, tmp_path):
    for seen in run(mpiexec, 3, "loss_of_one_rank_is_nan", tmp_path):
        assert seen["error"] == "ValueError" and "step 1: the loss is nan" in seen["text"]


@pytest.mark.parametrize("case, sentence", [
    ("steps_differ", "the arguments of fit of rank 1, 2 differ from those of rank 0"),
    ("seeds_differ", "the weights of rank 2 differ from those of rank 0"),
    ("batches_differ", "the batches of rank 2 differ from those of rank 0")])
def test_ranks_that_train_something_else_are_refused(mpiexec, case, sentence, tmp_path):
    for seen in run(mpiexec, 3, case, tmp_path):
        assert seen["error"] == "ValueError" and sentence in seen["text"]


def test_arguments_that_are_wrong_on_one_rank_stop_all(mpiexec, tmp_path):
    seen = run(mpiexec, 3, "plans_are_wrong_on_one_rank", tmp_path)
    assert seen[1]["error"] == "ValueError" and "steps must be" in seen[1]["text"]
    assert seen[0]["error"] == seen[2]["error"] == "RankError"


def test_weights_that_differ_by_a_bit_are_not_saved(mpiexec, tmp_path):
    for seen in run(mpiexec, 3, "weights_differ", tmp_path):
        assert seen["error"] == "ValueError" and "the weights of rank 1 differ from those of rank 0" in seen["text"]
    assert not (tmp_path / "run.npz").exists()


def test_a_ctrl_c_on_one_rank_stops_all_after_the_same_step_and_saves(mpiexec, tmp_path):
    texts = {seen["text"] for seen in run(mpiexec, 3, "ctrl_c_on_one_rank", tmp_path)}
    assert len(texts) == 1 and texts.pop().startswith("stopped after step 4, saved in")
    arrays, meta = read_checkpoint(tmp_path / "run.npz")
    assert meta["step"] == 4 and meta["ranks"] == 3


@pytest.mark.parametrize("first, second", [(2, 2), (1, 3), (3, 1)])
def test_a_run_is_resumed_with_the_same_bits_or_with_another_number_of_ranks(mpiexec, first, second, tmp_path):
    from mpi_cases import make
    from test_data_parallel import batch, language_model

    run(mpiexec, first, "save", tmp_path)
    assert all(seen["error"] is None for seen in run(mpiexec, second, "resume", tmp_path))
    arrays, meta = read_checkpoint(tmp_path / "resumed.npz")
    assert meta["step"] == 6 and arrays["history/step"].tolist() == [1, 2, 3, 4, 5, 6]
    whole = make(language_model(0.3), None, workers=first)
    whole.fit(batch, 6)
    near = [np.linalg.norm(arrays[f"model/{name}"] - array) <= 1e-12 * np.linalg.norm(array)
            for name, array in whole.model.state_dict().items() if not name.endswith("key.bias")]
    assert all(near) if first == second else not all(near)  # other dropout masks


def test_another_number_of_ranks_may_have_another_number_of_workers(mpiexec, tmp_path):
    run(mpiexec, 2, "save_with_two_workers", tmp_path)
    assert read_checkpoint(tmp_path / "run.npz")[1]["workers"] == 2
    (seen,) = run(mpiexec, 1, "resume", tmp_path)           # with one worker
    assert seen["error"] is None and read_checkpoint(tmp_path / "resumed.npz")[1]["workers"] == 1
    first, second = run(mpiexec, 2, "resume", tmp_path)
    assert "workers: 2 in the file, 1 here" in first["text"] and "workers: 2 in the file, 1 here" in second["text"]


def test_the_ranks_of_one_machine_share_its_cores(mpiexec, tmp_path):
    for seen in run(mpiexec, 3, "cores_are_shared", tmp_path):
        assert seen == {"error": "ArithmeticError", "text": "[2, 2]"}


# the command

def command(mpiexec, ranks, *words, folder):
    return start(mpiexec, ranks, "-m", "numpy_transformer", *words, folder=folder)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog.\n" * 60)
    return path


def test_the_command_trains_and_resumes_and_prints_each_line_once(mpiexec, text, tmp_path):
    done = command(mpiexec, 2, *TRAIN, "--steps", 20, "--text", text, "--out", "run.npz", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on 2 MPI ranks") == done.stdout.count("saved 'run.npz' at step 20") == 1
    assert done.stderr.count("lm: 20/20") == 1
    done = command(mpiexec, 3, "train", "lm", "--resume", "--steps", 30, "--out", "run.npz", folder=tmp_path)
    assert done.returncode == 0 and done.stdout.count("resuming at step 20") == 1
    meta = read_checkpoint(tmp_path / "run.npz")[1]
    assert meta["step"] == 30 and meta["ranks"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.npz", "text.txt"]


@pytest.mark.parametrize("words, sentence", [
    (["--out", "text.txt"], "'text.txt' exists already"),
    (["--d-model", "15"], "d_model = 15 is not divisible by num_heads = 2"),
    (["--lr", "1e30", "--clip", "0"], "not a finite number"),
    (["--steps", "none"], "'none' is not a whole number")])
def test_bad_input_gets_one_sentence_and_exit_code_2(mpiexec, text, tmp_path, words, sentence):
    done = command(mpiexec, 2, *TRAIN, "--steps", 20, "--text", text, "--out", "run.npz", *words, folder=tmp_path)
    lines = [line for line in done.stderr.splitlines() if line.startswith("numpy-transformer train")]
    assert done.returncode == 2 and len(lines) == 1 and sentence in lines[0] and "Traceback" not in done.stderr


def test_the_benchmark_times_ranks_in_turns_with_ours(mpiexec, tmp_path):
    done = python("-m", "numpy_transformer", "bench", "--config", "tiny", "--mpi", "2", "--rounds", "1",
                  "--json", "-", cwd=ROOT, timeout=100)
    (row,) = json.loads(done.stdout)
    assert row["ranks"] == 2 and row["mpi_ms"] > 0 and row["ratio_mpi"] == row["mpi_ms"] / row["ours_ms"]
    assert f"on 2 ranks; MPI / ours {row['ratio_mpi']:.2f}" in done.stderr
