"""Packet comments: the line that `read` prints for each record of a packet. Comments omit decrypted contents, because
the excerpt may be shared."""

from __future__ import annotations

from zmtpscope.dissect import FrameTable, MessageTable, Options, Record
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.rows import RowWords, doubt, noun
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import record_values
from zmtpscope.words import counted

MAX_LINES = 50
"""Lines in the comment of one packet."""
MAX_OCTETS = 64 << 20
"""Octets of all comments. Later packets have none."""
LINE_WEIGHT = 100
"""Memory of a line in addition to its text (an estimate)."""


class Comments:
    """Comments of packets, by packet reference (`segments.FILE_SHIFT`)."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.is_full = False
        """Comments were dropped because of `MAX_OCTETS`."""
        self._octets = 0
        self._lines: dict[int, list[str]] = {}
        self._left_out: dict[int, int] = {}

    def add(self, reference: int, item: Record | MessageTable | FrameTable, index: int, words: RowWords | None) -> None:
        """Add a line about an item. For a row of a table, `index` is its row and `words` formats it."""
        lines = self._lines.get(reference)
        if self.is_full:
            return
        if lines is not None and len(lines) >= MAX_LINES:
            self._left_out[reference] = self._left_out.get(reference, 0) + 1
            return
        line = self._line(item, index, words)
        self._octets += len(line) + LINE_WEIGHT
        self.is_full = self._octets > MAX_OCTETS
        if lines is None:
            self._lines[reference] = [line]
        else:
            lines.append(line)

    def of(self, reference: int) -> str:
        """Return the comment of a packet, or ""."""
        lines = self._lines.get(reference, [])
        more = self._left_out.get(reference)
        return "\n".join([*lines, f"and {counted(more, 'more record')}"] if more else lines)

    def _line(self, item: Record | MessageTable | FrameTable, index: int, words: RowWords | None) -> str:
        if words is None:
            assert isinstance(item, Record)
            values = record_values(item, self.options)
            number = "" if values["conn"] is None else f"c{values['conn']} "
            if values.get("decrypted") and not self.options.show_secrets:
                return f"{number}decrypted {safe_text(values['name'] or 'command')}"
            hint = values.get("hint")
            return f"{number}{DESCRIBE[values['record']](values)}" + (f" -> {hint}" if hint else "")
        sender = words.sender(index)
        number = f"c{sender.stream.conn} "
        if sender.regime.opened and not self.options.show_secrets:
            return f"{number}{noun(sender)}{doubt(sender)} {counted(words.octets(index), 'octet')}"
        return number + words.describe(index, 0)
