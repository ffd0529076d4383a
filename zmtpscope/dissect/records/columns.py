"""Columns: the values of one field for many rows, by logical type of `zmtpscope.records`.

`column[row]` is a record's value; None if unknown. To read many values, use the arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zmtpscope.records import to_text

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]


def numbers(first: Int64, counts: Int64) -> Int64:
    """Return `counts[i]` consecutive numbers from `first[i]` on, for every i: `[2, 7], [3, 1] -> [2, 3, 4, 7]`."""
    if len(counts) and counts.min() == 1 == counts.max():
        return first
    ends = np.cumsum(counts)
    return np.repeat(first - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)


class Column(Protocol):
    def __getitem__(self, row: int, /) -> Any:
        """Return the value in a row, None if unknown."""

    def tolist(self) -> list[Any]:
        """Return the values of all rows."""


@dataclass(slots=True, eq=False)
class Integers:
    """A column of integers: `values[row]`, null if not `known` (None: all are)."""

    values: Int64 | NDArray[np.uint64]
    known: Bool | None = None

    def __getitem__(self, row: int, /) -> int | None:
        return int(self.values[row]) if self.known is None or self.known[row] else None

    def tolist(self) -> list[int | None]:
        values: list[int | None] = self.values.tolist()
        if self.known is None:
            return values
        return [value if known else None for value, known in zip(values, self.known.tolist(), strict=True)]


@dataclass(slots=True, eq=False)
class Booleans:
    values: Bool

    def __getitem__(self, row: int, /) -> bool:
        return bool(self.values[row])

    def tolist(self) -> list[bool]:
        values: list[bool] = self.values.tolist()
        return values


@dataclass(slots=True, eq=False)
class Words:
    """A column of texts with few different values: `words[codes[row]]`."""

    words: Sequence[str | None]
    codes: NDArray[Any]

    def __getitem__(self, row: int, /) -> str | None:
        return self.words[int(self.codes[row])]

    def tolist(self) -> list[str | None]:
        return [self.words[code] for code in self.codes.tolist()]


class JoinedOctets:
    """The octets of several senders with continuous indexes: the octets of sender i start at `begins[i]`."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self.ends: Int64 = np.cumsum([len(piece) for piece in pieces])
        self.begins: Int64 = np.append(0, self.ends[:-1])

    @cached_property
    def whole(self) -> bytes:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)

    @cached_property
    def _begins(self) -> list[int]:
        begins: list[int] = self.begins.tolist()
        return begins

    def slice(self, start: int, size: int) -> bytes:
        """Return `size` octets from `start` on, which must all belong to one sender."""
        place = bisect_right(self._begins, start) - 1
        start -= self._begins[place]
        return self.pieces[place][start : start + size]


@dataclass(slots=True, eq=False)
class Octets:
    """A column of octets: `octets[starts[i] : starts[i] + sizes[i]]` for i = `index[row]`, null if not `known`.

    The starts are ascending.
    """

    octets: JoinedOctets
    starts: Int64
    sizes: Int64
    index: Int64
    known: Bool | None = None

    def __getitem__(self, row: int, /) -> bytes | None:
        if self.known is not None and not self.known[row]:
            return None
        place = self.index[row]
        return self.octets.slice(int(self.starts[place]), int(self.sizes[place]))

    def tolist(self) -> list[bytes | None]:
        known = np.arange(len(self.index)) if self.known is None else np.flatnonzero(self.known)
        places = self.index[known]
        starts, whole = self.starts[places], self.octets.whole
        stops = starts + self.sizes[places]
        found: list[bytes | None] = [
            whole[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        ]
        if self.known is None:
            return found
        octets = np.full(len(self.index), None, object)
        octets[known] = found
        listed: list[bytes | None] = octets.tolist()
        return listed

    def of(self, rows: Int64) -> Octets:
        return replace(self, index=self.index[rows], known=None if self.known is None else self.known[rows])


@dataclass(slots=True, eq=False)
class Texts:
    """A column of texts, given as octets from network traffic (decoded by `to_text`)."""

    octets: Octets

    def __getitem__(self, row: int, /) -> str | None:
        octets = self.octets[row]
        return None if octets is None else to_text(octets)

    def tolist(self) -> list[str | None]:
        return [None if octets is None else to_text(octets) for octets in self.octets.tolist()]


@dataclass(slots=True, eq=False)
class Lists:
    """A column of lists: `items[edges[row] : edges[row + 1]]`, null if not `known`."""

    items: Integers | Octets | Texts
    edges: Int64
    known: Bool

    def __getitem__(self, row: int, /) -> list[Any] | None:
        if not self.known[row]:
            return None
        return [self.items[place] for place in range(self.edges[row], self.edges[row + 1])]

    def sums(self) -> Integers:
        """Sum each list of sizes. Frames do not overlap, so sums are less than 2^64."""
        assert isinstance(self.items, Integers)
        if len(self.items.values) == len(self.known) and (np.diff(self.edges) == 1).all():
            return Integers(self.items.values)
        sums = np.append(np.zeros(1, np.uint64), np.cumsum(self.items.values.astype(np.uint64)))
        return Integers(sums[self.edges[1:]] - sums[self.edges[:-1]], self.known)

    def tolist(self) -> list[list[Any] | None]:
        items, edges = self.items.tolist(), self.edges.tolist()
        rows = zip(edges, edges[1:], self.known.tolist(), strict=False)
        return [items[begin:end] if known else None for begin, end, known in rows]
