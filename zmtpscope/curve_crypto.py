"""The libsodium functions that CURVE needs (curve.md 7). Only this module imports PyNaCl.

Keys are 32 octets, nonces 24. A box is a 16-octet authenticator and the encrypted content, which is as long as the
plain content.
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
    """Compute a public key: X25519 with the base point; about 17 us. Raises `ValueError` if `secret` is not 32
    octets."""
    return crypto_scalarmult_base(secret)


def shared_key(public: bytes, secret: bytes) -> bytes | None:
    """Return the key that encrypts all boxes between the owners of two key pairs; takes about 32 us.

    None if libsodium refuses `public`, a point of low order, which would give the same key with every secret. Raises
    `ValueError` if a key is not 32 octets.
    """
    try:
        return crypto_box_beforenm(public, secret)
    except RuntimeError:
        return None


def open_box(box: bytes, nonce: bytes, key: bytes) -> bytes | None:
    """Decrypt a box; None if key or nonce are wrong, octets were changed, or it is no box.

    About 2 us and 0.65 ns an octet: once per message. Boxes made with a shared key and secret boxes (cookies) have the
    same format.
    """
    try:
        return crypto_secretbox_open(box, nonce, key)
    except CryptoError:
        return None


def seal_box(content: bytes, nonce: bytes, key: bytes) -> bytes:
    """Encrypt a box, which `open_box` decrypts with the same nonce and key. Never use a nonce twice with one key."""
    return crypto_secretbox(content, nonce, key)


def random_octets(count: int) -> bytes:
    return os.urandom(count)
