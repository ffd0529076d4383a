"""Captures as a rotating capture leaves them: cut into several files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.capture.containers import Packet, pcap, pcapng
from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.statistics import FileReports


def packets_of(path: Path) -> list[Packet]:
    packets = []
    for block in CaptureFile(str(path)).blocks(1 << 20, FileReports()):
        for start, stop, missing, time, link in zip(
            block.starts, block.stops, block.missing, block.times, block.links, strict=True
        ):
            octets = block.data[start:stop]
            packets.append(Packet(octets, int(time), int(link), len(octets) + int(missing)))
    return packets


def write(packets: Sequence[Packet], path: Path) -> None:
    """A capture of these packets: pcap, or pcapng where they are of several link layers."""
    mixed = len({packet.link for packet in packets}) > 1
    path.write_bytes(pcapng(packets) if mixed else pcap(packets, nanoseconds=True))


def rotate(path: Path, folder: Path, cuts: Sequence[int]) -> list[Path]:
    """Write the packets of a capture to files of a folder, cut at these places; empty files are left out."""
    packets = packets_of(path)
    places = sorted({0, len(packets), *(cut for cut in cuts if cut < len(packets))})
    files = []
    for number, (begin, end) in enumerate(pairwise(places)):
        files.append(folder / f"{path.stem}-{number:05}.pcap")
        write(packets[begin:end], files[-1])
    return files
