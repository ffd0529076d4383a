"""The security mechanisms (wire.md 8): one module each, and one row in this table."""

from __future__ import annotations

from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.mechanisms.curve import CURVE
from zmtpscope.zmtp.mechanisms.gssapi import GSSAPI
from zmtpscope.zmtp.mechanisms.null import NULL
from zmtpscope.zmtp.mechanisms.plain import PLAIN
from zmtpscope.zmtp.mechanisms.unseen import UNSEEN

__all__ = ("MECHANISMS", "UNSEEN", "mechanism_named")

MECHANISMS: dict[str, Mechanism] = {each.name: each for each in (NULL, PLAIN, CURVE, GSSAPI)}
"""By the name in the greeting."""


def mechanism_named(name: str | None) -> Mechanism | None:
    """The mechanism that a greeting names; None for one that is not known here.

    `name` is None where the greeting was not captured: what commands can be read then is a row of its own.
    """
    return UNSEEN if name is None else MECHANISMS.get(name)
