"""The view of `zmtpscope top`: kind of rows, order, filter, pinned rows; and the keys that change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zmtpscope.export.top.peers import ConnectionEnds, Topic
from zmtpscope.export.top.rows import Row


class Column(NamedTuple):
    """A column of the table, selected by `letter`.

    Rows are sorted by `value`, which is also shown if it is a number.
    """

    name: str
    letter: str
    """The key that sorts by the column, or ""."""
    heading: str
    value: Callable[[Row], Any]
    priority: int
    """If not all columns fit, those with the largest priority are dropped."""


def _sender(row: Row) -> str:
    return str(row.key.sender) if isinstance(row.key, Topic) else ""


def _number(row: Row) -> int:
    return row.key.number or 0 if isinstance(row.key, ConnectionEnds) else 0


NAME = Column("name", "n", "", lambda row: row.name, 0)
RATE = Column("rate", "m", "MSG/S", lambda row: row.rate(row.counts.messages), 0)
BUSIEST = Column("busiest", "b", "BUSIEST", lambda row: row.busiest, 3)
OCTET_RATE = Column("octets", "o", "OCTETS/S", lambda row: row.rate(row.counts.octets), 0)
MESSAGES = Column("messages", "M", "MESSAGES", lambda row: row.totals.messages, 1)
OCTETS = Column("total", "O", "OCTETS", lambda row: row.totals.octets, 4)
PARTS = Column("parts", "", "PARTS", lambda row: row.totals.frames / max(1, row.totals.messages), 6)
LAST = Column("last", "l", "LAST VALUE", lambda row: row.last_time, 0)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "topic": (
        NAME._replace(heading="TOPIC"),
        Column("from", "", "FROM", _sender, 2),
        RATE,
        BUSIEST,
        OCTET_RATE,
        MESSAGES,
        OCTETS,
        PARTS,
        Column("subscribers", "s", "SUBS", lambda row: -1 if row.subscribers is None else row.subscribers, 0),
        LAST,
    ),
    "connection": (
        NAME._replace(heading="CONNECTION", value=_number),
        RATE,
        BUSIEST,
        OCTET_RATE,
        Column("there", "", ">", lambda row: row.totals.sent, 1),
        Column("back", "", "<", lambda row: row.totals.received, 1),
        OCTETS,
        PARTS,
        LAST,
    ),
    "peer": (
        NAME._replace(heading="PEER"),
        Column("sent", "", "SENT/S", lambda row: row.rate(row.counts.sent), 2),
        Column("received", "", "RECV/S", lambda row: row.rate(row.counts.received), 2),
        RATE._replace(priority=1),
        BUSIEST,
        OCTET_RATE,
        MESSAGES._replace(priority=3),
        OCTETS,
        Column("connections", "s", "CONNS", lambda row: row.totals.connections, 1),
        LAST,
    ),
}
"""Columns by kind of rows, in order."""

ASCENDING = ("name", "from")
PLURALS = {"topic": "topics", "connection": "connections", "peer": "peers"}
KINDS_BY_KEY = {"t": "topic", "c": "connection", "p": "peer"}


@dataclass
class View:
    kind: str = "topic"
    sort: str = "rate"
    reverse: bool = False
    filter: str = ""
    pinned: list[object] = field(default_factory=list)
    """Keys of the rows that stay on top, in the order of pinning."""
    selected: int = 0
    """Index of the row that Enter pins."""
    followed: object = None
    """Key of the selected row. The selection follows it when rows move."""
    paused: bool = False
    typed: str | None = None
    """The filter text while the user edits it."""
    help: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS[self.kind]

    @property
    def column(self) -> Column:
        """The column to sort by; the rate if the current kind of rows lacks it."""
        return next((column for column in self.columns if column.name == self.sort), RATE)

    def select(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows to show, in order: pinned rows, rows that match the filter, last the row of merged keys."""
        wanted = (self.filter if self.typed is None else self.typed).casefold()
        found = [row for row in rows if not wanted or wanted in f"{row.name} {_sender(row)}".casefold()]
        value, descending = self.column.value, (self.column.name not in ASCENDING) != self.reverse
        found.sort(key=lambda row: (self.columns[0].value(row), _sender(row)))
        found.sort(key=value, reverse=descending)
        found.sort(key=lambda row: row.key is None)
        pinned = {row.key: row for row in rows if row.key is not None} if self.pinned else {}
        on_top = [pinned[key] for key in self.pinned if key in pinned]
        return on_top + [row for row in found if row.key is None or row.key not in self.pinned]

    def follow(self, shown: Sequence[Row]) -> None:
        """Move the cursor to the row with the key that it follows.

        If this row is hidden, the cursor keeps its position.
        """
        places = (place for place, row in enumerate(shown) if row.key == self.followed)
        place = self.selected if self.followed is None else next(places, self.selected)
        self.selected = max(0, min(len(shown) - 1, place))

    def press(self, key: str, shown: Sequence[Row], page: int) -> bool:
        """Process a pressed key; return False to quit.

        `shown` are the current rows, of which `page` are visible.
        """
        if self.typed is not None:
            self._type(key)
            return True
        if self.help:
            self.help = False
            return True
        if key == "q":
            return False
        letters = {column.letter: column.name for column in self.columns if column.letter}
        if key in KINDS_BY_KEY:
            self.kind, self.selected, self.followed = KINDS_BY_KEY[key], 0, None
        elif key in letters:
            self.sort = letters[key]
        elif key in ("<", ">"):
            names = [column.name for column in self.columns]
            self.sort = names[(names.index(self.column.name) + (1 if key == ">" else -1)) % len(names)]
        elif key == "r":
            self.reverse = not self.reverse
        elif key == " ":
            self.paused = not self.paused
        elif key in ("/", "f"):
            self.typed = self.filter
        elif key == "escape":
            self.filter = ""
        elif key in ("h", "?"):
            self.help = True
        elif key == "enter" and self.selected < len(shown):
            self._pin(shown[self.selected].key)
        else:
            self._move(key, shown, page)
        return True

    def _type(self, key: str) -> None:
        assert self.typed is not None
        if key == "enter":
            self.filter, self.typed = self.typed, None
            self.selected, self.followed = 0, None
        elif key == "escape":
            self.typed = None
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif len(key) == 1:
            self.typed += key

    def _pin(self, key: object) -> None:
        if key in self.pinned:
            self.pinned.remove(key)
        elif key is not None:
            self.pinned.append(key)

    def _move(self, key: str, shown: Sequence[Row], page: int) -> None:
        count = len(shown)
        steps = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "page up": -page,
            "page down": page,
            "home": -count,
            "end": count,
        }
        if key in steps and count:
            self.selected = max(0, min(count - 1, self.selected + steps[key]))
            self.followed = shown[self.selected].key
