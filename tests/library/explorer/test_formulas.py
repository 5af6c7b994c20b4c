"""Every formula gives what its component computes: each entry of each output and of each gradient."""

import inspect
from dataclasses import dataclass, field

import numpy as np
import pytest

from numpy_transformer import layers
from numpy_transformer.checks.samples import SAMPLES
from numpy_transformer.explorer.formulas import formulas_of, spell
from numpy_transformer.explorer.formulas.evaluator import Spelling
from numpy_transformer.layers.multi_head import merge_heads, split_heads

COMPOSITE = ("Attention", "FeedForward", "SwiGLU", "Block", "Encoder", "Decoder", "Model", "Classifier", "make_model")
LEAVES = [sample for sample in SAMPLES
          if sample.name.startswith(("AttentionMask", "FlashAttention"))
          or not sample.name.split(",")[0].endswith(COMPOSITE)]


@dataclass
class Op:
    """One operation, as the graph describes it to formulas_of."""

    module: object = None
    kind: str = "component"
    inputs: dict = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)
    numbers: dict = field(default_factory=dict)


def run(module, inputs, seed=0, **named):
    """Runs forward and backward in float64, with random parameters: returns the Op and its arrays with gradients."""
    rng = np.random.default_rng(seed)
    module.astype(np.float64)
    module.eval(remember=True)
    for parameter in module.parameters():
        parameter.data = rng.standard_normal(parameter.data.shape)
    module.zero_grad()
    inputs = [x.astype(np.float64) if np.asarray(x).dtype.kind == "f" else x for x in inputs]
    y = np.asarray(module.forward(*inputs, **named))
    dy = rng.standard_normal(y.shape)
    gradients = module.backward(dy)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    bound = inspect.signature(module.forward).bind(*inputs, **named).arguments
    given = {name: value for name, value in bound.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in bound.items() if isinstance(value, (int, float))}
    parameters = dict(module.named_parameters())
    op = Op(module, "component", given, {name: p.data for name, p in parameters.items()}, {"y": y}, numbers)
    arrays = {**given, **op.parameters, "y": y, "dy": dy, **{f"d{name}": p.grad for name, p in parameters.items()}}
    names = list(inspect.signature(module.forward).parameters)
    arrays |= {f"d{name}": np.asarray(gradient) for name, gradient in zip(names, gradients) if gradient is not None}
    return op, arrays


def check(op, arrays, entries=None, rng=None):
    """Compares `entries` random entries of each array that a formula gives (None: all) with the arrays."""
    formulas = formulas_of(op)
    wanted = {"y"} | {name for name in arrays if name.startswith("d") and name != "dy"}
    assert set(formulas) == wanted
    for target, formula in formulas.items():
        expected = arrays[target]
        spelling = Spelling(formula, {name: arrays[name] for name in arrays if not name.startswith("d") or name == "dy"})
        indices = list(np.ndindex(expected.shape))
        if entries is not None and len(indices) > entries:
            indices = [indices[i] for i in rng.choice(len(indices), entries, replace=False)]
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
        for index in indices:
            np.testing.assert_allclose(spelling.at(index)["value"], expected[index], rtol=0, atol=1e-12 * largest,
                                       err_msg=f"{target}{list(index)}: {formula.text}")


@pytest.mark.parametrize("sample", LEAVES, ids=lambda sample: sample.name)
def test_formulas_of_every_component(sample):
    op, arrays = run(*sample.make())
    check(op, arrays, 12, np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("sample", LEAVES, ids=lambda sample: sample.name)
def test_every_entry_of_every_component(sample):
    op, arrays = run(*sample.make(seed=1), seed=1)
    check(op, arrays)
