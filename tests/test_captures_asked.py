"""Payload dissectors are asked about few messages of real captures that none of them claims."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.readings import CAPTURES
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.api import About, Message
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.side import SidePayloads

ALL = sorted(path for path in CAPTURES.rglob("*.pcap*") if ".pcap" in path.suffixes or ".pcapng" in path.suffixes)


@pytest.mark.parametrize(
    ("is_counted", "most"),
    [pytest.param(True, 0.08, id="counted"), pytest.param(False, 0.17, id="written", marks=pytest.mark.slow)],
)
def test_dissectors_are_asked_about_few_unclaimed_messages(
    is_counted: bool, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most messages cannot be claimed by their sender's socket type, their octets and their number of frames."""
    unclaimed, dissect = 0, SidePayloads.dissect

    def counted(
        side: SidePayloads, message: Message, about: About, offsets: Sequence[int], *, is_text: bool = False
    ) -> Dissected | None:
        nonlocal unclaimed
        made = dissect(side, message, about, offsets, is_text=is_text)
        unclaimed += made is None and side.unclaimed > 0
        return made

    monkeypatch.setattr(SidePayloads, "dissect", counted)
    messages = 0
    for path in ALL:
        analyser = Analyser(Options(records=not is_counted, payloads=Registry()))
        for _ in analyser.run(open_captures([str(path)])):
            pass
        messages += analyser.summary.messages
    assert unclaimed < most * messages
