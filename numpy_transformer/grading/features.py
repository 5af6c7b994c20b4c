"""What a student's file is made of, for comparing it with others: reads tokens, and runs and parses nothing."""

import contextlib
import functools
import inspect
import io
import itertools
import keyword
import re
import textwrap
import tokenize
import zlib

from ..course.exercises.definition import IMPORTS
from .arrival import printable

SCANNED, MOST_TOKENS = 50_000, 5_000             # bytes and tokens of a file that are read
GRAM, WINDOW = 24, 16                           # tokens of a fingerprint, and of its window
LAYOUT = {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
KEPT = {"np", "numpy", "math", "self", *keyword.kwlist}


class Code:
    """The tokens of a file.

    Attributes:
        statements : list of lists of token strings, without comments and docstrings
        comments : list of comments, without their #
        local : names that the file assigns to
    """

    def __init__(self, text):
        self.statements, self.comments, statement = [], [], []
        with contextlib.suppress(SyntaxError, tokenize.TokenError, ValueError):     # keep what comes before the error
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            for token in itertools.islice(tokens, MOST_TOKENS):
                if token.type == tokenize.COMMENT:
                    self.comments.append(token.string.lstrip("#! ").rstrip())
                elif token.type == tokenize.NEWLINE or token.string == ";":
                    self.add(statement)
                    statement = []
                elif token.type not in LAYOUT:
                    statement.append(token.string)
        self.add(statement)
        self.local = set().union(*map(assigned, self.statements))

    def add(self, statement):
        is_docstring = len(statement) == 1 and statement[0].endswith(('"', "'"))
        if statement and not is_docstring:
            self.statements.append(statement)


def assigned(statement):
    """Returns the names that a statement assigns to: before an equals sign outside brackets, or between for and in."""
    found, depth, names = set(), 0, []
    for i, token in enumerate(statement):
        depth += (token in "([{") - (token in ")]}")
        if token.isidentifier() and not keyword.iskeyword(token):
            if i == 0 or statement[i - 1] != "." or statement[i - 2] == "self":
                names.append(token)
        elif depth <= 0 and re.fullmatch(r"[-+*/@%&|^]*=|:=", token):
            found |= set(names)
            names = []
        elif token == ":" and depth <= 0:
            names = []
        elif token == "in" and "for" in statement[:i]:
            start = len(statement) - 1 - statement[::-1].index("for", len(statement) - i)
            found |= {name for name in statement[start + 1:i] if name.isidentifier()}
    return found - KEPT


def file_features(content, exercise):
    """Returns {feature: a feature that it implies, or None} of a file. A feature is a tuple (kind, value)."""
    return text_features(own_text(content, exercise), exercise)


def own_text(content, exercise):
    """Returns a file's text without the imports and functions that the exercise gave."""
    text = content[:SCANNED].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    for part in given_parts(exercise):
        text = text.replace(part, "\n", 1)
    return text.strip()


def own_lines(content, exercise):
    """Returns the lines of a file that the exercise did not give."""
    given = set(exercise.skeleton().splitlines())
    lines = map(printable, own_text(content, exercise).expandtabs(4).split("\n"))
    return [line.rstrip() for line in lines if line not in given or not line.strip()]


@functools.lru_cache(maxsize=256)
def given_parts(exercise):
    """Returns the texts that the exercise gives: the docstring of its file, the functions, and each import."""
    skeleton = exercise.skeleton()
    given = [f"\n{textwrap.dedent(inspect.getsource(part))}" for part in exercise.given]
    return [skeleton[:skeleton.find(exercise.header)].strip("\n"), *given, *filter(None, IMPORTS.splitlines())]


def text_features(text, exercise):
    """Does the same for a text.

    The kinds, from what survives most changes to what survives none: a statement without the names of local variables
    and in any order, long sequences of tokens, the structure of the whole (names replaced by numbers), names, text. The
    sequences are chosen by winnowing (Schleimer, Wilkerson and Aiken, "Winnowing: local algorithms for document
    fingerprinting", SIGMOD 2003).
    """
    code = Code(text)
    local = code.local - set(exercise.parameters)
    found = {}
    for statement in code.statements:
        if len(statement) >= 4:
            found["statement", " ".join(sorted("_" if token in local else token for token in statement))] = None
    stream = [token for statement in code.statements for token in (*statement, "\n")]
    renamed, numbers = [], {}
    for token in stream:
        renamed.append(f"_{numbers.setdefault(token, len(numbers))}" if token in local else token)
    structure, names = " ".join(renamed), " ".join(stream)
    found["structure", structure] = None
    found["names", names] = ("structure", structure)
    found["text", text.strip()] = ("names", names)
    found |= {("tokens", value): None for value in winnow(renamed)}
    found |= {("comment", comment): None for comment in code.comments if len(comment) >= 8}
    found |= {("name", name): None for name in local}
    return found


def winnow(tokens):
    """Returns the fingerprints of a list of tokens: the least hash among each WINDOW consecutive sequences of GRAM."""
    hashes = [zlib.crc32(" ".join(tokens[i:i + GRAM]).encode()) for i in range(len(tokens) - GRAM + 1)]
    return {min(hashes[i:i + WINDOW]) for i in range(max(0, len(hashes) - WINDOW + 1))}


@functools.lru_cache(maxsize=256)
def expected_features(exercise):
    """Returns the features of the files that an exercise suggests: skeleton, solution, alternatives and mistakes."""
    edits = [{}, *exercise.alternatives.values(), *(mistake.edits for mistake in exercise.mistakes)]
    texts = [exercise.skeleton(), *(exercise.edited(edit) for edit in edits)]
    return frozenset(feature for text in texts for feature in file_features(text.encode(), exercise))
