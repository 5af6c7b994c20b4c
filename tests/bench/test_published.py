"""The benchmark of published models: their sizes, the jobs of both sides, and the rows that compare them."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.small_configs import SMALL_PUBLISHED

from numpy_transformer.bench import child_process as child, jobs, published_models as published
from numpy_transformer.bench.configs import CONFIGS, PUBLISHED
from numpy_transformer.cli import bench
from numpy_transformer.module import unfilled

EVERY_JOB = [(name, job) for name in PUBLISHED for job in CONFIGS[name].jobs]


@pytest.mark.parametrize("name, count", [
    ("gpt2-small", 124_439_808),                            # as transformers counts GPT2LMHeadModel
    ("minilm", 22_713_216 - 384 * 385)])                    # as transformers counts BertModel, without the pooler
def test_models_have_the_number_of_weights_of_the_published_ones(name, count):
    with unfilled():
        model = CONFIGS[name].model()
    assert model.num_parameters() == count


def test_a_model_gets_random_weights():
    model = jobs.model_of(SMALL_PUBLISHED["gpt2-small"])
    for name, parameter in model.named_parameters():
        assert parameter.data.dtype == np.float32 and parameter.data.std() > 0
        assert abs(parameter.data.mean() - name.endswith("gamma")) < 0.1 and abs(parameter.data).max() < 1.2, name


@pytest.mark.parametrize("name, job", EVERY_JOB)
def test_every_job_answers_with_its_times_and_its_memory(monkeypatch, capsys, name, job):
    monkeypatch.setitem(jobs.CONFIGS, name, SMALL_PUBLISHED[name])
    told = []
    monkeypatch.setattr(jobs, "set_blas_threads", told.append)
    monkeypatch.setattr("sys.stdin", io.StringIO("2\nmemory\n"))
    jobs.main(name, "3", job)
    threads, times, peak = map(json.loads, capsys.readouterr().out.splitlines())
    assert told == [3] and threads == 3 and len(times) == 2 and min(times) > 0
    assert peak is None or peak > 10


@pytest.mark.slow
@pytest.mark.parametrize("name, job", EVERY_JOB)
def test_every_job_runs_in_pytorch(name, job):
    torch = pytest.importorskip("torch")
    from numpy_transformer.bench import torch_baseline

    torch.manual_seed(0)
    assert len(torch_baseline.JOBS[job](SMALL_PUBLISHED[name])(2)) == 2


def load(torch, model, theirs, rename):
    """Copies our weights into PyTorch's model: matrices transposed, the projections of q, k and v joined."""
    state = model.state_dict()
    arrays = {}
    for name, array in state.items():
        name, kind = rename(name), next((kind for kind in ("query", "key", "value") if f".{kind}." in name), None)
        name = name.replace(f".{kind}.", ".project.0.") if kind else name
        array = array if "norm" in name or name.split(".")[0] in ("embedding", "positions", "segments") else array.T
        arrays[name] = np.concatenate([arrays[name], array]) if name in arrays else array
    own = dict(theirs.named_parameters())
    assert set(own) == set(arrays)
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(torch.from_numpy(arrays[name]))


RENAMED = (("encoder.blocks", "blocks"), ("feed_forward.", ""), ("norm1", "norms.0"), ("norm2", "norms.1"),
           ("embedding_norm", "norm"), ("gamma", "weight"), ("beta", "bias"))


def renamed(name, kind):
    for ours, theirs in RENAMED:
        if not (kind == "lm" and ours == "encoder.blocks"):
            name = name.replace(ours, theirs)
    return name


@pytest.mark.parametrize("name", PUBLISHED)
def test_pytorch_computes_what_we_compute(name):
    torch = pytest.importorskip("torch")
    from numpy_transformer.bench import torch_models

    config = replace(SMALL_PUBLISHED[name], length=6)
    model = config.model()
    rng = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data = rng.standard_normal(parameter.data.shape)
    theirs = torch_models.MODELS[config.kind](config).eval()
    load(torch, model.eval(), theirs, lambda name: renamed(name, config.kind))
    (ids,), _ = config.batch_of_ids()
    ours = model.embed(ids) if config.kind == "encoder" else model(ids)
    if config.kind == "encoder":
        assert (ids == 0).any() and (ids[:, :3] > 0).all()  # padding at the end, so that the masks are compared
    with torch.inference_mode():
        found = theirs(torch.from_numpy(ids)).numpy()
    assert found.shape == ours.shape
    np.testing.assert_allclose(ours, found, atol=2e-5 * abs(found).max())


class Fake:
    """A child process whose times are always the same."""

    started = []

    def __init__(self, module, *arguments):
        self.name, self.size, self.closed = module, 2, False
        self.started.append((module, *arguments))

    def times(self, count):
        return [{"jobs": 30.0, "torch_baseline": 40.0}[self.name]] * count

    def peak_mb(self):
        return {"jobs": 600.0, "torch_baseline": 800.0}[self.name]

    def close(self):
        self.closed = True


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(Fake, "started", [])
    monkeypatch.setattr(published, "python_process", Fake)
    monkeypatch.setattr("numpy_transformer.bench.measure.REST", 0)
    return Fake


def test_rows_compare_times_and_memory(fake):
    row = published.measure_job(CONFIGS["gpt2-small"], "decode", 2, with_torch=True, turn=0.1, rounds=4)
    assert fake.started == [("jobs", "gpt2-small", 2, "decode"), ("torch_baseline", "gpt2-small", 2, "decode")]
    assert row["parameters"] == 124_439_808
    assert row["ratio_torch"] == 0.75 and row["ratio_quartiles"] == [0.75, 0.75] and row["ratio_peak"] == 0.75
    assert (row["config"], row["job"], row["ours_ms"], row["torch_ms"]) == ("gpt2-small", "decode", 30, 40)
    alone = published.measure_job(CONFIGS["minilm"], "embed", 1, turn=0.1, rounds=1)
    assert "torch_ms" not in alone and alone["ours_peak_mb"] == 600


def test_rounds_are_compared_with_each_other():
    assert published.by_round([1, 2, 3, 4, 5, 6], 3) == [[1, 2], [3, 4], [5, 6]]


def test_the_command_shows_every_job(capsys, fake, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr(bench, "matmul_speeds", lambda rivals, threads: {})
    code, out, err = run(capsys, "bench", "--config", *PUBLISHED, "--vs", "torch", "--rounds", 2, "--threads", 1,
                         "--json", tmp_path / "rows.json")
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert code == 0 and [(row["config"], row["job"]) for row in rows] == EVERY_JOB and "bench: 8/8" in err
    words = " ".join(out.split())
    assert words.count("time 0.75, of single rounds 0.75 to 0.75; peak memory 0.75") == len(EVERY_JOB)
    assert all(f"{name}, {published.TITLES[job]}" in words for name, job in EVERY_JOB)
    assert max(map(len, out.splitlines())) <= 80


def test_mpi_is_refused_where_it_has_no_effect(capsys, monkeypatch):
    monkeypatch.setattr(bench, "check_cores", lambda option, number: None)
    monkeypatch.setattr(bench, "find_mpiexec", lambda: "mpiexec")
    assert "--mpi would have no effect on minilm; leave it out" in refused(capsys, "bench", "--config", "minilm", "--mpi")


@pytest.mark.slow
def test_peak_memory_counts_what_was_freed():
    before = child.peak_memory_of_process()
    if before is None:
        pytest.skip("this system does not say")
    np.ones(40_000_000)                         # 320 MB
    assert child.peak_memory_of_process() > 300
