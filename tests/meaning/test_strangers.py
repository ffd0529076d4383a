"""Who is no peer: told apart from peers that are too late, too slow or in trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meaning.talking import CLIENT, SERVER, Talk
from tests.meaning.telling import told, told_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("negative/port-scan", "10.77.0.2 looks for open ports: it tried 7 of 10.77.0.1"),
        ("problems/scanner", "10.0.0.3 looks for open ports: it tried 9 of 10.0.0.1"),
        ("problems/health-check", "10.0.0.3 connects to 10.0.0.1:5555 and leaves without a word, 6 times"),
    ],
)
def test_who_looks_in(captures: Path, name: str, words: str) -> None:
    found = told(captures / f"{name}.pcap")
    assert list(found) == ["scanner"]
    assert words in found["scanner"].text


@pytest.mark.parametrize("name", ["problems/short-visits", "unreachable/server-down"])
def test_who_is_a_client(captures: Path, name: str) -> None:
    assert "scanner" not in told(captures / f"{name}.pcap")


@pytest.mark.parametrize(
    ("octets", "speaks"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"*1\r\n$4\r\nPING\r\n", "RESP (Redis)"),
        (b"\x99\x99\x99\x99", "something else"),
    ],
)
def test_who_speaks_something_else(octets: bytes, speaks: str) -> None:
    (diagnosis,) = told_of(Talk(0).greet(SERVER).say(CLIENT, octets).close(CLIENT)).values()
    assert diagnosis.rule == "foreign-client"
    assert diagnosis.text == f"10.0.0.2 speaks {speaks} to 10.0.0.1:5555, which is ZeroMQ"


def test_a_server_that_speaks_something_else() -> None:
    (diagnosis,) = told_of(Talk(0).greet(CLIENT).say(SERVER, b"HTTP/1.1 400 Bad Request\r\n\r\n").close(1)).values()
    assert diagnosis.text == "10.0.0.1:5555 speaks HTTP, and 10.0.0.2 connects to it as to ZeroMQ"
