"""Takes the pictures of the explorer in the README: `python tests/explorer/browser/picture.py` replaces them.

explorer.png shows one number spelled out; explorer.gif plays the time line once, forward and backward.
"""

import io
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import unquote_plus

from PIL import Image
from selenium import webdriver

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.browser import Keys, Page

from numpy_transformer.explorer.explorer import Explorer
from numpy_transformer.explorer.lessons import PLACES
from numpy_transformer.explorer.session import Session
from numpy_transformer.explorer.tiny_models import tiny

PICTURE, LOOP = ROOT / "figures/explorer.png", ROOT / "figures/explorer.gif"
ABOVE = 50                                      # pixels of the panel that stay free above the component's name
WINDOW = (560, 900)                             # of the loop: a small one, in which the map has all the room
COLORS = 64
EVERY, PAUSE, REST = 2, 140, 1800               # steps between two frames, and milliseconds of a frame and of the last one


def take(page, place):
    page.go(place).settle()
    page.script("""
        const panel = document.getElementById('panel'), name = panel.querySelector('h2');
        panel.scrollTop += name.getBoundingClientRect().top - panel.getBoundingClientRect().top - arguments[0];""", ABOVE)
    time.sleep(0.5)                             # the map may still be scrolling
    page.driver.save_screenshot(str(PICTURE))


def take_loop(page, steps):
    """A frame for every other step, in which the map shows the blocks."""
    page.resize(*WINDOW).go("op=embedding&t=0").zoom("blocks")
    page.click("#follow")
    page.script("document.activeElement.blur()")
    page.press(Keys.HOME)
    frames = []
    for _ in range(0, steps + 1, EVERY):
        page.settle()
        time.sleep(0.25)                        # the small heatmaps come a moment later
        shot = Image.open(io.BytesIO(page.driver.get_screenshot_as_png())).convert("RGB")
        frames.append(shot.quantize(COLORS, dither=Image.Dither.NONE))
        page.press(*[Keys.ARROW_RIGHT] * EVERY)
    frames[0].save(LOOP, save_all=True, append_images=frames[1:], loop=0, optimize=True,
                   duration=[PAUSE] * (len(frames) - 1) + [REST])


def main(driver):
    session = Session(tiny("decoder"))
    session.prove()
    document = session.document()
    with tempfile.TemporaryDirectory() as folder:
        page = Page(driver).open(Explorer(session).save(Path(folder, "page.html")).as_uri(), "op=embedding")
        take_loop(page, len(document["steps"]))
        page.resize(1280, 800).click("#follow")
        take(page, unquote_plus(PLACES["05"].address(document)).partition("&story")[0])


if __name__ == "__main__":
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
    for argument in ("--headless=new", "--hide-scrollbars", "--window-size=1280,800"):
        options.add_argument(argument)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})       # Page reads them
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        main(browser)
    finally:
        browser.quit()
    for path in (PICTURE, LOOP):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")
