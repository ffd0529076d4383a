"""Received messages that wait for the application, and the order in which connections may add messages.

Messages are taken from one connection after the other (fair queueing, RFC 28 for ROUTER, DEALER and REP, RFC 30 for
PULL), so a sender of a thousand messages does not delay a sender of one.
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

MAX_WAITING = 1000
"""Waiting messages above which a connection may add messages only after its own were taken."""
LARGEST_WAITING = 16 << 20
"""Octets of waiting messages, with `PART_COST` for each.

Above this limit, only connections in their handshake continue; above twice this limit none, since messages might follow
the handshake.
"""
TURN = 0.002
"""Seconds of processor time for received octets before other tasks run.

If those took longer the last time, as long as they did.
"""

Sender = TypeVar("Sender", bound=Hashable)


class Turns:
    """Decides which connection processes its received octets next.

    First come, first served; but connections before and after their handshake alternate, so that thousands of new
    connections do not delay established ones.
    """

    def __init__(self) -> None:
        self._waiting: dict[bool, list[tuple[int, asyncio.Future[None]]]] = {False: [], True: []}
        """Waiting connections in order of arrival (heaps): in their handshake, and after it."""
        self._first = False
        """Which of these heaps is served next."""
        self._arrival_numbers = itertools.count()
        self._spent, self._limit = 0.0, TURN
        self._looked = 0
        """Connections that had a turn since other tasks ran."""
        self._waking: asyncio.Handle | None = None
        self._woken: float | None = None
        """Processor time at the last wake-up, or None if no connection has waited since."""

    async def wait(self, *, is_ready: bool) -> None:
        """Wait until the caller may process octets, which it may until it awaits something. `is_ready`: its handshake
        is complete."""
        if self._spent <= self._limit and not any(self._waiting.values()):
            return
        loop, came = asyncio.get_running_loop(), next(self._arrival_numbers)
        while True:
            turn = loop.create_future()
            heapq.heappush(self._waiting[is_ready], (came, turn))
            if self._waking is None:
                self._waking = loop.call_soon(self._wake)
            await turn
            if self._spent <= self._limit:
                return

    def _wake(self) -> None:
        """Wake the waiting connections after all other tasks have run once.

        A connection waits again if the connections before it have used up the time of this round.
        """
        now = time.thread_time()
        everything_else = 0.0 if self._woken is None else now - self._woken - self._spent
        many = 2 * self._looked + 1  # their amount of work is unknown
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
        """Count the processor time that a connection used in its turn."""
        self._spent += seconds
        self._looked += 1


class Inbox(Generic[Sender]):
    """The received messages that the application has not taken yet, by sender. Messages of closed
    connections remain."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.awaits_room = 0
        """Number of senders that may not add messages until their own are taken."""
        self._queues: dict[Sender, deque[Message]] = {}
        self._next: deque[Sender] = deque()
        """Senders with waiting messages, in turn."""
        self._octets: dict[Sender, int] = {}
        self._count = 0
        self.octets = 0
        """Charged octets of all messages."""
        self._taken: dict[Sender, asyncio.Event] = {}
        """Events of senders that wait until their own messages are taken."""
        self._room_lock = asyncio.Lock()
        self._room = asyncio.Event()
        """This event is set while `octets` is below `LARGEST_WAITING`."""
        self._room.set()
        self._is_closed = False

    def __len__(self) -> int:
        return self._count

    def add(self, sender: Sender, message: Message) -> None:
        queue = self._queues.get(sender)
        if queue is None:
            queue = self._queues[sender] = deque()
            self._next.append(sender)
        queue.append(message)
        self._count += 1

    def charge(self, sender: Sender, octets: int) -> None:
        if sender in self._queues:
            self._octets[sender] = self._octets.get(sender, 0) + octets
            self.octets += octets
            if self.octets >= LARGEST_WAITING and not self._is_closed:
                self._room.clear()

    def drain(self, most: int) -> list[tuple[Sender, Message]]:
        """Remove and return up to `most` messages, one of each sender in turn."""
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

    async def process_in_turn(self, sender: Sender, look: Callable[[], None], *, is_ready: bool) -> None:
        """Wait until `sender` may add messages and has its turn, then call `look` to process its octets.

        `is_ready`: its handshake is complete.
        """
        while self._count >= MAX_WAITING and sender in self._queues and not self._is_closed:
            await self._wait_until_taken(sender)
        await self.turns.wait(is_ready=is_ready)
        if not is_ready and self.octets < 2 * LARGEST_WAITING:
            look()
            return
        async with self._room_lock:  # first come, first served
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
        """Release all senders that wait, because the application takes no more messages."""
        self._is_closed = True
        self._room.set()
        for taken in self._taken.values():
            taken.set()
