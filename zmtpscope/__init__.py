"""zmtpscope: a protocol analyser for ZeroMQ traffic. docs/python.md describes the Python interface."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zmtpscope.version import __version__

if TYPE_CHECKING:
    from zmtpscope.api.capture import Capture, View, open
    from zmtpscope.api.reading import CaptureWarning, Records, read
    from zmtpscope.api.record_classes import (
        Command,
        Connection,
        Datagram,
        Delivery,
        Diagnosis,
        Finding,
        Frame,
        Gap,
        Greeting,
        Heartbeat,
        Leftover,
        Message,
        Peer,
        Request,
        Retransmission,
        Stall,
        Subscription,
        Topic,
        ZrePair,
    )
    from zmtpscope.api.rows import Departure, Evidence, Payload, Property, Record
    from zmtpscope.api.sniffing import Sniffer, sniff
    from zmtpscope.capture import CaptureError
    from zmtpscope.filter import FilterError
    from zmtpscope.live.capture.filters import CaptureFilterError
    from zmtpscope.live.capture.session import CaptureRefused
    from zmtpscope.store import OctetsError

__all__ = (
    "Capture",
    "CaptureError",
    "CaptureFilterError",
    "CaptureRefused",
    "CaptureWarning",
    "Command",
    "Connection",
    "Datagram",
    "Delivery",
    "Departure",
    "Diagnosis",
    "Evidence",
    "FilterError",
    "Finding",
    "Frame",
    "Gap",
    "Greeting",
    "Heartbeat",
    "Leftover",
    "Message",
    "OctetsError",
    "Payload",
    "Peer",
    "Property",
    "Record",
    "Records",
    "Request",
    "Retransmission",
    "Sniffer",
    "Stall",
    "Subscription",
    "Topic",
    "View",
    "ZrePair",
    "__version__",
    "open",
    "read",
    "sniff",
)

_MODULES = {
    "CaptureError": "capture",
    "CaptureFilterError": "live.capture.filters",
    "CaptureRefused": "live.capture.session",
    "FilterError": "filter",
    "OctetsError": "store",
    **dict.fromkeys(("Capture", "View", "open"), "api.capture"),
    **dict.fromkeys(("CaptureWarning", "Records", "read"), "api.reading"),
    **dict.fromkeys(("Sniffer", "sniff"), "api.sniffing"),
    **dict.fromkeys(("Departure", "Evidence", "Payload", "Property", "Record"), "api.rows"),
}
"""Modules by public name, except record classes. A module is loaded on first use of its name: commands need none."""


def __dir__() -> list[str]:
    return [*__all__]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'api.record_classes')}"), name)
