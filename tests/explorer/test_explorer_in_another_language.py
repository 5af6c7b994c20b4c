"""The explorer in a pseudo-language: every sentence of the document and of the page is translated, and nothing else changes."""

import ast
import copy
import json
import re

import pytest
from helpers import ROOT, pseudo_language
from helpers.pseudo_language import plain_words, translated as wide

from numpy_transformer import zoo
from numpy_transformer.explorer import page
from numpy_transformer.explorer.lessons import PLACES
from numpy_transformer.explorer.session import Session
from numpy_transformer.explorer.tiny_models import tiny
from numpy_transformer.explorer.variables import variables_document
from numpy_transformer.models.current_models import DECODERS

EXPLORER = ROOT / "numpy_transformer" / "explorer"
# names in the code of arrays and parameters, which no language translates
NAMES = {"beta", "bias", "gamma", "ids", "source", "target", "targets", "weight", "token_mask", "segments",
         *(word for name in DECODERS for word in re.findall("[a-z]+", name))}
# names and pieces of code in the page's texts
DEVELOPERS = ("page.py", "measure.py", "language.py", "languages.py")      # what speaks to those who write modules and formulas
SENTENCE = re.compile(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b")


@pytest.fixture
def documents(tmp_path, monkeypatch):
    """A function (kind of tiny model) -> (English document, document in the pseudo-language)."""
    pseudo_language.write(tmp_path)
    (tmp_path / "zoo.ini").write_text("\n".join(
        f"[{bug.name}]\ntitle = {wide(bug.title)}\nsymptom = {wide(bug.symptom)}" for bug in zoo.BUGS.values()), encoding="utf-8")

    def of(kind):
        found = []
        for language in ("en", str(tmp_path)):
            monkeypatch.setenv("NUMPY_TRANSFORMER_LANGUAGE", language)
            found.append(Session(tiny(kind, seed=3, train=False)).document())
        return found
    return of


def texts_taken_out(document):
    """(the texts that Python has written into a document, the document without them)."""
    rest, texts = copy.deepcopy(document), []

    def take(entry, key):
        texts.append(entry[key])
        entry[key] = ""

    take(rest, "title")
    for value in rest["values"]:
        take(value, "title")
    for part in [*rest["ops"], *rest["groups"]]:
        take(part, "label")
    for entry in rest["attention"]:
        take(entry, "title")
    if rest["predictions"]:
        take(rest["tokens"], "note")
        for entry in rest["predictions"]["lens"]:
            take(entry, "title")
    for entry in (entry for parts in rest["hands_on"]["can"].values() for entry in parts):
        take(entry, "title")
    for entry in rest["comparisons"]:
        take(entry, "title")
    for entry in rest["hands_on"]["bugs"]:
        take(entry, "title")
        take(entry, "symptom")
    return texts, rest


@pytest.mark.parametrize("kind", ["classifier", *(pytest.param(kind, marks=pytest.mark.slow) for kind in (
    "decoder", "encoder", "encoder-decoder"))])
def test_texts_of_the_document_are_translated_and_its_structure_stays(documents, kind):
    english, translated = map(texts_taken_out, documents(kind))
    assert len(english[0]) == len(translated[0]) > 60 and plain_words(" ".join(english[0]), NAMES)
    assert not plain_words(" | ".join(translated[0]), NAMES)
    assert json.loads(page.to_json(translated[1])) == json.loads(page.to_json(english[1]))


def test_the_page_has_its_texts_in_the_language(tmp_path, monkeypatch):
    pseudo_language.write(tmp_path / "ko")
    monkeypatch.setenv("NUMPY_TRANSFORMER_LANGUAGE", str(tmp_path / "ko"))
    document = variables_document({"x": __import__("numpy").ones(3)})
    for html in (page.render(document), page.live_page(document["title"])[0]):
        texts = json.loads(re.search(r'<script type="application/json" id="texts">(.*?)</script>', html, re.S)[1])
        assert texts["language"] == "ko" and '<html lang="ko">' in html and texts["texts"].keys() == page.page_texts().keys()
        assert not plain_words(" | ".join(re.sub(r"\{\w+\}", "", text) for text in texts["texts"].values()))
        assert not plain_words(re.sub(r"<script.*?</script>|<style>.*?</style>|<!--.*?-->|<[^>]*>", " ", html, flags=re.S))


def test_a_language_with_one_form_for_all_counts_needs_one(tmp_path, monkeypatch):
    (tmp_path / "explorer").mkdir()
    (tmp_path / "explorer" / "page.ini").write_text("[header]\nedits.other = 편집 {n}개\n", encoding="utf-8")
    monkeypatch.setenv("NUMPY_TRANSFORMER_LANGUAGE", str(tmp_path))
    texts = page.page_texts()
    assert texts["header.edits.one"] == texts["header.edits.other"] == "편집 {n}개" and texts["header.undo"] == "undo"


def test_a_folder_that_is_no_name_of_a_language_leaves_the_browser_in_english(tmp_path, monkeypatch):
    (tmp_path / "my_own language").mkdir()
    monkeypatch.setenv("NUMPY_TRANSFORMER_LANGUAGE", str(tmp_path / "my_own language"))
    assert page.language() == "en"


def test_what_to_look_at_for_a_lesson_is_translated(tmp_path, monkeypatch):
    pseudo_language.write(tmp_path)
    monkeypatch.setenv("NUMPY_TRANSFORMER_LANGUAGE", str(tmp_path))
    assert not [place.lesson for place in PLACES.values() if plain_words(place.sentence, {"dog"})]


@pytest.mark.parametrize("path", [path for path in EXPLORER.rglob("*.py") if path.name not in DEVELOPERS],
                         ids=lambda path: path.relative_to(EXPLORER).as_posix())
def test_no_sentence_stands_in_python(path):
    """languages.py and the texts of examples are data."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and isinstance(node.body[0], ast.Expr)}
    sentences = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
                 and id(node) not in docstrings and SENTENCE.search(node.value)}
    assert not {text for text in sentences if not EXAMPLES.search(text)}


EXAMPLES = re.compile(r"[Tt]he (cats|black cow|film|cat|\[MASK\]) |^ ?\w+ ==? |smiled at|sum\(|\bfor \w+ in\b| if .* else |^\s+\w+\[")


@pytest.mark.parametrize("path", [*EXPLORER.glob("page/*.js"), EXPLORER / "page" / "index.html"], ids=lambda path: path.name)
def test_no_sentence_stands_in_the_page(path):
    text = re.sub(r"/\*.*?\*/|<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r"//.*|class: .*", "", text)
    literals = re.findall(r"\"[^\"\n]*\"|`[^`\n]*`|'[^'\n]*'", text)
    if path.suffix == ".html":
        literals = re.findall(r">[^<>]*<", text)
    literals = [re.sub(r"\$\{.*?\}", "", literal) for literal in literals]
    found = [literal for literal in literals if re.search(r"[\"'`> ][A-Za-z]{2,} [a-z]{2,} [a-z]{2,}[ .\"'`<]", literal)]
    assert not found
