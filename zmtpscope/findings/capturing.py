"""Findings about connections of any protocol, and about incomplete captures."""

from zmtpscope.findings.kinds import FindingKind

KINDS = (
    FindingKind(
        "ZMTP-CONN-01",
        "note",
        "wire.md, 9.5",
        "The capture started after the connection: version, mechanism and socket types are guessed",
        "start the capture before the peers, or name the protocol: -d tcp.port==5555,zmtp/3.1/NULL/PUB",
    ),
    FindingKind(
        "ZMTP-CONN-02",
        "note",
        "wire.md, 9.3",
        "Only one direction was captured: the version is taken from that side",
        "capture where both directions pass, for example on the any interface or on both ports of a mirror",
    ),
    FindingKind(
        "ZMTP-CONN-03",
        "note",
        "37/ZMTP 3.1, Version Negotiation",
        "The stream ended before the greeting was complete",
        "this side gave up or was refused; see the other side's greeting and log",
    ),
    FindingKind(
        "ZMTP-CONN-04",
        "warn",
        "37/ZMTP 3.1, Backwards Interoperability",
        "This side does not speak ZMTP: its first octets match no version",
        "another kind of client uses this port, for example a health check, a browser, a port scan or a wrong setting",
    ),
    FindingKind(
        "ZMTP-CONN-05",
        "warn",
        "wire.md, 9.5",
        "The capture lost octets of ZMTP data: messages may be missing or incomplete",
        "capture with a larger buffer (-B), without a short -s, or closer to the host",
    ),
    FindingKind("ZMTP-CONN-06", "chat", "37/ZMTP 3.1, Version Negotiation", "The version of the connection is known"),
    FindingKind(
        "ZMTP-CONN-07",
        "error",
        "37/ZMTP 3.1, Version Negotiation",
        "This side continued in its own version although the peer is older, so the peers cannot talk",
        "upgrade the older peer, or let the newer one wait for the peer's version",
    ),
    FindingKind(
        "ZMTP-CONN-08",
        "warn",
        "37/ZMTP 3.1, Error Handling",
        "The side that received an error closed the connection within a second, probably because of it",
        "see the error first",
    ),
    FindingKind(
        "ZMTP-CONN-09",
        "note",
        "37/ZMTP 3.1, Error Handling",
        "The client retried with the same mechanism after an ERROR and was refused again",
        "change the client's credentials, or what the server's ZAP handler accepts",
    ),
    FindingKind(
        "ZMTP-CONN-10",
        "note",
        "37/ZMTP 3.1, Error Handling",
        "The client reconnects repeatedly without increasing its delay",
        "set ZMQ_RECONNECT_IVL_MAX, and find out why the connection closes",
    ),
    FindingKind(
        "ZMTP-CONN-11",
        "note",
        "wire.md, 9.3",
        "The socket is connected to itself: both ends are the same address and port",
        "a client connected to a local port without a listener; bind first, or use a port below the ephemeral range",
    ),
    FindingKind(
        "ZMTP-CONN-12",
        "warn",
        "limitations.md, Limits",
        "Too many connections are open: this one, the oldest silent one, is no longer followed",
        "for a flood or a port scan, capture with a filter for the ports of interest",
    ),
    FindingKind(
        "ZMTP-CONN-13",
        "warn",
        "limitations.md, Limits",
        "Too many topics and groups are open on this side: new ones are no longer checked",
    ),
    FindingKind(
        "ZMTP-CONN-14",
        "warn",
        "RFC 9293 (TCP), Reset Generation",
        "Connection refused (RST)",
        "nothing listens on that port: start the server, and compare address and port with what it binds to",
    ),
    FindingKind(
        "ZMTP-CONN-15",
        "warn",
        "RFC 9293 (TCP), TCP Connection Failures",
        "The SYN was not answered",
        "a firewall drops it, the address is wrong, or the host is down",
    ),
    FindingKind(
        "ZMTP-CONN-16",
        "note",
        "RFC 9293 (TCP), Establishing a Connection",
        "The SYN was answered, but the connection was never established",
        "the answer does not reach the client (a firewall, another route), or this is a port scan",
    ),
    FindingKind(
        "ZMTP-CONN-17",
        "note",
        "wire.md, 9.3",
        "A header of the PROXY protocol comes before ZMTP",
        "libzmq does not support the PROXY protocol: turn it off at the proxy (send-proxy of HAProxy, proxy_protocol "
        "of nginx)",
    ),
    FindingKind(
        "ZMTP-CONN-18",
        "note",
        "RFC 1928 (SOCKS 5), 4",
        "A proxy passes this connection on",
    ),
    FindingKind(
        "ZMTP-CONN-19",
        "warn",
        "RFC 1928 (SOCKS 5), 6",
        "A proxy refuses to connect",
        "the proxy answers, so look behind it: whether the endpoint listens, and whether the proxy may reach it",
    ),
    FindingKind(
        "ZMTP-CONN-20",
        "warn",
        "RFC 792, Destination Unreachable Message",
        "The connection is rejected by ICMP",
        "a firewall on the way or on that host rejects this port: allow it there",
    ),
    FindingKind(
        "ZMTP-CONN-21",
        "warn",
        "RFC 792, Destination Unreachable and Time Exceeded",
        "The host cannot be reached, as an ICMP message says",
        "that host is down, its address is wrong, or a route is missing or leads in a circle",
    ),
    FindingKind(
        "ZMTP-CONN-22",
        "warn",
        "wire.md, 12",
        "A WebSocket without the sub-protocol of ZeroMQ is opened to an endpoint of ZeroMQ",
        "offer the sub-protocol ZWS2.0, and send binary frames that begin with the flags octet",
    ),
    FindingKind(
        "ZMTP-CONN-23",
        "note",
        "RFC 8446, 5.1",
        "A client speaks TLS to an endpoint that others connect to with ZMTP",
    ),
    FindingKind(
        "ZMTP-CONN-24",
        "note",
        "RFC 9293, 3.8.6.3",
        "The kernel of this side used to acknowledge data at once, and now does so late: its program does not read",
        "check whether that program is stopped (a signal, a debugger) or hangs",
    ),
    FindingKind(
        "ZMTP-CONN-25",
        "note",
        "RFC 9293, 3.8.6.3",
        "The kernel of this side acknowledges data at once again: its program reads",
    ),
    FindingKind(
        "ZMTP-CONN-26",
        "note",
        "RFC 6298, 2",
        "The connection opened late, since its SYN had to be sent again",
        "the host was not up yet, the queue of its listener was full (ZMQ_BACKLOG), or packets were lost",
    ),
    FindingKind(
        "ZMTP-CONN-27",
        "note",
        "RFC 9293, 3.4",
        "The capture has data after its acknowledgment, so the packets of the two directions are not in the order in "
        "which they were sent",
        "capture at one place, or correct the clocks before you merge captures (editcap -t)",
    ),
    FindingKind(
        "CAPTURE-01",
        "warn",
        "records.md, Drops",
        "The capture dropped packets",
        "gaps and missing answers may result: capture with a filter, a larger buffer or a smaller snapshot length",
    ),
    FindingKind(
        "CAPTURE-02",
        "warn",
        "records.md, Drops",
        "The capture file could not be read to its end",
        "later packets are missing: check whether the capturing program was stopped, or its disk was full",
    ),
    FindingKind(
        "CAPTURE-03",
        "note",
        "records.md, Times",
        "The clock of the capture went back",
        "packets keep their order, and corrected times never go back; keep the clock of that host steady "
        "(chrony or ntpd slew it)",
    ),
    FindingKind(
        "ZMTP-DOWNGRADE-01",
        "error",
        "37/ZMTP 3.1, Backwards Interoperability",
        "Messages are sent without security: one side is configured for it, but the peer is too old to support it",
        "refuse peers older than 3.0 where authentication matters",
    ),
    FindingKind(
        "ZMTP-DOWNGRADE-02",
        "note",
        "37/ZMTP 3.1, Version Negotiation",
        "A 3.1 side talks to a 3.0 side, so the 3.0 rules apply (subscriptions are sent as messages)",
    ),
)

REFUSED, UNANSWERED, HALF_OPEN = "ZMTP-CONN-14", "ZMTP-CONN-15", "ZMTP-CONN-16"
REJECTED, NO_ROUTE = "ZMTP-CONN-20", "ZMTP-CONN-21"
OPENED_LATE = "ZMTP-CONN-26"

ANSWERS = ", which answers "
"""Begin of the text about the answer of a server that expects no TLS."""

ATTEMPTS = {
    REFUSED: "refused",
    UNANSWERED: "not answered",
    HALF_OPEN: "never established",
    REJECTED: "rejected by ICMP",
    NO_ROUTE: "unreachable",
}
"""Outcome of a client's attempts at an endpoint, by the finding that covers all of them."""
