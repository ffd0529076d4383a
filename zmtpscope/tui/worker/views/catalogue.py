"""The catalogue of views. A new view is a module and a row here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from zmtpscope.tui.choices import EVERYTHING, MESSAGES

if TYPE_CHECKING:
    from zmtpscope.store import Store
    from zmtpscope.tui.worker.views.derived import Derived


class ViewKind(NamedTuple):
    """The declaration of a view: the class `NameView` in the module with its name.

    `key` opens it, `meaning` describes it, and `short` is its title on a narrow screen. A module is imported only when
    its view is opened, so that the first rows appear sooner.
    """

    key: str
    title: str
    short: str
    meaning: str
    records: tuple[str, ...] = MESSAGES
    """Record types that the filters of its rows match."""

    is_derived: bool = False
    """Whether it shows data from `derived.py`."""

    has_times: bool = False
    """Whether its rows contain times."""

    @property
    def name(self) -> str:
        return self.title.lower()

    def of(self, what: Store | Derived) -> Any:
        """Return a view object that counts the records of a store, or uses derived data."""
        module = import_module(f"zmtpscope.tui.worker.views.{self.name}")
        return getattr(module, f"{self.name.capitalize()}View")(what)


DERIVED: Any = {"is_derived": True, "has_times": True}

VIEWS: dict[str, ViewKind] = {
    kind.name: kind
    for kind in (
        ViewKind("2", "Connections", "Conns", "who talks to whom, how much, and how it ended", EVERYTHING),
        ViewKind("3", "Map", "Map", "who is bound, who connected there, and what flows"),
        ViewKind("4", "Topics", "Topics", "published topics, their rates and last messages"),
        ViewKind(
            "5",
            "Subscriptions",
            "Subs",
            "who subscribed to what, and what came of it",
            ("message", "command"),
            **DERIVED,
        ),
        ViewKind("6", "Problems", "Problems", "what went wrong, why, and what to do about it", EVERYTHING, **DERIVED),
        ViewKind(
            "7", "ZRE", "ZRE", "nodes, groups, and how they found each other", ("message", "datagram"), has_times=True
        ),
        ViewKind("8", "Statistics", "Stats", "how many messages when, how large, and which records", EVERYTHING),
        ViewKind(
            "9", "Peers", "Peers", "who was there, over all connections, and why they ended", EVERYTHING, **DERIVED
        ),
        ViewKind("0", "Requests", "Reqs", "what waits for a reply, and what took long", **DERIVED),
    )
}
"""Views by name, in the order of their keys. Key 1 is the list of messages."""
