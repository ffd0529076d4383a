"""Pairs of one-way connections by which two hosts exchange messages: each PUSHes to the other, or publishes to it."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.observers.observed import ObservedConnection

SENDERS = ("PUB", "XPUB", "PUSH")


class OneWay(NamedTuple):
    """A connection on which only `sender` sends messages."""

    connection: ObservedConnection
    sender: int


@once
def opposite(knowledge: Knowledge) -> dict[str, OneWay]:
    """Return the opposite of each one-way connection, by conn_id, if there is one in each direction of two hosts."""
    found: dict[tuple[str, str], list[OneWay]] = {}
    for connection in knowledge.connections:
        sender = next((number for number in (0, 1) if connection.sides[number].socket_type in SENDERS), None)
        if sender is not None and connection.sides[sender].rhythm is not None:
            hosts = connection.sides[sender].ip, connection.sides[1 - sender].ip
            found.setdefault(hosts, []).append(OneWay(connection, sender))
    pairs = {}
    for (sending, receiving), there in found.items():
        back = found.get((receiving, sending), [])
        if sending != receiving and len(there) == len(back) == 1:
            is_whole = all(each.connection.is_whole and is_agreed(each.connection) for each in (*there, *back))
            if is_whole:
                pairs[there[0].connection.conn_id] = back[0]
    return pairs
