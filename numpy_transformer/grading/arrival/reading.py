"""Turns the bytes of a file into Python source: encodings, line ends, and what word processors put into code."""

import codecs
import re

from .items import Unreadable
from .statements import PIECES

# Files that are something else, whatever their name says.
KINDS = ((b"%PDF", "a PDF file"), (b"{\\rtf", "a rich-text file"), (b"PK\x03\x04", "a zip archive or an Office document"),
         (b"\xd0\xcf\x11\xe0", "a Word document"), (b"\x89PNG", "an image"), (b"\xff\xd8\xff", "an image"),
         (b"GIF8", "an image"), (b"\x1f\x8b", "an archive"), (b"Rar!", "a RAR archive"), (b"7z\xbc\xaf", "a 7z archive"),
         (b"bplist", "a file of another program"), (b"\x7fELF", "a compiled program"), (b"MZ\x90", "a program"))
BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
CODING_LINE = re.compile(r"\A((?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*)([-\w.]+)", re.A)
# Codecs that turn plain text into other text, so that the code that runs is not the code that one reads.
DISGUISES = {"unicode_escape", "raw_unicode_escape", "utf-7", "punycode", "idna", "mbcs", "oem", "undefined"}
SPACES = {0xa0: " ", 0x202f: " ", 0x2007: " ", 0x3000: " ", **{space: " " for space in range(0x2000, 0x2007)},
          0x2009: " ", 0x200a: " ", 0x200b: "", 0x200c: "", 0x200d: "", 0x2060: "", 0xfeff: "", 0xad: ""}
DOUBLE, SINGLE = "\u201c\u201d\u201e\u201f\u00ab\u00bb", "\u2018\u2019\u201a\u201b"
WORD_PROCESSOR = re.compile(f"[{DOUBLE}{SINGLE}{''.join(map(chr, SPACES))}\u2013\u2212]")
QUOTED = re.compile(f"[{DOUBLE}]([^{DOUBLE}\"\n]*)[{DOUBLE}\"]|[{SINGLE}]([^{SINGLE}'\n]*)[{SINGLE}']")
NOTEBOOK_CALL = re.compile(r"^([ \t]*)get_ipython\(\)", re.M)


def kind_of_content(content):
    """Returns what a file is if it is no text, such as "a PDF file", else ""."""
    known = next((kind for start, kind in KINDS if content.startswith(start)), "")
    if known or len(content) < 16:
        return known
    is_compiled = content[2:4] == b"\r\n" and b"\0" in content[:16]
    return "a compiled Python file (.pyc)" if is_compiled else ""


def source(content):
    """Returns the source of a Python file, with \\n at the ends of lines, and remarks on what was changed.

    Raises: Unreadable if it is no text, or declares an encoding that would disguise the code.
    """
    kind = kind_of_content(content)
    if kind:
        raise Unreadable(f"is {kind} and not a Python file; hand in the file with your code, saved as plain text")
    text, remarks = decoded(content)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text, repaired = without_word_processor(text)
    if NOTEBOOK_CALL.search(text):
        text = NOTEBOOK_CALL.sub(r"\1pass  # get_ipython()", text)
        repaired = [*repaired, "the lines with get_ipython(), which work only in a notebook, were left out"]
    return text, remarks + repaired


def decoded(content):
    """Returns the text of a file, and remarks. A coding line is changed to UTF-8, which the text is from here on."""
    encoding = next((encoding for mark, encoding in BOMS if content.startswith(mark)), "") or without_mark(content)
    if encoding:
        try:
            text = content.decode(encoding)
        except UnicodeError as error:
            raise Unreadable(f"is damaged {encoding.removesuffix('-sig').upper()} text; save it as UTF-8") from error
        name = encoding.removesuffix("-sig").upper()
        return declared_utf8(text), [] if name == "UTF-8" else [f"the file is {name}; save it as UTF-8"]
    if b"\0" in content:
        raise Unreadable("is not text; hand in the file with your code, saved as plain text")
    declared = declared_encoding(content)
    for encoding in (declared, "utf-8", "cp1252", "latin-1"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeError:
            continue
    remarks = [] if encoding in (declared, "utf-8") else [
        "the file is not UTF-8 and was read as Windows-1252; save it as UTF-8"]
    return declared_utf8(text), remarks


def without_mark(content):
    """Returns the encoding of text in UTF-16 without a byte order mark, else ""."""
    start = content[:200]
    if len(start) < 4 or b"\0" not in start:
        return ""
    if not start[::2].count(0) and start[1::2].count(0) > len(start) // 3:
        return "utf-16-le"
    return "utf-16-be" if not start[1::2].count(0) and start[::2].count(0) > len(start) // 3 else ""


def declared_encoding(content):
    """Returns the encoding in a coding line, "utf-8" without one. Raises Unreadable if it would disguise the code."""
    head = re.sub(r"\r\n?", "\n", content[:1000].decode("latin-1"))
    match = CODING_LINE.match(head)
    if not match:
        return "utf-8"
    try:
        codec = codecs.lookup(match[2])
        is_text = codec._is_text_encoding and codec.name.replace("_", "-") not in {
            name.replace("_", "-") for name in DISGUISES}
    except (LookupError, UnicodeError, ValueError):
        is_text = False
    if not is_text:
        raise Unreadable(f"declares the encoding {match[2][:40]!r} in its first lines; delete that line and save the "
                         "file as UTF-8")
    return codec.name


def declared_utf8(text):
    """Returns the text with a coding line that says UTF-8, or as it is if it has none."""
    return CODING_LINE.sub(r"\1utf-8", text.replace("\r\n", "\n").replace("\r", "\n"), count=1)


def without_word_processor(text):
    """Replaces typographic quotation marks, spaces and minus signs in code, but not in strings and comments."""
    if text.isascii() or not WORD_PROCESSOR.search(text):
        return text, []
    result, last = [], 0
    for match in PIECES.finditer(text):
        if len(match[0]) > 1 and match[0] != "\\\n":        # a string or a comment: kept as it is
            result += [straight_quotes(text[last:match.start()]), match[0]]
            last = match.end()
    result = "".join([*result, straight_quotes(text[last:])])
    if result == text:
        return text, []
    return result, ["quotation marks, spaces or minus signs of a word processor in the code were replaced by plain ones"]


def straight_quotes(code):
    code = QUOTED.sub(lambda match: f'"{match[1]}"' if match[1] is not None else f"'{match[2]}'", code)
    return code.translate(SPACES).replace("\u2212", "-").replace("\u2013", "-")
