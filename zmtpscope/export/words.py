"""Format numbers, sizes and packets for sentences."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zmtpscope.export.safe_text import safe_text
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.capture import CaptureStatistics
    from zmtpscope.dissect import Summary

SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


SEVERITIES_IN_WORDS = {"error": "error", "warn": "warning", "note": "note", "chat": "remark"}


def severities_in_words(counts: Mapping[str, int]) -> str:
    """Format counts by severity: `1 error, 2 warnings`."""
    return ", ".join(counted(count, SEVERITIES_IN_WORDS[severity]) for severity, count in counts.items())


def packet_name(file: str | None, packet: int | None, files: Sequence[str | None]) -> str:
    """Name a packet: `12`, or `b.pcap:12` if there are several files; "" for None."""
    if packet is None:
        return ""
    return f"{safe_text(os.path.basename(file or '-'))}:{packet}" if len(files) > 1 else f"{packet}"


def size(octets: float) -> str:
    """Format a size: `12.3 kB`, `1 octet`."""
    for scale, unit in SIZES:
        if octets >= scale:
            return scaled(octets / scale, unit)
    return "1 octet" if octets == 1 else f"{octets:.3g} octets"


def scaled(number: float, unit: str) -> str:
    """Format three significant digits and the unit, but all digits before the point: `1.23 s`, `1234 s`."""
    return f"{number:.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"


def nothing_found(summary: Summary, statistics: CaptureStatistics) -> str | None:
    """Describe a capture without ZMTP, with a remedy; None if it has ZMTP."""
    if summary.connections or summary.datagram_kinds:
        return None
    packets = counted(statistics.packets, "packet")
    tcp, udp = counted(summary.other_tcp, "TCP connection"), counted(summary.datagrams, "UDP datagram")
    attempts = ", ".join(f"{count} {outcome}" for outcome, count in summary.attempts.items())
    if attempts and not summary.other_tcp:
        return f"no TCP connection was established: {attempts} ({packets})"
    more = f"; more were never established: {attempts}" if attempts else ""
    hint = " -> if a port does carry ZMTP, add -d tcp.port==5555,zmtp" if summary.other_tcp else ""
    if summary.other_tcp and statistics.shortened:
        more += f"; the snap length cut {statistics.shortened} of these packets"
        hint = " -> capture whole packets (-s 0), from the start of connections if you can"
    return f"no ZMTP found ({packets}, {tcp}, {udp}){more}{hint}"
