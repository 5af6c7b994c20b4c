"""Figures in the terminal: which protocol a terminal knows, and what is sent by each of the three."""

import base64
import os
import re
import stat
import sys
import threading

import numpy as np
import pytest
from PIL import Image

from numpy_transformer.course.lessons import pictures
from numpy_transformer.views import sixels


@pytest.mark.parametrize("environment, protocol", [
    ({"TERM": "xterm-kitty"}, "kitty"), ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
    ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "kitty"),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"), ({"TERM": "xterm", "LC_TERMINAL": "iTerm2"}, "iterm"),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"), ({"TERM": "foot"}, "sixel"),
    ({"TERM": "foot-extra"}, "sixel"), ({"TERM": "mlterm-256color"}, "sixel"), ({"TERM": "football"}, None),
    ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux-0/default,1,0"}, None), ({"TERM": "screen-256color"}, None),
    ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None), ({"TERM": "dumb", "KITTY_WINDOW_ID": "1"}, None),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "vscode", "KITTY_WINDOW_ID": "1"}, None), ({}, None),
    ({"TERM": "xterm-kitty", "NUMPY_TRANSFORMER_PICTURES": "none"}, None),
    ({"TERM": "screen", "NUMPY_TRANSFORMER_PICTURES": "sixel"}, "sixel")])
def test_the_protocol_follows_from_the_environment(environment, protocol):
    assert pictures.protocol(environment, ask=False) == protocol


@pytest.mark.parametrize("term, program, asked", [
    ("xterm-256color", "", True), ("xterm", "vscode", True), ("xterm-256color", "Apple_Terminal", False), ("vt100", "", False)])
def test_only_a_terminal_that_may_know_sixels_is_asked(monkeypatch, term, program, asked):
    monkeypatch.setattr(pictures, "knows_sixels", lambda: True)
    assert pictures.protocol({"TERM": term, "TERM_PROGRAM": program}) == ("sixel" if asked else None)


@pytest.mark.parametrize("reply, known", [(b"\x1b[?62;4;22c", True), (b"\x1b[?64;1;2;4c", True), (b"\x1b[?62;22;52c", False),
                                          (b"\x1b[?4c", False), (b"", False)])
def test_the_terminal_is_asked_for_its_attributes_and_may_stay_silent(monkeypatch, reply, known):
    pty = pytest.importorskip("pty")
    import termios

    outer, inner = pty.openpty()
    before = termios.tcgetattr(inner)
    with open(inner, "r+b", buffering=0) as terminal, open(os.dup(inner), "w") as output:
        monkeypatch.setattr("sys.stdin", terminal)
        monkeypatch.setattr("sys.stdout", output)
        asked = []

        def answer():
            asked.append(os.read(outer, 20))
            os.write(outer, reply)

        emulator = threading.Thread(target=answer)
        emulator.start()
        assert pictures.knows_sixels(seconds=20 if reply else 0.1) == known
        emulator.join()
        monkeypatch.undo()
        assert asked == [b"\x1b[c"] and termios.tcgetattr(terminal) == before
    os.close(outer)


@pytest.fixture
def png(tmp_path):
    """A picture of 1000 x 300 pixels with noise, so that its file is larger than one chunk."""
    path = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 1000, 3), np.uint8)).save(path)
    return path


def test_kitty_receives_the_file_in_chunks(png, monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((61, 30)))
    monkeypatch.setattr(pictures, "cell_size", lambda: (10, 20))
    commands = re.findall(r"\x1b_G(.*?);(.*?)\x1b\\", text := pictures.encoded(png, "kitty"))
    assert "".join(f"\x1b_G{control};{data}\x1b\\" for control, data in commands) == text
    assert commands[0][0] == "a=T,f=100,q=2,c=60,r=9,m=1"  # 1000 x 300 becomes 600 x 180 pixels
    assert {control for control, _ in commands[1:-1]} == {"m=1"} and commands[-1][0] == "m=0"
    assert max(len(data) for _, data in commands) <= 4096
    assert base64.b64decode("".join(data for _, data in commands)) == png.read_bytes()


def test_a_small_picture_is_one_chunk_and_not_enlarged(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "cell_size", lambda: (10, 20))
    Image.new("RGB", (50, 50)).save(tmp_path / "small.png")
    assert pictures.encoded(tmp_path / "small.png", "kitty").startswith("\x1b_Ga=T,f=100,q=2,c=5,r=2,m=0;")


def test_iterm_receives_the_file_in_one_sequence(png, monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((61, 30)))
    monkeypatch.setattr(pictures, "cell_size", lambda: (10, 20))
    size = png.stat().st_size
    match = re.fullmatch(rf"\x1b\]1337;File=inline=1;size={size};width=60;preserveAspectRatio=1:(.*)\x07",
                         pictures.encoded(png, "iterm"))
    assert base64.b64decode(match[1]) == png.read_bytes()


def decoded(text):
    """Draws a string of sixels as a terminal does, pixel by pixel. Returns an array of percentages, -1 where nothing was drawn."""
    start = re.match(r'\x1bP0;1q"1;1;(\d+);(\d+)', text)
    width, height = int(start[1]), int(start[2])
    assert text.endswith("\x1b\\") and text.count("\x1b") == 2
    canvas, colors, color, x, y = np.full((height + 5, width, 3), -1), {}, None, 0, 0
    for define, values, select, run, character, move in re.findall(
            r"#(\d+);2;(\d+;\d+;\d+)|#(\d+)|(?:!(\d+))?([?-~])|([$-])", text[start.end():-2]):
        if define:
            colors[int(define)] = [int(value) for value in values.split(";")]
        elif select:
            color = colors[int(select)]
        elif character:
            for _ in range(int(run or 1)):
                for bit in range(6):
                    if ord(character) - 63 >> bit & 1:
                        canvas[y + bit, x] = color
                x += 1
        else:
            x, y = 0, y + 6 * (move == "-")
    assert (canvas[height:] == -1).all()        # nothing below the picture
    return canvas[:height]


@pytest.mark.parametrize("height", [1, 6, 20])
def test_sixels_decode_to_the_picture(tmp_path, height):
    rng = np.random.default_rng(3)
    colors = rng.integers(0, 256, (12, 3), np.uint8)
    picture = colors[rng.integers(0, 12, (height, 40))]
    picture[:, 10:30] = colors[0]               # runs that are compressed
    Image.fromarray(picture).save(tmp_path / "picture.png")
    text = sixels(tmp_path / "picture.png", 100)
    assert np.abs(decoded(text) - picture / 2.55).max() <= 0.5 and "!2" in text
    assert set(re.findall(r"[^\x20-\x7e]", text)) == {"\x1b"}


def test_a_wide_picture_is_reduced_and_keeps_its_colors(tmp_path):
    ramp = np.linspace(0, 255, 300).astype(np.uint8)
    picture = np.stack([np.tile(ramp, (50, 1)), np.full((50, 300), 40, np.uint8), np.tile(ramp[::-1], (50, 1))], -1)
    Image.fromarray(picture).save(tmp_path / "picture.png")
    shown = decoded(sixels(tmp_path / "picture.png", 60))
    assert shown.shape == (10, 60, 3) and np.abs(shown - picture[2::5, 2::5] / 2.55).max() < 2


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="a program of another kind opens files there")
def test_the_viewer_opens_a_figure_if_there_is_a_display(tmp_path, monkeypatch):
    viewer, picture = tmp_path / "xdg-open", tmp_path / "a figure.png"
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not pictures.open_picture(picture)
    monkeypatch.setenv("DISPLAY", ":0")
    assert not pictures.open_picture(picture)
    viewer.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/opened"\n')
    viewer.chmod(viewer.stat().st_mode | stat.S_IXUSR)
    assert pictures.open_picture(picture) and (tmp_path / "opened").read_text() == f"{picture}\n"
    viewer.write_text("#!/bin/sh\nexit 3\n")
    assert not pictures.open_picture(picture)
