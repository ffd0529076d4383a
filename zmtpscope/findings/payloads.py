"""What rides inside messages (payload-dissectors.md)."""

from zmtpscope.findings.kinds import FindingKind

KINDS = (
    FindingKind(
        "PAYLOAD-01",
        "warn",
        "payload-dissectors.md, Bad input",
        "A payload dissector failed on this message, whose octets are shown as they are",
        "report it to the author of the dissector, or do without: --payload off",
    ),
    FindingKind(
        "PAYLOAD-02",
        "note",
        "payload-dissectors.md, Limits",
        "What rides in this message is more than is read; its beginning is shown",
    ),
    FindingKind("PAYLOAD-03", "warn", "payload-dissectors.md, Bad input", "What rides in this message is malformed"),
    FindingKind("PAYLOAD-04", "note", "payload-dissectors.md, Findings", "A payload dissector says"),
    FindingKind(
        "PAYLOAD-05",
        "note",
        "payload-dissectors.md, Limits",
        "What rides in this message is nested deeper than is read",
    ),
    FindingKind(
        "PAYLOAD-06",
        "warn",
        "payload-dissectors.md, Limits",
        "What is packed in this message becomes far larger than it; only its beginning was unpacked",
        "whoever unpacks it without a limit may run out of memory",
    ),
    FindingKind(
        "PICKLE-01",
        "warn",
        "payload-dissectors.md, Pickle",
        "A Python pickle: whoever loads it runs what the sender chose",
        "never load pickles from where others can send; use JSON or MessagePack, and CURVE to know who sends",
    ),
    FindingKind(
        "JUPYTER-01",
        "error",
        "payload-dissectors.md, Jupyter",
        "The signature of a Jupyter message is not that of the key that was given",
        "the key is of another kernel, or the message was changed on its way",
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
        "The sequence numbers of a publisher have a gap, so messages were lost or dropped",
        "raise ZMQ_SNDHWM at the publisher or ZMQ_RCVHWM at the subscriber, or read faster",
    ),
    FindingKind(
        "SEQUENCE-02",
        "note",
        "payload-dissectors.md, Sequence numbers",
        "The sequence numbers of a publisher go back",
        "the publisher was started again, or there are two of them",
    ),
)
