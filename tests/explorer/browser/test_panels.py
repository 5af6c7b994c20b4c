"""Attention, predictions, what if, pictures as files, and large type: what they show is what NumPy computes."""

import copy
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from helpers.browser import example

import numpy_transformer as nt

DOWN, RIGHT, ENTER, ESCAPE = "\ue015", "\ue014", "\ue007", "\ue00c"
CELLS = """
    return [...document.querySelectorAll('#view-attention rect.cell')].map(({ dataset, attributes }) =>
        [dataset.ref, dataset.cell, dataset.value, attributes.fill.value]);"""
SAVED_FILE = """
    const button = document.querySelector(arguments[0]);
    return new Promise((done) => {
        const before = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
        let name = null;
        HTMLAnchorElement.prototype.click = function () { name = this.download; };
        URL.createObjectURL = (blob) => { blob.text().then((text) => done([name, text])); return "blob:test"; };
        button.click();
        [URL.createObjectURL, HTMLAnchorElement.prototype.click] = before;
    });"""
TOO_SMALL = """
    const found = [];
    for (const element of document.querySelectorAll('#panel *, #number-area *, #header *, #timeline *')) {
        const box = element.getBoundingClientRect();
        if (!box.width || element.closest('math') ||            // its indices are smaller
                ![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
        let size = parseFloat(getComputedStyle(element).fontSize);
        const svg = element.ownerSVGElement;
        if (svg && svg.viewBox.baseVal.width) size *= svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        if (size < 23.9) found.push([element.tagName, element.className.baseVal ?? element.className, size]);
    }
    return found;"""


def close(shown, wanted):
    return shown == pytest.approx(wanted, rel=2e-6, abs=1e-9)


def test_the_heatmaps_of_all_heads_show_numpys_weights_and_gradients(page, kind, numbers):
    right = numbers(kind)
    layers = page(kind).document()["attention"]
    assert layers
    for layer in layers:
        weights, dweights = right[layer["weights"]], right[f"grad {layer['weights']}"]
        dscores = weights * (dweights - (weights * dweights).sum(-1, keepdims=True))
        wanted = {layer["weights"]: weights, f"grad {layer['weights']}": dweights, f"grad {layer['scores']}": dscores}
        cells = page(kind, f"view=attention&ref={layer['weights']}&cell=0,0,0,0&t=1000").settle().script(CELLS)
        assert len(cells) == sum(array[0].size for array in wanted.values())
        for ref, cell, value, fill in cells:
            index = tuple(map(int, cell.split(",")))
            if fill.startswith("url"):
                assert weights[index] == 0              # the mask's hatching
            else:
                assert close(float(value), wanted[ref][index]), (ref, cell)


def test_a_token_says_what_it_collects_and_why_the_first_ones_gradient_is_zero(page):
    shown = page("decoder", "view=attention&t=1000").settle()
    first, second = example("decoder").text.split()[:2]
    shown.script("document.querySelector('.token[data-side=query]').focus()")
    assert f"{first}₀ 1.00" in shown.text(".readout") or f"{first} 1.00" in shown.text(".readout")
    assert "exactly 0" in shown.text(".readout")
    shown.press(DOWN)
    assert f"{second} attends to" in shown.text(".readout") and "exactly 0" not in shown.text(".readout")
    drawn = shown.script("return [...document.querySelectorAll('.lines path')].map((path) => path.dataset.pair)")
    assert drawn and all(pair.startswith("1,") for pair in drawn)
    shown.press(ENTER).settle()
    assert shown.place()["cell"].split(",")[2] == "1"
    assert shown.script("return document.activeElement.dataset.token") == "1"         # the focus stays


def test_probabilities_losses_and_gradients_are_those_of_numpy(page, kind):
    shown = page(kind, "view=predictions&t=1000").settle()
    predictions = shown.document()["predictions"]
    inputs, targets, _ = example(kind).read()
    logits = copy.deepcopy(example(kind).model).astype(np.float64).eval()(*inputs)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    counted = [index for index, _ in np.ndenumerate(targets) if 0 <= targets[index] < p.shape[-1]]
    for ref, cell, number, _ in shown.shown():
        if ref == "losses":
            assert close(number, -np.log(p[cell][targets[cell]]))
    place, t = tuple(map(int, shown.find("[data-probability]").find_element("xpath", "../td[1]/button")
                         .get_attribute("data-cell").split(",")))[:-1], 0.5
    wanted = sorted(p[place], reverse=True)
    read = "return [...document.querySelectorAll('[data-probability]')].map((cell) => Number(cell.dataset.probability))"
    assert sorted(shown.script(read), reverse=True)[0] == pytest.approx(wanted[0], rel=1e-5)
    gradients = {cell: number for ref, cell, number, _ in shown.shown() if ref == f"grad {predictions['logits']}"}
    assert gradients
    for cell, number in gradients.items():
        y = float(cell[-1] == targets[cell[:-1]])
        assert close(number, (p[cell] - y) / len(counted) if cell[:-1] in counted else 0.0)
    shown.script("const slider = document.querySelector('.temperature input'); slider.value = arguments[0];"
                 "slider.dispatchEvent(new Event('input'))", t)
    powers = np.exp(logits[place] / t)
    assert max(shown.script(read)) == pytest.approx((powers / powers.sum()).max(), rel=1e-5)


@pytest.mark.parametrize("view", ["attention", "predictions"])
def test_pictures_are_saved_as_svg_files_that_load_nothing(page, view):
    shown = page("decoder", f"view={view}&t=1000").settle()
    name, text = shown.driver.execute_script(SAVED_FILE, f"#view-{view} .export")
    root = ElementTree.fromstring(text)
    assert name.endswith(".svg") and root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "class=" not in text and "var(--" not in text and "http" not in text.replace("http://www.w3.org/", "")
    words = "".join(root.itertext())
    assert all(token in words for token in example("decoder").text.split())
    box = [float(number) for number in root.get("viewBox").split()]
    parts = root.findall("{http://www.w3.org/2000/svg}svg")
    title = root.find("{http://www.w3.org/2000/svg}title").text
    assert title and root.find("{http://www.w3.org/2000/svg}text").text == title
    for part in parts:                                              # nothing touches the edge
        assert float(part.get("x")) > 0 and float(part.get("x")) + float(part.get("width")) < box[2]
        assert float(part.get("y")) > 0 and float(part.get("y")) + float(part.get("height")) < box[3]


@pytest.mark.parametrize("view, button", [("attention", ".head-gallery .export"), ("component", ".array-map .export")])
def test_saved_heatmaps_have_their_color_scale(page, view, button):
    place = "op=decoder.blocks.0.attention.attention.softmax"
    shown = page("decoder", f"view={view}&{place}&t=1000").settle()
    root = ElementTree.fromstring(shown.driver.execute_script(SAVED_FILE, f"#view-{view} {button}")[1])
    heatmap, scale = root.findall("{http://www.w3.org/2000/svg}svg")
    fills = {rect.get("fill") for rect in scale.iter("{http://www.w3.org/2000/svg}rect")}
    assert len(fills) > 5 and "".join(scale.itertext()).strip()


def test_a_saved_page_says_how_to_start_the_server(page):
    said = page("encoder-decoder", "view=hands-on").settle().text("#view-hands-on")
    assert "numpy-transformer explore" in said and "--model encoder-decoder" in said and "`" not in said


@pytest.mark.parametrize("view", ["component", "attention", "predictions"])
def test_large_type_is_at_least_24_pixels(page, view):
    place = "ref=grad decoder.blocks.0.attention.attention.scores:y&cell=0,1,1,0"
    shown = page("decoder", f"large=1&view={view}&{place}").resize(1920, 1080).settle()
    assert shown.script(TOO_SMALL) == []
    assert shown.script("return document.documentElement.scrollWidth") <= 1920


def loss_after_sgd(lr):
    """The loss after one step of SGD, with nothing but the library's own parts."""
    model, criterion = copy.deepcopy((example("decoder").model, example("decoder").criterion))
    inputs, targets, _ = example("decoder").read()
    model.astype(np.float64).eval(remember=True).zero_grad()
    criterion(model(*inputs), targets)
    model.backward(criterion.backward())
    for parameter in model.parameters():
        parameter.data -= lr * parameter.grad
    return float(criterion(model(*inputs), targets))


def edits(shown):
    return shown.script("return [...document.querySelectorAll('.edit-list li')].map((item) => item.innerText)")


def loss(shown):
    return float(shown.script("return document.querySelector('#header .loss').dataset.value"))


def test_a_step_is_numpys_step_and_undo_brings_everything_back(live):
    shown = live("view=hands-on").settle()
    before = loss(shown)
    shown.click("#take-step").wait("return document.querySelectorAll('.edit-list li').length === 1")
    assert loss(shown) == pytest.approx(loss_after_sgd(0.01), rel=1e-9) and loss(shown) < before
    shown.find(".moved .bars-row")
    shown.click("[data-edit=undo]").wait("return document.querySelectorAll('.edit-list li').length === 0")
    assert loss(shown) == before and edits(shown) == []
    shown.click("[data-edit=redo]").wait("return document.querySelectorAll('.edit-list li').length === 1")
    shown.click("[data-edit=reset]").wait("return document.querySelectorAll('.edit-list li').length === 0")
    assert shown.errors() == []


def test_a_bug_in_backward_changes_gradients_alone_and_the_first_one_is_named(live):
    shown = live("view=hands-on").settle()
    before = loss(shown)
    shown.script("""const list = document.querySelector('[data-key=which-bug]'); list.value = 'mean-path-missing';
                    list.dispatchEvent(new Event('change'))""")
    shown.settle().click("#plant-bug").find(".changes")
    shown.settle()
    assert loss(shown) == pytest.approx(before, rel=1e-12)          # forward is right
    assert "nothing changed" in shown.text(".changes")
    first = shown.script("return document.querySelector('[data-first]').dataset.first")
    assert first == "grad decoder.blocks.1.add2:y"      # what the last norm, the first that backward meets, sends back
    changed = shown.script("return [...document.querySelectorAll('.change-list [data-ref]')].map((row) => row.dataset.ref)")
    assert changed and all(ref.startswith("grad ") for ref in changed)
    assert not any(ref.endswith("key.bias") for ref in changed)         # 0 up to rounding, with the bug and without it
    shown.click("#plant-bug").wait("return document.querySelector('.changes') === null")
    assert edits(shown) == []


def test_a_head_is_switched_off_and_bad_numbers_get_a_sentence(live):
    shown = live("view=hands-on").settle()
    shown.click("#switches").find(".switch input[data-key^='off head']").click()
    shown.wait("return document.querySelectorAll('.edit-list li').length === 1")
    assert "head 0 off" in edits(shown)[0]
    shown.settle()
    assert shown.script("return document.activeElement.dataset.key").startswith("off head")          # the focus stays
    shown.script("document.getElementById('hands-lr').value = '-1';"
                 "document.getElementById('hands-lr').dispatchEvent(new Event('input'))")
    shown.click("#take-step").wait("return document.getElementById('status').innerText.includes('learning rate')")
    assert len(edits(shown)) == 1
    shown.click("[data-edit=reset]").wait("return document.querySelectorAll('.edit-list li').length === 0")


@pytest.mark.parametrize("width, height", [(1280, 800), (1000, 800), (360, 740)])
def test_the_first_choice_does_not_move_the_picture_under_the_pointer(page, width, height):
    shown = page("decoder", "view=attention&area=panel&t=1000").resize(width, height).settle()
    parts = ["#view-attention .attention-lines", "#view-attention .heads"]
    tops = f"""return {parts}.map((css) => document.querySelector(css).getBoundingClientRect().top)"""
    shown.script("document.body.dataset.area = 'panel'")
    before = shown.settle().script(tops)
    shown.script("document.querySelector('.attention-lines .token').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    shown.wait("return new URLSearchParams(location.hash.slice(1)).get('cell')")
    shown.script("document.body.dataset.area = 'panel'")
    assert shown.settle().script(tops) == before


def choose(shown, key, value):
    shown.script("""const list = document.querySelector(`[data-key=${arguments[0]}]`); list.value = arguments[1];
                    list.dispatchEvent(new Event('change'))""", key, value)
    return shown.settle()


def test_every_view_says_that_the_model_is_edited_and_takes_an_edit_back(live):
    shown = live("view=hands-on").settle()
    before = loss(shown)
    assert shown.text("#edited") == ""
    shown.click("#take-step").wait("return document.querySelectorAll('.edit-list li').length === 1")
    shown.click("#tab-attention").settle()
    assert shown.text("#edited").startswith("1 edit")
    shown.find("#edited-undo").send_keys(ENTER)
    shown.wait("return Number(document.querySelector('#header .loss').dataset.value) === arguments[0]", before)
    assert shown.text("#edited") == "" and shown.script("return document.activeElement.id") == "panel"
    shown.click("#tab-hands-on").click("[data-edit=redo]").wait("return document.querySelectorAll('.edit-list li').length === 1")
    shown.click("[data-edit=reset]").wait("return document.querySelectorAll('.edit-list li').length === 0")
    assert shown.errors() == []


def test_what_changed_is_seen_and_leads_to_its_component(live):
    shown = live("view=hands-on").settle().click("#switches").settle()
    choose(shown, "which-bug", "no-scale").click("#plant-bug").find("#to-changes")
    in_sight = """
        const panel = document.getElementById('panel').getBoundingClientRect();
        const box = document.querySelector(arguments[0]).getBoundingClientRect();
        return box.top >= panel.top && box.bottom <= panel.bottom;"""
    assert shown.settle().script(in_sight, "#to-changes")               # at once, wherever the panel is scrolled to
    first = shown.script("return document.querySelector('[data-first]').dataset.first")
    shown.click("#to-changes").settle().click("[data-first]").settle()
    assert shown.script(in_sight, ".changed-array h4") and shown.script(in_sight, ".side-by-side figure")
    shown.click("#open-changed").settle()
    place = shown.place()
    assert place["ref"] == first and place["op"] == shown.op_of(first) and place.get("view", "component") == "component"
    shown.click("#edited-undo").wait("return document.getElementById('edited').hidden")


def test_an_edit_can_be_compared_with_the_model_before_it(live):
    """With a head off, a later mistake in backward changes no value; compared with the original model, the head does."""
    shown = live("view=hands-on").settle().click("#switches")
    shown.find(".switch input[data-key^='off head']").click()
    shown.wait("return document.querySelectorAll('.edit-list li').length === 1")
    choose(shown.settle(), "which-bug", "mean-path-missing").click("#plant-bug")
    shown.wait("return document.querySelectorAll('.edit-list li').length === 2")
    assert "nothing changed" not in shown.settle().text(".changes")
    choose(shown, "against", "latest").wait("return document.querySelector('.changes').innerText.includes('nothing changed')")
    assert shown.script("return document.querySelector('[data-first]').dataset.first") == "grad decoder.blocks.1.add2:y"
    shown.click("[data-edit=reset]").wait("return document.querySelectorAll('.edit-list li').length === 0")


def test_each_optimizer_has_a_learning_rate_of_its_own(live):
    shown = live("view=hands-on").settle()
    before = loss(shown)
    rate = "return document.getElementById('hands-lr').value"
    sgd = shown.script(rate)
    choose(shown, "optimizer", "adam")
    assert float(shown.script(rate)) < float(sgd)
    shown.click("#take-step").wait("return document.querySelectorAll('.edit-list li').length === 1")
    assert loss(shown) < before
    choose(shown, "optimizer", "sgd")
    assert shown.script(rate) == sgd
    shown.click("[data-edit=reset]").wait("return document.querySelectorAll('.edit-list li').length === 0")


def test_an_error_says_what_is_still_shown_and_leads_to_its_field(live):
    shown = live("view=component").settle()
    shown.find("#target").send_keys("elephants" + ENTER)
    said = shown.wait("return document.querySelector('#status').innerText")
    assert "elephants" in said and "still shows" in said
    shown.wait("return document.activeElement.id === 'target'")
    shown.script("document.getElementById('target').value = ''")
    shown.find("#text").send_keys(" elephants" + ENTER)
    shown.wait("return document.activeElement.id === 'text'")


def test_a_target_that_does_not_count_says_so(page):
    targets = example("decoder").read()[1]
    at = int(np.flatnonzero(targets[0] < 0)[0])
    shown = page("decoder", f"op=loss&ref=loss:targets&cell=0,{at}").settle()
    assert "not counted in the loss" in shown.text("#number")
    assert "not counted" not in page("decoder", "op=loss&ref=loss:targets&cell=0,0").settle().text("#number")
