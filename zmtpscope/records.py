"""Record types, fields and the `text` encoding: one schema for every output.

JSON keys, table columns, filter fields and the reference page are loops over `RECORDS`. Logical types are "int" (64 bit
with sign), "bool", "text", "octets", "json", and lists and structs of these. Null is unknown; no field is a guess.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

MASK = "***"
"""What stands in place of a secret, whatever its size."""

SECOND = 1_000_000_000
MILLISECOND = SECOND // 1000
"""In the unit of all times, nanoseconds."""

SCHEMA = 1
"""The value of `schema` in every record."""

_ESCAPE = re.compile(rb"\\x([0-9A-Fa-f]{2})|\\\\")


def to_text(octets: bytes) -> str:
    """UTF-8 where valid, every other octet as `\\xNN`, backslash doubled; `from_text` reverses it."""
    return octets.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def from_text(text: str) -> bytes:
    """The octets that `to_text` made `text` of, or that somebody typed: an argument may be no UTF-8 (PEP 383)."""
    octets = text.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()) if match[1] else b"\\", octets)


class Field(NamedTuple):
    """One field of a record; `unit` is None for plain numbers and words."""

    name: str
    type: str
    meaning: str
    unit: str | None = None


class RecordType(NamedTuple):
    """One record type: all its fields, in the order of every output."""

    name: str
    meaning: str
    fields: tuple[Field, ...]


COMMON = (
    Field("schema", "int", "Version of this schema: 1"),
    Field("record", "text", "Record type"),
    Field(
        "conn",
        "int",
        "TCP connection, counted from 1 by first packets: Wireshark's tcp.stream + 1; null for datagrams",
    ),
    Field("conn_id", "text", "TCP connection, or UDP flow, the same in every run and file: 16 hex digits"),
    Field("side", "int", "Sender: 0 opened the connection (or was seen first), 1 is its peer; null: both or neither"),
    Field("ts_ns", "int", "Time of the packet, since 1970-01-01 UTC", "ns"),
    Field("file", "text", "Capture file; null for a pipe"),
    Field("packet", "int", "Packet of the first octet, counted from 1 in its file"),
    Field("src_ip", "text", "Address of the sender (of side 0 where side is null)"),
    Field("src_port", "int", "Port of the sender"),
    Field("dst_ip", "text", "Address of the receiver"),
    Field("dst_port", "int", "Port of the receiver"),
)
"""What every record has."""

STREAM = (
    Field(
        "source",
        "int",
        "Octets that offsets count in: 0 is the TCP stream of the side, 1 the same with its boxes opened, and of ZWS "
        "with the masks of WebSocket taken off",
    ),
    Field("offset", "int", "Place of the first octet in the stream of the side, counted from 0", "octets"),
    Field("length", "int", "Size in the stream, headers included, as far as it is there", "octets"),
)
"""What every record has that stands for octets of a stream."""

_PAYLOAD = "struct<protocol:text,summary:text,fields:json>"
_METADATA = "list<struct<name:text,value:text>>"
_CONNECTION = (
    Field("start_ns", "int", "Time of the first packet", "ns"),
    Field("end_ns", "int", "Time of the packet that ended it, else of the last one", "ns"),
    Field("ip_0", "text", "Address of side 0"),
    Field("port_0", "int", "Port of side 0"),
    Field("ip_1", "text", "Address of side 1"),
    Field("port_1", "int", "Port of side 1"),
    Field("opened_by", "int", "Side that sent the SYN; null where that was not captured"),
    Field("security_server", "int", "Side that is the server of PLAIN, CURVE or GSSAPI"),
    Field("version", "text", 'ZMTP version in force: "1.0", "2.0", "3.0" or "3.1"; null: none was agreed'),
    Field(
        "transport",
        "text",
        "tcp, or ws: over WebSocket (ZWS 2.0), whose version is 3.1 with a mechanism and 2.0 without one",
    ),
    Field("mechanism", "text", "Security mechanism that both sides announced"),
    Field("socket_type_0", "text", "Socket type of side 0"),
    Field("socket_type_1", "text", "Socket type of side 1"),
    Field("identity_0", "text", "Identity (routing id) of side 0"),
    Field("identity_1", "text", "Identity (routing id) of side 1"),
    Field("handshake", "text", "complete, failed, incomplete, or unseen where the capture starts later"),
    Field(
        "close",
        "text",
        "fin (both sides closed), rst, open (still open where the capture ends), reused (a new one began on its "
        "ports) or evicted (too many were open)",
    ),
    Field("closed_by", "int", "Side of the first FIN or RST that was captured"),
    Field("closed_ns", "int", "Time of the first FIN or RST", "ns"),
    Field(
        "fin_ns_0", "int", "Time of the first FIN of side 0; null: none was captured before the connection ended", "ns"
    ),
    Field("fin_ns_1", "int", "The same of side 1", "ns"),
    Field(
        "fin_acknowledged",
        "bool",
        "Of a connection that one side closed: whether the other one acknowledged the FIN; null where both closed, "
        "none did, or a RST ended it",
    ),
    Field("rst_ns_0", "int", "Time of the RST of side 0, where that ended the connection", "ns"),
    Field("rst_ns_1", "int", "The same of side 1", "ns"),
    Field("reset_by", "int", "Side whose RST ended it; null where both had sent FIN before"),
    Field(
        "syn_ttl",
        "int",
        "TTL (IPv6: hop limit) of the last SYN of the side whose RST ended it; null: no RST, or no SYN was captured",
    ),
    Field("rst_ttl", "int", "TTL of that RST: another one where something on the way sent it in the name of the side"),
    Field("idle_ns", "int", "From its last packet to the end of the capture; null where it ended before", "ns"),
    Field("only_side", "int", "The side whose packets alone were captured; null where those of both were"),
    Field("messages_0", "int", "Messages that side 0 sent"),
    Field("messages_1", "int", "Messages that side 1 sent"),
    Field("sealed_0", "int", "How many of these stayed closed: each is a message, a part of one, or a command"),
    Field("sealed_1", "int", "The same of side 1"),
    Field("bytes_0", "int", "Octets in the message frames of side 0, headers not counted", "octets"),
    Field("bytes_1", "int", "Octets in the message frames of side 1, headers not counted", "octets"),
    Field("stream_bytes_0", "int", "Octets in the stream of side 0, gaps included", "octets"),
    Field("stream_bytes_1", "int", "The same of side 1", "octets"),
    Field("stalls_0", "int", "Stretches in which side 0 could not send, as `stall` records tell them"),
    Field("stalls_1", "int", "The same of side 1"),
    Field("stalled_ns_0", "int", "How long these were, all together", "ns"),
    Field("stalled_ns_1", "int", "The same of side 1", "ns"),
    Field("gap_bytes", "int", "Octets that the capture lost, of both sides", "octets"),
    Field(
        "unseen_bytes",
        "int",
        "Octets that the capture lost behind the last of a side, as the acknowledgments of the other one show",
        "octets",
    ),
    Field("unfinished_bytes", "int", "Octets of units whose rest was not captured", "octets"),
    Field("undissected_bytes", "int", "Octets that were captured but could not be read as ZMTP", "octets"),
    Field("confidence", "text", "That this is ZMTP: proven, likely or guess"),
)

_GREETING = (
    Field("version_announced", "text", "Version that the sender announces"),
    Field("mechanism", "text", "Security mechanism that the sender announces"),
    Field(
        "as_server",
        "int",
        "as-server octet: 1 is the security server (libzmq always sends 0)",
    ),
    Field("socket_type", "text", "Socket type, where the greeting holds it (2.0)"),
    Field("identity", "text", "Identity, where the greeting holds it (1.0 and 2.0)"),
    Field(
        "form",
        "text",
        "Shape: greeting-3x, greeting-2, greeting-r0, frames-1, pseudo-signature, signature and the like; of ZWS "
        "zws-request, zws-response and zws-identity",
    ),
    Field("complete", "bool", "All octets of it were captured"),
)

_COMMAND = (
    Field(
        "name",
        "text",
        "READY, SUBSCRIBE, PING, ERROR and the like; of WebSocket WS-PING, WS-PONG and WS-CLOSE",
    ),
    Field("size", "int", "Size of the command body, its name included", "octets"),
    Field("metadata", _METADATA, "Properties of READY and INITIATE, order and repeats kept"),
    Field("socket_type", "text", "Property Socket-Type"),
    Field("identity", "text", "Property Identity"),
    Field("topic", "text", "Topic of SUBSCRIBE or CANCEL"),
    Field("group", "text", "Group of JOIN or LEAVE"),
    Field("reason", "text", "Reason of ERROR, or of a WebSocket close"),
    Field("close_code", "int", "Status code of a WebSocket close"),
    Field("ttl_ms", "int", "How long the sender of PING may be silent from now on, 0: for ever", "ms"),
    Field(
        "context",
        "octets",
        "Context of PING or of a WebSocket ping, which the pong repeats",
    ),
    Field("username", "text", "PLAIN user name"),
    Field("password", "text", "PLAIN password; masked unless --show-secrets is given"),
    Field("version", "text", "Version of CurveZMQ in a CURVE HELLO"),
    Field("client_key", "octets", "Short-term public key of the client in a CURVE HELLO"),
    Field("server_key", "octets", "Short-term public key of the server, from a CURVE WELCOME that was opened"),
    Field("client_longterm_key", "text", "Public key of the client in Z85, from a CURVE INITIATE that was opened"),
    Field("server_longterm_key", "text", "Public key (Z85) of the server that a CURVE HELLO was made for, if proven"),
    Field("metadata_size", "int", "Size of the properties in a closed box of a CURVE INITIATE or READY", "octets"),
    Field("socket_type_guess", "list<text>", "Socket types that this size suggests, the likelier first: a guess"),
    Field("nonce", "int", "Short nonce of a CURVE command"),
    Field("long_nonce", "octets", "Long nonce of a CURVE WELCOME"),
    Field("token_size", "int", "Announced size of the token of a GSSAPI command", "octets"),
    Field("token_kind", "text", "What the first octets of a GSSAPI token say, for example Kerberos 5 AP-REQ"),
    Field("data", "octets", "Data of a command that is not known, its first 256 octets"),
    Field("mangled", "bool", "The name on the wire is a known misspelling of libzmq"),
    Field("decrypted", "bool", "The command was sealed and is shown as what its box holds"),
    Field("complete", "bool", "All octets of it were captured"),
)

_MESSAGE = (
    Field("parts", "int", "Number of frames; null where it cannot be known (CURVE without keys)"),
    Field("sizes", "list<int>", "Size of each frame's body", "octets"),
    Field("bodies", "list<octets>", "Body of each frame; null where not kept"),
    Field("bodies_kept", "text", "full, head (the first octets of each frame) or none"),
    Field("packet_end", "int", "Packet of the last octet"),
    Field("ts_end_ns", "int", "Time of the packet of the last octet, since 1970-01-01 UTC", "ns"),
    Field("version", "text", "ZMTP version in force"),
    Field("socket_type", "text", "Socket type of the sender"),
    Field("peer_socket_type", "text", "Socket type of the receiver"),
    Field("envelope", "list<text>", "Addresses in front of the empty delimiter; null where no envelope is known"),
    Field(
        "topic",
        "text",
        "Of a published message the first of several frames, or the longest subscription that its only frame matches; "
        "of a subscription its own",
    ),
    Field("kind", "text", "data, subscribe, cancel or encrypted"),
    Field("decrypted", "bool", "The message was encrypted and is shown in clear"),
    Field("payload", _PAYLOAD, "What rides inside the message"),
    Field("complete", "bool", "No octet of it was lost by the capture"),
    Field("confidence", "text", "That this is a message: proven, likely or guess"),
)

_FRAME = (
    Field("flags", "int", "Flags octet as it is on the wire"),
    Field("more", "bool", "More frames of the same message follow"),
    Field("long", "bool", "The size is written in eight octets"),
    Field("size", "int", "Size of the body", "octets"),
    Field("message", "int", "offset of the message that the frame belongs to", "octets"),
)

_DATAGRAM = (
    Field("kind", "text", "beacon (of ZRE), or radio (RADIO and DISH over UDP)"),
    Field("group", "text", "Group of a RADIO datagram"),
    Field("body", "octets", "Body of a RADIO datagram; null where not kept"),
    Field("payload", _PAYLOAD, "What a beacon says, or what rides inside the body"),
    Field("complete", "bool", "No octet of it was left out by the capture"),
    Field("confidence", "text", "That this is what `kind` says: proven, likely or guess"),
)

_ZRE_PAIR = (
    Field("uuid_0", "text", "UUID of the node that connected first, 32 hex digits"),
    Field("uuid_1", "text", "UUID of the other node"),
    Field("name_0", "text", "Name of the first node"),
    Field("name_1", "text", "Name of the other node"),
    Field("endpoint_0", "text", "Endpoint of the first node, as its HELLO says"),
    Field("endpoint_1", "text", "Endpoint of the other node"),
    Field("conn_0", "int", "conn of the connection on which the first node sends"),
    Field("conn_1", "int", "conn of the one on which the other node sends"),
    Field("conn_id_0", "text", "conn_id of the connection on which the first node sends"),
    Field("conn_id_1", "text", "conn_id of the one on which the other node sends"),
    Field("discovery_ns", "int", "From the first beacon of either to the later HELLO; null: no beacon was seen", "ns"),
)

_GAP = (
    Field("bytes", "int", "Octets that the capture lost", "octets"),
    Field("reason", "text", "How it is known that they will not come"),
    Field("resumed_at", "int", "offset at which reading went on; null: nowhere", "octets"),
)

_STALL = (
    Field("duration_ns", "int", "How long that was; of several stretches all together", "ns"),
    Field(
        "until",
        "text",
        "opened (the window was opened again), disconnected, running (the capture ends, and it was closed until "
        "then), or unseen (that it was opened was not captured, only when it was last said to be closed)",
    ),
    Field("until_ns", "int", "Time of that; of several stretches that of the last", "ns"),
    Field("window_probes", "int", "Packets by which the sender asked meanwhile whether the window is open"),
    Field(
        "count",
        "int",
        "How many stretches: of a side the first ten have a record each, and all that follow one more when the "
        "connection ends",
    ),
    Field("longest_ns", "int", "Duration of the longest of them", "ns"),
)

_RETRANSMISSION = (
    Field("duration_ns", "int", "From the first packet that was sent again to the answer, or to the end", "ns"),
    Field(
        "acknowledged",
        "bool",
        "Whether the other side acknowledged the octet at `offset` in the end; null: the end was not captured",
    ),
    Field(
        "until",
        "text",
        "acknowledged, disconnected, running (the capture ends), or unseen (the end was not captured)",
    ),
    Field("until_ns", "int", "Time of that; of several stretches that of the last", "ns"),
    Field("retransmissions", "int", "How often the octet at `offset` was sent again"),
    Field("keepalive_probes", "int", "How often the sender asked whether the other side is there (TCP keepalive)"),
    Field("smallest", "int", "Payload of the smallest segment that was sent again; 0: none was", "octets"),
    Field("largest", "int", "Payload of the largest one", "octets"),
    Field("answers", "int", "Packets of the other side that came meanwhile"),
    Field(
        "count",
        "int",
        "How many stretches: of a side the first ten have a record each, and all that follow one more when the "
        "connection ends",
    ),
    Field("longest_ns", "int", "Duration of the longest of them", "ns"),
)

_LEFTOVER = (
    Field("bytes", "int", "Octets that are in no other record", "octets"),
    Field(
        "kind",
        "text",
        "unfinished (of a unit whose rest was not captured) or undissected (it could not be read as ZMTP)",
    ),
    Field("reason", "text", "Why the octets are in no unit"),
    Field(
        "data",
        "octets",
        "The first of these octets, at most 32, of undissected ones; null where they may hold a password",
    ),
)

_FINDING = (
    Field("id", "text", "Which check, for example ZMTP3X-META-08"),
    Field("severity", "text", "error (forbidden), warn (probably wrong), note (worth knowing) or chat (normal)"),
    Field("text", "text", "What was found, a sentence"),
    Field("section", "text", "Where the protocol says so"),
    Field("hint", "text", "What to do about it"),
    Field("refs", "list<text>", "Records that it is about: conn_id/side/source/offset/record"),
    Field("count", "int", "How often, where repeats or attempts were counted"),
    Field("last_packet", "int", "Packet of the last repeat"),
)

_REQUEST = (
    Field("socket_type", "text", "Socket type of the asker"),
    Field("peer_socket_type", "text", "Socket type of who is asked"),
    Field("envelope", "list<text>", "Addresses in front of the empty delimiter, by which the reply was matched"),
    Field(
        "outcome",
        "text",
        "answered; late (the asker had asked anew before the reply came); open (none where the capture ends); "
        "unanswered (none before the connection ended, or the asker asked anew); unasked (a reply to nobody: then "
        "offset and length are null); unknown (octets are missing)",
    ),
    Field("latency_ns", "int", "From the request to its reply", "ns"),
    Field("waited_ns", "int", "From the request to its reply, else to the end of the connection or capture", "ns"),
    Field("size", "int", "Octets in the frames of the request", "octets"),
    Field(
        "acknowledged",
        "bool",
        "Whether the peer got the request: true if it replied, false if TCP sent it again and again and no packet of "
        "the peer acknowledged it; null: not known",
    ),
    Field("reply_ts_ns", "int", "Time of the reply", "ns"),
    Field("reply_packet", "int", "Packet of the reply"),
    Field("reply_offset", "int", "Place of the reply in the stream of the other side", "octets"),
    Field("reply_size", "int", "Octets in the frames of the reply", "octets"),
)

_SUBSCRIPTION = (
    Field("topic", "text", "What messages have to begin with; of a DISH the group that they have to be for"),
    Field("form", "text", "command (SUBSCRIBE of 3.1), message (01 and the topic) or join (JOIN of a group)"),
    Field("until_ns", "int", "When it ended; null: in force where the capture ends", "ns"),
    Field("ended_by", "text", "cancel, or close of the connection; null: in force where the capture ends"),
    Field("times", "int", "How often it was made; a publisher of libzmq counts them as one, a RADIO each"),
    Field("delay_ns", "int", "How long after the handshake it came; null: the handshake was not captured", "ns"),
    Field("messages", "int", "Messages that came on this connection meanwhile and begin with it, or are for the group"),
    Field("first_ns", "int", "Time of the first of them", "ns"),
)

_HEARTBEAT = (
    Field("ttl_ms", "int", "How long the asker may be silent from now on, 0: for ever", "ms"),
    Field(
        "outcome",
        "text",
        "answered; open (no PONG where the capture ends); unanswered (none before the connection ended); unknown "
        "(octets are missing)",
    ),
    Field("rtt_ns", "int", "From the PING to its PONG", "ns"),
    Field("reply_ts_ns", "int", "Time of the PONG", "ns"),
    Field("reply_packet", "int", "Packet of the PONG"),
    Field("reply_offset", "int", "Place of the PONG in the stream of the other side", "octets"),
)

_DEPARTURE = "list<struct<ts_ns:int,conn_id:text,cause:text,by:text>>"
_PEER = (
    Field("name", "text", "What it is known by: its identity, else its address"),
    Field("identity", "text", "Identity (routing id) that it announced"),
    Field("address", "text", "Its address; with the port where it was connected to"),
    Field("socket_type", "text", "Its socket type"),
    Field("role", "text", "connects, or listens"),
    Field("remote", "text", "Where it connects to; null where it listens"),
    Field("connections", "int", "How many connections it had"),
    Field("failed", "int", "Those of them whose handshake failed, and attempts that came to nothing"),
    Field("start_ns", "int", "First packet of the first", "ns"),
    Field("end_ns", "int", "When it was last seen", "ns"),
    Field("state", "text", "connected where the capture ends, gone, or never connected"),
    Field("cadence_ns", "int", "Usual time from one attempt to the next, where there were three or more", "ns"),
    Field(
        "departures",
        _DEPARTURE,
        "When and why each of its connections ended, the last hundred. `cause` is closed (FIN without a word), reset "
        "(RST without a word), heartbeat (a PING had no answer, or its TTL was over), unacknowledged (TCP gave up, "
        "since nothing was acknowledged), middlebox (a RST that something on the way sent), error (an ERROR was sent), "
        "handshake (not completed) or violation (a frame just before broke the protocol); `by` is itself or other",
    ),
    Field("messages_sent", "int", "Messages that it sent"),
    Field("messages_received", "int", "Messages that it received"),
)

_TOPIC = (
    Field("topic", "text", "Topic of a published message, or its group"),
    Field("publisher", "text", "Who published it: address and port that was connected to, or the address of a PUB"),
    Field("messages", "int", "Messages on the connection that got most of them: what was published at least"),
    Field("bytes", "int", "Octets in their frames", "octets"),
    Field("first_ns", "int", "Time of the first", "ns"),
    Field("last_ns", "int", "Time of the last", "ns"),
    Field("subscribers", "int", "Connections that got some"),
)

_DELIVERY = (
    Field("topic", "text", "Topic of a published message, or its group"),
    Field("publisher", "text", "Who published it"),
    Field("subscriber", "text", "Who got it: identity, else address"),
    Field("messages", "int", "How many it got"),
    Field("unacknowledged", "int", "How many more were sent to it, again and again, and it never acknowledged them"),
    Field("siblings", "int", "Other subscribers of the publisher that got the topic"),
    Field("missed_early", "int", "At least so many a sibling got before this one subscribed"),
    Field("missed", "int", "At least so many a sibling got while this one was subscribed, and it did not"),
    Field("first_ns", "int", "Time of the first that it got", "ns"),
    Field("last_ns", "int", "Time of the last that it got", "ns"),
)

_EVIDENCE = "list<struct<ts_ns:int,file:text,packet:int,ref:text,text:text>>"
_DIAGNOSIS = (
    Field("rule", "text", "Which rule, for example late-subscriber; `check --explain` says more"),
    Field("severity", "text", "error (it does not work), warn (probably wrong) or note (worth knowing)"),
    Field("text", "text", "The cause, a sentence"),
    Field("hint", "text", "What to do about it"),
    Field("subject", "text", "What it is about: a peer, an endpoint, a topic"),
    Field("certainty", "text", "proven by what was captured, or likely"),
    Field("evidence", _EVIDENCE, "What it stands on; `ref` is conn_id/side/source/offset/record"),
    Field("count", "int", "How often it happened"),
    Field("last_ns", "int", "When it happened last", "ns"),
    Field("because_of", "text", "Rule whose diagnosis this is a consequence of, with its subject"),
)

RECORDS: dict[str, RecordType] = {
    type_.name: type_
    for type_ in (
        RecordType("connection", "A TCP connection that speaks ZMTP, written when it ends", COMMON + _CONNECTION),
        RecordType("greeting", "The first octets of a side: version and mechanism", COMMON + STREAM + _GREETING),
        RecordType("command", "READY, ERROR, SUBSCRIBE, PING and the like", COMMON + STREAM + _COMMAND),
        RecordType("message", "A whole message of one or more frames", COMMON + STREAM + _MESSAGE),
        RecordType("frame", "One frame of a message, with --frames", COMMON + STREAM + _FRAME),
        RecordType("datagram", "A UDP datagram: a ZRE beacon, or a RADIO message", COMMON + STREAM + _DATAGRAM),
        RecordType(
            "zre_pair", "Two ZRE nodes and their connections, written when both have said HELLO", COMMON + _ZRE_PAIR
        ),
        RecordType("gap", "Octets that the capture lost", COMMON + STREAM + _GAP),
        RecordType(
            "stall",
            "A stretch of time in which a side could not send, since the other one had closed its receive window",
            COMMON + STREAM + _STALL,
        ),
        RecordType(
            "retransmission",
            "A stretch of time in which a side sent the same octets or keepalive probes again and again, and the other "
            "did not acknowledge them",
            COMMON + STREAM + _RETRANSMISSION,
        ),
        RecordType(
            "leftover",
            "Octets that were captured and are in no greeting, command or message",
            COMMON + STREAM + _LEFTOVER,
        ),
        RecordType("finding", "Something worth saying", COMMON + STREAM + _FINDING),
        RecordType("request", "A request and what became of it, with --derived", COMMON + STREAM + _REQUEST),
        RecordType(
            "subscription",
            "What a side subscribed to, from when to when, with --derived",
            COMMON + STREAM + _SUBSCRIPTION,
        ),
        RecordType("heartbeat", "A PING and its PONG, with --derived", COMMON + STREAM + _HEARTBEAT),
        RecordType("peer", "A peer over all its connections, with --derived", COMMON + _PEER),
        RecordType("topic", "What one publisher published under a topic, with --derived", COMMON + _TOPIC),
        RecordType(
            "delivery", "How much of a topic a subscriber got, beside others, with --derived", COMMON + _DELIVERY
        ),
        RecordType("diagnosis", "What went wrong, why, and what to do, with --derived", COMMON + _DIAGNOSIS),
    )
}
"""Every record type by name."""

PLURALS = {name: f"{name}s" for name in RECORDS} | {"delivery": "deliveries", "diagnosis": "diagnoses"}
"""What tables of record types are called."""
SINGULARS = {plural: name for name, plural in PLURALS.items()}
"""The record types by the names of their tables."""

DERIVED = frozenset({"request", "subscription", "heartbeat", "peer", "topic", "delivery", "diagnosis"})
"""Those that are made of others, and written where somebody asks for them."""

ACROSS = frozenset({"peer", "topic", "delivery", "diagnosis"})
"""Those of them that are about several connections, and written at the end."""


_EMPTY: dict[str, dict[str, Any]] = {
    name: dict.fromkeys([field.name for field in type_.fields]) for name, type_ in RECORDS.items()
}


def empty(type: str) -> dict[str, Any]:
    """A record of that type with every field null."""
    return _EMPTY[type].copy()
