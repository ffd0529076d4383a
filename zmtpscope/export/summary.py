"""Format the summary of a run: counts, damage and findings (`-q`), and proof that no octets were lost (`--stats`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from zmtpscope.capture import CaptureProblem, CaptureStatistics
from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import Summary
from zmtpscope.dissect.findings.drops import by_interface
from zmtpscope.dissect.records.finding_endpoints import AtEndpoint, FindingEndpoints
from zmtpscope.export.clock import span
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.styles import Paint, plain
from zmtpscope.export.words import packet_name
from zmtpscope.findings import FINDINGS, SEVERITIES
from zmtpscope.findings.kinds import is_habitual
from zmtpscope.records import SECOND
from zmtpscope.words import counted, host_port

ENDS = {"fin": "FIN", "rst": "RST", "open": "nothing yet", "reused": "no packet seen", "evicted": "being given up"}
LABEL = 16
INDENT = " " * 11
"""Indentation of the endpoints of a finding, below its severity."""
MAX_ROWS = 5
"""Endpoints listed for each kind of finding, most findings first."""


def summary_lines(
    summary: Summary,
    statistics: CaptureStatistics,
    problems: Sequence[CaptureProblem],
    paint: Paint = plain,
    *,
    files: Sequence[str | None] = (),
    chat: bool = False,
) -> Iterator[str]:
    """Yield lines about packets, connections, versions, mechanisms, messages, damage and findings.

    `files` are indexed by packet references. `chat` also lists findings about normal events or habits, which are always
    counted.
    """
    first, last = statistics.first_time, statistics.last_time
    when = "" if first is None or last is None else f", {span(first, last)}"
    yield labelled("packets", f"{statistics.packets} ({counted(statistics.octets, 'octet')}{when})")
    others = [f"{summary.other_tcp} other TCP"] if summary.other_tcp else []
    others += [f"{count} {outcome}" for outcome, count in summary.attempts.items()]
    kinds = {"ZRE beacon": summary.datagram_kinds["beacon"], "RADIO message": summary.datagram_kinds["radio"]}
    known = ", ".join(counted(count, what) for what, count in kinds.items() if count)
    datagrams = counted(summary.datagrams, "UDP datagram")
    others += [datagrams + f" ({known})" * bool(known)] if summary.datagrams else []
    yield labelled("connections", f"{summary.connections} ZMTP" + "".join(f", {other}" for other in others))
    for outcome, sentence in summary.tried:
        yield labelled(outcome, safe_text(sentence))
    if summary.connections:
        yield labelled("versions", _counted(summary.versions))
        yield labelled("mechanisms", _counted(summary.mechanisms))
        yield labelled("socket types", _counted(summary.socket_types))
        unfinished = summary.handshakes["incomplete"] or summary.handshakes["failed"]
        where = " (leave out -q to see where)" if unfinished else ""
        yield labelled("handshakes", _counted(summary.handshakes) + where)
        yield labelled("ended by", _counted({ENDS.get(how, how): count for how, count in summary.closes.items()}))
        yield labelled("commands", _counted(summary.commands))
        sealed = f", {summary.sealed} of them sealed frames" if summary.sealed else ""
        size = f"{counted(summary.frames, 'frame')}, {counted(summary.body_octets, 'octet')}"
        yield labelled("messages", f"{summary.messages} ({size}{sealed})")
    if summary.curve_connections:
        what = f"{counted(summary.curve_connections, 'connection')} with CURVE that reached messages"
        boxes = counted(summary.opened_boxes, "MESSAGE")
        yield labelled("decrypted", f"{summary.opened_connections} of {what}: {boxes}")
    if summary.stalls:
        how_often = counted(summary.stalls, "stretch", "stretches")
        yield labelled(
            "stalls", f"{how_often} in which a receive window was closed, {summary.stalled / SECOND:.1f} s in all"
        )
    if summary.outages:
        how_often = counted(summary.outages, "stretch", "stretches")
        how_long = f"{summary.unacknowledged / SECOND:.1f} s in all"
        yield labelled("retransmitted", f"{how_often} in which nothing was acknowledged, {how_long}")
    damage = damage_of(summary, statistics, problems)
    yield labelled("damage", "; ".join(damage) or "none")
    yield from _finding_lines(summary, paint, files, chat)


def damage_of(summary: Summary, statistics: CaptureStatistics, problems: Sequence[CaptureProblem]) -> list[str]:
    """Describe the octets and packets that were not understood, dropped, lost or unreadable."""
    damage = []
    if summary.sums.undissected:
        damage.append(f"{counted(summary.sums.undissected, 'octet')} not understood")
    if drops := statistics.dropped():
        damage.append(dropped(drops))
    if summary.gaps:
        lost = counted(summary.sums.gaps, "octet")
        damage.append(f"{counted(summary.gaps, 'gap')}, {lost} lost by the capture")
    return [safe_text(each) for each in (*damage, *map(str, problems))]


def dropped(drops: Mapping[str, int]) -> str:
    """Format dropped packets by interface: `12 packets dropped while captured: 12 on eth0`."""
    return f"{counted(sum(drops.values()), 'packet')} dropped while captured: {by_interface(drops)}"


def _finding_lines(summary: Summary, paint: Paint, files: Sequence[str | None], chat: bool) -> Iterator[str]:
    """Yield the number of findings by severity, then each kind of finding with its remedy and endpoints, the worst
    first.

    `chat`: include findings about normal events.
    """
    counts, lines, news = [], [], True
    for severity in SEVERITIES:
        kinds = sorted((id_, count) for (of, id_), count in summary.findings.items() if of == severity)
        if kinds:
            counts.append(f"{severity}: {sum(count for _, count in kinds)}")
        for id_, count in kinds:
            if not chat and is_habitual(severity, id_):
                news = False
                continue
            hints = sorted(summary.hints.get((severity, id_), ()))
            differ = len(hints) > 1 and (severity, id_) in summary.finding_endpoints
            hint = "" if differ or not hints else f" -> {hints[0]}"
            lines.append(f"{count:>8} x {paint(severity, f'{severity:<5} {id_}')} {FINDINGS[id_].text}{hint}")
            if (severity, id_) in summary.finding_endpoints:
                lines += _endpoint_lines(summary.finding_endpoints[severity, id_], files, with_hints=differ)
    yield labelled("findings", (", ".join(counts) or "none") + ("" if news else " (--verbose lists all)"))
    yield from lines


def _endpoint_lines(found: FindingEndpoints, files: Sequence[str | None], *, with_hints: bool) -> Iterator[str]:
    rows = sorted(found.endpoints.items(), key=lambda row: (-row[1].count, row[1].first))
    for (address, port), at in rows[:MAX_ROWS]:
        hint = f" -> {at.hint}" if with_hints and at.hint else ""
        yield f"{INDENT}{host_port(address, port)} {_from_whom(at)}: {_first_of(at, files)}{hint}"
    if len(rows) > MAX_ROWS:
        more_than = "more than " if found.elsewhere else ""
        yield f"{INDENT}and {more_than}{counted(len(rows) - MAX_ROWS, 'more endpoint')}"


def _from_whom(at: AtEndpoint) -> str:
    if at.has_more_clients:
        return f"from more than {counted(len(at.clients), 'client')}" if at.clients else "from other clients"
    return f"from {len(at.clients)} clients" if len(at.clients) > 1 else f"from {next(iter(at.clients))}"


def _first_of(at: AtEndpoint, files: Sequence[str | None]) -> str:
    """Name the first packet with a finding: `packet 12`, or `3 times, first in packet b.pcap:12`."""
    file, packet = at.first.packet >> FILE_SHIFT, at.first.packet & PACKET_MASK
    name = packet_name(files[file] if file < len(files) else None, packet, files)
    return f"packet {name}" if at.count == 1 else f"{at.count} times, first in packet {name}"


def statistics_lines(summary: Summary, statistics: CaptureStatistics) -> Iterator[str]:
    """Yield two sums that account for every packet, and for every octet of ZMTP connections.

    They prove that nothing was lost.
    """
    other = {"TCP": statistics.tcp_segments, "UDP": statistics.udp_datagrams, **dict(sorted(statistics.other.items()))}
    yield labelled("packets", f"{statistics.packets} = {_sum(other)}")
    if statistics.fragments_given_up:
        yield labelled("fragments", f"{statistics.fragments_given_up} datagrams were incomplete")
    sums = summary.sums
    streams = {
        "in units": sums.units,
        "in gaps": sums.gaps,
        "in unfinished units": sums.unfinished,
        "not understood": sums.undissected,
    }
    yield labelled("stream octets", f"{sums.stream} = {_sum(streams)}")
    captured = {
        "in units": sums.units,
        "in unfinished units": sums.unfinished,
        "not understood": sums.undissected,
        "repeated": sums.repeated,
        "conflicting": sums.conflicting,
        "late": sums.late,
    }
    yield labelled("captured octets", f"{sums.captured} = {_sum(captured)}")
    if not sums.hold():
        yield labelled("", "the sums do not match; this is a bug of zmtpscope, please report it")


def labelled(label: str, text: str) -> str:
    return f"{label:<{LABEL}} {text}"


def _counted(counts: Mapping[str, int] | Counter[str]) -> str:
    """Format counts: `3.1: 12, 2.0: 1`, the most frequent first, then by word."""
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{safe_text(word) or 'without a name'}: {count}" for word, count in ordered) or "none"


def _sum(counts: Mapping[str, int]) -> str:
    return " + ".join(f"{count} {word}" for word, count in counts.items())
