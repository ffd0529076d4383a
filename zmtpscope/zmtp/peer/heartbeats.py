"""Time limits for silence of the other side: by our PINGs, and by the TTL of its own (37/ZMTP, wire.md 10.3)."""

from __future__ import annotations

from zmtpscope.zmtp.peer.errors import TooSlow
from zmtpscope.zmtp.peer.settings import Heartbeat


class Heartbeats:
    """Times are seconds; `ours` is None if this end sends no heartbeat."""

    def __init__(self, now: float) -> None:
        self._last_received = self._pinged = now
        self._awaits_pong = False
        self._their_ttl = 0.0

    def note_received(self, now: float) -> None:
        """Note received octets, which all count as a PONG."""
        self._last_received = now
        self._awaits_pong = False

    def begin(self) -> None:
        """Start with the traffic: the first PING is due one interval after the last octets."""
        self._pinged = self._last_received

    def ping(self, now: float) -> None:
        self._pinged, self._awaits_pong = now, True

    def promise(self, ttl: float) -> None:
        """Apply the TTL of a received PING: the next octets must arrive within `ttl` seconds; 0: no limit."""
        self._their_ttl = ttl

    def deadline(self, ours: Heartbeat | None) -> float | None:
        """Return the time of the next `is_ping_due` call; None: not before octets are received."""
        times = []
        if ours is not None:
            times.append(self._pinged + (ours.timeout if self._awaits_pong else ours.interval))
        if self._their_ttl:
            times.append(self._last_received + self._their_ttl)
        return min(times, default=None)

    def is_ping_due(self, ours: Heartbeat | None, now: float) -> bool:
        """Whether to send a PING. Raises `TooSlow` after too long a silence."""
        if self._their_ttl and now >= self._last_received + self._their_ttl:
            raise TooSlow(f"the other side was silent for longer than the {self._their_ttl:g} s of its own PING")
        if ours is None:
            return False
        if self._awaits_pong:
            if now >= self._pinged + ours.timeout:
                raise TooSlow(f"no data for {ours.timeout:g} s after our PING")
            return False
        return now >= self._pinged + ours.interval
