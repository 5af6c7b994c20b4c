"""A class with known results: what each student hands in, under which names, and the row that the grader owes."""

import datetime
import functools
import io
import json
import random
import tarfile
import zipfile
from dataclasses import dataclass, field

import numpy as np

from numpy_transformer.classroom.exercise import observe
from numpy_transformer.classroom.exercises import choose

SHEET = ("01.1", "01.2", "05.1", "05.2")
DUE = datetime.datetime(2026, 10, 15, 23, 59, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
NAMES = [("Anna", "Müller"), ("Kim", "Lee"), ("Kim", "Lee"), ("Seán", "O'Brien"), ("Zoë", "de la Cruz-Smith"),
         ("Thị Minh Anh", "Nguyễn"), ("小明", "王"), ("민준", "김"), ("José", "García Márquez"), ("Łukasz", "Wójcik"),
         ("Martin", "King, Jr."), ("", "Suharto"), ("İpek", "Şahin"), ("Søren", "Ågård"), ("Anna-Lena", "Groß"),
         ("Дмитрий", "Иванов"), ("Ben", "Student"), ("Late", "Ahmed"), ("Marie (Mia)", "Dubois"), ("X Æ", "A_12_b")]
FIRST = "Ada Ali Bea Carl Dora Emil Fay Gil Hana Ida Jan Kai Lea Mia Nico Ole Pia Ravi Sara Tim Uma Vera Will Yuki".split()
LAST = "Adams Bauer Chen Diaz Evans Fischer Gupta Haas Ito Jung Khan Lopez Meyer Novak Okafor Patel Rossi Silva".split()

CRASH = "\n\n_inner = {0}\n\n\ndef {0}(*arguments):\n    raise ValueError('does not work yet')\n"
IN_PLACE = ("\n\n_inner = {0}\n\n\ndef {0}(*arguments):\n    result = _inner(*arguments)\n    arguments[0][...] = 7\n"
            "    return result\n")
LOOP = "\n\ndef {0}(*arguments):\n    while True:\n        pass\n"
TRIES = "\n\nif __name__ == '__main__':\n    print({0}.__doc__)\n"


@dataclass
class Truth:
    """The row that one exercise of one student has to get.

    `status` lists the possible ones, separated by "|", and `note`, in the same way, what the note has to contain.
    """

    status: str
    points: float = 0
    mistakes: tuple = ()                        # one of these names has to be in the row
    note: str = ""


MISSING = Truth("missing")


@dataclass
class Pupil:
    """A student as all systems know them, and what they hand in."""

    first: str
    last: str
    ids: dict                                   # of each system
    sections: tuple
    habit: str
    submitted: datetime.datetime
    attempt: int = 1                            # number of times they handed in everything
    files: dict = field(default_factory=dict)   # {path: bytes}, what counts
    before: dict = field(default_factory=dict)  # {path: bytes}, what they handed in first
    links: dict = field(default_factory=dict)   # {path: target}, symbolic links
    online: str = ""                            # what they typed into the system's page, if they hand in no file
    truth: dict = field(default_factory=dict)   # {number: Truth}
    partner: "Pupil" = None                     # who handed in for both, where the system knows groups

    @property
    def name(self):
        return f"{self.first} {self.last}".strip()

    @property
    def sortable(self):
        return f"{self.last}, {self.first}" if self.first else self.last

    @property
    def late(self):
        return self.submitted > DUE

    @property
    def hands_in(self):
        return bool(self.files or self.links or self.online)


def make_class(count, seed=0, sheet=SHEET, habits=None):
    """Returns `count` pupils, always the same for a seed. Every habit occurs if there are enough pupils."""
    chosen, pupils = [choose(number) for number in sheet], []
    habits = list(habits or HABITS)
    for i in range(count):
        rng = random.Random(seed * 10007 + i)
        pupil = enroll(rng, i, habits[i % len(habits)])
        make, outcomes = HABITS[pupil.habit]
        works = {exercise.number: draw(rng, exercise, outcomes) for exercise in chosen}
        pupil.truth = {number: truth for number, (truth, _) in works.items()}
        pupil.partner = pupils[-1] if pupil.habit == "partner" else None
        make(rng, pupil, {choose(number): source for number, (_, source) in works.items() if source is not None})
        pupils.append(pupil)
    return pupils


def enroll(rng, i, habit):
    first, last = NAMES[i] if i < len(NAMES) else (rng.choice(FIRST), f"{rng.choice(LAST)}")
    plain = "".join(c for c in f"{first[:1]}{last}".lower() if c.isascii() and c.isalpha()) or "student"
    ids = {"canvas": 40000 + 7 * i, "sis": f"S{100200 + i}", "login": f"{plain}{i}", "moodle": 1500 + 3 * i,
           "email": f"{plain}{i}@example.edu", "gradescope": str(30000200 + i), "github": f"{plain}-{i:03d}",
           "anonymous": f"{'aBcDeFgHiJ'[i % 10]}{rng.randrange(16 ** 4):04x}", "submission": 250000000 + 13 * i}
    late = datetime.timedelta(hours=rng.choice([3, 30])) if rng.random() < 0.15 else -datetime.timedelta(
        hours=rng.randrange(1, 200))
    both = i % 17 == 5
    sections = ("Section 1", "Section 2") if both else (f"Section {i % 2 + 1}",)
    return Pupil(first, last, ids, sections, habit, DUE + late, attempt=2 if rng.random() < 0.2 else 1)


def draw(rng, exercise, outcomes):
    """Returns the Truth of one exercise, and the source that gets it, or None."""
    outcome, full = rng.choice(outcomes), exercise.points
    if outcome == "right":
        edits = rng.choice([{}, {}, *exercise.alternatives.values()])
        return Truth("pass", full), exercise.edited(edits) + rng.choice(["", TRIES.format(exercise.name)])
    if outcome == "mistake":
        mistake = rng.choice(plain_mistakes(exercise))
        return Truth("fail", 0, (mistake.name, mistake.twin)), exercise.edited(mistake.edits)
    right = exercise.edited()
    return {"todo": (Truth("todo"), exercise.skeleton()),
            "syntax": (Truth("error"), right.replace("return ", "return return ")),
            "crash": (Truth("error", 0, note="does not work yet"), right + CRASH.format(exercise.name)),
            "in place": (Truth("fail", full // 2), right + IN_PLACE.format(exercise.name)),
            "loop": (Truth("timeout"), right + LOOP.format(exercise.name)),
            "matplotlib": (Truth("pass", full, note="matplotlib"), f"import matplotlib.pyplot as plt\n{right}"),
            "missing": (MISSING, None)}[outcome]


@functools.cache
def plain_mistakes(exercise):
    """Returns the known mistakes that give wrong values in every case, without an error or a changed argument."""
    cases = [case for case in exercise.cases(5) if not case.role]
    right = [observe(exercise, exercise.solution, case) for case in cases]
    return [mistake for mistake in exercise.mistakes
            if all(differs(observe(exercise, exercise.target(exercise.edited(mistake.edits)), case), expected)
                   for case, expected in zip(cases, right))]


def differs(seen, right):
    if seen.error or seen.changed or len(seen.outputs) != len(right.outputs):
        return False
    pairs = list(zip(seen.outputs, right.outputs))
    return all(a.shape == b.shape and np.isfinite(a).all() for a, b in pairs) and not all(map(near, pairs))


def near(pair):
    return np.allclose(*pair, rtol=1e-3, atol=1e-6)


# What students do with their files. Each function fills the pupil's files from {exercise: source}.

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


def former(exercise):
    return exercise.former_file[2:4]


def latin(text):
    return text.replace("ᵀ", "^T").encode("latin-1")


def with_tabs(text):
    lines = [line.removeprefix(" " * (len(line) - len(line.lstrip(" ")))) for line in text.split("\n")]
    depths = [(len(line) - len(line.lstrip(" "))) // 4 for line in text.split("\n")]
    return "\n".join("\t" * depth + line for depth, line in zip(depths, lines)).encode()


def zipped(files, extra=()):
    """A zip of these files and of `extra`, (path, content) or (path, target of a link, its mode)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content, *mode in [*files.items(), *extra]:
            entry = zipfile.ZipInfo(path, (2026, 10, 14, 10, 0, 0))
            entry.external_attr = (mode or [0o100644])[0] << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def zipped_on_a_mac(files):
    extra = [("__MACOSX/homework/week 2/._" + path.rpartition("/")[2], b"\0\5\26\7\0\2\0\0Mac OS X") for path in files]
    return zipped(files, [*extra, ("homework/.DS_Store", b"\0\0\0\1Bud1"), ("homework/", b"")])


def zipped_twice(files):
    return zipped({"week 2.zip": zipped_on_a_mac(files), "README.txt": b"My homework is in the zip."})


def zipped_by_windows(files):
    return zipped({path.replace("/", "\\"): content for path, content in files.items()})


def zipped_from_the_root(files):
    return zipped({f"/home/kim/../kim/{path}": content for path, content in files.items()})


def encrypted(content):
    """A zip whose entries claim to be encrypted."""
    archive = bytearray(zipped({"ex01_1_softmax.py": content}))
    archive[6] |= 1
    archive[archive.index(b"PK\1\2") + 8] |= 1
    return bytes(archive)


def tarred(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in files.items():
            item = tarfile.TarInfo(path)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    return buffer.getvalue()


def notebook(cells):
    """A notebook with these code cells, as Jupyter writes it: text, magics, outputs and all."""
    text = [{"cell_type": "markdown", "id": "a0", "metadata": {}, "source": ["# Homework\n", "Softmax & attention"]}]
    code = [{"cell_type": "code", "execution_count": i + 1, "id": f"c{i}", "metadata": {},
             "outputs": [{"name": "stdout", "output_type": "stream", "text": ["def softmax(z):\n", "    wrong\n"]}],
             "source": cell.splitlines(keepends=True)} for i, cell in enumerate(cells)]
    return json.dumps({"cells": text + code, "metadata": {"kernelspec": {"name": "python3", "language": "python",
                       "display_name": "Python 3"}}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


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
    return "" if {part.__name__ for part in exercise.given} <= own else exercise.header.split("\n\n\n", 1)[1]


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
    pupil.files |= {"homework/src/.ipynb_checkpoints/ex01_1-checkpoint.ipynb": old, "homework/.DS_Store": b"\0\0\0\1Bud1",
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
PDF, PNG = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n%%EOF\n", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
WORD = zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w:document>def softmax(z):</w:document>"})

HABITS = {
    "plain": (named(lambda e: e.file), ANY),
    "partner": (with_a_partner, ["missing"]),
    "short": (named(lambda e: f"{short(e)}.py"), ANY),
    "one notebook": (in_one_notebook, HELPED),
    "former": (named(lambda e: e.former_file), ANY),
    "former, short": (named(lambda e: f"ex{former(e)}.py"), PARSED),
    "browser": (named(lambda e: f"ex{former(e)} (1).py"), PARSED),
    "copy of": (named(lambda e: f"Copy of {e.file}"), ANY),
    "copy": (named(lambda e: f"{stem(e)} - Copy.py"), ANY),
    "py.txt": (named(lambda e: f"{e.file}.txt"), ANY),
    "txt": (named(lambda e: f"{stem(e)}.txt"), PARSED),
    "capitals": (named(lambda e: f"{stem(e)}.PY"), ANY),
    "all capitals": (named(lambda e: f"{short(e).upper()}.PY"), ANY),
    "exercise": (named(lambda e: f"exercise{former(e)}.py"), PARSED),
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
