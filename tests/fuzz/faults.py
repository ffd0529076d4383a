"""Faults that checks report."""


class Fault(Exception):
    """A property does not hold. `kind` is equal for faults with one cause."""

    def __init__(self, kind: str, text: str = "") -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind = kind
