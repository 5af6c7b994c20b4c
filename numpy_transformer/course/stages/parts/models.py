"""Stages 8 and 12: the language model; encoder, decoder and beam search."""

from types import SimpleNamespace

import numpy as np

from ...exercises.definition import Mistake
from ..drivers import models as drivers
from .making import arrays_of, built, new_part, normal, of_exercise


def draw_language_model(rng, n):
    small = SimpleNamespace(V=n.V, D=2 * n.H, F=n.F, H=n.H)
    model = built("LanguageModel", small.V, n.T + 3, small.D, small.H, small.F, 2, 0)
    arrays = arrays_of(model, rng)
    batch = n.lead[-2:-1]                       # the package's models take one batch axis at most
    ids, more = rng.integers(0, n.V, (*batch, n.T)), rng.integers(0, n.V, (*[1] * len(batch), n.T + 1))
    return (ids, normal(rng, *ids.shape, n.V), more, normal(rng, *more.shape, n.V), n.H, 2, arrays)


def stage_8():
    return new_part(8, 1, drivers.language_model, ("LanguageModel.forward", "LanguageModel.backward"), draw_language_model,
                    ("logits", "second logits", "embedding.weight.grad", "positions.grad", "norm.gamma.grad",
                     "norm.beta.grad", "gradients of the blocks"), (
        Mistake("LM-1", {
            "        self.embedding.weight.grad += dlogits.reshape(-1, dlogits.shape[-1]).T @ h.reshape(-1, "
            "h.shape[-1])\n":
                ""}),
        Mistake("LM-2", {"        self.embedding.backward(dx)\n": ""}),
        Mistake("LM-3", {"        self.positions.grad[:dx.shape[-2]] += dx.reshape(-1, *dx.shape[-2:]).sum(0)\n": ""}),
        Mistake("LM-4", {"dx.reshape(-1, *dx.shape[-2:]).sum(0)": "dx.reshape(-1, *dx.shape[-2:]).mean(0)"}),
        Mistake("LM-5", {"self.positions.grad[:dx.shape[-2]] +=": "self.positions.grad[:dx.shape[-2]] ="}),
        Mistake("LM-14", {"dx.reshape(-1, *dx.shape[-2:]).sum(0)": "dx.sum(0)"}),
        Mistake("LM-15", {
            "dx.reshape(-1, *dx.shape[-2:]).sum(0)": "dx.reshape(dx.shape[-2], -1, dx.shape[-1]).sum(1)"}),
        Mistake("LM-17", {
            "self.positions.grad[:dx.shape[-2]] += dx.reshape(-1, *dx.shape[-2:]).sum(0)":
                "dx = dx.reshape(-1, *dx.shape[-2:]).sum(0) + 0 * dx\n"
                "        self.positions.grad[:dx.shape[-2]] += dx.reshape(-1, *dx.shape[-2:])[0]"}),
        Mistake("LM-16", {
            "for block in reversed(self.blocks):": "self.blocks.reverse()\n        for block in self.blocks:"}),
        Mistake("LM-6", {"h = self.norm(x)": "h = x", "self.norm.backward(dlogits @ self.embedding.weight.data)":
                         "dlogits @ self.embedding.weight.data"}),
        Mistake("LM-7", {"for block in reversed(self.blocks)": "for block in self.blocks"}),
        Mistake("LM-8", {"x = block(x, mask)": "x = block(x)"}),
        Mistake("LM-9", {" + self.positions.data[:T]": ""}),
        Mistake("LM-10", {"        self.remember(h)": "        self.remember(x)"}),
        Mistake("LM-11", {"self.embedding.weight.grad += dlogits": "self.embedding.weight.grad = dlogits"}),
        Mistake("LM-12", {"self.positions.data[:T]": "self.positions.data[-T:]"}),
        Mistake("LM-13", {"mask = causal_mask(T)": "mask = causal_mask(T).T"}),
    )),


def draw_decoder_block(rng, n):
    *batch, T = n.lead
    arrays = arrays_of(built("DecoderBlock", n.D, n.H, n.F, 0), rng)
    x, dy = normal(rng, 2, *batch, T, n.D)
    memory_mask = rng.random((T, n.S)) < 0.6
    memory_mask[:, 1] = True
    return x, normal(rng, *batch, n.S, n.D), np.tri(T, dtype=bool), memory_mask, dy, n.H, arrays


def draw_encoder_decoder(rng, n):
    D = 2 * n.H
    arrays = arrays_of(built("EncoderDecoder", n.V, max(n.S, n.T) + 2, D, n.H, n.F, 2, 0, 1), rng)
    source, target = rng.integers(2, n.V, (n.B, n.S)), rng.integers(2, n.V, (n.B, n.T))
    source[0, -2:] = 1
    return source, target, normal(rng, n.B, n.T, n.V), 1, n.H, 2, arrays


def stage_12():
    block, model = "DecoderBlock", "EncoderDecoder"
    return (new_part(12, 1, drivers.decoder_block, (f"{block}.forward", f"{block}.backward"), draw_decoder_block,
                     ("y", "second y", "second dx", "second dmemory", "dx", "dmemory", "gradients"), (
                Mistake("DEC-1", {
                    "return dx + self.norm1.backward(dquery + dkey), dmemory":
                        "return dx + self.norm1.backward(dquery + dkey), dmemory + dkey"}),
                Mistake("DEC-2", {"self.norm1.backward(dquery + dkey)": "self.norm1.backward(dquery)"}),
                Mistake("DEC-3", {"dx = dx + self.norm2.backward(dquery)": "dx = self.norm2.backward(dquery)"}),
                Mistake("DEC-4", {
                    "self.cross_attention(self.norm2(x), memory, memory_mask)":
                        "self.cross_attention(self.norm2(x), memory)"}),
                Mistake("DEC-5", {
                    "self.cross_attention(self.norm2(x), memory, memory_mask)":
                        "self.cross_attention(self.norm2(x), self.norm2(x), mask)"}),
                Mistake("DEC-6", {"dx = dy + self.norm3": "dx = self.norm3"}),
                Mistake("DEC-7", {"self.attention(h, h, mask)": "self.attention(h, h)"}),
                Mistake("DEC-8", {
                    "self.cross_attention(self.norm2(x), memory, memory_mask)":
                        "self.cross_attention(x, memory, memory_mask)"}),
            )),
            new_part(12, 2, drivers.encoder_decoder, (f"{model}.encode", f"{model}.decode", f"{model}.forward", f"{model}.backward"),
                     draw_encoder_decoder, ("logits", "embedding.weight.grad", "source_positions.grad",
                                            "target_positions.grad", "gradients of the others"), (
                Mistake("ED-1", {"dmemory = dmemory + more": "dmemory = more"}),
                Mistake("ED-2", {
                    "        self.embedding.backward(dx)\n"
                    "        dx = self.encoder_norm":
                        "        dx = self.encoder_norm"}),
                Mistake("ED-3", {"x = block(x, mask)": "x = block(x)"}),
                Mistake("ED-4", {
                    "block(x, memory, causal_mask(T), memory_mask)": "block(x, memory, None, memory_mask)"}),
                Mistake("ED-5", {"block(x, memory, causal_mask(T), memory_mask)": "block(x, memory, causal_mask(T))"}),
                Mistake("ED-6", {
                    "return self.encoder_norm(x), mask": "return x, mask",
                    "self.encoder_norm.backward(dmemory)": "dmemory"}),
                Mistake("ED-7", {"mask = (source != self.pad_id)": "mask = (source == self.pad_id)"}),
                Mistake("ED-8", {"for block in reversed(self.encoder)": "for block in self.encoder"}),
                Mistake("ED-9", {"for block in reversed(self.decoder)": "for block in self.decoder"}),
                Mistake("ED-11", {
                    "        self.embedding.backward(dx)\n"
                    "        dx = self.encoder_norm":
                        "        dtarget = dx\n"
                        "        dx = self.encoder_norm",
                    "+= dx.sum(0)\n"
                    "        self.embedding.backward(dx)\n"
                    "\n"
                    "\n"
                    "def":
                        "+= dx.sum(0)\n"
                        "        self.embedding.backward(dx)\n"
                        "        self.embedding.backward(dtarget)\n"
                        "\n"
                        "\n"
                        "def"}),
                Mistake("ED-10", {
                    "self.embedding(target) + self.target_positions":
                        "self.embedding(target) + self.source_positions"}),
            )),
            of_exercise(12, "13.3", drivers.search, ("beam_search",)))
