"""Fixtures that tests of the command line share."""

from __future__ import annotations

import pathlib
import sys

import pytest

from tests.cli.running import Run


@pytest.fixture
def cat(zmtpscope: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Run:
    def call(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        path = tmp_path / "stdin"
        path.write_bytes(stdin)
        with path.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            return zmtpscope("cat", *arguments)

    return call
