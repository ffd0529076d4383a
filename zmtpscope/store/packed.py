"""Pack columns of integers into as few octets as possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

WIDTHS = ((0xFF, np.dtype(np.uint8)), (0xFFFF, np.dtype(np.uint16)), (0xFFFFFFFF, np.dtype(np.uint32)))
"""Types for differences from the smallest value; larger ones take eight octets."""


class Packed:
    """A column of `count` 64-bit integers, packed.

    `base` is the smallest; the differences from it have the smallest possible type, and are left out if all are 0.
    """

    __slots__ = ("base", "count", "more")

    def __init__(self, base: int, count: int, more: NDArray[Any] | None) -> None:
        self.base = base
        self.count = count
        self.more = more

    @classmethod
    def of(cls, values: NDArray[Any]) -> Packed:
        if not len(values):
            return cls(0, 0, None)
        if values.dtype == np.bool_:
            values = values.view(np.uint8)
        low, high = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
        if low == high:
            return cls(low, len(values), None)
        for most, width in WIDTHS:
            if high - low <= most:
                more = np.empty(len(values), width)
                np.subtract(values, low, out=more, casting="unsafe")
                return cls(low, len(values), more)
        # the difference of two may need 64 bits: it is right when it wraps
        return cls(low, len(values), (values.astype(np.int64) - np.int64(low)).view(np.uint64))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> int:
        return self.base if self.more is None else self.base + int(self.more[place])

    def all(self) -> Int64:
        return self._unpacked(self.more, self.count)

    def take(self, places: Int64 | slice) -> Int64:
        if self.more is not None:
            some = self.more[places]
            return self._unpacked(some, len(some))
        count = len(range(*places.indices(self.count))) if isinstance(places, slice) else len(places)
        return self._unpacked(None, count)

    def at(self, places: Int64) -> Packed:
        """Return the values at the indexes `places`, packed."""
        return Packed(self.base, len(places), None if self.more is None else self.more[places])

    def _unpacked(self, more: NDArray[Any] | None, count: int) -> Int64:
        if more is None:
            return np.full(count, self.base, np.int64)
        values: Int64 = more.astype(np.uint64).view(np.int64)
        values += np.int64(self.base)
        return values

    @property
    def nbytes(self) -> int:
        return 0 if self.more is None else self.more.nbytes


def joined(parts: Sequence[Packed], shifts: Iterable[int] | None = None) -> Packed:
    """Concatenate packed columns. `shifts[i]` is added to the values of column i."""
    shifts = [0] * len(parts) if shifts is None else list(shifts)
    bases = {part.base + shift for part, shift in zip(parts, shifts, strict=True) if len(part)}
    if len(bases) == 1 and all(part.more is None for part in parts):
        return Packed(bases.pop(), sum(map(len, parts)), None)
    return Packed.of(np.concatenate([part.all() + shift for part, shift in zip(parts, shifts, strict=True)]))


@dataclass(slots=True)
class Columns:
    """Packed columns that belong together. Members are columns, dictionaries of columns, or `Columns`."""

    @property
    def nbytes(self) -> int:
        return sum(_nbytes(getattr(self, each.name)) for each in fields(self))

    @classmethod
    def joined(cls, parts: Sequence[Self], **shifts: Sequence[int]) -> Self:
        """Concatenate the columns of all parts.

        `shifts` by column name: `shifts[name][i]` is added to the values of this column in part i.
        """
        members = {each.name: [getattr(part, each.name) for part in parts] for each in fields(cls)}
        return cls(**{name: _joined(columns, shifts.get(name)) for name, columns in members.items()})


def _nbytes(member: Any) -> int:
    if isinstance(member, dict):
        return sum(map(_nbytes, member.values()))
    return getattr(member, "nbytes", 0)


def _joined(columns: Sequence[Any], shifts: Sequence[int] | None = None) -> Any:
    first = columns[0]
    if isinstance(first, Packed):
        return joined(columns, shifts)
    if isinstance(first, dict):
        return {name: _joined([column[name] for column in columns]) for name in first}
    return first if first is None or isinstance(first, str) else first.joined(columns)


@dataclass(slots=True)
class Optional(Columns):
    """A packed column of integers and None; `known` is 1 for integers."""

    values: Packed
    known: Packed

    @classmethod
    def of(cls, values: Sequence[int | None]) -> Optional:
        """Pack integers. Raises `OverflowError` if one exceeds 64 bits with a sign."""
        if values and values.count(values[0]) == len(values):  # the usual case, found quickly
            known = Packed(values[0] is not None, len(values), None)
            return cls(Packed(int(values[0] or 0), len(values), None), known)
        is_known = np.array([value is not None for value in values], np.bool_)
        held = values if is_known.all() else [value for value in values if value is not None]
        numbers = np.array(held, np.int64)
        if len(numbers) < len(values):  # the others need no memory if they equal one of these
            whole = np.full(len(values), numbers.min() if len(numbers) else 0, np.int64)
            whole[is_known] = numbers
            numbers = whole
        return cls(Packed.of(numbers), Packed.of(is_known))

    def __len__(self) -> int:
        return self.values.count

    def __getitem__(self, place: int) -> int | None:
        return self.values[place] if self.known[place] else None

    def tolist(self, places: Int64 | slice) -> list[int | None]:
        values: list[int | None] = self.values.take(places).tolist()
        if self.known.more is None:
            return values if self.known.base else [None] * len(values)
        known = self.known.take(places).tolist()
        return [value if is_known else None for value, is_known in zip(values, known, strict=True)]
