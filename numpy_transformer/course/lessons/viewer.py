"""Opens a lesson's figure with the system's viewer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def open_picture(path: Path) -> bool:
    """Opens a picture with the system's viewer. Returns False on a machine without one."""
    if sys.platform == "win32":
        os.startfile(path)
        return True
    viewer = "open" if sys.platform == "darwin" else "xdg-open"
    has_display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not has_display or shutil.which(viewer) is None:
        return False
    return subprocess.run([viewer, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0
