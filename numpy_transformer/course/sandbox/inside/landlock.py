"""Lets a process and its children reach only some files, for the rest of their lives, without namespaces.

Source: the Linux kernel's Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h. Each version (ABI)
of Landlock can refuse more; what an older kernel cannot refuse, seccomp.py refuses in the student's process.
"""

import contextlib
import ctypes
import os

from seccomp import PR_SET_NO_NEW_PRIVS, prctl

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446         # system calls, the same on every processor
RETURN_VERSION, PATH_BENEATH = 1, 1
(EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO,
 MAKE_BLOCK, MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV) = (1 << i for i in range(16))
RIGHTS = {1: MAKE_SYM, 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}     # {version: the last right that it knows}
BIND_AND_CONNECT, SOCKETS_AND_SIGNALS = 3, 3                    # TCP ports (version 4); scopes (version 6)
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG
ON_FILES = READ_FILE
PR_CAPBSET_DROP, CAPABILITIES, CAPABILITY_VERSION = 24, 64, 0x20080522


class Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("descriptor", ctypes.c_int32)]


def call(number, *arguments):
    """Makes a system call. Returns its result. Raises OSError."""
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def restrict(readable, writable):
    """Refuses all files but these and those below them, TCP ports, and signals and sockets of other processes."""
    try:
        version = call(CREATE_RULESET, None, 0, RETURN_VERSION)
    except OSError as error:
        raise OSError(error.errno, f"the kernel has no Landlock ({error.strerror})") from error
    known = 2 * RIGHTS[max(first for first in RIGHTS if first <= version)] - 1
    wanted = Ruleset(known, BIND_AND_CONNECT if version >= 4 else 0, SOCKETS_AND_SIGNALS if version >= 6 else 0)
    size = 8 * (1 + (version >= 4) + (version >= 6))
    ruleset = call(CREATE_RULESET, ctypes.byref(wanted), size, 0)
    for path in readable:
        allow(ruleset, path, READ)
    allow(ruleset, writable, WRITE & known)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    call(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def allow(ruleset, path, rights):
    """Allows these rights to a file, or to a folder and all below it."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = Rule(rights if os.path.isdir(path) else rights & ON_FILES, descriptor)
        call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def drop_capabilities():
    """Gives up all rights of root but the ownership of files. Source: capabilities(7), capget(2)."""
    for capability in range(CAPABILITIES):
        with contextlib.suppress(OSError):      # unknown to this kernel, or not root
            prctl(PR_CAPBSET_DROP, capability)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "the capabilities cannot be dropped")
