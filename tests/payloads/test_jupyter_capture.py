"""The real capture of ipykernel and jupyter_client: each signed message is read, and nothing else is claimed."""

from __future__ import annotations

import json
from collections import Counter

from tests.payloads.reading import ABOUT, claimed, dissected
from tests.readings import CAPTURES, read
from zmtpscope.payloads.api import Claim, Settings
from zmtpscope.payloads.jupyter import DELIMITER, Jupyter

KEY = Settings(files={"kernel.json": b'{"key": "47f11c51-bcec0c580d6bda52925597aa"}'})


def test_every_message_of_a_kernel_and_its_client() -> None:
    channels: Counter[str | None] = Counter()
    for record, frames in read(CAPTURES / "implementations" / "jupyter.pcap").messages():
        about = ABOUT._replace(socket_type=record["socket_type"])
        if DELIMITER not in frames:
            assert record["socket_type"] in ("REQ", "ROUTER")  # heartbeats
            assert claimed(Jupyter, *frames, about=about) is Claim.NO
            continue
        assert claimed(Jupyter, *frames, about=about) is Claim.YES
        made = dissected(Jupyter, *frames, about=about, settings=KEY)
        assert made.findings == []
        assert made.fields["signature"] == "ok"
        header = json.loads(frames[frames.index(DELIMITER) + 2])
        assert {name: made.fields[name] for name in header} == header
        assert made.summary.startswith(header["msg_type"])
        channels[made.fields["channel"]] += 1
    assert channels == {"iopub": 30, "shell": 12, "stdin": 2, "control": 2, None: 2}
