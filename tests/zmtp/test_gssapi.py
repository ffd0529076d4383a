"""The tokens of GSSAPI: their first octets, and which of them belong to the handshake."""

from __future__ import annotations

import pytest

from tests.peer_octets import command
from tests.zmtp.sides import feed, in_handshake
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.events import ENCRYPTED, Command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.mechanisms.gssapi import kind_of_token
from zmtpscope.zmtp.regime import Framing

KERBEROS = bytes.fromhex("06092a864886f712010202")


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x60\x20" + KERBEROS + b"\1\0", "Kerberos 5 AP-REQ"),
        (b"\x60\x81\x99" + KERBEROS + b"\2\0", "Kerberos 5 AP-REP"),
        (b"\x60\x82\x02\xae" + KERBEROS + b"\3\0", "Kerberos 5 KRB-ERROR"),
        (b"\x60\x82\x02\xae" + KERBEROS + rb"\9\9", "initial token"),
        (b"\x60\x06\x06\x06\x2b\x06\x01\x05\x05\x02", "initial token"),
        (b"\5\4\7\xff", "Kerberos 5 wrap token"),
        (b"\x60", "initial token"),
        (b"\0", None),
        (b"", None),
    ],
)
def test_a_token_is_known_by_its_first_octets(head: bytes, kind: str | None) -> None:
    assert kind_of_token(head) == kind


def test_a_message_that_wraps_ready_is_a_command_and_no_message() -> None:
    """After it the handshake is over, so the next token is a message in any frame."""
    steps = command("GSSAPI", "INITIATE", token=b"\x60token") + command("GSSAPI", "MESSAGE", token=b"\5\4READY")
    traffic = build_frame(Framing.V2, build_command("GSSAPI", "MESSAGE", {"token": b"\5\4data"}))
    traffic += command("GSSAPI", "MESSAGE", token=b"\5\4data")
    side = in_handshake("3.0", "GSSAPI")
    transcript = feed(side, steps + traffic, range(len(steps + traffic)))
    assert [
        (event.fields["name"], event.fields["token_size"]) for event in transcript.events if isinstance(event, Command)
    ] == [
        ("INITIATE", 6),
        ("MESSAGE", 7),
    ]
    assert [flags & ENCRYPTED for _, _, _, flags in transcript.rows] == [ENCRYPTED, ENCRYPTED]
    assert transcript.findings == []
    assert side.handshake_done


def test_a_message_before_any_token_is_too_early() -> None:
    transcript = feed(in_handshake("3.0", "GSSAPI"), command("GSSAPI", "MESSAGE", token=b"\5\4READY"))
    assert [finding.id for finding in transcript.findings] == ["ZMTP3X-CMD-13"]
