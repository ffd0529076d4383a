"""What is said of packets: the words of `read` for each record. Comments travel with a file that others open, so what
was encrypted is named there and not shown."""

from __future__ import annotations

from zmtpscope.dissect import FrameRun, MessageRun, Options, Record
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.rows import RunWords
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import record_values
from zmtpscope.export.words import counted

MOST_LINES = 50
"""Records that the comment of one packet names."""
MOST_OCTETS = 64 << 20
"""Of all comments; packets behind that have none."""
LINE_WEIGHT = 100
"""Octets of memory that a line takes besides its text."""


class Comments:
    """The comments of packets, by packet reference."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.is_full = False
        """There were more than fit; some packets have none."""
        self._octets = 0
        self._lines: dict[int, list[str]] = {}
        self._left_out: dict[int, int] = {}

    def add(self, reference: int, item: Record | MessageRun | FrameRun, index: int, words: RunWords | None) -> None:
        """Say of a packet what a record is; `words` are those of its run."""
        lines = self._lines.get(reference)
        if self.is_full:
            return
        if lines is not None and len(lines) >= MOST_LINES:
            self._left_out[reference] = self._left_out.get(reference, 0) + 1
            return
        line = self._line(item, index, words)
        self._octets += len(line) + LINE_WEIGHT
        self.is_full = self._octets > MOST_OCTETS
        if lines is None:
            self._lines[reference] = [line]
        else:
            lines.append(line)

    def of(self, reference: int) -> str:
        """The comment of a packet; nothing where there is none."""
        lines = self._lines.get(reference, [])
        more = self._left_out.get(reference)
        return "\n".join([*lines, f"and {counted(more, 'more record')}"] if more else lines)

    def _line(self, item: Record | MessageRun | FrameRun, index: int, words: RunWords | None) -> str:
        if words is None:
            assert isinstance(item, Record)
            values = record_values(item, self.options)
            number = "" if values["conn"] is None else f"c{values['conn']} "
            if values.get("decrypted") and not self.options.show_secrets:
                return f"{number}decrypted {safe_text(values['name'] or 'command')}"
            hint = values.get("hint")
            return f"{number}{DESCRIBE[values['record']](values)}" + (f" -> {hint}" if hint else "")
        run = words.run
        number = f"c{run.stream.conn} "
        if run.regime.opened and not self.options.show_secrets:
            return f"{number}{words.message}{words.doubt} {counted(words.octets(index), 'octet')}"
        return number + words.describe(index, 0)
