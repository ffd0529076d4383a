from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from zmtpscope.live.capture.interfaces import ANY

Instruction = tuple[int, int, int, int]
Program = tuple[Instruction, ...]
"""Classic BPF: code, jt, jf and k of each instruction."""

SNAP_LENGTH = 262_144
"""Default of tcpdump and dumpcap, in octets."""

BUFFER_OCTETS = 32 << 20
"""Default: 0.3 s at 100 MB/s, 1.8 s at 100,000 packets of 100 octets per second."""


@dataclass(frozen=True)
class Limits:
    """When a capture or a file ends: after `duration` seconds, `filesize` octets of pcapng or `packets` packets; None
    for no limit."""

    duration: float | None = None
    filesize: int | None = None
    packets: int | None = None


@dataclass(frozen=True)
class RingLimits(Limits):
    """Limits of each file of a ring, and the number of files to keep (None: all files)."""

    files: int | None = None


@dataclass(frozen=True)
class CaptureSettings:
    """Settings of a capture, which the command passes to the capture process as one line of JSON.

    `interfaces` are names, or only `any`. `filter` is the text of the filter, `programs` its compiled form by link
    type; packets of other link types are rejected. Without `filter` all packets match. `write_to` is the output file,
    or with `ring` the prefix of file names; existing files are replaced. Without `write_to`, two private files are
    written in turn. `engine` is one of `engines.ENGINES`, by default the first that works. `netns` is the network
    namespace to enter (a name or process id), `user` the user to switch to once the sockets are open. `command` is the
    command line, for hints.
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
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> CaptureSettings:
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
