"""The page of a film: it opens offline, every frame shows the numbers of the document, and keys, sizes and contrast are right."""

import re

import numpy as np
import pytest
from helpers.browser import Keys, Page, decoded

from test_looks import CONTRAST, NAMELESS, OVERFLOW

SIZES = ["--d-model", 16, "--num-heads", 2, "--num-layers", 2, "--d-ff", 16, "--batch-size", 4, "--warmup", 5]
COMMANDS = {"lm": ["lm", *SIZES, "--context", 32, "--steps", 40, "--validate-every", 10],
            "seq2seq": ["seq2seq", "--task", "copy", *SIZES, "--steps", 12],
            "tagger": ["tagger", *SIZES, "--steps", 12], "classifier": ["classifier", *SIZES, "--steps", 12]}
KINDS = list(COMMANDS)
AT = "return Number(document.getElementById('slider').value)"
TEXT_OF_KEYS = r"\b(page|film|player|curve|predictions|attention|norms|arrays)\.[a-z_]+\b"


@pytest.fixture(scope="session")
def films(tmp_path_factory):
    """A function (kind) -> path of the film of a tiny run; each is made once."""
    folder, pages = tmp_path_factory.mktemp("films"), {}

    def path_of(kind):
        if kind not in pages:
            from numpy_transformer.cli import main

            pages[kind] = folder / f"{kind}.html"
            arguments = ["train", *COMMANDS[kind], "--out", folder / f"{kind}.npz", "--film", pages[kind]]
            assert main([str(argument) for argument in arguments]) == 0
        return pages[kind]

    return path_of


@pytest.fixture
def film(driver, films):
    """A function (kind="lm", width, height, dark, motion) -> Page of a film, which was loaded under these conditions."""
    def open_film(kind="lm", width=1280, height=800, dark=False, motion=False):
        shown = Page(driver)
        driver.get("about:blank")
        shown.log("browser"), shown.log("performance")
        shown.resize(width, height, dark=dark, motion=motion)
        driver.get(films(kind).as_uri())
        return shown.ready()

    return open_film


def go(shown, frame):
    """Moves the slider, as a pointer would."""
    shown.script("const s = document.getElementById('slider'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))", frame)


def value(shown, css):
    text = shown.script("return document.querySelector(arguments[0]).dataset.value", css)
    return None if text == "" else float(text)


def values(shown, css):
    return [float(text) if text else np.nan
            for text in shown.script("return [...document.querySelectorAll(arguments[0])].map((element) => element.dataset.value)", css)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_film_opens_offline_without_a_complaint(film, kind):
    shown = film(kind)
    assert shown.errors() == [] and len([url for url in shown.requests() if not url.startswith("data:")]) == 1
    text = shown.text()
    assert not re.search(TEXT_OF_KEYS, text) and "undefined" not in text and "NaN" not in text


def test_the_slider_shows_the_numbers_of_the_document(film):
    shown = film()
    document = shown.document()
    example, frames = document["example"], document["frames"]
    arrays = {name: decoded({}, example[name]) for name in ("right", "is_right")}
    norms = {kind: decoded({}, entry) for kind, entry in document["norms"].items()}
    for at in (0, 1, len(frames) // 2, len(frames) - 1):
        go(shown, at)
        frame = frames[at]
        assert shown.text("#step").strip() == f"step {frame['step']}"
        for name in ("loss", "norm", "lr"):
            assert value(shown, f"#reading-{name}") == frame[name]
        validated = [point["loss"] for point in document["validation"] if point["step"] <= frame["step"]]
        assert value(shown, "#reading-validation") == (validated[-1] if validated else None)
        np.testing.assert_allclose(values(shown, ".bar-cell .number"), arrays["right"][at], rtol=1e-6)
        assert shown.script("return document.querySelectorAll('tr.hit').length") == arrays["is_right"][at].sum()
        for kind in norms:
            found = values(shown, f"#arrays figure[data-kind={kind}] figcaption .number[data-value]")
            np.testing.assert_allclose(found, norms[kind][at], rtol=1e-6)
            groups = [entry["group"] for entry in document["parameters"]]
            of_block = [i for i, group in enumerate(groups) if group == "block 0"]
            joint = values(shown, f"#norms [data-part='block 0'] [data-kind={kind}] .number")
            np.testing.assert_allclose(joint, [np.linalg.norm(norms[kind][at][of_block])], rtol=1e-5)
        sample = [one for one in example["samples"] if one["frame"] <= at][-1]
        assert shown.script("return document.querySelector('.written').textContent") == sample["text"]


def test_pictures_have_the_colors_of_their_numbers(film):
    """A cell of the last frame: its color is that of code / 127 * scale on a scale that ends at the largest entry of the film."""
    shown = film()
    document = shown.document()
    shown.press(Keys.END)
    entry = next(entry for entry in document["parameters"] if entry["name"].endswith("query.weight"))
    number = document["parameters"].index(entry)
    for part, (kind, root) in enumerate((("weights", False), ("gradients", True))):
        codes, scales = decoded({}, entry[kind]["codes"])[-1], decoded({}, entry[kind]["scales"])
        x = codes / 127 * scales[-1] / scales.max()
        x = np.sign(x) * np.sqrt(abs(x)) if root else x
        pixels = np.array(shown.script("""
            const canvas = document.querySelectorAll('.card')[arguments[0]].querySelectorAll('.picture')[arguments[1]];
            return [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data];""", number, part)).reshape(*codes.shape, 4)
        strongest = np.unravel_index(abs(x).argmax(), x.shape)
        weakest = np.unravel_index(abs(x).argmin(), x.shape)
        assert pixels[strongest][:3].sum() < pixels[weakest][:3].sum()                       # on white, strong colors are dark
        blue, orange = ([0, 2] if kind == "weights" else [0, 1]), None
        clear = abs(x) > 0.3
        difference = pixels[..., blue[1]].astype(int) - pixels[..., blue[0]]                # blue - red, or green - red
        assert orange is None and (np.sign(difference[clear]) == np.sign(x[clear])).all()


def test_keys_step_through_the_film_and_play_it(film):
    shown = film(motion=True)
    shown.press(Keys.HOME)                      # a film plays when it opens; a key by hand pauses it
    assert shown.script(AT) == 0 and not shown.script("return document.body.hasAttribute('data-playing')")
    shown.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert shown.script(AT) == 2
    shown.press(Keys.ARROW_LEFT)
    assert shown.script(AT) == 1
    shown.press(Keys.SPACE)
    assert shown.script("return document.getElementById('play').getAttribute('aria-label')") == "Pause"
    shown.wait("return Number(document.getElementById('slider').value) > 4")
    shown.press(Keys.SPACE)
    assert shown.script("return document.getElementById('play').getAttribute('aria-label')") == "Play"
    stopped = shown.script(AT)
    shown.settle()
    assert shown.script(AT) == stopped
    shown.press(Keys.END)
    assert shown.script(AT) == len(shown.document()["frames"]) - 1
    shown.press(Keys.ARROW_RIGHT)
    assert shown.script(AT) == len(shown.document()["frames"]) - 1


def test_a_film_plays_once_to_its_end_and_again_from_its_beginning(film):
    shown = film("tagger", motion=True)
    shown.script("document.getElementById('speed').value = '4'")
    last = len(shown.document()["frames"]) - 1
    shown.wait("return Number(document.getElementById('slider').value) === arguments[0] && !document.body.hasAttribute('data-playing')", last)
    shown.click("#play")
    shown.wait("return Number(document.getElementById('slider').value) < arguments[0]", last)
    shown.click("#first")
    assert shown.script(AT) == 0 and not shown.script("return document.body.hasAttribute('data-playing')")
    shown.click("#last").click("#previous")
    assert shown.script(AT) == last - 1


def test_reduced_motion_steps_only_and_shows_the_last_frame(film):
    shown = film(motion=False)
    last = len(shown.document()["frames"]) - 1
    assert shown.script(AT) == last
    assert not shown.script("return document.getElementById('play').checkVisibility() || document.getElementById('speed').checkVisibility()")
    shown.press(Keys.SPACE)
    shown.settle()
    assert shown.script(AT) == last and not shown.script("return document.body.hasAttribute('data-playing')")
    shown.press(Keys.ARROW_LEFT)
    assert shown.script(AT) == last - 1


def test_the_curves_can_be_dragged_and_end_above_the_knob(film):
    shown = film()
    box = shown.script("const b = document.querySelector('.track-of-film canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]")
    go(shown, 0)
    shown.command("Input.dispatchMouseEvent", type="mousePressed", x=box[0] + box[2] * 0.6, y=box[1] + 30, button="left", clickCount=1)
    shown.command("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] - 18, y=box[1] + 30, button="left")
    shown.command("Input.dispatchMouseEvent", type="mouseReleased", x=box[0] + box[2] - 18, y=box[1] + 30, button="left", clickCount=1)
    assert shown.script(AT) == len(shown.document()["frames"]) - 1
    track = shown.script("const b = document.getElementById('slider').getBoundingClientRect(); return [b.left, b.right]")
    assert track[0] + 10 == pytest.approx(box[0] + 58, abs=1) and track[1] - 10 == pytest.approx(box[0] + box[2] - 18, abs=1)


def test_a_head_can_be_enlarged_by_keyboard(film):
    shown = film()
    shown.script("document.querySelectorAll('.map-button')[3].focus()")
    shown.press(Keys.ENTER)
    assert "block 1" in shown.text("#attention figcaption") and "head 1" in shown.text("#attention figcaption")
    assert shown.script("return [...document.querySelectorAll('.map-button')].map((b) => b.getAttribute('aria-pressed'))") == [
        "false", "false", "false", "true"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width, height", [(360, 740), (390, 844), (768, 1024), (1440, 900), (1920, 1080), (2560, 1440)])
def test_nothing_sticks_out_and_no_letter_is_too_small(film, kind, width, height):
    shown = film(kind, width, height)
    found = shown.script(OVERFLOW)
    assert found["page"] <= 0 and not found["sticks"], found
    clipped = shown.script("""
        return [...document.querySelectorAll('.scroll, .card, .track-of-film, td, th, figcaption, button')]
            .filter((element) => element.checkVisibility() && element.scrollWidth > element.clientWidth + 1)
            .map((element) => `${element.scrollWidth} > ${element.clientWidth} ${element.outerHTML.slice(0, 160)}`);""")
    assert not clipped
    small = shown.script("""
        return [...document.body.querySelectorAll('*')].filter((element) => element.checkVisibility() && !element.closest('.skip')
            && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
            && parseFloat(getComputedStyle(element).fontSize) < 14).map((element) => element.outerHTML.slice(0, 100));""")
    assert not small


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_enough_contrast_and_controls_have_names(film, kind, dark):
    shown = film(kind, dark=dark)
    assert shown.script("return document.documentElement.dataset.theme") == ("dark" if dark else "light")
    for at in (0, 8):
        go(shown, at)
        assert shown.script(CONTRAST) == []
    assert shown.script(NAMELESS) == []
    shown.click("#theme")
    assert shown.script("return document.documentElement.dataset.theme") == ("light" if dark else "dark")
    assert shown.script(CONTRAST) == []


def test_the_tab_key_reaches_every_control_and_shows_the_focus(film):
    shown = film(motion=True)
    shown.press(Keys.HOME)
    shown.script("document.activeElement?.blur()")
    reached = []
    for _ in range(30):
        shown.press(Keys.TAB)
        at, outline = shown.script("const e = document.activeElement; return [e.id || e.className, getComputedStyle(e).outlineStyle]")
        assert outline != "none" or at in ("", "film"), at
        reached.append(at)
    assert {"theme", "first", "previous", "play", "next", "last", "speed", "slider", "map-button"} <= set(reached)


def test_a_screen_reader_hears_the_step_and_the_loss(film):
    shown = film()
    frame = shown.document()["frames"][3]
    go(shown, 3)
    spoken = shown.script("return document.getElementById('slider').getAttribute('aria-valuetext')")
    assert spoken.startswith(f"step {frame['step']} of 40, training loss ")
    label = shown.script("return document.querySelector('.track-of-film canvas').getAttribute('aria-label')")
    assert f"step {frame['step']}" in label and "validation loss none yet" in label
    assert shown.script("return [...document.querySelectorAll('[role=img]')].every((element) => element.getAttribute('aria-label'))")
