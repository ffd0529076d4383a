"""Protocol Buffers: with a schema the fields equal those of Google's package; without one no octets raise an
exception."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.payloads.reading import ABOUT, assert_tiled, claimed, dissected, registry_of, values
from tests.strategies import damaged
from zmtpscope.payloads.api import Claim, Message, Settings
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.limits import DEEPEST, MAX_FIELDS
from zmtpscope.payloads.protobuf import Protobuf
from zmtpscope.payloads.protobuf_schema import Schema, read_schema
from zmtpscope.payloads.protobuf_wire import GROUP, LENGTH, VARINT, wire_fields
from zmtpscope.payloads.side import Named, SidePayloads
from zmtpscope.payloads.text import Text
from zmtpscope.payloads.values import plain, shown
from zmtpscope.records import to_text

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
from google.protobuf import descriptor_pool, message, message_factory, unknown_fields  # noqa: E402

Drawn = TypeVar("Drawn")

SHOP = (pathlib.Path(__file__).parent / "shop.desc").read_bytes()


POOL = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(SHOP).file:
    POOL.Add(_file)


def shop_class(name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


ORDER, NUMBERS = shop_class("acme.Order"), shop_class("acme.Numbers")


def shop(name: str | None = "acme.Order") -> Settings:
    return Settings(name, {"shop.desc": SHOP})


def made_of(body: bytes, settings: Settings, trees: bool = True) -> Dissected:
    """Dissect a message; check P5, and that nothing fails."""
    made = dissected(Protobuf, body, settings=settings, trees=trees)
    assert {finding.id for finding in made.findings} <= {"PAYLOAD-02", "PAYLOAD-03", "PAYLOAD-05"}
    if trees:
        assert_tiled(made, body)
        without = dissected(Protobuf, body, settings=settings)
        assert (repr(without.fields), without.summary) == (repr(made.fields), made.summary)
    return made


# -- the wire ----------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def field(number: int, wire_type: int, value: bytes) -> bytes:
    return varint(number << 3 | wire_type) + value


def nested(number: int, value: bytes) -> bytes:
    return field(number, LENGTH, varint(len(value)) + value)


def group(number: int, value: bytes) -> bytes:
    return field(number, GROUP, value) + varint(number << 3 | 4)


NUMBER = st.integers(1, 5) | st.integers(1, 2**29 - 1)
VALUE = st.integers(0, 300) | st.integers(0, 2**64 - 1)
LEAF = st.one_of(
    st.builds(lambda number, value: field(number, VARINT, varint(value)), NUMBER, VALUE),
    st.builds(lambda number, value: field(number, 1, value), NUMBER, st.binary(min_size=8, max_size=8)),
    st.builds(lambda number, value: field(number, 5, value), NUMBER, st.binary(min_size=4, max_size=4)),
    st.builds(nested, NUMBER, st.binary(max_size=20) | st.text(max_size=20).map(str.encode)),
)
WIRE: st.SearchStrategy[bytes] = st.deferred(lambda: st.lists(FIELD, max_size=3).map(b"".join))
FIELD = st.one_of(LEAF, LEAF, LEAF, st.builds(nested, NUMBER, WIRE), st.builds(group, NUMBER, WIRE))


@given(body=WIRE)
def test_fields_are_found(body: bytes) -> None:
    found = wire_fields(body, 0, len(body))
    assert found.problem is None
    assert [each.start for each in found.fields][:1] == [0][: len(body)]
    ends = [each.stop for each in found.fields]
    assert ends[:-1] == [each.start for each in found.fields][1:]
    assert ends[-1:] == [len(body)][: len(ends)]


@given(body=WIRE | WIRE.flatmap(damaged))
def test_fields_match_the_oracle(body: bytes) -> None:
    """We read the fields that Google's package keeps as unknown, and reject the octets that it rejects."""
    empty = shop_class("acme.Empty")()
    ours = wire_fields(body, 0, len(body))
    try:
        empty.ParseFromString(body)
    except message.DecodeError:
        assert ours.problem is not None
        return
    theirs = [(each.field_number, each.wire_type) for each in unknown_fields.UnknownFieldSet(empty)]
    # the specification forbids field 0, which the package keeps; inside of groups it is not visible
    if (0, 0) not in theirs and ours.problem != "field number 0 is not valid":
        assert [(each.number, each.wire_type) for each in ours.fields] == theirs


@given(body=WIRE.flatmap(damaged) | st.binary(max_size=100))
@example(body=b"\x0b" * 500)
@example(body=b"\x0b" * 50 + b"\x0c" * 50)
@example(body=b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
@example(body=b"\x08" + b"\xff" * 9 + b"\x02")
@example(body=b"\x08" + b"\xff" * 12)
@example(body=b"\x80\x80\x80\x80\x80\x01\x00")
@example(body=b"\x07\x0e\x0f")
@example(body=b"\x0b\x08\x01\x14\x0c")
def test_anything_is_survived(body: bytes) -> None:
    Protobuf(Settings()).claim(Message((body,), 0, None), ABOUT)
    for settings in Settings(), shop():
        made_of(body, settings)


def test_values_without_names() -> None:
    body = (
        field(1, VARINT, varint(150))
        + nested(2, "grüß".encode())
        + nested(3, field(1, VARINT, b"\5") + nested(2, b"in"))
        + nested(4, b"\xff\0")
        + nested(5, b"")
        + field(6, 1, (7).to_bytes(8, "little"))
        + field(7, 5, (8).to_bytes(4, "little"))
        + nested(8, b"two\nlines")
        + group(9, nested(1, b"a"))
        + nested(2, b"again")
    )
    made = made_of(body, Settings())
    assert made.fields == {
        "1": 150,
        "2": ["grüß", "again"],
        "3": {"1": 5, "2": "in"},
        "4": b"\xff\0",
        "5": "",
        "6": 7,
        "7": 8,
        "8": "two\nlines",
        "9": {"1": "a"},
    }
    assert made.summary == "1=150 2=[2] 3={2} 4=2 octets 5= 6=7 7=8 8=two\nlines 9={1}"
    assert values(made.nodes[0]) == [
        ("1", 150),
        ("2", "grüß"),
        ("tag", b"\x1a\6"),
        ("1", 5),
        ("2", "in"),
        ("4", b"\xff\0"),
        ("5", ""),
        ("6", 7),
        ("7", 8),
        ("8", "two\nlines"),
        ("tag", b"\x4b"),
        ("1", "a"),
        ("end", b"\x4c"),
        ("2", "again"),
    ]


def test_fields_before_a_mistake_are_kept() -> None:
    made = made_of(field(1, VARINT, b"\5") + b"\x12\x09abc", Settings())
    assert made.fields == {"1": 5}
    assert made.summary == "malformed at octet 2 of frame 0: field 2 needs 9 octets, but only 3 remain"
    assert [(finding.id, finding.start) for finding in made.findings] == [("PAYLOAD-03", 2)]


def test_a_deep_message_ends() -> None:
    body = b"\x08\x01"
    for _ in range(3 * DEEPEST):
        body = nested(1, body)
    made = made_of(body, Settings())
    assert [finding.id for finding in made.findings] == ["PAYLOAD-05"]


@pytest.mark.parametrize(
    "body",
    [
        field(1, VARINT, b"\5") * (MAX_FIELDS + 5),
        group(1, field(1, VARINT, b"\5") * (MAX_FIELDS + 5)),
        nested(4, bytes(MAX_FIELDS + 5)),
        group(1, b"") * (MAX_FIELDS + 5),
        b"\x0b" * 3 * MAX_FIELDS,
    ],
)
def test_a_long_message_ends(body: bytes) -> None:
    settings = shop() if body[0] == 0x22 else Settings()
    made = made_of(body, settings, trees=False)
    assert {finding.id for finding in made.findings} <= {"PAYLOAD-02", "PAYLOAD-05"}
    assert made.findings


# -- who is asked ------------------------------------------------------------------------------------------------------


def test_claims() -> None:
    assert claimed(Protobuf, field(1, VARINT, b"\5")) is Claim.MAYBE
    for body in b"", b"8a", b"some text", b"\n!" + b"a" * 33, field(2000, VARINT, b"\5"), b"\x08\x05\x00", b"\x0b":
        assert claimed(Protobuf, body) is Claim.NO


@pytest.mark.parametrize(
    ("only", "named", "protocol"),
    [(None, [], None), ("protobuf", [], "protobuf"), (None, [Named("protobuf")], "protobuf")],
)
def test_protobuf_is_used_if_it_is_named(only: str | None, named: list[Named], protocol: str | None) -> None:
    registry = registry_of(Protobuf, Text, only=only)
    made = SidePayloads(registry, named, trees=False, judging=False).dissect(
        Message((field(1, VARINT, b"\5"),), 0, None), ABOUT, [0]
    )
    assert (made and made.protocol) == protocol


# -- with names --------------------------------------------------------------------------------------------------------


def expected(message: Any) -> dict[str, Any]:
    """Return the fields of one of Google's messages in our form."""
    fields = {}
    for declared, value in message.ListFields():
        if declared.message_type is not None and declared.message_type.GetOptions().map_entry:
            of = declared.message_type.fields_by_name["value"]
            fields[declared.name] = {_key(key): _expected(of, each) for key, each in value.items()}
        elif declared.is_repeated:
            fields[declared.name] = [_expected(declared, each) for each in value]
        else:
            fields[declared.name] = _expected(declared, value)
    return fields


def _key(key: str | int | bool) -> str:
    return to_text(key.encode()) if isinstance(key, str) else str(key).lower()


def _expected(declared: Any, value: Any) -> Any:
    if declared.message_type is not None:
        return expected(value)
    if declared.enum_type is not None:
        word = declared.enum_type.values_by_number.get(value)
        return value if word is None else word.name
    return to_text(value.encode()) if isinstance(value, str) else plain(value)


INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
HIDDEN = {"tag", "end", "key"}
"""Leaves that are no fields; tests draw none of these words."""

WORDS = st.text(max_size=10).filter(lambda word: word not in HIDDEN)
KINDS = st.sampled_from([0, 1, -1])


@st.composite
def numbers(draw: Callable[[st.SearchStrategy[Drawn]], Drawn]) -> Any:
    strategies = {
        "a_double": st.floats(),
        "a_float": st.floats(width=32),
        "an_int64": INT64,
        "a_uint64": UINT64,
        "an_int32": INT32,
        "a_fixed64": UINT64,
        "a_fixed32": UINT32,
        "a_bool": st.booleans(),
        "a_string": WORDS,
        "some_bytes": st.binary(max_size=10),
        "a_uint32": UINT32,
        "a_kind": KINDS,
        "an_sfixed32": INT32,
        "an_sfixed64": INT64,
        "an_sint32": INT32,
        "an_sint64": INT64,
    }
    chosen = draw(st.lists(st.sampled_from(sorted(strategies)), unique=True))
    return NUMBERS(**{name: draw(strategies[name]) for name in chosen})


@st.composite
def orders(draw: Callable[[st.SearchStrategy[Drawn]], Drawn]) -> Any:
    items = st.lists(st.builds(ORDER.Item, name=WORDS, count=UINT32), max_size=3)
    strategies = {
        "state": st.sampled_from([0, 2]),
        "items": items,
        "unpacked": st.lists(INT32, max_size=3),
        "packed": st.lists(INT32, max_size=5),
        "prices": st.lists(st.floats(), max_size=5),
        "kinds": st.lists(KINDS, max_size=5),
        "words": st.lists(WORDS, max_size=3),
        "stock": st.dictionaries(WORDS, INT64, max_size=3),
        "by_truth": st.dictionaries(st.booleans(), KINDS),
        "numbers": numbers(),
        "one": WORDS,
        "other": st.binary(max_size=5),
        "time": st.just({"seconds": 5}),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(strategies)), unique=True))
    order = ORDER(**{name: draw(strategies[name]) for name in chosen})
    for number, item in draw(st.dictionaries(INT32, items, max_size=2)).items():
        order.by_number[number].MergeFrom(item[0] if item else ORDER.Item())
    for text in draw(st.lists(WORDS, max_size=2)):
        order.line.add(text=text)
    if draw(st.booleans()):
        order.parent.CopyFrom(ORDER(words=["inside"], packed=[1]))
    return order


@given(order=orders())
def test_with_names_it_matches_the_oracle(order: Any) -> None:
    made = made_of(order.SerializeToString(), shop())
    assert repr(_sorted(made.fields or {})) == repr(_sorted(expected(order)))
    assert made.findings == []
    assert made.summary.startswith("acme.Order")


def _sorted(value: Any) -> Any:
    """Sort the names of objects, which senders may write in any order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


@given(order=orders())
def test_p6_the_tree_equals_the_fields(order: Any) -> None:
    body = order.SerializeToString()
    for settings in Settings(), shop():
        made = dissected(Protobuf, body, settings=settings, trees=True)
        shown_values = [(name, value) for name, value in values(made.nodes[0]) if name not in HIDDEN]
        assert sorted(map(repr, shown_values)) == sorted(map(repr, _flattened("", made.fields or {})))


def _flattened(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of all fields that are neither object nor array."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flattened(key, each)
    elif isinstance(value, list):
        for each in value:
            yield from _flattened(name, each)
    else:
        yield name, shown(value)


@given(order=orders(), data=st.data())
def test_damaged_messages_with_names(order: Any, data: st.DataObject) -> None:
    made_of(data.draw(damaged(order.SerializeToString())), shop())


def test_undeclared_fields_keep_their_number() -> None:
    body = nested(99, b"new") + field(1, 5, bytes(4)) + field(1, VARINT, b"\2") + field(1, VARINT, b"\7")
    assert made_of(body, shop()).fields == {"99": "new", "1": [0], "state": 7}


def test_packed_and_unpacked_numbers_are_one_array() -> None:
    body = field(3, VARINT, b"\2") + nested(3, b"\4\1") + nested(4, b"") + field(4, VARINT, b"\2")
    made = made_of(body, shop())
    assert made.fields == {"unpacked": [1, 2, -1], "packed": [1]}
    assert values(made.nodes[0])[1:3] == [("tag", b"\x1a\2"), ("unpacked", 2)]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (nested(8, b""), {"stock": {"": 0}}),
        (nested(9, b""), {"by_number": {"0": {}}}),
        (nested(10, b""), {"by_truth": {"false": "UNKNOWN"}}),
        (nested(8, field(2, VARINT, b"\5") + nested(1, b"a") + field(3, VARINT, b"\1")), {"stock": {"a": 5}}),
        (nested(8, nested(1, b"a")) + nested(8, nested(1, b"b")), {"stock": {"a": 0, "b": 0}}),
    ],
)
def test_entries_of_maps(body: bytes, fields: dict[str, Any]) -> None:
    assert made_of(body, shop()).fields == fields


@pytest.mark.parametrize("body", [nested(5, bytes(9)), nested(4, b"\xff"), nested(8, b"\x0a\x05a"), nested(2, b"\x0c")])
def test_mistakes_inside_of_what_was_declared(body: bytes) -> None:
    assert [finding.id for finding in made_of(body, shop()).findings] == ["PAYLOAD-03"]


@pytest.mark.parametrize(
    ("settings", "shown_values"),
    [
        (Settings("acme.Order"), "no descriptor set: add one with --payload-file protobuf=FILE"),
        (shop("acme.Oder"), "has no message acme.Oder; it has acme.Empty, acme.Numbers, acme.Order, "),
        (Settings("acme.Order", {"a.desc": b"nonsense"}), "a.desc is not a descriptor set: "),
        (Settings("acme.Order", {"a.desc": b""}), "a.desc is not a descriptor set: it declares no message"),
    ],
)
def test_a_name_that_cannot_be_found(settings: Settings, shown_values: str) -> None:
    made = dissected(Protobuf, b"\x08\x01", settings=settings)
    assert shown_values in made.summary
    assert [finding.id for finding in made.findings] == ["PAYLOAD-03"]


def test_a_leading_dot_and_several_files() -> None:
    other = descriptor_pb2.FileDescriptorSet()
    other.file.add(name="x.proto").message_type.add(name="Alone").field.add(name="a", number=1, type=5, label=1)
    settings = Settings(".Alone", {"shop.desc": SHOP, "x.desc": other.SerializeToString()})
    assert made_of(b"\x08\x01", settings).fields == {"a": 1}


@pytest.mark.parametrize("names", [["a", "a"], ["1"], [""]])
def test_fields_without_a_name_of_their_own(names: list[str]) -> None:
    descriptors = descriptor_pb2.FileDescriptorSet()
    message = descriptors.file.add(name="x.proto").message_type.add(name="M")
    for number, name in enumerate(names, 1):
        message.field.add(name=name, number=number, type=5, label=3)
    made = dissected(Protobuf, b"\x08\x01", settings=Settings("M", {"x": descriptors.SerializeToString()}))
    assert "has no name of its own" in made.summary


def test_the_descriptor_set_is_read_as_the_oracle_reads_it() -> None:
    schema = read_schema(SHOP)
    assert isinstance(schema, Schema)
    for name in schema.messages:
        descriptor = shop_class(name).DESCRIPTOR if not schema.messages[name].is_map_entry else None
        if descriptor is not None:
            theirs = {each.number: (each.name, each.type, each.is_repeated) for each in descriptor.fields}
            ours = {
                number: (each.name, each.type, each.repeated) for number, each in schema.messages[name].fields.items()
            }
            assert ours == theirs
    assert schema.enums == {
        "acme.Kind": {0: "UNKNOWN", 1: "BOOK", -1: "REFUND"},
        "acme.Order.State": {0: "OPEN", 2: "PAID"},
    }


@given(descriptor_set=damaged(SHOP), body=orders().map(lambda order: order.SerializeToString()))
def test_damaged_descriptor_sets(descriptor_set: bytes, body: bytes) -> None:
    made_of(body, Settings("acme.Order", {"shop.desc": descriptor_set}))
