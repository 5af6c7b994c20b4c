"""Matrices that were reshaped to (in, out) where they had to be transposed."""

from ...module import Parameter
from .changes import Change


def changes_of_reshaped(parts):
    """Yields a change for each kind of matrix, then for those of attention, of the feed-forward layers, and for all."""
    if not parts.attentions or not parts.feed_forwards:
        return
    kinds = {name: [getattr(attention, name) for attention in parts.attentions]
             for name in ("query", "key", "value", "output")}
    feed_forward = {name: [getattr(layer, name) for layer in parts.feed_forwards]
                    for name in ("gate", "up", "down") if hasattr(parts.feed_forwards[0], name)}
    choices = {f"the {name} matrix": linears for name, linears in kinds.items()}
    choices |= {f"the matrix `{name}` of the feed-forward layers": linears for name, linears in feed_forward.items()}
    choices["the query, key, value and output matrices"] = sum(kinds.values(), [])
    choices["the matrices of the feed-forward layers"] = sum(feed_forward.values(), [])
    choices["all matrices of the blocks"] = sum((*kinds.values(), *feed_forward.values()), [])
    for which, linears in choices.items():
        if all(linear.d_in == linear.d_out for linear in linears):
            continue                            # that is the same as "transposed"
        yield Change("matrix reshaped", f"{which} read as (out, in) and transposed",
                     "the matrix was reshaped to (in, out) where it had to be transposed",
                     lambda linears=linears: [(linear, "weight", transposed_again(linear)) for linear in linears])
        yield Change("matrix reshaped", f"{which} transposed and reshaped to (in, out)",
                     "the matrix was transposed and then reshaped to its old shape",
                     lambda linears=linears: [(linear, "weight", reshaped_again(linear)) for linear in linears])


def reshaped_again(linear):
    """Returns the weight that was reshaped to (out, in) before it was transposed."""
    return Parameter(linear.weight.data.T.reshape(linear.weight.data.shape))


def transposed_again(linear):
    """Returns the weight whose numbers in the file, in the same order, have the shape (out, in)."""
    return Parameter(linear.weight.data.reshape(linear.d_out, linear.d_in).T)
