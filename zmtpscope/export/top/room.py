"""Counting where there may be no room for the rows that messages need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from zmtpscope.export.top.columns import Columns
from zmtpscope.export.top.counters import Counters, TooManyRows

Found = TypeVar("Found")


def count_with_room(
    columns: Columns,
    counters: Sequence[Counters[Any]],
    find: Callable[[Columns], Found],
    add: Callable[[Columns, Found], None],
    forget: Callable[[], None],
    fold: Callable[[Counters[Any]], object],
) -> None:
    """Count messages: `find` their rows, and `add` them to these. Where there is no room for a row, all messages
    in front of the first that needs it are counted before `fold` makes room, so that it is made at the same message
    always. `forget` what rows were found: they have other numbers now."""
    before = [(each, len(each)) for each in counters]
    try:
        found = find(columns)
    except TooManyRows as error:
        for each, length in before:
            each.roll_back(length)
        forget()
        count = len(columns.run_of)
        if count > 1:
            for half in (slice(count // 2), slice(count // 2, None)):
                count_with_room(columns.part(half), counters, find, add, forget, fold)
        else:
            fold(error.counters)
            count_with_room(columns, counters, find, add, forget, fold)
    else:
        add(columns, found)
