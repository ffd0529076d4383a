"""Wireshark field names that filters accept: their names in zmtpscope, and the scale of plain numbers.

A Wireshark number n is n * `scale` + `shift` in zmtpscope: `tcp.stream` counts from 0 and `conn` from 1,
`zmtp.ping.ttl` counts tenths of a second and `ttl_ms` milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.records import SECOND


class WiresharkName(NamedTuple):
    """A field name of Wireshark. `version` is the IP version that its addresses must have."""

    name: str
    ours: str
    scale: int = 1
    shift: int = 0
    version: int | None = None


NAMES = (
    WiresharkName("frame.number", "packet"),
    WiresharkName("frame.time", "ts_ns"),
    WiresharkName("frame.time_epoch", "ts_ns", scale=SECOND),
    WiresharkName("frame.time_relative", "since_start", scale=SECOND),
    WiresharkName("tcp.stream", "conn", shift=1),
    *(
        WiresharkName(f"{name}.{wireshark}", ours, version=version)
        for name, version in (("ip", 4), ("ipv6", 6))
        for wireshark, ours in (("src", "src_ip"), ("dst", "dst_ip"), ("addr", "ip"))
    ),
    *(
        WiresharkName(f"{transport}.{wireshark}", ours)
        for transport in ("tcp", "udp")
        for wireshark, ours in (("srcport", "src_port"), ("dstport", "dst_port"), ("port", "port"))
    ),
    WiresharkName("zmtp.mechanism", "mechanism"),
    WiresharkName("zmtp.as-server", "as_server"),
    WiresharkName("zmtp.version", "version_announced"),
    WiresharkName("zmtp.command-name", "name"),
    WiresharkName("zmtp.length", "frame_sizes"),
    WiresharkName("zmtp.flags", "flags"),
    WiresharkName("zmtp.flags.more", "more"),
    WiresharkName("zmtp.flags.long", "long"),
    WiresharkName("zmtp.metadata.key", "metadata.name"),
    WiresharkName("zmtp.metadata.value", "metadata.value"),
    WiresharkName("zmtp.username", "username"),
    WiresharkName("zmtp.password", "password"),
    WiresharkName("zmtp.reason", "reason"),
    WiresharkName("zmtp.ping.ttl", "ttl_ms", scale=100),
    WiresharkName("zmtp.ping.context", "context"),
    WiresharkName("zmtp.data", "bodies"),
    WiresharkName("zmtp.data.text", "body_texts"),
)
