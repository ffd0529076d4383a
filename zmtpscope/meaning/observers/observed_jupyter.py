"""What is remembered of the requests of Jupyter clients, and of the messages with which kernels respond."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.meaning.moments import Moment

MOST_IDS = 64
"""Ids that are remembered of a side, of requests and of responses."""


@dataclass(slots=True, eq=False)
class ObservedJupyter:
    """The messages of Jupyter that a side sends."""

    requests: int = 0
    asked: dict[str, Moment] = field(default_factory=dict)
    """The first requests, by their id."""
    responses: dict[str, int] = field(default_factory=dict)
    """When the last message came that belongs to a request, by the id of that."""
    response_count: int = 0
    """Messages that belong to requests."""
    forgot_ns: int = 0
    """When the last of those came that are not among `responses` any more."""
    is_busy: bool = False
    """The last status that it published was another than idle."""

    def responded(self, id_: str, ns: int) -> None:
        """Remember a message that belongs to a request."""
        self.response_count += 1
        self.responses.pop(id_, None)
        self.responses[id_] = ns
        if len(self.responses) > MOST_IDS:
            self.forgot_ns = self.responses.pop(next(iter(self.responses)))

    def ask(self, id_: str, moment: Moment) -> None:
        """Remember a request."""
        self.requests += 1
        if len(self.asked) < MOST_IDS:
            self.asked.setdefault(id_, moment)
