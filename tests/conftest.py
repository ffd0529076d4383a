"""Settings that all tests share."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.running import Run
    from tests.libzmq import Libzmq, Logins

for name in ("COLUMNS", "LINES"):  # screens in tests have sizes of their own
    os.environ.pop(name, None)
os.environ["TZ"] = "UTC"
time.tzset()

ROOT = pathlib.Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/ from what the code prints now")
    parser.addoption("--full", action="store_true", help="run everything: slow tests, all captures, more examples")


def pytest_configure(config: pytest.Config) -> None:
    # A job in the background (`nohup make test &`) ignores these, and the programs that tests start would as well.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # we still ignore it, but programs that we start do not
    if config.getoption("full"):
        os.environ["ZMTPSCOPE_TEST_SUITE"] = "full"  # processes that tests start inherit it
    from tests import suites

    suites.load_profile()
    gc.set_threshold(100_000, 20, 50)  # as the command line does


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of tests stay: looking at them again and again takes a fifth of the time


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, except those that the command line names."""
    from tests.suites import IS_FULL

    if IS_FULL or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.fixture
def captures() -> pathlib.Path:
    return ROOT / "captures"


@pytest.fixture
def libzmq() -> Iterator[Libzmq]:
    from tests.libzmq import Libzmq

    made = Libzmq()
    yield made
    made.close()


@pytest.fixture
def logins(libzmq: Libzmq) -> Iterator[Logins]:
    """A ZAP handler that checks logins and keys for servers of libzmq."""
    from tests.libzmq import Logins

    made = Logins(libzmq.context)
    yield made
    made.close()


@pytest.fixture
def zmtpscope(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process: exit code, standard output, standard error."""
    from zmtpscope.cli import run

    monkeypatch.delenv("ZMTPSCOPE_KEYLOG", raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        return code, *capfd.readouterr()

    return call
