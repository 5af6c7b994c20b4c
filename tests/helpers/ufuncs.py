"""Records every ufunc call of a training step."""

import numpy as np


class Recorded(np.ndarray):
    """An array whose ufunc calls are recorded: (ufunc, method, arrays in, arrays out, whether `out` was given)."""

    calls = []

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **named):
        plain = [x.view(np.ndarray) if isinstance(x, Recorded) else x for x in inputs]
        if out is not None:
            named["out"] = tuple(x.view(np.ndarray) if isinstance(x, Recorded) else x for x in out)
        found = getattr(ufunc, method)(*plain, **named)
        if found is None:                       # at
            Recorded.calls.append((ufunc, method, plain, [], True))
            return None
        several = found if isinstance(found, tuple) else (found,)
        Recorded.calls.append((ufunc, method, plain, several, out is not None))
        several = out or tuple(x.view(Recorded) if isinstance(x, np.ndarray) else x for x in several)
        return several if isinstance(found, tuple) else several[0]

    def dot(self, *_, **__):
        raise AssertionError("ndarray.dot: on 3-D arrays it is no batched matmul, and slow")


def record(model, inputs, targets, criterion):
    """One forward, loss and backward: (every ufunc call that the weights took part in, saved arrays, loss)."""
    Recorded.calls = []
    for p in model.parameters():
        p.move(p.data.view(Recorded), p.grad.view(Recorded))
    model(*inputs)                              # tables and caches that are made once
    model.forget()
    Recorded.calls = []
    loss = criterion(model(*inputs), targets)
    saved = [x for _, module in model.named_modules() for values in vars(module).get("_saved", [])
             for x in values if isinstance(x, np.ndarray)]
    model.backward(criterion.backward())
    return Recorded.calls, saved, loss
