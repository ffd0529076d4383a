"""Write record_classes.pyi, what type checkers know of the classes of records: `python docs/api/generate.py`."""

from __future__ import annotations

import pathlib

from zmtpscope.api.rows import class_name
from zmtpscope.export.types import translate
from zmtpscope.records import RECORDS, RecordType

STUB = pathlib.Path(__file__).parents[2] / "zmtpscope/api/record_classes.pyi"

_COMMON = frozenset(("schema", "record", "ts_ns", "packet"))
_ADDRESSED = _COMMON | {"conn_id", "src_ip", "src_port", "dst_ip", "dst_port"}
_OF_STREAM = _ADDRESSED | {"side", "source", "offset", "length"}
_OF_CONNECTION = _OF_STREAM | {"conn"}
_SIDES = ("messages", "sealed", "bytes", "stream_bytes", "stalls", "stalled_ns")

KNOWN = {
    "connection": _ADDRESSED
    | {"conn", "start_ns", "end_ns", "ip_0", "port_0", "ip_1", "port_1", "transport", "handshake", "close"}
    | {f"{name}_{side}" for name in _SIDES for side in (0, 1)}
    | {"gap_bytes", "unseen_bytes", "unfinished_bytes", "undissected_bytes", "confidence"},
    "greeting": _OF_CONNECTION | {"form", "complete"},
    "command": _OF_CONNECTION | {"size", "decrypted", "complete"},
    "message": _OF_CONNECTION
    | {"bodies_kept", "packet_end", "ts_end_ns", "kind", "decrypted", "complete", "confidence"},
    "frame": _OF_CONNECTION | {"flags", "more", "long", "size", "message"},
    "datagram": _OF_STREAM | {"kind", "complete", "confidence"},
    "zre_pair": _ADDRESSED | {"conn", "uuid_0", "uuid_1"},
    "gap": _OF_CONNECTION | {"bytes", "reason"},
    "stall": _OF_CONNECTION | {"duration_ns", "until", "until_ns", "window_probes", "count", "longest_ns"},
    "retransmission": _OF_CONNECTION
    | {"duration_ns", "until", "until_ns", "retransmissions", "keepalive_probes", "smallest", "largest", "answers"}
    | {"acknowledged_before"}
    | {"count", "longest_ns"},
    "leftover": _OF_CONNECTION | {"bytes", "kind", "reason"},
    "finding": _COMMON | {"id", "severity", "text", "section", "refs", "count"},
    "request": _OF_CONNECTION | {"outcome"},
    "subscription": _OF_CONNECTION | {"topic", "form", "times", "messages"},
    "heartbeat": _OF_CONNECTION | {"outcome"},
    "peer": _COMMON
    | {"name", "address", "role", "connections", "failed", "start_ns", "end_ns", "state", "departures"}
    | {"messages_sent", "messages_received"},
    "topic": _COMMON | {"topic", "publisher", "messages", "bytes", "first_ns", "last_ns", "subscribers"},
    "delivery": _COMMON | {"topic", "publisher", "subscriber", "messages", "unacknowledged", "siblings"},
    "diagnosis": _COMMON | {"rule", "severity", "text", "hint", "subject", "certainty", "evidence", "count", "last_ns"},
}
"""Fields of the records of every type."""

STRUCTS = {"fields": "Payload", "value": "Property", "cause": "Departure", "ref": "Evidence"}
"""Structs, by a member that only they have."""

PYTHON = {"int": "int", "bool": "bool", "text": "str", "octets": "builtins.bytes", "json": "Any"}
"""Types of fields; some records have a field called `bytes`, which hides that type in their classes."""


def stub() -> str:
    """Return the text of the stub."""
    head = (
        "# Written by docs/api/generate.py from zmtpscope/record_fields.py.\n"
        "import builtins\n\n"
        "from zmtpscope.api.rows import Departure, Evidence, Payload, Property, Record\n\n"
    )
    classes = "\n".join(map(_class, RECORDS.values()))
    return f"{head}{classes}\nCLASSES: dict[str, type[Record]]\n"


def _class(type_: RecordType) -> str:
    lines = [f"class {class_name(type_.name)}(Record):"]
    for field in type_.fields:
        known = _python_type(field.type)
        if field.name not in KNOWN[type_.name]:
            known += " | None"
        lines += ["    @property", f"    def {field.name}(self) -> {known}: ..."]
    if any(field.name == "sizes" for field in type_.fields):
        lines += ["    @property", "    def size(self) -> int | None: ..."]
    return "\n".join(lines) + "\n"


def _python_type(type_: str) -> str:
    return translate(type_, PYTHON, "list[{}]".format, _struct)


def _struct(members: dict[str, str]) -> str:
    """Return the class of a struct with these members."""
    return next(name for member, name in STRUCTS.items() if member in members)


if __name__ == "__main__":
    STUB.write_text(stub())
