"""Receivers that leave a PUSH: to which others it continues to send, and the fate of its messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import Disconnect, ended
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.words import counted

PAIRS = {"PULL": "PUSH", "GATHER": "SCATTER"}

LOST = (
    "work that it received and had not done is lost (a RST often means that it had not even read all of it), since "
    "{sender} and {receiver} confirm nothing: let it report finished work, or use ROUTER and DEALER"
)

KEPT = (
    "start it again: unless ZMQ_IMMEDIATE is set, its share of the messages waits for it at the {sender}, up to "
    "ZMQ_SNDHWM, and the others do not get them"
)


class WorkLeft(NamedTuple):
    """The end of a sentence about a receiver that left its PUSH, and the hint."""

    text: str
    hint: str


def work_left(departure: Disconnect, knowledge: Knowledge) -> WorkLeft | None:
    """Describe the behaviour of a PUSH after a receiver left while it was sending; None for other socket types."""
    connection, receiver = departure.connection, departure.ending.side
    types = connection.sides[receiver].socket_type or "", connection.sides[1 - receiver].socket_type
    if PAIRS.get(types[0]) != types[1] or connection.sides[1 - receiver].rhythm is None:
        return None
    others = sum(_is_sent_to(each, ended(departure)) for each in _of_sender(departure, knowledge))
    text = f"; the {types[1]} goes on with {counted(others, 'other')}" if others else ""
    is_kept = departure.by_listener and departure.is_missed and departure.back_ns is None
    return WorkLeft(text, (KEPT if is_kept and others else LOST).format(sender=types[1], receiver=types[0]))


def _of_sender(departure: Disconnect, knowledge: Knowledge) -> Iterable[ObservedConnection]:
    """Return all connections of the sender: to its endpoint, or, if it connects, the connections that its
    host opened."""
    connection = departure.connection
    if departure.by_listener:
        return _by_sending_host(knowledge).get((connection.client.ip, connection.socket_types()), ())
    return knowledge.by_endpoint[connection.endpoint]


@once
def _by_sending_host(knowledge: Knowledge) -> dict[tuple[str, tuple[str | None, str | None]], list[ObservedConnection]]:
    senders = (each for each in knowledge.connections if each.client.socket_type in PAIRS.values())
    return grouped(((each.client.ip, each.socket_types()), each) for each in senders)


def _is_sent_to(connection: ObservedConnection, end_ns: int) -> bool:
    """Whether the sender still sends after `end_ns` on a connection that began before."""
    times = (side.rhythm.last.ns for side in connection.sides if side.rhythm is not None)
    return connection.start.ns < end_ns < max(times, default=0)
