"""Writes figures to files. The same figure gives the same bytes in every run."""

import io
import os
import tempfile
from pathlib import Path

import matplotlib
from PIL import Image  # installed with matplotlib, which requires it
from PIL.PngImagePlugin import PngInfo

from ..outputs import check_regular, kind_of_path, write_output
from .fonts import draw_with_fonts

# {file ending: metadata}: no dates or versions, so that the bytes stay the same
METADATA = {".png": {"Software": "numpy_transformer"}, ".svg": {"Date": None, "Creator": "numpy_transformer"},
            ".pdf": {"CreationDate": None, "Creator": "numpy_transformer"}}
DESCRIPTION = {".png": "Description", ".svg": "Description", ".pdf": "Subject"}     # metadata for readers who cannot see it


class FolderNotWritable(ValueError):
    """Figures cannot be written to a folder."""


def large_fonts():
    """Enlarges the text of later figures, so that it is readable on a slide at half size."""
    matplotlib.rcParams.update({"font.size": 13, "axes.titlesize": 13, "legend.fontsize": 11})


def check_folder(folder):
    """Returns the folder as a Path and creates it if necessary. Raises ValueError if it is not writable."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        taken = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), None)
        why = f"{str(taken)!r} is {kind_of_path(taken) or 'a file'}" if taken else error.strerror
        raise FolderNotWritable(f"pictures cannot be written to {str(folder)!r} ({why}); use another folder, or change its "
                                "permissions") from error
    return folder


def check_file(path):
    """Returns the Path of a picture that will be written. Raises ValueError if it has another format or is not writable."""
    path = Path(path)
    if path.suffix.lower() not in METADATA:
        raise ValueError(f"the format of {str(path)!r} is not supported; use a file name that ends in "
                         f"{', '.join(METADATA)}")
    check_regular(path)
    existing = next(folder for folder in path.absolute().parents if folder.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        check_folder(path.parent)               # raises an error that says why
    return path


def write_figure(figure, path):
    """Writes a figure as a .png, .svg or .pdf file. Returns its path."""
    path = check_file(path)
    check_folder(path.parent)
    kind = path.suffix.lower()
    metadata = METADATA[kind] | {DESCRIPTION[kind]: description(figure)}
    file = io.BytesIO()

    def render():
        file.seek(file.truncate(0))             # the figure may be drawn twice
        figure.savefig(file, format=kind[1:], dpi=110, metadata=metadata)

    with matplotlib.rc_context({"svg.hashsalt": "numpy_transformer"}):
        draw_with_fonts(figure, render)
    if kind == ".png":                          # a palette reduces the size to a third
        picture = Image.open(file)
        file = io.BytesIO()
        text = PngInfo()
        for key, value in metadata.items():
            text.add_text(key, value)
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, "png", optimize=True, pnginfo=text)
    return write_output(path, file.getvalue())


def as_svg(figure):
    """Returns a figure as the bytes of an .svg file."""
    file = io.BytesIO()

    def render():
        file.seek(file.truncate(0))
        figure.savefig(file, format="svg", metadata=METADATA[".svg"])

    with matplotlib.rc_context({"svg.hashsalt": "numpy_transformer"}):
        draw_with_fonts(figure, render)
    return file.getvalue()


def description(figure):
    """Returns what a figure says of itself: its title, and the title and axes of each plot, such as "Loss: nats over step"."""
    parts = [figure.get_suptitle()]
    for axes in figure.axes:
        named = " over ".join(filter(None, [axes.get_ylabel(), axes.get_xlabel()]))
        if axes.get_title() or axes.get_xlabel():           # otherwise it is a color bar
            parts.append(": ".join(filter(None, [axes.get_title(), named])))
    return "; ".join(" ".join(part.split()) for part in dict.fromkeys(parts) if part)


def save(figure, folder, name):
    """Writes a figure as folder/name.png. Returns its path."""
    return write_figure(figure, Path(folder) / f"{name}.png")
