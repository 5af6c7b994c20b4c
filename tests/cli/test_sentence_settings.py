"""Prompts, shorter vectors, lower case and lengths that a folder of sentence-transformers asks for."""

import json

import numpy as np
import pytest
from helpers.commands import refused, run

from numpy_transformer.tasks.runs import load_run

pytest.importorskip("tokenizers")
MODULES = [("sentence_transformers.models.Transformer", ""), ("sentence_transformers.models.Pooling", "1_Pooling"),
           ("sentence_transformers.models.Normalize", "2_Normalize")]
TEXTS = ["the Cat sat on the mat", "A dog, RAN to an old house while we saw it", "we saw"]


@pytest.fixture
def sentences(tmp_path, capsys):
    """A function: writes a folder of sentence-transformers with these files, imports it, and returns (folder, run, what was
    said).
    """
    def make(name, settings=None, reading=None, tokenizer=None, **changes):
        from helpers.published import write_published

        folder = write_published(tmp_path / "folder", name, **changes)
        modules = [{"idx": n, "name": str(n), "type": kind, "path": path} for n, (kind, path) in enumerate(MODULES)]
        pooling = {"word_embedding_dimension": 12, "pooling_mode_mean_tokens": True}
        given = {"modules.json": modules, "1_Pooling/config.json": pooling,
                 "config_sentence_transformers.json": settings, "sentence_bert_config.json": reading,
                 "tokenizer_config.json": tokenizer}
        for file, content in given.items():
            if content is not None:
                (folder / file).parent.mkdir(exist_ok=True)
                (folder / file).write_text(json.dumps(content))
        (folder / "2_Normalize").mkdir(exist_ok=True)
        code, out, err = run(capsys, "import", folder, "--out", tmp_path / "run.npz")
        assert code == 0, err
        return folder, tmp_path / "run.npz", " ".join(out.split())
    return make


def vectors(capsys, path, texts):
    code, out, err = run(capsys, "embed", path, *texts)
    assert code == 0, err
    return np.array([line.split("\t") for line in out.splitlines()], float)


def test_a_prompt_stands_before_each_text_and_vectors_are_shortened(capsys, sentences, tmp_path):
    settings = {"prompts": {"query": "a house: "}, "default_prompt_name": "query", "truncate_dim": 5}
    _, path, said = sentences("bert-mlm", settings)
    assert "scaled to length 1, the first 5 numbers of it; 'a house: ' is put before each text" in said
    loaded = load_run(path)
    expected = [loaded.model.embed(loaded.reader.read(f"a house: {text}")[None])[0, :5] for text in TEXTS]
    np.testing.assert_allclose(vectors(capsys, path, TEXTS), expected, atol=1e-5)
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))
    code, out, _ = run(capsys, "similar", path, TEXTS[1], "--within", tmp_path / "lines.txt")
    cosines = sorted((a @ expected[1] / np.linalg.norm(a) / np.linalg.norm(expected[1]) for a in expected), reverse=True)
    np.testing.assert_allclose([float(line.split("\t")[0]) for line in out.splitlines()], cosines, atol=1e-4)
    assert "the text ' ' is empty" in refused(capsys, "embed", path, " ")
    assert "'a house: ' is put before each text" in " ".join(run(capsys, "info", path)[1].split())


@pytest.mark.parametrize("name", ["sentence_bert_config.json", "sentence_roberta_config.json"])
def test_texts_are_read_in_lower_case(capsys, sentences, tmp_path, name):
    folder, path, _ = sentences("roberta-mlm", architectures=["RobertaModel"])
    plain = vectors(capsys, path, [TEXTS[0], TEXTS[0].lower()])
    (folder / name).write_text('{"do_lower_case": true}')
    assert run(capsys, "import", folder, "--out", path, "--overwrite")[0] == 0
    lower = vectors(capsys, path, [TEXTS[0], TEXTS[0].lower()])
    assert abs(plain[0] - plain[1]).max() > 0.01
    np.testing.assert_array_equal(lower, plain[[1, 1]])
    assert run(capsys, "export", path, tmp_path / "out")[0] == 0
    assert run(capsys, "import", tmp_path / "out", "--out", path, "--overwrite")[0] == 0
    np.testing.assert_array_equal(vectors(capsys, path, TEXTS[:1]), plain[1:])


@pytest.mark.parametrize("reading, tokenizer, length", [
    ({"max_seq_length": 9}, {"model_max_length": 11}, 9), (None, {"model_max_length": 11}, 11),
    ({"max_seq_length": 99}, {"model_max_length": 10 ** 30}, 16)])
def test_the_length_of_a_text_is_the_shortest_that_the_folder_names(sentences, reading, tokenizer, length):
    _, path, _ = sentences("bert-encoder", reading=reading, tokenizer=tokenizer)
    assert load_run(path).reader.max_len == length


@pytest.mark.slow
@pytest.mark.parametrize("name, changes", [("bert-mlm", {}), ("roberta-mlm", {"architectures": ["RobertaModel"]})])
@pytest.mark.parametrize("settings, reading", [
    ({}, {}), ({"prompts": {"query": "a house: "}, "default_prompt_name": "query"}, {"do_lower_case": True}),
    ({"truncate_dim": 7}, {"max_seq_length": 8, "do_lower_case": False})])
def test_vectors_are_those_of_sentence_transformers(capsys, sentences, name, changes, settings, reading):
    library = pytest.importorskip("sentence_transformers")
    folder, path, _ = sentences(name, settings, reading, **changes)
    expected = library.SentenceTransformer(str(folder)).encode(TEXTS)
    capsys.readouterr()
    np.testing.assert_allclose(vectors(capsys, path, TEXTS), expected, atol=3e-6)
