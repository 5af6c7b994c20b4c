"""A language made of the English texts, with full-width letters: what a command prints in plain letters is not translated.

    write(tmp_path)
    monkeypatch.setenv("NUMPY_TRANSFORMER_LANGUAGE", str(tmp_path))
    assert not plain_words(what_was_printed, names)

Full-width letters are two columns wide, so that the width of lines is tested, too.
"""

import configparser
import re
import string

from numpy_transformer.texts import ENGLISH

LETTERS = string.ascii_letters
WIDE = str.maketrans(LETTERS, "".join(chr(ord(letter) - ord("!") + ord("！")) for letter in LETTERS))
KEPT = re.compile(r"\$\{[^}]*\}"                # another text
                  r"|\{[^{}]*(?:\{[^{}]*\})?[^{}]*\}"       # a placeholder, perhaps with one in its format
                  r"|`[^`]*`"                   # code
                  r"|</?\w[^<>]*>|&#?\w+;"      # markup
                  r"|\$\$[^$]+\$\$|\\\w+")      # formulas
WORD = re.compile(r"[A-Za-z][A-Za-z'’]+")


def translated(text):
    """The text in full-width letters, except for placeholders, `code`, <markup> and formulas."""
    parts, start = [], 0
    for kept in KEPT.finditer(text):
        parts += [text[start:kept.start()].translate(WIDE), kept[0]]
        start = kept.end()
    return "".join(parts) + text[start:].translate(WIDE)


def in_plain_letters(text):
    """The text before it was translated."""
    return text.translate({wide: letter for letter, wide in WIDE.items()})


def write(folder, subjects=None):
    """Writes the translation of all files of texts/en, or of these subjects, such as "verdict", to a folder."""
    for path in sorted(ENGLISH.rglob("*.ini")):
        subject = path.relative_to(ENGLISH).with_suffix("").as_posix()
        if subjects is None or subject in subjects:
            translation = parser()
            translation.read(path, encoding="utf-8")
            for section in translation.sections():
                for key, text in translation[section].items():
                    translation[section][key] = translated(text)
            target = folder / f"{subject}.ini"
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("w", encoding="utf-8") as file:
                translation.write(file)


def parser():
    """Reads and writes texts as they stand there: with references to other texts, and with capitals in keys."""
    parser = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), default_section="", interpolation=None)
    parser.optionxform = str
    return parser


def plain_words(text, names=()):
    """The words of at least two plain letters in a text, without `code`, "quotations" and these names.

    Parameters:
        names : words or parts of the text that no language translates, such as "dx" or "softmax_backward(p, dp)"
    """
    text = re.sub(r"`[^`]*`|\"[^\"]*\"", " ", text)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", " ", text)
    return WORD.findall(text)
