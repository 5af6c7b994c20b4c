"""A page for the lecture after the deadline: how the exercises went and what to discuss, without names.

One or two students are "a few", and shares are rounded to five percent, so that no count singles out a student.
Nothing that a student wrote is quoted: code comes from the catalog of known mistakes, sentences come from the checker.
"""

import collections
import difflib
import html
import math
import textwrap
from dataclasses import dataclass

from ..course.checker.messages import mistake_names
from ..texts import render
from .anonymous_style import STYLE
from .files import replace_file
from .gradebooks.filling import counted_work
from .report import mistakes_of

SMALL = 3                                       # groups of fewer students are not counted
LEAST = 2                                       # a percentage that stands for less than 2.5
RESULTS = ("right", "wrong", "unfinished", "not handed in")
STAGES = {"shape": "a result of the wrong shape", "type": "a result of the wrong type or number of values",
          "values": "wrong values", "finite": "NaN or infinity in the result", "error": "code that stops with an error",
          "import": "a file that cannot be loaded", "name": "a function with another name",
          "arguments": "a function with other arguments", "time": "code that takes too long",
          "memory": "code that needs too much memory", "ended": "code that ends early",
          "arguments changed": "correct values, but an argument is changed in place",
          "sizes": "values that are correct only for ordinary numbers",
          "functions": "values that are wrong if a function returns its own argument",
          "repeated": "correct values, but a second call gives others or overwrites them",
          "float32": "correct in float64, but not in float32",
          "gradients": "correct values, but gradients that depend on earlier calls",
          "training": "correct parts, but a whole model that trains differently"}


@dataclass
class FrequentMistake:
    """Something that several students did in an exercise."""

    students: int
    sentence: str
    name: str = ""                              # of a known mistake
    wrong: str = ""                             # lines of code
    right: str = ""


class Result:
    """How one exercise went.

    Attributes:
        counts : {one of RESULTS: number of students}
        findings : list of FrequentMistake, the most frequent first
    """

    def __init__(self, exercise, rows):
        self.exercise, self.rows = exercise, rows
        self.counts = collections.Counter(map(result_of, rows))
        self.findings = sorted([*self.known_mistakes(), *self.shared_answers(), *self.stages()],
                               key=lambda finding: -finding.students)

    @property
    def handed_in(self):
        return len(self.rows) - self.counts["not handed in"]

    def known_mistakes(self):
        """Yields a FrequentMistake for each known mistake."""
        catalog = {mistake.name: mistake for mistake in self.exercise.mistakes}
        for mistake, count in collections.Counter(mistake for row in self.rows for mistake in mistakes_of(row)).items():
            mistakes = [catalog[name] for explanation in mistake for name in explanation if name in catalog]
            if mistakes:
                sentence = " Or: ".join(mistake.explanation for mistake in mistakes)
                has_lines = mistakes[0].edits   # a bug of the zoo has none
                lines = changed_lines(mistakes[0].exercise, mistakes[0]) if has_lines else ()
                yield FrequentMistake(count, sentence, mistake_names(mistake), *lines)

    def shared_answers(self):
        """Yields a FrequentMistake for each wrong answer without a known mistake that several students gave."""
        shared = collections.defaultdict(list)
        for row in self.rows:
            if row.answer:
                shared[row.answer].append(row)
        for rows in shared.values():
            if len(rows) >= SMALL:
                words = render(rows[0].verdict.diagnoses) or f"They have {STAGES.get(rows[0].stage, 'another result')}."
                yield FrequentMistake(len(rows), f"The same wrong answer, which no known mistake explains. {words}")

    def stages(self):
        """Yields a FrequentMistake for each check at which other files failed."""
        answers = collections.Counter(row.answer for row in self.rows)
        rows = [row for row in self.rows if result_of(row) == "wrong" and not row.mistakes
                and not (row.answer and answers[row.answer] >= SMALL)]
        for stage, count in collections.Counter(row.stage for row in rows).items():
            if stage in STAGES and count >= SMALL:
                yield FrequentMistake(count, f"Different mistakes that lead to {STAGES[stage]}.")


def result_of(row):
    """Returns the one of RESULTS that a row's status belongs to."""
    return {"pass": "right", "missing": "not handed in", "todo": "unfinished"}.get(row.status, "wrong")


def changed_lines(exercise, mistake):
    """Returns the wrong and the right lines of a known mistake, with the line that its edits refer to."""
    right, wrong = exercise.code.splitlines(), exercise.edited_code(mistake.edits).splitlines()
    lines = [line for line in difflib.ndiff(wrong, right)
             if line[0] in "-+" or line[0] == " " and mistake.context and mistake.context in line]
    return tuple(textwrap.dedent("\n".join(line[2:] for line in lines if line[0] in (sign, " "))) for sign in "-+")


def results(rows, chosen):
    """Returns the Result of each exercise that enough students handed in for a summary without names."""
    all_results = [Result(exercise, [row for row in rows if row.number == exercise.number]) for exercise in chosen]
    return [result for result in all_results if result.handed_in >= SMALL]


def discuss_first(results):
    """Returns the three exercises that most students got wrong, the first one first."""
    worth = [result for result in results if result.counts["wrong"] >= SMALL]
    return sorted(worth, key=lambda result: -result.counts["wrong"])[:3]


def how_many(count):
    """Returns "12 students", or "a few students" if there are so few that they might be known."""
    return f"{count} students" if count >= SMALL else "a few students"


def blurred(counts):
    """Returns {one of RESULTS: number of students}, in which one and two students look the same.

    Each counts as one and a half. The largest number takes the difference, so that subtracting does not reveal it.
    """
    shown = {name: counts[name] for name in RESULTS}
    few, most = [name for name in RESULTS if 0 < shown[name] < SMALL], max(shown, key=shown.get)
    students = sum(shown[name] for name in few)
    if most in few:
        return shown | dict.fromkeys(few, students / len(few))
    return shown | dict.fromkeys(few, SMALL / 2) | {most: shown[most] + students - len(few) * SMALL / 2}


def shares(result):
    """Returns {one of RESULTS: percentage}, rounded to the nearest five; LEAST stands for less, 100 - LEAST for almost all.

    What rounding adds or leaves stays, so they need not add up to 100.
    """
    shown = blurred(result.counts)
    total = sum(shown.values())
    return {name: rounded(100 * count / total) for name, count in shown.items()}


def rounded(percentage):
    if percentage in (0, 100):
        return int(percentage)
    return min(100 - LEAST, max(LEAST, 5 * math.floor(percentage / 5 + 0.5)))


def widths(result):
    """Returns the shares, made smaller where they add up to more than 100, for bars of the same length."""
    percentages = shares(result)
    return {name: value * 100 / max(100, sum(percentages.values())) for name, value in percentages.items()}


def for_picture(results):
    """Returns the arguments of views.class_report: percentages by exercise, and the mistakes that are counted."""
    names = {"right": "pass", "wrong": "fail", "unfinished": "todo", "not handed in": "missing"}
    exercises = {result.exercise.file.removesuffix(".py"): {names[name]: value for name, value in widths(result).items()}
                 for result in results}
    mistakes = [{"mistake": finding.name, "exercise": result.exercise.file.removesuffix(".py"),
                 "count": finding.students, "say": finding.sentence} for result in results for finding in result.findings
                if finding.name and finding.students >= SMALL]
    return exercises, sorted(mistakes, key=lambda entry: -entry["count"])


def write_page(results, path):
    """Writes the page. Returns its path."""
    return replace_file(path, lambda file: file.write(page(results)))


def page(results):
    """Returns the page, which needs no other file.

    Parameters:
        results : list of Result
    """
    first, students = discuss_first(results), len({row.student for result in results for row in result.rows})
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
             f"<title>What we got right and wrong</title><style>{STYLE}</style><main><h1>What we got right and wrong</h1>"
             f"<p>{students} students, {counted_work([result.exercise.number for result in results])}. Shares are rounded "
             "to five percent, so they need not add up to 100, and fewer than three students are “a few”."]
    parts += ["<ul class=key>", *(f"<li class={key(name)}>{name}" for name in RESULTS), "</ul>"]
    parts += ["<table><caption>How each exercise went</caption>", *map(bar, results), "</table>"]
    if first:
        parts.append("<h2>Let us discuss first</h2><p>The exercises that most students got wrong.")
        parts += [section(result, 3) for result in first]
    rest = [result for result in results if result not in first and any(f.students >= SMALL for f in result.findings)]
    if rest:
        parts.append("<h2>The other exercises</h2>")
        parts += [section(result, 2) for result in rest]
    return "\n".join([*parts, "</main>"]) + "\n"


def key(name):
    return name.split()[0]


def bar(result):
    """Returns a row of the table with a bar of shares."""
    labels = {100 - LEAST: "over 95%"} | {value: f"{value}%" for value in (*range(10, 100, 5), 100)}
    percentages = shares(result)
    cells = [f"<span class={key(name)} style='width:{width:.4g}%'>{labels.get(percentages[name], '')}</span>"
             for name, width in widths(result).items() if width]
    title = html.escape(result.exercise.title)
    return f"<tr><th>{result.exercise.number}<td>{title}<td class=bar>{''.join(cells)}"


def section(result, most):
    """Returns the findings of one exercise: those of many students in full, those of a few as sentences."""
    exercise = result.exercise
    parts = [f"<section><h3>{exercise.number} {html.escape(exercise.title)}</h3>"]
    counted = [finding for finding in result.findings if finding.students >= SMALL]
    for finding in counted[:most]:
        parts.append(f"<h4>{how_many(finding.students)}{f' <small>{finding.name}</small>' if finding.name else ''}</h4>")
        if finding.wrong or finding.right:
            parts.append(f"<div class=code><figure class=bad><figcaption>wrong</figcaption><pre>"
                         f"{html.escape(finding.wrong) or '(line missing)'}</pre></figure><figure class=good><figcaption>"
                         f"right</figcaption><pre>{html.escape(finding.right) or '(no such line)'}</pre></figure></div>")
        parts.append(f"<p>{html.escape(finding.sentence)}")
    few = [finding for finding in result.findings if finding.students < SMALL]
    if few and len(counted) <= most:
        parts.append("<h4>A few students</h4><ul>")
        parts += [f"<li>{html.escape(finding.sentence)}" for finding in few[:3]]
        parts.append("</ul>")
    if not result.findings:
        parts.append("<p>The mistakes are all different, so it helps to do this exercise together on the board.")
    return "\n".join([*parts, "</section>"])
