"""`zmtpscope cat`: a socket of any type on the command line."""

from __future__ import annotations

import math
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.credentials import CLIENT_OPTIONS, SERVER_OPTIONS, given_security
from zmtpscope.cli.own_traffic import TRAFFIC_OPTIONS, OwnTraffic
from zmtpscope.cli.parameters import MESSAGES, OUTPUT, command, flag, option, options
from zmtpscope.cli.terminal import notify
from zmtpscope.option_texts import VERSIONS
from zmtpscope.zmtp.socket_types import ONLY_RECEIVE, ONLY_SEND

if TYPE_CHECKING:
    from zmtpscope.export.message_lines import Render
    from zmtpscope.live.cat.message_input import Notation
    from zmtpscope.live.cat.session import ConnectionLog, Goal
    from zmtpscope.live.cat.standard_streams import Messages
    from zmtpscope.live.peer.arguments import Endpoint
    from zmtpscope.live.peer.socket import Socket
    from zmtpscope.zmtp.peer import Settings

RUN_TIME_ERROR, EXPECTATION_FAILED, INTERRUPTED = 1, 4, 130

SENDING, RECEIVING = sorted(ONLY_SEND), sorted(ONLY_RECEIVE)
BOTH = ("REQ", "REP", "DEALER", "ROUTER", "PAIR", "XPUB", "XSUB", "CLIENT", "SERVER", "PEER", "CHANNEL")
ECHOING = ("REP", "DEALER", "ROUTER", "PAIR", "CLIENT", "SERVER", "PEER", "CHANNEL")
SUBSCRIBING = ("SUB", "XSUB", "DISH")
NAMING = ("ROUTER", "SERVER", "PEER")
"""Types that send and receive the peer's routing id as first part."""


class Ended(click.ClickException):
    """`cat` ends with an error message and an exit code."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it of the instance


def parse_seconds(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Parse a number of seconds above 0, which may be `inf`."""
    if value is not None and not value > 0:
        raise click.BadParameter(f"{value:g} is not above 0")
    return value


def parse_rate(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Parse a rate that is above 0 and finite."""
    if value is not None and math.isinf(value):
        raise click.BadParameter("leave it out to send as fast as possible")
    return parse_seconds(context, parameter, value)


@command(
    short_help="Send and receive messages with a socket of any type.",
    epilog="Exit codes: 0 done, 2 usage, 4 --expect failed, 10 unreachable or refused, 11 silent or too slow, "
    "12 not ZMTP, 13 version or mechanism mismatch, 14 login or key refused, 15 incompatible socket types, 16 protocol "
    "violation or limit, 17 closed too early, 130 interrupted (0 if it was to run until Ctrl-C).",
)
@click.argument("socket_type", metavar="TYPE", type=click.Choice([*SENDING, *RECEIVING, *BOTH], case_sensitive=False))
@click.argument("endpoint")
@click.argument("messages", nargs=-1, metavar="[MESSAGE]...")
@flag("--bind", "listens", help="Listen on ENDPOINT instead of connecting; without a host, on loopback.")
@MESSAGES.option(
    "--part", "parts", multiple=True, metavar="TEXT", help="Add a part to a multipart message; repeatable."
)
@MESSAGES.flag("--hex", "as_hex", help="Read and print messages as hex digits.")
@MESSAGES.flag("-0", "--null", "null", help="End each message with NUL instead of a newline, on input and output.")
@MESSAGES.option(
    "--separator",
    metavar="TEXT",
    help="Separator between the parts of a message [default: none on input, a tab on output].",
)
@MESSAGES.flag("--echo", help="Send every received message back.")
@option(
    "--subscribe",
    "--join",
    "topics",
    multiple=True,
    metavar="TEXT",
    help="Topic for SUB and XSUB, or group for DISH; repeatable [default: all topics].",
)
@option("--identity", metavar="TEXT", default="", help="Identity (routing id) announced to the peer.")
@MESSAGES.option(
    "-c",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Exit after N received messages, or N sent ones if the socket only sends: then fewer MESSAGEs repeat.",
)
@MESSAGES.option(
    "--wait",
    type=float,
    callback=parse_seconds,
    metavar="SECONDS",
    help="Time limit for connecting and for each message; inf for none [default: 5; none with --bind or if no message "
    "is expected].",
)
@MESSAGES.option("--rate", type=float, callback=parse_rate, metavar="N", help="Send at most N messages per second.")
@MESSAGES.option("--expect", metavar="TEXT", help="Exit with code 4 if a received message has no part equal to TEXT.")
@OUTPUT.option(
    "--output",
    type=click.Choice(["text", "raw", "hex", "json"]),
    help="Format of received messages [default: text on a terminal, otherwise raw].",
)
@OUTPUT.option("--json", "output", flag_value="json", help="Short for --output json.")
@option(
    "--zmtp",
    "version",
    type=click.Choice(VERSIONS),
    default=VERSIONS[-1],
    metavar="VERSION",
    help="Protocol version to speak: 1.0, 2.0, 3.0 or 3.1 [default: 3.1].",
)
@options(*CLIENT_OPTIONS, *SERVER_OPTIONS, *TRAFFIC_OPTIONS)
def cat(**given: Any) -> int:
    """Open a ZeroMQ socket, send each MESSAGE (or each line of standard input), and print every message received.

    \b
    TYPE      req rep dealer router pub sub xpub xsub push pull pair
              client server radio dish scatter gather peer channel
    ENDPOINT  tcp://host:port or ipc://path; with --bind also tcp://:port (port 0 picks a free one)
    MESSAGE   text, or @FILE to send the contents of FILE (@@ for a leading @)

    REQ prints the reply to each request. REP answers requests with the MESSAGEs in turn, starting over at the end.
    ROUTER, SERVER and PEER print the peer's routing id before each message and expect one before each message to send;
    RADIO expects the group.
    """
    socket_type = given["socket_type"] = given["socket_type"].upper()
    _check_options(given)
    import asyncio

    from zmtpscope.cli.peer_errors import PeerFailed
    from zmtpscope.live.cat.message_input import BadMessage, Notation
    from zmtpscope.live.cat.session import ConnectionLog, Unexpected
    from zmtpscope.live.peer.socket import Socket
    from zmtpscope.zmtp.peer import PeerError

    notation = Notation(given["as_hex"], _octets(given["separator"]), socket_type in (*NAMING, "RADIO"))
    try:
        source = _source(given, notation)
        goal = _goal(given, notation)
        topics = _topics(given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    settings = _settings(given)
    log = ConnectionLog(lambda text: notify(f"zmtpscope: {text}"), listens=given["listens"], asks=socket_type == "REQ")
    endpoint = _endpoint(given)
    traffic = OwnTraffic(given)  # last, because it creates the file of -w
    try:
        socket = Socket(endpoint, settings, listens=given["listens"], report=log, recording=traffic.recording)
        asyncio.run(_talk(socket, given, goal, log, source, topics))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0 if _runs_until_stopped(given) else INTERRUPTED
    except PeerError as error:
        raise PeerFailed(given["endpoint"], error) from None
    except BadMessage as error:
        raise Ended(str(error), click.UsageError.exit_code) from None
    except Unexpected as error:
        raise Ended(str(error), EXPECTATION_FAILED) from None
    finally:
        traffic.finish()
    return RUN_TIME_ERROR if traffic.failed else 0


async def _talk(
    socket: Socket, given: dict[str, Any], goal: Goal, log: ConnectionLog, source: Messages | None, topics: list[bytes]
) -> None:
    import asyncio

    from zmtpscope.live.cat.session import CatSession
    from zmtpscope.live.cat.standard_streams import Output
    from zmtpscope.records import to_text

    task = asyncio.current_task()
    assert task is not None
    # background jobs of shells ignore ctrl-C and are stopped with this
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with socket:
        if given["listens"]:
            notify(f"zmtpscope: listening on {socket.endpoint}")
        if given["socket_type"] == "DISH":
            for group in topics:
                await socket.join(to_text(group))
        elif given["socket_type"] in SUBSCRIBING:
            for topic in topics or [b""]:
                await socket.subscribe(topic)
        output = Output(sys.stdout.fileno())
        session = CatSession(
            socket, goal, log, source, output, _render(given), listens=given["listens"], echoes=given["echo"]
        )
        await session.run()


def _check_options(given: dict[str, Any]) -> None:
    """Raise `click.UsageError` for options that this socket type does not support."""
    socket_type = given["socket_type"]
    says = bool(given["messages"] or given["parts"])
    if given["messages"] and given["parts"]:
        raise click.UsageError("--part and MESSAGE are mutually exclusive")
    if says and given["echo"]:
        raise click.UsageError("--echo and MESSAGE are mutually exclusive")
    if socket_type in RECEIVING and (says or given["rate"] is not None):
        raise click.UsageError(f"a {socket_type} socket sends no messages")
    if socket_type in SENDING and given["expect"] is not None:
        raise click.UsageError(f"a {socket_type} socket receives no messages, so --expect has no effect")
    if socket_type not in ECHOING and given["echo"]:
        raise click.UsageError(f"a {socket_type} socket cannot --echo; {', '.join(ECHOING)} can")
    if socket_type not in SUBSCRIBING and given["topics"]:
        raise click.UsageError(f"a {socket_type} socket cannot --subscribe; {', '.join(SUBSCRIBING)} can")
    if socket_type == "DISH" and not given["topics"]:
        raise click.UsageError("a DISH socket receives only messages of groups that it joined: add --join GROUP")
    if given["separator"] == "":
        raise click.UsageError("--separator: must not be empty")


def _octets(text: str | None) -> bytes | None:
    from zmtpscope.live.cat.message_input import typed_octets

    return None if text is None else typed_octets(os.fsencode(text))


def _source(given: dict[str, Any], notation: Notation) -> Messages | None:
    """Return the messages to send; None if the command line has none, or if `cat` only sends received messages back."""
    from zmtpscope.live.cat.standard_streams import GivenMessages, InputMessages

    if given["socket_type"] in RECEIVING or given["echo"]:
        return None
    if not given["messages"] and not given["parts"]:
        descriptor = None if sys.stdin is None else sys.stdin.fileno()
        return InputMessages(descriptor, notation, b"\0" if given["null"] else b"\n")
    messages = [notation.given(given["parts"])] if given["parts"] else list(map(notation.argument, given["messages"]))
    for parts in messages:
        _check_message(given["socket_type"], parts)
    again = given["socket_type"] == "REP" or (given["socket_type"] in (*SENDING, "REQ") and given["count"] is not None)
    return GivenMessages(messages, again=again)


def _check_message(socket_type: str, parts: list[bytes]) -> None:
    """Raise `BadMessage` if the socket type cannot send the message."""
    from zmtpscope.live.cat.message_input import BadMessage
    from zmtpscope.zmtp.peer.patterns import outgoing

    if socket_type in NAMING and len(parts) < 2:
        raise BadMessage(
            f"the first part of a message on a {socket_type} socket names the peer: --part NAME --part TEXT"
        )
    try:
        outgoing(socket_type, parts[1:] if socket_type in NAMING else parts, [])
    except ValueError as error:
        raise BadMessage(str(error)) from None


def _goal(given: dict[str, Any], notation: Notation) -> Goal:
    from zmtpscope.live.cat.session import Goal

    expect = given["expect"]
    expected = None if expect is None else notation._replace(addressed=False).given([expect])[0]
    return Goal(given["count"], given["wait"], given["rate"], expected)


def _topics(given: dict[str, Any]) -> list[bytes]:
    """Return the topics to subscribe to, or the groups to join. Raises `ValueError` for an invalid group."""
    from zmtpscope.live.cat.message_input import typed_octets
    from zmtpscope.zmtp.peer.patterns import check_group

    topics = [typed_octets(os.fsencode(topic)) for topic in given["topics"]]
    if given["socket_type"] == "DISH":
        for topic in topics:
            check_group(topic)
    return topics


def _settings(given: dict[str, Any]) -> Settings:
    from zmtpscope.live.cat.message_input import typed_octets
    from zmtpscope.live.cat.session import WAIT
    from zmtpscope.records import to_text
    from zmtpscope.zmtp.peer import Limits, Settings

    default = Limits()
    handshake = min(given["wait"] or (default.handshake if given["listens"] else WAIT), default.handshake)
    try:
        return Settings(
            given["socket_type"],
            given_security(given),
            identity=to_text(typed_octets(os.fsencode(given["identity"]))),
            version=given["version"],
            limits=default._replace(handshake=handshake),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _endpoint(given: dict[str, Any]) -> Endpoint:
    from zmtpscope.live.peer.arguments import parse_endpoint

    try:
        return parse_endpoint(given["endpoint"], bind=given["listens"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _render(given: dict[str, Any]) -> Render:
    from zmtpscope.export.message_lines import TAB, renderer

    terminal = sys.stdout.isatty()
    render = renderer(
        given["output"] or ("text" if terminal else "raw"),
        separator=_octets(given["separator"]) or TAB,
        end=b"\0" if given["null"] else b"\n",
        addressed=given["socket_type"] in NAMING,
    )
    if given["output"] != "json" or not terminal:
        return render
    from zmtpscope.export.json_lines import escaped

    return lambda parts, time: escaped(render(parts, time))


def _runs_until_stopped(given: dict[str, Any]) -> bool:
    """Whether the command runs until ctrl-C, because no other limit is given."""
    return given["count"] is None and given["socket_type"] not in (*SENDING, "REQ")
