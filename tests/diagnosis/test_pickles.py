"""Pickles in messages: a connection on which one imports something is in the diagnosis of pickles only."""

from __future__ import annotations

import pickle
from datetime import timedelta

from tests.diagnosis.diagnosing import causes_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk

PLAIN, IMPORTS = pickle.dumps([1, "two"], 4), pickle.dumps(timedelta(1), 4)


def test_a_plain_pickle_of_one_side_does_not_hide_one_of_the_other_that_imports() -> None:
    talk = Talk(0).handshake("DEALER", "ROUTER").message(CLIENT, PLAIN).message(SERVER, IMPORTS)
    texts = {each.rule: each.text for each in causes_of(talk)}
    assert "imports datetime.timedelta" in texts["pickle-payload"]
    assert "protocol-violation" not in texts
