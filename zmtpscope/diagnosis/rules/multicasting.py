"""Rules for datagrams to a multicast group without members."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule

NO_MEMBER = "RADIO-UDP-02"


def _without_members(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for finding in knowledge.findings:
        if finding.id == NO_MEMBER and finding.endpoint is not None:
            yield Diagnosis.of(
                "multicast-group-mismatch",
                "warn",
                address(finding.endpoint),
                finding.text.partition(": ")[2] + ": no host joins the group that is sent to",
                finding.hint or "",
                evidence=(Evidence(finding.moment, "the first datagram", finding.ref),),
                count=finding.times,
                proven=False,
            )


TABLE = (
    Rule(
        "multicast-group-mismatch",
        "warn",
        "Sender and receiver use different multicast groups",
        "RADIO messages or ZRE beacons are sent to a multicast group that no host joined or left (IGMP, MLD), and "
        "another host joined a group that differs in one or two octets and receives nothing. Likely only: a member "
        "that joined before the capture is not visible, unless a router queries.",
        "A host joins or leaves the group of the datagrams, or the joined group receives datagrams.",
        _without_members,
    ),
)
