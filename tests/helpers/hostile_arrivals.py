"""What one student may hand in to harm the others, the grader or their own row: names, archives, metadata, texts."""

import bz2
import gzip
import io
import json
import random
import tarfile
import zipfile

from .arrivals import notebook, right, zipped

METADATA = "submission_1:\n  :submitters:\n  - :name: Anna\n    :sid: '1'\n  :created_at: 0001-01-01 00:00:00 Z\n"


def in_downloads(depth):
    """A download of a class in a download of a class, and so on."""
    content = zipped({"anna_12_10001_ex01_1.py": "x", "zoe_13_10002_ex01_1.py": "y"})
    for i in range(depth):
        content = zipped({f"a{i}.zip": content, "kim_1_2000_x.py": "x", "lee_3_4000_y.py": "x"})
    return content


def tar_with_digits(count):
    """A tar whose extended header begins with a number of `count` digits."""
    body = b"9" * count + b" path=x\n"
    header = tarfile.TarInfo("pax")
    header.type, header.size = b"x", len(body)
    return gzip.compress(header.tobuf() + body + b"\0" * (-len(body) % 512) + tarfile.TarInfo("ex01_1.py").tobuf() + bytes(1024))


def zip_of_many(count):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i in range(count):
            archive.writestr(str(i), "")
    return buffer.getvalue()


def clone(name):
    return {f"{name}/.git/HEAD": "ref: refs/heads/main\n", f"{name}/.git/config": f"[remote]\n\turl = https://x/hw-{name}\n",
            f"{name}/ex01_1.py": "x"}


# {name: {path: content} in the student's own folder}, each read in much less than a second.
QUICK = {
    "metadata of Gradescope": {"submission_metadata.yml": METADATA, "submission_1/ex01_1.py": "x = 1"},
    "names of Canvas": {"anna_12_10001_ex01_1.py": "x", "zoe_13_10002_ex01_1.py": "x"},
    "names of Moodle": {"Anna_1_assignsubmission_file/ex01_1.py": "x", "Zoe_2_assignsubmission_file/ex01_1.py": "x"},
    "names of Blackboard": {"hw_anna_attempt_9999-99-99-99-99-99_ex01_1.py": "x",
                            "hw_zoe_attempt_0001-01-01-00-00-00_ex01_2.py": "x"},
    "clones": {**clone("anna"), **clone("zoe"), "classroom_roster.csv": "identifier,github_username,name\nx,zoe,Anna\n"},
    "folders of the others": {"Anna/ex01_1.py": "x", "Zoe/ex01_1.py": "x", "Anna_ex01_1.py": "x"},
    "zips of the others": {"Anna.zip": zipped({"ex01_1.py": "x"}), "Zoe.zip": zipped({"ex01_2.py": "x"})},
    "downloads in downloads": {"a.zip": in_downloads(20)},
    "a path that leads out": {"a.zip": zipped({"../Anna/ex01_1.py": "x", "/Zoe/ex01_2.py": "x", "..\\Anna\\b.py": "x"})},
    "a path of many folders": {"a.zip": zipped({"/".join(["d"] * 40 + ["Anna", "ex01_1.py"]): "x"})},
    "feedback": {"Anna.txt": "Anna\n0 of 2 points\n", "Zoe.txt": "Zoe\n0 of 2 points\n"},
    "a character of 5,000 digits": {"ex01_1.html": f"<p>&#{'9' * 5000};</p>"},
    "a surrogate in a name": {"a.ipynb": json.dumps({"nbformat": 4, "cells": [
        {"cell_type": "code", "source": "%%writefile ex01_1\ud800.py\n" + right("01.1")}]})},
    "numbers of 100,000 digits": {"a.ipynb": '{"cells": ' + "9" * 100_000 + "}"},
    "lists in lists": {"a.ipynb": '{"cells":' + "[" * 100_000},
    "a notebook of wrong types": {"a.ipynb": '{"cells": [1, null, {"cell_type": "code", "source": 7, "metadata": 3}]}'},
    "quotes": {"ex01_1.py": '"' * 98_000, "ex01_2.py": "'" * 98_001, "ex05_1.py": "f'{" * 30_000},
    "brackets": {"ex01_1.py": "(" * 100_000, "ex01_2.py": "import (" * 20_000},
    "a name with formulas and tags": {"=1+1;<script>.py": right("01.1"), "\u202eyp.x.py": right("01.2")},
    "an archive in itself by name": {"a.zip": zipped({"a.zip/ex01_1.py": "x", "a.zip": "y"})},
    "nothing": {"empty/.DS_Store": ""}}

# {name: function that makes the files}: reading them takes the time or the memory that one student has.
COSTLY = {
    "digits in a header": lambda: {"a.tgz": tar_with_digits(80_000)},
    "archives of zeros": lambda: {"a.zip": zipped(dict.fromkeys([f"{i}.tbz2" for i in range(60)], bz2.compress(bytes(63 << 20))))},
    "a zip of many entries": lambda: {"a.zip": zip_of_many(300_000)},
    "imports of many modules": lambda: {f"m{i}.py": "import " + ", ".join(f"q{j}.r{j}" for j in range(5000))
                                        for i in range(400)},
    "a notebook of many statements": lambda: {"a.ipynb": notebook("\n".join(
        f"def {name}(z):\n    return {name}" for name in ["softmax", "softmax_backward", "cross_entropy"] * 30_000))}}


def mutated_class(rng):
    """Files of a class of three as one system delivers it, {path: content}; and the path that belongs to the third, Eve.

    Eve's part holds what a random student may have, changed at random. All else is the same for the same layout.
    """
    layout = rng.choice(["folders", "zips", "canvas", "moodle", "gradescope", "github"])
    own = mutated_work(rng)
    honest = {"Anna": {"ex01_1_softmax.py": right("01.1"), "notes.txt": "hello"}, "Zoe": {"b/ex01_2.py": right("01.2")}}
    packed = {name: zipped(files) for name, files in {**honest, "Eve": own}.items()}
    if layout == "folders":
        return layout, {f"{name}/{path}": content for name, files in honest.items() for path, content in files.items()}, {
            f"Eve/{path}": content for path, content in own.items()}
    if layout == "zips":
        return layout, {f"{name}.zip": packed[name] for name in honest}, {"Eve.zip": packed["Eve"]}
    if layout == "canvas":
        return layout, {f"{name.lower()}_{i}_100{i}_hw.zip": packed[name] for i, name in enumerate(honest)}, {
            f"eve_7_1007_{rng.choice(list(own) or ['x']).replace('/', '_')[:60]}": next(iter(own.values()), b""),
            "eve_7_1008_hw.zip": packed["Eve"]}
    if layout == "moodle":
        return layout, {f"{name}_{i}_assignsubmission_file/{path}": content for i, (name, files) in enumerate(honest.items())
                        for path, content in files.items()}, {
            f"Eve_7_assignsubmission_file/{path}": content for path, content in own.items()}
    if layout == "gradescope":
        people = "".join(f"submission_{i}:\n  :submitters:\n  - :name: {name}\n    :sid: '{i}'\n"
                         for i, name in enumerate(("Anna", "Zoe", "Eve")))
        return layout, {"submission_metadata.yml": people, **{
            f"submission_{i}/{path}": content for i, files in enumerate(honest.values()) for path, content in files.items()}}, {
            f"submission_2/{path}": content for path, content in own.items()}
    return layout, {f"hw-{name.lower()}/{path}": content for name, files in honest.items()
                    for path, content in {**files, ".git/HEAD": "x"}.items()}, {
        f"hw-eve/{path}": content for path, content in without_collisions({**own, ".git/HEAD": "x"}).items()}


def mutated_work(rng):
    """{path: bytes} of a student: pieces of hostile work, some with changed bytes, under changed names."""
    files = {}
    for _ in range(rng.randrange(1, 4)):
        files |= QUICK[rng.choice(sorted(QUICK))]
    if rng.random() < 0.5:
        files |= {"ex01_1.py": right("01.1"), "hw.ipynb": notebook(right("01.2"))}
    changed = {}
    for path, content in files.items():
        content = content.encode("utf-8", "replace") if isinstance(content, str) else content
        changed[mutated_name(rng, path) if rng.random() < 0.3 else path] = (
            mutated_bytes(rng, content) if rng.random() < 0.5 else content)
    return without_collisions(changed)


def without_collisions(files):
    """Drops what would be a file and a folder at once."""
    return {path: content for path, content in files.items()
            if not any(other != path and other.startswith(f"{path}/") for other in files)}


def mutated_name(rng, path):
    folder, _, name = path.rpartition("/")
    name = rng.choice(["Anna", "zoe ", "Anna_ex01_1.py", "zoe_0_1001_ex01_2.py", "submission_0", "submission_metadata.yml", "x" * 200,
                       "a\u2028b.py", "=1;+1.py", "\x1b[31mred.py", "ex01_1 (2).py", "Kopie von ex01_1.py", ".git", "a.tar.gz",
                       "LATE_anon_3_4_x.py", "-", " ", "...", name[::-1] or "x", name.upper() or "X"])
    return f"{folder}/{name}" if folder else name


def mutated_bytes(rng, content):
    content = bytearray(content[:1 << 16])
    for _ in range(rng.choice([1, 3, 20])):
        kind, at = rng.randrange(4), rng.randrange(len(content) + 1)
        if kind == 0 and content:
            content[at % len(content)] = rng.randrange(256)
        elif kind == 1:
            del content[at:at + rng.choice([1, 8, 1000])]
        elif kind == 2:
            content[at:at] = rng.choice([b"\0", b"PK\x03\x04", b"\xff\xfe", b'"""', b"{", b"\x1b]0;x\x07", b"9" * 5000, b"import "])
        else:
            content[at:at] = content[:rng.choice([4, 64, 512])]
    return bytes(content)


def classes(seed, count):
    """Yields (number, layout, files of the others, files of Eve) of random classes."""
    for number in range(count):
        yield number, *mutated_class(random.Random(1_000_003 * seed + number))
