"""Mistakes of the optimizer and its schedule: no gradient is wrong."""

import numpy as np

from ..training import Adam, AdamW, NoamSchedule
from .bug import bug


@bug("adam-one-beta", "a version of rziga/numpy-is-all-you-need",
     symptom="v is 100 times too large and each step 10 times too small, as if the learning rate were",
     training="falls slowly, as if the learning rate were too small",
     caught_by=("first step", "six steps, scalar reference"))
class OneBeta(Adam):
    """The second moment is fed with 1 - β1"""

    def update(self, w, g, m, v):
        beta1, beta2 = self.betas
        m[:] = beta1 * m + (1 - beta1) * g
        v[:] = beta2 * v + (1 - beta1) * g * g              # right: 1 - β2
        w -= self.lr * m / (1 - beta1 ** self.t) / (np.sqrt(v / (1 - beta2 ** self.t)) + self.eps)


@bug("adam-one-correction", "a version of ZouJiu1's NumPy Transformer",
     symptom="the first step has 1.8 times the size that it should have; later ones are right",
     training="ends where the right one does",
     caught_by=("first step", "six steps, scalar reference"))
class OneCorrection(Adam):
    """Both moments are divided by sqrt(1 - βᵗ)"""

    def update(self, w, g, m, v):
        beta1, beta2 = self.betas
        m[:] = beta1 * m + (1 - beta1) * g
        v[:] = beta2 * v + (1 - beta2) * g * g
        m_hat, v_hat = m / np.sqrt(1 - beta1 ** self.t), v / np.sqrt(1 - beta2 ** self.t)       # right: no roots
        w -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


@bug("adam-counts-layers", "a version of AkiRusProd/numpy-transformer",
     symptom="the correction of the first step stays for ever: m̂ is always 10 times m, v̂ 1000 times v",
     training="ends where the right one does: it acts as another learning rate",
     caught_by=("six steps, scalar reference",))
class CountsLayers(Adam):
    """t is the number of the layer, here 1, and not that of the step"""

    def step(self):
        self.t = 0                                          # right: it goes on counting
        super().step()


@bug("adam-counts-tensors",
     symptom="the correction ends many times too early: the first steps are too small",
     training="ends where the right one does",
     caught_by=("first step", "six steps, scalar reference"))
class CountsTensors(Adam):
    """t is raised once for each parameter tensor, not once for each step"""

    def step(self):
        self.t += len(self.parameters) - 1                  # right: 1 a step
        super().step()


@bug("adamw-decay-in-the-gradient",
     symptom="weights whose gradients are large hardly decay: that is Adam with an L2 penalty",
     training="stays near 2: where gradients are small, the decay is all that Adam sees",
     caught_by=("first step", "six steps, scalar reference"))
class DecayInTheGradient(AdamW):
    """The decay is added to the gradient, where Adam divides it away again"""

    def update(self, w, g, m, v, decays=True):
        Adam.update(self, w, g + self.weight_decay * w if decays else g, m, v)  # right: w shrinks by itself


@bug("noam-counts-tensors", "a version of AkiRusProd/numpy-transformer",
     symptom="the warm-up is over after a few steps, with a model of 70 tensors 70 times too early",
     training="falls quickly at first, and then slowly: the rate has passed its peak long ago",
     caught_by=("peak after warmup", "rates after the peak"))
class NoamCountsTensors(NoamSchedule):
    """The schedule takes a step for each parameter tensor"""

    def step(self):
        for _ in self.optimizer.parameters:                 # right: one step
            super().step()
