"""Headers of proxies before ZMTP: PROXY protocol (v1, v2), SOCKS 4 and 5 (RFC 1928, RFC 1929), HTTP CONNECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from zmtpscope.records import to_text
from zmtpscope.words import host_port

PROXY_1 = b"PROXY "
LONGEST_PROXY_1 = 107
PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n"
CONNECT = b"CONNECT "
HTTP = b"HTTP/1."
AUTHORIZATION = b"\nproxy-authorization:"
HEAD_END = b"\r\n\r\n"
LONGEST_HEAD = 8192

SOCKS_4_REPLIES = {91: "refused or failed", 92: "no identd at the client", 93: "identd names another user"}
SOCKS_5_REPLIES = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


class Proxied(NamedTuple):
    """A connection through a proxy, or one with a PROXY header.

    - `protocol`: such as "SOCKS5"
    - `client`: the side that asked the proxy, 0 or 1
    - `sizes`: how many octets of each side precede ZMTP
    - `shown`: how many of them precede any password
    - `target`: the endpoint to connect to; of the PROXY protocol, the endpoint of the client
    - `refusal`: the proxy's reason, or None
    """

    protocol: str
    client: int
    sizes: tuple[int, int]
    shown: tuple[int, int]
    target: str
    refusal: str | None = None

    @property
    def is_header(self) -> bool:
        """Whether this is a header of the PROXY protocol, which has no answer."""
        return self.protocol.startswith("PROXY")

    @property
    def text(self) -> str:
        """The proxy and the endpoint, such as `SOCKS5 to 10.0.0.1:5555` or `PROXY v1 for 10.0.0.2:40000`."""
        return f"{self.protocol} {'for' if self.is_header else 'to'} {self.target}"


class _Cut(Exception):
    """More octets are needed to parse the header of a proxy."""


class _Octets:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self._secret: int | None = None

    def hide(self, at: int) -> None:
        self._secret = at

    @property
    def shown(self) -> int:
        return self.at if self._secret is None else self._secret

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise _Cut
        self.at += size
        return self.data[self.at - size : self.at]

    def until(self, end: bytes, longest: int) -> bytes:
        stop = self.data.find(end, self.at, self.at + longest)
        if stop < 0:
            if len(self.data) - self.at >= longest:
                raise ValueError
            raise _Cut
        taken, self.at = self.data[self.at : stop], stop + len(end)
        return taken


def find_proxied(prefixes: Sequence[bytes]) -> Proxied | bool:
    """Return the proxy headers in the first octets of both sides.

    Returns True if more octets are needed, and False if there are no proxy headers.
    """
    may_be = False
    for client in (0, 1):
        asked, answered = prefixes[client], prefixes[1 - client]
        for begins, read in READERS:
            if not asked or asked[: len(begins)] != begins[: len(asked)]:
                continue
            one, other = _Octets(asked), _Octets(answered)
            try:
                protocol, target, refusal = read(one, other)
            except _Cut:
                may_be = True
            except ValueError:
                continue
            else:
                both = (one, other) if client == 0 else (other, one)
                sizes, shown = (both[0].at, both[1].at), (both[0].shown, both[1].shown)
                return Proxied(protocol, client, sizes, shown, target, refusal)
    return may_be


Read = tuple[str, str, str | None]
"""Protocol, target, refusal or None."""


def _proxy_1(client: _Octets, server: _Octets) -> Read:
    words = client.until(b"\r\n", LONGEST_PROXY_1).split(b" ")
    if len(words) == 6 and words[1] in (b"TCP4", b"TCP6"):
        return "PROXY v1", f"{to_text(words[2])}:{to_text(words[4])}", None
    if len(words) > 1 and words[1] == b"UNKNOWN":
        return "PROXY v1", "an unnamed client", None
    raise ValueError


def _proxy_2(client: _Octets, server: _Octets) -> Read:
    client.take(len(PROXY_2))
    command, family = client.take(2)
    addresses = client.take(int.from_bytes(client.take(2)))
    if command not in (0x20, 0x21):
        raise ValueError
    size = {0x11: 4, 0x21: 16}.get(family) if command == 0x21 else None
    if size is None or len(addresses) < 2 * size + 4:
        return "PROXY v2", "the proxy itself", None
    return "PROXY v2", _address(addresses[:size], addresses[2 * size : 2 * size + 2]), None


def _address(ip: bytes, port: bytes) -> str:
    from ipaddress import ip_address  # loaded on demand

    return host_port(str(ip_address(ip)), int.from_bytes(port))


def _named(name: bytes, port: bytes) -> str:
    return f"{to_text(name)}:{int.from_bytes(port)}"


def _socks_4(client: _Octets, server: _Octets) -> Read:
    _expect(server, b"\0")
    client.take(2)
    port, ip = client.take(2), client.take(4)
    client.until(b"\0", 256)
    is_name = ip[:3] == b"\0\0\0" and ip[3] != 0
    target = _named(client.until(b"\0", 256), port) if is_name else _address(ip, port)
    reply = server.take(8)[1]
    if reply == 90:
        return "SOCKS4", target, None
    if reply not in SOCKS_4_REPLIES:
        raise ValueError
    return "SOCKS4", target, f"{SOCKS_4_REPLIES[reply]} (reply {reply})"


def _socks_5(client: _Octets, server: _Octets) -> Read:
    _expect(server, b"\5")
    client.take(1)
    methods = client.take(client.take(1)[0])
    if not methods:
        raise ValueError
    _, method = server.take(2)
    if method == 0xFF:
        return "SOCKS5", "an endpoint not named yet", "no common authentication method"
    if method not in methods or method not in (0, 2):
        raise ValueError
    if method == 2:
        client.take(1)
        client.take(client.take(1)[0])
        client.hide(client.at)
        client.take(client.take(1)[0])
        if server.take(2)[1]:
            return "SOCKS5", "an endpoint not named yet", "wrong user name or password"
    if client.take(3)[:2] != b"\5\1":
        raise ValueError
    target = _socks_5_address(client)
    begins = server.take(3)
    if begins[0] != 5 or (begins[1] and begins[1] not in SOCKS_5_REPLIES):
        raise ValueError
    _socks_5_address(server)
    return "SOCKS5", target, f"{SOCKS_5_REPLIES[begins[1]]} (reply {begins[1]})" if begins[1] else None


def _socks_5_address(octets: _Octets) -> str:
    kind = octets.take(1)[0]
    if kind == 3:
        return _named(octets.take(octets.take(1)[0]), octets.take(2))
    if kind not in (1, 4):
        raise ValueError
    return _address(octets.take(4 if kind == 1 else 16), octets.take(2))


def _connect(client: _Octets, server: _Octets) -> Read:
    _expect(server, HTTP)
    head = client.until(HEAD_END, LONGEST_HEAD)
    if (credentials := head.lower().find(AUTHORIZATION)) >= 0:
        client.hide(credentials + len(AUTHORIZATION))
    words = head.partition(b"\r\n")[0].split(b" ")
    status = server.until(HEAD_END, LONGEST_HEAD).partition(b"\r\n")[0].split(b" ", 1)
    if len(words) != 3 or len(status) != 2:
        raise ValueError
    return "HTTP CONNECT", to_text(words[1]), None if status[1].startswith(b"2") else to_text(status[1])


def _expect(server: _Octets, begins: bytes) -> None:
    if server.data[: len(begins)] != begins[: len(server.data)]:
        raise ValueError


READERS: tuple[tuple[bytes, Callable[[_Octets, _Octets], Read]], ...] = (
    (PROXY_1, _proxy_1),
    (PROXY_2, _proxy_2),
    (CONNECT, _connect),
    (b"\5", _socks_5),
    (b"\4\1", _socks_4),
)
"""Parsers by the first octets of a client."""
