"""The fields of one record, as named reads give them."""

from __future__ import annotations

from zmtpscope.payloads.values import Json, plain, to_key


class RecordBuilder:
    """`fields` are those of the record; values go into the object or array that is open, at first into `fields`."""

    __slots__ = ("_open", "fields")

    def __init__(self) -> None:
        self.fields: Json = {}
        self._open: Json = self.fields

    def store(self, name: str, value: Json) -> None:
        """A field of the open object, or the next item of the open array."""
        into = self._open
        if isinstance(into, list):
            into.append(plain(value))
        else:
            into[to_key(name)] = plain(value)

    def existing(self, name: str, empty: Json) -> Json:
        """The field `name` of the open object; where it has none, `empty` is put there."""
        return self._open.setdefault(to_key(name), empty)

    def enter(self, container: Json) -> Json:
        """Open an object or array that stands somewhere in `fields`, or beside; the one that was open, for `leave`."""
        outer, self._open = self._open, container
        return outer

    def leave(self, outer: Json) -> None:
        """Go on with the one that was open before."""
        self._open = outer
