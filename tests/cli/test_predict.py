"""classify, tag, fill, embed and similar: each line beside the model's own output, and long or empty texts."""

import io
import re
import shutil

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.encoder_runs import BASE, LONG, changed, numbers, softmax, texts_of, trained

import numpy_transformer as nt
from numpy_transformer.cli import main
from numpy_transformer.data.reader import CLS, MASK, SEP, SPECIAL
from numpy_transformer.tasks import ClassifierTask
from numpy_transformer.tasks.runs import load_run


def test_probabilities_of_a_class(capsys, runs, monkeypatch):
    """Texts of mixed length, more than a batch: in order, each with the sigmoid of its own logit."""
    loaded, texts = load_run(runs / "classifier.npz"), texts_of(runs)
    code, out, err = run(capsys, "classify", runs / "classifier.npz", *texts)
    lines = out.splitlines()
    assert code == 0 and len(lines) == 40 and [line.split("\t")[2] for line in lines] == texts
    for line, text in zip(lines, texts):
        pos = 1 / (1 + np.exp(-float(loaded.model(loaded.reader.read(text)))))
        label, share, _ = line.split("\t")
        assert label == ("pos" if pos > 0.5 else "neg") and float(share) == pytest.approx(max(pos, 1 - pos), abs=1e-4)
    monkeypatch.setattr("sys.stdin", io.StringIO("\r\n".join(texts) + "\r\n"))
    assert run(capsys, "classify", runs / "classifier.npz")[:2] == (0, out)


def test_probabilities_of_several_classes(capsys, runs, tmp_path):
    trained(capsys, "classifier", tmp_path / "run.npz", *BASE["classifier"], "--data",
            *(runs / f"films.{label}" for label in ("neg", "pos", "so")), "--lr", 0.05)
    loaded = load_run(tmp_path / "run.npz")
    assert loaded.model.output.weight.data.shape == (8, 3)
    texts = [*texts_of(runs, 9), "so so"]
    _, out, _ = run(capsys, "classify", tmp_path / "run.npz", *texts)
    for line, text in zip(out.splitlines(), texts):
        shares = softmax(loaded.model(loaded.reader.read(text)).astype(float))
        label, share, same = line.split("\t")
        assert label == ("neg", "pos", "so")[shares.argmax()] and same == text
        assert float(share) == pytest.approx(shares.max(), abs=1e-4)


@pytest.fixture(scope="module")
def unmasked(runs):
    """A run of the note: padding is attended to and averaged over."""
    assert main(list(map(str, ["train", "classifier", *BASE["classifier"], "--no-mask-padding", "--lr", 0.05, "--data",
                               runs / "reviews.csv", "--out", runs / "unmasked.npz"]))) == 0
    return runs / "unmasked.npz"


def test_without_masks_a_text_does_not_depend_on_the_others(capsys, runs, unmasked):
    loaded, texts = load_run(unmasked), ["great film", *texts_of(runs, 5), LONG]
    assert not loaded.model.mask_padding and load_run(runs / "classifier.npz").model.mask_padding
    _, together, _ = run(capsys, "classify", unmasked, *texts)
    for text, line in zip(texts, together.splitlines()):
        assert run(capsys, "classify", unmasked, text)[1].splitlines() == [line]
        ids = loaded.reader.read(text)
        padded = np.concatenate([ids, np.zeros(12 - len(ids), int)])        # up to --max-len, as in the training
        pos = 1 / (1 + np.exp(-float(loaded.model(padded))))
        assert float(line.split("\t")[1]) == pytest.approx(max(pos, 1 - pos), abs=1e-4)
    assert ClassifierTask(loaded.settings).batches(0)[0][0].shape == (8, 12)


def test_without_masks_a_vector_does_not_depend_on_the_others(capsys, unmasked):
    _, together, _ = run(capsys, "embed", unmasked, "great film", LONG)
    _, alone, _ = run(capsys, "embed", unmasked, "great film")
    np.testing.assert_allclose(numbers(together)[0], numbers(alone)[0], atol=1e-4)


@pytest.mark.parametrize("command, kind", [("classify", "classifier"), ("tag", "tagger"), ("embed", "mlm"),
                                           ("embed", "classifier")])
def test_cut_texts_are_counted_once_on_standard_error(capsys, runs, monkeypatch, command, kind):
    texts = [LONG, "the film", LONG.upper(), *["a story"] * 35, LONG]       # two batches
    code, out, err = run(capsys, command, runs / f"{kind}.npz", *texts)
    length = 16 if kind == "tagger" else 12
    assert code == 0 and err.splitlines() == [f"cut 3 of 39 texts after their first {length} tokens, including [CLS] and [SEP] "
                                              "(max_len)"]
    assert "cut" not in out and run(capsys, command, runs / f"{kind}.npz", "the film")[2] == ""


def test_good_lines_before_an_empty_one_are_answered(capsys, runs, monkeypatch):
    for command, kind, count in (("classify", "classifier", 2), ("tag", "tagger", 7), ("embed", "mlm", 2)):
        monkeypatch.setattr("sys.stdin", io.StringIO("great film\nso it went\n  \nthe end\n"))
        code = main([command, str(runs / f"{kind}.npz")])
        output = capsys.readouterr()
        assert code == 2 and len(output.out.splitlines()) == count
        assert f"{command}: line 3: the text '  ' is empty; give at least one word" in output.err


def test_nothing_to_read_is_no_crash(capsys, runs, tmp_path, monkeypatch):
    for command, kind in (("classify", "classifier"), ("tag", "tagger"), ("embed", "mlm")):
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert run(capsys, command, runs / f"{kind}.npz") == (0, "", "")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, out, err = run(capsys, "embed", runs / "mlm.npz", "--out", tmp_path / "e.npy")
    assert "concatenate" not in err and len(err.splitlines()) <= 1 and (code == 0 or err)


def test_tags_stand_beside_their_words(capsys, runs, tmp_path, monkeypatch):
    """Each word has the class of its first piece, of the sentence by itself."""
    path = tmp_path / "tagger.npz"
    trained(capsys, "tagger", path, *BASE["tagger"], "--data", runs / "names.conll", "--vocab-size", 300, "--lr",
            0.05, "--steps", 12)
    loaded = load_run(path)
    sentences = [["Ann went to Rome .", "unheard-of Bob", "Cleo came to New York and Paris .", "."][n % 4]
                 for n in range(40)]
    code, out, err = run(capsys, "tag", path, *sentences)
    blocks = out.split("\n\n")
    assert code == 0 and not err and len(blocks) == 41 and blocks[40] == ""
    for sentence, block in zip(sentences[:4], blocks):
        words = sentence.split()
        pieces = [loaded.reader.pieces(word) for word in words]
        starts = [1 + sum(map(len, pieces[:n])) for n in range(len(words))]
        best = loaded.model(np.concatenate([[CLS], *pieces, [SEP]]).astype(int)).argmax(-1)
        assert block.split("\n") == [f"{word}\t{loaded.labels[best[start]]}" for word, start in zip(words, starts)]
    assert len(loaded.reader.pieces("unheard-of")) > 1
    assert len({line.split("\t")[1] for line in out.split("\n") if line}) > 1
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(sentences)))
    assert run(capsys, "tag", path)[:2] == (0, out)


def test_words_that_were_cut_off_are_marked(capsys, runs, tmp_path):
    path = changed(runs / "tagger.npz", tmp_path / "t.npz", output__weight=0, output__bias=[0, 0, 9, 0])
    code, out, err = run(capsys, "tag", path, "Ann " * 30)                  # all are B-per
    tags = [line.split("\t")[1] for line in out.split("\n") if line]
    kept = 14 // len(load_run(path).reader.pieces("Ann"))
    assert code == 0 and tags == ["B-per"] * kept + ["?"] * (30 - kept)


def test_the_likeliest_words_of_each_place(capsys, runs):
    loaded = load_run(runs / "mlm.npz")
    code, out, err = run(capsys, "fill", runs / "mlm.npz", "The [MASK] is a [mask] .", "--top", 7)
    ids = np.concatenate([[CLS], loaded.reader.pieces("the"), [MASK], loaded.reader.pieces("is a"), [MASK],
                          loaded.reader.pieces("."), [SEP]])
    logits = loaded.model(ids).astype(float)
    first, second = out.split("\n\n")
    assert code == 0 and not err
    for block, place in ((first, 2), (second, 5)):
        shares = softmax(np.where(np.arange(logits.shape[1]) > SPECIAL, logits[place], -np.inf))    # SPECIAL is <unk>
        order = np.argsort(-shares)[:7]
        lines = [line.split("\t") for line in block.strip().split("\n")]
        assert [word for _, word in lines] == [loaded.tokenizers[0].words[n - SPECIAL - 1].strip() for n in order]
        np.testing.assert_allclose([float(share) for share, _ in lines], shares[order], atol=6e-5)
    assert len(run(capsys, "fill", runs / "mlm.npz", "the [MASK]")[1].splitlines()) == 5


@pytest.mark.parametrize("top", [5, 100_000])
def test_no_special_token_fills_a_place(capsys, runs, tmp_path, top):
    loaded = load_run(runs / "mlm.npz")
    bias = np.zeros(loaded.reader.vocab_size)
    bias[:SPECIAL + 1] = 50
    path = changed(runs / "mlm.npz", tmp_path / "m.npz", bias=bias)
    _, out, _ = run(capsys, "fill", path, "the [MASK] is", "--top", top)
    words = [line.split("\t")[1] for line in out.splitlines()]
    assert not {"[PAD]", "[CLS]", "[SEP]", "[MASK]", "<unk>"} & set(words) and len(set(words)) == len(words)
    assert len(words) == min(top, loaded.reader.vocab_size - SPECIAL - 1)


def test_bytes_are_filled_in_too(capsys, runs, tmp_path):
    trained(capsys, "mlm", tmp_path / "m.npz", *BASE["mlm"], "--tokenizer", "bpe", "--vocab-size", 300, "--no-lower",
            "--data", runs / "text.txt")
    tokens = load_run(tmp_path / "m.npz").tokenizers[0].vocab_size
    assert main(["fill", str(tmp_path / "m.npz"), "The [MASK] is", "--top", str(tokens)]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == tokens + 1                                 # a token to a line, the line feed too
    assert all(re.fullmatch(r"\d\.\d{4}\t.+", line) and line.split("\t", 1)[1].isprintable() for line in lines[:-1])


@pytest.mark.parametrize("kind", [
    "mlm", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("classifier", "tagger"))])
def test_a_vector_is_the_mean_of_the_outputs(capsys, runs, tmp_path, kind, monkeypatch):
    loaded = load_run(runs / f"{kind}.npz")
    texts = ["the film", *texts_of(runs, 38), "a"]
    rows = [loaded.reader.read(text) for text in texts]
    ids = np.array([[*row, *[0] * (max(map(len, rows)) - len(row))] for row in rows])
    with nt.record(loaded.model) as tape:
        nt.TextEncoder.forward(loaded.model, ids)
    y = tape["encoder"].output
    expected = np.array([np.mean([y[n, t] for t in range(len(row))], 0) for n, row in enumerate(rows)])
    code, out, err = run(capsys, "embed", runs / f"{kind}.npz", *texts)
    assert code == 0
    np.testing.assert_allclose(numbers(out), expected, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts)))
    code, said, _ = run(capsys, "embed", runs / f"{kind}.npz", "--out", tmp_path / "vectors.npy")
    assert code == 0 and said == f"saved an array of shape (40, 8) in '{tmp_path / 'vectors.npy'}'\n"
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, rtol=1e-4, atol=1e-5)


def test_vectors_replace_nothing_but_vectors(capsys, runs, tmp_path):
    path = tmp_path / "run.npz"
    shutil.copy(runs / "mlm.npz", path)
    before = path.read_bytes()
    refused(capsys, "embed", path, "the film", "--out", path)
    assert path.read_bytes() == before
    refused(capsys, "embed", path, "the film", "", "--out", tmp_path / "e.npy")
    assert not (tmp_path / "e.npy").exists()
    assert "cannot write" in refused(capsys, "embed", path, "the film", "--out", tmp_path / "none" / "e.npy")


def test_the_nearest_lines_of_a_file(capsys, runs, tmp_path):
    lines = ["the town", "", "great film", *texts_of(runs, 34), "***", "it went on"]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    base = ["similar", runs / "mlm.npz", "--within", tmp_path / "lines.txt"]
    code, out, err = run(capsys, *base, "great film", "--top", 6)
    found = [line.split("\t") for line in out.splitlines()]
    assert code == 0 and len(found) == 6 and found[0] == ["1.0000", "great film"]
    words = [line for line in lines if line not in ("", "***")]
    vectors = numbers(run(capsys, "embed", runs / "mlm.npz", *words)[1])
    own = vectors[1]
    cosines = [sum(a * b for a, b in zip(own, v)) / np.sqrt(sum(own ** 2) * sum(v ** 2)) for v in vectors]
    order = sorted(range(len(words)), key=lambda n: -cosines[n])[:6]
    assert [line for _, line in found] == [words[n] for n in order]
    np.testing.assert_allclose([float(share) for share, _ in found], [cosines[n] for n in order], atol=2e-4)
    assert len(run(capsys, *base, "a")[1].splitlines()) == 5


def test_similar_counts_cuts_once(capsys, runs, tmp_path):
    (tmp_path / "lines.txt").write_text(f"a film\n{LONG}\n\n{LONG}\n")
    code, out, err = run(capsys, "similar", runs / "mlm.npz", LONG, "--within", tmp_path / "lines.txt")
    assert err.splitlines() == ["cut 3 of 4 texts after their first 12 tokens, including [CLS] and [SEP] (max_len)"]
    assert len(out.splitlines()) == 3 and out.startswith(f"1.0000\t{LONG}\n1.0000\t{LONG}\n")
