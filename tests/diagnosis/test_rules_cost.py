"""The cost of rules is proportional to the number of connections."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.counting import calls_of
from tests.diagnosis.requesting_traffic import derived_from
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.rules.catalogue import RULES

FEW, MANY = 40, 240


def half_silent(count: int) -> list[Talk]:
    """Clients of one ROUTER that send each half a second; one half of them stops after 5 s."""
    talks = []
    for number in range(count):
        talk = Talk(number, at=number / count, client=2 + number % 200).handshake("DEALER", "ROUTER")
        for _ in range(10 if number % 2 else 40):
            talk.message(CLIENT, b"beat").wait(0.5)
        talks.append(talk)
    return talks


def restarted(count: int) -> list[Talk]:
    """Clients to which a ROUTER sends, and that connect again, after which it sends nothing."""
    talks = []
    for number in range(count):
        old = Talk(2 * number, at=number / count, client=2 + number % 200).handshake("DEALER", "ROUTER")
        for _ in range(10):
            old.message(SERVER, b"update").wait(0.1)
        new = Talk(2 * number + 1, at=3 + number / count, client=2 + number % 200).handshake("DEALER", "ROUTER")
        for _ in range(8):
            new.message(CLIENT, b"alive").wait(1)
        talks += [old.close(), new]
    return talks


def passed_over(count: int) -> list[Talk]:
    """Subscribers of one publisher, half of which stop receiving."""
    talks = []
    for number in range(count):
        talk = Talk(number, at=number / count, client=2 + number % 200, port=5556).handshake("SUB", "PUB")
        talk.command(CLIENT, "SUBSCRIBE", subscription=b"beat")
        for _ in range(15 if number % 2 else 60):
            talk.message(SERVER, b"beat").wait(0.25)
        talks.append(talk)
    return talks


def publishers_stopped(count: int) -> list[Talk]:
    talks = []
    for number in range(count):
        talk = Talk(number, at=number / count, client=2 + number % 200, port=5556).handshake("SUB", "PUB")
        talk.command(CLIENT, "SUBSCRIBE", subscription=b"beat")
        for _ in range(15):
            talk.message(SERVER, b"beat").wait(0.25)
        talks.append(talk.wait(20).command(CLIENT, "SUBSCRIBE", subscription=b"more"))
    return talks


def calls(rule: str, knowledge: Knowledge) -> int:
    """The number of calls of Python functions, generators included, that a rule makes."""
    return calls_of(lambda: list(RULES[rule].find(knowledge)))


@pytest.mark.parametrize("traffic", [half_silent, restarted, passed_over, publishers_stopped])
def test_rules_do_work_in_proportion_to_the_connections(traffic: Callable[[int], list[Talk]]) -> None:
    def work(count: int) -> dict[str, int]:
        derivation, _ = derived_from(*(talk.conversation for talk in traffic(count)), size=1 << 20)
        return {rule: calls(rule, derivation.knowledge()) for rule in RULES}

    few, many = work(FEW), work(MANY)
    factor = 1.4 * MANY / FEW  # sorting takes a little more
    assert {rule: (few[rule], many[rule]) for rule in RULES if many[rule] > factor * few[rule] + 500} == {}
