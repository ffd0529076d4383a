"""The core under a fuzzer that looks which code its octets reach (atheris, on libFuzzer), where that is installed.

    pip install atheris
    python -m tests.fuzz.guided side|peer [FOLDER] [-max_total_time=SECONDS and other options of libFuzzer]

FOLDER holds octets to begin with, and what was found of interest; an empty one is filled with those of our talks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["zmtpscope"]):
    from tests.fuzz.changes import stream_of
    from tests.fuzz.core import FORMS, LISTENERS, goes_on_or_ends, reads_alike
    from tests.fuzz.talks import of_our_own, predictable

LONGEST = 2000


def side(data: bytes) -> None:
    """The first octet selects the reader, the second the cuts of the rest."""
    if len(data) > 2:
        cut = data[1] * len(data) // 256
        reads_alike(data[2:], FORMS[data[0] % len(FORMS)], [cut, cut // 7])


def peer(data: bytes) -> None:
    """The first octet selects the peer, the second the cuts of the rest."""
    if len(data) > 2:
        listener = predictable(LISTENERS[data[0] % len(LISTENERS)], 0)
        goes_on_or_ends(listener, data[2:], [data[1] * len(data) // 256])


TARGETS: dict[str, Callable[[bytes], None]] = {"side": side, "peer": peer}


def fill(folder: Path) -> None:
    """Write streams of our conversations into an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    for number, talk in enumerate(of_our_own(0)):
        for key in sorted({segment.key for segment in talk.segments if segment.payload}):
            octets = stream_of(list(talk.segments), key).octets[:LONGEST]
            (folder / f"{number}-{key[-4:].hex()}").write_bytes(bytes([number % len(FORMS), number % 256]) + octets)


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(__doc__)
    target = TARGETS[sys.argv.pop(1)]
    for folder in [argument for argument in sys.argv[1:2] if not argument.startswith("-")]:
        fill(Path(folder))
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
