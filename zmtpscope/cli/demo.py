"""`zmtpscope demo`: small captures installed with zmtpscope, for trying out commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

import click

from zmtpscope.cli import zmtpscope
from zmtpscope.cli.parameters import command, flag, option
from zmtpscope.cli.terminal import already_exists

PACKAGE = Path(__file__).parent.parent
FOLDER = (PACKAGE if (PACKAGE / "captures").is_dir() else PACKAGE.parent) / "captures"
"""The folder of the captures below.

A wheel contains copies (force-include in pyproject.toml); a clone and an editable install read them from `captures/` of
the repository, which contains each file only once.
"""


class Demo(NamedTuple):
    """A demo capture, and commands to try on it. In a command, FILE stands for the name of the capture."""

    capture: str
    """Path below `captures/`."""
    summary: str
    commands: tuple[str, ...]

    @property
    def path(self) -> Path:
        return FOLDER / self.capture

    def commands_on(self, file: str) -> list[str]:
        """Return the commands with `file` as the name of the capture, without the program name."""
        return [command.replace("FILE", shlex.quote(file)) for command in self.commands]


CAPTURES = {
    "healthy": Demo(
        "patterns/reqrep.pcap",
        "a REQ sends 4 requests, and a REP answers each of them",
        ("read FILE", "check FILE", "follow FILE"),
    ),
    "late-subscriber": Demo(
        "problems/late-subscriber.pcap",
        "one of two subscribers subscribes late and misses the first 21 messages",
        ("read FILE -Y 'packet in {42..61}'", "check FILE", "check FILE --why prices@10.0.0.3", "tui FILE"),
    ),
    "wrong-curve-key": Demo(
        "problems/wrong-server-key.pcap",
        "a client has the wrong CURVE key of its server, which closes every connection",
        ("read FILE", "check FILE", "read FILE --all"),
    ),
    "hung-request": Demo(
        "problems/request-unanswered.pcap",
        "a server stops replying to one client, but still replies to another",
        ("read FILE -Y 'conn == 1'", "check FILE", "follow FILE --conn 1"),
    ),
    "damaged-file": Demo(
        "damage/cut-file.pcap",
        "the capture file ends inside a packet; everything before that packet is read",
        ("read FILE", "check FILE", "read -q FILE"),
    ),
}
SHOWN, SHOWN_COMMANDS = "late-subscriber", 2
"""The capture without a NAME, and the number of its commands to run."""


@command(short_help="Try zmtpscope on captures that are installed with it.")
@click.argument("name", type=click.Choice(list(CAPTURES)), required=False, metavar="[NAME]")
@flag("--list", "lists", help="List the captures, with a line about each.")
@option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the capture to FILE [default: NAME.pcap].",
)
@flag("--force", help="Overwrite FILE if it exists.")
def demo(name: str | None, lists: bool, output: Path | None, force: bool) -> None:
    """Show the output of `read` and `check` for a capture with a problem. With NAME, write the capture NAME to
    NAME.pcap in the current directory, for every command to read, and print the commands to type next."""
    if lists:
        width = max(map(len, CAPTURES))
        for each, capture in CAPTURES.items():
            click.echo(f"{each:<{width}}  {capture.summary}")
    elif name is not None:
        _write(CAPTURES[name], output or Path(f"{name}.pcap"), force=force)
    elif output is not None or force:
        raise click.UsageError("--output and --force need the NAME of a capture")
    else:
        _show(CAPTURES[SHOWN])


def _write(capture: Demo, target: Path, *, force: bool) -> None:
    from zmtpscope.export.files import write_file

    if target.exists() and not force:
        raise already_exists(target)
    write_file(target, capture.path.read_bytes())
    click.echo(f"{target}: {capture.summary}")
    _print_next(capture.commands_on(str(target)))


def _show(capture: Demo) -> None:
    """Run the first commands of a demo capture. Before the output of each, print the command line that a user would
    type."""
    click.echo(f"{SHOWN}: {capture.summary}\n")
    shown = capture.commands_on(f"{SHOWN}.pcap")[:SHOWN_COMMANDS]
    for typed, run in zip(shown, capture.commands_on(str(capture.path)), strict=False):
        click.echo(f"$ zmtpscope {typed}")
        zmtpscope.main(shlex.split(run), prog_name="zmtpscope", standalone_mode=False)
        click.echo()
    _print_next([f"demo {SHOWN}", "demo --list"])


def _print_next(commands: list[str]) -> None:
    click.echo("Type next:")
    for each in commands:
        click.echo(f"  zmtpscope {each}")
