"""The fields of a record and its octets. Selecting a field highlights its octets, and the reverse."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from zmtpscope.tui.requests import Details, Node
from zmtpscope.tui.widgets.byte_panes import BytePanes
from zmtpscope.tui.widgets.field_tree import FieldTree
from zmtpscope.tui.widgets.hex_view import WIDE, HexView, row_width
from zmtpscope.tui.widgets.nodes import innermost

SIDE_BY_SIDE = 130
"""Minimum width in cells to show octets beside the fields, not below."""


class DetailsPane(Container):
    """A pane with the field tree and the octets of a record. Passes on `FieldTree.Selected` and
    `FieldTree.Followed`."""

    DEFAULT_CSS = f"""
    DetailsPane {{ layout: vertical; background: $background; }}
    DetailsPane > FieldTree {{ height: 3fr; width: 1fr; }}
    DetailsPane > BytePanes {{ height: 2fr; width: 1fr; }}
    DetailsPane > #problem {{ height: auto; color: $text-warning; display: none; }}
    DetailsPane.-problem > #problem {{ display: block; dock: bottom; }}
    DetailsPane.-beside {{ layout: horizontal; }}
    DetailsPane.-beside > * {{ height: 1fr; }}
    DetailsPane.-beside > BytePanes {{ width: {row_width(WIDE) + 3}; padding-left: 1; }}
    """

    class Dragged(Message):
        """Message that the mouse drags the upper border of the pane to this line of the screen."""

        def __init__(self, y: int) -> None:
            super().__init__()
            self.y = y

    def __init__(self) -> None:
        super().__init__()
        self._details: Details | None = None
        self.fields = FieldTree()
        self.panes = BytePanes()
        self._problem = Static(id="problem")
        self._shown_problem: str | None = None

    def compose(self) -> ComposeResult:
        yield self.fields
        yield self.panes
        yield self._problem

    def show(self, details: Details | None) -> None:
        """Show the details of a record, or nothing (None). Equal details change nothing, to avoid flicker."""
        if details == self._details:
            return
        self._details = details
        self.fields.show(details.nodes if details else ())
        self.panes.show(details.sources if details else None)
        self._show_problem(details.problem if details else None)
        self._light_selected()

    @property
    def details(self) -> Details | None:
        return self._details

    @property
    def selected_node(self) -> Node | None:
        return self.fields.selected_node

    def _show_problem(self, problem: str | None) -> None:
        if problem != self._shown_problem:
            self._shown_problem = problem
            self.set_class(problem is not None, "-problem")
            self._problem.update(Content(problem or ""))

    def _light_selected(self) -> None:
        if (node := self.selected_node) is not None:
            self.panes.highlight(node.source, node.start, node.stop)

    def on_field_tree_selected(self) -> None:
        self._light_selected()

    def on_hex_view_selected(self, event: HexView.Selected) -> None:
        if self._details is None:
            return
        index = innermost(self._details.nodes, *self.panes.field_at(event.offset))
        if index is not None:
            self.fields.select(index)
            self._light_selected()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.y < self.gutter.top:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self.post_message(self.Dragged(int(event.screen_y)))

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= SIDE_BY_SIDE, "-beside")
