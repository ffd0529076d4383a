"""Each module belongs to a stage, and stages name existing modules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.stages import COLLECTOR, REST, STAGES, START, USUAL, Sampled, by_stage, duration, stage_of
from tests.readings import CAPTURES

PACKAGE = CAPTURES.parent / "zmtpscope"


def test_every_module_that_a_stage_names_is_there() -> None:
    names = {name for _, names in STAGES.values() for name in names} - {START, COLLECTOR, ""}
    paths = [PACKAGE / name.replace(".", "/") for name in names]
    assert [str(path) for path in paths if not (path.is_dir() or path.with_suffix(".py").exists())] == []


def test_every_file_of_the_fast_path_is_there() -> None:
    assert [name for folder, names in USUAL.items() for name in names if not Path(PACKAGE, folder, name).exists()] == []


@pytest.mark.parametrize(
    ("place", "stage"),
    [
        ("zmtp.scanner.scan_1", "scanner"),
        ("zmtp.side.SideReader.read", "careful reader"),
        ("capture.source.Source.read", "reading octets"),
        ("capture.headers.read_headers", "headers"),
        (START, START),
        (COLLECTOR, COLLECTOR),
        ("unheard.of", REST),
    ],
)
def test_the_module_determines_the_stage(place: str, stage: str) -> None:
    assert stage_of(place) == stage


def test_stages_add_up() -> None:
    samples = Sampled(4.0, Counter({"zmtp.scanner.scan_1": 1, "zmtp.scanner.scan_2": 2, START: 1}))
    assert by_stage(samples) == {"scanner": 3, START: 1}
    assert samples.seconds(3) == 3.0


def test_durations_are_in_the_unit_that_fits() -> None:
    assert [duration(seconds) for seconds in (1.2e-7, 9.9e-6, 4.2e-5, 0.1)] == ["120 ns", "9,900 ns", "42 us", "100 ms"]
