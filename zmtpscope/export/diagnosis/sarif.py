"""Diagnoses as SARIF 2.1.0 (OASIS), which code hosts and editors show next to files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Explained, Rule
from zmtpscope.export.diagnosis.words import flat, packet, sentence
from zmtpscope.export.safe_text import safe_text
from zmtpscope.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warn": "warning", "note": "note", "chat": "note"}


def sarif_json(found: Sequence[Explained], rules: Iterable[Rule]) -> bytes:
    """Return the report as JSON. Each location is a capture file with the packet of one piece of evidence."""
    driver = {
        "name": "zmtpscope",
        "version": __version__,
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.title},
                "fullDescription": {"text": rule.explanation},
                "defaultConfiguration": {"level": LEVELS[rule.severity]},
            }
            for rule in rules
        ],
    }
    run = {"tool": {"driver": driver}, "results": list(map(_result, flat(found)))}
    return orjson.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, option=orjson.OPT_INDENT_2) + b"\n"


def _result(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "ruleId": diagnosis.rule,
        "level": LEVELS[diagnosis.severity],
        "message": {"text": sentence(diagnosis)},
        "locations": [_location(each) for each in diagnosis.evidence if each.moment.file is not None],
        "occurrenceCount": diagnosis.count,
        "partialFingerprints": {"ruleAndSubject/v1": safe_text(f"{diagnosis.rule} {diagnosis.subject}")},
        "properties": {"certainty": diagnosis.certainty},
    }


def _location(evidence: Evidence) -> dict[str, Any]:
    moment = evidence.moment
    return {
        "physicalLocation": {"artifactLocation": {"uri": quote(moment.file or "", errors="surrogateescape")}},
        "logicalLocations": [] if moment.packet is None else [{"name": packet(moment), "kind": "packet"}],
        "message": {"text": safe_text(evidence.text)},
    }
