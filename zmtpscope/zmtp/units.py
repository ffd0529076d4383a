from __future__ import annotations

from collections.abc import Sequence

from zmtpscope.zmtp import content
from zmtpscope.zmtp.content import RULED, Kind
from zmtpscope.zmtp.events import CANCEL, NO_FRAMES, SUBSCRIBE, Event, Fields, FrameColumns, Remark
from zmtpscope.zmtp.memberships import MEMBERSHIP_COMMANDS, Memberships
from zmtpscope.zmtp.reader import Finding, Reader
from zmtpscope.zmtp.regime import Regime

STORED = 10
"""Number of findings to emit for each id; further ones are only counted."""


class Tally:
    """Counts findings, so that only the first `STORED` of each id are reported.

    `repeats`: for each id with more, the number of further findings and the stream offset of the last.
    """

    __slots__ = ("_habits", "_raised", "repeats")

    def __init__(self) -> None:
        self.repeats: dict[str, tuple[int, int | None]] = {}
        self._raised: dict[str, int] = {}
        self._habits: set[str] = set()

    def first_time(self, habit: str) -> bool:
        """Note that a side has a habit: a deviation in every frame. Returns whether the habit is new."""
        if habit in self._habits:
            return False
        self._habits.add(habit)
        return True

    def noted(self, habit: str) -> bool:
        return habit in self._habits

    def keep(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        return tuple([finding for finding in findings if self._count(finding.id, 1, finding.start)])

    def repeat(self, finding: str, times: int, last: int) -> None:
        """Add `times` to the count of a finding that is no longer reported; `last` is the last stream offset."""
        self._count(finding, times, last)

    def _count(self, finding: str, times: int, last: int | None) -> bool:
        raised = self._raised[finding] = self._raised.get(finding, 0) + times
        if raised > STORED:
            self.repeats[finding] = (raised - STORED, last)
        return raised <= STORED


class UnitReader:
    """Base of the readers of one side: collects frames and events for `drain`."""

    regime: Regime
    message_open = False
    """Whether the last message frame had MORE."""
    socket_type: str | None = None
    identity: str | None = None

    def _enter(self, first: Regime, offset: int) -> None:
        self.regime = first
        self.regimes = [(offset, first)]
        """Regimes, each with the stream offset from which it applies."""
        self.frames = FrameColumns()
        self.events: list[Event] = []
        self._tally = Tally()
        self.memberships = Memberships()

    def drain(self) -> tuple[FrameColumns, list[Event]]:
        """Return the frames and events since the last call."""
        frames, events = self.frames, self.events
        self.events = []
        if not frames.offsets:
            return NO_FRAMES, events
        self.frames = FrameColumns()
        return frames, events

    @property
    def repeats(self) -> dict[str, tuple[int, int | None]]:
        return self._tally.repeats

    def _read_content(self, reader: Reader, flags: int, size: int, kind: Kind, inside: bool) -> int:
        """Parse a frame body of the format `kind`.

        Returns `SUBSCRIBE` or `CANCEL` for a subscription, otherwise 0. `inside`: the previous frame had MORE.
        """
        mark = 0
        fields: Fields = {}
        if kind == "subscription":
            content.read_subscription(reader, self.regime, fields)
            mark = SUBSCRIBE if fields["kind"] == "subscribe" else CANCEL
            if size <= content.LARGEST_AWAITED_TOPIC:
                self.memberships.judge(reader, fields["kind"].upper(), fields["topic"], reader.body, 1)
        elif kind == "group":
            content.read_group_frame(reader, self.regime, fields)
        if self.regime.socket_type in RULED:
            content.judge_ruled(reader, self.regime, flags, size, inside)
        return mark

    def _judge_traffic(self, reader: Reader, name: str, fields: Fields) -> None:
        if name in ("PING", "PONG"):
            if self.regime.version == "3.0" and self._tally.first_time("ZMTP31-PING-05"):
                reader.finding("ZMTP31-PING-05", *reader.name_span)
        elif name in MEMBERSHIP_COMMANDS:
            self.memberships.judge(reader, name, fields.get("topic") or fields.get("group") or "", *reader.name_span)

    def _remark(self, start: int, stop: int, findings: list[Finding], frame: bool = False) -> None:
        kept = self._tally.keep(findings)
        if kept:
            self.events.append(Remark(start, stop, self.regime, kept, frame))
