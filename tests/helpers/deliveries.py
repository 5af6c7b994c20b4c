"""Writes a class of pupils as four systems deliver it. Nothing here is shared with the code that reads deliveries.

The formats were read in these sources:
    Canvas      instructure/canvas-lms, lib/content_zipper.rb and app/models/attachment.rb (make_unique_filename);
                rubyzip's readme (names are UTF-8, but without the flag that says so)
    Moodle      moodle/moodle, mod/assign/classes/downloader.php (clean_filename in lib/moodlelib.php), and older
                releases, whose folders end with an underscore
    Gradescope  the file submission_metadata.yml as programs that read it expect it
    GitHub      github/gh-classroom, `gh classroom clone student-repos`
"""

import dataclasses
import datetime
import html
import io
import os
import re
import stat
import subprocess
import unicodedata
import zipfile
from pathlib import Path

from numpy_transformer.course.exercises import choose

from .pupil import Truth
from .uploads import zipped

DOWNLOADED = (2026, 10, 20, 9, 30, 0)           # Canvas and Moodle give every entry the time of the download


class Unflagged(zipfile.ZipInfo):
    """An entry whose name is UTF-8, without the flag that says so."""

    def _encodeFilenameFlags(self):             # noqa: N802, a name of the standard library
        return self.filename.encode(), self.flag_bits


def flat(pupil):
    """{name: content} for systems that take files only: a zip instead of folders or links."""
    if not pupil.links and not any("/" in path for path in pupil.files):
        return pupil.files
    links = [(path, target, stat.S_IFLNK | 0o777) for path, target in pupil.links.items()]
    return {"homework.zip": zipped(pupil.files, links)}


# Canvas: a zip with one flat list of files.

def canvas(pupils, path, anonymous=False, flagged=False):
    """Writes what "Download Submissions" gives for one assignment."""
    used, kind = set(), zipfile.ZipInfo if flagged else Unflagged
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i, pupil in enumerate(pupils):
            for name, content in canvas_files(pupil, 9100000 + 40 * i, anonymous):
                name = unique(name, used)
                archive.writestr(kind(name, DOWNLOADED), content)


def canvas_files(pupil, number, anonymous):
    """Yields (name, content) of a pupil. `number` is the id of the first file."""
    who = f"anon_{pupil.ids['anonymous']}" if anonymous else str(pupil.ids["canvas"])
    shown = [] if anonymous else [re.sub(r"_(\d+)_", r"\1", pupil.sortable).lower()]
    prefix = "_".join(shown + ["LATE"] * pupil.late + [who])
    prefix = "".join(c for c in prefix if c == "_" or unicodedata.category(c)[0] in "LMN")
    if pupil.online.startswith("https:"):
        yield f"{prefix}_link.html", f'<html><body><a href="{pupil.online}">{pupil.online}</a></body></html>\n'
    elif pupil.online:
        yield f"{prefix}_text.html", f"<html><body><p>{paragraphs(pupil.online)}</p></body></html>\n"
    else:
        for i, (name, content) in enumerate(flat(pupil).items()):
            taken = {name} if pupil.attempt > 1 else set()          # the first attempt has this name
            yield f"{prefix}_{number + i}_{re.sub(r'[/:*?<>|]+', '_', unique(name, taken))}", content


def unique(name, used):
    """Appends -1, -2, ... before the extensions, as Canvas does."""
    extension = re.search(r"(\.[A-Za-z][A-Za-z0-9]*)*(\.[A-Za-z0-9]*)$", name)
    end = extension.start() if extension else len(name)
    found, count = name, 0
    while found in used:
        count += 1
        found = f"{name[:end]}-{count}{name[end:]}"
    used.add(found)
    return found


def paragraphs(text):
    return html.escape(text).replace("\n\n", "</p>\n<p>").replace("\n", "<br>")


# Moodle: a zip with a folder for each student, or with one flat list of files.

PARTICIPANT = {"en": "Participant", "de": "Teilnehmer/in", "fr": "Participant"}


def moodle(pupils, path, folders=True, blind=False, language="en", old=False):
    """Writes what "Download all submissions" gives."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for pupil in pupils:
            name = PARTICIPANT[language] if blind else pupil.name
            prefix = clean(f"{name.replace('_', ' ')}_{pupil.ids['moodle']}")
            plugin = "onlinetext" if pupil.online else "file"
            files = {"onlinetext.html": f"<p>{paragraphs(pupil.online)}</p>"} if pupil.online else (
                flat(pupil) if pupil.links or not folders else pupil.files)
            for name, content in files.items():
                joint = "/" if folders else "_"
                ending = "_" if old and folders else ""
                entry = f"{prefix}_assignsubmission_{plugin}{ending}{joint}{name}"
                archive.writestr(zipfile.ZipInfo(entry, DOWNLOADED), content)


def clean(name):
    return re.sub(r"[\x00-\x1f&<>\"`|':\\/]", "", name)


# Gradescope: a zip with a folder for each submission, and the metadata of all of them.

def gradescope(pupils, path, assignment=8046601):
    """Writes what "Export Submissions" gives. Gradescope unpacks zips when they are submitted."""
    top, metadata = f"assignment_{assignment}_export", ["---"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for pupil in [pupil for pupil in pupils if pupil.hands_in and not pupil.partner]:
            folder = f"submission_{pupil.ids['submission']}"
            group = [pupil, *[other for other in pupils if other.partner is pupil]]
            metadata += [f"{folder}:", "  :submitters:"]
            for member in group:
                metadata += [f"  - :name: {scalar(member.name)}", f"    :sid: '{member.ids['gradescope']}'",
                             f"    :email: {member.ids['email']}"]
            metadata += [f"  :created_at: {yaml_time(pupil.submitted)}", "  :score: 0.0", "  :status: processed",
                         "  :results:", "    tests: []", "    output: |-", "      submission_1:", "      :name: none",
                         *history(pupil)]
            for name, content in as_uploaded(pupil).items():
                archive.writestr(zipfile.ZipInfo(f"{top}/{folder}/{name}", DOWNLOADED), content)
            for name, target in pupil.links.items():
                entry = zipfile.ZipInfo(f"{top}/{folder}/{name}", DOWNLOADED)
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
                archive.writestr(entry, target)
        archive.writestr(zipfile.ZipInfo(f"{top}/submission_metadata.yml", DOWNLOADED), "\n".join(metadata) + "\n")


def history(pupil):
    if pupil.attempt == 1:
        return ["  :history: []"]
    earlier = pupil.submitted - datetime.timedelta(hours=5)
    return ["  :history:", f"  - :id: {pupil.ids['submission'] - 7}", f"    :created_at: {yaml_time(earlier)}",
            "    :score: 0.0"]


def as_uploaded(pupil):
    if pupil.online:
        return {"homework.txt": pupil.online.encode()}
    return {name: content for path, upload in pupil.files.items() for name, content in unpacked(path, upload).items()}


def unpacked(path, content):
    """{path: content} of a zip's files, or of any other file itself."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            found = {name.replace("\\", "/").lstrip("/").replace("../", ""): archive.read(name) for name in names}
            return {path: content} if path.endswith(".docx") else found
    except (zipfile.BadZipFile, RuntimeError):  # broken, or encrypted
        return {path: content}


def scalar(text):
    """A string as Ruby writes it in YAML."""
    return f'"{text}"' if re.match(r"[^\w]", text) or ": " in text or " #" in text else text


def yaml_time(time):
    return time.astimezone(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f000 Z")


# GitHub Classroom: a folder of clones.

def github(pupils, folder, assignment="attention", starter=()):
    """Writes what `gh classroom clone student-repos` leaves: ASSIGNMENT-submissions/ASSIGNMENT-LOGIN with .git.

    The files of the exercises `starter` are in the repositories from the start. Students who have not put a file of
    their own there hand in that one.
    """
    top = Path(folder) / f"{assignment}-submissions"
    for pupil in pupils:
        clone = top / f"{assignment}-{pupil.ids['github']}"
        started = pupil.submitted - datetime.timedelta(days=9)
        given = {choose(number).file: choose(number).skeleton().encode() for number in starter}
        write(clone, {**given, "README.md": b"# Attention\n", ".gitignore": b"__pycache__/\n",
                      ".github/workflows/classroom.yml": b"name: Autograding Tests\n"})
        git(clone, "init", "-q", "-b", "main")
        git(clone, "remote", "add", "origin", f"https://example.edu/{clone.name}.git")
        commit(clone, "Initial commit", started, "classroom-bot")
        if pupil.before:
            write(clone, pupil.before)
            commit(clone, "first try", pupil.submitted - datetime.timedelta(days=1), pupil.name)
        write(clone, {"homework.txt": pupil.online.encode()} if pupil.online else pupil.files)
        for path, target in pupil.links.items():
            (clone / path).unlink(missing_ok=True)
            (clone / path).symlink_to(target)
        for number in starter:
            truth = pupil.truth[number]
            if pupil.online.startswith("https:") or truth.status.startswith("missing") or truth.note in pupil.files:
                pupil.truth[number] = Truth("todo|error", 0, note="" if pupil.online else truth.note)
        if pupil.hands_in:
            commit(clone, "Done!\n\n— at last", pupil.submitted, pupil.name)
    return top


def write(folder, files):
    for path, content in files.items():
        (folder / path).unlink(missing_ok=True)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def commit(clone, message, time, who):
    git(clone, "add", "-A", "-f")
    git(clone, "commit", "-q", "--allow-empty", "-m", message, time=time, who=who)


def git(clone, *arguments, time=None, who="none"):
    """Runs git without the settings of this machine's user, at a given time."""
    told = {"NAME": who, "EMAIL": "none@example.edu", "DATE": time.isoformat() if time else "2026-10-01T08:00Z"}
    names = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in told.items()}
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **names}
    subprocess.run(["git", "-c", "gc.auto=0", *arguments], cwd=clone, env=environment, check=True)


# What teachers collect themselves.

def canvas_by_exercise(pupils, folder):
    """A download of Canvas for each exercise, each of which is an assignment, in one folder."""
    numbers = sorted({number for pupil in pupils for number in pupil.truth})
    for number in numbers:
        part = f"ex{number.replace('.', '_')}"
        few = [dataclasses.replace(pupil, files={name: content for name, content in pupil.files.items()
                                                 if name.startswith(part)}) for pupil in pupils]
        canvas(few, folder / f"{part} submissions.zip")
    return folder


def folders(pupils, folder):
    """A folder for each student, named by login and name."""
    for pupil in pupils:
        mine = folder / f"{pupil.ids['login']} {pupil.name}"
        mine.mkdir()
        write(mine, {"homework.txt": pupil.online.encode()} if pupil.online else pupil.files)
        for path, target in pupil.links.items():
            (mine / path).symlink_to(target)
    return folder


def loose(pupils, folder):
    """Files from e-mails, all in one folder."""
    for pupil in pupils:
        write(folder, {f"{pupil.ids['login']}_{path}": content for path, content in pupil.files.items()})
    return folder


def notebooks(pupils, folder):
    """A notebook of each student, named by login and name."""
    write(folder, {f"{pupil.ids['login']}_{pupil.name}.ipynb": pupil.files["Untitled1.ipynb"] for pupil in pupils})
    return folder


def unpack(path):
    """Unpacks a delivery beside its zip, as the desktop's program does. Returns the new folder."""
    folder = path.with_suffix("")
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename if entry.flag_bits & 0x800 else entry.filename.encode("cp437").decode()
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if stat.S_ISLNK(entry.external_attr >> 16):
                target.symlink_to(archive.read(entry).decode())
            elif not name.endswith("/"):
                target.write_bytes(archive.read(entry))
                os.utime(target, (1791000000, 1791000000))
    return folder
