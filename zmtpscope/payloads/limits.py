"""What is read of one message at most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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

UNPACKED_AT_FIRST, FIELDS_AT_FIRST = MOST_OCTETS, 2 * MOST_FIELDS
"""What the packed messages of a side may become altogether: octets, and fields that are read of them ..."""
UNPACKED_PER_OCTET, FIELDS_PER_OCTET = 100, 4
"""... and so many more for each octet of the messages of the side that somebody claimed, packed or not."""

CONTAINERS = (dict, list, tuple)


class Limit(Exception):
    """The message has more than is read: `id` is the finding that says so."""

    def __init__(self, id: str, detail: str) -> None:
        super().__init__(detail)
        self.id = id
        self.detail = detail


class Allowance:
    """What the packed messages of one side may still become, so that unpacking costs no more than captured octets
    allow, however many messages there are."""

    __slots__ = ("fields", "octets")

    def __init__(self) -> None:
        self.octets, self.fields = UNPACKED_AT_FIRST, FIELDS_AT_FIRST

    def earn(self, octets: int) -> None:
        """A message of so many octets was captured."""
        self.octets += UNPACKED_PER_OCTET * octets
        self.fields += FIELDS_PER_OCTET * octets


class Budget:
    """What may still be read of one message, shared with what is packed inside it; `allowance` is that of its side."""

    __slots__ = ("allowance", "fields", "findings", "octets", "sources", "spare")

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allowance = allowance or Allowance()
        self.fields, self.octets, self.sources = MOST_FIELDS, MOST_OCTETS, 0
        self.findings = MOST_FINDINGS
        self.spare: int | None = None
        """Fields of the message that may not be read while what is packed inside it is; None elsewhere."""

    def spend(self, octets: int, fields: int = 1) -> None:
        self.fields -= fields
        self.octets -= octets
        if self.fields < 0 and self.spare:
            raise Limit("PAYLOAD-02", "more fields than packed messages of this side may have for their size")
        if self.fields < 0:
            raise Limit("PAYLOAD-02", f"more than {MOST_FIELDS} fields")
        if self.octets < 0:
            raise Limit("PAYLOAD-02", f"more than {MOST_OCTETS >> 20} MiB")

    @contextmanager
    def of_packed(self) -> Iterator[None]:
        """What is read now was packed: its fields are those that the side may still have."""
        if self.spare is not None:  # packed in what is packed
            yield
            return
        self.spare = max(0, self.fields - max(0, self.allowance.fields))
        self.fields = before = self.fields - self.spare
        try:
            yield
        finally:
            self.allowance.fields -= before - self.fields
            self.fields += self.spare
            self.spare = None


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
