"""What CURVE needs of libsodium (curve.md 7): functions without state, and the only importer of PyNaCl.

Keys are 32 octets, nonces 24. A box is its 16-octet authenticator and behind it as many octets as its content. Times
are those of one core of a small machine.
"""

from __future__ import annotations

import os

from nacl.bindings import (
    crypto_box_beforenm,
    crypto_scalarmult_base,
    crypto_secretbox,
    crypto_secretbox_open,
)
from nacl.exceptions import CryptoError


def public_key(secret: bytes) -> bytes:
    """The public half that belongs to `secret`: X25519 with the base point; about 17 us.

    Raises `ValueError` where `secret` is not 32 octets.
    """
    return crypto_scalarmult_base(secret)


def shared_key(public: bytes, secret: bytes) -> bytes | None:
    """The key of all boxes between two owners of key pairs: `public` of the one, `secret` of the other; about 32 us.

    The same from either side. None where libsodium refuses `public`: a point of low order, with which every secret
    would give the same key. Raises `ValueError` where a key is not 32 octets.
    """
    try:
        return crypto_box_beforenm(public, secret)
    except RuntimeError:
        return None


def open_box(box: bytes, nonce: bytes, key: bytes) -> bytes | None:
    """The content of a box; None where it does not open: another key or nonce, changed octets, or no box at all.

    The authenticator is compared before anything is decrypted. About 2 us and 0.65 ns an octet: once per message. Opens
    boxes made with a shared key as well as secret boxes (cookies), which are the same thing.
    """
    try:
        return crypto_secretbox_open(box, nonce, key)
    except CryptoError:
        return None


def seal_box(content: bytes, nonce: bytes, key: bytes) -> bytes:
    """The box that `open_box` opens with the same nonce and key. A nonce must never serve twice with one key."""
    return crypto_secretbox(content, nonce, key)


def random_octets(count: int) -> bytes:
    """Octets that nobody can guess, from the operating system."""
    return os.urandom(count)
