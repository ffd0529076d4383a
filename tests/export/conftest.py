"""What tests of lines need: `zmtpscope` itself."""

from __future__ import annotations

from tests.cli.conftest import zmtpscope

__all__ = ["zmtpscope"]
