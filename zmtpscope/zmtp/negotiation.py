"""Which version two sides speak, from the first octets of both (wire.md 9.2, 9.3).

Each side is sorted into a `Class` by its octets so far. Classes only ever advance, and a decision is made only where no
further octet could change it, so the order in which the octets of the two sides arrive does not matter.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from zmtpscope.records import to_text
from zmtpscope.zmtp.greeting import GREETING_3_SIZE, MECHANISM_CHARACTERS
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Form
from zmtpscope.zmtp.signature import LARGEST_PADDING, padding_of
from zmtpscope.zmtp.upgrade import VERSION, Upgrade, find_upgrade

__all__ = ["PREFIX_LIMIT", "Decision", "Form", "negotiate"]

PREFIX_LIMIT = 1 << 16
"""Octets of one side after which the version is decided on the evidence that is there."""

FLAGS_1 = frozenset({0x00, 0x01, 0x7E, 0x7F})
"""The flags octets real 1.0 peers send."""

ANONYMOUS = b"\1\0"
"""The identity frame of a 1.0 peer that has no identity."""

MECHANISM_START = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


class Decision(NamedTuple):
    """What two sides agreed on, or why they did not.

    `version` is "1.0", "2.0", "3.0", "3.1" or "zws-2.0", None where none is in force; `forms` say how to read the first
    octets of each side; `findings` belong to either side (CONN-03, -04, -07, ZWS-03), the decision itself (CONN-06) to
    the first; `one_sided`: only one side's octets were there to decide by; `confidence` is "proven", "likely" or
    "guess".
    """

    version: str | None
    forms: tuple[Form, Form]
    outcome: str
    text: str
    findings: tuple[tuple[Finding, ...], tuple[Finding, ...]] = ((), ())
    one_sided: bool = False
    confidence: str = "proven"
    mechanism: str | None = None
    """What ZWS agrees on with its version; everywhere else each side announces its own."""


class Class(IntEnum):
    """What the octets of one side look like so far; later ones of those that are no 1.0 are more advanced."""

    NONE = 0
    WAIT = 1
    """Too few octets to tell."""
    ALIEN = 2
    """Not ZMTP."""
    CUT = 3
    """The beginning of a first 1.0 frame."""
    OLD = 4
    """A first 1.0 frame."""
    DOUBTFUL = 5
    """A first 1.0 frame that is an unlikely one, or octets behind it that look like none."""
    FIRM = 6
    """Two 1.0 frames."""
    SIGNATURE = 7
    REVISION_0 = 8
    REVISION_1 = 9
    REVISION_2 = 10
    REVISION_3 = 11
    """Version 3 or above."""


_OLD = frozenset({Class.OLD, Class.DOUBTFUL, Class.FIRM})
_VERSIONED = frozenset({Class.REVISION_0, Class.REVISION_1, Class.REVISION_2, Class.REVISION_3})
_NEW = _VERSIONED | {Class.SIGNATURE}


def classify(octets: bytes) -> Class:
    """The class of one side (wire.md 9.2). Never reads beyond the header of a second 1.0 frame."""
    if not octets:
        return Class.NONE
    if octets[0] != 0xFF:
        return _guard(octets)
    if len(octets) < 10:
        return Class.WAIT
    if not octets[9] & 1:
        return _guard(octets)
    if octets[9] != 0x7F and padding_of(octets) > LARGEST_PADDING:
        return Class.ALIEN
    if len(octets) == 10:
        return Class.SIGNATURE
    return (Class.REVISION_0, Class.REVISION_1, Class.REVISION_2, Class.REVISION_3)[min(octets[10], 3)]


def _guard(octets: bytes) -> Class:
    """Whether octets that are no signature can be 1.0 frames: nearly any first octet could begin one."""
    first = _header_1(octets, 0)
    if first is None:
        return Class.WAIT
    length, flags, stop = first
    if length == 0 or length > 2**31 or flags not in FLAGS_1:
        return Class.ALIEN
    if _is_unlikely(octets, length, flags, stop):
        return Class.DOUBTFUL
    if len(octets) < stop:
        return Class.CUT
    second = _header_1(octets, stop)
    if second is None:
        return Class.OLD
    length, flags, stop = second
    return Class.FIRM if 0 < length <= 2**40 and flags in FLAGS_1 else Class.DOUBTFUL


def first_frame_stop(octets: bytes) -> int:
    """Octets that the first frame has of a side of the class CUT."""
    first = _header_1(octets, 0)
    assert first is not None
    return first.stop


def _is_unlikely(octets: bytes, length: int, flags: int, stop: int) -> bool:
    """Whether a whole header of a first frame is one that 1.0 peers have little reason to send.

    No identity begins with 0, and no identity frame is empty and has MORE; lengths of 16 to 64 bits in front of the
    messages of other protocols look like both.
    """
    if length == 1:
        return bool(flags & 1)
    return octets[stop - length + 1 : stop - length + 2] == b"\0"


class _Header(NamedTuple):
    length: int
    flags: int
    stop: int


def _header_1(octets: bytes, at: int) -> _Header | None:
    """The 1.0 frame header at `at`; None where it is not whole. Length 0 has no flags."""
    if at >= len(octets):
        return None
    long = octets[at] == 0xFF
    if long and len(octets) < at + 9:
        return None
    length = int.from_bytes(octets[at + 1 : at + 9], "big") if long else octets[at]
    flags_at = at + (9 if long else 1)
    if length == 0:
        return _Header(0, 0, flags_at)
    if flags_at >= len(octets):
        return None
    return _Header(length, octets[flags_at], flags_at + length)


def _form_3(octets: bytes) -> bool | None:
    """Whether octet 12 is the first letter of a mechanism (3.x form); None where it is not there."""
    return octets[12] in MECHANISM_START if len(octets) > 12 else None


def negotiate(first: bytes, second: bytes, *, over: bool = False) -> Decision | None:
    """Decide by the first octets of both sides; None while more octets could decide.

    `over`: no more octets will come (the end, or a waiting limit): decide on the evidence that is there.
    """
    upgrade = (first[:1] in b"GH" or second[:1] in b"GH") and find_upgrade((first, second), over=over)
    if upgrade is not False:
        return None if upgrade is True else _upgraded(upgrade)
    classes = classify(first), classify(second)
    if over:
        greeted = first.startswith(ANONYMOUS) and second.startswith(ANONYMOUS)
        alike = greeted and _are_frames_1(first) and _are_frames_1(second)
        classes = (Class.OLD, Class.OLD) if alike else _settle(*classes)
    one, other = classes
    if one is Class.REVISION_3 and other is Class.REVISION_3 and len(first) > 11 and len(second) > 11:
        return _agreed_3(first[10:12], second[10:12])
    if Class.ALIEN in classes:
        decision = _unknown(first, second, classes) if over or _are_settled(first, second, classes) else None
    elif one in _OLD or other in _OLD:
        decision = _with_old(first, second, classes)
    elif one in _VERSIONED and other in _VERSIONED:
        decision = _versioned(first, second, classes)
    else:
        decision = None
    if over:
        return _at_the_end(first, second, classes) if decision is None else decision
    if decision is not None and decision.version is None and not _are_settled(first, second, classes):
        return None
    return decision


def _upgraded(upgrade: Upgrade) -> Decision:
    """One side asks for ZWS by HTTP (wire.md 12)."""
    request, response = Form.ZWS_REQUEST, Form.ZWS_RESPONSE
    forms = (response, request) if upgrade.client else (request, response)
    one_sided = upgrade.request is None or upgrade.response is None
    chosen = upgrade.chosen
    if chosen is None:
        return Decision(None, forms, "refused", "ZWS was offered and not chosen", one_sided=one_sided)
    text = f"ZWS 2.0 by one side only: {to_text(chosen.octets)}" if one_sided else f"ZWS 2.0: {to_text(chosen.octets)}"
    findings = [[Finding("ZMTP-CONN-06", detail=text)], list[Finding]()]
    if upgrade.request is not None and chosen.octets not in upgrade.request.offers:
        offers = b", ".join(upgrade.request.offers)
        detail = f"{to_text(chosen.octets)} was chosen, of {to_text(offers)}"
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


def _settle(one: Class, other: Class) -> tuple[Class, Class]:
    """At the end a doubtful side counts as 1.0 only where the other side supports it (wire.md 9.2, guard)."""
    return _settle_side(one, other), _settle_side(other, one)


def _settle_side(side: Class, other: Class) -> Class:
    if side is Class.CUT:
        return Class.OLD if other in _OLD or other in _NEW else Class.ALIEN
    if side is Class.DOUBTFUL:
        return Class.OLD if other is Class.FIRM or other in _NEW else Class.ALIEN
    return side


def _shape(octets: bytes, kind: Class) -> Form:
    """The form one side has by itself, whatever the other side is."""
    if kind in _OLD:
        return Form.FRAMES_1
    if kind is Class.REVISION_3 or (kind is Class.REVISION_2 and _form_3(octets)):
        return Form.GREETING_3 if len(octets) >= GREETING_3_SIZE else Form.PARTIAL_3
    forms = {
        Class.NONE: Form.NOTHING,
        Class.ALIEN: Form.ALIEN,
        Class.SIGNATURE: Form.SIGNATURE,
        Class.REVISION_0: Form.VERSIONED_1,
        Class.REVISION_1: Form.GREETING_2,
        Class.REVISION_2: Form.GREETING_2,
    }
    return forms.get(kind, Form.WAIT)


def _are_settled(first: bytes, second: bytes, classes: tuple[Class, Class]) -> bool:
    """Where no version will be in force each side is shown as what it is, so that has to be certain too."""
    return _is_settled(first, classes[0]) and _is_settled(second, classes[1])


def _is_settled(octets: bytes, kind: Class) -> bool:
    """Whether no further octet can change the form that a side has by itself."""
    if kind is Class.REVISION_3:
        return len(octets) >= GREETING_3_SIZE
    if kind is Class.REVISION_2:
        return len(octets) > 12 and (not _form_3(octets) or len(octets) >= GREETING_3_SIZE)
    return kind in (Class.ALIEN, Class.FIRM, Class.REVISION_0, Class.REVISION_1)


def _shapes(first: bytes, second: bytes, classes: tuple[Class, Class]) -> tuple[Form, Form]:
    return _shape(first, classes[0]), _shape(second, classes[1])


def _announced(octets: bytes, kind: Class) -> str:
    """What one side announces, for people."""
    if kind in _OLD:
        return "1.0"
    if kind is Class.REVISION_1 or (kind is Class.REVISION_2 and not _form_3(octets)):
        return "2.0"
    return f"{octets[10]}.{octets[11]}" if len(octets) > 11 else f"{octets[10]}"


def _agreed(
    version: str, forms: tuple[Form, Form], text: str, confidence: str = "proven", outcome: str = "agreed"
) -> Decision:
    decided = Finding("ZMTP-CONN-06", detail=text)
    return Decision(version, forms, outcome, text, ((decided,), ()), confidence=confidence)


@lru_cache(maxsize=256)
def _agreed_3(first: bytes, second: bytes) -> Decision:
    """3.x, by the two version octets of both sides."""
    version = f"3.{min(_minor(*first), _minor(*second))}"
    text = f"ZMTP {version}; announced {first[0]}.{first[1]} and {second[0]}.{second[1]}"
    return _agreed(version, (Form.GREETING_3, Form.GREETING_3), text)


def _minor(major: int, minor: int) -> int:
    """The minor a 3.x side counts for: what is newer than 3.1 is treated as 3.1."""
    return 1 if major > 3 else min(minor, 1)


def _unknown(first: bytes, second: bytes, classes: tuple[Class, Class]) -> Decision:
    findings = tuple((Finding("ZMTP-CONN-04", 0, 1),) if kind is Class.ALIEN else () for kind in classes)
    return Decision(
        None,
        _shapes(first, second, classes),
        "unknown",
        "not ZMTP" if classes[0] is classes[1] else "one side does not speak ZMTP",
        (findings[0], findings[1]),
    )


def _with_old(first: bytes, second: bytes, classes: tuple[Class, Class]) -> Decision | None:
    """At least one side has sent a 1.0 frame: 1.0, once the other side or a second frame confirms it."""
    one, other = classes
    if one in _OLD and other in _OLD:
        return _agreed_1(Form.FRAMES_1, Form.FRAMES_1) if Class.FIRM in classes else None
    if one in _NEW:
        return (
            _agreed_1(Form.PSEUDO_SIGNATURE, Form.FRAMES_1)
            if padding_of(first)
            else _refused_1(first, second, classes, 0)
        )
    if other in _NEW:
        return (
            _agreed_1(Form.FRAMES_1, Form.PSEUDO_SIGNATURE)
            if padding_of(second)
            else _refused_1(first, second, classes, 1)
        )
    return None


def _agreed_1(one: Form, other: Form) -> Decision:
    names = {Form.FRAMES_1: "1.0", Form.PSEUDO_SIGNATURE: "newer"}
    return _agreed("1.0", (one, other), f"ZMTP 1.0; the sides are {names[one]} and {names[other]}", "likely")


def _refused_1(first: bytes, second: bytes, classes: tuple[Class, Class], newer: int) -> Decision:
    finding = (Finding("ZMTP-CONN-07", 1, 8),)
    return Decision(
        None,
        _shapes(first, second, classes),
        "failed",
        "a side that wants nothing older than 2.0 met a 1.0 side",
        ((), finding) if newer else (finding, ()),
    )


def _versioned(first: bytes, second: bytes, classes: tuple[Class, Class]) -> Decision | None:
    """Both sides have sent a version octet (wire.md 9.3, rows R0, R1, R3)."""
    if Class.REVISION_0 in classes:
        text = "1.0 frames behind versioned greetings"
        return _agreed("1.0", (Form.VERSIONED_1, Form.VERSIONED_1), text, outcome="1.0 frames")
    one, other = (_side_form(octets, kind) for octets, kind in zip((first, second), classes, strict=True))
    if one is None or other is None:
        return None
    if one == other == 3:
        return _agreed_3(first[10:12], second[10:12]) if len(first) > 11 and len(second) > 11 else None
    if one == other == 2:
        text = f"ZMTP 2.0; announced {_announced(first, classes[0])} and {_announced(second, classes[1])}"
        return _agreed("2.0", (Form.GREETING_2, Form.GREETING_2), text)
    finding = (Finding("ZMTP-CONN-07", 11, 53),)
    return Decision(
        None,
        _shapes(first, second, classes),
        "failed",
        "a 3.x side did not wait for the version of the other, which is 2.0",
        (finding, ()) if one == 3 else ((), finding),
    )


def _side_form(octets: bytes, kind: Class) -> int | None:
    """2 or 3: the form a side that faces 2.0 or revision 2 speaks; None while octet 12 is needed and missing."""
    if kind is Class.REVISION_1:
        return 2
    form_3 = _form_3(octets)
    return None if form_3 is None else 3 if form_3 else 2


def _at_the_end(first: bytes, second: bytes, classes: tuple[Class, Class]) -> Decision:
    """The octets are over and the table is undecided: report by the most advanced side (wire.md 9.3)."""
    one, other = classes
    if one in _OLD or other in _OLD:
        decision = _agreed_1(Form.FRAMES_1, Form.FRAMES_1)
        forms = _shapes(first, second, classes)
        one_sided = Class.NONE in classes
        return Decision("1.0", forms, "agreed", decision.text, decision.findings, one_sided, "guess")
    if Class.NONE in classes:
        alone = _one_side(first or second)
        if alone is not None:
            return alone if first else _mirrored(alone)
    lead = _most_advanced(classes)
    octets = (first, second)[lead]
    outcome, text = _report(octets, classes[lead])
    forms = _shapes(first, second, classes)
    cut = tuple(
        () if _is_whole(each, form) else (Finding("ZMTP-CONN-03"),)
        for each, form in zip((first, second), forms, strict=True)
    )
    return Decision(None, forms, outcome, text, (cut[0], cut[1]), Class.NONE in classes)


def _is_whole(octets: bytes, form: Form) -> bool:
    """Whether a side has sent all of its greeting, or nothing of one."""
    if form is Form.GREETING_2:
        return len(octets) > 13 and len(octets) >= 14 + octets[13]
    return form in (Form.NOTHING, Form.GREETING_3)


def _most_advanced(classes: tuple[Class, Class]) -> int:
    """The side to report by: revision 1 decides over 3.x, because a 3.x side would follow it."""
    if Class.REVISION_1 in classes:
        return classes.index(Class.REVISION_1)
    return int(classes[1] > classes[0])


def _report(octets: bytes, kind: Class) -> tuple[str, str]:
    if kind is Class.REVISION_1 or (kind is Class.REVISION_2 and _form_3(octets) is False):
        return "refused", "2.0 announced, refused"
    if kind in (Class.REVISION_2, Class.REVISION_3):
        announced = f"{octets[10]}.{octets[11]}" if len(octets) > 11 else f"{octets[10]}, minor unknown"
        return "not agreed", f"{announced} announced, not agreed"
    return {
        Class.NONE: ("none", "no ZMTP octets"),
        Class.SIGNATURE: ("signature only", "signature only: newer than 1.0"),
        Class.REVISION_0: ("not agreed", "revision 0 announced, not agreed"),
    }.get(kind, ("undecided", "too few octets to tell the version"))


def _one_side(octets: bytes) -> Decision | None:
    """Only one side was captured: octet 12 decides (wire.md 9.3, "One direction only")."""
    if classify(octets) not in _NEW:
        return None
    if _is_greeting_3(octets):
        version, form = f"3.{_minor(octets[10], octets[11])}", Form.GREETING_3
    elif len(octets) > 13 and 1 <= octets[10] <= 3 and octets[11] <= 0x0B and octets[12] == 0:
        version, form = "2.0", Form.GREETING_2
    elif 1 <= padding_of(octets) <= 256 and _holds_frames_1(octets, 9 + padding_of(octets)):
        version, form = "1.0", Form.PSEUDO_SIGNATURE
    else:
        return None
    text = f"ZMTP {version} by one side only"
    findings = (Finding("ZMTP-CONN-06", detail=text),)
    return Decision(version, (form, Form.NOTHING), "agreed", text, (findings, ()), True, "likely")


def _is_greeting_3(octets: bytes) -> bool:
    """Whether this is a 3.x greeting by itself: a legal mechanism, or an empty one with nothing but zeros behind it."""
    if len(octets) < 33 or octets[10] < 3:
        return False
    name, _, behind = octets[12:32].partition(b"\0")
    if not name:
        return len(octets) >= GREETING_3_SIZE and not any(octets[12:GREETING_3_SIZE])
    return octets[32] <= 1 and not behind.strip(b"\0") and not name.strip(MECHANISM_CHARACTERS)


def _holds_frames_1(octets: bytes, at: int) -> bool:
    """Whether at least one whole 1.0 frame begins at `at`, and none that the guard refuses."""
    whole = 0
    while (header := _header_1(octets, at)) is not None:
        if header.length == 0 or header.length > 2**31 or header.flags not in FLAGS_1:
            return False
        at = header.stop
        whole += at <= len(octets)
    return whole > 0


def _are_frames_1(octets: bytes) -> bool:
    """Whether these octets are whole 1.0 frames, whatever their flags: what is not 1.0 soon has a length of 0."""
    at = 0
    while at < len(octets):
        header = _header_1(octets, at)
        if header is None or header.length == 0:
            return False
        at = header.stop
    return at == len(octets)


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
