"""Requests of a client to a proxy before ZMTP, and the answers: recognised once they are complete."""

from __future__ import annotations

import pytest

from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.proxies import Proxied, find_proxied

GREETING = build_greeting_3()
SOCKS_5 = b"\5\1\0" + b"\5\1\0\1" + bytes([10, 0, 0, 1]) + b"\x15\xb3", b"\5\0" + b"\5\0\0\1" + bytes(6)
LOGIN = (
    b"\5\2\0\2" + b"\1\2me\6secret" + b"\5\1\0\3\4host\x15\xb3",
    b"\5\2" + b"\1\0" + b"\5\0\0\4" + bytes(18),
)
PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([10, 0, 0, 9, 10, 0, 0, 1]) + b"\x9c\x40\x15\xb3"
PROXY_2_LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
CONNECT = b"CONNECT host:5555 HTTP/1.1\r\nHost: host:5555\r\n\r\n"

CASES: dict[str, tuple[bytes, bytes, str, str | None]] = {
    "PROXY v1": (b"PROXY TCP4 10.0.0.9 10.0.0.1 40000 5555\r\n", b"", "PROXY v1 for 10.0.0.9:40000", None),
    "PROXY v1, unknown": (b"PROXY UNKNOWN\r\n", b"", "PROXY v1 for an unnamed client", None),
    "PROXY v2": (PROXY_2, b"", "PROXY v2 for 10.0.0.9:40000", None),
    "PROXY v2, a health check": (PROXY_2_LOCAL, b"", "PROXY v2 for the proxy itself", None),
    "SOCKS5": (*SOCKS_5, "SOCKS5 to 10.0.0.1:5555", None),
    "SOCKS5 with a password": (*LOGIN, "SOCKS5 to host:5555", None),
    "SOCKS5, refused": (
        SOCKS_5[0],
        b"\5\0\5\5\0\1" + bytes(6),
        "SOCKS5 to 10.0.0.1:5555",
        "connection refused (reply 5)",
    ),
    "SOCKS5, wrong password": (
        LOGIN[0][:15],
        b"\5\2\1\1",
        "SOCKS5 to an endpoint not named yet",
        "wrong user name or password",
    ),
    "SOCKS4": (b"\4\1\x15\xb3\x0a\0\0\1me\0", b"\0\x5a" + bytes(6), "SOCKS4 to 10.0.0.1:5555", None),
    "SOCKS4A": (b"\4\1\x15\xb3\0\0\0\1\0host\0", b"\0\x5a" + bytes(6), "SOCKS4 to host:5555", None),
    "SOCKS4, refused": (
        b"\4\1\x15\xb3\x0a\0\0\1\0",
        b"\0\x5b" + bytes(6),
        "SOCKS4 to 10.0.0.1:5555",
        "refused or failed (reply 91)",
    ),
    "CONNECT": (CONNECT, b"HTTP/1.1 200 OK\r\n\r\n", "HTTP CONNECT to host:5555", None),
    "CONNECT, refused": (CONNECT, b"HTTP/1.1 403 Forbidden\r\n\r\n", "HTTP CONNECT to host:5555", "403 Forbidden"),
}


@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_a_complete_proxy_header_is_found(name: str, client: int) -> None:
    asked, answered, text, refusal = CASES[name]
    sides = [asked + GREETING, answered + GREETING] if refusal is None else [asked, answered]
    found = find_proxied(sides if client == 0 else sides[::-1])
    assert isinstance(found, Proxied)
    assert (found.client, found.text, found.refusal) == (client, text, refusal)
    sizes = len(asked), len(answered)
    assert found.sizes == (sizes if client == 0 else sizes[::-1])


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_decided_before(name: str) -> None:
    asked, answered, _, _ = CASES[name]
    for stop in range(1, len(asked)):
        assert find_proxied([asked[:stop], answered]) is True
    for stop in range(len(answered)):
        assert find_proxied([asked, answered[:stop]]) is True


@pytest.mark.parametrize(
    "sides",
    [
        (GREETING, GREETING),
        (b"\5\0name", b"\1\0"),
        (b"\4\1abc\1\0", b"\1\0"),
        (b"\5\1\0", GREETING),
        (b"PROXY of a kind\r\n", b""),
        (b"PROXY " + b"x" * 200, b""),
        (CONNECT, GREETING),
        (SOCKS_5[0], b"\5\0\5\x63\0"),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    ],
)
def test_other_octets_are_not_awaited_as_a_proxy_header(sides: tuple[bytes, bytes]) -> None:
    assert find_proxied(sides) is False
    assert find_proxied(sides[::-1]) is False


def test_octets_are_shown_up_to_a_password() -> None:
    """Secrets are masked wherever zmtpscope shows them; a proxy asks for one before ZMTP begins."""
    authorized = CONNECT[:-2] + b"Proxy-Authorization: Basic c2VjcmV0\r\n\r\n"
    cases = [(LOGIN, b"\6secret"), ((authorized, b"HTTP/1.1 200 OK\r\n\r\n"), b" Basic")]
    for (asked, answered), secret in cases:
        found = find_proxied([asked, answered])
        assert isinstance(found, Proxied)
        assert found.shown == (asked.index(secret), len(answered))
