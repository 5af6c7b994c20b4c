"""Times the training step of a configuration on MPI ranks.

    mpiexec -n N python -m numpy_transformer.bench.mpi_steps NAME

The first line of output is the number of ranks. After that, each line on the standard input of the first rank is a number
of steps to run, and the answer is a line with the milliseconds of each step, as JSON.
"""

import json
import sys
import time

from mpi4py import MPI

from ..training.memory import keep_freed_memory
from .configs import CONFIGS
from .measure import timer, trainer_of

COMM = MPI.COMM_WORLD


def next_count():
    """Returns the number of steps to run, or None at the end of the input.

    The other ranks sleep until then, because MPI's own wait would keep a core busy.
    """
    if COMM.rank == 0:
        line = sys.stdin.readline()
        count = int(line) if line.strip() else None
        for rank in range(1, COMM.size):
            COMM.send(count, rank)
        return count
    while not COMM.iprobe(source=0):
        time.sleep(1e-3)
    return COMM.recv(source=0)


def main(name):
    keep_freed_memory()
    trainer, batch = trainer_of(CONFIGS[name], 1, COMM)
    run = timer(lambda: trainer.step([batch]))
    if COMM.rank == 0:
        print(COMM.size, flush=True)
    while (count := next_count()) is not None:
        times = run(count)
        if COMM.rank == 0:
            print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
