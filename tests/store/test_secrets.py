"""Passwords stay hidden when octets are read again from their file."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.export.test_secrets_of_payloads import OPTIONS, SENT, WORD, octets_of, registry
from tests.readings import CAPTURES
from tests.store.stores import opened
from tests.suites import some
from tests.traffic import Capture
from zmtpscope.dissect import Analyser, DecodeAs, Options
from zmtpscope.filter import Filter
from zmtpscope.store import Store


def shown(what: str, size: int, **given: Any) -> list[bytes]:
    forced = (DecodeAs("udp.port", 5556),)
    options = Options(payloads=registry(), frames=True, decode_as=forced, index=True, **given)
    store = Store(options)
    for batch in Analyser(options).run(Capture(SENT[what](), size)):
        store.append(batch)
    found = []
    for row in range(len(store)):
        details = "".join(store.detail(row)).encode()
        found.append(b"\n".join((octets_of(store.row(row)), details, store.octets(row), str(store.line(row)).encode())))
    assert store.problem is None
    return found


@pytest.mark.parametrize("size", [1, 1 << 30], ids=["packet by packet", "one block"])
@pytest.mark.parametrize(("what", "how"), some(product(SENT, OPTIONS), 3))
def test_passwords_are_hidden_when_octets_are_read_again(what: str, how: str, size: int) -> None:
    hexadecimal = " ".join(f"{octet:02x}" for octet in WORD[:3]).encode()
    for octets in shown(what, size, **OPTIONS[how]):
        assert WORD[:5] not in octets
        assert hexadecimal not in octets


@pytest.mark.parametrize("show_secrets", [False, True])
def test_passwords_of_commands_are_starred_in_octets_and_trees(show_secrets: bool) -> None:
    options = Options(index=True, show_secrets=show_secrets)
    store, _ = opened(CAPTURES / "security" / "plain-accepted.pcap", options)
    (row,) = store.select(Filter("name == HELLO"))
    (detail,) = store.details(int(row))
    values = {leaf.name: leaf.value for leaf in detail.tree.leaves()}
    assert (b"s3cret" in store.octets(int(row))) == (b"s3cret" in detail.octets) == show_secrets
    assert ("***" in values.values()) == (not show_secrets)
    assert any(value in ("s3cret", b"s3cret") for value in values.values()) == show_secrets


def test_secrets_are_shown_on_request() -> None:
    assert any(WORD in octets for octets in shown("ZAP", 1, show_secrets=True))
