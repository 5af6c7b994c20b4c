"""Lets Ctrl-C wait until the end of a training step."""

import contextlib
import os
import signal
import threading


class Interrupt:
    """Inside the block, the first Ctrl-C only sets `asked`. The second one stops the program, or all MPI ranks, at once."""

    def __init__(self, comm=None):
        self.asked = False
        self.comm = comm

    def ask(self, *_):
        self.asked = True
        signal.signal(signal.SIGINT, self.stop_all_ranks if self.comm else signal.default_int_handler)
        if self.comm is None or self.comm.rank == 0:
            with contextlib.suppress(OSError):              # whatever reads stderr may have received the Ctrl-C too
                os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")

    def stop_all_ranks(self, *_):
        self.comm.Abort(130)

    def __enter__(self):
        self.main = threading.current_thread() is threading.main_thread()       # only it can handle signals
        if self.main:
            self.previous = signal.signal(signal.SIGINT, self.ask)
        return self

    def __exit__(self, *error):
        if self.main:
            signal.signal(signal.SIGINT, self.previous)
