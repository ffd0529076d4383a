"""A socket among fifty hostile peers serves the honest one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import zmq

from tests.fuzz.changes import damaged
from tests.fuzz.faults import Fault
from tests.live.hostile_peers import PARTNERS, serve_among_hostile_peers
from tests.peer_octets import hello

SERVED_WITHIN = 60.0
"""Seconds; a peer that reads nothing is waited for, but must not block the others."""
TRIES = 2
"""This many runs must fail: a busy machine may stop for so long once."""


def serves_among_hostile(streams: Sequence[bytes], random: Random) -> None:
    """Serve an honest peer with a socket of some type, while hostile peers send these streams, damaged or not."""
    socket_type = random.choice(sorted(PARTNERS))
    behind_handshake = [hello(PARTNERS[socket_type]) + octets[random.choice((0, 64, 100)) :] for octets in streams]
    sent = [damaged(octets, random) for octets in (*streams, *behind_handshake) for _ in range(5)]
    sent += [*streams, *behind_handshake, b"", random.randbytes(100)]
    seed = random.getrandbits(32)
    for _ in range(TRIES):
        with suppress(zmq.Again, TimeoutError):
            served = serve_among_hostile_peers(socket_type, seed, messages=2, limit=SERVED_WITHIN, streams=sent)
            break
    else:
        raise Fault(f"the honest peer of a {socket_type} is not served")
    for context in served.unhandled:
        raise Fault("an exception that nobody handled", context)
