"""Allows a process only the system calls that a computation needs, for the rest of its life.

Every other call fails with EPERM, which Python raises as PermissionError. No call is allowed that takes a file's name
away (unlink, rename) or makes a file without one (openat with O_TMPFILE): a file that is open or mapped takes room until
its end, and the limit of the folder counts the files that have names. Sources: seccomp(2), prctl(2), and the Linux
kernel's Documentation/userspace-api/seccomp_filter.rst. The numbers are those of the kernel's
arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

import ctypes
import errno
import os
import platform
import signal

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}     # AUDIT_ARCH_..., column of the table
CALLS = """
    read 0 63, write 1 64, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, poll 7 -, lseek 8 62, mmap 9 222, mprotect 10 226,
    munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, pread64 17 67,
    pwrite64 18 68, readv 19 65, writev 20 66, access 21 -, select 23 -, sched_yield 24 124, mremap 25 216, msync 26 227,
    madvise 28 233, dup 32 23, dup2 33 -, pause 34 -, nanosleep 35 101, getitimer 36 102, alarm 37 -, setitimer 38 103,
    getpid 39 172, exit 60 93, uname 63 160, fsync 74 82, fdatasync 75 83, ftruncate 77 46, getdents 78 -, getcwd 79 17,
    chdir 80 49, fchdir 81 50, mkdir 83 -, rmdir 84 -, readlink 89 -, umask 95 166, gettimeofday 96 169, getrlimit 97 163,
    getrusage 98 165, sysinfo 99 179, times 100 153, getuid 102 174, getgid 104 176, geteuid 107 175, getegid 108 177,
    getppid 110 173, rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132,
    gettid 186 178, time 201 -, futex 202 98, getdents64 217 61, restart_syscall 219 128, clock_gettime 228 113,
    clock_getres 229 114, clock_nanosleep 230 115, exit_group 231 94, mkdirat 258 34, newfstatat 262 79,
    readlinkat 267 78, faccessat 269 48, pselect6 270 72, ppoll 271 73, dup3 292 24, preadv 295 69, pwritev 296 70,
    getcpu 309 168, getrandom 318 278, statx 332 291, faccessat2 439 439, close_range 436 436
"""
# Calls that are allowed for some values of one argument: name, numbers, the argument, the values. OWN is the process.
OWN = "own"
SOME_VALUES = (
    ("ioctl", 16, 29, 1, (0x5401, 0x5450, 0x5451)),                 # TCGETS (isatty), FIONCLEX, FIOCLEX
    ("fcntl", 72, 25, 1, (0, 1, 2, 3, 1030)),                       # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
    ("kill", 62, 129, 0, (OWN,)), ("tgkill", 234, 131, 0, (OWN,)),
    ("sched_getaffinity", 204, 123, 0, (0, OWN)), ("prlimit64", 302, 261, 0, (0, OWN)))
# Calls that are allowed unless their flags, in this argument, have the bit of O_TMPFILE: name, numbers, the argument.
OPENING = (("open", 2, "-", 1), ("openat", 257, 56, 2))

LOAD, AND, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06     # classic BPF
ALLOW, KILL = 0x7FFF0000, 0x80000000                                        # SECCOMP_RET_ALLOW, _KILL_PROCESS
REFUSE = 0x00050000 | errno.EPERM                                           # SECCOMP_RET_ERRNO
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16                                  # offsets in struct seccomp_data
X32 = 0x40000000
TMPFILE = 0x400000                                                          # the bit of O_TMPFILE alone
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 22, 2, 38, 1, 4


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8), ("if_false", ctypes.c_uint8),
                ("value", ctypes.c_uint32)]


class FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]


def program(own, machine=None):
    """Returns the filter for a process of this id: instructions (code, if_true, if_false, value)."""
    architecture, column = ARCHITECTURES[machine or platform.machine()]
    code = [(LOAD, 0, 0, ARCHITECTURE), (JUMP_IF_EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL),
            (LOAD, 0, 0, NUMBER), (JUMP_IF_AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE)]
    for number in (entry.split()[1 + column] for entry in CALLS.split(",")):
        if number != "-":
            code += [(JUMP_IF_EQUAL, 0, 1, int(number)), (RETURN, 0, 0, ALLOW)]
    for _, *numbers, argument, values in SOME_VALUES:
        tests = [(JUMP_IF_EQUAL, len(values) - i, 0, own if value is OWN else value) for i, value in enumerate(values)]
        code += [(JUMP_IF_EQUAL, 0, len(tests) + 3, numbers[column]), (LOAD, 0, 0, ARGUMENTS + 8 * argument), *tests,
                 (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    for number, flags in ((numbers[column], flags) for _, *numbers, flags in OPENING if numbers[column] != "-"):
        code += [(JUMP_IF_EQUAL, 0, 5, number), (LOAD, 0, 0, ARGUMENTS + 8 * flags), (AND, 0, 0, TMPFILE),
                 (JUMP_IF_EQUAL, 0, 1, 0), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    return [*code, (RETURN, 0, 0, REFUSE)]


def prctl(*arguments):
    words = [ctypes.c_ulong(argument) if isinstance(argument, int) else argument for argument in arguments]
    if ctypes.CDLL(None, use_errno=True).prctl(*words, *[ctypes.c_ulong(0)] * (5 - len(words))):
        raise OSError(ctypes.get_errno(), f"prctl({arguments[0]}) failed")


def die_with_parent(parent):
    """Ends this process as soon as its parent, the process of this id, has ended."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:                  # it has ended before
        os._exit(1)


def hide():
    """Keeps processes of the same user from this one's memory and, through /proc, from its pipes."""
    prctl(PR_SET_DUMPABLE, 0)


def restrict():
    """Installs the filter. It cannot be removed."""
    instructions = program(os.getpid())
    array = (Instruction * len(instructions))(*instructions)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(FilterProgram(len(array), array)))
