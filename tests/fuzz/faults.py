"""Faults that checks report."""


class Fault(Exception):
    """Something that must hold does not. `kind` is what faults of one cause have in common."""

    def __init__(self, kind: str, text: str = "") -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind = kind
