"""An honest peer is served among any hostile ones. The campaign uses more messages and seeds."""

from __future__ import annotations

import pytest

from tests.live.hostile_peers import PARTNERS, serve_among_hostile_peers
from zmtpscope.live.peer import outbox
from zmtpscope.zmtp.peer import Limits


@pytest.mark.slow
@pytest.mark.parametrize("socket_type", PARTNERS)
def test_a_correct_peer_is_served_among_hostile_ones(socket_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is served within 3 s or so if the machine has nothing else to do."""
    monkeypatch.setattr(outbox, "SEND_TIMEOUT", 0.5)
    limits = Limits(handshake=1.0, message=1 << 20)
    served = serve_among_hostile_peers(socket_type, seed=13, hostile=50, messages=2, limit=30, limits=limits)
    assert served.attacks >= 50
