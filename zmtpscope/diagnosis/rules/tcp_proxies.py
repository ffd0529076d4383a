"""TCP proxies: headers that they send before ZMTP and ZeroMQ does not know, and requests that they refuse."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import repeated, server_name
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.rules.from_findings import with_finding
from zmtpscope.grouping import grouped

HEADER, REFUSED = "ZMTP-CONN-17", "ZMTP-CONN-19"


def _headers(knowledge: Knowledge) -> Iterator[Diagnosis]:
    failed = (each for each in with_finding(knowledge, HEADER) if not is_agreed(each.connection))
    for ends, met in grouped((each.connection.ends, each) for each in failed).items():
        connection, finding = met[0]
        header = finding.detail.partition(" for ")[0]
        yield Diagnosis.of(
            "proxy-header",
            "error",
            ends.name,
            f"{ends.client} sends a {header} header before ZMTP to {server_name(connection)}, which does not know it: "
            f"no handshake succeeds{repeated([each.finding.moment.ns for each in met])}",
            finding.hint or "",
            evidence=(Evidence.of(each) for _, each in met[:MAX_EVIDENCE]),
            about=met,
            last_ns=met[-1].connection.last_ns,
        )


def _refusals(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for finding in knowledge.findings:
        if finding.id == REFUSED and finding.ends is not None:
            text = finding.detail
            yield Diagnosis.of(
                "proxy-refuses",
                "warn" if finding.severity == "warn" else "note",
                finding.ends.name,
                text[:1].upper() + text[1:],
                finding.hint or "",
                evidence=(Evidence(finding.moment, "the first request that it refused", finding.ref),),
                count=finding.times,
            )


TABLE = (
    Rule(
        "proxy-header",
        "error",
        "A proxy sends a header before ZMTP",
        "A client connection begins with a header of the PROXY protocol (version 1 or 2), and its handshake does not "
        "succeed. HAProxy (send-proxy), nginx (proxy_protocol) and load balancers send this header if configured to. "
        "libzmq takes the header for the identity of a ZMTP 1.0 peer, and waits for more.",
        "A handshake succeeds after such a header: the server supports it.",
        _headers,
        ("handshake-timeout", "reconnect-storm"),
    ),
    Rule(
        "proxy-refuses",
        "warn",
        "A proxy does not connect a client",
        "A proxy (SOCKS 4 or 5, HTTP CONNECT) answered that it does not connect a client to its target. To exclude "
        "other protocols, the rule applies only if the proxy relays ZMTP for that client, or if the client retries at "
        "least three times less than a second apart, as ZeroMQ clients do. A note if the proxy connected the client "
        "later.",
        "Nothing shows that the client speaks ZMTP.",
        _refusals,
    ),
)
