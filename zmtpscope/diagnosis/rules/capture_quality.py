"""Incomplete and misordered captures. Other rules report nothing for the affected connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zmtpscope.diagnosis.across.knowledge import GAP, SNAP_LENGTH, Knowledge
from zmtpscope.diagnosis.across.words import address, name_of
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import MISORDERED
from zmtpscope.diagnosis.rules.from_findings import Met, with_finding
from zmtpscope.words import counted

DROPPED, DAMAGED, CLOCK = "CAPTURE-01", "CAPTURE-02", "CAPTURE-03"
MAX_NAMED = 3


def _one_sided(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Make one diagnosis for all connections of which only one direction was captured."""
    met = [
        each
        for each in knowledge.connections
        if each.values is not None and each.values["only_side"] is not None and not each.values["undissected_bytes"]
    ]
    if not met:
        return
    sides = [(each, each.values["only_side"]) for each in met if each.values is not None]
    connection, side = sides[0]
    yield Diagnosis.of(
        "one-sided-capture",
        "warn",
        ", ".join(sorted({address(each.endpoint) for each in met})[:MAX_NAMED]),
        f"Only one direction of {counted(len(met), 'connection')} was captured"
        + (", among them" if len(met) > 1 else ":")
        + f" the one from {name_of(connection, side)} to {name_of(connection, 1 - side)}; the other one is missing",
        "capture where both directions pass: on one of the hosts, on the any interface, or on both ports of a mirror",
        evidence=(Evidence.opening(each) for each in met[:MAX_EVIDENCE]),
        about=met,
        last_ns=max(each.last_ns for each in met),
    )


def _losses(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for finding in knowledge.findings:
        if finding.id in (DROPPED, DAMAGED):
            yield Diagnosis.of(
                "capture-loss",
                "warn",
                finding.moment.file or "",
                finding.text.replace(": ", ", ", 1) if finding.id == DROPPED else finding.detail,
                finding.hint or "",
                evidence=(Evidence.of(finding),),
                count=finding.times,
            )
    gaps = [Met(*each) for each in knowledge.gaps]
    yield from _gaps(
        [each for each in gaps if SNAP_LENGTH in each.finding.text],
        "Packets were cut when they were captured",
        "capture whole packets: without -s, or with -s 0",
    )
    yield from _gaps(
        [each for each in gaps if SNAP_LENGTH not in each.finding.text],
        "Packets are missing from the capture",
        "capture with a larger buffer (-B), with a filter for the ports that matter, or closer to the host",
    )


def _clock(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for finding in knowledge.findings:
        if finding.id == CLOCK:
            yield Diagnosis.of(
                "clock-went-back",
                "note",
                finding.moment.file or "",
                finding.text,
                finding.hint or "",
                evidence=(Evidence(finding.moment, "the packet that is stamped too early", finding.ref or None),),
                count=finding.times,
            )


def _misordered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    met = list(with_finding(knowledge, MISORDERED))
    if met:
        connections = counted(len(met), "connection")
        yield Diagnosis.of(
            "capture-misordered",
            "note",
            ", ".join(sorted({address(each.connection.endpoint) for each in met})[:MAX_NAMED]),
            f"The capture has packets of {connections} in a wrong order: data comes after its acknowledgment, so which "
            "side reacted to the other is unknown",
            "capture at one place, or correct the clocks before you merge captures (editcap -t)",
            evidence=(Evidence.of(each.finding) for each in met[:MAX_EVIDENCE]),
            about=(each.connection for each in met),
            explains=(MISORDERED,),
            last_ns=max(each.finding.last_ns for each in met),
        )


def _gaps(met: list[Met], what: str, hint: str) -> Iterable[Diagnosis]:
    """Make one diagnosis for all connections in `met`, whose finding reports missing octets. `what` and `hint` are its
    texts."""
    if not met:
        return
    connections = {each.connection for each in met}
    octets = sum(each.values["gap_bytes"] for each in connections if each.values)
    lost = f": {counted(octets, 'octet')} of {counted(len(connections), 'connection')} are missing" if octets else ""
    yield Diagnosis.of(
        "capture-loss",
        "warn",
        ", ".join(sorted({address(each.connection.endpoint) for each in met})[:MAX_NAMED]),
        f"{what}{lost}, so messages that were sent may be missing here",
        hint,
        evidence=(Evidence.of(each) for _, each in met[:MAX_EVIDENCE]),
        about=met,
        explains=(GAP,),
        count=sum(each.finding.count for each in met),
        last_ns=max(each.finding.last_ns for each in met),
    )


def _limits(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Make one diagnosis if connections or observations were dropped because memory is limited."""
    missing = [counted(knowledge.forgotten, "connection")] if knowledge.forgotten else []
    if knowledge.left_out:
        missing.append(f"{counted(knowledge.left_out, 'time')} a request, subscription or topic")
    if missing and knowledge.connections:
        last = knowledge.connections[-1]
        yield Diagnosis.of(
            "limits-reached",
            "note",
            "this diagnosis",
            f"There was no room to compare everything: {' and '.join(missing)} left out, the oldest first",
            "look at a shorter capture, or at one endpoint: tcpdump -r FILE -w PART 'tcp port 5555'",
            evidence=(Evidence(last.start, "the last connection begins", last.ref),),
            count=knowledge.forgotten + knowledge.left_out,
        )


TABLE = (
    Rule(
        "one-sided-capture",
        "warn",
        "Only one direction was captured",
        "The capture contains packets of only one side of a connection. Rules that need both directions (replies, "
        "handshakes) are not applied.",
        "Packets of the other direction are in the capture.",
        _one_sided,
    ),
    Rule(
        "capture-loss",
        "warn",
        "The capture lost packets",
        "The capture is incomplete, though the connections lost nothing. The capturing program reported dropped "
        "packets, a file could not be read to its end, or octets are missing that the receiver acknowledged. Rules "
        "that need the missing octets stay silent.",
        "The capturing program reports no drops, and no octets are missing.",
        _losses,
    ),
    Rule(
        "clock-went-back",
        "note",
        "The clock of the capture went back",
        "A packet has an earlier timestamp than a previous packet of its connection, or a timestamp at least a second "
        "earlier than a previous packet of its file. Within a connection the order of packets decides. Its times "
        "continue from the previous packet, so that no reply is earlier than its request. Times of different "
        "connections may differ by as much as the clock went back.",
        "Packets of different connections are less than a second out of order, as from several interfaces or "
        "processors.",
        _clock,
    ),
    Rule(
        "capture-misordered",
        "note",
        "The capture has packets in a wrong order",
        "A side sends data for the first time after the other side has acknowledged it. So the capture does not have "
        "the packets of the two directions in the order in which they were sent. The usual causes are captures that "
        "were merged although their clocks differ, and interfaces with several queues. Rules that compare both "
        "directions (requests and replies, handshakes) are not applied to these connections.",
        "All data is captured before its acknowledgment, or had been captured before and was sent again.",
        _misordered,
    ),
    Rule(
        "limits-reached",
        "note",
        "Not everything could be compared",
        "zmtpscope compares connections in bounded memory: 16,384 ended and 16,384 open connections, and 256 MiB of "
        "requests, subscriptions and topics. A limit was reached, and the oldest were dropped. So causes may be "
        "missing.",
        "All connections, requests, subscriptions and topics could be compared.",
        _limits,
    ),
)
