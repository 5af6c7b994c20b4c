"""Collective operations of the ranks of an MPI communicator. With comm=None, each function works for a single process.

An error on one rank stops all ranks, because a rank that waited for one that has stopped would wait forever.
"""

import contextlib
import hashlib
import os
import pickle
from typing import Any

import numpy as np

from ..threads import cores

# Variables in which MPICH and Open MPI give the number of ranks
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")


class RankError(RuntimeError):
    """Raised on all other ranks when one rank has raised an error."""


def world():
    """Returns MPI.COMM_WORLD if mpiexec started this process together with others, else None.

    Raises ValueError if mpiexec did and mpi4py is not installed.
    """
    alone = all(os.environ.get(name, "1") == "1" for name in SIZES)
    if alone and "PMIX_RANK" not in os.environ:             # the only variable that srun sets for Open MPI
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
    """Discard standard output and standard error of all ranks but the first."""
    if not is_first(comm):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)


def gather(comm, function):
    """Calls function() on every rank; returns the list of all results, in the order of the ranks.

    If it fails on some ranks, the first of these raises its own error, and all other ranks raise RankError.
    """
    if comm is None:
        return [function()]
    result: Any = None
    error: Exception | None = None
    message: str | None = None
    try:
        result = function()
    except Exception as raised:
        error, message = raised, f"{type(raised).__name__}: {raised}"
    results, messages = zip(*comm.allgather((result, message)))
    failed = [rank for rank in range(comm.size) if messages[rank] is not None]
    if not failed:
        return list(results)
    if error is not None and failed[0] == comm.rank:
        raise error
    raise RankError(f"all ranks stop, since rank {failed[0]} raised {messages[failed[0]]}") from error


@contextlib.contextmanager
def together(comm):
    """If the block raises an error on any rank, all ranks raise one, as in `gather`.

    The block must not call other functions of this module.
    """
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


def on_any_rank(comm, condition):
    """Returns True if the condition holds on any rank."""
    return bool(condition) if comm is None else any(comm.allgather(bool(condition)))


def sum_gradients(comm, parameters, buffer=None):
    """Replaces the gradients by their sum over all ranks: one Allreduce of a flat buffer, which is returned for reuse."""
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


def same_on_all_ranks(comm, what, function):
    """Returns the result of function(). Raises ValueError on all ranks if the results of the ranks differ."""
    if comm is None:
        return function()
    own = []

    def fingerprint():
        own.append(function())
        return hashlib.blake2b(pickle.dumps(own[0], protocol=5), digest_size=16).digest()

    fingerprints = gather(comm, fingerprint)
    differ = [str(rank) for rank in range(comm.size) if fingerprints[rank] != fingerprints[0]]
    if differ:
        raise ValueError(f"{what} of rank {', '.join(differ)} differ from those of rank 0; give all ranks the same model, "
                         "seed, batches and arguments")
    return own[0]


def cores_per_rank(comm):
    """Returns the number of CPU cores for each rank on this machine, or None for a single process."""
    if comm is None or comm.size == 1:
        return None
    from mpi4py import MPI

    neighbors = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = neighbors.size
    neighbors.Free()
    return max(1, cores() // ranks)
