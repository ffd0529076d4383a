"""The table of security mechanisms (wire.md 8)."""

from __future__ import annotations

from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.mechanisms.curve import CURVE
from zmtpscope.zmtp.mechanisms.gssapi import GSSAPI
from zmtpscope.zmtp.mechanisms.null import NULL
from zmtpscope.zmtp.mechanisms.plain import PLAIN
from zmtpscope.zmtp.mechanisms.unseen import UNSEEN

__all__ = ("MECHANISMS", "UNSEEN", "mechanism_named")

MECHANISMS: dict[str, Mechanism] = {each.name: each for each in (NULL, PLAIN, CURVE, GSSAPI)}


def mechanism_named(name: str | None) -> Mechanism | None:
    """Return the mechanism with this name, or None if it is unknown.

    For `name` None (no greeting was captured) returns `UNSEEN`.
    """
    return UNSEEN if name is None else MECHANISMS.get(name)
