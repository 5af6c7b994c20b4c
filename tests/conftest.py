"""Fixtures of all test files.

BLAS gets one thread, set before NumPy is imported: small matrix products are slower and noisier on two. (helpers/machines.py
sets TEST_BLAS_THREADS to try two.) COLUMNS, which pytest-xdist sets in its processes, is removed, so that output is as wide
there as in one process. Ctrl-C has its usual effect, which a shell takes away from a program that it runs in the background.
"""

import contextlib
import gc
import io
import os
import signal

import pytest

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = os.environ.get("TEST_BLAS_THREADS", "1")
os.environ.pop("COLUMNS", None)
signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()                                    # it would look again and again at thousands of tests, which stay


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory):
    """The key of the grader's journals is drawn in a temporary folder, not in the user's own."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder with small data files and a tiny run of each kind of encoder.

    KIND.npz is the run, and KIND.said holds what its training printed.
    """
    from helpers.encoder_runs import BASE, FILES, write_files

    from numpy_transformer.cli import main

    folder = tmp_path_factory.mktemp("encoders")
    write_files(folder)
    for kind, options in BASE.items():
        with contextlib.redirect_stdout(io.StringIO()) as output:
            assert main(list(map(str, ["train", kind, *options, "--data", folder / FILES[kind], "--out",
                                       folder / f"{kind}.npz"]))) == 0
        (folder / f"{kind}.said").write_text(output.getvalue(), encoding="utf-8")
    return folder


@pytest.fixture
def lesson_run(request, tmp_path):
    """The finished process of the lesson that the test's parameter `path` names, with its mistake planted if it has one."""
    from helpers.lessons import run

    return run(tmp_path, **request.node.callspec.params)
