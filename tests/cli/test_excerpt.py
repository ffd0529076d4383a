"""`read -w`: the packets of the shown records, copied once each, with findings as comments."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from scapy.utils import RawPcapNgReader

from tests.cli.running import Run
from tests.readings import CAPTURES, PUBSUB
from zmtpscope.capture.captures import read_packets
from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.excerpt import copying, wanted
from zmtpscope.export.safe_text import safe_text

PACKET_BLOCK, SECTION_BLOCK, INTERFACE_BLOCK, COMMENT = 6, 0x0A0D0D0A, 1, 1


class Written(NamedTuple):
    time: int
    octets: bytes
    comment: str


def blocks(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and body of every block of a file, which has nothing else."""
    at = 0
    while at < len(octets):
        kind, length = struct.unpack_from("<II", octets, at)
        assert octets[at + length - 4 : at + length] == octets[at + 4 : at + 8]
        yield kind, octets[at + 8 : at + length - 4]
        at += length


def packets_in(path: pathlib.Path) -> list[Written]:
    """Return the packets of an excerpt, read by the format and by scapy."""
    found = []
    for kind, body in blocks(path.read_bytes()):
        assert kind in (PACKET_BLOCK, SECTION_BLOCK, INTERFACE_BLOCK)  # no secrets, no names
        if kind == PACKET_BLOCK:
            _, high, low, size, _ = struct.unpack_from("<5I", body)
            options, comment = body[20 + size + -size % 4 :], ""
            if options:
                code, length = struct.unpack_from("<HH", options)
                assert code == COMMENT
                comment = options[4 : 4 + length].decode()
            found.append(Written((high << 32) + low, body[20 : 20 + size], comment))
    with open(path, "rb") as file:
        assert [octets for octets, _ in RawPcapNgReader(file)] == [each.octets for each in found]
    return found


def packets_of(path: pathlib.Path) -> dict[int, tuple[int, bytes]]:
    """Time and octets of each packet of a capture, by its number."""
    return {
        reference & PACKET_MASK: (time, block.data[start:stop])
        for block in read_packets([str(path)])
        for reference, time, start, stop in zip(
            *(each.tolist() for each in (block.references, block.times, block.starts, block.stops)), strict=True
        )
    }


def excerpt(
    zmtpscope: Run, capture: pathlib.Path, target: pathlib.Path, filter: str, *more: object
) -> tuple[list[dict[str, Any]], list[Written]]:
    """Return the records that match a filter, and their packets."""
    code, output, _ = zmtpscope("read", "--json", capture, "-Y", filter, "-w", target, *more)
    assert code in (0, 3)
    return [json.loads(line) for line in output.splitlines()], packets_in(target)


SAMPLE = [
    *("patterns/pubsub.pcap", "patterns/frame-sizes.pcap", "network/one-octet-segments.pcap", "damage/reordered.pcap"),
    *("damage/one-segment-lost.pcap", "network/vlan.pcap", "network/pcapng-mixed-links.pcapng", "versions/1.0.pcap"),
    *("network/pcap-gzip.pcap.gz", "damage/cut-file.pcap", "implementations/jupyter.pcap"),
]
FILTERS = [
    "record == message",
    "topic",
    "size > 300",
    "record == command",
    'record == "finding"',
    "conn == 2",
    "bytes > 0",
]


@pytest.mark.parametrize("name", [name for name in SAMPLE if (CAPTURES / name).exists()])
def test_packets_of_the_records_are_written_once_each_and_unchanged(
    zmtpscope: Run, tmp_path: pathlib.Path, name: str
) -> None:
    everything = packets_of(CAPTURES / name)
    numbers: dict[tuple[int, bytes], list[int]] = {}
    for number, packet in everything.items():
        numbers.setdefault(packet, []).append(number)
    for filter in FILTERS:
        records, written = excerpt(zmtpscope, CAPTURES / name, tmp_path / "out.pcapng", filter)
        left = {packet: list(found) for packet, found in numbers.items()}
        order = [left[each.time, each.octets].pop(0) for each in written]  # fails if an item repeats
        assert order == sorted(order)
        named = {
            each[field] for each in records for field in ("packet", "packet_end", "last_packet") if each.get(field)
        }
        assert {everything[number] for number in named} <= {(each.time, each.octets) for each in written}
        for each in written:
            assert all(safe_text(line) == line for line in each.comment.split("\n"))


@pytest.mark.parametrize(
    "name", ["network/one-octet-segments.pcap", "damage/reordered.pcap", "patterns/frame-sizes.pcap"]
)
def test_all_octets_of_a_message_are_there(zmtpscope: Run, tmp_path: pathlib.Path, name: str) -> None:
    """A user who names the port finds every selected message in the excerpt."""
    largest = 2000 if "sizes" in name else 3
    filter = f"record == message and size > {largest}"
    records, written = excerpt(zmtpscope, CAPTURES / name, tmp_path / "out.pcapng", filter)
    assert records
    payload = b"".join(each.octets for each in written)
    for record in records:
        bodies = [base64.b64decode(body) for body in record["bodies"]]
        assert sum(map(len, bodies)) <= len(payload)
        if record["packet"] == record["packet_end"]:
            assert all(body in payload for body in bodies)
    packets = {each["packet"] for each in records} | {each["packet_end"] for each in records}
    assert len(written) >= len(packets)
    if "octet" in name:
        assert len(written) >= sum(record["length"] for record in records)


def test_a_connection_is_all_its_packets(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    _, written = excerpt(zmtpscope, PUBSUB, tmp_path / "out.pcapng", "record == connection and conn == 1")
    code, output, _ = zmtpscope("read", "--json", tmp_path / "out.pcapng")
    _, before, _ = zmtpscope("read", "--json", PUBSUB, "-Y", "conn == 1")
    assert code == 0
    assert [(each["record"], each.get("offset")) for each in map(json.loads, output.splitlines())] == [
        (each["record"], each.get("offset")) for each in map(json.loads, before.splitlines())
    ]
    assert len(written) > 15


def test_an_excerpt_has_the_packets_that_a_finding_is_about(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path = CAPTURES / "security" / "incompatible-socket-types.pcap"
    _, output, _ = zmtpscope("read", "--json", path)
    records = [json.loads(line) for line in output.splitlines()]
    named = {
        f"{each['conn_id']}/{each['side']}/{each['source']}/{each['offset']}/{each['record']}": each["packet"]
        for each in records
        if each.get("offset") is not None and each["record"] != "finding"
    }
    findings = [each for each in records if each["record"] == "finding" and each["refs"]]
    assert findings
    everything = packets_of(path)
    for finding in findings:
        _, written = excerpt(zmtpscope, path, tmp_path / "out.pcapng", f'id == "{finding["id"]}"')
        about = {everything[named[reference]] for reference in finding["refs"] if reference in named}
        assert about <= {(each.time, each.octets) for each in written}


def test_comments_are_the_words_of_read(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    _, written = excerpt(zmtpscope, PUBSUB, tmp_path / "out.pcapng", "topic == a.topic and conn == 2")
    assert written[0].comment.split("\n") == [f'c2 message 7+9 octets "a.topic"  payload {n}' for n in range(3)]
    _, shown, _ = zmtpscope("read", PUBSUB, "-Y", "topic == a.topic and conn == 2", "-w", tmp_path / "again.pcapng")
    assert all(line.removeprefix("c2 ") in shown for line in written[0].comment.split("\n"))


def test_an_excerpt_stays_encrypted(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path, keys = CAPTURES / "security" / "curve-with-key-log.pcap", CAPTURES / "security" / "curve-with-key-log.keys"
    options = ("--keys", keys)
    records, written = excerpt(zmtpscope, path, tmp_path / "out.pcapng", "decrypted and record == message", *options)
    assert records
    texts = [base64.b64decode(body).decode("latin-1") for each in records for body in each["bodies"] if len(body) > 8]
    comments = "\n".join(each.comment for each in written)
    assert "decrypted message" in comments
    assert not [text for text in texts if text[:8] in comments]
    _, written = excerpt(zmtpscope, path, tmp_path / "all.pcapng", "decrypted", *options, "--show-secrets")
    assert [text for text in texts if text[:8] in "\n".join(each.comment for each in written)]


def test_packets_that_are_kept_exist(zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = CAPTURES / "patterns" / "many-small.pcap"
    whole = excerpt(zmtpscope, path, tmp_path / "whole.pcapng", "record == message")[1]
    monkeypatch.setattr(wanted, "MIN_PACKETS", 10)
    assert excerpt(zmtpscope, path, tmp_path / "out.pcapng", "record == message")[1] == whole


def test_comments_are_bounded(zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted, "MAX_LINES", 2)
    _, written = excerpt(zmtpscope, PUBSUB, tmp_path / "out.pcapng", "topic == a.topic")
    assert written[0].comment.split("\n")[2:] == ["and 1 more record"]
    monkeypatch.setattr(wanted, "MAX_OCTETS", 200)
    code, _, errors = zmtpscope("read", PUBSUB, "-w", tmp_path / "out.pcapng")
    assert (code, "has no comments near its end" in errors) == (0, True)


def test_without_a_filter_all_that_is_zmtp_is_written(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    code, _, errors = zmtpscope(
        "read", "-q", CAPTURES / "negative" / "auliamghfr-mqtt.pcap", "-w", tmp_path / "out.pcapng"
    )
    assert code == 0
    assert packets_in(tmp_path / "out.pcapng") == []
    code, _, errors = zmtpscope("read", "-q", PUBSUB, "-w", tmp_path / "out.pcapng")
    refused = 14  # a finding about attempts has their first and last packet
    assert f"{tmp_path}/out.pcapng: {len(packets_of(PUBSUB)) - 2 * refused} packets, " in errors


def test_an_excerpt_of_a_pipe_or_over_its_own_capture_is_refused(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    target, pipe = tmp_path / "out.pcapng", tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, name in (("-", "standard input"), (pipe, str(pipe))):
        code, _, errors = zmtpscope("read", path, "-w", target)
        assert (code, f"-w reads each capture twice, but {name} can be read only once" in errors) == (2, True)
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(PUBSUB.read_bytes())
    code, _, errors = zmtpscope("read", copy, "-w", copy)
    assert (code, "is the capture being read" in errors) == (2, True)
    assert copy.read_bytes() == PUBSUB.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["copy.pcap", "pipe"]


def test_an_excerpt_appears_when_it_is_complete(
    zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.pcapng").write_text("of yesterday")

    def fail(*_: object) -> Iterator[bytes]:
        raise OSError(28, "No space left on device", "out.pcapng")

    monkeypatch.setattr(copying, "_blocks", fail)
    code, _, errors = zmtpscope("read", PUBSUB, "-w", tmp_path / "out.pcapng")
    assert (code, "No space left" in errors) == (1, True)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out.pcapng", "of yesterday")]


def test_several_files_and_folders(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    names = ["patterns/pubsub.pcap", "patterns/reqrep.pcap"]
    for name in names:
        (folder / pathlib.Path(name).name).write_bytes((CAPTURES / name).read_bytes())
    code, _, _ = zmtpscope("read", "-q", folder, "-w", folder / "out.pcapng", "-Y", "record == message")
    assert code == 0
    apart = 0
    for name in names:
        apart += len(excerpt(zmtpscope, CAPTURES / name, tmp_path / "one.pcapng", "record == message")[1])
    assert len(packets_in(folder / "out.pcapng")) == apart


def test_of_messages_that_are_not_kept_all_packets_are_there(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path = CAPTURES / "patterns" / "frame-sizes.pcap"
    for keep in ("full", "full:1", "head:1", "none"):
        records, written = excerpt(
            zmtpscope, path, tmp_path / f"{keep}.pcapng", "record == message and size > 60000", "--body", keep
        )
        assert [(each["packet"], each["packet_end"]) for each in records]
        payload = sum(len(each.octets) for each in written)
        assert payload >= sum(record["length"] for record in records)


def test_a_file_that_cannot_be_made_is_known_before_anything_is_read(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "no" / "such.pcapng"
    for place in (PUBSUB, tmp_path / "neither.pcap"):
        comments = f"zmtpscope: {target}: No such file or directory\n"
        assert zmtpscope("read", place, "-w", target) == (1, "", comments)
    assert os.listdir(tmp_path) == []


def test_packets_without_their_handshakes_are_spoken_of(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "out.pcapng"
    advice = (
        f"{target} lacks handshakes -> to read it again with zmtpscope, take connections whole, as with -Y 'conn == "
    )
    for filter, conn in (("topic", 1), ("conn == 2 and record == command", 2), ("record == message and conn > 1", 2)):
        assert f"zmtpscope: {advice}{conn}'\n" in zmtpscope("read", PUBSUB, "-Y", filter, "-w", target)[2]
    for filter in ("conn == 2", "record == connection", "topic or record == greeting"):
        assert "handshakes" not in zmtpscope("read", PUBSUB, "-Y", filter, "-w", target)[2]
    assert "handshakes" not in zmtpscope("read", PUBSUB, "-w", target)[2]
