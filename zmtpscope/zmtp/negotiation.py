"""Decide which version two sides speak, from the first octets of both (wire.md 9.3)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from zmtpscope.records import to_text
from zmtpscope.zmtp.greeting import padding_of
from zmtpscope.zmtp.prefix import (
    NEW,
    OLD,
    VERSIONED,
    Class,
    announced,
    are_frames_1,
    classify,
    form_number,
    holds_frames_1,
    is_anonymous,
    is_form_settled,
    is_greeting_3,
    is_whole_greeting,
    names_mechanism,
    other_protocol,
    own_form,
)
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Form
from zmtpscope.zmtp.upgrade import VERSION, Upgrade, asks_for_websocket, find_upgrade

__all__ = ["PREFIX_LIMIT", "Decision", "Form", "negotiate"]

PREFIX_LIMIT = 1 << 16
"""After this many octets of one side, the evidence so far decides on the version."""


class Decision(NamedTuple):
    """The version that two sides speak, or why there is none.

    - `version`: "1.0", "2.0", "3.0", "3.1", "zws-2.0" or None
    - `forms`: for each side, how its first octets are to be parsed
    - `outcome`, `text`: the result as an id, and as a sentence
    - `findings`: for each side; those about the decision itself (CONN-06) belong to the first
    - `one_sided`: the capture has octets of one side only
    - `confidence`: "proven", "likely" or "guess"
    """

    version: str | None
    forms: tuple[Form, Form]
    outcome: str
    text: str
    findings: tuple[tuple[Finding, ...], tuple[Finding, ...]] = ((), ())
    one_sided: bool = False
    confidence: str = "proven"
    mechanism: str | None = None
    """Mechanism agreed by ZWS; in ZMTP each side announces its own."""


def negotiate(first: bytes, second: bytes, *, over: bool = False) -> Decision | None:
    """Determine the version from the first octets of both sides; None if more octets can change it.

    `over`: no more octets will arrive (end of stream, or a time limit), so the octets so far are decisive.
    """
    upgrade = (first[:1] in b"GH" or second[:1] in b"GH") and find_upgrade((first, second), over=over)
    if upgrade is not False:
        return None if upgrade is True else _upgraded(upgrade)
    classes = classify(first), classify(second)
    if over:
        classes = _settle((first, second), classes)
    one, other = classes
    if one is Class.REVISION_3 and other is Class.REVISION_3 and len(first) > 11 and len(second) > 11:
        return _agreed_3(first[10:12], second[10:12])
    if Class.ALIEN in classes:
        decision = _unknown(first, second, classes) if over or _are_settled(first, second, classes) else None
    elif one in OLD or other in OLD:
        decision = _with_old(first, second, classes)
    elif one in VERSIONED and other in VERSIONED:
        decision = _versioned(first, second, classes)
    else:
        decision = None
    if over:
        return _at_the_end(first, second, classes) if decision is None else decision
    if decision is not None and decision.version is None and not _are_settled(first, second, classes):
        return None
    return decision


def _upgraded(upgrade: Upgrade) -> Decision:
    """Return the decision for a connection on which one side requests ZWS by HTTP (wire.md 12)."""
    request, response = Form.ZWS_REQUEST, Form.ZWS_RESPONSE
    forms = (response, request) if upgrade.client else (request, response)
    one_sided = upgrade.request is None or upgrade.response is None
    chosen = upgrade.chosen
    if chosen is None:
        return Decision(None, forms, "refused", "ZWS was offered but not selected", one_sided=one_sided)
    text = f"ZWS 2.0 by one side only: {to_text(chosen.octets)}" if one_sided else f"ZWS 2.0: {to_text(chosen.octets)}"
    findings = [[Finding("ZMTP-CONN-06", detail=text)], list[Finding]()]
    if upgrade.request is not None and chosen.octets not in upgrade.request.offers:
        offers = b", ".join(upgrade.request.offers)
        detail = f"{to_text(chosen.octets)} was selected, offered were {to_text(offers)}"
        findings[1 - upgrade.client].append(Finding("ZWS-03", chosen.start, len(chosen.octets), None, detail))
    return Decision(
        VERSION,
        forms,
        "agreed",
        text,
        (tuple(findings[0]), tuple(findings[1])),
        one_sided,
        "likely" if one_sided else "proven",
        chosen.mechanism,
    )


def _settle(octets: tuple[bytes, bytes], classes: tuple[Class, Class]) -> tuple[Class, Class]:
    """Resolve uncertain classes when no more octets will arrive.

    A side speaks 1.0 only if the other side does, or if its octets are complete frames (wire.md 9.2).
    """
    if all(is_anonymous(each) and are_frames_1(each) for each in octets):
        return Class.OLD, Class.OLD
    return _settle_side(octets[0], *classes), _settle_side(octets[1], *classes[::-1])


def _settle_side(octets: bytes, side: Class, other: Class) -> Class:
    if side in (Class.OLD, Class.CUT):
        is_supported = other is Class.FIRM or other in NEW or (side is Class.OLD and are_frames_1(octets))
    elif side is Class.DOUBTFUL:
        is_supported = other is Class.FIRM
    else:
        return side
    return Class.OLD if is_supported else Class.ALIEN


def _are_settled(first: bytes, second: bytes, classes: tuple[Class, Class]) -> bool:
    """Whether no further octets can change how each side is parsed, for connections without a common version."""
    return is_form_settled(first, classes[0]) and is_form_settled(second, classes[1])


def _own_forms(first: bytes, second: bytes, classes: tuple[Class, Class]) -> tuple[Form, Form]:
    return own_form(first, classes[0]), own_form(second, classes[1])


def _agreed(
    version: str, forms: tuple[Form, Form], text: str, confidence: str = "proven", outcome: str = "agreed"
) -> Decision:
    decided = Finding("ZMTP-CONN-06", detail=text)
    return Decision(version, forms, outcome, text, ((decided,), ()), confidence=confidence)


@lru_cache(maxsize=256)
def _agreed_3(first: bytes, second: bytes) -> Decision:
    """Return the decision for two 3.x sides, from their version octets."""
    version = f"3.{min(_minor(*first), _minor(*second))}"
    text = f"ZMTP {version}; announced {first[0]}.{first[1]} and {second[0]}.{second[1]}"
    return _agreed(version, (Form.GREETING_3, Form.GREETING_3), text)


def _minor(major: int, minor: int) -> int:
    """Return the minor version to use. Versions above 3.1 count as 3.1."""
    return 1 if major > 3 else min(minor, 1)


def _unknown(first: bytes, second: bytes, classes: tuple[Class, Class]) -> Decision:
    findings = tuple(
        (_alien(octets),) if kind is Class.ALIEN else () for octets, kind in zip((first, second), classes, strict=True)
    )
    return Decision(
        None,
        (_form_beside(first, *classes), _form_beside(second, *classes[::-1])),
        "unknown",
        "not ZMTP" if classes[0] is classes[1] else "one side does not speak ZMTP",
        (findings[0], findings[1]),
    )


def _form_beside(octets: bytes, kind: Class, other: Class) -> Form:
    """Return how to parse the first octets of a side that faces another protocol.

    `kind` is the class of this side, `other` that of the other side. A newer peer takes the other protocol for 1.0, so
    it sends 1.0 frames after its signature, unless it did not wait.
    """
    is_form_2 = kind in (Class.REVISION_0, Class.REVISION_1, Class.REVISION_2) and not names_mechanism(octets)
    if other is Class.ALIEN and (is_form_2 or (kind is Class.REVISION_3 and names_mechanism(octets) is False)):
        return Form.SIGNATURE
    return own_form(octets, kind)


def _alien(octets: bytes) -> Finding:
    protocol = "WebSocket (ws://)" if asks_for_websocket(octets) is not None else other_protocol(octets)
    return Finding("ZMTP-CONN-04", 0, 1, detail=None if protocol is None else f"it speaks {protocol}")


def _with_old(first: bytes, second: bytes, classes: tuple[Class, Class]) -> Decision | None:
    """Decide on 1.0 if one side has sent a 1.0 frame that the other side or further frames confirm, otherwise None."""
    if classes[0] in OLD and classes[1] in OLD:
        return _agreed_1(Form.FRAMES_1, Form.FRAMES_1, "likely") if Class.FIRM in classes else None
    for newer, older in enumerate((second, first)):
        if classes[newer] in NEW and (classes[1 - newer] is Class.FIRM or is_anonymous(older)):
            return _facing_newer(first, second, classes, newer, "proven")
    return None


def _facing_newer(first: bytes, second: bytes, classes: tuple[Class, Class], newer: int, confidence: str) -> Decision:
    """Return the decision for a 1.0 side and a newer side with the index `newer`.

    The signature of the newer side may be the header of a 1.0 identity frame.
    """
    if not padding_of((first, second)[newer]):
        return _refused_1(first, second, classes, newer)
    forms = (Form.FRAMES_1, Form.PSEUDO_SIGNATURE)
    return _agreed_1(*(forms if newer else forms[::-1]), confidence)


def _agreed_1(one: Form, other: Form, confidence: str) -> Decision:
    names = {Form.FRAMES_1: "1.0", Form.PSEUDO_SIGNATURE: "newer"}
    return _agreed("1.0", (one, other), f"ZMTP 1.0; the sides are {names[one]} and {names[other]}", confidence)


def _refused_1(first: bytes, second: bytes, classes: tuple[Class, Class], newer: int) -> Decision:
    finding = (Finding("ZMTP-CONN-07", 1, 8),)
    return Decision(
        None,
        _own_forms(first, second, classes),
        "failed",
        "one side requires 2.0 or newer, and the other is 1.0",
        ((), finding) if newer else (finding, ()),
    )


def _versioned(first: bytes, second: bytes, classes: tuple[Class, Class]) -> Decision | None:
    if Class.REVISION_0 in classes:
        text = "1.0 frames after versioned greetings"
        return _agreed("1.0", (Form.VERSIONED_1, Form.VERSIONED_1), text, outcome="1.0 frames")
    one, other = (form_number(octets, kind) for octets, kind in zip((first, second), classes, strict=True))
    if one is None or other is None:
        return None
    if one == other == 3:
        return _agreed_3(first[10:12], second[10:12]) if len(first) > 11 and len(second) > 11 else None
    if one == other == 2:
        text = f"ZMTP 2.0; announced {announced(first, classes[0])} and {announced(second, classes[1])}"
        return _agreed("2.0", (Form.GREETING_2, Form.GREETING_2), text)
    finding = (Finding("ZMTP-CONN-07", 11, 53),)
    return Decision(
        None,
        _own_forms(first, second, classes),
        "failed",
        "a 3.x side did not wait for the version of its peer, which is 2.0",
        (finding, ()) if one == 3 else ((), finding),
    )


def _at_the_end(first: bytes, second: bytes, classes: tuple[Class, Class]) -> Decision:
    """Decide when no more octets will arrive, by the side that has sent most of its greeting (wire.md 9.3)."""
    one, other = classes
    if one in OLD or other in OLD:
        if one in NEW or other in NEW:
            return _facing_newer(first, second, classes, int(other in NEW), "guess")
        decision = _agreed_1(Form.FRAMES_1, Form.FRAMES_1, "guess")
        forms = _own_forms(first, second, classes)
        return decision._replace(forms=forms, one_sided=Class.NONE in classes)
    if Class.NONE in classes:
        alone = _one_side(first or second)
        if alone is not None:
            return alone if first else _mirrored(alone)
    lead = _most_advanced(classes)
    octets = (first, second)[lead]
    outcome, text = _report(octets, classes[lead])
    forms = _own_forms(first, second, classes)
    cut = tuple(
        () if is_whole_greeting(each, form) else (Finding("ZMTP-CONN-03"),)
        for each, form in zip((first, second), forms, strict=True)
    )
    return Decision(None, forms, outcome, text, (cut[0], cut[1]), Class.NONE in classes)


def _most_advanced(classes: tuple[Class, Class]) -> int:
    """Return the index of the side that determines the version.

    Revision 1 (2.0) has priority over 3.x, because a 3.x side would switch to 2.0.
    """
    if Class.REVISION_1 in classes:
        return classes.index(Class.REVISION_1)
    return int(classes[1] > classes[0])


def _report(octets: bytes, kind: Class) -> tuple[str, str]:
    if kind is Class.REVISION_1 or (kind is Class.REVISION_2 and names_mechanism(octets) is False):
        return "refused", "2.0 announced, refused"
    if kind in (Class.REVISION_2, Class.REVISION_3):
        version = f"{octets[10]}.{octets[11]}" if len(octets) > 11 else f"{octets[10]}, minor unknown"
        return "not agreed", f"{version} announced, not agreed"
    return {
        Class.NONE: ("none", "no ZMTP octets"),
        Class.SIGNATURE: ("signature only", "signature only: newer than 1.0"),
        Class.REVISION_0: ("not agreed", "revision 0 announced, not agreed"),
    }.get(kind, ("undecided", "too few octets to tell the version"))


def _one_side(octets: bytes) -> Decision | None:
    """Determine the version by octet 12 of one side, if the other side was not captured (wire.md 9.3)."""
    if classify(octets) not in NEW:
        return None
    if is_greeting_3(octets):
        version, form = f"3.{_minor(octets[10], octets[11])}", Form.GREETING_3
    elif len(octets) > 13 and 1 <= octets[10] <= 3 and octets[11] <= 0x0B and octets[12] == 0:
        version, form = "2.0", Form.GREETING_2
    elif 1 <= padding_of(octets) <= 256 and holds_frames_1(octets, 9 + padding_of(octets)):
        version, form = "1.0", Form.PSEUDO_SIGNATURE
    else:
        return None
    text = f"ZMTP {version} by one side only"
    findings = (Finding("ZMTP-CONN-06", detail=text),)
    return Decision(version, (form, Form.NOTHING), "agreed", text, (findings, ()), True, "likely")


def _mirrored(decision: Decision) -> Decision:
    return Decision(
        decision.version,
        (decision.forms[1], decision.forms[0]),
        decision.outcome,
        decision.text,
        (decision.findings[1], decision.findings[0]),
        decision.one_sided,
        decision.confidence,
    )
