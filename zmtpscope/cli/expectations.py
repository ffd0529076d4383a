"""`--expect NAME=VALUE`: expected results of a probe, for scripts and monitoring."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import click

from zmtpscope.zmtp.socket_types import PEERS

if TYPE_CHECKING:
    from zmtpscope.live.probe.probe import Found

VALUES: dict[str, Collection[str] | None] = {
    "version": None,
    "mechanism": None,
    "socket-type": PEERS,
    "identity": None,
    "handshake": ("complete", "withheld", "needs credentials"),
    "ping": ("yes", "no"),
    "implementation": None,
}
"""Valid values by name; None: any text."""
PROPERTY = "property:"


class Expectation(NamedTuple):
    name: str
    expected: str

    def found(self, found: Found) -> str | None:
        """Return the value that the probe found, or None if unknown."""
        if self.name.startswith(PROPERTY):
            wanted = self.name.removeprefix(PROPERTY).lower()
            values = [each["value"] for each in found.metadata or () if each["name"].lower() == wanted]
            return self.expected if self.expected in values else next(iter(values), None)
        if self.name == "ping":
            return None if found.ping is None else "no" if found.ping.seconds is None else "yes"
        value: str | None = getattr(found, self.name.replace("-", "_"))
        return value

    def is_met(self, value: str | None) -> bool:
        """Whether a value meets the expectation. An implementation is described in words; part of them suffices."""
        if self.name == "implementation":
            return value is not None and self.expected.lower() in value.lower()
        return value == self.expected

    def describe(self, value: str | None) -> str:
        """Describe the unmet expectation and the actual value."""
        known = "is not known" if value is None else f'is "{value}"'
        return f'{self.name} {known}, and "{self.expected}" was expected'


def parse_expectations(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[Expectation]:
    """Parse `NAME=VALUE`, any number of times."""
    return [_parse(value) for value in values]


def _parse(text: str) -> Expectation:
    name, equals, expected = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE, for example socket-type=PUB")
    if name.startswith(PROPERTY) and name != PROPERTY:
        return Expectation(name, expected)
    if name not in VALUES:
        raise click.BadParameter(f"no value named {name!r}; use one of {', '.join(VALUES)} and {PROPERTY}NAME")
    known = VALUES[name]
    if known is not None and expected not in known:
        nearest = difflib.get_close_matches(expected.upper() if name == "socket-type" else expected, known, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"it is one of {', '.join(known)}"
        raise click.BadParameter(f"{name} is never {expected!r}; {hint}")
    return Expectation(name, expected)
