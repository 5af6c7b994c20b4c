import numpy as np
import pytest

import numpy_transformer as nt


def test_causal_mask_is_the_lower_triangle():
    mask = nt.causal_mask(4)
    assert mask.shape == (1, 1, 4, 4) and mask.dtype == bool
    for t in range(4):
        for s in range(4):
            assert mask[0, 0, t, s] == (s <= t)


def test_padding_mask_hides_padding_as_keys():
    ids = np.array([[4, 2, 0], [7, 0, 0]])
    mask = nt.padding_mask(ids)
    assert mask.shape == (2, 1, 1, 3)
    np.testing.assert_array_equal(mask[:, 0, 0], [[True, True, False], [True, False, False]])
    np.testing.assert_array_equal(nt.padding_mask([4, 2, 0], pad_id=2), [[[[True, False, True]]]])


def test_combined_masks_allow_what_all_allow():
    padding = nt.padding_mask(np.array([[4, 2, 0], [7, 0, 0]]))
    mask = nt.combine_masks(nt.causal_mask(3), None, padding)
    assert mask.shape == (2, 1, 3, 3)
    np.testing.assert_array_equal(mask[1, 0], [[1, 0, 0], [1, 0, 0], [1, 0, 0]])
    assert nt.combine_masks(None, None) is None


@pytest.mark.parametrize("mask, error, match", [
    (np.tri(5), TypeError, "boolean, True = may attend"),
    (np.tri(5, dtype=int), TypeError, "mask == 1"),
    (np.ones((3, 5, 5), bool), ValueError, r"mask\[:, None\]"),
    (np.ones(5, bool), ValueError, "2-D"),
    (np.ones((1, 1, 1, 5, 5), bool), ValueError, "2-D"),
    (np.ones((4, 5), bool), ValueError, "does not broadcast"),
    (np.ones((7, 1, 5, 5), bool), ValueError, "does not broadcast"),
    (np.ones((6, 1, 5, 5), bool), ValueError, "does not broadcast"),      # more rows than the scores have
])
def test_masks_that_mislead_are_refused(mask, error, match):
    with pytest.raises(error, match=match):
        nt.AttentionMask()(np.zeros((3, 2, 5, 5)), mask)


@pytest.mark.parametrize("mask", [np.tri(5, 4, dtype=bool), np.tri(5, 4, dtype=bool)[None, None]])
@pytest.mark.parametrize("shape", [(5, 4), (2, 5, 4), (3, 2, 5, 4)])
def test_masks_of_both_kinds_fit_scores_of_every_rank(mask, shape):
    y = nt.AttentionMask()(np.zeros(shape), mask)
    assert y.shape == shape
    np.testing.assert_array_equal(np.isneginf(y), np.broadcast_to(~np.tri(5, 4, dtype=bool), shape))


def test_masks_that_do_not_fit_each_other_are_refused():
    with pytest.raises(ValueError, match=r"\(1, 1, 3, 3\) and \(1, 1, 4, 4\) do not broadcast"):
        nt.combine_masks(nt.causal_mask(3), nt.causal_mask(4))


def test_combining_refuses_what_attention_would_refuse():
    with pytest.raises(TypeError, match="boolean"):
        nt.combine_masks(nt.causal_mask(3), np.ones((3, 3)))
