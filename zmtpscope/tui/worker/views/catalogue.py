"""The catalogue of views. A new view is a module and a row here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from zmtpscope.tui.choices import EVERYTHING, MESSAGES
from zmtpscope.tui.requests import ViewTitle

VIEWS: dict[str, ViewTitle] = {
    view.name: view
    for view in (
        ViewTitle(
            "connections", "2", "Connections", "Conns", "who talks to whom, how much, and how it ended", EVERYTHING
        ),
        ViewTitle("map", "3", "Map", "Map", "who is bound, who connected there, and what flows", MESSAGES),
        ViewTitle("topics", "4", "Topics", "Topics", "published topics, their rates and last messages", MESSAGES),
        ViewTitle(
            "subscriptions",
            "5",
            "Subscriptions",
            "Subs",
            "who subscribed to what, and what came of it",
            ("message", "command"),
            has_times=True,
        ),
        ViewTitle(
            "problems",
            "6",
            "Problems",
            "Problems",
            "what went wrong, why, and what to do about it",
            EVERYTHING,
            has_times=True,
        ),
        ViewTitle(
            "zre",
            "7",
            "ZRE",
            "ZRE",
            "nodes, groups, and how they found each other",
            ("message", "datagram"),
            has_times=True,
        ),
        ViewTitle(
            "statistics", "8", "Statistics", "Stats", "how many messages when, how large, and which records", EVERYTHING
        ),
        ViewTitle(
            "peers",
            "9",
            "Peers",
            "Peers",
            "who was there, over all connections, and why they ended",
            EVERYTHING,
            has_times=True,
        ),
        ViewTitle(
            "requests", "0", "Requests", "Reqs", "what waits for a reply, and what took long", MESSAGES, has_times=True
        ),
    )
}
"""Views by name, in the order of their keys. Key 1 is the list of messages."""


def view_class(name: str) -> Any:
    """Return the class `NameView` of the module with this name.

    The module is imported only when its view is opened, so that the first rows appear sooner.
    """
    return getattr(import_module(f"zmtpscope.tui.worker.views.{name}"), f"{name.capitalize()}View")
