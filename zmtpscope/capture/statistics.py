"""The counters of one run over captures: what the packets were, and why some were not TCP or UDP."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.capture.packets import PacketBlock


@dataclass
class CaptureStatistics:
    """Every packet is counted once: `packets == tcp_segments + udp_datagrams + sum(other.values())`."""

    packets: int = 0
    octets: int = 0
    """Captured octets of all packets, link layer headers included."""
    tcp_segments: int = 0
    udp_datagrams: int = 0
    other: dict[str, int] = field(default_factory=dict)
    """Packets that gave no segment and no datagram, by reason."""
    fragments_given_up: int = 0
    """Datagrams of which some fragments came but never all, or too late, or too many at a time."""
    first_time: int | None = None
    last_time: int | None = None
    """Times of the first and the last packet in capture order, nanoseconds since the epoch."""

    def add(self, packets: PacketBlock) -> None:
        """Count packets, whatever becomes of them."""
        if not len(packets):
            return
        self.packets += len(packets)
        self.octets += int((packets.stops - packets.starts).sum())
        if self.first_time is None:
            self.first_time = int(packets.times[0])
        self.last_time = int(packets.times[-1])

    def count(self, reason: str) -> None:
        """Count one packet that gave no segment."""
        self.other[reason] = self.other.get(reason, 0) + 1
