"""The cost of dissecting: no call per packet or frame when counting, and memory that does not depend on the file
size."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.containers import Packet as Captured
from tests.capture.containers import pcap
from tests.counting import calls_of, lines_of
from tests.dissect.talks import connected
from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, Datagram, Packet
from zmtpscope.dissect import Analyser, Options

SEGMENT = message(b"x" * 60) * 10
BLOCKS = 10
MAX_CALLS = 0.05
"""Python calls for each packet that a block has more."""


def pushing(packets: int, payload: bytes = SEGMENT) -> Conversation:
    """A PUSH that sends `packets` segments of whole messages to a PULL."""
    talk = connected("PUSH", "PULL")
    for _ in range(packets):
        talk.add(0, 0x18, payload)
    talk.close()
    return talk


def calls(packets: int) -> int:
    """Return the number of Python functions called while `packets` packets are counted, in a fixed number of blocks."""
    capture = Capture(pushing(packets).packets, packets // BLOCKS)
    blocks = list(capture)
    analyser = Analyser(Options(records=False))
    count = calls_of(lambda: [list(analyser.feed(block)) for block in blocks])
    assert analyser.flows.sides == {}
    return count


def test_no_call_is_made_for_a_packet_or_a_frame_in_order() -> None:
    assert (calls(20_000) - calls(10_000)) / 10_000 < MAX_CALLS


@pytest.mark.parametrize("first", [b"\x41", b"\0"])
def test_no_call_is_made_for_a_datagram_of_others(first: bytes) -> None:
    def entered(count: int) -> int:
        one = Datagram(first + b"\0" * 40, 1, (b"\x0a\0\0\1", 40_000), (b"\x0a\0\0\2", 6000))
        blocks, analyser = list(Capture([one] * count, count)), Analyser(Options())
        entered = calls_of(lambda: [list(analyser.feed(block)) for block in blocks])
        assert analyser.summary.datagrams == count
        return entered

    entered(1)  # imports
    assert (entered(400) - entered(200)) / 200 < MAX_CALLS


def ethernet(packet: Packet) -> Captured:
    key, length = packet.key, 40 + len(packet.payload)
    ip = b"\x45\0" + length.to_bytes(2, "big") + bytes(4) + b"\x40\x06\0\0" + key[:8]
    numbers = packet.sequence.to_bytes(4, "big") + packet.acknowledgment.to_bytes(4, "big")
    tcp = key[8:] + numbers + bytes([0x50, packet.flags]) + bytes(6)
    return Captured(bytes(12) + b"\x08\0" + ip + tcp + packet.payload, packet.time)


def steps(capture: Capture) -> int:
    """Lines of Python executed while a capture is dissected."""
    blocks, analyser = list(capture), Analyser(Options())
    return lines_of(lambda: [*(list(analyser.feed(block)) for block in blocks), list(analyser.finish())])


@pytest.mark.parametrize("answered", [False, True])
def test_a_hole_costs_the_same_however_many_there_are(answered: bool) -> None:
    """Of a side whose version is not settled before the end, each segment is cut by the snap length."""

    def cut_segments(count: int) -> int:
        talk = Conversation()
        talk.send(0, b"\xff\0\0\0")
        for _ in range(count):
            talk.add(0, 0x18, b"\0")
            talk.packets[-1] = replace(talk.packets[-1], cut=1)
            talk.next[0] += 1
        if answered:
            talk.send(1, hello("PULL"))
        return steps(Capture(talk.packets))

    assert cut_segments(400) < 2.2 * cut_segments(200)


MAX_STEPS = 890
"""Lines of Python for each segment that was cut off."""


def test_a_cut_segment_takes_few_steps() -> None:
    """A snap length usually leaves the header and a few octets of each message."""

    def cut_segments(count: int) -> int:
        talk = connected("PUSH", "PULL")
        for number in range(count):
            talk.add(0, 0x18, b"\0\xf8%08d" % number)
            talk.packets[-1] = replace(talk.packets[-1], cut=240)
            talk.next[0] += 240
        return steps(Capture(talk.packets))

    assert (cut_segments(400) - cut_segments(200)) / 200 < MAX_STEPS


def breaking(messages: int, size: int | None = None) -> Capture:
    """A PULL that sends `messages` messages, ten in a packet; each breaks a rule of its socket type."""
    talk = connected("PULL", "PUSH")
    for _ in range(messages // 10):
        talk.add(0, 0x18, message(b"a") * 10)
    talk.close()
    return Capture(talk.packets, size or len(talk.packets))


def test_findings_on_messages_that_are_only_counted_take_no_steps_each() -> None:
    """Only the packet that contains ten of them takes steps."""
    assert (steps(breaking(4000)) - steps(breaking(2000))) / 200 < 20


@pytest.mark.parametrize("size", [1, 3, None])
def test_of_findings_on_messages_ten_are_written_and_the_rest_counted(size: int | None) -> None:
    batches = Analyser(Options()).run(breaking(120, size))
    found = [record.values for batch in batches for record in batch.records if record.values.get("id") == "PIPELINE-01"]
    start = len(hello("PULL"))
    assert [record["offset"] for record in found] == [start + 3 * row for row in (*range(10), 119)]
    assert [record["count"] for record in found] == [1] * 10 + [110]


def test_a_copy_of_what_waits_costs_the_same_however_much_waits() -> None:
    """Every second octet waits, one segment each; then all octets arrive repeatedly in one large segment."""

    def copies(waiting: int, count: int) -> int:
        talk = Conversation()
        first = talk.next[0]
        template = talk.packets[-1]
        for octet in range(1, waiting):
            talk.packets.append(replace(template, sequence=first + 2 * octet, payload=b"x"))
        talk.packets += [replace(template, sequence=first + 2, payload=bytes(2 * waiting))] * count
        return steps(Capture(talk.packets))

    few, many = (copies(waiting, 40) - copies(waiting, 20) for waiting in (100, 800))
    assert many < 1.2 * few


def peak(path: Path, *options: str) -> int:
    """Peak memory of reading a capture in a process of its own, in KiB."""
    # not ru_maxrss: a child begins with that of its parent
    code = (
        "import re, sys; from zmtpscope.cli import run; run(sys.argv[1:]);"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "read", *options, str(path)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, text=True)
    return int(done.stderr.split()[-1])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    sizes = {}
    for times in (1, 4):
        packets = [ethernet(packet) for packet in pushing(times * 10_000).packets]
        path = tmp_path / f"{times}.pcap"
        path.write_bytes(pcap(packets))
        sizes[times] = peak(path, "--json")
    assert sizes[4] < sizes[1] * 1.15, sizes


def test_a_frame_that_announces_2_to_the_62_costs_nothing() -> None:
    talk = pushing(10, b"\x02" + (1 << 62).to_bytes(8, "big"))
    tracemalloc.start()
    try:
        for _ in Analyser(Options()).run(Capture(talk.packets)):
            pass
        _, peak_octets = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_octets < 1 << 20
