"""The fields of a record, as a tree whose nodes can be expanded and collapsed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from zmtpscope.tui.requests import Node
from zmtpscope.tui.widgets.columns import Cell, fitted, line_of, width_of
from zmtpscope.tui.widgets.line_view import LineView
from zmtpscope.tui.widgets.nodes import Path, ancestors, ends, in_sight, paths

OPENED, CLOSED, LEAF = "▾ ", "▸ ", "  "
LINK = " →"
INDENT = 2
STEP = 16
"""Characters that a long value scrolls by."""
OPEN_DEPTH, OPEN_MEMBERS = 3, 6
"""Depth above which nodes without a value are open at first; the same for members of payloads."""
KEPT_PATHS = 1000
NAMES_SHARE = 0.45


class FieldTree(LineView):
    """A tree of fields. Nodes stay expanded or collapsed in the trees of other records, by their path."""

    help_title = "Fields"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "open_or_close", "Open or close", show=False),
        Binding("enter", "choose", "Go there, open or close", show=False),
        Binding("right,l", "open", "Open or go in, or further in a long value", show=False),
        Binding("left,h", "close", "Close or go out", show=False),
        Binding("plus", "open_all(True)", "Open everything in it", show=False),
        Binding("minus", "open_all(False)", "Close everything in it", show=False),
    ]

    class Selected(Message):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class Followed(Message):
        """Request to go to the record to which a field refers."""

        def __init__(self, record: int) -> None:
            super().__init__()
            self.record = record

    def __init__(self) -> None:
        super().__init__()
        self._fields: Sequence[Node] = ()
        self._paths: list[Path] = []
        self._behind: list[int] = []
        self._seen: list[int] = []
        self._was_opened: dict[Path, bool] = {}
        self._values_at = 0
        self._skip = 0
        """Characters skipped at the start of the selected value."""

    # -- interface -----------------------------------------------------------------------------------------------------

    def show(self, nodes: Sequence[Node]) -> None:
        """Show the fields of another record. The cursor stays on the same path, or goes to its nearest ancestor."""
        before = self._paths[self.selected] if self._fields else ()
        self._fields, self._paths, self._behind = nodes, paths(nodes), ends(nodes)
        self._lay_out()
        if before and (index := self._nearest(before)) is not None:
            self.select(index)

    def select(self, index: int) -> None:
        """Put the cursor on a node and expand its ancestors, without posting `Selected`."""
        if index >= len(self._fields):
            return
        closed = [above for above in ancestors(self._fields, index) if not self._is_open(above)]
        for above in closed:
            self._keep_open(above, True)
        if closed:
            self._lay_out()
        self.set_cursor(self._seen.index(index))

    @property
    def selected(self) -> int:
        """Index of the node under the cursor; 0 if there are no nodes."""
        return self._seen[self.cursor] if self._seen else 0

    @property
    def selected_node(self) -> Node | None:
        return self._fields[self.selected] if self._fields else None

    # -- opened and closed ---------------------------------------------------------------------------------------------

    def _nearest(self, path: Path) -> int | None:
        """Return the index of the first node whose path has the longest common prefix with `path`, or None."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._paths:
                return self._paths.index(path[:length])
        return None

    def _has_more(self, index: int) -> bool:
        return self._behind[index] > index + 1

    def _is_open(self, index: int) -> bool:
        was_opened = self._was_opened.get(self._paths[index])
        if was_opened is not None:
            return was_opened
        node = self._fields[index]
        depth = OPEN_MEMBERS if node.style == "member" else OPEN_DEPTH
        return node.depth == 0 or (node.depth < depth and not node.value)

    def _set_open(self, index: int, is_open: bool) -> None:
        self._keep_open(index, is_open)
        self._lay_out()

    def _keep_open(self, index: int, is_open: bool) -> None:
        path = self._paths[index]
        self._was_opened.pop(path, None)
        self._was_opened[path] = is_open
        if len(self._was_opened) > KEPT_PATHS:
            del self._was_opened[next(iter(self._was_opened))]

    def _lay_out(self) -> None:
        self._seen = in_sight(self._fields, self._behind, self._is_open)
        names = (
            len(LEAF) + self._fields[index].depth * INDENT + width_of(self._fields[index].name)
            for index in self._seen
            if self._fields[index].value
        )
        self._values_at = min(max(names, default=0) + 2, int(self.width * NAMES_SHARE))
        self.set_line_count(len(self._seen))
        self.forget_lines()

    def cursor_moved(self) -> None:
        self._skip = 0
        self.post_message(self.Selected(self.selected))

    def line_clicked(self, place: int, x: int) -> None:
        super().line_clicked(place, x)
        index = self._seen[place]
        at = self._fields[index].depth * INDENT
        if at <= x < at + len(LEAF) and self._has_more(index):
            self._set_open(index, not self._is_open(index))

    def action_choose(self) -> None:
        node = self.selected_node
        if node is not None and node.link is not None:
            self.post_message(self.Followed(node.link))
        else:
            self.action_open_or_close()

    def action_open_or_close(self) -> None:
        if self._fields and self._has_more(self.selected):
            self._set_open(self.selected, not self._is_open(self.selected))

    def look_of(self, place: int) -> Hashable:
        return self._skip if place == self.cursor else 0

    def _skip_more(self, step: int) -> None:
        node = self.selected_node
        room = max(1, self.width - self._values_at)
        if node is not None and (step < 0 or width_of(node.value) - self._skip > room):
            self._skip = max(0, self._skip + step)
            self.refresh_place(self.cursor)

    def action_open(self) -> None:
        if not self._fields:
            return
        if not self._has_more(self.selected):
            self._skip_more(STEP)
        elif self._is_open(self.selected):
            self.go_to(self.cursor + 1)
        else:
            self._set_open(self.selected, True)

    def action_close(self) -> None:
        if not self._fields:
            return
        if self._skip:
            self._skip_more(-STEP)
        elif self._has_more(self.selected) and self._is_open(self.selected):
            self._set_open(self.selected, False)
        elif above := ancestors(self._fields, self.selected):
            self.go_to(self._seen.index(above[0]))

    def action_open_all(self, is_open: bool) -> None:
        if not self._fields:
            return
        for index in range(self.selected, self._behind[self.selected]):
            if self._has_more(index):
                self._keep_open(index, is_open)
        self._lay_out()

    # -- lines ---------------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        super().on_resize()
        self._lay_out()

    def draw(self, place: int, ground: str, width: int) -> Strip:
        index = self._seen[place]
        node = self._fields[index]
        style = self.palette.style
        marker = (OPENED if self._is_open(index) else CLOSED) if self._has_more(index) else LEAF
        at = node.depth * INDENT
        name_at = at + len(marker)
        cells = [
            Cell(at, name_at, marker, style("muted", ground)),
            Cell(name_at, name_at + width_of(node.name), node.name, style("field", ground)),
        ]
        if node.value:
            at = max(cells[-1].stop + 2, self._values_at)
            room = max(0, self.width - at - (len(LINK) if node.link is not None else 0))
            skip = self._skip if ground else 0
            value = fitted(node.value, min(room, width_of(node.value)), skip=skip)
            look = "link" if node.link is not None else node.style or "value"
            cells.append(Cell(at, at + width_of(value), value, style(look, ground)))
        if node.link is not None:
            cells.append(Cell(cells[-1].stop, cells[-1].stop + len(LINK), LINK, style("muted", ground)))
        return line_of(cells, style("value", ground), width)
