"""Problems as users met them: the sentence that names the cause, and no other warning or error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.reading import diagnoses
from zmtpscope.diagnosis.diagnosis import FAILING

REPORTED = Path(__file__).parents[2] / "captures/problems/reported"

SENTENCES: dict[str, tuple[str, ...]] = {
    "bluesky-sub-at-inport": (
        "error likely: 10.77.0.2 closes when SUB 10.77.0.1:5577 announces its type: their socket types are "
        "incompatible",
    ),
    "broker-worker-stopped": (
        'warn likely: DEALER "calc" 127.0.0.1 does not reply to ROUTER 127.0.0.1:5560: the last 28 calls (c2, c1) have '
        "no reply for 19.5 s; the 46 before had one; so 2 callers of ROUTER 127.0.0.1:5560 wait too",
        'warn likely: DEALER "calc" 127.0.0.1 sent nothing after packet 533, for 20 s, though ROUTER 127.0.0.1:5560 '
        "sent about 30 messages since; its longest pause before was 509 ms",
    ),
    "aiozmq-handler-blocks": (
        "note likely: ROUTER 10.77.0.1:6100 sent nothing for 20.1 s after packet 91, though DEALER 10.77.0.2 sent 4 "
        "messages meanwhile; its next longest pause was 4.01 s; the same on 1 other connection",
    ),
    "bitcoin-seq": (
        "warn SUB 10.9.0.2 does not read the data of PUB 10.9.0.1:28332: its receive window was closed for 1.25 s "
        "in 4 stretches; messages to it were dropped: their sequence numbers have 10 gaps since",
        "warn The sequence numbers of messages between PUB 10.9.0.1:28332 and SUB 10.9.0.2 have gaps: topic "
        "hashtx: from 33 to 43, 9 missing, 10 times in 952 ms",
    ),
    "circusctl-at-pubsub": (
        "error DEALER of 127.0.0.1 connects to PUB at 127.0.0.1:5556, and these are incompatible, 4 times in 7.01 s",
    ),
    "address-moves": (
        "note ROUTER 10.9.0.9:5558 no longer knows its connection with DEALER 10.9.0.1, and resets it; they "
        "reconnected 184 ms later",
    ),
    "curve-server-connects": (
        "error 10.9.0.1 refuses 10.9.0.2:5557: 400, the key or the address of the client was refused, 5 times in "
        "2.36 s",
    ),
    "websocket-refused": (
        "note No handshake of 10.9.0.1 with 10.9.0.2:8080 succeeds: 10.9.0.2:8080 refuses to open a WebSocket for "
        "ZeroMQ",
    ),
    "clock-back": ("note The clock of the capture went back: packet 111 is stamped 3600.0 s before an earlier one",),
    "clock-one-inversion": (
        "note The clock of the capture went back: packet 24 is stamped 1 us before an earlier one, and 1 more by at "
        "most that much",
    ),
    "executorlib-healthy": (),
    "fin-wait2": (
        "warn PULL 10.9.0.1:42117 does not close its side of 6 connections with PUSH 10.9.0.2, whose first FIN its "
        "system acknowledged 3.1 s before the capture ended; it goes on with others",
    ),
    "half-open-late-subscriber": (
        "error PUB 10.77.0.1:5106 acknowledges no data of SUB 10.77.0.2 since packet 113: sent again 5 times in 6.22 s",
        "note SUB 10.77.0.2 reconnected to PUB 10.77.0.1:5106 4.26 s before PUB 10.77.0.1:5106 reset its old "
        "connection, on which it had sent nothing for 6.44 s",
    ),
    "hb-large-message": (
        "warn likely: PUB 10.9.0.1:5556 was still sending a message when SUB 10.9.0.2 closed, 712 ms after its PING in "
        "packet 72: the PONG can only follow the message",
    ),
    "ignition-healthy": (),
    "icmp-limited": (
        "error A firewall rejects connections to 10.77.0.1:6200 (ICMP destination unreachable): 10.77.0.2 tried "
        "21 times (46 SYNs) in 14.7 s to reach 10.77.0.1:6200",
    ),
    "ipp-engine-stopped": (
        'note likely: DEALER "2265dfd9-0503dc57b0e158fa4b7420fa" 127.0.0.1 sent nothing after packet 1198, for 38.7 s, '
        "while 1 other client of this endpoint goes on; its longest pause before was 3.01 s",
    ),
    "locust-worker-stopped": (
        'warn likely: DEALER "vm_cea99ec6dc224fe9b83ce67cd4063cf6" 127.0.0.1 sent nothing after packet 216, for 22 s, '
        "while 1 other client of this endpoint goes on; its longest pause before was 1.18 s",
    ),
    "mdp-workers-stopped": (
        "warn likely: DEALER 127.0.0.1 sent nothing after packet 128, for 25.8 s, though ROUTER 127.0.0.1:5555 sent "
        "4 messages since; its longest pause before was 2.5 s",
        "warn likely: DEALER 127.0.0.1 does not reply to ROUTER 127.0.0.1:5555: the last call (work) has no reply for "
        "25.3 s; the 7 before had one; so 1 caller of ROUTER 127.0.0.1:5555 waits too",
    ),
    "lb-idle-rst": (
        "error likely: a device between REQ 10.9.2.1 and REP 10.9.1.1:4506 reset their connection with the address "
        "of REP 10.9.1.1:4506, 3.32 s after it began: the RST has TTL 64, and the SYN of REP 10.9.1.1:4506 had 63; "
        "1 request had no reply yet",
    ),
    "jupyter-wrong-key": (
        'warn likely: DEALER "f41df8b1-a1d86ebf72c4d6c40a4de3d8" 10.9.0.2 sends 2 Jupyter requests to ROUTER '
        "10.9.0.1:50001, and the kernel sends neither a reply nor a status for 4.5 s, although it answers 5 heartbeats",
    ),
    "link-outage-delays": (
        "warn SUB 10.9.7.2 acknowledged no data of PUB 10.9.7.1:5577 for 6.25 s, sent again 5 times, and then "
        "acknowledged it: messages arrived that much later",
    ),
    "mtu-black-hole": (
        "error PULL 10.9.2.1:5558 does not acknowledge large segments of PUSH 10.9.1.1 since packet 22: 1448 "
        "octets, sent again 6 times in 6.53 s; all earlier data that arrived was smaller; 1 message may not have "
        "arrived",
    ),
    "multicast-group-mismatch": (
        "warn likely: 10.9.7.1 sends 20 datagrams to 239.10.1.1:5556, and 10.9.7.2 joined 239.10.1.2, which "
        "receives nothing: no host joined the destination group",
    ),
    "nat-idle-req-hang": (
        "error REP 10.9.1.1:4506 acknowledges no data of REQ 10.9.2.1 since packet 21: sent again 6 "
        "times in 6.51 s; 1 message may not have arrived",
    ),
    "proxies-in-a-circle": (
        "warn likely: XPUB 10.9.8.2:7002 and XPUB 10.9.8.1:6002 send each other the same message and others "
        "repeatedly: 53 times in 3.64 ms, since packet 102",
    ),
    "quiet-hang-meshcat": (
        "error REP 127.0.0.1:6000 does not reply to REQ 127.0.0.1: the request in packet 75 waits for 15.1 s; "
        "17 before were answered, median 0.451 ms",
    ),
    "rep-hang-6s-two-clients": (
        "error REP 127.0.0.1:5102 does not reply to REQ 127.0.0.1: the request in packet 45 waited without a reply "
        "for 3 s, until REQ 127.0.0.1 closed the connection; 44 others were answered, median 0.225 ms",
        "note REP 127.0.0.1:5102 took 5.91 s to reply to REQ 127.0.0.1; 43 other replies took 142 ms at most, median "
        "0.225 ms",
    ),
    "rep-hangs-quiet": (
        "error REP 127.0.0.1:5503 does not reply to REQ 127.0.0.1: the request in packet 23 waits for 12.4 s; "
        "3 before were answered, median 0.235 ms",
    ),
    "salt-minion-stopped": (
        "warn SUB 127.0.0.1 does not answer the heartbeats of PUB 127.0.0.1:4505: nothing arrived after the PING in "
        "packet 219, for 28.9 s and 3 PINGs (a PING every 10 s, 2 before answered in 0.128 ms); the same at "
        "127.0.0.1:4506",
    ),
    "sub-host-crash-returns": (
        "error SUB 10.77.0.2 acknowledges no data of PUB 10.77.0.1:5107 since packet 56: sent again 5 times in "
        "6.36 s; 3 messages may not have arrived",
        "note SUB 10.77.0.2 reconnected to PUB 10.77.0.1:5107 1.59 s before SUB 10.77.0.2 reset its old connection, "
        "on which it had sent nothing for 8.86 s",
        "note PUB 10.77.0.1:5107 closes its connection with SUB 10.77.0.2; no reconnection succeeded until the "
        "capture ended",
    ),
    "tcp-keepalive-dead": (
        "error SUB 10.9.2.1 answers none of 3 TCP keepalive probes of PUB 10.9.1.1:4505 for 3.07 s, until TCP gave up",
    ),
    "tinyrpc-server-pauses": (
        "note ROUTER 10.77.0.1:6200 took 7.33 s to reply to REQ 10.77.0.2; 38 other replies took 20.6 ms at most, "
        "median 0.47 ms",
    ),
    "tls-in-front": (
        "error likely: 10.9.7.2:5671 speaks TLS with 10.9.7.3, and 10.9.7.1 connects without TLS: "
        "the server closes each connection on the ZMTP greeting, 13 times in 9.2 s",
        "warn 10.9.7.1 connects to 10.9.7.2:5671 repeatedly without increasing its delay, 13 times in 9.2 s",
    ),
    "topic-prefix": (
        'note SUB 10.9.0.2 subscribed to "tx" and also gets "tx_trytes" (40 messages): a subscription matches every '
        "topic that begins with it",
    ),
    "unplugged-heartbeats-untold": (
        "error SUB 10.77.0.2 acknowledges no data of PUB 10.77.0.1:5104 since packet 94: sent again 5 times in "
        "6.75 s; 3 messages may not have arrived",
        "warn likely: SUB 10.77.0.2 and PUB 10.77.0.1:5104 have fallen silent: a PING came every 503 ms until packet "
        "86, and nothing at all for 6.77 s",
    ),
    "short-lived-push": (
        "warn likely: PUSH 10.9.0.2 closes 4 of 8 connections to PULL 10.9.0.1:5557 before the handshake is "
        "complete: a program that exits so early loses its queued messages",
    ),
    "curve-vouch": (
        "error likely: 10.9.0.1:9091 closes on the INITIATE of 10.9.0.2 without an ERROR: the public and secret key "
        "of the client do not match, or the socket types are incompatible, 16 times in 2.35 s",
        "warn 10.9.0.2 connects to 10.9.0.1:9091 repeatedly without increasing its delay, 17 times in 2.57 s",
    ),
    "curve-both-servers": (
        "error 10.9.0.1:5571 and 10.9.0.2 are both servers of CURVE: each waits for the HELLO of the other, 4 "
        "times in 4.99 s, every 1.67 s",
    ),
    "radio-dish-heartbeat": (
        "warn likely: DISH 10.9.0.2 closes 0.203 ms after the PING of RADIO 10.9.0.1:5570 and does not reconnect",
    ),
    "ready-above-limit": (
        "warn likely: PULL 10.9.8.1:5555 closes 0.0119 ms after the READY of PUSH 10.9.8.1, although their socket "
        "types fit, 13 times in 1.84 s",
        "warn PULL 10.9.8.1:5555 ends each connection of PUSH 10.9.8.1, which connects again, 13 times in 1.84 s",
    ),
    "curve-both-clients": ("error 10.9.8.1:5555 and 10.9.8.1 are both clients of CURVE: each sends HELLO",),
    "plain-both-servers": (
        "error likely: 10.9.8.1:5555 and 10.9.8.1 are both servers of PLAIN: each waits for the HELLO of the other",
    ),
    "closes-on-ping": (
        "warn likely: PUSH 10.9.8.1 closes 0.0835 ms after the PING of PULL 10.9.8.1:5555, 6 times in 3.96 s",
    ),
    "zerorpc-handler-blocks": (
        "warn likely: ROUTER 127.0.0.1:4242 does not reply to DEALER 127.0.0.1: the last 2 calls (block, add) have no "
        "reply for 20 s; the 10 before had one",
        "warn likely: ROUTER 127.0.0.1:4242 sent nothing after packet 40, for 20.3 s, though DEALER 127.0.0.1 sent "
        "4 messages since; its longest pause before was 332 ms",
    ),
    "socks5": (
        "warn The SOCKS5 proxy 10.9.0.1:1080 did not connect 10.9.0.2 to 127.0.0.1:5556, 10 times in 3.7 s: "
        "connection refused (reply 5); an attempt between these succeeded",
    ),
    "haproxy-send-proxy": (
        "error 10.9.0.2 sends a PROXY v1 header before ZMTP to 10.9.0.1:5555, which does not know it: no handshake "
        "succeeds",
    ),
    "service-killed": (
        "warn 127.0.0.1 left 3 endpoints within 11.2 ms: REP :7003, ROUTER :7001, PUB :7002; 4 connections ended; "
        "no reconnection succeeded until the capture ended",
        "warn Nothing listens at 3 endpoints of 127.0.0.1 any more: 127.0.0.1 tried 302 times",
    ),
    "tango-server-killed": (
        "note 127.0.0.1 left 2 endpoints within 5.42 ms: PUB :35557, PUB :34199; 4 connections ended; no client "
        "reconnected",
    ),
    "phantom-identity": (
        'warn likely: "12345" 10.9.0.2 sends its identity "12345" twice to 10.9.0.1:5555, which speaks ZMTP 1.0: the '
        "second one is received as a message",
    ),
    "pub-one-shot-proxy": (
        "warn likely: PUB 10.9.0.2 closes 5 of 5 connections to XSUB 10.9.0.1:5001 within 64.2 ms without a "
        "message, although a subscription arrived on each: messages published before it are lost",
    ),
    "router-old-address": (
        "warn likely: ROUTER 10.9.7.2:5571 sends nothing on the new connection of DEALER 10.9.7.1, on which 9 "
        "messages arrived in 8.86 s; on the old one it sent 13, as if it still used the routing id of that one",
    ),
    "self-connect": (
        "error The DEALER that connects to 127.0.0.1:40450 is connected to itself: nothing listened there, and TCP "
        "assigned that port to the client, so it receives its own messages and no server can bind there",
    ),
    "listener-never-greets": (
        "error 10.9.7.2:5555 accepts connections and sends nothing; 10.9.7.1 has been waiting for 11.9 s",
    ),
    "handshake-timer-zmtp2": (
        "warn likely: DEALER 10.9.7.1 closes each connection with ROUTER 10.9.7.2:5730 30 s after it began, 3 "
        "times, although messages pass: its handshake timer continues after a ZMTP 2.0 handshake",
    ),
    "req-relaxed-wrong-reply": (
        "warn REP 10.9.7.2:5570 answers late: REQ 10.9.7.1 had repeated its request before the reply to the one in "
        "packet 31 came, 7 times; REQ 10.9.7.1 reads each late reply as the answer to its next request",
    ),
    "connection-per-request": (
        "note REQ 10.9.8.1 opens a connection to REP 10.9.8.1:5555 for each of its 22 requests: each costs a "
        "handshake, and a port for a minute or more",
    ),
    "websocket-no-subprotocol": (
        "warn 10.9.7.1 opens a WebSocket without ZWS2.0 to 10.9.7.2:8080 (answer 101 Switching Protocols), and the "
        "other side closes it, 6 times in 7.6 s",
    ),
    "midstream-server-stopped": (
        "warn likely: 10.63.0.1:5612 does not reply to 10.63.0.2: the request in packet 59 waits for 9.88 "
        "s; 16 before were answered, median 0.166 ms",
    ),
    "proxy-forwards-messages-only": (
        "warn likely: The proxy XPUB 10.55.0.4:5592 forwards no subscription: SUB 10.55.0.2 subscribed to "
        '"k" there, and XSUB 10.55.0.4:5591 subscribed to nothing at PUB 10.55.0.1',
    ),
    "topic-at-another-port": (
        'note likely: SUB 10.69.0.2 subscribed to "orders" at PUB 10.69.0.1:5620, which sent nothing for '
        "8.12 s; PUB 10.69.0.1:5621 publishes it",
    ),
    "first-worker-gets-all": (
        "warn PULL 10.66.0.2 got 100 of the 100 messages of PUSH 10.66.0.1:5616, and PULL 10.66.0.3 0, which "
        "connected 294 ms later: the messages sent until then went to others",
    ),
    "publisher-host-crashed": (
        "warn likely: PUB 10.89.0.1:5576 sent nothing to SUB 10.89.0.2 after packet 32, for 12.2 s, while "
        "SUB 10.89.0.3 got 26 messages to which SUB 10.89.0.2 is subscribed, too",
    ),
    "subscription-by-hand": (
        "warn SUB 10.9.0.1 was connected to PUB 10.9.0.2:5556 for 8.4 s and never subscribed: it gets nothing; it sent "
        "an ordinary message instead",
    ),
    "topic-in-second-frame": (
        'warn likely: SUB 10.9.0.1 subscribed to "temp" at PUB 10.9.0.2:5556: none of at least 38 messages begins with '
        'it; the second frame of messages begins with it, and the first one is "{"v": 1}"',
    ),
    "one-backend-down": (
        "warn 10.9.50.1:5555 refuses some connections of 10.9.1.2 and accepts others in between: it refused 19 times",
    ),
    "mtu-publisher-goes-on": (
        "error SUB fd00:1::2 does not acknowledge large segments of PUB [fd00:2::2]:5556 since packet 53: 1428 octets, "
        "sent again 7 times in 8.7 s; all earlier data that arrived was smaller; 2 messages may not have arrived",
    ),
    "proxy-without-backend": (
        "error Nothing answers at 10.9.0.2:5558: 10.9.0.3 tried 5 times (10 SYNs) in 9.7 s to reach 10.9.0.2:5558; "
        "meanwhile 5 connections of 10.9.0.1 to 10.9.0.3:6000, which may pass them on, got no greeting",
    ),
    "fails-on-http": (
        "warn likely: 10.9.0.3 speaks HTTP to 10.9.0.2:5558, which is ZeroMQ; at once 10.9.0.2:5558 closed 3 other "
        "connections",
        "note ROUTER 10.9.0.2:5558 closes 3 connections with DEALER 10.9.0.1; no reconnection succeeded until the "
        "capture ended",
    ),
    "req-with-dropped-endpoint": (
        "error Nothing answers at 10.9.0.3:5555: 10.9.0.1 tried once (7 SYNs) in 7.1 s to reach 10.9.0.3:5555; REQ "
        "10.9.0.1 is connected to REP 10.9.0.2:5555 meanwhile",
    ),
    "bound-to-loopback": (
        "error Nothing listens at 10.9.0.2:5555: 10.9.0.1 tried 49 times in 7.4 s to reach 10.9.0.2:5555; "
        "127.0.0.1:5555 is served",
    ),
    "filter-resets-on-content": (
        "warn likely: a device between PUSH 10.9.1.2 and PULL 10.9.2.2:5557 reset their connection with the address of "
        "PULL 10.9.2.2:5557, 2.41 s after it began, 4 times in 9.08 s, every 3.01 s: the RST has TTL 64, and the SYN "
        "of PULL 10.9.2.2:5557 had 63",
    ),
    "wss-at-plain-websocket": ("warn 10.9.0.1 speaks TLS to 10.9.0.2:5580, which answers HTTP/1.1 400",),
    "routing-loop": (
        "error 10.77.2.2:5558 cannot be reached, as a router reports (ICMP): 10.9.1.2 tried 13 times (19 SYNs) in "
        "7.9 s to reach 10.77.2.2:5558",
    ),
    "worker-killed": (
        "note PULL 10.9.0.4:5557 closes its connection with PUSH 10.9.0.1; no reconnection succeeded until the capture "
        "ended; the PUSH goes on with 2 others",
    ),
    "answers-from-another-address": (
        "error 10.9.0.9:5558 answers connection attempts to 10.9.0.2:5558, and 10.9.0.1 resets its answers: 10.9.0.1 "
        "tried once (7 SYNs) in 7.1 s to reach 10.9.0.2:5558",
    ),
    "hairpin-at-server": (
        "error 10.9.0.2:5558 answers connection attempts, but 10.9.0.1 resets the answers: 10.9.0.1 tried 7 times in "
        "7.1 s to reach 10.9.0.2:5558, with the same SYN",
    ),
    "connect-timeout-too-short": (
        "error 10.9.0.2:5558 answers connection attempts, but 10.9.0.1 resets the answers: 10.9.0.1 tried 13 times in "
        "7.0 s to reach 10.9.0.2:5558",
    ),
    "queue-full": (
        "warn DEALER 10.9.0.1 connected to ROUTER 10.9.0.2:5558 only after 7.12 s, on 2 connections: the first SYNs "
        "were not answered; meanwhile the program did not accept 2 established connections either",
        "note likely: ROUTER 10.9.0.2:5558 sent nothing for 6.15 s after packet 51, though DEALER 10.9.0.3 sent 5 "
        "messages meanwhile; its next longest pause was 302 ms",
    ),
    "answer-lost": (
        "error 10.71.0.1:5555 answers connection attempts, but the answers do not reach the client, although it "
        "serves 10.71.0.3 meanwhile: 10.71.0.2 tried 4 times (13 SYNs) in 10.3 s to reach 10.71.0.1:5555",
    ),
    "identity-after-crash": (
        'error ROUTER 10.71.0.1:5555 still has the connection of "agent-7" from 10.71.0.2:58000, although its data was '
        "not acknowledged for 8.29 s, and ignores the new one from 10.71.0.2:58004: it sent 7 messages and received "
        "none",
        'error DEALER "agent-7" 10.71.0.2 acknowledges no data of ROUTER 10.71.0.1:5555 since packet 30: sent again 6 '
        "times in 8.29 s; 2 messages may not have arrived",
    ),
    "zerorpc-errors": (
        'note ROUTER 10.71.0.1:4242 answered 19 of 19 calls of divide with an error: "NameError: divide"',
    ),
    "path-loses-packets": (
        "warn likely: The path from 10.71.0.1 to 10.71.0.2 loses or reorders packets: data of PUB 10.71.0.1:5556 was "
        "sent again, or arrived late, 25 times in 10.8 s; messages arrive late, since each waits for the data before "
        "it",
    ),
    "path-loses-packets-at-receiver": (
        "note likely: The path from 10.71.0.1 to 10.71.0.2 loses or reorders packets: data of PUB 10.71.0.1:5556 was "
        "sent again, or arrived late, 10 times in 7.88 s; messages arrive late, since each waits for the data before "
        "it",
    ),
    "firewall-rejects-established": (
        "error REP 10.71.0.1:5555 acknowledges no data of REQ 10.71.0.2 since packet 57: a firewall rejects it (ICMP), "
        "sent again 6 times in 8.69 s; 1 message may not have arrived",
    ),
    "connections-limited": (
        "error 10.71.0.1:5555 refuses connections, although it serves 3 connections of 10.71.0.2 meanwhile: 10.71.0.2 "
        "tried 121 times in 6.0 s to reach 10.71.0.1:5555",
    ),
    "server-killed-at-work": (
        "error REP 10.71.0.1:5555 left 405 ms after REQ 10.71.0.2 had asked it in packet 28, and nobody asked again: "
        "the reply will not come: its REQ waits forever unless it has a timeout",
    ),
    "szrpc-healthy": (),
    "szrpc-workers-missing": (
        'note likely: ROUTER 10.88.0.1:9990 sent nothing to any client: DEALER "localhost-30101c1a" 10.88.0.2 has been '
        "waiting for 16.4 s after 1 message; the same on 1 other connection",
    ),
    "leco-actor-killed": (
        "warn likely: ROUTER 10.88.0.1:12300 does not reply to DEALER 10.88.0.3: the last 40 calls (get_parameters) "
        "have no reply for 23.6 s; the 41 before had one; DEALER 10.88.0.2 left 348 ms before the first of them",
        "warn likely: DEALER 10.88.0.3 gets nothing since DEALER 10.88.0.2 left: ROUTER 10.88.0.1:12300 sent nothing "
        "after packet 268, for 24.1 s, though DEALER 10.88.0.3 sent about 39 messages since",
    ),
    "logbook-subscriber-stopped": (
        "warn likely: SUB 10.77.0.2 did not read the data of PUB 10.77.0.1:6000 for at least 2 s, from packet 229 on: "
        "its system acknowledged it by a timer, and at once before",
    ),
    "xeus-kernel-busy": (
        "note ROUTER 10.88.0.1:6501, a Jupyter kernel, is busy with one request since packet 137, for 23.2 s, with 4 "
        'requests of DEALER "7b8778c0-fb2471682ea7660dc2d7b1fd" 10.88.0.2 waiting behind it',
    ),
    "helics-federate-stopped": (
        "note likely: PUSH 10.88.0.3 sent nothing after packet 787, for 22.5 s, though PUSH 10.88.0.1 sent 7 "
        "messages since; its longest pause before was 204 ms",
    ),
    "jupyter-client-cut-off": (
        "error SUB 10.88.0.2 acknowledges no data of XPUB 10.88.0.1:6502 since packet 260: sent again 6 times "
        "in 20.2 s; 5 messages may not have arrived; the same on 2 more connections",
    ),
    "aiozmq-calls-forgotten": (
        "warn likely: ROUTER 10.77.0.1:5830 does not reply to DEALER 10.77.0.2: 4 calls (add) have no reply for 15.6 "
        "s; 17 others had one",
    ),
    "leco-unknown-receiver": (
        "note ROUTER 10.77.0.1:12300 answered 42 of 42 calls of device.read with an error: "
        '"Receiver is not in addresses list."',
    ),
    "zeromqjs-overloaded": (
        "warn ROUTER 10.77.0.1:5895 does not keep up with the requests of DEALER 10.77.0.2: it replied after 22.2 ms "
        "at first and after 7.34 s at the end, and 64 or more wait",
    ),
    "zprocess-becomes-slow": (
        "note likely: REP 10.77.0.1:5810 became slow: its last replies to REQ 10.77.0.2, 13 of 73, took about 401 ms "
        "each, those before about 0.206 ms",
    ),
}
"""By capture: severity and sentence of each diagnosis; notes may be left out."""


def test_every_capture_has_its_sentences() -> None:
    assert {path.name.partition(".")[0] for path in REPORTED.glob("*.pcap*")} == set(SENTENCES)


@pytest.mark.parametrize("name", SENTENCES)
def test_the_cause_is_named_and_nothing_else_is_blamed(name: str) -> None:
    (path,) = REPORTED.glob(f"{name}.pcap*")
    found = [each for explained in diagnoses(path) for each in (explained.diagnosis, *explained.consequences)]
    sentences = {f"{each.severity} {each.statement}": each for each in found}
    assert set(SENTENCES[name]) <= sentences.keys()
    assert {text for text, each in sentences.items() if each.severity in FAILING} <= set(SENTENCES[name])


def test_workers_that_stopped_together_are_one_diagnosis() -> None:
    found = diagnoses(REPORTED / "mdp-workers-stopped.pcapng")
    (explained,) = [each for each in found if each.diagnosis.severity in FAILING]
    assert [each.rule for each in explained.consequences] == ["fell-silent"]
