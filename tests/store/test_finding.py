"""Records that findings refer to are found, and conversations can be followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readings import CAPTURES
from tests.store.stores import FILES, opened, options_for
from zmtpscope.store import Store


def identity_of(store: Store, row: int) -> str:
    values = store.row(row)
    return "/".join(str(values.get(name)) for name in ("conn_id", "side", "source", "offset", "record"))


@pytest.mark.parametrize("path", FILES[::4], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_records_that_findings_refer_to_are_found(path: Path) -> None:
    for frames in (True, False):
        store, _ = opened(path, options_for(path, frames=frames))
        for row in range(len(store)):
            for reference in store.row(row).get("refs") or ():
                found = store.find(reference)
                if found is not None:
                    values = store.row(found)
                    if values["record"] == "message" and reference.endswith("/frame"):
                        offset = int(reference.split("/")[3])
                        assert values["offset"] <= offset
                    else:
                        assert identity_of(store, found) == reference
                else:
                    assert reference.endswith("/frame"), reference


def test_records_are_found_by_their_identity() -> None:
    store, _ = opened(CAPTURES / "patterns" / "pubsub.pcap")
    for row in range(len(store)):
        values = store.row(row)
        if values["record"] in ("message", "greeting", "command", "frame"):
            assert store.find(identity_of(store, row)) == row
    for wrong in ("", "a/b/c/d/e", "0000000000000000/0/0/0/message", "x/0/0/0/nothing", "1/2/3"):
        assert store.find(wrong) is None


def test_connections_peers_and_topics_are_followed() -> None:
    store, _ = opened(CAPTURES / "patterns" / "pubsub.pcap")
    rows = [store.row(row) for row in range(len(store))]

    def those(**wanted: object) -> list[int]:
        return [row for row, values in enumerate(rows) if all(values.get(k) == v for k, v in wanted.items())]

    assert store.follow(conn=1).tolist() == those(conn=1) != []
    assert store.follow(topic="a.topic").tolist() == those(topic="a.topic") != []
    assert store.follow(conn=2).tolist() == those(conn=2)
    assert store.follow(peer="nobody").tolist() == []


def test_a_peer_is_followed_on_all_its_connections() -> None:
    found = 0
    for path in FILES:
        store, _ = opened(path, options_for(path, frames=False))
        rows = [store.row(row) for row in range(len(store))]
        for peer in sorted({values["identity"] for values in rows if values.get("identity")})[:1]:
            conns = {values["conn"] for values in rows if values.get("identity") == peer}
            expected = [row for row, values in enumerate(rows) if values["conn"] in conns]
            assert store.follow(peer=peer).tolist() == expected
            found += 1
    assert found
