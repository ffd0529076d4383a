"""The fields of filters: all fields of records, fields derived from them, and Wireshark's names.

A field has no values if it is null or if the record type lacks it; a list has one value for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from zmtpscope.records import RECORDS, SECOND, to_text


class WiresharkName(NamedTuple):
    """A field name of Wireshark, for our field `ours`.

    A number n in a filter means n * `scale` + `shift` of our field. `version` is the IP version that its addresses must
    have.
    """

    name: str
    ours: str
    scale: int = 1
    shift: int = 0
    version: int | None = None


NAMES = (
    WiresharkName("frame.number", "packet"),
    WiresharkName("frame.time", "ts_ns"),
    WiresharkName("frame.time_epoch", "ts_ns", scale=SECOND),
    WiresharkName("frame.time_relative", "since_start", scale=SECOND),
    WiresharkName("tcp.stream", "conn", shift=1),
    *(
        WiresharkName(f"{name}.{wireshark}", ours, version=version)
        for name, version in (("ip", 4), ("ipv6", 6))
        for wireshark, ours in (("src", "src_ip"), ("dst", "dst_ip"), ("addr", "ip"))
    ),
    *(
        WiresharkName(f"{transport}.{wireshark}", ours)
        for transport in ("tcp", "udp")
        for wireshark, ours in (("srcport", "src_port"), ("dstport", "dst_port"), ("port", "port"))
    ),
    WiresharkName("zmtp.mechanism", "mechanism"),
    WiresharkName("zmtp.as-server", "as_server"),
    WiresharkName("zmtp.version", "version_announced"),
    WiresharkName("zmtp.command-name", "name"),
    WiresharkName("zmtp.length", "frame_sizes"),
    WiresharkName("zmtp.flags", "flags"),
    WiresharkName("zmtp.flags.more", "more"),
    WiresharkName("zmtp.flags.long", "long"),
    WiresharkName("zmtp.metadata.key", "metadata.name"),
    WiresharkName("zmtp.metadata.value", "metadata.value"),
    WiresharkName("zmtp.username", "username"),
    WiresharkName("zmtp.password", "password"),
    WiresharkName("zmtp.reason", "reason"),
    WiresharkName("zmtp.ping.ttl", "ttl_ms", scale=100),
    WiresharkName("zmtp.ping.context", "context"),
    WiresharkName("zmtp.data", "bodies"),
    WiresharkName("zmtp.data.text", "body_texts"),
)


Values = Mapping[str, Any]
"""A record as fields by name, with octets as bytes, and `CAPTURE_START`."""

CAPTURE_START = "capture_start_ns"
"""Key of the time of the first packet of the run in `Values`, if known."""


class Type(Enum):
    NUMBER = "a number"
    TRUTH = "true or false"
    TEXT = "text"
    OCTETS = "octets"
    MEMBERS = "a payload"
    ADDRESS = "an IP address"
    TIME = "a time"
    DURATION = "a length of time"


@dataclass(frozen=True, slots=True)
class FilterField:
    """A field of filters.

    - `records`: the record types that have it
    - `reads`: the record fields from which it is derived
    - `derive`: computes its values; without it they are the values of `reads`
    - `member`: for structs, the member whose values are taken
    - `accept`: selects values
    - `unit_ns`: the unit of a time or duration
    - `scale`, `shift`: a number n in a filter means n * `scale` + `shift`
    """

    name: str
    type: Type
    is_list: bool
    meaning: str
    records: tuple[str, ...]
    reads: tuple[str, ...]
    member: str | None = None
    derive: Callable[[Values], Iterable[Any]] | None = None
    accept: Callable[[Any], bool] | None = None
    unit_ns: int = 1
    scale: int = 1
    shift: int = 0
    words: tuple[str, ...] = ()
    """Valid words, if known. They take precedence over equal field names."""
    alias_of: str | None = None

    def values(self, record: Values) -> Iterable[Any]:
        """Yield the values of this field in a record, without nulls."""
        if record["record"] not in self.records:
            return ()
        found = self.derive(record) if self.derive is not None else self._values_read(record)
        return found if self.accept is None else filter(self.accept, found)

    def _values_read(self, record: Values) -> Iterable[Any]:
        for name in self.reads:
            value = record.get(name)
            for each in value if isinstance(value, list) else (value,):
                found = each if self.member is None or each is None else each.get(self.member)
                if found is not None:
                    yield found


_TYPES = {"int": Type.NUMBER, "bool": Type.TRUTH, "text": Type.TEXT, "octets": Type.OCTETS, "json": Type.MEMBERS}
_TIMES = (
    *("ts_ns", "ts_end_ns", "start_ns", "end_ns", "closed_ns", "until_ns", "first_ns", "last_ns", "reply_ts_ns"),
    *("fin_ns_0", "fin_ns_1", "rst_ns_0", "rst_ns_1"),
)
_ADDRESSES = ("src_ip", "dst_ip", "ip_0", "ip_1")
_UNITS_NS = {"ns": 1, "ms": 1_000_000}

_ALL = tuple(RECORDS)
_DATAGRAM = ("datagram",)
_HOLDERS = {
    "tcp": tuple(name for name in _ALL if name not in _DATAGRAM),
    "udp": _DATAGRAM,
    "zmtp": ("greeting", "command", "message", "frame"),
}
"""Fields by Wireshark protocol, for protocols that not all records have."""


USUAL = ("connection", "message")
"""Record types whose meaning of a field is shown, if several types have it."""


def _of_records() -> Iterable[FilterField]:
    """Yield the fields of all record types in `zmtpscope.records`, and the members of structs as fields."""
    holders: dict[str, list[str]] = {}
    for type_ in RECORDS.values():
        for field in type_.fields:
            holders.setdefault(field.name, []).append(type_.name)
    for name, records in holders.items():
        usual = next((type_ for type_ in USUAL if type_ in records), records[0])
        field = next(field for field in RECORDS[usual].fields if field.name == name)
        is_list = field.type.startswith("list<")
        inner = field.type.removeprefix("list<").removesuffix(">") if is_list else field.type
        if inner.startswith("struct<"):
            for each in inner.removeprefix("struct<").removesuffix(">").split(","):
                member, _, kind = each.partition(":")
                meaning = f"{field.meaning}: {member}"
                path = f"{name}.{member}"
                yield FilterField(path, _TYPES[kind], is_list, meaning, tuple(records), (name,), member)
            continue
        type_of = _TYPES[inner]
        if name in _TIMES:
            type_of = Type.TIME
        elif field.unit in _UNITS_NS:
            type_of = Type.DURATION
        elif name in _ADDRESSES:
            type_of = Type.ADDRESS
        unit = _UNITS_NS.get(field.unit or "", 1)
        words = _ALL if name == "record" else ()
        yield FilterField(name, type_of, is_list, field.meaning, tuple(records), (name,), unit_ns=unit, words=words)


def _size(record: Values) -> Iterable[Any]:
    sizes, size = record.get("sizes"), record.get("size")
    return (sum(sizes),) if sizes is not None else () if size is None else (size,)


def _since_start(record: Values) -> Iterable[Any]:
    start = record.get(CAPTURE_START)
    return () if start is None else (record["ts_ns"] - start,)


def _body_texts(record: Values) -> Iterable[Any]:
    return [to_text(body) for body in record.get("bodies") or () if body is not None]


_SIZED = ("message", "frame", "command")

MADE = (
    FilterField(
        "size",
        Type.NUMBER,
        False,
        "Octets in all frames of a message, or in the body of a frame or command",
        _SIZED,
        ("sizes", "size"),
        derive=_size,
    ),
    FilterField(
        "frame_sizes",
        Type.NUMBER,
        True,
        "Octets in each frame of a message, or in the body of a frame or command",
        _SIZED,
        ("sizes", "size"),
    ),
    FilterField("body_texts", Type.TEXT, True, "`bodies` as text", ("message",), ("bodies",), derive=_body_texts),
    FilterField("ip", Type.ADDRESS, True, "Address of the sender, or of the receiver", _ALL, ("src_ip", "dst_ip")),
    FilterField("port", Type.NUMBER, True, "Port of the sender, or of the receiver", _ALL, ("src_port", "dst_port")),
    FilterField(
        "since_start",
        Type.DURATION,
        False,
        "Time since the first packet of the capture",
        _ALL,
        ("ts_ns", CAPTURE_START),
        derive=_since_start,
    ),
)
"""Fields that are computed from record fields."""

_OTHER_NAMES = {"time": "ts_ns", "type": "record", "finding": "id"}


def _as_wireshark_has_it(name: WiresharkName, ours: FilterField) -> FilterField:
    holders = _HOLDERS.get(name.name.partition(".")[0], _ALL)
    return replace(
        ours,
        name=name.name,
        alias_of=ours.name,
        accept=_ACCEPT[name.version],
        records=tuple(record for record in ours.records if record in holders),
        scale=name.scale,
        shift=name.shift,
    )


_ACCEPT: dict[int | None, Callable[[Any], bool] | None] = {
    None: None,
    4: lambda address: ":" not in address,
    6: lambda address: ":" in address,
}


def _all_fields() -> dict[str, FilterField]:
    fields = {field.name: field for field in (*_of_records(), *MADE)}
    for name, ours in _OTHER_NAMES.items():
        fields[name] = replace(fields[ours], name=name, alias_of=ours)
    for each in NAMES:
        fields[each.name] = _as_wireshark_has_it(each, fields[each.ours])
    return fields


FIELDS = _all_fields()


def other_names(name: str, record: str | None) -> list[str]:
    """Return other names of a field or its members, in records of a type (None: any type)."""
    return [
        field.name
        for field in FIELDS.values()
        if field.alias_of is not None
        and (field.alias_of == name or field.alias_of.startswith(f"{name}."))
        and (record is None or record in field.records)
    ]
