"""What the screen asks the worker, and what comes back.

The worker is a process of its own, which has the capture; the screen has only what it shows. Each request names the
type of its reply. All text is safe to show (`export/safe_text.py`), and secrets are starred, before it comes here.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from zmtpscope.records import RECORDS

Reply = TypeVar("Reply")


class Request(Struct, Generic[Reply], tag=True, frozen=True, array_like=True):
    """Something that is asked of the worker."""

    reply: ClassVar[object] = None
    """The type of what comes back."""


# -- lists of records --------------------------------------------------------------------------------------------------


MESSAGES = ("message",)
EVERYTHING = tuple(name for name in RECORDS if name != "frame")
"""Types of records: what a list begins with, and all; frames are there where they were asked for."""


class Sort(Struct, frozen=True, array_like=True):
    """By which column rows are sorted."""

    column: str
    descending: bool = False


class ListSpec(Struct, frozen=True, array_like=True):
    """Which records a list has, and how they are shown. `columns` are names of `worker/columns.py`, or of fields of the
    filter language. `filter` is one of `-Y`, "" for all. `time` is a form of `-t`: a, r or d."""

    records: tuple[str, ...] = MESSAGES
    filter: str = ""
    sort: Sort | None = None
    columns: tuple[str, ...] = ()
    time: str = "r"
    only: tuple[int, ...] | None = None
    """Numbers of records, where the list is of these only: marked ones."""
    rules: tuple[tuple[str, str], ...] = ()
    """Colour rules: (filter, style), the first that holds gives its style."""


class Row(Struct, frozen=True, array_like=True):
    """One line of a list. `style` is the type of the record, or the severity of a finding, or that of a colour rule."""

    number: int
    """The number of the record in the store."""
    style: str
    cells: tuple[str, ...]


class Page(Struct, frozen=True, array_like=True):
    """The rows from `low` on; fewer than asked for where there are no more yet."""

    low: int
    rows: tuple[Row, ...]


class TableColumn(Struct, frozen=True, array_like=True):
    """A column of a view or of a list."""

    name: str
    heading: str
    is_number: bool = False
    """Numbers stand on the right, and sort with the largest first."""
    width: int = 0
    """Cells on the terminal; 0: what its cells need. The last column takes the rest."""
    rank: int = 0
    """Where there is no room, columns with a high rank are left out first; those with 0 never."""
    style: str = ""
    """How its cells look (`widgets/styles.py`), where the row does not say: muted, name, strong."""
    widest: int = 60
    """Cells that it asks for at most."""


class ListState(Struct, frozen=True, array_like=True):
    """How far a list has come: `found` rows, after `looked_at` of the `total` records that there are so far."""

    name: str
    generation: int
    """Counts up with every `OpenList` of the name."""
    found: int
    looked_at: int
    total: int
    columns: tuple[TableColumn, ...] = ()
    order: int = 0
    """Counts up when rows that are there stand in another order."""


class OpenList(Request[ListState], frozen=True):
    """Make a list, in place of the one with the same name: "messages" is the large one, others are of screens. A filter
    that is not understood comes back as a `Failure`."""

    reply: ClassVar[object] = ListState
    name: str
    spec: ListSpec


class CloseList(Request[None], frozen=True):
    """Nobody looks at this list any more."""

    name: str


class Rows(Request[Page], frozen=True):
    """The rows `low..high` (high excluded) of a list."""

    reply: ClassVar[object] = Page
    list: str
    low: int
    high: int


class PlaceFound(Struct, frozen=True, array_like=True):
    """A row of a list; `is_exact`: it is that of the record that was asked for, not the nearest one."""

    place: int
    is_exact: bool


class PlaceOf(Request[PlaceFound | None], frozen=True):
    """Where in a list the record with this number stands; where it is not in it, the row nearest to it in time; None of
    an empty list."""

    reply: ClassVar[object] = PlaceFound | None
    list: str
    record: int


# -- one record --------------------------------------------------------------------------------------------------------


class Source(Struct, frozen=True, array_like=True):
    """Octets that fields count in: a tab of the bytes pane."""

    title: str
    """packet 12, stream, opened, unpacked ..."""
    first: int
    """The offset of the first of `octets`, as the stream has it."""
    octets: bytes
    """Secret ones are 0 here, and in `stars`."""
    stars: tuple[tuple[int, int], ...] = ()
    """(start, stop) of secret octets, as the stream counts, which are shown as stars; apart from each other."""
    parts: tuple[tuple[int, int, int, int], ...] = ()
    """(start, stop, source, place): these octets are those of another source from `place` on, as that counts."""


class Node(Struct, frozen=True, array_like=True):
    """One field, in the order in which a tree is read from top to bottom."""

    depth: int
    name: str
    value: str
    source: int
    """Index of its source; -1: it has no octets."""
    start: int = 0
    stop: int = 0
    """Its octets, `stop` excluded, as the source counts."""
    link: int | None = None
    """The number of the record that this is about, to go there."""
    style: str = ""
    filter: str = ""
    """A filter that holds of records with this value, where there is one."""


class Details(Struct, frozen=True, array_like=True):
    """All fields of a record and the octets behind them. `problem` says why octets are not there."""

    number: int
    line: str
    nodes: tuple[Node, ...]
    sources: tuple[Source, ...]
    problem: str | None = None


class DetailsOf(Request[Details], frozen=True):
    """The fields and octets of a record."""

    reply: ClassVar[object] = Details
    number: int


# -- views: tables that are counted ------------------------------------------------------------------------------------


class TableRow(Struct, frozen=True, array_like=True):
    """One line of a view; below it, deeper ones that belong to it. Where these have a sentence, it may run over the
    empty cells to the right of it."""

    key: str
    """The same for the same thing, as long as the capture is open."""
    cells: tuple[str, ...]
    filter: str = ""
    """A filter of `-Y` that holds of the records that were counted here: every number leads to its rows."""
    depth: int = 0
    style: str = ""
    has_more: bool = False
    """Whether rows below it are left out, as nobody has opened it."""
    record: int | None = None
    """The number of the record to go to, where it is one."""
    scope: str = ""
    """A filter of all that the view needs to show this row and what is below it only; "": there is none."""
    looks: tuple[str, ...] = ()
    """How single cells look, "" as the row; none where all do."""


class Table(Struct, frozen=True, array_like=True):
    """What a view shows now. `looked_at` of the `total` records were counted so far."""

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    looked_at: int
    total: int
    text: tuple[str, ...] = ()
    """Lines that stand above the table."""


class ViewTitle(Struct, frozen=True, array_like=True):
    """A view that there is: `key` opens it, `meaning` says what it shows."""

    name: str
    key: str
    title: str
    meaning: str
    records: tuple[str, ...]
    """The types of records that the filters of its rows are about."""


class Views(Request[tuple[ViewTitle, ...]], frozen=True):
    """All views, in the order of their keys."""

    reply: ClassVar[object] = tuple[ViewTitle, ...]


class TableOf(Request[Table], frozen=True):
    """What a view (`worker/views/`) shows: of the records that `filter` holds of. `opened` are the keys of rows whose
    children are wanted; at most `most` rows."""

    reply: ClassVar[object] = Table
    view: str
    filter: str = ""
    sort: Sort | None = None
    opened: tuple[str, ...] = ()
    most: int = 1000


# -- filters -----------------------------------------------------------------------------------------------------------


class FilterProblem(Struct, frozen=True, array_like=True):
    """What is wrong with a filter, and where: the place of a character."""

    message: str
    place: int


class CheckFilter(Request[FilterProblem | None], frozen=True):
    """Whether a filter is understood."""

    reply: ClassVar[object] = FilterProblem | None
    filter: str


class Completion(Struct, frozen=True, array_like=True):
    """What could stand in place of the characters `start..stop` of a filter."""

    start: int
    stop: int
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    """What each of them means, or how often it was seen."""


class CompleteFilter(Request[Completion], frozen=True):
    """What could be typed at a place of a filter: fields, operators, values that were seen."""

    reply: ClassVar[object] = Completion
    filter: str
    place: int


# -- other settings ----------------------------------------------------------------------------------------------------


class ReadAgain(Request[int], frozen=True):
    """Read the capture once more, with rules of `-d` in front of those of the command line, with further key files, or
    with records of frames; each of these requests says all there is beside the command line. The reply is the new
    `Progress.epoch`. All numbers of records are new then, and lists begin again by themselves, with new generations;
    those of marked records are empty. What is wrong comes back as a `Failure`, and everything stays as it is."""

    reply: ClassVar[object] = int
    decode_as: tuple[str, ...] = ()
    key_files: tuple[str, ...] = ()
    frames: bool = False


# -- files and texts to take away --------------------------------------------------------------------------------------


class SaveRows(Request[bool], frozen=True):
    """Write the rows of a list to a file, in order of time. The ending of its path says as
    what: .jsonl, .csv, .parquet; .pcapng: their packets. What is there already is overwritten with `force` only: False
    says that it is there, and nothing is done. `SavingState` tells how far it is; one file is written at a time."""

    reply: ClassVar[object] = bool
    path: str
    list: str
    force: bool = False


class StopCapture(Request[None], frozen=True):
    """Take no more packets; what is there stays. Of a capture that does not grow there is nothing to stop."""


class SaveCapture(Request[bool], frozen=True):
    """Write all packets that were captured so far to a pcapng file, as `SaveRows` does rows. The text of the last
    `SavingState` says so where the beginning of the capture is not there any more."""

    reply: ClassVar[object] = bool
    path: str
    force: bool = False


class CancelSaving(Request[None], frozen=True):
    """Stop writing, and leave nothing behind."""


COPY_FORMS = (
    ("line", "its line"),
    ("json", "JSON"),
    ("hex", "octets in hex"),
    ("base64", "octets in base64"),
    ("c", "octets as an array of C"),
    ("cat", "the zmtpscope cat command that sends it"),
    ("pyzmq", "a pyzmq program that sends it"),
)
"""What of a record can be copied: names, and what people read."""


class CopyTextOf(Request[str], frozen=True):
    """A record as text to be pasted elsewhere, in one of `COPY_FORMS`; it may have several lines, of ASCII but for
    "line". What cannot be had so comes back as a `Failure`."""

    reply: ClassVar[object] = str
    number: int
    form: str


# -- filters that nobody types -----------------------------------------------------------------------------------------


class CellFilter(Request[str], frozen=True):
    """A filter that holds of the records which show the same in a column as this record."""

    reply: ClassVar[object] = str
    record: int
    column: str


class Followed(Struct, frozen=True, array_like=True):
    """What can be followed from a record: `name` is conn, peer or topic, `filter` holds of all that belongs to it."""

    name: str
    title: str
    filter: str


class FollowsOf(Request[tuple[Followed, ...]], frozen=True):
    """What can be followed from a record."""

    reply: ClassVar[object] = tuple[Followed, ...]
    record: int


class Find(Request[int | None], frozen=True):
    """The next row of a list behind `place` (or before it) that has a text, /a regular expression/ or 0xOCTETS."""

    reply: ClassVar[object] = int | None
    list: str
    sought: str
    place: int
    forward: bool = True


# -- what the worker says by itself ------------------------------------------------------------------------------------


class Started(Struct, frozen=True, array_like=True, tag=True):
    """The capture is open; or it is not, why has been said, and this is the exit code."""

    exit_code: int = 0


class Progress(Struct, frozen=True, array_like=True, tag=True):
    """How far the capture was read, said a few times a second while that changes."""

    records: int
    messages: int
    connections: int
    packets: int
    octets_read: int
    octets: int | None
    """Of all files; None where nobody knows."""
    is_done: bool
    is_live: bool
    dropped: int = 0
    lag: float = 0.0
    """Seconds that the analysis is behind the packets."""
    problems: tuple[str, ...] = ()
    """Damage, files that are gone, no room for octets: sentences."""
    diagnoses: str | None = None
    """How many of which severity, in words, as the `diagnosed` first records show; None: not known yet."""
    diagnosed: int = 0
    epoch: int = 0
    """Goes up when the capture is read again: numbers of records are new then."""


class ListChanged(Struct, frozen=True, array_like=True, tag=True):
    """A list has more rows, or is done."""

    state: ListState


class SavingState(Struct, frozen=True, array_like=True, tag=True):
    """How far a file is: `done` of `total`, rows or octets (0: nobody knows yet). At the end `text` says what is in it,
    or why it is not there (`has_failed`)."""

    path: str
    done: int
    total: int
    is_done: bool = False
    text: str = ""
    has_failed: bool = False


class Failure(Struct, frozen=True, array_like=True):
    """Why a request has no reply: a sentence for people."""

    message: str
