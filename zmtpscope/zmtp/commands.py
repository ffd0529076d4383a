"""Command bodies (wire.md 7): a name in one of three spellings, and data in the layout of the mechanism."""

from __future__ import annotations

import re

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout, read_opaque
from zmtpscope.zmtp.mechanism import Mechanism, Misspelling
from zmtpscope.zmtp.mechanisms import MECHANISMS, mechanism_named, plain
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Regime

LARGEST_AWAITED_COMMAND = 1 << 20
"""Maximum size in octets of a command that is read whole. Only the name of a larger one is read."""

COMMAND_HEAD = 1 + 255
"""Number of octets that contain any command name."""

PADDED_NAME = re.compile(rb"(?=[A-Z ]{8})[A-Z]+ *")
"""Matches a name of the early 3.0 draft: eight characters, padded with spaces (wire.md 7.4)."""


def read_command(reader: Reader, regime: Regime, fields: Fields, whole: bool = True) -> Layout | None:
    """Parse a command body into `fields`: its name, and the fields of its layout.

    Returns the layout, or None if the name has none. `whole` is False if only the first octets of the body are
    available: then only the name is parsed.
    """
    mechanism = mechanism_named(regime.mechanism)
    if reader.left == 0:
        severity = detail = None
        if mechanism is not None and mechanism.may_send_nothing and regime.shakes_hands:
            severity, detail = "note", f"an empty step of the {mechanism.name} handshake"
        reader.finding("ZMTP3X-CMD-01", reader.unit, reader.offset - reader.unit, severity, detail)
        return None
    unknown = mechanism.read_unknown if mechanism is not None and regime.shakes_hands else read_opaque
    layout = _read_name(reader, regime, mechanism, fields, keep_cut_name=unknown is read_opaque)
    if layout is not None and layout.sealed and regime.is_inside_message:
        read_opaque(reader, regime, fields)
    elif layout is not None and whole:
        read_data(reader, regime, layout, fields)
    elif layout is None and (whole or unknown is not read_opaque):
        unknown(reader, regime, fields)
    else:
        reader.rest("zmtp.command.data")
    return layout


def read_data(reader: Reader, regime: Regime, layout: Layout, fields: Fields) -> None:
    """Parse the data after a command name into `fields`. A truncated body leaves its missing fields out."""
    try:
        layout.read(reader, regime, fields)
    except Cut:
        reader.finding("ZMTP3X-CMD-14", *reader.size_span)


def _read_name(
    reader: Reader, regime: Regime, mechanism: Mechanism | None, fields: Fields, *, keep_cut_name: bool
) -> Layout | None:
    """Parse a command name into `fields`; return the layout of the command, or None.

    `keep_cut_name`: store the octets of a name that is longer than the body.
    """
    if mechanism is not None:
        for misspelling in mechanism.misspellings:
            if reader.starts_with(misspelling.octets):
                return _read_misspelt(reader, mechanism, fields, misspelling)
    if regime.early and starts_padded(reader):
        name = reader.text("zmtp.command.name_padded", 8).rstrip(" ")
        reader.show(name)
        reader.name_span = (reader.body, 8)
        reader.finding("ZMTP30E-CMD-01", reader.body, 8)
        return _look_up(reader, mechanism, fields, name)
    length = reader.u8("zmtp.command.name_length")
    if length == 0:
        reader.finding("ZMTP3X-CMD-02", reader.body, 1)
        return None
    if length > reader.left:
        reader.finding("ZMTP3X-CMD-03", reader.body, 1)
        if keep_cut_name and not plain.BARE_HELLO.match(reader.data, reader.position - 1, reader.stop):
            fields["name"] = reader.text("zmtp.command.name", reader.left)
        return None
    reader.name_span = (reader.body + 1, length)
    name = reader.text("zmtp.command.name", length)
    return _look_up(reader, mechanism, fields, name)


def starts_padded(reader: Reader) -> bool:
    return PADDED_NAME.fullmatch(reader.data, reader.position, min(reader.position + 8, reader.stop)) is not None


def _read_misspelt(reader: Reader, mechanism: Mechanism, fields: Fields, misspelling: Misspelling) -> Layout:
    fields["name"] = misspelling.name
    fields["mangled"] = True
    reader.name_span = (reader.body, len(misspelling.octets))
    reader.text("zmtp.command.mangled_name", len(misspelling.octets))
    if misspelling.finding is not None:
        reader.finding(misspelling.finding, *reader.name_span)
    return mechanism.commands[misspelling.name]


def _look_up(reader: Reader, mechanism: Mechanism | None, fields: Fields, name: str) -> Layout | None:
    """Return the layout of the command `name`, or None. A name unknown to a known mechanism is a finding."""
    fields["name"] = name
    if mechanism is None:
        return None
    layout = mechanism.commands.get(name)
    if layout is None:
        if not (name.isascii() and name.isalpha()):
            reader.finding("ZMTP3X-CMD-04", *reader.name_span)
        elif _is_known(name):
            if mechanism.name:
                reader.finding("ZMTP3X-CMD-11", *reader.name_span)
        elif _is_known(name.upper()):
            reader.finding("ZMTP3X-CMD-06", *reader.name_span)
        else:
            reader.finding("ZMTP3X-CMD-05", *reader.name_span)
    return layout


def _is_known(name: str) -> bool:
    return any(name in mechanism.commands for mechanism in MECHANISMS.values())


def build_command(mechanism: str, name: str, fields: Fields) -> bytes:
    """Build a command body from the fields of its layout. Raises KeyError for an unknown command."""
    data = MECHANISMS[mechanism].commands[name].build(fields)
    return bytes([len(name)]) + name.encode("ascii") + data
