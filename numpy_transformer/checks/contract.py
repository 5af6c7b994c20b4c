"""What the one law promises, of any component: a gradient that is true, and a memory that is a stack."""

import copy

import numpy as np

from ..layers import MultiHeadAttention
from .check import as_tuple, check, expect, expect_close, expect_equal, pair, prepared, upside_down, upstream
from .gradcheck import Checker, GeneratorStates, Tolerances, generators, is_float


def memories(module):
    return [name for name, part in module.named_modules() if part.__dict__.get("_saved")]


def learns(module, *inputs):
    return bool(module.parameters())


class Directions(Checker):
    """Three random directions a tensor, also where they disagree: the wrong entry is not looked for."""

    def __init__(self, *arguments):
        super().__init__(*arguments)            # found once, not before each forward; [0] is NumPy's own, used by none
        self.states = {id(module): list(zip(generators(module), self.generator_states.states))[1:]
                       for module in (self.module, self.twin)}

    def directions(self, tensor, count):
        return super().directions(tensor, 3)

    def value(self, module, inputs):
        for rng, state in self.states[id(module)]:
            rng.bit_generator.state = state
        return np.where(self.counts, module.forward(*inputs), 0)


def expect_true_gradients(module, inputs):
    rows = Directions(module, inputs, 0, True).run(type(module).__name__, None, Tolerances()).rows
    worst = max(rows, key=lambda row: (not row.ok, row.central))
    expect(worst.ok, f"gradient of {worst.tensor}: relative error {max(worst.central, worst.complex or 0):.1e}")


@check("gradient check")
def gradients_are_true(module, *inputs):
    expect_true_gradients(module, inputs)


@check("gradient check, equal inputs", MultiHeadAttention,
       when=lambda module, *inputs: len(inputs) > 1 and is_float(inputs[1]))
def gradients_are_true_at_equal_inputs(module, x, *others):
    """Each input has a gradient of its own, also where two happen to hold the same numbers."""
    expect_true_gradients(module, [x.copy() for other in (x, *others) if is_float(other)])


@check("two backwards double", when=learns)
def two_backwards_double(module, *inputs):
    module, inputs = prepared(module, inputs)
    draws = GeneratorStates(module)
    _, _, once = pair(module, inputs)
    draws.restore(module)
    module.backward(upstream(module(*inputs)))
    for (name, p), g in zip(module.named_parameters(), once, strict=True):
        expect_close(f"gradient of {name} after two backwards", p.grad, 2 * g)


@check("arguments unchanged")
def arguments_are_not_changed(module, *inputs):
    module, inputs = prepared(module, inputs)
    before = copy.deepcopy(inputs)
    for x in inputs:
        if isinstance(x, np.ndarray):
            x.flags.writeable = False           # a write in place raises
    y = module(*inputs)
    dy = np.array(upstream(y))
    dy.flags.writeable = False
    start = dy.copy()
    module.backward(dy)
    for now, then in zip((*inputs, dy), (*before, start), strict=True):
        expect_equal("an argument was changed", now, then)


@check("earlier results stay")
def earlier_results_do_not_change_later(module, *inputs):
    module, inputs = prepared(module, inputs)
    y, dx, _ = pair(module, inputs)
    kept = copy.deepcopy((y, *dx))
    pair(module, upside_down(inputs), seed=6)
    for now, then in zip((y, *dx), kept, strict=True):
        expect_equal("a result was overwritten by a later call", now, then)


@check("memory emptied")
def nothing_is_remembered_after_backward_nor_in_eval(module, *inputs):
    module, inputs = prepared(module, inputs)
    for mode in (module.train, lambda: module.eval(remember=True)):
        mode()
        y = module(*inputs)
        expect(memories(module), "forward remembered nothing")
        module.backward(upstream(y))
        expect(not memories(module), f"something is left in the memory of {memories(module)[:1]}")
    module.eval()(*inputs)
    expect(not memories(module), "eval remembers")


@check("forget")
def forget_clears_forwards_that_nobody_answered(module, *inputs):
    module, inputs = prepared(module, inputs)
    draws = GeneratorStates(module)
    _, dx, grads = pair(module, inputs)
    for _ in range(3):
        module(*upside_down(inputs))
    expect(memories(module), "forward remembered nothing")
    expect(not memories(module.forget()), "forget left something")
    draws.restore(module)
    _, dx_again, grads_again = pair(module, inputs)
    for a, b in zip((*dx_again, *grads_again), (*dx, *grads), strict=True):
        expect_equal("a forward that nobody answered changed a later gradient", a, b)
    try:
        module.backward(upstream(module.eval()(*inputs)))
    except RuntimeError as error:
        expect("nothing to recall" in str(error), f"backward without a forward says {error}")
    else:
        raise AssertionError("backward without anything to recall did not complain")


@check("eval deterministic")
def eval_is_deterministic(module, *inputs):
    module, inputs = prepared(module, inputs)
    module.eval()
    expect_equal("two forwards in eval differ", module(*inputs), module(*inputs))


@check("float32 stays")
def float32_stays_float32(module, *inputs):
    module, inputs = prepared(module, inputs, np.float32)
    y, dx, grads = pair(module, inputs)
    found = [y.dtype, *(d.dtype for d in dx), *(g.dtype for g in grads), module.eval()(*inputs).dtype]
    expect(set(found) == {np.dtype(np.float32)}, f"float32 in, {', '.join({d.name for d in found})} out")
    expect(len(dx) == sum(map(is_float, inputs)), f"{len(dx)} gradients of the inputs")


@check("float32 agrees with float64")
def float32_agrees_with_float64(module, *inputs):
    """A kernel that is right only in float64 would pass every check in float64."""
    single, floats = prepared(module, inputs, np.float32)
    double, _ = prepared(module, inputs)
    for p, q in zip(double.parameters(), single.parameters(), strict=True):
        p.data = q.data
    y = double.eval()(*[x.astype(np.float64) if is_float(x) else x for x in floats])
    expect_close("output in float32", single.eval()(*floats), y, 2e-5)


@check("state dict round trip", when=learns)
def state_dict_round_trip(module, *inputs):
    """All that eval's output depends on is saved and loaded, into the same Parameters: a tied weight stays tied."""
    other, _ = prepared(module, inputs, seed=1)
    module, inputs = prepared(module, inputs)
    y, z, held = module.eval()(*inputs), other.eval()(*inputs), other.parameters()
    expect(not np.array_equal(y, z), "the output does not depend on the parameters")
    other.load_state_dict(module.state_dict())
    expect_equal("the output changed by saving and loading", other(*inputs), y)
    expect(all(p is q for p, q in zip(held, other.parameters(), strict=True)), "loading replaced a Parameter")


@check("used twice")
def used_twice_in_one_forward(module, *inputs):
    """The two memories are answered last in, first out."""
    module, first = prepared(module, inputs)
    second, draws = upside_down(first), GeneratorStates(module)
    _, dx1, grads1 = pair(module, first)
    _, dx2, grads2 = pair(module, second)
    draws.restore(module)
    module.zero_grad()
    y1, y2 = module(*first), module(*second)
    again2, again1 = module.backward(upstream(y2)), module.backward(upstream(y1))
    for a, b in zip((*as_tuple(again1), *as_tuple(again2)), (*dx1, *dx2), strict=True):
        expect_equal("a gradient differs when the component is used twice in one forward", a, b)
    for (name, p), g1, g2 in zip(module.named_parameters(), grads1, grads2, strict=True):
        expect_close(f"gradient of {name}, used twice", p.grad, g1 + g2)
