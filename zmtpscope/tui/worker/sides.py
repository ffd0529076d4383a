"""The socket types and identities that sides of connections announced, in a few octets per connection."""

from __future__ import annotations

from array import array

import numpy as np

from zmtpscope.dissect import Batch
from zmtpscope.export.side_names import OPENER, name_and_type
from zmtpscope.words import host_port

MAX_CONNECTIONS = 100
"""Maximum connections of a peer in one conversation."""


class Sides:
    """Stores what each side of each connection announced last."""

    def __init__(self) -> None:
        self._announced: list[tuple[str | None, str | None]] = [(None, None)]
        """Distinct pairs (socket type, identity)."""
        self._numbers: dict[tuple[str | None, str | None], int] = {(None, None): 0}
        self._of_sides = array("I", bytes(8))
        """Index of the pair, for each side of each connection."""

    def feed(self, batch: Batch) -> None:
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
        before = self._announced[self._of_sides[place]]
        announced = socket_type or before[0], identity or before[1]
        number = self._numbers.setdefault(announced, len(self._announced))
        if number == len(self._announced):
            self._announced.append(announced)
        self._of_sides[place] = number

    def announced(self, conn: int | None, side: int) -> tuple[str | None, str | None]:
        """Return socket type and identity of a side, each None if unknown."""
        if conn is None:
            return None, None
        place = 2 * conn + side
        return self._announced[self._of_sides[place]] if place < len(self._of_sides) else (None, None)

    def connections_of(self, identity: str) -> list[int]:
        wanted = [number for number, announced in enumerate(self._announced) if announced[1] == identity]
        places = np.flatnonzero(np.isin(np.frombuffer(self._of_sides, np.uint32), wanted))
        found: list[int] = np.unique(places // 2)[:MAX_CONNECTIONS].tolist()
        return found

    def name(self, conn: int | None, side: int, socket_type: str | None, address: str, port: int | None) -> str:
        """Return a short name of a side without control characters: identity and type, with the port of a listener;
        otherwise its address.

        `socket_type` is used if the side announced none.
        """
        announced, identity = self.announced(conn, side)
        words = name_and_type(announced or socket_type, identity)
        if not words:
            return host_port(address, port)
        return " ".join(words if side == OPENER else [*words, f":{port}"])
