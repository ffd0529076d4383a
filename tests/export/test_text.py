"""Text lines: one for each record, aligned, safe, and with the important values."""

from __future__ import annotations

import pathlib
import re
import unicodedata

import pytest

from tests.readings import CAPTURE_FILES, CAPTURES
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, DecodeAs, Options
from zmtpscope.export.clock import FORMS, Clock
from zmtpscope.export.describe import DESCRIBE, describe_gap
from zmtpscope.export.front import WIDEST
from zmtpscope.export.side_names import SideNames
from zmtpscope.export.styles import STYLES
from zmtpscope.export.text import Look, TextLines
from zmtpscope.records import RECORDS, empty

NUMBER = len("c1  ")


def text(
    name: str, *, options: Options | None = None, form: str = "r", packets: int | None = None, **look: bool | int
) -> str:
    """Return the output of `read` for captures/`name`."""
    captures = open_captures([str(CAPTURES / name)], packet_limit=packets)
    options = options or Options(details=bool(look.get("tree") or look.get("hex")))
    made = TextLines(Look(Clock(form, lambda: captures.statistics.first_time), **look), options)
    return "".join(line for batch in Analyser(options).run(captures) for line in made.lines(batch))


def what(printed: str) -> list[str]:
    """The last column of every line."""
    return [re.split(r" > \S+(?: [A-Z]+)?(?: \"[^\"]*\")? {2,}", line, maxsplit=1)[1] for line in printed.splitlines()]


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.name)
def test_nothing_in_a_capture_breaks_a_line_or_reaches_the_terminal(path: pathlib.Path) -> None:
    printed = text(str(path), options=Options(frames=True, details=True), chat=True, tree=True, hex=True)
    kinds = {unicodedata.category(character) for character in printed.replace("\n", "")}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_a_subscription_and_its_messages() -> None:
    assert what(text("patterns/pubsub.pcap"))[2:6] == ["READY PUB", "READY SUB", 'SUBSCRIBE "a"', 'SUBSCRIBE "b"']
    assert 'SUBSCRIBE "" (everything)' in text("patterns/pubsub.pcap")
    assert 'message 7+9 octets "a.topic"  payload 0' in what(text("patterns/pubsub.pcap"))
    assert 'SUBSCRIBE "alpha" (message)' in what(text("patterns/xpub-xsub.pcap"))


def test_request_and_reply_without_their_delimiter() -> None:
    assert what(text("patterns/reqrep.pcap"))[4:6] == [
        "message 0+7 octets  Hello 0",
        "message 0+7 octets  World 0",
    ]


def test_the_steps_of_gssapi_are_named() -> None:
    assert what(text("security/gssapi.pcap"))[2:9] == [
        "INITIATE token of 690 octets (Kerberos 5 AP-REQ)",
        "INITIATE token of 156 octets (Kerberos 5 AP-REP)",
        "empty command",
        "note ZMTP3X-CMD-01 The command is empty: an empty step of the GSSAPI handshake",
        "MESSAGE token of 102 octets (Kerberos 5 wrap token) with READY inside",
        "MESSAGE token of 112 octets (Kerberos 5 wrap token) with READY inside",
        "message encrypted, 78 octets",
    ]


def test_a_side_is_named_by_its_announcements() -> None:
    lines = text("patterns/dealer-router-identities.pcap").splitlines()
    assert re.search(r"c1  127\.0\.0\.1:5600 > 127\.0\.0\.1:60954  GREETING 3\.1 NULL$", lines[0])
    assert re.search(r'c1  :60954 > :5600 +READY DEALER "dealer-1"$', lines[2])
    assert re.search(r'c1  :5600 > "dealer-1" +READY ROUTER$', lines[3])
    assert re.search(r'c1  "dealer-1" > ROUTER:5600  message 4\+1\+7 octets', lines[8])


def test_wide_lines_have_both_addresses() -> None:
    lines = text("patterns/dealer-router-identities.pcap", wide=True).splitlines()
    assert re.search(r'127\.0\.0\.1:60954 DEALER "dealer-1" > 127\.0\.0\.1:5600 ROUTER  +message 4\+1\+7', lines[8])
    assert all(len(re.findall(r"127\.0\.0\.1:\d+", line)) == 2 for line in lines)


def test_the_first_and_the_last_line_of_a_connection_have_its_addresses() -> None:
    by_number: dict[str, list[str]] = {}
    for line in text("implementations/jupyter.pcap").splitlines():
        by_number.setdefault(re.findall(r"  (c\d+) ", line)[0], []).append(line)
    for first, *others in by_number.values():
        assert re.search(r" 127\.0\.0\.1:\d+ > 127\.0\.0\.1:\d+  ", first)
        if others:
            assert re.search(r" 127\.0\.0\.1:\d+ \w+ > 127\.0\.0\.1:\d+ \w+  closed by ", others[-1])
            assert not any("127.0.0.1:" in line.replace("at tcp://", "") for line in others[:-1])


def test_two_sides_with_equal_names_are_distinguished() -> None:
    lines = text("versions/pair-bind2.2.0-conn2.2.0.pcap").splitlines()
    senders = {line.split(" > ")[0].split()[-1] for line in lines if "message" in line and "closed" not in line}
    assert len(senders) == 2


@pytest.mark.parametrize("name", ["patterns/pubsub.pcap", "patterns/reqrep.pcap", "patterns/heartbeat-both.pcap"])
def test_short_contents_fit_in_80_columns(name: str) -> None:
    shown = [line for line in text(name).splitlines() if " closed by " not in line and " note " not in line]
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.name)
def test_a_terminal_of_any_width_shows_what_a_pipe_gets(path: pathlib.Path) -> None:
    options = Options(bodies="none")
    pipe = text(str(path), options=options).split()
    for width in (80, 200):
        assert text(str(path), options=options, width=width).split() == pipe


def test_columns_are_aligned() -> None:
    lines = [line for line in text("patterns/pubsub.pcap").splitlines() if " message " in line]
    assert len({line.index(" message ") for line in lines}) == 1
    wide = text("patterns/pubsub.pcap", wide=True).splitlines()
    assert len({line.index(" > ") for line in wide}) == 1


def test_the_end_of_a_connection_sums_it_up() -> None:
    *_, last, refused = what(text("patterns/pubsub.pcap"))
    assert last == "closed by PUB:5630 after 805.1 ms, 3.1 NULL, 12 messages from PUB:5630"
    assert refused.startswith("note ZMTP-CONN-14 ")


def test_a_wrong_server_key_is_named() -> None:
    closings = [line for line in what(text("security/curve-wrong-server-key.pcap")) if "CURVE-21" in line]
    assert "ZMQ_CURVE_SERVERKEY" in closings[0]
    # a hint is printed once, not for every attempt
    assert not any("->" in closing for closing in closings[1:])


def test_refused_credentials_are_named() -> None:
    assert 'ERROR "400" (authentication refused)' in text("security/plain-refused-4.1.8.pcap")


def test_a_hole_is_one_line_with_what_to_do() -> None:
    lines = what(text("damage/holes.pcap"))
    holes = [line for line in lines if line.startswith("gap of ")]
    assert holes[0].startswith("gap of 1448 octets at offset 2519")
    assert "-> capture with a larger buffer" in holes[0]
    assert not any("ZMTP-CONN-05" in line for line in lines)


def test_normal_events_and_habits_are_printed_on_request() -> None:
    quiet, verbose = text("security/curve-4.3.5.pcap"), text("security/curve-4.3.5.pcap", chat=True)
    assert "chat" not in quiet
    assert "CURVE-10" not in quiet
    assert "chat ZMTP-CONN-06" in verbose
    assert "note CURVE-10" in verbose


def test_encrypted_messages_show_their_size_only() -> None:
    assert "message encrypted, 5 octets inside" in what(text("security/curve-4.3.5.pcap"))


def test_frames_and_their_message_are_in_order_of_offset() -> None:
    assert what(text("patterns/reqrep.pcap", options=Options(frames=True)))[4:7] == [
        'frame 0 octets MORE flags 01  ""',
        "message 0+7 octets  Hello 0",
        "frame 7 octets flags 00  Hello 0",
    ]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (Options(bodies="none"), "message 0+7 octets"),
        (Options(bodies="head", head=0), "message 0+7 octets"),
        (Options(bodies="head", head=4), "message 0+7 octets  Hel…"),
    ],
)
def test_bodies_as_they_are_wanted(options: Options, shown: str) -> None:
    assert what(text("patterns/reqrep.pcap", options=options))[4] == shown


def test_a_preview_fits_the_terminal() -> None:
    lines = [line for line in text("patterns/frame-sizes.pcap", width=130).splitlines() if "  message " in line]
    assert len(lines) == 10
    assert max(map(len, lines)) <= 130


def test_colour_changes_no_letter() -> None:
    def mark(style: str, shown: str) -> str:
        assert style in STYLES
        return f"<{style}>{shown}</>"

    captures = open_captures([str(CAPTURES / "security" / "plain-refused-4.3.5.pcap")])
    look = Look(Clock("r", lambda: captures.statistics.first_time), paint=mark)
    made = TextLines(look, Options())
    printed = "".join(line for batch in Analyser(Options()).run(captures) for line in made.lines(batch))
    assert re.sub(r"<(/|side \d|\w+)>", "", printed) == text("security/plain-refused-4.3.5.pcap")
    assert "<warn>warn PLAIN-06" in printed


def test_the_tree_names_every_octet_and_hides_the_password() -> None:
    printed = text("security/plain-accepted.pcap", tree=True, hex=True)
    assert re.search(r"plain\.username +\[73\.\.77\] +\"admin\"", printed)
    assert re.search(r"plain\.password +\[79\.\.84\] +\*\*\*", printed)
    assert "00000040  04 13 05 48 45 4c 4c 4f 05 61 64 6d 69 6e 06 **  ...HELLO.admin.*" in printed
    assert "s3cret" not in printed
    assert "73 33 63 72 65 74" not in printed
    shown = text("security/plain-accepted.pcap", options=Options(details=True, show_secrets=True), tree=True, hex=True)
    assert 'password "s3cret"' in shown
    assert re.search(r'plain\.password +\[79\.\.84\] +"s3cret"', shown)


def test_a_message_is_shown_frame_by_frame() -> None:
    printed = text("patterns/reqrep.pcap", tree=True)
    assert re.search(r"zmtp\.frame +\[104\.\.105\] +packet 12\n", printed)
    assert re.search(r"zmtp\.body +\[108\.\.114\] +Hello 0\n", printed)


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("r", "  0.000176"),
        ("e", "1795230519.050762"),
        ("u", "03:08:39.050762"),
        ("ud", "2026-11-21 03:08:39.050762"),
        ("udoy", "2026/325 03:08:39.050762"),
    ],
)
def test_times_as_tshark_writes_them(form: str, shown: str) -> None:
    clock = Clock(form, lambda: 1795230519050586000)
    assert clock(1795230519050762999) == shown


def test_local_times_have_the_zone_of_the_machine() -> None:
    assert re.fullmatch(r"\d\d:\d\d:39\.050762", Clock("a", lambda: None)(1795230519050762000))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:39\.050762", Clock("ad", lambda: None)(1795230519050762000))


def test_the_time_since_the_line_above_may_be_negative() -> None:
    clock = Clock("d", lambda: None)
    assert [clock(time).strip() for time in (5_000_000, 6_500_000, 6_000_000)] == ["0.000000", "0.001500", "-0.000500"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_takes_every_time(form: str) -> None:
    for time in (-(2**63), -1, 0, 2**63 - 1):
        assert Clock(form, lambda: 0)(time)


def test_every_record_that_is_no_row_has_its_words() -> None:
    assert set(DESCRIBE) == set(RECORDS) - {"message", "frame"}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"version_announced": "3.1", "mechanism": "NULL"}, "GREETING 3.1 NULL"),
        ({"version_announced": "3.0", "mechanism": "PLAIN", "as_server": 1}, "GREETING 3.0 PLAIN as-server"),
        ({"version_announced": "3.0", "mechanism": "X\\x1b[0m"}, 'GREETING 3.0 "X\\x1b[0m"'),
        ({"version_announced": "2.0", "socket_type": "SUB"}, "GREETING 2.0 SUB"),
        ({"version_announced": "3", "socket_type": "SUB"}, "GREETING 2.0 SUB (could speak 3.x)"),
        ({"version_announced": "1.0", "identity": "a"}, 'GREETING 1.0 "a"'),
        ({"version_announced": None, "length": 10}, "GREETING signature only"),
        ({"version_announced": None, "length": 11}, "GREETING incomplete, 11 octets"),
    ],
)
def test_greetings_in_words(changes: dict[str, object], shown: str) -> None:
    assert DESCRIBE["greeting"]({**empty("greeting"), "length": 64, **changes}) == shown


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"name": "SUBSCRIBE", "topic": "weather."}, 'SUBSCRIBE "weather."'),
        ({"name": "JOIN", "group": "g"}, 'JOIN "g"'),
        ({"name": "PING", "ttl_ms": 2500, "context": b"abc"}, "PING ttl 2.5 s context abc"),
        ({"name": "PONG", "context": b"\0\1"}, "PONG context 0x0001"),
        ({"name": "ERROR", "reason": "500"}, 'ERROR "500" (internal error of authentication)'),
        ({"name": "READY", "metadata": [{"name": "X-Version", "value": "7"}]}, 'READY X-Version="7"'),
        ({"name": "WELCOME", "length": 170, "size": 168}, "WELCOME 170 octets"),
        ({"name": "HELLO", "server_longterm_key": "S"}, "HELLO made for the server S"),
        ({"name": "INITIATE", "client_longterm_key": "C", "decrypted": True}, "decrypted INITIATE of the client C"),
        ({"name": "READY", "metadata_size": 19, "socket_type_guess": []}, "READY metadata of 19 octets"),
        (
            {"name": "READY", "metadata_size": 19, "socket_type_guess": ["PUB", "SUB", "REP"]},
            "READY metadata of 19 octets, perhaps of PUB, SUB or REP",
        ),
        ({"name": "PING", "size": 7, "length": 42, "decrypted": True}, "decrypted PING"),
        ({"name": None, "length": 2}, "command without a name"),
        ({"name": "FOO", "data": b"\x1b[2J"}, "FOO \\x1b[2J"),
    ],
)
def test_commands_in_words(changes: dict[str, object], shown: str) -> None:
    assert DESCRIBE["command"]({**empty("command"), "length": 10, **changes}) == shown


def test_a_connection_that_began_before_the_capture_names_the_unknown() -> None:
    last = what(text("damage/midstream-3.0.pcap"))[-1]
    assert re.match("closed by .* after more than .* ms, version unknown, start not captured, 4 mess", last)
    forced = Options(decode_as=(DecodeAs("conn", 1, "3.0", "NULL"),))
    last = what(text("damage/midstream-3.0.pcap", options=forced))[-1]
    assert re.search(r" ms, 3\.0 NULL, start not captured, 4 messages from :53102, 4 from :\d+$", last)


def test_a_capture_that_ends_inside_a_greeting_leaves_the_version_open() -> None:
    last = what(text("patterns/pubsub.pcap", packets=19))[-1]
    assert re.search("still open at the end of the capture, after .* ms, no version agreed yet, no mess", last)


def test_a_gap_has_its_reason_and_the_point_where_reading_resumes() -> None:
    gaps = [line for line in what(text("damage/holes.pcap")) if line.startswith("gap of ")]
    assert "not captured (acknowledged by the receiver), no frame found after it" in gaps[0]
    assert gaps[1].endswith("not captured (acknowledged by the receiver), parsing resumes at offset 9497")
    values = {"bytes": 1, "offset": 2, "reason": "end of the connection", "resumed_at": None}
    assert "(waited for until the end)" in describe_gap(values)


def test_a_gap_is_shown_at_the_first_packet_behind_it() -> None:
    gap = next(line for line in text("damage/one-segment-lost.pcap").splitlines() if "gap of 273" in line)
    assert gap.split()[0] == "18"


def test_long_identities_keep_the_columns() -> None:
    lines = text("faults/identity-256.pcap").splitlines()
    named = [line for line in lines if 'c1  "iiiiiiiiiii…" > ROUTER:' in line]
    assert {line.index("  message ") - line.index("c1") for line in named} == {NUMBER + WIDEST}


def test_a_socket_type_of_any_length_and_kind_takes_little_room() -> None:
    names = SideNames("127.0.0.1:5555", 5555, 1)
    names.learn("PUB" + "\x1b[31m" * 10, None)
    assert names.short == r"PUB\x1b[31m\:5555"
    names.learn(None, "\x00" * 255)
    assert names.short == r'"\x00\x00\x0…":5555'
    assert names.full == r'127.0.0.1:5555 PUB\x1b[31m\ "\x00\x00\x00\x0…"'


@pytest.mark.parametrize("width", [80, 120, 200])
def test_words_are_not_broken_on_a_terminal(width: int) -> None:
    for name in ("security/plain-wrong-password.pcap", "patterns/pubsub.pcap", "damage/midstream-3.0.pcap"):
        assert all(len(line) <= width for line in text(name, width=width).splitlines())


def test_a_description_has_its_own_line_on_a_narrow_terminal() -> None:
    lines = text("implementations/jupyter.pcap", width=80).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("  182 "))
    assert lines[first].endswith("c21 XPUB:45571 > SUB")
    assert lines[first + 1].startswith('        message 7 parts 574 octets "kernel.')
