"""Settings that the tests of the analyser share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from zmtpscope.dissect.fast_path import openings


@pytest.fixture(scope="package", autouse=True)
def learned_at_once() -> Iterator[None]:
    """The fast path learns the first opening, so that few connections are enough for a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openings, "FEWEST_ALIKE", 1)
        yield
