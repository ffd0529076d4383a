"""Select a dissector for each message of one side of a connection, and call it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from zmtpscope.payloads.api import About, Claim, Message, Payload
from zmtpscope.payloads.dissected import Dissected, Opened
from zmtpscope.payloads.dissectors import JSON, TEXT, Dissector
from zmtpscope.payloads.limits import Allowance, Budget, Limit, checked
from zmtpscope.payloads.reader import Malformed, Reader
from zmtpscope.payloads.registry import Interrupted, Registry, words_of
from zmtpscope.payloads.shapes import Candidates, shapes_of
from zmtpscope.payloads.values import as_summary, shortened

MAX_UNCLAIMED = 256
"""Consecutive messages that only the text dissector claims; afterwards the side is not examined any more."""


class Named(NamedTuple):
    """A dissector that the user selected with `-d SELECTOR,zmtp:NAME/ARGUMENT`. `topic` None: for all messages."""

    name: str
    argument: str | None = None
    topic: bytes | None = None


class SidePayloads:
    """Calls dissectors for the messages of one side, in order.

    The dissectors `named` by the user read their messages without a `claim`. `judging`: only findings are wanted, so
    dissectors that report none are asked for claims, but read no messages.
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
        """`wants_all`: whether any dissector gets every message."""
        self.made: dict[str, Payload | None] = {}
        """Dissectors by name; most sides need few. None: could not be created."""
        self.last: Payload | None = None
        """Dissector of the most recent claimed message."""
        self.unclaimed = 0
        """Number of messages since the last claim."""
        self.unreadable = 0
        """Number of messages without text since the last one with text, for the text dissector."""
        self.unheard: list[Payload] = []
        """Dissectors without a `claim` call since the last loss: their next message has `after_loss` set."""
        self.unread: list[Payload] = []
        """Dissectors that have not read a message since the last loss."""
        self.has_lost = False
        """Whether messages were lost, also for dissectors that are created later."""
        self.allowance = Allowance()
        self.forced: dict[bytes | None, Payload] = {}
        """Dissectors that the user named, by topic; None: all other messages."""
        for each in named:
            dissector = registry.dissectors.get(each.name)
            if dissector is not None and (made := registry.make(dissector, each.argument)) is not None:
                self.forced.setdefault(each.topic, made)

    @property
    def left_alone(self) -> bool:
        """Whether only the text dissector is still called, since no other dissector has claimed any recent message."""
        return not self.forced and self.unclaimed > MAX_UNCLAIMED

    @property
    def asks_for_text(self) -> bool:
        """Whether messages that are not plain ASCII are checked for other text."""
        return self.text is not None and not self.judging and self.unreadable <= MAX_UNCLAIMED

    def pass_by(self, count: int) -> None:
        """Count `count` messages that no dissector was called for."""
        self.unclaimed += count

    def dissect(
        self, message: Message, about: About, offsets: Sequence[int], *, is_text: bool = False
    ) -> Dissected | None:
        """Dissect a message; None if no dissector claims it.

        `offsets` are stream offsets of the frame bodies. `is_text`: the message is plain text, so the text dissector is
        not called.
        """
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
        marked = _with_loss(chosen, message, self.unread) if self.has_lost else message
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
        made = read(chosen, marked, reader)
        if chosen.wants_all or self.wants_all:
            self._renew_wants_all()
        return made

    def dissect_at_once(self, candidates: Candidates, octets: bytes, size: int) -> Dissected | None:
        """Dissect a message by its only content frame `octets`; None if that is not possible.

        It is possible if only `candidates` may claim it and one of them has `at_once`. `size` is that of all frames. If
        only findings are wanted and the dissector reports none, the result contains only the name of the dissector.
        """
        if not candidates.quick or (candidates.prefixes and octets.startswith(candidates.prefixes)):
            return None
        only = self._one(candidates.quick[0]) if candidates.is_one else self._quick_dissector(candidates, octets)
        if only is None:
            return None
        if self.judging and candidates.only_claim:
            made = Dissected(only.name) if is_claimed_at_once(only, octets) else None
        else:
            made = result_at_once(only, octets)
            if made is not None:
                self.allowance.earn(size)
        if made is not None:
            self.last, self.unclaimed = only, 0
        return made

    @property
    def recognises_json(self) -> bool:
        """Whether JSON messages may be recognised by their octets alone; report them by `take_json`."""
        return not self.trees and JSON.name not in self.registry.stopped

    def take_json(self, octets: int) -> None:
        """Note that JSON messages were recognised by their octets, without a dissector call.

        The last message of the side is one of them. `octets` is their total size.
        """
        self.last, self.unclaimed = self._one(JSON), 0
        if not self.judging:
            self.allowance.earn(octets)

    def take_claims(
        self, count: int, places: Sequence[int], message: Callable[[int], tuple[Candidates, bytes]]
    ) -> None:
        """Note `count` messages that no dissector needs to read; only the last claim has an effect.

        Only messages at the indexes `places` may be claimed. `message(i)` returns the candidates and the content frame
        of the message `places[i]`.
        """
        low = 0
        while low < count and not self.left_alone:
            high = min(count, low + MAX_UNCLAIMED + 1 - self.unclaimed)  # the side is left alone from here
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
        """Return the last of the messages `first..behind` (`behind` excluded) that is claimed, and the dissectors that
        claim it.

        `message(i)` returns candidates and content frame of message i.
        """
        for which in range(behind - 1, first - 1, -1):
            claiming = self._claiming(*message(which))
            if claiming:
                return which, claiming
        return first, []

    def _sure_among(
        self, claiming: list[Payload], first: int, which: int, message: Callable[[int], tuple[Candidates, bytes]]
    ) -> Payload:
        """Return the dissector of message `which` from those in `claiming`: that of the message before, otherwise the
        first.

        `message(i)` returns candidates and content frame of message i; `first` is the first message.
        """
        before = self.last
        if len(claiming) > 1:
            earlier, others = self._last_claimed(first, which, message)
            before = self._sure_among(others, first, earlier, message) if others else before
        return next((each for each in claiming if each is before), claiming[0])

    def _quick_dissector(self, candidates: Candidates, octets: bytes) -> Payload | None:
        """Return a dissector that claims `octets` and has `at_once`, although there are other candidates; or None."""
        quick = candidates.quick
        names = [each.name for each in quick]
        if self.last is None or self.last.name not in names:
            claiming = self._claiming(candidates, octets)
            surest = next((each for each in claiming if each is self.last), claiming[0] if claiming else None)
            return surest if surest is not None and surest.name in names else None
        return self._one(quick[names.index(self.last.name)])  # no other claim is surer

    def _claiming(self, candidates: Candidates, octets: bytes) -> list[Payload]:
        """Return the candidates that claim a content frame by `claims_at_once`."""
        asked = [self._one(each) for each in candidates.others]
        return [each for each in asked if each is not None and is_claimed_at_once(each, octets)]

    def _named(self, message: Message) -> Payload | None:
        if not self.forced:
            return None
        named = self.forced.get(message.topic) or self.forced.get(None)
        return None if named is None or named.name in self.registry.stopped else named

    def _claimed(self, message: Message, about: About) -> Payload | None:
        """Return the dissector that claims a message, or None; the text dissector is left out.

        The claim YES has priority over MAYBE; then the dissector that needs most frames; then the one that claimed the
        previous message.
        """
        if self.left_alone:
            return None
        best, strength = None, (Claim.NO, 0, False)
        for dissector in self._asked(message, about):
            each = self._one(dissector)
            if each is not None:
                marked = _with_loss(each, message, self.unheard) if self.has_lost else message
                claim = claim_of(each, marked, about), dissector.least_frames, each is self.last
                if claim[0] and claim > strength:
                    best, strength = each, claim
                if each.wants_all or self.wants_all:
                    self._renew_wants_all()
        best = best or self._claimed_behind(message, about)
        self.last = best or self.last
        return best

    def _claimed_behind(self, message: Message, about: About) -> Payload | None:
        for frame in message.bodies[1:]:
            found = self._of_frame(frame, about)
            if found is not None:
                return found
        return None

    def _of_frame(self, octets: bytes, about: About, but: Payload | None = None) -> Payload | None:
        best, strength, message = None, (Claim.NO, False), Message((octets,), 0, None)
        for dissector in self.shapes.of_frame(octets):
            each = self._one(dissector)
            if each is not None and each is not but:
                claim = claim_of(each, message, about), each is self.last
                if claim[0] and claim > strength:
                    best, strength = each, claim
        return best

    def _others_may_judge(self, message: Message) -> bool:
        """Whether a dissector of a later content frame may report findings."""
        return any(each.judges for frame in message.bodies[1:] for each in self.shapes.of_frame(frame))

    def _another(self, but: Payload, reader: Reader) -> Opened:
        """Dissect a frame that does not have the format of `but`, the dissector of the message."""
        found = self._of_frame(reader.frames[0], reader.about, but)
        return Opened(None, "", None) if found is None else _opened(found, reader)

    def _asked(self, message: Message, about: About) -> Sequence[Dissector]:
        """Return the dissectors that may claim a message: those for its shape, and those that need all messages."""
        fitting = self.shapes.asked(message, about.socket_type)
        if not self.wants_all:
            return fitting
        return [each for each in self.dissectors if each in fitting or (self.made.get(each.name) or each).wants_all]

    def _renew_wants_all(self) -> None:
        """Update whether any dissector needs all messages, since creating or calling a dissector can change that."""
        self.wants_all = any((self.made.get(each.name) or each).wants_all for each in self.dissectors)

    def _one(self, dissector: Dissector) -> Payload | None:
        """Return this side's object of a dissector, created at first use; None if it cannot be created or was
        stopped."""
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
    reader.prefix = payload.prefix
    made = read(payload, Message(reader.frames, 0, None), reader)
    return Opened(made.protocol or None, made.summary, made.fields)


def _with_loss(payload: Payload, message: Message, unheard: list[Payload]) -> Message:
    """Return the message with `after_loss` set if `payload` has not been called since messages were lost.

    `unheard` are the dissectors that have not been called since; other dissectors may have received the messages
    between.
    """
    place = next((place for place, each in enumerate(unheard) if each is payload), None)
    after_loss = place is not None
    if place is not None:
        del unheard[place]
    return message if message.after_loss == after_loss else message._replace(after_loss=after_loss)


def claim_of(payload: Payload, message: Message, about: About) -> Claim:
    """Call `claim` of a dissector; NO if it raises."""
    try:
        claim = payload.claim(message, about)
        return claim if type(claim) is Claim else Claim(claim)
    except (Exception, SystemExit, Interrupted):  # third-party code may raise anything
        return Claim.NO


def is_claimed_at_once(payload: Payload, octets: bytes) -> bool:
    try:
        return bool(payload.claims_at_once(octets))
    except (Exception, SystemExit, Interrupted):
        return False


def result_at_once(payload: Payload, octets: bytes) -> Dissected | None:
    """Call `at_once` of a dissector; None if it needs the whole message, or raises."""
    try:
        done = payload.at_once(octets)
        if done is None:
            return None
        summary, fields = done
        if not is_ours(type(payload).__module__):
            fields = checked(fields)
        return Dissected(_name_of(payload), as_summary(summary), None if fields == {} else fields)
    except (Exception, SystemExit, Interrupted):
        return None


def read(payload: Payload, message: Message, reader: Reader) -> Dissected:
    """Dissect a message. Exceptions of the dissector become the finding PAYLOAD-01."""
    try:
        summary = read_whole(payload, message, reader)
        fields = reader.fields if is_ours(type(payload).__module__) else checked(reader.fields)
    except (Exception, SystemExit, Interrupted) as error:
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
    """Call `dissect`; return the summary, or the reason why the dissector stopped early."""
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
    """Whether the module belongs to zmtpscope, so that fields have types that all output formats support."""
    return module.startswith("zmtpscope.")


def _name_of(payload: Payload) -> str:
    """Return the name of a dissector as a plain str, since it may be an enum member, for example."""
    return str.__str__(payload.name)


def _place(reader: Reader) -> tuple[int, int]:
    if reader.source or reader.frame >= len(reader.offsets):
        return reader.outer_span()
    return reader.offset, 0
