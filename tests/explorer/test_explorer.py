"""nt.explore: a step as a page that can be saved, opened, served, and shown in a notebook."""

import html
import re
import webbrowser

import numpy as np
import pytest
from helpers.pages import document_of

import numpy_transformer as nt
from numpy_transformer.cli.explore import save
from numpy_transformer.explorer import explorer

IDS = np.array([[1, 2, 3, 4]])
NAMES = ["</script><script>alert(1)</script>", "a", "<!--", "\u2028"]


def make(**options):
    model = nt.CausalLanguageModel(9, 8, 2, 1, max_len=8, rng=0)
    return model, nt.explore(model, IDS[:, :-1], IDS[:, 1:], proof=False, **options)


def test_the_loss_is_that_of_the_model_which_stays_unchanged():
    model, explored = make()
    loss = nt.CrossEntropyLoss()(model.astype(np.float64).eval()(IDS[:, :-1]), IDS[:, 1:])
    assert abs(explored.document["loss"] - loss) < 1e-12
    assert not any(parameter.grad.any() for parameter in model.parameters())
    assert repr(explored).startswith("Explorer('CausalLanguageModel', loss=")


def test_training_on_changes_nothing_that_is_shown_later():
    model, explored = make()
    weights = model.state_dict()["embedding.weight"].copy()
    optimizer = nt.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.data = np.zeros_like(parameter.data)
    assert np.array_equal(explored.session.step("step-0").arrays["embedding.weight"], weights)
    explored.session.example.possibilities = {"can": {}, "bugs": []}           # takes long to find out
    edited = explored.session.document([{"kind": "weight", "value": "embedding.weight", "index": [0, 0], "number": 1.0}])
    assert edited["model"] == explored.document["model"]
    weights[0, 0] = 1
    assert np.array_equal(explored.session.step(edited["id"]).arrays["embedding.weight"], weights)
    assert nt.explore(model, IDS, IDS, proof=False).document["loss"] > 0 and optimizer           # an optimizer may hold the weights


def test_a_saved_page_holds_the_document_and_replaces_only_pages(tmp_path):
    _, explored = make(tokens=[NAMES[:3]], title="A step")
    path = explored.save(tmp_path / "page.html", start="view=attention")
    text = path.read_text(encoding="utf-8")
    document = document_of(text)
    assert document["title"] == "A step" and document["tokens"]["source"] == [NAMES[:3]]
    assert document["hands_on"] is None and all("data" in a or "same" in a for a in document["arrays"].values())
    assert 'data-start="view=attention"' in text and "alert(1)</script>" not in text
    assert explored.save(path) == path and list(tmp_path.iterdir()) == [path]
    other = tmp_path / "other.html"
    other.write_text("my notes")
    for wrong, match in ((other, "is not a page of the explorer"), (tmp_path / "page.txt", "must end in .html"),
                         (tmp_path / "none" / "page.html", "cannot write"), (tmp_path, "must end in .html")):
        with pytest.raises(ValueError, match=match):
            explored.save(wrong)
    assert other.read_text() == "my notes"


def test_a_notebook_shows_the_page_in_a_frame_of_its_own():
    _, explored = make(tokens=[NAMES[:3]])
    shown = explored._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and shown.count("<") == 2          # nothing of the page leaves the attribute
    assert re.search(r'srcdoc="([^"]*)"', shown)[1].isascii()
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
    assert document_of(page)["tokens"]["source"] == [NAMES[:3]] and '<base href="about:srcdoc">' in page


def test_open_saves_a_page_and_opens_it(monkeypatch, tmp_path, capsys):
    opened = []

    class Window:
        open = staticmethod(lambda address: opened.append(address) or True)

    monkeypatch.setattr(webbrowser, "get", lambda: Window)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _, explored = make()
    path = explored.open()
    assert opened == [path.as_uri()] and document_of(path.read_text(encoding="utf-8"))["format"]
    for nowhere in (lambda: webbrowser.GenericBrowser("w3m"), lambda: (_ for _ in ()).throw(webbrowser.Error())):
        monkeypatch.setattr(webbrowser, "get", nowhere)
        path = explored.open()
        assert capsys.readouterr().out == f"No browser was found here. Open {path} in one.\n"


def test_the_largest_arrays_are_left_out_of_a_large_page(tmp_path):
    _, explored = make()
    arrays = document_of(explored.save(tmp_path / "page.html", megabytes=0.01).read_text(encoding="utf-8"))["arrays"]
    kept = [np.prod(array["shape"]) for array in arrays.values() if "data" in array]
    left_out = [np.prod(array["shape"]) for array in arrays.values() if "data" not in array and "same" not in array]
    assert left_out and max(kept) < min(left_out) and sum(len(a["data"]) for a in arrays.values() if "data" in a) <= 11_000


@pytest.mark.parametrize("tokens, match", [
    (["a", "b", "c"], "must hold a list of strings for each sequence"), ({"source": "abc"}, "must hold a list"),
    ({"words": []}, "no entry 'words'; give source"), ([["a", "b"]], r"names 2 tokens in a batch of 1, but there are 3"),
    ({"targets": [["a", "b", "c"]] * 2}, r"names 3 tokens in a batch of 2, but there are 3 in a batch of 1")])
def test_tokens_of_another_form_are_refused(tokens, match):
    with pytest.raises(ValueError, match=match):
        make(tokens=tokens)


def test_a_second_input_without_a_tuple_is_recognized():
    with pytest.raises(TypeError, match=r"targets have dtype bool, .* put the inputs into a tuple"):
        nt.explore(nt.SelfAttention(8, 2, rng=0), np.ones((1, 3, 8)), nt.causal_mask(3))


class Doubling:
    """A reader's own component, without Module."""

    def __init__(self):
        self.linear = nt.Linear(3, 2, rng=0)

    def forward(self, x):
        return self.linear(2 * x)

    def backward(self, dy):
        return 2 * self.linear.backward(dy)


def test_a_class_without_module_is_explored_too():
    x = np.arange(6.0).reshape(2, 3)
    explored = nt.explore(Doubling(), x, np.array([0, 1]))
    assert [op["class"] for op in explored.document["ops"] if op["class"]] == ["Linear", "CrossEntropyLoss"]
    linear = Doubling().linear
    y = 2 * x @ linear.weight.data + linear.bias.data
    expected = np.mean(np.log(np.exp(y).sum(1)) - y[[0, 1], [0, 1]])
    assert abs(explored.document["loss"] - expected) < 1e-6


def test_inputs_are_one_array_a_list_or_a_tuple_with_none():
    model, explored = make()
    losses = [nt.explore(model, inputs, IDS[:, 1:], proof=False).document["loss"]
              for inputs in (IDS[:, :-1].tolist(), (IDS[:, :-1],), (IDS[:, :-1], None))]
    assert losses == 3 * [explored.document["loss"]]
    with pytest.raises(ValueError, match=r"an input of shape \(0, 3\) holds no number"):
        nt.explore(model, IDS[:0, :-1], IDS[:0, 1:])


def test_a_tiny_step_is_proven_unless_it_is_not_wanted():
    layer, x = nt.Linear(3, 2, rng=0), np.arange(6.0).reshape(2, 3)
    document = nt.explore(layer, x, np.array([0, 1])).document
    assert 0 < document["proof"]["worst"] < 1e-6 and "numeric weight" in document["arrays"]
    assert nt.explore(layer, x, np.array([0, 1]), proof=False).document["proof"] is None


class ForgetsTheFactor(Doubling):
    """A wrong backward."""

    def backward(self, dy):
        return self.linear.backward(dy)


def test_the_repr_says_whether_the_gradients_agree():
    x = np.arange(6.0).reshape(2, 3)
    right = nt.explore(Doubling(), x)
    assert "sum of the output=" in repr(right)
    assert re.search(r"gradients agree with finite differences to \de-(0[789]|1\d)\);", repr(right))
    wrong = repr(nt.explore(ForgetsTheFactor(), x))
    assert "gradients do NOT agree with finite differences: the worst is that of 'input:x', by 1e+00" in wrong


@pytest.mark.parametrize("module, agrees", [(Doubling, True), (ForgetsTheFactor, False)])
def test_the_terminal_says_if_the_gradients_of_a_saved_page_are_wrong(capsys, tmp_path, module, agrees):
    save(nt.explore(module(), np.arange(6.0).reshape(2, 3)), tmp_path / "page.html")
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("saved the page as")
    said = "The gradients of this page do NOT agree with finite differences: the worst is that of 'input:x', by 1e+00."
    assert (said in out) != agrees and ("NOT agree" in out) != agrees
