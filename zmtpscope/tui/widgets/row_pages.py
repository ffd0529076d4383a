"""The rows of a long list that are at hand: some pages around what can be seen."""

from __future__ import annotations

from collections import OrderedDict

from zmtpscope.tui.requests import Page, Row

PAGE = 64
"""Rows of a page."""
MOST_PAGES = 64
AT_ONCE = 4
"""Pages that are asked for at once, at most."""
OUTDATED = -1
"""In place of the count when a page was asked for: whatever it has, it is asked for again."""


class RowPages:
    """Pages by their first row, those that were looked at last. A page may have fewer rows than `PAGE` while the list
    grows; it is asked for again when there are more."""

    def __init__(self) -> None:
        self._pages: OrderedDict[int, tuple[tuple[Row, ...], int]] = OrderedDict()

    def row(self, place: int) -> Row | None:
        """A row by its place in the list; None: not at hand."""
        number, offset = divmod(place, PAGE)
        rows, _ = self._pages.get(number, ((), 0))
        return rows[offset] if offset < len(rows) else None

    def put(self, page: Page, count: int) -> bool:
        """Keep rows that start with a page; the list had `count` rows when they were asked for. Returns whether others
        stood in their places."""
        is_other = False
        for start in range(0, max(1, len(page.rows)), PAGE):
            number = (page.low + start) // PAGE
            rows = page.rows[start : start + PAGE]
            before, _ = self._pages.get(number, ((), 0))
            is_other |= rows[: len(before)] != before
            self._pages[number] = (rows, count)
            self._pages.move_to_end(number)
        while len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)
        return is_other

    def missing(self, low: int, high: int, count: int) -> tuple[int, int] | None:
        """The first rows of `low..high` that should be asked for, as whole pages; None: all are at hand."""
        first = last = None
        for number in range(max(0, low) // PAGE, -(-min(high, count) // PAGE)):
            if self._is_complete(number, count):
                self._pages.move_to_end(number)
                if first is not None:
                    break
            else:
                first = number if first is None else first
                last = number
                if number - first + 1 == AT_ONCE:
                    break
        return None if first is None or last is None else (first * PAGE, (last + 1) * PAGE)

    def _is_complete(self, number: int, count: int) -> bool:
        if number not in self._pages:
            return False
        rows, known = self._pages[number]
        return known == count or (known != OUTDATED and len(rows) >= min(PAGE, count - number * PAGE))

    def ask_again(self) -> None:
        """The rows are the same, their cells are not: show what there is until others come."""
        self._pages = OrderedDict((number, (rows, OUTDATED)) for number, (rows, _) in self._pages.items())

    def clear(self) -> None:
        self._pages.clear()
