"""The language of the tests: other letters, the same placeholders, and nothing that looks English."""

import pytest
from helpers import pseudo_language

from numpy_transformer import texts
from numpy_transformer.texts import Message, render


@pytest.fixture
def pseudo(tmp_path, monkeypatch):
    english, folder = tmp_path / "en", tmp_path / "pseudo"
    (english / "food").mkdir(parents=True)
    (english / "food" / "bread.ini").write_text(
        "[oven]\nHot = The oven has {degrees:.1f} °C, says `cook(x)`.\nagain = ${Hot}\n"
        "long = Two\n  lines: {{so}} &amp; <b>so</b>.\n", encoding="utf-8")
    for module in (texts, pseudo_language):
        monkeypatch.setattr(module, "ENGLISH", english)
    pseudo_language.write(folder)
    monkeypatch.setenv(texts.VARIABLE, str(folder))
    return texts.texts_of("food/bread")["oven"]


def test_placeholders_code_and_markup_stay(pseudo):
    assert pseudo["Hot"] == "Ｔｈｅ ｏｖｅｎ ｈａｓ {degrees:.1f} °Ｃ, ｓａｙｓ `cook(x)`." == pseudo["again"]
    assert pseudo["long"].split() == ["Ｔｗｏ", "ｌｉｎｅｓ:", "{{so}}", "&amp;", "<b>ｓｏ</b>."]
    assert "220.0 °Ｃ" in render(Message("food/bread.oven.Hot", degrees=220))


def test_words_that_are_not_translated_are_found(pseudo):
    text = 'Ｔｈｅ oven of dx has 3 x, `so` says "the cook", dxy and softmax(p).'
    assert pseudo_language.plain_words(text, ["dx", "softmax(p)"]) == ["oven", "of", "has", "says", "dxy", "and"]
    assert not pseudo_language.plain_words(pseudo["Hot"].format(degrees=1))
