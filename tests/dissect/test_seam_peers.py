"""P7: the records of a capture of two of our peers show exactly their actions, and each peer receives what the other
sent."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import peers
from tests.curve import keys
from tests.peers import NETWORKS, Act, Meeting, Network, met, ready_of, send
from tests.suites import examples
from tests.traffic import Capture, records
from zmtpscope.dissect import Options
from zmtpscope.findings import FINDINGS
from zmtpscope.records import to_text
from zmtpscope.zmtp.peer import (
    Dropped,
    Membership,
    Message,
    PeerEvent,
    PlainClient,
    Pong,
    Ready,
    Settings,
    Subscription,
)
from zmtpscope.zmtp.socket_types import IDENTIFIED, PUBLISHERS

Records = list[dict[str, Any]]

HEALTHY = {
    "ZMTP-CONN-06": "the version was settled",
    "ZMTP-DOWNGRADE-02": "a 3.1 side met one of 3.0",
    "ZMTP-GREETING-03": "a side that takes 1.0 says so in its padding",
    "ZMTP20-GREETING-07": "the same, below 3.0",
    "ZMTP20-GREETING-02": "XPUB and XSUB have numbers that stand in no specification",
    "ZMTP3X-META-07": "a draft socket type on a 3.0 connection",
    "ZMTP3X-META-09": "an identity was asked for that the socket type has no use for",
    "ZMTP31-PING-05": "a PING was asked for on a 3.0 connection",
    "ZMTP-SUB-04": "a topic was subscribed twice",
    "PLAIN-04": "the password crosses the network in clear, as PLAIN has it",
    "CURVE-10": "MESSAGE travels in message frames, or libzmq would lose it",
    "CURVE-11": "commands inside of MESSAGE are marked as libzmq does",
}
"""The only findings that traffic of our peers may cause, all of severity note or chat, and their source."""

COMMANDS = {"ping": "PING", "pong": "PONG", "join": "JOIN", "leave": "LEAVE"}
HANDSHAKES = {
    ("NULL", None): ("READY",),
    ("PLAIN", "client"): ("HELLO", "INITIATE"),
    ("PLAIN", "server"): ("WELCOME", "READY"),
    ("CURVE", "client"): ("HELLO", "INITIATE"),
    ("CURVE", "server"): ("WELCOME", "READY"),
}


def observed(meeting: Meeting, key_lines: tuple[str, ...] = ()) -> Records:
    """Return all records of the capture of a meeting, with both sides closed; `key_lines` are the lines of a key
    log."""
    meeting.capture.close()
    with tempfile.TemporaryDirectory() as folder:
        log = keys(Path(folder), "".join(key_lines))
        return records(Capture(meeting.capture.packets), Options(keys=log))[0]


def key_log(meeting: Meeting, side: int) -> str:
    """Return the key log line that decrypts this peer's traffic."""
    return f"CURVE_{' '.join(meeting.peers[side].key_line)}\n"


# -- expected records
# -----------------------------------------------------------------------------------------------------


def agreed(meeting: Meeting) -> str:
    return min(peer.settings.version for peer in meeting.peers)


def greeting_of(settings: Settings, version: str) -> dict[str, Any]:
    """Return the expected fields of a peer's greeting on a connection of this version (wire.md 3.2, 4.1, 5)."""
    nothing = dict.fromkeys(("mechanism", "as_server", "socket_type", "identity"))
    if version >= "3.0":
        server = settings.security.role == "server"
        own_fields = {"mechanism": settings.security.mechanism, "as_server": int(server)}
        return nothing | own_fields | {"version_announced": settings.version}
    if version == "2.0":
        announced = "2.0" if settings.version == "2.0" else "3"
        own_fields = {"socket_type": settings.socket_type, "identity": settings.identity}
        return nothing | own_fields | {"version_announced": announced}
    return nothing | {"version_announced": "1.0", "identity": settings.identity}


def metadata_of(settings: Settings) -> list[tuple[str, str]]:
    """Return READY as libzmq writes it (wire.md 7.2): Socket-Type, Identity where meaningful or set, the rest."""
    identified = settings.socket_type in IDENTIFIED or settings.identity
    identity = [("Identity", settings.identity)] if identified else []
    return [("Socket-Type", settings.socket_type), *identity, *settings.properties]


def handshake_of(settings: Settings, version: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the expected handshake commands of a peer, with their fields."""
    if version < "3.0":
        return []
    security = settings.security
    metadata = [{"name": name, "value": value} for name, value in metadata_of(settings)]
    own_fields: dict[str, dict[str, Any]] = {"READY": {"metadata": metadata}, "INITIATE": {"metadata": metadata}}
    if isinstance(security, PlainClient):
        own_fields["HELLO"] = {"username": security.username, "password": security.password}
    return [(name, own_fields.get(name, {})) for name in HANDSHAKES[security.mechanism, security.role]]


def frames_of(ours: Settings, act: Act) -> list[bytes]:
    """Return the frames of a message (wire.md 10.1)."""
    parts, envelope = act.arguments
    return {"REQ": [b"", *parts], "REP": [*envelope, b"", *parts]}.get(ours.socket_type, [*parts])


class OneOf(frozenset[Any]):
    """Equal to each of its values: the order of arrival decides which one is correct."""

    def __eq__(self, other: object) -> bool:
        return other in self

    __hash__ = frozenset.__hash__


def topic_of(frames: list[bytes], subscribed: set[bytes]) -> str | OneOf:
    """Return the topic of a published message: its first frame, or for a single frame the longest matching
    subscription. The network decides which of `subscribed` had arrived by then."""
    if len(frames) > 1:
        return to_text(frames[0])
    return OneOf([None, *(to_text(each) for each in subscribed if frames[0].startswith(each))])


def expected_record(
    ours: Settings, theirs: Settings, version: str, act: Act, subscribed: set[bytes]
) -> tuple[Any, ...]:
    """Return the expected record of one action: its kind, then its distinguishing fields. `subscribed`: by the other
    side, at any time."""
    if act.what == "send":
        frames = frames_of(ours, act)
        envelope: list[str] | None = None
        topic: str | OneOf | None = None
        if version > "1.0" and {"REQ", "REP"} & {ours.socket_type, theirs.socket_type}:
            envelope = [to_text(frame) for frame in frames[: frames.index(b"")]]
        if version > "1.0" and ours.socket_type in PUBLISHERS:
            topic = topic_of(frames, subscribed)
        return ("data", frames, envelope, topic)
    name = act.what.upper()
    (argument,) = act.arguments
    if act.what in ("subscribe", "cancel"):
        if version == "3.1":
            return (name, to_text(argument))
        octets = bytes([act.what == "subscribe"]) + argument
        return ("data", [octets], None, None) if version == "1.0" else (act.what, [octets], None, to_text(argument))
    if act.what == "ping":
        return (name, ours.heartbeat.ttl * 1000 if ours.heartbeat else 0, argument)
    return (name, argument)


def as_expected(record: dict[str, Any]) -> tuple[Any, ...]:
    """Convert a record of traffic to the form of `told`."""
    if record["record"] == "message":
        return record["kind"], record["bodies"], record["envelope"], record["topic"]
    name = record["name"]
    fields = {"PING": ("ttl_ms", "context"), "PONG": ("context",), "JOIN": ("group",), "LEAVE": ("group",)}
    return (name, *(record[field] for field in fields.get(name, ("topic",))))


def test_findings_that_are_expected_are_harmless() -> None:
    assert {FINDINGS[name].severity for name in HEALTHY} <= {"note", "chat", "error"}
    assert FINDINGS["ZMTP3X-META-07"].severity == "error"  # for an unknown type; for a draft one it is a note


def assert_is_recorded(meeting: Meeting, found: Records, *, opened: bool) -> None:
    """The records show the actions of both sides, in order, and nothing else."""
    version = agreed(meeting)
    both = [peer.settings for peer in meeting.peers]
    mechanism = both[0].security.mechanism
    (connection,) = [record for record in found if record["record"] == "connection"]
    assert connection["version"] == version
    assert connection["handshake"] == "complete"
    assert connection["mechanism"] == (mechanism if version >= "3.0" else None)
    for side, settings in enumerate(both):
        assert connection[f"socket_type_{side}"] == (settings.socket_type if version > "1.0" else None)
        says_it = version < "3.0" or settings.socket_type in IDENTIFIED or settings.identity
        assert connection[f"identity_{side}"] == (settings.identity if says_it else None)
        mine = [record for record in found if record["side"] == side and record["record"] not in ("finding", "gap")]
        (greeting, *rest) = mine
        assert {name: greeting[name] for name in greeting_of(settings, version)} == greeting_of(settings, version)
        shaken = handshake_of(settings, version)
        commands, traffic = rest[: len(shaken)], rest[len(shaken) :]
        for (name, own_fields), command in zip(shaken, commands, strict=True):
            assert {field: command[field] for field in ("name", *own_fields)} == {"name": name, **own_fields}
            assert command["decrypted"] is (opened and name in ("INITIATE", "READY")) or name in ("HELLO", "WELCOME")
        subscribed = {act.arguments[0] for act in meeting.done[1 - side] if act.what == "subscribe"}
        expected = [expected_record(settings, both[1 - side], version, act, subscribed) for act in meeting.done[side]]
        assert expected == [as_expected(record) for record in traffic]
        assert all(record["decrypted"] is opened for record in traffic)
        assert all(record["complete"] for record in traffic if record["record"] == "message")
    findings = [record for record in found if record["record"] == "finding"]
    assert [each for each in findings if each["severity"] not in ("note", "chat")] == []
    assert {each["id"] for each in findings} <= HEALTHY.keys()
    assert {record["record"] for record in found} <= {"connection", "greeting", "command", "message", "finding"}


# -- expected events of the other peer
# -------------------------------------------------------------------------------------


def expected_event(ours: Settings, theirs: Settings, version: str, act: Act) -> PeerEvent | None:
    """Return the event of `theirs` that an action of `ours` causes."""
    if act.what == "ping":
        return None
    (argument, *_) = act.arguments
    if act.what == "pong":
        return Pong(argument)
    if act.what in ("join", "leave"):
        return Membership(argument, act.what == "join")
    if act.what in ("subscribe", "cancel"):
        if version > "1.0":
            return Subscription(argument, act.what == "subscribe")
        frames = [bytes([act.what == "subscribe"]) + argument]
    else:
        frames = frames_of(ours, act)
    if theirs.socket_type == "PUB":
        return Dropped(frames, "a PUB socket receives no messages")
    if theirs.socket_type == "REQ":
        return Message(frames[1:])
    if theirs.socket_type == "REP":
        delimiter = frames.index(b"")
        return Message(frames[delimiter + 1 :], tuple(frames[:delimiter]))
    return Message(frames)


def assert_is_received(meeting: Meeting) -> None:
    """Each peer has the events that the other's actions cause, in order, and no others."""
    version = agreed(meeting)
    for side, peer in enumerate(meeting.peers):
        ours, theirs = meeting.peers[1 - side].settings, peer.settings
        acts = [expected_event(ours, theirs, version, act) for act in meeting.done[1 - side]]
        assert meeting.happened[side][1:] == [event for event in acts if event is not None]
        own_fields = metadata_of(ours) if version >= "3.0" else []
        identity = dict(own_fields).get("Identity") if version >= "3.0" else ours.identity
        socket_type = ours.socket_type if version > "1.0" else None
        mechanism = ours.security.mechanism if version >= "3.0" else None
        assert ready_of(meeting, side) == Ready(version, mechanism, socket_type, identity, tuple(own_fields))


# -- the property ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN", "CURVE"])
@examples(40, least=40)
@given(data=st.data(), network=NETWORKS)
def test_p7_an_observer_reports_the_events_of_two_peers(mechanism: str, data: st.DataObject, network: Network) -> None:
    settings = data.draw(peers.settings_pairs(mechanism))
    acts = data.draw(peers.scripts(*settings)), data.draw(peers.scripts(*reversed(settings)))
    meeting = peers.talk(settings, acts, network)
    assert_is_received(meeting)
    sealed = mechanism == "CURVE"
    lines = (key_log(meeting, data.draw(st.sampled_from([0, 1]))),) if sealed else ()
    assert_is_recorded(meeting, observed(meeting, lines), opened=sealed)


@given(data=st.data(), network=NETWORKS)
def test_p7_without_keys_an_observer_counts_what_it_cannot_open(data: st.DataObject, network: Network) -> None:
    """Each frame and command is one MESSAGE; no record shows its contents or invents any."""
    settings = data.draw(peers.settings_pairs("CURVE"))
    acts = data.draw(peers.scripts(*settings)), data.draw(peers.scripts(*reversed(settings)))
    meeting = peers.talk(settings, acts, network)
    found = observed(meeting)
    (connection,) = [record for record in found if record["record"] == "connection"]
    assert (connection["version"], connection["handshake"]) == (agreed(meeting), "complete")
    for side, peer in enumerate(meeting.peers):
        frames = [frames_of(peer.settings, act) if act.what == "send" else [b""] for act in meeting.done[side]]
        assert connection[f"sealed_{side}"] == sum(map(len, frames))
        mine = [record for record in found if record["side"] == side]
        commands = [record["name"] for record in mine if record["record"] == "command"]
        assert commands == [*HANDSHAKES["CURVE", peer.settings.security.role]]
        assert {record["kind"] for record in mine if record["record"] == "message"} <= {"encrypted"}
    assert not any(record.get("decrypted") for record in found)
    assert {record["id"] for record in found if record["record"] == "finding"} <= HEALTHY.keys()


def test_p7_what_sides_send_at_once_crosses() -> None:
    """Both sides send everything before either has received anything."""
    meeting = met(Settings("PAIR"), Settings("PAIR"))
    for number in range(100):
        meeting.act(number % 2, send(b"%d" % number, b""))
        if number < 6:  # more than three that wait for an answer would cause a finding
            meeting.act(number % 2, Act("ping", (b"%d" % number,)))
    meeting.settle()
    assert_is_received(meeting)
    assert_is_recorded(meeting, observed(meeting), opened=False)
