"""Training without MPI, or with a communicator of one process. test_mpi_ranks.py starts several."""

import sys

import pytest

import numpy_transformer as nt
from numpy_transformer.training import mpi


@pytest.mark.parametrize("size", [None, "1"])
def test_a_process_alone_has_no_communicator_and_needs_no_mpi4py(monkeypatch, size):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    for name in (*mpi.SIZES, "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
        if size and name != "PMIX_RANK":
            monkeypatch.setenv(name, size)
    assert mpi.world() is None


@pytest.mark.parametrize("name", [*mpi.SIZES, "PMIX_RANK"])
def test_under_mpiexec_without_mpi4py_a_sentence_says_what_to_install(monkeypatch, name):
    monkeypatch.setenv(name, "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ValueError, match=r"started by mpiexec, but mpi4py cannot be imported.*numpy-transformer\[mpi\]"):
        mpi.world()


def test_what_is_no_communicator_is_refused():
    model = nt.Linear(2, 3, rng=0)
    with pytest.raises(TypeError, match="comm must be an mpi4py communicator such as MPI.COMM_WORLD, got str"):
        nt.Trainer(model, nt.CrossEntropyLoss(), nt.SGD(model.parameters(), 0.1), comm="world")


def test_one_process_does_by_itself_what_ranks_do_together():
    assert mpi.gather(None, lambda: 5) == [5] and mpi.same_on_all_ranks(None, "sums", lambda: 6) == 6 and mpi.is_first(None)
    assert mpi.on_any_rank(None, True) is True and mpi.on_any_rank(None, 0) is False
    with pytest.raises(KeyError), mpi.together(None):
        raise KeyError("here")
    assert mpi.cores_per_rank(None) is None
