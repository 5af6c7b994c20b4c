"""What runs in the reading process: answers questions about what one student handed in, within limits."""

import contextlib
import json
import os
import signal
import sys
from dataclasses import replace

from ... import texts
from ...course.stages.files import look_at
from ...course.stages.table import STAGES
from . import clones
from .class_place import ClassPlace
from .downloads import count_people, find_download
from .formats import Owner
from .items import Unreadable
from .records import as_data
from .search import OutOfTime, Search, search_item
from .students import build_student

try:
    import resource
except ImportError:                             # Windows
    resource = None
TO_FINISH = 5                                   # seconds of processor time in which an answer is put together


def serve():
    """Answers the questions that come over stdin, until it is closed."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    with contextlib.ExitStack() as stack:
        place = None
        for line in questions:
            question = json.loads(line)
            if "class_id" in question and (place is None or place.class_id != question["class_id"]):
                stack.close()
                place = stack.enter_context(ClassPlace(question["class_id"], question["place"]))
            with limited(question["seconds"], question["megabytes"]):
                answer = ANSWERS[question["kind"]](place, question)
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()


@contextlib.contextmanager
def limited(seconds, megabytes):
    """Limits the memory of this process, and the processor time of the block.

    When the time has run out, OutOfTime is raised. A few seconds later the system ends the process.
    """
    if resource is None:                        # the clock of the process that asks has to do
        yield
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used, (_, most) = usage.ru_utime + usage.ru_stime, resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(ValueError, OSError):          # not on macOS
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGXCPU, out_of_time)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + 1 + seconds, most))
    signal.setitimer(signal.ITIMER_PROF, seconds + 1 + TO_FINISH)           # SIGPROF ends the process
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))


def out_of_time(*_):
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)           # it comes again each second
    raise OutOfTime


def read_student(place, question):
    """Returns the Student as data, None if a file turns out to be no student's; notes; and a download of a class in it."""
    pairs, downloads = [], []
    for entry in question["handed_in"]:
        owner = Owner.from_data(entry["owner"])
        try:
            item = place.item(entry["keys"])
        except Unreadable as error:             # it has changed meanwhile
            pairs.append((owner, Search(problems=[(entry["keys"][-1], "", str(error))])))
            continue
        history = clones.CloneHistory(item) if owner.key[0] == "github" else None
        if history and history.submitted:
            owner = replace(owner, submitted=history.submitted, time_from=clones.BY_COMMIT)
        pairs.append((owner, search_item(item, owner)))
        if history:
            pairs[-1][1].forget(history.starters)
        if owner.key[0] == "name" and not pairs[-1][1].is_over:
            downloads.append(find_download(item))
    searches = [search for _, search in pairs]
    if question["is_guess"] and not any(is_work(search, question["only"]) for search in searches):
        others = [one.where for search in searches for one in search.found if one.name.lower().endswith((".py", ".ipynb"))]
        return {"student": None, "notes": [f"{where} belongs to no exercise and to no student" for where in others],
                "download": ""}
    student, notes = build_student(question["name"], pairs, question["only"])
    return {"student": as_data(student), "notes": notes, "download": next(filter(None, downloads), "")}


def is_work(search, only):
    """Returns True if a file that is named after a student is work on an exercise, or cannot be read."""
    return any(one.answers for one in search.found) or bool(search.problems) or bool(
        only and len(only) == 1 and search.found)


def count_people_in(place, question):
    """Returns how many people's work is in what may be a download of a whole class."""
    return {"people": count_people(place.item(question["keys"]), whole_class=True)}


def read_repository(place, question):
    """Returns the name of the repository that a clone came from."""
    return {"repository": clones.repository(place.item(question["keys"]))}


def look_at_stage(place, question):
    """Returns what keeps a stage from being run at all, and the stages from whose files it imports names of the student's."""
    files = {name: text.encode() for name, text in question["files"].items()}
    said, lenders = look_at(STAGES[question["stage"]], files)
    return {"said": texts.as_data(said), "lenders": [stage.number for stage in lenders]}


ANSWERS = {"stage": look_at_stage, "student": read_student, "download": count_people_in, "repository": read_repository}
