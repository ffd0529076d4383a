"""Descriptions of records are short and safe for any data of peers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation
from zmtpscope.dissect import Analyser, MessageTable, Options
from zmtpscope.dissect.records.message_columns import columns_of_table
from zmtpscope.export.describe import describe_command, describe_finding, describe_greeting, describe_leftover
from zmtpscope.export.rows import RowWords
from zmtpscope.records import MASK, empty

LONGEST = 1000
"""Characters that a line may have where a peer does its worst."""


@pytest.mark.parametrize("filler", ["\u3164", "\u115f\u1160", "\uffa0"])
def test_a_mechanism_of_invisible_letters_is_escaped(filler: str) -> None:
    assert filler.isalnum()
    values = empty("greeting") | {"version_announced": "3.1", "mechanism": f"NULL{filler}", "length": 64}
    assert filler not in describe_greeting(values)


def test_a_greeting_that_was_given_up_has_its_length() -> None:
    values = empty("greeting") | {"form": "greeting-3x-partial", "length": 11}
    assert describe_greeting(values) == "GREETING 3.x incomplete, 11 of 64 octets"
    assert describe_greeting(values | {"length": 10}) == "GREETING signature only"


def test_leftovers_are_counted_without_octets_of_other_records() -> None:
    values = empty("leftover") | {"kind": "undissected", "reason": "not ZMTP", "offset": 5, "length": 900, "bytes": 20}
    assert describe_leftover(values) == "20 octets not understood at offset 5 (not ZMTP)"


def test_a_misspelt_command_has_its_spelling() -> None:
    hello = empty("command") | {"name": "HELLO", "username": "ada", "password": MASK, "mangled": True}
    assert describe_command(hello) == 'HELLO user "ada" password *** (spelt WELCOME on the wire)'
    assert describe_command(empty("command") | {"name": "HULLO", "mangled": True, "length": 9}).endswith(
        "(misspelt on the wire)"
    )


@pytest.mark.parametrize(
    ("reason", "description"),
    [
        ("300", 'ERROR "300" (temporary failure of authentication)'),
        ("400", 'ERROR "400" (authentication refused)'),
        ("500", 'ERROR "500" (internal error of authentication)'),
        ("Go away", 'ERROR "Go away"'),
    ],
)
def test_a_reason_that_is_a_code_is_explained(reason: str, description: str) -> None:
    assert describe_command(empty("command") | {"name": "ERROR", "reason": reason, "length": 20}) == description


def test_a_command_without_a_name_differs_from_an_empty_one() -> None:
    assert describe_command(empty("command") | {"size": 0, "length": 2}) == "empty command"
    assert describe_command(empty("command") | {"size": 30, "length": 32}) == "command without a name 32 octets"


def test_a_thousand_properties_are_counted() -> None:
    metadata = [{"name": f"X-{number}", "value": "v" * 50} for number in range(1000)]
    description = describe_command(empty("command") | {"name": "READY", "metadata": metadata, "length": 60_000})
    assert 'X-0="' in description
    assert "and 992 more" in description
    assert len(description) < LONGEST


def test_a_finding_about_a_very_long_name_is_cut() -> None:
    values = empty("finding") | {"id": "ZMTP3X-META-08", "severity": "error", "text": "Types: " + "A" * 900_000}
    description = describe_finding(values)
    assert description.startswith("error ZMTP3X-META-08 Types: AAA")
    assert len(description) < LONGEST


def test_an_envelope_of_a_thousand_addresses_is_counted() -> None:
    talk = Conversation()
    talk.send(0, hello("REQ") + message(*([b"address"] * 1000), b"", b"question"))
    talk.send(1, hello("ROUTER"))
    (run,) = [run for batch in Analyser(Options()).run(Capture(talk.packets)) for run in batch.messages]
    assert isinstance(run, MessageTable)
    assert np.count_nonzero(run.sizes == 0) == 1
    description = RowWords(columns_of_table(run), Options(), None).describe(0, 0)
    assert 'via "address"' in description
    assert "and 995 more" in description
    assert "question" in description
    assert len(description) < LONGEST
