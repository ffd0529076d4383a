"""`zmtpscope follow`: the messages of a connection, a peer or a topic."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import is_read_once, named_captures, reading
from zmtpscope.cli.filters import FILTER, given_choice
from zmtpscope.cli.output import COLOR, JSON, TIME_FORM, paint_of
from zmtpscope.cli.parameters import BODY, READ_FILES, SHOW_SECRETS, command, flag, option, options
from zmtpscope.cli.terminal import notify
from zmtpscope.option_texts import BODY_FORMS
from zmtpscope.words import listed

if TYPE_CHECKING:
    from zmtpscope.conversations.body_files import BodyFiles
    from zmtpscope.conversations.choosing import Chosen
    from zmtpscope.conversations.following import Names, Values
    from zmtpscope.dissect import Options, Summary

    Selected = tuple[Values, bool]

SELECTORS = ("conn", "peer", "topic", "filter")

MAX_SHOWN = 5
"""Names that an error about an unknown name lists."""


@command(short_help="Show one conversation: a connection, a peer or a topic.")
@options(*READ_FILES, FILTER, JSON, BODY, TIME_FORM, COLOR, SHOW_SECRETS)
@option(
    "--conn", type=click.IntRange(1), metavar="N", help="Follow connection N (N of c1, c2 ... in the output of read)."
)
@option("--peer", metavar="IDENTITY", help="Follow the peer with this identity, on all of its connections.")
@option(
    "--topic",
    metavar="TOPIC",
    help="Follow the messages published on exactly TOPIC. -Y 'topic contains prices' selects several topics.",
)
@option(
    "--as",
    "form",
    type=click.Choice(BODY_FORMS),
    default="auto",
    metavar="auto|text|hex|payload",
    help="Format of bodies: text, hex, payload (as decoded by the payload dissectors), or auto (text if printable, "
    "otherwise hex) [default: auto].",
)
@option(
    "--bodies",
    type=click.Path(),
    metavar="FILE|DIR/",
    help="Write the bodies to one FILE, or to one file per message in DIR, with an index of message and frame offsets.",
)
@flag("--force", help="Overwrite FILE if it exists.")
def follow(**given: Any) -> int:
    """Print one conversation from capture FILEs in order, with complete bodies: a connection, a peer, a topic, or the
    records that match a filter. If the capture has a single connection, no option is needed. Messages of side 0, which
    opened the connection, start with >, those of side 1 with <; the frames of a message are numbered."""
    paths = named_captures(given)
    followed = _followed(given, paths)
    if given["as_json"] and given["form"] != "auto":
        raise click.UsageError("--as and --json are mutually exclusive")
    from zmtpscope.conversations.choosing import Chosen
    from zmtpscope.conversations.following import Following, Names

    with reading(given) as run:
        if followed is None:
            followed = Chosen(_only_connection(given, paths, run.options))
        following = Following(followed, run.options, run.first_time)
        found, names = 0, Names()
        asks_by_name = given["peer"] is not None or given["topic"] is not None
        with _body_files(given) as files:
            write = _writer(given, run.first_time)
            for batch in run.batches():
                if asks_by_name and not found:  # names are not needed otherwise
                    names.feed(batch)
                records = following.records(batch)
                found += write(records if files is None else files.written(records))
        summary = run.analyser.summary
        if not found and summary.connections:
            notify(f"zmtpscope: no message matches the selection{_existing_names(given, names, summary)}")
    return run.exit_code()


def _followed(given: dict[str, Any], paths: Sequence[str]) -> Chosen | None:
    """Return the selection of `--conn`, `--peer`, `--topic` and `-Y`, or None if no option is given.

    A record must match all given options.
    """
    if all(given[name] is None for name in SELECTORS):
        if any(map(is_read_once, paths)):  # counting connections would consume them
            raise click.UsageError("select what to follow with --conn N, --peer IDENTITY, --topic TOPIC or -Y FILTER")
        return None
    return given_choice(given, () if given["conn"] is None else (given["conn"],))


def _only_connection(given: dict[str, Any], paths: Sequence[str], options: Options) -> frozenset[int]:
    """Return the number of the only connection in the captures, as a set; empty if there is none.

    Raises `click.UsageError` if there are several.
    """
    from zmtpscope.capture import open_captures
    from zmtpscope.dissect import Analyser

    only: frozenset[int] = frozenset()
    counting = dataclasses.replace(options, bodies="none", payloads=None, keys=None)
    for batch in Analyser(counting).run(open_captures(paths, packet_limit=given["packets"])):
        for record in batch.records:
            if record.type != "connection":
                continue
            if only:
                raise click.UsageError(
                    "the capture has several connections: select one with --conn N (zmtpscope stats --by connection "
                    "lists them), or use --peer IDENTITY, --topic TOPIC or -Y FILTER"
                )
            only = frozenset((record.values["conn"],))
    return only


def _existing_names(given: dict[str, Any], names: Names, summary: Summary) -> str:
    """Return the end of an error about an unknown connection, peer or topic: the existing names, or a command that
    lists them."""
    from zmtpscope.export.safe_text import safe_text
    from zmtpscope.records import from_text, to_text

    if given["conn"] is not None and given["conn"] > summary.connections:
        return f": connections are numbered 1 to {summary.connections}"
    for kind, known in (("peer", names.identities), ("topic", names.topics)):
        name = given[kind] if kind == "peer" or given[kind] is None else to_text(from_text(given[kind]))
        if name is not None and name not in known:
            return f": no {kind} {safe_text(name)}{safe_text(_nearest(name, known))}"
    return " -> zmtpscope read -q prints a summary of the capture"


def _nearest(name: str, known: set[str]) -> str:
    """Return names to suggest for an unknown one: all that contain `name`, or else the most similar one, or else the
    first ones."""
    from difflib import get_close_matches

    if not known:
        return "; the capture has none"
    longer = sorted(each for each in known if name in each)
    if not longer and (meant := get_close_matches(name, known, 1)):
        return f"; did you mean {meant[0]}?"
    return f"; there are {listed(longer or sorted(known), MAX_SHOWN)}"


@contextmanager
def _body_files(given: dict[str, Any]) -> Iterator[BodyFiles | None]:
    """Return in a context the writer for `--bodies`, or None. Its files appear only if the command succeeds."""
    if given["bodies"] is None:
        yield None
        return
    target = Path(given["bodies"])
    from zmtpscope.conversations.body_files import TooManyFiles, open_body_files

    is_folder = target.is_dir() or given["bodies"].endswith("/")
    try:
        files = open_body_files(target, is_folder=is_folder, force=given["force"])
    except FileExistsError as error:
        raise click.UsageError(str(error)) from None
    try:
        yield files
        files.commit()
    except TooManyFiles as error:
        raise click.UsageError(str(error)) from None
    finally:
        files.discard()


def _writer(given: dict[str, Any], first_time: Callable[[], int | None]) -> Callable[[Iterable[Selected]], int]:
    """Return a function that prints records of a conversation, and returns their number."""
    from zmtpscope.export.json_lines import escaped, line_of

    text = None
    if not given["as_json"]:
        from zmtpscope.conversations.text import ConversationText
        from zmtpscope.export.clock import Clock

        text = ConversationText(Clock(given["time_form"], first_time), given["form"], paint_of(given))
    ascii_only = sys.stdout.isatty()

    def write(records: Iterable[Selected]) -> int:
        count = 0
        for values, is_told in records:
            if not is_told:
                if text is not None:
                    text.learn(values)
                continue
            count += 1
            if text is not None:
                for line in text.lines(values):
                    sys.stdout.write(line)
            else:
                octets = line_of(values)
                sys.stdout.buffer.write(escaped(octets) if ascii_only else octets)
        sys.stdout.flush()
        return count

    return write
