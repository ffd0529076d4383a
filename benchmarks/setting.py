"""The settings of a run that all parts share."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.captures import Capture, capture

QUICK = "quick-"


@dataclass(frozen=True)
class Setting:
    """Sizes, rounds, and the other programs to compare with; None if not installed."""

    quick: bool
    rounds: int
    tshark: str | None
    walk: str | None

    def scaled(self, count: int) -> int:
        """Return a tenth of a count in a quick run."""
        return count // 10 if self.quick else count

    def capture(self, name: str, profile: str, maker: str = "make_capture", **options: float) -> Capture:
        """Return a capture. Those of quick runs have other names, so that both are kept."""
        return capture(f"{QUICK}{name}" if self.quick else name, profile, maker, **options)

    def name(self, capture: Capture) -> str:
        """Return the name of a capture in results."""
        return capture.name.removeprefix(QUICK)
