"""Decrypt the boxes of one side of a CURVE connection.

The contents are parsed in turn, and their records have `source` 1 (`zmtpscope.zmtp.opened`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from operator import attrgetter, itemgetter

from zmtpscope.curve_crypto import open_box
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.boxes import Broken, Inside, Opened, Row, Sealed, Uncertain
from zmtpscope.dissect.stream.session import LAST_STEPS, TRIES, Session
from zmtpscope.zmtp import z85
from zmtpscope.zmtp.content import MESSAGE_HEAD
from zmtpscope.zmtp.events import ENCRYPTED, NO_FRAMES, Command, FrameColumns
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
from zmtpscope.zmtp.side import SideReader

NONCE_AT = NONCE_OF_MESSAGE.start

LARGEST_BOX = 16 << 20
"""Octets of a MESSAGE to wait for, even if the body limit is smaller."""

SENDERS = {name: CURVE.commands[name].sender for name in BOXES}
"""The role that sends each handshake step."""


class Decryption:
    """Decrypts boxes with the keys of `session`; MESSAGEs have at most `limit` octets.

    `opened` counts decrypted MESSAGEs; `waiting` is the incomplete MESSAGE, if any.
    """

    def __init__(self, session: Session, side: int, limit: int) -> None:
        self.session = session
        self.side = side
        self.limit = max(LARGEST_BOX, limit)
        self.reader: OpenedReader | None = None
        """Parser of decrypted contents."""
        self.waiting: Row | None = None
        self.opened = 0
        self.repeats: dict[str, int] = {}
        """Findings that the reader only counts: number already emitted."""
        self._is_from_the_start = True
        """Whether all boxes so far were opened, without losses."""
        self._steps: Counter[str] = Counter()
        """Attempts to open a box, by handshake step."""

    @property
    def waits_from(self) -> int | None:
        return None if self.waiting is None else self.waiting[0]

    def open(self, sealed: Sealed) -> Opened:
        """Decrypt the boxes of frames and events that one call of the reader returned."""
        rows = sealed.columns.rows() if self.waiting is None else [self.waiting, *sealed.columns.rows()]
        self.waiting = None
        made, done = Opened(sealed.data), 0
        for event in sealed.events:
            if isinstance(event, Command) and event.fields.get("name") in BOXES:
                in_front = bisect_left(rows, event.start, done, key=itemgetter(0))
                self._open_rows(sealed, made, rows[done:in_front])
                done = in_front
                event = self._open_step(sealed, made, event)
            made.events.append(event)
        self._open_rows(sealed, made, rows[done:])
        made.events.sort(key=attrgetter("start"))
        return made

    def lose(self) -> FrameColumns:
        """Forget the incomplete MESSAGE after a loss or at the end; return its frame, which stays encrypted."""
        self._break()
        frames, waiting, self.waiting = NO_FRAMES, self.waiting, None
        if waiting is not None:
            frames = FrameColumns()
            frames.append(*waiting)
        return frames

    def _break(self) -> None:
        self._is_from_the_start = False
        if self.reader is not None:
            self.reader.lose()

    # -- the handshake -----------------------------------------------------------------------------------------------

    def _open_step(self, sealed: Sealed, made: Opened, event: Command) -> Command:
        """Return a handshake command with its decrypted contents, or unchanged if its box cannot be decrypted."""
        name = str(event.fields.get("name"))
        start, stop = max(0, event.start - sealed.base), max(0, event.stop - sealed.base)
        octets = made.data[start:stop]
        header = event.stop - event.start - int(event.fields["size"])
        body = octets[header:]
        if not self._is_sealed(sealed.reader, event, body):
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
            place = start + header + BOXES[name].start + AUTHENTICATOR_SIZE
            made.data = b"".join((made.data[:place], content, made.data[place + len(content) :]))
            event = self._reader(sealed).read_handshake(event, made.data[start:stop])
            if self.session.server is not None and name == "HELLO":
                event.fields["server_longterm_key"] = z85.encode(self.session.server)
        if name == "INITIATE":
            event = self._evaluate_initiate(event, body, event.start + header, content)
        return event

    def _is_sealed(self, reader: SideReader, event: Command, body: bytes) -> bool:
        """Whether a command is a complete, valid step of a CURVE handshake, from the side that may send it."""
        name, fields = event.fields.get("name"), event.fields
        if event.regime.mechanism != "CURVE" or len(body) != fields["size"]:
            return False
        sender = SENDERS.get(str(name))
        if sender is None or sender != reader.role:
            return False
        self.session.assign(self.side, sender)
        return len(body) == WELCOME_SIZE if name == "WELCOME" else "nonce" in fields

    def _evaluate_initiate(self, event: Command, body: bytes, start: int, content: bytes | None) -> Command:
        findings = list(event.findings)
        if self.session.cookie is not None and body[COOKIE_AT] != self.session.cookie:
            findings.append(Finding("CURVE-14", start + COOKIE_AT.start, COOKIE_AT.stop - COOKIE_AT.start))
        if content is not None and self.session.vouch_is_wrong(content):
            vouch = BOXES["INITIATE"].start + AUTHENTICATOR_SIZE + KEY_SIZE
            findings.append(Finding("CURVE-13", start + vouch, SMALLEST_INITIATE - vouch))
        return event._replace(findings=tuple(findings))

    # -- MESSAGEs ----------------------------------------------------------------------------------------------------

    def _open_rows(self, sealed: Sealed, made: Opened, rows: list[Row]) -> None:
        """Decrypt MESSAGEs, given as rows of frames, and parse their contents. An incomplete last one waits."""
        if not rows:
            return
        session = self.session
        session.finish_handshake(self.side)
        if not session.may_open_messages_of(self.side):
            self._leave_closed(sealed, made, rows)
            return
        data, base = made.data, sealed.base
        prefix = session.prefix(self.side)
        sequence = list[tuple[int, int, int]]()
        sequences: list[tuple[list[tuple[int, int, int]], Row | None]] = []
        """Opened MESSAGEs in sequence, each list with the unopened frame after it."""
        parts: list[bytes] = []
        done = 0
        for row in rows:
            offset, body, size, flags = row
            start = body - base
            content = None
            if flags & ENCRYPTED and body + size > sealed.arrivals.end and size <= self.limit:
                self.waiting = row
                break
            if flags & ENCRYPTED and SMALLEST_MESSAGE <= size <= self.limit and 0 <= start <= len(data) - size:
                if session.key is None:
                    content = session.try_message(self.side, data[start : start + size])
                    prefix = session.prefix(self.side)
                else:  # opening takes microseconds per MESSAGE
                    nonce = prefix + data[start + NONCE_AT : start + BOX_OF_MESSAGE]
                    content = open_box(data[start + BOX_OF_MESSAGE : start + size], nonce, session.key)
            if content is not None:
                parts += data[done : start + CONTENT_OF_MESSAGE], content
                done = start + size
                sequence.append((offset, body, size))
            else:
                sequences.append((sequence, row))
                sequence = []
        sequences.append((sequence, None))
        if parts:
            data = made.data = b"".join((*parts, data[done:]))
        for opened, row_behind in sequences:
            if opened:
                self.opened += len(opened)
                reader = self._reader(sealed)
                reader.read_messages(data, base, opened)
                columns, events = reader.drain()
                made.events += events
                if columns.offsets:
                    in_front, made.columns = made.columns, FrameColumns()
                    made.steps.append(Inside(in_front, columns))
            if row_behind is not None:
                made.columns.append(*row_behind)
                self._fail(sealed, made, row_behind)

    def _leave_closed(self, sealed: Sealed, made: Opened, rows: list[Row]) -> None:
        """Add frames to those that stay encrypted for lack of a key."""
        for row in rows:
            made.columns.append(*row)
        first = next((row for row in rows if row[3] & ENCRYPTED), None)
        if first is not None:
            offset, body, size, _ = first
            made.closed.append((offset, sealed.arrivals.arrival(offset, body + min(size, MESSAGE_HEAD)).ordinal))
        self._reader(sealed).lose()
        self._is_from_the_start = False
        made.steps.append(Uncertain())

    def _fail(self, sealed: Sealed, made: Opened, row: Row) -> None:
        """Report a frame that was not decrypted.

        An unencrypted frame also ends an incomplete message in boxes.
        """
        offset, body, size, flags = row
        if not flags & ENCRYPTED:
            if self.reader is not None:
                self.reader.message_open = False
                read = sealed.arrivals.arrival(offset, body + min(size, MESSAGE_HEAD))
                made.steps.append(Broken(read.ordinal, is_between=True))
            return
        too_large = size > self.limit
        arrival = sealed.arrivals.arrival(offset, body + MESSAGE_HEAD if too_large else body + size)
        made.closed.append((offset, arrival.ordinal))
        if self.session.key is None:
            made.notes += self.session.notes(arrival)
        elif size >= SMALLEST_MESSAGE:
            let_go = too_large or body < sealed.base
            finding = Finding("CURVE-25" if let_go else "CURVE-20", offset, body + size - offset)
            made.notes.append(Note(self.side, finding, arrival, arrival.ordinal))
        self._break()
        made.steps.append(Broken(arrival.ordinal))

    def _reader(self, sealed: Sealed) -> OpenedReader:
        if self.reader is None:
            self.reader = OpenedReader(sealed.reader.regime.framing, sealed.version)
            if not self._is_from_the_start or sealed.reader.role is None:
                self.reader.lose()  # MESSAGEs may be among the lost octets
        return self.reader
