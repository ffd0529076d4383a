"""Pairs of one-way connections by which two hosts exchange messages: each PUSHes to the other, or publishes to it."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.grouping import grouped

SENDERS = ("PUB", "XPUB", "PUSH")


class OneWay(NamedTuple):
    """A connection on which only `sender` sends messages."""

    connection: ObservedConnection
    sender: int

    @property
    def hosts(self) -> tuple[str, str]:
        """The addresses of the sender and of the receiver."""
        return self.connection.sides[self.sender].ip, self.connection.sides[1 - self.sender].ip


@once
def opposite(knowledge: Knowledge) -> dict[str, OneWay]:
    """Return the opposite of each one-way connection, by conn_id, if there is one in each direction of two hosts."""
    found = grouped((each.hosts, each) for each in map(_one_way, knowledge.connections) if each is not None)
    pairs = {}
    for (sending, receiving), there in found.items():
        back = found.get((receiving, sending), [])
        if sending != receiving and len(there) == len(back) == 1:
            is_whole = all(each.connection.is_whole and is_agreed(each.connection) for each in (*there, *back))
            if is_whole:
                pairs[there[0].connection.conn_id] = back[0]
    return pairs


def _one_way(connection: ObservedConnection) -> OneWay | None:
    """Return a connection with its only sender; None if it has none, or none that sent a message."""
    sender = next((number for number in (0, 1) if connection.sides[number].socket_type in SENDERS), None)
    return None if sender is None or connection.sides[sender].rhythm is None else OneWay(connection, sender)
