"""What one side has subscribed to and joined: counted, as the text wants it (wire.md 10.2, 10.4, D12)."""

from __future__ import annotations

from zmtpscope.zmtp.reader import Reader

ENTERING = {"SUBSCRIBE": "topic", "JOIN": "group"}
LEAVING = {"CANCEL": "topic", "LEAVE": "group"}
MEMBERSHIP_COMMANDS = ENTERING.keys() | LEAVING.keys()

UNMATCHED = {"topic": "ZMTP-SUB-02", "group": "ZMTP31-GROUP-05"}
"""Findings for a cancel without subscription and a LEAVE without JOIN."""

LARGEST_MEMORY = 1 << 20
"""Characters of names after which nothing more is remembered; each counts one more than it has."""


class Memberships:
    """Topics and groups that are open on one side, with their counts."""

    __slots__ = ("_complete", "_counts", "_size")

    def __init__(self, complete: bool = True) -> None:
        self._complete = complete
        self._counts: dict[tuple[str, str], int] = {}
        self._size = 0

    def forgive(self) -> None:
        """Octets were lost: a subscription may have been among them."""
        self._complete = False

    @property
    def complete(self) -> bool:
        """Everything that is open is known."""
        return self._complete

    def open(self, what: str) -> set[str]:
        """All topics ("topic") or groups ("group") that are open."""
        return {name for kind, name in self._counts if kind == what}

    def is_open(self, what: str, name: str) -> bool:
        """Whether this topic or group is open."""
        return (what, name) in self._counts

    def judge(self, reader: Reader, command: str, name: str, start: int, length: int) -> None:
        """One more SUBSCRIBE, CANCEL, JOIN or LEAVE of `name`; findings are about `length` octets at `start`."""
        what = ENTERING.get(command) or LEAVING[command]
        count = self._counts.get((what, name), 0)
        if command in LEAVING:
            if count > 1:
                self._counts[what, name] = count - 1
            elif count == 1:
                del self._counts[what, name]
                self._size -= len(name) + 1
            elif self._complete:
                reader.finding(UNMATCHED[what], start, length)
            return
        if count and what == "topic":
            reader.finding("ZMTP-SUB-04", start, length)
        if count == 0 and self._size + len(name) >= LARGEST_MEMORY:
            self._complete = False
            return
        self._size += 0 if count else len(name) + 1
        self._counts[what, name] = count + 1
