"""Octets from outside become segments: containers, link layers, IP, TCP and UDP headers."""

from zmtpscope.capture.captures import Captures, open_captures
from zmtpscope.capture.errors import CaptureError, CaptureProblem
from zmtpscope.capture.segments import Datagram, SegmentBlock
from zmtpscope.capture.statistics import CaptureStatistics

__all__ = [
    "CaptureError",
    "CaptureProblem",
    "CaptureStatistics",
    "Captures",
    "Datagram",
    "SegmentBlock",
    "open_captures",
]
