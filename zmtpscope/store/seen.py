"""Find the values of a field that occur in records, as suggestions for filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from zmtpscope.dissect import Options
from zmtpscope.dissect.records.columns import Booleans, Column, Integers, Words
from zmtpscope.dissect.records.message_columns import JSON_INSIDE, TEXT_INSIDE
from zmtpscope.filter.fields import FilterField
from zmtpscope.payloads.dissectors import JSON, TEXT
from zmtpscope.store.chunk import KINDS, Chunk
from zmtpscope.store.columns import StoredRows, stored_columns
from zmtpscope.store.rows import PackedRows

MAX_CHUNKS = 32
"""Chunks to examine, spread over all."""

MAX_VALUES = 1000
"""Different values to count."""


def values_seen(
    field: FilterField,
    chunks: Sequence[Chunk],
    files: list[str | None],
    options: Options,
    read: Callable[[int, int], bytes],
) -> list[Any]:
    """Return values of a field that occur in records, most frequent first.

    Of many records a sample is examined. Fields that are not stored in columns have no values. `read` returns the
    octets at a spool offset and size.
    """
    counts: Counter[Any] = Counter()
    for place in np.unique(np.linspace(0, len(chunks) - 1, MAX_CHUNKS).astype(int)).tolist() if chunks else []:
        chunk = chunks[place]
        for kind in chunk.tables:
            if KINDS[kind] not in field.records:
                continue
            columns = stored_columns(chunk, kind, files, options, read)
            if field.name == "payload.protocol" and isinstance(columns, StoredRows):
                _count_protocols(columns.table, counts)
            for name in field.reads:
                if name in columns.derive:
                    _count(columns[name], field.member, counts)
        if len(counts) > MAX_VALUES:
            break
    return [value for value, _ in counts.most_common(MAX_VALUES)]


def _count(column: Column, member: str | None, counts: Counter[Any]) -> None:
    if isinstance(column, Words):
        of_words = np.bincount(column.codes, minlength=len(column.words)).tolist()
        for word, count in zip(list[Any](column.words), of_words, strict=True):
            for each in word if isinstance(word, list) else (word,):
                value: Any = each.get(member) if isinstance(each, Mapping) else each
                if count and isinstance(value, str | int | bytes):
                    counts[value] += count
    elif isinstance(column, Integers | Booleans):
        known = getattr(column, "known", None)
        values, times = np.unique(column.values if known is None else column.values[known], return_counts=True)
        for value, count in zip(values[:MAX_VALUES].tolist(), times.tolist(), strict=False):
            counts[value] += count


def _count_protocols(table: PackedRows, counts: Counter[Any]) -> None:
    inside = table.rows["inside"].all() if "inside" in table.rows else np.empty(0)
    for kind, protocol in ((TEXT_INSIDE, TEXT), (JSON_INSIDE, JSON.name)):
        if count := int((inside == kind).sum()):
            counts[protocol] += count
    if table.payloads is not None and len(table.payloads.places):
        protocols = table.payloads.protocols
        _count(Words(protocols.words, protocols.codes.all()), None, counts)
