"""Beam search: several hypotheses for each source are extended side by side, and the best are kept."""

import numpy as np

from ..argument_checks import check_positive
from ..layers.softmax import LogSoftmax
from ..models import EncoderDecoder
from .continuation import TargetContinuation


def beam_search(model: EncoderDecoder, source: np.ndarray, bos: int, eos: int, max_len: int, beam: int = 4,
                length_penalty: float = 0.6, n_best: int = 1, cached: bool = True) -> list[list[tuple[list[int], float]]]:
    """Returns for each source its n_best targets, best first, as a list of (ids, score).

    score = log P(ids) / lp,   lp = ((5 + length) / 6) ** length_penalty,   where length counts eos.

    At each step the `beam` most likely unfinished hypotheses of each source are kept. A hypothesis is finished when eos
    makes it one of the `beam` most likely, or when it has max_len tokens. The search for a source ends with `beam`
    finished hypotheses, or when no unfinished one can still enter the n_best. With beam=1 this is greedy decoding.

    Parameters:
        model : an EncoderDecoder in eval()
        source : (B, S) ids
        bos, eos : ids; the ids of a result do not include bos, but include the eos that ended them
        max_len : int, the length of the longest result
        beam : int (4), the number of hypotheses kept at each step
        length_penalty : float (0.6); 0 compares plain log probabilities, which favors short targets
        n_best : int (1), at most beam
        cached : bool (True), keep keys and values instead of computing them again for each token
    Raises: ValueError for a setting outside its range, or a model in train().
    Source: Wu et al. 2016, equation 14 (without coverage); beam 4 and 0.6: Vaswani et al. 2017, section 6.1.
    """
    check_positive(max_len=max_len, beam=beam, n_best=n_best)
    if n_best > beam:
        raise ValueError(f"n_best = {n_best} is above beam = {beam}, the number of hypotheses kept; widen the beam")
    if not 0 <= length_penalty < np.inf:
        raise ValueError(f"length_penalty = {length_penalty} must not be negative; 0.6 is usual, 0 switches it off")
    state = TargetContinuation(model, source, bos, cached)
    finished: list[list] = [[] for _ in state.ids]          # for each source: (ids, score)
    searched = list(range(len(finished)))                   # unfinished sources; each has `beam` rows of state
    state.select(np.repeat(searched, beam))
    scores = np.full((len(searched), beam), -np.inf)
    scores[:, 0] = 0                                        # the rows of a source are still equal: use one of them
    highest_penalty = penalty(max_len, length_penalty)
    for length in range(1, max_len + 1):
        log_p = LogSoftmax().eval()(state.logits().astype(np.float64))
        totals = (scores.reshape(-1, 1) + log_p).reshape(len(searched), -1)
        still_searched = []
        kept = []                                           # (row of state, token, total) of the hypotheses that go on
        for i, n in enumerate(searched):
            ended, alive = expand(totals[i], beam, log_p.shape[-1], eos, last=length == max_len)
            for row, token, total in ended:
                ids = [*state.written[i * beam + row].tolist(), token]
                finished[n].append((ids, total / penalty(length, length_penalty)))
            if not alive or len(finished[n]) >= beam:
                continue
            best_possible = alive[0][2] / highest_penalty   # a total can only fall
            if sum(score >= best_possible for _, score in finished[n]) < n_best:
                still_searched.append(n)
                row, token, _ = alive[0]
                alive += [(row, token, -np.inf)] * (beam - len(alive))      # fill up the rows; -inf is never chosen
                kept += [(i * beam + row, token, total) for row, token, total in alive]
        if not still_searched:
            break
        rows, tokens, scores = map(np.array, zip(*kept))
        searched = still_searched
        state.select(rows)
        state.append(tokens)
    return [sorted(targets, key=lambda target: -target[1])[:n_best] for targets in finished]


def penalty(length, length_penalty):
    return ((5 + length) / 6) ** length_penalty


def expand(totals, beam, vocab_size, eos, last):
    """Returns the extended hypotheses of one source, those that end and those that go on, as (row, token, total).

    totals (beam * V) are the log probabilities of all extensions. At most `beam` of them end in eos, so the best
    2 beam hold `beam` that go on, if there are as many.
    """
    ended: list[tuple[int, int, float]] = []
    alive: list[tuple[int, int, float]] = []
    for rank, choice in enumerate(largest(totals, 2 * beam)):
        row, token = divmod(int(choice), vocab_size)
        total = float(totals[choice])
        if total == -np.inf:
            break
        if token == eos or last:
            if rank < beam:
                ended.append((row, token, total))
        elif len(alive) < beam:
            alive.append((row, token, total))
    return ended, alive


def largest(values, count):
    """Returns the indices of the `count` largest values, the largest first, and equal values in their order."""
    least = np.partition(values, -count)[-count] if count < len(values) else -np.inf
    chosen = np.flatnonzero(values >= least)
    return chosen[np.argsort(-values[chosen], kind="stable")][:count]
