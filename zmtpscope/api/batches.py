"""Select the records of a class from a batch, as a batch or as objects."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.api.record_classes import CLASSES, Frame, Message
from zmtpscope.api.rows import Record, Values
from zmtpscope.dissect import Batch, FrameRun, Options
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export.values import record_values


def part_of(batch: Batch, record: type[Record]) -> Batch:
    """Return the records of a batch that belong to a class; `Record` means all."""
    return batch if record is Record else batch.of_type(record.type.name)


def rows_of(batch: Batch, options: Options) -> Iterator[Record]:
    """Yield the records of a batch as objects, in order."""
    order = batch.arranged()
    messages = Values(MessageColumns.of_arrangement(order, batch.files, options))
    if batch.frame_runs:
        frames = Values(FrameRowColumns.of(batch.frame_runs, batch.files))
        at_frame = 0
    at = 0
    for place, item, _ in order.between:
        for row in range(at, place):
            yield Message(messages, row)
        at = place
        if isinstance(item, FrameRun):
            yield Frame(frames, at_frame)
            at_frame += 1
        else:
            yield CLASSES[item.type]({name: (value,) for name, value in record_values(item, options).items()})
    for row in range(at, len(order.run_of)):
        yield Message(messages, row)
