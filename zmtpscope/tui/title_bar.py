"""The first line: what is looked at, how much of it there is, how far it was read, what is wrong with it."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from zmtpscope.tui.requests import Progress


class TitleBar(Static):
    """Says what is looked at, and shows `Progress`."""

    DEFAULT_CSS = """
    TitleBar { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self, what: str) -> None:
        super().__init__(Text(what), markup=False)
        self._what = what

    def show_progress(self, progress: Progress) -> None:
        """How far the capture was read."""
        self.update(Text("  ".join([self._what, *_words(progress)]), no_wrap=True, overflow="ellipsis"))


def _words(progress: Progress) -> list[str]:
    words = [_counted(progress.messages, "message"), _counted(progress.connections, "connection")]
    if progress.errors:
        words.append(_counted(progress.errors, "error"))
    if progress.warnings:
        words.append(_counted(progress.warnings, "warning"))
    if progress.dropped:
        words.append(f"{progress.dropped:,} packets dropped")
    if progress.is_live:
        words.append(f"live, {progress.lag:.1f} s behind" if progress.lag > 1 else "live")
    elif not progress.is_done:
        part = f" {100 * progress.octets_read // progress.octets} %" if progress.octets else ""
        words.append(f"reading{part}")
    return words


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
