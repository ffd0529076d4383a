"""Datagrams: which ones are reported as RADIO or beacon, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.coap import CoAP
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.ntp import NTPHeader
from scapy.layers.radius import Radius
from scapy.layers.rtp import RTP
from scapy.layers.snmp import SNMP, SNMPget, SNMPvarbind
from scapy.layers.tftp import TFTP, TFTP_RRQ

from tests.payloads import zre
from tests.peer_octets import hello, message
from tests.traffic import CLIENT, SERVER, Capture, Conversation, Datagram, Packet, records
from zmtpscope.dissect import Analyser, DecodeAs, Options
from zmtpscope.dissect.datagrams import MAX_DESTINATIONS, MAX_FLOWS, SURE
from zmtpscope.payloads.registry import Registry

Record = dict[str, Any]
FORCED = DecodeAs("udp.port", 5556)
PORTS = 40_000, 5556


def radio(group: str, body: bytes) -> bytes:
    return bytes([len(group.encode())]) + group.encode() + body


def sent(*payloads: bytes, ports: tuple[int, int] = PORTS, cut: int = 0) -> list[Datagram]:
    """Datagrams from one socket to another, each without its last octets if `cut`."""
    return [
        Datagram(octets[: len(octets) - cut], number, (CLIENT, ports[0]), (SERVER, ports[1]), min(cut, len(octets)))
        for number, octets in enumerate(payloads)
    ]


def records_of(packets: list[Any], size: int = 1 << 30, **given: Any) -> list[Record]:
    return records(Capture(packets, size), Options(payloads=Registry(), **given))[0]


def datagrams(found: list[Record]) -> list[Record]:
    return [record for record in found if record["record"] == "datagram"]


NEWS = [radio("NEWS", b"body %d" % number) for number in range(4)]

# -- what others send ------------------------------------------------------------------------------------------------

ODD_ID = 0x0141
"""As octets 01 41: a group `A` of RADIO."""


def stun(number: int) -> bytes:
    return bytes([0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42]) + number.to_bytes(12, "big")


def quic(number: int) -> bytes:
    return b"\xc3\0\0\0\x01\x08" + Random(number).randbytes(1190)


def quic_short(number: int) -> bytes:
    return b"\x41" + Random(number).randbytes(40)


def mdns(number: int) -> bytes:
    return bytes(DNS(id=0, qr=1, an=DNSRR(rrname="printer.local", rdata=f"10.0.0.{number}")))


OTHERS: dict[str, tuple[Callable[[int], bytes], tuple[int, int]]] = {
    "DNS query": (lambda number: bytes(DNS(id=ODD_ID + number, qd=DNSQR(qname="a.example"))), (40_000, 53)),
    "DNS response": (
        lambda number: bytes(DNS(id=ODD_ID, qr=1, qd=DNSQR(qname="a.example"), an=DNSRR(rrname="a.example"))),
        (53, 40_000),
    ),
    "mDNS": (mdns, (5353, 5353)),
    "NTP client": (lambda number: bytes(NTPHeader(version=3)), (40_000, 123)),
    "NTP server": (lambda number: bytes(NTPHeader(version=3, mode=4)), (123, 40_000)),
    "SNMP": (
        lambda number: bytes(SNMP(PDU=SNMPget(id=number, varbindlist=[SNMPvarbind(oid="1.3.6.1.2.1")]))),
        (40_000, 10_161),
    ),
    "QUIC": (quic, (40_000, 4433)),
    "QUIC behind the handshake": (quic_short, (4433, 40_000)),
    "DHCP": (lambda number: bytes(BOOTP(xid=number) / DHCP(options=[("message-type", "discover")])), (68, 67)),
    "DHCP on other ports": (lambda number: bytes(BOOTP(xid=number) / DHCP(options=["end"])), (1068, 1067)),
    "SIP": (lambda number: b"OPTIONS sip:a@example SIP/2.0\r\nCSeq: %d OPTIONS\r\n\r\n" % number, (5060, 5060)),
    "keep-alive of SIP": (lambda number: b"\r\n\r\n", (5060, 5060)),
    "RTP": (lambda number: bytes(RTP(sequence=number) / bytes(160)), (10_000, 10_002)),
    "syslog": (lambda number: b"<34>1 2024-01-01T00:00:00Z host app - - - message %d" % number, (40_000, 1514)),
    "statsd": (lambda number: b"requests:%d|c" % number, (40_000, 8125)),
    "CoAP": (lambda number: bytes(CoAP(msg_id=number)), (40_000, 5683)),
    "WireGuard": (lambda number: b"\x01\0\0\0" + Random(number).randbytes(144), (51_820, 51_821)),
    "BitTorrent DHT": (lambda number: b"d1:ad2:id20:" + b"A" * 20 + b"e1:q4:ping1:t2:aa1:y1:qe", (6881, 6881)),
    "uTP": (lambda number: b"\x01\x00AB" + bytes(16), (6881, 6881)),
    "STUN": (stun, (40_000, 3478)),
    "RADIUS": (lambda number: bytes(Radius(code=1, id=0x41 + number, authenticator=bytes(16))), (40_000, 1812)),
    "RADIUS, old ports": (lambda number: bytes(Radius(code=1, id=0x41 + number)), (40_000, 1645)),
    "TFTP": (lambda number: bytes(TFTP() / TFTP_RRQ(filename="a")), (40_000, 6969)),
    "tunnelled L2TP": (lambda number: b"\x02\x02AB" + bytes(16), (1701, 1701)),
    "MQTT-SN": (lambda number: b"\x0c\x0c\0\0\x01\0\0temp", (40_000, 1885)),
    "RakNet": (lambda number: b"\x01" + number.to_bytes(8, "big") + bytes(24), (40_000, 19_132)),
    "GELF in chunks": (lambda number: b"\x1e\x0fABCDEFGH" + bytes([number, 9]), (40_000, 12_201)),
    "text": (lambda number: b"temperature %d" % number, (40_000, 9999)),
    "empty ones": (lambda number: b"", (40_000, 9999)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_datagrams_of_other_protocols_are_not_reported(what: str) -> None:
    made, ports = OTHERS[what]
    payloads = [made(number) for number in range(SURE + 2)]
    assert datagrams(records_of([*sent(*payloads, ports=ports)])) == []
    assert datagrams(records_of([*sent(*payloads * 2, ports=ports)])) == []


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_not_reported(seed: int) -> None:
    noise = Random(seed)
    flood = [sent(noise.randbytes(50), ports=(noise.randrange(1 << 16), 6000 + number % 3)) for number in range(500)]
    assert datagrams(records_of([datagram for some in flood for datagram in some])) == []


# -- guessed and forced ----------------------------------------------------------------------------------------------


def test_three_of_a_kind_are_a_guess() -> None:
    for count in range(SURE + 2):
        found = datagrams(records_of([*sent(*NEWS[:count])]))
        assert len(found) == (count if count >= SURE else 0)
        assert {record["confidence"] for record in found} <= {"guess"}


def test_the_first_that_does_not_fit_ends_the_guessing() -> None:
    assert datagrams(records_of([*sent(NEWS[0], NEWS[1], b"\x04NEW", *NEWS)])) == []


def test_truncated_datagrams_are_not_guessed() -> None:
    assert datagrams(records_of([*sent(*NEWS, cut=1)])) == []


def test_a_guess_does_not_depend_on_the_sender() -> None:
    """All to one destination count together, and each flow has offsets of its own."""
    flows = [sent(NEWS[number], ports=(40_000 + number, 5556))[0] for number in range(4)]
    found = datagrams(records_of([*flows]))
    assert [(record["src_port"], record["offset"]) for record in found] == [(40_000 + n, 0) for n in range(4)]
    assert len({record["conn_id"] for record in found}) == 4


def test_a_forgotten_flow_gets_a_new_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times may be equal, too."""
    monkeypatch.setattr("zmtpscope.dissect.datagrams.MAX_FLOWS", 1)
    flows = [sent(NEWS[0], ports=(40_000 + number % 2, 5556))[0] for number in range(6)]
    found = datagrams(records_of([*flows], decode_as=(FORCED,)))
    assert len({record["conn_id"] for record in found}) == 6


def test_forced_datagrams_are_reported_with_any_contents() -> None:
    payloads = [
        b"\0",
        b"\x09short",
        radio("", b"x"),
        radio("é", b"x"),
        bytes([90]) + b"RE" * 45 + b"body",
        b"ZRE",
        b"Z",
    ]
    found = datagrams(records_of([*sent(*payloads)], decode_as=(FORCED,)))
    assert [record["kind"] for record in found] == ["radio"] * len(payloads)
    assert [record["confidence"] for record in found] == ["likely"] * len(payloads)
    assert [record["offset"] for record in found] == [sum(map(len, payloads[:n])) for n in range(len(payloads))]
    assert [record["group"] for record in found][2:5] == ["", "é", "RE" * 45]


def test_a_forced_port_reports_nothing_of_others() -> None:
    assert datagrams(records_of([*sent(*NEWS[:2], ports=(40_000, 5557))], decode_as=(FORCED,))) == []


@pytest.mark.parametrize("cut", [1, 6, 10, 11])
def test_a_truncated_datagram_is_incomplete_and_has_no_findings(cut: int) -> None:
    found = records_of([*sent(*NEWS, cut=cut)], decode_as=(FORCED,))
    assert [record["length"] for record in datagrams(found)] == ([len(NEWS[0])] * 4 if cut < len(NEWS[0]) else [])
    assert not any(record["complete"] for record in datagrams(found))
    assert all(record["payload"] is None for record in datagrams(found))
    assert not [record for record in found if record["record"] == "finding"]


BEACON = zre.beacon()


@pytest.mark.parametrize(
    ("octets", "ports", "kind"),
    [
        (BEACON, (5670, 5670), "beacon"),
        (BEACON, (40_000, 9999), "beacon"),
        (zre.beacon(version=3, key=bytes(32)), (5670, 5670), "beacon"),
        (b"ZRE", (5670, 5670), None),
        (b"ZRE\x01", (5670, 5670), "beacon"),
        (b"ZRE\x01", (40_000, 9999), None),
        (BEACON + bytes(65_000), (5670, 5670), "beacon"),
        (BEACON + bytes(65_000), (40_000, 9999), None),
        (BEACON[:21], (5670, 5670), "beacon"),
        (b"ZRE" + bytes([9]) + bytes(18), (5670, 5670), "beacon"),
    ],
)
@pytest.mark.parametrize("details", [False, True])
def test_beacons_of_any_size(octets: bytes, ports: tuple[int, int], kind: str | None, details: bool) -> None:
    found = datagrams(records_of([*sent(octets, octets, ports=ports)], details=details))
    assert [record["kind"] for record in found] == [kind] * 2 * (kind is not None)
    assert [record["length"] for record in found] == [len(octets)] * len(found)


# -- order, blocks, counting -----------------------------------------------------------------------------------------


def among_segments() -> list[Packet | Datagram]:
    """A connection, and datagrams of every kind between its packets."""
    talk = Conversation()
    talk.send(0, hello("PUSH"), cuts=(10, 64))
    talk.send(1, hello("PULL"), cuts=(10, 64))
    for number in range(5):
        talk.send(0, message(b'{"n":%d}' % number))
    talk.close()
    others = [*sent(*NEWS), *sent(BEACON, BEACON[:20], BEACON, ports=(5670, 5670)), *sent(*NEWS, cut=3)]
    others += sent(radio("NEWS", b'{"a":1}'), b"\x09x", ports=(40_000, 5557))
    packets: list[Packet | Datagram] = [*talk.packets]
    for place, datagram in enumerate(others):
        packets.insert(1 + 2 * place, datagram)
    return packets


OPTIONS: list[dict[str, Any]] = [
    {},
    {"details": True},
    {"decode_as": (FORCED,)},
    {"decode_as": (DecodeAs("udp.port", 5557),)},
    {"bodies": "head", "head": 3},
    {"bodies": "none"},
    {"decode_as": (FORCED,), "body_limit": 2},
]


@given(data=st.data())
def test_p1_blocks_of_any_size_give_the_same_records(data: st.DataObject) -> None:
    packets = data.draw(st.permutations(among_segments()[3:]))
    packets = [*among_segments()[:3], *(replace(each, time=data.draw(st.integers(0, 3)) << 60) for each in packets)]
    given = data.draw(st.sampled_from(OPTIONS))
    size = data.draw(st.integers(1, 7))
    assert records_of(packets, size, **given) == records_of(packets, **given)


def test_datagrams_arrive_behind_the_segment_in_front_of_them() -> None:
    packets = among_segments()
    found = [
        record for record in records_of(packets, decode_as=(FORCED,)) if record["record"] in ("datagram", "message")
    ]
    assert [record["packet"] for record in found] == sorted(record["packet"] for record in found)


@given(data=st.data())
def test_counting_counts_the_reported_datagrams(data: st.DataObject) -> None:
    packets = data.draw(st.permutations(among_segments()))
    forced = data.draw(st.sampled_from([(), (FORCED,)]))
    _, full = records(Capture(packets), Options(payloads=Registry(), decode_as=forced))
    _, quiet = records(Capture(packets, 3), Options(payloads=Registry(), decode_as=forced, records=False))
    assert quiet.summary.findings == full.summary.findings
    assert quiet.summary.datagram_kinds == full.summary.datagram_kinds
    assert quiet.summary.datagrams == full.summary.datagrams


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 30])
def test_a_destination_that_was_forgotten_is_judged_anew(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """After many other destinations, also within a block, it is forgotten that it receives no RADIO messages."""
    monkeypatch.setattr("zmtpscope.dissect.datagrams.MAX_DESTINATIONS", 2)
    others = [sent(b"\x01", ports=(40_000, port))[0] for port in (6000, 6001)]
    assert datagrams(records_of([*sent(b"\x01"), *others[:1], *sent(*NEWS)], size)) == []
    assert len(datagrams(records_of([*sent(b"\x01"), *others, *sent(*NEWS)], size))) == len(NEWS)


def test_floods_are_remembered_within_bounds() -> None:
    """This holds for flows and for destinations."""
    hosts = [bytes([10, 1, number >> 8, number & 255]) for number in range(6000)]
    flows = [Datagram(NEWS[0], number, (host, 40_000), (SERVER, 5556)) for number, host in enumerate(hosts)]
    targets = [Datagram(NEWS[0], number, (CLIENT, 40_000), (host, 5556)) for number, host in enumerate(hosts)]
    analyser = Analyser(Options(payloads=Registry()))
    found = sum(len(batch.records) for batch in analyser.run(Capture([*flows, *targets], 500)))
    assert found == len(flows)
    assert len(analyser.datagrams.flows) <= MAX_FLOWS
    assert len(analyser.datagrams.guesses) <= MAX_DESTINATIONS


@pytest.mark.parametrize("time", [-(2**62), 0, 2**62])
def test_times_may_be_any(time: int) -> None:
    packets = [replace(each, time=time * (number % 2)) for number, each in enumerate(among_segments())]
    assert len(datagrams(records_of(packets, decode_as=(FORCED,)))) == 11
