from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zmtpscope.payloads.values import Json, plain, to_key

MAX_FIELDS = 10_000
"""Fields of one message, nested ones included."""
MAX_OCTETS = 16 << 20
"""Octets read of one message, unpacked ones included."""
MAX_FINDINGS = 1000
DEEPEST = 64
"""Maximum depth of nested objects and arrays."""
MAX_SOURCES = 3
"""Packed parts of one message that are unpacked, nested or not."""

UNPACKED_AT_FIRST, FIELDS_AT_FIRST = MAX_OCTETS, 2 * MAX_FIELDS
"""First allowance of a side for unpacking: octets, and fields read from them."""
UNPACKED_PER_OCTET, FIELDS_PER_OCTET = 100, 4
"""Allowance for unpacking that each octet of claimed messages adds."""

CONTAINERS = (dict, list, tuple)


class Limit(Exception):
    """A message exceeds a limit; `id` is the finding to report."""

    def __init__(self, id: str, detail: str) -> None:
        super().__init__(detail)
        self.id = id
        self.detail = detail


class Allowance:
    """Limits how much may be unpacked on one side, in proportion to the captured octets."""

    __slots__ = ("fields", "octets")

    def __init__(self) -> None:
        self.octets, self.fields = UNPACKED_AT_FIRST, FIELDS_AT_FIRST

    def earn(self, octets: int) -> None:
        """Increase the limit, because a message of `octets` was captured."""
        self.octets += UNPACKED_PER_OCTET * octets
        self.fields += FIELDS_PER_OCTET * octets


class Budget:
    """The numbers of fields, octets and findings that one message, including its unpacked parts, may still use.

    `allowance` is the limit of its side for unpacking.
    """

    __slots__ = ("allowance", "fields", "findings", "octets", "sources", "spare")

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allowance = allowance or Allowance()
        self.fields, self.octets, self.sources = MAX_FIELDS, MAX_OCTETS, 0
        self.findings = MAX_FINDINGS
        self.spare: int | None = None
        """Fields reserved for the rest of the message while a packed part is read, otherwise None."""

    def spend(self, octets: int, fields: int = 1) -> None:
        self.fields -= fields
        self.octets -= octets
        if self.fields < 0 and self.spare:
            raise Limit("PAYLOAD-02", "more fields than the limit for compressed messages of this size")
        if self.fields < 0:
            raise Limit("PAYLOAD-02", f"more than {MAX_FIELDS} fields")
        if self.octets < 0:
            raise Limit("PAYLOAD-02", f"more than {MAX_OCTETS >> 20} MiB")

    @contextmanager
    def of_packed(self) -> Iterator[None]:
        """Within this context, limit the fields that are read by the allowance of the side for unpacked octets."""
        if self.spare is not None:  # packed within a packed part
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
    """Convert a value at nesting depth `depth` to types that all output formats support.

    Its parts are subtracted from `budget`. Raises `Limit`, or `TypeError` for a value of another type.
    """
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
    """Convert the fields of a message to types that all output formats support.

    Their parts were counted when they were read, each at its own depth, so they are not counted again.
    """
    budget = Budget()
    budget.fields *= 2
    return counted(fields, budget, -DEEPEST)
