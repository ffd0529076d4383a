"""Properties that hold for every case, as a table: each check raises `Fault` if one does not hold."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import re
import shutil
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import orjson
import pyarrow.parquet as pq

from tests.capture.containers import Packet, pcapng
from tests.dissect.test_seams_payloads import NOT_JUDGED
from tests.export.test_secrets_of_payloads import PASSWORD
from tests.fuzz.changes import stream_of
from tests.fuzz.core import FORBIDDEN, FORMS, LISTENERS, goes_on_or_ends, reads_alike
from tests.fuzz.faults import Fault
from tests.fuzz.readings import Record, Subject
from tests.fuzz.sockets import serves_among_hostile
from tests.fuzz.talks import predictable
from tests.fuzz.wire import Endpoint, endpoints, packets_of, reverse, segments_of
from tests.invariants import COMPARING, differs_by_blocks
from tests.octets import SUMMANDS, octets_named
from tests.spark.test_p12_formats_agree import COLUMNS, json_rows
from zmtpscope.capture import open_captures
from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect import Analyser
from zmtpscope.dissect.records.sink import Summary
from zmtpscope.export.clock import rfc_3339
from zmtpscope.export.tables import CELLS, Tables, json_cell, text_cell
from zmtpscope.filter.fields import FIELDS
from zmtpscope.findings import FINDINGS, SEVERITIES
from zmtpscope.records import PLURALS, RECORDS, SECOND


def sums(subject: Subject) -> None:
    """Every captured octet is accounted for, and every octet of a stream was captured."""
    if not subject.reading.summary.sums.hold():
        raise Fault("a sum does not come out even", str(subject.reading.summary.sums))


def summary(subject: Subject) -> None:
    """The counts are the same without records."""
    with_records, without = (
        {name: counted(getattr(each, name)) for name in Summary.__dataclass_fields__}
        for each in (subject.reading.summary, subject.read(records=False).summary)
    )
    for name, value in with_records.items():
        if value != without[name]:
            raise Fault(f"{name} is counted otherwise without records", f"{value}\n{without[name]}")


def counted(value: Any) -> Any:
    """Return the counts of a summary, without findings that are not evaluated if records are only counted."""
    if not isinstance(value, dict):
        return value
    return {key: number for key, number in value.items() if not (isinstance(key, tuple) and key[1] in NOT_JUDGED)}


def octets(subject: Subject) -> None:
    """Every octet of a stream belongs to exactly one record; records and sums agree."""
    naming = octets_named(subject.records)
    for fault in naming.faults:
        raise Fault(re.sub("[0-9]+", "N", fault), fault)
    for name in SUMMANDS:
        if naming.octets[name] != getattr(subject.reading.summary.sums, name):
            raise Fault(
                f"the sum of {name} is not what records name", f"{naming.octets} {subject.reading.summary.sums}"
            )


def identities(subject: Subject) -> None:
    """No two records have the same identity (records.md). Several findings may refer to one place."""
    names = Counter(
        (each["conn_id"], each["side"], each.get("source"), each.get("offset"), each["record"])
        for each in subject.records
        if each["record"] not in ("finding", "datagram", "zre_pair")
    )
    for name, count in names.items():
        if count > 1:
            raise Fault(f"{count} records of type {name[-1]} have one identity", str(name))


# -- records -----------------------------------------------------------------------------------------------------------

CONFIDENCE = {"proven", "likely", "guess"}
VERSIONS = {"1.0", "2.0", "3.0", "3.1"}
WORDS: dict[tuple[str, str], set[str]] = {
    ("connection", "version"): VERSIONS,
    ("connection", "transport"): {"tcp", "ws"},
    ("connection", "handshake"): {"complete", "failed", "incomplete", "unseen"},
    ("connection", "close"): {"fin", "rst", "open", "reused", "evicted"},
    ("connection", "confidence"): CONFIDENCE,
    ("message", "version"): VERSIONS,
    ("message", "kind"): {"data", "subscribe", "cancel", "encrypted"},
    ("message", "bodies_kept"): {"full", "head", "none"},
    ("message", "confidence"): CONFIDENCE,
    ("stall", "until"): {"opened", "disconnected", "unseen", "running"},
    ("retransmission", "until"): {"acknowledged", "disconnected", "unseen", "running"},
    ("finding", "answer"): {"lost", "reset", "both"},
    ("leftover", "kind"): {"unfinished", "undissected"},
    ("datagram", "kind"): {"beacon", "radio"},
    ("datagram", "confidence"): CONFIDENCE,
    ("finding", "severity"): set(SEVERITIES),
    ("finding", "id"): set(FINDINGS),
}

SIDES = {"side", "opened_by", "closed_by", "reset_by", "security_server"}
ALWAYS = {
    *("schema", "record", "conn_id", "ts_ns", "packet", "src_ip", "src_port", "dst_ip", "dst_port"),
    *("start_ns", "end_ns", "transport", "handshake", "close", "confidence", "complete", "kind", "bodies_kept"),
    *("messages_0", "messages_1", "gap_bytes", "undissected_bytes", "id", "severity", "refs", "reason"),
}
"""Fields that are never null; `reason` in gaps only."""
OF_CONNECTIONS = {"conn_id", "packet", "src_ip", "src_port", "dst_ip", "dst_port"}
"""Fields of connections that findings about whole captures do not have."""
CONN_ID = re.compile("[0-9a-f]{16}")
REFERENCE = re.compile("[0-9a-f]{16}/[01-]?/[0-9]*/[0-9]*/[a-z_]+")


def schema(subject: Subject) -> None:
    """Every line has the fields of its type in records.py and docs/records.md."""
    for line, record in zip(subject.reading.lines, subject.records, strict=True):
        if line.count(b"\n") != 1 or not line.endswith(b"\n"):
            raise Fault("a record is not one line", line[:300].decode())
        fields = RECORDS[record["record"]].fields
        time = record.get("time")
        if [name for name in record if name != "time"] != [field.name for field in fields]:
            raise Fault("fields of a record are not those of its type", str(list(record)))
        seconds, nanoseconds = divmod(record["ts_ns"], SECOND)
        if time != f"{rfc_3339(seconds).decode()}.{nanoseconds:09d}Z":
            raise Fault("time is not ts_ns in words", f"{time} {record['ts_ns']}")
        for field in fields:
            if not fits(record[field.name], field.type):
                raise Fault(f"{record['record']}.{field.name} is no {field.type}", repr(record[field.name])[:200])
            must_be(record, field.name)


def must_be(record: Record, name: str) -> None:
    """Check the values of one field beyond its type."""
    value, kind = record[name], record["record"]
    if value is None:
        is_of_capture = str(record.get("id")).startswith("CAPTURE-") and name in OF_CONNECTIONS
        if name in ALWAYS and not is_of_capture and (kind, name) not in (("command", "reason"), ("finding", "packet")):
            raise Fault(f"{kind}.{name} is null", str(record)[:300])
        return
    good = (
        value in WORDS.get((kind, name), {value})
        if isinstance(value, str)
        else value >= 0
        if isinstance(value, int) and name not in ("ttl_ms", "nonce")
        else True
    )
    good = good and (name not in SIDES or value in (0, 1)) and (name != "conn_id" or CONN_ID.fullmatch(value))
    good = good and (name != "refs" or all(map(REFERENCE.fullmatch, value)))
    if not good:
        raise Fault(f"{kind}.{name} cannot be this", repr(value)[:200])


def fits(value: Any, type_: str) -> bool:
    """Whether a value of a JSON line is of a logical type, or null."""
    if value is None:
        return True
    if type_.startswith("list<"):
        return isinstance(value, list) and all(each is not None and fits(each, type_[5:-1]) for each in value)
    if type_.startswith("struct<"):
        members = dict(member.split(":") for member in type_[7:-1].split(","))
        return (
            isinstance(value, dict)
            and list(value) == list(members)
            and all(fits(value[name], member) for name, member in members.items())
        )
    if type_ == "int":
        return type(value) is int and -(2**63) <= value < 2**63
    if type_ == "octets":
        try:
            return isinstance(value, str) and base64.b64encode(base64.b64decode(value, validate=True)) == value.encode()
        except binascii.Error:
            return False
    return type_ == "json" or isinstance(value, {"text": str, "bool": bool}[type_])


def messages(subject: Subject) -> None:
    """All fields of a message agree, and connections count the messages that were sent."""
    sent: Counter[tuple[int, int]] = Counter()
    for record in subject.records:
        if record["record"] != "message":
            continue
        sent[record["conn"], record["side"]] += 1
        sizes, bodies = record["sizes"], record["bodies"]
        if sizes is not None and record["parts"] != len(sizes):
            raise Fault("parts is not the number of sizes", str(record)[:300])
        if bodies is not None and sizes is not None and record["bodies_kept"] == "full" and record["complete"]:
            lengths = [len(base64.b64decode(body)) for body in bodies]
            if lengths != sizes:
                raise Fault("bodies have other sizes", f"{lengths} {sizes}")
    for record in subject.records:
        if record["record"] == "connection":
            for side in (0, 1):
                if sent[record["conn"], side] != record[f"messages_{side}"]:
                    raise Fault(f"messages_{side} is not their number", str(record)[:300])


# -- output on terminals
# --------------------------------------------------------------------------------------------------


def safe_text(subject: Subject) -> None:
    """Output contains no character that a terminal might interpret."""
    for character in sorted(set(subject.text) - {"\n"}):
        if unicodedata.category(character) in FORBIDDEN:
            at = subject.text.index(character)
            raise Fault("a forbidden character", repr(subject.text[max(0, at - 100) : at + 20]))


LETTERS = re.compile(r"(?m)^    [0-9a-f]{8}  .{47}  (.*)$")


def secrets(subject: Subject) -> None:
    """The password of our own conversations is never printed, if its messages are complete and parsed correctly."""
    if not subject.case.is_harmless or "decode_as" in subject.case.reading or "payloads" in subject.case.reading:
        return
    if PASSWORD in subject.text or PASSWORD in "".join(LETTERS.findall(subject.text)):
        raise Fault("a password in text")
    for record in subject.records:
        if any(PASSWORD.encode() in octets for octets in octets_of(record)):
            raise Fault(f"a password in a {record['record']}", str(record)[:600])


def octets_of(value: Any) -> Iterable[bytes]:
    """Yield all texts and all possible base64 in a JSON value, as octets."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from octets_of(each)
    elif isinstance(value, str):
        yield value.encode()
        with suppress(ValueError):
            yield base64.b64decode(value, validate=True)


# -- the same capture, read in other ways
# ----------------------------------------------------------------------------------


def blocks(subject: Subject) -> None:
    """The records and their order do not depend on the number of packets that are read at a time."""
    random = Random(subject.case.salt)
    # not both: which octets of frames are shown depends on blocks where payloads are read (limitations.md)
    more = random.choice(({}, {"frames": True}, {"details": True}))
    for octets in subject.case.files:
        difference = differs_by_blocks(octets, lambda: subject.options(**more), subject.case.salt)
        if difference is not None:
            raise Fault("what is said depends on blocks", difference)


def reads(subject: Subject) -> None:
    """The records do not depend on the number of octets of a file that are read at a time."""
    size = max(1, subject.case.octets // Random(subject.case.salt).choice((2, 3, 5, 10, 40)))
    lines = subject.read(block_size=size).lines
    if lines != subject.reading.lines:
        pairs = enumerate(zip(lines, subject.reading.lines, strict=False))
        place = next((place for place, (one, other) in pairs if one != other), len(lines))
        few = f"{lines[place : place + 1]}\n{subject.reading.lines[place : place + 1]}"
        raise Fault("what is said depends on reads", f"{size} octets at a time, {len(lines)} lines: {few}")


def connections(subject: Subject) -> None:
    """The records of a connection do not depend on other connections in the capture, if it ends at the same time.

    Fragments belong to two hosts, not to a connection.
    """
    if len(subject.paths) > 1 or "fragments" in subject.case.made:
        return
    flows, packets = flows_of(subject.paths[0])
    gone = {key for key in flows.values() if zlib.crc32(min(key, reverse(key)), subject.case.salt) % 2}
    if not gone or gone == set(flows.values()):
        return
    last = max(flows, key=lambda number: packets[number - 1].time)
    kept = [packet for number, packet in enumerate(packets, 1) if number == last or flows.get(number) not in gone]
    every, few = (by_connection(read_anew(subject, each)) for each in (packets, kept))
    ends = {endpoints(key) for key in gone}
    for name, some in few.items():
        is_kept = who_to_whom(some[0]) not in ends and who_to_whom(some[0])[::-1] not in ends
        if is_kept and every.get(name) != some:
            left, right = first_difference(every.get(name, []), some)
            kind = (left or right or {}).get("record")
            raise Fault(f"{kind} depends on other connections", f"\n{left}\n{right}")


def who_to_whom(record: Record) -> tuple[Endpoint, Endpoint]:
    return (record["src_ip"], record["src_port"]), (record["dst_ip"], record["dst_port"])


def read_anew(subject: Subject, packets: list[Packet]) -> list[Record]:
    path = subject.folder / "some.pcapng"
    path.write_bytes(pcapng(packets))
    return subject.read([path]).records


def flows_of(path: Path) -> tuple[dict[int, bytes], list[Packet]]:
    """Return the flow of each TCP packet of a file, by its number, and all packets."""
    flows = {}
    for block in open_captures([str(path)]):
        for flow, reference in zip(block.flows.tolist(), block.packets.tolist(), strict=True):
            flows[reference & PACKET_MASK] = block.keys[flow]
    return flows, packets_of(path)


NUMBERING = ("conn", "file", "packet", "packet_end", "last_packet", "conn_0", "conn_1")


def by_connection(records: list[Record]) -> dict[str, list[Record]]:
    """Return the records of each TCP connection, without fields that count over the capture and records that compare
    connections."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record["conn"] is None or record["record"] == "zre_pair" or COMPARING.match(record.get("id") or ""):
            continue
        plain = {name: value for name, value in record.items() if name not in NUMBERING}
        found.setdefault(record["conn_id"], []).append(plain)
    return found


def first_difference(one: list[Record], other: list[Record]) -> tuple[Record | None, Record | None]:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return left, right
    return (one[len(other)], None) if len(one) > len(other) else (None, other[len(one)])


def proven(subject: Subject) -> None:
    """If packets are lost, no message is proven that the complete capture lacks."""
    if not subject.case.is_whole:
        return
    packets, salt = packets_of(subject.paths[0]), subject.case.salt
    rate = (3, 10, 30)[salt % 3]
    left = [packet for packet in packets if zlib.crc32(packet.octets, salt) % rate]
    known = {name_of(record) for record in subject.records if record["record"] == "message"}
    for record in read_anew(subject, left):
        sure = record["record"] == "message" and record["confidence"] == "proven" and record["complete"]
        if sure and name_of(record) not in known:
            raise Fault("a proven message that the whole capture lacks", str(record)[:600])


def harmless(subject: Subject) -> None:
    """Packets that are repeated, split differently or tunnelled change no record."""
    talk = subject.case.talk
    if talk is None or not talk.honest or not subject.case.is_harmless or reorders(subject.case.made):
        return
    before, after = (
        Counter(name_of(record) for record in records if record["record"] == "message")
        for records in (read_anew(subject, list(talk.packets)), subject.records)
    )
    if before != after:
        raise Fault("messages are not those that were sent", f"{before - after}\n{after - before}"[:1000])


def reorders(made: Iterable[str]) -> bool:
    """Whether packets were moved, perhaps further than a hole is waited for."""
    return any("reordered" in name for name in made)


def name_of(record: Record) -> tuple[Any, ...]:
    ends = tuple(record[name] for name in ("src_ip", "src_port", "dst_ip", "dst_port"))
    return *ends, record["kind"], str(record["sizes"]), str(record["bodies"])


def tables(subject: Subject) -> None:
    """CSV and Parquet have the same contents as JSON lines."""
    options = subject.options(frames=True)
    expected: dict[str, list[bytes]] = {record: [] for record in RECORDS}
    for line in subject.read(frames=True).lines:
        expected[orjson.loads(line)["record"]].append(line)
    for form in ("csv", "parquet"):
        folder = subject.folder / form
        with Tables(folder, form, COLUMNS, options, force=True) as made:
            for batch in Analyser(options).run(open_captures(list(map(str, subject.paths)))):
                made.add(batch)
            made.commit()
        for record, lines in expected.items():
            path = folder / f"{PLURALS[record]}.{form}"
            rows = csv_rows(path) if form == "csv" else pq.read_table(path).to_pylist()
            wanted = csv_wanted(record, lines) if form == "csv" else json_rows(record, lines)
            if rows != wanted:
                place = next((i for i, pair in enumerate(zip(rows, wanted, strict=False)) if pair[0] != pair[1]), -1)
                few = f"{rows[place : place + 1]}\n{wanted[place : place + 1]}"
                raise Fault(f"{form} of {PLURALS[record]} is not as JSON", few)
        shutil.rmtree(folder)


csv.field_size_limit(1 << 30)


def csv_rows(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))[1:]


def csv_wanted(record: str, lines: list[bytes]) -> list[list[str]]:
    """Return the cells of JSON lines as a reader of CSV parses them."""
    of_types = CELLS | {"octets": text_cell}  # JSON has base64
    cells = {field.name: of_types.get(field.type, json_cell) for field in RECORDS[record].fields} | {"time": str}
    text = "".join(
        ",".join("" if value is None else cells[name](value) for name, value in orjson.loads(line).items()) + "\r\n"
        for line in lines
    )
    return list(csv.reader(io.StringIO(text, newline="")))


READ, NOT_A_CAPTURE = {0, 3}, {2}
"""Exit codes of `read` and `export`: success or damage; not a capture."""


def command_line(subject: Subject) -> None:
    """Commands print no traceback, end with documented exit codes, and print no character that a terminal might
    interpret."""
    out = str(subject.folder / "tables")
    for arguments in (
        ["read", "-V", "-x"],
        ["read", "-q", "--stats"],
        ["read", "--frames", "-T", "fields", "-t", "d", *(word for name in FIELDS for word in ("-e", name))],
        ["stats"],
        ["stats", "--by", "topic", "--interval", "1ms"],
        ["scan"],
        ["top", "-Y", "size > 100"],
        ["export", "-o", out, "--force", "--frames"],
    ):
        code, text = subject.command(*arguments)
        if code not in (READ if subject.readable else NOT_A_CAPTURE):
            raise Fault(f"exit code {code} of {arguments[0]}", text[-300:].decode(errors="replace"))
        shown = set(text.decode()) - {"\n", "\t"}
        if any(unicodedata.category(character) in FORBIDDEN for character in shown):
            raise Fault(f"a forbidden character of {arguments[0]}", repr(text[:300]))
    shutil.rmtree(out, ignore_errors=True)


MAX_SECONDS, SECONDS_AN_OCTET = 1.0, 50e-6
MAX_MEMORY, MEMORY_AN_OCTET = 100 << 20, 1000
"""Generous limits, so that a busy machine causes no fault: usual values are 2 us and a few octets."""


def cost(subject: Subject) -> None:
    """Time and memory are bounded by the octets of the capture."""
    _, seconds, grown = subject.measured
    if seconds > MAX_SECONDS + SECONDS_AN_OCTET * subject.case.octets:
        raise Fault("too much time", f"{seconds:.2f} s for {subject.case.octets} octets")
    if grown > MAX_MEMORY + MEMORY_AN_OCTET * subject.case.octets:
        raise Fault("too much memory", f"{grown} octets for {subject.case.octets} octets")


# -- the core ----------------------------------------------------------------------------------------------------------


def streams_of(subject: Subject) -> Iterator[tuple[bytes, bytes]]:
    """Yield the octets of each direction of a case, after its flow key."""
    segments = segments_of(subject.folder, subject.case.files[0])
    for key in sorted({segment.key for segment in segments if segment.payload}):
        yield key, stream_of(segments, key).octets


def pieces(octets: bytes, random: Random) -> list[int]:
    return [random.randrange(len(octets) + 1) for _ in range(random.choice((1, 1, 5, 30)))]


def core(subject: Subject) -> None:
    """Feed the captured octets to the readers of the core, and to a peer.

    Octets that one of our own peers sent are fed to the other one: with the same randomness it would accept them.
    """
    random, talk = Random(subject.case.salt), subject.case.talk
    for key, octets in streams_of(subject):
        reads_alike(octets, random.choice(FORMS), pieces(octets, random))
        numbered = random.choice(LISTENERS), random.randrange(100)
        if talk is not None and talk.peers:
            numbered = talk.peers[key == talk.segments[0].key]
        goes_on_or_ends(predictable(*numbered), octets, pieces(octets, random))


def sockets(subject: Subject) -> None:
    """Connect a socket to peers that send the captured octets, and to one correct peer, which must be served."""
    streams = [octets for _, octets in streams_of(subject)]
    serves_among_hostile(streams, Random(subject.case.salt))


class Check(NamedTuple):
    """A check that runs in one of `every` cases; with `unreadable` also for files that are no captures. A failing
    case is reduced if the check `shrinks`, which excludes checks that compare a case with its origin."""

    name: str
    hold: Callable[[Subject], None]
    every: int = 1
    unreadable: bool = False
    shrinks: bool = True


CHECKS = (
    Check("sums", sums),
    Check("summary", summary, 5),
    Check("octets", octets),
    Check("identities", identities),
    Check("schema", schema),
    Check("messages", messages),
    Check("safe text", safe_text),
    Check("secrets", secrets),
    Check("blocks", blocks, 3),
    Check("reads", reads),
    Check("connections", connections),
    Check("proven", proven),
    Check("harmless", harmless, shrinks=False),
    Check("tables", tables, 10),
    Check("command line", command_line, 20, unreadable=True),
    Check("cost", cost),
    Check("core", core),
    Check("sockets", sockets, 200, shrinks=False),
)
