"""Captures in which the nearest host is not to blame: the sentence that names the cause, and no other trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.reading import diagnoses
from zmtpscope.diagnosis.diagnosis import FAILING

BLAMED = Path(__file__).parents[2] / "captures/problems/blamed"

SENTENCES: dict[str, tuple[str, ...]] = {
    "both-connect": (
        "error 10.9.7.2:5556 and 10.9.7.1:5556 connect to each other, and neither binds: 13 and 13 attempts were "
        "refused",
    ),
    "conflate-pub": (
        "warn likely: PUB 10.8.0.1:5575 sends 60 messages of one frame to SUB 10.8.0.2, none of which begins with "
        '"prices": their first frames are lost, as with ZMQ_CONFLATE',
    ),
    "cut-off": (),
    "firewall-reject-icmp": (
        "error A firewall rejects connections to 10.9.7.2:4506 (ICMP destination unreachable): 10.9.7.1 tried 16 times "
        "(20 SYNs) in 10.8 s to reach 10.9.7.2:4506",
    ),
    "hb-ttl-below-interval": (
        "error DEALER 10.9.7.1 sends a PING every 2 s with a TTL of only 600 ms: ROUTER 10.9.7.2:5572 closes the "
        "connection 601 ms after the last sign of life, 4 times in 10.3 s",
    ),
    "hb-ttl-overflow": (
        "error ROUTER 10.9.0.1:8080 sends PINGs with a TTL of 65.6 s, which libzmq up to 4.3.6 wraps to 64 ms: DEALER "
        '"client" 10.9.0.2 closes the connection 65.6 ms after the last sign of life, 4 times in 4.71 s',
    ),
    "healthy-second-viewer": (),
    "incomplete-last-single-frame": (),
    "ipv6-localhost": (
        "error Nothing listens at [::1]:5570: ::1 tried 20 times in 2.8 s to reach [::1]:5570; 127.0.0.1:5570 on the "
        "same host is served",
    ),
    "killed-by-message": (),
    "new-tenant": (
        "error REQ of 10.8.0.2 connects to PUB at 10.8.0.1:5555, and these are incompatible; REP listened there "
        "before, so another program took the port",
    ),
    "one-message-above-limit": (
        "warn likely: PULL 10.9.7.2:5575 resets the connection while PUSH 10.9.7.1 sends a frame of 48000 octets, "
        "which is lost; the largest one that it accepted has 600 octets",
    ),
    "proxy-time-out": (
        "error likely: REP 10.8.0.2:5555 closes 7 connections after 2 s of silence each, 1 with a request open and "
        "the others idle: a timeout on the path, not a server that hangs",
    ),
    "pub-connects-sub-restarts": (),
    "refused-not-zeromq": (),
    "request-above-limit": (
        "warn likely: REP 10.8.0.1:5576 resets the connection while REQ 10.8.0.2 sends a frame of 30003 octets, "
        "which is lost; the largest one that it accepted has 103 octets",
    ),
    "salt-healthy": (),
    "xpub-manual": (),
    "xpub-manual-sub": (),
    "zre-healthy-leaving": (),
    "zre-pure-python-healthy": (
        "error The sequence has a gap, a repeat or goes back: 3 follows 1, from ZRE 872F91 10.77.0.1 to ROUTER "
        "10.77.0.3:41813, and at 2 endpoints more, 22 times in 22.4 s (ZRE-07)",
    ),
    "zre-timewait-reuse": ("warn ZRE node bert at 10.77.0.2:44079 sends no more beacons and sent no goodbye",),
    "subscriber-at-ssh-port": (
        "warn 10.60.0.1:5598 speaks SSH, and 10.60.0.2 connects to it as to ZeroMQ, 9 times in 1.26 s",
    ),
    "healthy-calls-out-of-order": (),
    "listener-queue-full": (
        "error 10.53.0.1:5589 accepts connections and sends nothing; 10.53.0.2 has been waiting for 10.9 s",
    ),
    "one-port-dropped": (
        "error Nothing answers at 10.64.0.1:5614: 10.64.0.2 tried once (7 SYNs) in 7.1 s to reach "
        "10.64.0.1:5614; 10.64.0.1:5613 on the same host answers meanwhile",
    ),
    "port-mapping-without-server": (
        "warn likely: No handshake of 10.46.0.2 with 10.46.0.1:5583 succeeds: 10.46.0.1:5583 closes 0.587 ms after "
        "the greeting of 10.46.0.2, without sending anything, 43 times in 7.4 s",
    ),
    "handshake-timer-on-slow-way": (
        "warn likely: No handshake of 10.49.0.2 with 10.49.0.1:5586 succeeds: 10.49.0.2 closes 1.4 s after "
        "the connection began, while 10.49.0.1:5586 still answers, 6 times in 7.77 s, every 1.54 s",
    ),
    "link-down-at-subscriber": (),
    "reply-without-request-id": (
        "error ROUTER 10.68.0.1:5618 replies to REQ 10.68.0.2 without the request id before the empty "
        "frame (ZMQ_REQ_CORRELATE): the reply is dropped",
    ),
    "proxy-ends-what-is-silent": (
        "warn PUB 10.47.0.4:5584 closes each connection of SUB 10.47.0.2 after 3 s of silence, 3 times",
    ),
    "server-fails-on-a-request": (
        "warn REP 10.72.0.1:5624 left 1.26 ms after REQ 10.72.0.2 had asked it in packet 76; 1.06 s later "
        "REQ 10.72.0.2 asked something else and was answered (and 3 times more, after the same request)",
    ),
    "requests-above-limit": (
        "error likely: REP 10.48.0.1:5585 closes the connection right after a frame of 80000 octets of REQ "
        "10.48.0.2, each of 3 times; the largest one that it accepted has 30000 octets",
    ),
    "client-stays-away": (),
    "router-handover": (
        'warn Two clients are "node-1" at ROUTER 10.33.0.1:5602 at the same time, from 10.33.0.2 and '
        "10.33.0.3: the newer one took over (ZMQ_ROUTER_HANDOVER), and 10.33.0.2:32788 gets nothing since",
    ),
    "server-key-changed": (
        "error likely: 10.61.0.2 has the wrong key of 10.61.0.1:5599, which closes on its HELLO without an ERROR, "
        "44 times in 6.47 s; a handshake from there succeeded 4.64 s before",
    ),
    "one-worker-of-two-stopped": (
        "error REP 10.97.0.3 does not reply to DEALER 10.97.0.1:5808 (for REQ 10.97.0.4, which asked ROUTER "
        "10.97.0.1:5807): the request in packet 151 waits for 8.94 s; 9 more have no reply either; 12 others were "
        "answered, median 0.108 ms",
    ),
    "subscriber-at-web-server": (
        "warn 10.90.0.1:5800 speaks HTTP, and 10.90.0.2 connects to it as to ZeroMQ, 14 times in 1.9 s",
    ),
    "listener-with-tls": (
        "warn likely: No handshake of 10.94.0.2 with 10.94.0.1:5804 succeeds: 10.94.0.1:5804 closes 110 ms after "
        "the greeting of 10.94.0.2, without sending anything, 19 times in 2.58 s",
    ),
}
"""By capture: severity and sentence of each warning and error."""


def test_every_capture_has_its_sentences() -> None:
    assert {path.name.partition(".")[0] for path in BLAMED.glob("*.pcap*")} == SENTENCES.keys()


@pytest.mark.parametrize("name", SENTENCES)
def test_the_cause_is_named_and_nothing_else_is(name: str) -> None:
    (path,) = BLAMED.glob(f"{name}.pcap*")
    found = [each.diagnosis for each in diagnoses(path)]
    statements = tuple(f"{each.severity} {each.statement}" for each in found if each.severity in FAILING)
    assert statements == SENTENCES[name]


@pytest.mark.parametrize(
    "name",
    [
        "cut-off",
        "incomplete-last-single-frame",
        "refused-not-zeromq",
        "salt-healthy",
        "xpub-manual",
        "zre-healthy-leaving",
    ],
)
def test_of_healthy_programs_not_even_a_note_is_made(name: str) -> None:
    (path,) = BLAMED.glob(f"{name}.pcap*")
    assert {each.diagnosis.rule for each in diagnoses(path)} <= {"clear-text"}


def test_queued_messages_of_a_publisher_reach_a_later_subscription() -> None:
    found = {each.diagnosis.rule for each in diagnoses(BLAMED / "pub-connects-sub-restarts.pcap.gz")}
    assert "topic-without-subscriber" not in found


def test_an_xsub_receives_what_a_manual_xpub_maps() -> None:
    found = {each.diagnosis.rule for each in diagnoses(BLAMED / "xpub-manual-sub.pcapng.gz")}
    assert "topic-without-subscriber" not in found
