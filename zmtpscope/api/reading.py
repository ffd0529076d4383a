"""`zmtpscope.read`: yield the records of captures one by one, as they become known."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import Any, Self, TypeVar, Unpack, cast, overload

from zmtpscope.api.record_classes import CLASSES, Frame, Message
from zmtpscope.api.rows import Record, Values, check_class
from zmtpscope.api.settings import PathLike, Settings, analyser_options, names, packet_limit
from zmtpscope.api.tables import Tabular
from zmtpscope.capture import Captures, open_captures
from zmtpscope.diagnosis.deriving import with_derived
from zmtpscope.dissect import Analyser, Batch, FrameTable, Options
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export.summary import dropped
from zmtpscope.export.values import record_values
from zmtpscope.filter import Filter
from zmtpscope.filter.selection import Selection
from zmtpscope.records import DERIVED

R = TypeVar("R", bound=Record)


class CaptureWarning(UserWarning):
    """A warning that a capture was damaged or lost packets, or that a key file or another auxiliary file could not be
    used.

    All readable records were returned before.
    """


@overload
def read(
    paths: PathLike | Iterable[PathLike],
    *,
    filter: str | None = ...,
    packets: int | None = ...,
    **settings: Unpack[Settings],
) -> Records[Message]: ...


@overload
def read(
    paths: PathLike | Iterable[PathLike],
    record: type[R],
    *,
    filter: str | None = ...,
    packets: int | None = ...,
    **settings: Unpack[Settings],
) -> Records[R]: ...


def read(
    paths: PathLike | Iterable[PathLike],
    record: type[Record] = Message,
    *,
    filter: str | None = None,
    packets: int | None = None,
    **settings: Unpack[Settings],
) -> Records[Any]:
    """Return the records of one class from captures; `zmtpscope.Record` is all classes except frames and derived
    records.

    `paths` are files and directories, `"-"` is standard input; `filter` is a `-Y` filter (docs/filters.md), `packets`
    the maximum number of packets to read. `Settings` lists the other arguments.

    Raises `CaptureError` if nothing can be read, and `FilterError` or another `ValueError` for invalid arguments.
    """
    check_class(record)
    chosen = None if filter is None else Filter(filter)
    options = analyser_options(settings, frames=record is Frame)
    captures = open_captures(names(paths), packet_limit=packet_limit(packets))
    batches = Analyser(options).run(captures)
    is_derived = record.type.name in DERIVED if record is not Record else False
    return Records(record, captures, with_derived(batches) if is_derived else batches, options, chosen)


class Records(Tabular[R]):
    """The records of captures, each returned once, in the order in which they became known.

    Iterate with `for`; or with `async for`, which reads in a thread. At the end of the captures, problems are reported
    as `CaptureWarning`.
    """

    def __init__(
        self, record: type[R], captures: Captures, batches: Iterator[Batch], options: Options, filter: Filter | None
    ) -> None:
        super().__init__(record, options)
        self._captures = captures
        self._has_begun = False
        self._batches = self._parts(batches, filter)
        self._rows = self._all_rows()

    def __iter__(self) -> Iterator[R]:
        return self._rows

    def __next__(self) -> R:
        return next(self._rows)

    async def __aiter__(self) -> AsyncIterator[R]:
        while (batch := await _in_thread(self._batches)) is not None:
            for row in self._rows_of(batch):
                yield row

    def close(self) -> None:
        self._rows.close()
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _batches_of(self, record: type[Record]) -> Iterator[Batch]:
        if self._has_begun:
            raise RuntimeError("some of these records were already returned; read again for a table of all")
        return (part_of(batch, record) for batch in self._batches)

    def _all_rows(self) -> Generator[R]:
        for batch in self._batches:
            yield from self._rows_of(batch)

    def _rows_of(self, batch: Batch) -> Iterator[R]:
        return cast(Iterator[R], rows_of(batch, self._options))

    def _parts(self, batches: Iterator[Batch], filter: Filter | None) -> Generator[Batch]:
        """Yield the batches with the selected records only, and report the problems of the captures after
        the last one."""
        for batch in batches:
            self._has_begun = True
            part = part_of(batch, self._record)
            if filter is not None:
                part = Selection(filter, part, self._options, self._captures.statistics.first_time).as_batch()
            yield part
        warn_of(self._captures, self._options, stacklevel=4)


async def _in_thread(batches: Iterator[Batch]) -> Batch | None:
    """Read the next batch in a thread. Cancellation waits for the thread, because threads cannot be killed."""
    next_batch = asyncio.ensure_future(asyncio.to_thread(next, batches, None))
    try:
        return await asyncio.shield(next_batch)
    except asyncio.CancelledError:
        await asyncio.wait([next_batch])
        raise


def warn_of(captures: Captures, options: Options, *, stacklevel: int) -> None:
    problems = [str(problem) for problem in captures.problems]
    if drops := captures.statistics.dropped():
        problems.append(dropped(drops))
    if options.payloads is not None:
        problems += options.payloads.problems
    if options.keys is not None:
        problems += options.keys.problems
    for problem in problems:
        warnings.warn(problem, CaptureWarning, stacklevel=stacklevel)


def part_of(batch: Batch, record: type[Record]) -> Batch:
    """Return a batch with only the records of one class; for `Record`, the batch itself."""
    return batch if record is Record else batch.of_type(record.type.name)


def rows_of(batch: Batch, options: Options) -> Iterator[Record]:
    order = batch.arranged()
    messages = Values(MessageColumns.of_arrangement(order, batch.files, options))
    if batch.frames:
        frames = Values(FrameRowColumns.of(batch))
        at_frame = 0
    at = 0
    for place, item, _ in order.between:
        for row in range(at, place):
            yield Message(messages, row)
        at = place
        if isinstance(item, FrameTable):
            yield Frame(frames, at_frame)
            at_frame += 1
        else:
            yield CLASSES[item.type]({name: (value,) for name, value in record_values(item, options).items()})
    for row in range(at, len(order.places)):
        yield Message(messages, row)
