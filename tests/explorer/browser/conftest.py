"""Fixtures for tests of the explorer's page in a headless Chromium. Without selenium or Chromium they are skipped, with a reason."""

import os
import shutil
import threading

import pytest
from helpers.browser import TINY, Page, example, step_numbers

os.environ.setdefault("SE_OFFLINE", "true")                 # selenium must not look for drivers on the network
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/explorer/browser/" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """A headless Chromium that knows no host but this machine."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip install -e '.[browser]')")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium with chromedriver was found (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,800",
                 "--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                 f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")        # Chromium's sandbox does not work for root
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(120)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A function (kind of tiny model) -> path of its saved page; each is made once."""
    from numpy_transformer.explorer.explorer import Explorer
    from numpy_transformer.explorer.session import Session

    folder, pages = tmp_path_factory.mktemp("pages"), {}

    def path_of(kind):
        if kind not in pages:
            session = Session(example(kind))
            session.prove()
            pages[kind] = Explorer(session).save(folder / f"{kind}.html")
        return pages[kind]

    return path_of


@pytest.fixture
def page(driver, saved):
    """A function (kind, address="") -> Page, which shows the saved page from its file:// address."""
    def open_page(kind="decoder", address=""):
        return Page(driver).open(saved(kind).as_uri(), address)

    return open_page


@pytest.fixture(scope="module")
def server():
    """A server of the tiny decoder, which runs in a thread."""
    from numpy_transformer.explorer.server import PageServer
    from numpy_transformer.explorer.session import Session

    server = PageServer(Session(example("decoder")))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def live(driver, server):
    """A function (address="") -> Page of that server."""
    def open_page(address=""):
        return Page(driver).open(server.address, address)

    return open_page


@pytest.fixture(scope="session", params=TINY)
def kind(request):
    """Each kind of tiny model."""
    return request.param


@pytest.fixture(scope="session")
def numbers():
    """A function (kind) -> {ref: array} of the same step, recomputed with nt.record."""
    found = {}

    def of(kind):
        if kind not in found:
            found[kind] = step_numbers(example(kind))
        return found[kind]

    return of
