"""The page as one file that needs nothing else, and as the files that the server sends.

`page/` holds index.html, the style sheets and the modules, which import each other as "explorer/NAME". The server sends them
as they are, with an import map. A saved page contains all of them, with the modules in one inline script, because browsers
load no modules from a file; comments and indents are left out. Comments in index.html mark what is filled in: policy, style, no_script, texts, document and
modules. The page's texts, in the chosen language, stand in it as JSON.

The film of a training run (film/) is another page, film.html. A page has those modules that its first one needs.
"""

import base64
import hashlib
import html
import json
import math
import re
import zlib
from pathlib import Path
from typing import NamedTuple

from ..texts import folder_of_language, texts_of

FOLDER = Path(__file__).parent / "page"
PREFIX = "explorer/"
STYLE_SHEETS = ["style.css", "map.css", "component.css", "views.css"]       # others follow

START = 'import "explorer/main";'
MARK = '<meta name="generator" content="numpy-transformer explore">'
ICON = '<link rel="icon" href="data:,">'        # or browsers would ask for /favicon.ico

IMPORT = re.compile(r'^import\s+(?:(\{[^}]*\}|\*\s+as\s+\w+)\s+from\s+)?"([^"]+)";?', re.M)
EXPORT = re.compile(r"^export\s+(async\s+function\*?|function\*?|const|class)\s+(\w+)", re.M)
EXPORT_LIST = re.compile(r"^export\s+\{([^}]*)\};?", re.M)
LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")           # what browsers accept as a language
COMMENT = re.compile(r"^[ \t]*//[^\n]*\n|^[ \t]*/\*\*.*?\*/[ \t]*\n", re.M | re.S)          # whole lines, which a saved page does without
INDENT = re.compile(r"^[ \t]+", re.M)           # no template of the page spans lines
UNSUPPORTED = re.compile(r"^(?:export|import|await)\b.*|\bimport\s*\(.*", re.M)


class PageFiles(NamedTuple):
    """What a page is made of: its skeleton, the module that starts it, the subjects of its texts, and whether its document is packed."""

    skeleton: str
    first: str
    texts: tuple
    packs: bool


STEP = PageFiles("index.html", "main", ("explorer/page", "explorer/stories"), True)
FILM = PageFiles("film.html", "film", ("explorer/film",), False)


def render(document, start="", in_frame=False, page=STEP):
    """Returns the page of a document as one HTML text, which loads nothing.

    Parameters:
        document : dict, as FORMAT.md describes it
        start : the address inside the page at which it opens, such as "op=output&ref=grad output:y"
        in_frame : whether the page will be the srcdoc of an <iframe>, which has no address of its own
        page : PageFiles, STEP or FILM
    """
    script = bundle(read_modules(page))
    policy = (f"default-src 'none'; script-src '{hash_of(script)}'; style-src 'unsafe-inline'; img-src data: blob:; "
              "form-action 'none'")
    head = [MARK, f'<meta http-equiv="Content-Security-Policy" content="{policy}">', ICON]
    if in_frame:
        head.append('<base href="about:srcdoc">')           # without it, #links would lead to the page around the frame
    return fill_page(page, document["title"], start, {
        "policy": "\n".join(head),
        "style": "\n".join(f"<style>\n{read(name)}</style>" for name in style_sheets(page)),
        "document": f'<script type="application/json" id="document">{json_for_html(packed(document) if page.packs else document)}</script>',
        "modules": f'<script type="module">{script}</script>'})


def packed(document):
    """Returns {"packed": ...}: the document as base64 of JSON that is compressed with zlib, in about half of its size."""
    return {"packed": base64.b64encode(zlib.compress(to_json(document).encode(), 9)).decode("ascii")}


def live_page(title):
    """Returns (HTML, Content-Security-Policy) of the page that asks the server for its document."""
    import_map = json.dumps({"imports": {PREFIX + name: f"./{name}.js" for name in read_modules()}}, indent=1)
    policy = (f"default-src 'none'; script-src 'self' '{hash_of(import_map)}' '{hash_of(START)}'; "
              "style-src 'self' 'unsafe-inline'; img-src data: blob:; connect-src 'self'; base-uri 'none'; "
              "form-action 'none'; frame-ancestors 'none'")
    return fill_page(STEP, title, "", {
        "policy": ICON,
        "style": "\n".join(f'<link rel="stylesheet" href="{name}">' for name in style_sheets()),
        "document": "",
        "modules": f'<script type="importmap">{import_map}</script>\n<script type="module">{START}</script>'}), policy


def live_files():
    """Returns {name: (content type, bytes)} of the files that the live page loads."""
    files = {name: ("text/css; charset=utf-8", read(name).encode()) for name in style_sheets()}
    for name, source in read_modules().items():
        files[f"{name}.js"] = ("text/javascript; charset=utf-8", source.encode())
    return files


def read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def read_modules(page=STEP):
    """Returns {name: source} of the modules of a page: the first one, and those that it needs."""
    modules = {path.stem: read(path.name) for path in sorted(FOLDER.glob("*.js"))}
    needed = in_order(modules, [page.first])
    return {name: source for name, source in modules.items() if name in needed}


def style_sheets(page=STEP):
    """Returns the names of the style sheets in their order, in which a later one may override an earlier one."""
    if page is FILM:
        return ["style.css", "film.css"]
    names = sorted(path.name for path in FOLDER.glob("*.css") if path.name != "film.css")
    return [name for name in STYLE_SHEETS if name in names] + [name for name in names if name not in STYLE_SHEETS]


def fill_page(page, title, start, parts):
    """Returns the skeleton of a page with its title, the address at which it opens, and its comments filled in."""
    text = read(page.skeleton)
    title = title.encode("utf-8", "replace").decode()           # a lone surrogate cannot be written to a file
    text = re.sub(r"<title>.*?</title>", lambda _: f"<title>{html.escape(title)}</title>", text, count=1)
    text = re.sub(r"<body(?=[\s>])", lambda _: f'<body data-start="{html.escape(start)}"', text, count=1)
    text = text.replace("<html>", f'<html lang="{language()}">', 1)
    texts = json_for_html({"language": language(), "texts": page_texts(page)})
    parts = {"no_script": html.escape(page_texts(page)["page.no_script"]),
             "texts": f'<script type="application/json" id="texts">{texts}</script>', **parts}
    for name, part in parts.items():
        before, comment, after = text.partition(f"<!-- explorer:{name} -->")
        if not comment:
            raise ValueError(f"{page.skeleton} lacks the comment <!-- explorer:{name} -->")
        text = before + part + after
    return text


def language():
    """Returns the name of the chosen language as browsers know it, en for one that they do not."""
    name = folder_of_language().name
    return name if LANGUAGE_TAG.fullmatch(name) else "en"


def page_texts(page=STEP):
    """Returns {SECTION.KEY: text} of all texts of a page in the chosen language."""
    return {f"{section}.{key}": text for subject in page.texts for section, texts in texts_of(subject).items()
            for key, text in texts.items()}


def hash_of(script):
    """Returns the source expression by which a Content-Security-Policy allows this inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def json_for_html(document):
    """Returns JSON that cannot end the <script> in which it stands, whatever the tokens are."""
    return to_json(document).replace("<", "\\u003c").replace("&", "\\u0026")


def to_json(document):
    """Returns ASCII JSON. Numbers that are not finite become null, because JSON has none."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(without_non_finite(document), allow_nan=False, separators=(",", ":"))


def without_non_finite(value):
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: without_non_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_non_finite(item) for item in value]
    return value


def bundle(modules):
    """Returns one script that does what the modules do.

    Each module becomes a function that is called once, after the modules that it imports, and that returns its exports.
    """
    parts = ['\nconst modules = {};\n']
    for name in in_order(modules):
        source, exports = without_imports_and_exports(name, modules[name])
        parts.append(f'\n// {name}.js\nmodules["{PREFIX}{name}"] = (() => {{\n{source}\nreturn {{ {exports} }};\n}})();\n')
    return "".join(parts).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def in_order(modules, wanted=None):
    """Returns the names of the modules, or of those that the `wanted` ones need, each after those that it imports.

    Raises: ValueError for a circle
    """
    done, open_names = [], []

    def visit(name):
        if name in done:
            return
        if name in open_names:
            raise ValueError(f"the page's modules import each other in a circle: {' -> '.join([*open_names, name])}")
        open_names.append(name)
        for _, address in IMPORT.findall(modules[name]):
            imported = address.removeprefix(PREFIX)
            if imported not in modules:
                raise ValueError(f"{name}.js imports {address!r}, but there is no {imported}.js")
            visit(imported)
        done.append(open_names.pop())

    for name in modules if wanted is None else wanted:
        visit(name)
    return done


def without_imports_and_exports(name, source):
    """Returns a module's source as the body of a function, and the names that it exports."""
    exports = [match[2] for match in EXPORT.finditer(source)]
    for match in EXPORT_LIST.finditer(source):
        exports += [renamed(item, "{1}: {0}") for item in match[1].split(",") if item.strip()]
    source = EXPORT_LIST.sub("", EXPORT.sub(r"\1 \2", COMMENT.sub("", source + "\n")))
    source = IMPORT.sub(import_line, source)
    unsupported = UNSUPPORTED.search(source)
    if unsupported:
        raise ValueError(f"{name}.js contains {unsupported[0]!r}; saved pages support named exports of functions, classes "
                         "and constants, and imports at the top of the file")
    return INDENT.sub("", source.strip()), ", ".join(exports)


def import_line(match):
    """Returns the line that an import becomes in the bundle."""
    names, address = match.groups()
    if names is None:                           # imported for its effect alone, and already called
        return ""
    if names.startswith("*"):
        return f'const {names.split()[-1]} = modules["{address}"];'
    items = [renamed(item, "{0}: {1}") for item in names.strip("{}").split(",") if item.strip()]
    return f'const {{ {", ".join(items)} }} = modules["{address}"];'


def renamed(item, pattern):
    """Returns an entry such as `a as b` of an import or export list in the form that `pattern` gives it."""
    words = item.split()
    return words[0] if len(words) == 1 else pattern.format(words[0], words[-1])
