"""How the heads of attention lie in memory: beside each other in the features, or on an axis of their own."""


def split_heads(x, num_heads):
    """(..., T, H d) -> (..., H, T, d), a view: head h holds the features from h d to (h + 1) d."""
    return x.reshape(*x.shape[:-1], num_heads, -1).swapaxes(-2, -3)


def merge_heads(x):
    """(..., H, T, d) -> (..., T, H d), the inverse of split_heads."""
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], -1)


def repeat_heads(k, q):
    """(..., G, S, n) -> (..., H, S, n), where H is the number of heads of q: H/G neighboring heads are the same.

    With H == G this returns k itself.
    """
    if k.shape[:-2] == q.shape[:-2]:
        return k
    return k.repeat(q.shape[-3] // k.shape[-3], -3)


def sum_over_groups(dk, k):
    """(..., H, S, n) -> (..., G, S, n), the shape of k: what the gradient of k is if repeat_heads(k, q) has dk."""
    if dk.shape == k.shape:
        return dk
    return dk.reshape(*k.shape[:-2], -1, *k.shape[-2:]).sum(-3)


def stack_groups(x, k):
    """(..., H, T, n) -> (..., G, H/G T, n): puts the heads that share one of the G heads of k into one matrix."""
    return x.reshape(*k.shape[:-2], -1, x.shape[-1])
