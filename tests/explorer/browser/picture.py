"""Takes the picture of the explorer that the README begins with: `python tests/explorer/browser/picture.py` replaces it."""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.browser import Page

from numpy_transformer.explorer.explorer import Explorer
from numpy_transformer.explorer.lessons import PLACES
from numpy_transformer.explorer.session import Session
from numpy_transformer.explorer.tiny_models import tiny

PICTURE = ROOT / "figures/explorer.png"
ABOVE = 7                                       # pixels of the panel that stay free above the component's name


def take(driver):
    session = Session(tiny("decoder"))
    session.prove()
    place = PLACES["05"].address(session.document())
    with tempfile.TemporaryDirectory() as folder:
        page = Page(driver).open(Explorer(session).save(Path(folder, "page.html"), place).as_uri())
        page.settle().script("""
            const panel = document.getElementById('panel'), name = panel.querySelector('h2');
            panel.scrollTop += name.getBoundingClientRect().top - panel.getBoundingClientRect().top - arguments[0];""", ABOVE)
        time.sleep(0.5)                         # the map may still be scrolling
        driver.save_screenshot(str(PICTURE))


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
        take(browser)
    finally:
        browser.quit()
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1000:.0f} kB")
