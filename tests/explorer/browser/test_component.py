"""The panel of a component, its heatmaps, and one number spelled out: by keyboard alone, and with NumPy's numbers."""

import inspect

import numpy as np
import pytest
from helpers.browser import Page, example

import numpy_transformer as nt
from numpy_transformer.explorer.explorer import Explorer
from numpy_transformer.explorer.session import Session
from numpy_transformer.layers import Softmax

DOWN, RIGHT, END, ENTER, ESCAPE, TAB = "\ue015", "\ue014", "\ue010", "\ue007", "\ue00c", "\ue004"
SOFTMAX = "decoder.blocks.0.attention.attention.softmax"
SCORES = "decoder.blocks.0.attention.attention.scores"
HEAD = """
    const number = document.querySelector('#number .number-head [data-ref]');
    return number && [number.dataset.ref, number.dataset.cell, Number(number.dataset.value)];"""
ON_LINK = "return document.activeElement.matches(arguments[0]) && document.activeElement.dataset.ref !== arguments[1]"


def chosen(shown):
    """(ref, index, number) of the number that is spelled out."""
    ref, cell, number = shown.wait(HEAD)
    return ref, tuple(map(int, filter(None, cell.split(",")))), number


def datasets(shown, css):
    """The data attributes of these elements, a dict each."""
    return shown.script("return [...document.querySelectorAll(arguments[0])].map(({ dataset }) => ({ ...dataset }))", css)


def follow(shown, css):
    """Goes to the first link of this kind that leads to another array, by keyboard alone."""
    ref = chosen(shown)[0]
    for _ in range(60):
        shown.press(TAB)
        if shown.script(ON_LINK, css, ref):
            shown.press(ENTER).wait(f"const found = (() => {{ {HEAD} }})(); return found && found[0] !== arguments[0]", ref)
            shown.settle()
            return
    raise AssertionError(f"no link {css} leads away from {ref}")


def test_by_keyboard_alone_one_follows_a_gradient_from_an_embedding_to_the_loss(page, numbers):
    right = numbers("decoder")
    shown = page("decoder", "op=embedding&ref=grad embedding:y&cell=0,4,1").settle()
    shown.script("document.getElementById('number-area').focus()")
    path = [chosen(shown)]
    while path[-1][0] != "grad loss:y":
        follow(shown, "#number .origin .number-link.is-gradient")
        assert not shown.script("return document.querySelector('.disagreement')"), path[-1]
        path.append(chosen(shown))
        assert len(path) < 60
    compared = [(number, right[ref][index]) for ref, index, number in path if ref in right]
    assert len(compared) > 12
    for number, wanted in compared:
        assert number == pytest.approx(wanted, rel=2e-6, abs=1e-9)
    shown.driver.back()
    shown.wait(f"const found = (() => {{ {HEAD} }})(); return found[0] === arguments[0]", path[-2][0])
    assert shown.errors() == []


def test_by_keyboard_alone_one_follows_a_gradient_from_the_loss_down_to_a_parameter(page):
    shown = page("decoder", "op=loss&ref=grad loss:y").settle()
    shown.script("document.getElementById('number-area').focus()")
    refs = ["grad loss:y"]
    for wanted in ("grad output:y", "grad decoder.norm:y"):
        shown.find("#number .onward .number-link")
        follow(shown, f"#number .onward .number-link[data-ref='{wanted}']")
        refs.append(chosen(shown)[0])
    shown.find("#number .onward .number-link[data-ref='grad decoder.norm.gamma']")
    follow(shown, "#number .onward .number-link[data-ref='grad decoder.norm.gamma']")
    assert refs == ["grad loss:y", "grad output:y", "grad decoder.norm:y"]
    assert chosen(shown)[0] == "grad decoder.norm.gamma"
    assert shown.errors() == []


def test_a_table_has_numpys_numbers_of_the_chosen_head(page, numbers):
    weights = numbers("decoder")[f"{SOFTMAX}:y"]
    shown = page("decoder", f"op={SOFTMAX}&ref=grad {SOFTMAX}:y&cell=0,1,2,1").settle()
    shown.click(".is-output .array-foot button").settle()
    cells = datasets(shown, ".is-output .array-table [data-ref]")
    values = [cell for cell in cells if cell["ref"] == f"{SOFTMAX}:y"]
    assert len(values) == weights[0, 1].size and len(cells) == 2 * len(values)
    for cell in values:
        index = tuple(map(int, cell["cell"].split(",")))
        assert index[:2] == (0, 1)
        assert float(cell["value"]) == pytest.approx(weights[index], rel=2e-6, abs=1e-9)
    headers = shown.script("""return [...document.querySelectorAll('.is-output .array-table th[scope=row]')]
        .map((cell) => cell.textContent)""")
    assert headers[:2] == shown.document()["tokens"]["source"][0][:2]


def test_arrow_keys_point_at_cells_and_enter_spells_one_out(page, numbers):
    right = numbers("decoder")["grad decoder.norm:y"]
    shown = page("decoder", "op=decoder.norm&t=81").settle()
    shown.script("document.querySelector('.is-output .heatmap-gradient .heatmap-rings').focus()")
    shown.press(DOWN, DOWN, RIGHT).settle()
    pointed = datasets(shown, ".is-output .pair-readout [data-cell]")
    assert [cell["cell"] for cell in pointed] == ["0,2,1"] * 2
    assert float(pointed[1]["value"]) == pytest.approx(right[0, 2, 1], rel=2e-6)
    shown.press(END, ENTER).settle()
    assert chosen(shown)[:2] == ("grad decoder.norm:y", (0, 2, right.shape[2] - 1))
    assert shown.script("return document.activeElement.id") == "number-area"
    shown.press(TAB, ESCAPE)
    assert shown.script("return document.activeElement.dataset.ref") == "grad decoder.norm:y"


def test_the_terms_of_a_sum_add_up_and_are_sorted_by_size(page, numbers):
    right = numbers("decoder")
    x, weight = right["decoder.blocks.0.norm1:y"], right["decoder.blocks.0.attention.query.weight"]
    query = "decoder.blocks.0.attention.query"
    shown = page("decoder", f"op={query}&ref={query}:y&cell=0,2,1").settle()
    shown.click(".terms .more button").settle()
    factors = shown.script("""return [...document.querySelectorAll('.terms .term')].map((term) =>
        [...term.querySelectorAll('.number-link')].map((link) => Number(link.dataset.value)))""")
    products = np.array([a * b for a, b in factors])
    wanted = x[0, 2] * weight[:, 1]
    np.testing.assert_allclose(products, wanted[np.argsort(-np.abs(wanted), kind="stable")], rtol=1e-5, atol=1e-9)


def test_a_saved_page_shows_the_nudge_and_how_well_gradients_agree(driver, tmp_path):
    session = Session(example("decoder"))
    session.prove()
    path = Explorer(session).save(tmp_path / "proven.html")
    shown = Page(driver).open(path.as_uri(), f"op={SCORES}&ref=grad {SCORES}:y&cell=0,1,2,1").settle()
    proof = shown.document()["proof"]
    numeric, gradient = shown.script("""return ['numeric', 'gradient'].map((name) =>
        Number(document.querySelector(`#proof .is-${name}`).dataset.value))""")
    assert numeric == pytest.approx(gradient, rel=1e-5)
    assert shown.script("return document.querySelectorAll('#proof .curve-point').length") == len(proof["steps"])
    assert float(shown.script("return document.querySelector('.proof-worst').dataset.worst")) == proof["worst"] < 1e-6


def test_a_live_page_nudges_and_a_planted_bug_shows_as_a_disagreement(live):
    place = "op=decoder.blocks.0.norm1&ref=grad positions:y via decoder.blocks.0.norm1 x&cell=0,2,1"
    shown = live(place).settle()
    assert not shown.script("return document.querySelector('.disagreement')")
    shown.click("#nudge").find("#proof .is-numeric")
    numbers = shown.script("""return ['numeric', 'gradient', 'difference'].map((name) =>
        Number(document.querySelector(`#proof .is-${name}`).dataset.value))""")
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-5) and numbers[2] < 1e-6
    shown.click("#tab-hands-on").settle()
    shown.script("""const list = document.querySelector('[data-key=which-bug]'); list.value = 'mean-path-missing';
                    list.dispatchEvent(new Event('change'))""")
    shown.settle().click("#plant-bug").find(".changes")
    shown.find(".disagreement")
    shown.click("#plant-bug").wait("return document.querySelector('.disagreement') === null")


@pytest.mark.parametrize("served", [False, True], ids=["saved", "live"])
def test_a_row_of_zeros_flows_back_to_a_place_of_its_own_token(page, live, served):
    """Why the gradient of the first token's query is zero: all numbers of that row are equal, so only places tell them apart."""
    place = f"op={SCORES}&ref=grad {SCORES}:y&cell=0,1,0,0"
    shown = (live(place) if served else page("decoder", place)).settle()
    for slot, name in (("q", "split_heads"), ("k", "split_heads2")):
        link = shown.find(f"#number .onward .number-link[data-ref='grad decoder.blocks.0.attention.{name}:y']")
        batch, head, token, _ = shown.script("return arguments[0].dataset.cell", link).split(",")
        assert (batch, head, token) == ("0", "1", "0"), slot
    shown.go("op=decoder.blocks.0.attention.query&ref=grad decoder.blocks.0.attention.split_heads:y&cell=0,1,2,1")
    link = shown.find("#number .onward .number-link[data-ref='grad decoder.blocks.0.attention.query:y']")
    width = shown.script("return arguments[0].dataset.cell", link).split(",")[2]
    assert int(width) % 4 == 1 and shown.errors() == []


def test_a_step_of_nan_is_still_a_step(driver, tmp_path):
    model = nt.Linear(3, 2, rng=np.random.default_rng(0))
    path = nt.explore(model, np.full((2, 3), np.nan)).save(tmp_path / "nan.html")
    shown = Page(driver).open(path.as_uri(), "op=model&ref=model:y&cell=0,1").settle()
    assert "nan" in shown.text("#header .loss") and "nan" in shown.text("#number .number-head")
    assert "finite" in shown.text(".is-output .color-bar")
    assert shown.find("#timeline") and shown.errors() == []


def test_a_panel_shows_the_source_line_that_made_the_chosen_array(page):
    shown = page("decoder", f"op={SOFTMAX}&ref=grad {SCORES}:y&cell=0,1,2,1").settle()
    lines, first = inspect.getsourcelines(Softmax.backward)
    marked = shown.script("""return [...document.querySelectorAll('.source .line.marked')]
        .map((line) => [Number(line.dataset.line), line.innerText])""")
    assert len(marked) == 1
    number, text = marked[0]
    assert lines[number - first].strip() in text and "sum" in text


@pytest.mark.parametrize("width", [360, 1280, 1920])
def test_no_heatmap_is_wider_than_its_place(page, width):
    shown = page("decoder", f"op={SOFTMAX}&ref=grad {SCORES}:y&cell=0,1,2,1").resize(width, 800).settle()
    shown.script("document.body.dataset.area = 'panel'")
    shown.settle()
    wide = shown.script("""const panel = document.getElementById('panel');
        const { right } = panel.getBoundingClientRect();
        return [...document.querySelectorAll('.heatmap canvas')].filter((canvas) => canvas.getBoundingClientRect().right > right)
            .length + Number(panel.scrollWidth > panel.clientWidth);""")
    assert wide == 0


class ForgetsTheRelu(nt.Module):
    """A mistake that readers make in their own code: backward leaves out the ReLU."""

    def __init__(self):
        self.linear, self.relu = nt.Linear(4, 3, rng=0), nt.ReLU()

    def forward(self, x):
        return self.relu(self.linear(x))

    def backward(self, dy):
        return self.linear.backward(dy)


def test_a_wrong_gradient_is_never_called_verified(driver, tmp_path):
    explorer = nt.explore(ForgetsTheRelu(), np.random.default_rng(0).standard_normal((2, 4)))
    wrong = {value for value, error in explorer.document["proof"]["errors"].items() if error > 1e-5}
    assert wrong == {"input:x", "linear:y", "linear.weight", "linear.bias"}
    shown = Page(driver).open(explorer.save(tmp_path / "wrong.html").as_uri(), "op=linear&ref=grad linear:y&cell=0,1&t=1000").settle()
    said = shown.script("return [...document.querySelectorAll('.agreement')].map(({ innerText, className }) => [innerText, className])")
    assert len(said) == 4 and all("does not agree" in text and "is-wrong" in kind for text, kind in said)
    statement = shown.text(".proof-worst")
    assert "do not agree" in statement and "agree to within" not in statement
    right, alarm = shown.script("""return ['.agreement', '.proof-worst'].map((css) =>
        getComputedStyle(document.querySelector(css)).color)""")
    assert right == alarm != shown.script("return getComputedStyle(document.querySelector('.is-gradient')).color")
    shown.click(".proof-worst a").settle()
    assert shown.place()["ref"].removeprefix("grad ") in wrong and shown.errors() == []
    shown.go("op=relu&ref=grad relu:y&cell=0,1")
    assert "verified" in shown.text(".is-output .agreement") and "does not" not in shown.text(".is-output .agreement")


def test_a_part_of_a_gradient_and_the_whole_have_different_names(page):
    """The gradients of a value that two operations use: each sends back a part, and the sum is what the producer receives."""
    value, norm, plus = "decoder.blocks.0.add:y", "decoder.blocks.0.norm2", "decoder.blocks.0.add2"
    shown = page("decoder", f"op={norm}&ref=grad {value} via {norm} x&cell=0,2,1").settle()
    part, said = shown.text("#number h2"), shown.text("#number .number-head")
    assert part.startswith("dx[0, 2, 1]") and "Part of" in said and "norm2" in said
    shown.go(f"op={norm}&ref=grad {value}&cell=0,2,1")
    whole, said = shown.text("#number h2"), shown.text("#number .number-head")
    assert whole.startswith("dy[0, 2, 1]") and "sum of what 2 operations" in said and "Part of" not in said
    titles = shown.script("return [...document.querySelectorAll('.is-input .figure-title')].map((title) => title.textContent)")
    assert len(titles) == 3 and len([title for title in titles if title.startswith("dx")]) == 1
    shown.go(f"op={plus}&ref=grad {value} via {plus} a&cell=0,2,1")
    assert shown.text("#number h2").startswith("da[0, 2, 1]")
    assert shown.errors() == []


def test_rounding_noise_is_called_zero_and_drawn_pale(page):
    key = "decoder.blocks.0.attention.key"
    shown = page("decoder", f"op={key}&ref=grad {key}.bias&cell=0").settle()
    largest = np.abs(shown.arrays()[f"grad {key}.bias"]).max()
    assert 0 < largest < 1e-12
    assert "0 up to rounding" in shown.text("#number .number-head")
    row = f".array-row[data-value-id='{key}.bias'] .array-map.is-gradient"
    assert "0 up to rounding" in shown.text(row)
    darkest = """const canvas = document.querySelector(arguments[0] + ' .heatmap-cells');
        const { data } = canvas.getContext('2d').getImageData(0, canvas.height - 6, canvas.width, 1);
        let least = 255;
        for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) least = Math.min(least, data[i], data[i + 2]);
        return least;"""
    assert shown.script(darkest, row) > 230
    assert shown.script(darkest, row.replace("bias", "weight")) < 150
    shown.go(f"op={key}&ref=grad {key}.weight&cell=0,0")
    assert "rounding" not in shown.text("#number .number-head") and shown.errors() == []


@pytest.mark.parametrize("ref, cell", [
    (f"grad {SCORES}:y", "0,1,{},0"),
    ("grad decoder.blocks.0.attention.split_heads:y", "0,1,{},2"),
    ("grad decoder.blocks.0.attention.query:y", "0,{},3"),
])
def test_a_zero_says_that_its_query_sees_a_single_key(page, ref, cell):
    first = example("decoder").text.split()[0]
    shown = page("decoder", f"op=decoder.blocks.0.attention&ref={ref}&cell={cell.format(0)}").settle()
    assert chosen(shown)[2] == 0 and f"“{first}”" in shown.text(".single-key") and "single key" in shown.text(".single-key")
    shown.go(f"op=decoder.blocks.0.attention&ref={ref}&cell={cell.format(1)}")
    assert chosen(shown)[1][cell.split(",").index("{}")] == 1
    assert shown.text(".single-key") == "" and shown.errors() == []


def test_another_component_opens_at_its_head(page):
    shown = page("decoder", "op=decoder.blocks.0.norm1").settle()
    shown.script("document.getElementById('panel').scrollTop = 500")
    assert shown.script("return document.getElementById('panel').scrollTop") > 300
    shown.click("#map [data-op='embedding']").settle()
    assert shown.place()["op"] == "embedding" and shown.script("return document.getElementById('panel').scrollTop") == 0


def test_the_heatmap_of_a_single_number_has_a_whole_name(page):
    shown = page("decoder", "op=loss&ref=loss:y").settle()
    name = shown.script("return document.querySelector('.is-output .heatmap-rings').getAttribute('aria-label')")
    assert "single number" in name and "shape" not in name


def test_nothing_that_can_be_read_is_cut_off(page):
    shown = page("decoder", "op=loss&ref=loss:y").settle()
    wide = """return [...document.querySelectorAll(arguments[0])].filter((element) => element.clientWidth)
        .map((element) => element.scrollWidth - element.clientWidth)"""
    formulas, lines = shown.script(wide, "#number .formula"), shown.script(wide, ".source pre")
    assert formulas and max(formulas) <= 1 and lines and max(lines) == 0
    shown.go("view=predictions&area=panel").resize(360, 740).settle()
    shown.script("document.body.dataset.area = 'panel'")
    tables = shown.settle().script(wide, ".probabilities-table")
    assert tables and max(tables) == 0 and shown.errors() == []
