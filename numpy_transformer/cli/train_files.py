"""Checks before a run of `train` starts: that its files can be written, and that nothing is replaced unasked."""

import os
import sys
from pathlib import Path

from ..outputs import check_output
from ..tasks.runs import IMPORTED, SCRIPT, check_meta
from ..training.checkpoint import read_checkpoint
from .train_film import check_film


def check_outputs(arguments):
    """The meta of the run to resume, or None for a new one, once it is certain that all outputs can be written.

    Nothing is replaced without --overwrite, and nothing but a run is replaced with it.
    """
    check_output(arguments.out)
    saved = find_run(arguments, Path(arguments.out))
    check_picture(arguments.curves, arguments.out)
    check_film(arguments.film, arguments.out)
    return saved


def find_run(arguments, out):
    """The meta of the run in --out that is to be resumed, or None."""
    if arguments.resume and arguments.overwrite:
        raise ValueError("--resume continues a run, --overwrite replaces it; give only one of them")
    if not out.exists():
        if arguments.resume:
            print(f"there is no {str(out)!r} yet: starting a new run", file=sys.stderr)
        return None
    if not arguments.resume and not arguments.overwrite:
        raise ValueError(f"{str(out)!r} exists already; --resume continues it, --overwrite replaces it, --out names "
                         "another file")
    meta = check_meta(read_checkpoint(out, lambda names: [])[1], out)
    if arguments.overwrite:
        return None
    if meta["config"] in (IMPORTED, SCRIPT):
        what = "an imported model, which" if meta["config"] == IMPORTED else "a model that a script saved; it"
        raise ValueError(f"{str(out)!r} is {what} has no training to resume; --pretrained {str(out)!r} starts one from it, "
                         "with another file in --out")
    if meta["kind"] != arguments.kind:
        raise ValueError(f"{str(out)!r} holds a run of `train {meta['kind']}`, not of `train {arguments.kind}`; name "
                         "another file with --out")
    return meta


def check_picture(path, out):
    """Raises ValueError if the curves could not be drawn there, or would replace anything but a picture."""
    if path is None:
        return
    path = Path(path)
    if path.suffix.lower() != ".png" or os.path.realpath(path) == os.path.realpath(out):
        raise ValueError(f"--curves {str(path)!r} must end in .png and must not be the run itself")
    check_output(path)
    if path.exists() and path.read_bytes()[:4] != b"\x89PNG":
        raise ValueError(f"{str(path)!r} exists already and is not a picture; name another file with --curves")


def remove_kept(checkpoint, overwrite):
    """Removes the kept saves and the average of an earlier run of the same name."""
    for path in filter(Path.exists, [*checkpoint.kept(), checkpoint.path_with_tag("average")]):
        if not overwrite:
            raise ValueError(f"{str(path)!r} exists already, from another run of this name; --overwrite replaces it, "
                             "--out names another file")
        path.unlink()
