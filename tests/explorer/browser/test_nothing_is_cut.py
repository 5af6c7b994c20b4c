"""From a phone to a large screen, nothing is cut off that a reader could not see, and no view scrolls sideways where there is room."""

import pytest

SOFTMAX = "decoder.blocks.0.attention.attention.softmax"
VIEWS = {"component": f"op={SOFTMAX}&ref=grad {SOFTMAX}:y&cell=0,0,2,1", "norm": "op=decoder.blocks.0.norm1&ref=decoder.blocks.0.norm1:y&cell=0,2,1&t=81",
         "group": "op=decoder.blocks.0&t=81", "attention": "view=attention&t=81", "predictions": "view=predictions&t=81",
         "ranking": "view=ranking&t=81", "what if": "view=hands-on&t=81", "story": "story=query.0", "two": "compare=head&two=1&view=hands-on"}

# An element whose content is wider or higher than itself, without a scroll bar or a title with the whole text; on wide screens
# also one that scrolls sideways, the map apart, and a field that is too narrow for what it holds.
CUT = """
    const found = [];
    const hides = (value) => value === 'hidden' || value === 'clip';
    const scrolls = (value) => value === 'auto' || value === 'scroll';
    for (const element of document.body.querySelectorAll('*')) {
        if (!element.checkVisibility({ visibilityProperty: true }) || element.closest('.skip, svg, .visually-hidden, select') || !element.clientWidth) continue;
        const style = getComputedStyle(element);
        const wide = element.scrollWidth - element.clientWidth > 1, high = element.scrollHeight - element.clientHeight > 1;
        const cut = (hides(style.overflowX) && wide) || (hides(style.overflowY) && high);
        if (cut && !element.closest('[title]')) found.push(`cut: ${element.outerHTML.slice(0, 140)}`);
        if (arguments[0] && wide && scrolls(style.overflowX) && !element.matches('.stage')) found.push(`sideways: ${element.outerHTML.slice(0, 140)}`);
        if (arguments[0] && element.matches('#text') && wide) found.push('the text does not fit its field');
        const box = element.getBoundingClientRect();
        const inView = [...function* () { for (let at = element; at; at = at.parentElement) yield at; }()].every((at) => !scrolls(getComputedStyle(at).overflowX));
        if (inView && box.right > document.documentElement.clientWidth + 1) found.push(`beyond the page: ${element.outerHTML.slice(0, 140)}`);
    }
    return found;"""


@pytest.mark.parametrize("width, height", [(390, 844), (768, 1024), (1024, 768), (1440, 900), (1920, 1080), (2560, 1440)])
def test_nothing_is_cut_without_a_way_to_see_it(live, width, height):
    for name, address in VIEWS.items():
        shown = live(address)
        shown.resize(width, height).settle()
        for area in ["map", "panel", "number"] if width < 900 else [None]:
            if area:
                shown.click(f"#areas [data-to={area}]").settle()
            assert shown.script(CUT, width >= 1440) == [], (name, area)


@pytest.mark.parametrize("width, height", [(390, 844), (1440, 900)])
def test_the_opening_and_the_list_of_stories_fit(page, width, height):
    shown = page("decoder", "op=embedding")
    shown.resize(width, height, motion=False)
    shown.script("document.dispatchEvent(new Event('show-opening'))")
    shown.find(".opening.is-still")
    assert shown.script(CUT, False) == []
    shown.click("#opening-skip")
    if width < 1350:                            # a larger page goes on with the stories by itself
        shown.script("document.getElementById('stories').click()")
    shown.find(".story-choice")
    assert shown.script(CUT, False) == []


@pytest.mark.parametrize("width", [390, 768, 1440, 1920, 2560])
def test_type_has_four_sizes_and_none_below_14_pixels(page, width):
    shown = page("decoder", VIEWS["component"])
    shown.resize(width, 900).settle()
    sizes = shown.script("""
        const sizes = new Set();
        for (const element of document.body.querySelectorAll('*')) {
            const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
            if (own && element.checkVisibility() && !element.closest('svg, math, sub, sup, .skip, code, .mono, .chip-name'))
                sizes.add(parseFloat(getComputedStyle(element).fontSize));
        }
        return [...sizes];""")
    assert len(sizes) <= 5 and min(sizes) >= 14, sorted(sizes)
