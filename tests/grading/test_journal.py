"""The journal believes only its own lines; outputs are opened as regular files, or not at all."""

import errno
import hashlib
import hmac
import json
import os
import socket
import stat
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

import numpy_transformer
from numpy_transformer.grading import files
from numpy_transformer.grading.files import check_output, open_regular, read_or_make_key, replace_file
from numpy_transformer.grading.journal import FIRST, Journal
from numpy_transformer.grading.rows import Row

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and locks of POSIX")
KEY, SETTINGS = bytes(range(32)), {"seed": 7, "timeout": 10.0}


def row(name, digest="d", **more):
    return Row(**{**dict(student=name, number="01.2", exercise="ex01_2_softmax_backward", status="fail", points=0, max=2,
                         seconds=0.5, note="", digest=digest), **more})


def written(path, *names, settings=SETTINGS):
    """A journal with a row for each name, left by an interrupted run."""
    journal = Journal(path, KEY)
    journal.start(settings)
    for name in names:
        journal.started(row(name).key)
        journal.add(row(name))
    journal.file.close()
    return path.read_bytes().split(b"\n")[:-1]


def students(path, key=KEY):
    journal = Journal(path, key)
    journal.file.close()
    return [name for name, _, _ in journal.rows], journal


def test_rows_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "scores.csv.part"
    written(path, "ada", "Zoë")
    names, journal = students(path)
    assert names == ["ada", "Zoë"] and journal.settings == SETTINGS and not journal.warning
    assert Row.from_journal(journal.rows[row("Zoë").key]) == row("Zoë")
    assert Row.from_journal({"student": "Zoë"}) is None


def test_each_line_carries_the_code_that_the_standard_gives(tmp_path):
    """HMAC-SHA256 (RFC 2104) over the code of the line before, a space and the line."""
    lines = written(tmp_path / "part", "ada", "ben")
    before = FIRST.encode()
    for line in lines:
        code, _, text = line.partition(b" ")
        pad = KEY.ljust(64, b"\0")
        inner = hashlib.sha256(bytes(b ^ 0x36 for b in pad) + before + b" " + text).digest()
        assert code.decode() == hashlib.sha256(bytes(b ^ 0x5C for b in pad) + inner).hexdigest()
        before = code


FULL = json.dumps({"row": {**asdict(row("mallory")), "points": 2, "status": "pass"}}).encode()


@pytest.mark.parametrize("change, kept, said", [
    (lambda lines: lines + [b"0" * 64 + b" " + FULL], ["ada", "ben", "cem"], "line 8"),
    (lambda lines: lines + [lines[2].split()[0] + b" " + FULL], ["ada", "ben", "cem"], "line 8"),
    (lambda lines: lines + [hmac.new(b"guess", FULL, "sha256").hexdigest().encode() + b" " + FULL],
     ["ada", "ben", "cem"], "line 8"),
    (lambda lines: lines + [FULL], ["ada", "ben", "cem"], "line 8"),
    (lambda lines: lines + [b"\xff\xfe\0 {"], ["ada", "ben", "cem"], "line 8"),
    (lambda lines: lines + lines[2:3], ["ada", "ben", "cem"], "line 8"),
    (lambda lines: lines[:4] + [lines[4].replace(b'"points": 0', b'"points": 2')] + lines[5:], ["ada"], "line 5"),
    (lambda lines: lines[:2] + lines[4:], [], "line 3"),
    (lambda lines: lines[:3] + [lines[6]] + lines[3:6], ["ada"], "line 4"),
    (lambda lines: lines[:5], ["ada", "ben"], "")], ids=[
    "forged", "code of another line", "another key", "no code", "no text", "twice", "changed", "cut out", "reordered",
    "cut off"])
def test_nothing_is_believed_after_a_line_that_the_grader_did_not_write(change, kept, said, tmp_path):
    path = tmp_path / "scores.csv.part"
    lines = written(path, "ada", "ben", "cem")
    assert len(lines) == 7
    path.write_bytes(b"\n".join(change(lines)) + b"\n")
    names, journal = students(path)
    assert names == kept
    assert said in journal.warning and bool(said) == bool(journal.warning)
    assert students(path)[0] == kept and not students(path)[1].warning      # what was not believed is cut off


def test_a_line_that_was_not_finished_is_cut_off_without_a_word(tmp_path):
    path = tmp_path / "part"
    lines = written(path, "ada", "ben")
    path.write_bytes(b"\n".join(lines)[:-9])
    names, journal = students(path)
    assert names == ["ada"] and not journal.warning
    journal = Journal(path, KEY)
    journal.start(SETTINGS)
    journal.add(row("cem"))
    journal.close()
    assert students(path)[0] == ["ada", "cem"]


def test_the_journal_of_another_key_or_version_is_refused_and_stays(tmp_path):
    path = tmp_path / "part"
    written(path, "ada")
    before = path.read_bytes()
    for text, key in ((before, b"x" * 32), (b'{"seed": 7}\n', KEY), (b"", KEY), (b"my notes", KEY)):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="not the journal of a grading run of this user; move it away"):
            Journal(path, key)
        assert path.read_bytes() == text


def test_other_settings_are_refused(tmp_path):
    written(tmp_path / "part", "ada")
    with pytest.raises(ValueError, match="seed 7, not 8; use the same value to resume, or delete"):
        Journal(tmp_path / "part", KEY).start({**SETTINGS, "seed": 8})


@pytest.mark.slow
@posix
def test_two_graders_do_not_write_one_journal(tmp_path):
    path = tmp_path / "part"
    journal = Journal(path, KEY)
    journal.start(SETTINGS)
    code = ("import sys; from pathlib import Path; from numpy_transformer.grading.journal import Journal\n"
            "try: Journal(Path(sys.argv[1]), bytes(range(32)))\nexcept ValueError as error: print(error)")
    environment = {**os.environ, "PYTHONPATH": str(Path(numpy_transformer.__file__).parents[1])}
    other = [sys.executable, "-c", code, str(path)]
    assert "another grader is writing" in subprocess.check_output(other, text=True, env=environment)
    with pytest.raises(ValueError, match="another grader"):                  # in the same process too
        Journal(path, KEY)
    journal.close()
    assert not subprocess.check_output(other, text=True, env=environment)


def crash(path, *running):
    """The grader is killed while these files run."""
    journal = Journal(path, KEY)
    journal.start(SETTINGS)
    for name in running:
        journal.started(row(name).key)
    journal.file.close()


def who(keys):
    return sorted(name for name, _, _ in keys)


def test_the_file_that_ran_alone_when_the_grader_was_killed_is_to_blame(tmp_path):
    path = tmp_path / "part"
    written(path, "ada")
    crash(path, "ben")
    _, journal = students(path)
    assert (who(journal.fatal), who(journal.suspects)) == (["ben"], [])
    assert "ben 01.2" in " ".join(journal.sentences()) and "--retry" in " ".join(journal.sentences())


def test_of_several_files_none_is_blamed_until_it_was_running_alone(tmp_path):
    path = tmp_path / "part"
    crash(path, "ada", "ben")
    journal = Journal(path, KEY)
    assert (who(journal.fatal), who(journal.suspects)) == ([], ["ada", "ben"])
    journal.start(SETTINGS)
    journal.started(row("ada").key)
    journal.add(row("ada"))
    journal.started(row("ben").key)
    journal.file.close()                        # killed again, with ben alone
    names, journal = students(path)
    assert (who(journal.fatal), who(journal.suspects), names) == (["ben"], [], ["ada"])


def test_an_interruption_blames_nobody(tmp_path):
    path = tmp_path / "part"
    journal = Journal(path, KEY)
    journal.start(SETTINGS)
    journal.started(row("ada").key)
    journal.close()
    _, journal = students(path)
    assert not journal.fatal and not journal.suspects


def test_a_full_disk_leaves_whole_lines(tmp_path):
    """A write that stores only a part and then fails, as on a disk that fills up."""
    path = tmp_path / "part"
    journal = Journal(path, KEY)
    journal.start(SETTINGS)
    journal.add(row("ada"))

    class Full:
        def __init__(self, file):
            self.file, self.left = file, 40

        def write(self, data):
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            count = self.file.write(data[:self.left])
            self.left -= count
            return count

        def __getattr__(self, name):
            return getattr(self.file, name)

    journal.file = Full(journal.file)
    with pytest.raises(OSError, match="No space"):
        journal.add(row("ben"))
    journal.file = journal.file.file
    journal.add(row("cem"))
    journal.close()
    names, journal = students(path)
    assert names == ["ada", "cem"] and not journal.warning


@posix
def test_the_key_is_drawn_once_and_belongs_to_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    key = read_or_make_key()
    path, = (tmp_path / "state").rglob("*.key")
    assert len(key) == 32 and path.read_bytes() == key == read_or_make_key()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == [path.name]
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="damaged"):
        read_or_make_key()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="a link"):
        read_or_make_key()


@pytest.mark.slow
@posix
def test_many_graders_that_start_at_once_draw_one_key(tmp_path):
    code = "from numpy_transformer.grading.files import read_or_make_key; print(read_or_make_key().hex())"
    environment = {**os.environ, "PYTHONPATH": str(Path(numpy_transformer.__file__).parents[1]),
                   "XDG_STATE_HOME": str(tmp_path)}
    started = [subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(4)]
    assert len({process.communicate()[0] for process in started}) == 1


def odd(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(path.parent / "target")
    elif kind == "dangling link":
        path.symlink_to(path.parent / "nowhere")
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            here = os.getcwd()
            os.chdir(path.parent)               # the path of a socket is limited to about 100 characters
            server.bind(path.name)
            os.chdir(here)


@posix
@pytest.mark.parametrize("kind", ["pipe", "link", "dangling link", "folder", "socket"])
def test_only_regular_files_are_written_and_read(kind, tmp_path):
    path, target = tmp_path / "scores.csv", tmp_path / "target"
    target.write_text("stays", encoding="utf-8")
    odd(kind, path)
    before = os.lstat(path)
    for attempt in (lambda: check_output(path), lambda: replace_file(path, lambda file: file.write("x")),
                    lambda: open_regular(path, os.O_RDONLY), lambda: Journal(path, KEY)):
        with pytest.raises(ValueError, match=kind.split()[-1].replace("pipe", "named pipe")):
            attempt()
    assert os.path.samestat(os.lstat(path), before) and target.read_text(encoding="utf-8") == "stays"
    with pytest.raises(ValueError, match="device"):
        check_output(os.devnull)


@posix
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_lies_at_the_temporary_name_is_neither_opened_nor_followed(kind, tmp_path):
    odd(kind, tmp_path / "scores.csv.new")
    (tmp_path / "target").write_text("stays", encoding="utf-8")
    replace_file(tmp_path / "scores.csv", lambda file: file.write("new"))
    assert (tmp_path / "scores.csv").read_text(encoding="utf-8") == "new"
    assert (tmp_path / "target").read_text(encoding="utf-8") == "stays"
    assert sorted(os.listdir(tmp_path)) == ["scores.csv", "target"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "scores.csv"
    replace_file(path, lambda file: file.write("first"))

    def full(file):
        file.write("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace_file(path, full)
    assert path.read_text(encoding="utf-8") == "first" and os.listdir(tmp_path) == ["scores.csv"]
    replace_file(path, lambda file: file.write("second"))
    assert (tmp_path / "scores.csv.bak").read_text(encoding="utf-8") == "first"
    replace_file(path, lambda file: file.write("third"), backup=False)
    assert (tmp_path / "scores.csv.bak").read_text(encoding="utf-8") == "first"
    assert files.kind_of_path(path) == "" and files.kind_of_path(tmp_path / "none") == ""
