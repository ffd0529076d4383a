"""Read an open capture again with other settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zmtpscope.capture import CaptureError
from zmtpscope.dissect import DecodeAs, Options
from zmtpscope.option_texts import parse_decode_as
from zmtpscope.tui.requests import ReadAgain
from zmtpscope.tui.worker.channel import CannotAnswer
from zmtpscope.tui.worker.loading import Loading, Opened
from zmtpscope.tui.worker.saved_rows import readable_again

if TYPE_CHECKING:
    from zmtpscope.curve_keys import Keys


def loading_again(request: ReadAgain, opened: Opened, options: Options) -> Loading:
    """Return a `Loading` of the same capture, with the settings of the request added to `options`. Raises
    `CannotAnswer`."""
    if opened.followed is not None:
        raise CannotAnswer(
            "what comes live cannot be read again: give the same on the command line (-d, --keys, --frames) next time"
        )
    readable_again(opened.paths)
    rules = tuple(map(_rule, request.decode_as))
    options = replace(
        options,
        decode_as=(*rules, *options.decode_as),
        keys=_keys(request.key_files, options.keys),
        frames=request.frames or options.frames,
    )
    try:
        return Loading(opened, options)
    except CaptureError as error:
        raise CannotAnswer(str(error)) from None


def _rule(text: str) -> DecodeAs:
    try:
        return parse_decode_as(text.strip())
    except ValueError as error:
        raise CannotAnswer(str(error)) from None


def _keys(names: Sequence[str], keys: Keys | None) -> Keys | None:
    if not names:
        return keys
    from zmtpscope.curve_keys import KeyFileError, Keys  # loads libsodium

    try:
        paths = [Path(name.strip()).expanduser() for name in names]
        for path in paths:
            alone = Keys([path])
            if not (alone.server_keys or alone.names_connections):
                raise CannotAnswer("; ".join(alone.problems))
        return Keys(paths) if keys is None else keys.with_files(paths)
    except (KeyFileError, RuntimeError, ValueError) as error:
        raise CannotAnswer(str(error)) from None
