"""Count messages when the tables may be full."""

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
    """Count messages: `find` returns their rows and `add` counts them. If a table is full, all messages before the
    first one without a row are counted before `fold` makes room. The result is therefore independent of the size of
    batches. `forget` drops cached row numbers, which are invalid after that."""
    before = [(each, len(each)) for each in counters]
    try:
        found = find(columns)
    except TooManyRows as error:
        for each, length in before:
            each.roll_back(length)
        forget()
        count = len(columns.rows)
        if count > 1:
            for half in (slice(count // 2), slice(count // 2, None)):
                count_with_room(columns.part(half), counters, find, add, forget, fold)
        else:
            fold(error.counters)
            count_with_room(columns, counters, find, add, forget, fold)
    else:
        add(columns, found)
