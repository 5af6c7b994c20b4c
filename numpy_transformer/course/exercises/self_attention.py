"""Self-attention as a class: several heads, with a mask, forward and backward."""

import math
from types import SimpleNamespace

import numpy as np

from ... import layers
from .definition import Exercise, Mistake
from .given import CLEARED, Parameter, loaded
from .heads import THREE_WAYS, merge_heads, split_heads
from .linear import Linear
from .softmax import softmax, softmax_backward


class SelfAttention:
    """Multi-head self-attention, a layer that can be used several times before its first backward pass.

    With q, k, v the heads of query(x), key(x), value(x), the weights are p = softmax(q kᵀ / sqrt(d)) over the visible
    keys, and y = output(merged heads of p v). Each backward pass belongs to the latest forward pass that has not had
    one yet. For float32 arguments, y and dx are float32: math.sqrt(d) keeps it, while np.sqrt(d) would convert it to
    float64.
    """

    def __init__(self, num_heads, query, key, value, output):
        """num_heads: int, H.  query, key, value, output: weight (D, D) and bias (D,) of each Linear; d = D / H."""
        self.num_heads = num_heads
        self.query = Linear(*query)
        self.key = Linear(*key)
        self.value = Linear(*value)
        self.output = Linear(*output)
        self.saved = []                         # values that forward saves for backward, the latest last

    def forward(self, x, mask):
        """x: (..., T, D).  mask: (T, T), boolean, True = may attend, in no row all False.  Return y: (..., T, D)."""
        q, k, v = (split_heads(part.forward(x), self.num_heads) for part in (self.query, self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        p = softmax(np.where(mask, scores, -np.inf))
        self.saved.append((q, k, v, p))
        return self.output.forward(merge_heads(p @ v))

    def backward(self, dy):
        """dy: (..., T, D), dL/dy.  Return dx: (..., T, D); the Linears add into their weight.grad and bias.grad."""
        q, k, v, p = self.saved.pop()
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dv = p.mT @ dheads
        dp = dheads @ v.mT
        ds = softmax_backward(p, dp) / math.sqrt(k.shape[-1])
        dq, dk = ds @ k, ds.mT @ q
        dx = self.query.backward(merge_heads(dq))
        dx = dx + self.key.backward(merge_heads(dk))
        dx = dx + self.value.backward(merge_heads(dv))
        return dx


def draw_twice(rng, n):
    """Three uses with different lengths and masks, and backward for the latest one each time.

    The third forward follows a backward, whose gradients it must leave as they are.
    """
    def normal(length):
        return rng.standard_normal((*n.lead[:-1], length, n.D))
    T, S = n.lead[-1], n.S
    linears = tuple((rng.standard_normal((n.D, n.D)) / math.sqrt(n.D), rng.standard_normal(n.D)) for _ in range(4))
    return (n.H, *linears), (("forward", (normal(T), np.tri(T, dtype=bool))),
                             ("forward", (normal(S), (rng.random((S, S)) < 0.5) | np.eye(S, dtype=bool))),
                             ("backward", (normal(S),)), ("forward", (normal(T), np.tri(T, dtype=bool))),
                             ("backward", (normal(T),)), ("backward", (normal(T),)))


def tiny(rng):
    return [("three tokens", draw_twice(rng, SimpleNamespace(lead=(3,), S=3, D=4, H=2)))]


def by_package(num_heads, *linears):
    layer = layers.SelfAttention(len(linears[0][0]), num_heads)
    return loaded(layer, {f"{name}.{part}": array for name, arrays in zip(("query", "key", "value", "output"), linears)
                          for part, array in zip(("weight", "bias"), arrays)})


SPLIT = "split_heads(part.forward(x), self.num_heads)"
HIDDEN = "np.where(mask, scores, -np.inf)"
BACK = "split_heads(self.output.backward(dy), self.num_heads)"

EXERCISES = [
    Exercise(
        "07.6", "Self-attention, a class", minutes=45, lines=15,
        solution=SelfAttention, write=("forward", "backward"), inputs=draw_twice, edges=tiny, reference=by_package,
        given=(Parameter, Linear, softmax, softmax_backward, split_heads, merge_heads),
        outputs=("y", "second y", "second dx", "third y", "third dx", "dx", "query.weight.grad", "query.bias.grad",
                 "key.weight.grad", "value.weight.grad", "value.bias.grad", "output.weight.grad", "output.bias.grad"),
        hints=("Write forward as lines that each do one thing. backward has one line for each of them, from the last "
               "to the first. Which values must forward save for it?",
               "Forward: three Linears and their heads, the scores, -inf for hidden ones, softmax, the weighted mean "
               "of the values, merging, output. Backward: output, splitting, the lines of attention_backward (exercise "
               "05.2), and for each of dq, dk, dv merging and the Linear's backward.",
               "forward appends q, k, v and p, and backward pops them. dv = pᵀ dheads, ds = softmax_backward(p, dheads "
               "vᵀ) / sqrt(d), dq = ds k, dk = dsᵀ q. dx is the sum of what the backward of the three Linears "
               "returns."),
        mistakes=(
            Mistake("ATF-1", {"k.mT / math.sqrt(q.shape[-1])": "k.mT"},
                    "Your forward does not divide the scores by sqrt(d), so their variance grows with d."),
            Mistake("ATF-2", {"q.shape[-1]": "x.shape[-1]", "k.shape[-1]": "dy.shape[-1]"},
                    "You divide the scores by sqrt(D), where D is the width of all heads together. A score is a sum "
                    "over the d features of one head."),
            Mistake("LIN-7c", {"self.saved.append((q, k, v, p))":
                               "for part in (self.query, self.key, self.value, self.output):\n"
                               "            part.weight.grad[:] = 0\n            part.bias.grad[:] = 0\n"
                               "        self.saved.append((q, k, v, p))"}, CLEARED),
            Mistake("ATB-1", {" / math.sqrt(k.shape[-1])": ""},
                    "The factor 1 / sqrt(d) is missing in your backward. The scores contain it, so the "
                    "gradients of the queries and keys contain it too."),
            Mistake("ATB-3", {"p.mT @ dheads": "p @ dheads"},
                    "You do not transpose p in the gradient of the values. Value s contributed to all queries, with "
                    "the weights of column s."),
            Mistake("ATB-4", {"ds.mT @ q": "ds @ q"},
                    "Key s occurs in column s of the scores, so its gradient is a sum over queries. Yours is a sum "
                    "over keys."),
            Mistake("ATB-5", {"ds @ k, ds.mT @ q": "ds @ q, ds.mT @ k"},
                    "You compute the gradient of the queries from the queries, and that of the keys from the keys. The "
                    "gradient of one factor of a product contains the other factor."),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"},
                    "Your backward leaves out softmax. dp is the gradient of the weights, not of the scores."),
            Mistake("ATB-8", {"softmax_backward(p, dp)": "p * (1 - p) * dp"},
                    "This is the derivative of the sigmoid. Each weight depends on all scores of its row, not only on "
                    "its own."),
            Mistake("MSK-1", {HIDDEN: "scores"},
                    "Your code does not use the mask, so hidden tokens are seen, including future ones."),
            Mistake("MSK-3", {"(mask, scores, -np.inf)": "(mask, -np.inf, scores)"},
                    "You have swapped True and False. True means that a token may attend. With a causal mask, your "
                    "last token has no visible token at all."),
            Mistake("MSK-7", {HIDDEN: "scores * mask"},
                    "You set a hidden score to 0, but exp(0) = 1, so the key keeps a weight. Only a score of -inf has "
                    "weight 0."),
            Mistake("HD-1", {SPLIT: "part.forward(x).reshape(*x.shape[:-2], self.num_heads, x.shape[-2], -1)",
                             BACK: "self.output.backward(dy).reshape(q.shape)",
                             "merge_heads(p @ v)": "(p @ v).reshape(x.shape)",
                             "merge_heads(dq)": "dq.reshape(dy.shape)", "merge_heads(dk)": "dk.reshape(dy.shape)",
                             "merge_heads(dv)": "dv.reshape(dy.shape)"},
                    "You split and merge the heads with one reshape each, so a head gets all features of a few tokens "
                    "instead of its features of every token. The gradients are consistent with this forward, so no "
                    "gradient check finds the mistake."),
            Mistake("HD-3", {"merge_heads(p @ v)": "(p @ v).reshape(x.shape)"},
                    "Your forward merges the heads with a reshape only. The shape is right, but the tokens are mixed "
                    "up."),
            Mistake("HD-5a", {"dx = dx + self.key.": "self.key.", "dx = dx + self.value.": "self.value."},
                    f"Your dx contains only the term of the queries. {THREE_WAYS}"),
            Mistake("HD-5b", {"dx = dx + self.value.": "dx = self.value."},
                    "Your dx contains only the term of the values: the other two are overwritten or not used. "
                    f"{THREE_WAYS}"),
            Mistake("HD-5c", {"dx = dx + self.value.": "self.value."},
                    f"Your dx lacks the term of the values. {THREE_WAYS}"),
            Mistake("HD-5d", {"dx = dx + self.key.": "self.key."}, f"Your dx lacks the term of the keys. {THREE_WAYS}"),
            Mistake("HD-5e", {"dx = dx + self.key.": "dx = self.key."},
                    f"Your dx lacks the term of the queries. {THREE_WAYS}"),
            Mistake("HD-10", {"self.saved.append((q, k, v, p))": "self.saved = [(q, k, v, p)]",
                              "self.saved.pop()": "self.saved[-1]"},
                    "Your backward passes use the arrays of the latest forward pass. Either your layer has room for "
                    "one set only, or backward never removes it. Append to a list in forward and pop in backward."),
            Mistake("HD-13", {BACK: "split_heads(dy, self.num_heads)"},
                    "Your backward leaves out the output layer. dy must first pass through the backward of output, "
                    "which also computes the gradients of its weight and bias."),
            Mistake("HD-12", {"self.saved.pop()": "self.saved.pop(0)"},
                    "Your backward uses the values of the oldest forward pass. It belongs to the latest one that has "
                    "not had a backward pass yet: last in, first out."),
            Mistake("MSK-2", {f"softmax({HIDDEN})": "softmax(scores) * mask"},
                    "You multiply the finished weights by the mask, so the rows sum to less than 1. Hide the scores "
                    "before softmax instead."),
            Mistake("MSK-4", {HIDDEN: "np.where(mask.T, scores, -np.inf)"},
                    "You transpose the mask. Its rows are queries and its columns keys, as in the scores."),
            Mistake("MSK-8", {HIDDEN: "np.where(mask, scores, -1.0)"},
                    "You set hidden scores to -1. exp(-1) is not 0, so the keys keep a weight. Only a score of -inf "
                    "has weight 0."),
            Mistake("MSK-15", {HIDDEN: "np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)"},
                    "You always hide the later tokens. The argument mask says which keys are visible."),
            Mistake("HD-27", {
                    SPLIT: "split_heads(part.forward(x), 1)", BACK: "split_heads(self.output.backward(dy), 1)"},
                    "Your layer has a single head, of width D. The features must be split among num_heads heads, "
                    "each with weights of its own."),
            Mistake("HD-1b", {SPLIT: "part.forward(x).reshape(*x.shape[:-2], self.num_heads, x.shape[-2], -1)"},
                    "You split the heads with a reshape only, so a head gets all features of a few tokens instead of "
                    "its features of every token."),
            Mistake("HD-3b", {
                    "merge_heads(dq)": "dq.reshape(dy.shape)", "merge_heads(dk)": "dk.reshape(dy.shape)",
                    "merge_heads(dv)": "dv.reshape(dy.shape)"},
                    "Your backward merges the heads with a reshape only. The shape is right, but the tokens are "
                    "mixed up."),
            Mistake("ATF-2b", {
                    "k.mT / math.sqrt(q.shape[-1])": "k.mT / q.shape[-1]",
                    " / math.sqrt(k.shape[-1])": " / k.shape[-1]"},
                    "You divide the scores by d instead of its square root. They become too small, and the weights "
                    "too uniform."),
            Mistake("ATF-2c", {"q.shape[-1]": "q.shape[-2]", "k.shape[-1]": "k.shape[-2]"},
                    "You divide by the square root of the number of tokens. A score is a sum of d products, so its "
                    "size depends on d."),
            Mistake("ATF-2d", {"q.shape[-1]": "self.num_heads", "k.shape[-1]": "self.num_heads"},
                    "You divide by the square root of the number of heads. A score is a sum of d products, and d = D "
                    "/ H."),
            Mistake("ATF-4", {f"softmax({HIDDEN})": f"softmax({HIDDEN}.mT).mT"},
                    "Your softmax normalizes over the queries. Each query must distribute its weight over the keys."),
            Mistake("ATF-5", {"merge_heads(p @ v)": "merge_heads(p.mT @ v)"},
                    "You transpose the weights in the weighted mean, but row t of them already belongs to query t. T "
                    "tokens attend to T tokens, so this causes no error."),
            Mistake("ATB-8a", {"softmax_backward(p, dp)": "p * dp"},
                    "Each weight depends on all scores of its row, so the sum over the row is missing. The given "
                    "softmax_backward contains it."),
            Mistake("ATB-12", {"softmax_backward(p, dp)": "softmax_backward(dp, p)"},
                    "You have swapped the arguments of softmax_backward. The weights come first, then their "
                    "gradient."),
            Mistake("ATB-6", {"dq, dk = ds @ k, ds.mT @ q": "dk, dq = ds @ k, ds.mT @ q"},
                    "You have swapped the gradients of the queries and the keys."),
            Mistake("ATB-18", {"self.saved.append((q, k, v, p))": "self.saved.append((q, k, v, scores))"},
                    "Your backward computes with the scores. Save the weights, which are the output of softmax."),
            Mistake("HD-5f", {"        return dx\n": "        return dx / 3\n"},
                    "Your dx is the mean of three gradients. x is used three times, for the queries, the keys and "
                    "the values, so its gradient is the sum of three terms."),
            Mistake("HD-28", {"self.query, self.key, self.value))": "self.query, self.value, self.key))"},
                    "Your forward has exchanged the projections of the keys and the values."),
            Mistake("HD-29", {
                    "self.output.forward(merge_heads(p @ v))": "merge_heads(p @ v)",
                    BACK: "split_heads(dy, self.num_heads)"},
                    "Your layer leaves out the output projection. It mixes the features of the heads, which merging "
                    "only puts side by side."),
            Mistake("HD-30", {
                    "self.output.forward(merge_heads(p @ v))": "x + self.output.forward(merge_heads(p @ v))",
                    "        return dx\n": "        return dx + dy\n"},
                    "You add x to the output. The residual connection is around the attention layer, not in it."),
            Mistake("ATF-6", {"k.mT": "k.T"},
                    ".T reverses all axes, including the batch and the heads. Swap the last two axes instead."),
        ),
        alternatives={"einsum": {"p.mT @ dheads": 'np.einsum("...ts,...td->...sd", p, dheads)'},
                      "scaled queries": {"q @ k.mT / math.sqrt(q.shape[-1])": "(q / math.sqrt(q.shape[-1])) @ k.mT"},
                      "-1e9": {HIDDEN: "np.where(mask, scores, -1e9)"}}),
]
