"""The map and the time line: every op and every edge of the document is drawn, and a step shows what is done."""

import re

import pytest

END, HOME, LEFT, UP, RIGHT, DOWN, ENTER = "\ue010", "\ue011", "\ue012", "\ue013", "\ue014", "\ue015", "\ue007"
BOXES = """
    return [...document.querySelectorAll('svg.map .node')].map((node) => {
        const { x, y, width, height } = node.querySelector('.shape').getBoundingClientRect();
        const id = node.dataset.op ?? node.dataset.valueId;
        return { id, x, y, w: width, h: height, frame: node.classList.contains('frame'), classes: [...node.classList] };
    });"""
LINES = """
    return [...document.querySelectorAll('svg.map .line')].map((path) => {
        const matrix = path.getScreenCTM();
        const at = (length) => {
            const { x, y } = path.getPointAtLength(length).matrixTransform(matrix);
            return [x, y];
        };
        const whole = path.getTotalLength();
        const count = Math.max(1, Math.ceil(whole / 2));
        return [path.dataset.line, Array.from({ length: count + 1 }, (_, i) => at(whole * i / count))];
    });"""


def unfolded(page, kind):
    shown = page(kind)
    return shown.zoom("operations")


def is_mask(slot):
    return "mask" in slot


def touches(point, box, slack=2.5):
    x, y = point
    return box["x"] - slack <= x <= box["x"] + box["w"] + slack and box["y"] - slack <= y <= box["y"] + box["h"] + slack


def reached_from(box, lines):
    """The lines that hang together with those that touch a box, one after the other."""
    found = [points for points in lines if any(touches(point, box) for point in (points[0], points[-1]))]
    rest = [points for points in lines if points not in found]
    grown = True
    while grown:
        grown = False
        for points in list(rest):
            ends = (points[0], points[-1])
            if any(abs(x - u) + abs(y - v) < 4 for x, y in ends for other in found for u, v in other):
                found.append(points)
                rest.remove(points)
                grown = True
    return found


def test_each_op_and_each_group_has_one_box_in_the_frame_of_its_group(page, kind):
    shown = unfolded(page, kind)
    document = shown.document()
    boxes = shown.script(BOXES)
    items = {item["id"]: item for item in document["ops"] + document["groups"]}
    drawn = [box["id"] for box in boxes if box["id"] in items]
    assert sorted(drawn) == sorted(items)
    by_id = {box["id"]: box for box in boxes}
    for item in items.values():
        if item["parent"]:
            inner, outer = by_id[item["id"]], by_id[item["parent"]]
            assert outer["x"] <= inner["x"] and inner["x"] + inner["w"] <= outer["x"] + outer["w"], item["id"]
            assert outer["y"] <= inner["y"] and inner["y"] + inner["h"] <= outer["y"] + outer["h"], item["id"]


def test_no_two_boxes_lie_on_each_other(page, kind):
    leaves = [box for box in unfolded(page, kind).script(BOXES) if not box["frame"]]
    for i, a in enumerate(leaves):
        for b in leaves[:i]:
            beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
            above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
            assert beside or above, (a["id"], b["id"])


def test_each_edge_of_the_document_is_a_line_from_its_producer_to_its_consumer(page, kind):
    shown = unfolded(page, kind)
    boxes = {box["id"]: box for box in shown.script(BOXES)}
    lines = {}
    for value, points in shown.script(LINES):
        lines.setdefault(value, []).append(points)
    checked = 0
    for value in shown.document()["values"]:
        uses = [use for use in value["consumers"] if not is_mask(use["slot"])]
        start = boxes.get(value["producer"] or value["id"])
        if not uses or value["kind"] == "constant" or start is None:
            continue
        reached = reached_from(start, lines[value["id"]])
        for use in uses:
            assert any(touches(end, boxes[use["op"]]) for points in reached for end in (points[0], points[-1])), (value["id"], use)
            checked += 1
    assert checked > 15


def test_a_shared_weight_is_one_box_with_an_arrow_to_each_of_its_uses(page):
    shown = unfolded(page, "decoder")
    shared = [value for value in shown.document()["values"] if value["kind"] == "parameter" and len(value["consumers"]) > 1]
    assert [value["id"] for value in shared] == ["embedding.weight"]
    assert len(shown.script("return [...document.querySelectorAll('svg.map .node.parameter')]")) == 1


def test_the_residual_stream_is_one_straight_line(page):
    boxes = unfolded(page, "decoder").script(BOXES)
    middles = [box["x"] + box["w"] / 2 for box in boxes if "round" in box["classes"] or box["id"] in ("output", "embedding")]
    assert len(middles) == 6 and max(middles) - min(middles) < 1


def test_the_encoder_stands_left_of_the_decoder(page):
    boxes = {box["id"]: box for box in unfolded(page, "encoder-decoder").script(BOXES)}
    assert boxes["encoder"]["x"] + boxes["encoder"]["w"] < boxes["decoder"]["x"]


def test_the_folded_map_fits_the_window_and_marks_the_group_in_which_a_step_runs(page, kind):
    shown = page(kind).click("#follow").zoom("model")
    heights = shown.script("const stage = document.querySelector('#map .stage'); return [stage.scrollHeight, stage.clientHeight]")
    assert heights[0] <= heights[1] + 1
    steps = shown.document()["steps"]
    inside = next(i for i, step in enumerate(steps) if step["op"].count(".") >= 2)
    shown.script("document.activeElement.blur()")
    shown.press(HOME, *[RIGHT] * inside).settle()
    now = shown.script("return document.querySelector('svg.map .node.now').dataset.op")
    assert steps[inside]["op"].startswith(now + ".")


def test_a_step_tints_exactly_the_ops_that_have_run(page):
    shown = unfolded(page, "decoder")
    document = shown.document()
    steps = document["steps"]
    ops = {op["id"] for op in document["ops"]}
    for at in (0, 7, 40, 44, 60, len(steps) - 1):
        shown.go(f"t={at}")
        for phase in ("forward", "backward"):
            done = {step["op"] for step in steps[:at + 1] if step["phase"] == phase}
            tinted = {box["id"] for box in shown.script(BOXES) if f"done-{phase}" in box["classes"]} & ops
            assert tinted == done, (at, phase)


def test_backward_adds_the_gradients_of_all_consumers_where_a_value_was_copied(page):
    shown = unfolded(page, "decoder")
    document = shown.document()
    last = len(document["steps"]) - 1
    shown.go(f"t={last}")
    fans = dict(shown.script("return [...document.querySelectorAll('svg.map .fan.shown.complete')]"
                             ".map((fan) => [fan.dataset.fan, fan.querySelector('title').textContent])"))
    fed = {"decoder.blocks.0.norm1:y": 3, "decoder.blocks.1.norm1:y": 3, "decoder.blocks.0.add:y": 2, "decoder.blocks.1.add:y": 2,
           "decoder.blocks.0.add2:y": 2, "positions:y": 2, "embedding.weight": 2}
    assert {value: int(re.search(r"\d+", words)[0]) for value, words in fans.items()} == fed
    first = next(i for i, step in enumerate(document["steps"]) if step["phase"] == "backward")
    shown.go(f"t={first}")
    assert shown.script("return document.querySelectorAll('svg.map .fan.shown').length") == 0


def test_keys_walk_the_time_line_and_back_returns_to_the_place_before(page):
    shown = page("decoder", "op=decoder.norm").settle()
    forward = sum(step["phase"] == "forward" for step in shown.document()["steps"])
    shown.press(HOME).settle()
    assert shown.text("#position") == f"forward 1 of {forward}"
    shown.press(RIGHT, RIGHT, LEFT).settle()
    assert shown.text("#position") == f"forward 2 of {forward}"
    shown.press(END).settle()
    assert shown.text("#position") == "optimizer"
    shown.driver.back()
    shown.wait("return new URLSearchParams(location.hash.slice(1)).get('op') === 'decoder.norm'")
    assert "norm" in shown.text("#view-component h2")


def test_the_map_is_walked_folded_and_chosen_from_by_keyboard(page):
    shown = page("decoder", "op=embedding").zoom("blocks")
    shown.script("document.querySelector('svg.map .node[tabindex=\"0\"]').focus()")
    focus = "return document.activeElement.dataset.op ?? document.activeElement.dataset.valueId"
    shown.press(DOWN)
    assert shown.script(focus) == "positions"
    shown.press(DOWN, DOWN)
    assert shown.script(focus) == "decoder.blocks.0"
    shown.press("+")
    assert shown.script("return document.activeElement.getAttribute('aria-expanded')") == "true"
    shown.press("-")
    assert shown.script("return document.activeElement.getAttribute('aria-expanded')") == "false"
    shown.press(UP, UP, ENTER).settle()
    assert shown.place()["op"] == "positions"
    names = shown.script("return [...document.querySelectorAll('svg.map .node')].map((node) => node.getAttribute('aria-label'))")
    assert names and all(names)


def test_without_motion_nothing_moves_and_steps_remain(page):
    shown = page("decoder", "op=embedding")
    shown.resize(1280, 800, motion=False).settle()
    assert shown.script("return document.querySelector('#play').checkVisibility()") is False
    assert shown.script("return document.getAnimations().length") == 0
    shown.click("#next").settle()
    assert shown.text("#position").startswith("forward 2 of")


@pytest.mark.parametrize("width", [360, 1280, 1920])
def test_no_width_scrolls_sideways_and_each_area_can_be_reached(page, width):
    shown = page("decoder").resize(width, 800).settle()
    assert shown.script("return document.documentElement.scrollWidth") == width
    if width < 900:
        for area in ("map", "panel", "number"):
            shown.click(f"#areas [data-to={area}]")
            visible = shown.script("return [...document.querySelectorAll('main > [data-area]')].filter((e) => e.checkVisibility())"
                                   ".map((e) => e.dataset.area)")
            assert visible == [area]


def test_the_page_says_that_the_server_has_ended_and_goes_on(live):
    shown = live("op=embedding")
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    shown.command("Network.enable")
    shown.command("Network.emulateNetworkConditions", offline=True, **offline)
    try:
        shown.click("#header form button[type=submit]")
        assert shown.wait("return document.querySelector('#status').innerText").startswith("The server has ended.")
        shown.click("#next").settle()
        assert shown.text("#position").startswith("forward 2 of")
    finally:
        shown.command("Network.emulateNetworkConditions", offline=False, **offline)


def test_home_and_end_reach_the_first_and_the_last_box_of_the_map(page):
    shown = page("decoder", "op=decoder").settle()
    before = shown.script("return document.querySelector('#timeline .track').getAttribute('aria-valuenow')")
    shown.script("document.querySelector('#map .node[tabindex=\"0\"]').focus()")
    focused = "return document.activeElement.dataset.op ?? document.activeElement.dataset.valueId"
    assert shown.press(END).script(focused) == "loss"
    assert shown.press(HOME).script(focused) in ("input:ids", "embedding.weight")
    assert shown.script("return document.querySelector('#timeline .track').getAttribute('aria-valuenow')") == before


def test_on_a_phone_a_tapped_box_leads_to_its_component(page):
    shown = page("decoder", "op=embedding").resize(360, 740).settle()
    shown.script("document.querySelector('#map .node[data-op=loss]').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    shown.wait("return document.body.dataset.area === 'panel'")
    assert shown.settle().place()["op"] == "loss"
