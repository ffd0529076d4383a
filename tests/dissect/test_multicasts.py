"""Multicast groups: reports of IGMP and MLD, and datagrams to a group that no host joins."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest

from tests.traffic import Capture, Datagram, records
from zmtpscope.dissect import Options
from zmtpscope.dissect.multicasts import MAX_GROUPS, read
from zmtpscope.payloads.registry import Registry

RADIO, DISH = "10.0.0.1", "10.0.0.2"
SENT, JOINED = "239.10.1.1", "239.10.1.2"
NO_MEMBER = "RADIO-UDP-02"
MESSAGE = b"\x04tempt=1"


def packed(address: str) -> bytes:
    return ip_address(address).packed


def report(*groups: str, type_: int = 4, sources: int = 0, message: int = 0x22) -> bytes:
    listed = [packed(group) + bytes(sources * len(packed(group))) for group in groups]
    body = b"".join(bytes([type_, 0]) + sources.to_bytes(2) + each for each in listed)
    return bytes([message]) + bytes(5) + len(groups).to_bytes(2) + body


def leave(group: str) -> bytes:
    return b"\x17\0\0\0" + packed(group)


def membership(octets: bytes, host: str = DISH) -> Datagram:
    return Datagram(octets, 0, (packed(host), 0), (packed("224.0.0.22"), 0), 0)


def to_group(group: str, count: int = 3, host: str = RADIO, octets: bytes = MESSAGE) -> list[Datagram]:
    return [Datagram(octets, 0, (packed(host), 40_000), (packed(group), 5556), 0) for _ in range(count)]


def found(*packets: Datagram, size: int = 1 << 30) -> list[str]:
    values, _ = records(Capture(packets, size), Options(payloads=Registry()))
    return [each["text"] for each in values if each["record"] == "finding" and each["id"] == NO_MEMBER]


@pytest.mark.parametrize("size", [1, 2, 1 << 30])
def test_a_group_that_no_host_joins_is_reported(size: int) -> None:
    (text,) = found(membership(report(JOINED)), *to_group(SENT), size=size)
    assert text.endswith(
        f"{RADIO} sends 3 datagrams to {SENT}:5556, and {DISH} joined {JOINED}, which receives nothing"
    )


@pytest.mark.parametrize(
    "packets",
    [
        pytest.param((membership(report(JOINED, SENT)), *to_group(SENT)), id="a host joins the group"),
        pytest.param((membership(report(JOINED)), membership(leave(SENT)), *to_group(SENT)), id="a member leaves it"),
        pytest.param((membership(report(JOINED)), *to_group(SENT), *to_group(JOINED, 1)), id="both are used"),
        pytest.param(
            (membership(report(JOINED)), *to_group(JOINED, octets=b"\0"), *to_group(SENT)), id="others use it"
        ),
        pytest.param((membership(report(JOINED), RADIO), *to_group(SENT)), id="the sender joins another one"),
        pytest.param((membership(report("239.99.99.9")), *to_group(SENT)), id="groups that are not alike"),
        pytest.param((membership(report("239.255.255.250")), *to_group("239.255.255.1")), id="a group of SSDP"),
        pytest.param((membership(report(JOINED, type_=3)), *to_group(SENT)), id="a host only leaves the other one"),
        pytest.param((membership(report(JOINED)), *to_group("10.0.0.3")), id="no multicast"),
        pytest.param((membership(report("239.255.1.255")), *to_group("255.255.255.255")), id="a broadcast"),
        pytest.param(tuple(to_group(SENT)), id="no host joins anything"),
    ],
)
def test_all_else_is_silent(packets: tuple[Datagram, ...]) -> None:
    assert found(*packets) == []


def test_nothing_is_concluded_from_too_many_groups() -> None:
    many = [f"225.0.{number >> 8}.{number & 255}" for number in range(MAX_GROUPS)]
    assert found(membership(report(JOINED, *many)), *to_group(SENT)) == []


def test_memberships_are_no_datagrams_of_udp() -> None:
    _, analyser = records(Capture([membership(report(JOINED)), *to_group(SENT)]), Options(payloads=Registry()))
    assert analyser.summary.datagrams == 3


SIX = "ff05::1"


@pytest.mark.parametrize(
    ("octets", "size", "groups"),
    [
        pytest.param(b"\x12\0\0\0" + packed(SENT), 4, [(SENT, True)], id="IGMPv1"),
        pytest.param(b"\x16\0\0\0" + packed(SENT), 4, [(SENT, True)], id="IGMPv2"),
        pytest.param(leave(SENT), 4, [(SENT, False)], id="IGMPv2 leave"),
        pytest.param(report(SENT, JOINED), 4, [(SENT, True), (JOINED, True)], id="IGMPv3"),
        pytest.param(report(SENT, type_=1, sources=2), 4, [(SENT, True)], id="IGMPv3 with sources"),
        pytest.param(report(SENT, type_=3), 4, [(SENT, False)], id="IGMPv3 leave"),
        pytest.param(report(SENT, type_=6, sources=1), 4, [(SENT, False)], id="IGMPv3 block"),
        pytest.param(b"\x83" + bytes(7) + packed(SIX), 16, [(SIX, True)], id="MLDv1"),
        pytest.param(b"\x84" + bytes(7) + packed(SIX), 16, [(SIX, False)], id="MLDv1 done"),
        pytest.param(report(SIX, message=0x8F), 16, [(SIX, True)], id="MLDv2"),
        pytest.param(report(SENT, JOINED)[:-1], 4, [(SENT, True)], id="cut off"),
        pytest.param(b"\x16\0\0\0" + b"\xef", 4, [], id="cut off within the group"),
        pytest.param(struct.pack(">B5xH", 0x22, 0xFFFF), 4, [], id="more records than there are"),
        pytest.param(b"", 4, [], id="nothing"),
    ],
)
def test_reports_name_groups(octets: bytes, size: int, groups: list[tuple[str, bool]]) -> None:
    assert list(read(octets, size)) == [(packed(group), joins) for group, joins in groups]
