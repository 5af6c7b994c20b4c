"""save_run and load_run: what a script has trained opens in the commands, and what the commands wrote opens in a script."""

import copy
import pickle

import numpy as np
import pytest
from helpers.commands import refused, run

import numpy_transformer as nt
from numpy_transformer.data import CharTokenizer, KerasReader, TextReader, TextWindows, WordTokenizer

TEXT = "the film was good. the film was bad.\n" * 20
CHARACTERS, WORDS = CharTokenizer(TEXT), WordTokenizer.train(TEXT, 12)
READER = TextReader(WORDS, max_len=10)
SIZES = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8, "rng": 0}
LANGUAGE_MODEL = nt.CausalLanguageModel(CHARACTERS.vocab_size, **SIZES, max_len=16)
CLASSIFIER = nt.SequenceClassifier(READER.vocab_size, **SIZES, max_len=10, num_classes=2, hidden=8)
EVERY_KIND = [
    (LANGUAGE_MODEL, [CHARACTERS], None, ["generate", "--prompt", "the", "--length", 4]),
    (nt.EncoderDecoder(CHARACTERS.vocab_size + 3, WORDS.vocab_size + 3, **SIZES, max_len=20), [CHARACTERS, WORDS], None,
     ["translate", "the film"]),
    (nt.EncoderDecoder(CHARACTERS.vocab_size + 3, CHARACTERS.vocab_size + 3, **SIZES, max_len=20, tie_weights=True),
     [CHARACTERS], None, ["translate", "the film", "--beam", 1]),
    (CLASSIFIER, [READER], ["bad", "good"], ["classify", "the film"]),
    (nt.SequenceClassifier(READER.vocab_size, **SIZES, max_len=10), [WORDS], ["bad", "good"], ["classify", "the film"]),
    (nt.SequenceClassifier(WORDS.vocab_size + 4, **SIZES, num_classes=3), [KerasReader(WORDS, 9)], ["a", "b", "c"],
     ["classify", "the film"]),
    (nt.TokenClassifier(READER.vocab_size, **SIZES, num_classes=2, max_len=10), [READER], ["O", "B-x"], ["tag", "the film"]),
    (nt.MaskedLanguageModel(READER.vocab_size, **SIZES, max_len=10), [READER], None, ["fill", "the [MASK] was"]),
    (nt.TextEncoder(READER.vocab_size, **SIZES, max_len=10), [READER], None, ["embed", "the film"])]


@pytest.mark.parametrize("model, tokenizers, labels, words", EVERY_KIND, ids=lambda value: type(value).__name__)
def test_the_commands_open_what_a_script_saves(capsys, tmp_path, model, tokenizers, labels, words):
    path = tmp_path / "run.npz"
    nt.save_run(path, model, *tokenizers, labels=labels)
    loaded = nt.load_run(path)
    assert type(loaded.model) is type(model) and not loaded.model.training
    for (name, found), (other, wanted) in zip(loaded.model.named_parameters(), model.named_parameters(), strict=True):
        assert name == other and np.array_equal(found.data, wanted.data)
    assert loaded.tokenizer.to_json() == getattr(tokenizers[0], "tokens", tokenizers[0]).to_json()
    if isinstance(tokenizers[0], TextReader):
        assert repr(loaded.reader) == repr(tokenizers[0])
    command, *more = words
    code, out, err = run(capsys, command, path, *more)
    assert code == 0 and out, err
    code, out, err = run(capsys, "info", path)
    assert code == 0 and "saved by a script after 0 steps" in out and ("labels: " in out) == bool(labels), err
    if loaded.kind != "encoder":                            # no command trains one
        assert "a model that a script saved" in refused(capsys, "train", loaded.kind, "--resume", "--out", path)


@pytest.mark.slow
def test_the_history_of_the_trainer_is_kept_and_drawn(capsys, tmp_path):
    model = copy.deepcopy(LANGUAGE_MODEL)                   # knows its arguments, too
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), nt.SGD(model.parameters(), 0.1))
    windows = TextWindows(CHARACTERS.encode(TEXT), 8, 4, 0, CHARACTERS.vocab_size)
    trainer.fit(windows.batch, 3, windows.validation(), 1)
    nt.save_run(tmp_path / "run.npz", model, CHARACTERS, trainer=trainer)
    loaded = nt.load_run(tmp_path / "run.npz")
    assert loaded.meta["step"] == 3
    assert loaded.arrays["history/loss"].tolist() == [row["loss"] for row in trainer.history]
    assert run(capsys, "plot", "history", "--run", tmp_path / "run.npz", "--out", tmp_path / "x.png")[0] == 0
    (tmp_path / "text.txt").write_text(TEXT)
    code, out, err = run(capsys, "evaluate", tmp_path / "run.npz", "--text", tmp_path / "text.txt")
    assert code == 0 and "perplexity" in out, err
    code, out, err = run(capsys, "train", "lm", "--pretrained", tmp_path / "run.npz", "--text", tmp_path / "text.txt",
                         "--steps", 1, "--out", tmp_path / "next.npz")
    assert code == 0 and "newly initialized: none" in out, err


@pytest.mark.slow
def test_what_train_saved_opens_in_a_script_and_is_saved_again(capsys, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    code, _, err = run(capsys, "train", "lm", "--text", tmp_path / "text.txt", "--steps", 1, "--context", 8, "--out",
                       tmp_path / "run.npz")
    assert code == 0, err
    loaded = nt.load_run(tmp_path / "run.npz")
    nt.save_run(tmp_path / "again.npz", loaded.model, *loaded.tokenizers)
    outputs = [run(capsys, "generate", tmp_path / name, "--length", 5) for name in ("run.npz", "again.npz")]
    assert outputs[0] == outputs[1] and outputs[0][0] == 0


def test_a_published_model_keeps_its_origin(capsys, tmp_path):
    pytest.importorskip("tokenizers")
    from helpers.published import write_published

    write_published(tmp_path / "bert", "bert-classifier")
    assert run(capsys, "import", tmp_path / "bert", "--out", tmp_path / "bert.npz")[0] == 0
    loaded = nt.load_run(tmp_path / "bert.npz")
    loaded.model.output.bias.data += 1                      # the script trains
    nt.save_run(tmp_path / "mine.npz", loaded.model, loaded.tokenizer, labels=["no", "yes", "so so"])
    assert "a model of the family bert, BertForSequenceClassification" in run(capsys, "info", tmp_path / "mine.npz")[1]
    code, _, err = run(capsys, "export", tmp_path / "mine.npz", tmp_path / "folder")
    assert code == 0, err
    again = nt.load_pretrained(tmp_path / "folder")
    assert np.array_equal(again.output.bias.data, loaded.model.output.bias.data)
    assert again.origin.config["id2label"]["2"] == "so so"


@pytest.mark.parametrize("tokenizer", [CHARACTERS, WORDS, READER, KerasReader(WORDS, 9)], ids=lambda one: type(one).__name__)
def test_an_encoder_preset_is_saved_with_the_reader_of_its_texts(capsys, tmp_path, tokenizer):
    reader = tokenizer if isinstance(tokenizer, TextReader) else TextReader(tokenizer, 64)
    model = nt.preset("modernbert", vocab_size=reader.vocab_size, rng=0).eval()
    nt.save_run(tmp_path / "run.npz", model, tokenizer)
    loaded = nt.load_run(tmp_path / "run.npz")
    assert repr(loaded.reader) == repr(reader)
    ids = reader.read("the film")
    np.testing.assert_array_equal(loaded.model(ids), model(ids))
    code, out, err = run(capsys, "embed", tmp_path / "run.npz", "the film")
    assert code == 0 and out, err
    with pytest.raises(ValueError, match="made with vocab_size = 11, but this tokenizer has"):
        nt.save_run(tmp_path / "other.npz", nt.preset("modernbert", vocab_size=11), tokenizer)


def test_a_preset_is_saved_only_with_a_tokenizer_of_its_vocabulary(capsys, tmp_path):
    with pytest.raises(ValueError, match="made with vocab_size = 10, but this tokenizer has 17 ids .* pass the tokenizer"):
        nt.save_run(tmp_path / "run.npz", nt.preset("qwen3", vocab_size=10), CHARACTERS)
    assert not list(tmp_path.iterdir())
    nt.save_run(tmp_path / "run.npz", nt.preset("qwen3", vocab_size=CHARACTERS.vocab_size, rng=0), CHARACTERS)
    code, out, err = run(capsys, "generate", tmp_path / "run.npz", "--prompt", "the", "--length", 4)
    assert code == 0 and out, err


def test_a_run_without_its_trainer_has_no_history_to_draw(capsys, tmp_path):
    nt.save_run(tmp_path / "run.npz", LANGUAGE_MODEL, CHARACTERS)
    line = refused(capsys, "plot", "history", "--run", tmp_path / "run.npz", "--out", tmp_path / "x.png")
    assert "run.npz' was saved before its first step, or without its trainer" in line, line


@pytest.mark.parametrize("name, sizes, absent", [
    ("qwen3", "a model of the family qwen3, Qwen3ForCausalLM: 2 blocks, 16 wide, 2 heads, 1 of them for keys and values", "latent"),
    ("deepseek-v3", "keys and values from latent vectors of 8", "of them for keys")])
def test_info_calls_no_model_of_a_script_published(capsys, tmp_path, name, sizes, absent):
    model = nt.preset(name, vocab_size=CHARACTERS.vocab_size, rng=0)
    nt.save_run(tmp_path / "run.npz", model, CHARACTERS)
    nt.save_pretrained(model, tmp_path / "folder")
    for path in (tmp_path / "run.npz", tmp_path / "folder"):
        code, out, err = run(capsys, "info", path)
        said = " ".join(out.split())
        assert code == 0 and sizes in said and "published" not in said and absent not in said, (out, err)


def test_a_model_knows_its_arguments_after_copy_and_pickle():
    for model in (copy.deepcopy(CLASSIFIER), pickle.loads(pickle.dumps(CLASSIFIER))):
        assert model.constructor_arguments() == {"vocab_size": READER.vocab_size, "d_model": 8, "num_heads": 2, "num_layers": 1,
                                                 "d_ff": 8, "max_len": 10, "num_classes": 2, "hidden": 8}
    assert nt.make_model(11, 12, N=1, d_model=8, d_ff=8, h=2).constructor_arguments()["tgt_vocab"] == 12


def replaced():
    model = copy.deepcopy(LANGUAGE_MODEL)
    model.dropout = nt.ReLU()
    return model


def with_lora():
    model = copy.deepcopy(LANGUAGE_MODEL)
    nt.add_lora(model, 2)
    return model


@pytest.mark.parametrize("model, tokenizers, labels, kind, sentence", [
    (nt.Linear(2, 2), [CHARACTERS], None, TypeError, "saves CausalLanguageModel, .* and not Linear; .*np.savez"),
    (LANGUAGE_MODEL, [], None, TypeError, "0 tokenizers .* CausalLanguageModel consists of the model and its tokenizer"),
    (LANGUAGE_MODEL, [CHARACTERS] * 2, None, TypeError, "2 tokenizers"),
    (LANGUAGE_MODEL, ["abc"], None, TypeError, "a str is no tokenizer"),
    (LANGUAGE_MODEL, [WORDS], None, ValueError, "vocab_size = .* but this tokenizer has 9 ids"),
    (LANGUAGE_MODEL, [CHARACTERS], ["a"], ValueError, "has no labels"),
    (CLASSIFIER, [READER], None, ValueError, "num_classes = 2 needs 2 labels, but none"),
    (CLASSIFIER, [READER], ["a", "b", "c"], ValueError, "needs 2 labels, but 3"),
    (replaced(), [CHARACTERS], None, ValueError, "parts of the CausalLanguageModel have been replaced .* .model.dropout is ReLU instead of Dropout"),
    (with_lora(), [CHARACTERS], None, ValueError, "have been replaced .* nt.merge_lora takes back"),
    (CLASSIFIER, [CHARACTERS], ["a", "b"], ValueError, "vocab_size")])
def test_what_does_not_fit_gets_a_sentence_and_leaves_no_file(tmp_path, model, tokenizers, labels, kind, sentence):
    with pytest.raises(kind, match=sentence):
        nt.save_run(tmp_path / "run.npz", model, *tokenizers, labels=labels)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_and_a_file_that_is_no_run_get_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="cannot write .* existing folder"):
        nt.save_run(tmp_path / "none" / "run.npz", LANGUAGE_MODEL, CHARACTERS)
    np.savez(tmp_path / "weights.npz", **LANGUAGE_MODEL.state_dict())
    with pytest.raises(ValueError, match="is not a checkpoint"):
        nt.load_run(tmp_path / "weights.npz")
    with pytest.raises(ValueError, match="cannot read .*none.npz"):
        nt.load_run(tmp_path / "none.npz")
