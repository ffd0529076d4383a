"""Time limits for silence of the other side: after our PING, and by the TTL of its PINGs (37/ZMTP, wire.md 10.3)."""

from __future__ import annotations

from zmtpscope.zmtp.peer.errors import TooSlow
from zmtpscope.zmtp.peer.settings import Heartbeat


class Heartbeats:
    """When to send a PING, and when the other side has been silent for too long. Times are in seconds.

    In the methods, `ours` are the settings of our heartbeat; None: we send no PING.
    """

    def __init__(self, now: float) -> None:
        self._last_received = self._pinged = now
        self._awaits_pong = False
        self._their_ttl = 0.0

    def note_received(self, now: float) -> None:
        """Note that octets were received at `now`. Any octets count as a PONG."""
        self._last_received = now
        self._awaits_pong = False

    def begin(self) -> None:
        """Start counting when the handshake is complete: the first PING is due one interval after the last octets."""
        self._pinged = self._last_received

    def ping(self, now: float) -> None:
        self._pinged, self._awaits_pong = now, True

    def promise(self, ttl: float) -> None:
        """Apply the TTL of a received PING: the next octets must arrive within `ttl` seconds; 0: no limit."""
        self._their_ttl = ttl

    def deadline(self, ours: Heartbeat | None) -> float | None:
        """Return when to call `is_ping_due` next; None: wait for octets."""
        times = []
        if ours is not None:
            times.append(self._pinged + (ours.timeout if self._awaits_pong else ours.interval))
        if self._their_ttl:
            times.append(self._last_received + self._their_ttl)
        return min(times, default=None)

    def is_ping_due(self, ours: Heartbeat | None, now: float) -> bool:
        """Whether a PING must be sent now. Raises `TooSlow` if the other side has been silent for too long."""
        if self._their_ttl and now >= self._last_received + self._their_ttl:
            raise TooSlow(f"the other side was silent for longer than the {self._their_ttl:g} s of its own PING")
        if ours is None:
            return False
        if self._awaits_pong:
            if now >= self._pinged + ours.timeout:
                raise TooSlow(f"no data for {ours.timeout:g} s after our PING")
            return False
        return now >= self._pinged + ours.interval
