"""Writes the list of similar submissions as a page (.html) or text (.md): the evidence, and files side by side."""

import html
import re
import textwrap
from pathlib import Path

from .features import Code, own_lines
from .files import replace_file
from .similarity import HABITS, groups

MOST_PAIRS, MOST_FILES, MOST_LINES = 100, 4, 80
CAUTION = (
    "This list proves nothing. It shows students whose files agree in ways that are rare in this class, sorted by how rare "
    "that is. Two students who learned together, used the same book, page or program, or were allowed to hand in common "
    "work look like this too, and so may two who happen to think alike; the list cannot know who wrote first. Somebody who "
    "copied few short exercises, or who rewrote what was copied, is probably not listed. Read the files and ask the "
    "students before you decide anything.")
BITS = (
    "The bits beside two names are for sorting: each makes an agreement by chance half as likely, but they are not "
    "probabilities.")
IDENTICAL = (
    "These students' newest files are the same byte for byte, with names, comments and spaces, in at least three exercises. "
    "Such files may be common text, so they need not be among the pairs. Somebody copied, they wrote together, or "
    "they took the files from one source; the shorter the files, the more likely it is chance after all.")
STYLE = """:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 90rem; margin: 2rem auto; padding: 0 1rem }
.files { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem }
figure { margin: 0; min-width: 0 } figcaption { font-size: 14px }
pre { margin: 0; padding: .5rem; overflow-x: auto; border: 1px solid #8886; border-radius: 4px; font-size: 13px }
mark { background: #f5c04266; color: inherit; print-color-adjust: exact } .form { background: #4c8ff038 }
h2 { border-top: 2px solid #8886; padding-top: 1rem } h4 { margin: 1rem 0 .3rem }
@media print { .files, li { break-inside: avoid } }"""


def write(similarity, students, path):
    """Writes the pairs of a Similarity to a .html or .md file. Returns its path."""
    path = Path(path)
    files = {(student.name, number): own[-1] for student in students for number, own in student.attempts.items() if own}
    build = markdown if path.suffix.lower() == ".md" else page
    text = build(similarity, files)
    return replace_file(path, lambda file: file.write(text))


def check_name(path):
    """Raises ValueError if the file's name does not end in .html or .md."""
    if Path(path).suffix.lower() not in (".html", ".htm", ".md"):
        raise ValueError(f"--similar {path}: name a file that ends in .html or .md")


def heading(similarity):
    """Returns the sentence that says what was found."""
    pairs, listed = len(similarity.pairs), len(groups(similarity.pairs))
    where = f"{similarity.students} students and {len(similarity.chosen)} exercises"
    sets = count(len(similarity.identical), "set")
    if not pairs and not similarity.identical:
        return f"Among {where}, no two students share more than chance explains."
    if not pairs:
        return (f"Among {where}, {sets} of students handed in identical files; apart from them, no two students share "
                "more than chance explains.")
    found = f"{count(pairs, 'pair')} in {count(listed, 'group')} share more than chance explains"
    if similarity.identical:
        found += f", and {sets} of students handed in identical files"
    return f"Among {where}, {found}."


def count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe_identical(one):
    """Returns a sentence about students with identical files."""
    words = f"{', '.join(one.students)}: {', '.join(one.numbers)}{' (all their code)' if one.whole else ''}"
    if one.plain:
        words += f"; in {', '.join(one.plain)} it is the text of a solution or known mistake of this package"
    return words


def describe(number, shared):
    """Yields sentences about what two students share in one exercise."""
    kinds = {}
    for _, (kind, value) in shared:
        kinds.setdefault(kind, []).append(value)
    if number == HABITS:
        yield f"names of variables that few others use: {', '.join(sorted(kinds['name'])[:12])}"
        return
    whole = (("text", "the files are identical, with comments and spaces"),
             ("names", "the files are identical except for comments and spaces"),
             ("structure", "the files are identical except for names of variables, comments and spaces"))
    words = next((words for kind, words in whole if kind in kinds), "")
    if words:
        yield words
    if "comment" in kinds:
        yield "the same comments: " + " / ".join(comment[:100] for comment in kinds["comment"][:4])
    if "answer" in kinds:
        yield "the same wrong answer, which no known mistake explains"
    if not words and "statement" in kinds:
        yield f"{count(len(kinds['statement']), 'statement')} in the same form, which is rare"
    if not words and "tokens" in kinds:
        yield "the same long passage except for names of variables"


def evidence(pair):
    """Returns [(number, bits, sentences)] of a pair's exercises, the strongest evidence first."""
    found = [(number, sum(bits for bits, _ in shared), list(describe(number, shared)))
             for number, shared in pair.shared.items()]
    return sorted((item for item in found if item[2]), key=lambda item: -item[1])


def side_by_side(pair, number, files, exercise):
    """Returns two lists of (line, class of its mark), without the text that the exercise gives.

    The class is "same" if the other file has the same line, "form" if it has it with other names of variables, or "".
    """
    lines = [own_lines(files[name, number].content, exercise)[:MOST_LINES] if (name, number) in files else []
             for name in pair.students]
    forms = [line_forms(own) for own in lines]
    same = {line.strip() for line in lines[0]} & {line.strip() for line in lines[1]} - {""}
    alike = set(forms[0]) & set(forms[1]) - {""}
    return [[(line, "same" if line.strip() in same else "form" * (form in alike)) for line, form in zip(*both)]
            for both in zip(lines, forms)]


def line_forms(lines):
    """Returns each line without comment and spaces, and with _ for names of variables."""
    local = Code(textwrap.dedent("\n".join(lines))).local
    codes = [line.partition("#")[0] for line in lines]
    return ["".join(re.sub(r"\w+", lambda match: "_" if match[0] in local else match[0], code).split())
            for code in codes]


def page(similarity, files):
    """Returns the page."""
    exercises = {exercise.number: exercise for exercise in similarity.chosen}
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
             f"<title>Similar submissions</title><style>{STYLE}</style><h1>Similar submissions</h1>"
             f"<p>{heading(similarity)}<p>{CAUTION}<p>{BITS if similarity.pairs else ''}<p>Marked: <mark class=same>the same line</mark>, <mark class=form>the "
             "same with other names of variables</mark>."]
    for group in groups(similarity.pairs[:MOST_PAIRS]):
        names = sorted({name for pair in group for name in pair.students})
        parts.append(f"<h2>{html.escape(', '.join(names))}</h2>")
        for pair in group:
            found = evidence(pair)
            parts.append(f"<h3>{html.escape(' and '.join(pair.students))}: {pair.bits:.0f} bits</h3><ul>")
            parts += [f"<li>{html.escape(title(number, exercises))}: {html.escape('; '.join(words))}"
                      for number, _, words in found]
            parts.append("</ul>")
            for number in [number for number, _, _ in found if number in exercises][:MOST_FILES]:
                parts.append(f"<h4>{html.escape(title(number, exercises))}</h4><div class=files>")
                for name, lines in zip(pair.students, side_by_side(pair, number, files, exercises[number])):
                    code = "\n".join(f"<mark class={mark}>{html.escape(line)}</mark>" if mark else html.escape(line)
                                     for line, mark in lines)
                    parts.append(f"<figure><figcaption>{html.escape(name)}</figcaption><pre>{code}</pre></figure>")
                parts.append("</div>")
    if similarity.identical:
        parts.append(f"<h2>Identical files</h2><p>{IDENTICAL}<ul>")
        parts += [f"<li>{html.escape(describe_identical(one))}" for one in similarity.identical]
        parts.append("</ul>")
    return "\n".join(parts) + "\n"


def markdown(similarity, files):
    """Returns the same as Markdown, with the files below each other."""
    exercises = {exercise.number: exercise for exercise in similarity.chosen}
    parts = ["# Similar submissions", heading(similarity), CAUTION, *[BITS] * bool(similarity.pairs)]
    for pair in similarity.pairs[:MOST_PAIRS]:
        found = evidence(pair)
        parts.append(f"## {' and '.join(pair.students)}: {pair.bits:.0f} bits")
        parts.append("\n".join(f"- {title(number, exercises)}: {'; '.join(words)}" for number, _, words in found))
        for number in [number for number, _, _ in found if number in exercises][:MOST_FILES]:
            for name, lines in zip(pair.students, side_by_side(pair, number, files, exercises[number])):
                code = "\n".join(line for line, _ in lines)
                parts.append(f"{title(number, exercises)}, {name}:\n\n~~~~python\n{code}\n~~~~")
    if similarity.identical:
        parts += ["## Identical files", IDENTICAL]
        parts.append("\n".join(f"- {describe_identical(one)}" for one in similarity.identical))
    return "\n\n".join(parts) + "\n"


def title(number, exercises):
    if number not in exercises:
        return "In all exercises"
    return f"{number} {exercises[number].name}"
