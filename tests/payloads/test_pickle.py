"""Pickles: the claims, and the imports and calls that Python's own unpickler would make; none is loaded."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import pathlib
import pickle
import pickletools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.payloads.reading import assert_tiled, claimed, dissected
from zmtpscope.payloads.api import Claim
from zmtpscope.payloads.limits import MAX_FIELDS
from zmtpscope.payloads.pickle import Pickle, is_dangerous
from zmtpscope.payloads.pickle_walk import Walk

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Point(collections.namedtuple("Point", "x y")):
    """A typical object in messages."""


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.fractions(),
    st.decimals(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.builds(Point, st.integers(), st.text(max_size=3)),
    st.just(pathlib.PurePosixPath("a/b")),
    st.just(collections.OrderedDict),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    HASHABLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(collections.deque),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.builds(Plain, inner),
        st.binary(max_size=5).map(bytearray),
        inner.map(lambda value: [value, value]),
    ),
    max_leaves=8,
)
PICKLES = st.builds(pickle.dumps, VALUES, st.sampled_from(PROTOCOLS))
CODES = st.sampled_from([each.code.encode("latin-1") for each in pickletools.opcodes])
PARTS = CODES | st.binary(max_size=4) | st.sampled_from([b"os\n", b"0\n", b"\x02os", b"'a'\n"])


def damaged(octets: bytes, at: int, new: bytes) -> bytes:
    """A pickle with something between its octets."""
    at %= len(octets)
    return octets[:at] + new + octets[at + len(new) // 2 :]


HOSTILE = st.one_of(
    st.lists(PARTS, max_size=20).map(lambda parts: b"\x80\x04" + b"".join(parts) + b"."),
    st.builds(damaged, PICKLES, st.integers(0), st.binary(max_size=4)),
    st.binary(max_size=30).map(lambda octets: octets + b"."),
)


class Recording(pickle._Unpickler):  # type: ignore[name-defined]  # the one that is written in Python
    """Python's own unpickler, which records the requested imports."""

    def __init__(self, octets: bytes) -> None:
        super().__init__(io.BytesIO(octets), fix_imports=False)
        self.found: dict[str, None] = {}

    def find_class(self, module: str, name: str) -> Any:
        self.found[f"{module}.{name}"] = None
        return super().find_class(module.replace("__builtin__", "builtins").replace("copy_reg", "copyreg"), name)


@given(octets=PICKLES)
def test_opcodes_match_pickletools(octets: bytes) -> None:
    walk = Walk(octets, MAX_FIELDS)
    walk.run()
    theirs = list(pickletools.genops(octets))
    assert [(step.name, step.start) for step in walk.steps] == [(opcode.name, at) for opcode, _, at in theirs]
    for step, (opcode, argument, _) in zip(walk.steps, theirs, strict=True):
        if argument is not None and opcode.name not in ("GLOBAL", "INST"):
            assert as_number_or_text(opcode.name, step.value) == argument


def as_number_or_text(name: str, value: Any) -> Any:
    """Convert an argument of pickletools: large numbers and text of Python 2 are octets in our form."""
    if not isinstance(value, bytes) or "BYTES" in name or "BYTEARRAY" in name:
        return value
    if "STRING" in name:
        return value.decode("latin-1")
    return int.from_bytes(value, "little", signed=True) if name in ("LONG1", "LONG4") else int(value.rstrip(b"L"))


@given(octets=PICKLES)
def test_imports_match_the_unpickler(octets: bytes) -> None:
    theirs = Recording(octets)
    theirs.load()
    made = dissected(Pickle, octets)
    assert made.fields["imports"] == list(theirs.found)
    if octets[0] == 0x80:
        assert made.fields["protocol"] == octets[1]
    imports = made.fields["imports"]
    wanted = "error" if any(map(is_dangerous, imports)) else "warn" if imports else "note"
    assert [(each.id, each.severity) for each in made.findings] == [("PICKLE-01", wanted)]


@given(value=VALUES, protocol=st.sampled_from(PROTOCOLS[2:]))
def test_all_with_a_header_are_claimed(value: Any, protocol: int) -> None:
    assert claimed(Pickle, pickle.dumps(value, protocol)) is Claim.YES


@pytest.mark.parametrize("protocol", [0, 1])
@pytest.mark.parametrize("value", [Plain([1]), Point(1, 2), datetime.date(2024, 1, 1), decimal.Decimal("1.5"), {1}])
def test_objects_without_a_header_are_claimed(value: Any, protocol: int) -> None:
    assert claimed(Pickle, pickle.dumps(value, protocol)) is Claim.YES


@pytest.mark.parametrize("protocol", [0, 1])
@pytest.mark.parametrize("value", [{}, [], {"a": 1}, [1, 2], ([], 1)])
def test_containers_without_a_header_fit(value: Any, protocol: int) -> None:
    assert claimed(Pickle, pickle.dumps(value, protocol)) is Claim.MAYBE


@given(octets=HOSTILE)
@example(octets=b"\x80\x04\x8d" + b"\xff" * 7 + b"\x0fa.")
@example(octets=b"\x80\x04.")
@example(octets=b"\x80\x04(0(.")
@example(octets=b"\x80\x04((1(\x93.")
@example(octets=b"S'\\x'\n.")
@example(octets=b"S'\\q'\n0c\n\nR.")
@example(octets=b"V\\ud800\n.")
def test_p5_p6_for_any_octets(octets: bytes) -> None:
    """No octets make it fail, and fields and findings do not depend on whether a tree is made."""
    quick, careful = dissected(Pickle, octets), dissected(Pickle, octets, trees=True)
    assert repr(quick.fields) == repr(careful.fields)
    assert (quick.summary, quick.findings) == (careful.summary, careful.findings)
    assert {each.id for each in quick.findings} <= {"PICKLE-01", "PAYLOAD-03"}
    assert_tiled(careful, octets)


@given(octets=PICKLES)
def test_the_tree_has_all_opcodes(octets: bytes) -> None:
    made = dissected(Pickle, octets, trees=True)
    leaves = assert_tiled(made, octets)
    assert len(leaves) == made.fields["opcodes"]
    values = [leaf.value for leaf in leaves if leaf.name in ("pickle.global", "pickle.stack_global")]
    assert list(dict.fromkeys(values)) == made.fields["imports"]


@given(st.text().map(str.encode) | st.binary())
@example(b"create\ntable\n.")
@example(b"(see below).")
@example(b"(1, 2).")
@example(b"\x80.")
@example(b"\x80\x04.")
@example(b"\x80\x06N.")
@example(b"\x80\x04N.x.")
@example(b"c.")
@example(b".")
@example(b"]).")
def test_other_traffic_is_not_claimed(octets: bytes) -> None:
    assert claimed(Pickle, octets) is Claim.NO


def test_buffers_beside_it() -> None:
    buffers: list[pickle.PickleBuffer] = []
    octets = pickle.dumps([pickle.PickleBuffer(b"abc" * 1000)], 5, buffer_callback=buffers.append)
    made = dissected(Pickle, octets, *[bytes(each) for each in buffers], b"note", trees=True)
    assert [each.get("protocol", each) for each in made.fields[:2]] == [5, {"octets": 3000}]
    assert made.fields[2] == "note"
    assert_tiled(made, octets, b"abc" * 1000, b"note")


@pytest.mark.parametrize("trees", [False, True])
def test_many_opcodes(trees: bool) -> None:
    octets = pickle.dumps(list(range(20000)))
    assert claimed(Pickle, octets) is Claim.YES
    made = dissected(Pickle, octets, trees=trees)
    found = [(each.id, each.severity) for each in made.findings]
    assert found == [("PICKLE-01", "warn"), ("PAYLOAD-02", None)]  # unread octets may import something
    assert made.fields["opcodes"] == MAX_FIELDS
    if trees:
        assert_tiled(made, octets)


def test_python_s_own_words() -> None:
    made = dissected(Pickle, pickle.dumps({"a": fractions.Fraction(1, 3), "b": [Point(1, "x")]}))
    assert made.fields["imports"] == ["fractions.Fraction", f"{__name__}.Point"]
    assert made.fields["strings"][0] == "a"
    assert made.summary == f"protocol 4: dict, imports fractions.Fraction, {__name__}.Point"
