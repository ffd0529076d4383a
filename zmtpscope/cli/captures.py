"""Open captures and key files, analyse captures, and report problems at the end."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from zmtpscope.cli.parameters import KEYLOG_VARIABLE
from zmtpscope.cli.terminal import is_seen, notify
from zmtpscope.export.words import nothing_found
from zmtpscope.option_texts import READ_OPTIONS, ReadOptions
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.cli.progress import Progress
    from zmtpscope.curve_keys import Keys
    from zmtpscope.dissect import Analyser, Batch, Options, Summary


STANDARD_INPUT = "-"


def given_keys(given: dict[str, Any]) -> Keys | None:
    """Load keys from `--keys` or the environment variable; return None if neither names a file."""
    names: Sequence[str] = given["key_files"]
    source = ""
    if click.get_current_context().get_parameter_source("key_files") is ParameterSource.ENVIRONMENT:
        names = [name for name in names if name]  # "one:$TWO" if TWO is not set
        source = f", named by {KEYLOG_VARIABLE}"
    if STANDARD_INPUT in names and STANDARD_INPUT in [*given["files"], *given.get("more_files", ())]:
        raise click.UsageError(f"standard input cannot be both a capture and a key file{source}")
    return open_keys(names, source) if names else None


def open_keys(names: Sequence[str], source: str = "") -> Keys:
    """Read key files (- is standard input), and warn about secrets that other users can read.

    An unreadable file is a usage error. `source` is appended to its text, and names the environment variable if the
    file name comes from there.
    """
    # imported here, because the latter loads libsodium
    from pathlib import Path

    from zmtpscope.curve_keys import KeyFileError, Keys

    if names.count(STANDARD_INPUT) > 1:
        raise click.UsageError(f"standard input can be read only once{source}")
    try:
        keys = Keys([None if name == STANDARD_INPUT else Path(name) for name in names])
    except KeyFileError as error:
        raise click.UsageError(f"{error}{source}") from None
    for path in keys.readable_by_others:
        import shlex

        notify(f"zmtpscope: {path}: other users can read the secret keys in it -> chmod 600 {shlex.quote(str(path))}")
    return keys


def report_problems(keys: Keys | None, reported: Sequence[str] = ()) -> Sequence[str]:
    """Report lines of key files that cannot be used, except the ones in `reported`; return all problems so far."""
    if keys is None:
        return reported
    problems = keys.problems
    for problem in problems:
        if problem not in reported:
            notify(f"zmtpscope: {problem}")
    return problems


DAMAGED = 3
HOW_TO_GET_KEYS = "zmtpscope keys record records the keys of a program's connections while it runs (docs/keys.md)"


class NoCapture(click.ClickException):
    """A given file cannot be read as a capture."""

    exit_code = 2


def named_captures(given: dict[str, Any]) -> list[str]:
    """Return the capture files of the command line, named with and without `-r`."""
    paths = [*given["files"], *given["more_files"]]
    if not paths:
        raise click.UsageError("name a capture to read, or - for standard input")
    return paths


def is_read_once(path: str) -> bool:
    """Whether a capture can be read only once: standard input or a pipe."""
    if path == "-":
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # an error for the code that opens the file
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def analyser_options(given: dict[str, Any], **more: Any) -> Options:
    """Return the analyser's options for the parameters of a command: `ReadOptions`, `--payload-file`, `--show-secrets`,
    and `more`."""
    from zmtpscope.dissect import Options

    own = ReadOptions(**{name: given[name] for name in READ_OPTIONS})
    return Options.of(own, given["payload_files"], show_secrets=given["show_secrets"], **more)


def report_nothing_found(summary: Summary, captures: Captures) -> None:
    """Report that a capture contains no ZMTP, what it contains instead, and a remedy."""
    if (captures.statistics.packets or not captures.problems) and (
        found := nothing_found(summary, captures.statistics)
    ):
        notify(f"zmtpscope: {found}")


def report_unusable_dissectors(options: Options) -> None:
    for problem in options.payloads.problems if options.payloads is not None else ():
        notify(f"zmtpscope: {problem}")


def report_still_encrypted(summary: Summary, keys: Keys | None) -> None:
    """Report the number of CURVE connections that the keys do not decrypt, the reason, and a remedy."""
    closed = summary.curve_connections - summary.opened_connections
    if closed and keys is not None:
        what = f"{closed} of {summary.curve_connections} CURVE connections with messages were not decrypted"
        notify(f"zmtpscope: {what}: {_why_closed(summary, keys)}")


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
    """Report damage of the captures, and lost packets; return the exit code of a run that read all readable data."""
    for problem in captures.problems:
        notify(f"zmtpscope: {problem}")
    if drops := captures.statistics.dropped():
        from zmtpscope.dissect.findings.drops import by_interface

        one, many = "packet was dropped while it was captured", "packets were dropped while they were captured"
        notify(f"zmtpscope: {counted(sum(drops.values()), one, many)}: {by_interface(drops)}")
    return DAMAGED if captures.problems or drops else 0


class Run:
    def __init__(self, analyser: Analyser, captures: Captures, paths: Sequence[str]) -> None:
        self.analyser = analyser
        self.captures = captures
        self.paths = paths
        self._is_reported = False

    @property
    def options(self) -> Options:
        return self.analyser.options

    def first_time(self) -> int | None:
        return self.captures.statistics.first_time

    def batches(self) -> Iterator[Batch]:
        return self.analyser.run(self.captures)

    def progress(self, *, shown: bool = True) -> Progress:
        """Return the progress bar of the run, which is drawn on terminals only."""
        from zmtpscope.cli.progress import Progress

        return Progress(self.captures.statistics, self.paths, shown and is_seen())

    def report_shortcomings(self, *, reports_nothing_found: bool = True) -> None:
        """Report once that a capture has no ZMTP, that dissectors failed to load, and which connections the keys do not
        decrypt."""
        if not self._is_reported:
            self._is_reported = True
            if reports_nothing_found:
                report_nothing_found(self.analyser.summary, self.captures)
            report_unusable_dissectors(self.options)
            report_still_encrypted(self.analyser.summary, self.options.keys)

    def exit_code(self) -> int:
        """Report damage of the captures, and lost packets; return the exit code."""
        return exit_code(self.captures)


@contextmanager
def reading(
    given: dict[str, Any], captures: Captures | None = None, *, block_size: int | None = None, **more: Any
) -> Iterator[Run]:
    """Return in a context the run of a command over `captures`, or over the files that the command names.

    At the end of the context, problems are reported. `more` are further options of the analyser.
    """
    # imported here to keep help, usage errors and other commands fast
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.dissect import Analyser

    keys = given_keys(given)
    reported = report_problems(keys)
    options = analyser_options(given, keys=keys, **more)
    try:
        if captures is None:
            paths, sizes = named_captures(given), {} if block_size is None else {"block_size": block_size}
            run = Run(Analyser(options), open_captures(paths, packet_limit=given["packets"], **sizes), paths)
        else:
            run = Run(Analyser(options), captures, ())
        yield run
    except CaptureError as error:
        raise NoCapture(str(error)) from error
    run.report_shortcomings()
    report_problems(keys, reported)


def read_through(
    given: dict[str, Any], feed: Callable[[Run, Batch], object], write: Callable[[Run], object], **more: Any
) -> int:
    """Pass all batches of a run to `feed`, then call `write` with the run; return the exit code.

    `more` are further options of the analyser. The first Ctrl-C stops reading, and the results so far are written; a
    second one exits at once.
    """
    from zmtpscope.capture.captures import LARGE_BLOCK_SIZE

    with reading(given, block_size=LARGE_BLOCK_SIZE, **more) as run:
        from zmtpscope.cli.signals import stopped_by_interrupt

        stopped: list[bool] = []
        with stopped_by_interrupt(lambda: stopped.append(True)), run.progress():
            for step in run.analyser.steps(run.captures):
                for batch in step:
                    feed(run, batch)
                if stopped:  # report everything read, including connections that continue
                    break
            for batch in run.analyser.finish_captures(run.captures):
                feed(run, batch)
        write(run)
        if stopped:
            raise KeyboardInterrupt
    return run.exit_code()
