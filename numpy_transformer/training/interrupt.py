"""Ctrl-C that waits for the step to end."""

import contextlib
import os
import signal
import threading


class Interrupt:
    """While entered, the first Ctrl-C only sets `asked`; the second one stops the program at once, as ever."""

    def __init__(self):
        self.asked = False

    def ask(self, *_):
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with contextlib.suppress(OSError):                  # the reader of our lines may have got the Ctrl-C too
            os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")

    def __enter__(self):
        self.main = threading.current_thread() is threading.main_thread()       # only there may signals be handled
        if self.main:
            self.previous = signal.signal(signal.SIGINT, self.ask)
        return self

    def __exit__(self, *error):
        if self.main:
            signal.signal(signal.SIGINT, self.previous)
