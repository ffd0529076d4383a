"""Format the lines of many messages or frames in one call."""

from __future__ import annotations

from collections.abc import Sequence

from zmtpscope import compiled
from zmtpscope.export.front import Column, Front
from zmtpscope.export.rows import RowWords


@compiled.where_possible
def lines_of(words: RowWords, rows: Sequence[int], names: Sequence[Column], front: Front) -> list[str]:
    """Format messages or frames for output to a file.

    `rows` are their indexes; `names` are sender and receiver of each.
    """
    lines = []
    for row, (who, _) in zip(rows, names, strict=True):
        packet, time = words.packet_and_time(row)
        place = front.paint("dim", front.of_row(packet, time, words.columns.files))
        lines.append(f"{place}{who}{words.describe(row, 0)}\n")
    return lines
