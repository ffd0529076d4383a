"""What touches the machine it runs on: sockets that speak ZMTP, programs that are run to record the keys of their
connections, and recordings of what an application says itself."""

from __future__ import annotations

from zmtpscope.live.socket import Socket, bind, connect

__all__ = ("Socket", "bind", "connect")
