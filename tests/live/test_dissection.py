"""Output during a recording is equal to the output of `read` for its file."""

from __future__ import annotations

import contextlib
import io
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curve import CLIENT, CurvePeers, Steps
from tests.dissect import sealed_talks
from tests.dissect.talks import pieces
from tests.live.recordings import HERE, NOW, THERE, Packets, Step, play
from tests.peer_octets import hello, message
from tests.strategies import damaged_sides, exchanges
from zmtpscope.cli import run
from zmtpscope.curve_keys import CLIENT_TRANSIENT, SERVER_LONGTERM, SERVER_TRANSIENT, HandedLines, KeyLine, Keys
from zmtpscope.dissect import Batch, Options
from zmtpscope.export import json_lines
from zmtpscope.export.clock import Clock
from zmtpscope.export.text import Look, TextLines
from zmtpscope.live.keys.key_log import KeyLog
from zmtpscope.live.recording.dissection import LiveDissection
from zmtpscope.live.recording.recording import COMMENT, CaptureFile, Recording
from zmtpscope.payloads.registry import Registry

Drawn = TypeVar("Drawn")
Draw = Callable[[st.SearchStrategy[Drawn]], Drawn]

SECOND = 1_000_000_000


class Shown:
    """The live output: text lines and JSON lines."""

    def __init__(self, file: str, handed: HandedLines | None = None) -> None:
        keys = None if handed is None else Keys([], handed)
        self.options = Options(payloads=Registry(), keys=keys)
        self.live = LiveDissection(self.options, self.show, file)
        self.text = TextLines(Look(Clock("r", lambda: self.live.statistics.first_time)), self.options)
        self.lines: list[str] = []
        self.json = b""

    def show(self, batch: Batch) -> None:
        self.lines += self.text.lines(batch)
        self.json += b"".join(json_lines.text_of(batch, self.options))


def read(*arguments: str) -> str:
    """Return the output of `zmtpscope read` for packets that arrive live: lines of files may wait for others."""
    output = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(output), mock.patch("zmtpscope.cli.read._is_file", return_value=False):
        assert run(["read", *arguments]) == 0
    output.flush()
    return output.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return]


def assert_shown_as_read(steps: Sequence[Step], advance: Callable[[], bool], lines: Sequence[KeyLine] = ()) -> str:
    """Write steps to a file and to a live dissection, which processes received packets whenever `advance` returns
    true; return the lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.pcapng")
        handed = HandedLines()
        shown = Shown(str(path), handed if lines else None)

        def take(time: int, packets: Sequence[bytes]) -> None:
            shown.live.feed(time, packets)
            if advance():
                shown.live.advance()

        file, log = CaptureFile(path, COMMENT), KeyLog.beside(path)
        recording = Recording([file.write, take], [handed.add, log.add])
        for line in lines:
            recording.key(line)
        play(recording, steps)
        shown.live.finish()
        file.close()
        log.close()
        keys = ["--keys", str(log.path)] if lines else []
        text = read(str(path), *keys)
        assert "".join(shown.lines) == text
        assert shown.json.decode() == read("--json", str(path), *keys)
    return text


@st.composite
def drawn_steps(draw: Draw, connection: int) -> tuple[list[Step], list[Step]]:
    """Draw the steps of both sides of a connection: valid, damaged, or with large messages."""
    kind = draw(st.sampled_from(["valid", "damaged", "large"]))
    if kind == "valid":
        streams = draw(exchanges())[1:]
    elif kind == "damaged":
        streams = draw(damaged_sides()).octets, draw(damaged_sides()).octets
    else:
        noise = Random(draw(st.integers(0, 1000)))
        sizes = draw(st.lists(st.sampled_from([1, 65_475, 65_476, 200_000, 400_000]), min_size=1, max_size=3))
        bodies = [noise.randbytes(size) for size in sizes]
        streams = hello("PUSH") + b"".join(map(message, bodies)), hello("PULL")
    ours, theirs = (
        [Step(connection, what, octets) for octets in draw(pieces(stream))]
        for what, stream in zip(("sent", "received"), draw(st.permutations(streams)), strict=True)
    )
    return ours, theirs


@st.composite
def scripts(draw: Draw) -> list[Step]:
    """Draw a few simultaneous connections, some of which end before the others."""
    parts: list[list[Step]] = []
    ends: list[Step | None] = []
    steps: list[Step] = []
    for connection in range(draw(st.integers(1, 3))):
        steps.append(Step(connection, "open", by_us=draw(st.booleans())))
        ours, theirs = draw(drawn_steps(connection))
        parts += ours, theirs
        what = draw(st.sampled_from(["closed", "reset", None]))
        ends.append(what and Step(connection, what, by_us=draw(st.booleans())))
    order = Random(draw(st.integers(0, 1000)))
    pauses = draw(st.sampled_from([[0], [1000], [0, 1000, 4 * SECOND]]))
    while any(parts):
        part = order.choice([part for part in parts if part])
        steps.append(part.pop(0))
        end = ends[connection := steps[-1].connection]
        if end is not None and not parts[2 * connection] and not parts[2 * connection + 1]:
            steps.append(end)
    return [step._replace(pause=order.choice(pauses)) for step in steps]


@given(scripts(), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_shown_as_read_however_packets_arrive_together(steps: list[Step], often: float) -> None:
    order = Random(1)
    assert_shown_as_read(steps, lambda: order.random() < often)


def steps_of(talk: Steps, client: int = CLIENT) -> list[Step]:
    """Return a conversation as the steps that its side `client` records."""
    steps = [Step(0, "sent" if side == client else "received", octets) for side, octets in talk]
    return [Step(0, "open"), *steps, Step(0, "closed")]


def key_lines(text: str) -> list[KeyLine]:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "keys")
        path.write_text(text)
        return [line for _, line in Keys([path]).lines()]


@given(sealed_talks.talks(), st.sampled_from([0.1, 0.5, 1.0]))
def test_boxes_open_live_as_they_do_when_read(talk: sealed_talks.Talk, often: float) -> None:
    order = Random(1)
    steps = steps_of(talk.steps)
    assert_shown_as_read(steps, lambda: order.random() < often, key_lines(talk.text))


@pytest.mark.parametrize("role", ["client", "server"])
def test_keys_that_are_handed_over_in_time_open_everything(role: str, tmp_path: pathlib.Path) -> None:
    """A client knows its c' before it sends HELLO, a server creates its s' for WELCOME."""
    peers = CurvePeers()
    handshake, large = peers.handshake(), bytes(300_000)
    talk = [*handshake, (0, peers.messages(0, b"hello", large)), (1, peers.messages(1, b"world"))]
    client = KeyLine(CLIENT_TRANSIENT, peers.C_transient, peers.c_transient, peers.S)
    server = KeyLine(SERVER_TRANSIENT, peers.C_transient, peers.s_transient)
    keys = {2: client} if role == "client" else {0: KeyLine(SERVER_LONGTERM, peers.S, peers.s), 3: server}
    path, handed = tmp_path / "out.pcapng", HandedLines()
    shown = Shown(str(path), handed)
    file, log = CaptureFile(path, COMMENT), KeyLog.beside(path)
    recording = Recording([file.write, shown.live.feed], [handed.add, log.add])
    connection = recording.opened(HERE, THERE, True, NOW)
    for number, (side, octets) in enumerate(talk):
        if number in keys:
            recording.key(keys[number])
        (connection.sent if side == 0 else connection.received)(octets, NOW)
        shown.live.advance()
    shown.live.finish()
    file.close()
    log.close()
    assert "".join(shown.lines) == read(str(path), "--keys", str(log.path))
    assert sum("decrypted message" in line for line in shown.lines) == 2
    assert shown.live.analyser.summary.opened_connections == 1


def test_lines_are_printed_with_the_packet_that_carries_them() -> None:
    """No line waits for an acknowledgment or for the next packet."""
    shown = Shown("out.pcapng")
    packets = Packets()
    recording = Recording([packets.take, shown.live.feed])
    connection = recording.opened(HERE, THERE, True, NOW)
    connection.sent(hello("DEALER"), NOW)
    connection.received(hello("ROUTER"), NOW)
    shown.live.advance()
    for number in range(3):
        before = len(shown.lines)
        connection.sent(message(b"", b"question %d" % number), NOW)
        shown.live.advance()
        assert [f"question {number}" in line for line in shown.lines[before:]] == [True]
    shown.live.advance()
    before = len(shown.lines)
    connection.closed(True, False, NOW)
    shown.live.advance()
    assert ["closed by" in line for line in shown.lines[before:]] == [True]
    shown.live.finish()
    assert shown.live.statistics.packets == len(packets.octets)


def test_much_that_waits_is_shown_without_being_asked_for() -> None:
    shown = Shown("out.pcapng")
    connection = Recording([shown.live.feed]).opened(HERE, THERE, True, NOW)
    connection.sent(hello("PUSH"), NOW)
    connection.received(hello("PULL"), NOW)
    assert not shown.lines
    connection.sent(message(bytes(1 << 20)), NOW)
    assert "1048576 octets" in shown.lines[-1]
