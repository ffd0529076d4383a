"""JSON lines of many message rows. Compiled (`json_text_compiled.pyx`), one loop over the rows writes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from zmtpscope import compiled
from zmtpscope.export.json_rows import JsonRows


@compiled.where_possible
def lines_between(rows: JsonRows, low: int, high: int, cuts: Sequence[int]) -> list[bytes]:
    """Return the lines of the rows `low..high` (high excluded), from each of the `cuts` to the next. The first cut is
    `low`, the last one `high`."""
    return [b"".join(map(rows.careful, range(begin, end))) for begin, end in pairwise(cuts)]
