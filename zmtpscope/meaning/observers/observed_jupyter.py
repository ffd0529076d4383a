"""Facts about the requests of Jupyter clients, and the responses of kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.meaning.moments import Moment

MOST_IDS = 64
"""Maximum number of ids of requests, and of responses, to remember for a side."""


@dataclass(slots=True, eq=False)
class ObservedJupyter:
    """The Jupyter messages of a side."""

    requests: int = 0
    asked: dict[str, Moment] = field(default_factory=dict)
    """The first requests, by id."""
    responses: dict[str, int] = field(default_factory=dict)
    """The time of the last response to each request, by request id."""
    response_count: int = 0
    """Number of responses."""
    forgot_ns: int = 0
    """The time of the last response no longer in `responses`."""
    is_busy: bool = False
    """The last published status was not idle."""

    def responded(self, id_: str, ns: int) -> None:
        """Remember a response to a request."""
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
