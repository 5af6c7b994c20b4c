"""Every bug of the zoo is caught by checks that the right components pass; and the command shows it."""

import copy
import math
import re

import numpy as np
import pytest
from helpers import ROOT
from helpers.commands import refused, run
from PIL import Image

import numpy_transformer as nt
from numpy_transformer.checks.registry import CHECKS, OPTIMIZER_SAMPLES, SAMPLES, verdicts
from numpy_transformer.texts.width import columns
from numpy_transformer.zoo import attention, normalization
from numpy_transformer.zoo.bug import Bug, Source, samples_of
from numpy_transformer.zoo.models import MODELS, batch

BUGS = nt.zoo.bugs()
SAME = next(bug.name for bug in BUGS if bug.training.startswith("The losses are exactly the same"))
every_bug = pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)


def covering(bugs):
    """All bugs as parameters: in the default run a few that turn many checks red, in the slow run the others.

    Greedy: the next one is always a bug that turns the most checks red of those that no other has yet, and at least five.
    """
    missing, quick = {check for bug in bugs for check in bug.caught_by}, []
    while True:
        best = max(bugs, key=lambda bug: len(missing & set(bug.caught_by)))
        if len(missing & set(best.caught_by)) < 5:
            return [pytest.param(bug, id=bug.name, marks=[] if bug in quick else [pytest.mark.slow]) for bug in bugs]
        quick.append(best)
        missing -= set(best.caught_by)


@pytest.mark.parametrize("bug", covering(BUGS))
def test_each_bug_fails_exactly_the_checks_that_it_names(bug):
    found = nt.zoo.verdicts(bug.name)
    red = [check for check, failure in found.items() if failure]
    assert red and sorted(red) == sorted(bug.caught_by), found


@pytest.mark.slow
def test_the_models_and_samples_of_the_zoo_are_right_without_a_bug():
    """The other samples are those of the contract test."""
    own = {id(sample): sample for bug in BUGS for sample in samples_of(bug)}
    for sample in [*MODELS, *(s for s in own.values() if s not in [*SAMPLES, *OPTIMIZER_SAMPLES, *MODELS])]:
        assert not any(verdicts(*sample.make()).values()), sample.name


@pytest.mark.parametrize("plain, sample", [
    (plain, sample) for plain in (normalization.PlainLayerNorm, attention.PlainAttention) for sample in SAMPLES
    if sample.name.startswith(plain.__base__.__name__)], ids=lambda value: getattr(value, "name", ""))
def test_what_the_wrong_versions_share_is_right(plain, sample):
    """So of each the lines that are shown are wrong, and no other: without a β and with grouped heads too."""
    thing, inputs = sample.make()
    nt.zoo.apply(Bug("plain", "", plain, "", "", "", (), ()), thing)
    assert isinstance(thing, plain) and not any(verdicts(thing, inputs).values())


@every_bug
def test_an_entry_is_complete_and_changes_one_class(bug):
    assert set(bug.caught_by) <= set(CHECKS) and bug.name == bug.name.lower() and " " not in bug.name
    assert bug.title and not bug.title.endswith(".")
    for text in (bug.symptom, bug.training):                # whole sentences, which may start with a variable
        assert text.endswith(".") and (text[0].isupper() or text.split()[0] in ("dx", "v"))
    assert bug.wrong.__doc__ and issubclass(bug.wrong, bug.target) and "zoo" not in bug.target.__module__
    assert bug.code.startswith(f"class {bug.wrong.__name__}(") and '"""' not in bug.code
    assert "# " in bug.code                                 # the wrong line is pointed at


def test_there_are_many_and_most_were_published():
    assert len(BUGS) >= 40 and len({bug.wrong for bug in BUGS}) == len(BUGS)
    assert sum(bool(bug.seen) for bug in BUGS) >= 40
    assert sum("gradient check" not in bug.caught_by for bug in BUGS) >= 25     # forward and backward wrong together


PROJECTS = {"AI-Hypercomputer/maxtext", "bigscience-workshop/Megatron-DeepSpeed", "fla-org/flash-linear-attention",
            "harvardnlp/annotated-transformer", "huggingface/transformers", "keras-team/keras-hub",
            "LLMs-from-scratch", "meta-pytorch/attention-gym", "minGPT", "ml-explore/mlx-lm", "MLSysBook/TinyTorch",
            "nn-zero-to-hero", "NVIDIA-NeMo/Emerging-Optimizers", "NVIDIA/Megatron-LM", "ollama/ollama", "onnx/onnx",
            "pytorch/torchtitan", "time-series-foundation-models/lag-llama", "unslothai/unsloth-zoo",
            "vllm-project/vllm", "x-transformers"}


@every_bug
def test_only_well_known_projects_are_named(bug):
    """A person's own project is "a published ...", without a name."""
    if isinstance(bug.seen, Source):
        assert bug.seen.project in PROJECTS
        assert re.fullmatch("([0-9a-f]{7,40})?", bug.seen.commit)
        assert bug.seen.reference or (bug.seen.commit and bug.seen.path and bug.seen.place)     # can be looked up
    else:
        assert re.fullmatch("(a published (NumPy Transformer|PyTorch GPT|LLaMA tutorial))?", bug.seen)


def test_a_source_is_printed_without_what_is_unknown():
    assert str(Source("minGPT", reference="issue 10")) == "minGPT, issue 10"
    assert str(Source("a/b", "debc9fd", "c.py", "line 3", "issue 4")) == "a/b, commit debc9fd, c.py, line 3, issue 4"


def red(module, *inputs):
    return CHECKS["gradient check"].failure(module, inputs)


def model(**options):
    return nt.CausalLanguageModel(11, 12, 2, 1, 16, max_len=7, rng=0, **options)


def test_a_bug_is_planted_in_every_part_that_has_it_and_the_weights_stay():
    right = model()
    wrong = nt.zoo.apply("gamma-outside-the-means", copy.deepcopy(right))
    assert wrong is nt.zoo.apply("gamma-outside-the-means", wrong)              # a second time changes nothing
    kinds = [type(part).__name__ for _, part in wrong.named_modules()]
    assert kinds.count("GammaOutside") == 3 and "LayerNorm" not in kinds
    ids = np.array([[1, 2, 3]])
    np.testing.assert_allclose(right.eval()(ids), wrong.eval()(ids), atol=1e-6)
    assert red(wrong, ids) and not red(right, ids) and type(right.decoder.norm) is nt.LayerNorm


@pytest.mark.parametrize("name", ["residual-plus-one", "one-gradient-for-three"])
def test_a_bug_works_in_what_inherits_from_its_target(name):
    """The blocks of a model are Blocks, a SelfAttention is a MultiHeadAttention: what they override stays theirs."""
    wrong = nt.zoo.apply(name, model())
    part = next(part for _, part in wrong.named_modules() if isinstance(part, nt.zoo.find(name).wrong))
    assert isinstance(part, (nt.Block, nt.SelfAttention))
    ids = np.array([[1, 2, 3]])
    np.testing.assert_array_equal(model().eval()(ids), wrong.eval()(ids))
    assert red(wrong, ids)


def test_two_bugs_of_one_class_and_a_table_that_is_built_anew():
    wrong = model(positions="sinusoidal")
    right = wrong.positions.table.copy()
    nt.zoo.apply("sinusoid-base", wrong)
    assert wrong.positions.table.dtype == right.dtype and not np.array_equal(wrong.positions.table, right)
    nt.zoo.apply("no-eps", nt.zoo.apply("mean-path-missing", wrong))
    assert red(wrong, np.array([[1, 2]]))
    norm = nt.LayerNorm(4)
    nt.zoo.apply("no-eps", nt.zoo.apply("mean-path-missing", norm))
    with np.errstate(all="ignore"):
        assert np.isnan(norm(np.ones((2, 4)))).all()
    x, dy = np.random.default_rng(0).standard_normal((2, 2, 4))
    norm(x)
    dx = norm.backward(dy)
    assert abs(dx.sum(-1)).min() > 1e-3


def test_an_optimizer_a_schedule_and_a_loss_take_bugs_too():
    parameter = nt.Parameter(np.zeros(2))
    parameter.grad = np.array([3.0, -5.0])
    nt.zoo.apply("adam-one-beta", nt.Adam([parameter], lr=1.0)).step()
    np.testing.assert_allclose(parameter.data, [-0.1, 0.1], rtol=1e-6)
    optimizer = nt.SGD([nt.Parameter(np.zeros(2)), nt.Parameter(np.zeros(3))], 0.1)
    schedule = nt.zoo.apply("noam-counts-tensors", nt.NoamSchedule(optimizer, 64, 10))
    schedule.step()
    assert schedule.count == 2
    criterion = nt.zoo.apply("loss-divided-twice", nt.CrossEntropyLoss())
    criterion(np.zeros((4, 2)), np.zeros(4, int))
    assert criterion.backward()[0].tolist() == [-0.03125, 0.03125]


@pytest.mark.parametrize("name, thing, sentence", [
    ("residual-plus-two", nt.LayerNorm(4), "there is no bug 'residual-plus-two' .* similar names: residual-plus-one"),
    ("RESIDUAL-PLUS-ONE", nt.LayerNorm(4), "similar names: residual-plus-one"), ("", nt.LayerNorm(4), "; nt.zoo.bugs"),
    (3, nt.LayerNorm(4), "there is no bug 3"), ([], nt.LayerNorm(4), r"there is no bug \[\]"),
    ("no-eps", None, "this NoneType contains none"), ("no-eps", [nt.LayerNorm(4)], "this list contains none"),
    ("residual-plus-one", nt.LayerNorm(4), "is a bug of Block, and this LayerNorm contains none"),
    ("adam-one-beta", nt.LayerNorm(4), "is a bug of Adam, and this LayerNorm contains none")])
def test_what_does_not_fit_is_refused(name, thing, sentence):
    with pytest.raises(ValueError, match=sentence):
        nt.zoo.apply(name, thing)


@pytest.mark.parametrize("bug", [
    pytest.param(bug, id=bug.name, marks=[] if bug.name in ("no-scale", SAME) else [pytest.mark.slow]) for bug in BUGS])
def test_a_race_trains_both_and_the_losses_are_the_same_where_that_is_said(bug):
    right, wrong = zip(*nt.zoo.race(bug.name, 4, seed=5))
    assert all(map(math.isfinite, right + wrong)) and 2 < right[0] < 4 and right[3] < right[0]
    if bug.training.startswith("The losses are exactly the same"):
        assert right == wrong


def test_a_race_sees_the_mistake_and_goes_on_when_a_run_breaks_down(monkeypatch):
    losses = np.array(list(nt.zoo.race("mask-added", 60)))
    assert losses[-5:, 1].mean() < 0.8 < 1.4 < losses[-5:, 0].mean()            # it reads the answers
    monkeypatch.setattr(nt.zoo.find("mask-added").wrong, "mask_scores", lambda self, scores, mask: scores * np.nan)
    right, wrong = zip(*nt.zoo.race("mask-added", 3))
    assert all(map(math.isfinite, right)) and all(map(math.isnan, wrong))


def test_the_texts_repeat_their_first_half():
    text, targets = batch(0, MODELS[0].make()[0])
    assert text.shape == targets.shape == (32, 11) and (text[:, 1:] == targets[:, :-1]).all()
    same = text[:, :3] == text[:, 6:9]
    assert 0.85 < same.mean() < 1
    (source, target), letters = batch(0, MODELS[3].make()[0])
    np.testing.assert_array_equal(np.hstack([source, letters])[:, 1:], targets)
    assert (target[:, 0] == 9).all() and (target[:, 1:] == letters[:, :-1]).all()


def test_the_command_lists_them(capsys):
    code, out, _ = run(capsys, "zoo")
    assert code == 0 and all(bug.name in out for bug in BUGS) and f"{len(BUGS)} bugs" in out
    assert "Seen in harvardnlp/annotated-transformer, commit debc9fd" in " ".join(out.split())


def test_the_list_says_what_the_gradient_check_says_of_each_bug(capsys):
    """Beside each name stands whether the gradient check fails, and the number of checks that do."""
    _, out, _ = run(capsys, "zoo")
    names = {bug.name for bug in BUGS}
    rows = {words[0]: words[1:] for words in map(str.split, out.splitlines()) if words and words[0] in names}
    assert rows == {bug.name: ["fails" if "gradient check" in bug.caught_by else "passes", str(len(bug.caught_by))]
                    for bug in BUGS}
    assert {gradcheck for gradcheck, _ in rows.values()} == {"fails", "passes"}


@pytest.mark.parametrize("width", [60, 100])
def test_the_list_fits_the_terminal(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run(capsys, "zoo")
    for line in out.splitlines():
        assert columns(line) <= width or len(line.split()) == 1    # a path is not split


@pytest.mark.slow
def test_the_command_shows_one_and_draws_both_losses(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "zoo", "residual-plus-one", "--steps", 12)
    assert code == 0 and "dx = 1 + self.norm2" in out and "a published NumPy Transformer" in out
    assert "2 of 19 checks fail" in out and "gradient check: " in out and "Passed: " in out and "causality" in out
    assert "training: 12/12" in err and "with it" in out
    assert np.asarray(Image.open(tmp_path / "zoo_residual-plus-one.png")).std() > 0
    assert max(map(len, out.splitlines())) <= 120


def test_the_command_without_training_draws_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "zoo", "adam-one-beta", "--no-train")
    assert code == 0 and "first step" in out and not list(tmp_path.iterdir())


def test_the_command_refuses_in_one_line(capsys, tmp_path):
    assert "there is no bug 'residual'" in refused(capsys, "zoo", "residual")
    assert "a.txt' is not supported; use" in refused(capsys, "zoo", "no-eps", "--out", tmp_path / "a.txt")
    assert "at least 1" in refused(capsys, "zoo", "no-eps", "--steps", 0)


def test_the_readme_shows_what_the_command_says(capsys):
    readme = (ROOT / "lessons/CHECKS.md").read_text(encoding="utf-8")
    published, unseen = sum(bool(bug.seen) for bug in BUGS), sum("gradient check" not in bug.caught_by for bug in BUGS)
    assert f"`nt.zoo` holds {len(BUGS)} of them, {published} of which" in readme
    assert f"that holds {len(BUGS)} mistakes, most of them from published code" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{unseen} of them pass the gradient check" in readme
    _, out, _ = run(capsys, "zoo", "heads-not-transposed", "--no-train")
    assert re.search(r"^```text\n(\d+ of \d+ checks fail.*?)^```$", readme, re.M | re.S)[1] in out
