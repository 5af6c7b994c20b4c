"""What the ranks of an MPI communicator do together. With `comm` None each function does it for one process.

An error on one rank stops all of them: a rank that waited for one that has stopped would wait forever.
"""

import contextlib
import hashlib
import os
import pickle

import numpy as np

from .process import cores

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")     # the number of ranks, as MPICH and Open MPI set it


class RankError(RuntimeError):
    """Another rank has raised an error, and so all ranks stop."""


def world():
    """MPI.COMM_WORLD if this process was started by mpiexec with others, else None.

    Raises ValueError if it was, and mpi4py is missing.
    """
    alone = all(os.environ.get(name, "1") == "1" for name in SIZES)
    if alone and "PMIX_RANK" not in os.environ:             # which is all that srun sets for Open MPI
        return None
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ValueError("this process was started by mpiexec, but mpi4py cannot be imported "
                         f"({error}); pip install 'numpy-transformer[mpi]', or start it without mpiexec") from error
    return MPI.COMM_WORLD if MPI.COMM_WORLD.size > 1 else None


def is_first(comm):
    return comm is None or comm.rank == 0


def silence_other_ranks(comm):
    """Let only the first rank write to standard output and standard error."""
    if not is_first(comm):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)


def gather(comm, function):
    """The results of function() on all ranks, in the order of the ranks.

    If it fails on any rank, the first of these raises its own error and all others RankError.
    """
    if comm is None:
        return [function()]
    result = error = message = None
    try:
        result = function()
    except Exception as raised:
        error, message = raised, f"{type(raised).__name__}: {raised}"
    results, messages = zip(*comm.allgather((result, message)))
    failed = [rank for rank in range(comm.size) if messages[rank] is not None]
    if not failed:
        return list(results)
    if failed[0] == comm.rank:
        raise error
    raise RankError(f"all ranks stop, since rank {failed[0]} raised {messages[failed[0]]}") from error


@contextlib.contextmanager
def together(comm):
    """All ranks leave the block without an error, or all raise one as `gather` does. No other call of this page inside."""
    error = None
    try:
        yield
    except Exception as raised:
        if comm is None:
            raise
        error = raised

    def result():
        if error is not None:
            raise error

    gather(comm, result)


def anywhere(comm, condition):
    """Returns True if the condition holds on any rank."""
    return bool(condition) if comm is None else any(comm.allgather(bool(condition)))


def sum_gradients(comm, parameters, buffer=None):
    """Replace the gradients by their sum over all ranks: one Allreduce of one flat buffer, which is returned for reuse."""
    if comm is None:
        return None
    from mpi4py import MPI

    buffer = np.concatenate([parameter.grad.ravel() for parameter in parameters], out=buffer)
    comm.Allreduce(MPI.IN_PLACE, buffer)
    start = 0
    for parameter in parameters:
        parameter.grad = buffer[start:start + parameter.grad.size].reshape(parameter.grad.shape)
        start += parameter.grad.size
    return buffer


def same(comm, what, function):
    """The result of function() on this rank. Raises ValueError on all ranks if any of them has another result."""
    if comm is None:
        return function()
    own = []

    def fingerprint():
        own.append(function())
        return hashlib.blake2b(pickle.dumps(own[0], protocol=5), digest_size=16).digest()

    found = gather(comm, fingerprint)
    differ = [str(rank) for rank in range(comm.size) if found[rank] != found[0]]
    if differ:
        raise ValueError(f"{what} of rank {', '.join(differ)} differ from those of rank 0; give all ranks the same model, "
                         "seed, batches and arguments")
    return own[0]


def cores_per_rank(comm):
    """Number of cores for each rank of this machine, None for a single process."""
    if comm is None or comm.size == 1:
        return None
    from mpi4py import MPI

    neighbors = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = neighbors.size
    neighbors.Free()
    return max(1, cores() // ranks)
