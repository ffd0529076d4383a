"""Multicast groups that hosts join (IGMP, MLD), and to which ZeroMQ datagrams are sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zmtpscope.capture.segments import SegmentBlock
from zmtpscope.dissect.arrivals import Arrival, stamp
from zmtpscope.dissect.identity import address
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.record_writer import RecordWriter
from zmtpscope.words import counted, host_port
from zmtpscope.zmtp.reader import Finding

NO_MEMBER = "RADIO-UDP-02"

MAX_GROUPS = 1024
"""Groups of each kind. If there are more, the absence of a group proves nothing."""
FIRST_OCTETS = {4: range(0xE0, 0xF0), 16: range(0xFF, 0x100)}
"""First octets of group addresses, by address length. Broadcasts to 255.255.255.255 have no group."""
OTHERS = (b"\xe0\0\0", b"\xef\xff\xff", b"\xff\x02")
"""Prefixes of groups that systems join for themselves: 224.0.0.0/24, 239.255.255.0/24 (SSDP), link-local of IPv6."""
MAX_OCTETS_APART = 2
"""Octets in which a misspelled group differs."""

JOIN, LEAVE = True, False
REPORTS = {0x12: JOIN, 0x16: JOIN, 0x17: LEAVE, 0x83: JOIN, 0x84: LEAVE}
"""Messages with one group at the end (IGMPv1, IGMPv2, MLDv1)."""
RECORDS = (0x22, 0x8F)
"""Messages with a list of records (IGMPv3, MLDv2)."""
HEADER, COUNT_AT = 8, 6
WITHOUT_SOURCES = {2: JOIN, 3: LEAVE, 4: JOIN}
WITH_SOURCES = {1: JOIN, 2: JOIN, 3: JOIN, 4: JOIN, 5: JOIN}
"""Changes by type of record; a filter that includes no source is no membership."""


@dataclass(slots=True)
class Sent:
    """ZeroMQ datagrams to one multicast group: the first flow, the first packet, and their number."""

    writer: RecordWriter
    key: bytes
    first: Arrival
    count: int = 0


class Multicasts:
    """All multicast groups of a run. Call `feed` for blocks and `send` for recognised datagrams, then `finish`."""

    def __init__(self) -> None:
        self.joined: dict[bytes, bytes] = {}
        """The first host that joined a group."""
        self.known: set[bytes] = set()
        """Groups that a host joined or left: they have, or had, members."""
        self.used: set[bytes] = set()
        """Groups to which any datagram was sent."""
        self.sent: dict[bytes, Sent] = {}

    def feed(self, block: SegmentBlock) -> int:
        """Store the groups that hosts join, and to which they send. Returns the number of IGMP and MLD messages."""
        datagrams = block.datagrams
        memberships = datagrams.memberships().tolist()
        for index in memberships:
            datagram = datagrams[index]
            size = (len(datagram.key) - 4) // 2
            host = datagram.key[:size]
            for group, joins in read(block.data[datagram.start : datagram.stop], size):
                _add(self.known, group)
                if joins and any(host) and len(self.joined) < MAX_GROUPS:
                    self.joined.setdefault(group, host)
        for key in datagrams.keys:
            size = (len(key) - 4) // 2
            if key[size] in FIRST_OCTETS[size] and key[-2:] != b"\0\0":
                _add(self.used, key[size : 2 * size])
        return len(memberships)

    def send(self, writer: RecordWriter, key: bytes, arrival: Arrival) -> None:
        """Count a ZeroMQ datagram if it was sent to a multicast group."""
        size = (len(key) - 4) // 2
        group = key[size : 2 * size]
        if group[0] not in FIRST_OCTETS[size]:
            return
        if group not in self.sent and len(self.sent) < MAX_GROUPS:
            self.sent[group] = Sent(writer, key, arrival)
        if group in self.sent:
            self.sent[group].count += 1

    def finish(self, ordinal: int) -> None:
        """Report groups that no host joined, if a host joined a similar group to which no host sends.

        `ordinal` is the end of the capture, by which records are sorted.
        """
        if max(len(self.known), len(self.used)) >= MAX_GROUPS:
            return
        for group, sent in self.sent.items():
            if group in self.known:
                continue
            for other, host in self.joined.items():
                if self._is_mistaken(group, other) and host != sent.key[: len(group)]:
                    sent.writer.note(_note(sent, group, other, host, ordinal))
                    break

    def _is_mistaken(self, group: bytes, other: bytes) -> bool:
        """Whether the host that joined the group `other` may have meant `group`."""
        apart = sum(one != two for one, two in zip(group, other, strict=False))
        is_like = len(group) == len(other) and apart <= MAX_OCTETS_APART
        return is_like and other not in self.used and not other.startswith(OTHERS)


def read(octets: bytes, size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield (group, whether the sender joins it) for the groups in an IGMP or MLD message.

    Addresses have `size` octets. A truncated message yields the groups that were captured.
    """
    if octets[:1] and octets[0] in REPORTS:
        group = octets[HEADER - 4 * (size == 4) :][:size]
        if len(group) == size:
            yield group, REPORTS[octets[0]]
    elif octets[:1] and octets[0] in RECORDS:
        at = HEADER
        for _ in range(int.from_bytes(octets[COUNT_AT:HEADER])):
            group = octets[at + 4 : at + 4 + size]
            if len(group) < size:
                return
            sources = int.from_bytes(octets[at + 2 : at + 4])
            yield group, (WITH_SOURCES if sources else WITHOUT_SOURCES).get(octets[at], LEAVE)
            at += 4 + size + sources * size + 4 * octets[at + 1]


def _add(groups: set[bytes], group: bytes) -> None:
    if len(groups) < MAX_GROUPS:
        groups.add(group)


def _note(sent: Sent, group: bytes, other: bytes, host: bytes, ordinal: int) -> Note:
    sender, port = address(sent.key[: len(group)]), int.from_bytes(sent.key[-2:])
    datagrams, where = counted(sent.count, "datagram"), host_port(address(group), port)
    text = f"{sender} sends {datagrams} to {where}, and {address(host)} joined {address(other)}, which receives nothing"
    return Note(None, Finding(NO_MEMBER, None, 0, None, text), stamp(sent.first), ordinal)
