"""What the sides of all connections say of themselves: socket types and identities, in a few octets a connection."""

from __future__ import annotations

from array import array

import numpy as np

from zmtpscope.dissect import Batch
from zmtpscope.export.describe import endpoint
from zmtpscope.export.side_names import OPENER, name_and_type

MOST_CONNECTIONS = 100
"""Of a peer that came again and again so many are followed."""


class Sides:
    """Fed all batches; knows each side of each connection by what it said last."""

    def __init__(self) -> None:
        self._said: list[tuple[str | None, str | None]] = [(None, None)]
        """(socket type, identity), each pair once."""
        self._numbers: dict[tuple[str | None, str | None], int] = {(None, None): 0}
        self._of_sides = array("I", bytes(8))
        """Which of them each side of each connection has said."""

    def feed(self, batch: Batch) -> None:
        """Take in what greetings and commands say of who sent them."""
        for record in batch.records:
            if record.type in ("greeting", "command"):
                values = record.values
                if values["side"] is not None:
                    self._learn(2 * values["conn"] + values["side"], values["socket_type"], values["identity"])

    def _learn(self, place: int, socket_type: str | None, identity: str | None) -> None:
        if socket_type is None and identity is None:
            return
        if place >= len(self._of_sides):
            self._of_sides.frombytes(bytes(4 * (place + 2 - len(self._of_sides) + place // 2)))
        before = self._said[self._of_sides[place]]
        said = socket_type or before[0], identity or before[1]
        number = self._numbers.setdefault(said, len(self._said))
        if number == len(self._said):
            self._said.append(said)
        self._of_sides[place] = number

    def said(self, conn: int | None, side: int) -> tuple[str | None, str | None]:
        """The socket type and the identity of a side, as far as it has said them; datagrams have no connection."""
        if conn is None:
            return None, None
        place = 2 * conn + side
        return self._said[self._of_sides[place]] if place < len(self._of_sides) else (None, None)

    def connections_of(self, identity: str) -> list[int]:
        """The connections on which a side has this identity."""
        wanted = [number for number, said in enumerate(self._said) if said[1] == identity]
        places = np.flatnonzero(np.isin(np.frombuffer(self._of_sides, np.uint32), wanted))
        found: list[int] = np.unique(places // 2)[:MOST_CONNECTIONS].tolist()
        return found

    def name(self, conn: int | None, side: int, socket_type: str | None, address: str, port: int | None) -> str:
        """A side in a few words, safe to show: its identity, type and, where it was connected to, its port; its
        address where it has said nothing. `socket_type` is what its messages are known by."""
        said, identity = self.said(conn, side)
        words = name_and_type(said or socket_type, identity)
        if not words:
            return endpoint(address, port)
        return " ".join(words if side == OPENER else [*words, f":{port}"])
