"""Findings about payloads (payload-dissectors.md)."""

from zmtpscope.findings.kinds import FindingKind

KINDS = (
    FindingKind(
        "PAYLOAD-01",
        "warn",
        "payload-dissectors.md, Bad input",
        "A payload dissector failed on this message; its octets are shown unchanged",
        "report it to the author of the dissector, or disable it: --payload off",
    ),
    FindingKind(
        "PAYLOAD-02",
        "note",
        "payload-dissectors.md, Limits",
        "The payload exceeds the limit; only its beginning is decoded",
    ),
    FindingKind("PAYLOAD-03", "warn", "payload-dissectors.md, Bad input", "Malformed payload"),
    FindingKind("PAYLOAD-04", "note", "payload-dissectors.md, Findings", "Reported by a payload dissector"),
    FindingKind(
        "PAYLOAD-05",
        "note",
        "payload-dissectors.md, Limits",
        "The payload is nested deeper than the limit",
    ),
    FindingKind(
        "PAYLOAD-06",
        "warn",
        "payload-dissectors.md, Limits",
        "The compressed payload expands far beyond its size; only its beginning was decompressed",
        "a program that decompresses it without a limit may run out of memory",
    ),
    FindingKind(
        "PICKLE-01",
        "warn",
        "payload-dissectors.md, Pickle",
        "Python pickle: loading it runs code chosen by the sender",
        "never load pickles from senders you do not trust; use JSON or MessagePack, and CURVE to authenticate senders",
    ),
    FindingKind(
        "JUPYTER-01",
        "error",
        "payload-dissectors.md, Jupyter",
        "The signature of a Jupyter message does not match the given key",
        "the key belongs to another kernel, or the message was modified",
    ),
    FindingKind(
        "JUPYTER-02",
        "note",
        "payload-dissectors.md, Jupyter",
        "A Jupyter message is not signed, so anyone who can connect can run code in the kernel",
    ),
    FindingKind(
        "SEQUENCE-01",
        "warn",
        "payload-dissectors.md, Sequence numbers",
        "The sequence numbers of a publisher have a gap: messages were lost or dropped",
        "raise ZMQ_SNDHWM at the publisher or ZMQ_RCVHWM at the subscriber, or read faster",
    ),
    FindingKind(
        "SEQUENCE-02",
        "note",
        "payload-dissectors.md, Sequence numbers",
        "The sequence numbers of a publisher decreased",
        "the publisher was restarted, or there are two of them",
    ),
)
