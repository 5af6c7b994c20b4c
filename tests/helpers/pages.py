"""What a saved page of the explorer contains."""

import base64
import json
import re
import zlib


def document_of(html):
    """The document in the HTML of a saved page, as store.js unpacks it."""
    found = re.findall(r'<script type="application/json" id="document">(.*?)</script>', html, re.S)
    assert len(found) == 1
    return unpacked(json.loads(found[0]))


def unpacked(script):
    """The document in a page's script, which is compressed in the page of a step, and not in that of a film."""
    if "packed" not in script:
        return script
    return json.loads(zlib.decompress(base64.b64decode(script["packed"])))
