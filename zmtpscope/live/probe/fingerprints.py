"""Identifies the implementation of a peer by comparing its behaviour with known implementations.

ZMTP does not name the implementation or its release. But most implementations greet, announce and answer in their own
ways, which a connected peer can observe without side effects. An implementation that is not in the table may behave
like one that is, so the answer is never more than likely.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from zmtpscope.zmtp.socket_types import DRAFT, IDENTIFIED, PEERS


class Pong(Enum):
    """How a peer answered a PING with a context."""

    MISSING = "no PONG came"
    BARE = "PONG without the context"
    ECHO = "PONG with the context"


class Observed(NamedTuple):
    """How a peer behaved towards a probe that announces 3.1 and sends its greeting step by step.

    A value of None is unknown, and excludes no implementation.
    """

    version: str | None = None
    """Version as in the record `greeting`: "1.0" without a signature, "2.0", "3.0", "3.1", or "3" if octet 10 of a
    greeting of format 2.0 is 03 (a newer peer that has detected 2.0)."""
    flags: int | None = None
    """Flags of the identity frame of 1.0."""
    padding: int | None = None
    """Octets 1 to 8 of the signature as a number."""
    pieces: tuple[int, ...] = ()
    """Sizes of the pieces in which the greeting arrived. The last may contain later octets."""
    ahead: int | None = None
    """Octets of the greeting received before we sent more than a signature."""
    mechanism: str | None = None
    as_server: int | None = None
    socket_type: str | None = None
    """Socket type in READY, INITIATE or a greeting of 2.0."""
    properties: tuple[str, ...] | None = None
    """Names of the properties in READY or INITIATE, in order, as spelt there."""
    identity_size: int | None = None
    """Octets of the identity in READY, INITIATE or a greeting of 2.0; None also without an Identity."""
    pong: Pong | None = None
    """Reaction to a PING. A PING has side effects: libzmq before 4.2 passes it to its application as a message."""
    subscription_commands: bool | None = None
    """Whether it subscribes by the command SUBSCRIBE.

    False only for a SUB that subscribes by a message: on an XSUB, the application may have sent the message.
    """
    misspelt_hello: bool | None = None
    """Whether its PLAIN HELLO is called WELCOME (PLAIN-07)."""
    misspelt_error: bool | None = None
    """Whether its PLAIN ERROR begins with 5E (wire.md 8.2)."""
    little_endian_nonces: bool | None = None
    """Whether the short nonce of its CURVE READY or INITIATE is little-endian."""


Properties = Callable[[tuple[str, ...], str | None], bool]
"""Whether an implementation sends properties with these names, in this order, from a socket of this type."""


def _of_libzmq(names: tuple[str, ...], socket_type: str | None) -> bool:
    return names == _libzmq_names(socket_type)


def _of_libzmq_and_application(names: tuple[str, ...], socket_type: str | None) -> bool:
    own = _libzmq_names(socket_type)
    return names[: len(own)] == own and all(name.startswith("X-") for name in names[len(own) :])


def _libzmq_names(socket_type: str | None) -> tuple[str, ...]:
    return ("Socket-Type", "Identity") if socket_type in IDENTIFIED else ("Socket-Type",)


def _identity_always(names: tuple[str, ...], socket_type: str | None) -> bool:
    return {"Socket-Type", "Identity"} <= {*names} and all(
        name in ("Socket-Type", "Identity") or name.startswith("X-") for name in names
    )


def _identity_where_set(names: tuple[str, ...], socket_type: str | None) -> bool:
    return "Socket-Type" in names and {*names} <= {"Socket-Type", "Identity"}


def _with_resource(names: tuple[str, ...], socket_type: str | None) -> bool:
    return names == ("Socket-Type", "Identity", "Resource")


def _none(names: tuple[str, ...], socket_type: str | None) -> bool:
    return not names


class Fingerprint(NamedTuple):
    """How the releases `first` to `last` of an implementation behave. The later fields correspond to `Observed`.

    `first` and `last` are empty if all known releases behave the same; `last` is also empty if the newest release does.
    """

    implementation: str
    first: str
    last: str
    evidence: str
    """Releases that were measured, and releases whose source was read."""
    versions: tuple[str, ...]
    flags: tuple[int, ...] = ()
    counts_identity: bool = False
    """Whether the padding is the identity's size + 1, which makes the signature the header of a 1.0 identity frame,
    too. Otherwise it is 0."""
    writes: tuple[int, ...] = ()
    """Sizes of the pieces in which it writes its greeting.

    The network may join pieces, so only a piece that ends at one of these boundaries is evidence, in favour of the row.
    """
    most_ahead: int = 64
    """Octets that it sends before it has read more than a signature."""
    mechanisms: tuple[str, ...] = ("NULL",)
    as_server: tuple[int, ...] = (0,)
    socket_types: frozenset[str] = frozenset(PEERS) - DRAFT
    properties: Properties = _none
    empty_identity: bool = True
    """Whether it may send an empty Identity."""
    pongs: tuple[Pong, ...] = (Pong.MISSING,)
    subscription_commands: bool = False
    misspelt_hello: bool = False
    misspelt_error: bool = False
    little_endian_nonces: bool = False


_LIBZMQ_1 = Fingerprint("libzmq", "2.0", "2.0", "captures of 2.0.10", ("1.0",), flags=(0x00,))

_LIBZMQ_2 = Fingerprint(
    "libzmq",
    "3.2",
    "3.2",
    "captures of 3.2.5; read 3.2.1 to 3.2.5",
    ("2.0",),
    counts_identity=True,
    writes=(10, 2),
    most_ahead=12,
)

_LIBZMQ_3 = Fingerprint(
    "libzmq",
    "4.0.0",
    "4.0.10",
    "captures of 4.0.10; read 4.0.0 to 4.0.10. Its nonces are in host order, here that of nearly all machines",
    ("3", "3.0"),
    counts_identity=True,
    writes=(10, 1, 53),
    most_ahead=11,
    mechanisms=("NULL", "PLAIN", "CURVE"),
    properties=_of_libzmq,
    little_endian_nonces=True,
)

_LIBZMQ_4_1 = _LIBZMQ_3._replace(
    first="4.1.0",
    last="4.1.8",
    evidence="captures of 4.1.8; read 4.1.0 and 4.1.8",
    mechanisms=("NULL", "PLAIN", "CURVE", "GSSAPI"),
    little_endian_nonces=False,
)

_LIBZMQ_4_2 = _LIBZMQ_4_1._replace(
    first="4.2.0",
    last="4.2.3",
    evidence="read 4.2.0 to 4.2.3",
    socket_types=frozenset(PEERS) - {"PEER", "CHANNEL"},
    pongs=(Pong.BARE,),
)

_LIBZMQ_4_2_4 = _LIBZMQ_4_2._replace(
    first="4.2.4",
    last="4.2.5",
    evidence="captures of 4.2.5; read 4.2.4 and 4.2.5",
    properties=_of_libzmq_and_application,
)

_LIBZMQ_4_3 = _LIBZMQ_4_2_4._replace(
    first="4.3.2",
    last="4.3.2",
    evidence="read 4.3.2",
    pongs=(Pong.ECHO,),
    misspelt_error=True,
)

_JEROMQ_3 = _LIBZMQ_3._replace(
    implementation="JeroMQ",
    first="0.4.1",
    last="0.4.3",
    evidence="read 0.4.1 to 0.4.3",
    little_endian_nonces=False,
)

TABLE = (
    _LIBZMQ_1,
    _LIBZMQ_1._replace(first="2.1", last="2.1", evidence="captures of 2.1.11", flags=(0x7E, 0x7F)),
    _LIBZMQ_1._replace(first="2.2", last="2.2", evidence="captures of 2.2.0"),
    _LIBZMQ_1._replace(first="3.1", last="3.1", evidence="captures of 3.1.0"),
    _LIBZMQ_2,
    _LIBZMQ_3,
    _LIBZMQ_4_1,
    _LIBZMQ_4_2,
    _LIBZMQ_4_2_4,
    _LIBZMQ_4_3._replace(first="4.3.0", last="4.3.1", evidence="captures of both", misspelt_hello=True),
    _LIBZMQ_4_3,
    _LIBZMQ_4_3._replace(
        first="4.3.3",
        last="",
        evidence="captures of 4.3.4, 4.3.5 and 4.3.6 with drafts, and 4.3.5 asked directly; read 4.3.3",
        versions=("3", "3.1"),
        socket_types=frozenset(PEERS),
        subscription_commands=True,
    ),
    _LIBZMQ_2._replace(
        implementation="JeroMQ",
        first="0.3.6",
        last="0.4.0",
        evidence="captures of 0.3.6; read 0.4.0",
    ),
    _JEROMQ_3,
    _JEROMQ_3._replace(
        first="0.5.0",
        last="",
        evidence="read 0.5.0 to 0.6.0",
        socket_types=frozenset(PEERS),
        pongs=(Pong.ECHO,),
    ),
    _LIBZMQ_2._replace(implementation="NetMQ", first="4.0.0", last="4.0.0", evidence="read 4.0.0.1 and 4.0.0.5"),
    _JEROMQ_3._replace(
        implementation="NetMQ",
        first="4.0.1",
        last="",
        evidence="read 4.0.1.0 to 4.0.2.1",
        mechanisms=("NULL", "CURVE"),
        socket_types=frozenset(PEERS) - {"CHANNEL"},
        pongs=(Pong.ECHO,),
    ),
    Fingerprint(
        "zmq4 (Go)",
        "",
        "",
        "a capture; read 0.1.0 to 0.17.0. The order of its properties is that of a Go map; it answers PING only while "
        "its application reads",
        ("3.0",),
        writes=(64,),
        mechanisms=("NULL", "PLAIN"),
        properties=_identity_always,
        empty_identity=False,
        pongs=(Pong.MISSING, Pong.BARE),
    ),
    Fingerprint(
        "zeromq (Rust)",
        "",
        "",
        "read 0.3.5 to 0.5.0. The order of its properties is that of a hash map",
        ("3.0",),
        writes=(64,),
        properties=_identity_where_set,
        empty_identity=False,
    ),
    Fingerprint(
        "azmq (Python)",
        "",
        "",
        "a capture of 1.0.6; read 1.0.0 to 1.0.6",
        ("3.1",),
        writes=(10, 1, 1, 20, 1, 31),
        most_ahead=11,
        mechanisms=("NULL", "PLAIN", "CURVE"),
        as_server=(0, 1),
        properties=_identity_where_set,
        empty_identity=False,
        pongs=(Pong.ECHO,),
    ),
    Fingerprint(
        "chumak (Erlang)",
        "",
        "",
        "read 1.1.1 to 1.3.0",
        ("3.1",),
        writes=(64,),
        mechanisms=("NULL", "CURVE"),
        as_server=(0, 1),
        properties=_with_resource,
        subscription_commands=True,
    ),
    Fingerprint(
        "libzmtp (C)",
        "",
        "",
        "read its newest state",
        ("3.0",),
        counts_identity=True,
        writes=(10, 1, 1, 20, 1, 31),
        most_ahead=11,
        properties=_none,
    ),
)
"""The rows of an implementation are adjacent, older releases first."""


def fitting(observed: Observed) -> list[Fingerprint]:
    """Return the implementations that are consistent with `observed`, first the ones that the pieces of the greeting
    confirm.

    Empty if the version is unknown, since then nothing was observed.
    """
    rows = [row for row in TABLE if _fits(observed, row)]
    return sorted(rows, key=lambda row: not _pieces_speak_for(observed, row))


def likely(observed: Observed) -> str | None:
    """Name the consistent implementations: "libzmq 4.2.0 to 4.3.2, JeroMQ or NetMQ"; None if there are none.

    Successive releases are written as a range.
    """
    ranges: list[tuple[Fingerprint, Fingerprint]] = []
    for row in fitting(observed):
        if ranges and _follows(ranges[-1][1], row):
            ranges[-1] = (ranges[-1][0], row)
        else:
            ranges.append((row, row))
    names = [_name(oldest, newest) for oldest, newest in ranges]
    return " or ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or None


def _fits(observed: Observed, row: Fingerprint) -> bool:
    return (
        observed.version in row.versions
        and _may_be(observed.flags, row.flags)
        and _padding_fits(observed, row)
        and (observed.ahead is None or observed.ahead <= row.most_ahead)
        and _may_be(observed.mechanism, row.mechanisms)
        and _may_be(observed.as_server, row.as_server)
        and _may_be(observed.socket_type, row.socket_types)
        and (observed.properties is None or row.properties(observed.properties, observed.socket_type))
        and (row.empty_identity or observed.identity_size != 0)
        and _may_be(observed.pong, row.pongs)
        and _may_be(observed.subscription_commands, (row.subscription_commands,))
        and _may_be(observed.misspelt_hello, (row.misspelt_hello,))
        and _may_be(observed.misspelt_error, (row.misspelt_error,))
        and _may_be(observed.little_endian_nonces, (row.little_endian_nonces,))
    )


def _may_be(fact: object, known: Container[object]) -> bool:
    return fact is None or fact in known


def _padding_fits(observed: Observed, row: Fingerprint) -> bool:
    if observed.padding is None:
        return True
    if not row.counts_identity:
        return observed.padding == 0
    return 1 <= observed.padding <= 256 and _may_be(observed.identity_size, (observed.padding - 1,))


def _pieces_speak_for(observed: Observed, row: Fingerprint) -> bool:
    """Whether the peer sent its greeting in the pieces in which the implementation `row` writes it.

    There must be several pieces; the last one may be incomplete.
    """
    ends = _ends(observed.pieces[:-1])
    return bool(ends) and ends <= _ends(row.writes)


def _ends(sizes: Iterable[int]) -> set[int]:
    return set(accumulate(sizes))


def _follows(older: Fingerprint, newer: Fingerprint) -> bool:
    neighbours = TABLE.index(newer) - TABLE.index(older) == 1
    return neighbours and newer.implementation == older.implementation


def _name(oldest: Fingerprint, newest: Fingerprint) -> str:
    if not oldest.first:
        return oldest.implementation
    if not newest.last:
        return f"{oldest.implementation} {oldest.first} or newer"
    if oldest.first == newest.last:
        return f"{oldest.implementation} {oldest.first}"
    return f"{oldest.implementation} {oldest.first} to {newest.last}"
