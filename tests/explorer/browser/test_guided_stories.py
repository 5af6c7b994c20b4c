"""The opening, the guided stories and the questions of lessons: they can be read from end to end, and what they say is true."""

import copy

import numpy as np
import pytest
from helpers.browser import SEEN, Keys, Page, example

from numpy_transformer.explorer.lessons import PLACES

STORIES = {"decoder": {"step", "query", "information", "head", "norms", "bug", "update"}, "encoder": {"step", "information", "bug", "update"},
           "encoder-decoder": {"step", "query", "bug", "update"}, "classifier": {"step", "bug", "update"}}
TARGETS = "return [...document.querySelectorAll('.losses .bars-row')].map((row) => Number(row.querySelector('[data-value]').dataset.value))"


def offered(shown):
    shown.click("#stories").find(".story-choice")
    return shown.script("return [...document.querySelectorAll('.story-choice')].map((choice) => choice.dataset.storyKey)")


def part(shown, key, number):
    """Goes to a part of a story and returns its text, the heading and the buttons apart."""
    shown.go(f"story={key}.{number}")
    shown.wait("return document.querySelector('.story')?.dataset.story?.startsWith(arguments[0] + '.')", key)
    return shown.settle().text("#story")


def test_each_story_can_be_read_to_its_end_with_a_guess_and_a_reveal(page, kind):
    shown = page(kind, "op=embedding").settle()
    keys = offered(shown)
    assert STORIES[kind] <= set(keys)
    for key in keys:
        shown.go(f"story={key}.0")
        places, guesses = set(), 0
        for number in range(9):
            shown.wait("return document.querySelector('.story')?.dataset.story?.startsWith(arguments[0] + '.') && document.querySelector('.story-actions')", key)
            said = shown.settle().text("#story")
            assert "{" not in said and "undefined" not in said and "NaN" not in said and "story." not in said, said
            places.add(shown.script("return document.querySelector('.story').dataset.story"))
            if shown.script("return document.querySelector('.guess')"):
                shown.click(".guess").settle()
                assert shown.script("return document.querySelectorAll('.guess.is-right').length") == 1 and shown.text(".reveal")
                guesses += 1
            if not shown.script("return document.getElementById('story-next')"):
                break
            shown.click("#story-next")
        assert 3 <= number + 1 <= 8 and len(places) == number + 1 and (guesses >= 1 or key == "step"), key
    shown.press(Keys.ESCAPE)
    assert shown.text("#story") == "" and shown.script("return document.activeElement.id") == "stories"
    assert shown.errors() == []


def test_the_first_story_agrees_with_the_page_beside_it(page):
    shown = page("decoder", "op=embedding")
    said = [part(shown, "step", number) for number in range(8)]
    _, targets, _ = example("decoder").read()
    assert f"{np.sum(targets >= 0)} targets" in said[1] and shown.text("#header .loss b") in said[1]
    assert "every token" in said[1] and "p − q" in said[2] and "`" not in "".join(said)


def test_the_story_of_the_head_names_the_target_that_loses_most(page):
    shown = page("decoder", "op=embedding&view=predictions&t=1000").settle()
    before = shown.script(TARGETS)
    part(shown, "head", 0)
    right = shown.click(".guess").script("return document.querySelector('.guess.is-right').dataset.guess")
    part(shown, "head", 1)
    after = shown.settle().script(TARGETS)
    rises = np.subtract(after, before)
    assert int(right) == rises.argmax() and rises.max() > 0
    assert "1 edit" in shown.text("#edited")


def test_the_story_of_the_step_foretells_the_fall_as_numpy_does(page):
    shown = page("decoder", "op=embedding")
    part(shown, "update", 0)
    edit = next(one for one in shown.document()["comparisons"] if one["name"] == "step")["edits"][0]
    model, criterion = copy.deepcopy(example("decoder").model).astype(np.float64).eval(remember=True), copy.deepcopy(example("decoder").criterion)
    inputs, targets, _ = example("decoder").read()
    loss = criterion(model(*inputs), targets)
    model.backward(criterion.backward())
    fall = edit["lr"] * sum(float((p.grad ** 2).sum()) for p in model.parameters())
    for p in model.parameters():
        p.data = p.data - edit["lr"] * p.grad
    real = loss - criterion(model.eval()(*inputs), targets)
    said = part(shown, "update", 3)
    assert f"{fall:.3g}" in said and f"{real:.3g}" in said, (said, fall, real)


@pytest.mark.parametrize("lesson", PLACES)
def test_each_question_of_a_lesson_is_answered_on_its_page(driver, tmp_path, lesson):
    from numpy_transformer.explorer.explorer import Explorer
    from numpy_transformer.explorer.session import Session
    from numpy_transformer.explorer.tiny_models import tiny

    place = PLACES[lesson]
    session = Session(tiny(place.model, train=False))
    path = Explorer(session).save(tmp_path / "page.html", place.address(session.document()))
    shown = Page(driver).open(path.as_uri()).settle()
    assert place.sentence in shown.text("#story").replace("\n", " ") 
    shown.wait("return new URLSearchParams(location.hash.slice(1)).get('ref') === arguments[0]", place.ref)
    count = shown.script("return document.querySelectorAll('.guess').length")
    assert count in (2, 3)
    shown.click(".guess").settle()
    assert len(shown.text(".reveal")) > 40 and shown.script("return document.querySelectorAll('.guess.is-right').length") == 1
    assert shown.errors() == []


def test_a_lessons_answer_about_keys_and_values_is_that_of_the_page(page, numbers):
    """The reveal of lesson 13 says that the larger gradient comes through the values: it does so with trained weights."""
    from numpy_transformer.explorer.session import Session
    from numpy_transformer.explorer.tiny_models import tiny

    arrays = Session(tiny("encoder-decoder")).base.arrays
    keys, values = (np.linalg.norm(arrays[f"grad encoder.norm:y via decoder.blocks.0.cross_attention.{name} x"]) for name in ("key", "value"))
    assert values > keys


def first_visit(driver, saved, kind="decoder", **look):
    shown = Page(driver).open(saved(kind).as_uri(), first=True)
    shown.resize(1280, 800, **look)
    return shown


def test_the_opening_is_shown_once_takes_ten_seconds_and_can_be_skipped(driver, saved):
    shown = first_visit(driver, saved)
    shown.find(".opening")
    durations = shown.script("""return document.getAnimations().map((motion) => { const { delay, duration } = motion.effect.getTiming(); return (delay + duration) / 1000; })
        .filter((end) => end < 30)""")
    assert 8 < max(durations) < 11
    assert shown.script("return document.activeElement.id") == "opening-skip"
    shown.press(Keys.ESCAPE)
    shown.ready().settle()
    assert not shown.script("return document.querySelector('.opening')")
    assert shown.script("return localStorage.getItem(arguments[0])", SEEN) == "1"
    shown.wait("const place = new URLSearchParams(location.hash.slice(1)); return place.get('ref')?.startsWith('grad ') && place.get('cell')")
    shown.driver.refresh()
    shown.ready()
    assert not shown.script("return document.querySelector('.opening')")


def test_the_openings_numbers_are_those_of_the_step(driver, saved, kind):
    shown = first_visit(driver, saved, kind)
    shown.find(".opening")
    words = shown.script("return [...document.querySelectorAll('.opening-words li')].map((word) => [word.children[0].textContent, word.classList.contains('is-right'), word.children[2].textContent])")
    inputs, targets, tokens = example(kind).read()
    logits = copy.deepcopy(example(kind).model).astype(np.float64).eval()(*inputs)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    places = [index for index, target in np.ndenumerate(targets) if 0 <= target < p.shape[-1]]
    labels = tokens["classes" if kind == "classifier" else "vocabulary"]
    wanted = {labels[i]: 100 * x for i, x in enumerate(p[places[-1]])}
    assert len(words) >= 2 and sum(right for _, right, _ in words) == 1
    for word, right, text in words:
        assert float(text.split()[0]) == pytest.approx(wanted[word], rel=5e-3)
        assert right == (word == labels[targets[places[-1]]])
    shown.press(Keys.ESCAPE)


def test_without_motion_the_opening_is_a_sheet_of_stills_that_waits(driver, saved):
    shown = Page(driver)
    shown.open(saved("decoder").as_uri())
    shown.resize(1280, 800, motion=False)
    shown.script("document.dispatchEvent(new Event('show-opening'))")
    shown.find(".opening.is-still")
    assert shown.script("return document.getAnimations().length") == 0
    assert shown.script("return [...document.querySelectorAll('.opening-captions li')].every((line) => getComputedStyle(line).opacity === '1')")
    shown.click("#opening-skip")
    assert not shown.script("return document.querySelector('.opening')")


def test_an_address_leads_to_its_place_without_an_opening(driver, saved):
    shown = Page(driver).open(saved("decoder").as_uri(), "op=decoder.norm", first=True).ready()
    assert not shown.script("return document.querySelector('.opening')") and shown.place()["op"] == "decoder.norm"
