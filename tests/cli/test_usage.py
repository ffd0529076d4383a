"""Usage errors of every command: exit code 2, one sentence, and no output, file or process left."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

from tests.cli.running import Run
from tests.readings import CAPTURES, PUBSUB, REQREP

Case = tuple[list[object], str]

TEMPLATES: list[Case] = [
    (["-T", "fields", PUBSUB], "-T fields needs columns: -e topic"),
    (["-T", "fields", "-e", "topik", PUBSUB], "-e: no field named topik; did you mean topic?"),
    (["-T", "json", PUBSUB], "--json writes JSON lines"),
    (["-T", "pdml", PUBSUB], "no other type is supported"),
    (["-e", "topic", PUBSUB], "-e needs -T fields"),
    (["-E", "header=y", PUBSUB], "-E needs -T fields"),
    (["-T", "fields", "-e", "topic", "-E", "foo=1", PUBSUB], "-E: 'foo=1' is not one of separator="),
    (["-T", "fields", "-e", "topic", "--format", "{topic}", PUBSUB], "mutually exclusive"),
    (["--format", "{topik}", PUBSUB], "--format: no field named topik; did you mean topic?"),
    (["--format", "{topic}", "--json", PUBSUB], "cannot be combined with -q, --json"),
    (["-T", "fields", "-e", "topic", "-q", PUBSUB], "cannot be combined with -q, --json"),
    (["--format", "{topic}", "-V", PUBSUB], "cannot be combined with -q, --json"),
]
"""Errors of lines that users define, in `read` and `live`."""

USAGE: dict[str, list[Case]] = {
    "read": [
        ([], "name a capture to read"),
        (["--nope", PUBSUB], "--nope"),
        (["/no/such.pcap"], "/no/such.pcap: "),
        ([__file__], "is not a capture"),
        ([os.devnull], os.devnull),
        ([""], "'': no such file"),
        (["-c", "0", PUBSUB], "'-c': '0' is not a number of packets; use 1 or more (see"),
        (["-c", "x", PUBSUB], "'-c': 'x' is not a number of packets"),
        (["-t", "x", PUBSUB], "'-t'"),
        (["--body", "head", PUBSUB], "try full:64k or head:100"),
        (["-d", "tcp.port=80,zmtp", PUBSUB], "tcp.port==5555,zmtp/3.1/NULL"),
        (["-d", "sctp.port==80,zmtp", PUBSUB], "'sctp.port' selects nothing"),
        (["-d", "tcp.port==x,zmtp", PUBSUB], "a number is needed"),
        (["-d", "tcp.port==65536,zmtp", PUBSUB], "ports go from 0 to 65535"),
        (["-d", "conn==0,zmtp", PUBSUB], "connections are counted from 1"),
        (["-d", "conn==1,zmtp/4.0", PUBSUB], "there is no ZMTP 4.0"),
        (["-d", "conn==1,zmtp/3.1/TLS", PUBSUB], "'TLS' is not known"),
        (["-d", "conn==1,zmtp/3.1/NULL/PUB", PUBSUB], "only a port says which side is PUB"),
        (["-d", "tcp.port==1,zmtp/3.1/NULL/PUP", PUBSUB], "no socket type 'PUP'; did you mean PUB?"),
        (["-d", "tcp.port==1,zmtp//NULL/PUB", PUBSUB], "a mechanism needs the version in front of it"),
        (["-d", "tcp.port==1,zmtp/3.1/", PUBSUB], "something has to follow the last /"),
        (["-q", "--json", PUBSUB], "-q prints no records"),
        (["--json", "-V", PUBSUB], "cannot be combined with --json"),
        (["-", "--keys", "-"], "standard input cannot be both a capture and a key file"),
        (["-r", "-", "--keys", "-"], "standard input cannot be both a capture and a key file"),
        ([PUBSUB, "--keys", "-", "--keys", "-"], "standard input can be read only once"),
        *TEMPLATES,
    ],
    "fields": [
        (["nothing"], "nothing"),
    ],
    "reed": [
        ([PUBSUB], "reed"),
    ],
    "export": [
        ([PUBSUB], "'-o'"),
        (["-o", "out"], "name a capture to read"),
        ([PUBSUB, "-o", "out", "--format", "xml"], "'xml' is not one of"),
        ([PUBSUB, "-o", "out.parquet"], "-o names a directory, with a file for each record type; add --format parquet"),
        (["/no/such.pcap", "-o", "out"], "/no/such.pcap: "),
        ([__file__, "-o", "out"], "is not a capture"),
        ([PUBSUB, "-o", "out", "--body", "all"], "try full:64k"),
        ([PUBSUB, "-o", "out", "--select", "mesage"], "no record type named 'mesage'; did you mean message?"),
        ([PUBSUB, "-o", "out", "--select", "xyz"], "no record type named 'xyz'; there are connection, greeting,"),
        ([PUBSUB, "-o", "out", "--select", "message:topics"], "no column 'topics'; did you mean topic?"),
        ([PUBSUB, "-o", "out", "--select", "message:"], "message has no column ''"),
        ([PUBSUB, "-o", "out", "--select", "gap:conn,conn"], "gap has the column 'conn' twice"),
        ([PUBSUB, "-o", "out", "--select", "gap", "--select", "gap:conn"], "gap is selected twice"),
        (["-", "-o", "out", "--keys", "-"], "standard input cannot be both a capture and a key file"),
    ],
    "cat": [
        (["pull", "tcp://:1", "hello"], "a PULL socket sends no messages"),
        (["push", "tcp://h:1", "--expect", "x"], "a PUSH socket receives no messages, so --expect has no effect"),
        (["req", "tcp://h:1", "--echo"], "a REQ socket cannot --echo"),
        (["rep", "tcp://h:1", "--echo", "ok"], "--echo and MESSAGE are mutually exclusive"),
        (["push", "tcp://h:1", "--subscribe", "x"], "a PUSH socket cannot --subscribe"),
        (["dish", "tcp://h:1"], "--join GROUP"),
        (["dish", "tcp://h:1", "--join", "x" * 256], "'xxxxxxxxxxxxxxxxxxxx' is not a group: use at most 255 octets"),
        (["req", "tcp://h:1", "a", "--part", "b"], "--part and MESSAGE are mutually exclusive"),
        (["client", "tcp://h:1", "--part", "a", "--part", "b"], "messages of one part, not of 2"),
        (["radio", "tcp://h:1", "body"], "two parts, the group and the body, not 1"),
        (["router", "tcp://h:1", "body"], "names the peer: --part NAME"),
        (["req", "tcp://h:1", "--hex", "0g"], "'0g' is not hex"),
        (["req", "tcp://h:1", "@/no/such"], "@/no/such: no such file or directory"),
        (["req", "h:1", "x"], "'h:1' is not an endpoint"),
        (["req", "tcp://:1", "x"], "has no host to connect to"),
        (["req", "udp://h:1", "x"], "udp:// is not supported"),
        (["req", "tcp://h:1", "x", "--wait", "0"], "0 is not above 0"),
        (["req", "tcp://h:1", "x", "--wait", "nan"], "nan is not above 0"),
        (["req", "tcp://h:1", "x", "--rate", "inf"], "as fast as possible"),
        (["req", "tcp://h:1", "x", "-c", "0"], "0"),
        (["client", "tcp://h:1", "x", "--zmtp", "2.0"], "the socket type CLIENT needs ZMTP 3.0, not 2.0"),
        (["req", "tcp://h:1", "x", "--identity", "x" * 256], "an identity must have at most 255 octets"),
        (["sub", "tcp://h:1", "--separator", ""], "--separator: must not be empty"),
        (["sub", "tcp://h:1", "--force"], "--force needs -w FILE"),
        (["sub", "tcp://h:1", "-w", "/no/such/folder/x"], "no such file or directory"),
        (["what", "tcp://h:1"], "what"),
        (["req"], "ENDPOINT"),
    ],
    "probe": [
        (["tcp://127.0.0.1"], "has no port from 1 to 65535"),
        (["127.0.0.1:5555"], "is not an endpoint; use tcp://host:port or ipc://path"),
        (["pgm://127.0.0.1:5555"], "pgm:// is not supported"),
        (["tcp://127.0.0.1:1", "--expect", "socket-type=pub"], "socket-type is never 'pub'; did you mean PUB?"),
        (
            ["tcp://127.0.0.1:1", "--expect", "type=PUB"],
            "no value named 'type'; use one of version, mechanism, socket-type",
        ),
        (["tcp://127.0.0.1:1", "--expect", "ping"], "is not NAME=VALUE"),
        (["tcp://127.0.0.1:1", "--wait", "0"], "use more than 0 and at most 600 seconds"),
        (["tcp://127.0.0.1:1", "--wait", "nan"], "use more than 0 and at most 600 seconds"),
        (["tcp://127.0.0.1:1", "--user", "a", "--server-key", "b"], "are mutually exclusive"),
    ],
    "follow": [
        ([PUBSUB], "select one with --conn N (zmtpscope stats --by connection lists them)"),
        (["-"], "select what to follow with --conn N, --peer IDENTITY, --topic TOPIC or -Y FILTER"),
        (["--conn", 1], "name a capture to read"),
        ([REQREP, "--conn", 0], "--conn"),
        ([REQREP, "--conn", 1, "-Y", "topik"], "topik"),
        ([REQREP, "--conn", 1, "--json", "--as", "hex"], "--as and --json are mutually exclusive"),
    ],
    "keys": [
        (["list", "-", "-"], "standard input can be read only once"),
    ],
    "live": [
        ([], "name a source: -i lo captures from an interface"),
        (["-i", "lo", "x.pcap"], "x.pcap is a file to follow: use one of them"),
        (["x.pcap", "-f", "tcp"], "-f is for a capture with -i"),
        (["x.pcap", "-w", "y"], "-w is for a capture with -i"),
        (["tcp", "port", "5"], "'tcp port 5': follow one file, or capture with -i IFACE and this filter"),
        (["-i", "lo", "-f", "udp", "tcp"], "two capture filters: use -f 'udp', or 'tcp' without -f"),
        (["-i", "lo", "-w", "y", "-b", "files:2"], "add -b filesize:KB, duration:S or packets:N"),
        (["-i", "lo", "-b", "files:2"], "name them with -w"),
        (["-i", "lo", "-a", "files:2"], "is not one of duration:N, filesize:N, packets:N"),
        (["-i", "lo", "-a", "duration:0"], "must be above 0"),
        (["-i", "lo", "-a", "packets:1", "-a", "packets:2"], "packets is given twice"),
        (["-i", "lo", "-q", "--json"], "-q prints no records"),
        (["-", "--keys", "-"], "standard input cannot be both"),
        ([CAPTURES], "is a directory; name the file that is being written"),
        *TEMPLATES,
    ],
    "scan": [
        ([], "name a capture"),
        (["/nowhere"], "/nowhere"),
        ([__file__], "not a capture"),
    ],
    "-i": [
        (["lo"], "name a command first; type: zmtpscope live -i lo"),
        (["lo", "live", "-q"], "name the command first; type: zmtpscope live -i lo -q"),
    ],
    "-L": [
        ([], "name a command first; type: zmtpscope live -L"),
    ],
    "--json": [
        (["stats", "a.pcap"], "name the command first; type: zmtpscope stats --json a.pcap"),
    ],
    "-c": [
        (["5", "-Y", "conn", "check", "a.pcap"], "type: zmtpscope check -c 5 -Y conn a.pcap"),
    ],
    "tcp://127.0.0.1:5555": [
        ([], "type: zmtpscope probe tcp://127.0.0.1:5555"),
    ],
    "raed": [
        (["a.pcap"], "no command or file named 'raed'; did you mean read?"),
    ],
    "stats": [
        ([], "name a capture"),
        (["--interval", "0", "x"], "not an interval"),
        (["--interval", "soon", "x"], "no length of time"),
        (["--interval", "3d", "x"], "no length of time"),
        (["--by", "colour", "x"], "colour"),
        (["-Y", "topik", "x"], "did you mean topic"),
        (["/does/not/exist"], "/does/not/exist"),
        ([__file__], "not a capture"),
    ],
    "top": [
        ([], "name a capture"),
        (["--interval", "-1", "x"], "not an interval"),
        (["--interval", "0.0001", "x"], "not an interval"),
        (["--interval", "nan", "x"], "not an interval"),
        (["--sort", "connections", "x"], "topics have no column"),
        (["--by", "peer", "--sort", "subscribers", "x"], "peers have no column"),
        (["/does/not/exist"], "/does/not/exist"),
        ([__file__], "not a capture"),
        (["--follow", "x", "y"], "one file"),
        (["--follow", "--interval", "0", "x"], "a finished capture"),
        (["--follow", __file__], "not a capture"),
        (["-i", "lo", PUBSUB], "use one of them"),
        (["-f", "tcp", PUBSUB], "-f is for a capture"),
        (["-w", "out.pcapng", PUBSUB], "-w is for a capture"),
        (["-i", "lo", "--interval", "0"], "a finished capture"),
        (["--follow", os.curdir], "directory"),
    ],
}
"""Arguments and words of the error, by command or first word."""


@pytest.mark.parametrize(
    ("typed", "words"), [([command, *given], words) for command, cases in USAGE.items() for given, words in cases]
)
def test_a_usage_error_is_2_and_one_sentence(
    typed: list[object], words: str, zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        code, out, err = zmtpscope(*typed)
    sentence, *shown = err.splitlines()
    assert (code, out) == (2, "")
    assert sentence.startswith("zmtpscope")
    assert words in sentence
    assert all(line.startswith("  ") for line in shown), "below it stand only a filter and its carets"
    assert os.listdir(tmp_path) == []
