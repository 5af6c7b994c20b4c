"""Checkpoints: a run in one .npz file that is whole at every moment."""

import contextlib
import glob
import json
import os
import shutil
from pathlib import Path

import numpy as np

from ..argument_checks import check_positive
from . import mpi
from .trainer_state import RESERVED, state_of

FORMAT = "numpy_transformer checkpoint, version 1"


def write_checkpoint(path, arrays, meta):
    """Write arrays by name, and meta as JSON, in one .npz without pickle.

    It is written beside `path` under another name, forced to the disk, and moved into place: at every moment, also
    after a loss of power, `path` holds the old file or the new one, whole. Raises OSError if that fails.
    """
    path = Path(os.path.realpath(path))
    part = path.with_name(path.name + ".part")
    meta = {**meta, "format": FORMAT, "arrays": list(arrays)}
    try:
        with open(part, "wb") as file:
            np.savez(file, meta=np.array(json.dumps(meta, default=lambda array: array.tolist())), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(f"cannot save {str(path)!r}: {error.strerror or error}; a checkpoint that stood there is "
                          "still whole; make room, or name another file") from error
        raise
    sync_folder(path.parent)


def sync_folder(folder):
    """Make a rename last, where the system can (Windows cannot, nor can some network disks)."""
    with contextlib.suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_writable(path):
    """Raises ValueError now if write_checkpoint could not write there later. What stands there stays."""
    path = Path(os.path.realpath(path))
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        probe = path.with_name(f".{path.name}.{os.getpid()}")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"cannot write {str(path)!r}: {error.strerror}; name a file in a folder that is there and "
                         "that you may write to") from error


def read_checkpoint(path):
    """(arrays by name, meta) of a checkpoint.

    Raises ValueError if the file cannot be read, is damaged, or is something else.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}      # zipfile compares the checksums
        meta = json.loads(str(arrays.pop("meta")))
        found = meta["format"] if isinstance(meta, dict) and "format" in meta else None
        if found == FORMAT and meta.pop("arrays") != list(arrays):
            raise KeyError("an array that it lists")
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror or error}; name a checkpoint that "
                         "training has saved") from error
    except Exception as error:                              # zipfile and NumPy raise many kinds on foreign bytes
        reason = (f"it has no {error}" if isinstance(error, KeyError) else
                  "it is no NumPy archive" if "pickle" in str(error) else error)
        raise ValueError(f"{str(path)!r} is no checkpoint, or a damaged one ({reason}); name a file that training has "
                         "saved, or a copy from before the damage") from error
    if found != FORMAT:
        raise ValueError(f"{str(path)!r} says that it is {found!r}, wanted {FORMAT!r}; it was written by another "
                         "program, or by another version of this one")
    return arrays, meta


def weights(arrays, groups=("best/", "model/")):
    """The state_dict in a checkpoint's arrays: the best weights where early stopping kept them, else the latest."""
    for group in groups:
        found = {name.removeprefix(group): array for name, array in arrays.items() if name.startswith(group)}
        if found:
            return found
    raise ValueError("the checkpoint holds no weights; it was not written by a Trainer")


def average_checkpoints(paths):
    """state_dict of the mean over several checkpoints of one model, the latest weights of each.

    Source: Vaswani et al. 2017, section 6.1.

    Raises ValueError if there is none, or if they do not hold the same names and shapes.
    """
    total = {}
    for n, path in enumerate(paths, 1):
        state = weights(read_checkpoint(path)[0], ["model/"])
        if n > 1 and {k: v.shape for k, v in state.items()} != {k: v.shape for k, v in total.items()}:
            raise ValueError(f"{str(path)!r} holds other parameters than {str(paths[0])!r}; average checkpoints of one "
                             "run")
        total = {name: array.astype(np.float64) + total.get(name, 0) for name, array in state.items()}
    if not total:
        raise ValueError("there are no checkpoints to average; keep some while training")
    return {name: array / n for name, array in total.items()}


class Checkpoint:
    """Where a Trainer saves its run, and how often.

    Parameters:
        path : of the file, always the latest state
        every : int, steps from one save to the next; the end is saved too
        keep : int, so many of the latest saves stay beside it as NAME.step-N.npz, to be averaged
        meta : dict for JSON, stored in the file: the model's configuration, the tokenizer

    Raises:
        ValueError if nothing can be written there, TypeError if meta is not JSON: now, not after hours of training.
    """

    def __init__(self, path, every=100, keep=0, meta=None):
        check_positive(every=every)
        if keep:
            check_positive(keep=keep)
        taken = RESERVED & set(meta or {})
        if taken:
            raise ValueError(f"meta has the keys {sorted(taken)}, which the checkpoint itself needs; rename them")
        json.dumps(meta)                        # what is not JSON is found now
        check_writable(path)
        self.path, self.every, self.keep, self.meta = Path(path), every, keep, meta or {}

    def save(self, trainer, keep=True):
        """Save the run, with keep=False without a file of its own beside it. Of MPI's ranks only the first writes."""
        mpi.same(trainer.comm, "the weights", trainer.weights)
        with mpi.together(trainer.comm):
            if trainer.rank == 0:
                self.write(trainer, keep)

    def write(self, trainer, keep):
        arrays, meta = state_of(trainer)
        if not (keep and self.keep):
            return write_checkpoint(self.path, arrays, self.meta | meta)
        stays = self.beside(f"step-{trainer.steps:07d}")
        write_checkpoint(stays, arrays, self.meta | meta)   # first, so that a kill in between leaves no gap
        replace_by_link(stays, Path(os.path.realpath(self.path)))
        names = self.kept()
        past = [path for path in names if path <= stays]    # later ones are of another run
        for path in set(names) - set(past[-self.keep:]):
            path.unlink()

    def kept(self):
        """The saves that stayed, the oldest first."""
        return sorted(self.path.parent.glob(f"{glob.escape(self.beside('step-').stem)}{'[0-9]' * 7}.npz"))

    def beside(self, tag):
        """RUN.tag.npz for RUN.npz, and for RUN."""
        return self.path.with_name(f"{self.path.name.removesuffix('.npz')}.{tag}.npz")


def replace_by_link(source, path):
    """Give the file a second name, replacing what stood there at once; a copy where links are not to be had."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        shutil.copyfile(source, part)
    os.replace(part, path)
    sync_folder(path.parent)
