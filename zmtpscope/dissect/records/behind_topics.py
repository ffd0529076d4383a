"""Dissect the content after the topic in messages of one frame, like `prices:{"bid": 1.1}`.

Messages are dissected before a subscription shows where their topic ends. The content is therefore dissected again,
without findings, and only as stateless formats (JSON, MessagePack).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.dissect.records.topics import has_topic_in_front
from zmtpscope.payloads.api import Payload
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.dissectors import TEXT
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.side import result_at_once
from zmtpscope.payloads.values import as_summary
from zmtpscope.records import to_text
from zmtpscope.zmtp.events import SPECIAL

BETWEEN = b" \t\r\n\0:|,;=/"
MAX_BETWEEN = 4
IS_BETWEEN = np.isin(np.arange(256), list(BETWEEN))


class BehindTopics:
    """Dissects the content after topics with the stateless dissectors of `registry`."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._made: dict[str, Payload | None] = {}

    @cached_property
    def _begins(self) -> NDArray[np.bool_]:
        """Return a mask by octet: whether any of the dissectors claims content that starts with this octet."""
        asked = [each for each in self.registry.asked().dissectors if each.dissects_at_once]
        return np.array([any(each.may_begin(octet) for each in asked) for octet in range(256)])

    def read(self, table: MessageTable) -> None:
        """Dissect published messages in a table, if no dissector has claimed them before."""
        found: dict[int, Dissected] = {}
        begin = 0
        for run in table.by_sender():
            if run.topics is not None and has_topic_in_front(run):
                rows = _behind_topics(run, run.topics)
                rows = rows[self._begins[_first_octets(run, run.topics, rows)]] if len(rows) else rows
                found.update((begin + row, made) for row, made in self._read(run, run.topics, rows))
            begin += len(run)
        if found:
            table.payloads = [*(table.payloads or [None] * len(table))]
            for row, made in found.items():
                table.payloads[row] = made
            if table.texts is not None:
                table.texts = table.texts.copy()
                table.texts[[*found]] = False

    def _read(self, run: MessageTable, topics: Int64, rows: Int64) -> Iterator[tuple[int, Dissected]]:
        """Yield (row, result) for the `rows` whose content a dissector claims; `topics` are the sizes of topics."""
        starts = run.bodies - run.base
        for row in rows.tolist():
            frame, size = int(run.first[row]), int(topics[row])
            start, stop = int(starts[frame]), int(starts[frame] + run.sizes[frame])
            whole = None if run.payloads is None else run.payloads[row]
            if whole is not None and whole.protocol != TEXT:
                continue
            made = self._dissected(run.data[start + size : stop])
            if made is not None:
                summary = as_summary(f"{to_text(run.data[start : start + size])} {made.summary}")
                yield row, Dissected(made.protocol, summary, made.fields)

    def _dissected(self, octets: bytes) -> Dissected | None:
        """Dissect the octets after a topic, or return None."""
        front = octets[:MAX_BETWEEN]
        content = octets[len(front) - len(front.lstrip(BETWEEN)) :]
        for dissector in self.registry.asked().dissectors if content else ():
            if dissector.dissects_at_once and dissector.may_begin(content[0]):
                if dissector.name not in self._made:
                    self._made[dissector.name] = self.registry.make(dissector)
                each = self._made[dissector.name]
                made = None if each is None else result_at_once(each, content)
                if made is not None:
                    return made
        return None


def _first_octets(run: MessageTable, topics: Int64, rows: Int64) -> Int64:
    """Return for each of `rows` the first octet after its topic; the last octet of the topic if nothing follows."""
    octets, frames = np.frombuffer(run.data, np.uint8), run.first[rows]
    starts = run.bodies[frames] - run.base
    places, last = starts + topics[rows], starts + run.sizes[frames] - 1
    for _ in range(MAX_BETWEEN):
        places += IS_BETWEEN[octets[places]] & (places < last)
    found: Int64 = octets[places].astype(np.int64)
    return found


def _behind_topics(run: MessageTable, topics: Int64) -> Int64:
    """Return the rows with one complete frame that has a topic and further octets, which are not JSON."""
    frames = run.first
    starts, sizes = run.bodies[frames] - run.base, run.sizes[frames]
    chosen = (run.last == frames) & (topics > 0) & (sizes > topics) & run.complete
    chosen &= ((run.flags[frames] & SPECIAL) == 0) & (starts >= 0) & (sizes <= len(run.data) - starts)
    if run.json is not None:
        chosen &= ~run.json
    rows: Int64 = np.flatnonzero(chosen)
    return rows
