"""Parse analyser options from text, for command lines and for Spark options.

All functions raise `ValueError` with a one-sentence message for users. Light to import: other parts are imported when
needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypedDict

from zmtpscope.records import from_text

SCALE = {"": 1, "k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
VERSIONS = ("1.0", "2.0", "3.0", "3.1")
DURATIONS_NS = {"us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
SELECTORS = ("tcp.port", "udp.port", "conn", "topic")
LAST_PORT = 65535
BODY_FORMS = ("auto", "text", "hex", "payload")
"""Forms of bodies: text if printable, else hex; always text; always hex; as decoded by payload dissectors."""


class Body(NamedTuple):
    """Value of the option `--body`: which octets of message bodies to keep ("full", "head" or "none"), and how many."""

    keep: str
    octets: int | None

    def options(self) -> dict[str, Any]:
        number = {} if self.octets is None else {{"full": "body_limit", "head": "head"}[self.keep]: self.octets}
        return {"bodies": self.keep, **number}


FULL = Body("full", None)


class DecodeAs(NamedTuple):
    """A rule of `-d SELECTOR,zmtp[/VERSION[/MECHANISM[/TYPE]]][:PAYLOAD]`.

    A rule forces zmtpscope to read connections or datagrams as ZMTP regardless of their first octets, or selects a
    payload dissector for them or for a topic.

    - `selector`: "tcp.port", "udp.port", "conn" or "topic"
    - `value`: the port, the connection number or the topic
    - `payload`: name and argument of a dissector
    - `socket_type`: type of the side with the port, if its handshake was not captured
    """

    selector: str
    value: int | bytes
    version: str | None = None
    mechanism: str | None = None
    payload: tuple[str, str | None] | None = None
    socket_type: str | None = None

    def matches(self, conn: int, ports: tuple[int, int]) -> bool:
        return self.value == conn if self.selector == "conn" else self.selector == "tcp.port" and self.value in ports

    def socket_types(self, ports: tuple[int, int]) -> tuple[str | None, str | None]:
        """Return the socket types of both sides of a connection with these ports.

        The side with the port has the rule's type, the other side its usual partner type, if there is one. Both are
        None if the rule has no type, or if both sides have the port.
        """
        if self.socket_type is None or ports[0] == ports[1]:
            return None, None
        from zmtpscope.zmtp.socket_types import USUAL_PARTNERS

        partner = USUAL_PARTNERS.get(self.socket_type)
        return (self.socket_type, partner) if self.value == ports[0] else (partner, self.socket_type)


def parse_body(text: str) -> Body:
    """Parse `full[:LIMIT]`, `head:N` or `none`; numbers can end in k, M or G."""
    match = re.fullmatch(r"(full|head|none)(?::([0-9]+)([kKMG]?))?", text)
    if match is None or (match[1] == "head" and not match[2]) or (match[1] == "none" and match[2]):
        raise ValueError(f"{text!r} is none of full, full:LIMIT, head:N and none; try full:64k or head:100")
    return Body(match[1], int(match[2]) * SCALE[match[3]] if match[2] else None)


def parse_duration(text: str) -> int:
    """Parse a duration such as `1s`, `100ms`, `1.5min`, or a number of seconds; return nanoseconds."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([a-z]*)", text)
    if match is None or (match[2] and match[2] not in DURATIONS_NS):
        raise ValueError(f"{text!r} is no length of time; write a number and one of {', '.join(DURATIONS_NS)}: 100ms")
    return round(float(match[1]) * DURATIONS_NS[match[2] or "s"])


def parse_decode_as(text: str) -> DecodeAs:
    """Parse `SELECTOR==VALUE,zmtp[/VERSION[/MECHANISM[/TYPE]]][:PAYLOAD[/ARGUMENT]]`.

    SELECTOR is tcp.port, udp.port, conn or topic. An empty part before another part is not set: `zmtp///PUB` sets only
    the type.
    """
    match = re.fullmatch(r"(.*?)==(.*),zmtp((?:/[^/:]*){0,3})(?::([^/]+)(?:/(.+))?)?", text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form tcp.port==5555,zmtp/3.1/NULL/PUB:json")
    selector, number, protocol, name, argument = match.groups()
    words = protocol.split("/")[1:]
    if words and not words[-1]:
        raise ValueError(f"{text!r}: something has to follow the last /, as in tcp.port==5555,zmtp/3.1/NULL/PUB")
    version, mechanism, socket_type = [word or None for word in [*words, "", "", ""][:3]]
    if mechanism is not None and version is None:
        raise ValueError(f"{text!r}: a mechanism needs the version in front of it, as in zmtp/3.1/{mechanism}")
    if selector not in SELECTORS:
        raise ValueError(f"{selector!r} selects nothing; tcp.port==N, udp.port==N, conn==N and topic==TEXT do")
    payload = None
    if name is not None:
        payload = known_payload(name), argument
    if selector == "topic":
        if payload is None:
            raise ValueError(f"{text!r}: name the payload of the topic, as in topic=={number},zmtp:json")
        return DecodeAs(selector, from_text(number), payload=payload)
    if re.fullmatch("[0-9]{1,9}", number) is None:
        raise ValueError(f"{selector}=={number}: a number is needed")
    if selector != "conn" and int(number) > LAST_PORT:
        raise ValueError(f"{selector}=={number}: ports go from 0 to {LAST_PORT}")
    if selector == "conn" and not int(number):
        raise ValueError(f"{selector}=={number}: connections are counted from 1")
    if version is not None and version not in VERSIONS:
        raise ValueError(f"there is no ZMTP {version}; there are {', '.join(VERSIONS)}")
    if mechanism is not None and mechanism not in (known := _mechanisms()):
        raise ValueError(f"the mechanism {mechanism!r} is not known; {', '.join(known)} are")
    if socket_type is not None:
        socket_type = _known_type(socket_type)
        if selector != "tcp.port":
            raise ValueError(f"{selector}=={number}: only a port says which side is {socket_type}; name it by tcp.port")
    return DecodeAs(selector, int(number), version, mechanism, payload, socket_type)


def parse_payload(text: str) -> str:
    """Return `text` if it is `auto`, `off`, or the name of a payload dissector; otherwise raise `ValueError`."""
    return text if text in ("auto", "off") else known_payload(text)


def known_payload(name: str) -> str:
    from zmtpscope.payloads.registry import names  # searches for installed dissectors

    if name not in (known := names()):
        raise ValueError(f"there is no payload dissector {name!r}{nearest(name, known)}")
    return name


def _known_type(name: str) -> str:
    from zmtpscope.zmtp.socket_types import PEERS

    if name.upper() not in PEERS:
        raise ValueError(f"there is no socket type {name!r}{nearest(name.upper(), PEERS)}")
    return name.upper()


def _mechanisms() -> list[str]:
    from zmtpscope.zmtp.mechanisms import MECHANISMS

    return list(MECHANISMS)


class ReadOptions(NamedTuple):
    """Options that users give as text: on a command line, in Python, and in Spark."""

    body: Body = FULL
    payload: str = "auto"
    decode_as: tuple[DecodeAs, ...] = ()


class ReadTexts(TypedDict, total=False):
    """The options of `ReadOptions` as texts, by field name."""

    body: str
    payload: str
    decode_as: str | Sequence[str]


class ReadOption(NamedTuple):
    """A command line option that sets a field of `ReadOptions`. `many`: it may be repeated."""

    flag: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    default: str | None = None
    many: bool = False


READ_OPTIONS = {
    "body": ReadOption(
        "--body",
        parse_body,
        "full[:LIMIT]|head:N|none",
        "Bytes of each message body to keep: all up to LIMIT, the first N, or none [default: full:16M].",
        default="full",
    ),
    "decode_as": ReadOption(
        "-d",
        parse_decode_as,
        "SELECTOR,zmtp[/VERSION[/MECHANISM[/TYPE]]][:PAYLOAD]",
        "Decode the selected traffic as ZMTP. SELECTOR is tcp.port==N, conn==N, udp.port==N (RADIO/DISH) or "
        "topic==TEXT. VERSION, MECHANISM and TYPE are needed if the handshake was not captured; TYPE is the socket "
        "type of the side with the port. PAYLOAD names a payload dissector. Examples: "
        "tcp.port==5555,zmtp/3.1/NULL/PUB and topic==prices,zmtp:json.",
        many=True,
    ),
    "payload": ReadOption(
        "--payload",
        parse_payload,
        "auto|off|NAME",
        "Payload dissectors to use: auto (all that recognise a message), off (none), or only NAME [default: auto].",
        default="auto",
    ),
}
"""Options by field of `ReadOptions`. Every command that reads captures has all of them, except that only some have
`body`."""


def check_columns(owner: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise `ValueError` unless `names` are columns of a record type or table, each once.

    `owner` names the record type or table in the message; `known` are its columns.
    """
    for name in names:
        if name not in known:
            raise ValueError(f"{owner} has no column {name!r}{nearest(name, known)}")
        if names.count(name) > 1:
            raise ValueError(f"{owner} has the column {name!r} twice")


def nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    known = list(known)
    found = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {found[0]}?" if found else f"; there are {', '.join(known)}"
