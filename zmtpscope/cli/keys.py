"""`zmtpscope keys`: CURVE key files."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import open_keys, report_problems
from zmtpscope.cli.parameters import Command, command, flag, option
from zmtpscope.cli.terminal import notify
from zmtpscope.export.safe_text import safe_text
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.curve_keys import KeyLine

DEFAULT = "zmtpscope.keys"


class NotRecorded(click.ClickException):
    """The program was not started, because its keys cannot be recorded."""

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


@click.group(short_help="Record CURVE keys, and list the keys in files.")
def keys() -> None:
    """Record the CURVE keys of your own programs, or list the keys in a file. `zmtpscope read --keys FILE` decrypts
    traffic with them."""


keys.add_command(record)


@keys.command("list", cls=Command, short_help="List the keys in key files, with secrets masked.")
@click.argument("key_files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@flag("--json", "as_json", help="Print JSON lines, one object per key.")
def list_keys(key_files: tuple[str, ...], as_json: bool) -> None:
    """List the keys in key logs and certificates (- for standard input): one line per key with its file and line
    number, then the counts. Secrets are masked. Long-term keys are printed in Z85, as in the configuration of a peer,
    and keys of one connection in hex.

    "secret of this public key" means that the masked secret was checked to belong to the public key before it.
    Unusable lines, and secrets that belong to another key, are reported on standard error."""
    keys = open_keys(key_files)
    counts: Counter[str] = Counter()
    for path, line in keys.lines():
        counts[line.label] += 1
        fields = _fields(line)
        if as_json:
            sys.stdout.write(
                json.dumps({"file": None if path is None else str(path), "line": line.number, **fields}) + "\n"
            )
        else:
            sys.stdout.write(
                f"{'standard input' if path is None else safe_text(str(path))}:{line.number}: {_text(fields)}\n"
            )
    if not as_json:
        sys.stdout.write(_total(counts, len(key_files)))
    report_problems(keys)


def _fields(line: KeyLine) -> dict[str, Any]:
    """Return the public parts of a key line, for JSON. null: missing, or not verifiable."""
    from zmtpscope.curve_keys import CLIENT_TRANSIENT, SERVER_LONGTERM, SERVER_PUBLIC, SERVER_PUBLIC_TRANSIENT
    from zmtpscope.records import MASK
    from zmtpscope.zmtp import z85

    of_server = line.label in (SERVER_LONGTERM, SERVER_PUBLIC)
    is_public = line.label == SERVER_PUBLIC_TRANSIENT
    return {
        "label": line.label,
        "key": z85.encode(line.public) if of_server else line.public.hex(),
        "value": None if line.value is None else line.value.hex() if is_public else MASK,
        "belongs": True if line.label in (SERVER_LONGTERM, CLIENT_TRANSIENT) else None,
        "server": None if line.server is None else z85.encode(line.server),
    }


def _text(fields: dict[str, Any]) -> str:
    words = [f"{fields['label']:<29}", fields["key"]]
    if fields["value"] is not None:
        words.append(fields["value"])
    if fields["belongs"]:
        words.append("secret of this public key")
    if fields["server"] is not None:
        words.append(f"server {fields['server']}")
    return " ".join(words)


def _total(counts: Counter[str], files: int) -> str:
    """Describe the number of keys: `3 keys in 1 file: 2 CURVE_SHARED, 1 CURVE_SERVER_PUBLIC`."""
    keys = counts.total()
    each = ", ".join(f"{count} {label}" for label, count in counts.items())
    return f"{counted(keys, 'key')} in {counted(files, 'file')}{': ' if each else ''}{each}\n"
