"""Command bodies (wire.md 7): the name in its three spellings, then the data by the table of the mechanism."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from zmtpscope.zmtp import traffic
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout, read_opaque
from zmtpscope.zmtp.mechanisms import curve, gssapi, null, plain
from zmtpscope.zmtp.metadata import build_metadata, read_metadata
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Phase, Regime

LARGEST_AWAITED_COMMAND = 1 << 20
"""A command of more octets than this is named from its head and skipped, never waited for."""

COMMAND_HEAD = 1 + 255
"""Octets that hold any command name."""

PADDED_NAME = re.compile(rb"(?=[A-Z ]{8})[A-Z]+ *")
"""A command name of the early 3.0 draft: eight characters, padded with spaces (wire.md 7.4)."""


def _read_ready_of_unknown(reader: Reader, regime: Regime, fields: Fields) -> None:
    """READY on a side whose greeting was not captured: metadata where it begins like metadata."""
    read = read_metadata if reader.starts_with(b"\x0bSocket-Type") else read_opaque
    read(reader, regime, fields)


def _by_name(*layouts: Iterable[Layout]) -> dict[str, Layout]:
    return {layout.name: layout for group in layouts for layout in group}


_UNSEEN = (
    Layout("READY", _read_ready_of_unknown, build_metadata, last=True),
    Layout("ERROR", null.read_error, null.build_error),
)

COMMANDS: Mapping[str | None, Mapping[str, Layout]] = {
    "NULL": _by_name(null.LAYOUTS, traffic.LAYOUTS),
    "PLAIN": _by_name(plain.LAYOUTS, traffic.LAYOUTS),
    "CURVE": _by_name(curve.LAYOUTS, traffic.LAYOUTS),
    "GSSAPI": _by_name(gssapi.LAYOUTS, traffic.LAYOUTS),
    None: _by_name(_UNSEEN, traffic.LAYOUTS),
}
"""Every command by mechanism and name; None is for a mechanism that was not captured."""

KNOWN_NAMES = frozenset(name for commands in COMMANDS.values() for name in commands)


def read_command(reader: Reader, regime: Regime, fields: Fields, whole: bool = True) -> Layout | None:
    """One command body: fills `name` and the fields of its layout, and gives the layout, None where there is none.

    `whole` False: only the head of a body is there, so only the name is read.
    """
    if reader.left == 0:
        habit = regime.mechanism == "GSSAPI" and regime.phase is Phase.HANDSHAKE
        reader.finding("ZMTP3X-CMD-01", reader.unit, reader.offset - reader.unit, "note" if habit else None)
        return None
    layout = _read_name(reader, regime, fields)
    if layout is not None and whole:
        layout.read(reader, regime, fields)
    elif layout is None and _may_hold_password(regime):
        plain.read_unknown(reader, regime, fields)
    elif whole:
        read_opaque(reader, regime, fields)
    else:
        reader.rest("zmtp.command.data")
    return layout


def _may_hold_password(regime: Regime) -> bool:
    """Whether a command that cannot be read may be a HELLO of PLAIN."""
    return regime.mechanism == "PLAIN" and regime.phase is Phase.HANDSHAKE


def _read_name(reader: Reader, regime: Regime, fields: Fields) -> Layout | None:
    if regime.mechanism == "PLAIN" and reader.starts_with(plain.MANGLED_ERROR):
        return _read_mangled(reader, fields, "ERROR", plain.MANGLED_ERROR, "PLAIN-06")
    if regime.mechanism in ("PLAIN", None) and reader.starts_with(plain.MANGLED_HELLO):
        return _read_mangled(reader, fields, "HELLO", plain.MANGLED_HELLO, "PLAIN-07")
    if regime.early and starts_padded(reader):
        name = reader.text("zmtp.command.name_padded", 8).rstrip(" ")
        reader.show(name)
        reader.name_span = (reader.body, 8)
        reader.finding("ZMTP30E-CMD-01", reader.body, 8)
        return _look_up(reader, regime, fields, name)
    length = reader.u8("zmtp.command.name_length")
    if length == 0:
        reader.finding("ZMTP3X-CMD-02", reader.body, 1)
        return None
    if length > reader.left:
        reader.finding("ZMTP3X-CMD-03", reader.body, 1)
        if not _may_hold_password(regime):
            fields["name"] = reader.text("zmtp.command.name", reader.left)
        return None
    reader.name_span = (reader.body + 1, length)
    name = reader.text("zmtp.command.name", length)
    return _look_up(reader, regime, fields, name)


def starts_padded(reader: Reader) -> bool:
    """Whether the body begins with a space-padded name."""
    return PADDED_NAME.fullmatch(reader.data, reader.position, min(reader.position + 8, reader.stop)) is not None


def _read_mangled(reader: Reader, fields: Fields, name: str, octets: bytes, finding: str) -> Layout:
    fields["name"] = name
    fields["mangled"] = True
    reader.name_span = (reader.body, len(octets))
    reader.text("zmtp.command.mangled_name", len(octets))
    reader.finding(finding, *reader.name_span)
    return COMMANDS["PLAIN"][name]


def _look_up(reader: Reader, regime: Regime, fields: Fields, name: str) -> Layout | None:
    """The layout of a name; where there is none, why. The commands of an unknown mechanism are opaque and legal."""
    fields["name"] = name
    commands = COMMANDS.get(regime.mechanism)
    if commands is None:
        return None
    layout = commands.get(name)
    if layout is None:
        if not (name.isascii() and name.isalpha()):
            reader.finding("ZMTP3X-CMD-04", *reader.name_span)
        elif name in KNOWN_NAMES:
            if regime.mechanism is not None:
                reader.finding("ZMTP3X-CMD-11", *reader.name_span)
        elif name.upper() in KNOWN_NAMES:
            reader.finding("ZMTP3X-CMD-06", *reader.name_span)
        else:
            reader.finding("ZMTP3X-CMD-05", *reader.name_span)
    return layout


def build_command(mechanism: str | None, name: str, fields: Fields) -> bytes:
    """The body of a command, name included, from the fields of its layout. Raises KeyError for an unknown command."""
    data = COMMANDS[mechanism][name].build(fields)
    return bytes([len(name)]) + name.encode("ascii") + data
