"""Numbers, sizes and packets in sentences."""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from zmtpscope.export.safe_text import safe_text

SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 octet`, `2 octets`; `plural` where it is not the noun with an s."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


SEVERITIES_IN_WORDS = {"error": "error", "warn": "warning", "note": "note", "chat": "remark"}


def severities_in_words(counts: Mapping[str, int]) -> str:
    """`1 error, 2 warnings`: how many findings or diagnoses of each severity there are."""
    return ", ".join(counted(count, SEVERITIES_IN_WORDS[severity]) for severity, count in counts.items())


def packet_name(file: str | None, packet: int, *, several: bool) -> str:
    """`12`, or `b.pcap:12` where there are several files."""
    return f"{safe_text(os.path.basename(file or '-'))}:{packet}" if several else f"{packet}"


def size(octets: float) -> str:
    """`12.3 kB`; `1 octet`."""
    for scale, unit in SIZES:
        if octets >= scale:
            return scaled(octets / scale, unit)
    return "1 octet" if octets == 1 else f"{octets:.3g} octets"


def scaled(number: float, unit: str) -> str:
    """`1.23 s`, `1234 s`: three digits, or all of those in front of the point."""
    return f"{number:.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"
