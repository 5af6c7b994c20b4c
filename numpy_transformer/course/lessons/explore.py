"""The key `e` of a lesson with --step: opens the lesson's arrays, or a module's latest step, in the explorer."""

import tracemalloc

from ...module import Module, is_module
from .words import lesson_words


class LatestCalls:
    """Remembers, inside `with`, the inputs of the latest call of each module that the lesson itself called.

    Calls made by other modules do not count, nor those while a lesson measures memory, since keeping their arrays would
    change what it measures. `loss_of(output)` finds the call of a loss that took a module's output.
    """

    def __init__(self):
        self.latest = {}                         # {id(module): (module, inputs, output)}
        self.depth = 0

    def __enter__(self):
        self.original = Module.__call__
        calls, original = self, self.original

        def call(module, *inputs, **named):
            calls.depth += 1
            try:
                output = original(module, *inputs, **named)
            finally:
                calls.depth -= 1
            if calls.depth == 0 and not named and not tracemalloc.is_tracing():
                calls.latest[id(module)] = (module, inputs, output)
            return output

        Module.__call__ = call
        return self

    def __exit__(self, *_):
        Module.__call__ = self.original

    def inputs_of(self, module):
        """Returns (inputs, output) of the module's latest call, or None."""
        if id(module) not in self.latest:
            return None
        return self.latest[id(module)][1:]

    def loss_of(self, output):
        """Returns (criterion, targets) of a call whose first input was this output, or (None, None)."""
        for module, inputs, _ in self.latest.values():
            if len(inputs) == 2 and inputs[0] is output:
                return module, inputs[1]
        return None, None


def open_variables(namespace, title):
    """Opens the arrays among some variables in the browser. Returns the path of the page."""
    from ...explorer.explorer import open_page  # not needed unless the key is pressed
    from ...explorer.variables import variables_document

    return open_page(variables_document(namespace, title))


def open_module(module, name, calls):
    """Opens the step of a module's latest call in the browser. Returns the path of the page.

    Raises: TypeError if it is no module; ValueError if the lesson has not called it.
    """
    from ...explorer import explore

    if not is_module(module):
        raise TypeError(lesson_words("variables.no_module", name=name, type=type(module).__name__))
    call = calls.inputs_of(module)
    if call is None:
        raise ValueError(lesson_words("variables.not_called", name=name))
    inputs, output = call
    criterion, targets = calls.loss_of(output)
    return explore(module, inputs, targets, criterion, title=name).open()
