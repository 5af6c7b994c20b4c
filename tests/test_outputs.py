"""Results go to regular files: every command refuses whatever else is at the path, at once."""

import os
import socket
import stat

import numpy as np
import pytest
from helpers.commands import refused

import numpy_transformer as nt
from numpy_transformer.data import CharTokenizer
from numpy_transformer.outputs import check_folder_kind, check_output, kind_of_path, write_output

pytestmark = pytest.mark.skipif(os.name != "posix", reason="named pipes of POSIX")
KINDS = {"pipe.npz": "a named pipe", "link.npz": "a named pipe", "socket.npz": "a socket", "folder.npz": "a folder"}
COMMANDS = [
    (["train", "lm", "--out"], ".npz"), (["train", "lm", "--out", "new.npz", "--curves"], ".png"),
    (["train", "lm", "--out", "new.npz", "--film"], ".html"),
    (["import", "no-folder", "--out"], ".npz"), (["import", "no-folder", "--overwrite", "--out"], ".npz"),
    (["train", "lm", "--resume", "--out"], ".npz"), (["train", "lm", "--overwrite", "--out"], ".npz"),
    (["embed", "no.npz", "a", "--out"], ".npy"), (["exercise", "gradescope-zip"], ".zip"), (["bench", "--json"], ".json")]
SLOW_COMMANDS = [                               # to import
    (["plot", "pe", "--out"], ".png"), (["plot", "pe", "--overwrite", "--out"], ".svg"),
    (["zoo", "no-scale", "--out"], ".png"), (["explore", "--out"], ".html"), (["gradcheck", "Linear", "--json"], ".json"),
    (["grade", "no-class", "--out"], ".csv"), (["grade", "no-class", "--json"], ".json"), (["grade", "no-class", "--picture"], ".png"),
    (["grade", "no-class", "--anonymous"], ".html")]
COMMANDS += [pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW_COMMANDS]
FOLDERS = [["figures", "--out"], ["demo", "--figures"], ["export", "no.npz"], ["grade", "no-class", "--feedback"],
           ["bench", "--growth", "--figures"], ["lesson", "start"], ["exercise", "start"]]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words, ending", COMMANDS, ids=lambda value: " ".join(value) if isinstance(value, list) else value)
def test_every_command_refuses_a_pipe_at_once(words, ending, here, capsys):
    os.mkfifo(f"pipe{ending}")
    os.symlink(f"pipe{ending}", f"link{ending}")
    for name in (f"pipe{ending}", f"link{ending}"):
        sentence = refused(capsys, *words, name)
        assert "it is a named pipe" in sentence or "it is a link" in sentence
    assert stat.S_ISFIFO(os.stat(f"pipe{ending}").st_mode) and sorted(os.listdir()) == [f"link{ending}", f"pipe{ending}"]


@pytest.mark.slow
@pytest.mark.parametrize("words", FOLDERS, ids=" ".join)
def test_every_command_that_writes_a_folder_refuses_a_pipe(words, here, capsys):
    os.mkfifo("pipe")
    assert "pipe" in refused(capsys, *words, "pipe")
    assert os.listdir() == ["pipe"]


def test_what_is_no_regular_file_is_named(here):
    os.mkfifo("pipe.npz")
    os.symlink("pipe.npz", "link.npz")
    os.mkdir("folder.npz")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.npz")
        for name, kind in KINDS.items():
            with pytest.raises(ValueError, match=f"cannot write '{name}': it is {kind}, but a result replaces a regular"):
                check_output(name)
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        with pytest.raises(ValueError, match="it is a stream that this process has open"):
            check_output(name)
    with pytest.raises(ValueError, match="it is a device"):
        check_output("/dev/null")
    with pytest.raises(ValueError, match="'pipe.npz': it is a named pipe; name a folder"):
        check_folder_kind("pipe.npz")


def test_a_file_and_links_to_files_are_written(here):
    os.symlink("target.npz", "link.npz")                    # the target is new
    for name in ("new.npz", "link.npz", "new.npz"):
        assert check_output(name).name == name and kind_of_path(name) == ""
        write_output(name, b"content")
    assert os.path.islink("link.npz") and open("target.npz", "rb").read() == b"content"
    assert sorted(os.listdir()) == ["link.npz", "new.npz", "target.npz"]


def test_a_pipe_in_the_place_of_the_temporary_file_does_not_hang(here):
    for name in ("run.npz.part", "page.html.part"):
        os.mkfifo(name)
    nt.save_run("run.npz", nt.CausalLanguageModel(2, 4, 2, 1, max_len=4, rng=0), CharTokenizer("ab"))
    write_output("page.html", b"page")
    assert np.load("run.npz")["meta"].ndim == 0 and sorted(os.listdir()) == ["page.html", "run.npz"]
