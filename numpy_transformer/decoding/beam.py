"""Beam search: the best of several continuations that are followed side by side."""

import numpy as np

from ..layers.softmax import LogSoftmax
from ..argument_checks import check_positive
from .continuation import TargetContinuation


def beam_search(model, source, bos, eos, max_len, beam=4, length_penalty=0.6, n_best=1, cached=True):
    """For each source its n_best targets, best first, as a list of (ids, score).

    score = log P(ids) / lp,   lp = ((5 + length) / 6) ** length_penalty,   length counting eos.

    Of each source the `beam` likeliest unfinished targets go on. A target is finished when eos makes it one of the
    `beam` likeliest, or when it has max_len tokens. The search of a source ends with `beam` finished targets, or
    when no unfinished one can still pass the n_best found. With beam=1 this is greedy decoding.

    Parameters:
        model : an EncoderDecoder in eval()
        source : (B, S) ids
        bos, eos : ids; the ids of a result begin behind bos and hold the eos that ended them
        max_len, beam, n_best : int, n_best at most beam
        length_penalty : 0 compares plain log probabilities, which favours short targets
        cached : bool, keep keys and values instead of computing them again for each token

    Raises:
        ValueError for a choice outside its range.

    Source: Wu et al. 2016, equation 14 (without coverage); beam 4 and 0.6: Vaswani et al. 2017, section 6.1.
    """
    check_positive(max_len=max_len, beam=beam, n_best=n_best)
    if n_best > beam:
        raise ValueError(f"n_best = {n_best} is above beam = {beam}: so many targets are followed; widen the beam")
    if not 0 <= length_penalty < np.inf:
        raise ValueError(f"length_penalty = {length_penalty} must not be negative; 0.6 is usual, 0 switches it off")
    state = TargetContinuation(model, source, bos, cached)
    finished = [[] for _ in state.ids]
    searched = list(range(len(finished)))                   # sources that go on, `beam` rows of state each
    state.select(np.repeat(searched, beam))
    scores = np.full((len(searched), beam), -np.inf)
    scores[:, 0] = 0                                        # the rows of a source are still the same: use one
    for length in range(1, max_len + 1):
        log_p = LogSoftmax().eval()(state.logits().astype(np.float64))
        totals = (scores.reshape(-1, 1) + log_p).reshape(len(searched), -1)
        here, longest = ((5 + np.array([length, max_len])) / 6) ** length_penalty
        going, kept = [], []
        for i, n in enumerate(searched):
            ended, alive = expand(totals[i], beam, log_p.shape[-1], eos, last=length == max_len)
            finished[n] += [([*state.written[i * beam + row].tolist(), token], total / here)
                            for row, token, total in ended]
            reachable = alive[0][2] / longest if alive else -np.inf     # a total only falls
            if len(finished[n]) < beam and sum(score >= reachable for _, score in finished[n]) < n_best and alive:
                going.append(n)
                alive += [(*alive[0][:2], -np.inf)] * (beam - len(alive))
                kept += [(i * beam + row, token, total) for row, token, total in alive]
        if not going:
            break
        rows, tokens, scores = map(np.array, zip(*kept))
        searched = going
        state.select(rows)
        state.append(tokens)
    return [sorted(targets, key=lambda target: -target[1])[:n_best] for targets in finished]


def expand(totals, beam, vocab_size, eos, last):
    """The next targets of one source from totals (beam * V): those that end, those that go on, as (row, token, total).

    At most `beam` choices end in eos, so 2 beam choices hold `beam` that go on, where there are so many.
    """
    ended, alive = [], []
    for rank, choice in enumerate(largest(totals, 2 * beam)):
        row, token = divmod(int(choice), vocab_size)
        if totals[choice] == -np.inf:
            break
        if token == eos or last:
            if rank < beam:
                ended.append((row, token, float(totals[choice])))
        elif len(alive) < beam:
            alive.append((row, token, float(totals[choice])))
    return ended, alive


def largest(values, count):
    """Indices of the `count` largest values, the largest first, of equal ones the first."""
    least = np.partition(values, -count)[-count] if count < len(values) else -np.inf
    chosen = np.flatnonzero(values >= least)
    return chosen[np.argsort(-values[chosen], kind="stable")][:count]
