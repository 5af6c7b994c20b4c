"""What `numpy-transformer grade` writes, and prints, after the work."""

from ..grading import anonymous, report
from ..grading.gradable import gradable
from ..grading.gradebooks import Gradebooks
from ..grading.gradebooks.people import Person, expected, people
from . import policy_options
from .terminal import output_columns, wrap


def check_gradebooks(arguments, class_, chosen, kept):
    """Checks before the work that the gradebooks can be filled. Raises ValueError.

    Parameters:
        class_ : list of Student
        chosen : the exercises that are graded
        kept : rows of an existing table that stay as they are
    """
    numbers = sorted({exercise.number for exercise in chosen} | {row.number for row in kept})
    Gradebooks(arguments, expected(class_, kept), [gradable()[number] for number in numbers])


def publish(arguments, settings, rows, problems, new=None):
    """Writes all outputs and prints the summary.

    Parameters:
        rows : all rows of the table, sorted
        problems : {student: sentences} about files that belong to no exercise
        new : rows to be printed instead of the summary, for a run that leaves most others as they were
    """
    from .. import views  # matplotlib is slow to import
    chosen = [gradable()[number] for number in sorted({row.number for row in rows})]
    left_out = [Person(name, ids, []) for name, ids in settings.get("left_out", {}).items()]
    gradebooks = Gradebooks(arguments, people(rows, problems), chosen, left_out)     # before writing, for its errors
    summary = report.summary(rows, chosen)
    report.write_csv(rows, arguments.out, report.Dialect(arguments.delimiter, arguments.bom),
                     policy_options.about_lateness(settings.get("policy") or {}))
    report.write_json(report.document(rows, settings, summary, problems), arguments.json)
    written = [str(arguments.out), str(arguments.json)]
    if arguments.feedback:
        count = report.write_feedback(rows, arguments.feedback, problems)
        written.append(f"{arguments.feedback} ({count} files)")
    written.append(write_picture(views.class_report(summary["exercises"], summary["mistakes"]), arguments.picture))
    if arguments.anonymous:
        written += write_anonymous(rows, chosen, arguments.anonymous)
    names, sentences = gradebooks.write()
    written += names
    for line in report.summary_lines(summary, output_columns()) if new is None else report.row_lines(new, output_columns()):
        print(line)
    for sentence in sentences:
        print(wrap(sentence))
    passed = sum(row.status == "pass" for row in rows)
    print("\n" + wrap(f"{passed} of {len(rows)} passed. Written: {', '.join(written)}. The seed {settings['seed']} is "
                      f"kept in {arguments.json}; do not show that file to students."))


def write_anonymous(rows, chosen, path):
    """Writes the page for the lecture and its picture. Returns the names of what was written."""
    from .. import views
    summary = anonymous.results(rows, chosen)
    if not summary:
        print(wrap(f"no {path}, because a summary without names needs at least {anonymous.SMALL} students"))
        return []
    anonymous.write_page(summary, path)
    picture = views.class_report(*anonymous.for_picture(summary), unit="share of the students in percent")
    return [str(path), write_picture(picture, path.with_suffix(".png"))]


def write_picture(figure, path):
    """Writes a picture. Returns its name. Raises: OSError with the path if it cannot be written."""
    from .. import views
    try:
        return str(views.write_figure(figure, path))
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
