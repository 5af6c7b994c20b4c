"""Encodings, line ends, what word processors do to code, and files that are something else."""

import pytest
from helpers.arrivals import read, right
from helpers.quick import quick

from numpy_transformer.course.exercises import choose
from numpy_transformer.file_checks import one_line, printable
from numpy_transformer.grading.arrival.items import Unreadable
from numpy_transformer.grading.arrival.reading import source
from numpy_transformer.grading.arrival.statements import modules, statements
from numpy_transformer.grading.arrival.text import unusual

TEXT = "# Lösung: größer\n" + choose("01.1").edited()


def values(text):
    """What the student's function gives, run as Python would run the file."""
    names = {}
    exec(compile(text, "x", "exec"), names)
    return names["softmax"](choose("01.1").cases(0)[0].inputs[0]).tolist()


@pytest.mark.parametrize("content, remark", [
    (TEXT.encode(), ""), (TEXT.encode("utf-8-sig"), ""), (TEXT.encode("utf-16"), "UTF-16"),
    (TEXT.encode("utf-16-le"), "UTF-16"), (TEXT.encode("utf-16-be"), "UTF-16"), (TEXT.encode("utf-32"), "UTF-32"),
    (TEXT.encode("latin-1"), "not UTF-8"), (b"# coding: latin-1\n" + TEXT.encode("latin-1"), ""),
    (b"#!/usr/bin/python\r# -*- coding: cp1252 -*-\r" + TEXT.encode("cp1252"), ""),
    (b"# coding: utf-8\n" + TEXT.encode("latin-1"), "not UTF-8"),
    (TEXT.replace("\n", "\r\n").encode(), ""), (TEXT.replace("\n", "\r").encode(), ""),
    (TEXT.replace("\n", "\r\n", 3).replace("\n", "\r", 1).encode(), ""),
    (TEXT.replace("    ", "\t").encode(), ""), (TEXT.replace("    ", "\u00a0" * 4).encode(), "word processor"),
    (TEXT.replace(" = ", "\u00a0=\u2009").encode(), "word processor"),
    (TEXT.replace(" - ", " \u2212 ").encode(), "word processor")])
def test_the_same_file_in_many_encodings(content, remark):
    text, remarks = source(content)
    assert values(text) == values(TEXT) and "\r" not in text and "größer" in text
    assert compile(text.encode(), "x", "exec") and (remark in " ".join(remarks) if remark else remarks == [])


def test_typographic_quotation_marks_in_code_but_not_in_strings():
    text, remarks = source("a = “one”\nb = ‘two’\nc = 'don’t “x”'  # “y”\nd = f(„three“)\n".encode())
    assert text == "a = \"one\"\nb = 'two'\nc = 'don’t “x”'  # “y”\nd = f(\"three\")\n" and len(remarks) == 1


def test_only_what_the_code_says_is_changed():
    kept = "x = 'a\u00a0b'\n# \u00a0\n'''\n\u00a0“q”\n'''\ny = f'{x}\u00a0'\n"
    assert source(kept.encode()) == (kept, [])
    text, remarks = source(b"get_ipython().run_line_magic('matplotlib', 'inline')\nx = 1\n")
    assert values_of(text) == {"x": 1} and "get_ipython" in remarks[0]


def values_of(text):
    names = {}
    exec(text, names)
    return {name: value for name, value in names.items() if name != "__builtins__"}


@pytest.mark.parametrize("content, word", [
    (b"# coding: rot13\nvzcbeg bf\n", "'rot13'"), (b"# coding: unicode_escape\n\\u0061 = 1\n", "'unicode_escape'"),
    (b"\n# vim: set fileencoding=utf-7 :\n+AGE-=1\n", "'utf-7'"), (b"# coding: punycode\n", "'punycode'"),
    (b"# coding: nonsense\n", "'nonsense'"), (b"#\r# coding: raw-unicode-escape\rx=1", "'raw-unicode-escape'"),
    (b"%PDF-1.4", "a PDF file"), (b"{\\rtf1\\ansi", "a rich-text file"), (b"PK\x03\x04abc", "an Office document"),
    (b"\xd0\xcf\x11\xe0\xa1", "a Word document"), (b"\x89PNG\r\n", "an image"), (b"\xff\xd8\xff\xe0", "an image"),
    (b"\xa7\r\r\n" + b"\0" * 20, "compiled Python"), (b"x = 1\0\0\0", "not text"), (b"\xff\xfe\x00\xd8\x00", "damaged UTF-16")])
def test_what_is_no_python_is_said(content, word):
    with pytest.raises(Unreadable, match=word.replace("\\", "")):
        source(content)


@pytest.mark.parametrize("name, content, word", [
    ("ex01_1.py", b"x" * (1 << 20) + b"xx", "larger than 1 MB"), ("ex01_1_softmax.docx", b"x", "word processor"),
    ("ex01_1.pdf", b"x", "a PDF file"), ("softmax.rtf", b"x", "word processor"), ("ex01_1_softmax.cpython-311.pyc", b"x",
                                                                                  "compiled"),
    ("ex01_1.jpeg", b"x", "an image"), ("ex01_1.ipynb", b"{ no json", "damaged notebook"), ("ex01_1.ipynb", b"", "empty"),
    ("ex01_1.html", b"<html><div class='jp-Cell'>def softmax(z): pass", "web page"), ("ex01_1.rar", b"Rar!", "RAR archive, which is not read; hand in a zip"),
    ("ex01_1.7z", b"7z", "7z archive")])
def test_a_problem_has_the_number_in_the_name(name, content, word, tmp_path):
    students, _ = read(tmp_path, {f"kim/{name}": content, "kim/ex01_2.py": right("01.2")})
    (problem,) = students["kim"].problems
    assert problem.number == "01.1" and word in problem.sentence and problem.where == f"kim/{name}"
    assert problem.sentence.startswith("This ") and problem.sentence.endswith(".") and ";" in problem.sentence


def test_harmless_strays_are_notes_unless_they_are_all_there_is(tmp_path):
    files = {"kim/notes.pdf": b"%PDF", "kim/photo.png": b"x", "kim/README.md": "x", "kim/try.py": "x = 1"}
    students, notes = read(tmp_path, {**files, "kim/ex01_1.py": right("01.1")})
    assert students["kim"].problems == [] and [note.split(":")[1].strip() for note in notes] == [
        "kim/notes.pdf", "kim/photo.png", "kim/try.py"]
    students, notes = read(tmp_path / "2", files)
    assert [problem.where for problem in students["kim"].problems] == ["kim/notes.pdf", "kim/photo.png", "kim/try.py"]
    students, notes = read(tmp_path / "3", {"kim/README.md": "x", "kim/data.csv": "x", "lee": None})
    assert "README.md" in students["kim"].problems[0].where and not students["lee"].problems
    assert notes == ["lee handed in nothing: there is no file"]


def test_beside_an_untouched_skeleton_what_cannot_be_read_is_said(tmp_path):
    students, _ = read(tmp_path, {"kim/ex01_1_softmax.py": choose("01.1").skeleton(), "kim/homework.pdf": b"%PDF"})
    assert any("homework.pdf: This is a PDF file" in remark for remark in students["kim"].remarks["01.1"])


def test_statements_know_what_they_define_and_use():
    found = statements('import numpy as np, os.path as p\nfrom a import (b,\n  c as d)\n@deco\n@deco2(1)\ndef f(x):\n'
                       '    """def g(): pass"""\n    return h(x)\n\n# c\nx, y = 1, 2\nz: int = 3\nif x:\n    w = 1\nelse:\n'
                       '    def v(): pass\nprint(f"{x}")\nclass C(B):\n    q = 1\na == b\n')
    assert [(item.kind, sorted(item.binds)) for item in found] == [
        ("import", ["np", "p"]), ("import", ["b", "d"]), ("definition", ["f"]), ("assignment", ["x", "y"]),
        ("assignment", ["z"]), ("compound", ["v", "w"]), ("other", []), ("definition", ["C"]), ("other", [])]
    assert "h" in found[2].uses and "g" not in found[2].uses and "x" in found[6].uses
    assert "".join(part.text for part in found).count("\n") == 20
    assert modules("import a.b, c as d\nfrom u.v import (w,\n x as y)\n'import no'\n") == {
        "a.b", "c", "u.v", "u.v.w", "u.v.x"}


@pytest.mark.parametrize("text", quick(3, [
    "'" + "\\'" * 40_000, "(" * 100_000, "import (\n" * 10_000, '"""' + '\\"""' * 40_000, "-" * 100_000, " " * 100_000,
    "a," * 50_000, "“" * 100_000, "\\\n" * 50_000]))
def test_hostile_texts_are_read_like_others(text):
    """Each took minutes, or crashed the parser, with a simpler way of reading."""
    read = source(text.encode())[0]
    assert "".join(found.text for found in statements(read)).strip() == read.strip()
    assert not any(found.binds for found in statements(read)) and modules(text) == set()


def test_what_is_unusual_is_found_in_what_runs():
    assert unusual("import numpy, gc\nopen('x')\n# eval\nx = 'exec'\n") == ["imports gc, which no exercise needs",
                                                                            "uses open"]
    os_imported = ["imports os, which no exercise needs"]
    assert unusual("# coding: rot13\nimport os\n") == unusual(source(b"# a\rimport os")[0]) == os_imported
    assert unusual("#" * 100_001) == ["has more than 100 kB"]
    ordinary = "import matplotlib.pyplot as plt, helper\nfrom . import b\nfrom pandas import c\nfrom helper import d\n"
    assert unusual(ordinary, {"helper"}) == [] and unusual("import os", {"os"}) == os_imported


@pytest.mark.parametrize("code, phrases", [
    ("import math, sys\nimport os\nsys.path.append('x')\nos.chdir('/content')\nfrom google.colab import drive\n", []),
    ("import sys\nsys.modules['a'] = 1\n", ["uses sys"]), ("import os as o\n", ["imports os, which no exercise needs"]),
    ("from os import system\n", ["imports os, which no exercise needs"]), ("import os\nf(os)", ["uses os"]),
    ("import sys\nx = sys.", ["uses sys"])])
def test_a_notebook_s_usual_imports_are_not_unusual(code, phrases):
    assert unusual(code, is_notebook=True) == phrases
    assert "imports" in unusual(code)[0]


def test_texts_for_people_are_one_printable_line():
    assert one_line("a\u202eb\n\tc\x00 \ud800d") == "a b c d" and printable("a\u2028b") == "a b"
