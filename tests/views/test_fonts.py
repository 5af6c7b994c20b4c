"""Letters that the default font lacks: an installed font that has them is chosen, and otherwise a sentence names one."""

import warnings

import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure
from PIL import Image

from numpy_transformer.views import fonts, write_figure


@pytest.fixture
def hangul_font(tmp_path, monkeypatch):
    """A font file whose only letters are 가 and 나, two filled squares, installed after Matplotlib has looked for fonts."""
    builder = pytest.importorskip("fontTools.fontBuilder").FontBuilder(1000, isTTF=True)
    pen = pytest.importorskip("fontTools.pens.ttGlyphPen").TTGlyphPen(None)
    builder.setupGlyphOrder([".notdef", "square"])
    builder.setupCharacterMap({ord("가"): "square", ord("나"): "square"})
    for place in ((0, 0), (0, 900), (900, 900), (900, 0)):
        (pen.lineTo if place != (0, 0) else pen.moveTo)(place)
    pen.closePath()
    square = pen.glyph()
    builder.setupGlyf({".notdef": square, "square": square})
    builder.setupHorizontalMetrics({".notdef": (1000, 0), "square": (1000, 0)})
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": "Test Squares", "styleName": "Regular"})
    builder.setupOS2(usWeightClass=400)
    builder.setupPost()
    builder.save(tmp_path / "squares.ttf")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", list(font_manager.fontManager.ttflist))
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(tmp_path / "squares.ttf")])
    fonts.fonts_with.cache_clear()
    yield
    fonts.fonts_with.cache_clear()
    font_manager.fontManager._findfont_cached.cache_clear()


@pytest.fixture
def no_fonts(monkeypatch):
    """A machine with the fonts of Matplotlib only."""
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    monkeypatch.setattr(font_manager.fontManager, "ttflist",
                        [font for font in font_manager.fontManager.ttflist if "mpl-data" in font.fname])
    monkeypatch.setattr(fonts, "said", set())
    fonts.fonts_with.cache_clear()
    yield
    fonts.fonts_with.cache_clear()


def labeled(*words):
    """A figure with these words as a title and as labels of ticks."""
    figure = Figure(figsize=(2, 2))
    axes = figure.subplots()
    axes.set(title=" ".join(words), xticks=range(len(words)), xticklabels=words)
    return figure


def dark(path):
    return np.sum(np.array(Image.open(path).convert("L")) < 100)


def test_a_font_with_the_letters_is_found_and_used_for_titles_and_ticks(hangul_font, tmp_path, capfd):
    figure = labeled("가나", "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")          # Matplotlib warns of a missing glyph
        write_figure(figure, tmp_path / "with.png")
        assert all(text.get_fontfamily()[-1] == "Test Squares" for text in [figure.axes[0].title, *figure.axes[0].get_xticklabels()])
        write_figure(labeled("ab", "a"), tmp_path / "without.png")
    assert dark(tmp_path / "with.png") > dark(tmp_path / "without.png") + 300          # four filled squares of 13 pixels
    assert capfd.readouterr().err == ""


def test_without_such_a_font_one_sentence_names_one_to_install(no_fonts, tmp_path, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("one.png", "two.svg"):
            write_figure(labeled("가나", "a"), tmp_path / name)
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "HANGUL SYLLABLE GA" in said and "fonts-noto-cjk" in said
    write_figure(labeled("ᚠ"), tmp_path / "other.png")             # a rune: DejaVu has none
    assert "RUNIC" in capfd.readouterr().err


def test_letters_of_the_default_font_are_drawn_once_and_other_warnings_stay(tmp_path, monkeypatch):
    calls = []

    def write_once():
        calls.append(1)
        warnings.warn("something else", UserWarning, stacklevel=1)
    with pytest.warns(UserWarning, match="something else"):
        fonts.draw_with_fonts(labeled("äπ"), write_once)
    assert calls == [1]
