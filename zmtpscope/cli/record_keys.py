"""`zmtpscope keys record`: run a program, and record the keys of its CURVE connections."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from zmtpscope.cli.commands import command, option
from zmtpscope.cli.messages import notify
from zmtpscope.words import counted

DEFAULT = "zmtpscope.keys"


class NotRecorded(click.ClickException):
    """The program was not run, because its keys cannot be recorded."""

    exit_code = 2


@command(
    short_help="Run a program and record the keys of its CURVE connections.",
    context_settings={"allow_interspersed_args": False},
)
@option(
    "-o",
    "key_log",
    type=click.Path(path_type=Path),
    default=DEFAULT,
    metavar="FILE",
    help=f"Append the keys to FILE, created if missing [default: {DEFAULT}].",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
def record(key_log: Path, command: tuple[str, ...]) -> int:
    """Run COMMAND unmodified and append the keys of its CURVE connections to a key log; `zmtpscope read --keys`
    decrypts a capture of these connections with it. Both sides of a connection have its key, so recording one side is
    enough. The exit code is that of COMMAND.

    Use it only for programs and traffic that you are allowed to read: with the key log and the capture, anyone can
    read the messages, at any time. Delete the key log when you are done. Long-term keys are never written. Needs
    Linux, and a C compiler on first use."""
    # imported here to keep help and usage errors fast
    from zmtpscope.live.keys.recorder import KeyRecording, KeyRecordingError

    if not command:
        raise click.UsageError("name the program to run: zmtpscope keys record -- python client.py")
    try:
        recording = KeyRecording(command, key_log)
        notify(f"zmtpscope: recording CURVE keys to {key_log}")
        code = recording.run()
    except KeyRecordingError as error:
        raise NotRecorded(str(error)) from None
    notify(_outcome(key_log, recording.connections()))
    return code


def _outcome(key_log: Path, connections: int) -> str:
    if connections:
        keys = f"the keys of {counted(connections, 'connection')}"
        return f"zmtpscope: {key_log}: {keys} recorded -> zmtpscope read --keys {quote(str(key_log))} CAPTURE"
    return (
        f"zmtpscope: {key_log}: no keys were recorded -> if the program opened CURVE connections, its keys cannot "
        "be recorded (no shared libsodium, environment cleared, set-uid), or the file could not be written"
    )
