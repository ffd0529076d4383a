"""JSON: claims and fields are correct, and the fast path and the careful path agree."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.payloads.reading import START, assert_tiled, claimed, dissected, result_of
from tests.suites import examples
from tests.twins import twins
from zmtpscope.dissect.records.message_columns import LONGEST_JSON
from zmtpscope.payloads import json as json_payload
from zmtpscope.payloads.api import Claim
from zmtpscope.payloads.json import JsonPayload
from zmtpscope.payloads.values import shown
from zmtpscope.zmtp.reader import FieldNode

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**40, 1e25, 1e19, -0.0]),
    st.floats(),
    st.text(st.characters()),  # including halves of surrogate pairs
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5)
)
CONTAINERS = st.lists(VALUES, max_size=5) | st.dictionaries(st.text(max_size=5), VALUES, max_size=5)

WRITERS = st.sampled_from(
    [
        json.dumps,
        lambda value: json.dumps(value, indent=2),
        lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        lambda value: "\ufeff \n" + json.dumps(value, indent="\t") + "\r\n",
    ]
)

TOKENS = st.sampled_from(list("{}[],:1 \n\\\xe9\0\ufeff")) | st.sampled_from(
    [
        '"a"',
        '"b"',
        '"a":',
        '{"a":',
        '"\\u00e9"',
        '"\\ud800"',
        '"\\x"',
        "-0",
        "01",
        "1.5",
        "1e400",
        "1" * 30,
        "true",
        "NaN",
    ]
)

NEARLY = st.builds(
    lambda tokens, closing: ("".join(tokens) + closing).encode(),
    st.lists(TOKENS, max_size=20),
    st.sampled_from(["", "]", "}", "]}", "}]"]),
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    return draw(WRITERS)(draw(CONTAINERS)).encode("utf-8", "surrogatepass")


def expected(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(expected(key)): expected(each) for key, each in value.items()}
    if isinstance(value, list):
        return [expected(each) for each in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def same(one: Any, other: Any) -> bool:
    """Whether values are equal, including their types and the sign of zero."""
    return repr(one) == repr(other)


def flattened(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in [key, *flattened(inner)]]
    if isinstance(value, list):
        return [each for inner in value for each in flattened(inner)]
    return [shown(value)]


@st.composite
def spelt(draw: st.DrawFn, depth: int = 0) -> str:
    """Draw a value as programs may write it, or nearly valid: numbers in any notation, blanks anywhere."""
    blank = st.sampled_from(["", "", " ", "  "])
    kind = draw(st.sampled_from("nnssw{{[[" if depth < 3 else "nsw"))
    if kind == "n":
        any_spelling = r"-?(0|[1-9][0-9]{0,19}|0[0-9])(\.[0-9]{0,17})?([eE][-+]?[0-9]{1,2})?"
        number, form = draw(st.floats(-1e18, 1e18) | st.floats(-2, 2)), draw(st.sampled_from(["r", ".16g", ".17g"]))
        usual = repr(number) if form == "r" else format(number, form)
        return draw(st.just(usual) | st.from_regex(any_spelling, fullmatch=True))
    if kind == "s":
        return draw(st.from_regex(r'"([ !#-\[\]-~]{0,8}|\\["nu]00e9|\x7f|\xe9)"', fullmatch=True))
    if kind == "w":
        return draw(st.sampled_from(["true", "false", "null", "True", "nul", "NaN"]))
    keys = st.sampled_from(['"a"', '"b"', '"a b"', '"\xe9"', "a"])
    values = draw(st.lists(spelt(depth + 1), max_size=3))
    members = [f"{draw(keys)}{draw(blank)}:{draw(blank)}{each}" if kind == "{" else each for each in values]
    between = f"{draw(blank)}{draw(st.sampled_from([','] * 9 + [';']))}{draw(blank)}"
    return f"{kind}{draw(blank)}{between.join(members)}{draw(blank)}{dict(zip('{[', '}]', strict=True))[kind]}"


ANY = texts() | NEARLY | st.binary(max_size=40) | spelt().map(str.encode)


@given(value=CONTAINERS, write=WRITERS)
def test_fields_are_the_value(value: Any, write: Any) -> None:
    try:
        octets = write(value).encode()
    except UnicodeEncodeError:
        return  # half a pair cannot be sent without an escape
    assert claimed(JsonPayload, octets) is Claim.MAYBE
    made = dissected(JsonPayload, octets)
    fields = expected(value)
    assert same(made.fields, None if fields == {} else fields)
    assert not made.findings


@given(octets=texts() | NEARLY | st.binary(max_size=40))
def test_p6_both_ways_agree(octets: bytes) -> None:
    """P5 and P6 for any octets: fields, summary and findings do not depend on whether a tree is built."""
    quick, careful = dissected(JsonPayload, octets), dissected(JsonPayload, octets, trees=True)
    assert same(quick.fields, careful.fields)
    assert (quick.summary, quick.findings) == (careful.summary, careful.findings)
    assert [each.id for each in quick.findings] in ([], ["PAYLOAD-03"])
    assert_tiled(careful, octets)


@examples(500)
@given(octets=ANY)
@example(octets=b"[0.00001, 0.12345678901234567, 123456789012345678901, -0, -0.0, 1.10]")
@example(octets=b"[1.0800100000000001, 0.30000000000000004, 0.0012345678901234567, 123456789.12345679, -2.675]")
@example(
    octets=b"[1.080010000000000012, 0.3000000000000000, 12345678901234567.5, 9007199254740992.5, 4.35000000000000001]"
)
@example(octets=b"[0.10000000000000001]")
@example(octets=b"[5.4000000000000004]")
@example(octets=b"[0.00000001]")
@example(octets=b"[0.12345678901234567]")
@example(octets=b"[1234567890123456789012]")
@example(octets=b"[-0.0]")
@example(octets=b'{"a":1,"a":2}')
@example(octets=b"[" * 16 + b"]" * 16)
@example(octets=b"[" * 65 + b"]" * 65)
@example(octets=b"{%b}" % b",".join(b'"%d":0' % number for number in range(70)))
@example(octets=b'{"a":"' + b"x" * 4089 + b'"}')
@example(octets=b'{"a":"' + b"x" * 4088 + b'"}')
@example(octets=b"[" + b"1," * 20_000 + b"1]")
def test_reading_octets_alone_equals_reading_the_message(octets: bytes) -> None:
    """JSON is parsed only when its value is needed, and ordinary JSON not even then."""
    careful = dissected(JsonPayload, octets)
    fields = None if careful.fields is None else orjson.dumps(careful.fields).decode()
    found = [ordinary(octets) for ordinary in twins("zmtpscope.payloads.json.ordinary")]
    assert all((result is None) == (found[0] is None) for result in found)
    for result in found:
        if result is not None:
            assert claimed(JsonPayload, octets) is Claim.MAYBE
            assert same(result[1] or None, careful.fields or None)
            assert result_of(json_payload.dissected(octets)) == result_of(careful)
            for summary_and_fields in twins("zmtpscope.payloads.json.summary_and_fields"):
                assert summary_and_fields(octets) == (careful.summary, fields)


@examples(500)
@given(octets=ANY)
@example(octets=b'["' + b"x" * (LONGEST_JSON - 4) + b'"]')
@example(octets=b'["' + b"x" * (LONGEST_JSON - 3) + b'"]')
def test_octets_are_json_where_they_are_ordinary(octets: bytes) -> None:
    """The same for many slices of octets at once."""
    sizes = np.array([len(octets), 0, len(octets)])
    wanted = len(octets) <= LONGEST_JSON and json_payload.ordinary(octets) is not None
    for are_json in twins("zmtpscope.dissect.records.row_contents.are_json"):
        found = are_json(b"{" + octets + octets, np.array([1, 0, 1 + len(octets)]), sizes).tolist()
        assert found == [wanted, False, wanted]


@given(value=CONTAINERS)
def test_p6_values_of_the_tree(value: Any) -> None:
    octets = json.dumps(value, indent=1).encode()
    made = dissected(JsonPayload, octets, trees=True)
    names = ("json.key", "json.string", "json.number", "json.literal")
    found = [leaf.value for leaf in assert_tiled(made, octets) if leaf.name in names]
    assert found == flattened(expected(value))


@given(octets=NEARLY | st.binary(max_size=40))
def test_what_is_claimed_is_json(octets: bytes) -> None:
    """Python's json parses everything that is claimed; an object or array that it parses is claimed."""
    try:
        documents = [json.loads(octets.decode("utf-8-sig").strip("\t"))]
    except ValueError:
        documents = []
    claim = claimed(JsonPayload, octets) if octets else Claim.NO
    if documents and isinstance(documents[0], dict | list):
        assert claim is Claim.MAYBE
    elif claim is Claim.MAYBE:  # several documents, one on each line
        assert len(octets.decode("utf-8-sig").strip().splitlines()) > 1


@given(frames=st.lists(texts() | NEARLY | st.binary(max_size=20), min_size=1, max_size=4), content=st.integers(0, 1))
def test_several_frames(frames: list[bytes], content: int) -> None:
    content = min(content, len(frames) - 1)
    quick = dissected(JsonPayload, *frames, content=content)
    careful = dissected(JsonPayload, *frames, content=content, trees=True)
    assert same(quick.fields, careful.fields)
    assert quick.findings == careful.findings
    assert "PAYLOAD-01" not in [each.id for each in quick.findings]
    assert_tiled(careful, *frames)


def test_frames_that_are_not_json() -> None:
    made = dissected(JsonPayload, b'{"shape": [2, 2]}', b"note", b"\0\xff", bytes(5000), b"[1]", b"")
    assert made.fields == [{"shape": [2, 2]}, "note", b"\0\xff", {"octets": 5000}, [1], ""]
    assert made.summary == '{"shape": [2, 2]} | note | 2 octets | 5000 octets | [1] | '


@pytest.mark.parametrize(
    "octets",
    [
        b"[INFO] started [ok]",
        b"[2024-01-01] {x}",
        b"{name}",
        b"{}{}",
        b"[1] [2]",
        b"[1]\n2",
        b'{"a": 1}\ntext}',
        b"{'a': 1}",
        b'["\xff"]',
        b'["a\tb"]',
        b'{"a" 1}',
        b"[1,]",
        b"[01]",
        b"[",
        b"]",
        b" ",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf[1",
        b"{1: 2}",
        b"[" * 40 + b"]",
    ],
)
def test_not_claimed(octets: bytes) -> None:
    assert claimed(JsonPayload, octets) is Claim.NO


@pytest.mark.parametrize(
    ("octets", "fields"),
    [
        (b'{"a": 1, "b": 0, "a": 2}', {"a": 2, "b": 0}),
        (b"[NaN, Infinity, -Infinity, 1e400]", ["NaN", "Infinity", "-Infinity", "1e400"]),
        (b"[18446744073709551615, 18446744073709551616]", [2**64 - 1, "18446744073709551616"]),
        (b"[-9223372036854775808, -9223372036854775809]", [-(2**63), "-9223372036854775809"]),
        (b"[" + b"9" * 5000 + b"]", ["9" * 5000]),
        (b'["\\ud83d\\ude00", "\\ud83d"]', ["\U0001f600", "\\ud83d"]),
        (b'\xef\xbb\xbf\n{"a": 1}\r\n', {"a": 1}),
        (b'{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        (b"{}", None),
    ],
)
def test_json_that_parsers_read_differently(octets: bytes, fields: Any) -> None:
    assert claimed(JsonPayload, octets) is Claim.MAYBE
    for trees in (False, True):
        made = dissected(JsonPayload, octets, trees=trees)
        assert same(made.fields, fields)
        assert made.findings == []


def test_the_summary_is_one_line() -> None:
    value = {"text": "a  b", "list": [1, 2]}
    assert dissected(JsonPayload, json.dumps(value, indent=2).encode()).summary == (
        '{ "text": "a  b", "list": [ 1, 2 ] }'
    )
    assert dissected(JsonPayload, json.dumps("x" * 9000).join("[]").encode()).summary.endswith("…")


def test_the_tree() -> None:
    octets = b'{"a": [true, 2], "b": {}}'
    made = dissected(JsonPayload, octets, trees=True)

    def outline(node: FieldNode) -> Any:
        name = node.name.removeprefix("json.")
        return (name, node.value) if node.value is not None else {name: [outline(each) for each in node.children]}

    assert [outline(node) for node in made.nodes[0]] == [
        {
            "object": [
                ("open", "{"),
                ("key", "a"),
                {"array": [("open", "["), ("literal", "true"), ("comma", ", "), ("number", 2), ("close", "]")]},
                ("comma", ", "),
                ("key", "b"),
                {"object": [("open", "{"), ("close", "}")]},
                ("close", "}"),
            ]
        }
    ]


def test_named_by_the_user() -> None:
    """Forced JSON is read for any octets: a scalar is JSON, and other octets are malformed."""
    assert dissected(JsonPayload, b' "text" ').fields == "text"
    made = dissected(JsonPayload, b'{"a": 1, oops}')
    assert made.fields == {"a": 1}
    assert [(each.id, each.start) for each in made.findings] == [("PAYLOAD-03", START + 9)]
