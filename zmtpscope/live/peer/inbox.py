"""Messages that have come and that nobody has taken yet, and who may bring more: everybody in turn.

One message of each connection is taken after the other (fair queueing, as RFC 28 has it for ROUTER, DEALER and REP and
RFC 30 for PULL), so whoever sends a thousand holds up nobody who sends one. What comes is looked at in turn, too, so
that the application and everything else of the loop run in between.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from zmtpscope.zmtp.peer import Message

MOST_WAITING = 1000
"""Messages that nobody has taken; beyond that a connection brings more when all of its own were taken."""
LARGEST_WAITING = 16 << 20
"""Octets that came for them, and `PART_COST` for each: beyond that nobody brings more, but with a handshake, which may
have messages behind it; and nobody at all beyond twice that."""
TURN = 0.002
"""Seconds of the processor for what comes, after which everything else of the loop has its turn; as many as that took
the last time where it took more."""

Sender = TypeVar("Sender", bound=Hashable)


class Turns:
    """Who looks at what came: first come, first served, but one without a handshake for each one with, so that
    thousands that flood do not keep others from theirs."""

    def __init__(self) -> None:
        self._waiting: dict[bool, list[tuple[int, asyncio.Future[None]]]] = {False: [], True: []}
        """Those that wait, by when they came (heaps), without a handshake and with one."""
        self._first = False
        """Which of the two are woken first, in turn."""
        self._came = itertools.count()
        self._spent, self._limit = 0.0, TURN
        self._looked = 0
        """How many had a turn since everything else had."""
        self._waking: asyncio.Handle | None = None
        self._woken: float | None = None
        """Seconds of the processor when the last ones were woken, where somebody has waited since."""

    async def wait(self, *, is_ready: bool) -> None:
        """Until it is one's turn, which ends where one waits for anything. `is_ready`: behind its handshake."""
        if self._spent <= self._limit and not any(self._waiting.values()):
            return
        loop, came = asyncio.get_running_loop(), next(self._came)
        while True:
            turn = loop.create_future()
            heapq.heappush(self._waiting[is_ready], (came, turn))
            if self._waking is None:
                self._waking = loop.call_soon(self._wake)
            await turn
            if self._spent <= self._limit:
                return

    def _wake(self) -> None:
        """Everything else has had its turn: wake those that may have theirs now. Who comes too late waits on."""
        now = time.thread_time()
        everything_else = 0.0 if self._woken is None else now - self._woken - self._spent
        many = 2 * self._looked + 1  # nobody knows how much they have to look at
        self._spent, self._looked, self._limit = 0.0, 0, max(TURN, everything_else)
        self._woken = self._waking = None
        self._first = not self._first
        for _ in range(many):
            for is_ready in (self._first, not self._first):
                if self._waiting[is_ready]:
                    _, turn = heapq.heappop(self._waiting[is_ready])
                    if not turn.done():
                        turn.set_result(None)
                    self._woken = now
        if self._woken is not None:
            self._waking = asyncio.get_running_loop().call_soon(self._wake)

    def spend(self, seconds: float) -> None:
        """So much of the processor was used."""
        self._spent += seconds
        self._looked += 1


class Inbox(Generic[Sender]):
    """What each sender brought and nobody has taken. Senders that have gone keep their turn until that was taken."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.awaits_room = 0
        """How many senders wait until all of their own messages are taken."""
        self._queues: dict[Sender, deque[Message]] = {}
        self._next: deque[Sender] = deque()
        """Those that have any, in turn."""
        self._octets: dict[Sender, int] = {}
        self._count = 0
        self.octets = 0
        """Of the messages, as they were charged."""
        """Those of each."""
        self._taken: dict[Sender, asyncio.Event] = {}
        """For those that wait until their own messages are taken."""
        self._room_lock = asyncio.Lock()
        self._room = asyncio.Event()
        """Set while there are fewer octets than there may be."""
        self._room.set()
        self._is_closed = False

    def __len__(self) -> int:
        return self._count

    def add(self, sender: Sender, message: Message) -> None:
        """It came from `sender`."""
        queue = self._queues.get(sender)
        if queue is None:
            queue = self._queues[sender] = deque()
            self._next.append(sender)
        queue.append(message)
        self._count += 1

    def charge(self, sender: Sender, octets: int) -> None:
        """So many came with messages of `sender`, which keep them here."""
        if sender in self._queues:
            self._octets[sender] = self._octets.get(sender, 0) + octets
            self.octets += octets
            if self.octets >= LARGEST_WAITING and not self._is_closed:
                self._room.clear()

    def drain(self, most: int) -> list[tuple[Sender, Message]]:
        """The next messages, one of each sender in turn."""
        turns, queues = self._next, self._queues
        taken: list[tuple[Sender, Message]] = []
        while turns and len(taken) < most:
            sender = turns[0]
            queue = queues[sender]
            count = 1 if len(turns) > 1 else min(len(queue), most - len(taken))
            self._free(sender, self._octets.get(sender, 0) * count // len(queue))
            for _ in range(count):
                taken.append((sender, queue.popleft()))
            turns.rotate(-1)
            if not queue:
                turns.pop()
                self._emptied(sender)
        self._count -= len(taken)
        return taken

    def _free(self, sender: Sender, octets: int) -> None:
        """So many that came with messages of `sender` are no longer kept here."""
        if octets:
            self._octets[sender] -= octets
            self.octets -= octets
            if self.octets < LARGEST_WAITING:
                self._room.set()

    def _emptied(self, sender: Sender) -> None:
        del self._queues[sender]
        self._octets.pop(sender, None)
        if sender in self._taken:
            self._taken[sender].set()

    async def bring(self, sender: Sender, look: Callable[[], None], *, is_ready: bool) -> None:
        """Wait until `sender` may bring more, and for its turn; then have it `look` at what came. `is_ready`: behind
        its handshake."""
        while self._count >= MOST_WAITING and sender in self._queues and not self._is_closed:
            await self._wait_until_taken(sender)
        await self.turns.wait(is_ready=is_ready)
        if not is_ready and self.octets < 2 * LARGEST_WAITING:
            look()
            return
        async with self._room_lock:  # in the order in which they came
            await self._room.wait()
            look()

    async def _wait_until_taken(self, sender: Sender) -> None:
        taken = self._taken[sender] = asyncio.Event()
        self.awaits_room += 1
        try:
            await taken.wait()
        finally:
            self.awaits_room -= 1
            del self._taken[sender]

    def close(self) -> None:
        """Nothing more will be taken: nobody has to wait."""
        self._is_closed = True
        self._room.set()
        for taken in self._taken.values():
            taken.set()
