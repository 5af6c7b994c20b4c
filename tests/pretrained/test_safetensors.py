"""The .safetensors format: files put together by hand, damaged files, and the reference implementation."""

import json
import struct

import numpy as np
import pytest

from numpy_transformer.pretrained.safetensors import TensorFile, write_safetensors


def pack(header, data, length=None):
    """The bytes of a file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype, shape, *offsets):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_file_put_together_by_hand(tmp_path):
    header = {"__metadata__": {"made by": "hand"}, "b": entry("F32", [2, 2], 4, 20), "half": entry("F16", [2], 0, 4),
              "wide": entry("BF16", [3], 20, 26), "none": entry("F64", [0, 3], 26, 26), "one": entry("U8", [], 26, 27)}
    data = (struct.pack("<2e", 0.5, -2.0) + struct.pack("<4f", 1, 2, 3, 4)
            + struct.pack("<3H", 0x3F80, 0xC040, 0x7F7F) + b"\x07")
    (tmp_path / "x").write_bytes(pack(header, data))
    file = TensorFile(tmp_path / "x")
    assert list(file) == ["half", "b", "wide", "none", "one"] and len(file) == 5 and "c" not in file
    assert file.metadata == {"made by": "hand"}
    np.testing.assert_array_equal(file["b"], np.array([[1, 2], [3, 4]], np.float32), strict=True)
    np.testing.assert_array_equal(file["half"], np.array([0.5, -2], np.float16), strict=True)
    expected = np.array([1, -3, 2 ** 127 * (2 - 2 ** -7)], np.float32)
    np.testing.assert_array_equal(file["wide"], expected, strict=True)
    np.testing.assert_array_equal(file["one"], np.uint8(7), strict=True)
    assert file["none"].shape == (0, 3)
    file["b"][0, 0] = 9                                                 # memory of its own, not the file
    assert file["b"].flags.owndata or file["b"].base.flags.owndata
    assert file["b"][0, 0] == 1


def test_every_dtype_is_written_and_read_again(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {dtype: rng.integers(0, 2, (2, 3)).astype(dtype) for dtype in
              ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")}
    arrays |= {"transposed": rng.normal(size=(3, 4)).T, "big-endian": np.arange(3, dtype=">f4"),
               "é": np.float32([[2]]), "scalar": np.array(3.0), "empty": np.zeros((2, 0))}
    write_safetensors(tmp_path / "x", arrays)
    file = TensorFile(tmp_path / "x")
    assert set(file) == set(arrays) and file.metadata == {"format": "pt"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(file[name], array.astype(array.dtype.newbyteorder("=")), strict=True)
    assert all(found.start % 8 == 0 for name, found in file.entries.items() if found.dtype == "F64")


def test_the_reference_implementation_writes_the_same_bytes(tmp_path):
    reference = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(1)
    arrays = {name: rng.normal(size=shape).astype(dtype) for name, shape, dtype in
              (("b", (2, 3), "f4"), ("a", (5,), "f4"), ("c", (3,), "f2"), ("d", (1, 1), "f8"))}
    write_safetensors(tmp_path / "ours", arrays)
    reference.save_file(arrays, tmp_path / "theirs", metadata={"format": "pt"})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert set(reference.load_file(tmp_path / "ours")) == set(arrays)


GOOD = {"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 8, 12)}
DAMAGED = {
    "empty": (b"", "8 bytes announce"),
    "short": (b"\x01\x02", "8 bytes announce"),
    "header longer than the file": (pack(GOOD, bytes(12), 10 ** 6), "header of 1,000,000 bytes"),
    "header of gigabytes": (pack(GOOD, bytes(12), 2 ** 62), "header of 4,611"),
    "not JSON": (pack(b"{oops", bytes(12)), "Expecting"),
    "a pickle": (b"\x80\x02}q\x00X\x01\x00\x00\x00" + bytes(40), "header of"),
    "a list": (pack(b"[1, 2]", bytes(12)), "copy or download"),
    "no dtype": (pack({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)), "a has no 'dtype'"),
    "truncated": (pack(GOOD, bytes(11)), "need .* but the file has"),
    "something after the end": (pack(GOOD, bytes(13)), "need .* but the file has"),
    "a gap": (pack({"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 12, 16)}, bytes(16)), "array before it ends"),
    "overlap": (pack({"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 4, 8)}, bytes(8)), "array before it ends"),
    "backwards": (pack({"a": entry("F32", [0], 0, -8)}, bytes(8)), "lies at bytes"),
    "size and shape": (pack({"a": entry("F32", [3], 0, 8)}, bytes(8)), "do not make an array"),
    "negative length": (pack({"a": entry("F32", [-2, -1], 0, 8)}, bytes(8)), "has the shape"),
    "fractional place": (pack({"a": entry("F32", [2], 0, 8.0)}, bytes(8)), "is 8.0, not a whole number"),
    "fractional length": (pack({"a": entry("F32", [1.0, 2], 0, 8)}, bytes(8)), "is 1.0, not a whole number"),
    "200,000 axes": (pack({"a": entry("F32", [10 ** 9] * 200_000, 0, 8)}, bytes(8)),
                     "a has 200,000 axes, but an array has at most 32"),
    "an axis of any size": (pack({"a": entry("F32", [2 ** 70, 0], 0, 0)}, b""),
                            r"a has the shape \(1180591620717411303424, 0\)"),
    "a name with an escape sequence": (pack({"\x1b[2J": entry("F32", [2], 0, 8)}, bytes(8)),
                                       r"called '\\x1b\[2J', but a name"),
    "a dtype with an escape sequence": (pack({"a": entry("\x1b[2J", [2], 0, 8)}, bytes(8)),
                                        r"the dtype '\\x1b\[2J', which is none"),
    "a long dtype": (pack({"a": entry("x" * 5000, [2], 0, 8)}, bytes(8)), "a has the dtype 'xxx.{,200}, which is none"),
    "metadata": (pack(GOOD | {"__metadata__": {"a": 1}}, bytes(12)), r"__metadata__\['a'\] is 1, not a text"),
    "deeply nested": (pack(b'{"a":' * 50_000, b""), "recursion"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_one_sentence(case, tmp_path):
    data, reason = DAMAGED[case]
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ValueError, match=reason) as error:
        TensorFile(tmp_path / "x")
    assert str(error.value).endswith("copy or download the file again") and "\n" not in str(error.value)


def test_dtypes_that_numpy_lacks(tmp_path):
    (tmp_path / "x").write_bytes(pack({"a": entry("F8_E4M3", [4], 0, 4)}, bytes(4)))
    file = TensorFile(tmp_path / "x")
    assert file.entries["a"].dtype == "F8_E4M3"
    with pytest.raises(ValueError, match="dtype F8_E4M3, which NumPy does not have"):
        file["a"]
    with pytest.raises(ValueError, match="a has the dtype complex64.*convert it to float32"):
        write_safetensors(tmp_path / "y", {"a": np.zeros(2, np.complex64)})
    assert not (tmp_path / "y").exists()
