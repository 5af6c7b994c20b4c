"""Pictures as sixels, the graphics that terminals such as xterm, foot, mlterm and Windows Terminal can show.

A sixel is a column of six pixels, written as one character: 63 plus the sum of 1, 2, 4, ..., 32 for each pixel from
the top down that has the current color. Each band of six rows is written once for each of its colors.
"""

import re

import numpy as np
from PIL import Image

START, END = "\x1bP0;1q", "\x1b\\"              # 0;1: pixels that are not written keep the terminal's background
RUN = re.compile(r"(.)\1{3,}")
COLORS = 256


def sixels(path, width):
    """Returns a picture file as a string of sixels, at most `width` pixels wide."""
    picture = Image.open(path).convert("RGB")
    if picture.width > width:
        picture = picture.resize((width, max(1, round(picture.height * width / picture.width))))
    picture = picture.quantize(COLORS, dither=Image.Dither.NONE)
    palette = np.array(picture.getpalette()).reshape(-1, 3)
    indices = np.array(picture)
    return f'{START}"1;1;{picture.width};{picture.height}' + color_registers(indices, palette) + bands(indices) + END


def color_registers(indices, palette):
    """Defines the colors that occur, in percent of red, green and blue."""
    percent = np.rint(palette / 2.55).astype(int)
    return "".join("#{};2;{};{};{}".format(color, *percent[color]) for color in np.unique(indices))


def bands(indices):
    """Returns the picture's bands of six rows, from the top to the bottom."""
    rows = []
    for top in range(0, len(indices), 6):
        band = indices[top:top + 6]
        bits = 1 << np.arange(len(band))
        lines = [f"#{color}{compressed(bits @ (band == color))}" for color in np.unique(band)]
        rows.append("$".join(lines))            # $ goes back to the start of the band
    return "-".join(rows)                       # - goes on to the next band


def compressed(row):
    """Returns the characters of a row; a character that occurs four or more times in a row is written once, as in !7A."""
    characters = (row + 63).astype(np.uint8).tobytes().decode("ascii")
    return RUN.sub(lambda run: f"!{len(run[0])}{run[1]}", characters.rstrip("?"))
