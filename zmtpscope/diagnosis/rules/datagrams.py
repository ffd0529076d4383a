"""Problems of datagrams: multicast groups that no host joins, and ZRE nodes whose beacons stop without a goodbye."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address
from zmtpscope.diagnosis.across.zre import gone_nodes
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule

NO_MEMBER = "RADIO-UDP-02"


def _without_members(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for finding in knowledge.findings:
        if finding.id == NO_MEMBER and finding.endpoint is not None:
            yield Diagnosis.of(
                "multicast-group-mismatch",
                "warn",
                address(finding.endpoint),
                finding.detail + ": no host joined the destination group",
                finding.hint or "",
                evidence=(Evidence(finding.moment, "the first datagram", finding.ref),),
                count=finding.times,
                proven=False,
            )


NODE_GONE = "zre-node-gone"


def _gone(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for name, endpoint, finding in gone_nodes(knowledge):
        own = knowledge.by_endpoint.get(endpoint, [])
        yield Diagnosis.of(
            NODE_GONE,
            "warn",
            f"ZRE node {name} at {address(endpoint)}",
            f"ZRE node {name} at {address(endpoint)} sends no more beacons and sent no goodbye",
            "check that node: it is stopped, was killed, or broadcasts no longer reach this network",
            evidence=(Evidence(finding.moment, "its last beacon", finding.ref),),
            about=own,
            count=1,
        )


TABLE = (
    Rule(
        "multicast-group-mismatch",
        "warn",
        "Sender and receiver use different multicast groups",
        "RADIO messages or ZRE beacons are sent to a multicast group that no host joined or left (IGMP, MLD). At the "
        "same time another host joined a group that differs in one or two octets, and receives nothing. Not proven: a "
        "member that joined before the capture is visible only if a router queries the group.",
        "A host joins or leaves the group of the datagrams, or the joined group receives datagrams.",
        _without_members,
    ),
    Rule(
        NODE_GONE,
        "warn",
        "A ZRE node disappeared without a goodbye beacon",
        "A ZRE node sent beacons, then none for several intervals, and it sent no goodbye beacon (port 0) first "
        "(ZRE-BEACON-06). Its TCP connections show whether it exited, is stopped, or only its beacons are lost.",
        "The node sends a beacon again, or sent the goodbye beacon.",
        _gone,
        ("peer-departed", "connection-refused", "heartbeat-timeout", "slow-receiver"),
    ),
)
