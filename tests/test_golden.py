"""The text that a person sees, word by word. `pytest --update-golden` rewrites it; read the diff before committing."""

from __future__ import annotations

import pathlib

import pytest

from tests.cli.running import Run
from tests.readings import CAPTURES

GOLDEN = pathlib.Path(__file__).parent / "golden"
COMMANDS = {
    "pubsub": "read patterns/pubsub.pcap",
    "late-subscription": "read patterns/late-subscription.pcap",
    "multihop-proxy": "read patterns/multihop-proxy.pcap",
    "heartbeat": "read patterns/heartbeat-both.pcap",
    "radio-dish": "read patterns/radio-dish.pcap",
    "1.0": "read versions/dealerrouter-id-bind2.2.0-conn2.2.0.pcap",
    "2.0-with-3.1": "read versions/pubsub-bind3.2.5-conn4.3.5.pcap",
    "wrong-password": "read security/plain-wrong-password.pcap",
    "curve": "read security/curve-4.3.5.pcap",
    "reserved-flag": "read faults/reserved-flag-80.pcap",
    "server-up-later": "read unreachable/server-up-later.pcap",
    "nobody-there": "read -q unreachable/server-down.pcap unreachable/host-silent.pcap negative/port-scan.pcap",
    "garbage-client": "read faults/garbage-client.pcap",
    "segment-lost": "read damage/one-segment-lost.pcap",
    "midstream": "read damage/midstream-3.0.pcap",
    "two-files": "read patterns/reqrep.pcap network/ipv6.pcap",
    "details": "read -V -x faults/resource-property.pcap",
    "quiet": "read -q --stats public/abazh-dist-sys-zmq.pcap",
    "diagram": "diagram patterns/pubsub.pcap",
    "diagram-broker": "diagram patterns/multihop-proxy.pcap",
    "diagram-heartbeat": "diagram patterns/heartbeat-both.pcap",
    "diagram-holes": "diagram damage/holes.pcap",
    "diagram-mermaid": "diagram patterns/multihop-proxy.pcap --conn 1 --conn 3 --format mermaid",
    "diagram-svg": "diagram security/plain-wrong-password.pcap --format svg",
    "diagram-refused": "diagram security/plain-wrong-password.pcap",
    "json": "read --json security/plain-refused-4.1.8.pcap",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_unchanged(
    name: str, zmtpscope: Run, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CAPTURES)
    code, output, errors = zmtpscope(*COMMANDS[name].split())
    text = output + errors
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert code == 0
    assert text == path.read_text()
