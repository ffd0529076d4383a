"""What touches the machine it runs on: sockets that speak ZMTP, captures of what they say and of what passes, and
programs that are run to record their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zmtpscope.live.socket import Socket, bind, connect

__all__ = ("Socket", "bind", "connect")


def __getattr__(name: str) -> Any:
    """Load the sockets for those who want them: the capture process, which starts beside, has no use for them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from zmtpscope.live import socket

    return getattr(socket, name)
