"""Facts about the requests of Jupyter clients, and the responses of kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.diagnosis.moments import Moment

MAX_IDS = 64
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
