"""Base of all lists: cursor, keys with counts, mouse, and a cache of lines."""

from __future__ import annotations

from collections.abc import Hashable
from textwrap import wrap
from typing import Any, ClassVar

from rich.style import Style
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from zmtpscope.tui.requests import Sort, TableColumn
from zmtpscope.tui.widgets.columns import Cell, Slot, column_at, fitted, line_of, next_sort
from zmtpscope.tui.widgets.styles import Painted

KEPT_LINES = 1024
MAX_DIGITS = 9
EMPTY_MARGIN = 2
"""Cells beside the text of an empty list."""
BAR_STEPS = 8
"""Steps of a scrollbar's ends in one cell."""
MAX_LOW = 19
"""Maximum lines of a low screen. Its lists keep most of them."""


def is_low(shown: App[Any] | Widget) -> bool:
    return shown.app.size.height <= MAX_LOW


class LineView(Painted, ScrollView, can_focus=True):
    """Base of lists: lines `0..count`, one of them with the cursor. Subclasses draw single lines (`draw`).

    Keys work as in vim and less, with counts: `12j`, `5G`. Other digits are posted as `Digits`.
    """

    ALLOW_SELECT = False
    heading_lines = 0
    """Fixed lines at the top."""
    count_wait: ClassVar[float] = 0.35
    """Seconds after a digit during which it may be the count of a key."""
    empty_text = ""
    DEFAULT_CSS = """
    LineView {
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-color: $foreground 22%;
        scrollbar-color-hover: $foreground 40%;
        scrollbar-color-active: $primary;
        background: $background;
        color: $foreground;
    }
    """
    help_title = "Lists"
    """Title of its keys in the help."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next line", show=False),
        Binding("up,k", "move(-1)", "Line before", show=False),
        Binding("pagedown,ctrl+f", "page(1.0)", "Next page", show=False),
        Binding("pageup,ctrl+b", "page(-1.0)", "Page before", show=False),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False),
        Binding("home,g", "first", "First line", show=False),
        Binding("end,G", "last", "Last line, or the one with the number before", show=False),
    ]

    class Digits(Message):
        """Message with a number that the user typed, if no key with a count followed."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._cursor = 0
        self._digits = ""
        self._digits_timer: Timer | None = None
        self._lines: LRUCache[tuple[int, str, Hashable], Strip] = LRUCache(KEPT_LINES)

    # -- methods that subclasses override ------------------------------------------------------------------------------

    def draw(self, place: int, ground: str, width: int) -> Strip:
        """Return the line at position `place`, with `width` cells, the last of which the scrollbar may cover.

        `ground` is the name of its background, for `Palette.style`.
        """
        raise NotImplementedError

    def draw_heading(self, line: int, width: int) -> Strip:
        raise NotImplementedError

    def look_of(self, place: int) -> Hashable:
        """Return the state on which the drawing of a line depends, apart from its position. While it is equal, the
        cached line is valid."""
        return None

    def is_there(self, place: int) -> bool:
        return True

    def draw_missing(self, width: int) -> Strip:
        return Strip.blank(width, self.palette.base)

    def cursor_moved(self) -> None:
        """Called after the cursor moved to another line."""

    def heading_clicked(self, x: int) -> None:
        """Called after a click on the headings, `x` cells from the left."""

    def line_clicked(self, place: int, x: int) -> None:
        """Move the cursor to a clicked line, `x` cells from the left."""
        self.go_to(place)

    def action_choose(self) -> None:
        """Do what a double click on the line with the cursor does; subclasses define it."""

    # -- interface -----------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return self._count

    @property
    def cursor(self) -> int:
        return self._cursor

    def go_to(self, place: int) -> None:
        """Move the cursor to the nearest existing line, and scroll to it."""
        if self.set_cursor(place):
            self.cursor_moved()

    # -- for subclasses ------------------------------------------------------------------------------------------------

    @property
    def base(self) -> Style:
        return self.palette.base

    @property
    def width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def page_height(self) -> int:
        return max(1, self.scrollable_content_region.height - self.heading_lines)

    @property
    def top(self) -> int:
        return self.scroll_offset.y

    def set_cursor(self, place: int) -> bool:
        """Move the cursor like `go_to`, but without a call of `cursor_moved`. Return whether it moved."""
        before, self._cursor = self._cursor, max(0, min(place, self._count - 1))
        self._scroll_to_show(self._cursor)
        if self._cursor == before:
            return False
        self.refresh_place(before)
        self.refresh_place(self._cursor)
        return True

    def set_line_count(self, count: int) -> None:
        """Set the number of lines. The cursor stays on its line if it exists."""
        before, self._count = self._count, count
        size = Size(0, count + self.heading_lines)
        if size == self.virtual_size:
            return
        # not by the setter, which lays out the whole screen: lists grow all the time
        self.set_reactive(LineView.virtual_size, size)
        self._cursor = max(0, min(self._cursor, count - 1))
        if self.top > self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        self._show_on_bar()
        if min(before, count) < self.top + self.page_height:
            self.refresh()

    def set_empty_text(self, text: str) -> None:
        if text != self.empty_text:
            self.empty_text = text
            self.refresh()

    def forget_lines(self) -> None:
        self._lines.clear()
        self.refresh()

    def refresh_place(self, place: int) -> None:
        self.refresh(Region(0, place - self.top + self.heading_lines, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        return self.render_lines(Region(0, y, self.size.width, 1))[0]

    def render_lines(self, crop: Region) -> list[Strip]:
        # Textual's own method copies each line five times
        width, top, first = self.size.width, self.top, self.heading_lines
        cursor = "cursor" if self.has_focus else "elsewhere"
        lines = []
        for y in crop.line_range:
            place = y - first + top
            if y < first:
                line = self.draw_heading(y, width)
            elif place >= self._count:
                line = Strip.blank(width, self.base) if self._count else self._draw_empty(place, width)
            elif not self.is_there(place):
                line = self.draw_missing(width)
            else:
                ground = cursor if place == self._cursor else ""
                key = (place, ground, self.look_of(place))
                kept = self._lines.get(key)
                if kept is None:
                    kept = self._lines[key] = self.draw(place, ground, width)
                line = kept
            lines.append(line.crop(*crop.column_span))
        return lines

    def _draw_empty(self, place: int, width: int) -> Strip:
        texts = wrap(self.empty_text, max(1, width - 2 * EMPTY_MARGIN))
        text = fitted(" " * EMPTY_MARGIN + texts[place] if place < len(texts) else "", width)
        return line_of([Cell(0, width, text, self.palette.style("muted"))], self.base, width)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._lines.clear()

    def on_resize(self) -> None:
        self._lines.clear()
        self._show_on_bar()
        self._scroll_to_show(self._cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if round(old_value) != round(new_value):
            self._show_on_bar()
            self.refresh()

    def _show_on_bar(self) -> None:
        """Update the scrollbar, only if the change is visible, since each update redraws it."""
        bar, height = self.vertical_scrollbar, self.size.height
        steps = BAR_STEPS * height
        count = max(1, self._count)
        bar.window_virtual_size = steps
        bar.window_size = min(steps, max(1, steps * self.page_height // count))
        bar.position = round((steps - bar.window_size) * self.top / max(1, self.max_scroll_y))

    def on_focus(self) -> None:
        self.refresh_place(self._cursor)

    def on_blur(self) -> None:
        self.refresh_place(self._cursor)

    def _scroll_to_show(self, place: int) -> None:
        top, height = self.top, self.page_height
        if top <= place < top + height:
            return
        if place < top - height or place >= top + 2 * height:
            target = place - height // 2
        else:
            target = place if place < top else place - height + 1
        self.scroll_to(y=target, animate=False, force=True)

    # -- keys and the mouse --------------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if event.character is None or not event.character.isascii() or not event.character.isdigit():
            return
        event.stop()
        if event.character == "0" and not self._digits:  # counts do not start with 0
            self.post_message(self.Digits(0))
            return
        self._digits = (self._digits + event.character)[:MAX_DIGITS]
        if self._digits_timer is not None:
            self._digits_timer.stop()
        self._digits_timer = self.set_timer(self.count_wait, self._post_digits)

    def _post_digits(self) -> None:
        if number := self.take_number():
            self.post_message(self.Digits(number))

    def take_number(self) -> int | None:
        """Return the number typed before this key, or None, and clear it."""
        digits, self._digits = self._digits, ""
        return int(digits) if digits else None

    def action_move(self, step: int) -> None:
        self.go_to(self._cursor + step * (self.take_number() or 1))

    def action_page(self, pages: float) -> None:
        self.go_to(self._cursor + int(pages * self.page_height) * (self.take_number() or 1))

    def action_first(self) -> None:
        self.go_to((self.take_number() or 1) - 1)

    def action_last(self) -> None:
        self.go_to((self.take_number() or self._count) - 1)

    def on_scroll_to(self, event: ScrollTo) -> None:
        self._jump(event)

    def on_scroll_up(self, event: ScrollUp) -> None:
        self._jump(event)

    def on_scroll_down(self, event: ScrollDown) -> None:
        self._jump(event)

    def _jump(self, event: Message) -> None:
        """Scroll to the position of the mouse after a click or drag on the scrollbar."""
        event.prevent_default()
        event.stop()
        bar = self.vertical_scrollbar.region
        share = (self.app.mouse_position.y - bar.y) / max(1, bar.height - 1)
        self.scroll_to(y=round(share * self.max_scroll_y), animate=False, force=True)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < self.heading_lines:
            self.heading_clicked(offset.x)
            return
        place = offset.y - self.heading_lines + self.top
        if place < self._count:
            self.line_clicked(place, offset.x)
            if event.chain == 2:
                self.action_choose()


class ColumnView(LineView):
    """A list with columns. A click on a heading requests another sort order."""

    heading_lines = 1

    class SortRequested(Message):
        def __init__(self, sort: Sort) -> None:
            super().__init__()
            self.sort = sort

    def __init__(self) -> None:
        super().__init__()
        self.columns: tuple[TableColumn, ...] = ()
        self._slots: tuple[Slot, ...] = ()
        self._sort: Sort | None = None

    def _ask_to_sort(self, column: int) -> None:
        self.post_message(self.SortRequested(next_sort(self.columns[column], self._sort)))

    def heading_clicked(self, x: int) -> None:
        if (column := column_at(self._slots, x)) is not None:
            self._ask_to_sort(column)
