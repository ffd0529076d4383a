"""Details of a record: octets at the positions of fields, filters that match it, and no secrets."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.readings import CAPTURES
from tests.store.stores import FILES, SMALLEST_BLOCK, opened, options_for
from zmtpscope.capture import open_captures
from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect import Analyser, Options
from zmtpscope.export.safe_text import safe_text
from zmtpscope.filter import Filter
from zmtpscope.store import Store
from zmtpscope.tui.requests import Details
from zmtpscope.tui.worker.details import details_of

MOST = 25

PASSWORDS = (b"s3cret", b"wrong")
"""Passwords that peers send in these captures."""

WITH_PASSWORDS = sorted((CAPTURES / "security").glob("plain-*.pcap"))


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@cache
def some_details(path: Path) -> list[tuple[Store, Details]]:
    store, _ = opened(path, options_for(path, frames=len(path.stem) % 2 == 0))
    numbers = Random(path.stem).sample(range(len(store)), min(len(store), MOST))
    return [(store, details_of(store, number)) for number in numbers]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_fields_are_within_the_octets_of_their_source(path: Path) -> None:
    for store, details in some_details(path):
        assert details.problem is None
        units = store.details(details.number)
        leaves = [leaf for unit in units for leaf in unit.tree.leaves()]
        nodes = [node for node in details.nodes if node.source >= 0]
        for node in nodes:
            source = details.sources[node.source]
            assert source.first <= node.start <= node.stop <= source.first + len(source.octets)
        for leaf in leaves:
            if isinstance(leaf.value, bytes) and leaf.length == len(leaf.value):
                places = [node for node in nodes if (node.start, node.stop) == (leaf.start, leaf.start + leaf.length)]
                shown = [octets_of(details, node.source, node.start, node.stop) for node in places]
                assert leaf.value in shown


def octets_of(details: Details, source: int, start: int, stop: int) -> bytes:
    first, octets = details.sources[source].first, details.sources[source].octets
    return octets[start - first : stop - first]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_filters_of_fields_match_the_record(path: Path) -> None:
    for store, details in some_details(path):
        values = store.row(details.number)
        for node in details.nodes:
            if node.filter and node.link is None:
                assert Filter(node.filter).holds(values), node
        named = {node.name for node in details.nodes}
        assert {field for field, value in values.items() if value is not None and value != []} <= named


@pytest.mark.parametrize("path", FILES[::2], ids=name)
def test_links_lead_to_the_records_that_they_name(path: Path) -> None:
    for store, details in some_details(path):
        values = store.row(details.number)
        for node in details.nodes:
            if node.link is None:
                continue
            there = store.row(node.link)
            if node.name in ("conn", "conn_id"):
                assert (there["record"], there["conn"]) == ("connection", values["conn"])
            elif node.name.startswith("refs["):
                assert [str(there[each]) for each in ("conn_id", "side", "source")] == node.value.split("/")[:3]
            elif node.name == "offset":
                assert there["offset"] <= values["offset"] < there["offset"] + there["length"]
            else:
                assert (there["record"], there["id"]) == ("finding", node.name)
                assert values["offset"] <= there["offset"] < values["offset"] + max(1, values["length"])


def test_a_finding_leads_to_its_evidence() -> None:
    store, _ = opened(CAPTURES / "security" / "plain-accepted.pcap")
    (finding,) = store.select(Filter("finding == PLAIN-04")).tolist()
    (hello,) = [node.link for node in details_of(store, finding).nodes if node.name == "offset"]
    assert hello is not None
    assert store.row(hello)["name"] == "HELLO"
    assert finding in [node.link for node in details_of(store, hello).nodes]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_all_text_of_details_is_safe(path: Path) -> None:
    for _, details in some_details(path):
        texts = [details.line, details.problem or ""]
        texts += [text for node in details.nodes for text in (node.name, node.value, node.filter)]
        assert [text for text in texts if safe_text(text) != text] == []


@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize("path", WITH_PASSWORDS, ids=name)
def test_no_password_is_in_any_tab_or_field(path: Path, frames: bool) -> None:
    store, _ = opened(path, options_for(path, frames=frames))
    stars = 0
    for number in range(len(store)):
        details = details_of(store, number)
        assert_hidden(details)
        stars += sum(len(source.stars) for source in details.sources)
    assert stars


def assert_hidden(details: Details) -> None:
    """Check that there is no password, and only 0 behind stars."""
    for password in PASSWORDS:
        assert not any(password in source.octets for source in details.sources)
        assert not any(password in node.value.encode() for node in details.nodes if node.name != "file")
    for number, source in enumerate(details.sources):
        for start, stop in source.stars:
            assert not any(octets_of(details, number, start, stop))


@pytest.mark.parametrize("path", WITH_PASSWORDS, ids=name)
def test_no_incomplete_password_is_shown(path: Path) -> None:
    options = options_for(path, frames=False)
    store = Store(options)
    for batch in Analyser(options).run(open_captures([str(path)], block_size=SMALLEST_BLOCK)):
        store.append(batch)
        for number in range(len(store)):
            for source in details_of(store, number).sources:
                assert not any(password[:4] in source.octets for password in PASSWORDS)


@pytest.mark.parametrize("path", FILES[::2], ids=name)
def test_packets_equal_those_of_the_file(path: Path) -> None:
    places: dict[int, tuple[int, int]] = {}
    for block in open_captures([str(path)]):
        columns = (block.places.references & PACKET_MASK, block.places.offsets, block.places.lengths)
        for packet, *place in zip(*(column.tolist() for column in columns), strict=True):
            places[packet] = (place[0], place[1])
    octets = path.read_bytes()
    for _, details in some_details(path):
        for source in details.sources:
            if not source.title.startswith("packet "):
                continue
            offset, length = places[int(source.title.removeprefix("packet "))]
            expected = bytearray(octets[offset : offset + length])
            for start, stop in source.stars:
                expected[start:stop] = bytes(stop - start)
            assert source.octets == bytes(expected)
            for start, stop, other, place in source.parts:
                there = details.sources[other]
                same = there.octets[place - there.first : place - there.first + stop - start]
                if there.title == "stream":
                    assert bytes(same) == source.octets[start:stop]


def test_a_record_in_several_packets_has_all_of_them() -> None:
    store, _ = opened(CAPTURES / "patterns" / "frame-sizes.pcap")
    found = 0
    for number in store.select(Filter("record == message and packet_end > packet")).tolist():
        details = details_of(store, number)
        values = store.row(number)
        titles = [source.title for source in details.sources]
        assert f"packet {values['packet']}" in titles
        roots = [node for node in details.nodes if node.depth == 0 and node.name.startswith("packet ")]
        assert [node.name for node in roots] == [title for title in titles if title.startswith("packet ")]
        assert roots[0].value.endswith("Z")
        fields = {node.name: node.value for node in details.nodes}
        assert (fields["ip.src"], fields["tcp.dstport"]) == (values["src_ip"], str(values["dst_port"]))
        found += len(roots) > 1
    assert found


def test_passwords_are_shown_on_request() -> None:
    path = CAPTURES / "security" / "plain-accepted.pcap"
    store, _ = opened(path, Options(index=True, show_secrets=True))
    (hello,) = store.select(Filter("name == HELLO")).tolist()
    details = details_of(store, hello)
    assert [PASSWORDS[0] in source.octets for source in details.sources] == [True, True]
    assert [source.stars for source in details.sources] == [()] * len(details.sources)
    assert PASSWORDS[0].decode() in [node.value.strip('"') for node in details.nodes]


def test_lost_octets_are_reported_and_fields_stay(tmp_path: Path) -> None:
    path = tmp_path / "gone.pcap"
    path.write_bytes((CAPTURES / "patterns" / "pubsub.pcap").read_bytes())
    store, _ = opened(path, options_for(path, frames=False))
    message = int(store.select(Filter("record == message"))[0])
    path.unlink()
    details = details_of(store, message)
    assert details.problem is not None
    assert details.problem.startswith("cannot read")
    assert details.sources == ()
    fields: dict[str, Any] = {node.name: node.value for node in details.nodes}
    assert fields["record"] == "message"
    assert fields["parts"] == "2"
