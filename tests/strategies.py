"""Hypothesis strategies that the tests share: octets of ZMTP sides, valid, damaged and hostile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_1, build_greeting_2, build_greeting_3, build_signature
from zmtpscope.zmtp.regime import Form, Framing
from zmtpscope.zmtp.socket_types import CODES, PEERS

Drawn = TypeVar("Drawn")

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\\"), max_size=12)
"""Values of the logical type `text` that mean valid UTF-8."""

BODIES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [b"", b"\0", b"\1", b"\1A", b"\0A", b"\x07MESSAGE", b"\x05READY", bytes(40), bytes(255), bytes(256)]
    ),
)

SOCKET_TYPES = st.sampled_from(sorted(PEERS))

FRAMINGS = (Framing.V1, Framing.V2)
"""Framings of ZMTP on TCP; ZWS has readers and builders of its own."""

MECHANISMS = ("NULL", "PLAIN", "CURVE", "GSSAPI")


class Side(NamedTuple):
    form: Form
    version: str
    octets: bytes


class Exchange(NamedTuple):
    """The octets of both sides of a connection that agree on a version."""

    version: str
    first: bytes
    second: bytes


def messages(framing: Framing) -> st.SearchStrategy[bytes]:
    def build(bodies: list[bytes], long: bool) -> bytes:
        last = len(bodies) - 1
        return b"".join(build_frame(framing, body, more=part < last, long=long) for part, body in enumerate(bodies))

    return st.builds(build, st.lists(BODIES, min_size=1, max_size=3), st.sampled_from([False, False, False, True]))


@st.composite
def runs(draw: Callable[[st.SearchStrategy[Drawn]], Drawn], framing: Framing) -> bytes:
    """Traffic that repeats itself: the same few frames many times, again and again with something else between."""
    frame = st.builds(
        functools.partial(build_frame, framing),
        st.sampled_from([b"", b"\1", b"\0A", bytes(3), bytes(5), bytes(260)]),
        more=st.booleans(),
    )
    if framing is Framing.V1:
        frame |= st.sampled_from([b"\0", bytes(3)])  # lengths of 0
    between = st.one_of(st.just(b""), frame, st.binary(max_size=12))
    octets = []
    for _ in range(draw(st.integers(1, 3))):
        repeated = b"".join(draw(st.lists(frame, min_size=1, max_size=5)))
        octets += [repeated * draw(st.sampled_from([20, 40, 63, 64, 65, 100, 200])), draw(between)]
    return b"".join(octets)


NONCES = st.integers(0, 2**64 - 1) | st.integers(0, 5)

METADATA = st.fixed_dictionaries(
    {
        "metadata": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(
                        ["Socket-Type", "Identity", "Resource", "X-Trace", "identity", "Other", "a b"]
                    ),
                    "value": st.sampled_from(["SUB", "XSUB", "RADIO", "DEALER", "PUB", "", "a/b", "/", "\0a"]) | TEXTS,
                }
            ),
            max_size=4,
        )
    }
)

TOPICS = st.fixed_dictionaries({"topic": TEXTS})
REASONS = st.fixed_dictionaries({"reason": st.sampled_from(["400", "300", ""]) | TEXTS})
CREDENTIALS = st.fixed_dictionaries({"username": TEXTS, "password": TEXTS})
PINGS = st.fixed_dictionaries(
    {"ttl_ms": st.integers(0, 65535).map(lambda ttl: ttl * 100), "context": st.binary(max_size=20)}
)
CONTEXTS = st.fixed_dictionaries({"context": st.binary(max_size=20)})
GROUPS = st.fixed_dictionaries({"group": TEXTS})
TOKENS = st.fixed_dictionaries({"token": st.binary(max_size=30)})
NOTHING: st.SearchStrategy[dict[str, Any]] = st.just({})


def _octets(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


_TRAFFIC = {
    "SUBSCRIBE": TOPICS,
    "CANCEL": TOPICS,
    "PING": PINGS,
    "PONG": CONTEXTS,
    "JOIN": GROUPS,
    "LEAVE": GROUPS,
}

COMMAND_FIELDS: dict[tuple[str, str], st.SearchStrategy[dict[str, Any]]] = {
    **{(mechanism, name): fields for mechanism in MECHANISMS for name, fields in _TRAFFIC.items()},
    **{(mechanism, "ERROR"): REASONS for mechanism in MECHANISMS},
    ("NULL", "READY"): METADATA,
    ("PLAIN", "HELLO"): CREDENTIALS,
    ("PLAIN", "WELCOME"): NOTHING,
    ("PLAIN", "INITIATE"): METADATA,
    ("PLAIN", "READY"): METADATA,
    ("CURVE", "HELLO"): st.fixed_dictionaries({"client_key": _octets(32), "nonce": NONCES, "box": _octets(80)}),
    ("CURVE", "WELCOME"): st.fixed_dictionaries({"long_nonce": _octets(16), "box": _octets(144)}),
    ("CURVE", "INITIATE"): st.fixed_dictionaries(
        {"cookie": _octets(96), "nonce": NONCES, "box": st.binary(min_size=144, max_size=180)}
    ),
    ("CURVE", "READY"): st.fixed_dictionaries({"nonce": NONCES, "box": st.binary(min_size=16, max_size=60)}),
    ("CURVE", "MESSAGE"): st.fixed_dictionaries({"nonce": NONCES, "box": st.binary(min_size=17, max_size=60)}),
    ("GSSAPI", "INITIATE"): TOKENS,
    ("GSSAPI", "READY"): METADATA,
    ("GSSAPI", "MESSAGE"): TOKENS,
}
"""Fields of every command of every mechanism."""


@st.composite
def commands(draw: Callable[[st.SearchStrategy[Drawn]], Drawn], mechanism: str, name: str | None = None) -> bytes:
    """One command frame of a mechanism, now and then in another frame than the grammar wants."""
    if name is None:
        name = draw(st.sampled_from(sorted(each for which, each in COMMAND_FIELDS if which == mechanism)))
    body = build_command(mechanism, name, draw(COMMAND_FIELDS[mechanism, name]))
    as_command = draw(st.sampled_from([True, True, True, False]))
    return build_frame(Framing.V2, body, command=as_command, long=draw(st.sampled_from([False, False, True])))


STEPS = {
    "NULL": (("READY",),),
    "PLAIN": (("HELLO", "INITIATE"), ("WELCOME", "READY"), ("ERROR",)),
    "CURVE": (("HELLO", "INITIATE"), ("WELCOME", "READY"), ("ERROR",)),
    "GSSAPI": (("INITIATE", "INITIATE", "READY"), ("INITIATE", "MESSAGE")),
}


def _greetings_3(version: str, mechanism: str) -> st.SearchStrategy[bytes]:
    return st.builds(
        functools.partial(build_greeting_3, mechanism, version=version),
        as_server=st.booleans(),
        padding=st.sampled_from([0, 1, 5, 256, 2**40]),
    )


@st.composite
def traffic_3(draw: Callable[[st.SearchStrategy[Drawn]], Drawn], mechanism: str) -> bytes:
    """Handshake and traffic of one 3.x side, mostly in a right order."""
    names = draw(st.sampled_from(STEPS[mechanism]))
    handshake = [draw(commands(mechanism, name)) for name in names]
    unit = st.one_of(
        messages(Framing.V2),
        messages(Framing.V2),
        st.builds(functools.partial(build_frame, Framing.V2), BODIES, more=st.booleans()),
        commands(mechanism),
        commands(mechanism, "ERROR"),
        st.just(b"\x04\x00"),
    )
    return b"".join([*handshake, *draw(st.lists(unit, max_size=6))])


@st.composite
def sides(draw: Callable[[st.SearchStrategy[Drawn]], Drawn]) -> Side:
    """One side of any version, with a decided form."""
    version = draw(st.sampled_from(["3.1", "3.1", "3.1", "3.0", "2.0", "1.0"]))
    if version >= "3":
        mechanism = draw(st.sampled_from([*MECHANISMS, "NULL"]))
        octets = draw(_greetings_3(version, mechanism)) + draw(traffic_3(mechanism))
        return Side(Form.GREETING_3, version, octets)
    framing = Framing.V1 if version == "1.0" else Framing.V2
    traffic = b"".join(draw(st.lists(messages(framing), max_size=8)))
    identity = draw(TEXTS)
    if version == "2.0":
        greeting = build_greeting_2(draw(st.sampled_from(CODES)), identity, padding=draw(st.sampled_from([0, 1, 4])))
        return Side(Form.GREETING_2, version, greeting + traffic)
    form = draw(st.sampled_from([Form.FRAMES_1, Form.PSEUDO_SIGNATURE, Form.VERSIONED_1]))
    if form is Form.VERSIONED_1:
        greeting = build_signature(1) + bytes([0, draw(st.integers(0, 12))]) + build_greeting_1(identity)
    else:
        greeting = build_greeting_1(identity, pseudo_signature=form is Form.PSEUDO_SIGNATURE)
    return Side(form, version, greeting + traffic)


@st.composite
def damaged(draw: Callable[[st.SearchStrategy[Drawn]], Drawn], octets: bytes) -> bytes:
    """The octets with a few of them changed, added, or the end cut off."""
    data = bytearray(octets)
    interesting = st.sampled_from([0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x7E, 0x7F, 0x80, 0xFE, 0xFF])
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        data[at : at + draw(st.integers(0, 2))] = bytes(draw(st.lists(interesting | st.integers(0, 255), max_size=3)))
    keep = draw(st.none() | st.integers(0, len(data)))
    return bytes(data[:keep])


@st.composite
def damaged_sides(draw: Callable[[st.SearchStrategy[Drawn]], Drawn]) -> Side:
    """A side whose octets are valid, damaged, or random."""
    side = draw(sides())
    octets = draw(st.one_of(st.just(side.octets), st.just(side.octets), damaged(side.octets), st.binary(max_size=200)))
    return side._replace(octets=octets)


@st.composite
def exchanges(draw: Callable[[st.SearchStrategy[Drawn]], Drawn]) -> Exchange:
    """Both sides of a connection that settles on a version, downgrades included."""
    version = draw(st.sampled_from(["3.1", "3.0", "2.0", "1.0"]))
    if version >= "3":
        mechanism = draw(st.sampled_from(MECHANISMS))
        other = draw(st.sampled_from(["3.0", "3.1"])) if version == "3.0" else "3.1"
        octets = [
            draw(_greetings_3(each, mechanism)) + draw(traffic_3(mechanism))
            for each in draw(st.permutations([version, other]))
        ]
        return Exchange(version, *octets)
    framing = Framing.V1 if version == "1.0" else Framing.V2
    traffic = [b"".join(draw(st.lists(messages(framing), max_size=6))) for _ in range(2)]
    identities = [draw(TEXTS), draw(TEXTS)]
    if version == "2.0":
        greetings = [
            build_greeting_2(draw(st.sampled_from(CODES)), each, padding=1, revision=revision)
            for each, revision in zip(identities, draw(st.sampled_from([(1, 1), (1, 3), (3, 1)])), strict=True)
        ]
    else:
        newer = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
        greetings = [build_greeting_1(each, pseudo_signature=new) for each, new in zip(identities, newer, strict=True)]
    return Exchange(version, *(greeting + each for greeting, each in zip(greetings, traffic, strict=True)))


def cuts(size: int) -> st.SearchStrategy[list[int]]:
    """Where a stream of `size` octets is cut into chunks; sometimes octet by octet."""
    return st.one_of(st.just(list(range(1, size))), st.lists(st.integers(0, size), max_size=8))
