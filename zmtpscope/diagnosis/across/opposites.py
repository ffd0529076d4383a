"""Two hosts that send to each other by PUSH or PUB: each answers on the connection in the other direction."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.grouping import grouped

ONE_WAY = ("PUB", "XPUB", "PUSH")


class OneWay(NamedTuple):
    """A connection on which only side `sender` sends messages."""

    connection: ObservedConnection
    sender: int

    @property
    def hosts(self) -> tuple[str, str]:
        return self.connection.sides[self.sender].ip, self.connection.sides[1 - self.sender].ip


@once
def opposite(knowledge: Knowledge) -> dict[str, OneWay]:
    """Return, by conn_id of a connection with messages in one direction, the connection in the other direction.

    Both connect the same two hosts, and there is exactly one of each direction.
    """
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
    """Return the connection with its sending side, if only one side can send by its socket type, and did; otherwise
    None."""
    sender = next((number for number in (0, 1) if connection.sides[number].socket_type in ONE_WAY), None)
    return None if sender is None or connection.sides[sender].rhythm is None else OneWay(connection, sender)
