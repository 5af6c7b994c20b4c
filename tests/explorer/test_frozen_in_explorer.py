"""A model with LoRA in the explorer: frozen parameters are shown without a gradient, the others as everywhere."""

import json
import re

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.explorer.document import make_step
from numpy_transformer.explorer.formulas import formulas_of
from numpy_transformer.explorer.variables import variables_document
from numpy_transformer.layers.frozen import FROZEN

IDS = np.arange(6)[None]


@pytest.fixture(scope="module")
def step():
    model = nt.add_lora(nt.CausalLanguageModel(11, 12, 2, 1, max_len=6, rng=0), 2, alpha=3.0, rng=1)
    rng = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.1 * rng.standard_normal(parameter.data.shape)
    return make_step(model, IDS, np.roll(IDS, -1), nt.CrossEntropyLoss())


def test_frozen_parameters_have_no_gradient_and_the_others_the_right_one(step):
    parameters = {name: value for name, value in step.values.items() if value.kind == "parameter"}
    assert {name for name, value in parameters.items() if value.gradient is not None} == {
        f"decoder.blocks.0.attention.{part}.{letter}" for part in ("query", "value") for letter in "AB"}
    for value in parameters.values():
        if value.gradient is not None:
            slope = (step.loss_with(value.id, (1, 1), 1e-5) - step.loss_with(value.id, (1, 1), -1e-5)) / 2e-5
            assert value.gradient[1, 1] == pytest.approx(slope, rel=1e-6)
    assert all(value.mismatch < 1e-10 for value in step.values.values())
    json.dumps(step.document())


def test_frozen_layers_have_the_axes_and_the_formulas_of_others(step):
    plain = make_step(nt.CausalLanguageModel(11, 12, 2, 1, max_len=6, rng=0), IDS, np.roll(IDS, -1), nt.CrossEntropyLoss())
    for name, value in plain.values.items():
        if value.kind == "parameter":
            assert [axis["name"] for axis in step.values[name].axes] == [axis["name"] for axis in value.axes]
    for layer, frozen in FROZEN.items():
        formula = re.match(r"y = [^:]*?(?=:| on )", layer.__doc__)[0]
        assert frozen.__doc__.startswith(f"{formula} with a frozen ")


def test_formulas_leave_out_the_gradients_of_frozen_parameters(step):
    assert set(formulas_of(step.ops["decoder.blocks.0.attention.query"])) == {"y", "dx", "dA", "dB"}
    assert set(formulas_of(step.ops["decoder.blocks.0.attention.key"])) == {"y", "dx"}


def test_the_variables_of_a_lesson_are_shown_without_the_gradients_of_frozen_parameters():
    layer = nt.LoRALinear(nt.Linear(3, 2, rng=0), 1)
    values = variables_document({"layer": layer})["values"]
    assert {value["id"]: value["has_gradient"] for value in values} == {
        "layer.weight": False, "layer.bias": False, "layer.A": True, "layer.B": True}
