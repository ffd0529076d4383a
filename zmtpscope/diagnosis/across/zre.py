"""ZRE nodes that leave with or without a farewell beacon (36/ZRE, Discovery)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import Disconnect
from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding, once
from zmtpscope.diagnosis.across.words import zre_node
from zmtpscope.diagnosis.observers.observed import Endpoint
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

FAREWELL, CEASED = "ZRE-BEACON-04", "ZRE-BEACON-06"

AROUND_NS = 5 * SECOND
"""A node closes its connections within this time (ns) before or after its farewell beacon."""

PORT = re.compile(r" port (\d+)$")
NODE = re.compile(r": node (.*?)(?:, \S+ port \d+)?$")


class Node(NamedTuple):
    """A ZRE node whose beacons stopped without a goodbye beacon, and the endpoint of its mailbox."""

    name: str
    endpoint: Endpoint
    finding: RunFinding


@once
def _farewells(knowledge: Knowledge) -> dict[str, list[RunFinding]]:
    return grouped((each.client, each) for each in knowledge.findings if each.id == FAREWELL and each.client)


def said_farewell(departure: Disconnect, knowledge: Knowledge) -> bool:
    connection, ending = departure.connection, departure.ending
    node = zre_node(connection.client.identity)
    if node is None:
        return False
    return any(
        abs(each.moment.ns - ending.moment.ns) <= AROUND_NS and (departure.by_listener or each.text.endswith(node))
        for each in _farewells(knowledge).get(connection.sides[ending.side].ip, ())
    )


def gone_nodes(knowledge: Knowledge) -> Iterator[Node]:
    for finding in knowledge.findings:
        name, port = NODE.search(finding.text), PORT.search(finding.text)
        if finding.id == CEASED and finding.client is not None and name and port:
            yield Node(name[1], (finding.client, int(port[1])), finding)
