"""Find the socket, endpoint and parts with which a captured message can be sent again."""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect import MessageTable
from zmtpscope.export.side_names import OPENER
from zmtpscope.records import from_text
from zmtpscope.store import Store
from zmtpscope.tui.worker.channel import CannotAnswer
from zmtpscope.tui.worker.sides import Sides
from zmtpscope.words import host_port
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.socket_types import IDENTIFIED, PEERS

STAND_INS = {("ROUTER", "REQ"): "REP", ("ROUTER", "DEALER"): "DEALER", ("ROUTER", "ROUTER"): "DEALER"}
"""(sender, receiver): type that sends the same frames. A ROUTER itself sends only to known peers."""

NEVER_FIRST = ("SERVER", "PEER", "ROUTER")
"""Types that send only to known peers and have no stand-in."""

ENVELOPED = ("REQ", "REP")
"""Types that add the envelope themselves."""

SUBSCRIPTIONS = {"SUBSCRIBE": ("topic", "SUB"), "JOIN": ("group", "DISH")}
"""Commands that subscribe: (field, type of sender)."""


class Sending(NamedTuple):
    """A socket, and the parts of the message to send. If there are no `parts`, it subscribes to `topics`."""

    socket_type: str
    listens: bool
    host: str
    port: int
    mechanism: str | None
    """PLAIN or CURVE if a password or keys are needed."""
    identity: bytes
    """Identity for the receiver, b"" if irrelevant."""
    parts: tuple[bytes, ...]
    topics: tuple[bytes, ...] = ()

    @property
    def endpoint(self) -> str:
        """The endpoint as libzmq writes it: `tcp://10.0.0.1:5555`."""
        return f"tcp://{host_port(self.host, self.port)}"


def sending_of(store: Store, sides: Sides, number: int) -> Sending:
    """Return how to send a message or subscription again. Raises `CannotAnswer`."""
    store.problem = None
    batch = store.batch([number], details=True)
    values = store.row(number)
    if store.problem is not None:
        raise CannotAnswer(store.problem)
    if batch.messages:
        return _of_message(batch.messages[0], values, sides)
    if batch.records and values.get("name") in SUBSCRIPTIONS:
        field, usual = SUBSCRIPTIONS[values["name"]]
        announced = _announced(values, sides)[0]
        sender = announced if announced is not None and announced in PEERS else usual
        unit = batch.records[0].unit
        regime = None if unit is None else unit.regime
        mechanism = None if regime is None else regime.mechanism
        topics = (from_text(values[field] or ""),)
        return _placed(values, sender, mechanism, b"", (), topics)
    raise CannotAnswer("only messages and subscriptions can be sent")


def _of_message(run: MessageTable, values: dict[str, Any], sides: Sides) -> Sending:
    if run.regime.framing is Framing.ZWS:
        raise CannotAnswer("it came over WebSocket, which zmtpscope cat does not speak")
    if values["kind"] == "encrypted":
        raise CannotAnswer("it is encrypted: give the keys (--keys)")
    sender, receiver = values["socket_type"], values["peer_socket_type"]
    announced, identity = _announced(values, sides)
    sender = announced if announced in PEERS else sender
    if values["kind"] != "data":
        if values["kind"] == "cancel":
            raise CannotAnswer("nothing was subscribed to that could be cancelled")
        mechanism = run.regime.mechanism
        return _placed(values, sender or "SUB", mechanism, b"", (), (from_text(values["topic"] or ""),))
    if sender not in PEERS:
        raise CannotAnswer("it is not known of which type the socket was that sent it -> -d can say so")
    if not values["complete"] or values["bodies_kept"] != "full":
        raise CannotAnswer("not all octets of it are there")
    if run.sender.has_stars:
        raise CannotAnswer("a password in it is starred: --show-secrets shows it")
    stand_in = STAND_INS.get((sender, receiver), sender)
    if stand_in in NEVER_FIRST:
        raise CannotAnswer(f"a {sender} sends only to whom it has heard from: nothing else can send this")
    parts = tuple(values["bodies"])
    if stand_in in ENVELOPED and b"" in parts[:-1]:
        parts = parts[parts.index(b"") + 1 :]
    name = from_text(identity) if identity and stand_in in IDENTIFIED and receiver == "ROUTER" else b""
    return _placed(values, stand_in, run.regime.mechanism, name, parts)


def _announced(values: dict[str, Any], sides: Sides) -> tuple[str | None, str | None]:
    return sides.announced(values["conn"], values["side"])


def _placed(
    values: dict[str, Any],
    socket_type: str,
    mechanism: str | None,
    identity: bytes,
    parts: tuple[bytes, ...],
    topics: tuple[bytes, ...] = (),
) -> Sending:
    """Return a socket in place of the sender of a record: it connects or binds as the sender did."""
    listens = values["side"] != OPENER
    end = "src" if listens else "dst"
    needed = None if mechanism in (None, "NULL") else mechanism
    return Sending(socket_type, listens, values[f"{end}_ip"], values[f"{end}_port"], needed, identity, parts, topics)
