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
            "check that node: it is stopped, was killed, or broadcasts no longer reach this network",
            evidence=(Evidence(finding.moment, "its last beacon", finding.ref),),
            about=own,
        )


TABLE = (
    Rule(
        NODE_GONE,
        "warn",
        "A ZRE node disappeared without a goodbye beacon",
        "A node sent beacons, then none for several intervals, and no goodbye beacon (port 0) before "
        "(ZRE-BEACON-06). Its connections show whether it exited, is stopped, or is only unreachable by beacons.",
        "The node sends a beacon again, or sent the goodbye beacon.",
        _gone,
        ("peer-departed", "connection-refused", "heartbeat-timeout", "slow-receiver"),
    ),
)
