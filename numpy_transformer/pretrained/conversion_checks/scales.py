"""Weights that were multiplied by a factor: an update that was added twice, a scale that was left out, a wrong sign."""

from ...module import Parameter
from .changes import Change

FACTORS = {2.0: "doubled", 0.5: "halved", -1.0: "with the other sign"}
FEED_FORWARD = "gate", "up", "down"


def changes_of_scales(parts):
    """Yields the changes of the scale of each kind of matrix; the scale of the queries is that of the scores."""
    for called, topic, owners in scaled_parts(parts):
        for factor, done in FACTORS.items():
            def scaled(owners=owners, factor=factor):
                return [(owner, "weight", Parameter(owner.weight.data * factor)) for owner in owners]

            verdict = f"the scale of {called} is wrong" if factor > 0 else f"the sign of {called} is wrong"
            yield Change(topic, f"{called} {done}", verdict, scaled, rare=True, generic=factor > 0)


def scaled_parts(parts):
    """Yields (what it is called, the topic, modules with the attribute weight)."""
    # a factor of k is one of q, and a factor of v one of the output
    for name in ("query", "output") if parts.attentions else ():
        yield f"the {name} matrix", "scale of a matrix", [getattr(attention, name) for attention in parts.attentions]
    for name in FEED_FORWARD:
        layers = [getattr(layer, name) for layer in parts.feed_forwards if hasattr(layer, name)]
        if layers:
            yield f"the matrix `{name}` of the feed-forward layers", "scale of a matrix", layers
    if parts.position_tables:
        yield "the table of positions", "scale of the positions", parts.position_tables
    for table in parts.relative:
        yield f"the relative positions of the {parts.side_of(table)}", "scale of the positions", [table]
