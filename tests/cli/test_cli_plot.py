"""`plot` draws what a run holds, `figures` what the lessons draw; bad input is one line."""

import argparse

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.pictures import count_colors

import numpy_transformer as nt
from numpy_transformer.cli import plot_examples
from numpy_transformer.cli.plotted_run import RunExample
from numpy_transformer.data import CharTokenizer
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.training.checkpoint import write_checkpoint


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A language model and a reader of dates, trained for a few steps by the command."""
    folder = tmp_path_factory.mktemp("runs")
    from numpy_transformer.cli import main
    small = ["--steps", "6", "--validate-every", "3", "--batch-size", "4", "--d-model", "16", "--num-heads", "2",
             "--num-layers", "2", "--d-ff", "24", "--workers", "1"]
    assert main(["train", "lm", *small, "--context", "20", "--out", str(folder / "lm.npz")]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("numpy_transformer.data.generated_pairs.YEARS", np.arange(1980, 2006))    # fewer dates, to be quick
        assert main(["train", "seq2seq", "--task", "dates", *small, "--out", str(folder / "dates.npz")]) == 0
    return folder


def drawn(path):
    """Whether the picture is large enough to see and has more than its background color."""
    height, width, colors = count_colors(path, step=3)
    return min(height, width) > 200 and colors > 20


LM, DATES = ["--text", "The language model"], ["--text", "3 March 1999"]


PICTURES = [
    ("attention", "lm", LM), ("history", "dates", []),
    ("mask", None, ["--length", "4", "--padding", "1"]), ("backward", "lm", LM),
    ("xray", None, []), ("cross-attention", "dates", DATES),
    ("pe", None, []), ("pe", None, ["--transposed"]), ("pe", None, ["--waves", "--positions", "20", "--width", "9"]),
    ("architecture", None, []), ("architecture", None, ["--model", "decoder"]), ("architecture", "lm", []),
    ("steps", None, []), ("memory", None, ["--width", "8"]), ("schedule", None, ["--steps", "90", "--warmup", "9"]),
    ("attention", "lm", [*LM, "--block", "1"]), ("attention", "dates", DATES),
    ("attention", "dates", [*DATES, "--side", "encoder", "--target", "1999-03-03"]),
    ("backward", "dates", [*DATES, "--side", "encoder", "--block", "0"]), ("gradients", "lm", LM),
    ("gradients", "dates", DATES), ("xray", "lm", LM), ("xray", "dates", DATES)]


@pytest.mark.slow
@pytest.mark.parametrize("picture, run_file, more", PICTURES)
def test_each_picture_is_drawn(picture, run_file, more, runs, tmp_path, capsys):
    named = ["--run", runs / f"{run_file}.npz"] if run_file else []
    code, out, _ = run(capsys, "plot", picture, *named, *more, "--out", tmp_path / "new" / "x.png")
    assert code == 0 and out.strip() == str(tmp_path / "new" / "x.png") and drawn(tmp_path / "new" / "x.png")


@pytest.mark.slow
@pytest.mark.parametrize("kind, start", [
    ("svg", b"<?xml"), pytest.param("pdf", b"%PDF", marks=pytest.mark.slow),
    pytest.param("PNG", b"\x89PNG", marks=pytest.mark.slow)])
def test_other_kinds_of_file_and_the_same_bytes_twice(kind, start, tmp_path, capsys):
    first, second = (tmp_path / f"{n}.{kind}" for n in "ab")
    for path in (first, second):
        assert run(capsys, "plot", "mask", "--out", path)[0] == 0
    assert first.read_bytes().startswith(start) and first.read_bytes() == second.read_bytes()


def test_an_existing_file_is_replaced_only_on_request(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mask.png").write_text("precious")          # the default name
    (tmp_path / "other.svg").write_text("precious")
    monkeypatch.setattr("numpy_transformer.views.mask_pictures", lambda masks: pytest.fail("drawn before it is refused"))
    for more, name in ([], "mask.png"), (["--out", "other.svg"], "other.svg"):
        line = refused(capsys, "plot", "mask", *more)
        assert f"'{name}' exists already; --overwrite replaces it, --out names another file" in line
        assert (tmp_path / name).read_text() == "precious"
    monkeypatch.setattr("numpy_transformer.views.mask_pictures", lambda masks: plot_nothing())
    assert run(capsys, "plot", "mask", "--overwrite")[:2] == (0, "mask.png\n")
    assert (tmp_path / "mask.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_what_is_drawn_is_what_the_model_attends_to(runs, tmp_path, capsys, monkeypatch):
    seen = {}
    monkeypatch.setattr("numpy_transformer.views.attention_heads", lambda weights, *labels, **more: seen.update(
        weights=weights, labels=labels, **more) or plot_nothing())
    run(capsys, "plot", "attention", "--run", runs / "lm.npz", "--text", "The end", "--out", tmp_path / "x.png")
    reading = load_run(runs / "lm.npz")
    reading.model(reading.tokenizers[0].encode("The end")[None])
    wanted = [block.attention.weights[0] for block in reading.model.decoder.blocks]
    np.testing.assert_allclose(seen["weights"], np.concatenate(wanted), rtol=1e-6)
    assert seen["labels"][:2] == (list("The␣end"), list("The␣end"))


def test_the_architecture_of_a_run_is_titled_by_its_family(tmp_path, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr("numpy_transformer.views.architecture", lambda model, title: seen.append(title) or plot_nothing())
    plain = nt.CausalLanguageModel(4, 8, 2, 1, max_len=8, rng=0)
    for model in (nt.preset("gemma3", vocab_size=4, num_layers=1, max_len=8, rng=0), plain):
        nt.save_run(tmp_path / "run.npz", model, CharTokenizer("abcd"))
        named = ["--run", tmp_path / "run.npz", "--out", tmp_path / f"{len(seen)}.png"]
        assert run(capsys, "plot", "architecture", *named)[0] == 0
    assert seen[0].startswith("gemma3") and seen[0].endswith(" parameters") and seen[1] is None


@pytest.mark.parametrize("picture, drawn", [("attention", "attention_heads"), ("backward", "attention_backward")])
@pytest.mark.parametrize("name", ["gpt-oss", "mistral"])
def test_a_title_says_that_a_sink_takes_a_part_of_the_weights(name, picture, drawn, tmp_path, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(f"numpy_transformer.views.{drawn}", lambda *all: seen.extend(all) or plot_nothing())
    model = nt.preset(name, vocab_size=4, num_layers=1, max_len=8, rng=0)
    nt.save_run(tmp_path / "run.npz", model, CharTokenizer("abcd"))
    assert run(capsys, "plot", picture, "--run", tmp_path / "run.npz", "--text", "abc", "--out", tmp_path / "x.png")[0] == 0
    assert ("\n(a row adds up to less than 1: the sink of the head takes the rest)" in seen[3]) == (name == "gpt-oss")


@pytest.mark.parametrize("picture, more, queries, keys, head", [
    pytest.param("attention", ["--side", "encoder"], "^3␣March␣1999$", "^3␣March␣1999$", "block 0, head 0",
                 marks=pytest.mark.slow),
    pytest.param("attention", ["--target", "1999", "--block", "1"], "^1999", "^1999", "block 1, head 0",
                 marks=pytest.mark.slow),
    ("cross-attention", ["--target", "1999"], "1999$", "^3␣March␣1999$", "block 0, head 0")])
def test_the_axes_have_the_tokens_of_their_side(picture, more, queries, keys, head, runs, tmp_path, capsys,
                                                monkeypatch):
    seen = {}
    monkeypatch.setattr("numpy_transformer.views.attention_heads", lambda weights, *labels, **more: seen.update(
        weights=weights, labels=labels, **more) or plot_nothing())
    run(capsys, "plot", picture, "--run", runs / "dates.npz", *DATES, *more, "--out", tmp_path / "x.png")
    assert seen["labels"][:2] == (list(queries), list(keys)) and seen["labels"][3][0] == head
    assert seen["weights"].shape[1:] == (len(queries), len(keys))
    label = "predicted token" if picture == "cross-attention" else "query token"
    assert seen.get("query_label", "query token") == label


def test_the_backward_picture_is_that_of_the_last_block_without_dropout(runs, tmp_path, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr("numpy_transformer.views.attention_backward", lambda *all: seen.append(all) or plot_nothing())
    for more in ([], ["--layer", "0", "--overwrite"]):        # the older name of --block
        run(capsys, "plot", "backward", "--run", runs / "lm.npz", *LM, *more, "--out", tmp_path / "x.png")
    assert [(call.name, title) for call, _, _, title in seen] == [
        (f"decoder.blocks.{n}.attention.attention.softmax",
         f"Block {n} of the decoder: attention weights and their gradients") for n in (1, 0)]
    model = RunExample(argparse.Namespace(file=runs / "lm.npz", text=LM[1], target=None)).model
    assert model.remembering and not any(part.training for _, part in model.named_modules())


def test_the_gradients_are_those_of_the_next_token(runs, tmp_path, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr("numpy_transformer.views.gradient_norms", lambda curves: seen.append(curves) or plot_nothing())
    run(capsys, "plot", "gradients", "--run", runs / "lm.npz", *LM, "--out", tmp_path / "x.png")
    trained = load_run(runs / "lm.npz")
    ids, criterion = trained.tokenizers[0].encode(LM[1])[None], nt.CrossEntropyLoss()
    model = trained.model.eval(remember=True)
    with nt.record(model) as tape:
        logits = model(ids)
        criterion(logits[:, :-1], ids[:, 1:])
        model.backward(np.concatenate([criterion.backward(), np.zeros_like(logits[:, -1:])], 1))
    wanted = [np.linalg.norm(tape[f"decoder.blocks.{n}"].dy) for n in range(2)]
    np.testing.assert_allclose(seen[0][1], wanted, rtol=1e-5)


@pytest.mark.parametrize("more, dimensions, positions", [
    ([], [0, 10, 20, 30, 40], [1, 5, 10, 20]), (["--dims", "0,2,4,8,16"], [0, 2, 4, 8, 16], [1, 5, 10, 20]),
    (["--at", "0, 10,50,99"], [0, 10, 20, 30, 40], [0, 10, 50, 99]), (["--dims", "7", "--at", "99"], [7], [99])])
def test_the_waves_are_those_that_were_chosen(more, dimensions, positions, tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr("numpy_transformer.views.write_figure", lambda figure, path: drawn.append(figure) or path)
    assert run(capsys, "plot", "pe", "--waves", "--positions", "100", *more, "--out", tmp_path / "x.png")[0] == 0
    left, right = drawn[0].axes
    table = nt.SinusoidalPositionalEncoding(128, max_len=100).table
    for line, dimension in zip(left.lines, dimensions, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), table[:, dimension])
    for line, position in zip(right.lines, positions, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), table[position, 0::2])


def test_numbers_that_need_no_run(tmp_path, capsys, monkeypatch):
    seen = {}
    for name in ("step_sizes", "schedules", "memory_growth"):
        monkeypatch.setattr(f"numpy_transformer.views.{name}",
                            lambda curves, name=name, **more: seen.update({name: curves}) or plot_nothing())
    for picture in ("steps", "schedule", "memory"):
        assert run(capsys, "plot", picture, "--out", tmp_path / f"{picture}.png")[0] == 0
    best = {title: min(errors) for title, (_, errors) in seen["step_sizes"].items()}
    assert best["complex, float64"] < 1e-13 < best["central, float64"] < 1e-8 < best["central, float32"] < 1e-2
    noam, cosine, wsd = seen["schedules"].values()
    assert np.argmax(noam) == np.argmax(cosine) == 3999 and cosine[-1] == pytest.approx(max(cosine) / 10)
    assert set(wsd[3999:16000]) == {max(cosine)} and wsd[17999] == pytest.approx(max(cosine) * 0.55)
    assert wsd[-1] == pytest.approx(max(cosine) / 10)
    plain, tiles = (np.diff(np.log(sizes))[-1] / np.log(2) for _, sizes in seen["memory_growth"].values())
    assert plain > 1.8 and tiles < 1.3


def plot_nothing():
    from matplotlib.figure import Figure
    return Figure()


def test_a_text_that_is_too_long_is_cut_and_said(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("numpy_transformer.views.attention_heads", lambda *_, **__: plot_nothing())
    code, _, err = run(capsys, "plot", "attention", "--run", runs / "lm.npz", "--text", "a text of many letters",
                       "--out", tmp_path / "x.png")
    assert code == 0 and err == "--text has 22 tokens; only the first 20 are drawn, because the model reads no more\n"
    code, _, err = run(capsys, "plot", "cross-attention", "--run", runs / "dates.npz", "--text", "3 March 1999 " * 5,
                       "--target", "1999", "--out", tmp_path / "x.png", "--overwrite")
    assert code == 0 and "--text has 67 tokens; only the first 32 are drawn, because the model reads no more\n" in err


@pytest.mark.parametrize("arguments, message", [
    (["pe", "--out", "x.jpg"], "the format of 'x.jpg' is not supported; use a file name that ends in .png, .svg, .pdf"),
    (["pe", "--out", "."], "is not supported"), (["pe", "--width", "0"], "'0' is not a whole number of at least 1"),
    (["pe", "--waves", "--dims", "0,x"], "argument --dims: 'x' is not a whole number of at least 0"),
    (["pe", "--waves", "--dims", ""], "argument --dims: '' is not a whole number of at least 0"),
    (["pe", "--waves", "--at", "3,-1"], "argument --at: '-1' is not a whole number of at least 0"),
    (["pe", "--waves", "--dims", "3,64", "--width", "64"], "--dims 64 is too large for --width 64; the last one is 63"),
    (["pe", "--waves", "--at", "0,50"], "--at 50 is too large for --positions 50; the last one is 49"),
    (["pe", "--at", "0"], "--at chooses curves, but a heatmap is drawn; add --waves"),
    (["pe", "--transposed", "--dims", "0"], "--dims chooses curves, but a heatmap is drawn; add --waves"),
    (["mask", "--length", "5000"], "'5000' is not a whole number of at least 2 and at most 1,000"),
    (["xray", "--text", "a"], "give one with --run RUN.npz"),
    (["architecture", "--run", "LM", "--model", "decoder"], "--run and --model name 2 models"),
    (["history", "--run", "TEXT"], "it is not a NumPy archive"),
    (["pe", "--out", "text.txt/x.png"], "'text.txt' is a file"),
    (["mask", "--padding", "6"], "--padding 6 leaves no real token in --length 6"),
    (["schedule", "--steps", "9"], "--warmup 4000 must be less than --steps 9"),
    (["attention", "--text", "a"], "required: --run"), (["attention", "--run", "LM"], "required: --text"),
    (["attention", "--run", "none.npz", "--text", "a"], "cannot read 'none.npz'"),
    (["attention", "--run", "LM", "--text", "a", "--block", "2"], "--block 2: the decoder has blocks 0 to 1"),
    (["attention", "--run", "LM", "--text", "a", "--side", "encoder"], "no attention weights in an encoder"),
    (["attention", "--run", "LM", "--text", ""], "empty"),
    (["attention", "--run", "LM", "--text", "a", "--target", "b"], "has no target"),
    (["backward", "--run", "LM", "--text", "a"], "a single token has no next token"),
    (["cross-attention", "--run", "LM", "--text", "a"], "holds a language model"),
    (["cross-attention", "--run", "DATES", "--text", "a∂"], "∂"),
    (["xray", "--run", "LM"], "--text is missing or empty"),
    (["history", "--run", "OTHER"], "that neither `train` nor `import` wrote"),
    (["nothing"], "invalid choice")])
def test_bad_input_is_one_line(arguments, message, runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "other.npz", {"x": np.zeros(2)}, {"step": 0})
    (tmp_path / "text.txt").write_text("a text")
    files = {"TEXT": "text.txt", "LM": runs / "lm.npz", "DATES": runs / "dates.npz", "OTHER": tmp_path / "other.npz"}
    assert message in refused(capsys, "plot", *[files.get(word, word) for word in arguments])
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.slow
def test_a_run_without_steps_has_no_history(runs, tmp_path, capsys):
    assert run(capsys, "train", "lm", "--steps", "1", "--out", tmp_path / "x.npz", "--d-model", "8", "--num-heads", "2",
               "--num-layers", "1", "--context", "8", "--batch-size", "2")[0] == 0
    arrays = dict(np.load(tmp_path / "x.npz"))
    assert run(capsys, "plot", "history", "--run", tmp_path / "x.npz", "--out", tmp_path / "x.png")[0] == 0
    arrays.update({name: array[:0] for name, array in arrays.items() if name.startswith("history/")})
    np.savez(tmp_path / "x.npz", **arrays)
    assert "before its first step" in refused(capsys, "plot", "history", "--run", tmp_path / "x.npz")


@pytest.mark.slow
def test_the_xray_of_small_stacks_shows_right_and_wrong_masks():
    found = plot_examples.small_stacks()
    seen = {title: norms != 0 for title, norms in found.items()}
    padding = np.arange(5) < 3
    assert np.array_equal(seen["encoder, padding mask"], np.eye(5, dtype=bool) | padding)
    assert np.array_equal(seen["decoder, causal mask"], np.tri(6, dtype=bool))
    assert np.array_equal(seen["cross-attention, padding mask"], np.broadcast_to(padding, (6, 5)))
    assert seen["wrong: no padding mask"].all() and not np.array_equal(
        seen["wrong: causal mask inverted"], np.tri(6, dtype=bool))
    assert np.array_equal(seen["wrong: causal cross-attention"], np.tri(6, 5, dtype=bool))


LESSON = """from matplotlib.figure import Figure
from numpy_transformer.course import claim, figure, lesson
lesson.start(__name__)
picture = Figure(figsize=(2, 2))
picture.subplots().plot([1, 2], [3, NUMBER])
figure("line", picture)
claim("it holds", NUMBER > 0)
"""


@pytest.mark.slow
def test_figures_draws_those_of_the_lessons_and_names_one_that_fails(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "07_seven.py").write_text(LESSON.replace("NUMBER", "4"))
    (tmp_path / "lessons" / "08_eight.py").write_text(LESSON.replace("NUMBER", "-1"))
    code, out, err = run(capsys, "figures")
    assert code == 1 and "2 pictures of 2 lessons in figures" in out
    assert "lesson 08_eight failed" in err and "lesson 07" not in err and "Traceback" not in err
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["07_line.png", "08_line.png"]


@pytest.mark.slow
def test_figures_of_chosen_lessons_have_the_same_bytes_twice(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lessons").mkdir()
    for name, value in (("07_seven", 4), ("08_eight", -1), ("09_nine", 5)):
        (tmp_path / "lessons" / f"{name}.py").write_text(LESSON.replace("NUMBER", str(value)))
    for folder in ("figures", "again"):
        code, out, _ = run(capsys, "figures", "7", "09", "--out", folder)
        assert code == 0 and f"2 pictures of 2 lessons in {folder}" in out
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == ["07_line.png", "09_line.png"]
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (tmp_path / "figures" / path.name).read_bytes()


def test_figures_refuses_what_it_cannot_do(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert "pictures cannot be written to 'file'" in refused(capsys, "figures", "--out", "file")
    assert "there is no lesson '42'; choose one of 0" in refused(capsys, "figures", "42")


def test_the_encoder_decoder_that_is_drawn_is_the_model_of_the_paper():
    post, pre = (plot_examples.MODELS[name]().decoder.blocks[0] for name in ("encoder-decoder", "annotated"))
    assert not post.pre_norm and pre.pre_norm
