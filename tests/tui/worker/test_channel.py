"""The worker's end of the socket."""

from __future__ import annotations

import socket

import pytest

from zmtpscope.tui.requests import Started
from zmtpscope.tui.worker.channel import Channel, ScreenGone


def test_a_screen_that_closes_with_unread_replies_is_gone() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(theirs)
    channel.notify(Started())
    ours.close()
    with pytest.raises(ScreenGone):
        list(channel.receive(1))
    theirs.close()
