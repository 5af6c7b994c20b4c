"""train --pretrained with published models: all weights, some of them frozen, or LoRA."""

import json
import shutil

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.encoder_runs import assert_same, state, stop_after, trained
from helpers.published import TEXT, write_published

import numpy_transformer as nt
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

pytest.importorskip("tokenizers")
FEW = ["--steps", 4, "--batch-size", 4, "--warmup", 1, "--validate-every", 2, "--lr", 0.01, "--workers", 1]
HEAD = {"classifier": ["hidden.weight", "hidden.bias", "output.weight", "output.bias"],
        "tagger": ["output.weight", "output.bias"]}


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """A folder with imported runs of tiny models, and data."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "story.txt").write_text(TEXT * 20)
    sentences = [f"{beast} {verb} {place}".split() for beast in ("the cat", "a dog") for verb in ("sat on", "ran to")
                 for place in ("the mat", "an old red house", "the house", "a mat")]
    (folder / "texts.csv").write_text("text,label\n" + "".join(
        f"{' '.join(words)},{'calm' if 'sat' in words else 'wild'}\n" for words in sentences))
    (folder / "beasts.conll").write_text("\n".join("".join(
        f"{word} {'B-beast' if word in ('cat', 'dog') else 'O'}\n" for word in words) for words in sentences))
    (folder / "tasks.tsv").write_text("source\ttarget\n" + "".join(
        f"the end: {' '.join(words)}\t{words[-1]}\n" for words in sentences))
    return folder


@pytest.fixture
def imported(capsys, published):
    """A function that imports a model, once for all tests, and returns the path of its run."""
    def get(name):
        path = published / f"{name}.npz"
        if not path.exists():
            write_published(published / name, name)
            code, _, err = run(capsys, "import", published / name, "--out", path)
            assert code == 0, err
        return path
    return get


def data_of(published, kind):
    if kind == "lm":
        return ["--text", published / "story.txt", "--context", 16]
    files = {"classifier": "texts.csv", "tagger": "beasts.conll", "mlm": "story.txt", "text2text": "tasks.tsv"}
    return ["--data", published / files[kind]]


@pytest.mark.parametrize("kind, name", [
    ("classifier", "bert-encoder"), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (
        ("classifier", "bert-mlm"), ("classifier", "bert-tagger"), ("tagger", "bert-encoder"), ("mlm", "bert-mlm"),
        ("mlm", "roberta-mlm"), ("lm", "gpt2"), ("lm", "llama"), ("text2text", "t5")))])
def test_a_run_starts_with_the_weights_and_options_of_a_published_model(capsys, published, imported, tmp_path, kind, name,
                                                                         monkeypatch):
    monkeypatch.setattr(nt.Trainer, "fit", lambda *arguments, **named: None)
    base = imported(name)
    text = trained(capsys, kind, tmp_path / "run.npz", *data_of(published, kind), "--pretrained", base)
    mine, theirs = load_run(tmp_path / "run.npz"), load_run(base)
    new = [line for line in text.splitlines() if line.startswith("newly")]
    assert new == [f"newly initialized: {', '.join(HEAD.get(kind, [])) or 'none'}"]
    before, after = theirs.model.state_dict(), mine.model.state_dict()
    assert_same({key: before[key] for key in after if key not in HEAD.get(kind, [])},
                {key: after[key] for key in after if key not in HEAD.get(kind, [])})
    assert mine.meta["origin"] == theirs.meta["origin"] and mine.meta["config"] == "fine-tune"
    assert mine.tokenizers[0].to_json() == theirs.tokenizers[0].to_json()
    if "dropout" in theirs.meta["model"]:
        assert mine.settings["dropout"] == mine.meta["model"]["dropout"] == theirs.meta["model"]["dropout"]
    if kind == "classifier":
        assert {key: mine.meta["model"][key] for key in ("pool", "head_activation", "hidden", "num_classes")} == {
            "pool": "first", "head_activation": "tanh", "hidden": 12, "num_classes": 2}
        assert 0.001 < np.abs(after["output.weight"]).max() < 0.1 and not after["output.bias"].any()
    ids = np.array([[2, 9, 8, 7, 3]])
    if kind in ("classifier", "tagger"):                    # the encoders give the same vectors
        np.testing.assert_allclose(mine.model.embed(ids), theirs.model.embed(ids), rtol=1e-6)
    elif kind == "text2text":
        np.testing.assert_array_equal(mine.model(ids, ids), theirs.model(ids, ids))
    else:
        np.testing.assert_array_equal(mine.model(ids), theirs.model(ids))


@pytest.mark.slow
def test_the_pooler_of_bert_becomes_the_hidden_layer(capsys, published, imported, tmp_path, monkeypatch):
    monkeypatch.setattr(nt.Trainer, "fit", lambda *arguments, **named: None)
    arrays, meta = read_checkpoint(imported("bert-encoder"))
    pooler = np.random.default_rng(0).standard_normal((12, 12)).astype(np.float32)
    write_checkpoint(tmp_path / "base.npz", arrays | {
        "unused/bert.pooler.dense.weight": pooler, "unused/bert.pooler.dense.bias": pooler[0]}, without_format(meta))
    text = trained(capsys, "classifier", tmp_path / "run.npz", *data_of(published, "classifier"), "--pretrained",
                   tmp_path / "base.npz")
    assert "newly initialized: output.weight, output.bias" in text
    found = state(tmp_path / "run.npz")
    np.testing.assert_array_equal(found["hidden.weight"], pooler.T)
    np.testing.assert_array_equal(found["hidden.bias"], pooler[0])


def without_format(meta):
    return {key: value for key, value in meta.items() if key != "format"}


@pytest.mark.slow
def test_a_published_model_decides_its_sizes(capsys, published, imported, tmp_path, monkeypatch):
    monkeypatch.setattr(nt.Trainer, "fit", lambda *arguments, **named: None)
    for kind, name, option, value, line in (
            ("classifier", "bert-encoder", "--d-model", 8, "--d-model is 12 in the pretrained run"),
            ("classifier", "bert-encoder", "--tokenizer", "bpe", "--tokenizer is pretrained in"),
            ("classifier", "bert-encoder", "--lower", None, "--lower is False in"),
            ("classifier", "bert-encoder", "--hidden", 64, "--hidden is 12 in"),
            ("classifier", "bert-encoder", "--no-mask-padding", None, "--mask-padding is True in"),
            ("classifier", "bert-encoder", "--max-len", 17, "reads at most 16 tokens; give at most that"),
            ("lm", "llama", "--context", 49, "--context 49 is too long"),
            ("lm", "llama", "--tie", None, "--tie is False in"),
            ("lm", "llama", "--num-kv-heads", 4, "--num-kv-heads is 2 in"),
            ("text2text", "t5", "--positions", "learned", "--positions is relative in")):
        said = refused(capsys, "train", kind, *data_of(published, kind)[:2], "--pretrained", imported(name), option,
                       *([] if value is None else [value]), "--out", tmp_path / "x.npz")
        assert line in said and "leave it out, or pretrain" not in said, said
    assert not list(tmp_path.iterdir())
    trained(capsys, "classifier", tmp_path / "a.npz", *data_of(published, "classifier"), "--pretrained",
            imported("bert-encoder"), "--max-len", 9, "--d-model", 12, "--dropout", 0.2)
    assert load_run(tmp_path / "a.npz").meta["model"]["max_len"] == 16 and load_run(tmp_path / "a.npz").reader.max_len == 9
    assert load_run(tmp_path / "a.npz").meta["model"]["dropout"] == 0.2


@pytest.mark.parametrize("options, message", [
    (["--lora", 2], "--lora would have no effect: it applies to pretrained weights; give --pretrained"),
    (["--freeze", "embedding"], "--freeze would have no effect"),
    (["--config", "lora"], "--config lora is for pretrained weights; give --pretrained"),
    (["--config", "fine-tune"], "--config fine-tune is for pretrained weights")])
def test_options_for_pretrained_weights_need_some(capsys, published, tmp_path, options, message):
    assert message in refused(capsys, "train", "classifier", "--data", published / "texts.csv", *options, "--out",
                              tmp_path / "x.npz")


@pytest.mark.parametrize("options, message", [
    (["--lora-alpha", 4], "--lora-alpha would have no effect: it applies to the updates that --lora trains"),
    (["--lora", 2, "--freeze", "embedding"], "--freeze would have no effect: with --lora all"),
    (["--lora", 2, "--optimizer", "muon"], "--optimizer would have no effect: with --lora all matrices that muon could train"),
    (["--lora", 2, "--config", "fine-tune"], "--config fine-tune trains all weights, and --lora 2 does not"),
    (["--lora", 13], "rank = 13 is larger than"), (["--lora", 2, "--lora-targets", "quary"], "no Linear called 'quary'"),
    (["--freeze", "blocks.2"], "--freeze blocks.2 is not a part of the model; name a part such as embedding, segments"),
    (["--freeze", "blocks.0-9"], "a block of a stack, of which the last one is encoder.blocks.1"),
    (["--freeze", "blocks.1-0"], "counts backwards; write blocks.0-1"),
    (["--freeze", "norm1"], "--freeze norm1 may be encoder.blocks.0.norm1 or encoder.blocks.1.norm1"),
    (["--freeze", "output"], "would freeze output.weight, which is new"),
    (["--freeze", "hidden"], "would freeze hidden.weight, which is new")])
def test_errors_about_lora_and_frozen_parts(capsys, published, imported, tmp_path, options, message):
    said = refused(capsys, "train", "classifier", "--data", published / "texts.csv", "--pretrained",
                   imported("bert-encoder"), *options, "--out", tmp_path / "x.npz")
    assert message in said, said
    assert not list(tmp_path.iterdir())


@pytest.fixture
def adapted(capsys, published, imported, tmp_path):
    """A function that fine-tunes a copy of the encoder, and returns the path of the run."""
    def fine_tune(name, *options):
        shutil.copy(imported("bert-encoder"), tmp_path / "base.npz")
        text = trained(capsys, "classifier", tmp_path / name, "--data", published / "texts.csv", "--pretrained",
                       tmp_path / "base.npz", *FEW, *options)
        (tmp_path / f"{name}.said").write_text(text)
        return tmp_path / name
    return fine_tune


LORA = ["--lora", 2, "--lora-targets", "query", "down", "--lora-alpha", 6]
UPDATED = [f"encoder.blocks.{n}.{part}" for n in (0, 1) for part in ("attention.query", "feed_forward.down")]


def test_a_lora_run_stores_what_it_trains_and_names_its_base(adapted, capsys, tmp_path):
    path = adapted("run.npz", *LORA)
    arrays, meta = read_checkpoint(path)
    own = [name.removeprefix("model/") for name in arrays if name.startswith("model/")]
    assert sorted(own) == sorted([*(f"{name}.{part}" for name in UPDATED for part in "AB"), *HEAD["classifier"]])
    assert meta["lora"] == {"rank": 2, "alpha": 6.0, "targets": ["query", "down"], "trained": ["hidden", "output"]}
    assert meta["config"] == "lora" and meta["settings"]["lora"] == 2 and "origin" in meta
    before, after = state(tmp_path / "base.npz"), state(path)
    assert_same(before, {name: after[name] for name in before})
    assert all(np.abs(after[f"{name}.B"]).max() > 1e-3 for name in UPDATED)
    counted = sum(arrays[f"model/{name}"].size for name in own)
    assert f"\n{counted:,} of {sum(a.size for a in after.values()):,} parameters are trained" in path.with_name(
        "run.npz.said").read_text()
    for command in (["classify", path, "the cat sat"], ["embed", path, "a dog"], ["evaluate", path], ["info", path],
                    ["info", path, "--check", "the cat sat on the mat"]):
        code, out, err = run(capsys, *command)
        assert code == 0 and out, err


@pytest.mark.slow
def test_a_lora_run_needs_its_base_unchanged(adapted, capsys, tmp_path):
    path = adapted("run.npz", *LORA)
    base = tmp_path / "base.npz"
    kept = base.rename(tmp_path / "kept.npz")
    for command in (["classify", path, "a"], ["train", "classifier", "--resume", "--out", path, "--steps", 5]):
        assert "are missing; put that file beside it" in refused(capsys, *command)
    arrays, meta = read_checkpoint(kept)
    arrays["model/embedding.weight"][5, 3] += 1
    write_checkpoint(base, arrays, without_format(meta))
    assert "has changed since" in refused(capsys, "classify", path, "a")


@pytest.mark.parametrize("options", [
    pytest.param(LORA, id="lora"), pytest.param(["--freeze", "embedding", "blocks.0"], id="freeze", marks=pytest.mark.slow),
    pytest.param([], id="all", marks=pytest.mark.slow)])
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(adapted, capsys, tmp_path, monkeypatch, options):
    whole = adapted("whole.npz", *options, "--patience", 9)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", stop_after(3))
        code, *_ = run(capsys, "train", "classifier", "--data", *json.loads(json.dumps(
            load_run(whole).settings["data"])), "--pretrained", tmp_path / "base.npz", *FEW, *options, "--patience", 9,
            "--save-every", 1, "--out", tmp_path / "run.npz")
    assert code != 0 and read_checkpoint(tmp_path / "run.npz")[1]["step"] == 3
    trained(capsys, "classifier", tmp_path / "run.npz", "--resume")
    one, other = (read_checkpoint(path)[0] for path in (whole, tmp_path / "run.npz"))
    assert_same(one, other)
    assert_same(state(whole), state(tmp_path / "run.npz"))


def test_frozen_parts_stay_as_they_are(adapted, tmp_path):
    path = adapted("run.npz", "--freeze", "embedding", "blocks.0-1", "segments")
    before, after = state(tmp_path / "base.npz"), state(path)
    frozen = [name for name in before if name.split(".")[0] in ("embedding", "segments") or "blocks" in name]
    assert_same({name: before[name] for name in frozen}, {name: after[name] for name in frozen})
    others = set(after) - set(frozen)
    assert "positions.weight" in others and not any(np.array_equal(after[name], before.get(name)) for name in others)
    arrays, meta = read_checkpoint(path)
    assert {name.removeprefix("model/") for name in arrays if name.startswith("model/")} == others
    assert meta["base"]["file"] == str(tmp_path / "base.npz") and "lora" not in meta


@pytest.mark.slow
def test_a_lora_run_can_be_the_base_of_another(adapted, capsys, published, imported, tmp_path):
    first = adapted("first.npz", *LORA)
    for name, options in (("all.npz", []), ("second.npz", LORA)):
        trained(capsys, "classifier", tmp_path / name, "--data", published / "texts.csv", "--pretrained", first, *options,
                *FEW, "--lr", 1e-12)
    merged = load_run(first)
    nt.merge_lora(merged.model)
    ids = np.array([[2, 9, 8, 7, 3]])
    wanted = merged.model(ids)                              # the labels are the same, so the output layer goes on too
    for name in ("all.npz", "second.npz"):
        np.testing.assert_allclose(load_run(tmp_path / name).model(ids), wanted, rtol=1e-5)


@pytest.mark.slow
def test_the_mean_of_the_last_saves_of_a_lora_run(adapted, capsys, tmp_path):
    path = adapted("run.npz", *LORA, "--save-every", 1, "--average", 2)
    saves = [read_checkpoint(tmp_path / f"run.step-{n:07d}.npz")[0] for n in (3, 4)]
    average, meta = read_checkpoint(tmp_path / "run.average.npz")
    assert meta["lora"]["rank"] == 2 and set(average) == {name for name in saves[0] if name.startswith("model/")}
    for name, array in average.items():
        np.testing.assert_allclose(array, (saves[0][name] + saves[1][name]) / 2, rtol=1e-6, atol=1e-9)
    assert run(capsys, "classify", tmp_path / "run.average.npz", "a cat")[0] == 0 and path.exists()


@pytest.mark.slow
@pytest.mark.parametrize("options", [LORA, ["--freeze", "blocks.0"]], ids=["lora", "freeze"])
def test_transformers_reads_a_fine_tuned_classifier(adapted, capsys, tmp_path, options):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    path = adapted("run.npz", *options)
    code, _, err = run(capsys, "export", path, tmp_path / "folder")
    assert code == 0, err
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "folder").eval()
    assert model.config.id2label == {0: "calm", 1: "wild"}
    ids = np.array([[2, 9, 8, 7, 3], [2, 12, 3, 0, 0]])
    with torch.no_grad():
        wanted = model(torch.tensor(ids), attention_mask=torch.tensor(ids != 0)).logits.numpy()
    np.testing.assert_allclose(load_run(path).model(ids), wanted, rtol=1e-4, atol=1e-6)
