"""The columns of lists: functions from the fields of a record to a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from zmtpscope.dissect import Batch, MessageTable, Options, Record
from zmtpscope.dissect.records.message_columns import MessageColumns, columns_of_table
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export.clock import Clock
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.rows import RowWords
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import record_values
from zmtpscope.filter.checking import operand_of
from zmtpscope.filter.conditions import Operand
from zmtpscope.records import SECOND, to_text
from zmtpscope.tui.requests import Row, TableColumn
from zmtpscope.tui.worker.sides import Sides
from zmtpscope.tui.worker.views.tables import seconds
from zmtpscope.words import host_port

Values = Mapping[str, Any]

CONTENT_WIDTH = 400
MAX_HEX = 128
"""Octets of a frame in hex, and frames of a message."""
MIN_PAUSE_NS = SECOND // 2
"""Shorter times since the row above are not shown."""

FIELDS = (
    "record",
    "ts_ns",
    "end_ns",
    "conn",
    "side",
    "src_ip",
    "src_port",
    "dst_ip",
    "dst_port",
    "packet",
    "socket_type",
    "peer_socket_type",
    "topic",
    "parts",
    "sizes",
)


class Line(NamedTuple):
    """A record for a line of a list: its fields, description, and content as hex."""

    values: Values
    words: str
    hex: Callable[[], str]


@dataclass(slots=True)
class Shown:
    """Data that some columns need besides the record: the time format, the names of sides, and the time since the row
    above (ns)."""

    clock: Clock
    sides: Sides
    pause_ns: int = 0
    """Time since the row above."""


class Column(NamedTuple):
    """A column of lists. `cell` formats a record, and `sort` is the field by which the column sorts."""

    heading: str
    cell: Callable[[Line, Shown], str]
    sort: str
    is_number: bool = False
    rank: int = 0
    width: int = 0
    style: str = ""
    is_name: bool = False
    """As in `TableColumn`."""


def ordering_time(values: Values) -> int:
    """Return the time by which a record is sorted in lists: for a connection its end, otherwise the time of
    the record."""
    time: int = values["end_ns" if values["record"] == "connection" else "ts_ns"]
    return time


def _time(line: Line, shown: Shown) -> str:
    if shown.clock.moves:
        return f"{shown.pause_ns / SECOND:.6f}"
    return shown.clock(ordering_time(line.values)).strip()


def _pause(line: Line, shown: Shown) -> str:
    return f"+{seconds(shown.pause_ns)}" if shown.pause_ns >= MIN_PAUSE_NS else ""


def _spoken(line: Line, shown: Shown, *, side: int, is_hex: bool = False) -> str:
    """Return topic and content of a record if `side` sent it, otherwise "". Records of no side are in the
    left column."""
    if (line.values.get("side") or 0) != side:
        return ""
    if is_hex and line.values["record"] == "message":
        return line.hex()
    topic = _topic(line, shown) if line.values["record"] == "message" else ""
    return f"{topic}  {line.words}" if topic else line.words


def _number(line: Line, shown: Shown, *, name: str) -> str:
    value = line.values.get(name)
    return "" if value is None else str(value)


def _who(line: Line, shown: Shown, *, receiver: bool) -> str:
    values = line.values
    side = values.get("side")
    end, kind = ("dst", "peer_socket_type") if receiver else ("src", "socket_type")
    if side is None or values.get("src_ip") is None:
        return _address(line, shown, end=end)
    socket_type = values.get(kind) if values["record"] in ("message", "frame") else None
    who = 1 - side if receiver else side
    return shown.sides.name(values["conn"], who, socket_type, values[f"{end}_ip"], values[f"{end}_port"])


def _address(line: Line, shown: Shown, *, end: str) -> str:
    address = line.values.get(f"{end}_ip")
    return "" if address is None else host_port(address, line.values[f"{end}_port"])


def _topic(line: Line, shown: Shown) -> str:
    topic = line.values.get("topic")
    return "" if topic is None else safe_text(to_text(topic) if isinstance(topic, bytes) else topic)


def _size(line: Line, shown: Shown) -> str:
    sizes = line.values.get("sizes")
    return "" if sizes is None else f"{sum(sizes)}"


COLUMNS = {
    "time": Column("TIME", _time, "ts_ns", True, style="muted"),
    "packet": Column("PACKET", partial(_number, name="packet"), "packet", True, 6, 8, "muted"),
    "conn": Column("CONN", partial(_number, name="conn"), "conn", True, 3, 5, "muted"),
    "from": Column("FROM", partial(_who, receiver=False), "src_port", False, 1, 26, is_name=True),
    "to": Column("TO", partial(_who, receiver=True), "dst_port", False, 2, 26, is_name=True),
    "src": Column("SOURCE", partial(_address, end="src"), "src_ip", False, 5, 21, is_name=True),
    "dst": Column("DESTINATION", partial(_address, end="dst"), "dst_ip", False, 5, 21, is_name=True),
    "topic": Column("TOPIC", _topic, "topic", False, 0, 20, is_name=True),
    "parts": Column("PARTS", partial(_number, name="parts"), "parts", True, 5, 5, "muted"),
    "size": Column("SIZE", _size, "size", True, 4, 8, "muted"),
    "after": Column("AFTER", _pause, "ts_ns", True, 0, 8, "strong"),
    "left": Column("> CONNECTED", partial(_spoken, side=0), "ts_ns", style="left"),
    "right": Column("< LISTENS", partial(_spoken, side=1), "ts_ns", style="right"),
    "left_hex": Column("> OCTETS", partial(_spoken, side=0, is_hex=True), "ts_ns", style="left"),
    "right_hex": Column("< OCTETS", partial(_spoken, side=1, is_hex=True), "ts_ns", style="right"),
    "content": Column("CONTENT", lambda line, shown: line.words, "ts_ns", False, 0, 0),
}
"""Columns by name. All other names are fields of filters."""

DEFAULT = ("time", "conn", "from", "to", "topic", "parts", "size", "content")


TIME_WIDTHS = {"r": 12, "d": 12, "a": 15, "u": 15, "e": 17, "ad": 26, "ud": 26}
"""Cells of times by format; times are never cut."""


def table_columns(names: Sequence[str], time: str = "r") -> tuple[TableColumn, ...]:
    made = []
    for name in names:
        column = COLUMNS.get(name) or Column(safe_text(name).upper(), _nothing, name, False, 3, 16)
        made.append(
            TableColumn(
                *(name, column.heading, column.is_number),
                *(TIME_WIDTHS.get(time, column.width) if name == "time" else column.width, column.rank, column.style),
                is_name=column.is_name,
            )
        )
    return tuple(made)


def _nothing(line: Line, shown: Shown) -> str:
    return ""


class RowMaker:
    """Makes the rows of a list with the given columns. Raises `FilterError` for unknown columns."""

    def __init__(self, names: Sequence[str], options: Options, sides: Sides) -> None:
        self._options = options
        self._sides = sides
        self._cells = [COLUMNS[name].cell if name in COLUMNS else _field(operand_of(name)) for name in names]
        operands = [operand_of(name) for name in names if name not in COLUMNS]
        self._fields = list(dict.fromkeys((*FIELDS, *(name for each in operands for name in each.reads))))

    def rows(self, batch: Batch, numbers: Sequence[int], pauses: Sequence[int], clock: Clock) -> list[Row]:
        """Return the rows of all records of a batch, in order. `numbers` are their record numbers, `pauses` the times
        since the rows above (ns)."""
        shown, made = Shown(clock, self._sides), []
        for number, shown.pause_ns, line in zip(numbers, pauses, self._lines(batch), strict=True):
            made.append(Row(number, _style(line.values), tuple([cell(line, shown) for cell in self._cells])))
        return made

    def _lines(self, batch: Batch) -> Iterator[Line]:
        messages = self._values_of(MessageColumns.of(batch, self._options)) if batch.messages else iter(())
        frames = self._values_of(FrameRowColumns.of(batch)) if batch.frames else iter(())
        words_of: dict[int, RowWords] = {}
        for item, low, high in batch.ranges():
            if isinstance(item, Record):
                values = record_values(item, self._options)
                yield Line(values, DESCRIBE[values["record"]](values), str)
                continue
            if id(item) not in words_of:
                words_of[id(item)] = RowWords(columns_of_table(item), self._options, CONTENT_WIDTH)
            words = words_of[id(item)]
            for row in range(low, high):
                if isinstance(item, MessageTable):
                    yield Line(next(messages), words.content(row), partial(_hex, item, row))
                else:
                    yield Line(next(frames), words.describe(row, 0).strip(), str)

    def _values_of(self, columns: MessageColumns | FrameRowColumns) -> Iterator[dict[str, Any]]:
        names = [name for name in self._fields if name in columns.derive]
        lists = [columns[name].tolist() for name in names]
        for values in zip(*lists, strict=True):
            yield dict(zip(names, values, strict=True))


def _hex(table: MessageTable, row: int) -> str:
    message = table.part(row, row + 1)
    heads = [message.head(frame, MAX_HEX) for frame in range(min(len(message.sizes), MAX_HEX))]
    return " | ".join("not kept" if head is None else head.hex(" ") for head in heads)[:CONTENT_WIDTH]


def _style(values: Values) -> str:
    kind: str = values["record"]
    return values["severity"] if kind == "finding" else kind


def _field(operand: Operand) -> Callable[[Line, Shown], str]:
    """Return a function that formats the value of a field."""

    def cell(line: Line, shown: Shown) -> str:
        return ", ".join(
            safe_text(to_text(each) if isinstance(each, bytes) else str(each)) for each in operand.values(line.values)
        )

    return cell
