"""The places that lessons speak of exist on the pages of the tiny models, and show what the sentence says."""

import re
from urllib.parse import parse_qs

import numpy as np
import pytest
from helpers import ROOT

from numpy_transformer.course.lessons.files import lesson_number, lessons_in
from numpy_transformer.explorer.lessons import ATTENTION, PLACES, find_place
from numpy_transformer.explorer.session import Session
from numpy_transformer.explorer.tiny_models import tiny

SUBJECTS = ("cat", "cats", "dog", "dogs", "bird", "birds")


@pytest.fixture(scope="module")
def sessions():
    sessions = {kind: Session(tiny(kind, train=False)) for kind in {place.model for place in PLACES.values()}}
    for session in sessions.values():           # what could be changed takes long to find out
        session.example.possibilities, session.example.comparisons = {"can": {}, "bugs": []}, []
    return sessions


@pytest.mark.parametrize("lesson", PLACES)
def test_the_place_exists(sessions, lesson):
    place = PLACES[lesson]
    session = sessions[place.model]
    document = session.document()
    address = {key: values[0] for key, values in parse_qs(place.address(document)).items()}
    assert address["op"] in {op["id"] for op in document["ops"]}
    cell = tuple(map(int, address["cell"].split(",")))
    array = session.base.arrays[address["ref"]]
    assert len(cell) == array.ndim
    assert all(i < size for i, size in zip(cell, array.shape))
    assert document["steps"][int(address["t"])] == {"phase": place.phase, "op": place.op}
    assert address["view"] == place.view


def test_the_query_of_the_first_token_has_gradient_zero_and_the_other_queries_do_not(sessions):
    gradient = sessions["decoder"].base.arrays[PLACES["06"].ref]
    assert np.all(gradient[:, :, 0] == 0)
    assert np.all(np.abs(gradient[:, :, 1:-1]).max(-1) > 0)        # the last token has no target


def test_lessons_10_and_13_show_a_gradient_with_two_contributions(sessions):
    for lesson in ("10", "13"):
        place = PLACES[lesson]
        arrays = sessions[place.model].base.arrays
        parts = [array for ref, array in arrays.items() if ref.startswith(f"{place.ref} via ")]
        assert len(parts) == 2
        np.testing.assert_allclose(parts[0] + parts[1], arrays[place.ref], rtol=0, atol=1e-15)


def test_a_lesson_is_found_with_and_without_its_zero():
    assert find_place("5") is find_place("05") is PLACES["05"]


def test_another_lesson_is_refused():
    with pytest.raises(ValueError, match="no page for lesson '03'; choose one of 02, 05"):
        find_place("03")


@pytest.mark.parametrize("path", lessons_in(ROOT / "lessons").values(), ids=lambda path: path.stem)
def test_the_lessons_with_a_place_name_its_command(path):
    number = lesson_number(path)
    named = re.findall(r"numpy-transformer explore --lesson (\w+)", path.read_text(encoding="utf-8"))
    assert named == [number] * (number in PLACES)


def test_the_teachers_addresses_lead_to_a_gradient_of_the_step(sessions):
    document, arrays = sessions["decoder"].document(), sessions["decoder"].base.arrays
    page = (ROOT / "lessons/TEACHING.md").read_text(encoding="utf-8")
    addresses = [parse_qs(line[1:]) for line in re.findall(r"^#op=.*$", page, re.M)]
    assert len(addresses) == 2
    for address in addresses:
        step = document["steps"][int(address["t"][0])]
        assert step == {"phase": "backward", "op": address["op"][0]}
        cell = tuple(map(int, address["cell"][0].split(",")))
        assert np.isfinite(arrays[address["ref"][0]][cell])


@pytest.mark.slow
def test_the_trained_model_shows_what_the_lessons_say():
    session = Session(tiny())
    session.document()
    arrays = session.base.arrays
    weights = arrays[f"{ATTENTION}.softmax:y"]
    dW, dS, P = arrays[PLACES["02"].ref], arrays[PLACES["05"].ref], arrays[PLACES["07"].ref]
    assert np.abs(dW).max() == abs(dW[PLACES["02"].cell])
    cell = PLACES["05"].cell
    assert arrays[f"grad {ATTENTION}.softmax:y"][cell] < 0 < dS[cell]
    assert P[PLACES["07"].cell] > 0.5 and weights[0, 0, 4, 1] < 0.2     # "dog" looks at "cats" in head 1 alone
    probable = arrays["lens 2"][0].argsort(-1)              # and what TEACHING.md says
    words = session.example.words
    assert words[probable[4, -1]] == "sleep" and {words[i] for i in probable[3, -6:]} == set(SUBJECTS)
    off = {"kind": "off", "what": "head", "group": ATTENTION, "head": 1}
    losses, without = arrays["losses"][0], session.computed("without", [off])[0].arrays["losses"][0]
    assert np.nanargmax(without - losses) == 4 and 0.2 < losses[4] < 0.3 and without[4] > 2 * losses[4]
    for gradient in arrays[PLACES["08"].ref], arrays["grad decoder.blocks.0.add:y"]:      # only norms read this stream
        assert np.abs(gradient.sum(-1)).max() < 1e-12 < 1e-3 < np.abs(gradient).max()


def test_lessons_22_to_25_show_what_their_questions_say(sessions):
    """A sink for each head; two heads that share a key; gradients orthogonal to queries; logits without a gradient."""
    document = sessions["gpt-oss"].document()
    sinks = next(value for value in document["values"] if value["id"] == PLACES["22"].ref.removeprefix("grad "))
    assert [axis["name"] for axis in sinks["axes"]] == ["head"]
    arrays = sessions["deepseek-v3"].base.arrays
    assert arrays[PLACES["23"].ref].shape[1] == 1 and arrays["decoder.blocks.0.attention.concatenate2:y"].shape[1] == 2
    arrays = sessions["qwen3"].base.arrays
    dq, q = arrays[PLACES["24"].ref], arrays[PLACES["24"].ref.removeprefix("grad ")]
    assert abs((dq * q).sum(-1)).max() < 1e-2 * (np.linalg.norm(dq, axis=-1) * np.linalg.norm(q, axis=-1)).max() > 0
    arrays = sessions["mixtral"].base.arrays
    dlogits = arrays[PLACES["25"].ref][PLACES["25"].cell[0]]
    assert np.count_nonzero(dlogits) == 2       # of four experts
    np.testing.assert_allclose(dlogits.sum(), 0, atol=1e-12)
