"""Mistakes in optimizers and schedules, with correct gradients."""

import numpy as np

from ..layers import round_to
from ..training import Adam, AdamW, Muon, NoamSchedule
from ..training.muon import orthogonalize
from .bug import HOBBY, Source, bug


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


@bug("adamw-decays-norms", Source("bigscience-workshop/Megatron-DeepSpeed", reference="pull request 262"),
     symptom="The gains of norms and the biases shrink, too. There, the norm of the embeddings had come into the wrong group.",
     training="It is slightly slower: the gains of the norms stay smaller.",
     caught_by=("first step", "six steps, scalar reference"), samples=("AdamW, matrices only",))
class DecaysNorms(AdamW):
    """Parameters that were excluded from the weight decay are decayed"""

    def update(self, w, g, m, v, decays=True):
        super().update(w, g, m, v, True)                    # right: as `decays` says


@bug("muon-not-normalized",
     symptom="The iterations only work for singular values up to 1. Larger ones explode, and small ones stay small.",
     training="It is slower at first and ends where the correct model does: here no singular value is above 1, and the "
              "iterations enlarge small ones by up to 3.4445⁵ = 485 times.",
     caught_by=("orthogonal first step", "six steps, singular values"))
class NotNormalized(Muon):
    """The matrix is not divided by its norm before the Newton-Schulz iterations"""

    def update(self, w, g, v, d_in, d_out):
        v[:] = self.momentum * v + g
        X = (g + self.momentum * v).reshape(d_in, d_out)    # right: divided by its norm
        for _ in range(5):
            X = 3.4445 * X - 4.7750 * (X @ X.T) @ X + 2.0315 * (X @ X.T) @ (X @ X.T) @ X
        w *= 1 - self.lr * self.weight_decay
        w -= self.lr * max(1, d_out / d_in) ** 0.5 * X.ravel()


@bug("muon-eps-hides-small-gradients", Source("NVIDIA-NeMo/Emerging-Optimizers", reference="issue 229"),
     symptom="A gradient whose norm is below eps = 1e-7 gives a step that is far too small, and no error.",
     training="It ends where the correct model does, because the gradients of so small a model are larger.",
     caught_by=("orthogonal first step", "six steps, singular values"))
class EpsHidesSmallGradients(Muon):
    """The matrix is divided by 1e-7 instead of its norm if the norm is smaller"""

    def update(self, w, g, v, d_in, d_out):
        v[:] = self.momentum * v + g
        G = (g + self.momentum * v).reshape(d_in, d_out)
        norm = max(np.linalg.norm(G), 1e-7)                 # right: the norm, however small it is
        X = G / norm
        for _ in range(5):
            X = 3.4445 * X - 4.7750 * (X @ X.T) @ X + 2.0315 * (X @ X.T) @ (X @ X.T) @ X
        w *= 1 - self.lr * self.weight_decay
        w -= self.lr * max(1, d_out / d_in) ** 0.5 * X.ravel()


@bug("muon-scale-transposed",
     symptom="Wide matrices take steps that are too short, and tall ones steps that are too long.",
     training="It ends slightly above the correct model: here, only the two matrices of the feed-forward layers are not square.",
     caught_by=("orthogonal first step", "six steps, singular values"))
class ScaleTransposed(Muon):
    """The scale of the step is that of weights (d_out, d_in), as in PyTorch"""

    def update(self, w, g, v, d_in, d_out):
        v[:] = self.momentum * v + g
        direction = orthogonalize((g + self.momentum * v).reshape(d_in, d_out))
        w *= 1 - self.lr * self.weight_decay
        w -= self.lr * max(1, d_in / d_out) ** 0.5 * direction.ravel()      # right: d_out / d_in


@bug("noam-counts-tensors", HOBBY,
     symptom="Warmup is over after a few steps: 70 times too early for a model of 70 tensors.",
     training="It falls quickly at first and then slowly, because the learning rate has long passed its peak.",
     caught_by=("peak after warmup", "rates after the peak"))
class NoamCountsTensors(NoamSchedule):
    """The schedule takes one step per parameter tensor"""

    def step(self):
        for _ in self.optimizer.parameters:                 # right: one step
            super().step()
