"""The page of a program's variables: which arrays it shows, and which gradient stands beside which."""

import base64

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.explorer.variables import LARGEST, variables_document


@pytest.fixture
def namespace():
    rng = np.random.default_rng(0)
    layer = nt.Linear(5, 4, rng=rng)
    x = rng.standard_normal((3, 5)).astype(np.float32)
    y = layer(x)
    return {"x": x, "layer": layer, "y": y, "dy": np.ones_like(y), "dx": layer.backward(np.ones_like(y)),
            "dz": np.zeros(3), "_hidden": np.ones(2), "name": "text", "np": np, "empty": np.zeros((0, 3)),
            "huge": np.zeros(LARGEST + 1)}


def test_gradients_stand_beside_their_arrays(namespace):
    document = variables_document(namespace)
    has_gradient = {value["id"]: value["has_gradient"] for value in document["values"]}
    assert has_gradient == {"x": True, "y": True, "dz": False, "layer.weight": True, "layer.bias": True}


def test_the_arrays_are_those_of_the_program(namespace):
    arrays = variables_document(namespace)["arrays"]
    for ref, array in {"x": namespace["x"], "grad x": namespace["dx"],
                       "grad layer.weight": namespace["layer"].weight.grad}.items():
        shown = np.frombuffer(base64.b64decode(arrays[ref]["data"]), "<f4").reshape(arrays[ref]["shape"])
        np.testing.assert_array_equal(shown, array)


def test_a_gradient_of_another_shape_is_an_array_of_its_own():
    document = variables_document({"x": np.ones((2, 3)), "dx": np.ones(3)})
    assert {value["id"]: value["has_gradient"] for value in document["values"]} == {"x": False, "dx": False}


def test_no_array_at_all_is_an_error():
    with pytest.raises(ValueError, match="no array yet"):
        variables_document({"name": "text"})
