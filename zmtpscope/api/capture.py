"""`zmtpscope.open`: read captures to their end, and keep all records for repeated access."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import TypeVar, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from zmtpscope.api.reading import CaptureWarning, rows_of, warn_of
from zmtpscope.api.record_classes import Command, Connection, Finding, Frame, Message
from zmtpscope.api.rows import Record, check_class, shown_fields
from zmtpscope.api.settings import PathLike, Settings, analyser_options, names, packet_limit
from zmtpscope.api.tables import Tabular
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch
from zmtpscope.filter import Filter
from zmtpscope.store import Store
from zmtpscope.words import counted

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=Record)

AT_ONCE = 4096
"""Record objects created at a time during iteration."""

SHOWN = 20


def open(
    paths: PathLike | Iterable[PathLike],
    *,
    frames: bool = False,
    packets: int | None = None,
    **settings: Unpack[Settings],
) -> Capture:
    """Read all records of captures into memory; frames only if `frames` is true. The other arguments, and the
    errors, are those of `zmtpscope.read`."""
    options = replace(analyser_options(settings, frames=frames), index=True)
    captures = open_captures(names(paths), packet_limit=packet_limit(packets))
    store = Store(options)
    for batch in Analyser(options).run(captures):
        store.append(batch)
    store.first_time = captures.statistics.first_time
    warn_of(captures, options, stacklevel=3)
    return Capture(store)


class View(Sequence[R], Tabular[R]):
    """A selection of the records of a `Capture`, in the order in which they became known."""

    def __init__(self, store: Store, record: type[R], numbers: NDArray[np.int64]) -> None:
        super().__init__(record, store.options)
        self._store = store
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> View[R]: ...

    def __getitem__(self, index: int | slice) -> R | View[R]:
        if isinstance(index, slice):
            if index.step is not None and index.step < 0:
                raise ValueError("views cannot be reversed by a slice; use reversed()")
            return View(self._store, self._record, self._numbers[index])
        return next(self._rows(self._numbers[[index]]))

    def __iter__(self) -> Iterator[R]:
        for begin in range(0, len(self._numbers), AT_ONCE):
            yield from self._rows(self._numbers[begin : begin + AT_ONCE])

    def filter(self, filter: str) -> View[R]:
        """Return the records that match a `-Y` filter (docs/filters.md). Raises `FilterError`."""
        numbers = self._store.select(Filter(filter), self._numbers)
        self._warn()
        return View(self._store, self._record, numbers)

    def follow(self, *, conn: int | None = None, peer: str | None = None, topic: str | None = None) -> View[R]:
        """Return the records of a connection, of the connections of the peer with this identity, or of a topic.

        With several arguments, records must satisfy all of them.
        """
        if conn is None and peer is None and topic is None:
            raise TypeError("follow takes conn, peer or topic")
        followed = self._store.follow(conn=conn, peer=peer, topic=topic)
        return View(self._store, self._record, np.intersect1d(self._numbers, followed, assume_unique=True))

    def of(self, record: type[S]) -> View[S]:
        """Return the records of one class, for example `zmtpscope.Finding`.

        Raises `ValueError` for frames if `open` was called without `frames=True`.
        """
        check_class(record)
        if record is Record:
            return cast(View[S], self)
        if record is Frame and not self._options.frames:
            raise ValueError("frames are not recorded by default: use zmtpscope.open(path, frames=True)")
        found = self._store.select(Filter(f"record == '{record.type.name}'"), self._numbers)
        return View(self._store, record, found)

    def messages(self) -> View[Message]:
        return self.of(Message)

    def commands(self) -> View[Command]:
        return self.of(Command)

    def connections(self) -> View[Connection]:
        return self.of(Connection)

    def findings(self) -> View[Finding]:
        return self.of(Finding)

    def line(self, index: int) -> str | None:
        """Return the line that `zmtpscope read` prints for the record at `index`, or None if it prints none."""
        return self._store.line(self._number(index))

    def detail(self, index: int) -> str:
        """Return the text that `zmtpscope read -V -x` prints below the line of a record: all fields, and a hex dump."""
        return "".join(self._store.detail(self._number(index)))

    def octets(self, index: int) -> bytes:
        """Return the octets of a record in the TCP stream, headers included.

        Raises `OctetsError` if the capture file has changed.
        """
        return self._store.octets(self._number(index))

    def _number(self, index: int) -> int:
        return int(self._numbers[index])

    def _rows(self, numbers: NDArray[np.int64]) -> Iterator[R]:
        return cast(Iterator[R], rows_of(self._batch(numbers), self._options))

    def _batch(self, numbers: NDArray[np.int64]) -> Batch:
        batch = self._store.batch(numbers)
        self._warn()
        return batch

    def _warn(self) -> None:
        problem, self._store.problem = self._store.problem, None
        if problem is not None:
            warnings.warn(f"{problem}; bodies are missing", CaptureWarning, stacklevel=3)

    def _batches_of(self, record: type[Record]) -> Iterator[Batch]:
        numbers = self.of(record)._numbers
        return (self._batch(numbers[begin : begin + AT_ONCE]) for begin in range(0, len(numbers), AT_ONCE))

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'record' if self._record is Record else self._record.type.name)}>"

    def _repr_html_(self) -> str:
        rows = [dict(shown_fields(record)) for record in self[:SHOWN]]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        head = "".join(f"<th>{escape(name)}</th>" for name in ("", *columns))
        cells = (
            f"<tr><th>{escape(type(record).__name__)}</th>"
            + "".join(f"<td>{escape(row.get(name, ''))}</td>" for name in columns)
            + "</tr>"
            for record, row in zip(self[:SHOWN], rows, strict=True)
        )
        return f"<table><caption>{escape(repr(self))}</caption><tr>{head}</tr>{''.join(cells)}</table>"


class Capture(View[Record]):
    """All records of one or more captures."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, Record, np.arange(len(store)))

    def find(self, reference: str) -> Record | None:
        """Return the record to which an entry of `Finding.refs` refers, or None."""
        number = self._store.find(reference)
        return None if number is None else self[number]
