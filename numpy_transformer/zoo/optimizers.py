"""Mistakes in optimizers and schedules, with correct gradients."""

import numpy as np

from ..layers import round_to
from ..training import Adam, AdamW, NoamSchedule
from .bug import HOBBY, bug


@bug("adam-one-beta", HOBBY,
     symptom="v is 100 times too large, so each step is 10 times too small.",
     training="It falls slowly, as if the learning rate were too small.",
     caught_by=("first step", "six steps, scalar reference"))
class OneBeta(Adam):
    """The second moment is updated with 1 - β1 instead of 1 - β2"""

    def update(self, w, g, m, v):
        beta1, beta2 = self.betas
        m[:] = beta1 * m + (1 - beta1) * g
        v[:] = beta2 * v + (1 - beta1) * g * g              # right: 1 - β2
        w -= self.lr * m / (1 - beta1 ** self.t) / (np.sqrt(v / (1 - beta2 ** self.t)) + self.eps)


@bug("adam-one-correction", HOBBY,
     symptom="The first step is 1.8 times as large as it should be. Later steps are correct.",
     training="It ends where the correct model does.",
     caught_by=("first step", "six steps, scalar reference"))
class OneCorrection(Adam):
    """Both moments are divided by sqrt(1 - βᵗ)"""

    def update(self, w, g, m, v):
        beta1, beta2 = self.betas
        m[:] = beta1 * m + (1 - beta1) * g
        v[:] = beta2 * v + (1 - beta2) * g * g
        m_hat, v_hat = m / np.sqrt(1 - beta1 ** self.t), v / np.sqrt(1 - beta2 ** self.t)       # right: no roots
        w -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


@bug("adam-counts-layers", HOBBY,
     symptom="The correction of the first step is applied forever: m̂ is always 10 times m, and v̂ 1000 times v.",
     training="It ends where the correct model does, because the mistake acts like another learning rate.",
     caught_by=("six steps, scalar reference",))
class CountsLayers(Adam):
    """t is the number of the layer, here 1, instead of the number of the step"""

    def step(self):
        self.t = 0                                          # right: it is not reset
        super().step()


@bug("adam-counts-tensors",
     symptom="The correction ends many times too early, so the first steps are too small.",
     training="It ends where the correct model does.",
     caught_by=("first step", "six steps, scalar reference"))
class CountsTensors(Adam):
    """t is increased once per parameter tensor instead of once per step"""

    def step(self):
        self.t += len(self.parameters) - 1                  # right: 1 per step
        super().step()


@bug("adam-weights-in-bfloat16",
     symptom="An update of less than 2^-9 of a weight is lost, because the sum is rounded to the old weight.",
     training="It ends where the correct model does, because the learning rate of the race is 0.01 and few updates are so "
              "small.",
     caught_by=("first step", "six steps, scalar reference"))
class WeightsInBfloat16(Adam):
    """The weights are kept in bfloat16, without a copy in float32 to which the updates are added"""

    def update(self, w, g, m, v):
        super().update(w, g, m, v)
        w[:] = round_to(w, "bfloat16")                      # right: w stays in float32


@bug("adamw-decay-in-the-gradient",
     symptom="Weights with large gradients hardly decay. This is Adam with an L2 penalty.",
     training="It stays near 2: where gradients are small, Adam sees only the decay.",
     caught_by=("first step", "six steps, scalar reference"))
class DecayInTheGradient(AdamW):
    """The decay is added to the gradient, where Adam divides it away again"""

    def update(self, w, g, m, v, decays=True):
        Adam.update(self, w, g + self.weight_decay * w if decays else g, m, v)  # right: w shrinks separately


@bug("noam-counts-tensors", HOBBY,
     symptom="Warmup is over after a few steps: 70 times too early for a model of 70 tensors.",
     training="It falls quickly at first and then slowly, because the learning rate has long passed its peak.",
     caught_by=("peak after warmup", "rates after the peak"))
class NoamCountsTensors(NoamSchedule):
    """The schedule takes one step per parameter tensor"""

    def step(self):
        for _ in self.optimizer.parameters:                 # right: one step
            super().step()
