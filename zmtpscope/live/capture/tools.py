"""Capture by other programs (dumpcap, tcpdump, the scapy engine), for users and systems without packet sockets.

The program writes pcap or pcapng to a pipe, and reports the number of packets that the kernel dropped at its end.
"""

from __future__ import annotations

import grp
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from math import inf

from zmtpscope.live.capture.interfaces import ANY
from zmtpscope.live.capture.packet_socket import Batch, CannotCapture, CapturedInterface, EngineRefused
from zmtpscope.live.capture.packet_stream import PacketStream
from zmtpscope.live.capture.privileges import invoking_user
from zmtpscope.live.capture.settings import CaptureSettings

MORE_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/Applications/Wireshark.app/Contents/MacOS")
"""Folders to search after PATH, which often lacks them for ordinary users."""
SCAPY_ENGINE = "zmtpscope.live.capture.scapy_engine"
CHUNK = 1 << 18
MAX_AT_THE_END = 128 << 20
OPENING_SECONDS, ENDING_SECONDS = 10.0, 2.0
KERNEL_DROPS = re.compile(r"^(\d+) packets? dropped by kernel", re.MULTILINE)
"""Message of tcpdump with the kernel's drops."""


def dumpcap(settings: CaptureSettings) -> Tool:
    """Start dumpcap. Raises `EngineRefused`."""
    if invoking_user(settings.user, os.environ) is not None:
        raise EngineRefused("if started by root it stays root, and we could not stop it after dropping privileges")
    options = ["-s", str(settings.snap_length), "-B", str(max(1, settings.buffer_octets >> 20))]
    if not settings.promiscuous:
        options.append("-p")
    if settings.filter:
        options += ["-f", settings.filter]
    words = [word for name in settings.interfaces for word in ("-i", name, *options)]
    return Tool("dumpcap", [_program("dumpcap"), "-q", "-n", "-w", "-", *words], settings, delay=0.5)


def tcpdump(settings: CaptureSettings) -> Tool:
    """Start tcpdump, which captures from one interface only. Raises `EngineRefused`."""
    command = [_program("tcpdump"), "-U", "-w", "-", "-i", _only_name(settings), "-s", str(settings.snap_length)]
    command += ["-B", str(max(1, settings.buffer_octets >> 10))]
    if sys.platform == "linux":
        command.append("--time-stamp-precision=nano")
    if not settings.promiscuous:
        command.append("-p")
    user = invoking_user(settings.user, os.environ)
    if user is not None:  # needed to end it after we have dropped root
        command += ["-Z", user.name]
    return Tool("tcpdump", [*command, "--", settings.filter], settings, delay=1.5)  # it buffers packets for a second


def scapy(settings: CaptureSettings) -> Tool:
    """Start our own loop over libpcap through scapy. Raises `EngineRefused`."""
    command = [sys.executable, "-P", "-m", SCAPY_ENGINE, _only_name(settings), str(settings.snap_length)]
    command += [str(int(settings.promiscuous)), str(settings.buffer_octets), settings.filter, settings.user or ""]
    return Tool("scapy", command, settings, delay=0.2)


def _only_name(settings: CaptureSettings) -> str:
    first, *others = settings.interfaces
    if others:
        raise EngineRefused(f"it captures from one interface, or from {ANY}")
    return first


def _program(name: str) -> str:
    """Return the path of an executable program. Raises `EngineRefused`."""
    path = _find(name, os.X_OK)
    if path is not None:
        return path
    there = _find(name, os.F_OK)
    raise EngineRefused("it is not installed" if there is None else f"this user may not run {there}")


def _find(name: str, mode: int) -> str | None:
    """Return the first file with this name in PATH that the user can access with `mode`, or None."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *MORE_FOLDERS])
    return shutil.which(name, mode, folders)


def group_of_dumpcap() -> str | None:
    """Return the group whose members may capture with dumpcap; None if this user can run it or no group can."""
    path = _find("dumpcap", os.F_OK)
    if path is None or os.access(path, os.X_OK):
        return None
    status = os.stat(path)
    try:
        return grp.getgrgid(status.st_gid).gr_name if status.st_mode & stat.S_IXGRP else None
    except KeyError:  # a number without a name
        return None


TOOLS = {"dumpcap": dumpcap, "tcpdump": tcpdump, "scapy": scapy}


class Tool:
    """A running program that captures, with the methods of `PacketSource`. Raises `EngineRefused`."""

    has_read_all = True
    due = inf

    def __init__(self, name: str, command: Sequence[str], settings: CaptureSettings, delay: float) -> None:
        self.delay = delay
        self._name = name
        self._stream = PacketStream(settings.interfaces[0])
        self._rest: deque[Batch | None] = deque()
        """Batches read but not returned."""
        self._is_stopped = False
        self._counted = 0, 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe that nobody reads would stop it
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
            )
        except OSError as error:
            self._errors.close()
            raise EngineRefused(f"cannot run {self._name}: {error.strerror}") from None
        assert self._process.stdout is not None
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        try:
            self._await_the_beginning()
        except CannotCapture as error:
            self.close()
            raise EngineRefused(str(error)) from None

    @property
    def interfaces(self) -> list[CapturedInterface]:
        return self._stream.interfaces

    @property
    def counts(self) -> list[int]:
        return self._stream.counts

    def _await_the_beginning(self) -> None:
        """Wait until the program has opened its interfaces, or has failed. Raises `CannotCapture`."""
        deadline = time.monotonic() + OPENING_SECONDS
        while not self._stream.has_header:
            if not self._waits_until(deadline):
                raise CannotCapture(f"{self._name} printed nothing for {OPENING_SECONDS:.0f} s")
            octets = os.read(self.fileno(), CHUNK)
            if not octets:
                raise CannotCapture(self._why_it_ended())
            self._rest.append(self._stream.feed(octets))

    def _waits_until(self, deadline: float) -> bool:
        return bool(select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))[0])

    def fileno(self) -> int:
        return self._output.fileno()

    def read(self) -> Batch | None:
        """Return the next packets, if any. Raises `CannotCapture` if the program has ended by itself."""
        while self._rest:
            batch = self._rest.popleft()
            if batch is not None:
                return batch
        if self._is_stopped:
            return None
        try:
            octets = os.read(self.fileno(), CHUNK)
        except BlockingIOError:
            return None
        if not octets:
            raise CannotCapture(self._why_it_ended())
        return self._stream.feed(octets)

    def stop(self) -> None:
        """Stop the program. Captured packets can still be read, and the final counts are known."""
        self._is_stopped = True
        self._read_until(time.monotonic() + self.delay)
        with suppress(PermissionError):  # it may run as root; it then ends with us, when the pipe closes
            self._process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + ENDING_SECONDS
        self._read_until(deadline)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))

    def _read_until(self, deadline: float) -> None:
        """Read output until the program ends or the time `deadline`, at most `MAX_AT_THE_END` octets."""
        left = MAX_AT_THE_END
        while left > 0 and self._waits_until(deadline) and (octets := os.read(self.fileno(), CHUNK)):
            self._rest.append(self._stream.feed(octets))
            left -= len(octets)

    def statistics(self) -> tuple[int, int, int]:
        """Return the packets since the last call, the kernel's drops (known only at the end), and 0 for unknown full
        buffers."""
        dropped = self._stream.dropped
        if self._is_stopped:
            dropped += sum(map(int, KERNEL_DROPS.findall(self._errors_so_far())))
        received = sum(self.counts) + dropped
        news = received - self._counted[0], dropped - self._counted[1], 0
        self._counted = received, dropped
        return news

    def check(self) -> list[str]:
        """Return no sentences: `read` detects the end of the program."""
        return []

    def close(self) -> None:
        with suppress(PermissionError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(ENDING_SECONDS)
        self._output.close()
        self._errors.close()

    def _why_it_ended(self) -> str:
        said = re.findall(rf"^{re.escape(self._name)}: (?!listening on)(.+)", self._errors_so_far(), re.MULTILINE)
        return said[0] if said else f"{self._name} ended (exit code {self._process.wait()})"

    def _errors_so_far(self) -> str:
        self._errors.seek(0)
        return self._errors.read(CHUNK).decode(errors="replace")
