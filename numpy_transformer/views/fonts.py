"""Chooses an installed font for letters that the default font lacks, such as Hangul, when a figure is drawn."""

import functools
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.text import Text

from ..texts import Message, render

WARNING = re.compile(r"Glyph (\d+) .*missing from")                     # as Matplotlib words it
EAST_ASIAN = {"CJK", "HANGUL", "HIRAGANA", "KATAKANA", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH", "IDEOGRAPHIC"}
said: set[str] = set()                         # kinds of fonts that the reader was asked to install
PLACEHOLDER = "Last Resort"                     # this font draws every character as the same box


def draw_with_fonts(figure: Figure, write: Callable[[], None]) -> None:
    """Calls `write`, which draws the figure. If letters are missing, calls it again with fonts that have them.

    If no installed font has them, stderr says once which fonts to install.
    """
    missing = missing_letters(write)
    if not missing:
        return
    fonts = fonts_with(missing)
    for text in figure.findobj(Text):
        text.set_fontfamily([*text.get_fontfamily(), *fonts])
    with matplotlib.rc_context({"font.family": [*matplotlib.rcParams["font.family"], *fonts]}):
        still_missing = missing_letters(write)
    if still_missing:
        say_once(min(still_missing))


def missing_letters(write: Callable[[], None]) -> frozenset[str]:
    """Calls `write` and returns the letters for which Matplotlib found no glyph. Its other warnings are shown as usual."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write()
    missing = set()
    for one in caught:
        glyph = WARNING.match(str(one.message))
        if glyph:
            missing.add(chr(int(glyph[1])))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return frozenset(missing)


@functools.cache
def fonts_with(letters: frozenset[str]) -> tuple[str, ...]:
    """Returns the names of installed fonts that together have as many of these letters as possible."""
    candidates = {name: letters & letters_of(path) for name, path in installed_fonts().items()}
    chosen: list[str] = []
    while candidates and letters:
        best = min(candidates, key=lambda name: (-len(candidates[name] & letters), "Sans" not in name, name))
        if not candidates[best] & letters:
            break
        chosen.append(best)
        letters -= candidates.pop(best)
    return tuple(chosen)


def installed_fonts() -> dict[str, str]:
    """Returns {name: path} of upright fonts of normal weight, also of those that were installed after Matplotlib last looked."""
    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        try:
            font_manager.fontManager.addfont(path)
        except (OSError, RuntimeError):         # FreeType cannot read it
            continue
    fonts = sorted(font_manager.fontManager.ttflist, key=lambda font: (font.name, font.fname), reverse=True)
    return {font.name: font.fname for font in fonts
            if font.style == "normal" and font.weight in (400, "normal", "regular") and PLACEHOLDER not in font.name}


def letters_of(path: str) -> set[str]:
    """Returns the letters for which a font file has glyphs."""
    try:
        return set(map(chr, font_manager.get_font(path).get_charmap()))
    except (OSError, RuntimeError):
        return set()


def say_once(letter: str) -> None:
    """Says on stderr which fonts have a letter, at most once for each kind of fonts."""
    name = unicodedata.name(letter, f"U+{ord(letter):04X}")
    kind = "east_asian" if name.split()[0] in EAST_ASIAN else "other"
    if kind not in said:
        said.add(kind)
        print(render(Message("pictures.fonts.missing", name=name, fonts=Message(f"pictures.fonts.{kind}"))), file=sys.stderr)
