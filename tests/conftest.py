"""Settings that all tests share."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from tests.libzmq import Libzmq, Logins

for name in ("COLUMNS", "LINES"):  # that tests run in several processes sets them, and screens have sizes of their own
    os.environ.pop(name, None)

ROOT = pathlib.Path(__file__).parent.parent

# The same examples on every run, so that a red test is red for everybody; `--hypothesis-profile=search` looks further.
# No deadline and no "too slow": machines that run tests are shared, and time is no property of the code.
settings.register_profile(
    "default", max_examples=40, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# For `make mutants`, where a failure is what is wanted and its smallest example is of no use.
settings.register_profile("mutants", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/ from what the code prints now")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("dsession"):  # with `-n`, in the process that hands out tests to others
        config.pluginmanager.import_plugin("tests.several_processes")


@pytest.fixture
def captures() -> pathlib.Path:
    """The folder of real captures."""
    return ROOT / "captures"


@pytest.fixture
def libzmq() -> Iterator[Libzmq]:
    """Makes sockets of libzmq."""
    from tests.libzmq import Libzmq

    made = Libzmq()
    yield made
    made.close()


@pytest.fixture
def logins(libzmq: Libzmq) -> Iterator[Logins]:
    """Who checks logins and keys for the servers of libzmq."""
    from tests.libzmq import Logins

    made = Logins(libzmq.context)
    yield made
    made.close()
