"""`zmtpscope tui`: browse captures or live traffic."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.capture_options import (
    CAPTURE_OPTIONS,
    STANDARD_OUTPUT,
    check_no_capture_options,
    list_interfaces,
    take_capture_filter,
)
from zmtpscope.cli.captures import NoCapture, analyser_options, given_keys, named_captures, report_problems
from zmtpscope.cli.filters import FILTER
from zmtpscope.cli.followed_captures import open_followed
from zmtpscope.cli.parameters import (
    BODY,
    DECODING_OPTIONS,
    FILES,
    MORE_FILES,
    SHOW_SECRETS,
    Command,
    command,
    flag,
    option,
    options,
)
from zmtpscope.cli.terminal import missing_extra, notify
from zmtpscope.export.safe_text import safe_text
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.dissect import Options
    from zmtpscope.tui.worker.loading import Opened


ARGUMENTS = "zmtpscope.tui.arguments"
"""Key of the arguments of a page in the context's `meta`."""
SERVE = "--serve"
ANY_PORT = 0


class Servable(Command):
    """The command `tui` with `--serve [PORT]`. click alone would take a file name after `--serve` for the port."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Store the arguments, with which each page in a browser starts its own process."""
        whole, ctx.meta[ARGUMENTS] = split(args)
        return super().parse_args(ctx, whole)


def is_page() -> bool:
    """Whether this process serves a page in a browser: textual-serve sets an environment variable."""
    return "TEXTUAL_DRIVER" in os.environ


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments with a port joined to `--serve`, and the arguments without `--serve`."""
    whole: list[str] = []
    others: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            rest = [word, *left]
            return whole + rest, others + rest
        if word == SERVE:
            word = f"{SERVE}={left.pop(0) if left and left[0].isdecimal() else ANY_PORT}"
        whole.append(word)
        if not word.startswith(f"{SERVE}="):
            others.append(word)
    return whole, others


def serve(given: dict[str, Any], what: str) -> int:
    """Serve the interface in a browser until stopped, with `what` in the page title; return the exit code."""
    try:
        from zmtpscope.tui.serve import PageServer, listen, page_command
    except ImportError as error:
        raise missing_extra("--serve", "serve", error) from None
    if "-" in given["files"]:
        raise click.UsageError("--serve cannot show standard input: each page reads the capture itself")
    try:
        listening = listen(given["serve"])
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise click.ClickException(f"cannot listen on port {given['serve']}: {reason}") from None
    with listening:
        server = PageServer(page_command(click.get_current_context().meta[ARGUMENTS]), listening, what)
        click.echo(server.address)
        notify("zmtpscope: this address gives access to your captures, so keep it private; Ctrl-C stops")
        server.run()
    return 0


NO_TERMINAL = 2


@command(cls=Servable, short_help="Browse captures or live traffic in a full-screen interface.")
@options(FILES, MORE_FILES, FILTER, BODY, *CAPTURE_OPTIONS, *DECODING_OPTIONS, SHOW_SECRETS)
@flag("-F", "--follow", help="Follow a FILE that another tool is still writing.")
@option(
    "--serve",
    type=click.IntRange(0, 65535),
    metavar="[PORT]",
    help="Serve the interface to a browser on this machine and print its address; needs the extra `serve`.",
)
def tui(**given: Any) -> int:
    """Browse capture FILEs, or live traffic from network interfaces (-i), in a full-screen interface: messages with
    their fields and octets, connections, topics, requests, findings and diagnoses. FILE is as for `zmtpscope read`.
    Press ? for the keys."""
    if given["list_interfaces"]:
        return list_interfaces(netns=given["netns"], as_json=False)
    take_capture_filter(given)
    if not given["interfaces"]:
        _check_files(given)
    if given["write_to"] in STANDARD_OUTPUT:
        raise click.UsageError("-w -: the screen is on standard output; write the packets to a file or a FIFO")
    if given["serve"] is not None:
        return serve(given, _title(given))
    if not (sys.stdout.isatty() or is_page()):
        notify("zmtpscope: tui needs a terminal, and standard output is none; zmtpscope read writes lines and JSON")
        return NO_TERMINAL

    from zmtpscope.tui.worker.process import start
    from zmtpscope.tui.worker.run import run

    worker = start(lambda end: run(end, lambda: _open(given)))
    if "-" in given["files"]:
        _take_keyboard()
    if not is_page():
        print(f"opening {_title(given)} ...", end="\r", file=sys.stderr, flush=True)  # the interface is slow to import
    from zmtpscope.tui.screen import show

    return show(worker, _title(given), given["filter"].text if given["filter"] else "", is_page=is_page())


def _title(given: dict[str, Any]) -> str:
    if given["interfaces"]:
        return ", ".join(given["interfaces"])
    paths = named_captures(given)
    name = "standard input" if paths[0] == "-" else os.path.basename(paths[0].rstrip("/")) or paths[0]
    return safe_text(name if len(paths) == 1 else f"{name} and {counted(len(paths) - 1, 'other')}")


def _check_files(given: dict[str, Any]) -> None:
    paths = named_captures(given)
    check_no_capture_options(given, paths[0], "is read")
    if (given["follow"] or "-" in paths) and len(paths) > 1:
        raise click.UsageError("only one file can be followed at a time")


def _open(given: dict[str, Any]) -> tuple[Opened, Options]:
    """Return the input for the worker process, and its options. Raises `SystemExit` after an error message."""
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.capture.captures import LARGE_BLOCK_SIZE
    from zmtpscope.tui.worker.loading import Opened

    try:
        keys = given_keys(given)
        report_problems(keys)
        options = analyser_options(given, keys=keys, index=True)
        paths = [] if given["interfaces"] else named_captures(given)
        if given["interfaces"] or given["follow"] or paths == ["-"]:
            followed = open_followed(given, paths)
            return Opened(tuple(paths), lambda: followed.captures, followed), options
        open_captures(paths)
        sizes = {"packet_limit": given["packets"], "block_size": LARGE_BLOCK_SIZE}
        return Opened(tuple(paths), lambda: open_captures(paths, **sizes)), options
    except CaptureError as error:
        raise _exit(NoCapture(str(error))) from None
    except click.ClickException as error:
        raise _exit(error) from None
    except click.exceptions.Exit as error:
        raise SystemExit(error.exit_code) from None


def _exit(error: click.ClickException) -> SystemExit:
    error.show()
    return SystemExit(error.exit_code)


def _take_keyboard() -> None:
    """Read keys from the terminal instead of standard input, which is the capture."""
    terminal = os.open("/dev/tty", os.O_RDWR)
    os.dup2(terminal, 0)
    os.close(terminal)
