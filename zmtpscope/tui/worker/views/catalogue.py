"""The catalogue of views.

A new view is a module and a row here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from zmtpscope.tui.choices import EVERYTHING, MESSAGES

if TYPE_CHECKING:
    from zmtpscope.store import Store
    from zmtpscope.tui.worker.views.derived import Derived


class ViewKind(NamedTuple):
    """A view. `key` opens it, `meaning` describes it."""

    name: str
    key: str
    title: str
    meaning: str
    view: str
    """Its class, in the module of the view's name.

    Modules are imported when opened: all of them would take a fifth of the time before rows are shown.
    """
    records: tuple[str, ...] = MESSAGES
    """Types of records that the filters of its rows match."""

    is_derived: bool = False
    """Whether it shows shared derived data."""

    has_times: bool = False
    """Whether its rows contain points in time."""

    def of(self, what: Store | Derived) -> Any:
        """Return this view of a store or of derived data."""
        return getattr(import_module(f"zmtpscope.tui.worker.views.{self.name}"), self.view)(what)


VIEWS: dict[str, ViewKind] = {
    kind.name: kind
    for kind in (
        ViewKind(
            "connections",
            "2",
            "Connections",
            "who talks to whom, how much, and how it ended",
            "ConnectionsView",
            EVERYTHING,
        ),
        ViewKind("map", "3", "Map", "who is bound, who connected there, and what flows", "MapView"),
        ViewKind("topics", "4", "Topics", "what is published, how often, and what was said last", "TopicsView"),
        ViewKind(
            "subscriptions",
            "5",
            "Subscriptions",
            "who subscribed to what, and what came of it",
            "SubscriptionsView",
            ("message", "command"),
            is_derived=True,
            has_times=True,
        ),
        ViewKind(
            "problems",
            "6",
            "Problems",
            "what went wrong, why, and what to do about it",
            "ProblemsView",
            EVERYTHING,
            is_derived=True,
            has_times=True,
        ),
        ViewKind(
            "zre",
            "7",
            "ZRE",
            "nodes, groups, and how they found each other",
            "ZreView",
            ("message", "datagram"),
            has_times=True,
        ),
        ViewKind(
            "statistics",
            "8",
            "Statistics",
            "how many messages when, how large, and which records",
            "StatisticsView",
            EVERYTHING,
        ),
        ViewKind(
            "peers",
            "9",
            "Peers",
            "who was there, over all connections, and why they ended",
            "PeersView",
            EVERYTHING,
            is_derived=True,
            has_times=True,
        ),
        ViewKind(
            "requests",
            "0",
            "Requests",
            "what waits for a reply, and what took long",
            "RequestsView",
            is_derived=True,
            has_times=True,
        ),
    )
}
"""Views by name, in the order of their keys. Key 1 shows the messages."""
