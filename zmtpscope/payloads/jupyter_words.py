"""Channels and one-line summaries of Jupyter messages."""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.payloads.values import LONGEST_SUMMARY, Json
from zmtpscope.words import counted
from zmtpscope.zmtp.socket_types import PUBLISHERS

_REQUESTS = {
    "shell": ("comm_info", "complete", "connect", "execute", "history", "inspect", "is_complete"),
    "control": ("create_subshell", "debug", "delete_subshell", "interrupt", "list_subshell", "shutdown", "usage"),
    "stdin": ("input",),
}
_PUBLISHED = (
    "clear_output",
    "debug_event",
    "display_data",
    "error",
    "execute_input",
    "execute_result",
    "iopub_welcome",
    "status",
    "stream",
    "update_display_data",
)
_COMMS = ("comm_close", "comm_msg", "comm_open")
"""Kernels publish these; clients send them on the shell channel."""

CHANNELS = {
    **{f"{name}_{way}": channel for channel, all in _REQUESTS.items() for name in all for way in ("request", "reply")},
    **dict.fromkeys(_PUBLISHED, "iopub"),
}
"""Channels by message type. Messages of kernel_info use several channels."""


def channel_of(kind: str, socket_type: str | None) -> str | None:
    """Return the Jupyter channel of a message of type `kind`, such as "shell"; None if unknown."""
    if socket_type in PUBLISHERS:
        return "iopub"
    if kind in _COMMS:
        return None if socket_type is None else "shell"
    return CHANNELS.get(kind)


def summary_of(kind: str, content: dict[str, Json], parent: str | None) -> str:
    """Summarise a message of type `kind` in one line; `parent` is the type of the message that caused it."""
    words = _WORDS.get(kind)
    text = words(content) if words is not None else _outcome(content) if kind.endswith("_reply") else ""
    if kind == "status" and parent:
        text += f" (for {parent})"
    return f"{kind} {text}" if text else kind


def _plain(value: Json) -> str:
    """Return a text, number or boolean as text; "" for other values."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[:LONGEST_SUMMARY] if isinstance(value, str | int | float) else ""


def _quoted(value: Json) -> str:
    return f'"{value[:LONGEST_SUMMARY]}"' if isinstance(value, str) else ""


def _joined(*words: str) -> str:
    return " ".join(word for word in words if word)


def _named(name: str) -> Callable[[dict[str, Json]], str]:
    """Return a function that summarises a message by the field `name` of its content."""
    return lambda content: _plain(content.get(name))


def _code(content: dict[str, Json]) -> str:
    return _quoted(content.get("code"))


def _problem(content: dict[str, Json]) -> str:
    name, value = _plain(content.get("ename")), _plain(content.get("evalue"))
    return f"{name}: {value}" if name and value else name or value


def _outcome(content: dict[str, Json]) -> str:
    return _joined(_plain(content.get("status")), _problem(content))


def _counted(content: dict[str, Json]) -> str:
    count = _plain(content.get("execution_count"))
    return f"[{count}]" if count else ""


def _shown(content: dict[str, Json]) -> str:
    """Return the text of displayed data; without text the names of its formats."""
    data = content.get("data")
    if not isinstance(data, dict):
        return _counted(content)
    return _joined(_counted(content), _quoted(data.get("text/plain")) or ", ".join(list(data)[:5]))


def _kernel(content: dict[str, Json]) -> str:
    implementation = _joined(_plain(content.get("implementation")), _plain(content.get("implementation_version")))
    protocol = _plain(content.get("protocol_version"))
    about = ", ".join(part for part in (implementation, protocol and f"protocol {protocol}") if part)
    return _joined(_outcome(content), about)


def _restart(content: dict[str, Json]) -> str:
    return "and restart" if content.get("restart") is True else ""


def _printed(content: dict[str, Json]) -> str:
    text = content.get("text")
    return _joined(_plain(content.get("name")), _quoted(text.rstrip("\n") if isinstance(text, str) else None))


def _matches(content: dict[str, Json]) -> str:
    matches = content.get("matches")
    number = counted(len(matches), "match", "matches") if isinstance(matches, list) else ""
    return _joined(_outcome(content), number)


_WORDS: dict[str, Callable[[dict[str, Json]], str]] = {
    "comm_close": _named("comm_id"),
    "comm_msg": _named("comm_id"),
    "comm_open": lambda content: _joined(_plain(content.get("target_name")), _plain(content.get("comm_id"))),
    "complete_reply": _matches,
    "complete_request": _code,
    "debug_event": _named("event"),
    "debug_request": _named("command"),
    "display_data": _shown,
    "error": _problem,
    "execute_input": lambda content: _joined(_counted(content), _quoted(content.get("code"))),
    "execute_request": _code,
    "execute_result": _shown,
    "input_request": lambda content: _joined(
        _quoted(content.get("prompt")), "(password)" if content.get("password") is True else ""
    ),
    "inspect_request": _code,
    "is_complete_request": _code,
    "kernel_info_reply": _kernel,
    "shutdown_reply": lambda content: _joined(_outcome(content), _restart(content)),
    "shutdown_request": _restart,
    "status": _named("execution_state"),
    "stream": _printed,
    "update_display_data": _shown,
}
"""Shown fields by message type. None for `input_reply`, which may contain a password."""
