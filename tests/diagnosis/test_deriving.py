"""Derived records are records like others: written on request, found by filters, in tables of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import zmtpscope
from tests.readings import run
from zmtpscope.diagnosis.derivation import OBSERVERS
from zmtpscope.diagnosis.observers.observer import Observer

LOGIN = "security/plain-refused-4.3.5.pcap"


def _records(*arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("read", "--json", *arguments).stdout.splitlines()]


def test_derived_records_are_written_on_request(captures: Path) -> None:
    path = str(captures / LOGIN)
    plain, derived = _records(path), _records("--derived", path)
    kinds = {record["record"] for record in derived} - {record["record"] for record in plain}
    assert "diagnosis" in kinds
    assert [record for record in derived if record["record"] not in kinds] == plain


def test_a_filter_that_holds_of_derived_records_only_asks_for_them(captures: Path) -> None:
    (record,) = _records("-Y", "rule == login-refused", str(captures / LOGIN))
    assert record["record"] == "diagnosis"


@pytest.mark.parametrize("format_", ["jsonl", "csv", "parquet"])
def test_derived_records_are_tables(captures: Path, tmp_path: Path, format_: str) -> None:
    select = ("--select", "diagnosis:rule,text,evidence", "--select", "delivery")
    assert run("export", "-o", str(tmp_path), "--format", format_, *select, str(captures / LOGIN)).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"diagnoses.{format_}", f"deliveries.{format_}"}
    assert (tmp_path / f"diagnoses.{format_}").stat().st_size > 0


def test_python_has_them_as_objects(captures: Path) -> None:
    diagnosis, *_ = zmtpscope.read(captures / LOGIN, zmtpscope.Diagnosis)
    assert diagnosis.rule == "login-refused"
    assert diagnosis.evidence[0].packet == diagnosis.packet


def test_observers_name_the_types_of_the_records_that_they_process() -> None:
    assert {each for each in OBSERVERS if each.types} == {
        each for each in OBSERVERS if each.record is not Observer.record
    }
