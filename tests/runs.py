"""Invariants of the columns of all returned rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from zmtpscope.dissect import Batch, FrameTable, MessageTable
from zmtpscope.dissect.records.message_columns import NO_TOPIC

OF_A_FRAME = ("offsets", "bodies", "sizes", "flags")
OF_A_MESSAGE = ("first", "last", "complete", "orders", "packets", "times", "packet_ends", "time_ends")
OF_A_FRAME_ROW = ("messages", "orders", "packets", "times")


def assert_columns_agree(run: MessageTable | FrameTable) -> None:
    """Check that the columns of a run belong to the same messages and frames."""
    count = len(run.offsets)
    assert count > 0
    assert [len(getattr(run, name)) for name in OF_A_FRAME] == [count] * len(OF_A_FRAME)
    assert (run.bodies > run.offsets).all()
    assert (run.offsets[1:] - run.bodies[:-1] >= run.sizes[:-1]).all()  # frames follow one another
    assert (np.diff(run.orders) >= 0).all()
    if isinstance(run, FrameTable):
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


def joined(runs: Sequence[MessageTable]) -> MessageTable:
    counts, frames = [len(run) for run in runs], np.cumsum([0, *(len(run.offsets) for run in runs[:-1])])
    columns = {name: np.concatenate([getattr(run, name) for run in runs]) for name in (*OF_A_FRAME, *OF_A_MESSAGE)}
    columns["first"] += frames.repeat(counts)
    columns["last"] += frames.repeat(counts)
    empty = {"texts": np.zeros, "json": np.zeros, "topics": lambda count: np.full(count, NO_TOPIC)}
    for name, nothing in empty.items():
        parts = [(len(run), getattr(run, name)) for run in runs]
        columns[name] = np.concatenate([nothing(count) if part is None else part for count, part in parts])
    columns["texts"], columns["json"] = columns["texts"] != 0, columns["json"] != 0
    payloads = [made for run in runs for made in run.payloads or [None] * len(run)]
    senders, sender_of = [run.sender for run in runs], np.arange(len(runs)).repeat(counts)
    return MessageTable(senders=senders, sender_of=sender_of, payloads=payloads, **columns)


def assert_runs_agree(batch: Batch) -> None:
    """The columns of each table of a batch agree, and the rows of a stream follow one another."""
    for table in batch.messages:
        if table.sender_of is not None:
            assert len(table.sender_of) == len(table)
            assert np.unique(table.sender_of).tolist() == [*range(len(table.senders))]
        assert sum(len(run) for run in table.by_sender()) == len(table)
        assert sum(len(run.offsets) for run in table.by_sender()) == len(table.offsets)
    for run in (*batch.by_sender(), *batch.frames):
        assert_columns_agree(run)
    for one, other in pairwise(batch.by_sender()):
        if (one.stream, one.source) == (other.stream, other.source):
            assert other.offsets[0] >= one.bodies[-1]
