"""Records as tables: Arrow, pandas, polars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from zmtpscope.api.record_classes import CLASSES, Message
from zmtpscope.api.rows import Record
from zmtpscope.dissect import Batch, Options
from zmtpscope.option_texts import nearest

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

R = TypeVar("R", bound=Record)


class Tabular(ABC, Generic[R]):
    """Base of results that can become tables. `record` is the class of their records, or `Record` for all classes."""

    def __init__(self, record: type[R], options: Options) -> None:
        self._record = record
        self._options = options

    @abstractmethod
    def _batches_of(self, record: type[Record]) -> Iterator[Batch]:
        """Return the batches with the records of a class."""

    def to_arrow(self, record: type[Record] | str | None = None) -> pyarrow.Table:
        """Return an Arrow table with the columns of `zmtpscope export --format parquet`.

        A table contains one class. If there are several, `record` selects one, as `zmtpscope.Finding` or "findings";
        the default is messages. Raises `ImportError` if pyarrow is not installed.
        """
        class_: type[Record] = Message if self._record is Record else self._record
        if record is not None:
            class_ = class_named(record) if isinstance(record, str) else record
        return table_of(self._batches_of(class_), class_, self._options)

    def to_pandas(self, record: type[Record] | str | None = None) -> pandas.DataFrame:
        return self.to_arrow(record).to_pandas()

    def to_polars(self, record: type[Record] | str | None = None) -> polars.DataFrame:
        import polars

        return cast(polars.DataFrame, polars.from_arrow(self.to_arrow(record)))


def class_named(name: str) -> type[Record]:
    """Find a record class by its type name or its table name ("finding", "findings"). Raises `ValueError`."""
    found = CLASSES.get(name) or CLASSES.get(name.removesuffix("s"))
    if found is None:
        raise ValueError(f"there are no records {name!r}{nearest(name, [f'{each}s' for each in CLASSES])}")
    return found


def table_of(batches: Iterable[Batch], record: type[Record], options: Options) -> pyarrow.Table:
    import pyarrow as pa

    from zmtpscope.export.arrow import arrow_batch, arrow_schema, held_schema

    name, columns = record.type.name, [field.name for field in record.type.fields]
    schema, held = arrow_schema(name, columns), held_schema(name, columns)
    parts = [
        pa.Table.from_batches([arrow_batch(batch, name, held, options)]).cast(schema)
        for batch in batches
        if batch.messages or batch.frames or batch.records
    ]
    return pa.concat_tables(parts) if parts else schema.empty_table()
