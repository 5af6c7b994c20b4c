"""The places that lessons speak of exist on the pages of the tiny models, and show what the sentence says."""

from urllib.parse import parse_qs

import numpy as np
import pytest

from numpy_transformer.explorer.lessons import PLACES, find_place
from numpy_transformer.explorer.session import Session
from numpy_transformer.explorer.tiny import tiny


@pytest.fixture(scope="module")
def sessions():
    return {kind: Session(tiny(kind, train=False)) for kind in {place.model for place in PLACES.values()}}


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
