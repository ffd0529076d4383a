from __future__ import annotations

from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import steady
from zmtpscope.diagnosis.observers.observed import Ends, ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND, SECOND

MIN_WAIT = SECOND * 9 // 10
"""A side that closes sooner may have other reasons than the other side's silence, unless it waits equally long each
time."""
MIN_TIMES = 2
MIN_IDLE = 2 * SECOND
"""A handshake that is silent for this long (ns) until the end of the capture probably never continues."""
AT_ONCE = SECOND // 20
"""A side that closes within this time (ns) did not wait."""
LONGEST_REJECTION = MILLISECOND
"""libzmq closes within this time (ns) plus the handshake time after an incompatible type."""

MIN_PATH, NEARLY = 5 * MILLISECOND, 0.8
"""Shortest round trip (ns) that is measured. A client that closes within the second share of one cannot have received
the answer."""

OTHER_CAUSES = (
    "ZMTP3X-GREETING-05",
    "ZMTP3X-GREETING-12",
    "CURVE-21",
    "CURVE-22",
    "CURVE-23",
    "ZMTP-CONN-04",
    "ZMTP-CONN-17",
)
"""Findings with the reason why a handshake stopped."""

ZAP_STEPS = {("PLAIN", "HELLO"), ("CURVE", "INITIATE")}
"""Commands after which the server asks its ZAP handler."""


class Hung(NamedTuple):
    """A handshake that stopped because side `silent` sent nothing more.

    `waited` is the time (ns) that the other side waited. `is_over`: the other side gave up; otherwise the capture
    ended.
    """

    connection: ObservedConnection
    silent: int
    waited: int
    is_over: bool

    @property
    def connecting_took(self) -> int:
        """Return the time (ns) from SYN to the first octets of the client: a round trip, wherever it is captured."""
        first = self.connection.client.greeting
        return 0 if first is None else first.ns - self.connection.start.ns

    @property
    def is_too_early(self) -> bool:
        """Whether the client closed before the first octets of the listener could reach it."""
        path, is_listener = self.connecting_took, self.silent == self.connection.listener
        is_silent = is_listener and self.is_over and self.connection.server.greeting is None
        return is_silent and path >= MIN_PATH and self.waited - path < NEARLY * path

    @property
    def waits_for_zap(self) -> bool:
        asker = self.connection.sides[1 - self.silent]
        return asker.last_command is not None and (asker.mechanism, asker.last_command[1]) in ZAP_STEPS


class Waiting(NamedTuple):
    """The client address and endpoint of handshakes that hang, and whether the listener is the silent side."""

    ends: Ends
    listener_is_silent: bool


@once
def hung_handshakes(knowledge: Knowledge) -> dict[Waiting, list[Hung]]:
    """Return the handshakes that certainly hang, by client, endpoint and silent side.

    A handshake hangs if the wait was long, or equally long each time.
    """
    found = grouped(
        (Waiting(connection.ends, hung.silent == connection.listener), hung)
        for connection in knowledge.connections
        if (hung := _hung(connection, knowledge)) is not None
    )
    return {waiting: each for waiting, each in found.items() if _is_certain(each)}


def _is_certain(hung: list[Hung]) -> bool:
    waits = [each.waited for each in hung if each.is_over]
    is_steady = len(waits) >= MIN_TIMES and steady(waits) is not None
    return is_steady or any(each.waited >= MIN_WAIT for each in hung)


def _hung(connection: ObservedConnection, knowledge: Knowledge) -> Hung | None:
    if connection.finding(*OTHER_CAUSES) is not None or any(side.error for side in connection.sides):
        return None
    if is_agreed(connection) or connection.gaps or (connection.values is not None and not connection.is_whole):
        return None
    progress = [_progress(connection, side) for side in (0, 1)]
    if progress[0] == progress[1]:
        return None
    silent, ending = progress.index(min(progress)), ending_of(connection)
    if ending is None:
        now, spoke = knowledge.last_ns, connection.spoke_ns
        waited, is_idle = now - connection.start.ns, now - spoke >= MIN_IDLE
        # its direction may not be captured, or the rest was lost
        may_be_missing = (connection.values is None and not progress[silent]) or spoke < knowledge.lost_ns
        is_stuck = connection.is_open and is_idle and not may_be_missing
        return Hung(connection, silent, waited, False) if is_stuck else None
    waited = ending.moment.ns - connection.start.ns
    if ending.side == silent and closes_before_ready(connection):
        return None
    is_in_vain = ending.side != silent or (progress[silent] > 0 and waited >= MIN_WAIT)
    return Hung(connection, silent, waited, True) if is_in_vain and waited > AT_ONCE else None


def rejects_type(connection: ObservedConnection) -> bool:
    """Whether the client rejected the socket type of the server: it sent no type, and closed with FIN right after
    READY.

    FIN shows that the client had read READY: if a program ends with unread octets, its system sends RST. On a long path
    FIN and READY may have crossed, so the result is False.
    """
    ending = ending_of(connection)
    if ending is None or ending.is_reset or ending.side == connection.listener:
        return False
    ready = connection.server.ready
    if ready is None or connection.sides[ending.side].ready is not None:
        return False
    setup = ready.ns - connection.start.ns
    return 0 <= ending.moment.ns - ready.ns <= LONGEST_REJECTION + setup and not path_to_client(connection)


def closes_before_ready(connection: ObservedConnection) -> bool:
    """Whether the client closed before READY could reach it: by a timer, or because it exits."""
    ending, ready = ending_of(connection), connection.server.ready
    return (
        ending is not None and ready is not None and ending.moment.ns - ready.ns < NEARLY * path_to_client(connection)
    )


def path_to_client(connection: ObservedConnection) -> int:
    """Return the round-trip time (ns) between the capture point and the client; 0 if short or unknown.

    Wherever the capture point is, the client's first octets follow its SYN by the round trip of the whole path. The
    server's first octets follow the client's by the part of it between capture point and server.
    """
    client, server = connection.client.greeting, connection.server.greeting
    if client is None or server is None:
        return 0
    path = client.ns - connection.start.ns - max(0, server.ns - client.ns)
    return path if path >= MIN_PATH else 0


def _progress(connection: ObservedConnection, number: int) -> int:
    """Return how far a side came in the handshake, as a number from 0 to 3: greeting begun, a command sent, READY or
    INITIATE sent."""
    side = connection.sides[number]
    values = connection.values
    began = side.greeting is not None or (values is not None and values[f"stream_bytes_{number}"] > 0)
    return began + (side.last_command is not None) + (side.ready is not None)
