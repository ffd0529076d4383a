"""Finding frame boundaries in a stream whose start, or some of whose octets, the capture lacks (wire.md 9.5).

Two phases: *synchronise* (any plausible octet may begin a frame) and *trial* (frames are followed from there, and their
evidence is added up). Nothing is published before a trial has succeeded, and the result is never better than `likely`.
All trials run side by side: frames that meet at one boundary are one trial, so every octet is looked at once.
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
"""Every octet in the first 64 KiB may begin a frame; behind them only the first octet of a segment, and the header of a
sealed MESSAGE."""
RETAINED = 1 << 20
"""A trial that needs more octets than these in front of what was captured last is given up ..."""
RETAINED_SEGMENTS = 16 << 10
"""... and one that needs more segments, ..."""
TRIMMED = 4
"""... once there are more by a part in so many: trials and edges are looked through then, not with every segment."""
TRIAL_WEIGHT, EDGE_WEIGHT = 256, 64
"""Octets that a trial and an edge stand for where what is held is counted."""
ENOUGH = 12
ENOUGH_AT_THE_END = 5
LEAST_FRAMES = 3
LEAST_SEGMENT_ENDS = 2
LARGEST_COMMAND = 8 << 10
"""A trial believes in no command that is larger: real ones are small."""
COMMANDS_PER_OCTET = 2
"""So many octets of commands are read for each that was fed: those of different trials may overlap."""
BIG_ENDIAN_LENGTH = b"\0\0\0"
"""An empty message and the flags of another: lengths of 32 bits in front of other protocols' messages look like it, so
the frame behind it is no evidence."""

FOR_COMMAND = 8
FOR_BODY = 1
FOR_SEGMENT_END = 4
FOR_KNOWN_SIZE = 2

LONGEST_REPETITION = 8
"""No frame of more octets is one octet repeated: its header alone has several."""


class Boundary(NamedTuple):
    """A trial that succeeded: frames of `framing` begin at stream offset `offset`."""

    framing: Framing
    offset: int


@dataclass(slots=True)
class Trial:
    """Frames followed from `start`; the last one begins at `frame`, its body at `body`."""

    start: int
    score: int
    bodies: int
    aligned: bool
    frame: int
    body: int
    command: bool
    only_commands: bool = True
    """Every frame of it that has a body is a known command."""
    segment_ends: int = 0
    """How many of its messages end with a segment."""
    empties: int = 0
    """How many of its messages end with an empty frame: few in ZMTP, many in headers of other protocols."""

    @property
    def rank(self) -> int:
        """The score, and what it is worth to have met a segment's edge: it decides between trials that meet."""
        return self.score + FOR_SEGMENT_END * self.aligned


class FrameSearch:
    """The search in one side's stream under one framing; give it the octets segment by segment.

    `known` says that the side is known to speak `framing`, and `known_sizes` are frame sizes that it sent before octets
    were lost. Where it is not known, frames have to agree with segments too: other protocols look like frames at times.
    `boundary` is where a frame surely begins, if that is known: the search only waits for it.
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
        """Octets of commands that may still be read."""
        self.at = self.likely = offset
        """Where the search has come to, and where behind that a frame may begin next, as far as that was looked for."""
        self.trials: dict[int, Trial] = {}
        self.edges: set[int] = {offset}
        self.boundaries: list[int] = []
        """Where frames of trials end: a heap, which may still name trials that have been given up."""
        self.starts: deque[int] = deque([offset])
        """Where to look behind the window, in order (the window needs no list)."""

    def feed(self, octets: bytes) -> Boundary | None:
        """Take the octets of the next segment; where frames begin, once that is likely enough."""
        end = self.base + len(self.data)
        self.at = min(self.at, end)  # where nothing was to be looked at before, something is now
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
        """Look for a frame wherever a body begins with the name of MESSAGE, of what came from `end` on: it is long
        enough to stand out from random octets, of which sealed traffic is made."""
        place = self.data.find(MESSAGE_NAME, max(0, end - self.base - len(MESSAGE_NAME) + 1))
        found = []
        while place >= 0:
            found += [self.base + place - header for header in SEALED_HEADERS if place >= header]
            place = self.data.find(MESSAGE_NAME, place + len(MESSAGE_NAME))
        found = [start for start in found if start >= self.limit]
        if found:
            self.starts = deque(sorted({*self.starts, *found}))
            self.at = min(self.at, *found)  # its header may have come before its name

    @property
    def end(self) -> int:
        """The stream offset behind the last octet that was fed."""
        return self.base + len(self.data)

    def conclude(self) -> Boundary | None:
        """No more octets will come in one piece with these: less evidence is enough for frames that begin at a segment
        start and end with the last octet."""
        if self.boundary is not None:
            return None
        trial = self.trials.get(self.end)
        if self.known and trial is not None and trial.start in self.edges and trial.score >= ENOUGH_AT_THE_END:
            return Boundary(self.framing, trial.start)
        return None

    @property
    def held_octets(self) -> int:
        """What the search holds, in octets."""
        return len(self.data) + TRIAL_WEIGHT * len(self.trials) + EDGE_WEIGHT * len(self.edges)

    def first_octets(self) -> Boundary | None:
        """The very start, once the window was looked at in vain, if a frame may begin there."""
        header = (
            frame_header(self.data, 0, self.framing) if self.base == self.origin and self.end >= self.limit else None
        )
        return Boundary(self.framing, self.origin) if header is not None and header[0] else None

    def exhausted(self) -> bool:
        """No trial is under way and every octet of the window was looked at."""
        return not self.trials and self.at >= self.limit

    def octets_from(self, offset: int) -> bytes:
        """The octets from stream offset `offset` on, which is not in front of a trial that succeeded."""
        return bytes(self.data[offset - self.base :])

    def _behind_greeting(self) -> int | None:
        """Where the octets that came first are the last ones of a 3.x greeting: the offset of the command behind it."""
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
        if self._succeeds(end):  # a frame may end here although an octet in front of it could begin one
            return Boundary(self.framing, self.trials[end].start)
        return None

    def _pass_run(self, octet: int, end: int) -> bool:
        """Pass a run of one octet at once, `LEAST_RUN` of which stand at the current offset. The frames in it are no
        evidence, and as many trials as a frame has octets meet nothing else there, each an octet ahead of the one
        before. Whether there was anything to pass."""
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
            return False  # they wait for a segment to end
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
        """Where the run of `octet` ends that stands at the current offset, `stop` at the latest."""
        other = OTHER_THAN[octet].search(self.data, self.at - self.base, stop - self.base)
        return stop if other is None else self.base + other.start()

    def _put(self, trial: Trial, boundary: int, new_boundary: int, frame: int, size: int) -> None:
        """Move a trial from one boundary to a later one, past frames of `size` octets."""
        del self.trials[boundary]
        self.trials[new_boundary] = trial
        trial.frame, trial.body = frame, min(frame + 2, new_boundary)
        if not trial.score:
            trial.start = frame - size

    def _succeeds(self, boundary: int) -> bool:
        """Evaluate the frame that ends at `boundary`, once: whether its trial has succeeded."""
        trial = self.trials.get(boundary)
        if trial is None:
            return False
        if not self._add_evidence(trial, boundary):
            del self.trials[boundary]
            return False
        if not trial.score and trial.frame < boundary:
            # zeros look like empty frames: in front of the first evidence one is believed
            trial.start, trial.empties = trial.frame, min(trial.empties, 1)
        trial.frame = trial.body = boundary
        trial.command = False
        if trial.only_commands and trial.bodies and boundary in self.edges and trial.start in self.edges:
            return True  # commands that fill whole segments
        if trial.score < ENOUGH or trial.bodies < LEAST_FRAMES:
            return False
        if self.known:
            return True
        if self.framing is Framing.V1:  # it has no commands: what begins and ends with segments is all there is
            return trial.start in self.edges and trial.segment_ends >= LEAST_SEGMENT_ENDS
        return trial.empties < trial.bodies and (trial.aligned or boundary in self.edges)

    def _may_start(self) -> bool:
        if self.at < self.limit:
            return self.at == self.likely
        return bool(self.starts) and self.starts[0] <= self.at

    def _next(self, end: int) -> int:
        """The next offset at which a frame may begin or one ends; where octets are missing, `end` or more."""
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
        """Add the evidence of the frame that ends at `boundary`; False where it cannot be a frame after all."""
        first, body, stop = trial.frame - self.base, trial.body - self.base, boundary - self.base
        if trial.command:
            if stop - body > LARGEST_COMMAND or not self._is_known_command(body, stop):
                return False
            trial.score += FOR_COMMAND
        elif body < stop:
            trial.only_commands = False
        if first == stop:
            return True  # it was added before
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
        """Whether these octets are a known command, as far as commands may still be read."""
        if KNOWN_NAME.match(self.data, body, stop) is None or stop - body > self.command_octets:
            return False
        self.command_octets -= stop - body
        return is_known_command(bytes(self.data[body:stop]))

    def _is_one_octet(self, first: int, stop: int) -> bool:
        """Whether this frame is one octet repeated."""
        count = stop - first
        return count <= LONGEST_REPETITION and self.data.count(self.data[first], first, stop) == count

    def _step(self, trial: Trial | None) -> bool:
        """Read the header at the current offset and move the trial to the frame's end; False to wait for octets."""
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
        """Give up what lies too many octets or segments behind, when it is worth it."""
        octets, segments = len(self.data) - RETAINED, len(self.edges) - RETAINED_SEGMENTS
        if octets < RETAINED // TRIMMED and segments < RETAINED_SEGMENTS // TRIMMED:
            return
        first = self.base + max(0, octets)
        if segments > 0:
            first = max(first, sorted(self.edges)[segments])
        self.give_up_in_front_of(first)

    def give_up_in_front_of(self, offset: int) -> None:
        """Forget the octets in front of stream offset `offset`, which is not beyond the end, and their trials."""
        del self.data[: offset - self.base]
        self.base = offset
        self.at = max(self.at, self.base)
        self.trials = {boundary: trial for boundary, trial in self.trials.items() if trial.start >= self.base}
        self.edges = {edge for edge in self.edges if edge >= self.base}
        self.boundaries = list(self.trials)
        heapify(self.boundaries)
