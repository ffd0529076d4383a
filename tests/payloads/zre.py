"""ZRE commands as nodes send them (zre.md 4 and 5)."""

from __future__ import annotations

UUID = bytes(range(16))


def string(text: str, size: int = 1) -> bytes:
    octets = text.encode()
    return len(octets).to_bytes(size, "big") + octets


def command(id_: int, sequence: int, rest: bytes = b"", *, version: int = 2) -> bytes:
    """A command of version 2 or 3; version 1 has no version octet."""
    head = b"\xaa\xa1" + bytes([id_]) + (b"" if version == 1 else bytes([version]))
    return head + sequence.to_bytes(2, "big") + rest


def hello(
    name: str = "alice",
    groups: tuple[str, ...] = (),
    *,
    sequence: int = 1,
    status: int = 0,
    endpoint: str = "tcp://10.0.0.2:50000",
    headers: dict[str, str] | None = None,
    version: int = 2,
) -> bytes:
    entries = [string(key) + string(value, 4) for key, value in (headers or {}).items()]
    rest = string(endpoint) + len(groups).to_bytes(4, "big") + b"".join(string(group, 4) for group in groups)
    rest += bytes([status]) + string(name) + len(entries).to_bytes(4, "big") + b"".join(entries)
    return command(1, sequence, rest, version=version)


def whisper(sequence: int) -> bytes:
    return command(2, sequence)


def shout(sequence: int, group: str) -> bytes:
    return command(3, sequence, string(group))


def join(sequence: int, group: str, status: int) -> bytes:
    return command(4, sequence, string(group) + bytes([status]))


def leave(sequence: int, group: str, status: int) -> bytes:
    return command(5, sequence, string(group) + bytes([status]))


def ping(sequence: int) -> bytes:
    return command(6, sequence)


def ping_ok(sequence: int) -> bytes:
    return command(7, sequence)


def beacon(uuid: bytes = UUID, port: int = 50_000, *, version: int = 1, key: bytes = b"") -> bytes:
    return b"ZRE" + bytes([version]) + uuid + port.to_bytes(2, "big") + key
