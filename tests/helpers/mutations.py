"""Seeded damage to files of every kind: bits, bytes, JSON, tables, and the parts of containers."""

import copy
import io
import json
import struct
import warnings
import zipfile

import numpy as np

NASTY_NAMES = ("", "\x1b[31mred\x1b[0m", "a\nb", "\ud800", "\u202emoc", "x" * 5000, "../../x", "\0", "meta",
               "__metadata__", "é")
EXTREME = (0, -1, 1, 2, 2 ** 31 - 1, 2 ** 31, 2 ** 63, -2 ** 63, 10 ** 12, 10 ** 400, 8_000_000, 0.5, -0.0,
           1e308, float("nan"), float("inf"), True, False, None, "", "7",
           [], {}, [[]], [1, 2], {"a": 1}, "x", ["x"], [None], 10 ** 7)
CELLS = ("", '"', '""', '"open', "=1+1", "1e999", "9999-12-31", "0001-01-01", "2026-11-20 23:59", "x" * 200_000,
         "\x1b[2J", "-", "NaN", "1,5", "\t", ";",
         "\ufeff", "\u2028", "٣", "1" * 5000, "\0", "01.1", "2026-11-20T23:59+23:59", "24:00", "99")
LARGE_MEMBER = 1 << 28                          # bytes of zeros, which compression makes small


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


def mutate_bytes(data, rng):
    """Flips bits, cuts, repeats, or overwrites numbers of 4 or 8 bytes by extreme ones."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        place, kind = int(rng.integers(max(len(data), 1))), int(rng.integers(6))
        if kind == 0:
            data[place:place + 1] = bytes([data[place] ^ 1 << int(rng.integers(8))]) if data else b"\1"
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            end = place + int(rng.integers(200))
            data[place:place] = data[place:end]
        elif kind == 3:
            data[place:place + int(rng.integers(1, 64))] = bytes(int(rng.integers(1, 64)))
        else:
            number = pick(rng, (0, 1, -1, 2 ** 31 - 1, -2 ** 31, 10 ** 7, 2 ** 20, 65536, 255))
            place = int(rng.integers(64)) if rng.random() < 0.7 else place
            data[place:place + 4] = struct.pack("<i", number)
    return bytes(data)


def places(value, path=()):
    """Yields the paths of all values inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def mutate_json(value, rng):
    """Returns a JSON value in which some values are extreme or of another type, are missing, or have strange keys."""
    value = json.loads(json.dumps(value))
    for _ in range(int(rng.integers(1, 4))):
        path = pick(rng, list(places(value)))
        if not path:
            if rng.random() < 0.05:
                return pick(rng, EXTREME)
            continue
        *before, key = path
        inside = value
        for step in before:
            inside = inside[step]
        kind = int(rng.integers(8))
        if kind == 0:
            del inside[key]
        elif kind == 1 and isinstance(inside, dict):
            inside[pick(rng, NASTY_NAMES)] = inside.pop(key)
        elif kind == 2:
            inside[key] = pick(rng, NASTY_NAMES)
        elif kind == 3 and isinstance(inside[key], list):
            inside[key] = inside[key] * pick(rng, (0, 2, 1000))
        elif kind == 4:
            inside[key] = [inside[key]] if rng.random() < 0.5 else {"a": inside[key]}
        elif kind == 5 and isinstance(inside[key], (int, float)):
            inside[key] = inside[key] * pick(rng, (-1, 2, 1000, 10 ** 6, 0.5))
        else:
            inside[key] = copy.deepcopy(pick(rng, EXTREME))
    return value


def mutate_json_text(data, rng):
    """Changes the text of a JSON file, as JSON or as bytes."""
    if rng.random() < 0.2:
        return mutate_bytes(data, rng)
    if rng.random() < 0.03:
        return pick(rng, (b"[" * 100_000, b'{"a":' * 50_000, b"1" * 5000, b"\xff\xfe", b"", b"null", b'{"a": 1e999}'))
    return json.dumps(mutate_json(json.loads(data), rng)).encode()


def mutate_table(data, rng):
    """Changes cells and lines of a CSV file, or its bytes."""
    if rng.random() < 0.25:
        return mutate_bytes(data, rng)
    text = data.decode("utf-8-sig")
    delimiter = max(",;\t", key=text.count)
    lines = [line.split(delimiter) for line in text.splitlines()]
    for _ in range(int(rng.integers(1, 5))):
        row = int(rng.integers(len(lines)))
        kind = int(rng.integers(6))
        if kind == 0:
            lines[row] = lines[row] * 2
        elif kind == 1:
            lines.insert(row, list(pick(rng, lines)))
        elif kind == 2 and len(lines) > 1:
            del lines[row]
        elif lines[row]:
            lines[row][int(rng.integers(len(lines[row])))] = pick(rng, CELLS)
    end = pick(rng, ("\n", "\r\n", "\r"))
    text = end.join(delimiter.join(line) for line in lines) + pick(rng, (end, ""))
    return text.encode(pick(rng, ("utf-8", "utf-8-sig", "utf-16", "latin-1")), "replace")


def mutate_words(data, rng):
    """Changes texts that people type, such as dates: cuts, joins and replaces their parts."""
    words = data.decode().split("\n")
    parts = [part for word in words for part in word.replace("-", " - ").replace(":", " : ").split()]
    text = pick(rng, words)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(text) + 1))
        new = pick(rng, (*parts, *CELLS))[:200]
        text = pick(rng, (text[:place] + new + text[place:], text[:place] + new, text.replace(pick(rng, parts), new)))
    return text.encode("utf-8", "surrogateescape")


def mutate_npz(data, rng):
    """Changes the JSON of a run, the members of the archive, the header of an array, or any bytes."""
    if rng.random() < 0.15:
        return mutate_bytes(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    compression = zipfile.ZIP_STORED
    if rng.random() < 0.65:
        meta = json.loads(str(np.load(io.BytesIO(dict(members)["meta.npy"]))))
        text = json.dumps(mutate_json(meta, rng))
        members = [(name, npy(np.array(text)) if name == "meta.npy" else content) for name, content in members]
    else:
        compression = change_members(members, rng)
    written = io.BytesIO()
    warnings.filterwarnings("ignore", "Duplicate name")
    with zipfile.ZipFile(written, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name.encode("utf-8", "replace").decode().replace("\0", "") or "x", content)
    return written.getvalue()


def change_members(members, rng):
    """Changes a list of (name, bytes) in place. Returns a kind of compression."""
    place, other = int(rng.integers(len(members))), int(rng.integers(len(members)))
    name, content = members[place]
    kind = int(rng.integers(8))
    if kind == 0:
        members.append(members[place])
    elif kind == 1:
        del members[place]
    elif kind == 2:
        members[place] = pick(rng, NASTY_NAMES) + pick(rng, (".npy", "")), content
    elif kind == 3:
        members[place] = name, members[other][1]
    elif kind == 4:
        members[place] = name, mutate_bytes(content, rng)
    elif kind == 5:
        shape = pick(rng, ((10 ** 12,), (2 ** 62,), (0, 10 ** 18), (1,) * 40, (-1,), (3, 10 ** 9), (7,)))
        dtype = pick(rng, ("<f4", "|O", "<U9", "<f8", "|V8", "<M8[s]"))
        header = str({"descr": dtype, "fortran_order": False, "shape": shape}).ljust(117).encode() + b"\n"
        members[place] = name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content[128:]
    elif kind == 6:
        array = pick(rng, (np.zeros(LARGE_MEMBER, np.uint8), np.zeros((3, 3), complex), np.array("text"), np.zeros(0)))
        members[place] = name, npy(array)
        return zipfile.ZIP_DEFLATED
    else:
        return pick(rng, (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    return zipfile.ZIP_STORED


def npy(array):
    """The bytes of an .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def mutate_safetensors(data, rng):
    """Changes the header's JSON, its length, or any bytes."""
    if rng.random() < 0.25:
        return mutate_bytes(data, rng)
    length = int.from_bytes(data[:8], "little")
    header, arrays = json.loads(data[8:8 + length]), data[8 + length:]
    kind, name = int(rng.integers(6)), pick(rng, list(header))
    if kind == 0 and "shape" in header[name]:
        header[name]["shape"] = pick(rng, (
            [1] * 200_000, [10 ** 9] * 3000, [0, 10 ** 30], [-1, -1], [2 ** 64], [1.5], ["4"], 4))
    elif kind == 1:
        header = dict(reversed(header.items())) | {pick(rng, NASTY_NAMES): header[name]}
    elif kind == 2:
        other = pick(rng, list(header))
        header[name], header[other] = header[other], header[name]
    else:
        header = mutate_json(header, rng)
    text = json.dumps(header).encode()
    if rng.random() < 0.1:
        arrays = mutate_bytes(arrays, rng)
    size = len(text) if rng.random() < 0.95 else pick(rng, (0, 1, len(text) + 1, 2 ** 40, 2 ** 63, 100 * 2 ** 20))
    return size.to_bytes(8, "little") + text + arrays
