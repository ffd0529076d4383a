"""Clients that again and again close their connection and connect again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from zmtpscope.diagnosis.across.disconnects import Disconnect, disconnects
from zmtpscope.diagnosis.across.endings import lifetime
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, client_name, duration, how_often, server_name, steady
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.durations import median
from zmtpscope.diagnosis.rules.departures import LARGEST_DEVIATION, ends_of
from zmtpscope.diagnosis.rules.reconnect_storms import STORM
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

MIN_TIMES = 4
MIN_LIFE = SECOND // 2
"""Programs that connect for one exchange, and then end, stay for a shorter time (ns), by the median."""
MAX_AWAY = 5 * SECOND
"""Maximum time (ns) until the client is back, by the median."""
AT_ONCE = SECOND // 20
"""libzmq closes a connection up to this long (ns) after the program has made the next socket."""
MIN_SILENCE = SECOND
"""Minimum time limit (ns) for silence."""

SILENCE_HINT = (
    "that program closes its socket when nothing arrives for this long: make its limit longer than the pauses of the "
    "other side, which may publish meanwhile, and let ZMQ_HEARTBEAT_IVL find dead peers"
)
RESTART_HINT = "if that program should stay connected, see in its log whether it fails and is started again"


def _returning(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each client that closes its connections to an endpoint and connects again, many times."""
    left = (each for each in disconnects(knowledge) if not each.by_listener and each.replaced_ns is None)
    clients = grouped(((each.connection.ends, each.connection.client.identity), each) for each in left)
    for same in clients.values():
        if _comes_back(same):
            yield _diagnosis(same)


def _comes_back(left: Sequence[Disconnect]) -> bool:
    """Whether a client reconnected each time in less than half of the time that its connection had lasted, without
    overlaps."""
    if len(left) < MIN_TIMES or any(each.ending.is_reset or each.connection.finding(STORM) for each in left):
        return False
    away, stayed = _away(left), median(lifetime(each.connection, each.ending) for each in left)
    return stayed >= MIN_LIFE and min(away) >= -AT_ONCE and median(away) <= min(stayed / 2, MAX_AWAY)


def _away(left: Sequence[Disconnect]) -> list[int]:
    """Return the times (ns) between the end of each connection and the start of the next."""
    return [other.connection.start.ns - one.ending.moment.ns for one, other in pairwise(left)]


def _diagnosis(left: Sequence[Disconnect]) -> Diagnosis:
    connection = left[0].connection
    lives = [lifetime(each.connection, each.ending) for each in left]
    silence = steady([each.ending.moment.ns - each.connection.spoke_ns for each in left], LARGEST_DEVIATION)
    is_limit = silence is not None and silence >= MIN_SILENCE
    after = f"{duration(silence)} of silence" if silence is not None and is_limit else _between(lives)
    away = _away(left)
    soon = "at once" if max(away) <= AT_ONCE else f"{_between([max(0, each) for each in away])} later"
    times = [each.ending.moment.ns for each in left]
    return Diagnosis.of(
        "client-returns",
        "note",
        f"{client_name(connection)} at {address(connection.endpoint)}",
        f"{client_name(connection)} closes its connection with {server_name(connection)} itself after {after}, "
        f"{how_often(times)}, and connects again {soon}",
        SILENCE_HINT if is_limit else RESTART_HINT,
        evidence=(*ends_of(left), Evidence.opening(left[-1].connection)),
        about=left,
        last_ns=times[-1],
    )


def _between(times: Sequence[int]) -> str:
    usual = steady(times)
    return duration(usual) if usual is not None else f"{duration(min(times))} to {duration(max(times))}"


TABLE = (
    Rule(
        "client-returns",
        "note",
        "A client closes its connections and connects again",
        "A client closed its connections to an endpoint with FIN at least four times. Each connection had lasted for "
        "at least half a second, and the client connected again in less than half of the time that it had lasted. So "
        "its program has a time limit, or it ends and is started again. If the silence before each close was equal "
        "(within 10 %), it is a time limit. A note, since programs may do so on purpose.",
        "* Two of the connections overlap, so several programs connect.\n"
        "* The other side or a middlebox closed one of them.\n"
        "* The client stays away for longer than half of the time that its connection lasted.",
        _returning,
    ),
)
