from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.heartbeats import is_past_ttl, waits_in_vain
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedFinding, ObservedSide, found_once

Cause = Literal["closed", "reset", "heartbeat", "unacknowledged", "middlebox", "error", "handshake", "violation"]

"""Why a side ended a connection.

ZMTP has no goodbye: a program that closes its socket and one that is killed both only send FIN or RST (closed, reset).
"""

VIOLATION = "ZMTP-CONN-08"
AGREED = ("complete", "unseen")
"""Handshake states in which messages can be sent."""


class Ending(NamedTuple):
    """How a connection ended: side `side` sent the first FIN or RST at `moment`.

    Only the time of `moment` is known, not its packet. `is_reset`: the end was a RST; `is_unknown`: the RST answers a
    segment of a connection that the host does not know. `finding` gives the reason, if there is one.
    """

    side: int
    moment: Moment
    cause: Cause
    is_reset: bool
    is_unknown: bool = False
    """Whether the RST only answers a segment: the system does not know the connection, and did not close it."""
    finding: ObservedFinding | None = None
    """The finding that gives the reason, if any."""


@found_once
def ending_of(connection: ObservedConnection) -> Ending | None:
    """Return how a connection ended; None if neither side closed it, or its end was not captured."""
    values = connection.values
    side, ns = (
        (values["closed_by"], values["closed_ns"]) if values is not None else connection.half_closed or (None, None)
    )
    if side is None or ns is None:
        return None
    is_reset = values is not None and values[f"rst_ns_{side}"] == ns
    moment = Moment(ns, connection.start.file, None)
    violation = connection.finding(VIOLATION)
    cause: Cause = "reset" if is_reset else "closed"
    if is_reset and is_of_another(connection):
        return Ending(side, moment, "middlebox", is_reset)
    if any(each.error is not None for each in connection.sides):
        cause = "error"
    elif violation is not None:
        cause = "violation"
    elif not is_agreed(connection):
        cause = "handshake"
    elif connection.is_whole and _gives_up(connection, side, moment.ns):
        cause = "heartbeat"
    elif is_reset and _is_unacknowledged(connection.sides[side]):
        cause = "unacknowledged"
    is_unknown = is_reset and connection.is_whole and _knows_nothing(values, side)
    return Ending(side, moment, cause, is_reset, is_unknown, violation if cause == "violation" else None)


def end_of(connection: ObservedConnection, otherwise: int) -> int:
    """Return when the connection ended (ns); `otherwise` if it is open or its end was not captured."""
    ending = ending_of(connection)
    return otherwise if ending is None else ending.moment.ns


def _knows_nothing(values: Mapping[str, Any] | None, side: int) -> bool:
    """Whether the side sent RST because its host has no such connection: such a RST has no ACK flag (RFC 9293,
    3.10.7.1).

    If a program is killed or aborts its connection, its host sends RST with ACK.
    """
    return values is not None and values["rst_ack"] is False and values[f"fin_ns_{side}"] is None


def is_of_another(connection: ObservedConnection) -> bool:
    """Whether a middlebox sent the RST: the TTL of the RST differs from the TTL of the side's SYN."""
    values = connection.values
    if values is None or values["syn_ttl"] is None or values["rst_ttl"] is None:
        return False
    return bool(values["syn_ttl"] != values["rst_ttl"])


def _is_unacknowledged(side: ObservedSide) -> bool:
    """Whether TCP gave up the connection because data of this side was not acknowledged."""
    last = side.outages[-1] if side.outages else None
    return last is not None and last.is_acknowledged is False and not last.acknowledged_before


def was_told_to_exit(connection: ObservedConnection) -> bool:
    jupyter = connection.sides[connection.listener].jupyter
    return jupyter is not None and jupyter.shuts_down


def is_agreed(connection: ObservedConnection) -> bool:
    if connection.values is None:
        return all(side.ready is not None for side in connection.sides)
    return connection.values["handshake"] in AGREED


def lifetime(connection: ObservedConnection, ending: Ending) -> int:
    return ending.moment.ns - connection.start.ns


def _gives_up(connection: ObservedConnection, side: int, end: int) -> bool:
    """Whether a side closed at `end` (ns) after it had waited for data and received none."""
    return waits_in_vain(connection, side, end) or is_past_ttl(connection, 1 - side, end)
