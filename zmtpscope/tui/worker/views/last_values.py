"""The last value of a topic, and how it differs from the previous one, read from the store when shown."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from zmtpscope.dissect import MessageTable
from zmtpscope.dissect.records.message_columns import MessageColumns, content_frames
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.top.columns import UnreadMessage
from zmtpscope.export.top.rows import value_text
from zmtpscope.store import Store

LONGEST_VALUE = 60

LONGEST_NUMBER = 32
"""Octets of a body that may be a number."""

LARGEST = 2**53
"""Limit below which floats represent all integers exactly."""

MAX_NAMES, LONGEST_NAME = 3, 20
"""Maximum members named, and characters of a name."""

SAME, CHANGED = "same", "changed"


class LastValue(NamedTuple):
    """The content of a message as text without control characters, and its change from the previous message.

    The change is `+0.3` for numbers, `price +0.3, state` for members that differ, otherwise `same` or `changed`. None
    without a previous message, or with missing octets.
    """

    text: str
    change: str | None


class LastValues:
    """Reads the last values of several topics at once, and caches them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[tuple[int, int], LastValue] = {}

    def read(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Read the values of pairs of record numbers: a message and the previous one (negative: there is none)."""
        wanted = set(pairs)
        self._read = {pair: value for pair, value in self._read.items() if pair in wanted}
        missing = wanted - self._read.keys()
        runs = self._runs({number for pair in missing for number in pair if number >= 0})
        for last, before in missing:
            change = None if before < 0 else _change(runs[before], runs[last])
            self._read[last, before] = LastValue(_text(runs[last]), change)

    def __getitem__(self, pair: tuple[int, int]) -> LastValue:
        return self._read[pair]

    def _runs(self, numbers: set[int]) -> dict[int, MessageTable]:
        """Return, by record number, each message as a table with one row."""
        if not numbers:
            return {}
        columns = MessageColumns.of(self._store.batch(sorted(numbers)), self._store.options)
        return {number: columns.alone(row) for row, number in enumerate(sorted(numbers))}


def _text(run: MessageTable) -> str:
    return value_text(UnreadMessage(run, 0, 0).read(), LONGEST_VALUE)


def _content(run: MessageTable) -> list[bytes | None]:
    """Return the frames of a message after addresses and topic; None for a frame with missing octets."""
    first, last = int(content_frames(run)[0]), int(run.last[0])
    heads = [(run.head(frame), int(run.sizes[frame])) for frame in range(first, last + 1)]
    return [octets if octets is not None and len(octets) == size else None for octets, size in heads]


def _change(before: MessageTable, last: MessageTable) -> str | None:
    old, new = _content(before), _content(last)
    if None in old or None in new:
        return None
    if old == new:
        return SAME
    numbers = _number(old[-1] or b""), _number(new[-1] or b"")
    if old[:-1] == new[:-1] and numbers[0] is not None and numbers[1] is not None:
        return f"{numbers[1] - numbers[0]:+}"
    return members_changed(_members(before), _members(last)) or CHANGED


def _members(run: MessageTable) -> dict[str, Any]:
    made = run.made(0)
    return made.fields if made is not None and isinstance(made.fields, dict) else {}


def members_changed(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Describe the members that both objects have and that differ: `price +0.3, state`."""
    words = []
    for name, value in new.items():
        if name in old and old[name] != value:
            numbers = [each for each in (old[name], value) if isinstance(each, int | float) and abs(each) < LARGEST]
            change = f" {numbers[1] - numbers[0]:+.6g}" if len(numbers) == 2 else ""
            words.append(safe_text(str(name)[:LONGEST_NAME]) + change)
    return ", ".join(words[:MAX_NAMES]) + (" …" if len(words) > MAX_NAMES else "")


def _number(octets: bytes) -> Decimal | None:
    try:
        number = Decimal(octets.decode("ascii")) if len(octets) <= LONGEST_NUMBER else None
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return number if number is not None and number.is_finite() else None
