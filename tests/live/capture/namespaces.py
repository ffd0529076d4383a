"""Programs that tests run in a network namespace of their own, with interfaces made for them."""

from __future__ import annotations

import functools
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[3]

VETH = (
    "ip link add va type veth peer name vb",
    "ip link set va addrgenmode none",
    "ip link set vb addrgenmode none",
    "ip addr add 10.9.8.7/24 dev va",
    "ip link set va up",
    "ip link set vb up",
)
"""Two Ethernet interfaces at the ends of one cable. Without IPv6 addresses the system sends nothing by itself."""


@functools.cache
def unshare() -> tuple[str, ...]:
    """The command that makes a network namespace, and one of mounts: as root, or as root of a user namespace.

    Skips where neither may.
    """
    if sys.platform != "linux":
        pytest.skip("network namespaces are a thing of Linux")
    for command in (("unshare", "--net", "--mount"), ("unshare", "--map-root-user", "--net", "--mount")):
        try:
            if not subprocess.run([*command, "ip", "link"], capture_output=True).returncode:
                return command
        except FileNotFoundError:
            pytest.skip("unshare (util-linux) and ip (iproute2) make network namespaces; one of them is missing")
    pytest.skip("this user may not make a network namespace; root may")


def run_in_namespace(setup: Sequence[str], command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run `command` in a new network namespace after the shell commands of `setup`."""
    script = "\n".join(["set -e", *setup, 'exec "$@"'])
    return subprocess.run([*unshare(), "sh", "-c", script, "sh", *command], capture_output=True, text=True, cwd=ROOT)


def python_in_namespace(setup: Sequence[str], program: str) -> str:
    """Return the output of a Python program in a new network namespace."""
    done = run_in_namespace(setup, [sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr
    return done.stdout


RUN = """
import sys, traceback
from pathlib import *
from {module} import {name} as test
try:
    test.__wrapped__(**{arguments!r})
except BaseException as error:
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    sys.exit("".join(line[:400] + "\\n" * (len(line) > 400) for text in lines for line in text.splitlines(True)))
"""
"""Runs a test; a failure prints all its variables."""


def in_namespace(*setup: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The test runs in a process and a network namespace of its own after the shell commands of `setup`.

    Its arguments go there as their `repr`: `tmp_path`, and numbers and texts of parameters.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        module = ".".join(pathlib.Path(test.__code__.co_filename).relative_to(ROOT).with_suffix("").parts)

        @functools.wraps(test)
        def run(**arguments: Any) -> None:
            program = RUN.format(module=module, name=test.__name__, arguments=arguments)
            done = run_in_namespace(setup, [sys.executable, "-X", "dev", "-c", program])
            assert done.returncode == 0, done.stdout + done.stderr

        return run

    return decorate
