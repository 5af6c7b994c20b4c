"""What the outputs of imported classifiers and sentence encoders mean, and that the commands say so."""

import json

import numpy as np
import pytest
from helpers.commands import refused, run

from numpy_transformer.tasks.runs import load_run

pytest.importorskip("tokenizers")
TABLE = "text\tlabel\nthe cat\tglad\na dog\tsad\nthe mat\tglad\na house\tsad\nthe end\tglad\nthe red dog\tsad\n"


@pytest.fixture
def imported(capsys, tmp_path):
    """A function: writes a folder in miniature with changes of its config.json, imports it, and returns the run's path."""
    def make(name="bert-classifier", tell=False, **changes):
        from helpers.published import write_published

        write_published(tmp_path / "folder", name, **changes)
        code, out, err = run(capsys, "import", tmp_path / "folder", "--out", tmp_path / "run.npz")
        assert code == 0, err
        return (tmp_path / "run.npz", out) if tell else tmp_path / "run.npz"
    return make


def test_each_label_of_several_has_its_own_probability(capsys, imported, tmp_path):
    path, said = imported(problem_type="multi_label_classification", tell=True)
    loaded = load_run(path)
    logits = loaded.model(loaded.reader.read("the cat sat")[None])[0]
    wanted = f"{loaded.labels[logits.argmax()]}\t{1 / (1 + np.exp(-logits.max())):.4f}\tthe cat sat\n"
    assert run(capsys, "classify", path, "the cat sat")[1] == wanted
    assert "which can have several labels" in said and "evaluate" not in said
    (tmp_path / "table.tsv").write_text(TABLE)
    assert "do not exclude each other" in refused(capsys, "evaluate", path, "--data", tmp_path / "table.tsv")


def test_a_fine_tuned_classifier_has_one_label_again(capsys, imported, tmp_path):
    path = imported(problem_type="multi_label_classification")
    (tmp_path / "table.tsv").write_text(TABLE)
    code, _, err = run(capsys, "train", "classifier", "--pretrained", path, "--data", tmp_path / "table.tsv", "--steps", 1,
                       "--batch-size", 2, "--max-len", 12, "--out", tmp_path / "mine.npz")
    assert code == 0, err
    assert run(capsys, "export", tmp_path / "mine.npz", tmp_path / "mine")[0] == 0
    assert json.loads((tmp_path / "mine" / "config.json").read_text())["problem_type"] == "single_label_classification"
    assert run(capsys, "export", path, tmp_path / "again")[0] == 0
    assert (tmp_path / "again" / "config.json").read_bytes() == (tmp_path / "folder" / "config.json").read_bytes()


def test_a_single_output_is_a_regression(capsys, imported, tmp_path):
    path, said = imported(id2label={"0": "LABEL_0"}, tell=True)
    assert "a regression" in said and "classify" not in said
    assert "a regression" in run(capsys, "info", path)[1]
    assert "a regression" in refused(capsys, "classify", path, "the cat")
    assert "a regression" in refused(capsys, "explore", "--run", path, "--out", tmp_path / "page.html")


@pytest.mark.parametrize("pooling, normalize, words", [
    ("mean", True, "the mean of all outputs, scaled to length 1"),
    pytest.param("cls", False, "the output of the first token, not normalized", marks=pytest.mark.slow)])
def test_how_sentence_vectors_are_made(capsys, imported, tmp_path, pooling, normalize, words):
    imported("bert-encoder")
    folder = tmp_path / "folder"
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")][:2 + normalize]
    (folder / "modules.json").write_text(json.dumps([{"type": f"x.{kind}", "path": path} for kind, path in modules]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": pooling}))
    said = run(capsys, "import", folder, "--out", tmp_path / "sentences.npz")[1]
    assert f"sentence vectors: {words}\n" in said
    for file in (folder, tmp_path / "sentences.npz"):
        assert f"sentence vectors: {words}\n" in run(capsys, "info", file)[1]


def test_ids_that_the_model_lacks_are_told_even_if_the_vocabulary_has_gaps(capsys, imported, tmp_path):
    imported()
    tokenizer = json.loads((tmp_path / "folder" / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["zebra"] = 70
    del tokenizer["model"]["vocab"]["##w"]
    (tmp_path / "folder" / "tokenizer.json").write_text(json.dumps(tokenizer))
    said = run(capsys, "import", tmp_path / "folder", "--out", tmp_path / "other.npz")[1]
    assert "The ids of the tokenizer go up to 70, but the model has only 62 tokens" in " ".join(said.split())
