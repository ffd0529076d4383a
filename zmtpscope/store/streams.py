"""Packed connections, flows and sides of the rows of a chunk."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.row_columns import STREAM_NUMBERS
from zmtpscope.store.packed import Columns, Optional, Packed

WORDS = ("src_ip", "dst_ip")


@dataclass(slots=True)
class Words(Columns):
    """A column with few different values: the values, and for each row the index of its value."""

    words: list[Any]
    codes: Packed

    @classmethod
    def of(cls, values: Iterable[Hashable]) -> Words:
        numbers: dict[Hashable, int] = {}
        codes = [numbers.setdefault(value, len(numbers)) for value in values]
        return cls(list(numbers), Packed.of(np.array(codes, np.int64)))

    def __getitem__(self, place: int) -> Any:
        return self.words[self.codes[place]]

    @classmethod
    def joined(cls, parts: Sequence[Words], **_: Sequence[int]) -> Words:
        numbers: dict[Hashable, int] = {}
        codes = []
        for part in parts:
            of_words = np.array([numbers.setdefault(word, len(numbers)) for word in part.words], np.int64)
            codes.append(of_words[part.codes.all()] if len(of_words) else part.codes.all())
        return cls(list(numbers), Packed.of(np.concatenate(codes)))


@dataclass(slots=True)
class Streams(Columns):
    """`Stream`s as packed columns; `ids` are the values of `conn_id` as numbers."""

    numbers: dict[str, Optional]
    ids: Optional
    words: dict[str, Words]

    @classmethod
    def of(cls, streams: Sequence[Stream]) -> Streams:
        ids = [None if each.conn_id is None else _signed(each.conn_id) for each in streams]
        return cls(
            {name: Optional.of([getattr(each, name) for each in streams]) for name in STREAM_NUMBERS},
            Optional.of(ids),
            {name: Words.of(getattr(each, name) for each in streams) for name in WORDS},
        )

    def __getitem__(self, code: int) -> Stream:
        values: dict[str, Any] = {name: column[code] for name, column in self.numbers.items()}
        values |= {name: column[code] for name, column in self.words.items()}
        number = self.ids[code]
        values["conn_id"] = None if number is None else f"{number & (1 << 64) - 1:016x}"
        return Stream(**values)

    def column(self, name: str) -> list[Any]:
        """Return one field of each stream."""
        if name in self.numbers:
            return self.numbers[name].tolist(slice(None))
        if name in self.words:
            return [self.words[name][place] for place in range(len(self.ids))]
        return [self[place].conn_id for place in range(len(self.ids))]


def _signed(conn_id: str) -> int:
    return int.from_bytes(bytes.fromhex(conn_id), signed=True)
