"""Search for rows with a text, /regular expression/ or 0xOCTETS."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from zmtpscope.filter import Filter, FilterError
from zmtpscope.filter.writing import quoted
from zmtpscope.store import Store
from zmtpscope.store.packed import Int64

FIRST_STEP, MAX_CONCURRENT = 256, 4096
"""Rows of the first step (few, for near rows), and maximum."""

OCTETS = ("bodies", "body", "context", "data")
TEXTS = ("topic", "payload.summary", "name", "text", "hint", "identity", "username", "reason", "group")
FIELDS = (*TEXTS, "metadata.value", *OCTETS)
"""Fields to search. Passwords are excluded, as in filters."""

_HEX = re.compile(r"0x((?:[0-9A-Fa-f]{2})+)")


def filter_of(sought: str) -> Filter:
    """Return the filter that matches the text that a user searches. Raises `FilterError` for an invalid regular
    expression."""
    names: Sequence[str] = FIELDS
    operator, value = "contains", quoted(sought.encode("utf-8", "surrogateescape"))
    if match := _HEX.fullmatch(sought.replace(" ", "")):
        names, value = OCTETS, quoted(bytes.fromhex(match[1]))
    elif len(sought) > 2 and sought[0] == sought[-1] == "/":
        operator, value = "matches", quoted(sought[1:-1].encode("utf-8", "surrogateescape"))
    try:
        return Filter(" or ".join(f"{name} {operator} {value}" for name in names))
    except FilterError as error:
        raise FilterError(error.sentence, sought, 0, len(sought)) from None


class Search:
    """A search among the rows `numbers`, after the position `place`, or backwards before it. Raises `FilterError`."""

    def __init__(self, store: Store, numbers: Int64, sought: str, place: int, *, forward: bool) -> None:
        self._store = store
        self._numbers = numbers
        self._filter = filter_of(sought)
        end = len(numbers)
        self._rows = np.arange(place + 1, end) if forward else np.arange(min(place, end) - 1, -1, -1)
        self._looked_at = 0
        self._step = FIRST_STEP
        self.found: int | None = None

    @property
    def is_done(self) -> bool:
        return self.found is not None or self._looked_at == len(self._rows)

    @property
    def percent(self) -> int:
        return 100 * self._looked_at // max(1, len(self._rows))

    def step(self) -> None:
        rows = self._rows[self._looked_at : self._looked_at + self._step]
        numbers = self._numbers[rows]
        fits = np.isin(numbers, self._store.select(self._filter, np.sort(numbers))).nonzero()[0]
        self._looked_at += len(rows)
        self._step = min(2 * self._step, MAX_CONCURRENT)
        if len(fits):
            self.found = int(rows[fits[0]])
