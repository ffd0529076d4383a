"""The payloads of one side of a connection: who claims its messages, and what they make of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from zmtpscope.payloads.api import About, Claim, Message, Payload
from zmtpscope.payloads.cursor import Malformed
from zmtpscope.payloads.dissected import Dissected, Opened
from zmtpscope.payloads.dissectors import JSON, TEXT, Dissector
from zmtpscope.payloads.limits import Allowance, Budget, Limit, checked
from zmtpscope.payloads.reader import Reader
from zmtpscope.payloads.registry import Interrupted, Registry, words_of
from zmtpscope.payloads.shapes import Candidates, shapes_of
from zmtpscope.payloads.values import as_summary, shortened

MOST_UNCLAIMED = 256
"""When nobody but the dissector of text has claimed so many messages one after the other, the side is left alone."""


class Named(NamedTuple):
    """The dissector that the user named, `-d SELECTOR,zmtp:NAME/ARGUMENT`; `topic` None means all messages."""

    name: str
    argument: str | None = None
    topic: bytes | None = None


class SidePayloads:
    """Asks the dissectors of `registry` about the messages of one side, in their order.

    Those that are `named` read what they are named for, whatever that looks like. `judging`: only findings are wanted,
    so who has none is asked, but reads nothing.
    """

    def __init__(
        self,
        registry: Registry,
        named: Sequence[Named],
        *,
        trees: bool = False,
        judging: bool = False,
        show_secrets: bool = False,
    ) -> None:
        self.registry = registry
        self.trees = trees
        self.show_secrets = show_secrets
        self.judging = judging
        self.dissectors, self.text, self.shapes, self.wants_all = registry.asked()
        """Who is asked; whether some dissector is to be asked about every message changes."""
        self.made: dict[str, Payload | None] = {}
        """Those of them that were asked so far, by name: most sides need few. None: it cannot be made."""
        self.last: Payload | None = None
        """Who claimed the last message that anybody claimed."""
        self.unclaimed = 0
        """Messages since the last claim."""
        self.unreadable = 0
        """Messages since the last text among those that the dissector of text was asked about."""
        self.unheard: list[Payload] = []
        """Who has claimed nothing since messages were last missing; whoever is asked next hears of it."""
        self.unread: list[Payload] = []
        """Likewise who has read nothing."""
        self.has_lost = False
        """Messages were missing at some time: who is made later hears of it."""
        self.allowance = Allowance()
        self.forced: dict[bytes | None, Payload] = {}
        """By topic; None: all other messages."""
        for each in named:
            dissector = registry.dissectors.get(each.name)
            if dissector is not None and (made := registry.make(dissector, each.argument)) is not None:
                self.forced.setdefault(each.topic, made)

    @property
    def left_alone(self) -> bool:
        """Whether nobody but the dissector of text is asked any more."""
        return not self.forced and self.unclaimed > MOST_UNCLAIMED

    @property
    def asks_for_text(self) -> bool:
        """Whether messages that are no plain text are looked at for other text."""
        return self.text is not None and not self.judging and self.unreadable <= MOST_UNCLAIMED

    def pass_by(self, count: int) -> None:
        """So many messages went by about which nobody was asked."""
        self.unclaimed += count

    def dissect(
        self, message: Message, about: About, offsets: Sequence[int], *, is_text: bool = False
    ) -> Dissected | None:
        """What is in a message; None where nobody claims it, or nobody but the dissector of text a message of which it
        is known already that it `is_text`. `offsets` are those of the frames' bodies."""
        if message.after_loss:
            self.has_lost = True
            everybody = [each for each in (*self.made.values(), *self.forced.values()) if each is not None]
            self.unheard, self.unread = everybody, list(everybody)
        chosen = self._named(message) or self._claimed(message, about)
        self.unclaimed = self.unclaimed + 1 if chosen is None else 0
        if chosen is None and not is_text and self.asks_for_text and self.text is not None:
            text = self._one(self.text)
            chosen = text if text is not None and claim_of(text, message, about) else None
            self.unreadable = self.unreadable + 1 if chosen is None else 0
        if chosen is None or (self.judging and not (chosen.judges or self._others_may_judge(message))):
            return None
        heard = _as_heard_by(chosen, message, self.unread) if self.has_lost else message
        self.allowance.earn(sum(map(len, message.frames)))
        reader = Reader(
            chosen.prefix,
            message.frames,
            offsets,
            message.content,
            about,
            trees=self.trees,
            budget=Budget(self.allowance),
            show_secrets=self.show_secrets,
            inner=self._inner,
            others=partial(self._another, chosen),
        )
        made = read(chosen, heard, reader)
        if chosen.wants_all or self.wants_all:
            self._renew_wants_all()
        return made

    def dissect_at_once(self, candidates: Candidates, octets: bytes, size: int) -> Dissected | None:
        """What `dissect` would say of a message of `size` octets whose only content frame is `octets`, where only these
        may claim it, and one of them says all without a reader; None where that takes `dissect`. Where only findings
        are wanted, and it has none, it only says that it claims the message."""
        if not candidates.tellers or (candidates.prefixes and octets.startswith(candidates.prefixes)):
            return None
        only = self._one(candidates.tellers[0]) if candidates.is_one else self._teller(candidates, octets)
        if only is None:
            return None
        if self.judging and candidates.only_claim:
            made = Dissected(only.name) if is_claimed_at_once(only, octets) else None
        else:
            made = told_at_once(only, octets)
            if made is not None:
                self.allowance.earn(size)
        if made is not None:
            self.last, self.unclaimed = only, 0
        return made

    @property
    def tells_json(self) -> bool:
        """Whether messages of JSON may be taken by their octets alone (`take_json`)."""
        return not self.trees and JSON.name not in self.registry.stopped

    def take_json(self, octets: int) -> None:
        """Messages of JSON were found by their octets alone, of so many in all; the last message was one of them."""
        self.last, self.unclaimed = self._one(JSON), 0
        if not self.judging:
            self.allowance.earn(octets)

    def take_claims(
        self, count: int, places: Sequence[int], message: Callable[[int], tuple[Candidates, bytes]]
    ) -> None:
        """Take `count` messages where only findings are wanted, of which those at `places` may be claimed, and that is
        all that can come of them (`Candidates.only_claim`). So it only matters which is the last that is claimed.
        `message` gives the candidates for the one at `places[i]`, and its only content frame."""
        low = 0
        while low < count and not self.left_alone:
            high = min(count, low + MOST_UNCLAIMED + 1 - self.unclaimed)  # up to there the side is not left alone
            first, behind = bisect_left(places, low), bisect_left(places, high)
            which, claiming = self._last_claimed(first, behind, message)
            if claiming:
                self.unclaimed, low = 0, places[which] + 1
                self.last = self._sure_among(claiming, first, which, message)
            self.unclaimed, low = self.unclaimed + high - low, high
        self.unclaimed += count - low

    def _last_claimed(
        self, first: int, behind: int, message: Callable[[int], tuple[Candidates, bytes]]
    ) -> tuple[int, list[Payload]]:
        """The last of the messages `first..behind` (`behind` excluded) that somebody claims, and who does; nobody,
        where there is none."""
        for which in range(behind - 1, first - 1, -1):
            claiming = self._claiming(*message(which))
            if claiming:
                return which, claiming
        return first, []

    def _sure_among(
        self, claiming: list[Payload], first: int, which: int, message: Callable[[int], tuple[Candidates, bytes]]
    ) -> Payload:
        """Who claims message `which`, which all of these may: who has claimed the one before it, else the first."""
        before = self.last
        if len(claiming) > 1:
            earlier, others = self._last_claimed(first, which, message)
            before = self._sure_among(others, first, earlier, message) if others else before
        return next((each for each in claiming if each is before), claiming[0])

    def _teller(self, candidates: Candidates, octets: bytes) -> Payload | None:
        """Which of those that may say at once what octets are claims them, if any does, where there are others."""
        tellers = candidates.tellers
        names = [each.name for each in tellers]
        if self.last is None or self.last.name not in names:
            claiming = self._claiming(candidates, octets)
            surest = next((each for each in claiming if each is self.last), claiming[0] if claiming else None)
            return surest if surest is not None and surest.name in names else None
        return self._one(tellers[names.index(self.last.name)])  # whoever else claims them is no surer

    def _claiming(self, candidates: Candidates, octets: bytes) -> list[Payload]:
        """Which candidates claim a message, where that is all that can come of it."""
        asked = [self._one(each) for each in candidates.others]
        return [each for each in asked if each is not None and is_claimed_at_once(each, octets)]

    def _named(self, message: Message) -> Payload | None:
        """Who reads it because the user said so."""
        if not self.forced:
            return None
        named = self.forced.get(message.topic) or self.forced.get(None)
        return None if named is None or named.name in self.registry.stopped else named

    def _claimed(self, message: Message, about: About) -> Payload | None:
        """Who claims it, but for the dissector of text: who is surest, else wants most frames, else claimed last."""
        if self.left_alone:
            return None
        best, strength = None, (Claim.NO, 0, False)
        for dissector in self._asked(message, about):
            each = self._one(dissector)
            if each is not None:
                heard = _as_heard_by(each, message, self.unheard) if self.has_lost else message
                claim = claim_of(each, heard, about), dissector.least_frames, each is self.last
                if claim[0] and claim > strength:
                    best, strength = each, claim
                if each.wants_all or self.wants_all:
                    self._renew_wants_all()
        best = best or self._claimed_behind(message, about)
        self.last = best or self.last
        return best

    def _claimed_behind(self, message: Message, about: About) -> Payload | None:
        """Who claims the first frame behind the first content frame that anybody claims by itself."""
        for frame in message.bodies[1:]:
            found = self._of_frame(frame, about)
            if found is not None:
                return found
        return None

    def _of_frame(self, octets: bytes, about: About, but: Payload | None = None) -> Payload | None:
        """Who claims one frame as a whole of its format, `but` one who was asked."""
        best, strength, message = None, (Claim.NO, False), Message((octets,), 0, None)
        for dissector in self.shapes.of_frame(octets):
            each = self._one(dissector)
            if each is not None and each is not but:
                claim = claim_of(each, message, about), each is self.last
                if claim[0] and claim > strength:
                    best, strength = each, claim
        return best

    def _others_may_judge(self, message: Message) -> bool:
        """Whether findings may come of a frame behind the first content frame."""
        return any(each.judges for frame in message.bodies[1:] for each in self.shapes.of_frame(frame))

    def _another(self, but: Payload, reader: Reader) -> Opened:
        """Read a frame that is none of the format of `but`, which has claimed the message, by whoever claims it."""
        found = self._of_frame(reader.frames[0], reader.about, but)
        return Opened(None, "", None) if found is None else _opened(found, reader)

    def _asked(self, message: Message, about: About) -> Sequence[Dissector]:
        """Who is asked about a message: those whose shape it has, and those that want all."""
        fitting = self.shapes.asked(message, about.socket_type)
        if not self.wants_all:
            return fitting
        return [each for each in self.dissectors if each in fitting or (self.made.get(each.name) or each).wants_all]

    def _renew_wants_all(self) -> None:
        """Some dissector was made or ran, and may have begun, or ceased, to want all messages."""
        self.wants_all = any((self.made.get(each.name) or each).wants_all for each in self.dissectors)

    def _one(self, dissector: Dissector) -> Payload | None:
        """The one of this side, made when it is first asked; None where it cannot be made."""
        if dissector.name not in self.made:
            made = self.made[dissector.name] = self.registry.make(dissector)
            if made is not None and self.has_lost:
                self.unheard.append(made)
                self.unread.append(made)
            if made is not None and made.wants_all != dissector.wants_all:
                self._renew_wants_all()
        if self.registry.stopped and dissector.name in self.registry.stopped:
            return None
        return self.made[dissector.name]

    def _inner(self, reader: Reader) -> Opened:
        """Read what was packed, by whoever claims it."""
        message = Message(reader.frames, 0, None)
        asked = [each for each in self.registry.dissectors.values() if each.automatic]
        best: tuple[Claim, Payload] | None = None
        shapes = shapes_of(tuple(sorted(asked, key=lambda each: each.name == TEXT)))
        for dissector in shapes.asked(message, reader.about.socket_type):
            made = self.registry.make(dissector)
            if made is None:
                continue
            claim = claim_of(made, message, reader.about)
            if claim is not Claim.NO and (best is None or claim > best[0]):
                best = claim, made
        return Opened(None, "", None) if best is None else _opened(best[1], reader)


def _opened(payload: Payload, reader: Reader) -> Opened:
    """What a dissector finds in the only frame of a reader."""
    reader.prefix = payload.prefix
    made = read(payload, Message(reader.frames, 0, None), reader)
    return Opened(made.protocol or None, made.summary, made.fields)


def _as_heard_by(payload: Payload, message: Message, unheard: list[Payload]) -> Message:
    """The message as a dissector gets it that may have to hear of a loss in front of it, or in front of one that went
    to others."""
    place = next((place for place, each in enumerate(unheard) if each is payload), None)
    after_loss = place is not None
    if place is not None:
        del unheard[place]
    return message if message.after_loss == after_loss else message._replace(after_loss=after_loss)


def claim_of(payload: Payload, message: Message, about: About) -> Claim:
    """What a dissector says of a message; one that fails has said no."""
    try:
        claim = payload.claim(message, about)
        return claim if type(claim) is Claim else Claim(claim)
    except (Exception, SystemExit, Interrupted):  # whatever somebody else's code does
        return Claim.NO


def is_claimed_at_once(payload: Payload, octets: bytes) -> bool:
    """Whether a dissector claims a message of these octets alone; one that fails has said no."""
    try:
        return bool(payload.claims_at_once(octets))
    except (Exception, SystemExit, Interrupted):  # whatever somebody else's code does
        return False


def told_at_once(payload: Payload, octets: bytes) -> Dissected | None:
    """What a dissector says of these octets alone; None where it says nothing, or fails."""
    try:
        done = payload.at_once(octets)
        if done is None:
            return None
        summary, fields = done
        if not is_ours(type(payload).__module__):
            fields = checked(fields)
        return Dissected(_name_of(payload), as_summary(summary), None if fields == {} else fields)
    except (Exception, SystemExit, Interrupted):  # whatever somebody else's code does
        return None


def read(payload: Payload, message: Message, reader: Reader) -> Dissected:
    """Let a dissector read a message, whatever it does."""
    try:
        summary = read_whole(payload, message, reader)
        fields = reader.fields if is_ours(type(payload).__module__) else checked(reader.fields)
    except (Exception, SystemExit, Interrupted) as error:  # whatever somebody else's code does
        detail = f"{payload.name}: {type(error).__name__}: {words_of(error)}"
        reader.note("PAYLOAD-01", *reader.outer_span(), detail=f"{shortened(detail)}, frame {reader.frame}")
        return Dissected("", findings=reader.findings[-1:], secrets=reader.secrets)
    return Dissected(
        protocol=_name_of(payload),
        summary=as_summary(summary),
        fields=fields if fields != {} else None,
        findings=reader.findings,
        nodes=reader.nodes,
        sources=reader.sources,
        secrets=reader.secrets,
    )


def read_whole(payload: Payload, message: Message, reader: Reader) -> str:
    """What a dissector says in one line, or why it came to no end."""
    try:
        summary = payload.dissect(message, reader)
        if not isinstance(summary, str):
            raise TypeError(f"it returned {type(summary).__name__}, not a summary")
        return summary
    except Malformed as problem:
        where = f"octet {reader.position} of frame {reader.frame}"
        reader.note("PAYLOAD-03", *_place(reader), detail=f"{payload.name}, {where}: {problem}")
        return f"malformed at {where}: {problem}"
    except Limit as limit:
        reader.note(limit.id, *_place(reader), detail=f"{payload.name}: {limit.detail}")
        return f"not read to its end: {limit.detail}"
    except RecursionError:
        reader.note("PAYLOAD-05", *_place(reader), detail=f"{payload.name}: nested too deep")
        return "not read to its end: nested too deep"


@cache
def is_ours(module: str) -> bool:
    """Whether what stands there is known to say nothing that an output cannot hold, however it sets its fields."""
    return module.startswith("zmtpscope.")


def _name_of(payload: Payload) -> str:
    """What it calls itself, as text and nothing else: it may be a member of an enum, say."""
    return str.__str__(payload.name)


def _place(reader: Reader) -> tuple[int, int]:
    if reader.source or reader.frame >= len(reader.offsets):
        return reader.outer_span()
    return reader.offset, 0
