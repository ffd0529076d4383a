"""Publishers that number their messages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.payloads.reading import ABOUT, claimed, dissected, leaves_of, reader_of
from zmtpscope.payloads import sequence
from zmtpscope.payloads.api import Claim, Message, Settings
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.dissectors import declared
from zmtpscope.payloads.sequence import PROOF, Numbered
from zmtpscope.payloads.side import claim_of, read
from zmtpscope.zmtp.socket_types import PEERS

PUB = ABOUT._replace(socket_type="PUB")
HASH = bytes(range(32))


class Result(NamedTuple):
    claim: Claim
    made: Dissected | None

    @property
    def findings(self) -> list[tuple[str, str | None]]:
        return [(each.id, each.detail) for each in self.made.findings] if self.made else []


def side(messages: Iterable[tuple[bytes, ...]], trees: bool = False) -> list[Result]:
    """Return the results for the messages of a side; claimed messages are read."""
    numbered = Numbered(Settings())
    results = []
    for frames in messages:
        message = Message(frames, 1, frames[0])
        claim = claim_of(numbered, message, PUB)
        made = read(numbered, message, reader_of(Numbered, message, PUB, trees=trees)) if claim else None
        results.append(Result(claim, made))
    return results


def findings(messages: Iterable[tuple[bytes, ...]]) -> list[tuple[str, str | None]]:
    return [finding for result in side(messages) for finding in result.findings]


def behind(topic: bytes, number: int, body: bytes = b"body") -> tuple[bytes, ...]:
    return topic, body, number.to_bytes(4, "little")


def hashed(number: int, topic: bytes = b"hashtx") -> tuple[bytes, ...]:
    return behind(topic, number, HASH)


def cloned(key: bytes, number: int) -> tuple[bytes, ...]:
    return key, number.to_bytes(8, "big"), b"value"


@pytest.mark.parametrize(
    ("frames", "claim"),
    [
        (hashed(0), Claim.YES),
        (hashed(7, b"hashblock"), Claim.YES),
        (behind(b"hashtx", 0, HASH[:31]), Claim.NO),
        (behind(b"rawtx", 0, bytes(60)), Claim.YES),
        (behind(b"rawtx", 0, bytes(59)), Claim.NO),
        (behind(b"rawblock", 0, bytes(81)), Claim.YES),
        (behind(b"sequence", 0, HASH + b"C"), Claim.YES),
        (behind(b"sequence", 0, HASH + b"A" + bytes(8)), Claim.YES),
        (behind(b"sequence", 0, HASH + b"C" + bytes(8)), Claim.NO),
        (behind(b"sequence", 0, HASH + b"X"), Claim.NO),
        (behind(b"hashtxlock", 0, HASH), Claim.NO),
        ((b"hashtx", HASH), Claim.NO),
        ((), Claim.NO),
    ],
)
def test_messages_that_are_claimed_at_once(frames: tuple[bytes, ...], claim: Claim) -> None:
    assert claimed(Numbered, *frames, about=PUB, content=min(1, len(frames))) is claim


def test_only_publishers_number_their_messages() -> None:
    assert [each for each in (*PEERS, None) if declared(Numbered).may_be_from(each)] == ["PUB", "XPUB"]


def test_fields_of_bitcoind() -> None:
    """Messages contain hashes in the order of their printed form (zmqpublishnotifier.cpp reverses them)."""
    (result,) = side([hashed(7)])
    assert result.made is not None
    assert result.made.summary == f"hashtx 7: {HASH.hex()}"
    assert result.made.fields == {
        "kind": "bitcoind",
        "topic": "hashtx",
        "hash": HASH.hex(),
        "sequence": 7,
        "size": 32,
        "counts": "topic",
        "skipped": 0,
    }
    removed = dissected(Numbered, *behind(b"sequence", 1, HASH + b"R" + (300).to_bytes(8, "little")), about=PUB)
    assert removed.summary == f"sequence 1: transaction removed {HASH.hex()}"
    assert (removed.fields["event"], removed.fields["mempool_sequence"]) == ("transaction removed", 300)
    assert dissected(Numbered, *behind(b"rawtx", 1, bytes(250)), about=PUB).summary == "rawtx 1: 250 octets"


def test_gaps_of_bitcoind_are_reported_from_the_first_on() -> None:
    last = side([hashed(7), hashed(12)])[-1]
    assert last.findings == [("SEQUENCE-01", "topic hashtx: from 7 to 12, 4 missing")]
    assert last.made is not None
    assert last.made.summary.endswith(", 4 skipped")
    assert findings([hashed(7), hashed(3)]) == [("SEQUENCE-02", "topic hashtx: from 7 to 3")]
    assert findings([hashed(7), hashed(7)]) == [("SEQUENCE-02", "topic hashtx: from 7 to 7")]


def test_findings_are_at_the_number() -> None:
    made = side([hashed(7), hashed(12)])[-1].made
    assert made is not None
    assert (made.findings[0].start, made.findings[0].length) == (6 + 2 + 32 + 2, 4)


def test_zero_follows_the_largest_number() -> None:
    assert findings(hashed(number % 2**32) for number in range(2**32 - 3, 2**32 + 3)) == []
    assert findings([hashed(2**32 - 1), hashed(2)]) == [
        ("SEQUENCE-01", f"topic hashtx: from {2**32 - 1} to 2, 2 missing")
    ]


def test_topics_of_bitcoind_count_for_themselves() -> None:
    first = [hashed(count) for count in range(4)]
    blocks = [hashed(900, b"hashblock"), hashed(905, b"hashblock")]
    assert findings([*first, blocks[0], hashed(4)]) == []
    assert findings([*first, *blocks]) == [("SEQUENCE-01", "topic hashblock: from 900 to 905, 4 missing")]


@pytest.mark.parametrize("number", [behind, cloned])
def test_others_have_to_prove_it(number: type) -> None:
    results = side(number(b"prices", count) for count in range(PROOF + 3))
    assert [each.claim for each in results] == [Claim.NO] * PROOF + [Claim.YES] * 3
    assert results[-1].made is not None
    assert results[-1].made.fields["sequence"] == PROOF + 2
    broken = side(number(b"prices", count) for count in (0, 1, 2, 4, 5, 6, 8, 9, 10))
    assert {each.claim for each in broken} == {Claim.NO}


def test_little_endian_numbers_in_front() -> None:
    results = side((b"prices", count.to_bytes(8, "little"), b"v") for count in range(254, 260))
    assert results[-1].made is not None
    assert results[-1].made.fields["sequence"] == 259


def test_gaps_of_others() -> None:
    counts = [*range(8), 12, 13]
    assert findings(behind(b"prices", count) for count in counts) == [
        ("SEQUENCE-01", "topic prices: from 7 to 12, 4 missing")
    ]


def test_each_topic_may_count_for_itself() -> None:
    both = [behind(topic, count) for count in range(6) for topic in (b"a", b"b")]
    assert findings([*both, behind(b"a", 9)]) == [("SEQUENCE-01", "topic a: from 5 to 9, 3 missing")]
    apart = [behind(topic, count + start) for count in range(6) for topic, start in ((b"a", 0), (b"b", 1000))]
    assert findings([*apart, behind(b"b", 1009)]) == [("SEQUENCE-01", "topic b: from 1005 to 1009, 3 missing")]


def test_numbers_may_count_all_topics() -> None:
    """The guide's Clone does this. A subscriber of a part gets only some numbers, which is no loss."""
    keys = [b"a", b"b", b"c", b"a", b"a", b"d", b"b"]
    results = side(cloned(key, count) for count, key in enumerate(keys))
    assert [each.claim for each in results] == [Claim.NO] * 3 + [Claim.YES] * 4
    more = [cloned(key, count) for count, key in enumerate(keys)] + [cloned(b"a", 20), cloned(b"HUGZ", 20)]
    assert findings(more) == []
    gap = side(more)[-2].made
    assert gap is not None
    assert (gap.fields["counts"], gap.fields["skipped"]) == ("all topics", 13)
    behind_repeat = side([*more, cloned(b"c", 21)])[-1].made  # the guide's heartbeat HUGZ repeats the last number
    assert behind_repeat is not None
    assert behind_repeat.fields["counts"] == "all topics"


def test_a_number_behind_that_of_another_topic_ends_this() -> None:
    messages = [*(behind(b"a", count) for count in range(4)), behind(b"b", 1000), behind(b"a", 4), behind(b"a", 9)]
    assert findings(messages) == [("SEQUENCE-01", "topic a: from 4 to 9, 4 missing")]


def test_one_topic_in_a_row_proves_nothing_for_the_others() -> None:
    """Numbers that count all topics, and four of one topic at the start."""
    keys = [b"a", b"a", b"a", b"a", b"b", b"a", b"c", b"c", b"a"]
    assert findings(cloned(key, count) for count, key in enumerate(keys)) == []


@pytest.mark.parametrize(
    "values",
    [
        [str(count).encode() for count in range(1000, 1020)],
        [b"%d.50" % count for count in range(1, 10)],
        [b"%08d" % count for count in range(30)],
        [bytes(4)] * 20,
        [bytes(8)] * 20,
    ],
)
def test_digits_and_constants_are_no_numbers(values: list[bytes]) -> None:
    for messages in ([(b"topic", b"text", value) for value in values], [(b"topic", value, b"") for value in values]):
        assert {result.claim for result in side(messages)} == {Claim.NO}


def test_topics_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "MAX_TOPICS", 2)
    numbered = Numbered(Settings())
    for topic in (b"a", b"b", b"a", b"c"):
        claim_of(numbered, Message(behind(topic, 1), 1, topic), PUB)
    assert [list(each.topics) for each in numbered.numberings] == [[b"a", b"c"], [], []]


def test_long_topics_have_no_sequence_number() -> None:
    results = side(behind(b"t" * 256, count) for count in range(10))
    assert {each.claim for each in results} == {Claim.NO}


def test_messages_that_the_user_assigns() -> None:
    assert dissected(Numbered, *behind(b"a", 5), about=PUB).summary == "a 5: 4 octets"
    for frames in ((b"a",), (b"a", b"b", b"c"), (b"t" * 300, b"b", bytes(4))):
        assert [each.id for each in dissected(Numbered, *frames, about=PUB).findings] == ["PAYLOAD-03"]


TOPICS = st.sampled_from([b"a", b"b", b"hashtx", b"sequence", b"", b"rawtx"])
BODIES = st.sampled_from([b"", HASH, HASH + b"C", HASH + b"A" + bytes(8), bytes(60), bytes(8)])
STEPS = st.sampled_from([1, 1, 1, 1, 1, 1, 0, 2, 5, -1, 2**31])


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[bytes, ...]]:
    """Messages of one side, mostly numbered."""
    number = draw(st.integers(0, 3) | st.just(2**32 - 3))
    messages: list[tuple[bytes, ...]] = []
    for _ in range(draw(st.integers(0, 20))):
        number = (number + draw(STEPS)) % 2**32
        form = draw(st.sampled_from([behind, behind, cloned, None]))
        if form is None:
            messages.append(tuple(draw(st.lists(st.binary(max_size=9), min_size=1, max_size=5))))
        elif form is behind:
            messages.append(behind(draw(TOPICS), number, draw(BODIES)))
        else:
            messages.append(cloned(draw(TOPICS), number))
    return messages


@given(streams())
def test_for_any_input(messages: list[tuple[bytes, ...]]) -> None:
    """Nothing fails, leaves tile (P5), fields are leaves (P6), and all results follow from the messages (P1)."""
    with_trees, without = side(messages, trees=True), side(messages)
    for frames, result, quick in zip(messages, with_trees, without, strict=True):
        assert result.claim is quick.claim
        if result.made is None or quick.made is None:
            continue
        assert result.findings == quick.findings
        assert (result.made.summary, result.made.fields) == (quick.made.summary, quick.made.fields)
        assert all(id.startswith("SEQUENCE") for id, _ in result.findings)
        for name, value in leaves_of(result.made, frames):
            field = name.removeprefix("sequence.")
            assert field in ("body", "payload") or result.made.fields[field] == value
        number = result.made.fields["sequence"].to_bytes(8, "little").rstrip(b"\0")
        assert any(number in (frame.rstrip(b"\0"), frame[::-1].rstrip(b"\0")) for frame in frames[1:])


@given(st.lists(st.integers(0, 50), unique=True, min_size=1).map(sorted))
def test_gaps_match_the_numbers(numbers: list[int]) -> None:
    """Missing numbers are counted by pairs, independently."""
    expected = [
        ("SEQUENCE-01", f"topic hashtx: from {last} to {now}, {now - last - 1} missing")
        for last, now in itertools.pairwise(numbers)
        if now != last + 1
    ]
    assert findings(map(hashed, numbers)) == expected


@given(st.lists(st.lists(st.binary(max_size=9) | st.text(max_size=9).map(str.encode), min_size=1), max_size=20))
def test_other_traffic_is_left_alone(messages: list[list[bytes]]) -> None:
    assert {result.claim for result in side(map(tuple, messages))} <= {Claim.NO}
