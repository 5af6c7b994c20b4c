"""Times the jobs of published models, such as GPT-2 small: ours and PyTorch's, each in a process of its own.

The models are large, so their memory counts too: that of a process which does nothing else.
"""

import statistics

from ..module import unfilled
from .measure import ROUNDS, TURN, in_turns, python_process, quartiles

TITLES = {"step": "training step", "forward": "forward pass", "decode": "token with the key-value cache",
          "embed": "vectors of a batch of texts"}


def measure_job(config, job, threads, with_torch=False, turn=TURN, rounds=ROUNDS, advance=lambda: None):
    """Returns a row of results for one job of a configuration; the parameters are those of `measure`."""
    children = {}
    try:
        children["ours"] = python_process("jobs", config.name, threads, job)
        if with_torch:
            children["torch"] = python_process("torch_baseline", config.name, threads, job)
        times = in_turns({name: child.times for name, child in children.items()}, turn, rounds, advance)
        peaks = {name: child.peak_mb() for name, child in children.items()}
    finally:
        for child in children.values():
            child.close()
    with unfilled():
        parameters = config.model().num_parameters()
    row = {"config": config.name, "job": job, "threads": threads, "parameters": parameters}
    for name, milliseconds in times.items():
        row |= {f"{name}_ms": statistics.median(milliseconds), f"{name}_quartiles_ms": quartiles(milliseconds),
                f"{name}_threads": children[name].size, f"{name}_peak_mb": peaks[name]}
    if with_torch:
        ratios = [statistics.median(ours) / statistics.median(torch)
                  for ours, torch in zip(by_round(times["ours"], rounds), by_round(times["torch"], rounds))]
        row |= {"ratio_torch": row["ours_ms"] / row["torch_ms"], "ratio_quartiles": quartiles(ratios)}
        if None not in peaks.values():
            row["ratio_peak"] = peaks["ours"] / peaks["torch"]
    return row


def by_round(times, rounds):
    """Returns the times of each round; every round has as many."""
    count = len(times) // rounds
    return [times[start:start + count] for start in range(0, len(times), count)]
