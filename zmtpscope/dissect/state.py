"""Save an analyser between two blocks, and load it to continue with the same results (seam P14).

A saved state contains captured octets and session keys: keep it as private as captures and key files. It is a pickle,
so load only states that you wrote yourself.
"""

from __future__ import annotations

import copyreg
import gc
import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from hashlib import blake2b
from typing import Any

from zmtpscope.dissect.analyser import Analyser
from zmtpscope.dissect.options import Options
from zmtpscope.version import __version__

HEAD = f"zmtpscope {__version__} analyser\n".encode()
"""Start of a state, with the version: a state of another version does not fit the code."""

DIGEST_SIZE = 16

GIVEN_ANEW = ("keys", "payloads")
"""Options that a state omits: secrets, and third-party code. It only records whether each was set."""


class StateError(Exception):
    """A state cannot be saved, or does not fit the options. `str()` is one sentence with problem and remedy."""


def dump(analyser: Analyser) -> bytes:
    """Return the state of an analyser after its last block.

    Raises `StateError` if part of it cannot be pickled, for example a third-party payload dissector.
    """
    analyser.flows.reassembler.end_block()
    file = io.BytesIO()
    keys = analyser.options.keys
    pickle.dump((_options_to_match(analyser.options), keys and keys.mark()), file, pickle.HIGHEST_PROTOCOL)
    try:
        with _without_collections():
            _Pickler(file, analyser.options).dump(analyser)
    except Exception as error:  # a third-party payload dissector may raise anything
        raise StateError(
            f"cannot save the analyser: {type(error).__name__}: {error} -> an installed payload dissector "
            "holds a value that cannot be pickled; read without payloads, or report it to its author"
        ) from error
    body = file.getvalue()
    return HEAD + blake2b(body, digest_size=DIGEST_SIZE).digest() + body


def load(state: bytes, options: Options) -> Analyser:
    """Return the analyser of a saved state.

    `options` must equal the saved ones, with new keys and payload dissectors. The keys must come from the same files,
    which may have grown. Before the next block, call `Analyser.begin` with the earlier files, followed by new ones.
    Raises `StateError` if the state is damaged, or of another version or other options.
    """
    head, end, _ = state.partition(b"\n")
    if head + end != HEAD:
        raise StateError(f"not the state of an analyser of zmtpscope {__version__} -> start again without the state")
    body = state[len(HEAD) + DIGEST_SIZE :]
    if blake2b(body, digest_size=DIGEST_SIZE).digest() != state[len(HEAD) : len(HEAD) + DIGEST_SIZE]:
        raise StateError("the state of the analyser is damaged -> start again without the state")
    file = io.BytesIO(body)
    (asked, mark), wanted = pickle.load(file), _options_to_match(options)
    for name in wanted:
        if asked[name] != wanted[name]:
            raise StateError(
                f"the state was written with {name}={asked[name]!r}, not {wanted[name]!r} -> "
                "use the same options, or start again without the state"
            )
    if options.keys is not None:
        options.keys.resume(mark)
    with _without_collections():
        analyser: Analyser = _Unpickler(file, options).load()
    return analyser


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disable garbage collection: millions of objects are created and none becomes garbage, so it would take most of
    the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _options_to_match(options: Options) -> dict[str, object]:
    """Return the options that must be equal when a state is saved and loaded."""
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    return values | {name: values[name] is not None for name in GIVEN_ANEW}


def _given_anew(name: str) -> object:
    """Placeholder in the pickle for an omitted object; `_Unpickler` replaces it."""
    raise NotImplementedError(name)


class _Pickler(pickle.Pickler):
    """Pickles a state without the options.

    Objects are omitted by type, because `persistent_id` would be called for each number and text.
    """

    def __init__(self, file: io.BytesIO, options: Options) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        names = {id(options): "options"} | {id(getattr(options, name)): name for name in GIVEN_ANEW}

        def reduced(obj: object) -> Any:
            name = names.get(id(obj))
            return obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if name is None else (_given_anew, (name,))

        given = [options, *(value for name in GIVEN_ANEW if (value := getattr(options, name)) is not None)]
        self.dispatch_table = copyreg.dispatch_table | {type(value): reduced for value in given}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, options: Options) -> None:
        super().__init__(file)
        self.options = options

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, _given_anew.__name__):
            return self._given
        return super().find_class(module, name)

    def _given(self, name: str) -> object:
        return self.options if name == "options" else getattr(self.options, name)
