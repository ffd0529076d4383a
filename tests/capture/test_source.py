"""Sources of octets: files, pipes, standard input, compressed streams; and their error messages."""

from __future__ import annotations

import gzip
import importlib
import os
import random
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest

from tests.capture.containers import Packet, captures_of, pcap, pcapng, read, tcp_packet
from zmtpscope.capture import CaptureError, open_captures, source
from zmtpscope.capture.errors import TOO_MANY_RECORDS

PACKETS = [Packet(tcp_packet(40 + size, bytes(size)), time=size * 1000) for size in range(200)]
FILE = pcap(PACKETS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(FILE)
    return path


def test_a_fifo_is_read_without_seeking(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(FILE,))
    writer.start()
    result = read(open_captures([str(path)]))
    writer.join()
    assert result == read(open_captures([str(file)]))


def test_a_pipe_is_read_in_blocks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe returns 64 KiB at a time for any requested size."""
    monkeypatch.setattr(source, "GATHER_SECONDS", 60)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    octets = FILE + FILE[24:] * 60
    writer = threading.Thread(target=path.write_bytes, args=(octets,))
    writer.start()
    blocks = [len(block.data) for block in open_captures([str(path)], block_size=1 << 20)]
    writer.join()
    assert len(blocks) <= 1 + len(octets) // (1 << 20)


def test_octets_of_a_pipe_are_returned_while_its_writer_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    is_informed = threading.Event()

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            pipe.write(FILE[:-1])
            is_informed.wait(60)
            pipe.write(FILE[-1:])

    writer = threading.Thread(target=write)
    writer.start()
    blocks = iter(open_captures([str(path)]))
    assert len(next(blocks)) < 200
    is_informed.set()
    assert sum(len(block) for block in blocks) > 0
    writer.join()


READ_STDIN = """
import sys
from zmtpscope.capture import open_captures
captures = open_captures(["-"])
print(captures.files, sum(len(block) for block in captures), captures.problems)
"""


@pytest.mark.parametrize("content", [FILE, pcapng(PACKETS), gzip.compress(FILE)], ids=["pcap", "pcapng", "gzip"])
def test_standard_input_is_a_file_without_a_name(content: bytes) -> None:
    done = subprocess.run([sys.executable, "-c", READ_STDIN], input=content, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[None] 200 []"


def test_standard_input_can_be_read_once() -> None:
    with pytest.raises(CaptureError, match="standard input: can be read only once"):
        open_captures(["-", "-"])


@pytest.mark.parametrize(
    "compress", [gzip.compress, lambda octets: gzip.compress(octets[:999]) + gzip.compress(octets[999:])]
)
@pytest.mark.parametrize("block_size", [64, 1 << 20])
def test_gzip_is_recognised_by_its_octets(tmp_path: Path, file: Path, block_size: int, compress: object) -> None:
    """The name of the file does not matter, nor the number of members, nor padding after them."""
    assert callable(compress)
    packed = captures_of(tmp_path, compress(FILE) + bytes(512), block_size=block_size)
    assert read(packed) == read(open_captures([str(file)]))
    assert packed.problems == []


@pytest.mark.parametrize("block_size", [64, 4096, 1 << 20])
def test_a_gzip_stream_that_is_cut_gives_what_is_in_front_of_the_cut(tmp_path: Path, block_size: int) -> None:
    noise = [Packet(tcp_packet(1040, random.randbytes(1000)), time=1) for _ in range(300)]
    packed = gzip.compress(pcap(noise))
    captures = captures_of(tmp_path, packed[: len(packed) // 2], block_size=block_size)
    segments, _ = read(captures)
    (problem,) = captures.problems
    assert 145 < len(segments) < 155
    assert (problem.packet, problem.offset) == (len(segments), 24 + len(segments) * (16 + 54 + 1000))
    assert problem.text == "the compressed stream is damaged: it is truncated"


@pytest.mark.parametrize("block_size", [64, 4096, 1 << 20])
def test_a_gzip_stream_with_a_wrong_checksum_gives_everything_and_a_problem(tmp_path: Path, block_size: int) -> None:
    packed = bytearray(gzip.compress(FILE))
    packed[-5] ^= 1
    captures = captures_of(tmp_path, bytes(packed), block_size=block_size)
    segments, _ = read(captures)
    (problem,) = captures.problems
    assert (len(segments), problem.packet, problem.offset) == (200, 200, len(FILE))
    assert problem.text.startswith("the compressed stream is damaged: ")


@pytest.mark.parametrize("block_size", [4096, 1 << 20])
def test_a_damaged_gzip_stream_gives_every_octet_in_front_of_the_damage(tmp_path: Path, block_size: int) -> None:
    """Also if one read returns octets and meets the damage; octets after the damage are not invented."""
    packer = zlib.compressobj(wbits=31)
    good = packer.compress(FILE) + packer.flush(zlib.Z_FULL_FLUSH)
    no_block = b"\xff"
    captures = captures_of(tmp_path, good + no_block + random.randbytes(500_000), block_size=block_size)
    segments, _ = read(captures)
    (problem,) = captures.problems
    assert (len(segments), problem.packet, problem.offset) == (200, 200, len(FILE))
    assert problem.text.startswith("the compressed stream is damaged: ")


@pytest.mark.parametrize("cut", range(20))
def test_what_a_cut_gzip_stream_gives_does_not_depend_on_the_size_of_reads(tmp_path: Path, cut: int) -> None:
    """Octets that are unpacked and had no room in the read before belong to it, too."""
    path = tmp_path / "cut"
    dice = random.Random(cut)
    octets = b"".join(bytes([dice.randrange(4)]) * dice.randrange(1, 400) for _ in range(300))
    packed = gzip.compress(octets)
    path.write_bytes(packed[: dice.randrange(20, len(packed))])
    found = set()
    for size in (1, 7, 64, 1000, 1 << 20):
        reading = source.open_source(str(path))
        found.add(b"".join(iter(lambda reading=reading, size=size: reading.read(size), b"")))  # type: ignore[misc]
        assert reading.damage is not None
        reading.close()
    assert len(found) == 1


EMPTY_BLOCK = (0x12345678).to_bytes(4, "little") + (12).to_bytes(4, "little") * 2


@pytest.mark.parametrize("block_size", [50_000, 1 << 20])
@pytest.mark.parametrize(
    ("front", "record", "packets"),
    [(FILE, bytes(16), True), (pcapng(PACKETS), EMPTY_BLOCK, False)],
    ids=["pcap", "pcapng"],
)
def test_a_packed_file_that_is_nothing_but_records_ends_at_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, front: bytes, record: bytes, packets: bool, block_size: int
) -> None:
    monkeypatch.setattr(source, "RECORDS", 1000)
    unpacked = front + record * 100_000
    packed = gzip.compress(unpacked, 9)
    most = 1000 + source.RECORDS_PER_OCTET * len(packed)
    captures = captures_of(tmp_path, packed, block_size=block_size)
    segments, _ = read(captures)
    (problem,) = captures.problems
    assert len(segments) == 200
    assert problem.text == TOO_MANY_RECORDS
    others = 2 if front is not FILE else 0  # section and interface
    assert problem.offset == len(front) + (most - 200 - others) * len(record)
    assert problem.packet == (most if packets else 200)
    plain = captures_of(tmp_path, unpacked, block_size=block_size)
    assert len(read(plain)[0]) == 200
    assert plain.problems == []


def test_a_gzip_bomb_costs_a_block_at_a_time(tmp_path: Path) -> None:
    """A block of a compressed stream is unpacked at a time, not the whole."""
    packer = zlib.compressobj(9, wbits=31)
    file = packer.compress(FILE)
    file += b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    path = tmp_path / "bomb"
    path.write_bytes(file)
    code = f"""
import resource
from zmtpscope.capture import open_captures
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
captures = open_captures([{str(path)!r}], packet_limit=300)
for block in captures: assert len(block.data) < 3 << 20
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert int(done.stdout) < 32 << 10


def test_zstd_is_read_where_its_module_is_installed(tmp_path: Path, file: Path) -> None:
    compressed = importlib.import_module("zstandard").compress(FILE)
    assert read(captures_of(tmp_path, compressed)) == read(open_captures([str(file)]))


def test_a_damaged_zstd_stream_gives_the_same_for_reads_of_any_size(tmp_path: Path) -> None:
    """All octets before the damage are read, except the last ones."""
    octets = FILE + FILE[24:] * 3
    damaged = bytearray(importlib.import_module("zstandard").ZstdCompressor(write_checksum=True).compress(octets))
    damaged[-1] ^= 1
    found = []
    for block_size in (1, 1000, 1 << 20):
        captures = captures_of(tmp_path, bytes(damaged), block_size=block_size)
        segments, _ = read(captures)
        (problem,) = captures.problems
        assert "the compressed stream is damaged" in problem.text
        assert problem.packet == len(segments)
        assert len(octets) - problem.offset < 2 * source.STEP
        found.append(segments)
    assert found[0] == found[1] == found[2]


def test_zstd_without_a_module_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CaptureError, match=r"is compressed with zstd.*; install the Python package zstandard"):
        captures_of(tmp_path, b"\x28\xb5\x2f\xfd" + bytes(20))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; even a capture without packets has a header"),
        (b"{}", "is not a capture: neither pcap nor pcapng begins with 7b 7d"),
        (b"#!/bin/sh\necho hello\n", "is not a capture: neither pcap nor pcapng begins with 23 21 2f 62"),
        (b"snoop\0\0\0" + bytes(30), "is a Solaris snoop file; only pcap and pcapng are read"),
        (b"\x0a\x0d\x0d\x0a" + bytes(30), "is not a capture"),
        (gzip.compress(b"a diary", mtime=0), "is not a capture: neither pcap nor pcapng begins with 61 20 64 69"),
        (gzip.compress(FILE, mtime=0)[:10], "the compressed stream is damaged"),
    ],
)
def test_a_file_that_is_no_capture_is_reported_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(CaptureError) as caught:
        captures_of(tmp_path, content)
    assert str(caught.value).startswith(str(tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"missing\.pcap: no such file") as caught:
        open_captures([str(tmp_path / "missing.pcap")])
    assert caught.value.path == str(tmp_path / "missing.pcap")


def test_a_file_that_may_not_be_read_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CaptureError, match=r"a\.pcap: permission denied"):
        open_captures([str(file)])


@pytest.mark.parametrize("name", ["with\0zero", "x" * 5000])
def test_an_impossible_name_is_an_error_like_others(name: str) -> None:
    with pytest.raises(CaptureError, match="cannot be opened"):
        open_captures([name])


def test_a_file_that_vanishes_after_it_was_checked_is_a_problem(file: Path) -> None:
    captures = open_captures([str(file)])
    file.unlink()
    assert read(captures) == ([], [])
    assert [problem.text for problem in captures.problems] == ["no such file"]


def test_an_input_error_while_reading_is_a_problem(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures = open_captures([str(file)], block_size=1000)
    real = os.read
    left = [8]

    def fail(descriptor: int, size: int) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(5, "Input/output error")
        return real(descriptor, size)

    monkeypatch.setattr(os, "read", fail)
    segments, _ = read(captures)
    monkeypatch.undo()
    assert 0 < len(segments) < 200
    assert captures.problems[0].text == "reading failed: Input/output error"
    assert captures.problems[0].packet == len(segments)


@pytest.mark.parametrize("octets", range(4, 24))
def test_a_file_that_ends_inside_its_header_is_cut_short(tmp_path: Path, octets: int) -> None:
    captures = captures_of(tmp_path, FILE[:octets])
    assert read(captures) == ([], [])
    (problem,) = captures.problems
    assert (problem.packet, problem.offset) == (0, 0)
    assert problem.text == f"the file ends inside its header, after {octets} of 24 octets"
    assert "(before the first packet, octet 0)" in str(problem)


@pytest.mark.parametrize("missing", [1, 16, 90, 253])
def test_a_file_that_ends_inside_a_packet_is_cut_short(tmp_path: Path, missing: int) -> None:
    captures = captures_of(tmp_path, FILE[:-missing])
    segments, _ = read(captures)
    assert len(segments) == 199
    (problem,) = captures.problems
    last = 16 + 54 + 199
    assert (problem.packet, problem.offset) == (199, len(FILE) - last)
    assert problem.text == f"the file ends inside a packet, after {last - missing} octets of it"


def test_a_capture_without_packets_is_no_error(tmp_path: Path) -> None:
    captures = captures_of(tmp_path, pcap([]))
    assert read(captures) == ([], [])
    assert captures.problems == []


@pytest.mark.parametrize("limit", [0, 1, 50, 199, 200, 1000])
def test_a_packet_limit_ends_the_reading(file: Path, limit: int) -> None:
    captures = open_captures([str(file), str(file)], packet_limit=limit, block_size=1000)
    segments, _ = read(captures)
    assert len(segments) == captures.statistics.packets == min(limit, 400)
