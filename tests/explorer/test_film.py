"""The film of a training run: its numbers are those of the run, the run does not notice it, and the page stays small."""

import json
import math
import os
import re
import signal

import numpy as np
import pytest
from helpers import pseudo_language
from helpers.browser import decoded
from helpers.commands import refused, run
from helpers.encoder_runs import BASE, FILES, write_files
from helpers.pseudo_language import plain_words

import numpy_transformer as nt
from numpy_transformer.explorer import page
from numpy_transformer.explorer.film import Film, budget, example_of
from numpy_transformer.explorer.film.pictures import pool, signed_bytes
from numpy_transformer.layers import Softmax
from numpy_transformer.tasks import TASKS
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.training import Trainer

TEXT = "the quick brown fox jumps over the lazy dog.\n" * 40
SMALL = ["--d-model", 8, "--num-heads", 2, "--num-layers", 1, "--d-ff", 8, "--steps", 6, "--warmup", 2, "--batch-size", 4]
LM = ["train", "lm", *SMALL, "--context", 32]
STEPS = 5


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def task(text):
    """A tiny language model with dropout on a short text, without clipping."""
    kind = TASKS["lm"]
    return kind(kind.default_settings("small", text=str(text), d_model=8, num_heads=2, num_layers=2, d_ff=8, context=32, dropout=0.3,
                                      steps=STEPS, warmup=2, batch_size=4, clip=0.0))


def filmed(task, workers=1, steps=STEPS, clip=None, **fit):
    """(film, trainer) after some steps."""
    trainer = task.make_trainer(task.make_model())
    trainer.workers, trainer.clip = workers, clip
    film = Film(trainer, steps, example_of(task, trainer.model), "A title")
    trainer.fit(task.batches, steps, after_step=film.watch, **fit)
    return film, trainer


def document_of(path):
    """The document of a saved page."""
    return json.loads(re.search(r'<script type="application/json" id="document">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)[1])


def array(entry):
    return decoded({}, entry)


def plain_steps(task, steps=STEPS, clip=math.inf):
    """Yields the model, the loss and the gradients before clipping after each step of the same training, in a plain loop."""
    model, criterion = task.make_model().train(), task.training_criterion()
    optimizer = task.make_optimizer(model)
    schedule = task.make_schedule(optimizer)
    for n in range(steps):
        inputs, targets = task.batches(n)
        model.zero_grad()
        loss = criterion(model(*(inputs if isinstance(inputs, tuple) else (inputs,))), targets)
        model.backward(criterion.backward())
        gradients = [parameter.grad.copy() for parameter in model.parameters()]
        nt.clip_grad_norm(model.parameters(), clip)
        schedule.step()
        optimizer.step()
        yield model, float(loss), gradients


@pytest.mark.parametrize("clip", [None, 0.05], ids=["", "clipped"])
def test_losses_and_norms_are_those_of_a_plain_loop(task, clip):
    document = filmed(task, clip=clip)[0].document()
    frames, norms = document["frames"], {kind: array(entry) for kind, entry in document["norms"].items()}
    assert [frame["step"] for frame in frames] == list(range(STEPS + 1))
    assert frames[0] == {"step": 0, "loss": None, "norm": None, "lr": None} and np.isnan(norms["gradients"][0]).all()
    for n, (model, loss, gradients) in enumerate(plain_steps(task, clip=clip or math.inf), 1):
        assert frames[n]["loss"] == pytest.approx(loss, rel=1e-6)
        assert frames[n]["norm"] == pytest.approx(math.sqrt(sum(np.linalg.norm(g) ** 2 for g in gradients)), rel=1e-5)
        np.testing.assert_allclose(norms["gradients"][n], [np.linalg.norm(g) for g in gradients], rtol=1e-4)
        np.testing.assert_allclose(norms["weights"][n], [np.linalg.norm(p.data) for p in model.parameters()], rtol=1e-5)
    np.testing.assert_allclose(array(document["curves"]["loss"]), [frame["loss"] for frame in frames[1:]], rtol=1e-6)
    assert array(document["curves"]["step"]).tolist() == list(range(1, STEPS + 1))


def test_pictures_are_the_largest_entries_of_the_blocks(task):
    document = filmed(task)[0].document()
    *_, (model, _, gradients) = plain_steps(task)
    for entry, (name, parameter), gradient in zip(document["parameters"], model.named_parameters(), gradients):
        assert entry["name"] == name and entry["shape"] == list(parameter.data.shape)
        for kind, x in (("weights", parameter.data), ("gradients", gradient)):
            codes, scales = array(entry[kind]["codes"])[-1], array(entry[kind]["scales"])
            assert scales[-1] == pytest.approx(abs(x).max(), rel=1e-4)
            rows = x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x[None]
            blocks = [[block for block in np.array_split(band, range(length(x.shape[-1], codes.shape[1]), x.shape[-1], length(
                x.shape[-1], codes.shape[1])), 1)] for band in np.array_split(rows, range(length(len(rows), codes.shape[0]), len(
                    rows), length(len(rows), codes.shape[0])))]
            wanted = [[block.flat[abs(block).argmax()] for block in band] for band in blocks]
            np.testing.assert_allclose(codes / 127 * scales[-1], wanted, atol=0.51 * scales[-1] / 127 + 1e-9)


def length(size, count):
    return math.ceil(size / count)


@pytest.mark.parametrize("shape", [(1,), (7,), (100,), (5, 3), (103, 96), (2, 40, 50), (1000, 1)])
def test_a_picture_has_few_cells_and_keeps_the_largest_entry(shape):
    x = np.random.default_rng(0).normal(size=shape)
    small = pool(x, 16)
    assert small.shape == budget.grid(shape, 16) and abs(small).max() == abs(x).max()
    assert small.size <= 256 and np.isin(small, x).all()


def test_numbers_that_are_not_finite_have_no_color():
    codes, scales = signed_bytes(np.array([[[np.nan, 1.0, -np.inf]], [[0, 0, 0]]]))
    assert codes.tolist() == [[[0, 127, 0]], [[0, 0, 0]]] and scales.tolist() == [1, 0]


def test_attention_and_predictions_are_those_of_the_model(task):
    film, trainer = filmed(task)
    document, example = film.document(), film.example
    trainer.model.eval()
    with nt.record(trainer.model) as tape:
        logits = trainer.model(*example.inputs)[0]
    weights = [call.output[0] for call in tape.of(Softmax)]
    assert len(document["attention"]) == len(weights) == 2
    for entry, wanted in zip(document["attention"], weights):
        assert entry["queries"] == entry["keys"] == example.tokens["source"][0]
        np.testing.assert_allclose(array(entry["weights"])[-1] / 255, wanted, atol=0.51 / 255)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    predicted, ids = document["example"], example.inputs[0][0]
    assert predicted["text"] in TEXT and len(predicted["rows"]) == len(ids) - 1 >= 10
    np.testing.assert_allclose(array(predicted["right"])[-1], p[range(len(ids) - 1), ids[1:]], rtol=1e-5)
    np.testing.assert_allclose(array(predicted["probabilities"])[-1], -np.sort(-p[:-1])[:, :3], rtol=1e-5)
    assert array(predicted["is_right"])[-1].tolist() == (p[:-1].argmax(-1) == ids[1:]).tolist()
    best = [predicted["names"][i] for i in array(predicted["best"])[-1][:, 0]]
    assert best == [example.names[i] for i in p[:-1].argmax(-1)]
    last = predicted["samples"][-1]
    written = nt.generate(trainer.model, ids[:8].tolist(), 24, temperature=0)
    assert last["frame"] == STEPS and predicted["start"] + last["text"] == task.tokenizers[0].decode(written)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_training_does_not_notice_the_film(task, workers):
    plain = task.make_trainer(task.make_model())
    plain.workers = workers
    plain.fit(task.batches, STEPS)
    _, trainer = filmed(task, workers)
    for before, after in zip(plain.model.parameters(), trainer.model.parameters()):
        np.testing.assert_array_equal(before.data, after.data)
        np.testing.assert_array_equal(before.grad, after.grad)
    assert plain.history == trainer.history and trainer.model.training
    (mine, theirs) = ([vars(module)["rng"].bit_generator.state for _, module in one.model.named_modules() if "rng" in vars(module)
                       and vars(module)["rng"] is not None] for one in (plain, trainer))
    assert mine == theirs and mine


def test_after_step_sees_the_complete_row_of_every_step(task):
    seen = []
    trainer = task.make_trainer(task.make_model())
    trainer.fit(task.batches, 3, task.validation[:1], 2, after_step=lambda trainer: seen.append(dict(trainer.history[-1])))
    assert seen == trainer.history and ["validation" in row for row in seen] == [False, True, True]


def test_an_error_in_after_step_stops_the_training(task):
    def fail(trainer):
        raise ValueError("no room")

    trainer = task.make_trainer(task.make_model())
    with pytest.raises(ValueError, match="no room"):
        trainer.fit(task.batches, 3, after_step=fail)
    assert trainer.steps == 1


def test_a_film_of_a_model_without_a_text_has_weights_and_curves(tmp_path):
    model = nt.Linear(3, 2, rng=0)
    trainer = Trainer(model, nt.CrossEntropyLoss(), nt.SGD(model.parameters(), 0.1))
    x, targets = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.array([0, 1, 1, 0])
    film = Film(trainer, 3)
    trainer.fit([(x, targets)], 3, after_step=film.watch)
    document = document_of(film.save(tmp_path / "film.html"))
    assert document["title"] == "Linear" and document["example"] is None and document["attention"] == []
    assert [entry["name"] for entry in document["parameters"]] == ["weight", "bias"] and len(document["left_out"]) == 1


def test_frames_are_denser_at_the_beginning_and_end_with_the_last_step():
    for first, last in ((0, 1), (0, 10), (0, 800), (300, 100_000)):
        steps = budget.steps_of_frames(first, last)
        assert steps[0] == first and steps[-1] == last and len(steps) <= budget.MOST_FRAMES
        distances = np.diff(steps)
        assert (distances > 0).all() and distances[:3].max() <= distances[-3:].min() and (np.diff(distances) >= -1).all()
    assert len(budget.steps_of_frames(0, 800)) >= 60


GPT2 = [(50257, 768), (1024, 768)] + 12 * [(768,), (768,), *[(768, 768), (768,)] * 4, (768,), (768,), (768, 3072), (3072,), (3072, 768), (768,)]


@pytest.mark.parametrize("shapes", [[(64, 64)] * 30, GPT2, GPT2 * 10, [(8,)] * 3000], ids=["small", "GPT-2", "many", "vectors"])
def test_pictures_fit_into_their_room_whatever_the_model_is(shapes):
    side, shown = budget.plan_parameters(shapes, budget.MOST_FRAMES)
    size = budget.MOST_FRAMES * sum(2 * math.prod(budget.grid(shapes[i], side)) + budget.FIXED for i in shown)
    assert 0 < size <= budget.PARAMETER_BYTES and shown == sorted(set(shown))
    assert len(shown) == len(shapes) or side == budget.SIDES[-1]
    assert shown[0] == 0 and shown[-1] == len(shapes) - 1


@pytest.mark.parametrize("layers, heads", [(2, 4), (12, 12), (96, 96), (1, 1)])
def test_attention_fits_into_its_room(layers, heads):
    shown, most = budget.plan_attention([(heads, 24, 24)] * layers, budget.MOST_FRAMES)
    assert 0 < budget.MOST_FRAMES * len(shown) * most * 24 * 24 <= budget.ATTENTION_BYTES
    assert most == heads or most >= budget.FEWEST_HEADS
    assert (len(shown), most) == (layers, heads) or layers > 2


def test_a_page_with_everything_that_fits_has_at_most_five_megabytes(task):
    """Pictures and attention have their room; what else a page holds is in this one, but for long curves and long names."""
    document = filmed(task, steps=2)[0].document()
    document["parameters"], document["attention"] = [], []
    rest = len(page.render(document, page=page.FILM).encode())
    room = (budget.PARAMETER_BYTES + budget.ATTENTION_BYTES) * 4 / 3
    curves = budget.MOST_POINTS * 16 * 4 / 3 + 60 * budget.MOST_VALIDATIONS
    names = 400 * budget.PARAMETER_BYTES / (budget.MOST_FRAMES * (2 * budget.SIDES[-1] ** 2 + budget.FIXED))
    assert rest + room + curves + names < budget.LARGEST_FILM - 300_000


def test_long_curves_are_means_of_some_steps(task):
    trainer = task.make_trainer(task.make_model())
    film = Film(trainer, 2)
    rng = np.random.default_rng(0)
    trainer.history.extend({"step": n, "loss": loss, "lr": 1.0, "norm": 2.0, "validation": loss}
                           for n, loss in enumerate(rng.random(4000), 1))
    trainer.steps = 4000
    document = film.document()
    losses = array(document["curves"]["loss"])
    assert document["curves"]["every"] == 3 and len(losses) == 1334
    np.testing.assert_allclose(losses[:2], [np.mean([row["loss"] for row in trainer.history[i:i + 3]]) for i in (0, 3)], rtol=1e-6)
    assert len(document["validation"]) == budget.MOST_VALIDATIONS and document["validation"][-1]["step"] == 4000


def test_the_command_saves_a_film_and_the_same_run(capsys, text, tmp_path):
    path = tmp_path / "film.html"
    code, out, err = run(capsys, *LM, "--text", text, "--out", tmp_path / "a.npz", "--film", path)
    assert code == 0 and re.search(r"^saved the film as '.*film.html', 7 frames, 0\.\d\d MB: open it in a browser$", out, re.M), err
    assert run(capsys, *LM, "--text", text, "--out", tmp_path / "b.npz")[0] == 0
    a, b = (load_run(tmp_path / name).model.state_dict() for name in ("a.npz", "b.npz"))
    assert all((a[name] == b[name]).all() for name in a)
    document = document_of(path)
    assert document["title"] == "A language model on a text" and document["run"]["last"] == 6 and document["left_out"] == []
    assert document["validation"][-1]["step"] == 6


def test_a_film_of_a_continued_run_begins_there_and_replaces_the_earlier_film(capsys, text, tmp_path):
    options = [*LM, "--text", text, "--out", tmp_path / "a.npz", "--film", tmp_path / "film.html"]
    assert run(capsys, *options)[0] == 0
    assert run(capsys, *options, "--resume", "--steps", 9)[0] == 0
    document = document_of(tmp_path / "film.html")
    assert [frame["step"] for frame in document["frames"]] == [6, 7, 8, 9] and document["run"]["first"] == 6
    assert array(document["curves"]["step"]).tolist() == [7, 8, 9] and "step 6" in document["left_out"][0]
    code, out, _ = run(capsys, *options, "--resume", "--steps", 9)
    assert code == 0 and "no film was recorded" in out


def test_the_film_is_saved_after_ctrl_c(capsys, text, tmp_path, monkeypatch):
    show = Trainer.show

    def interrupted(self, *arguments):
        if self.steps == 3:
            os.kill(os.getpid(), signal.SIGINT)
        show(self, *arguments)

    monkeypatch.setattr(Trainer, "show", interrupted)
    code, out, err = run(capsys, *LM, "--text", text, "--out", tmp_path / "a.npz", "--film", tmp_path / "film.html")
    document = document_of(tmp_path / "film.html")
    assert code == 130 and "--resume continues" in err and "saved the film" in out
    assert document["run"]["last"] <= 4 and document["frames"][-1]["step"] == document["run"]["last"]
    assert any("of 6 planned steps" in sentence for sentence in document["left_out"])


def test_a_film_ends_where_early_stopping_ends_the_training(task):
    losses = iter([1.0, 2.0, 3.0])
    film, trainer = filmed(task, validation=lambda: next(losses), every=1, patience=1)
    assert trainer.steps == 2 and [frame["step"] for frame in film.document()["frames"]] == [0, 1, 2]


def test_the_film_is_saved_when_the_training_fails(capsys, text, tmp_path, monkeypatch):
    check = Trainer.check_finite
    monkeypatch.setattr(Trainer, "check_finite", lambda self, what, value: check(self, what, math.inf if self.steps == 2 else value))
    code, out, err = run(capsys, *LM, "--text", text, "--out", tmp_path / "a.npz", "--film", tmp_path / "film.html")
    assert code == 2 and "step 3: the loss is inf" in err and "saved the film" in out
    assert [frame["step"] for frame in document_of(tmp_path / "film.html")["frames"]] == [0, 1, 2]


@pytest.mark.parametrize("name, sentence", [
    ("film.txt", "must end in .html"), ("no/film.html", "existing folder"), ("mine.html", "is not a page of the explorer"),
    ("a.html", "is the run itself")])
def test_a_film_that_cannot_be_written_is_refused_before_the_training(capsys, text, tmp_path, name, sentence):
    (tmp_path / "mine.html").write_text("<p>mine")
    assert sentence in refused(capsys, *LM, "--text", text, "--out", tmp_path / "a.html", "--film", tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.html"] and (tmp_path / "mine.html").read_text() == "<p>mine"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_files(folder)
    return folder


KINDS = {"classifier": "class", "tagger": "tag", "mlm": "masked word", "text2text": "next token"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_has_predictions_and_attention(capsys, data, tmp_path, kind):
    options = [*BASE[kind], "--steps", 2, "--warmup", 1]
    assert run(capsys, "train", kind, *options, "--data", data / FILES[kind], "--out", tmp_path / "a.npz", "--film", tmp_path / "film.html")[0] == 0
    document = document_of(tmp_path / "film.html")
    example = document["example"]
    assert example["kind"] == KINDS[kind] and example["rows"] and example["target"] and document["left_out"] == []
    right = array(example["right"])
    assert right.shape == (3, len(example["rows"])) and ((0 < right) & (right < 1)).all()
    for layer in document["attention"]:
        weights = array(layer["weights"])
        assert weights.shape == (3, 2, len(layer["queries"]), len(layer["keys"]))
        assert abs(weights.astype(int).sum(-1) - 255).max() <= len(layer["keys"])           # each row adds up to 1
    assert len(document["attention"]) == (3 if kind == "text2text" else 1)
    assert bool(example["samples"]) == (kind == "text2text")


@pytest.mark.slow
@pytest.mark.parametrize("kind, options", [("seq2seq", ["--task", "dates"]), ("classifier", []), ("tagger", []), ("mlm", []), ("text2text", []),
                                           ("lm", ["--preset", "gpt-oss"]), ("lm", ["--tokenizer", "word"])], ids=str)
def test_the_default_data_have_a_text_that_fits(capsys, tmp_path, kind, options):
    code, _, err = run(capsys, "train", kind, *options, "--steps", 3, "--out", tmp_path / "a.npz", "--film", tmp_path / "film.html")
    document = document_of(tmp_path / "film.html")
    assert code == 0 and document["example"]["rows"] and (tmp_path / "film.html").stat().st_size < budget.LARGEST_FILM, err
    assert max(len(layer["queries"]) for layer in document["attention"]) <= 24


def test_the_page_has_the_texts_of_its_language_and_no_other_modules(task, tmp_path, monkeypatch):
    pseudo_language.write(tmp_path / "ko")
    monkeypatch.setenv("NUMPY_TRANSFORMER_LANGUAGE", str(tmp_path / "ko"))
    film = filmed(task, steps=1)[0]
    film.first, film.planned = 1, 9             # so that there are sentences on what is left out
    document = film.document()
    assert len(document["left_out"]) == 2 and not plain_words(" ".join(document["left_out"]))
    titles = " ".join(f"{entry['group']}, {entry['title'].partition(':')[0]}" for entry in document["parameters"])
    assert not plain_words(titles), titles
    html = page.render(document, page=page.FILM)
    texts = json.loads(re.search(r'<script type="application/json" id="texts">(.*?)</script>', html, re.S)[1])
    assert texts["language"] == "ko" and texts["texts"].keys() == page.page_texts(page.FILM).keys()
    assert not plain_words(" | ".join(re.sub(r"\{[^}]*\}", "", text) for text in texts["texts"].values()), {"film"})
    assert not plain_words(re.sub(r"<script.*?</script>|<style>.*?</style>|<title>.*?</title>|<!--.*?-->|<[^>]*>", " ", html, flags=re.S))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; ") and "connect-src" not in policy
    assert {"film", "film_player", "dom", "colors"} <= set(page.read_modules(page.FILM)) <= {
        name for name in page.read_modules(page.FILM) if name.startswith("film") or name in (
            "dom", "strings", "colors", "format", "text_width")}
    assert not {name for name in [*page.read_modules(), *page.style_sheets()] if name.startswith("film")}
