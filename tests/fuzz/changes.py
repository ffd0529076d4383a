"""Tables of changes to a capture: to its TCP segments, its packets, its file, and the compressed file.

Each change is a function of its input and a source of random numbers, and returns a new object of the same kind.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import NamedTuple, TypeVar

import zstandard

from tests.capture.containers import Packet, Segment, pcap, pcapng
from tests.capture.packets import LINKS
from tests.capture.test_fragments import fragments
from tests.capture.test_tunnels import WRAPPED
from tests.fuzz.wire import MODULUS, RAW_IP, reverse
from tests.peer_octets import command
from zmtpscope.capture.segments import ACK, FIN, RST, SYN
from zmtpscope.live.recording.segments import LARGEST_PAYLOAD
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.regime import Framing

Item = TypeVar("Item")
Segments = list[Segment]
Packets = list[Packet]

SECOND = 1_000_000_000
OCTETS = (0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x7E, 0x7F, 0x80, 0xFE, 0xFF)
SIZES = (0, 1, 2, 40, 255, 256, 65535, 2**20, 2**31, 2**32 + 5, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def some(items: Sequence[Item], random: Random, most: int = 4) -> list[int]:
    """Return the indices of a few items, in order; none if there are no items."""
    return sorted(random.sample(range(len(items)), min(len(items), random.randint(1, most))))


# -- segments ----------------------------------------------------------------------------------------------------------


def dropped(items: list[Item], random: Random) -> list[Item]:
    """Lose single segments, or several in a row."""
    if random.random() < 0.5:
        lost = set(some(items, random))
    else:
        start = random.randrange(len(items) + 1)
        lost = set(range(start, start + random.randint(1, 20)))
    return [item for place, item in enumerate(items) if place not in lost]


def doubled(items: list[Item], random: Random) -> list[Item]:
    """Repeat some segments, at once or later."""
    result = list(items)
    for place in reversed(some(items, random)):
        result.insert(min(len(result), place + random.choice((0, 1, 3, 20))), items[place])
    return result


def reordered(items: list[Item], random: Random) -> list[Item]:
    result = list(items)
    for place in some(items, random):
        moved = result.pop(place)
        result.insert(max(0, place + random.choice((-20, -3, -1, 1, 2, 5, 30))), moved)
    return result


def begun_later(items: list[Item], random: Random) -> list[Item]:
    return items[random.choice((1, 2, 3, 5, len(items) // 2)) :]


def ended_early(items: list[Item], random: Random) -> list[Item]:
    return items[: random.randrange(len(items) + 1)]


def of_one_side(segments: Segments, random: Random) -> Segments:
    key = random.choice(segments).key
    return [segment for segment in segments if segment.key != reverse(key)]


def held_back(segments: Segments, random: Random) -> Segments:
    """Delay one direction: from some place on its segments are after some or all segments of the other."""
    start = random.choice((0, 3, 4, 5, 6, random.randrange(len(segments))))
    stop = random.choice((len(segments), start + 2, start + 5, start + 20))
    key = random.choice(segments).key
    stretch = segments[start:stop]
    return segments[:start] + sorted(stretch, key=lambda segment: segment.key == key) + segments[stop:]


def overlapped(segments: Segments, random: Random) -> Segments:
    """Repeat octets with other content, shifted by a few, before or after the first time."""
    result = list(segments)
    for place in reversed(some(segments, random)):
        segment = segments[place]
        payload = random.randbytes(max(1, len(segment.payload) + random.choice((-5, -1, 0, 1, 8))))
        sequence = (segment.sequence + random.choice((-8, -1, 0, 0, 0, 1, 5))) % MODULUS
        again = segment._replace(payload=payload, sequence=sequence)
        result.insert(place + random.choice((0, 0, 1, 2, 9)), again)
    return result


EDGES = (1, 2, 9, 10, 11, 12, 13, 14, 64, 66)
"""Ends of greetings and of their parts."""


def sent_in_other_pieces(segments: Segments, random: Random) -> Segments:
    """Split some segments in two, or into single octets."""
    result = list(segments)
    for place in reversed(some(segments, random)):
        segment = segments[place]
        size = len(segment.payload)
        near = [random.choice(EDGES) % (size + 1), random.randrange(size + 1)]
        few = (
            range(1, size)
            if size < 100 and random.random() < 0.3
            else sorted(random.sample(near, random.randint(1, 2)))
        )
        edges = [0, *few, size]
        result[place : place + 1] = [
            segment._replace(
                sequence=(segment.sequence + start) % MODULUS,
                payload=segment.payload[start:stop],
                flags=segment.flags if stop == size else segment.flags & ~(FIN | RST),
                cut=segment.cut if stop == size else 0,
            )
            for start, stop in pairwise(edges)
        ]
    return result


def sent_together(segments: Segments, random: Random) -> Segments:
    result: Segments = []
    for segment in segments:
        last = result[-1] if result else segment
        follows = segment.key == last.key and segment.sequence == (last.sequence + len(last.payload)) % MODULUS
        fits = len(last.payload) + len(segment.payload) <= LARGEST_PAYLOAD
        if (
            result
            and follows
            and fits
            and last.payload
            and not (last.flags | segment.flags) & (SYN | FIN | RST | last.cut)
        ):
            result[-1] = last._replace(payload=last.payload + segment.payload, cut=segment.cut)
        else:
            result.append(segment)
    return result


def snapped(segments: Segments, random: Random) -> Segments:
    """Cut the payload of all or of some segments by a snap length."""
    limit = random.choice((0, 1, 2, 9, 24, 60, 200))
    those = range(len(segments)) if random.random() < 0.6 else some(segments, random, 10)
    result = list(segments)
    for place in those:
        segment = segments[place]
        kept = segment.payload[:limit]
        result[place] = segment._replace(payload=kept, cut=segment.cut + len(segment.payload) - len(kept))
    return result


def numbered_anew(segments: Segments, random: Random) -> Segments:
    """Shift sequence numbers, mostly so that they pass 2^32."""
    key = random.choice(segments).key
    first = next(segment.sequence for segment in segments if segment.key == key)
    shift = (random.choice((0, MODULUS - 1, MODULUS - 100, 2**31, random.randrange(MODULUS))) - first) % MODULUS
    return [
        segment._replace(sequence=(segment.sequence + shift) % MODULUS)
        if segment.key == key
        else segment._replace(acknowledgment=(segment.acknowledgment + shift) % MODULUS)
        if segment.key == reverse(key) and segment.flags & ACK
        else segment
        for segment in segments
    ]


def flagged(segments: Segments, random: Random) -> Segments:
    """Add a RST, FIN or SYN, in a new segment or in an existing one."""
    result = list(segments)
    for place in some(segments, random, 2):
        segment = segments[place]
        flags = random.choice((RST, RST | ACK, FIN, FIN | ACK, SYN, SYN | ACK, 0, SYN | FIN))
        if random.random() < 0.5:
            result[place] = segment._replace(flags=segment.flags | flags)
        else:
            distance = random.choice((0, len(segment.payload), -1, 1, 1000))
            sequence = (segment.sequence + distance) % MODULUS
            result.insert(place + 1, segment._replace(flags=flags, sequence=sequence, payload=b"", cut=0))
    return result


def acknowledged(segments: Segments, random: Random) -> Segments:
    if random.random() < 0.3:
        return [segment for segment in segments if segment.payload or segment.flags & (SYN | FIN | RST)]
    result = list(segments)
    for place in some(segments, random):
        shift = random.choice((-1, 1, 10, 1000, 100_000, 2**31))
        acknowledgment = (segments[place].acknowledgment + shift) % MODULUS
        result[place] = segments[place]._replace(acknowledgment=acknowledgment)
    return result


def kept_alive(segments: Segments, random: Random) -> Segments:
    """Add keep-alives: the last octet again, or no octet, with the sequence number before the next one."""
    result = list(segments)
    for place in reversed(some(segments, random)):
        segment = segments[place]
        sequence = (segment.sequence + len(segment.payload) - 1) % MODULUS
        probe = segment._replace(sequence=sequence, payload=random.choice((b"", b"\0")), flags=ACK, cut=0)
        result.insert(place + 1, probe)
    return result


def repeated(segments: Segments, random: Random) -> Segments:
    """Repeat everything: the same ports some time later, from the same sequence numbers or from others."""
    later = random.choice((0, SECOND, 100 * SECOND))
    shift = random.choice((0, 0, 1, 70_000, 2**31))
    again = [
        segment._replace(
            time=segment.time + later,
            sequence=(segment.sequence + shift) % MODULUS,
            acknowledgment=(segment.acknowledgment + shift) % MODULUS if segment.flags & ACK else 0,
        )
        for segment in segments
    ]
    return segments + again


def retimed(segments: Segments, random: Random) -> Segments:
    """Set the clock back or far ahead, stop it, or slow it down; for some segments, for a connection, or for all
    later ones."""
    kind = random.choice(("some", "connection", "behind", "same", "slow"))
    shift = random.choice((-SECOND, SECOND // 2, 2 * SECOND, 4 * SECOND, 100 * SECOND, -86_400 * SECOND, 10**18))
    if kind == "same":
        return [segment._replace(time=segments[0].time) for segment in segments]
    if kind == "slow":
        return [
            segment._replace(time=segment.time + place * abs(shift) // 100) for place, segment in enumerate(segments)
        ]
    if kind == "connection":
        key = random.choice(segments).key
        chosen = {place for place, segment in enumerate(segments) if segment.key in (key, reverse(key))}
    else:
        chosen = set(some(segments, random))
        if kind == "behind":
            chosen = set(range(min(chosen), len(segments)))
    return [
        segment._replace(time=max(0, segment.time + shift)) if place in chosen else segment
        for place, segment in enumerate(segments)
    ]


# -- contents of segments: change the octets of one side, and everything that counts them
# -----------------------------------


class Stream(NamedTuple):
    """The octets of one direction up to the first hole; `begin` is the sequence number of the first."""

    key: bytes
    begin: int
    octets: bytes


def stream_of(segments: Segments, key: bytes) -> Stream:
    """Return the octets of one direction since its first SYN, or since its first octet."""
    sent = [segment for segment in segments if segment.key == key and (segment.payload or segment.flags & SYN)]
    if not sent:
        return Stream(key, 0, b"")
    begin = (sent[0].sequence + bool(sent[0].flags & SYN)) % MODULUS
    octets = bytearray()
    for segment in sent:
        at = (segment.sequence + bool(segment.flags & SYN) - begin) % MODULUS
        if at <= len(octets):
            octets[at:] = segment.payload + octets[at + len(segment.payload) :]
    return Stream(key, begin, bytes(octets))


def exchanged(segments: Segments, stream: Stream, start: int, stop: int, octets: bytes) -> Segments:
    """Replace the octets `start..stop` of a stream, and shift everything after them, in both directions."""
    moved = len(octets) - (stop - start)
    result = []
    for segment in segments:
        acknowledged = (segment.acknowledgment - stream.begin) % MODULUS
        if segment.key == stream.key:
            at = (segment.sequence + bool(segment.flags & SYN) - stream.begin) % MODULUS
            if at >= MODULUS // 2:
                pass
            elif at >= stop and (at > start or not segment.payload):
                segment = segment._replace(sequence=(segment.sequence + moved) % MODULUS)
            elif at <= start < at + len(segment.payload):
                payload = segment.payload
                segment = segment._replace(payload=payload[: start - at] + octets + payload[stop - at :])
            elif start < at < stop:
                rest = segment.payload[stop - at :]
                segment = segment._replace(
                    payload=rest, sequence=(stream.begin + start + len(octets)) % MODULUS, flags=segment.flags & ~SYN
                )
        elif segment.key == reverse(stream.key) and stop <= acknowledged < MODULUS // 2:
            segment = segment._replace(acknowledgment=(segment.acknowledgment + moved) % MODULUS)
        result.append(segment)
    return result


GREETING_FIELDS = ((0, 1), (1, 8), (8, 1), (9, 1), (10, 1), (11, 1), (12, 20), (32, 1), (33, 31))
"""(offset, size) of the fields of a greeting of 3.x; older ones begin alike."""
FIELD_VALUES = (b"NULL", b"PLAIN", b"CURVE", b"GSSAPI", b"null", b"\0", b"\1", b"\2", b"\3", b"\xff", b"\x7f")


def frame_headers(octets: bytes, start: int) -> list[tuple[int, int, int]]:
    """Return (start, begin of the body, stop) of the frames of 2.0 and 3.x from `start` on."""
    found = []
    while start + 2 <= len(octets):
        if octets[start] & 2:
            body = start + 9
            stop = body + int.from_bytes(octets[start + 1 : body])
        else:
            body = start + 2
            stop = body + octets[start + 1]
        found.append((start, body, stop))
        start = stop
    return found


def greeting_changed(stream: Stream, random: Random) -> tuple[int, int, bytes]:
    place, size = random.choice(GREETING_FIELDS)
    if random.random() < 0.3:
        return place, place + size, random.randbytes(size)
    return place, place + size, random.choice(FIELD_VALUES).ljust(size, b"\0")[:size]


def header_changed(stream: Stream, random: Random) -> tuple[int, int, bytes]:
    frames = frame_headers(stream.octets, 64 if stream.octets[:1] == b"\xff" else 0)
    if not frames:
        return flipped_octets(stream, random)
    start, body, stop = random.choice(frames)
    if random.random() < 0.5:
        return start, start + 1, bytes([random.choice((*range(8), 0x08, 0x80, 0xFF, stream.octets[start] ^ 1))])
    size = random.choice((*SIZES, stop - body - 1, stop - body + 1, stop - body))
    if random.random() < 0.5 and 0 <= size < 256:
        return start, body, bytes([stream.octets[start] & ~2, size])
    return start, body, bytes([stream.octets[start] | 2]) + (size % 2**64).to_bytes(8)


NAMES = (b"READY", b"HELLO", b"WELCOME", b"INITIATE", b"ERROR", b"MESSAGE", b"PING", b"PONG", b"SUBSCRIBE", b"JOIN")


def name_changed(stream: Stream, random: Random) -> tuple[int, int, bytes]:
    frames = frame_headers(stream.octets, 64 if stream.octets[:1] == b"\xff" else 0)
    commands = [frame for frame in frames if stream.octets[frame[0]] & 4 and frame[1] < frame[2] <= len(stream.octets)]
    if not commands:
        return header_changed(stream, random)
    _, body, stop = random.choice(commands)
    size = min(stream.octets[body], stop - body - 1)
    name = random.choice((*NAMES, stream.octets[body + 1 : body + 1 + size].swapcase(), b"", b"\x1b[2J", b"\xff"))
    return body, body + 1 + size, bytes([random.choice((len(name), len(name), len(name) + 1, 255))]) + name


def frame_inserted(stream: Stream, random: Random) -> tuple[int, int, bytes]:
    """Insert a frame between two others: a message, a command, an empty frame, or one with fewer octets than its
    size."""
    frames = frame_headers(stream.octets, 64 if stream.octets[:1] == b"\xff" else 0)
    places = [stop for _, _, stop in frames if stop <= len(stream.octets)] or [len(stream.octets)]
    fields = {"topic": "A", "group": "g", "ttl_ms": 300, "context": b"c", "reason": "no", "metadata": []}
    body = random.choice((b"", b"\0", b"\1A", b"\1", b"body", b"\x1b[31m", b'{"a":1}', b"\x80\x04K\x01.", bytes(300)))
    inserted = random.choice(
        (
            build_frame(Framing.V2, body, more=random.random() < 0.3, long=random.random() < 0.3),
            command("NULL", random.choice(("SUBSCRIBE", "CANCEL", "PING", "PONG", "JOIN", "LEAVE", "ERROR")), **fields),
            b"\2" + random.choice(SIZES).to_bytes(8) + body,
            build_frame(Framing.V1, body),
        )
    )
    place = random.choice(places)
    return place, place, inserted * random.choice((1, 1, 1, 2, 40))


def flipped_octets(stream: Stream, random: Random) -> tuple[int, int, bytes]:
    start = random.randrange(len(stream.octets) + 1)
    stop = min(len(stream.octets), start + random.choice((0, 1, 1, 1, 2, 9)))
    count = random.choice((stop - start, stop - start, 0, 1, 2, 30))
    return start, stop, bytes(random.choice((*OCTETS, random.randrange(256))) for _ in range(count))


def stretch_repeated(stream: Stream, random: Random) -> tuple[int, int, bytes]:
    """Repeat a part of the stream, as if the application had sent it twice."""
    start = random.randrange(len(stream.octets) + 1)
    stop = min(len(stream.octets), start + random.choice((2, 10, 64, 200)))
    return stop, stop, stream.octets[start:stop] * random.choice((1, 1, 3, 50))


STREAM_CHANGES: dict[str, Callable[[Stream, Random], tuple[int, int, bytes]]] = {
    "greeting": greeting_changed,
    "frame header": header_changed,
    "command name": name_changed,
    "frame inserted": frame_inserted,
    "octets": flipped_octets,
    "stretch repeated": stretch_repeated,
}
"""Replacements of stream octets by name: each returns start, stop and the new octets."""


def of_a_stream(change: Callable[[Stream, Random], tuple[int, int, bytes]]) -> Callable[[Segments, Random], Segments]:
    """Apply a change of one direction's stream to the segments that carry it."""

    def changed(segments: Segments, random: Random) -> Segments:
        keys = sorted({segment.key for segment in segments if segment.payload})
        if not keys:
            return segments
        stream = stream_of(segments, random.choice(keys))
        start, stop, octets = change(stream, random)
        return exchanged(segments, stream, start, max(start, min(stop, len(stream.octets))), octets)

    return changed


SEGMENT_CHANGES: dict[str, Callable[[Segments, Random], Segments]] = {
    "dropped": dropped,
    "doubled": doubled,
    "reordered": reordered,
    "begun later": begun_later,
    "ended early": ended_early,
    "one side": of_one_side,
    "held back": held_back,
    "overlapped": overlapped,
    "other pieces": sent_in_other_pieces,
    "sent together": sent_together,
    "snapped": snapped,
    "numbered anew": numbered_anew,
    "flagged": flagged,
    "acknowledged": acknowledged,
    "kept alive": kept_alive,
    "said again": repeated,
    "retimed": retimed,
    **{name: of_a_stream(change) for name, change in STREAM_CHANGES.items()},
}


# -- two captures become one
# ---------------------------------------------------------------------------------------------


def side_by_side(one: Segments, other: Segments, random: Random) -> Segments:
    """Interleave the packets of both connections, sometimes between the same sockets."""
    if one and other and random.random() < 0.9:
        port = random.randrange(1024, 65536).to_bytes(2, "big")
        first = other[0].key
        moved = {first: first[:-4] + port + first[-2:], reverse(first): reverse(first)[:-2] + port}
        other = [segment._replace(key=moved.get(segment.key, segment.key)) for segment in other]
    turns = [0] * len(one) + [1] * len(other)
    random.shuffle(turns)
    left = [iter(one), iter(other)]
    together = [next(left[turn]) for turn in turns]
    start = together[0].time if together else 0
    if random.random() < 0.7:  # one clock for both
        together = [segment._replace(time=start + place * 1_000_000) for place, segment in enumerate(together)]
    return together


def spliced(one: Segments, other: Segments, random: Random) -> Segments:
    """Continue or replace one direction of a connection with the octets of another connection."""
    carriers = [segment for segment in one if segment.payload]
    payloads = [segment for segment in other if segment.payload]
    if not carriers or not payloads:
        return one
    carrier, theirs = random.choice(carriers), random.choice(payloads)
    stream, given = stream_of(one, carrier.key), stream_of(other, theirs.key)
    start = random.choice((0, len(stream.octets), random.randrange(len(stream.octets) + 1)))
    taken = given.octets[random.choice((0, random.randrange(len(given.octets) + 1))) :]
    return exchanged(one, stream, start, len(stream.octets), taken)


SPLICES: dict[str, Callable[[Segments, Segments, Random], Segments]] = {
    "side by side": side_by_side,
    "spliced": spliced,
}


# -- packets -----------------------------------------------------------------------------------------------------------


def octets_flipped(packets: Packets, random: Random) -> Packets:
    result = list(packets)
    for place in some(packets, random):
        result[place] = replace(packets[place], octets=damaged(packets[place].octets, random, 90))
    return result


def damaged(octets: bytes, random: Random, within: int = 1 << 62) -> bytes:
    data = bytearray(octets)
    for _ in range(random.choice((1, 1, 2, 5)) if data else 0):
        at = random.randrange(min(within, len(data)))
        data[at] = random.choice((data[at] ^ 1 << random.randrange(8), random.choice(OCTETS), random.randrange(256)))
    return bytes(data)


def octets_cut(packets: Packets, random: Random) -> Packets:
    """Cut packets by a snap length that includes headers, or without recording the original length."""
    limit, is_announced = random.choice((0, 10, 20, 34, 40, 54, 66, 96)), random.random() < 0.7
    return [
        replace(packet, octets=packet.octets[:limit], original=packet.wire_length if is_announced else None)
        for packet in packets
    ]


def lengths_wrong(packets: Packets, random: Random) -> Packets:
    result = list(packets)
    for place in some(packets, random):
        length = random.choice((0, 1, len(packets[place].octets) - 1, 65536, 2**31, 2**32 - 1))
        result[place] = replace(packets[place], original=max(0, length))
    return result


LARGEST_INSIDE = 65_000
"""Maximum size of a packet that fits into a tunnel."""


class Raw(NamedTuple):
    """A packet of raw IP, as the builders of tunnels take it."""

    ip: bytes

    @property
    def octets(self) -> bytes:
        return bytes(12) + (b"\x08\x00" if self.ip[0] >> 4 == 4 else b"\x86\xdd") + self.ip


def through_tunnels(packets: Packets, random: Random) -> Packets:
    """Send all or some packets through one tunnel, or two."""
    result = list(packets)
    for _ in range(random.choice((1, 1, 2))):
        wrap = WRAPPED[random.choice(sorted(WRAPPED))]
        those = range(len(result)) if random.random() < 0.7 else some(result, random, 20)
        for place in those:
            packet = result[place]
            ip = packet.octets if packet.link == RAW_IP else packet.octets[14:] if packet.link == 1 else b""
            if len(ip) < LARGEST_INSIDE and ip[:1] and ip[0] >> 4 in (4, 6):
                octets = wrap(Raw(ip))  # type: ignore[arg-type]
                missing = packet.wire_length - len(packet.octets)
                result[place] = replace(
                    packet, octets=octets, link=1, original=min(max(0, len(octets) + missing), 2**32 - 1)
                )
    return result


def on_another_link(packets: Packets, random: Random) -> Packets:
    number, header = LINKS[random.choice(sorted(LINKS))]
    return [
        replace(
            packet,
            octets=header(b"\x08\x00" if packet.octets[0] >> 4 == 4 else b"\x86\xdd") + packet.octets,
            link=number,
            original=None,
        )
        if packet.link == RAW_IP and packet.octets
        else packet
        for packet in packets
    ]


def in_fragments(packets: Packets, random: Random) -> Packets:
    """Split packets into IP fragments, in any order, and sometimes lose one."""
    result: Packets = []
    for packet in packets:
        if packet.link != RAW_IP or len(packet.octets) < 60 or packet.original != len(packet.octets):
            result.append(packet)
            continue
        pieces = fragments(packet.octets, [random.randrange(1, 20)], random.randrange(1, 5))
        if random.random() < 0.3:
            random.shuffle(pieces)
        if random.random() < 0.1:
            pieces.pop()
        result += [replace(packet, octets=piece, original=len(piece)) for piece in pieces]
    return result


def with_noise(packets: Packets, random: Random) -> Packets:
    result = list(packets)
    for place in reversed(some(packets, random)):
        octets = random.randbytes(random.choice((0, 1, 14, 20, 40, 60, 100)))
        result.insert(place, replace(packets[place], octets=octets, original=None))
    return result


PACKET_CHANGES: dict[str, Callable[[Packets, Random], Packets]] = {
    "packets dropped": dropped,
    "packets doubled": doubled,
    "packets reordered": reordered,
    "packets flipped": octets_flipped,
    "packets cut": octets_cut,
    "lengths wrong": lengths_wrong,
    "tunnels": through_tunnels,
    "link": on_another_link,
    "fragments": in_fragments,
    "noise": with_noise,
}


HARMLESS = {
    *("doubled", "reordered", "held back", "other pieces", "sent together", "numbered anew", "kept alive"),
    *("packets doubled", "packets reordered", "tunnels", "link"),
}
"""Changes of segments and packets that keep all octets of both sides, completely captured."""


# -- files -------------------------------------------------------------------------------------------------------------


def written(packets: Packets, random: Random) -> bytes:
    """Write a capture file in any format."""
    order = random.choice("<<<>")
    alike = {packet.link for packet in packets} == {packets[0].link} if packets else True
    if alike and random.random() < 0.6:
        kind = random.choice(({}, {"nanoseconds": True}, {"modified": True}))
        return pcap([in_32_bits(packet) for packet in packets], order=order, **kind)
    return pcapng(packets, order=order, old_blocks=random.random() < 0.2)


def in_32_bits(packet: Packet) -> Packet:
    """Limit the time of a packet to the range of pcap."""
    return replace(packet, time=packet.time % (SECOND << 32))


def file_flipped(octets: bytes, random: Random) -> bytes:
    return damaged(octets, random)


def file_cut(octets: bytes, random: Random) -> bytes:
    return octets[: random.randrange(len(octets) + 1)]


def stretch_removed(octets: bytes, random: Random) -> bytes:
    start = random.randrange(len(octets) + 1)
    return octets[:start] + octets[start + random.choice((1, 4, 16, 100)) :]


def stretch_doubled(octets: bytes, random: Random) -> bytes:
    start = random.randrange(len(octets) + 1)
    stop = start + random.choice((4, 16, 100, len(octets)))
    return octets[:stop] + octets[start:stop] * random.choice((1, 1, 20)) + octets[stop:]


def number_set(octets: bytes, random: Random) -> bytes:
    """Change four octets at a place that is likely to contain a length."""
    at = random.randrange(len(octets) // 4 + 1) * 4
    value = random.choice((0, 1, 4, 12, 16, 28, 32, 0xFFFF, 0x40000, 0x40001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF))
    return octets[:at] + struct.pack(random.choice("<>") + "I", value) + octets[at + 4 :]


def zeros_inserted(octets: bytes, random: Random) -> bytes:
    at = random.randrange(len(octets) // 4 + 1) * 4
    return octets[:at] + bytes(random.choice((4, 16, 32, 1600))) + octets[at:]


FILE_CHANGES: dict[str, Callable[[bytes, Random], bytes]] = {
    "file flipped": file_flipped,
    "file cut": file_cut,
    "stretch removed": stretch_removed,
    "stretch doubled": stretch_doubled,
    "number set": number_set,
    "zeros inserted": zeros_inserted,
}


def gzipped(octets: bytes, random: Random) -> bytes:
    """Compress with gzip: one member, or several with padding after them."""
    level = random.choice((0, 1, 9))
    if random.random() < 0.7:
        return gzip.compress(octets, level, mtime=0)
    middle = random.randrange(len(octets) + 1)
    padding = random.choice((b"", bytes(10), b"\x1f\x8b", b"rest"))
    return gzip.compress(octets[:middle], level, mtime=0) + gzip.compress(octets[middle:], mtime=0) + padding


def zstd_compressed(octets: bytes, random: Random) -> bytes:
    return zstandard.ZstdCompressor(level=random.choice((1, 9)), write_checksum=random.random() < 0.5).compress(octets)


COMPRESSIONS: dict[str, Callable[[bytes, Random], bytes]] = {"gzip": gzipped, "zstd": zstd_compressed}
