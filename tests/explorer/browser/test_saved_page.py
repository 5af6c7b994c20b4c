"""A saved page, opened from a file:// address: it works alone, sends nothing, and shows the numbers of the components."""

import numpy as np
import pytest
from helpers.browser import Keys

MOST_HOPS = 40                                  # from the loss to an embedding


def test_it_opens_offline_without_an_error_and_asks_for_nothing(page, kind):
    shown = page(kind).settle()
    assert shown.errors() == []
    assert [address for address in shown.requests() if not address.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert "loss" in shown.text("#header") and shown.find("#map [data-op=loss]")


def test_the_keys_walk_through_the_whole_step(page, kind):
    shown = page(kind)
    steps = shown.document()["steps"]
    count = {phase: sum(step["phase"] == phase for step in steps) for phase in ("forward", "backward")}
    assert count["forward"] >= 20 and count["backward"] >= 20 and steps[-1]["phase"] == "optimizer"
    shown.press(Keys.HOME)
    done = {"forward": 0, "backward": 0}
    for n, step in enumerate(steps):
        phase = step["phase"]
        wanted = phase
        if phase in done:
            done[phase] += 1
            wanted = f"{phase} {done[phase]} of {count[phase]}"
            current = shown.script("return document.querySelector('#map [aria-current=true]').dataset.op")
            assert step["op"] == current or step["op"].startswith(f"{current}.")            # it, or the folded group around it
            assert shown.find(f"#view-component [data-op='{step['op']}']")
        assert shown.text("#position") == wanted and len(shown.text("#sentence")) > 10
        if n + 1 < len(steps):
            shown.press(Keys.ARROW_RIGHT)
    shown.press(Keys.ARROW_LEFT)
    assert shown.text("#position") == f"backward {count['backward']} of {count['backward']}"
    shown.press(Keys.HOME)
    assert shown.text("#position") == f"forward 1 of {count['forward']}" and shown.errors() == []


def test_every_component_and_every_group_opens(page, kind):
    shown = page(kind)
    document = shown.document()
    for part in [*document["ops"], *document["groups"]]:
        shown.go(f"op={part['id']}")
        panel = shown.find(f"#view-component [data-op='{part['id']}']")
        assert part["label"] in panel.text and part.get("class", "") in panel.text
        for name in [*part["inputs"], *part["outputs"]]:
            assert shown.script("return [...arguments[0].querySelectorAll('.array-row, .array-name')].some((row) =>"
                                " row.textContent.includes(arguments[1]))", panel, name), (part["id"], name)
    assert shown.errors() == []


def test_shown_numbers_are_those_of_the_components(page, kind, numbers):
    """Those in the middle of the page and in the panel of one number, with what they were computed from."""
    shown, recorded = page(kind), numbers(kind)
    rng = np.random.default_rng(5)
    refs = [ref for ref in shown.document()["arrays"] if ref in recorded]
    assert len(refs) > 60
    seen = {}
    for ref in rng.permutation(refs)[:60]:
        cell = tuple(map(int, (rng.integers(size) for size in np.shape(recorded[ref]))))
        shown.go(f"ref={ref}" + (f"&cell={','.join(map(str, cell))}" if cell else ""))
        found = {(name, at): (number, text) for name, at, number, text in shown.shown()}
        assert (ref, cell) in found, (ref, cell)
        seen |= found
    compared = {place: shown for place, shown in seen.items() if place[0] in recorded}
    assert len(compared) >= 200
    for (ref, cell), (number, text) in compared.items():
        array = recorded[ref]
        right = float(np.asarray(array)[cell])
        tolerance = 2e-7 * max(np.abs(array[np.isfinite(array)]).max(initial=0), 1e-30) + 1e-7 * abs(right)
        assert number == right or abs(number - right) <= tolerance, (ref, cell, number, right)
        assert reads_as(text, right), (ref, cell, text, right)


def reads_as(text, number):
    """Whether a text such as −0.0425 or 2.2·10⁻⁷ is a number rounded to the digits that it has, at least two of them."""
    raised = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
    text = (text.split("=")[-1].split() or [""])[-1].replace("·10", "e").translate(raised).replace(",", "")
    if not np.isfinite(number):
        return text in ("-∞", "∞", "inf", "-inf")
    read = float(text)
    digits = text.partition("e")[0]
    exponent = int(text.partition("e")[2] or 0)
    unit = 10.0 ** (exponent - len(digits.partition(".")[2]))
    return abs(read - number) <= 0.5001 * unit + 1e-6 * abs(number) and abs(read - number) <= 0.05 * abs(number) + 1e-12


@pytest.mark.parametrize("by", ["clicks", "keys"])
def test_a_gradient_can_be_followed_from_the_loss_to_an_embedding(page, numbers, by):
    shown, recorded = page("decoder", "op=loss&ref=grad output:y&cell=0,1,2"), numbers("decoder")
    path = ["grad output:y"]
    while not path[-1].startswith("grad embedding.weight via embedding"):
        shown.settle()
        links = [link for link in shown.script(
            "return [...document.querySelectorAll('#number .onward a[data-ref]')].map((link) => link.dataset.ref)")]
        ahead = [ref for ref in links if ref.startswith("grad ") and ref not in path]
        ahead = [ref for ref in ahead if is_on_the_way(ref)] or ahead
        assert ahead and len(path) < MOST_HOPS, (path, links)
        path.append(ahead[0])
        follow(shown, f"#number .onward a[data-ref='{ahead[0]}']", by)
        ref, cell, number, _ = heading(shown)
        assert ref == ahead[0]
        if ref in recorded:
            np.testing.assert_allclose(number, recorded[ref][cell], rtol=1e-5, atol=1e-7)
    assert len(path) > 8 and shown.errors() == []
    for n in range(len(path) - 2, -1, -1):
        shown.driver.back()
        shown.wait("return document.querySelector('#number h2 [data-ref]')?.dataset.ref === arguments[0]", path[n])


def is_on_the_way(ref):
    """Whether a gradient is one of an activation, or of the embedding: other parameters are the end of the way."""
    name = ref.removeprefix("grad ").partition(" via ")[0]
    return name.endswith(":y") or ref.startswith("grad embedding.weight via embedding")


def heading(shown):
    ref, cell, number, text = shown.script("""
        const number = document.querySelector('#number h2 [data-ref]');
        return [number.dataset.ref, number.dataset.cell, Number(number.dataset.value), number.textContent];""")
    return ref, tuple(map(int, filter(None, cell.split(",")))), number, text


def follow(shown, css, by):
    before = heading(shown)
    if by == "clicks":
        shown.find(css).click()
    else:
        shown.script("document.querySelector('#number h2').focus()")
        for _ in range(80):
            shown.press(Keys.TAB)
            if shown.script("return document.activeElement.matches(arguments[0])", css):
                break
        else:
            raise AssertionError(f"{css} cannot be reached by Tab")
        shown.press(Keys.ENTER)
    shown.wait("const number = document.querySelector('#number h2 [data-ref]');"
               "return number && (number.dataset.ref !== arguments[0] || number.dataset.cell !== arguments[1])",
               before[0], ",".join(map(str, before[1])))


def test_nudged_gradients_agree_with_backward_to_1e_6(page, kind, numbers):
    """All that the page holds, against the gradients of the components; and what it says of one of them."""
    shown, recorded = page(kind), numbers(kind)
    document, arrays = shown.document(), shown.arrays()
    assert document["proof"]["worst"] < 1e-6
    proven = [ref.removeprefix("numeric ") for ref in document["arrays"] if ref.startswith("numeric ")]
    assert {value["id"] for value in document["values"] if value["kind"] == "parameter"} <= set(proven)
    for value in proven:
        if f"grad {value}" in recorded:
            right = recorded[f"grad {value}"]
            numeric = arrays[f"numeric {value}"]
            assert np.abs(numeric - right).max() <= 1e-6 * np.abs(right).max() + 1e-9, value
    value = next(value for value in proven if value.endswith("output.weight") or value.endswith("norm.gamma"))
    cell = np.unravel_index(np.abs(recorded[f"grad {value}"]).argmax(), recorded[f"grad {value}"].shape)
    shown.go(f"ref=grad {value}&cell={','.join(map(str, cell))}")
    for name in ("numeric", "gradient"):
        number = float(shown.find(f"#proof dd.is-{name}").get_attribute("data-value"))
        np.testing.assert_allclose(number, recorded[f"grad {value}"][cell], rtol=1e-6)


def test_the_page_shows_why_the_gradient_of_the_first_query_is_zero(page, numbers):
    """Under a causal mask, token 0 sees only itself: its weight is 1 whatever its score is. Four clicks lead there."""
    recorded, block = numbers("decoder"), "decoder.blocks.0.attention"
    assert np.all(recorded[f"grad {block}.query:y"][:, 0] == 0) and np.any(recorded[f"grad {block}.query:y"][:, 1] != 0)
    shown = page("decoder", f"op={block}.query&ref=grad {block}.query:y&cell=0,0,0").settle()
    for ref in (f"grad {block}.split_heads:y", f"grad {block}.attention.scores:y"):
        assert heading(shown)[2] == 0
        follow(shown, f"#number .spelled a[data-ref='{ref}']", "clicks")
        shown.settle()
    assert heading(shown)[:3] == (f"grad {block}.attention.scores:y", (0, 0, 0, 0), 0)
    weight = shown.find(f"#number .spelled a[data-ref='{block}.attention.softmax:y']")          # P (dP - sum P dP)
    assert float(weight.get_attribute("data-value")) == 1 and weight.get_attribute("data-cell") == "0,0,0,0"
    dp = {float(link.get_attribute("data-value")) for link in shown.driver.find_elements(
        "css selector", f"#number .spelled-main a[data-ref='grad {block}.attention.softmax:y'][data-cell='0,0,0,0']")}
    np.testing.assert_allclose(list(dp), [recorded[f"grad {block}.attention.softmax:y"][0, 0, 0, 0]], rtol=1e-6)
    shown.click("#tab-attention").settle()
    shown.script("document.querySelector('#view-attention [data-token=\"0\"][data-side=query]').dispatchEvent("
                 "new Event('focus'))")
    assert "weight is 1 whatever the score is" in shown.wait("""
        const text = document.querySelector('#view-attention').innerText;
        return text.includes('whatever') && text""")
