"""Exit codes and messages for failed connections of sockets that `probe` and `cat` open."""

from __future__ import annotations

import click

from zmtpscope.live.peer.connection import Unreachable
from zmtpscope.zmtp.peer import (
    ClosedHalfWay,
    Mismatch,
    NotZmtp,
    PeerError,
    Refused,
    TooSlow,
    UnfitSocketType,
    Violation,
)

EXIT_CODES: dict[type[PeerError], int] = {
    Unreachable: 10,
    TooSlow: 11,
    NotZmtp: 12,
    Mismatch: 13,
    Refused: 14,
    UnfitSocketType: 15,
    Violation: 16,
    ClosedHalfWay: 17,
}


class PeerFailed(click.ClickException):
    """Ends a command with an error such as `zmtpscope: tcp://127.0.0.1:5555: the connection was refused`, and its exit
    code."""

    def __init__(self, endpoint: object, error: PeerError) -> None:
        super().__init__(f"{endpoint}: {error}")
        self.exit_code = EXIT_CODES[type(error)]  # type: ignore[misc]  # click reads it of the instance
