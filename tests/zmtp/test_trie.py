"""A trie of counted names equals a counter that compares every name, with at most one step per octet."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zmtp.sides import MANY
from zmtpscope.zmtp.trie import NODE_COST, Trie

NAMES = st.text("ab", max_size=5).map(str.encode) | st.binary(max_size=3)
STEPS = st.lists(st.tuples(st.sampled_from([True, True, False]), NAMES), max_size=40)
"""Whether a name is added or removed, and which."""


def trie_of(names: list[bytes]) -> Trie:
    trie = Trie()
    for name in names:
        trie.add(name)
    return trie


@MANY
@given(steps=STEPS, asked=st.lists(NAMES, max_size=10))
def test_names_are_counted_and_found_by_prefix(steps: list[tuple[bool, bytes]], asked: list[bytes]) -> None:
    trie = Trie()
    model: Counter[bytes] = Counter()
    for adds, name in steps:
        if adds:
            trie.add(name)
            model[name] += 1
        elif model[name]:
            trie.remove(name)
            model[name] -= 1
        else:
            with pytest.raises(KeyError):
                trie.remove(name)
        names = {name for name, count in model.items() if count}
        for each in (*asked, name, name + b"a", name[:-1]):
            matching = [other for other in names if each.startswith(other)]
            assert trie.count(each) == model[each]
            assert trie.has_prefix_of(each) is bool(matching)
            assert trie.longest_prefix_of(each) == max(matching, key=len, default=None)
            assert trie.prefixes_of(each) == sorted(matching, key=len)
        assert sorted(trie) == sorted(names)
        assert trie.size == trie_of(sorted(names)).size <= sum(map(len, names)) + 2 * NODE_COST * len(names)


def test_removed_names_leave_nothing() -> None:
    for names in ([b"ab", b"ac"], [b"ab", b"a"], [b"ab", b"abc"], [b"ab", b""]):
        trie = trie_of(names)
        trie.remove(names[1])
        assert trie.size == trie_of([b"ab"]).size


class Walked(bytes):
    """A name that counts how often a label is looked for in it."""

    steps = 0

    def startswith(self, *arguments: object) -> bool:  # type: ignore[override]
        self.steps += 1
        return super().startswith(*arguments)  # type: ignore[arg-type]


def test_steps_do_not_grow_with_the_number_of_names() -> None:
    """Nor with the number of different lengths: 20,000 names, and 1,439 lengths of names that do not match."""
    drawn = random.Random(1)
    crowded = trie_of([drawn.randbytes(8) for _ in range(20_000)])
    lengths = trie_of([b"a" * size + b"!" for size in range(1439)])
    for trie, name, most in ((crowded, drawn.randbytes(8), 3), (lengths, b"a" * 20 + b"b" * 2000, 21)):
        for find in (trie.has_prefix_of, trie.longest_prefix_of, trie.prefixes_of):
            walked = Walked(name)
            assert not find(walked)
            assert walked.steps <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        [b"%06x" % number for number in range(20_000)],
        [format(number, "016b").encode() for number in range(20_000)],
        [b"a" * size for size in range(1, 1400)],
        [random.Random(number // 6).randbytes(8) + b"%d" % (number % 6) for number in range(20_000)],
    ],
    ids=["short", "two ways at each octet", "each begins the next", "few ways at most nodes"],
)
def test_the_size_is_that_of_the_memory(names: list[bytes]) -> None:
    """The trie uses at most 1.25 times as much."""
    tracemalloc.start()
    try:
        trie = trie_of(names)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used <= 1.25 * trie.size
    assert trie.size <= sum(map(len, names)) + 2 * NODE_COST * len(names)


def test_removed_names_take_no_memory() -> None:
    """Dictionaries do not get smaller by themselves: each of these had 256 entries, and keeps two."""
    tracemalloc.start()
    try:
        trie = Trie()
        for first in range(100):
            names = [bytes((first, second)) for second in range(256)]
            for name in names:
                trie.add(name)
            for name in names[2:]:
                trie.remove(name)
        assert tracemalloc.get_traced_memory()[0] <= 1.5 * trie.size
    finally:
        tracemalloc.stop()
