"""Messages in words: many at once say what each does by itself (seam P20)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.export.test_json_lines import OPTIONS, batches, message_runs
from tests.readings import CAPTURE_FILES
from tests.twins import twins
from zmtpscope.dissect import FrameRun, MessageRun, Options
from zmtpscope.export.rows import RunWords

HEADS = [Options(bodies="head", head=size) for size in (0, 1, 7, 8, 40, 200, 10**6)]


def assert_described_alike(run: MessageRun | FrameRun, options: Options) -> None:
    count = len(run.orders)
    wanted = [RunWords(run, options, None).describe(row, 0) for row in range(count)]
    for describing in twins("zmtpscope.export.rows.describing"):
        words = RunWords(run, options, None)
        describe = describing(words)
        assert describe(words, 0, count) == wanted
        assert [line for row in range(count) for line in describe(words, row, row + 1)] == wanted


@pytest.mark.parametrize("options", OPTIONS, ids=["full", "none", "head", "limit", "payloads"])
def test_rows_of_captures_are_described_alike(options: Options) -> None:
    for path in CAPTURE_FILES:
        for batch in batches(path, options):
            for run in (*batch.runs, *batch.frame_runs):
                assert_described_alike(run, options)


@settings(max_examples=500)
@given(message_runs(), st.sampled_from([*OPTIONS, *HEADS]))
def test_any_rows_are_described_alike(run: MessageRun, options: Options) -> None:
    assert_described_alike(run, options)
