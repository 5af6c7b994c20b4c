"""The parent's side of a sandboxed worker: starts it, sends requests, and waits for replies on its own clock."""

import contextlib
import os
import re
import select
import subprocess
import time

from .inside.worker import ENDED, MOST_SENT, READY, REPLY
from .protocol import request

PRINTED = 4000                                  # characters kept of what a student's file printed
BEFORE = re.compile(r"(bwrap|\w+Error): (\[Errno \d+\] )?")     # a complaint
TO_START, TO_SPARE = 60, 5                      # seconds until a worker is ready, and beyond a task's own limit


class Stopped(Exception):
    """Raised when the grader was interrupted while a student's file was running."""


class Server:
    """A worker in a sandbox. It must be closed, and be used by the thread that made it: it ends with that thread.

    Parameters:
        command : starts the worker
        setup : the first request
        stop : function that is called several times a second; ends the work once it returns True
    Raises: OSError if the worker cannot be started, Stopped if `stop` returned True.
    """

    def __init__(self, command, setup, stop=lambda: False, environment=None):
        self.stop, self.answers = stop, True        # False once it has failed to answer
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        bufsize=0, env=environment, cwd="/", start_new_session=True)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            os.set_blocking(pipe.fileno(), False)
        try:
            ready = self.ask(request(setup), TO_START)
        except BaseException:
            self.close()
            raise
        if ready is None:
            complaint = (self.process.stderr.read() or b"").decode("utf-8", "replace").strip().splitlines()
            self.close()
            raise OSError(BEFORE.sub("", complaint[-1])[:300].rstrip(".") if complaint else "it did not start")

    def send(self, message, seconds=TO_START):
        """Sends a request to which there is no reply. Returns False if the worker does not take it."""
        end, view = time.monotonic() + seconds, memoryview(message)
        while view:
            if not self.wait(self.process.stdin, select.POLLOUT, end):
                return False
            try:
                view = view[os.write(self.process.stdin.fileno(), view[:1 << 16]):]
            except BlockingIOError:             # less room in the pipe than the system had promised
                continue
            except OSError:
                return False
        return True

    def ask(self, message, seconds):
        """Sends a request. Returns (exit code, word of ENDED, processor seconds, printed, results), or None."""
        self.answers = False
        end = time.monotonic() + seconds
        head = self.read(REPLY.size, end) if self.send(message, seconds) else None
        if head is None:
            return None
        mark, code, ended, spent, printed, sent = REPLY.unpack(head)
        is_sound = mark == READY and ended < len(ENDED) and 0 <= spent < 1e6
        if not is_sound or printed > 4 * PRINTED or sent > MOST_SENT:
            return None
        printed, sent = self.read(printed, end), self.read(sent, end)
        if printed is None or sent is None:
            return None
        self.answers = True
        return code, ENDED[ended], spent, printed.decode("utf-8", "replace")[:PRINTED], sent

    def read(self, count, end):
        """Returns this many bytes of the worker's stdout, or None if they do not come in time."""
        data = bytearray()
        while len(data) < count:
            if not self.wait(self.process.stdout, select.POLLIN, end):
                return None
            part = os.read(self.process.stdout.fileno(), min(count - len(data), 1 << 20))
            if not part:
                return None
            data += part
        return bytes(data)

    def wait(self, pipe, event, end):
        """Waits until the pipe is ready. Returns False if it is not by this time."""
        poll = select.poll()
        poll.register(pipe.fileno(), event)
        while True:
            if self.stop():
                raise Stopped
            left = end - time.monotonic()
            if left <= 0:
                return False
            if poll.poll(1000 * min(left, 0.1)):
                return True

    def close(self):
        """Ends the worker, and with it all that runs in its sandbox: asks it to, or else kills it."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        if not (self.answers and self.ended(0.5)):
            self.process.kill()
            self.ended(TO_SPARE)
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def ended(self, seconds):
        """Waits until the worker's end of the pipe is closed. Returns False if it is not by this time."""
        poll, end = select.poll(), time.monotonic() + seconds
        poll.register(self.process.stdout.fileno(), select.POLLIN)
        while poll.poll(1000 * max(0, end - time.monotonic())):
            if not os.read(self.process.stdout.fileno(), 1 << 20):
                return True
            if time.monotonic() > end:
                break
        return False
