"""Socket types that fit (wire.md 10.6)."""

from __future__ import annotations

from zmtpscope.zmtp.socket_types import CODES, DRAFT, PEERS, may_meet, name_of_code


def test_meeting_is_mutual() -> None:
    """If one type may meet another, the other may meet it; every type may meet some."""
    for one, others in PEERS.items():
        assert others
        for other in others:
            assert may_meet(other, one)


def test_types_that_never_meet_over_tcp() -> None:
    """STREAM and DGRAM speak no ZMTP over TCP; an unknown type fits none."""
    assert not any(may_meet(one, other) for one in PEERS for other in ("STREAM", "DGRAM", "dealer", ""))
    assert not may_meet("STREAM", "STREAM")


def test_draft_types_keep_to_themselves() -> None:
    """No draft type may meet a type that ZMTP 3.0 knows."""
    assert all(other in DRAFT for one in DRAFT for other in PEERS[one])


def test_codes_of_2_0() -> None:
    """Codes are in the order of the text; an unknown one is named by its number."""
    assert [name_of_code(code) for code in (0, 5, 8, 9, 11, 12)] == [
        "PAIR",
        "DEALER",
        "PUSH",
        "XPUB",
        "STREAM",
        "unknown (12)",
    ]
    assert set(CODES) - {"STREAM"} < set(PEERS)
