"""Format diagnoses as JUnit XML and as SARIF 2.1.0 (OASIS).

In JUnit XML each rule is a test, and each of its diagnoses a failure. Code hosts and editors show SARIF beside files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import orjson

from zmtpscope.diagnosis.diagnosis import FAILING, Diagnosis, Evidence, Explained, Rule
from zmtpscope.export.diagnosis.report import flat, packet, sentence
from zmtpscope.export.safe_text import safe_text
from zmtpscope.version import __version__

SUITE = "zmtpscope check"


def junit_xml(found: Sequence[Explained], rules: Iterable[Rule]) -> bytes:
    """Return diagnoses as JUnit XML in UTF-8.

    Errors and warnings are failures; other diagnoses are output of their test.
    """
    suite = ElementTree.Element("testsuite", name=SUITE)
    diagnoses, failures, tests = flat(found), 0, 0
    for rule in rules:
        of_rule = [each for each in diagnoses if each.rule == rule.id]
        if not of_rule:
            tests += 1
            ElementTree.SubElement(suite, "testcase", classname=SUITE, name=rule.id)
        for diagnosis in of_rule:
            tests += 1
            name = safe_text(f"{rule.id}: {diagnosis.subject}")
            case = ElementTree.SubElement(suite, "testcase", classname=SUITE, name=name)
            if diagnosis.severity in FAILING:
                failures += 1
                message = safe_text(diagnosis.text)
                ElementTree.SubElement(case, "failure", type=diagnosis.severity, message=message).text = sentence(
                    diagnosis
                )
            else:
                ElementTree.SubElement(case, "system-out").text = sentence(diagnosis)
    suite.set("tests", str(tests))
    suite.set("failures", str(failures))
    ElementTree.indent(suite)
    octets: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return octets + b"\n"


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warn": "warning", "note": "note", "chat": "note"}


def sarif_json(found: Sequence[Explained], rules: Iterable[Rule]) -> bytes:
    """Return diagnoses as SARIF. Each location is a capture file with the packet of one piece of evidence."""
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
