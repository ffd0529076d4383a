"""Options of a read become settings, or an error of one sentence."""

from __future__ import annotations

import os
import pathlib
import pickle

import pytest

from zmtpscope.option_texts import Body, DecodeAs, ReadOptions
from zmtpscope.spark.settings import ReadSettings, SettingsError


def test_no_options_ask_for_messages_with_all_that_they_hold() -> None:
    assert ReadSettings.parse({"path": "a.pcap"}) == ReadSettings()
    assert ReadSettings().record == "message"


def test_options_are_texts_in_any_case(tmp_path: pathlib.Path) -> None:
    keys = [tmp_path / "a.keys", tmp_path / "b.keys"]
    for path in keys:
        path.touch()
    options = {
        "RECORD": "Findings",
        "columns": "id, text",
        "body": "head:1k",
        "payload": "json",
        "decode_as": "tcp.port==5555,zmtp/3.1; tcp.port==5556,zmtp///pub; topic==a\\x3bb,zmtp:json",
        "keys": os.pathsep.join(map(str, keys)),
        "port": "5555,5556",
        "host": "10.0.0.7,fd00::7",
        "from": "2026-05-01T12:00:00.000000001+02:00",
        "to": "1777629600000000002",
        "partitions": "8",
        "onerror": "fail",
    }
    settings = ReadSettings.parse(options)
    assert settings == ReadSettings(
        record="finding",
        columns=("id", "text"),
        options=ReadOptions(
            body=Body("head", 1024),
            payload="json",
            decode_as=(
                DecodeAs("tcp.port", 5555, "3.1"),
                DecodeAs("tcp.port", 5556, socket_type="PUB"),
                DecodeAs("topic", b"a;b", payload=("json", None)),
            ),
        ),
        keys=tuple(map(str, keys)),
        ports=frozenset({5555, 5556}),
        hosts=frozenset({b"\n\0\0\7", b"\xfd" + bytes(14) + b"\7"}),
        since=1777629600000000001,
        until=1777629600000000002,
        partitions=8,
        fails=True,
    )
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_options_may_be_values_of_python() -> None:
    settings = ReadSettings.parse({"columns": ["ts_ns", "topic"], "port": 5555, "from_": 1, "partitions": 2})
    assert settings.columns == ("ts_ns", "topic")
    assert (settings.ports, settings.since, settings.partitions) == ({5555}, 1, 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"recrod": "messages"}, "no option named 'recrod'; did you mean record?"),
        ({"record": "mesages"}, "option record: no table named 'mesages'; did you mean messages?"),
        ({"columns": "ts_ns,topik"}, "option columns: messages has no column 'topik'; did you mean topic?"),
        ({"columns": "topic,topic"}, "option columns: messages has the column 'topic' twice"),
        ({"columns": " , "}, "option columns: no column named"),
        ({"body": "x"}, "option body: 'x' is none of full, full:LIMIT, head:N and none; try full:64k or head:100"),
        ({"body": "full:2G"}, "option body: full:2G: Spark holds at most 1G of a body"),
        ({"payload": "jsn"}, "option payload: there is no payload dissector 'jsn'; did you mean json?"),
        ({"decode_as": "x"}, "option decode_as: 'x' is not of the form tcp.port==5555,zmtp/3.1/NULL/PUB:json"),
        (
            {"decode_as": "conn==3,zmtp"},
            "option decode_as: conn==3: connections have no numbers in Spark; name a port, tcp.port==5555,zmtp",
        ),
        ({"keys": "no.keys"}, "option keys: no.keys: no such file, or no permission to read it"),
        ({"port": "x"}, "option port: 'x' is not a port; use 0 to 65535"),
        ({"port": 70000}, "option port: '70000' is not a port; use 0 to 65535"),
        ({"host": "db"}, "option host: 'db' is not an IP address such as 10.0.0.7 or fd00::7"),
        ({"from": 5, "to": 5}, "option to: it must be later than the option from"),
        ({"partitions": "0"}, "option partitions: '0' is not a number of partitions; use 1 to 10000"),
        (
            {"filter": "topik == x"},
            "option filter: no field named topik; did you mean topic?\n  topik == x\n  ^^^^^",
        ),
        ({"filter": "tcp.stream == 1"}, "option filter: connections have no numbers in Spark; use conn_id"),
        (
            {"filter": "since_start > 1s"},
            "option filter: a worker does not know the time of the first packet; compare ts_ns",
        ),
        ({"onError": "ignore"}, "option onError: 'ignore' is neither continue nor fail"),
    ],
)
def test_mistakes_are_a_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        ReadSettings.parse(options)
    assert str(error.value) == sentence


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-05-01T10:00:00.1234567890", "-1", ""])
def test_an_invalid_time_is_an_error_of_a_sentence(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^option from: .* is not a time; use nanoseconds since 1970"):
        ReadSettings.parse({"from": text})


def test_octets_are_made_only_where_columns_hold_them() -> None:
    settings = ReadSettings.parse({"body": "head:100"})
    assert settings.dissect_options(["bodies"]).bodies == "head"
    assert settings.dissect_options(["bodies"]).payloads is not None  # a password in a body is known by its payload
    assert settings.dissect_options(["topic"]).bodies == "none"
    assert settings.dissect_options(["topic"]).payloads is None
    assert ReadSettings.parse({"record": "findings"}).dissect_options(["id"]).payloads is not None
