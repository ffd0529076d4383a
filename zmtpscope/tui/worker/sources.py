"""The octets behind a record: what fields count in, a tab of the bytes pane each."""

from __future__ import annotations

from zmtpscope.dissect.records.details import Detail
from zmtpscope.export.details import OPENED
from zmtpscope.tui.requests import Source

MOST_OCTETS = 1 << 20
"""Octets of a source that are shown."""

TITLES = {0: "stream", OPENED: "opened"}
UNPACKED = "unpacked"


class Sources:
    """Octets of one record, put together from its units in order. Units that lie side by side are one source."""

    def __init__(self) -> None:
        self._kinds: list[int] = []
        self._titles: list[str] = []
        self._firsts: list[int] = []
        self._octets: list[bytearray] = []
        self._stars: list[list[tuple[int, int]]] = []

    def add(self, detail: Detail) -> int:
        """Take in the octets of a unit: the index of their source."""
        index = self._of(detail)
        octets, secrets = bytearray(detail.octets), []
        for secret in detail.secrets:
            start, stop = (min(max(0, at - detail.offset), len(octets)) for at in (secret.start, secret.stop))
            octets[start:stop] = bytes(stop - start)
            secrets.append((detail.offset + start, detail.offset + stop))
        self._octets[index] += octets
        self._stars[index] += secrets
        return index

    def _of(self, detail: Detail) -> int:
        last = len(self._kinds) - 1
        goes_on = last >= 0 and detail.source <= OPENED and self._kinds[last] == detail.source
        if goes_on and self._firsts[last] + len(self._octets[last]) == detail.offset:
            return last
        self._kinds.append(detail.source)
        self._titles.append(TITLES.get(detail.source, UNPACKED))
        self._firsts.append(detail.offset)
        self._octets.append(bytearray())
        self._stars.append([])
        return last + 1

    def all(self) -> tuple[Source, ...]:
        """All sources, each cut to what is shown."""
        columns = zip(self._titles, self._firsts, self._octets, self._stars, strict=True)
        return tuple(
            Source(title, first, bytes(octets[:MOST_OCTETS]), tuple(sorted(stars)))
            for title, first, octets, stars in columns
        )

    @property
    def problem(self) -> str | None:
        """What was left out, in a sentence."""
        longest = max(map(len, self._octets), default=0)
        if longest <= MOST_OCTETS:
            return None
        return f"the first {MOST_OCTETS:,} of {longest:,} octets are shown: read --json has all of them"
