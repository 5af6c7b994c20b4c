"""The parts of current models against PyTorch, which computes every output and every gradient in float64."""

import math
from functools import partial

import numpy as np
import pytest
from helpers.parity import close, compare

import numpy_transformer as nt
from numpy_transformer.layers.attention import with_score_changes
from numpy_transformer.layers.gated_attention import gate_heads
from numpy_transformer.layers.normed_linear import norm_outputs, norm_queries_and_keys
from numpy_transformer.layers.sinks import add_sinks

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
F = torch.nn.functional

B, T, S, D, D_FF, E, K = 3, 5, 7, 12, 16, 5, 2
rng = np.random.default_rng(1)
X, TOKENS = rng.standard_normal((B, T, D)), rng.standard_normal((B * T, D))
Q, KEY, VAL = rng.standard_normal((B, 4, T, 6)), rng.standard_normal((B, 2, S, 6)), rng.standard_normal((B, 2, S, 3))
SCORES = rng.standard_normal((B, 2, T, S))
MASK = rng.random((B, 1, T, S)) < 0.7
MASK[..., 0] = True


def below(p, prefix):
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in p.items() if name.startswith(f"{prefix}.")}


def linear(p, x):
    return x @ p["weight"] + p.get("bias", 0)


def rms(x, gamma, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], eps=eps) * gamma


def attend(p, q, k, v, mask=None, scale=None, cap=None, sinks=None):
    """Grouped attention with a scale, a cap and sinks of its own, written with torch.softmax."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], -1)
    return torch.softmax(scores, -1)[..., :v.shape[-2]] @ v


def rotate(x, base=10000.0):
    """Rotates interleaved pairs, as complex numbers."""
    d = x.shape[-1]
    angles = torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(0, d, 2).double() / d)
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous()) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def partly_rotated(x, width):
    return torch.cat([rotate(x[..., :width]), x[..., width:]], -1)


def swiglu(p, x):
    return linear(below(p, "down"), F.silu(linear(below(p, "gate"), x)) * linear(below(p, "up"), x))


def clamped(p, x, limit):
    z, u = linear(below(p, "gate"), x).clamp(max=limit), linear(below(p, "up"), x).clamp(-limit, limit)
    return linear(below(p, "down"), (u + 1) * z * torch.sigmoid(1.702 * z))


def chosen_softmax(p, x):
    """The gates of Mixtral, as its published code computes them: softmax of all, and the chosen ones divided by their sum."""
    weights, chosen = torch.softmax(linear(below(p, "linear"), x), -1).topk(K, -1)
    return torch.zeros(len(x), E, dtype=x.dtype).scatter(1, chosen, weights / weights.sum(-1, keepdim=True))


def softmax_kept(p, x):
    weights, chosen = torch.softmax(linear(below(p, "linear"), x), -1).topk(K, -1)
    return torch.zeros(len(x), E, dtype=x.dtype).scatter(1, chosen, weights)


def sigmoid_gates(p, x, factor, groups=1, top_groups=1, count=E):
    """The gates of DeepSeek-V3, as its published code computes them."""
    s = torch.sigmoid(linear(below(p, "linear"), x))
    by_group = (s + p["correction"].detach()).view(len(x), groups, -1)
    best = by_group.topk(min(2, by_group.shape[-1]), -1)[0].sum(-1).topk(top_groups, -1)[1]
    allowed = torch.zeros(len(x), groups, dtype=torch.bool).scatter(1, best, True)[..., None].expand_as(by_group)
    chosen = by_group.masked_fill(~allowed, -math.inf).flatten(1).topk(K, -1)[1]
    weights = s.gather(1, chosen)
    return torch.zeros(len(x), count, dtype=x.dtype).scatter(1, chosen, factor * weights / weights.sum(-1, keepdim=True))


def mixture(p, x, gates):
    x = x.reshape(-1, D)
    g = gates(below(p, "router"), x)
    return sum(g[:, e, None] * swiglu(below(p, f"experts.{e}"), x) for e in range(E)).reshape(B, T, D)


def split(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def gemma_block(p, x, mask):
    """Norms before and after each sublayer and of queries and keys, with 1 + weight; capped scores."""
    def norm(name, x):
        return rms(x, 1 + p[f"{name}.gamma"])

    h = norm("norm1", x)
    q, k = (norm(f"attention.{name}.norm.norm", split(h @ p[f"attention.{name}.linear.weight"], count))
            for name, count in (("query", 4), ("key", 2)))
    y = attend(p, rotate(q), rotate(k), split(h @ p["attention.value.weight"], 2), mask, cap=1.5)
    x = x + norm("attention.output.norm", y.transpose(1, 2).flatten(-2) @ p["attention.output.linear.weight"])
    h = norm("norm2", x)
    hidden = F.gelu(h @ p["feed_forward.gate.weight"], approximate="tanh") * (h @ p["feed_forward.up.weight"])
    return x + norm("feed_forward.down.norm", hidden @ p["feed_forward.down.linear.weight"])


def make_gemma_block():
    attention = nt.SelfAttention(D, 4, 2, bias=False, d_head=6, rotary=nt.RotaryEmbedding(6))
    norms = [nt.UnitOffsetRMSNorm(width) for width in (6, 6, D, D, D, D)]
    norm_queries_and_keys(attention, *map(nt.PerHead, norms[:2]))
    with_score_changes(attention.attention, nt.SoftCap(1.5))
    block = nt.Block(attention, nt.SwiGLU(D, D_FF, activation="gelu_tanh"), *norms[2:4])
    return norm_outputs(block, *norms[4:])


def neox_block(p, x, mask):
    """Both sublayers read x; two features of six are rotated."""
    h = F.layer_norm(x, (D,), p["norm1.gamma"], p["norm1.beta"])
    q, k, v = (split(linear(below(p, f"attention.{name}"), h), 2) for name in ("query", "key", "value"))
    attended = attend(p, partly_rotated(q, 2), partly_rotated(k, 2), v, mask).transpose(1, 2).flatten(-2)
    h = F.layer_norm(x, (D,), p["norm2.gamma"], p["norm2.beta"])
    forwarded = linear(below(p, "feed_forward.down"), F.gelu(linear(below(p, "feed_forward.up"), h)))
    return x + linear(below(p, "attention.output"), attended) + forwarded


def make_neox_block():
    attention = nt.SelfAttention(D, 2, rotary=nt.PartialRotary(nt.RotaryEmbedding(2), 6))
    return nt.ParallelBlock(attention, nt.FeedForward(D, D_FF, "gelu"), nt.LayerNorm(D), nt.LayerNorm(D))


def latent(p, x, mask):
    """Heads whose keys and values are made of one latent vector; 5 features are not rotated, 4 are."""
    q = split(x @ p["query.weight"], 3)
    c = rms(x @ p["down.weight"], p["norm.gamma"])
    kv = split(c @ p["up.weight"], 3)
    k_rotary = rotate(x @ p["rotary_key.weight"])[:, None].expand(-1, 3, -1, -1)
    q, k = torch.cat([q[..., :5], rotate(q[..., 5:])], -1), torch.cat([kv[..., :5], k_rotary], -1)
    return attend(p, q, k, kv[..., 5:], mask).transpose(1, 2).flatten(-2) @ p["output.weight"]


def gated(p, x, mask):
    """Grouped and rotated heads, each feature multiplied by its gate."""
    q, k, v = (split(linear(below(p, f"attention.{name}"), x), count) for name, count in (("query", 4), ("key", 2), ("value", 2)))
    heads = attend(p, rotate(q), rotate(k), v, mask).transpose(1, 2).flatten(-2)
    return linear(below(p, "output"), heads * torch.sigmoid(linear(below(p, "gate"), x)))


def z_loss(p, logits, targets):
    counted = targets != 0
    penalty = 0.3 * logits.logsumexp(-1)[counted].square().mean()
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0, label_smoothing=0.1) + penalty


def straight_through(p, x):
    """The rounded weights, with the gradient of weights that are not rounded."""
    rounded = p["weight"] + (torch.round(4 * p["weight"]) / 4 - p["weight"]).detach()
    return x @ rounded + p["bias"]


def several_heads(p, x, mask):
    x = gemma_block(below(p, "trunk"), x, mask)
    return rms(torch.stack([neox_block(below(p, f"heads.{n}"), x, mask) for n in range(2)], 1), p["norm.gamma"])


def make_token_block():
    return nt.SequentialTokenBlock(make_gemma_block(), nt.Linear(2 * D, D), nt.RMSNorm(D), nt.RMSNorm(D))


def token_block(p, h, e, mask):
    joined = torch.cat([rms(h, p["norm_h.gamma"]), rms(e, p["norm_e.gamma"])], -1)
    return gemma_block(below(p, "block"), linear(below(p, "projection"), joined), mask)


def experts(router):
    return nt.MixtureOfExperts(router, [nt.SwiGLU(D, 6, rng=e) for e in range(E)])


def waves(count):
    """All sines and then all cosines of the positions 0 to count - 1."""
    angles = torch.arange(count)[:, None] / 10000 ** (torch.arange(0, D, 2).double() / D)
    return torch.cat([angles.sin(), angles.cos()], -1)


def image_model(p, x):
    """A Vision Transformer of one block, with convolution as in its paper's code."""
    patches = F.conv2d(x, p["projection.weight"].T.reshape(D, 2, 3, 4), p["projection.bias"], (3, 4)).flatten(2).mT
    x = torch.cat([p["class_token.weight"].expand(B, 1, D), patches], 1) + p["positions.weight"]
    block = below(p, "encoder.blocks.0")
    h = F.layer_norm(x, (D,), block["norm1.gamma"], block["norm1.beta"], 1e-6)
    q, k, v = (split(linear(below(block, f"attention.{name}"), h), 2) for name in ("query", "key", "value"))
    x = x + linear(below(block, "attention.output"), attend(p, q, k, v).transpose(1, 2).flatten(-2))
    h = F.layer_norm(x, (D,), block["norm2.gamma"], block["norm2.beta"], 1e-6)
    x = x + linear(below(block, "feed_forward.down"), F.gelu(linear(below(block, "feed_forward.up"), h)))
    return linear(below(p, "output"), F.layer_norm(x, (D,), p["encoder.norm.gamma"], p["encoder.norm.beta"], 1e-6)[:, 0])


IMAGES = rng.standard_normal((B, 2, 9, 8))
CAUSAL = np.tri(T, dtype=bool)[None, None]
CASES = {
    "SoftCap": (partial(nt.SoftCap, 1.5), lambda p, x: 1.5 * torch.tanh(x / 1.5), X),
    "RescaledAttention": (partial(nt.RescaledAttention, 0.3), partial(attend, scale=0.3), Q, KEY, VAL, MASK),
    "sinks": (lambda: add_sinks(nt.GroupedAttention(), 4),
              lambda p, q, k, v, mask: attend(p, q, k, v, mask, sinks=p["softmax.sinks"]), Q, KEY, VAL, MASK),
    "SinkSoftmax": (partial(nt.SinkSoftmax, 2), lambda p, x: torch.softmax(
        torch.cat([x, p["sinks"][:, None, None].expand(B, 2, T, 1)], -1), -1)[..., :S], SCORES),
    "SymmetricWindow": (partial(nt.SymmetricWindow, 2), lambda p, x: x.masked_fill(
        (torch.arange(T)[:, None] + S - T - torch.arange(S)).abs() >= 2, -math.inf), SCORES),
    "UnitOffsetRMSNorm": (partial(nt.UnitOffsetRMSNorm, D, 0.1), lambda p, x: rms(x, 1 + p["gamma"], 0.1), X),
    "NormedLinear": (lambda: nt.NormedLinear(nt.Linear(D, D_FF), nt.LayerNorm(D_FF)), lambda p, x: F.layer_norm(
        linear(below(p, "linear"), x), (D_FF,), p["norm.gamma"], p["norm.beta"]), X),
    "PerHead": (lambda: nt.PerHead(nt.RMSNorm(4)), lambda p, x: rms(x.unflatten(-1, (3, 4)), p["norm.gamma"]).flatten(-2), X),
    "PartialRotary": (lambda: nt.PartialRotary(nt.RotaryEmbedding(4), 6), lambda p, x: partly_rotated(x, 4), Q),
    "ScaledRotary": (lambda: nt.ScaledRotary(nt.RotaryEmbedding(6), 1.3), lambda p, x: 1.3 * rotate(x), Q),
    "Sequential": (lambda: nt.Sequential(nt.Linear(D, D_FF), nt.SoftCap(2.0)),
                   lambda p, x: 2 * torch.tanh(linear(below(p, "parts.0"), x) / 2), X),
    "ClampedSwiGLU": (partial(nt.ClampedSwiGLU, D, D_FF, 0.8), partial(clamped, limit=0.8), X),
    "Sigmoid": (nt.Sigmoid, lambda p, x: torch.sigmoid(x), X),
    "ZLoss": (lambda: nt.ZLoss(nt.CrossEntropyLoss(0.1, ignore_id=0), 0.3), z_loss, X, rng.integers(0, 3, (B, T))),
    "GatedSelfAttention": (lambda: gate_heads(nt.SelfAttention(D, 4, 2, d_head=6, rotary=nt.RotaryEmbedding(6))), gated, X, CAUSAL),
    "Identity": (nt.Identity, lambda p, x: x * 1, X),
    "Bias": (partial(nt.Bias, D), lambda p, x: x + p["bias"], X),
    "ShiftedPositions": (lambda: nt.ShiftedPositions(nt.LearnedPositionalEmbedding(9, D), 3),
                         lambda p, x: x + p["positions.weight"][3:3 + T], X),
    "NormedPositions": (lambda: nt.NormedPositions(nt.LearnedPositionalEmbedding(9, D), nt.LayerNorm(D)),
                        lambda p, x: F.layer_norm(x + p["positions.weight"][:T], (D,), p["norm.gamma"], p["norm.beta"]), X),
    "SeparateSinusoids": (partial(nt.SeparateSinusoids, D, 9), lambda p, x: x + waves(T), X),
    "ClassToken": (partial(nt.ClassToken, D), lambda p, x: torch.cat([p["weight"].expand(B, 1, D), x], 1), X),
    "Patches": (partial(nt.Patches, 2, (3, 4)), lambda p, x: F.unfold(x, (3, 4), stride=(3, 4)).mT, IMAGES),
    "Patches and Linear": (lambda: nt.Sequential(nt.Patches(2, (3, 4)), nt.Linear(24, D)), lambda p, x: F.conv2d(
        x, p["parts.1.weight"].T.reshape(D, 2, 3, 4), p["parts.1.bias"], (3, 4)).flatten(2).mT, IMAGES),
    "Router": (partial(nt.Router, D, E, K), chosen_softmax, TOKENS),
    "SoftmaxRouter": (partial(nt.SoftmaxRouter, D, E, K), softmax_kept, TOKENS),
    "SigmoidRouter": (partial(nt.SigmoidRouter, D, E, K, 2.5), partial(sigmoid_gates, factor=2.5), TOKENS),
    "SigmoidRouter, groups": (partial(nt.SigmoidRouter, D, 8, K, 2.5, 4, 2),
                              partial(sigmoid_gates, factor=2.5, groups=4, top_groups=2, count=8), TOKENS),
    "MixtureOfExperts": (lambda: experts(nt.Router(D, E, K)), partial(mixture, gates=chosen_softmax), X),
    "MixtureOfExperts, sigmoids": (lambda: experts(nt.SigmoidRouter(D, E, K, 2.5)),
                                   partial(mixture, gates=partial(sigmoid_gates, factor=2.5)), X),
    "QuantizedLinear": (lambda: nt.QuantizedLinear(nt.Linear(D, D_FF), 4, 3), linear, X),
    "StraightThroughLinear": (lambda: nt.StraightThroughLinear(nt.Linear(D, D_FF), lambda w: np.rint(4 * w) / 4),
                              straight_through, X),
    "MultiTokenStack": (lambda: nt.MultiTokenStack(make_gemma_block(), [make_neox_block(), make_neox_block()], nt.RMSNorm(D)),
                        several_heads, X, CAUSAL),
    "SequentialTokenBlock": (make_token_block, token_block, X, rng.standard_normal(X.shape), CAUSAL),
    "Block, norms everywhere": (make_gemma_block, gemma_block, X, CAUSAL),
    "ImageClassifier": (lambda: nt.ImageClassifier((9, 8), (3, 4), D, 2, 1, D_FF, 5, channels=2), image_model, IMAGES),
    "ParallelBlock": (make_neox_block, neox_block, X, CAUSAL),
    **{kind.__name__: (partial(kind, D, 3, 8, 5, 4, 7, nt.RotaryEmbedding(4)), latent, X, CAUSAL)
       for kind in (nt.LatentAttention, nt.AbsorbedLatentAttention)}}


@pytest.mark.parametrize("case", CASES)
def test_output_and_gradients_are_those_of_pytorch(case):
    make, theirs, *inputs = CASES[case]
    compare(make(), theirs, *inputs)


def test_a_balanced_router_adds_the_gradient_of_its_loss():
    """The loss of Switch, with the shares of all choices: E times the sum of share and mean probability."""
    router = nt.BalancedRouter(nt.Router(D, E, K, rng=2), 0.7).astype(np.float64)
    g, dg = router(TOKENS), np.random.default_rng(3).standard_normal((len(TOKENS), E))
    dx = router.backward(dg)
    x, weight = (torch.tensor(array, requires_grad=True) for array in (TOKENS, router.router.linear.weight.data))
    gates = chosen_softmax({"linear.weight": weight}, x)
    share = (gates > 0).double().mean(0) / K
    balance = 0.7 * E * (share * torch.softmax(x @ weight, -1).mean(0)).sum()
    ((gates * torch.tensor(dg)).sum() + balance).backward()
    close(g, gates, "gates")
    close(np.asarray(router.auxiliary_loss), balance, "balancing loss")
    close(dx, x.grad, "dx")
    close(router.router.linear.weight.grad, weight.grad, "weight")


def test_every_component_is_compared_with_pytorch():
    from test_parity import CASES as OTHERS

    public = {name for name, value in ((name, getattr(nt, name)) for name in nt.__all__)
              if isinstance(value, type) and issubclass(value, nt.Module) and value is not nt.Module}
    compared = {type(make()).__name__ for make, *_ in CASES.values()} | {type(case[1]()).__name__ for case in OTHERS}
    named = {case[0].split(",")[0] for case in OTHERS}
    assert public | {"make_model", "transformer_2017"} <= compared | named | {"BalancedRouter"}
