"""What crosses the border of the sandbox: results are read strictly, and only the listed system calls are allowed."""

import errno
import json
import platform
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from numpy_transformer.course.exercises.cases import Case
from numpy_transformer.course.sandbox import protocol
from numpy_transformer.course.sandbox.inside import case_arguments, seccomp, worker

linux = pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")


def npy(kind, shape):
    """A file of 16 bytes of data with this header."""
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(16)


def test_an_array_is_read_only_as_numpy_writes_it(tmp_path):
    path = tmp_path / "out.npy"
    rng = np.random.default_rng(0)
    y = rng.standard_normal((3, 4))
    for right in (y, y.T, y > 0, y.astype(np.float32), np.float32(2.5), np.arange(5), np.ones((0, 4)), np.uint8([[7]])):
        np.save(path, right)
        got = protocol.read_array(path.read_bytes())
        assert got.dtype == right.dtype and got.shape == right.shape and np.array_equal(got, right)
        assert worker.as_npy(np.asarray(right), np) == path.read_bytes()
    np.save(path, np.ones(3))
    whole = path.read_bytes()
    for wrong in (npy("'|O'", "(1,)"), npy("'<f8'", "(9, 9)"), npy("'<f3'", "(1,)"), npy("'<c16'", "(1,)"),
                  npy("'<U4'", "(1,)"), npy("'<f8'", "(1" + "1" * 90 + ",)"), npy("[('a', '<f8')]", "(1,)"),
                  npy("'<f8'", "(-1,)"), npy("'<f8'", "(3,)"), whole[:40], b"", whole[:-1], whole + b"x",
                  whole.replace(b"\x01\x00", b"\x02\x00", 1)):
        assert protocol.read_array(wrong) is None, wrong
    np.save(path, np.ones(protocol.LARGEST))
    assert protocol.read_array(path.read_bytes()) is None


def test_messages_of_a_child_are_cut_and_other_values_dropped():
    report = {"error": "x" * 9000, "kinds": ["y" * 900] * 40, "score": 100, "nested": [["a"]], "none": None}
    assert protocol.read_report(json.dumps(report).encode()) == {"error": "x" * 2000, "kinds": ["y" * 200] * 20}
    for text in ("[" * 60_000, "[]", "7", '"pass"', "{", "", '{"a": 1' + "0" * 5000 + "}"):
        assert protocol.read_report(text.encode()) == {}
    assert protocol.read_report(b"\xff\xfe{}") == {}
    assert protocol.read_report(json.dumps({"error": "x" * (1 << 17)}).encode()) == {}      # too large to be ours


def record(kind, case, index, content, length=None):
    return struct.pack("<BHHI", kind, case, index, len(content) if length is None else length) + content


def test_the_first_of_equal_records_counts_and_the_rest_is_dropped():
    first, second = record(2, 0, 0, b"first"), record(2, 0, 0, b"second")
    assert protocol.read_records(first + second + record(9, 65535, 7, b"")) == {(2, 0, 0): b"first", (9, 65535, 7): b""}
    for rest in (b"x", record(1, 0, 0, b"abc", 4), record(1, 0, 0, b"", 0xFFFFFFFF), b"\0" * 8):
        assert protocol.read_records(first + rest) == {(2, 0, 0): b"first"}
    assert protocol.read_records(b"") == {}
    many = b"".join(record(2, 0, i, b"") for i in range(9000))
    assert len(protocol.read_records(many)) == protocol.MOST_RECORDS


def test_a_result_without_its_report_has_no_outputs():
    case = Case("", (np.ones(2), 3.0))
    sent = {(2, 0, 0): worker.as_npy(np.ones(3), np), (3, 0, 0): worker.as_npy(np.zeros(2), np)}
    for report, outputs in (({"kinds": ["ndarray"]}, 1), ({}, 1), ({"kinds": []}, 1)):
        found, after, read = protocol.read_case({**sent, (1, 0, 0): json.dumps(report).encode()}, case, 0, 1)
        assert len(found) == outputs and np.array_equal(found[0], np.ones(3)) and read == report
        assert np.array_equal(after[0], np.zeros(2))        # it was changed in place
    found, after, read = protocol.read_case({}, case, 0, 1)
    assert found == [] and after[0] is case.inputs[0] and read == {}
    assert protocol.read_case({(3, 0, 0): b""}, case, 0, 1)[1] == [None]                    # it is gone


def test_arguments_arrive_as_they_were_sent():
    arrays = [np.arange(6.0).reshape(2, 3).T, np.array([], np.float32), np.bool_([True, False]), np.int64(3)]
    function = case_arguments.Function("lambda x: x + a", a=np.ones(2))
    case = Case("", (arrays[0], [arrays[1], 1.5, None]), (("forward", (arrays[2], arrays[3], "text", function)),))
    text, blob = protocol.pack((case,))
    ((inputs, calls, before),), reuses = case_arguments.unpack(json.loads(text), blob, np)
    received = [inputs[0], inputs[1][0], calls[0][1][0], calls[0][1][1]]
    for sent, got in zip(arrays, received):
        assert got.dtype == sent.dtype and np.array_equal(got, sent) and got.flags.writeable
    assert inputs[1][1:] == [1.5, None] and calls[0][0] == "forward" and calls[0][1][2] == "text"
    assert np.array_equal(calls[0][1][3](1.0), [2.0, 2.0]) and len(before) == 4 and reuses == [None]


def test_nested_arguments_keep_their_types_and_a_case_knows_whose_arrays_it_uses_again():
    def make(values, former=None):
        return Case("", ([(values, 1), [values + 1]], {"a": values, "b": (None, 2)}), reuses=former)
    first = make(np.zeros(2))
    other = make(np.ones(2), first)
    text, blob = protocol.pack((first, other))
    (one, two), reuses = case_arguments.unpack(json.loads(text), blob, np)
    assert reuses == [None, 0] and type(one[0][0][0]) is tuple and one[0][1]["b"] == (None, 2)
    nested = one[0][0]
    again = case_arguments.reused(one[0], two[0])
    assert again[0] is nested and nested[1][0] is one[0][0][1][0] and nested[0][0].tolist() == [1.0, 1.0]
    different = case_arguments.reused([np.zeros(3)], [np.ones(2)])
    assert different[0].shape == (2,)


@pytest.mark.parametrize("change", [
    "x[0] = 1", "x.shape = (2, 1)", "both.reverse()", "both.pop()", "both.append(1)", "both[0] = both[0].copy()",
    "both[0][0] = 1", "pair[1].append(2)", "table['a'][0] = 2", "table.pop('b')", "table['c'] = 0",
    "table['b'] = table.pop('b')",              # only their order
    "f.arrays['a'][0] = 9", "f.seen = 1", "f.source = ''"])
def test_every_change_of_an_argument_is_seen(change):
    x, both, pair = np.zeros(2), [np.zeros(2), np.ones(2)], (1.5, [1])
    table, f = {"b": 1, "a": np.zeros(1)}, case_arguments.Function("lambda y: y + a", a=np.ones(2))
    arguments = case_arguments.Arguments([x, both, pair, table, f], [("forward", [np.nan, "text", None])], np.ndarray)
    f(1.0)                                      # compiles the function, which is no change
    assert arguments.changed() == [] and len(arguments.arrays) == 4
    exec(change, {}, {"x": x, "both": both, "pair": pair, "table": table, "f": f})
    expected = {"x": 0, "both": 1, "pair": 2, "table": 3, "f": 4}[change.split("[")[0].split(".")[0]]
    assert arguments.changed() == [expected]


def verdict_of(program, architecture, number, *arguments):
    """Runs a filter as the kernel does: returns "allow", "kill" or the error number with which the call fails."""
    words = struct.pack("<iIQ6Q", number, architecture, 0, *[*arguments, *[0] * 6][:6])
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", words, value)[0]
        elif code in (0x15, 0x35):
            at += if_true if (accumulator == value if code == 0x15 else accumulator >= value) else if_false
        else:
            return {0x7FFF0000: "allow", 0x80000000: "kill"}.get(value, value & 0xFFFF)


X86, ARM = 0xC000003E, 0xC00000B7
OWN = 4321


def test_the_filter_allows_only_what_is_listed():
    """Numbers of read, clone, execve, kill, ... on both processors, from the kernel's tables."""
    x86, arm = seccomp.program(OWN, "x86_64"), seccomp.program(OWN, "aarch64")
    for filter_, architecture, number, *arguments in (
            (x86, X86, 0), (x86, X86, 62, OWN, 9), (x86, X86, 234, OWN, 1, 9), (x86, X86, 16, 0, 0x5401),
            (x86, X86, 302, OWN), (x86, X86, 302, 0), (arm, ARM, 63), (arm, ARM, 129, OWN, 9)):
        assert verdict_of(filter_, architecture, number, *arguments) == "allow", number
    for filter_, architecture, number, *arguments in (
            (x86, X86, 59), (x86, X86, 56), (x86, X86, 435), (x86, X86, 424), (x86, X86, 999), (x86, X86, 62, 1, 9),
            (x86, X86, 62, 2 ** 32 - 1, 9), (x86, X86, 16, 0, 0x5412), (x86, X86, 302, OWN + 1), (x86, X86, 72, 3, 8),
            (x86, X86, 0x40000000), (arm, ARM, 221), (arm, ARM, 220), (arm, ARM, 129, 1, 9)):
        assert verdict_of(filter_, architecture, number, *arguments) == errno.EPERM, number
    assert verdict_of(x86, 0x40000003, 0) == verdict_of(arm, X86, 63) == "kill"             # another processor's calls


@linux
@pytest.mark.parametrize("header, column", [("asm-generic/unistd.h", 2), ("asm/unistd_64.h", 1)])
def test_the_numbers_of_system_calls_are_the_kernels(header, column):
    """Compared with the kernel's own headers, where they are installed."""
    folders = [Path("/usr/include"), *Path("/usr/include").glob(f"{platform.machine()}-*")]
    path = next((folder / header for folder in folders if (folder / header).exists()), None)
    if path is None:
        pytest.skip(f"{header} is not installed")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text())
    numbers = {name: int(number) for name, number in defined}
    entries = [entry.split() for entry in seccomp.CALLS.split(",")]
    entries += [(name, x86, arm) for name, x86, arm, *_ in seccomp.SOME_VALUES + seccomp.OPENING]
    other_names = {"newfstatat": "fstatat"} if column == 2 else {}
    listed = {other_names.get(entry[0], entry[0]): entry[column] for entry in entries if entry[column] != "-"}
    assert len(listed) > 60 and {name: numbers.get(name) for name in listed} == {
        name: int(number) for name, number in listed.items()}


def test_no_dangerous_call_is_listed():
    listed = {entry.split()[0] for entry in seccomp.CALLS.split(",")} | {name for name, *_ in seccomp.SOME_VALUES}
    assert not listed & set("""clone clone3 fork vfork execve execveat socket socketpair connect ptrace process_vm_readv
        process_vm_writev pidfd_open pidfd_send_signal pidfd_getfd setpriority ioprio_set sched_setaffinity sched_setattr
        mknod mknodat shmget shmat msgget semget mq_open keyctl add_key io_uring_setup memfd_create bpf userfaultfd mount
        umount2 pivot_root chroot unshare setns open_by_handle_at name_to_handle_at perf_event_open prctl seccomp chmod
        fchmod chown setxattr utimensat truncate link linkat symlink symlinkat rt_sigqueueinfo rt_tgsigqueueinfo tkill
        capset setuid personality modify_ldt kcmp unlink unlinkat rename renameat renameat2 open openat openat2""".split())
