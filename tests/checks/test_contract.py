"""Every check of checks/ over every component that it applies to; and that the checks are about all of them."""

import functools

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.checks.check import expect_close
from numpy_transformer.checks.gradcheck import is_float
from numpy_transformer.checks.registry import CHECKS, OPTIMIZER_SAMPLES, SAMPLES
from numpy_transformer.tree import parts_with_loss

every_component = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
EVERYWHERE = {"gradient check", "arguments unchanged", "results are not overwritten", "saved values released", "forget",
              "eval is deterministic", "float32 in, float32 out", "float32 agrees with float64", "used twice in one forward"}


@functools.cache
def applying(sample):
    thing, inputs = sample.make()
    return [name for name, check in CHECKS.items() if check.applies(thing, *inputs)]


FIRST = list({type(sample.make()[0]): sample for sample in reversed(SAMPLES)}.values())         # of each component
MET = {name for sample in FIRST for name in applying(sample)}           # checks that the first samples meet


def speed(sample, name=None):
    """The mark of a test: variants of a component are left to the slow run, except for checks that only they meet."""
    quick = sample in FIRST or sample in OPTIMIZER_SAMPLES or (name is not None and name not in MET)
    return () if quick else pytest.mark.slow


@pytest.mark.parametrize("sample, directions", [
    *(pytest.param(sample, 1 if sample.directions else 3, id=sample.name) for sample in FIRST[::-1] if sample.gradients),
    *(pytest.param(sample, sample.directions, id=f"{sample.name}, in full", marks=pytest.mark.slow)
      for sample in SAMPLES if sample.gradients)])
def test_gradient(sample, directions):
    """Along random directions of each tensor, which involve all of its entries; the slow run checks entry by entry."""
    module, inputs = sample.make()
    report = nt.gradcheck(module, *inputs, directions=directions, name=sample.name)
    assert report.ok, str(report)
    assert report.worst("central") <= 1e-6 and report.worst("complex") <= 1e-12
    floats = sum(map(is_float, inputs))
    assert len(report.rows) == floats + len(module.parameters(trained=True)) > 0
    assert not all(row.zero for row in report.rows)


@pytest.mark.parametrize("sample, name", [                          # "gradient check" is part of test_gradient
    pytest.param(sample, name, marks=speed(sample, name))
    for sample in [*SAMPLES, *OPTIMIZER_SAMPLES] for name in applying(sample) if name != "gradient check"],
    ids=lambda value: getattr(value, "name", value))
def test_check(sample, name):
    """A right component passes every check that applies to it."""
    assert CHECKS[name].failure(*sample.make()) is None


@every_component
def test_every_component_has_the_checks_of_the_contract(sample):
    names = set(applying(sample))
    component, inputs = sample.make()
    has_batch = isinstance(inputs[0], np.ndarray)           # RelativePositionBias takes two lengths
    assert EVERYWHERE - (set() if sample.gradients else {"gradient check"}) <= names
    assert ({"gradients accumulate", "state dict round trip"} <= names) == bool(component.parameters())
    assert ("doubled batch, loss" in names) == sample.loss
    assert ("sequences are independent" in names) == (has_batch and not sample.loss and not parts_with_loss(component))


def test_every_check_applies_somewhere():
    assert {name for sample in [*SAMPLES, *OPTIMIZER_SAMPLES] for name in applying(sample)} == set(CHECKS)


def test_the_models_have_the_checks_of_models():
    for sample in SAMPLES:
        model = isinstance(sample.make()[0], (nt.LanguageModel, nt.EncoderDecoder))
        assert ({"doubled batch, model", "causality", "padding", "key-value cache", "everything dropped"}
                <= set(applying(sample))) == model


@pytest.mark.parametrize("found, wanted, message", [
    ([1.0, 2.0], [1.0, 2.1], "relative error"), ([1.0], [1.0, 2.0], "shape"), ([1.0, np.nan], [1.0, 2.0], "finite"),
    ([1.0, 5.0], [1.0, -np.inf], "finite")])
def test_what_is_close_has_the_same_shape_and_infinities(found, wanted, message):
    expect_close("it", np.array(wanted), np.array(wanted))
    with pytest.raises(AssertionError, match=message):
        expect_close("it", np.array(found), np.array(wanted))


def test_comparisons_notice_the_ninth_digit():
    for comparison in (lambda: expect_close("it", np.array([1.0, 2.0 + 1e-9]), np.array([1.0, 2.0])),
                       lambda: expect_close("it", np.array([1e-3 + 1e-12]), np.array([1e-3]))):
        with pytest.raises(AssertionError, match="relative error"):
            comparison()


def test_the_peak_of_a_schedule_is_that_of_its_formula():
    class Higher(nt.NoamSchedule):
        def rate(self, n):
            return 1.1 * super().rate(n)

    optimizer = nt.Adam([nt.Parameter(np.zeros(2))])
    assert CHECKS["peak after warmup"].failure(nt.NoamSchedule(optimizer, 512, 8), ()) is None
    assert CHECKS["peak after warmup"].failure(Higher(optimizer, 512, 8), ())


def test_saved_values_that_are_recalled_oldest_first_fail_the_check_of_two_uses():
    class OldestFirst(nt.Linear):
        def recall(self):
            self._saved.insert(len(self._saved), self._saved.pop(0))
            return super().recall()

    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    check = CHECKS["used twice in one forward"]
    assert check.failure(nt.Linear(4, 5, rng=0), (x,)) is None
    assert "gradient of weight, used twice" in check.failure(OldestFirst(4, 5, rng=0), (x,))


def test_every_public_component_is_in_the_table():
    tested = {type(sample.make()[0]).__name__ for sample in SAMPLES}
    public = {name for name, value in ((name, getattr(nt, name)) for name in nt.__all__)
              if isinstance(value, type) and issubclass(value, nt.Module) and value is not nt.Module}
    assert public == tested
