"""How long the other side may be silent in traffic: our PINGs, and the TTL of its own (37/ZMTP, wire.md 10.3)."""

from __future__ import annotations

from zmtpscope.zmtp.peer.errors import TooSlow
from zmtpscope.zmtp.peer.settings import Heartbeat


class Heartbeats:
    """When the other side was heard, when it was sent a PING, and what follows from both. Times are seconds; `ours` is
    the heartbeat that this end sends, None where it sends none."""

    def __init__(self, now: float) -> None:
        self._heard = self._pinged = now
        self._awaits_pong = False
        self._their_ttl = 0.0

    def hear(self, now: float) -> None:
        """Something came, which is as good as a PONG."""
        self._heard = now
        self._awaits_pong = False

    def begin(self) -> None:
        """Traffic begins with what came last: the first PING is due an interval later."""
        self._pinged = self._heard

    def ping(self, now: float) -> None:
        """A PING is sent."""
        self._pinged, self._awaits_pong = now, True

    def promise(self, ttl: float) -> None:
        """The other side promises to be heard again within `ttl`, 0 for none: that is the TTL of a PING."""
        self._their_ttl = ttl

    def deadline(self, ours: Heartbeat | None) -> float | None:
        """When `is_ping_due` is to be asked; None: not before something comes."""
        times = []
        if ours is not None:
            times.append(self._pinged + (ours.timeout if self._awaits_pong else ours.interval))
        if self._their_ttl:
            times.append(self._heard + self._their_ttl)
        return min(times, default=None)

    def is_ping_due(self, ours: Heartbeat | None, now: float) -> bool:
        """Whether to send a PING. Raises `TooSlow` where the other side was silent for too long."""
        if self._their_ttl and now >= self._heard + self._their_ttl:
            raise TooSlow(f"the other side was silent for longer than the {self._their_ttl:g} s of its own PING")
        if ours is None:
            return False
        if self._awaits_pong:
            if now >= self._pinged + ours.timeout:
                raise TooSlow(f"no sign of life for {ours.timeout:g} s after our PING")
            return False
        return now >= self._pinged + ours.interval
