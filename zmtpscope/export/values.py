"""The fields of records other than messages, as every output shows them, with secrets masked."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeVar

from zmtpscope.dissect import Options, Record
from zmtpscope.dissect.records.batch import SharedFields
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.record_fields import COMMON
from zmtpscope.records import MASK, RECORDS
from zmtpscope.zmtp.reader import FieldNode, Value

USER, USER_SIZE, PASSWORD_SIZE = "plain.username", "plain.username_len", "plain.password_len"
NAMES = ("zmtp.command.name", "zmtp.command.name_padded", "zmtp.command.data")
UNREAD = ("zmtp.command.data", "zmtp.trailing")
"""Fields that may contain the password of a HELLO: of PLAIN after a wrong length, or of an unknown mechanism."""


def hidden_fields(values: dict[str, Any]) -> dict[str, Any]:
    hidden: dict[str, Any] = {}
    if values["password"] is not None:
        hidden["password"] = MASK
    if values["data"] is not None and (_is_hello(values["name"]) or _is_hello(values["data"])):
        hidden["data"] = None
    return hidden


def secret_spans(tree: FieldNode) -> list[range]:
    """Return the stream offsets of secrets, such as passwords, in the field tree of a command."""
    leaves = list(tree.leaves())
    names = {leaf.name for leaf in leaves}
    secret = {name for name in names if name.endswith((".password", ".secret"))}
    if USER_SIZE in names or any(leaf.name in NAMES and _is_hello(leaf.value) for leaf in leaves):
        secret.update(UNREAD)
    if PASSWORD_SIZE not in names:  # a length is wrong, so the user name may include the password
        secret.add(USER)
    return [range(leaf.start, leaf.start + leaf.length) for leaf in leaves if leaf.name in secret]


def _is_hello(name: Value) -> bool:
    """Whether a command name, or command data as octets, is HELLO in any spelling."""
    if isinstance(name, bytes):
        return name[:4].lower() == b"ello"  # the H was taken for the length of the name
    if not isinstance(name, str):
        return False
    return name.lower().startswith("hello") or name == "WELCO"  # with the length that libzmq 4.3.0 sends (D39)


LARGEST_INT = 2**63 - 1

_NUMBERS = {
    name: [field.name for field in type_.fields[len(COMMON) :] if field.type == "int"]
    for name, type_ in RECORDS.items()
}
"""Numbers among the own fields of each record type."""
_NUMBERS_OF = {name: itemgetter(*fields) for name, fields in _NUMBERS.items()}

T = TypeVar("T")


def record_values(record: Record, options: Options) -> dict[str, Any]:
    """Return all fields of a record by name, as in `zmtpscope.records`."""
    own = shown_fields(record, options)
    has_changes = own is not record.own or not (record.file or "").isascii()
    return {**record.values, "file": file_name(record.file), **own} if has_changes else record.values


def shown_fields(record: Record, options: Options) -> dict[str, Any]:
    """Return the fields that only this record type has.

    Numbers above signed 64 bits are null, and secrets are masked unless the options show them.
    """
    return of_fields(record, options, _shown_fields)


def of_fields(record: Record, options: Options, make: Callable[[Record, Options], T]) -> T:
    """Call `make` once for all records that have the same fields object, and return its result."""
    own = record.own
    if not isinstance(own, SharedFields):
        return make(record, options)
    key = make, options.show_secrets
    made: T = own.made[key] if key in own.made else own.made.setdefault(key, make(record, options))
    return made


def _shown_fields(record: Record, options: Options) -> dict[str, Any]:
    type_, own = record.type, record.own
    changes: dict[str, Any] = {}
    if max(filter(None, _NUMBERS_OF[type_](own)), default=0) > LARGEST_INT:
        changes = {name: None for name in _NUMBERS[type_] if (own[name] or 0) > LARGEST_INT}
    if type_ == "command" and not options.show_secrets:
        changes.update(hidden_fields(own))
    return {**own, **changes} if changes else own


def as_base64(value: object) -> str:
    """Encode octets for JSON. Raises `TypeError` for other values."""
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    raise TypeError(f"no JSON for {type(value).__name__}")
