"""What is read of one message at most."""

from __future__ import annotations

from zmtpscope.payloads.values import Json, plain, to_key

MOST_FIELDS = 10_000
"""Fields of one message, with what is packed inside it."""
MOST_OCTETS = 16 << 20
"""Octets of one message that are read, with what is packed inside it."""
MOST_FINDINGS = 1000
"""Findings about one message."""
DEEPEST = 64
"""Levels of objects and arrays; what is deeper is not read."""
MOST_SOURCES = 3
"""Packed parts of one message that are looked into, one in the other or not."""

CONTAINERS = (dict, list, tuple)


class Limit(Exception):
    """The message has more than is read: `id` is the finding that says so."""

    def __init__(self, id: str, detail: str) -> None:
        super().__init__(detail)
        self.id = id
        self.detail = detail


class Budget:
    """What may still be read of one message, shared with what is packed inside it."""

    __slots__ = ("fields", "findings", "octets", "sources")

    def __init__(self) -> None:
        self.fields, self.octets, self.sources = MOST_FIELDS, MOST_OCTETS, 0
        self.findings = MOST_FINDINGS

    def spend(self, octets: int, fields: int = 1) -> None:
        self.fields -= fields
        self.octets -= octets
        if self.fields < 0:
            raise Limit("PAYLOAD-02", f"more than {MOST_FIELDS} fields")
        if self.octets < 0:
            raise Limit("PAYLOAD-02", f"more than {MOST_OCTETS >> 20} MiB")


def counted(value: Json, budget: Budget, depth: int) -> Json:
    """A value that stands `depth` levels deep, as every output can hold it. Raises TypeError where there is no way."""
    budget.spend(0)
    if isinstance(value, dict):
        if depth >= DEEPEST:
            raise Limit("PAYLOAD-05", f"more than {DEEPEST} levels")
        return {to_key(key): counted(each, budget, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        if depth >= DEEPEST:
            raise Limit("PAYLOAD-05", f"more than {DEEPEST} levels")
        return [counted(each, budget, depth + 1) for each in value]
    return plain(value)


def checked(fields: Json) -> Json:
    """The fields that a dissector has set by itself, as every output can hold them. What they were made of was counted
    and had its limits before, each part of it at its own level."""
    budget = Budget()
    budget.fields *= 2
    return counted(fields, budget, -DEEPEST)
