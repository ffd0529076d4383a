from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.stream.arrivals import Arrivals
from zmtpscope.dissect.stream.assembly import Assembly
from zmtpscope.dissect.stream.boxes import Broken, Inside, Step
from zmtpscope.dissect.stream.runs import Context, Kept
from zmtpscope.zmtp.events import FrameColumns

if TYPE_CHECKING:
    from zmtpscope.dissect.stream.decryption import Decryption


class OpenedMessages:
    """Messages from decrypted CURVE boxes: `decryption` decrypts boxes, `assembly` joins their frames."""

    closed_since: int | None = None
    """Ordinal of the segment that showed the first MESSAGE that stays encrypted."""

    def __init__(self, stream: Stream, decryption: Decryption) -> None:
        self.decryption = decryption
        self.assembly = Assembly(stream)
        self.repeats: dict[str, int] = {}
        """Findings that the reader only counts: number already emitted."""

    def stay_closed(self, ordinal: int) -> None:
        if self.closed_since is None:
            self.closed_since = ordinal

    def assemble(self, steps: Sequence[Step], in_clear: Assembly, context: Context, arrivals: Arrivals) -> None:
        """Join frames from boxes to messages.

        `context` is that of unencrypted frames. A frame from a box ends an incomplete unencrypted message; a `Broken`
        step ends the incomplete message in boxes.
        """
        inside = self.assembly
        for step in steps:
            if isinstance(step, Inside):
                columns = step.columns
                if step.in_front.offsets or in_clear.open_frames:
                    in_clear.feed(step.in_front, context)
                    if in_clear.open_frames:
                        stop = columns.bodies[0] + columns.sizes[0]
                        in_clear.give_up(context, arrivals.ordinal_of(columns.offsets[0], stop))
                        in_clear.doubt_next()
                inside.feed(columns, self._inside(context))
            elif isinstance(step, Broken):
                is_open = bool(inside.open_frames)
                if is_open:
                    inside.give_up(self._inside(context), step.ordinal)
                if is_open or not step.is_between:
                    inside.doubt_next()
            else:
                inside.doubt_next()

    def lose(self, context: Context, ordinal: int) -> FrameColumns:
        """End the incomplete message after a loss or at the end, which the segment `ordinal` shows.

        Returns the frame that waited for decryption, which stays encrypted.
        """
        frames = self.decryption.lose()
        if self.assembly.open_frames:
            self.assembly.give_up(self._inside(context), ordinal)
        self.assembly.doubt_next()
        return frames

    def give_way(self, context: Context) -> None:
        """Emit the incomplete message in parts, since all sides together keep too much."""
        if self.decryption.reader is not None and self.assembly.open_frames > 1:
            self.assembly.give_up(self._inside(context), context.settled)
            self.assembly.damage(Kept(b"", context.end, None), 0)

    def _inside(self, context: Context) -> Context:
        """Return the context for frames from boxes.

        They are proven even if their frame boundary was found by search.
        """
        assert self.decryption.reader is not None
        return replace(context, regimes=self.decryption.reader.regimes, doubtful=None, confidence="proven")
