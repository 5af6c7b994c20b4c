"""SGD, Adam, AdamW, and clipping by the global norm."""

import math

import numpy as np

from ..module import Parameter


class Optimizer:
    """Holds the parameters, each once even where it is tied, and their state in the parameters' dtype."""

    def __init__(self, parameters, lr):
        self.parameters = list({id(parameter): parameter for parameter in parameters}.values())
        if not all(isinstance(parameter, Parameter) for parameter in self.parameters):
            raise TypeError("an optimizer takes Parameters; pass model.parameters()")
        if not self.parameters:
            raise ValueError("there are no parameters to optimise; pass model.parameters()")
        if not lr >= 0:
            raise ValueError(f"lr = {lr} must not be negative; Adam is usually given 1e-4 to 1e-3")
        self.lr, self.t = lr, 0                 # t: calls of step
        for parameter in self.parameters:
            parameter.held = True               # their dtype must not change any more

    def zeros(self):
        return [np.zeros_like(parameter.data) for parameter in self.parameters]

    def state(self):
        """{name: an array for each parameter}, the live ones: what a step needs from the steps before it."""
        return {}


class SGD(Optimizer):
    """w -= lr v,   v = momentum v + dw.

    Parameters:
        parameters : model.parameters()
        lr : float
        momentum : float in [0, 1)

    Source: Robbins and Monro 1951; momentum as in Sutskever et al. 2013, with lr outside v.
    """

    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters, lr)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum = {momentum} must lie in [0, 1)")
        self.momentum, self.velocities = momentum, self.zeros()

    def state(self):
        return {"velocity": self.velocities}

    def step(self):
        self.t += 1
        for parameter, v in zip(self.parameters, self.velocities):
            v *= self.momentum
            v += parameter.grad
            parameter.data -= self.lr * v


class Adam(Optimizer):
    """w -= lr m̂ / (sqrt(v̂) + eps),   m̂ = m / (1 - β1ᵗ),   v̂ = v / (1 - β2ᵗ).

    m and v are running means of dw and dw²; t counts the steps from 1.

    Parameters:
        parameters : model.parameters()
        lr : float
        betas : (β1, β2); the Transformer paper uses (0.9, 0.98) with eps 1e-9
        eps : float, outside the root

    Source: Kingma and Ba 2015, algorithm 1.
    """

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters, lr)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas = {betas} must lie in [0, 1)")
        self.betas, self.eps = betas, eps
        self.m, self.v = self.zeros(), self.zeros()

    def state(self):
        return {"m": self.m, "v": self.v}

    def step(self):
        self.t += 1
        beta1, beta2 = self.betas
        for parameter, m, v in zip(self.parameters, self.m, self.v):
            g = parameter.grad
            m *= beta1
            m += (1 - beta1) * g
            v *= beta2
            v += (1 - beta2) * (g * g)
            denominator = np.sqrt(v)
            denominator /= math.sqrt(1 - beta2 ** self.t)
            denominator += self.eps
            np.divide(m, denominator, out=denominator)
            denominator *= self.lr / (1 - beta1 ** self.t)
            parameter.data -= denominator


class AdamW(Adam):
    """Adam with decoupled weight decay: w -= lr weight_decay w, beside Adam's own step.

    Parameters:
        parameters, lr, betas, eps : as Adam
        weight_decay : float
        decay : which parameters decay: a list of them, or a function of a parameter that says so, such as
            `lambda p: p.data.ndim >= 2`; None: all

    Source: Loshchilov and Hutter 2019, algorithm 2; the decay is scaled by lr, as in PyTorch.
    """

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, decay=None):
        super().__init__(parameters, lr, betas, eps)
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay = {weight_decay} must not be negative; 0.01 to 0.1 is usual")
        self.weight_decay = weight_decay
        if decay is None:
            self.decay = self.parameters
        elif callable(decay):
            self.decay = [parameter for parameter in self.parameters if decay(parameter)]
        else:
            chosen = {id(parameter) for parameter in decay}
            if not chosen <= {id(parameter) for parameter in self.parameters}:
                raise ValueError("decay names parameters that the optimizer does not hold; choose among its own")
            self.decay = [parameter for parameter in self.parameters if id(parameter) in chosen]

    def step(self):
        for parameter in self.decay:
            parameter.data *= 1 - self.lr * self.weight_decay
        super().step()


def clip_grad_norm(parameters, max_norm):
    """Scale all gradients together so that their joint L2 norm is at most max_norm; the norm before.

    Where the norm is not finite nothing is scaled: there is no direction left to keep.
    Source: Pascanu, Mikolov and Bengio 2013, algorithm 1.
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm = {max_norm} must be above 0; 1.0 is usual")
    gradients = [parameter.grad for parameter in {id(p): p for p in parameters}.values()]
    norm = math.sqrt(sum(float(np.vdot(g, g)) for g in gradients))
    if norm == math.inf:                        # perhaps only the squares are too large for float32
        norm = math.sqrt(sum(float(np.square(g, dtype=np.float64).sum()) for g in gradients))
    if max_norm < norm < math.inf:
        for g in gradients:
            g *= max_norm / norm
    return norm
