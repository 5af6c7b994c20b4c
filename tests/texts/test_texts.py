"""Messages become sentences of the chosen language, and English where the language lacks them."""

import re

import pytest

from numpy_transformer import texts
from numpy_transformer.texts import Message, render


@pytest.fixture
def english(tmp_path, monkeypatch):
    """A folder of English texts, and a function that chooses another language."""
    folder = tmp_path / "en"
    folder.mkdir()
    (folder / "bread.ini").write_text("""
[oven]
hot = The oven has {degrees:.1f} °C. {advice}
wait = Wait {minutes} minutes.
again = ${wait}
""", encoding="utf-8")
    monkeypatch.setattr(texts, "ENGLISH", folder)
    monkeypatch.setenv(texts.VARIABLE, str(folder))


def test_a_message_names_its_values_and_holds_other_messages(english):
    wait = Message("bread.oven.wait", minutes=3)
    assert render(Message("bread.oven.hot", degrees=220, advice=wait)) == "The oven has 220.0 °C. Wait 3 minutes."
    assert render([wait, "Thanks."]) == "Wait 3 minutes. Thanks."
    assert render(Message("bread.oven.again", minutes=4)) == "Wait 4 minutes."
    assert wait == Message("bread.oven.wait", minutes=3) != Message("bread.oven.wait", minutes=4)


def test_what_a_language_lacks_is_english(english, tmp_path, monkeypatch):
    other = tmp_path / "eo"
    other.mkdir()
    (other / "bread.ini").write_text("[oven]\nwait = Atendu {minutes} minutojn.\n", encoding="utf-8")
    monkeypatch.setenv(texts.VARIABLE, str(other))
    wait = Message("bread.oven.wait", minutes=3)
    assert render(Message("bread.oven.hot", degrees=1, advice=wait)) == "The oven has 1.0 °C. Atendu 3 minutojn."


def test_a_text_stands_for_another_one_in_the_chosen_language(english, tmp_path, monkeypatch):
    """Also if the language has only one of the two."""
    (tmp_path / "en" / "meals").mkdir()
    (tmp_path / "en" / "meals" / "a.ini").write_text("[1]\nslow = Eat slowly.\nnow = Eat.\n", encoding="utf-8")
    (tmp_path / "en" / "meals" / "b.ini").write_text("[2]\nslow = ${1:slow}\nnow = ${1:now}\n", encoding="utf-8")
    other = tmp_path / "eo" / "meals"
    other.mkdir(parents=True)
    (other / "a.ini").write_text("[1]\nnow = Manĝu.\n", encoding="utf-8")
    (other / "b.ini").write_text("[2]\nslow = ${1:slow} Dankon.\n", encoding="utf-8")
    monkeypatch.setenv(texts.VARIABLE, str(tmp_path / "eo"))
    assert texts.texts_of("meals")["2"] == {"slow": "Eat slowly. Dankon.", "now": "Manĝu."}
    (other / "b.ini").write_text("[2]\nslow = ${1:fast}\n", encoding="utf-8")
    texts._table.cache_clear()
    with pytest.raises(ValueError, match="meals: .*fast"):
        texts.texts_of("meals")


def test_lines_of_a_paragraph_are_joined_and_others_are_kept(english, tmp_path):
    (tmp_path / "en" / "soup.ini").write_text(
        "[pot]\ntext = One,\n    two.\n\n    Three,\n    four.\n    | Five,\n    six.\n    | Seven.\n", encoding="utf-8")
    assert texts.texts_of("soup")["pot"]["text"] == "One, two.\n\nThree, four.\n| Five, six.\n| Seven."


@pytest.mark.parametrize("name", ["xx", "../data", "__pycache__", "en/none"])
def test_an_unknown_language_is_refused(name, monkeypatch):
    monkeypatch.setenv(texts.VARIABLE, name)
    with pytest.raises(ValueError, match=f"NUMPY_TRANSFORMER_LANGUAGE={re.escape(name)}: there is no such language"):
        texts.texts_of("bread")


def test_a_file_that_is_no_ini_is_named(english, tmp_path, monkeypatch):
    (tmp_path / "en" / "bread.ini").write_text("no section\n", encoding="utf-8")
    with pytest.raises(ValueError, match="bread.ini cannot be read"):
        texts.read(tmp_path / "en", "bread")
