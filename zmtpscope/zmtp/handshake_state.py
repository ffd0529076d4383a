"""Check the order of one side's own commands: handshake steps, roles, traffic too early (wire.md 7, 8)."""

from __future__ import annotations

from zmtpscope.zmtp.layout import Layout
from zmtpscope.zmtp.mechanisms import UNSEEN, mechanism_named
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Phase


class HandshakeState:
    """The progress of one side in its handshake.

    `done`: its last handshake command was sent, or the capture started after the handshake.
    """

    __slots__ = (
        "_after_error",
        "_forgiving",
        "_premature",
        "_step",
        "done",
        "error",
        "mechanism",
        "role",
        "traffic",
    )

    def __init__(self, mechanism: str | None, *, done: bool = False) -> None:
        self.mechanism = mechanism_named(mechanism) or UNSEEN
        self.role: str | None = None
        self.done = done
        self.error = False
        self.traffic = False
        self._step = 0
        self._premature = False
        self._after_error = False
        self._forgiving = done

    def forgive(self) -> None:
        """Stop checking the order of commands, since lost octets may have contained some."""
        self._forgiving = True

    @property
    def never_ready(self) -> bool:
        """Whether the side sent messages without a READY before them (finding NULL-06)."""
        return self._premature and not self.done

    def command(self, reader: Reader, layout: Layout) -> None:
        if layout.name == "MESSAGE":
            self.encrypted(reader)
            return
        if self.error:
            self._judge_after_error(reader)
        if layout.phase is Phase.TRAFFIC:
            self._judge_traffic(reader, "ZMTP3X-CMD-08")
        else:
            self._judge_handshake(reader, layout)

    def message(self, reader: Reader) -> None:
        if self.error:
            self._judge_after_error(reader)
        self._judge_traffic(reader, "ZMTP3X-CMD-09")

    def encrypted(self, reader: Reader) -> None:
        """Check the order of an encrypted MESSAGE.

        With some mechanisms the first after INITIATE contains READY (wire.md 8.4).
        """
        if self.error:
            self._judge_after_error(reader)
        self.traffic = True
        if self.done:
            return
        wraps_ready = self.mechanism.wraps_ready
        if not (wraps_ready and self._step > 0) and not self._forgiving and not self._premature:
            self._premature = True
            reader.finding("ZMTP3X-CMD-13", reader.body + 1, 7)
        self.done = self._forgiving or wraps_ready

    def _judge_after_error(self, reader: Reader) -> None:
        if not self._after_error:
            self._after_error = True
            reader.finding("NULL-04", reader.unit, _unit_length(reader))

    def _judge_traffic(self, reader: Reader, premature: str) -> None:
        self.traffic = True
        if self.done:
            if self.mechanism.clear_traffic is not None:
                reader.finding(self.mechanism.clear_traffic, reader.unit, _unit_length(reader))
        elif self._forgiving:
            self.done = True
        elif not self._premature:
            self._premature = True
            reader.finding(premature, reader.unit, _unit_length(reader))

    def _judge_handshake(self, reader: Reader, layout: Layout) -> None:
        if self.role is None:
            self.role = layout.sender
        if layout.sender != self.role:
            error = layout.name == "ERROR"
            reader.finding(self.mechanism.error_of_client if error else "ZMTP3X-CMD-12", *reader.name_span)
            return
        if self.done and not self._forgiving:
            only_step = self.mechanism.steps.get(self.role) == (layout.name,)
            again = only_step and not self.traffic
            reader.finding("NULL-01" if again else "ZMTP3X-CMD-07", *reader.name_span)
        elif layout.name != "ERROR":
            self._take_step(reader, layout)
        self.error = self.error or layout.name == "ERROR"
        self.done = self.done or layout.last

    def _take_step(self, reader: Reader, layout: Layout) -> None:
        steps = self.mechanism.steps.get(self.role, ())
        if layout.name not in steps:
            return
        step = steps.index(layout.name)
        repeated = layout.name == self.mechanism.repeated and step + 1 == self._step
        if step != self._step and not repeated and not self._forgiving:
            reader.finding("ZMTP3X-CMD-13", *reader.name_span)
        self._step = step + 1


def _unit_length(reader: Reader) -> int:
    return reader.base + reader.stop - reader.unit
