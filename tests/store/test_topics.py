"""Different topics are distinguished, and counted as one only if they are equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.dissect.records.columns import JoinedOctets, Octets
from zmtpscope.dissect.records.message_columns import NO_TOPIC
from zmtpscope.store import topics as module
from zmtpscope.store.packed import Packed
from zmtpscope.store.topics import Topics


def octets_of(texts: list[bytes | None]) -> tuple[Octets, np.ndarray]:  # type: ignore[type-arg]
    held = [text or b"" for text in texts]
    sizes = np.array([NO_TOPIC if text is None else len(text) for text in texts], np.int64)
    lengths = np.array([len(text) for text in held], np.int64)
    known = np.array([text is not None for text in texts], np.bool_)
    starts = np.cumsum(lengths) - lengths
    return Octets(JoinedOctets([b"".join(held) + b"end"]), starts, lengths, np.arange(len(texts)), known), sizes


some_topics = st.lists(st.none() | st.binary(max_size=3) | st.sampled_from([b"prices", b"prices.a"]), min_size=1)


@given(some_topics, some_topics)
def test_rows_have_the_topics_that_they_had(first: list[bytes | None], second: list[bytes | None]) -> None:
    parts = []
    for texts in (first, second):
        found = Topics.of(*octets_of(texts))
        parts.append(found)
        if found.texts is not None:
            assert [found.texts[code] for code in found.codes.all()] == texts
    sizes = [NO_TOPIC if text is None else len(text) for text in first + second]
    assert Topics.joined(parts).sizes(slice(None)).tolist() == sizes


def test_topics_that_share_a_mark_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FACTOR", np.uint64(0))
    found = Topics.of(*octets_of([b"ab", b"cd"] * 100))
    assert found.texts is None
    assert found.sizes(np.array([0, 1])).tolist() == [2, 2]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_are_what_they_were(values: list[int]) -> None:
    packed = Packed.of(np.array(values, np.int64))
    assert packed.all().tolist() == values
    assert packed.take(np.arange(len(values))).tolist() == values
    assert [packed[place] for place in range(len(values))] == values
    span = max(values) - min(values)
    width = next(width for width in (0, 1, 2, 4, 8) if span < 1 << 8 * width)
    assert packed.nbytes == len(values) * width
