"""Gaps of the snap length in lines for people: the first of a connection is written, later ones are counted."""

from __future__ import annotations

import pytest

from tests.cli.running import Run
from tests.readings import CAPTURES

CUT = CAPTURES / "damage" / "snap-length-96.pcap"


def test_a_connection_has_one_line_of_its_first_gap_and_one_of_the_others(zmtpscope: Run) -> None:
    lines = zmtpscope("read", CUT)[1].splitlines()
    assert sum("not captured (snap length), parsing resumes" in line for line in lines) == 1
    assert sum("cut off by the snap length" in line for line in lines) == 1


@pytest.mark.parametrize("option", ["--all", "--json"])
def test_all_and_json_have_each_gap(zmtpscope: Run, option: str) -> None:
    output = zmtpscope("read", option, CUT)[1]
    assert "cut off by" not in output
    assert output.count("snap length") > 3


def test_a_gap_that_ends_reading_is_always_written(zmtpscope: Run) -> None:
    lines = zmtpscope("read", CUT)[1].splitlines()
    assert any("no frame found after it" in line for line in lines)
