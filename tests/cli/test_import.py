"""import, export and info: published models become runs and folders again, and one sentence says what does not fit."""

import json
import re
import shutil
import sys

import numpy as np
import pytest
from helpers.commands import refused, run

from numpy_transformer.pretrained import load_pretrained
from numpy_transformer.pretrained.safetensors import TensorFile
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.training.checkpoint import read_checkpoint, write_checkpoint

pytest.importorskip("tokenizers")
KINDS = {"gpt2": "lm", "llama": "lm", "bert-mlm": "mlm", "bert-encoder": "encoder", "bert-classifier": "classifier",
         "bert-tagger": "tagger", "roberta-mlm": "mlm", "t5": "text2text"}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder with a folder for each of KINDS, and the run NAME.npz that was imported from it."""
    from helpers.published import write_published

    from numpy_transformer.cli import main

    root = tmp_path_factory.mktemp("published")
    for name in KINDS:
        write_published(root / name, name)
        assert main(["import", str(root / name), "--out", str(root / f"{name}.npz")]) == 0
    return root


@pytest.mark.parametrize("name, kind", KINDS.items())
def test_a_run_holds_the_model_of_the_folder(capsys, published, tmp_path, name, kind):
    loaded, model = load_run(published / f"{name}.npz"), load_pretrained(published / name)
    assert loaded.kind == kind and type(loaded.model) is type(model) and not loaded.model.training
    for (one, parameter), (other, wanted) in zip(loaded.model.named_parameters(), model.named_parameters(), strict=True):
        assert one == other and np.array_equal(parameter.data, wanted.data)
    assert vars(loaded.model.origin) | {"unused": 0} == vars(model.origin) | {"unused": 0}
    code, out, err = run(capsys, "export", published / f"{name}.npz", tmp_path / "out")
    assert code == 0, err
    for file in ("config.json", "model.safetensors", "tokenizer.json", "special_tokens_map.json"):
        assert (tmp_path / "out" / file).read_bytes() == (published / name / file).read_bytes()


def test_float64_is_kept(capsys, published, tmp_path):
    code, out, _ = run(capsys, "import", published / "gpt2", "--out", tmp_path / "run.npz", "--dtype", "float64")
    assert code == 0 and "parameters in float64" in out
    assert {p.data.dtype for p in load_run(tmp_path / "run.npz").model.parameters()} == {np.dtype(np.float64)}
    assert run(capsys, "export", tmp_path / "run.npz", tmp_path / "out")[0] == 0
    arrays = TensorFile(tmp_path / "out" / "model.safetensors")
    wanted = TensorFile(published / "gpt2" / "model.safetensors")
    assert {arrays.entries[name].dtype for name in arrays} == {"F64"}
    assert all(np.array_equal(arrays[name], wanted[name]) for name in wanted)


def test_what_import_and_info_say(capsys, published, tmp_path):
    code, out, _ = run(capsys, "import", published / "llama", "--out", tmp_path / "run.npz")
    assert code == 0 and out.startswith("llama: 2 blocks, 12 wide, 4 heads, 2 of them for keys and values, feed-forward "
                                        "layers of 20, at most 48 tokens\n10,068 parameters in float32\n")
    assert "bos 1 <s>, eos 2 </s>" in out and "a language model: `generate` continues a text with it" in out
    for file in (published / "llama.npz", published / "llama"):
        code, out, _ = run(capsys, "info", file)
        assert code == 0 and "a model of the family llama, LlamaForCausalLM" in out
        assert re.search(r"^decoder\.blocks +2 x 1,608 +3,216$", out, re.M)
        assert re.search(r"^embedding +3,420$", out, re.M) and out.endswith("10,068\n")
    assert "decoder.blocks.1.attention.query.weight" in run(capsys, "info", published / "llama", "--parameters")[1]
    assert "labels: sad, glad, odd" in run(capsys, "info", published / "bert-classifier.npz")[1]


def test_check_prints_what_the_doctor_finds(capsys, published, monkeypatch):
    from numpy_transformer.pretrained import conversion_checks as doctor

    text = "the cat sat on the mat and a dog ran to an old red house"
    asked = []
    monkeypatch.setattr(doctor, "diagnose", lambda model, ids, **options: asked.append((ids.tolist(), options)) or "sound")
    for name in ("llama", "bert-mlm", "t5"):
        for file in (published / name, published / f"{name}.npz"):
            code, out, _ = run(capsys, "info", file, "--check", text)
            assert code == 0 and out.endswith("sound\n")
            assert out.startswith(f"The check reads the text '{text[:40]}...' itself")
    (llama, _), _, (bert, masked), _, (t5, pair), _ = asked
    assert llama[0] == 1 and bert[0] == 2 and bert[-1] == 3 and t5[-1] == 1
    assert asked[::2] == asked[1::2]
    assert masked["mask_id"] == 4 and masked["special_ids"] == [0, 1, 2, 3, 4] and masked["tokenizer_size"] == 62
    assert (pair["start_id"], pair["end_id"], pair["sentinels"]) == (0, 1, [44, 45])


def test_generated_text_begins_with_the_prompt_and_ends_at_the_end_of_text(capsys, published, monkeypatch):
    asked, broken = {}, [3 + 0xE2]              # the first byte of a longer character

    def generate(model, prompts, stop, **options):
        asked.update(prompt=prompts[0], stop=stop)
        return [[*prompts[0], *tokens.encode(" cat").tolist(), *broken]]
    monkeypatch.setattr("numpy_transformer.cli.generate.generate", generate)
    tokens = load_run(published / "llama.npz").tokenizers[0]
    assert run(capsys, "generate", published / "llama.npz", "--prompt", "the")[:2] == (0, "the  cat\n")
    assert asked == {"prompt": [1, *tokens.encode("the")], "stop": [2]}
    broken[:] = [3 + 0xE2] * 5                  # no text at all: this is shown
    assert run(capsys, "generate", published / "llama.npz", "--prompt", "the")[1] == "the  cat\ufffd\ufffd\n"
    run(capsys, "generate", published / "llama.npz")
    assert asked["prompt"] == [1]


def test_masks_may_have_either_name(capsys, published):
    one, two = (run(capsys, "fill", published / "roberta-mlm.npz", f"the {mask} sat", "--top", 3)[1]
                for mask in ("[Mask]", "<mask>"))
    assert one == two and len(one.splitlines()) == 3
    assert "write it in place of the word" in refused(capsys, "fill", published / "bert-mlm.npz", "the cat")


def test_outputs_for_which_there_is_no_token_are_no_words(capsys, tmp_path):
    from helpers.published import write_published

    write_published(tmp_path / "folder", "bert-mlm", vocab_size=70)                 # 62 tokens, five of them special
    assert run(capsys, "import", tmp_path / "folder", "--out", tmp_path / "run.npz")[0] == 0
    code, out, _ = run(capsys, "fill", tmp_path / "run.npz", "the [MASK] sat", "--top", 70)
    words = [line.split("\t")[1] for line in out.splitlines()]
    assert code == 0 and len(words) == 57 and all(words)


def test_vectors_and_neighbors_of_an_encoder_without_a_head(capsys, published, tmp_path):
    (tmp_path / "lines.txt").write_text("we saw a dog\nthe cat sat\n")
    code, out, _ = run(capsys, "similar", published / "bert-encoder.npz", "The Cat sat", "--within", tmp_path / "lines.txt")
    assert code == 0 and out.splitlines()[0] == "1.0000\tthe cat sat"


@pytest.mark.parametrize("command, name, words", [
    ("generate", "bert-mlm", "a masked language model: `fill`, `embed` and `similar` use it"),
    ("classify", "bert-encoder", "an encoder of texts: `embed` and `similar` use it"),
    ("translate", "gpt2", "a language model: `generate` continues a text with it"),
    ("embed", "t5", "`translate` uses it"), ("evaluate", "bert-encoder", "`embed` and `similar` use it"),
    ("evaluate", "gpt2", "was imported and has no held-out data; give it some with --text FILE")])
def test_a_command_that_does_not_fit_names_one_that_does(capsys, published, command, name, words):
    assert words in refused(capsys, command, published / f"{name}.npz")


@pytest.mark.parametrize("command, name, words", [
    (["train", "lm", "--resume", "--out"], "gpt2", "has no training to resume; --pretrained"),
    (["plot", "history", "--run"], "gpt2", "of whose training there is no history"),
    (["plot", "gradients", "--text", "the", "--run"], "bert-encoder", "has no output with a loss"),
    (["explore", "--out", "PAGE", "--run"], "bert-encoder", "it has no output with a loss to explore")])
def test_what_an_imported_model_does_not_have(capsys, published, tmp_path, monkeypatch, command, name, words):
    monkeypatch.chdir(tmp_path)
    words_of_command = ["page.html" if word == "PAGE" else word for word in command]
    assert words in refused(capsys, *words_of_command, published / f"{name}.npz")
    assert not list(tmp_path.iterdir())


def test_perplexity_of_another_text(capsys, published, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 20)
    code, out, _ = run(capsys, "evaluate", published / "gpt2.npz", "--text", tmp_path / "text.txt")
    assert code == 0 and "in windows of 48" in out and "perplexity" in out


@pytest.fixture
def folder(published, tmp_path):
    """A copy of GPT-2's folder, to be damaged."""
    return shutil.copytree(published / "gpt2", tmp_path / "copy")


def change(name, text=None):
    return lambda folder: (folder / name).unlink() if text is None else (folder / name).write_text(text)


@pytest.mark.parametrize("damage, words", [
    (change("tokenizer.json"), "was exported here"),
    (change("generation_config.json", '{"eos_token_id": "x"}'), "eos_token_id = 'x', wanted an id or a list of ids; copy"),
    (change("generation_config.json", '{"decoder_start_token_id": [1]}'), "decoder_start_token_id = [1], wanted an id; copy"),
    (change("tokenizer.json", '{"model": 3}'), "cannot read tokenizer.json"),
    (change("tokenizer_config.json", "{"), "is not JSON"),
    (change("special_tokens_map.json", "[]"), "special_tokens_map.json holds no JSON object"),
    (change("config.json", json.dumps({"model_type": "mamba"})), "'mamba'")])
def test_a_broken_folder_is_refused_and_nothing_is_written(capsys, folder, tmp_path, damage, words):
    damage(folder)
    assert words in refused(capsys, "import", folder, "--out", tmp_path / "run.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_an_end_of_texts_that_the_model_does_not_know_is_said(capsys, folder, tmp_path):
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 9999]}')
    code, out, _ = run(capsys, "import", folder, "--out", tmp_path / "run.npz")
    assert code == 0 and "The files name 9999 as an id that ends a text" in out


@pytest.mark.parametrize("text, words", [("{", "is not JSON"), ("[1]", "holds no JSON object"),
                                         ('{"max_seq_length": "9"}', "max_seq_length is '9' in the model's folder")])
def test_a_broken_length_of_sentences_is_refused(capsys, published, tmp_path, text, words):
    folder = shutil.copytree(published / "bert-encoder", tmp_path / "copy")
    (folder / "sentence_bert_config.json").write_text(text)
    assert words in refused(capsys, "import", folder, "--out", tmp_path / "run.npz")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    assert run(capsys, "import", folder, "--out", tmp_path / "run.npz")[0] == 0
    assert load_run(tmp_path / "run.npz").reader.max_len == 9


@pytest.mark.parametrize("command", ["generate gpt2", "train lm --pretrained gpt2 --text x.txt"])
def test_a_folder_is_imported_first(capsys, published, monkeypatch, command):
    monkeypatch.chdir(published)
    assert "`numpy-transformer import` makes a run of it" in refused(capsys, *command.split())


def test_a_run_of_an_unknown_configuration_is_refused(capsys, published, tmp_path):
    arrays, meta = read_checkpoint(published / "bert-encoder.npz")
    del meta["format"]
    write_checkpoint(tmp_path / "run.npz", arrays, meta | {"config": "small"})
    assert "neither `train` nor `import` wrote" in refused(capsys, "embed", tmp_path / "run.npz", "the cat")


def test_nothing_but_a_run_is_replaced(capsys, folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert "exists already; --overwrite replaces it" in refused(capsys, "import", folder, "--out", tmp_path / "notes.txt")
    assert "is not a checkpoint" in refused(capsys, "import", folder, "--out", tmp_path / "notes.txt", "--overwrite")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_without_the_library_one_sentence_says_what_to_install(capsys, published, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for command in (["import", published / "gpt2", "--out", tmp_path / "run.npz"], ["generate", published / "gpt2.npz"]):
        assert 'install it with pip install tokenizers' in refused(capsys, *command)


def test_a_run_from_scratch_is_not_exported(capsys, runs, tmp_path):
    assert "was trained from scratch here" in refused(capsys, "export", runs / "mlm.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name, text", [("gpt2", "the cat"), ("llama", "the cat"), ("bert-mlm", "the [MASK] sat"),
                                        ("bert-classifier", "the cat"), ("bert-tagger", "the cat"), ("t5", "the cat")])
def test_pictures_and_pages(capsys, published, tmp_path, name, text):
    from numpy_transformer.explorer.runs import from_run
    from numpy_transformer.explorer.session import Session

    for picture in ("attention", "gradients", "xray")[:3 if name == "gpt2" else 1]:
        code, _, err = run(capsys, "plot", picture, "--run", published / f"{name}.npz", "--text", text, "--out",
                           tmp_path / f"{picture}.png")
        assert code == 0, err
    document = Session(from_run(published / f"{name}.npz", text)).document()
    assert document["title"].startswith(f"A model of the family {name.partition('-')[0]}, with 2 blocks")
    shown = document["tokens"]["source"][0]
    assert {"cat", "sat"} & {token.strip("▁ ") for token in shown} or name in ("gpt2", "llama")


@pytest.mark.slow
def test_only_one_block_is_drawn_if_there_are_many_heads(capsys, tmp_path):
    from helpers.published import write_published

    write_published(tmp_path / "wide", "gpt2", n_head=12, n_embd=24, n_layer=5)
    assert run(capsys, "import", tmp_path / "wide", "--out", tmp_path / "run.npz")[0] == 0
    options = ["plot", "attention", "--run", tmp_path / "run.npz", "--text", "the cat", "--out", tmp_path / "a.png"]
    code, _, err = run(capsys, *options)
    assert code == 0 and "the 5 blocks have 60 heads, but a picture shows at most 48; only block 4 is drawn" in err
    code, _, err = run(capsys, *options, "--block", 1, "--overwrite")
    assert code == 0 and not err
