"""Save all packets that were captured so far, unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from zmtpscope.export.files import OutputFile
from zmtpscope.export.words import size
from zmtpscope.live.capture.session import CaptureFile
from zmtpscope.tui.requests import SaveCapture
from zmtpscope.tui.worker.loading import Loading
from zmtpscope.tui.worker.saved_rows import PACKETS
from zmtpscope.tui.worker.saving import CannotSave, Saving, Steps, is_free, target_of

AT_ONCE = 1 << 20


class Held(NamedTuple):
    """An open file of the capture, and the size of its complete blocks in octets."""

    file: BinaryIO
    octets: int


def capture_saving_of(request: SaveCapture, loading: Loading) -> Saving | None:
    """Return a `Saving` that writes all packets; None if the file exists. Raises `CannotSave`."""
    followed = loading.opened.followed
    files = [] if followed is None else followed.written_files
    if not files:
        where = ", ".join(loading.opened.paths)
        raise CannotSave(
            "standard input is not kept: save rows, or have it written by tee in front of zmtpscope"
            if where == "-"
            else f"the packets are in {where} already: save rows as {PACKETS}, or copy that"
        )
    path = target_of(request.path, [PACKETS])
    if not is_free(path, [each.path for each in files], force=request.force):
        return None
    return Saving(path, sum(each.octets for each in files), save_files(path, files))


def save_files(path: Path, files: Sequence[CaptureFile]) -> Steps:
    """Join files to one pcapng file, step by step. The result describes its size, and lost packets.

    Raises `CannotSave` and `OSError`.
    """
    output, done = OutputFile(path), 0
    with ExitStack() as opened:
        held = list(_held(files, opened))
        if not sum(each.octets for each in held):
            raise CannotSave(f"{path}: no packets are there to be saved")
        opened.callback(output.discard)
        output.open()
        for each in held:
            left = each.octets
            while left and (octets := each.file.read(min(AT_ONCE, left))):
                output.write(octets)
                left -= len(octets)
                done += len(octets)
                yield done
        output.finish()
        output.commit()
    gone = sum(each.octets for each in files) - done
    begins = f"; it begins later than the capture, of which the first {size(gone)} were removed" if gone else ""
    return f"{size(done)} of packets{begins}"


def _held(files: Sequence[CaptureFile], opened: ExitStack) -> Iterator[Held]:
    """Yield the files that still exist: a temporary capture loses its oldest."""
    for each in files:
        with suppress(FileNotFoundError):
            file = open(each.path, "rb")  # noqa: SIM115 (`opened` closes it)
            yield Held(opened.enter_context(file), each.octets)
