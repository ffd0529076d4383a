"""Requests of Jupyter clients, and the responses of kernels."""

from __future__ import annotations

from typing import Any

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed_facts import MAX_IDS, ObservedJupyter
from zmtpscope.diagnosis.observers.observer import Observer, Rows

PROTOCOL = "jupyter"
KERNEL_INFO = "kernel_info_request"
"""A request that is sent on several channels; its record names none of them."""
SHUTDOWN = "shutdown_reply"
LONGEST_ID = 80
OCTETS = 400


class JupyterObserver(Observer):
    def rows(self, rows: Rows) -> None:
        for side, runs in zip(self.observed.sides, rows.runs, strict=True):
            for run in (each.messages for each in runs if each.table.payloads is not None):
                for row, made in enumerate(run.payloads or ()):
                    if made is not None and made.protocol == PROTOCOL and isinstance(made.fields, dict):
                        side.jupyter = side.jupyter or ObservedJupyter()
                        moment = Moment.of_row(run, row, rows.files)
                        self._note(side.jupyter, made.fields, moment)

    def _note(self, observed: ObservedJupyter, fields: dict[str, Any], moment: Moment) -> None:
        kind, parent, content = fields.get("msg_type"), fields.get("parent"), fields.get("content")
        own, asked = fields.get("msg_id"), parent.get("msg_id") if isinstance(parent, dict) else None
        is_request = kind == KERNEL_INFO or (fields.get("channel") and str(kind).endswith("_request"))
        if is_request and isinstance(own, str):
            observed.requests += 1
            id_ = own[:LONGEST_ID]
            if id_ not in observed.asked and len(observed.asked) < MAX_IDS and self.room.take(self.observed, OCTETS):
                observed.asked[id_] = moment
        if isinstance(asked, str):
            self._respond(observed, asked[:LONGEST_ID], moment.ns)
        observed.shuts_down = observed.shuts_down or kind == SHUTDOWN
        if kind == "status" and isinstance(content, dict):
            observed.busy = None if content.get("execution_state") == "idle" else moment
            observed.busy_with = asked[:LONGEST_ID] if isinstance(asked, str) else None

    def _respond(self, observed: ObservedJupyter, id_: str, ns: int) -> None:
        """Store the time (ns) of a response to the request `id_`. If there is no room, it replaces the oldest one."""
        observed.response_count += 1
        is_known = observed.responses.pop(id_, None) is not None
        has_room = is_known or (len(observed.responses) < MAX_IDS and self.room.take(self.observed, OCTETS))
        if not has_room:
            if not observed.responses:
                observed.forgot_ns = ns
                return
            observed.forgot_ns = observed.responses.pop(next(iter(observed.responses)))
        observed.responses[id_] = ns
