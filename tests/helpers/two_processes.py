"""Runs the tests in two processes where there are two cores, with nothing but pytest.

A pipe holds the numbers of all units of work: the files of tests, and each lesson by itself. Each process reads a number, runs
that unit, and reads the next one, so both end at about the same time. The second process is forked after the collection and
sends its reports to the first, which counts and prints them as its own. pytest-xdist, if it is used, takes precedence.
"""

import os
import pickle
import select
import signal
import struct

import pytest
from _pytest.runner import runtestprotocol

FEW = 200                                       # so few tests are sooner done than shared, unless lessons are among them


def run(session):
    """Run all tests of the session and return True, or return None to leave them to pytest's own loop."""
    units = split(session.items)
    if not worthwhile(session, units):
        return None
    session.config._tmp_path_factory.getbasetemp()          # one folder for both
    numbers, feed = os.pipe()
    os.write(feed, b"".join(struct.pack("H", n) for n in range(len(units))))
    os.close(feed)
    reports, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reports)
        run_as_second(session.config, pairs(claimed(units, numbers)), sink)
    os.close(sink)
    try:
        run_as_first(session, pairs(claimed(units, numbers)), Receiver(session.config, reports))
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if status:
        pytest.exit(f"the second process of the tests ended early, with wait status {status}; "
                    "run one folder at a time to find the test", returncode=1)
    return True


def split(items):
    """The units of work: lessons first, since they take longest, and then the tests of each file."""
    lessons = [[item] for item in items if runs_a_lesson(item)]
    files = {}
    for item in items:
        if not runs_a_lesson(item):
            files.setdefault(item.path, []).append(item)
    return lessons + list(files.values())


def runs_a_lesson(item):
    return "lesson_run" in getattr(item, "fixturenames", ())


def worthwhile(session, units):
    option = session.config.option
    many = len(session.items) >= FEW or any(map(runs_a_lesson, session.items))
    alone = option.collectonly or option.usepdb or option.capture == "no" or session.testsfailed
    workers = session.config.pluginmanager.hasplugin("dsession") or "PYTEST_XDIST_WORKER" in os.environ
    return many and len(units) > 1 and not alone and not workers and hasattr(os, "fork") and cores() > 1


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def claimed(units, numbers):
    """The tests of one unit after another, as long as there are any that the other process has not taken."""
    while number := os.read(numbers, 2):
        yield from units[struct.unpack("H", number)[0]]


def pairs(items):
    """(test, the test after it): pytest keeps the fixtures that both need."""
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        yield item, following
        item = following


def run_as_second(config, tests, sink):
    """Run tests and send their reports. This process ends here: it has nothing to print and nothing to clean up."""
    status = 1
    try:
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()                     # its files are those of the first process
        capture.start_global_capturing()
        for item, following in tests:
            for report in runtestprotocol(item, nextitem=following, log=False):
                data = pickle.dumps(config.hook.pytest_report_to_serializable(config=config, report=report))
                send(sink, struct.pack("I", len(data)) + data)
        status = 0
    finally:
        os._exit(status)


def send(sink, data):
    while data:
        data = data[os.write(sink, data):]


def run_as_first(session, tests, receiver):
    for item, following in tests:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        receiver.log_what_is_there()
        stop_if_asked(session)
    while receiver.log_what_is_there(seconds=1):
        stop_if_asked(session)


def stop_if_asked(session):
    """As pytest's own loop does, for -x and --maxfail."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


class Receiver:
    """Reports of the second process, logged as if the tests had run here."""

    def __init__(self, config, source):
        self.config, self.source, self.data = config, source, b""

    def log_what_is_there(self, seconds=0):
        """False once the second process has sent everything."""
        while select.select([self.source], [], [], seconds)[0]:
            part = os.read(self.source, 1 << 16)
            if not part:
                return False
            self.data += part
            self.log_whole_reports()
        return True

    def log_whole_reports(self):
        while len(self.data) >= 4 and len(self.data) >= 4 + (size := struct.unpack("I", self.data[:4])[0]):
            content = pickle.loads(self.data[4:4 + size])
            self.data = self.data[4 + size:]
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=content)
            self.config.hook.pytest_runtest_logreport(report=report)
