"""The boxes of one side of a CURVE connection: opened where a key is known, and what was inside told in their place.

A MESSAGE waits until it is whole, since its box opens as a whole. What opens is read once more, box open, and told
from source 1 (`zmtpscope.zmtp.opened`); everything else goes the way of a connection without keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zmtpscope.curve_crypto import open_box
from zmtpscope.dissect.assembly import Assembly, Context, Kept
from zmtpscope.dissect.batch import Stream
from zmtpscope.dissect.outputs import Note
from zmtpscope.dissect.session import LAST_STEPS, TRIES, Session
from zmtpscope.zmtp import z85
from zmtpscope.zmtp.content import MESSAGE_HEAD
from zmtpscope.zmtp.events import ENCRYPTED, NO_FRAMES, Command, Event, FrameColumns
from zmtpscope.zmtp.mechanisms.curve import (
    AUTHENTICATOR_SIZE,
    BOX_OF_MESSAGE,
    BOXES,
    CONTENT_OF_MESSAGE,
    COOKIE_AT,
    CURVE,
    KEY_SIZE,
    NONCE_OF_MESSAGE,
    SMALLEST_INITIATE,
    SMALLEST_MESSAGE,
    WELCOME_SIZE,
)
from zmtpscope.zmtp.opened import OpenedReader
from zmtpscope.zmtp.reader import Finding

if TYPE_CHECKING:
    from zmtpscope.dissect.stream import SideStream

NONCE_AT = NONCE_OF_MESSAGE.start

LARGEST_BOX = 16 << 20
"""Octets of a MESSAGE that are waited for whatever the body limit."""

SENDERS = {name: CURVE.commands[name].sender for name in BOXES}
"""Who sends each step of the handshake."""

Row = tuple[int, int, int, int]
"""Offset, body, size, flags of a frame."""


class Unsealing:
    """Opens the boxes of one side.

    `opened` counts the MESSAGEs that were opened, `waiting` is the one that is not whole yet, if any.
    """

    def __init__(self, session: Session, stream: Stream) -> None:
        self.session = session
        self.assembly = Assembly(stream)
        """Of what was inside."""
        self.closed = FrameColumns()
        """Frames that stay as they are, of those that are being read."""
        self.reader: OpenedReader | None = None
        self.waiting: Row | None = None
        self.opened = 0
        self.repeats: dict[str, int] = {}
        """How many of the findings that the reader only counts have been told."""
        self._notes: list[Note] = []
        """What is to be said about boxes that stay closed."""
        self._steps: Counter[str] = Counter()
        """How often a step of the handshake was looked at, by its name."""

    @property
    def waits_from(self) -> int | None:
        """Stream offset of the frame that is not whole yet."""
        return None if self.waiting is None else self.waiting[0]

    def take(
        self, stream: SideStream, columns: FrameColumns, events: list[Event]
    ) -> tuple[FrameColumns, Sequence[Event]]:
        """Open what is sealed among frames and events that were read together; the last frame may not be whole.

        Gives the frames that stay as they are, and all events, what was told inside of boxes in its place among them.
        """
        if stream.reader is None or stream.reader.mechanism != "CURVE":
            return columns, events
        rows = columns.rows() if self.waiting is None else [self.waiting, *columns.rows()]
        self.waiting = None
        told, done = list[Event](), 0
        for event in events:
            if isinstance(event, Command) and event.fields.get("name") in BOXES:
                in_front = bisect_left(rows, event.start, done, key=_offset_of)
                told += self._open(stream, rows[done:in_front])
                done = in_front
                event = self._open_step(stream, event)
            told.append(event)
        told += self._open(stream, rows[done:])
        return self._take_closed(), sorted(told, key=_start_of)

    def _take_closed(self) -> FrameColumns:
        closed, self.closed = self.closed, FrameColumns()
        return closed

    def tell_notes(self, stream: SideStream) -> None:
        """Say what is to be said about boxes that stay closed, once the events of their frames were told."""
        notes, self._notes = self._notes, []
        stream.give(notes)

    # -- the handshake -----------------------------------------------------------------------------------------------

    def _open_step(self, stream: SideStream, event: Command) -> Command:
        """A command with what its box holds, where it has one that opens; else as it was."""
        name = str(event.fields.get("name"))
        octets = stream.octets(event.start, event.stop)
        header = event.stop - event.start - int(event.fields["size"])
        body = octets[header:]
        if not self._is_sealed(stream, event, body):
            return event
        self._steps[name] += 1
        if self._steps[name] > TRIES:
            return event
        if name == "HELLO":
            self.session.meet(event.fields["client_key"])
        known = self.session.key is not None
        content = self.session.open_handshake(name, body)
        if content is None and known and name in LAST_STEPS:
            box = BOXES[name].start
            changed = Finding("CURVE-20", event.start + header + box, len(body) - box)
            event = event._replace(findings=(*event.findings, changed))
        if content is not None:
            stream.patch(event.start + header + BOXES[name].start + AUTHENTICATOR_SIZE, content)
            event = self._reader(stream).read_handshake(event, stream.octets(event.start, event.stop))
            if self.session.server is not None and name == "HELLO":
                event.fields["server_longterm_key"] = z85.encode(self.session.server)
        if name == "INITIATE":
            event = self._judge_initiate(event, body, event.start + header, content)
        return event

    def _is_sealed(self, stream: SideStream, event: Command, body: bytes) -> bool:
        """Whether a command is a step of the handshake of CURVE, from the right side, in its form and all there."""
        name, fields = event.fields.get("name"), event.fields
        if event.regime.mechanism != "CURVE" or stream.reader is None or len(body) != fields["size"]:
            return False
        sender = SENDERS.get(str(name))
        if sender is None or sender != stream.reader.role:
            return False
        self.session.assign(stream.side, sender)
        return len(body) == WELCOME_SIZE if name == "WELCOME" else "nonce" in fields

    def _judge_initiate(self, event: Command, body: bytes, start: int, content: bytes | None) -> Command:
        findings = list(event.findings)
        if self.session.cookie is not None and body[COOKIE_AT] != self.session.cookie:
            findings.append(Finding("CURVE-14", start + COOKIE_AT.start, COOKIE_AT.stop - COOKIE_AT.start))
        if content is not None and self.session.vouch_is_wrong(content):
            vouch = BOXES["INITIATE"].start + AUTHENTICATOR_SIZE + KEY_SIZE
            findings.append(Finding("CURVE-13", start + vouch, SMALLEST_INITIATE - vouch))
        return event._replace(findings=tuple(findings))

    # -- MESSAGEs ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _limit(stream: SideStream) -> int:
        """Octets of the largest MESSAGE that is opened."""
        return max(LARGEST_BOX, stream.options.body_limit)

    def _open(self, stream: SideStream, rows: list[Row]) -> list[Event]:
        """Open the MESSAGEs among `rows` and tell what is inside: the events. The last may have to wait."""
        if not rows:
            return []
        session = self.session
        session.finish_handshake(stream.side)
        if not session.may_open_messages_of(stream.side):
            for row in rows:
                self.closed.append(*row)
            self._note_closed(stream, rows)
            self._reader(stream).lose()
            self.assembly.uncertain_start = True
            return []
        data, base, limit = stream.reading, stream.kept_base, self._limit(stream)
        prefix = session.prefix(stream.side)
        stretch = list[tuple[int, int, int]]()
        stretches: list[tuple[list[tuple[int, int, int]], Row | None]] = []
        """MESSAGEs that opened, and the frame behind them that did not."""
        parts: list[bytes] = []
        done = 0
        for row in rows:
            offset, body, size, flags = row
            start = body - base
            content = None
            if flags & ENCRYPTED and body + size > stream.end and size <= limit:
                self.waiting = row
                break
            if flags & ENCRYPTED and SMALLEST_MESSAGE <= size <= limit and 0 <= start <= len(data) - size:
                if session.key is None:
                    content = session.try_message(stream.side, data[start : start + size])
                    prefix = session.prefix(stream.side)
                else:  # some microseconds, once for each MESSAGE
                    nonce = prefix + data[start + NONCE_AT : start + BOX_OF_MESSAGE]
                    content = open_box(data[start + BOX_OF_MESSAGE : start + size], nonce, session.key)
            if content is not None:
                parts += data[done : start + CONTENT_OF_MESSAGE], content
                done = start + size
                stretch.append((offset, body, size))
            else:
                stretches.append((stretch, row))
                stretch = []
        stretches.append((stretch, None))
        if parts:
            data = stream.reading = b"".join((*parts, data[done:]))
        events: list[Event] = []
        for opened, row_behind in stretches:
            if opened:
                self.opened += len(opened)
                events += self._read(stream, data, opened)
            if row_behind is not None:
                self.closed.append(*row_behind)
                self._fail(stream, row_behind)
        return events

    def _read(self, stream: SideStream, data: bytes, opened: list[tuple[int, int, int]]) -> list[Event]:
        """Read what is inside of boxes that are open now: rows go to the assembly, events are given."""
        reader = self._reader(stream)
        reader.read_messages(data, stream.kept_base, opened)
        columns, events = reader.take()
        if columns.offsets:
            if self.closed.offsets or stream.assembly.open_frames:
                self._end_message_in_clear(stream, columns.offsets[0], columns.bodies[0] + columns.sizes[0])
            self.assembly.take(columns, self._context(stream, reader))
        return events

    def _end_message_in_clear(self, stream: SideStream, start: int, stop: int) -> None:
        """A message that is under way in clear does not go on behind the frame `start..stop`, which was in a box."""
        assembly = stream.assembly
        assembly.take(self._take_closed(), stream.context(stream.reading))
        if assembly.open_frames:
            assembly.give_up(stream.context(stream.reading), stream.ordinal_of(start, stop))
            assembly.uncertain_start = True

    def _fail(self, stream: SideStream, row: Row) -> None:
        """A frame stays as it was: a message that is under way inside boxes does not go on behind it."""
        offset, body, size, flags = row
        if not flags & ENCRYPTED:
            if self.reader is not None and self.assembly.open_frames:
                self.reader.message_open = False
                read = stream.ordinal_of(offset, body + min(size, MESSAGE_HEAD))
                self.assembly.give_up(self._context(stream, self.reader), read)
                self.assembly.uncertain_start = True
            return
        too_large = size > self._limit(stream)
        arrival = stream.arrival(offset, body + MESSAGE_HEAD if too_large else body + size)
        stream.note_closed(offset, arrival.ordinal)
        if self.session.key is None:
            stream.give(self.session.notes(arrival))
        elif size >= SMALLEST_MESSAGE:
            let_go = too_large or body < stream.kept_base
            finding = Finding("CURVE-25" if let_go else "CURVE-20", offset, body + size - offset)
            self._notes.append(Note(stream.side, finding, arrival, arrival.ordinal))
        self.lose(stream, arrival.ordinal)

    def let_go(self, stream: SideStream, ordinal: int) -> FrameColumns:
        """Octets were lost, as told by the segment `ordinal`, or no more will come.

        Gives the frame that waited: it will never be whole.
        """
        self.lose(stream, ordinal)
        if self.waiting is None:
            return NO_FRAMES
        frames = FrameColumns()
        frames.append(*self.waiting)
        self.waiting = None
        return frames

    def lose(self, stream: SideStream, ordinal: int) -> None:
        """What was inside of boxes has a gap."""
        if self.reader is not None:
            self.reader.lose()
            if self.assembly.open_frames:
                self.assembly.give_up(self._context(stream, self.reader), ordinal)
        self.assembly.uncertain_start = True

    @staticmethod
    def _note_closed(stream: SideStream, rows: list[Row]) -> None:
        """The MESSAGEs among these frames stay closed."""
        for offset, body, size, flags in rows:
            if flags & ENCRYPTED:
                stream.note_closed(offset, stream.arrival(offset, body + min(size, MESSAGE_HEAD)).ordinal)
                return

    def give_way(self, stream: SideStream, data: bytes) -> None:
        """All sides hold too much: tell a message of several frames as far as it came; `data` is what is held."""
        if self.reader is not None and self.assembly.open_frames > 1:
            context = replace(stream.context(data), regimes=self.reader.regimes, doubtful=None)
            self.assembly.give_up(context, stream.settled)
            self.assembly.damage(Kept(b"", stream.end, None), 0)

    def _reader(self, stream: SideStream) -> OpenedReader:
        if self.reader is None:
            assert stream.reader is not None
            self.reader = OpenedReader(stream.reader.regime.framing, stream.agreed)
            if self.assembly.uncertain_start or stream.reader.role is None:
                self.reader.lose()  # there may have been MESSAGEs in front
        return self.reader

    def _context(self, stream: SideStream, reader: OpenedReader) -> Context:
        # what opened is what the peer sealed, however the frame was found
        return replace(stream.context(stream.reading), regimes=reader.regimes, doubtful=None, confidence="proven")


def _offset_of(row: Row) -> int:
    return row[0]


def _start_of(event: Event) -> int:
    return event.start
