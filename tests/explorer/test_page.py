"""The page as one file: it loads nothing, its script is the modules', and no token can break out of its document."""

import html
import json
import re
import shutil
import subprocess

import pytest
from helpers.pages import document_of

from numpy_transformer.explorer import page

HOSTILE = ["</script><script>alert(1)</script>", "<!--", "\u2028", "&amp;", "]]>", "\ud800", "'\"`${alert(1)}"]
DOCUMENT = {"title": "A <b>title</b> & more", "tokens": {"source": [HOSTILE]}, "loss": float("nan")}


def parts(text):
    """(document, script) of a saved page."""
    scripts = re.findall(r'<script type="module">(.*?)</script>', text, re.S)
    assert len(scripts) == 1 and text.count("</script>") == text.count("<script") == 3       # the third: texts
    return document_of(text), scripts[0]


def test_a_saved_page_contains_the_document_whatever_its_tokens_are():
    text = page.render(DOCUMENT, start='op=a&ref="><script>')
    document, _ = parts(text)
    assert document["tokens"]["source"] == [HOSTILE] and document["loss"] is None
    assert "<title>A &lt;b&gt;title&lt;/b&gt; &amp; more</title>" in text
    assert 'data-start="op=a&amp;ref=&quot;&gt;&lt;script&gt;"' in text


def test_a_saved_page_loads_nothing():
    text = page.render(DOCUMENT)
    addresses = set(re.findall(r"[a-z]+://[^\s\"'`)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML", "http://www.w3.org/1999/xhtml",
                         "http://www.w3.org/1999/xlink"}        # names of XML, which no browser loads
    assert not re.findall(r"<(?:link|script|img|iframe)[^>]*\s(?:src|href)=(?!\"data:)", text)
    assert not re.findall(r"@import|url\((?!['\"]?(?:#|data:))", text)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ") and "connect-src" not in policy and "http" not in policy
    assert page.hash_of(parts(text)[1]) in policy


def test_the_script_has_every_module_after_those_that_it_imports():
    script = parts(page.render(DOCUMENT))[1]
    order = re.findall(r'^modules\["explorer/(\w+)"\]', script, re.M)
    modules = page.read_modules()
    assert sorted(order) == sorted(modules)
    for name, source in modules.items():
        for imported in re.findall(r'from "explorer/(\w+)"', source):
            assert order.index(imported) < order.index(name)
    assert not re.search(r"^(import|export)\b", script, re.M)


MODULES = {"main": 'import { f, twice as double,\n  Pair } from "explorer/tools";\nimport * as words from "explorer/words";\n'
                   'import "explorer/effect";\nconst p = new Pair(double(f(2)));\n'
                   'console.log(p.x, words.hello, words.bye, globalThis.effect, `</script>`.length, await_);\n'
                   'var await_;\n',
           "tools": 'export function f(x) { return x + 1; }\nconst twice = (x) => 2 * x;\nexport { twice };\n'
                    'export class Pair { constructor(x) { this.x = x; } }\n',
           "words": 'export const hello = "hello <!-- world";\nconst b = "bye";\nexport { b as bye };\n',
           "effect": "globalThis.effect = 3;\n"}


def test_a_bundle_does_what_its_modules_do(tmp_path):
    script = page.bundle(MODULES)
    assert "</script" not in script and "<!--" not in script
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    path = tmp_path / "bundle.mjs"
    path.write_text(script)
    run = subprocess.run(["node", path], capture_output=True, text=True)
    assert run.stdout == "6 hello <!-- world bye 3 9 undefined\n", run.stderr


@pytest.mark.parametrize("modules, match", [
    ({"a": 'import { b } from "explorer/b";', "b": 'import { a } from "explorer/a";'}, "in a circle: a -> b -> a"),
    ({"a": 'import { b } from "explorer/b";'}, "a.js imports 'explorer/b', but there is no b.js"),
    ({"a": "export default 3;"}, "a.js contains 'export default 3;'"),
    ({"a": "export let x = 3;"}, "a.js contains 'export let x = 3;'"),
    ({"a": 'const x = await import("explorer/b");'}, "a.js contains"),
    ({"a": 'import x from "explorer/b";'}, "a.js contains")])
def test_what_a_bundle_cannot_hold_is_refused(modules, match):
    with pytest.raises(ValueError, match=match):
        page.bundle(modules)


def test_the_live_page_maps_every_module_to_a_file_that_the_server_sends():
    text, policy = page.live_page("A <title>")
    import_map = re.search(r'<script type="importmap">(.*?)</script>', text, re.S)[1]
    files = page.live_files()
    imports = json.loads(import_map)["imports"]
    assert {address.removeprefix("./") for address in imports.values()} == {name for name in files if name.endswith(".js")}
    assert set(re.findall(r'<link rel="stylesheet" href="([^"]+)"', text)) == {name for name in files if name.endswith(".css")}
    assert page.hash_of(import_map) in policy and page.hash_of('import "explorer/main";') in policy
    assert 'id="document"' not in text and html.escape("A <title>") in text
