"""Lines in the order of time: each once, none lost, in order within the bound, for any blocks."""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.invariants import in_blocks, lines_of, packets_of_capture
from tests.readings import CAPTURE_FILES, EVERY_CAPTURE
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, FrameTable, Options, Record
from zmtpscope.export.clock import Clock
from zmtpscope.export.front import Files
from zmtpscope.export.text import Look, TextLines
from zmtpscope.export.time_order import EARLIEST, LATE, Item, TimeOrder
from zmtpscope.records import empty


class Row(NamedTuple):
    step: int
    """Number of segments between the deciding segments of the previous record and of this one."""
    time: int
    packet: int
    octets: int


ROWS = st.lists(st.builds(Row, st.integers(0, 2), st.integers(0, 9), st.integers(1, 9), st.integers(0, 9)), max_size=30)
NUMBERS = st.integers(0, 6)


def records_of(rows: list[Row]) -> list[Record]:
    made = []
    for number, (ordinal, row) in enumerate(zip(accumulate(row.step for row in rows), rows, strict=True)):
        values = {**empty("command"), "ts_ns": row.time, "packet": row.packet, "length": row.octets}
        made.append(Record.of("command", (ordinal, number, 0, 0, 0, 0), values))
    return made


def batches(records: list[Record], sizes: list[int]) -> list[Batch]:
    """Divide the records into batches; records decided by one segment are in one batch."""
    made, begin = [], 0
    for size in [*sizes, len(records)]:
        end = min(begin + size, len(records))
        while 0 < end < len(records) and records[end].order[0] == records[end - 1].order[0]:
            end += 1
        made.append(Batch([None], records=records[begin:end]))
        begin = end
    return made


def order_of(records: list[Record], sizes: list[int], most: int, octets: int) -> list[Item]:
    order = TimeOrder(lambda item, files: item, records=most, octets=octets)
    written: list[Item] = []
    fed: list[Record] = []
    for batch in batches(records, sizes):
        written += [item for item, _ in order.feed(batch)]
        fed += batch.records
        waiting = fed[:]
        for item in written:
            waiting = [each for each in waiting if each is not item]
        # only as many records wait as allowed, and only for near ones
        assert len(waiting) <= most
        assert all(sum(each.values["length"] for each in fed[fed.index(one) + 1 :]) < octets for one in waiting)
    return [*written, *(item for item, _ in order.finish())]


def as_documented(records: list[Record], most: int, octets: int) -> list[Record]:
    """Return the documented order, record by record."""
    ordered = sorted(records, key=lambda record: (record.order[0], record.values["ts_ns"]))
    keys = []
    for place, record in enumerate(ordered):
        passed = [
            each.values["ts_ns"]
            for before, each in enumerate(ordered[:place])
            if each.order[0] < record.order[0]
            and (place - before > most or sum(e.values["length"] for e in ordered[before + 1 : place + 1]) >= octets)
        ]
        watermark, time = max(passed, default=EARLIEST), record.values["ts_ns"]
        late = time <= watermark
        keys.append((max(time, watermark), LATE if late else record.values["packet"], place))
    return [ordered[place] for *_, place in sorted(keys)]


@given(ROWS, st.lists(NUMBERS), NUMBERS, st.integers(1, 60))
def test_the_order_is_the_documented_one_in_batches_of_any_size(
    rows: list[Row], sizes: list[int], most: int, octets: int
) -> None:
    records = records_of(rows)
    assert order_of(records, sizes, most, octets) == as_documented(records, most, octets)


@given(ROWS, st.lists(NUMBERS), NUMBERS)
def test_time_goes_back_only_for_what_was_decided_too_long_after_it(
    rows: list[Row], sizes: list[int], most: int
) -> None:
    records = records_of(rows)
    written = order_of(records, sizes, most, 1000)
    assert Counter(map(id, written)) == Counter(map(id, records))
    place = {id(record): number for number, record in enumerate(as_documented(records, 0, 1000))}
    for one, other in pairwise(written):
        assert isinstance(one, Record)
        assert isinstance(other, Record)
        if other.values["ts_ns"] < one.values["ts_ns"]:
            behind = [each for each in records if each.values["ts_ns"] >= other.values["ts_ns"]]
            assert any(place[id(other)] - place[id(each)] > most for each in behind)


def test_without_a_wait_records_are_returned_at_once() -> None:
    (record,) = records_of([Row(1, 5, 1, 9)])
    order = TimeOrder(lambda item, files: item, records=0)
    assert [item for item, _ in order.feed(Batch([None], records=[record]))] == [record]


def test_a_source_is_asked_for_once_for_all_rows_of_an_item() -> None:
    """Otherwise an object derived from a run of frames would be made again for each frame."""
    (path,) = (path for path in EVERY_CAPTURE if path.stem == "pubsub")
    batches = list(Analyser(Options(frames=True)).run(open_captures([str(path)])))
    asked: list[Item] = []

    def source_of(item: Item, files: Files) -> Item:
        asked.append(item)
        return item

    order = TimeOrder(source_of)
    given = [row_range for batch in batches for row_range in order.feed(batch)] + order.finish()
    assert sorted(map(id, asked)) == sorted({id(item) for item, _ in given})
    frames = [(item, row) for item, rows in given if isinstance(item, FrameTable) for row in rows]
    assert len(frames) == sum(len(run.sizes) for batch in batches for run in batch.frames)
    assert len(frames) > sum(len(batch.frames) for batch in batches)


@given(st.lists(st.sampled_from([-(1 << 63), 0, (1 << 63) - 1]), max_size=5), NUMBERS)
def test_times_may_be_anything(times: list[int], most: int) -> None:
    records = records_of([Row(1, time, 1, 1) for time in times])
    assert order_of(records, [1, 1], most, 10) == as_documented(records, most, 10)


def times_and_texts(path: str, *, waits: bool) -> list[tuple[int, str]]:
    captures = open_captures([path])
    made = TextLines(Look(Clock("e", lambda: 0), waits=waits, chat=True), Options(frames=True))
    lines = [line for batch in Analyser(Options(frames=True)).run(captures) for line in made.lines(batch)]
    lines += made.rest()
    found = [re.match(r" *(?:\S+ )? *(\d+)\.(\d{6})  (c\d+|udp|) .*?  +(.*?)(?: ->|$)", line) for line in lines]
    assert all(found)
    return [(int(match[1] + match[2]), " ".join(f"{match[3]} {match[4]}".split())) for match in found if match]


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.name)
def test_captures_are_shown_in_the_order_of_time(path: object) -> None:
    as_decided, in_order = times_and_texts(str(path), waits=False), times_and_texts(str(path), waits=True)
    assert sorted(as_decided) == sorted(in_order)
    assert [time for time, _ in in_order] == sorted(time for time, _ in as_decided)


@pytest.mark.parametrize("name", ["jupyter", "midstream-3.0", "greeting-octet-by-octet", "broker-mixed-versions"])
def test_lines_that_wait_depend_on_no_block(name: str) -> None:
    (path,) = (path for path in EVERY_CAPTURE if path.stem == name)
    packets = packets_of_capture(path.read_bytes())
    whole = lines_of(packets, Options(details=True), waits=True)
    for size in (1, 7, 50):
        sizes = iter(lambda size=size: size, 0)  # type: ignore[misc]
        assert lines_of(in_blocks(packets, sizes), Options(details=True), waits=True) == whole
