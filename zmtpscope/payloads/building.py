"""Builds the fields of one record from named reads."""

from __future__ import annotations

from zmtpscope.payloads.values import Json, plain, to_key


class RecordBuilder:
    """Collects `fields`. Values go into the open object or array, initially `fields` itself."""

    __slots__ = ("_open", "fields")

    def __init__(self) -> None:
        self.fields: Json = {}
        self._open: Json = self.fields

    def store(self, name: str, value: Json) -> None:
        """Add a field to the open object, or an item to the open array."""
        into = self._open
        if isinstance(into, list):
            into.append(plain(value))
        else:
            into[to_key(name)] = plain(value)

    def existing(self, name: str, empty: Json) -> Json:
        """Return the field `name` of the open object, set to `empty` if it is missing."""
        return self._open.setdefault(to_key(name), empty)

    def enter(self, container: Json) -> Json:
        """Open an object or array. Returns the one that was open before, for `leave`."""
        outer, self._open = self._open, container
        return outer

    def leave(self, outer: Json) -> None:
        """Open the previous object or array again."""
        self._open = outer
