"""Read captured octets as segments: containers, link layers, IP, TCP and UDP headers."""

from zmtpscope.capture.captures import Captures, follow_captures, open_captures, reopen_captures
from zmtpscope.capture.errors import CaptureError, CaptureProblem
from zmtpscope.capture.files import ALWAYS, TimeSpan
from zmtpscope.capture.following import Follow, FollowedFile, Polling
from zmtpscope.capture.segments import Datagram, SegmentBlock
from zmtpscope.capture.statistics import CaptureStatistics

__all__ = [
    "ALWAYS",
    "CaptureError",
    "CaptureProblem",
    "CaptureStatistics",
    "Captures",
    "Datagram",
    "Follow",
    "FollowedFile",
    "Polling",
    "SegmentBlock",
    "TimeSpan",
    "follow_captures",
    "open_captures",
    "reopen_captures",
]
