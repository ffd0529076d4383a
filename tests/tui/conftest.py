"""Fixtures of the screen and its worker: the path of `zmtpscope`, and an empty folder of profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import zmtpscope

__all__ = ["zmtpscope"]


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"
