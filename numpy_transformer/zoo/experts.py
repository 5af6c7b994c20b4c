"""Mistakes in mixtures of experts: gates, what is added up, and the loss for balance."""

import numpy as np

from ..layers import BalancedRouter, MixtureOfExperts, SigmoidRouter, tokens_per_expert
from ..layers.fast import rows
from ..layers.routers import sigmoid
from .bug import Source, bug


@bug("gates-with-the-correction",
     Source("vllm-project/vllm", path="vllm/model_executor/layers/fused_moe/fused_moe.py", place="grouped_topk",
            reference="issue 11971, fixed by pull request 12002"),
     symptom="A trained model, whose corrections are not 0, gives other outputs. Forward and backward agree with each other.",
     training="The losses are exactly the same, because the correction is 0 where nothing moves it.",
     caught_by=("router reference",))
class GatesWithCorrection(SigmoidRouter):
    """The correction, which is meant for the choice alone, is in the gates as well"""

    def forward(self, x):
        s = sigmoid(self.linear(x))
        corrected = s + self.correction.data
        kept = self.choose(self.within_groups(corrected.real))
        total = (corrected * kept).sum(-1, keepdims=True)
        g = self.factor * corrected * kept / total          # right: of s alone
        self.remember(s, kept, total, g)
        return g


@bug("gates-not-divided",
     Source("pytorch/torchtitan", place="TokenChoiceTopKRouter", reference="issue 1448"),
     symptom="The gates of a token do not sum to the factor. Weights of a published model give other outputs.",
     training="It ends where the correct model does, because the experts learn other sizes.",
     caught_by=("router reference",))
class GatesNotDivided(SigmoidRouter):
    """The scores of the chosen experts are not divided by their sum"""

    def forward(self, x):
        s = sigmoid(self.linear(x))
        kept = self.choose(self.within_groups(s.real + self.correction.data.real))
        self.remember(s, kept)
        return self.factor * s * kept                       # right: divided by the sum of s * kept

    def backward(self, dg):
        s, kept = self.recall()
        return self.linear.backward(self.factor * dg * kept * s * (1 - s))


@bug("experts-added-at-once",
     symptom="Of a token's experts only the last one counts. Backward goes through all of them.",
     training="It falls, and ends above the correct model.",
     caught_by=("gradient check", "mixture of experts reference"))
class AddedAtOnce(MixtureOfExperts):
    """The outputs of all experts are added with y[tokens] += ..., which keeps one addition for each token"""

    def forward(self, x):
        shape, x = x.shape, rows(x)
        g = self.router(x)
        tokens_of = self.dispatch(self.router.chosen)
        outputs = [self.experts[e](x[tokens]) if tokens.size else None for e, tokens in enumerate(tokens_of)]
        y = np.zeros_like(x, dtype=g.dtype) if self.shared is None else self.shared(x).copy()
        weighted = [g[tokens, e, None] * outputs[e] for e, tokens in enumerate(tokens_of) if tokens.size]
        y[np.concatenate(tokens_of)] += np.concatenate(weighted)        # right: expert by expert, or np.add.at
        self.remember(g, tokens_of, outputs)
        return y.reshape(shape)


@bug("balancing-loss-of-the-gates",
     Source("AI-Hypercomputer/maxtext", path="MaxText/layers/linears.py", place="dense_matmul", reference="issue 1432"),
     symptom="An expert that no token chooses gets no gradient from the loss that should bring it back.",
     training="It ends where the correct model does, because the experts of a model this small stay in use.",
     caught_by=("balancing loss reference",))
class LossOfTheGates(BalancedRouter):
    """P is the mean of the gates, which are 0 for experts that were not chosen"""

    def forward(self, x):
        g = self.router(x)
        p = self.router(x)                                  # right: the softmax of all logits
        f = tokens_per_expert(self.router) / self.chosen.size
        dP = (self.coefficient * self.num_experts * f).astype(p.real.dtype)
        self.auxiliary_loss = dP @ p.mean(0)
        self.remember(np.broadcast_to(dP / len(x), p.shape))
        return g

    def backward(self, dg):
        dx = self.router.backward(self.recall())
        return dx + self.router.backward(dg)


@bug("balancing-loss-with-two-softmaxes",
     Source("huggingface/transformers", path="src/transformers/models/dbrx/modeling_dbrx.py", place="load_balancing_loss_func",
            reference="issue 39055"),
     symptom="All probabilities are nearly equal, so the loss hardly depends on the router, and balances little.",
     training="It ends where the correct model does, because the experts of a model this small stay in use.",
     caught_by=("balancing loss reference",))
class TwoSoftmaxes(BalancedRouter):
    """The loss takes probabilities for logits, so P is the mean of a softmax of a softmax"""

    def forward(self, x):
        g = self.router(x)
        p = self.softmax(self.softmax(self.router.linear(x)))           # right: one softmax
        f = tokens_per_expert(self.router) / self.chosen.size
        dP = (self.coefficient * self.num_experts * f).astype(p.real.dtype)
        self.auxiliary_loss = dP @ p.mean(0)
        self.remember(np.broadcast_to(dP / len(x), p.shape))
        return g

    def backward(self, dg):
        dlogits = self.softmax.backward(self.softmax.backward(self.recall()))
        return self.router.linear.backward(dlogits) + self.router.backward(dg)
