"""What the capture shows of connections, whatever they speak, and what it lacks."""

from zmtpscope.findings.kinds import FindingKind

KINDS = (
    FindingKind(
        "ZMTP-CONN-01",
        "note",
        "wire.md, 9.5",
        "The capture starts after the connection did: version, mechanism and socket types are guessed",
        "start the capture before the peers, or name the version with -d",
    ),
    FindingKind(
        "ZMTP-CONN-02",
        "note",
        "wire.md, 9.3",
        "Only one direction was captured, so the version is decided from one side",
        "capture where both directions pass (the any interface, both ports of a mirror)",
    ),
    FindingKind(
        "ZMTP-CONN-03",
        "note",
        "37/ZMTP 3.1, Version Negotiation",
        "The stream ends before its greeting is complete",
        "this side gave up or was refused; the other side's greeting and log say more",
    ),
    FindingKind(
        "ZMTP-CONN-04",
        "warn",
        "37/ZMTP 3.1, Backwards Interoperability",
        "This side does not speak ZMTP: its first octets fit no version",
        "something that is no ZeroMQ peer uses this port: a health check, a browser, a port scan, a wrong "
        "port in a setting",
    ),
    FindingKind(
        "ZMTP-CONN-05",
        "warn",
        "wire.md, 9.5",
        "The capture lost octets inside ZMTP data; messages here may be missing or incomplete",
        "capture with a larger buffer (-B), without a short -s, or closer to the host",
    ),
    FindingKind("ZMTP-CONN-06", "chat", "37/ZMTP 3.1, Version Negotiation", "The version of the connection is decided"),
    FindingKind(
        "ZMTP-CONN-07",
        "error",
        "37/ZMTP 3.1, Version Negotiation",
        "This side went on in its own version although the other side is older, so the peers cannot talk",
        "upgrade the older peer, or let the newer one wait for the other's version",
    ),
    FindingKind(
        "ZMTP-CONN-08",
        "warn",
        "37/ZMTP 3.1, Error Handling",
        "The side that received an error closed within a second, probably because of it",
        "look at the error first",
    ),
    FindingKind(
        "ZMTP-CONN-09",
        "note",
        "37/ZMTP 3.1, Error Handling",
        "The client tried again with the same mechanism after an ERROR, and is refused again",
        "change its credentials, or what the server's ZAP handler lets in",
    ),
    FindingKind(
        "ZMTP-CONN-10",
        "note",
        "37/ZMTP 3.1, Error Handling",
        "The client reconnects again and again without waiting longer each time",
        "set ZMQ_RECONNECT_IVL_MAX, and find out why the connection closes",
    ),
    FindingKind(
        "ZMTP-CONN-11",
        "note",
        "wire.md, 9.3",
        "The connection is connected to itself: one and the same socket pair",
        "a client tried a local port that nobody listened on; bind first, or use a port below the ephemeral range",
    ),
    FindingKind(
        "ZMTP-CONN-12",
        "warn",
        "architecture.md, 2",
        "More connections are open at a time than are kept: this one, the oldest that had said nothing, gave way",
        "a flood or a port scan: capture with a filter for the ports that matter",
    ),
    FindingKind(
        "ZMTP-CONN-13",
        "warn",
        "architecture.md, 2",
        "More topics and groups are open on this side than are remembered: from here on, nothing is said "
        "about new ones",
    ),
    FindingKind(
        "ZMTP-CONN-14",
        "warn",
        "RFC 9293 (TCP), Reset Generation",
        "The connection is refused (RST)",
        "nobody listens there: start that side, and compare address and port with what it binds to",
    ),
    FindingKind(
        "ZMTP-CONN-15",
        "warn",
        "RFC 9293 (TCP), TCP Connection Failures",
        "The connection is not answered",
        "a firewall drops it, the address is wrong, or that host is down",
    ),
    FindingKind(
        "ZMTP-CONN-16",
        "note",
        "RFC 9293 (TCP), Establishing a Connection",
        "The SYN is answered, but the connection is never established",
        "the answer does not get back to who asked (a firewall, another way back), or somebody scans ports",
    ),
    FindingKind(
        "CAPTURE-01",
        "warn",
        "architecture.md, 2",
        "Packets were dropped while they were captured",
        "gaps and missing answers may come from that: capture with a filter, a larger buffer or a smaller snap length",
    ),
    FindingKind(
        "ZMTP-DOWNGRADE-01",
        "error",
        "37/ZMTP 3.1, Backwards Interoperability",
        "Messages flow without security: one side is configured for it, the other is too old to know it",
        "refuse peers older than 3.0 where authentication matters",
    ),
    FindingKind(
        "ZMTP-DOWNGRADE-02",
        "note",
        "37/ZMTP 3.1, Version Negotiation",
        "A 3.1 side speaks to a 3.0 side, so the words of 3.0 apply (subscriptions travel as messages)",
    ),
)
