"""Compares our rows with those of tshark, and the messages of a capture with losses with those sent.

    python -m benchmarks.rows same CAPTURE TSHARK [PARQUET]
    python -m benchmarks.rows lost WHOLE DAMAGED
    python -m benchmarks.rows opened CAPTURE KEYS

`same` compares each frame: packet, connection, sender, flags, size and body. `lost` counts whole messages found,
missing and invented. `opened` counts the messages that the keys decrypt. Prints JSON. It is a process of its own,
because it needs memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from benchmarks.measure import environment
from benchmarks.tools import PORT, ZMTPSCOPE

LONG, COMMAND, MORE = 2, 4, 1
GREETING = 0xFF
"""What tshark reports as the flags of a greeting: the first octet of its signature."""

MAX_DIFFERENCES = 5


class Frame(NamedTuple):
    """One message frame. `packet` is that of its last octet if it is the last of its message, else 0."""

    sender: tuple[int, int]
    """Number of the connection, from 0, and the sender's port."""
    flags: int
    body: bytes
    packet: int


class Digests:
    """A digest of the frames of each sender, in order."""

    def __init__(self, frames: Iterable[Frame]) -> None:
        self.count = 0
        digests: dict[tuple[int, int], Any] = {}
        for sender, flags, body, packet in frames:
            self.count += 1
            if sender not in digests:
                digests[sender] = blake2b(digest_size=16)
            digests[sender].update(b"%d %d %d " % (flags, len(body), packet) + body)
        self.of = {sender: digest.hexdigest() for sender, digest in digests.items()}

    def differences(self, other: Digests) -> list[str]:
        """Describe the first few differences."""
        senders = sorted(self.of.keys() | other.of.keys())
        wrong = [sender for sender in senders if self.of.get(sender) != other.of.get(sender)]
        words = [f"connection {conn + 1}, sender with port {port}" for conn, port in wrong[:MAX_DIFFERENCES]]
        return words + [f"{len(wrong)} senders of {len(senders)}"] * bool(wrong)


def message_frames(conn: int, port: int, packet_end: int, bodies: list[bytes]) -> Iterator[Frame]:
    """Yield the frames of one of our message rows; on the wire each has its shortest form."""
    for left, body in zip(range(len(bodies) - 1, -1, -1), bodies, strict=True):
        flags = (MORE if left else 0) | (LONG if len(body) > 255 else 0)
        yield Frame((conn - 1, port), flags, body, 0 if left else packet_end)


def rows_of_json(path: str, *options: str) -> Iterator[dict[str, Any]]:
    """Yield our message rows."""
    for line in output_lines([ZMTPSCOPE, "read", "--json", *options, path]):
        if b'"record":"message"' in line:
            yield orjson.loads(line)


def frames_of_json(path: str) -> Iterator[Frame]:
    """Yield the frames of our message rows from JSON lines."""
    for row in rows_of_json(path):
        bodies = [a2b_base64(body) for body in row["bodies"]]
        yield from message_frames(row["conn"], row["src_port"], row["packet_end"], bodies)


def frames_of_parquet(folder: str) -> Iterator[Frame]:
    """Yield the frames of our message rows from Parquet."""
    import pyarrow.parquet

    columns = ["conn", "src_port", "packet_end", "bodies"]
    file = pyarrow.parquet.ParquetFile(Path(folder) / "messages.parquet")
    for batch in file.iter_batches(columns=columns):
        for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
            yield from message_frames(*row)


def frames_of_tshark(program: str, path: str) -> Iterator[Frame]:
    """Yield the message frames that tshark prints."""
    fields = ("frame.number", "tcp.stream", "tcp.srcport", "zmtp.flags", "zmtp.length", "zmtp.data")
    command = [program, "-n", "-r", path, "-d", f"tcp.port=={PORT},zmtp", "-Y", "zmtp", "-T", "fields"]
    for line in output_lines([*command, *(word for field in fields for word in ("-e", field))]):
        yield from frames_of_line(line.decode())


def frames_of_line(line: str) -> Iterator[Frame]:
    """Yield the message frames of one packet from lists of flags, sizes and bodies; empty frames and commands have no
    body."""
    packet, stream, port, all_flags, all_sizes, data = line.rstrip("\n").split("\t")
    flags_of_frames = [int(word, 16) for word in all_flags.split(",") if word]
    sizes, bodies = iter(all_sizes.split(",")), iter(data.split(","))
    for flags in flags_of_frames:
        if flags == GREETING:
            continue
        size = int(next(sizes))
        if flags & COMMAND:
            continue
        body = bytes.fromhex(next(bodies)) if size else b""
        yield Frame((int(stream), int(port)), flags, body, 0 if flags & MORE else int(packet))


def output_lines(command: list[str]) -> Iterator[bytes]:
    """Yield the output of a command, line by line."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()) as process:
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")


def same(path: str, tshark: str, parquet: str | None = None) -> dict[str, Any]:
    """Compare our rows with those of tshark."""
    theirs = Digests(frames_of_tshark(tshark, path))
    ours = {"json": Digests(frames_of_json(path))}
    if parquet is not None:
        ours["parquet"] = Digests(frames_of_parquet(parquet))
    return {
        "frames": theirs.count,
        "frames by us": {name: digests.count for name, digests in ours.items()},
        "differences": {name: digests.differences(theirs) for name, digests in ours.items()},
    }


def lost(whole: str, damaged: str) -> dict[str, int]:
    """Compare the messages complete in a capture with losses with those of the capture without."""

    def complete(path: str) -> set[bytes]:
        names = ("conn", "side", "offset", "bodies")
        rows = (row for row in rows_of_json(path) if row["complete"])
        return {blake2b(orjson.dumps([row[name] for name in names]), digest_size=12).digest() for row in rows}

    sent, found = complete(whole), complete(damaged)
    return {"sent": len(sent), "found": len(sent & found), "missing": len(sent - found), "invented": len(found - sent)}


def opened(path: str, keys: str) -> dict[str, int]:
    """Count the messages that a key log decrypts."""
    return {"opened": sum(bool(row["decrypted"]) for row in rows_of_json(path, "--keys", keys))}


if __name__ == "__main__":
    told: dict[str, Callable[..., dict[str, Any]]] = {"same": same, "lost": lost, "opened": opened}
    print(json.dumps(told[sys.argv[1]](*sys.argv[2:])))
