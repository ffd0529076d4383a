"""Recognise messages that are remote calls or replies, in these protocols: zerorpc, aiozmq, JSON-RPC 2.0, Jupyter, MDP,
and objects with a method."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from struct import Struct
from typing import Any, NamedTuple

from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.records import to_text

MESSAGEPACK, JUPYTER = "messagepack", "jupyter"
OBJECTS = {MESSAGEPACK, "json", "cbor"}
"""Formats with objects."""
ERROR = "ERR"
"""Name of an event of zerorpc with an exception."""
OF_ITS_OWN = "_zpc_"
"""Prefix of zerorpc's own events, such as heartbeats."""
METHODS = "method", "cmd", "command", "action", "func", "function", "op", "operation"
MARK = re.compile(rb'"(?:jsonrpc|%s)"' % "|".join(METHODS).encode())
"""Part of every JSON object of a call."""
ID = re.compile(r"(?:(?:req(?:uest)?|call|msg|message|correlation|rpc|transaction)_?)?u?u?id", re.IGNORECASE)
"""Members that a reply repeats. Others (`device_id`) are the same in many calls."""
ERRORS = re.compile(r"(?:err(?:or)?|exception|traceback)(?:_?(?:msg|message|text))?", re.IGNORECASE)
TEXTS = "type", "message", "msg", "text", "reason", "detail"
"""Members that describe an error."""
FAILED = re.compile(r"err(?:or)?|fail(?:ed|ure)?|exception", re.IGNORECASE)
SUCCESS = "ok", "success"
"""Members that are false after a failure."""
LONGEST_ID, LONGEST_NAME, LONGEST_ERROR = 80, 40, 80
MDP_CLIENT, MDP_WORKER = {b"MDPC01": False, b"MDPC02": True}, {b"MDPW01": False, b"MDPW02": True}
"""Whether a version has partial replies, like 18/MDP, by the first frame."""
MDP_SIZE = 6
"""Octets of these frames."""
AIOZMQ = Struct("<HHLd")
"""Header of a call of aiozmq.rpc."""
AIOZMQ_SIZES = {AIOZMQ.size, AIOZMQ.size + 1}
"""Sizes of the headers of calls and replies."""
AIOZMQ_ERROR = re.compile(rb"[A-Za-z_][\w.]*(?:Error|Exception)")
ARRAY_AND_MAP = re.compile(rb"[\x90-\x9f\xdc\xdd][\x80-\x8f\xde\xdf]")
RECENT = 1e9, 4e9
"""Range of plausible times of calls (s since 1970)."""
REQUEST, PARTIAL, FINAL = b"\2", b"\3", b"\4"
WORK = "work"
"""Name of a worker's requests, which do not contain the service."""


class Call(NamedTuple):
    """A remote call, or a reply to one.

    `replies` is True for a reply, and None if only the context decides: it is a reply if the other side has made a call
    with this id. A reply without an id belongs to the oldest call. `error` is the text of the error in a reply.
    """

    id: str | None
    name: str
    replies: bool | None
    error: str | None = None
    needs_reply: bool = False
    """Whether its protocol requires a reply, and soon."""


UNKNOWN = Call(None, "", None)
"""A message that shows no call."""


def calls_of(run: MessageTable, *, are_read: bool) -> Iterator[tuple[int, Call]]:
    """Yield the row of each message that is a call or reply, with the call.

    Unless `are_read`, JSON was not parsed, so objects with a method are not found.
    """
    rows = range(len(run.first))
    if MDP_SIZE in run.sizes and (b"MDPC0" in run.data or b"MDPW0" in run.data):
        for row in rows:
            call = _of_mdp(run, row)
            if call is not None:
                yield row, call
    elif AIOZMQ_SIZES.issuperset(run.sizes[run.first].tolist()):
        yield from ((row, call) for row in rows if (call := _of_aiozmq(run, row)) is not None)
    payloads: Iterable[Dissected | None] = map(run.made, rows) if are_read else run.payloads or ()
    for row, made in enumerate(payloads):
        call = UNKNOWN if made is None else _of_payload(made)
        if call is not None:
            yield row, call


def _of_payload(made: Dissected) -> Call | None:
    fields = made.fields
    if made.protocol == JUPYTER and isinstance(fields, dict):
        return _of_jupyter(fields)
    if made.protocol == MESSAGEPACK and isinstance(fields, list) and _is_zerorpc(fields):
        return _of_zerorpc(*fields)
    if isinstance(fields, list):  # of several frames, such as an id or a command before an object
        objects = [each for each in fields if isinstance(each, dict)]
        fields = objects[0] if len(objects) == 1 else fields
    if made.protocol in OBJECTS and isinstance(fields, dict):
        return _of_json_rpc(fields) if fields.get("jsonrpc") == "2.0" else _of_object(fields)
    return UNKNOWN


def _of_jupyter(fields: dict[str, Any]) -> Call | None:
    """Return the call of a Jupyter request, which may take long, or of its reply; None for other messages."""
    kind, parent, content = str(fields.get("msg_type")), fields.get("parent"), fields.get("content")
    if kind.endswith("_reply") and isinstance(parent, dict) and isinstance(content, dict):
        texts = content.get("ename"), content.get("evalue")
        error = shown_error(texts) if content.get("status") == "error" else None
        return Call(str(parent.get("msg_id"))[:LONGEST_ID], "", True, error)
    id_ = fields.get("msg_id")
    is_request = kind.endswith("_request") and isinstance(id_, str)
    return Call(str(id_)[:LONGEST_ID], shown_name(kind), replies=False) if is_request else None


def _of_object(fields: dict[Any, Any]) -> Call:
    """Return a call with the id, and the method or error, of an object in an unknown protocol."""
    members = {key if isinstance(key, str) else _text(key): value for key, value in fields.items() if _is_text(key)}
    ids = (value for key, value in members.items() if ID.fullmatch(key) and isinstance(value, str | bytes | int))
    names = (members[key] for key in METHODS if _is_text(members.get(key)))
    id_, name = next(ids, None), next(names, None)
    return Call(
        None if id_ is None else repr(id_)[:LONGEST_ID],
        "" if name is None else shown_name(_text(name)),
        None,
        error_of(members),
    )


def error_of(members: dict[str, Any]) -> str | None:
    """Return the text of the error or failed status that an object contains, or None."""
    for key, value in members.items():
        if ERRORS.fullmatch(key) and value and (isinstance(value, dict) or _is_text(value)):
            return shown_error([value.get(each) for each in TEXTS] if isinstance(value, dict) else [value])
    status = members.get("status")
    is_failed = isinstance(status, str | bytes) and FAILED.fullmatch(_text(status)) is not None
    if is_failed or any(members.get(key) is False for key in SUCCESS):
        return shown_error([members.get(each) for each in TEXTS])
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str | bytes)


def _is_zerorpc(fields: list[Any]) -> bool:
    if len(fields) != 3 or not isinstance(fields[0], dict):
        return False
    return "v" in fields[0] and _is_text(fields[0].get("message_id")) and _is_text(fields[1])


def _of_zerorpc(header: dict[str, Any], name: str | bytes, arguments: Any) -> Call | None:
    """Return the call or reply that a zerorpc event is, or None.

    Any later event of a call counts as a reply, because it shows that the server works on the call.
    """
    own, asked = header["message_id"], header.get("response_to")
    if isinstance(asked, bytes | str):
        error = shown_error(arguments[:2]) if name in (ERROR, ERROR.encode()) and isinstance(arguments, list) else None
        return Call(_text(asked)[:LONGEST_ID], "", True, error)
    shown = shown_name(_text(name))
    return (
        None if shown.startswith(OF_ITS_OWN) else Call(_text(own)[:LONGEST_ID], shown, replies=False, needs_reply=True)
    )


def _of_json_rpc(fields: dict[str, Any]) -> Call | None:
    """Return the call or reply that a JSON-RPC object is; None for a notification, which has no id.

    An error without an id replies to a call that the server could not read or pass on.
    """
    id_, method, error = fields.get("id"), fields.get("method"), fields.get("error")
    if isinstance(id_, dict | list) or (id_ is None and (method is not None or error is None)):
        return None
    shown = None if id_ is None else repr(id_)[:LONGEST_ID]
    if method is not None:
        return Call(shown, shown_name(str(method)), replies=False, needs_reply=True)
    texts = [error.get("message")] if isinstance(error, dict) else [] if error is None else [error]
    return Call(shown, "", True, None if error is None else shown_error(texts))


def _of_mdp(run: MessageTable, row: int) -> Call | None:
    """Return the request or the final reply that an MDP message is, or None."""
    frames = [run.head(frame) or b"" for frame in range(int(run.first[row]), int(run.last[row]) + 1)]
    header, *rest = frames[1:] if not frames[0] and len(frames) > 1 else frames
    is_from_broker = run.socket_type == "ROUTER"
    if header in MDP_CLIENT:
        if MDP_CLIENT[header]:
            kind, *rest = rest or [b""]
        else:
            kind = FINAL if is_from_broker else REQUEST
        if is_from_broker:
            return Call(None, "", replies=True) if kind == FINAL else None
        return _request(rest[0], rest[1:]) if kind == REQUEST and rest else None
    if header in MDP_WORKER and rest:
        if is_from_broker:
            return _request(WORK.encode(), rest[3:]) if rest[0] == REQUEST else None
        return Call(None, "", replies=True) if rest[0] == (FINAL if MDP_WORKER[header] else PARTIAL) else None
    return None


def _of_aiozmq(run: MessageTable, row: int) -> Call | None:
    """Return the call or reply that an aiozmq message is, or None.

    A call consists of a header, the name, and arguments as an array and a map. The header contains two random numbers,
    id and time; the header of a reply also whether it is an error.
    """
    first, last = int(run.first[row]), int(run.last[row])
    if last - first not in (1, 3):
        return None
    header, *rest = (run.head(frame) or b"" for frame in range(first, last + 1))
    if len(header) not in AIOZMQ_SIZES or not RECENT[0] < AIOZMQ.unpack_from(header)[3] < RECENT[1]:
        return None
    id_ = header[4:8].hex()
    if len(header) == AIOZMQ.size and len(rest) == 3 and ARRAY_AND_MAP.fullmatch(rest[1][:1] + rest[2][:1]):
        return Call(id_, shown_name(_text(rest[0])), replies=False, needs_reply=True)
    if len(header) > AIOZMQ.size and len(rest) == 1 and header[-1] <= 1:
        texts = AIOZMQ_ERROR.search(rest[0]) if header[-1] else None
        error = "" if texts is None else shown_error([texts[0]])
        return Call(id_, "", replies=True, error=error if header[-1] else None)
    return None


def _request(name: bytes, body: list[bytes]) -> Call:
    return Call(
        blake2b(b"\0".join(body), digest_size=8).hexdigest(), shown_name(_text(name)), replies=False, needs_reply=True
    )


def shown_name(text: str) -> str:
    """Return the first characters of the name of a call, escaped for output."""
    return to_text(text[:LONGEST_NAME].encode("utf-8", "backslashreplace"))


def shown_error(texts: Iterable[Any]) -> str:
    """Join the parts of an error message, escaped for output."""
    text = ": ".join(_text(each) for each in texts if isinstance(each, bytes | str) and each)
    return to_text(text[:LONGEST_ERROR].encode("utf-8", "backslashreplace"))


def _text(octets: bytes | str) -> str:
    return octets if isinstance(octets, str) else octets.decode("utf-8", "backslashreplace")
