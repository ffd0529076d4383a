"""Typed keyword arguments for reading captures, converted to options of the analyser."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from io import IOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zmtpscope.option_texts import READ_OPTIONS, ReadOptions, ReadTexts, known_payload, nearest

if TYPE_CHECKING:
    from zmtpscope.curve_keys import Keys
    from zmtpscope.dissect import Options

PathLike = str | os.PathLike[str]


class Settings(ReadTexts, total=False):
    """Options for reading captures, with the command line's defaults.

    `keys` are files with CURVE keys (docs/keys.md). `decode_as` takes the texts of `-d`, such as
    `"tcp.port==5555,zmtp/3.1/NULL"`. `payload` is "auto", "off" or the name of a payload dissector; `payload_files` are
    the files that dissectors need, by dissector name: `{"protobuf": ["prices.desc"]}`. `body` limits the octets kept of
    each body: "full", "full:64k", "head:100" or "none". Passwords are masked unless `show_secrets` is true.
    """

    keys: PathLike | Sequence[PathLike]
    payload_files: Mapping[str, Sequence[PathLike]]
    show_secrets: bool


OTHERS = {"display_filter": "filter", "bpf_filter": "capture_filter"}
"""Settings by the names that similar libraries have for them."""


def analyser_options(settings: Settings, *, frames: bool = False, details: bool = False) -> Options:
    """Return the analyser's options.

    Raises `ValueError` for invalid values, `KeyFileError` or `OSError` for unreadable files, `TypeError` for unknown
    settings.
    """
    from zmtpscope.dissect import Options

    for name in settings:
        if name not in Settings.__annotations__:
            known = ("filter", "packets", *Settings.__annotations__)
            meant = f"; write {OTHERS[name]}" if name in OTHERS else nearest(name, known)
            raise TypeError(f"no setting named {name!r}{meant}")
    own = ReadOptions(**{name: _parsed(name, value) for name, value in settings.items() if name in READ_OPTIONS})
    files = {
        known_payload(name): {path: Path(path).read_bytes() for path in names(paths)}
        for name, paths in settings.get("payload_files", {}).items()
    }
    return Options.of(
        own,
        files,
        frames=frames,
        details=details,
        keys=_keys(names(settings.get("keys", ()))),
        show_secrets=settings.get("show_secrets", False),
    )


def _parsed(name: str, value: Any) -> Any:
    """Parse the text of an option, or the texts of a repeatable one, and return the value for the analyser."""
    _, parse, *_, many = READ_OPTIONS[name]
    return tuple(map(parse, names(value))) if many else parse(value)


def names(given: PathLike | Iterable[PathLike]) -> list[str]:
    """Return one or several file names as a list. Raises `TypeError` if `given` is neither."""
    several: object = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(several, Iterable) or isinstance(several, bytes | IOBase):
        raise TypeError(f"expected a name or several, not {type(given).__name__}")
    return [os.fspath(each) for each in several]


def packet_limit(packets: int | None) -> int | None:
    """Return `packets`, the maximum number of packets to read. Raises `ValueError` if it is not positive."""
    if packets is not None and (not isinstance(packets, int) or packets < 1):
        raise ValueError(f"packets={packets!r}: use 1 or more")
    return packets


def _keys(paths: list[str]) -> Keys | None:
    if not paths:
        return None
    from zmtpscope.curve_keys import Keys  # loads libsodium

    return Keys([Path(path) for path in paths])
