"""Columns: the values of one field, one for each row, by the logical type that `zmtpscope.records` declares.

`column[row]` is the value as a record has it, None where it is unknown; whoever wants many takes the arrays.
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
    """`counts[i]` numbers from `first[i]` on, for every i."""
    if len(counts) and counts.min() == 1 == counts.max():
        return first
    ends = np.cumsum(counts)
    return np.repeat(first - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)


class Column(Protocol):
    """The values of one field."""

    def __getitem__(self, row: int, /) -> Any:
        """The value in a row; None where it is unknown."""

    def tolist(self) -> list[Any]:
        """The values in all rows."""


@dataclass(slots=True, eq=False)
class Integers:
    """int: `values[row]`, null where not `known`; None: all are known."""

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
    """bool: `values[row]`."""

    values: Bool

    def __getitem__(self, row: int, /) -> bool:
        return bool(self.values[row])

    def tolist(self) -> list[bool]:
        values: list[bool] = self.values.tolist()
        return values


@dataclass(slots=True, eq=False)
class Words:
    """text of which there are few different ones: `words[codes[row]]`."""

    words: Sequence[str | None]
    codes: NDArray[Any]

    def __getitem__(self, row: int, /) -> str | None:
        return self.words[int(self.codes[row])]

    def tolist(self) -> list[str | None]:
        return [self.words[code] for code in self.codes.tolist()]


class JoinedOctets:
    """The octets of several runs as if they were one behind the other: those of run i have their places from
    `begins[i]` on."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self.ends: Int64 = np.cumsum([len(piece) for piece in pieces])
        self.begins: Int64 = np.append(0, self.ends[:-1])

    @cached_property
    def whole(self) -> bytes:
        """All of them, in fact one behind the other."""
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)

    @cached_property
    def _begins(self) -> list[int]:
        begins: list[int] = self.begins.tolist()
        return begins

    def slice(self, start: int, size: int) -> bytes:
        """Octets of one run."""
        place = bisect_right(self._begins, start) - 1
        start -= self._begins[place]
        return self.pieces[place][start : start + size]


@dataclass(slots=True, eq=False)
class Octets:
    """octets: of the slices `starts[i] : starts[i] + sizes[i]` of `octets`, which follow one another, the one with the
    number `index[row]`; null where not `known`."""

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
        """Those of some rows."""
        return replace(self, index=self.index[rows], known=None if self.known is None else self.known[rows])


@dataclass(slots=True, eq=False)
class Texts:
    """text that octets of the network are, as `to_text` has it."""

    octets: Octets

    def __getitem__(self, row: int, /) -> str | None:
        octets = self.octets[row]
        return None if octets is None else to_text(octets)

    def tolist(self) -> list[str | None]:
        return [None if octets is None else to_text(octets) for octets in self.octets.tolist()]


@dataclass(slots=True, eq=False)
class Lists:
    """list: `items[edges[row] : edges[row + 1]]`, null where not `known`: there are no items of these."""

    items: Integers | Octets | Texts
    edges: Int64
    known: Bool

    def __getitem__(self, row: int, /) -> list[Any] | None:
        if not self.known[row]:
            return None
        return [self.items[place] for place in range(self.edges[row], self.edges[row + 1])]

    def sums(self) -> Integers:
        """The sum of each list of sizes. (Frames lie side by side, so none reaches 2^64.)"""
        assert isinstance(self.items, Integers)
        if len(self.items.values) == len(self.known) and (np.diff(self.edges) == 1).all():
            return Integers(self.items.values)
        sums = np.append(np.zeros(1, np.uint64), np.cumsum(self.items.values.astype(np.uint64)))
        return Integers(sums[self.edges[1:]] - sums[self.edges[:-1]], self.known)

    def tolist(self) -> list[list[Any] | None]:
        items, edges = self.items.tolist(), self.edges.tolist()
        rows = zip(edges, edges[1:], self.known.tolist(), strict=False)
        return [items[begin:end] if known else None for begin, end, known in rows]
