"""Real captures as scripts for a peer: the octets of one side, and the actions of its application."""

from __future__ import annotations

import functools
import ipaddress
from typing import Any, NamedTuple

from tests.peers import Act, send
from tests.readings import CAPTURES
from tests.traffic import records
from zmtpscope.capture import open_captures
from zmtpscope.records import from_text
from zmtpscope.zmtp.peer import Null, Settings

Record = dict[str, Any]


class Segment(NamedTuple):
    """Octets of one side, in the packet with this number."""

    side: int
    packet: int
    octets: bytes


class Dialogue(NamedTuple):
    """One connection of a capture: its record, all its records, and its octets in the order of packets."""

    capture: str
    connection: Record
    records: list[Record]
    segments: list[Segment]

    def stream(self, side: int) -> bytes:
        return b"".join(each.octets for each in self.segments if each.side == side)

    def of(self, side: int, *kinds: str) -> list[Record]:
        return [record for record in self.records if record["side"] == side and record["record"] in kinds]


@functools.cache
def dialogues(capture: str) -> list[Dialogue]:
    """Return the connections of a capture in captures/ that has lost nothing."""
    path = str(CAPTURES / f"{capture}.pcap")
    found, _ = records(open_captures([path]))
    connections = [record for record in found if record["record"] == "connection"]
    segments: dict[int, list[Segment]] = {connection["conn"]: [] for connection in connections}
    expected: dict[tuple[int, int], int] = {}
    sides = {(_flow(each, side), each["conn"]): side for each in connections for side in (0, 1)}
    for block in open_captures([path]):
        for row in range(len(block)):
            key, octets = block.keys[block.flows[row]], block.data[block.starts[row] : block.stops[row]]
            packet = int(block.packets[row])
            begun = [each for each in connections if (key, each["conn"]) in sides and each["packet"] < packet]
            if not octets or not begun:
                continue
            conn = max(each["conn"] for each in begun)  # the last one if ports were reused
            place = conn, sides[key, conn]
            if expected.setdefault(place, int(block.sequences[row])) == block.sequences[row]:
                expected[place] = (expected[place] + len(octets)) % (1 << 32)
                segments[conn].append(Segment(place[1], packet, octets))
    return [
        Dialogue(capture, each, [record for record in found if record["conn"] == each["conn"]], segments[each["conn"]])
        for each in connections
    ]


def _flow(connection: Record, side: int) -> bytes:
    """Return addresses and ports of one direction, as in packets."""
    hosts = [ipaddress.ip_address(connection[f"ip_{each}"]).packed for each in (side, 1 - side)]
    ports = [connection[f"port_{each}"].to_bytes(2, "big") for each in (side, 1 - side)]
    return b"".join(hosts + ports)


def newest_of(greeting: Record) -> str:
    """Return the newest version of a peer with this greeting; after a fallback a peer of 3.x does not show whether
    it supports 3.0 or 3.1."""
    if greeting["form"] == "pseudo-signature" or greeting["version_announced"] == "3":
        return "3.1"
    return str(greeting["version_announced"])


def settings_for(dialogue: Dialogue, side: int, socket_type: str, **more: Any) -> Settings:
    """Return the settings of `side` of a dialogue, as its greeting and its READY show."""
    (greeting,) = dialogue.of(side, "greeting")
    metadata = next((each["metadata"] for each in dialogue.of(side, "command") if each["metadata"]), [])
    named = {each["name"]: each["value"] for each in metadata}
    named.pop("Socket-Type", None)
    identity = named.pop("Identity", greeting["identity"] or "")
    return Settings(
        socket_type,
        identity=identity,
        properties=tuple(named.items()),
        version=newest_of(greeting),
        **({"security": Null()} | more),
    )


def acts_of(dialogue: Dialogue, side: int, socket_type: str) -> list[tuple[int, Act]]:
    """Return the actions of the application of `side`: the packet that shows each, and the action."""
    found = []
    for record in sorted(dialogue.of(side, "message", "command"), key=lambda record: record["offset"]):
        act = _of_message(record, socket_type) if record["record"] == "message" else _of_command(record)
        if act is not None:
            found.append((record["packet"], act))
    return found


def _of_message(record: Record, socket_type: str) -> Act | None:
    frames: list[bytes] = record["bodies"]
    if socket_type == "SUB":  # in 1.0 it is not sent
        return Act("subscribe" if frames[0][0] else "cancel", (frames[0][1:],))
    if record["kind"] != "data" and record["version"] < "3.1":
        return Act(record["kind"], (frames[0][1:],))
    if socket_type == "REQ":
        return send(*frames[1:])
    if socket_type == "REP":
        delimiter = frames.index(b"")
        return send(*frames[delimiter + 1 :], envelope=tuple(frames[:delimiter]))
    return send(*frames)


def _of_command(record: Record) -> Act | None:
    name = record["name"]
    if name in ("SUBSCRIBE", "CANCEL"):
        return Act(name.lower(), (from_text(record["topic"]),))
    if name in ("JOIN", "LEAVE"):
        return Act(name.lower(), (record["group"],))
    return Act("ping", (record["context"],)) if name == "PING" else None
