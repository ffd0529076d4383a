"""Octets from outside become segments: containers, link layers, IP, TCP and UDP headers."""

from zmtpscope.capture.captures import Captures, follow_captures, open_captures
from zmtpscope.capture.errors import CaptureError, CaptureProblem
from zmtpscope.capture.following import Follow, FollowedFile, Polling
from zmtpscope.capture.segments import Datagram, SegmentBlock
from zmtpscope.capture.statistics import CaptureStatistics

__all__ = [
    "CaptureError",
    "CaptureProblem",
    "CaptureStatistics",
    "Captures",
    "Datagram",
    "Follow",
    "FollowedFile",
    "Polling",
    "SegmentBlock",
    "follow_captures",
    "open_captures",
]
