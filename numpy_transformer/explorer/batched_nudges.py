"""Many nudges in one forward: the step's texts repeated along the batch axis, each copy with a change of its own."""

import numpy as np

from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss
from ..module import is_module, is_parameter, named_parts
from .predictions import losses_of
from .rerun import argument, changeable

COPIES = 256                                    # in one forward
CLOSE = 1e-12                                   # a copy without a change must have the loss of the step


class NotIndependent(Exception):
    """The copies cannot be computed together: nudges have to be tried one by one."""


class RepeatedStep:
    """Computes the losses of many copies of a recorded step, each with one entry of a value changed.

    The rows of a batch do not depend on each other, so that copies along the batch axis are computed at once. This is
    verified for each value: copies with different changes must have the losses that one forward after another gives. In
    each forward, moreover, the last copy is not changed, and must have the loss of the step.

    Parameters: step : Step of document.py
    """

    def __init__(self, step):
        self.step = step
        self.recording = step.recording
        inputs = [x for x in self.recording.inputs if isinstance(x, np.ndarray)]
        sizes = {x.shape[0] if x.ndim > 1 else None for x in inputs}
        self.batch = sizes.pop() if len(sizes) == 1 else None
        targets = self.recording.targets
        if not isinstance(targets, np.ndarray) or targets.shape[:1] != (self.batch,):
            self.batch = None
        self.mean_of_losses = isinstance(self.recording.criterion, (CrossEntropyLoss, BinaryCrossEntropyLoss))

    def losses(self, value, entries, steps):
        """Returns an array: the loss with steps[n] added to the flat entry entries[n] of the value, for each n.

        Raises: NotIndependent if the copies are not independent, or if the value has no batch axis.
        """
        if self.batch is None:
            raise NotIndependent
        self.verify(value)
        parts = []
        for start in range(0, len(entries), COPIES):
            chosen = slice(start, start + COPIES)
            parts.append(self.forward(value, np.append(entries[chosen], 0), np.append(steps[chosen], 0.0)))
        return np.concatenate(parts)

    def verify(self, value):
        """Compares some copies, computed at once, with one forward after another."""
        entries = np.unique([0, value.array.size // 2, value.array.size - 1])
        steps = np.array([0.1, 0.03, -0.07])[:len(entries)]                 # they do not cancel
        together = self.forward(value, np.append(entries, 0), np.append(steps, 0.0))
        for entry, step, loss in zip(entries, steps, together):
            alone = self.step.loss_with(value.id, np.unravel_index(entry, value.array.shape), step)
            if not abs(loss - alone) <= CLOSE * max(abs(alone), 1):
                raise NotIndependent

    def forward(self, value, entries, steps):
        """Computes one forward of len(entries) copies, of which the last is not changed; returns the losses of the others."""
        changed = Changed(self, value, entries, steps)
        inputs = [repeat(x, len(entries)) for x in self.recording.inputs]
        with changed:
            outputs = self.recording.model.forward(*inputs)
            if changed.outputs:
                outputs = np.array(outputs)
                changed.add_to(outputs)
        if not changed.done or not isinstance(outputs, np.ndarray) or outputs.shape[0] != self.batch * len(entries):
            raise NotIndependent
        losses = self.losses_of_copies(outputs.reshape(len(entries), self.batch, *outputs.shape[1:]))
        if not abs(losses[-1] - self.step.loss) <= CLOSE * max(abs(self.step.loss), 1):
            raise NotIndependent
        return losses[:-1]

    def losses_of_copies(self, outputs):
        """Returns the loss of each copy; the formula for all at once is compared with the criterion itself."""
        criterion, targets = self.recording.criterion, self.recording.targets
        if self.mean_of_losses:
            losses = losses_of(outputs, np.broadcast_to(targets, (len(outputs), *targets.shape)), criterion)
            losses = losses.reshape(len(losses), -1)
            losses = losses[:, ~np.isnan(losses[-1])].mean(-1)
            tried = {0, len(outputs) // 2, len(outputs) - 1}
            if all(abs(losses[n] - criterion.forward(outputs[n], targets)) <= CLOSE * max(abs(losses[n]), 1) for n in tried):
                return losses
        return np.array([float(criterion.forward(output, targets)) for output in outputs])


class Changed:
    """While it is open, the forward of one component changes copy n by steps[n] at the flat entry entries[n]."""

    def __init__(self, repeated, value, entries, steps):
        self.value, self.steps = value, steps
        self.batch = repeated.batch
        self.shape = value.array.shape
        self.index = np.unravel_index(entries, self.shape)
        self.done = False
        self.own = []                           # (module, the forward in its own attributes or None)
        self.outputs = False                    # whether the outputs of the model are what changes
        self.patches = []
        if value.handle[0] == "parameter":
            self.patches = self.patches_of_parameter(repeated.recording, value.parameter)
            return
        place, call, slot = value.handle
        if call is repeated.recording.criterion_call:       # the criterion is called for each copy apart
            self.outputs = True
        else:
            self.patches = [(call.module, self.after(call, slot) if place == "after" else self.before(place, call, slot))]

    def __enter__(self):
        for module, patch in self.patches:
            self.own.append((module, vars(module).get("forward")))
            module.forward = patch
        return self

    def __exit__(self, *error):
        for module, own in self.own:
            del module.forward
            if own is not None:
                module.forward = own

    def add_to(self, array):
        """Adds the steps to an array of all copies, in place."""
        copies = len(self.steps)
        if array.ndim == 0 or array.shape != (self.batch * copies, *self.shape[1:]) or self.shape[0] != self.batch:
            raise NotIndependent
        rows = np.arange(copies) * self.batch + self.index[0]
        array[(rows, *self.index[1:])] += self.steps
        self.done = True

    def after(self, call, slot):
        forward, count = call.module.forward, iter(range(10 ** 9))

        def changed(*inputs, **named):
            outputs = forward(*inputs, **named)
            if next(count) != call.repeat:
                return outputs
            several = list(outputs) if isinstance(outputs, tuple) else [outputs]
            several[slot] = np.array(several[slot])
            self.add_to(several[slot])
            return tuple(several) if isinstance(outputs, tuple) else several[0]

        return changed

    def before(self, place, call, slot):
        forward, count = call.module.forward, iter(range(10 ** 9))

        def changed(*inputs, **named):
            if next(count) == call.repeat:
                inputs, named = changeable(place, call, slot, inputs, named)
                self.add_to(argument(call, slot, inputs, named))
            return forward(*inputs, **named)

        return changed

    def patches_of_parameter(self, recording, parameter):
        """Returns a patch for each component that holds the parameter: it computes one copy after another."""
        modules = [part for root in (recording.model, recording.criterion) if root is not None
                   for _, part in named_parts(root)
                   if is_module(part) and any(value is parameter for value in vars(part).values())]
        patches = []
        for module in modules:
            has_parts = any(is_module(part) for _, part in named_parts(module) if part is not module)
            if has_parts or not is_parameter(parameter):
                raise NotIndependent
            patches.append((module, self.one_by_one(module.forward, parameter.data)))
        return patches

    def one_by_one(self, forward, data):
        """Returns a forward that computes each copy with its own change of the parameter."""
        copies = len(self.steps)

        def changed(*inputs, **named):
            size = self.batch * copies
            if not any(np.shape(x)[:1] == (size,) for x in (*inputs, *named.values())):     # tokens of all texts as rows
                raise NotIndependent
            outputs = []
            for n in range(copies):
                rows = slice(n * self.batch, (n + 1) * self.batch)
                entry = tuple(int(i[n]) for i in self.index)
                before = data[entry]
                data[entry] = before + self.steps[n]
                try:
                    outputs.append(forward(*(of_copy(x, rows, size) for x in inputs),
                                           **{name: of_copy(x, rows, size) for name, x in named.items()}))
                finally:
                    data[entry] = before
            self.done = True
            return np.concatenate(outputs)

        return changed


def repeat(x, copies):
    return np.concatenate([x] * copies) if isinstance(x, np.ndarray) else x


def of_copy(x, rows, size):
    """Returns the rows of one copy of an array of all copies; anything else unchanged."""
    return x[rows] if isinstance(x, np.ndarray) and x.shape[:1] == (size,) else x
