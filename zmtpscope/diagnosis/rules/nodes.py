"""Rules for ZRE nodes that disappeared without a farewell beacon."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address
from zmtpscope.diagnosis.across.zre import gone_nodes
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule

NODE_GONE = "zre-node-gone"


def _gone(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for name, endpoint, finding in gone_nodes(knowledge):
        own = knowledge.by_endpoint.get(endpoint, [])
        yield Diagnosis.of(
            NODE_GONE,
            "warn",
            f"ZRE node {name} at {address(endpoint)}",
            f"ZRE node {name} at {address(endpoint)} sends no more beacons and said no farewell",
            "look at that node: it is stopped, was killed, or broadcast no longer reaches this network",
            evidence=(Evidence(finding.moment, "its last beacon", finding.ref),),
            about=own,
        )


TABLE = (
    Rule(
        NODE_GONE,
        "warn",
        "A ZRE node is gone without farewell",
        "A node sent beacons, several intervals went by without one, and it had not sent the beacon with port 0, which "
        "is the farewell (ZRE-BEACON-06). Whether it ended, is stopped, or only cannot be heard here any more shows in "
        "its connections.",
        "The node sends a beacon again, or said farewell.",
        _gone,
        ("peer-departed", "connection-refused", "heartbeat-timeout", "slow-receiver"),
    ),
)
