"""Mistakes in rotary positions: which features form a pair, and how fast the pairs turn."""

import copy
import math

import numpy as np

from ...layers.rotary import RotaryEmbedding
from ..rotary_settings import frequencies as llama_frequencies
from .changes import Change, reordered_outputs

BASES = 100.0, 1000.0, 10_000.0, 50_000.0, 500_000.0, 1_000_000.0, 10_000_000.0
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500_000.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}


def changes_of_rotary(parts):
    """Yields the changes of a model with rotary positions; none for others."""
    rotating = [attention for attention in parts.attentions if attention.rotary is not None]
    if not rotating:
        return
    first = rotary_of(rotating[0])
    group = [attention for attention in rotating if rotary_of(attention) is first]      # some models have two kinds
    yield from pairings(group)
    yield from single_permutations(group)
    yield from speeds(group)


def pairs_order(width, heads, inverse):
    """Returns the order of columns that brings pairs (i, i + d/2) of a head to (2i, 2i + 1), or its inverse."""
    halves = np.arange(width).reshape(heads, 2, -1).swapaxes(1, 2).ravel()
    return np.argsort(halves) if inverse else halves


def holder_of(attention):
    """Returns what has the RotaryEmbedding as its attribute `rotary`: the attention, or what rotates a part of each head."""
    holder = attention
    while not isinstance(holder.rotary, RotaryEmbedding):
        holder = holder.rotary
    return holder


def rotary_of(attention):
    """Returns the RotaryEmbedding of an attention that rotates."""
    return holder_of(attention).rotary


def other_rotary(group, **attributes):
    """Returns the edits that give all attentions of the group one changed RotaryEmbedding."""
    rotary = copy.copy(rotary_of(group[0]))
    vars(rotary).update(attributes)
    rotary.build_tables(rotary.cos.dtype)
    return [(holder_of(attention), "rotary", rotary) for attention in group]


def pairings(group):
    """q and k are both in the order of the other pairing, or have been permuted once too often."""
    interleaved = rotary_of(group[0]).interleaved
    here, there = ("neighbors", "halves") if interleaved else ("halves", "neighbors")
    yield Change("rotary pairing", f"q and k paired {'by halves' if interleaved else 'as neighbors'}",
                 "the rotary convention is wrong", lambda: other_rotary(group, interleaved=not interleaved))
    yield Change("rotary pairing", f"q and k permuted once more from {here} to {there}",
                 "they were permuted for the rotary pairing although they need not be, or the wrong way",
                 lambda: [edit for attention in group for name in ("query", "key")
                          for edit in reordered_outputs(getattr(attention, name), order_of(attention, name, interleaved))])


def order_of(attention, name, inverse):
    """Returns the pairs_order of the query or the key of an attention."""
    heads = attention.num_heads if name == "query" else attention.num_kv_heads
    return pairs_order(getattr(attention, name).d_out, heads, inverse)


def single_permutations(group):
    """q alone or k alone is permuted, or k by the number of heads of q."""
    for name, letter in (("query", "q"), ("key", "k")):
        for inverse, direction in ((False, "from halves to neighbors"), (True, "from neighbors to halves")):
            yield Change("rotary pairing of q or k alone", f"{letter} alone permuted {direction}",
                         f"q and k are in different orders, since only one of them was permuted; it concerns {letter}",
                         lambda name=name, inverse=inverse: [
                             edit for attention in group
                             for edit in reordered_outputs(getattr(attention, name), order_of(attention, name, inverse))])
    first = group[0]
    if first.num_kv_heads == first.num_heads or first.key.d_out % (2 * first.num_heads):
        return
    for inverse in (False, True):
        def order(attention, inverse=inverse):
            undo = pairs_order(attention.key.d_out, attention.num_heads, not inverse)
            return undo[order_of(attention, "key", inverse)]

        yield Change("rotary pairing of grouped keys",
                     f"k permuted {'to halves' if inverse else 'to neighbors'} by its {first.num_kv_heads} heads",
                     f"k was permuted as if it had the {first.num_heads} heads of q",
                     lambda order=order: [edit for attention in group
                                          for edit in reordered_outputs(attention.key, order(attention))])


def base_of(rotary):
    """Returns the base of the frequencies, scaled or not: the first two have the ratio that it gives."""
    angles = rotary.frequencies
    return (angles[0] / angles[min(1, len(angles) - 1)]) ** (rotary.d_head / 2)


def speeds(group):
    """The pairs turn at other speeds, or the other way."""
    rotary = rotary_of(group[0])
    angles = rotary.frequencies
    powers = -np.arange(0, rotary.d_head, 2) / rotary.d_head
    base = base_of(rotary)

    def turned(topic, done, verdict, frequencies):
        return Change(topic, done, verdict, lambda: other_rotary(group, base=None, frequencies=frequencies))

    for other in BASES:
        if not math.isclose(other, base, rel_tol=1e-3):
            yield turned("base of the rotary angles", f"rotary angles of base {other:,.0f}",
                         f"rope_theta should be {other:,.0f}, not {base:,.0f}", angles * (other / base) ** powers)
    scaling = "scaling of the rotary angles"
    plain = angles[0] * base ** powers
    if not np.allclose(plain, angles):
        yield turned(scaling, "rotary angles that are not scaled", "low frequencies should not be scaled", plain)
    elif math.isclose(base, LLAMA3["rope_theta"], rel_tol=1e-3):
        for factor in (8, 32):
            yield turned(scaling, f"low rotary frequencies divided by {factor} as in LLaMA 3", "its scaling is missing",
                         np.array(llama_frequencies(rotary.d_head, LLAMA3 | {"factor": factor})))
    for factor in (2, 4, 8):
        yield turned(scaling, f"rotary angles divided by {factor}", f"a linear scaling by {factor} is missing",
                     angles / factor)
    if not math.isclose(abs(angles[0]), 1):
        done = f"divided by {angles[0]:g}" if abs(angles[0]) > 1 else f"multiplied by {1 / angles[0]:g}"
        yield turned(scaling, f"rotary angles {done}", "they should not be scaled",
                     angles / angles[0])
    yield turned("direction of rotation", "q and k rotated the other way", "the two features of each pair are swapped",
                 -angles)
