"""Converts the traffic of an application's connections to packets, as in a capture.

Headers are generated as without losses: every octet is acknowledged at once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from zmtpscope.capture.link import RAW_IP
from zmtpscope.capture.segments import ACK, FIN, RST, SYN
from zmtpscope.export.pcapng import interface_description, packet_block, section_header
from zmtpscope.live.recording.segments import MODULUS, Address, Direction

if TYPE_CHECKING:
    from zmtpscope.curve_keys import KeyLine


PacketSink = Callable[[int, Sequence[bytes]], None]
"""Takes IP packets that share one time (ns since the epoch)."""
KeySink = Callable[["KeyLine"], None]

COMMENT = (
    "Recorded by one of the two applications: octets, order and times are real, IP and TCP headers are synthetic. "
    "Connections to a port above 57343 of 127.0.0.1 represent ipc endpoints, one port per path."
)
"""Comment for users who open a recording with another tool."""

SEQUENCE_CLOCK = 4_000
"""Nanoseconds after which the initial sequence number of new connections grows by one (RFC 9293, 3.4.1)."""

IPC_HOST = "127.0.0.1"
FIRST_PORT, IPC_PORTS = 49_152, 8_192
"""Dynamic ports, registered for no service.

The first `IPC_PORTS` are for clients of ipc endpoints, the next for the endpoints.
"""


class Recording:
    """Records all connections of an application. Packets go to each of `sinks`, and CURVE keys to each of
    `key_sinks`."""

    def __init__(self, sinks: Sequence[PacketSink], key_sinks: Sequence[KeySink] = ()) -> None:
        self._sinks = sinks
        self._key_sinks = key_sinks
        self._ipc_paths: dict[str, int] = {}
        self._ipc_connections = 0

    def opened(self, local: Address, remote: Address, connected_by_us: bool, time: int) -> RecordedConnection:
        """Record a new TCP connection, and return it. Raises `ValueError` if the sockets have no IP addresses.

        `connected_by_us`: this program opened it, at `time` (ns since 1970).
        """
        sequence = time // SEQUENCE_CLOCK % MODULUS
        connection = RecordedConnection(self._emit, Direction.pair(local, remote, sequence))
        connection.open(connected_by_us, time)
        return connection

    def opened_ipc(self, path: str, connected_by_us: bool, time: int) -> RecordedConnection:
        """Record a new connection of an ipc endpoint, with generated addresses, and return it."""
        number = self._ipc_paths.setdefault(path, len(self._ipc_paths))
        connecting = IPC_HOST, FIRST_PORT + self._ipc_connections % IPC_PORTS
        listening = IPC_HOST, FIRST_PORT + IPC_PORTS + number % IPC_PORTS
        self._ipc_connections += 1
        ends = (connecting, listening) if connected_by_us else (listening, connecting)
        return self.opened(*ends, connected_by_us, time)

    def key(self, line: KeyLine) -> None:
        """Record a secret of a connection. Call it before the octets that it decrypts, which a live reader sees only
        once."""
        for sink in self._key_sinks:
            sink(line)

    def _emit(self, time: int, packets: Sequence[bytes]) -> None:
        for sink in self._sinks:
            sink(time, packets)


class RecordedConnection:
    """A recorded connection, as this program sees it. Times are in nanoseconds since 1970."""

    def __init__(self, emit: PacketSink, directions: tuple[Direction, Direction]) -> None:
        self._emit = emit
        self._ours, self._theirs = directions

    def open(self, by_us: bool, time: int) -> None:
        """Write the three packets of the TCP handshake. `by_us`: this program connects."""
        opener, other = self._sender(by_us)
        packets = [opener.segment(SYN, other), other.segment(SYN | ACK, opener), opener.segment(ACK, other)]
        self._emit(time, packets)

    def sent(self, octets: bytes, time: int) -> None:
        self._add_octets(self._ours, self._theirs, octets, time)

    def received(self, octets: bytes, time: int) -> None:
        self._add_octets(self._theirs, self._ours, octets, time)

    def closed(self, by_us: bool, reset: bool, time: int) -> None:
        """Record the end of both directions, or a RST if `reset`. No further call may follow. `by_us`: this program
        closed first."""
        closer, other = self._sender(by_us)
        if reset:
            packets = [closer.segment(RST | ACK, other)]
        else:
            ends = [closer.segment(FIN | ACK, other), other.segment(FIN | ACK, closer)]
            packets = [*ends, closer.segment(ACK, other)]
        self._emit(time, packets)

    def _add_octets(self, sender: Direction, receiver: Direction, octets: bytes, time: int) -> None:
        if octets:
            packets = sender.data(octets, receiver)
            packets.append(receiver.segment(ACK, sender))
            self._emit(time, packets)

    def _sender(self, is_ours: bool) -> tuple[Direction, Direction]:
        return (self._ours, self._theirs) if is_ours else (self._theirs, self._ours)


class CaptureFile:
    """A new pcapng file that can be read while it grows, only by its owner, since it may contain PLAIN passwords.

    `comment` appears in the file's properties. Raises `FileExistsError` if `path` exists; `force` replaces a plain
    file. Every method raises `OSError` with the path.
    """

    def __init__(self, path: Path, comment: str, *, force: bool = False) -> None:
        self.path = path
        with self._naming_path():
            if force:
                _remove_plain_file(path)
            # never overwritten: an existing file might be readable by others, or a link
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "wb")
            self._append(section_header(comment) + interface_description(RAW_IP))

    def write(self, time: int, packets: Sequence[bytes]) -> None:
        """Write IP packets that share one time (ns since the epoch)."""
        with self._naming_path():
            self._append(b"".join([packet_block(0, time, packet, len(packet)) for packet in packets]))

    def _append(self, octets: bytes) -> None:
        self._file.write(octets)
        self._file.flush()

    def close(self) -> None:
        with self._naming_path():
            self._file.close()

    @contextmanager
    def _naming_path(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error


def _remove_plain_file(path: Path) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)
