"""Packed topics of messages: the distinct texts and an index for each message, if there are few texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zmtpscope.dissect.records.columns import Octets
from zmtpscope.dissect.records.message_columns import NO_TOPIC
from zmtpscope.dissect.records.topic_words import FACTOR
from zmtpscope.store.packed import Int64, Packed, joined

TEXT_COST = 64
"""Memory in octets of a text, besides its contents."""

PER_ROW = 8
"""Maximum number of distinct texts per row. Above, only the size of each topic is kept."""

FEW = 1024
"""Octets of texts that are kept for any number of rows."""


class Topics:
    """The topic of message i is `texts[codes[i]]`, None without a topic.

    With too many texts `texts` is None, and `codes` are the sizes of topics in octets, or `NO_TOPIC`. The topic must
    then be read from the message.
    """

    __slots__ = ("codes", "texts")

    def __init__(self, texts: list[bytes | None] | None, codes: Packed) -> None:
        self.texts = texts
        self.codes = codes

    @classmethod
    def of(cls, octets: Octets, sizes: Int64) -> Topics:
        """Pack topics; `sizes` are in octets, or `NO_TOPIC`."""
        has = np.flatnonzero(sizes != NO_TOPIC)
        if not len(has):
            return cls([None], Packed(0, len(sizes), None))
        texts, codes = different(octets, has, sizes[has])
        if texts is None or _cost(texts) > max(FEW, PER_ROW * len(sizes)):
            return cls(None, Packed.of(sizes))
        if len(has) == len(sizes):
            return cls(list(texts), Packed.of(codes))
        of_rows = np.zeros(len(sizes), np.int64)
        of_rows[has] = codes + 1
        return cls([None, *texts], Packed.of(of_rows))

    def sizes(self, places: Int64 | slice) -> Int64:
        codes = self.codes.take(places)
        return codes if self.texts is None else self._sizes()[codes]

    def _sizes(self) -> Int64:
        assert self.texts is not None
        return np.array([NO_TOPIC if text is None else len(text) for text in self.texts], np.int64)

    @classmethod
    def joined(cls, parts: Sequence[Topics]) -> Topics:
        numbers: dict[bytes | None, int] = {}
        columns = []
        for part in parts:
            if part.texts is None:
                return cls(None, joined([Packed.of(each.sizes(slice(None))) for each in parts]))
            of_texts = np.array([numbers.setdefault(text, len(numbers)) for text in part.texts], np.int64)
            columns.append(of_texts[part.codes.all()])
        return cls(list(numbers), Packed.of(np.concatenate(columns)))

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + _cost([text for text in self.texts or () if text is not None])


def _cost(texts: Sequence[bytes]) -> int:
    return sum(map(len, texts)) + TEXT_COST * len(texts)


def different(octets: Octets, rows: Int64, sizes: Int64) -> tuple[list[bytes] | None, Int64]:
    """Return the distinct texts of `rows`, and for each row the index of its text.

    `sizes` are those of the texts in octets. The texts are None if hashes collide or the octets are not kept.
    """
    if len(octets.octets.pieces) == 0:
        return None, rows
    whole = np.frombuffer(octets.octets.whole, np.uint8)
    starts = octets.starts[octets.index[rows]]
    # a hash of each text; collisions are checked below
    marks = sizes.astype(np.uint64) + np.uint64(1)
    longest = int(sizes.max())
    for place in range(longest):
        longer = sizes > place
        if longer.all():
            marks = (marks ^ whole[starts + place]) * FACTOR
        else:
            marks[longer] = (marks[longer] ^ whole[starts[longer] + place]) * FACTOR
    _, first, codes = np.unique(marks, return_index=True, return_inverse=True)
    texts = [bytes(whole[start : start + size]) for start, size in zip(starts[first], sizes[first], strict=True)]
    begins = np.cumsum([0, *map(len, texts)])
    of_texts = np.frombuffer(b"".join(texts), np.uint8)
    if (sizes != sizes[first][codes]).any():
        return None, rows
    for place in range(longest):
        having = np.flatnonzero(sizes > place)
        if (of_texts[begins[codes[having]] + place] != whole[starts[having] + place]).any():
            return None, rows
    return texts, codes
