"""An example filter for each field, for `zmtpscope fields` and the page of fields."""

from __future__ import annotations

import re

from zmtpscope.filter.fields import FIELDS, Type

OF_FIRST_FIELD = r"""
schema == 1; record == message; conn == 3; conn_id == 1edb505c6d1ecf57; side == 0; ts_ns > "2026-11-22 16:08:25.5";
file contains monday; packet in {100..200}; src_ip == 10.0.0.0/8; src_port == 5555; dst_ip == fe80::/10;
dst_port in {5555, 5556}; source == 1; offset < 1000; length > 1MiB

start_ns < "2026-11-22 16:00"; end_ns > "2026-11-22 17:00"; ip_0 == 10.0.0.2; port_0 > 49151; ip_1 == 10.0.0.1;
port_1 == 5555; not opened_by and record == connection; security_server == 1; version != 3.1; transport == ws;
mechanism == NULL; socket_type_0 in {SUB, XSUB}; socket_type_1 == PUB; identity_0 == worker-1;
identity_1 matches "^broker"; handshake == failed; close == rst; closed_by == 1; closed_ns > "2026-11-22 16:00";
reset_by == 0; idle_ns > 5min; only_side; messages_0 > 1000; messages_1 == 0; bytes_0 > 1GiB; bytes_1 > 1GiB;
stream_bytes_0 > 1GiB; stream_bytes_1 > 1GiB; fin_ns_0 > "2026-11-22 16:00"; not fin_ns_1 and record == connection;
fin_acknowledged == false; rst_ns_1 > "2026-11-22 16:00"; syn_ttl < 64; rst_ttl == 64; rst_ack == false;
stalls_1 > 10; stalled_ns_0 > 1s; stalled_ns_1 > 1min; confidence != proven

version_announced == "3.0"; as_server == 1; socket_type == PUB; identity == worker-1; form == greeting-2;
not complete

name in {PING, PONG}; size > 1KiB; metadata.name == Identity; metadata.value contains worker; topic == prices.EUR;
group == news; reason == 400; close_code != 1000; ttl_ms > 30s; context contains "abc"; username == admin;
client_key[0:2] == 4f:11; server_key[0:2] == 4f:11; client_longterm_key contains "Yne@$w";
server_longterm_key contains "rq:rM>"; metadata_size > 100; socket_type_guess == DEALER; nonce == 1;
long_nonce[0:2] == 4f:11; token_size > 1KiB; token_kind contains "Kerberos"; data contains "abc"

parts > 2; all sizes > 1000; bodies[1] contains error; bodies_kept != full; packet_end > 1000;
ts_end_ns < "2026-11-22 16:08:26"; peer_socket_type == SUB; envelope == client-one; kind == encrypted;
payload.protocol == json; payload.summary contains error

flags == 0x04; long and size < 256; message == 91; body contains abc

uuid_0 == 700C6B0797F64E0EBA70DCFF763960B0; uuid_1 == BF6E9BEF32BC49DF8406D72E64CC96E1; name_0 == anna; name_1 == ben;
endpoint_0 contains ":49152"; endpoint_1 contains ":49152"; conn_0 == 1; conn_1 == 2; conn_id_0 == 2259cdd6a53514b0;
conn_id_1 == 1d36fe9b94ac7e1e; discovery_ns > 1s

bytes > 1448; not resumed_at and record == gap; duration_ns > 1s; until == running; until_ns > "2026-11-22 16:00";
icmp contains rejected; longest_ns > 200ms; acknowledged == false; retransmissions > 3; smallest > 1000;
largest > 1400; id == ZMTP-CONN-14; severity in {error, warn}; text contains "refused"; section contains "ZMTP 3.1";
refs contains "1edb505c6d1ecf57"; count > 10; last_packet > 1000; answer == lost; answered_by == 10.0.0.1:5555

outcome in {open, unanswered}; latency_ns > 100ms; waited_ns > 1s; rtt_ns > 10ms; reply_ts_ns > "2026-11-22 16:08:26";
reply_packet > 1000; reply_offset == 91; reply_size > 1KiB

ended_by == close; times > 1; delay_ns > 50ms; messages == 0; first_ns > "2026-11-22 16:08:26";
last_ns < "2026-11-22 16:08:26"; address == 10.0.0.1:5555; role == listens; remote == 10.0.0.1:5555; connections > 1;
state == gone; cadence_ns < 1s; departures.ts_ns > 1795000000000000000; departures.conn_id == 2259cdd6a53514b0;
departures.cause == heartbeat; departures.by == itself; messages_sent > 1000; messages_received == 0;
publisher == 10.0.0.1:5556; subscribers == 0; subscriber == 10.0.0.2

rule == late-subscriber; subject contains "5556"; certainty == likely; evidence.ts_ns > 1795000000000000000;
evidence.file == capture.pcap; evidence.packet == 12; evidence.ref contains "1edb505c6d1ecf57";
evidence.text contains SUBSCRIBE; not because_of

any frame_sizes > 1MiB; body_texts matches "err(or)?"; ip == 10.0.0.1; port == 5555; since_start > 1.5s

time > "2026-11-22 16:08:25.5"; type == finding; finding == CURVE-26

frame.number == 17; frame.time > "2026-11-22 16:08:25"; frame.time_epoch > 1795230534.5; frame.time_relative < 1.5;
tcp.stream == 0; ip.src == 10.0.0.1; ip.dst == 10.0.0.0/8; ip.addr == 10.0.0.1; ipv6.src == ::1;
ipv6.dst == fe80::/10; ipv6.addr == ::1; tcp.srcport == 5555; tcp.dstport == 5555; tcp.port == 5555;
udp.srcport == 5670; udp.dstport == 5670; udp.port == 5670; zmtp.mechanism == CURVE; zmtp.as-server == 1;
zmtp.version == "3.1"; zmtp.command-name == READY; zmtp.length > 1000; zmtp.flags == 0x04;
zmtp.metadata.key == Identity; zmtp.metadata.value == PUB; zmtp.username == admin; zmtp.reason == 400;
zmtp.ping.ttl > 300; zmtp.ping.context == 61:62:63; zmtp.data contains 01:ff; zmtp.data.text contains error
"""
"""Examples of the first field that they name."""

_FIELD = re.compile(r"(?:not |all |any )?([\w.-]+)")
EXAMPLES = {_FIELD.findall(each)[0]: each for each in re.split(r";\s*|\n+", OF_FIRST_FIELD.strip())} | {
    "metadata": "metadata.name == Identity",
    "payload": "payload.fields.price > 3",
    "payload.fields": "payload.fields.price > 3",
    "departures": "departures.cause == heartbeat",
    "evidence": "evidence.packet == 12",
    "command.version": 'version == "1.0"',
    "datagram.kind": "kind == beacon",
    "gap.reason": "reason contains acknowledged",
    "leftover.kind": "kind == undissected",
    "leftover.reason": 'reason contains "not captured"',
}


def example_of(name: str, record: str | None) -> str:
    """Return an example filter for a field, which matches records of this type (None: any type)."""
    given = EXAMPLES.get(f"{record}.{name}") or EXAMPLES.get(name)
    return given or (f"{name} > 0" if FIELDS[name].type is Type.NUMBER else name)
