"""Two steps side by side, the switches on the map, and what the page says about a change."""

import copy

import numpy as np
import pytest
from helpers.browser import Keys, example, step_numbers

from numpy_transformer import zoo

HEAD = "document.querySelector(`.chip-switch[data-edit*='\"head\":1']`)"


def without_head(head, block=0):
    """The losses of the targets without a head of a block, computed by clearing the rows of the output projection that read it."""
    model = copy.deepcopy(example("decoder").model).astype(np.float64)
    attention = model.decoder.blocks[block].attention
    width = attention.output.weight.data.shape[0] // attention.num_heads
    attention.output.weight.data[head * width:(head + 1) * width] = 0
    return losses_of(model)


def losses_of(model):
    inputs, targets, _ = example("decoder").read()
    logits = model.eval()(*inputs)[0]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return [-log_p[place, target] for place, target in enumerate(targets[0]) if target >= 0]


def test_the_maps_of_two_steps_fold_scroll_and_move_together(page):
    shown = page("decoder", "compare=norm&two=1&view=hands-on").settle()
    maps = ["#map-before", "#map"]
    shown.zoom("operations").settle()
    boxes = [set(shown.script(f"return [...document.querySelectorAll('{css} .node:not(.frame)')].map((node) => node.dataset.op)")) for css in maps]
    assert {"decoder.norm", "decoder.blocks.0.norm1"} <= boxes[0] and "decoder.norm" not in boxes[1] and "decoder.blocks.0.norm1" in boxes[1]
    shown.script("document.querySelector('#map .stage').scrollTop = 10000")
    shown.wait("const stage = document.querySelector('#map-before .stage'); return stage.scrollTop > 100 && stage.scrollTop >= stage.scrollHeight - stage.clientHeight - 2")
    shown.script("document.activeElement.blur()")
    shown.press(Keys.HOME, *[Keys.ARROW_RIGHT] * 5).settle()
    now = [shown.script(f"return document.querySelector('{css} .node.now').dataset.op") for css in maps]
    assert now[0] == now[1]
    shown.click("#two-close").settle()
    assert not shown.script("return document.getElementById('map-before').checkVisibility()")


def test_each_map_shows_its_own_steps_numbers(page, numbers):
    shown = page("decoder", "compare=norm&two=1&view=hands-on").settle()
    losses = [shown.text("#map-before .map-title .note"), shown.text("#map-title .note")]
    model = copy.deepcopy(example("decoder").variant("post-norm")).astype(np.float64)
    assert losses == [f"loss {np.mean(losses_of(copy.deepcopy(example('decoder').model).astype(np.float64))):.4f}", f"loss {np.mean(losses_of(model)):.4f}"]
    titles = shown.script("return [...document.querySelectorAll('#map-before .line, #map .line')].filter((line) => line.dataset.line === 'embedding:y').map((line) => line.textContent)")
    wanted = np.linalg.norm(numbers("decoder")["grad embedding:y"])
    assert f"{wanted:.3g}" in titles[0] and titles[0] != titles[1]


@pytest.mark.parametrize("name", ["head", "step", "bug", "norm"])
def test_a_saved_page_shows_each_comparison_offline(page, name):
    shown = page("decoder", f"compare={name}&two=1&view=hands-on").settle()
    assert "1 edit" in shown.text("#edited") and shown.text("#view-hands-on .changes h3") and shown.text("#map-before")
    shown.click("#edited-undo").settle()
    assert shown.text("#edited") == "" and not shown.script("return document.getElementById('map-before').checkVisibility()")
    assert shown.errors() == [] and shown.script("return performance.getEntriesByType('resource').length") == 0


def test_a_head_is_switched_on_the_map_and_the_page_says_whose_loss_moved(live):
    shown = live("op=decoder.blocks.0.attention.attention.softmax&t=10").settle()
    before, after = losses_of(copy.deepcopy(example("decoder").model).astype(np.float64)), without_head(1)
    shown.script(f"{HEAD}.focus()")
    shown.press(Keys.ENTER)
    shown.wait("return document.getElementById('verdict').innerText")
    said = shown.settle().text("#verdict")
    most = int(np.abs(np.subtract(after, before)).argmax())
    target = example("decoder").read()[2]["targets"][0][most]
    assert f"“{target}”" in said and f"from {before[most]:.3g}"[:9] in said and f"{np.mean(after):.4g}"[:5] in said, (said, before, after)
    assert ("rose" if after[most] > before[most] else "fell") in said and "In this head" in said
    assert shown.script(f"return [{HEAD}.getAttribute('aria-checked'), document.activeElement === {HEAD}]") == ["false", True]
    shown.press(Keys.SPACE).wait(f"return {HEAD}.getAttribute('aria-checked') === 'true'")
    assert shown.settle().text("#edited") == ""


@pytest.mark.parametrize("what, words", [("mask", "later tokens"), ("block", "added a vector of length")])
def test_masks_and_blocks_are_switched_on_the_map(live, what, words):
    shown = live("op=decoder.blocks.0.attention.attention.softmax&t=10").settle()
    shown.script("document.querySelector(`.chip-switch[data-edit*='\"what\":\"${arguments[0]}\"']`).dispatchEvent(new MouseEvent('click', { bubbles: true }))", what)
    shown.wait("return document.getElementById('verdict').innerText.includes(arguments[0])", words)
    shown.click("#verdict-undo").wait("return document.getElementById('edited').hidden")
    assert shown.settle().script("return document.getElementById('verdict').hidden")


def test_the_preselected_bug_is_the_one_that_moves_the_loss_most(live):
    shown = live("view=hands-on").settle()
    groups = shown.script("""return [...document.querySelectorAll('[data-key=which-bug] optgroup')].map((group) =>
        [group.label, [...group.children].map((option) => option.value)])""")
    assert [label for label, _ in groups] == ["The loss moves", "The loss stays as it is, and gradients are wrong"]
    right = float(step_numbers(example("decoder"))["loss:y"])
    moves = {}
    for name in sum((names for _, names in groups), []):
        bug = zoo.find(name)
        model, criterion = copy.deepcopy((example("decoder").model, example("decoder").criterion))
        model.astype(np.float64).eval()
        for place in (model, criterion):
            if any(isinstance(part, bug.target) for _, part in place.named_modules()):
                zoo.apply(bug, place)
                break
        inputs, targets, _ = example("decoder").read()
        moves[name] = abs(float(criterion.eval()(model(*inputs), targets)) - right)
    loud, silent = groups[0][1], groups[1][1]
    assert all(moves[name] > 1e-12 for name in loud) and all(moves[name] < 1e-12 for name in silent)
    assert loud == sorted(loud, key=moves.get, reverse=True)
    assert shown.script("return document.querySelector('[data-key=which-bug]').value") == loud[0]
    shown.click("#plant-bug").wait("return document.getElementById('verdict').innerText.includes('first value that changed')")
    shown.click("#verdict-undo").wait("return document.getElementById('edited').hidden")
