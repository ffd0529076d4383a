"""Reading captures with the analyser and the derivation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zmtpscope.capture import open_captures
from zmtpscope.capture.captures import Segmenter
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.diagnosis.derivation import Derivation, derived_records
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.diagnosis.diagnosis import Explained
from zmtpscope.dissect import Analyser, Options, Record
from zmtpscope.payloads.registry import Registry


def derive(path: Path) -> tuple[Derivation, list[Record]]:
    """Return the derivation at the end of a capture, and the derived records of single connections."""
    captures, derivation = open_captures([str(path)]), Derivation()
    records = []
    for batch in Analyser(Options(bodies="none", payloads=Registry())).run(captures):
        records += derived_records(derivation.feed(batch))
    return derivation, records


def derive_in_blocks(packets: Iterable[PacketBlock], options: Options) -> tuple[Derivation, list[Record]]:
    analyser, segmenter, derivation = Analyser(options), Segmenter(), Derivation()
    analyser.begin([None])
    batches = [batch for block in packets for batch in analyser.feed(segmenter.feed(block))]
    segmenter.finish()
    batches += analyser.finish()
    return derivation, [record for batch in batches for record in derived_records(derivation.feed(batch))]


def diagnoses(path: Path) -> list[Explained]:
    return diagnose(derive(path)[0].knowledge())
