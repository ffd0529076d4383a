"""Connections that several analysers have read are compared with the result of one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dissect.test_zre_network import BROKEN
from tests.dissect.workers import assert_is_one_run
from tests.dissect.zre_nodes import Node, say
from tests.invariants import in_blocks, packets_of_capture
from tests.payloads import zre
from tests.readings import CAPTURE_FILES
from tests.test_captures_in_blocks import options_for
from tests.traffic import Capture, records, together
from zmtpscope.capture.captures import Segmenter
from zmtpscope.dissect import Options
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import SECOND


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_captures_read_in_parts_give_the_same(path: Path) -> None:
    segmenter = Segmenter()
    packets = packets_of_capture(path.read_bytes())
    blocks = [segmenter.feed(block) for block in in_blocks(packets, iter(lambda: 500, 0))]
    for partitions in (1, 3):
        assert_is_one_run(blocks, partitions, lambda: options_for(path, details=False))


@pytest.mark.parametrize("id_", BROKEN)
@pytest.mark.parametrize("size", [1, 1000])
def test_nodes_read_in_parts_are_one_network(id_: str, size: int) -> None:
    blocks = list(Capture(together(*BROKEN[id_]()), size))
    assert_is_one_run(blocks, 3, lambda: Options(payloads=Registry()))


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_repeated_findings_are_counted_for_any_block_size(size: int) -> None:
    one, other = Node(0), Node(1)
    ahead, back = one.connect(other), other.connect(one, 2_000_000)
    for number in range(15):
        say(ahead, zre.shout(2 + number, "NEWS"), b"x", after=2 * SECOND)
    found = records(Capture(together(ahead, back), size), Options(payloads=Registry()))[0]
    shouts = [record for record in found if record.get("id") == "ZRE-19"]
    assert [record["count"] for record in shouts] == [1] * 10 + [5]
    assert_is_one_run(list(Capture(together(ahead, back), size)), 3, lambda: Options(payloads=Registry()))
