"""`tui --serve`: the option, and the server of pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from zmtpscope.cli.commands import Command
from zmtpscope.cli.messages import missing_extra, notify

ARGUMENTS = "zmtpscope.tui.arguments"
"""Key in the context's `meta` of the arguments of a page."""
SERVE = "--serve"
ANY_PORT = 0


class Servable(Command):
    """A command with `--serve [PORT]`, which a file may follow. click alone would take the file for the port."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments that start a page."""
        whole, ctx.meta[ARGUMENTS] = split(args)
        return super().parse_args(ctx, whole)


def is_page() -> bool:
    """Whether this process runs in a page: textual-serve sets an environment variable."""
    return "TEXTUAL_DRIVER" in os.environ


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments with the port joined to `--serve`, and the arguments without it."""
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
    """Serve pages titled `what` until stopped; return the exit code."""
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
