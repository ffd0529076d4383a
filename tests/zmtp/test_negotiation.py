"""The version is decided from the first octets of both sides, in any order (wire.md 9.2, 9.3)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.strategies import Exchange
from tests.zmtp.sides import MANY, Transcript, feed
from zmtpscope.zmtp.greeting import build_greeting_2, build_greeting_3, build_signature
from zmtpscope.zmtp.negotiation import Decision, negotiate
from zmtpscope.zmtp.side import SideReader

Case = dict[str, Any]

CASES: list[Case] = json.loads((pathlib.Path(__file__).parent.parent / "vectors.json").read_text())["classification"]
ONE_DIRECTION = ("C-17", "C-18")


def is_over(case: Case) -> bool:
    """Whether the case is judged at the end of the connection."""
    return "connection is over" in case["title"] or "closed" in case["title"] or case["id"] in ONE_DIRECTION


def connection(decision: Decision) -> str:
    """A decision in the words of the cases."""
    if decision.outcome == "refused":
        return "2.0 refused"
    if decision.outcome == "not agreed":
        return f"{decision.text.split(' ', 1)[0]} not agreed"
    if decision.outcome == "agreed":
        one_side = decision.one_sided and decision.version != "1.0"
        return f"{decision.version} (one side)" if one_side else str(decision.version)
    return decision.outcome


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_classification(case: Case, order: str) -> None:
    """Every case is decided as expected, in both orders; a pending one is decided only at its end."""
    octets = [bytes.fromhex(case[side]) for side in order]
    expect = case["expect"]
    early = negotiate(octets[0], octets[1])
    decision = early or negotiate(octets[0], octets[1], over=True)
    assert decision is not None
    if expect["connection"] == "pending":
        assert early is None
    else:
        assert connection(decision) == expect["connection"]
    assert [form.value for form in decision.forms] == [expect[side] for side in order]


def observe(first: bytes, second: bytes, order: list[bool]) -> tuple[Decision, Transcript | None, Transcript | None]:
    """Watch both sides, which send an octet each time `order` names them, then the rest of the first and the second."""
    octets = first, second
    seen = [0, 0]
    decision: Decision | None = None
    readers: list[SideReader] = []

    def arrive(side: int, count: int) -> None:
        nonlocal decision
        seen[side] = min(seen[side] + count, len(octets[side]))
        if decision is None:
            decision = negotiate(first[: seen[0]], second[: seen[1]])
            if decision is None:
                return
            readers.extend(SideReader(form, decision.version) for form in decision.forms)
        for reader, stream, stop in zip(readers, octets, seen, strict=True):
            at = min(reader.position, stop)
            reader.read(stream[at:stop], at)

    for side in order:
        arrive(side, 1)
    arrive(0, len(first))
    arrive(1, len(second))
    if decision is None:
        decision = negotiate(first, second, over=True)
        assert decision is not None
        readers.extend(SideReader(form, decision.version) for form in decision.forms)
    return decision, *(
        feed(reader, stream[min(reader.position, len(stream)) :])
        for reader, stream in zip(readers, octets, strict=True)
    )


@given(
    exchange=strategies.exchanges(),
    order=st.lists(st.booleans(), max_size=200),
    other=st.lists(st.booleans(), max_size=200),
)
def test_p2_interleaving(exchange: Exchange, order: list[bool], other: list[bool]) -> None:
    """P2: any interleaving that keeps the order of each side gives the same decision, rows and findings per side."""
    observed = observe(exchange.first, exchange.second, order)
    assert observed == observe(exchange.first, exchange.second, other)
    assert observed[0].version == exchange.version


@MANY
@given(data=st.data())
def test_p2_interleaving_of_damaged_sides(data: st.DataObject) -> None:
    """P2 holds for damaged octets, too."""
    exchange = data.draw(strategies.exchanges())
    like_1_0 = st.builds(b"\1\0".__add__, st.binary(max_size=10))
    first, second = (
        data.draw(strategies.damaged(octets) | st.binary(max_size=30) | like_1_0) for octets in exchange[1:]
    )
    orders = st.lists(st.booleans(), max_size=100)
    assert observe(first, second, data.draw(orders)) == observe(first, second, data.draw(orders))


@given(first=st.binary(max_size=90), second=st.binary(max_size=90))
def test_anything_is_decided_at_the_end(first: bytes, second: bytes) -> None:
    """P9: no octets raise, and at the end there is always an answer, the same one from both points of view."""
    decision = negotiate(first, second, over=True)
    mirrored = negotiate(second, first, over=True)
    assert decision is not None
    assert mirrored is not None
    assert (decision.version, decision.outcome, decision.forms) == (
        mirrored.version,
        mirrored.outcome,
        mirrored.forms[::-1],
    )


@pytest.mark.parametrize(
    ("first", "second", "cut"),
    [
        (build_greeting_3("CURVE"), build_signature(1), (False, True)),
        (build_greeting_2("DEALER"), build_signature(1) + b"\3", (False, True)),
        (build_greeting_2("DEALER")[:12], build_signature(1), (True, True)),
        (build_signature(1), b"", (True, False)),
    ],
)
def test_greetings_cut_by_the_end(first: bytes, second: bytes, cut: tuple[bool, bool]) -> None:
    """Without an agreement, CONN-03 names the sides with incomplete greetings."""
    decision = negotiate(first, second, over=True)
    assert decision is not None
    assert decision.version is None
    assert tuple("ZMTP-CONN-03" in [finding.id for finding in side] for side in decision.findings) == cut


def test_a_peer_that_did_not_wait() -> None:
    """A side that continues in a newer version than the other has gets CONN-07 with the excess octets."""
    older, newer = build_greeting_2("DEALER"), build_greeting_3()
    decision = negotiate(older, newer)
    assert decision is not None
    assert decision.outcome == "failed"
    assert [(finding.id, finding.start) for finding in decision.findings[1]] == [("ZMTP-CONN-07", 11)]
    assert decision.findings[0] == ()


OTHER_PROTOCOLS = {
    "little-endian 32-bit lengths": ("14000000" + "7b" * 20, "05000000" + "7d" * 5),
    "MySQL": ("20000001" + "8da6ff01" * 8, "4a0000000a382e302e333300" + "5a" * 66),
    "Modbus, transaction 256": ("010000000006010300000002", "01000000000701030400000000"),
    "Diameter": (
        "010001148000010100000000" + "5a" * 8 + "0000010840000011" + "6e" * 248,
        "010001088000010100000000" + "5a" * 8 + "0000010c4000000c" + "6e" * 236,
    ),
    "16-bit length 256": ("0100" + "41" * 256, "0100" + "42" * 256),
    "TPKT": ("0300001611e00000000100c0010a", "0300001611d00001000100c0010a"),
    "SOCKS 4": ("0401005001020304004745540a", "005a005001020304"),
    "memcached": ("80000003000000000000000300000000" * 9, "81000000040000000000000900000000" * 9),
    "16-bit lengths of DNS": ("0100123401000001000000000000" * 3, "0100123481800001000100000000" * 3),
    "ones": ("01" * 90, "01" * 90),
}


@pytest.mark.parametrize("name", OTHER_PROTOCOLS)
def test_other_protocols_that_look_like_1_0_frames(name: str) -> None:
    """Lengths before messages make first frames with flags 00; no 1.0 peer has such an identity."""
    first, second = map(bytes.fromhex, OTHER_PROTOCOLS[name])
    for one, other in ((first, second), (second, first), (first, b""), (b"", second)):
        decision = negotiate(one, other) or negotiate(one, other, over=True)
        assert decision is not None
        assert decision.version is None


@pytest.mark.parametrize("second", ["0100", "010002f0aa"])
@pytest.mark.parametrize("first", ["010002f0aa", "0100" + "0480414243" * 3, "01007e10" + "41" * 125 + "0100"])
def test_two_greetings_of_1_0_are_1_0_for_any_flags(first: str, second: str) -> None:
    octets = bytes.fromhex(first), bytes.fromhex(second)
    for one, other in (octets, octets[::-1]):
        decision = negotiate(one, other, over=True)
        assert decision is not None
        assert (decision.version, {form.value for form in decision.forms}) == ("1.0", {"frames-1"})
        assert negotiate(one, other) is None  # later octets may show another protocol
        cut = negotiate(one[:-1] if len(one) > 2 else one, other[:-1] if len(other) > 2 else other, over=True)
        assert cut is not None
        assert cut.version is None


@pytest.mark.parametrize(
    "behind", ["02 00 01", "03 00 01 61", "01 00", "00", "05 00 01 61 62 63"], ids=["", "a", "identity", "zero", "abc"]
)
def test_a_peer_of_another_protocol_gets_1_0_frames_which_are_no_greeting(behind: str) -> None:
    """libzmq sends its signature, takes an SSH banner for the first octet of a 1.0 peer, and continues with 1.0."""
    client, banner = build_signature() + bytes.fromhex(behind), b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"
    for over in (False, True):
        decision = negotiate(client, banner, over=over)
        if decision is not None:
            assert (decision.version, [form.value for form in decision.forms]) == (None, ["signature", "alien"])
            assert [finding.id for finding in decision.findings[0]] == []
    assert decision is not None
