"""Requests of Jupyter clients, and the requests to which messages of kernels respond."""

from __future__ import annotations

from typing import Any

from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.observed_jupyter import ObservedJupyter
from zmtpscope.meaning.observers.observer import DerivedTable, Observer, Rows

PROTOCOL = "jupyter"
KERNEL_INFO = "kernel_info_request"
"""This request is sent on several channels, so its record names none."""
LONGEST_ID = 80


class JupyterObserver(Observer):
    """Observes the Jupyter messages on one connection."""

    def rows(self, rows: Rows) -> None:
        for side, runs in zip(self.observed.sides, rows.sides, strict=True):
            for run in runs:
                for row, made in enumerate(run.payloads or ()):
                    if made is not None and made.protocol == PROTOCOL and isinstance(made.fields, dict):
                        side.jupyter = side.jupyter or ObservedJupyter()
                        moment = Moment.of_packet(int(run.times[row]), int(run.packets[row]), rows.files)
                        _note(side.jupyter, made.fields, moment)

    def derive(self) -> list[DerivedTable]:
        return []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        return []


def _note(observed: ObservedJupyter, fields: dict[str, Any], moment: Moment) -> None:
    kind, parent, content = fields.get("msg_type"), fields.get("parent"), fields.get("content")
    own, asked = fields.get("msg_id"), parent.get("msg_id") if isinstance(parent, dict) else None
    is_request = kind == KERNEL_INFO or (fields.get("channel") and str(kind).endswith("_request"))
    if is_request and isinstance(own, str):
        observed.ask(own[:LONGEST_ID], moment)
    if isinstance(asked, str):
        observed.responded(asked[:LONGEST_ID], moment.ns)
    if kind == "status" and isinstance(content, dict):
        observed.is_busy = content.get("execution_state") != "idle"
