"""What students do with their files. Each function fills a pupil's files from {exercise: source}."""

from numpy_transformer.course.exercises import choose

from .pupil import MISSING, Truth
from .uploads import (PDF, PNG, WORD, encrypted, latin, notebook, tarred, with_tabs, zipped, zipped_by_windows,
                      zipped_from_the_root, zipped_on_a_mac, zipped_twice)


def named(name):
    """A habit: each file is named by this function of the exercise."""
    def make(rng, pupil, sources):
        pupil.files = {name(exercise): source.encode() for exercise, source in sources.items()}
    return make


def written(convert):
    """A habit: the usual names, but the text is converted to bytes in some other way."""
    def make(rng, pupil, sources):
        comment = "# Lösung für die Übung, geprüft: größer als ½\n"
        pupil.files = {exercise.file: convert(comment + source) for exercise, source in sources.items()}
    return make


def packed(pack, path):
    """A habit: everything lies in one archive."""
    def make(rng, pupil, sources):
        pupil.files = {path: pack({f"homework/week 2/{exercise.file}": source.encode()
                                   for exercise, source in sources.items()})}
    return make


def spoiled(path, content, number=None):
    """A habit: nothing but a file that no one can grade; its name may say for which exercise it is."""
    def make(rng, pupil, sources):
        pupil.files, pupil.attempt = {path: content}, 1
        pupil.truth = {other: Truth("error", 0, note=path) if number in (None, other) else Truth("missing|error")
                       for other in pupil.truth}
    return make


def stem(exercise):
    return exercise.file.removesuffix(".py")


def short(exercise):
    return f"ex{exercise.number.replace('.', '_')}"


def in_one_notebook(rng, pupil, sources):
    """One notebook in which later exercises use the functions of earlier ones."""
    cells = ["%matplotlib inline\n!pip install numpy\nimport math\nimport numpy as np",
             "z = np.arange(3.)\nnp.exp(z) / np.exp(z).sum()"]
    cells += [f"{given_by_none(exercise, sources)}{source.removeprefix(exercise.header)}"
              for exercise, source in sources.items()]
    cells += ["%%time\nx = np.random.rand(1000, 1000)\nx @ x", "softmax(np.zeros(3))?"]
    pupil.files = {"Untitled1.ipynb": notebook(cells)}


def given_by_none(exercise, sources):
    """The functions that the exercise's header defines, unless the student has written them."""
    own = {other.name for other in sources}
    return "" if exercise.given_code.keys() <= own else exercise.header.split("\n\n\n", 1)[1]


def a_notebook_each(rng, pupil, sources):
    pupil.files = {f"{short(exercise)}.ipynb": notebook(["import numpy as np", source, f"help({exercise.name})"])
                   for exercise, source in sources.items()}


def in_one_file(rng, pupil, sources):
    parts = [given_by_none(exercise, sources) + source.removeprefix(exercise.header)
             for exercise, source in sources.items()]
    pupil.files = {"homework.py": ("import math\n\nimport numpy as np\n\n\n" + "\n\n".join(parts)).encode()}


def importing_each_other(rng, pupil, sources):
    """Later exercises import what they need from earlier ones, and a helper of the student's own."""
    helper = "import numpy as np\n\n\ndef root(x):\n    return np.sqrt(x)\n"
    imports = "import math\n\nimport numpy as np\n\nfrom ex01_1_softmax import softmax\nfrom helper import root\n"
    pupil.files = {"helper.py": helper.encode()}
    for exercise, source in sources.items():
        if exercise.number == "05.1":
            source = imports + "\n\n" + source.removeprefix(exercise.header)
        elif exercise.number == "05.2":
            source = ("import math\n\nimport numpy as np\n\nimport ex01_2_softmax_backward as own\n\n"
                      "softmax_backward = own.softmax_backward\n\n\n" + source.removeprefix(exercise.header))
        pupil.files[exercise.file] = source.encode()


def twice(rng, pupil, sources):
    """An old file with another answer lies beside the one that counts, which the browser named."""
    for exercise, source in sources.items():
        pupil.before[exercise.file] = exercise.skeleton().encode()
        pupil.files |= {exercise.file: exercise.skeleton().encode(), f"{stem(exercise)} (1).py": source.encode()}


def among_rubbish(rng, pupil, sources):
    """The files lie in folders, with an environment, caches and checkpoints beside them."""
    pupil.files = {f"homework/src/{exercise.file}": source.encode() for exercise, source in sources.items()}
    old = notebook([choose("01.1").skeleton()])
    pupil.files |= {"homework/src/.ipynb_checkpoints/ex01_1-checkpoint.ipynb": old,
                    "homework/.DS_Store": b"\0\0\0\1Bud1",
                    "homework/src/__pycache__/ex01_1_softmax.cpython-311.pyc": b"\xa7\r\r\n\0\0\0\0",
                    "homework/venv/lib/python3.11/site-packages/six.py": b"def softmax(z):\n    return z\n",
                    "homework/venv/pyvenv.cfg": b"home = /usr/bin\n", "README.md": b"# Homework\n",
                    "homework/src/.vscode/settings.json": b"{}"}


def with_other_modules(rng, pupil, sources):
    """Beside the files lie modules named like those of the standard library, tests, and an editor's example."""
    pupil.files = {exercise.file: source.encode() for exercise, source in sources.items()}
    pupil.files |= {"random.py": b"print('my random numbers')\nseed = 4\n", "types.py": b"", "numbers.py": b"ONE = 1\n",
                    "test_softmax.py": b"from ex01_1_softmax import softmax\n\n\ndef test_softmax():\n    assert 1\n",
                    "main.py": b"def print_hi(name):\n    print(f'Hi, {name}')\n\n\nprint_hi('PyCharm')\n",
                    "conftest.py": b"import pytest\n", "setup.py": b"from setuptools import setup\nsetup()\n"}


def from_colab(rng, pupil, sources):
    """A notebook of Colab: it mounts a drive, installs things, plots, and tries every function."""
    cells = ["from google.colab import drive\ndrive.mount('/content/drive')",
             "!pip install -q torch\n%cd /content/drive/MyDrive\nimport math, sys\nimport numpy as np\n"
             "import matplotlib.pyplot as plt\nimport torch"]
    for exercise, source in sources.items():
        own = source.removeprefix(exercise.header)
        cells += [given_by_none(exercise, sources) + own, f"plt.plot(np.load('data.npy'))\nprint({exercise.name})"]
    pupil.files = {"Copy_of_Homework.ipynb": notebook([*cells, "assert torch.cuda.is_available()"])}


def with_a_link(rng, pupil, sources):
    """The file of the first exercise is a link to another place."""
    pupil.files = {exercise.file: source.encode() for exercise, source in sources.items()}
    path = choose("01.1").file
    pupil.files.pop(path, None)
    pupil.links, pupil.attempt = {path: "../../../../../etc/passwd"}, 1
    pupil.truth["01.1"] = Truth("error", 0, note=path)


def with_a_partner(rng, pupil, sources):
    """The same files as the student before, of whose group they are."""
    other = pupil.partner
    pupil.files, pupil.truth = dict(other.files), dict(other.truth)
    pupil.submitted, pupil.attempt = other.submitted, other.attempt


def nothing(rng, pupil, sources):
    pupil.truth = {number: MISSING for number in pupil.truth}


def an_empty_file(rng, pupil, sources):
    pupil.files, pupil.attempt = {"ex01_1_softmax.py": b""}, 1
    pupil.truth = {number: Truth("error") if number == "01.1" else MISSING for number in pupil.truth}


def an_empty_folder(rng, pupil, sources):
    pupil.files = {"homework.zip": zipped({"homework/": b""})}
    pupil.truth = {number: MISSING for number in pupil.truth}


def typed_online(rng, pupil, sources):
    pupil.online = "".join(sources.values())
    pupil.truth = {number: Truth("pass", choose(number).points) for number in pupil.truth}


def an_address(rng, pupil, sources):
    pupil.online = "https://example.edu/homework"
    pupil.truth = {number: Truth("error", 0, note=".html|.txt") for number in pupil.truth}


ANY = ["right"] * 8 + ["mistake"] * 5 + ["todo", "syntax", "crash", "in place", "missing", "matplotlib"]
PARSED = ["right"] * 8 + ["mistake"] * 5 + ["todo", "crash", "missing"]          # only files that Python can read
HELPED = ["right"]                              # others depend on these files

HABITS = {
    "plain": (named(lambda e: e.file), ANY),
    "partner": (with_a_partner, ["missing"]),
    "short": (named(lambda e: f"{short(e)}.py"), ANY),
    "one notebook": (in_one_notebook, HELPED),
    "browser": (named(lambda e: f"{short(e)} (1).py"), PARSED),
    "copy of": (named(lambda e: f"Copy of {e.file}"), ANY),
    "copy": (named(lambda e: f"{stem(e)} - Copy.py"), ANY),
    "py.txt": (named(lambda e: f"{e.file}.txt"), ANY),
    "txt": (named(lambda e: f"{stem(e)}.txt"), PARSED),
    "capitals": (named(lambda e: f"{stem(e)}.PY"), ANY),
    "all capitals": (named(lambda e: f"{short(e).upper()}.PY"), ANY),
    "exercise": (named(lambda e: f"exercise{short(e)[2:]}.py"), PARSED),
    "function": (named(lambda e: f"{e.name}.py"), PARSED),
    "number": (named(lambda e: f"{e.number}.py"), ANY),
    "dashes": (named(lambda e: f"ex-{e.number.replace('.', '-')}.py"), PARSED),
    "words": (named(lambda e: f"Exercise {e.number} my solution FINAL(2).py"), PARSED),
    "own": (named(lambda e: f"hw3_{'abcdefghi'[len(e.name) % 9]}_{e.name[::-1]}.py"), PARSED),
    "one file": (in_one_file, HELPED),
    "CRLF": (written(lambda text: text.replace("\n", "\r\n").encode()), ANY),
    "CR": (written(lambda text: text.replace("\n", "\r").encode()), PARSED),
    "mixed line ends": (written(lambda text: text.replace("\n", "\r\n", 5).encode()), ANY),
    "BOM": (written(lambda text: text.encode("utf-8-sig")), ANY),
    "UTF-16": (written(lambda text: text.encode("utf-16")), PARSED),
    "Latin-1": (written(latin), PARSED),
    "Latin-1 declared": (written(lambda text: b"# -*- coding: latin-1 -*-\n" + latin(text)), ANY),
    "tabs": (written(with_tabs), PARSED),
    "no-break spaces": (written(lambda text: text.replace(" = ", "\u00a0=\u00a0").encode()), PARSED),
    "zip": (packed(zipped, "homework.zip"), ANY),
    "zip of a Mac": (packed(zipped_on_a_mac, "homework.zip"), ANY),
    "zip in a zip": (packed(zipped_twice, "all.zip"), ANY),
    "tar": (packed(tarred, "homework.tar.gz"), ANY),
    "notebooks": (a_notebook_each, PARSED),
    "imports": (importing_each_other, HELPED),
    "twice": (twice, PARSED),
    "other modules": (with_other_modules, ANY),
    "Colab": (from_colab, HELPED),
    "zip of Windows": (packed(zipped_by_windows, "homework.zip"), ANY),
    "zip from the root": (packed(zipped_from_the_root, "homework.zip"), ANY),
    "rubbish": (among_rubbish, ANY),
    "link": (with_a_link, ANY),
    "PDF": (spoiled("homework.pdf", PDF), ["missing"]),
    "Word": (spoiled("ex01_1_softmax.docx", WORD, "01.1"), ["missing"]),
    "picture": (spoiled("IMG_2041.png", PNG), ["missing"]),
    "broken zip": (spoiled("homework.zip", zipped({"ex01_1_softmax.py": b"x = 1\n" * 99})[:60]), ["missing"]),
    "rar": (spoiled("homework.rar", b"Rar!\x1a\7\1\0\0\0"), ["missing"]),
    "7z": (spoiled("homework.7z", b"7z\xbc\xaf\x27\x1c\0\4"), ["missing"]),
    "encrypted zip": (spoiled("homework.zip", encrypted(b"x = 1\n"), "01.1"), ["missing"]),
    "empty file": (an_empty_file, ["missing"]),
    "empty folder": (an_empty_folder, ["missing"]),
    "online text": (typed_online, HELPED),
    "address": (an_address, ["missing"]),
    "nothing": (nothing, ["missing"]),
}
