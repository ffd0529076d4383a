"""Display filters of Wireshark select the same packets here.

`wireshark.json` has the result of tshark 4.4: `tshark -r CAPTURE -d tcp.port==PORT,zmtp -Y 'zmtp && (FILTER)'`, without
the packets of greetings, which Wireshark shows at their last segment.
"""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.readings import CAPTURES
from zmtpscope.capture import open_captures
from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect import Analyser, Options, Record
from zmtpscope.filter import Filter
from zmtpscope.filter.selection import Selection

SAID = json.loads((pathlib.Path(__file__).parent / "wireshark.json").read_text())
CASES = [(each["capture"], text, packets) for each in SAID for text, packets in each["selected"].items()]


@pytest.mark.parametrize(("capture", "text", "packets"), CASES)
def test_a_filter_of_wireshark_selects_the_same_packets(capture: str, text: str, packets: list[int]) -> None:
    found = Filter(f"({text}) and type in {{frame, command, message}}")
    options = Options(frames=True)
    captures = open_captures([str(CAPTURES / capture)])
    selected: set[int] = set()
    for batch in Analyser(options).run(captures):
        for item, index in Selection(found, batch, options, captures.statistics.first_time).as_batch().in_order():
            packet = item.values["packet"] if isinstance(item, Record) else int(item.packets[index]) & PACKET_MASK
            selected.add(packet)
    assert sorted(selected) == packets
