"""Mistakes before and after the blocks: embeddings, positions, and the output layer."""

import math

import numpy as np

from ...layers.embedding import Unembedding
from ...layers.linear import Linear
from ...layers.relative_bias import RelativePositionBias
from ...models.encoder_heads import MaskedLanguageModel
from ...models.text_encoder import TextEncoder
from ...module import Parameter
from .changes import Change

SHIFTS = 1, -1, 2, -2, 3, -3
PARTS_OF_VOCABULARY = 8
DISTANCES = 20, 32, 64, 128, 256
BACKWARDS = "read backwards, unless the text is written backwards"
SIDES = {"input": "embedding", "output": "output layer"}


def changes_of_ends(parts):
    """Yields the changes of the embeddings, the positions and the output layer."""
    yield from scale_of_embedding(parts)
    yield from shifted_ids(parts)
    yield from shifted_positions(parts)
    yield from segments(parts)
    yield from relative_positions(parts)
    yield from output_layer(parts)


def scale_of_embedding(parts):
    """The factor sqrt(d_model) of the embedding is missing, should not be there, or is in the weights already."""
    embeddings = parts.word_embeddings()
    root = math.sqrt(embeddings[0].d_model)
    yield Change("scale of the embedding", "the matrix of the embedding divided by sqrt(d_model)",
                 "this matrix was multiplied by sqrt(d_model)",
                 lambda: [edit for weight in word_weights(parts) for edit in parts.replace(weight, weight.data / root)])
    if embeddings[0].factor == 1:
        factor, done, verdict = root, "multiplied by", "is missing"
    else:
        factor, done, verdict = 1.0, "not multiplied by", "should not be there"
    yield Change("scale of the embedding", f"the embedding {done} sqrt(d_model)", f"the factor sqrt(d_model) {verdict}",
                 lambda: [(embedding, "factor", factor) for embedding in embeddings])


def shifted_ids(parts):
    """All rows of the embedding, of the output layer or of its bias are off, as special tokens were added or removed."""
    for step in SHIFTS:
        yield Change("ids of the tokens", f"the ids of all tokens shifted by {step:+d}",
                     "tokenizer and embedding disagree about the ids", lambda step=step: shifted_weights(parts, step, "both"),
                     rare=abs(step) > 1)
        for part in range(1, PARTS_OF_VOCABULARY) if abs(step) <= 2 else ():
            first = part * parts.word_embeddings()[0].vocab_size // PARTS_OF_VOCABULARY
            yield Change("ids of the tokens", f"the ids from about {first:,} on shifted by {step:+d}",
                         "tokenizer and embedding disagree about the ids from one on, as if a token was added or left out",
                         lambda step=step, first=first: shifted_weights(parts, step, "both", first), rare=True)
            for side, called in SIDES.items() if has_own_output(parts.model) else ():
                yield Change("ids of the tokens", f"the ids in the {called} from about {first:,} on shifted by {step:+d}",
                             f"the rows of the {called} are not those of the tokenizer's ids from one on",
                             lambda step=step, first=first, side=side: shifted_weights(parts, step, side, first), rare=True)
        for side, called in SIDES.items():
            if has_own_output(parts.model):
                yield Change("ids of the tokens", f"the ids in the {called} shifted by {step:+d}",
                             f"the rows of the {called} are not those of the tokenizer's ids",
                             lambda step=step, side=side: shifted_weights(parts, step, side), rare=True)
        bias = output_bias(parts.model)
        if bias is not None:
            yield Change("ids of the tokens", f"the ids of the output bias shifted by {step:+d}",
                         "the entries of the output bias are not those of the tokenizer's ids",
                         lambda step=step, bias=bias: parts.replace(bias, np.roll(bias.data, -step)), rare=True)


def has_own_output(model):
    """Returns True if a model has an output layer that is not tied to the embedding."""
    return isinstance(getattr(model, "output", None), Linear) and not isinstance(model, TextEncoder)


def output_bias(model):
    """Returns the Parameter of the bias of the output layer, or None."""
    return model.bias if isinstance(model, MaskedLanguageModel) else getattr(getattr(model, "output", None), "bias", None)


def shifted_weights(parts, step, side, first=0):
    """Returns the edits that shift the ids, from the first on, of the embedding ("input"), of the output layer ("output"),
    or of both.
    """
    def shifted_rows(array):
        return np.concatenate([array[:first], np.roll(array[first:], -step, 0)])

    edits = []
    if side != "output":
        for weight in word_weights(parts):
            edits += parts.replace(weight, shifted_rows(weight.data))
    if side != "input" and has_own_output(parts.model):
        weight = parts.model.output.weight
        edits += parts.replace(weight, shifted_rows(weight.data.T).T)
    if side == "both" and output_bias(parts.model) is not None:
        bias = output_bias(parts.model)
        edits += parts.replace(bias, shifted_rows(bias.data))
    return edits


def word_weights(parts):
    """Returns the matrices of the embeddings of tokens, each once."""
    return list({id(embedding.weight): embedding.weight for embedding in parts.word_embeddings()}.values())


def shifted_positions(parts):
    """A learned table is read one or two rows too early or too late."""
    for step in (1, 2, -1, -2) if parts.position_tables else ():
        yield Change("positions shifted", f"positions shifted by {step:+d}",
                     "positions are counted from another number",
                     lambda step=step: [(table, "weight", Parameter(shifted(table.weight.data, step)))
                                        for table in parts.position_tables])
    if parts.position_tables:

        yield Change("positions shifted", "positions in reverse order", f"the table of positions is {BACKWARDS}",
                     lambda: [(table, "weight", Parameter(table.weight.data[::-1])) for table in parts.position_tables],
                     rare=True, mirrors=isinstance(parts.model, TextEncoder))


def shifted(table, step):
    """Returns a table whose row t is row t + step, or the nearest row that there is."""
    return table.take(np.arange(len(table)) + step, 0, mode="clip")


def segments(parts):
    """The two rows of the segments are swapped, or the segment 0 that all tokens share is not added."""
    table = getattr(parts.model, "segments", None)
    if table is not None and len(table.weight.data) > 1:
        yield Change("segments", "the rows of the segments in reverse order", "the segments are numbered the other way",
                     lambda: [(table, "weight", Parameter(table.weight.data[::-1]))])
    if table is not None:
        yield Change("segments", "no segment added", "this model has no segments, or none is added to a single text",
                     lambda: [(parts.model, "segments", None)])


def relative_positions(parts):
    """The buckets of relative positions are bidirectional in the encoder, and causal in the decoder."""
    for table in parts.relative:
        side, now = ("decoder", "causal") if table.causal else ("encoder", "bidirectional")
        other = "bidirectional" if table.causal else "causal"
        yield Change("buckets of relative positions", f"{other} buckets of relative positions in the {side}",
                     f"the buckets are {other} there, not {now}",
                     lambda table=table: other_buckets(parts, table, causal=not table.causal))
        for distance in DISTANCES:
            if distance != table.max_distance and table.near < distance:
                yield Change("buckets of relative positions", f"max_distance = {distance} for the {side}",
                             f"relative_attention_max_distance should be {distance} there, not {table.max_distance}",
                             lambda table=table, distance=distance: other_buckets(parts, table, max_distance=distance),
                             rare=True)
        orders = {"buckets": lambda weight: weight[::-1], "heads": lambda weight: weight[:, ::-1],
                  "two directions": lambda weight: np.roll(weight, len(weight) // 2, 0)}
        for which, reordered in orders.items():
            def reordered_rows(table=table, reordered=reordered):
                return [(table, "weight", Parameter(reordered(table.weight.data)))]

            yield Change("buckets of relative positions", f"the {which} of the relative positions of the {side} in the other "
                         "order", f"these {which} are in another order in the file", reordered_rows,
                         rare=True, mirrors=which == "two directions")


def other_buckets(parts, table, **changes):
    """Returns the edits that give attention a RelativePositionBias with the same weights and other buckets."""
    settings = {"max_distance": table.max_distance, "causal": table.causal} | changes
    other = RelativePositionBias(table.num_heads, table.num_buckets, **settings)
    other.weight = table.weight
    return [(module, "position_bias", other) for module in parts.modules
            if getattr(module, "position_bias", None) is table]


def output_layer(parts):
    """The output layer is tied, untied, or multiplied by a factor wrongly."""
    model = parts.model
    output = getattr(model, "output", None)
    if isinstance(output, Unembedding):
        d_model = output.weight.data.shape[1]
        if output.factor == 1:
            yield Change("factor of the output", "the output multiplied by 1 / sqrt(d_model)",
                         "the factor of a tied output layer is missing", lambda: [(output, "factor", d_model ** -0.5)],
                         tempers=True)
        else:
            yield Change("factor of the output", f"the output not multiplied by {output.factor:.4g}",
                         "the output layer should have no factor", lambda: [(output, "factor", 1.0)], tempers=True)
        weight = head_in_file(model, output.weight.data.shape)
        if weight is not None:
            yield Change("tying of the output layer", "the output layer of the file instead of the embedding",
                         "the output layer is not tied to the embedding",
                         lambda: [(model, "output", linear_of(weight.T))])
    elif isinstance(output, Linear) and not isinstance(model, TextEncoder):
        embedding = parts.word_embeddings()[-1] if not hasattr(model, "target_embedding") else model.target_embedding
        for factor, done in ((1.0, ""), (embedding.d_model ** -0.5, " and multiplied by 1 / sqrt(d_model)")):
            if embedding.weight.data.shape == output.weight.data.shape[::-1]:
                yield Change("tying of the output layer", f"the output layer tied to the embedding{done}",
                             "the output layer should share the matrix of the embedding",
                             lambda factor=factor: [(model, "output", Unembedding(embedding.weight, factor))])


def head_in_file(model, shape):
    """Returns the output matrix that the checkpoint holds but the model did not take, or None."""
    unused = getattr(getattr(model, "origin", None), "unused", None) or {}
    for name, array in unused.items():
        if name.endswith(("lm_head.weight", "output.weight", "decoder.weight")) and np.shape(array) == shape:
            return np.asarray(array)
    return None


def linear_of(weight):
    linear = Linear(*weight.shape, bias=False)
    linear.weight = Parameter(weight)
    return linear
