"""The scenarios, by what goes wrong; each module enters its own into the table."""

from captures.problems.scenarios import (
    connections,
    groups,
    peers,
    pressure,
    requests,
    security,
    strangers,
    subscriptions,
    unseen,
)

ALL = (subscriptions, groups, requests, connections, peers, security, strangers, pressure, unseen)
