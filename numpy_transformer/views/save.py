"""Where pictures go, and how they are written: with the same bytes at every run."""

import io
import os
import tempfile
from pathlib import Path

import matplotlib
from PIL import Image                           # matplotlib needs it, so it is there

KINDS = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}     # no dates inside


def large_fonts():
    """Let all text of later figures be readable at half size, on a slide."""
    matplotlib.rcParams.update({"font.size": 13, "axes.titlesize": 13, "legend.fontsize": 11})


def check_folder(folder):
    """The folder as a Path, made if need be. Raises ValueError if nothing can be written there."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        file = next((path for path in (folder, *folder.parents) if path.is_file()), None)
        why = f"{str(file)!r} is a file" if file else error.strerror
        raise ValueError(f"pictures cannot be written to {str(folder)!r} ({why}); "
                         "name another folder, or give yourself the right to write there") from error
    return folder


def check_file(path):
    """The Path of a picture to be. Raises ValueError if it is of no known kind or cannot be written."""
    path = Path(path)
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"{str(path)!r} is not a picture that can be written; name a file that ends in "
                         f"{', '.join(KINDS)}")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file in it")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        check_folder(path.parent)               # it says why
    return path


def write(figure, path):
    """Write the figure as a .png, .svg or .pdf file; its path."""
    path = check_file(path)
    check_folder(path.parent)
    kind, file = path.suffix.lower(), io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "numpy_transformer"}):
        figure.savefig(file, format=kind[1:], dpi=110, metadata=KINDS[kind])
    if kind == ".png":                          # with a palette it takes a third of the bytes
        picture, file = Image.open(file), io.BytesIO()
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, "png", optimize=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(file.getvalue())
    part.replace(path)                          # never half a picture
    return path


def save(figure, folder, name):
    """Write the figure as folder/name.png; its path."""
    return write(figure, Path(folder) / f"{name}.png")
