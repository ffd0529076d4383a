"""Compare the frames found in captures with lost, repeated or reordered packets with the frames sent."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks import tools
from benchmarks.captures import Capture, note
from benchmarks.measure import output_of
from benchmarks.setting import Setting

OUT_OF_ORDER = ("-o", "tcp.reassemble_out_of_order:TRUE")
"""tshark reassembles out-of-order segments only with this option."""


def damage(setting: Setting) -> list[dict[str, Any]]:
    """Count what each tool finds. The messages sent are those of the same capture without damage."""
    note("damage")
    make, scaled = setting.capture, setting.scaled
    small = make("small", "small", messages=scaled(1_000_000))
    reordered = make("reordered", "small", messages=scaled(1_000_000), reorder=0.02, retransmit=0.02)
    few = make("few", "small", messages=scaled(200_000))
    lossy = make("lossy", "small", messages=scaled(200_000), loss=0.001)
    return [
        *found(setting, "2 % reordered, 2 % repeated", small, reordered),
        *found(setting, "0.1 % lost", few, lossy),
    ]


def found(setting: Setting, damage: str, whole: Capture, damaged: Capture) -> list[dict[str, Any]]:
    """Count what each tool finds in a damaged capture with the messages of `whole`."""
    wanted = whole.frames - damaged.truth.get("message_frames_in_lost_packets", 0)
    same = {"damage": damage, "sent": whole.frames, "wanted": wanted}
    command = [sys.executable, "-m", "benchmarks.rows", "lost", str(whole.path), str(damaged.path)]
    rows = json.loads(output_of(command))
    results = [{"tool": "zmtpscope", "found": rows["found"], "invented": rows["invented"]} | same]
    if setting.tshark is not None:
        for words in ((), OUT_OF_ORDER):
            frames = tools.frames_by_tshark(setting.tshark, damaged, *words)
            results.append({"tool": " ".join(["tshark", *words]), "found": frames} | same)
    return results
