"""An unknown mechanism: its frames and the names of its commands are shown nevertheless."""

from __future__ import annotations

from dataclasses import replace

from tests.peer_octets import command, message, subscribe
from tests.traffic import Capture, Conversation, records
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.regime import Framing


def test_a_misspelt_error_is_an_error_although_a_snap_length_cut_the_greeting() -> None:
    """ERROR of a PLAIN server of libzmq 4.3."""
    talk = Conversation()
    for side in (0, 1):
        talk.send(side, build_greeting_3("PLAIN", as_server=bool(side)))
        talk.packets[-1] = replace(talk.packets[-1], payload=talk.packets[-1].payload[:30], cut=34)
    talk.send(0, command("PLAIN", "HELLO", username="admin", password="wrong"))
    talk.send(1, build_frame(Framing.V2, b"\x5eRROR\x03400", command=True))
    found, _ = records(Capture(talk.packets))
    assert [record["name"] for record in found if record["record"] == "command"] == ["HELLO", "ERROR"]
    assert "error" not in {record["severity"] for record in found if record["record"] == "finding"}


def test_frames_and_command_names_are_shown() -> None:
    talk = Conversation()
    for side in (0, 1):
        talk.send(side, build_greeting_3("XAUTH", as_server=bool(side)))
    talk.send(0, build_frame(Framing.V2, b"\x09CHALLENGE\0\1\2", command=True))
    talk.send(1, build_frame(Framing.V2, b"\x06ANSWER" + bytes(300), command=True))
    talk.send(0, message(b"a", b"request"))
    talk.send(1, message(b"\x07MESSAGE or not"))
    talk.send(0, subscribe(b"news"))
    talk.close()
    found, analyser = records(Capture(talk.packets))
    commands = [record for record in found if record["record"] == "command"]
    assert [(each["name"], each["size"], each["data"]) for each in commands] == [
        ("CHALLENGE", 13, b"\0\1\2"),
        ("ANSWER", 307, bytes(256)),
        ("SUBSCRIBE", 14, b"news"),
    ]
    assert [record["bodies"] for record in found if record["record"] == "message"] == [
        [b"a", b"request"],
        [b"\x07MESSAGE or not"],
    ]
    ids = {record["id"] for record in found if record["record"] == "finding" and record["severity"] != "chat"}
    assert ids == {"ZMTP3X-GREETING-11"}
    assert found[-1]["mechanism"] == "XAUTH"
    assert analyser.summary.sums.hold()
