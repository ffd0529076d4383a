"""What holds for the columns of every run that is handed up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from zmtpscope.dissect import Batch, FrameRun, MessageRun

OF_A_FRAME = ("offsets", "bodies", "sizes", "flags")
OF_A_MESSAGE = ("first", "last", "complete", "orders", "packets", "times", "packet_ends", "time_ends")
OF_A_FRAME_ROW = ("messages", "orders", "packets", "times")


def assert_columns_agree(run: MessageRun | FrameRun) -> None:
    """The columns of a run all mean the same rows: those of its messages, and the frames of these and no others."""
    count = len(run.offsets)
    assert count > 0
    assert [len(getattr(run, name)) for name in OF_A_FRAME] == [count] * len(OF_A_FRAME)
    assert (run.bodies > run.offsets).all()
    assert (run.offsets[1:] - run.bodies[:-1] >= run.sizes[:-1]).all()  # frames follow one another
    assert (np.diff(run.orders) >= 0).all()
    if isinstance(run, FrameRun):
        assert [len(getattr(run, name)) for name in OF_A_FRAME_ROW] == [count] * len(OF_A_FRAME_ROW)
        return
    rows = len(run.first)
    assert [len(getattr(run, name)) for name in OF_A_MESSAGE] == [rows] * len(OF_A_MESSAGE)
    optional = (run.payloads, run.texts, run.json, run.topics)
    assert all(each is None or len(each) == rows for each in optional)
    made = None if run.payloads is None else [each is not None for each in run.payloads]
    inside = [np.array(each, np.int64) for each in (run.texts, run.json, made) if each is not None]
    assert (sum(inside, np.zeros(rows, np.int64)) <= 1).all()
    assert run.first[0] == 0
    assert run.last[-1] == count - 1
    assert (run.first[1:] == run.last[:-1] + 1).all()
    assert (run.first <= run.last).all()


def assert_runs_agree(batch: Batch) -> None:
    """The columns of each run of a batch agree, and the runs of a stream follow one another."""
    for run in (*batch.runs, *batch.frame_runs):
        assert_columns_agree(run)
    for one, other in pairwise(batch.runs):
        if (one.stream, one.source) == (other.stream, other.source):
            assert other.offsets[0] >= one.bodies[-1]
