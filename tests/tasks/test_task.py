"""What all tasks have in common: their settings, the check of the memory, and the end of decoding in text2text."""

import re
from pathlib import Path

import pytest

import numpy_transformer
from numpy_transformer.data import CharTokenizer, frame
from numpy_transformer.tasks import TASKS, TextToTextTask, task
from numpy_transformer.tasks.settings import SettingError, with_names

ROOT = Path(numpy_transformer.__file__).parent

# The settings with which the published results were obtained, and on which the commands in the READMEs rely.
EVERYWHERE = dict(
    num_heads=4, norm="pre", batch_size=64, accumulate=1, optimizer="adamw", schedule="cosine", factor=1.0, beta1=0.9,
    beta2=0.98, eps=1e-8, clip=1.0, label_smoothing=0.0, patience=0, watch="loss", average=0, validate_every=200, save_every=100,
    workers=None, seed=1, pretrained=None, lora=None, lora_alpha=None, lora_targets=None, freeze=None)
FINE_TUNE = dict(batch_size=32, lr=5e-5, min_lr=0.0, warmup=None, beta2=0.999, weight_decay=0.01)
LORA = FINE_TUNE | dict(lora=8, lr=1e-3, weight_decay=0.0)
ON_PAIRS = dict(max_len=128, batch_size=16, steps=1000, schedule="cosine", eps=1e-8, label_smoothing=0.0)
LANGUAGE_MODEL = EVERYWHERE | dict(
    text=None, stories=None, tokenizer="char", vocab_size=1256, preset=None, d_model=96, num_layers=3, d_ff=256, context=64,
    num_kv_heads=None, window=None, num_experts=None, experts_per_token=None,
    dropout=0.0, norm_layer="rms", activation="swiglu", positions="rotary", attention="plain", bias=False, tie=True,
    init="gpt2", steps=800, batch_size=8, lr=5e-3, min_lr=2.5e-4, warmup=80, weight_decay=0.1, z_loss=0.0)
PAPER_2017 = EVERYWHERE | dict(
    tokenizer="bpe", vocab_size=4000, too_long="drop", d_model=128, num_layers=3, d_ff=512, dropout=0.1,
    activation="relu", positions="sinusoidal", tie=False, init="xavier", steps=4000, schedule="noam", lr=1e-3,
    min_lr=1e-4, warmup=1000, eps=1e-9, weight_decay=0.0, label_smoothing=0.1)
PAPER = dict(norm="post", tie=True, clip=0.0)
SEQ2SEQ = PAPER_2017 | dict(task=None, source=None, target=None, max_len=100)
GENERATED = dict(
    tokenizer="char", max_len=32, d_model=64, num_layers=1, d_ff=256, dropout=0.0, steps=2000, schedule="cosine",
    lr=3e-3, min_lr=1.5e-4, warmup=100, eps=1e-8, weight_decay=1.0)
TEXT2TEXT = PAPER_2017 | dict(data=None, max_len=40)
ENCODER = EVERYWHERE | dict(
    data=None, lower=True, max_len=64, d_model=64, num_layers=2, d_ff=256, dropout=0.0, activation="relu",
    positions="rotary", init="xavier", steps=1500, lr=2e-3, weight_decay=0.01)
CLASSIFIER = ENCODER | dict(
    text_column="text", label_column="label", tokenizer="word", vocab_size=2000, reading="bert", hidden=64,
    mask_padding=True, ff_dropout=None, min_lr=1e-5, warmup=100, epochs=None)
TAGGER = ENCODER | dict(
    tokenizer="bpe", vocab_size=800, lower=False, dropout=0.1, positions="sinusoidal", batch_size=32,
    min_lr=1e-4, warmup=150, epochs=None)
MASKED = ENCODER | dict(
    tokenizer="word", vocab_size=2000, max_len=32, masked=0.15, d_model=128, d_ff=512, dropout=0.1,
    activation="gelu", steps=2500, batch_size=32, lr=3e-3, min_lr=1.5e-4, warmup=250, weight_decay=0.1)
SETTINGS = {
    ("lm", "small"): LANGUAGE_MODEL,
    ("lm", "stories"): LANGUAGE_MODEL | dict(
        stories=20_000, tokenizer="word", context=160, init="xavier", batch_size=16, steps=4000, lr=4e-3, min_lr=2e-4,
        warmup=400, validate_every=500),
    ("lm", "nanogpt-cpu"): LANGUAGE_MODEL | dict(
        d_model=128, num_layers=4, d_ff=512, norm_layer="layer", activation="gelu", positions="learned", steps=2000,
        batch_size=12, lr=1e-3, min_lr=1e-4, warmup=100, beta2=0.99, validate_every=500),
    ("seq2seq", "2017"): SEQ2SEQ | PAPER,
    ("seq2seq", "2017-base"): SEQ2SEQ | PAPER | dict(
        d_model=512, num_heads=8, num_layers=6, d_ff=2048, steps=100_000, warmup=4000),
    ("seq2seq", "copy"): SEQ2SEQ | GENERATED | dict(max_len=16, steps=1000),
    ("seq2seq", "dates"): SEQ2SEQ | GENERATED,
    ("seq2seq", "reverse"): SEQ2SEQ | GENERATED,
    ("seq2seq", "sort"): SEQ2SEQ | GENERATED | dict(num_layers=2, steps=3000, weight_decay=0.1),
    ("text2text", "2017"): TEXT2TEXT | PAPER,
    ("text2text", "small"): TEXT2TEXT | GENERATED | dict(max_len=40, num_layers=2, steps=4000, weight_decay=0.3),
    ("classifier", "small"): CLASSIFIER,
    ("classifier", "rt-polarity"): CLASSIFIER | dict(
        vocab_size=10_000, num_layers=1, dropout=0.3, weight_decay=0.1, patience=2, epochs=6, validate_every=None),
    ("classifier", "note-001"): CLASSIFIER | dict(
        vocab_size=10_000, max_len=200, reading="keras", dropout=0.1, norm="post", positions="sinusoidal", init="keras",
        mask_padding=False, ff_dropout=0.0, schedule="constant", lr=1e-4, warmup=0, beta2=0.999, eps=1e-7,
        weight_decay=0.0, clip=0.0, patience=2, epochs=5, validate_every=None),
    ("tagger", "small"): TAGGER,
    ("tagger", "wnut-17"): TAGGER | dict(
        vocab_size=4003, max_len=256, d_model=128, d_ff=512, steps=600, warmup=60, patience=12, watch="f1",
        validate_every=50),
    ("mlm", "small"): MASKED}
for name, changes in (("fine-tune", FINE_TUNE), ("lora", LORA)):
    rate = 1e-4 if name == "fine-tune" else changes["lr"]
    SETTINGS |= {
        ("lm", name): LANGUAGE_MODEL | changes | dict(context=128, batch_size=8, steps=500),
        ("seq2seq", name): SEQ2SEQ | changes | ON_PAIRS | dict(lr=rate),
        ("text2text", name): TEXT2TEXT | changes | ON_PAIRS | dict(lr=rate),
        ("classifier", name): CLASSIFIER | changes | dict(max_len=512, epochs=2, validate_every=None),
        ("tagger", name): TAGGER | changes | dict(max_len=512, epochs=3, validate_every=None),
        ("mlm", name): MASKED | changes | dict(max_len=128, steps=1000)}


def test_every_task_has_its_named_configurations():
    assert set(SETTINGS) == {(name, configuration) for name, kind in TASKS.items() for configuration in kind.configurations}


@pytest.mark.parametrize("name, configuration", SETTINGS)
def test_the_settings_of_each_named_configuration(name, configuration):
    assert TASKS[name].default_settings(configuration) == SETTINGS[name, configuration]


@pytest.mark.parametrize("kind", ["lm", "seq2seq", "mlm"])
def test_the_least_number_of_parameters_is_not_more_than_there_are(kind, monkeypatch):
    """A model that fits into the memory is never refused."""
    made = TASKS[kind].__new__(TASKS[kind])
    made.settings = TASKS[kind].default_settings(next(iter(TASKS[kind].configurations)), d_model=64, d_ff=128)
    sizes = {"d_model": 64, "num_heads": 4, "num_layers": 2, "d_ff": 128, "max_len": 8}
    sizes |= {"src_vocab": 9, "tgt_vocab": 9} if kind == "seq2seq" else {"vocab_size": 9}
    made.base = None
    monkeypatch.setattr(made, "model_config", lambda: sizes, raising=False)
    count = made.make_model().num_parameters()
    monkeypatch.setattr(task, "available_memory", lambda: 16 * count)
    made.make_model()
    monkeypatch.setattr(task, "available_memory", lambda: 8 * count)
    if kind == "lm":                            # its blocks have more than half of the parameters
        with pytest.raises(ValueError, match="d_model 64, d_ff 128 and num_layers 2 has at least .* lower one"):
            made.make_model()
    monkeypatch.setattr(task, "available_memory", lambda: None)
    made.make_model()


def test_decoding_ends_one_token_after_the_longest_target_of_its_batch(monkeypatch):
    limits = []

    def answer(model, sources, bos, eos, max_len):          # each of the two sources with its target
        limits.append(max_len)
        return [frame(tokens, target)[1:] for target in ("ab", "abcde")]

    tokens = CharTokenizer("abcde: t")
    made = TextToTextTask.__new__(TextToTextTask)
    made.tokenizers, made.settings = (tokens, tokens), {"max_len": 40}
    monkeypatch.setattr("numpy_transformer.tasks.text_to_text.greedy_decode", answer)
    assert made.decode(None, [("t: a", "ab"), ("t: ab", "abcde")]) == ["ab", "abcde"]
    assert limits == [len("abcde") + 2]                     # its end, and one token more


def test_a_sentence_about_settings_has_the_names_of_python_or_of_another_place():
    error = SettingError("$max_len 3 is too short for '$task', which costs $5 ($d_model stays)")
    assert str(error) == "max_len 3 is too short for '$task', which costs $5 (d_model stays)"
    assert with_names(error.sentence, str.upper) == "MAX_LEN 3 is too short for '$task', which costs $5 (D_MODEL stays)"


def test_no_sentence_of_data_and_tasks_has_an_option_of_the_command_line():
    texts = {path.name: path.read_text(encoding="utf-8") for room in ("data", "tasks") for path in (ROOT / room).glob("*.py")}
    assert len(texts) > 30 and not {name for name, text in texts.items() if re.search(r"--[a-z]", text)}


@pytest.mark.parametrize("changes, sentence", [
    ({"schedule": "wsd", "warmup": 60}, "$warmup 60 leaves none of the $steps 60 to lower the rate; give at most 59"),
    ({"schedule": "cosine", "warmup": 61}, "$warmup 61 leaves none of the $steps 60 to lower the rate; give at most 59"),
    ({"optimizer": "muon", "lr": 0.0}, "$lr must be above 0 with $optimizer muon, whose rate is a multiple of it")])
def test_settings_that_no_optimizer_or_schedule_can_have_are_named_as_they_were_given(changes, sentence, tmp_path):
    (tmp_path / "text.txt").write_text("the film was good. " * 40)
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8, "context": 8, "steps": 60}
    settings = TASKS["lm"].default_settings("small", text=str(tmp_path / "text.txt"), **sizes | changes)
    one = TASKS["lm"](settings)
    with pytest.raises(SettingError) as refused:
        one.make_trainer(one.make_model())
    assert refused.value.sentence == sentence
