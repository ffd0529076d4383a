"""Mappings that forget their oldest entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.dissect.tcp.recent import Recent

SIZE = 4
KEYS = st.integers(0, 9)


@given(st.lists(st.tuples(KEYS, st.integers())), st.data())
def test_entries_are_kept_however_many_are_set_at_once(entries: list[tuple[int, int]], data: st.DataObject) -> None:
    single, several = Recent[int, int](SIZE), Recent[int, int](SIZE)
    for entry in entries:
        single.update([entry])
    at = 0
    while at < len(entries):
        count = data.draw(st.integers(1, 2 * SIZE + 1))
        several.update(entries[at : at + count])
        at += count
    found = {key: single.get(key) for key in range(10)}
    assert {key: several.get(key) for key in range(10)} == found
    assert all(found[key] == dict(entries)[key] for key, _ in entries[-SIZE:])
    assert sum(value is not None for value in found.values()) <= 2 * SIZE


def test_removed_entries_are_gone() -> None:
    recent = Recent[str, int](2)
    recent.update([("a", 1), ("b", 2), ("c", 3), ("a", 4)])
    recent.remove(["a", "c", "other"])
    assert [recent.get(key) for key in "abc"] == [None, None, None]
    assert recent.is_disjoint("ac")
