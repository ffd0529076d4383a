from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import click

from zmtpscope.cli.terminal import terminal_width, write_json
from zmtpscope.records import SECOND

if TYPE_CHECKING:
    from zmtpscope.capture import CaptureStatistics
    from zmtpscope.export.top.rates import Interval, Rates
    from zmtpscope.export.top.rows import Row
    from zmtpscope.export.top.view import View

WIDEST = 10_000
"""Width in columns of a table in a file or a pipe."""


class Numbers:
    """The rows to show: of the last interval in a live capture, otherwise of the whole run."""

    def __init__(self, rates: Rates, statistics: CaptureStatistics, *, is_live: bool) -> None:
        self.rates = rates
        self.is_live = is_live
        self._statistics = statistics

    @property
    def seconds(self) -> float:
        first, last = self._statistics.first_time, self._statistics.last_time
        return 0.0 if first is None or last is None else (last - first) / SECOND

    def now(self, kind: str) -> list[Row]:
        """Return the rows of a kind ("topic", "connection" ...) to show while packets arrive."""
        from zmtpscope.export.top.rows import interval_rows

        if self.is_live and self.rates.interval_ns is not None:
            return interval_rows(self.rates, kind, self.rates.interval_ns / SECOND)
        return self.in_all(kind)

    def in_all(self, kind: str) -> list[Row]:
        from zmtpscope.export.top.rows import total_rows

        interval = self.seconds if self.rates.interval_ns is None else self.rates.interval_ns / SECOND
        return total_rows(self.rates, kind, self.seconds, interval)


class Output:
    """Base of the outputs of `top`, which print the counts of each interval: at most `most` rows, as `view` selects
    them."""

    is_screen = False

    def __init__(self, numbers: Numbers, view: View, most: int | None) -> None:
        self.numbers = numbers
        self.view = view
        self.most = most

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, interval: Interval | None) -> bool:
        """Print the counts of an interval that ended, or (None) use a pause of the input; return False to stop."""
        return True

    def finish(self, *, is_wanted: bool) -> None:
        """Print the end of the output; `is_wanted` is false if a key ended the run."""

    def print(self, rows: Sequence[Row]) -> None:
        """Print a table of rows, as wide as the terminal or, without one, as wide as needed."""
        from rich.console import Console

        from zmtpscope.export.top.table import table_of

        width = terminal_width()
        console = Console(highlight=False, markup=False, emoji=False, width=width or WIDEST, no_color=True)
        with console.capture() as captured:
            console.print(table_of(self.view, self.view.select(rows)[: self.most], width))
        click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


class JsonLines(Output):
    """Prints a JSON object for each row of each interval."""

    def update(self, interval: Interval | None) -> bool:
        if interval is not None:
            from zmtpscope.export.top.rows import interval_rows, lines

            rows = interval_rows(self.numbers.rates, self.view.kind, (interval.end_ns - interval.start_ns) / SECOND)
            shown = self.view.select([row for row in rows if row.counts.messages])[: self.most]
            write_json(lines(shown, self.view.kind, interval))
        return True


class Tables(Output):
    """Prints a table for each interval in a live capture, or one table at the end of a file."""

    def update(self, interval: Interval | None) -> bool:
        if interval is not None and self.numbers.is_live:
            from zmtpscope.export.clock import rfc_3339

            rows = [row for row in self.numbers.now(self.view.kind) if row.counts.messages]
            seconds, nanoseconds = divmod(interval.start_ns, SECOND)
            click.echo(f"{rfc_3339(seconds).decode()}.{nanoseconds // 1_000_000:03}Z")
            self.print(rows)
            click.echo()
            sys.stdout.flush()
        return True

    def finish(self, *, is_wanted: bool) -> None:
        if not self.numbers.is_live:
            self.print(self.numbers.in_all(self.view.kind))


def has_screen() -> bool:
    """Whether the terminal allows redrawing the table and reading keys. Windows reads keys differently, so
    it does not."""
    return os.name == "posix" and sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "", None)
