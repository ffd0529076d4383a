"""Clients that do not register again at a ROUTER that was restarted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.hanging import Hanging, hanging
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import client_name, duration, same_on, server_name, shown
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND, to_text

NOT_REGISTERED = "not-registered-again"

RECONNECT = 60 * SECOND
"""Time (ns) after which a client that connects again may be another program."""
MIN_SENT, MIN_GOT = 3, 8
"""Messages of a client after it returned, and messages that it got before."""
MIN_WAIT, MANY_PAUSES = 5 * SECOND, 5
"""Silence of the ROUTER: time (ns), and multiple of its longest pause before."""


class Returned(NamedTuple):
    """A client that reconnected to a ROUTER which had closed its connection.

    On the new connection `after` the ROUTER is silent until `until` (ns).
    """

    before: ObservedConnection
    after: ObservedConnection
    until: int

    @property
    def first(self) -> bytes:
        """The command at the start of the client's first message on the old connection."""
        kinds = self.before.client.kinds
        return b"" if kinds is None else kinds.first


def _not_registered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each endpoint of a ROUTER where clients did not repeat their registration."""
    found = (
        returned
        for same in knowledge.by_client.values()
        for before, after in pairwise(same)
        if _is_unregistered(returned := Returned(before, after, end_of(after, knowledge.last_ns)), knowledge)
    )
    for same in grouped((each.before.endpoint, each) for each in found).values():
        first = same[0]
        router, client = server_name(first.after), client_name(first.after)
        waiting = _waiting_since(first, knowledge)
        meanwhile = f"; {waiting[0].client_name} waits for a reply of {waiting[0].server_name}" if waiting else ""
        yield Diagnosis.of(
            NOT_REGISTERED,
            "warn" if waiting else "note",
            client,
            f'{client} connected again after {router} had closed its connection, and did not send "'
            f'{shown(to_text(first.first))}" as its first message again: {router} sent nothing to it for '
            f"{duration(first.until - first.after.start.ns)}{same_on(len(same) - 1)}{meanwhile}",
            "ZeroMQ reconnects without notice to the program: let the program register again when it gets no message "
            "for a while, or when a socket monitor reports the new connection",
            evidence=(
                Evidence(each.after.start, "the new connection begins", each.after.ref) for each in same[:MAX_EVIDENCE]
            ),
            about=(*(connection for each in same for connection in (each.before, each.after)), *waiting),
            last_ns=max(each.until for each in same),
            proven=False,
        )


def _waiting_since(returned: Returned, knowledge: Knowledge) -> list[Hanging]:
    """Return the requests to programs of the ROUTER's host that have no reply since the client reconnected."""
    host, since = returned.after.endpoint[0], returned.after.start.ns
    return [
        each
        for each in hanging(knowledge)
        if each.connection.endpoint[0] == host and each.oldest.ns >= since and each.waited >= MIN_WAIT
    ]


def _is_unregistered(returned: Returned, knowledge: Knowledge) -> bool:
    """Whether a client did not repeat, on its new connection, the first message of the old one, which it sent only once
    there."""
    before, after, until = returned
    if not all(each.server.socket_type == "ROUTER" and each.is_whole and is_agreed(each) for each in (before, after)):
        return False
    ending, got, sent = ending_of(before), before.server.rhythm, after.client.rhythm
    if ending is None or ending.side != before.listener or got is None:
        return False
    is_next = 0 <= after.start.ns - ending.moment.ns <= RECONNECT
    is_silent = after.server.rhythm is None and after.client.last_outage is None
    since = after.start.ns if sent is None else sent.first_ns
    is_long = until - since >= max(MIN_WAIT, MANY_PAUSES * got.longest_ns)
    kinds, own = before.client.kinds, after.client.kinds
    if kinds is None or kinds.are_many or got.count < MIN_GOT or not (is_next and is_silent and is_long):
        return False
    times, _ = kinds.counts.get(kinds.first, (0, 0))
    if not kinds.first or times != 1:
        return False
    if sent is None:  # it only answers, so only somebody who waits shows that there is work
        return bool(_waiting_since(returned, knowledge))
    return own is not None and sent.count >= MIN_SENT and own.first != kinds.first


TABLE = (
    Rule(
        NOT_REGISTERED,
        "note",
        "A client does not register again at a ROUTER that was restarted",
        "A ROUTER closed the connection of a client to which it had sent at least eight messages. The client "
        "reconnected within a minute and sent at least three messages, but not its first message of the old "
        "connection, which it had sent only once there. That message was probably its registration. Or the client "
        "sent nothing, and a request to a program of the ROUTER's host has no reply since. Since then the "
        "ROUTER sent it nothing for 5 s, and for five times its longest earlier pause. Two messages count as equal if "
        "they begin with the same command. Not proven: the ROUTER may have nothing to send.\n"
        "* Severity warning if such a request waits.",
        "* The ROUTER sends anything on the new connection.\n"
        "* The client begins the new connection with the same command, or repeated that command on the old one.\n"
        "* The client closed the old connection itself.",
        _not_registered,
        ("fell-silent", "client-unanswered", "request-unanswered"),
    ),
)
