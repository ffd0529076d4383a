"""Shared by commands that read captures: options of the analyser, and messages on standard error."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.messages import say
from zmtpscope.export.words import nothing_found
from zmtpscope.option_texts import READ_OPTIONS, ReadOptions
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.curve_keys import Keys
    from zmtpscope.dissect import Options, Summary

DAMAGED = 3
HOW_TO_GET_KEYS = "zmtpscope keys record records the keys of a program's connections while it runs (docs/keys.md)"


class NoCapture(click.ClickException):
    """The given file cannot be read as a capture."""

    exit_code = 2


def named_captures(given: dict[str, Any]) -> list[str]:
    """Return the capture arguments, with and without `-r`."""
    paths = [*given["files"], *given["more_files"]]
    if not paths:
        raise click.UsageError("name a capture to read, or - for standard input")
    return paths


def is_read_once(path: str) -> bool:
    """Return whether `path` is standard input or a pipe, whose octets can be read only once."""
    if path == "-":
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # an error for the code that opens the file
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def analyser_options(given: dict[str, Any], **more: Any) -> Options:
    """Return analyser options for those of `ReadOptions`, `--payload-file` and `--show-secrets`, and `more`."""
    from zmtpscope.dissect import Options

    own = ReadOptions(**{name: given[name] for name in READ_OPTIONS})
    return Options.of(own, given["payload_files"], show_secrets=given["show_secrets"], **more)


def say_if_nothing_was_found(summary: Summary, captures: Captures) -> None:
    """Report a readable capture without ZMTP: its contents, and a remedy."""
    if (captures.statistics.packets or not captures.problems) and (
        found := nothing_found(summary, captures.statistics)
    ):
        say(f"zmtpscope: {found}")


def say_what_cannot_be_used(options: Options) -> None:
    """Report payload dissectors that cannot be used."""
    for problem in options.payloads.problems if options.payloads is not None else ():
        say(f"zmtpscope: {problem}")


def say_what_stayed_closed(summary: Summary, keys: Keys | None) -> None:
    """Report how many CURVE connections the given keys do not decrypt, why, and a remedy."""
    closed = summary.curve_connections - summary.opened_connections
    if closed and keys is not None:
        what = f"{closed} of {summary.curve_connections} CURVE connections with messages were not decrypted"
        say(f"zmtpscope: {what}: {_why_closed(summary, keys)}")


def _why_closed(summary: Summary, keys: Keys) -> str:
    if not keys.names_connections:
        if not keys.server_keys:
            return f"none of the keys can be used -> {HOW_TO_GET_KEYS}"
        proven = summary.proven_connections
        proof = f", they only prove the server of the client's key ({proven} of them)" if proven else ""
        return f"long-term keys do not decrypt messages{proof} -> {HOW_TO_GET_KEYS}"
    if not summary.named_connections:
        return (
            "the key files name other connections -> check that they are from the same run; if the capture started "
            "after HELLO, only CURVE_SHARED decrypts it"
        )
    unnamed = summary.curve_connections - summary.named_connections
    unfit = summary.named_connections - summary.opened_connections
    reasons = [f"the key files do not name {unnamed} of them -> {HOW_TO_GET_KEYS}"] if unnamed else []
    if unfit:
        reasons.append(
            f"the keys for {unfit} of them do not decrypt messages -> "
            "see the findings CURVE-12, and docs/keys.md for the keys that are needed"
        )
    return "; ".join(reasons)


def exit_code(captures: Captures) -> int:
    """Report damage and losses. Return the exit code of a run that read everything readable."""
    for problem in captures.problems:
        say(f"zmtpscope: {problem}")
    if drops := captures.statistics.dropped():
        from zmtpscope.dissect.findings.drops import by_interface

        one, many = "packet was dropped while it was captured", "packets were dropped while they were captured"
        say(f"zmtpscope: {counted(sum(drops.values()), one, many)}: {by_interface(drops)}")
    return DAMAGED if captures.problems or drops else 0
