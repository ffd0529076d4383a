"""The segments of a block by direction: compiled and in Python (seam P20)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import twins
from zmtpscope.capture.segments import ACK, CLOSED_WINDOW, CUT, FIN, RST, SYN, SegmentBlock
from zmtpscope.dissect.tcp.connection import reverse
from zmtpscope.dissect.tcp.directions import NOT_HERE, Directions
from zmtpscope.dissect.tcp.sequence import MODULUS
from zmtpscope.records import SECOND

BY_DIRECTION = twins("zmtpscope.dissect.tcp.directions.by_direction")
OPPOSITES = twins("zmtpscope.dissect.tcp.directions.opposites")
FLAGS = [ACK, ACK, ACK, ACK | FIN, SYN, SYN | ACK, RST, ACK | CUT, ACK | CLOSED_WINDOW, 0, SYN | FIN, FIN]


@st.composite
def segments(draw: st.DrawFn) -> tuple[int, list[np.ndarray]]:
    """Columns of segments of a few directions, most of them in order."""
    count = draw(st.integers(1, 4))
    following = [draw(st.sampled_from([0, 7, MODULUS - 3])) for _ in range(count)]
    rows = []
    for _ in range(draw(st.integers(0, 24))):
        flow, flags, octets = draw(st.integers(0, count - 1)), draw(st.sampled_from(FLAGS)), draw(st.integers(0, 3))
        first = next((row[1] for row in rows if row[0] == flow), following[flow])
        sequence = draw(st.sampled_from([following[flow]] * 5 + [9] + [first] * (3 if flags == SYN else 0)))
        following[flow] = (sequence + octets + bool(flags & SYN) + bool(flags & FIN)) % MODULUS
        rows.append((flow, sequence, draw(st.integers(0, 3)), flags, 10, 10 + octets))
    return count, list(np.array(rows, np.int64).reshape(-1, 6).T.copy())


@given(segments())
def test_p20_directions_are_the_same_compiled_and_in_python(given: tuple[int, list[np.ndarray]]) -> None:
    count, columns = given
    found = [[each.tolist() for each in by_direction(count, *columns)] for by_direction in BY_DIRECTION]
    assert all(each == found[0] for each in found)


KEYS = st.sampled_from([4, 16]).flatmap(lambda size: st.binary(min_size=2 * size + 4, max_size=2 * size + 4))


@given(st.lists(KEYS, max_size=5, unique=True))
def test_p20_opposite_directions_are_the_same_compiled_and_in_python(keys: list[bytes]) -> None:
    both = list(dict.fromkeys([*keys, *map(reverse, keys[::2])]))
    numbers = {key: number for number, key in enumerate(both)}
    for opposites in OPPOSITES:
        found = opposites(both, numbers).tolist()
        assert found == [numbers.get(reverse(key), NOT_HERE) for key in both]


def directions(*rows: tuple[int, int, int], apart: int = 1) -> Directions:
    """The directions of a block with these segments, `apart` ns: flow, flags and octets, in order, each SYN with one
    number."""
    block = SegmentBlock(bytes(99), 0)
    following = [100, 2**32 - 2]
    columns = []
    for flow, flags, octets in rows:
        sequence = (100, 2**32 - 2)[flow] if flags & SYN else following[flow]
        columns.append((flow, sequence, 50 + len(columns), flags, 0, octets))
        following[flow] = (sequence + octets + bool(flags & SYN) + bool(flags & FIN)) % MODULUS
    names = ("flows", "sequences", "acknowledgments", "flags", "starts", "stops")
    for name, column in zip(names, np.array(columns, np.int64).T.copy(), strict=True):
        setattr(block, name, column)
    block.times = apart * np.arange(len(rows))
    block.keys = [b"client", b"server"][: 1 + max(flow for flow, _, _ in rows)]
    return Directions(block)


def test_a_direction_in_order_is_clean_also_where_numbers_wrap() -> None:
    found = directions((0, SYN, 0), (1, SYN | ACK, 0), (1, ACK, 5), (0, ACK, 0), (1, ACK, 2), (0, ACK | FIN, 3))
    assert found.is_clean.tolist() == [True, True]
    assert [*found.octets] == [3, 7]
    assert found.rows_of(1) == [2, 4]
    assert [*found.fin_row] == [5, -1]
    assert found.acknowledgment_until(0, 4) == 53
    assert found.last_row_before(b"server", 4) == 2


def test_only_bare_acknowledgments_may_follow_a_fin() -> None:
    assert directions((0, ACK | FIN, 1), (0, ACK, 0)).is_clean.tolist() == [True]
    assert directions((0, ACK | FIN, 1), (0, ACK, 1)).is_clean.tolist() == [False]
    assert directions((0, ACK | FIN, 1), (0, ACK | FIN, 0)).is_clean.tolist() == [False]


def test_a_syn_is_the_first_segment_or_the_direction_is_not_clean() -> None:
    assert directions((0, ACK, 1), (0, SYN, 0)).is_clean.tolist() == [False]


def test_a_syn_may_be_repeated_before_anything_else() -> None:
    pair = np.array([[0], [1]])
    repeated = directions((0, SYN, 0), (0, SYN, 0), (1, SYN | ACK, 0), (0, ACK, 0), (0, ACK, 5))
    assert repeated.is_clean.tolist() == [True, True]
    assert (repeated.first_rows[0], repeated.syn_rows[0], repeated.second_rows[0]) == (0, 1, 3)
    assert repeated.begin_connections(*pair)
    unacknowledged = directions((0, SYN, 0), (0, SYN, 0), (1, SYN | ACK, 0))
    assert not unacknowledged.begin_connections(*pair)
    assert directions((0, SYN, 0), (0, SYN, 0), (0, ACK, 0), apart=3 * SECOND).is_clean.tolist() == [False]
    assert directions((0, SYN, 0), (0, ACK, 0), (0, SYN, 0)).is_clean.tolist() == [False]
    assert directions((0, SYN, 0), (0, SYN, 2)).is_clean.tolist() == [False]
