"""Requests from the screen to the worker, and their replies.

The worker holds the capture, and the screen only the data that it shows. Each request names the type of its reply. Text
contains no control characters (`export/safe_text.py`), and secrets are replaced by stars.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, get_args

from msgspec import Struct

from zmtpscope.tui.choices import MESSAGES

Reply = TypeVar("Reply")


class Request(Struct, Generic[Reply], tag=True, frozen=True, array_like=True):
    reply: ClassVar[Any] = None
    """Type of the reply, from the parameter of the base class."""

    def __init_subclass__(cls) -> None:
        (cls.reply,) = get_args(vars(cls)["__orig_bases__"][0])


# -- lists of records --------------------------------------------------------------------------------------------------


class Sort(Struct, frozen=True, array_like=True):
    column: str
    descending: bool = False


class ListSpec(Struct, frozen=True, array_like=True):
    """Which records a list contains, and how it shows them. `columns` are `choices.COLUMN_TITLES` or field names."""

    records: tuple[str, ...] = MESSAGES
    filter: str = ""
    sort: Sort | None = None
    columns: tuple[str, ...] = ()
    time: str = "r"
    only: tuple[int, ...] | None = None
    """Numbers of the (marked) records to show; None for all."""
    rules: tuple[tuple[str, str], ...] = ()
    """Colour rules (filter, style); the first match wins."""
    reference: int | None = None
    """Number of the record from which times count; None for the first packet."""


class Row(Struct, frozen=True, array_like=True):
    """A row of a list: the cells of record `number`. `style` is the record type, the severity of a finding, or comes
    from a colour rule."""

    number: int
    style: str
    cells: tuple[str, ...]


class Page(Struct, frozen=True, array_like=True):
    """Rows of a list, from row `low` on; fewer than requested at the end of the list."""

    low: int
    rows: tuple[Row, ...]


class TableColumn(Struct, frozen=True, array_like=True):
    name: str
    heading: str
    is_number: bool = False
    """Whether the column contains numbers, which are right-aligned, and sorted with the largest first."""
    width: int = 0
    """Width in cells; 0 fits the contents. The last column takes the rest."""
    rank: int = 0
    """Columns with the highest rank are hidden first if the line is full; rank 0 never."""
    style: str = ""
    """Style of cells (`widgets/styles.py`) if the row has none."""
    widest: int = 60
    """Maximum cells that the column requests."""
    is_name: bool = False
    """Whether the column contains names, which are narrowed after all other columns."""
    is_plot: bool = False
    """Whether the column contains plots over time, which are scaled to the cells, not cut."""


class ListState(Struct, frozen=True, array_like=True):
    """The progress of a list: `found` rows among the first `looked_at` of `total` records.

    Each `OpenList` with the same name increments `generation`. The first `kept` rows are the same as in the previous
    state.
    """

    name: str
    generation: int
    found: int
    looked_at: int
    total: int
    columns: tuple[TableColumn, ...] = ()
    order: int = 0
    """Incremented when existing rows are reordered."""
    kept: int = 0
    """Rows that kept their place since the state sent before."""


class OpenList(Request[ListState], frozen=True):
    """Request to open a list, in place of the list with the same name ("messages" is the main list).

    The reply to an invalid filter is a `Failure`.
    """

    name: str
    spec: ListSpec


class CloseList(Request[None], frozen=True):
    name: str


class Rows(Request[Page], frozen=True):
    """Request the rows `low..high` (`high` excluded) of a list."""

    list: str
    low: int
    high: int


class PlaceFound(Struct, frozen=True, array_like=True):
    """The position of a row in a list. Unless `is_exact`, it is the nearest row to the requested record."""

    place: int
    is_exact: bool


class PlaceOf(Request[PlaceFound | None], frozen=True):
    """Request the position of a record in a list, or of the nearest record in time. None if the list is empty."""

    list: str
    record: int


class Apart(Request[str], frozen=True):
    """Request the time between two records, as text."""

    first: int
    second: int


class Marks(Request[tuple[int, ...]], frozen=True):
    """Request to save the marked records of the capture for the next start. If `numbers` is None, request the saved
    ones."""

    numbers: tuple[int, ...] | None = None


class PlaceAt(Request[PlaceFound | None], frozen=True):
    """Request the position of the record nearest to a time (ns). None if the list is empty or not in the
    order of time."""

    list: str
    time: int


# -- one record --------------------------------------------------------------------------------------------------------


class Source(Struct, frozen=True, array_like=True):
    """The octets in a tab of the pane of octets, such as "packet 12", "stream" or "unpacked". Fields refer to them by
    offset.

    `stars` are ranges of hidden octets, and `parts` ranges that come from another source.
    """

    title: str
    first: int
    """Stream offset of the first octet."""
    octets: bytes
    """Secret ones are 0, and listed in `stars`."""
    stars: tuple[tuple[int, int], ...] = ()
    """Disjoint ranges (start, stop) of starred octets, as stream offsets."""
    parts: tuple[tuple[int, int, int, int], ...] = ()
    """(start, stop, source, place): octets that are also in another source, from `place` on."""


class Node(Struct, frozen=True, array_like=True):
    """One line of the field tree, in order from top to bottom. Its octets are `start` until `stop` of a source.

    `link` is the number of a record to which the field refers, or None.
    """

    depth: int
    name: str
    value: str
    source: int
    """Index of the source, or -1 if the field has no octets."""
    start: int = 0
    stop: int = 0
    """End of the octets, excluded. `start` and `stop` are offsets in the source."""
    link: int | None = None
    style: str = ""
    """"member" for members of a payload."""
    filter: str = ""
    """A filter for records with this value, or ""."""


class Details(Struct, frozen=True, array_like=True):
    """All fields of a record, with their octets. `problem` explains why octets are missing, or is None."""

    number: int
    line: str
    nodes: tuple[Node, ...]
    sources: tuple[Source, ...]
    problem: str | None = None


class DetailsOf(Request[Details], frozen=True):
    number: int


# -- views: counted tables ---------------------------------------------------------------------------------------------


class TableRow(Struct, frozen=True, array_like=True):
    """A row of a view. Rows below it with a larger `depth` are its children. Long texts extend over empty cells."""

    key: str
    """Key of the row, constant while the capture is open."""
    cells: tuple[str, ...]
    filter: str = ""
    """Filter for the counted records."""
    depth: int = 0
    style: str = ""
    has_more: bool = False
    record: int | None = None
    """Record that the row shows, if any."""
    scope: str = ""
    """Filter for the records of this row and its children, or ""."""
    looks: tuple[str, ...] = ()
    """Styles of cells, "" for the row's; empty if all are the row's."""
    time: int | None = None
    """Time to go to (ns), if the row shows no record."""


class Table(Struct, frozen=True, array_like=True):
    """The contents of a view, as counted from the first `looked_at` of `total` records."""

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    looked_at: int = 0
    total: int = 0
    text: tuple[str, ...] = ()
    """Lines above the table."""


class ViewTitle(Struct, frozen=True, array_like=True):
    """The titles and the key of a view. `meaning` describes it, and `short` is its title on a narrow screen."""

    name: str
    key: str
    title: str
    short: str
    meaning: str
    records: tuple[str, ...]
    """Record types that the filters of its rows match."""
    has_times: bool = False


class Views(Request[tuple[ViewTitle, ...]], frozen=True):
    """Request the titles of all views, in the order of their keys."""


class Wanted(Struct, frozen=True, array_like=True):
    """Which rows of a view to return, and in which order: at most `most`, in the order of the view or sorted.

    `opened` are the keys of rows whose children are visible, and `time` is one of `choices.TIMES`. `containing` keeps
    the rows with this text in a name or description, in any case, with their ancestors and children. `is_raw`: numbers
    without units.
    """

    sort: Sort | None = None
    opened: frozenset[str] = frozenset()
    most: int = 1000
    containing: str = ""
    time: str = "r"
    is_raw: bool = False
    """Whether numbers have no units and are not scaled: times and durations are nanoseconds."""


class TableOf(Request[Table], frozen=True):
    """Request the rows of a view (`worker/views/`), counted from the records that match `filter`."""

    view: str
    filter: str = ""
    wanted: Wanted = Wanted()


# -- filters -----------------------------------------------------------------------------------------------------------


class FilterProblem(Struct, frozen=True, array_like=True):
    """An error in a filter, and the position of the character where it is."""

    message: str
    place: int


class CheckFilter(Request[FilterProblem | None], frozen=True):
    filter: str


class Completion(Struct, frozen=True, array_like=True):
    """Texts that can replace the characters from `start` to `stop` of a filter, with a note for each."""

    start: int
    stop: int
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    """Meaning or frequency of each completion."""


class CompleteFilter(Request[Completion], frozen=True):
    """Request completions (fields, operators, values) at a position of a filter."""

    filter: str
    place: int


# -- other settings ----------------------------------------------------------------------------------------------------


class ReadAgain(Request[int], frozen=True):
    """Request to read the capture again with other settings; each replaces the previous one.

    `decode_as` are rules of `-d`, which come before those of the command line; `key_files` are further key files. The
    reply is the new `Progress.epoch`. Records get new numbers, lists restart with a new generation, and lists of marked
    records are empty. After an error (`Failure`), everything stays.
    """

    decode_as: tuple[str, ...] = ()
    key_files: tuple[str, ...] = ()
    frames: bool = False


# -- files and texts to copy -------------------------------------------------------------------------------------------


class SaveRows(Request[bool], frozen=True):
    """Request to write the rows of a list in the order of time, as .jsonl, .csv or .parquet, or their packets as
    .pcapng.

    The reply is False if the file exists and `force` is false. `SavingState` reports progress. One file is written at a
    time.
    """

    path: str
    list: str
    force: bool = False


class SaveTable(Request[bool], frozen=True):
    """Request to write the rows of a view as .jsonl or .csv, like `SaveRows`, with raw numbers (`Wanted.is_raw`)."""

    path: str
    table: TableOf
    force: bool = False


class RowJson(Request[str], frozen=True):
    """Request a row of a view as JSON, with raw numbers (`Wanted.is_raw`)."""

    table: TableOf
    key: str


class StopCapture(Request[None], frozen=True):
    """Request to stop a live capture, and keep its packets."""


class SaveCapture(Request[bool], frozen=True):
    """Request to write all captured packets to a pcapng file, like `SaveRows`.

    If the first packets are no longer available, the last `SavingState` reports it.
    """

    path: str
    force: bool = False


class Cancel(Request[None], frozen=True):
    """Request to cancel the search, or else the file that is being written, which is removed."""


class CopyTextOf(Request[str], frozen=True):
    """Request a record as text in one of `choices.COPY_FORMS`: ASCII, except for "line"."""

    number: int
    form: str


# -- filters made from values ------------------------------------------------------------------------------------------


class CellFilter(Request[str], frozen=True):
    """Request a filter that matches the records with the same text in a column."""

    record: int
    column: str


class Followed(Struct, frozen=True, array_like=True):
    """A conversation to which a record belongs. `name` is conn, peer or topic, and `filter` selects its records."""

    name: str
    title: str
    filter: str


class FollowsOf(Request[tuple[Followed, ...]], frozen=True):
    record: int


class Find(Request[int | None], frozen=True):
    """Request the next (or previous) row after `place` that contains a text, /regular expression/ or 0xOCTETS."""

    list: str
    sought: str
    place: int
    forward: bool = True


# -- notices of the worker ---------------------------------------------------------------------------------------------


class Started(Struct, frozen=True, array_like=True, tag=True):
    """Notice that the capture is open, or could not be opened (`exit_code` is not 0). `messages` are lines for the
    user."""

    exit_code: int = 0
    messages: str = ""


class Progress(Struct, frozen=True, array_like=True, tag=True):
    """Notice about the progress of reading, sent a few times a second."""

    records: int
    messages: int
    connections: int
    packets: int
    octets_read: int
    octets: int | None
    """Size of all files, or None if unknown."""
    is_done: bool
    is_live: bool
    dropped: int = 0
    lag: float = 0.0
    """Seconds that the analysis is behind the packets."""
    problems: tuple[str, ...] = ()
    """Sentences about damage, missing files, and octets that found no room."""
    nothing: str = ""
    """The reason why there is no ZMTP (yet), or ""."""
    diagnoses: str | None = None
    """Number of diagnoses by severity as text, from the first `diagnosed` records."""
    diagnosed: int = 0
    searched: int | None = None
    """Percentage of the rows searched; None without a search."""
    causes: tuple[TableRow, ...] = ()
    """The first rows of the view of problems, errors and warnings only."""
    epoch: int = 0
    """Incremented when the capture is read again and records get new numbers."""


class ListChanged(Struct, frozen=True, array_like=True, tag=True):
    """Notice that a list has more rows, or is complete."""

    state: ListState


class SavingState(Struct, frozen=True, array_like=True, tag=True):
    """Notice about a file that is being written: `done` of `total` rows or octets (0: unknown).

    The last one contains a summary or an error as `text`.
    """

    path: str
    done: int
    total: int
    is_done: bool = False
    text: str = ""
    has_failed: bool = False


class Failure(Struct, frozen=True, array_like=True):
    """The reply to a request that failed: the reason as a sentence."""

    message: str
