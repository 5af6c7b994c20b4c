"""numpy-transformer figures: runs the lessons and writes all their pictures to one folder, by default the committed ones."""

import os
import shutil
import subprocess
import sys
import tempfile
from multiprocessing.dummy import Pool
from pathlib import Path

from ..course.lessons.environment import FIGURES
from ..course.lessons.files import lesson_number
from ..data.plurals import counted
from ..threads import cores
from ..training.progress import Progress
from .lesson import choose_lessons
from .parser import add_command
from .terminal import wrap


def add_to_parser(commands):
    parser = add_command(commands, "figures", run, help="run the lessons and draw all their pictures again",
                         description="Runs the lessons, two at a time if there are two cores, and writes their pictures to "
                                     "a folder. Pictures of earlier runs are replaced; in a checkout, these are the "
                                     "committed pictures unless --out names another folder. The same versions of Python "
                                     "and its packages draw the same files on the same kind of processor.")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="numbers of the lessons (default: all)")
    parser.add_argument("--out", metavar="FOLDER", default="figures", help="folder for the pictures")


def run(arguments):
    from ..views import check_folder  # matplotlib is slow to import

    folder = check_folder(arguments.out)
    lessons = choose_lessons(arguments.numbers)
    failed, drawn = [], []
    with tempfile.TemporaryDirectory() as scratch, Pool(min(2, cores())) as pool:
        (Path(scratch) / "lessons").mkdir()
        copies = [shutil.copy(path, Path(scratch) / "lessons") for path in lessons]
        with Progress(len(lessons), "lessons", "lesson") as progress:
            for path, result in pool.imap_unordered(draw_lesson, copies):
                progress.advance(path.stem)
                for picture in sorted((Path(scratch) / FIGURES).glob(f"{lesson_number(path)}_*")):
                    drawn.append(Path(shutil.copy(picture, folder)))
                if result.returncode:
                    failed.append((path.stem, (result.stderr.strip().splitlines() or ["no error message"])[-1]))
    size = sum(path.stat().st_size for path in drawn)
    print(wrap(f"{counted(len(drawn), 'picture')} of {counted(len(lessons), 'lesson')} in {folder}, {size / 1e6:.2f} MB"))
    for name, reason in sorted(failed):
        print(f"lesson {name} failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


def draw_lesson(path):
    """Runs a lesson, which draws its pictures into my-figures/ beside its folder. Returns the path and the finished process."""
    path = Path(path)
    search = [str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return path, subprocess.run([sys.executable, str(path)], capture_output=True, text=True, encoding="utf-8",
                                stdin=subprocess.DEVNULL, cwd=path.parent,
                                env={**os.environ, "PYTHONPATH": os.pathsep.join(search),
                                     "PYTHONIOENCODING": "utf-8"})
