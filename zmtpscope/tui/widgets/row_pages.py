"""A cache of pages of a long list."""

from __future__ import annotations

from collections import OrderedDict

from zmtpscope.tui.requests import Page, Row

PAGE = 64
"""Rows of a page."""
MAX_PAGES = 64
AT_ONCE = 4
"""Maximum number of pages in one request."""
OUTDATED = -1
"""Replaces the count of rows of a page that must be requested again."""


class RowPages:
    """The pages that were used last. Incomplete pages are loaded again when the list grows."""

    def __init__(self) -> None:
        self._pages: OrderedDict[int, tuple[tuple[Row, ...], int]] = OrderedDict()

    def row(self, place: int) -> Row | None:
        number, offset = divmod(place, PAGE)
        rows, _ = self._pages.get(number, ((), 0))
        return rows[offset] if offset < len(rows) else None

    def put(self, page: Page, count: int) -> bool:
        """Store rows that begin at the start of a page, and were requested when the list had `count` rows. Return
        whether they changed."""
        is_other = False
        for start in range(0, max(1, len(page.rows)), PAGE):
            number = (page.low + start) // PAGE
            rows = page.rows[start : start + PAGE]
            before, _ = self._pages.get(number, ((), 0))
            is_other |= rows[: len(before)] != before
            self._pages[number] = (rows, count)
            self._pages.move_to_end(number)
        while len(self._pages) > MAX_PAGES:
            self._pages.popitem(last=False)
        return is_other

    def missing(self, low: int, high: int, count: int) -> tuple[int, int] | None:
        """Return the first range of rows within `low..high` to load, in whole pages; None if all are loaded."""
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

    def have(self, low: int, high: int, count: int) -> bool:
        """Whether all rows of `low..high` are loaded, even if outdated."""
        return all(self.row(place) is not None for place in range(max(0, low), min(high, count)))

    def _is_complete(self, number: int, count: int) -> bool:
        if number not in self._pages:
            return False
        rows, known = self._pages[number]
        return known == count or (known != OUTDATED and len(rows) >= min(PAGE, count - number * PAGE))

    def ask_again(self, kept: int = 0) -> None:
        """Mark pages with rows after the first `kept` as outdated. Their rows are shown until new ones arrive."""
        for number, (rows, _) in self._pages.items():
            if (number + 1) * PAGE > kept:
                self._pages[number] = rows, OUTDATED

    def clear(self) -> None:
        self._pages.clear()
