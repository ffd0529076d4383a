"""Write deterministic pcap files of ZMTP 3.1 traffic: the same arguments always give the same octets.

    python -m benchmarks.make_capture PROFILE FILE [options]        (FILE may be - for standard output)

FILE.truth.json contains what was sent (without regard to --loss), how many packets each kind of damage changed, and
how many message frames have octets in a lost packet. For an encrypted capture, FILE.keys is its key log, and FILE.boxes
contains the encrypted messages alone (boxes.py).

Damage is a fraction of the data packets. Lost packets are missing from the capture, though the peer acknowledged them;
repeated ones follow again a little later; reordered ones follow the next packet of their side. TCP checksums are 0, as
with checksum offload.
"""

from __future__ import annotations

import argparse
import json
import mmap
import struct
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.talks import (
    ACK,
    CLIENT,
    COMMAND,
    FIN,
    LOOPBACK_MSS,
    RST,
    SERVER,
    SYN,
    WRITE,
    Talk,
    frame,
    greeting,
    json_object,
    message_frames,
    messages,
    metadata,
    text,
)

Column = NDArray[Any]

PROFILES = {
    # messages, connections, octets of a body, octets of a segment
    "small": (1_000_000, 20, 100, 1448),  # PUSH to PULL
    "big": (5_000_000, 20, 128, 1448),  # the same, 690 MB
    "large": (8_000, 2, 65_536, 65_483),  # 64 KiB each
    "pubsub": (500_000, 10, 100, 1448),  # two frames each, from a PUB to so many SUBs
    "json": (200_000, 10, 100, 1448),  # the same with objects of JSON
    "reqrep": (200_000, 10, 100, 1448),  # pairs, each with its envelope
    "calls": (200_000, 10, 100, 1448),  # the same with objects of JSON
    "curve": (200_000, 1, 100, 1448),  # PUSH to PULL, each message sealed
    "short": (5, 50_000, 100, 1448),  # messages per connection
    "flood": (0, 1_000_000, 8, 1448),  # a SYN, and the answer to it; nothing follows
    "scan": (0, 1_000_000, 8, 1448),  # a SYN to another port each time, refused
}
SENT = ("connections", "greetings", "commands", "message_frames", "messages", "message_body_bytes")
"""Names of the counts in the truth file."""

VARIANTS = 64
"""Number of different connections of `short`; the others repeat them on other ports."""

AT_ONCE = 65_536
"""Number of packets to write at a time."""

HEADERS = 16 + 14 + 20 + 20
"""Octets of a packet's pcap record header, Ethernet, IPv4 and TCP headers, TCP options not counted."""

TIMESTAMP, SYN_OPTIONS = 12, 20
START = 1_750_000_000
"""Seconds since the epoch at which captures begin."""


class Packets(NamedTuple):
    """Packets as columns; `at` is the position of a packet's octets among the octets of all connections."""

    conn: Column
    side: Column
    at: Column
    length: Column
    flags: Column
    sequence: Column
    acknowledgment: Column
    time: Column

    def take(self, index: Column | slice) -> Packets:
        """Return the packets in these rows."""
        return Packets._make(column[index] for column in self)


class Plan:
    """All packets of a capture. The octets of the connections are in a file, to save memory."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.parts: list[Packets] = []
        self.octets = tempfile.TemporaryFile()  # noqa: SIM115 (as long-lived as the plan)
        self.streams: list[tuple[int, int]] = []
        """Start and stop of the octets of each side."""
        self.connections = 0
        self.truth = Counter(dict.fromkeys(SENT, 0))
        self.key_log = ""
        self.boxes = b""

    def add(self, talk: Talk, start: float, step: float, *, copies: int = 1, gap: float = 0.0, **truth: int) -> None:
        """Add a connection whose packets are about `step` seconds apart, and copies of it, each `gap` later."""
        side, offset, length, flags = np.array(talk.packets, np.int64).T
        begins = []
        for stream in talk.streams:
            begins.append(self.octets.tell())
            self.octets.write(stream)
            self.streams.append((begins[-1], self.octets.tell()))
        advance = length + ((flags & (SYN | FIN)) != 0)
        sent = [np.cumsum(np.where(side == each, advance, 0)) for each in (CLIENT, SERVER)]
        own = np.where(side == CLIENT, sent[0] + 1000, sent[1] + 700_000) - advance
        other = np.where(side == CLIENT, sent[1] + 700_000, sent[0] + 1000)
        count = len(side)
        times = np.cumsum(step * (0.5 + self.random.random((copies, count))), axis=1)
        times += (start + np.arange(copies) * gap)[:, None]
        columns = (
            side,
            offset + np.where(side == CLIENT, *begins),
            length,
            flags,
            own,
            np.where(flags & ACK, other, 0),
        )
        numbers = np.repeat(np.arange(self.connections, self.connections + copies), count)
        self.parts.append(Packets._make((numbers, *(np.tile(column, copies) for column in columns), times.ravel())))
        self.connections += copies
        for name, value in ({"connections": 1, "greetings": 2} | truth).items():
            self.truth[name] += value * copies

    def packets(self) -> Packets:
        """Return all packets, connection by connection."""
        return Packets._make(map(np.concatenate, zip(*self.parts, strict=True)))


def plan(given: argparse.Namespace, random: np.random.Generator) -> Plan:
    """Return the traffic of a profile."""
    made = Plan(random)
    if given.profile in ("flood", "scan"):
        _add_half_open(made, given)
    elif given.profile == "short":
        _add_short(made, given)
    else:
        share, rest = divmod(given.messages, given.connections)
        add = {"reqrep": _add_pairs, "calls": _add_pairs, "curve": _add_curve}.get(given.profile, _add_bulk)
        for number in range(given.connections):
            add(made, given, share + (number < rest), number * given.stagger)
    return made


def _add_bulk(made: Plan, given: argparse.Namespace, count: int, start: float) -> None:
    """Return a connection on which one side sends as fast as it can."""
    publishing = given.profile in ("pubsub", "json")
    talk = Talk(given.mss)
    loopback = given.mss > LOOPBACK_MSS
    every = 2 if loopback else 6
    if publishing:
        talk.open(b"SUB", b"PUB", b"topic")
    else:
        talk.open(b"PUSH", b"PULL")
    sender = SERVER if publishing else CLIENT
    topics = 50 if publishing else 0
    octets, body_octets = messages(made.random, count, given.size, given.jitter, topics, json=given.profile == "json")
    if given.profile != "large":
        talk.write_all(sender, octets, WRITE, every)
    elif loopback:
        unit = given.size + 9
        for begin in range(0, len(octets), unit):
            talk.write(sender, octets[begin : begin + WRITE])
            talk.write(sender, octets[begin + WRITE : begin + unit])
            talk.acknowledge(1 - sender)
    else:
        talk.write_all(sender, octets, given.size + 9, every)
    talk.close()
    frames = 2 * count if publishing else count
    made.add(
        talk,
        start,
        4e-6,
        commands=3 if publishing else 2,
        message_frames=frames,
        messages=count,
        message_body_bytes=body_octets,
    )


def _add_pairs(made: Plan, given: argparse.Namespace, count: int, start: float) -> None:
    """Return a connection on which requests are answered one by one."""
    talk = Talk(given.mss)
    talk.open(b"REQ", b"REP")
    pool = text(made.random, 4096 + given.size)
    for number in range(count):
        if given.profile == "calls":
            request, reply = json_object(number, number * 7919, given.size), json_object(number, number, given.size)
        else:
            request = b"%08x" % number + pool[number % 4096 : number % 4096 + given.size - 8]
            reply = request[::-1]
        talk.write(CLIENT, b"\1\0" + frame(request))
        talk.write(SERVER, b"\1\0" + frame(reply))
    talk.close()
    sent = {"message_frames": 4 * count, "messages": 2 * count, "message_body_bytes": 2 * count * given.size}
    made.add(talk, start, 3e-5, commands=2, **sent)


def _add_curve(made: Plan, given: argparse.Namespace, count: int, start: float) -> None:
    """Return a connection with encrypted messages; write its key and boxes beside the capture."""
    from benchmarks.boxes import Handshake  # where it is asked for: the others need no PyNaCl

    handshake = Handshake(f"{given.seed} {made.connections}".encode())
    talk = Talk(given.mss)
    talk.greet(greeting(b"CURVE"))
    for side, body in handshake.commands(metadata(b"PUSH"), metadata(b"PULL")):
        talk.write(side, frame(body, COMMAND))
    pool = text(made.random, 4096 + given.size)
    bodies = (b"%08x" % number + pool[number % 4096 : number % 4096 + given.size - 8] for number in range(count))
    sealed = [handshake.seal(body) for body in bodies]
    octets = b"".join(map(frame, sealed))
    talk.write_all(CLIENT, octets, WRITE, 2 if given.mss > LOOPBACK_MSS else 6)
    talk.close()
    sizes = {"message_frames": count, "messages": count, "message_body_bytes": sum(map(len, sealed))}
    made.add(talk, start, 4e-6, commands=4, **sizes)
    made.key_log += handshake.key_log
    made.boxes += handshake.boxes(sealed)


def _add_short(made: Plan, given: argparse.Namespace) -> None:
    """Add connections with a handshake, a few messages in one write, and an end."""
    pool = text(made.random, 4096)
    count, variants = given.messages, min(VARIANTS, given.connections)
    share, rest = divmod(given.connections, variants)
    for variant in range(variants):
        talk = Talk(given.mss)
        talk.open(b"PUSH", b"PULL")
        starts = range(variant * 16, variant * 16 + count)
        bodies = [b"%08x" % i + pool[at : at + given.size - 8] for i, at in enumerate(starts)]
        talk.write(CLIENT, b"".join(map(frame, bodies)))
        talk.acknowledge(SERVER)
        talk.close()
        sent = {"message_frames": count, "messages": count, "message_body_bytes": count * given.size}
        copies = share + (variant < rest)
        made.add(talk, variant * 2e-4, 2e-5, copies=copies, gap=variants * 2e-4, commands=2, **sent)


def _add_half_open(made: Plan, given: argparse.Namespace) -> None:
    """Add connections that are requested, and accepted or refused, without data."""
    talk = Talk(given.mss)
    answer = SYN | ACK if given.profile == "flood" else RST | ACK
    talk.packets += [(CLIENT, 0, 0, SYN), (SERVER, 0, 0, answer)]
    made.add(talk, 0.0, 5e-6, copies=given.connections, gap=1e-5, greetings=0)


def damage(given: argparse.Namespace, made: Plan, octets: memoryview) -> Packets:
    """Return the packets in the order of the file, with the requested damage."""
    random, truth = made.random, made.truth
    packets = made.packets()
    by_time = np.argsort(packets.time, kind="stable")
    place = np.empty(len(by_time), np.float64)
    place[by_time] = np.arange(len(by_time))
    data = np.flatnonzero(packets.length > 0)
    kept = np.ones(len(place), bool)
    again, again_places = data[:0], place[:0]
    reordered = data[random.random(len(data)) < given.reorder]
    if given.reorder:
        behind = _next_of_side(packets, place, data)
        reordered = reordered[behind[reordered] >= 0]
        place[reordered] = place[behind[reordered]] + 0.5
    if given.retransmit:
        again = data[random.random(len(data)) < given.retransmit]
        again_places = place[again] + random.integers(3, 400, len(again)) + 0.25
    if given.loss:
        lost = data[random.random(len(data)) < given.loss]
        kept[lost] = False
        truth["lost_packets"] = len(lost)
        truth["message_frames_in_lost_packets"] = _touched(packets.take(lost), made, octets)
    truth["reordered_packets"], truth["retransmitted_packets"] = len(reordered), len(again)
    index = np.concatenate([np.flatnonzero(kept), again])
    index = index[np.argsort(np.concatenate([place[kept], again_places]), kind="stable")]
    times = np.sort(packets.time)
    spread = np.minimum(np.arange(len(index)) * len(times) // max(1, len(index)), len(times) - 1)
    return packets.take(index)._replace(time=times[spread])


def _next_of_side(packets: Packets, place: Column, data: Column) -> Column:
    """Return for each data packet the next one of its side, or -1."""
    flow = packets.conn * 2 + packets.side
    ordered = data[np.lexsort((place[data], flow[data]))]
    behind = np.full(len(place), -1, np.int64)
    same = flow[ordered[:-1]] == flow[ordered[1:]]
    behind[ordered[:-1][same]] = ordered[1:][same]
    return behind


def _touched(lost: Packets, made: Plan, octets: memoryview) -> int:
    """Count the message frames with at least one octet in a lost packet."""
    bounds = [
        (begin + start, begin + stop)
        for begin, end in made.streams
        for start, stop in message_frames(octets[begin:end])
    ]
    starts, stops = np.array(bounds, np.int64).reshape(-1, 2).T
    first = np.searchsorted(stops, lost.at, "right").tolist()
    behind = np.searchsorted(starts, lost.at + lost.length, "left").tolist()
    conns = lost.conn.tolist()
    return len({(conn, at) for conn, low, high in zip(conns, first, behind, strict=True) for at in range(low, high)})


def headers(packets: Packets, given: argparse.Namespace) -> tuple[NDArray[np.uint8], Column]:
    """Return the headers of packets as rows, and the length of each (a SYN has longer ones)."""
    count = len(packets.conn)
    is_syn = (packets.flags & SYN) != 0
    options = np.where(is_syn, SYN_OPTIONS, TIMESTAMP)
    rows = np.zeros((count, HEADERS + SYN_OPTIONS), np.uint8)
    captured = HEADERS - 16 + options + packets.length
    microseconds = np.round(packets.time * 1e6).astype(np.int64)

    def put(column: int, values: Column, form: str) -> None:
        octets = np.ascontiguousarray(values.astype(form)).view(np.uint8)
        rows[:, column : column + octets.size // count] = octets.reshape(count, -1)

    for column, values in enumerate((START + microseconds // 1_000_000, microseconds % 1_000_000, captured, captured)):
        put(column * 4, values, "<u4")
    from_client = packets.side == CLIENT
    host = np.where(from_client, 1, 2)
    rows[:, 16], rows[:, 21], rows[:, 22], rows[:, 27], rows[:, 28] = 2, 3 - host, 2, host, 8
    rows[:, 30], rows[:, 36], rows[:, 38], rows[:, 39] = 0x45, 0x40, 64, 6
    put(32, captured - 14, ">u2")
    put(34, np.arange(count) & 0xFFFF, ">u2")
    client = 0x0A000100 + packets.conn // 20_000  # 10.0.1.0 and above, 20,000 ports each
    server = np.full(count, 0x0A000002)
    put(42, np.where(from_client, client, server), ">u4")
    put(46, np.where(from_client, server, client), ">u4")
    total = rows[:, 30:50].view(">u2").sum(axis=1, dtype=np.int64)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    put(40, ~total & 0xFFFF, ">u2")
    client_port = 30_000 + packets.conn % 20_000
    server_port = 1 + packets.conn % 65_535 if given.profile == "scan" else np.full(count, given.port)
    put(50, np.where(from_client, client_port, server_port), ">u2")
    put(52, np.where(from_client, server_port, client_port), ">u2")
    put(54, packets.sequence & 0xFFFFFFFF, ">u4")
    put(58, packets.acknowledgment & 0xFFFFFFFF, ">u4")
    rows[:, 62], rows[:, 63] = (20 + options) // 4 << 4, packets.flags
    put(64, np.full(count, 512), ">u2")
    clock = np.ascontiguousarray((microseconds // 1000).astype(">u4")).view(np.uint8).reshape(count, 4)
    rows[:, 70:74] = 1, 1, 8, 10
    rows[:, 74:78] = rows[:, 78:82] = clock
    rows[is_syn, 70:] = np.frombuffer(b"\2\4\5\xb4\4\2\x08\x0a" + bytes(8) + b"\1\3\3\x0a", np.uint8)
    rows[is_syn, 78:82] = clock[is_syn]
    return rows, HEADERS + options


def write(file: IO[bytes], packets: Packets, octets: memoryview, given: argparse.Namespace) -> int:
    """Write the capture and return its size in octets."""
    written = file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
    for low in range(0, len(packets.conn), AT_ONCE):
        some = packets.take(slice(low, low + AT_ONCE))
        rows, used = headers(some, given)
        heads, width = rows.tobytes(), rows.shape[1]
        parts: list[bytes | memoryview] = []
        ranges = zip(used.tolist(), some.at.tolist(), some.length.tolist(), strict=True)
        for row, (head, at, length) in enumerate(ranges):
            parts.append(heads[row * width : row * width + head])
            if length:
                parts.append(octets[at : at + length])
        written += file.write(b"".join(parts))
    return written


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="make_capture", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("output", help="pcap file to write, - for standard output")
    parser.add_argument("--messages", type=int, help="in all (short: per connection; reqrep and calls: pairs in all)")
    parser.add_argument("--connections", type=int)
    parser.add_argument("--size", type=int, help="octets of a body, at least 8")
    parser.add_argument("--jitter", type=int, default=0, help="sizes differ by up to so much (not with large)")
    parser.add_argument("--mss", type=int, help="largest segment; above 4000 as on loopback")
    parser.add_argument("--stagger", type=float, default=1e-3, help="seconds between the starts of connections")
    parser.add_argument("--port", type=int, default=5555)
    parser.add_argument("--loss", type=float, default=0.0, help="fraction of data packets")
    parser.add_argument("--reorder", type=float, default=0.0)
    parser.add_argument("--retransmit", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def main() -> None:
    """Write the capture that the command line requests."""
    parser = arguments()
    given = parser.parse_args()
    for name, value in zip(("messages", "connections", "size", "mss"), PROFILES[given.profile], strict=True):
        if getattr(given, name) is None:
            setattr(given, name, value)
    if given.size - given.jitter < 8:
        parser.error("a body has at least 8 octets: --size, --jitter")
    if given.profile == "large" and given.jitter:
        parser.error("the messages of large are all alike: leave out --jitter")
    made = plan(given, np.random.default_rng(given.seed))
    made.octets.flush()
    has_octets = made.octets.tell() > 0
    with mmap.mmap(made.octets.fileno(), 0, access=mmap.ACCESS_READ) if has_octets else nullcontext(b"") as mapped:
        octets = memoryview(mapped)
        packets = damage(given, made, octets)
        to_stdout = given.output == "-"
        with nullcontext(sys.stdout.buffer) if to_stdout else open(given.output, "wb") as file:
            file_octets = write(file, packets, octets, given)
        octets.release()
    if not to_stdout:
        if made.key_log:
            Path(f"{given.output}.keys").write_text(made.key_log)
            Path(f"{given.output}.boxes").write_bytes(made.boxes)
        truth = dict(made.truth) | {
            "packets": len(packets.conn),
            "data_packets": int((packets.length > 0).sum()),
            "tcp_payload_bytes": int(packets.length.sum()),
            "file_bytes": file_octets,
        }
        with open(given.output + ".truth.json", "w") as file_of_truth:
            json.dump(truth, file_of_truth, indent=1)
            file_of_truth.write("\n")


if __name__ == "__main__":
    main()
