"""P4 for octets that only peers build: subscriptions as messages, and handshakes in every version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.zmtp.sides import EARLIER_STEP, feed, in_handshake
from zmtpscope.records import from_text
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.content import build_subscription
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.events import CANCEL, SPECIAL, SUBSCRIBE, Command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.mechanisms import MECHANISMS
from zmtpscope.zmtp.regime import Framing, Phase
from zmtpscope.zmtp.side import SideReader

KINDS = {"subscribe": SUBSCRIBE, "cancel": CANCEL}


@pytest.mark.parametrize("version", ["2.0", "3.0", "3.1"])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    topic=strategies.TEXTS | st.just("t" * 300),
    socket_type=st.sampled_from(["SUB", "XSUB"]),
)
def test_p4_subscriptions(version: str, kind: str, topic: str, socket_type: str) -> None:
    """A subscription message is read back as it was built if its sender is known."""
    octets = build_frame(Framing.V2, build_subscription({"kind": kind, "topic": topic}))
    mechanism = None if version == "2.0" else "NULL"
    side = SideReader.midstream(Framing.V2, offset=0, version=version, mechanism=mechanism, socket_type=socket_type)
    transcript = feed(side, octets)
    ((_, body, size, flags),) = transcript.rows
    assert (body + size, flags & SPECIAL) == (len(octets), KINDS[kind])
    tree = field_tree(side.regime, octets, 0)
    values = {leaf.name: leaf.value for leaf in tree.leaves()}
    assert values["zmtp.subscription.op"] == kind
    assert values.get("zmtp.subscription.topic", "") == topic
    assert side.memberships.has_topic_of(from_text(topic)) == (kind == "subscribe")


HANDSHAKES = sorted(
    (mechanism, name)
    for mechanism, name in strategies.COMMAND_FIELDS
    if MECHANISMS[mechanism].commands[name].phase is Phase.HANDSHAKE
)


@pytest.mark.parametrize("version", ["3.0", "3.1"])
@given(data=st.data(), which=st.sampled_from(HANDSHAKES))
def test_p4_handshakes(version: str, data: st.DataObject, which: tuple[str, str]) -> None:
    """Every command of a handshake, at its step, is read back with the fields it was built from."""
    mechanism, name = which
    fields = data.draw(strategies.COMMAND_FIELDS[which])
    octets = build_frame(Framing.V2, build_command(mechanism, name, fields), command=True)
    side = in_handshake(version, mechanism, EARLIER_STEP.get(which, b""))
    (event,) = feed(side, octets, over=False).events
    assert isinstance(event, Command)
    assert (event.fields["name"], event.stop) == (name, len(octets))
    unread = {"box", "cookie", "token"}  # octets that no event holds; test_builders.py finds them in the field tree
    assert {key: event.fields[key] for key in fields.keys() - unread} == {
        key: value for key, value in fields.items() if key not in unread
    }
