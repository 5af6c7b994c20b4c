"""Each drawing is readable in light and in dark colors, and has a text for those who cannot see it."""

import itertools
import re
import warnings
from collections import Counter

import numpy as np
import pytest
from helpers import ROOT
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch, Rectangle

import numpy_transformer as nt
from numpy_transformer.course.lessons.files import lessons_in
from numpy_transformer.texts import texts_of
from numpy_transformer.views import drawings
from numpy_transformer.views.drawings.canvas import Canvas
from numpy_transformer.views.drawings.style import DARK, LIGHT, contrast

SOME = ["attention", "residual_stream"]
ALL = [pytest.param(name, marks=() if name in SOME else pytest.mark.slow) for name in drawings.names()]


def inches(figure):
    """Returns the texts, areas and lines of a figure, each with its extent or path in inches."""
    FigureCanvasAgg(figure)
    axes, renderer, unit = figure.axes[0], figure.canvas.get_renderer(), figure.dpi_scale_trans.inverted()

    def extent(artist):
        return artist.get_window_extent(renderer).transformed(unit)

    lines = [(line, unit.transform(line.get_transform().transform(line.get_xydata()))) for line in axes.lines]
    return [(text, extent(text)) for text in axes.texts], [(patch, extent(patch)) for patch in axes.patches], lines


def problems(figure):
    """Returns a sentence about each text that is not readable."""
    texts, patches, lines = inches(figure)
    width, height = figure.get_size_inches()
    found = []
    for n, (text, box) in enumerate(texts):
        said, inner = text.get_text(), box.padded(-0.02)
        if box.x0 < 0.05 or box.y0 < 0.05 or box.x1 > width - 0.05 or box.y1 > height - 0.05:
            found.append(f"{said!r} does not lie inside the figure")
        if text.get_fontsize() < 12:
            found.append(f"{said!r} is too small")
        found += [f"{said!r} covers {other.get_text()!r}" for other, place in texts[:n] if overlap(inner, place.padded(-0.02))]
        found += [f"{said!r} is cut by the edge of an area" for _, place in patches
                  if overlap(inner, place) and not (place.x0 <= inner.x0 and place.x1 >= inner.x1
                                                    and place.y0 <= inner.y0 and place.y1 >= inner.y1)]
        color, depth = ground(figure, box, patches)
        found += [f"{said!r} is crossed by a line" for line, way in lines if line.get_zorder() > depth and crosses(way, inner)]
        if contrast(text.get_color(), color) < 4.5:
            found.append(f"{said!r} has too little contrast")
    return found


def overlap(one, other):
    return min(one.x1, other.x1) > max(one.x0, other.x0) and min(one.y1, other.y1) > max(one.y0, other.y0)


def crosses(way, box):
    """True if a point of a line, of which there is one every 0.02 inches, lies in the box."""
    for start, end in zip(way[:-1], way[1:]):
        steps = max(2, int(np.hypot(*(end - start)) / 0.02))
        x, y = (start + np.linspace(0, 1, steps)[:, None] * (end - start)).T
        if np.any((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)):
            return True
    return False


def ground(figure, box, patches):
    """The color on which the middle of a text stands, and its depth: of the uppermost area there, or else of the page."""
    x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    here = [patch for patch, place in patches if place.x0 <= x <= place.x1 and place.y0 <= y <= place.y1]
    top = max(here, key=lambda patch: patch.get_zorder(), default=None)
    return (top.get_facecolor()[:3], top.get_zorder()) if top else (figure.get_facecolor()[:3], -1)


def test_each_drawing_has_a_text_and_each_text_a_drawing():
    sections = texts_of("drawings")
    assert set(sections) == set(drawings.names())
    for name in drawings.names():
        text = drawings.text_of(name)
        assert text == sections[name]["text"] and len(re.findall(r"[.?](?= [A-Z]|$)", text)) in (1, 2, 3)


@pytest.mark.parametrize("name", ALL)
def test_a_drawing_is_readable_and_differs_in_dark_by_its_colors_only(name):
    light, dark = drawings.draw(name), drawings.draw(name, dark=True)
    assert problems(light) == problems(dark) == []
    assert 7 <= light.get_size_inches()[0] <= 12.01 and shape_of(light) == shape_of(dark)
    assert light.get_facecolor() != dark.get_facecolor()


def shape_of(figure):
    """What does not depend on colors: the texts and where everything is. A text in a cell may be light or dark."""
    texts, patches, lines = inches(figure)
    return (tuple(figure.get_size_inches()), [(text.get_text(), text.get_fontsize(), box.bounds) for text, box in texts],
            [(type(patch).__name__, box.bounds) for patch, box in patches], [way.tolist() for _, way in lines])


@pytest.mark.parametrize("name", ALL)
def test_every_word_of_a_drawing_is_used_and_has_its_glyphs(name, monkeypatch):
    """Words come from drawings.ini: what else is written is a letter, a number or a formula."""
    asked = {"text"}
    word = Canvas.word
    monkeypatch.setattr(Canvas, "word", lambda self, key, **values: asked.add(key) or word(self, key, **values))
    with warnings.catch_warnings():
        warnings.simplefilter("error")              # Matplotlib warns of letters that the font lacks
        figure = drawings.draw(name)
        FigureCanvasAgg(figure).draw()
    assert asked == set(texts_of("drawings")[name])


def test_the_backward_drawings_lie_on_the_forward_ones():
    """Arrays, boxes and their places are equal, so that one can be laid over the other."""
    for name in ("attention", "residual_stream"):
        forward, backward = (drawings.draw(part) for part in (name, f"{name}_backward"))
        assert tuple(forward.get_size_inches()) == tuple(backward.get_size_inches())
        boxes = [{tuple(np.round(place.bounds, 6)) for patch, place in inches(figure)[1]
                  if isinstance(patch, (FancyBboxPatch, Rectangle))} for figure in (forward, backward)]
        assert boxes[0] == boxes[1] != set()


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_color_can_be_read_as_text_and_written_on(theme):
    for role in ("ink", "muted", "query", "key", "value", "weight", "parameter", "gradient", "plain"):
        assert contrast(theme.color(role), theme.background) >= 4.5, role
        assert contrast(theme.ink, theme.fill(role)) >= 4.5, role


COLOR_BLIND = {                                 # linear RGB as seen without one kind of cones: Machado et al. 2009, severity 1
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]}


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("kind", COLOR_BLIND)
def test_color_blind_readers_can_tell_the_colors_apart(kind, theme):
    """Two colors differ by 20 or more in CIELAB, in which 2 is just noticeable."""
    seen = {role: lab(np.array(COLOR_BLIND[kind]) @ linear(theme.color(role)))
            for role in ("query", "key", "value", "weight", "gradient")}
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 20, (one, other)


def linear(color):
    """The linear red, green and blue of a color in sRGB."""
    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """The CIELAB coordinates of linear red, green and blue."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    relative = xyz / [0.9505, 1.0, 1.089]
    x, y, z = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_an_unknown_drawing_is_refused():
    for ask in (drawings.draw, drawings.text_of):
        with pytest.raises(ValueError, match="there is no drawing 'atention'; choose from library, attention, "):
            ask("atention")


def test_the_test_sees_a_text_that_is_not_readable():
    """Texts that overlap, leave the figure, cross a line or an edge, or have too little contrast."""
    canvas = Canvas("attention")
    canvas.text(1, 1, "one")
    canvas.text(1.1, 1, "two")
    canvas.box(3, 1, 0.4, 0.5, "wide word")
    canvas.text(5, 1, "crossed")
    canvas.arrow((4, 1), (6, 1))
    canvas.cells(7, 1, 1, 1, "ink", shades=[[0.9]])
    canvas.text(7, 1, "A", "plain")
    canvas.frame = (-1, 0, 8, 2)
    canvas.text(7.95, 1.5, "outside")
    found = problems(canvas.figure())
    for part in ("'two' covers 'one'", "'wide word' is cut", "'crossed' is crossed", "'A' has too little",
                 "'outside' does not lie"):
        assert any(line.startswith(part) for line in found), part


def said_in(name):
    """Returns the texts of a drawing in the order in which they were drawn, with plain minus signs."""
    return [text.get_text().replace("−", "-") for text in drawings.draw(name).axes[0].texts]


def test_the_drawn_positions_are_those_of_the_package():
    numbers = Counter(said_in("embedding_plus_position"))
    assert Counter(f"{value:.2f}" for value in nt.SinusoidalPositionalEncoding(4, 3).table.ravel()) <= numbers


def test_the_drawn_ring_completes_chunk_r_at_rank_r_and_then_all():
    start, scattered, gathered = np.array([text for text in said_in("ring") if text.isdecimal()], int).reshape(3, 4, 4)
    assert (start == 1).all() and (gathered == 4).all()
    assert np.array_equal(scattered == 4, np.eye(4, dtype=bool))


def test_the_drawn_beam_search_is_that_of_the_lesson():
    lesson = lessons_in(ROOT / "lessons")["13b"].read_text(encoding="utf-8")
    table = eval("dict" + re.search(r"Table(\(start=.*cow.*\))", lesson)[1])
    drawn = list(table["start"].items())
    drawn += [(word, p * q) for before, p in table["start"].items() for word, q in table[before].items()]
    words, numbers = zip(*[(word, f"{p:.2f}") for word, p in drawn])
    assert Counter(words + numbers) <= Counter(said_in("beam_search"))
