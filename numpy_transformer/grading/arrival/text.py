"""Names of students and files as people read them, times that can be, and what is unusual in a student's file."""

import contextlib
import re
import unicodedata

from ...course.sandbox.inside.limits import SPARE
from ...file_checks import one_line
from .statements import TEXTS

SCANNED = 100_000                               # characters that `unusual` reads
IN_BRACES = re.compile(r"\{([^{}\n]*)")
WORDS = re.compile(r"[^\W\d]\w*|\.\.\.|[^\w\s]|\n")
PROVIDED = ["numpy_transformer", ".", "course", ".", "helpers"]            # which the sheets import
EXPECTED_IMPORTS = {"numpy", "math", "typing", "__future__"}
USUAL_IN_NOTEBOOKS, USUAL_ATTRIBUTES = {"sys", "os"}, {"path", "version", "getcwd", "chdir", "listdir"}
UNUSUAL = {"open", "exec", "eval", "compile", "__import__", "__builtins__", "ctypes", "sys", "os", "gc", "globals",
           "importlib", "pickle", "subprocess", "socket"}


def file_name(raw):
    """Returns the name of a file as people read it, with accents as single characters.

    A name on the disk that is not UTF-8 was written by an old Windows or Linux; it is read as Windows-1252.
    """
    with contextlib.suppress(UnicodeEncodeError):
        if not raw.isascii() and any("\udc80" <= c <= "\udcff" for c in raw):
            raw = raw.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
    return unicodedata.normalize("NFC", raw)


def plausible(make, *arguments):
    """Returns the datetime that a function makes of these arguments, or None if there is no such time in this age."""
    try:
        moment = make(*arguments)
        return moment if moment and 1980 < moment.year < 2200 else None
    except (ValueError, OverflowError, OSError):
        return None


def folded(name):
    """Returns a name without differences of case and encoding, for comparisons."""
    return unicodedata.normalize("NFKC", name).casefold()


def first_names(names, most=5):
    """Returns the first names, separated by commas, and how many more there are."""
    names = [one_line(name, 120) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def unusual(source, own_modules=(), is_notebook=False, needed=frozenset()):
    """Returns what a student's file does that no exercise needs, for the teacher to look at, as phrases.

    Looks at words instead of parsing, because a malicious file can crash a parser, and slow a tokenizer down.

    Parameters:
        own_modules : names of the student's other files
        is_notebook : if True, importing sys or os and using their paths is usual
        needed : what the task needs beyond this: modules, and names such as "open"
    """
    imports, uses, statement, depth = set(), set(), [], 0
    for word in WORDS.findall(TEXTS.sub(code_in, source[:SCANNED]).replace("\\\n", " ")):
        depth = max(0, depth + (word in "([{") - (word in ")]}"))
        if word in ";:" or word == "\n" and not depth:
            note(statement, imports, uses, is_notebook)
            statement = []
        elif word != "\n":
            statement.append(word)
    note(statement, imports, uses, is_notebook)
    imports -= EXPECTED_IMPORTS.union(SPARE, needed, set(own_modules) - UNUSUAL)
    uses -= needed
    phrases = [f"imports {', '.join(sorted(imports))}, which no exercise needs"] if imports else []
    phrases += [f"uses {', '.join(sorted(uses - imports))}"] if uses - imports else []
    return [*phrases, f"has more than {SCANNED // 1000} kB"] if len(source) > SCANNED else phrases


def code_in(match):
    """Returns the code in a string or a comment: what stands in the braces of a string with an f."""
    return f"({' '.join(IN_BRACES.findall(match[0]))})" if match[1] and "f" in match[1].lower() else '""'


def note(words, imports, uses, is_notebook):
    """Adds what a statement imports and uses to these sets."""
    usual = USUAL_IN_NOTEBOOKS if is_notebook else set()
    if words[:1] == ["import"] and "as" not in words:
        imports |= imported_modules(words) - usual
        return
    imports |= imported_modules(words)
    uses |= {word for i, word in enumerate(words) if word in UNUSUAL and not (
        word in usual and words[i + 1:i + 2] == ["."] and not USUAL_ATTRIBUTES.isdisjoint(words[i + 2:i + 3]))}


def imported_modules(words):
    """Returns the modules that a statement imports."""
    if words[:1] == ["from"]:
        return set() if words[1:6] == PROVIDED else set(words[1:2]) - {".", "..."}
    if words[:1] != ["import"]:
        return set()
    ends = [i for i, word in enumerate(words) if word in ("import", ",")]
    return {words[i + 1] for i in ends if i + 1 < len(words)}
