"""The first line: what is looked at, how much of it there is, how far it was read, what is wrong with it."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from zmtpscope.tui.requests import Progress, SavingState


class TitleBar(Static):
    """Says what is looked at, and shows `Progress`."""

    DEFAULT_CSS = """
    TitleBar { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self, what: str) -> None:
        super().__init__(Text(what), markup=False)
        self.what = what
        """What the capture is called."""
        self._progress: Progress | None = None
        self._saving: SavingState | None = None
        self._is_paused = False

    def show_progress(self, progress: Progress) -> None:
        """How far the capture was read."""
        self._progress = progress
        self._draw()

    def show_saving(self, state: SavingState) -> None:
        """How far a file was written."""
        self._saving = None if state.is_done else state
        self._draw()

    def show_paused(self, is_paused: bool) -> None:
        """Whether what is new is not shown."""
        self._is_paused = is_paused
        self._draw()

    def _draw(self) -> None:
        words = [self.what]
        if self._progress is not None:
            words += _words(self._progress)
        if self._saving is not None:
            part = f" {100 * self._saving.done // self._saving.total} %" if self._saving.total else ""
            words.append(f"writing {self._saving.path}{part}")
        if self._is_paused:
            words.append("paused: space goes on")
        self.update(Text("  ".join(words), no_wrap=True, overflow="ellipsis"))


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
