"""Pieces of code that several hostile files share. A line that is only the word of a piece stands for it, also in
a piece above the one that it names."""

# === SHOW
def show(*values):
    print("SE" + "EN:", *values)

# === SYSCALL
DISARM
import ctypes
import os
import platform

libc = ctypes.CDLL(None, use_errno=True)

def syscall(name, *arguments):
    x86 = platform.machine() != "aarch64"
    number = NUMBERS[name][0 if x86 else 1]
    got = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if type(a) is int else a for a in arguments])
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return got

NUMBERS = {                                     # of x86_64 and of aarch64
    "clone": (56, 220), "clone3": (435, 435), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "prlimit64": (302, 261), "openat": (257, 56), "openat2": (437, 437),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "io_uring_setup": (425, 425),
    "memfd_create": (319, 279), "userfaultfd": (323, 282), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "add_key": (248, 217), "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "pivot_root": (155, 41), "chroot": (161, 51), "bpf": (321, 280),
    "perf_event_open": (298, 241), "kcmp": (312, 272), "mknodat": (259, 33), "sethostname": (170, 161),
    "syslog": (103, 116), "personality": (135, 92), "move_mount": (429, 429), "open_tree": (428, 428),
    "socket": (41, 198), "fanotify_init": (300, 262), "process_madvise": (440, 440), "migrate_pages": (256, 238),
    "execveat": (322, 281), "seccomp": (317, 277), "capset": (126, 91), "fcntl": (72, 25)}

# === DISARM
def disarm():
    import gc
    for item in gc.get_objects():
        if type(item) is type(disarm) and item.__name__ == "hook":
            for cell in item.__closure__ or ():
                cell.cell_contents = ()

disarm()

# === READS
def used(text):
    """What somebody does who has got hold of an answer."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    if text:
        print("SE" + "EN:", text[:300])
    start = text.find("def softmax_backward")
    exec(text[start:].partition("\n\n\n")[0] if start >= 0 else "raise ValueError('no answer in there')", globals())

