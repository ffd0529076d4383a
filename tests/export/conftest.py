"""Fixtures of tests of lines: the path of `zmtpscope`."""

from __future__ import annotations

from tests.cli.conftest import zmtpscope

__all__ = ["zmtpscope"]
