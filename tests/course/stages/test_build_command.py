"""numpy-transformer build: folders that are never overwritten, exit codes, text from the student's program, and its page."""

import json
import re

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.stages import edited, reference_program, write_program

import numpy_transformer as nt
from numpy_transformer.course.stages import report_page, trained
from numpy_transformer.course.stages.folder import PROGRESS, StageFolder
from numpy_transformer.course.stages.running import running
from numpy_transformer.course.stages.table import STAGES


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.fixture
def mine(tmp_path):
    """A folder with the finished stages 1 to 12, all of them passed according to its file."""
    write_program(tmp_path)
    book = StageFolder(tmp_path)
    for stage in STAGES.values():
        book.save_progress(stage, status="pass", digest=book.digest(stage, book.files()))
    return tmp_path


@pytest.fixture
def quick(monkeypatch):
    """A tiny model, so that training takes a moment."""
    for name, value in dict(WIDTH=16, HEADS=2, LAYERS=1, INNER=20, LONGEST=24, BATCH=2).items():
        monkeypatch.setattr(trained, name, value)


def test_start_writes_a_page_and_a_file_for_each_stage(tmp_path, capsys):
    code, out, _ = run(capsys, "build", "start", tmp_path / "mine", "--upto", 2)
    assert code == 0 and "5 files" in out and f"numpy-transformer build check 1 --folder {tmp_path / 'mine'}\n" in out
    assert set(content(tmp_path / "mine")) == {"module.py", *(name for n in (1, 2) for name in (STAGES[n].file, STAGES[n].page))}


def test_start_changes_no_file_that_is_there(tmp_path, capsys):
    (tmp_path / STAGES[1].file).write_text("mine\n")
    (tmp_path / "module.py").write_text("mine, too\n")
    run(capsys, "build", "start", tmp_path)
    before = content(tmp_path)
    assert before[STAGES[1].file] == b"mine\n" and before["module.py"] == b"mine, too\n"
    _, out, _ = run(capsys, "build", "start", tmp_path)
    assert content(tmp_path) == before and "0 files" in out and "25 existed already" in " ".join(out.split())


def test_an_error_in_loading_names_the_files_without_their_temporary_folder(tmp_path, capsys):
    run(capsys, "build", "start", tmp_path, "--upto", 2)
    (tmp_path / "module.py").write_text("")
    code, out, _ = run(capsys, "build", "check", 1, "--folder", tmp_path)
    assert code == 1 and "cannot import name 'Module' from 'module' (module.py) (line 5" in " ".join(out.split())


@pytest.mark.slow
def test_exit_codes_of_check(tmp_path, capsys):
    run(capsys, "build", "start", tmp_path, "--upto", 3)
    (tmp_path / STAGES[3].file).write_text(STAGES[3].solution)
    before = content(tmp_path)
    assert run(capsys, "build", "check", 3, "--folder", tmp_path)[0] == 0
    code, out, _ = run(capsys, "build", "check", "--folder", tmp_path)
    assert code == 1 and out.startswith("Stage 1, ") and "not finished" in out
    code, out, _ = run(capsys, "build", "check", "stage03_normalization.py", 2, "--folder", tmp_path)
    assert code == 1 and "1 of 2 stages passed" in out
    code, out, _ = run(capsys, "build", "check", "all", 3, "--folder", tmp_path)
    assert code == 1 and "1 of 3 stages passed" in out
    assert content(tmp_path) == before


@pytest.mark.parametrize("arguments, words", [
    (["check", "13"], ["13", "1 to 12"]), (["check", "x"], ["'x'", "1 to 12"]), (["hint", "0"], ["0"]),
    (["check", "5.5"], ["'5.5'", "1 to 12"]), (["check", "stage1-3"], ["'stage1-3'", "1 to 12"]),
    (["check", "1", "--timeout", "-1"], ["-1"]), (["check", "1", "--seed", "x"], ["'x'"]), (["solution", "4"], ["not passed", "--give-up"]),
    (["play", "--dates", "--prompt", "x"], ["--dates does not use --prompt"]),
    (["play", "--weights", "--top-k", "3"], ["--weights does not use --top-k"]),
    (["play", "--weights", "nowhere"], ["nowhere has no config.json", "vocab.json"]),
    (["play", "--tokens", "500"], ["500", "128", "--tokens"]), (["play", "--prompt", ""], ["prompt is empty", "--prompt"]),
    (["report", "--out", "nowhere/page.html"], ["nowhere"]), (["report", "--out", "notes.txt"], ["notes.txt", ".html"])])
def test_wrong_calls_get_one_line(tmp_path, capsys, arguments, words):
    run(capsys, "build", "start", tmp_path, "--upto", 4)
    line = refused(capsys, "build", *arguments, "--folder", tmp_path)
    for word in words:
        assert word in line


def test_folders_that_are_none(tmp_path, capsys, monkeypatch):
    assert "build start" in refused(capsys, "build", "status", "--folder", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "build start mine" in refused(capsys, "build", "check")
    (tmp_path / "file").write_text("")
    assert "is a file" in refused(capsys, "build", "start", tmp_path / "file")
    assert "no exercises" in refused(capsys, "build", "start", "mine", "--from", tmp_path)


def test_a_damaged_or_newer_file_of_progress(tmp_path, capsys):
    run(capsys, "build", "start", tmp_path, "--upto", 1)
    for text in ("", "[", "[1]", '{"stages": 3}', '{"stages": {"stage01_loss": 7}}', "[" * 100_000):
        (tmp_path / PROGRESS).write_text(text)
        code, out, _ = run(capsys, "build", "status", "--folder", tmp_path)
        assert code == 0 and "0 of 12 stages passed" in out
    (tmp_path / PROGRESS).write_text('{"format": 9}')
    assert "update" in refused(capsys, "build", "status", "--folder", tmp_path)


def test_a_passed_stage_that_changes_is_said_to_have_changed(mine, capsys):
    assert "12 of 12 stages passed" in run(capsys, "build", "status", "--folder", mine)[1]
    with open(mine / STAGES[5].file, "a") as file:
        file.write("# more\n")
    _, out, _ = run(capsys, "build", "status", "--folder", mine)
    assert "11 of 12 stages passed" in out and re.search("5 +Attention of one head.*changed since it passed", out)
    assert re.search(r"\[~~ 5 attention ~+\]", out) and re.search(r"\[## 6 heads #+\]", out)


def test_a_helper_concerns_the_stages_that_import_it(mine):
    book = StageFolder(mine)
    (mine / STAGES[3].file).write_text(edited(3, ("import numpy as np\n", "import numpy as np\n\nimport helpers\n")))
    (mine / "helpers.py").write_text("A = 1\n")
    book.save_progress(STAGES[3], status="pass", digest=book.digest(STAGES[3], book.files()))
    assert len(book.passed()) == 12
    (mine / "helpers.py").write_text("A = 2\n")
    assert [stage.number for stage, state in book.states().items() if state != "passed"] == [3]


def test_hints_come_one_by_one(tmp_path, capsys):
    run(capsys, "build", "start", tmp_path, "--upto", 6)
    for count in (1, 2, 3, 3):
        _, out, _ = run(capsys, "build", "hint", 6, "--folder", tmp_path)
        assert len(re.findall(r"^\d\. ", out, re.M)) == count
    assert " ".join(STAGES[6].hints[2].split()) in " ".join(out.split())


def test_solutions_are_for_those_who_have_passed(mine, capsys):
    _, out, _ = run(capsys, "build", "solution", 7, "--folder", mine)
    assert out == STAGES[7].solution
    StageFolder(mine).save_progress(STAGES[7], status="fail")
    assert "--give-up" in refused(capsys, "build", "solution", 7, "--folder", mine)
    assert run(capsys, "build", "solution", 7, "--give-up", "--folder", mine)[1] == STAGES[7].solution


def test_play_trains_once_and_writes_what_the_seed_says(mine, capsys, quick):
    call = "build", "play", "--folder", mine, "--steps", 3, "--tokens", 8
    _, first, _ = run(capsys, *call)
    _, again, _ = run(capsys, *call)
    _, other, _ = run(capsys, *call, "--seed", 1)
    assert "All twelve stages of this program are yours" in first and "trained in" in first and "kept from" in again
    texts = [out.split("\n\n")[1] for out in (first, again, other)]
    assert texts[0] == texts[1] != texts[2] and texts[0].startswith("Once upon a time")
    with open(mine / STAGES[1].file, "a") as file:
        file.write("\n")
    StageFolder(mine).save_progress(STAGES[1], digest=StageFolder(mine).digest(STAGES[1], StageFolder(mine).files()))
    assert "trained in" in run(capsys, *call)[1]


@pytest.mark.slow
def test_a_shorter_training_does_not_replace_a_longer_one(mine, capsys, quick):
    def play(steps):
        return run(capsys, "build", "play", "--folder", mine, "--steps", steps, "--tokens", 4)[1]
    assert [("trained in" if "trained in" in play(steps) else "kept") for steps in (4, 2, 2, 4)] == ["trained in"] * 3 + ["kept"]


@pytest.mark.parametrize("prompt, written, unknown", [
    ("He was", "He was", None), ("was", "was", None), ("Tom saw a zyzzyva.", "Tom saw a <unk>.", "zyzzyva")])
def test_words_of_a_prompt(mine, capsys, quick, prompt, written, unknown):
    _, out, _ = run(capsys, "build", "play", "--folder", mine, "--steps", 2, "--tokens", 1, "--prompt", prompt)
    assert out.split("\n\n")[-1].startswith(written)
    assert f"become <unk>: {unknown}." in " ".join(out.split()) if unknown else "<unk>:" not in out


def test_weights_that_were_kept_and_damaged_are_trained_again(mine, capsys, quick):
    call = "build", "play", "--folder", mine, "--steps", 2, "--tokens", 4
    run(capsys, *call)
    kept = mine / ".build-stories.npz"
    kept.write_bytes(kept.read_bytes()[:200])
    assert "trained in" in run(capsys, *call)[1]


def test_play_says_which_stages_come_from_the_reference(mine, capsys, quick):
    (mine / STAGES[9].file).unlink()
    _, out, _ = run(capsys, "build", "play", "--folder", mine, "--steps", 2, "--tokens", 4)
    assert "you have written stages 1 to 8 and 10 to 12. The reference program provides stage 9." in " ".join(out.split())


def test_an_error_of_the_program_names_its_line(mine, capsys, quick):
    (mine / STAGES[10].file).write_text(edited(10, ("    ids, cache = list(ids)", "    nowhere\n    ids, cache = list(ids)")))
    book = StageFolder(mine)
    book.save_progress(STAGES[10], status="pass", digest=book.digest(STAGES[10], book.files()))
    line = refused(capsys, "build", "play", "--folder", mine, "--steps", 2, "--tokens", 4)
    assert re.search(r"stage10_sampling.py, line \d+, in generate: NameError", line)


def test_dates_are_rewritten(mine, capsys, quick):
    code, out, _ = run(capsys, "build", "play", "--dates", "--folder", mine, "--steps", 2)
    assert code == 0 and len(re.findall(r"right$|wrong: \d{4}-\d\d-\d\d$", out, re.M)) == 5


def test_the_program_gives_the_librarys_tokens_with_gpt2s_weights(mine, capsys):
    code, out, _ = run(capsys, "build", "play", "--weights", "--tokens", 20, "--folder", mine)
    assert code == 0 and "The library continues with the same 20 tokens" in out
    (mine / STAGES[11].file).write_text(edited(11, ("= weight, bias", "= weight.T, bias")))
    book = StageFolder(mine)
    book.save_progress(STAGES[11], status="pass", digest=book.digest(STAGES[11], book.files()))
    code, out, _ = run(capsys, "build", "play", "--weights", "--tokens", 20, "--folder", mine)
    assert code == 1 and "other tokens" in out


def test_a_report_replaces_no_other_page(mine, capsys):
    page = mine / "notes.html"
    page.write_text("<p>mine</p>")
    assert "notes.html" in refused(capsys, "build", "report", "--folder", mine, "--out", page)
    assert page.read_text() == "<p>mine</p>"


def test_a_name_in_the_page_never_becomes_markup():
    states = {stage: "passed" for stage in STAGES.values()}
    text = report_page.drawing(states) + report_page.say("page.by", name="<script>alert(1)</script>")
    assert "<script" not in text and "&lt;script&gt;" in text


@pytest.mark.slow
def test_report_shows_what_was_checked(mine, capsys, monkeypatch):
    from numpy_transformer.cli import build
    monkeypatch.setattr(build, "STEPS", 5)
    (mine / STAGES[12].file).write_text(STAGES[12].skeleton)
    (mine / STAGES[6].file).write_text(edited(6, ("self.value.backward(merge_heads(dv)) + ", "")))
    code, out, _ = run(capsys, "build", "report", "--folder", mine, "--name", "A <b>")
    page = (mine / "report.html").read_text(encoding="utf-8")
    assert code == 0 and "A &lt;b&gt;" in page and "<b>" not in page and "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=\"(?!data:)", page)
    assert page.count("<blockquote>") == 3 and page.count("data:image/svg+xml") == 4 and "differ by at most" in page
    assert len(re.findall('<g class="mine">', page)) == 12 and len(re.findall('<g class="begun">', page)) == 1
    progress = json.loads((mine / PROGRESS).read_text())["stages"]
    assert progress[STAGES[6].name]["status"] == "fail"


@pytest.mark.slow
def test_the_students_layers_open_in_the_explorer_and_in_gradcheck(mine):
    rng = np.random.default_rng(0)
    with running({name: text.encode() for name, text in reference_program().items()}) as program:
        block, x, mask = program.Block(6, 2, 8, rng), rng.standard_normal((2, 3, 6)), np.tri(3, dtype=bool)
        assert nt.gradcheck(block, x, mask).ok
        model, ids = program.LanguageModel(5, 4, 4, 1, 3, 1, rng), np.array([[1, 3, 1]])
        assert nt.gradcheck(model, ids).ok
        assert "blocks.0.attention" in str(nt.explore(model, (ids,)).document)
