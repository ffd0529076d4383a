"""Parse the greetings, commands and frames of a side, and join frames to messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.leftovers import (
    AT_THE_END,
    AT_THE_END_OF_THE_CAPTURE,
    BEFORE_A_GAP,
    NO_VERSION,
    NOT_READ_ON,
    UNFINISHED,
    Leftover,
)
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import Arrivals, BlockView
from zmtpscope.dissect.stream.boxes import Sealed
from zmtpscope.dissect.stream.held_octets import HeldOctets
from zmtpscope.dissect.stream.messages import Messages
from zmtpscope.dissect.stream.opened_messages import OpenedMessages
from zmtpscope.dissect.stream.outputs import Outputs
from zmtpscope.dissect.stream.plain_state import PlainState
from zmtpscope.dissect.stream.read_units import ReadUnits
from zmtpscope.dissect.stream.runs import Context
from zmtpscope.dissect.tcp.connection import TcpState
from zmtpscope.dissect.tcp.out_of_order import Hole
from zmtpscope.zmtp.content import seals
from zmtpscope.zmtp.events import NO_FRAMES, Event, FrameColumns
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.memberships import Memberships
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.side import SideReader
from zmtpscope.zmtp.upgrade import VERSION as VERSION_ZWS
from zmtpscope.zmtp.websocket import Unmasking


class Stopped(NamedTuple):
    """Why parsing stopped at stream offset `offset`; `rest` are the octets from there on.

    `inside` of these octets belong to greetings, commands or frames. `is_lost`: a frame boundary may be found after
    `offset`.
    """

    offset: int
    rest: bytes
    reason: str
    inside: int = 0
    is_lost: bool = False


class Reading:
    """Parses the octets of a side with `reader`.

    `version` is the negotiated one; `confidence` says how certain it is that the side speaks ZMTP.
    """

    def __init__(
        self,
        reader: SideReader,
        arrivals: Arrivals,
        held_octets: HeldOctets,
        units: ReadUnits,
        messages: Messages,
        outputs: Outputs,
        version: str | None,
        confidence: str,
    ) -> None:
        self.reader = reader
        self.arrivals = arrivals
        self.held_octets = held_octets
        self.units = units
        self.messages = messages
        self.outputs = outputs
        self.version = version
        self.confidence = confidence
        self.unmasking = Unmasking() if reader.regime.framing is Framing.ZWS else None
        """Unmasking for ZWS."""
        self._repeats: dict[str, int] = {}
        """Findings that the reader only counts: number already emitted."""

    def agree(self, version: str | None) -> None:
        self.version = version

    @property
    def doubtful_from(self) -> int | None:
        return self.reader.unreliable_from if self.confidence == "proven" else 0

    @property
    def has_no_passwords(self) -> bool:
        """Whether octets may be shown.

        They may if secrets are requested, the mechanism is not PLAIN, or the version has no mechanisms.
        """
        mechanism = self.reader.mechanism
        return self.units.shows_secrets or mechanism not in (None, "PLAIN") or self.version in ("1.0", "2.0")

    # -- octets in ---------------------------------------------------------------------------------------------------

    def feed_rows(self, block: BlockView, rows: list[int]) -> Stopped | None:
        """Parse the segments `rows` of a block, up to the end of the stream so far.

        Returns why parsing stopped, if it did.
        """
        if self.unmasking is None and self.reader.position >= self.arrivals.end:
            return self._pass_body(block.octets(rows))
        return self.feed(block.octets(rows))

    def feed(self, octets: bytes) -> Stopped | None:
        """Parse the octets at the end of the stream so far. Returns why parsing stopped, if it did."""
        return self._read(octets if self.unmasking is None else self.unmasking.feed(octets))

    def _pass_body(self, octets: bytes) -> Stopped | None:
        """Skip octets that all belong to the body of the current frame."""
        held, end = self.held_octets, self.arrivals.end
        if self.units.incomplete:
            self.units.show(octets)
        held.begin_at(end - len(octets))
        self.messages.let_go(lambda: b"".join([*held.parts, octets]))
        first = self.messages.first_held(self.reader.position)
        if first == end:
            self._hold([])
        elif first == held.base:
            held.append(octets)
        else:
            self._hold([b"".join([*held.parts, octets])[first - held.base :]], first)
        self._trim_arrivals(end)
        return self._read_end_of_body()

    def _read_end_of_body(self) -> Stopped | None:
        """Emit the frame that ends with the octets so far, if any."""
        reader, end = self.reader, self.arrivals.end
        if reader.position != end:
            return None
        if self.held_octets.parts or self.units.incomplete or reader.opaque or self.messages.opened is not None:
            return self._read(b"")
        # nothing to parse, and the message is over or not kept
        self.messages.in_clear.feed(NO_FRAMES, self._context(b"", end))
        self.arrivals.trim(end)
        self._hold([], end)
        return None

    def _read(self, octets: bytes) -> Stopped | None:
        reader, held, end = self.reader, self.held_octets, self.arrivals.end
        data = held.begin(octets, end)
        if self.units.incomplete:
            self.units.show(octets)
            self.units.release(self.doubtful_from)
        held.limit(self._memberships())
        reader.read(data, held.base)
        self._give()
        data = held.end()
        if reader.broken is not None or (reader.opaque and reader.position <= end):
            return self._stop(data)
        self._keep_what_is_open(data)
        return None

    def _keep_what_is_open(self, data: bytes) -> None:
        """Keep only the unread octets and the incomplete message."""
        held, position, end = self.held_octets, self.reader.position, self.arrivals.end
        self.messages.let_go(lambda: data)
        self._trim_arrivals(position if position < end else end)
        first = self.messages.first_held(position)
        rest = data[first - held.base :]
        self._hold([rest] if rest else [], first)
        if held.budget.is_exceeded:
            self.messages.give_way(self._context(held.joined()))
            self._hold(held.parts)

    # -- the fast path -------------------------------------------------------------------------------------------------

    def is_plain(self) -> bool:
        """Whether the fast path can continue: only plain message frames follow, and the incomplete message is
        undamaged."""
        messages, reader = self.messages, self.reader
        assembly = messages.in_clear
        if not reader.is_plain or self.units.incomplete or messages.opened is not None or messages.holes:
            return False
        if assembly.damaged or assembly.uncertain_start:
            return False
        begin = assembly.open_offset
        if begin is None:
            return reader.position <= self.arrivals.end
        return begin >= reader.regimes[-1][0] and (assembly.head is None or not messages.are_wanted())

    @property
    def version_of_records(self) -> str | None:
        return version_of_records(self.version, self.reader.mechanism)

    def leave(self, tcp: TcpState) -> PlainState:
        arrivals, assembly, held = self.arrivals, self.messages.in_clear, self.held_octets.joined()
        frames, assembly.carried = assembly.carried, NO_FRAMES
        self.held_octets.hold_nothing()
        return PlainState(
            tcp,
            self.reader.position,
            held,
            frames,
            (assembly.message_start, assembly.frame_start, assembly.frame_end),
            arrivals.begin,
            arrivals.rows(),
            payloads=assembly.payloads,
        )

    def resume(self, state: PlainState) -> None:
        self.arrivals.resume(state)
        self.messages.in_clear.resume(state)
        flags = state.frames.flags
        self.reader.resume(state.position, message_open=bool(flags and flags[-1] & MORE))
        self.held_octets.begin_at(self.arrivals.end - len(state.held))
        self._keep_what_is_open(state.held)

    def _stop(self, data: bytes) -> Stopped:
        """Stop parsing, because the reader cannot continue."""
        reader, arrivals = self.reader, self.arrivals
        self._hold([data])
        if reader.broken is not None:
            rest = data[max(0, reader.broken - self.held_octets.base) :]
            self._give_up_message(arrivals.ordinal_of(reader.broken - 1, reader.broken))
            return Stopped(reader.broken, rest, NOT_READ_ON, is_lost=self.unmasking is None)
        given_up = reader.gave_up_at
        self._give_up_message(arrivals.settled if given_up is None else arrivals.ordinal_of(given_up - 1, given_up))
        reason = NO_VERSION if reader.regime.version is None else NOT_READ_ON
        rest = data[max(0, reader.position - self.held_octets.base) :]
        return Stopped(reader.position, rest, reason, reader.inside)

    def resynchronise(self, offset: int) -> None:
        """Continue at the frame boundary `offset` after a loss."""
        self.confidence = "likely"
        self.reader.resynchronise(offset)

    # -- outputs -------------------------------------------------------------------------------------------------------

    def _give(self) -> None:
        """Emit all results of the reader."""
        reader, opened, in_clear = self.reader, self.messages.opened, self.messages.in_clear
        if reader.moves:
            self._move(reader.drain_moves())
        notes: Sequence[Note] = ()
        columns, events = reader.drain()
        self.messages.socket_type = self.socket_type
        if opened is not None and reader.mechanism == "CURVE":
            columns, events, notes = self._open_boxes(opened, columns, events)
        if events:
            self.units.feed(events, self.doubtful_from)
        if reader.skipped:
            self.units.skip(reader.drain_skipped(), may_be_shown=self.has_no_passwords)
        for note in notes:
            self.outputs.add(note)
        if columns.offsets or in_clear.carried.offsets:
            in_clear.feed(columns, self._context(self.held_octets.data))
        if reader.repeats:
            self.units.repeat(reader, self._repeats)
        if opened is not None and opened.decryption.reader is not None:
            self.units.repeat(opened.decryption.reader, opened.repeats)

    def _open_boxes(
        self, opened: OpenedMessages, columns: FrameColumns, events: list[Event]
    ) -> tuple[FrameColumns, list[Event], list[Note]]:
        """Decrypt boxes; return the frames that stay as they are, all events, and findings to add after the events."""
        held = self.held_octets
        sealed = Sealed(columns, events, held.data, held.base, self.arrivals, self.reader, self.version)
        made = opened.decryption.open(sealed)
        held.change(made.data)
        self.messages.socket_type = self.socket_type
        if made.steps:
            opened.assemble(made.steps, self.messages.in_clear, self._context(made.data), self.arrivals)
        for offset, ordinal in made.closed:
            self.messages.lose(offset)
            opened.stay_closed(ordinal)
        return made.columns, made.events, made.notes

    def _move(self, moves: list[tuple[int, bytes]]) -> None:
        """Rearrange the octets of messages of several WebSocket frames, headers first.

        `moves` are (stream offset, rearranged octets).
        """
        octets = bytearray(self.held_octets.data)
        for offset, moved in moves:
            start = offset - self.held_octets.base
            octets[start : start + len(moved)] = moved
        self.held_octets.change(bytes(octets))

    def _context(self, data: bytes, base: int | None = None) -> Context:
        """Return the properties from which tables of messages are made now.

        `data` starts at stream offset `base`, by default at the first kept octet.
        """
        reader, messages, arrivals, options = self.reader, self.messages, self.arrivals, self.messages.options
        return Context(
            data=data,
            base=self.held_octets.base if base is None else base,
            end=arrivals.end,
            arrivals=arrivals,
            regimes=reader.regimes,
            version=self.version_of_records,
            confidence=self.confidence,
            doubtful=reader.unreliable_from,
            settled=arrivals.settled,
            pieces=arrivals.pieces() if options.details else None,
            seals=seals(reader.regime),
            messages=messages.are_wanted(),
            frames=options.frames,
            limit=messages.limit,
        )

    # -- facts about the side ------------------------------------------------------------------------------------------

    @property
    def socket_type(self) -> str | None:
        """The socket type that the side announced, unencrypted or in a decrypted box."""
        inside = None if self.messages.opened is None else self.messages.opened.decryption.reader
        in_clear = self.reader.socket_type
        return inside.socket_type if inside is not None and in_clear is None else in_clear

    @property
    def identity(self) -> str | None:
        """The identity that the side announced, unencrypted or in a decrypted box."""
        inside = None if self.messages.opened is None else self.messages.opened.decryption.reader
        in_clear = self.reader.identity
        return inside.identity if inside is not None and in_clear is None else in_clear

    # -- held octets ---------------------------------------------------------------------------------------------------

    def _hold(self, parts: list[bytes], base: int | None = None) -> None:
        held, memberships = self.held_octets, self._memberships()
        size = memberships[0].size if len(memberships) == 1 else sum([each.size for each in memberships])
        held.hold(parts, held.base if base is None else base, self.messages.held_elsewhere, size)

    def _trim_arrivals(self, offset: int) -> None:
        """Forget the arrivals of octets before `offset`.

        Arrivals of a MESSAGE that waits are kept, and those of an incomplete message if details are requested.
        """
        if self.units.incomplete:
            self.units.remember_arrivals()
        if self.messages.options.details and (begin := self.messages.kept_from) is not None:
            offset = min(offset, begin)
        if (waits_from := self.messages.waits_from) is not None:
            offset = min(offset, waits_from)
        self.arrivals.trim(offset)

    def _memberships(self) -> list[Memberships]:
        inside = None if self.messages.opened is None else self.messages.opened.decryption.reader
        return [self.reader.memberships] if inside is None else [self.reader.memberships, inside.memberships]

    # -- losses and the end ------------------------------------------------------------------------------------------

    def is_in_body(self, stop: int) -> bool:
        """Whether all octets up to `stop` belong to the body of the current frame."""
        position = self.reader.position
        return position > self.arrivals.end and position >= stop

    def lose_body(self, hole: Hole, decided: Arrival) -> Stopped | None:
        """Process a hole within the body of the current frame, and continue after it.

        `decided` is the segment that showed the hole.
        """
        held, messages, start = self.held_octets, self.messages, self.arrivals.end
        self.arrivals.lose(hole.octets, decided)
        if self.unmasking is not None:
            self.unmasking.skip(hole.octets)
        if messages.waits_from is not None:
            messages.give_up_boxes(self._context(held.joined()), decided.ordinal)
        messages.in_clear.damage(messages.kept(held.joined()), messages.limit)
        if not self.units.lose(start, hole.octets):
            messages.in_clear.count_lost(hole.octets)
        self._hold([])
        self.outputs.give_gap(start, hole, decided, self.reader.position)
        return self._read_end_of_body()

    def lose(self, decided: Arrival) -> None:
        """Give up the current command or frame after a loss outside of bodies.

        `decided` is the segment that showed the loss.
        """
        self.arrivals.settle(decided.ordinal)
        self._give_up_unit(BEFORE_A_GAP, decided.ordinal)

    def finish(self, ordinal: int, ended: bool, *, is_whole: bool) -> None:
        """Process the end of the stream; `ordinal` is the segment that shows it.

        `ended`: the side closed, not just the capture. `is_whole`: no octet was lost.
        """
        self.arrivals.settle(max(self.arrivals.settled, ordinal))
        if ended and is_whole:
            self.reader.finish(self.arrivals.end)
            if self.reader.events:
                self.held_octets.change(self.held_octets.joined())
                self._give()
                self.held_octets.end()
        self._give_up_unit(AT_THE_END if ended else AT_THE_END_OF_THE_CAPTURE, ordinal)

    def _give_up_unit(self, reason: str, ordinal: int) -> None:
        start, end = self.reader.position, self.arrivals.end
        first = self.arrivals.at(start) if start < end else None
        self._give_up_message(ordinal)
        if first is not None:
            decided = first._replace(ordinal=self.arrivals.settled)
            self.outputs.leave(Leftover(start, end, end - start - self.reader.inside, UNFINISHED, reason, decided))

    def _give_up_message(self, ordinal: int) -> None:
        messages = self.messages
        if self.units.incomplete:
            self.units.release(self.doubtful_from, over=True)
        if messages.in_clear.open_frames or messages.opened is not None:
            messages.give_up(self._context(self.held_octets.joined()), ordinal)
        messages.in_clear.forget_damage()
        self._hold([])


def version_of_records(agreed: str | None, mechanism: str | None) -> str | None:
    """Return the version for records: ZWS counts as 3.1 with a mechanism, as 2.0 without."""
    if agreed != VERSION_ZWS:
        return agreed
    return "2.0" if mechanism is None else "3.1"
