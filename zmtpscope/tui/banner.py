"""A line with the problems of the capture."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static


class Banner(Static):
    """A line with the first problem of the capture (damage, lost packets) and the number of others; hidden without
    problems."""

    DEFAULT_CSS = """
    Banner { height: auto; max-height: 2; padding: 0 1; color: $text-warning; background: $warning 15%; display: none; }
    Banner:ansi { color: ansi_black; background: ansi_yellow; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._problems: tuple[str, ...] = ()

    def show(self, problems: Sequence[str]) -> None:
        if tuple(problems) == self._problems:
            return
        self._problems = tuple(problems)
        more = len(problems) - 1
        self.update(Text(f"{problems[0]}{f' (and {more} more)' if more > 0 else ''}" if problems else ""))
        self.display = bool(problems)
