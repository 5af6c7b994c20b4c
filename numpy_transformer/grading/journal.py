"""Keeps graded rows in a file, so that an interrupted grading can be resumed. Each line is authenticated."""

import contextlib
import hashlib
import hmac
import json
import os
import threading

from .files import lock, open_regular, read_or_make_key

FIRST = "numpy-transformer journal 1"           # what the code of the first line follows


class Journal:
    """A file of lines, each with a code that only this user's key gives for the line and all lines before it.

    The first line holds the settings. Those that follow say which file is about to run, or hold the row of one that
    was graded. After a line that was changed, moved or added by somebody else, nothing is believed.

    Parameters:
        path : path of the file, new or left by an interrupted run
        key : bytes; None: the user's own key

    Attributes:
        settings : dict of the interrupted run; None if there was none
        rows : {(student, number, digest): row as a dict} of the interrupted run
        fatal : the same keys, of files that were running alone when the grader was killed
        suspects : the same keys, of files that were running beside others when the grader was killed
        saved : number of rows in the file
        warning : a sentence about lines that are ignored, or ""

    Raises: ValueError if the file is no journal of this user, or another grader is writing it.
    """

    def __init__(self, path, key=None):
        self.path, self.key = path, key or read_or_make_key()
        self.code, self.guard = FIRST, threading.Lock()
        self.settings, self.rows, self.saved, self.warning, self.is_running = None, {}, 0, "", False
        self.running, self.fatal, self.suspects = set(), set(), set()
        try:
            descriptor, is_new = open_regular(path, os.O_RDWR), False
        except FileNotFoundError:
            descriptor, is_new = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), True
        self.file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            if not lock(descriptor) or not is_same_file(descriptor, path):
                raise ValueError(f"another grader is writing {path}; wait for it, or choose another --out")
            if not is_new:
                self.read()
        except BaseException:
            self.file.close()
            raise

    def read(self):
        """Reads an interrupted run and cuts off what cannot be believed."""
        lines, end = self.file.read().split(b"\n"), 0
        for count, line in enumerate(lines[:-1], 1):
            entry = self.verified(line)
            if entry is None:
                self.warning = (f"line {count} of {self.path} is not as the grader wrote it: it and the "
                                f"{len(lines) - 1 - count} lines after it are ignored, and their files are graded again")
                break
            self.take(entry)
            end += len(line) + 1
        if self.settings is None:
            raise ValueError(f"{self.path} is not the journal of a grading run of this user; move it away")
        self.take({"ended": "killed"})
        self.saved = len(self.rows)
        self.file.seek(end)
        self.file.truncate()

    def verified(self, line):
        """Returns the entry in a line, or None if its code is wrong."""
        code, _, text = line.partition(b" ")
        if not hmac.compare_digest(code, self.next_code(text).encode()):
            return None
        self.code = code.decode()
        return json.loads(text)

    def next_code(self, text):
        return hmac.new(self.key, self.code.encode() + b" " + text, hashlib.sha256).hexdigest()

    def take(self, entry):
        """Takes an entry of an interrupted run into account."""
        if "settings" in entry:
            self.settings = entry["settings"]
        elif "started" in entry:
            self.running.add(tuple(entry["started"]))
        elif "row" in entry:
            row = entry["row"]
            key = row["student"], row["number"], row["digest"]
            self.rows[key] = row
            for keys in (self.running, self.fatal, self.suspects):
                keys.discard(key)
        elif entry["ended"] == "killed":
            (self.fatal if len(self.running) == 1 else self.suspects).update(self.running)
            self.suspects -= self.fatal
            self.running = set()
        else:                                   # ended in an orderly way: what was running is not to blame
            self.running = set()

    def start(self, settings):
        """Begins or resumes a run. Raises ValueError if the interrupted run had other settings."""
        earlier, self.settings = self.settings, settings
        if earlier is None:
            self.is_running = True
            return self.write({"settings": settings})
        for name, value in settings.items():
            if earlier.get(name) != value:
                raise ValueError(f"{self.path} contains rows graded with {name} {earlier.get(name)}, not {value}; use "
                                 "the same value to resume, or delete that file to start over")
        self.is_running = True
        self.write({"ended": "killed"})         # no effect after an orderly end

    def sentences(self):
        """Returns what the teacher should know of the interrupted run."""
        remarks = [self.warning] if self.warning else []
        if self.rows:
            remarks.append(f"resuming an interrupted run: {len(self.rows)} files are graded already")
        if self.fatal:
            remarks.append("the grader was killed while it ran these files, which are not run again without --retry: "
                           + names(self.fatal))
        if self.suspects:
            remarks.append(f"one of these files may have killed the grader, and they run alone now: {names(self.suspects)}")
        return remarks

    def started(self, key):
        """Records that a file is about to run, given by its student, number and digest."""
        self.write({"started": key})

    def add(self, row):
        self.write({"row": row.as_data()})
        with self.guard:
            self.saved += 1

    def write(self, entry):
        text = json.dumps(entry).encode()
        with self.guard:
            code = self.next_code(text)
            line, end = code.encode() + b" " + text + b"\n", self.file.tell()
            try:
                while line:                     # a disk that is nearly full takes a part of it
                    line = line[self.file.write(line):]
            except OSError:
                self.file.truncate(end)
                self.file.seek(end)
                raise
            self.code = code

    def close(self, remove=False):
        """Records an orderly end, and deletes the file if `remove` is True."""
        if self.file.closed:
            return
        try:
            if remove:
                os.unlink(self.path)            # while it is still locked
            elif self.is_running:
                with contextlib.suppress(OSError):          # a full disk; what was running then runs alone next time
                    self.write({"ended": "interrupted"})
        finally:
            self.file.close()


def names(keys):
    """Returns the students and exercises of a few keys."""
    return ", ".join(sorted(f"{student} {number}" for student, number, _ in keys)[:10])


def is_same_file(descriptor, path):
    """Returns False if another grader has finished and deleted the file since it was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False
