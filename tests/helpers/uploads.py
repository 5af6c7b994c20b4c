"""The bytes that students upload: encodings, archives and notebooks."""

import gzip
import io
import json
import tarfile
import zipfile


def latin(text):
    return text.replace("ᵀ", "^T").encode("latin-1")


def with_tabs(text):
    lines = [line.removeprefix(" " * (len(line) - len(line.lstrip(" ")))) for line in text.split("\n")]
    depths = [(len(line) - len(line.lstrip(" "))) // 4 for line in text.split("\n")]
    return "\n".join("\t" * depth + line for depth, line in zip(depths, lines)).encode()


def zipped(files, extra=()):
    """A zip of these files and of `extra`, (path, content) or (path, target of a link, its mode)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content, *mode in [*files.items(), *extra]:
            entry = zipfile.ZipInfo(path, (2026, 10, 14, 10, 0, 0))
            entry.external_attr = (mode or [0o100644])[0] << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def zipped_on_a_mac(files):
    extra = [("__MACOSX/homework/week 2/._" + path.rpartition("/")[2], b"\0\5\26\7\0\2\0\0Mac OS X") for path in files]
    return zipped(files, [*extra, ("homework/.DS_Store", b"\0\0\0\1Bud1"), ("homework/", b"")])


def zipped_twice(files):
    return zipped({"week 2.zip": zipped_on_a_mac(files), "README.txt": b"My homework is in the zip."})


def zipped_by_windows(files):
    return zipped({path.replace("/", "\\"): content for path, content in files.items()})


def zipped_from_the_root(files):
    return zipped({f"/home/kim/../kim/{path}": content for path, content in files.items()})


def encrypted(content):
    """A zip whose entries claim to be encrypted."""
    archive = bytearray(zipped({"ex01_1_softmax.py": content}))
    archive[6] |= 1
    archive[archive.index(b"PK\1\2") + 8] |= 1
    return bytes(archive)


def tarred(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            item = tarfile.TarInfo(path)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def notebook(cells):
    """A notebook with these code cells, as Jupyter writes it: text, magics, outputs and all."""
    text = [{"cell_type": "markdown", "id": "a0", "metadata": {}, "source": ["# Homework\n", "Softmax & attention"]}]
    code = [{"cell_type": "code", "execution_count": i + 1, "id": f"c{i}", "metadata": {},
             "outputs": [{"name": "stdout", "output_type": "stream", "text": ["def softmax(z):\n", "    wrong\n"]}],
             "source": cell.splitlines(keepends=True)} for i, cell in enumerate(cells)]
    return json.dumps({"cells": text + code, "metadata": {"kernelspec": {"name": "python3", "language": "python",
                       "display_name": "Python 3"}}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


PDF, PNG = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n%%EOF\n", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
WORD = zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w:document>def softmax(z):</w:document>"})
