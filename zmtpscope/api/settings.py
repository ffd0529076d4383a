"""Typed keyword arguments for reading captures, converted to options of the analyser."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from io import IOBase
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from zmtpscope.option_texts import known_payload, nearest, parse_body, parse_decode_as, parse_payload

if TYPE_CHECKING:
    from zmtpscope.curve_keys import Keys
    from zmtpscope.dissect import Options

PathLike = str | os.PathLike[str]
"""The name of a file."""


class Settings(TypedDict, total=False):
    """Options for reading captures; the defaults are the same as on the command line.

    `keys` are files with CURVE keys (docs/keys.md). `decode_as` takes the same text as `-d`:
    `"tcp.port==5555,zmtp/3.1/NULL"`. `payload` is "auto", "off" or the name of a payload dissector; `payload_files`
    are the
    files that dissectors need, by dissector name: `{"protobuf": ["prices.desc"]}`. `body` limits the octets kept of
    each
    body: "full", "full:64k", "head:100" or "none". Passwords are masked unless `show_secrets` is true.
    """

    keys: PathLike | Sequence[PathLike]
    decode_as: str | Sequence[str]
    payload: str
    payload_files: Mapping[str, Sequence[PathLike]]
    body: str
    show_secrets: bool


OTHERS = {"display_filter": "filter", "bpf_filter": "capture_filter"}
"""Names of the same arguments in similar libraries."""


def analyser_options(settings: Settings, *, frames: bool = False, details: bool = False) -> Options:
    """Return the analyser options for these settings. Raises `ValueError` for invalid values, `KeyFileError` or
    `OSError` for unreadable files, `TypeError` for unknown settings."""
    from zmtpscope.dissect import DecodeAs, Options
    from zmtpscope.payloads.registry import Registry

    for name in settings:
        if name not in Settings.__annotations__:
            known = ("filter", "packets", *Settings.__annotations__)
            meant = f"; write {OTHERS[name]}" if name in OTHERS else nearest(name, known)
            raise TypeError(f"there is no setting {name!r}{meant}")
    payload = parse_payload(settings.get("payload", "auto"))
    files = {
        known_payload(name): {path: Path(path).read_bytes() for path in names(paths)}
        for name, paths in settings.get("payload_files", {}).items()
    }
    return Options(
        **parse_body(settings.get("body", "full")).options(),
        frames=frames,
        details=details,
        decode_as=tuple(DecodeAs(*parse_decode_as(each)) for each in names(settings.get("decode_as", ()))),
        keys=_keys(names(settings.get("keys", ()))),
        payloads=None if payload == "off" else Registry(None if payload == "auto" else payload, files),
        show_secrets=settings.get("show_secrets", False),
    )


def names(given: PathLike | Iterable[PathLike]) -> list[str]:
    """Return one name, or several, as a list. Raises `TypeError` for anything else."""
    several: object = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(several, Iterable) or isinstance(several, bytes | IOBase):
        raise TypeError(f"a name is wanted, or several, and this is {type(given).__name__}")
    return [os.fspath(each) for each in several]


def packet_limit(packets: int | None) -> int | None:
    """Check and return the maximum number of packets to read. Raises `ValueError` if it is invalid."""
    if packets is not None and (not isinstance(packets, int) or packets < 1):
        raise ValueError(f"packets={packets!r}: give 1 or more")
    return packets


def _keys(paths: list[str]) -> Keys | None:
    if not paths:
        return None
    from zmtpscope.curve_keys import Keys  # loads libsodium

    return Keys([Path(path) for path in paths])
