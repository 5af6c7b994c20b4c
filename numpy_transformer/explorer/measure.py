"""Measures the explorer: the size of its page, the time until a reader can use it, and the time of a recomputation."""

import importlib.util
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from ..bench.configs import CONFIGS
from .arrays import ArrayExample
from .page import render, to_json
from .session import Session
from .tiny_models import KINDS, tiny

LARGER = "nanogpt-cpu"
MODELS = (*KINDS, LARGER)
BROWSERS = "chromium", "chromium-browser", "google-chrome"
PATIENCE = 60                                   # seconds until a page that does not become ready is given up

# notes the time at which the page says that it is ready, in milliseconds since the browser began to load it
NOTE_READY = """
const observer = new MutationObserver(() => {
  if (document.body?.dataset.ready === "true" && window.readyAt === undefined) {
    requestAnimationFrame(() => { window.readyAt = performance.now(); });
    observer.disconnect();
  }
});
observer.observe(document, {attributes: true, childList: true, subtree: true});
"""


def make_session(name):
    """Returns the Session of a tiny model, or of one text of a configuration of the benchmark."""
    if name in KINDS:
        return Session(tiny(name, train=False))
    config = CONFIGS[name]
    inputs, targets = config.batch_of_ids()
    one_text = tuple(ids[:1] for ids in inputs)
    return Session(ArrayExample(config.model(), one_text, targets[:1], config.criterion(), title=name))


def measure_explorer(name, rounds=5, browser=None):
    """Returns a row of results: sizes in bytes, and medians of times in milliseconds.

    Parameters:
        name : one of MODELS
        rounds : number of recomputations, and of pages that are opened
        browser : a selenium driver, or None: `ready_ms` is then None
    """
    session = make_session(name)
    session.prove()
    page = render(session.saved_document())
    live = to_json(session.document())
    weight = next(value for value in session.base.values.values() if value.parameter is not None)
    times = []
    for number in range(rounds + 1):
        edit = {"kind": "weight", "value": weight.id, "index": [0] * weight.array.ndim, "number": 0.01 * number}
        started = time.perf_counter()
        to_json(session.document([edit]))
        times.append(1e3 * (time.perf_counter() - started))
    return {"model": name, "parameters": sum(value.array.size for value in session.base.values.values()
                                             if value.parameter is not None),
            "entries": sum(array.size for array in session.base.arrays.values()),
            "page_bytes": len(page.encode()), "document_bytes": len(live),
            "recompute_ms": statistics.median(times[1:]),       # round 0 only warms up
            "ready_ms": None if browser is None else ready_ms(browser, page, rounds)}


def ready_ms(browser, page, rounds):
    """Returns the median time in milliseconds from the beginning of loading until the page reacts to its reader."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page, encoding="utf-8")
        for _ in range(rounds + 1):
            browser.get("about:blank")
            browser.get(path.as_uri())
            end = time.monotonic() + PATIENCE
            while browser.execute_script("return window.readyAt") is None:
                if time.monotonic() > end:
                    raise ValueError(f"the page was not ready after {PATIENCE} seconds; look at the console of the browser")
                time.sleep(0.01)
            times.append(browser.execute_script("return window.readyAt"))
    return statistics.median(times[1:])


def find_browser():
    """Returns (a selenium driver of Chromium without a window, "") or (None, why there is none)."""
    if importlib.util.find_spec("selenium") is None:
        return None, "selenium is not installed"
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        return None, "Chromium or chromedriver is not installed"
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--window-size=1280,800"):
        options.add_argument(argument)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")    # Chromium does not start as root otherwise
    try:
        browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    except WebDriverException as error:
        return None, f"Chromium does not start: {' '.join(str(error.msg).split())}"
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NOTE_READY})
    return browser, ""
