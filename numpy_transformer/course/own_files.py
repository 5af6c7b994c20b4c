"""Writes the files that the course keeps in a student's folder beside the student's own."""

import contextlib
import os
from pathlib import Path


def replace_own_file(path: Path, content: bytes) -> None:
    """Writes a file as a whole, if the folder can be written to; whatever else has its temporary name is removed.

    The caller sees from what is read back whether it was written.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:     # "x" follows no link and opens no pipe
            file.write(content)
        os.replace(temporary, path)
