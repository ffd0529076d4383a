"""Find secrets in the fields of a command, and in the octets of its field tree."""

from __future__ import annotations

from typing import Any

from zmtpscope.records import MASK
from zmtpscope.zmtp.reader import FieldNode, Value

USER, USER_SIZE, PASSWORD_SIZE = "plain.username", "plain.username_len", "plain.password_len"
NAMES = ("zmtp.command.name", "zmtp.command.name_padded", "zmtp.command.data")
UNREAD = ("zmtp.command.data", "zmtp.trailing")
"""Fields that may contain the password of a HELLO: of PLAIN after a wrong length, or of an unknown mechanism."""


def hidden_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Return replacements for the secret fields."""
    hidden: dict[str, Any] = {}
    if values["password"] is not None:
        hidden["password"] = MASK
    if values["data"] is not None and (_is_hello(values["name"]) or _is_hello(values["data"])):
        hidden["data"] = None
    return hidden


def secret_spans(tree: FieldNode) -> list[range]:
    """Return the stream offsets of secrets in a unit."""
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
