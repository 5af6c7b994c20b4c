"""Forms of JSON from strangers, and words from files in messages."""

import pytest

from numpy_transformer.file_checks import (as_damaged, check_form, check_name, count_of, one_line, printable, quoted, shown,
                                           shown_shape)

NONE = type(None)
FITS = [(1, int), (0, float), (1.5, float), ("", str), (None, (int, NONE)), ([], [int]), ([1, 2], [int]), ({}, {str: int}),
        ({"a": 1}, {str: int}), ({"a": 1, "b": "x"}, {"a": int}), ({}, {"a?": int}), ({"a": [{"b": True}]}, {"a": [{"b": bool}]})]
WRONG = [(True, int, "x is True, not a whole number"), (True, float, "not a number"), (1.0, int, "not a whole number"),
         (float("nan"), float, "x is nan, not a number"), (10 ** 400, float, "not a number"), (None, str, "x is None, not a text"),
         ("7", (int, NONE), "x is '7'"), ([1, "2"], [int], r"x\[1\] is '2', not a whole number"), ({}, [int], "x is {}, not a list"),
         ([], {str: int}, r"x is \[\], not an object"), ({"a": "1"}, {str: int}, r"x\['a'\] is '1'"), ({}, {"a": int}, "x has no 'a'"),
         ({"a": None}, {"a?": int}, r"x\['a'\] is None"), ({"a": [{"b": 1}]}, {"a": [{"b": bool}]}, r"x\['a'\]\[0\]\['b'\] is 1")]


@pytest.mark.parametrize("value, form", FITS, ids=repr)
def test_values_of_a_form(value, form):
    check_form(value, form, "x")


@pytest.mark.parametrize("value, form, sentence", WRONG, ids=lambda value: repr(value)[:40])
def test_values_of_another_form_are_named(value, form, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        check_form(value, form, "x")
    assert len(str(error.value)) < 200


def test_words_from_files_are_short_and_printable():
    assert printable("a\x1b[2J\u202e\ud800b") == "a [2J  b" and one_line("a\n b\x07  c") == "a b c"
    assert one_line("x" * 500, 20) == "x" * 16 + " ..." and quoted("\x1b") == r"'\x1b'" and len(quoted("y" * 10 ** 6)) == 100
    assert shown(["a", "b"]) == "a, b" and shown("abcde") == "a, b, c, and 2 more" and shown([]) == ""
    assert shown_shape((3,)) == "(3,)" and shown_shape((2, 3)) == "(2, 3)" and shown_shape(range(30)).endswith(", and 22 more)")


def test_shapes_and_names_of_arrays():
    assert count_of("a", (2, 0, 3)) == 0 and count_of("a", ()) == 1 and count_of("a", [4, 5]) == 20
    for shape in ((-1,), (1.0,), (True,), (2 ** 62,), (1,) * 33):
        with pytest.raises(ValueError, match="^a has"):
            count_of("a", shape)
    check_name("model/blocks.0.weight é")
    for name in ("a\nb", "\x1b", "x" * 401, "\ud800"):
        with pytest.raises(ValueError, match="an array is called"):
            check_name(name)


@pytest.mark.parametrize("act, reason", [
    (lambda: {}["key"], "there is no 'key'"), (lambda: None.x, "'NoneType' object has no attribute"), (lambda: 1 / 0, "division"),
    (lambda: [][1], "list index out of range"), (lambda: len(5), "object of type 'int'")])
def test_errors_of_malformed_content_become_a_sentence(act, reason):
    with pytest.raises(ValueError, match=rf"^'file' is damaged \({reason}.*\); name another$"), as_damaged("file", "name another"):
        act()
