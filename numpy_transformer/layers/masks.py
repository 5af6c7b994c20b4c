"""Masks: boolean arrays in which True means "may attend"; and the component that applies one to scores."""

import numpy as np

from ..argument_checks import as_integers, called, check_positive
from ..module import Module


def causal_mask(T: int, offset: int = 0) -> np.ndarray:
    """Returns the mask (1, 1, T, offset + T) in which query t may attend to the keys 0 to offset + t.

    Parameters: T : int, the number of queries; offset : int (0), the number of keys before those of the queries
    Source: Vaswani et al. 2017, section 3.2.3.
    """
    check_positive(T=T)
    return np.tri(T, offset + T, offset, dtype=bool)[None, None]


def padding_mask(ids: np.ndarray, pad_id: int = 0) -> np.ndarray:
    """Returns the mask (B, 1, 1, S) for ids (B, S), or (1, 1, 1, S) for ids (S,), that hides all tokens with pad_id.

    Parameters: ids : integers; pad_id : int (0)
    Raises: TypeError for ids that are no integers, and ValueError for another shape or rows of different lengths.
    """
    ids = as_integers(ids, "token ids")
    if ids.ndim not in (1, 2):
        raise ValueError(f"{called()}padding_mask takes ids of shape (B, S) or (S,), got shape {ids.shape}; pass the token "
                         "ids themselves")
    return np.atleast_2d(ids != pad_id)[:, None, None, :]


def combine_masks(*masks: np.ndarray | None) -> np.ndarray | None:
    """Returns the mask that allows what all given masks allow. None allows everything; only Nones give None.

    Raises: ValueError if the shapes do not broadcast.
    """
    boolean_masks = [check_boolean(mask) for mask in masks if mask is not None]
    if not boolean_masks:
        return None
    combined = boolean_masks[0]
    for mask in boolean_masks[1:]:
        try:
            combined = combined & mask
        except ValueError:
            raise ValueError(f"{called()}masks of shapes {combined.shape} and {mask.shape} do not broadcast together; their "
                             "axes are (batch or 1, heads or 1, queries or 1, keys)") from None
    return combined


def check_boolean(mask: np.ndarray) -> np.ndarray:
    """Returns the mask as an array; raises an error unless it is boolean and 2-D or 4-D."""
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(f"{called()}a mask must be boolean, True = may attend, got dtype {mask.dtype}; "
                        "write mask == 1 for a mask of 1 and 0, mask == 0 for one of 0 and -inf")
    if mask.ndim not in (2, 4):
        remedy = "mask[:, None] gives every head the same mask" if mask.ndim == 3 else "add the missing axes with None"
        raise ValueError(f"{called()}a mask is 2-D (T, S) or 4-D (B or 1, H or 1, T or 1, S), got {mask.ndim}-D "
                         f"{mask.shape}; {remedy}")
    return mask


def fit_mask(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the mask, checked, in a shape that broadcasts to scores of this shape."""
    mask = check_boolean(mask)
    while mask.ndim > max(len(shape), 2) and mask.shape[0] == 1:
        mask = mask[0]                          # scores of a single sequence have no batch axis
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{called()}a mask of shape {mask.shape} does not broadcast to scores of shape {shape}; "
                         "its axes are (batch or 1, heads or 1, queries or 1, keys)")
    return mask


def mask_scores(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Writes -inf into the scores, in place, where the mask is False; returns them."""
    np.copyto(scores, -np.inf, where=~mask)
    return scores


class AttentionMask(Module):
    """Masks scores: where the mask is False the score becomes -inf, so that its softmax weight is exactly 0.

    Shape: scores (..., T, S), mask None or boolean (True = may attend), 2-D (T, S) or 4-D -> scores (..., T, S)
    Backward: dscores = dy where the mask is True, exactly 0 where it is False
    Raises: TypeError if the mask is not boolean; ValueError if it is 3-D, because its batch axis would be aligned with
        the heads, or if it does not broadcast to the scores.
    Source: Vaswani et al. 2017, section 3.2.3 ("setting to -inf").
    """

    def forward(self, scores: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        if mask is not None:
            mask = fit_mask(mask, scores.shape)
        self.remember(mask)
        return scores if mask is None else mask_scores(scores.copy(), mask)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        mask = self.recall()
        return dy if mask is None else np.where(mask, dy, 0)
