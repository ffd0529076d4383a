"""The octets of a record, with a tab for each source (packet, stream, decrypted, unpacked)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip

from zmtpscope.tui.requests import Source
from zmtpscope.tui.widgets.columns import width_of
from zmtpscope.tui.widgets.hex_view import HexView
from zmtpscope.tui.widgets.nodes import origin_of, place_in
from zmtpscope.tui.widgets.styles import Painted

NO_OCTETS = " no octets of its own"


class Tabs(Painted):
    ALLOW_SELECT = False
    DEFAULT_CSS = "Tabs { height: 1; background: $background; color: $foreground; }"

    class Clicked(Message):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self._titles: tuple[str, ...] | None = None
        """Titles of the sources; None before the first record."""
        self._chosen = 0

    def show(self, titles: Sequence[str] | None, chosen: int) -> None:
        """Show these titles, with number `chosen` brighter. None: show nothing."""
        shown = None if titles is None else tuple(titles)
        if (shown, chosen) != (self._titles, self._chosen):
            self._titles, self._chosen = shown, chosen
            self.refresh()

    def render_line(self, y: int) -> Strip:
        style = self.palette.style
        parts = [Segment(NO_OCTETS, style("faint"))] if self._titles == () else []
        for index, title in enumerate(self._titles or ()):
            is_chosen = index == self._chosen
            parts.append(Segment(f" {title} ", style("strong", "cursor") if is_chosen else style("muted")))
        return Strip(parts).adjust_cell_length(self.size.width, style("value"))

    def on_click(self, event: events.Click) -> None:
        at = 0
        for index, title in enumerate(self._titles or ()):
            at += width_of(title) + 2
            if event.x < at:
                self.post_message(self.Clicked(index))
                return


class BytePanes(Vertical):
    """The octets of one source of a record, below a tab for each source."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "tab(1)", "Next octets: packet, stream, opened", show=False),
        Binding("left_square_bracket", "tab(-1)", "Octets before", show=False),
    ]
    DEFAULT_CSS = """
    BytePanes { background: $background; }
    BytePanes > HexView { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._sources: Sequence[Source] = ()
        self._is_empty = True
        """Whether no record is shown."""
        self._chosen = 0
        self._tabs = Tabs()
        self.octets = HexView()

    def compose(self) -> ComposeResult:
        yield self._tabs
        yield self.octets

    def show(self, sources: Sequence[Source] | None) -> None:
        """Show the octets of another record, in the tab of the same kind if possible. None: show nothing."""
        self._is_empty = sources is None
        self._sources = sources or ()
        self._choose(min(self._chosen, max(0, len(self._sources) - 1)))

    def highlight(self, source: int, start: int, stop: int) -> None:
        """Highlight the octets of a field, in the selected tab if it contains them, otherwise in the tab of their
        source."""
        if not 0 <= source < len(self._sources):
            self.octets.highlight(0, 0)
            return
        if source != self._chosen:
            place = place_in(self._sources[self._chosen], source, start, stop)
            if place is not None:
                self.octets.highlight(*place)
                return
            self._choose(source)
        self.octets.highlight(start, stop)

    @property
    def chosen(self) -> int:
        return self._chosen

    def field_at(self, offset: int) -> tuple[int, int]:
        """Return the source and the offset of an octet, as fields refer to it. `offset` is in the selected source."""
        return origin_of(self._sources[self._chosen], offset) or (self._chosen, offset)

    def _choose(self, index: int) -> None:
        self._chosen = index
        self._tabs.show(None if self._is_empty else [source.title for source in self._sources], index)
        self.octets.show(self._sources[index] if self._sources else None)

    def action_tab(self, step: int) -> None:
        if self._sources:
            self._choose((self._chosen + step) % len(self._sources))

    def on_tabs_clicked(self, event: Tabs.Clicked) -> None:
        event.stop()
        self._choose(event.index)
