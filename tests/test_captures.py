"""Compare the output for real captures with the messages that the applications sent (captures/README.md)."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from tests.octets import SUMMANDS, octets_named
from tests.readings import (
    ALL_TRUTHS,
    CAPTURES,
    EVERY_CAPTURE,
    SELECTED,
    Frames,
    Reading,
    Record,
    Truth,
    digest,
    name_of,
    read,
)
from zmtpscope.records import from_text

STREAM_RECORDS = ("greeting", "command", "message", "frame")


def captures_where(condition: Callable[[Truth], object]) -> pytest.MarkDecorator:
    """Run a test for every capture with a truth file that fulfils a condition."""
    return pytest.mark.parametrize("truth", [t for t in ALL_TRUTHS if condition(t)], ids=lambda truth: truth.name)


every_capture = captures_where(lambda truth: True)


def tails(frames: Frames) -> set[str]:
    """Return the possible names of a message in a log: a socket may have added an envelope."""
    return {name_of(frames[start:]) for start in range(len(frames))}


def without_types(reading: Reading) -> set[int]:
    """Return the connections without socket types: 1.0, and ZWS without a mechanism."""
    connections = reading.of("connection")
    old = [each for each in connections if each["version"] == "1.0" or each["transport"] == "ws"]
    return {each["conn"] for each in old if each["mechanism"] is None}


def may_be_subscription(record: Record, frames: Frames, old: set[int]) -> bool:
    """Whether a message may be a subscription: without socket types one that begins with 00 or 01 is ambiguous."""
    return record["conn"] in old and len(frames) == 1 and frames[0][:1] in (b"\0", b"\1")


@every_capture
def test_damage_of_the_file_is_reported(truth: Truth) -> None:
    assert bool(read(truth.path).problems) == (truth.exit == 3)


@every_capture
def test_every_octet_is_accounted_for(truth: Truth) -> None:
    """Seam P13: both sums are correct, and each octet has one record; the records agree with the counts."""
    sums = read(truth.path).sums
    naming = octets_named(read(truth.path).records)
    assert naming.faults == []
    assert sums.hold()
    assert {name: naming.octets[name] for name in SUMMANDS} == {name: getattr(sums, name) for name in SUMMANDS}


@every_capture
def test_records_agree_with_themselves(truth: Truth) -> None:
    """One connection record for each connection with records; offsets never decrease; parts, sizes and bodies agree."""
    reading = read(truth.path)
    connections = Counter(record["conn"] for record in reading.of("connection"))
    assert all(count == 1 for count in connections.values())
    last: dict[tuple[int, int, str], int] = defaultdict(lambda: -1)
    for record in reading.of(*STREAM_RECORDS):
        assert record["conn"] in connections
        place = (record["conn"], record["side"], record["record"])
        assert record["offset"] > last[place]
        last[place] = record["offset"]
    for record, frames in reading.messages():
        assert record["parts"] == len(frames)
        assert record["sizes"] == list(map(len, frames))


@captures_where(lambda truth: truth.versions)
def test_version_in_force(truth: Truth) -> None:
    connections = read(truth.path).of("connection")
    assert {c["version"] for c in connections if c["handshake"] == "complete"} <= set(truth.versions)
    assert {c["version"] for c in connections if c["handshake"] != "unseen"} <= {*truth.versions, None}


@captures_where(lambda truth: truth.handshake == "complete" and truth.versions)
def test_handshakes_complete(truth: Truth) -> None:
    done = [c for c in read(truth.path).of("connection") if c["handshake"] == "complete"]
    assert {c["version"] for c in done} == set(truth.versions)


@captures_where(lambda truth: truth.handshake in ("none", "incompatible"))
def test_refused_handshakes_carry_no_message(truth: Truth) -> None:
    reading = read(truth.path)
    assert reading.messages() == []
    if truth.handshake == "none":
        assert [c for c in reading.of("connection") if c["handshake"] == "complete"] == []


@captures_where(lambda truth: truth.handshake == "not ZMTP")
def test_other_protocols_are_not_called_zmtp(truth: Truth) -> None:
    assert read(truth.path).of(*STREAM_RECORDS) == []


@captures_where(lambda truth: truth.wire)
def test_everything_that_a_host_sent(truth: Truth) -> None:
    """Every frame of every message of a host is reported, in order, and nothing else."""
    reading = read(truth.path)
    old = without_types(reading)
    for host, expected in truth.wire.items():
        mine = [(record, frames) for record, frames in reading.messages() if record["src_ip"] == host]
        everything = [frames for _, frames in mine]
        surely_messages = [frames for record, frames in mine if not may_be_subscription(record, frames, old)]
        assert expected in {
            hashlib.sha256(b"".join(map(digest, messages))).hexdigest() for messages in (everything, surely_messages)
        }


@captures_where(lambda truth: truth.received and not truth.sealed)
def test_messages_that_applications_received_are_found(truth: Truth) -> None:
    on_the_wire = [frames for _, frames in read(truth.path).messages()]
    left = Counter(on_the_wire)
    behind: dict[str, set[Frames]] = defaultdict(set)
    for frames in left:
        for name in tails(frames):
            behind[name].add(frames)
    found = 0
    for name in truth.received:
        # of several with this ending, the one with the fewest frames before it
        if hits := [frames for frames in behind[name] if left[frames]]:
            left[min(hits, key=len)] -= 1
            found += 1
    assert found >= (len(truth.received) if truth.received_at_least is None else truth.received_at_least)


@captures_where(lambda truth: truth.sent is not None and not truth.sealed)
def test_no_message_is_invented(truth: Truth) -> None:
    assert truth.sent is not None
    reading = read(truth.path)
    old = without_types(reading)
    messages = [(r, frames) for r, frames in reading.messages() if not may_be_subscription(r, frames, old)]
    known = {*truth.sent, *truth.received}
    assert [record for record, frames in messages if not tails(frames) & known] == []
    if truth.each_once:
        assert len(messages) <= len(truth.sent)


@captures_where(lambda truth: truth.subscriptions is not None)
def test_subscriptions_are_found(truth: Truth) -> None:
    assert truth.subscriptions is not None
    reading = read(truth.path)
    seen = {(r["kind"], from_text(r["topic"])) for r in reading.of("message") if r["kind"] in ("subscribe", "cancel")}
    for record in reading.of("command"):
        if record["name"] in ("SUBSCRIBE", "CANCEL"):
            seen.add((record["name"].lower(), from_text(record["topic"])))
    assert set(truth.subscriptions) <= seen


NAMED = {
    "damage/holes": "ZMTP-CONN-05",
    "damage/midstream-1.0": "ZMTP-CONN-01",
    "damage/midstream-3.0": "ZMTP-CONN-01",
    "damage/one-direction": "ZMTP-CONN-02",
    "damage/one-segment-lost": "ZMTP-CONN-05",
    "damage/snap-length-96": "ZMTP-CONN-05",
    "faults/as-server-2": "ZMTP3X-GREETING-06",
    "faults/command-with-more": "ZMTP3X-FRAME-02",
    "faults/curve-messages-cross": "CURVE-09",
    "faults/early-draft-ready": "ZMTP30E-CMD-01",
    "faults/frame-length-2p63": "ZMTP3X-FRAME-04",
    "faults/garbage-client": "ZMTP-CONN-04",
    "faults/greeting-octet-by-octet": "ZMTP-GREETING-04",
    "faults/identity-256": "ZMTP3X-META-10",
    "faults/mechanism-lower-case": "ZMTP3X-GREETING-03",
    "faults/ping-with-ttl-and-context": "ZMTP31-PING-05",
    "faults/property-without-name": "ZMTP3X-META-01",
    "faults/reserved-flag-80": "ZMTP3X-FRAME-01",
    "faults/resource-property": "ZMTP3X-META-13",
    "security/curve-status-400": "CURVE-26",
    "security/curve-status-500": "CURVE-26",
    "security/mismatch-null-server-plain-client": "ZMTP3X-GREETING-12",
    "security/mismatch-plain-server-null-client": "ZMTP3X-GREETING-12",
    "security/null-status-300": "NULL-08",
    "security/null-status-400": "NULL-09",
    "security/plain-no-zap-handler": "PLAIN-08",
    "security/plain-refused-4.1.8": "PLAIN-06",
    "security/plain-refused-4.3.5": "PLAIN-06",
    "security/plain-status-300": "PLAIN-08",
    "security/plain-status-500": "PLAIN-06",
    "security/plain-wrong-password": "PLAIN-06",
    "security/plain-zap-handler-hangs": "PLAIN-08",
    "unreachable/host-silent": "ZMTP-CONN-15",
    "unreachable/server-down": "ZMTP-CONN-14",
    "unreachable/server-up-later": "ZMTP-CONN-14",
}
"""The finding that describes the mistake in a capture."""


@pytest.mark.parametrize(("capture", "finding"), NAMED.items())
def test_expected_findings_are_reported(capture: str, finding: str) -> None:
    assert finding in {record["id"] for record in read(CAPTURES / f"{capture}.pcap").of("finding")}


@captures_where(
    lambda truth: truth.name.split("/")[0] in ("implementations", "network", "patterns", "public", "versions")
)
def test_healthy_traffic_is_called_healthy(truth: Truth) -> None:
    findings = read(truth.path).of("finding")
    assert [record["id"] for record in findings if record["severity"] in ("error", "warn")] == []


def test_every_capture_has_a_truth_file_and_its_folder_a_line_in_the_readme() -> None:
    readme = (CAPTURES / "README.md").read_text()
    captures = set(CAPTURES.glob("*/*.pcap*"))
    assert captures == {truth.path for truth in ALL_TRUTHS}
    assert {name for path in captures if f"`{(name := path.parent.name)}/`" not in readme} == set()


def test_the_captures_of_the_quick_suite_exist() -> None:
    assert {f"{path.parent.name}/{path.name}" for path in EVERY_CAPTURE} >= SELECTED
