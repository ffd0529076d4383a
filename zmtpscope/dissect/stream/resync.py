"""Find frame boundaries in a stream without its start, or with lost octets (wire.md 9.5).

There are two phases: *synchronise* (a frame may start at any plausible octet) and *trial* (frames are parsed from
there, and their evidence is added up). Trials run in parallel; trials that meet at one boundary become one, so every
octet is read once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from zmtpscope.zmtp.boundaries import (
    GREETING_REST,
    KNOWN_NAME,
    LONG_RUN,
    OTHER_THAN,
    RUNS,
    SEALED_HEADERS,
    STARTS,
    frame_header,
    is_known_command,
)
from zmtpscope.zmtp.content import MESSAGE_NAME
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.regime import Framing

WINDOW = 64 << 10
"""Octets from the start of which any may begin a frame. After them, only the first octet of a segment and the header
of a sealed MESSAGE may."""
RETAINED = 1 << 20
"""Octets kept. A trial that began earlier is given up."""
RETAINED_SEGMENTS = 16 << 10
TRIMMED = 4
"""Trim once a limit is exceeded by this fraction (1/4), not with every segment."""
TRIAL_WEIGHT, EDGE_WEIGHT = 256, 64
"""Memory in octets of a trial and of an edge."""
ENOUGH = 12
ENOUGH_AT_THE_END = 5
MIN_FRAMES = 3
MIN_SEGMENT_ENDS = 2
LARGEST_COMMAND = 8 << 10
"""Octets of a command in a trial; real ones are small."""
COMMANDS_PER_OCTET = 2
"""Command octets to parse per octet fed. Commands of different trials may overlap."""
BIG_ENDIAN_LENGTH = b"\0\0\0"
"""Octets of an empty message and the flags of another.

32-bit lengths in other protocols look the same, so the frame after them is no evidence.
"""

FOR_COMMAND = 8
FOR_BODY = 1
FOR_SEGMENT_END = 4
FOR_KNOWN_SIZE = 2

LONGEST_REPETITION = 8
"""Size in octets up to which a frame may repeat one octet; the octets of longer headers differ."""


class Boundary(NamedTuple):
    """A frame boundary that was found: frames start at stream offset `offset`."""

    framing: Framing
    offset: int


@dataclass(slots=True)
class Trial:
    """Frames parsed from the possible boundary `start`. The last one starts at `frame`, its body at `body`."""

    start: int
    score: int
    bodies: int
    aligned: bool
    frame: int
    body: int
    command: bool
    only_commands: bool = True
    """Whether every frame with a body is a known command."""
    segment_ends: int = 0
    """Messages that end with a segment."""
    empties: int = 0
    """Messages that end with an empty frame: few in ZMTP, many in headers of other protocols."""

    @property
    def rank(self) -> int:
        """The evidence for this trial. Of two trials that meet at one frame boundary, the higher rank remains."""
        return self.score + FOR_SEGMENT_END * self.aligned


class FrameSearch:
    """Searches for a frame boundary in the stream of one side, segment by segment.

    `known`: the side is known to use `framing`; `known_sizes` are frame sizes before the loss. Otherwise frames must
    also match segments, because other protocols can look like frames. `boundary` is a known frame boundary to wait for.
    """

    def __init__(
        self,
        framing: Framing,
        offset: int,
        known: bool,
        known_sizes: frozenset[int] = frozenset(),
        boundary: int | None = None,
    ) -> None:
        self.framing = framing
        self.runs = LONG_RUN[framing]
        self.known = known
        self.boundary = boundary
        self.base = self.origin = offset
        self.limit = offset + WINDOW
        self.known_sizes = known_sizes
        self.data = bytearray()
        self.command_octets = LARGEST_COMMAND
        """Command octets that may still be parsed."""
        self.at = self.likely = offset
        """The current offset, and the next possible frame start, as far as computed."""
        self.trials: dict[int, Trial] = {}
        self.edges: set[int] = {offset}
        self.boundaries: list[int] = []
        """Ends of the frames of trials, a heap; trials that were given up may be left."""
        self.starts: deque[int] = deque([offset])
        """Frame starts to try after the window."""

    def feed(self, octets: bytes) -> Boundary | None:
        """Add a segment; return a frame boundary once one is likely enough."""
        end = self.base + len(self.data)
        self.at = min(self.at, end)  # there may be octets to read now
        if end >= self.limit:
            self.starts.append(end)
        self.edges.add(end)
        self.data += octets
        self.command_octets += COMMANDS_PER_OCTET * len(octets)
        if self.framing is Framing.V2 and end + len(octets) > self.limit:
            self._look_for_sealed(end)
        self.edges.add(end + len(octets))
        if not self.known and self.boundary is None and self.base == self.origin:
            self.boundary = self._behind_greeting()
        if self.boundary is not None:
            framing = self.framing if self.known else Framing.V2
            return Boundary(framing, self.boundary) if self.boundary <= self.end else None
        found = self._follow()
        if found is None:
            self._trim()
        return found

    def _look_for_sealed(self, end: int) -> None:
        """Try to parse frames from each CURVE MESSAGE from offset `end` on.

        The name of the command stands out in the random octets of encrypted traffic.
        """
        place = self.data.find(MESSAGE_NAME, max(0, end - self.base - len(MESSAGE_NAME) + 1))
        found = []
        while place >= 0:
            found += [self.base + place - header for header in SEALED_HEADERS if place >= header]
            place = self.data.find(MESSAGE_NAME, place + len(MESSAGE_NAME))
        found = [start for start in found if start >= self.limit]
        if found:
            self.starts = deque(sorted({*self.starts, *found}))
            self.at = min(self.at, *found)  # its header may precede `end`

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def conclude(self) -> Boundary | None:
        """Return a boundary at a loss or at the end, or None.

        Frames that start with a segment and end with the last octet need less evidence there.
        """
        if self.boundary is not None:
            return None
        trial = self.trials.get(self.end)
        if self.known and trial is not None and trial.start in self.edges and trial.score >= ENOUGH_AT_THE_END:
            return Boundary(self.framing, trial.start)
        return None

    @property
    def held_octets(self) -> int:
        return len(self.data) + TRIAL_WEIGHT * len(self.trials) + EDGE_WEIGHT * len(self.edges)

    def first_octets(self) -> Boundary | None:
        """Return the first offset if a frame may start there and the search has found no other boundary; otherwise
        None."""
        header = (
            frame_header(self.data, 0, self.framing) if self.base == self.origin and self.end >= self.limit else None
        )
        return Boundary(self.framing, self.origin) if header is not None and header[0] else None

    def exhausted(self) -> bool:
        return not self.trials and self.at >= self.limit

    def octets_from(self, offset: int) -> bytes:
        """Return the octets from stream offset `offset` on, the offset of a frame boundary that was found, or a later
        one."""
        return bytes(self.data[offset - self.base :])

    def _behind_greeting(self) -> int | None:
        """Return the offset of the first command if the octets start with the end of a 3.x greeting; otherwise None."""
        rest = GREETING_REST.match(self.data)
        return None if rest is None else self.base + rest.end()

    def _follow(self) -> Boundary | None:
        end = self.base + len(self.data)
        while self.at <= end:
            trial = self.trials.get(self.at)
            if trial is not None:
                if self._succeeds(self.at):
                    return Boundary(self.framing, trial.start)
                trial = self.trials.get(self.at)
                run = self.runs.match(self.data, self.at - self.base)
                if run is not None and self._pass_run(run[0][0], end):
                    continue
            if (trial is not None or self._may_start()) and not self._step(trial):
                break
            self.trials.pop(self.at, None)
            self.at = self._next(end)
        if self._succeeds(end):  # a frame may end here although an earlier octet could begin one
            return Boundary(self.framing, self.trials[end].start)
        return None

    def _pass_run(self, octet: int, end: int) -> bool:
        """Skip a run of the same `octet` up to offset `end`, at least `MIN_RUN` long; return whether there was one.

        Its frames are no evidence for a frame boundary, and each octet in it would start the same frames.
        """
        at, size = self.at, RUNS[self.framing][octet]
        trials = [self.trials.get(at + ahead) for ahead in range(size)]
        trial, *others = trials
        if trial is None or (at < self.limit and None in others):
            return False
        if self.data.count(octet, max(0, at - self.base - size + 1), at - self.base) < size - 1:
            return False
        for boundary, other in enumerate(others, at + 1):
            if other is not None and (other.frame != boundary - size or other.body != other.frame + 2):
                return False
        if not self.known and any(each is not None and each.score >= ENOUGH for each in trials):
            return False  # they wait for the end of a segment
        while self.boundaries and self.boundaries[0] < at + size:
            heappop(self.boundaries)
        stop = min(end, self.boundaries[0] - 1) if self.boundaries else end
        if None in others and self.starts:
            stop = min(stop, self.starts[0] + size - 1)
        passed = (self._end_of_run(octet, stop) - at - size + 1) // size * size
        if passed > 0:
            self.at = at + passed
            for boundary, each in enumerate(trials, at):
                if each is not None:
                    ahead = boundary > at
                    self._put(each, boundary, boundary + passed, boundary + passed - size * ahead, size)
                    if each.score and not octet:
                        each.empties += passed // size
        for boundary, each in enumerate(others, self.at + 1):
            if each is not None:
                heappush(self.boundaries, boundary)
        return passed > 0

    def _end_of_run(self, octet: int, stop: int) -> int:
        other = OTHER_THAN[octet].search(self.data, self.at - self.base, stop - self.base)
        return stop if other is None else self.base + other.start()

    def _put(self, trial: Trial, boundary: int, new_boundary: int, frame: int, size: int) -> None:
        """Move a trial (frames parsed from a possible boundary) to the later `new_boundary`.

        `size` is the size of the frames between, `frame` the offset of the next frame of the trial.
        """
        del self.trials[boundary]
        self.trials[new_boundary] = trial
        trial.frame, trial.body = frame, min(frame + 2, new_boundary)
        if not trial.score:
            trial.start = frame - size

    def _succeeds(self, boundary: int) -> bool:
        """Add the evidence of the frame that ends at `boundary`.

        Returns whether the trial with this frame has enough evidence.
        """
        trial = self.trials.get(boundary)
        if trial is None:
            return False
        if not self._add_evidence(trial, boundary):
            del self.trials[boundary]
            return False
        if not trial.score and trial.frame < boundary:
            # zeros look like empty frames: accept one before the first evidence
            trial.start, trial.empties = trial.frame, min(trial.empties, 1)
        trial.frame = trial.body = boundary
        trial.command = False
        if trial.only_commands and trial.bodies and boundary in self.edges and trial.start in self.edges:
            return True  # commands that fill whole segments
        if trial.score < ENOUGH or trial.bodies < MIN_FRAMES:
            return False
        if self.known:
            return True
        if self.framing is Framing.V1:  # V1 has no commands: only segment edges are evidence
            return trial.start in self.edges and trial.segment_ends >= MIN_SEGMENT_ENDS
        return trial.empties < trial.bodies and (trial.aligned or boundary in self.edges)

    def _may_start(self) -> bool:
        if self.at < self.limit:
            return self.at == self.likely
        return bool(self.starts) and self.starts[0] <= self.at

    def _next(self, end: int) -> int:
        """Return the next offset at which a frame may start or ends; `end` or more if octets are missing."""
        while self.boundaries and self.boundaries[0] <= self.at:
            heappop(self.boundaries)
        following = self.boundaries[0] if self.boundaries else end + 1
        if self.at + 1 < self.limit:
            if self.likely <= self.at:
                stop = min(end, self.limit)
                start = STARTS[self.framing].search(self.data, self.at + 1 - self.base, stop - self.base)
                self.likely = stop if start is None else self.base + start.start()
            if min(self.likely, following) < self.limit:
                return min(self.likely, following)
        while self.starts and self.starts[0] <= max(self.at, self.limit - 1):
            self.starts.popleft()
        return min(following, self.starts[0] if self.starts else end + 1)

    def _add_evidence(self, trial: Trial, boundary: int) -> bool:
        """Add the evidence of the frame of `trial` that ends at `boundary`; return False if it cannot be a frame."""
        first, body, stop = trial.frame - self.base, trial.body - self.base, boundary - self.base
        if trial.command:
            if stop - body > LARGEST_COMMAND or not self._is_known_command(body, stop):
                return False
            trial.score += FOR_COMMAND
        elif body < stop:
            trial.only_commands = False
        if first == stop:
            return True  # already added
        is_last = not self.data[first if self.framing is Framing.V2 else body - 1] & MORE
        if body == stop or self._is_one_octet(first, stop):
            trial.empties += is_last
            return True
        if not self.known and self.framing is Framing.V2 and self.data.startswith(BIG_ENDIAN_LENGTH, max(0, first - 2)):
            return True
        trial.score += FOR_BODY
        trial.bodies += 1
        if stop - body in self.known_sizes:
            trial.score += FOR_KNOWN_SIZE
        if self.data.startswith(MESSAGE_NAME, body, stop):
            trial.score += FOR_COMMAND
        if boundary in self.edges and (is_last or self.known):
            trial.score += FOR_SEGMENT_END
            trial.segment_ends += 1
            trial.aligned = True
        return True

    def _is_known_command(self, body: int, stop: int) -> bool:
        """Whether the octets `body..stop` are a known command, as long as the limit for parsing permits."""
        if KNOWN_NAME.match(self.data, body, stop) is None or stop - body > self.command_octets:
            return False
        self.command_octets -= stop - body
        return is_known_command(bytes(self.data[body:stop]))

    def _is_one_octet(self, first: int, stop: int) -> bool:
        count = stop - first
        return count <= LONGEST_REPETITION and self.data.count(self.data[first], first, stop) == count

    def _step(self, trial: Trial | None) -> bool:
        """Move a trial past the frame at the current offset; return False if octets are missing.

        A trial is frames parsed from a possible boundary; None: try to start one here.
        """
        header = frame_header(self.data, self.at - self.base, self.framing)
        if header is None:
            return False
        start, length, command = header
        if not start:
            return True
        boundary = self.at + start + length
        if trial is None:
            trial = Trial(self.at, 0, 0, self.at in self.edges, self.at, self.at + start, command)
        else:
            self.trials.pop(self.at)
            trial.frame, trial.body, trial.command = self.at, self.at + start, command
        rival = self.trials.get(boundary)
        if rival is None or (rival.rank, -rival.start) < (trial.rank, -trial.start):
            self.trials[boundary] = trial
            heappush(self.boundaries, boundary)
        return True

    def _trim(self) -> None:
        """Drop octets and trials (frames parsed from possible boundaries), if enough of them exceed the limits."""
        octets, segments = len(self.data) - RETAINED, len(self.edges) - RETAINED_SEGMENTS
        if octets < RETAINED // TRIMMED and segments < RETAINED_SEGMENTS // TRIMMED:
            return
        first = self.base + max(0, octets)
        if segments > 0:
            first = max(first, sorted(self.edges)[segments])
        self.give_up_before(first)

    def give_up_before(self, offset: int) -> None:
        """Forget the octets before stream offset `offset`, and all frames parsed from there."""
        del self.data[: offset - self.base]
        self.base = offset
        self.at = max(self.at, self.base)
        self.trials = {boundary: trial for boundary, trial in self.trials.items() if trial.start >= self.base}
        self.edges = {edge for edge in self.edges if edge >= self.base}
        self.boundaries = list(self.trials)
        heapify(self.boundaries)
