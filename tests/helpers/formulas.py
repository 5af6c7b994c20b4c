"""Operations for tests of the explorer's formulas: one call of each component without parts, with all its arrays."""

import inspect
from dataclasses import dataclass, field

import numpy as np

from numpy_transformer.checks.samples import SAMPLES

COMPOSITE = ("Attention", "FeedForward", "SwiGLU", "Block", "Stack", "Encoder", "Decoder", "Model", "Classifier", "make_model", "2017",
             "PositionBias", "Linear", "PerHead", "Sequential", "PartialRotary", "ScaledRotary", "Router", "Experts",
             "ShiftedPositions", "NormedPositions")
UNKNOWN = ("StraightThroughLinear",)                # a function that is handed in decides what they compute
LEAVES = [sample for sample in SAMPLES
          if sample.name.startswith(("AttentionMask", "FlashAttention", "BlockSparse", "RelativePositionBias", "Linear", "LoRALinear",
                                  "RecurrentLinear", "QuantizedLinear"))
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
    arrays = {**given, **op.parameters, "y": y, "dy": dy}
    arrays |= {f"d{name}": p.grad for name, p in module.named_parameters(trained=True)}
    names = list(inspect.signature(module.forward).parameters)
    arrays |= {f"d{name}": np.asarray(gradient) for name, gradient in zip(names, gradients) if gradient is not None}
    return op, arrays
