"""Entering network namespaces by name and by process, and errors if that is impossible."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from tests.live.capture.namespaces import ROOT, unshare

# /run is a file system of its own, so that names stay inside
NAMED = [
    "mount -t tmpfs none /run",
    "mkdir /run/netns",
    "ip netns add lab",
    "ip -n lab link add va type veth peer name vb",
]

ENTER = """
import os, socket, sys
from zmtpscope.live.capture.namespaces import NamespaceError, enter
for name in sys.argv[1:]:
    try:
        enter(name)
        print(sorted(name for _, name in socket.if_nameindex()))
    except NamespaceError as error:
        print(error)
"""


def entered(*names: str, setup: list[str], rights: tuple[str, ...] = ()) -> list[str]:
    """Return the output of a process that enters one namespace after the other."""
    python = shlex.join([*rights, sys.executable, "-c", ENTER])
    script = "\n".join(["set -e", *setup, f"{python} {' '.join(names)}"])
    done = subprocess.run([*unshare(), "sh", "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_namespace_is_entered_by_its_name() -> None:
    assert entered("lab", setup=NAMED) == ["['lo', 'va', 'vb']"]


def test_a_namespace_is_entered_by_a_process_in_it() -> None:
    in_lab = [*NAMED, "ip netns exec lab sleep 60 & process=$!", "trap 'kill $process' EXIT"]
    wait = 'while [ "$(readlink /proc/$process/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done'
    assert entered("$process", setup=[*in_lab, wait]) == ["['lo', 'va', 'vb']"]


@pytest.mark.parametrize("path", ["/run/netns/lab", "/var/run/netns/lab", "/proc/$process/ns/net"])
def test_a_namespace_is_entered_by_its_file(path: str) -> None:
    in_lab = [*NAMED, "ip netns exec lab sleep 60 & process=$!", "trap 'kill $process' EXIT"]
    wait = 'while [ "$(readlink /proc/$process/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done'
    assert entered(path, setup=[*in_lab, wait]) == ["['lo', 'va', 'vb']"]


def test_a_name_goes_before_a_process() -> None:
    assert entered("$$", setup=[*NAMED, "ip netns add $$"]) == ["['lo']"]


def test_a_namespace_that_cannot_be_entered_is_reported_in_a_sentence() -> None:
    setup = [*NAMED, "echo nothing > /run/netns/file"]
    paths = ("/proc/4194999/ns/net", "/run/netns/file")
    lines = entered("lap", "zzz", "4194999", "file", "../../proc/1/ns/net", "''", *paths, setup=setup)
    there = "use one of file, lab (ip netns); for a container use the id of a process in it"
    assert lines == [
        f"no network namespace named lap: did you mean lab? {there}",
        f"no network namespace named zzz: {there}",
        "no process 4194999",
        "/run/netns/file is not a network namespace",
        f"no network namespace named ../../proc/1/ns/net: {there}",
        f"no network namespace named : {there}",
        "no network namespace /proc/4194999/ns/net",
        "/run/netns/file is not a network namespace",
    ]


def test_that_no_namespace_has_a_name_is_reported() -> None:
    (line,) = entered("lab", setup=["mount -t tmpfs none /run"])
    assert line.startswith("no network namespace named lab: none has a name (ip netns); ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give rights up: run the tests with sudo")
def test_a_user_who_may_not_enter_gets_the_requirement() -> None:
    without = ("setpriv", "--bounding-set=-sys_admin,-sys_ptrace")
    assert entered("lab", "1", setup=NAMED, rights=without) == [
        "cannot enter network namespace lab: this needs root (CAP_SYS_ADMIN)",
        "cannot enter network namespace 1: this needs root (CAP_SYS_ADMIN)",
    ]
