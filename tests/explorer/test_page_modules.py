"""The page's modules fit together: what one imports, another exports, and every text that they ask for is there."""

import re

import pytest

from numpy_transformer.explorer import page

MODULES = page.read_modules() | page.read_modules(page.FILM)
IMPORT = re.compile(r'^import\s+\{([^}]*)\}\s+from\s+"explorer/(\w+)";', re.M)
EXPORT = re.compile(r"^export\s+(?:async\s+)?(?:function\*?|const|let|class)\s+(\w+)", re.M)
EXPORT_LIST = re.compile(r"^export\s+\{([^}]*)\};", re.M)
TEXT = re.compile(r"""\bt\(\s*["']([\w .-]+)["']""")


def names_in(list_of_names):
    """Returns the names before "as" in the braces of an import or export."""
    return {name.split(" as ")[0].strip() for name in list_of_names.split(",") if name.strip()}


def exports_of(source):
    listed = (name.split(" as ")[-1].strip() for found in EXPORT_LIST.findall(source) for name in found.split(","))
    return set(EXPORT.findall(source)) | set(listed)


@pytest.mark.parametrize("name", MODULES)
def test_every_imported_name_is_exported(name):
    for names, origin in IMPORT.findall(MODULES[name]):
        missing = names_in(names) - exports_of(MODULES[origin])
        assert not missing, f"{name}.js imports {sorted(missing)}, which {origin}.js does not export"


@pytest.mark.parametrize("which, least", [(page.STEP, 100), (page.FILM, 30)], ids=["step", "film"])
def test_every_text_that_a_module_asks_for_is_there(which, least):
    """Of format.js, the film needs only what asks for no text."""
    keys = {re.sub(r"\.(one|other)$", "", key) for key in page.page_texts(which)}
    shared = {"strings"} if which is page.STEP else {"strings", "format"}
    asked = {key for name, source in page.read_modules(which).items() if name not in shared for key in TEXT.findall(source)}
    assert len(asked) > least
    assert not asked - keys


def test_every_text_of_the_film_is_asked_for():
    source = "".join(source for name, source in page.read_modules(page.FILM).items() if name.startswith("film")) + page.read("film.html")
    asked = {key for key in page.page_texts(page.FILM) if not key.startswith(("page.", "command.", "left_out."))}
    assert not {key for key in asked if key not in source and f"{key.partition('.')[0]}.${{" not in source}


@pytest.mark.parametrize("name", MODULES)
def test_no_template_spans_lines(name):
    """A saved page leaves out indents, which may not stand inside a text: each line has both ends of its templates."""
    code = page.COMMENT.sub("", MODULES[name] + "\n").replace('"`"', "")
    assert all(line.count("`") % 2 == 0 for line in code.splitlines())
