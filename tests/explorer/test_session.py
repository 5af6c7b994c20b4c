"""What the page asks a session for: documents, parts of arrays, spelled-out numbers, nudges; and what it refuses."""

import base64

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.explorer import session as sessions
from numpy_transformer.explorer.arrays import ArrayExample
from numpy_transformer.explorer.session import Session
from numpy_transformer.explorer.tiny_models import tiny


def make():
    """A session with an untrained model, in which no bug has to be tried."""
    example = tiny("decoder", train=False)
    example.possibilities = {"can": {}, "bugs": []}
    return Session(example)


@pytest.fixture(scope="module")
def session():
    return make()


@pytest.fixture(scope="module")
def linear():
    """A Linear with two known rows, whose formulas fit on one line."""
    layer = nt.Linear(3, 2, rng=0).astype(np.float64)
    return layer, Session(ArrayExample(layer, np.arange(6.0).reshape(2, 3), np.array([0, 1])))


def decoded(array):
    return np.frombuffer(base64.b64decode(array["data"]), array["dtype"]).reshape(array["shape"])


def test_the_same_edits_give_the_same_document(session):
    base = session.document([])
    longer = session.document([{"kind": "text", "text": "the dog"}])
    assert longer["id"] != base["id"] == session.base.id and len(longer["tokens"]["source"][0]) == 2
    assert session.document([])["arrays"] == base["arrays"]
    assert longer["hands_on"]["edits"] == [{"kind": "text", "text": "the dog"}] and base["hands_on"]["edits"] == []


@pytest.mark.slow
def test_documents_that_are_no_longer_kept_are_computed_again(monkeypatch):
    monkeypatch.setattr(sessions, "REMEMBERED", 5)
    session = make()
    texts = ("the dog", "the cat", "the cats", "the dogs", "dogs near the cat")
    made = [session.document([{"kind": "text", "text": text}]) for text in texts]
    assert len(session.latest) == sessions.KEPT and made[1]["id"] in session.latest
    session.document([])
    assert made[1]["id"] not in session.latest              # another tab of the browser still shows it
    ids = session.array(made[1]["id"], "input:ids")
    assert ids["data"] == made[1]["arrays"]["input:ids"]["data"] != made[2]["arrays"]["input:ids"]["data"]
    assert session.document([{"kind": "text", "text": texts[2]}])["id"] == made[2]["id"]
    assert session.step(session.base.id) is session.base
    with pytest.raises(ValueError, match=f"no document '{made[0]['id']}'; reload the page"):
        session.step(made[0]["id"])


def test_a_part_of_an_array_is_a_slice_of_it(session):
    document = session.document([])
    step = session.step(document["id"])
    ref = next(ref for ref, array in step.arrays.items() if array.ndim == 4 and array.dtype == float)
    whole = step.arrays[ref].astype(np.float32)
    _, heads, queries, keys = whole.shape
    part = session.array(document["id"], ref, [0, heads - 1, [1, 3], [0, keys]])
    assert part["shape"] == [2, keys] and np.array_equal(decoded(part), whole[0, -1, 1:3, :])
    assert np.array_equal(decoded(session.array(document["id"], ref)), whole)
    assert decoded(session.array(document["id"], ref, [0, 0, queries - 1, 0])).shape == ()


def test_numbers_are_spelled_out(linear):
    layer, session = linear
    x, weight = np.arange(6.0).reshape(2, 3), layer.weight.data
    document = session.document([])["id"]
    y = session.spell(document, "model:y", [1, 0])
    assert y["target"] == "y" and abs(y["value"] - (x[1] @ weight[:, 0] + layer.bias.data[0])) < 1e-12
    logits = x @ weight + layer.bias.data
    dy = (np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - np.eye(2)) / 2
    dweight = session.spell(document, "grad weight", [2, 1])
    assert dweight["target"] == "dweight" and abs(dweight["value"] - x[:, 2] @ dy[:, 1]) < 1e-12
    assert session.spell(document, "input:x", [0, 0]) is None


def test_every_gradient_with_a_formula_is_what_its_formula_gives(session):
    document = session.document([])
    step = session.step(document["id"])
    spelled = 0
    for ref, array in step.arrays.items():
        index = [int(i) for i in np.unravel_index(array.size // 2, array.shape)]
        found = session.spell(document["id"], ref, index)
        if found is not None:
            spelled += 1
            assert abs(found["value"] - array[tuple(index)]) <= 1e-9 * max(np.abs(array[np.isfinite(array)]).max(), 1e-3), ref
    assert spelled > 100


def test_a_large_document_leaves_arrays_to_be_asked_for(monkeypatch):
    monkeypatch.setattr(sessions, "LARGEST_LIVE", 2000)
    monkeypatch.setattr(sessions, "LARGEST_ANSWER", 100)
    session = make()
    document = session.document([])
    missing = [ref for ref, array in document["arrays"].items() if "data" not in array and "same" not in array]
    assert missing and sum(np.prod(a["shape"]) for a in document["arrays"].values() if "data" in a) <= 2000
    with pytest.raises(ValueError, match="at most 100 are sent at once; ask for a part"):
        session.array(document["id"], missing[0])
    shape = document["arrays"][missing[0]]["shape"]
    assert session.array(document["id"], missing[0], [[0, 1] for _ in shape])["shape"] == [1 for _ in shape]


def test_a_text_that_is_too_long_is_refused_before_it_is_computed():
    model = nt.CausalLanguageModel(9, 8, 2, 2, max_len=5000, positions="sinusoidal", rng=0)
    ids = np.ones((1, 3000), int)
    with pytest.raises(ValueError, match=r"about 2\d\d million entries, but at most 50 million .*; use a shorter text"):
        Session(ArrayExample(model, ids, ids))


def test_the_number_of_entries_is_estimated_within_a_factor_of_two(monkeypatch):
    for length in (8, 64):
        model = nt.CausalLanguageModel(9, 16, 4, 2, max_len=64, rng=0)
        ids = np.ones((1, length), int)
        found = sum(array.size for array in Session(ArrayExample(model, ids, ids)).base.arrays.values())
        for limit, refused in ((2 * found, False), (found / 2, True)):
            monkeypatch.setattr(sessions, "LARGEST_STEP", limit)
            assert raises(sessions.check_size, model, (ids,)) == refused
        monkeypatch.undo()


def raises(function, *arguments):
    try:
        function(*arguments)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("method, arguments, match", [
    ("document", ("text",), "edits must be a list"), ("document", ([3],), "edits must be a list"),
    ("document", ([{"kind": "text"}] * 201,), "201 edits, but at most 200"),
    ("document", ([{"kind": "text", "text": "the xylophone"}],), "the word 'xylophone'"),
    ("document", ([{"kind": "text", "text": "the \ud800"}],), "a single token"),
    ("array", ("step-99", "input:ids"), "no document 'step-99'; reload"), ("array", (["step-0"], "input:ids"), "no document"),
    ("array", ("step-0", "../etc"), "no array '../etc'"), ("array", ("step-0", ["input:ids"]), "no array"),
    ("array", ("step-0", "input:ids", [0]), "must name each of the 2 axes"), ("array", ("step-0", "input:ids", "00"), "each of the 2"),
    ("array", ("step-0", "input:ids", [0, 99]), "99 is not a number below 6"), ("array", ("step-0", "input:ids", [0, -1]), "-1 is"),
    ("array", ("step-0", "input:ids", [0, [0, 99]]), "start < stop <= 6"), ("array", ("step-0", "input:ids", [0, [2, 2]]), "start < stop"),
    ("array", ("step-0", "input:ids", [0, True]), "True is not"), ("array", ("step-0", "input:ids", [0, 1.0]), "1.0 is not"),
    ("array", ("step-0", "input:ids", [0, [0, 10 ** 400]]), "is not a number below"),
    ("spell", ("step-0", "input:ids", [0]), r"\[0\] is not the index of an entry"), ("spell", ("step-0", "input:ids", [[0, 1], 0]), "not the index"),
    ("spell", ("step-0", "input:ids", list(range(1000))), r"\.\.\. is not the index"),
    ("nudge", ("step-0", "output.weight", [0, 0], 1e-3), "no array 'output.weight'")])
def test_a_bad_question_is_refused_with_one_sentence(session, method, arguments, match):
    session.document([])
    with pytest.raises(ValueError, match=match) as caught:
        getattr(session, method)(*arguments)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
