"""Two peers in memory: their actions, the octets between them in pieces as in a network, and the capture of it."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

from tests import curve_vector, strategies
from tests.curve import secret
from tests.traffic import Conversation
from zmtpscope import curve_crypto
from zmtpscope.zmtp.peer import (
    CurveClient,
    CurveServer,
    Heartbeat,
    Message,
    Null,
    Peer,
    PeerEvent,
    PlainClient,
    PlainServer,
    Ready,
    Security,
    Settings,
)
from zmtpscope.zmtp.socket_types import DRAFT, PEERS, PUBLISHERS, SUBSCRIBERS

Drawn = TypeVar("Drawn")
Draw = Callable[[st.SearchStrategy[Drawn]], Drawn]

SERVER_SECRET, CLIENT_SECRET = secret("s"), secret("c")
SERVER_KEY, CLIENT_KEY = map(curve_crypto.public_key, (SERVER_SECRET, CLIENT_SECRET))


LOGIN = ("admin", "secret")
"""User name and password that the PLAIN servers of these tests admit."""


def allows(username: str, password: str) -> bool:
    return (username, password) == LOGIN


SECURITY: dict[str, tuple[Security, Security]] = {
    "NULL": (Null(), Null()),
    "PLAIN": (PlainClient(*LOGIN), PlainServer(allows)),
    "CURVE": (
        CurveClient(SERVER_KEY, CLIENT_SECRET, curve_crypto),
        CurveServer(SERVER_SECRET, curve_crypto, lambda key: key == CLIENT_KEY),
    ),
}
"""Client and server of each mechanism, which admit each other."""


class Act(NamedTuple):
    """An action of an application: the name of a method of its peer, and the arguments."""

    what: str
    arguments: tuple[Any, ...]


def send(*parts: bytes, envelope: tuple[bytes, ...] = ()) -> Act:
    return Act("send", (parts, envelope))


class Meeting:
    """Two peers, side 0 and side 1, and the octets in transit between them.

    Each piece that arrives is a packet of `capture`. Events of the peers are in `happened`. Actions of the applications
    are in `done`, as are answered PINGs, as actions of the answering side.
    """

    def __init__(self, first: Settings, second: Settings) -> None:
        self.peers = Peer(first, 0.0), Peer(second, 0.0)
        self.capture = Conversation()
        self.streams = bytearray(), bytearray()
        """All octets that each side has sent."""
        self.arrived = [0, 0]
        """Number of these that the other side has received."""
        self.happened: tuple[list[PeerEvent], list[PeerEvent]] = ([], [])
        self.done: tuple[list[Act], list[Act]] = ([], [])
        self._pings: tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]] = ([], [])
        """For each side, offset in the stream after each of its PINGs, and the context."""
        for side in (0, 1):
            self._collect(side)

    @property
    def ready(self) -> bool:
        return self.peers[0].ready and self.peers[1].ready

    def under_way(self, side: int) -> int:
        """Count the octets that `side` has sent and the other side has not received."""
        return len(self.streams[side]) - self.arrived[side]

    def arrive(self, side: int, count: int) -> None:
        """Deliver the next `count` octets of `side` to the other."""
        start = self.arrived[side]
        octets = bytes(self.streams[side][start : start + count])
        self.arrived[side] += len(octets)
        self.capture.send(side, octets)
        other = 1 - side
        self.peers[other].receive(octets, 0.0)
        while self._pings[side] and self._pings[side][0][0] <= self.arrived[side]:
            self.done[other].append(Act("pong", (self._pings[side].pop(0)[1][:16],)))
        self.happened[other].extend(self.peers[other].events())
        self._collect(other)

    def settle(self) -> None:
        """Deliver everything, until neither side has more to send."""
        while any(self.under_way(side) for side in (0, 1)):
            for side in (0, 1):
                self.arrive(side, self.under_way(side))

    def act(self, side: int, act: Act) -> None:
        """Let `side` act as its application asks; a publisher drops messages without a subscriber."""
        peer = self.peers[side]
        arguments = (0.0, *act.arguments) if act.what == "ping" else act.arguments
        if getattr(peer, act.what)(*arguments) is False:
            return
        self.done[side].append(act)
        self._collect(side)
        if act.what == "ping":
            self._pings[side].append((len(self.streams[side]), act.arguments[0]))

    def _collect(self, side: int) -> None:
        self.streams[side].extend(self.peers[side].outgoing())

    def messages(self, side: int) -> list[Message]:
        """Return the messages that `side` has received."""
        return [event for event in self.happened[side] if isinstance(event, Message)]


def met(first: Settings, second: Settings) -> Meeting:
    """Return two peers after their handshake."""
    meeting = Meeting(first, second)
    meeting.settle()
    assert meeting.ready
    return meeting


def secured(mechanism: str, client: str = "DEALER", server: str = "ROUTER") -> tuple[Settings, Settings]:
    """Return settings of a client and a server of this mechanism."""
    ours, theirs = SECURITY[mechanism]
    return Settings(client, ours), Settings(server, theirs)


def crypto(*drawn: bytes) -> Any:
    """Return the cryptography with these random octets, in this order."""
    left = list(drawn)
    functions = ("public_key", "shared_key", "seal_box", "open_box")

    def random_octets(count: int) -> bytes:
        octets = left.pop(0)
        assert len(octets) == count
        return octets

    return types.SimpleNamespace(
        random_octets=random_octets, **{name: getattr(curve_crypto, name) for name in functions}
    )


def of_the_vector() -> tuple[Settings, Settings]:
    """Return client and server of curve.md 8; each serves for one peer."""
    welcome, cookie, vouch = (bytes(range(first, first + 16)) for first in (0xA0, 0xB0, 0xC0))
    client = crypto(curve_vector.CLIENT_TRANSIENT.secret, vouch)
    server = crypto(curve_vector.SERVER_TRANSIENT.secret, welcome, cookie, curve_vector.COOKIE_KEY)
    return (
        Settings("DEALER", CurveClient(curve_vector.SERVER.public, curve_vector.CLIENT.secret, client)),
        Settings("ROUTER", CurveServer(curve_vector.SERVER.secret, server)),
    )


# -- strategies --------------------------------------------------------------------------------------------------------

PAIRS = sorted((one, other) for one in PEERS for other in PEERS[one])
VERSIONS = ("1.0", "2.0", "3.0", "3.1")
MATCHES = [
    (versions, oldest)
    for versions, oldest in product(product(VERSIONS, repeat=2), repeat=2)
    if all(old <= min(versions) for old in oldest)
]
"""The newest and the oldest versions of two compatible sides."""

BODIES = strategies.BODIES | st.sampled_from([bytes(253), b"x" * 254, b"\xff" * 70_000, b"\x05READY", b"\x04PING\0\0"])
TOPICS = st.sampled_from([b"", b"a", b"ab", b"b", b"\xff\0", b"t" * 300])
GROUPS = st.sampled_from(["", "g", "news", "g" * 255])
CONTEXTS = st.binary(max_size=16)
IDENTITIES = st.sampled_from(["", "i", "GET", "\\xff\0", "i" * 70, "i" * 71, "i" * 253, "i" * 254, "i" * 255])
PROPERTIES = st.dictionaries(st.sampled_from(["X-Trace", "X-a", "Resource"]), st.sampled_from(["a/b", "c"]), max_size=2)


@st.composite
def settings_pairs(draw: Draw, mechanism: str) -> tuple[Settings, Settings]:
    """Draw two compatible sockets; side 0 may be the client or the server of the mechanism."""
    socket_types = draw(st.sampled_from(PAIRS))
    properties = [draw(PROPERTIES) for _ in socket_types] if draw(st.booleans()) else [{}, {}]
    modern = mechanism != "NULL" or any(properties) or not DRAFT.isdisjoint(socket_types)
    least = "3.0" if modern else "1.0"
    versions, oldest = draw(st.sampled_from([match for match in MATCHES if min(match[1]) >= least]))
    security = list(SECURITY[mechanism])
    if draw(st.booleans()):
        security.reverse()
    ttl = draw(st.sampled_from([0.0, 5.0]))
    one, other = (
        Settings(
            socket_types[side],
            security[side],
            draw(IDENTITIES),
            tuple(properties[side].items()),
            versions[side],
            oldest[side],
            Heartbeat(1.0, 1.0, ttl),
        )
        for side in (0, 1)
    )
    return one, other


def bodies(least: int = 1) -> st.SearchStrategy[list[bytes]]:
    return st.lists(BODIES, min_size=least, max_size=3)


@st.composite
def scripts(draw: Draw, ours: Settings, theirs: Settings) -> list[Act]:
    """Draw the actions of the application of one side, without its answers to messages."""
    socket_type, pair = ours.socket_type, {ours.socket_type, theirs.socket_type}
    acts: list[Act] = []
    size = draw(st.integers(0, 5))
    if socket_type in SUBSCRIBERS:
        acts = draw(memberships(TOPICS, "subscribe", "cancel", size))
    elif socket_type == "DISH":
        acts = draw(memberships(GROUPS, "join", "leave", size))
    elif socket_type == "RADIO":
        acts = [send(draw(GROUPS).encode(), draw(BODIES)) for _ in range(size)]
    elif socket_type in PUBLISHERS:
        acts = [send(draw(TOPICS) + draw(st.binary(max_size=2)), *draw(bodies(0))) for _ in range(size)]
    elif pair == {"DEALER", "REP"} and socket_type == "DEALER":
        acts = [
            send(*draw(st.lists(st.sampled_from([b"A", b"\0" * 5]), max_size=2)), b"", *draw(bodies()))
            for _ in range(size)
        ]
    elif socket_type == "REQ" or (socket_type not in ("REP", "PULL", "GATHER") and "REQ" not in pair):
        single = socket_type in DRAFT
        acts = [send(draw(BODIES)) if single else send(*draw(bodies())) for _ in range(size)]
    if socket_type == "XSUB":
        acts += [send(b"\2" + draw(BODIES), *draw(bodies(0))) for _ in range(size)]
    if min(ours.version, theirs.version) >= "3.0":
        for _ in range(draw(st.integers(0, 2))):
            acts.insert(draw(st.integers(0, len(acts))), Act("ping", (draw(CONTEXTS),)))
    return acts


@st.composite
def memberships(draw: Draw, names: st.SearchStrategy[Any], enter: str, leave: str, size: int) -> list[Act]:
    """Draw subscriptions and cancels, or joins and leaves; only existing ones are cancelled."""
    acts, open_ = [], []
    for _ in range(size):
        if open_ and draw(st.booleans()):
            acts.append(Act(leave, (open_.pop(draw(st.integers(0, len(open_) - 1))),)))
        else:
            open_.append(draw(names))
            acts.append(Act(enter, (open_[-1],)))
    return acts


class Network(NamedTuple):
    """How octets are delivered: sizes of pieces, and how many of ten pieces are from side 0."""

    seed: int
    sizes: tuple[int, ...]
    favour: int


NETWORKS = st.builds(
    Network,
    st.integers(0, 1 << 32),
    st.sampled_from([(1,), (1, 2, 3, 10, 11, 53, 64), (1 << 20,), (1, 9, 70, 1 << 20)]),
    st.sampled_from([0, 1, 5, 9, 10]),
)
FEW_PIECES = 10
"""Large data is delivered in about this many pieces at most, so that tests end."""


def talk(settings: tuple[Settings, Settings], acts: tuple[list[Act], list[Act]], network: Network) -> Meeting:
    """Let two applications act by their scripts as soon as they can, while octets are in transit in both directions.

    A REP answers each request with its frames, and so does a ROUTER for each request of a REQ, which waits for the
    answer.
    """
    meeting = Meeting(*settings)
    scripts = copy.deepcopy(acts)
    random = Random(network.seed)
    types = [each.socket_type for each in settings]
    answered = [0, 0]
    while True:
        able = []
        for side in (0, 1):
            if types[side] == "REP" or (types[side] == "ROUTER" and types[1 - side] == "REQ"):
                for message in meeting.messages(side)[answered[side] :]:
                    scripts[side].append(send(*message.parts, envelope=message.envelope))
                    answered[side] += 1
            if meeting.under_way(side):
                able.append((side, "arrive"))
            if scripts[side] and meeting.peers[side].ready and not waits(meeting, side, scripts[side][0]):
                able.append((side, "act"))
        if not able:
            assert scripts == ([], []), "somebody waits for ever"
            return meeting
        favoured = [each for each in able if each[0] == (random.randrange(10) >= network.favour)]
        side, what = random.choice(favoured or able)
        if what == "act":
            meeting.act(side, scripts[side].pop(0))
        else:
            meeting.arrive(side, max(random.choice(network.sizes), meeting.under_way(side) // FEW_PIECES - 30))


def waits(meeting: Meeting, side: int, act: Act) -> bool:
    """Whether this is a second request before the reply to the first."""
    if meeting.peers[side].settings.socket_type != "REQ" or act.what != "send":
        return False
    return sum(each.what == "send" for each in meeting.done[side]) > len(meeting.messages(side))


def ready_of(meeting: Meeting, side: int) -> Ready:
    (ready,) = [event for event in meeting.happened[side] if isinstance(event, Ready)]
    return ready
