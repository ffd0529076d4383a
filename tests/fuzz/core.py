"""Properties of the core, which knows no captures: for the octets of one side, in any pieces."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from tests.fuzz.faults import Fault
from tests.peers import SECURITY
from tests.zmtp.sides import feed as read
from tests.zmtp.sides import trees
from tests.zmtp.test_peer_malice import assert_orderly
from tests.zmtp.test_peer_malice import feed as hear
from zmtpscope.zmtp.peer import Peer, Settings
from zmtpscope.zmtp.regime import Form
from zmtpscope.zmtp.side import SideReader
from zmtpscope.zmtp.socket_types import PEERS

FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that a terminal might interpret."""

FORMS = (
    (Form.GREETING_3, "3.1"),
    (Form.GREETING_3, "3.0"),
    (Form.GREETING_2, "2.0"),
    (Form.FRAMES_1, "1.0"),
    (Form.PSEUDO_SIGNATURE, "1.0"),
    (Form.VERSIONED_1, "1.0"),
)

LISTENERS = tuple(
    Settings(socket_type, security)
    for socket_type in sorted(PEERS)
    for securities in SECURITY.values()
    for security in securities
)
"""A socket of each type and mechanism, as client and as server."""


def reads_alike(octets: bytes, form: tuple[Form, str], cuts: Sequence[int]) -> None:
    """A reader gives the same results for octets in pieces, and a field tree for each unit."""
    whole = read(SideReader(*form), octets)
    parts = read(SideReader(*form), octets, cuts)
    for name, one, other in zip(whole._fields, whole, parts, strict=True):
        if one != other:
            raise Fault(
                f"{name} of a {form[0].value} depends on pieces", f"{octets.hex()} cut at {cuts}: {one}\n{other}"
            )
    trees(whole, octets)


def goes_on_or_ends(listener: Settings, octets: bytes, cuts: Sequence[int]) -> None:
    """A peer that receives arbitrary octets ends with a `PeerError` with a safe text, or continues."""
    peer = Peer(listener, 0.0)
    error = hear(peer, octets, list(cuts))
    assert_orderly(peer, error)
    if error is not None and any(unicodedata.category(each) in FORBIDDEN for each in str(error)):
        raise Fault(f"a forbidden character in a {type(error).__name__}", repr(str(error)))
