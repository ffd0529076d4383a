"""Attempts to open TCP connections that failed: client, endpoint, number of attempts and outcome.

Attempts are counted by client address, endpoint and outcome, and separately before and after a connection between the
two: a server that has not started yet differs from one that went away. Memory is limited to `MAX_PAIRS`, so a port scan
or a SYN flood costs no more.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from zmtpscope.dissect.arrivals import Arrival, Stamp
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.facts import Attempt
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.sink import Summary
from zmtpscope.dissect.tcp.connection import (
    HALF_OPEN,
    NO_ROUTE,
    REFUSED,
    REJECTED,
    STRAY,
    UNANSWERED,
    UNDER_WAY,
)
from zmtpscope.findings import capturing
from zmtpscope.records import SECOND
from zmtpscope.words import host_port, how_many_times
from zmtpscope.zmtp.reader import Finding

MAX_PAIRS = 4096
"""Pairs of client and endpoint to remember. When full, the pair unused for longest is forgotten."""

MAX_GROUPS = 16
"""Series of attempts of a pair and outcome to keep apart; above, the two nearest are joined."""

MAX_LISTED = 20
"""Series reported at the end, most attempts first; the others are one number."""

FINDING_BY_OUTCOME = {
    REFUSED: capturing.REFUSED,
    UNANSWERED: capturing.UNANSWERED,
    HALF_OPEN: capturing.HALF_OPEN,
    REJECTED: capturing.REJECTED,
    NO_ROUTE: capturing.NO_ROUTE,
}

MIN_GAPS, LARGEST_RATIO, MIN_RATIO = 3, 2.3, 1.1
"""Retries of libzmq: at least this many waits, with ratios within these limits. libzmq waits for ZMQ_RECONNECT_IVL
plus a random time of at most the same length."""
SHORT_WAIT, MIN_FAST = SECOND // 5, 10
"""Clients behind one address interleave: this many attempts with waits this short also count as ZeroMQ."""
DEFAULT_WAIT = 90 * SECOND // 1000, 220 * SECOND // 1000
"""Bounds of a wait with the default interval (100 ms, up to doubled); two attempts are enough then."""

MIN_INSISTENT, GIVEN_UP = 5, SECOND // 10
"""Minimum number of waits, and time (ns) from a SYN to the RST, of a client that gives up before the answer arrives."""

SYN_AGAIN = SECOND // 2
"""Minimum time (ns) until TCP sends a SYN again; systems wait for a second at first (RFC 6298, 2.1)."""

LONG_IN_VAIN = 10 * SECOND
"""After failed attempts for this long, a client that was connected before has lost its server."""

LATER_HINT = "the other side was not listening yet; ZeroMQ retries until it is"
BEFORE_HINT = "the other side went away: see which side closed the previous connection, and how"


@dataclass(slots=True, eq=False)
class Tried:
    """A series of attempts of one client at one endpoint with one outcome."""

    first: Attempt
    last: Attempt
    count: int
    syns: int
    connected: Stamp | None = None
    """SYN of the pair's next known connection."""
    instead: str = ""
    """The other address whose answers the client reset."""
    gaps: int = 0
    shortest: int = 0
    longest: int = 0
    """Longest and shortest wait (ns)."""

    @property
    def is_like_zeromq(self) -> bool:
        """Whether the intervals between the attempts look like those of libzmq."""
        if self.gaps < MIN_GAPS:
            least, most = DEFAULT_WAIT
            return self.gaps > 0 and least <= self.shortest and self.longest <= most
        if self.gaps >= MIN_FAST and (self.last.last.time - self.first.connection.start.time) <= SHORT_WAIT * self.gaps:
            return True
        return self.shortest * MIN_RATIO <= self.longest <= self.shortest * LARGEST_RATIO

    @property
    def repeats_syn(self) -> bool:
        """Whether the client sent a SYN again, as TCP does without an answer.

        Duplicates in the capture are closer in time.
        """
        if self.first.asked == self.last.asked:
            return self.last.last.time - self.first.connection.start.time >= SYN_AGAIN
        return any(each.last.time - each.connection.start.time >= SYN_AGAIN for each in (self.first, self.last))

    @property
    def is_insistent(self) -> bool:
        """Whether a client tries again and again, and resets answers that arrive long after its SYN.

        A health check resets the answer at once.
        """
        if min(each.arrival.time - each.last.time for each in (self.first, self.last)) < GIVEN_UP:
            return False
        lasted = self.last.last.time - self.first.connection.start.time
        return self.is_like_zeromq or (self.gaps >= MIN_INSISTENT and lasted <= SECOND * self.gaps)

    @property
    def is_reset(self) -> bool:
        return self.first.is_reset and self.last.is_reset

    @property
    def lasted_ns(self) -> int:
        return max(0, self.last.last.time - self.first.connection.start.time)

    def is_apart(self, later: Tried) -> bool:
        return self.connected is not None and self.connected < later.first.connection.start

    def add(self, other: Tried) -> None:
        gap = other.first.connection.start.time - self.last.connection.start.time
        gaps = [gap, *((self.shortest, self.longest) if self.gaps else ())]
        gaps += (other.shortest, other.longest) if other.gaps else ()
        self.gaps, self.shortest, self.longest = self.gaps + other.gaps + 1, min(gaps), max(gaps)
        self.count += other.count
        self.instead = self.instead or other.instead
        self.syns += other.syns
        self.first = min(self.first, other.first, key=attrgetter("connection.start"))
        self.last = max(self.last, other.last, key=attrgetter("last"))
        connected = [each for each in (self.connected, other.connected) if each is not None and each > self.last.last]
        self.connected = min(connected, default=None)

    def sentence(self, stream: Stream) -> str:
        """Describe attempts: `10.0.0.2 tried 31 times in 30.1 s to reach 10.0.0.1:5555`."""
        times = how_many_times(self.count)
        syns = f" ({self.syns} SYNs)" if self.syns > self.count else ""
        took = f" in {self.lasted_ns / SECOND:.1f} s" if self.syns > 1 else ""
        return f"{stream.src_ip} tried {times}{syns}{took} to reach {host_port(stream.dst_ip, stream.dst_port)}"


LOST, RESET, BOTH = "lost", "reset", "both"
"""Fates of answers (`answer` of findings): the client sends its SYN again, resets the answers, or does both."""


class Attempts:
    """Finds failed attempts in all attempts of a run. Call `evaluate` for each finished attempt, then `finish`."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.tried: OrderedDict[tuple[str, bytes], list[Tried]] = OrderedDict()
        """Attempts by outcome and pair, in order of last use."""
        self.connected: OrderedDict[bytes, tuple[Stamp, Stamp]] = OrderedDict()
        """SYNs of the first and last connection of each pair."""
        self.strays: OrderedDict[bytes, str] = OrderedDict()
        """Endpoints whose answers were reset, by the client's address and port and the number of its SYN."""
        self.others: dict[str, Tried] = {}

    def evaluate(self, attempt: Attempt) -> None:
        """Count an attempt.

        Attempts arrive in the order in which they ended, not necessarily in the order of their SYNs.
        """
        if attempt.is_reset:
            stream = attempt.connection.stream
            self.strays[attempt.asked] = host_port(stream.dst_ip, stream.dst_port)
            if len(self.strays) > MAX_PAIRS:
                self.strays.popitem(last=False)
        if attempt.outcome == STRAY:
            return
        self.summary.attempts[attempt.outcome] += 1
        if attempt.outcome == UNDER_WAY:
            return
        place = attempt.outcome, attempt.pair
        groups = self.tried.setdefault(place, [])
        self.tried.move_to_end(place)
        self._add(groups, attempt)
        if len(self.tried) > MAX_PAIRS:
            forgotten, groups = self.tried.popitem(last=False)
            self._leave_out(forgotten[0], groups)

    def connect(self, pair: bytes, start: Stamp) -> None:
        """Note that a client was connected to a server, from the packet `start` on.

        `pair` contains both addresses, and the server's port.
        """
        first, last = self.connected.pop(pair, (start, start))
        self.connected[pair] = min(first, start), max(last, start)
        if len(self.connected) > MAX_PAIRS:
            self.connected.popitem(last=False)
        for outcome in FINDING_BY_OUTCOME if self.tried else ():
            before = [each for each in self.tried.get((outcome, pair), ()) if each.last.last < start]
            if before and (before[-1].connected is None or start < before[-1].connected):
                before[-1].connected = start

    def _add(self, groups: list[Tried], attempt: Attempt) -> None:
        later = [each for each in self.connected.get(attempt.pair, ()) if each > attempt.last]
        instead = self.strays.get(attempt.asked, "") if attempt.outcome == UNANSWERED else ""
        tried = Tried(attempt, attempt, 1, attempt.syns, min(later, default=None), instead)
        insort(groups, tried, key=_first_began)
        if len(groups) <= MAX_GROUPS:
            return
        gaps = [
            (before.is_apart(after), after.first.connection.start.time - before.last.last.time)
            for before, after in pairwise(groups)
        ]
        place = gaps.index(min(gaps))
        groups[place].add(groups.pop(place + 1))

    def _leave_out(self, outcome: str, groups: Iterable[Tried]) -> None:
        for tried in groups:
            others = self.others.get(outcome)
            if others is None:
                self.others[outcome] = tried
            else:
                others.add(tried)

    def finish(self, end: Arrival) -> list[Note]:
        """Return the findings about failed attempts, most attempts first."""
        tried = [
            (outcome, each) for (outcome, _), groups in self.tried.items() for each in _between_connections(groups)
        ]
        tried.sort(key=lambda entry: (-entry[1].count, _first_began(entry[1])))
        notes = [self._note(outcome, each, end) for outcome, each in tried[:MAX_LISTED]]
        for outcome, each in tried[MAX_LISTED:]:
            self._leave_out(outcome, (each,))
        return notes + [self._note_others(outcome, others, end) for outcome, others in self.others.items()]

    def _note(self, outcome: str, tried: Tried, end: Arrival) -> Note:
        stream = tried.first.connection.stream
        sentence, severity, hint, answer, instead = tried.sentence(stream), None, None, None, None
        start = tried.first.connection.start
        first, last = self.connected.get(tried.first.pair, (None, None))
        was_connected = first is not None and first < start
        if tried.connected is not None:
            again = " again" if was_connected else ""
            seconds = max(0, tried.connected.time - tried.last.last.time) / SECOND
            sentence += f"; it connected{again} {seconds:.1f} s later"
            severity, hint = "note", BEFORE_HINT if was_connected else LATER_HINT
        elif last is not None and last > tried.last.connection.start:
            sentence += "; it connected meanwhile"
            severity = "note"
        elif first is not None:
            sentence += "; it was connected before"
            severity, hint = None if tried.lasted_ns >= LONG_IN_VAIN else "note", BEFORE_HINT
        elif tried.instead:
            instead = tried.instead
            sentence += f"; {instead} answered instead"
        elif outcome == HALF_OPEN and (tried.repeats_syn or (tried.is_reset and tried.is_insistent)):
            severity = "warn"  # a port scan does not repeat a SYN that was answered
            answer = LOST if not tried.is_reset else BOTH if tried.repeats_syn else RESET
            if tried.is_reset:
                sentence += "; the client reset the answers" + ", and sent the same SYN again" * tried.repeats_syn
        elif tried.syns == 1 or (outcome == REFUSED and not tried.is_like_zeromq):
            severity = "note"
        values = {
            "duration_ns": tried.lasted_ns,
            "syns": tried.syns,
            "answer": answer,
            "answered_by": instead,
            "was_connected": was_connected,
        }
        return self._summed(outcome, stream, sentence, severity, hint, tried, end)._replace(values=values)

    def _note_others(self, outcome: str, others: Tried, end: Arrival) -> Note:
        stream = others.last.connection.stream
        more = "1 more attempt" if others.count == 1 else f"{others.count} more attempts"
        sentence = f"{more} by other pairs of hosts, the last from {stream.src_ip}"
        return self._summed(outcome, stream, sentence, "note", None, others, end)

    def _summed(
        self,
        outcome: str,
        stream: Stream,
        sentence: str,
        severity: str | None,
        hint: str | None,
        tried: Tried,
        end: Arrival,
    ) -> Note:
        self.summary.tried.append((outcome, sentence))
        finding = Finding(FINDING_BY_OUTCOME[outcome], None, 0, severity, sentence, hint)
        first, last = tried.first.connection.start, tried.last.last
        return Note(None, finding, first, end.ordinal, events=tried.count, last=last, stream=stream)


def _between_connections(groups: Iterable[Tried]) -> list[Tried]:
    """Combine adjacent series of attempts if there was no connection between them."""
    whole: list[Tried] = []
    for tried in groups:
        if whole and not whole[-1].is_apart(tried):
            whole[-1].add(tried)
        else:
            whole.append(tried)
    return whole


def _first_began(tried: Tried) -> Stamp:
    return tried.first.connection.start
