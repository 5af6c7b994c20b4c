"""Stage 9, with a model, a loss and an optimizer that only show what the loop does."""

import numpy as np

from ..program.stage09_training import AdamW, clip_gradients, learning_rate, train


class Slot:
    """A parameter in the eyes of an optimizer."""

    def __init__(self, data, grad):
        self.data, self.grad = data, grad


def adamw_step(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
    other = Slot(np.ones(2, w.dtype), np.ones(2, w.dtype))     # comes before it in the same step
    optimizer = AdamW([other, Slot(w.copy(), g.copy())], lr, (beta1, beta2), eps, weight_decay)
    optimizer.m[1], optimizer.v[1], optimizer.t = m.copy(), v.copy(), t - 1
    optimizer.step()
    return optimizer.parameters[1].data, optimizer.m[1], optimizer.v[1]


def clipped(gradients, max_norm):
    slots = [Slot(np.zeros_like(g), g.copy()) for g in gradients]
    clip_gradients(slots, max_norm)
    return tuple(slot.grad for slot in slots)


def rate(step, d_model, warmup):
    return learning_rate(step, d_model, warmup)


class LinearModel:
    """y = x w: a model with one parameter, to see what the loop does with it."""

    def __init__(self, w):
        self.slot, self.saved = Slot(w, np.full_like(w, 7.0)), []

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        self.saved.append(x)
        return x @ self.slot.data

    def backward(self, dy):
        self.slot.grad = self.slot.grad + self.saved.pop().T @ dy


class SquaredLoss:
    """The mean of (y - t)^2 / 2."""

    def __call__(self, y, t):
        return self.forward(y, t)

    def forward(self, y, t):
        self.difference = y - t
        return (self.difference ** 2).mean() / 2

    def backward(self):
        return self.difference / self.difference.size


class PlainSteps:
    """An optimizer that only subtracts lr times the gradient."""

    def __init__(self, parameters):
        self.parameters, self.lr, self.rates = parameters, 5.0, []

    def step(self):
        self.rates.append(self.lr)
        for parameter in self.parameters:
            parameter.data = parameter.data - self.lr * parameter.grad


def float32_training(w, xs, targets):
    """Returns the bytes of a number of the weights after some steps, all of whose arrays are float32."""
    model = LinearModel(np.array(w, np.float32))
    optimizer = AdamW([model.slot])
    batches = [(np.array(x, np.float32), np.array(target, np.float32)) for x, target in zip(xs, targets)]
    train(model, SquaredLoss(), optimizer, batches, lambda n: learning_rate(n, 8, 4))
    return np.array(model.slot.data.dtype.itemsize)


def training_loop(w, xs, targets, rates, max_norm):
    model = LinearModel(w.copy())
    optimizer = PlainSteps([model.slot])
    losses = train(model, SquaredLoss(), optimizer, list(zip(xs, targets)), lambda n: rates[n - 1], max_norm)
    kind = w.dtype
    return np.array(losses, kind), model.slot.data, np.array(optimizer.rates, kind)
