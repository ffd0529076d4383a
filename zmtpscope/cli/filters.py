"""`-Y`: show only records that match a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.parameters import FILTERS
from zmtpscope.option_texts import Body
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.conversations.choosing import Chosen
    from zmtpscope.dissect import Batch, Options
    from zmtpscope.filter import Filter


class BadFilter(click.UsageError):
    """A usage error for an invalid filter. `shown` are two lines: the filter, and carets below the error."""

    def __init__(self, message: str, shown: tuple[str, ...]) -> None:
        super().__init__(message)
        self.shown = shown


def parse_filter(context: click.Context, parameter: click.Parameter, value: str | None) -> Filter | None:
    """Parse the value of `-Y`. An error is a usage error, with carets below the wrong part."""
    if value is None:
        return None
    from zmtpscope.filter import Filter, FilterError  # builds its fields, which is slow

    try:
        return Filter(value)
    except FilterError as error:
        sentence, *shown = str(error).split("\n")
        raise BadFilter(f"-Y: {sentence}", tuple(shown)) from None


FILTER = FILTERS.option(
    "-Y",
    "filter",
    callback=parse_filter,
    metavar="FILTER",
    help="Show only records that match FILTER, for example 'topic == prices and size > 1KiB' (docs/filters.md).",
)


def given_choice(given: dict[str, Any], conns: Iterable[int]) -> Chosen:
    """Return the selection that `--conn`, `--peer`, `--topic` and `-Y` describe; a record must match all of them."""
    from zmtpscope.conversations.choosing import Chosen
    from zmtpscope.filter import Filter
    from zmtpscope.records import from_text

    filters = [] if given["filter"] is None else [given["filter"]]
    if given["topic"] is not None:  # exactly this topic, as output shows it
        octets = "".join(f"\\x{octet:02x}" for octet in from_text(given["topic"]))
        filters.insert(0, Filter(f'topic == "{octets}"'))
    return Chosen(frozenset(conns), given["peer"], filters)


NOUNS = {"zre_pair": "pair of ZRE nodes"}
"""Nouns for record types whose own name is no noun."""


class Filtered:
    """Selects the records that match `filter`, and counts them.

    `first_time()` returns the time (ns) of the first packet of the capture.
    """

    def __init__(self, filter: Filter, options: Options, first_time: Callable[[], int | None]) -> None:
        self.filter = filter
        self.options = options
        self.first_time = first_time
        self.records: Counter[str] = Counter()

    def __call__(self, batch: Batch) -> Batch:
        from zmtpscope.filter.selection import Selection

        found = Selection(self.filter, batch, self.options, self.first_time()).as_batch()
        self.records.update(record.type for record in found.records)
        self.records["message"] += sum(len(run.orders) for run in found.messages)
        self.records["frame"] += sum(len(run.orders) for run in found.frames)
        return found

    def summary(self) -> str:
        """Describe the number of matching records: `12 messages, 1 finding`."""
        words = [counted(count, NOUNS.get(name, name)) for name, count in self.records.most_common() if count]
        return ", ".join(words) or "nothing"


def messages_filtered(
    filter: Filter | None, options: Options, first_time: Callable[[], int | None]
) -> Callable[[Batch], Batch]:
    """Return a function that removes the messages that do not match `filter` from a batch, for commands that count
    messages."""
    if filter is None:
        return lambda batch: batch
    from zmtpscope.filter.selection import with_messages

    return lambda batch: with_messages(filter, batch, options, first_time())


def body_for(filter: Filter | None) -> Body:
    """Return which octets of bodies the analyser must keep for a command that prints none: as many as the
    filter reads."""
    is_read = filter is not None and not filter.reads.isdisjoint(("bodies", "bodies_kept"))
    return Body("full" if is_read else "none", None)
