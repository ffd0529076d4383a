"""What all parts of a run need to know."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.captures import Capture, capture

QUICK = "quick-"


@dataclass(frozen=True)
class Setting:
    """How large and how often, and the programs that are compared; None: not to be had."""

    quick: bool
    rounds: int
    tshark: str | None
    walk: str | None

    def scaled(self, count: int) -> int:
        """A tenth of it in a quick run."""
        return count // 10 if self.quick else count

    def capture(self, name: str, profile: str, maker: str = "make_capture", **options: float) -> Capture:
        """Return a capture. Those of quick runs have other names, so that both are kept."""
        return capture(f"{QUICK}{name}" if self.quick else name, profile, maker, **options)

    def name(self, capture: Capture) -> str:
        """What the capture is called in results."""
        return capture.name.removeprefix(QUICK)
