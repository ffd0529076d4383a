"""Fixtures that tests of the command line share."""

from __future__ import annotations

import pathlib
import sys

import pytest

from tests.cli.running import Run
from zmtpscope.cli import run


@pytest.fixture
def zmtpscope(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process: exit code, standard output, standard error."""
    monkeypatch.delenv("ZMTPSCOPE_KEYLOG", raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        return code, *capfd.readouterr()

    return call


@pytest.fixture
def cat(zmtpscope: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Run:
    def call(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        path = tmp_path / "stdin"
        path.write_bytes(stdin)
        with path.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            return zmtpscope("cat", *arguments)

    return call
