"""Reads captures into the store, step by step."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from zmtpscope.capture import CaptureError, Captures
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.dissect.analyser import Ongoing
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.words import nothing_found
from zmtpscope.live.followed_captures import FollowedCapture
from zmtpscope.records import SECOND
from zmtpscope.store import OctetsError, Store
from zmtpscope.tui.requests import Progress
from zmtpscope.tui.worker.sides import Sides
from zmtpscope.tui.worker.views.view import Step
from zmtpscope.words import counted

STEP_SECONDS = 0.015
"""Seconds of a step: the usual maximum wait after a key."""

PART_SECONDS = 0.03
"""Approximate CPU seconds of the longest part of a block. Keys wait for it."""

FIRST_PACKETS, MIN_PACKETS, MAX_PACKETS = 256, 64, 1 << 16
"""Packets of the first block (few, so that rows appear at once), then minimum and maximum."""

PACKETS_OF_CONNECTION = 80
"""Minimum packets of a block for each open connection.

A block costs 0.1 to 0.3 ms for each connection, so smaller blocks would take several times as long.
"""

MAX_ARRIVED, MAX_ARRIVED_LIVE = 1, 32
"""Maximum batches whose data are not derived yet."""

MAX_LAG = 1.0
"""Maximum seconds that the analysis is behind before other work waits."""


class Opened(NamedTuple):
    """An input: files, or a growing capture (`followed`), which can be read only once. `open` opens the files."""

    paths: tuple[str, ...]
    open: Callable[[], Captures]
    followed: FollowedCapture | None = None


class Loading:
    """Reads captures into a store, in steps, each of which reads a part of a block.

    `arrived` are stored records that the caller has not taken yet.
    """

    def __init__(self, opened: Opened, options: Options) -> None:
        self.opened = opened
        self.store = Store(options)
        self.sides = Sides()
        self.captures = opened.open()
        self.analyser = Analyser(options)
        self.problems: list[str] = []
        self.is_done = False
        self.arrived = deque[Step]()
        self._is_within_block = False
        self._longest = 0.0
        """CPU seconds of the longest part of the block."""
        self._parts = self._run()

    @property
    def octets(self) -> int | None:
        if self.opened.followed is not None or "-" in self.opened.paths:
            return None
        try:
            return sum(map(os.path.getsize, filter(None, self.captures.files)))
        except OSError:
            return None

    @property
    def ongoing(self) -> Ongoing | None:
        """What continues now (stalls, outages); at the end only the time of the last packet. None while a block is read
        in part."""
        if self._is_within_block or self.arrived:
            return None
        return Ongoing(self.analyser.latest) if self.is_done else self.analyser.ongoing()

    @property
    def _lag(self) -> float:
        follow = self.captures.follow
        if self.is_done or follow is None or not (follow.unread and self.analyser.latest):
            return 0.0
        return max(0.0, time.time() - self.analyser.latest / SECOND)

    @property
    def has_room(self) -> bool:
        """Whether a step can be made: there is more to read, and the caller has taken most records."""
        most = MAX_ARRIVED if self.opened.followed is None else MAX_ARRIVED_LIVE
        return not self.is_done and len(self.arrived) <= most

    @property
    def leaves_time(self) -> bool:
        """Whether there is time for other work: everything is read, or reading keeps up with the capture."""
        return self.is_done or (self.opened.followed is not None and self._lag < MAX_LAG)

    @property
    def progress(self) -> Progress:
        messages, connections = self.analyser.messages_so_far()
        followed = self.opened.followed
        statistics = self.captures.statistics
        is_live = followed is not None and not self.is_done
        return Progress(
            records=len(self.store),
            messages=messages,
            connections=self.analyser.summary.connections + connections,
            packets=statistics.packets,
            octets_read=statistics.octets,
            octets=self.octets,
            is_done=self.is_done,
            is_live=is_live,
            dropped=sum(statistics.dropped().values()) if followed is None else followed.dropped,
            lag=self._lag,
            problems=tuple(map(safe_text, [*self.problems, *self._useless])),
            nothing="" if messages or connections else safe_text(self._nothing(statistics.packets)),
        )

    def _nothing(self, packets: int) -> str:
        """Return a text if there is no ZMTP (yet), with the reason; "" while a complete file is read, or if its
        datagrams are ZMTP."""
        followed = self.opened.followed
        if self.is_done:
            return nothing_found(self.analyser.summary, self.captures.statistics) or ""
        if followed is None or self.analyser.summary.datagram_kinds:
            return ""
        where = "standard input" if followed.title == "-" else followed.title
        if not self.captures.files:
            return f"waiting for {where}: no capture has arrived yet"
        seen = f"{counted(packets, 'packet')} from {where}, no ZMTP yet" if packets else f"no packets from {where} yet"
        return f"{seen} -> send a message, or start a peer"

    @property
    def _useless(self) -> list[str]:
        options = self.store.options
        keys = [] if options.keys is None else options.keys.problems
        return [*keys, *(options.payloads.problems if options.payloads is not None else ())]

    def step(self) -> bool:
        """Read for one step. Return False at the end."""
        until = time.monotonic() + STEP_SECONDS
        while not self.is_done and self.has_room:
            before = time.process_time()
            self.is_done = next(self._parts, None) is None
            self._longest = max(self._longest, time.process_time() - before)
            if not self._is_within_block:
                packets, connections = self.captures.most_packets, len(self.analyser.connections)
                self.captures.most_packets = paced(packets, self._longest, connections)
                self._longest = 0.0
                return not self.is_done
            if time.monotonic() > until:
                break
        return not self.is_done

    def _run(self) -> Iterator[bool]:
        captures = self.captures
        captures.most_packets = FIRST_PACKETS
        try:
            self.analyser.begin(captures.files)
            for block in captures:
                self._is_within_block = True
                for batch in self.analyser.parts(block, captures.follow):
                    if batch is not None:
                        self._append(batch)
                    yield True
                self._is_within_block = False
                yield True
            for batch in self.analyser.finish_captures(captures):
                self._append(batch)
                yield True
        except (CaptureError, OctetsError) as error:
            self.problems.append(str(error))
        self.problems += map(str, captures.problems)

    def _append(self, batch: Batch) -> None:
        self.store.first_time = self.captures.statistics.first_time
        self.sides.feed(batch)
        begin = len(self.store)
        rows = range(begin, self.store.append(batch))
        self.arrived.append(Step(self.store, rows, batch))


def paced(packets: int, seconds: float, connections: int) -> int:
    """Return the number of packets for the next block, so that reading it takes about one step.

    It depends on the packets, connections and CPU seconds of the last block. Wall-clock time would include other
    processes, and blocks would shrink until their fixed cost dominates.
    """
    factor = min(2.0, max(0.5, PART_SECONDS / max(seconds, 1e-6)))
    least = max(MIN_PACKETS, min(PACKETS_OF_CONNECTION * connections, 2 * packets))
    return min(MAX_PACKETS, max(least, round(packets * factor)))
