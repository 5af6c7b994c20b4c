"""Fixtures of all test files.

BLAS gets one thread, set before NumPy is imported: small matrix products are slower and noisier on two.
"""

import contextlib
import io
import os

import pytest

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"


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
        (folder / f"{kind}.said").write_text(output.getvalue())
    return folder


def pytest_collection_modifyitems(items):
    """Tests that wait for a lesson come last: the lessons run in the background meanwhile."""
    items.sort(key=lambda item: "lesson_run" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session", autouse=True)
def background_lessons(request, tmp_path_factory):
    """The runs of all lessons that the selected tests ask for."""
    from helpers.lessons import BackgroundRuns

    wanted = [item for item in request.session.items if "lesson_run" in getattr(item, "fixturenames", ())]
    runs = BackgroundRuns({
        item.nodeid: (tmp_path_factory.mktemp("lesson"), item.callspec.params["path"],
                      item.callspec.params.get("planted", ""))
        for item in wanted})
    yield runs
    runs.close()


@pytest.fixture
def lesson_run(background_lessons, request):
    """The finished process of the lesson that the test's parameter `path` names."""
    return background_lessons.result(request.node.nodeid)
