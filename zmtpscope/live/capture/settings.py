"""What a capture is to do. It goes from the command to the capture process as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from zmtpscope.live.capture.interfaces import ANY

Instruction = tuple[int, int, int, int]
Program = tuple[Instruction, ...]
"""A filter as the kernel runs it, classic BPF: code, jt, jf, k of each instruction."""

SNAP_LENGTH = 262_144
"""Octets of a packet that are captured if nothing else is asked for, as tcpdump and dumpcap have it."""

BUFFER_OCTETS = 32 << 20
"""The kernel's buffer: a third of a second at 100 MB/s, 1.8 s at 100,000 packets of 100 octets a second."""


@dataclass(frozen=True)
class Limits:
    """Seconds, octets of pcapng, and packets; None: no limit."""

    duration: float | None = None
    filesize: int | None = None
    packets: int | None = None


@dataclass(frozen=True)
class RingLimits(Limits):
    """When the next file of a ring begins, and of how many files the oldest gives way; None: none does."""

    files: int | None = None


@dataclass(frozen=True)
class CaptureSettings:
    """`interfaces` are names, or `any` alone. `filter` is the text of the filter, `programs` what it was compiled to
    for each link type that packets may have; packets of other link types do not pass. Without `filter` all pass.

    `write_to` is the file to write, with `ring` what the names of its files begin with; without it the capture goes to
    two private files by turns. A file that is there gives way. `engine` is one of `engines.ENGINES`, by default the
    first that works. `user` is who the process becomes once its sockets are open, `netns` the network namespace that it
    enters before (a name or a process id). `command` is what was typed, for those who have to type it otherwise.
    """

    interfaces: tuple[str, ...] = (ANY,)
    filter: str = ""
    programs: Mapping[int, Program] = field(default_factory=dict)
    promiscuous: bool = True
    snap_length: int = SNAP_LENGTH
    buffer_octets: int = BUFFER_OCTETS
    netns: str | None = None
    user: str | None = None
    engine: str | None = None
    command: tuple[str, ...] = ("zmtpscope", "live")
    write_to: str | None = None
    ring: RingLimits | None = None
    stop_after: Limits = Limits()

    def to_json(self) -> str:
        """One line, which `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> CaptureSettings:
        """The settings of a line that `to_json` made."""
        values = json.loads(line)
        values["interfaces"] = tuple(values["interfaces"])
        values["command"] = tuple(values["command"])
        values["programs"] = {
            int(link_type): tuple((code, jt, jf, k) for code, jt, jf, k in program)
            for link_type, program in values["programs"].items()
        }
        if values["ring"] is not None:
            values["ring"] = RingLimits(**values["ring"])
        values["stop_after"] = Limits(**values["stop_after"])
        return cls(**values)
