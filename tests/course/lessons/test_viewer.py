"""The program that opens a figure of a lesson."""

import stat
import sys

import pytest

from numpy_transformer.course.lessons.viewer import open_picture


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="a program of another kind opens files there")
def test_the_viewer_opens_a_figure_if_there_is_a_display(tmp_path, monkeypatch):
    viewer, picture = tmp_path / "xdg-open", tmp_path / "a figure.png"
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_picture(picture)
    monkeypatch.setenv("DISPLAY", ":0")
    assert not open_picture(picture)
    viewer.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/opened"\n')
    viewer.chmod(viewer.stat().st_mode | stat.S_IXUSR)
    assert open_picture(picture) and (tmp_path / "opened").read_text() == f"{picture}\n"
    viewer.write_text("#!/bin/sh\nexit 3\n")
    assert not open_picture(picture)
