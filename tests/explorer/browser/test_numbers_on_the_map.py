"""What the map shows of the numbers: small heatmaps, lines as wide as gradients, the path of a number, zoom; and only what exists."""

import numpy as np
import pytest

SOFTMAX = "decoder.blocks.0.attention.attention.softmax"
PIXELS = """
    const image = document.querySelector(`[data-thumbnail="${given[0]}"] image`);
    const picture = new Image();
    picture.src = image.getAttribute('href');
    await picture.decode();
    const canvas = document.createElement('canvas');
    canvas.width = picture.width;
    canvas.height = picture.height;
    const context = canvas.getContext('2d');
    context.drawImage(picture, 0, 0);
    return [picture.width, picture.height, [...context.getImageData(0, 0, picture.width, picture.height).data]];"""
THERE = "return [...document.querySelectorAll('.thumbnail.is-there')].map((place) => place.dataset.thumbnail)"


def color(kind, number, limit):
    """The color of a number on the page's diverging scale, from the stops that the figures of the README have, too."""
    ends = {"value": (((158, 197, 232), (33, 102, 172)), ((247, 190, 140), (190, 85, 10))),
            "gradient": (((155, 208, 163), (20, 110, 52)), ((201, 171, 216), (112, 40, 130)))}[kind]
    middle, end = ends[int(number < 0)]
    share = min(1.0, abs(number) / limit)
    low, high, along = ((255, 255, 255), middle, 2 * share) if share < 0.5 else (middle, end, 2 * share - 1)
    return [a + (b - a) * along for a, b in zip(low, high)]


@pytest.mark.parametrize("ref, kind", [("embedding:y", "value"), ("grad decoder.norm:y", "gradient")])
def test_a_small_heatmap_has_a_pixel_in_the_color_of_each_entry(page, numbers, ref, kind):
    shown = page("decoder", "op=embedding").zoom("operations").finish()
    array = numbers("decoder")[ref][0]
    width, height, data = shown.run(PIXELS, ref)
    assert (height, width) == array.shape
    pixels = np.reshape(data, (height, width, 4))
    wanted = [[color(kind, x, np.abs(array).max()) for x in row] for row in array]
    np.testing.assert_allclose(pixels[..., :3], wanted, atol=1.01)


def test_heads_stand_side_by_side_with_a_column_between_them(page, numbers):
    shown = page("decoder", "op=embedding").zoom("operations").finish()
    weights = numbers("decoder")[f"{SOFTMAX}:y"][0]
    width, height, data = shown.run(PIXELS, f"{SOFTMAX}:y")
    heads, rows, columns = weights.shape
    assert (height, width) == (rows, heads * (columns + 1) - 1)
    second = np.reshape(data, (height, width, 4))[:, columns + 1:, :3]
    np.testing.assert_allclose(second, [[color("value", x, 1.0) for x in row] for row in weights[1]], atol=1.01)


def test_what_the_step_has_not_computed_is_on_no_box_and_in_no_panel(page):
    shown = page("decoder", "op=embedding&t=0").zoom("operations")
    document = shown.document()
    steps = document["steps"]
    made = {value["id"]: value["producer"] for value in document["values"]}
    for at in (0, 9, 44, 70, len(steps) - 1):
        shown.go(f"t={at}").settle()
        forward = {step["op"] for step in steps[:at + 1] if step["phase"] == "forward"}
        backward = {step["op"] for step in steps[:at + 1] if step["phase"] == "backward"}
        for ref in shown.script(THERE):
            value = next(each for each in document["values"] if each["id"] == ref.removeprefix("grad "))
            if ref.startswith("grad "):
                senders = [use["op"] for use in value["consumers"] if f"grad {value['id']} via {use['op']} {use['slot']}"
                           in document["arrays"] or len(value["consumers"]) == 1]
                assert set(senders) <= backward, (at, ref)
            else:
                assert made[ref] is None or made[ref] in forward, (at, ref)
        if not backward:
            assert not {ref for ref, *_ in shown.shown() if ref.startswith("grad ")}, at


def test_a_panel_says_when_a_gradient_will_be_there_and_leads_to_that_step(page):
    shown = page("decoder", f"op={SOFTMAX}&t=10").settle()
    later = f"[data-later='grad {SOFTMAX}:y']"
    assert "Not computed yet" in shown.text(later)
    shown.click(f"{later} button").settle()
    at = shown.document()["steps"].index({"phase": "backward", "op": "decoder.blocks.0.attention.attention.weighted_sum"})
    shown.wait("return new URLSearchParams(location.hash.slice(1)).get('t') === String(arguments[0])", at)
    assert shown.script("return document.querySelectorAll(arguments[0]).length", later) == 0


@pytest.mark.parametrize("view", ["attention", "predictions", "ranking"])
def test_a_view_without_anything_to_show_leads_to_when_there_is(page, view):
    shown = page("decoder", f"op=embedding&t=0&view={view}").settle()
    assert "Not computed yet" in shown.text(f"#view-{view}") and not shown.script("return document.querySelectorAll('[data-probability], .small-matrix').length")
    shown.click(f"#view-{view} .not-yet button").settle()
    assert "Not computed yet" not in shown.text(f"#view-{view}")


def test_lines_are_as_wide_as_the_logarithm_of_their_gradients_norm(page, numbers):
    shown = page("decoder", "op=embedding").zoom("operations").finish()
    right = numbers("decoder")
    widths = dict(shown.script("return [...document.querySelectorAll('svg.map .line')].map((line) => [line.dataset.line, Number(getComputedStyle(line).getPropertyValue('--width'))])"))
    single = [value["id"] for value in shown.document()["values"] if len(value["consumers"]) == 1 and f"grad {value['id']}" in right and value["id"] in widths]
    norms = {name: np.linalg.norm(right[f"grad {name}"]) for name in single}
    assert len(norms) > 8
    ordered = sorted(norms, key=norms.get)
    for less, more in zip(ordered, ordered[1:]):
        assert widths[less] <= widths[more] + 1e-6, (less, more)
    a, b = ordered[0], ordered[-1]
    assert widths[b] - widths[a] == pytest.approx(5 / 3 * np.log10(norms[b] / norms[a]), rel=1e-3)


def test_the_path_of_a_number_follows_the_largest_term_to_the_loss(page, numbers):
    right = numbers("decoder")
    ref, index = "decoder.norm:y", (0, 2, 1)
    shown = page("decoder", f"op=output&ref=grad {ref}&cell=0,2,1")
    rows = shown.wait("""return document.querySelector('.path-list')
        && [...document.querySelectorAll('.path-list tbody [data-ref]')].map((link) => [link.dataset.ref, link.dataset.cell, Number(link.dataset.value)])""")
    logits = right["grad output:y"][0, 2] * right["embedding.weight"][:, index[2]]
    best = int(np.abs(logits).argmax())
    assert [row[:2] for row in rows] == [[ref, "0,2,1"], [f"grad {ref}", "0,2,1"], ["output:y", f"0,2,{best}"],
                                         ["grad output:y", f"0,2,{best}"], ["loss:y", ""], ["grad loss:y", ""]]
    assert rows[1][2] == pytest.approx(right[f"grad {ref}"][index], rel=1e-6) and rows[5][2] == 1
    drawn = shown.zoom("operations").script("return document.querySelector('svg.map .path')?.getTotalLength()")
    assert drawn > 20
    shown.click(".path-list summary").click("#watch-path").wait("return document.querySelector('svg.map .traveler.backward')")


def test_the_path_from_an_embedding_leads_through_the_whole_model(page):
    shown = page("decoder", "op=embedding&ref=grad embedding:y&cell=0,1,0")
    cells = shown.wait("return document.querySelector('.path-list') && [...document.querySelectorAll('.path-list tbody [data-ref]')].map((link) => link.dataset.ref)")
    assert cells[0] == "embedding:y" and cells[-1] == "grad loss:y" and "grad decoder.blocks.1.add2:y" in cells
    assert shown.errors() == []


def test_zoom_leads_from_the_model_to_its_numbers(page, numbers):
    shown = page("decoder", f"op={SOFTMAX}&ref=grad {SOFTMAX}:y&cell=0,0,2,1").settle()
    boxes = "return [...document.querySelectorAll('svg.map .node:not(.frame)')].map((node) => node.dataset.op).filter(Boolean)"
    assert shown.zoom("model").script(boxes) == ["embedding", "positions", "decoder", "output", "loss"]
    assert {"decoder.blocks.0", "decoder.blocks.1"} <= set(shown.zoom("blocks").script(boxes))
    assert {op["id"] for op in shown.document()["ops"]} == set(shown.zoom("operations").script(boxes))
    cells = shown.zoom("numbers").wait("""
        const cells = [...document.querySelectorAll('.map-cell')].map((cell) => [cell.dataset.ref, cell.dataset.cell, Number(cell.dataset.value)]);
        return cells.length >= 144 && cells;""")
    for ref, cell, number in cells:
        assert number == pytest.approx(numbers("decoder")[ref][tuple(map(int, cell.split(",")))], rel=1e-6, abs=1e-12)
    shown.script("document.querySelector('.map-cell[data-cell=\"0,1,3,2\"]').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    assert shown.settle().place()["cell"] == "0,1,3,2"
    shown.script("""document.querySelector('#map .stage').dispatchEvent(new WheelEvent('wheel', { deltaY: 80, ctrlKey: true, cancelable: true }))""")
    assert shown.text(".zoom-name") == "operations"


def test_one_scale_colors_all_values_by_the_largest_one(page, numbers):
    shown = page("decoder", "op=embedding").zoom("operations").finish()
    shown.click("#common").settle()
    right = numbers("decoder")
    document = shown.document()
    largest = max(max(abs(array["min"]), abs(array["max"])) for ref, array in document["arrays"].items()
                  if "min" in array and array["dtype"] == "float32" and array["shape"] and not ref.startswith(("grad ", "numeric ")))
    assert largest > 1.5 * np.abs(right["embedding:y"]).max()
    shown.wait("""return document.querySelector('[data-thumbnail="embedding:y"]').dataset.look.endsWith('true')""")
    width, height, data = shown.run(PIXELS, "embedding:y")
    pixels = np.reshape(data, (height, width, 4))[..., :3]
    np.testing.assert_allclose(pixels, [[color("value", x, largest) for x in row] for row in right["embedding:y"][0]], atol=1.01)
    assert "common=1" in shown.wait("return location.hash.includes('common') && location.hash")


def test_the_ranking_answers_which_weight_has_the_largest_gradient(page, numbers):
    shown = page("decoder", "op=embedding").finish()
    shown.click("#tab-ranking").settle()
    right = numbers("decoder")
    weights = [value["id"] for value in shown.document()["values"] if value["kind"] == "parameter"]
    norms = {name: np.linalg.norm(right[f"grad {name}"]) for name in weights}
    rows = shown.script("return [...document.querySelectorAll('.ranking .bars-row')].map((row) => [row.dataset.ref, Number(row.querySelector('[data-value]').dataset.value)])")
    assert [name for name, _ in rows] == [f"grad {name}" for name in sorted(norms, key=norms.get, reverse=True)][:len(rows)]
    np.testing.assert_allclose([number for _, number in rows], sorted(norms.values(), reverse=True)[:len(rows)], rtol=1e-5)
    shown.click(".ranking .bars-row").settle()
    best = max(norms, key=norms.get)
    entry = np.unravel_index(np.abs(right[f"grad {best}"]).argmax(), right[f"grad {best}"].shape)
    assert shown.place()["ref"] == f"grad {best}" and shown.place()["cell"] == ",".join(map(str, entry))


def test_the_legend_shows_the_two_scales(page):
    shown = page("decoder", "op=embedding")
    for place, kind in enumerate(("value", "gradient")):
        fills = shown.script("return [...[...document.querySelectorAll('.marks-legend svg')][arguments[0]].querySelectorAll('rect')]"
                             ".map((box) => box.getAttribute('fill').match(/\\d+/g).map(Number))", place)
        np.testing.assert_allclose(fills, [color(kind, x, 1.0) for x in (-1, -0.5, 0, 0.5, 1)], atol=1.01)
