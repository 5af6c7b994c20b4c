"""Several passes through a module: gradients accumulate, and two forwards in a row do not disturb each other."""

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.checks import samples
from numpy_transformer.checks.repeated_passes import plain_arrays, problems


class Scale:
    """y = w x + b, a class that does not know the package's Module."""

    def __init__(self, width):
        self.w = nt.Parameter(np.ones(width))
        self.b = nt.Parameter(np.zeros(width))
        self.saved = []

    def forward(self, x):
        self.saved.append(x)
        return self.w.data * x + self.b.data

    def backward(self, dy):
        self.w.grad += (dy * self.saved.pop()).sum(0)
        self.b.grad += dy.sum(0)
        return dy * self.w.data


class Overwrites(Scale):
    def backward(self, dy):
        self.w.grad = (dy * self.saved.pop()).sum(0)
        self.b.grad += dy.sum(0)
        return dy * self.w.data


class OneSlot(Scale):
    def forward(self, x):
        self.saved = [x]
        return self.w.data * x + self.b.data


class FirstComesFirst(Scale):
    def backward(self, dy):
        self.saved.reverse()
        dx = super().backward(dy)
        self.saved.reverse()
        return dx


class Counts(Scale):
    count = 0

    def forward(self, x):
        self.count += 1
        self.saved.append(self.count * x)
        return self.count * self.w.data * x + self.b.data

    def backward(self, dy):
        return self.count * super().backward(dy)


X = np.random.default_rng(0).standard_normal((3, 4))


@pytest.mark.parametrize("cls, wrong, remarks", [
    (Scale, [], []),
    (Overwrites, ["w.grad is overwritten, not added to"], []),
    (OneSlot, [], ["forward keeps the values of one pass only"]),
    (FirstComesFirst, [], ["after two forward passes"]),
    (Counts, ["a second forward and backward with the same arrays gives another gradient of x and w"], []),
])
def test_each_kind_of_mistake_is_told(cls, wrong, remarks):
    module = cls(4)
    found = problems(module, X)
    assert [len(sentences) for sentences in found] == [len(wrong), len(remarks)]
    assert all(words in sentence for words, sentence in zip(wrong + remarks, found[0] + found[1]))
    assert not module.w.grad.any() and not module.saved             # it works on a copy


@pytest.mark.parametrize("sample", [
    pytest.param(sample, id=sample.name, marks=[pytest.mark.slow] if i % 8 else [])
    for i, sample in enumerate(samples.SAMPLES) if sample.gradients])
def test_the_packages_components_have_no_problems(sample):
    module, inputs = sample.make(0)
    assert problems(module, *inputs) == ([], [])


def test_arrays_that_are_no_parameters_are_found():
    module = Scale(4)
    module.table, module._cache, module.ids, module.rate = np.ones(3), np.ones(3), np.arange(3), 0.1
    assert plain_arrays(module) == ["table"]
