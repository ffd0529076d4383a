"""Options of `format("zmtp")`, `read` and `ingest`, checked on the driver and sent to workers.

Each process that plans a query imports this module, so functions for workers import their dependencies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from zmtpscope.capture import ALWAYS, CaptureError, CaptureProblem, TimeSpan
from zmtpscope.option_texts import LAST_PORT, READ_OPTIONS, Body, DecodeAs, ReadOptions, nearest
from zmtpscope.records import ACROSS, PLURALS, SECOND
from zmtpscope.spark.flows import Endpoints, flow_conditions
from zmtpscope.spark.folders import FolderColumn, folder_columns
from zmtpscope.spark.paths import PATH_OPTIONS, FoundCaptures, Lookup
from zmtpscope.spark.schemas import check_schema, column_field, record_name, table_columns

if TYPE_CHECKING:
    from zmtpscope.dissect import Options
    from zmtpscope.filter import Filter


class SettingsError(ValueError):
    """An invalid option. The message is one sentence."""


@contextmanager
def one_sentence(*more: type[Exception]) -> Iterator[None]:
    """Within the block, raise errors in options or captures, and of the types `more`, as one sentence.

    Spark prints the traceback of a worker's exception unless an environment variable is set when it is raised.
    """
    sentences: tuple[type[Exception], ...] = (CaptureError, SettingsError, *more)
    try:
        yield
    except sentences:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


LARGEST_BODY = 1 << 30
"""Octets of a body: Spark cannot hold values of twice this size."""
MAX_PARTITIONS = 10_000
NO_BODY = Body("none", None)
DEFAULT = ReadOptions()

NUMBERS_OF_CONNECTIONS = frozenset({"conn", "conn_0", "conn_1"})
"""Fields that are null in Spark, because each worker would number only its own connections. `conn_id` is the key."""

COMPARING = frozenset({"finding", "zre_pair"}) | ACROSS
"""Record types that depend on all connections."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The options of `format("zmtp")`, `read` and `ingest`, parsed.

    Key files are given by name: workers read them, and no plan contains a secret.
    """

    record: str = "message"
    columns: tuple[str, ...] | None = None
    """Selected columns; None: all."""
    options: ReadOptions = DEFAULT
    keys: tuple[str, ...] = ()
    ports: frozenset[int] = frozenset()
    """Packets from or to one of these ports; empty: any."""
    hosts: frozenset[bytes] = frozenset()
    """Packets from or to one of these addresses, 4 or 16 octets; empty: any."""
    since: int | None = None
    """Packets captured at this time or later (ns since the epoch)."""
    until: int | None = None
    """Time before which packets are read (ns)."""
    partitions: int | None = None
    """Number of partitions; None: by the size of the captures."""
    filter: str | None = None
    recursive: bool = False
    names: str = "*"
    base: str | None = None
    """The directory below which folders are columns."""
    per_file: bool = False
    """Whether each file is a capture of its own; otherwise all files are one capture."""
    fails: bool = False
    """Whether a damaged file fails the job; otherwise its readable packets are read and a finding names it."""
    folders: Mapping[str, FolderColumn] = field(default_factory=dict)
    """Columns from folders of the captures."""

    @staticmethod
    def parse(options: Mapping[str, Any], *, also: Collection[str] = ()) -> ReadSettings:
        """Return the settings for options, whose names may have any case. Values are texts, numbers, or lists.

        `also` names options that the caller handles. Raises `SettingsError`.
        """
        return ReadSettings.parse_lookup(options, also=also).of_captures(FoundCaptures())

    @staticmethod
    def parse_lookup(options: Mapping[str, Any], *, also: Collection[str] = ()) -> ReadSettings:
        """Return the settings before captures were searched; `of_captures` then checks the columns."""
        passed_over = {name.lower() for name in (*PATH_OPTIONS, *also)}
        found: dict[str, Any] = {}
        for name, value in options.items():
            if name.lower() in passed_over:
                continue
            option = OPTIONS.get(name.lower().removesuffix("_"))  # `from` is a Python keyword
            if option is None:
                raise SettingsError(f"no option named {name!r}{nearest(name, NAMES)}")
            setting, parse = option
            try:
                found[setting] = parse(value)
            except (ValueError, OverflowError) as error:
                raise SettingsError(f"option {name}: {error}") from None
        own = {name: found.pop(name) for name in READ_OPTIONS if name in found}
        settings = ReadSettings(options=ReadOptions(**own), **found)
        settings._check()
        return settings

    def of_captures(self, captures: FoundCaptures) -> ReadSettings:
        """Return the settings with the columns for the folders of these captures.

        Raises `SettingsError` for an unknown column.
        """
        settings = replace(self, folders=folder_columns(captures.roots))
        known = {name.lower() for name in table_columns(self.record)}
        for name in settings.folders:
            if name.lower() in known:
                raise SettingsError(
                    f"folder {name}=...: {PLURALS[self.record]} have a column of this name; rename the folder, or set "
                    "recursiveFileLookup=true, with which folders are no columns"
                )
        try:
            settings.column_names()
        except ValueError as error:
            raise SettingsError(f"option columns: {error}") from None
        return settings

    def column_names(self) -> list[str]:
        """Return the column names in order, folder columns last."""
        if self.columns is None:
            return [*table_columns(self.record), *self.folders]
        table_columns(self.record, [name for name in self.columns if name not in self.folders])
        for name in self.folders:
            if self.columns.count(name) > 1:
                raise ValueError(f"the column {name!r} is named twice")
        return [*self.columns]

    def schema(self, columns: Iterable[str] | None = None) -> StructType:
        """Return the schema of the requested table, or of these columns."""
        names = self.column_names() if columns is None else [*columns]
        return StructType(
            [
                self.folders[name].field(name) if name in self.folders else column_field(self.record, name)
                for name in names
            ]
        )

    def _check(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise SettingsError("option to: it must be later than the option from")
        for path in self.keys:
            if not os.access(path, os.R_OK):
                raise SettingsError(f"option keys: {path}: no such file, or no permission to read it")

    def parsed_filter(self) -> Filter | None:
        from zmtpscope.filter import Filter

        return None if self.filter is None else Filter(self.filter)

    @property
    def lookup(self) -> Lookup:
        return Lookup(self.recursive, self.names, self.base)

    @property
    def compares(self) -> bool:
        return self.record in COMPARING

    @property
    def needs_one_reader(self) -> bool:
        """Whether a scan must read all connections in one partition, because the table compares connections or contains
        datagrams."""
        return self.compares or self.record == "datagram"

    @property
    def span(self) -> TimeSpan:
        if self.since is None and self.until is None:
            return ALWAYS
        return TimeSpan(self.since or ALWAYS.since, self.until or ALWAYS.until)

    @property
    def endpoints(self) -> tuple[Endpoints, ...]:
        """The conditions on connections: one of the ports, and one of the hosts."""
        return flow_conditions(self.ports, self.hosts)

    def refuse(self, problems: Sequence[CaptureProblem]) -> None:
        """Raise `CaptureError` for the damaged files in `problems`, if the option `onError` requests it."""
        if self.fails and problems:
            problem = problems[0]
            raise CaptureError(problem.file, problem.text, offset=problem.offset or None)

    def check_schema(self, declared: StructType) -> None:
        """Check that a user's schema fits `record`. Raises `SettingsError`."""
        try:
            check_schema(self.record, declared, {name: column.type for name, column in self.folders.items()})
        except ValueError as error:
            raise SettingsError(f"schema: {error}") from None

    def dissect_options(self, columns: Iterable[str]) -> Options:
        """Return the analyser's options for rows of `record` with these columns.

        Reads the key files, and raises `SettingsError` if that fails.
        """
        wanted = {*columns, *_reads(self.filter)}
        keeps_bodies = bool(wanted & {"bodies", "bodies_kept", "body"})
        return self._options(
            keeps_bodies=keeps_bodies,
            looks_inside=self.record != "message" or keeps_bodies or "payload" in wanted,
            frames=self.record == "frame",
        )

    def export_options(self) -> Options:
        """Return export options for all records except frames."""
        return self._options(keeps_bodies=True, looks_inside=True, frames=False)

    def _options(self, *, keeps_bodies: bool, looks_inside: bool, frames: bool) -> Options:
        from zmtpscope.curve_keys import KeyFileError, Keys
        from zmtpscope.dissect import Options

        try:
            keys = Keys([Path(path) for path in self.keys]) if self.keys else None
        except KeyFileError as error:
            raise SettingsError(f"option keys: {error}") from None
        options = self.options if keeps_bodies else self.options._replace(body=NO_BODY)
        return Options.of(options if looks_inside else options._replace(payload="off"), frames=frames, keys=keys)


def _texts(value: Any, separator: str) -> list[str]:
    parts: Iterable[Any] = [value] if not isinstance(value, list | tuple | set | frozenset) else value
    return [text for part in parts for each in str(part).split(separator) if (text := each.strip())]


def _filter(value: Any) -> str:
    from zmtpscope.filter.fields import CAPTURE_START

    reads = _reads(str(value))
    if reads & NUMBERS_OF_CONNECTIONS:
        raise ValueError("connections have no numbers in Spark; use conn_id")
    if CAPTURE_START in reads:
        raise ValueError("a worker does not know the time of the first packet; compare ts_ns")
    return str(value)


def _reads(filter: str | None) -> frozenset[str]:
    if filter is None:
        return frozenset()
    from zmtpscope.filter import Filter

    return Filter(filter).condition.reads


def _columns(value: Any) -> tuple[str, ...]:
    names = _texts(value, ",")
    if not names:
        raise ValueError("no column named")
    return tuple(names)


def _read_option(name: str, value: Any) -> Any:
    """Parse one option. Texts of several values are separated by `;`."""
    _, parse, *_, many = READ_OPTIONS[name]
    found = tuple(map(parse, _texts(value, ";"))) if many else parse(str(value))
    for each in found if many else (found,):
        if isinstance(each, Body) and each.octets is not None and each.octets > LARGEST_BODY:
            raise ValueError(f"{value}: Spark holds at most 1G of a body")
        if isinstance(each, DecodeAs) and each.selector == "conn":
            raise ValueError(
                f"conn=={each.value!r}: connections have no numbers in Spark; name a port, tcp.port==5555,zmtp"
            )
    return found


def _ports(value: Any) -> frozenset[int]:
    texts = _texts(value, ",")
    for text in texts:
        if re.fullmatch("[0-9]{1,5}", text) is None or int(text) > LAST_PORT:
            raise ValueError(f"{text!r} is not a port; use 0 to {LAST_PORT}")
    return frozenset(map(int, texts))


def _hosts(value: Any) -> frozenset[bytes]:
    found = set()
    for text in _texts(value, ","):
        try:
            found.add(ip_address(text).packed)
        except ValueError:
            raise ValueError(f"{text!r} is not an IP address such as 10.0.0.7 or fd00::7") from None
    return frozenset(found)


def _time(value: Any) -> int:
    text = str(value).strip()
    if re.fullmatch("[0-9]{1,19}", text):
        return int(text)
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:[.](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", text)
    try:
        assert match is not None
        moment = datetime.fromisoformat(match[1] + (match[3] or ""))
    except (AssertionError, ValueError):
        raise ValueError(
            f"{text!r} is not a time; use nanoseconds since 1970, or 2026-05-01T10:00:00 (UTC without a time zone)"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86400 + whole.seconds) * SECOND + int((match[2] or "0").ljust(9, "0"))


def _partitions(value: Any) -> int:
    text = str(value)
    if re.fullmatch("[0-9]{1,9}", text) is None or not 1 <= int(text) <= MAX_PARTITIONS:
        raise ValueError(f"{text!r} is not a number of partitions; use 1 to {MAX_PARTITIONS}")
    return int(text)


def _one_of(no: str, yes: str) -> Callable[[Any], bool]:
    """Return a parser of one of two words, in any case: false for `no`, true for `yes`."""

    def parse(value: Any) -> bool:
        if str(value).lower() not in (no.lower(), yes.lower()):
            raise ValueError(f"{str(value)!r} is neither {no} nor {yes}")
        return str(value).lower() == yes.lower()

    return parse


NAMES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "record": ("record", lambda value: record_name(str(value))),
    "columns": ("columns", _columns),
    **{name: (name, partial(_read_option, name)) for name in READ_OPTIONS},
    "keys": ("keys", lambda value: tuple(_texts(value, os.pathsep))),
    "port": ("ports", _ports),
    "host": ("hosts", _hosts),
    "from": ("since", _time),
    "to": ("until", _time),
    "filter": ("filter", _filter),
    "partitions": ("partitions", _partitions),
    "recursiveFileLookup": ("recursive", _one_of("false", "true")),
    "pathGlobFilter": ("names", str),
    "basePath": ("base", str),
    "capture": ("per_file", _one_of("all", "perFile")),
    "onError": ("fails", _one_of("continue", "fail")),
}
"""The field and the parser of each option; the parser raises `ValueError` with a sentence."""

OPTIONS = {name.lower(): option for name, option in NAMES.items()}
assert {name for name, _ in NAMES.values()} - {*READ_OPTIONS} == {each.name for each in fields(ReadSettings)} - {
    "options",
    "folders",
}
