from __future__ import annotations

import operator
from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.records.columns import Bool, Column, Int64, Integers, Lists, Octets, Texts, numbers
from zmtpscope.dissect.records.topic_words import FACTOR
from zmtpscope.filter.conditions import Comparison, Contains, IsThere, OneOf, Predicate, bounds
from zmtpscope.records import from_text

LONGEST_NAME = 64
"""Octets of texts that arrays distinguish; they take one operation for each octet."""

GATHERED_SHARE = 4
"""Octets are copied together for a search if they are less than one in this many."""

Fits = tuple[Bool, Bool, Bool]
"""Masks of rows: any value fits, all values fit, there is a value."""


def fits_of(column: Column, predicate: Predicate, rows: Int64) -> Fits | None:
    """Return which values of `rows` in a column fit a predicate; None if arrays cannot evaluate it."""
    if isinstance(column, Lists):
        return _lists_fit(column, predicate, rows)
    if isinstance(column, Integers):
        fits = _numbers_fit(column.values[rows], predicate)
        known = None if column.known is None else column.known[rows]
    elif isinstance(column, Texts | Octets):
        octets = column.octets if isinstance(column, Texts) else column
        fits = _octets_fit(octets, predicate, rows)
        known = None if octets.known is None else octets.known[rows]
    else:
        return None
    if fits is None:
        return None
    if known is None:
        return fits, fits, np.ones(len(rows), np.bool_)
    return fits & known, fits | ~known, known


def _lists_fit(column: Lists, predicate: Predicate, rows: Int64) -> Fits | None:
    if isinstance(column.items, Integers):
        items = _numbers_fit(column.items.values, predicate)
    else:
        octets = column.items.octets if isinstance(column.items, Texts) else column.items
        items = _octets_fit(octets, predicate, np.arange(len(octets.index)))
    if items is None:
        return None
    sums = np.append(0, np.cumsum(items))
    counts = column.edges[rows + 1] - column.edges[rows]
    fitting = sums[column.edges[rows + 1]] - sums[column.edges[rows]]
    return fitting > 0, fitting == counts, counts > 0


def _numbers_fit(values: NDArray[Any], predicate: Predicate) -> Bool | None:
    """Return a mask of the numbers that fit a predicate; None if arrays cannot evaluate it."""
    if isinstance(predicate, OneOf):
        return _any_fits([_numbers_fit(values, each) for each in predicate.predicates])
    if isinstance(predicate, IsThere):
        return np.ones(len(values), np.bool_)
    interval = bounds(predicate)
    if interval is None:
        return None
    low, high, is_inverted = interval
    fits: Bool
    if low is None or low == high:
        fits = values == high if low == high else values <= high
    else:
        fits = values >= low if high is None else (values >= low) & (values <= high)
    return ~fits if is_inverted else fits


def _octets_fit(column: Octets, predicate: Predicate, rows: Int64) -> Bool | None:
    """Return a mask of the texts or octets that fit a predicate; None if arrays cannot evaluate it.

    They can evaluate ==, !=, `in`, `contains` with octets, and a field name alone.
    """
    if isinstance(predicate, OneOf):
        return _any_fits([_octets_fit(column, each, rows) for each in predicate.predicates])
    if isinstance(predicate, IsThere):
        return np.ones(len(rows), np.bool_)
    if isinstance(predicate, Contains) and isinstance(predicate.part, bytes) and predicate.part:
        return _containing(column, predicate.part, rows)
    if not isinstance(predicate, Comparison) or predicate.compare not in (operator.eq, operator.ne):
        return None
    wanted = from_text(predicate.other) if isinstance(predicate.other, str) else predicate.other
    are_equal = _equal(column, wanted, rows)
    return are_equal if predicate.compare is operator.eq else ~are_equal


def _any_fits(found: list[Bool | None]) -> Bool | None:
    known = [each for each in found if each is not None]
    return np.logical_or.reduce(known) if len(known) == len(found) else None


def _equal(column: Octets, wanted: bytes, rows: Int64) -> Bool:
    """Return a mask of the rows whose octets are equal to `wanted`. Rows without a value are not equal."""
    equal = np.zeros(len(rows), np.bool_)
    candidates = np.arange(len(rows)) if column.known is None else np.flatnonzero(column.known[rows])
    index = column.index[rows[candidates]]
    octets = np.frombuffer(column.octets.whole, np.uint8)
    may_be = (column.sizes[index] == len(wanted)) & (column.starts[index] <= len(octets) - len(wanted))
    candidates, starts = candidates[may_be], column.starts[index[may_be]]
    for place in reversed(range(len(wanted))):  # names that are alike mostly differ at their end
        if not len(candidates):
            break
        are_equal = octets[starts + place] == wanted[place]
        if not are_equal.all():
            candidates, starts = candidates[are_equal], starts[are_equal]
    equal[candidates] = True
    return equal


def _containing(column: Octets, part: bytes, rows: Int64) -> Bool:
    containing = np.zeros(len(rows), np.bool_)
    index = column.index[rows]
    long_enough = np.flatnonzero(column.sizes[index] >= len(part))
    by_start = long_enough[np.argsort(column.starts[index[long_enough]], kind="stable")]
    starts, sizes = column.starts[index[by_start]], column.sizes[index[by_start]]
    octets = column.octets.whole
    if GATHERED_SHARE * sizes.sum() < len(octets):  # the octets in between are skipped
        octets = np.frombuffer(octets, np.uint8)[numbers(starts, sizes)].tobytes()
        starts = np.cumsum(sizes) - sizes
    containing[by_start[_pieces_with(octets, part, starts.tolist(), (starts + sizes).tolist())]] = True
    return containing


def _pieces_with(octets: bytes, part: bytes, starts: list[int], stops: list[int]) -> list[int]:
    """Return the indexes i of the sorted pieces `octets[starts[i]:stops[i]]` that contain `part`."""
    found = []
    piece = 0
    while piece < len(starts) and (at := octets.find(part, starts[piece])) >= 0:
        piece = bisect_right(starts, at, piece) - 1
        if at + len(part) <= stops[piece]:
            found.append(piece)
        piece += 1
    return found


def different(column: Octets, rows: Int64) -> tuple[Int64, Int64] | None:
    """Return one row for each distinct value in `rows`, and for each row the index of its value.

    All rows must have a value. None if values are too long, or if hashes collide.
    """
    index = column.index[rows]
    starts, sizes = column.starts[index], column.sizes[index]
    longest = int(sizes.max(initial=0))
    if longest > LONGEST_NAME:
        return None
    octets = np.frombuffer(column.octets.whole + bytes(longest), np.uint8)
    names = sizes.astype(np.uint64)
    for place in range(longest):
        names = names * FACTOR + np.where(place < sizes, octets[starts + place], 0)
    _, first, which = np.unique(names, return_index=True, return_inverse=True)
    same = first[which]
    if (sizes[same] != sizes).any():
        return None
    for place in range(longest):
        if ((octets[starts[same] + place] != octets[starts + place]) & (place < sizes)).any():
            return None
    return first, which
