"""Seam P14: an analyser that is dumped and loaded between any two blocks continues without a difference."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import connections, disturbed, snapped
from tests.dissect.test_zre_network import BROKEN
from tests.invariants import in_blocks, lines_of, packets_of_capture
from tests.payloads.reading import ABOUT
from tests.peer_octets import hello, message
from tests.readings import CAPTURE_FILES, CAPTURES
from tests.test_captures_in_blocks import options_for
from tests.traffic import Capture, Conversation, Datagram, Packet, record_of, together
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import Analyser, DecodeAs, Options, Summary
from zmtpscope.dissect.state import StateError, dump, load
from zmtpscope.payloads.api import Claim, Message, Payload, Reader, Settings
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.side import SidePayloads

RecordsAndSummary = tuple[list[dict[str, Any]], Summary]
SECOND = 1_000_000_000


def records_and_summary(
    packets: Sequence[Packet | Datagram], size: int, options: Options, *, again: bool
) -> RecordsAndSummary:
    """Return all records and counts, read in blocks of `size` packets with ticks in between.

    `again`: the analyser is dumped and loaded after each block and tick.
    """
    capture, analyser = Capture(packets, size), Analyser(options)
    analyser.begin(capture.files)
    found: list[dict[str, Any]] = []
    for block in capture:
        for step in (lambda: analyser.feed(block), lambda: analyser.tick(block.latest)):  # noqa: B023
            found += [record_of(item, index, options) for batch in step() for item, index in batch.in_order()]
            if again:
                analyser = load(dump(analyser), options)
                analyser.begin(capture.files)
    found += [record_of(item, index, options) for batch in analyser.finish() for item, index in batch.in_order()]
    return found, analyser.summary


@given(packets=connections(), data=st.data())
def test_p14_connections_go_on_alike(packets: list[Packet], data: st.DataObject) -> None:
    packets, size = data.draw(disturbed(data.draw(snapped(packets)))), data.draw(st.integers(1, 20))
    options = Options(frames=True, details=True)
    assert records_and_summary(packets, size, options, again=True) == records_and_summary(
        packets, size, options, again=False
    )


@pytest.mark.parametrize("id_", BROKEN)
def test_p14_a_state_that_waits_for_time_continues_alike(id_: str) -> None:
    packets, options = together(*BROKEN[id_]()), Options(payloads=Registry())
    assert records_and_summary(packets, 1, options, again=True) == records_and_summary(packets, 1, options, again=False)


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_p14_captures_continue_alike(path: Path) -> None:
    """Dumped and loaded about 15 times, behind blocks of any size; key files are read anew each time."""
    packets, random, options = (
        packets_of_capture(path.read_bytes()),
        Random(path.stem),
        options_for(path, details=False),
    )

    def between(analyser: Analyser) -> Analyser:
        analyser = load(dump(analyser), options if options.keys is None else options_for(path, details=False))
        analyser.begin([None])
        return analyser

    most = max(1, sum(map(len, packets)) // 8)
    blocks = list(in_blocks(packets, iter(lambda: random.randint(1, most), 0)))
    whole = lines_of(blocks, options_for(path, details=False))
    assert lines_of(blocks, options, between) == whole


def test_p14_keys_may_have_been_added_meanwhile(tmp_path: Path) -> None:
    """Of a connection without a key at first the rest opens as it does where the analyser stayed."""
    capture = CAPTURES / "security" / "curve-with-key-log.pcap"
    packets, lines = packets_of_capture(capture.read_bytes()), capture.with_suffix(".keys").read_bytes()
    records_and_summary = []
    for again in (False, True):
        path = tmp_path / f"{again}.keys"
        path.write_bytes(b"# none yet\n")
        options = Options(keys=Keys([path]))

        def between(analyser: Analyser) -> Analyser:
            path.write_bytes(b"# none yet\n" + lines)  # noqa: B023
            if not again:  # noqa: B023
                return analyser
            analyser = load(dump(analyser), Options(keys=Keys([path])))  # noqa: B023
            analyser.begin([None])
            return analyser

        records_and_summary.append(lines_of(in_blocks(packets, iter(lambda: 12, 0)), options, between))
    assert records_and_summary[0] == records_and_summary[1]
    assert any('"decrypted":true' in line for line in records_and_summary[0])


class NotesLosses(Payload):
    """Reports whether messages may be missing before its own."""

    name = prefix = "hears"
    begins = (b"h",)

    def claim(self, message: Message, about: object) -> Claim:
        return Claim.YES

    def dissect(self, message: Message, reader: Reader) -> str:
        return f"lost: {message.after_loss}"


def test_p14_dissectors_are_informed_later_of_a_loss_before_the_state() -> None:
    """The first message behind it went to another one."""

    def summaries(*, again: bool) -> list[str]:
        registry = Registry()
        registry.add(NotesLosses)
        side, found = SidePayloads(registry, []), []
        for octets, lost in (b"h", False), (b"{}", True), (b"h", False), (b"h", False):
            made = side.dissect(Message((octets,), 0, None, lost), ABOUT, [0])
            found.append("" if made is None else made.summary)
            side = pickle.loads(pickle.dumps(side)) if again else side
        return found

    assert summaries(again=True) == summaries(again=False)
    assert summaries(again=True)[2:] == ["lost: True", "lost: False"]


# -- states that do not fit ------------------------------------------------------------------------------------------


def state(options: Options) -> bytes:
    talk = Conversation()
    talk.send(1, hello("PULL"))
    talk.send(0, hello("PUSH") + message(b"abc"))
    analyser = Analyser(options)
    analyser.begin([None])
    for block in Capture(talk.packets):
        list(analyser.feed(block))
    return dump(analyser)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda whole: b"", "not the state of an analyser"),
        (lambda whole: b"zmtpscope 0.0.1 analyser\n" + whole, "not the state of an analyser"),
        (lambda whole: whole[:-1], "damaged"),
        (lambda whole: whole[:30], "damaged"),
        (lambda whole: whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], "damaged"),
    ],
    ids=["empty", "another version", "cut short", "cut in front", "changed"],
)
def test_a_state_that_is_no_state(change: Callable[[bytes], bytes], error: str) -> None:
    with pytest.raises(StateError, match=error):
        load(change(state(Options())), Options())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (Options(frames=True), "frames=False, not True"),
        (Options(payloads=Registry()), "payloads=False, not True"),
        (Options(decode_as=(DecodeAs("tcp.port", 1),)), "decode_as"),
    ],
    ids=["frames", "payloads", "rules"],
)
def test_a_state_of_other_options(options: Options, error: str) -> None:
    with pytest.raises(StateError, match=error):
        load(state(Options()), options)


class Unkept(Payload):
    """A dissector with state that cannot be pickled."""

    name = prefix = "unkept"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.kept = lambda: None

    def claim(self, message: Message, about: object) -> Claim:
        return Claim.NO


def test_a_dissector_that_cannot_be_kept_is_reported() -> None:
    registry = Registry()
    registry.add(Unkept)
    with pytest.raises(StateError, match="read without payloads"):
        state(Options(payloads=registry))


def test_no_key_files_and_no_dissectors_are_in_a_state() -> None:
    assert b"Registry" not in state(Options(payloads=Registry()))
