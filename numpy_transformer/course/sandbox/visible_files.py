"""Finds the files that Python and NumPy need on this machine: all that a sandbox shows to a student's program."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

INSIDE = Path(__file__).resolve().parent / "inside"
ENVIRONMENT = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
if "LD_LIBRARY_PATH" in os.environ:             # needed to start Python on some clusters
    ENVIRONMENT["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
ISOLATED = "-I", "-S", "-B", "-X", "utf8"       # options of Python: no settings, site-packages and .pth files
CACHE_OF_LIBRARIES = "/etc/ld.so.cache"
HIDDEN = ("site-packages", "dist-packages")

# A program for a process of its own, which imports all that a student's program may import, and then prints where
# Python looks for modules, and each shared library under the name by which the loader has found it.
PROBE = """
import ctypes, importlib, json, os, sys
standard = list(sys.path)
sys.path.append(sys.argv[1])
import numpy.fft, numpy.linalg, numpy.polynomial, numpy.random
for folder in standard:
    for name in os.listdir(folder) if folder.endswith("lib-dynload") else ():
        name = name.partition(".")[0]
        if name != "_tkinter" and not name.startswith(("_test", "_ctypes_test", "xx", "_xx")):
            try:
                importlib.import_module(name)
            except Exception:
                pass
try:
    ctypes.CDLL("libgcc_s.so.1")                # loaded by the C library when it needs it
except OSError:
    pass

class Info(ctypes.Structure):                   # the first fields of struct dl_phdr_info: dl_iterate_phdr(3)
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]

libraries = []
visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
ctypes.CDLL(None).dl_iterate_phdr(visit(lambda info, *_: libraries.append(os.fsdecode(info[0].name or b"")) or 0), None)
print(json.dumps({"path": standard, "libraries": libraries}))
"""


@dataclass(frozen=True)
class Visible:
    """Files and folders of the host, each with the path at which a process looks for it."""

    python: str                                 # the interpreter
    standard: tuple                             # folders and zip files of the standard library
    numpy: tuple                                # NumPy's folders
    libraries: dict                             # {path at which the loader looks: file}


    def entries(self):
        """Returns the paths of all these files and folders, without the folders of other packages and broken links."""
        inside = [os.path.join(path, name) for path in self.standard if os.path.isdir(path)
                  for name in os.listdir(path) if name not in HIDDEN]
        return [*filter(os.path.exists, inside), *filter(os.path.isfile, self.standard), *self.numpy,
                *self.libraries.values()]


@functools.cache
def visible():
    """Returns what this Python and this NumPy need. Raises OSError if they cannot be run by themselves."""
    python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    packages = Path(np.__file__).resolve().parents[1]
    try:
        done = subprocess.run([python, "-I", "-S", "-B", "-c", PROBE, str(packages)], env=ENVIRONMENT, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True)
    except subprocess.SubprocessError as error:
        raise OSError(f"{python} cannot import NumPy by itself") from error
    report = json.loads(done.stdout.splitlines()[-1])
    standard = [path for path in map(os.path.normpath, report["path"]) if os.path.exists(path)]
    own = tuple(str(path) for path in (packages / "numpy", packages / "numpy.libs") if path.is_dir())
    libraries = {os.path.normpath(path): os.path.realpath(path) for path in report["libraries"] if os.path.isabs(path)}
    known = (*standard, *own)
    libraries = {path: file for path, file in libraries.items() if not path.startswith(tuple(f"{at}/" for at in known))}
    if os.path.exists(CACHE_OF_LIBRARIES):
        libraries[CACHE_OF_LIBRARIES] = CACHE_OF_LIBRARIES
    return Visible(python, tuple(path for path in standard if not path.startswith(tuple(
        f"{other}/" for other in standard))), own, libraries)
