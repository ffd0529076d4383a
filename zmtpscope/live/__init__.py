"""What touches the machine it runs on: sockets that speak ZMTP, captures of what they say, and programs that are run to
record their keys."""

from __future__ import annotations

from zmtpscope.live.socket import Socket, bind, connect

__all__ = ("Socket", "bind", "connect")
