"""Shows a lesson's figures in the terminal, where it can display pictures, or opens them with the system's viewer."""

import base64
import contextlib
import os
import re
import select
import shutil
import struct
import subprocess
import sys
import time

CHOICE = "NUMPY_TRANSFORMER_PICTURES"           # environment variable for a terminal that is not recognized
PROTOCOLS = ("kitty", "iterm", "sixel")
TERMS = {"xterm-kitty": "kitty", "xterm-ghostty": "kitty", "foot": "sixel", "mlterm": "sixel", "contour": "sixel"}
PROGRAMS = {"iTerm.app": "iterm", "WezTerm": "iterm", "mintty": "iterm", "ghostty": "kitty"}
CELL = (8, 16)                                  # width and height of a character in pixels, if the terminal does not say


def protocol(environment=None, ask=True):
    """Returns the protocol by which the terminal shows pictures: "kitty", "iterm", "sixel" or None.

    Parameters:
        environment : mapping of environment variables; None: those of this process
        ask : whether a terminal that the variables do not tell may be asked for its attributes
    """
    known = os.environ if environment is None else environment
    term, program = known.get("TERM", ""), known.get("TERM_PROGRAM", "")
    if known.get(CHOICE):
        return known[CHOICE] if known[CHOICE] in PROTOCOLS else None
    if known.get("TMUX") or term.startswith(("tmux", "screen", "dumb", "linux")):
        return None                             # a multiplexer keeps pictures from the terminal around it
    for name, found in TERMS.items():
        if term == name or term.startswith(f"{name}-"):
            return found
    if program in PROGRAMS:
        return PROGRAMS[program]
    if known.get("LC_TERMINAL") == "iTerm2":    # also through ssh
        return "iterm"
    if "KITTY_WINDOW_ID" in known and not program:
        return "kitty"
    may_know_sixels = term.startswith("xterm") and program != "Apple_Terminal"
    return "sixel" if ask and may_know_sixels and knows_sixels() else None


def knows_sixels(seconds=0.3):
    """Asks the terminal for its attributes and returns True if sixel graphics, number 4, are among them."""
    try:
        import termios
        import tty
    except ImportError:                         # Windows
        return False
    terminal = sys.stdin.fileno()
    if not os.isatty(terminal):
        return False
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        print("\x1b[c", end="", flush=True)
        reply, end = b"", time.monotonic() + seconds
        while not reply.endswith(b"c") and select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            reply += os.read(terminal, 1)
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
    attributes = re.search(rb"\x1b\[\?([\d;]+)c", reply)
    return attributes is not None and b"4" in attributes[1].split(b";")[1:]


def encoded(path, kind):
    """Returns a PNG file as characters that make the terminal show it, at most as wide as the terminal."""
    cell_width, cell_height = cell_size()
    columns = max(shutil.get_terminal_size().columns or 80, 2) - 1          # some terminals say 0
    if kind == "sixel":
        from ...views import sixels  # matplotlib is slow to import

        return sixels(path, columns * cell_width)
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])       # a PNG file begins with its size
    scale = min(1, columns * cell_width / width)
    columns, rows = round(width * scale / cell_width), max(1, round(height * scale / cell_height))
    text = base64.b64encode(data).decode()
    if kind == "iterm":
        return f"\x1b]1337;File=inline=1;size={len(data)};width={columns};preserveAspectRatio=1:{text}\x07"
    chunks = [text[start:start + 4096] for start in range(0, len(text), 4096)]
    controls = [f"a=T,f=100,q=2,c={columns},r={rows},"] + [""] * (len(chunks) - 1)
    return "".join(f"\x1b_G{control}m={int(n < len(chunks))};{chunk}\x1b\\"
                   for n, (control, chunk) in enumerate(zip(controls, chunks), 1))


def cell_size():
    """Returns the width and height of a character in pixels."""
    with contextlib.suppress(ImportError, OSError, ValueError):         # Windows; no terminal
        import fcntl
        import termios

        rows, columns, width, height = struct.unpack("4H", fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8)))
        if min(rows, columns, width, height) > 0:
            return max(1, width // columns), max(1, height // rows)
    return CELL


def open_picture(path):
    """Opens a picture with the system's viewer. Returns False on a machine without one."""
    if sys.platform == "win32":
        os.startfile(path)
        return True
    viewer = "open" if sys.platform == "darwin" else "xdg-open"
    has_display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not has_display or shutil.which(viewer) is None:
        return False
    return subprocess.run([viewer, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0
