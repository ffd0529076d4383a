"""UDP: ZRE beacons, and RADIO messages if the user selects them or if a flow looks like nothing else.

A flow is all datagrams from one socket to another. In records it takes the place of a connection: it has a `conn_id`,
and offsets count the octets of its datagrams.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.segments import Datagram, DatagramColumns, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.identity import Stream, stream_of
from zmtpscope.dissect.multicasts import Multicasts
from zmtpscope.dissect.records.batch import Unit
from zmtpscope.dissect.records.details import put_inside
from zmtpscope.dissect.records.facts import ZreBeacon
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.payload_rows import side_payloads
from zmtpscope.dissect.records.record_writer import RecordWriter
from zmtpscope.dissect.records.secrets import hide
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.records.tables import DATAGRAMS, PacketSlice
from zmtpscope.dissect.tcp.incarnations import Incarnations
from zmtpscope.payloads.api import About, Message, Payload, Reader, Settings
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.radio import LARGEST, Radio
from zmtpscope.payloads.shapes import NO_OCTET
from zmtpscope.payloads.side import SidePayloads, read
from zmtpscope.payloads.zre.beacon import HEADER, Beacon
from zmtpscope.zmtp.reader import FieldNode, Finding

MAX_FLOWS = 4096
"""Flows to remember. The one unused for longest is forgotten, and starts again if it continues."""
MAX_DESTINATIONS = 1024
"""Destinations for which RADIO is decided, or still undecided."""

SURE = 3
"""Similar datagrams to one destination before they are read as RADIO."""
FIRST_PORT = 1024
"""Lowest port of sender or receiver at which RADIO is guessed."""
OTHERS_PORTS = frozenset({1194, 1645, 1646, 1812, 1813, 1900, 3702, 4500, 4789, 5353, 5355, 5670, 6081, 51820})
"""Ports of other protocols, at which RADIO is not guessed."""
FIRST_CHARACTER = 0x20
"""First octets of RADIO messages, the length of the group, are lower.

Other datagrams are ignored unless the user selects them.
"""
GUESSED = re.compile(rb"[\x02-\x1f][A-Za-z0-9_.:/@-]{2,}")
"""Possible start of a RADIO message: a length, and at least two characters of a name."""


MAILBOX_PORT = "ZRE-BEACON-03"


class Flow:
    """All datagrams from one socket to another."""

    def __init__(self, stream: Stream, sink: Sink, about: About) -> None:
        self.writer = RecordWriter(sink, (stream, stream), listener=1)
        self.about = about
        self.offset = 0
        self.mailbox_noted: str | None = None
        self.options = sink.options

    @cached_property
    def inside(self) -> SidePayloads | None:
        """The dissectors of RADIO messages, created on first use, since most flows need none."""
        ports = self.about.src_port, self.about.dst_port
        return side_payloads(self.options, lambda rule: rule.selector == "udp.port" and rule.value in ports)

    def is_known(self, finding: Finding) -> bool:
        """Whether a finding repeats an earlier one: a node sends the same beacon every second."""
        if finding.id != MAILBOX_PORT or self.mailbox_noted != finding.detail:
            self.mailbox_noted = finding.detail if finding.id == MAILBOX_PORT else self.mailbox_noted
            return False
        return True


class Content(NamedTuple):
    """The contents of a datagram for its record: octets with asterisks in place of passwords, and the fields of its
    kind."""

    kind: str
    octets: bytes
    fields: dict[str, Any]
    findings: Sequence[Finding]
    tree: FieldNode | None


class WaitingDatagram(NamedTuple):
    """A datagram that may be RADIO, and is processed when enough similar ones have arrived."""

    datagram: Datagram
    octets: bytes


class Datagrams:
    """Processes all UDP datagrams of a run. Call `feed` for each block, then `finish`."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        options = self.options = sink.options
        self.forced = frozenset(rule.value for rule in options.decode_as if rule.selector == "udp.port")
        self.flows: OrderedDict[bytes, Flow] = OrderedDict()
        self.incarnations = Incarnations()
        self.guesses: OrderedDict[bytes, list[WaitingDatagram] | bool] = OrderedDict()
        """Waiting datagrams, or the decision, by destination."""
        self.multicasts = Multicasts()

    def feed(self, block: SegmentBlock) -> None:
        """Write records of the datagrams in a block that belong to ZeroMQ."""
        data, datagrams = block.data, block.datagrams
        self.sink.summary.datagrams += len(datagrams) - self.multicasts.feed(block)
        heads = first_octets(data, datagrams)
        forced = self._are_forced(datagrams.keys)[datagrams.flows]
        indexes = np.flatnonzero(forced | (heads == HEADER[0]) | (heads < FIRST_CHARACTER))
        columns = datagrams.flows[indexes], heads[indexes], forced[indexes]
        targets: dict[int, bytes | None] = {}
        for index, flow, head, is_forced in zip(indexes.tolist(), *(each.tolist() for each in columns), strict=True):
            target: bytes | None = None
            if not is_forced and head < FIRST_CHARACTER:
                if flow not in targets:
                    targets[flow] = radio_target(datagrams.keys[flow])
                target = targets[flow]
                if target is None or self.guesses.get(target) is False:
                    continue
            datagram = datagrams[index]
            octets = data[datagram.start : datagram.stop]
            self.sink.decided_by = DATAGRAMS + datagram.packet
            if octets.startswith(HEADER) and self._beacon(datagram, octets, ports_of(datagram.key)):
                continue
            if is_forced:
                self._radio(datagram, octets, "likely", datagram.ordinal)
            elif target is not None:
                self._guess(datagram, octets, target)
        self.sink.decided_by = None

    def _are_forced(self, keys: list[bytes]) -> NDArray[np.bool_]:
        """Return for each flow whether the user selected its source or destination port."""
        if not self.forced:
            return np.zeros(len(keys), np.bool_)
        return np.array([not self.forced.isdisjoint(ports_of(key)) for key in keys], np.bool_)

    def finish(self, ordinal: int) -> None:
        """Write findings that were only counted, and findings about multicast groups that no host joined.

        `ordinal` is the end of the capture, by which records are sorted.
        """
        self.multicasts.finish(ordinal)
        for flow in self.flows.values():
            flow.writer.counted_findings(ordinal)

    def _beacon(self, datagram: Datagram, octets: bytes, ports: tuple[int, int]) -> bool:
        flow = self._flow(datagram, known_only=True)
        about = flow.about if flow is not None else about_flow(ports)
        if not Beacon(Settings()).claim(Message([octets], 0, None), about):
            return False
        flow = flow or self._flow(datagram)
        assert flow is not None
        content = self._beacon_content(flow, octets)
        self._write(flow, datagram, content, "proven", datagram.ordinal)
        beacon = content.fields["payload"]["fields"]
        if isinstance(beacon, dict) and "uuid" in beacon:
            arrival = Arrival(datagram.ordinal, datagram.packet, datagram.time)
            self.sink.report(ZreBeacon(arrival, flow.writer.streams[0], beacon))
        return True

    def _guess(self, datagram: Datagram, octets: bytes, target: bytes) -> None:
        """Process a datagram as RADIO if three to the destination `target` look like it."""
        guess = self.guesses.get(target)
        if guess is True:
            self._radio(datagram, octets, "guess", datagram.ordinal)
            return
        match = GUESSED.match(octets)
        if match is None or match.end() <= octets[0] or datagram.cut or len(octets) > LARGEST:
            self._decide(target, False)
            return
        waiting = [*(guess or []), WaitingDatagram(datagram, octets)]
        if len(waiting) < SURE:
            self._decide(target, waiting)
            return
        self._decide(target, True)
        for held in waiting:
            self._radio(held.datagram, held.octets, "guess", datagram.ordinal)

    def _decide(self, target: bytes, guess: list[WaitingDatagram] | bool) -> None:
        self.guesses[target] = guess
        self.guesses.move_to_end(target)
        if len(self.guesses) > MAX_DESTINATIONS:
            self.guesses.popitem(last=False)

    def _radio(self, datagram: Datagram, octets: bytes, confidence: str, ordinal: int) -> None:
        if not octets:
            return
        flow = self._flow(datagram)
        assert flow is not None
        self._write(flow, datagram, self._radio_content(flow, datagram, octets), confidence, ordinal)

    def _beacon_content(self, flow: Flow, octets: bytes) -> Content:
        made, reader = self._read(Beacon(Settings()), flow, octets)
        return Content("beacon", octets, {"payload": payload_of(made)}, made.findings, self._tree(reader, octets))

    def _radio_content(self, flow: Flow, datagram: Datagram, octets: bytes) -> Content:
        made, reader = self._read(Radio(Settings()), flow, octets)
        begin = 1 + octets[0]
        group, body, start = octets[1:begin], octets[begin:], flow.offset + begin
        inside: Dissected | None = None
        if flow.inside is not None and not datagram.cut and body:
            inside = flow.inside.dissect(Message((body,), 0, group), flow.about, (start,))
        if inside is not None and inside.secrets and not self.options.show_secrets:
            hide(inside)
            body = b"*" * len(body)
            octets = octets[:begin] + body
            for node in reader.nodes.get(0, [])[-1:]:
                node.value = body
        tree = self._tree(reader, octets)
        fields = {"group": made.fields.get("group") if made.fields else None, "body": self._kept(body)}
        if inside is None:
            return Content("radio", octets, fields, made.findings, tree)
        if inside.protocol:
            fields["payload"] = payload_of(inside)
        if tree is not None:
            put_inside(tree, inside.nodes.get(0, []), start, body)
        return Content("radio", octets, fields, [*made.findings, *inside.findings], tree)

    def _read(self, payload: Payload, flow: Flow, octets: bytes) -> tuple[Dissected, Reader]:
        reader = Reader(payload.prefix, [octets], [flow.offset], 0, flow.about, trees=self._has_trees)
        return read(payload, Message([octets], 0, None), reader), reader

    @property
    def _has_trees(self) -> bool:
        return self.options.details or self.options.index

    def _tree(self, reader: Reader, octets: bytes) -> FieldNode | None:
        """Return the field tree of a datagram; None if no trees are requested."""
        if not self._has_trees:
            return None
        tree = reader.tree(0, octets, "udp.datagram")
        tree.name = "udp.datagram"
        return tree

    def _write(self, flow: Flow, datagram: Datagram, content: Content, confidence: str, ordinal: int) -> None:
        self.sink.summary.datagram_kinds[content.kind] += 1
        first = Arrival(datagram.ordinal, datagram.packet, datagram.time)
        self.multicasts.send(flow.writer, datagram.key, first)
        offset, octets, size = flow.offset, content.octets, len(content.octets) + datagram.cut
        flow.offset += size
        if self.options.records:
            own = {"kind": content.kind, "length": size, "complete": not datagram.cut, "confidence": confidence}
            slices = [PacketSlice(datagram.packet, offset, offset + len(octets))]
            unit = None if content.tree is None else Unit(None, offset, octets, slices, content.tree)
            flow.writer.datagram(first, ordinal, offset, {**own, **content.fields}, unit)
        for finding in content.findings:
            if not datagram.cut and not flow.is_known(finding):
                flow.writer.note(Note(0, finding, first, ordinal, unit=offset))

    def _kept(self, body: bytes) -> bytes | None:
        options = self.options
        if options.bodies == "head":
            return body[: options.head]
        return body if options.bodies == "full" and len(body) <= options.body_limit else None

    def _flow(self, datagram: Datagram, *, known_only: bool = False) -> Flow | None:
        flow = self.flows.get(datagram.key)
        if flow is not None:
            self.flows.move_to_end(datagram.key)
            return flow
        if known_only:
            return None
        incarnation = self.incarnations.begin(datagram.key, datagram.time)
        stream = stream_of(datagram.key, datagram.time, incarnation, None, "udp ")
        about = about_flow((stream.src_port, stream.dst_port))
        flow = self.flows[datagram.key] = Flow(stream, self.sink, about)
        if len(self.flows) > MAX_FLOWS:
            _, oldest = self.flows.popitem(last=False)
            oldest.writer.counted_findings(datagram.ordinal)
        return flow


def payload_of(made: Dissected) -> dict[str, Any]:
    return {"protocol": made.protocol, "summary": made.summary, "fields": made.fields}


def first_octets(data: bytes, datagrams: DatagramColumns) -> NDArray[np.int16]:
    """Return the first octet of each datagram, `NO_OCTET` for an empty one."""
    octets = np.frombuffer(data or b"\0", np.uint8)
    heads = octets[np.minimum(datagrams.starts, len(octets) - 1)].astype(np.int16)
    heads[datagrams.starts == datagrams.stops] = NO_OCTET
    return heads


def ports_of(key: bytes) -> tuple[int, int]:
    return int.from_bytes(key[-4:-2]), int.from_bytes(key[-2:])


def radio_target(key: bytes) -> bytes | None:
    """Return the destination of a flow, given as its key; None if its ports exclude RADIO."""
    ports = ports_of(key)
    if min(ports) < FIRST_PORT or not OTHERS_PORTS.isdisjoint(ports):
        return None
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[-2:]


def about_flow(ports: tuple[int, int]) -> About:
    return About(0, 0, None, None, None, None, None, *ports)
