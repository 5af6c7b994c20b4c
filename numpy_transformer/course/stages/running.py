"""Runs a student's program in this process, on the student's own machine: imports it from a folder of its own for a while."""

import contextlib
import importlib
import sys
import tempfile
import traceback
from pathlib import Path
from types import SimpleNamespace

from .files import STAGE_FILES


@contextlib.contextmanager
def running(files):
    """Yields a namespace with everything that the stages of a program define; afterwards it is no longer importable.

    Parameters:
        files : {name: bytes}, as of `program_of`
    Raises: ValueError in place of an error from within the program, with the file and the line
    """
    names = {name.removesuffix(".py") for name in files}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        hidden = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        path, bytecode = [*sys.path], sys.dont_write_bytecode
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()
        try:
            modules = [importlib.import_module(name.removesuffix(".py")) for name in STAGE_FILES]
            yield SimpleNamespace(**{key: value for module in modules for key, value in vars(module).items()
                                     if not key.startswith("__")})
        except Exception as error:
            place = place_in(folder, error)
            if place is None:
                raise
            raise ValueError(f"{place}: {type(error).__name__}: {error}") from error
        finally:
            sys.path[:], sys.dont_write_bytecode = path, bytecode
            for name in names:
                sys.modules.pop(name, None)
            sys.modules.update(hidden)


def place_in(folder, error):
    """Returns where in a folder's files an error was raised, or None if it was not there."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == Path(folder)]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}, in {frames[-1].name}" if frames else None
