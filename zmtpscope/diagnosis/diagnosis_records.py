"""Diagnoses as records, for JSON, tables and filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zmtpscope.diagnosis.diagnosis import Diagnosis, Explained
from zmtpscope.diagnosis.observers.observer import derived
from zmtpscope.dissect import Record


def diagnosis_records(found: Sequence[Explained], ordinal: int) -> Iterator[Record]:
    """Yield a record for each diagnosis, followed by its consequences; `ordinal` is the end of the capture."""
    for explained in found:
        cause = explained.diagnosis
        yield _record(cause, None, ordinal)
        for consequence in explained.consequences:
            yield _record(consequence, f"{cause.rule} {cause.subject}", ordinal)


def _record(diagnosis: Diagnosis, because_of: str | None, ordinal: int) -> Record:
    first = diagnosis.evidence[0].moment
    evidence: list[dict[str, Any]] = [
        {"ts_ns": ns, "file": file, "packet": packet, "ref": ref, "text": text}
        for (ns, file, packet), text, ref in diagnosis.evidence
    ]
    return derived(
        "diagnosis",
        ordinal,
        first,
        conn_id=min(diagnosis.conn_ids) if len(diagnosis.conn_ids) == 1 else None,
        rule=diagnosis.rule,
        severity=diagnosis.severity,
        text=diagnosis.text,
        hint=diagnosis.hint,
        subject=diagnosis.subject,
        certainty=diagnosis.certainty,
        evidence=evidence,
        count=diagnosis.count,
        last_ns=diagnosis.last_ns or first.ns,
        because_of=because_of,
    )
