"""Ctrl-C that waits for the step to end."""

import signal
import sys
import threading


class Interrupt:
    """While entered, the first Ctrl-C only sets `asked`; the second one stops the program at once, as ever."""

    def __init__(self):
        self.asked = False

    def ask(self, *_):
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("\nstopping after this step; Ctrl-C again stops at once", file=sys.stderr, flush=True)

    def __enter__(self):
        self.main = threading.current_thread() is threading.main_thread()       # only there may signals be handled
        if self.main:
            self.previous = signal.signal(signal.SIGINT, self.ask)
        return self

    def __exit__(self, *error):
        if self.main:
            signal.signal(signal.SIGINT, self.previous)
