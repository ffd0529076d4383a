"""Tests in several processes (`pytest -n 2`), and a summary.

The tests are collected once. Then processes are forked that take one file after the other, and send their reports to
the first process.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
import traceback
import warnings
from collections import Counter, defaultdict
from queue import SimpleQueue
from typing import Any, BinaryIO, NoReturn

import pytest

SPARK = "tests/spark/"
NUMBER = struct.Struct("<I")
"""A part of the tests, in the pipe from which processes take the next one."""

Part = list[pytest.Item]


def parts_of(items: list[pytest.Item]) -> list[Part]:
    """Divide the tests: one process runs all tests of a file, which share fixtures, and one process runs all tests that
    need Spark, because it starts slowly. The part with the most tests starts first, behind Spark."""
    parts: dict[str, Part] = defaultdict(list)
    for item in items:
        file = item.nodeid.partition("::")[0]
        parts[SPARK if file.startswith(SPARK) else file].append(item)
    return [parts[name] for name in sorted(parts, key=lambda name: (name != SPARK, -len(parts[name])))]


class Sender:
    """The plugin of a forked process that sends the name of each test that starts, and each report."""

    def __init__(self, config: pytest.Config, file: BinaryIO) -> None:
        self.config = config
        self.file = file

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._send((nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._send(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def _send(self, message: object) -> None:
        pickle.dump(message, self.file)
        self.file.flush()


def run_parts(session: pytest.Session, parts: list[Part], queue: int, file: BinaryIO) -> NoReturn:
    """Run the parts whose numbers arrive in `queue`, in a forked process, and end it."""
    config = session.config
    capturing: Any = config.pluginmanager.getplugin("capturemanager")
    try:
        capturing.stop_global_capturing()  # the file of captured output belongs to the first process
        capturing.start_global_capturing()
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(Sender(config, file))
        while number := os.read(queue, NUMBER.size):
            part = parts[NUMBER.unpack(number)[0]]
            for item, following in zip(part, [*part[1:], None], strict=True):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    except KeyboardInterrupt:
        session._setupstate.teardown_exact(None)
    except BaseException:
        capturing.stop_global_capturing()
        traceback.print_exc()
    finally:
        os._exit(0)


class Processes:
    """The plugin of the first process, which runs the tests in `count` others."""

    def __init__(self, count: int) -> None:
        self.count = count

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None
        parts = parts_of(session.items)
        queue, end = os.pipe()
        os.write(end, b"".join(map(NUMBER.pack, range(len(parts)))))
        os.close(end)
        temporary: Any = session.config._tmp_path_factory
        folder = temporary.getbasetemp()
        children: dict[int, BinaryIO] = {}
        for number in range(min(self.count, len(parts))):
            ends = os.pipe()
            receiving, sending = os.fdopen(ends[0], "rb"), os.fdopen(ends[1], "wb")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy, which the child does not need
                pid = os.fork()
            if not pid:
                for file in (receiving, *children.values()):
                    file.close()
                temporary._basetemp = folder / f"process-{number}"
                temporary._basetemp.mkdir(mode=0o700)
                run_parts(session, parts, queue, sending)
            sending.close()
            children[pid] = receiving
        os.close(queue)
        try:
            self._report(session, list(children.values()))
        finally:
            for pid in children:
                os.kill(pid, signal.SIGINT)  # an ended one is a zombie until it is waited for
            for pid, file in children.items():
                os.waitpid(pid, 0)
                file.close()
        return True

    def _report(self, session: pytest.Session, files: list[BinaryIO]) -> None:
        """Report what the processes send until all have ended, or enough tests have failed."""
        hook = session.config.hook
        messages: SimpleQueue[tuple[BinaryIO, Any]] = SimpleQueue()

        def receive(file: BinaryIO) -> None:
            try:
                while True:
                    messages.put((file, pickle.load(file)))
            except (EOFError, pickle.UnpicklingError):
                messages.put((file, None))

        for file in files:
            threading.Thread(target=receive, args=(file,), daemon=True).start()
        running: dict[BinaryIO, tuple[str, Any]] = {}
        ended = finished = 0
        while ended < len(files):
            file, message = messages.get()
            if isinstance(message, tuple):
                running[file] = message
                continue
            if message is not None:
                report = hook.pytest_report_from_serializable(config=session.config, data=message)
            else:
                ended += 1
                if file not in running:
                    continue
                text = "the process ended while it ran this test"
                report = pytest.TestReport(*running[file], {}, "failed", text, "teardown")
            hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                finished += 1
                nodeid, location = running.pop(file)
                hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        if finished < len(session.items):
            raise session.Interrupted(f"{len(session.items) - finished} tests were not run")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of tests: the lines of dots do not show it if files run in parallel."""
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, float] = defaultdict(float)
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = report.nodeid.partition("::")[0].rpartition("/")[0]
                outcomes[folder][outcome] += bool(outcome)  # setup and teardown of fixtures have no outcome
                seconds[folder] += report.duration
    terminalreporter.section("what was run")
    for folder, counted in sorted(outcomes.items()):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in counted.items() if count)
        terminalreporter.write_line(f"{folder:<28} {seconds[folder]:5.0f} s  {counts}")
