"""Whoever is honest is served, whatever all others do. Fifty of them, and more messages, are the campaign's."""

from __future__ import annotations

import pytest

from tests.live.hostile_peers import serve_among_hostile_peers
from zmtpscope.live import patience
from zmtpscope.zmtp.peer import Limits


@pytest.mark.parametrize("socket_type", ["PUB", "REP", "PULL"])
def test_an_honest_peer_is_served_among_hostile_ones(socket_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.5)
    limits = Limits(handshake=1.0, message=1 << 20)
    served = serve_among_hostile_peers(socket_type, seed=13, hostile=8, messages=3, limits=limits)
    assert served.longest < 60
    assert served.attacks >= 8
