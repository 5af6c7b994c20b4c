"""File names with letters that are not ASCII."""

import os

import pytest


def file_name(letters):
    """Returns this name of a file or folder. Skips the test where file names cannot have these letters."""
    try:
        os.fsencode(letters)
    except UnicodeEncodeError as error:
        pytest.skip(f"the encoding of file names is {error.encoding} here, which does not have all letters of {letters!a}")
    return letters
