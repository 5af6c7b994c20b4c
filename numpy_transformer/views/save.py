"""Where pictures go, and how they are written: with the same bytes at every run."""

import os
from pathlib import Path

import matplotlib

KINDS = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}     # no dates inside


def check_folder(folder):
    """The folder as a Path, made if need be. Raises ValueError if nothing can be written there."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"pictures cannot be written to {str(folder)!r} ({error.strerror}); "
                         "name another folder, or give yourself the right to write there") from error
    return folder


def check_file(path):
    """The file's Path, its folder made if need be. Raises ValueError if it is of no known kind or cannot be written."""
    path = Path(path)
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"{str(path)!r} is no picture that can be written; name a file that ends in "
                         f"{', '.join(KINDS)}")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file in it")
    check_folder(path.parent)
    return path


def write(figure, path):
    """Write the figure as a .png, .svg or .pdf file; its path."""
    path = check_file(path)
    with matplotlib.rc_context({"svg.hashsalt": "numpy_transformer"}):
        figure.savefig(path, dpi=110, metadata=KINDS[path.suffix.lower()])
    return path


def save(figure, folder, name):
    """Write the figure as folder/name.png; its path."""
    return write(figure, Path(folder) / f"{name}.png")
