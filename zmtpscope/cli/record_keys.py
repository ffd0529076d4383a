"""`zmtpscope keys record`: run a program, and record the keys of its CURVE connections."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from zmtpscope.cli.messages import say
from zmtpscope.export.words import counted

DEFAULT = "zmtpscope.keys"


class NotRecorded(click.ClickException):
    """The program was not run, since its keys cannot be recorded."""

    exit_code = 2


@click.command(
    short_help="Run a program of yours and record the keys of its CURVE connections.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "-o",
    "key_log",
    type=click.Path(path_type=Path),
    default=DEFAULT,
    metavar="FILE",
    help=f"Append the keys to FILE, which is made when missing [{DEFAULT}].",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
def record(key_log: Path, command: tuple[str, ...]) -> int:
    """Run COMMAND, unmodified, and append the keys of its CURVE connections to a key log, with which `zmtpscope read
    --keys` opens what was captured of them. Both sides of a connection have its key, so recording one is enough. The
    exit code is that of COMMAND.

    Only for programs and traffic that you may read: whoever has the key log and the capture reads the messages, for
    ever. Delete it when you are done. Long-term keys are never written. Linux, with a C compiler on first use."""
    # imported here, so that help and usage errors stay quick
    from zmtpscope.live.keys.recorder import KeyRecording, KeyRecordingError

    if not command:
        raise click.UsageError("name the program to run: zmtpscope keys record -- python client.py")
    try:
        recording = KeyRecording(command, key_log)
        say(f"zmtpscope: recording CURVE keys to {key_log}")
        code = recording.run()
    except KeyRecordingError as error:
        raise NotRecorded(str(error)) from None
    say(_told(key_log, recording.connections()))
    return code


def _told(key_log: Path, connections: int) -> str:
    if connections:
        keys = f"the keys of {counted(connections, 'connection')}"
        return f"zmtpscope: {key_log}: {keys} recorded -> zmtpscope read --keys {quote(str(key_log))} CAPTURE"
    return (
        f"zmtpscope: {key_log}: no keys were recorded -> if the program made CURVE connections, it is one that cannot "
        "be recorded (no shared libsodium, environment cleared, set-uid), or the file could not be written"
    )
