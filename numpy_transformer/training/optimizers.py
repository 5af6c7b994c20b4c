"""SGD, Adam and AdamW, and gradient clipping by the global norm."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..argument_checks import check_numbers
from ..module import Parameter, is_frozen
from ..parameter import LARGE
from ..threads import blocks, in_threads

BLOCK = 2 ** 17                                 # entries updated at a time; a block fits into the processor's cache
CLIPPED = 2 ** 20                               # entries that one thread clips at a time


class Optimizer:
    """Base class of all optimizers: it holds the parameters (a tied parameter once), and state of the same dtype.

    Frozen parameters are left out.

    The constructor moves all small parameters of the same dtype and kind into one flat buffer, and their gradients into
    another, so that a step is a few long passes over memory instead of many short ones. `.data`, `.grad` and state() are
    views of these buffers. Large parameters stay where they are, because a copy of them would take memory.
    """

    STATE: tuple[str, ...] = ()                                  # names of the arrays that a step needs from earlier steps

    def __init__(self, parameters: Iterable[Parameter], lr: float) -> None:
        check_numbers(lr=lr)
        self.parameters = list({id(parameter): parameter for parameter in parameters}.values())
        if not all(isinstance(parameter, Parameter) for parameter in self.parameters):
            raise TypeError("an optimizer takes Parameters; pass model.parameters()")
        if not self.parameters:
            raise ValueError("there are no parameters to optimize; pass model.parameters()")
        self.parameters = [parameter for parameter in self.parameters if not parameter.frozen]
        if not self.parameters:
            raise ValueError("all parameters are frozen, so there is nothing to optimize; nt.unfreeze some of them")
        if not lr >= 0:
            raise ValueError(f"lr = {lr} must not be negative; Adam is usually given 1e-4 to 1e-3")
        self.lr = lr
        self.t = 0                              # number of steps
        for parameter in self.parameters:
            parameter.held = True               # from now on, astype() is refused
        groups: dict[tuple, list[Parameter]] = {}
        for parameter in self.parameters:
            alone = id(parameter) if is_large(parameter) else None
            groups.setdefault((alone, parameter.data.dtype, *self.kind(parameter)), []).append(parameter)
        self.buffers = [(Buffer if alone is None else LargeParameter)(group, kind, len(self.STATE))
                        for (alone, _, *kind), group in groups.items()]
        self.parameters = [parameter for buffer in self.buffers for parameter in buffer.parameters]

    def kind(self, parameter: Parameter) -> tuple:
        """Arguments that `update` needs for this parameter in addition to its arrays."""
        return ()

    def state(self) -> dict[str, list[np.ndarray]]:
        """Returns {name: list with an array for each parameter}: views of the state that a step needs from earlier steps."""
        return {name: [view for buffer in self.buffers for view in buffer.views(buffer.state[n])]
                for n, name in enumerate(self.STATE)}

    def state_by_parameter(self) -> list[tuple[str, Parameter, np.ndarray]]:
        """Returns (name, parameter, array) for every array of state()."""
        return [(name, parameter, array) for name, arrays in self.state().items()
                for parameter, array in zip(self.parameters, arrays)]

    def __repr__(self):
        count = sum(parameter.data.size for parameter in self.parameters)
        return f"{type(self).__name__}(lr={self.lr:g}, {count:,} parameters, step {self.t:,})"

    def step(self) -> None:
        if any(parameter.frozen for parameter in self.parameters):
            raise ValueError("a parameter was frozen after the optimizer was made; make a new optimizer, which holds "
                             "those that are still trained")
        self.t += 1
        tasks = []
        for buffer in self.buffers:
            arrays = buffer.arrays()
            tasks += [(arrays, block, buffer.kind) for block in self.blocks(buffer)]
        in_threads(self.update_block, tasks)

    def blocks(self, buffer: "Buffer | LargeParameter") -> list[slice]:
        """Returns the slices of a buffer that are updated one at a time."""
        return blocks(sum(parameter.data.size for parameter in buffer.parameters), BLOCK)

    def update_block(self, task: tuple) -> None:
        arrays, block, kind = task
        self.update(*(array[block] for array in arrays), *kind)

    def update(self, *arrays: Any) -> None:
        """Updates a block of weights in place, given the weights, their gradients, their state and what `kind` returned."""
        raise NotImplementedError(f"{type(self).__name__} has no update yet")


def is_large(parameter):
    return parameter.data.size >= LARGE and parameter.data.flags.c_contiguous


class Buffer:
    """Parameters of one dtype and kind in one flat array, and likewise their gradients and state."""

    def __init__(self, parameters, kind, states):
        self.parameters, self.kind = parameters, kind
        self.gather()
        self.state = [np.zeros_like(self.data) for _ in range(states)]

    def gather(self):
        self.data = np.concatenate([parameter.data.ravel() for parameter in self.parameters])
        self.grad = np.zeros_like(self.data)
        for parameter, data, grad in zip(self.parameters, self.views(self.data), self.views(self.grad)):
            if parameter.has_grad:
                grad[...] = parameter.grad
            parameter.move(data, grad)

    def views(self, flat):
        """Returns each parameter's part of a flat array, in the shape of the parameter."""
        parts = np.split(flat, np.cumsum([p.data.size for p in self.parameters])[:-1])
        return [part.reshape(p.data.shape) for p, part in zip(self.parameters, parts)]

    def arrays(self):
        """Returns the flat arrays (data, grad, *state)."""
        if any(p.data.base is not self.data or p.grad.base is not self.grad for p in self.parameters):
            self.gather()                       # another optimizer has moved them, or they were copied
        return self.data, self.grad, *self.state


class LargeParameter:
    """A parameter that keeps its own arrays, in place of a Buffer."""

    def __init__(self, parameters, kind, states):
        self.parameters, self.kind = parameters, kind
        data = parameters[0].data
        self.state = [np.zeros(data.size, data.dtype) for _ in range(states)]

    def views(self, flat):
        return [flat.reshape(self.parameters[0].data.shape)]

    def arrays(self):
        parameter = self.parameters[0]
        return parameter.data.reshape(-1), parameter.grad.reshape(-1), *self.state


class SGD(Optimizer):
    """w -= lr v,   v = momentum v + dw.

    Parameters:
        parameters : model.parameters()
        lr : float, learning rate
        momentum : float in [0, 1)

    Source: Robbins and Monro 1951; momentum as in Sutskever et al. 2013, with lr outside v.
    """

    STATE = ("velocity",)

    def __init__(self, parameters: Iterable[Parameter], lr: float, momentum: float = 0.0) -> None:
        super().__init__(parameters, lr)
        check_numbers(momentum=momentum)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum = {momentum} must lie in [0, 1)")
        self.momentum = momentum

    def update(self, w: np.ndarray, g: np.ndarray, v: np.ndarray) -> None:
        v *= self.momentum
        v += g
        w -= self.lr * v


class Adam(Optimizer):
    """w -= lr m̂ / (sqrt(v̂) + eps),   m̂ = m / (1 - β1ᵗ),   v̂ = v / (1 - β2ᵗ).

    m and v are running means of dw and dw², and t counts the steps from 1.

    Parameters:
        parameters : model.parameters()
        lr : float, learning rate
        betas : (β1, β2); the Transformer paper uses (0.9, 0.98) with eps 1e-9
        eps : float, added outside the root

    Source: Kingma and Ba 2015, algorithm 1.
    """

    STATE = ("m", "v")

    @property
    def m(self) -> list[np.ndarray]:
        """For each parameter the mean of its gradients."""
        return self.state()["m"]

    @property
    def v(self) -> list[np.ndarray]:
        """For each parameter the mean of its squared gradients."""
        return self.state()["v"]

    def __init__(self, parameters: Iterable[Parameter], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8) -> None:
        super().__init__(parameters, lr)
        beta1, beta2 = betas
        check_numbers(beta1=beta1, beta2=beta2, eps=eps)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas = {betas} must lie in [0, 1)")
        self.betas, self.eps = betas, eps

    def update(self, w: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray) -> None:
        beta1, beta2 = self.betas
        change = (1 - beta1) * g
        m *= beta1
        m += change
        np.multiply(g, g, out=change)
        change *= 1 - beta2
        v *= beta2
        v += change
        root = math.sqrt(1 - beta2 ** self.t)   # sqrt(v̂) + eps = (sqrt(v) + eps root) / root
        np.sqrt(v, out=change)
        change += self.eps * root
        np.divide(m, change, out=change)
        change *= self.lr * root / (1 - beta1 ** self.t)
        w -= change


class AdamW(Adam):
    """Adam with decoupled weight decay: w -= lr weight_decay w, in addition to Adam's step.

    Parameters:
        parameters, lr, betas, eps : as Adam
        weight_decay : float
        decay : the parameters that decay: a list, or a function that returns True for a parameter that decays, such as
            `lambda p: p.data.ndim >= 2`; None: all parameters

    Source: Loshchilov and Hutter 2019, algorithm 2; as in PyTorch, the decay is multiplied by lr.
    """

    def __init__(self, parameters: Iterable[Parameter], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.01,
                 decay: Callable[[Parameter], bool] | Iterable[Parameter] | None = None) -> None:
        self.decay = decay if decay is None or callable(decay) else list(decay)
        super().__init__(parameters, lr, betas, eps)
        check_numbers(weight_decay=weight_decay)
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay = {weight_decay} must not be negative; 0.01 to 0.1 is usual")
        chosen = [parameter for buffer in self.buffers if True in buffer.kind for parameter in buffer.parameters]
        if isinstance(self.decay, list) and not {id(p) for p in self.decay if not p.frozen} <= {id(p) for p in chosen}:
            raise ValueError("decay contains parameters that the optimizer does not hold; choose among its own")
        self.weight_decay, self.decay = weight_decay, chosen

    def kind(self, parameter: Parameter) -> tuple[bool]:
        if isinstance(self.decay, list):
            return (any(parameter is one for one in self.decay),)
        return (self.decay is None or bool(self.decay(parameter)),)

    def update(self, w: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, decays: bool = True) -> None:
        if decays:
            w *= 1 - self.lr * self.weight_decay
        super().update(w, g, m, v)


def clip_grad_norm(parameters: Iterable[Parameter], max_norm: float) -> float:
    """Scales all gradients by one factor so that their joint L2 norm is at most max_norm; returns the norm before.

    Frozen parameters have no gradient and do not count.
    If the norm is not finite, nothing is scaled, because the gradients have no direction then.
    Source: Pascanu, Mikolov and Bengio 2013, algorithm 1.
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm = {max_norm} must be above 0; 1.0 is usual")
    gradients = [parameter.grad for parameter in {id(p): p for p in parameters if not is_frozen(p)}.values()]
    parts = [part for gradient in gradients for part in gradient_views(gradient)]
    count = None if len(parts) > len(gradients) else 1      # threads are not worthwhile for small gradients alone
    norm = math.sqrt(sum(in_threads(lambda g: float(np.vdot(g, g)), parts, count)))
    if norm == math.inf:                        # the squares may have overflowed in float32
        norm = math.sqrt(sum(float(np.square(g, dtype=np.float64).sum()) for g in parts))
    if max_norm < norm < math.inf:
        in_threads(lambda g: np.multiply(g, max_norm / norm, out=g), parts, count)
    return norm


def gradient_views(gradient):
    """Returns views of a gradient, of at most CLIPPED entries where its memory allows that."""
    if gradient.size <= CLIPPED or not gradient.flags.c_contiguous:
        return [gradient]
    flat = gradient.reshape(-1)
    return [flat[block] for block in blocks(len(flat), CLIPPED)]
