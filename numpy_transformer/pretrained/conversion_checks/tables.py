"""The tables at the ends of a model (embedding, positions, output layer) with features, rows or numbers in another order."""

import functools

import numpy as np

from .changes import Change
from .embeddings_and_output import has_own_output, word_weights

POSITIONS = "the table of positions"
READINGS = {                            # by what is done: function of a table and of the axis of its features
    "with its features in reverse order": np.flip,
    "with its features moved up by one": functools.partial(np.roll, shift=1),
    "with its features moved down by one": functools.partial(np.roll, shift=-1),
    "with the other sign": lambda table, axis: -table,
    "read in the other shape and transposed": lambda table, axis: reshaped_rows(table.T if axis == 0 else table, axis),
}


def reshaped_rows(rows, axis):
    """Returns the table whose rows (V, d) were stored as (d, V), with its features along the axis."""
    stored = rows.reshape(rows.shape[::-1])
    return stored if axis == 0 else stored.T


def changes_of_tables(parts):
    """Yields the changes of each table alone, and the reverse order of the rows of words."""
    tables = list(tables_of(parts))
    for called, weights, axis in tables:
        for done, read in READINGS.items():
            yield Change("reading of a table", f"{called} {done}",
                         f"the numbers of {called} are not where, or not with the sign, that the model expects",
                         lambda weights=weights, axis=axis, read=read: [
                             edit for weight in weights for edit in parts.replace(weight, read(weight.data, axis=axis))],
                         rare=True)
    of_words = [table for table in tables if table[0] != POSITIONS]
    homes = {"all tokens": of_words}
    if len(of_words) > 1:
        homes |= {f"the tokens in {called}": [(called, weights, axis)] for called, weights, axis in of_words}
    for called, chosen in homes.items():
        yield Change("ids of the tokens", f"the ids of {called} in reverse order",
                     "the rows of the vocabulary are stored from the last id to the first",
                     lambda chosen=chosen: [
                         edit for _, weights, axis in chosen for weight in weights
                         for edit in parts.replace(weight, np.flip(weight.data, axis=1 - axis))], rare=True)


def tables_of(parts):
    """Yields (what the table is called, its Parameters, the axis of their features)."""
    yield "the embedding", word_weights(parts), 1
    if parts.position_tables:
        yield POSITIONS, [table.weight for table in parts.position_tables], 1
    if has_own_output(parts.model):
        yield "the output layer", [parts.model.output.weight], 0
