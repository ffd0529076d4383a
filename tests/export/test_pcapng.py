"""Our reader and scapy read the pcapng that we write."""

from __future__ import annotations

import io
import pathlib
import tempfile
from operator import itemgetter

from hypothesis import example, given
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader

from zmtpscope.capture.files import find_files
from zmtpscope.capture.link import RAW_IP
from zmtpscope.capture.statistics import FileReports
from zmtpscope.export.pcapng import interface_description, packet_block, section_header

NOW = 1_700_000_000_123_456_789

Events = list[tuple[int, list[bytes]]]

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 2**63 - 1) | st.sampled_from([0, 2**32 - 1, 2**32, NOW]),
        st.lists(st.binary(max_size=9) | st.just(bytes(65_535)), max_size=3),
    ),
    max_size=30,
)


def written(events: Events, comment: str = "") -> bytes:
    blocks = [packet_block(0, time, packet, len(packet)) for time, packets in events for packet in packets]
    return b"".join((section_header(comment), interface_description(RAW_IP), *blocks))


def expected(events: Events) -> list[tuple[int, bytes]]:
    return [(time, packet) for time, packets in events for packet in packets]


@given(EVENTS.map(lambda events: sorted(events, key=itemgetter(0))))
@example([(NOW, [b""] * 40)])
def test_our_reader_reads_every_packet_at_its_nanosecond(events: Events) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.pcapng")
        path.write_bytes(written(events))
        reports = FileReports()
        blocks = list(find_files([str(path)])[0].blocks(1 << 20, reports))
    assert reports.problems == []
    found = [
        (time, block.data[start:stop])
        for block in blocks
        for time, start, stop in zip(block.times.tolist(), block.starts.tolist(), block.stops.tolist(), strict=True)
    ]
    assert found == expected(events)
    assert all((block.links == RAW_IP).all() and not block.missing.any() for block in blocks)


@given(EVENTS)
def test_scapy_reads_the_same(events: Events) -> None:
    found = []
    for packet, about in RawPcapNgReader(io.BytesIO(written(events, "höre"))):
        assert (about.linktype, about.tsresol, about.wirelen) == (RAW_IP, 10**9, len(packet))
        found.append(((about.tshigh << 32) + about.tslow, packet))
    assert found == expected(events)


def test_a_comment_of_any_length_is_in_the_header(tmp_path: pathlib.Path) -> None:
    for length in range(5):
        comment = "made up"[:length]
        octets = written([(NOW, [b"packet"])], comment)
        assert comment.encode() in octets[:100]
        assert [packet for packet, _ in RawPcapNgReader(io.BytesIO(octets))] == [b"packet"]
