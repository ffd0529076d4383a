"""Recognise the start of a frame among arbitrary octets (wire.md 9.5)."""

from __future__ import annotations

import re

from zmtpscope.findings import FINDINGS
from zmtpscope.zmtp.commands import read_command
from zmtpscope.zmtp.framing import COMMAND, LONG, MORE
from zmtpscope.zmtp.mechanisms import UNSEEN
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Framing, Phase, regime

LARGEST_BELIEVED = 1 << 31
"""Maximum size in octets of a frame body that is accepted without other evidence."""

GREETING_REST = re.compile(
    rb"(?s)(?:(?:\0{0,7}.?\x7f)?[\3-\x0f])?[\0-\x0f]?[A-Z0-9][A-Z0-9+._-]{0,19}\0{0,19}[\0\1]\0{31}(?=[\4\6])"
)
"""Matches the end of a 3.x greeting before a command. Its octets could be read as frames: `01 4E` starts one of 78
octets."""

SEALED_HEADERS = (9, 2)
"""Frame header sizes, in octets, that a MESSAGE can have."""

TRAFFIC = regime(Framing.V2, "3.1", None, Phase.TRAFFIC)

KNOWN_NAME = re.compile(
    b"|".join(
        re.escape(octets)
        for octets in (
            *(bytes([len(name)]) + name.encode("ascii") for name in UNSEEN.commands),
            *(misspelling.octets for misspelling in UNSEEN.misspellings),
        )
    )
)

LONGEST_KNOWN_NAME = 16
STARTS = {
    Framing.V2: re.compile(
        rb"(?s)[\x00\x01]|\x04(?=.(?:%b)|.{0,%d}\Z)|[\x02\x03\x06](?=\x00{4}|\x00{0,3}\Z)"
        % (KNOWN_NAME.pattern, LONGEST_KNOWN_NAME)
    ),
    Framing.V1: re.compile(rb"[^\x00\xff](?=[\x00\x01]|\Z)|\xff(?=\x00{4}|\x00{0,3}\Z)"),
}
"""The octets that can start a frame header."""

MIN_RUN = 16
"""Runs of at least this many equal octets are skipped in one step."""
RUNS = {Framing.V2: {0: 2, 1: 3}, Framing.V1: {1: 2}}
"""Octets that form a frame when repeated, with the size of that frame."""
LONG_RUN = {
    framing: re.compile(b"|".join(b"\\x%02x{%d}" % (octet, MIN_RUN) for octet in sizes))
    for framing, sizes in RUNS.items()
}
OTHER_THAN = {octet: re.compile(b"[^\\x%02x]" % octet) for sizes in RUNS.values() for octet in sizes}


def is_known_command(body: bytes) -> bool:
    """Whether a frame body is a command that ZMTP defines, without errors."""
    reader = Reader(body, 0, len(body), 0)
    layout = read_command(reader, TRAFFIC, {})
    severities = (finding.severity or FINDINGS[finding.id].severity for finding in reader.findings)
    return layout is not None and "error" not in severities


def frame_header(data: bytes | bytearray, at: int, framing: Framing) -> tuple[int, int, bool] | None:
    """Parse the frame header at index `at`; return (header size, body size, COMMAND flag), sizes in octets.

    Returns (0, 0, False) if no peer would send this frame, and None if more octets are needed (wire.md 3.1, 4.2, 6).
    """
    none = (0, 0, False)
    if at >= len(data):
        return None
    first = data[at]
    if framing is Framing.V2:
        if first not in (0, MORE, LONG, LONG | MORE, COMMAND, COMMAND | LONG):
            return none
        if not first & LONG:
            return None if at + 2 > len(data) else (2, data[at + 1], first == COMMAND)
        if at + 9 > len(data):
            return None if not any(data[at + 1 : at + 5]) else none
        size = int.from_bytes(data[at + 1 : at + 9])
        return (9, size, first == COMMAND | LONG) if 256 <= size <= LARGEST_BELIEVED else none
    if first == 0:
        return none
    if first != 255:
        if at + 2 > len(data):
            return None
        return (2, first - 1, False) if data[at + 1] in (0, MORE) else none
    if at + 10 > len(data):
        return None if not any(data[at + 1 : at + 5]) else none
    size = int.from_bytes(data[at + 1 : at + 9])
    return (10, size - 1, False) if 255 <= size <= LARGEST_BELIEVED and data[at + 9] in (0, MORE) else none
