"""Count the subscriptions and groups of one side (wire.md 10.2, 10.4, D12)."""

from __future__ import annotations

from zmtpscope.records import from_text
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.trie import NODE_COST, Trie

ENTERING = {"SUBSCRIBE": "topic", "JOIN": "group"}
LEAVING = {"CANCEL": "topic", "LEAVE": "group"}
MEMBERSHIP_COMMANDS = ENTERING.keys() | LEAVING.keys()

UNMATCHED = {"topic": "ZMTP-SUB-02", "group": "ZMTP31-GROUP-05"}

LARGEST_MEMORY = 16 << 20
"""Maximum memory in octets for the names of one side, as in `Trie.size`; further names are not stored."""

_NOTHING = Trie()
"""A trie that is shared, because most sides subscribe to nothing."""


class Memberships:
    __slots__ = ("_full", "_groups", "_most", "_topics", "complete")

    def __init__(self) -> None:
        self.complete = True
        self._full = False
        self._most = LARGEST_MEMORY
        self._topics = self._groups = _NOTHING

    def limit_to(self, octets: int) -> None:
        self._most = octets

    def forgive(self) -> None:
        """Stop reporting cancels of unknown topics, since lost octets may have contained their subscriptions."""
        self.complete = False

    @property
    def size(self) -> int:
        if self._topics is self._groups:  # neither has a name
            return 0
        return self._topics.size + self._groups.size

    def has_topic_of(self, message: bytes) -> bool:
        return self._topics.has_prefix_of(message)

    def has_group(self, group: bytes) -> bool:
        return self._groups.count(group) > 0

    def judge(self, reader: Reader, command: str, name: str, start: int, length: int) -> None:
        """Count a SUBSCRIBE, CANCEL, JOIN or LEAVE of the topic or group `name`.

        A finding covers `length` octets from stream offset `start`.
        """
        what = ENTERING.get(command) or LEAVING[command]
        names = self._topics if what == "topic" else self._groups
        octets = from_text(name)
        count = names.count(octets)
        if command in LEAVING:
            if count:
                names.remove(octets)
            elif self.complete:
                reader.finding(UNMATCHED[what], start, length)
            return
        if count and what == "topic":
            reader.finding("ZMTP-SUB-04", start, length)
        if count == 0 and self.size + len(octets) + 2 * NODE_COST > self._most:
            self.complete = False
            if not self._full:
                self._full = True
                reader.finding("ZMTP-CONN-13", start, length)
            return
        if names is _NOTHING:
            names = self._begin(what)
        names.add(octets)

    def _begin(self, what: str) -> Trie:
        names = Trie()
        if what == "topic":
            self._topics = names
        else:
            self._groups = names
        return names
