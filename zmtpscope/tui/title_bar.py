"""The first line: name, size, progress and problems of the capture."""

from __future__ import annotations

from collections import deque

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.visual import VisualType
from textual.widgets import Sparkline, Static

from zmtpscope.tui.requests import Progress, SavingState

GAP = "  "
MIN_NAME = 12
"""Minimum cells of the capture name, which is cut first."""
MIN_LAG = 1.0
"""Lag in seconds below which it is normal."""
MAX_SEEN = 60
"""Number of seconds in a plot."""


class TitleBar(Horizontal):
    """The first line. For live traffic, it plots packets per second and the lag of the analysis at the right."""

    DEFAULT_CSS = """
    TitleBar { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    TitleBar Static { width: 1fr; }
    TitleBar Sparkline { width: 12; margin-left: 1; display: none; }
    TitleBar #lag > .sparkline--max-color { color: $warning; }
    TitleBar #lag > .sparkline--min-color { color: $warning 30%; }
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._line = Static(Text(what), markup=False)
        self._plots = Sparkline([], id="rate"), Sparkline([], id="lag")
        self._seen: tuple[deque[float], deque[float]] = deque(maxlen=MAX_SEEN), deque(maxlen=MAX_SEEN)
        """Packets of each second, and the lag at its end."""
        self._packets = 0
        """Packets up to the last second."""
        self.what = what
        self._progress: Progress | None = None
        self._saving: SavingState | None = None
        self._is_paused = False
        self._key = ""

    def compose(self) -> ComposeResult:
        yield self._line
        yield from self._plots

    def on_mount(self) -> None:
        self.set_interval(1.0, self._look)

    @property
    def content(self) -> VisualType:
        return self._line.content

    def _look(self) -> None:
        """Add the values of the last second to the plots. The lag is plotted only after there was one."""
        progress = self._progress
        is_live = progress is not None and progress.is_live
        if progress is not None and is_live:
            values = float(progress.packets - self._packets), progress.lag
            self._packets = progress.packets
            for plot, seen, value in zip(self._plots, self._seen, values, strict=True):
                seen.append(value)
                plot.data = list(seen)
        for plot, seen, least in zip(self._plots, self._seen, (0.0, MIN_LAG), strict=True):
            plot.display = is_live and max(seen, default=0.0) > least

    def show_progress(self, progress: Progress) -> None:
        self._progress = progress
        self._draw()

    def show_saving(self, state: SavingState) -> None:
        self._saving = None if state.is_done else state
        self._draw()

    def show_paused(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        self._draw()

    def show_key_of_diagnoses(self, key: str) -> None:
        self._key = key
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        words = [] if self._progress is None else _words(self._progress, self._key)
        if self._saving is not None:
            part = f" {100 * self._saving.done // self._saving.total} %" if self._saving.total else ""
            words.append(f"writing {self._saving.path}{part}")
        if self._is_paused:
            words.append("paused: space goes on")
        width = self._line.content_size.width - len(GAP)
        while len(words) > 1 and cell_len(GAP.join(words)) > width - MIN_NAME:
            del words[0]  # the numbers of messages and connections
        room = max(MIN_NAME, width - cell_len(GAP.join(words)))
        name = Text(self.what, no_wrap=True)
        name.truncate(room, overflow="ellipsis")
        # no layout of the whole screen, since progress changes often
        line = Text(GAP.join([name.plain, *words]), no_wrap=True, overflow="ellipsis")
        self._line.update(line, layout=False)


def _words(progress: Progress, key: str) -> list[str]:
    words = [counted(progress.messages, "message"), counted(progress.connections, "connection")]
    words += _diagnoses(progress, key)
    if progress.is_live:
        words.append(counted(progress.packets, "packet"))
    if progress.searched is not None:
        words.append(f"searching {progress.searched} %: esc cancels")
    if progress.dropped:
        words.append(f"{progress.dropped:,} packets dropped")
    if progress.is_live:
        words.append(f"live, {progress.lag:.1f} s behind" if progress.lag > MIN_LAG else "live")
    elif not progress.is_done:
        part = f" {100 * progress.octets_read // progress.octets} %" if progress.octets else ""
        words.append(f"reading{part}")
    return words


def _diagnoses(progress: Progress, key: str) -> list[str]:
    """Return texts about diagnoses: none while a file is read, then the percentage of rules run, then the numbers."""
    if progress.is_done and (progress.diagnoses is None or progress.diagnosed < progress.records):
        return [f"diagnosing {100 * progress.diagnosed // max(1, progress.records)} %"]
    if progress.diagnoses is None or not (progress.is_done or progress.is_live):
        return []
    if progress.diagnoses:
        return [f"{progress.diagnoses}: see {key}"]
    return [] if progress.nothing else ["nothing wrong"]


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, and separators of thousands: `1 message`, `2,000 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
