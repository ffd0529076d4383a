"""How long everybody else waits where one connection takes nothing of what is sent to it.

Who reads slowly is waited for, so that it loses nothing. Who reads nothing looks the same for some seconds; these are
shared by all that have not shown yet that they read, so that neither many of them nor one that comes back again and
again holds the others up for longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

SEND_TIMEOUT = 5.0
"""Seconds in which nothing is taken. Those that are known to read have them each, all others share them."""
RENEWAL = 0.01
"""Seconds that are added to the shared ones with each second that goes by."""
LEAST_TAKEN = 1 << 16
"""Octets in `SEND_TIMEOUT`: who takes less is no slow reader."""
KNOWN = 1 << 19
"""Octets that a connection has to take to be known as one that reads: the system of the other side takes some by
itself, Linux at most about 400 kB where nobody has set it up otherwise."""


class Receiver(Protocol):
    """A connection, as far as it is waited for."""

    is_stuck: bool
    """It was waited for in vain."""
    stuck_at: int
    """What it had taken when it was waited for in vain."""

    @property
    def taken(self) -> int:
        """Octets that the system of the other side has acknowledged."""

    @property
    def is_over(self) -> bool:
        """It is closed, or is about to be."""

    async def drain(self) -> None:
        """Wait until it has taken everything, or is over."""


class SendTimeout:
    """That of one socket with all its connections."""

    def __init__(self) -> None:
        self._left = SEND_TIMEOUT
        self._counted = time.monotonic()

    @property
    def left(self) -> float:
        """The shared seconds."""
        return min(SEND_TIMEOUT, self._left + RENEWAL * (time.monotonic() - self._counted))

    async def wait_for(self, receivers: Sequence[Receiver]) -> None:
        """Until each of them has taken everything, is over, or was waited for in vain (`is_stuck`)."""
        spent = max(await asyncio.gather(*map(self._wait, receivers)), default=0.0)
        if spent:
            self._left = max(0.0, self.left - spent)
            self._counted = time.monotonic()

    async def _wait(self, receiver: Receiver) -> float:
        """The shared seconds that were spent on this one in vain."""
        while True:
            before, since = receiver.taken, time.monotonic()
            is_known = before - receiver.stuck_at >= KNOWN
            limit = SEND_TIMEOUT if is_known else self.left
            try:
                async with asyncio.timeout(limit):
                    await receiver.drain()
            except TimeoutError:
                if receiver.taken - before > LEAST_TAKEN * limit / SEND_TIMEOUT:
                    continue
                receiver.is_stuck, receiver.stuck_at = True, receiver.taken
            in_vain = receiver.is_stuck or receiver.is_over
            return time.monotonic() - since if in_vain and not is_known else 0.0
