"""Describe a record in a few words, for the last column of a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from zmtpscope.dissect.findings.attempts import FINDING_BY_OUTCOME
from zmtpscope.dissect.findings.drops import CLOCK_WENT_BACK, PACKETS_DROPPED
from zmtpscope.export.preview import preview, quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.side_names import LONGEST_TYPE, name_of_side, named
from zmtpscope.records import MASK, MILLISECOND, SECOND
from zmtpscope.words import counted, cut, either, host_port
from zmtpscope.zmtp.mechanisms.null import STATUS

Values = dict[str, Any]

MAX_PROPERTIES = 8

LONGEST_SENTENCE = 400
"""Characters of a finding in a line; real texts with names of peers have fewer than 300."""

SUMS = frozenset({*FINDING_BY_OUTCOME.values(), PACKETS_DROPPED, CLOCK_WENT_BACK})
"""Findings whose text includes the number of events."""

GIVEN_UP = {"end of the connection": "waited for until the end"}
"""Longer texts for some reasons of a gap."""

SPELT = {"HELLO": "(spelt WELCOME on the wire)", "ERROR": "(spelt ^RROR on the wire)"}
"""Remarks on names that libzmq spells differently in PLAIN (wire.md 8.2)."""

MAX_OF_DATA = 68
"""Characters of unparsed octets: the hex digits of all octets in the record."""

SMALL = 6
"""Octets after a command name that are too few to mention."""

SIGNATURE_SIZE, GREETING_3_SIZE = 10, 64


def describe_greeting(values: Values) -> str:
    """Describe a greeting: `GREETING 3.1 CURVE`.

    2.0 has a socket type in place of the mechanism: `GREETING 2.0 SUB`; 1.0 has an identity.
    """
    version, mechanism, length = values["version_announced"], values["mechanism"], values["length"]
    words = ["GREETING"]
    if values["form"] == "zws-identity":
        return f"IDENTITY {quoted(values['identity'] or '')}"
    if values["form"] == "zws-response" and version is None:
        return "GREETING refuses ZWS"
    if version is None and values["form"] == "greeting-3x-partial" and length > SIGNATURE_SIZE:
        words.append(f"3.x incomplete, {length} of {GREETING_3_SIZE} octets")
    elif version is None:
        words.append("signature only" if length == SIGNATURE_SIZE else f"incomplete, {counted(length, 'octet')}")
    elif mechanism is not None:
        words += [version, mechanism if mechanism.isascii() and mechanism.isalnum() else quoted(mechanism)]
    elif version.startswith("3") and length < GREETING_3_SIZE and values["socket_type"] is None:
        words.append(f"{version} incomplete, {length} of {GREETING_3_SIZE} octets")
    else:
        words.append(version if "." in version else "2.0")
    words += _sender(values)
    if version is not None and "." not in version:
        # a newer peer that continued as 2.0 never sent its minor version
        words.append(f"(could speak {version}.x)")
    if values["as_server"]:
        words.append("as-server" if values["as_server"] == 1 else f"as-server {values['as_server']}")
    if values["form"] == "pseudo-signature":
        words.append("of a newer peer")
    return " ".join(words)


def describe_command(values: Values) -> str:
    """Describe a command: `READY SUB`, `SUBSCRIBE "topic"`, `PING ttl 3 s`."""
    words: list[str] = [*_sender(values)]
    for name in ("topic", "group", "reason"):
        if values[name] is not None:
            words.append(quoted(values[name]))
    if values["close_code"] is not None:
        words.insert(0, str(values["close_code"]))
    if values["topic"] == "":
        words.append("(everything)")
    if values["reason"] in STATUS:
        words.append(f"({STATUS[values['reason']]})")
    if values["ttl_ms"]:
        words.append(f"ttl {values['ttl_ms'] / 1000:g} s")
    if values["context"]:
        words.append(f"context {preview(values['context'], len(values['context']), 36)}")
    if values["username"] is not None:
        words.append(f"user {quoted(values['username'])}")
    if values["password"] is not None:
        words.append(f"password {values['password'] if values['password'] == MASK else quoted(values['password'])}")
    words += _words_of_curve(values)
    if values["token_size"] is not None:
        kind = f" ({values['token_kind']})" if values["token_kind"] else ""
        inside = " with READY inside" if values["name"] == "MESSAGE" else ""
        words.append(f"token of {counted(values['token_size'], 'octet')}{kind}{inside}")
    properties = [each for each in values["metadata"] or () if each["name"].lower() not in ("socket-type", "identity")]
    words += [f"{safe_text(each['name'][:40])}={quoted(each['value'])}" for each in properties[:MAX_PROPERTIES]]
    if len(properties) > MAX_PROPERTIES:
        words.append(f"and {len(properties) - MAX_PROPERTIES} more")
    if values["data"]:
        words.append(preview(values["data"], len(values["data"]), 40))
    name = values["name"] or ""
    if not words and values["metadata"] is None and (values["size"] or 0) > len(name) + SMALL:
        words.append(counted(values["length"], "octet"))
    if values["mangled"]:
        words.append(SPELT.get(name, "(misspelt on the wire)"))
    nameless = "empty command" if values["size"] == 0 else "command without a name"
    opened = ["decrypted"] if values["decrypted"] else []
    return " ".join([*opened, safe_text(name[:40]) or nameless, *words])


def _sender(values: Values) -> Iterator[str]:
    if values["socket_type"]:
        yield safe_text(values["socket_type"])[:LONGEST_TYPE]
    if values["identity"]:
        yield named(values["identity"])


def _words_of_curve(values: Values) -> Iterator[str]:
    if values["version"] is not None:
        yield f"CurveZMQ {values['version']}"
    if values["server_longterm_key"] is not None:
        yield f"made for the server {values['server_longterm_key']}"
    if values["client_longterm_key"] is not None:
        yield f"of the client {values['client_longterm_key']}"
    if values["metadata_size"] is not None:
        guess = values["socket_type_guess"]
        perhaps = f", perhaps of {either(guess)}" if guess else ""
        yield f"metadata of {counted(values['metadata_size'], 'octet')}{perhaps}"


def describe_gap(values: Values) -> str:
    """Describe a gap: how many octets are missing, and where parsing resumes."""
    resumed = values["resumed_at"]
    after = "no frame found after it" if resumed is None else f"parsing resumes at offset {resumed}"
    why = GIVEN_UP.get(values["reason"], values["reason"])
    lost = counted(values["bytes"], "octet")
    return f"gap of {lost} at offset {values['offset']}, not captured ({why}), {after}"


def describe_stall(values: Values) -> str:
    """Describe a stall: `10.0.0.2:41234 took nothing for 3.200 s: its receive window was closed (12 window probes)`."""
    until, count = values["until"], values["count"]
    duration = _duration(values["duration_ns"])
    took, was = ("has taken", "is") if until == "running" else ("took", "was")
    how_long = {
        "disconnected": f"for the last {duration} of the connection",
        "unseen": f"for {duration} or longer",
        "running": f"for {duration}, up to the end of the capture",
    }.get(until, f"for {duration}")
    if count > 1:
        took, was = "took", "was"
        how_long = f"for {duration} in {count} more stretches, the longest of {_duration(values['longest_ns'])}"
    receiver = host_port(values["dst_ip"], values["dst_port"])
    probes = f" ({counted(values['window_probes'], 'window probe')})" if values["window_probes"] else ""
    return f"{receiver} {took} nothing {how_long}: its receive window {was} closed{probes}"


def describe_retransmission(values: Values) -> str:
    """Describe an outage: `10.0.0.2:41234 did not acknowledge offset 144 for 6.5 s: it was sent again 6 times, 26
    octets at a time`."""
    duration, count = _duration(values["duration_ns"]), values["count"]
    how_long = {
        "disconnected": f"for the last {duration} of the connection",
        "running": f"for {duration}, up to the end of the capture",
        "acknowledged": f"for {duration}, and then did",
    }.get(values["until"], f"for {duration} or longer")
    if values["longest_ns"] < SECOND:
        how_long = f"and later octets at once, {counted(count, 'time')}"
    elif count > 1:
        how_long = f"for {duration} in {count} more stretches, the longest of {_duration(values['longest_ns'])}"
    receiver, probes = host_port(values["dst_ip"], values["dst_port"]), values["keepalive_probes"]
    probed = f"{counted(probes, 'keepalive probe')} had no answer" if probes else ""
    if not values["retransmissions"]:
        return f"{receiver} did not answer {how_long}: {probed}"
    sizes = sorted({values["smallest"], values["largest"]})
    octets = f"{sizes[0]} to {sizes[1]} octets" if len(sizes) > 1 else counted(sizes[0], "octet")
    again = f"sent again {counted(values['retransmissions'], 'time')}, {octets} at a time"
    more = f"; {probed}" if probed else ""
    if values["acknowledged_before"]:
        sender = host_port(values["src_ip"], values["src_port"])
        return f"{sender} sent acknowledged octets again {how_long}: {again}; the acknowledgments did not reach it"
    return f"{receiver} did not acknowledge offset {values['offset']} {how_long}: {again}{more}"


def describe_leftover(values: Values) -> str:
    """Describe octets that were not dissected: their size, the reason, and the first octets."""
    octets = counted(values["bytes"], "octet")
    what = "of an incomplete greeting or frame" if values["kind"] == "unfinished" else "not understood"
    begins = f": {preview(values['data'], values['bytes'], MAX_OF_DATA)}" if values["data"] else ""
    return f"{octets} {what} at offset {values['offset']} ({values['reason']}){begins}".rstrip()


def describe_finding(values: Values) -> str:
    """Describe a finding: severity, id and text, without its hint."""
    count = values["count"] or 1
    more = f" ({count} times more, the last in packet {values['last_packet']})"
    if count == 1 or values["id"] in SUMS:
        more = ""
    return f"{values['severity']} {values['id']} {safe_text(cut(values['text'], LONGEST_SENTENCE))}{more}"


def _duration(nanoseconds: int) -> str:
    return f"{nanoseconds / SECOND:.3f} s" if nanoseconds >= SECOND else f"{nanoseconds / MILLISECOND:.1f} ms"


def describe_connection(values: Values) -> str:
    """Describe a closed connection: how it ended, its protocol, and how much each side sent."""
    words = [_end_of(values)]
    unseen = values["handshake"] == "unseen"
    if values["version"] is not None:
        over = " over WebSocket" if values["transport"] == "ws" else ""
        words.append(f"{values['version']} {safe_text(values['mechanism'] or '')}".rstrip() + over)
    elif unseen:
        words.append("version unknown")
    else:
        words.append("no version agreed yet" if values["close"] == "open" else "no version agreed")
    if unseen:
        words.append("start not captured")
    elif values["version"] is not None and values["handshake"] != "complete":
        words.append(f"handshake {values['handshake']}")
    words += _opened_and_sealed(values)
    if values["gap_bytes"]:
        words.append(f"{counted(values['gap_bytes'], 'octet')} lost")
    if values["undissected_bytes"]:
        words.append(f"{counted(values['undissected_bytes'], 'octet')} not understood")
    return ", ".join(words)


def _end_of(values: Values) -> str:
    """Describe how a connection ended: which side closed first, when, and with what effect."""
    how: str = values["close"]
    start: int = values["start_ns"]
    end: int = values["end_ns"]
    closed: int | None = values["closed_ns"]
    since = "after more than" if values["opened_by"] is None else "after"
    idle = "" if not values["idle_ns"] else f", idle for {_duration(values['idle_ns'])}"
    ended = ", too many connections were open" if how == "evicted" else ""
    if how == "reused":
        ended = f", another connection began on its ports {_duration(values['idle_ns'] or 0)} later"
    if closed is None and how == "open":
        age = _duration(end + (values["idle_ns"] or 0) - start)
        return f"still open at the end of the capture, {since} {age}{idle}"
    if closed is None:
        return f"{UNSEEN.get(how, how)} {since} {_duration(end - start)}{ended}"
    after = f"{_by(values, values['closed_by'])} {since} {_duration(max(0, closed - start))}"
    later = f"{_duration(max(0, end - closed))} later"
    if how == "fin" and end - closed < SECOND:
        return f"closed{after}"
    if how == "fin":
        return f"closed{after},{_by(values, 1 - values['closed_by'])} {later}"
    if how == "rst":
        at_once = values["closed_by"] == values["reset_by"] and end == closed
        return f"reset{after}" if at_once else f"closed{after}, reset{_by(values, values['reset_by'])} {later}"
    if values["only_side"] is not None:
        return f"FIN{after}, the other direction was not captured{ended}"
    if how == "open":
        return f"half closed{after}, still open{idle} at the end of the capture"
    return f"half closed{after}, {UNSEEN.get(how, how)}{ended}"


UNSEEN = {"reused": "ended unseen", "evicted": "given up"}
"""Words for ends of connections that were not captured."""


def _by(values: Values, side: int) -> str:
    return f" by {name_of_side(values, side)}"


def _opened_and_sealed(values: Values) -> Iterator[str]:
    """Yield how much each side sent.

    If it is encrypted, messages, their parts and commands cannot be distinguished.
    """
    sealed = [values["sealed_0"], values["sealed_1"]]
    opened = [values[f"messages_{side}"] - sealed[side] for side in (0, 1)]
    if any(opened) or not any(sealed):
        yield _by_sender(values, opened, "message")
    if any(sealed):
        yield _by_sender(values, sealed, "encrypted frame")


def _by_sender(values: Values, counts: Sequence[int], noun: str) -> str:
    """Write a count of each sender: `1 message from REQ, 2 from REP:5555`, or `no messages`."""
    if not any(counts):
        return f"no {noun}s"
    (first, count), *others = [(side, count) for side, count in enumerate(counts) if count]
    words = [f"{counted(count, noun)} from {name_of_side(values, first)}"]
    return ", ".join([*words, *(f"{count} from {name_of_side(values, side)}" for side, count in others)])


def describe_datagram(values: Values) -> str:
    """Describe a UDP datagram: `BEACON node 700C6B is here, mailbox at port 33411`, `RADIO "news" body`."""
    payload = values["payload"]
    doubt = "" if values["confidence"] == "proven" else f" ({values['confidence']})"
    doubt += "" if values["complete"] else " incomplete"
    if values["kind"] == "beacon":
        return f"BEACON{doubt} {safe_text(payload['summary'])}"
    words = f"RADIO{doubt} {'malformed' if values['group'] is None else quoted(values['group'])}"
    if payload is not None and payload["protocol"] != "text":
        return f"{words}  {payload['protocol']} {safe_text(payload['summary'][:80])}"
    body = values["body"]
    return words if body is None else f"{words}  {preview(body, len(body), 80)}"


def describe_zre_pair(values: Values) -> str:
    """Describe two ZRE nodes: `ZRE nodes alice and bob have found each other, connections 1 and 2`."""
    one, other = (values[f"name_{which}"] or values[f"uuid_{which}"][:6] for which in (0, 1))
    found = values["discovery_ns"]
    after = "" if found is None else f", {_duration(found)} after the first beacon"
    conns = f"connections {values['conn_0']} and {values['conn_1']}"
    return f"ZRE nodes {safe_text(one)} and {safe_text(other)} are connected, {conns}{after}"


def describe_request(values: Values) -> str:
    """Describe a request: `REQUEST answered after 2.1 ms`, `REQUEST open for 12.000 s`."""
    outcome, waited = values["outcome"], values["waited_ns"]
    if outcome == "unasked":
        return "REQUEST none: a reply without a request"
    took = "" if waited is None else f" {'after' if values['latency_ns'] is not None else 'for'} {_duration(waited)}"
    return f"REQUEST {outcome}{took}"


def describe_subscription(values: Values) -> str:
    """Describe a subscription: `SUBSCRIBED to "topic" for 3.000 s (cancel), 12 messages`."""
    until = values["until_ns"]
    how = (
        "until the end" if until is None else f"for {_duration(max(0, until - values['ts_ns']))}, {values['ended_by']}"
    )
    messages = "" if values["messages"] is None else f", {counted(values['messages'], 'message')}"
    what = "JOINED" if values["form"] == "join" else "SUBSCRIBED to"
    return f"{what} {quoted(values['topic'] or '')} {how}{messages}"


def describe_heartbeat(values: Values) -> str:
    rtt = "" if values["rtt_ns"] is None else f" after {_duration(values['rtt_ns'])}"
    return f"HEARTBEAT {values['outcome']}{rtt}"


def describe_peer(values: Values) -> str:
    """Describe a peer: `PEER DEALER "worker-1": 3 connections, gone`."""
    kind = [safe_text(values["socket_type"])[:LONGEST_TYPE]] if values["socket_type"] else []
    name = named(values["identity"]) if values["identity"] else safe_text(values["name"] or "")
    return f"PEER {' '.join([*kind, name])}: {counted(values['connections'], 'connection')}, {values['state']}"


def describe_topic(values: Values) -> str:
    to = counted(values["subscribers"], "subscriber")
    return f"TOPIC {quoted(values['topic'] or '')}: {counted(values['messages'], 'message')} to {to}"


def describe_delivery(values: Values) -> str:
    missed = (values["missed"] or 0) + (values["missed_early"] or 0)
    return (
        f"DELIVERY of {quoted(values['topic'] or '')}: {counted(values['messages'], 'message')}"
        + f", missed {missed} at least" * bool(missed)
    )


def describe_diagnosis(values: Values) -> str:
    return f"{values['severity']} {values['rule']} {safe_text(values['text'][:LONGEST_SENTENCE])}"


DESCRIBE: dict[str, Callable[[Values], str]] = {
    "greeting": describe_greeting,
    "command": describe_command,
    "gap": describe_gap,
    "stall": describe_stall,
    "retransmission": describe_retransmission,
    "leftover": describe_leftover,
    "finding": describe_finding,
    "connection": describe_connection,
    "datagram": describe_datagram,
    "zre_pair": describe_zre_pair,
    "request": describe_request,
    "subscription": describe_subscription,
    "heartbeat": describe_heartbeat,
    "peer": describe_peer,
    "topic": describe_topic,
    "delivery": describe_delivery,
    "diagnosis": describe_diagnosis,
}
"""Functions by record type, for records that are no rows."""
