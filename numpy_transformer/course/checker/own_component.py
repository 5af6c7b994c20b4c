"""Compares a class of one's own with a component of the package, on the cases of that component's exercises.

The class keeps the names of its attributes and the arguments of its constructor. An adapter builds it with the sizes of
each case, gives its parameters the values of the case, and has the form that the exercise asks for. Known mistakes are
therefore named as in the exercise.
"""

import inspect
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from ...checks.gradcheck import convert
from ...checks.repeated_passes import plain_arrays
from ...module import is_module, is_parameter, named_parts
from ...texts import render
from ..exercises import exercises
from ..exercises.blocks import Part
from ..exercises.cases import brief
from ..exercises.observation import copy_arrays
from ..sandbox.inside.worker import report_error
from .cell_source import file_of
from .comparison import is_close
from .components import BLOCK, OFF, find_component, means, same_name
from .diagnosis import AnswerKey
from .in_process import run_in_this_process
from .messages import raised
from .verdict import judge


class AdaptedClass:
    """A student's class in the form that the exercises of a component ask for.

    Parameters:
        cls : class with forward and backward
        name : of the component, such as "LayerNorm"

    Attributes:
        notes : sentences about what cannot be compared
    """

    def __init__(self, cls, name):
        self.cls = cls
        self.name, self.component = find_component(name)
        self.names, self.notes = None, []       # {name of the exercise's parameter: name of the student's}
        self.fixed = {}
        for argument, value in (("eps", 1e-5), ("temperature", 1.0), ("offset", 0)):
            if argument in self.arguments() and not self.takes(argument):
                self.fixed[argument] = value
        self.notes += [f"{cls.__name__} takes no {argument}, so it should compute with {argument} = {value:g}"
                       for argument, value in self.fixed.items() if argument != "offset"]

    def arguments(self):
        """Returns the names of all arguments of the exercises."""
        return {name for number in self.component.numbers for name in exercises()[number].parameters}

    def takes(self, argument):
        function = self.cls.forward if argument == "offset" else self.cls
        return any(means(name, argument) for name in inspect.signature(function).parameters)

    def exercises(self):
        """Returns the exercises of the component, with cases that the class can take."""
        return [self.with_own_cases(exercises()[number]) for number in self.component.numbers]

    def with_own_cases(self, exercise):
        def inputs(rng, n):
            return self.adapted(exercise, exercise.inputs(rng, n))

        def edges(rng):
            return [(note, self.adapted(exercise, arguments)) for note, arguments in exercise.edges(rng)]

        fixed = [name for name in self.fixed if name in exercise.parameters]
        linked = (*exercise.linked, (exercise.parameters[0], *fixed))       # never another value for a fixed one alone
        if self.component.adapt is not dict:    # the notes of the edge cases would no longer be true
            return replace(exercise, inputs=inputs, edges=lambda rng: [], linked=linked)
        return replace(exercise, inputs=inputs, edges=edges, linked=linked)

    def adapted(self, exercise, arguments):
        """Returns an exercise's arguments with the values that the class cannot take replaced."""
        if exercise.is_class:
            inputs, calls = arguments
            return self.adapted_inputs(exercise, inputs), calls
        return self.adapted_inputs(exercise, arguments)

    def adapted_inputs(self, exercise, inputs):
        named = dict(zip(exercise.parameters, inputs))
        named |= {name: value for name, value in self.fixed.items() if name in named}
        return tuple(self.component.adapt(named).values())

    def adapter(self, exercise):
        """Returns the function or class that an exercise asks for."""
        if exercise.is_class:
            return lambda *inputs: self.as_class(dict(zip(exercise.parameters, inputs)))
        if "dy" in exercise.parameters:
            return lambda *inputs: self.as_backward(dict(zip(exercise.parameters, inputs)))
        return lambda *inputs: self.as_forward(dict(zip(exercise.parameters, inputs)))

    def as_class(self, arguments):
        module, parameters = self.build(arguments)
        if self.name == "EncoderBlock":
            parameters = self.exchange_parts(module, arguments)
        namespace = SimpleNamespace(forward=module.forward, backward=module.backward, module=module)
        for name, parameter in parameters.items():
            *path, last = name.split(".")
            owner = namespace
            for part in path:
                vars(owner).setdefault(part, SimpleNamespace())
                owner = vars(owner)[part]
            setattr(owner, last, parameter)
        return namespace

    def as_forward(self, arguments):
        module, _ = self.build(arguments)
        y = module.forward(*self.forward_inputs(module, arguments))
        if self.name != "ScaledDotProductAttention":
            return y
        identity = np.eye(arguments["k"].shape[-2], dtype=arguments["k"].dtype)     # y is then p itself
        again, _ = self.build(arguments)
        values = np.broadcast_to(identity, (*arguments["k"].shape[:-1], len(identity))).copy()
        return y, again.forward(*self.forward_inputs(again, {**arguments, "v": values}))

    def as_backward(self, arguments):
        module, parameters = self.build(arguments)
        module.forward(*self.forward_inputs(module, {"x": np.zeros_like(arguments["dy"]), "offset": 0, **arguments}))
        gradients = module.backward(arguments["dy"])
        gradients = tuple(gradients) if isinstance(gradients, (tuple, list)) else (gradients,)
        return (*gradients, *(parameter.grad for parameter in parameters.values()))

    def forward_inputs(self, module, arguments):
        """Returns the arguments of forward: a mask that hides nothing if one is needed, no offset if none is taken."""
        names = [name for name in self.component.inputs if name != "offset" or self.takes("offset")]
        inputs = [arguments[name] for name in names]
        required = [p for p in inspect.signature(module.forward).parameters.values()
                    if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if len(required) == len(inputs) + 1 and self.name == "ScaledDotProductAttention":
            inputs.append(np.ones((arguments["q"].shape[-2], arguments["k"].shape[-2]), bool))
        return inputs

    def build(self, arguments):
        """Returns an object of the class and {name of the exercise's parameter: parameter} with the case's values."""
        settings, arrays = self.component.parts(**arguments)
        module = convert(self.make(self.constructor_arguments(arguments, settings)), np.float64)
        if self.names is None and arrays:
            self.names = self.match(module, arrays)
        own = dict((name, part) for name, part in named_parts(module) if is_parameter(part))
        parameters = {}
        for name, array in arrays.items():
            parameters[name] = own[self.names[name]]
            assign(parameters[name], array)
        return module, parameters

    def make(self, settings):
        """Returns an object of the class. Raises: ValueError if its constructor cannot take a component's settings."""
        try:
            return self.cls(**settings)
        except (TypeError, ValueError) as error:
            call = ", ".join(f"{name}={brief(value)}" for name, value in settings.items())
            raise ValueError(f"{self.cls.__name__}({call}), built with the settings of {self.name}, raised "
                             f"{render(raised(report_error(error, file_of(self.cls))))}. Is it like {self.name}?") from error

    def constructor_arguments(self, arguments, settings):
        """Returns the keyword arguments for the constructor.

        They are the component's own settings, by name or else in their order, or the exercise's arguments by name.
        """
        keywords, unknown, order = {}, [], dict(settings)
        for p in inspect.signature(self.cls).parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                continue
            values = settings if p.default is not p.empty else {**arguments, **settings}
            known = next((name for name in values if means(p.name, name)), None)
            if known is not None:
                keywords[p.name] = values[known]
                order.pop(known, None)
            elif p.name in OFF:
                keywords[p.name] = OFF[p.name]
            elif p.default is p.empty:
                unknown.append(p.name)
        if len(unknown) > len(order):
            raise ValueError(f"{self.cls.__name__}{inspect.signature(self.cls)} takes {', '.join(unknown)}, which "
                             f"{self.name} does not have; it takes {', '.join(settings) or 'nothing'}. Give the others "
                             "default values")
        return keywords | dict(zip(unknown, order.values()))

    def match(self, module, arrays):
        """Returns {name of the exercise's parameter: name of the student's}, by name or else by shape and order."""
        own = {name: part.data for name, part in named_parts(module) if is_parameter(part)}
        matches = {}
        for wanted in arrays:
            named = [name for name in own if name not in matches.values() and same_name(wanted, name)
                     and np.shape(own[name]) == arrays[wanted].shape]
            matches |= {wanted: named[0]} if len(named) == 1 else {}
        for wanted, array in arrays.items():
            fitting = [name for name in own if name not in matches.values() and np.shape(own[name]) == array.shape]
            if wanted not in matches and fitting:
                matches[wanted] = fitting[0]
        if len(matches) < len(arrays) or len(own) > len(arrays):
            wanted = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "no parameters"
            yours = ", ".join(f"{name} {np.shape(data)}" for name, data in own.items()) or "none"
            arrays = [f"make {name} an nt.Parameter" for name in plain_arrays(module)]
            yours = "; ".join([yours, *arrays])
            raise ValueError(f"{self.name} has the parameters {wanted}; {self.cls.__name__} has {yours}. They are "
                             "matched by name, or else by shape and order")
        return matches

    def exchange_parts(self, block, arguments):
        """Puts the exercise's layers in the places of a block's norms, attention and feed-forward layer."""
        children = {name: part for name, part in vars(block).items() if is_module(part)}
        weights = {}
        for wanted, names in BLOCK.items():
            name = next((name for name in children if name in names), None)
            if name is None:
                yours = ", ".join(children) or "no parts"
                raise ValueError(f"{self.cls.__name__} has no part {wanted}; an encoder block has norm1, attention, "
                                 f"norm2 and feed_forward, and {self.cls.__name__} has {yours}")
            layer = Part(*arguments[wanted])
            setattr(block, name, layer)
            weights[f"{wanted}.weight"] = layer.weight
        return weights

    def sample(self):
        """Returns an object of the class and inputs of its forward, for the gradient check."""
        exercise = self.exercises()[-1]
        case = exercise.cases(0)[0]
        arguments = dict(zip(exercise.parameters, copy_arrays(case.inputs)))
        module, _ = self.build(arguments)
        if self.name == "EncoderBlock":
            self.exchange_parts(self.build(arguments)[0], arguments)        # for its errors
        if exercise.is_class:
            inputs = copy_arrays(next(inputs for method, inputs in case.calls if method == "forward"))
        else:
            inputs = self.forward_inputs(module, {"x": arguments["dy"], "offset": 0, **arguments})
        try:
            inspect.signature(module.forward).bind(*inputs)
        except TypeError as error:
            raise ValueError(f"forward of {self.name} takes {len(inputs)} inputs, {', '.join(map(brief, inputs))}; "
                             f"{self.cls.__name__}.forward{inspect.signature(self.cls.forward)} does not") from error
        return module, inputs

    def forward_differs(self, exercise):
        """For an exercise in backward alone: whether forward differs from the component's."""
        if self.component.forward is None:
            return False
        arguments = dict(zip(exercise.parameters, exercise.cases(0)[0].inputs))
        return not np.allclose(self.as_forward(copy_arrays_of(arguments)), self.component.forward(**arguments))


@dataclass
class ExerciseComparison:
    """How a class compares with the component in one exercise; `forward_is_wrong` if its forward is another function."""

    exercise: object
    verdict: object
    printed: str
    forward_is_wrong: bool


def compare(adapted, file, seed=0):
    """Returns an ExerciseComparison for each exercise of the component. The cases in float32 are left out.

    Parameters:
        file : name of the file whose lines are named in errors, or None
        seed : int, the seed of the cases
    """
    comparisons = []
    for exercise in adapted.exercises():
        answer_key = AnswerKey(exercise, seed)
        answer_key.cases = [case for case in answer_key.cases if case.role != "float32"]
        run = run_in_this_process(adapted.adapter(exercise), exercise, answer_key.cases, file)
        wrong = adapted.forward_differs(exercise) or has_wrong_forward(answer_key, run)
        comparisons.append(ExerciseComparison(exercise, judge(answer_key, run), run.printed, wrong))
    return comparisons


def has_wrong_forward(answer_key, run):
    """Returns True if an output of forward, not of backward, is wrong in a case that ended without an error."""
    exercise = answer_key.exercise
    if "dy" in exercise.parameters:
        return False
    for case, result, expected in zip(answer_key.main_cases, run.results, answer_key.expected):
        methods = [method for method, _ in case.calls] or ["forward"] * len(expected.outputs)
        for method, yours, right in zip(methods, result.outputs, expected.outputs):
            if method == "forward" and yours is not None and not is_close(yours, right, expected.outputs):
                return True
    return False


def copy_arrays_of(arguments):
    return dict(zip(arguments, copy_arrays(tuple(arguments.values()))))


def assign(parameter, array):
    """Gives a parameter of any class this array, not a copy, so that in-place changes are seen; and a zero gradient."""
    if hasattr(parameter, "move"):
        parameter.move(array, np.zeros_like(array))
    else:
        parameter.data, parameter.grad = array, np.zeros_like(array)
