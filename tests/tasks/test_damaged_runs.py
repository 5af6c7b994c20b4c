"""A run of any origin costs no more to read than its file has bytes, and damage to it is one sentence."""

import json
import zipfile

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.mutations import npy

import numpy_transformer as nt
from numpy_transformer.data import CharTokenizer, WordTokenizer
from numpy_transformer.training import npz

LETTERS = CharTokenizer("abc")
SIZES = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8, "max_len": 8, "rng": 0}


@pytest.fixture
def saved(tmp_path):
    nt.save_run(tmp_path / "run.npz", nt.CausalLanguageModel(3, **SIZES), LETTERS)
    return tmp_path / "run.npz"


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    """Writes a run again after change(meta, members)."""
    stored = members(path)
    with np.load(path) as arrays:
        meta = json.loads(str(arrays["meta"]))
    change(meta, stored)
    stored["meta.npy"] = npy(np.array(json.dumps(meta)))
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in stored.items():
            archive.writestr(name, content)
    return path


def refusal(capsys, path):
    """The sentence with which two commands refuse a run; the one that reads no weights has the same reason."""
    assert refused(capsys, "info", path)
    return refused(capsys, "generate", path)


SETTINGS = [
    ({"num_layers": 10 ** 7}, "many more weights than the 20 arrays"), ({"d_model": 8_000_000}, "many more numbers than the"),
    ({"d_ff": 10 ** 15}, "many more numbers than the"), ({"max_len": 10 ** 12}, "many more numbers than the"),
    ({"positions": "sinusoidal", "max_len": 10 ** 9}, "many more numbers than the"),
    ({"positions": "rotary", "d_head": 2 ** 40}, "many more numbers than the"),
    ({"positions": "alibi", "num_heads": 2 ** 40, "d_head": 1}, "many more numbers than the"),
    ({"d_model": 10 ** 400}, "run.npz' "), ({"num_heads": 3}, "not divisible"), ({"positions": ["x"]}, "run.npz' "),
    ({"no_setting": 1}, "unexpected keyword argument 'no_setting'")]


@pytest.mark.parametrize("options, words", SETTINGS, ids=lambda value: str(value)[:40])
def test_a_model_larger_than_its_file_is_not_built(options, words, saved, capsys, monkeypatch):
    count = []
    make = nt.Block.__init__
    monkeypatch.setattr(nt.Block, "__init__", lambda self, *given, **named: count.append(1) or make(self, *given, **named))
    rewrite(saved, lambda meta, _: meta["model"].update(options))
    assert words in refusal(capsys, saved)
    assert len(count) <= 200                                # of two models: an array in the file allows for three


@pytest.mark.parametrize("change, words", [
    ({"origin": None}, "meta['origin'] is None"), ({"origin": []}, "meta['origin'] is [], not an object"),
    ({"origin": {"family": "gpt2"}}, "has no 'config'"),
    ({"origin": {"family": "x", "config": {}, "files": {}}}, "there is no 'x'"),
    ({"origin": {"family": "gpt2", "config": {"architectures": 7}, "files": {}}}, "run.npz' "),
    ({"settings": []}, "meta['settings'] is []"), ({"settings": {"seed": 1}}, "has no 'context'"),
    ({"tokenizers": []}, "0 tokenizers"),
    ({"tokenizers": [{"kind": "pretrained"}]}, "run.npz' "), ({"corpus": 5}, "meta['corpus'] is 5"),
    ({"step": "x"}, "meta['step'] is 'x'"),
    ({"best": {"step": 1}}, "has no 'validation'"), ({"kind": []}, "neither `train` nor `import`"),
    ({"base": "x"}, "meta['base'] is 'x'"),
    ({"lora": {"rank": "1"}}, "meta['lora']['rank'] is '1', not a whole number"),
    ({"lora": {"rank": 10 ** 12}}, "rank = 1000000000000")])
def test_what_a_run_says_of_itself_has_its_form(change, words, saved, capsys):
    rewrite(saved, lambda meta, _: meta.update(change))
    assert words in refusal(capsys, saved)


def test_a_classifier_has_a_label_for_each_output(tmp_path, capsys):
    words = WordTokenizer(["a", " b"])
    path = tmp_path / "classifier.npz"
    nt.save_run(path, nt.SequenceClassifier(words.vocab_size + 4, **SIZES, num_classes=3), words, labels=["x", "y", "z"])
    for labels, sentence in ((["x"], "1 labels for 3 outputs"), ([1, 2, 3], "is 1, not a text"), (None, "is None")):
        rewrite(path, lambda meta, _, labels=labels: meta.update(corpus={"labels": labels}))
        assert sentence in refused(capsys, "classify", path, "a")
        assert sentence in refused(capsys, "info", path)


def test_what_is_compressed_is_not_unpacked(saved, capsys, monkeypatch):
    monkeypatch.setattr(npz.NpzArchive, "__getitem__", lambda self, name: pytest.fail(f"{name} was read"))
    rewrite(saved, lambda meta, stored: stored.update({"model/x.npy": bytes(1 << 24)}), zipfile.ZIP_DEFLATED)
    assert saved.stat().st_size < 1 << 20
    assert "is compressed; training saves arrays as they are" in refusal(capsys, saved)


@pytest.mark.parametrize("shape", ["(10000000000,)", "(0, 4611686018427387904)", "(-1,)", "(2.5,)", f"({'1, ' * 40})"])
def test_headers_are_compared_with_the_bytes_that_are_there(shape, saved, capsys):
    def change(meta, stored):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(245).encode() + b"\n"
        stored["model/x.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
    rewrite(saved, change)
    assert "damaged (" in refusal(capsys, saved)


@pytest.mark.parametrize("name", ["model/\x1b[31mred.npy", "model/a\nb.npy", "x" * 500 + ".npy", "model/\u202ex.npy"])
def test_names_of_arrays_are_shown_escaped_and_short(name, saved, capsys):
    rewrite(saved, lambda meta, stored: stored.update({name: npy(np.zeros(2))}))
    sentence = refusal(capsys, saved)
    assert "an array is called" in sentence and "\x1b" not in sentence and "\u202e" not in sentence and len(sentence) < 600


def test_labels_and_settings_reach_the_terminal_without_escape_sequences(saved, capsys):
    strange = {"\x1b[2Jnote": "\x1b]0;title\x07", "more": "\x9b31m\u202e\ud800"}
    rewrite(saved, lambda meta, _: meta["settings"].update(strange))
    code, out, _ = run(capsys, "info", saved)
    assert code == 0 and " [2Jnote" in out and not set("\x1b\x07\x9b\u202e\ud800") & set(out)


def test_arrays_beside_those_of_the_model_are_counted(saved, capsys):
    """Two entries of an archive can share the same bytes, so that they announce more than the file has."""
    data = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        first = archive.infolist()[0]
        place = data.rfind(b"PK\x01\x02" + data[data.rfind(b"PK\x01\x02") + 4:])
    entry = data[place:data.rfind(b"PK\x05\x06")]
    end = data[data.rfind(b"PK\x05\x06"):]
    count = int.from_bytes(end[8:10], "little") + 30_000
    more = b"".join(bytes(entry).replace(b"beta.npy", b"%04d.npy" % n) for n in range(30_000))
    size = int.from_bytes(end[12:16], "little") + len(more)
    end[8:12], end[12:16] = count.to_bytes(2, "little") * 2, size.to_bytes(4, "little")
    saved.write_bytes(bytes(data[:-len(end)]) + more + bytes(end))
    assert first.filename == "meta.npy" and "damaged (" in refusal(capsys, saved)
