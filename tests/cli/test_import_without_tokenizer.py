"""A folder that cannot be imported for want of a tokenizer is told which files it lacks, or what it is."""

from types import SimpleNamespace

import pytest
from helpers.commands import refused, run
from helpers.small_checkpoints import SMALL

from numpy_transformer import preset, save_run
from numpy_transformer.data import CharTokenizer
from numpy_transformer.data.pretrained_tokenizer import first_given
from numpy_transformer.tasks.imported_runs import compare_sizes, length_in


@pytest.mark.parametrize("family, words", [
    ("bert", "has no tokenizer.json, nor vocab.txt; copy"), ("qwen3", "has no tokenizer.json; copy"),
    ("t5", "has no tokenizer.json; copy")])
def test_the_files_of_a_tokenizer_that_are_missing_are_those_of_the_family(capsys, tmp_path, family, words):
    assert words in refused(capsys, "import", SMALL / family, "--out", tmp_path / "run.npz")


def test_an_exported_run_with_a_tokenizer_of_its_own_is_no_folder_to_import(capsys, tmp_path):
    tokenizer = CharTokenizer("abcd")
    save_run(tmp_path / "run.npz", preset("gemma3", vocab_size=tokenizer.vocab_size, rng=0), tokenizer)
    assert run(capsys, "export", tmp_path / "run.npz", tmp_path / "out")[0] == 0
    said = refused(capsys, "import", tmp_path / "out", "--out", tmp_path / "again.npz")
    assert "was exported here, without a tokenizer" in said and "use the run itself (.npz), or nt.load_pretrained" in said


@pytest.mark.parametrize("value", ["x", 2.5, True, [1, "x"], {}])
def test_an_end_of_texts_of_another_type_is_refused(value):
    with pytest.raises(ValueError, match="gives eos_token_id = .*, wanted an id or a list of ids; copy"):
        first_given("eos_token_id", (int, [int]), "an id or a list of ids", {"eos_token_id": None}, {"eos_token_id": value})


def test_an_end_of_texts_that_the_model_does_not_know_is_said():
    tokens = SimpleNamespace(vocab_size=19, stop=[2, 9999])
    (sentence,) = compare_sizes(tokens, {"vocab_size": 19})
    assert sentence.startswith("The files name 9999 as an id that ends a text (eos_token_id), but the model has only 19 tokens")
    assert compare_sizes(SimpleNamespace(vocab_size=19, stop=[18]), {"src_vocab": 19}) == []


@pytest.mark.parametrize("given, expected", [({}, 512), ({"n_positions": None}, 512), ({"n_positions": 9}, 9)])
def test_a_length_that_is_not_given_has_a_default(given, expected):
    assert length_in(given, "n_positions", 512) == expected
    with pytest.raises(ValueError, match="n_positions is 0 in the model's folder"):
        length_in({"n_positions": 0}, "n_positions", 512)
