"""Open the boxes of a file one by one with libsodium: the minimum cost of decryption in Python.

    python -m benchmarks.open_boxes bindings|cffi FILE

`bindings` is nacl.bindings, which copies its input and output; `cffi` calls the same libsodium without copies. Prints
JSON: boxes opened, octets found inside, CPU seconds of the loop alone.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from nacl.bindings import crypto_secretbox_open

from benchmarks.boxes import read_boxes


def with_bindings(octets: bytes) -> tuple[int, int, float]:
    """Return the number of boxes opened, octets inside, and CPU seconds."""
    key, places = read_boxes(octets)
    cut = [(octets[nonce:box], octets[box:stop]) for nonce, box, stop in places]
    total = 0
    begin = time.process_time()
    for nonce, box in cut:
        total += len(crypto_secretbox_open(box, nonce, key))
    return len(cut), total, time.process_time() - begin


def with_cffi(octets: bytes) -> tuple[int, int, float]:
    """Return the number of boxes opened, octets inside, and CPU seconds."""
    sodium: Any = import_module("nacl._sodium")  # typed nowhere
    ffi, open_box = sodium.ffi, sodium.lib.crypto_secretbox_open_easy
    key, places = read_boxes(octets)
    start = ffi.from_buffer(octets)
    content = ffi.new("unsigned char[]", max(stop - box for _, box, stop in places))
    opened = total = 0
    begin = time.process_time()
    for nonce, box, stop in places:
        if open_box(content, start + box, stop - box, start + nonce, key) == 0:
            opened += 1
            total += stop - box - 16
    return opened, total, time.process_time() - begin


if __name__ == "__main__":
    way = {"bindings": with_bindings, "cffi": with_cffi}[sys.argv[1]]
    opened, octets, cpu = way(Path(sys.argv[2]).read_bytes())
    print(json.dumps({"opened": opened, "octets": octets, "cpu": cpu}))
