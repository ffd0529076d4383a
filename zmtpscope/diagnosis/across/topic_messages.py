"""All messages of a topic or group on all connections of publishers, with their times and contents."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.dissect import Batch
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO

MAX_MESSAGES = 4 << 20
"""Maximum number of messages to remember, 32 octets each; later ones are only counted."""

LONGEST_COMPARED = 4096
"""Number of octets of a message that are compared."""

LONGEST_BEGINNING = 256
"""Maximum number of octets to keep of the beginning of a message."""
MAX_BEGINNINGS = 1 << 15
"""Maximum number of different beginnings to keep, for subscriptions that are longer than the topic."""


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True, eq=False)
class TopicMessages:
    """The messages of one connection, as columns.

    Times (ns), packet references, checksums of the contents, and offsets in the TCP stream after the last octet (0 if
    encrypted).
    """

    times: array[int] = field(default_factory=_numbers)
    packets: array[int] = field(default_factory=_numbers)
    marks: array[int] = field(default_factory=_numbers)
    ends: array[int] = field(default_factory=_numbers)


class TopicSearch:
    """Searches the batches of a run for messages of a topic. Messages with missing octets are skipped."""

    def __init__(self, topic: bytes) -> None:
        self.topic = topic
        self.found: dict[str, TopicMessages] = {}
        """Messages by conn_id."""
        self.beginnings: dict[int, bytes] = {}
        """Beginnings of messages by checksum, as far as they were kept."""
        self.left_out = 0
        """Number of messages for which there was no room."""
        self._files: Sequence[str | None] = ()
        self._count = 0

    def feed(self, batch: Batch) -> None:
        """Search the messages of a batch."""
        self._files = batch.files
        for run in batch.runs:
            if run.socket_type in PUBLISHERS_AND_RADIO:
                rows = self._matching(run)
                if len(rows):
                    self._remember(run, rows)

    def moment(self, time: int, packet: int) -> Moment:
        """Return the moment of a message."""
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
        room = MAX_MESSAGES - self._count
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
                if len(self.beginnings) >= MAX_BEGINNINGS:
                    return
                self.beginnings[mark] = run.data[start:end]
