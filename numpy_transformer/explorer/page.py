"""The page as one file that needs nothing else, and as the files that the server sends.

`page/` holds index.html, its style sheets and the modules, which import each other as "explorer/NAME". The server sends them as
they are, with an import map. A saved page holds all of them: the modules in one inline script, because a page without a server
may not load modules, and a page in a notebook even less.
"""

import base64
import hashlib
import html
import json
import math
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
PREFIX = "explorer/"
MARK = '<meta name="generator" content="numpy-transformer explore">'

# what index.html contains, each exactly once
CHARSET = '<meta charset="utf-8">'
TITLE = re.compile(r"<title>.*?</title>", re.S)
BODY = re.compile(r"<body(?=[\s>])")
IMPORT_MAP = re.compile(r'<script type="importmap">(.*?)</script>', re.S)
DOCUMENT = re.compile(r'<script type="application/json" id="document">.*?</script>', re.S)
START = re.compile(r'<script type="module">(.*?)</script>', re.S)
STYLE_SHEET = re.compile(r'<link rel="stylesheet" href="([^"]+)">')     # this one as often as needed

IMPORT = re.compile(r'^import\s+(?:(\{[^}]*\}|\*\s+as\s+\w+)\s+from\s+)?"([^"]+)";?', re.M)
EXPORT = re.compile(r"^export\s+(async\s+function\*?|function\*?|const|class)\s+(\w+)", re.M)
EXPORT_LIST = re.compile(r"^export\s+\{([^}]*)\};?", re.M)
UNSUPPORTED = re.compile(r"^(?:export|import|await)\b.*|\bimport\s*\(.*", re.M)


def render(document, start="", in_frame=False):
    """Returns the page of a document as one HTML text, which loads nothing.

    Parameters:
        document : dict, as FORMAT.md describes it
        start : the address inside the page at which it opens, such as "op=output&ref=grad output:y"
        in_frame : whether the page will be the srcdoc of an <iframe>, which has no address of its own
    """
    script = bundle(read_modules())
    policy = (f"default-src 'none'; script-src '{hash_of(script)}'; style-src 'unsafe-inline'; img-src data: blob:; "
              "form-action 'none'")
    head = f'{MARK}\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    if in_frame:
        head += '<base href="about:srcdoc">'    # without it, #links would lead to the page around the frame
    text = index_page(head, document["title"], start)
    text = STYLE_SHEET.sub(lambda found: f"<style>\n{read(found[1])}</style>", text)
    text = replace_once(IMPORT_MAP, text, "")
    text = replace_once(START, text, f'<script type="module">{script}</script>')
    data = f'<script type="application/json" id="document">{json_for_html(document)}</script>'
    return replace_once(DOCUMENT, text, data)


def live_page(title):
    """Returns (HTML, Content-Security-Policy) of the page that asks the server for its document."""
    import_map = json.dumps({"imports": {PREFIX + name: f"./{name}.js" for name in read_modules()}}, indent=1)
    text = replace_once(IMPORT_MAP, index_page("", title), f'<script type="importmap">{import_map}</script>')
    start = START.search(text)[1]
    policy = (f"default-src 'none'; script-src 'self' '{hash_of(import_map)}' '{hash_of(start)}'; "
              "style-src 'self' 'unsafe-inline'; img-src data: blob:; connect-src 'self'; base-uri 'none'; "
              "form-action 'none'; frame-ancestors 'none'")
    return text, policy


def live_files():
    """Returns {name: (content type, bytes)} of the files that the live page loads."""
    files = {}
    for path in FOLDER.iterdir():
        if path.suffix in (".css", ".js"):
            kind = "text/css" if path.suffix == ".css" else "text/javascript"
            files[path.name] = (f"{kind}; charset=utf-8", path.read_bytes())
    return files


def read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def read_modules():
    """Returns {name: source} of the page's modules."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.js"))}


def index_page(head, title, start=""):
    """Returns index.html with more tags in its head, its title, and the address at which it opens."""
    icon = '<link rel="icon" href="data:,">'    # or browsers would ask for /favicon.ico
    text = read("index.html").replace(CHARSET, f"{CHARSET}\n{head}\n{icon}", 1)
    text = replace_once(TITLE, text, f"<title>{html.escape(title)}</title>")
    return replace_once(BODY, text, f'<body data-start="{html.escape(start)}"')


def replace_once(pattern, text, replacement):
    """Returns text with the only match of a pattern replaced."""
    found = pattern.findall(text)
    if len(found) != 1:
        raise ValueError(f"index.html must contain {pattern.pattern} exactly once, not {len(found)} times")
    return pattern.sub(lambda _: replacement, text)


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


def in_order(modules):
    """Returns the names of the modules, each after those that it imports. Raises ValueError for a circle."""
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

    for name in modules:
        visit(name)
    return done


def without_imports_and_exports(name, source):
    """Returns a module's source as the body of a function, and the names that it exports."""
    exports = [found[2] for found in EXPORT.finditer(source)]
    for found in EXPORT_LIST.finditer(source):
        exports += [renamed(item, "{1}: {0}") for item in found[1].split(",") if item.strip()]
    source = EXPORT_LIST.sub("", EXPORT.sub(r"\1 \2", source))
    source = IMPORT.sub(imported, source)
    unsupported = UNSUPPORTED.search(source)
    if unsupported:
        raise ValueError(f"{name}.js contains {unsupported[0]!r}; saved pages support named exports of functions, classes "
                         "and constants, and imports at the top of the file")
    return source.strip(), ", ".join(exports)


def imported(found):
    """Returns the line that an import becomes in the bundle."""
    names, address = found.groups()
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
