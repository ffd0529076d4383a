"""Messages with sequence numbers, by which subscribers detect losses.

bitcoind and compatible nodes (its doc/zmq.md) send topic, body, and a number of 4 octets; the Clone pattern of the
ZeroMQ guide sends key, a number of 8 octets, and value.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.payloads.api import About, Claim, Malformed, Message, Payload, Reader, Settings
from zmtpscope.payloads.text import is_text
from zmtpscope.zmtp.socket_types import PUBLISHERS

PROOF = 3
"""Number of consecutive steps of 1 that prove a sequence number."""
MAX_TOPICS = 4096
"""Topics per side; the least recently used one is forgotten."""
LONGEST_TOPIC = 255
"""Octets of a topic; longer ones have no remembered numbers."""

HASH = 32
"""Octets of a hash. bitcoind sends them in the order in which hashes are displayed."""
EVENTS = {
    (HASH + 1, b"C"): "block connected",
    (HASH + 1, b"D"): "block disconnected",
    (HASH + 9, b"R"): "transaction removed",
    (HASH + 9, b"A"): "transaction added",
}
"""Events of bitcoind's topic `sequence`, by body size and the octet after the hash. Transaction events end with the
sequence number of the memory pool."""
SMALLEST_TRANSACTION, SMALLEST_BLOCK = 60, 81


class Place(NamedTuple):
    """Where a sequence number may be: it fills the frame with index `frame`, in messages with this many frames.

    `size` is in octets; `little`: it is little-endian.
    """

    least_frames: int
    most_frames: int | None
    frame: int
    size: int
    little: bool

    def octets_of(self, frames: Sequence[bytes]) -> bytes | None:
        if len(frames) < self.least_frames or (self.most_frames is not None and len(frames) > self.most_frames):
            return None
        octets = frames[self.frame]
        return octets if len(octets) == self.size else None


BEHIND_BODY = Place(3, 3, 2, 4, True)
PLACES = (BEHIND_BODY, Place(3, None, 1, 8, False), Place(3, None, 1, 8, True))


class Step(NamedTuple):
    """The step from the number `last` to the next one.

    `ahead` is their difference, negative if the number decreased; None for the first number. `proven`: the numbers are
    proven to be consecutive.
    """

    proven: bool
    last: int
    ahead: int | None


class Series:
    """The sequence numbers of a publisher, or of one of its topics."""

    __slots__ = ("last", "proven", "run", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.last: int | None = None
        self.run = 0
        self.proven = False

    def feed(self, number: int) -> Step:
        """Add the next number; return the step to it. Numbers wrap to 0 after the largest."""
        ahead = None
        last = self.last
        if last is not None:
            half = 1 << (8 * self.size - 1)
            ahead = (number - last + half) % (2 * half) - half
        self.run = self.run + 1 if ahead == 1 else 0
        self.proven = self.proven or self.run >= PROOF
        self.last = number
        return Step(self.proven, last or 0, ahead)


class Numbering:
    """The values at one possible place of sequence numbers in the messages of a side.

    The numbers may count all messages, or the messages of each topic; both possibilities are followed. They count all
    messages if steps of 1 continue across topics, and each topic separately as soon as a number is smaller than the
    preceding one of another topic.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.all = Series(place.size)
        self.topics: OrderedDict[bytes, Series] = OrderedDict()
        self.topic: bytes | None = None
        self.separate = False
        self.proven = False
        """Whether a value here was proven to be a sequence number."""

    def forget(self) -> None:
        """Forget the last numbers after a loss of messages. Whether the place has sequence numbers stays known."""
        for series in (self.all, *self.topics.values()):
            series.last, series.run = None, 0

    def feed(self, topic: bytes, number: int) -> tuple[Step, bool]:
        """Add the next number; return (step to it, whether numbers count all topics together)."""
        together = self.all.feed(number)
        if topic not in self.topics:
            self.topics[topic] = Series(self.place.size)
            if len(self.topics) > MAX_TOPICS:
                self.topics.popitem(last=False)
        else:
            self.topics.move_to_end(topic)
        alone = self.topics[topic].feed(number)
        self.proven = self.proven or alone.proven or together.proven
        if topic != self.topic and together.ahead is not None and together.ahead < 0:
            self.separate = True
        self.topic = topic
        if len(self.topics) == 1 or self.separate or not together.proven:
            return alone, False
        return together, True


class Reading(NamedTuple):
    """The possible sequence number of one message: its place, and the step from the previous number to it.

    `counts_all`: numbers count the messages of all topics. `bitcoin`: the message is a notification of bitcoind.
    """

    place: Place
    step: Step
    counts_all: bool
    bitcoin: bool

    @property
    def believed(self) -> bool:
        """Whether the number is proven to be a sequence number."""
        return self.bitcoin or self.step.proven

    @property
    def skipped(self) -> int:
        """How many numbers are missing before this one."""
        ahead = self.step.ahead
        return ahead - 1 if self.believed and ahead is not None and ahead > 1 else 0


class Numbered(Payload):
    """Dissects messages of bitcoind, and other messages once their sequence numbers are proven."""

    name = "sequence"
    prefix = "sequence"
    least_frames = 2
    socket_types = PUBLISHERS
    judges = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.numberings = [Numbering(place) for place in PLACES]
        self.reading: Reading | None = None
        """The reading from `claim`, for `dissect` of the same message. None without a `claim`: the user selected the
        dissector."""

    def claim(self, message: Message, about: About) -> Claim:
        self.reading = reading = self._look_at(message)
        return Claim.YES if reading is not None and reading.believed else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        reading, self.reading = self.reading or self._look_at(message), None
        if reading is None:
            raise Malformed("no number in the frame for numbers")
        return _read(reading, message.frames, reader)

    def _look_at(self, message: Message) -> Reading | None:
        """Read the number at each possible place; return the result for a proven place, if there is one."""
        frames = message.frames
        if message.after_loss:
            for numbering in self.numberings:
                numbering.forget()
        if not frames or len(frames[0]) > LONGEST_TOPIC:
            return None
        reading: Reading | None = None
        bitcoin = _is_bitcoin(frames)
        for numbering in self.numberings:
            octets = numbering.place.octets_of(frames)
            if octets is None or not (bitcoin or numbering.proven or not is_text(octets)):
                continue  # a counter in decimal digits also makes steps of 1
            numbering.separate = numbering.separate or bitcoin
            number = int.from_bytes(octets, "little" if numbering.place.little else "big")
            step, counts_all = numbering.feed(frames[0], number)
            if reading is None or (step.proven and not reading.step.proven):
                reading = Reading(numbering.place, step, counts_all, bitcoin)
        return reading


def _is_bitcoin(frames: Sequence[bytes]) -> bool:
    """Whether topic and frame sizes are those of a notification of bitcoind."""
    if len(frames) != 3 or len(frames[2]) != BEHIND_BODY.size:
        return False
    topic, body, _ = frames
    if topic in (b"hashtx", b"hashblock"):
        return len(body) == HASH
    if topic == b"rawtx":
        return len(body) >= SMALLEST_TRANSACTION
    if topic == b"rawblock":
        return len(body) >= SMALLEST_BLOCK
    return topic == b"sequence" and (len(body), body[HASH : HASH + 1]) in EVENTS


def _read(reading: Reading, frames: Sequence[bytes], reader: Reader) -> str:
    place = reading.place
    reader.give("kind", "bitcoind" if reading.bitcoin else "numbered")
    reader.go_to(0)
    topic = reader.text("topic")
    number, summary = 0, ""
    while reader.next_frame():
        if reader.frame == place.frame:
            position = reader.offset
            number = reader.number("sequence", place.size, little=place.little)
            if not reading.counts_all:  # a subscriber to some topics misses numbers without any loss
                _judge(reading, reader, position, topic, number)
        elif reading.bitcoin:
            summary = _read_bitcoin(reader, frames[0])
        elif not summary:
            summary = reader.inside("payload").summary
        else:
            reader.octets("body", hidden=True)
    size = sum(map(len, frames[1:])) - place.size
    reader.give("size", size)
    reader.give("counts", "all topics" if reading.counts_all else "topic")
    reader.give("skipped", reading.skipped)
    skipped = f", {reading.skipped} skipped" if reading.skipped else ""
    return f"{topic} {number}: {summary or f'{size} octets'}{skipped}"


def _judge(reading: Reading, reader: Reader, position: int, topic: str, number: int) -> None:
    """Report the number at stream offset `position` if it does not follow the last number of its topic."""
    detail = f"topic {topic}: from {reading.step.last} to {number}"
    if reading.skipped:
        reader.finding("SEQUENCE-01", position, reading.place.size, detail=f"{detail}, {reading.skipped} missing")
    elif reading.believed and reading.step.ahead is not None and reading.step.ahead < 1:
        reader.finding("SEQUENCE-02", position, reading.place.size, detail=detail)


def _read_bitcoin(reader: Reader, topic: bytes) -> str:
    """Read the body of a bitcoind notification; return its summary, which is empty for a raw body."""
    if topic in (b"rawtx", b"rawblock"):
        reader.octets("body", hidden=True)
        return ""
    body = reader.data
    digest = body[:HASH].hex()
    reader.value("hash", HASH, digest)
    if topic != b"sequence":
        return digest
    event = EVENTS[len(body), body[HASH : HASH + 1]]
    reader.value("event", 1, event)
    if reader.left:
        reader.u64("mempool_sequence", little=True)
    return f"{event} {digest}"
