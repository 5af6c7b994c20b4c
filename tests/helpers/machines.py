"""Runs the default tests on variants of this machine; prints a table in Markdown, and the failures to stderr.

`python tests/helpers/machines.py` runs all rows, and `--list` names them. To run one test file in two rows:

    python tests/helpers/machines.py numpy-2.0 Nehalem --tests tests/layers/test_layers.py

Each row runs in a copy of this checkout, with a venv, in a temporary folder. A first process in the row's environment shows
whether the variation took effect. Where it did not, the row says why, and no test runs. Interpreters are found on PATH.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
IGNORED = shutil.ignore_patterns(".git", ".venv", ".pytest_cache", "__pycache__", "*.egg-info")
SETTINGS = ("OPENBLAS_", "OMP_", "MKL_", "NPY_", "PYTHON", "PYTEST_", "VIRTUAL_ENV")     # not inherited by a row
KERNELS = ["Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX"]
ALIASES = {"Katmai": "Prescott"}                # OpenBLAS has the same kernels for both, and names the first
AVX512, AVX2 = ("AVX512", "X86_V4"), ("AVX2", "FMA3", "X86_V3")      # how NumPy's names of such loops begin
PLAIN, UNUSUAL, READ_ONLY = "checkout", "폴더 with spaces", "read-only"         # folders that hold the checkout
LOCK = threading.Lock()


@dataclass
class Row:
    """One variant: the environment variables that it sets or (None) unsets, and what must then be true of `facts`."""
    name: str
    took_effect: callable = lambda facts: True
    variables: dict = field(default_factory=dict)
    python: str = sys.executable
    numpy: str = "numpy"
    folder: str = PLAIN
    disabled: tuple = ()                        # beginnings of the names of NumPy's loops that may not run


def rows():
    """Yields all rows. The first one changes nothing."""
    yield Row("as-it-is")
    for kernel in KERNELS:
        yield Row(kernel, lambda facts, kernel=kernel: facts["kernel"] == kernel, {"OPENBLAS_CORETYPE": kernel})
    for name, disabled in {"without-AVX-512": AVX512, "without-AVX2": AVX512 + AVX2}.items():
        yield Row(name, lambda facts, disabled=disabled: facts["disabled"] and not beginning(facts["loops"], disabled),
                  disabled=disabled)
    yield Row("two-BLAS-threads", lambda facts: facts["threads"] == 2, {"TEST_BLAS_THREADS": "2"})
    yield Row("numpy-2.0", lambda facts: facts["numpy"].startswith("2.0."), numpy="numpy==2.0.*")
    yield Row("numpy-2.0-Nehalem", lambda facts: (facts["numpy"][:4], facts["kernel"]) == ("2.0.", "Nehalem"),
              {"OPENBLAS_CORETYPE": "Nehalem"}, numpy="numpy==2.0.*")
    for minor in range(10, 15):
        yield Row(f"python-3.{minor}", lambda facts, minor=minor: facts["python"].startswith(f"3.{minor}."),
                  python=f"python3.{minor}")
    yield Row("LANG-C", lambda facts: facts["encoding"].lower().replace("-", "") != "utf8",
              {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    yield Row("spaces-and-Hangul", lambda facts: Path(facts["folder"]).name == UNUSUAL, folder=UNUSUAL)
    yield Row("read-only", lambda facts: not facts["writable"], folder=READ_ONLY)
    no_xdg = {name: None for name in os.environ if name.startswith("XDG_")}
    yield Row("no-HOME", lambda facts: facts["HOME"] is None, {"HOME": None, **no_xdg})
    yield Row("missing-home", lambda facts: not facts["home exists"], {"HOME": "/dev/null/home", **no_xdg})


def beginning(names, prefixes):
    return [name for name in names if name.startswith(prefixes)]


def facts():
    """Returns what is true of this process. conftest.py sets the number of BLAS threads before NumPy is imported."""
    sys.path[:1] = [os.getcwd(), "tests"]
    import locale

    import conftest  # noqa: F401
    import numpy as np
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    from numpy_transformer import threads

    np.ones((64, 64)) @ np.ones((64, 64))       # kernels that this processor cannot run end the process here
    return {
        "kernel": blas_kernel(np), "threads": threads.blas_threads(), "numpy": np.__version__,
        "loops": [name for name in __cpu_dispatch__ if __cpu_features__[name]],
        "disabled": os.environ.get("NPY_DISABLE_CPU_FEATURES"),
        "python": ".".join(map(str, sys.version_info[:3])), "encoding": locale.getpreferredencoding(False),
        "folder": os.getcwd(), "writable": os.access(".", os.W_OK),
        "HOME": os.environ.get("HOME"), "home exists": Path("~").expanduser().is_dir()}


def blas_kernel(np):
    """Returns OpenBLAS's name of the kernels that run, or None for another library."""
    import ctypes

    package = Path(np.__file__).parent
    for path in [*package.parent.glob("numpy.libs/*openblas*"), *package.glob(".dylibs/*openblas*")]:
        for name in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename"):
            corename = getattr(ctypes.CDLL(str(path)), name, None)
            if corename:
                corename.restype = ctypes.c_char_p
                return ALIASES.get(corename().decode(), corename().decode())


@functools.cache
def prepared(temporary, folder, python, numpy):
    """Makes a copy of the checkout with a venv of this interpreter and NumPy. Returns the copy and the venv's python."""
    copy = Path(temporary, f"{Path(python).name} {numpy}".replace("==", "-").replace(".*", "").replace(" ", "-"), folder)
    shutil.copytree(Path(temporary, "snapshot"), copy)
    subprocess.run([python, "-m", "venv", ".venv"], cwd=copy, check=True, capture_output=True, text=True)
    subprocess.run([copy / ".venv/bin/python", "-m", "pip", "install", "--quiet", "-e", ".[test]", "pytest-xdist", numpy],
                   cwd=copy, check=True, capture_output=True, text=True)
    return copy, copy / ".venv/bin/python"


def environment(row, python):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    if row.disabled:
        program = ("from numpy._core._multiarray_umath import __cpu_dispatch__ as d, __cpu_features__ as f\n"
                   "print(*[name for name in d if f[name]])")
        loops = subprocess.run([python, "-c", program], env=kept, check=True, capture_output=True, text=True).stdout.split()
        kept["NPY_DISABLE_CPU_FEATURES"] = " ".join(beginning(loops, row.disabled))
    return {name: value for name, value in {**kept, **row.variables}.items() if value is not None}


def read_only(copy):
    """Returns the beginning of a command that runs the rest where `copy` is read-only, which a mount is for root, too."""
    if os.geteuid():
        subprocess.run(["chmod", "-R", "a-w", copy], check=True)
        return []
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'
    return ["unshare", "--mount", "bash", "-c", script, str(copy)]


def run(row, temporary, tests, processes):
    """Runs the tests of a row in this number of processes; returns the cells of its line in the table, and pytest's output if something failed."""
    if not shutil.which(row.python):
        return [f"{row.python} is not installed on this machine", "", "", "", ""], ""
    try:
        with LOCK:
            copy, python = prepared(temporary, row.folder, shutil.which(row.python), row.numpy)
        command = [*(read_only(copy) if row.folder == READ_ONLY else []), str(python)]
        options = {"cwd": copy, "env": environment(row, python), "capture_output": True, "encoding": "utf-8",
                   "errors": "replace"}
        probe = subprocess.run([*command, "tests/helpers/machines.py", "--facts"], **options, check=True)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or error.stdout or "").strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        return [f"not available on this machine: {reason[0]}", "", "", "", ""], ""
    seen = json.loads(probe.stdout)
    what = (f"{seen['kernel']}, BLAS threads {seen['threads']}, loops {' '.join(seen['loops']) or 'of the baseline'}, "
            f"NumPy {seen['numpy']}, Python {seen['python']}, {seen['encoding']}")
    if not row.took_effect(seen):
        return [f"not available on this machine: it gives {what}", "", "", "", ""], ""
    start = time.perf_counter()
    spread = ["-n", str(processes)] if processes > 1 else []
    tested = subprocess.run([*command, "-m", "pytest", "-rfE", *spread, *tests], **options)
    counts = [str(sum(map(int, re.findall(rf"(\d+) {kind}", tested.stdout.splitlines()[-1]))))
              for kind in ("passed", "(?:failed|error)", "skipped")]
    return [what, *counts, f"{time.perf_counter() - start:.0f}"], (tested.stdout + tested.stderr) * bool(tested.returncode)


def line(cells):
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", help="names of rows; none means all")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="rows at a time (default: one for each core)")
    parser.add_argument("--tests", nargs="+", default=[], help="arguments of pytest (default: none, so all default tests)")
    parser.add_argument("--facts", action="store_true", help="print what is true of this process")
    options = parser.parse_args()
    if options.facts:
        return print(json.dumps(facts()))
    table = {row.name: row for row in rows()}
    if options.list:
        return print("\n".join(table))
    if unknown := set(options.rows) - set(table):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}; --list names them")
    chosen = options.rows or list(table)
    failed, processes = [], max(1, options.jobs // len(chosen))     # a row by itself uses all cores
    print(line(["row", "what ran", "passed", "failed", "skipped", "seconds"]), line(["---"] * 6), sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        shutil.copytree(CHECKOUT, Path(temporary, "snapshot"), ignore=IGNORED)      # files may change while tests run
        for name, (cells, failure) in zip(chosen, pool.map(
                lambda name: run(table[name], temporary, options.tests, processes), chosen)):
            print(line([name, *cells]), flush=True)
            if failure:
                failed.append(name)
                print(f"{name}:\n{failure}", file=sys.stderr, flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
