"""Limit how long senders wait for receivers that take no octets.

Senders wait for slow receivers, so that these lose no messages. At first, a receiver that never reads cannot be
distinguished from a slow one, so all receivers that are not yet known to read share a few seconds: many of them, or one
that reconnects again and again, delay a socket no longer than one does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

SEND_TIMEOUT = 5.0
"""Seconds to wait while a receiver takes nothing: for each receiver that is known to read, and shared by all others."""
RENEWAL = 0.01
"""Seconds added to the shared ones per second."""
MIN_TAKEN = 1 << 16
"""Octets that a slow receiver must take in `SEND_TIMEOUT`; with less it counts as stuck."""
KNOWN = 1 << 19
"""Octets after which a receiver is known to read. Its system takes the first ones even if no program reads: on Linux
up to 400 kB by default."""


class Receiver(Protocol):
    """A connection that a sender waits for."""

    is_stuck: bool
    """A sender has waited for it until the timeout."""
    stuck_at: int
    """Value of `taken` at the last timeout."""

    @property
    def taken(self) -> int:
        """Octets that the system of the other endpoint has acknowledged."""

    @property
    def is_over(self) -> bool:
        """Whether the receiver is closed or closing."""

    async def drain(self) -> None:
        """Wait until everything is taken, or the connection is closed."""


class SendTimeout:
    """The send time-out of one socket. All its connections share the same seconds."""

    def __init__(self) -> None:
        self._left = SEND_TIMEOUT
        self._counted = time.monotonic()

    @property
    def left(self) -> float:
        """Return the shared seconds that remain."""
        return min(SEND_TIMEOUT, self._left + RENEWAL * (time.monotonic() - self._counted))

    async def wait_for(self, receivers: Sequence[Receiver]) -> None:
        """Wait until each receiver has taken everything, has closed or is stuck (`is_stuck`)."""
        spent = max(await asyncio.gather(*map(self._wait, receivers)), default=0.0)
        if spent:
            self._left = max(0.0, self.left - spent)
            self._counted = time.monotonic()

    async def _wait(self, receiver: Receiver) -> float:
        """Return the shared seconds that were used without progress."""
        while True:
            before, since = receiver.taken, time.monotonic()
            is_known = before - receiver.stuck_at >= KNOWN
            limit = SEND_TIMEOUT if is_known else self.left
            try:
                async with asyncio.timeout(limit):
                    await receiver.drain()
            except TimeoutError:
                if receiver.taken - before > MIN_TAKEN * limit / SEND_TIMEOUT:
                    continue
                receiver.is_stuck, receiver.stuck_at = True, receiver.taken
            in_vain = receiver.is_stuck or receiver.is_over
            return time.monotonic() - since if in_vain and not is_known else 0.0
