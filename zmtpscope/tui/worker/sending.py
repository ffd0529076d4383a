"""What it would take to send a message once more: as which socket, where to, and what to hand to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect import MessageRun
from zmtpscope.export.describe import endpoint
from zmtpscope.export.side_names import OPENER
from zmtpscope.records import from_text
from zmtpscope.store import Store
from zmtpscope.tui.worker.channel import CannotAnswer
from zmtpscope.tui.worker.sides import Sides
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.socket_types import IDENTIFIED, PEERS

STAND_INS = {("ROUTER", "REQ"): "REP", ("ROUTER", "DEALER"): "DEALER", ("ROUTER", "ROUTER"): "DEALER"}
"""(sender, receiver): a ROUTER sends to whom it has heard from, and these send the same frames without that."""

NEVER_FIRST = ("SERVER", "PEER", "ROUTER")
"""They send to whom they have heard from, and nobody can stand in for them."""

ENVELOPED = ("REQ", "REP")
"""They put the envelope in front of a message themselves."""

SUBSCRIPTIONS = {"SUBSCRIBE": ("topic", "SUB"), "JOIN": ("group", "DISH")}
"""Commands that ask for messages: the field that says for which, and who sends them."""


class Sending(NamedTuple):
    """A socket, and what it is given. `topics` are asked for, where there are no `parts`."""

    socket_type: str
    listens: bool
    """Whether the other side connects to it."""
    host: str
    port: int
    mechanism: str | None
    """PLAIN, CURVE: it takes keys or a password."""
    identity: bytes
    """What the receiver knows it by; empty where that does not matter."""
    parts: tuple[bytes, ...]
    topics: tuple[bytes, ...] = ()

    @property
    def endpoint(self) -> str:
        """As libzmq writes it."""
        return f"tcp://{endpoint(self.host, self.port)}"


def sending_of(store: Store, sides: Sides, number: int) -> Sending:
    """What sends the message, or the subscription, that a record is. Raises `CannotAnswer` where nothing can."""
    store.problem = None
    batch = store.batch([number], details=True)
    values = store.row(number)
    if store.problem is not None:
        raise CannotAnswer(store.problem)
    if batch.runs:
        return _of_message(batch.runs[0], values, sides)
    if batch.records and values.get("name") in SUBSCRIPTIONS:
        field, usual = SUBSCRIPTIONS[values["name"]]
        said = _said(values, sides)[0]
        unit = batch.records[0].unit
        regime = None if unit is None else unit.regime
        mechanism = None if regime is None else regime.mechanism
        topics = (from_text(values[field] or ""),)
        return _placed(values, said if said is not None and said in PEERS else usual, mechanism, b"", (), topics)
    raise CannotAnswer("only messages and subscriptions can be sent")


def _of_message(run: MessageRun, values: dict[str, Any], sides: Sides) -> Sending:
    if run.regime.framing is Framing.ZWS:
        raise CannotAnswer("it came over WebSocket, which zmtpscope cat does not speak")
    if values["kind"] == "encrypted":
        raise CannotAnswer("it is encrypted: give the keys (--keys)")
    sender, receiver = values["socket_type"], values["peer_socket_type"]
    said, identity = _said(values, sides)
    sender = said if said in PEERS else sender
    if values["kind"] != "data":
        if values["kind"] == "cancel":
            raise CannotAnswer("nothing was subscribed to that could be cancelled")
        mechanism = run.regime.mechanism
        return _placed(values, sender or "SUB", mechanism, b"", (), (from_text(values["topic"] or ""),))
    if sender not in PEERS:
        raise CannotAnswer("it is not known of which type the socket was that sent it -> -d can say so")
    if not values["complete"] or values["bodies_kept"] != "full":
        raise CannotAnswer("not all octets of it are there")
    if run.has_stars:
        raise CannotAnswer("a password in it is starred: --show-secrets shows it")
    stand_in = STAND_INS.get((sender, receiver), sender)
    if stand_in in NEVER_FIRST:
        raise CannotAnswer(f"a {sender} sends only to whom it has heard from: nothing else can send this")
    parts = tuple(values["bodies"])
    if stand_in in ENVELOPED and b"" in parts[:-1]:
        parts = parts[parts.index(b"") + 1 :]
    name = from_text(identity) if identity and stand_in in IDENTIFIED and receiver == "ROUTER" else b""
    return _placed(values, stand_in, run.regime.mechanism, name, parts)


def _said(values: dict[str, Any], sides: Sides) -> tuple[str | None, str | None]:
    """The socket type and the identity of the sender, as far as it has said them."""
    return sides.said(values["conn"], values["side"])


def _placed(
    values: dict[str, Any],
    socket_type: str,
    mechanism: str | None,
    identity: bytes,
    parts: tuple[bytes, ...],
    topics: tuple[bytes, ...] = (),
) -> Sending:
    """In the place of the sender: who connected does so again, who was connected to listens."""
    listens = values["side"] != OPENER
    end = "src" if listens else "dst"
    needed = None if mechanism in (None, "NULL") else mechanism
    return Sending(socket_type, listens, values[f"{end}_ip"], values[f"{end}_port"], needed, identity, parts, topics)
