"""Compares a component with PyTorch, which computes every output and every gradient in float64."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

TOLERANCE = 1e-9


def close(ours, theirs, name="", scale=None):
    """The same shape, -inf at the same places, and the rest within the relative tolerance."""
    a, b = np.asarray(ours), theirs.detach().numpy()
    assert a.shape == b.shape and a.dtype == b.dtype == np.float64, f"{name}: {a.shape} {a.dtype}, {b.shape} {b.dtype}"
    infinite = np.isneginf(b)
    assert np.array_equal(np.isneginf(a), infinite), f"{name}: -inf stands elsewhere"
    a, b = np.where(infinite, 0, a), np.where(infinite, 0, b)
    error = np.linalg.norm(a - b) / (scale or max(np.linalg.norm(a), np.linalg.norm(b)) or 1.0)
    assert error <= TOLERANCE, f"{name}: relative error {error:.1e}"


def compare(ours, theirs, *inputs):
    """Output and every gradient of ours(*inputs) and of theirs(p, *inputs), p our parameters by name."""
    rng = np.random.default_rng(0)
    for parameter in ours.astype(np.float64).parameters():
        shape = parameter.data.shape
        parameter.data = rng.standard_normal(shape) / math.sqrt(shape[0] if len(shape) > 1 else 1)
    p = {name: leaf(parameter.data) for name, parameter in ours.named_parameters()}
    tensors = [leaf(x) if isinstance(x, np.ndarray) else x for x in inputs]
    y, their_y = ours(*inputs), theirs(p, *tensors)
    close(y, their_y, "output")

    dy = rng.standard_normal(np.shape(y))
    their_y.backward(torch.tensor(dy))
    returned = ours.backward(dy)
    returned = returned if isinstance(returned, tuple) else () if returned is None else (returned,)
    floats = [x for x in tensors if isinstance(x, torch.Tensor) and x.requires_grad]
    gradients = [(f"input {i}", dx, x.grad) for i, (dx, x) in enumerate(zip(returned, floats, strict=True))]
    gradients += [(name, q.grad, p[name].grad) for name, q in ours.named_parameters(trained=True)
                  if p[name].grad is not None]
    assert len(gradients) == len(floats) + len(ours.parameters(trained=True)), "PyTorch does not use some parameters"

    largest = max(grad.norm().item() for _, _, grad in gradients)
    for name, a, b in gradients:                # softmax does not see a key bias, unless it is turned: zero
        zero = name.endswith("key.bias") and b.norm().item() < TOLERANCE * largest
        close(a, b, name, largest if zero else None)


def leaf(array):
    return torch.tensor(array, requires_grad=array.dtype.kind == "f")
