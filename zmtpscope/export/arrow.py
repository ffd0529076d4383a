"""Records as Arrow tables. Only this module and `parquet` import pyarrow.

Arrays are built from buffers, because `pyarrow.array` and `pyarrow.scalar` would import pandas if it is installed: 0.3
s and 60 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.records.batch import order_of_record
from zmtpscope.dissect.records.columns import Bool, Booleans, Column, Int64, Integers, Lists, Octets, Texts, Words
from zmtpscope.dissect.records.message_columns import JSON_INSIDE, OTHER_INSIDE, TEXT_INSIDE, MessageColumns, Payloads
from zmtpscope.dissect.records.row_columns import FrameRowColumns, RowColumns, file_name
from zmtpscope.export.types import translate
from zmtpscope.export.values import as_base64, shown_fields
from zmtpscope.payloads.dissectors import JSON, TEXT
from zmtpscope.payloads.values import LONGEST_SUMMARY, Json
from zmtpscope.record_fields import COMMON
from zmtpscope.records import RECORDS, to_text

Mask = NDArray[np.bool_]


def column_array(values: NDArray[Any], mask: Mask | None = None) -> pa.Array:
    """Convert a column of integers or booleans, with null where `mask` is true. Integers are not copied."""
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(mask), _bits(values)])
    octets = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [_validity(mask), octets])


def value_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Convert a list of int64, booleans, text, octets, or lists and structs of these; None becomes null.

    Raises `OverflowError` for larger integers, `UnicodeEncodeError` for text that cannot be encoded.
    """
    missing = np.array([value is None for value in values], np.bool_) if None in values else None
    if pa.types.is_struct(type_):
        members = [value_array([value and value[member.name] for value in values], member.type) for member in type_]
        return pa.Array.from_buffers(type_, len(values), [_validity(missing)], children=members)
    if missing is not None:
        nothing = NOTHING.get(type_, ())
        values = [nothing if value is None else value for value in values]
    if type_ in NUMBERS:
        return column_array(np.array(values, NUMBERS[type_]), missing)
    if pa.types.is_list(type_):
        inside = value_array(list(chain.from_iterable(values)), type_.value_type)
        buffers = [_validity(missing), _ends(map(len, values), len(values), np.int32)]
        return pa.Array.from_buffers(type_, len(values), buffers, children=[inside])
    if type_ == pa.string():
        octets, sizes = _texts(values)
        ends = _ends(sizes, len(values), np.int32)
    else:
        octets, ends = b"".join(values), _ends(map(len, values), len(values), np.int64)
    return pa.Array.from_buffers(type_, len(values), [_validity(missing), ends, pa.py_buffer(octets)])


NUMBERS: dict[pa.DataType, type[np.generic]] = {pa.int64(): np.int64, pa.bool_(): np.bool_}

NOTHING: dict[pa.DataType, Any] = {pa.int64(): 0, pa.bool_(): False, pa.string(): "", pa.large_binary(): b""}
"""Values that stand for null."""


def _texts(values: Sequence[str]) -> tuple[bytes, Iterable[int]]:
    joined = "".join(values)
    if joined.isascii():
        return joined.encode(), map(len, values)
    encoded = [value.encode() for value in values]
    return b"".join(encoded), map(len, encoded)


def _ends(sizes: Iterable[int], count: int, type_: type[np.generic]) -> pa.Buffer:
    ends = np.zeros(count + 1, type_)
    np.cumsum(np.fromiter(sizes, np.int64, count), out=ends[1:])
    return pa.py_buffer(ends)


def _validity(mask: Mask | None) -> pa.Buffer | None:
    """Return a bitmap of the rows that are not null; None if no row is null."""
    return None if mask is None else _bits(~mask)


def _bits(values: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


WORD = pa.dictionary(pa.int32(), pa.string())
"""Text with few different values in a block, as indexes, which are faster. Files contain plain text."""

_OF_ALL_ROWS = frozenset({"record", "conn_id", "file", "src_ip", "dst_ip"})
WORDS = {
    "message": _OF_ALL_ROWS | {"bodies_kept", "version", "socket_type", "peer_socket_type", "kind", "confidence"},
    "frame": _OF_ALL_ROWS,
}
"""Types of the columns of words, by record types that are rows."""

PAYLOAD = pa.struct([("protocol", pa.string()), ("summary", pa.string()), ("fields", pa.string())])


def arrow_array(column: Column) -> pa.Array:
    return ARRAYS[type(column)](column)


def integers(column: Integers) -> pa.Array:
    return column_array(column.values, _mask(column.known))


def booleans(column: Booleans) -> pa.Array:
    return column_array(column.values)


def words(column: Words) -> pa.Array:
    """Convert a column of texts with few distinct values to a dictionary array.

    The dictionary is in order of first occurrence, so the size of blocks does not change the file.
    """
    rows = len(column.codes)
    if len(set(column.words)) == 1:
        used, first = [0] if rows else [], np.zeros(1, np.int64)
    else:
        first = np.full(len(column.words), rows)
        first[column.codes[::-1]] = np.arange(rows - 1, -1, -1)  # the first row of a word is assigned last
        used = [code for code in first.argsort(kind="stable").tolist() if first[code] < rows]
    different: dict[str, int] = {}  # a dictionary has no value twice, and no null
    numbers = np.full(len(column.words), -1, np.int32)
    for code in used:
        word = column.words[code]
        if word is not None:
            numbers[code] = different.setdefault(word, len(different))
    same = len(used) == 1 or len(set(numbers[used].tolist())) == 1
    places = np.full(rows, numbers[used[0]], np.int32) if same else numbers[column.codes]
    mask = places < 0 if used and numbers[used].min() < 0 else None
    return pa.DictionaryArray.from_arrays(column_array(places, mask), value_array(list(different), pa.string()))


def octets(column: Octets) -> pa.Array:
    """Convert a column of octets to an array without copying values one by one.

    An array with a boundary at every start and end of a value has the values as every second element.
    """
    if not len(column.index):
        return value_array([], pa.large_binary())
    edges = np.empty(2 * len(column.starts), np.int64)
    edges[0::2] = column.starts
    edges[1::2] = column.starts + column.sizes
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(column.octets.whole)]
    slices = pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, buffers)
    return slices.take(column_array(2 * column.index, _mask(column.known)))


def texts(column: Texts) -> pa.Array:
    if column.octets.known is not None and not column.octets.known.any():
        return pa.nulls(len(column.octets.index), pa.string())
    return as_text(octets(column.octets))


def as_text(values: pa.Array) -> pa.Array:
    """Convert octets to text like `to_text`.

    Only values that contain a backslash or are not UTF-8 are copied.
    """
    try:
        made = values.cast(pa.string())
        if not pc.any(pc.match_substring(made, "\\")).as_py():
            return made
    except pa.ArrowInvalid:
        pass
    different = values.dictionary_encode()
    made = [None if value is None else to_text(value) for value in different.dictionary.to_pylist()]
    return value_array(made, pa.string()).take(different.indices)


def lists(column: Lists) -> pa.Array:
    edges = column_array(column.edges.astype(np.int32))
    mask = _mask(column.known)
    return pa.ListArray.from_arrays(edges, arrow_array(column.items), mask=None if mask is None else column_array(mask))


def payloads(column: Payloads) -> pa.Array:
    """Convert a column of payloads.

    Short texts of one frame are converted together, all others one by one.
    """
    inside, count = column.inside, len(column.inside)
    if not inside.any():
        return pa.nulls(count, PAYLOAD)
    is_text: Bool = inside == TEXT_INSIDE
    sizes = column.texts.sizes[column.texts.index]
    is_short = is_text & (sizes <= LONGEST_SUMMARY) & (column.counts == 1)
    short = np.flatnonzero(is_short)
    short_texts = octets(column.texts.of(short)).cast(pa.string())
    places = np.where(is_short, np.cumsum(is_short) - 1, -1)
    protocols, summaries, fields = {TEXT: 0}, list[str](), list[str | None]()
    protocol_of, content_of = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for made in (_other_texts(column, is_text & ~is_short), _json(column), _others(column)):
        behind = len(summaries)
        protocol_of[made.rows] = [protocols.setdefault(each, len(protocols)) for each in made.protocols]
        content_of[made.rows] = behind + 1 + np.arange(len(made.rows))
        summaries += made.summaries
        fields += made.fields
    has_content = content_of > 0
    places[has_content] = len(short_texts) + content_of[has_content] - 1
    is_missing = places < 0
    arrays = [
        value_array(list(protocols), pa.string()).take(column_array(protocol_of, is_missing)),
        pa.concat_arrays([short_texts, value_array(summaries, pa.string())]).take(column_array(places, is_missing)),
        value_array([None, *fields], pa.string()).take(column_array(content_of)),
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(PAYLOAD), mask=column_array(is_missing))


class _Contents(NamedTuple):
    """Payloads of some rows: protocols (one element if all are equal), summaries, and fields as JSON."""

    rows: Int64
    protocols: Sequence[str]
    summaries: Sequence[str]
    fields: Sequence[str | None]


def _other_texts(column: Payloads, texts: Bool) -> _Contents:
    rows = np.flatnonzero(texts)
    summaries = [column.text(row) for row in rows.tolist()]
    return _Contents(rows, [TEXT], summaries, [None] * len(summaries))


def _json(column: Payloads) -> _Contents:
    rows = np.flatnonzero(column.inside == JSON_INSIDE)
    if not len(rows):
        return _Contents(rows, [JSON.name], [], [])
    from zmtpscope.payloads.json import summary_and_fields

    summaries, fields = zip(
        *[summary_and_fields(octets or b"") for octets in column.texts.of(rows).tolist()], strict=True
    )
    return _Contents(rows, [JSON.name], summaries, fields)


def _others(column: Payloads) -> _Contents:
    listed = column.made.tolist() if (column.inside == OTHER_INSIDE).any() else ()
    made = {row: each for row, each in enumerate(listed) if each is not None and each.protocol}
    fields = [json_text(each.fields) for each in made.values()]
    protocols = [each.protocol for each in made.values()]
    return _Contents(np.array(list(made), np.int64), protocols, [each.summary for each in made.values()], fields)


def json_text(fields: Json) -> str | None:
    return None if fields is None else orjson.dumps(fields, default=as_base64).decode()


def _mask(known: Bool | None) -> Bool | None:
    return None if known is None or known.all() else ~known


ARRAYS: dict[type, Callable[[Any], pa.Array]] = {
    Integers: integers,
    Booleans: booleans,
    Words: words,
    Octets: octets,
    Texts: texts,
    Lists: lists,
    Payloads: payloads,
}


ARROW = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "octets": pa.large_binary(), "json": pa.string()}
"""Arrow types by field type. Spark reads no unsigned integers, no nanosecond times and no views."""


def arrow_type(type_: str) -> pa.DataType:
    return translate(type_, ARROW, pa.list_, lambda members: pa.struct(list(members.items())))


def arrow_schema(record: str, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of a record type that readers of a file see."""
    types = {field.name: field.type for field in RECORDS[record].fields}
    return pa.schema([(name, arrow_type(types[name])) for name in columns])


def held_schema(record: str, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of `arrow_batch`, in which columns of few distinct texts are dictionaries."""
    fields = arrow_schema(record, columns)
    words = WORDS.get(record, frozenset())
    return pa.schema([field.with_type(WORD) if field.name in words else field for field in fields])


def arrow_batch(batch: Batch, record: str, schema: pa.Schema, options: Options) -> pa.RecordBatch:
    """Convert the records of one type in a batch. `schema` is `held_schema` of the columns to convert."""
    if record in ROWS:
        columns = ROWS[record](batch, options)
        arrays = [arrow_array(columns[name]) for name in schema.names]
    else:
        arrays = record_arrays(sorted(batch.records, key=order_of_record), record, schema.names, options)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def record_arrays(records: Sequence[Record], type_: str, names: Sequence[str], options: Options) -> list[pa.Array]:
    """Convert records to arrays of the columns `names`.

    Fields that several records share are converted once.
    """
    numbers: dict[int, int] = {}
    places, different = list[int](), list[dict[str, Any]]()
    for record in records:
        number = numbers.setdefault(id(record.own), len(different))
        if number == len(different):
            different.append(shown_fields(record, options))
        places.append(number)
    common = [record.common for record in records]
    taken = column_array(np.array(places, np.int64)) if len(different) < len(records) else None

    def column(name: str, logical: str) -> pa.Array:
        if name == "file":
            return arrow_column([file_name(record.file) for record in records], logical)
        if name in COMMON_PLACES:
            return arrow_column([values[COMMON_PLACES[name]] for values in common], logical)
        made = arrow_column([own[name] for own in different], logical)
        return made if taken is None else made.take(taken)

    types = {field.name: field.type for field in RECORDS[type_].fields}
    return [column(name, types[name]) for name in names]


COMMON_PLACES = {field.name: place for place, field in enumerate(COMMON)}
"""Index of each field in `Record.common`."""

ROWS: dict[str, Callable[[Batch, Options], RowColumns[Any]]] = {
    "message": MessageColumns.of,
    "frame": lambda batch, _: FrameRowColumns.of(batch),
}


def arrow_column(values: list[Any], type_: str) -> pa.Array:
    """Convert the values of one field of type `type_` in records. The fields of a payload become JSON text."""
    if "json" in type_:  # only payloads contain JSON
        values = [payload and {**payload, "fields": json_text(payload["fields"])} for payload in values]
    return value_array(values, arrow_type(type_))
