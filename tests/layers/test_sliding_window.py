"""A sliding window of attention, against a list of the keys that each query may see."""

import numpy as np
import pytest

import numpy_transformer as nt


@pytest.mark.parametrize("window, T, S", [(1, 4, 4), (3, 5, 5), (3, 2, 6), (4, 1, 7), (9, 5, 6)])
def test_a_query_sees_itself_and_the_tokens_shortly_before_it(window, T, S):
    layer = nt.SlidingWindow(window)
    scores = np.random.default_rng(0).standard_normal((2, 3, T, S))
    y, dy = layer(scores), layer.backward(np.ones_like(scores))
    for t in range(T):
        far = [s for s in range(S) if s <= S - T + t - window]
        near = [s for s in range(S) if s not in far]
        assert np.all(np.isneginf(y[:, :, t, far])) and not dy[:, :, t, far].any()
        np.testing.assert_array_equal(y[:, :, t, near], scores[:, :, t, near])
        assert np.all(dy[:, :, t, near] == 1)


def test_a_window_of_no_token_is_refused():
    with pytest.raises(ValueError, match="window must be"):
        nt.SlidingWindow(0)


@pytest.mark.parametrize("window, num_sinks, T, S", [(1, 2, 4, 4), (2, 1, 6, 6), (3, 2, 2, 9), (2, 5, 1, 7), (4, 9, 3, 5)])
def test_a_window_with_kept_tokens_sees_the_first_tokens_too(window, num_sinks, T, S):
    layer = nt.SinkWindow(window, num_sinks)
    scores = np.random.default_rng(0).standard_normal((2, 3, T, S))
    y, dy = layer(scores), layer.backward(np.ones_like(scores))
    for t in range(T):
        seen = [s for s in range(S) if s in range(num_sinks) or s > S - T + t - window]
        far = [s for s in range(S) if s not in seen]
        assert np.all(np.isneginf(y[:, :, t, far])) and not dy[:, :, t, far].any()
        np.testing.assert_array_equal(y[:, :, t, seen], scores[:, :, t, seen])
        assert np.all(dy[:, :, t, seen] == 1)


@pytest.mark.parametrize("window, num_sinks, named", [(0, 1, "window must be"), (2, 0, "num_sinks must be")])
def test_a_window_with_kept_tokens_needs_both(window, num_sinks, named):
    with pytest.raises(ValueError, match=named):
        nt.SinkWindow(window, num_sinks)
