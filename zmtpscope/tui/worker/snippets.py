"""A record as text to paste: its line, JSON, octets, or a command or program that sends it again."""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator

from zmtpscope.export.clock import Clock
from zmtpscope.export.json_lines import text_of
from zmtpscope.export.text import Look, TextLines
from zmtpscope.store import OctetsError, Store
from zmtpscope.tui.worker.channel import CannotAnswer
from zmtpscope.tui.worker.sending import Sending, sending_of
from zmtpscope.tui.worker.sides import Sides

MAX_OCTETS = 60_000
"""Octets of a record: an argument holds 128 KiB, and hex needs two characters per octet."""

CREDENTIALS = {
    ("PLAIN", False): ("--plain-file", "client.plain"),
    ("PLAIN", True): ("--plain-users", "users.plain"),
    ("CURVE", False): ("--server-key", "server.public", "--curve-file", "client.secret"),
    ("CURVE", True): ("--curve-server", "server.secret"),
}
"""(mechanism, whether the socket binds): options of `zmtpscope cat`, with file names to replace."""

ATTRIBUTES = {
    ("PLAIN", False): ("plain_username", "plain_password"),
    ("PLAIN", True): ("plain_server",),
    ("CURVE", False): ("curve_serverkey", "curve_publickey", "curve_secretkey"),
    ("CURVE", True): ("curve_server", "curve_publickey", "curve_secretkey"),
}
"""(mechanism, whether the socket binds): attributes of pyzmq sockets."""

PRINTABLE = range(0x20, 0x7F)

LINE = 12


def as_c(octets: bytes) -> str:
    """Return an array initialiser for C and similar languages."""
    digits = [f"0x{octet:02x}" for octet in octets]
    lines = [", ".join(digits[begin : begin + LINE]) for begin in range(0, len(digits), LINE)]
    return "{\n" + "".join(f"    {line},\n" for line in lines) + "}"


def text_as(form: str, store: Store, sides: Sides, number: int) -> str:
    """Return a record as text in the format `form`, one of `FORMS`. Raises `CannotAnswer`."""
    length = store.row(number).get("length") or 0
    if length > MAX_OCTETS and form != "line":
        raise CannotAnswer(f"it has {length:,} octets, and at most {MAX_OCTETS:,} are copied -> save it as a file")
    return FORMS[form](store, sides, number)


def _line(store: Store, sides: Sides, number: int) -> str:
    """Return the line of a record as `read --wide` prints it, with both addresses."""
    lines = TextLines(Look(Clock("r", lambda: store.first_time), wide=True, chat=True), store.options)
    return "".join(line for _, line in lines.lines_in_order(store.batch([number]))).rstrip("\n")


def _json(store: Store, sides: Sides, number: int) -> str:
    lines = text_of(store.batch([number]), store.options, ascii_only=True)
    return b"".join(lines).decode().rstrip("\n")


def _octets_as(form: Callable[[bytes], str]) -> Callable[[Store, Sides, int], str]:
    def text(store: Store, sides: Sides, number: int) -> str:
        try:
            octets = store.octets(number)
        except OctetsError as error:
            raise CannotAnswer(str(error)) from None
        if not octets:
            raise CannotAnswer("there are no octets of this")
        return form(octets)

    return text


# -- sending again -----------------------------------------------------------------------------------------------------


def _cat(store: Store, sides: Sides, number: int) -> str:
    return shlex.join(cat_arguments(sending_of(store, sides, number)))


def cat_arguments(sending: Sending) -> list[str]:
    """Return the words of a `zmtpscope cat` command (docs/cat.md) that sends a message, in printable ASCII."""
    words = ["zmtpscope", "cat", sending.socket_type.lower(), sending.endpoint]
    if sending.listens:
        words.append("--bind")
    if sending.mechanism is not None:
        words += CREDENTIALS.get((sending.mechanism, sending.listens), ())
    if sending.identity:
        words += ["--identity", escaped(sending.identity)]
    for topic in sending.topics:
        words += ["--join" if sending.socket_type == "DISH" else "--subscribe", escaped(topic)]
    as_text = all(map(_is_plain, sending.parts))
    if not as_text:
        words.append("--hex")
    for part in sending.parts:
        words += ["--part", part.decode() if as_text else part.hex()]
    return words


def _is_plain(part: bytes) -> bool:
    """Whether `zmtpscope cat` reads a part in the same way as an argument, a file name or a line."""
    return all(octet in PRINTABLE and octet != ord("\\") for octet in part) and not part.startswith(b"@")


def escaped(octets: bytes) -> str:
    """Return octets as printable ASCII in the format `text` of records, with \\xNN for other octets."""
    return "".join(chr(each) if each in PRINTABLE and each != ord("\\") else f"\\x{each:02x}" for each in octets)


def _pyzmq(store: Store, sides: Sides, number: int) -> str:
    return "\n".join(pyzmq_lines(sending_of(store, sides, number)))


def pyzmq_lines(sending: Sending) -> Iterator[str]:
    """Yield the lines of a pyzmq program that sends a message again."""
    is_published = sending.listens and sending.socket_type in ("PUB", "XPUB", "RADIO")
    if is_published:
        yield "import time"
        yield ""
    yield "import zmq"
    yield ""
    yield f"with zmq.Context() as context, context.socket(zmq.{sending.socket_type}) as socket:"
    for line in _steps(sending, is_published=is_published):
        yield f"    {line}"


def _steps(sending: Sending, *, is_published: bool) -> Iterator[str]:
    if ":" in sending.host:
        yield "socket.ipv6 = True"
    if sending.identity:
        yield f"socket.identity = {sending.identity!r}"
    if sending.mechanism is not None:
        names = ATTRIBUTES.get((sending.mechanism, sending.listens), ())
        yield f"# {sending.mechanism}: set {', '.join(f'socket.{name}' for name in names) or 'what it needs'}"
    yield f"socket.{'bind' if sending.listens else 'connect'}({sending.endpoint!r})"
    for topic in sending.topics:
        if sending.socket_type == "DISH":
            yield f"socket.join({topic!r})"
        elif sending.socket_type == "XSUB":
            subscription = bytes([1]) + topic
            yield f"socket.send({subscription!r})"
        else:
            yield f"socket.subscribe({topic!r})"
    if sending.topics:
        yield "print(socket.recv_multipart())"
        return
    if is_published:
        yield "time.sleep(1)  # until somebody has subscribed"
    if sending.socket_type == "REP":
        yield "socket.recv_multipart()"
    if sending.socket_type == "RADIO":
        yield f"socket.send({sending.parts[-1]!r}, group={sending.parts[0]!r})"
    elif len(sending.parts) == 1:
        yield f"socket.send({sending.parts[0]!r})"
    else:
        yield f"socket.send_multipart([{', '.join(map(repr, sending.parts))}])"
    if sending.socket_type == "REQ":
        yield "print(socket.recv_multipart())"


FORMS: dict[str, Callable[[Store, Sides, int], str]] = {
    "line": _line,
    "json": _json,
    "hex": _octets_as(bytes.hex),
    "base64": _octets_as(lambda octets: b64encode(octets).decode()),
    "c": _octets_as(as_c),
    "cat": _cat,
    "pyzmq": _pyzmq,
}
"""Formats by their names in `requests.COPY_FORMS`."""
