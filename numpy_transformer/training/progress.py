"""A progress bar in a terminal, and plain lines elsewhere."""

import contextlib
import sys

from tqdm import tqdm


class Progress:
    """Shows the progress of `total` pieces of work: a tqdm bar in a terminal, otherwise a line after every tenth.

    silent=True shows nothing; all MPI ranks but the first use it.
    """

    def __init__(self, total, title, unit="it", done=0, silent=False):
        self.total, self.title, self.silent = total, title, silent
        self.done, self.tenths = done, done * 10 // max(total, 1)
        self.bar = tqdm(total=total, desc=title, unit=unit, file=sys.stderr, disable=silent or None, initial=done,
                        bar_format="{desc}: {n_fmt}/{total_fmt} |{bar:4}| {remaining}{postfix}")

    def advance(self, note=""):
        self.done += 1
        tenths = self.done * 10 // self.total
        with contextlib.suppress(OSError):      # stderr may have been closed; the work continues
            self.bar.set_postfix_str(note, refresh=False)
            self.bar.update()
            if self.bar.disable and tenths > self.tenths and not self.silent:
                print(f"{self.title}: {self.done}/{self.total}  {note}".rstrip(), file=sys.stderr, flush=True)
        self.tenths = tenths

    def write(self, line, file=None):
        """Prints a line above the bar, to standard output or to `file`."""
        if self.silent:
            return
        with contextlib.suppress(OSError):
            self.bar.clear()
            print(line, file=file, flush=True)
            self.bar.refresh()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.bar.close()
