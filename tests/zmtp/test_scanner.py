"""The hot path: no call of Python for a plain frame, and a stop at everything that is not plain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import calls_of
from tests.strategies import FRAMINGS
from tests.suites import examples
from tests.twins import twins
from zmtpscope.zmtp.events import FrameColumns, Runs
from zmtpscope.zmtp.framing import MORE, build_frame
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.scanner import scan_1
from zmtpscope.zmtp.side import SideReader

PLAIN_1 = build_frame(Framing.V1, b"plain", more=True)
PLAIN_2 = build_frame(Framing.V2, b"plain", more=True)
Scan = Callable[[bytes, int, int, FrameColumns], int]
SCANS: list[Scan] = twins("zmtpscope.zmtp.scanner.scan_2")
CURVE = [b"\0\x21\x07MESSAGE" + nonce.to_bytes(8, "big") + bytes(17) for nonce in range(2000)]


@pytest.mark.parametrize(
    ("framing", "version", "mechanism", "frames"),
    [
        (Framing.V1, "1.0", None, [PLAIN_1] * 2000),
        (Framing.V2, "2.0", None, [PLAIN_2] * 2000),
        (Framing.V2, "3.1", "NULL", [PLAIN_2] * 2000),
        (Framing.V2, "3.1", "CURVE", CURVE),
    ],
)
def test_no_call_per_frame(framing: Framing, version: str, mechanism: str | None, frames: list[bytes]) -> None:
    """Twice the plain frames take as many calls."""

    def calls(count: int) -> int:
        side = SideReader.midstream(framing, offset=0, version=version, mechanism=mechanism)
        found = calls_of(lambda: side.read(b"".join(frames[:count]), 0))
        assert len(side.frames) == count
        return found

    assert calls(1000) == calls(2000)


def test_few_calls_for_frames_of_many_sizes() -> None:
    """Frames that do not repeat themselves are taken in bulk, too."""
    octets = b"".join(build_frame(Framing.V2, bytes(size % 251)) for size in range(0, 70_000, 7))
    side = SideReader.midstream(Framing.V2, offset=0, version="3.1", mechanism="NULL")
    assert calls_of(lambda: side.read(octets, 0)) < 100
    assert len(side.frames) == 10_000


@pytest.mark.parametrize("scan_2", SCANS)
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("sizes", [[5], [0], [300], [0, 9], [3, 260, 0], [1, 1, 1, 2]], ids=str)
def test_a_run_ends_where_a_header_differs(framing: Framing, sizes: list[int], scan_2: Scan) -> None:
    """After any repeated frames, the first different frame and all later ones are reported unchanged."""
    pattern = [(size, turn < len(sizes) - 1) for turn, size in enumerate(sizes)]
    for place in (0, 31, 32, 33, 63, 64, 95, 96, 97, 130, 299):
        for other in ((7, False), (sizes[0], len(sizes) == 1), (301, True)):
            frames = (pattern * 300)[:place] + [other] + pattern * 50
            octets = b"".join(build_frame(framing, bytes(size), more=more) for size, more in frames)
            columns = FrameColumns()
            stop = (
                scan_2(octets, 0, 100, columns)
                if framing is Framing.V2
                else scan_1(octets, 0, 100, columns, habit=False)
            )
            assert stop == len(octets)
            assert list(zip(columns.sizes, (flags & 1 for flags in columns.flags), strict=True)) == frames
            ends = [body + size for body, size in zip(columns.bodies, columns.sizes, strict=True)]
            assert [*columns.offsets, 100 + stop] == [100, *ends]


@pytest.mark.parametrize("scan_2", SCANS)
@pytest.mark.parametrize(
    "header",
    [b"\4\1", b"\5\1", b"\x08\1", b"\x80\1", b"\2" + bytes(7) + b"\xff", b"\2\x80" + bytes(7), b"\2\0\0\0", b"\0"],
    ids=[
        "command",
        "command and more",
        "bit 3",
        "bit 7",
        "needless long form",
        "size 2^63",
        "half a header",
        "flags only",
    ],
)
def test_scan_2_stops(header: bytes, scan_2: Scan) -> None:
    """Frames that are not plain are left to the careful reader; the frames before them are taken."""
    columns = FrameColumns()
    assert scan_2(PLAIN_2 + header, 0, 100, columns) == len(PLAIN_2)
    assert columns.rows() == [(100, 102, 5, 1)]


@pytest.mark.parametrize(
    "header",
    [b"\0\0", b"\2\x02", b"\xff" + bytes(7) + b"\xfe\0", b"\xff\x80" + bytes(7) + b"\0", b"\xff\0\0", b"\2\x7e", b"\2"],
    ids=[
        "length 0",
        "reserved bit",
        "needless long form",
        "length 2^63",
        "half a header",
        "7E not noted",
        "length only",
    ],
)
def test_scan_1_stops(header: bytes) -> None:
    """Stops are the same as for 1.0 frames."""
    columns = FrameColumns()
    assert scan_1(PLAIN_1 + header, 0, 100, columns, habit=False) == len(PLAIN_1)
    assert columns.rows() == [(100, 102, 5, 1)]


def test_each_length_of_0_is_examined() -> None:
    """Frames repeat, with a length of 0 between them, or with another number of these."""
    octets = b"\2\0a\0\3\0bc" * 500 + b"\2\0a\0\0\0\3\0bc" * 500
    columns, zeros = FrameColumns(), Runs([], [])
    assert scan_1(octets, 0, 100, columns, False, zeros) == len(octets)
    assert zeros.starts == [*range(103, 4103, 8), *range(4103, 9103, 10)]
    assert zeros.stops == [*range(104, 4104, 8), *range(4106, 9106, 10)]
    firsts = [*range(100, 4100, 8), *range(4100, 9100, 10)]
    assert columns.offsets.tolist() == [
        at for first, stop in zip(firsts, zeros.stops, strict=True) for at in (first, stop)
    ]


@pytest.mark.parametrize("open_before", [False, True])
def test_lengths_of_0_inside_a_message_are_left_to_the_careful_reader(open_before: bool) -> None:
    """They belong to no other unit, so each is reported separately."""
    frames = b"" if open_before else b"\0" + PLAIN_1
    columns, zeros = FrameColumns(), Runs([], [])
    stop = scan_1(frames + b"\0" + PLAIN_1, 0, 100, columns, False, zeros, MORE if open_before else 0)
    assert (stop, zeros.starts) == (len(frames), [] if open_before else [100])


@pytest.mark.parametrize("scan_2", SCANS)
@pytest.mark.parametrize("size", [2**40, 2**63 - 1])
def test_scan_goes_beyond_the_octets(size: int, scan_2: Scan) -> None:
    """A missing body is counted: the next header is after the given octets."""
    columns = FrameColumns()
    assert scan_2(b"\3" + size.to_bytes(8, "big") + b"x", 0, 0, columns) == size + 9
    assert columns.rows() == [(0, 9, size, 3)]


FRAMES = [bytes([flags, size]) + bytes(size) for flags in (0, 1, 4, 0x80) for size in (0, 1, 7, 255)]
FRAMES += [
    bytes([flags]) + size.to_bytes(8) + bytes(256) for flags in (2, 3, 6) for size in (255, 256, 2**63 - 1, 2**63)
]


@examples(40, least=40)
@given(st.lists(st.sampled_from(FRAMES), max_size=5), st.integers(0, 3), st.integers(0, 9), st.integers(0, 3))
def test_p20_scan_2_compiled_is_that_in_python(frames: list[bytes], at: int, cut: int, before: int) -> None:
    octets = b"".join(frames)
    octets = octets[: max(len(octets) - cut, 0)]
    found = []
    for scan_2 in SCANS:
        columns = FrameColumns()
        for _ in range(before):
            columns.append(1, 2, 3, 0)
        found.append((scan_2(octets, at, 2**40, columns), columns.rows()))
    assert found[0] == found[-1]
