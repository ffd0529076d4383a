"""All rules: a new one is a row of the table of its module. `check --explain RULE` prints what stands in it."""

from zmtpscope.meaning.diagnosis import Rule
from zmtpscope.meaning.rules import (
    answering,
    breaking_off,
    capturing,
    connecting,
    contents,
    delimiters,
    handshaking,
    heartbeating,
    leaving,
    limiting,
    losing,
    matching,
    pairing,
    promising,
    proxies,
    receiving,
    refusing,
    requesting,
    securing,
    sharing,
    slowing,
    strangers,
    subscribing,
    unexplained,
)

TABLES = (
    connecting.TABLE,
    contents.TABLE,
    delimiters.TABLE,
    promising.TABLE,
    heartbeating.TABLE,
    matching.TABLE,
    proxies.TABLE,
    receiving.TABLE,
    refusing.TABLE,
    handshaking.TABLE,
    breaking_off.TABLE,
    pairing.TABLE,
    limiting.TABLE,
    requesting.TABLE,
    losing.TABLE,
    answering.TABLE,
    sharing.TABLE,
    slowing.TABLE,
    subscribing.TABLE,
    leaving.TABLE,
    securing.TABLE,
    strangers.TABLE,
    capturing.TABLE,
    unexplained.TABLE,
)

RULES: dict[str, Rule] = {rule.id: rule for table in TABLES for rule in table}
"""By id, in the order in which their diagnoses are looked for."""
