"""Containers and link layers: the same packets give the same segments in any format of captures."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.containers import (
    Packet,
    captures_of,
    pcap,
    pcapng,
    read,
    read_octets,
)
from tests.capture.packets import LINKS, Crafted, crafted, on
from tests.suites import examples
from zmtpscope.capture import CaptureError

CONTAINERS = {
    "pcap": pcap,
    "pcap, big endian": lambda packets: pcap(packets, order=">"),
    "pcap, nanoseconds": lambda packets: pcap(packets, nanoseconds=True),
    "pcap, nanoseconds, big endian": lambda packets: pcap(packets, nanoseconds=True, order=">"),
    "pcap, modified": lambda packets: pcap(packets, modified=True),
    "pcap, modified, big endian": lambda packets: pcap(packets, modified=True, order=">"),
    "pcapng": pcapng,
    "pcapng, big endian": lambda packets: pcapng(packets, order=">"),
    "pcapng, old packet blocks": lambda packets: pcapng(packets, old_blocks=True),
    "pcapng, old packet blocks, big endian": lambda packets: pcapng(packets, old_blocks=True, order=">"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("containers")


some_packets = st.lists(crafted(udp=None), min_size=1, max_size=5)
START = 1_700_000_000_123_456_000


@pytest.mark.parametrize("container", CONTAINERS)
@examples(15)
@given(packets=some_packets, data=st.data())
def test_every_container_on_every_link_layer_gives_the_same_segments(
    folder: Path, container: str, packets: list[Crafted], data: st.DataObject
) -> None:
    link = data.draw(st.sampled_from(sorted(LINKS)))
    plain = pcap([Packet(packet.octets, time=START + index * 1000) for index, packet in enumerate(packets)])
    other = CONTAINERS[container]([on(link, packet, START + index * 1000) for index, packet in enumerate(packets)])
    assert read_octets(folder, other) == read_octets(folder, plain)


@given(packets=some_packets, links=st.lists(st.sampled_from(sorted(LINKS)), min_size=5, max_size=5))
def test_link_layers_may_be_mixed_in_one_pcapng(folder: Path, packets: list[Crafted], links: list[str]) -> None:
    plain = pcap([Packet(packet.octets, time=START + index * 1000) for index, packet in enumerate(packets)])
    mixed = [
        on(link, packet, START + index * 1000) for index, (packet, link) in enumerate(zip(packets, links, strict=False))
    ]
    assert read_octets(folder, pcapng(mixed)) == read_octets(folder, plain)


@pytest.mark.parametrize("container", CONTAINERS)
@examples(15)
@given(packets=st.lists(crafted(udp=None), min_size=1, max_size=20), size=st.sampled_from([64, 65, 100, 1000, 4096]))
def test_block_size_changes_nothing(folder: Path, container: str, packets: list[Crafted], size: int) -> None:
    """P1 for readers: results do not depend on the blocks of a file."""
    file = CONTAINERS[container]([Packet(packet.octets, time=START) for packet in packets])
    assert read_octets(folder, file, block_size=size) == read_octets(folder, file)


@given(packets=st.lists(crafted(udp=None), min_size=1, max_size=6), data=st.data())
def test_a_file_that_ends_early_gives_everything_in_front_of_the_cut(
    folder: Path, packets: list[Crafted], data: st.DataObject
) -> None:
    container = data.draw(st.sampled_from(sorted(CONTAINERS)))
    file = CONTAINERS[container]([Packet(packet.octets, time=START) for packet in packets])
    stop = data.draw(st.integers(24 if container.startswith("pcap,") or container == "pcap" else 28, len(file)))
    captures = captures_of(folder, file[:stop])
    segments, datagrams = read(captures)
    whole_segments, whole_datagrams = read_octets(folder, file)
    assert segments == whole_segments[: len(segments)]
    assert datagrams == whole_datagrams[: len(datagrams)]
    if stop == len(file):
        assert not captures.problems
    for problem in captures.problems:
        assert problem.packet == captures.statistics.packets
        assert 0 < problem.offset < stop


@given(packets=st.lists(crafted(), min_size=1, max_size=4), seed=st.randoms(use_true_random=False))
def test_any_octets_in_a_container_raise_nothing(folder: Path, packets: list[Crafted], seed: random.Random) -> None:
    container = seed.choice(sorted(CONTAINERS))
    file = bytearray(CONTAINERS[container]([Packet(packet.octets, time=START) for packet in packets]))
    for _ in range(seed.randrange(1, 6)):
        file[seed.randrange(4, len(file))] = seed.choice((0, 1, 2, 3, 6, 0x0A, 0x7F, 0x80, 0xFF))
    results = []
    for size in (64, 1 << 20):
        try:
            captures = captures_of(folder, bytes(file), block_size=size)
            results.append((read(captures), captures.problems, captures.statistics))
        except CaptureError:
            results.append(None)
    assert results[0] == results[1]
