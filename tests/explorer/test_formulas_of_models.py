"""In whole models, every array that some operation computes has a formula, and the formula gives its entries."""

import numpy as np
import pytest
from helpers.formulas import UNKNOWN

from numpy_transformer.checks.samples import SAMPLES
from numpy_transformer.explorer.document import make_step
from numpy_transformer.explorer.formulas import formulas_of
from numpy_transformer.explorer.formulas.evaluator import Spelling

DEFAULT = {"CausalLanguageModel, rotary, rms, swiglu, grouped", "CausalLanguageModel, flash",
           "EncoderDecoder, post-norm, learned, tied", "SequenceClassifier", "MaskedLanguageModel, some positions"}


def largest(array):
    return np.abs(array[np.isfinite(array)]).max(initial=0)


@pytest.mark.parametrize("sample", [
    pytest.param(sample, id=sample.name, marks=() if sample.name in DEFAULT else pytest.mark.slow) for sample in SAMPLES
    if sample.name not in UNKNOWN])
def test_formulas_of_a_recorded_step(sample):
    rng = np.random.default_rng(0)
    model, inputs = sample.make()
    step = make_step(model, inputs, None, None)                 # the loss is the sum of the outputs
    for op in step.ops.values():
        formulas, arrays = formulas_of(op), op.arrays()
        computed = set(op.outputs) | {name for name in arrays if name.startswith("d") and name[1:] not in op.outputs}
        assert computed <= set(formulas), (
            f"{op.id} has no formula for {', '.join(sorted(computed - set(formulas)))}; write a function with "
            f"@spells({type(op.module).__name__}) in explorer/formulas/")
        for target in computed:
            formula, expected = formulas[target], np.asarray(arrays[target])
            index = tuple(rng.integers(expected.shape))
            value = Spelling(formula, arrays).value(index)
            # Some gradients are 0 up to rounding, such as that of a key's bias: the scale is that of what they sum.
            scale = max(largest(np.asarray(arrays[name])) for name in [target, *formula.names])
            np.testing.assert_allclose(value, expected[index], rtol=0, atol=1e-12 * scale,
                                       err_msg=f"{op.id} {target}{index}: {formula.text}")
