"""Every message that begins with a topic, or is for a group, on all connections of publishers: when it came, and which
it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from zmtpscope.dissect import Batch
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.meaning.moments import Moment
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO

MOST_MESSAGES = 4 << 20
"""So many are remembered, 32 octets each; those behind are only counted."""

LONGEST_COMPARED = 4096
"""Octets by which a message is told from others."""

LONGEST_BEGINNING = 256
"""Octets that are kept of how a message begins ..."""
MOST_BEGINNINGS = 1 << 15
"""... of so many different ones, which is what subscriptions that are longer than the topic are compared with."""


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True, eq=False)
class TopicMessages:
    """Those of one connection, as columns: times (ns), references of packets, a number that equal ones share, and the
    offset in the TCP stream behind the last octet (0 where they stand in boxes)."""

    times: array[int] = field(default_factory=_numbers)
    packets: array[int] = field(default_factory=_numbers)
    marks: array[int] = field(default_factory=_numbers)
    ends: array[int] = field(default_factory=_numbers)


class TopicSearch:
    """`feed` it all batches of a run. Messages of which octets are missing are passed over."""

    def __init__(self, topic: bytes) -> None:
        self.topic = topic
        self.found: dict[str, TopicMessages] = {}
        """By conn_id."""
        self.beginnings: dict[int, bytes] = {}
        """How messages begin, by the number that equal ones share; those of others are not known."""
        self.left_out = 0
        """Messages for which there was no room."""
        self._files: Sequence[str | None] = ()
        self._count = 0

    def feed(self, batch: Batch) -> None:
        """Look through the messages of a batch."""
        self._files = batch.files
        for run in batch.runs:
            if run.socket_type in PUBLISHERS_AND_RADIO:
                rows = self._matching(run)
                if len(rows):
                    self._remember(run, rows)

    def moment(self, time: int, packet: int) -> Moment:
        """That of a message."""
        return Moment.of_packet(time, packet, self._files)

    def _matching(self, run: MessageRun) -> Int64:
        frames = run.first
        starts, size = run.bodies[frames] - run.base, len(self.topic)
        is_there = (starts >= 0) & (starts + size <= len(run.data)) & (run.sizes[frames] >= size)
        if run.socket_type == "RADIO":
            is_there &= run.sizes[frames] == size
        rows = np.flatnonzero(is_there & run.complete & ((run.flags[frames] & SPECIAL) == 0))
        octets = np.frombuffer(run.data, np.uint8)
        for place, octet in enumerate(self.topic):
            rows = rows[octets[starts[rows] + place] == octet]
        return rows

    def _remember(self, run: MessageRun, rows: Int64) -> None:
        room = MOST_MESSAGES - self._count
        self.left_out += max(0, len(rows) - room)
        rows = rows[:room]
        self._count += len(rows)
        found = self.found.setdefault(run.stream.conn_id, TopicMessages())
        found.times.frombytes(run.times[rows].tobytes())
        found.packets.frombytes(run.packets[rows].tobytes())
        last = run.last[rows]
        behind = run.bodies[last] + run.sizes[last]
        found.ends.frombytes((behind if run.source == 0 else np.zeros_like(behind)).tobytes())
        starts = run.bodies[run.first[rows]] - run.base
        ends = np.minimum(behind - run.base, starts + LONGEST_COMPARED)
        data = run.data
        marks = [crc32(data[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        found.marks.extend(marks)
        self._keep_beginnings(run, rows, marks)

    def _keep_beginnings(self, run: MessageRun, rows: Int64, marks: list[int]) -> None:
        frames = run.first[rows]
        starts = run.bodies[frames] - run.base
        ends = np.minimum(starts + np.minimum(run.sizes[frames], LONGEST_BEGINNING), len(run.data))
        for mark, start, end in zip(marks, starts.tolist(), ends.tolist(), strict=True):
            if mark not in self.beginnings:
                if len(self.beginnings) >= MOST_BEGINNINGS:
                    return
                self.beginnings[mark] = run.data[start:end]
