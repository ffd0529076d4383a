"""`zmtpscope` itself beside what the screen and its worker do."""

from __future__ import annotations

from tests.cli.conftest import zmtpscope

__all__ = ["zmtpscope"]
