"""Checks of every component's contract: correct gradients, and saved values recalled last in, first out."""

import copy

import numpy as np

from ..layers import MultiHeadAttention
from .check import (as_tuple, check, expect, expect_close, expect_equal, forward_and_backward, prepared, reversed_batch,
                    upstream)
from .gradcheck import Checker, GeneratorStates, Tolerances, generators, is_float


def parts_with_saved_values(module):
    return [name for name, part in module.named_modules() if part.__dict__.get("_saved")]


def has_parameters(module, *inputs):
    return bool(module.parameters())


class RandomDirections(Checker):
    """A gradient check with three random directions per tensor. It does not locate a wrong entry."""

    def __init__(self, *arguments):
        super().__init__(*arguments)            # the generators are looked up once here, not before each forward;
        self.states = {id(module): list(zip(generators(module), self.generator_states.states))[1:]
                       for module in (self.module, self.twin)}      # the first one, NumPy's global one, is not used

    def directions(self, tensor, count):
        return super().directions(tensor, 3)

    def restore_generators(self, module):
        for rng, state in self.states[id(module)]:
            rng.bit_generator.state = state


def expect_correct_gradients(module, inputs):
    rows = RandomDirections(module, inputs, 0, True).run(type(module).__name__, None, Tolerances()).rows
    worst = max(rows, key=lambda row: (not row.ok, row.central))
    expect(worst.ok, f"gradient of {worst.tensor}: relative error {max(worst.central, worst.complex or 0):.1e}")


def has_gradients(module, *inputs):
    return has_parameters(module) or any(map(is_float, inputs))


@check("gradient check", when=has_gradients)
def gradients_are_correct(module, *inputs):
    expect_correct_gradients(module, inputs)


@check("gradient check, equal inputs", MultiHeadAttention,
       when=lambda module, *inputs: len(inputs) > 1 and is_float(inputs[1]))
def gradients_are_correct_for_equal_inputs(module, x, *others):
    """Each input has its own gradient, even if two inputs happen to hold the same numbers."""
    expect_correct_gradients(module, [x.copy() for other in (x, *others) if is_float(other)])


@check("gradients accumulate", when=has_parameters)
def two_backwards_double_the_gradients(module, *inputs):
    module, inputs = prepared(module, inputs)
    states = GeneratorStates(module)
    _, _, once = forward_and_backward(module, inputs)
    states.restore(module)
    module.backward(upstream(module(*inputs)))
    for (name, p), g in zip(module.named_parameters(), once, strict=True):
        expect_close(f"gradient of {name} after two backward passes", p.grad, 2 * g)


@check("arguments unchanged")
def arguments_are_not_changed(module, *inputs):
    module, inputs = prepared(module, inputs)
    inputs_before = copy.deepcopy(inputs)
    for x in inputs:
        if isinstance(x, np.ndarray):
            x.flags.writeable = False           # so that a write in place raises an error
    y = module(*inputs)
    dy = np.array(upstream(y))
    dy.flags.writeable = False
    dy_before = dy.copy()
    module.backward(dy)
    for now, before in zip((*inputs, dy), (*inputs_before, dy_before), strict=True):
        expect_equal(now, before, "an argument was changed")


@check("results are not overwritten")
def earlier_results_survive_later_calls(module, *inputs):
    module, inputs = prepared(module, inputs)
    y, dx, _ = forward_and_backward(module, inputs)
    kept = copy.deepcopy((y, *dx))
    forward_and_backward(module, reversed_batch(inputs), seed=6)
    for now, before in zip((y, *dx), kept, strict=True):
        expect_equal(now, before, "a result was overwritten by a later call")


@check("saved values released")
def nothing_stays_saved_after_backward_or_in_eval(module, *inputs):
    module, inputs = prepared(module, inputs)
    for mode in (module.train, lambda: module.eval(remember=True)):
        mode()
        y = module(*inputs)
        expect(parts_with_saved_values(module), "forward saved nothing for backward")
        module.backward(upstream(y))
        left = parts_with_saved_values(module)
        expect(not left, f"values are still saved after backward, in {left[:1]}")
    module.eval()(*inputs)
    expect(not parts_with_saved_values(module), "values are saved in eval mode")


@check("forget")
def forget_drops_values_saved_by_forwards_without_backward(module, *inputs):
    module, inputs = prepared(module, inputs)
    states = GeneratorStates(module)
    _, dx, grads = forward_and_backward(module, inputs)
    for _ in range(3):
        module(*reversed_batch(inputs))
    expect(parts_with_saved_values(module), "forward saved nothing for backward")
    expect(not parts_with_saved_values(module.forget()), "values are still saved after forget")
    states.restore(module)
    _, dx_again, grads_again = forward_and_backward(module, inputs)
    for again, before in zip((*dx_again, *grads_again), (*dx, *grads), strict=True):
        expect_equal(again, before, "a forward without backward changed a later gradient, in spite of forget")
    try:
        module.backward(upstream(module.eval()(*inputs)))
    except RuntimeError as error:
        expect("nothing to recall" in str(error), f"backward without a forward says {error}")
    else:
        raise AssertionError("backward without a forward did not raise an error")


@check("eval is deterministic")
def eval_is_deterministic(module, *inputs):
    module, inputs = prepared(module, inputs)
    module.eval()
    expect_equal(module(*inputs), module(*inputs), "two forward passes in eval mode differ")


@check("float32 in, float32 out")
def float32_stays_float32(module, *inputs):
    module, inputs = prepared(module, inputs, np.float32)
    y, dx, grads = forward_and_backward(module, inputs)
    dtypes = [y.dtype, *(d.dtype for d in dx), *(g.dtype for g in grads), module.eval()(*inputs).dtype]
    expect(set(dtypes) == {np.dtype(np.float32)}, f"float32 in, but {', '.join({d.name for d in dtypes})} out")
    expect(len(dx) == sum(map(is_float, inputs)), f"{len(dx)} gradients of the inputs")


@check("float32 agrees with float64")
def float32_agrees_with_float64(module, *inputs):
    """A kernel that is correct only in float64 would pass all checks that run in float64."""
    single, floats = prepared(module, inputs, np.float32)
    double, _ = prepared(module, inputs)
    for p, q in zip(double.parameters(), single.parameters(), strict=True):
        p.data = q.data
    y = double.eval()(*[x.astype(np.float64) if is_float(x) else x for x in floats])
    expect_close("output in float32", single.eval()(*floats), y, 2e-5)


@check("state dict round trip", when=has_parameters)
def state_dict_round_trip(module, *inputs):
    """Everything that determines eval's output is saved and loaded, in place: a tied weight stays tied."""
    other, _ = prepared(module, inputs, seed=1)
    module, inputs = prepared(module, inputs)
    y, z = module.eval()(*inputs), other.eval()(*inputs)
    parameters = other.parameters()
    expect(not np.array_equal(y, z), "the output does not depend on the parameters")
    other.load_state_dict(module.state_dict())
    expect_equal(other(*inputs), y, "saving and loading changed the output")
    expect(all(p is q for p, q in zip(parameters, other.parameters(), strict=True)), "loading replaced a Parameter")


@check("used twice in one forward")
def used_twice_in_one_forward(module, *inputs):
    """Two forwards, then two backwards: the values saved last are recalled first.

    The two upstream gradients differ. With equal ones, Linear would add up the same weight gradient in either order.
    """
    module, first = prepared(module, inputs)
    second = reversed_batch(first)
    states = GeneratorStates(module)
    _, dx1, grads1 = forward_and_backward(module, first, seed=5)
    _, dx2, grads2 = forward_and_backward(module, second, seed=6)
    states.restore(module)
    module.zero_grad()
    y1, y2 = module(*first), module(*second)
    again2 = module.backward(upstream(y2, seed=6))
    again1 = module.backward(upstream(y1, seed=5))
    for again, before in zip((*as_tuple(again1), *as_tuple(again2)), (*dx1, *dx2), strict=True):
        expect_equal(again, before, "a gradient differs if the component is used twice in one forward")
    for (name, p), g1, g2 in zip(module.named_parameters(), grads1, grads2, strict=True):
        expect_close(f"gradient of {name}, used twice", p.grad, g1 + g2)
