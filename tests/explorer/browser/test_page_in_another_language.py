"""The page in a pseudo-language with letters that are two columns wide: no word of the page stays English, and labels fit."""

import pytest
from helpers import pseudo_language
from helpers.browser import Page, example
from helpers.pseudo_language import plain_words

from numpy_transformer.explorer.languages import AGREEMENT_WORDS

TEXTS = """
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode()) {
        const parent = walk.currentNode.parentElement;
        if (!parent.closest("script, style, noscript, .mono, .line-code, .is-forward, .is-backward, code") && parent.checkVisibility()) {
            found.push(walk.currentNode.textContent);
        }
    }
    return found;"""                            # all visible texts but code and the formulas of docstrings
NAMES = {"ids", "targets", "dx", "dy", "Softmax", "ScaledDotProductAttention.forward", "ScaledDotProductAttention.backward", "Aa",
         "numpy_transformer/layers/softmax.py", *AGREEMENT_WORDS}
WIDTHS = """
    const { columns, shorten } = await import("explorer/text_width");
    return [["abc", "한국", "e\u0301", "中a", ""].map(columns), ["abcdef", "한국어를", "한국"].map((text) => shorten(text, 5))];"""


@pytest.fixture(scope="module")
def translated(tmp_path_factory):
    """The saved page of a tiny decoder in the pseudo-language."""
    from numpy_transformer.explorer.explorer import Explorer
    from numpy_transformer.explorer.session import Session

    folder = tmp_path_factory.mktemp("language") / "ko"
    pseudo_language.write(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMPY_TRANSFORMER_LANGUAGE", str(folder))
        session = Session(example.__wrapped__("decoder"))
        session.prove()
        yield Explorer(session).save(folder / "page.html")


@pytest.mark.parametrize("view", ["component", "attention", "predictions", "hands-on"])
def test_every_word_of_a_saved_page_is_translated(driver, translated, view):
    Page(driver).open(translated.as_uri(), f"op=decoder.blocks.0.attention.attention.softmax&view={view}")
    texts = driver.execute_script(TEXTS)
    assert len(texts) > 100 and driver.execute_script("return document.documentElement.lang") == "ko"
    assert not {text for text in texts if plain_words(text, NAMES) and not text.startswith(("y_i = ", "dx = "))}


def test_labels_of_the_map_stay_inside_their_boxes(driver, translated):
    Page(driver).open(translated.as_uri())
    widths = driver.execute_script("""
        return [...document.querySelectorAll("#map g.op")].map((op) => [op.querySelector("text").getBBox().width,
                                                                       op.querySelector("rect.shape").getBBox().width]);""")
    assert len(widths) > 3 and all(text < box for text, box in widths)


def test_wide_letters_count_twice_and_accents_nothing(live):
    assert live().run(WIDTHS) == [[3, 4, 1, 3, 0], ["abcd…", "한국…", "한국"]]
