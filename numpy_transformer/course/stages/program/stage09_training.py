"""Stage 9: AdamW, clipping, the learning rate, and the training loop."""

import math

import numpy as np


class AdamW:
    """Adam with decoupled weight decay.

    m and v are running means of g and g^2; with the step t from 1 on, m / (1 - b1^t) and v / (1 - b2^t) are unbiased, and
    data -= lr weight_decay data,   data -= lr m_hat / (sqrt(v_hat) + eps).

    Parameters: parameters : list of Parameter; lr; betas : (b1, b2); eps; weight_decay
    """

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.parameters = list(parameters)
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.m = [np.zeros_like(parameter.data) for parameter in self.parameters]
        self.v = [np.zeros_like(parameter.data) for parameter in self.parameters]
        self.t = 0

    def step(self):
        """Changes the data of every parameter in place, from its grad. Does not change the gradients."""
        self.t += 1
        b1, b2 = self.betas
        for parameter, m, v in zip(self.parameters, self.m, self.v):
            m += (1 - b1) * (parameter.grad - m)
            v += (1 - b2) * (parameter.grad ** 2 - v)
            m_hat, v_hat = m / (1 - b1 ** self.t), v / (1 - b2 ** self.t)
            parameter.data -= self.lr * (self.weight_decay * parameter.data + m_hat / (np.sqrt(v_hat) + self.eps))


def clip_gradients(parameters, max_norm):
    """Scales all gradients by one factor, in place, if their joint norm is above max_norm."""
    norm = math.sqrt(sum((parameter.grad ** 2).sum() for parameter in parameters))
    if norm > max_norm:
        for parameter in parameters:
            parameter.grad *= max_norm / norm


def learning_rate(n, d_model, warmup):
    """The rate of step n, from 1 on: d_model^-0.5 min(n^-0.5, n warmup^-1.5)."""
    return d_model ** -0.5 * min(n ** -0.5, n * warmup ** -1.5)


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    """One step for each batch (inputs..., targets): zero the gradients, forward, backward, clip, set lr, step.

    Parameters: model, loss : Modules; optimizer : AdamW; batches : list of tuples of arrays, whose last one is the targets;
        rate : function of n, the number of the step from 1 on
    Returns: the list of the losses, each of before its step
    """
    losses = []
    for n, (*inputs, targets) in enumerate(batches, 1):
        for parameter in optimizer.parameters:
            parameter.grad[...] = 0
        losses.append(loss(model(*inputs), targets))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses
