"""Where pictures go."""

import os
from pathlib import Path


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


def save(figure, folder, name):
    """Write the figure as folder/name.png; its path."""
    path = check_folder(folder) / f"{name}.png"
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path
