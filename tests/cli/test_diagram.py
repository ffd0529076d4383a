"""`zmtpscope diagram`: selection, formats and output files."""

from __future__ import annotations

import pathlib

import pytest

from tests.cli.running import Run
from tests.readings import CAPTURES, PUBSUB

BROKER = CAPTURES / "patterns" / "multihop-proxy.pcap"


def arrows(zmtpscope: Run, *arguments: object) -> str:
    code, output, errors = zmtpscope("diagram", *arguments)
    assert (code, errors) == (0, "")
    return output


def test_connections_are_chosen_by_number(zmtpscope: Run) -> None:
    one = arrows(zmtpscope, BROKER, "--conn", 1)
    assert "  c1  " in one
    assert "  c2  " not in one
    assert "READY ROUTER" in one
    both = arrows(zmtpscope, BROKER, "--conn", 1, "--conn", 3)
    assert '"client-1"' in both
    assert "REP" not in both


def test_a_peer_is_drawn_with_all_of_its_connections_and_no_other_peer(zmtpscope: Run) -> None:
    output = arrows(zmtpscope, BROKER, "--peer", "client-1")
    assert {line.split()[1] for line in output.splitlines() if " c3 " in line} != set()
    assert " c1 " not in output
    assert "TCP connect, handshake of 3.1 NULL" in output


def test_a_request_is_drawn_with_its_reply_over_all_hops(zmtpscope: Run) -> None:
    output = arrows(zmtpscope, BROKER, "--request", 47)
    drawn = [line for line in output.splitlines() if "message" in line and "messages" not in line]
    assert [line.split()[0] for line in drawn] == ["47", "48", "49", "50", "51", "52"]
    assert all("job | 1" in line for line in drawn[:3])
    assert all("done | 1" in line for line in drawn[3:])
    direct = arrows(zmtpscope, CAPTURES / "patterns" / "reqrep.pcap", "--request", 12)
    assert direct.count("  message ") == 2
    assert "Hello 0" in direct
    assert "World 0" in direct


def test_a_request_without_a_reply_is_drawn_up_to_its_last_hop(zmtpscope: Run) -> None:
    path = CAPTURES / "problems" / "request-unanswered-behind-broker.pcap"
    _, lines, _ = zmtpscope("read", path, "-Y", "record == message", "--format", "{packet} {socket_type} {size}")
    packet = next(line.split()[0] for line in reversed(lines.splitlines()) if line.split()[1] == "REQ")
    output = arrows(zmtpscope, path, "--request", packet)
    drawn = [line for line in output.splitlines() if "  message " in line]
    assert len(drawn) >= 2
    assert all("◄" not in line or "►" not in line for line in drawn)


def test_a_topic_is_drawn_with_its_connections(zmtpscope: Run) -> None:
    output = arrows(zmtpscope, PUBSUB, "--topic", "c.topic")
    assert '"a.topic"' not in output
    assert "c1 " not in output
    assert output.count('"c.topic"') == 4
    assert "TCP connect" in output
    assert "FIN" in output
    assert output == arrows(zmtpscope, PUBSUB, "-Y", "topic == c.topic")


def test_all_shows_repeats(zmtpscope: Run) -> None:
    assert "more messages" in arrows(zmtpscope, PUBSUB)
    unfolded = arrows(zmtpscope, PUBSUB, "--all")
    assert "more messages" not in unfolded
    assert unfolded.count("payload") == 15


def test_omitted_events_are_reported_in_the_diagram_and_beside_it(zmtpscope: Run) -> None:
    code, output, errors = zmtpscope("diagram", PUBSUB, "--arrows", 5)
    assert code == 0
    assert "more are left out" in output.splitlines()[-1]
    assert errors.startswith("zmtpscope: 19 messages and ")
    assert "--arrows draws more" in errors


def test_the_file_suffix_selects_the_format_unless_an_option_does(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    for name, form, begin in (
        ("a.mmd", [], "sequenceDiagram\n"),
        ("a.SVG", [], "<svg "),
        ("a.txt", ["--format", "svg"], "<svg "),
        ("a", ["--format", "mermaid"], "sequenceDiagram\n"),
    ):
        assert zmtpscope("diagram", PUBSUB, "-o", tmp_path / name, *form) == (0, "", "")
        assert (tmp_path / name).read_text().startswith(begin)
    code, _, errors = zmtpscope("diagram", PUBSUB, "-o", tmp_path / "a.png")
    assert (code, "add --format, or name a file that ends in one of .txt" in errors) == (2, True)


def test_a_file_is_written_when_it_is_complete_and_never_over_another(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "diagram.txt"
    assert zmtpscope("diagram", PUBSUB, "-o", target) == (0, "", "")
    assert target.read_text() == arrows(zmtpscope, PUBSUB)
    target.write_text("mine")
    code, _, errors = zmtpscope("diagram", PUBSUB, "-o", target)
    assert (code, "use --force to overwrite it" in errors) == (2, True)
    assert target.read_text() == "mine"
    assert zmtpscope("diagram", PUBSUB, "-o", target, "--force")[0] == 0
    assert target.read_text() != "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["diagram.txt"]


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ([], 2, "name a capture to read"),
        ([PUBSUB, "--conn", 0], 2, "--conn"),
        ([PUBSUB, "--conn", 1, "--request", 3], 2, "--request cannot be combined with"),
        ([PUBSUB, "--request", 1], 0, "no event matches the selection"),
        ([PUBSUB, "-Y", "topik"], 2, "topik"),
        ([PUBSUB, "--peer", "nobody"], 0, "no event matches the selection"),
        ([CAPTURES / "negative" / "http.pcap"], 0, "no ZMTP found"),
    ],
)
def test_mistakes_are_a_sentence(zmtpscope: Run, arguments: list[object], code: int, error: str) -> None:
    done, output, errors = zmtpscope("diagram", *arguments)
    assert (done, output) == (code, "")
    assert error in errors
