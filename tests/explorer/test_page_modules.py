"""The page's modules fit together: what one imports, another exports, and every text that they ask for is there."""

import re

import pytest

from numpy_transformer.explorer import page

MODULES = page.read_modules()
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


def test_every_text_that_a_module_asks_for_is_there():
    keys = {re.sub(r"\.(one|other)$", "", key) for key in page.page_texts()}
    asked = {key for name, source in MODULES.items() if name != "strings" for key in TEXT.findall(source)}
    assert len(asked) > 100
    assert not asked - keys
