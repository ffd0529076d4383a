"""Commands that can be recognised without a captured greeting."""

from __future__ import annotations

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout, read_opaque
from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.mechanisms import curve, plain
from zmtpscope.zmtp.mechanisms.null import build_error, read_error
from zmtpscope.zmtp.metadata import build_metadata, read_metadata
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Regime


def read_hello(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse a HELLO whose mechanism was not captured.

    It is a HELLO of CURVE if size and version match. Otherwise it is parsed as PLAIN, so that passwords are masked.
    """
    of_curve = reader.offset + reader.left - reader.body == curve.HELLO_SIZE and reader.starts_with(b"\1\0")
    read = curve.read_hello if of_curve else plain.read_hello
    read(reader, regime, fields)


def read_ready(reader: Reader, regime: Regime, fields: Fields) -> None:
    read = read_metadata if reader.starts_with(b"\x0bSocket-Type") else read_opaque
    read(reader, regime, fields)


UNSEEN = Mechanism(
    "",
    (
        Layout("HELLO", read_hello, plain.build_hello, sender="client"),
        Layout("READY", read_ready, build_metadata, last=True),
        Layout("ERROR", read_error, build_error),
    ),
    steps={},
    misspellings=(plain.MISSPELT_HELLO, plain.MISSPELT_ERROR),
    nonce_at={"HELLO": curve.BOXES["HELLO"].nonce.start},
)
