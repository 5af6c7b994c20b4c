"""The rule for latent attention: slices, joined keys, and products with the parts of W_up."""

import numpy as np

from ..layers import AbsorbedLatentAttention, LatentAttention
from ..layers.heads import merge_heads, split_heads
from .origin import Computation, sum_to
from .rearranging import into_zeros


def parts_in_order(call):
    """Latent attention whose code calls its parts as LatentAttention does."""
    part = call.module
    rotated = [part.rotary, part.rotary] if part.rotary is not None else []
    up = [] if isinstance(part, AbsorbedLatentAttention) else [part.up]
    expected = [part.query, part.down, part.norm, part.rotary_key, *rotated, *up, part.attention, part.output]
    return [id(child.module) for child in call.children] == [id(module) for module in expected]


def latent_attention(graph, call, scope, inputs):
    """Latent attention: slices and concatenations of queries and keys; in the absorbed form, products with W_up too."""
    part = call.module
    H, n = part.num_heads, part.d_head
    attended, last = call.children[-2:]

    def enter(kind, inputs, backward, array, name="", **numbers):
        value = graph.add_computation(Computation(kind, inputs, backward, name, numbers), array, scope)
        scope.add(value)
        return value

    def features(x, start, stop, array=None):
        place = (..., slice(start, stop))
        return enter("slice", {"x": x}, lambda dy: {"x": into_zeros(x.array.shape, place, dy)},
                     x.array[place] if array is None else array, axis=x.array.ndim - 1, start=start, stop=stop)

    def heads(x):
        return enter("reshape", {"x": x}, lambda dy: {"x": merge_heads(dy)}, split_heads(x.array, H), "split_heads")

    def for_all_heads(x, array):
        return enter("reshape", {"x": x}, lambda dy: {"x": dy[..., 0, :, :]}, array)

    def joined(x1, x2, array):
        width = x1.array.shape[-1]
        return enter("concatenate", {"x1": x1, "x2": x2}, lambda dy: {
            "x1": sum_to(dy[..., :width], x1.array.shape), "x2": sum_to(dy[..., width:], x2.array.shape)}, array,
            axis=array.ndim - 1)

    def product(x, w, start, transposed, array):
        """x w or x wᵀ, where w (H, d_latent, m) are columns of W_up, from `start` on in each head."""
        up = graph.names[id(part.up.weight)]

        def backward(dy):
            dw = dy.mT @ x.array if transposed else x.array.mT @ dy
            dup = np.zeros((part.d_latent, H, up.array.shape[1] // H))
            dup[..., start:start + w.shape[-1]] = dw.reshape(-1, *w.shape).sum(0).swapaxes(0, 1)
            return {"x": dy @ (w if transposed else w.mT), "weight": dup.reshape(up.array.shape)}
        return enter("head product", {"x": x, "weight": up}, backward, array, start=start,
                     width=up.array.shape[1] // H, transposed=int(transposed))

    query, down, norm, rotary_key, *between = call.children[:-2]
    q = heads(graph.visit_child(query, scope)[0])
    graph.visit_child(down, scope)
    c, = graph.visit_child(norm, scope)
    k_rotary, = graph.visit_child(rotary_key, scope)
    rotated = between[:2] if part.rotary is not None else []
    q_rotary = features(q, n, q.array.shape[-1], rotated[0].inputs["x"] if rotated else None)
    k_rotary = for_all_heads(k_rotary, rotated[1].inputs["x"] if rotated else k_rotary.array[..., None, :, :])
    if rotated:
        q_rotary, = graph.visit_child(rotated[0], scope)
        k_rotary, = graph.visit_child(rotated[1], scope)
    q_plain = features(q, 0, n)
    q, k, v = (attended.inputs[name] for name in "qkv")
    if isinstance(part, AbsorbedLatentAttention):
        w_k, w_v = part.up_by_head()
        absorbed = product(q_plain, w_k, 0, True, q_plain.array @ w_k.mT)
        joined(absorbed, q_rotary, q)
        joined(for_all_heads(c, c.array[..., None, :, :]), k_rotary, k)
        for_all_heads(c, v)                     # apart from the keys, so that each can be changed alone
    else:
        up, = graph.visit_child(between[-1], scope)
        kv = heads(up)
        joined(q_plain, q_rotary, q)
        joined(features(kv, 0, n), k_rotary, k)
        features(kv, n, kv.array.shape[-1], v)
    y, = graph.visit_child(attended, scope)
    if isinstance(part, AbsorbedLatentAttention):
        y = product(y, w_v, n, False, y.array @ w_v)
    enter("reshape", {"x": y}, lambda dy: {"x": split_heads(dy, H)}, last.inputs["x"], "merge_heads")
    return graph.visit_child(last, scope)


RULES = [(latent_attention, LatentAttention, parts_in_order)]
