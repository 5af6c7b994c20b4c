"""The glossary of each language has the terms of the English one, in the same order."""

import re

import pytest
from helpers import ROOT

ROW = re.compile(r"^\| (.+) \| (.+) \|$", re.M)
LESSONS = ROOT / "lessons"


def rows(page):
    """The cells of the rows of a glossary's table, without its head."""
    return ROW.findall(page.read_text(encoding="utf-8"))[1:]


def test_terms_stand_in_order_with_their_meanings():
    terms = [term for term, _ in rows(LESSONS / "GLOSSARY.md")]
    assert len(terms) > 70 and terms == sorted(terms, key=str.lower) and len(set(terms)) == len(terms)


@pytest.mark.parametrize("page", sorted(LESSONS.glob("*/GLOSSARY.md")), ids=lambda page: page.parent.name)
def test_a_language_has_all_terms(page):
    assert [term for term, _ in rows(page)] == [term for term, _ in rows(LESSONS / "GLOSSARY.md")]
