from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from zmtpscope.cli.terminal import terminal_width, write_json
from zmtpscope.records import SECOND

if TYPE_CHECKING:
    from zmtpscope.capture import CaptureStatistics
    from zmtpscope.cli.top_screen import TopScreen
    from zmtpscope.export.top.rates import Interval, Rates
    from zmtpscope.export.top.rows import Row
    from zmtpscope.export.top.view import View

WIDEST = 10_000
"""Columns of a table in a file or a pipe."""

REFRESH = 0.25
"""Seconds between checks of the terminal size while nothing arrives."""


class Output:
    """Writes the counts of each interval."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def update(self, interval: Interval | None) -> bool:
        """Show the numbers at the end of an interval, or (None) in a pause of the input; return False to stop."""
        return True

    def finish(self, *, is_wanted: bool) -> None:
        """Print the end of the output; `is_wanted` is false if a key ended the run."""


class JsonLines(Output):
    """An object for each interval and row."""

    def __init__(self, rates: Rates, view: View, most: int | None) -> None:
        self._rates = rates
        self._view = view
        self._most = most

    def update(self, interval: Interval | None) -> bool:
        if interval is not None:
            from zmtpscope.export.top.rows import interval_rows, lines

            rows = interval_rows(self._rates, self._view.kind, (interval.end_ns - interval.start_ns) / SECOND)
            shown = self._view.select([row for row in rows if row.messages])[: self._most]
            write_json(lines(shown, self._view.kind, interval))
        return True


class Numbers:
    """Rows of the last interval while packets arrive, otherwise of the whole run."""

    def __init__(self, rates: Rates, statistics: CaptureStatistics, *, is_live: bool) -> None:
        self.rates = rates
        self.is_live = is_live
        self._statistics = statistics

    @property
    def seconds(self) -> float:
        """Return the time from the first packet to the last."""
        first, last = self._statistics.first_time, self._statistics.last_time
        return 0.0 if first is None or last is None else (last - first) / SECOND

    def now(self, kind: str) -> list[Row]:
        """Return the rows to show while packets arrive."""
        from zmtpscope.export.top.rows import interval_rows

        if self.is_live and self.rates.interval_ns is not None:
            return interval_rows(self.rates, kind, self.rates.interval_ns / SECOND)
        return self.in_all(kind)

    def in_all(self, kind: str) -> list[Row]:
        """Return the rows to show at the end."""
        from zmtpscope.export.top.rows import total_rows

        interval = self.seconds if self.rates.interval_ns is None else self.rates.interval_ns / SECOND
        return total_rows(self.rates, kind, self.seconds, interval)


class Tables(Output):
    """A table for each interval while packets arrive, or one at the end of a file."""

    def __init__(self, numbers: Numbers, view: View, most: int | None) -> None:
        self._numbers = numbers
        self._view = view
        self._most = most

    def update(self, interval: Interval | None) -> bool:
        if interval is not None and self._numbers.is_live:
            from zmtpscope.export.clock import rfc_3339

            rows = [row for row in self._numbers.now(self._view.kind) if row.messages]
            seconds, nanoseconds = divmod(interval.start_ns, SECOND)
            click.echo(f"{rfc_3339(seconds).decode()}.{nanoseconds // 1_000_000:03}Z")
            print_table(self._view, self._view.select(rows)[: self._most])
            click.echo()
            sys.stdout.flush()
        return True

    def finish(self, *, is_wanted: bool) -> None:
        if not self._numbers.is_live:
            print_table(self._view, self._view.select(self._numbers.in_all(self._view.kind))[: self._most])


class Screen(Output):
    """A table at the size of the terminal. The totals remain visible at the end."""

    def __init__(
        self,
        numbers: Numbers,
        view: View,
        most: int | None,
        title: Callable[[], str],
        diagnoses: Sequence[str],
    ) -> None:
        from zmtpscope.cli.top_screen import TopScreen

        self._numbers = numbers
        self._view = view
        self._most = most
        self._title = title
        self._screen: TopScreen | None = TopScreen(view, numbers.now, self._title_now, diagnoses)

    def __enter__(self) -> Self:
        if self._screen is not None:
            self._screen.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        screen, self._screen = self._screen, None
        if screen is not None:
            screen.__exit__(kind, error, trace)

    def update(self, interval: Interval | None) -> bool:
        if self._screen is None:
            return True
        if interval is not None or not self._numbers.is_live:
            self._screen.change()
        return interval is not None or self._screen.wait(0)

    def finish(self, *, is_wanted: bool) -> None:
        if self._screen is not None:
            self._screen.draw()
            while is_wanted and self._screen.has_keys and self._screen.wait(REFRESH):
                pass
        self.__exit__(None, None, None)
        print_table(self._view, self._view.select(self._numbers.in_all(self._view.kind))[: self._most])

    def _title_now(self) -> str:
        from zmtpscope.export.safe_text import safe_text
        from zmtpscope.export.top.table import scaled

        rates = self._numbers.rates
        seconds = f"{self._numbers.seconds:.3f} s captured"
        if self._numbers.is_live and rates.interval_ns is not None:
            messages = rates.messages_before / (rates.interval_ns / SECOND)
            seconds = f"{self._numbers.seconds:.0f} s  {scaled(messages)} messages/s"
        return f"{safe_text(self._title())}  {seconds}"


def has_screen() -> bool:
    """Whether the table can be redrawn and keys can be read. Windows reads keys differently."""
    return os.name == "posix" and sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "", None)


def print_table(view: View, rows: Sequence[Row]) -> None:
    """Print a table as wide as the terminal or, without one, as wide as needed."""
    from rich.console import Console

    from zmtpscope.export.top.table import table_of

    width = terminal_width()
    console = Console(highlight=False, markup=False, emoji=False, width=width or WIDEST, no_color=True)
    with console.capture() as captured:
        console.print(table_of(view, rows, width))
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
