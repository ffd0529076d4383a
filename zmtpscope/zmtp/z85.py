"""Z85 (32/Z85): 4 octets as 5 printable characters, the form in which people keep CURVE keys."""

from __future__ import annotations

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

_VALUES = {character: value for value, character in enumerate(ALPHABET)}


def encode(octets: bytes) -> str:
    """The text of `octets`, whose number is a multiple of 4."""
    digits = []
    for start in range(0, len(octets), 4):
        number = int.from_bytes(octets[start : start + 4])
        digits += [ALPHABET[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(digits)


def decode(text: str) -> bytes:
    """The octets of `text`. Raises ValueError where it is no Z85."""
    if len(text) % 5:
        raise ValueError("the number of characters is no multiple of 5")
    octets = bytearray()
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            if character not in _VALUES:
                raise ValueError("a character is not in the alphabet of Z85")
            number = number * 85 + _VALUES[character]
        if number >> 32:
            raise ValueError("five characters stand for more than 4 octets")
        octets += number.to_bytes(4)
    return bytes(octets)
