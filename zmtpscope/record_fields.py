"""The fields of every record type, in the order of every output.

Field types are "int" (64 bit with sign), "bool", "text", "octets", "json", and lists and structs of these. Null means
that a value is unknown; no value is guessed.
"""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """A field of a record type. `unit` is None for plain numbers and words."""

    name: str
    type: str
    meaning: str
    unit: str | None = None


COMMON = (
    Field("schema", "int", "Version of this schema: 1"),
    Field("record", "text", "Record type"),
    Field(
        "conn", "int", "TCP connection, counted from 1 by first packets: Wireshark's tcp.stream + 1; null for datagrams"
    ),
    Field("conn_id", "text", "TCP connection, or UDP flow, the same in every run and file: 16 hex digits"),
    Field(
        "side", "int", "Sender: 0 opened the connection (or was captured first), 1 is its peer; null: both or neither"
    ),
    Field("ts_ns", "int", "Time of the packet, since 1970-01-01 UTC", "ns"),
    Field("file", "text", "Capture file; null for a pipe"),
    Field("packet", "int", "Packet of the first octet, counted from 1 in its file"),
    Field("src_ip", "text", "Address of the sender (of side 0 if side is null)"),
    Field("src_port", "int", "Port of the sender"),
    Field("dst_ip", "text", "Address of the receiver"),
    Field("dst_port", "int", "Port of the receiver"),
)

STREAM = (
    Field(
        "source",
        "int",
        "Stream of the offsets: 0 is the TCP stream of the side, 1 the stream after decryption of its boxes, or after "
        "WebSocket unmasking (ZWS)",
    ),
    Field("offset", "int", "Position of the first octet in the stream of the side, counted from 0", "octets"),
    Field("length", "int", "Size in the stream, headers included, as far as captured", "octets"),
)
"""Fields of every record of octets in a stream, after the common ones."""

_PAYLOAD = "struct<protocol:text,summary:text,fields:json>"
METADATA = "list<struct<name:text,value:text>>"
CONNECTION = (
    Field("start_ns", "int", "Time of the first packet", "ns"),
    Field("end_ns", "int", "Time of the packet that ended the connection, otherwise of the last packet", "ns"),
    Field("ip_0", "text", "Address of side 0"),
    Field("port_0", "int", "Port of side 0"),
    Field("ip_1", "text", "Address of side 1"),
    Field("port_1", "int", "Port of side 1"),
    Field("opened_by", "int", "Side that sent the SYN; null: the SYN was not captured"),
    Field("security_server", "int", "Side that is the server of PLAIN, CURVE or GSSAPI"),
    Field("version", "text", 'ZMTP version in force: "1.0", "2.0", "3.0" or "3.1"; null: none was agreed'),
    Field(
        "transport", "text", "tcp, or ws: WebSocket (ZWS 2.0), with version 3.1 if it has a mechanism and 2.0 otherwise"
    ),
    Field("mechanism", "text", "Security mechanism that both sides announced"),
    Field("socket_type_0", "text", "Socket type of side 0"),
    Field("socket_type_1", "text", "Socket type of side 1"),
    Field("identity_0", "text", "Identity (routing id) of side 0"),
    Field("identity_1", "text", "Identity (routing id) of side 1"),
    Field("handshake", "text", "complete, failed, incomplete, or unseen (the capture started later)"),
    Field(
        "close",
        "text",
        "fin (both sides closed), rst, open (still open at the end of the capture), reused (a new connection began on "
        "its ports) or evicted (too many connections were open)",
    ),
    Field("closed_by", "int", "Side of the first captured FIN or RST"),
    Field("closed_ns", "int", "Time of the first FIN or RST", "ns"),
    Field(
        "fin_ns_0",
        "int",
        "Time of the first FIN of side 0; null: no FIN was captured before the connection ended",
        "ns",
    ),
    Field("fin_ns_1", "int", "Time of the first FIN of side 1", "ns"),
    Field(
        "fin_acknowledged",
        "bool",
        "Whether the FIN was acknowledged, if only one side closed; null: both closed, neither did, or a RST ended the "
        "connection",
    ),
    Field("rst_ns_0", "int", "Time of the RST of side 0, if it ended the connection", "ns"),
    Field("rst_ns_1", "int", "Time of the RST of side 1, if it ended the connection", "ns"),
    Field("reset_by", "int", "Side whose RST ended the connection; null: both sides had sent FIN before"),
    Field(
        "syn_ttl",
        "int",
        "TTL (IPv6: hop limit) of the last SYN of the side whose RST ended the connection; null: no RST, or the "
        "SYN was not captured",
    ),
    Field(
        "rst_ttl", "int", "TTL of that RST; differs from syn_ttl if a middlebox sent the RST in the name of the side"
    ),
    Field(
        "rst_ack",
        "bool",
        "Whether that RST has the ACK flag; false: it answers a segment of a connection that the system does not know",
    ),
    Field(
        "idle_ns", "int", "Time from the last packet to the end of the capture; null: the connection ended before", "ns"
    ),
    Field("only_side", "int", "Side of all captured packets; null: packets of both sides were captured"),
    Field("messages_0", "int", "Messages that side 0 sent"),
    Field("messages_1", "int", "Messages that side 1 sent"),
    Field("sealed_0", "int", "Number of those not decrypted: each is a message, a part of a message, or a command"),
    Field("sealed_1", "int", "Likewise for side 1"),
    Field("bytes_0", "int", "Octets in the message frames of side 0, headers not counted", "octets"),
    Field("bytes_1", "int", "Octets in the message frames of side 1, headers not counted", "octets"),
    Field("stream_bytes_0", "int", "Octets in the stream of side 0, gaps included", "octets"),
    Field("stream_bytes_1", "int", "Octets in the stream of side 1, gaps included", "octets"),
    Field("stalls_0", "int", "Number of times that side 0 could not send (see the record `stall`)"),
    Field("stalls_1", "int", "Likewise for side 1"),
    Field("stalled_ns_0", "int", "Total time that side 0 could not send", "ns"),
    Field("stalled_ns_1", "int", "Total time that side 1 could not send", "ns"),
    Field("gap_bytes", "int", "Octets of both sides that the capture lost", "octets"),
    Field(
        "unseen_bytes",
        "int",
        "Octets that the capture lost after the last captured octet of a side, known from acknowledgments",
        "octets",
    ),
    Field("unfinished_bytes", "int", "Octets of units that were not captured to their end", "octets"),
    Field("undissected_bytes", "int", "Captured octets that could not be parsed as ZMTP", "octets"),
    Field("confidence", "text", "That this is ZMTP: proven, likely or guess"),
)

GREETING = (
    Field("version_announced", "text", "Version that the sender announces"),
    Field("mechanism", "text", "Security mechanism that the sender announces"),
    Field("as_server", "int", "as-server octet: 1 is the security server (libzmq always sends 0)"),
    Field("socket_type", "text", "Socket type, if the greeting contains it (2.0)"),
    Field("identity", "text", "Identity, if the greeting contains it (1.0 and 2.0)"),
    Field(
        "form",
        "text",
        "Layout: greeting-3x, greeting-2, greeting-r0, frames-1, pseudo-signature, signature and others; for ZWS "
        "zws-request, zws-response and zws-identity",
    ),
    Field("complete", "bool", "All its octets were captured"),
)

COMMAND = (
    Field("name", "text", "READY, SUBSCRIBE, PING, ERROR and others; for WebSocket WS-PING, WS-PONG and WS-CLOSE"),
    Field("size", "int", "Size of the command body, its name included", "octets"),
    Field("metadata", METADATA, "Properties of READY and INITIATE, in order, with repeats"),
    Field("socket_type", "text", "Property Socket-Type"),
    Field("identity", "text", "Property Identity"),
    Field("topic", "text", "Topic of SUBSCRIBE or CANCEL"),
    Field("group", "text", "Group of JOIN or LEAVE"),
    Field("reason", "text", "Reason of ERROR, or of a WebSocket close"),
    Field("close_code", "int", "Status code of a WebSocket close"),
    Field("ttl_ms", "int", "Time that the sender of PING may be silent from now on; 0: no limit", "ms"),
    Field("context", "octets", "Context of PING or of a WebSocket ping, repeated by the pong"),
    Field("username", "text", "PLAIN user name"),
    Field("password", "text", "PLAIN password; masked unless --show-secrets is given"),
    Field("version", "text", "Version of CurveZMQ in a CURVE HELLO"),
    Field("client_key", "octets", "Short-term public key of the client in a CURVE HELLO"),
    Field("server_key", "octets", "Short-term public key of the server, from a decrypted CURVE WELCOME"),
    Field("client_longterm_key", "text", "Public key of the client in Z85, from a decrypted CURVE INITIATE"),
    Field(
        "server_longterm_key", "text", "Public key (Z85) of the server that a CURVE HELLO is encrypted for, if proven"
    ),
    Field("metadata_size", "int", "Size of the properties in an encrypted CURVE INITIATE or READY", "octets"),
    Field("socket_type_guess", "list<text>", "Guess: socket types of this metadata size, the likeliest first"),
    Field("nonce", "int", "Short nonce of a CURVE command"),
    Field("long_nonce", "octets", "Long nonce of a CURVE WELCOME"),
    Field("token_size", "int", "Announced size of the token of a GSSAPI command", "octets"),
    Field("token_kind", "text", "Kind of a GSSAPI token by its first octets, for example Kerberos 5 AP-REQ"),
    Field("data", "octets", "First 256 octets of an unknown command's data"),
    Field("mangled", "bool", "The name on the wire is a known misspelling of libzmq"),
    Field("decrypted", "bool", "The command was encrypted and is shown decrypted"),
    Field("complete", "bool", "All its octets were captured"),
)

MESSAGE = (
    Field("parts", "int", "Number of frames; null: unknown (CURVE without keys)"),
    Field("sizes", "list<int>", "Size of each frame's body", "octets"),
    Field("bodies", "list<octets>", "Body of each frame; null: not kept"),
    Field("bodies_kept", "text", "full, head (the first octets of each frame) or none"),
    Field("packet_end", "int", "Packet of the last octet"),
    Field("ts_end_ns", "int", "Time of the packet of the last octet, since 1970-01-01 UTC", "ns"),
    Field("version", "text", "ZMTP version in force"),
    Field("socket_type", "text", "Socket type of the sender"),
    Field("peer_socket_type", "text", "Socket type of the receiver"),
    Field("envelope", "list<text>", "Addresses before the empty delimiter; null: no known envelope"),
    Field(
        "topic",
        "text",
        "For a published message its first frame, or, if it has only one, the longest subscription that matches it; "
        "for a subscription its topic",
    ),
    Field("kind", "text", "data, subscribe, cancel or encrypted"),
    Field("decrypted", "bool", "The message was encrypted and is shown decrypted"),
    Field("payload", _PAYLOAD, "Decoded payload of the message"),
    Field("complete", "bool", "The capture lost none of its octets"),
    Field("confidence", "text", "That this is a message: proven, likely or guess"),
)

FRAME = (
    Field("flags", "int", "Flags octet on the wire"),
    Field("more", "bool", "More frames of the same message follow"),
    Field("long", "bool", "The size is encoded in eight octets"),
    Field("size", "int", "Size of the body", "octets"),
    Field("message", "int", "`offset` of the message of this frame", "octets"),
)

DATAGRAM = (
    Field("kind", "text", "beacon (of ZRE), or radio (RADIO and DISH over UDP)"),
    Field("group", "text", "Group of a RADIO datagram"),
    Field("body", "octets", "Body of a RADIO datagram; null: not kept"),
    Field("payload", _PAYLOAD, "Decoded beacon, or decoded payload of the body"),
    Field("complete", "bool", "All its octets were captured"),
    Field("confidence", "text", "That `kind` is right: proven, likely or guess"),
)

ZRE_PAIR = (
    Field("uuid_0", "text", "UUID of the node that connected first, 32 hex digits"),
    Field("uuid_1", "text", "UUID of the other node"),
    Field("name_0", "text", "Name of the first node"),
    Field("name_1", "text", "Name of the other node"),
    Field("endpoint_0", "text", "Endpoint of the first node in its HELLO"),
    Field("endpoint_1", "text", "Endpoint of the other node"),
    Field("conn_0", "int", "conn of the connection on which the first node sends"),
    Field("conn_1", "int", "conn of the connection on which the other node sends"),
    Field("conn_id_0", "text", "conn_id of the connection on which the first node sends"),
    Field("conn_id_1", "text", "conn_id of the connection on which the other node sends"),
    Field(
        "discovery_ns",
        "int",
        "Time from the first beacon of either node to the later HELLO; null: no beacon was captured",
        "ns",
    ),
)

GAP = (
    Field("bytes", "int", "Octets that the capture lost", "octets"),
    Field("reason", "text", "Evidence that the octets will not arrive"),
    Field("resumed_at", "int", "`offset` at which parsing resumed; null: it did not", "octets"),
)

STALL = (
    Field("duration_ns", "int", "Duration, or the sum of durations if count is above 1", "ns"),
    Field(
        "until",
        "text",
        "opened (the window was opened again), disconnected, running (the window was closed until the end of the "
        "capture), or unseen (the opening was not captured; until_ns is the last packet with a closed window)",
    ),
    Field("until_ns", "int", "Time of this end, of the last one if count is above 1", "ns"),
    Field("window_probes", "int", "Window probes of the sender during this time"),
    Field(
        "count",
        "int",
        "Number of times: the first ten of a side have one record each, and one further record at the end of the "
        "connection covers the rest",
    ),
    Field("longest_ns", "int", "Longest single duration", "ns"),
)

RETRANSMISSION = (
    Field("duration_ns", "int", "Time from the first packet that was sent again to the answer or the end", "ns"),
    Field(
        "acknowledged",
        "bool",
        "Whether the other side finally acknowledged the octet at `offset`; null: the end was not captured",
    ),
    Field(
        "until", "text", "acknowledged, disconnected, running (the capture ends), or unseen (the end was not captured)"
    ),
    Field("until_ns", "int", "Time of this end, of the last one if count is above 1", "ns"),
    Field("retransmissions", "int", "Number of times that the octet at `offset` was sent again"),
    Field("keepalive_probes", "int", "Number of TCP keepalive probes of the sender"),
    Field("smallest", "int", "Payload of the smallest segment that was sent again; 0: no segment was", "octets"),
    Field("largest", "int", "Payload of the largest segment that was sent again", "octets"),
    Field(
        "acknowledged_before",
        "bool",
        "Whether the octets before `offset` were sent again although the capture has their acknowledgments, which did "
        "not reach the sender",
    ),
    Field("answers", "int", "Packets of the other side during this time"),
    Field(
        "count",
        "int",
        "Number of times: the first ten of a side have one record each, and one further record at the end of the "
        "connection covers the rest",
    ),
    Field("longest_ns", "int", "Longest single duration", "ns"),
    Field(
        "icmp",
        "text",
        "Why a host or router did not deliver the octets, by its ICMP messages: rejected by ICMP (a firewall), or "
        "unreachable by ICMP; null: there were none",
    ),
)

LEFTOVER = (
    Field("bytes", "int", "Number of octets that no other record contains", "octets"),
    Field("kind", "text", "unfinished (the rest of the unit was not captured) or undissected (not parsed as ZMTP)"),
    Field("reason", "text", "Reason why the octets belong to no unit"),
    Field("data", "octets", "First octets, at most 32, if undissected; null: they may contain a password"),
)

FINDING = (
    Field("id", "text", "Id of the finding, for example ZMTP3X-META-08"),
    Field("severity", "text", "error (forbidden), warn (probably wrong), note (worth knowing) or chat (normal)"),
    Field("text", "text", "The finding as a sentence"),
    Field("section", "text", "Section of the specification"),
    Field("hint", "text", "Suggested fix"),
    Field("refs", "list<text>", "Records concerned: conn_id/side/source/offset/record"),
    Field("count", "int", "Number of repeats or attempts, if they were counted"),
    Field("last_packet", "int", "Packet of the last repeat"),
    Field("duration_ns", "int", "Time from the first to the last SYN of attempts to connect", "ns"),
    Field("syns", "int", "Number of SYNs of attempts to connect"),
    Field(
        "answer",
        "text",
        "Fate of the answers to attempts: lost (the client sends the same SYN again), reset (by the client), or both "
        "(reset, and the SYN sent again); null: there were none, or they were accepted",
    ),
    Field("answered_by", "text", "Another address and port that answered the attempts"),
    Field("was_connected", "bool", "Whether the client was connected to the endpoint before its attempts"),
)

REQUEST = (
    Field("socket_type", "text", "Socket type of the client"),
    Field("peer_socket_type", "text", "Socket type of the server"),
    Field("envelope", "list<text>", "Addresses before the empty delimiter, by which the reply was matched"),
    Field(
        "outcome",
        "text",
        "answered; late (the client repeated the request before the reply arrived); open (no reply at the end of the "
        "capture); unanswered (no reply before the connection ended or the client repeated the request); unasked (a "
        "reply without a request; offset and length are null); unknown (octets are missing)",
    ),
    Field("latency_ns", "int", "Time from the request to its reply", "ns"),
    Field("waited_ns", "int", "Time from the request to its reply, or to the end of the connection or capture", "ns"),
    Field("size", "int", "Octets in the frames of the request", "octets"),
    Field(
        "acknowledged",
        "bool",
        "Whether the peer received the request: true if it replied, false if TCP retransmitted it repeatedly and no "
        "packet of the peer acknowledged it; null: unknown",
    ),
    Field("reply_ts_ns", "int", "Time of the reply", "ns"),
    Field("reply_packet", "int", "Packet of the reply"),
    Field("reply_offset", "int", "Position of the reply in the stream of the other side", "octets"),
    Field("reply_size", "int", "Octets in the frames of the reply", "octets"),
)

SUBSCRIPTION = (
    Field("topic", "text", "Prefix of the subscribed messages; for a DISH its group"),
    Field("form", "text", "command (SUBSCRIBE of 3.1), message (01 and the topic) or join (JOIN of a group)"),
    Field("until_ns", "int", "Time of its end; null: in force at the end of the capture", "ns"),
    Field("ended_by", "text", "cancel, or close of the connection; null: in force at the end of the capture"),
    Field("times", "int", "Number of times it was sent; a publisher of libzmq counts them as one, a RADIO counts each"),
    Field("delay_ns", "int", "Time from the handshake to the subscription; null: the handshake was not captured", "ns"),
    Field("messages", "int", "Matching messages received on this connection while it was in force"),
    Field("first_ns", "int", "Time of the first of these messages", "ns"),
)

HEARTBEAT = (
    Field("ttl_ms", "int", "Time that the sender of PING may be silent from now on; 0: no limit", "ms"),
    Field(
        "outcome",
        "text",
        "answered; open (no PONG at the end of the capture); unanswered (no PONG before the connection ended); unknown "
        "(octets are missing)",
    ),
    Field("rtt_ns", "int", "Time from the PING to its PONG", "ns"),
    Field("reply_ts_ns", "int", "Time of the PONG", "ns"),
    Field("reply_packet", "int", "Packet of the PONG"),
    Field("reply_offset", "int", "Position of the PONG in the stream of the other side", "octets"),
)

_DEPARTURE = "list<struct<ts_ns:int,conn_id:text,cause:text,by:text>>"
PEER = (
    Field("name", "text", "Identity, or the address if it has none"),
    Field("identity", "text", "Announced identity (routing id)"),
    Field("address", "text", "Address, with the port if it listens"),
    Field("socket_type", "text", "Socket type"),
    Field("role", "text", "connects, or listens"),
    Field("remote", "text", "Endpoint that it connects to; null: it listens"),
    Field("connections", "int", "Number of connections"),
    Field("failed", "int", "Number of failed handshakes and connection attempts"),
    Field("start_ns", "int", "First packet of its first connection", "ns"),
    Field("end_ns", "int", "Time of its last packet", "ns"),
    Field("state", "text", "connected (at the end of the capture), gone, or never connected"),
    Field("cadence_ns", "int", "Usual time between attempts, if there were three or more", "ns"),
    Field(
        "departures",
        _DEPARTURE,
        "Time and cause of the end of its last hundred connections. `cause` is closed (FIN without notice), reset (RST "
        "without notice), heartbeat (a PING had no answer, or its TTL expired), unacknowledged (TCP gave up without an "
        "acknowledgment), middlebox (a middlebox sent the RST), error (an ERROR was sent), handshake (not completed) "
        "or violation (the frame before it violated the protocol); `by` is itself or other",
    ),
    Field("messages_sent", "int", "Messages sent"),
    Field("messages_received", "int", "Messages received"),
)

TOPIC = (
    Field("topic", "text", "Topic of a published message, or its group"),
    Field(
        "publisher",
        "text",
        "Publisher: the endpoint that subscribers connect to, or the address of a PUB that connects",
    ),
    Field("messages", "int", "Messages on the connection that received most: a lower bound of the messages published"),
    Field("bytes", "int", "Octets in the frames of these messages", "octets"),
    Field("first_ns", "int", "Time of the first message", "ns"),
    Field("last_ns", "int", "Time of the last message", "ns"),
    Field("subscribers", "int", "Connections that received messages of the topic"),
)

DELIVERY = (
    Field("topic", "text", "Topic of a published message, or its group"),
    Field("publisher", "text", "Publisher, as in the record `topic`"),
    Field("subscriber", "text", "Identity of the subscriber, or its address"),
    Field("messages", "int", "Messages that it received"),
    Field("unacknowledged", "int", "Further messages that were sent to it repeatedly and never acknowledged"),
    Field("siblings", "int", "Other subscribers of the publisher that received the topic"),
    Field("missed_early", "int", "Messages that a sibling received before this subscriber subscribed: a lower bound"),
    Field(
        "missed",
        "int",
        "Messages that a sibling received, and this subscriber did not although it was subscribed: a lower bound",
    ),
    Field("first_ns", "int", "Time of the first message that it received", "ns"),
    Field("last_ns", "int", "Time of the last message that it received", "ns"),
)

_EVIDENCE = "list<struct<ts_ns:int,file:text,packet:int,ref:text,text:text>>"
DIAGNOSIS = (
    Field("rule", "text", "Name of the rule, for example late-subscriber; see `check --explain`"),
    Field("severity", "text", "error (it does not work), warn (probably wrong) or note (worth knowing)"),
    Field("text", "text", "The cause as a sentence"),
    Field("hint", "text", "Suggested fix"),
    Field("subject", "text", "The peer, endpoint or topic concerned"),
    Field("certainty", "text", "proven (by the capture), or likely"),
    Field("evidence", _EVIDENCE, "Packets that show it; `ref` is conn_id/side/source/offset/record"),
    Field("count", "int", "Number of times it happened"),
    Field("last_ns", "int", "Time of the last time it happened", "ns"),
    Field("because_of", "text", "Rule and subject of the diagnosis that caused this one"),
)
