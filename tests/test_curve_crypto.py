"""The three functions of libsodium that CURVE needs, held to the handshake of curve.md 8."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curve_vector import (
    CLIENT,
    CLIENT_MESSAGE,
    CLIENT_METADATA,
    CLIENT_TRANSIENT,
    COOKIE,
    COOKIE_KEY,
    HELLO,
    INITIATE,
    READY,
    SERVER,
    SERVER_MESSAGE,
    SERVER_METADATA,
    SERVER_TRANSIENT,
    SHARED,
    WELCOME,
    Pair,
)
from zmtpscope.curve_crypto import open_box, public_key, shared_key


def opened(box: bytes, nonce: bytes, public: bytes, secret: bytes) -> bytes:
    key = shared_key(public, secret)
    assert key is not None
    content = open_box(box, nonce, key)
    assert content is not None
    return content


@pytest.mark.parametrize("pair", [SERVER, CLIENT, SERVER_TRANSIENT, CLIENT_TRANSIENT])
def test_a_secret_has_one_public_half(pair: Pair) -> None:
    assert public_key(pair.secret) == pair.public


def test_both_sides_share_a_key() -> None:
    assert shared_key(SERVER_TRANSIENT.public, CLIENT_TRANSIENT.secret) == SHARED
    assert shared_key(CLIENT_TRANSIENT.public, SERVER_TRANSIENT.secret) == SHARED


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31)])
def test_a_point_of_low_order_shares_no_key(public: bytes) -> None:
    assert shared_key(public, SERVER.secret) is None


def test_the_server_opens_hello_and_welcome() -> None:
    hello = opened(HELLO[120:], b"CurveZMQHELLO---" + HELLO[112:120], CLIENT_TRANSIENT.public, SERVER.secret)
    assert hello == bytes(64)
    welcome = opened(WELCOME[24:], b"WELCOME-" + WELCOME[8:24], CLIENT_TRANSIENT.public, SERVER.secret)
    assert welcome == SERVER_TRANSIENT.public + COOKIE


def test_the_cookie_key_opens_the_cookie() -> None:
    content = CLIENT_TRANSIENT.public + SERVER_TRANSIENT.secret
    assert open_box(COOKIE[16:], b"COOKIE--" + COOKIE[:16], COOKIE_KEY) == content


def test_the_shared_key_opens_everything_behind_the_welcome() -> None:
    initiate = open_box(INITIATE[113:], b"CurveZMQINITIATE" + INITIATE[105:113], SHARED)
    assert initiate is not None
    assert initiate[128:] == CLIENT_METADATA
    assert open_box(READY[14:], b"CurveZMQREADY---" + READY[6:14], SHARED) == SERVER_METADATA
    assert open_box(CLIENT_MESSAGE[16:], b"CurveZMQMESSAGEC" + CLIENT_MESSAGE[8:16], SHARED) == b"\0hello"
    assert open_box(SERVER_MESSAGE[16:], b"CurveZMQMESSAGES" + SERVER_MESSAGE[8:16], SHARED) == b"\1part-1"


def test_the_direction_is_part_of_the_nonce() -> None:
    assert open_box(CLIENT_MESSAGE[16:], b"CurveZMQMESSAGES" + CLIENT_MESSAGE[8:16], SHARED) is None


@given(st.integers(0, len(READY) - 15), st.integers(1, 255))
def test_a_box_with_a_changed_octet_stays_closed(place: int, change: int) -> None:
    box = bytearray(READY[14:])
    box[place] ^= change
    assert open_box(bytes(box), b"CurveZMQREADY---" + READY[6:14], SHARED) is None


@given(st.binary(max_size=64))
def test_octets_that_are_no_box_stay_closed(octets: bytes) -> None:
    assert open_box(octets, bytes(24), SHARED) is None


def test_an_empty_box_has_empty_content() -> None:
    from nacl.bindings import crypto_secretbox

    assert open_box(crypto_secretbox(b"", bytes(24), SHARED), bytes(24), SHARED) == b""


def test_keys_of_another_size_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="key"):
        shared_key(SERVER.public[1:], SERVER.secret)
