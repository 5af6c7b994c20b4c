"""The command explore: a saved page, a server that Ctrl-C ends, and one line for each kind of bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from helpers.commands import refused, run
from helpers.pages import document_of

from numpy_transformer.explorer import explorer


def document_in(path):
    return document_of(path.read_text(encoding="utf-8"))


@pytest.fixture
def unproven(monkeypatch):
    """Leaves out the finite differences, which take seconds."""
    monkeypatch.setattr("numpy_transformer.explorer.session.LARGEST_PROOF", 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder", "classifier"])
def test_a_page_of_a_tiny_model_stays_below_a_megabyte_with_its_proof(capsys, tmp_path, kind):
    path = tmp_path / "page.html"
    assert run(capsys, "explore", "--model", kind, "--out", path)[0] == 0
    assert path.stat().st_size < 1_000_000
    document = document_in(path)
    assert document["proof"]["worst"] < 1e-6
    assert all("data" in array or "same" in array for array in document["arrays"].values())
    assert {f"numeric {value['id']}" for value in document["values"] if value["has_gradient"] and value["nudge"]} <= set(document["arrays"])


def test_a_page_is_saved_and_its_size_is_printed(capsys, unproven, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "explore", "--random", "--seed", 3, "--out", "page.html")
    size = (tmp_path / "page.html").stat().st_size
    assert code == 0 and err == "" and out == f"saved the page as 'page.html' ({size / 1e6:.2f} MB): open it in a browser\n"
    document = document_in(tmp_path / "page.html")
    assert document["loss"] > 0 and document["proof"] is None and document["model"]["class"] == "CausalLanguageModel"
    assert all("data" in array or "same" in array for array in document["arrays"].values())


@pytest.mark.slow
def test_a_trained_tiny_model_predicts_better_than_a_random_one(capsys, unproven, monkeypatch, tmp_path):
    monkeypatch.setattr("numpy_transformer.explorer.tiny_models.STEPS", {"decoder": 150})
    trained, random = tmp_path / "trained.html", tmp_path / "random.html"
    code, _, err = run(capsys, "explore", "--text", "the cat sleeps .", "--out", trained)
    assert code == 0 and err.splitlines()[-1] == "A tiny decoder: 150/150"
    assert run(capsys, "explore", "--text", "the cat sleeps .", "--random", "--out", random)[0] == 0
    assert document_in(trained)["loss"] < document_in(random)["loss"] - 0.5
    assert document_in(trained)["tokens"]["source"] == [["the", "cat", "sleeps", "."]]


def test_a_run_is_explored_with_a_text_and_a_target(capsys, unproven, runs, tmp_path):
    out = tmp_path / "page.html"
    code, said, _ = run(capsys, "explore", "--run", runs / "classifier.npz", "--text", "a good film", "--target", "neg", "--out", out)
    document = document_in(out)
    assert code == 0 and "saved the page" in said
    assert document["model"]["class"] == "SequenceClassifier" and "film" in document["tokens"]["source"][0]


@pytest.mark.slow
def test_the_server_answers_until_ctrl_c(tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "numpy_transformer", "explore", "--random", "--no-browser"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        line = process.stdout.readline()
        address = re.fullmatch(r"(http://127\.0\.0\.1:\d+/[\w-]{20,}/)  \(Ctrl-C ends it\)\n", line)[1]
        page = urllib.request.urlopen(address).read().decode()
        assert page.startswith("<!doctype html>")
        question = urllib.request.Request(address + "api/array", b'{"document": "step-0", "ref": "input:ids"}',
                                          {"Content-Type": "application/json"})
        assert json.load(urllib.request.urlopen(question))["shape"][0] == 1
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0 and out == "\nThe explorer has ended.\n" and err == ""


def test_the_browser_is_opened_unless_it_is_not_wanted(capsys, monkeypatch):
    opened = []

    class EndsAtOnce:
        address = "http://127.0.0.1:1/token/"

        def __init__(self, *arguments):
            self.arguments = arguments

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def serve_forever(self, poll_interval):
            raise KeyboardInterrupt

    monkeypatch.setattr(explorer, "PageServer", EndsAtOnce)
    monkeypatch.setattr(explorer, "open_in_browser", lambda address: opened.append(address))
    code, out, _ = run(capsys, "explore", "--random", "--no-browser")
    assert code == 0 and opened == [] and out.splitlines()[0] == f"{EndsAtOnce.address}  (Ctrl-C ends it)"
    out = run(capsys, "explore", "--random")[1]
    assert opened == [EndsAtOnce.address] and "No browser was found here. Open this address in one." in out


@pytest.fixture
def port():
    """A port that is in use."""
    from socket import create_server

    with create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


@pytest.mark.parametrize("arguments, match", [
    (["--run", "none.npz"], "cannot read 'none.npz'"),
    (["--run", "r.npz", "--model", "encoder"], "--model would have no effect with --run: the run holds a model already"),
    (["--run", "r.npz", "--random"], "--random would have no effect with --run"),
    (["--run", "r.npz", "--seed", 0], "--seed would have no effect with --run: nothing is drawn at random"),
    (["--out", "page.html", "--port", 0], "--port would have no effect with --out: a saved page needs no server"),
    (["--out", "page.html", "--no-browser"], "--no-browser would have no effect with --out"),
    (["--out", "page.txt"], "the page 'page.txt' must end in .html"),
    (["--out", ""], "the page '.' must end in .html"),
    (["--out", "none/page.html"], "cannot write '.*none/page.html': No such file or directory; name a file in an existing folder"),
    (["--out", "notes.html"], "'notes.html' exists already and is not a page of the explorer; name another file"),
    (["--text", ""], "the text is empty"), (["--text", "the xylophone"], "the word 'xylophone'"),
    (["--model", "lstm"], "invalid choice: 'lstm'"), (["--seed", -1], "'-1' is not a whole number"),
    (["--port", 70000], "'70000' is not a whole number of at least 0 and at most 65,535")])
def test_bad_input_gets_one_line_before_anything_is_trained(capsys, monkeypatch, tmp_path, arguments, match):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.html").write_text("my notes")
    monkeypatch.setattr("numpy_transformer.explorer.tiny_models.fit", lambda *_: pytest.fail("trained"))
    line = refused(capsys, "explore", *arguments)
    assert line.startswith("numpy-transformer explore: ") and re.search(match, line), line
    assert [path.name for path in tmp_path.iterdir()] == ["notes.html"]


def test_a_port_in_use_is_one_line(capsys, port):
    line = refused(capsys, "explore", "--random", "--no-browser", "--port", port)
    assert f"cannot listen on port {port} of 127.0.0.1: Address already in use; choose another port" in line
