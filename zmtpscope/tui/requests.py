"""Requests of the screen to the worker, and their replies.

The worker is a separate process that holds the capture; the screen holds only the part that it shows. Each request
names the type of its reply. All text is safe to print (`export/safe_text.py`), and secrets are already starred.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from zmtpscope.records import RECORDS

Reply = TypeVar("Reply")


class Request(Struct, Generic[Reply], tag=True, frozen=True, array_like=True):
    """A request to the worker."""

    reply: ClassVar[object] = None
    """Type of the reply."""


# -- lists of records --------------------------------------------------------------------------------------------------


MESSAGES = ("message",)
EVERYTHING = tuple(name for name in RECORDS if name != "frame")
"""Types of records in a new list, and all types. Frame records exist only if they were requested."""


class Sort(Struct, frozen=True, array_like=True):
    """The column that rows are sorted by."""

    column: str
    descending: bool = False


class ListSpec(Struct, frozen=True, array_like=True):
    """The records of a list, and how they are shown.

    `columns` are names of `worker/columns.py`, or fields of the filter language. `filter` is in the language of `-Y`,
    "" for all. `time` is a format of `-t`: a, r or d.
    """

    records: tuple[str, ...] = MESSAGES
    filter: str = ""
    sort: Sort | None = None
    columns: tuple[str, ...] = ()
    time: str = "r"
    only: tuple[int, ...] | None = None
    """If not None, show only records with these numbers (the marked ones)."""
    rules: tuple[tuple[str, str], ...] = ()
    """Colour rules (filter, style). The first filter that matches gives its style."""


class Row(Struct, frozen=True, array_like=True):
    """One row of a list. `style` is the record type, the severity of a finding, or the style of a colour rule."""

    number: int
    """Number of the record in the store."""
    style: str
    cells: tuple[str, ...]


class Page(Struct, frozen=True, array_like=True):
    """The rows from `low` on; fewer than requested at the end of the list."""

    low: int
    rows: tuple[Row, ...]


class TableColumn(Struct, frozen=True, array_like=True):
    """A column of a view or of a list."""

    name: str
    heading: str
    is_number: bool = False
    """Whether cells are numbers: right-aligned, and sorted with the largest first."""
    width: int = 0
    """Width in cells, or 0 to fit the contents. The last column takes the rest."""
    rank: int = 0
    """Without room, columns with a high rank are left out first, and columns with rank 0 never."""
    style: str = ""
    """Style of cells (`widgets/styles.py`) if the row has none: muted, name, strong."""
    widest: int = 60
    """Maximum width that the column requests, in cells."""


class ListState(Struct, frozen=True, array_like=True):
    """Progress of a list: `found` rows among the first `looked_at` of `total` records."""

    name: str
    generation: int
    """Incremented by every `OpenList` of the name."""
    found: int
    looked_at: int
    total: int
    columns: tuple[TableColumn, ...] = ()
    order: int = 0
    """Incremented when existing rows are reordered."""


class OpenList(Request[ListState], frozen=True):
    """Open a list, replacing one of the same name: "messages" for the main list, other names for other screens.

    An invalid filter results in a `Failure`.
    """

    reply: ClassVar[object] = ListState
    name: str
    spec: ListSpec


class CloseList(Request[None], frozen=True):
    """Close a list that is no longer shown."""

    name: str


class Rows(Request[Page], frozen=True):
    """Request the rows `low..high` (`high` excluded) of a list."""

    reply: ClassVar[object] = Page
    list: str
    low: int
    high: int


class PlaceFound(Struct, frozen=True, array_like=True):
    """The place of a row in a list. `is_exact`: it is the requested record, not the nearest one."""

    place: int
    is_exact: bool


class PlaceOf(Request[PlaceFound | None], frozen=True):
    """Request the place of a record in a list, or of the record nearest in time if the list does not contain it.

    None if the list is empty.
    """

    reply: ClassVar[object] = PlaceFound | None
    list: str
    record: int


# -- one record --------------------------------------------------------------------------------------------------------


class Source(Struct, frozen=True, array_like=True):
    """The octets that field offsets refer to: a tab of the bytes pane."""

    title: str
    """packet 12, stream, opened, unpacked ..."""
    first: int
    """Offset in the stream of the first of `octets`."""
    octets: bytes
    """The octets. Secret ones are 0, and listed in `stars`."""
    stars: tuple[tuple[int, int], ...] = ()
    """Disjoint ranges (start, stop) of secret octets, shown as stars, as offsets in the stream."""
    parts: tuple[tuple[int, int, int, int], ...] = ()
    """(start, stop, source, place): these octets are in another source too, from its offset `place` on."""


class Node(Struct, frozen=True, array_like=True):
    """One field. Fields are listed in the order of a tree read from top to bottom."""

    depth: int
    name: str
    value: str
    source: int
    """Index of the source, or -1 if the field has no octets."""
    start: int = 0
    stop: int = 0
    """End of the octets, excluded. `start` and `stop` are offsets in the source."""
    link: int | None = None
    """Number of the record that the field links to."""
    style: str = ""
    filter: str = ""
    """A filter that matches records with this value, or ""."""


class Details(Struct, frozen=True, array_like=True):
    """All fields of a record with their octets. `problem` is the reason if octets are missing."""

    number: int
    line: str
    nodes: tuple[Node, ...]
    sources: tuple[Source, ...]
    problem: str | None = None


class DetailsOf(Request[Details], frozen=True):
    """Request the fields and octets of a record."""

    reply: ClassVar[object] = Details
    number: int


# -- views: counted tables ---------------------------------------------------------------------------------------------


class TableRow(Struct, frozen=True, array_like=True):
    """One row of a view; deeper rows below belong to it.

    The sentence of a deeper row may extend over empty cells to its right.
    """

    key: str
    """Identifies the subject of the row while the capture is open."""
    cells: tuple[str, ...]
    filter: str = ""
    """A filter of `-Y` that matches the records counted in this row."""
    depth: int = 0
    style: str = ""
    has_more: bool = False
    """Whether the row has children that are not shown because it is closed."""
    record: int | None = None
    """Number of the record to go to, if the row shows one."""
    scope: str = ""
    """A filter of all records that the view needs for this row and its children, or ""."""
    looks: tuple[str, ...] = ()
    """Styles of single cells, "" for the style of the row; empty if all have it."""


class Table(Struct, frozen=True, array_like=True):
    """The current contents of a view. `looked_at` of the `total` records are counted."""

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    looked_at: int
    total: int
    text: tuple[str, ...] = ()
    """Lines above the table."""


class ViewTitle(Struct, frozen=True, array_like=True):
    """A view. `key` opens it, `meaning` describes it."""

    name: str
    key: str
    title: str
    meaning: str
    records: tuple[str, ...]
    """Types of records that the filters of its rows match."""


class Views(Request[tuple[ViewTitle, ...]], frozen=True):
    """Request all views, in the order of their keys."""

    reply: ClassVar[object] = tuple[ViewTitle, ...]


class TableOf(Request[Table], frozen=True):
    """Request the table of a view (`worker/views/`), counting the records that match `filter`.

    `opened` are the keys of rows whose children are shown; at most `most` rows are returned.
    """

    reply: ClassVar[object] = Table
    view: str
    filter: str = ""
    sort: Sort | None = None
    opened: tuple[str, ...] = ()
    most: int = 1000


# -- filters -----------------------------------------------------------------------------------------------------------


class FilterProblem(Struct, frozen=True, array_like=True):
    """An error in a filter, and its position in characters."""

    message: str
    place: int


class CheckFilter(Request[FilterProblem | None], frozen=True):
    """Check a filter."""

    reply: ClassVar[object] = FilterProblem | None
    filter: str


class Completion(Struct, frozen=True, array_like=True):
    """Completions for the characters `start..stop` of a filter."""

    start: int
    stop: int
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    """Meaning of each completion, or how often the value was seen."""


class CompleteFilter(Request[Completion], frozen=True):
    """Request completions at a position of a filter: fields, operators, values seen in the capture."""

    reply: ClassVar[object] = Completion
    filter: str
    place: int


# -- other settings ----------------------------------------------------------------------------------------------------


class ReadAgain(Request[int], frozen=True):
    """Read the capture again: with `-d` rules that precede the rules of the command line, with more key files, or with
    frame records. Each request replaces the one before; only the settings of the command line remain.

    The reply is the new `Progress.epoch`. Records get new numbers, lists restart with new generations, and lists of
    marked records are empty. An error results in a `Failure` and changes nothing.
    """

    reply: ClassVar[object] = int
    decode_as: tuple[str, ...] = ()
    key_files: tuple[str, ...] = ()
    frames: bool = False


# -- files and texts to copy -------------------------------------------------------------------------------------------


class SaveRows(Request[bool], frozen=True):
    """Write the rows of a list to a file, in order of time. The extension selects the format: .jsonl, .csv, .parquet,
    or .pcapng for the packets of the rows.

    An existing file is overwritten only with `force`; otherwise the reply is False and nothing is written.
    `SavingState` reports progress. One file is written at a time.
    """

    reply: ClassVar[object] = bool
    path: str
    list: str
    force: bool = False


class StopCapture(Request[None], frozen=True):
    """Stop capturing and keep the packets captured so far. Without effect on a capture that does not grow."""


class SaveCapture(Request[bool], frozen=True):
    """Write all packets captured so far to a pcapng file, as `SaveRows` writes rows.

    The text of the last `SavingState` reports if the start of the capture is lost.
    """

    reply: ClassVar[object] = bool
    path: str
    force: bool = False


class CancelSaving(Request[None], frozen=True):
    """Cancel writing and remove the incomplete file."""


COPY_FORMS = (
    ("line", "its line"),
    ("json", "JSON"),
    ("hex", "octets in hex"),
    ("base64", "octets in base64"),
    ("c", "octets as an array of C"),
    ("cat", "the zmtpscope cat command that sends it"),
    ("pyzmq", "a pyzmq program that sends it"),
)
"""Formats in which a record can be copied: names and titles."""


class CopyTextOf(Request[str], frozen=True):
    """Request a record as text in one of `COPY_FORMS`.

    The text may have several lines, and is ASCII except for "line". Results in a `Failure` if the record does not have
    this format.
    """

    reply: ClassVar[object] = str
    number: int
    form: str


# -- filters made from values ------------------------------------------------------------------------------------------


class CellFilter(Request[str], frozen=True):
    """Request a filter that matches all records with the same text in a column as this record."""

    reply: ClassVar[object] = str
    record: int
    column: str


class Followed(Struct, frozen=True, array_like=True):
    """A conversation to follow: `name` is conn, peer or topic, `filter` matches all its records."""

    name: str
    title: str
    filter: str


class FollowsOf(Request[tuple[Followed, ...]], frozen=True):
    """Request the conversations that a record belongs to."""

    reply: ClassVar[object] = tuple[Followed, ...]
    record: int


class Find(Request[int | None], frozen=True):
    """Find the next row after (or before) `place` that contains a text, /a regular expression/ or 0xOCTETS."""

    reply: ClassVar[object] = int | None
    list: str
    sought: str
    place: int
    forward: bool = True


# -- notices of the worker ---------------------------------------------------------------------------------------------


class Started(Struct, frozen=True, array_like=True, tag=True):
    """The capture is open, or opening failed with this exit code and the reason was already printed."""

    exit_code: int = 0


class Progress(Struct, frozen=True, array_like=True, tag=True):
    """Reading progress, sent a few times a second while it changes."""

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
    """Seconds by which the analysis is behind the packets."""
    problems: tuple[str, ...] = ()
    """Damage, missing files, lack of space for octets: sentences."""
    diagnoses: str | None = None
    """Number of diagnoses by severity, in words, from the first `diagnosed` records; None if not yet known."""
    diagnosed: int = 0
    epoch: int = 0
    """Incremented when the capture is read again; records then have new numbers."""


class ListChanged(Struct, frozen=True, array_like=True, tag=True):
    """A list has more rows, or is complete."""

    state: ListState


class SavingState(Struct, frozen=True, array_like=True, tag=True):
    """Progress of a file: `done` of `total` rows or octets (0: unknown).

    The last `text` describes the contents, or the error if `has_failed`.
    """

    path: str
    done: int
    total: int
    is_done: bool = False
    text: str = ""
    has_failed: bool = False


class Failure(Struct, frozen=True, array_like=True):
    """The reason why a request failed, as a sentence."""

    message: str
