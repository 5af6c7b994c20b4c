"""Sizes, themes, names for screen readers, and contrast of everything that can be read."""

import pytest
from helpers.browser import Keys

VIEWS = ["op=decoder.blocks.0.attention.attention.softmax&ref=grad decoder.blocks.0.attention.attention.softmax:y&cell=0,0,2,1",
         "op=decoder.blocks.0&view=attention&t=81", "op=output&view=predictions&t=81", "view=ranking&t=81", "op=embedding&view=hands-on",
         "story=query.0", "compare=head&two=1&view=hands-on"]

# What is cut off or stands beyond the page: the page itself must not scroll sideways, and no text may stick out of the window.
OVERFLOW = """
    const width = document.documentElement.clientWidth;
    const sticks = [...document.body.querySelectorAll('*')].filter((element) => {
        if (!element.checkVisibility() || element.closest('svg')) return false;
        const box = element.getBoundingClientRect();
        if (box.width === 0 || box.right <= width + 1 && box.left >= -1) return false;
        for (let parent = element.parentElement; parent; parent = parent.parentElement) {
            const style = getComputedStyle(parent);
            if (style.overflowX !== 'visible') return false;            // scrolls or is clipped on purpose
        }
        return !element.closest('.skip');
    });
    return { page: document.documentElement.scrollWidth - width,
             sticks: sticks.slice(0, 5).map((element) => element.outerHTML.slice(0, 160)) };"""

NAMELESS = """
    const text = (element) => element ? element.textContent.trim() : '';
    const named = (element) => element.getAttribute('aria-label')?.trim() || element.title?.trim() || text(element)
        || (element.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => text(document.getElementById(id))).join('')
        || [...(element.labels ?? [])].map(text).join('');
    return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
        .filter((element) => element.checkVisibility() && !named(element)).map((element) => element.outerHTML.slice(0, 160));"""

# Contrast of each text with what lies behind it (WCAG), for texts on plain backgrounds; large texts may have 3.
CONTRAST = """
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (color) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (front, back) => front.slice(0, 3).map((x, i) => x * front[3] + back[i] * (1 - front[3]));
    const behind = (element) => {
        const layers = [];
        for (let at = element; at; at = at.parentElement) {
            const color = rgba(getComputedStyle(at).backgroundColor);
            layers.push(color);
            if (color[3] === 1) break;
        }
        const page = getComputedStyle(document.documentElement).colorScheme.includes('dark') ? [18, 18, 18] : [255, 255, 255];
        return layers.reverse().reduce((back, front) => over(front, back), page);
    };
    const light = (color) => color.map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
        .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
    const found = [];
    for (const element of document.body.querySelectorAll('*')) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || element.closest('svg')) continue;
        if (element.matches(':disabled, option, script, style, noscript') || element.closest('.skip, [aria-hidden=true]')) continue;
        const style = getComputedStyle(element);
        if (style.backgroundImage !== 'none') continue;
        const back = behind(element), front = over(rgba(style.color), back);
        const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 140)}`);
    }
    return found;"""


@pytest.mark.parametrize("width, height", [(360, 740), (1280, 800), (1920, 1080)])
@pytest.mark.parametrize("large", [False, True], ids=["", "large type"])
def test_nothing_sticks_out_of_the_window(page, width, height, large):
    shown = page("decoder")
    shown.resize(width, height)
    for view in VIEWS:
        shown.go(view + ("&large=1" if large else "&large=0"))
        for area in ["map", "panel", "number"] if width < 900 else [None]:
            if area:
                shown.click(f"#areas [data-to={area}]").settle()
            found = shown.script(OVERFLOW)
            assert found["page"] <= 0 and not found["sticks"], (view, area, found)
    if large:
        assert shown.script("return parseFloat(getComputedStyle(document.querySelector('#panel')).fontSize)") >= (24 if width > 360 else 16)


def test_whatever_takes_the_focus_has_a_name(page, kind):
    shown = page(kind)
    shown.zoom("operations")
    for view in ["op=loss&ref=loss:y", "view=attention&t=1000", "view=predictions&t=1000", "view=ranking&t=1000", "view=hands-on", "story=step.0"]:
        shown.go(view)
        assert shown.script(NAMELESS) == [], view


def test_the_controls_of_the_live_page_have_names(live):
    page = live("view=hands-on").settle()
    assert page.script(NAMELESS) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_have_enough_contrast(page, live, dark):
    shown = page("decoder")
    shown.resize(1280, 800, dark=dark)
    for view in VIEWS:
        shown.go(view)
        assert shown.script(CONTRAST) == [], view
    shown = live("view=hands-on")
    shown.resize(1280, 800, dark=dark).settle()
    assert shown.script(CONTRAST) == []


def test_reduced_motion_has_no_animation(page):
    shown = page("decoder").resize(1280, 800, motion=False)
    shown.press(Keys.HOME, *[Keys.ARROW_RIGHT] * 5)
    assert shown.script("return document.getAnimations().filter((motion) => motion.playState === 'running').length") == 0


def test_the_tab_key_reaches_every_region_and_leaves_the_page(page):
    """Forward through the whole page: no region is skipped, and no trap holds the focus."""
    shown = page("decoder", VIEWS[0]).settle()
    shown.script("document.activeElement?.blur()")
    regions = []
    for _ in range(400):
        shown.press(Keys.TAB)
        region = shown.script("""
            const region = document.activeElement.closest('nav.skip, #header, #map, #panel, #number-area, #timeline');
            return region ? region.id || 'skip' : document.activeElement.tagName;""")
        if not regions or regions[-1] != region:
            regions.append(region)
        if region == "BODY" or regions.count("skip") > 1:
            break
    assert [name for name in regions if name in ("header", "map", "panel", "number-area", "timeline")][:5] == [
        "header", "map", "panel", "number-area", "timeline"], regions
    assert regions[-1] == "BODY" or regions.count("skip") > 1, regions


def test_on_paper_stand_the_map_the_panel_and_the_number_without_what_can_only_be_clicked(page):
    shown = page("decoder", VIEWS[0]).settle()
    shown.command("Emulation.setEmulatedMedia", media="print")
    try:
        seen = "return arguments[0].map((css) => [...document.querySelectorAll(css)].some((element) => element.checkVisibility()))"
        assert shown.script(seen, ["svg.map", "#view-component .array-map", "#number .origin", "#header .loss"]) == [True] * 4
        assert shown.script(seen, ["#timeline", "#tabs", "#map .tools", ".export", "#header .switches"]) == [False] * 5
        assert shown.script("return document.querySelector('#map .stage').scrollHeight <= document.querySelector('#map .stage').clientHeight + 1")
    finally:
        shown.command("Emulation.setEmulatedMedia", media="")
