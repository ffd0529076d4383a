"""`zmtpscope probe`: identify a peer."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from zmtpscope.cli.credentials import CLIENT_OPTIONS, given_security
from zmtpscope.cli.parameters import command, flag, option, options
from zmtpscope.cli.terminal import notify
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
"""Valid values of expectations by name; None: any text."""
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
        """Whether a value meets the expectation. For the implementation, a part of its description is enough."""
        if self.name == "implementation":
            return value is not None and self.expected.lower() in value.lower()
        return value == self.expected

    def describe(self, value: str | None) -> str:
        known = "is not known" if value is None else f'is "{value}"'
        return f'{self.name} {known}, and "{self.expected}" was expected'


def parse_expectations(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[Expectation]:
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


UNMET = 4
LONGEST_WAIT = 600.0
STYLES = {"dim": "dim", "endpoint": "bold", "note": "bright_blue"}

Results = list[tuple[Expectation, str | None]]


def parse_wait(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not 0 < value <= LONGEST_WAIT:
        raise click.BadParameter(f"{value:g} is not a time limit; use more than 0 and at most {LONGEST_WAIT:g} seconds")
    return value


@command(
    short_help="Connect to an endpoint and identify the peer.",
    epilog="Exit codes: 0 identified and as expected, 2 usage, 4 an expectation failed, 10 unreachable or refused, "
    "11 silent or too slow, 12 not ZMTP, 13 version or mechanism mismatch, 14 login or key refused, 15 incompatible "
    "socket types, 16 protocol violation or limit, 17 closed too early.",
)
@click.argument("endpoint", metavar="ENDPOINT")
@flag("--json", "as_json", help="Print one JSON object.")
@option(
    "--expect",
    "expectations",
    multiple=True,
    callback=parse_expectations,
    metavar="NAME=VALUE",
    help="Exit with code 4 unless the peer has this value: socket-type=PUB, mechanism=CURVE, version=3.1, "
    "identity=..., handshake=complete, ping=yes, implementation=libzmq, property:NAME=...; repeatable.",
)
@option(
    "--wait",
    type=float,
    callback=parse_wait,
    default=5.0,
    metavar="SECONDS",
    help="Time limit for the whole probe [default: 5].",
)
@options(*CLIENT_OPTIONS)
@flag(
    "--join",
    help="Complete the handshake even if the peer may then send us messages that others miss (PUSH, PAIR ...).",
)
@flag("--ping", help="Send a PING even to a peer that announces 3.0; libzmq before 4.2 takes it for a message.")
@option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Use colour [default: auto].")
def probe(**given: Any) -> int:
    """Connect to ENDPOINT (tcp://host:port or ipc://path) and identify the peer: version, mechanism, socket type,
    identity, metadata, heartbeats, greeting, and the likely implementation.

    The probe sends no message and takes none away from others: if the peer distributes its messages over its
    connections (PUSH, DEALER, REQ, PAIR ...), the handshake is not completed unless you give --join. If CURVE or
    PLAIN refuses us without a key or login, the probe reports that (exit code 0), and --expect socket-type=...
    fails."""
    import asyncio

    from zmtpscope.cli.peer_errors import PeerFailed
    from zmtpscope.live.peer.arguments import parse_endpoint
    from zmtpscope.live.probe.probe import probe as look

    name = given["endpoint"]
    try:
        endpoint = parse_endpoint(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    security = given_security(given)
    found = asyncio.run(look(endpoint, security, given["wait"], join=given["join"], ping=given["ping"]))
    results: Results = [(each, each.found(found)) for each in given["expectations"]]
    unmet = [result for result in results if not result[0].is_met(result[1])]
    failed = None if found.error is None else PeerFailed(name, found.error)
    code = failed.exit_code if failed is not None else UNMET if unmet else 0
    if given["as_json"]:
        _write_json(name, found, results, code)
    else:
        _write_text(name, found, given)
    sys.stdout.flush()
    for expectation, value in unmet:
        if value is not None or failed is None:
            notify(f"zmtpscope: {name}: {expectation.describe(value)}")
    if failed is not None:
        raise failed
    return code


def _write_text(endpoint: str, found: Found, given: dict[str, Any]) -> None:
    from zmtpscope.cli.probe_report import facts, notes
    from zmtpscope.cli.terminal import painter
    from zmtpscope.export.safe_text import safe_text

    if found.version is None:
        return
    paint = painter(STYLES, given["color"])
    rows = list(facts(endpoint, found))
    width = max(len(name) for name, _ in rows)
    lines = [paint("endpoint", safe_text(endpoint))]
    lines += [f"  {paint('dim', f'{name:<{width}}')}  {value}" for name, value in rows]
    lines += [f"{paint('note', 'note')} {note}" for note in notes(found, joins=given["join"])]
    sys.stdout.write("\n".join(lines) + "\n")


def _write_json(endpoint: str, found: Found, results: Results, code: int) -> None:
    import json

    from zmtpscope.cli.probe_report import to_json

    report = to_json(endpoint, found)
    report["expectations"] = [
        {"name": each.name, "expected": each.expected, "found": value, "met": each.is_met(value)}
        for each, value in results
    ]
    report["error"] = None if found.error is None else str(found.error)
    report["exit_code"] = code
    sys.stdout.write(json.dumps(report) + "\n")
