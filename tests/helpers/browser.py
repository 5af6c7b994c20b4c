"""The explorer's page in a browser, and the numbers that it should show."""

import base64
import copy
import functools
import json
import time
from urllib.parse import quote

import numpy as np

import numpy_transformer as nt

from .pages import unpacked


class Keys:
    """The keys that tests press, in WebDriver's code; selenium may be missing where tests are only collected."""

    TAB, ENTER, ESCAPE, SPACE = "\ue004", "\ue007", "\ue00c", " "
    HOME, END, ARROW_LEFT, ARROW_UP, ARROW_RIGHT, ARROW_DOWN = "\ue011", "\ue010", "\ue012", "\ue013", "\ue014", "\ue015"
    CONTROL, SHIFT, BACKSPACE = "\ue009", "\ue008", "\ue003"


SEEN = "numpy-transformer-explorer-seen"         # what the page remembers after the opening
TINY = ("decoder", "encoder", "encoder-decoder", "classifier")
SHOWN = """
    return [...document.querySelectorAll('[data-ref][data-cell][data-value]')].filter((element) => element.checkVisibility())
        .map((element) => [element.dataset.ref, element.dataset.cell, element.dataset.value, element.textContent.trim()]);"""


@functools.cache
def example(kind):
    """The Example of a tiny model with random weights, whose gradients are larger than those of a trained one."""
    from numpy_transformer.explorer.tiny_models import tiny

    return tiny(kind, seed=3, train=False)


def step_numbers(example, text=None):
    """{ref: float64 array} of a training step, from nt.record: what the components themselves computed.

    Refs are those of FORMAT.md for the outputs, the gradients and the parameters of all components without parts.
    """
    model = copy.deepcopy(example.model).astype(np.float64).eval(remember=True)
    criterion = copy.deepcopy(example.criterion)
    inputs, targets, _ = example.read(text)
    with nt.record(model) as tape:
        logits = model(*inputs)
        found = {"loss:y": criterion(logits, targets)}
        dy = criterion.backward()
        model.backward(dy)
    found["grad output:y"] = dy
    for call in tape.calls:
        has_parts = any(name for name, _ in call.module.named_modules())
        if not has_parts and isinstance(call.output, np.ndarray):
            found[f"{call.name}:y"] = call.output
            found[f"grad {call.name}:y"] = call.dy
    for name, parameter in model.named_parameters():
        found[name], found[f"grad {name}"] = parameter.data, parameter.grad
    return found


class Page:
    """A page of the explorer in a browser, as its reader sees it."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url, address="", first=False):
        """Opens an address of the page, such as "op=loss&view=attention", and waits until it can be used.

        first : whether it is the reader's first visit, which begins with the opening
        """
        self.driver.get("about:blank")          # a change after # alone would not load the page again
        change = "removeItem(name)" if first else "setItem(name, '1')"
        script = f"try {{ const name = '{SEEN}'; localStorage.{change}; }} catch (error) {{ /* about:blank has none */ }}"
        added = self.command("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
        self.log("browser"), self.log("performance")
        self.resize(1280, 800)
        self.driver.get(url + ("#" + quote(address, safe="=&,.:-") if address else ""))
        self.command("Page.removeScriptToEvaluateOnNewDocument", identifier=added)
        return self if first else self.ready()

    def ready(self):
        self.wait("return document.body.dataset.ready === 'true'")
        return self

    def resize(self, width, height, dark=False, motion=True):
        """Sets the size of the page, its theme, and whether the reader wants to see motion."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.command("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "no-preference" if motion else "reduce"}])
        return self

    def command(self, name, **parameters):
        """A command of the Chrome DevTools Protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def script(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def run(self, code, *arguments):
        """Runs the body of an async function that may import the page's modules, and returns its result."""
        answer = self.driver.execute_async_script(f"""
            const given = [...arguments], done = given.pop();
            (async () => {{ {code} }})().then((result) => done({{ result }}),
                                              (error) => done({{ error: String(error.stack || error) }}));""", *arguments)
        assert "error" not in answer, answer.get("error")
        return answer.get("result")

    def wait(self, code, *arguments, seconds=60):
        """Waits until a script returns something true, and returns that."""
        end = time.monotonic() + seconds
        while True:
            found = self.script(code, *arguments)
            if found:
                return found
            assert time.monotonic() < end, f"waited {seconds} seconds for {code!r} {arguments}; console: {self.errors()}"
            time.sleep(0.02)

    def find(self, css):
        return self.wait("return [...document.querySelectorAll(arguments[0])].find((element) => element.checkVisibility())", css)

    def click(self, css):
        self.find(css).click()
        return self

    def press(self, *keys):
        """Presses keys, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.driver, duration=0)
        for key in keys:
            chain.send_keys(key)
        chain.perform()
        return self

    def go(self, address):
        """Goes to another place of the page by its address, as the browser's address bar would."""
        self.script("window.location.hash = arguments[0]", quote(address, safe="=&,.:-"))
        self.settle()
        return self

    def zoom(self, level):
        """Zooms the map: "model", "blocks", "operations" or "numbers"."""
        at = ["model", "blocks", "operations", "numbers"].index(level)
        self.script("const slider = document.getElementById('zoom'); slider.value = arguments[0];"
                    "slider.dispatchEvent(new Event('input'))", at)
        return self.settle()

    def finish(self):
        """Goes to the end of the step, where everything has been computed."""
        self.script("document.activeElement?.blur()")
        return self.press(Keys.END).settle()

    def settle(self):
        """Waits until the page has drawn what it was asked for: its content stays the same for three frames."""
        self.driver.execute_async_script("""
            const done = arguments[arguments.length - 1];
            let before = null, same = 0, frames = 0;
            const look = () => {
                const areas = document.querySelectorAll('#header, #panel, #number-area, #timeline, #status');
                const now = [...areas].map((area) => area.textContent + area.getElementsByTagName('*').length).join();
                same = now === before ? same + 1 : 0;
                before = now;
                frames += 1;
                if (same >= 3 || frames > 600) done(); else requestAnimationFrame(look);
            };
            requestAnimationFrame(look);""")
        return self

    def place(self):
        """The address of what is shown, as a dict."""
        return self.script("return Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")

    def shown(self):
        """All numbers on the page as (ref, cell, number, text)."""
        return [(ref, tuple(map(int, filter(None, cell.split(",")))), float(value.replace("−", "-").replace("Infinity", "inf")), text)
                for ref, cell, value, text in self.script(SHOWN)]

    def text(self, css="body"):
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def op_of(self, ref):
        """The component to which an array of a plain model belongs, as its id says."""
        name = ref.removeprefix("grad ")
        return name[:-2] if name.endswith(":y") else name.rpartition(".")[0]

    def document(self):
        """The document of the saved page."""
        return unpacked(json.loads(self.script("return document.getElementById('document').textContent")))

    def arrays(self):
        """{ref: array} of the saved page, decoded here."""
        arrays = self.document()["arrays"]
        return {ref: decoded(arrays, array) for ref, array in arrays.items()}

    def log(self, kind):
        """New entries of a log of the browser."""
        return self.driver.get_log(kind)

    def errors(self):
        """What the console complains about."""
        return [entry["message"] for entry in self.log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Addresses that the page has asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]


def decoded(arrays, array):
    """An array of a document, as FORMAT.md describes it."""
    while "same" in array:
        array = arrays[array["same"]]
    return np.frombuffer(base64.b64decode(array["data"]), array["dtype"]).reshape(array["shape"])
