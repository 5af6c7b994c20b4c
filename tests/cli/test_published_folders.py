"""What the commands do with whatever stands in or around the folder of a published model."""

import json
import math
import shutil
import struct

import numpy as np
import pytest
from helpers.commands import refused, run

import numpy_transformer as nt
from numpy_transformer.pretrained import load_pretrained
from numpy_transformer.pretrained.llama2c import ORDER, array_shapes, make_config
from numpy_transformer.pretrained.safetensors import TensorFile, write_safetensors
from numpy_transformer.tasks.runs import load_run

TEXT = "the cat sat on the mat and a dog ran to an old red house"


@pytest.fixture
def folder(tmp_path):
    """A function: the folder of a model in miniature, with a generation_config.json of these options."""
    pytest.importorskip("tokenizers")
    from helpers.published import write_published

    def make(name="gpt2", **generation):
        path = write_published(tmp_path / name, name)
        if generation:
            (path / "generation_config.json").write_text(json.dumps(generation))
        return path
    return make


def imported(capsys, folder, path, *options):
    code, out, err = run(capsys, "import", folder, "--out", path, *options)
    assert code == 0, err
    return " ".join(out.split())


def asked_of_generate(capsys, monkeypatch, *arguments):
    """The options with which the command calls `generate`."""
    asked = {}
    monkeypatch.setattr("numpy_transformer.cli.generate.generate",
                        lambda model, prompts, **options: asked.update(options) or prompts)
    code, _, err = run(capsys, "generate", *arguments)
    assert code == 0, err
    return asked | {"changes": [vars(change) for change in asked["changes"]]}


def test_generate_follows_the_folder_unless_it_is_told_otherwise(capsys, folder, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    said = imported(capsys, folder(do_sample=True, temperature=0.6, top_p=0.9, max_new_tokens=7, repetition_penalty=1.2,
                                   num_beams=4), path)
    assert "`generate` follows generation_config.json" in said and "also has num_beams 4" in said
    assert "also has num_beams 4" in " ".join(run(capsys, "info", path)[1].split())
    asked = asked_of_generate(capsys, monkeypatch, path)
    assert {name: asked[name] for name in ("count", "temperature", "top_p", "changes")} == {
        "count": 7, "temperature": 0.6, "top_p": 0.9, "changes": [{"penalty": 1.2}]}
    asked = asked_of_generate(capsys, monkeypatch, path, "--temperature", 0, "--length", 3, "--repetition-penalty", 1.5)
    assert (asked["count"], asked["temperature"], asked["top_p"], asked["changes"]) == (3, 0.0, 0.9, [{"penalty": 1.5}])


def test_a_folder_that_asks_for_no_sampling(capsys, folder, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    imported(capsys, folder(do_sample=False), path)
    assert asked_of_generate(capsys, monkeypatch, path)["temperature"] == 0
    assert asked_of_generate(capsys, monkeypatch, path, "--top-k", 5)["temperature"] == 0.8


def test_a_folder_with_a_damaged_file_leaves_no_run(capsys, folder, tmp_path):
    path = folder(temperature="hot")
    assert "temperature = 'hot', wanted" in refused(capsys, "import", path, "--out", tmp_path / "run.npz")
    assert not (tmp_path / "run.npz").exists()


def test_a_text_or_a_file_is_checked_and_named(capsys, folder, tmp_path, monkeypatch):
    from numpy_transformer.pretrained import conversion_checks as doctor

    asked = []
    monkeypatch.setattr(doctor, "diagnose", lambda model, ids, **options: asked.append(ids.tolist()) or "sound")
    path, text = folder(), tmp_path / "words of mine"
    text.write_text(TEXT)
    assert f"reads the text in the file {str(text)!r}." in " ".join(run(capsys, "info", path, "--check", text)[1].split())
    assert "reads the text 'the cat sat" in run(capsys, "info", path, "--check", TEXT)[1]
    assert asked[0] == asked[1]
    for missing in ("notes.txt", "data/notes", str(tmp_path / "nothing")):
        assert "looks like the name of a file, but there is none" in refused(capsys, "info", path, "--check", missing)


def test_perplexity_says_what_it_leaves_out(capsys, folder, tmp_path):
    (tmp_path / "text.txt").write_text(f"{TEXT}. " * 20)
    for name, words in (("gpt2", "The first token is not counted, because nothing stands before it; a window"),
                        ("llama", "The first token is predicted from <s> alone; a window")):
        path = tmp_path / f"{name}.npz"
        imported(capsys, folder(name), path)
        out = " ".join(run(capsys, "evaluate", path, "--text", tmp_path / "text.txt")[1].split())
        loaded = load_run(path)
        count = len(loaded.tokenizer.encode((tmp_path / "text.txt").read_text())) - (name == "gpt2")
        assert words in out and f": {count:,} tokens in windows of 48" in out


def test_an_adapter_is_merged_into_its_base(capsys, folder, tmp_path):
    base, adapter = folder("llama"), tmp_path / "adapter"
    adapter.mkdir()
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    rng = np.random.default_rng(0)
    write_safetensors(adapter / "adapter_model.safetensors", {
        f"{name}A.weight": rng.normal(size=(2, 12)).astype(np.float32),
        f"{name}B.weight": rng.normal(size=(24, 2)).astype(np.float32)})
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "base_model_name_or_path": "owner/llama"}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    assert "holds updates of the model 'owner/llama' alone; name the folder of that model with `import --base`" in refused(
        capsys, "import", adapter, "--out", tmp_path / "run.npz")
    said = imported(capsys, adapter, tmp_path / "run.npz", "--base", base)
    assert "LoRA updates of the adapter (rank 2, alpha 4, scaled by alpha / rank) are merged" in said
    found = load_run(tmp_path / "run.npz").model.decoder.blocks[0].attention.query.weight.data
    np.testing.assert_array_equal(
        found, load_pretrained(adapter, base=base).decoder.blocks[0].attention.query.weight.data)
    assert abs(found - load_pretrained(base).decoder.blocks[0].attention.query.weight.data).max() > 0.1
    assert run(capsys, "export", tmp_path / "run.npz", tmp_path / "out")[0] == 0
    exported = TensorFile(tmp_path / "out" / "model.safetensors")["model.layers.0.self_attn.q_proj.weight"]
    np.testing.assert_array_equal(exported, found.T)


def test_names_that_are_no_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (["import", "gpt2", "--out", "run.npz"], ["info", "gpt2"]):
        assert "`hf download gpt2 --local-dir gpt2`" in refused(capsys, *command)
    assert "hf download" not in refused(capsys, "info", "run.npz")


def test_older_files_of_a_tokenizer_become_tokenizer_json(capsys, folder, tmp_path):
    path = folder()
    imported(capsys, path, tmp_path / "new.npz")
    definition = json.loads((path / "tokenizer.json").read_text())
    (path / "tokenizer.json").unlink()
    vocab = definition["model"]["vocab"] | {token["content"]: token["id"] for token in definition["added_tokens"]}
    (path / "vocab.json").write_text(json.dumps(vocab))
    (path / "merges.txt").write_text("\n".join(" ".join(pair) for pair in definition["model"]["merges"]))
    imported(capsys, path, tmp_path / "older.npz")
    older, new = (load_run(tmp_path / f"{name}.npz").tokenizer for name in ("older", "new"))
    assert older.encode(TEXT).tolist() == new.encode(TEXT).tolist()
    assert run(capsys, "export", tmp_path / "older.npz", tmp_path / "out")[0] == 0
    imported(capsys, tmp_path / "out", tmp_path / "again.npz")
    assert load_run(tmp_path / "again.npz").tokenizer.encode(TEXT).tolist() == new.encode(TEXT).tolist()


def write_story_model(folder):
    """Writes model.bin and tokenizer.bin of a tiny model of llama2.c with random weights."""
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256)), " ", "a", "b", " a", "ab", " ab"]
    tokenizer = struct.pack("<I", 6)
    for number, piece in enumerate(pieces):
        tokenizer += struct.pack("<fI", -number, len(piece)) + piece.encode()
    (folder / "tokenizer.bin").write_bytes(tokenizer)
    sizes = 12, 7, 2, 3, 1, len(pieces), 16
    shapes = array_shapes(make_config(*sizes, tied=True))
    count = sum(math.prod(shape) for kind in ORDER[0] if kind != "lm_head" for _, shape in shapes[kind])
    weights = np.random.default_rng(0).normal(size=count).astype("<f4")
    (folder / "model.bin").write_bytes(struct.pack("<7i", *sizes) + weights.tobytes())


def test_the_export_of_a_story_model_brings_its_tokenizer(capsys, tmp_path):
    pytest.importorskip("tokenizers")
    write_story_model(tmp_path)
    for options in ([], ["--tokenizer", tmp_path / "other.bin"]):
        if options:
            shutil.move(tmp_path / "tokenizer.bin", tmp_path / "other.bin")
        imported(capsys, tmp_path / "model.bin", tmp_path / "run.npz", *options, "--overwrite")
        assert run(capsys, "export", tmp_path / "run.npz", tmp_path / "out")[0] == 0
        imported(capsys, tmp_path / "out", tmp_path / "again.npz", "--overwrite")
        story, again = load_run(tmp_path / "run.npz"), load_run(tmp_path / "again.npz")
        ids = story.tokenizer.encode("ab ba aab")
        assert again.tokenizer.encode("ab ba aab").tolist() == ids.tolist()
        assert (again.tokenizer.begin, again.tokenizer.stop) == (story.tokenizer.begin, story.tokenizer.stop)
        np.testing.assert_array_equal(again.model(ids), story.model(ids))


def test_an_export_without_a_tokenizer_says_so(capsys, folder, tmp_path):
    model = load_pretrained(folder())
    from numpy_transformer.data import CharTokenizer

    characters = "".join(map(chr, range(256, 256 + model.embedding.vocab_size)))           # one for each id of the model
    nt.save_run(tmp_path / "mine.npz", model, CharTokenizer(characters))
    out = " ".join(run(capsys, "export", tmp_path / "mine.npz", tmp_path / "out")[1].split())
    assert "The tokenizer (CharTokenizer) has no form that transformers reads, so the folder has none" in out
    assert not (tmp_path / "out" / "tokenizer.json").exists()
