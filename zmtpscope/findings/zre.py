"""Findings about ZRE nodes and their beacons (20/ZRE 1, 36/ZRE)."""

from zmtpscope.findings.kinds import FindingKind

KINDS = (
    FindingKind("ZRE-01", "error", "36/ZRE, Protocol Signature", "The message does not start with the ZRE signature"),
    FindingKind("ZRE-02", "error", "36/ZRE, Versioning", "The ZRE version is neither 2 nor 3"),
    FindingKind("ZRE-03", "error", "36/ZRE, HELLO", "The first command of the connection is not HELLO"),
    FindingKind("ZRE-04", "error", "36/ZRE, ZRE Commands", "HELLO has a sequence number other than 1"),
    FindingKind("ZRE-05", "note", "36/ZRE, ZRE Commands", "The sequence number wraps"),
    FindingKind("ZRE-06", "error", "36/ZRE, ZRE Commands", "A field or count is longer than the frame"),
    FindingKind(
        "ZRE-07",
        "error",
        "36/ZRE, ZRE Commands",
        "The sequence has a gap, a repeat or goes back",
        "the sender skips or repeats numbers, since TCP loses nothing: it has to count for each peer by itself",
    ),
    FindingKind("ZRE-08", "error", "36/ZRE, Interconnection", "The identity is not 01 and a UUID"),
    FindingKind(
        "ZRE-09",
        "error",
        "36/ZRE, Interconnection",
        "The ROUTER side sent messages; in ZRE a ROUTER only receives",
    ),
    FindingKind(
        "ZRE-10",
        "warn",
        "36/ZRE, JOIN and LEAVE",
        "The group status does not match the number of JOIN and LEAVE commands",
    ),
    FindingKind("ZRE-11", "warn", "36/ZRE, PING", "PING without PING-OK", "the node is stuck or gone"),
    FindingKind(
        "ZRE-12",
        "warn",
        "36/ZRE, Interconnection",
        "Only one of the two connections between two nodes exists",
        "a firewall or a wrong advertised endpoint prevents the other connection",
    ),
    FindingKind(
        "ZRE-13", "note", "36/ZRE, WHISPER and SHOUT", "WHISPER or SHOUT with no content frame, or with several"
    ),
    FindingKind("ZRE-14", "note", "zre.md, 8", "The command is an extension of one implementation"),
    FindingKind("ZRE-15", "error", "36/ZRE, ZRE Commands", "Unknown command"),
    FindingKind("ZRE-16", "note", "20/ZRE 1, ZRE Commands", "Message of ZRE version 1"),
    FindingKind("ZRE-17", "warn", "36/ZRE, HELLO", "The endpoint in HELLO and the beacon name different ports"),
    FindingKind(
        "ZRE-18",
        "warn",
        "36/ZRE, JOIN and LEAVE",
        "JOIN for a group that the node is in, or LEAVE for one that it is not in",
    ),
    FindingKind("ZRE-19", "note", "36/ZRE, SHOUT", "SHOUT to a node that is not in the group"),
    FindingKind("ZRE-20", "note", "36/ZRE, ZRE Commands", "Extra octets after the last field of the command"),
    FindingKind("ZRE-21", "warn", "36/ZRE, JOIN and LEAVE", "A JOIN or LEAVE was not sent to every peer of the node"),
    FindingKind("ZRE-BEACON-01", "error", "36/ZRE, Discovery", "The beacon version is neither 1 nor 3"),
    FindingKind("ZRE-BEACON-02", "error", "36/ZRE, Discovery", "The beacon has the wrong size for its version"),
    FindingKind(
        "ZRE-BEACON-03",
        "chat",
        "36/ZRE, Interconnection",
        "The port in the beacon is outside the dynamic range",
    ),
    FindingKind("ZRE-BEACON-04", "chat", "36/ZRE, Discovery", "The node left (goodbye beacon)"),
    FindingKind(
        "ZRE-BEACON-05",
        "warn",
        "36/ZRE, Node Identification",
        "The same UUID is used from two addresses or ports",
        "two nodes share a UUID, or one has two network interfaces",
    ),
    FindingKind(
        "ZRE-BEACON-06",
        "warn",
        "36/ZRE, Discovery",
        "The beacons of a node stopped without a goodbye beacon",
        "the node died, or multicast and broadcast no longer reach this network",
    ),
    FindingKind(
        "ZRE-BEACON-07",
        "note",
        "36/ZRE, Discovery",
        "A node sends beacons but no other node connects to it",
        "a firewall blocks its port, or the other nodes do not receive the beacons",
    ),
    FindingKind(
        "ZRE-BEACON-08",
        "warn",
        "43/ZRE, Discovery",
        "Nodes with version 1 and version 3 beacons are on the same network and ignore each other",
    ),
)
