"""The files of the lessons: 05_attention.py is lesson 05, and 00b_backward_on_scalars.py is lesson 00b."""

import contextlib
import re
import shutil
from importlib import metadata
from pathlib import Path

from ...texts import listed
from .words import lesson_words

NAME = re.compile(r"(\d\d[a-z]?)_\w+\.(?:py|ipynb)")
WRITTEN = re.compile(r"(\d{1,2})([a-z]?)", re.IGNORECASE)
START = "lesson.start(__name__"                 # every lesson contains this call
PARTS = "00", "02c", "11", "16", "22"            # the first lesson of each part
LESSONS = {                                     # stage of a student's own Transformer: the lessons that prepare it
    1: ("00", "00b", "00c", "01"),
    2: ("00c", "02", "03"),
    3: ("08",),
    4: ("09",),
    5: ("04b", "04c", "05", "05b", "06"),
    6: ("07",),
    7: ("10",),
    8: ("03", "04", "12"),
    9: ("02b", "19"),
    10: ("12", "12b"),
    11: ("02c",),
    12: ("11", "11b", "11c", "13", "13b", "14", "14b", "14c", "15", "15b"),
}
CHECKOUT = Path(__file__).resolve().parents[3] / "lessons"


def lesson_number(path):
    """Returns the number of a lesson from the name of its script or notebook, such as "05" or "00b"; None for other files."""
    match = NAME.fullmatch(Path(path or "").name)
    return match[1] if match else None


def full_number(text):
    """Returns the number that someone means by "5", "05" or "0B" ("05", "05", "00b"); None if it is none."""
    match = WRITTEN.fullmatch(text)
    return match[1].zfill(2) + match[2].lower() if match else None


def lessons_in(folder):
    """Returns {number: path} of the lessons in a folder, in their order."""
    return {lesson_number(path): path for path in sorted(Path(folder).glob("*.py"))
            if lesson_number(path) and path.is_file()}


def part_of(number):
    """Returns which part of the course a lesson belongs to, counted from 1."""
    return sum(first <= number for first in PARTS)


def prepared_by(number):
    """Returns the numbers of the stages that a lesson prepares, in their order; [] if it goes beyond them."""
    return [stage for stage, lessons in LESSONS.items() if number in lessons]


def about_stages(number):
    """Returns a sentence about the stages that a lesson prepares, with the commands to begin and to check them."""
    stages = prepared_by(number)
    if not stages:
        return lesson_words("run.beyond_stages", count=len(LESSONS), command="numpy-transformer build status")
    return lesson_words("run.stages", n=len(stages), numbers=listed([str(stage) for stage in stages]),
                        start="numpy-transformer build start mine",
                        check=f"numpy-transformer build check {' '.join(map(str, stages))}")


def what_is_next(path):
    """Returns what to do after a lesson, with commands, in a line each: the stages that it prepares, at the end of a part
    the part's test, and the next lesson in the folder.
    """
    number = lesson_number(path)
    following = next((other for other in lessons_in(path.parent) if other > number), None)
    lines = [about_stages(number)]
    if is_end_of_part(number, following):
        part = part_of(number)
        lines.append(lesson_words("run.test", part=part, command=f"numpy-transformer exercise start my-exercises test{part}"))
    if following is None:
        lines.append(lesson_words("run.last"))
    else:
        lines.append(lesson_words("run.next", command=f"numpy-transformer lesson {following} --step"))
    return "\n".join(lines)


def is_end_of_part(number, following):
    """Whether a part of the course ends with a lesson, which is followed by another one or, if that is None, by none."""
    if following is None:
        return part_of(number) == len(PARTS)
    return part_of(number) != part_of(following)


def find_lessons():
    """Returns {number: path} of the lessons in the first of these folders that has any: lessons/ here; the current folder;
    a folder in it that `lesson start` has made; lessons/ of the checkout; the copy that was installed with the package.

    Raises: ValueError if there are none.
    """
    named = Path() if Path.cwd().name == "lessons" else Path("lessons")
    if lessons_in(named):
        return lessons_in(named)
    with contextlib.suppress(PermissionError):
        for folder in (Path(), *sorted(path for path in Path().iterdir() if path.is_dir())):
            if has_our_lessons(folder):
                return lessons_in(folder)
    return lessons_in(original_lessons())


def has_our_lessons(folder):
    """Returns True if a folder contains copies of the lessons; other scripts may have names such as 05_plot.py, too."""
    return any(START in path.read_text(encoding="utf-8", errors="replace") for path in lessons_in(folder).values())


def original_lessons():
    """Returns the folder of the checkout's or the installed lessons. Raises ValueError if there is none."""
    folder = CHECKOUT if lessons_in(CHECKOUT) else installed_lessons()
    if folder is None:
        raise ValueError(lesson_words("files.none"))
    return folder


def installed_lessons():
    """Returns the folder of the lessons that were installed with the package, or None."""
    for distribution in metadata.distributions(name="numpy-transformer"):
        for file in distribution.files or ():
            if lesson_number(file) and file.parent.name == "lessons":
                return Path(file.locate()).resolve().parent
    return None


def adapt_links(page):
    """Lets the links of a copied page lead to the figures that the copied lessons draw. Links to other folders become text."""
    text = re.sub(r"\[([^][]*)\]\(\.\./(?!figures/)[^)]*\)", r"\1", page.read_text(encoding="utf-8"))
    folder = "../my-figures/" if page.resolve().parent.name == "lessons" else "my-figures/"        # see environment.figure_folder
    text = text.replace("](../figures/", f"]({folder}")
    page.write_text(text, encoding="utf-8")


def copy_lessons(folder):
    """Copies the lessons and their pages into a folder. Files that exist there do not change.

    Returns (paths of the files that were written, number of files that existed).
    Raises: ValueError if the target is not a folder for copies.
    """
    folder, source = Path(folder), original_lessons()
    existing = next((path for path in (folder, *folder.absolute().parents) if path.exists()), None)
    if existing is not None and not existing.is_dir():
        raise ValueError(lesson_words("files.target_is_file", path=existing))
    if folder.resolve() == source.resolve():
        raise ValueError(lesson_words("files.target_is_source", folder=folder))
    files = [*lessons_in(source).values(), *sorted(source.glob("*.md")), *sorted(source.glob("*/*.md"))]        # ko/05_attention.md
    copies = {folder / file.relative_to(source): file for file in files}
    missing = [copy for copy in copies if not copy.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for copy in missing:
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(copies[copy], copy)
        if copy.suffix == ".md" and copy.parent == folder:              # those of a translation lead to its neighbors
            adapt_links(copy)
    return missing, len(files) - len(missing)
