"""Lines of rows: several at once equal the lines of single rows (seam P20)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_json_lines import OPTIONS, STREAM, batches, batches_of_json, message_runs
from tests.readings import CAPTURE_FILES
from tests.runs import joined
from tests.suites import examples
from tests.twins import twins
from zmtpscope.dissect import Batch, MessageTable, Options
from zmtpscope.dissect.records.message_columns import MessageColumns, columns_of_table
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export import front
from zmtpscope.export.clock import FORMS, Clock
from zmtpscope.export.front import Front
from zmtpscope.export.rows import RowWords
from zmtpscope.export.styles import Paint, plain
from zmtpscope.export.text import Look, TextLines
from zmtpscope.payloads.registry import Registry

HEADS = [Options(bodies="head", head=size) for size in (0, 1, 7, 8, 40, 200, 10**6)]
FILES = ["one.pcap", "two.pcap"]

Columns = MessageColumns | FrameRowColumns


def brackets(style: str, text: str) -> str:
    return f"<{style}>{text}</>"


def assert_alike(columns: Columns, options: Options, clock: str = "r", paint: Paint = plain) -> None:
    """Each line consists of packet and time, sender and receiver, and the words for the row."""
    count = len(columns)
    names = [(f"c{row} REQ > REP  ", 15) for row in range(count)]
    front = Front(Clock(clock, lambda: 1), paint)
    wanted = []
    for row, (who, _) in enumerate(names):
        place = front.of_row(int(columns.packets[row]), int(columns.times[row]), columns.files)
        words = RowWords(columns_of_table(columns.alone(row)), options, None)
        wanted.append(f"{paint('dim', place)}{who}{words.describe(0, 0)}\n")
    for lines_of in twins("zmtpscope.export.row_lines.lines_of"):
        words_of_all = RowWords(columns, options, None)
        for groups in ([range(count)], [range(row, row + 1) for row in range(count)]):
            fresh = Front(Clock(clock, lambda: 1), paint)
            lines = [lines_of(words_of_all, rows, [names[row] for row in rows], fresh) for rows in groups]
            assert list(chain(*lines)) == wanted
            assert fresh.width == front.width


@pytest.mark.parametrize("options", OPTIONS, ids=["full", "none", "head", "limit", "payloads"])
def test_lines_of_captures_are_alike(options: Options) -> None:
    for path in CAPTURE_FILES:
        for batch in batches(path, options):
            columns: list[Columns] = [FrameRowColumns.of_table(run, batch.files) for run in batch.frames]
            if batch.messages:
                columns.append(MessageColumns.of(batch))
            for each in columns:
                assert_alike(each, options)


def test_lines_of_json_are_alike() -> None:
    for batch in batches_of_json():
        if batch.messages:
            assert_alike(MessageColumns.of(batch), Options(payloads=Registry()))


@examples(500, least=500)
@given(
    st.lists(message_runs(), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
    st.sampled_from([*OPTIONS, *HEADS]),
    st.just("r") | st.sampled_from(sorted(FORMS)),
    st.sampled_from([plain, plain, brackets]),
    st.sampled_from([FILES[:1], FILES[:1], FILES]),
)
def test_any_lines_are_alike(
    runs: list[MessageTable], random: Random, options: Options, clock: str, paint: Paint, files: Sequence[str]
) -> None:
    places = [*range(sum(map(len, runs)))]
    random.shuffle(places)
    for run in runs:
        run.packets += random.choice([0, 99_990, 10**9])
        if len(files) == 1:
            run.packets &= (1 << 40) - 1
    for tables in (runs, [joined(runs)]):
        assert_alike(MessageColumns(tables, np.array(places), files), options, clock, paint)


@examples(200)
@given(st.data(), st.sampled_from([2, 100]))
def test_lines_name_sides_as_they_are_known_there(data: st.DataObject, most: int) -> None:
    """Whether the rows of a batch are made into lines together or one after the other."""
    batch = Batch(FILES)
    for conn, side in data.draw(st.sets(st.tuples(st.sampled_from([1, 2, 1000, 20_000]), st.sampled_from([0, 1])))):
        run = data.draw(message_runs(STREAM._replace(conn=conn, side=side)))
        run.times, run.packets = run.orders, run.orders + 1
        if most == 2:  # forgotten connections are not remembered again
            run.change(socket_type=None, peer_socket_type=None)
        batch.messages.append(run)
    together, apart = (TextLines(Look(Clock("r", lambda: 0)), Options()) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(front, "MAX_CONNECTIONS", most)
        assert [*together.lines(batch), *together.rest()] == [line for _, line in apart.lines_in_order(batch)]


def test_the_column_of_packets_grows() -> None:
    path, *_ = CAPTURE_FILES
    for batch in batches(path, Options()):
        for run in batch.messages:
            run.packets = 30_000 * run.packets
        if batch.messages:
            assert_alike(MessageColumns.of(batch), Options())
