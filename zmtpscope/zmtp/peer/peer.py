"""A ZMTP peer without I/O: takes received octets and the time, returns events and octets to send.

It parses, negotiates and builds with the code that reads captured traffic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from zmtpscope.records import from_text, to_text
from zmtpscope.zmtp import memberships
from zmtpscope.zmtp.commands import LARGEST_AWAITED_COMMAND, build_command
from zmtpscope.zmtp.content import LARGEST_AWAITED_TOPIC, build_subscription
from zmtpscope.zmtp.events import ENCRYPTED, SPECIAL, SUBSCRIBE, Command, Event, Fields, Greeting
from zmtpscope.zmtp.framing import MORE, build_frame
from zmtpscope.zmtp.mechanisms import curve
from zmtpscope.zmtp.peer.errors import (
    ClosedHalfWay,
    Mismatch,
    PeerError,
    TooSlow,
    UnfitSocketType,
    Violation,
    check,
    why_greeting_ended,
    why_handshake_ended,
)
from zmtpscope.zmtp.peer.events import Membership, Message, PeerEvent, Pong, Ready, Subscription
from zmtpscope.zmtp.peer.greeting import GreetingSender
from zmtpscope.zmtp.peer.handshakes import CurvePart, Part, part_for, unfit
from zmtpscope.zmtp.peer.heartbeats import Heartbeats
from zmtpscope.zmtp.peer.patterns import PATTERNS, MessageLayout, check_member, check_subscriber, incoming, outgoing
from zmtpscope.zmtp.peer.settings import PART_COST, Heartbeat, Settings
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.side import SideReader
from zmtpscope.zmtp.socket_types import DRAFT, PUBLISHERS, may_meet
from zmtpscope.zmtp.traffic import LARGEST_CONTEXT
from zmtpscope.zmtp.units import UnitReader

Row = tuple[int, int, int, int]
"""Stream offsets of the frame and of its body, body size, and flags."""

SMALL = 1 << 14
"""Octets of a chunk below which it is joined with another: small ones have too much memory overhead."""


class Peer:
    """A ZMTP peer of one socket type, for one connection. Times are seconds of any monotonic clock.

    Call `receive` with received octets, `end` when the other side closes, and `tick` at `deadline`. After each call,
    send `outgoing` and process `events`. The calls raise `PeerError` if the connection cannot continue; `outgoing` and
    `events` then still return a last ERROR, and the events before it.

    Time and memory are bounded: at most one handshake command or message is buffered. With `waits`, the peer sends only
    version and mechanism until `introduce`, and accepts any socket type until then.
    """

    version: str | None = None
    greeting: Fields | None = None
    ready = False
    answered = 0
    """Octets of the PONGs sent: the other side can cause any number of them without reading them."""

    def __init__(self, settings: Settings, now: float, *, waits: bool = False) -> None:
        self._waits = waits
        self._greeting = GreetingSender(settings, waits)
        self._reader: SideReader | None = None
        self._part: Part | None = None
        self._framing = Framing.V2
        self._events: list[PeerEvent] = []
        self._out: list[bytes] = [self._greeting.begin()]

        self._chunks: list[bytes] = []
        self._base = 0
        """Stream offset of the first octet kept."""
        self._stop = 0
        """Stream offset after all octets received."""
        self._wanted = 0
        """Stream offset before which nothing can be read."""
        self._held: Row | None = None
        """The last frame, if its body is incomplete."""
        self._parts: list[bytes] = []
        self._size = 0

        self._be(settings)

        self._started = now
        self._heartbeats = Heartbeats(now)

    def _be(self, settings: Settings) -> None:
        pattern = PATTERNS[settings.socket_type]
        self.settings = settings
        self._takes_as_is = pattern.layout is MessageLayout.PLAIN and pattern.receives
        self._publishes = settings.socket_type in PUBLISHERS
        self._has_groups = settings.socket_type == "RADIO"

    # -- results and state --------------------------------------------------------------------------------------------

    def outgoing(self) -> bytes:
        octets = b"".join(self._out)
        self._out.clear()
        return octets

    def events(self) -> list[PeerEvent]:
        events, self._events = self._events, []
        return events

    @property
    def facts(self) -> Fields:
        """The other side's metadata, or the fields of its 2.0 greeting."""
        return self._part.facts if self._part is not None else self.greeting or {}

    @property
    def missing_octets(self) -> int:
        """How many more octets must be received before any can be parsed."""
        return max(0, self._wanted - self._stop)

    @property
    def key_line(self) -> tuple[str, ...]:
        """The line of a key log that decrypts this connection (curve.md 6); empty without CURVE."""
        return self._part.key_line if isinstance(self._part, CurvePart) else ()

    @property
    def held(self) -> int:
        names = 0 if self._reader is None else self._content_reader.memberships.size
        return self._stop - self._base + self._size + names

    # -- octets and time ----------------------------------------------------------------------------------------------

    def receive(self, octets: bytes, now: float) -> None:
        self._heartbeats.note_received(now)
        self._chunks.append(octets)
        self._stop += len(octets)
        if self._stop < self._wanted:
            self._join_small()
            return
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        if self._reader is None and not self._settle(data):
            self._chunks = [data]
            self._wanted = self._greeting.wanted
            return
        self._read(data)

    def end(self) -> None:
        """Process a close by the other side. Raises `PeerError` if the handshake or a message is incomplete."""
        cut = self._reader is not None and (self._held is not None or self._reader.position < self._stop)
        if self.ready:
            if cut or self._parts:
                raise ClosedHalfWay("the other side closed inside a message")
            return
        part = self._part
        if part is None:
            raise why_greeting_ended(self.settings, self.version, self._stop)
        raise why_handshake_ended(self.settings, part.awaited, part.last_sent, cut=cut)

    def let_go(self) -> None:
        """Free the octets of an incomplete message after the connection has ended."""
        self._chunks, self._parts, self._held = [], [], None
        self._base, self._size = self._stop, 0

    @property
    def deadline(self) -> float | None:
        """When to call `tick` next; None: wait for octets."""
        if not self.ready:
            return self._started + self.settings.limits.handshake
        return self._heartbeats.deadline(self._our_heartbeat)

    def tick(self, now: float) -> None:
        """Send a PING if one is due, or raise `TooSlow` if the other side is silent.

        Before `deadline` nothing is done.
        """
        if not self.ready:
            limit = self.settings.limits.handshake
            if now >= self._started + limit:
                raise TooSlow(f"{self._missing()} within {limit:g} s{self._suspicion()}")
            return
        if self._heartbeats.is_ping_due(self._our_heartbeat, now):
            self.ping(now)

    def introduce(self, socket_type: str) -> None:
        """Complete a handshake that `waits`, as a socket of this type.

        Raises `PeerError` if the other side's socket type does not fit.
        """
        oldest = self.version or self.settings.oldest
        if socket_type in DRAFT and oldest is not None and oldest < "3.0":
            if self.version is not None:
                raise UnfitSocketType(f"the other side speaks ZMTP {self.version}, which has no {socket_type} sockets")
            oldest = "3.0"
        self._waits = False
        self._be(replace(self.settings, socket_type=socket_type, oldest=oldest))
        self._greeting.introduce(self.settings)
        part = self._part
        if part is not None:
            self._out += part.introduce(self.settings)
            if part.done:
                self._begin_traffic()
        elif self._reader is None and self._settle(data := b"".join(self._chunks)):
            self._read(data)

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, parts: Sequence[bytes], envelope: Sequence[bytes] = ()) -> bool:
        """Send a message. A REP puts the `envelope` of the request before it.

        Returns False if the other side has not subscribed to the message. Raises `ValueError` if the socket type cannot
        send it.
        """
        frames = outgoing(self.settings.socket_type, [*parts], [*envelope])
        self._must_be_ready()
        if not self.wants(frames[0]):
            return False
        last = frames.pop()
        if self._is_sealed:
            for frame in frames:
                self._seal(curve.MORE, frame)
            self._seal(0, last)
        else:
            for frame in frames:
                self._out.append(build_frame(self._framing, frame, more=True))
            self._out.append(build_frame(self._framing, last))
        return True

    def subscribe(self, topic: bytes) -> None:
        """Subscribe to `topic`: by a SUBSCRIBE command on 3.1, otherwise by a subscription message (wire.md 10.2)."""
        self._subscribe("SUBSCRIBE", topic)

    def cancel(self, topic: bytes) -> None:
        self._subscribe("CANCEL", topic)

    def join(self, group: str) -> None:
        self._member("JOIN", group)

    def leave(self, group: str) -> None:
        self._member("LEAVE", group)

    def ping(self, now: float, context: bytes = b"") -> None:
        """Send a PING with the TTL of our heartbeat. Raises `ValueError` below 3.0, which has no PING."""
        self._must_be_ready()
        if self.version is None or self.version < "3.0":
            raise ValueError(f"ZMTP {self.version} has no PING")
        ttl = 0.0 if self.settings.heartbeat is None else self.settings.heartbeat.ttl
        self._command("PING", {"ttl_ms": round(ttl * 1000), "context": context[:LARGEST_CONTEXT]})
        self._heartbeats.ping(now)

    # -- greeting and handshake ---------------------------------------------------------------------------------------

    def _settle(self, received: bytes) -> bool:
        self._out.append(self._greeting.answer(received))
        decision = self._greeting.decision
        if decision is None or decision.version is None:
            return False
        self.version = decision.version
        self._framing = Framing.V1 if decision.version == "1.0" else Framing.V2
        self._reader = SideReader(decision.forms[1], decision.version)
        return True

    def _greeted(self, event: Greeting) -> None:
        self.greeting = event.fields
        assert self.version is not None
        if self.version < "3.0":
            check(event.findings)
            theirs = event.fields.get("socket_type")
            if theirs is not None and not may_meet(self.settings.socket_type, theirs):
                raise UnfitSocketType(unfit(self.settings.socket_type, theirs))
            self._begin_traffic()
            return
        ours, theirs = self.settings.security.mechanism, event.fields.get("mechanism")
        if theirs != ours:
            raise Mismatch(f"the other side uses mechanism {theirs}, and this side {ours}")
        check(event.findings)
        self._part = part_for(self.settings, self.version)
        self._part.waits = self._waits
        if not self._waits:
            self._out += self._part.begin()

    def _begin_traffic(self) -> None:
        facts = self.facts
        self.ready = True
        self._heartbeats.begin()
        metadata = tuple((each["name"], each["value"]) for each in facts.get("metadata", ()))
        mechanism = None if self._part is None else self._part.mechanism.name
        assert self.version is not None
        self._events.append(Ready(self.version, mechanism, facts.get("socket_type"), facts.get("identity"), metadata))

    def _missing(self) -> str:
        if self._part is not None:
            return f"the other side did not send its {self._part.awaited}"
        return f"the other side sent {'only part of its greeting' if self._stop else 'no data'}"

    def _suspicion(self) -> str:
        """Return a possible reason why the other side does not send its next handshake command, or ""."""
        waits = self._part is not None and self._part.role == "server" and self._part.awaited == "HELLO"
        return ": it may be a server, like this side" if waits else ""

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        reader = self._reader
        assert reader is not None
        reader.read(data, self._base)
        frames, events = reader.drain()
        rows = frames.rows()
        if self._held is not None:
            rows.insert(0, self._held)
            self._held = None
        self._walk(data, self._base, rows, events)
        keep = reader.position if self._held is None else self._held[0]
        self._chunks = [data[keep - self._base :]]
        self._base = keep
        self._wanted = reader.wanted if self._held is None else self._held[1] + self._held[2]

    def _join_small(self) -> None:
        """Join the last two chunks of received octets if both are small."""
        if len(self._chunks) > 1 and len(self._chunks[-1]) < SMALL and len(self._chunks[-2]) < SMALL:
            self._chunks[-2:] = [self._chunks[-2] + self._chunks[-1]]

    def _walk(self, data: bytes | bytearray, base: int, rows: list[Row], events: list[Event]) -> None:
        done = 0
        for event in events:
            in_front = bisect_left(rows, (event.start,), done)
            self._handle_frames(data, base, rows[done:in_front])
            done = in_front
            self._handle_event(event, data, base)
        self._handle_frames(data, base, rows[done:] if done else rows)

    def _handle_event(self, event: Event, data: bytes | bytearray, base: int) -> None:
        if isinstance(event, Greeting):
            self._greeted(event)
        elif not isinstance(event, Command):
            check(event.findings)
        elif event.stop - event.start > LARGEST_AWAITED_COMMAND:
            raise Violation(f"a command of {event.fields['size']} octets is larger than the limit")
        elif self.ready or (self._part is not None and self._part.has_received_all):
            if event.fields.get("name") != "ERROR" or self._is_sealed:  # an unencrypted ERROR could be from anyone
                check(event.findings)
            self._handle_command(event.fields)
        else:
            self._handle_step(event, bytes(data[event.start - base : event.stop - base]))

    def _handle_step(self, event: Command, octets: bytes) -> None:
        part = self._part
        assert part is not None
        if event.fields.get("name") != "ERROR":
            check(event.findings)
        try:
            self._out += part.answer(event, octets)
        except PeerError:
            self._out.append(part.last_word)
            raise
        if part.done:
            self._begin_traffic()

    def _handle_command(self, fields: Fields) -> None:
        """Process a traffic command; ignore any other."""
        name = fields.get("name")
        if name == "PING":
            self._heartbeats.promise(fields["ttl_ms"] / 1000)
            if self.ready:  # our READY must be sent first
                self._command("PONG", {"context": fields["context"][:LARGEST_CONTEXT]})
                self.answered += len(self._out[-1])
        elif name == "PONG":
            self._events.append(Pong(fields["context"]))
        elif name in ("SUBSCRIBE", "CANCEL"):
            self._subscribed(from_text(fields["topic"]), name == "SUBSCRIBE")
        elif name in ("JOIN", "LEAVE"):
            self._remember("group", from_text(fields["group"]))
            self._events.append(Membership(fields["group"], name == "JOIN"))
        elif name == "ERROR":
            assert self._part is not None
            raise self._part.refused(str(fields.get("reason") or ""))

    def _handle_frames(self, data: bytes | bytearray, base: int, rows: list[Row]) -> None:
        """Process message frames, of which the last may be incomplete.

        `rows` are their (offset, body offset, size, flags); `data[0]` has the stream offset `base`.
        """
        stop, limit = base + len(data), self.settings.limits.message
        sealed: list[Row] = []
        for row in rows:
            _, body, size, flags = row
            self._size += size + PART_COST
            if self._size > limit:
                raise Violation(f"a message is larger than the limit of {limit} octets")
            if body + size > stop:
                self._held = row
                self._size -= size + PART_COST
                break
            if flags & SPECIAL:
                if flags & ENCRYPTED:
                    sealed.append(row)
                    self._size -= size + PART_COST
                else:
                    self._size = 0
                    self._subscribed(bytes(data[body + 1 - base : body + size - base]), bool(flags & SUBSCRIBE))
                continue
            part = bytes(data[body - base : body + size - base])
            if flags & MORE:
                self._parts.append(part)
                continue
            self._size = 0
            if self._parts:
                frames, self._parts = [*self._parts, part], []
            else:
                frames = [part]
            self._events.append(Message(frames) if self._takes_as_is else incoming(self.settings.socket_type, frames))
        if sealed:
            self._open(data, base, sealed)

    def _open(self, data: bytes | bytearray, base: int, rows: list[Row]) -> None:
        part = self._part
        assert part is not None
        assert part.content is not None
        opened = bytearray(data)
        for _, body, size, _ in rows:
            content = part.open(bytes(data[body - base : body + size - base]))
            if content is None:
                raise Violation("a MESSAGE does not decrypt: it was modified, or encrypted with another key")
            opened[body + curve.CONTENT_OF_MESSAGE - base : body + size - base] = content
        part.content.read_messages(opened, base, [row[:3] for row in rows])
        frames, events = part.content.drain()
        self._walk(opened, base, frames.rows(), events)

    def _subscribed(self, topic: bytes, begins: bool) -> None:
        self._remember("topic", topic)
        self._events.append(Subscription(topic, begins))

    def _remember(self, what: str, name: bytes) -> None:
        if len(name) > LARGEST_AWAITED_TOPIC:
            raise Violation(f"the other side subscribed to a {what} of more than {LARGEST_AWAITED_TOPIC >> 10} KiB")
        if not self._content_reader.memberships.complete:
            limit = f"they need more than {memberships.LARGEST_MEMORY >> 20} MiB"
            raise Violation(f"the other side subscribed to more {what}s than the limit: {limit}")

    # -- writing ------------------------------------------------------------------------------------------------------

    @property
    def _is_sealed(self) -> bool:
        return self._part is not None and self._part.content is not None

    @property
    def _content_reader(self) -> UnitReader:
        reader = self._part.content if self._part is not None and self._part.content is not None else self._reader
        assert reader is not None
        return reader

    @property
    def _our_heartbeat(self) -> Heartbeat | None:
        """Return the heartbeat to announce and send; None if the other side does not support heartbeats (D11)."""
        return self.settings.heartbeat if self.version == "3.1" else None

    def _must_be_ready(self) -> None:
        if not self.ready:
            raise ValueError("cannot send before the handshake is complete")

    def wants(self, first: bytes) -> bool:
        """Whether the other side has subscribed to messages with this first frame.

        True if the sender does not filter: other socket types, and 1.0.
        """
        if self._publishes and self.version != "1.0":
            return self._content_reader.memberships.has_topic_of(first)
        return not self._has_groups or self._content_reader.memberships.has_group(first)

    def _subscribe(self, name: str, topic: bytes) -> None:
        check_subscriber(self.settings.socket_type)
        self._must_be_ready()
        text = to_text(topic)
        if self.version == "3.1":
            self._command(name, {"topic": text})
            return
        body = build_subscription({"kind": name.lower(), "topic": text})
        if self._is_sealed:
            self._seal(0, body)
        else:
            self._out.append(build_frame(self._framing, body))

    def _member(self, name: str, group: str) -> None:
        check_member(self.settings.socket_type, from_text(group))
        self._must_be_ready()
        self._command(name, {"group": group})

    def _command(self, name: str, fields: Fields) -> None:
        assert self._part is not None
        body = build_command(self._part.mechanism.name, name, fields)
        if self._is_sealed:
            self._seal(curve.COMMAND, body)
        else:
            self._out.append(build_frame(self._framing, body, command=True))

    def _seal(self, flags: int, data: bytes) -> None:
        """Send a message part encrypted; `flags` are the inner ones.

        The MESSAGE is a message frame, because libzmq loses MESSAGEs in command frames (D2).
        """
        assert self._part is not None
        self._out.append(build_frame(self._framing, self._part.seal(flags, data)))
