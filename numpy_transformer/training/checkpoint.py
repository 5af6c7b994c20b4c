"""Checkpoints: the whole state of a run in one .npz file, which is complete at every moment."""

import contextlib
import glob
import json
import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..argument_checks import check_positive
from ..file_checks import one_line, quoted
from ..outputs import check_output, open_new
from ..types import PathLike
from . import mpi
from .memory import available_memory
from .npz import NpzArchive
from .trainer_state import RESERVED, state_of

FORMAT = "numpy_transformer checkpoint, version 1"


def write_checkpoint(path, arrays, meta):
    """Writes named arrays, and meta as JSON, to one .npz file without pickle.

    The file is written next to `path` under another name, flushed to the disk, and then renamed. At every moment, even
    after a power failure, `path` is either the complete old file or the complete new one. Raises OSError on failure.
    """
    path = Path(os.path.realpath(path))
    part = path.with_name(path.name + ".part")
    meta = {**meta, "format": FORMAT, "arrays": list(arrays)}
    try:
        with open_new(part) as file:
            np.savez(file, meta=np.array(json.dumps(meta, default=lambda array: array.tolist())), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(f"cannot save {str(path)!r}: {error.strerror or error}; an existing "
                          "checkpoint there is unchanged; free some space, or name another file") from error
        raise
    sync_folder(path.parent)


def sync_folder(folder):
    """Flushes a rename to the disk. Windows and some network file systems do not support this."""
    with contextlib.suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class StoredArrays(dict):
    """{name: array} of the arrays that were read from a checkpoint; `shapes` has the shapes of all that it holds."""

    def __init__(self, arrays, shapes):
        super().__init__(arrays)
        self.shapes = shapes


def read_checkpoint(path, choose=lambda names: names, verify=False):
    """Returns (StoredArrays, meta) of a checkpoint: those of its arrays that `choose` returns of the list of their names.

    The other arrays take no memory. verify=True finds damage to them too.

    Raises ValueError if the file cannot be read, is damaged, or is not a checkpoint, and MemoryError, before an array is
    read, if they are larger than the available memory.
    """
    try:
        with open(path, "rb") as file:
            stored = NpzArchive(file)
            if "meta" not in stored.shapes:
                raise KeyError("meta")
            meta = json.loads(str(stored["meta"]))
            names = [name for name in stored.shapes if name != "meta"]
            chosen = choose(names)
            check_size(path, sum(stored.sizes[name] for name in chosen))
            arrays = StoredArrays({name: stored[name] for name in chosen}, {name: stored.shapes[name] for name in names})
            if verify:
                stored.verify()
        file_format = meta["format"] if isinstance(meta, dict) and "format" in meta else None
        if file_format == FORMAT and meta.pop("arrays") != names:
            raise KeyError("an array that it lists")
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror or one_line(error)}; name a checkpoint that "
                         "training has saved") from error
    except MemoryError:
        raise
    except Exception as error:                              # zipfile and NumPy raise many kinds of error for other files
        raise ValueError(f"{str(path)!r} is not a checkpoint, or is damaged ({reason_for(error)}); name a file that "
                         "training has saved, or an undamaged copy") from error
    if file_format != FORMAT:
        raise ValueError(f"{str(path)!r} has the format {quoted(file_format, 60)} instead of {FORMAT!r}; it was "
                         "written by another program, or by another version of this one")
    return arrays, meta


def check_size(path, size):
    available = available_memory()
    if available is not None and size > available:
        raise MemoryError(f"the arrays of {str(path)!r} need {size / 1e9:.1f} GB, but {available / 1e9:.1f} GB are available")


def reason_for(error):
    """Describes why a file could not be read as a checkpoint."""
    if isinstance(error, KeyError):
        return f"it has no {one_line(error)}"
    return "it is not a NumPy archive" if isinstance(error, zipfile.BadZipFile) else one_line(error) or type(error).__name__


def weights(arrays, groups=("best/", "model/")):
    """Returns the state_dict in the arrays of a checkpoint: the best weights if early stopping kept them, else the latest.
    """
    for group in groups:
        state = {name.removeprefix(group): array for name, array in arrays.items() if name.startswith(group)}
        if state:
            return state
    raise ValueError("the checkpoint holds no weights; it was not written by a Trainer")


def average_checkpoints(paths: Sequence[PathLike]) -> dict[str, np.ndarray]:
    """Returns a state_dict with the mean of the latest weights of several checkpoints of one model.

    Source: Vaswani et al. 2017, section 6.1.

    Raises ValueError if there is no checkpoint, or if they differ in names or shapes.
    """
    total: dict[str, np.ndarray] = {}
    for n, path in enumerate(paths, 1):
        state = weights(read_checkpoint(path)[0], ["model/"])
        if n > 1 and {k: v.shape for k, v in state.items()} != {k: v.shape for k, v in total.items()}:
            raise ValueError(f"{str(path)!r} has other parameters than {str(paths[0])!r}; average checkpoints of one "
                             "run")
        total = {name: array.astype(np.float64) + total.get(name, 0) for name, array in state.items()}
    if not total:
        raise ValueError("there are no checkpoints to average; keep some during training")
    return {name: array / n for name, array in total.items()}


class Checkpoint:
    """The file to which a Trainer saves its run, and how often.

    Parameters:
        path : path of the file, which always holds the latest state
        every : int, steps between saves; the end of the run is saved too
        keep : int, number of latest saves that are kept next to the file as NAME.step-N.npz, to be averaged
        meta : dict that can be written as JSON and is stored in the file, such as the configuration of the model

    Raises:
        ValueError if the file cannot be written, TypeError if meta is not JSON. Both are raised here, before training.
    """

    def __init__(self, path: PathLike, every: int = 100, keep: int = 0, meta: dict[str, Any] | None = None) -> None:
        check_positive(every=every)
        if keep:
            check_positive(keep=keep)
        taken = RESERVED & set(meta or {})
        if taken:
            raise ValueError(f"meta has the keys {sorted(taken)}, which are reserved for the checkpoint itself; rename them")
        json.dumps(meta)                        # raises TypeError if it is not JSON
        check_output(path)
        self.path, self.every, self.keep, self.meta = Path(path), every, keep, meta or {}

    def __repr__(self):
        return f"Checkpoint({str(self.path)!r}, every={self.every}, keep={self.keep})"

    def save(self, trainer: Any, keep: bool = True) -> None:
        """Saves the run; keep=False writes no additional NAME.step-N.npz. Only the first MPI rank writes."""
        mpi.same_on_all_ranks(trainer.comm, "the weights", trainer.weights)
        with mpi.together(trainer.comm):
            if trainer.rank == 0:
                self.write(trainer, keep)

    def write(self, trainer: Any, keep: bool) -> None:
        """Writes the file, and with `keep` one more that stays, in place of the oldest of them."""
        arrays, meta = state_of(trainer)
        if not (keep and self.keep):
            return write_checkpoint(self.path, arrays, self.meta | meta)
        kept = self.path_with_tag(f"step-{trainer.steps:07d}")
        write_checkpoint(kept, arrays, self.meta | meta)    # first, so that an interruption in between loses nothing
        replace_by_link(kept, Path(os.path.realpath(self.path)))
        saves = self.kept()
        earlier = [path for path in saves if path <= kept]  # later ones belong to another run
        for path in set(saves) - set(earlier[-self.keep:]):
            path.unlink()

    def kept(self) -> list[Path]:
        """Returns the saves that were kept, oldest first."""
        return sorted(self.path.parent.glob(f"{glob.escape(self.path_with_tag('step-').stem)}{'[0-9]' * 7}.npz"))

    def path_with_tag(self, tag: str) -> Path:
        """Returns the path RUN.tag.npz next to RUN.npz (or RUN)."""
        return self.path.with_name(f"{self.path.name.removesuffix('.npz')}.{tag}.npz")


def replace_by_link(source, path):
    """Gives the file a second name, replacing an existing file atomically; copies it where links are not supported."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        shutil.copyfile(source, part)
    os.replace(part, path)
    sync_folder(path.parent)
