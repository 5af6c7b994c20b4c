"""Archives and folders are read in place: nothing escapes, expands, blocks or is followed."""

import io
import os
import random
import socket
import stat
import struct
import tarfile
import zipfile

import pytest
from helpers.arrivals import lay, numbers, read, right, tarred, zipped

from numpy_transformer.grading.arrival import archives, items, read_class, search
from numpy_transformer.grading.arrival.class_place import ClassPlace
from numpy_transformer.grading.arrival.formats import plain_owner

FILE = "ex01_1_softmax.py"
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX only")


def of(folder, files):
    return read(folder, {f"kim/{name}": content for name, content in files.items()})[0]["kim"]


@pytest.mark.parametrize("name, content", [
    ("x.zip", zipped({f"a/b/c/{FILE}": right("01.1")})),
    ("x.tar.gz", tarred({f"a/{FILE}": right("01.1")})),
    ("x.zip", zipped({"y.zip": zipped({"z.tar.gz": tarred({FILE: right("01.1")})})})),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ("x.ZIP", zipped({FILE: right("01.1")})), ("x.tgz", tarred({FILE: right("01.1")})),
        ("x.tar", tarred({FILE: right("01.1")}, "")), ("x.tar.xz", tarred({FILE: right("01.1")}, "xz")),
        ("x.tar.bz2", tarred({FILE: right("01.1")}, "bz2")), ("x.zip", tarred({FILE: right("01.1")})),
        ("x.zip", zipped({f"a\\b\\{FILE}": right("01.1")})), ("x.zip", zipped({f"../../{FILE}": right("01.1")})),
        ("x.zip", zipped({f"/etc/{FILE}": right("01.1")})),
        ("x.zip", zipped({f"__MACOSX/._{FILE}": "x", "a/.DS_Store": "x", f"a/{FILE}": right("01.1"), "a/.git/config": "x",
                          "a/venv/pyvenv.cfg": "x", f"a/venv/{FILE}": "x",
                          "a/.ipynb_checkpoints/ex01_1-checkpoint.ipynb": "x",
                          "a/__pycache__/ex01_1.pyc": "x"}))))])
def test_what_is_in_an_archive_counts_like_a_file(name, content, tmp_path):
    before = set(tmp_path.parent.rglob("*"))
    student = of(tmp_path / "class", {name: content})
    assert numbers(student) == {"01.1": [FILE]} and student.problems == []
    assert student.attempts["01.1"][0].content.decode() == right("01.1")
    assert {path.name for path in set(tmp_path.parent.rglob("*")) - before} <= {"class", "kim", name, tmp_path.name}


def with_flag(content, offset_local, offset_central, value):
    """The zip with these two bytes set in the only entry's headers."""
    data = bytearray(content)
    central = data.index(b"PK\x01\x02")
    struct.pack_into("<H", data, offset_local, value)
    struct.pack_into("<H", data, central + offset_central, value)
    return bytes(data)


@pytest.mark.parametrize("name, content, word", [
    ("x.zip", with_flag(zipped({FILE: "x"}), 6, 8, 1), "password"), ("x.zip", with_flag(zipped({FILE: "x"}), 8, 10, 14), "method"),
    ("x.zip", with_flag(zipped({FILE: "x"}), 8, 10, 9), "method"), ("x.zip", zipped({FILE: "x" * 99})[:60], "damaged"),
    ("x.zip", b"", "damaged"), ("x.tar.gz", tarred({FILE: "x"})[:50], "damaged"), ("x.tar", b"x" * 2000, "damaged"),
    ("x.zip", zipped({FILE: b"\0" * (1 << 22)}), "larger than 1 MB"),
    ("x.zip", zipped({"1.zip": zipped({"2.zip": zipped({"3.zip": zipped({"4.zip": zipped({FILE: "x"})})})})}), "too many other"),
    ("x.zip", zipped({"/".join("abcdefghijklmnopqrs") + f"/{FILE}": "x"}), "too many")],
    ids=lambda value: "content" if isinstance(value, bytes) else value)     # archives hold the time of their making
def test_what_is_wrong_with_an_archive_is_said(name, content, word, tmp_path):
    student = of(tmp_path, {name: content})
    assert not student.attempts and word in student.problems[0].sentence


def test_a_damaged_entry_is_a_problem_with_its_number(tmp_path):
    content = bytearray(zipped({FILE: right("01.1"), "ex01_2.py": right("01.2")}))
    content[content.index(b"PK\x03\x04") + 14] ^= 255           # the checksum of the first file
    content[content.index(b"PK\x01\x02") + 16] ^= 255
    student = of(tmp_path, {"x.zip": bytes(content)})
    assert [(problem.number, "damaged" in problem.sentence) for problem in student.problems] == [("01.1", True)]
    assert list(student.attempts) == ["01.2"]


def searched(folder, files):
    """The problems of a search in this process, whose limits a test can change."""
    with ClassPlace(0, lay(folder, files)) as place:
        return " ".join(sentence for _, _, sentence in search.search_item(place.named, plain_owner("Kim")).problems)


def test_many_files_and_many_bytes_stop_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "ENTRIES", 30)
    monkeypatch.setattr(archives, "LARGEST", 20_000)
    many = zipped({f"{i}.py": "x" for i in range(40)})
    assert "more than 30" in searched(tmp_path / "a", {"x.zip": many})
    small = tarred({f"{i}": "" for i in range(40)})
    monkeypatch.setattr(archives, "LARGEST", 100_000)
    assert "more than 30" in searched(tmp_path / "b", {"x.tar.gz": small})
    monkeypatch.setattr(archives, "LARGEST", 20_000)
    bomb = tarred({FILE: "\0" * 300_000})
    assert len(bomb) < 2000 and "holds more than" in searched(tmp_path / "c", {"x.tgz": bomb})
    assert "larger than" in searched(tmp_path / "d", {"x.zip": os.urandom(20_001)})
    monkeypatch.setattr(search, "MOST_BYTES", 50_000)
    assert "all files together" in searched(tmp_path / "g", {f"{i}.tgz": bomb for i in range(5)})
    monkeypatch.setattr(search, "MOST_FILES", 20)
    assert "too many files" in searched(tmp_path / "e", {f"{i:02}.py": "x" for i in range(30)})
    monkeypatch.setattr(search, "MOST_BYTES", 500)
    assert "all files together" in searched(tmp_path / "f", {f"{i:02}.py": "x" * 99 for i in range(10)})


def test_a_zip_that_lies_about_its_directory_is_not_read(tmp_path):
    content = bytearray(zipped({FILE: "x"}))
    struct.pack_into("<L", content, content.index(b"PK\x05\x06") + 12, 0xffffffff)
    assert of(tmp_path, {"x.zip": bytes(content)}).problems


def test_names_in_archives(tmp_path):
    buffer = io.BytesIO()

    class Unflagged(zipfile.ZipInfo):
        def _encodeFilenameFlags(self):         # noqa: N802, a name of the standard library
            return self.filename.encode(), self.flag_bits

    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(Unflagged("Müller/größe.py"), "x = 1")
        archive.writestr(zipfile.ZipInfo("王/naïve.py"), "x = 1")
    student = of(tmp_path, {"x.zip": buffer.getvalue()})
    assert [problem.where for problem in student.problems] == ["kim/x.zip/Müller/größe.py", "kim/x.zip/王/naïve.py"]


def test_links_and_devices_in_archives(tmp_path):
    buffer, link = io.BytesIO(), zipfile.ZipInfo("ex01_2.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr(FILE, right("01.1"))
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, kind in (("ex05_1.py", tarfile.SYMTYPE), ("ex05_2.py", tarfile.LNKTYPE), ("ex02_1.py", tarfile.FIFOTYPE),
                           ("ex02_2.py", tarfile.CHRTYPE)):
            item = tarfile.TarInfo(name)
            item.type, item.linkname = kind, "/etc/passwd"
            archive.addfile(item)
    student = of(tmp_path, {"x.zip": buffer.getvalue(), "x.tar": tar.getvalue()})
    assert list(student.attempts) == ["01.1"]
    assert sorted((p.number, "link" in p.sentence or "not an ordinary file" in p.sentence) for p in student.problems) == [
        (number, True) for number in ("01.2", "02.1", "02.2", "05.1", "05.2")]


@posix
def test_links_pipes_sockets_and_locked_files_on_the_disk(tmp_path):
    lay(tmp_path, {"secret.py": right("01.1"), "c/kim/ex01_2.py": right("01.2"), "c/kim/locked/ex05_1.py": right("05.1"),
                   "c/kim/ex05_2.py": right("05.2")})
    kim = tmp_path / "c" / "kim"
    (kim / FILE).symlink_to(tmp_path / "secret.py")
    (kim / "folder").symlink_to(tmp_path)
    os.mkfifo(kim / "ex02_1.py")
    here = os.getcwd()
    os.chdir(kim)                               # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("ex02_2.py")
        os.chdir(here)
        (kim / "ex05_2.py").chmod(0)
        (kim / "locked").chmod(0)
        student = read_class(tmp_path / "c").students[0]
        (kim / "locked").chmod(0o700)
    found = {problem.number: problem.sentence for problem in student.problems}
    assert "link" in found["01.1"] and "pipe" in found["02.1"] and "pipe" in found["02.2"] and "link" in found[""]
    if os.geteuid():
        assert "permissions" in found["05.2"] and set(student.attempts) == {"01.2"}
        assert any(problem.where == "kim/locked" for problem in student.problems)
    else:
        assert set(student.attempts) == {"01.2", "05.1", "05.2"}


@posix
def test_names_that_are_not_utf_8(tmp_path):
    folder = os.fsencode(tmp_path) + b"/M\xfcller"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    with open(folder + b"/ex01_1_gr\xf6\xdfe.py", "w", encoding="utf-8") as file:
        file.write(right("01.1"))
    student = read_class(tmp_path).students[0]
    assert student.name == "Müller" and student.attempts["01.1"][0].where == "Müller/ex01_1_größe.py"


def test_random_bytes_never_stop_the_reading(tmp_path):
    rng = random.Random(0)
    good = {"x.zip": zipped({FILE: right("01.1"), "a/b.txt": "x"}), "x.tar.gz": tarred({FILE: right("01.1")}),
            "x.tar": tarred({FILE: right("01.1")}, ""), "ex01_1.ipynb": b'{"cells": [{"cell_type": "code", "source": "x"}]}',
            "ex01_2.py": right("01.2").encode()}
    files = {}
    for i in range(150):
        name = rng.choice(list(good))
        data = bytearray(good[name])
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        files[f"s{i:03}/{name}"] = bytes(data[:rng.choice([None, None, rng.randrange(len(data))])])
    students, _ = read(tmp_path, files)
    assert len(students) == 150 and all(student.attempts or student.problems for student in students.values())


def test_ignored_names():
    for name in (".git", "__MACOSX", "._x.py", ".DS_Store", "__pycache__", ".venv", "x.egg-info", "~$x.docx", "Thumbs.db"):
        assert items.IGNORED.fullmatch(name)
    for name in ("__init__.py", ".lee", "x.py", "git", "env.py"):
        assert not items.IGNORED.fullmatch(name)
