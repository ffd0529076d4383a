"""Diagnoses as JUnit XML: each rule is a test, and each of its diagnoses a failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from zmtpscope.diagnosis.diagnosis import FAILING, Explained, Rule
from zmtpscope.export.diagnosis.words import flat, sentence
from zmtpscope.export.safe_text import safe_text

SUITE = "zmtpscope check"


def junit_xml(found: Sequence[Explained], rules: Iterable[Rule]) -> bytes:
    """Return the report as XML (UTF-8). Errors and warnings are failures; other diagnoses are output of their test."""
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
